/*
 * test_conv.c: compares convolution with PyTorch and central differences, and checks the messages of its shape rule.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "kernels/conv/attributes.h"
#include "ops/ops.h"
#include "support/op_case.h"

#define DEFAULTS .struct_bytes = sizeof(bg_conv2d_options), .stride = {1, 1}, .dilation = {1, 1}, .groups = 1

static const bg_conv2d_options plain = {DEFAULTS};

static const struct {
    const char *name;
    bg_conv2d_options options;
    bool has_bias;
} cases[] = {
    {"conv_plain", {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1}, true},
    {"conv_strided", {.stride = {2, 3}, .padding = {1, 2}, .dilation = {1, 1}, .groups = 1}, false},
    {"conv_dilated", {.stride = {1, 1}, .padding = {1, 1}, .dilation = {2, 3}, .groups = 1}, true},
    {"conv_groups", {.stride = {2, 2}, .dilation = {1, 1}, .groups = 2}, true},
    {"conv_depthwise", {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 3}, true},
    {"conv_pointwise", {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1}, false},
};

static void test_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bgi_conv2d_attributes attributes = {cases[i].options};
        const bgi_test_op_case test = {.name = cases[i].name,
                                       .op_type = &bgi_op_conv2d,
                                       .attributes = &attributes,
                                       .inputs = {"x", "w", cases[i].has_bias ? "b" : NULL},
                                       .outputs = {"y"}};

        bgi_test_op_case_run_all(oracle, &test, true);
        bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

/* Only requested gradients are added: no input gradient for images, no bias gradient for a frozen bias. */
static void test_gradient_adds_what_is_needed(void **state)
{
    const bg_type x_type = bg_tensor4(BG_FLOAT32, 2, 1, 5, 5), w_type = bg_tensor4(BG_FLOAT32, 3, 1, 3, 3);
    const bg_type b_type = bg_vector(BG_FLOAT32, 3), y_type = bg_tensor4(BG_FLOAT32, 2, 3, 3, 3);
    const bgi_conv2d_attributes attributes = {plain};
    const bool needs[] = {false, true, false};
    const bg_type types[] = {x_type, w_type, b_type, y_type};
    bg_value inputs[3], gradients[3] = {{0}}, output, dy;
    bg_graph *graph = NULL;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "x", &x_type);
    inputs[1] = bg_graph_parameter(graph, "w", &w_type, NULL);
    inputs[2] = bg_graph_parameter(graph, "b", &b_type, NULL);
    dy = bg_graph_input(graph, "dy", &y_type);
    output = bg_conv2d(graph, "conv", inputs[0], inputs[1], inputs[2], NULL);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_op_gradient gradient = {
        .graph = graph,
        .op = {.name = "conv", .types = types, .input_count = 3, .output_count = 1, .attributes = &attributes},
        .inputs = inputs,
        .outputs = &output,
        .output_gradients = &dy,
        .needs = needs,
        .input_gradients = gradients};
    assert_int_equal(bgi_op_conv2d.gradient(&gradient, NULL), BG_OK);
    assert_int_equal(bg_graph_op_count(graph), 2);
    assert_true(bg_value_is_null(gradients[0]));
    assert_false(bg_value_is_null(gradients[1]));
    assert_true(bg_value_is_null(gradients[2]));
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    const bg_type x = bg_tensor4(BG_FLOAT32, 40, 1, 28, 28), w = bg_tensor4(BG_FLOAT32, 10, 1, 5, 5);
    const bg_type b = bg_vector(BG_FLOAT32, 10);
    const struct {
        bg_type types[3];
        bg_conv2d_options options;
        bg_status status;
        const char *parts[4];
    } wrong[] = {
        {{x, bg_tensor4(BG_FLOAT32, 10, 3, 5, 5), b},
         {DEFAULTS},
         BG_ERROR_SHAPE,
         {"float32[10,3,5,5]", "C/groups = 1", "float32[40,1,28,28]"}},
        {{bg_matrix(BG_FLOAT32, 40, 784), w, b}, {DEFAULTS}, BG_ERROR_SHAPE, {"float32[40,784]", "4", "[N,C,H,W]"}},
        {{bg_tensor4(BG_UINT8, 40, 1, 28, 28), w, b}, {DEFAULTS}, BG_ERROR_SHAPE, {"uint8[40,1,28,28]", "bfloat16"}},
        {{x, bg_tensor4(BG_FLOAT64, 10, 1, 5, 5), b}, {DEFAULTS}, BG_ERROR_SHAPE, {"float64[10,1,5,5]", "float32"}},
        {{x, w, bg_vector(BG_FLOAT32, 9)}, {DEFAULTS}, BG_ERROR_SHAPE, {"bias is float32[9]", "float32[10]"}},
        {{x, bg_tensor4(BG_FLOAT32, 10, 1, 29, 5), b}, {DEFAULTS}, BG_ERROR_SHAPE, {"29", "28"}},
        {{x, w, b},
         {.stride = {1, 1}, .dilation = {1, 1}, .groups = 2},
         BG_ERROR_SHAPE,
         {"dimension 1", "multiple of groups = 2"}},
        {{x, w, b},
         {.stride = {0, 1}, .dilation = {1, 1}, .groups = 1},
         BG_ERROR_INVALID,
         {"stride[0] is 0", "at least 1"}},
        {{x, w, b},
         {.stride = {1, 1}, .padding = {0, -1}, .dilation = {1, 1}, .groups = 1},
         BG_ERROR_INVALID,
         {"padding[1] is -1", "at least 0"}},
        {{x, w, b},
         {.stride = {1, 1}, .dilation = {INT64_MAX, 1}, .groups = 1},
         BG_ERROR_INVALID,
         {"dilation[0] is 9223372036854775807", "at most"}},
        {{x, w, b}, {.stride = {1, 1}, .dilation = {1, 1}}, BG_ERROR_INVALID, {"groups is 0", "at least 1"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const bgi_conv2d_attributes attributes = {wrong[i].options};

        bgi_test_op_refuses(&bgi_op_conv2d, &attributes, wrong[i].types, 3, wrong[i].status, wrong[i].parts);
    }
}

/* The shape rule detects a backward op with wrong operands. */
static void test_backward_is_checked(void **state)
{
    const bgi_conv2d_backward_attributes attributes = {.forward = {plain},
                                                       .result = bg_tensor4(BG_FLOAT32, 2, 1, 5, 5)};
    const bg_type types[] = {bg_tensor4(BG_FLOAT32, 2, 3, 4, 3), bg_tensor4(BG_FLOAT32, 3, 1, 3, 3)};

    (void)state;
    bgi_test_op_refuses(&bgi_op_conv2d_backward_input, &attributes, types, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"dy is float32[2,3,4,3]", "float32[2,3,3,3]", NULL});
}

static void test_cost(void **state)
{
    const bg_type types[] = {bg_tensor4(BG_FLOAT32, 2, 4, 6, 6), bg_tensor4(BG_FLOAT32, 8, 2, 3, 3),
                             bg_tensor4(BG_FLOAT32, 2, 8, 4, 4)};
    const bgi_conv2d_attributes attributes = {{.stride = {1, 1}, .dilation = {1, 1}, .groups = 2}};
    const bg_op_signature op = {
        .name = "conv", .types = types, .input_count = 2, .output_count = 1, .attributes = &attributes};
    const bg_cost cost = bgi_op_conv2d.cost(&op);

    (void)state;
    assert_true(cost.flops == 2.0 * (2 * 8 * 4 * 4) * (2 * 3 * 3));
    assert_true(cost.bytes_read == 4.0 * (2 * 4 * 6 * 6 + 8 * 2 * 3 * 3));
    assert_true(cost.bytes_written == 4.0 * (2 * 8 * 4 * 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),   cmocka_unit_test(test_gradient_adds_what_is_needed),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_backward_is_checked),
        cmocka_unit_test(test_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
