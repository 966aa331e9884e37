/*
 * test_engine.c: any number of workers gives the same bits as plain loops.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/session.h>

#include "core/clock.h"
#include "support/allocations.h"
#include "support/toy_plan.h"

enum { RUNS = 3 };

/* All results of a session in some runs, and the results of the plain loops. */
typedef struct outcome {
    float *inputs, *outputs, *expected;
    float weights[TOY_MOST_STAGES * TOY_WIDTH], expected_weights[TOY_MOST_STAGES * TOY_WIDTH];
    size_t place_count; /* micro-batches of a run */
} outcome;

static void init_outcome(outcome *result, const toy_options *options)
{
    result->place_count = (size_t)options->iterations * options->micro_batches * options->replicas;
    result->inputs = calloc(result->place_count * TOY_WIDTH, sizeof(float));
    result->outputs = calloc(result->place_count * TOY_WIDTH, sizeof(float));
    result->expected = calloc(result->place_count * TOY_WIDTH, sizeof(float));
    assert_true(result->inputs != NULL && result->outputs != NULL && result->expected != NULL);
    for (size_t i = 0; i < result->place_count * TOY_WIDTH; i++)
        result->inputs[i] = toy_input(i / TOY_WIDTH, (uint32_t)(i % TOY_WIDTH));
}

static void clear_outcome(outcome *result)
{
    free(result->inputs);
    free(result->outputs);
    free(result->expected);
}

static void set_weights(bg_weights *weights, const toy_options *options, float *values)
{
    const bg_type type = bg_vector(BG_FLOAT32, TOY_WIDTH);

    for (uint32_t s = 0; s < options->stage_count; s++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", s);
        for (uint32_t i = 0; i < TOY_WIDTH; i++)
            values[s * TOY_WIDTH + i] = toy_first_weight(s, i);
        assert_int_equal(bg_weights_set(weights, name, &type, &values[s * TOY_WIDTH], NULL), BG_OK);
    }
}

static void get_weights(bg_weights *weights, const toy_options *options, float *values)
{
    for (uint32_t s = 0; s < options->stage_count; s++) {
        char name[16];
        bg_weight weight;
        snprintf(name, sizeof name, "w%u", s);
        assert_int_equal(bg_weights_find(weights, name, &weight, NULL), BG_OK);
        memcpy(&values[s * TOY_WIDTH], weight.data, TOY_WIDTH * sizeof(float));
    }
}

static void expect_same_as_loops(const toy_options *options)
{
    bg_plan *plan = toy_plan_create(options);
    bg_session *session = NULL;
    bg_error error = {0};
    outcome result;

    assert_non_null(plan);
    init_outcome(&result, options);
    if (bg_session_create(plan, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    set_weights(bg_session_weights(session), options, result.expected_weights);
    for (uint32_t run = 0; run < RUNS; run++) {
        const void *inputs[] = {result.inputs};
        void *outputs[] = {result.outputs};
        toy_compute(options, (uint64_t)run * options->iterations, result.expected_weights, result.expected);
        memset(result.outputs, 0xff, result.place_count * TOY_WIDTH * sizeof(float));
        if (bg_session_run(session, inputs, outputs, &error) != BG_OK)
            fail_msg("%s", error.message);
        assert_memory_equal(result.outputs, result.expected, result.place_count * TOY_WIDTH * sizeof(float));
    }
    get_weights(bg_session_weights(session), options, result.weights);
    assert_memory_equal(result.weights, result.expected_weights, options->stage_count * TOY_WIDTH * sizeof(float));
    assert_int_equal(bg_session_step(session), options->inference ? 0 : RUNS * options->iterations);
    bg_session_destroy(session);
    toy_plan_destroy(plan);
    clear_outcome(&result);
}

/* ---- strategies, workers, replicas ---- */

static void every_generator_on_any_number_of_workers(void **state)
{
    static const char *const generators[] = {"single", "sharded", "sequential", "grouped", "interleaved"};
    static const uint32_t cores[] = {1, 2, 3, 8};

    (void)state;
    for (size_t g = 0; g < sizeof generators / sizeof generators[0]; g++)
        for (size_t c = 0; c < sizeof cores / sizeof cores[0]; c++)
            for (uint32_t replicas = 1; replicas <= 3; replicas++) {
                toy_options options = toy_defaults();
                options.generator = generators[g];
                options.device_count = g == 0 ? 1 : 4;
                options.cores = cores[c];
                options.replicas = replicas;
                options.iterations = 1 + (replicas + (uint32_t)c) % 3;
                options.copies_sends = (c + replicas) % 2 == 0;
                options.part_count = c % 2 == 0 ? 1 : 6;
                expect_same_as_loops(&options);
            }
}

/* Shards of 48 elements have 10, 10, 10, 10 and 8 elements over 5 replicas; over 7 replicas the last shard has 6. */
static void replicas_that_update_pieces(void **state)
{
    static const char *const generators[] = {"single", "sharded", "sequential", "grouped", "interleaved"};

    (void)state;
    for (size_t g = 0; g < sizeof generators / sizeof generators[0]; g++)
        for (uint32_t replicas = 1; replicas <= 7; replicas++) {
            toy_options options = toy_defaults();
            options.generator = generators[g];
            options.device_count = g == 0 ? 1 : 4;
            options.cores = 1 + (replicas + (uint32_t)g) % 4;
            options.replicas = replicas;
            options.updates_pieces = true;
            options.reduces_whole = (g + replicas) % 3 == 0;
            options.iterations = 3;
            expect_same_as_loops(&options);
        }
}

static void every_number_of_devices(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 4; devices++)
        for (uint32_t stages = devices; stages <= 6; stages += 2) {
            toy_options options = toy_defaults();
            options.generator = devices == 1 ? "single" : stages > devices ? "sharded" : "interleaved";
            options.device_count = devices;
            options.stage_count = stages;
            expect_same_as_loops(&options);
        }
}

static void inference(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 3; replicas++) {
        toy_options options = toy_defaults();
        options.inference = true;
        options.replicas = replicas;
        options.micro_batches = 11;
        expect_same_as_loops(&options);
    }
}

static void as_many_workers_as_there_are_cores(void **state)
{
    toy_options options = toy_defaults();

    (void)state;
    options.cores = 0;
    options.part_count = 48;
    expect_same_as_loops(&options);
}

/* ---- messages that leave early ---- */

/* In the last stage's backward action, the calls after a message wait until the previous stage has processed the
 * message. */
typedef struct behind {
    _Atomic uint32_t done_before; /* backward actions of the previous stage */
    uint32_t waited_for;
    bool is_late;
} behind;

static void wait_behind(const bg_kernel_call *call, uint32_t part)
{
    const uint64_t begin_ns = bgi_clock_ns(), limit_ns = 5000000000;
    behind *b = call->state;

    (void)part;
    b->waited_for++;
    while (atomic_load(&b->done_before) < b->waited_for && !b->is_late) {
        b->is_late = bgi_clock_ns() - begin_ns > limit_ns;
        sched_yield();
    }
}

static void tell_behind(const bg_kernel_call *call, uint32_t part)
{
    behind *b = call->state;

    (void)part;
    atomic_fetch_add(&b->done_before, 1);
}

/* Adds a call to every backward action of the device; the action's message does not wait for this call. */
static void add_call(bg_plan *plan, uint32_t device, bg_kernel_function run, behind *b, bgi_call calls[2])
{
    bgi_instruction *instructions = toy_instructions(plan, device);

    for (uint32_t i = 0; i < plan->devices[device].instruction_count; i++) {
        if (instructions[i].action.kind != BG_ACTION_BACKWARD)
            continue;
        assert_int_equal(instructions[i].call_count, 1);
        calls[0] = instructions[i].calls[0];
        calls[1] = (bgi_call){.name = "behind", .kernel = {.name = "behind", .run = run, .part_count = 1, .state = b}};
        instructions[i].calls = calls;
        instructions[i].call_count = 2;
        if (instructions[i + 1].action.kind == BG_ACTION_SEND)
            instructions[i + 1].after_calls = 1;
    }
}

/* Checks in the trace that each message is sent, and begins to arrive, before the backward action that made it ends. */
static void expect_early_in_trace(const bg_session *session)
{
    const uint32_t count = bg_session_trace_count(session, 0, 1);
    uint32_t sends = 0;

    for (uint32_t i = 0; i + 1 < count; i++) {
        bg_trace_event backward, send, receive;
        assert_int_equal(bg_session_trace_event(session, 0, 1, i, &backward, NULL), BG_OK);
        assert_int_equal(bg_session_trace_event(session, 0, 1, i + 1, &send, NULL), BG_OK);
        if (backward.action.kind != BG_ACTION_BACKWARD)
            continue;
        assert_int_equal(send.action.kind, BG_ACTION_SEND);
        assert_true(backward.start_ns <= send.start_ns && send.end_ns <= backward.end_ns);
        for (uint32_t k = 0; k < bg_session_trace_count(session, 0, 0); k++) {
            assert_int_equal(bg_session_trace_event(session, 0, 0, k, &receive, NULL), BG_OK);
            if (receive.action.kind == BG_ACTION_RECEIVE && receive.action.index == send.action.index &&
                receive.action.micro_batch == send.action.micro_batch && receive.step == send.step) {
                assert_true(send.start_ns <= receive.start_ns && receive.start_ns <= backward.end_ns);
                sends++;
            }
        }
    }
    assert_true(sends > 0);
}

static void a_message_leaves_before_what_is_behind_it(void **state)
{
    toy_options options = toy_defaults();
    bg_session *session = NULL;
    bgi_call calls[2][2];
    behind b = {.is_late = false};
    outcome result;
    bg_plan *plan;

    (void)state;
    options.stage_count = options.device_count = 2;
    options.cores = 2;
    options.micro_batches = 3;
    options.iterations = 2;
    options.trace = true;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    add_call(plan, 0, tell_behind, &b, calls[0]);
    add_call(plan, 1, wait_behind, &b, calls[1]);
    init_outcome(&result, &options);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    set_weights(bg_session_weights(session), &options, result.expected_weights);
    toy_compute(&options, 0, result.expected_weights, result.expected);
    assert_int_equal(
        bg_session_run(session, (const void *const[]){result.inputs}, (void *const[]){result.outputs}, NULL), BG_OK);
    assert_false(b.is_late);
    assert_int_equal(b.waited_for, options.micro_batches * options.iterations);
    assert_memory_equal(result.outputs, result.expected, result.place_count * TOY_WIDTH * sizeof(float));
    get_weights(bg_session_weights(session), &options, result.weights);
    assert_memory_equal(result.weights, result.expected_weights, 2 * TOY_WIDTH * sizeof(float));
    expect_early_in_trace(session);
    bg_session_destroy(session);
    toy_plan_destroy(plan);
    clear_outcome(&result);
}

static void slots_of_depth_one(void **state)
{
    toy_options options = toy_defaults();
    bg_plan *plan;

    (void)state;
    options.generator = "sharded";
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    for (uint32_t e = 0; e < plan->edge_count; e++)
        assert_in_range(plan->edges[e].depth, 1, 2);
    toy_plan_destroy(plan);
    for (uint32_t cores = 1; cores <= 4; cores++) {
        options.cores = cores;
        expect_same_as_loops(&options);
    }
}

/* ---- helping ---- */

/* Computes one element; the parts take very different times. */
static void uneven_part(const bg_kernel_call *call, uint32_t part)
{
    const float *x = call->operands[0], *w = call->operands[1];
    float *y = call->operands[2];
    const uint32_t i = part;
    volatile uint32_t spin = (part * 37 % 11) * 200;

    while (spin > 0)
        spin--;
    if (call->output_count > 1) {
        float *stash = call->operands[3];
        stash[i] = x[i];
    }
    y[i] = x[i] * w[i] + (float)part;
}

static void uneven_parts_with_helpers(void **state)
{
    toy_options options = toy_defaults();
    bg_error error = {0};
    float first[8 * TOY_WIDTH];

    (void)state;
    options.inference = true;
    options.generator = "sharded";
    options.part_count = TOY_WIDTH;
    options.forward = uneven_part;
    for (uint32_t cores = 1; cores <= 6; cores++) {
        bg_session *session = NULL;
        bg_plan *plan;
        outcome result;
        options.cores = cores;
        plan = toy_plan_create(&options);
        assert_non_null(plan);
        init_outcome(&result, &options);
        if (bg_session_create(plan, NULL, &session, &error) != BG_OK)
            fail_msg("%s", error.message);
        for (uint32_t run = 0; run < 20; run++) {
            const void *inputs[] = {result.inputs};
            void *outputs[] = {result.outputs};
            if (bg_session_run(session, inputs, outputs, &error) != BG_OK)
                fail_msg("%s", error.message);
            if (cores == 1 && run == 0)
                memcpy(first, result.outputs, sizeof first);
            assert_memory_equal(first, result.outputs, sizeof first);
        }
        bg_session_destroy(session);
        toy_plan_destroy(plan);
        clear_outcome(&result);
    }
}

/* ---- waking up ---- */

/* Kernels long enough that workers sometimes fall asleep between them. A lost wake-up would end a run by its
 * time limit, which is far above the time of a run. */
static void no_wake_up_is_lost(void **state)
{
    const uint32_t run_count = getenv("BRIGADE_TEST_ALL") != NULL ? 20000 : 400;
    toy_options options = toy_defaults();
    bg_error error = {0};

    (void)state;
    options.inference = true;
    options.part_count = TOY_WIDTH;
    options.forward = uneven_part;
    options.micro_batches = 2;
    for (uint32_t cores = 2; cores <= 5; cores++) {
        bg_session *session = NULL;
        bg_plan *plan;
        outcome result;
        options.cores = cores;
        options.replicas = 1 + cores % 2;
        plan = toy_plan_create(&options);
        assert_non_null(plan);
        init_outcome(&result, &options);
        assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
        for (uint32_t run = 0; run < run_count; run++) {
            const void *inputs[] = {result.inputs};
            void *outputs[] = {result.outputs};
            if (bg_session_run(session, inputs, outputs, &error) != BG_OK)
                fail_msg("%u cores, run %u: %s", cores, run, error.message);
        }
        bg_session_destroy(session);
        toy_plan_destroy(plan);
        clear_outcome(&result);
    }
}

/* ---- the cost of a run ---- */

static void a_run_allocates_nothing(void **state)
{
    toy_options options = toy_defaults();
    bg_session *session = NULL;
    uint64_t before;
    bg_plan *plan;
    outcome result;

    (void)state;
    if (!test_allocations_available())
        skip();
    options.replicas = 2;
    options.updates_pieces = true;
    options.part_count = 6;
    options.trace = true;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    init_outcome(&result, &options);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    before = test_allocations_count();
    for (uint32_t run = 0; run < RUNS; run++) {
        const void *inputs[] = {result.inputs};
        void *outputs[] = {result.outputs};
        assert_int_equal(bg_session_run(session, inputs, outputs, NULL), BG_OK);
    }
    assert_int_equal(test_allocations_count() - before, 0);
    bg_session_destroy(session);
    toy_plan_destroy(plan);
    clear_outcome(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_generator_on_any_number_of_workers),
        cmocka_unit_test(replicas_that_update_pieces),
        cmocka_unit_test(every_number_of_devices),
        cmocka_unit_test(inference),
        cmocka_unit_test(as_many_workers_as_there_are_cores),
        cmocka_unit_test(a_message_leaves_before_what_is_behind_it),
        cmocka_unit_test(slots_of_depth_one),
        cmocka_unit_test(uneven_parts_with_helpers),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_run_allocates_nothing),
    };

    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
