/*
 * run.c: executes schedules abstractly. It knows rows, edges and counters, but no strategy.
 *
 * In a strict problem, one action at a time is executed over all devices. The next action is the runnable one that
 * comes first in the data flow (by micro-batch, then by position on the way forward and back). This action and the
 * transfers that it starts complete before the next action begins. The first such execution determines the order, and
 * later executions follow it.
 *
 * Each edge counts sent and consumed messages. Number n of a run (step * micro-batches + micro-batch) may be produced
 * once n - depth is consumed, and received once it is sent. In a timed run the slots of an edge hold the times of these
 * two events, and no other times can be needed.
 */
#include "schedule/run.h"

#include "core/error.h"
#include "schedule/buffers.h"

#include <inttypes.h>

typedef enum wait_kind { WAITS_NOT = 0, WAITS_FOR_MESSAGE, WAITS_FOR_SLOT } wait_kind;

typedef struct device_state {
    uint32_t step;
    uint32_t position;
    double time;
    double io_time; /* the time when all transfers so far are complete */
    wait_kind wait;
    uint32_t wait_edge;
} device_state;

typedef struct edge_state {
    uint64_t sent;
    uint64_t consumed;
    double *arrivals; /* in timed runs, by slot: when messages arrive, and when slots are released */
    double *releases;
} edge_state;

/* The times when transfers of a remote buffer are complete; by micro-batch for a buffer of an edge. */
typedef struct buffer_state {
    double *loaded, *stored;
} buffer_state;

typedef struct execution {
    bgi_schedule_run *run;
    device_state *devices;
    edge_state *edges;
    buffer_state *buffers; /* timed runs */
    uint32_t *ready;       /* devices that may continue, each at most once: a stack, or a heap for strict problems */
    uint32_t ready_count;
    /* Strict problems. */
    const uint64_t **ranks; /* [device][position]: the action's place in the data flow */
    double time;            /* when the last action ended */
    uint32_t action_count;  /* the number of actions since the last call of the stop function */
    bool is_stopped;
    bgi_arena arena;
} execution;

static bg_status prepare_buffers(execution *exec, bg_error *error)
{
    const bg_schedule_problem *problem = exec->run->layout->problem;

    exec->buffers = bgi_arena_allocate(&exec->arena, problem->buffer_count, sizeof *exec->buffers);
    if (exec->buffers == NULL)
        return bgi_error_memory(error, "remote buffers", problem->buffer_count * sizeof *exec->buffers);
    for (uint32_t b = 0; b < problem->buffer_count; b++) {
        const size_t count = problem->buffers[b].per_micro_batch ? problem->micro_batch_count : 1;
        double *times = bgi_arena_allocate(&exec->arena, 2 * count, sizeof *times);
        if (times == NULL)
            return bgi_error_memory(error, "the times of transfers", 2 * count * sizeof *times);
        exec->buffers[b] = (buffer_state){.loaded = times, .stored = times + count};
    }
    return BG_OK;
}

static bg_status prepare(execution *exec, bg_error *error)
{
    const uint32_t device_count = exec->run->schedule->device_count;
    const uint32_t edge_count = exec->run->layout->problem->edge_count;

    exec->devices = bgi_arena_allocate(&exec->arena, device_count, sizeof *exec->devices);
    exec->ready = bgi_arena_allocate(&exec->arena, device_count, sizeof *exec->ready);
    exec->edges = bgi_arena_allocate(&exec->arena, edge_count, sizeof *exec->edges);
    if (exec->devices == NULL || exec->ready == NULL || exec->edges == NULL)
        return bgi_error_memory(error, "executing a schedule", device_count * sizeof *exec->devices);
    for (uint32_t edge = 0; exec->run->is_timed && edge < edge_count; edge++) {
        const size_t depth = exec->run->depths[edge];
        double *times = bgi_arena_allocate(&exec->arena, 2 * depth, sizeof *times);
        if (times == NULL)
            return bgi_error_memory(error, "the times of messages", 2 * depth * sizeof *times);
        exec->edges[edge].arrivals = times;
        exec->edges[edge].releases = times + depth;
    }
    if (exec->run->is_timed)
        BGI_TRY(prepare_buffers(exec, error));
    return BG_OK;
}

/* Whether, in a strict problem, the next action of device `a` comes before that of `b`, by step, then by place in the
 * data flow. */
static bool is_earlier(const execution *exec, uint32_t a, uint32_t b)
{
    const device_state *first = &exec->devices[a], *second = &exec->devices[b];
    const uint64_t rank = exec->ranks[a][first->position], other = exec->ranks[b][second->position];

    if (first->step != second->step)
        return first->step < second->step;
    return rank != other ? rank < other : a < b;
}

static void push_ready(execution *exec, uint32_t device)
{
    uint32_t at = exec->ready_count++;

    while (exec->ranks != NULL && at > 0 && is_earlier(exec, device, exec->ready[(at - 1) / 2])) {
        exec->ready[at] = exec->ready[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    exec->ready[at] = device;
}

/* Removes the first element of a nonempty heap. */
static uint32_t pop_earliest(execution *exec)
{
    const uint32_t found = exec->ready[0], last = exec->ready[--exec->ready_count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < exec->ready_count; child = 2 * at + 1) {
        if (child + 1 < exec->ready_count && is_earlier(exec, exec->ready[child + 1], exec->ready[child]))
            child++;
        if (!is_earlier(exec, exec->ready[child], last))
            break;
        exec->ready[at] = exec->ready[child];
        at = child;
    }
    exec->ready[at] = last;
    return found;
}

static void wake(execution *exec, uint32_t device, wait_kind wait, uint32_t edge)
{
    device_state *state = &exec->devices[device];

    if (state->wait != wait || state->wait_edge != edge)
        return;
    state->wait = WAITS_NOT;
    if (exec->run->turns == NULL)
        push_ready(exec, device);
}

static bool park(device_state *state, wait_kind wait, uint32_t edge)
{
    state->wait = wait;
    state->wait_edge = edge;
    return false;
}

static void note(execution *exec, uint32_t device, double start, double end)
{
    bgi_schedule_run *run = exec->run;

    if (run->records != NULL && exec->devices[device].step == 0)
        run->records[run->record_count++] = (bgi_schedule_record){
            .device = device, .position = exec->devices[device].position, .start = start, .end = end};
}

static void record(execution *exec, uint32_t device, double start, double end)
{
    exec->devices[device].time = end;
    note(exec, device, start, end);
}

static double latest(double a, double b)
{
    return a > b ? a : b;
}

/* Returns number % depth. Most runs need only numbers below the depth, for which a division would take longer than the
 * comparison. */
static size_t slot_of(uint64_t number, uint32_t depth)
{
    return number < depth ? (size_t)number : (size_t)(number % depth);
}

static bool try_receive(execution *exec, uint32_t device, uint32_t edge, uint64_t number)
{
    const edge_state *state = &exec->edges[edge];
    const double start = exec->devices[device].time;

    if (state->sent <= number)
        return park(&exec->devices[device], WAITS_FOR_MESSAGE, edge);
    record(exec, device, start,
           exec->run->is_timed ? latest(start, state->arrivals[slot_of(number, exec->run->depths[edge])]) : 0.0);
    return true;
}

static void send(execution *exec, uint32_t device, uint32_t edge, uint64_t number)
{
    const bgi_schedule_layout *layout = exec->run->layout;
    const double speed = layout->problem->bytes_per_ns;
    const double time = exec->devices[device].time;

    if (exec->run->is_timed)
        exec->edges[edge].arrivals[slot_of(number, exec->run->depths[edge])] =
            time + (speed > 0 ? (double)layout->problem->edges[edge].size_bytes / speed : 0.0);
    record(exec, device, time, time);
    exec->edges[edge].sent++;
    wake(exec, layout->rows[layout->edges[edge].to].device, WAITS_FOR_MESSAGE, edge);
}

/* Appends a LOAD or STORE to the device's queue. */
static void transfer(execution *exec, uint32_t device, const bg_action *action)
{
    const bg_schedule_problem *problem = exec->run->layout->problem;
    const bg_schedule_buffer *buffer = &problem->buffers[action->index];
    device_state *state = &exec->devices[device];
    const double start = latest(state->time, state->io_time);

    if (exec->run->is_timed) {
        const double speed = problem->remote_bytes_per_ns;
        const buffer_state *times = &exec->buffers[action->index];
        const bool is_part = action->kind == BG_ACTION_STORE && buffer->store_bytes > 0;
        const size_t size_bytes = is_part ? buffer->store_bytes : buffer->size_bytes;
        state->io_time = start + (speed > 0 ? (double)size_bytes / speed : 0.0);
        (action->kind == BG_ACTION_LOAD ? times->loaded : times->stored)[action->micro_batch] = state->io_time;
    }
    note(exec, device, start, exec->run->is_timed ? state->io_time : start);
}

/* Returns the time at which the remote buffers of an action are ready for it. */
static double buffers_ready(const execution *exec, const bg_action *action)
{
    const bgi_schedule_layout *layout = exec->run->layout;
    double ready = 0.0;

    for (uint32_t i = layout->stage_buffer_begin[action->stage]; i < layout->stage_buffer_begin[action->stage + 1];
         i++) {
        const uint32_t b = layout->stage_buffers[i], m = action->micro_batch;
        const bg_schedule_buffer *buffer = &layout->problem->buffers[b];
        const bgi_buffer_use how = bgi_buffer_used_by(layout->problem, buffer, action);
        if (how == BGI_USE_NONE)
            continue;
        if (!buffer->per_micro_batch)
            ready = latest(ready, exec->buffers[b].loaded[0]);
        else if (how == BGI_USE_READ)
            ready = latest(ready, exec->buffers[b].loaded[m]);
        else if (m >= buffer->slots)
            ready = latest(ready, exec->buffers[b].stored[m - buffer->slots]);
    }
    return ready;
}

static bool try_compute(execution *exec, uint32_t device, uint32_t row, uint64_t number, const bg_action *action)
{
    const bgi_schedule_run *run = exec->run;
    const bgi_schedule_layout *layout = run->layout;
    double start = exec->devices[device].time, end;

    for (uint32_t i = layout->from.begin[row]; i < layout->from.begin[row + 1]; i++) {
        const uint32_t edge = layout->from.edges[i], depth = run->depths[edge];
        if (number >= depth && exec->edges[edge].consumed <= number - depth)
            return park(&exec->devices[device], WAITS_FOR_SLOT, edge);
        if (run->is_timed && number >= depth)
            start = latest(start, exec->edges[edge].releases[slot_of(number, depth)]);
    }
    if (run->is_timed)
        start = latest(start, buffers_ready(exec, action));
    end = start + (run->is_timed ? bgi_schedule_cost(layout->problem, action) : 0.0);
    record(exec, device, start, end);
    for (uint32_t i = layout->last.begin[row]; i < layout->last.begin[row + 1]; i++) {
        const uint32_t edge = layout->last.edges[i];
        if (run->is_timed)
            exec->edges[edge].releases[slot_of(number, run->depths[edge])] = end;
        exec->edges[edge].consumed++;
        wake(exec, layout->rows[layout->edges[edge].from].device, WAITS_FOR_SLOT, edge);
    }
    return true;
}

/* Executes the device's next action; returns false, and parks the device, when the action has to wait. */
static bool try_action(execution *exec, uint32_t device)
{
    const bgi_schedule_layout *layout = exec->run->layout;
    const device_state *state = &exec->devices[device];
    const bg_action *action = &exec->run->schedule->lists[device].actions[state->position];
    uint32_t row;
    uint64_t number;

    if (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) {
        transfer(exec, device, action);
        return true;
    }
    row = bgi_schedule_layout_known_row(layout, action); /* bgi_schedule_check has verified that the action has a row */
    number = (uint64_t)state->step * layout->rows[row].count + action->micro_batch;
    if (action->kind == BG_ACTION_RECEIVE)
        return try_receive(exec, device, action->index, number);
    if (action->kind == BG_ACTION_SEND)
        send(exec, device, action->index, number);
    else if (action->kind == BG_ACTION_HOST_IN || action->kind == BG_ACTION_HOST_OUT)
        record(exec, device, state->time, state->time);
    else
        return try_compute(exec, device, row, number, action);
    return true;
}

static bool must_stop(execution *exec)
{
    if (++exec->action_count < BGI_STOP_ACTIONS)
        return exec->is_stopped;
    exec->action_count = 0;
    exec->is_stopped = bgi_schedule_check_stop(exec->run->layout->problem, NULL) != BG_OK;
    return exec->is_stopped;
}

static void advance(execution *exec, uint32_t device)
{
    device_state *state = &exec->devices[device];
    const size_t count = exec->run->schedule->lists[device].count;

    while (state->step < exec->run->step_count && count > 0) {
        if (must_stop(exec) || !try_action(exec, device))
            return;
        if (++state->position == count) {
            state->position = 0;
            state->step++;
        }
    }
}

/* ---- one action at a time ---- */

/* Returns the action's place in the data flow; UINT64_MAX - 1: the action gets the place of a neighboring compute
 * action. */
static uint64_t rank_of(const bg_schedule_problem *problem, const bg_action *action)
{
    const uint64_t positions = bgi_schedule_position_count(problem);
    const uint64_t position = bgi_schedule_position(problem, action->stage);
    const uint64_t base = 2 * positions * action->micro_batch;

    switch (action->kind) {
    case BG_ACTION_FORWARD:
        return base + position;
    case BG_ACTION_RECOMPUTE:
    case BG_ACTION_BACKWARD:
    case BG_ACTION_WEIGHTS:
        return base + 2 * positions - 1 - position;
    case BG_ACTION_UPDATE:
        return 2 * positions * problem->micro_batch_count + (uint64_t)action->index * problem->stage_count +
               action->stage;
    default:
        return UINT64_MAX - 1;
    }
}

static bool belongs_to_next(bg_action_kind kind)
{
    return kind == BG_ACTION_RECEIVE || kind == BG_ACTION_HOST_IN || kind == BG_ACTION_LOAD || kind == BG_ACTION_REDUCE;
}

static bool prepare_ranks(execution *exec)
{
    const bg_schedule *schedule = exec->run->schedule;

    exec->ranks = bgi_arena_allocate(&exec->arena, schedule->device_count, sizeof *exec->ranks);
    for (uint32_t device = 0; exec->ranks != NULL && device < schedule->device_count; device++) {
        const bgi_schedule_list *list = &schedule->lists[device];
        uint64_t *ranks = bgi_arena_allocate(&exec->arena, list->count, sizeof *ranks);
        uint64_t beside = UINT64_MAX - 1;
        if (ranks == NULL)
            return false;
        for (size_t i = list->count; i-- > 0;) {
            const uint64_t own = rank_of(exec->run->layout->problem, &list->actions[i]);
            beside = own != UINT64_MAX - 1 ? own : beside;
            ranks[i] = own != UINT64_MAX - 1 || belongs_to_next(list->actions[i].kind) ? beside : UINT64_MAX;
        }
        for (size_t i = 0; i < list->count; i++) {
            if (ranks[i] == UINT64_MAX)
                ranks[i] = i > 0 ? ranks[i - 1] : 0;
        }
        exec->ranks[device] = ranks;
    }
    return exec->ranks != NULL;
}

/* Removes and returns the device whose next action is the earliest in the data flow; UINT32_MAX: no device can continue
 * in this step. */
static uint32_t take_earliest(execution *exec, uint32_t step)
{
    if (exec->ready_count == 0 || exec->devices[exec->ready[0]].step != step)
        return UINT32_MAX;
    return pop_earliest(exec);
}

/* Executes one action of the device, after all earlier ones; returns false when it has to wait. */
static bool take_turn(execution *exec, uint32_t device)
{
    device_state *state = &exec->devices[device];

    state->time = exec->time;
    if (state->wait != WAITS_NOT || !try_action(exec, device))
        return false;
    exec->time = latest(state->time, state->io_time);
    if (++state->position == exec->run->schedule->lists[device].count) {
        state->position = 0;
        state->step++;
    }
    return true;
}

/* Continues from turn *turn until all steps are done or no device can continue. */
static void advance_in_turns(execution *exec, uint64_t *turn)
{
    const uint64_t total = bgi_schedule_total(exec->run->schedule);

    while (*turn < total * exec->run->step_count) {
        const uint32_t step = (uint32_t)(*turn / total);
        const uint32_t device = exec->run->turns != NULL ? exec->run->turns[*turn % total] : take_earliest(exec, step);
        if (device == UINT32_MAX || must_stop(exec))
            return;
        if (take_turn(exec, device)) {
            ++*turn;
            if (exec->run->turns == NULL && exec->devices[device].step < exec->run->step_count)
                push_ready(exec, device);
        } else if (exec->run->turns != NULL)
            return;
    }
}

/* ---- the whole ---- */

/* Adds a slot to an edge for which a device waits and which may have more slots: to that of the lowest such device.
 * Returns false when there is no such edge. */
static bool deepen(execution *exec)
{
    const bgi_schedule_layout *layout = exec->run->layout;

    for (uint32_t device = 0; exec->run->may_deepen && device < exec->run->schedule->device_count; device++) {
        const device_state *state = &exec->devices[device];
        const uint32_t edge = state->wait_edge;
        if (state->wait != WAITS_FOR_SLOT || exec->run->depths[edge] >= layout->rows[layout->edges[edge].from].count)
            continue;
        exec->run->depths[edge]++;
        wake(exec, device, WAITS_FOR_SLOT, edge);
        return true;
    }
    return false;
}

/* Reports a deadlock. The schedule was checked, so the awaited action is in the list of another device, which also
 * waits. */
static bg_status report_deadlock(const execution *exec, uint32_t device, bg_error *error)
{
    const device_state *state = &exec->devices[device];
    const bgi_schedule_layout *layout = exec->run->layout;
    const bgi_schedule_edge_rows *edge = &layout->edges[state->wait_edge];
    const bg_action *waiting = &exec->run->schedule->lists[device].actions[state->position];
    const bool is_message = state->wait == WAITS_FOR_MESSAGE;
    const uint32_t row = is_message ? edge->from : edge->last, count = layout->rows[row].count;
    const uint64_t number = (uint64_t)state->step * count + waiting->micro_batch;
    const uint64_t awaited_number = is_message ? number : number - exec->run->depths[state->wait_edge];
    const bg_action awaited = bgi_schedule_layout_action(layout, row, (uint32_t)(awaited_number % count));
    char waiting_text[BGI_ACTION_TEXT_BYTES], awaited_text[BGI_ACTION_TEXT_BYTES];

    return bg_error_set(error, BG_ERROR_INVALID,
                        "deadlock: in step %" PRIu32 " device %" PRIu32 ", action %" PRIu32
                        " (%s), micro-batch %" PRIu32 ", waits for %s of edge %" PRIu32 " by %s on device %" PRIu32
                        ", which also waits; one of them must do earlier what the other needs",
                        state->step, device, state->position, bgi_action_text(waiting, waiting_text),
                        waiting->micro_batch, is_message ? "the message" : "the release of a slot", state->wait_edge,
                        bgi_action_text(&awaited, awaited_text), layout->rows[row].device);
}

bg_status bgi_schedule_execute(bgi_schedule_run *run, bg_error *error)
{
    execution exec = {.run = run};
    uint64_t turn = 0;
    bg_status status;

    run->record_count = 0;
    BGI_TRY_CLEANUP(prepare(&exec, error));
    if (run->layout->problem->is_strict && !prepare_ranks(&exec))
        BGI_TRY_CLEANUP(bgi_error_memory(error, "the order of a strict schedule", 0));
    for (uint32_t device = run->schedule->device_count; device-- > 0;)
        if (run->schedule->lists[device].count > 0)
            push_ready(&exec, device);
    do {
        if (run->layout->problem->is_strict)
            advance_in_turns(&exec, &turn);
        else
            while (exec.ready_count > 0)
                advance(&exec, exec.ready[--exec.ready_count]);
    } while (!exec.is_stopped && deepen(&exec));
    if (exec.is_stopped)
        BGI_TRY_CLEANUP(bgi_schedule_check_stop(run->layout->problem, error));
    for (uint32_t device = 0; status == BG_OK && device < run->schedule->device_count; device++)
        if (exec.devices[device].wait != WAITS_NOT)
            status = report_deadlock(&exec, device, error);

cleanup:
    bgi_arena_clear(&exec.arena);
    return status;
}
