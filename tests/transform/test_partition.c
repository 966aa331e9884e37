/*
 * test_partition.c: compares segments, levels, roots and crossings with expected texts.
 */
#include "transform/small.h"

#include <stdio.h>

typedef struct cut {
    bg_graph *graph;
    bgi_stages stages;
    bgi_partition partition;
} cut;

static cut make_cut(bg_graph *graph, bg_value loss, bool offload, bool split_weights)
{
    const bg_options options = {.execution.strategy = BG_STRATEGY_PIPELINED,
                                .execution.gradient_accumulation = 2,
                                .replicas.count = 1,
                                .memory.offload_optimizer = offload,
                                .numerics.loss_scaling = 1.0};
    const bg_optimizer optimizer = bg_adam(0.1);
    const bool training = !bg_value_is_null(loss);
    cut c = {.graph = graph};
    bg_error error = {0};

    small_require(graph);
    small_expect(bgi_assign_stages(graph, &options, true, &c.stages, &error), BG_OK, &error, NULL);
    if (training)
        small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error), BG_OK, &error, NULL);
    small_expect(bgi_copy_shared_variables(graph, &c.stages, NULL, true, &error), BG_OK, &error, NULL);
    small_expect(bgi_cut_segments(graph, &c.stages, training, split_weights, &c.partition, &error), BG_OK, &error,
                 NULL);
    return c;
}

static void clear_cut(cut *c)
{
    bgi_partition_clear(&c->partition);
    bgi_stages_clear(&c->stages);
    bg_graph_destroy(c->graph);
}

static const char letters[] = "FRBWU";

static void expect_crossings(const cut *c, const char *expected)
{
    char text[2048] = "";

    for (uint32_t i = 0; i < c->partition.crossing_count; i++) {
        const bgi_crossing *crossing = &c->partition.crossings[i];
        const bgi_segment *from = &c->partition.segments[crossing->from_segment];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %c%u.%u -> %c%u.%u..%c\n",
                 bg_graph_name(c->graph, crossing->value), letters[from->kind], from->stage, from->level,
                 letters[crossing->to_kind], crossing->to_stage, crossing->to_level, letters[crossing->last_kind]);
    }
    assert_string_equal(text, expected);
}

/* Stages 1 and 2, and their backward passes, read `a` of stage 0. */
static void test_skip_over_a_stage(void **state)
{
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x"), a, b, loss;
    cut c;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    a = small_linear(graph, "a", x, small_weight(graph, "wa"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    b = small_linear(graph, "b", a, small_weight(graph, "wb"));
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    loss =
        bg_reduce(graph, "loss", BG_REDUCE_SUM, bg_elementwise_binary(graph, "c", BG_MULTIPLY, a, b), NULL, 0, false);
    c = make_cut(graph, loss, false, false);
    /* Names of gradients are made from numbers, so only their ends are printed here. */
    assert_int_equal(c.partition.level_count, 1);
    assert_int_equal(c.partition.segment_count, 9);
    for (uint32_t i = 0; i < 4; i++) {
        static const char *const names[] = {"a", "a", "b"};
        if (i < 3)
            assert_string_equal(bg_graph_name(c.graph, c.partition.crossings[i].value), names[i]);
    }
    assert_int_equal(c.partition.crossings[0].to_stage, 1);
    assert_int_equal(c.partition.crossings[1].to_stage, 2);
    assert_int_equal(c.partition.crossings[1].to_kind, BGI_SEGMENT_FORWARD);
    assert_int_equal(c.partition.crossings[1].last_kind, BGI_SEGMENT_BACKWARD);
    clear_cut(&c);
}

static void test_inference_crossings(void **state)
{
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x"), a, view;
    cut c;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    a = bg_scale(graph, "a", x, 2, 0);
    view = bg_reshape(graph, "view", a, 1, (const int64_t[]){6});
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    bg_scale(graph, "b", view, 2, 0);
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    bg_scale(graph, "c", a, 2, 0);
    bg_scale(graph, "d", x, 2, 0); /* inputs are delivered to each stage, so they do not cross stages */
    c = make_cut(graph, (bg_value){0}, false, false);
    expect_crossings(&c, "a F0.0 -> F1.0..F\n"
                         "a F0.0 -> F2.0..F\n");
    assert_int_equal(c.partition.roots[view.id].id, a.id);
    assert_int_equal(bgi_partition_find(&c.partition, BGI_SEGMENT_BACKWARD, 0, 0), UINT32_MAX);
    clear_cut(&c);
}

/* An alias of a leaf has its own bytes if it is sent to another stage or read by the host. */
static void test_aliases_of_leaves(void **state)
{
    bg_graph *graph = small_create();
    const bg_value x = small_input(graph, "x"), w = small_weight(graph, "w");
    const int64_t flat[] = {6}, nine[] = {9};
    bg_value local, far, out, of_w;
    cut c;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    local = bg_reshape(graph, "local", x, 1, flat);
    bg_scale(graph, "a", local, 2, 0);
    far = bg_reshape(graph, "far", x, 1, flat);
    out = bg_reshape(graph, "out", x, 1, flat);
    of_w = bg_reshape(graph, "of_w", w, 1, nine);
    bg_graph_output(graph, "out", out);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    bg_scale(graph, "b", far, 2, 0);
    bg_scale(graph, "c", of_w, 2, 0);
    c = make_cut(graph, (bg_value){0}, false, false);
    assert_int_equal(c.partition.roots[local.id].id, x.id);
    assert_int_equal(c.partition.roots[far.id].id, far.id);
    assert_int_equal(c.partition.roots[out.id].id, out.id);
    assert_int_equal(c.partition.roots[of_w.id].id, of_w.id);
    expect_crossings(&c, "far F0.0 -> F1.0..F\nof_w F0.0 -> F1.0..F\n");
    clear_cut(&c);
}

static uint32_t level_of(const cut *c, const bg_op_type *type, uint32_t stage)
{
    for (uint32_t o = 0; o < c->graph->op_count; o++)
        if (c->graph->ops[o].type == type && c->partition.op_stages[o] == stage)
            return c->partition.segments[c->partition.op_segments[o]].level;
    fail_msg("no op `%s` in stage %u", type->name, stage);
    return 0;
}

/* The scale is computed in the loss's stage, so other stages update one level later. Loads and stores are in the
 * update's level: an earlier store would save the old state. */
static void test_levels_of_offloaded_state(void **state)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_vector(BG_INT32, 2);
    const bg_value x = small_input(graph, "x"), labels = bg_graph_input(graph, "labels", &type);
    bg_value y, loss;
    cut c;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = small_linear(graph, "a", x, small_weight(graph, "wa"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    y = small_linear(graph, "b", y, small_weight(graph, "wb"));
    loss = bg_cross_entropy(graph, "loss", y, labels, BG_LOSS_MEAN, -100);
    c = make_cut(graph, loss, true, false);
    assert_int_equal(c.partition.level_count, 2);
    assert_int_equal(level_of(&c, &bgi_op_adam_update, 0), 1);
    assert_int_equal(level_of(&c, &bgi_op_load, 0), 1);
    assert_int_equal(level_of(&c, &bgi_op_store, 0), 1);
    assert_int_equal(level_of(&c, &bgi_op_adam_update, 1), 0);
    assert_int_equal(level_of(&c, &bgi_op_load, 1), 0);
    assert_int_equal(level_of(&c, &bgi_op_store, 1), 0);
    clear_cut(&c);
}

/* For a tied weight, accumulators are added at level 1 and the copy is refreshed at level 2. */
static void test_levels_of_tied_weights(void **state)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x");
    cut c;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "b", x, w));
    c = make_cut(graph, x, false, false);
    assert_int_equal(level_of(&c, &bgi_op_adam_update, 0), 1);
    assert_int_equal(level_of(&c, &bgi_op_refresh, 1), 2);
    clear_cut(&c);
}

/* With split weights, ops on which no other stage waits are W. */
static void test_split_weights(void **state)
{
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x");
    cut c;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, small_weight(graph, "wa"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "b", x, small_weight(graph, "wb")));
    c = make_cut(graph, x, false, true);
    for (uint32_t o = 0; o < c.graph->op_count; o++) {
        const bgi_op *op = &c.graph->ops[o];
        const bgi_segment_kind kind = c.partition.segments[c.partition.op_segments[o]].kind;
        if (op->type == &bgi_op_linear_backward_weights || op->type == &bgi_op_accumulate)
            assert_int_equal(kind, BGI_SEGMENT_WEIGHTS);
        if (op->type == &bgi_op_linear_backward_input)
            assert_int_equal(kind, BGI_SEGMENT_BACKWARD);
    }
    clear_cut(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skip_over_a_stage),      cmocka_unit_test(test_inference_crossings),
        cmocka_unit_test(test_aliases_of_leaves),      cmocka_unit_test(test_levels_of_offloaded_state),
        cmocka_unit_test(test_levels_of_tied_weights), cmocka_unit_test(test_split_weights),
    };

    return cmocka_run_group_tests_name("transform/partition", tests, NULL, NULL);
}
