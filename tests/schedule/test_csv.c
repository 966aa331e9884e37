/*
 * test_csv.c: converts schedules between PyTorch's CSV and Brigade's lists. Every invalid text gives an error with its
 * position. The test also infers problems from lists.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "schedule/problems.h"

#include <stdio.h>

static bg_schedule *must_read(const char *text, uint64_t *skipped)
{
    bg_schedule *schedule = NULL;
    bg_error error = {0};

    if (bg_schedule_parse_csv(text, "good.csv", &schedule, skipped, &error) != BG_OK)
        fail_msg("%s", error.message);
    return schedule;
}

static void assert_prints(const bg_schedule *schedule, const char *expected)
{
    char *text = NULL;

    assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
    assert_string_equal(text, expected);
    free(text);
}

/* The output of PyTorch's 1F1B for two ranks is read as the equivalent schedule. */
static void test_golden(void **state)
{
    uint64_t skipped = 99;
    bg_schedule *schedule = must_read("0F0,0F1,,0B0,0F2,0B1,,0B2\n,1F0,1B0,1F1,1B1,1F2,1B2\n", &skipped);

    (void)state;
    assert_int_equal(skipped, 0);
    assert_prints(schedule, "device 0: HOST_IN0.0 F0.0 SEND0.0:0 HOST_IN0.1 F0.1 SEND0.1:0 RECEIVE0.0:1 B0.0 "
                            "HOST_IN0.2 F0.2 SEND0.2:0 RECEIVE0.1:1 B0.1 RECEIVE0.2:1 B0.2 U0:0\n"
                            "device 1: RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 RECEIVE1.1:0 F1.1 HOST_OUT1.1 B1.1 "
                            "SEND1.1:1 RECEIVE1.2:0 F1.2 HOST_OUT1.2 B1.2 SEND1.2:1 U1:0\n");
    bg_schedule_destroy(schedule);
}

/* The file has half backward actions and a full one, quotation marks, \r\n, blanks, overlaps, and skipped cells. */
static void test_the_whole_grammar(void **state)
{
    uint64_t skipped = 0;
    bg_schedule *schedule = must_read("\xef\xbb\xbf"
                                      "0UNSHARD, 0F0 ,\"1F0\",(1I0;0I0)OVERLAP_F_B,,1SEND_B0,0W0,1W0\r\n"
                                      "0RECV_F7,0REDUCE_GRAD,0RESHARD3",
                                      &skipped);

    (void)state;
    assert_int_equal(skipped, 5);
    assert_prints(schedule, "device 0: HOST_IN0.0 F0.0 F1.0 HOST_OUT1.0 B1.0 B0.0 W0.0 W1.0 U0:0 U1:0\ndevice 1:\n");
    bg_schedule_destroy(schedule);
    schedule = must_read("0F0,0F1,0B0,0I1,0W1\n", NULL);
    assert_prints(schedule, "device 0: HOST_IN0.0 F0.0 HOST_OUT0.0 HOST_IN0.1 F0.1 HOST_OUT0.1 B0.0 W0.0 B0.1 W0.1 "
                            "U0:0\n");
    bg_schedule_destroy(schedule);
}

/* Prints the schedule without its updates, which CSV does not have; the reader adds them at the end of each device. */
static char *print_without_updates(const bg_schedule *schedule)
{
    char *text = NULL, *to;

    assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
    to = text;
    for (const char *from = text; *from != '\0';)
        if (from[0] == ' ' && from[1] == 'U')
            from += 1 + strcspn(from + 1, " \n");
        else
            *to++ = *from++;
    *to = '\0';
    return text;
}

/* Before PyTorch had I, B was the half for the inputs if W was separate, and BW was both halves. One file may have B, W
 * and BW; newer files may have a full B as well as I and W. */
static void test_the_older_form(void **state)
{
    static const char expected[] = "device 0: HOST_IN0.0 F0.0 HOST_OUT0.0 HOST_IN0.1 F0.1 HOST_OUT0.1 B0.0 B0.1 W0.1 "
                                   "W0.0 U0:0\n";
    static const char *const forms[] = {"0F0,0F1,0I0,0I1,0W1,0W0\n", "0F0,0F1,0B0,0B1,0W1,0W0\n",
                                        "0F0,0F1,0B0,0BW1,0W0\n", "0F0,0F1,0I0,0B1,0W0\n"};
    bg_schedule *schedule;
    bg_schedule_problem problem;
    char *text = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        schedule = must_read(forms[i], NULL);
        assert_prints(schedule, expected);
        bg_schedule_destroy(schedule);
    }
    /* A full backward with a separate W is not a valid schedule. */
    schedule = must_read("0F0,0BW0,0W0\n", NULL);
    assert_int_equal(bg_schedule_problem_infer(schedule, 0, &problem, NULL), BG_OK);
    assert_int_equal(bg_schedule_verify(schedule, &problem, NULL), BG_ERROR_INVALID);
    bg_schedule_problem_free(&problem);
    bg_schedule_destroy(schedule);
    /* In a file without halves BW is B. */
    schedule = must_read("0F0,0BW0\n", NULL);
    assert_int_equal(bg_schedule_print(schedule, &text, NULL), BG_OK);
    assert_string_equal(text, "device 0: HOST_IN0.0 F0.0 HOST_OUT0.0 B0.0 U0:0\n");
    free(text);
    bg_schedule_destroy(schedule);
}

/* PyTorch's zb1p for 2 ranks of 2 stages is read in the current and the older format. */
static void test_interleaved_zero_bubble(void **state)
{
    static const char published[] = "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,"
                                    "0I2,0W2,0I3,0W3\n"
                                    ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,"
                                    "3W3,1I3,1W2,1W3\n";
    char older[sizeof published];
    test_problem test;
    bg_schedule *made = NULL, *read;
    char *text = NULL, *text_read = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof published; i++)
        older[i] = published[i] == 'I' ? 'B' : published[i];
    assert_true(test_chain(&test, 4, 4, true));
    test_problem_clear(&test);
    test.problem.device_count = 2;
    test.problem.splits_weights = true;
    for (uint32_t stage = 0; stage < 4; stage++)
        test.devices[stage] = stage % 2;
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    assert_int_equal(
        bg_schedule_create(&test.problem, bg_schedule_generator_find("InterleavedZeroBubble"), &made, NULL), BG_OK);
    text = print_without_updates(made);
    for (int form = 0; form < 2; form++) {
        read = must_read(form == 0 ? published : older, NULL);
        text_read = print_without_updates(read);
        assert_string_equal(text, text_read);
        free(text_read);
        bg_schedule_destroy(read);
    }
    free(text);
    bg_schedule_destroy(made);
    test_problem_clear(&test);
}

static void test_bad_texts(void **state)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"0F0\n0X1\n", "bad.csv:2:2: expected F, B, I, W, BW, SEND_F"},
        {"0F0,F1\n", "bad.csv:1:5: expected a stage number, an action such as 0F1, or an empty cell, found F1"},
        {"0F\n", "bad.csv:1:3: expected a micro-batch number, found the end of the line"},
        {"0F0 0F1\n", "bad.csv:1:5: expected ',' after the action, found 0F1"},
        {"99999999999F0\n", "bad.csv:1:1: expected a number below 4294967296"},
        {"\"0F0\n", "bad.csv:1:5: expected '\"' at the end of the cell"},
        {"(0F0;1B0\n", "bad.csv:1:9: expected ';' and an action, or ')'"},
        {"(0F0;1B0)OVER\n", "bad.csv:1:10: expected OVERLAP_F_B, found OVER"},
        {"0F0,\x01\n",
         "bad.csv:1:5: expected a stage number, an action such as 0F1, or an empty cell, found the byte 0x01"},
        {"", "bad.csv: the schedule has no actions"},
        {",,\n,\n", "bad.csv: the schedule has no actions"},
        {"4294967295F0\n", "bad.csv: the schedule names stage 4294967294 and micro-batch 0"},
        {"0F4294967295\n", "which needs at least 4294967295 actions, but it has 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_schedule *schedule = NULL;
        bg_error error = {0};
        assert_int_not_equal(bg_schedule_parse_csv(rows[i].text, "bad.csv", &schedule, NULL, &error), BG_OK);
        assert_null(schedule);
        if (strstr(error.message, rows[i].expected) == NULL)
            fail_msg("\"%s\" is not in: %s", rows[i].expected, error.message);
    }
}

/* For every generator that accepts a plain chain, writing and reading its schedule gives the same lists. */
static void test_generators_survive_the_round_trip(void **state)
{
    const bg_schedule_generator *generator;
    uint32_t count = 0;

    (void)state;
    for (uint32_t i = 0; (generator = bg_schedule_generator_at(i)) != NULL; i++)
        for (uint32_t stages = 1; stages <= 4; stages++)
            for (uint32_t training = 0; training < 2; training++) {
                test_problem test;
                bg_schedule *schedule = NULL, *again = NULL;
                char *csv = NULL, *text = NULL, *text_again = NULL;
                bg_error error = {0};
                assert_true(test_chain(&test, stages, 5, training == 1));
                test_problem_clear(&test);
                test.problem.device_count = generator->placement == BG_PLACEMENT_LINE ? stages : (stages + 1) / 2;
                test.problem.splits_weights = generator->splits_weights && training == 1;
                assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
                if (bg_schedule_place(generator, stages, test.problem.device_count, test.devices, NULL) == BG_OK &&
                    bg_schedule_create(&test.problem, generator, &schedule, NULL) == BG_OK) {
                    assert_int_equal(bg_schedule_print_csv(schedule, &test.problem, &csv, &error), BG_OK);
                    again = must_read(csv, NULL);
                    text = print_without_updates(schedule);
                    text_again = print_without_updates(again);
                    assert_string_equal(text, text_again);
                    count++;
                }
                free(text_again);
                free(text);
                free(csv);
                bg_schedule_destroy(again);
                bg_schedule_destroy(schedule);
                test_problem_clear(&test);
            }
    assert_true(count >= 20);
}

/* Returns the number of the cell of an action such as "1F0"; fails if no cell has the action. */
static uint32_t find_cell(const char *csv, const char *action)
{
    const char *at = strstr(csv, action), *row = csv;
    uint32_t commas = 0;

    assert_non_null(at);
    for (const char *c = csv; c < at; c++)
        row = *c == '\n' ? c + 1 : row;
    for (const char *c = row; c < at; c++)
        commas += *c == ',';
    return commas;
}

/* Every value is read in a later cell than the cell that makes it. */
static void test_cells_are_steps(void **state)
{
    test_problem test;
    bg_schedule *schedule = NULL;
    char *csv = NULL, before[32], after[32];

    (void)state;
    assert_true(test_chain(&test, 4, 6, true));
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("interleaved"), &schedule, NULL),
                     BG_OK);
    assert_int_equal(bg_schedule_print_csv(schedule, &test.problem, &csv, NULL), BG_OK);
    for (uint32_t stage = 0; stage + 1 < 4; stage++)
        for (uint32_t m = 0; m < 6; m++) {
            snprintf(before, sizeof before, "%uF%u", (unsigned)stage, (unsigned)m);
            snprintf(after, sizeof after, "%uF%u", (unsigned)stage + 1, (unsigned)m);
            assert_true(find_cell(csv, before) < find_cell(csv, after));
            snprintf(before, sizeof before, "%uB%u", (unsigned)stage + 1, (unsigned)m);
            snprintf(after, sizeof after, "%uB%u", (unsigned)stage, (unsigned)m);
            assert_true(find_cell(csv, before) < find_cell(csv, after));
        }
    free(csv);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

static void test_only_what_is_valid_is_printed(void **state)
{
    bg_schedule *schedule = must_read("0F0,0B0\n0F0\n", NULL);
    bg_schedule_problem problem;
    char *text = NULL;

    (void)state;
    assert_int_equal(bg_schedule_problem_infer(schedule, 0, &problem, NULL), BG_OK);
    assert_int_equal(bg_schedule_print_csv(schedule, &problem, &text, NULL), BG_ERROR_INVALID);
    assert_null(text);
    bg_schedule_problem_free(&problem);
    bg_schedule_destroy(schedule);
}

/* The problem of a generated schedule can be inferred from its lists. */
static void test_inferred_problem(void **state)
{
    test_problem test;
    bg_schedule *schedule = NULL;
    bg_schedule_problem found;
    bg_error error = {0};

    (void)state;
    assert_true(test_chain(&test, 3, 5, true));
    test_problem_clear(&test);
    test.problem.splits_weights = true;
    test.problem.update_level_count = 2;
    test.problem.reduces_gradients = true;
    test.devices[0] = 2;
    test.devices[2] = 0;
    test.host_in[1] = test.host_out[0] = true;
    test.problem.stage_host_in = test.host_in;
    test.problem.stage_host_out = test.host_out;
    assert_int_equal(bg_schedule_problem_chain(&test.problem, 64, &test.chain, NULL), BG_OK);
    assert_int_equal(bg_schedule_create(&test.problem, bg_schedule_generator_find("sequential"), &schedule, NULL),
                     BG_OK);
    assert_int_equal(bg_schedule_problem_infer(schedule, 64, &found, &error), BG_OK);
    assert_int_equal(found.stage_count, 3);
    assert_int_equal(found.device_count, 3);
    assert_int_equal(found.micro_batch_count, 5);
    assert_int_equal(found.update_level_count, 2);
    assert_true(found.training && found.splits_weights && found.reduces_gradients);
    assert_memory_equal(found.stage_devices, test.devices, 3 * sizeof test.devices[0]);
    assert_memory_equal(found.stage_host_in, test.host_in, 3 * sizeof(bool));
    assert_memory_equal(found.stage_host_out, test.host_out, 3 * sizeof(bool));
    assert_int_equal(found.edge_count, test.problem.edge_count);
    assert_int_equal(bg_schedule_verify(schedule, &found, &error), BG_OK);
    bg_schedule_problem_free(&found);
    assert_null(found.edges);
    bg_schedule_destroy(schedule);
    test_problem_clear(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_the_whole_grammar),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_generators_survive_the_round_trip),
        cmocka_unit_test(test_cells_are_steps),
        cmocka_unit_test(test_only_what_is_valid_is_printed),
        cmocka_unit_test(test_inferred_problem),
        cmocka_unit_test(test_the_older_form),
        cmocka_unit_test(test_interleaved_zero_bubble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
