/*
 * test_norm.c: compares layer and batch normalization with PyTorch and central differences, and tests running
 * statistics and error messages.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

static void test_layer_norm_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");
    const bgi_norm_attributes attributes = {.epsilon = 1e-5};
    const char *const names[] = {"layer_norm_affine", "layer_norm_plain", "layer_norm_vector"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bool is_affine = i != 1;
        const bgi_test_op_case test = {.name = names[i],
                                       .op_type = &bgi_op_layer_norm,
                                       .attributes = &attributes,
                                       .inputs = {"x", is_affine ? "gamma" : NULL, is_affine ? "beta" : NULL},
                                       .outputs = {"y", "mean", "rstd"}};

        bgi_test_op_case_run_all(oracle, &test, true);
        bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

static void test_batch_norm_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");
    const bgi_norm_attributes attributes = {.epsilon = 1e-3, .momentum = 0.25};
    const char *const names[] = {"batch_norm_vectors", "batch_norm_images", "batch_norm_inference"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bgi_test_op_case test = {.name = names[i],
                                       .op_type = &bgi_op_batch_norm,
                                       .attributes = &attributes,
                                       .inputs = {"x", "gamma", "beta", "running_mean", "running_variance"},
                                       .outputs = {"y"},
                                       .is_inference = i == 2};

        bgi_test_op_case_run_all(oracle, &test, true);
        if (!test.is_inference)
            bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

/* With a large mean and a small deviation, one pass in float32 would lose all digits of the variance. */
static void test_layer_norm_is_stable(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 4);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value x, y;
    double result[4];

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    y = bg_layer_norm(graph, "norm", x, (bg_value){0}, (bg_value){0}, 0.0);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, x, (const double[]){1e6 - 1, 1e6 + 1, 1e6 - 1, 1e6 + 1});
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, result);
    for (int i = 0; i < 4; i++)
        assert_true(result[i] == (i % 2 == 0 ? -1.0 : 1.0));
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* bfloat16 activations have float32 running statistics, because momentum 0.001 would vanish in bfloat16. */
static void test_batch_norm_keeps_statistics_wide(void **state)
{
    const bg_type x_type = bg_matrix(BG_BFLOAT16, 2, 1), vector = bg_vector(BG_BFLOAT16, 1);
    const bg_type wide = bg_vector(BG_FLOAT32, 1);
    bgi_test_interpreter interpreter;
    bg_value x, gamma, beta, mean, variance;
    bg_graph *graph = NULL;
    double value;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    gamma = bg_graph_parameter(graph, "gamma", &vector, NULL);
    beta = bg_graph_parameter(graph, "beta", &vector, NULL);
    mean = bg_graph_variable(graph, "mean", &wide, BG_ROLE_BUFFER, NULL);
    variance = bg_graph_variable(graph, "variance", &wide, BG_ROLE_BUFFER, NULL);
    bg_batch_norm(graph, "norm", x, gamma, beta, mean, variance, 0.001, 1e-5);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, x, (const double[]){1, 3});
    bgi_test_set(&interpreter, mean, (const double[]){1});
    bgi_test_set(&interpreter, variance, (const double[]){1});
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, mean, &value);
    assert_true(fabs(value - 1.001) < 1e-6);
    bgi_test_get(&interpreter, variance, &value);
    assert_true(fabs(value - 1.001) < 1e-6); /* unbiased: 2, not 1 */
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_layer_norm_messages(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 5), five = bg_vector(BG_FLOAT32, 5);
    const bg_type wrong[] = {x, five, bg_vector(BG_FLOAT32, 2)}, scalar = bg_scalar(BG_FLOAT32);
    const bg_type without_beta[] = {x, five};
    const bgi_norm_attributes good = {.epsilon = 1e-5}, negative = {.epsilon = -1.0};

    (void)state;
    bgi_test_op_refuses(&bgi_op_layer_norm, &good, wrong, 3, BG_ERROR_SHAPE,
                        (const char *const[]){"beta is float32[2]", "float32[5]", "last dimension", NULL});
    bgi_test_op_refuses(&bgi_op_layer_norm, &good, without_beta, 2, BG_ERROR_INVALID,
                        (const char *const[]){"gamma is given without beta", "both or neither", NULL});
    bgi_test_op_refuses(&bgi_op_layer_norm, &good, &scalar, 1, BG_ERROR_SHAPE,
                        (const char *const[]){"at least 1 dimensions", NULL});
    bgi_test_op_refuses(&bgi_op_layer_norm, &negative, &x, 1, BG_ERROR_INVALID,
                        (const char *const[]){"epsilon is -1", "at least 0", NULL});
}

static void test_batch_norm_messages(void **state)
{
    const bg_type x = bg_tensor4(BG_FLOAT32, 2, 3, 4, 4), c = bg_vector(BG_FLOAT32, 3);
    const bg_type wrong_size[] = {x, c, c, bg_vector(BG_FLOAT32, 4), c};
    const bg_type wrong_type[] = {x, c, c, c, bg_vector(BG_BFLOAT16, 3)};
    const bg_type fits[] = {x, c, c, c, c};
    const bgi_norm_attributes good = {.epsilon = 1e-5, .momentum = 0.1}, wild = {.epsilon = 1e-5, .momentum = 1.5};

    (void)state;
    bgi_test_op_refuses(&bgi_op_batch_norm, &good, wrong_size, 5, BG_ERROR_SHAPE,
                        (const char *const[]){"running_mean is float32[4]", "float32[3]", NULL});
    bgi_test_op_refuses(&bgi_op_batch_norm, &good, wrong_type, 5, BG_ERROR_SHAPE,
                        (const char *const[]){"running_variance is bfloat16[3]", "float32[3]", NULL});
    bgi_test_op_refuses(&bgi_op_batch_norm, &wild, fits, 5, BG_ERROR_INVALID,
                        (const char *const[]){"momentum is 1.5", "between 0 and 1", NULL});
}

static void test_sync_batch_norm_messages(void **state)
{
    const bg_type x = bg_tensor4(BG_FLOAT32, 2, 3, 4, 4), c = bg_vector(BG_FLOAT32, 3);
    const bg_type two = bg_matrix(BG_FLOAT64, 6, 2), one = bg_matrix(BG_FLOAT64, 3, 2);
    const bg_type of_one[] = {x, c, c, c, c, one}, wrong_size[] = {x, c, bg_vector(BG_FLOAT32, 4), c, c, two};
    const bg_type sums_of_two[] = {x, x, c, c, c, one, two}, wrong_dy[] = {c, x, c, c};
    const bg_type vector = bg_vector(BG_FLOAT32, 3);
    const bgi_sync_norm_attributes good = {.epsilon = 1e-5, .momentum = 0.1, .members = 2}, none = {.momentum = 0.1};

    (void)state;
    bgi_test_op_refuses(&bgi_op_sync_batch_norm, &good, of_one, 6, BG_ERROR_SHAPE,
                        (const char *const[]){"moments is float64[3,2]", "float64[6,2]", NULL});
    bgi_test_op_refuses(&bgi_op_sync_batch_norm, &good, wrong_size, 6, BG_ERROR_SHAPE,
                        (const char *const[]){"beta is float32[4]", "float32[3]", NULL});
    bgi_test_op_refuses(&bgi_op_sync_batch_norm, &none, of_one, 6, BG_ERROR_INTERNAL,
                        (const char *const[]){"members is 0", NULL});
    bgi_test_op_refuses(&bgi_op_sync_batch_norm_backward, &good, sums_of_two, 7, BG_ERROR_SHAPE,
                        (const char *const[]){"sums of all is float64[6,2]", "float64[3,2]", NULL});
    bgi_test_op_refuses(&bgi_op_batch_norm_gradient_sums, NULL, wrong_dy, 4, BG_ERROR_SHAPE,
                        (const char *const[]){"dy is float32[3]", NULL});
    bgi_test_op_refuses(&bgi_op_batch_norm_moments, NULL, &vector, 1, BG_ERROR_SHAPE,
                        (const char *const[]){"at least 2 dimensions", NULL});
}

/* Running statistics are written, so they must be variables; a constant must not change. */
static void test_batch_norm_needs_variables(void **state)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 2, 1), vector = bg_vector(BG_FLOAT32, 1);
    const float zero = 0.0f;
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value x, v, constant;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    v = bg_graph_parameter(graph, "v", &vector, NULL);
    constant = bg_graph_constant(graph, "frozen", &vector, &zero);
    bg_batch_norm(graph, "norm", x, v, v, v, constant, 0.1, 1e-5);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "frozen"));
    bg_graph_destroy(graph);
}

/* A channel with one value has no variance, so training with it is an error. */
static void test_batch_norm_gradient_needs_two_values(void **state)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT32, 1, 3), bg_vector(BG_FLOAT32, 3), bg_vector(BG_FLOAT32, 3),
                             bg_vector(BG_FLOAT32, 3), bg_vector(BG_FLOAT32, 3)};
    const bgi_norm_attributes attributes = {.epsilon = 1e-5, .momentum = 0.1};
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_gradient_check(&bgi_op_batch_norm, &attributes, types, NULL, 5, NULL, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "[1,3]"));
    assert_non_null(strstr(error.message, "more than 1 value in each channel"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm_oracle),
        cmocka_unit_test(test_batch_norm_oracle),
        cmocka_unit_test(test_layer_norm_is_stable),
        cmocka_unit_test(test_batch_norm_keeps_statistics_wide),
        cmocka_unit_test(test_layer_norm_messages),
        cmocka_unit_test(test_batch_norm_messages),
        cmocka_unit_test(test_sync_batch_norm_messages),
        cmocka_unit_test(test_batch_norm_needs_variables),
        cmocka_unit_test(test_batch_norm_gradient_needs_two_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
