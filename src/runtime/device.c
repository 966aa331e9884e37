/*
 * device.c: the life of a device: its program, step after step, run after run. Every function here is called by the
 * worker that owns the device.
 */
#include "runtime/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "kernels/attributes.h"

/* Below this much work a call is over before a sleeping worker would be awake. */
static const double long_call_flops = 1e6;
static const double long_call_bytes = 2e5;

/* ---- waiting ---- */

static void wait_for(bgi_device *device, bgi_counter *counter, uint64_t target)
{
    atomic_store_explicit(&device->wait_counter, counter, memory_order_relaxed);
    atomic_store_explicit(&device->wait_target, target, memory_order_relaxed);
}

bool bgi_device_reached(bgi_device *device, bgi_counter *counter, uint64_t target)
{
    if (atomic_load_explicit(&counter->value, memory_order_acquire) >= target)
        return true;
    wait_for(device, counter, target);
    return false;
}

void bgi_counter_raise(bgi_counter *counter, uint64_t value, bgi_device *waiting)
{
    bgi_event_count *events = &waiting->engine->events;

    atomic_store(&counter->value, value);
    if (bgi_event_count_has_sleepers(events) && bgi_device_is_ready(waiting))
        bgi_event_count_notify_one(events);
}

void bgi_device_fail(bgi_device *device, bg_status status, const char *format, ...)
{
    bgi_engine *engine = device->engine;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(device->failure, sizeof device->failure, format, arguments);
    va_end(arguments);
    device->failure_status = status;
    atomic_store(&engine->has_failed, true);
    atomic_store(&engine->is_stopping, true);
    bgi_event_count_notify_all(&engine->events);
    bgi_event_count_notify_all(&engine->io_events);
    pthread_mutex_lock(&engine->mutex);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

/* ---- addresses ---- */

static uint64_t load_iteration(const bgi_device *device)
{
    return atomic_load_explicit(&device->iteration, memory_order_relaxed);
}

static uint64_t find_sequence(const bgi_device *device, const bgi_plan_edge *edge)
{
    const uint64_t iteration = load_iteration(device);

    if (edge->is_ring)
        return device->micro_batch;
    return edge->per_step ? iteration : iteration * device->plan->micro_batches + device->micro_batch;
}

void *bgi_device_address(bgi_device *device, const bgi_operand *operand, size_t size_bytes)
{
    void *const *memory = operand->is_remote ? device->remotes : device->arenas;
    size_t offset = operand->offset + (operand->stride > 0 ? bgi_group_place(device) * operand->stride : 0);

    if (operand->edge != BGI_NO_EDGE) {
        const bgi_plan_edge *edge = &device->plan->edges[operand->edge];
        if (edge->depth > 1)
            offset += find_sequence(device, edge) % edge->depth * edge->slot_bytes;
    }
    if (bgi_trace_is_on(device) && !operand->is_remote && operand->device == device->number &&
        offset + size_bytes > device->touched_bytes)
        device->touched_bytes = offset + size_bytes;
    return (char *)memory[operand->device] + offset;
}

/* ---- kernel calls ---- */

/* A cost of nothing at all means that nobody knows it. */
static bool is_long(const bg_cost *cost)
{
    const double bytes = cost->bytes_read + cost->bytes_written;

    return cost->flops > long_call_flops || bytes > long_call_bytes || !(cost->flops + bytes > 0.0);
}

static bool is_stopping(const bgi_device *device)
{
    return atomic_load_explicit(&device->engine->is_stopping, memory_order_relaxed);
}

static void run_parts(bgi_device *device, bg_kernel_function function, uint32_t count, bool wakes_helpers)
{
    device->run_part = function;
    device->part_count = count;
    if (count == 1)
        function(&device->kernel_call, 0);
    else
        bgi_parts_run(device, wakes_helpers);
}

/* After a kernel has returned the plan is touched only while the engine is alive: a kernel that returns late may find
 * its plan destroyed. */
static void run_call(bgi_device *device, const bgi_call *call)
{
    bg_kernel_call *now = &device->kernel_call;
    void (*const finish)(const bg_kernel_call *) = call->kernel.finish;
    const bg_kernel_function combine = call->kernel.combine;
    const uint32_t combine_count = call->kernel.combine_count;
    const uint32_t operand_count = call->input_count + call->output_count;

    for (uint32_t i = 0; i < operand_count; i++) {
        const size_t size_bytes = bgi_trace_is_on(device) ? bg_type_size_bytes(&call->types[i]) : 0;
        device->operands[i] = bgi_device_address(device, &call->operands[i], size_bytes);
    }
    if (bgi_trace_is_on(device) && call->kernel.scratch_bytes > 0 &&
        call->scratch_offset + call->kernel.scratch_bytes > device->touched_bytes)
        device->touched_bytes = call->scratch_offset + call->kernel.scratch_bytes;
    now->types = call->types;
    now->input_count = call->input_count;
    now->output_count = call->output_count;
    now->attributes = call->attributes;
    now->scratch = (char *)device->arenas[device->number] + call->scratch_offset;
    now->state = call->kernel.state;
    if (call->kernel.prepare != NULL) {
        call->kernel.prepare(now);
        if (is_stopping(device))
            return;
    }
    run_parts(device, call->kernel.run, call->kernel.part_count, is_long(&call->cost));
    if (combine != NULL && !is_stopping(device))
        run_parts(device, combine, combine_count, false);
    if (finish != NULL && !is_stopping(device))
        finish(now);
}

static void set_env(bgi_device *device)
{
    const bg_plan *plan = device->plan;

    device->env.place = bgi_device_place(device);
    device->env.step = device->engine->run->step + (bgi_plan_counts_steps(plan) ? device->run_iteration : 0);
    device->env.optimiser_step = device->engine->run->optimiser_step + device->run_iteration;
    device->env.micro_batch = device->micro_batch * bgi_plan_data_replicas(plan) + device->env.place.data;
    device->env.accumulated = device->micro_batch;
}

/* Whether the transfers are done that something waits for (plan.h says how they are counted). */
static bool transfers_are_done(bgi_device *device, const bgi_worker *worker, uint32_t io_wait)
{
    const uint64_t count = device->program->transfer_count, target = load_iteration(device) * count + io_wait;

    return io_wait == 0 || target <= count || bgi_io_reached(device, worker, target - count);
}

/* Messages of an edge leave and are used up one after the other; anything else is a defect of the plan. */
static bool raise_in_order(bgi_device *device, uint32_t edge_number, bool is_send)
{
    const bgi_plan_edge *edge = &device->plan->edges[edge_number];
    bgi_channel *channel = &device->channels[edge_number];
    bgi_counter *counter = is_send ? &channel->produced : &channel->consumed;
    const uint64_t sequence = find_sequence(device, edge);
    const uint64_t next = atomic_load_explicit(&counter->value, memory_order_relaxed);

    if (next != sequence) {
        bgi_device_fail(device, BG_ERROR_INTERNAL, "edge %u: message %llu is %s where message %llu is due", edge_number,
                        (unsigned long long)sequence, is_send ? "sent" : "released", (unsigned long long)next);
        return false;
    }
    /* The other end may wait for it. */
    bgi_counter_raise(counter, sequence + 1, device - device->number + (is_send ? edge->to_device : edge->from_device));
    return true;
}

/* Messages that are whole after so many calls of the instruction leave; their SENDs follow it. */
static void send_early(bgi_device *device, const bgi_instruction *instruction, uint32_t call_count)
{
    const bgi_instruction *end = device->program->instructions + device->program->instruction_count;

    for (const bgi_instruction *next = instruction + 1; next < end && next->action.kind == BG_ACTION_SEND; next++) {
        if (next->after_calls != call_count)
            continue;
        if (bgi_trace_is_on(device))
            device->channels[next->action.index].sent_ns = bgi_clock_ns();
        raise_in_order(device, next->action.index, true);
    }
}

static void trace_calls(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker,
                        uint64_t start_ns)
{
    if (bgi_trace_is_on(device))
        bgi_trace_add(device, worker, instruction->action.kind, start_ns);
}

/* False when a call has to wait for a transfer or other replicas: the next time it goes on there. Calls without a wait
 * between them make one event, a collective another. */
static bool run_calls(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker)
{
    uint64_t start_ns = bgi_trace_is_on(device) ? bgi_clock_ns() : 0;
    uint32_t first = device->next_call;

    set_env(device);
    for (uint32_t i = first; i < instruction->call_count; i++) {
        const bgi_call *call = &instruction->calls[i];
        if (call->is_transfer) {
            bgi_io_issue(device, 1);
            continue;
        }
        if (instruction->call_waits != NULL && !transfers_are_done(device, worker, instruction->call_waits[i])) {
            atomic_store_explicit(&device->call, BGI_NO_CALL, memory_order_relaxed);
            if (i > first)
                trace_calls(device, instruction, worker, start_ns);
            device->next_call = i;
            return false;
        }
        if (call->is_collective) {
            if (i > first)
                trace_calls(device, instruction, worker, start_ns);
            atomic_store_explicit(&device->call, i, memory_order_relaxed);
            device->next_call = i;
            if (!bgi_collective_call(device, call, worker))
                return false;
            bgi_device_add_progress(device);
            send_early(device, instruction, i + 1);
            start_ns = bgi_trace_is_on(device) ? bgi_clock_ns() : 0;
            first = i + 1;
            continue;
        }
        atomic_store_explicit(&device->call, i, memory_order_relaxed);
        run_call(device, call);
        bgi_device_add_progress(device);
        if (is_stopping(device))
            return true;
        send_early(device, instruction, i + 1);
    }
    device->next_call = 0;
    atomic_store_explicit(&device->call, BGI_NO_CALL, memory_order_relaxed);
    if (first < instruction->call_count || instruction->call_count == 0)
        trace_calls(device, instruction, worker, start_ns);
    return true;
}

/* ---- instructions ---- */

static void send(bgi_device *device, const bgi_instruction *instruction)
{
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        const bgi_copy *copy = &instruction->copies[i];
        memcpy(bgi_device_address(device, &copy->to, copy->size_bytes),
               bgi_device_address(device, &copy->operand, copy->size_bytes), copy->size_bytes);
    }
    raise_in_order(device, instruction->action.index, true);
}

/* Whether outputs come of it: a HOST_OUT, or an update that makes some. */
static bool brings_out(const bgi_instruction *instruction)
{
    return instruction->action.kind == BG_ACTION_HOST_OUT ||
           (instruction->action.kind == BG_ACTION_UPDATE && instruction->copy_count > 0);
}

/* All slots that the instruction writes are free, transfers of what it touches are done, and the message is there if it
 * receives one. */
static bool may_begin(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker)
{
    for (uint32_t i = 0; i < instruction->acquire_count; i++) {
        const bgi_plan_edge *edge = &device->plan->edges[instruction->acquires[i]];
        const uint64_t end = find_sequence(device, edge) + 1;
        if (end > edge->depth &&
            !bgi_device_reached(device, &device->channels[instruction->acquires[i]].consumed, end - edge->depth))
            return false;
    }
    if (!transfers_are_done(device, worker, instruction->io_wait))
        return false;
    if (instruction->action.kind == BG_ACTION_RECEIVE) {
        const uint32_t edge = instruction->action.index;
        return bgi_device_reached(device, &device->channels[edge].produced,
                                  find_sequence(device, &device->plan->edges[edge]) + 1);
    }
    return !brings_out(instruction) || bgi_stream_has_room(device, instruction);
}

/* True when the instruction is done. */
static bool perform(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker)
{
    const bg_action_kind kind = instruction->action.kind;
    uint64_t start_ns;

    if (!may_begin(device, instruction, worker))
        return false;
    if (kind == BG_ACTION_REDUCE || kind == BG_ACTION_GATHER)
        return bgi_collective_advance(device, instruction, worker);
    if (kind == BG_ACTION_LOAD || kind == BG_ACTION_STORE) {
        bgi_io_issue(device, instruction->issues);
        return true;
    }
    if (kind != BG_ACTION_SEND && kind != BG_ACTION_RECEIVE && kind != BG_ACTION_HOST_IN &&
        kind != BG_ACTION_HOST_OUT) {
        if (!run_calls(device, instruction, worker))
            return false;
        if (!is_stopping(device) && brings_out(instruction))
            bgi_stream_out(device, instruction);
        return true;
    }
    if (kind == BG_ACTION_SEND && instruction->after_calls > 0) {
        const uint64_t sent_ns = device->channels[instruction->action.index].sent_ns;
        if (bgi_trace_is_on(device))
            bgi_trace_add_span(device, worker, kind, sent_ns, sent_ns);
        return true;
    }
    start_ns = bgi_trace_is_on(device) ? bgi_clock_ns() : 0;
    if (kind == BG_ACTION_SEND)
        send(device, instruction);
    else if (kind == BG_ACTION_HOST_IN)
        bgi_stream_in(device, instruction);
    else if (kind == BG_ACTION_HOST_OUT)
        bgi_stream_out(device, instruction);
    if (bgi_trace_is_on(device))
        bgi_trace_add(device, worker, kind, start_ns);
    return true;
}

static void end_run(bgi_device *device)
{
    bgi_engine *engine = device->engine;

    device->is_between_runs = true;
    device->run_count++;
    if (atomic_fetch_sub(&engine->devices_left.value, 1) == 1) {
        pthread_mutex_lock(&engine->mutex);
        pthread_cond_broadcast(&engine->changed);
        pthread_mutex_unlock(&engine->mutex);
    }
}

static void set_place(bgi_device *device, uint64_t iteration, uint32_t instruction)
{
    atomic_store_explicit(&device->instruction, instruction, memory_order_relaxed);
    atomic_store_explicit(&device->iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&device->position, iteration << 32 | instruction * device->instruction_share,
                          memory_order_relaxed);
}

/* To the next instruction, around to the next step. */
static void step_on(bgi_device *device)
{
    const uint32_t next = atomic_load_explicit(&device->instruction, memory_order_relaxed) + 1;

    device->phase = 0;
    bgi_device_add_progress(device);
    if (next < device->program->instruction_count) {
        set_place(device, load_iteration(device), next);
        return;
    }
    set_place(device, load_iteration(device) + 1, 0);
    device->run_iteration++;
}

static bool begin_run(bgi_device *device)
{
    if (!bgi_device_reached(device, &device->engine->runs, device->run_count + 1))
        return false;
    device->is_between_runs = false;
    device->run_begin = load_iteration(device);
    device->run_iteration = 0;
    return true;
}

/* Rates by iteration: the device's copy of the optimiser's numbers gets that of the step before anything of it runs. */
static void set_learning_rate(bgi_device *device)
{
    const bg_plan *plan = device->plan;
    const double *rates = device->engine->run->learning_rates;

    if (rates == NULL || plan->hyper_variable == UINT32_MAX)
        return;
    for (uint32_t p = 0; p < plan->variables[plan->hyper_variable].place_count; p++) {
        const bgi_operand *place = &plan->variables[plan->hyper_variable].places[p];
        if (place->device == device->number)
            ((double *)bgi_device_address(device, place, 0))[BGI_HYPER_LEARNING_RATE] = rates[device->run_iteration];
    }
}

/* Before the first instruction of a step: whether there is one more. Remote memory is the caller's between runs, so
 * what was issued is done first. False when the device has to wait. */
static bool begin_step(bgi_device *device, const bgi_worker *worker)
{
    for (;;) {
        if (device->is_between_runs && !begin_run(device))
            return false;
        if (atomic_load_explicit(&device->instruction, memory_order_relaxed) > 0)
            return true;
        switch (bgi_gate_pass(device)) {
        case BGI_PASS_GO:
            set_learning_rate(device);
            return true;
        case BGI_PASS_WAIT:
            return false;
        default:
            if (!bgi_io_reached(device, worker, atomic_load_explicit(&device->io_issued.value, memory_order_relaxed)))
                return false;
            end_run(device);
        }
    }
}

/* Another device that is ready lags too far behind this one. */
static bool should_yield(const bgi_device *device)
{
    const uint64_t tolerance = device->engine->tolerance;
    const bgi_device *other;

    if (tolerance == UINT64_MAX || device->is_between_runs)
        return false;
    other = bgi_workers_find_device(device->engine);
    return other != NULL && atomic_load_explicit(&other->position, memory_order_relaxed) + tolerance <
                                atomic_load_explicit(&device->position, memory_order_relaxed);
}

static bool release_all(bgi_device *device, const bgi_instruction *instruction)
{
    for (uint32_t i = 0; i < instruction->release_count; i++)
        if (!raise_in_order(device, instruction->releases[i], false))
            return false;
    return true;
}

bool bgi_device_advance(bgi_device *device, const bgi_worker *worker)
{
    while (!is_stopping(device)) {
        const bgi_instruction *instruction = NULL;

        if (!begin_step(device, worker))
            return false;
        if (device->program->instruction_count > 0) {
            instruction =
                &device->program->instructions[atomic_load_explicit(&device->instruction, memory_order_relaxed)];
            device->micro_batch = instruction->action.micro_batch;
            if (!perform(device, instruction, worker))
                return false;
            /* A call that was cut short by the end of the engine has nothing to hand over. */
            if (is_stopping(device) || !release_all(device, instruction))
                return false;
        }
        step_on(device);
        if (instruction != NULL && instruction->call_count > 0 && should_yield(device)) {
            wait_for(device, &device->engine->runs, 0);
            return true;
        }
    }
    return false;
}
