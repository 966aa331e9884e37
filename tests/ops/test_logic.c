/*
 * test_logic.c: compares logical ops with truth tables, and triangles and PReLU with PyTorch. It also checks errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

/* Every pair of these numbers is tested in every element type that can represent both. */
static void test_truth_tables(void **state)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16, BG_FLOAT64, BG_INT32, BG_INT64, BG_UINT8};
    static const double a_values[] = {0, 1, 2}, b_values[] = {0, 3};

    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const bg_type a_type = bg_matrix(dtypes[d], 3, 1), b_type = bg_vector(dtypes[d], 2);
        bgi_test_interpreter interpreter;
        bg_value a, b, results[BG_LOGIC_COUNT], negated;
        bg_graph *graph = NULL;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        a = bg_graph_input(graph, "a", &a_type);
        b = bg_graph_input(graph, "b", &b_type);
        for (int f = 0; f < BG_LOGIC_COUNT; f++) {
            const char *name = (const char *[]){"and", "or", "xor"}[f];

            results[f] = bg_logical(graph, name, (bg_logic)f, a, b);
            assert_string_equal(bg_graph_name(graph, results[f]), name);
        }
        negated = bg_logical_not(graph, "not", a);
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, a, a_values);
        bgi_test_set(&interpreter, b, b_values);
        bgi_test_interpret(&interpreter);
        for (int i = 0; i < 6; i++) {
            const bool left = a_values[i / 2] != 0, right = b_values[i % 2] != 0;

            assert_int_equal(((const uint8_t *)bgi_test_data(&interpreter, results[BG_LOGIC_AND]))[i], left && right);
            assert_int_equal(((const uint8_t *)bgi_test_data(&interpreter, results[BG_LOGIC_OR]))[i], left || right);
            assert_int_equal(((const uint8_t *)bgi_test_data(&interpreter, results[BG_LOGIC_XOR]))[i], left != right);
            assert_int_equal(((const uint8_t *)bgi_test_data(&interpreter, negated))[i / 2], !left);
        }
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

typedef struct triangle_case {
    bool upper;
    int64_t diagonal;
} triangle_case;

static bg_value build_triangle(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const triangle_case *c = argument;

    return bg_triangle(graph, "t", inputs[0], c->upper, c->diagonal);
}

static void test_triangles(void **state)
{
    static const int64_t diagonals[] = {-9, -2, 0, 1, 9};

    for (size_t i = 0; i < sizeof diagonals / sizeof diagonals[0]; i++)
        for (int upper = 0; upper < 2; upper++) {
            const triangle_case c = {upper, diagonals[i]};
            char name[32];

            snprintf(name, sizeof name, "%s_%d", upper ? "upper" : "lower", (int)c.diagonal);
            bgi_test_build_case(*state, name, BG_FLOAT32, build_triangle, &c, 1e-6, 1e-6);
            bgi_test_build_case(*state, name, BG_FLOAT16, build_triangle, &c, 2e-3, 2e-3);
        }
}

static bg_value build_prelu(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    return bg_prelu(graph, "p", inputs[0], inputs[1]);
}

static void test_slopes(void **state)
{
    static const char *const names[] = {"prelu_each", "prelu_one"};

    for (int i = 0; i < 2; i++) {
        bgi_test_build_case(*state, names[i], BG_FLOAT64, build_prelu, NULL, 1e-8, 1e-8);
        bgi_test_build_case(*state, names[i], BG_FLOAT32, build_prelu, NULL, 1e-5, 1e-5);
    }
}

static bg_value build_logical(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_logical(graph, "l", *(const bg_logic *)argument, inputs[0], inputs[1]);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), two = bg_vector(BG_FLOAT32, 2), row = bg_vector(BG_FLOAT32, 4);
    const bg_logic none = BG_LOGIC_COUNT;
    const triangle_case lower = {false, 0};

    (void)state;
    bgi_test_build_fails(build_logical, &none, (bg_type[]){x, x}, 2, BG_ERROR_INVALID,
                         "function 3 is not one of bg_logic");
    bgi_test_build_fails(build_triangle, &lower, &two, 1, BG_ERROR_SHAPE, "x is float32[2]; it must be");
    bgi_test_build_fails(build_prelu, NULL, (bg_type[]){x, row}, 2, BG_ERROR_SHAPE, "slope is float32[4]");
    bgi_test_build_fails(build_prelu, NULL, (bg_type[]){x, two}, 2, BG_ERROR_SHAPE, "one for each of the 3 channels");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/einsum.txt");
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
        cmocka_unit_test(test_truth_tables),
        cmocka_unit_test(test_triangles),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
