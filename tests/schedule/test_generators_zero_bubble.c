/*
 * test_generators_zero_bubble.c: compares the strategies with separate W (zb-h1, zb-h2, zb-v, v-half, v-min, dualpipev)
 * with the published orders, bubbles and memory. Most tests use F = B = W, as the published figures assume.
 *
 * "Idle within" is the bubble of Qi et al.: the time of a device between its first and its last action, less its work.
 * The bubble does not include the ramp, during which the devices begin one after the other; the next weight update
 * overlaps the ramp.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/strategies.h"

/* Compares the orders with handwritten ones: one string for each device, NULL at the end. */
static void assert_orders(const char *name, uint32_t stage_count, uint32_t device_count, uint32_t micro_batch_count,
                          const char *const *orders)
{
    test_problem test;
    bg_schedule *schedule;

    strategy_chain(&test, name, stage_count, device_count, micro_batch_count);
    schedule = strategy_schedule(&test.problem, name);
    for (uint32_t device = 0; device < device_count; device++)
        assert_order(schedule, device, orders[device]);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static void test_orders_by_hand(void **state)
{
    static const char *const zb_h1[] = {
        "F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 F0.4 B0.2 W0.2 B0.3 W0.3 B0.4 W0.4 U0:0",
        "F1.0 F1.1 B1.0 F1.2 B1.1 W1.0 F1.3 B1.2 W1.1 F1.4 B1.3 W1.2 B1.4 W1.3 W1.4 U1:0",
        "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 W2.0 F2.3 B2.3 W2.1 F2.4 B2.4 W2.2 W2.3 W2.4 U2:0"};
    static const char *const zb_h2[] = {
        "F0.0 F0.1 F0.2 F0.3 F0.4 B0.0 W0.0 F0.5 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3 B0.4 W0.4 B0.5 W0.5 U0:0",
        "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F1.4 B1.2 W1.0 F1.5 B1.3 W1.1 B1.4 W1.2 B1.5 W1.3 W1.4 W1.5 U1:0",
        "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3 F2.4 B2.4 W2.0 F2.5 B2.5 W2.1 W2.2 W2.3 W2.4 W2.5 U2:0"};
    static const char *const zb_v[] = {
        "F0.0 F0.1 F0.2 F3.0 B3.0 W3.0 F3.1 B3.1 B0.0 W3.1 W0.0 F3.2 B3.2 B0.1 W3.2 B0.2 W0.1 W0.2 U0:0 U3:0",
        "F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 W2.0 F1.2 W1.0 F2.2 B2.1 B1.1 B2.2 B1.2 W2.1 W1.1 W2.2 W1.2 U1:0 U2:0"};
    static const char *const v_min[] = {"F0.0 F3.0 B3.0 F0.1 W3.0 B0.0 W0.0 F3.1 B3.1 W3.1 B0.1 W0.1 U0:0 U3:0",
                                        "F1.0 F2.0 B2.0 B1.0 F1.1 F2.1 W2.0 W1.0 B2.1 B1.1 W2.1 W1.1 U1:0 U2:0"};
    static const char *const v_half[] = {"F0.0 F0.1 F5.0 B5.0 W5.0 F5.1 B5.1 B0.0 W5.1 W0.0 B0.1 W0.1 U0:0 U5:0",
                                         "F1.0 F4.0 F1.1 B4.0 F4.1 W4.0 B1.0 B4.1 W1.0 W4.1 B1.1 W1.1 U1:0 U4:0",
                                         "F2.0 F3.0 F2.1 F3.1 B3.0 B2.0 W3.0 W2.0 B3.1 B2.1 W3.1 W2.1 U2:0 U3:0"};
    static const char *const dualpipev[] = {
        "F0.0 F0.1 F0.2 F3.0 B3.0 W3.0 F3.1 F0.3 B3.1 W3.1 F3.2 B0.0 W0.0 B3.2 W3.2 F3.3 B0.1 W0.1 B3.3 W3.3 B0.2 W0.2 "
        "B0.3 W0.3 U0:0 U3:0",
        "F1.0 F2.0 F1.1 F2.1 F1.2 B2.0 W2.0 F2.2 B1.0 W1.0 F1.3 B2.1 W2.1 F2.3 B1.1 W1.1 B2.2 W2.2 B1.2 W1.2 B2.3 "
        "B1.3 W2.3 W1.3 U1:0 U2:0"};
    static const char *const dualpipev_few[] = {"F0.0 F3.0 B3.0 W3.0 B0.0 W0.0 U0:0 U3:0",
                                                "F1.0 F2.0 B2.0 W2.0 B1.0 W1.0 U1:0 U2:0"};

    (void)state;
    assert_orders("zb-h1", 3, 3, 5, zb_h1);
    assert_orders("zb-h2", 3, 3, 6, zb_h2);
    assert_orders("zb-v", 4, 2, 3, zb_v);
    assert_orders("v-min", 4, 2, 2, v_min);
    assert_orders("v-half", 6, 3, 2, v_half);
    assert_orders("dualpipev", 4, 2, 4, dualpipev);
    assert_orders("dualpipev", 4, 2, 1, dualpipev_few);
}

typedef struct figures {
    double within;    /* the idle time within, for the worst device */
    double whole;     /* the idle time of every device while any device works */
    uint32_t kept;    /* the values on the device that stashes most */
    double unit_time; /* the work of a device */
} figures;

static figures measure(const char *name, uint32_t stage_count, uint32_t device_count, uint32_t micro_batch_count)
{
    test_problem test;
    bg_schedule *schedule;
    idle_times idle;
    figures found = {0};

    strategy_chain(&test, name, stage_count, device_count, micro_batch_count);
    schedule = strategy_schedule(&test.problem, name);
    idle = find_idle_times(schedule, &test.problem);
    assert_true(idle.least == idle.most); /* every device does the same work */
    found = (figures){.within = idle.most_within, .whole = idle.most, .unit_time = idle.makespan - idle.most};
    for (uint32_t device = 0; device < device_count; device++) {
        const uint32_t kept = most_kept(schedule, &test.problem, device);
        found.kept = kept > found.kept ? kept : found.kept;
    }
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
    return found;
}

static void assert_figures(const char *name, uint32_t p, uint32_t m, figures found, double within, double whole,
                           uint32_t kept)
{
    if (found.within != within || found.whole != whole || found.kept != kept)
        fail_msg("%s, %u devices, %u micro-batches: idle %g and %g, kept %u; expected %g, %g and %u", name, (unsigned)p,
                 (unsigned)m, found.within, found.whole, (unsigned)found.kept, within, whole, (unsigned)kept);
}

/* Checks the bubbles and stashed micro-batches of table 2 of the paper, in which B is the half for the gradients of
 * inputs: (p - 1)(F + B - W) and p for ZB-H1, (p - 1)(F + B - 2 W) and 2 p - 1 for ZB-H2. */
static void test_zb_h1_and_h2(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++)
        for (uint32_t m = 2 * p - 1; m <= 33; m += 3) {
            assert_figures("zb-h1", p, m, measure("zb-h1", p, p, m), p - 1, p - 1, p);
            assert_figures("zb-h2", p, m, measure("zb-h2", p, p, m), 0, p - 1, 2 * p - 1);
        }
}

/* The verifier finds the same numbers: slots of the stash, from F to W, and micro-batches between F and B. */
static void test_stash_of_zb_h1_and_h2(void **state)
{
    const uint32_t p = 4, stash = 2 * (p - 1);

    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        const char *name = depth == 1 ? "zb-h1" : "zb-h2";
        test_problem test;
        bg_schedule *schedule;

        strategy_chain(&test, name, p, p, 16);
        schedule = strategy_schedule(&test.problem, name);
        for (uint32_t k = 0; k < p; k++) {
            assert_int_equal(bg_schedule_edge_depth(schedule, stash + k), depth == 1 ? p : 2 * p - 1);
            assert_int_equal(bg_schedule_stage_in_flight(schedule, k), depth == 1 ? p - k : 2 * (p - k) - 1);
        }
        bg_schedule_destroy(schedule);
        test_problem_clear(&test);
    }
}

/* Tests 4 and 8 stages with 8 and 32 micro-batches, if these reach the papers' minimum: p for ZB-H1, 2 p - 1 for ZB-H2,
 * 2 p for ZB-V on p devices. */
static void test_round_sizes(void **state)
{
    (void)state;
    for (uint32_t stages = 4; stages <= 8; stages *= 2)
        for (uint32_t m = 8; m <= 32; m *= 4) {
            const uint32_t p = stages, half = stages / 2;
            assert_figures("zb-h1", p, m, measure("zb-h1", p, p, m), p - 1, p - 1, p);
            if (m >= 2 * p - 1)
                assert_figures("zb-h2", p, m, measure("zb-h2", p, p, m), 0, p - 1, 2 * p - 1);
            assert_figures("zb-v", half, m, measure("zb-v", stages, half, m), 0, half - 1, stages);
        }
}

/* The idle time is (p - 1)(F + B - W) even if the three differ. */
static void test_zb_h1_with_other_costs(void **state)
{
    static const double costs[][3] = {{2, 2, 1}, {2, 3, 2}, {3, 3, 2}, {1, 1, 1}, {4, 4, 3}};

    (void)state;
    for (size_t c = 0; c < sizeof costs / sizeof costs[0]; c++)
        for (uint32_t p = 2; p <= 6; p++) {
            bg_stage_cost stage_costs[6];
            test_problem test;
            bg_schedule *schedule;
            idle_times idle;

            for (uint32_t stage = 0; stage < p; stage++)
                stage_costs[stage] =
                    (bg_stage_cost){.forward_ns = costs[c][0], .backward_ns = costs[c][1], .weights_ns = costs[c][2]};
            strategy_chain(&test, "zb-h1", p, p, 3 * p);
            test.problem.costs = stage_costs;
            schedule = strategy_schedule(&test.problem, "zb-h1");
            idle = find_idle_times(schedule, &test.problem);
            if (idle.most_within != (p - 1) * (costs[c][0] + costs[c][1] - costs[c][2]))
                fail_msg("%u stages, case %u: %g", (unsigned)p, (unsigned)c, idle.most_within);
            bg_schedule_destroy(schedule);
            test_problem_clear(&test);
        }
}

/* ZB-V has no idle time, and needs the memory of 1F1B: p micro-batches of two stages. */
static void test_zb_v(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 16; p++)
        for (uint32_t m = 2 * p; m <= 2 * p + 9; m++)
            assert_figures("zb-v", p, m, measure("zb-v", 2 * p, p, m), 0, p - 1, 2 * p);
}

/* The memory of v-half and v-min is floor((p + 2) / 2) and floor((p + 4) / 3) micro-batches of two stages. The idle
 * time is about 3 p and 4 p steps (of 6 m; in the paper, p / 2 m and 2 p / 3 m), for any number of micro-batches. 1F1B
 * with both stages in one needs p micro-batches and is idle for 6 (p - 1) steps. */
static void test_v_half_and_v_min(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 16; p++)
        for (uint32_t m = 2 * p; m <= 4 * p; m += p) {
            const double half = p == 1 ? 0 : p % 2 == 0 ? 3 * p - 3 : 3 * p - 4;
            const double min = p == 1 ? 0 : p % 3 == 0 ? 4 * p - 3 : 4 * p - 5;
            assert_figures("v-half", p, m, measure("v-half", 2 * p, p, m), half, half, 2 * ((p + 2) / 2));
            assert_figures("v-min", p, m, measure("v-min", 2 * p, p, m), min, min, 2 * ((p + 4) / 3));
        }
}

/* A run of DualPipeV in which a forward and the backward paired with it are one action of F + B + W, as the published
 * figure assumes. */
typedef struct paired_run {
    const bg_schedule *schedule;
    uint32_t devices, micro_batches;
    double ends[2 * 16 * 40]; /* end times of F by stage, then of B, by micro-batch; 0: not done */
    double times[8];          /* by device */
    uint32_t at[8];
} paired_run;

static double *end_of(paired_run *run, const bg_action *action)
{
    const uint32_t stage = action->stage, stages = 2 * run->devices;
    const uint32_t row = action->kind == BG_ACTION_FORWARD ? stage : 2 * stages - 1 - stage;

    return &run->ends[row * run->micro_batches + action->micro_batch];
}

/* Runs the next action of a device, or the next pair; returns false if an input does not exist. */
static bool run_next(paired_run *run, uint32_t device, const bg_action *actions, uint32_t size)
{
    double start = run->times[device];

    for (uint32_t i = 0; i < size; i++) {
        const bool is_first = actions[i].kind == BG_ACTION_FORWARD && actions[i].stage == 0;
        double input = 0;
        if (actions[i].kind == BG_ACTION_WEIGHTS || is_first)
            continue;
        input = *(end_of(run, &actions[i]) - run->micro_batches); /* the previous row produces the input of this row */
        if (input == 0)
            return false;
        start = input > start ? input : start;
    }
    run->times[device] = start + size;
    for (uint32_t i = 0; i < size; i++)
        if (actions[i].kind != BG_ACTION_WEIGHTS)
            *end_of(run, &actions[i]) = run->times[device];
    return true;
}

/* Runs a device. In the steady state, every F is followed by the B paired with it and by the W of this B; the last
 * device's first F has no partner. */
static bool run_device(paired_run *run, uint32_t device)
{
    const uint32_t behind = run->devices - 1 - device, begun = run->at[device];
    const uint32_t steady = 2 * behind + 2 * (device + 1) + 3 * behind + (behind == 0 ? 1 : 0);
    bg_action actions[6 * 40];
    uint32_t total = 0;

    for (uint32_t i = 0; i < bg_schedule_action_count(run->schedule, device); i++)
        if (bg_schedule_actions(run->schedule, device)[i].kind <= BG_ACTION_WEIGHTS)
            actions[total++] = bg_schedule_actions(run->schedule, device)[i];
    while (run->at[device] < total) {
        const bg_action *next = &actions[run->at[device]];
        const uint32_t size = run->at[device] >= steady && next->kind == BG_ACTION_FORWARD ? 3 : 1;
        if (!run_next(run, device, next, size))
            break;
        run->at[device] += size;
    }
    return run->at[device] > begun;
}

static double find_paired_makespan(const bg_schedule *schedule, uint32_t devices, uint32_t micro_batches)
{
    paired_run run = {.schedule = schedule, .devices = devices, .micro_batches = micro_batches};
    double makespan = 0;
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        for (uint32_t device = 0; device < devices; device++)
            has_moved = run_device(&run, device) || has_moved;
    }
    for (uint32_t device = 0; device < devices; device++) {
        assert_int_equal(run.at[device], 6 * micro_batches);
        makespan = run.times[device] > makespan ? run.times[device] : makespan;
    }
    return makespan;
}

/* The published table: PP stages on p = PP / 2 devices have idle time (p - 1)(F&B + B - 3 W), where B is the whole
 * backward, and keep PP + 1. With F = B = W = 1 and pairs that last F&B = 3, the idle time is 2 (p - 1). Here F and B
 * are separate actions, so the neighbor gets its value half a pair earlier, and the idle time is half of that. */
static void test_dualpipev(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++)
        for (uint32_t m = 2 * p; m <= 2 * p + 20; m += 5) {
            test_problem test;
            bg_schedule *schedule;

            assert_figures("dualpipev", p, m, measure("dualpipev", 2 * p, p, m), p - 1, p - 1, 2 * p + 1);
            strategy_chain(&test, "dualpipev", 2 * p, p, m);
            schedule = strategy_schedule(&test.problem, "dualpipev");
            assert_true(find_paired_makespan(schedule, p, m) == 6 * m + 2 * (p - 1));
            bg_schedule_destroy(schedule);
            test_problem_clear(&test);
        }
}

/* With fewer micro-batches than the published figures assume, devices keep no more values. */
static void test_few_micro_batches(void **state)
{
    static const char *const names[] = {"zb-v", "v-half", "v-min", "dualpipev"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (uint32_t p = 1; p <= 6; p++)
            for (uint32_t m = 1; m < 2 * p; m++) {
                const figures few = measure(names[i], 2 * p, p, m);
                assert_true(few.kept <= measure(names[i], 2 * p, p, 2 * p).kept && few.kept <= 2 * m);
                assert_true(few.unit_time == 6.0 * m);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_by_hand),
        cmocka_unit_test(test_zb_h1_and_h2),
        cmocka_unit_test(test_round_sizes),
        cmocka_unit_test(test_stash_of_zb_h1_and_h2),
        cmocka_unit_test(test_zb_h1_with_other_costs),
        cmocka_unit_test(test_zb_v),
        cmocka_unit_test(test_v_half_and_v_min),
        cmocka_unit_test(test_dualpipev),
        cmocka_unit_test(test_few_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
