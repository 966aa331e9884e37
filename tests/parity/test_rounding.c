/*
 * test_rounding.c: each weight that is rounded stochastically has separate random numbers. Two parameters with equal
 * values and gradients diverge, and so do the shards of a parameter on a mesh. Replicas with the same shard stay equal.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/ops.h>
#include <brigade/session.h>

enum { HALF = 128, COUNT = 2 * HALF };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Adds a parameter whose elements are 1 and have the gradient 1. */
static bg_value add_ones(bg_graph *graph, const char *name)
{
    const bg_initializer one = {.kind = BG_INITIALIZE_CONSTANT, .a = 1.0};
    const bg_shard shard = {.whole = bg_matrix(BG_BFLOAT16, 2, COUNT), .dims = {{0}, {.axis = BG_MESH_TENSOR_1}}};
    const bg_value sum = bg_reduce(
        graph, NULL, BG_REDUCE_SUM,
        bg_cast(graph, NULL, bg_graph_sharded_parameter(graph, name, &shard, &one), BG_FLOAT32), NULL, 0, false);

    return bg_identical_gradients(graph, NULL, sum, BG_MESH_TENSOR_1);
}

/* Trains with steps of a third of the distance between 1 and the bfloat16 below 1, so two thirds of the elements
 * stay 1. */
static void train(const bg_mesh *mesh, bool in_pieces, uint16_t a[2 * COUNT], uint16_t b[2 * COUNT])
{
    bg_optimizer optimizer = bg_sgd(0.00390625 / 3.0);
    bg_options options = bg_options_defaults();
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error = {0};
    void *outputs[1] = {NULL};
    bg_weight weight;
    bg_value loss;

    optimizer.momentum = 0.5; /* state */
    options.numerics.stochastic_rounding = true;
    options.memory.locations[BG_LOCATION_STATE].sharded = in_pieces;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    options.replicas.count = bg_mesh_replica_count(mesh);
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_set_mesh(graph, mesh);
    loss = bg_add(graph, add_ones(graph, "layer.a"), add_ones(graph, "layer.b"));
    bg_graph_output(graph, "loss", loss);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_session_run(session, NULL, outputs, &error), &error);
    require(bg_weights_find(bg_session_weights(session), "layer.a", &weight, &error), &error);
    memcpy(a, weight.data, 2 * COUNT * sizeof *a);
    require(bg_weights_find(bg_session_weights(session), "layer.b", &weight, &error), &error);
    memcpy(b, weight.data, 2 * COUNT * sizeof *b);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static int count_changed(const uint16_t *values, int count)
{
    int changed = 0;

    for (int i = 0; i < count; i++) {
        assert_true(values[i] == 0x3f80 || values[i] == 0x3f7f); /* 1 and the bfloat16 below it */
        changed += values[i] == 0x3f7f;
    }
    return changed;
}

static void test_each_has_its_own(void **state)
{
    static const bg_mesh meshes[] = {{1, 1, 1}, {1, 2, 1}, {2, 2, 2}};
    uint16_t a[2 * COUNT], b[2 * COUNT];

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        train(&meshes[i], false, a, b);
        assert_in_range(count_changed(a, 2 * COUNT), 2 * COUNT / 4, 2 * COUNT / 2);
        assert_in_range(count_changed(b, 2 * COUNT), 2 * COUNT / 4, 2 * COUNT / 2);
        assert_memory_not_equal(a, b, sizeof a);
        assert_memory_not_equal(a, a + HALF, HALF * sizeof *a); /* the mask of another replica of axis 1 */
        assert_memory_not_equal(a, a + COUNT, COUNT * sizeof *a);
    }
}

/* Replicas that each update a shard round like a replica that updates the whole tensor, even if shards are uneven. */
static void test_pieces_are_those_of_the_whole(void **state)
{
    uint16_t a[2][2 * COUNT], b[2][2 * COUNT];

    (void)state;
    for (uint32_t replicas = 2; replicas <= 5; replicas++) {
        const bg_mesh mesh = {replicas, 1, 1};
        for (int in_pieces = 0; in_pieces < 2; in_pieces++)
            train(&mesh, in_pieces != 0, a[in_pieces], b[in_pieces]);
        assert_in_range(count_changed(a[0], 2 * COUNT), 2 * COUNT / 4, 2 * COUNT / 2);
        assert_memory_equal(a[0], a[1], sizeof a[0]);
        assert_memory_equal(b[0], b[1], sizeof b[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_has_its_own),
                                       cmocka_unit_test(test_pieces_are_those_of_the_whole)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
