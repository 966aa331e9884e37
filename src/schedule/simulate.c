/*
 * simulate.c: how long does one step of a schedule take, given what its actions cost? Runs no kernel and knows no
 * graph.
 *
 * Devices run their lists in order; a message takes size / bytes_per_ns from SEND on, and messages do not slow each
 * other down; a producer waits for its slot. An action's time is the latest of what it waits for, so times are exact
 * sums of costs and do not depend on the order in which they are computed.
 */
#include "schedule/verify.h"

#include "core/error.h"

#include <stdlib.h>

typedef struct ordered_event {
    struct bg_schedule_event event;
    size_t order; /* among events that start together */
} ordered_event;

static int compare_events(const void *left, const void *right)
{
    const ordered_event *a = left, *b = right;

    if (a->event.start != b->event.start)
        return a->event.start < b->event.start ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool is_compute(bg_action_kind kind)
{
    return kind <= BG_ACTION_UPDATE;
}

static void summarise(bg_schedule_timing *timing, uint32_t device_count)
{
    double busy = 0.0;

    for (size_t i = 0; i < timing->event_count; i++) {
        const struct bg_schedule_event *event = &timing->events[i];
        if (event->end > timing->makespan)
            timing->makespan = event->end;
        if (is_compute(event->action.kind))
            timing->device_busy[event->device] += event->end - event->start;
    }
    for (uint32_t device = 0; device < device_count; device++)
        busy += timing->device_busy[device];
    timing->bubble = timing->makespan > 0 ? 1.0 - busy / (device_count * timing->makespan) : 0.0;
}

static bg_status make_timing(const bg_schedule *schedule, const bgi_schedule_record *records, size_t count,
                             bg_schedule_timing *out, bg_error *error)
{
    bg_schedule_timing timing = {.event_count = count};
    ordered_event *ordered = calloc(count, sizeof *ordered);

    timing.events = calloc(count, sizeof *timing.events);
    timing.device_busy = calloc(schedule->device_count, sizeof *timing.device_busy);
    if (ordered == NULL || timing.events == NULL || timing.device_busy == NULL) {
        free(ordered);
        bg_schedule_timing_clear(&timing);
        return bgi_error_memory(error, "the events of a simulation", count * sizeof *ordered);
    }
    for (size_t i = 0; i < count; i++)
        ordered[i] =
            (ordered_event){.event = {.action = schedule->lists[records[i].device].actions[records[i].position],
                                      .device = records[i].device,
                                      .start = records[i].start,
                                      .end = records[i].end},
                            .order = i};
    qsort(ordered, count, sizeof *ordered, compare_events);
    for (size_t i = 0; i < count; i++)
        timing.events[i] = ordered[i].event;
    free(ordered);
    summarise(&timing, schedule->device_count);
    *out = timing;
    return BG_OK;
}

bg_status bgi_schedule_time(const bg_schedule *schedule, bgi_schedule_facts *facts, bg_error *error)
{
    bgi_schedule_run run = {.schedule = schedule,
                            .layout = &facts->layout,
                            .step_count = 1,
                            .is_timed = true,
                            .depths = facts->depths,
                            .records = facts->records};
    const bg_status status = bgi_schedule_execute(&run, error);

    facts->record_count = run.record_count;
    return status;
}

bg_status bg_schedule_simulate(const bg_schedule *schedule, const bg_schedule_problem *problem, bg_schedule_timing *out,
                               bg_error *error)
{
    bgi_schedule_facts facts;
    bg_status status;

    BGI_TRY(bgi_schedule_facts_init(&facts, schedule, problem, error));
    status = bgi_schedule_time(schedule, &facts, error);
    if (status == BG_OK)
        status = make_timing(schedule, facts.records, facts.record_count, out, error);
    bgi_schedule_facts_clear(&facts);
    return status;
}

void bg_schedule_timing_clear(bg_schedule_timing *timing)
{
    if (timing == NULL)
        return;
    free(timing->events);
    free(timing->device_busy);
    *timing = (bg_schedule_timing){0};
}
