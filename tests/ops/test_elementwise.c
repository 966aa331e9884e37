/*
 * test_elementwise.c: compares functions of one and two elements with PyTorch and finite differences, and conversions
 * bit by bit.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "kernels/elementwise/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

/* Other functions are in test_functions.c. */
enum { OLDEST_COUNT = BG_RECIPROCAL + 1 };
static const char *const unary_names[OLDEST_COUNT] = {
    [BG_RELU] = "relu",     [BG_GELU] = "gelu",       [BG_GELU_TANH] = "gelu_tanh",
    [BG_TANH] = "tanh",     [BG_SIGMOID] = "sigmoid", [BG_EXP] = "exp",
    [BG_LOG] = "log",       [BG_SQRT] = "sqrt",       [BG_SQUARE] = "square",
    [BG_NEGATE] = "negate", [BG_ABS] = "abs",         [BG_RECIPROCAL] = "reciprocal"};
static const char *const binary_names[BG_BINARY_COUNT] = {
    [BG_ADD] = "add",       [BG_SUBTRACT] = "subtract", [BG_MULTIPLY] = "multiply",
    [BG_DIVIDE] = "divide", [BG_MAXIMUM] = "maximum",   [BG_MINIMUM] = "minimum"};

static bg_value build_unary(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_elementwise_unary(graph, "f", *(const bg_unary *)argument, inputs[0]);
}

static bg_value build_binary(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_elementwise_binary(graph, "f", *(const bg_binary *)argument, inputs[0], inputs[1]);
}

static bg_value build_scale(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    return bg_scale(graph, "s", inputs[0], 1.5, -0.25);
}

static bg_value build_cast(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_cast(graph, "c", inputs[0], *(const bg_dtype *)argument);
}

static bg_value build_standardize(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bgi_standardize_attributes *a = argument;

    return bg_standardize(graph, "s", inputs[0], a->dtype, a->divisor, a->mean, a->deviation);
}

static void test_unary_equals_pytorch(void **state)
{
    (void)state;
    for (bg_unary function = 0; function < (bg_unary)OLDEST_COUNT; function++) {
        char name[64];

        snprintf(name, sizeof name, "unary_%s", unary_names[function]);
        bgi_test_build_case(bgi_test_ops_oracle, name, BG_FLOAT32, build_unary, &function, 1e-6, 2e-6);
        bgi_test_build_case(bgi_test_ops_oracle, name, BG_FLOAT64, build_unary, &function, 1e-8, 1e-8);
        bgi_test_build_case(bgi_test_ops_oracle, name, BG_BFLOAT16, build_unary, &function, 0.05, 0.04);
        if (function != BG_RECIPROCAL) /* one of the gradients is larger than the largest float16 */
            bgi_test_build_case(bgi_test_ops_oracle, name, BG_FLOAT16, build_unary, &function, 0.01, 0.006);
    }
}

static void test_binary_equals_pytorch(void **state)
{
    static const char *const kinds[] = {"", "_right", "_left", "_both", "_scalar"};

    (void)state;
    for (bg_binary function = 0; function < BG_BINARY_COUNT; function++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            char name[64];

            snprintf(name, sizeof name, "binary_%s%s", binary_names[function], kinds[k]);
            bgi_test_build_case(bgi_test_ops_oracle, name, BG_FLOAT32, build_binary, &function, 1e-5, 1e-6);
            bgi_test_build_case(bgi_test_ops_oracle, name, BG_FLOAT64, build_binary, &function, 1e-7, 1e-8);
        }
    bgi_test_build_case(bgi_test_ops_oracle, "scale", BG_FLOAT32, build_scale, NULL, 1e-6, 1e-6);
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT64, 3, 4);
    const bg_type pair[] = {bg_tensor3(BG_FLOAT64, 2, 1, 4), bg_matrix(BG_FLOAT64, 3, 1)};
    const bgi_scale_attributes scale = {.alpha = -2.5, .beta = 1.0};
    const bgi_cast_attributes cast = {.dtype = BG_FLOAT64};
    const bgi_standardize_attributes standardize = {255.0f, 0.25f, 0.5f, BG_FLOAT64};

    (void)state;
    for (bg_unary function = 0; function < (bg_unary)OLDEST_COUNT; function++) {
        const bgi_unary_attributes attributes = {.function = function};

        bgi_test_gradient(&bgi_op_unary, &attributes, &x, 1, 0.3, 2.0);
        if (function != BG_LOG && function != BG_SQRT)
            bgi_test_gradient(&bgi_op_unary, &attributes, &x, 1, -2.0, -0.3);
    }
    for (bg_binary function = 0; function < BG_BINARY_COUNT; function++)
        bgi_test_gradient(&bgi_op_binary, &(bgi_binary_attributes){function}, pair, 2, 0.5, 2.0);
    bgi_test_gradient(&bgi_op_scale, &scale, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_cast, &cast, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_standardize, &standardize, &x, 1, 0.0, 255.0);
}

/* relu's gradient does not read x, so x need not be stored for it. */
static void test_backward_keeps_one_of_x_and_y(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 4);

    (void)state;
    for (bg_unary function = 0; function < (bg_unary)OLDEST_COUNT; function++) {
        bg_graph *graph = NULL;
        bg_value x, y, dy, dx;

        if (function == BG_NEGATE)
            continue;
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_input(graph, "x", &type);
        dy = bg_graph_input(graph, "dy", &type);
        y = bg_elementwise_unary(graph, "f", function, x);
        bgi_test_derive(graph, y, dy, &x, 1, &dx);
        assert_int_equal(graph->ops[1].inputs[1].id, graph->ops[1].inputs[2].id);
        if (function == BG_RELU)
            assert_int_equal(graph->ops[1].inputs[1].id, y.id);
        if (function == BG_GELU)
            assert_int_equal(graph->ops[1].inputs[1].id, x.id);
        bg_graph_destroy(graph);
    }
}

/* Runs a single float32 op on the given elements. */
static void run_elements(bgi_test_build build, const void *argument, uint32_t operand_count, const double *elements,
                         double *out)
{
    const bg_type type = bg_vector(BG_FLOAT32, 1);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value inputs[2], y;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    for (uint32_t i = 0; i < operand_count; i++)
        inputs[i] = bg_graph_input(graph, i == 0 ? "a" : "b", &type);
    y = build(graph, inputs, argument);
    bgi_test_interpreter_init(&interpreter, graph);
    for (uint32_t i = 0; i < operand_count; i++)
        bgi_test_set(&interpreter, inputs[i], &elements[i]);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, out);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_nan_is_never_hidden(void **state)
{
    const bg_unary relu = BG_RELU;
    const double pairs[][2] = {{NAN, 1.0}, {1.0, NAN}};
    double y;

    (void)state;
    run_elements(build_unary, &relu, 1, (double[]){NAN}, &y);
    assert_true(isnan(y));
    for (bg_binary function = BG_MAXIMUM; function <= BG_MINIMUM; function++)
        for (int i = 0; i < 2; i++) {
            run_elements(build_binary, &function, 2, pairs[i], &y);
            assert_true(isnan(y));
        }
}

static void test_integers_truncate_and_saturate(void **state)
{
    const bg_dtype to_byte = BG_UINT8, to_int = BG_INT32;
    const double cases[][3] = {
        {-3.7, 0, -3}, {3.7, 3, 3}, {300.0, 255, 300}, {1e10, 255, 2147483647}, {-1e10, 0, -2147483648.0}, {NAN, 0, 0}};
    double y;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_elements(build_cast, &to_byte, 1, &cases[i][0], &y);
        assert_true(y == cases[i][1]);
        run_elements(build_cast, &to_int, 1, &cases[i][0], &y);
        assert_true(y == cases[i][2]);
    }
}

static void test_narrow_floats_have_pytorch_bits(void **state)
{
    static const bg_dtype dtypes[] = {BG_BFLOAT16, BG_FLOAT16};

    (void)state;
    for (int d = 0; d < 2; d++) {
        const bgi_test_tensor *x = bgi_test_oracle_find(bgi_test_ops_oracle, bg_dtype_name(dtypes[d]), "in0");
        const bgi_test_tensor *wanted = bgi_test_oracle_find(bgi_test_ops_oracle, bg_dtype_name(dtypes[d]), "y");

        for (int64_t i = 0; i < x->count; i++) {
            double y;

            run_elements(build_cast, &dtypes[d], 1, &x->values[i], &y);
            /* printed with nine digits, so compared as float32 */
            assert_true((float)y == (float)wanted->values[i]);
        }
    }
}

/* An op on float32 and a 16-bit type, or on two different 16-bit types, returns float32. */
static void test_mixtures_are_float32(void **state)
{
    static const bg_dtype dtypes[][2] = {
        {BG_FLOAT32, BG_FLOAT16}, {BG_FLOAT16, BG_FLOAT32}, {BG_BFLOAT16, BG_FLOAT16}, {BG_FLOAT32, BG_BFLOAT16}};

    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (int op = 0; op < 4; op++) {
            const bg_type types[] = {op == 3 ? bg_tensor4(dtypes[d][0], 1, 1, 3, 3) : bg_matrix(dtypes[d][0], 3, 3),
                                     op == 3 ? bg_tensor4(dtypes[d][1], 2, 1, 3, 3) : bg_matrix(dtypes[d][1], 3, 3)};
            bg_value x, w, y;
            bg_graph *graph;

            assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
            x = bg_graph_input(graph, "x", &types[0]);
            w = bg_graph_parameter(graph, "w", &types[1], NULL);
            y = op == 0   ? bg_add(graph, x, w)
                : op == 1 ? bg_matmul(graph, NULL, x, w, false, true)
                : op == 2 ? bg_linear(graph, NULL, x, w, (bg_value){0})
                          : bg_conv2d(graph, NULL, x, w, (bg_value){0}, NULL);
            assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
            assert_int_equal(bg_graph_type(graph, y).dtype, BG_FLOAT32);
            assert_int_equal(bg_graph_op_count(graph), dtypes[d][0] == BG_BFLOAT16 ? 3 : 2);
            bg_graph_destroy(graph);
        }
}

static void test_standardize_has_torchvision_bits(void **state)
{
    const bgi_test_tensor *x = bgi_test_oracle_find(bgi_test_ops_oracle, "standardize", "in0");
    const bgi_test_tensor *wanted = bgi_test_oracle_find(bgi_test_ops_oracle, "standardize", "y");
    const bg_type type = bg_vector(BG_UINT8, 256);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value input, y;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    input = bg_graph_input(graph, "pixels", &type);
    y = bg_standardize(graph, NULL, input, BG_FLOAT32, 255.0f, 0.1307f, 0.3081f);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, input, x->values);
    bgi_test_interpret(&interpreter);
    for (int i = 0; i < 256; i++)
        assert_true(((const float *)bgi_test_data(&interpreter, y))[i] == (float)wanted->values[i]);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_shape_errors_say_what_would_be_right(void **state)
{
    const bg_unary relu = BG_RELU, none = (bg_unary)99;
    const bg_binary add = BG_ADD;
    const bg_dtype no_dtype = BG_DTYPE_NONE;
    const bgi_standardize_attributes to_bytes = {255.0f, 0.0f, 1.0f, BG_UINT8},
                                     no_deviation = {255.0f, 0.0f, 0.0f, BG_FLOAT32};
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), ids = bg_vector(BG_INT32, 3);

    (void)state;
    bgi_test_build_fails(build_unary, &relu, &ids, 1, BG_ERROR_SHAPE,
                         "unary `f`: x is int32[3]; its elements must be float32, bfloat16, float16 or float64");
    bgi_test_build_fails(build_unary, &none, &x, 1, BG_ERROR_INVALID, "function 99 is not one of bg_unary (0 to 42)");
    bgi_test_build_fails(build_binary, &add, (bg_type[]){x, bg_vector(BG_FLOAT32, 2)}, 2, BG_ERROR_SHAPE,
                         "a float32[2,3] and b float32[2] do not broadcast: dimension 1 from the end is 3 and 2");
    bgi_test_build_fails(build_binary, &add, (bg_type[]){x, bg_vector(BG_FLOAT64, 3)}, 2, BG_ERROR_SHAPE,
                         "a is float32[2,3] but b is float64[3]; they must have one element type");
    bgi_test_build_fails(build_cast, &no_dtype, &x, 1, BG_ERROR_INVALID, "element type 0 is not one of");
    bgi_test_build_fails(build_standardize, &to_bytes, &x, 1, BG_ERROR_INVALID, "the result is uint8");
    bgi_test_build_fails(build_standardize, &no_deviation, &x, 1, BG_ERROR_INVALID, "neither may be zero");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_equals_pytorch),
        cmocka_unit_test(test_binary_equals_pytorch),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_backward_keeps_one_of_x_and_y),
        cmocka_unit_test(test_nan_is_never_hidden),
        cmocka_unit_test(test_integers_truncate_and_saturate),
        cmocka_unit_test(test_narrow_floats_have_pytorch_bits),
        cmocka_unit_test(test_mixtures_are_float32),
        cmocka_unit_test(test_standardize_has_torchvision_bits),
        cmocka_unit_test(test_shape_errors_say_what_would_be_right),
    };

    return cmocka_run_group_tests(tests, bgi_test_open_ops_oracle, bgi_test_close_ops_oracle);
}
