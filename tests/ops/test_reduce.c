/*
 * test_reduce.c: compares reductions, broadcasting and argmax with PyTorch and finite differences.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/reduce/attributes.h"
#include "kernels/reshape/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

typedef struct reduce_case {
    bg_reduction function;
    int32_t axes[4];
    uint32_t axis_count;
    bool keep_dims;
} reduce_case;

static bg_value build_reduce(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const reduce_case *c = argument;

    return bg_reduce(graph, "r", c->function, inputs[0], c->axes, c->axis_count, c->keep_dims);
}

static bg_value build_broadcast(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bg_type *type = argument;

    return bg_broadcast(graph, "b", inputs[0], type->rank, type->dims);
}

static bg_value build_argmax(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    return bg_argmax(graph, "a", inputs[0]);
}

static void test_reduce_equals_pytorch(void **state)
{
    static const char *const names[BG_REDUCTION_COUNT][3] = {
        {"reduce_sum_all", "reduce_sum_last", "reduce_sum_outer"},
        {"reduce_mean_all", "reduce_mean_last", "reduce_mean_outer"},
        {"reduce_max_all", "reduce_max_last", "reduce_max_outer"}};

    (void)state;
    for (bg_reduction function = 0; function < BG_REDUCTION_COUNT; function++) {
        const reduce_case cases[] = {{.function = function},
                                     {.function = function, .axes = {-1}, .axis_count = 1},
                                     {.function = function, .axes = {2, -4}, .axis_count = 2, .keep_dims = true}};

        for (int k = 0; k < 3; k++) {
            bgi_test_build_case(bgi_test_ops_oracle, names[function][k], BG_FLOAT32, build_reduce, &cases[k], 1e-6,
                                1e-6);
            bgi_test_build_case(bgi_test_ops_oracle, names[function][k], BG_FLOAT64, build_reduce, &cases[k], 1e-7,
                                1e-8);
        }
    }
}

static void test_broadcast_and_argmax_equal_pytorch(void **state)
{
    const bg_type wanted = bg_tensor3(BG_FLOAT32, 2, 5, 3);

    (void)state;
    bgi_test_build_case(bgi_test_ops_oracle, "broadcast", BG_FLOAT32, build_broadcast, &wanted, 1e-6, 1e-6);
    bgi_test_build_case(bgi_test_ops_oracle, "broadcast", BG_BFLOAT16, build_broadcast, &wanted, 0.1, 0.02);
    bgi_test_build_case(bgi_test_ops_oracle, "argmax", BG_FLOAT32, build_argmax, NULL, 0.0, 0.0);
    bgi_test_build_case(bgi_test_ops_oracle, "argmax", BG_FLOAT64, build_argmax, NULL, 0.0, 0.0);
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type x = bg_tensor4(BG_FLOAT64, 2, 3, 1, 4), row = bg_matrix(BG_FLOAT64, 3, 1),
                  scalar = bg_scalar(BG_FLOAT64);
    const bgi_dims_attributes wide = {.rank = 3, .dims = {2, 3, 4}};

    (void)state;
    for (bg_reduction function = 0; function < BG_REDUCTION_COUNT; function++)
        for (uint32_t axes = 0; axes < 16; axes++)
            for (int keep = 0; keep < 2; keep++)
                bgi_test_gradient(&bgi_op_reduce,
                                  &(bgi_reduce_attributes){.function = function, .axes = axes, .keep_dims = keep != 0},
                                  &x, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_reduce, &(bgi_reduce_attributes){.function = BG_REDUCE_MEAN}, &scalar, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_broadcast, &wide, &row, 1, -1.0, 1.0);
    bgi_test_gradient(&bgi_op_broadcast, &wide, &scalar, 1, -1.0, 1.0);
}

/* Computes x -> function(x) over all elements, and its gradient, for float32 rows of four. */
static void reduce_four(bg_reduction function, const double *elements, double *y, double *gradient)
{
    const bg_type type = bg_vector(BG_FLOAT32, 4), scalar = bg_scalar(BG_FLOAT32);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value x, seed, result, dx;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    seed = bg_graph_variable(graph, "seed", &scalar, BG_ROLE_BUFFER, NULL);
    result = bg_reduce(graph, NULL, function, x, NULL, 0, false);
    bgi_test_derive(graph, result, seed, &x, 1, &dx);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, x, elements);
    bgi_test_set(&interpreter, seed, (double[]){1.0});
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, result, y);
    bgi_test_get(&interpreter, dx, gradient);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_the_first_largest_gets_the_gradient(void **state)
{
    const double first[] = {0.0, 1.0, 0.0, 0.0};
    double y, gradient[4];

    (void)state;
    reduce_four(BG_REDUCE_MAX, (double[]){1.0, 3.0, 3.0, 2.0}, &y, gradient);
    assert_true(y == 3.0);
    assert_memory_equal(gradient, first, sizeof first);
    reduce_four(BG_REDUCE_MAX, (double[]){1.0, NAN, NAN, 2.0}, &y, gradient);
    assert_true(isnan(y));
    assert_memory_equal(gradient, first, sizeof first);
}

/* Sums in float32 would lose the ones; the reference kernel adds in double. */
static void test_sums_are_kept_in_double(void **state)
{
    double y, gradient[4];

    (void)state;
    reduce_four(BG_REDUCE_SUM, (double[]){16777216.0, 1.0, 1.0, -16777216.0}, &y, gradient);
    assert_true(y == 2.0);
}

static void test_argmax_takes_the_first_and_nan(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
    const double elements[] = {5.0, 5.0, 1.0, 1.0, NAN, 7.0};
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value x, y;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    y = bg_argmax(graph, NULL, x);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, x, elements);
    bgi_test_interpret(&interpreter);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, y))[0], 0);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, y))[1], 1);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* Sums wrap around; integers that are equal as doubles stay different. */
static void test_integers_stay_whole(void **state)
{
    static const int64_t large = ((int64_t)1 << 60) + 1;
    const int64_t wides[] = {large, large + 1, large - 1, INT64_MAX, 5, INT64_MAX};
    const int32_t counts[] = {INT32_MAX, 3, -7, INT32_MIN, -1, 1};
    const bg_type wide = bg_matrix(BG_INT64, 2, 3), narrow = bg_matrix(BG_INT32, 2, 3);
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    bg_value x, n, sums, largest, place, repeated, narrow_sums, narrow_largest;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &wide);
    n = bg_graph_input(graph, "n", &narrow);
    sums = bg_reduce(graph, NULL, BG_REDUCE_SUM, x, (int32_t[]){1}, 1, false);
    largest = bg_reduce(graph, NULL, BG_REDUCE_MAX, x, (int32_t[]){1}, 1, false);
    place = bg_argmax(graph, NULL, x);
    repeated = bg_broadcast(graph, NULL, largest, 2, (int64_t[]){3, 2});
    narrow_sums = bg_reduce(graph, NULL, BG_REDUCE_SUM, n, (int32_t[]){1}, 1, false);
    narrow_largest = bg_reduce(graph, NULL, BG_REDUCE_MAX, n, NULL, 0, false);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bgi_test_interpreter_init(&interpreter, graph);
    memcpy(bgi_test_data(&interpreter, x), wides, sizeof wides);
    memcpy(bgi_test_data(&interpreter, n), counts, sizeof counts);
    bgi_test_interpret(&interpreter);
    assert_int_equal(((const int64_t *)bgi_test_data(&interpreter, sums))[0], 3 * large);
    assert_int_equal(((const int64_t *)bgi_test_data(&interpreter, sums))[1], 3);
    assert_int_equal(((const int64_t *)bgi_test_data(&interpreter, largest))[0], large + 1);
    assert_int_equal(((const int64_t *)bgi_test_data(&interpreter, largest))[1], INT64_MAX);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, place))[0], 1);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, place))[1], 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(((const int64_t *)bgi_test_data(&interpreter, repeated))[2 * i], large + 1);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, narrow_sums))[0], INT32_MAX - 4);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, narrow_sums))[1], INT32_MIN);
    assert_int_equal(((const int32_t *)bgi_test_data(&interpreter, narrow_largest))[0], INT32_MAX);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_reduce_to_undoes_broadcasting(void **state)
{
    const bg_type from = bg_tensor3(BG_FLOAT32, 2, 3, 4);
    const bg_type targets[] = {bg_scalar(BG_FLOAT32), bg_vector(BG_FLOAT32, 4), bg_matrix(BG_FLOAT32, 3, 1),
                               bg_tensor3(BG_FLOAT32, 1, 3, 1), bg_tensor3(BG_FLOAT32, 1, 1, 1)};
    bg_graph *graph = NULL;
    bg_value x;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &from);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const bg_type found = bg_graph_type(graph, bgi_reduce_to(graph, x, &targets[i]));

        assert_true(bg_type_equal(&found, &targets[i]));
    }
    assert_int_equal(bgi_reduce_to(graph, x, &from).id, x.id);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static void test_shape_errors_say_what_would_be_right(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), narrow = bg_vector(BG_FLOAT32, 3), ids = bg_vector(BG_INT32, 3);
    const bg_type scalar = bg_scalar(BG_FLOAT32), wrong = bg_matrix(BG_FLOAT32, 2, 4), bytes = bg_vector(BG_UINT8, 3);

    (void)state;
    bgi_test_build_fails(build_reduce, &(reduce_case){.axes = {2}, .axis_count = 1}, &x, 1, BG_ERROR_SHAPE,
                         "reduce `r`: x is float32[2,3]; axis 2 must be between -2 and 1");
    bgi_test_build_fails(build_reduce, &(reduce_case){.function = BG_REDUCE_MEAN}, &ids, 1, BG_ERROR_SHAPE,
                         "x is int32[3]; its elements must be float32");
    bgi_test_build_fails(build_reduce, &(reduce_case){.function = BG_REDUCE_SUM}, &bytes, 1, BG_ERROR_SHAPE,
                         "x is uint8[3]; its elements must be float32");
    bgi_test_build_fails(build_reduce, &(reduce_case){.function = (bg_reduction)7}, &x, 1, BG_ERROR_INVALID,
                         "function 7 is not one of bg_reduction (0 to 2)");
    bgi_test_build_fails(build_broadcast, &narrow, &x, 1, BG_ERROR_SHAPE,
                         "x is float32[2,3]: broadcasting only repeats, so it cannot become float32[3]");
    bgi_test_build_fails(build_broadcast, &wrong, &x, 1, BG_ERROR_SHAPE, "do not broadcast");
    bgi_test_build_fails(build_argmax, NULL, &scalar, 1, BG_ERROR_SHAPE,
                         "it must have at least 1 dimensions, [..., C]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_equals_pytorch),
        cmocka_unit_test(test_broadcast_and_argmax_equal_pytorch),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_the_first_largest_gets_the_gradient),
        cmocka_unit_test(test_sums_are_kept_in_double),
        cmocka_unit_test(test_argmax_takes_the_first_and_nan),
        cmocka_unit_test(test_integers_stay_whole),
        cmocka_unit_test(test_reduce_to_undoes_broadcasting),
        cmocka_unit_test(test_shape_errors_say_what_would_be_right),
    };

    return cmocka_run_group_tests(tests, bgi_test_open_ops_oracle, bgi_test_close_ops_oracle);
}
