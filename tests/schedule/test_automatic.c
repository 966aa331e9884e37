/*
 * test_automatic.c: compares the search for the order that ends first with every other strategy, with all orders of
 * small problems (enumerated here from the documented rules), and with the published bound of zero-bubble pipelines.
 * Limits are checked by counting slots in a simulated run.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <math.h>
#include <time.h>

static bool is_quick(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL;
}

static bg_schedule *must_create(const bg_schedule_problem *problem, const char *name)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    if (bg_schedule_create(problem, bg_schedule_generator_find(name), &schedule, &error) != BG_OK)
        fail_msg("%s: %s", name, error.message);
    return schedule;
}

static double find_makespan(const bg_schedule *schedule, const bg_schedule_problem *problem)
{
    bg_schedule_timing timing = {0};
    bg_error error = {0};
    double makespan;

    if (bg_schedule_simulate(schedule, problem, &timing, &error) != BG_OK)
        fail_msg("%s", error.message);
    makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    return makespan;
}

static bool fits(const bg_schedule *schedule, const bg_schedule_problem *problem)
{
    size_t bytes[MOST_STAGES * 32] = {0};

    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        bytes[problem->stage_devices[problem->edges[edge].to_stage]] +=
            bg_schedule_edge_depth(schedule, edge) * problem->edges[edge].size_bytes;
    for (uint32_t device = 0; problem->device_slot_bytes != NULL && device < problem->device_count; device++)
        if (bytes[device] > problem->device_slot_bytes[device])
            return false;
    return true;
}

/* Draws a problem of a kind that another strategy accepts, for each strategy in turn. */
static void make_problem(test_problem *test, uint64_t seed)
{
    uint32_t count = 0;

    while (bg_schedule_generator_at(count) != NULL)
        count++;
    test_random_problem_for(test, seed, bg_schedule_generator_at((uint32_t)(seed % count)));
}

/* Draws uneven costs, sizes and a message speed for a random problem. */
static void add_costs(test_problem *test, bg_stage_cost *costs, uint64_t *random)
{
    const uint32_t spread = 1 + test_random(random, 20);

    for (uint32_t stage = 0; stage < test->problem.stage_count; stage++)
        costs[stage] = (bg_stage_cost){.forward_ns = 1 + test_random(random, spread),
                                       .backward_ns = 1 + test_random(random, 2 * spread),
                                       .weights_ns = test_random(random, spread),
                                       .update_ns = test_random(random, spread),
                                       .recompute_ns = test_random(random, spread)};
    for (uint32_t edge = 0; edge < test->problem.edge_count; edge++)
        test->edges[edge].size_bytes = test_random(random, 100);
    test->problem.costs = costs;
    test->problem.bytes_per_ns = test_random(random, 3) * 20.0;
}

/* Returns whether F and B of the last stages follow each other if the problem requires this; not all strategies obey.
 */
static bool keeps_loss(const bg_schedule *schedule, const bg_schedule_problem *problem)
{
    const uint32_t last = problem->stage_count - 1;
    const uint32_t position = bgi_schedule_position(problem, last);

    for (uint32_t stage = 0; problem->training && problem->merges_loss && stage <= last; stage++) {
        const bg_action *actions = bg_schedule_actions(schedule, problem->stage_devices[stage]);
        bool is_open = false;
        if (bgi_schedule_position(problem, stage) != position)
            continue;
        for (uint32_t i = 0; i < bg_schedule_action_count(schedule, problem->stage_devices[stage]); i++) {
            const bg_action_kind kind = actions[i].kind;
            const bool is_own = actions[i].stage == stage;
            if (is_open &&
                (kind == BG_ACTION_FORWARD || kind == BG_ACTION_WEIGHTS || (kind == BG_ACTION_BACKWARD && !is_own)))
                return false;
            is_open = is_own && kind == BG_ACTION_FORWARD ? true : kind == BG_ACTION_BACKWARD ? false : is_open;
        }
    }
    return true;
}

static void assert_no_worse(const bg_schedule_problem *problem, const bg_schedule *schedule, uint64_t seed)
{
    const double makespan = find_makespan(schedule, problem);
    const bg_schedule_generator *generator;

    for (uint32_t i = 0; (generator = bg_schedule_generator_at(i)) != NULL; i++) {
        bg_schedule *other = NULL;
        if ((generator->splits_weights && !problem->splits_weights) || strcmp(generator->name, "auto") == 0 ||
            bg_schedule_create(problem, generator, &other, NULL) != BG_OK)
            continue;
        if (keeps_loss(other, problem) && fits(other, problem) && find_makespan(other, problem) < makespan)
            fail_msg("seed %u: %s ends after %g, auto after %g", (unsigned)seed, generator->name,
                     find_makespan(other, problem), makespan);
        bg_schedule_destroy(other);
    }
}

static void test_no_other_is_better(void **state)
{
    const uint64_t count = is_quick() ? 40 : 400;

    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++) {
        uint64_t random = test_seed(seed + 1000);
        bg_stage_cost costs[MOST_STAGES];
        test_problem test;
        bg_schedule *schedule;
        make_problem(&test, seed);
        add_costs(&test, costs, &random);
        schedule = must_create(&test.problem, "auto");
        assert_no_worse(&test.problem, schedule, seed);
        bg_schedule_destroy(schedule);
    }
}

/* ---- limits ---- */

/* Returns the largest number of bytes in used slots of a device at any time of a simulated step. A slot is used from
 * the beginning of its producer to the end of its last reader. */
static double count_live_bytes(const bg_schedule *schedule, const bg_schedule_problem *problem, uint32_t device)
{
    bg_schedule_timing timing = {0};
    double most = 0.0;

    assert_int_equal(bg_schedule_simulate(schedule, problem, &timing, NULL), BG_OK);
    for (size_t moment = 0; moment < timing.event_count; moment++) {
        const double now = timing.events[moment].start;
        double live = 0.0;
        for (size_t i = 0; i < timing.event_count; i++) {
            const struct bg_schedule_event *event = &timing.events[i];
            for (uint32_t e = 0; e < problem->edge_count; e++) {
                const bg_schedule_edge *edge = &problem->edges[e];
                const bool is_own = problem->stage_devices[edge->to_stage] == device;
                /* Adds the slots whose use has begun, and subtracts those whose use has ended. */
                if (is_own && event->action.kind == edge->from_kind && event->action.stage == edge->from_stage &&
                    (edge->from_kind != BG_ACTION_UPDATE || event->action.index == edge->from_level) &&
                    event->start <= now)
                    live += (double)edge->size_bytes;
                if (is_own && event->action.kind == edge->last_kind && event->action.stage == edge->to_stage &&
                    (edge->last_kind != BG_ACTION_UPDATE || event->action.index == edge->to_level) && event->end <= now)
                    live -= (double)edge->size_bytes;
            }
        }
        most = live > most ? live : most;
    }
    bg_schedule_timing_clear(&timing);
    return most;
}

/* Draws memory limits between those of one micro-batch at a time and of the given order. */
static void set_limits(const bg_schedule_problem *problem, size_t *limits, uint32_t percent)
{
    bg_schedule *one = must_create(problem, "sequential"), *all = must_create(problem, "auto");
    size_t least[MOST_STAGES * 32] = {0}, most[MOST_STAGES * 32] = {0};

    for (uint32_t edge = 0; edge < problem->edge_count; edge++) {
        const uint32_t device = problem->stage_devices[problem->edges[edge].to_stage];
        least[device] += bg_schedule_edge_depth(one, edge) * problem->edges[edge].size_bytes;
        most[device] += bg_schedule_edge_depth(all, edge) * problem->edges[edge].size_bytes;
    }
    for (uint32_t device = 0; device < problem->device_count; device++)
        limits[device] =
            least[device] + (most[device] > least[device] ? (most[device] - least[device]) * percent / 100 : 0);
    bg_schedule_destroy(one);
    bg_schedule_destroy(all);
}

static void test_limits_are_met(void **state)
{
    const uint64_t count = is_quick() ? 20 : 200;

    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++) {
        uint64_t random = test_seed(seed + 5000);
        bg_stage_cost costs[MOST_STAGES];
        size_t limits[MOST_STAGES * 32];
        test_problem test;
        bg_schedule *schedule;
        make_problem(&test, seed);
        add_costs(&test, costs, &random);
        set_limits(&test.problem, limits, test_random(&random, 101));
        test.problem.device_slot_bytes = limits;
        schedule = must_create(&test.problem, "auto");
        assert_true(fits(schedule, &test.problem));
        for (uint32_t device = 0; device < test.problem.device_count; device++)
            assert_true(count_live_bytes(schedule, &test.problem, device) <= (double)limits[device]);
        assert_no_worse(&test.problem, schedule, seed);
        bg_schedule_destroy(schedule);
    }
}

/* The budget that the error message names is exactly sufficient. */
static void test_too_small_a_limit_is_explained(void **state)
{
    size_t limits[4] = {1 << 20, 1 << 20, 1 << 20, 1 << 20};
    bg_schedule *schedule = NULL;
    bg_error error = {0};
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 4, 6, true));
    test.problem.device_slot_bytes = limits;
    /* Stage 2 has a stash and, with send_ahead 1, two messages from each neighbor, of 64 bytes each. */
    limits[2] = 5 * 64 - 1;
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("auto"), &schedule, &error),
                     BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "device 2 has 319 bytes"));
    assert_non_null(strstr(error.message, "needs at least 320"));
    limits[2] = 5 * 64;
    schedule = must_create(&test.problem, "auto");
    assert_true(fits(schedule, &test.problem));
    bg_schedule_destroy(schedule);
    /* Slots are counted with their padding. */
    for (uint32_t edge = 0; edge < test.problem.edge_count; edge++)
        test.chain[edge].slot_bytes = 128;
    schedule = NULL;
    error = (bg_error){0};
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("auto"), &schedule, &error),
                     BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "needs at least 640"));
    test_problem_clear(&test);
}

static void test_more_memory_is_never_slower(void **state)
{
    size_t limits[4];
    test_problem test;
    double before = INFINITY;

    (void)state;
    assert_true(test_chain(&test, 4, 8, true));
    for (size_t slots = 5; slots <= 16; slots++) {
        bg_schedule *schedule;
        double makespan;
        for (uint32_t device = 0; device < 4; device++)
            limits[device] = slots * 64;
        test.problem.device_slot_bytes = limits;
        schedule = must_create(&test.problem, "auto");
        makespan = find_makespan(schedule, &test.problem);
        assert_true(makespan <= before);
        before = makespan;
        bg_schedule_destroy(schedule);
    }
    assert_true(before == 2 * 8 + 2 * 3); /* 1F1B's */
    test_problem_clear(&test);
}

/* ---- all orders ---- */

enum { MOST_LIST = 32, MOST_LISTS = 64 };

typedef struct device_orders {
    bg_action lists[MOST_LISTS][MOST_LIST];
    uint32_t count, length;
} device_orders;

/* Enumerates every order of F, R, B and W of one stage. Each kind ascends, R m is after F m, B m after both, and W m
 * after B m; with a merged loss, B follows F at once. */
static void list_orders(const bg_schedule_problem *problem, uint32_t stage, device_orders *orders, uint32_t *next,
                        bg_action *list, uint32_t length)
{
    const bool recomputes = problem->stage_recomputes != NULL && problem->stage_recomputes[stage];
    const bg_action_kind kinds[] = {BG_ACTION_FORWARD, recomputes ? BG_ACTION_RECOMPUTE : BG_ACTION_BACKWARD,
                                    recomputes ? BG_ACTION_BACKWARD : BG_ACTION_WEIGHTS, BG_ACTION_WEIGHTS};
    const uint32_t kind_count = 2 + recomputes + problem->splits_weights;
    const bool is_merged = problem->training && problem->merges_loss && stage + 1 == problem->stage_count;

    if (length == kind_count * problem->micro_batch_count) {
        assert_true(orders->count < MOST_LISTS);
        memcpy(orders->lists[orders->count++], list, length * sizeof *list);
        orders->length = length;
        return;
    }
    for (uint32_t k = 0; k < kind_count; k++) {
        if (next[k] == problem->micro_batch_count || (k > 0 && next[k] >= next[k - 1]))
            continue;
        if (is_merged && length > 0 && list[length - 1].kind != BG_ACTION_WEIGHTS &&
            list[length - 1].kind != BG_ACTION_BACKWARD && (k == 0 || kinds[k - 1] != list[length - 1].kind))
            continue;
        list[length] = (bg_action){.kind = kinds[k], .stage = stage, .micro_batch = next[k]++};
        list_orders(problem, stage, orders, next, list, length + 1);
        next[k]--;
    }
}

static double time_combination(const bg_schedule_problem *problem, const device_orders *orders, const uint32_t *numbers)
{
    bg_schedule *schedule = NULL;
    bg_schedule_timing timing = {0};
    double makespan = INFINITY;

    assert_int_equal(bgi_schedule_create(problem->device_count, &schedule, NULL), BG_OK);
    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        for (uint32_t i = 0; i < orders[stage].length; i++)
            assert_int_equal(
                bg_schedule_emit(schedule, problem->stage_devices[stage], orders[stage].lists[numbers[stage]][i], NULL),
                BG_OK);
    assert_int_equal(bgi_schedule_emit_updates(problem, schedule, NULL), BG_OK);
    assert_int_equal(bgi_schedule_complete(schedule, problem, NULL), BG_OK);
    if (bg_schedule_verify(schedule, problem, NULL) == BG_OK && fits(schedule, problem) &&
        bg_schedule_simulate(schedule, problem, &timing, NULL) == BG_OK)
        makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    bg_schedule_destroy(schedule);
    return makespan;
}

/* Finds the shortest makespan over all orders; each stage has a separate device. */
static double find_optimum(const bg_schedule_problem *problem)
{
    static device_orders orders[3];
    uint32_t numbers[3] = {0};
    double best = INFINITY;
    uint32_t stage = 0;

    memset(orders, 0, sizeof orders);
    for (uint32_t i = 0; i < problem->stage_count; i++) {
        uint32_t next[4] = {0};
        bg_action list[MOST_LIST];
        list_orders(problem, i, &orders[i], next, list, 0);
    }
    while (stage < problem->stage_count) {
        best = fmin(best, time_combination(problem, orders, numbers));
        for (stage = 0; stage < problem->stage_count; stage++) {
            numbers[stage] = numbers[stage] + 1 < orders[stage].count ? numbers[stage] + 1 : 0;
            if (numbers[stage] != 0)
                break;
        }
    }
    return best;
}

static void test_small_problems_are_optimal(void **state)
{
    const uint64_t count = is_quick() ? 15 : 120;
    uint32_t limited = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++) {
        uint64_t random = test_seed(seed + 9000);
        const uint32_t stages = 2 + test_random(&random, 2), micro_batches = 2 + test_random(&random, 2);
        bg_stage_cost costs[MOST_STAGES];
        size_t limits[MOST_STAGES * 32];
        test_problem test;
        bg_schedule *schedule;
        double optimum;

        memset(&test, 0, sizeof test);
        test.problem = bg_schedule_problem_defaults();
        test.problem.stage_count = test.problem.device_count = stages;
        test.problem.micro_batch_count = micro_batches;
        test.problem.stage_devices = test.devices;
        test.problem.edges = test.edges;
        test.problem.merges_loss = test_random(&random, 2) == 0;
        test.problem.send_ahead = test_random(&random, 2);
        /* With W separate, each device has 42 orders of three micro-batches, which make many combinations for three
         * stages. */
        test.problem.splits_weights = stages * micro_batches < 9 && test_random(&random, 2) == 0;
        for (uint32_t stage = 0; stage < stages; stage++) {
            test.devices[stage] = stage;
            test.recomputes[stage] = test_random(&random, 2) == 0;
        }
        if (stages * micro_batches < 9 && (micro_batches == 2 || !test.problem.splits_weights))
            test.problem.stage_recomputes = test.recomputes;
        test_random_edges(&test, &random);
        add_costs(&test, costs, &random);
        if (test_random(&random, 2) == 0) {
            set_limits(&test.problem, limits, test_random(&random, 101));
            test.problem.device_slot_bytes = limits;
            limited++;
        }
        schedule = must_create(&test.problem, "auto");
        optimum = find_optimum(&test.problem);
        if (fabs(find_makespan(schedule, &test.problem) - optimum) > 1e-9 * optimum)
            fail_msg("seed %u: auto ends after %g, the best of all orders after %g", (unsigned)seed,
                     find_makespan(schedule, &test.problem), optimum);
        bg_schedule_destroy(schedule);
    }
    assert_true(limited > 0 && limited < count);
}

/* ---- published results ---- */

/* With F = B = W, a pipeline of N stages needs 3 M + N - 1 steps (zero-bubble schedules, Qi et al.): only N - 1 of them
 * fill the pipeline. 1F1B with W right after B needs 3 (M + N - 1). */
static void test_weights_fill_the_bubble(void **state)
{
    (void)state;
    for (uint32_t stages = 2; stages <= 8; stages++)
        for (uint32_t micro_batches = 2 * stages; micro_batches <= 4 * stages; micro_batches += stages) {
            test_problem test;
            bg_schedule *schedule;
            memset(&test, 0, sizeof test);
            test.problem = bg_schedule_problem_defaults();
            test.problem.stage_count = test.problem.device_count = stages;
            test.problem.micro_batch_count = micro_batches;
            test.problem.splits_weights = true;
            test.problem.stage_devices = test.devices;
            for (uint32_t stage = 0; stage < stages; stage++)
                test.devices[stage] = stage;
            assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
            schedule = must_create(&test.problem, "auto");
            assert_true(find_makespan(schedule, &test.problem) == 3.0 * micro_batches + stages - 1);
            bg_schedule_destroy(schedule);
            test_problem_clear(&test);
        }
}

static void test_loss_stays_merged(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        uint64_t random = test_seed(seed);
        bg_stage_cost costs[MOST_STAGES];
        test_problem test;
        bg_schedule *schedule;
        const bg_action *actions;
        uint32_t last;
        assert_true(test_chain(&test, 2 + test_random(&random, 4), 1 + test_random(&random, 8), true));
        for (uint32_t stage = 0; stage < test.problem.stage_count; stage++)
            costs[stage] =
                (bg_stage_cost){.forward_ns = 1 + test_random(&random, 9), .backward_ns = 1 + test_random(&random, 9)};
        test.problem.costs = costs;
        schedule = must_create(&test.problem, "auto");
        last = test.problem.stage_count - 1;
        actions = bg_schedule_actions(schedule, last);
        for (uint32_t i = 0; i < bg_schedule_action_count(schedule, last); i++)
            if (actions[i].kind == BG_ACTION_FORWARD) {
                assert_int_equal(actions[i + 1].kind, BG_ACTION_HOST_OUT);
                assert_int_equal(actions[i + 2].kind, BG_ACTION_BACKWARD);
                assert_int_equal(actions[i + 2].micro_batch, actions[i].micro_batch);
            }
        bg_schedule_destroy(schedule);
        test_problem_clear(&test);
    }
}

/* ---- results are reproducible and fast ---- */

static void test_is_a_function_of_the_problem(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t random = test_seed(seed);
        bg_stage_cost costs[MOST_STAGES];
        char *texts[2] = {NULL, NULL};
        test_problem test;
        make_problem(&test, seed);
        add_costs(&test, costs, &random);
        for (int i = 0; i < 2; i++) {
            bg_schedule *schedule = must_create(&test.problem, "auto");
            assert_int_equal(bg_schedule_print(schedule, &texts[i], NULL), BG_OK);
            bg_schedule_destroy(schedule);
        }
        assert_string_equal(texts[0], texts[1]);
        free(texts[0]);
        free(texts[1]);
    }
}

/* Returns the seconds of a search with uneven costs, which no bound ends early. The time limits allow for a busy
 * machine. */
static double time_search(uint32_t stages, uint32_t micro_batches)
{
    bg_stage_cost costs[16];
    test_problem test;
    uint64_t random = test_seed(stages);
    clock_t begin;
    bg_schedule *schedule;

    memset(&test, 0, sizeof test);
    test.problem = bg_schedule_problem_defaults();
    test.problem.stage_count = test.problem.device_count = stages;
    test.problem.micro_batch_count = micro_batches;
    test.problem.splits_weights = true;
    test.problem.stage_devices = test.devices;
    test.problem.costs = costs;
    for (uint32_t stage = 0; stage < stages; stage++) {
        test.devices[stage] = stage;
        costs[stage] = (bg_stage_cost){.forward_ns = 10 + test_random(&random, 5),
                                       .backward_ns = 14 + test_random(&random, 9),
                                       .weights_ns = 7 + test_random(&random, 5),
                                       .update_ns = 3};
    }
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    test.problem.bytes_per_ns = 30.0;
    begin = clock();
    schedule = must_create(&test.problem, "auto");
    begin = clock() - begin;
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
    return (double)begin / CLOCKS_PER_SEC;
}

static void test_search_is_quick(void **state)
{
    (void)state;
    if (is_quick())
        skip();
    print_message("8 stages, 32 micro-batches: %.1f ms; 16 stages, 64: %.1f ms of processor time\n",
                  1e3 * time_search(8, 32), 1e3 * time_search(16, 64));
    assert_true(time_search(8, 32) < 0.25);
    assert_true(time_search(16, 64) < 2.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_other_is_better),
        cmocka_unit_test(test_limits_are_met),
        cmocka_unit_test(test_too_small_a_limit_is_explained),
        cmocka_unit_test(test_more_memory_is_never_slower),
        cmocka_unit_test(test_small_problems_are_optimal),
        cmocka_unit_test(test_weights_fill_the_bubble),
        cmocka_unit_test(test_loss_stays_merged),
        cmocka_unit_test(test_is_a_function_of_the_problem),
        cmocka_unit_test(test_search_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
