/*
 * test_reshape.c: compares reshape, transpose, slice and concat with PyTorch and finite differences, for every element
 * type.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/reshape/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

typedef struct slice_case {
    int32_t axis;
    int64_t start, stop, step;
} slice_case;

static bg_value build_reshape(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bgi_dims_attributes *a = argument;

    return bg_reshape(graph, "r", inputs[0], a->rank, a->dims);
}

static bg_value build_flatten(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    return bg_flatten(graph, "f", inputs[0]);
}

static bg_value build_transpose(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_transpose(graph, "t", inputs[0], argument);
}

static bg_value build_slice(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const slice_case *c = argument;

    return bg_slice(graph, "s", inputs[0], c->axis, c->start, c->stop, c->step);
}

/* Concatenates all operands. */
static bg_value build_concat(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    uint32_t count = 0;

    while (!bg_value_is_null(inputs[count]))
        count++;
    return bg_concat(graph, "c", inputs, count, *(const int32_t *)argument);
}

/* Elements only move, so bits are compared (the oracle prints enough digits of a float32). */
static void test_moves_equal_pytorch(void **state)
{
    const bgi_dims_attributes plain = {3, {4, 3, 2}}, open = {3, {4, -1, 2}};
    const uint32_t permutation[] = {2, 0, 3, 1};
    const slice_case inner = {1, 1, 4, 1}, step = {-1, 1, 7, 3}, negative = {0, -3, -1, 1};
    const int32_t axes[] = {1, -2};

    (void)state;
    bgi_test_build_case(bgi_test_ops_oracle, "reshape", BG_FLOAT32, build_reshape, &plain, 0.0, 1e-8);
    bgi_test_build_case(bgi_test_ops_oracle, "reshape", BG_FLOAT32, build_reshape, &open, 0.0, 1e-8);
    bgi_test_build_case(bgi_test_ops_oracle, "flatten", BG_FLOAT32, build_flatten, NULL, 0.0, 1e-8);
    bgi_test_build_case(bgi_test_ops_oracle, "transpose", BG_FLOAT32, build_transpose, permutation, 0.0, 1e-8);
    bgi_test_build_case(bgi_test_ops_oracle, "slice", BG_FLOAT32, build_slice, &inner, 0.0, 1e-8);
    bgi_test_build_case(bgi_test_ops_oracle, "slice_step", BG_FLOAT32, build_slice, &step, 0.0, 1e-8);
    bgi_test_build_case(bgi_test_ops_oracle, "slice_negative", BG_FLOAT32, build_slice, &negative, 0.0, 1e-8);
    for (int i = 0; i < 2; i++) {
        bgi_test_build_case(bgi_test_ops_oracle, "concat", BG_FLOAT32, build_concat, &axes[i], 0.0, 1e-8);
        bgi_test_build_case(bgi_test_ops_oracle, "concat", BG_FLOAT64, build_concat, &axes[i], 0.0, 1e-8);
        bgi_test_build_case(bgi_test_ops_oracle, "concat", BG_BFLOAT16, build_concat, &axes[i], 0.01, 0.01);
    }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT64, 2, 5, 3);
    const bg_type parts[] = {bg_matrix(BG_FLOAT64, 2, 1), bg_matrix(BG_FLOAT64, 2, 3), bg_matrix(BG_FLOAT64, 2, 2)};

    (void)state;
    bgi_test_gradient(&bgi_op_reshape, &(bgi_dims_attributes){2, {6, 5}}, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_copy, NULL, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_transpose, &(bgi_transpose_attributes){{1, 2, 0}}, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_slice, &(bgi_slice_attributes){1, 1, 5, 2}, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_slice, &(bgi_slice_attributes){0, 1, 2, 1}, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_slice, &(bgi_slice_attributes){1, 1, 5, INT64_MAX}, &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_concat, &(bgi_axis_attributes){1}, parts, 3, -1.0, 1.0);
}

/* For every type, concatenated slices equal the whole tensor, and two transpositions equal the original. */
static void test_parts_make_the_whole_in_every_type(void **state)
{
    const uint32_t there[] = {2, 0, 1}, back[] = {1, 2, 0};

    (void)state;
    for (bg_dtype dtype = BG_FLOAT32; dtype < BG_DTYPE_COUNT; dtype++) {
        const bg_type type = bg_tensor3(dtype, 2, 5, 3);
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value x, parts[3], whole, turned;
        unsigned char *bytes;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_input(graph, "x", &type);
        parts[0] = bg_slice(graph, NULL, x, 1, 0, 2, 1);
        parts[1] = bg_slice(graph, NULL, x, 1, 2, 3, 1);
        parts[2] = bg_slice(graph, NULL, x, 1, 3, 5, 1);
        whole = bg_concat(graph, NULL, parts, 3, 1);
        turned = bg_transpose(graph, NULL, bg_transpose(graph, NULL, x, there), back);
        bgi_test_interpreter_init(&interpreter, graph);
        bytes = bgi_test_data(&interpreter, x);
        for (size_t i = 0; i < bg_type_size_bytes(&type); i++)
            bytes[i] = (unsigned char)(i * 37u + 11u);
        bgi_test_interpret(&interpreter);
        assert_memory_equal(bgi_test_data(&interpreter, whole), bytes, bg_type_size_bytes(&type));
        assert_memory_equal(bgi_test_data(&interpreter, turned), bytes, bg_type_size_bytes(&type));
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

static void test_reshape_is_an_alias(void **state)
{
    (void)state;
    assert_int_equal(bgi_op_reshape.alias_input, 0);
    assert_int_equal(bgi_op_copy.alias_input, BG_NO_OPERAND);
}

static void test_shape_errors_say_what_would_be_right(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 4, 6), scalar = bg_scalar(BG_FLOAT32);
    const bg_type others[] = {x, bg_matrix(BG_FLOAT32, 3, 6)};
    const int32_t last = -1;

    (void)state;
    bgi_test_build_fails(
        build_reshape, &(bgi_dims_attributes){2, {5, 5}}, &x, 1, BG_ERROR_SHAPE,
        "reshape `r`: x is float32[4,6], which has 24 elements; these do not fill float32[5,5] exactly");
    bgi_test_build_fails(build_reshape, &(bgi_dims_attributes){2, {5, -1}}, &x, 1, BG_ERROR_SHAPE,
                         "do not fill float32[5,-1]");
    bgi_test_build_fails(build_reshape, &(bgi_dims_attributes){2, {-1, -1}}, &x, 1, BG_ERROR_SHAPE,
                         "dimensions 0 and 1 are both -1");
    bgi_test_build_fails(build_reshape, &(bgi_dims_attributes){2, {INT64_MAX, INT64_MAX}}, &x, 1, BG_ERROR_SHAPE,
                         "do not fill");
    bgi_test_build_fails(build_reshape, &(bgi_dims_attributes){2, {0, 24}}, &x, 1, BG_ERROR_SHAPE,
                         "dimension 0 is 0; it must be at least 1, or -1 to infer it");
    bgi_test_build_fails(build_transpose, (uint32_t[]){0, 0}, &x, 1, BG_ERROR_SHAPE,
                         "permutation[1] is 0, which occurs twice");
    bgi_test_build_fails(build_transpose, (uint32_t[]){0, 2}, &x, 1, BG_ERROR_SHAPE,
                         "permutation[1] is 2; x has dimensions 0 to 1");
    bgi_test_build_fails(build_slice, &(slice_case){1, 2, 7, 1}, &x, 1, BG_ERROR_SHAPE,
                         "elements 2 to 7 (not included) of axis 1, which has 6");
    bgi_test_build_fails(build_slice, &(slice_case){1, 3, 3, 1}, &x, 1, BG_ERROR_SHAPE,
                         "0 <= start < stop <= 6 must hold");
    bgi_test_build_fails(build_slice, &(slice_case){0, 0, 3, 0}, &x, 1, BG_ERROR_INVALID,
                         "step is 0; it must be at least 1");
    bgi_test_build_fails(build_slice, &(slice_case){1, -7, 4, 1}, &x, 1, BG_ERROR_SHAPE,
                         "elements -7 to 4 (not included)");
    bgi_test_build_fails(build_slice, &(slice_case){1, INT64_MIN, INT64_MAX, 1}, &x, 1, BG_ERROR_SHAPE,
                         "elements -9223372036854775808 to 9223372036854775807 (not included)");
    bgi_test_build_fails(build_slice, &(slice_case){0, 0, 1, 1}, &scalar, 1, BG_ERROR_SHAPE, "a scalar has no axis 0");
    bgi_test_build_fails(
        build_concat, &last, others, 2, BG_ERROR_SHAPE,
        "concat `c`: operand 1 is float32[3,6]; it must be float32[4,6] (as operand 0, except along the axis)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_equal_pytorch),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_parts_make_the_whole_in_every_type),
        cmocka_unit_test(test_reshape_is_an_alias),
        cmocka_unit_test(test_shape_errors_say_what_would_be_right),
    };

    return cmocka_run_group_tests(tests, bgi_test_open_ops_oracle, bgi_test_close_ops_oracle);
}
