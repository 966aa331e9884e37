/*
 * test_verify.c: checks the messages of the verifier for each kind of damage. test_damage.c shows that the verifier
 * finds all damage and reports no false errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <stdio.h>

static const char *const good_text = "device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 "
                                     "RECEIVE0.0:1 B0.0 RECEIVE0.1:1 B0.1 U0:0\n"
                                     "device 1: RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 "
                                     "RECEIVE1.1:0 F1.1 HOST_OUT1.1 B1.1 SEND1.1:1 U1:0\n";

/* Verifies good_text with `old` replaced by `new`; the error must contain `expected` (NULL: there must be no error). */
static void assert_verdict(const char *old, const char *new, const char *expected)
{
    const char *at = strstr(good_text, old);
    char text[1024];
    test_problem test;
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good_text), good_text, new, at + strlen(old));
    assert_true(test_chain(&test, 2, 2, true));
    assert_int_equal(bg_schedule_parse(text, NULL, &schedule, &error), BG_OK);
    assert_int_equal(bg_schedule_verify(schedule, &test.problem, &error), expected == NULL ? BG_OK : BG_ERROR_INVALID);
    if (expected != NULL && strstr(error.message, expected) == NULL)
        fail_msg("\"%s\" is not in: %s", expected, error.message);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static void test_messages(void **state)
{
    (void)state;
    assert_verdict("F0.0", "F0.0", NULL);
    assert_verdict("U1:0\n", "\n", "device 1 lacks U1:0");
    assert_verdict("B0.1 U0:0", "B0.1 B0.1 U0:0", "device 0, action 10 (B0.1) also occurs as action 9");
    assert_verdict("B0.1 U0:0", "B0.1 U0:0 F1.0", "device 0, action 11 (F1.0): stage 1 is on device 1");
    assert_verdict("F0.0 ", "F0.7 ", "(F0.7) is not part of the problem");
    assert_verdict("F0.0 ", "W0.0 ", "(W0.0) is not part of the problem");
    assert_verdict("F0.0 ", "F9.0 ", "(F9.0) is not part of the problem, which has 2 stages, 2 micro-batches, 4 edges");
    assert_verdict("SEND0.0:0", "SEND0.0:4000000000", "(SEND0.0:4000000000) is not part of the problem");
    assert_verdict("SEND0.0:0", "SEND0.0:2", "(SEND0.0:2) is not part of the problem"); /* a stash is not sent */
    assert_verdict("F0.0 ", "F0.0:1 ", "(F0.0:1) is not part of the problem");
    assert_verdict("F0.0 ", "LOAD0.0:1 ", "(LOAD0.0:1) is not part of the problem");
    assert_verdict("SEND0.0:0 ", "", "device 0 lacks SEND0.0:0");
    assert_verdict("HOST_IN0.0 F0.0", "F0.0 HOST_IN0.0", "(F0.0) must come after HOST_IN0.0");
    assert_verdict("F1.0 HOST_OUT1.0", "HOST_OUT1.0 F1.0", "(HOST_OUT1.0) must come after F1.0");
    assert_verdict(
        "RECEIVE1.0:0 F1.0", "F1.0 RECEIVE1.0:0",
        "edge 0: device 1, action 0 (F1.0) must come after RECEIVE1.0:0, action 1: a value must be received");
    assert_verdict("F0.0 SEND0.0:0", "SEND0.0:0 F0.0", "(SEND0.0:0) must come after F0.0");
    assert_verdict("B0.1 U0:0", "U0:0 B0.1", "an update needs the gradients of all micro-batches");
    assert_verdict("F1.0 HOST_OUT1.0 B1.0", "B1.0 F1.0 HOST_OUT1.0", "a backward needs its forward");
    assert_verdict("HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0",
                   "HOST_IN0.0 HOST_IN0.1 F0.1 SEND0.1:0 F0.0 SEND0.0:0", "(F0.1) comes before F0.0");
    assert_verdict("SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0", "HOST_IN0.1 F0.1 SEND0.1:0 SEND0.0:0",
                   "(SEND0.1:0) comes before SEND0.0:0");
    assert_verdict("\ndevice 1: RECEIVE1.0:0", "\ndevice 1:\ndevice 2: RECEIVE1.0:0",
                   "the schedule has 3 devices, but the problem has 2");
}

static void test_deadlock_is_described(void **state)
{
    (void)state;
    /* Device 0 receives the gradient of micro-batch 0 before it sends the value that this gradient is made from. */
    assert_verdict("F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 RECEIVE0.0:1 B0.0",
                   "F0.0 RECEIVE0.0:1 B0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0",
                   "deadlock: in step 0 device 0, action 2 (RECEIVE0.0:1), micro-batch 0, waits for the message of "
                   "edge 1 by B1.0 on device 1, which also waits");
    /* Receiving early is unusual but valid; the device then holds the messages longer. */
    assert_verdict("RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 RECEIVE1.1:0",
                   "RECEIVE1.0:0 RECEIVE1.1:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1", NULL);
}

static bg_status emit_nonsense(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    (void)problem;
    return bg_schedule_emit(schedule, 0, (bg_action){.kind = BG_ACTION_FORWARD, .stage = 4000000000u}, error);
}

static bg_status emit_on_missing_device(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bg_schedule_emit(schedule, problem->device_count, (bg_action){0}, error);
}

static bg_status emit_unknown_kind(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    (void)problem;
    return bg_schedule_emit(schedule, 0, (bg_action){.kind = (bg_action_kind)99}, error);
}

static void test_bad_generators_are_refused(void **state)
{
    const struct {
        bg_schedule_generator generator;
        const char *expected;
    } rows[] = {
        {{.name = "mine", .generate = emit_nonsense}, "mine schedule: device 0, action 0 (F4000000000.0) is not part"},
        {{.name = "mine", .generate = emit_on_missing_device},
         "mine schedule: an action is for device 2, but there are 2"},
        {{.generate = emit_unknown_kind}, "unnamed schedule: device 0: 99 is not an action kind"},
    };
    test_problem test;

    (void)state;
    assert_true(test_chain(&test, 2, 2, true));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        assert_int_equal(bg_schedule_create(&test.problem, &rows[i].generator, &schedule, &error), BG_ERROR_INVALID);
        assert_null(schedule);
        if (strstr(error.message, rows[i].expected) == NULL)
            fail_msg("\"%s\" is not in: %s", rows[i].expected, error.message);
    }
    test_problem_clear(&test);
}

/* ---- recomputation ---- */

/* R is placed where the device would wait for the gradient, and the verifier checks it. */
static void test_recompute_goes_before_the_wait(void **state)
{
    static const bool recomputes[] = {true, false};
    static const char *const expected = "device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 "
                                        "R0.0 RECEIVE0.0:1 B0.0 R0.1 RECEIVE0.1:1 B0.1 U0:0\n";
    static const struct {
        const char *lines, *message;
    } cases[] = {
        {"device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 R0.0 RECEIVE0.0:1 B0.0 RECEIVE0.1:1 B0.1 U0:0",
         "device 0 lacks R0.1"},
        {"device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 RECEIVE0.0:1 B0.0 R0.0 R0.1 RECEIVE0.1:1 B0.1 "
         "U0:0",
         "(B0.0) must come after R0.0"},
        {"device 0: HOST_IN0.0 R0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 RECEIVE0.0:1 B0.0 R0.1 RECEIVE0.1:1 B0.1 "
         "U0:0",
         "(R0.0) must come after F0.0"},
        {"device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 R0.1 R0.0 RECEIVE0.0:1 B0.0 RECEIVE0.1:1 B0.1 "
         "U0:0",
         "(R0.1) comes before R0.0"},
    };
    static const char *const second =
        "device 1: RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 RECEIVE1.1:0 F1.1 HOST_OUT1.1 B1.1 SEND1.1:1 U1:0";
    bg_schedule *schedule = NULL;
    test_problem test;
    bg_error error = {0};
    char *text = NULL;

    (void)state;
    assert_true(test_chain(&test, 2, 2, true));
    test_problem_clear(&test);
    test.problem.stage_recomputes = recomputes;
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    if (bg_schedule_create(&test.problem, bg_schedule_generator_find("grouped"), &schedule, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
    assert_memory_equal(text, expected, strlen(expected));
    free(text);
    /* The input of R is held for two micro-batches, and the result of R for one. */
    assert_int_equal(bg_schedule_edge_depth(schedule, 2), 2);
    assert_int_equal(test.problem.edges[2].to_kind, BG_ACTION_RECOMPUTE);
    assert_int_equal(bg_schedule_edge_depth(schedule, 3), 1);
    assert_int_equal(bg_schedule_timetable(schedule, &test.problem, &text, NULL), BG_OK);
    assert_non_null(strstr(text, "R0"));
    free(text);
    bg_schedule_destroy(schedule);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char lines[512];
        snprintf(lines, sizeof lines, "%s\n%s\n", cases[i].lines, second);
        assert_int_equal(bg_schedule_parse(lines, "test", &schedule, &error), BG_OK);
        error = (bg_error){0};
        assert_int_equal(bg_schedule_verify(schedule, &test.problem, &error), BG_ERROR_INVALID);
        if (strstr(error.message, cases[i].message) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", cases[i].message, error.message);
        bg_schedule_destroy(schedule);
    }
    test_problem_clear(&test);
}

/* Generates a schedule with all R together before the first B, because a generator may place R itself. */
static bg_status generate_early(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    static const bg_action_kind kinds[] = {BG_ACTION_FORWARD, BG_ACTION_RECOMPUTE, BG_ACTION_BACKWARD};

    for (int k = 0; k < 3; k++)
        for (uint32_t m = 0; m < problem->micro_batch_count; m++)
            if (bg_schedule_emit(schedule, 0, (bg_action){.kind = kinds[k], .micro_batch = m}, error) != BG_OK)
                return BG_ERROR_MEMORY;
    return bg_schedule_emit(schedule, 0, (bg_action){.kind = BG_ACTION_UPDATE}, error);
}

static void test_a_generator_may_place_recompute(void **state)
{
    static const bool recomputes[] = {true};
    static const bg_schedule_generator early = {.name = "early", .generate = generate_early};
    bg_schedule *schedule = NULL;
    test_problem test;
    char *text = NULL;

    (void)state;
    assert_true(test_chain(&test, 1, 2, true));
    test_problem_clear(&test);
    test.problem.stage_recomputes = recomputes;
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    assert_int_equal(bg_schedule_create(&test.problem, &early, &schedule, NULL), BG_OK);
    assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
    assert_string_equal(text,
                        "device 0: HOST_IN0.0 F0.0 HOST_OUT0.0 HOST_IN0.1 F0.1 HOST_OUT0.1 R0.0 R0.1 B0.0 B0.1 U0:0\n");
    assert_int_equal(bg_schedule_edge_depth(schedule, 1), 2);
    free(text);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_deadlock_is_described),
        cmocka_unit_test(test_bad_generators_are_refused),
        cmocka_unit_test(test_recompute_goes_before_the_wait),
        cmocka_unit_test(test_a_generator_may_place_recompute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
