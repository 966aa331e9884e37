/*
 * test_embedding_rows.c: tests when the gradient of a tied embedding is kept as rows, and how the graph changes.
 */
#include "transform/small.h"

/* Block E has an embedding of [rows, 4] for 6 ids, M has a layer, and H reads the table again, `dense` times as a
 * matrix or through another embedding. */
typedef struct form {
    int64_t rows;
    uint32_t accumulation, replicas, dense;
    bool second_embedding, adapts_scale, has_running_mean, is_canonical, is_narrow;
    bool expect_rows;
} form;

static bg_value build(bg_graph *graph, const form *f)
{
    const bg_type ids_type = bg_vector(BG_INT32, 6), table_type = bg_matrix(BG_FLOAT32, f->rows, 4);
    const bg_value ids = bg_graph_input(graph, "ids", &ids_type);
    const bg_value table = bg_graph_parameter(graph, "table", &table_type, NULL);
    bg_value x, loss;

    bg_block_start(graph, "E", BG_DEVICE_NONE);
    x = bg_embedding(graph, "embed", table, ids, 1);
    for (uint32_t i = 0; i < f->dense; i++) {
        bg_block_start(graph, i == 0 ? "H" : "H2", BG_DEVICE_NONE);
        x = bg_matmul(graph, NULL, bg_matmul(graph, NULL, x, table, false, true), table, false, false);
    }
    bg_block_start(graph, "L", BG_DEVICE_NONE);
    if (f->second_embedding)
        x = bg_add(graph, x, bg_embedding(graph, "again", table, ids, -1));
    loss = small_loss(graph, "loss", x);
    small_require(graph);
    return loss;
}

static bg_graph *train(const form *f)
{
    const bg_optimizer optimizer = bg_adamw(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *graph = small_create();
    const bg_value loss = build(graph, f);
    bg_error error = {0};

    options.execution.gradient_accumulation = f->accumulation;
    options.replicas.count = f->replicas;
    options.numerics.auto_loss_scaling.enabled = f->adapts_scale;
    options.numerics.max_gradient_norm = 1.0;
    if (f->has_running_mean)
        options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    if (f->is_narrow) {
        options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
        options.numerics.accumulator_dtype = BG_BFLOAT16;
    }
    options.numerics.canonical_reductions = f->is_canonical;
    small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error), BG_OK, &error, NULL);
    return graph;
}

static const bgi_op *find_op(const bg_graph *graph, const bg_op_type *type)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == type)
            return &graph->ops[o];
    return NULL;
}

static uint32_t count_ops(const bg_graph *graph, const bg_op_type *type)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        count += graph->ops[o].type == type;
    return count;
}

/* A gradient is kept as rows only if that needs fewer bytes: 6 ids in each of 4 micro-batches need 24 rows of 16 bytes
 * and 2 V + 1 numbers of 4 bytes, compared with the V rows of the table. */
static void test_conditions(void **state)
{
    static const form forms[] = {
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1, .expect_rows = true},
        {.rows = 49, .accumulation = 4, .replicas = 1, .dense = 1, .expect_rows = true},
        {.rows = 48, .accumulation = 4, .replicas = 1, .dense = 1},
        {.rows = 100, .accumulation = 40, .replicas = 1, .dense = 1},
        {.rows = 100, .accumulation = 4, .replicas = 2, .dense = 1},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 0},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 2, .expect_rows = true},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 0, .second_embedding = true},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1, .second_embedding = true, .expect_rows = true},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1, .adapts_scale = true},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1, .has_running_mean = true},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1, .is_canonical = true},
        {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1, .is_narrow = true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const form *f = &forms[i];
        bg_graph *graph = train(f);
        const uint32_t embeddings = 1 + f->second_embedding;

        if (count_ops(graph, &bgi_op_embedding_slots) != f->expect_rows ||
            count_ops(graph, &bgi_op_embedding_rows) != f->expect_rows ||
            count_ops(graph, &bgi_op_embedding_rows_add) != f->expect_rows ||
            count_ops(graph, &bgi_op_embedding_backward) != embeddings - f->expect_rows)
            fail_msg("form %zu: the embedding's gradient is %sin rows", i, f->expect_rows ? "not " : "");
        bg_graph_destroy(graph);
    }
}

/* The rows are added to the head's accumulator, which the norm and the update in the head's block read. */
static void test_graph(void **state)
{
    const form f = {.rows = 100, .accumulation = 4, .replicas = 1, .dense = 1};
    bg_graph *graph = train(&f);
    const bgi_op *slots = find_op(graph, &bgi_op_embedding_slots), *rows = find_op(graph, &bgi_op_embedding_rows),
                 *add = find_op(graph, &bgi_op_embedding_rows_add), *squares = find_op(graph, &bgi_op_square_sum),
                 *update = find_op(graph, &bgi_op_adam_update);
    const bg_value accumulator = bg_graph_find_variable(graph, "table.accumulator.H"),
                   kept = bg_graph_find_variable(graph, "table.accumulator.E.rows");
    const bg_type type = bg_graph_type(graph, kept);

    (void)state;
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "table.accumulator.E")));
    assert_int_equal(type.dims[0], 24);
    assert_int_equal(type.dims[1], 4);
    assert_non_null(strstr(slots->name, ".slots"));
    assert_string_equal(graph->blocks[slots->block].name, "E");
    assert_string_equal(graph->blocks[rows->block].name, "E");
    assert_int_equal(rows->phase, BGI_PHASE_BACKWARD);
    assert_int_equal(rows->inputs[1].id, slots->outputs[0].id);
    assert_int_equal(rows->inputs[2].id, kept.id);
    assert_int_equal(add->phase, BGI_PHASE_UPDATE);
    assert_string_equal(graph->blocks[add->block].name, "H");
    assert_int_equal(add->inputs[0].id, accumulator.id);
    assert_int_equal(add->inputs[1].id, kept.id);
    assert_int_equal(add->inputs[2].id, slots->inputs[1].id);
    assert_int_equal(squares->inputs[0].id, accumulator.id);
    assert_string_equal(graph->blocks[squares->block].name, "H");
    assert_int_equal(update->inputs[1].id, accumulator.id);
    assert_string_equal(graph->blocks[update->block].name, "H");
    assert_int_equal(count_ops(graph, &bgi_op_adam_update), 1);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_graph),
    };

    return cmocka_run_group_tests_name("transform/embedding_rows", tests, NULL, NULL);
}
