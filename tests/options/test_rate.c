/*
 * test_rate.c: compares learning rate schedules with PyTorch's schedulers, and tests schedules as text and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/rate.h>

#include "support/oracle.h"

static bg_rate_schedule parse(const char *text)
{
    bg_rate_schedule schedule;
    bg_error error = {0};

    if (bg_rate_parse(text, 0.05, 40, &schedule, &error) != BG_OK)
        fail_msg("%s: %s", text, error.message);
    return schedule;
}

static void test_pytorch_has_the_same_rates(void **state)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"constant", "constant"},
        {"linear", "linear:final=0.25"},
        {"cosine", "cosine:final=0.1"},
        {"polynomial", "polynomial:power=2.5"},
        {"step", "step:period=7,factor=0.3"},
        {"one_cycle", "one_cycle:warmup=10"},
        {"warm_linear", "linear:warmup=10"},
        {"warm_cosine", "cosine:warmup=10"},
        {"warm_root", "inverse_root:warmup=10"},
    };
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/rates.txt");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, cases[i].name, "rates");
        bg_rate_schedule schedule = parse(cases[i].text);

        for (int64_t step = 0; step < wanted->count; step++) {
            const double rate = bg_rate_at(&schedule, (uint64_t)step);
            if (!(fabs(rate - wanted->values[step]) <= 1e-14))
                fail_msg("%s, update %d: %.17g, PyTorch has %.17g", cases[i].text, (int)step, rate,
                         wanted->values[step]);
        }
    }
    bgi_test_oracle_close(oracle);
}

static void test_plateaus_are_pytorchs(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/rates.txt");
    const bgi_test_tensor *reports = bgi_test_oracle_find(oracle, "plateau", "reports");
    const bgi_test_tensor *rates = bgi_test_oracle_find(oracle, "plateau", "rates");
    bg_rate_schedule schedule = parse("plateau:factor=0.5,patience=2,threshold=0.01,cooldown=1,final=0.1");

    (void)state;
    assert_true(rates->values[rates->count - 1] < 0.006);
    for (int64_t i = 0; i < reports->count; i++) {
        bg_rate_report(&schedule, reports->values[i]);
        if (!(fabs(bg_rate_at(&schedule, (uint64_t)i) - rates->values[i]) <= 1e-15))
            fail_msg("report %d: %.17g, PyTorch has %.17g", (int)i, bg_rate_at(&schedule, 0), rates->values[i]);
    }
    bgi_test_oracle_close(oracle);
}

/* After the end of its schedule a rate stays constant. NaN counts as no progress. Rates other than plateau ignore the
 * losses. */
static void test_ends(void **state)
{
    bg_rate_schedule one_cycle = parse("one_cycle:warmup=1,steps=2,final=0.5"), step = parse("step");
    bg_rate_schedule plateau = parse("plateau:patience=0");

    (void)state;
    assert_true(bg_rate_at(&one_cycle, 1) == 0.025 && bg_rate_at(&one_cycle, UINT64_MAX) == 0.025);
    assert_true(bg_rate_at(&step, UINT64_MAX) == 0.0);
    bg_rate_report(&step, 1.0);
    bg_rate_report(&step, 2.0);
    assert_true(bg_rate_at(&step, 0) == 0.05);
    bg_rate_report(&plateau, NAN);
    assert_true(fabs(bg_rate_at(&plateau, 0) - 0.005) < 1e-15);
}

static void refuses(const char *text, const char *part)
{
    bg_rate_schedule schedule = bg_rate_make(BG_RATE_STEP, 7.0, 3);
    bg_error error = {0};

    assert_int_equal(bg_rate_parse(text, 0.05, 40, &schedule, &error), BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s`: \"%s\" lacks \"%s\"", text, error.message, part);
    assert_true(schedule.rate == 7.0);
}

static void test_what_is_wrong_is_said(void **state)
{
    bg_rate_schedule schedule = bg_rate_make(BG_RATE_LINEAR, NAN, 3);
    bg_error error = {0};

    (void)state;
    refuses("", "there is no ``; the schedules are constant, linear, cosine, polynomial, one_cycle, step, "
                "inverse_root, plateau");
    refuses("cosin", "there is no `cosin`");
    refuses("cosine:gamma=1", "cosine has no setting `gamma`; it has warmup, start, steps, final");
    refuses("step:final=0.1", "step has no setting `final`; it has warmup, start, factor, period");
    refuses("cosine:final", "`final` has no number; write name=number");
    refuses("cosine:final=", "has no number; write name=number");
    refuses("cosine:final=1x", "has no number; write name=number");
    refuses("cosine:warmup=0.5", "`warmup=0.5` must have a whole number");
    refuses("cosine:warmup=-1", "whole number");
    refuses("cosine:warmup=1e300", "whole number");
    refuses("cosine:warmup=40", "the warm-up has 40 updates but must be shorter than the training, which has 40");
    refuses("linear:steps=0", "steps of linear is 0");
    refuses("step:period=0", "period of step is 0; it must be a finite number of at least 1");
    refuses("polynomial:power=-1", "power of polynomial is -1");
    refuses("plateau:factor=inf", "factor of plateau is inf");
    assert_int_equal(bg_rate_validate(&schedule, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "rate is nan"));
    schedule = bg_rate_make((bg_rate_kind)99, 1.0, 3);
    assert_int_equal(bg_rate_validate(&schedule, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "kind is 99"));
    assert_int_equal(bg_rate_parse(NULL, 0.05, 40, &schedule, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_rate_parse("step", 0.05, 40, NULL, &error), BG_ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_rates),
        cmocka_unit_test(test_plateaus_are_pytorchs),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
