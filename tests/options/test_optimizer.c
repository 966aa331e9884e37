/*
 * test_optimizer.c: checks PyTorch's defaults, the ranges of the optimizers' settings, and the table that defines both.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/options.h>

#include "kernels/optimizer/attributes.h"
#include "options/optimizer.h"

static void test_defaults(void **state)
{
    bg_optimizer sgd = bg_sgd(0.1), adam = bg_adam(0.2), adamw = bg_adamw(0.3);
    (void)state;

    assert_int_equal(sgd.kind, BG_SGD);
    assert_true(sgd.learning_rate == 0.1 && sgd.momentum == 0 && sgd.dampening == 0 && sgd.weight_decay == 0);
    assert_false(sgd.nesterov);
    assert_int_equal(adam.kind, BG_ADAM);
    assert_true(adam.learning_rate == 0.2 && adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.epsilon == 1e-8);
    assert_true(adam.weight_decay == 0);
    assert_int_equal(adamw.kind, BG_ADAMW);
    assert_true(adamw.learning_rate == 0.3 && adamw.weight_decay == 0.01);
    assert_int_equal(bg_optimizer_validate(&sgd, NULL), BG_OK);
    assert_int_equal(bg_optimizer_validate(&adam, NULL), BG_OK);
    assert_int_equal(bg_optimizer_validate(&adamw, NULL), BG_OK);
}

static void test_other_defaults(void **state)
{
    const bg_optimizer adamax = bg_adamax(0.1), rmsprop = bg_rmsprop(0.2), lamb = bg_lamb(0.3);
    (void)state;

    assert_int_equal(lamb.kind, BG_LAMB);
    assert_true(lamb.learning_rate == 0.3 && lamb.weight_decay == 0.01 && lamb.max_weight_norm == 65500.0);
    assert_int_equal(bg_optimizer_validate(&lamb, NULL), BG_OK);

    assert_int_equal(adamax.kind, BG_ADAMAX);
    assert_true(adamax.learning_rate == 0.1 && adamax.beta1 == 0.9 && adamax.beta2 == 0.999 && adamax.epsilon == 1e-8);
    assert_true(adamax.weight_decay == 0);
    assert_int_equal(rmsprop.kind, BG_RMSPROP);
    assert_true(rmsprop.learning_rate == 0.2 && rmsprop.alpha == 0.99 && rmsprop.epsilon == 1e-8);
    assert_true(rmsprop.momentum == 0 && !rmsprop.centered && !rmsprop.tf_variant && rmsprop.weight_decay == 0);
    assert_int_equal(bg_optimizer_validate(&adamax, NULL), BG_OK);
    assert_int_equal(bg_optimizer_validate(&rmsprop, NULL), BG_OK);
}

static void test_defaults_of_the_adaptive(void **state)
{
    const bg_optimizer adagrad = bg_adagrad(0.1), adadelta = bg_adadelta(1.0), sgd = bg_sgd(0.1);
    (void)state;

    assert_int_equal(adagrad.kind, BG_ADAGRAD);
    assert_true(adagrad.learning_rate == 0.1 && adagrad.epsilon == 1e-10 && adagrad.weight_decay == 0);
    assert_int_equal(bg_optimizer_validate(&adagrad, NULL), BG_OK);
    assert_int_equal(adadelta.kind, BG_ADADELTA);
    assert_true(adadelta.learning_rate == 1.0 && adadelta.alpha == 0.9 && adadelta.epsilon == 1e-6);
    assert_int_equal(bg_optimizer_validate(&adadelta, NULL), BG_OK);
    assert_true(!sgd.combined && sgd.velocity_scaling == 1.0);
}

/* Checks that the setting is an error and that the message names it. */
static void assert_refused(bg_optimizer optimizer, const char *name)
{
    bg_error error = {0};

    assert_int_equal(bg_optimizer_validate(&optimizer, &error), BG_ERROR_INVALID);
    if (strstr(error.message, name) == NULL)
        fail_msg("`%s` does not name `%s`", error.message, name);
}

static void test_common_ranges(void **state)
{
    bg_optimizer optimizer = bg_adamw(0.001);
    (void)state;

    assert_refused(bg_sgd(-0.1), "learning_rate");
    assert_refused(bg_adam(NAN), "learning_rate");
    assert_refused(bg_adamw(INFINITY), "learning_rate");
    optimizer.weight_decay = -1;
    assert_refused(optimizer, "weight_decay");
    optimizer = bg_adamw(0.0);
    assert_int_equal(bg_optimizer_validate(&optimizer, NULL), BG_OK);
    optimizer.kind = (bg_optimizer_kind)77;
    assert_refused(optimizer, "kind 77");
    assert_int_equal(bg_optimizer_validate(NULL, NULL), BG_ERROR_INVALID);
}

static void test_adam_ranges(void **state)
{
    bg_optimizer optimizer = bg_adam(0.001);
    (void)state;

    optimizer.beta1 = 1.0;
    assert_refused(optimizer, "beta1");
    optimizer = bg_adam(0.001);
    optimizer.beta2 = -0.1;
    assert_refused(optimizer, "beta2");
    optimizer = bg_adam(0.001);
    optimizer.epsilon = -1e-8;
    assert_refused(optimizer, "epsilon");
}

static void test_sgd_ranges(void **state)
{
    bg_optimizer optimizer = bg_sgd(0.1);
    (void)state;

    optimizer.momentum = -0.5;
    assert_refused(optimizer, "momentum");
    optimizer.momentum = 0.0;
    optimizer.nesterov = true;
    assert_refused(optimizer, "nesterov");
    optimizer.momentum = 0.9;
    assert_int_equal(bg_optimizer_validate(&optimizer, NULL), BG_OK);
    optimizer.dampening = 0.1;
    assert_refused(optimizer, "nesterov");
}

static void test_rmsprop_ranges(void **state)
{
    bg_optimizer optimizer = bg_rmsprop(0.1);
    (void)state;

    optimizer.alpha = 1.0;
    assert_refused(optimizer, "alpha");
    optimizer = bg_rmsprop(0.1);
    optimizer.momentum = NAN;
    assert_refused(optimizer, "momentum");
    optimizer = bg_rmsprop(0.1);
    optimizer.epsilon = -1;
    assert_refused(optimizer, "epsilon");
}

static void test_ranges_of_the_adaptive(void **state)
{
    bg_optimizer optimizer = bg_adagrad(0.1);
    (void)state;

    optimizer.epsilon = -1;
    assert_refused(optimizer, "epsilon");
    optimizer = bg_adadelta(0.1);
    optimizer.epsilon = NAN;
    assert_refused(optimizer, "epsilon");
    optimizer = bg_adadelta(0.1);
    optimizer.alpha = 1.0;
    assert_refused(optimizer, "alpha");
}

static void test_combined_ranges(void **state)
{
    bg_optimizer optimizer = bg_sgd(0.1);
    (void)state;

    optimizer.combined = true;
    assert_refused(optimizer, "combined is set with momentum 0");
    optimizer.momentum = 0.9;
    assert_int_equal(bg_optimizer_validate(&optimizer, NULL), BG_OK);
    optimizer.velocity_scaling = 0.0;
    assert_refused(optimizer, "velocity_scaling");
    optimizer.velocity_scaling = INFINITY;
    assert_refused(optimizer, "velocity_scaling");
    optimizer.combined = false;
    assert_int_equal(bg_optimizer_validate(&optimizer, NULL), BG_OK);
}

static void test_lamb_ranges(void **state)
{
    bg_optimizer optimizer = bg_lamb(0.1);
    (void)state;

    optimizer.max_weight_norm = INFINITY;
    assert_int_equal(bg_optimizer_validate(&optimizer, NULL), BG_OK);
    optimizer.max_weight_norm = 0.0;
    assert_refused(optimizer, "max_weight_norm");
    optimizer.max_weight_norm = NAN;
    assert_refused(optimizer, "max_weight_norm");
    optimizer = bg_lamb(0.1);
    optimizer.beta2 = 1.0;
    assert_refused(optimizer, "beta2");
}

/* ---- texts ---- */

static bg_optimizer parse(const char *text)
{
    bg_optimizer optimizer;
    bg_error error = {0};

    if (bg_optimizer_parse(text, 0.5, &optimizer, &error) != BG_OK)
        fail_msg("`%s`: %s", text, error.message);
    assert_true(optimizer.learning_rate == 0.5);
    return optimizer;
}

static void test_names_read_back(void **state)
{
    (void)state;
    for (int kind = BG_SGD; kind <= BG_ADADELTA; kind++)
        assert_int_equal(parse(bg_optimizer_name((bg_optimizer_kind)kind)).kind, kind);
    assert_null(bg_optimizer_name((bg_optimizer_kind)99));
}

static void test_fields(void **state)
{
    const bg_optimizer sgd = parse("sgd:momentum=0.9,nesterov"),
                       adam = parse("adam:uncorrected,beta2=0.5,epsilon=1e-3"),
                       combined = parse("sgd:momentum=0.9,combined,velocity_scaling=8"),
                       adadelta = parse("adadelta:alpha=0.8,epsilon=1e-3"),
                       rmsprop = parse("rmsprop:centered,alpha=.9,tf_variant,weight_decay=1e-2,decay_matrices_only");
    (void)state;

    assert_true(sgd.momentum == 0.9 && sgd.nesterov && sgd.dampening == 0);
    assert_true(adam.uncorrected && adam.beta1 == 0.9 && adam.beta2 == 0.5 && adam.epsilon == 1e-3);
    assert_true(rmsprop.centered && rmsprop.tf_variant && rmsprop.alpha == 0.9 && rmsprop.weight_decay == 1e-2);
    assert_true(rmsprop.decay_matrices_only && rmsprop.momentum == 0);
    assert_true(combined.combined && combined.velocity_scaling == 8 && combined.momentum == 0.9);
    assert_true(adadelta.alpha == 0.8 && adadelta.epsilon == 1e-3);
}

static void test_wrong_texts(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"adagradient", "the optimizers are sgd, adam, adamw"},
        {"", "there is no ``"},
        {"SGD", "did you mean `sgd`?"},
        {"sgd,momentum=0.9", "settings follow a colon: `sgd:momentum=0.9`"},
        {"sgd:beta1=0.9", "sgd has no setting `beta1`"},
        {"sgd:", "sgd has no setting ``"},
        {"sgd:momentum", "it needs a number"},
        {"sgd:momentum=", "it needs a number"},
        {"sgd:momentum=x", "it needs a number"},
        {"sgd:momentum=0.9x", "it needs a number"},
        {"sgd:nesterov=1", "a flag without a value"},
        {"sgd:momentum=0.9,", "sgd has no setting ``"},
        {"sgd:nesterov", "momentum"},
        {"sgd:combined", "momentum"},
        {"adagrad:alpha=0.5", "adagrad has no setting `alpha`"},
        {"adadelta:momentum=0.5", "adadelta has no setting `momentum`; it has weight_decay, alpha, epsilon"},
        {"adamw:beta1=2", "beta1"},
    };
    bg_optimizer untouched = {.learning_rate = 7};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bg_error error = {0};

        assert_int_equal(bg_optimizer_parse(wrong[i].text, 0.5, &untouched, &error), BG_ERROR_INVALID);
        if (strstr(error.message, wrong[i].said) == NULL)
            fail_msg("`%s`: %s", wrong[i].text, error.message);
        assert_true(untouched.learning_rate == 7);
    }
}

/* ---- the table ---- */

/* No byte of the struct is in two rows. The bytes in no row are the struct's size, the kind, the learning rate, a
 * caller's update rule with its settings, and padding after flags. */
static void test_every_setting_has_a_row(void **state)
{
    unsigned char uses[sizeof(bg_optimizer)] = {0};
    const bgi_setting *setting;
    size_t run = 0;

    (void)state;
    memset(uses + offsetof(bg_optimizer, struct_bytes), 1, sizeof(size_t));
    memset(uses + offsetof(bg_optimizer, kind), 1, sizeof(bg_optimizer_kind));
    memset(uses + offsetof(bg_optimizer, learning_rate), 1, sizeof(double));
    memset(uses + offsetof(bg_optimizer, rule), 1, sizeof(const bg_update_rule *));
    memset(uses + offsetof(bg_optimizer, numbers), 1, 3 * sizeof(double));
    for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
        assert_ptr_equal(bgi_setting_find(setting->name), setting);
        assert_true(strlen(setting->what) > 10);
        assert_true(setting->is_flag || setting->rule != NULL);
        for (size_t b = 0; b < (setting->is_flag ? sizeof(bool) : sizeof(double)); b++)
            assert_int_equal(uses[setting->offset + b]++, 0);
    }
    assert_null(bgi_setting_find("no such setting"));
    for (size_t b = 0; b < sizeof uses; b++) {
        run = uses[b] == 0 ? run + 1 : 0;
        if (run >= 8)
            fail_msg("bytes %zu to %zu of bg_optimizer are in no row of optimizers.def", b - 7, b);
    }
    for (int kind = BG_SGD; kind <= BG_ADADELTA; kind++)
        assert_non_null(bgi_optimizer_sentence((bg_optimizer_kind)kind));
    assert_null(bgi_optimizer_sentence((bg_optimizer_kind)99));
}

/* An optimizer that is parsed from its name has the table's defaults; settings that it lacks are 0. */
static void test_defaults_are_the_table(void **state)
{
    const bgi_setting *setting;

    (void)state;
    for (int kind = BG_SGD; kind <= BG_ADADELTA; kind++) {
        const bg_optimizer optimizer = parse(bg_optimizer_name((bg_optimizer_kind)kind));
        for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
            double standard = 0.0;
            bgi_optimizer_has((bg_optimizer_kind)kind, setting, &standard);
            assert_true(bgi_setting_get(setting, &optimizer) == standard);
        }
    }
}

/* Each setting of an optimizer is written to a separate element. */
static void test_settings_have_elements_of_their_own(void **state)
{
    const bgi_setting *setting;

    (void)state;
    for (int kind = BG_SGD; kind <= BG_ADADELTA; kind++) {
        bg_optimizer optimizer = bg_optimizer_make((bg_optimizer_kind)kind, 0.125);
        bool is_taken[BGI_OPTIMIZER_NUMBERS] = {0};
        double numbers[BGI_OPTIMIZER_NUMBERS];
        is_taken[BGI_OPTIMIZER_RATE] = true;
        for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++) {
            bgi_setting_set(setting, &optimizer, 1.0 + i);
            if (setting->is_flag || !bgi_optimizer_has((bg_optimizer_kind)kind, setting, NULL))
                continue;
            assert_true(setting->element < BGI_OPTIMIZER_NUMBERS);
            if (is_taken[setting->element])
                fail_msg("%s: %s shares an element", bg_optimizer_name((bg_optimizer_kind)kind), setting->name);
            is_taken[setting->element] = true;
        }
        assert_false(is_taken[BGI_HYPER_SKIP] || is_taken[BGI_HYPER_SKIPPED]);
        bgi_optimizer_write_numbers(&optimizer, numbers);
        assert_true(numbers[BGI_OPTIMIZER_RATE] == 0.125);
        for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++)
            if (!setting->is_flag && bgi_optimizer_has((bg_optimizer_kind)kind, setting, NULL))
                assert_true(numbers[setting->element] == 1.0 + i);
        for (uint32_t e = 0; e < BGI_OPTIMIZER_NUMBERS; e++)
            assert_true(is_taken[e] || numbers[e] == 0.0);
    }
}

static void expect_change(const char *planned, const char *next, const char *refusal)
{
    const bg_optimizer one = parse(planned), other = parse(next);
    bg_error error = {0};

    if (bgi_optimizer_check_change(&one, &other, &error) == BG_OK) {
        if (refusal != NULL)
            fail_msg("%s to %s is accepted", planned, next);
    } else if (refusal == NULL || strstr(error.message, refusal) == NULL) {
        fail_msg("%s to %s: %s", planned, next, error.message);
    }
}

/* Settings can change between runs, except those that are part of the plan. */
static void test_changes(void **state)
{
    const bgi_setting *setting;

    (void)state;
    expect_change("sgd:momentum=0.9", "sgd", NULL);
    expect_change("sgd:momentum=0.9,dampening=0.5", "sgd:momentum=0.5,weight_decay=0.1", NULL);
    expect_change("sgd", "sgd:momentum=0.9", "momentum is 0.9, but the plan was made with 0 and keeps no state for it");
    expect_change("sgd:velocity_scaling=2", "sgd:velocity_scaling=3", NULL);
    expect_change("sgd:momentum=0.9,combined,velocity_scaling=2", "sgd:momentum=0.9,combined,velocity_scaling=3",
                  "velocity_scaling is 3, but the plan was made with 2, and the setting is part of the plan");
    expect_change("adam", "adamw", "it is adamw, but the plan trains with adam: make a new plan");
    expect_change("rmsprop:centered", "rmsprop", "centered is off, but the plan was made with it on");
    for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++)
        for (int kind = BG_SGD; kind <= BG_ADADELTA; kind++) {
            const bg_optimizer planned = parse(bg_optimizer_name((bg_optimizer_kind)kind));
            bg_optimizer next = planned;
            bgi_setting_set(setting, &next, 1.0 - bgi_setting_get(setting, &planned));
            assert_int_equal(bgi_optimizer_check_change(&planned, &next, NULL) != BG_OK,
                             setting->is_flag ||
                                 (setting->makes_state && bgi_optimizer_has((bg_optimizer_kind)kind, setting, NULL)));
        }
}

/* Every state that a checkpoint may contain is listed exactly once. */
static void test_variants(void **state)
{
    enum { COUNT = 17 };
    char texts[COUNT + 1][BG_OPTIMIZER_STATE_TEXT_BYTES];
    bg_optimizer optimizer;
    uint32_t count = 0;

    (void)state;
    while (bgi_optimizer_variant(count, &optimizer)) {
        assert_true(count < COUNT);
        assert_int_equal(bg_optimizer_validate(&optimizer, NULL), BG_OK);
        bg_optimizer_describe_state(&optimizer, texts[count]);
        for (uint32_t i = 0; i < count; i++)
            assert_string_not_equal(texts[i], texts[count]);
        count++;
    }
    assert_int_equal(count, COUNT);
    assert_string_equal(texts[0], "sgd");
    assert_string_equal(texts[2], "sgd:momentum,combined,velocity_scaling=1");
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
        cmocka_unit_test(test_every_setting_has_a_row),
        cmocka_unit_test(test_defaults_are_the_table),
        cmocka_unit_test(test_settings_have_elements_of_their_own),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
