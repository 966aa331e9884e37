/*
 * test_pad.c: compares padding in every mode, and ops built from slices, reshapes and broadcasts, with PyTorch. It also
 * checks errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "graph/graph.h"
#include "kernels/pad/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

typedef struct pad_case {
    const char *name;
    bg_pad_mode mode;
    int64_t before[4], after[4];
    double value;
} pad_case;

static const pad_case cases[] = {
    {"pad_constant", BG_PAD_CONSTANT, {0, 0, 2, 1}, {0, 0, 1, 3}, 1.5},
    {"pad_reflect", BG_PAD_REFLECT, {0, 0, 2, 1}, {0, 0, 1, 3}, 0},
    {"pad_replicate", BG_PAD_REPLICATE, {0, 0, 2, 1}, {0, 0, 1, 3}, 0},
    {"pad_circular", BG_PAD_CIRCULAR, {0, 0, 2, 1}, {0, 0, 1, 3}, 0},
    {"pad_everywhere", BG_PAD_CONSTANT, {1, 2, 0, 1}, {1, 0, 1, 2}, -0.5},
    {"pad_crop", BG_PAD_CONSTANT, {0, 0, 1, -1}, {0, 0, -2, 2}, 0},
};

static bg_value build_pad(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const pad_case *c = argument;

    return bg_pad(graph, "pad", inputs[0], c->mode, c->before, c->after, c->value);
}

static void test_pytorch_pads_the_same(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT32, build_pad, &cases[i], 1e-6, 1e-6);
        bgi_test_build_case(*state, cases[i].name, BG_FLOAT64, build_pad, &cases[i], 1e-8, 1e-8);
    }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT64, 3, 4);
    bgi_pad_attributes attributes = {.rank = 2, .before = {1, 2}, .after = {2, 1}, .dims = {3, 4}};

    (void)state;
    for (attributes.mode = BG_PAD_CONSTANT; attributes.mode < BG_PAD_MODE_COUNT; attributes.mode++)
        bgi_test_gradient(&bgi_op_pad, &attributes, &x, 1, -1, 1);
}

typedef struct move {
    int32_t axis;
    int kind;
} move;

static bg_value build_move(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    static const int64_t times[] = {2, 1, 3};
    const move *m = argument;

    return m->kind == 0   ? bg_roll(graph, "move", inputs[0], m->axis, 4)
           : m->kind == 1 ? bg_flip(graph, "move", inputs[0], m->axis)
           : m->kind == 2 ? bg_stack(graph, "move", inputs, 3, m->axis)
                          : bg_tile(graph, "move", inputs[0], times);
}

static void test_pytorch_moves_the_same(void **state)
{
    static const char *const names[] = {"roll", "flip", "stack"};
    const move tile = {0, 3};

    for (int kind = 0; kind < 3; kind++)
        for (int32_t axis = 0; axis < (kind == 2 ? 3 : 4); axis++) {
            const move front = {axis, kind}, back = {axis - (kind == 2 ? 3 : 4), kind};
            char name[32];

            snprintf(name, sizeof name, "%s_%d", names[kind], (int)axis);
            bgi_test_build_case(*state, name, BG_FLOAT32, build_move, &front, 0, 1e-8);
            bgi_test_build_case(*state, name, BG_FLOAT32, build_move, &back, 0, 1e-8);
        }
    bgi_test_build_case(*state, "tile", BG_FLOAT32, build_move, &tile, 1e-6, 1e-6);
}

/* The last op that a function adds has the given name. A roll by the whole axis and a tiling with one copy add no
 * op. */
static void test_names_of_what_is_composed(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
    bg_graph *graph = NULL;
    bg_value x;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    assert_string_equal(bg_graph_name(graph, bg_roll(graph, "rolled", x, 1, -1)), "rolled");
    assert_string_equal(bg_graph_name(graph, bg_flip(graph, "flipped", x, 1)), "flipped");
    assert_string_equal(bg_graph_name(graph, bg_stack(graph, "stacked", &x, 1, 0)), "stacked");
    assert_string_equal(bg_graph_name(graph, bg_tile(graph, "tiled", x, (int64_t[]){2, 3})), "tiled");
    assert_int_equal(bg_roll(graph, NULL, x, 0, 2).id, x.id);
    assert_int_equal(bg_tile(graph, NULL, x, (int64_t[]){1, 1}).id, x.id);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static bg_value build_tile(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_tile(graph, "t", inputs[0], argument);
}

static bg_value build_stack(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_stack(graph, "s", inputs, 2, *(const int32_t *)argument);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_tensor4(BG_FLOAT32, 2, 3, 4, 5), row = bg_vector(BG_FLOAT32, 2);
    const int64_t none = 0;
    const int32_t outside = 2;
    pad_case wrong = cases[1];

    (void)state;
    wrong.before[2] = 4;
    bgi_test_build_fails(
        build_pad, &wrong, &x, 1, BG_ERROR_SHAPE,
        "4 elements before dimension 2, which has 4 elements, is not possible: this mode allows 0 to 3");
    wrong.mode = BG_PAD_CIRCULAR;
    wrong.before[2] = 5;
    bgi_test_build_fails(build_pad, &wrong, &x, 1, BG_ERROR_SHAPE, "allows 0 to 4");
    wrong.before[2] = -1;
    bgi_test_build_fails(build_pad, &wrong, &x, 1, BG_ERROR_SHAPE, "-1 elements before dimension 2");
    wrong.mode = BG_PAD_CONSTANT;
    wrong.before[2] = -2;
    wrong.after[2] = -2;
    bgi_test_build_fails(build_pad, &wrong, &x, 1, BG_ERROR_SHAPE, "dimension 2 of the result would be empty");
    wrong.mode = BG_PAD_MODE_COUNT;
    bgi_test_build_fails(build_pad, &wrong, &x, 1, BG_ERROR_INVALID, "mode 4 is not one of bg_pad_mode (0 to 3)");
    bgi_test_build_fails(build_tile, &none, &row, 1, BG_ERROR_INVALID, "dimension 0 is repeated 0 times");
    bgi_test_build_fails(build_stack, &outside, (bg_type[]){row, row}, 2, BG_ERROR_SHAPE,
                         "axis is 2 and the values have 1");
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
        cmocka_unit_test(test_pytorch_pads_the_same),  cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_pytorch_moves_the_same), cmocka_unit_test(test_names_of_what_is_composed),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
