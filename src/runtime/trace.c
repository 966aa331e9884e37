/*
 * trace.c: what each device did, in a ring that is taken once and overwritten from its oldest end. An event is the time
 * a worker spent on it: waiting is what lies between events.
 */
#include "runtime/engine.h"

#include <stdlib.h>

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
    bg_trace_event *event = &ring->events[ring->count++ % ring->capacity];

    event->start_ns = start_ns - engine->created_ns;
    event->end_ns = end_ns - engine->created_ns;
    event->action = runner->program->instructions[instruction].action;
    event->action.kind = kind;
    event->replica = runner->replica;
    event->device = runner->number;
    event->worker = worker->number;
    event->is_beside = false;
    event->step = engine->run->step + (bgi_plan_counts_steps(runner->plan) ? runner->run_iteration : 0);
}
