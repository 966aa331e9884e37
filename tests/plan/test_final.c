/*
 * test_final.c: gradients are summed when they are final. In the middle of a stage's last backward pass, sums begin
 * over variables that no later call touches, right after the call that made the last of them final. No other part of
 * the plan changes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/ops.h>

#include "plan/plan.h"
#include "support/models.h"
#include "support/plan_check.h"
#include "support/train.h"

enum { MICRO_BATCH = 4, MICRO_BATCHES = 3, MATRIX = 16 * 16 * 4 };

static const struct {
    const char *name;
    bg_strategy strategy;
    const char *schedule, *stages;
    bool is_remote, is_sharded;
} ways[] = {
    {"single", BG_STRATEGY_SINGLE, NULL, NULL, false, false},
    {"in pieces", BG_STRATEGY_SINGLE, NULL, NULL, false, true},
    {"remote", BG_STRATEGY_SINGLE, NULL, NULL, true, false},
    {"a pipeline", BG_STRATEGY_PIPELINED, "interleaved", "B1|B2,B3|B4", false, false},
    {"weights apart", BG_STRATEGY_PIPELINED, "zb-h1", "B1|B2,B3|B4", false, false},
    {"shared devices", BG_STRATEGY_PIPELINED, "grouped", "B1@0|B2@1|B3@0|B4@1", false, true},
    {"phases", BG_STRATEGY_PHASED, NULL, "B1|B2|B3|B4", true, true},
};

static bg_options make_options(size_t way, uint32_t reduce_bytes)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = ways[way].strategy;
    options.execution.schedule = ways[way].schedule;
    options.execution.stages = ways[way].stages;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.replicas.count = 2;
    options.replicas.reduce_bytes = reduce_bytes;
    options.numerics.max_gradient_norm = 1.0;
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE; /* devices wait for the sums of their phases */
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = ways[way].is_remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    options.memory.locations[BG_LOCATION_STATE].sharded = ways[way].is_sharded;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    return options;
}

static bg_plan *make_plan(unsigned model, const bg_options *options, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.01);

    return test_train_plan(test_model_at(model), MICRO_BATCH, &optimizer, options, what);
}

/* Compiles layers of one matrix each, followed by a mean. */
static bg_plan *make_chain(uint32_t layers, const bg_options *options)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    for (uint32_t i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        bg_block_start(graph, name, i);
        x = bg_linear(graph, NULL, x, bg_graph_parameter(graph, name, &w_type, NULL), (bg_value){0});
    }
    x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    if (bg_plan_create_training(graph, x, &optimizer, options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return plan;
}

static uint32_t count_parts(const bg_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            count += plan->devices[d].instructions[i].is_part;
    return count;
}

/* Returns whether the call touches the variable. Unlike the compiler, the test decides this from the operands. */
static bool touches(const bgi_call *call, const bgi_reduced *reduced)
{
    const size_t begin = reduced->operand.offset,
                 end = begin + (size_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype);

    for (uint32_t o = 0; o < call->input_count + call->output_count; o++) {
        const bgi_operand *operand = &call->operands[o];
        if (operand->memory == BGI_MEMORY_ARENA && operand->edge == BGI_NO_EDGE && operand->offset < end &&
            begin < operand->offset + bg_type_size_bytes(&call->types[o]))
            return true;
    }
    return false;
}

static bool touches_any(const bgi_call *call, const bgi_instruction *sum)
{
    for (uint32_t i = 0; i < sum->reduced_count; i++)
        if (touches(call, &sum->reduced[i]))
            return true;
    return false;
}

/* ---- which actions are in parts ---- */

/* Checks that no call of a backward touches values that were summed before it in the step, and that the call right
 * before a sum in the middle of a backward completed one of the sum's gradients. */
static void check_places(const bgi_plan_device *on, const char *what)
{
    for (uint32_t s = 0; s < on->instruction_count; s++) {
        const bgi_instruction *sum = &on->instructions[s], *before = sum;
        if (sum->action.kind != BG_ACTION_REDUCE)
            continue;
        for (uint32_t i = s + 1; i < on->instruction_count; i++)
            for (uint32_t c = 0;
                 on->instructions[i].action.stage == sum->action.stage &&
                 on->instructions[i].action.kind < BG_ACTION_UPDATE && c < on->instructions[i].call_count;
                 c++)
                if (touches_any(&on->instructions[i].calls[c], sum))
                    fail_msg("%s: call %u of instruction %u touches what instruction %u has summed", what, c, i, s);
        if (s + 1 == on->instruction_count || !on->instructions[s + 1].is_part)
            continue;
        while (before[-1].action.kind == BG_ACTION_SEND)
            before--;
        before--;
        if (!before->is_part &&
            before->action.kind != BG_ACTION_REDUCE) /* all gradients are final before that backward pass */
            continue;
        if (!touches_any(&before->calls[before->call_count - 1], sum))
            fail_msg("%s: instruction %u could have been summed before", what, s);
    }
}

/* Checks that the parts of all actions together have the calls, sums and messages of the whole program, and need the
 * same memory. */
static void check_same_program(const bgi_plan_device *on, const bgi_plan_device *whole, const char *what)
{
    uint32_t calls = 0, whole_calls = 0, sums = 0, whole_sums = 0, sends = 0, whole_sends = 0;

    for (uint32_t i = 0; i < on->instruction_count; i++) {
        const bgi_instruction *instruction = &on->instructions[i];
        calls += instruction->call_count;
        sums += instruction->action.kind == BG_ACTION_REDUCE ? instruction->reduced_count : 0;
        sends += instruction->action.kind == BG_ACTION_SEND;
        if (instruction->is_part && i > 0 && on->instructions[i - 1].action.kind == BG_ACTION_REDUCE)
            for (uint32_t back = i; back-- > 0;) {
                const bgi_instruction *before = &on->instructions[back];
                if (before->is_part && before->call_count > 0 && before->action.stage == instruction->action.stage) {
                    assert_ptr_equal(before->calls + before->call_count, instruction->calls);
                    assert_int_equal(before->release_count, 0);
                    break;
                }
            }
    }
    for (uint32_t i = 0; i < whole->instruction_count; i++) {
        whole_calls += whole->instructions[i].call_count;
        whole_sums += whole->instructions[i].action.kind == BG_ACTION_REDUCE ? whole->instructions[i].reduced_count : 0;
        whole_sends += whole->instructions[i].action.kind == BG_ACTION_SEND;
    }
    if (calls != whole_calls || sums != whole_sums || sends != whole_sends)
        fail_msg("%s: %u calls, %u variables, %u messages; %u, %u, %u without parts", what, calls, sums, sends,
                 whole_calls, whole_sums, whole_sends);
    assert_int_equal(on->arena_bytes, whole->arena_bytes);
    assert_int_equal(on->remote_bytes, whole->remote_bytes);
}

static void what_is_final_leaves(void **state)
{
    uint32_t parts[sizeof ways / sizeof ways[0]] = {0};

    (void)state;
    for (unsigned model = 0; model < 4; model++)
        for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
            bg_options options = make_options(way, 0);
            bg_plan *whole, *plan;
            char what[64];

            snprintf(what, sizeof what, "model %u, %s", model, ways[way].name);
            whole = make_plan(model, &options, what);
            assert_int_equal(count_parts(whole), 0);
            options.replicas.reduce_bytes = 1;
            plan = make_plan(model, &options, what);
            parts[way] += count_parts(plan);
            if (ways[way].stages == NULL && count_parts(plan) < 2)
                fail_msg("%s: no backward in parts", what);
            for (uint32_t d = 0; d < plan->device_count; d++) {
                check_places(&plan->devices[d], what);
                check_same_program(&plan->devices[d], &whole->devices[d], what);
            }
            bg_plan_destroy(plan);
            bg_plan_destroy(whole);
        }
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++)
        if (parts[way] < 2) /* a stage of one layer may have nothing to do after its gradients */
            fail_msg("%s: no backward in parts", ways[way].name);
}

/* Values equal those of the graph, in whatever order the devices run. */
static void plans_in_parts_are_right(void **state)
{
    (void)state;
    for (unsigned model = 0; model < 4; model++)
        for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
            const bg_options options = make_options(way, 1);
            bg_graph *graph = NULL;
            bg_value loss;

            if (ways[way].is_sharded) /* only whole variables: a replica is checked separately */
                continue;
            assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
            loss = test_model_at(model)->build(graph, MICRO_BATCH);
            bgi_test_check_training(graph, loss, &options, ways[way].name);
            bg_graph_destroy(graph);
        }
}

/* Returns how many calls of the whole backward pass run before the `number`-th message of the device leaves. */
static uint32_t find_departure(const bgi_plan_device *on, uint32_t number)
{
    const bgi_instruction *send = on->instructions, *maker;
    uint32_t calls = 0;

    while (send->action.kind != BG_ACTION_SEND || number-- > 0)
        send++;
    for (maker = send; maker->call_count == 0 || maker->action.stage != send->action.stage;)
        maker--;
    calls = send->after_calls > 0 ? send->after_calls : maker->call_count;
    if (maker->is_part)
        for (const bgi_instruction *part = maker; part-- > on->instructions;)
            if (part->is_part && part->call_count > 0 && part->calls + part->call_count == maker->calls) {
                calls += part->call_count;
                maker = part;
            }
    return calls;
}

/* The last stage's gradient for the previous stage leaves inside a part, after the same call as in a whole backward. */
static void messages_leave_behind_the_same_call(void **state)
{
    bg_options options = make_options(3, 0);
    bg_plan *whole, *plan;
    const bgi_plan_device *on;
    uint32_t sends = 0, inside = 0;

    (void)state;
    options.execution.schedule = "interleaved";
    options.execution.stages = "w0,w1,w2@0|w3,w4,w5@1";
    whole = make_chain(6, &options);
    options.replicas.reduce_bytes = 1;
    plan = make_chain(6, &options);
    on = &plan->devices[1];
    for (uint32_t i = 0; i < on->instruction_count; i++) {
        const bgi_instruction *send = &on->instructions[i];
        if (send->action.kind != BG_ACTION_SEND)
            continue;
        inside += send->after_calls > 0 && send[-1].is_part && send[-2].action.kind == BG_ACTION_REDUCE;
        assert_int_equal(find_departure(on, sends), find_departure(&whole->devices[1], sends));
        sends++;
    }
    assert_int_equal(sends, MICRO_BATCHES + 1); /* one message has the squares of the stage's gradients */
    assert_int_equal(inside, 1);
    bg_plan_destroy(plan);
    bg_plan_destroy(whole);
}

/* With one stage on one device, the sum of each layer except the first overlaps with the backward pass of the layers
 * before it. */
static void sums_begin_before_the_last_calls(void **state)
{
    enum { LAYERS = 4 };
    const bg_options options = make_options(0, MATRIX);
    bg_plan *plan = make_chain(LAYERS, &options);
    const bgi_plan_device *on = &plan->devices[0];
    uint32_t beside = 0, calls_behind = 0;

    (void)state;
    for (uint32_t i = on->instruction_count; i-- > 0;) {
        const bgi_instruction *instruction = &on->instructions[i];
        if (instruction->action.kind == BG_ACTION_BACKWARD)
            calls_behind += instruction->call_count;
        if (instruction->action.kind != BG_ACTION_REDUCE)
            continue;
        assert_int_equal(instruction->reduced_count, 1);
        assert_true(instruction->is_beside == (calls_behind > 0));
        beside += instruction->is_beside;
    }
    assert_int_equal(beside, LAYERS - 1);
    assert_int_equal(bg_plan_summarize(plan).sums, LAYERS);
    assert_int_equal(bg_plan_summarize(plan).sums_beside, LAYERS - 1);
    bg_plan_destroy(plan);
}

/* A part has the number of layers that the bytes determine, and there are never more than nine parts. */
static void parts_have_a_size(void **state)
{
    static const struct {
        uint32_t layers, reduce_bytes, sums;
    } rows[] = {
        {6, MATRIX, 6},  {6, MATRIX + 1, 3}, {6, 2 * MATRIX, 3},  {6, 2 * MATRIX + 1, 2},
        {6, 1 << 20, 1}, {6, 6 * MATRIX, 1}, {6, 0, 1},           {8, 1, 8},
        {9, 1, 5},       {16, 1, 8},         {20, 3 * MATRIX, 7}, {40, 1, 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bg_options options = make_options(0, rows[i].reduce_bytes);
        bg_plan *plan = make_chain(rows[i].layers, &options);

        if (bg_plan_summarize(plan).sums != rows[i].sums)
            fail_msg("row %zu: %u sums", i, bg_plan_summarize(plan).sums);
        bg_plan_destroy(plan);
    }
}

/* A backward pass stays whole if no sum may run concurrently with the program, if a sum already does, or if no device
 * waits. */
static void whole_backwards(void **state)
{
    bg_options options[5];
    bg_plan *plan;

    (void)state;
    assert_int_equal(bg_options_defaults().replicas.reduce_bytes, 1 << 20);
    for (int i = 0; i < 5; i++)
        options[i] = make_options(0, 1);
    options[0].execution.strategy = BG_STRATEGY_SHARDED;
    options[0].execution.stages = "B1,B2|B3,B4";
    plan = make_plan(3, &options[0], "not strict");
    assert_true(count_parts(plan) > 1);
    bg_plan_destroy(plan);
    options[0].execution.strict = true;
    options[1].replicas.reduce_time = BG_REDUCE_IN_UPDATE;
    options[2].replicas.count = 1;
    options[3].replicas.reduce_bytes = bg_options_defaults().replicas.reduce_bytes;
    options[4] = make_options(6, 1);
    options[4].memory.phase_liveness = BG_LIVE_ALWAYS;
    options[4].replicas.reduce_time = BG_REDUCE_BESIDE;
    for (int i = 0; i < 5; i++) {
        uint32_t parts = 0;

        plan = make_plan(3, &options[i], "whole");
        for (uint32_t d = 0; d < plan->device_count; d++)
            for (uint32_t n = 0; n < plan->devices[d].instruction_count; n++)
                parts += plan->devices[d].instructions[n].is_part &&
                         (i < 4 || plan->devices[d].instructions[n].action.stage > 0);
        if (parts > 0)
            fail_msg("options %d: %u parts", i, parts);
        bg_plan_destroy(plan);
    }
}

/* ---- errors ---- */

/* A plan is an error if an operand of a part after a sum overlaps any variable of the sum. */
static void gradients_that_are_not_final_are_refused(void **state)
{
    const bg_options options = make_options(0, 2 * MATRIX);
    bg_plan *plan = make_chain(7, &options);
    const bgi_plan_device *on = &plan->devices[0];
    bg_error error;
    uint32_t refused = 0;

    (void)state;
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
    for (uint32_t sum = 0; sum < on->instruction_count; sum++)
        for (uint32_t i = sum + 3; i < on->instruction_count;
             i++) { /* another sum lies between them, so the first sum is complete */
            const bgi_instruction *part = &on->instructions[i];

            if (on->instructions[sum].action.kind != BG_ACTION_REDUCE || part->action.kind != BG_ACTION_BACKWARD)
                continue;
            for (uint32_t r = 0; r < on->instructions[sum].reduced_count; r++) {
                bgi_operand *operand = (bgi_operand *)(uintptr_t)part->calls[r % part->call_count].operands;
                const bgi_operand before = *operand;

                *operand = on->instructions[sum].reduced[r].operand;
                error = (bg_error){0};
                assert_int_equal(bgi_plan_check(plan, &error), BG_ERROR_INTERNAL);
                assert_non_null(strstr(error.message, "has already summed"));
                *operand = before;
                refused++;
            }
        }
    assert_true(refused > 3);
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_final_leaves),
        cmocka_unit_test(plans_in_parts_are_right),
        cmocka_unit_test(messages_leave_behind_the_same_call),
        cmocka_unit_test(sums_begin_before_the_last_calls),
        cmocka_unit_test(parts_have_a_size),
        cmocka_unit_test(whole_backwards),
        cmocka_unit_test(gradients_that_are_not_final_are_refused),
    };

    return cmocka_run_group_tests_name("gradients leave when they are final", tests, NULL, NULL);
}
