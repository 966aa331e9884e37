/*
 * test_parallel.c: each layer that is sharded over a mesh equals the plain layer, forward and backward. The loss is the
 * sum of a layer's result times a parameter `probe`. One step of SGD with rate 1 then leaves probe - result, and
 * subtracts from every other parameter its gradient. The joined values must equal those of one replica.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, WIDTH = 16, OUT = 24, CLASSES = 37, PADDED = 16 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Adds a parameter [ROWS, columns] of normal numbers with mean 3, whose columns are sharded along the axis. */
static bg_value add_cut(bg_graph *graph, const char *name, int64_t columns, bg_mesh_axis axis, uint32_t multiple)
{
    const bg_mesh mesh = bg_graph_mesh(graph);
    const bg_shard_dim cut = {.axis = axis, .multiple = bg_mesh_group_size(&mesh, (uint32_t)axis) > 1 ? multiple : 0};
    const bg_shard shard = {.whole = bg_matrix(BG_FLOAT32, ROWS, columns), .dims = {{BG_MESH_NONE, 0, 0}, cut}};
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .a = 3.0, .b = 1.5};

    return bg_graph_sharded_parameter(graph, name, &shard, &normal);
}

/* Returns the sum of y x probe, both of which are sharded along the axis. */
static bg_value probe(bg_graph *graph, bg_value y, int64_t columns, bg_mesh_axis axis)
{
    const bg_type type = bg_graph_type(graph, y);
    const int64_t flat[] = {ROWS, type.dims[type.rank - 1]};
    bg_value product;

    y = bg_reshape(graph, NULL, y, 2, flat);
    product = bg_multiply(graph, y, add_cut(graph, "probe", columns, axis, 0));
    product = bg_reduce(graph, NULL, BG_REDUCE_SUM, product, NULL, 0, false);
    return bg_scale(graph, "loss", bg_identical_gradients(graph, NULL, product, (uint32_t)axis), 1.0, 0.0);
}

static bg_value build_embedding(bg_graph *graph)
{
    static const int32_t ids[ROWS] = {0, 36, 17, 17, 35, 5};
    const bg_type type = bg_matrix(BG_INT32, 2, ROWS / 2);
    const bg_initializer uniform = {.kind = BG_INITIALIZE_UNIFORM, .a = -1.0, .b = 1.0};
    const bg_value table = bg_parallel_table(graph, "table", CLASSES, WIDTH, &uniform);

    return probe(graph, bg_parallel_embedding(graph, NULL, table, bg_graph_constant(graph, "ids", &type, ids)), WIDTH,
                 BG_MESH_TENSOR_2);
}

static bg_value build_norm(bg_graph *graph)
{
    const bg_value x = add_cut(graph, "x", WIDTH, BG_MESH_TENSOR_2, 0);

    return probe(graph, bg_parallel_layer_norm_layer(graph, "norm", x, 1e-5, BG_MESH_TENSOR_2), WIDTH,
                 BG_MESH_TENSOR_2);
}

static bg_value build_wide(bg_graph *graph)
{
    bg_parallel_linear_options options = bg_parallel_linear_defaults(BG_MESH_TENSOR_2);
    const bg_value x = add_cut(graph, "x", WIDTH, BG_MESH_TENSOR_2, 0);

    return probe(graph, bg_parallel_linear_layer(graph, "wide", x, OUT, &options), OUT, BG_MESH_TENSOR_1);
}

/* Builds two layers with weights [in, out]; the result of the second layer is sharded along axis 2, like the input of
 * the first one. */
static bg_value build_there_and_back(bg_graph *graph)
{
    const bg_initializer normal = {.kind = BG_INITIALIZE_TRUNCATED_NORMAL, .b = 0.3};
    bg_parallel_linear_options there = bg_parallel_linear_defaults(BG_MESH_TENSOR_2);
    bg_parallel_linear_options back = bg_parallel_linear_defaults(BG_MESH_TENSOR_1);
    bg_value x = add_cut(graph, "x", WIDTH, BG_MESH_TENSOR_2, 0);

    there.in_out = back.in_out = true;
    there.initializer = &normal;
    back.bias = false;
    x = bg_gelu_tanh(graph, bg_parallel_linear_layer(graph, "there", x, OUT, &there));
    return probe(graph, bg_parallel_linear_layer(graph, "back", x, WIDTH, &back), WIDTH, BG_MESH_TENSOR_2);
}

static bg_value add_loss(bg_graph *graph, bg_value logits, bg_loss_reduction reduction)
{
    static const int32_t labels[ROWS] = {0, 36, -100, 17, 35, 0};
    const bg_type type = bg_vector(BG_INT32, ROWS);

    return bg_sharded_cross_entropy(graph, NULL, logits, bg_graph_constant(graph, "labels", &type, labels), CLASSES,
                                    reduction, reduction == BG_LOSS_SUM ? 0 : -100, BG_MESH_TENSOR_1);
}

static bg_value build_mean(bg_graph *graph)
{
    return bg_scale(graph, "loss",
                    add_loss(graph, add_cut(graph, "logits", CLASSES, BG_MESH_TENSOR_1, PADDED), BG_LOSS_MEAN), 1.0,
                    0.0);
}

/* Builds large logits with small differences, whose exponentials overflow unless the maximum over all shards is
 * subtracted. */
static bg_value build_large(bg_graph *graph)
{
    const bg_value logits = add_cut(graph, "logits", CLASSES, BG_MESH_TENSOR_1, PADDED);

    return bg_scale(graph, "loss", add_loss(graph, bg_scale(graph, NULL, logits, 2000.0, 0.0), BG_LOSS_MEAN), 1e-3,
                    0.0);
}

static bg_value build_each(bg_graph *graph)
{
    const int64_t column[] = {ROWS, 1};
    bg_value losses = add_loss(graph, add_cut(graph, "logits", CLASSES, BG_MESH_TENSOR_1, PADDED), BG_LOSS_NONE);

    return probe(graph, bg_reshape(graph, NULL, losses, 2, column), 1, BG_MESH_NONE);
}

/* Builds a head with the table's weights. */
static bg_value build_head(bg_graph *graph)
{
    const bg_initializer uniform = {.kind = BG_INITIALIZE_UNIFORM, .a = -1.0, .b = 1.0};
    const bg_value table = bg_parallel_table(graph, "table", CLASSES, WIDTH, &uniform);
    const bg_value x = add_cut(graph, "x", WIDTH, BG_MESH_TENSOR_2, 0);

    return bg_scale(graph, "loss", add_loss(graph, bg_parallel_logits(graph, NULL, x, table), BG_LOSS_MEAN), 1.0, 0.0);
}

/* ---- one step ---- */

typedef bg_value (*build_function)(bg_graph *graph);

typedef struct step {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    float loss, norm;
} step;

/* Compiles the layer on the mesh and opens a session, whose weights still have their initial values. */
static void take_first(step *s, build_function build, const bg_mesh *mesh)
{
    const bg_optimizer optimizer = bg_sgd(1.0);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_value loss;

    options.replicas.count = bg_mesh_replica_count(mesh);
    options.replicas.replica_reduction = BG_REPLICAS_MEAN;
    options.reporting.output_gradient_norm = true;
    require(bg_graph_create(&s->graph, &error), &error);
    bg_graph_set_mesh(s->graph, mesh);
    loss = build(s->graph);
    bg_graph_output(s->graph, "loss", loss);
    require(bg_plan_create_training(s->graph, loss, &optimizer, &options, &s->plan, &error), &error);
    require(bg_session_create(s->plan, NULL, &s->session, &error), &error);
}

static void take_step(step *s, build_function build, const bg_mesh *mesh)
{
    bg_error error = {0};
    float losses[64], norms[64];
    void *outputs[2] = {NULL};

    take_first(s, build, mesh);
    outputs[bg_session_find_output(s->session, "loss")] = losses;
    outputs[bg_session_find_output(s->session, "gradient_norm")] = norms;
    require(bg_session_run(s->session, NULL, outputs, &error), &error);
    s->loss = losses[0];
    s->norm = norms[0];
    for (uint32_t r = 1; r < bg_mesh_replica_count(mesh); r++)
        assert_memory_equal(&losses[r], &losses[0], sizeof losses[0]);
}

static void end_step(step *s)
{
    bg_session_destroy(s->session);
    bg_plan_destroy(s->plan);
    bg_graph_destroy(s->graph);
}

static void compare_weights(const step *found, const step *wanted, size_t mesh)
{
    for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(wanted->session)); i++) {
        bg_weight is, should;
        bg_error error = {0};
        require(bg_weights_at(bg_session_weights(wanted->session), i, &should, &error), &error);
        require(bg_weights_find(bg_session_weights(found->session), should.name, &is, &error), &error);
        assert_true(bg_type_equal(&is.type, &should.type));
        for (int64_t e = 0; e < bg_type_element_count(&is.type); e++) {
            const double a = (double)((const float *)is.data)[e], b = (double)((const float *)should.data)[e];
            if (!(fabs(a - b) <= 1e-6 * fmax(10.0, fabs(b))))
                fail_msg("mesh %zu, `%s`, element %lld: %.9g; of the plain layer %.9g", mesh, is.name, (long long)e, a,
                         b);
        }
    }
}

static void compare(build_function build)
{
    static const bg_mesh meshes[] = {{1, 2, 2}, {1, 4, 1}, {1, 1, 4}, {2, 2, 2}, {1, 4, 4}};
    const bg_mesh none = {1, 1, 1};
    step plain;

    take_step(&plain, build, &none);
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        step cut;
        take_step(&cut, build, &meshes[i]);
        if (!(fabsf(cut.loss - plain.loss) <= 2e-6f * fabsf(plain.loss)))
            fail_msg("mesh %zu: loss %.9g; of the plain layer %.9g", i, (double)cut.loss, (double)plain.loss);
        /* Padding has no gradient, so the norm is that of the whole tensor. */
        if (!(fabsf(cut.norm - plain.norm) <= 2e-6f * plain.norm))
            fail_msg("mesh %zu: norm %.9g; of the plain layer %.9g", i, (double)cut.norm, (double)plain.norm);
        compare_weights(&cut, &plain, i);
        end_step(&cut);
    }
    end_step(&plain);
}

static void test_embedding(void **state)
{
    (void)state;
    compare(build_embedding);
}

static void test_layer_norm(void **state)
{
    (void)state;
    compare(build_norm);
}

static void test_linear(void **state)
{
    (void)state;
    compare(build_wide);
    compare(build_there_and_back);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    compare(build_mean);
    compare(build_large);
    compare(build_each);
    compare(build_head);
}

/* ---- shapes and errors ---- */

static void test_padding(void **state)
{
    static const struct {
        int64_t rows;
        uint32_t tensor_1;
        int64_t piece;
    } cases[] = {{50257, 8, 6288}, {50257, 4, 12576}, {128, 2, 64}, {50257, 1, 50257}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph;
        bg_type type;
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        bg_graph_set_mesh(graph, &(bg_mesh){1, cases[i].tensor_1, 2});
        type = bg_graph_type(graph, bg_parallel_table(graph, "table", cases[i].rows, 64, NULL));
        assert_int_equal(type.dims[0], cases[i].piece);
        assert_int_equal(type.dims[1], 32);
        bg_graph_destroy(graph);
    }
}

/* Without an initializer a bias is uniform as in a plain linear layer, with the bound from all incoming features. With
 * an initializer the bias is zeros. */
static void test_first_biases(void **state)
{
    const bg_mesh mesh = {1, 2, 2};
    step s;

    (void)state;
    for (int has_initializer = 0; has_initializer < 2; has_initializer++) {
        const double bound = 1.0 / sqrt(WIDTH);
        double most = 0.0;
        bg_error error = {0};
        bg_weight bias;
        take_first(&s, has_initializer ? build_there_and_back : build_wide, &mesh);
        require(
            bg_weights_find(bg_session_weights(s.session), has_initializer ? "there.bias" : "wide.bias", &bias, &error),
            &error);
        for (int e = 0; e < OUT; e++)
            most = fmax(most, fabs((double)((const float *)bias.data)[e]));
        assert_true(has_initializer ? most == 0.0 : most > 0.5 * bound && most <= bound);
        end_step(&s);
    }
}

static void refuse(bg_mesh_axis axis, int64_t out_features, const char *part)
{
    bg_parallel_linear_options options = bg_parallel_linear_defaults(axis);
    bg_error error = {0};
    bg_graph *graph;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_set_mesh(graph, &(bg_mesh){1, 4, 2});
    bg_parallel_linear_layer(graph, "layer", add_cut(graph, "x", WIDTH, BG_MESH_TENSOR_2, 0), out_features, &options);
    assert_int_not_equal(bg_graph_check(graph, &error), BG_OK);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
    bg_graph_destroy(graph);
}

static void test_refused(void **state)
{
    bg_error error = {0};
    bg_graph *graph;

    (void)state;
    refuse(BG_MESH_DATA, OUT, "in_axis is 1");
    refuse(BG_MESH_TENSOR_2, 0, "the number of output features is 0");
    refuse(BG_MESH_TENSOR_2, 10, "variable `layer.weight`");
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_set_mesh(graph, &(bg_mesh){1, 2, 1});
    bg_sharded_dropout(graph, "drop", add_cut(graph, "x", WIDTH, BG_MESH_NONE, 0), 0.5, BG_MESH_TENSOR);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "dropout `drop`: the axis is 6"));
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),     cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_linear),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_padding),    cmocka_unit_test(test_first_biases),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
