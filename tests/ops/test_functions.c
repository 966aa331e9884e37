/*
 * test_functions.c: compares functions of one element, with and without parameters, with PyTorch and finite
 * differences.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "graph/graph.h"
#include "kernels/elementwise/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

typedef struct function_case {
    const char *name; /* the name in the oracle */
    bg_unary function;
    bool is_given; /* parameters other than the defaults */
    double a, b;
    double low,
        high; /* the interval of arguments in which the derivative is continuous; equal bounds: no such interval */
} function_case;

static const function_case cases[] = {
    {"silu", BG_SILU, false, 0, 0, -4, 4},
    {"mish", BG_MISH, false, 0, 0, -4, 4},
    {"softsign", BG_SOFTSIGN, false, 0, 0, 0.1, 4},
    {"log_sigmoid", BG_LOG_SIGMOID, false, 0, 0, -4, 4},
    {"hard_swish", BG_HARD_SWISH, false, 0, 0, -2.9, 2.9},
    {"rsqrt", BG_RSQRT, false, 0, 0, 0.3, 4},
    {"log1p", BG_LOG1P, false, 0, 0, -0.7, 4},
    {"expm1", BG_EXPM1, false, 0, 0, -2, 2},
    {"erf", BG_ERF, false, 0, 0, -2, 2},
    {"sign", BG_SIGN, false, 0, 0, 0.1, 4},
    {"round", BG_ROUND, false, 0, 0, 0.6, 1.4},
    {"floor", BG_FLOOR, false, 0, 0, 1.1, 1.9},
    {"ceil", BG_CEIL, false, 0, 0, -1.9, -1.1},
    {"trunc", BG_TRUNC, false, 0, 0, -1.9, -1.1},
    {"sin", BG_SIN, false, 0, 0, -4, 4},
    {"cos", BG_COS, false, 0, 0, -4, 4},
    {"tan", BG_TAN, false, 0, 0, -1, 1},
    {"asin", BG_ASIN, false, 0, 0, -0.8, 0.8},
    {"acos", BG_ACOS, false, 0, 0, -0.8, 0.8},
    {"atan", BG_ATAN, false, 0, 0, -4, 4},
    {"sinh", BG_SINH, false, 0, 0, -2, 2},
    {"cosh", BG_COSH, false, 0, 0, -2, 2},
    {"asinh", BG_ASINH, false, 0, 0, -4, 4},
    {"acosh", BG_ACOSH, false, 0, 0, 1.5, 4},
    {"atanh", BG_ATANH, false, 0, 0, -0.8, 0.8},
    {"softplus", BG_SOFTPLUS, false, 0, 0, -4, 4},
    {"softplus_sharp", BG_SOFTPLUS, true, 2.0, 3.0, -4, 1.4},
    {"elu", BG_ELU, false, 0, 0, -4, -0.1},
    {"elu_half", BG_ELU, true, 0.5, 0, -4, -0.1},
    {"leaky_relu", BG_LEAKY_RELU, false, 0, 0, 0.1, 4},
    {"leaky_relu_quarter", BG_LEAKY_RELU, true, 0.25, 0, -4, -0.1},
    {"hard_sigmoid", BG_HARD_SIGMOID, false, 0, 0, -2.9, 2.9},
    {"clamp", BG_CLAMP, false, 0, 0, 0.1, 5.9},
    {"clamp_both", BG_CLAMP, true, -1.5, 0.75, -1.4, 0.7},
    {"power", BG_POWER, false, 0, 0, 0.3, 2},
    {"power_cube", BG_POWER, true, 3.0, 0, -2, 2},
    {"power_none", BG_POWER, true, 0.0, 0, -2, 2},
    {"power_half", BG_POWER, true, 0.5, 0, 0.3, 2},
    {"power_inverse", BG_POWER, true, -2.0, 0, 0.5, 2},
    {"power_odd", BG_POWER, true, 1.7, 0, 0.3, 2},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const function_case *c = argument;

    return c->is_given ? bg_elementwise_function(graph, "f", c->function, c->a, c->b, inputs[0])
                       : bg_elementwise_unary(graph, "f", c->function, inputs[0]);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT32, build, &cases[i], 1e-6, 2e-6);
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT64, build, &cases[i], 1e-8, 1e-8);
    }
}

/* Every function that test_elementwise.c does not test has a case. */
static void test_every_function_has_a_case(void **state)
{
    (void)state;
    for (bg_unary function = BG_SILU; function < BG_UNARY_COUNT; function++) {
        size_t i = 0;

        while (i < CASE_COUNT && cases[i].function != function)
            i++;
        assert_true(i < CASE_COUNT);
    }
}

/* Gradients are the derivatives of the functions with the attributes that the builder makes. */
static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT64, 3, 4);

    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        bg_graph *graph = NULL;
        bg_value input;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        input = bg_graph_input(graph, "x", &x);
        build(graph, &input, &cases[i]);
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        bgi_test_gradient(&bgi_op_unary, graph->ops[0].attributes, &x, 1, cases[i].low, cases[i].high);
        bg_graph_destroy(graph);
    }
}

static void test_short_names(void **state)
{
    static const bg_unary functions[] = {BG_SILU, BG_CLAMP, BG_POWER};
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_graph *graph = NULL;
    bg_value x;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    bg_silu(graph, x);
    bg_clamp(graph, x, -2.0, 3.0);
    bg_power(graph, x, 2.5);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(((const bgi_unary_attributes *)graph->ops[i].attributes)->function, functions[i]);
    assert_true(((const bgi_unary_attributes *)graph->ops[1].attributes)->a == -2.0);
    assert_true(((const bgi_unary_attributes *)graph->ops[1].attributes)->b == 3.0);
    assert_true(((const bgi_unary_attributes *)graph->ops[2].attributes)->a == 2.5);
    bg_graph_destroy(graph);
}

/* Parameters are ignored for a function without parameters, so that equal ops stay equal. */
static void test_parameters_without_use_are_dropped(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_graph *graph = NULL;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_elementwise_function(graph, NULL, BG_SIN, 3.0, NAN, bg_graph_input(graph, "x", &type));
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_true(((const bgi_unary_attributes *)graph->ops[0].attributes)->a == 0.0);
    assert_true(((const bgi_unary_attributes *)graph->ops[0].attributes)->b == 0.0);
    bg_graph_destroy(graph);
}

static void test_parameters_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        function_case c;
        const char *message;
    } wrong[] = {
        {{"", BG_CLAMP, true, 2, 1, 0, 0}, "clamp has the bounds 2 and 1; the lower bound must come first"},
        {{"", BG_CLAMP, true, NAN, 1, 0, 0}, "neither may be NaN"},
        {{"", BG_SOFTPLUS, true, 0, 20, 0, 0}, "parameter a of softplus is 0; it must be finite and above 0"},
        {{"", BG_SOFTPLUS, true, 1, INFINITY, 0, 0}, "both must be finite"},
        {{"", BG_ELU, true, NAN, 0, 0, 0}, "both must be finite"},
        {{"", BG_POWER, true, INFINITY, 0, 0, 0}, "the parameters are inf and 0; both must be finite"},
        {{"", (bg_unary)-1, true, 0, 0, 0, 0}, "function -1 is not one of bg_unary (0 to 42)"},
        {{"", BG_UNARY_COUNT, false, 0, 0, 0, 0}, "is not one of bg_unary (0 to 42)"},
    };
    const bg_type type = bg_vector(BG_FLOAT32, 2);

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        bgi_test_build_fails(build, &wrong[i].c, &type, 1, BG_ERROR_INVALID, wrong[i].message);
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/functions.txt");
    return 0;
}

static int close_oracle(void **state)
{
    bgi_test_oracle_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_numbers),
        cmocka_unit_test(test_every_function_has_a_case),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_short_names),
        cmocka_unit_test(test_parameters_without_use_are_dropped),
        cmocka_unit_test(test_parameters_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
