/*
 * test_collective.c: gradients through collectives. A small network on a mesh, with its matrices sharded in all ways
 * that need a collective, is trained for one step. Its joined weights must equal those of the same network on one
 * replica, and gradients must agree with central differences of the loss.
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

enum { ROWS = 3, WIDTH = 4, HIDDEN = 12, MOST = WIDTH * HIDDEN };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_value add_matrix(bg_graph *graph, const char *name, int64_t rows, int64_t columns, bg_mesh_axis cut_rows,
                           bg_mesh_axis cut_columns)
{
    const bg_shard shard = {.whole = bg_matrix(BG_FLOAT64, rows, columns),
                            .dims = {{.axis = cut_rows}, {.axis = cut_columns}}};
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.7};

    return bg_graph_sharded_parameter(graph, name, &shard, &normal);
}

static bg_value multiply(bg_graph *graph, bg_value a, bg_value b)
{
    return bg_matmul(graph, NULL, a, b, false, false);
}

static bg_value add_squares(bg_graph *graph, bg_value x)
{
    return bg_reduce(graph, NULL, BG_REDUCE_SUM, bg_elementwise_unary(graph, NULL, BG_SQUARE, x), NULL, 0, false);
}

/* Builds column- and row-parallel products over axis 1, and then products along axis 2, between which are all
 * collectives; members use their results in different ways. */
static bg_value build(bg_graph *graph, const bg_mesh *mesh)
{
    const uint32_t one = BG_MESH_TENSOR_1, two = BG_MESH_TENSOR_2;
    bg_value x, y, total, gathered;

    bg_graph_set_mesh(graph, mesh);
    x = add_matrix(graph, "x", ROWS, WIDTH, BG_MESH_NONE, BG_MESH_NONE);
    y = multiply(graph, bg_identical_inputs(graph, NULL, x, one),
                 add_matrix(graph, "in", WIDTH, HIDDEN, BG_MESH_NONE, BG_MESH_TENSOR_1));
    y = multiply(graph, bg_tanh(graph, y), add_matrix(graph, "out", HIDDEN, HIDDEN, BG_MESH_TENSOR_1, BG_MESH_NONE));
    y = bg_tanh(graph, bg_identical_gradients(graph, NULL, y, one));
    /* After a sum, each member uses different columns, along axis 2. */
    gathered = multiply(graph, bg_identical_inputs(graph, NULL, y, two),
                        add_matrix(graph, "columns", HIDDEN, HIDDEN, BG_MESH_NONE, BG_MESH_TENSOR_2));
    gathered = bg_tanh(graph, bg_all_gather(graph, NULL, gathered, -1, two));
    total = add_squares(
        graph, multiply(graph, gathered, add_matrix(graph, "after", HIDDEN, HIDDEN, BG_MESH_NONE, BG_MESH_TENSOR_2)));
    y = bg_identical_inputs(graph, NULL, y, two);
    /* Partial sums: all members have the whole `y`, but each has only its rows of the matrix. */
    x = bg_reduce_scatter(graph, NULL, y, -1, two);
    x = multiply(graph, bg_scale(graph, NULL, x, 1.0 / mesh->tensor_2, 0.0),
                 add_matrix(graph, "rows", HIDDEN, HIDDEN, BG_MESH_TENSOR_2, BG_MESH_NONE));
    x = bg_all_reduce(graph, NULL, x, BG_REDUCE_SUM, two);
    total =
        bg_add(graph, total,
               add_squares(graph, multiply(graph, bg_multiply(graph, x, y),
                                           add_matrix(graph, "last", HIDDEN, HIDDEN, BG_MESH_NONE, BG_MESH_TENSOR_2))));
    total = bg_identical_gradients(graph, "loss", total, two);
    if (mesh->tensor_1 * mesh->tensor_2 == 1)
        total = bg_scale(graph, "loss", total, 1.0, 0.0);
    bg_graph_output(graph, "total", total);
    return total;
}

typedef struct network {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
} network;

static void open_network(network *n, const bg_mesh *mesh, bool training)
{
    const bg_optimizer optimizer = bg_sgd(1.0);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_value loss;

    options.replicas.count = bg_mesh_replica_count(mesh);
    options.replicas.replica_reduction = BG_REPLICAS_MEAN;
    options.reporting.output_gradient_norm = training;
    options.numerics.initialize_missing = true;
    require(bg_graph_create(&n->graph, &error), &error);
    loss = build(n->graph, mesh);
    require(bg_graph_check(n->graph, &error), &error);
    if (training)
        require(bg_plan_create_training(n->graph, loss, &optimizer, &options, &n->plan, &error), &error);
    else
        require(bg_plan_create_inference(n->graph, &options, &n->plan, &error), &error);
    require(bg_session_create(n->plan, NULL, &n->session, &error), &error);
}

static void close_network(network *n)
{
    bg_session_destroy(n->session);
    bg_plan_destroy(n->plan);
    bg_graph_destroy(n->graph);
}

/* Returns the loss of replica 0, which all replicas must have. */
static double run(network *n, double *out_norm)
{
    double losses[16];
    float norms[16];
    void *outputs[2] = {0};
    bg_error error = {0};
    bg_stream stream;

    outputs[bg_session_find_output(n->session, "total")] = losses;
    if (out_norm != NULL)
        outputs[bg_session_find_output(n->session, "gradient_norm")] = norms;
    require(bg_session_output(n->session, 0, &stream, &error), &error);
    require(bg_session_run(n->session, NULL, outputs, &error), &error);
    for (uint32_t r = 1; r < stream.replicas; r++) {
        assert_memory_equal(&losses[r], &losses[0], sizeof losses[0]);
        if (out_norm != NULL)
            assert_memory_equal(&norms[r], &norms[0], sizeof norms[0]);
    }
    if (out_norm != NULL)
        *out_norm = (double)norms[0];
    return losses[0];
}

static const double *read_weight(network *n, uint32_t index, bg_weight *out)
{
    bg_error error = {0};

    require(bg_weights_at(bg_session_weights(n->session), index, out, &error), &error);
    return out->data;
}

static void like_one_replica(void **state)
{
    static const bg_mesh meshes[] = {{1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {1, 3, 2}, {1, 4, 4}, {2, 2, 2}, {4, 1, 4}};
    const bg_mesh none = {1, 1, 1};
    double wanted_norm = 0.0, wanted;
    network single;

    (void)state;
    open_network(&single, &none, true);
    wanted = run(&single, &wanted_norm);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        network cut;
        double norm = 0.0, loss;
        open_network(&cut, &meshes[m], true);
        loss = run(&cut, &norm);
        if (!(fabs(loss - wanted) <= 1e-12 * fabs(wanted)) || !(fabs(norm - wanted_norm) <= 1e-6 * wanted_norm))
            fail_msg("mesh %zu: loss %.17g, norm %.9g; on one replica %.17g, %.9g", m, loss, norm, wanted, wanted_norm);
        for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(single.session)); i++) {
            bg_weight whole, joined;
            const double *a = read_weight(&single, i, &whole), *b = read_weight(&cut, i, &joined);
            assert_true(bg_type_equal(&whole.type, &joined.type));
            for (int64_t e = 0; e < bg_type_element_count(&whole.type); e++)
                if (!(fabs(a[e] - b[e]) <= 1e-11 * (1.0 + fabs(a[e]))))
                    fail_msg("mesh %zu, `%s`, element %lld: %.17g; on one replica %.17g", m, whole.name, (long long)e,
                             b[e], a[e]);
        }
        close_network(&cut);
    }
    close_network(&single);
}

/* No gradient flows through a maximum: the model sums (w - m) w over the columns of w, where m is the largest element
 * of each row. */
static void maximum_is_a_constant(void **state)
{
    static const bg_mesh meshes[] = {{1, 2, 1}, {1, 4, 1}, {2, 2, 2}};
    const bg_optimizer optimizer = bg_sgd(1.0);
    double first[MOST], last[MOST];

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        bg_options options = bg_options_defaults();
        bg_error error = {0};
        bg_value w, m, loss;
        bg_weight weight;
        network n;
        double norm = 0.0;
        options.replicas.count = bg_mesh_replica_count(&meshes[i]);
        options.reporting.output_gradient_norm = true;
        require(bg_graph_create(&n.graph, &error), &error);
        bg_graph_set_mesh(n.graph, &meshes[i]);
        w = add_matrix(n.graph, "w", 1, 8, BG_MESH_NONE, BG_MESH_TENSOR_1);
        m = bg_all_reduce(n.graph, NULL, bg_reduce(n.graph, NULL, BG_REDUCE_MAX, w, NULL, 0, false), BG_REDUCE_MAX,
                          BG_MESH_TENSOR_1);
        loss = bg_reduce(n.graph, NULL, BG_REDUCE_SUM, bg_multiply(n.graph, bg_subtract(n.graph, w, m), w), NULL, 0,
                         false);
        loss = bg_identical_gradients(n.graph, "loss", loss, BG_MESH_TENSOR_1);
        bg_graph_output(n.graph, "total", loss);
        require(bg_plan_create_training(n.graph, loss, &optimizer, &options, &n.plan, &error), &error);
        require(bg_session_create(n.plan, NULL, &n.session, &error), &error);
        memcpy(first, read_weight(&n, 0, &weight), 8 * sizeof *first);
        run(&n, &norm);
        memcpy(last, read_weight(&n, 0, &weight), 8 * sizeof *last);
        for (int e = 0; e < 8; e++) {
            double most = first[0];
            for (int k = 1; k < 8; k++)
                most = first[k] > most ? first[k] : most;
            assert_true(fabs(first[e] - last[e] - (2.0 * first[e] - most)) < 1e-12);
        }
        close_network(&n);
    }
}

/* Central differences of the loss agree with the gradient, which is the change of w in one step of SGD with rate 1. */
static void central_differences(void **state)
{
    const bg_mesh mesh = {1, 2, 2};
    const double step = 1e-5;
    network trained, forward;
    double norm;

    (void)state;
    open_network(&trained, &mesh, true);
    open_network(&forward, &mesh, false);
    run(&trained, &norm);
    for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(forward.session)); i++)
        for (int64_t e = 0; e < 4; e++) {
            double values[MOST * 3], sums[2], gradient, numeric;
            bg_weight before, after;
            bg_error error = {0};
            const double *start = read_weight(&forward, i, &before), *end = read_weight(&trained, i, &after);
            const int64_t count = bg_type_element_count(&before.type), at = (e * 7 + i) % count;
            assert_true(count <= MOST * 3);
            memcpy(values, start, (size_t)count * sizeof *values);
            gradient = values[at] - end[at];
            for (int side = 0; side < 2; side++) {
                values[at] += side == 0 ? step : -2.0 * step;
                require(bg_weights_set(bg_session_weights(forward.session), before.name, &before.type, values, &error),
                        &error);
                sums[side] = run(&forward, NULL);
            }
            values[at] += step;
            require(bg_weights_set(bg_session_weights(forward.session), before.name, &before.type, values, &error),
                    &error);
            numeric = (sums[0] - sums[1]) / (2.0 * step);
            if (!(fabs(numeric - gradient) <= 1e-6 * (1.0 + fabs(numeric))))
                fail_msg("`%s`, element %lld: gradient %.12g, central differences %.12g", before.name, (long long)at,
                         gradient, numeric);
        }
    close_network(&forward);
    close_network(&trained);
}

/* ---- errors ---- */

static void expect_error(bg_graph *graph, const char *part)
{
    bg_error error = {0};

    assert_int_not_equal(bg_graph_check(graph, &error), BG_OK);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
    bg_graph_destroy(graph);
}

static bg_graph *begin(uint32_t tensor_1, uint32_t tensor_2, bg_value *out_x)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
    bg_graph *graph;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_set_mesh(graph, &(bg_mesh){7, tensor_1, tensor_2});
    *out_x = bg_graph_parameter(graph, "x", &type, NULL);
    return graph;
}

static void refused(void **state)
{
    bg_graph *graph;
    bg_value x;
    bg_type type;

    (void)state;
    graph = begin(2, 2, &x);
    bg_all_reduce(graph, "r", x, BG_REDUCE_SUM, BG_MESH_DATA);
    expect_error(graph, "all_reduce `r`: axes are 0x1");
    graph = begin(2, 2, &x);
    bg_all_reduce(graph, "r", x, BG_REDUCE_MEAN, BG_MESH_TENSOR);
    expect_error(graph, "function is 1");
    graph = begin(2, 2, &x);
    bg_reduce_scatter(graph, "s", x, 1, BG_MESH_TENSOR_1);
    expect_error(graph, "the 2 replicas of a group must divide dimension 1");
    graph = begin(2, 2, &x);
    bg_all_gather(graph, "g", x, 2, BG_MESH_TENSOR_1);
    expect_error(graph, "g");
    graph = begin(2, 2, &x);
    bg_graph_set_mesh(graph, &(bg_mesh){1, 2, 1});
    expect_error(graph, "2 x 1 tensor-parallel replicas, but the graph was begun for 2 x 2");
    graph = begin(0, 2, &x);
    expect_error(graph, "each size must be at least 1");
    graph = begin(3, 1, &x);
    bg_graph_sharded_parameter(
        graph, "cut", &(bg_shard){.whole = bg_vector(BG_FLOAT32, 8), .dims = {{.axis = BG_MESH_TENSOR_1}}}, NULL);
    expect_error(graph, "variable `cut`");
    /* Groups of one replica add no op. */
    graph = begin(1, 2, &x);
    assert_int_equal(bg_all_reduce(graph, NULL, x, BG_REDUCE_SUM, BG_MESH_TENSOR_1).id, x.id);
    assert_int_equal(bg_identical_inputs(graph, NULL, x, BG_MESH_TENSOR_1).id, x.id);
    type = bg_graph_type(graph, bg_all_gather(graph, NULL, x, 0, BG_MESH_TENSOR));
    assert_int_equal(type.dims[0], 4);
    assert_int_equal(bg_graph_op_count(graph), 1);
    bg_graph_destroy(graph);
}

static void refused_plans(void **state)
{
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_graph *graph;
    bg_value x;

    (void)state;
    graph = begin(2, 2, &x);
    bg_graph_output(graph, "y", bg_all_reduce(graph, NULL, x, BG_REDUCE_SUM, BG_MESH_TENSOR));
    options.replicas.count = 6;
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "replicas is 6, but the graph is built for 2 x 2 tensor-parallel replicas"));
    bg_error_clear(&error);
    options.replicas.count = 8;
    options.replicas.input_group_size = 2;
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "input_group_size is 2, consecutive"));
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_one_replica),    cmocka_unit_test(maximum_is_a_constant),
        cmocka_unit_test(central_differences), cmocka_unit_test(refused),
        cmocka_unit_test(refused_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
