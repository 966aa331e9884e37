/*
 * test_text.c: parsing a printed schedule gives the same schedule, and every invalid text gives an error with its
 * position.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"
#include "schedule/schedule.h"

#include <stdio.h>

static bg_schedule *must_parse(const char *text)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    if (bg_schedule_parse(text, "good", &schedule, &error) != BG_OK)
        fail_msg("%s", error.message);
    return schedule;
}

static char *must_print(const bg_schedule *schedule)
{
    char *text = NULL;

    assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
    return text;
}

static void test_golden(void **state)
{
    static const char *const expected = "device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 RECEIVE0.0:1 "
                                        "B0.0 W0.0 RECEIVE0.1:1 B0.1 W0.1 U0:0 U0:1\n"
                                        "device 1: RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 W1.0 RECEIVE1.1:0 F1.1 "
                                        "HOST_OUT1.1 B1.1 SEND1.1:1 W1.1 U1:0 U1:1\n";
    test_problem test;
    bg_schedule *schedule = NULL;
    char *text;

    (void)state;
    assert_true(test_chain(&test, 2, 2, true));
    test_problem_clear(&test);
    test.problem.splits_weights = true;
    test.problem.update_level_count = 2;
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("interleaved"), &schedule, NULL),
                     BG_OK);
    text = must_print(schedule);
    assert_string_equal(text, expected);
    free(text);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static void assert_same_lists(const bg_schedule *a, const bg_schedule *b)
{
    assert_int_equal(bg_schedule_device_count(a), bg_schedule_device_count(b));
    for (uint32_t device = 0; device < bg_schedule_device_count(a); device++) {
        const uint32_t count = bg_schedule_action_count(a, device);
        assert_int_equal(count, bg_schedule_action_count(b, device));
        if (count > 0)
            assert_memory_equal(bg_schedule_actions(a, device), bg_schedule_actions(b, device),
                                count * sizeof(bg_action));
    }
}

static void assert_round_trip(const bg_schedule *schedule)
{
    char *text = must_print(schedule), *again;
    bg_schedule *copy = must_parse(text);

    assert_same_lists(schedule, copy);
    again = must_print(copy);
    assert_string_equal(text, again);
    free(again);
    free(text);
    bg_schedule_destroy(copy);
}

static void test_generated_schedules_round_trip(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        const bg_schedule_generator *generator = bg_schedule_generator_at((uint32_t)(seed % 16));
        test_problem test;
        bg_schedule *schedule = NULL;

        test_random_problem_for(&test, seed, generator);
        assert_int_equal(bg_schedule_create(&test.problem, generator, &schedule, NULL), BG_OK);
        assert_round_trip(schedule);
        bg_schedule_destroy(schedule);
    }
}

/* Actions of any kind are printed and read back with any numbers, including numbers that the kind does not use. */
static void test_arbitrary_actions_round_trip(void **state)
{
    static const uint32_t numbers[] = {0, 1, 9, 10, 4294967295u};
    uint64_t random = test_seed(3);
    bg_schedule *schedule = NULL;

    (void)state;
    assert_int_equal(bgi_schedule_create(3, &schedule, NULL), BG_OK);
    for (int i = 0; i < 2000; i++) {
        const bg_action action = {.kind = (bg_action_kind)test_random(&random, BG_ACTION_KIND_COUNT),
                                  .stage = numbers[test_random(&random, 5)],
                                  .micro_batch = numbers[test_random(&random, 5)],
                                  .index = numbers[test_random(&random, 5)]};
        assert_int_equal(bg_schedule_emit(schedule, 2 * test_random(&random, 2), action, NULL), BG_OK);
    }
    assert_int_equal(bg_schedule_action_count(schedule, 1), 0);
    assert_round_trip(schedule);
    bg_schedule_destroy(schedule);
}

static void test_blanks_and_comments(void **state)
{
    bg_schedule *schedule =
        must_parse("# made by hand\n\n  device\t0:F0.0\t  F0.1# the forwards\r\n\n \tdevice 1:\n   \n# end");

    (void)state;
    assert_int_equal(bg_schedule_device_count(schedule), 2);
    assert_int_equal(bg_schedule_action_count(schedule, 0), 2);
    assert_int_equal(bg_schedule_actions(schedule, 0)[1].micro_batch, 1);
    assert_int_equal(bg_schedule_action_count(schedule, 1), 0);
    assert_int_equal(bg_schedule_action_count(schedule, 2), 0);
    assert_null(bg_schedule_actions(schedule, 2));
    bg_schedule_destroy(schedule);
}

static void test_bad_texts(void **state)
{
    const struct {
        const char *text, *message;
    } rows[] = {
        {"", "f:1:1: expected \"device 0:\", found the end of the text"},
        {" \n# x\n", "f:3:1: expected \"device 0:\", found the end of the text"},
        {"dev", "f:1:1: expected \"device 0:\", found dev"},
        {"device", "f:1:7: expected a device number, found the end of the text"},
        {"device x", "f:1:8: expected a device number, found x"},
        {"device 0", "f:1:9: expected ':' after the device number, found the end of the text"},
        {"device 0 :", "f:1:9: expected ':' after the device number, found a blank"},
        {"device 1:", "f:1:8: expected \"device 0:\", found 1:"},
        {"device 0:\ndevice 0:", "f:2:8: expected \"device 1:\", found 0:"},
        {"device 99999999999999999999999:", "f:1:8: expected a number below 4294967296"},
        {"device 0: F", "f:1:12: expected a stage number, found the end of the text"},
        {"device 0: F0", "f:1:13: expected '.' and a micro-batch number, found the end of the text"},
        {"device 0: F0.", "f:1:14: expected a micro-batch number, found the end of the text"},
        {"device 0: F0.\n", "f:1:14: expected a micro-batch number, found the end of the line"},
        {"device 0: F0.4294967296", "f:1:14: expected a number below 4294967296, found 4294967296"},
        {"device 0: F0.-1", "f:1:14: expected a micro-batch number, found -1"},
        {"device 0: F0.1F0.2", "f:1:15: expected a blank after the action, found F0.2"},
        {"device 0: F0.1:", "f:1:16: expected a number, found the end of the text"},
        {"device 0: U0", "f:1:13: expected ':' and a number"},
        {"device 0: SEND0.1", "f:1:18: expected ':' and a number"},
        {"device 0: f0.1", "f:1:11: expected an action such as F0.1"},
        {"device 0: SENDS0.1:1", "f:1:11: expected an action such as F0.1"},
        {"device 0: F0.0\n  device 1: B0.0 ?\n", "f:2:18: expected an action such as F0.1"},
        {"device 0: \x01", "found the byte 0x01"},
        {"device 0: \xff\xfe", "found the byte 0xff"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        assert_int_equal(bg_schedule_parse(rows[i].text, "f", &schedule, &error), BG_ERROR_PARSE);
        assert_null(schedule);
        if (strstr(error.message, rows[i].message) == NULL)
            fail_msg("\"%s\" is not in: %s", rows[i].message, error.message);
    }
    assert_int_equal(bg_schedule_parse(NULL, "f", NULL, NULL), BG_ERROR_INVALID);
}

/* Every prefix of a valid text, and every text with one byte changed, is either a schedule or an error. */
static void test_truncated_and_changed_texts(void **state)
{
    test_problem test;
    bg_schedule *schedule = NULL;
    uint64_t random = test_seed(9);
    char *text;
    size_t length;

    (void)state;
    assert_true(test_chain(&test, 3, 3, true));
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("grouped"), &schedule, NULL), BG_OK);
    text = must_print(schedule);
    bg_schedule_destroy(schedule);
    length = strlen(text);
    for (size_t i = 0; i < 4 * length; i++) {
        const size_t at = i < length ? i : test_random(&random, (uint32_t)length);
        const char kept = text[at];
        bg_error error = {0};

        text[at] = i < length ? '\0' : (char)test_random(&random, 256);
        schedule = NULL;
        if (bg_schedule_parse(text, "f", &schedule, &error) == BG_OK) {
            const bg_status verdict = bg_schedule_verify(schedule, &test.problem, &error);
            assert_true(verdict == BG_OK || verdict == BG_ERROR_INVALID);
        } else {
            assert_int_equal(error.status, BG_ERROR_PARSE);
            assert_memory_equal(error.message, "f:", 2);
            assert_null(schedule);
        }
        bg_schedule_destroy(schedule);
        text[at] = kept;
    }
    free(text);
    test_problem_clear(&test);
}

static void test_huge_texts(void **state)
{
    const size_t size = 4u << 20;
    char *text = malloc(size + 1);
    bg_schedule *schedule = NULL;
    bg_error error = {0};
    size_t at;

    (void)state;
    assert_non_null(text);
    memset(text, '9', size); /* a single long number */
    memcpy(text, "device 0: F", 11);
    text[size] = '\0';
    assert_int_equal(bg_schedule_parse(text, "f", &schedule, &error), BG_ERROR_PARSE);

    at = (size_t)sprintf(text, "device 0:");
    while (at + 8 < size)
        at += (size_t)sprintf(text + at, " F0.%d", (int)(at % 10));
    schedule = must_parse(text);
    assert_true(bg_schedule_action_count(schedule, 0) > 800000);
    bg_schedule_destroy(schedule);

    at = 0;
    for (unsigned device = 0; at + 20 < size; device++)
        at += (size_t)sprintf(text + at, "device %u:\n", device);
    schedule = must_parse(text);
    assert_true(bg_schedule_device_count(schedule) > 200000);
    bg_schedule_destroy(schedule);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_generated_schedules_round_trip),
        cmocka_unit_test(test_arbitrary_actions_round_trip),
        cmocka_unit_test(test_blanks_and_comments),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_truncated_and_changed_texts),
        cmocka_unit_test(test_huge_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
