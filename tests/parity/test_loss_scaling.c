/*
 * test_loss_scaling.c: a loss scale that is a power of two does not change float32 training, with any strategy,
 * optimizer, accumulation and clipping. Any other scale causes rounding, so it changes results.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/train.h"

enum { UPDATES = 4, MICRO_BATCH = 8 };

typedef struct way {
    bg_strategy strategy;
    const char *schedule;
    uint32_t replicas;
    bg_accumulation accumulation;
    double clip;
    bg_recompute recompute;
    bool offload;
} way;

static const way ways[] = {
    {BG_STRATEGY_SINGLE, NULL, 1, BG_ACCUMULATE_MEAN, 0.0, BG_RECOMPUTE_NONE, false},
    {BG_STRATEGY_SHARDED, NULL, 1, BG_ACCUMULATE_MEAN_RUNNING, 0.0, BG_RECOMPUTE_NONE, true},
    {BG_STRATEGY_PIPELINED, "interleaved", 2, BG_ACCUMULATE_MEAN, 0.1, BG_RECOMPUTE_STAGE, false},
    {BG_STRATEGY_PIPELINED, "grouped", 2, BG_ACCUMULATE_MEAN_RUNNING, 0.1, BG_RECOMPUTE_NONE, false},
    {BG_STRATEGY_PHASED, NULL, 1, BG_ACCUMULATE_SUM, 0.1, BG_RECOMPUTE_NONE, false},
};

static bg_options make_options(const way *w, double scaling)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.schedule = w->schedule;
    options.replicas.count = w->replicas;
    options.numerics.accumulation = w->accumulation;
    options.numerics.max_gradient_norm = w->clip;
    options.memory.recompute = w->recompute;
    options.memory.offload_optimizer = w->offload;
    options.execution.gradient_accumulation = 5;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 7;
    options.execution.wait_limit_s = 60;
    options.numerics.loss_scaling = scaling;
    return options;
}

static test_result train(const test_model *model, const way *w, const bg_optimizer *optimizer, double scaling)
{
    const bg_options options = make_options(w, scaling);
    char what[128];

    snprintf(what, sizeof what, "%s, %s, %s, scaling %g", model->name, bg_option_value_name("strategy", w->strategy),
             bg_option_value_name("accumulation", w->accumulation), scaling);
    return test_train(model, MICRO_BATCH, optimizer, &options, NULL, 0, UPDATES, what);
}

static void expect_same(const test_model *model, const way *w, const bg_optimizer *optimizer, double scaling)
{
    const test_result expected = train(model, w, optimizer, 1.0);

    test_train_expect(train(model, w, optimizer, scaling), &expected, model->name);
    free(expected.bytes);
}

static void test_every_strategy(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    const unsigned step = getenv("BRIGADE_TEST_QUICK") != NULL ? 3 : getenv("BRIGADE_TEST_ALL") == NULL ? 2 : 1;
    (void)state;

    for (unsigned m = 0; test_model_at(m) != NULL; m++)
        for (unsigned w = m % step; w < sizeof ways / sizeof ways[0]; w += step)
            expect_same(test_model_at(m), &ways[w], &optimizer, (m + w) % 2 == 0 ? 4096.0 : 0x1p-20);
}

/* Momentum and Adam's moments are computed from unscaled gradients. */
static void test_every_optimizer(void **state)
{
    bg_optimizer optimizers[] = {bg_sgd(0.05),      bg_sgd(0.05),  bg_adam(0.003),   bg_adamw(0.003),  bg_adamax(0.003),
                                 bg_rmsprop(0.003), bg_lamb(0.01), bg_adadelta(1.0), bg_adagrad(0.01), bg_sgd(0.05)};
    (void)state;

    optimizers[1].momentum = 0.9;
    optimizers[5].momentum = 0.9, optimizers[5].tf_variant = true;
    optimizers[9].momentum = 0.9, optimizers[9].combined = true, optimizers[9].velocity_scaling = 3.0;
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++)
        expect_same(test_model_at(0), &ways[2], &optimizers[i], 4096.0);
}

/* Three is not a power of two, so only the last bits differ. */
static void test_the_scale_is_there(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.05);
    const test_result plain = train(test_model_at(3), &ways[0], &optimizer, 1.0);
    const test_result scaled = train(test_model_at(3), &ways[0], &optimizer, 3.0);
    (void)state;

    assert_int_equal(plain.size, scaled.size);
    assert_true(memcmp(plain.bytes, scaled.bytes, plain.size) != 0);
    for (size_t at = 0; at + sizeof(float) <= plain.size; at += sizeof(float)) {
        float a, b;
        memcpy(&a, plain.bytes + at, sizeof a);
        memcpy(&b, scaled.bytes + at, sizeof b);
        if (fabsf(a - b) > 1e-5f * (1.0f + fabsf(a)))
            fail_msg("number %zu: %.9g without a scale, %.9g with 3", at / sizeof(float), (double)a, (double)b);
    }
    free(plain.bytes);
    free(scaled.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_every_optimizer),
        cmocka_unit_test(test_the_scale_is_there),
    };

    return cmocka_run_group_tests_name("loss scaling", tests, NULL, NULL);
}
