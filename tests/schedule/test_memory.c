/*
 * test_memory.c: fails the n-th allocation for n = 1, 2, 3, ... until the operation succeeds; each failure must be
 * reported, without a leak or a crash.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "support/allocations.h"

#include <stdio.h>

/* Runs `operation` with one failing allocation after the other until all have failed once. The operation must undo its
 * own changes. */
static void fail_each_allocation(bg_status (*operation)(const bg_schedule_problem *, bg_error *),
                                 const bg_schedule_problem *problem, uint64_t fewest)
{
    static bg_error error;
    uint64_t n = 0;
    bool has_failed = true;

    while (has_failed) {
        const int64_t before = test_allocations_live();
        bg_status status;

        bg_error_clear(&error);
        test_allocations_fail(++n);
        status = operation(problem, &error);
        has_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        if (status != (has_failed ? BG_ERROR_MEMORY : BG_OK) || test_allocations_live() != before)
            fail_msg("allocation %llu: status %s, %lld blocks left, %s", (unsigned long long)n, bg_status_name(status),
                     (long long)(test_allocations_live() - before), error.message);
    }
    assert_true(n > fewest); /* checks that at least one allocation failed */
}

static const char *strategy = "interleaved";

static bg_status create(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule *schedule = NULL;
    const bg_status status = bg_schedule_create(problem, bg_schedule_generator_find(strategy), &schedule, error);

    bg_schedule_destroy(schedule);
    return status;
}

static bg_schedule *made; /* allocated by the test, outside the limit */
static const char *made_text;

static bg_status simulate(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule_timing timing = {0};
    const bg_status status = bg_schedule_simulate(made, problem, &timing, error);

    bg_schedule_timing_clear(&timing);
    return status;
}

static bg_status draw(const bg_schedule_problem *problem, bg_error *error)
{
    char *text = NULL;
    const bg_status status = bg_schedule_timetable(made, problem, &text, error);

    free(text);
    return status;
}

static bg_status print(const bg_schedule_problem *problem, bg_error *error)
{
    char *text = NULL;
    const bg_status status = bg_schedule_print(made, &text, error);

    (void)problem;
    free(text);
    return status;
}

static bg_status parse(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule *schedule = NULL;
    const bg_status status = bg_schedule_parse(made_text, NULL, &schedule, error);

    (void)problem;
    bg_schedule_destroy(schedule);
    return status;
}

static bg_status chain(const bg_schedule_problem *problem, bg_error *error)
{
    bg_schedule_problem copy = *problem;
    bg_schedule_edge *edges = NULL;
    const bg_status status = bg_schedule_problem_chain(&copy, 64, &edges, error);

    free(edges);
    return status;
}

static void test_each_allocation_may_fail(void **state)
{
    test_problem test;
    char *text = NULL;

    (void)state;
    if (!test_allocations_available())
        skip();
    assert_true(test_chain(&test, 4, 8, true));
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("grouped"), &made, NULL), BG_OK);
    assert_int_equal(bg_schedule_print(made, &text, NULL), BG_OK);
    made_text = text;
    fail_each_allocation(create, &test.problem, 20);
    fail_each_allocation(simulate, &test.problem, 10);
    fail_each_allocation(draw, &test.problem, 10);
    fail_each_allocation(print, &test.problem, 3);
    fail_each_allocation(parse, &test.problem, 5);
    fail_each_allocation(chain, &test.problem, 1);
    free(text);
    bg_schedule_destroy(made);
    test_problem_clear(&test);
}

/* Strategies allocate state while they generate a schedule with concurrent stages or with stages in a V. */
static void test_each_allocation_of_a_strategy_may_fail(void **state)
{
    static const char *const names[] = {"zb-v", "dualpipev"};
    static const uint32_t positions[] = {0, 1, 2, 2};
    test_problem test;

    (void)state;
    if (!test_allocations_available())
        skip();
    assert_true(test_chain(&test, 4, 4, true));
    test.problem.edge_count = 0;
    test.problem.splits_weights = true;
    test.problem.stage_positions = positions;
    strategy = "zb-h1";
    fail_each_allocation(create, &test.problem, 15);
    test.problem.stage_positions = NULL;
    test.devices[2] = 1;
    test.devices[3] = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        strategy = names[i];
        fail_each_allocation(create, &test.problem, 15);
    }
    test.devices[2] = 0;
    test.devices[3] = 1;
    strategy = "looped";
    fail_each_allocation(create, &test.problem, 15);
    strategy = "interleaved";
    test_problem_clear(&test);
}

/* The search tries all orders of a small problem, and rules and changes within limits for a larger one. */
static void test_each_allocation_of_a_search_may_fail(void **state)
{
    static const bg_stage_cost costs[] = {{.forward_ns = 3, .backward_ns = 8},
                                          {.forward_ns = 5, .backward_ns = 7},
                                          {.forward_ns = 4, .backward_ns = 5},
                                          {.forward_ns = 2, .backward_ns = 9}};
    static const size_t limits[] = {700, 600, 500, 400};
    test_problem test;

    (void)state;
    if (!test_allocations_available())
        skip();
    strategy = "auto";
    for (uint32_t micro_batches = 2; micro_batches <= 5; micro_batches += 3) {
        assert_true(test_chain(&test, 4, micro_batches, true));
        test.problem.costs = costs;
        test.problem.device_slot_bytes = limits;
        fail_each_allocation(create, &test.problem, 100);
        test_problem_clear(&test);
    }
    strategy = "interleaved";
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_may_fail),
                                       cmocka_unit_test(test_each_allocation_of_a_strategy_may_fail),
                                       cmocka_unit_test(test_each_allocation_of_a_search_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
