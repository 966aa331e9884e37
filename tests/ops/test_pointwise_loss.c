/*
 * test_pointwise_loss.c: compares elementwise losses with PyTorch, and gradients of prediction and target with finite
 * differences. It also tests edge cases and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/pointwise_loss/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

typedef struct loss_case {
    const char *name;
    bg_pointwise_loss_function function;
    double parameter;
    double low, high;
    bg_loss_reduction reduction;
} loss_case;

static const loss_case cases[] = {
    {"squared", BG_LOSS_SQUARED, 0, -2, 2, BG_LOSS_MEAN},
    {"absolute", BG_LOSS_ABSOLUTE, 0, -2, 2, BG_LOSS_MEAN},
    {"smooth_l1", BG_LOSS_SMOOTH_L1, 1, -0.4, 0.4, BG_LOSS_MEAN},
    {"smooth_l1_half", BG_LOSS_SMOOTH_L1, 0.5, -2, 2, BG_LOSS_MEAN},
    {"huber", BG_LOSS_HUBER, 1.5, -2, 2, BG_LOSS_MEAN},
    {"binary_logits", BG_LOSS_BINARY_LOGITS, 1, 0.1, 0.9, BG_LOSS_MEAN},
    {"binary_logits_weight", BG_LOSS_BINARY_LOGITS, 2.5, 0.1, 0.9, BG_LOSS_MEAN},
    {"binary", BG_LOSS_BINARY, 0, 0.1, 0.9, BG_LOSS_MEAN},
    {"kl", BG_LOSS_KL, 0, 0.1, 0.9, BG_LOSS_MEAN},
    {"kl_log", BG_LOSS_KL_LOG, 0, -2, -0.1, BG_LOSS_MEAN},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const loss_case *c = argument;

    return bg_pointwise_loss(graph, "loss", c->function, c->parameter, inputs[0], inputs[1], c->reduction);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const char *const reductions[] = {"mean", "sum", "none"};

    for (size_t i = 0; i < CASE_COUNT; i++)
        for (int r = 0; r < 3; r++) {
            loss_case c = cases[i];
            char name[64];

            c.reduction = (bg_loss_reduction)r;
            snprintf(name, sizeof name, "%s_%s", c.name, reductions[r]);
            bgi_test_build_case(*state, name, BG_FLOAT32, build, &c, 1e-6, 2e-6);
            bgi_test_build_case(*state, name, BG_FLOAT64, build, &c, 1e-8, 1e-8);
        }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT64, 3, 4), bg_matrix(BG_FLOAT64, 3, 4)};

    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++)
        for (int r = 0; r < 3; r++) {
            const bgi_pointwise_loss_attributes attributes = {
                .function = cases[i].function, .reduction = (bg_loss_reduction)r, .parameter = cases[i].parameter};

            bgi_test_gradient(&bgi_op_pointwise_loss, &attributes, types, 2, cases[i].low, cases[i].high);
        }
}

/* Computes the loss of one element in float32, and the gradients of prediction and target. */
static void compute(bg_pointwise_loss_function function, double parameter, double p, double t, double result[3])
{
    const bg_type type = bg_vector(BG_FLOAT32, 1), scalar = bg_scalar(BG_FLOAT32);
    const double one = 1.0;
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value inputs[2], gradients[2], seed, y;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "p", &type);
    inputs[1] = bg_graph_input(graph, "t", &type);
    seed = bg_graph_input(graph, "dy", &scalar);
    y = bg_pointwise_loss(graph, "loss", function, parameter, inputs[0], inputs[1], BG_LOSS_MEAN);
    bgi_test_derive(graph, y, seed, inputs, 2, gradients);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, inputs[0], &p);
    bgi_test_set(&interpreter, inputs[1], &t);
    bgi_test_set(&interpreter, seed, &one);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, &result[0]);
    bgi_test_get(&interpreter, gradients[0], &result[1]);
    bgi_test_get(&interpreter, gradients[1], &result[2]);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* Large logits cause no overflow, and the loss keeps its digits. The binary loss of a probability of 0 or 1 is at most
 * 100, and the KL divergence of a target of 0 is 0. */
static void test_the_edges(void **state)
{
    double r[3];

    (void)state;
    compute(BG_LOSS_BINARY_LOGITS, 1.0, 1000.0, 0.0, r);
    assert_true(r[0] == 1000.0 && r[1] == 1.0 && r[2] == -1000.0);
    compute(BG_LOSS_BINARY_LOGITS, 1.0, -1000.0, 1.0, r);
    assert_true(r[0] == 1000.0 && r[1] == -1.0 && r[2] == 1000.0);
    compute(BG_LOSS_BINARY_LOGITS, 1.0, 1000.0, 1.0, r);
    assert_true(r[0] == 0.0 && r[1] == 0.0);
    compute(BG_LOSS_BINARY, 0.0, 0.0, 1.0, r);
    assert_true(r[0] == 100.0 && fabs(r[1] + 1e12) <= 1e6);
    compute(BG_LOSS_BINARY, 0.0, 1.0, 1.0, r);
    assert_true(r[0] == 0.0 && r[1] == 0.0);
    compute(BG_LOSS_KL, 0.0, -3.0, 0.0, r);
    assert_true(r[0] == 0.0 && r[1] == 0.0 && r[2] == 0.0);
    compute(BG_LOSS_KL, 0.0, -3.0, -0.5, r);
    assert_true(isnan(r[0]) && isnan(r[1]) && isnan(r[2]));
    compute(BG_LOSS_ABSOLUTE, 0.0, 2.0, 2.0, r);
    assert_true(r[0] == 0.0 && r[1] == 0.0 && r[2] == 0.0);
    compute(BG_LOSS_SMOOTH_L1, 0.0, 2.0, 4.0, r); /* beta 0 is L1 */
    assert_true(r[0] == 2.0 && r[1] == -1.0 && r[2] == 1.0);
}

/* A 16-bit prediction has a float32 loss and a gradient of the prediction's type. */
static void test_types(void **state)
{
    static const bg_dtype dtypes[] = {BG_BFLOAT16, BG_FLOAT16, BG_FLOAT64};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const bg_type type = bg_matrix(dtypes[i], 2, 3),
                      scalar = bg_scalar(dtypes[i] == BG_FLOAT64 ? BG_FLOAT64 : BG_FLOAT32);
        bg_graph *graph = NULL;
        bg_value p, t, y, dp;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        p = bg_graph_input(graph, "p", &type);
        t = bg_graph_input(graph, "t", &type);
        y = bg_pointwise_loss(graph, "loss", BG_LOSS_HUBER, 1.0, p, t, BG_LOSS_SUM);
        assert_int_equal(bg_graph_type(graph, y).dtype, scalar.dtype);
        bgi_test_derive(graph, y, bg_graph_input(graph, "dy", &scalar), &p, 1, &dp);
        assert_int_equal(bg_graph_type(graph, dp).dtype, dtypes[i]);
        bg_graph_destroy(graph);
    }
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), other = bg_matrix(BG_FLOAT32, 3, 2), ids = bg_vector(BG_INT32, 3);
    const loss_case plain = cases[0];
    loss_case none = plain, reduction = plain, delta = {"", BG_LOSS_HUBER, 0.0, 0, 0, BG_LOSS_MEAN},
              weight = {"", BG_LOSS_BINARY_LOGITS, -1.0, 0, 0, BG_LOSS_MEAN},
              beta = {"", BG_LOSS_SMOOTH_L1, NAN, 0, 0, BG_LOSS_MEAN};

    (void)state;
    none.function = BG_LOSS_FUNCTION_COUNT;
    reduction.reduction = (bg_loss_reduction)3;
    bgi_test_build_fails(build, &none, (bg_type[]){x, x}, 2, BG_ERROR_INVALID,
                         "function 8 is not one of bg_pointwise_loss_function (0 to 7)");
    bgi_test_build_fails(build, &reduction, (bg_type[]){x, x}, 2, BG_ERROR_INVALID, "reduction is 3; it must be");
    bgi_test_build_fails(build, &delta, (bg_type[]){x, x}, 2, BG_ERROR_INVALID,
                         "delta of the Huber loss is 0; it must be above 0");
    bgi_test_build_fails(build, &weight, (bg_type[]){x, x}, 2, BG_ERROR_INVALID,
                         "parameter is -1; it must be at least 0");
    bgi_test_build_fails(build, &beta, (bg_type[]){x, x}, 2, BG_ERROR_INVALID, "parameter is nan");
    bgi_test_build_fails(build, &plain, (bg_type[]){x, other}, 2, BG_ERROR_SHAPE,
                         "target is float32[3,2]; it must be float32[2,3]");
    bgi_test_build_fails(build, &plain, (bg_type[]){ids, ids}, 2, BG_ERROR_SHAPE, "prediction is int32[3]");
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
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_the_edges),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
