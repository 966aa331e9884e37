/*
 * test_shared.c: tests copies of tied parameters, and parameters that must not be shared.
 */
#include "transform/small.h"

/* Builds blocks A, B, C (each a stage) that use w: A once, B through an alias, C twice. */
static bg_graph *train_tied(bgi_stages *stages)
{
    bg_graph *graph = small_create();
    const bg_value w = small_weight(graph, "w");
    const bg_optimizer optimizer = bg_sgd(0.1);
    const bg_options options = {
        .execution.strategy = BG_STRATEGY_PIPELINED, .execution.gradient_accumulation = 1, .replicas.count = 1};
    bg_value x = small_input(graph, "x");
    bg_error error = {0};

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_linear(
        graph, "b", x,
        bg_reshape(graph, NULL, bg_reshape(graph, NULL, w, 1, (const int64_t[]){9}), 2, (const int64_t[]){3, 3}));
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = small_linear(graph, "c2", small_linear(graph, "c1", x, w), w);
    x = small_loss(graph, "loss", x);
    small_require(graph);
    small_expect(bgi_assign_stages(graph, &options, true, stages, &error), BG_OK, &error, NULL);
    small_expect(bgi_make_training(graph, x, &optimizer, &options, &error), BG_OK, &error, NULL);
    return graph;
}

static void test_copies(void **state)
{
    bgi_stages stages;
    bg_graph *graph = train_tied(&stages);
    const bg_value w = bg_graph_find_variable(graph, "w");
    uint32_t refreshes = 0;

    (void)state;
    assert_int_equal(bgi_copy_shared_variables(graph, &stages, NULL, true, NULL), BG_OK);
    assert_int_equal(graph->values[bg_graph_find_variable(graph, "w@1").id].copy_of.id, w.id);
    assert_int_equal(graph->values[bg_graph_find_variable(graph, "w@2").id].copy_of.id, w.id);
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "w@0")));
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        const uint32_t stage = stages.block_stages[op->block];
        refreshes += op->type == &bgi_op_refresh;
        for (uint32_t i = 0; op->phase != BGI_PHASE_UPDATE && i < op->input_count; i++)
            assert_false(op->inputs[i].id == w.id && stage != 0);
    }
    assert_int_equal(refreshes, 2);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

/* Places the stages on one device, or the last one on another. With `fixed`, B reads w without a gradient. Returns the
 * number of refreshes. */
static uint32_t share_homes(bool is_remote, bool is_apart, bool fixed, uint32_t *out_shared)
{
    const bg_type w_type = bg_matrix(BG_FLOAT32, 3, 3);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *graph = small_create();
    const bg_value w = bg_graph_parameter(graph, "w", &w_type, NULL);
    bgi_stages stages;
    bg_error error = {0};
    bg_value x = small_input(graph, "x");
    uint32_t refreshes = 0;

    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.stages = is_apart ? "A@0|B@0|C@1" : "A@0|B@0|C@0";
    options.memory.locations[BG_LOCATION_WEIGHTS].place = is_remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, w);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    if (fixed)
        bg_graph_output(graph, "largest", bg_argmax(graph, NULL, w));
    x = fixed ? bg_relu(graph, x) : small_linear(graph, "b", x, w);
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    x = small_loss(graph, "loss", small_linear(graph, "c", x, w));
    small_require(graph);
    small_expect(bgi_assign_stages(graph, &options, false, &stages, &error), BG_OK, &error, NULL);
    small_expect(bgi_make_training(graph, x, &optimizer, &options, &error), BG_OK, &error, NULL);
    small_expect(bgi_copy_shared_variables(graph, &stages, &options, true, &error), BG_OK, &error, NULL);
    *out_shared = 0;
    for (size_t v = 1; v < graph->value_count; v++)
        *out_shared += graph->values[v].shares_home;
    for (size_t o = 0; o < graph->op_count; o++)
        refreshes += graph->ops[o].type == &bgi_op_refresh;
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
    return refreshes;
}

/* Values in the device's store are loaded from there. A stage that does not contribute to the gradient, and for which
 * the update does not wait, keeps a separate copy. */
static void test_homes_are_shared(void **state)
{
    uint32_t shared;

    (void)state;
    assert_int_equal(share_homes(true, false, false, &shared), 0);
    assert_int_equal(shared, 2);
    assert_int_equal(share_homes(true, true, false, &shared), 1);
    assert_int_equal(shared, 1);
    assert_int_equal(share_homes(true, false, true, &shared), 1);
    assert_int_equal(shared, 1);
    assert_int_equal(share_homes(false, false, false, &shared), 2);
    assert_int_equal(shared, 0);
}

/* An alias of a copy has a lower number than the copy itself and must still use the copy's bytes. */
static void test_aliases_of_copies_have_roots(void **state)
{
    bgi_stages stages;
    bg_graph *graph = train_tied(&stages);
    bgi_partition partition = {0};
    bg_value copy;

    (void)state;
    assert_int_equal(bgi_copy_shared_variables(graph, &stages, NULL, true, NULL), BG_OK);
    assert_int_equal(bgi_cut_segments(graph, &stages, true, false, &partition, NULL), BG_OK);
    copy = bg_graph_find_variable(graph, "w@1");
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].type == &bgi_op_reshape && graph->ops[o].phase == BGI_PHASE_FORWARD)
            assert_int_equal(partition.roots[graph->ops[o].outputs[0].id].id, copy.id);
    bgi_partition_clear(&partition);
    bgi_stages_clear(&stages);
    bg_graph_destroy(graph);
}

static bg_status infer_tick(const bg_op_signature *op, bg_type *outputs, bg_error *error)
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

/* Running statistics change once in each micro-batch of training. */
static void test_what_micro_batches_change_is_not_shared(void **state)
{
    static const bg_op_type tick = {BG_OP_TYPE_DEFAULTS,        .name = "tick",      .minimum_inputs = 2,
                                    .maximum_inputs = 2,        .output_count = 1,   .written_inputs = 1u << 1,
                                    .training_writes = 1u << 1, .infer = infer_tick, .kernel = refuse_kernel};

    (void)state;
    for (int both = 0; both < 2; both++) {
        bg_graph *graph = small_create();
        const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);
        const bg_value statistics = bg_graph_variable(graph, "running", &type, BG_ROLE_BUFFER, NULL);
        const bg_options options = {.execution.strategy = BG_STRATEGY_PIPELINED};
        bg_value x = small_input(graph, "x");
        bgi_stages stages = {0};
        bg_error error = {0};
        bg_block_start(graph, "A", BG_DEVICE_NONE);
        x = bg_graph_add(graph, &tick, "first", (bg_value[]){x, statistics}, 2, NULL, NULL);
        bg_block_start(graph, "B", BG_DEVICE_NONE);
        if (both)
            bg_graph_add(graph, &tick, "second", (bg_value[]){x, statistics}, 2, NULL, NULL);
        else
            bg_add(graph, x, statistics);
        small_require(graph);
        assert_int_equal(bgi_assign_stages(graph, &options, true, &stages, NULL), BG_OK);
        small_expect(bgi_copy_shared_variables(graph, &stages, NULL, true, &error), BG_ERROR_INVALID, &error,
                     both ? "`running` is changed in stage 0 and in stage 1"
                          : "`running` is changed by stage 0 in each micro-batch and read by stage 1");
        /* In inference, batch norm only reads its running statistics. */
        small_expect(bgi_copy_shared_variables(graph, &stages, NULL, false, &error), BG_OK, &error, NULL);
        bgi_stages_clear(&stages);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_homes_are_shared),
        cmocka_unit_test(test_aliases_of_copies_have_roots),
        cmocka_unit_test(test_what_micro_batches_change_is_not_shared),
    };

    return cmocka_run_group_tests_name("transform/shared", tests, NULL, NULL);
}
