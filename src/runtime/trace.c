/*
 * trace.c: records the events of each device in a ring that is allocated once; new events overwrite the oldest ones. An
 * event's time is the time that a worker spent on it; devices wait between events.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"

bg_status bgi_trace_init(bgi_trace_ring *ring, uint32_t capacity, bg_error *error)
{
    if (capacity == 0)
        capacity = 1;
    ring->events = calloc(capacity, sizeof *ring->events);
    if (ring->events == NULL)
        return bgi_error_memory(error, "trace events", capacity * sizeof *ring->events);
    ring->capacity = capacity;
    ring->count = 0;
    return BG_OK;
}

void bgi_trace_clear(bgi_trace_ring *ring)
{
    free(ring->events);
    ring->events = NULL;
}

void bgi_trace_put(bgi_trace_ring *ring, const bg_trace_event *event)
{
    ring->events[ring->count++ % ring->capacity] = *event;
    ring->kind_count[event->action.kind]++;
    ring->kind_ns[event->action.kind] += event->end_ns - event->start_ns;
}

/* ---- calls ---- */

/* Whether the calls of an instruction include all calls of another one, which may be a part of it. */
static bool has_calls(const bgi_instruction *instruction, const bgi_instruction *of)
{
    return instruction->call_count > 0 && of->calls >= instruction->calls &&
           of->calls + of->call_count <= instruction->calls + instruction->call_count;
}

/* Returns the last earlier instruction of the same kind if it has the instruction's calls, otherwise
 * BGI_NO_INSTRUCTION. */
static uint32_t find_sharer(const bgi_plan_device *program, uint32_t instruction, const uint32_t *by_kind)
{
    const bgi_instruction *of = &program->instructions[instruction];
    const uint32_t last = by_kind[of->action.kind];

    return last != BGI_NO_INSTRUCTION && has_calls(&program->instructions[last], of) ? last : BGI_NO_INSTRUCTION;
}

/* Searches backward for an instruction that has the given instruction's calls. A program alternates between a few
 * stages, so the last instruction of the kind may belong to another stage. */
static uint32_t search_sharer(const bgi_plan_device *program, uint32_t instruction)
{
    enum { MOST_BACK = 4096 };
    const bgi_instruction *of = &program->instructions[instruction];

    for (uint32_t back = 1; back <= instruction && back <= MOST_BACK; back++)
        if (has_calls(&program->instructions[instruction - back], of))
            return instruction - back;
    return BGI_NO_INSTRUCTION;
}

bg_status bgi_call_times_init(bgi_call_times *times, const bgi_plan_device *program, bg_error *error)
{
    uint32_t by_kind[BG_ACTION_KIND_COUNT];

    for (int kind = 0; kind < BG_ACTION_KIND_COUNT; kind++)
        by_kind[kind] = BGI_NO_INSTRUCTION;
    times->first = calloc((size_t)program->instruction_count + 1, sizeof *times->first);
    if (times->first == NULL)
        return bgi_error_memory(error, "times of calls", program->instruction_count * sizeof *times->first);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const bgi_instruction *instruction = &program->instructions[i];
        uint32_t sharer = BGI_NO_INSTRUCTION;
        if (instruction->call_count > 0) {
            sharer = find_sharer(program, i, by_kind);
            if (sharer == BGI_NO_INSTRUCTION)
                sharer = search_sharer(program, i);
            by_kind[instruction->action.kind] = i;
        }
        times->first[i] =
            sharer == BGI_NO_INSTRUCTION
                ? times->count
                : times->first[sharer] + (uint32_t)(instruction->calls - program->instructions[sharer].calls);
        if (sharer == BGI_NO_INSTRUCTION)
            times->count += instruction->call_count;
    }
    times->times = calloc((size_t)times->count + 1, sizeof *times->times);
    return times->times != NULL ? BG_OK
                                : bgi_error_memory(error, "times of calls", times->count * sizeof *times->times);
}

void bgi_call_times_clear(bgi_call_times *times)
{
    free(times->times);
    free(times->first);
    *times = (bgi_call_times){.times = NULL};
}

void bgi_call_times_add(bgi_call_times *times, uint32_t instruction, uint32_t call, uint64_t ns)
{
    bgi_call_time *time = &times->times[times->first[instruction] + call];

    if (time->count++ == 0 || ns < time->least_ns)
        time->least_ns = ns;
    if (ns > time->most_ns)
        time->most_ns = ns;
    time->total_ns += ns;
}

/* ---- runs ---- */

void bgi_trace_add_run(bgi_engine *engine, uint64_t start_ns, uint64_t steps)
{
    bgi_run_spans *runs = &engine->run_spans;
    const uint64_t end_ns = bgi_clock_ns() - engine->created_ns;

    start_ns -= engine->created_ns;
    if (runs->count == 0)
        runs->start_ns = start_ns;
    runs->spans[runs->count++ % BGI_RUN_SPANS] = (bgi_run_span){.start_ns = start_ns, .end_ns = end_ns, .steps = steps};
    runs->total_ns += end_ns - start_ns;
    runs->steps += steps;
    runs->end_ns = end_ns;
}

static void forget(bgi_trace_ring *ring)
{
    *ring = (bgi_trace_ring){.events = ring->events, .capacity = ring->capacity};
}

void bgi_trace_switch(bgi_engine *engine, bool on)
{
    for (uint32_t i = 0; i < engine->local_count; i++) {
        bgi_runner *runner = engine->local[i];
        atomic_store_explicit(&runner->is_traced, on && runner->trace.events != NULL, memory_order_relaxed);
        runner->is_sampled = false;
        if (!bgi_trace_is_on(runner))
            continue;
        forget(&runner->trace);
        forget(&runner->io_trace);
        memset(runner->call_times.times, 0, runner->call_times.count * sizeof *runner->call_times.times);
    }
    pthread_mutex_lock(&engine->help_mutex);
    for (uint32_t i = 0; on && i < engine->worker_count; i++)
        forget(&engine->workers[i].helps);
    pthread_mutex_unlock(&engine->help_mutex);
    if (on)
        engine->run_spans = (bgi_run_spans){.spans = engine->run_spans.spans};
}

/* ---- actions ---- */

uint64_t bgi_trace_add(bgi_runner *runner, const bgi_worker *worker, bg_action_kind kind, uint64_t start_ns)
{
    const uint64_t now_ns = bgi_clock_ns();

    bgi_trace_add_span(runner, worker, kind, start_ns, now_ns);
    return now_ns;
}

void bgi_trace_add_span(bgi_runner *runner, const bgi_worker *worker, bg_action_kind kind, uint64_t start_ns,
                        uint64_t end_ns)
{
    const bgi_engine *engine = runner->engine;
    bgi_trace_ring *ring = &runner->trace;
    const uint32_t instruction = atomic_load_explicit(&runner->instruction, memory_order_relaxed);
    bg_trace_event event = {.start_ns = start_ns - engine->created_ns,
                            .end_ns = end_ns - engine->created_ns,
                            .action = runner->program->instructions[instruction].action,
                            .replica = runner->replica,
                            .device = runner->number,
                            .worker = worker->number,
                            .step =
                                engine->run->step + (bgi_plan_counts_steps(runner->plan) ? runner->run_iteration : 0)};

    event.action.kind = kind;
    bgi_trace_put(ring, &event);
}

/* Records a worker's help. The event has the device's current action, although the device may have advanced since the
 * worker helped. */
void bgi_trace_add_help(bgi_worker *worker, const bgi_runner *runner, uint64_t start_ns)
{
    bgi_engine *engine = worker->engine;
    const uint32_t instruction = atomic_load_explicit(&runner->instruction, memory_order_relaxed);
    const bg_trace_event event = {.start_ns = start_ns - engine->created_ns,
                                  .end_ns = bgi_clock_ns() - engine->created_ns,
                                  .action = runner->program->instructions[instruction].action,
                                  .replica = runner->replica,
                                  .device = runner->number,
                                  .worker = worker->number,
                                  .is_beside = true};

    pthread_mutex_lock(&engine->help_mutex);
    bgi_trace_put(&worker->helps, &event);
    pthread_mutex_unlock(&engine->help_mutex);
}
