/*
 * test_auto_loss_scaling.c: an automatic loss scale follows the published rule, and updates whose gradients overflow
 * change no weights or state. The scale does not change other results, is the same under every strategy, and resumes
 * from a checkpoint.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/checkpoint.h>
#include <brigade/ops.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/train.h"

enum { ACCUMULATION = 3, WEIGHTS = 4, MOST_UPDATES = 64 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- a network whose gradient is the data: loss = sum of x w ---- */

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    uint32_t scale; /* output */
} rig;

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_FINAL;
    options.execution.wait_limit_s = 60;
    options.numerics.auto_loss_scaling.enabled = true;
    options.numerics.auto_loss_scaling.output = true;
    return options;
}

static rig open_rig(const bg_optimizer *optimizer, const bg_options *options)
{
    const bg_initializer ones = {.kind = BG_INITIALIZE_CONSTANT, .a = 1.0};
    const bg_type type = bg_vector(BG_FLOAT32, WEIGHTS);
    bg_error error = {0};
    rig r = {0};
    bg_value x, w, loss;

    require(bg_graph_create(&r.graph, &error), &error);
    bg_block_begin(r.graph, "B", BG_DEVICE_NONE);
    x = bg_graph_input(r.graph, "x", &type);
    w = bg_graph_parameter(r.graph, "w", &type, &ones);
    loss = bg_reduce(r.graph, "loss", BG_REDUCE_SUM, bg_multiply(r.graph, x, w), NULL, 0, false);
    bg_block_end(r.graph);
    bg_graph_output(r.graph, "loss", loss);
    require(bg_plan_create_training(r.graph, loss, optimizer, options, &r.plan, &error), &error);
    require(bg_session_create(r.plan, NULL, &r.session, &error), &error);
    r.scale = bg_session_find_output(r.session, "loss_scale");
    return r;
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

/* Runs one update whose micro-batches have gradients `sizes` x (1, 2, 3, 4). Returns the scale of the update, or 0 if
 * the model has no such output. */
static float update_with(rig *r, const float sizes[ACCUMULATION])
{
    const void *inputs[1];
    void *outputs[4] = {0};
    float x[ACCUMULATION][WEIGHTS], scale = 0.0f;
    bg_error error = {0};

    for (int a = 0; a < ACCUMULATION; a++)
        for (int i = 0; i < WEIGHTS; i++)
            x[a][i] = sizes[a] * (float)(i + 1);
    inputs[0] = x;
    if (r->scale != UINT32_MAX)
        outputs[r->scale] = &scale;
    require(bg_session_run(r->session, inputs, outputs, &error), &error);
    return scale;
}

static float update(rig *r, float size)
{
    const float sizes[ACCUMULATION] = {size, size, size};

    return update_with(r, sizes);
}

static void copy_weight(rig *r, const char *name, void *to)
{
    bg_error error = {0};
    bg_weight weight;

    require(bg_weights_find(bg_session_weights(r->session), name, &weight, &error), &error);
    memcpy(to, weight.data, bg_type_size_bytes(&weight.type));
}

/* ---- the rule ---- */

/* Each of three micro-batches has the gradient 1, 2, 3, 4. The scale falls if 4 times the scale is above 8188, so it
 * ends by alternating between 1024 and 2048. */
static void test_rule(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.125);
    const bg_options options = make_options();
    rig r = open_rig(&optimizer, &options);
    float w[WEIGHTS], expected = 1.0f, next;
    (void)state;

    for (int u = 0; u < 20; u++) {
        assert_true(update(&r, 1.0f) == expected);
        expected = 4.0f * expected > 8188.0f ? expected * 0.5f : expected * 2.0f;
        copy_weight(&r, "loss.scale", &next);
        assert_true(next == expected);
        /* The scale is a power of two, so it does not change any bit of the step. */
        copy_weight(&r, "w", w);
        for (int i = 0; i < WEIGHTS; i++)
            assert_true(w[i] == 1.0f - 0.125f * (float)((u + 1) * (i + 1)));
    }
    assert_true(expected == 1024.0f || expected == 2048.0f);
    close_rig(&r);
}

/* The scale counts the values of each micro-batch's gradient, not of their sum. Large values that cancel and small
 * values that add up are therefore counted as they are. */
static void test_micro_batches_count(void **state)
{
    static const struct {
        float sizes[ACCUMULATION];
        float next;
    } cases[] = {{{3000, -3000, 0}, 0.5f}, {{1500, 1500, 1500}, 2.0f}, {{1, 1, 3000}, 0.5f}};
    const bg_optimizer optimizer = bg_sgd(0.125);
    bg_options options = make_options();
    (void)state;

    options.numerics.auto_loss_scaling.minimum = 0.25;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig r = open_rig(&optimizer, &options);
        float next;
        update_with(&r, cases[i].sizes);
        copy_weight(&r, "loss.scale", &next);
        assert_true(next == cases[i].next);
        close_rig(&r);
    }
}

/* A share of 1 in 4 beyond the edge does not exceed a threshold of 1 / 4, but exceeds one of 0.2. */
static void test_threshold(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.0);
    (void)state;

    for (int falls = 0; falls < 2; falls++) {
        bg_options options = make_options();
        rig r;
        float scale;

        options.numerics.loss_scaling = 4.0;
        options.numerics.auto_loss_scaling.bin_edge = 3.5 * 4.0 / 65504.0;
        options.numerics.auto_loss_scaling.threshold = falls ? 0.2 : 0.25;
        r = open_rig(&optimizer, &options);
        update(&r, 1.0f);
        copy_weight(&r, "loss.scale", &scale);
        assert_true(scale == (falls ? 2.0f : 8.0f));
        close_rig(&r);
    }
}

/* The scale changes only in every third update, depends on the counts of all three, stays within its bounds, and uses
 * the configured factors.
 */
static void test_period_and_bounds(void **state)
{
    static const float sizes[] = {1, 1, 1, 1e4f, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const float scales[] = {2, 2, 2, 8, 8, 8, 4, 4, 4, 16, 16, 16, 20, 20, 20};
    const bg_optimizer optimizer = bg_sgd(0.0);
    bg_options options = make_options();
    rig r;
    (void)state;

    options.numerics.loss_scaling = 2.0;
    options.numerics.auto_loss_scaling.period = 3;
    options.numerics.auto_loss_scaling.increase = 4.0;
    options.numerics.auto_loss_scaling.maximum = 20.0;
    r = open_rig(&optimizer, &options);
    for (size_t u = 0; u < sizeof sizes / sizeof sizes[0]; u++)
        if (update(&r, sizes[u]) != scales[u])
            fail_msg("update %zu: another scale than %g", u, (double)scales[u]);
    close_rig(&r);
}

/* ---- overflow ---- */

/* Checks that updates are skipped until the scale falls below 2^15, because 12 x 1e33 overflows with larger scales, and
 * that later updates equal those of a run without a scale. */
static void expect_skips(const bg_optimizer *optimizer)
{
    bg_options options = make_options();
    float w[WEIGHTS], before[WEIGHTS], plain_w[WEIGHTS];
    int skipped = 0, taken = 0;
    rig r, plain;

    options.numerics.auto_loss_scaling.enabled = false;
    plain = open_rig(optimizer, &options);
    options.numerics.auto_loss_scaling.enabled = true;
    options.numerics.loss_scaling = 0x1p20;
    r = open_rig(optimizer, &options);
    for (int u = 0; u < 12; u++) {
        float scale;
        /* The larger gradient of update 9 overflows again, after updates that did not. */
        const float size = u == 9 ? 3e38f : 1e33f;
        copy_weight(&r, "w", before);
        scale = update(&r, size);
        copy_weight(&r, "w", w);
        if (isinf(scale * size * 12.0f)) {
            assert_memory_equal(w, before, sizeof w);
            skipped++;
            continue;
        }
        update(&plain, size);
        copy_weight(&plain, "w", plain_w);
        assert_memory_equal(w, plain_w, sizeof w);
        assert_true(memcmp(w, before, sizeof w) != 0);
        taken++;
    }
    assert_true(skipped == 7 && taken == 5);
    assert_int_equal(bg_session_step(r.session), 12);
    close_rig(&r);
    close_rig(&plain);
}

static void test_skipped_updates(void **state)
{
    bg_optimizer optimizers[] = {bg_sgd(1e-33), bg_sgd(1e-33), bg_adamw(0.01)};
    (void)state;

    optimizers[1].momentum = 0.5;
    optimizers[1].dampening = 0.25;
    optimizers[2].epsilon = 1e-8;
    for (size_t i = 0; i < 2; i++)
        expect_skips(&optimizers[i]);
}

/* The step counts of Adam's corrections begin with the first update that is not skipped. The gradients are small here,
 * because the squares of large ones would overflow. */
static void expect_own_count(const bg_optimizer *optimizer)
{
    bg_options options = make_options();
    float w[WEIGHTS], plain_w[WEIGHTS];
    rig r, plain;

    options.numerics.auto_loss_scaling.enabled = false;
    plain = open_rig(optimizer, &options);
    options.numerics.auto_loss_scaling.enabled = true;
    r = open_rig(optimizer, &options);
    for (int u = 0; u < 8; u++) {
        const bool overflows = u < 3 || u == 5;
        update(&r, overflows ? INFINITY : 0.25f);
        if (!overflows)
            update(&plain, 0.25f);
        copy_weight(&r, "w", w);
        copy_weight(&plain, "w", plain_w);
        assert_memory_equal(w, plain_w, sizeof w);
    }
    close_rig(&r);
    close_rig(&plain);
}

/* One overflow halves the scale, although the period is not over and most elements counted so far were small. */
static void test_an_overflow_lowers_at_once(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = make_options();
    rig r;
    (void)state;

    options.numerics.auto_loss_scaling.enabled = true;
    options.numerics.auto_loss_scaling.threshold = 0.9;
    options.numerics.auto_loss_scaling.period = 100;
    options.numerics.loss_scaling = 1024.0;
    r = open_rig(&optimizer, &options);
    for (int u = 0; u < 5; u++)
        assert_true(update(&r, 0.25f) == 1024.0f);
    assert_true(update(&r, INFINITY) == 1024.0f);
    assert_true(update(&r, 0.25f) == 512.0f);
    assert_true(update(&r, 0.25f) == 512.0f);
    close_rig(&r);
}

/* Runs updates of replicas that all get gradients of 1, 2, 3, 4. In the second update, gradient number `which`
 * overflows in the sum over micro-batches, although the gradient of each micro-batch is finite. Stores the scale and
 * the weights after each update. */
static void run_overflow(const bg_options *options, int which, float results[4][1 + WEIGHTS])
{
    static const bool overflows[4] = {false, true, false, false};
    const bg_optimizer optimizer = bg_adam(0.01);
    rig r = open_rig(&optimizer, options);
    float x[ACCUMULATION * 3][WEIGHTS];
    const void *inputs[] = {x};
    void *outputs[4] = {0};
    bg_error error = {0};
    float scales[3], losses[3]; /* of replicas */

    for (int i = 0; i < 4; i++)
        outputs[i] = losses;
    outputs[r.scale] = scales;
    for (int u = 0; u < 4; u++) {
        for (size_t a = 0; a < sizeof x / sizeof x[0]; a++)
            for (int i = 0; i < WEIGHTS; i++)
                x[a][i] = overflows[u] && i == which ? 7e37f : (float)(i + 1);
        require(bg_session_run(r.session, inputs, outputs, &error), &error);
        results[u][0] = scales[0];
        for (uint32_t i = 1; i < options->replicas.count; i++)
            assert_true(scales[i] == scales[0]);
        copy_weight(&r, "w", &results[u][1]);
    }
    close_rig(&r);
}

/* Replicas that each have a shard of the gradients all skip the update, whichever replica has the overflowing element,
 * like replicas with whole gradients. The third of three replicas has no element of the four. */
static void test_overflow_in_a_piece(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++)
        for (int which = -1; which < WEIGHTS; which++) {
            float whole[4][1 + WEIGHTS], pieces[4][1 + WEIGHTS];
            bg_options options = make_options();

            options.replicas.count = replicas;
            options.numerics.loss_scaling = 2.0;
            run_overflow(&options, which, whole);
            options.memory.locations[BG_LOCATION_STATE].sharded = true;
            options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = true;
            for (int k = 0; k < BG_LOCATION_COUNT; k++)
                options.memory.locations[k].minimum_elements_sharded = 1;
            run_overflow(&options, which, pieces);
            assert_memory_equal(pieces, whole, sizeof whole);
            assert_int_equal(memcmp(&pieces[1][1], &pieces[0][1], WEIGHTS * sizeof(float)) == 0, which >= 0);
            assert_true(pieces[2][0] == (which >= 0 ? 2.0f : 8.0f)); /* a scale of 4 is halved, or doubled */
        }
}

static void test_skipped_adam(void **state)
{
    bg_optimizer optimizers[] = {bg_adam(0.01), bg_adamax(0.01),  bg_rmsprop(0.01),
                                 bg_lamb(0.01), bg_adagrad(0.01), bg_adadelta(1.0)};
    (void)state;

    optimizers[2].momentum = 0.9;
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++)
        expect_own_count(&optimizers[i]);
}

/* ---- every strategy gives the same bytes of weights, state and scale ---- */

typedef struct way {
    bg_strategy strategy;
    const char *schedule;
    bg_recompute recompute;
    bool offload, shard;
} way;

static const way ways[] = {
    {BG_STRATEGY_SHARDED, NULL, BG_RECOMPUTE_NONE, true, false},
    {BG_STRATEGY_PIPELINED, "interleaved", BG_RECOMPUTE_STAGE, false, true},
    {BG_STRATEGY_PIPELINED, "zb-h1", BG_RECOMPUTE_NONE, false, false},
    {BG_STRATEGY_PHASED, NULL, BG_RECOMPUTE_NONE, false, true},
};

static test_result train(const test_model *model, const way *w, double clip)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = make_options();
    char what[128];

    options.execution.strategy = w != NULL ? w->strategy : BG_STRATEGY_SINGLE;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.replicas.count = 2;
    options.execution.device_iterations = 2;
    options.numerics.max_gradient_norm = clip;
    options.numerics.loss_scaling = 256.0;
    options.numerics.auto_loss_scaling.bin_edge = 1e-3;
    options.numerics.auto_loss_scaling.threshold = 0.05;
    if (w != NULL) {
        options.execution.schedule = w->schedule;
        options.memory.recompute = w->recompute;
        options.memory.offload_optimizer = w->offload;
        options.memory.locations[BG_LOCATION_STATE].sharded = w->shard;
        for (int k = 0; k < BG_LOCATION_COUNT; k++)
            options.memory.locations[k].minimum_elements_sharded = 16;
    }
    snprintf(what, sizeof what, "%s, %s", model->name,
             w != NULL ? bg_option_value_name("strategy", w->strategy) : "single");
    return test_train(model, 4, &optimizer, &options, NULL, 0, 6, what);
}

static void test_every_strategy(void **state)
{
    const unsigned step = getenv("BRIGADE_TEST_QUICK") != NULL ? 4 : getenv("BRIGADE_TEST_ALL") == NULL ? 2 : 1;
    (void)state;

    for (unsigned m = 0; test_model_at(m) != NULL; m++) {
        const test_result expected = train(test_model_at(m), NULL, m % 2 == 0 ? 0.1 : 0.0);
        for (unsigned w = m % step; w < sizeof ways / sizeof ways[0]; w += step)
            test_train_expect(train(test_model_at(m), &ways[w], m % 2 == 0 ? 0.1 : 0.0), &expected,
                              test_model_at(m)->name);
        free(expected.bytes);
    }
}

/* ---- checkpoints ---- */

/* A run that stops in the middle of a period and after a skipped update continues with the same bits. */
static void test_checkpoint(void **state)
{
    static const float sizes[] = {1, 3e38f, 100, 1, 100, 1, 1, 100, 1};
    const bg_optimizer optimizer = bg_adam(0.01);
    const size_t count = sizeof sizes / sizeof sizes[0];
    char folder[TEST_FOLDER_BYTES];
    bg_options options = make_options();
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    options.numerics.loss_scaling = 4.0;
    options.numerics.auto_loss_scaling.period = 2;
    options.numerics.auto_loss_scaling.bin_edge = 0.01;
    for (size_t stop = 1; stop + 1 < count; stop++) {
        rig whole = open_rig(&optimizer, &options), first = open_rig(&optimizer, &options), second;
        float scales[16], w[WEIGHTS], expected[WEIGHTS];

        for (size_t u = 0; u < count; u++)
            scales[u] = update(&whole, sizes[u]);
        for (size_t u = 0; u < stop; u++)
            update(&first, sizes[u]);
        require(bg_checkpoint_save(first.session, folder, NULL, &error), &error);
        second = open_rig(&optimizer, &options);
        require(bg_checkpoint_load(second.session, folder, NULL, NULL, &error), &error);
        for (size_t u = stop; u < count; u++)
            assert_true(update(&second, sizes[u]) == scales[u]);
        copy_weight(&whole, "w", expected);
        copy_weight(&second, "w", w);
        assert_memory_equal(w, expected, sizeof w);
        close_rig(&whole);
        close_rig(&first);
        close_rig(&second);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_micro_batches_count),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_period_and_bounds),
        cmocka_unit_test(test_skipped_updates),
        cmocka_unit_test(test_an_overflow_lowers_at_once),
        cmocka_unit_test(test_overflow_in_a_piece),
        cmocka_unit_test(test_skipped_adam),
        cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_checkpoint),
    };

    return cmocka_run_group_tests_name("automatic loss scaling", tests, NULL, NULL);
}
