/*
 * long_suite.h: for suites in this folder that take minutes. They run completely if BRIGADE_TEST_ALL is set (`make
 * check-all`); otherwise each suite is one skipped test. Their devices stay open. The including file names the suite's
 * main `whole_suite`.
 */
#include <stdlib.h>

#include "copied/protected_device.h"

static void set_brigade_test_all(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(set_brigade_test_all)};

    test_device_stay_open();
    return getenv("BRIGADE_TEST_ALL") != NULL ? whole_suite() : cmocka_run_group_tests(tests, NULL, NULL);
}
