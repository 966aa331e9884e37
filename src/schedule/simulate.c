/*
 * simulate.c: computes how long one step of a schedule takes, given the costs of its actions. It runs no kernel and
 * knows no graph.
 *
 * Devices run their lists in order, and a producer waits for its slot. A message takes size / bytes_per_ns from SEND
 * on, and messages do not slow each other down. An action begins at the latest of the times that it waits for, so times
 * are exact sums of costs and do not depend on the order in which they are computed.
 */
#include "schedule/verify.h"

#include "core/error.h"

#include <stdlib.h>

typedef struct start {
    double time;
    size_t record; /* the order among actions that start at the same time */
} start;

static int compare_starts(const void *left, const void *right)
{
    const start *a = left, *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->record < b->record ? -1 : a->record > b->record;
}

static bool is_compute(bg_action_kind kind)
{
    return kind <= BG_ACTION_UPDATE;
}

/* Computes makespan, busy times and bubble. A device's records are in the order of its list, regardless of the order in
 * which devices were advanced, so the sums are always the same. */
static void summarize(const bg_schedule *schedule, const bgi_schedule_facts *facts, bg_schedule_timing *timing)
{
    double busy = 0.0;

    for (size_t i = 0; i < facts->record_count; i++) {
        const bgi_schedule_record *record = &facts->records[i];
        if (record->end > timing->makespan)
            timing->makespan = record->end;
        if (is_compute(schedule->lists[record->device].actions[record->position].kind))
            timing->device_busy[record->device] += record->end - record->start;
    }
    for (uint32_t device = 0; device < schedule->device_count; device++)
        busy += timing->device_busy[device];
    timing->bubble = timing->makespan > 0 ? 1.0 - busy / (schedule->device_count * timing->makespan) : 0.0;
}

static bg_status add_events(const bg_schedule *schedule, const bgi_schedule_facts *facts, bg_schedule_timing *timing,
                            bg_error *error)
{
    const size_t count = facts->record_count;
    start *starts = calloc(count, sizeof *starts);

    timing->events = calloc(count, sizeof *timing->events);
    if (starts == NULL || timing->events == NULL) {
        free(starts);
        return bgi_error_memory(error, "the events of a simulation", count * sizeof *timing->events);
    }
    for (size_t i = 0; i < count; i++)
        starts[i] = (start){.time = facts->records[i].start, .record = i};
    qsort(starts, count, sizeof *starts, compare_starts);
    for (size_t i = 0; i < count; i++) {
        const bgi_schedule_record *record = &facts->records[starts[i].record];
        timing->events[i] =
            (struct bg_schedule_event){.action = schedule->lists[record->device].actions[record->position],
                                       .device = record->device,
                                       .start = record->start,
                                       .end = record->end};
    }
    timing->event_count = count;
    free(starts);
    return BG_OK;
}

bg_status bgi_schedule_simulate(const bg_schedule *schedule, const bgi_schedule_facts *facts, bool wants_events,
                                bg_schedule_timing *out, bg_error *error)
{
    bg_schedule_timing timing = {.device_busy = calloc(schedule->device_count, sizeof *timing.device_busy)};
    bg_status status = BG_OK;

    if (timing.device_busy == NULL)
        return bgi_error_memory(error, "a simulation", schedule->device_count * sizeof *timing.device_busy);
    summarize(schedule, facts, &timing);
    if (wants_events)
        BGI_TRY_CLEANUP(add_events(schedule, facts, &timing, error));
    *out = timing;
    return BG_OK;

cleanup:
    bg_schedule_timing_clear(&timing);
    return status;
}

bg_status bg_schedule_simulate(const bg_schedule *schedule, const bg_schedule_problem *problem, bg_schedule_timing *out,
                               bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));
    BGI_TRY(bgi_require(problem, "problem", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bgi_schedule_facts facts;
    bg_status status;

    BGI_TRY(bgi_schedule_facts_init(&facts, schedule, problem, error));
    status = bgi_schedule_simulate(schedule, &facts, true, out, error);
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
