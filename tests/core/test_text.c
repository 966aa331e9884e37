/*
 * Numbers are read and written with a decimal point in every locale of the calling program, such as a locale with a
 * decimal comma. Another test covers endings of names.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "core/text.h"
#include "support/folder.h"

#include <brigade/config.h>
#include <brigade/data.h>
#include <brigade/options.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[TEST_FOLDER_BYTES];
static bool has_comma;

/* Makes a locale with a decimal comma, because such a locale may not be installed. */
static int open_locale(void **state)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    char path[TEST_FOLDER_BYTES + 16], command[3 * TEST_FOLDER_BYTES + 96];
    (void)state;

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/source", folder);
    assert_int_equal(bgi_file_save(path, source, sizeof source - 1, NULL), BG_OK);
    snprintf(command, sizeof command, "localedef -c -i %s/source -f ANSI_X3.4-1968 %s/comma >%s/log 2>&1", folder,
             folder, folder);
    /* localedef warns about every category that the locale lacks. */
    has_comma = system(command) >= 0 && setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_NUMERIC, "comma") != NULL;
    return 0;
}

static int close_locale(void **state)
{
    (void)state;
    setlocale(LC_NUMERIC, "C");
    test_folder_remove(folder);
    return 0;
}

static void need_comma(void)
{
    char text[16];

    if (!has_comma)
        skip();
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
}

static void test_reals(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.5, "0.5"}, {-1234.5, "-1234.5"}, {1.25e-7, "1.25e-07"}, {3.0, "3"}, {1e30, "1e+30"}};
    (void)state;

    need_comma();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_string text = {0};
        char *end;

        bgi_string_add_real(&text, cases[i].value);
        assert_string_equal(text.data, cases[i].text);
        assert_true(bgi_text_real(text.data, &end) == cases[i].value);
        assert_int_equal(*end, '\0');
        bgi_string_clear(&text);
    }
}

static void test_options(void **state)
{
    bg_optimizer optimizer;
    bg_run_options *options;
    bg_config_value value;
    bg_error error = {0};
    (void)state;

    need_comma();
    assert_int_equal(bg_optimizer_parse("rmsprop:momentum=0.9", 0.5, &optimizer, &error), BG_OK);
    assert_true(optimizer.momentum == 0.9);
    assert_int_equal(bg_run_options_create(NULL, &options, &error), BG_OK);
    assert_int_equal(bg_run_options_set(options, "matmul_proportions", "0.5,0.25", &error), BG_OK);
    assert_int_equal(bg_run_options_get(options, "matmul_proportions", &value, &error), BG_OK);
    assert_int_equal(value.count, 2);
    assert_true(value.reals[0] == 0.5 && value.reals[1] == 0.25);
    bg_run_options_destroy(options);
}

static void test_ends_with(void **state)
{
    (void)state;

    assert_true(bgi_text_ends_with("folder/model.npz", ".npz"));
    assert_true(bgi_text_ends_with(".npz", ".npz"));
    assert_true(bgi_text_ends_with("npz", ""));
    assert_false(bgi_text_ends_with("npz", ".npz"));
    assert_false(bgi_text_ends_with("model.npz.part", ".npz"));
    assert_false(bgi_text_ends_with("model.NPZ", ".npz"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_ends_with),
    };

    return cmocka_run_group_tests(tests, open_locale, close_locale);
}
