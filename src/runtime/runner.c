/*
 * runner.c: runs a device's program, step after step and run after run. The worker that owns the device calls every
 * function here.
 */
#include "runtime/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"

/* A call with less work than this ends before a sleeping worker would wake up. */
static const double long_call_flops = 1e6;
static const double long_call_bytes = 2e5;

/* ---- waiting ---- */

static void wait_for(bgi_runner *runner, bgi_counter *counter, uint64_t target)
{
    atomic_store_explicit(&runner->wait_counter, counter, memory_order_relaxed);
    atomic_store_explicit(&runner->wait_target, target, memory_order_relaxed);
}

bool bgi_runner_reached(bgi_runner *runner, bgi_counter *counter, uint64_t target)
{
    if (atomic_load_explicit(&counter->value, memory_order_acquire) >= target)
        return true;
    wait_for(runner, counter, target);
    return false;
}

void bgi_counter_raise(bgi_counter *counter, uint64_t value, bgi_runner *waiting)
{
    bgi_event_count *events = &waiting->engine->events;

    atomic_store(&counter->value, value);
    if (bgi_event_count_has_sleepers(events) && bgi_runner_is_ready(waiting))
        bgi_event_count_notify_one(events);
}

static uint64_t load_iteration(const bgi_runner *runner)
{
    return atomic_load_explicit(&runner->iteration, memory_order_relaxed);
}

void bgi_runner_tell(bgi_runner *runner, uint32_t to, bgi_note_kind kind, uint64_t value)
{
    const bgi_note note = {.kind = kind, .from = runner->index, .value = value, .more = load_iteration(runner)};

    runner->transport->type->tell(runner->transport, to, &note);
}

/* Records the failure, lets the device wait so that no worker advances it, and notifies the host. */
void bgi_runner_fail(bgi_runner *runner, bg_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(runner->failure, sizeof runner->failure, format, arguments);
    va_end(arguments);
    runner->failure_status = status;
    wait_for(runner, &runner->granted, UINT64_MAX);
    bgi_runner_tell(runner, BGI_HOST, BGI_NOTE_FAILED, 0);
}

/* ---- addresses ---- */

static uint64_t find_sequence(const bgi_runner *runner, const bgi_plan_edge *edge)
{
    const uint64_t iteration = load_iteration(runner);

    if (edge->is_ring)
        return runner->micro_batch;
    return edge->per_step ? iteration : iteration * runner->plan->micro_batches + runner->micro_batch;
}

void *bgi_runner_address(bgi_runner *runner, const bgi_operand *operand, size_t size_bytes)
{
    size_t offset = operand->offset + (operand->stride > 0 ? bgi_group_place(runner) * operand->stride : 0);

    if (operand->edge != BGI_NO_EDGE) {
        const bgi_plan_edge *edge = &runner->plan->edges[operand->edge];
        if (operand->memory == BGI_MEMORY_WINDOW)
            return (char *)runner->transport->type->window(runner->transport, runner->first_link + operand->edge,
                                                           find_sequence(runner, edge)) +
                   offset;
        if (edge->depth > 1)
            offset += find_sequence(runner, edge) % edge->depth * edge->slot_bytes;
    }
    if (operand->memory == BGI_MEMORY_REMOTE)
        return runner->device->store + offset;
    if (runner->is_sampled && offset + size_bytes > runner->touched_bytes)
        runner->touched_bytes = offset + size_bytes;
    if (runner->in_place != NULL && operand->edge == BGI_NO_EDGE) {
        void *elsewhere = bgi_in_place_address(runner->in_place, offset);
        if (elsewhere != NULL)
            return elsewhere;
    }
    return runner->device->arena + offset;
}

/* ---- kernel calls ---- */

/* Whether waking a sleeper pays off for a call with this cost. A cost of 0 is unknown and counts as long. */
static bool is_long(const bg_cost *cost)
{
    const double bytes = cost->bytes_read + cost->bytes_written;

    return cost->flops > long_call_flops || bytes > long_call_bytes || !(cost->flops + bytes > 0.0);
}

static bool is_stopping(const bgi_runner *runner)
{
    return atomic_load_explicit(&runner->engine->is_stopping, memory_order_relaxed);
}

static void run_parts(void *user, bg_kernel_function function, uint32_t count, bool is_main)
{
    bgi_runner *runner = user;

    runner->run_part = function;
    runner->part_count = count;
    if (count == 1)
        function(&runner->kernel_call, 0);
    else
        bgi_parts_run(runner, is_main && runner->call_is_long);
}

static bool goes_on(void *user)
{
    return !is_stopping(user);
}

/* Runs a kernel call. After the kernel has returned, the function touches the plan only while the engine is alive,
 * because the plan may have been destroyed by then. */
static void run_call(bgi_runner *runner, const bgi_call *call)
{
    const bgi_launch how = {.user = runner, .run = run_parts, .goes_on = goes_on};
    const bgi_device_type *type = runner->device->type;
    bg_kernel_call *now = &runner->kernel_call;
    const uint32_t operand_count = call->input_count + call->output_count;

    for (uint32_t i = 0; i < operand_count; i++) {
        const size_t size_bytes = runner->is_sampled ? bg_type_size_bytes(&call->types[i]) : 0;
        runner->operands[i] = bgi_runner_address(runner, &call->operands[i], size_bytes);
    }
    if (runner->is_sampled && call->kernel.scratch_bytes > 0 &&
        call->scratch_offset + call->kernel.scratch_bytes > runner->touched_bytes)
        runner->touched_bytes = call->scratch_offset + call->kernel.scratch_bytes;
    now->types = call->types;
    now->input_count = call->input_count;
    now->output_count = call->output_count;
    now->attributes = call->attributes;
    now->scratch = runner->device->arena + call->scratch_offset;
    now->state = call->kernel.state;
    runner->call_is_long = is_long(&call->cost);
    type->launch(runner->device, &call->kernel, now, &how);
    if (type->wait != NULL)
        type->wait(runner->device);
}

static void set_env(bgi_runner *runner)
{
    const bg_plan *plan = runner->plan;

    runner->env.place = bgi_runner_place(runner);
    runner->env.step = runner->engine->run->step + (bgi_plan_counts_steps(plan) ? runner->run_iteration : 0);
    runner->env.optimizer_step = runner->engine->run->optimizer_step + runner->run_iteration;
    runner->env.micro_batch = bgi_plan_is_canonical(plan)
                                  ? runner->env.place.data * plan->micro_batches + runner->micro_batch
                                  : runner->micro_batch * bgi_plan_data_replicas(plan) + runner->env.place.data;
    runner->env.accumulated = runner->micro_batch;
}

/* Returns whether the transfers that `io_wait` counts are done (see plan.h); otherwise notes that the device waits for
 * them. */
static bool transfers_are_done(bgi_runner *runner, const bgi_worker *worker, uint32_t io_wait)
{
    const uint64_t count = runner->program->transfer_count, target = load_iteration(runner) * count + io_wait;

    return io_wait == 0 || target <= count || bgi_io_reached(runner, worker, target - count);
}

/* Posts or releases a message of an edge. Messages leave and are consumed in order; any other order is a defect of the
 * plan. */
static bool raise_in_order(bgi_runner *runner, uint32_t edge_number, bool is_send)
{
    const bgi_transport_type *type = runner->transport->type;
    const uint64_t sequence = find_sequence(runner, &runner->plan->edges[edge_number]);
    const uint64_t due =
        (is_send ? type->post : type->release)(runner->transport, runner->first_link + edge_number, sequence);

    if (due != sequence) {
        bgi_runner_fail(runner, BG_ERROR_INTERNAL, "edge %u: message %llu is %s where message %llu is due", edge_number,
                        (unsigned long long)sequence, is_send ? "sent" : "released", (unsigned long long)due);
        return false;
    }
    return true;
}

/* Sends the messages that are complete after `call_count` calls of the instruction; their SEND instructions come
 * later. */
static void send_early(bgi_runner *runner, const bgi_instruction *instruction, uint32_t call_count)
{
    const bgi_instruction *end = runner->program->instructions + runner->program->instruction_count;

    for (const bgi_instruction *next = instruction + 1; next < end && next->action.kind == BG_ACTION_SEND; next++) {
        if (next->after_calls != call_count)
            continue;
        if (bgi_trace_is_on(runner))
            runner->sent_ns[next->action.index] = bgi_clock_ns();
        raise_in_order(runner, next->action.index, true);
    }
}

static void trace_calls(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker,
                        uint64_t start_ns)
{
    if (bgi_trace_is_on(runner))
        bgi_trace_add(runner, worker, instruction->action.kind, start_ns);
}

/* Records the end of a call, which began when the preceding call ended; returns the current time. */
static uint64_t time_call(bgi_runner *runner, uint32_t call, uint64_t start_ns)
{
    const uint64_t now_ns = bgi_clock_ns();

    bgi_call_times_add(&runner->call_times, atomic_load_explicit(&runner->instruction, memory_order_relaxed), call,
                       now_ns - start_ns);
    return now_ns;
}

/* Runs the calls of an instruction. Returns false when a call must wait for a transfer or other replicas; the next
 * attempt resumes at that call. Calls without a wait between them are one event, and a collective is a separate event.
 */
static bool run_calls(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker)
{
    uint64_t start_ns = bgi_trace_is_on(runner) ? bgi_clock_ns() : 0, call_ns = start_ns;
    uint32_t first = runner->next_call;

    set_env(runner);
    for (uint32_t i = first; i < instruction->call_count; i++) {
        const bgi_call *call = &instruction->calls[i];
        if (call->is_transfer) {
            bgi_io_issue(runner, 1);
            continue;
        }
        if (instruction->call_waits != NULL && !transfers_are_done(runner, worker, instruction->call_waits[i])) {
            atomic_store_explicit(&runner->call, BGI_NO_CALL, memory_order_relaxed);
            if (i > first)
                trace_calls(runner, instruction, worker, start_ns);
            runner->next_call = i;
            return false;
        }
        if (call->is_collective) {
            if (i > first)
                trace_calls(runner, instruction, worker, start_ns);
            atomic_store_explicit(&runner->call, i, memory_order_relaxed);
            runner->next_call = i;
            if (!bgi_collective_call(runner, call, worker))
                return false;
            bgi_runner_add_progress(runner);
            send_early(runner, instruction, i + 1);
            start_ns = call_ns = bgi_trace_is_on(runner) ? bgi_clock_ns() : 0;
            first = i + 1;
            continue;
        }
        atomic_store_explicit(&runner->call, i, memory_order_relaxed);
        run_call(runner, call);
        bgi_runner_add_progress(runner);
        if (is_stopping(runner))
            return true;
        if (runner->is_sampled)
            call_ns = time_call(runner, i, call_ns);
        if (runner->engine->sees_to_sums && bgi_sum_look(runner, worker) && runner->is_sampled)
            call_ns = bgi_clock_ns();
        send_early(runner, instruction, i + 1);
    }
    runner->next_call = 0;
    atomic_store_explicit(&runner->call, BGI_NO_CALL, memory_order_relaxed);
    if (first < instruction->call_count || instruction->call_count == 0)
        trace_calls(runner, instruction, worker, start_ns);
    return true;
}

/* ---- instructions ---- */

static void send(bgi_runner *runner, const bgi_instruction *instruction)
{
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        const bgi_copy *copy = &instruction->copies[i];
        runner->device->type->copy(runner->device, bgi_runner_address(runner, &copy->to, copy->size_bytes),
                                   bgi_runner_address(runner, &copy->operand, copy->size_bytes), copy->size_bytes);
    }
    raise_in_order(runner, instruction->action.index, true);
}

/* Whether the instruction is a sum in the middle of a backward pass that is delayed, because no other thread is free
 * for it. */
static bool is_put_off(const bgi_runner *runner, const bgi_instruction *instruction)
{
    return instruction->is_part && instruction->is_beside && !runner->engine->sees_to_sums &&
           runner->engine->worker_count <= runner->engine->local_count;
}

static void put_off(bgi_runner *runner)
{
    if (runner->put_off == BGI_NO_INSTRUCTION)
        runner->put_off = atomic_load_explicit(&runner->instruction, memory_order_relaxed);
}

/* Does the delayed sums as far as possible; returns true when all are done. */
static bool make_up(bgi_runner *runner, const bgi_worker *worker)
{
    const uint32_t now = atomic_load_explicit(&runner->instruction, memory_order_relaxed);

    for (; runner->put_off < now; runner->put_off++) {
        const bgi_instruction *sum = &runner->program->instructions[runner->put_off];
        if (is_put_off(runner, sum) && !bgi_collective_advance(runner, sum, worker))
            return false;
    }
    runner->put_off = BGI_NO_INSTRUCTION;
    return true;
}

/* Whether the instruction can begin: all slots that it writes are free, the transfers and sums that it needs are done,
 * the message that it receives, if any, has arrived, and outfeeds have free rows for its outputs. */
static bool may_begin(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker)
{
    bgi_transport *transport = runner->transport;

    for (uint32_t i = 0; i < instruction->acquire_count; i++) {
        const bgi_plan_edge *edge = &runner->plan->edges[instruction->acquires[i]];
        const uint64_t end = find_sequence(runner, edge) + 1;
        if (end > edge->depth &&
            !bgi_runner_reached(runner,
                                transport->type->credit(transport, runner->first_link + instruction->acquires[i]),
                                end - edge->depth))
            return false;
    }
    if (!transfers_are_done(runner, worker, instruction->io_wait) ||
        (instruction->needs_sum && !bgi_sum_reached(runner, worker)) ||
        (instruction->needs_sum && !is_put_off(runner, instruction) && !make_up(runner, worker)))
        return false;
    if (instruction->action.kind == BG_ACTION_RECEIVE) {
        const uint32_t edge = instruction->action.index;
        return bgi_runner_reached(runner, transport->type->arrived(transport, runner->first_link + edge),
                                  find_sequence(runner, &runner->plan->edges[edge]) + 1);
    }
    return !bgi_instruction_brings_out(instruction) || bgi_stream_has_room(runner, instruction);
}

/* Performs the instruction, as far as it need not wait; returns true when it is done. */
static bool perform(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker)
{
    const bg_action_kind kind = instruction->action.kind;
    uint64_t start_ns;

    if (!may_begin(runner, instruction, worker))
        return false;
    if (is_put_off(runner, instruction)) {
        put_off(runner);
        return true;
    }
    if (instruction->is_beside) {
        bgi_sum_begin(runner, instruction);
        return true;
    }
    if (kind == BG_ACTION_REDUCE || kind == BG_ACTION_GATHER)
        return bgi_collective_advance(runner, instruction, worker);
    if (kind == BG_ACTION_LOAD || kind == BG_ACTION_STORE) {
        bgi_io_issue(runner, instruction->issues);
        return true;
    }
    if (kind != BG_ACTION_SEND && kind != BG_ACTION_RECEIVE && kind != BG_ACTION_HOST_IN &&
        kind != BG_ACTION_HOST_OUT) {
        if (!run_calls(runner, instruction, worker))
            return false;
        if (!is_stopping(runner) && bgi_instruction_brings_out(instruction))
            bgi_stream_out(runner, instruction);
        return true;
    }
    if (kind == BG_ACTION_SEND && instruction->after_calls > 0) {
        if (bgi_trace_is_on(runner))
            bgi_trace_add_span(runner, worker, kind, runner->sent_ns[instruction->action.index],
                               runner->sent_ns[instruction->action.index]);
        return true;
    }
    start_ns = bgi_trace_is_on(runner) ? bgi_clock_ns() : 0;
    if (kind == BG_ACTION_SEND)
        send(runner, instruction);
    else if (kind == BG_ACTION_HOST_IN)
        bgi_stream_in(runner, instruction);
    else if (kind == BG_ACTION_HOST_OUT)
        bgi_stream_out(runner, instruction);
    if (bgi_trace_is_on(runner))
        bgi_trace_add(runner, worker, kind, start_ns);
    return true;
}

static void end_run(bgi_runner *runner)
{
    bgi_engine *engine = runner->engine;

    runner->is_between_runs = true;
    runner->run_count++;
    if (atomic_fetch_sub(&engine->devices_left.value, 1) == 1) {
        pthread_mutex_lock(&engine->mutex);
        pthread_cond_broadcast(&engine->changed);
        pthread_mutex_unlock(&engine->mutex);
    }
}

static void set_place(bgi_runner *runner, uint64_t iteration, uint32_t instruction)
{
    atomic_store_explicit(&runner->instruction, instruction, memory_order_relaxed);
    atomic_store_explicit(&runner->iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&runner->position, iteration << 32 | instruction * runner->instruction_share,
                          memory_order_relaxed);
}

/* Moves to the next instruction, or to the beginning of the next step. */
static void step_on(bgi_runner *runner)
{
    const uint32_t next = atomic_load_explicit(&runner->instruction, memory_order_relaxed) + 1;

    runner->phase = 0;
    bgi_runner_add_progress(runner);
    if (next < runner->program->instruction_count) {
        set_place(runner, load_iteration(runner), next);
        return;
    }
    set_place(runner, load_iteration(runner) + 1, 0);
    runner->run_iteration++;
}

static bool begin_run(bgi_runner *runner)
{
    if (!bgi_runner_reached(runner, &runner->engine->runs, runner->run_count + 1))
        return false;
    runner->is_between_runs = false;
    runner->run_begin = load_iteration(runner);
    runner->run_iteration = 0;
    return true;
}

/* Writes a scalar that changes with each iteration (such as a learning rate) to the device's copy, before any
 * instruction of the step runs. */
static void set_scalar(bgi_runner *runner)
{
    const bg_plan *plan = runner->plan;
    const bgi_run *run = runner->engine->run;

    if (run->scalars == NULL || plan->hyper_variable == UINT32_MAX)
        return;
    for (uint32_t p = 0; p < plan->variables[plan->hyper_variable].place_count; p++) {
        const bgi_place *place = &plan->variables[plan->hyper_variable].places[p];
        double *numbers;
        if (place->device != runner->number)
            continue;
        numbers = bgi_runner_address(runner, &place->operand, 0);
        runner->device->type->copy_in(runner->device, &numbers[run->scalar], &run->scalars[runner->run_iteration],
                                      sizeof *run->scalars);
    }
}

/* Begins a step, and the run before its first step. At the end of a run, finishes issued transfers, because remote
 * memory belongs to the caller between runs. Returns false when the device must wait or has finished the run. */
static bool begin_step(bgi_runner *runner, const bgi_worker *worker)
{
    for (;;) {
        if (runner->is_between_runs && !begin_run(runner))
            return false;
        if (atomic_load_explicit(&runner->instruction, memory_order_relaxed) > 0)
            return true;
        switch (bgi_gate_pass(runner)) {
        case BGI_PASS_GO:
            runner->is_sampled =
                bgi_trace_is_on(runner) && (runner->plan->times_all_steps || bgi_trace_samples(load_iteration(runner)));
            set_scalar(runner);
            return true;
        case BGI_PASS_WAIT:
            return false;
        default:
            if (!bgi_io_reached(runner, worker, atomic_load_explicit(&runner->io_issued.value, memory_order_relaxed)))
                return false;
            end_run(runner);
        }
    }
}

/* Whether another ready device is behind this one by more than the tolerance. */
static bool should_yield(const bgi_runner *runner)
{
    const uint64_t tolerance = runner->engine->tolerance;
    const bgi_runner *other;

    if (tolerance == UINT64_MAX || runner->is_between_runs)
        return false;
    other = bgi_workers_find_device(runner->engine);
    return other != NULL && atomic_load_explicit(&other->position, memory_order_relaxed) + tolerance <
                                atomic_load_explicit(&runner->position, memory_order_relaxed);
}

static bool release_all(bgi_runner *runner, const bgi_instruction *instruction)
{
    for (uint32_t i = 0; i < instruction->release_count; i++)
        if (!raise_in_order(runner, instruction->releases[i], false))
            return false;
    return true;
}

/* ---- turns ---- */

static uint64_t turn_of(const bgi_runner *runner, const bgi_instruction *instruction)
{
    return load_iteration(runner) * runner->engine->turn_count + instruction->turn;
}

static bool has_turn(bgi_runner *runner, const bgi_instruction *instruction)
{
    return runner->engine->turn_count == 0 || bgi_runner_reached(runner, &runner->turn, turn_of(runner, instruction));
}

/* In a strict plan, notifies the device that has the next turn. Returns false while transfers that the instruction
 * issued are in progress. */
static bool end_turn(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker)
{
    bgi_engine *engine = runner->engine;
    uint32_t next;

    if (engine->turn_count == 0)
        return true;
    runner->is_ending = true;
    if (!bgi_io_reached(runner, worker, atomic_load_explicit(&runner->io_issued.value, memory_order_relaxed)))
        return false;
    runner->is_ending = false;
    next = engine->turn_devices[(instruction->turn + 1) % engine->turn_count];
    bgi_runner_tell(runner, runner->index - runner->number + next, BGI_NOTE_TURN, turn_of(runner, instruction) + 1);
    return true;
}

bool bgi_runner_advance(bgi_runner *runner, const bgi_worker *worker)
{
    while (!is_stopping(runner)) {
        const bgi_instruction *instruction = NULL;

        if (!begin_step(runner, worker))
            return false;
        if (runner->program->instruction_count > 0) {
            instruction =
                &runner->program->instructions[atomic_load_explicit(&runner->instruction, memory_order_relaxed)];
            runner->micro_batch = instruction->action.micro_batch;
            if (!runner->is_ending) {
                if (!has_turn(runner, instruction) || !perform(runner, instruction, worker))
                    return false;
                /* A call that was interrupted by the end of the engine has no results to pass on. */
                if (is_stopping(runner) || !release_all(runner, instruction))
                    return false;
            }
            if (!end_turn(runner, instruction, worker))
                return false;
        }
        step_on(runner);
        if (instruction != NULL && instruction->call_count > 0 && should_yield(runner)) {
            wait_for(runner, &runner->engine->runs, 0);
            return true;
        }
    }
    return false;
}
