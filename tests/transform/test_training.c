/*
 * test_training.c: accumulators, scales, updates and their state.
 */
#include "transform/small.h"

static bg_options small_options(void)
{
    return (bg_options){.gradient_accumulation = 4, .replicas = 2, .accumulation = BG_ACCUMULATE_MEAN};
}

static const bgi_op *find_op(const bg_graph *graph, const bg_op_type *type, uint32_t number)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == type && number-- == 0)
            return &graph->ops[o];
    return NULL;
}

/* fc in A, loss in B (a mean over labels when `counted`). */
static bg_graph *build(bool counted, bg_value *loss)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_vector(BG_INT32, 2);
    const bg_value x = small_input(graph, "x");
    bg_value y;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = small_linear(graph, "fc", x, small_weight(graph, "w"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    *loss = counted ? bg_cross_entropy(graph, "loss", y, bg_graph_input(graph, "labels", &type), BG_LOSS_MEAN, -100)
                    : small_loss(graph, "loss", y);
    small_require(graph);
    return graph;
}

static void train(bg_graph *graph, bg_value loss, bg_optimiser optimiser, bg_options options)
{
    bg_error error = {0};

    small_expect(bgi_make_training(graph, loss, &optimiser, &options, &error), BG_OK, &error, NULL);
}

static void test_sgd_without_momentum(void **state)
{
    bg_value loss;
    bg_graph *graph = build(false, &loss);
    const bgi_op *update;

    (void)state;
    train(graph, loss, bg_sgd(0.1), small_options());
    update = find_op(graph, &bgi_op_sgd_update, 0);
    assert_non_null(update);
    assert_int_equal(update->phase, BGI_PHASE_UPDATE);
    assert_string_equal(graph->blocks[update->block].name, "A");
    assert_int_equal(update->inputs[0].id, bg_graph_find_variable(graph, "w").id);
    assert_int_equal(update->inputs[1].id, bg_graph_find_variable(graph, "w.accumulator.A").id);
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "w.momentum_buffer")));
    assert_int_equal(graph->values[bg_graph_find_variable(graph, "optimiser.hyper").id].role, BG_ROLE_HYPER);
    bg_graph_destroy(graph);
}

/* A mean over micro-batches of equal size: one constant over accumulation and replicas; a sum: 1. */
static void test_constant_scales(void **state)
{
    (void)state;
    for (int sum = 0; sum < 2; sum++) {
        bg_value loss, scale = {0};
        bg_graph *graph = build(sum != 0, &loss); /* a sum takes no notice of counts */
        bg_options options = small_options();
        options.accumulation = sum ? BG_ACCUMULATE_SUM : BG_ACCUMULATE_MEAN;
        train(graph, loss, bg_sgd(0.1), options);
        scale = find_op(graph, &bgi_op_sgd_update, 0)->inputs[3];
        assert_int_equal(graph->values[scale.id].kind, BGI_VALUE_CONSTANT);
        assert_true(*(const float *)graph->values[scale.id].data == (sum ? 1.0f : 0.125f));
        bg_graph_destroy(graph);
    }
}

/* A mean over labels: their number is added up beside the gradients, in the loss's block. */
static void test_counted_scale(void **state)
{
    bg_value loss;
    bg_graph *graph = build(true, &loss);
    const bgi_op *scale, *count;

    (void)state;
    train(graph, loss, bg_adamw(0.1), small_options());
    scale = find_op(graph, &bgi_op_total_scale, 0);
    count = find_op(graph, &bgi_op_accumulate, 1);
    assert_non_null(scale);
    assert_string_equal(graph->blocks[scale->block].name, "B");
    assert_int_equal(scale->phase, BGI_PHASE_UPDATE);
    assert_string_equal(count->name, "loss.count");
    assert_int_equal(count->phase, BGI_PHASE_BACKWARD);
    assert_int_equal(count->inputs[0].id, scale->inputs[0].id);
    assert_int_equal(graph->values[scale->inputs[0].id].role, BG_ROLE_ACCUMULATOR);
    bg_graph_destroy(graph);
}

static void test_offloaded_state(void **state)
{
    bg_value loss;
    bg_graph *graph = build(false, &loss);
    bg_options options = small_options();
    const bgi_op *update, *load, *store;
    bg_value first;

    (void)state;
    options.offload_optimiser = true;
    train(graph, loss, bg_adam(0.1), options);
    first = bg_graph_find_variable(graph, "w.exp_avg");
    update = find_op(graph, &bgi_op_adam_update, 0);
    load = find_op(graph, &bgi_op_load, 0);
    store = find_op(graph, &bgi_op_store, 0);
    assert_true(graph->values[first.id].is_remote);
    assert_int_equal(graph->values[first.id].role, BG_ROLE_STATE);
    assert_int_equal(graph->values[first.id].owner.id, bg_graph_find_variable(graph, "w").id);
    assert_int_equal(load->inputs[0].id, first.id);
    assert_int_equal(update->inputs[4].id, load->outputs[0].id);
    assert_int_equal(store->inputs[0].id, first.id);
    assert_int_equal(store->inputs[1].id, load->outputs[0].id);
    assert_non_null(find_op(graph, &bgi_op_store, 1));
    assert_null(find_op(graph, &bgi_op_store, 2));
    bg_graph_destroy(graph);
}

/* bfloat16 parameters keep float32 sums and state. */
static void test_bfloat16_parameters(void **state)
{
    bg_graph *graph = small_create();
    const bg_type type = bg_matrix(BG_BFLOAT16, 3, 3), x_type = bg_matrix(BG_BFLOAT16, 2, 3);
    const bg_value w = bg_graph_parameter(graph, "w", &type, NULL);
    bg_value y = bg_linear(graph, "fc", bg_graph_input(graph, "x", &x_type), w, (bg_value){0});

    (void)state;
    y = small_loss(graph, "loss", bg_cast(graph, NULL, y, BG_FLOAT32));
    small_require(graph);
    train(graph, y, bg_adam(0.1), small_options());
    assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.accumulator.")).dtype, BG_FLOAT32);
    assert_int_equal(bg_graph_type(graph, bg_graph_find_variable(graph, "w.exp_avg")).dtype, BG_FLOAT32);
    bg_graph_destroy(graph);
}

/* A weight used in two blocks: two accumulators, one update, in the block that comes first. */
static void test_tied_weight_has_one_update(void **state)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    bg_value x = small_input(graph, "x");
    const bgi_op *update;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "b", x, w));
    train(graph, x, bg_sgd(0.1), small_options());
    update = find_op(graph, &bgi_op_sgd_update, 0);
    assert_string_equal(graph->blocks[update->block].name, "A");
    assert_null(find_op(graph, &bgi_op_sgd_update, 1));
    assert_false(bg_value_is_null(bg_graph_find_variable(graph, "w.accumulator.A")));
    assert_false(bg_value_is_null(bg_graph_find_variable(graph, "w.accumulator.B")));
    assert_true(graph->ops[bgi_graph_value(graph, update->inputs[1])->op].type == &bgi_op_add_n);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_without_momentum), cmocka_unit_test(test_constant_scales),
        cmocka_unit_test(test_counted_scale),        cmocka_unit_test(test_offloaded_state),
        cmocka_unit_test(test_bfloat16_parameters),  cmocka_unit_test(test_tied_weight_has_one_update),
    };

    return cmocka_run_group_tests_name("transform/training", tests, NULL, NULL);
}
