/*
 * test_linear.c: compares linear and matmul with PyTorch and finite differences, and checks the errors of their shape
 * rules.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/linear/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

static bg_value build_linear(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_linear(graph, "fc", inputs[0], inputs[1], *(const bool *)argument ? inputs[2] : (bg_value){0});
}

static bg_value build_matmul(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bgi_matmul_attributes *attributes = argument;

    return bg_matmul(graph, "product", inputs[0], inputs[1], attributes->transpose_a, attributes->transpose_b);
}

static void test_linear_equals_pytorch(void **state)
{
    const bool with = true, without = false;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const bg_dtype dtype = i == 0 ? BG_FLOAT32 : BG_FLOAT64;

        bgi_test_build_case(bgi_test_ops_oracle, "linear", dtype, build_linear, &without, 1e-6, 1e-6);
        bgi_test_build_case(bgi_test_ops_oracle, "linear_bias", dtype, build_linear, &with, 1e-6, 1e-6);
        bgi_test_build_case(bgi_test_ops_oracle, "linear_deep", dtype, build_linear, &with, 1e-6, 1e-6);
        bgi_test_build_case(bgi_test_ops_oracle, "linear_vector", dtype, build_linear, &with, 1e-6, 1e-6);
    }
    bgi_test_build_case(bgi_test_ops_oracle, "linear_bias", BG_BFLOAT16, build_linear, &with, 0.1, 0.02);
    bgi_test_build_case(bgi_test_ops_oracle, "linear_bias", BG_FLOAT16, build_linear, &with, 0.013, 0.0025);
}

static void test_matmul_equals_pytorch(void **state)
{
    static const char *const names[2][2][3] = {
        {{"matmul_00", "matmul_shared_00", "matmul_flat_00"}, {"matmul_01", "matmul_shared_01", "matmul_flat_01"}},
        {{"matmul_10", "matmul_shared_10", "matmul_flat_10"}, {"matmul_11", "matmul_shared_11", "matmul_flat_11"}}};

    (void)state;
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++)
            for (int k = 0; k < 3; k++) {
                const bgi_matmul_attributes attributes = {.transpose_a = ta != 0, .transpose_b = tb != 0};

                bgi_test_build_case(bgi_test_ops_oracle, names[ta][tb][k], BG_FLOAT32, build_matmul, &attributes, 1e-6,
                                    1e-6);
                bgi_test_build_case(bgi_test_ops_oracle, names[ta][tb][k], BG_FLOAT64, build_matmul, &attributes, 1e-7,
                                    1e-8);
            }
    bgi_test_build_case(bgi_test_ops_oracle, "matmul_01", BG_BFLOAT16, build_matmul,
                        &(bgi_matmul_attributes){false, true}, 0.1, 0.02);
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type linear[] = {bg_tensor3(BG_FLOAT64, 2, 3, 4), bg_matrix(BG_FLOAT64, 5, 4), bg_vector(BG_FLOAT64, 5)};

    (void)state;
    bgi_test_gradient(&bgi_op_linear, NULL, linear, 2, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_linear, NULL, linear, 3, -1.0, 1.0);
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            const bgi_matmul_attributes attributes = {.transpose_a = ta != 0, .transpose_b = tb != 0};
            const bg_type types[] = {ta != 0 ? bg_tensor4(BG_FLOAT64, 3, 1, 4, 2) : bg_tensor4(BG_FLOAT64, 3, 1, 2, 4),
                                     tb != 0 ? bg_tensor3(BG_FLOAT64, 2, 5, 4) : bg_tensor3(BG_FLOAT64, 2, 4, 5)};

            bgi_test_gradient(&bgi_op_matmul, &attributes, types, 2, -1.0, 1.0);
        }
}

/* With frozen weights only the bias gets its gradient, and the matrix product is not computed. */
static void test_only_what_is_needed_is_added(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 4, 3), w = bg_matrix(BG_FLOAT32, 2, 3), b = bg_vector(BG_FLOAT32, 2);
    const bg_type y = bg_matrix(BG_FLOAT32, 4, 2);
    const bg_type types[] = {x, w, b, y};
    const bool needs[] = {false, false, true};
    bg_value inputs[3], outputs[1], dy, gradients[3] = {{0}};
    bg_op_gradient gradient = {.op = {.name = "fc", .types = types, .input_count = 3, .output_count = 1},
                               .inputs = inputs,
                               .outputs = outputs,
                               .output_gradients = &dy,
                               .needs = needs,
                               .input_gradients = gradients};
    bg_graph *graph = NULL;
    bg_type found;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "x", &x);
    inputs[1] = bg_graph_parameter(graph, "w", &w, NULL);
    inputs[2] = bg_graph_parameter(graph, "b", &b, NULL);
    dy = bg_graph_input(graph, "dy", &y);
    outputs[0] = bg_linear(graph, "fc", inputs[0], inputs[1], inputs[2]);
    gradient.graph = graph;
    assert_int_equal(bgi_op_linear.gradient(&gradient, NULL), BG_OK);
    assert_true(bg_value_is_null(gradients[0]) && bg_value_is_null(gradients[1]));
    found = bg_graph_type(graph, gradients[2]);
    assert_true(bg_type_equal(&found, &b));
    assert_int_equal(bg_graph_op_count(graph), 2);
    bg_graph_destroy(graph);
}

static void test_cost_counts_products(void **state)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT32, 8, 3), bg_matrix(BG_FLOAT32, 5, 3), bg_matrix(BG_FLOAT32, 8, 5)};
    const bg_op_signature op = {.types = types, .input_count = 2, .output_count = 1};
    const bg_cost cost = bgi_op_linear.cost(&op);

    (void)state;
    assert_true(cost.flops == 2.0 * 8 * 3 * 5);
    assert_true(cost.bytes_read == 4.0 * (8 * 3 + 5 * 3));
    assert_true(cost.bytes_written == 4.0 * 8 * 5);
}

static void test_shape_errors_say_what_would_be_right(void **state)
{
    const bool with = true;
    const bgi_matmul_attributes plain = {false, false};
    const bg_type x = bg_matrix(BG_FLOAT32, 4, 3), w = bg_matrix(BG_FLOAT32, 2, 3), b = bg_vector(BG_FLOAT32, 2);

    (void)state;
    bgi_test_build_fails(build_linear, &with, (bg_type[]){x, bg_matrix(BG_FLOAT32, 2, 5), b}, 3, BG_ERROR_SHAPE,
                         "linear `fc`: the weight is float32[2,5]; its dimension 1 must be 3 (x's last dimension)");
    bgi_test_build_fails(build_linear, &with, (bg_type[]){x, w, bg_vector(BG_FLOAT32, 3)}, 3, BG_ERROR_SHAPE,
                         "the bias is float32[3]; it must be float32[2]");
    bgi_test_build_fails(build_linear, &with, (bg_type[]){x, bg_matrix(BG_FLOAT64, 2, 3), b}, 3, BG_ERROR_SHAPE,
                         "they must have one element type (cast one of them)");
    bgi_test_build_fails(build_linear, &with, (bg_type[]){bg_matrix(BG_UINT8, 4, 3), w, b}, 3, BG_ERROR_SHAPE,
                         "x is uint8[4,3]; its elements must be float32, bfloat16, float16 or float64");
    bgi_test_build_fails(build_matmul, &plain, (bg_type[]){x, w}, 2, BG_ERROR_SHAPE,
                         "b is float32[2,3]; its dimension 0 must be 3 (a's inner dimension)");
    bgi_test_build_fails(build_matmul, &plain,
                         (bg_type[]){bg_tensor3(BG_FLOAT32, 2, 4, 3), bg_tensor3(BG_FLOAT32, 5, 3, 2)}, 2,
                         BG_ERROR_SHAPE, "do not broadcast: dimension 3 from the end is 2 and 5");
    bgi_test_build_fails(build_matmul, &plain, (bg_type[]){bg_vector(BG_FLOAT32, 3), x}, 2, BG_ERROR_SHAPE,
                         "a is float32[3]; it must have at least 2 dimensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_equals_pytorch),     cmocka_unit_test(test_matmul_equals_pytorch),
        cmocka_unit_test(test_gradients_are_derivatives), cmocka_unit_test(test_only_what_is_needed_is_added),
        cmocka_unit_test(test_cost_counts_products),      cmocka_unit_test(test_shape_errors_say_what_would_be_right),
    };

    return cmocka_run_group_tests(tests, bgi_test_open_ops_oracle, bgi_test_close_ops_oracle);
}
