/*
 * test_conv_pool.c: compares the fused convolution, pool and relu with PyTorch, central differences, and the separate
 * ops.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/random.h>

#include "kernels/conv_pool/attributes.h"
#include "kernels/pool/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

static const struct {
    const char *name;
    bgi_conv2d_pool_attributes attributes;
} cases[] = {
    {"conv_pool_relu", {{0, 0}, {2, 2}, true}},
    {"conv_pool_padded", {{1, 1}, {2, 3}, true}},
    {"conv_pool_linear", {{0, 1}, {3, 2}, false}},
};

static void test_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bgi_test_op_case test = {.name = cases[i].name,
                                       .op_type = &bgi_op_conv2d_pool,
                                       .attributes = &cases[i].attributes,
                                       .inputs = {"x", "w", "b"},
                                       .outputs = {"y"},
                                       .has_kinks = true};

        bgi_test_op_case_run_all(oracle, &test, false);
        bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

enum { N = 16, C = 3, H = 9, W = 8, O = 4, CONVOLVED_W = W - 2, POOL_H = 2, POOL_W = 3 };

static void fill(const bgi_test_interpreter *interpreter, bg_value value, uint32_t stream)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);
    double elements[N * C * H * W];

    for (int64_t i = 0; i < bg_type_element_count(&type); i++) {
        uint32_t words[4];

        bg_philox((const uint32_t[]){(uint32_t)i, 0, 0, 0}, (const uint32_t[]){stream, 7}, words);
        elements[i] = words[0] * 0x1p-31 - 1.0;
    }
    bgi_test_set(interpreter, value, elements);
}

/* Converts an index in the convolution's plane to an offset in the window. */
static int offset_of(int32_t index)
{
    return index / CONVOLVED_W % POOL_H * POOL_W + index % CONVOLVED_W % POOL_W;
}

static void compare_results(const bgi_test_interpreter *interpreter, const bg_value fused[2],
                            const bg_value separate[2])
{
    const bg_type y_type = bg_graph_type(interpreter->graph, fused[0]);
    const uint8_t *offsets = bgi_test_data(interpreter, fused[1]);
    const int32_t *indices = bgi_test_data(interpreter, separate[1]);
    double y[N * O * H * W];

    assert_memory_equal(bgi_test_data(interpreter, fused[0]), bgi_test_data(interpreter, separate[0]),
                        bg_type_size_bytes(&y_type));
    bgi_test_get(interpreter, fused[0], y);
    for (int64_t i = 0; i < bg_type_element_count(&y_type); i++)
        assert_int_equal(offsets[i], y[i] > 0.0 ? offset_of(indices[i]) : 255);
}

/* Checks that conv2d, max_pool2d and relu, in this order, give the same bits as the fused op and choose the same
 * elements. In 16 bits many elements are equal only after rounding. */
static void compare_with_separate_ops(bg_dtype dtype)
{
    const bg_type x_type = bg_tensor4(dtype, N, C, H, W), w_type = bg_tensor4(dtype, O, C, 3, 3);
    const bg_type b_type = bg_vector(dtype, O);
    const bgi_conv2d_pool_attributes attributes = {{1, 0}, {POOL_H, POOL_W}, true};
    const bgi_pool2d_attributes pool = {
        .options = {.kernel = {POOL_H, POOL_W}, .stride = {POOL_H, POOL_W}, .dilation = {1, 1}}};
    bg_conv2d_options conv = bg_conv2d_defaults();
    bgi_test_interpreter interpreter;
    bg_value inputs[3], fused[2], separate[2], convolved;
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "x", &x_type);
    inputs[1] = bg_graph_parameter(graph, "w", &w_type, NULL);
    inputs[2] = bg_graph_parameter(graph, "b", &b_type, NULL);
    conv.padding[0] = 1;
    bg_graph_add(graph, &bgi_op_conv2d_pool, "fused", inputs, 3, &attributes, fused);
    convolved = bg_conv2d(graph, "conv", inputs[0], inputs[1], inputs[2], &conv);
    bg_graph_add(graph, &bgi_op_max_pool2d, "pool", &convolved, 1, &pool, separate);
    separate[0] = bg_relu(graph, separate[0]);
    bgi_test_interpreter_init(&interpreter, graph);
    for (uint32_t i = 0; i < 3; i++)
        fill(&interpreter, inputs[i], i);
    bgi_test_interpret(&interpreter);
    compare_results(&interpreter, fused, separate);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_equals_separate_ops(void **state)
{
    (void)state;
    compare_with_separate_ops(BG_FLOAT32);
    compare_with_separate_ops(BG_BFLOAT16);
    compare_with_separate_ops(BG_FLOAT16);
    compare_with_separate_ops(BG_FLOAT64);
}

/* Runs one 1 x 1 filter of 1 over one 2 x 2 window, so that the convolution's output is x + bias. */
static uint8_t offset_of_largest(const double x[4], double bias, bool relu, double *out_y)
{
    const bg_type x_type = bg_tensor4(BG_FLOAT32, 1, 1, 2, 2), w_type = bg_tensor4(BG_FLOAT32, 1, 1, 1, 1);
    const bg_type b_type = bg_vector(BG_FLOAT32, 1);
    const bgi_conv2d_pool_attributes attributes = {{0, 0}, {2, 2}, relu};
    bg_value inputs[3], outputs[2];
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    uint8_t where;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "x", &x_type);
    inputs[1] = bg_graph_parameter(graph, "w", &w_type, NULL);
    inputs[2] = bg_graph_parameter(graph, "b", &b_type, NULL);
    bg_graph_add(graph, &bgi_op_conv2d_pool, "fused", inputs, 3, &attributes, outputs);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, inputs[0], x);
    bgi_test_set(&interpreter, inputs[1], (const double[]){1.0});
    bgi_test_set(&interpreter, inputs[2], &bias);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, outputs[0], out_y);
    where = *(const uint8_t *)bgi_test_data(&interpreter, outputs[1]);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
    return where;
}

static void test_offsets(void **state)
{
    double y;

    (void)state;
    assert_int_equal(offset_of_largest((const double[]){1, 3, 3, 2}, 1, true, &y), 1);
    assert_true(y == 4.0);
    assert_int_equal(offset_of_largest((const double[]){-1, -3, -3, -2}, 0, true, &y), 255);
    assert_true(y == 0.0);
    assert_int_equal(offset_of_largest((const double[]){-1, 0, -3, 0}, 0, true, &y), 255);
    assert_true(y == 0.0);
    assert_int_equal(offset_of_largest((const double[]){-4, -3, -3, -2}, 0, false, &y), 3);
    assert_true(y == -2.0);
    assert_int_equal(offset_of_largest((const double[]){1, 3, NAN, 5}, 0, true, &y), 2);
    assert_true(isnan(y));
}

static void test_messages(void **state)
{
    const bg_type types[] = {bg_tensor4(BG_FLOAT32, 2, 1, 8, 8), bg_tensor4(BG_FLOAT32, 4, 1, 5, 5),
                             bg_vector(BG_FLOAT32, 4)};
    const bg_type wrong_bias[] = {types[0], types[1], bg_vector(BG_FLOAT32, 5)};
    const bgi_conv2d_pool_attributes good = {{0, 0}, {2, 2}, true}, huge = {{0, 0}, {16, 16}, true};
    const bgi_conv2d_pool_attributes wide = {{0, 0}, {2, 5}, true};

    (void)state;
    bgi_test_op_refuses(&bgi_op_conv2d_pool, &huge, types, 3, BG_ERROR_INVALID,
                        (const char *const[]){"16 x 16", "254", NULL});
    bgi_test_op_refuses(&bgi_op_conv2d_pool, &wide, types, 3, BG_ERROR_SHAPE,
                        (const char *const[]){"pool[1] is 5", "at most 4", "float32[2,4,4,4]", NULL});
    bgi_test_op_refuses(&bgi_op_conv2d_pool, &good, wrong_bias, 3, BG_ERROR_SHAPE,
                        (const char *const[]){"float32[5]", "float32[4]", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_equals_separate_ops),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
