/*
 * test_fused_conv.c: inference with convolutions that are fused with the ops after them gives the same bits as the
 * separate ops. The test runs every strategy, on one and two cores, with the processor's kernels and the reference
 * kernels.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/ops.h>
#include <brigade/session.h>

#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

enum { IMAGES = 3, SIZE = 12, CHANNELS = 6, CLASSES = 5 };

static bg_value add_conv(bg_graph *graph, const char *name, bg_value x, int64_t channels, int64_t window,
                         int64_t stride, int64_t groups, bool norms)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    char norm[32];

    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = window / 2;
    options.groups = groups;
    x = bg_conv2d_layer(graph, name, x, channels, window, window, !norms, &options);
    snprintf(norm, sizeof norm, "%s.norm", name);
    return norms ? bg_batch_norm_layer(graph, norm, x, 0.1, 1e-5) : x;
}

/* Builds two residual blocks, the second of which is wider and halves the image size, and a block with a depthwise
 * convolution.
 */
static bg_graph *build(void)
{
    const bg_type type = bg_tensor4(BG_FLOAT32, IMAGES, 3, SIZE, SIZE);
    const bg_pool2d_options whole = bg_pool2d_defaults(SIZE / 2);
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value x, y;

    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_relu(graph, add_conv(graph, "stem", bg_graph_input(graph, "images", &type), CHANNELS, 3, 1, 1, true));
    y = bg_relu(graph, add_conv(graph, "one", x, CHANNELS, 3, 1, 1, true));
    x = bg_relu(graph, bg_add(graph, add_conv(graph, "two", y, CHANNELS, 3, 1, 1, true), x));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    y = bg_silu(graph, add_conv(graph, "three", x, 2 * CHANNELS, 3, 2, 1, true));
    y = add_conv(graph, "four", y, 2 * CHANNELS, 3, 1, 1, true);
    x = bg_relu(graph, bg_add(graph, y, add_conv(graph, "shortcut", x, 2 * CHANNELS, 1, 2, 1, true)));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    y = bg_elementwise_unary(graph, NULL, BG_HARD_SWISH,
                             add_conv(graph, "depthwise", x, 2 * CHANNELS, 3, 1, 2 * CHANNELS, true));
    y = bg_add(graph, add_conv(graph, "pointwise", y, 2 * CHANNELS, 1, 1, 1, false), x);
    y = bg_flatten(graph, NULL, bg_avg_pool2d(graph, "pool", y, &whole));
    bg_graph_output(graph, "logits", bg_linear_layer(graph, "out", y, CLASSES, true));
    bg_block_end(graph);
    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    return graph;
}

static uint32_t count_fused(const bg_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++) {
                const bgi_call *call = &plan->devices[d].instructions[i].calls[c];

                count += call->type != NULL && strcmp(call->type->name, "fused_conv2d") == 0;
            }
    return count;
}

static void infer(const bg_options *options, bg_graph *graph, uint32_t expected_fused, float *logits)
{
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    float images[IMAGES * 3 * SIZE * SIZE];

    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        images[i] = (float)(i * 2654435761u % 2003u) / 1001.0f - 1.0f;
    if (bg_plan_create_inference(graph, options, &plan, &error) != BG_OK ||
        bg_session_create(plan, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(count_fused(plan), expected_fused);
    if (bg_session_run(session, (const void *[]){images}, (void *[]){logits}, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void test_the_bits_of_separate_ops(void **state)
{
    static const bg_kernel_policy policies[] = {BG_KERNELS_FAST, BG_KERNELS_AVX2, BG_KERNELS_PORTABLE,
                                                BG_KERNELS_REFERENCE};
    static const bg_strategy strategies[] = {BG_STRATEGY_SINGLE, BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED};

    (void)state;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        float expected[IMAGES * CLASSES] = {0}, logits[IMAGES * CLASSES];
        bg_options options = bg_options_defaults();

        options.numerics.initialize_missing = true;
        options.numerics.seed = 7;
        options.numerics.kernels = policies[p];
        options.numerics.no_fusion = true;
        options.execution.cores = 1;
        infer(&options, build(), 0, expected);
        assert_true(expected[0] == expected[0] && expected[0] != expected[1]);
        options.numerics.no_fusion = false;
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++)
            for (uint32_t cores = 1; cores <= 2; cores++) {
                options.execution.strategy = strategies[s];
                options.execution.cores = cores;
                infer(&options, build(), 8, logits);
                assert_memory_equal(logits, expected, sizeof expected);
            }
    }
}

/* Builds three blocks that share a norm, like a module that is called three times. */
static bg_graph *build_with_one_norm(void)
{
    static const char *const blocks[] = {"B1", "B2", "B3"}, *const vectors[] = {"gamma", "beta", "mean", "variance"};
    const bg_type type = bg_tensor4(BG_FLOAT32, IMAGES, 3, SIZE, SIZE), vector = bg_vector(BG_FLOAT32, CHANNELS);
    const bg_pool2d_options whole = bg_pool2d_defaults(SIZE);
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value x, shared[4];

    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    for (uint32_t i = 0; i < 4; i++) {
        const bg_initializer initializer = {BG_INITIALIZE_CONSTANT, 0.5 + 0.25 * i, 0.0};

        shared[i] =
            bg_graph_variable(graph, vectors[i], &vector, i < 2 ? BG_ROLE_PARAMETER : BG_ROLE_BUFFER, &initializer);
    }
    x = bg_graph_input(graph, "images", &type);
    for (uint32_t b = 0; b < 3; b++) {
        bg_block_begin(graph, blocks[b], BG_DEVICE_NONE);
        x = add_conv(graph, blocks[b], x, CHANNELS, 3, 1, 1, false);
        x = bg_relu(graph, bg_batch_norm(graph, NULL, x, shared[0], shared[1], shared[2], shared[3], 0.1, 1e-5));
        if (b == 2)
            bg_graph_output(graph, "logits",
                            bg_linear_layer(graph, "out",
                                            bg_flatten(graph, NULL, bg_avg_pool2d(graph, "pool", x, &whole)), CLASSES,
                                            true));
        bg_block_end(graph);
    }
    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    return graph;
}

/* In inference running statistics do not change, so every stage may read them. */
static void test_stages_share_a_norm(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *stages;
    } cases[] = {{BG_STRATEGY_SHARDED, NULL},
                 {BG_STRATEGY_PIPELINED, NULL},
                 {BG_STRATEGY_PIPELINED, "auto:2"},
                 {BG_STRATEGY_PHASED, "B1@0|B2@0|B3@0"},
                 {BG_STRATEGY_PHASED, "B1@0|B2@1|B3@0"}};
    float expected[IMAGES * CLASSES] = {0}, logits[IMAGES * CLASSES];
    bg_options options = bg_options_defaults();

    (void)state;
    options.numerics.initialize_missing = true;
    options.numerics.seed = 7;
    infer(&options, build_with_one_norm(), 3, expected);
    assert_true(expected[0] == expected[0] && expected[0] != expected[1]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int is_remote = 0; is_remote < 2; is_remote++) {
            options.execution.strategy = cases[i].strategy;
            options.execution.stages = cases[i].stages;
            options.memory.locations[BG_LOCATION_WEIGHTS].place = is_remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
            infer(&options, build_with_one_norm(), 3, logits);
            assert_memory_equal(logits, expected, sizeof expected);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_bits_of_separate_ops),
                                       cmocka_unit_test(test_stages_share_a_norm)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
