/*
 * test_optimiser.c: PyTorch's defaults, and the ranges of the optimisers' numbers.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/options.h>

static void test_defaults(void **state)
{
    bg_optimiser sgd = bg_sgd(0.1), adam = bg_adam(0.2), adamw = bg_adamw(0.3);
    (void)state;

    assert_int_equal(sgd.kind, BG_SGD);
    assert_true(sgd.learning_rate == 0.1 && sgd.momentum == 0 && sgd.dampening == 0 && sgd.weight_decay == 0);
    assert_false(sgd.nesterov);
    assert_int_equal(adam.kind, BG_ADAM);
    assert_true(adam.learning_rate == 0.2 && adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.epsilon == 1e-8);
    assert_true(adam.weight_decay == 0);
    assert_int_equal(adamw.kind, BG_ADAMW);
    assert_true(adamw.learning_rate == 0.3 && adamw.weight_decay == 0.01);
    assert_int_equal(bg_optimiser_validate(&sgd, NULL), BG_OK);
    assert_int_equal(bg_optimiser_validate(&adam, NULL), BG_OK);
    assert_int_equal(bg_optimiser_validate(&adamw, NULL), BG_OK);
}

/* Refused, and the message names the number. */
static void assert_refused(bg_optimiser optimiser, const char *name)
{
    bg_error error = {0};

    assert_int_equal(bg_optimiser_validate(&optimiser, &error), BG_ERROR_INVALID);
    if (strstr(error.message, name) == NULL)
        fail_msg("`%s` does not name `%s`", error.message, name);
}

static void test_common_ranges(void **state)
{
    bg_optimiser optimiser = bg_adamw(0.001);
    (void)state;

    assert_refused(bg_sgd(-0.1), "learning_rate");
    assert_refused(bg_adam(NAN), "learning_rate");
    assert_refused(bg_adamw(INFINITY), "learning_rate");
    optimiser.weight_decay = -1;
    assert_refused(optimiser, "weight_decay");
    optimiser = bg_adamw(0.0);
    assert_int_equal(bg_optimiser_validate(&optimiser, NULL), BG_OK);
    optimiser.kind = (bg_optimiser_kind)7;
    assert_refused(optimiser, "kind 7");
    assert_int_equal(bg_optimiser_validate(NULL, NULL), BG_ERROR_INVALID);
}

static void test_adam_ranges(void **state)
{
    bg_optimiser optimiser = bg_adam(0.001);
    (void)state;

    optimiser.beta1 = 1.0;
    assert_refused(optimiser, "beta1");
    optimiser = bg_adam(0.001);
    optimiser.beta2 = -0.1;
    assert_refused(optimiser, "beta2");
    optimiser = bg_adam(0.001);
    optimiser.epsilon = -1e-8;
    assert_refused(optimiser, "epsilon");
}

static void test_sgd_ranges(void **state)
{
    bg_optimiser optimiser = bg_sgd(0.1);
    (void)state;

    optimiser.momentum = -0.5;
    assert_refused(optimiser, "momentum");
    optimiser.momentum = 0.0;
    optimiser.nesterov = true;
    assert_refused(optimiser, "nesterov");
    optimiser.momentum = 0.9;
    assert_int_equal(bg_optimiser_validate(&optimiser, NULL), BG_OK);
    optimiser.dampening = 0.1;
    assert_refused(optimiser, "nesterov");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_common_ranges),
        cmocka_unit_test(test_adam_ranges),
        cmocka_unit_test(test_sgd_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
