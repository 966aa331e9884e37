/*
 * test_program.c: instructions as the runtime reads them: who acquires, releases, copies, loads and stores. That the
 * contents are right is shown by test_layout.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/random_model.h"

/* Every edge between devices: as many acquires as sends, receives and releases, on the right devices. */
static void check_channels(const bg_plan *plan)
{
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        const bgi_plan_edge *edge = &plan->edges[e];
        const uint32_t want = edge->from_device == edge->to_device ? 0 : edge->per_step ? 1 : plan->micro_batches;
        uint32_t acquires = 0, sends = 0, receives = 0, releases = 0;
        assert_true(edge->depth >= 1);
        assert_int_equal(edge->slot_bytes % 64, 0);
        for (uint32_t d = 0; d < plan->device_count; d++)
            for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
                const bgi_instruction *instruction = &plan->devices[d].instructions[i];
                const bool is_this = instruction->action.index == e;
                sends += instruction->action.kind == BG_ACTION_SEND && is_this && d == edge->from_device;
                receives += instruction->action.kind == BG_ACTION_RECEIVE && is_this && d == edge->to_device;
                for (uint32_t k = 0; k < instruction->acquire_count; k++)
                    acquires += instruction->acquires[k] == e && d == edge->from_device;
                for (uint32_t k = 0; k < instruction->release_count; k++)
                    releases += instruction->releases[k] == e && d == edge->to_device;
            }
        assert_int_equal(acquires, want);
        assert_int_equal(sends, want);
        assert_int_equal(receives, want);
        assert_int_equal(releases, want);
    }
}

static void test_channels_are_paired(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        bgi_test_model model = bgi_test_random_model(seed);
        const bg_optimiser optimiser = bg_adam(0.1);
        char stages[256];
        const bg_options options = bgi_test_random_options(&model, seed, true, stages);
        bg_plan *plan = NULL;
        bg_error error = {0};
        if (bg_plan_create_training(model.graph, model.loss, &optimiser, &options, &plan, &error) != BG_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
        check_channels(plan);
        bg_plan_destroy(plan);
        bg_graph_destroy(model.graph);
    }
}

/* Loads and stores are traced as such, stay in one update, and touch remote memory only there. */
static void test_offload(void **state)
{
    bgi_test_model model = bgi_test_random_model(4);
    const bg_optimiser optimiser = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    uint32_t loads = 0, stores = 0, remote = 0;

    (void)state;
    options.offload_optimiser = true;
    assert_int_equal(bg_plan_create_training(model.graph, model.loss, &optimiser, &options, &plan, NULL), BG_OK);
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t k = 0; k < plan->devices[d].instructions[i].call_count; k++) {
                const bgi_call *call = &plan->devices[d].instructions[i].calls[k];
                loads += call->traced_as == BG_ACTION_LOAD;
                stores += call->traced_as == BG_ACTION_STORE;
                for (uint32_t o = 0; o < call->input_count + call->output_count; o++)
                    remote += call->operands[o].is_remote;
            }
    assert_true(loads > 0);
    assert_int_equal(loads, stores);
    assert_int_equal(remote, loads + stores);
    for (uint32_t d = 0; d < plan->device_count; d++)
        assert_int_equal(bg_plan_memory_bytes(plan, d, BG_MEMORY_STATE), 0);
    bg_plan_destroy(plan);
    bg_graph_destroy(model.graph);
}

/* Replicas: the accumulators of each stage are summed once a step, before its first update. */
static void test_reduce(void **state)
{
    bgi_test_model model = bgi_test_random_model(11);
    const bg_optimiser optimiser = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    uint32_t reduced = 0, accumulators = 0;

    (void)state;
    options.replicas = 2;
    assert_int_equal(bg_plan_create_training(model.graph, model.loss, &optimiser, &options, &plan, NULL), BG_OK);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        bool has_updated = false;
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            has_updated |= instruction->action.kind == BG_ACTION_UPDATE && instruction->call_count > 0;
            if (instruction->action.kind != BG_ACTION_REDUCE)
                continue;
            assert_false(has_updated);
            reduced += instruction->reduced_count;
            for (uint32_t k = 0; k < instruction->reduced_count; k++)
                assert_int_equal(instruction->reduced[k].operand.device, d);
        }
    }
    for (uint32_t v = 0; v < plan->variable_count; v++)
        accumulators += plan->variables[v].role == BG_ROLE_ACCUMULATOR;
    assert_true(accumulators > 0);
    assert_int_equal(reduced, accumulators);
    bg_plan_destroy(plan);
    bg_graph_destroy(model.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels_are_paired),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_reduce),
    };

    return cmocka_run_group_tests_name("plan/program", tests, NULL, NULL);
}
