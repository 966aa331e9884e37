/*
 * test_generators.c: compares the strategies with the timetables and tables that IPU software published (PopTorch's
 * user guide; the pipelining chapter of TensorFlow for IPU), and checks laws for every generator.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <ctype.h>
#include <stdio.h>

static const char *const poptorch_pipelined =
    "step 0    1    2    3    4    5    6    7    8    9    10   11   12   13\n"
    "dev0 F0   F1   F2   F3   F4   F5   F6B0 F7B1 B2   B3   B4   B5   B6   B7\n"
    "dev1 .    F0   F1   F2   F3   F4B0 F5B1 F6B2 F7B3 B4   B5   B6   B7   .\n"
    "dev2 .    .    F0   F1   F2B0 F3B1 F4B2 F5B3 F6B4 F7B5 B6   B7   .    .\n"
    "dev3 .    .    .    F0B0 F1B1 F2B2 F3B3 F4B4 F5B5 F6B6 F7B7 .    .    .\n";

static const char *const tensorflow_grouped =
    "step 0    1    2    3    4    5    6    7    8    9    10   11   12   13   14\n"
    "dev0 F0   F1   F2   F3   F4   F5   F6   F7B0 B1   B2   B3   B4   B5   B6   B7\n"
    "dev1 .    F0   F1   F2   F3   F4   F5B0 F6B1 F7B2 B3   B4   B5   B6   B7   .\n"
    "dev2 .    .    F0   F1   F2   F3B0 F4B1 F5B2 F6B3 F7B4 B5   B6   B7   .    .\n"
    "dev3 .    .    .    F0   F1B0 F2B1 F3B2 F4B3 F5B4 F6B5 F7B6 B7   .    .    .\n";

static const char *const tensorflow_interleaved =
    "step 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21\n"
    "dev0 F0 .  F1 .  F2 .  F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 .  B5 .  B6 .  B7\n"
    "dev1 .  F0 .  F1 .  F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 .  B6 .  B7 .\n"
    "dev2 .  .  F0 .  F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 .  B7 .  .\n"
    "dev3 .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 .  .  .\n";

static const char *const sequential_two = "step 0  1  2  3  4  5  6  7\n"
                                          "dev0 F0 .  .  B0 F1 .  .  B1\n"
                                          "dev1 .  F0 B0 .  .  F1 B1 .\n";

static const char *const inference_three = "step 0  1  2  3  4  5\n"
                                           "dev0 F0 F1 F2 F3 .  .\n"
                                           "dev1 .  F0 F1 F2 F3 .\n"
                                           "dev2 .  .  F0 F1 F2 F3\n";

static bg_schedule *must_create(const bg_schedule_problem *problem, const char *name)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    if (bg_schedule_create(problem, bg_schedule_generator_find(name), &schedule, &error) != BG_OK)
        fail_msg("%s: %s", name, error.message);
    return schedule;
}

static void assert_timetable(const bg_schedule_problem *problem, const char *name, const char *expected)
{
    bg_schedule *schedule = must_create(problem, name);
    bg_error error = {0};
    char *text = NULL;

    if (bg_schedule_timetable(schedule, problem, &text, &error) != BG_OK)
        fail_msg("%s: %s", name, error.message);
    assert_string_equal(text, expected);
    free(text);
    bg_schedule_destroy(schedule);
}

static void test_published_timetables(void **state)
{
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 4, 8, true));
    assert_timetable(&test.problem, "grouped", poptorch_pipelined);
    assert_timetable(&test.problem, "interleaved", tensorflow_interleaved);
    test.problem.merges_loss = false;
    assert_timetable(&test.problem, "grouped", tensorflow_grouped);
    assert_timetable(&test.problem, "interleaved", tensorflow_interleaved);
    test_problem_clear(&test);

    assert_true(test_chain(&test, 2, 2, true));
    assert_timetable(&test.problem, "sequential", sequential_two);
    assert_timetable(&test.problem, "sharded", sequential_two);
    test_problem_clear(&test);

    assert_true(test_chain(&test, 3, 4, false));
    assert_timetable(&test.problem, "grouped", inference_three);
    assert_timetable(&test.problem, "interleaved", inference_three);
    test_problem_clear(&test);
}

/* Writes the content of a cell by the lockstep formula: stage k computes the forward of micro-batch m at step stride *
 * m + k, and the backward at stride * m + last - k. */
static void format_cell(char *cell, uint32_t stage, uint32_t micro_batches, uint32_t step, uint32_t stride,
                        uint32_t last)
{
    const uint32_t offsets[] = {stage, last - stage};

    cell[0] = '\0';
    for (int i = 0; i < 2; i++)
        if (step >= offsets[i] && (step - offsets[i]) % stride == 0 && (step - offsets[i]) / stride < micro_batches)
            snprintf(cell + strlen(cell), 16, "%c%u", "FB"[i], (unsigned)((step - offsets[i]) / stride));
    if (cell[0] == '\0')
        strcpy(cell, ".");
}

static void assert_follows_formula(const char *timetable, uint32_t stages, uint32_t micro_batches, uint32_t stride,
                                   uint32_t last)
{
    char *copy = strdup(timetable), *rest = NULL, *word;
    const uint32_t step_count = stride * (micro_batches - 1) + last + 1;
    char expected[40];

    assert_non_null(copy);
    word = strtok_r(copy, " \n", &rest);
    for (uint32_t step = 0; step < step_count; step++)
        word = strtok_r(NULL, " \n", &rest); /* the heading */
    for (uint32_t stage = 0; stage < stages; stage++) {
        word = strtok_r(NULL, " \n", &rest);
        snprintf(expected, sizeof expected, "dev%u", (unsigned)stage);
        if (word == NULL || strcmp(word, expected) != 0)
            fail_msg("%u stages, %u micro-batches: expected %u steps in\n%s", (unsigned)stages, (unsigned)micro_batches,
                     (unsigned)step_count, timetable);
        for (uint32_t step = 0; step < step_count; step++) {
            word = strtok_r(NULL, " \n", &rest);
            format_cell(expected, stage, micro_batches, step, stride, last);
            if (word == NULL || strcmp(word, expected) != 0)
                fail_msg("%u stages, %u micro-batches: device %u, step %u: expected %s, found %s in\n%s",
                         (unsigned)stages, (unsigned)micro_batches, (unsigned)stage, (unsigned)step, expected,
                         word != NULL ? word : "the end", timetable);
        }
    }
    assert_null(strtok_r(NULL, " \n", &rest));
    free(copy);
}

static void assert_picture(const bg_schedule *schedule, const bg_schedule_problem *problem, uint32_t stride,
                           uint32_t last)
{
    char *text = NULL;

    assert_int_equal(bg_schedule_timetable(schedule, problem, &text, NULL), BG_OK);
    assert_follows_formula(text, problem->stage_count, problem->micro_batch_count, stride, last);
    free(text);
}

/* Timetables follow the formulas from the minimum of micro-batches that IPU software required; with fewer, a cell of
 * grouped may have only one action. */
static void test_timetables_follow_formulas(void **state)
{
    (void)state;
    for (uint32_t stages = 2; stages <= 6; stages++)
        for (uint32_t micro_batches = 1; micro_batches <= 14; micro_batches++)
            for (uint32_t merged = 0; merged < 2; merged++) {
                const uint32_t last = 2 * stages - 1 - merged;
                test_problem test;
                bg_schedule *schedule;

                assert_true(test_chain(&test, stages, micro_batches, true));
                test.problem.merges_loss = merged == 1;
                schedule = must_create(&test.problem, "interleaved");
                assert_picture(schedule, &test.problem, 2, 2 * stages - 1);
                bg_schedule_destroy(schedule);
                schedule = must_create(&test.problem, "grouped");
                if (micro_batches >= last + 1)
                    assert_picture(schedule, &test.problem, 1, last);
                bg_schedule_destroy(schedule);
                test_problem_clear(&test);
            }
}

/* PopART's stash of stage k has 2(N-1-k)+1 entries. TensorFlow's FIFOs hold one fewer than are in flight, because the
 * current one is not in the FIFO: grouped 2(N-1-k)+1, interleaved N-1-k. The edge from F to B of a stage (the last N
 * edges of the chain) is that stash. */
static void test_published_stash_depths(void **state)
{
    const uint32_t stages = 4, stash = 2 * (stages - 1);
    test_problem test;
    bg_schedule *schedule;

    (void)state;
    assert_true(test_chain(&test, stages, 12, true));
    schedule = must_create(&test.problem, "grouped");
    for (uint32_t k = 0; k < stages; k++) {
        assert_int_equal(bg_schedule_stage_in_flight(schedule, k), 2 * (stages - 1 - k) + 1);
        assert_int_equal(bg_schedule_edge_depth(schedule, stash + k), 2 * (stages - 1 - k) + 1);
    }
    bg_schedule_destroy(schedule);
    schedule = must_create(&test.problem, "interleaved");
    for (uint32_t k = 0; k < stages; k++) {
        assert_int_equal(bg_schedule_stage_in_flight(schedule, k), stages - k);
        assert_int_equal(bg_schedule_edge_depth(schedule, stash + k), stages - k);
    }
    for (uint32_t edge = 0; edge < stash; edge++) /* one slot for reading, one for writing */
        assert_int_equal(bg_schedule_edge_depth(schedule, edge), 2);
    bg_schedule_destroy(schedule);
    schedule = must_create(&test.problem, "sequential");
    for (uint32_t k = 0; k < stages; k++)
        assert_int_equal(bg_schedule_stage_in_flight(schedule, k), 1);
    bg_schedule_destroy(schedule);
    test.problem.merges_loss = false;
    schedule = must_create(&test.problem, "grouped");
    for (uint32_t k = 0; k < stages; k++)
        assert_int_equal(bg_schedule_stage_in_flight(schedule, k), 2 * (stages - 1 - k) + 1 + 1);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

/* An edge that skips stages must not slow down the pipeline; its messages wait until the other inputs arrive. */
static void test_skipping_edge_keeps_pace(void **state)
{
    test_problem test;
    bg_schedule_edge edges[32];
    bg_schedule *schedule;
    bg_schedule_timing plain, skipping;

    (void)state;
    assert_true(test_chain(&test, 6, 24, true));
    schedule = must_create(&test.problem, "interleaved");
    assert_int_equal(bg_schedule_simulate(schedule, &test.problem, &plain, NULL), BG_OK);
    bg_schedule_destroy(schedule);

    memcpy(edges, test.problem.edges, test.problem.edge_count * sizeof edges[0]);
    test.problem.edges = edges;
    edges[test.problem.edge_count++] = (bg_schedule_edge){.from_kind = BG_ACTION_FORWARD,
                                                          .from_stage = 0,
                                                          .to_kind = BG_ACTION_FORWARD,
                                                          .last_kind = BG_ACTION_BACKWARD,
                                                          .to_stage = 5};
    edges[test.problem.edge_count++] = (bg_schedule_edge){.from_kind = BG_ACTION_BACKWARD,
                                                          .from_stage = 5,
                                                          .to_kind = BG_ACTION_BACKWARD,
                                                          .last_kind = BG_ACTION_BACKWARD,
                                                          .to_stage = 0};
    schedule = must_create(&test.problem, "interleaved");
    assert_int_equal(bg_schedule_simulate(schedule, &test.problem, &skipping, NULL), BG_OK);
    assert_true(skipping.makespan == plain.makespan);
    assert_true(bg_schedule_edge_depth(schedule, test.problem.edge_count - 2) < test.problem.micro_batch_count);
    bg_schedule_destroy(schedule);
    bg_schedule_timing_clear(&plain);
    bg_schedule_timing_clear(&skipping);
    test_problem_clear(&test);
}

/* The names that PyTorch, TensorFlow for IPU and the zero-bubble authors use are accepted in upper or lower case. */
static void test_names_of_other_systems(void **state)
{
    static const struct {
        const char *name, *own;
    } rows[] = {{"1F1B", "interleaved"},
                {"Interleaved1F1B", "looped"},
                {"LoopedBFS", "looped-bfs"},
                {"InterleavedZeroBubble", "looped-zb"},
                {"ZB1P", "zb-h1"},
                {"ZB2P", "zb-h2"},
                {"ZBV", "zb-v"},
                {"ZBVZeroBubble", "zb-v"},
                {"DualPipeV", "dualpipev"},
                {"GPipe", "gpipe"},
                {"Grouped", "grouped"},
                {"Interleaved", "interleaved"},
                {"Sequential", "sequential"}};
    static const char *const unknown[] = {"", "1F1", "1F1BB", "interleaved ", "zbh1", "gpip\xC9"};
    const bg_schedule_generator *generator = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char upper[32], lower[32];
        snprintf(upper, sizeof upper, "%s", rows[i].name);
        snprintf(lower, sizeof lower, "%s", rows[i].name);
        for (char *c = upper; *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
        for (char *c = lower; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        for (int form = 0; form < 3; form++) {
            const char *name = form == 0 ? rows[i].name : form == 1 ? upper : lower;
            generator = bg_schedule_generator_find(name);
            if (generator == NULL || strcmp(generator->name, rows[i].own) != 0)
                fail_msg("%s is %s, expected %s", name, generator != NULL ? generator->name : "unknown", rows[i].own);
        }
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_null(bg_schedule_generator_find(unknown[i]));
    assert_null(bg_schedule_generator_find(NULL));
    for (uint32_t i = 0; bg_schedule_alias_at(i, NULL) != NULL; i++) {
        const char *name = bg_schedule_alias_at(i, &generator);
        assert_ptr_equal(bg_schedule_generator_find(name), generator);
        assert_true(i < 8);
    }
    assert_non_null(bg_schedule_alias_at(7, &generator));
}

static void test_minimum_micro_batches(void **state)
{
    const struct {
        const char *name;
        uint32_t training, inference; /* the orders for 4 stages */
    } rows[] = {{"single", 1, 1}, {"sharded", 1, 1}, {"sequential", 1, 1}, {"grouped", 7, 4},   {"interleaved", 4, 4},
                {"gpipe", 1, 1},  {"looped", 1, 1},  {"looped-bfs", 1, 1}, {"looped-zb", 1, 1}, {"zb-h1", 4, 4},
                {"zb-h2", 7, 4},  {"zb-v", 4, 4},    {"v-half", 4, 4},     {"v-min", 4, 4},     {"dualpipev", 4, 4},
                {"phased", 1, 1}, {"auto", 1, 1}};

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bg_schedule_generator *generator = bg_schedule_generator_at(i);
        assert_non_null(generator);
        assert_string_equal(generator->name, rows[i].name);
        assert_true(strlen(generator->summary) > 10);
        assert_ptr_equal(bg_schedule_generator_find(rows[i].name), generator);
        assert_int_equal(generator->minimum_micro_batches(4, true), rows[i].training);
        assert_int_equal(generator->minimum_micro_batches(4, false), rows[i].inference);
    }
    assert_null(bg_schedule_generator_at(sizeof rows / sizeof rows[0]));
    assert_null(bg_schedule_generator_find("grouped "));
    assert_null(bg_schedule_generator_find(NULL));
}

static void assert_refused(const bg_schedule_problem *problem, const char *name, const char *part)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    assert_int_equal(bg_schedule_create(problem, bg_schedule_generator_find(name), &schedule, &error),
                     BG_ERROR_INVALID);
    assert_null(schedule);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, error.message);
}

static void test_refusals(void **state)
{
    test_problem test;
    bg_schedule_edge bad;
    bg_stage_cost costs[3] = {{1, 1, 1, 1, 0}, {1, -1, 1, 1, 0}, {1, 1, 1, 1, 0}};

    (void)state;
    assert_true(test_chain(&test, 3, 4, true));
    assert_refused(&test.problem, "single", "use \"sequential\"");
    assert_refused(&test.problem, "nothing", "generator is NULL");
    test.devices[2] = 0;
    assert_refused(&test.problem, "interleaved", "stages 0 and 2 share device 0");
    test.devices[2] = 3;
    assert_refused(&test.problem, "grouped", "stage 2 is on device 3, but there are 3 devices");
    test.devices[2] = 2;
    test.problem.costs = costs;
    assert_refused(&test.problem, "grouped", "cost of stage 1 is -1 ns");
    test.problem.costs = NULL;
    test.problem.micro_batch_count = 0;
    assert_refused(&test.problem, "grouped", "micro_batch_count is 0; it must be 1 to");
    test.problem.micro_batch_count = 4;
    test.problem.update_level_count = 0;
    assert_refused(&test.problem, "grouped", "update_level_count is 0");
    test.problem.update_level_count = 1;
    test.problem.stage_count = 1u << 20;
    test.problem.micro_batch_count = 1u << 24;
    assert_refused(&test.problem, "grouped", "the limit is");
    test.problem.stage_count = 3;
    test.problem.micro_batch_count = 4;
    test.problem.bytes_per_ns = -1;
    assert_refused(&test.problem, "grouped", "bytes_per_ns is -1");
    test.problem.bytes_per_ns = 0;
    test.problem.stage_devices = NULL;
    assert_refused(&test.problem, "grouped", "stage_devices is NULL");
    test.problem.stage_devices = test.devices;

    test.problem.edges = &bad;
    test.problem.edge_count = 1;
    bad = (bg_schedule_edge){.to_stage = 3};
    assert_refused(&test.problem, "grouped", "its to stage is 3, but there are 3");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_SEND, .to_stage = 1};
    assert_refused(&test.problem, "grouped", "its to kind is SEND");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_BACKWARD, .last_kind = BG_ACTION_WEIGHTS};
    assert_refused(&test.problem, "grouped", "does not split weights");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_RECOMPUTE, .last_kind = BG_ACTION_BACKWARD};
    assert_refused(&test.problem, "grouped", "stage 0 does not recompute");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_BACKWARD, .last_kind = BG_ACTION_FORWARD};
    assert_refused(&test.problem, "grouped", "its last reader F runs before its first reader B");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_UPDATE, .last_kind = BG_ACTION_UPDATE};
    assert_refused(&test.problem, "grouped", "an edge has U at all ends or at none");
    bad = (bg_schedule_edge){
        .from_kind = BG_ACTION_UPDATE, .to_kind = BG_ACTION_UPDATE, .last_kind = BG_ACTION_UPDATE, .to_level = 1};
    assert_refused(&test.problem, "grouped", "its to level is 1, but there are 1");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_FORWARD};
    assert_refused(&test.problem, "grouped", "to itself");
    bad = (bg_schedule_edge){.to_kind = BG_ACTION_BACKWARD, .last_kind = BG_ACTION_BACKWARD};
    test.problem.training = false;
    assert_refused(&test.problem, "grouped", "inference has only F");
    test_problem_clear(&test);
}

/* Law: each strategy that accepts a problem gives a valid schedule. */
static void test_every_generator_verifies(void **state)
{
    const uint64_t seed_count = getenv("BRIGADE_TEST_ALL") != NULL ? 20000 : 1000;

    (void)state;
    for (uint64_t seed = 0; seed < seed_count; seed++)
        for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++) {
            const bg_schedule_generator *generator = bg_schedule_generator_at(i);
            test_problem test;
            bg_schedule *schedule = NULL;
            bg_error error = {0};

            test_random_problem_for(&test, seed, generator);
            if (bg_schedule_create(&test.problem, generator, &schedule, &error) != BG_OK)
                fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
            for (uint32_t edge = 0; edge < test.problem.edge_count; edge++)
                assert_in_range(bg_schedule_edge_depth(schedule, edge), 1, test.problem.micro_batch_count);
            bg_schedule_destroy(schedule);
        }
}

static void test_large_problem_is_quick(void **state)
{
    test_problem test;
    bg_schedule *schedule;

    (void)state;
    assert_true(test_chain(&test, 256, 512, true));
    schedule = must_create(&test.problem, "interleaved");
    assert_int_equal(bg_schedule_stage_in_flight(schedule, 0), 256);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_timetables),
        cmocka_unit_test(test_timetables_follow_formulas),
        cmocka_unit_test(test_published_stash_depths),
        cmocka_unit_test(test_skipping_edge_keeps_pace),
        cmocka_unit_test(test_names_of_other_systems),
        cmocka_unit_test(test_minimum_micro_batches),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_generator_verifies),
        cmocka_unit_test(test_large_problem_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
