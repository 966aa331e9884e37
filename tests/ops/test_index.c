/*
 * test_index.c: compares gathers, scatters and top-k with PyTorch. It also tests indices that are out of range or count
 * from the end, and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/index/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"
#include "support/oracle.h"

static bgi_test_oracle *oracle;

typedef enum what { GATHER, SCATTER, GATHER_ELEMENTS, SCATTER_ELEMENTS, TOP, BOTTOM } what;

/* Builds a graph over x and, if the op has them, ids and updates. */
typedef struct rig {
    bg_graph *graph;
    bg_value x, ids, updates, y, numbers;
} rig;

static void build(rig *r, what op, const bg_type *x, const bg_type *ids, const bg_type *updates, int32_t axis,
                  int64_t k)
{
    *r = (rig){0};
    assert_int_equal(bg_graph_create(&r->graph, NULL), BG_OK);
    r->x = bg_graph_input(r->graph, "x", x);
    if (op < TOP)
        r->ids = bg_graph_input(r->graph, "ids", ids);
    if (op == SCATTER || op == SCATTER_ELEMENTS)
        r->updates = bg_graph_input(r->graph, "updates", updates);
    switch (op) {
    case GATHER:
        r->y = bg_gather(r->graph, "op", r->x, axis, r->ids);
        break;
    case SCATTER:
        r->y = bg_scatter_add(r->graph, "op", r->x, axis, r->ids, r->updates);
        break;
    case GATHER_ELEMENTS:
        r->y = bg_gather_elements(r->graph, "op", r->x, axis, r->ids);
        break;
    case SCATTER_ELEMENTS:
        r->y = bg_scatter_elements_add(r->graph, "op", r->x, axis, r->ids, r->updates);
        break;
    default:
        r->y = bg_top_k(r->graph, "op", r->x, k, op == BOTTOM, &r->numbers);
    }
}

static void compare(bgi_test_interpreter *interpreter, const char *name, const char *tensor, bg_value value)
{
    const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, name, tensor);
    double *found = calloc((size_t)wanted->count, sizeof *found);

    bgi_test_get(interpreter, value, found);
    bgi_test_compare(wanted, found, 0, 0);
    free(found);
}

static void check(what op, const char *name, bg_dtype dtype, bg_dtype id_dtype, int32_t axis, int64_t k)
{
    const bgi_test_tensor *x = bgi_test_oracle_find(oracle, name, "x"), *dy = bgi_test_oracle_find(oracle, name, "dy");
    const bgi_test_tensor *ids = bgi_test_oracle_try(oracle, name, "ids");
    const bgi_test_tensor *updates = bgi_test_oracle_try(oracle, name, "updates");
    const bg_type x_type = bgi_test_tensor_type(x, dtype), dy_type = bgi_test_tensor_type(dy, dtype);
    const bg_type id_type = ids != NULL ? bgi_test_tensor_type(ids, id_dtype) : x_type;
    const bg_type update_type = updates != NULL ? bgi_test_tensor_type(updates, dtype) : x_type;
    bgi_test_interpreter interpreter;
    bg_value wanted[2], gradients[2], seed;
    bg_error error = {0};
    rig r;

    build(&r, op, &x_type, &id_type, &update_type, axis, k);
    wanted[0] = r.x;
    wanted[1] = r.updates;
    seed = bg_graph_input(r.graph, "dy", &dy_type);
    if (bg_graph_check(r.graph, &error) != BG_OK)
        fail_msg("%s: %s", name, error.message);
    bgi_test_derive(r.graph, r.y, seed, wanted, updates != NULL ? 2 : 1, gradients);
    bgi_test_interpreter_init(&interpreter, r.graph);
    bgi_test_set(&interpreter, r.x, x->values);
    bgi_test_set(&interpreter, seed, dy->values);
    if (ids != NULL)
        bgi_test_set(&interpreter, r.ids, ids->values);
    if (updates != NULL)
        bgi_test_set(&interpreter, r.updates, updates->values);
    bgi_test_interpret(&interpreter);
    compare(&interpreter, name, "y", r.y);
    compare(&interpreter, name, "dx", gradients[0]);
    if (updates != NULL)
        compare(&interpreter, name, "dupdates", gradients[1]);
    if (op >= TOP)
        compare(&interpreter, name, "numbers", r.numbers);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(r.graph);
}

/* Sums of few multiples of 1/16 are exact in float32 and float64. */
static void test_pytorch_has_the_same_numbers(void **state)
{
    static const char *const names[] = {"gather", "scatter", "gather_elements", "scatter_elements"};
    static const bg_dtype id_dtypes[] = {BG_INT32, BG_INT64, BG_UINT8};
    char name[64];

    (void)state;
    for (int32_t axis = 0; axis < 3; axis++)
        for (int i = 0; i < 3; i++)
            for (bg_dtype dtype = BG_FLOAT32;; dtype = BG_FLOAT64) {
                for (what op = GATHER; op < TOP; op++) {
                    snprintf(name, sizeof name, "%s_%d", names[op], (int)axis);
                    check(op, name, dtype, id_dtypes[i], axis, 0);
                    check(op, name, dtype, id_dtypes[i], axis - 3, 0);
                }
                snprintf(name, sizeof name, "gather_matrix_%d", (int)axis);
                check(GATHER, name, dtype, id_dtypes[i], axis, 0);
                if (dtype == BG_FLOAT64)
                    break;
            }
    for (what op = TOP; op <= BOTTOM; op++)
        for (int64_t k = 1; k <= 8; k = k == 1 ? 3 : k + 5) {
            snprintf(name, sizeof name, "%s_%d", op == TOP ? "top" : "bottom", (int)k);
            check(op, name, BG_FLOAT32, BG_INT32, 0, k);
            check(op, name, BG_FLOAT64, BG_INT32, 0, k);
            check(op, name, BG_BFLOAT16, BG_INT32, 0, k);
        }
}

/* -1 is the last element; an index out of range reads as zero and gets no gradient. */
static void test_numbers_outside(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 3, 2), ids = bg_vector(BG_INT32, 4), y = bg_matrix(BG_FLOAT32, 4, 2);
    const double values[] = {1, 2, 3, 4, 5, 6}, numbers[] = {-1, 3, -4, -3}, ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const double expected[] = {5, 6, 0, 0, 0, 0, 1, 2}, expected_gradient[] = {1, 1, 0, 0, 1, 1};
    bgi_test_interpreter interpreter;
    double found[8];
    bg_value seed, dx;
    rig r;

    (void)state;
    build(&r, GATHER, &x, &ids, NULL, 0, 0);
    seed = bg_graph_input(r.graph, "dy", &y);
    bgi_test_derive(r.graph, r.y, seed, &r.x, 1, &dx);
    bgi_test_interpreter_init(&interpreter, r.graph);
    bgi_test_set(&interpreter, r.x, values);
    bgi_test_set(&interpreter, r.ids, numbers);
    bgi_test_set(&interpreter, seed, ones);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, r.y, found);
    assert_memory_equal(found, expected, sizeof expected);
    bgi_test_get(&interpreter, dx, found);
    assert_memory_equal(found, expected_gradient, sizeof expected_gradient);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(r.graph);
}

/* Equal elements keep their order; NaN is the largest. */
static void test_order_of_equal_elements(void **state)
{
    const bg_type x = bg_vector(BG_FLOAT32, 6);
    const double values[] = {2, NAN, 3, 2, -INFINITY, 3};
    const int32_t largest[] = {1, 2, 5, 0, 3, 4}, smallest[] = {4, 0, 3, 2, 5, 1};

    (void)state;
    for (int is_smallest = 0; is_smallest < 2; is_smallest++) {
        bgi_test_interpreter interpreter;
        rig r;
        build(&r, is_smallest ? BOTTOM : TOP, &x, NULL, NULL, 0, 6);
        bgi_test_interpreter_init(&interpreter, r.graph);
        bgi_test_set(&interpreter, r.x, values);
        bgi_test_interpret(&interpreter);
        assert_memory_equal(bgi_test_data(&interpreter, r.numbers), is_smallest ? smallest : largest, sizeof largest);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(r.graph);
    }
}

static void test_one_hot(void **state)
{
    static const bg_dtype dtypes[] = {BG_INT32, BG_INT64, BG_UINT8};
    const double ids[] = {2, 0, 3, 1}, expected[] = {0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const bg_type type = bg_matrix(dtypes[i], 2, 2);
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        double found[12];
        bg_value x, y;
        bg_type y_type;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_input(graph, "ids", &type);
        y = bg_one_hot(graph, "hot", x, 3, BG_FLOAT32);
        y_type = bg_graph_type(graph, y);
        assert_true(y_type.rank == 3 && y_type.dims[2] == 3 && y_type.dtype == BG_FLOAT32);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, x, ids);
        bgi_test_interpret(&interpreter);
        bgi_test_get(&interpreter, y, found);
        assert_memory_equal(found, expected, sizeof expected);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

static bg_value build_gather(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_gather(graph, "op", inputs[0], *(const int32_t *)argument, inputs[1]);
}

static bg_value build_gather_elements(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_gather_elements(graph, "op", inputs[0], *(const int32_t *)argument, inputs[1]);
}

static bg_value build_scatter(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_scatter_add(graph, "op", inputs[0], *(const int32_t *)argument, inputs[1], inputs[2]);
}

static bg_value build_top_k(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_top_k(graph, "op", inputs[0], *(const int64_t *)argument, false, NULL);
}

static bg_value build_one_hot(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_one_hot(graph, "op", inputs[0], *(const int64_t *)argument, BG_FLOAT32);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, 2, 3), ids = bg_vector(BG_INT32, 4), wide = bg_matrix(BG_INT32, 3, 5);
    const int32_t axis = 1, outside = 2;
    const int64_t none = 0, many = 4, too_many = 257;

    (void)state;
    bgi_test_build_fails(build_gather, &axis, (bg_type[]){x, x}, 2, BG_ERROR_SHAPE,
                         "ids is float32[2,3]; its elements must be int32, int64 or uint8");
    bgi_test_build_fails(build_gather, &outside, (bg_type[]){x, ids}, 2, BG_ERROR_SHAPE, "axis");
    bgi_test_build_fails(build_gather_elements, &axis, (bg_type[]){x, wide}, 2, BG_ERROR_SHAPE,
                         "ids is int32[3,5]; it must be int32[2,5]");
    bgi_test_build_fails(build_scatter, &axis, (bg_type[]){x, ids, x}, 3, BG_ERROR_SHAPE,
                         "updates is float32[2,3]; it must be float32[2,4]");
    bgi_test_build_fails(build_top_k, &none, &x, 1, BG_ERROR_INVALID, "k is 0; it must be at least 1");
    bgi_test_build_fails(build_top_k, &many, &x, 1, BG_ERROR_INVALID, "at most the last dimension of x, float32[2,3]");
    bgi_test_build_fails(build_one_hot, &none, &ids, 1, BG_ERROR_INVALID, "classes is 0");
    bgi_test_build_fails(build_one_hot, &too_many, (bg_type[]){bg_vector(BG_UINT8, 2)}, 1, BG_ERROR_INVALID,
                         "classes is 257");
    bgi_test_build_fails(build_one_hot, &many, &x, 1, BG_ERROR_SHAPE, "ids have elements of float32");
}

static int open_oracle(void **state)
{
    (void)state;
    oracle = bgi_test_oracle_open("tests/oracle/index.txt");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(oracle);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_numbers), cmocka_unit_test(test_numbers_outside),
        cmocka_unit_test(test_order_of_equal_elements),      cmocka_unit_test(test_one_hot),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
