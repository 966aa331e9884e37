/*
 * test_generators_looped.c: compares gpipe, looped, looped-bfs and phased with the published orders, bubbles and
 * memory.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/strategies.h"

static void assert_orders(const bg_schedule_problem *problem, const char *name, const char *const *orders)
{
    bg_schedule *schedule = strategy_schedule(problem, name);

    for (uint32_t device = 0; device < problem->device_count; device++)
        assert_order(schedule, device, orders[device]);
    bg_schedule_destroy(schedule);
}

static void test_orders_by_hand(void **state)
{
    static const char *const gpipe[] = {"F0.0 F0.1 F0.2 B0.0 B0.1 B0.2 U0:0", "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2 U1:0"};
    static const char *const looped[] = {
        "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3 U0:0 U2:0",
        "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3 U1:0 U3:0"};
    static const char *const looped_of_three[] = {
        "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 B2.1 F2.2 B0.0 B0.1 B2.2 B0.2 U0:0 U2:0",
        "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 B1.1 F3.2 B3.2 B1.2 U1:0 U3:0"};
    static const char *const looped_bfs[] = {"F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1 U0:0 U2:0",
                                             "F1.0 F1.1 F3.0 F3.1 B3.0 B3.1 B1.0 B1.1 U1:0 U3:0"};
    test_problem test;

    (void)state;
    strategy_chain(&test, "gpipe", 2, 2, 3);
    assert_orders(&test.problem, "gpipe", gpipe);
    test_problem_clear(&test);
    strategy_chain(&test, "looped", 4, 2, 4);
    assert_orders(&test.problem, "looped", looped);
    test.problem.micro_batch_count = 3;
    assert_orders(&test.problem, "looped", looped_of_three);
    test.problem.micro_batch_count = 2;
    assert_orders(&test.problem, "looped-bfs", looped_bfs);
    test_problem_clear(&test);
}

static void test_orders_of_phases(void **state)
{
    static const char *const serial[] = {"F0.0 F0.1 F1.0 F1.1 F2.0 B2.0 F2.1 B2.1 U2:0 B1.0 B1.1 U1:0 B0.0 B0.1 U0:0"};
    static const char *const two_levels[] = {
        "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 B2.0 B2.1 B1.0 B1.1 B0.0 B0.1 U0:0 U1:0 U2:0 U0:1 U1:1 U2:1"};
    static const char *const last_phase_of_two[] = {
        "F0.0 F0.1 F1.0 F2.0 B2.0 B1.0 F1.1 F2.1 B2.1 U2:0 B1.1 U1:0 B0.0 B0.1 U0:0"};
    static const char *const alternating[] = {"F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 U2:0 B0.0 B0.1 U0:0",
                                              "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 U3:0 B1.0 B1.1 U1:0"};
    static const char *const pipelined_phase[] = {
        "F0.0 F0.1 F0.2 F2.0 F2.1 B2.0 F2.2 B2.1 B2.2 U2:0 B0.0 B0.1 B0.2 U0:0",
        "F1.0 F1.1 F1.2 F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 U3:0 B1.0 B1.1 B1.2 U1:0"};
    static const char *const inference[] = {"F0.0 F0.1 F1.0 F1.1 F2.0 F2.1"};
    static const uint32_t phases[] = {0, 1, 1}, halves[] = {0, 0, 1, 1};
    test_problem test;

    (void)state;
    strategy_chain(&test, "phased", 3, 1, 2);
    assert_orders(&test.problem, "phased", serial);
    test.problem.stage_phases = phases;
    assert_orders(&test.problem, "phased", last_phase_of_two);
    test.problem.stage_phases = NULL;
    test.problem.merges_loss = false;
    test.problem.update_level_count = 2;
    assert_orders(&test.problem, "phased", two_levels);
    test.problem.training = false;
    test.problem.edge_count = 2;
    assert_orders(&test.problem, "phased", inference);
    test_problem_clear(&test);

    strategy_chain(&test, "phased", 4, 2, 2);
    assert_orders(&test.problem, "phased", alternating);
    test.problem.stage_phases = halves;
    test.problem.micro_batch_count = 3;
    assert_orders(&test.problem, "phased", pipelined_phase);
    test_problem_clear(&test);
}

/* An update that depends on another stage's update cannot run before it. */
static void test_messages_between_updates_of_phases(void **state)
{
    bg_schedule_edge edges[16];
    test_problem test;
    bg_schedule *schedule;

    (void)state;
    strategy_chain(&test, "phased", 3, 1, 2);
    memcpy(edges, test.problem.edges, test.problem.edge_count * sizeof edges[0]);
    edges[test.problem.edge_count++] = (bg_schedule_edge){.from_kind = BG_ACTION_UPDATE,
                                                          .from_stage = 0,
                                                          .to_kind = BG_ACTION_UPDATE,
                                                          .last_kind = BG_ACTION_UPDATE,
                                                          .to_stage = 2};
    test.problem.edges = edges;
    schedule = strategy_schedule(&test.problem, "phased");
    assert_order(schedule, 0, "F0.0 F0.1 F1.0 F1.1 F2.0 B2.0 F2.1 B2.1 B1.0 B1.1 B0.0 B0.1 U0:0 U1:0 U2:0");
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

/* Checks that the idle share of GPipe, 1F1B (v = 1) and both loops is (p - 1) / (v m + p - 1) for p devices with v
 * stages each, with the same `costs` for all stages. */
static void assert_bubble(const char *name, uint32_t p, uint32_t v, uint32_t m, const bg_stage_cost *cost)
{
    const double work = cost->forward_ns + cost->backward_ns;
    bg_stage_cost costs[MOST_STAGES * 2];
    test_problem test;
    bg_schedule *schedule;
    idle_times idle;

    for (uint32_t stage = 0; stage < p * v; stage++)
        costs[stage] = *cost;
    strategy_chain(&test, name, p * v, p, m);
    test.problem.costs = costs;
    schedule = strategy_schedule(&test.problem, name);
    idle = find_idle_times(schedule, &test.problem);
    if (idle.makespan != work * (v * m + p - 1) || idle.least != work * (p - 1) || idle.most != work * (p - 1))
        fail_msg("%s, %u x %u stages, %u micro-batches: makespan %g, expected %g; idle %g to %g, expected %g", name,
                 (unsigned)p, (unsigned)v, (unsigned)m, idle.makespan, work * (v * m + p - 1), idle.least, idle.most,
                 work * (p - 1));
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static void test_bubbles(void **state)
{
    static const uint32_t device_counts[] = {4, 8}, micro_batch_counts[] = {8, 32};
    static const bg_stage_cost costs[] = {{.forward_ns = 1, .backward_ns = 1}, {.forward_ns = 1, .backward_ns = 2}};

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int c = 0; c < 2; c++) {
                const uint32_t p = device_counts[i], m = micro_batch_counts[j];
                assert_bubble("gpipe", p, 1, m, &costs[c]);
                assert_bubble("interleaved", p, 1, m, &costs[c]);
                for (uint32_t v = 1; v <= 4; v++) {
                    assert_bubble("looped", p, v, m, &costs[c]);
                    assert_bubble("looped-bfs", p, v, m, &costs[c]);
                }
            }
}

/* From 2 p micro-batches on, with W separate, a device is idle for p - 1 times F + B - W at the beginning and end and
 * never between, as with zb-h1. Ramps are proportional to the length of stages. */
static void test_bubbles_with_weights_apart(void **state)
{
    static const bg_stage_cost one = {.forward_ns = 1, .backward_ns = 1, .weights_ns = 1};

    (void)state;
    for (uint32_t p = 1; p <= 6; p++)
        for (uint32_t v = 1; v <= 4; v++)
            for (uint32_t m = 2 * p; m <= 4 * p; m += p) {
                bg_stage_cost costs[MOST_STAGES * 2];
                test_problem test;
                bg_schedule *schedule;
                idle_times idle;

                for (uint32_t stage = 0; stage < p * v; stage++)
                    costs[stage] = one;
                strategy_chain(&test, "looped-zb", p * v, p, m);
                test.problem.costs = costs;
                schedule = strategy_schedule(&test.problem, "looped-zb");
                idle = find_idle_times(schedule, &test.problem);
                if (idle.makespan != 3 * v * m + p - 1)
                    fail_msg("%u x %u stages, %u micro-batches: makespan %g, expected %u", (unsigned)p, (unsigned)v,
                             (unsigned)m, idle.makespan, (unsigned)(3 * v * m + p - 1));
                bg_schedule_destroy(schedule);
                test_problem_clear(&test);
            }
}

/* With one stage per device the schedule is zb-h1, action by action, and it completes for any number of micro-batches.
 */
static void test_one_loop_with_weights_apart(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 5; p++)
        for (uint32_t m = 1; m <= 3 * p; m++) {
            test_problem test, other;
            bg_schedule *schedule, *h1;
            char *text = NULL, *text_h1 = NULL;

            strategy_chain(&test, "looped-zb", p, p, m);
            strategy_chain(&other, "zb-h1", p, p, m);
            schedule = strategy_schedule(&test.problem, "looped-zb");
            h1 = strategy_schedule(&other.problem, "zb-h1");
            assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
            assert_int_equal(bg_schedule_print(h1, &text_h1, NULL), BG_OK);
            assert_string_equal(text, text_h1);
            free(text);
            free(text_h1);
            bg_schedule_destroy(schedule);
            bg_schedule_destroy(h1);
            test_problem_clear(&test);
            test_problem_clear(&other);
        }
}

static uint32_t find_kept(const char *name, uint32_t p, uint32_t v, uint32_t m, uint32_t device)
{
    test_problem test;
    bg_schedule *schedule;
    uint32_t kept;

    strategy_chain(&test, name, p * v, p, m);
    schedule = strategy_schedule(&test.problem, name);
    kept = most_kept(schedule, &test.problem, device);
    for (uint32_t stage = 0; strcmp(name, "looped") != 0 && stage < p * v; stage++)
        assert_int_equal(bg_schedule_stage_in_flight(schedule, stage), m);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
    return kept;
}

/* GPipe and looped-bfs stash all micro-batches. In Megatron's loops, device i does 2 (p - 1 - i) + (v - 1) p forwards
 * before it alternates, and keeps one more. Device 0 thus keeps p v (1 + (p - 1) / (p v)), the published overhead over
 * 1F1B's p v. With v = 1 the order is that of 1F1B. */
static void test_memory(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 6; p++)
        for (uint32_t v = 1; v <= 2; v++) {
            const uint32_t m = 4 * p;
            assert_int_equal(find_kept("looped-bfs", p, v, m, 0), v * m);
            for (uint32_t i = 0; i < p; i++)
                assert_int_equal(find_kept("looped", p, v, m, i), v == 1 ? p - i : 2 * (p - 1 - i) + (v - 1) * p + 1);
            assert_int_equal(find_kept("gpipe", p, 1, m, 0), m);
        }
}

/* Micro-batches that do not fill a round of the loops need no more time or memory than a full round. */
static void test_rounds_that_are_not_full(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 5; p++)
        for (uint32_t m = 1; m <= 4 * p; m++) {
            const uint32_t full = (m + p - 1) / p * p;
            test_problem test, full_test;
            bg_schedule *schedule, *full_schedule;

            strategy_chain(&test, "looped", 2 * p, p, m);
            strategy_chain(&full_test, "looped", 2 * p, p, full);
            schedule = strategy_schedule(&test.problem, "looped");
            full_schedule = strategy_schedule(&full_test.problem, "looped");
            assert_true(find_idle_times(schedule, &test.problem).makespan <=
                        find_idle_times(full_schedule, &full_test.problem).makespan);
            for (uint32_t device = 0; device < p; device++)
                assert_true(most_kept(schedule, &test.problem, device) <=
                            most_kept(full_schedule, &full_test.problem, device));
            bg_schedule_destroy(schedule);
            bg_schedule_destroy(full_schedule);
            test_problem_clear(&test);
            test_problem_clear(&full_test);
        }
}

/* The order of devices differs from that of stages, but only the grouping of stages affects the schedule. */
static void test_loops_over_permuted_devices(void **state)
{
    test_problem test;
    bg_schedule *schedule;

    (void)state;
    strategy_chain(&test, "looped", 6, 3, 6);
    for (uint32_t stage = 0; stage < 6; stage++)
        test.devices[stage] = (uint32_t[]){2, 0, 1}[stage % 3];
    schedule = strategy_schedule(&test.problem, "looped");
    assert_int_equal(bg_schedule_actions(schedule, 2)[0].stage, 0);
    assert_true(find_idle_times(schedule, &test.problem).makespan == 2 * (2 * 6 + 3 - 1));
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_by_hand),
        cmocka_unit_test(test_orders_of_phases),
        cmocka_unit_test(test_messages_between_updates_of_phases),
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_bubbles_with_weights_apart),
        cmocka_unit_test(test_one_loop_with_weights_apart),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_rounds_that_are_not_full),
        cmocka_unit_test(test_loops_over_permuted_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
