/*
 * test_fused_products.c: products that are fused with the ops after them give the same bits as separate ops under every
 * strategy. This holds with every kind of recomputation, in float32, bfloat16 and float16, on meshes, and with the
 * processor's kernels and the reference kernels. Fusion does not increase the memory of any device.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/gpt.h>
#include <brigade/nn.h>
#include <brigade/ops.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/train.h"

enum { UPDATES = 2, MICRO_BATCH = 4, MOST_DEVICES = 8 };

static bg_dtype dtype = BG_FLOAT32;
static bg_mesh mesh = {1, 1, 1};

static bg_value build_gpt(bg_graph *graph, int64_t micro_batch)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = 24;
    options.heads = 2;
    options.sequence_length = 5;
    options.positions = 7;
    options.vocabulary = 21;
    options.micro_batch = micro_batch;
    options.dtype = dtype;
    bg_graph_set_mesh(graph, &mesh);
    options.checkpoint_layers = true;
    return bg_gpt_build(graph, &options).loss;
}

/* Builds a model with every kind of function, layers in pieces, and biases in and after the product. Pre-activations
 * are read again, read by another block, or returned as an output. */
static bg_value build_layers(bg_graph *graph, int64_t micro_batch)
{
    const bg_type type = bg_matrix(BG_FLOAT32, micro_batch, 13);
    const bg_value none = {0}, input = bg_graph_input(graph, "x", &type);
    bg_parallel_linear_options options = bg_parallel_linear_defaults(BG_MESH_TENSOR_2);
    bg_value x, sum, loss;

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_gelu(graph, bg_linear_layer(graph, "one", bg_cast(graph, NULL, input, dtype), 37, true));
    x = bg_tanh(graph, bg_linear_layer(graph, "two", x, 19, false));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    sum = bg_parallel_linear_layer(graph, "three", x, 66, &options);
    x = bg_add(graph, bg_gelu_tanh(graph, sum), sum);
    x = bg_relu(graph, bg_serialized_linear_layer(graph, "four", x, 30, true, BG_SERIALIZE_INPUT_CHANNELS, 2));
    options.in_out = true;
    sum = bg_parallel_linear_layer(graph, "five", x, 11, &options);
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "six", bg_gelu(graph, sum), 12, true);
    bg_graph_output(graph, "sum", bg_cast(graph, NULL, x, BG_FLOAT32));
    x = bg_sigmoid(graph, x);
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_gelu_tanh(
        graph,
        bg_linear(graph, NULL, x,
                  bg_cast(graph, NULL,
                          bg_graph_parameter(graph, "w", &(bg_type){.dtype = BG_FLOAT32, .rank = 2, .dims = {8, 12}},
                                             &(bg_initializer){BG_INITIALIZE_UNIFORM, -1, 1}),
                          dtype),
                  none));
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, bg_cast(graph, NULL, x, BG_FLOAT32), NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

static bg_options make_options(uint32_t accumulation)
{
    bg_options options = bg_options_defaults();

    options.execution.device_iterations = UPDATES;
    options.execution.gradient_accumulation = accumulation;
    options.replicas.count = bg_mesh_replica_count(&mesh);
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 5;
    options.execution.cores = 2;
    options.execution.wait_limit_s = 60;
    return options;
}

static uint32_t count_fused(const bg_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++) {
                const bgi_call *call = &plan->devices[d].instructions[i].calls[c];
                count += call->type != NULL && strcmp(call->type->name, "fused_product") == 0;
            }
    return count;
}

/* Runs with and without fusion; checks that all bytes of losses and weights equal `expected`, or sets it. */
static void check(const test_model *model, bg_options options, test_result *expected, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    size_t bytes[MOST_DEVICES] = {0};

    for (int is_fused = 0; is_fused < 2; is_fused++) {
        bg_plan *plan;
        test_result result;
        options.numerics.no_fusion = !is_fused;
        plan = test_train_plan(model, MICRO_BATCH, &optimizer, &options, what);
        if ((count_fused(plan) > 0) != is_fused)
            fail_msg("%s: %u fused products with%s fusion", what, count_fused(plan), is_fused ? "" : "out");
        for (uint32_t d = 0; d < plan->device_count; d++) {
            if (is_fused && plan->devices[d].arena_bytes > bytes[d])
                fail_msg("%s: device %u has %zu bytes, and %zu without fusion", what, d, plan->devices[d].arena_bytes,
                         bytes[d]);
            bytes[d] = plan->devices[d].arena_bytes;
        }
        result = test_train_run(plan, &options, NULL, 0, UPDATES, what);
        if (expected->bytes == NULL)
            *expected = result;
        else
            test_train_expect(result, expected, what);
    }
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

static void check_ways(const test_model *model, bg_kernel_policy kernels, size_t every)
{
    test_result expected = {0};

    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w += every) {
        bg_options options = make_options(6);
        char what[100];
        options.numerics.kernels = kernels;
        options.execution.strategy = ways[w].strategy;
        options.execution.schedule = ways[w].schedule;
        options.memory.recompute = ways[w].recompute;
        options.memory.recompute_order = ways[w].order;
        options.memory.recompute_fraction = 0.4;
        snprintf(what, sizeof what, "%s, %s, way %zu", model->name, bg_dtype_name(dtype), w);
        check(model, options, &expected, what);
    }
    free(expected.bytes);
}

static const test_model models[] = {{"gpt", build_gpt}, {"layers", build_layers}};

static void test_every_way(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++)
        for (int d = 0; d < 3; d++) {
            static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16};
            dtype = dtypes[d];
            check_ways(&models[m], BG_KERNELS_FAST, getenv("BRIGADE_TEST_QUICK") != NULL ? 4 : 1);
        }
    dtype = BG_FLOAT32;
}

static void test_reference_kernels(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++)
        check_ways(&models[m], BG_KERNELS_REFERENCE, 5);
}

/* For a column-parallel layer, the kernel that computes a shard also applies the function. If sums of a product are
 * partial, replicas reduce them before the bias is added, so no product can be fused on a mesh with both tensor axes.
 */
static void test_meshes(void **state)
{
    static const bg_mesh meshes[] = {{1, 2, 1}, {1, 1, 2}, {2, 2, 1}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        test_result expected = {0};
        char what[60];
        bg_options options;
        mesh = meshes[i];
        options = make_options(2);
        snprintf(what, sizeof what, "gpt on mesh %u x %u x %u", mesh.data, mesh.tensor_1, mesh.tensor_2);
        check(&models[0], options, &expected, what);
        options.execution.strategy = BG_STRATEGY_PIPELINED;
        options.memory.recompute = BG_RECOMPUTE_STAGE;
        check(&models[0], options, &expected, what);
        free(expected.bytes);
    }
    mesh = (bg_mesh){1, 1, 1};
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_way), cmocka_unit_test(test_reference_kernels),
                                       cmocka_unit_test(test_meshes)};

    return cmocka_run_group_tests_name("parity/fused_products", tests, NULL, NULL);
}
