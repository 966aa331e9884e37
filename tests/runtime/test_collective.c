/*
 * test_collective.c: compares collectives of a model with direct loops over the replicas, for random meshes, groups,
 * shapes and types. All members of a group get the same bits; sums are added in the order of the members.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/ops.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference/element.h"
#include "runtime/session.h"

enum { MOST_REPLICAS = 24, MOST_ELEMENTS = 4096, AXIS = 1 };
enum { SUM = 0, MAXIMUM, GATHERED, SCATTERED, COLLECTIVES };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* One replica's shard, [2, 6 columns, 3], of a tensor that is sharded along both axes. */
typedef struct rig {
    bg_mesh mesh;
    uint32_t axes;
    bg_dtype dtype;
    int64_t columns;
    bg_shard shard;
    bg_type piece;
    double values[MOST_REPLICAS][MOST_ELEMENTS];
} rig;

static void add_collectives(const rig *r, bg_graph *graph, bg_value x)
{
    bg_value y[COLLECTIVES];
    static const char *const names[] = {"sum", "maximum", "gathered", "scattered"};

    y[SUM] = bg_all_reduce(graph, "sum", x, BG_REDUCE_SUM, r->axes);
    y[MAXIMUM] = bg_all_reduce(graph, "maximum", x, BG_REDUCE_MAX, r->axes);
    y[GATHERED] = bg_all_gather(graph, "gathered", x, AXIS, r->axes);
    y[SCATTERED] = bg_reduce_scatter(graph, "scattered", x, -2, r->axes);
    for (int i = 0; i < COLLECTIVES; i++)
        bg_graph_output(graph, names[i], bg_scale(graph, NULL, y[i], 1.0, 0.0)); /* x itself for groups of one */
}

static void fill(rig *r, bg_weights *weights, uint32_t *random)
{
    const uint32_t tensor = r->mesh.tensor_1 * r->mesh.tensor_2;
    const int64_t count = bg_type_element_count(&r->shard.whole), piece = bg_type_element_count(&r->piece);
    void *whole = malloc(bg_type_size_bytes(&r->shard.whole)), *part = malloc(bg_type_size_bytes(&r->piece));
    bg_error error = {0};

    assert_true(piece <= MOST_ELEMENTS);
    for (int64_t e = 0; e < count; e++)
        bgi_store(r->dtype, whole, e, draw(random, 97) == 0 ? NAN : ((double)draw(random, 20001) - 10000.0) / 777.0);
    require(bg_weights_set(weights, "x", &r->shard.whole, whole, &error), &error);
    for (uint32_t replica = 0; replica < bg_mesh_replica_count(&r->mesh); replica++) {
        const bg_mesh at = bg_mesh_coordinates(&r->mesh, replica % tensor);
        require(bg_shard_cut(&r->mesh, &r->shard, &at, whole, part, &error), &error);
        for (int64_t e = 0; e < piece; e++)
            r->values[replica][e] = bgi_load(r->dtype, part, e);
    }
    free(part);
    free(whole);
}

/* Sums one element over the group of a replica in float (double for float64), and rounds once. A NaN stays a NaN. */
static double combine(const rig *r, uint32_t replica, int64_t e, bool adds)
{
    const uint32_t size = bg_mesh_group_size(&r->mesh, r->axes);
    double sum = 0.0;

    for (uint32_t m = 0; m < size; m++) {
        const double value = r->values[bg_mesh_group_at(&r->mesh, r->axes, replica, m)][e];
        if (m == 0)
            sum = value;
        else if (!adds)
            sum = isnan(sum) || isnan(value) ? NAN : fmax(sum, value);
        else
            sum = r->dtype == BG_FLOAT64 ? sum + value : (double)((float)sum + (float)value);
    }
    return sum;
}

static double round_to(bg_dtype dtype, double value)
{
    double room = 0.0;

    bgi_store(dtype, &room, 0, value);
    return bgi_load(dtype, &room, 0);
}

/* Returns the expected result of collective `which` for element e of the replica. */
static double expect(const rig *r, uint32_t replica, int which, int64_t e)
{
    const uint32_t size = bg_mesh_group_size(&r->mesh, r->axes);
    const uint32_t place = bg_mesh_group_member(&r->mesh, r->axes, replica);
    const int64_t inner = 3, along = which == GATHERED ? r->columns * size : r->columns / size;
    const int64_t outer = e / (along * inner), column = e / inner % along, i = e % inner;

    if (which == SUM || which == MAXIMUM)
        return combine(r, replica, e, which == SUM);
    if (which == SCATTERED)
        return combine(r, replica, (outer * r->columns + place * along + column) * inner + i, true);
    return r->values[bg_mesh_group_at(&r->mesh, r->axes, replica, (uint32_t)(column / r->columns))]
                    [(outer * r->columns + column % r->columns) * inner + i];
}

static void check_outputs(const rig *r, bg_session *session, void *const *outputs)
{
    for (uint32_t o = 0; o < COLLECTIVES; o++) {
        bg_stream stream;
        assert_int_equal(bg_session_output(session, o, &stream, NULL), BG_OK);
        for (uint32_t replica = 0; replica < stream.replicas; replica++) {
            const int64_t count = bg_type_element_count(&stream.micro_batch_type);
            for (int64_t e = 0; e < count; e++) {
                const double found = bgi_load(r->dtype, outputs[o], replica * count + e);
                const double wanted = round_to(r->dtype, expect(r, replica, (int)o, e));
                if (found != wanted && !(isnan(found) && isnan(wanted)))
                    fail_msg("mesh %u x %u x %u, axes %u, %s, replica %u, element %lld: %.17g instead of %.17g",
                             r->mesh.data, r->mesh.tensor_1, r->mesh.tensor_2, r->axes, stream.name, replica,
                             (long long)e, found, wanted);
            }
        }
    }
}

static void run_case(rig *r, uint32_t *random)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_FLOAT64, BG_BFLOAT16, BG_FLOAT16};
    bg_options options = bg_options_defaults();
    void *outputs[COLLECTIVES] = {0};
    bg_session *session;
    bg_weights *weights;
    bg_graph *graph;
    bg_plan *plan;
    bg_error error = {0};

    r->mesh = (bg_mesh){1 + draw(random, 2), 1 + draw(random, 4), 1 + draw(random, 3)};
    r->axes = 2 * (1 + draw(random, 3));
    r->dtype = dtypes[draw(random, 4)];
    r->columns = bg_mesh_group_size(&r->mesh, r->axes) * (1 + draw(random, 40));
    r->shard = (bg_shard){.whole = bg_tensor3(r->dtype, 2 * r->mesh.tensor_1, r->columns * r->mesh.tensor_2, 3),
                          .dims = {{.axis = BG_MESH_TENSOR_1}, {.axis = BG_MESH_TENSOR_2}}};
    assert_int_equal(bg_shard_piece(&r->mesh, &r->shard, &r->piece, NULL), BG_OK);
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_set_mesh(graph, &r->mesh);
    add_collectives(r, graph, bg_graph_sharded_parameter(graph, "x", &r->shard, NULL));
    options.replicas.count = bg_mesh_replica_count(&r->mesh);
    options.execution.cores = draw(random, 4);
    options.execution.device_iterations = 3;
    options.reporting.output_mode = BG_OUTPUT_FINAL;
    options.numerics.initialize_missing = true;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    weights = bg_session_weights(session);
    fill(r, weights, random);
    for (uint32_t o = 0; o < COLLECTIVES; o++) {
        bg_stream stream;
        assert_int_equal(bg_session_output(session, o, &stream, NULL), BG_OK);
        outputs[o] = malloc(stream.size_bytes);
    }
    for (int run = 0; run < 2; run++) {
        require(bg_session_run(session, NULL, outputs, &error), &error);
        check_outputs(r, session, outputs);
    }
    for (uint32_t o = 0; o < COLLECTIVES; o++)
        free(outputs[o]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void random_meshes(void **state)
{
    const int cases = getenv("BRIGADE_TEST_QUICK") != NULL ? 8 : 40;
    rig *r = malloc(sizeof *r);
    uint32_t random = 5;

    (void)state;
    for (int i = 0; i < cases; i++)
        run_case(r, &random);
    free(r);
}

/* ---- a missing replica ---- */

static void stuck(void **state)
{
    const bg_mesh mesh = {1, 2, 2};
    const bg_shard shard = {.whole = bg_vector(BG_FLOAT32, 8), .dims = {{.axis = BG_MESH_TENSOR_2}}};
    bg_options options = bg_options_defaults();
    bg_session *session;
    bgi_engine *engine;
    bg_graph *graph;
    bg_plan *plan;
    bg_error error = {0};
    uint32_t call = 0;

    (void)state;
    options.replicas.count = 4;
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_set_mesh(graph, &mesh);
    bg_graph_output(graph, "y",
                    bg_all_reduce(graph, "sum of x", bg_graph_sharded_parameter(graph, "x", &shard, NULL),
                                  BG_REDUCE_SUM, BG_MESH_TENSOR_2));
    options.numerics.initialize_missing = true;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    engine = session->engine;
    assert_true(plan->devices[0].instructions[0].calls[call].is_collective);
    for (uint32_t replica = 0; replica < 4; replica++) {
        bgi_runner *runner = &engine->runners[replica];
        atomic_store(&runner->call, call);
        atomic_store(&runner->wait_target, 2);
        if (replica != 3)
            atomic_store(&runner->wait_counter,
                         engine->transport->type->meeting(
                             engine->transport, bgi_engine_group(engine, 0, BG_MESH_TENSOR_2, replica == 2 ? 2 : 0),
                             replica % 2, false));
    }
    /* The report names the last group, because the replicas of the first group look as if their run has ended. */
    for (uint32_t replica = 0; replica < 2; replica++)
        atomic_store(&engine->runners[replica].wait_counter, &engine->runs);
    assert_int_equal(bgi_report_stuck(engine, 2.0, &error), BG_ERROR_TIMEOUT);
    if (strstr(error.message, "replica 2, device 0") == NULL ||
        strstr(error.message, "waits for replica 3 at the collective `sum of x`") == NULL)
        fail_msg("%s", error.message);
    for (uint32_t replica = 0; replica < 4; replica++) {
        atomic_store(&engine->runners[replica].call, BGI_NO_CALL);
        atomic_store(&engine->runners[replica].wait_target, 1);
        atomic_store(&engine->runners[replica].wait_counter, &engine->runs);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_meshes),
        cmocka_unit_test(stuck),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
