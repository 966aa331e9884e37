/*
 * test_layers.c: checks names, shapes and initial values of the layers' parameters, and errors of layers.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <brigade/nn.h>

#include "graph/graph.h"

static bg_graph *make_graph(void)
{
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    return graph;
}

static void assert_graph_good(const bg_graph *graph)
{
    bg_error error = {0};

    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void assert_type(const bg_graph *graph, bg_value value, bg_type expected)
{
    bg_type type = bg_graph_type(graph, value);
    char text[BG_TYPE_TEXT_BYTES], expected_text[BG_TYPE_TEXT_BYTES];

    assert_string_equal(bg_type_text(&type, text), bg_type_text(&expected, expected_text));
}

static const bgi_value *find_variable(const bg_graph *graph, const char *name, bg_type type)
{
    bg_value value = bg_graph_find_variable(graph, name);

    assert_false(bg_value_is_null(value));
    assert_type(graph, value, type);
    return bgi_graph_value(graph, value);
}

static void assert_uniform(const bgi_value *variable, double bound)
{
    assert_int_equal(variable->role, BG_ROLE_PARAMETER);
    assert_int_equal(variable->initializer.kind, BG_INITIALIZE_UNIFORM);
    assert_true(variable->initializer.a == -bound);
    assert_true(variable->initializer.b == bound);
}

static void assert_constant(const bgi_value *variable, bg_variable_role role, double value)
{
    assert_int_equal(variable->role, role);
    assert_int_equal(variable->initializer.kind, BG_INITIALIZE_CONSTANT);
    assert_true(variable->initializer.a == value);
}

/* Checks that the graph's first error has this status and contains both words. */
static void assert_refused(const bg_graph *graph, bg_status status, const char *first, const char *second)
{
    bg_error error = {0};

    assert_int_equal(bg_graph_check(graph, &error), status);
    if (strstr(error.message, first) == NULL || strstr(error.message, second) == NULL)
        fail_msg("`%s` does not say `%s` and `%s`", error.message, first, second);
}

static bg_value add_input(bg_graph *graph, bg_type type)
{
    return bg_graph_input(graph, "x", &type);
}

static void test_linear(void **state)
{
    bg_graph *graph = make_graph();
    bg_value y;
    (void)state;

    y = bg_linear_layer(graph, "fc", add_input(graph, bg_matrix(BG_FLOAT32, 3, 16)), 5, true);
    assert_graph_good(graph);
    assert_type(graph, y, bg_matrix(BG_FLOAT32, 3, 5));
    assert_uniform(find_variable(graph, "fc.weight", bg_matrix(BG_FLOAT32, 5, 16)), 0.25);
    assert_uniform(find_variable(graph, "fc.bias", bg_vector(BG_FLOAT32, 5)), 0.25);
    bg_graph_destroy(graph);
}

static void test_linear_without_bias(void **state)
{
    bg_graph *graph = make_graph();
    (void)state;

    bg_linear_layer(graph, "fc", add_input(graph, bg_matrix(BG_FLOAT32, 3, 16)), 5, false);
    assert_graph_good(graph);
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "fc.bias")));
    bg_graph_destroy(graph);
}

static void test_bfloat16_keeps_float32_parameters(void **state)
{
    bg_graph *graph = make_graph();
    bg_value y;
    (void)state;

    y = bg_linear_layer(graph, "fc", add_input(graph, bg_matrix(BG_BFLOAT16, 3, 16)), 5, true);
    y = bg_layer_norm_layer(graph, "norm", y, 1e-5);
    assert_graph_good(graph);
    assert_type(graph, y, bg_matrix(BG_BFLOAT16, 3, 5));
    find_variable(graph, "fc.weight", bg_matrix(BG_FLOAT32, 5, 16));
    find_variable(graph, "norm.weight", bg_vector(BG_FLOAT32, 5));
    bg_graph_destroy(graph);
}

static void test_conv2d(void **state)
{
    bg_graph *graph = make_graph();
    bg_conv2d_options options = bg_conv2d_defaults();
    double bound = 1.0 / sqrt(2 * 3 * 5);
    bg_value y;
    (void)state;

    options.groups = 2;
    options.padding[0] = 1;
    y = bg_conv2d_layer(graph, "c", add_input(graph, bg_tensor4(BG_FLOAT32, 2, 4, 9, 9)), 6, 3, 5, true, &options);
    assert_graph_good(graph);
    assert_type(graph, y, bg_tensor4(BG_FLOAT32, 2, 6, 9, 5));
    assert_uniform(find_variable(graph, "c.weight", bg_tensor4(BG_FLOAT32, 6, 2, 3, 5)), bound);
    assert_uniform(find_variable(graph, "c.bias", bg_vector(BG_FLOAT32, 6)), bound);
    bg_graph_destroy(graph);
}

static void test_norms(void **state)
{
    bg_graph *graph = make_graph();
    bg_value y;
    (void)state;

    y = bg_batch_norm_layer(graph, "bn", add_input(graph, bg_tensor4(BG_FLOAT32, 2, 4, 3, 3)), 0.1, 1e-5);
    y = bg_layer_norm_layer(graph, "ln", y, 1e-5);
    assert_graph_good(graph);
    assert_type(graph, y, bg_tensor4(BG_FLOAT32, 2, 4, 3, 3));
    assert_constant(find_variable(graph, "bn.weight", bg_vector(BG_FLOAT32, 4)), BG_ROLE_PARAMETER, 1.0);
    assert_constant(find_variable(graph, "bn.bias", bg_vector(BG_FLOAT32, 4)), BG_ROLE_PARAMETER, 0.0);
    assert_constant(find_variable(graph, "bn.running_mean", bg_vector(BG_FLOAT32, 4)), BG_ROLE_BUFFER, 0.0);
    assert_constant(find_variable(graph, "bn.running_var", bg_vector(BG_FLOAT32, 4)), BG_ROLE_BUFFER, 1.0);
    assert_constant(find_variable(graph, "ln.weight", bg_vector(BG_FLOAT32, 3)), BG_ROLE_PARAMETER, 1.0);
    assert_constant(find_variable(graph, "ln.bias", bg_vector(BG_FLOAT32, 3)), BG_ROLE_PARAMETER, 0.0);
    bg_graph_destroy(graph);
}

static void test_batch_norm_of_bfloat16(void **state)
{
    bg_graph *graph = make_graph();
    bg_value y;
    (void)state;

    y = bg_batch_norm_layer(graph, "bn", add_input(graph, bg_matrix(BG_BFLOAT16, 8, 4)), 0.1, 1e-5);
    assert_graph_good(graph);
    assert_type(graph, y, bg_matrix(BG_BFLOAT16, 8, 4));
    find_variable(graph, "bn.running_mean", bg_vector(BG_FLOAT32, 4));
    bg_graph_destroy(graph);
}

static void test_batch_norm_of_any_rank(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank <= 5; rank++) {
        const bg_type type = bg_type_make(BG_FLOAT32, rank, (int64_t[]){8, 4, 2, 3, 5});
        bg_graph *graph = make_graph();
        const bg_value y = bg_batch_norm_layer(graph, "bn", add_input(graph, type), 0.1, 1e-5);

        if (rank == 1) {
            assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_SHAPE);
        } else {
            assert_graph_good(graph);
            assert_type(graph, y, type);
        }
        bg_graph_destroy(graph);
    }
}

static void test_embedding(void **state)
{
    bg_graph *graph = make_graph();
    const bgi_value *table;
    bg_value y;
    (void)state;

    y = bg_embedding_layer(graph, "wte", add_input(graph, bg_matrix(BG_INT32, 2, 7)), 50, 8, -1, BG_BFLOAT16);
    assert_graph_good(graph);
    assert_type(graph, y, bg_tensor3(BG_BFLOAT16, 2, 7, 8));
    table = find_variable(graph, "wte.weight", bg_matrix(BG_FLOAT32, 50, 8));
    assert_int_equal(table->initializer.kind, BG_INITIALIZE_NORMAL);
    assert_true(table->initializer.a == 0.0 && table->initializer.b == 1.0);
    bg_graph_destroy(graph);
}

static void test_refuses_null_input(void **state)
{
    bg_graph *graph = make_graph();
    (void)state;

    assert_true(bg_value_is_null(bg_linear_layer(graph, "fc", (bg_value){0}, 5, true)));
    assert_refused(graph, BG_ERROR_INVALID, "`fc`", "null");
    bg_graph_destroy(graph);
}

static void test_refuses_bad_sizes(void **state)
{
    bg_graph *graph = make_graph();
    (void)state;

    bg_linear_layer(graph, "fc", add_input(graph, bg_matrix(BG_FLOAT32, 3, 16)), 0, true);
    assert_refused(graph, BG_ERROR_INVALID, "`fc`", "0");
    bg_graph_destroy(graph);

    graph = make_graph();
    bg_conv2d_layer(graph, "c", add_input(graph, bg_matrix(BG_FLOAT32, 3, 16)), 4, 3, 3, true, NULL);
    assert_refused(graph, BG_ERROR_SHAPE, "`c`", "float32[3,16]");
    bg_graph_destroy(graph);

    graph = make_graph();
    bg_conv2d_options options = bg_conv2d_defaults();
    options.groups = 3;
    bg_conv2d_layer(graph, "c", add_input(graph, bg_tensor4(BG_FLOAT32, 1, 4, 9, 9)), 6, 3, 3, true, &options);
    assert_refused(graph, BG_ERROR_SHAPE, "`c`", "groups is 3");
    bg_graph_destroy(graph);
}

static void test_refuses_endless_name(void **state)
{
    bg_graph *graph = make_graph();
    char name[400];
    (void)state;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    bg_linear_layer(graph, name, add_input(graph, bg_matrix(BG_FLOAT32, 3, 16)), 5, true);
    assert_refused(graph, BG_ERROR_INVALID, "too long", "255");
    bg_graph_destroy(graph);
}

static void test_first_error_stays(void **state)
{
    bg_graph *graph = make_graph();
    bg_value x = bg_linear_layer(graph, "first", (bg_value){0}, 5, true);
    (void)state;

    x = bg_linear_layer(graph, "second", x, 0, true);
    assert_true(bg_value_is_null(bg_layer_norm_layer(graph, "third", x, 1e-5)));
    assert_refused(graph, BG_ERROR_INVALID, "`first`", "null");
    bg_graph_destroy(graph);
}

/* For activations of the parameters' type there are no casts; for float32 activations, parameters are cast when they
 * are used. Statistics are not parameters, and batch norm computes in float32. */
static void test_parameters_in_16_bits(void **state)
{
    (void)state;

    for (int d = 0; d < 4; d++) {
        const bg_dtype kept = d < 2 ? BG_BFLOAT16 : BG_FLOAT16, dtype = d % 2 == 0 ? kept : BG_FLOAT32;
        bg_graph *graph = make_graph();
        bg_value x;

        bg_graph_set_parameter_dtype(graph, kept);
        x = add_input(graph, bg_matrix(dtype, 3, 16));
        x = bg_layer_norm_layer(graph, "ln", bg_linear_layer(graph, "fc", x, 5, true), 1e-5);
        assert_graph_good(graph);
        assert_type(graph, x, bg_matrix(dtype, 3, 5));
        assert_type(graph, bg_graph_find_variable(graph, "fc.weight"), bg_matrix(kept, 5, 16));
        assert_type(graph, bg_graph_find_variable(graph, "ln.bias"), bg_vector(kept, 5));
        assert_int_equal(bg_graph_op_count(graph), d % 2 == 0 ? 2 : 6);
        bg_batch_norm_layer(graph, "bn", x, 0.1, 1e-5);
        assert_graph_good(graph);
        assert_type(graph, bg_graph_find_variable(graph, "bn.weight"), bg_vector(kept, 5));
        assert_type(graph, bg_graph_find_variable(graph, "bn.running_mean"), bg_vector(BG_FLOAT32, 5));
        bg_graph_set_parameter_dtype(graph, BG_FLOAT32);
        bg_linear_layer(graph, "head", x, 2, false);
        assert_type(graph, bg_graph_find_variable(graph, "head.weight"), bg_matrix(BG_FLOAT32, 2, 5));
        bg_graph_set_parameter_dtype(graph, BG_INT32);
        assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_INVALID);
        bg_graph_destroy(graph);
    }
}

/* Parameters have PyTorch's shapes and names, and the bounds of PyTorch's initial values. */
static void test_convolutions_of_any_rank(void **state)
{
    const bg_type x_type = bg_type_make(BG_BFLOAT16, 5, (int64_t[]){2, 4, 5, 6, 7});
    const int64_t kernel[] = {1, 2, 3};
    bg_conv_options options = bg_conv_defaults();
    bg_graph *graph = NULL;
    bg_type type;
    bg_value x;

    (void)state;
    options.groups = 2;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    type = bg_graph_type(graph, bg_conv_layer(graph, "c", x, 6, kernel, true, &options));
    assert_true(bg_type_equal(&type, &(bg_type){BG_BFLOAT16, 5, {2, 6, 5, 5, 5}}));
    type = bg_graph_type(graph, bg_graph_find_variable(graph, "c.weight"));
    assert_true(bg_type_equal(&type, &(bg_type){BG_FLOAT32, 5, {6, 2, 1, 2, 3}}));
    type = bg_graph_type(graph, bg_conv_transpose_layer(graph, "t", x, 6, kernel, true, &options));
    assert_true(bg_type_equal(&type, &(bg_type){BG_BFLOAT16, 5, {2, 6, 5, 7, 9}}));
    type = bg_graph_type(graph, bg_graph_find_variable(graph, "t.weight"));
    assert_true(bg_type_equal(&type, &(bg_type){BG_FLOAT32, 5, {4, 3, 1, 2, 3}}));
    type = bg_graph_type(graph, bg_graph_find_variable(graph, "t.bias"));
    assert_true(bg_type_equal(&type, &(bg_type){BG_FLOAT32, 1, {6}}));
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_conv_layer(graph, "odd", x, 5, kernel, true, &options);
    assert_int_equal(bg_graph_check(graph, NULL), BG_ERROR_SHAPE);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_without_bias),
        cmocka_unit_test(test_bfloat16_keeps_float32_parameters),
        cmocka_unit_test(test_parameters_in_16_bits),
        cmocka_unit_test(test_conv2d),
        cmocka_unit_test(test_convolutions_of_any_rank),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_batch_norm_of_bfloat16),
        cmocka_unit_test(test_batch_norm_of_any_rank),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_refuses_null_input),
        cmocka_unit_test(test_refuses_bad_sizes),
        cmocka_unit_test(test_refuses_endless_name),
        cmocka_unit_test(test_first_error_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
