/*
 * test_simulate.c: compares simulated times with closed forms, and checks laws for any costs.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include "core/error.h"

#include <math.h>

static bg_schedule *must_create(const bg_schedule_problem *problem, const bg_schedule_generator *generator)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    if (bg_schedule_create(problem, generator, &schedule, &error) != BG_OK)
        fail_msg("%s: %s", generator->name, error.message);
    return schedule;
}

static void must_simulate(const bg_schedule *schedule, const bg_schedule_problem *problem, bg_schedule_timing *timing)
{
    bg_error error = {0};

    if (bg_schedule_simulate(schedule, problem, timing, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static bg_schedule_timing simulate_once(const bg_schedule_problem *problem, const bg_schedule_generator *generator)
{
    bg_schedule *schedule = must_create(problem, generator);
    bg_schedule_timing timing;

    must_simulate(schedule, problem, &timing);
    bg_schedule_destroy(schedule);
    return timing;
}

/* GPipe and 1F1B have makespan 2(m + p - 1) for unit costs, hence bubble (p - 1) / (m + p - 1). */
static void test_bubble_of_pipelines(void **state)
{
    static const uint32_t stage_counts[] = {2, 4, 8}, micro_batch_counts[] = {4, 8, 32};
    const bg_schedule_generator *const generators[] = {bg_schedule_generator_find("gpipe"),
                                                       bg_schedule_generator_find("interleaved")};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int g = 0; g < 2; g++) {
                const uint32_t p = stage_counts[i], m = micro_batch_counts[j];
                test_problem test;
                bg_schedule_timing timing;

                assert_true(test_chain(&test, p, m, true));
                timing = simulate_once(&test.problem, generators[g]);
                assert_true(timing.makespan == 2.0 * (m + p - 1));
                assert_true(fabs(timing.bubble - (p - 1.0) / (m + p - 1.0)) < 1e-12);
                for (uint32_t device = 0; device < p; device++)
                    assert_true(timing.device_busy[device] == 2.0 * m);
                bg_schedule_timing_clear(&timing);
                test_problem_clear(&test);
            }
}

static void test_bubble_of_sequential_and_inference(void **state)
{
    test_problem test;
    bg_schedule_timing timing;

    (void)state;
    assert_true(test_chain(&test, 4, 6, true));
    timing = simulate_once(&test.problem, bg_schedule_generator_find("sequential"));
    assert_true(timing.makespan == 2.0 * 4 * 6);
    assert_true(fabs(timing.bubble - 3.0 / 4.0) < 1e-12);
    bg_schedule_timing_clear(&timing);
    test_problem_clear(&test);

    assert_true(test_chain(&test, 4, 6, false));
    timing = simulate_once(&test.problem, bg_schedule_generator_find("grouped"));
    assert_true(timing.makespan == 6.0 + 4 - 1);
    assert_true(fabs(timing.bubble - 3.0 / 9.0) < 1e-12);
    bg_schedule_timing_clear(&timing);
    test_problem_clear(&test);
}

/* Two stages, computed by hand: forward 2 and 3, backward 4 and 5; a message of 64 bytes at 32 bytes/ns takes 2.
 * dev0: F0 0-2, F1 2-4. dev1: F0 4-7, B0 7-12, F1 12-15, B1 15-20. dev0: B0 14-18, B1 22-26, update 26-27. */
static void test_times_by_hand(void **state)
{
    const bg_stage_cost costs[] = {{2, 4, 0, 1, 0}, {3, 5, 0, 1, 0}};
    const struct {
        bg_action_kind kind;
        uint32_t stage, micro_batch;
        double start, end;
    } expected[] = {
        {BG_ACTION_FORWARD, 0, 0, 0, 2},    {BG_ACTION_FORWARD, 0, 1, 2, 4},   {BG_ACTION_FORWARD, 1, 0, 4, 7},
        {BG_ACTION_BACKWARD, 1, 0, 7, 12},  {BG_ACTION_FORWARD, 1, 1, 12, 15}, {BG_ACTION_BACKWARD, 0, 0, 14, 18},
        {BG_ACTION_BACKWARD, 1, 1, 15, 20}, {BG_ACTION_UPDATE, 1, 0, 20, 21},  {BG_ACTION_BACKWARD, 0, 1, 22, 26},
        {BG_ACTION_UPDATE, 0, 0, 26, 27},
    };
    test_problem test;
    bg_schedule_timing timing;
    size_t found = 0;

    (void)state;
    assert_true(test_chain(&test, 2, 2, true));
    test.problem.costs = costs;
    test.problem.bytes_per_ns = 32;
    timing = simulate_once(&test.problem, bg_schedule_generator_find("interleaved"));
    assert_true(timing.makespan == 27);
    assert_true(timing.device_busy[0] == 2 * 2 + 2 * 4 + 1);
    assert_true(timing.device_busy[1] == 2 * 3 + 2 * 5 + 1);
    assert_true(fabs(timing.bubble - (1 - 30.0 / 54.0)) < 1e-12);
    for (size_t i = 0; i < timing.event_count; i++) {
        const struct bg_schedule_event *event = &timing.events[i];
        assert_true(i == 0 || event->start >= timing.events[i - 1].start);
        if (event->action.kind > BG_ACTION_UPDATE)
            continue;
        assert_int_equal(event->action.kind, expected[found].kind);
        assert_int_equal(event->action.stage, expected[found].stage);
        assert_int_equal(event->action.micro_batch, expected[found].micro_batch);
        assert_int_equal(event->device, expected[found].stage);
        assert_true(event->start == expected[found].start && event->end == expected[found].end);
        found++;
    }
    assert_int_equal(found, sizeof expected / sizeof expected[0]);
    bg_schedule_timing_clear(&timing);
    test_problem_clear(&test);
}

/* The first stage is fast and the second is slow. With one slot, the first stage waits until each message is read
 * before it computes the next one, so the second stage waits for the first as well. */
static void test_slots_hold_the_producer_back(void **state)
{
    const bg_stage_cost costs[] = {{.forward_ns = 1}, {.forward_ns = 10}};
    static const double last_start[] = {44, 31, 21}, makespans[] = {55, 51, 51}; /* start of F0.4 */

    (void)state;
    for (uint32_t slots = 1; slots <= 3; slots++) {
        test_problem test;
        bg_schedule_timing timing;
        double start = -1;

        assert_true(test_chain(&test, 2, 5, false));
        test.problem.costs = costs;
        test.problem.send_ahead = slots - 1;
        timing = simulate_once(&test.problem, bg_schedule_generator_find("grouped"));
        for (size_t i = 0; i < timing.event_count; i++)
            if (timing.events[i].action.kind == BG_ACTION_FORWARD && timing.events[i].action.stage == 0 &&
                timing.events[i].action.micro_batch == 4)
                start = timing.events[i].start;
        assert_true(start == last_start[slots - 1]);
        assert_true(timing.makespan == makespans[slots - 1]);
        bg_schedule_timing_clear(&timing);
        test_problem_clear(&test);
    }
}

/* Law: no device has two actions at the same time, and each action of the schedule runs once and in order. A device is
 * never busy for longer than the makespan, and the bubble is between 0 and 1. */
static void test_laws_for_any_problem(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        const bg_schedule_generator *generator = bg_schedule_generator_at((uint32_t)(seed % 15));
        uint64_t random = test_seed(seed + 5);
        bg_stage_cost costs[MOST_STAGES];
        test_problem test;
        bg_schedule *schedule;
        bg_schedule_timing timing;
        uint32_t at[16] = {0};
        double free_at[16] = {0};

        test_random_problem_for(&test, seed, generator);
        for (uint32_t stage = 0; stage < MOST_STAGES; stage++)
            costs[stage] = (bg_stage_cost){.forward_ns = test_random(&random, 10),
                                           .backward_ns = test_random(&random, 10),
                                           .weights_ns = test_random(&random, 10),
                                           .update_ns = test_random(&random, 10),
                                           .recompute_ns = test_random(&random, 10)};
        test.problem.costs = costs;
        test.problem.bytes_per_ns = test_random(&random, 3) * 16.0;
        schedule = must_create(&test.problem, generator);
        must_simulate(schedule, &test.problem, &timing);
        assert_int_equal(timing.event_count, bgi_schedule_total(schedule));
        for (size_t i = 0; i < timing.event_count; i++) {
            const struct bg_schedule_event *event = &timing.events[i];
            assert_memory_equal(&event->action, &bg_schedule_actions(schedule, event->device)[at[event->device]++],
                                sizeof event->action);
            assert_true(event->start >= free_at[event->device] && event->end >= event->start);
            free_at[event->device] = event->end;
        }
        for (uint32_t device = 0; device < test.problem.device_count; device++)
            assert_true(timing.device_busy[device] <= timing.makespan * (1 + 1e-12));
        assert_true(timing.bubble > -1e-12 && timing.bubble <= 1);
        bg_schedule_timing_clear(&timing);
        bg_schedule_destroy(schedule);
    }
}

/* R runs while the device would otherwise wait for the gradient, and costs no time as long as it fits into this
 * wait. */
static void test_recompute_overlaps_the_wait(void **state)
{
    static const bool recomputes[] = {true, false};
    bg_stage_cost costs[] = {{.forward_ns = 1, .backward_ns = 2}, {.forward_ns = 1, .backward_ns = 2}};
    double without;
    test_problem test;
    bg_schedule_timing timing;

    (void)state;
    assert_true(test_chain(&test, 2, 1, true));
    test.problem.costs = costs;
    timing = simulate_once(&test.problem, bg_schedule_generator_find("interleaved"));
    without = timing.makespan; /* F F B B */
    assert_true(without == 6);
    bg_schedule_timing_clear(&timing);
    test_problem_clear(&test);
    test.problem.stage_recomputes = recomputes;
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    for (int r = 0; r <= 5; r++) {
        costs[0].recompute_ns = r;
        timing = simulate_once(&test.problem, bg_schedule_generator_find("interleaved"));
        assert_true(timing.makespan == without + (r > 3 ? r - 3 : 0)); /* dev0 waits 3 for F1 and B1 of dev1 */
        assert_true(timing.device_busy[0] == 3 + r);
        bg_schedule_timing_clear(&timing);
    }
    test_problem_clear(&test);
}

/* A schedule of another problem is an error and is not simulated. */
static void test_foreign_problem_is_refused(void **state)
{
    test_problem test, other;
    bg_schedule *schedule;
    bg_schedule_timing timing;
    bg_error error = {0};

    (void)state;
    assert_true(test_chain(&test, 3, 4, true));
    assert_true(test_chain(&other, 3, 5, true));
    schedule = must_create(&test.problem, bg_schedule_generator_find("grouped"));
    assert_int_equal(bg_schedule_simulate(schedule, &other.problem, &timing, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "device 0 lacks F0.4"));
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
    test_problem_clear(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bubble_of_pipelines),
        cmocka_unit_test(test_bubble_of_sequential_and_inference),
        cmocka_unit_test(test_times_by_hand),
        cmocka_unit_test(test_slots_hold_the_producer_back),
        cmocka_unit_test(test_laws_for_any_problem),
        cmocka_unit_test(test_recompute_overlaps_the_wait),
        cmocka_unit_test(test_foreign_problem_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
