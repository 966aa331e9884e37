/*
 * test_softmax.c: compares softmax and log-softmax along each axis with PyTorch and central differences, and tests
 * extreme values.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/reshape/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

static void test_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    for (uint32_t axis = 0; axis < 3; axis++)
        for (uint32_t is_log = 0; is_log < 2; is_log++) {
            const bgi_axis_attributes attributes = {axis};
            char name[32];
            bgi_test_op_case test = {.op_type = is_log ? &bgi_op_log_softmax : &bgi_op_softmax,
                                     .attributes = &attributes,
                                     .inputs = {"x"},
                                     .outputs = {"y"}};

            snprintf(name, sizeof name, "%ssoftmax_%u", is_log ? "log_" : "", (unsigned)axis);
            test.name = name;
            bgi_test_op_case_run_all(oracle, &test, true);
            bgi_test_op_case_check_gradient(oracle, &test);
        }
    bgi_test_oracle_close(oracle);
}

/* Runs both ops over one row of three elements. */
static void compute(const double x[3], double out_softmax[3], double out_log[3])
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 3);
    bgi_test_interpreter interpreter;
    bg_value input, softmax, log_softmax;
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    input = bg_graph_input(graph, "x", &type);
    softmax = bg_softmax(graph, "softmax", input, -1);
    log_softmax = bg_log_softmax(graph, "log", input, 1);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, input, x);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, softmax, out_softmax);
    bgi_test_get(&interpreter, log_softmax, out_log);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_extremes(void **state)
{
    double y[3], logs[3];

    (void)state;
    compute((const double[]){1e4, 1e4, -1e4}, y, logs);
    assert_true(y[0] == 0.5 && y[1] == 0.5 && y[2] == 0.0);
    assert_true(fabs(logs[0] + log(2.0)) < 1e-7 && fabs(logs[2] + 20000.69) < 0.01);
    compute((const double[]){3e38, -3e38, 0}, y, logs);
    assert_true(y[0] == 1.0 && y[1] == 0.0 && y[2] == 0.0);
    assert_true(logs[0] == 0.0);
    /* a masked element */
    compute((const double[]){2, -INFINITY, 2}, y, logs);
    assert_true(y[0] == 0.5 && y[1] == 0.0 && y[2] == 0.5);
    assert_true(logs[1] == -INFINITY);
    /* if everything is masked, or an element is NaN, the row is NaN */
    compute((const double[]){-INFINITY, -INFINITY, -INFINITY}, y, logs);
    assert_true(isnan(y[0]) && isnan(logs[0]));
    compute((const double[]){0, NAN, 0}, y, logs);
    assert_true(isnan(y[0]) && isnan(logs[0]));
}

static void refuse_axis(const bg_type *type, int32_t axis, const char *first, const char *second)
{
    bg_graph *graph = NULL;
    bg_error error = {0};

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    assert_true(bg_value_is_null(bg_softmax(graph, "victim", bg_graph_input(graph, "x", type), axis)));
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "victim"));
    assert_non_null(strstr(error.message, first));
    assert_non_null(strstr(error.message, second));
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    const bg_type floats = bg_matrix(BG_FLOAT32, 2, 3), integers = bg_matrix(BG_INT32, 2, 3);
    const bgi_axis_attributes beyond = {UINT32_MAX};

    (void)state;
    refuse_axis(&floats, 2, "float32[2,3]", "axis 2 must be between -2 and 1");
    refuse_axis(&floats, -3, "float32[2,3]", "axis -3 must be between -2 and 1");
    refuse_axis(&integers, 0, "int32[2,3]", "float32, bfloat16, float16 or float64");
    bgi_test_op_refuses(&bgi_op_softmax, &beyond, &floats, 1, BG_ERROR_SHAPE,
                        (const char *const[]){"float32[2,3]", "no axis 4294967295", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
