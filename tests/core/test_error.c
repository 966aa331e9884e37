/*
 * test_error.c: messages that contain text from files remain one line.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/error.h"

static void test_no_name_breaks_the_line(void **state)
{
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_error_set(&error, BG_ERROR_PARSE, "array `%s`", "a\nb\x1b[2Jc\x7f"), BG_ERROR_PARSE);
    assert_string_equal(error.message, "array `a\\nb\\x1b[2Jc\\x7f`");
    assert_int_equal(bg_error_context(&error, BG_ERROR_PARSE, "file\r%s", "x\ty"), BG_ERROR_PARSE);
    assert_string_equal(error.message, "file\\x0dx\\ty: array `a\\nb\\x1b[2Jc\\x7f`");
}

static void test_a_table_of_memory_keeps_its_lines(void **state)
{
    bg_error error = {0};

    (void)state;
    bg_error_set(&error, BG_ERROR_BUDGET, "device 0\n  weights %d", 12);
    bg_error_context(&error, BG_ERROR_BUDGET, "mnist");
    assert_string_equal(error.message, "mnist: device 0\n  weights 12");
}

static void test_what_grows_beyond_the_message_is_cut(void **state)
{
    char controls[BG_ERROR_MESSAGE_BYTES];
    bg_error error = {0};

    (void)state;
    memset(controls, '\n', sizeof controls);
    controls[sizeof controls - 1] = '\0';
    for (size_t shift = 0; shift < 4; shift++) {
        bg_error_clear(&error);
        bg_error_set(&error, BG_ERROR_PARSE, "%.*s%s", (int)shift, "abc", controls);
        assert_true(strlen(error.message) >= sizeof error.message - 2 && strlen(error.message) < sizeof error.message);
        assert_null(strchr(error.message, '\n'));
        assert_memory_equal(error.message + shift, "\\n\\n", 4);
    }
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

static void test_a_size_that_is_not_known_is_left_out(void **state)
{
    bg_error error = {0};

    (void)state;
    assert_int_equal(bgi_error_memory(&error, "a name", 0), BG_ERROR_MEMORY);
    assert_string_equal(error.message, "out of memory for a name");
    bg_error_clear(&error);
    bgi_error_memory(&error, "a name", 12);
    assert_string_equal(error.message, "out of memory: 12 bytes for a name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_name_breaks_the_line),
        cmocka_unit_test(test_a_table_of_memory_keeps_its_lines),
        cmocka_unit_test(test_what_grows_beyond_the_message_is_cut),
        cmocka_unit_test(test_the_first_cause_is_kept),
        cmocka_unit_test(test_a_size_that_is_not_known_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
