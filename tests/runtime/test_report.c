/*
 * test_report.c: runs that are stuck end with the reason, and can be cleaned up.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <brigade/session.h>

#include "core/clock.h"
#include "runtime/engine.h"
#include "support/allocations.h"
#include "support/toy_plan.h"

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static toy_options impatient(void)
{
    toy_options options = toy_defaults();

    options.wait_limit_s = 0.3;
    return options;
}

/* Runs the plan once and returns the status. After a failure, the session is unusable and can be destroyed. */
static bg_status run_to_failure(const bg_plan *plan, const toy_options *options, bg_error *error)
{
    const size_t count = (size_t)options->micro_batches * options->iterations * options->replicas * TOY_WIDTH;
    float *input = calloc(count, sizeof *input), *output = calloc(count, sizeof *output);
    const void *inputs[] = {input};
    void *outputs[] = {output};
    bg_session *session = NULL;
    bg_error again = {0};
    bg_status status;

    assert_true(input != NULL && output != NULL);
    if (bg_session_create(plan, NULL, &session, error) != BG_OK)
        fail_msg("%s", error->message);
    status = bg_session_run(session, inputs, outputs, error);
    free(input);
    free(output);
    if (status != BG_OK) {
        assert_int_equal(bg_session_run(session, inputs, outputs, &again), BG_ERROR_INVALID);
        assert_non_null(strstr(again.message, "earlier run"));
    }
    bg_session_destroy(session);
    return status;
}

static void expect_text(const bg_error *error, const char *text)
{
    if (strstr(error->message, text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, error->message);
}

/* ---- damaged plans ---- */

static uint32_t find_forward_edge(const bg_plan *plan, uint32_t from_device)
{
    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from_device == from_device && plan->edges[e].to_device == from_device + 1)
            return e;
    return BGI_NO_EDGE;
}

/* Removes all SENDs of an edge, or the first one, from a device's program. */
static void damage_sends(bg_plan *plan, uint32_t device, uint32_t edge, bool all)
{
    bgi_instruction *instructions = toy_instructions(plan, device);

    for (uint32_t i = 0; i < plan->devices[device].instruction_count; i++) {
        if (instructions[i].action.kind != BG_ACTION_SEND || instructions[i].action.index != edge)
            continue;
        instructions[i].action.kind = BG_ACTION_HOST_OUT;
        instructions[i].copy_count = 0;
        if (!all)
            return;
    }
}

static void a_message_that_never_comes(void **state)
{
    (void)state;
    for (uint32_t cores = 1; cores <= 3; cores++) {
        toy_options options = impatient();
        bg_error error = {0};
        char expected[64];
        uint32_t edge;
        bg_plan *plan;
        options.inference = true;
        options.cores = cores;
        options.micro_batches = 1;
        plan = toy_plan_create(&options);
        assert_non_null(plan);
        edge = find_forward_edge(plan, 1);
        damage_sends(plan, 1, edge, true);
        assert_int_equal(run_to_failure(plan, &options, &error), BG_ERROR_TIMEOUT);
        expect_text(&error, "replica 0, device 2, RECEIVE");
        snprintf(expected, sizeof expected, "waits for a message on edge %u from device 1;", edge);
        expect_text(&error, expected);
        expect_text(&error, "1 other device is not done");
        toy_plan_destroy(plan);
    }
}

static void a_slot_that_is_never_free(void **state)
{
    toy_options options = impatient();
    bg_error error = {0};
    char expected[64];
    uint32_t edge;
    bg_plan *plan;

    (void)state;
    options.inference = true;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    edge = find_forward_edge(plan, 0);
    for (uint32_t i = 0; i < plan->devices[1].instruction_count; i++)
        toy_instructions(plan, 1)[i].release_count = 0;
    assert_int_equal(run_to_failure(plan, &options, &error), BG_ERROR_TIMEOUT);
    expect_text(&error, "replica 0, device 0, F of stage 0, micro-batch");
    snprintf(expected, sizeof expected, "waits for a free slot on edge %u to device 1", edge);
    expect_text(&error, expected);
    toy_plan_destroy(plan);
}

static void messages_out_of_order(void **state)
{
    toy_options options = impatient();
    bg_error error = {0};
    char expected[64];
    uint32_t edge;
    bg_plan *plan;

    (void)state;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    edge = find_forward_edge(plan, 1);
    damage_sends(plan, 1, edge, false);
    assert_int_equal(run_to_failure(plan, &options, &error), BG_ERROR_INTERNAL);
    snprintf(expected, sizeof expected, "edge %u: message 1 is sent where message 0 is due", edge);
    expect_text(&error, expected);
    expect_text(&error, "replica 0, device 1");
    toy_plan_destroy(plan);
}

/* The report names the replica for which two others wait at a reduction. An undamaged plan cannot get into this state,
 * because replicas run the same program, so the test calls the report directly. */
static void a_replica_that_does_not_come(void **state)
{
    toy_options options = impatient();
    bgi_engine *engine = NULL;
    bg_error error = {0};
    uint32_t reduce = 0;
    bg_plan *plan;

    (void)state;
    options.replicas = 3;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    assert_int_equal(bgi_engine_create(plan, &(bgi_engine_options){0}, &engine, NULL), BG_OK);
    while (plan->devices[0].instructions[reduce].action.kind != BG_ACTION_REDUCE)
        reduce++;
    for (uint32_t replica = 0; replica < 3; replica += 2) {
        bgi_runner *runner = &engine->runners[replica * plan->device_count];
        atomic_store(&runner->instruction, reduce);
        atomic_store(&runner->wait_target, 3);
        atomic_store(&runner->wait_counter,
                     engine->transport->type->meeting(
                         engine->transport, bgi_engine_group(engine, 0, BG_MESH_DATA, replica), replica, false));
    }
    assert_int_equal(bgi_report_stuck(engine, 1.5, &error), BG_ERROR_TIMEOUT);
    expect_text(&error, "replica 0, device 0, REDUCE of stage 0: waits for replica 1 at the gradient reduction");
    bgi_engine_destroy(engine);
    toy_plan_destroy(plan);
}

/* The report also names a replica that has not begun a sum that runs concurrently with the program, while two other
 * replicas wait for this sum. */
static void a_replica_that_does_not_come_to_a_sum_beside(void **state)
{
    toy_options options = impatient();
    bgi_engine *engine = NULL;
    bg_error error = {0};
    uint32_t update = 0;
    bg_plan *plan;

    (void)state;
    options.replicas = 3;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    assert_int_equal(bgi_engine_create(plan, &(bgi_engine_options){0}, &engine, NULL), BG_OK);
    while (plan->devices[0].instructions[update].action.kind != BG_ACTION_UPDATE)
        update++;
    for (uint32_t replica = 0; replica < 3; replica += 2) {
        bgi_runner *runner = &engine->runners[replica * plan->device_count];
        atomic_store(&runner->instruction, update);
        atomic_store(&runner->sum_counter,
                     engine->transport->type->meeting(
                         engine->transport, bgi_engine_group(engine, 0, BG_MESH_DATA, replica), replica, false));
        atomic_store(&runner->sum_target, 3);
        atomic_store(&runner->sums_begun.value, 1);
        atomic_store(&runner->wait_target, 1);
        atomic_store(&runner->wait_counter, &runner->sums_done);
    }
    assert_int_equal(bgi_report_stuck(engine, 1.5, &error), BG_ERROR_TIMEOUT);
    expect_text(&error, "replica 0, device 0, U of stage 0, level 0: waits for replica 1 at the gradient reduction");
    bgi_engine_destroy(engine);
    toy_plan_destroy(plan);
}

/* Prevents workers that search for work from using the queues. */
static void hold_queues(bgi_engine *engine)
{
    for (uint32_t i = 0; i < engine->device_count; i++)
        atomic_store(&engine->runners[i].io_is_held, true);
}

/* The report names a remote transfer that does not complete. Plans do not list transfers, so none can be damaged, and
 * the test calls the report directly. */
static void a_load_that_does_not_end(void **state)
{
    static const bgi_transfer transfers[2] = {{.peer_wait = 0}, {.peer_wait = 0}};
    toy_options options = impatient();
    bgi_engine *engine = NULL;
    bg_error error = {0};
    uint32_t forward = 0;
    bg_plan *plan;

    (void)state;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    assert_int_equal(bgi_engine_create(plan, &(bgi_engine_options){0}, &engine, NULL), BG_OK);
    while (plan->devices[0].instructions[forward].action.kind != BG_ACTION_FORWARD)
        forward++;
    hold_queues(engine);
    plan->devices[0].transfers = (bgi_transfer *)(uintptr_t)transfers;
    plan->devices[0].transfer_count = 2;
    atomic_store(&engine->runners[0].instruction, forward);
    atomic_store(&engine->runners[0].wait_target, 5);
    atomic_store(&engine->runners[0].wait_counter, &engine->runners[0].io_done);
    atomic_store(&engine->runners[0].io_issued.value, 6);
    atomic_store(&engine->runners[0].io_done.value, 3);
    assert_int_equal(bgi_report_stuck(engine, 1.5, &error), BG_ERROR_TIMEOUT);
    expect_text(&error, "replica 0, device 0, F of stage 0, micro-batch 0");
    expect_text(&error, "waits for load or store 5 of its queue, of which 3 are done; 0 other");
    bgi_engine_destroy(engine);
    plan->devices[0].transfers = NULL;
    plan->devices[0].transfer_count = 0;
    toy_plan_destroy(plan);
}

/* The report names a load of shards that waits for a replica that has not stored its shard. */
static void a_piece_that_does_not_come(void **state)
{
    static const bgi_transfer transfers[2] = {{.peer_wait = 0}, {.piece_axes = BG_MESH_DATA, .peer_wait = 3}};
    toy_options options = impatient();
    bgi_engine *engine = NULL;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    options.replicas = 3;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    plan->devices[0].piece_axes = BG_MESH_DATA;
    assert_int_equal(bgi_engine_create(plan, &(bgi_engine_options){0}, &engine, NULL), BG_OK);
    plan->devices[0].piece_axes = 0;
    hold_queues(engine);
    plan->devices[0].transfers = (bgi_transfer *)(uintptr_t)transfers;
    plan->devices[0].transfer_count = 2;
    for (uint32_t replica = 0; replica < 3; replica++) {
        bgi_runner *runner = &engine->runners[replica * plan->device_count];
        atomic_store(&runner->io_issued.value, 4);
        atomic_store(&runner->io_done.value, replica == 2 ? 0 : 3);
        atomic_store(&engine->runners[0].peer_done[replica], replica == 2 ? 0 : 3);
    }
    atomic_store(&engine->runners[0].wait_target, 4);
    atomic_store(&engine->runners[0].wait_counter, &engine->runners[0].io_done);
    assert_int_equal(bgi_report_stuck(engine, 1.5, &error), BG_ERROR_TIMEOUT);
    expect_text(&error, "waits for load or store 4 of its queue, of which 3 are done; the next one needs a piece of "
                        "replica 2");
    bgi_engine_destroy(engine);
    plan->devices[0].transfers = NULL;
    plan->devices[0].transfer_count = 0;
    toy_plan_destroy(plan);
}

static void an_operand_outside_its_memory(void **state)
{
    toy_options options = toy_defaults();
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    plan->devices[2].arena_bytes = 128;
    assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_ERROR_INTERNAL);
    expect_text(&error, "edge 1: 2 slots of 192 bytes at offset 0 pass the end of device 2's 128 bytes");
    toy_plan_destroy(plan);
}

/* ---- kernels that do not return ---- */

static atomic_bool gate_is_open;
static atomic_int inside;

static void wait_at_gate(const bg_kernel_call *call, uint32_t part)
{
    (void)call;
    (void)part;
    atomic_fetch_add(&inside, 1);
    while (!atomic_load(&gate_is_open))
        sleep_ms(1);
    atomic_fetch_sub(&inside, 1);
}

static void expect_kernel_report(toy_options *options)
{
    const int64_t live = test_allocations_live();
    bg_error error = {0};
    bg_plan *plan = toy_plan_create(options);
    uint64_t begin_ns;

    assert_non_null(plan);
    atomic_store(&gate_is_open, false);
    begin_ns = bgi_clock_ns();
    assert_int_equal(run_to_failure(plan, options, &error), BG_ERROR_TIMEOUT);
    assert_true(bgi_clock_ns() - begin_ns < 5000000000u);
    expect_text(&error, "replica 0, device 0, F of stage 0, micro-batch 0");
    expect_text(&error, "the kernel `toy.forward` of op `opF0` has not returned for 0.");
    /* The session is destroyed, but the kernel still runs, so the kernel's memory is kept. */
    assert_true(atomic_load(&inside) > 0);
    atomic_store(&gate_is_open, true);
    while (atomic_load(&inside) > 0)
        sleep_ms(1);
    toy_plan_destroy(plan);
    /* The worker frees this memory when the kernel returns. */
    for (int wait = 0; wait < 2000 && test_allocations_live() > live; wait++)
        sleep_ms(1);
    assert_int_equal(test_allocations_live(), live);
}

static void a_kernel_that_does_not_return(void **state)
{
    toy_options options = impatient();

    (void)state;
    options.forward = wait_at_gate;
    expect_kernel_report(&options);
}

static void parts_that_do_not_return(void **state)
{
    toy_options options = impatient();

    (void)state;
    options.forward = wait_at_gate;
    options.part_count = 6;
    options.cores = 4;
    expect_kernel_report(&options);
}

/* Sleeps; a run with this slow kernel is not reported as stuck, even on a busy machine. */
static void sleep_a_little(const bg_kernel_call *call, uint32_t part)
{
    (void)call;
    (void)part;
    sleep_ms(50);
}

static void slow_but_alive(void **state)
{
    toy_options options = impatient();
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    options.forward = sleep_a_little;
    options.inference = true;
    options.micro_batches = 4;
    options.cores = 1; /* 16 x 50 ms, more than the limit */
    options.wait_limit_s = 0.5;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    if (run_to_failure(plan, &options, &error) != BG_OK)
        fail_msg("%s", error.message);
    toy_plan_destroy(plan);
}

/* ---- out of memory ---- */

static void creation_survives_any_failed_allocation(void **state)
{
    toy_options options = toy_defaults();
    bg_session *session = NULL;
    bg_weights *weights = NULL;
    bg_plan *plan;
    uint32_t failures = 0;

    (void)state;
    if (!test_allocations_available())
        skip();
    options.trace = true;
    options.replicas = 2;
    options.cores = 3;
    plan = toy_plan_create(&options);
    assert_non_null(plan);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    for (uint64_t n = 1;; n++) {
        const int64_t live = test_allocations_live();
        bg_error error = {0};
        bg_status status;
        test_allocations_fail(n);
        status = bg_session_create(plan, weights, &session, &error);
        if (!test_allocations_have_failed()) {
            test_allocations_fail(0);
            assert_int_equal(status, BG_OK);
            break;
        }
        test_allocations_fail(0);
        if (status == BG_OK) {
            /* Only reading facts about the machine failed, which must not prevent the creation. */
            bg_session_destroy(session);
            bg_weights_destroy(weights);
            assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
            continue;
        }
        failures++;
        assert_int_equal(error.status, status);
        assert_true(error.message[0] != '\0');
        assert_int_equal(bg_weights_count(weights), 0);
        /* The table of weights keeps its capacity. */
        assert_in_range(test_allocations_live(), live, live + 1);
    }
    assert_true(failures > 20);
    bg_session_destroy(session);
    bg_weights_destroy(weights);
    toy_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_never_comes),
        cmocka_unit_test(a_slot_that_is_never_free),
        cmocka_unit_test(messages_out_of_order),
        cmocka_unit_test(a_replica_that_does_not_come),
        cmocka_unit_test(a_replica_that_does_not_come_to_a_sum_beside),
        cmocka_unit_test(a_load_that_does_not_end),
        cmocka_unit_test(a_piece_that_does_not_come),
        cmocka_unit_test(an_operand_outside_its_memory),
        cmocka_unit_test(a_kernel_that_does_not_return),
        cmocka_unit_test(parts_that_do_not_return),
        cmocka_unit_test(slow_but_alive),
        cmocka_unit_test(creation_survives_any_failed_allocation),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
