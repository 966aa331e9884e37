/*
 * engine.c: creates and destroys engines, and reads and writes the memory of their devices between runs.
 */
#include "runtime/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/narrow.h"
#include "runtime/agree.h"
#include "runtime/host_memory.h"
#include "runtime/record.h"

enum { LITTLE_BYTES = 64 << 20 };

/* The largest part of a value that is sent between ranks at a time, in bytes. */
enum { FETCHED_BYTES = 1 << 20 };

/* ---- memory ---- */

/* Returns the number of rings of records of a device. */
static uint32_t count_rings(const bg_plan *plan, const bgi_plan_device *device)
{
    return !plan->options.reporting.trace ? 0 : device->transfer_count > 0 ? 2 : 1;
}

/* Returns the bytes of the tables for the edges and devices of all replicas. The result is a double, because a sum of
 * sizes may overflow although each size fits. */
static double count_table_bytes(const bg_plan *plan)
{
    const size_t link_bytes = sizeof(bgi_link) + 2 * sizeof(bgi_counter);
    const size_t group_bytes = sizeof(bgi_group) + sizeof(uint32_t) + 2 * sizeof(bgi_counter);
    const uint64_t tables = (uint64_t)plan->edge_count * link_bytes +
                            (uint64_t)plan->device_count * (sizeof(bgi_runner) + (BG_MESH_ALL + 1) * group_bytes);

    return (double)tables * plan->replicas;
}

static double count_ring_bytes(const bg_plan *plan, const bgi_plan_device *device)
{
    return (double)count_rings(plan, device) * plan->options.reporting.trace_events * (double)sizeof(bg_trace_event);
}

uint64_t bgi_engine_table_bytes(const bg_plan *plan)
{
    double bytes = count_table_bytes(plan);

    for (uint32_t d = 0; d < plan->device_count; d++)
        bytes += count_ring_bytes(plan, &plan->devices[d]) * plan->replicas;
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

/* Returns the bytes of this rank's devices, and of the tables that grow with the number of all devices. */
static uint64_t count_bytes(const bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;
    double bytes = count_table_bytes(plan);

    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_plan_device *device = &plan->devices[i % plan->device_count];
        const bool is_file = engine->stores.address != NULL && engine->stores.address(engine->stores.user, i) != NULL;
        if (!bgi_ranks_has(engine->ranks, i))
            continue;
        bytes -= engine->in_place != NULL ? (double)engine->in_place[i % plan->device_count].bytes : 0.0;
        bytes += (double)device->arena_bytes + (is_file ? 0.0 : (double)device->remote_bytes);
        bytes += count_ring_bytes(plan, device);
    }
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

static bg_status check_memory(const bgi_engine *engine, bg_error *error)
{
    const uint64_t bytes = count_bytes(engine);
    bgi_host_memory memory;

    /* Small amounts are allocated without checking the machine's memory, because the check would take longer than the
     * allocation. */
    if (engine->plan->options.memory.no_memory_check || bytes < LITTLE_BYTES)
        return BG_OK;
    memory = bgi_host_memory_read("");
    return bgi_host_memory_check(&memory, engine->plan, bytes, error);
}

/* Reports the progress of a device's creation. Remote memory in files is counted when the files are made. */
static bg_status begin_device(const bgi_engine *engine, uint32_t index, bgi_progress *progress, bg_error *error)
{
    const uint32_t replica = index / engine->plan->device_count, number = index % engine->plan->device_count;
    const bgi_plan_device *device = &engine->plan->devices[number];
    char name[64];

    if (engine->plan->replicas == 1)
        snprintf(name, sizeof name, "memory of device %u", number);
    else
        snprintf(name, sizeof name, "memory of replica %u, device %u", replica, number);
    return bgi_progress_begin(progress, name,
                              device->arena_bytes + (engine->stores.user == NULL ? device->remote_bytes : 0), error);
}

static bg_status take_memory(bgi_engine *engine, bgi_progress *progress, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_plan_device *device = &plan->devices[i % plan->device_count];
        const bg_memory_options *memory = &plan->options.memory;
        bgi_device_setup setup = {.arena_bytes = device->arena_bytes,
                                  .store_bytes = device->remote_bytes,
                                  .allocate = memory->allocate,
                                  .release = memory->release,
                                  .allocator_user = memory->allocator_user};
        BGI_TRY(begin_device(engine, i, progress, error));
        /* Weights are at the arena's beginning. The bytes of weights that are read in place stay unused, and all other
         * weights are written before they are read. */
        if (engine->in_place != NULL)
            setup.unused_bytes = device->class_bytes[BG_MEMORY_WEIGHTS];
        if (device->remote_bytes > 0 && engine->stores.address != NULL)
            setup.store = engine->stores.address(engine->stores.user, i);
        if (bgi_ranks_has(engine->ranks, i))
            BGI_TRY(engine->device_type->create(&setup, &engine->devices[i], error));
    }
    return BG_OK;
}

/* Allocates float32 accumulators for summed outputs of 16 bits. */
static bg_status take_sums(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t i = 0; i < engine->sum_count; i++) {
        const bgi_plan_output *output = &plan->outputs[i / plan->replicas];
        const size_t count = (size_t)bg_type_element_count(&output->type);
        if (output->mode != BG_OUTPUT_SUM || !bgi_dtype_is_narrow(output->type.dtype))
            continue;
        engine->sums[i] = calloc(count, sizeof *engine->sums[i]);
        if (engine->sums[i] == NULL)
            return bgi_error_memory(error, "the sum of an output", count * sizeof *engine->sums[i]);
    }
    return BG_OK;
}

/* Returns a number of entries that suffices for the table of groups and for that of their members: for each device and
 * set of axes, neither has more entries than there are replicas. */
static size_t count_groups(const bg_plan *plan)
{
    return (size_t)plan->device_count * (BG_MESH_ALL + 1) * plan->replicas;
}

static bg_status take_tables(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;
    const size_t link_count = (size_t)plan->replicas * plan->edge_count;

    engine->runners = bgi_take_pages(engine->device_count, sizeof *engine->runners);
    engine->local = calloc((size_t)engine->device_count + 1, sizeof(bgi_runner *));
    engine->links = calloc(link_count + 1, sizeof *engine->links);
    engine->groups = calloc(count_groups(plan), sizeof *engine->groups);
    engine->members = calloc(count_groups(plan), sizeof *engine->members);
    if (plan->options.reporting.trace)
        engine->sent_ns = calloc(link_count + 1, sizeof *engine->sent_ns);
    if (plan->options.reporting.trace)
        engine->run_spans.spans = calloc(BGI_RUN_SPANS, sizeof *engine->run_spans.spans);
    engine->devices = calloc(engine->device_count, sizeof(bgi_device *));
    engine->sum_count = plan->output_count * plan->replicas;
    engine->sums = calloc((size_t)engine->sum_count + 1, sizeof *engine->sums);
    engine->output_devices = calloc((size_t)plan->output_count + 1, sizeof *engine->output_devices);
    if (engine->ranks != NULL) {
        engine->rank_progress = calloc(engine->ranks->carrier->rank_count, sizeof *engine->rank_progress);
        engine->gate.ready = calloc(engine->ranks->carrier->rank_count, sizeof *engine->gate.ready);
        engine->gate.ends = calloc(engine->ranks->carrier->rank_count, sizeof *engine->gate.ends);
    }
    if (engine->runners == NULL || engine->local == NULL ||
        (engine->ranks != NULL &&
         (engine->rank_progress == NULL || engine->gate.ready == NULL || engine->gate.ends == NULL)) ||
        engine->links == NULL || engine->groups == NULL || engine->members == NULL ||
        (plan->options.reporting.trace && (engine->sent_ns == NULL || engine->run_spans.spans == NULL)) ||
        engine->devices == NULL || engine->sums == NULL || engine->output_devices == NULL)
        return bgi_error_memory(error, "the engine", engine->device_count * sizeof *engine->runners);
    return BG_OK;
}

/* Records the order of turns. bgi_plan_check has verified that each number occurs once. */
static bg_status take_turns(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    if (!bgi_plan_is_strict(plan))
        return BG_OK;
    for (uint32_t d = 0; d < plan->device_count; d++)
        engine->turn_count += plan->devices[d].instruction_count;
    engine->turn_devices = calloc((size_t)engine->turn_count + 1, sizeof *engine->turn_devices);
    if (engine->turn_devices == NULL)
        return bgi_error_memory(error, "turns", engine->turn_count * sizeof *engine->turn_devices);
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            engine->turn_devices[plan->devices[d].instructions[i].turn] = d;
    return BG_OK;
}

static uint32_t count_widest_call(const bgi_plan_device *device)
{
    uint32_t widest = 1;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        for (uint32_t c = 0; c < device->instructions[i].call_count; c++) {
            const bgi_call *call = &device->instructions[i].calls[c];
            if (call->input_count + call->output_count > widest)
                widest = call->input_count + call->output_count;
        }
    return widest;
}

/* Returns the largest number of tensors that a device contributes to a collective operation; a collective call has one.
 */
static size_t count_most_exchanges(const bgi_plan_device *device)
{
    size_t most = 1;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        if (device->instructions[i].reduced_count > most)
            most = device->instructions[i].reduced_count;
    return most;
}

static bg_status make_room(bgi_brought *brought, const bgi_plan_device *device, bg_error *error)
{
    const size_t most = count_most_exchanges(device);

    brought->all = bgi_take_pages(most, sizeof *brought->all);
    brought->round = bgi_take_pages(most, sizeof *brought->round);
    return brought->all != NULL && brought->round != NULL
               ? BG_OK
               : bgi_error_memory(error, "exchanges", 2 * most * sizeof *brought->all);
}

bool bgi_has_sums_beside(const bgi_plan_device *device)
{
    for (uint32_t i = 0; i < device->instruction_count; i++)
        if (device->instructions[i].is_beside)
            return true;
    return false;
}

static size_t find_largest_output(const bg_plan *plan)
{
    size_t most = 1;

    for (uint32_t i = 0; i < plan->output_count; i++)
        if (bg_type_size_bytes(&plan->outputs[i].type) > most)
            most = bg_type_size_bytes(&plan->outputs[i].type);
    return most;
}

/* ---- runners ---- */

static bg_status init_device(bgi_engine *engine, uint32_t replica, uint32_t number, bg_error *error)
{
    const bg_plan *plan = engine->plan;
    const uint32_t first = replica * plan->device_count;
    bgi_runner *runner = &engine->runners[first + number];
    const uint32_t widest = count_widest_call(&plan->devices[number]);

    runner->engine = engine;
    runner->plan = plan;
    runner->program = &plan->devices[number];
    if (runner->program->instruction_count > 0)
        runner->instruction_share = (UINT64_C(1) << 32) / runner->program->instruction_count;
    runner->replica = replica;
    runner->number = number;
    runner->device = engine->devices[first + number];
    if (engine->in_place != NULL && engine->in_place[number].count > 0)
        runner->in_place = &engine->in_place[number];
    runner->transport = engine->transport;
    runner->index = first + number;
    runner->first_link = replica * plan->edge_count;
    if (engine->sent_ns != NULL)
        runner->sent_ns = &engine->sent_ns[runner->first_link];
    runner->is_between_runs = true;
    runner->env.seed = plan->options.numerics.seed;
    runner->env.training = plan->training;
    runner->kernel_call.env = &runner->env;
    atomic_init(&runner->wait_counter, &engine->runs);
    atomic_init(&runner->wait_target, 1);
    atomic_init(&runner->call, BGI_NO_CALL);
    runner->operands = bgi_take_pages(widest, sizeof *runner->operands);
    if (runner->operands == NULL)
        return bgi_error_memory(error, "operands", widest * sizeof *runner->operands);
    runner->kernel_call.operands = runner->operands;
    BGI_TRY(make_room(&runner->brought, runner->program, error));
    if (runner->device->type->map == NULL) {
        runner->host_value = malloc(find_largest_output(plan));
        if (runner->host_value == NULL)
            return bgi_error_memory(error, "an output", find_largest_output(plan));
    }
    if (runner->program->piece_axes != 0) {
        runner->peer_done = calloc(plan->replicas, sizeof *runner->peer_done);
        if (runner->peer_done == NULL)
            return bgi_error_memory(error, "replicas", plan->replicas * sizeof *runner->peer_done);
    }
    if (plan->options.reporting.trace) {
        BGI_TRY(bgi_trace_init(&runner->trace, plan->options.reporting.trace_events, error));
        BGI_TRY(bgi_call_times_init(&runner->call_times, runner->program, error));
        runner->is_traced = true;
    }
    atomic_init(&runner->sum_counter, &engine->runs); /* any valid counter; no sum waits yet */
    runner->put_off = BGI_NO_INSTRUCTION;
    if (bgi_has_sums_beside(runner->program))
        BGI_TRY(make_room(&runner->sum_brought, runner->program, error));
    if (plan->options.reporting.trace && (runner->program->transfer_count > 0 || runner->sum_brought.all != NULL))
        BGI_TRY(bgi_trace_init(&runner->io_trace, plan->options.reporting.trace_events, error));
    return BG_OK;
}

/* Lists devices in the order in which workers search for one to take. */
static void list_local(bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t d = plan->device_count; d-- > 0;)
        for (uint32_t replica = 0; replica < plan->replicas; replica++)
            if (bgi_engine_has(engine, replica, d))
                engine->local[engine->local_count++] = &engine->runners[replica * plan->device_count + d];
}

static void find_output_devices(bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            for (uint32_t c = 0; bgi_instruction_brings_out(instruction) && c < instruction->copy_count; c++)
                engine->output_devices[instruction->copies[c].stream] = d;
        }
}

static bool init_waiting(bgi_engine *engine)
{
    if (!bgi_event_count_init(&engine->events))
        return false;
    if (!bgi_event_count_init(&engine->io_events))
        goto clear_events;
    if (pthread_mutex_init(&engine->mutex, NULL) != 0)
        goto clear_io_events;
    if (!bgi_condition_init(&engine->changed))
        goto clear_mutex;
    if (pthread_mutex_init(&engine->gate.mutex, NULL) != 0)
        goto clear_changed;
    if (pthread_mutex_init(&engine->help_mutex, NULL) == 0)
        return true;
    pthread_mutex_destroy(&engine->gate.mutex);
clear_changed:
    pthread_cond_destroy(&engine->changed);
clear_mutex:
    pthread_mutex_destroy(&engine->mutex);
clear_io_events:
    bgi_event_count_clear(&engine->io_events);
clear_events:
    bgi_event_count_clear(&engine->events);
    return false;
}

/* ---- transport ---- */

static void list_links(bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t i = 0; i < plan->replicas * plan->edge_count; i++) {
        const bgi_plan_edge *edge = &plan->edges[i % plan->edge_count];
        const uint32_t first = i / plan->edge_count * plan->device_count;
        engine->links[i] = (bgi_link){.from = first + edge->from_device,
                                      .to = first + edge->to_device,
                                      .depth = edge->depth,
                                      .slot_bytes = edge->slot_bytes,
                                      .offset = edge->offset};
    }
}

/* Lists the groups; a group of one replica communicates with no other. */
static void list_groups(bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;
    const bg_mesh mesh = bgi_plan_mesh(plan);
    uint32_t *next = engine->members;

    for (uint32_t device = 0; device < plan->device_count; device++)
        for (uint32_t axes = 0; axes <= BG_MESH_ALL; axes++)
            for (uint32_t replica = 0; replica < plan->replicas; replica++) {
                const uint32_t size = bg_mesh_group_size(&mesh, axes);
                bgi_group *group = &engine->groups[bgi_engine_group(engine, device, axes, replica)];
                if (size == 1 || group->size > 0)
                    continue;
                *group = (bgi_group){size, next};
                for (uint32_t member = 0; member < size; member++)
                    *next++ = bg_mesh_group_at(&mesh, axes, replica, member) * plan->device_count + device;
            }
}

static void raise_counter(void *user, bgi_counter *counter, uint64_t value, uint32_t device)
{
    bgi_engine *engine = user;

    bgi_counter_raise(counter, value, &engine->runners[device]);
    if (bgi_sum_is_wanted(&engine->runners[device]))
        bgi_io_wake(engine);
}

static void wake_all(void *user)
{
    bgi_engine *engine = user;

    bgi_event_count_notify_all(&engine->events);
    if (bgi_event_count_has_sleepers(&engine->io_events)) /* wakes I/O threads for sums that overlap with the program */
        bgi_event_count_notify_all(&engine->io_events);
}

/* Makes workers leave, because a device has failed, here or on another rank. */
static void stop(bgi_engine *engine)
{
    atomic_store(&engine->has_failed, true);
    atomic_store(&engine->is_stopping, true);
    bgi_event_count_notify_all(&engine->events);
    bgi_event_count_notify_all(&engine->io_events);
    pthread_mutex_lock(&engine->mutex);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

/* Stores the failure of another rank and makes workers leave. */
static void lose(void *user, bg_status status, const char *why)
{
    bgi_engine *engine = user;

    snprintf(engine->lost, sizeof engine->lost, "%s", why);
    engine->lost_status = status;
    stop(engine);
}

/* Returns the rank to which bgi_host_of gives the number `host`. */
static uint32_t rank_of_host(uint32_t host)
{
    return BGI_HOST - 1 - host;
}

void bgi_engine_told(void *user, uint32_t to, const bgi_note *note)
{
    bgi_engine *engine = user;
    bgi_runner *runner = to < engine->device_count ? &engine->runners[to] : NULL;

    switch (note->kind) {
    case BGI_NOTE_TURN:
        bgi_counter_raise(&runner->turn, note->value, runner);
        break;
    case BGI_NOTE_MOVED:
        bgi_io_peer_moved(runner, note->from / engine->plan->device_count, note->value);
        break;
    case BGI_NOTE_GRANT:
        bgi_gate_granted(engine, note->more);
        atomic_store(&runner->end, note->more);
        bgi_counter_raise(&runner->granted, note->value, runner);
        break;
    case BGI_NOTE_READY:
        bgi_gate_ready(engine, rank_of_host(note->from), note->value, note->more);
        break;
    case BGI_NOTE_STOP:
        bgi_gate_stop(engine);
        break;
    case BGI_NOTE_ALIVE:
        atomic_store(&engine->rank_progress[rank_of_host(note->from)], note->value);
        break;
    case BGI_NOTE_ASK:
        bgi_gate_ask(engine, note->more);
        break;
    case BGI_NOTE_VOTE:
        bgi_gate_vote(engine, note->more, note->value != 0);
        break;
    case BGI_NOTE_FAILED:
        stop(engine);
        break;
    }
}

static bg_status open_transport(bgi_engine *engine, const bgi_transport_type *type, bg_error *error)
{
    const bg_plan *plan = engine->plan;
    const bgi_transport_setup setup = {
        .device_count = engine->device_count,
        .ranks = engine->ranks,
        .link_count = plan->replicas * plan->edge_count,
        .group_count = (uint32_t)count_groups(plan),
        .devices = engine->devices,
        .links = engine->links,
        .groups = engine->groups,
        .isa = bgi_cpu_isa(),
        .events = {.user = engine, .raise = raise_counter, .changed = wake_all, .told = bgi_engine_told, .lost = lose},
    };

    list_links(engine);
    list_groups(engine);
    return type->create(&setup, &engine->transport, error);
}

static bg_status fill(bgi_engine *engine, const bgi_transport_type *transport_type, bgi_progress *progress,
                      bg_error *error)
{
    const bg_plan *plan = engine->plan;

    BGI_TRY(check_memory(engine, error));
    BGI_TRY(take_tables(engine, error));
    list_local(engine);
    find_output_devices(engine);
    BGI_TRY(take_turns(engine, error));
    BGI_TRY(take_memory(engine, progress, error));
    BGI_TRY(take_sums(engine, error));
    BGI_TRY(open_transport(engine, transport_type, error));
    for (uint32_t i = 0; i < engine->device_count; i++)
        if (bgi_ranks_has(engine->ranks, i))
            BGI_TRY(init_device(engine, i / plan->device_count, i % plan->device_count, error));
    for (uint32_t i = 0; i < plan->constant_count; i++)
        for (uint32_t replica = 0; replica < plan->replicas; replica++)
            bgi_engine_write(engine, replica, &plan->constants[i].place, plan->constants[i].data,
                             plan->constants[i].size_bytes);
    return bgi_workers_start(engine, error);
}

static void close_stores(const bgi_stores *stores)
{
    if (stores->close != NULL)
        stores->close(stores->user);
}

/* Copies the ranks, because a detached worker may use them after their owner is gone. */
static bool copy_ranks(bgi_engine *engine, const bgi_ranks *ranks)
{
    engine->own_ranks = *ranks;
    engine->own_owners = calloc((size_t)engine->device_count + 1, sizeof *engine->own_owners);
    if (engine->own_owners == NULL)
        return false;
    memcpy(engine->own_owners, ranks->owners, engine->device_count * sizeof *engine->own_owners);
    engine->own_ranks.owners = engine->own_owners;
    engine->own_hosts = calloc(ranks->carrier->rank_count, sizeof *engine->own_hosts);
    if (engine->own_hosts == NULL)
        return false;
    if (ranks->hosts != NULL)
        memcpy(engine->own_hosts, ranks->hosts, ranks->carrier->rank_count * sizeof *engine->own_hosts);
    engine->own_ranks.hosts = (const char(*)[BGI_HOST_BYTES])engine->own_hosts;
    engine->ranks = &engine->own_ranks;
    return true;
}

static bg_status create_engine(const bg_plan *plan, const bgi_engine_options *options, bgi_engine **out,
                               bg_error *error)
{
    bgi_engine *engine;
    bg_status status;

    engine = bgi_take_pages(1, sizeof *engine);
    if (engine == NULL)
        return bgi_error_memory(error, "the engine", sizeof *engine);
    engine->plan = plan;
    engine->device_type = options->device_type != NULL ? options->device_type : &bgi_device_cpu;
    engine->device_count = plan->device_count * plan->replicas;
    engine->created_ns = bgi_clock_ns();
    if (options->ranks != NULL && !copy_ranks(engine, options->ranks)) {
        free(engine->own_owners);
        free(engine->own_hosts);
        free(engine);
        return bgi_error_memory(error, "the owners of devices", 0);
    }
    if (!init_waiting(engine)) {
        free(engine);
        return bg_error_set(error, BG_ERROR_IO, "the system refused a mutex or a condition");
    }
    engine->stores = options->stores;
    status = options->in_place != NULL ? bgi_in_place_create(engine, options->in_place, error) : BG_OK;
    if (status == BG_OK)
        status = fill(engine,
                      options->transport_type != NULL ? options->transport_type
                      : options->ranks != NULL        ? &bgi_transport_ranks
                                                      : &bgi_transport_threads,
                      options->progress, error);
    if (status != BG_OK) {
        engine->stores.close = NULL; /* the caller of this function closes the stores */
        bgi_engine_destroy(engine);
        return status;
    }
    *out = engine;
    return BG_OK;
}

bg_status bgi_engine_create(const bg_plan *plan, const bgi_engine_options *options, bgi_engine **out, bg_error *error)
{
    bg_status status = bgi_plan_check(plan, error);

    if (status == BG_OK)
        status = create_engine(plan, options, out, error);
    if (status != BG_OK)
        close_stores(&options->stores);
    return status;
}

/* Frees an engine. A detached worker may call this function after the plan is gone, unless the plan is the session's
 * own. */
void bgi_engine_free(bgi_engine *engine)
{
    /* In a forked child the parent's workers count as waiting on the condition variables forever, and destroying these
     * would wait for the workers. */
    const bool lacks_threads = bgi_engine_lacks_threads(engine);

    if (engine->transport != NULL)
        engine->transport->type->destroy(engine->transport);
    for (uint32_t i = 0; i < engine->device_count; i++) {
        if (engine->devices != NULL)
            engine->device_type->destroy(engine->devices[i]);
        if (engine->runners != NULL) {
            bgi_trace_clear(&engine->runners[i].trace);
            bgi_trace_clear(&engine->runners[i].io_trace);
            bgi_call_times_clear(&engine->runners[i].call_times);
            free(engine->runners[i].brought.all);
            free(engine->runners[i].brought.round);
            free(engine->runners[i].sum_brought.all);
            free(engine->runners[i].sum_brought.round);
            free((void *)engine->runners[i].peer_done);
            free(engine->runners[i].host_value);
            free(engine->runners[i].operands);
        }
    }
    for (uint32_t i = 0; engine->sums != NULL && i < engine->sum_count; i++)
        free(engine->sums[i]);
    free(engine->sums);
    free(engine->output_devices);
    free(engine->devices);
    free(engine->turn_devices);
    free(engine->sent_ns);
    free(engine->members);
    free(engine->groups);
    free(engine->links);
    free((void *)engine->rank_progress);
    free(engine->own_owners);
    free(engine->own_hosts);
    free(engine->gate.ready);
    free(engine->gate.ends);
    bgi_in_place_clear(engine);
    free(engine->local);
    free(engine->runners);
    for (uint32_t i = 0; i < engine->worker_room; i++)
        bgi_trace_clear(&engine->workers[i].helps);
    free(engine->workers);
    free(engine->run_spans.spans);
    if (!lacks_threads) {
        pthread_mutex_destroy(&engine->help_mutex);
        pthread_mutex_destroy(&engine->gate.mutex);
        pthread_cond_destroy(&engine->changed);
        pthread_mutex_destroy(&engine->mutex);
        bgi_event_count_clear(&engine->io_events);
        bgi_event_count_clear(&engine->events);
    }
    close_stores(&engine->stores);
    bg_weights_destroy(engine->read_weights);
    bg_plan_destroy(engine->own_plan);
    free(engine);
}

bool bgi_engine_lacks_threads(const bgi_engine *engine)
{
    const bool has_threads = engine->worker_count > 1 || (engine->worker_count == 1 && !engine->workers[0].is_caller);

    return has_threads && getpid() != engine->process;
}

void bgi_engine_destroy(bgi_engine *engine)
{
    bool is_orphaned;

    if (engine == NULL)
        return;
    if (bgi_engine_lacks_threads(engine)) {
        bgi_engine_free(engine);
        return;
    }
    /* In a dead engine a worker may be inside a kernel that never returns; bgi_engine_run has already waited for that
     * worker. */
    bgi_workers_stop(engine, engine->is_dead ? 0 : UINT64_MAX);
    pthread_mutex_lock(&engine->mutex);
    engine->orphan_count = engine->worker_count - engine->exited_count;
    engine->is_orphaned = engine->orphan_count > 0;
    is_orphaned = engine->is_orphaned;
    /* Workers that have left no longer use the mutex. Once it is unlocked, the last detached worker may free
     * everything. */
    for (uint32_t i = 0; i < engine->worker_count; i++)
        if (engine->workers[i].is_caller || engine->workers[i].is_on_loan)
            continue;
        else if (engine->workers[i].has_exited)
            pthread_join(engine->workers[i].thread, NULL);
        else
            pthread_detach(engine->workers[i].thread);
    pthread_mutex_unlock(&engine->mutex);
    if (!is_orphaned)
        bgi_engine_free(engine);
}

/* ---- access from outside ---- */

static bgi_runner *runner_of(const bgi_engine *engine, uint32_t replica, const bgi_place *place)
{
    return &engine->runners[(size_t)replica * engine->plan->device_count + place->device];
}

static void *address_of(const bgi_runner *runner, const bgi_place *place)
{
    char *base = place->operand.memory == BGI_MEMORY_REMOTE ? runner->device->store : runner->device->arena;

    return base + place->operand.offset;
}

void *bgi_engine_map(const bgi_engine *engine, uint32_t replica, const bgi_place *place)
{
    const bgi_runner *runner = runner_of(engine, replica, place);

    if (engine->ranks != NULL) /* the owner must send the value to other ranks (bgi_engine_fetch) */
        return NULL;
    return runner->device->type->map != NULL ? runner->device->type->map(runner->device, address_of(runner, place))
                                             : NULL;
}

void bgi_engine_write(bgi_engine *engine, uint32_t replica, const bgi_place *place, const void *data, size_t size_bytes)
{
    bgi_runner *runner = runner_of(engine, replica, place);
    const size_t end = place->operand.offset + size_bytes;

    if (runner->device == NULL)
        return;
    runner->device->type->copy_in(runner->device, address_of(runner, place), data, size_bytes);
    if (place->operand.memory == BGI_MEMORY_ARENA && end > runner->touched_bytes)
        runner->touched_bytes = end;
}

void bgi_engine_read(const bgi_engine *engine, uint32_t replica, const bgi_place *place, void *data, size_t size_bytes)
{
    const bgi_runner *runner = runner_of(engine, replica, place);

    runner->device->type->copy_out(runner->device, data, address_of(runner, place), size_bytes);
}

/* Sends the bytes of `part` from its owner to the ranks that read them. `here` is memory for these bytes on the owner
 * and on the readers. */
static bg_status share_part(const bgi_engine *engine, uint32_t replica, const bgi_place *part, const bool *readers,
                            void *here, size_t size_bytes, bg_error *error)
{
    const uint32_t own = engine->ranks->carrier->rank;
    const uint32_t from = engine->ranks->owners[replica * engine->plan->device_count + part->device];

    if (own == from)
        bgi_engine_read(engine, replica, part, here, size_bytes);
    for (uint32_t to = 0; to < engine->ranks->carrier->rank_count; to++)
        if (to != from && (readers == NULL || readers[to]) && (own == from || own == to))
            BGI_TRY(bgi_ranks_hand(engine->transport, from, to, here, size_bytes, error));
    return BG_OK;
}

bg_status bgi_engine_fetch(const bgi_engine *engine, uint32_t replica, const bgi_place *place, const bool *readers,
                           void *data, size_t size_bytes, bg_error *error)
{
    const uint32_t device = replica * engine->plan->device_count + place->device;
    void *room = NULL;
    bg_status status = BG_OK;

    if (engine->ranks == NULL) {
        bgi_engine_read(engine, replica, place, data, size_bytes);
        return BG_OK;
    }
    if (data == NULL && bgi_ranks_has(engine->ranks, device)) {
        room = malloc(size_bytes < FETCHED_BYTES ? size_bytes + 1 : FETCHED_BYTES);
        if (room == NULL)
            return bgi_error_memory(error, "a part of a value", FETCHED_BYTES);
    }
    for (size_t at = 0; at < size_bytes && status == BG_OK; at += FETCHED_BYTES) {
        bgi_place part = *place;
        part.operand.offset += at;
        status = share_part(engine, replica, &part, readers, room != NULL || data == NULL ? room : (char *)data + at,
                            size_bytes - at < FETCHED_BYTES ? size_bytes - at : FETCHED_BYTES, error);
    }
    free(room);
    return status;
}
