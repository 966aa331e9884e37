/*
 * test_fused_norms.c: training with batch norms that are fused with the ops after them gives the same losses and
 * weights, to the bit, as separate ops, under every strategy. This holds with every kind of recomputation, in float32,
 * bfloat16 and float16, with the processor's kernels and the reference kernels.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/ops.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/train.h"

enum { UPDATES = 2, MICRO_BATCH = 4, SIZE = 9, CHANNELS = 5, CLASSES = 10 };

static bg_precision precision = BG_PRECISION_32;

static bg_value add_conv(bg_graph *graph, const char *name, bg_value x, int64_t channels, int64_t window,
                         int64_t stride)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    char norm[32];

    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = window / 2;
    x = bg_conv2d_layer(graph, name, x, channels, window, window, false, &options);
    snprintf(norm, sizeof norm, "%s.norm", name);
    return bg_batch_norm_layer(graph, norm, x, 0.1, 1e-5);
}

/* Builds norms with every kind of step. The sums of B1 and B2 add a block's input and the result of another norm; the
 * sum of B3 is not followed by a function. A norm of B3 reads a value that other ops read too, and a norm of B4 has one
 * element in each channel. The last norm of B4 has no steps. */
static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type type = bg_tensor4(BG_FLOAT32, micro_batch, 3, SIZE, SIZE), label = bg_vector(BG_UINT8, micro_batch);
    const bg_pool2d_options whole = bg_pool2d_defaults((SIZE + 1) / 2);
    const bg_value input = bg_graph_input(graph, "x", &type), labels = bg_graph_input(graph, "labels", &label);
    bg_value x, y, loss;

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_relu(graph, add_conv(graph, "stem", input, CHANNELS, 3, 1));
    y = bg_elementwise_unary(graph, NULL, BG_HARD_SWISH, add_conv(graph, "one", x, CHANNELS, 3, 1));
    x = bg_relu(graph, bg_add(graph, x, add_conv(graph, "two", y, CHANNELS, 3, 1)));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    y = bg_tanh(graph, add_conv(graph, "three", x, 2 * CHANNELS, 3, 2));
    y = add_conv(graph, "four", y, 2 * CHANNELS, 3, 1);
    x = bg_sigmoid(graph, bg_add(graph, y, add_conv(graph, "shortcut", x, 2 * CHANNELS, 1, 2)));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    y = bg_silu(graph, bg_batch_norm_layer(graph, "before", x, 0.1, 1e-5));
    x = bg_add(graph, add_conv(graph, "five", y, 2 * CHANNELS, 3, 1), x);
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    y = bg_flatten(graph, NULL, bg_avg_pool2d(graph, NULL, x, &whole));
    y = bg_relu(graph, bg_batch_norm_layer(graph, "row", bg_linear_layer(graph, "six", y, 20, true), 0.1, 1e-5));
    y = bg_batch_norm_layer(graph, "last", bg_linear_layer(graph, "out", y, CLASSES, true), 0.1, 1e-5);
    loss = bg_cross_entropy(graph, "loss", y, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

static const test_model model = {"norms", build};

static uint32_t count_calls(const bg_plan *plan, const char *name)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++) {
                const bgi_call *call = &plan->devices[d].instructions[i].calls[c];

                count += call->type != NULL && strcmp(call->type->name, name) == 0;
            }
    return count;
}

/* Runs with and without fusion; checks that all bytes of losses and weights equal `expected`, or sets it. */
static void check(bg_options options, test_result *expected, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    size_t bytes[2] = {0, 0};

    for (int is_fused = 0; is_fused < 2; is_fused++) {
        bg_plan *plan;
        test_result result;

        options.numerics.no_fusion = !is_fused;
        plan = test_train_plan(&model, MICRO_BATCH, &optimizer, &options, what);
        if (is_fused != (count_calls(plan, "fused_batch_norm") > 0) ||
            is_fused != (count_calls(plan, "fused_batch_norm_backward") > 0) ||
            is_fused == (count_calls(plan, "batch_norm") > count_calls(plan, "fused_batch_norm")))
            fail_msg("%s: %u fused norms of %u with%s fusion", what, count_calls(plan, "fused_batch_norm"),
                     count_calls(plan, "batch_norm"), is_fused ? "" : "out");
        for (uint32_t d = 0; d < plan->device_count; d++)
            bytes[is_fused] += plan->devices[d].arena_bytes;
        result = test_train_run(plan, &options, NULL, 0, UPDATES, what);
        if (expected->bytes == NULL) {
            float loss;

            memcpy(&loss, result.bytes, sizeof loss);
            assert_true(loss > 0.5f && loss < 10.0f); /* not NaN, which would hide differences */
            *expected = result;
        } else {
            test_train_expect(result, expected, what);
        }
    }
    if (bytes[1] > bytes[0])
        fail_msg("%s: %zu bytes, and %zu without fusion", what, bytes[1], bytes[0]);
}

static const struct {
    bg_strategy strategy;
    const char *schedule;
    bg_recompute recompute;
    bg_recompute_order order;
} ways[] = {
    {BG_STRATEGY_SINGLE, NULL, BG_RECOMPUTE_NONE, BG_RECOMPUTE_INTERLEAVED},
    {BG_STRATEGY_SINGLE, NULL, BG_RECOMPUTE_STAGE, BG_RECOMPUTE_INTERLEAVED},
    {BG_STRATEGY_SHARDED, NULL, BG_RECOMPUTE_STAGE, BG_RECOMPUTE_THEN},
    {BG_STRATEGY_PIPELINED, "interleaved", BG_RECOMPUTE_NONE, BG_RECOMPUTE_INTERLEAVED},
    {BG_STRATEGY_PIPELINED, "grouped", BG_RECOMPUTE_CHECKPOINTS, BG_RECOMPUTE_THEN},
    {BG_STRATEGY_PIPELINED, "zb-h1", BG_RECOMPUTE_NONE, BG_RECOMPUTE_INTERLEAVED},
    {BG_STRATEGY_PIPELINED, "zb-h1", BG_RECOMPUTE_STAGE, BG_RECOMPUTE_INTERLEAVED},
    {BG_STRATEGY_PHASED, NULL, BG_RECOMPUTE_NONE, BG_RECOMPUTE_INTERLEAVED},
    {BG_STRATEGY_PHASED, NULL, BG_RECOMPUTE_STAGE, BG_RECOMPUTE_THEN},
    {BG_STRATEGY_SINGLE, NULL, BG_RECOMPUTE_FRACTION, BG_RECOMPUTE_THEN},
};

static void check_ways(bg_kernel_policy kernels, size_t every)
{
    test_result expected = {0};

    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w += every) {
        bg_options options = bg_options_defaults();
        char what[100];

        options.execution.device_iterations = UPDATES;
        options.execution.gradient_accumulation = 6;
        options.execution.cores = 2;
        options.execution.wait_limit_s = 60;
        options.reporting.output_mode = BG_OUTPUT_ALL;
        options.numerics.seed = 5;
        options.numerics.kernels = kernels;
        options.numerics.precision = precision;
        options.execution.strategy = ways[w].strategy;
        options.execution.schedule = ways[w].schedule;
        options.memory.recompute = ways[w].recompute;
        options.memory.recompute_order = ways[w].order;
        options.memory.recompute_fraction = 0.4;
        snprintf(what, sizeof what, "precision %d, kernels %d, way %zu", (int)precision, (int)kernels, w);
        check(options, &expected, what);
    }
    free(expected.bytes);
}

static void test_every_way(void **state)
{
    static const bg_precision precisions[] = {BG_PRECISION_32, BG_PRECISION_BF16_MIXED, BG_PRECISION_16_MIXED,
                                              BG_PRECISION_BF16_TRUE};

    (void)state;
    for (int d = 0; d < 4; d++) {
        precision = precisions[d];
        check_ways(BG_KERNELS_FAST, getenv("BRIGADE_TEST_QUICK") != NULL ? 4 : 1);
    }
    precision = BG_PRECISION_32;
}

static void test_other_kernels(void **state)
{
    static const bg_kernel_policy policies[] = {BG_KERNELS_REFERENCE, BG_KERNELS_PORTABLE, BG_KERNELS_AVX2};

    (void)state;
    for (int p = 0; p < 3; p++)
        check_ways(policies[p], 5);
    precision = BG_PRECISION_16_MIXED;
    check_ways(BG_KERNELS_REFERENCE, 5);
    precision = BG_PRECISION_32;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_way), cmocka_unit_test(test_other_kernels)};

    return cmocka_run_group_tests_name("parity/fused_norms", tests, NULL, NULL);
}
