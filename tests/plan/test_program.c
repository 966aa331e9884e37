/*
 * test_program.c: checks instructions as the runtime reads them: which ones acquire, release, copy, load and store.
 * test_layout.c checks values.
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
#include "support/train.h"

/* Checks that every edge between devices has equal numbers of acquires, sends, receives and releases, on the right
 * devices. */
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

static bg_plan *plan_random(uint64_t seed)
{
    bgi_test_model model = bgi_test_random_model(seed);
    const bg_optimizer optimizer = bg_adam(0.1);
    char stages[256];
    const bg_options options = bgi_test_random_options(&model, seed, true, stages);
    bg_plan *plan = NULL;
    bg_error error = {0};

    if (bg_plan_create_training(model.graph, model.loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
    bg_graph_destroy(model.graph);
    return plan;
}

static void test_channels_are_paired(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        bg_plan *plan = plan_random(seed);

        check_channels(plan);
        bg_plan_destroy(plan);
    }
}

static bool touches(const bg_plan *plan, uint32_t device, const bgi_call *call, uint32_t number)
{
    const bgi_plan_edge *edge = &plan->edges[number];
    const size_t begin = edge->offset, end = begin + edge->depth * edge->slot_bytes;

    for (uint32_t o = 0; o < call->input_count + call->output_count; o++) {
        const bgi_operand *operand = &call->operands[o];
        const bgi_plan_edge *own = operand->edge != BGI_NO_EDGE ? &plan->edges[operand->edge] : NULL;
        const size_t more = own != NULL ? (own->depth - 1) * own->slot_bytes : 0;
        if (operand->memory == BGI_MEMORY_WINDOW && operand->edge == number)
            return true;
        if (operand->memory == BGI_MEMORY_ARENA && device == edge->to_device && operand->offset < end &&
            operand->offset + more + bg_type_size_bytes(&call->types[o]) > begin)
            return true;
    }
    return false;
}

/* Checks that a message that leaves before the action ends is complete: no later call touches any of its slots. The
 * message is not late either: the call right before it wrote to one of these slots. Returns the number of such
 * messages. */
static uint32_t check_early_messages(const bg_plan *plan, uint32_t device)
{
    const bgi_instruction *instructions = plan->devices[device].instructions, *maker = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->devices[device].instruction_count; i++) {
        const bgi_instruction *send = &instructions[i];
        const uint32_t edge = send->action.index;
        if (send->action.kind != BG_ACTION_SEND) {
            assert_int_equal(send->after_calls, 0);
            maker = send;
            continue;
        }
        assert_non_null(maker);
        for (uint32_t k = 0; k < maker->call_count && send->copy_count == 0; k++) {
            const bool is_last = k + 1 == (send->after_calls > 0 ? send->after_calls : maker->call_count);
            if (is_last)
                assert_true(touches(plan, device, &maker->calls[k], edge));
            if (send->after_calls > 0 && k >= send->after_calls)
                assert_false(touches(plan, device, &maker->calls[k], edge));
        }
        if (send->after_calls > 0) {
            assert_int_equal(send->copy_count, 0);
            assert_in_range(send->after_calls, 1, maker->call_count - 1);
            assert_int_equal(maker->action.micro_batch, send->action.micro_batch);
            count++;
        }
    }
    return count;
}

static void test_messages_leave_when_they_are_whole(void **state)
{
    uint32_t count = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        bg_plan *plan = plan_random(seed);

        for (uint32_t d = 0; d < plan->device_count; d++)
            count += check_early_messages(plan, d);
        bg_plan_destroy(plan);
    }
    assert_true(count > 0);
}

/* Calls that load or store are traced as such, there are as many stores as loads, and no other call touches remote
 * memory. */
static void test_offload(void **state)
{
    bgi_test_model model = bgi_test_random_model(4);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    uint32_t loads = 0, stores = 0, remote = 0;

    (void)state;
    options.memory.offload_optimizer = true;
    assert_int_equal(bg_plan_create_training(model.graph, model.loss, &optimizer, &options, &plan, NULL), BG_OK);
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t k = 0; k < plan->devices[d].instructions[i].call_count; k++) {
                const bgi_call *call = &plan->devices[d].instructions[i].calls[k];
                loads += call->traced_as == BG_ACTION_LOAD;
                stores += call->traced_as == BG_ACTION_STORE;
                for (uint32_t o = 0; o < call->input_count + call->output_count; o++)
                    remote += call->operands[o].memory == BGI_MEMORY_REMOTE;
            }
    assert_true(loads > 0);
    assert_int_equal(loads, stores);
    assert_int_equal(remote, loads + stores);
    for (uint32_t d = 0; d < plan->device_count; d++)
        assert_int_equal(bg_plan_memory_bytes(plan, d, BG_MEMORY_STATE), 0);
    bg_plan_destroy(plan);
    bg_graph_destroy(model.graph);
}

/* The accumulators of each stage are summed over replicas once a step, before its first update. */
static void test_reduce(void **state)
{
    bgi_test_model model = bgi_test_random_model(11);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    uint32_t reduced = 0, accumulators = 0;

    (void)state;
    options.replicas.count = 2;
    assert_int_equal(bg_plan_create_training(model.graph, model.loss, &optimizer, &options, &plan, NULL), BG_OK);
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
                assert_int_equal(instruction->reduced[k].operand.memory, BGI_MEMORY_ARENA);
        }
    }
    for (uint32_t v = 0; v < plan->variable_count; v++)
        accumulators += plan->variables[v].role == BG_ROLE_ACCUMULATOR;
    assert_true(accumulators > 0);
    assert_int_equal(reduced, accumulators);
    bg_plan_destroy(plan);
    bg_graph_destroy(model.graph);
}

static int64_t count_reduced(bool canonical)
{
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_plan *plan;
    int64_t count = 0;

    options.replicas.count = 2;
    options.execution.gradient_accumulation = 8;
    options.execution.stages = "B1,B2|B3,B4";
    options.numerics.canonical_reductions = canonical;
    plan = test_train_plan(test_model_at(0), 2, &optimizer, &options, "digits");
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t k = 0; k < plan->devices[d].instructions[i].reduced_count; k++)
                count += plan->devices[d].instructions[i].reduced[k].element_count;
    bg_plan_destroy(plan);
    return count;
}

/* Only the top of a tree over micro-batches is summed over replicas. */
static void partial_sums_stay_on_their_replica(void **state)
{
    (void)state;
    assert_true(count_reduced(false) > 0);
    assert_int_equal(count_reduced(true), count_reduced(false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels_are_paired),
        cmocka_unit_test(test_messages_leave_when_they_are_whole),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(partial_sums_stay_on_their_replica),
    };

    return cmocka_run_group_tests_name("plan/program", tests, NULL, NULL);
}
