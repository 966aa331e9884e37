/*
 * test_check.c: a device's program may refer only to the device's memory and to messages that the device sends; other
 * programs are errors.
 *
 * In the model, B and C read A's result, each on a separate device.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <brigade/ops.h>

#include "plan/plan.h"
#include "support/plan_check.h"

static bg_plan *make_plan(bool is_output, const char *what)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, 16);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x, y, z;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    y = bg_scale(graph, "y", x, 2.0, 1.0);
    y = bg_scale(graph, "y2", y, 3.0, 1.0);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    z = bg_scale(graph, "z", y, 2.0, 0.0);
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    bg_graph_output(graph, "sum", bg_add(graph, y, z));
    if (is_output)
        bg_graph_output(graph, "y", y);
    options.numerics.kernels = BG_KERNELS_REFERENCE;
    options.execution.device_iterations = 4;
    if (bg_plan_create_inference(graph, &options, &plan, &error) != BG_OK)
        fail_msg("%s: %s", what, error.message);
    bgi_test_check_inference(graph, &options, what);
    bg_graph_destroy(graph);
    return plan;
}

static bgi_instruction *find_instruction(bg_plan *plan, uint32_t device, bg_action_kind kind)
{
    const bgi_plan_device *on = &plan->devices[device];

    for (uint32_t i = 0; i < on->instruction_count; i++)
        if (on->instructions[i].action.kind == kind)
            return (bgi_instruction *)(uintptr_t)&on->instructions[i];
    fail_msg("device %u has no %s", device, bg_action_kind_name(kind));
    return NULL;
}

static bgi_operand *operand_of(const bgi_instruction *instruction, uint32_t call, uint32_t operand)
{
    assert_true(call < instruction->call_count);
    return (bgi_operand *)(uintptr_t)&instruction->calls[call].operands[operand];
}

/* A value for two devices is written to the first one's message, and copied to the other message when it is complete.
 */
static void a_message_is_copied_from_another(void **state)
{
    bg_plan *plan = make_plan(false, "two readers");
    const bgi_instruction *maker = find_instruction(plan, 0, BG_ACTION_FORWARD);

    (void)state;
    assert_int_equal(maker->call_count, 3);
    assert_int_equal(operand_of(maker, 1, 1)->memory, BGI_MEMORY_WINDOW);
    assert_string_equal(maker->calls[2].kernel.name, "copy");
    assert_memory_equal(operand_of(maker, 2, 0), operand_of(maker, 1, 1), sizeof(bgi_operand));
    assert_int_equal(operand_of(maker, 2, 1)->memory, BGI_MEMORY_WINDOW);
    assert_int_not_equal(operand_of(maker, 2, 1)->edge, operand_of(maker, 2, 0)->edge);
    assert_int_equal(find_instruction(plan, 0, BG_ACTION_SEND)->copy_count, 0);
    bg_plan_destroy(plan);
}

/* The host reads the value in the device's memory, even after the messages were sent. */
static void an_output_is_kept_at_home(void **state)
{
    bg_plan *plan = make_plan(true, "two readers and the host");
    const bgi_instruction *maker = find_instruction(plan, 0, BG_ACTION_FORWARD);
    const bgi_instruction *out = find_instruction(plan, 0, BG_ACTION_HOST_OUT);

    (void)state;
    assert_int_equal(maker->call_count, 4);
    assert_int_equal(operand_of(maker, 1, 1)->memory, BGI_MEMORY_ARENA);
    assert_int_equal(operand_of(maker, 2, 1)->memory, BGI_MEMORY_WINDOW);
    assert_int_equal(operand_of(maker, 3, 1)->memory, BGI_MEMORY_WINDOW);
    assert_int_equal(out->copies[0].operand.memory, BGI_MEMORY_ARENA);
    assert_int_equal(out->copies[0].operand.offset, operand_of(maker, 1, 1)->offset);
    bg_plan_destroy(plan);
}

/* ---- errors ---- */

static void expect_refusal(const bg_plan *plan, const char *expected)
{
    bg_error error = {0};

    assert_int_equal(bgi_plan_check(plan, &error), BG_ERROR_INTERNAL);
    if (strstr(error.message, expected) == NULL)
        fail_msg("\"%s\" is not in: %s", expected, error.message);
}

/* Changes one operand, checks the program, and restores the operand. */
static void expect_operand_refused(const bg_plan *plan, bgi_operand *operand, bgi_operand other, const char *expected)
{
    const bgi_operand before = *operand;

    *operand = other;
    expect_refusal(plan, expected);
    *operand = before;
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
}

static void memory_of_others_is_refused(void **state)
{
    bg_plan *plan = make_plan(true, "refused");
    const bgi_instruction *maker = find_instruction(plan, 0, BG_ACTION_FORWARD);
    const bgi_instruction *reader = find_instruction(plan, 2, BG_ACTION_FORWARD);
    const bgi_operand sent = *operand_of(maker, 2, 1), slot = *operand_of(reader, 0, 0);
    bgi_copy *out = (bgi_copy *)(uintptr_t)find_instruction(plan, 0, BG_ACTION_HOST_OUT)->copies;
    bgi_operand changed;

    (void)state;
    expect_operand_refused(plan, operand_of(maker, 0, 1), slot, "cannot be used by device 0");
    expect_operand_refused(plan, operand_of(reader, 0, 0), sent, "cannot be used by device 2");
    expect_operand_refused(plan, operand_of(reader, 0, 0),
                           (bgi_operand){.memory = BGI_MEMORY_WINDOW, .edge = BGI_NO_EDGE}, "operand is in edge");
    changed = slot;
    changed.memory = BGI_MEMORY_REMOTE;
    expect_operand_refused(plan, operand_of(reader, 0, 0), changed, "cannot be used by device 2");
    changed = sent;
    changed.memory = BGI_MEMORY_COUNT;
    expect_operand_refused(plan, operand_of(maker, 0, 1), changed, "operand is in memory 3, but");
    changed = sent;
    changed.offset = plan->edges[sent.edge].slot_bytes;
    expect_operand_refused(plan, operand_of(maker, 2, 1), changed, "window of");
    expect_operand_refused(plan, &out->operand, sent, "which is not allowed here");
    bg_plan_destroy(plan);
}

static void windows_are_acquired_and_sent(void **state)
{
    bg_plan *plan = make_plan(false, "windows");
    bgi_instruction *maker = find_instruction(plan, 0, BG_ACTION_FORWARD);
    bgi_instruction *send = find_instruction(plan, 0, BG_ACTION_SEND);
    const bgi_copy copy = {.operand = {.edge = BGI_NO_EDGE}, .to = {.edge = BGI_NO_EDGE}, .size_bytes = 64};
    const uint32_t acquired = maker->acquire_count;

    (void)state;
    maker->acquire_count = 0;
    expect_refusal(plan, "which is not acquired");
    maker->acquire_count = acquired;
    send->copies = &copy;
    send->copy_count = 1;
    expect_refusal(plan, "must end in the message of edge");
    send->copy_count = 0;
    send->after_calls = 1;
    expect_refusal(plan, "has already left");
    send->after_calls = 0;
    plan->edges[send->action.index].offset = plan->devices[1].arena_bytes + plan->devices[2].arena_bytes;
    expect_refusal(plan, "pass the end of device");
    bg_plan_destroy(plan);
}

/* In a strict plan, the turns of the devices are one sequence. */
static void turns_are_one_sequence(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, 16);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bgi_instruction *first, *second;
    uint32_t turn;
    bg_value x;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = bg_scale(graph, "y", x, 2.0, 1.0);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    bg_graph_output(graph, "z", bg_scale(graph, "z", x, 2.0, 0.0));
    options.execution.strategy = BG_STRATEGY_SHARDED;
    options.execution.strict = true;
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, NULL), BG_OK);
    first = (bgi_instruction *)(uintptr_t)plan->devices[0].instructions;
    second = &first[1];
    turn = first->turn;
    first->turn = second->turn;
    second->turn = turn;
    expect_refusal(plan, "belongs to another instruction or comes too early");
    second->turn = first->turn;
    expect_refusal(plan, "belongs to another instruction or comes too early");
    second->turn = UINT32_MAX;
    expect_refusal(plan, "belongs to another instruction or comes too early");
    second->turn = first->turn;
    first->turn = turn;
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* A plan file could name an output that does not exist, so that a loop would wait forever for its condition. */
static void the_condition_is_an_output(void **state)
{
    bg_plan *plan = make_plan(false, "condition");

    (void)state;
    plan->condition = plan;
    plan->condition_output = plan->output_count;
    expect_refusal(plan, "the condition is output 1, but the plan has 1 outputs");
    plan->condition_output--;
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
    plan->condition = NULL;
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_copied_from_another), cmocka_unit_test(an_output_is_kept_at_home),
        cmocka_unit_test(memory_of_others_is_refused),      cmocka_unit_test(windows_are_acquired_and_sent),
        cmocka_unit_test(turns_are_one_sequence),           cmocka_unit_test(the_condition_is_an_output),
    };

    return cmocka_run_group_tests_name("plan/check", tests, NULL, NULL);
}
