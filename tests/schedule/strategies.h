/*
 * strategies.h: functions that tests of generators share. They place a chain as a strategy requires, print the order of
 * a device, count the values that a device stashes, and measure idle time.
 */
#ifndef TESTS_SCHEDULE_STRATEGIES_H
#define TESTS_SCHEDULE_STRATEGIES_H

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <stdio.h>

/* Builds a chain in training on the devices of the strategy's placement, with W separate when the strategy separates
 * it. */
static inline void strategy_chain(test_problem *test, const char *name, uint32_t stage_count, uint32_t device_count,
                                  uint32_t micro_batch_count)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(name);
    bg_error error = {0};

    memset(test, 0, sizeof *test);
    test->problem = bg_schedule_problem_defaults();
    assert_non_null(generator);
    test->problem.stage_count = stage_count;
    test->problem.device_count = device_count;
    test->problem.micro_batch_count = micro_batch_count;
    test->problem.splits_weights = generator->splits_weights;
    test->problem.stage_devices = test->devices;
    if (bg_schedule_place(generator, stage_count, device_count, test->devices, &error) != BG_OK ||
        bg_schedule_problem_chain(&test->problem, 64, &test->chain, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static inline bg_schedule *strategy_schedule(const bg_schedule_problem *problem, const char *name)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    if (bg_schedule_create(problem, bg_schedule_generator_find(name), &schedule, &error) != BG_OK)
        fail_msg("%s, %u stages, %u micro-batches: %s", name, (unsigned)problem->stage_count,
                 (unsigned)problem->micro_batch_count, error.message);
    return schedule;
}

static inline void strategy_refused(const bg_schedule_problem *problem, const char *name, const char *part)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    assert_int_equal(bg_schedule_create(problem, bg_schedule_generator_find(name), &schedule, &error),
                     BG_ERROR_INVALID);
    assert_null(schedule);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, error.message);
}

/* Checks the compute actions of a device, which are printed as "F0.0 F0.1 B0.0 W0.0 U0:0". */
static inline void assert_order(const bg_schedule *schedule, uint32_t device, const char *expected)
{
    const uint32_t count = bg_schedule_action_count(schedule, device);
    char *text = calloc((size_t)count + 1, BGI_ACTION_TEXT_BYTES), action_text[BGI_ACTION_TEXT_BYTES];

    assert_non_null(text);
    for (uint32_t i = 0; i < count; i++) {
        const bg_action *action = &bg_schedule_actions(schedule, device)[i];
        if (action->kind > BG_ACTION_UPDATE)
            continue;
        strcat(strcat(text, text[0] == '\0' ? "" : " "), bgi_action_text(action, action_text));
    }
    assert_string_equal(text, expected);
    free(text);
}

/* Returns the largest number of pairs of a stage and a micro-batch whose forward a device has done while their values
 * are still needed. The last reader is W if the problem splits weights, otherwise B. */
static inline uint32_t most_kept(const bg_schedule *schedule, const bg_schedule_problem *problem, uint32_t device)
{
    const bg_action_kind last = problem->splits_weights ? BG_ACTION_WEIGHTS : BG_ACTION_BACKWARD;
    uint32_t kept = 0, most = 0;

    for (uint32_t i = 0; i < bg_schedule_action_count(schedule, device); i++) {
        const bg_action_kind kind = bg_schedule_actions(schedule, device)[i].kind;
        kept += kind == BG_ACTION_FORWARD;
        kept -= kind == last;
        most = kept > most ? kept : most;
    }
    return most;
}

typedef struct idle_times {
    double makespan;
    double most_within; /* idle time between a device's first and last F, B or W; the largest of all devices */
    double least, most; /* idle time of a device while any device works */
} idle_times;

static inline idle_times find_idle_times(const bg_schedule *schedule, const bg_schedule_problem *problem)
{
    idle_times idle = {.least = 1e300};
    bg_schedule_timing timing;
    bg_error error = {0};

    if (bg_schedule_simulate(schedule, problem, &timing, &error) != BG_OK)
        fail_msg("%s", error.message);
    idle.makespan = timing.makespan;
    for (uint32_t device = 0; device < problem->device_count; device++) {
        double first = 1e300, last = 0;
        const double whole = timing.makespan - timing.device_busy[device];
        for (size_t i = 0; i < timing.event_count; i++) {
            const struct bg_schedule_event *event = &timing.events[i];
            if (event->device != device || event->action.kind > BG_ACTION_WEIGHTS)
                continue;
            first = event->start < first ? event->start : first;
            last = event->end > last ? event->end : last;
        }
        idle.least = whole < idle.least ? whole : idle.least;
        idle.most = whole > idle.most ? whole : idle.most;
        if (last - first - timing.device_busy[device] > idle.most_within)
            idle.most_within = last - first - timing.device_busy[device];
    }
    bg_schedule_timing_clear(&timing);
    return idle;
}

#endif
