/*
 * test_structs.c: tests that structs are found by name, with their sizes in this release.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade.h>

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(bg_struct_bytes("bg_options"), sizeof(bg_options));
    assert_int_equal(bg_struct_bytes("bg_value"), sizeof(bg_value));
    assert_int_equal(bg_struct_bytes("bg_array"), sizeof(bg_array));                   /* the first ... */
    assert_int_equal(bg_struct_bytes("bg_weights_report"), sizeof(bg_weights_report)); /* ... and others */
    assert_int_equal(bg_struct_bytes("bg_schedule_event"), sizeof(struct bg_schedule_event));
}

static void test_unknown(void **state)
{
    (void)state;
    assert_int_equal(bg_struct_bytes("bg_graph"), 0); /* opaque */
    assert_int_equal(bg_struct_bytes("bg_optionss"), 0);
    assert_int_equal(bg_struct_bytes(""), 0);
    assert_int_equal(bg_struct_bytes(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_unknown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
