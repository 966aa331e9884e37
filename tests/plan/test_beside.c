/*
 * test_beside.c: which sums over replicas run concurrently with the program, and until which instruction. A plan in
 * which an earlier instruction touches such a sum is an error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/ops.h>
#include <brigade/plan.h>

#include "plan/plan.h"

enum { STAGES = 3, MICRO_BATCHES = 4, MATRIX = 16 * 16 * 4 };

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.replicas.count = 2;
    options.numerics.max_gradient_norm = 1.0;
    return options;
}

/* Compiles x [4, 16] -> A, B, C, each a linear layer. The loss is C's mean or, with `counts_labels`, the cross-entropy,
 * whose mean is over the labels that count. */
static bg_plan *make_plan_of(const bg_options *options, bool counts_labels)
{
    static const char *const blocks[] = {"A", "B", "C"}, *const names[] = {"wa", "wb", "wc"};
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, 16), w_type = bg_matrix(BG_FLOAT32, 16, 16);
    const bg_type label_type = bg_vector(BG_INT32, 4);
    const bg_optimizer optimizer = bg_adam(0.1);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &x_type);
    for (int i = 0; i < STAGES; i++) {
        bg_block_start(graph, blocks[i], BG_DEVICE_NONE);
        x = bg_linear(graph, NULL, x, bg_graph_parameter(graph, names[i], &w_type, NULL), (bg_value){0});
    }
    if (counts_labels)
        x = bg_cross_entropy(graph, "loss", x, bg_graph_input(graph, "labels", &label_type), BG_LOSS_MEAN, -100);
    else
        x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    if (bg_plan_create_training(graph, x, &optimizer, options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    assert_int_equal(bgi_plan_check(plan, &error), BG_OK);
    return plan;
}

static bg_plan *make_plan(const bg_options *options)
{
    return make_plan_of(options, false);
}

static bgi_instruction *instructions_of(const bg_plan *plan, uint32_t device)
{
    return (bgi_instruction *)(uintptr_t)plan->devices[device].instructions;
}

/* Finds the first instruction of the kind for the stage. */
static uint32_t find(const bg_plan *plan, uint32_t device, bg_action_kind kind, uint32_t stage)
{
    uint32_t i = 0;

    while (i < plan->devices[device].instruction_count && (plan->devices[device].instructions[i].action.kind != kind ||
                                                           plan->devices[device].instructions[i].action.stage != stage))
        i++;
    assert_true(i < plan->devices[device].instruction_count);
    return i;
}

static uint32_t count_beside(const bg_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            count += plan->devices[d].instructions[i].is_beside;
    return count;
}

/* Each layer's sum runs during all backward actions of the previous layer, until the next sum. The sum of the first
 * layer runs while the squares of the second layer are computed. This also holds if all other classes are remote, as
 * long as gradients stay on the device until the update. */
static void sums_go_on_beside_the_next_phase(void **state)
{
    (void)state;
    for (int remote = 0; remote < 2; remote++) {
        bg_options options = make_options();
        const bgi_instruction *list;
        bg_plan *plan;

        for (int k = 0; k < BG_LOCATION_COUNT; k++)
            options.memory.locations[k].place = remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        plan = make_plan(&options);
        list = plan->devices[0].instructions;
        assert_int_equal(count_beside(plan), STAGES);
        for (uint32_t stage = STAGES; stage-- > 0;) {
            const uint32_t sum = find(plan, 0, BG_ACTION_REDUCE, stage);
            uint32_t backwards = 0, squares = 0, end = sum + 1;

            assert_true(list[sum].is_beside);
            for (; !list[end].needs_sum; end++) {
                backwards += list[end].action.kind == BG_ACTION_BACKWARD && list[end].action.stage + 1 == stage;
                squares += list[end].action.kind == BG_ACTION_UPDATE && list[end].action.stage == stage + 1;
            }
            assert_int_equal(backwards, stage > 0 ? MICRO_BATCHES : 0);
            assert_int_equal(list[end].action.kind, stage > 0 ? BG_ACTION_REDUCE : BG_ACTION_UPDATE);
            assert_int_equal(list[end].action.stage, stage > 0 ? stage - 1 : 0);
            assert_int_equal(squares, stage + 1 < STAGES);
        }
        bg_plan_destroy(plan);
    }
}

/* On request, gradients that would otherwise leave the device after their phase stay for the next phase. This needs a
 * window for one more stage's gradients; each gradient is still stored once and loaded once for the update. The same
 * holds if the first level of the update does not use the gradients. */
static void gradients_stay_for_their_sum(void **state)
{
    (void)state;
    for (int counts_labels = 0; counts_labels < 2; counts_labels++) {
        bg_options options = make_options();
        bg_plan *plan, *tight;

        options.numerics.max_gradient_norm = counts_labels ? 0.0 : 1.0;
        options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
        tight = make_plan_of(&options, counts_labels != 0);
        assert_int_equal(count_beside(tight), 0);
        options.replicas.reduce_time = BG_REDUCE_BESIDE;
        plan = make_plan_of(&options, counts_labels != 0);
        for (uint32_t stage = STAGES; --stage > 0;) {
            const bgi_instruction *list = plan->devices[0].instructions;
            uint32_t at = find(plan, 0, BG_ACTION_REDUCE, stage), backwards = 0;

            assert_true(list[at].is_beside);
            for (at++; !list[at].needs_sum; at++)
                backwards += list[at].action.kind == BG_ACTION_BACKWARD && list[at].action.stage + 1 == stage;
            assert_int_equal(backwards, MICRO_BATCHES);
        }
        assert_int_equal(bg_plan_device_bytes(plan, 0), bg_plan_device_bytes(tight, 0) + MATRIX);
        for (int traffic = 0; traffic < BG_TRAFFIC_COUNT; traffic++)
            assert_int_equal(bg_plan_traffic_bytes(plan, 0, (bg_plan_traffic)traffic, BG_LOCATION_ACCUMULATORS),
                             bg_plan_traffic_bytes(tight, 0, (bg_plan_traffic)traffic, BG_LOCATION_ACCUMULATORS));
        assert_int_equal(bg_plan_memory_bytes(plan, 0, BG_MEMORY_REMOTE),
                         bg_plan_memory_bytes(tight, 0, BG_MEMORY_REMOTE));
        bg_plan_destroy(tight);
        bg_plan_destroy(plan);
    }
}

/* An update of one level, which needs the sum, moves to the next phase if no value has to stay on the device for it.
 */
static void updates_of_one_level(void **state)
{
    (void)state;
    for (int remote = 0; remote < 2; remote++) {
        bg_options options = make_options();
        bg_plan *plan;

        options.numerics.max_gradient_norm = 0.0;
        for (int k = 0; k < BG_LOCATION_COUNT; k++)
            options.memory.locations[k].place = remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        plan = make_plan(&options);
        assert_int_equal(count_beside(plan), remote ? 0 : STAGES);
        assert_true(remote == (find(plan, 0, BG_ACTION_UPDATE, 2) < find(plan, 0, BG_ACTION_BACKWARD, 1)));
        bg_plan_destroy(plan);
    }
}

/* If there is no other work, or no other work may run, the device waits in the sum. */
static void sums_that_are_waited_for(void **state)
{
    bg_options options[4];
    bg_plan *plan;

    (void)state;
    for (int i = 0; i < 4; i++)
        options[i] = make_options();
    options[0].memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE; /* gradients leave the device */
    options[1].replicas.reduce_time = BG_REDUCE_IN_UPDATE;
    options[2].execution.strategy = BG_STRATEGY_SHARDED;
    options[2].execution.stages = "A@0|B@1|C@0"; /* device 0 runs A's backward after C's sum */
    plan = make_plan(&options[2]);
    assert_true(count_beside(plan) > 0);
    bg_plan_destroy(plan);
    options[2].execution.strict = true;
    options[3].execution.strategy = BG_STRATEGY_SINGLE;
    for (int i = 0; i < 4; i++) {
        plan = make_plan(&options[i]);
        if (count_beside(plan) != 0)
            fail_msg("options %d: %u sums beside the program", i, count_beside(plan));
        for (uint32_t d = 0; d < plan->device_count; d++)
            for (uint32_t n = 0; n < plan->devices[d].instruction_count; n++)
                assert_false(plan->devices[d].instructions[n].needs_sum);
        bg_plan_destroy(plan);
    }
}

/* Sums also run concurrently in a pipeline whose devices have several stages. */
static void pipelines(void **state)
{
    bg_options options = make_options();
    bg_plan *plan;

    (void)state;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.schedule = "grouped";
    options.execution.stages = "A@0|B@1|C@0";
    plan = make_plan(&options);
    assert_true(instructions_of(plan, 0)[find(plan, 0, BG_ACTION_REDUCE, 2)].is_beside);
    bg_plan_destroy(plan);
}

/* ---- errors ---- */

static void expect_refusal(const bg_plan *plan)
{
    bg_error error = {0};

    assert_int_equal(bgi_plan_check(plan, &error), BG_ERROR_INTERNAL);
    if (strstr(error.message, "begins a sum that later instructions touch") == NULL)
        fail_msg("%s", error.message);
}

static void touching_a_sum_is_refused(void **state)
{
    const bg_options options = make_options();
    bg_plan *plan = make_plan(&options);
    bgi_instruction *list = instructions_of(plan, 0);
    const uint32_t sum = find(plan, 0, BG_ACTION_REDUCE, 2), backward = find(plan, 0, BG_ACTION_BACKWARD, 1);
    const size_t summed = list[sum].reduced[0].operand.offset;
    uint32_t end = sum, last = 0;

    (void)state;
    while (!list[end].needs_sum)
        end++;
    list[end].needs_sum = false;
    expect_refusal(plan);
    list[end].needs_sum = true;
    /* A call that runs during the sum has an operand in the summed memory. */
    for (uint32_t c = 0; c < list[backward].call_count; c++)
        for (uint32_t i = 0; i < list[backward].calls[c].input_count + list[backward].calls[c].output_count; i++) {
            bgi_operand *operand = (bgi_operand *)(uintptr_t)&list[backward].calls[c].operands[i];
            const bgi_operand before = *operand;

            *operand = (bgi_operand){.edge = BGI_NO_EDGE, .offset = summed};
            expect_refusal(plan);
            *operand = before;
        }
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
    /* A transfer that is issued during the sum touches the summed memory. */
    for (uint32_t i = 0; i <= sum; i++) {
        last += list[i].issues;
        for (uint32_t c = 0; c < list[i].call_count; c++)
            last += list[i].calls[c].is_transfer;
    }
    for (uint32_t i = sum + 1; i < end; i++)
        for (uint32_t n = 0; n < list[i].issues; n++, last++) {
            bgi_transfer *transfer = (bgi_transfer *)(uintptr_t)&plan->devices[0].transfers[last];
            const size_t before = transfer->arena_offset;

            transfer->arena_offset = summed;
            expect_refusal(plan);
            transfer->arena_offset = before;
        }
    assert_int_equal(bgi_plan_check(plan, NULL), BG_OK);
    list[backward].is_beside = true; /* no REDUCE */
    expect_refusal(plan);
    bg_plan_destroy(plan);
}

/* ---- what touches a sum ---- */

enum { SUMMED = 1024, ELEMENTS = 10, PADDED = 12, NOT_THERE = 9, SEVERAL = 5 };

/* A device program of two replicas, written by hand: REDUCE of 10 numbers in shards of 6, then two backward actions and
 * an update. */
typedef struct sketch {
    bg_plan plan;
    bgi_plan_device device;
    bgi_plan_edge edge;
    bgi_instruction list[4];
    bgi_reduced reduced;
    bgi_call calls[2];
    bgi_operand operands[2];
    bg_type types[2];
    bgi_copy copies[2];
    bgi_transfer transfers[4];
    bgi_collective_attributes collective;
} sketch;

static bgi_operand place(size_t offset)
{
    return (bgi_operand){.edge = BGI_NO_EDGE, .offset = offset};
}

static void draw(sketch *s)
{
    static const bg_action_kind kinds[] = {BG_ACTION_REDUCE, BG_ACTION_BACKWARD, BG_ACTION_BACKWARD, BG_ACTION_UPDATE};

    memset(s, 0, sizeof *s);
    s->plan.replicas = 2;
    s->plan.device_count = s->plan.edge_count = 1;
    s->plan.devices = &s->device;
    s->plan.edges = &s->edge;
    s->device.instructions = s->list;
    s->device.instruction_count = 4;
    s->device.transfers = s->transfers;
    s->device.transfer_count = 4;
    for (uint32_t i = 0; i < 4; i++)
        s->list[i].action.kind = kinds[i];
    s->reduced = (bgi_reduced){
        .operand = place(SUMMED), .dtype = BG_FLOAT32, .element_count = ELEMENTS, .piece_count = PADDED / 2};
    s->list[0].reduced = &s->reduced;
    s->list[0].reduced_count = 1;
    for (uint32_t i = 0; i < 2; i++) {
        s->types[i] = bg_vector(BG_FLOAT32, 1);
        s->operands[i] = place(0);
        s->calls[i] = (bgi_call){.input_count = 1, .output_count = 1, .operands = s->operands, .types = s->types};
    }
    s->list[1].calls = &s->calls[0];
    s->list[2].calls = &s->calls[1];
    s->list[1].call_count = s->list[2].call_count = 1;
}

/* Checks which instruction is the first that touches the sum; `expected` is its number, or NOT_THERE. */
static void expect_touch(const sketch *s, uint32_t transfers_before, uint32_t expected, const char *what)
{
    bgi_extent places[SEVERAL];
    bool has_work;
    const uint32_t found = bgi_find_first_touch(&s->plan, 0, 0, transfers_before, places, &has_work);

    if (found != (expected == NOT_THERE ? BGI_NO_INSTRUCTION : expected))
        fail_msg("%s: instruction %u, expected %u", what, found, expected);
    assert_int_equal(has_work, expected > 1); /* if backward actions run before that instruction */
}

/* An operand, an operand's row of slots, or a kernel's scratch touches the sum if they have one byte in common. */
static void memory_of_a_call_touches(void **state)
{
    static const struct {
        const char *what;
        bgi_operand operand;
        size_t scratch_bytes, scratch_offset;
        uint32_t edge_depth;
        int64_t piece_count;
        bool touches;
    } rows[] = {
        {"ends before", {0, BGI_NO_EDGE, SUMMED - 4, 0}, 0, 0, 0, 6, false},
        {"ends inside", {0, BGI_NO_EDGE, SUMMED - 3, 0}, 0, 0, 0, 6, true},
        {"the last number", {0, BGI_NO_EDGE, SUMMED + 4 * ELEMENTS - 1, 0}, 0, 0, 0, 0, true},
        {"behind all", {0, BGI_NO_EDGE, SUMMED + 4 * ELEMENTS, 0}, 0, 0, 0, 0, false},
        {"padding", {0, BGI_NO_EDGE, SUMMED + 4 * PADDED - 1, 0}, 0, 0, 0, 6, true},
        {"behind padding", {0, BGI_NO_EDGE, SUMMED + 4 * PADDED, 0}, 0, 0, 0, 6, false},
        {"elsewhere", {BGI_MEMORY_REMOTE, BGI_NO_EDGE, SUMMED, 0}, 0, 0, 0, 6, false},
        {"a piece of another replica", {0, BGI_NO_EDGE, 512, 509}, 0, 0, 0, 6, true},
        {"pieces before", {0, BGI_NO_EDGE, 512, 508}, 0, 0, 0, 6, false},
        {"the third slot", {0, 0, 512, 0}, 0, 0, 3, 6, true},
        {"two slots", {0, 0, 512, 0}, 0, 0, 2, 6, false},
        {"scratch", {0, BGI_NO_EDGE, 0, 0}, 64, SUMMED - 63, 0, 6, true},
        {"scratch before", {0, BGI_NO_EDGE, 0, 0}, 64, SUMMED - 64, 0, 6, false},
        {"no scratch", {0, BGI_NO_EDGE, 0, 0}, 0, SUMMED, 0, 6, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t operand = 0; operand < 2; operand++) {
            sketch s;
            draw(&s);
            s.calls[1].operands = &rows[i].operand;
            s.calls[1].input_count = operand == 0;
            s.calls[1].output_count = operand == 1;
            s.calls[1].kernel.scratch_bytes = rows[i].scratch_bytes;
            s.calls[1].scratch_offset = rows[i].scratch_offset;
            s.edge = (bgi_plan_edge){.depth = rows[i].edge_depth, .slot_bytes = 256};
            s.reduced.piece_count = rows[i].piece_count;
            expect_touch(&s, 0, rows[i].touches ? 2 : NOT_THERE, rows[i].what);
        }
}

/* Variables are found in any order of addresses, even if one is inside or adjacent to another. */
static void any_of_several_is_touched(void **state)
{
    static const struct {
        size_t offset;
        int64_t elements;
    } rows[SEVERAL] = {{768, 4}, {64, 20}, {96, 2}, {144, 1}, {512, 3}};
    bgi_reduced reduced[SEVERAL];
    bgi_operand operand = place(0);
    sketch s;

    (void)state;
    draw(&s);
    for (uint32_t i = 0; i < SEVERAL; i++)
        reduced[i] =
            (bgi_reduced){.operand = place(rows[i].offset), .dtype = BG_FLOAT32, .element_count = rows[i].elements};
    s.list[0].reduced = reduced;
    s.list[0].reduced_count = SEVERAL;
    s.calls[1].operands = &operand;
    s.calls[1].output_count = 0;
    for (operand.offset = 0; operand.offset < 1024; operand.offset++) {
        bool touches = false;
        for (uint32_t i = 0; i < SEVERAL; i++)
            touches |=
                operand.offset + 4 > rows[i].offset && operand.offset < rows[i].offset + 4 * (size_t)rows[i].elements;
        expect_touch(&s, 0, touches ? 2 : NOT_THERE, "one of several");
    }
}

/* Replicas take part in only one collective at a time. */
static void meetings_touch(void **state)
{
    sketch s;

    (void)state;
    draw(&s);
    s.calls[1].is_collective = true;
    s.calls[1].attributes = &s.collective;
    s.collective.axes = BG_MESH_DATA;
    expect_touch(&s, 0, 2, "a collective of the same replicas");
    s.collective.axes = BG_MESH_TENSOR_1;
    expect_touch(&s, 0, NOT_THERE, "a collective of others");
    draw(&s);
    s.list[3].action.kind = BG_ACTION_REDUCE;
    expect_touch(&s, 0, 3, "the next sum");
    s.list[3].action.kind = BG_ACTION_GATHER;
    expect_touch(&s, 0, 3, "new weights");
    s.list[1].action.kind = BG_ACTION_REDUCE;
    expect_touch(&s, 0, 1, "a sum right behind it");
}

/* Transfers are assigned to instructions by their numbers: first those before the sum, then those of each instruction.
 */
static void transfers_touch(void **state)
{
    for (uint32_t at = 0; at < 4; at++) {
        sketch s;

        draw(&s);
        for (uint32_t i = 0; i < 4; i++)
            s.transfers[i] = (bgi_transfer){.arena_offset = i == at ? SUMMED - 7 : 0, .size_bytes = 8};
        s.calls[0].is_transfer = true;
        s.list[2].issues = 1;
        s.list[3].issues = 1;
        expect_touch(&s, 1, at == 0 ? NOT_THERE : at, "a transfer");
        s.transfers[at].size_bytes = 7;
        expect_touch(&s, 1, NOT_THERE, "a transfer before it");
    }
    (void)state;
}

/* Micro-batches share their calls, which are checked once; values that the micro-batches copy separately are checked
 * too. */
static void copies_touch(void **state)
{
    sketch s;

    (void)state;
    draw(&s);
    s.list[2].calls = s.list[1].calls;
    s.list[1].copies = &s.copies[0];
    s.list[2].copies = &s.copies[1];
    s.list[1].copy_count = s.list[2].copy_count = 1;
    s.copies[0] = (bgi_copy){.operand = place(SUMMED - 8), .size_bytes = 8};
    s.copies[1] = (bgi_copy){.operand = place(SUMMED - 8), .size_bytes = 9};
    expect_touch(&s, 0, 2, "the second backward's copy");
    s.copies[1].size_bytes = 8;
    expect_touch(&s, 0, NOT_THERE, "copies before it");
    s.copies[0].size_bytes = 9;
    expect_touch(&s, 0, 1, "the first backward's copy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_go_on_beside_the_next_phase),
        cmocka_unit_test(gradients_stay_for_their_sum),
        cmocka_unit_test(updates_of_one_level),
        cmocka_unit_test(sums_that_are_waited_for),
        cmocka_unit_test(pipelines),
        cmocka_unit_test(touching_a_sum_is_refused),
        cmocka_unit_test(memory_of_a_call_touches),
        cmocka_unit_test(any_of_several_is_touched),
        cmocka_unit_test(meetings_touch),
        cmocka_unit_test(transfers_touch),
        cmocka_unit_test(copies_touch),
    };

    return cmocka_run_group_tests_name("sums beside the program", tests, NULL, NULL);
}
