/*
 * test_runs.c: tests the runs of indices that describe the elements in each part of a checkpoint. Runs of many
 * divisions are printed and read back; a missing, repeated or out-of-range element is an error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "checkpoint/runs.h"

static void test_columns_are_one_run(void **state)
{
    const bg_type type = {.dtype = BG_FLOAT32, .rank = 2, .dims = {4, 6}};
    bgi_runs runs = {0}, again = {0};
    bgi_string text = {0};
    bg_type read;

    (void)state;
    for (int64_t row = 0; row < 4; row++)
        bgi_runs_add(&runs, 0, 6 * row, 2);
    for (int64_t row = 0; row < 4; row++)
        bgi_runs_add(&runs, 3, 6 * row + 2, 4);
    bgi_runs_print(&type, &runs, &text);
    assert_string_equal(text.data, "float32[4,6] 0:0+2*4/6 3:2+4*4/6");
    assert_int_equal(bgi_runs_parse(text.data, 4, &read, &again, NULL), BG_OK);
    assert_true(bg_type_equal(&type, &read) && again.count == 2);
    assert_int_equal(bgi_runs_elements(&again, 0), 8);
    assert_int_equal(bgi_runs_elements(&again, 1), 0);
    assert_int_equal(bgi_runs_elements(&again, 3), 16);
    bgi_runs_clear(&runs);
    bgi_runs_clear(&again);
    bgi_string_clear(&text);
}

static void test_rows_join(void **state)
{
    bgi_runs runs = {0};

    (void)state;
    bgi_runs_add(&runs, 1, 0, 5);
    bgi_runs_add(&runs, 1, 5, 5);
    bgi_runs_add(&runs, 2, 10, 5);
    assert_int_equal(runs.count, 2);
    assert_int_equal(runs.items[0].length, 10);
    assert_int_equal(runs.items[0].count, 1);
    bgi_runs_clear(&runs);
}

/* For any division of any vector, each element has the same owner after runs are printed and read back. */
static void test_random_cuts(void **state)
{
    (void)state;
    srand(1);
    for (int trial = 0; trial < 300; trial++) {
        const bg_type type = {.dtype = BG_BFLOAT16, .rank = 1, .dims = {1 + rand() % 60}};
        const int granule = 1 + rand() % 4;
        bgi_runs runs = {0}, again = {0};
        uint32_t owner[64], owners[64];
        bgi_string text = {0};
        bg_type read;

        for (int64_t i = 0; i < type.dims[0]; i++)
            owner[i] = i % granule != 0 ? owner[i - 1] : (uint32_t)(rand() % 4);
        for (uint32_t part = 0; part < 4; part++)
            for (int64_t i = 0; i < type.dims[0]; i++)
                if (owner[i] == part)
                    bgi_runs_add(&runs, part, i, 1);
        bgi_runs_print(&type, &runs, &text);
        assert_int_equal(bgi_runs_parse(text.data, 4, &read, &again, NULL), BG_OK);
        memset(owners, 0xff, sizeof owners);
        for (size_t r = 0; r < again.count; r++)
            for (int64_t k = 0; k < again.items[r].count; k++)
                for (int64_t i = 0; i < again.items[r].length; i++)
                    owners[again.items[r].first + k * again.items[r].stride + i] = again.items[r].part;
        assert_memory_equal(owner, owners, (size_t)type.dims[0] * sizeof *owner);
        bgi_runs_clear(&runs);
        bgi_runs_clear(&again);
        bgi_string_clear(&text);
    }
}

/* Numbers have no other limit than that of the type. */
static void test_largest_number(void **state)
{
    const char *const text =
        "uint8[9223372036854775807] 0:0+5000000000000000000 1:5000000000000000000+4223372036854775807";
    bgi_runs runs = {0};
    bg_error error = {0};
    bg_type type;

    (void)state;
    if (bgi_runs_parse(text, 2, &type, &runs, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_true(type.dims[0] == INT64_MAX && runs.items[1].first == INT64_C(5000000000000000000));
    bgi_runs_clear(&runs);
    assert_int_equal(bgi_runs_parse("uint8[9223372036854775808] 0:0+1", 2, &type, &runs, NULL), BG_ERROR_PARSE);
    bgi_runs_clear(&runs);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "must begin with a type"},
        {"float31[2] 0:0+2", "must begin with a type"},
        {"float32[2", "must begin with a type"},
        {"float32[0] 0:0+0", "must begin with a type"},
        {"float32[4]", "element 0 is in no part"},
        {"float32[4] 0:0+3", "element 3 is in no part"},
        {"float32[4] 0:1+3", "element 0 is in no part"},
        {"float32[4] 0:0+2 1:1+3", "element 1 is in two runs"},
        {"float32[4] 0:0+3 0:2+2", "element 2 is in two runs"},
        {"float32[4] 0:0+5", "elements below 4"},
        {"float32[4] 4:0+4", "a part below 4"},
        {"float32[4] 0:0+4 ", "must name a part below 4"},
        {"float32[4] 0:0+4,", "must name a part below 4"},
        {"float32[8] 0:0+1*8/0", "must name a part below 4"},
        {"float32[8] 0:0+2*4/1", "must name a part below 4"},
        {"float32[8] 0:0+2*5/2", "must name a part below 4"},
        {"float32[8] 0:0+2*2/4 1:2+2*2/4 2:0+1", "element 0 is in two runs"},
        {"float32[8] 0:0+2*2/4 1:2+1*2/4", "element 3 is in no part"},
        {"float32[8] 0:9223372036854775807+1", "must name a part below 4"},
        {"float32[8] 0:0+1*9223372036854775807/9223372036854775807", "must name a part below 4"},
        {"float32[1000000000] 0:0+1*500000000/2 1:1+1*499999999/2 1:999999999+1", "separate ranges"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_runs runs = {0};
        bg_error error = {0};
        bg_type type;

        if (bgi_runs_parse(cases[i].text, 4, &type, &runs, &error) != BG_ERROR_PARSE ||
            strstr(error.message, cases[i].words) == NULL)
            fail_msg("`%s`: %s", cases[i].text, error.message);
        bgi_runs_clear(&runs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_one_run),
        cmocka_unit_test(test_rows_join),
        cmocka_unit_test(test_random_cuts),
        cmocka_unit_test(test_largest_number),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
