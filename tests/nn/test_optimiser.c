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

static void test_other_defaults(void **state)
{
    const bg_optimiser adamax = bg_adamax(0.1), rmsprop = bg_rmsprop(0.2), lamb = bg_lamb(0.3);
    (void)state;

    assert_int_equal(lamb.kind, BG_LAMB);
    assert_true(lamb.learning_rate == 0.3 && lamb.weight_decay == 0.01 && lamb.max_weight_norm == 65500.0);
    assert_int_equal(bg_optimiser_validate(&lamb, NULL), BG_OK);

    assert_int_equal(adamax.kind, BG_ADAMAX);
    assert_true(adamax.learning_rate == 0.1 && adamax.beta1 == 0.9 && adamax.beta2 == 0.999 && adamax.epsilon == 1e-8);
    assert_true(adamax.weight_decay == 0);
    assert_int_equal(rmsprop.kind, BG_RMSPROP);
    assert_true(rmsprop.learning_rate == 0.2 && rmsprop.alpha == 0.99 && rmsprop.epsilon == 1e-8);
    assert_true(rmsprop.momentum == 0 && !rmsprop.centred && !rmsprop.tf_variant && rmsprop.weight_decay == 0);
    assert_int_equal(bg_optimiser_validate(&adamax, NULL), BG_OK);
    assert_int_equal(bg_optimiser_validate(&rmsprop, NULL), BG_OK);
}

static void test_defaults_of_the_adaptive(void **state)
{
    const bg_optimiser adagrad = bg_adagrad(0.1), adadelta = bg_adadelta(1.0), sgd = bg_sgd(0.1);
    (void)state;

    assert_int_equal(adagrad.kind, BG_ADAGRAD);
    assert_true(adagrad.learning_rate == 0.1 && adagrad.epsilon == 1e-10 && adagrad.weight_decay == 0);
    assert_int_equal(bg_optimiser_validate(&adagrad, NULL), BG_OK);
    assert_int_equal(adadelta.kind, BG_ADADELTA);
    assert_true(adadelta.learning_rate == 1.0 && adadelta.alpha == 0.9 && adadelta.epsilon == 1e-6);
    assert_int_equal(bg_optimiser_validate(&adadelta, NULL), BG_OK);
    assert_true(!sgd.combined && sgd.velocity_scaling == 1.0);
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
    optimiser.kind = (bg_optimiser_kind)77;
    assert_refused(optimiser, "kind 77");
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

static void test_rmsprop_ranges(void **state)
{
    bg_optimiser optimiser = bg_rmsprop(0.1);
    (void)state;

    optimiser.alpha = 1.0;
    assert_refused(optimiser, "alpha");
    optimiser = bg_rmsprop(0.1);
    optimiser.momentum = NAN;
    assert_refused(optimiser, "momentum");
    optimiser = bg_rmsprop(0.1);
    optimiser.epsilon = -1;
    assert_refused(optimiser, "epsilon");
}

static void test_ranges_of_the_adaptive(void **state)
{
    bg_optimiser optimiser = bg_adagrad(0.1);
    (void)state;

    optimiser.epsilon = -1;
    assert_refused(optimiser, "epsilon");
    optimiser = bg_adadelta(0.1);
    optimiser.epsilon = NAN;
    assert_refused(optimiser, "epsilon");
    optimiser = bg_adadelta(0.1);
    optimiser.alpha = 1.0;
    assert_refused(optimiser, "alpha");
}

static void test_combined_ranges(void **state)
{
    bg_optimiser optimiser = bg_sgd(0.1);
    (void)state;

    optimiser.combined = true;
    assert_refused(optimiser, "combined with momentum 0");
    optimiser.momentum = 0.9;
    assert_int_equal(bg_optimiser_validate(&optimiser, NULL), BG_OK);
    optimiser.velocity_scaling = 0.0;
    assert_refused(optimiser, "velocity_scaling");
    optimiser.velocity_scaling = INFINITY;
    assert_refused(optimiser, "velocity_scaling");
    optimiser.combined = false;
    assert_int_equal(bg_optimiser_validate(&optimiser, NULL), BG_OK);
}

static void test_lamb_ranges(void **state)
{
    bg_optimiser optimiser = bg_lamb(0.1);
    (void)state;

    optimiser.max_weight_norm = INFINITY;
    assert_int_equal(bg_optimiser_validate(&optimiser, NULL), BG_OK);
    optimiser.max_weight_norm = 0.0;
    assert_refused(optimiser, "max_weight_norm");
    optimiser.max_weight_norm = NAN;
    assert_refused(optimiser, "max_weight_norm");
    optimiser = bg_lamb(0.1);
    optimiser.beta2 = 1.0;
    assert_refused(optimiser, "beta2");
}

/* ---- texts ---- */

static bg_optimiser parse(const char *text)
{
    bg_optimiser optimiser;
    bg_error error = {0};

    if (bg_optimiser_parse(text, 0.5, &optimiser, &error) != BG_OK)
        fail_msg("`%s`: %s", text, error.message);
    assert_true(optimiser.learning_rate == 0.5);
    return optimiser;
}

static void test_names_read_back(void **state)
{
    (void)state;
    for (int kind = BG_SGD; kind <= BG_ADADELTA; kind++)
        assert_int_equal(parse(bg_optimiser_name((bg_optimiser_kind)kind)).kind, kind);
    assert_null(bg_optimiser_name((bg_optimiser_kind)99));
}

static void test_fields(void **state)
{
    const bg_optimiser sgd = parse("sgd:momentum=0.9,nesterov"),
                       adam = parse("adam:uncorrected,beta2=0.5,epsilon=1e-3"),
                       combined = parse("sgd:momentum=0.9,combined,velocity_scaling=8"),
                       adadelta = parse("adadelta:alpha=0.8,epsilon=1e-3"),
                       rmsprop = parse("rmsprop:centred,alpha=.9,tf_variant,weight_decay=1e-2,decay_matrices_only");
    (void)state;

    assert_true(sgd.momentum == 0.9 && sgd.nesterov && sgd.dampening == 0);
    assert_true(adam.uncorrected && adam.beta1 == 0.9 && adam.beta2 == 0.5 && adam.epsilon == 1e-3);
    assert_true(rmsprop.centred && rmsprop.tf_variant && rmsprop.alpha == 0.9 && rmsprop.weight_decay == 1e-2);
    assert_true(rmsprop.decay_matrices_only && rmsprop.momentum == 0);
    assert_true(combined.combined && combined.velocity_scaling == 8 && combined.momentum == 0.9);
    assert_true(adadelta.alpha == 0.8 && adadelta.epsilon == 1e-3);
}

static void test_wrong_texts(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"adagradient", "there are sgd, adam, adamw"},
        {"", "there is no ``"},
        {"sgd:beta1=0.9", "sgd has no `beta1`"},
        {"sgd:", "sgd has no ``"},
        {"sgd:momentum", "it needs a number"},
        {"sgd:momentum=", "it needs a number"},
        {"sgd:momentum=x", "it needs a number"},
        {"sgd:momentum=0.9x", "it needs a number"},
        {"sgd:nesterov=1", "a word by itself"},
        {"sgd:momentum=0.9,", "sgd has no ``"},
        {"sgd:nesterov", "momentum"},
        {"sgd:combined", "momentum"},
        {"adagrad:alpha=0.5", "adagrad has no `alpha`"},
        {"adadelta:momentum=0.5", "adadelta has no `momentum`; it has weight_decay, alpha, epsilon"},
        {"adamw:beta1=2", "beta1"},
    };
    bg_optimiser untouched = {.learning_rate = 7};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bg_error error = {0};

        assert_int_equal(bg_optimiser_parse(wrong[i].text, 0.5, &untouched, &error), BG_ERROR_INVALID);
        if (strstr(error.message, wrong[i].said) == NULL)
            fail_msg("`%s`: %s", wrong[i].text, error.message);
        assert_true(untouched.learning_rate == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_common_ranges),
        cmocka_unit_test(test_adam_ranges),
        cmocka_unit_test(test_sgd_ranges),
        cmocka_unit_test(test_other_defaults),
        cmocka_unit_test(test_rmsprop_ranges),
        cmocka_unit_test(test_defaults_of_the_adaptive),
        cmocka_unit_test(test_ranges_of_the_adaptive),
        cmocka_unit_test(test_combined_ranges),
        cmocka_unit_test(test_lamb_ranges),
        cmocka_unit_test(test_names_read_back),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_wrong_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
