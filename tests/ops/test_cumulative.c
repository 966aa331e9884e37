/*
 * test_cumulative.c: compares cumulative sums with PyTorch; integer sums are exact.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kernels/cumulative/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

typedef struct sum_case {
    int32_t axis;
    bool exclusive, reverse;
} sum_case;

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const sum_case *c = argument;

    return bg_cumulative_sum(graph, "sum", inputs[0], c->axis, c->exclusive, c->reverse);
}

static void test_pytorch_sums_the_same(void **state)
{
    static const char *const kinds[] = {"", "reverse_", "exclusive_"};

    for (int32_t axis = 0; axis < 4; axis++)
        for (int kind = 0; kind < 3; kind++) {
            const sum_case front = {axis, kind == 2, kind == 1}, back = {axis - 4, kind == 2, kind == 1};
            char name[32];

            snprintf(name, sizeof name, "cumulative_%s%d", kinds[kind], (int)axis);
            bgi_test_build_case(*state, name, BG_FLOAT32, build, &front, 1e-6, 1e-6);
            bgi_test_build_case(*state, name, BG_FLOAT64, build, &back, 1e-7, 1e-8);
        }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT64, 3, 4);

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        const bgi_cumulative_attributes attributes = {i & 1, i >> 1 & 1, i >> 2};

        bgi_test_gradient(&bgi_op_cumulative_sum, &attributes, &x, 1, -1, 1);
    }
}

static void test_integers_are_exact(void **state)
{
    const bg_type type = bg_vector(BG_INT64, 3);
    const int64_t x[] = {INT64_MAX - 1, 1, 2}, expected[] = {INT64_MAX - 1, INT64_MAX, INT64_MIN + 1};
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value input, y;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    input = bg_graph_input(graph, "x", &type);
    y = bg_cumulative_sum(graph, NULL, input, 0, false, false);
    bgi_test_interpreter_init(&interpreter, graph);
    memcpy(bgi_test_data(&interpreter, input), x, sizeof x);
    bgi_test_interpret(&interpreter);
    assert_memory_equal(bgi_test_data(&interpreter, y), expected, sizeof expected);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), bytes = bg_vector(BG_UINT8, 3);
    const sum_case outside = {2, false, false}, first = {0, false, false};

    (void)state;
    bgi_test_build_fails(build, &outside, &x, 1, BG_ERROR_SHAPE, "axis");
    bgi_test_build_fails(build, &first, &bytes, 1, BG_ERROR_SHAPE, "x is uint8[3]");
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
        cmocka_unit_test(test_pytorch_sums_the_same),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
