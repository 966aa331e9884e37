/*
 * test_equality.c: tests along which axes of a mesh replicas have the same values, op by op.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/ops.h>

#include "transform/transform.h"

#define ONE  BG_MESH_TENSOR_1
#define TWO  BG_MESH_TENSOR_2
#define BOTH BG_MESH_TENSOR

static void expect_axes(const bg_graph *graph, const uint8_t *axes, bg_value value, uint32_t wanted)
{
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_int_equal(axes[value.id], wanted);
}

/* Opens a graph on a mesh of 2 x 3 replicas. */
static bg_graph *open_graph(void)
{
    bg_graph *graph;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_set_mesh(graph, &(bg_mesh){1, 2, 3});
    return graph;
}

static uint8_t *find_axes(const bg_graph *graph, bgi_arena *arena)
{
    bg_error error = {0};
    uint8_t *axes = NULL;

    if (bgi_find_equal_axes(graph, arena, &axes, &error) != BG_OK)
        fail_msg("%s", error.message);
    return axes;
}

static void a_layer(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, 6), row = bg_vector(BG_FLOAT32, 6);
    const bg_shard cut = {.whole = bg_matrix(BG_FLOAT32, 12, 18), .dims = {{.axis = ONE}, {.axis = TWO}}};
    const bg_shard bias_cut = {.whole = bg_vector(BG_FLOAT32, 18), .dims = {{.axis = TWO}}};
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bg_graph *graph = open_graph();
    bgi_arena arena = {0};
    bg_value x = bg_graph_input(graph, "x", &type), w = bg_graph_sharded_parameter(graph, "w", &cut, &zero);
    bg_value bias = bg_graph_sharded_parameter(graph, "bias", &bias_cut, &zero);
    bg_value whole = bg_graph_parameter(graph, "whole", &row, &zero);
    bg_value running = bg_graph_variable(graph, "running", &row, BG_ROLE_BUFFER, &zero);
    bg_value product = bg_matmul(graph, NULL, x, w, false, false);
    bg_value sum = bg_identical_gradients(graph, NULL, product, ONE), y = bg_add(graph, sum, bias);
    bg_value dropped = bg_sharded_dropout(graph, NULL, y, 0.5, TWO);
    bg_value elsewhere = bg_sharded_dropout(graph, NULL, y, 0.5, ONE);
    bg_value gathered = bg_all_gather(graph, NULL, y, -1, TWO);
    bg_value scattered = bg_reduce_scatter(graph, NULL, gathered, 0, ONE);
    bg_value copy = bg_graph_parameter(graph, "w@1", &type, &zero); /* as in stages that share a parameter */
    uint8_t *axes;

    (void)state;
    graph->values[copy.id].copy_of = w;
    axes = find_axes(graph, &arena);
    expect_axes(graph, axes, x, BOTH);
    expect_axes(graph, axes, w, 0);
    expect_axes(graph, axes, copy, 0);
    expect_axes(graph, axes, bias, ONE);
    expect_axes(graph, axes, whole, BOTH);
    expect_axes(graph, axes, running, 0);
    expect_axes(graph, axes, product, 0);
    expect_axes(graph, axes, sum, ONE);
    expect_axes(graph, axes, y, ONE);
    expect_axes(graph, axes, dropped, ONE);
    expect_axes(graph, axes, elsewhere, 0);
    expect_axes(graph, axes, gathered, BOTH);
    expect_axes(graph, axes, scattered, TWO);
    bgi_arena_clear(&arena);
    bg_graph_destroy(graph);
}

/* ---- a user's op ---- */

static bg_status infer_same(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status refuse_kernel(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)out;
    return bg_error_set(error, BG_ERROR_UNSUPPORTED, "this op never runs");
}

static const bg_op_type their_op = {
    BG_OP_TYPE_DEFAULTS, .name = "theirs",    .minimum_inputs = 1,     .maximum_inputs = 1,
    .output_count = 1,   .infer = infer_same, .kernel = refuse_kernel,
};

/* Results of an op of the caller are not assumed to be equal, because the op may read its replica's position in the
 * mesh. */
static void an_unknown_op(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 6);
    bg_graph *graph = open_graph();
    bgi_arena arena = {0};
    bg_value x = bg_graph_input(graph, "x", &type), y = bg_graph_add(graph, &their_op, "y", &x, 1, NULL, NULL);
    uint8_t *axes;

    (void)state;
    axes = find_axes(graph, &arena);
    expect_axes(graph, axes, x, BOTH);
    expect_axes(graph, axes, y, 0);
    bgi_arena_clear(&arena);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer),
        cmocka_unit_test(an_unknown_op),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
