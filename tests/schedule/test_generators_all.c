/*
 * test_generators_all.c: checks laws of every strategy over all small sizes: its schedule is valid, concurrent stages
 * run in one step, and unsupported problems give errors with a reason and a remedy.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/strategies.h"

static uint32_t largest_micro_batch_count(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL ? 9 : 33;
}

/* Checks training and inference, the loss merged or not, and the update in one level or two. */
static void assert_verifies(const char *name, uint32_t stage_count, uint32_t device_count, uint32_t micro_batch_count)
{
    test_problem test;

    strategy_chain(&test, name, stage_count, device_count, micro_batch_count);
    test.problem.merges_loss = micro_batch_count % 2 == 0;
    test.problem.update_level_count = 1 + micro_batch_count % 3 / 2;
    bg_schedule_destroy(strategy_schedule(&test.problem, name)); /* creating the schedule has verified it */
    test_problem_clear(&test);

    strategy_chain(&test, name, stage_count, device_count, micro_batch_count);
    test.problem.training = false;
    test.problem.splits_weights = false;
    test.problem.edge_count = stage_count - 1; /* the forward edges */
    bg_schedule_destroy(strategy_schedule(&test.problem, name));
    test_problem_clear(&test);
}

static void test_every_size(void **state)
{
    const uint32_t largest_stage_count = getenv("BRIGADE_TEST_ALL") != NULL ? 16 : 8;

    (void)state;
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++)
        for (uint32_t stages = 1; stages <= largest_stage_count; stages++)
            for (uint32_t devices = 1; devices <= stages; devices++) {
                const bg_schedule_generator *generator = bg_schedule_generator_at(i);
                uint32_t places[16];
                if (bg_schedule_place(generator, stages, devices, places, NULL) != BG_OK ||
                    (strcmp(generator->name, "single") == 0 && devices > 1))
                    continue;
                for (uint32_t m = 1; m <= largest_micro_batch_count(); m++)
                    assert_verifies(generator->name, stages, devices, m);
            }
}

/* Runs stage 0, then 1 and 2 concurrently, then 3, on devices 0 1 2 3. Returns the makespan in unit costs. */
static double run_diamond(const char *name, bool is_concurrent, bool training, char **out_timetable)
{
    static const uint32_t positions[] = {0, 1, 1, 2}, devices[] = {0, 1, 2, 3};
    const bg_schedule_generator *generator = bg_schedule_generator_find(name);
    bg_schedule_problem problem;
    bg_schedule_edge edges[12];
    bg_schedule *schedule;
    bg_schedule_timing timing;
    double makespan;

    problem = bg_schedule_problem_defaults();
    problem.stage_count = problem.device_count = 4;
    problem.stage_devices = devices;
    problem.stage_positions = is_concurrent ? positions : NULL;
    problem.micro_batch_count = 4;
    problem.training = training;
    problem.splits_weights = training && generator->splits_weights;
    problem.edges = edges;
    for (uint32_t side = 1; side <= 2; side++)
        for (uint32_t end = 0; end < 2; end++) {
            const uint32_t from = end == 0 ? 0 : side, to = end == 0 ? side : 3;
            edges[problem.edge_count++] = (bg_schedule_edge){.from_stage = from, .to_stage = to};
            edges[problem.edge_count] = (bg_schedule_edge){.from_kind = BG_ACTION_BACKWARD,
                                                           .from_stage = to,
                                                           .to_kind = BG_ACTION_BACKWARD,
                                                           .last_kind = BG_ACTION_BACKWARD,
                                                           .to_stage = from};
            problem.edge_count += training ? 1 : 0;
        }
    for (uint32_t stage = 0; training && stage < 4; stage++)
        edges[problem.edge_count++] = (bg_schedule_edge){
            .from_stage = stage, .to_kind = BG_ACTION_BACKWARD, .last_kind = BG_ACTION_BACKWARD, .to_stage = stage};
    schedule = strategy_schedule(&problem, name);
    assert_int_equal(bg_schedule_simulate(schedule, &problem, &timing, NULL), BG_OK);
    makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    if (out_timetable != NULL)
        assert_int_equal(bg_schedule_timetable(schedule, &problem, out_timetable, NULL), BG_OK);
    bg_schedule_destroy(schedule);
    return makespan;
}

static void test_concurrent_stages_shorten_the_pipeline(void **state)
{
    /* makespans for 3 positions and 4 micro-batches */
    const struct {
        const char *name;
        double training, inference;
    } rows[] = {{"sharded", 4 * 6, 6}, {"sequential", 4 * 6, 6}, {"interleaved", 12, 6}, {"gpipe", 12, 6},
                {"looped", 12, 6},     {"looped-bfs", 12, 6},    {"zb-h1", 14, 6},       {"zb-h2", 14, 6}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double training = run_diamond(rows[i].name, true, true, NULL);
        const double inference = run_diamond(rows[i].name, true, false, NULL);
        if (training != rows[i].training || inference != rows[i].inference)
            fail_msg("%s: %g and %g, expected %g and %g", rows[i].name, training, inference, rows[i].training,
                     rows[i].inference);
        assert_true(run_diamond(rows[i].name, false, true, NULL) >= training);
    }
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++) {
        const bg_schedule_generator *generator = bg_schedule_generator_at(i);
        if (generator->placement != BG_PLACEMENT_FOLD && strcmp(generator->name, "single") != 0)
            assert_true(run_diamond(generator->name, true, true, NULL) > 0);
    }
}

static void test_concurrent_stages_in_the_timetable(void **state)
{
    char *text = NULL;

    (void)state;
    run_diamond("interleaved", true, true, &text);
    assert_string_equal(text, "step 0  1  2  3  4  5  6  7  8  9  10 11\n"
                              "dev0 F0 .  F1 .  F2 B0 F3 B1 .  B2 .  B3\n"
                              "dev1 .  F0 .  F1 B0 F2 B1 F3 B2 .  B3 .\n"
                              "dev2 .  F0 .  F1 B0 F2 B1 F3 B2 .  B3 .\n"
                              "dev3 .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .\n");
    free(text);
    run_diamond("grouped", true, true, &text);
    assert_string_equal(text, "step 0    1    2    3    4    5    6    7\n"
                              "dev0 F0   F1   F2   F3   B0   B1   B2   B3\n"
                              "dev1 .    F0   F1   F2B0 F3B1 B2   B3   .\n"
                              "dev2 .    F0   F1   F2B0 F3B1 B2   B3   .\n"
                              "dev3 .    .    F0B0 F1B1 F2B2 F3B3 .    .\n");
    free(text);
}

static void test_bad_positions_and_phases(void **state)
{
    static const char *const fold_names[] = {"zb-v", "v-half", "v-min", "dualpipev"};
    uint32_t positions[] = {0, 1, 1, 2}, phases[] = {0, 0, 1, 1};
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 4, 4, true));
    test.problem.stage_positions = positions;
    test.devices[2] = 1;
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++)
        strategy_refused(&test.problem, bg_schedule_generator_at(i)->name,
                         "stages 1 and 2 are concurrent (position 1), but both are on device 1; give each");
    test.devices[2] = 2;
    positions[0] = 1;
    strategy_refused(&test.problem, "grouped", "stage 0 is at position 1; positions begin with 0");
    positions[0] = 0;
    positions[3] = 3;
    strategy_refused(&test.problem, "grouped",
                     "stage 3 is at position 3, but stage 2 is at 1; a stage has the position of the stage before it, "
                     "or the next one");
    positions[3] = 0;
    strategy_refused(&test.problem, "grouped", "stage 3 is at position 0, but stage 2 is at 1");
    positions[3] = 2;
    test.problem.stage_phases = phases;
    strategy_refused(&test.problem, "phased",
                     "stages 1 and 2 are concurrent, but in phases 0 and 1; put them into one");
    phases[0] = 2;
    strategy_refused(&test.problem, "phased", "stage 0 is at phase 2; phases begin with 0");
    test.problem.stage_phases = NULL;
    test.problem.splits_weights = true;
    for (size_t i = 0; i < sizeof fold_names / sizeof fold_names[0]; i++)
        strategy_refused(&test.problem, fold_names[i],
                         "4 stages are at 3 positions; this strategy takes no concurrent stages: put them one");
    test_problem_clear(&test);
}

static void test_refusals_of_placements(void **state)
{
    static const char *const split_names[] = {"looped-zb", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipev"};
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 4, 4, true));
    for (size_t i = 0; i < sizeof split_names / sizeof split_names[0]; i++)
        strategy_refused(&test.problem, split_names[i], "set splits_weights, or use \"interleaved\"");
    test.problem.splits_weights = true;
    strategy_refused(&test.problem, "zb-v", "stage 0 is on device 0, stage 3 on device 3; in training this strategy");
    test.devices[3] = 0;
    strategy_refused(&test.problem, "zb-h1", "stages 0 and 3 share device 0");
    strategy_refused(&test.problem, "v-min", "stage 1 is on device 1, stage 2 on device 2");
    strategy_refused(&test.problem, "looped",
                     "stage 2 is on device 2, which is not allowed; with 2 stages on device 0");
    strategy_refused(&test.problem, "looped-zb",
                     "stage 2 is on device 2, which is not allowed; with 2 stages on device 0");
    test.devices[1] = test.devices[2] = 0;
    strategy_refused(&test.problem, "dualpipev", "stage 0 is on device 0, stage 1 on device 0");
    test.devices[3] = 1;
    strategy_refused(&test.problem, "looped", "device 0 has 3 stages of 4 positions");
    test.problem.stage_count = 3;
    test.problem.edge_count = 0;
    strategy_refused(&test.problem, "v-half", "there are 3 stages, but this schedule has two on each device");
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_concurrent_stages_shorten_the_pipeline),
        cmocka_unit_test(test_concurrent_stages_in_the_timetable),
        cmocka_unit_test(test_bad_positions_and_phases),
        cmocka_unit_test(test_refusals_of_placements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
