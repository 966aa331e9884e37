/*
 * test_buffers.c: tests remote buffers in schedules: the positions of LOAD and STORE, the verifier's errors, and
 * overlaps.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/buffers.h"
#include "schedule/problems.h"

#include "core/error.h"

#include <math.h>
#include <stdio.h>

#define BIT(kind) (1u << BG_ACTION_##kind)

/* Generates a phased schedule: all micro-batches pass through a stage before the next stage begins, and each stage is
 * updated after its backward. */
static bg_status generate_phases(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t stages = problem->stage_count;

    for (uint32_t p = 0; p < (problem->training ? 2 : 1) * stages; p++) {
        const uint32_t stage = p < stages ? p : 2 * stages - 1 - p;
        for (uint32_t m = 0; m < problem->micro_batch_count; m++)
            BGI_TRY(bgi_schedule_emit_compute(problem, schedule, p < stages ? BG_ACTION_FORWARD : BG_ACTION_BACKWARD,
                                              stage, m, error));
        if (p >= stages && problem->update_level_count == 1)
            BGI_TRY(bg_schedule_emit(schedule, problem->stage_devices[stage],
                                     (bg_action){.kind = BG_ACTION_UPDATE, .stage = stage}, error));
    }
    return problem->update_level_count == 1 ? BG_OK : bgi_schedule_emit_updates(problem, schedule, error);
}

static const bg_schedule_generator phases = {
    .name = "phases", .generate = generate_phases, .minimum_micro_batches = bgi_schedule_minimum_of_one};

/* Makes a problem of two stages on one device, with two micro-batches. */
static void make_phases(test_problem *test)
{
    assert_true(test_chain(test, 2, 2, true));
    test->problem.device_count = 1;
    test->devices[1] = 0;
    test->problem.merges_loss = false;
}

static bg_schedule_buffer weights_of(uint32_t stage, bg_residency residency, bool preload)
{
    return (bg_schedule_buffer){.stage = stage,
                                .reads = BIT(FORWARD) | BIT(BACKWARD) | BIT(UPDATE),
                                .writes = BIT(UPDATE),
                                .residency = residency,
                                .preload = preload,
                                .size_bytes = 100};
}

static void expect_lists(const bg_schedule_problem *problem, const char *expected)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};
    char *text = NULL;

    if (bg_schedule_create(problem, &phases, &schedule, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_schedule_print(schedule, &text, &error), BG_OK);
    assert_string_equal(text, expected);
    free(text);
    bg_schedule_destroy(schedule);
}

static void loads_and_stores_surround_their_users(void **state)
{
    test_problem test;
    bg_schedule_buffer buffers[2];

    (void)state;
    make_phases(&test);
    test.problem.buffers = buffers;
    test.problem.buffer_count = 2;
    for (uint32_t stage = 0; stage < 2; stage++)
        buffers[stage] = weights_of(stage, BG_RESIDENCY_FORWARD_BACKWARD, false);
    expect_lists(&test.problem, "device 0: LOAD0.0:0 HOST_IN0.0 F0.0 HOST_IN0.1 F0.1 LOAD1.0:1 F1.0 HOST_OUT1.0 F1.1 "
                                "HOST_OUT1.1 B1.0 B1.1 U1:0 STORE1.0:1 LOAD0.0:0 B0.0 B0.1 U0:0 STORE0.0:0\n");
    for (uint32_t stage = 0; stage < 2; stage++)
        buffers[stage].preload = true;
    expect_lists(&test.problem, "device 0: LOAD0.0:0 LOAD1.0:1 HOST_IN0.0 F0.0 HOST_IN0.1 F0.1 LOAD0.0:0 F1.0 "
                                "HOST_OUT1.0 F1.1 HOST_OUT1.1 B1.0 B1.1 U1:0 STORE1.0:1 B0.0 B0.1 U0:0 STORE0.0:0\n");
    for (uint32_t stage = 0; stage < 2; stage++)
        buffers[stage].residency = BG_RESIDENCY_STEP;
    expect_lists(&test.problem, "device 0: LOAD0.0:0 LOAD1.0:1 HOST_IN0.0 F0.0 HOST_IN0.1 F0.1 F1.0 "
                                "HOST_OUT1.0 F1.1 HOST_OUT1.1 B1.0 B1.1 U1:0 STORE1.0:1 B0.0 B0.1 U0:0 STORE0.0:0\n");
    test_problem_clear(&test);
}

static void fresh_buffers_move_between_visits_only(void **state)
{
    test_problem test;
    bg_schedule_buffer buffer = {.stage = 0,
                                 .reads = BIT(UPDATE),
                                 .writes = BIT(BACKWARD),
                                 .starts_fresh = true,
                                 .residency = BG_RESIDENCY_VISIT};

    (void)state;
    make_phases(&test);
    test.problem.buffers = &buffer;
    test.problem.buffer_count = 1;
    expect_lists(&test.problem, "device 0: HOST_IN0.0 F0.0 HOST_IN0.1 F0.1 F1.0 HOST_OUT1.0 F1.1 HOST_OUT1.1 B1.0 B1.1 "
                                "U1:0 B0.0 B0.1 U0:0\n");
    test.problem.update_level_count = 2; /* updates are after all backwards, so they are another visit */
    expect_lists(&test.problem, "device 0: HOST_IN0.0 F0.0 HOST_IN0.1 F0.1 F1.0 HOST_OUT1.0 F1.1 HOST_OUT1.1 B1.0 B1.1 "
                                "B0.0 B0.1 U0:0 STORE0.0:0 U1:0 LOAD0.0:0 U0:1 U1:1\n");
    test_problem_clear(&test);
}

static uint32_t find_stash(const bg_schedule_problem *problem, uint32_t stage)
{
    for (uint32_t e = 0; e < problem->edge_count; e++)
        if (problem->edges[e].from_stage == stage && problem->edges[e].to_stage == stage)
            return e;
    fail_msg("no stash");
    return 0;
}

static void stashes_are_stored_and_loaded_once(void **state)
{
    test_problem test;
    bg_schedule_buffer buffer = {.stage = 0, .per_micro_batch = true, .slots = 2, .preload = true};
    bg_schedule *schedule = NULL;

    (void)state;
    make_phases(&test);
    test.problem.micro_batch_count = 3;
    buffer.edge = find_stash(&test.problem, 0);
    test.problem.buffers = &buffer;
    test.problem.buffer_count = 1;
    expect_lists(&test.problem,
                 "device 0: HOST_IN0.0 F0.0 STORE0.0:0 HOST_IN0.1 F0.1 STORE0.1:0 HOST_IN0.2 F0.2 STORE0.2:0 "
                 "LOAD0.0:0 F1.0 HOST_OUT1.0 F1.1 HOST_OUT1.1 F1.2 HOST_OUT1.2 B1.0 B1.1 B1.2 U1:0 LOAD0.1:0 B0.0 "
                 "LOAD0.2:0 B0.1 B0.2 U0:0\n");
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, NULL), BG_OK);
    assert_int_equal(bg_schedule_edge_depth(schedule, buffer.edge), 3);
    assert_int_equal(bg_schedule_buffer_depth(schedule, 0), 2);
    bg_schedule_destroy(schedule);
    buffer.preload = false;
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, NULL), BG_OK);
    assert_int_equal(bg_schedule_buffer_depth(schedule, 0), 1);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static uint32_t find_edge(const bg_schedule_problem *problem, bg_action_kind from, bg_action_kind to, uint32_t to_stage)
{
    for (uint32_t e = 0; e < problem->edge_count; e++)
        if (problem->edges[e].from_kind == from && problem->edges[e].to_kind == to &&
            problem->edges[e].to_stage == to_stage)
            return e;
    fail_msg("no such edge");
    return 0;
}

/* A value that stage 1 receives from stage 0 and stashes for its backward is stored once and loaded for both. */
static void what_is_received_and_kept_is_stored_once(void **state)
{
    bg_schedule_buffer buffers[2] = {{.stage = 1, .per_micro_batch = true, .slots = 2},
                                     {.stage = 1, .per_micro_batch = true, .slots = 2, .shares_store = true}};
    test_problem test;
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    (void)state;
    make_phases(&test);
    test.problem.merges_loss = false;
    buffers[0].edge = find_edge(&test.problem, BG_ACTION_FORWARD, BG_ACTION_FORWARD, 1);
    buffers[1].edge = find_stash(&test.problem, 1);
    buffers[0].size_bytes = buffers[1].size_bytes = 64;
    test.problem.buffers = buffers;
    test.problem.buffer_count = 2;
    expect_lists(&test.problem,
                 "device 0: HOST_IN0.0 F0.0 STORE1.0:0 HOST_IN0.1 F0.1 STORE1.1:0 LOAD1.0:0 F1.0 HOST_OUT1.0 "
                 "LOAD1.1:0 F1.1 HOST_OUT1.1 LOAD1.0:1 B1.0 LOAD1.1:1 B1.1 U1:0 B0.0 B0.1 U0:0\n");
    for (int damage = 0; damage < 2; damage++) {
        static const char *const texts[] = {
            "device 0: HOST_IN0.0 F0.0 HOST_IN0.1 F0.1 STORE1.0:0 STORE1.1:0 LOAD1.0:0 F1.0 HOST_OUT1.0 STORE1.0:1 "
            "LOAD1.1:0 F1.1 HOST_OUT1.1 LOAD1.0:1 B1.0 LOAD1.1:1 B1.1 U1:0 B0.0 B0.1 U0:0\n",
            "device 0: HOST_IN0.0 F0.0 LOAD1.0:1 HOST_IN0.1 F0.1 STORE1.0:0 STORE1.1:0 LOAD1.0:0 F1.0 HOST_OUT1.0 "
            "LOAD1.1:0 F1.1 HOST_OUT1.1 B1.0 LOAD1.1:1 B1.1 U1:0 B0.0 B0.1 U0:0\n"};
        static const char *const reasons[] = {"it cannot have a STORE", "must be stored before this LOAD"};
        assert_int_equal(bg_schedule_parse(texts[damage], "case", &schedule, &error), BG_OK);
        assert_int_equal(bg_schedule_verify(schedule, &test.problem, &error), BG_ERROR_INVALID);
        if (strstr(error.message, reasons[damage]) == NULL)
            fail_msg("%s", error.message);
        bg_schedule_destroy(schedule);
    }
    for (int damage = 0; damage < 3; damage++) {
        bg_schedule_buffer wrong[2] = {buffers[0], buffers[1]};
        wrong[1].store_of = damage == 0 ? 1 : 0;
        wrong[1].size_bytes += damage == 1;
        wrong[1].edge =
            damage == 2 ? find_edge(&test.problem, BG_ACTION_FORWARD, BG_ACTION_BACKWARD, 0) : wrong[1].edge;
        wrong[1].stage = damage == 2 ? 0 : 1;
        test.problem.buffers = wrong;
        assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, &error), BG_ERROR_INVALID);
        if (strstr(error.message, "shares the store of buffer") == NULL)
            fail_msg("%s", error.message);
    }
    test_problem_clear(&test);
}

/* Gradients that are summed after the last backward are stored after that, and loaded for later readers. */
static void sums_in_the_backward_are_stored_after_that(void **state)
{
    bg_schedule_buffer buffer = {.stage = 1,
                                 .reads = BIT(UPDATE),
                                 .writes = BIT(BACKWARD) | BIT(REDUCE),
                                 .starts_fresh = true,
                                 .residency = BG_RESIDENCY_VISIT};
    test_problem test;

    (void)state;
    make_phases(&test);
    test.problem.reduces_gradients = true;
    test.problem.reduces_in_backward = true;
    test.problem.update_level_count = 2;
    test.problem.micro_batch_count = 1;
    test.problem.buffers = &buffer;
    test.problem.buffer_count = 1;
    buffer.update_levels = 1u << 1;
    expect_lists(&test.problem,
                 "device 0: HOST_IN0.0 F0.0 F1.0 HOST_OUT1.0 B1.0 REDUCE1.0:0 STORE1.0:0 B0.0 REDUCE0.0:0 "
                 "U0:0 U1:0 U0:1 LOAD1.0:0 U1:1\n");
    test_problem_clear(&test);
}

/* Replicas exchange the new weights after the last level of the update, which is not the level that writes them. */
static void gathered_weights_are_stored_after_that(void **state)
{
    const bool gathers[2] = {true, false};
    bg_schedule_buffer buffer = weights_of(0, BG_RESIDENCY_VISIT, false);
    test_problem test;

    (void)state;
    make_phases(&test);
    test.problem.reduces_gradients = true;
    test.problem.stage_gathers = gathers;
    test.problem.update_level_count = 2;
    test.problem.micro_batch_count = 1;
    test.problem.buffers = &buffer;
    test.problem.buffer_count = 1;
    buffer.writes |= BIT(GATHER);
    expect_lists(&test.problem,
                 "device 0: LOAD0.0:0 HOST_IN0.0 F0.0 F1.0 HOST_OUT1.0 B1.0 LOAD0.0:0 B0.0 REDUCE0.0:0 U0:0 STORE0.0:0 "
                 "REDUCE1.0:0 U1:0 LOAD0.0:0 U0:1 GATHER0.0:0 STORE0.0:0 U1:1\n");
    test_problem_clear(&test);
}

/* ---- the verifier ---- */

static void damaged_schedules_are_refused(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0", NULL},
        {"LOAD0.0:0 LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 HOST_OUT0.0 LOAD0.0:0 LOAD0.0:1 B0.0 U0:0 STORE0.0:0", NULL},
        {"HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 LOAD0.0:0 B0.0 U0:0 STORE0.0:0", "not on the device"},
        {"LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0", "were not stored"},
        {"LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 LOAD0.0:0", "STORE it first"},
        {"LOAD0.0:0 STORE0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0", "nothing changed"},
        {"LOAD0.0:0 STORE0.0:1 HOST_IN0.0 F0.0 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0",
         "the values must be computed before this STORE"},
        {"LOAD0.0:0 HOST_IN0.0 F0.0 LOAD0.0:1 STORE0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0",
         "must be stored before this LOAD"},
        {"LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 HOST_OUT0.0 B0.0 LOAD0.0:1 U0:0 STORE0.0:0", "before the first reader"},
        {"LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0", "out of order"},
        {"LOAD0.0:0 HOST_IN0.0 F0.0 STORE0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0", "loaded 0 times"},
        {"LOAD0.1:0 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0", "no micro-batches"},
        {"LOAD0.0:2 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0", "not part of the problem"},
        {"LOAD1.0:0 HOST_IN0.0 F0.0 STORE0.0:1 LOAD0.0:1 HOST_OUT0.0 B0.0 U0:0 STORE0.0:0", "no such remote buffer"},
    };
    bg_schedule_buffer buffers[2] = {weights_of(0, BG_RESIDENCY_STEP, false),
                                     {.stage = 0, .per_micro_batch = true, .slots = 1}};
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 1, 1, true));
    buffers[1].edge = find_stash(&test.problem, 0);
    test.problem.buffers = buffers;
    test.problem.buffer_count = 2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        bg_status status;
        snprintf(text, sizeof text, "device 0: %s\n", cases[i].text);
        assert_int_equal(bg_schedule_parse(text, "case", &schedule, &error), BG_OK);
        status = bg_schedule_verify(schedule, &test.problem, &error);
        if (cases[i].reason == NULL && status != BG_OK)
            fail_msg("%s: %s", cases[i].text, error.message);
        if (cases[i].reason != NULL && (status == BG_OK || strstr(error.message, cases[i].reason) == NULL))
            fail_msg("%s: `%s` instead of `%s`", cases[i].text, error.message, cases[i].reason);
        bg_schedule_destroy(schedule);
    }
    test_problem_clear(&test);
}

static void a_slot_is_stored_before_it_is_written_again(void **state)
{
    static const char *const text =
        "device 0: HOST_IN0.0 F0.0 HOST_OUT0.0 HOST_IN0.1 F0.1 HOST_OUT0.1 STORE0.0:0 STORE0.1:0 LOAD0.0:0 "
        "LOAD0.1:0 B0.0 B0.1 U0:0\n";
    bg_schedule_buffer buffer = {.stage = 0, .per_micro_batch = true, .slots = 1};
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 1, 2, true));
    test.problem.merges_loss = false;
    buffer.edge = find_stash(&test.problem, 0);
    test.problem.buffers = &buffer;
    test.problem.buffer_count = 1;
    for (buffer.slots = 1; buffer.slots <= 2; buffer.slots++) {
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        bg_status status;
        assert_int_equal(bg_schedule_parse(text, "case", &schedule, &error), BG_OK);
        status = bg_schedule_verify(schedule, &test.problem, &error);
        assert_int_equal(status, buffer.slots == 1 ? BG_ERROR_INVALID : BG_OK);
        if (buffer.slots == 1)
            assert_non_null(strstr(error.message, "holds micro-batch 0, which must be stored first"));
        bg_schedule_destroy(schedule);
    }
    test_problem_clear(&test);
}

static void impossible_buffers_are_refused(void **state)
{
    bg_schedule_buffer buffers[2] = {weights_of(0, BG_RESIDENCY_STEP, false), weights_of(1, BG_RESIDENCY_STEP, false)};
    test_problem test;
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    (void)state;
    assert_true(test_chain(&test, 2, 2, true));
    test.problem.buffers = buffers;
    test.problem.buffer_count = 2;
    buffers[1].stage = 2;
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "buffer 1: its stage is 2"));
    buffers[1] = weights_of(1, BG_RESIDENCY_STEP, false);
    buffers[1].reads = buffers[1].writes = 0;
    error = (bg_error){0};
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "needs a user"));
    buffers[1] = (bg_schedule_buffer){.stage = 1, .per_micro_batch = true, .slots = 2, .edge = 0}; /* F0 -> F1 */
    error = (bg_error){0};
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "must stay on one device"));
    buffers[1] = weights_of(1, BG_RESIDENCY_STEP, false);
    buffers[1].store_bytes = buffers[1].size_bytes + 1;
    error = (bg_error){0};
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "buffer 1: STORE copies"));
    test_problem_clear(&test);
}

/* For all problems, orders and residencies, the schedule from complete.c is valid. More buffers or other positions of
 * their actions never change the order of compute. */
static void random_problems_are_completed_rightly(void **state)
{
    const uint64_t count = getenv("BRIGADE_TEST_ALL") != NULL ? 5000 : 300;

    (void)state;
    for (uint64_t seed = 0; seed < count; seed++) {
        test_problem test;
        uint64_t random = test_seed(seed + 1000);
        bg_schedule_buffer buffers[2 * MOST_STAGES + MOST_EDGES];
        uint32_t buffer_count = 0;
        bg_schedule_problem *p = &test.problem;
        test_random_problem_for(&test, seed, bg_schedule_generator_find("sequential"));
        for (uint32_t stage = 0; stage < p->stage_count; stage++)
            for (uint32_t k = 0; k < 2; k++) {
                bg_schedule_buffer *buffer = &buffers[buffer_count++];
                *buffer = weights_of(stage, (bg_residency)test_random(&random, 3), test_random(&random, 2) == 0);
                if (k == 1) {
                    buffer->starts_fresh = true;
                    buffer->reads = BIT(UPDATE);
                    buffer->writes = p->splits_weights ? BIT(BACKWARD) | BIT(WEIGHTS) : BIT(BACKWARD);
                }
            }
        for (uint32_t e = 0; e < p->edge_count; e++)
            if (p->edges[e].from_kind != BG_ACTION_UPDATE && test_random(&random, 2) == 0 &&
                p->stage_devices[p->edges[e].from_stage] == p->stage_devices[p->edges[e].to_stage])
                buffers[buffer_count++] = (bg_schedule_buffer){.stage = p->edges[e].to_stage,
                                                               .per_micro_batch = true,
                                                               .edge = e,
                                                               .slots = 1 + test_random(&random, 2),
                                                               .preload = test_random(&random, 2) == 0,
                                                               .size_bytes = 64};
        p->buffers = buffers;
        p->buffer_count = buffer_count;
        p->remote_bytes_per_ns = 10.0;
        for (uint32_t g = 0; g < 2; g++) {
            const bg_schedule_generator *generator = g == 0 ? &phases : bg_schedule_generator_find("sequential");
            bg_schedule *schedule = NULL;
            bg_schedule_timing with = {0}, without = {0};
            bg_error error = {0};
            if (bg_schedule_create(p, generator, &schedule, &error) != BG_OK ||
                bg_schedule_simulate(schedule, p, &with, &error) != BG_OK)
                fail_msg("seed %llu, %s: %s", (unsigned long long)seed, generator->name, error.message);
            bg_schedule_destroy(schedule);
            p->buffer_count = 0;
            if (bg_schedule_create(p, generator, &schedule, &error) != BG_OK ||
                bg_schedule_simulate(schedule, p, &without, &error) != BG_OK)
                fail_msg("seed %llu, %s: %s", (unsigned long long)seed, generator->name, error.message);
            p->buffer_count = buffer_count;
            assert_true(with.makespan >= without.makespan);
            bg_schedule_destroy(schedule);
            bg_schedule_timing_clear(&with);
            bg_schedule_timing_clear(&without);
        }
        test_problem_clear(&test);
    }
}

/* ---- time ---- */

/* Returns the makespan of phases in which each stage has a buffer of 100 bytes. `store_bytes` of the buffer are stored
 * after each visit; SIZE_MAX means that it is only read. */
static double simulate_phases(double bytes_per_ns, bool preload, size_t store_bytes)
{
    test_problem test;
    bg_schedule_buffer buffers[3];
    bg_schedule *schedule = NULL;
    bg_schedule_timing timing = {0};
    double makespan;

    assert_true(test_chain(&test, 3, 4, false));
    test.problem.device_count = 1;
    for (uint32_t stage = 0; stage < 3; stage++) {
        test.devices[stage] = 0;
        buffers[stage] = (bg_schedule_buffer){.stage = stage,
                                              .reads = BIT(FORWARD),
                                              .writes = store_bytes != SIZE_MAX ? BIT(FORWARD) : 0,
                                              .residency = BG_RESIDENCY_VISIT,
                                              .preload = preload,
                                              .size_bytes = 100,
                                              .store_bytes = store_bytes != SIZE_MAX ? store_bytes : 0};
    }
    test.problem.buffers = buffers;
    test.problem.buffer_count = 3;
    test.problem.remote_bytes_per_ns = bytes_per_ns;
    assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, NULL), BG_OK);
    assert_int_equal(bg_schedule_simulate(schedule, &test.problem, &timing, NULL), BG_OK);
    makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
    return makespan;
}

/* The step has work that takes 12, and three loads that take 2 each, for which the device waits. After each stage, the
 * next load waits for a store of 2, or of 0.5 for the replica's quarter. */
static void stores_of_pieces_are_shorter(void **state)
{
    (void)state;
    assert_true(fabs(simulate_phases(50.0, false, 0) - 24.0) < 1e-9);
    assert_true(fabs(simulate_phases(50.0, false, 100) - 24.0) < 1e-9);
    assert_true(fabs(simulate_phases(50.0, false, 25) - 19.5) < 1e-9);
}

/* Three stages of 4 micro-batches take 12; a load takes 2. On demand, the device waits for each load; if loads are
 * issued a visit earlier, it waits only for the first. With loads that take 6, work that takes 4 hides 4 of the second
 * load, which begins when the first is done. */
static void preloads_overlap(void **state)
{
    (void)state;
    assert_true(fabs(simulate_phases(0.0, false, SIZE_MAX) - 12.0) < 1e-9);
    assert_true(fabs(simulate_phases(50.0, false, SIZE_MAX) - 18.0) < 1e-9);
    assert_true(fabs(simulate_phases(50.0, true, SIZE_MAX) - 14.0) < 1e-9);
    assert_true(fabs(simulate_phases(100.0 / 6.0, true, SIZE_MAX) - 22.0) < 1e-9);
}

/* Two stages of 3 micro-batches with unit costs; the stash of stage 0 takes 4 units of time to store and 4 to load, on
 * demand. With one slot, the second and third forward wait for the previous store, which ends at 5 and 10. Then stage 1
 * has 3 forwards and 3 backwards, and stage 0 has three loads with a backward each. With two slots, only the third
 * forward waits, until 5; the last store ends at 13. */
static void producers_wait_for_their_slots(void **state)
{
    const bg_stage_cost costs[] = {{.forward_ns = 1, .backward_ns = 1}, {.forward_ns = 1, .backward_ns = 1}};
    const double expected[] = {11 + 6 + 3 * 5, 13 + 3 * 5};
    bg_schedule_buffer buffer = {.stage = 0, .per_micro_batch = true, .size_bytes = 100};
    test_problem test;

    (void)state;
    make_phases(&test);
    test.problem.micro_batch_count = 3;
    test.problem.costs = costs;
    test.problem.remote_bytes_per_ns = 25.0;
    buffer.edge = find_stash(&test.problem, 0);
    test.problem.buffers = &buffer;
    test.problem.buffer_count = 1;
    for (buffer.slots = 1; buffer.slots <= 2; buffer.slots++) {
        bg_schedule *schedule = NULL;
        bg_schedule_timing timing = {0};
        assert_int_equal(bg_schedule_create(&test.problem, &phases, &schedule, NULL), BG_OK);
        assert_int_equal(bg_schedule_simulate(schedule, &test.problem, &timing, NULL), BG_OK);
        assert_true(fabs(timing.makespan - expected[buffer.slots - 1]) < 1e-9);
        bg_schedule_timing_clear(&timing);
        bg_schedule_destroy(schedule);
    }
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_and_stores_surround_their_users),
        cmocka_unit_test(fresh_buffers_move_between_visits_only),
        cmocka_unit_test(stashes_are_stored_and_loaded_once),
        cmocka_unit_test(what_is_received_and_kept_is_stored_once),
        cmocka_unit_test(sums_in_the_backward_are_stored_after_that),
        cmocka_unit_test(gathered_weights_are_stored_after_that),
        cmocka_unit_test(damaged_schedules_are_refused),
        cmocka_unit_test(a_slot_is_stored_before_it_is_written_again),
        cmocka_unit_test(impossible_buffers_are_refused),
        cmocka_unit_test(random_problems_are_completed_rightly),
        cmocka_unit_test(preloads_overlap),
        cmocka_unit_test(stores_of_pieces_are_shorter),
        cmocka_unit_test(producers_wait_for_their_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
