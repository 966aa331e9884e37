/*
 * test_view.c: a plan's view agrees with the plan's totals, and with the instructions that run.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/ops.h>
#include <brigade/plan_view.h>

enum { MICRO_BATCHES = 4, MOST_EDGES = 64 };

/* Compiles x [4, 16] -> A: linear, tanh, linear, tanh -> B: linear, mean, as a pipeline of two devices. */
static bg_plan *make_plan(bool recomputes)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x, loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear(graph, "fc1", x, bg_graph_parameter(graph, "w1", &w_type, NULL), (bg_value){0}));
    x = bg_tanh(graph, bg_linear(graph, "fc2", x, bg_graph_parameter(graph, "w2", &w_type, NULL), (bg_value){0}));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = bg_linear(graph, "fc3", x, bg_graph_parameter(graph, "w3", &w_type, NULL), (bg_value){0});
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.memory.recompute_order = BG_RECOMPUTE_THEN;
    options.memory.recompute = recomputes ? BG_RECOMPUTE_STAGE : BG_RECOMPUTE_NONE;
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return plan;
}

static void test_blocks(void **state)
{
    bg_plan *plan = make_plan(false);
    const bg_plan_summary summary = bg_plan_summarize(plan);
    uint32_t named = 0;

    (void)state;
    assert_int_equal(summary.stage_count, 2);
    assert_int_equal(summary.update_levels, 1);
    for (uint32_t i = 0; i < summary.block_count; i++) {
        const bg_plan_block block = bg_plan_block_at(plan, i);
        if (strcmp(block.name, "A") != 0 && strcmp(block.name, "B") != 0)
            continue;
        named++;
        assert_int_equal(block.stage, block.name[0] - 'A');
    }
    assert_int_equal(named, 2);
    assert_int_equal(bg_plan_stage_device(plan, 0), 0);
    assert_int_equal(bg_plan_stage_device(plan, 1), 1);
    bg_plan_destroy(plan);
}

/* The slots of edges make up all bytes of the stashes and at most the bytes of the streams. */
static void test_edges(void **state)
{
    bg_plan *plan = make_plan(false);
    const bg_plan_summary summary = bg_plan_summarize(plan);
    size_t stash[2] = {0}, stream[2] = {0};
    uint32_t crossings = 0;

    (void)state;
    for (uint32_t i = 0; i < summary.edge_count; i++) {
        const bg_plan_edge edge = bg_plan_edge_at(plan, i);
        assert_true(edge.from_device < 2 && edge.to_device < 2);
        assert_true(edge.payload_bytes > 0 && edge.payload_bytes <= edge.slot_bytes);
        assert_false(edge.is_ring);
        (edge.is_stash ? stash : stream)[edge.to_device] += edge.slot_bytes * edge.depth;
        crossings += edge.from_device != edge.to_device;
        if (edge.from_device == 0 && edge.to_device == 1)
            assert_int_equal(edge.payload_bytes, 4 * 16 * sizeof(float));
    }
    assert_int_equal(crossings, 2); /* the activation, and its gradient */
    for (uint32_t d = 0; d < 2; d++) {
        assert_int_equal(stash[d], bg_plan_memory_bytes(plan, d, BG_MEMORY_STASH));
        assert_true(stream[d] <= bg_plan_memory_bytes(plan, d, BG_MEMORY_STREAM));
    }
    assert_true(stash[0] > 0 && stream[0] > 0);
    bg_plan_destroy(plan);
}

static uint32_t count_actions(const bg_plan *plan, uint32_t device, bg_action_kind kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < bg_plan_instruction_count(plan, device); i++)
        count += bg_plan_instruction_at(plan, device, i).action.kind == kind;
    return count;
}

static void test_instructions(void **state)
{
    (void)state;
    for (uint32_t recomputes = 0; recomputes < 2; recomputes++) {
        bg_plan *plan = make_plan(recomputes != 0);
        size_t transient = 0;
        for (uint32_t d = 0; d < 2; d++) {
            assert_int_equal(count_actions(plan, d, BG_ACTION_FORWARD), MICRO_BATCHES);
            assert_int_equal(count_actions(plan, d, BG_ACTION_BACKWARD), MICRO_BATCHES);
            assert_int_equal(count_actions(plan, d, BG_ACTION_UPDATE), 1);
            assert_int_equal(bg_plan_transfer_count(plan, d), 0);
            transient = 0;
            for (uint32_t i = 0; i < bg_plan_instruction_count(plan, d); i++)
                if (bg_plan_instruction_at(plan, d, i).transient_bytes > transient)
                    transient = bg_plan_instruction_at(plan, d, i).transient_bytes;
            assert_int_equal(transient, bg_plan_memory_bytes(plan, d, BG_MEMORY_TRANSIENT));
        }
        assert_int_equal(count_actions(plan, 0, BG_ACTION_RECOMPUTE), recomputes ? MICRO_BATCHES : 0);
        bg_plan_destroy(plan);
    }
}

/* A device's forward pass touches the values that the device sends and stashes, its backward pass touches the values
 * computed from both, and its update touches neither. */
static void test_marks(void **state)
{
    bg_plan *plan = make_plan(false);
    const uint32_t edge_count = bg_plan_summarize(plan).edge_count;
    bool marks[MOST_EDGES], all[MOST_EDGES] = {0};

    (void)state;
    assert_true(edge_count <= MOST_EDGES);
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t i = 0; i < bg_plan_instruction_count(plan, d); i++) {
            const bg_action action = bg_plan_instruction_at(plan, d, i).action;
            bool has_any = false, sends = false;
            memset(marks, 0, sizeof marks);
            bg_plan_mark_edges(plan, d, i, marks);
            bg_plan_mark_edges(plan, d, i, all);
            for (uint32_t e = 0; e < edge_count; e++) {
                const bg_plan_edge edge = bg_plan_edge_at(plan, e);
                has_any = has_any || marks[e];
                sends = sends || (marks[e] && edge.from_device == 0 && edge.to_device == 1);
                if (marks[e])
                    assert_true(edge.from_device == d || edge.to_device == d);
            }
            if (action.kind == BG_ACTION_FORWARD)
                assert_true(has_any && sends);
            if (action.kind == BG_ACTION_UPDATE)
                assert_false(sends);
        }
    for (uint32_t e = 0; e < edge_count; e++)
        assert_true(all[e]);
    bg_plan_destroy(plan);
}

/* For an index past the last element, the function returns no element and writes no output. */
static void test_ends(void **state)
{
    bg_plan *plan = make_plan(false);
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bool mark = false;

    (void)state;
    assert_string_equal(bg_plan_block_at(plan, summary.block_count).name, "");
    assert_int_equal(bg_plan_stage_device(plan, 2), UINT32_MAX);
    assert_int_equal(bg_plan_edge_at(plan, summary.edge_count).slot_bytes, 0);
    assert_int_equal(bg_plan_instruction_count(plan, 2), 0);
    assert_int_equal(bg_plan_transfer_count(plan, 2), 0);
    assert_int_equal(bg_plan_instruction_at(plan, 0, bg_plan_instruction_count(plan, 0)).transient_bytes, 0);
    bg_plan_mark_edges(plan, 0, bg_plan_instruction_count(plan, 0), &mark);
    bg_plan_mark_edges(plan, 2, 0, &mark);
    assert_false(mark);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks), cmocka_unit_test(test_edges), cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_marks),  cmocka_unit_test(test_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
