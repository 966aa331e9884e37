/*
 * Writes JSON and reads it back. Errors in JSON are reported with their positions, and lack of memory is never reported
 * as another error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json_tree.h"
#include "formats/json_write.h"
#include "support/allocations.h"

static void write_all(bgi_json_writer *w)
{
    bgi_json_open(w, NULL, '{');
    bgi_json_text(w, "text", "a\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9\xf0\x9f\x98\x80");
    bgi_json_text(w, "nothing", NULL);
    bgi_json_integer(w, "least", INT64_MIN);
    bgi_json_count(w, "most", INT64_MAX);
    bgi_json_open(w, "list", '[');
    bgi_json_real(w, NULL, 0.5, 9);
    bgi_json_real(w, NULL, 3, 9);
    bgi_json_real(w, NULL, 1e-5, 9);
    bgi_json_real(w, NULL, -2.5e300, 17);
    bgi_json_real(w, NULL, 1.0 / 0.0, 9);
    bgi_json_bool(w, NULL, true);
    bgi_json_open(w, NULL, '[');
    bgi_json_close(w, ']');
    bgi_json_close(w, ']');
    bgi_json_close(w, '}');
}

static const char expected[] =
    "{\"text\":\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xa9\xf0\x9f\x98\x80\",\"nothing\":null,"
    "\"least\":-9223372036854775808,\"most\":9223372036854775807,"
    "\"list\":[0.5,3.0,1e-5,-2.5000000000000001e300,null,true,[]]}";

static void test_writing(void **state)
{
    static const char *const locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8"};
    (void)state;

    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        bgi_json_writer w = {.depth = 0};
        char *text = NULL;
        size_t length = 0;

        setlocale(LC_ALL, locales[i]); /* this has no effect if the locale is not installed */
        write_all(&w);
        assert_int_equal(bgi_json_finish(&w, &text, &length, NULL), BG_OK);
        assert_string_equal(text, expected);
        assert_int_equal(length, strlen(expected));
        free(text);
    }
    setlocale(LC_ALL, "C");
}

static void test_indentation(void **state)
{
    bgi_json_writer w = {.indent = 2};
    char *text = NULL;
    (void)state;

    bgi_json_open(&w, NULL, '{');
    bgi_json_integer(&w, "a", 1);
    bgi_json_open(&w, "b", '[');
    bgi_json_integer(&w, NULL, 2);
    bgi_json_integer(&w, NULL, 3);
    bgi_json_close(&w, ']');
    bgi_json_close(&w, '}');
    assert_int_equal(bgi_json_finish(&w, &text, NULL, NULL), BG_OK);
    assert_string_equal(text, "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    3\n  ]\n}");
    free(text);
}

static void test_no_utf8(void **state)
{
    static const char *const bad[] = {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"};
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bgi_json_writer w = {.depth = 0};
        bg_error error = {0};
        char *text = NULL;

        bgi_json_text(&w, NULL, bad[i]);
        assert_int_equal(bgi_json_finish(&w, &text, NULL, &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, "UTF-8"));
        assert_null(text);
    }
}

static void test_reading_what_was_written(void **state)
{
    json_t *root = NULL;
    const json_t *list;
    bg_error error = {0};
    (void)state;

    assert_int_equal(bgi_json_parse("t", expected, strlen(expected), &root, &error), BG_OK);
    assert_string_equal(json_string_value(json_object_get(root, "text")),
                        "a\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9\xf0\x9f\x98\x80");
    assert_true(json_is_null(json_object_get(root, "nothing")));
    assert_true(json_integer_value(json_object_get(root, "least")) == INT64_MIN);
    assert_true(json_integer_value(json_object_get(root, "most")) == INT64_MAX);
    list = json_object_get(root, "list");
    assert_int_equal(json_array_size(list), 7);
    assert_true(json_is_real(json_array_get(list, 1)));
    assert_true(json_real_value(json_array_get(list, 3)) == -2.5e300);
    json_decref(root);
}

/* Strings may have escapes of every width, and may be longer than the reader's window, with characters across the
 * window's end. */
static void test_strings(void **state)
{
    enum { COUNT = 30000 };
    const char *text = "[\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\/\"]";
    char *longer = malloc(3 * COUNT + 8);
    json_t *root = NULL;
    (void)state;

    assert_int_equal(bgi_json_parse("t", text, strlen(text), &root, NULL), BG_OK);
    assert_string_equal(json_string_value(json_array_get(root, 0)), "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/");
    json_decref(root);
    assert_non_null(longer);
    for (int shift = 0; shift < 3; shift++) {
        size_t length = (size_t)sprintf(longer, "\"%.*s", shift, "ab");
        for (int i = 0; i < COUNT; i++, length += 3)
            memcpy(longer + length, "\xe2\x82\xac", 3);
        longer[length] = '"';
        root = NULL;
        assert_int_equal(bgi_json_parse("t", longer, length + 1, &root, NULL), BG_OK);
        assert_int_equal(json_string_length(root), length - 1);
        assert_memory_equal(json_string_value(root), longer + 1, length - 1);
        json_decref(root);
    }
    free(longer);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "t:1:1: not JSON: expected a value, found the end"},
        {"{\n \"a\": 1,}", "t:2:9: not JSON: expected a key in quotes, found `}`"},
        {"{\"a\" 1}", "t:1:6: not JSON: expected `:` after a key, found `1`"},
        {"[1 2]", "t:1:4: not JSON: expected `,` or `]`, found `2`"},
        {"{} {}", "expected the end"},
        {"[01]", "a number begins with 0"},
        {"[1.]", "expected a digit"},
        {"[-]", "expected a digit"},
        {"[1e999]", "the number 1e999 is too large"},
        {"[9223372036854775808]", "the integer 9223372036854775808 is too large"},
        {"[-9223372036854775809]", "is too large"},
        {"[tru]", "expected true"},
        {"[\"\\u0000\"]", "a string contains \\u0000"},
        {"[\"\\ud800x\"]", "second half of a pair"},
        {"[\"\\udc00\"]", "lacks the first half"},
        {"[\"\x01\"]", "contains a control character (0x01)"},
        {"[\"\xc3\"]", "a string is not UTF-8"},
        {"[\"\\x\"]", "after the backslash"},
        {"[\"", "expected the end of a string, found the end"},
        {"{\"k\":1,\"k\":1}", "the key `k` occurs twice"},
    };
    char *deep = malloc(2000);
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_error error = {0};
        json_t *root = NULL;

        assert_int_equal(bgi_json_parse("t", cases[i].text, strlen(cases[i].text), &root, &error), BG_ERROR_PARSE);
        if (strstr(error.message, cases[i].says) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, cases[i].says);
        assert_null(root);
    }
    assert_non_null(deep);
    memset(deep, '[', 2000);
    json_t *root = NULL;
    assert_int_equal(bgi_json_parse("t", deep, 2000, &root, NULL), BG_ERROR_PARSE);
    free(deep);
}

/* If memory runs out, in the program or a library, the result is BG_ERROR_MEMORY or the complete value. */
static void test_out_of_memory(void **state)
{
    json_t *whole = NULL;
    (void)state;

    if (!test_allocations_available())
        skip();
    assert_int_equal(bgi_json_parse("t", expected, strlen(expected), &whole, NULL), BG_OK);
    for (int what = 0; what < 3; what++) {
        bg_status status = BG_ERROR_MEMORY;
        for (uint64_t n = 1; status != BG_OK; n++) {
            const int64_t live = test_allocations_live();
            bgi_json_writer w = {.depth = 0};
            bg_error error = {0};
            json_t *root = NULL;
            char *text = NULL;

            test_allocations_fail_anywhere(n);
            if (what == 0) {
                write_all(&w);
                status = bgi_json_finish(&w, &text, NULL, &error);
            } else if (what == 1) {
                status = bgi_json_parse("t", expected, strlen(expected), &root, &error);
            } else {
                root = bgi_json_copy(whole, true);
                status = root != NULL ? BG_OK : bg_error_set(&error, BG_ERROR_MEMORY, "out of memory");
            }
            test_allocations_fail(0);
            if (status == BG_OK) {
                assert_true(what == 0 ? strcmp(text, expected) == 0 : json_equal(root, whole) != 0);
            } else {
                assert_int_equal(status, BG_ERROR_MEMORY);
                assert_non_null(strstr(error.message, "out of memory"));
                assert_true(text == NULL && root == NULL);
            }
            free(text);
            json_decref(root);
            assert_int_equal(test_allocations_live(), live);
            assert_true(n < 1000);
        }
    }
    json_decref(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writing),       cmocka_unit_test(test_indentation),
        cmocka_unit_test(test_no_utf8),       cmocka_unit_test(test_reading_what_was_written),
        cmocka_unit_test(test_strings),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("formats/json", tests, NULL, NULL);
}
