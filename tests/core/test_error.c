/*
 * test_error.c: messages hold what files hold, and stay one line.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/error.h"

static void test_no_name_breaks_the_line(void **state)
{
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_error_set(&error, BG_ERROR_PARSE, "array `%s`", "a\nb\x1b[2Jc\x7f"), BG_ERROR_PARSE);
    assert_string_equal(error.message, "array `a?b?[2Jc?`");
    assert_int_equal(bg_error_context(&error, BG_ERROR_PARSE, "file\r%s", "x\ty"), BG_ERROR_PARSE);
    assert_string_equal(error.message, "file?x?y: array `a?b?[2Jc?`");
}

static void test_a_table_of_memory_keeps_its_lines(void **state)
{
    bg_error error = {0};

    (void)state;
    bg_error_set(&error, BG_ERROR_BUDGET, "device 0\n  weights %d", 12);
    bg_error_context(&error, BG_ERROR_BUDGET, "mnist");
    assert_string_equal(error.message, "mnist: device 0\n  weights 12");
}

static void test_the_first_cause_is_kept(void **state)
{
    bg_error error = {0};

    (void)state;
    bg_error_set(&error, BG_ERROR_SHAPE, "first");
    bg_error_set(&error, BG_ERROR_IO, "second");
    assert_int_equal(error.status, BG_ERROR_SHAPE);
    assert_string_equal(error.message, "first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_name_breaks_the_line),
        cmocka_unit_test(test_a_table_of_memory_keeps_its_lines),
        cmocka_unit_test(test_the_first_cause_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
