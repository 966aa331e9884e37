/*
 * test_float16.c: mixed precision for users of IPUs and of PyTorch. Float32 weights with float16 activations train to
 * PyTorch's values, with and without loss scaling. Overflow of float16 is detected, and all strategies give the same
 * bits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/oracle.h"

enum { SAMPLES = 8, FEATURES = 8, HIDDEN = 12, CLASSES = 5, STEPS = 6, WEIGHTS = 4, MOST = HIDDEN * FEATURES };

static const char *const names[WEIGHTS] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
static const double tiny = 0x1p-20; /* the loss is multiplied by this */

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- a network of two linear layers, trained ---- */

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    uint32_t scale; /* index of the output; UINT32_MAX: no such output */
} rig;

static rig open_rig(bg_dtype dtype, bg_dtype kept, const bg_options *options)
{
    const uint32_t samples = SAMPLES / options->execution.gradient_accumulation / options->replicas.count;
    const bg_type x_type = bg_matrix(BG_FLOAT32, samples, FEATURES), label_type = bg_vector(BG_INT32, samples);
    const bg_optimizer optimizer = bg_sgd(0.25 / tiny);
    bg_value x, loss, labels;
    bg_error error = {0};
    rig r = {0};

    require(bg_graph_create(&r.graph, &error), &error);
    bg_graph_set_parameter_dtype(r.graph, kept);
    x = bg_graph_input(r.graph, "x", &x_type);
    labels = bg_graph_input(r.graph, "labels", &label_type);
    bg_block_begin(r.graph, "B1", BG_DEVICE_NONE);
    x = bg_relu(r.graph, bg_linear_layer(r.graph, "fc1", bg_cast(r.graph, NULL, x, dtype), HIDDEN, true));
    bg_block_end(r.graph);
    bg_block_begin(r.graph, "B2", BG_DEVICE_NONE);
    x = bg_linear_layer(r.graph, "fc2", x, CLASSES, true);
    loss = bg_cross_entropy(r.graph, "loss", x, labels, BG_LOSS_MEAN, -100);
    loss = bg_scale(r.graph, NULL, loss, tiny, 0.0);
    bg_block_end(r.graph);
    require(bg_plan_create_training(r.graph, loss, &optimizer, options, &r.plan, &error), &error);
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

static bg_options make_options(double scaling)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.loss_scaling = scaling;
    options.numerics.seed = 5;
    options.execution.wait_limit_s = 60;
    options.reporting.output_mode = BG_OUTPUT_FINAL;
    return options;
}

/* Sets the session's weights to the oracle's numbers. */
static void set_start(const rig *r, const bgi_test_oracle *oracle)
{
    bg_error error = {0};

    for (int i = 0; i < WEIGHTS; i++) {
        const bgi_test_tensor *start = bgi_test_oracle_find(oracle, "start", names[i]);
        const bg_type type = bgi_test_tensor_type(start, BG_FLOAT32);
        float values[MOST];

        for (int64_t e = 0; e < start->count; e++)
            values[e] = (float)start->values[e];
        require(bg_weights_set(bg_session_weights(r->session), names[i], &type, values, &error), &error);
    }
}

/* Runs one update with the oracle's samples; returns the loss scale of the update. */
static float update(const rig *r, const bgi_test_oracle *oracle)
{
    const bgi_test_tensor *x = bgi_test_oracle_find(oracle, "start", "x");
    const bgi_test_tensor *labels = bgi_test_oracle_find(oracle, "start", "labels");
    float samples[SAMPLES * FEATURES], scale = 0.0f;
    int32_t classes[SAMPLES];
    const void *inputs[2];
    void *outputs[8] = {0};
    bg_error error = {0};

    for (int i = 0; i < SAMPLES * FEATURES; i++)
        samples[i] = (float)x->values[i];
    for (int i = 0; i < SAMPLES; i++)
        classes[i] = (int32_t)labels->values[i];
    inputs[bg_session_find_input(r->session, "x")] = samples;
    inputs[bg_session_find_input(r->session, "labels")] = classes;
    if (r->scale != UINT32_MAX)
        outputs[r->scale] = &scale;
    require(bg_session_run(r->session, inputs, outputs, &error), &error);
    return scale;
}

static size_t copy_weights(const rig *r, unsigned char *to)
{
    bg_error error = {0};
    size_t size = 0;

    for (int i = 0; i < WEIGHTS; i++) {
        bg_weight weight;
        require(bg_weights_find(bg_session_weights(r->session), names[i], &weight, &error), &error);
        memcpy(to + size, weight.data, bg_type_size_bytes(&weight.type));
        size += bg_type_size_bytes(&weight.type);
    }
    return size;
}

/* ---- PyTorch's numbers ---- */

/* Returns the largest difference between the session's weights and the weights of the oracle's case. */
static double find_distance(const rig *r, const bgi_test_oracle *oracle, const char *case_name)
{
    double distance = 0.0;
    bg_error error = {0};

    for (int i = 0; i < WEIGHTS; i++) {
        const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, case_name, names[i]);
        bg_weight weight;

        require(bg_weights_find(bg_session_weights(r->session), names[i], &weight, &error), &error);
        assert_int_equal(weight.type.dtype, BG_FLOAT32);
        for (int64_t e = 0; e < wanted->count; e++)
            distance = fmax(distance, fabs(((const float *)weight.data)[e] - wanted->values[e]));
    }
    return distance;
}

/* Each case matches its expected values and differs from those of other cases. Without a scale, small gradients are
 * lost or rounded to a few bits. */
static void test_mixed_precision_trains_as_pytorch(void **state)
{
    static const struct {
        const char *name;
        bg_dtype dtype;
        double scaling;
    } cases[] = {{"scaled", BG_FLOAT16, 0x1p16}, {"unscaled", BG_FLOAT16, 1.0}, {"float32", BG_FLOAT32, 1.0}};
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/float16.txt");

    (void)state;
    for (int c = 0; c < 6; c++) {
        bg_options options = make_options(cases[c % 3].scaling);
        rig r;

        options.numerics.kernels = c < 3 ? BG_KERNELS_FAST : BG_KERNELS_REFERENCE;
        r = open_rig(cases[c % 3].dtype, BG_FLOAT32, &options);
        set_start(&r, oracle);
        for (int step = 0; step < STEPS; step++)
            update(&r, oracle);
        for (int other = 0; other < 3; other++) {
            const double distance = find_distance(&r, oracle, cases[other].name);

            if ((distance <= 2e-6) != (other == c % 3))
                fail_msg("%s: %g from PyTorch's %s", cases[c % 3].name, distance, cases[other].name);
        }
        close_rig(&r);
    }
    bgi_test_oracle_close(oracle);
}

/* ---- overflow ---- */

/* Gradients beyond 65504 are infinite in float16. The update is skipped, no weight changes, and the scale halves until
 * gradients are finite. In float32 the same gradients are finite. */
static void test_overflow_is_skipped(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/float16.txt");
    unsigned char before[8192], after[8192];

    (void)state;
    for (int way = 0; way < 2; way++) {
        bg_options options = make_options(0x1p42);
        int skipped = 0;
        size_t size;
        rig r;

        options.numerics.auto_loss_scaling.enabled = true;
        options.numerics.auto_loss_scaling.output = true;
        options.numerics.auto_loss_scaling.maximum = 0x1p42;
        r = open_rig(way == 0 ? BG_FLOAT16 : BG_FLOAT32, BG_FLOAT32, &options);
        set_start(&r, oracle);
        size = copy_weights(&r, before);
        for (int u = 0; u < 16; u++) {
            const float scale = update(&r, oracle);

            copy_weights(&r, after);
            assert_true(scale <= (float)ldexp(1.0, 42 - u));
            if (memcmp(before, after, size) != 0)
                break;
            skipped++;
        }
        for (size_t i = 0; i < size / sizeof(float); i++)
            assert_true(isfinite(((const float *)(const void *)after)[i]));
        assert_true(way == 0 ? skipped >= 2 && skipped < 16 : skipped == 0);
        close_rig(&r);
    }
    bgi_test_oracle_close(oracle);
}

/* ---- every strategy ---- */

/* Everything is in float16: activations, stochastically rounded weights, accumulators of running means, and partial
 * sums. */
static void test_every_strategy_has_the_same_bits(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *schedule;
        uint32_t cores;
        bool shard, offload;
    } ways[] = {{BG_STRATEGY_SINGLE, NULL, 1, false, false},
                {BG_STRATEGY_SHARDED, NULL, 2, true, false},
                {BG_STRATEGY_PIPELINED, "interleaved", 2, false, true},
                {BG_STRATEGY_PIPELINED, "zb-h1", 1, true, false},
                {BG_STRATEGY_PIPELINED, "gpipe", 2, true, true},
                {BG_STRATEGY_PHASED, NULL, 1, false, false}};
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/float16.txt");
    unsigned char start[8192], wanted[8192], found[8192];
    size_t size = 0;

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        bg_options options = make_options(0x1p16);
        rig r;

        options.execution.strategy = ways[i].strategy;
        options.execution.schedule = ways[i].schedule;
        options.execution.cores = ways[i].cores;
        options.replicas.count = 2;
        options.execution.gradient_accumulation = 2;
        options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
        options.numerics.accumulator_type = BG_ACCUMULATOR_SAME;
        options.numerics.stochastic_rounding = true;
        options.numerics.partials = BG_FLOAT16;
        options.numerics.max_gradient_norm = 0.5 * tiny;
        options.memory.offload_optimizer = ways[i].offload;
        options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = ways[i].shard;
        options.memory.locations[BG_LOCATION_ACCUMULATORS].minimum_elements_sharded = 2;
        r = open_rig(BG_FLOAT16, BG_FLOAT16, &options);
        copy_weights(&r, start);
        for (int step = 0; step < STEPS; step++)
            update(&r, oracle);
        if (i == 0)
            size = copy_weights(&r, wanted);
        else
            assert_int_equal(copy_weights(&r, found), size);
        if (i > 0 && memcmp(found, wanted, size) != 0)
            fail_msg("way %d has other bits", (int)i);
        close_rig(&r);
    }
    assert_memory_not_equal(start, wanted, size);
    for (size_t i = 1; i < size; i += 2) /* little-endian; exponents of infinities and NaN */
        assert_true((wanted[i] & 0x7c) != 0x7c);
    bgi_test_oracle_close(oracle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_precision_trains_as_pytorch),
        cmocka_unit_test(test_overflow_is_skipped),
        cmocka_unit_test(test_every_strategy_has_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
