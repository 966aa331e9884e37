/*
 * test_runner.c: tests how a device runs one instruction: the state that kernels can read, and the calls that make one
 * trace event. With kernels that only sleep, a pipeline takes the time of its schedule.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <brigade/session.h>

#include "core/clock.h"
#include "support/toy_plan.h"

/* ---- one device, one instruction ---- */

enum { CALLS = 5, REMOTE_BYTES = 128 };

typedef struct single {
    bg_plan plan;
    bgi_plan_device device;
    bgi_instruction instruction;
    bgi_call calls[CALLS];
    bgi_operand operands[2];
    bg_type types[2];
} single;

static void init_single(single *s)
{
    memset(s, 0, sizeof *s);
    s->operands[0] = (bgi_operand){.edge = BGI_NO_EDGE, .offset = 64};
    s->operands[1] = (bgi_operand){.memory = BGI_MEMORY_REMOTE, .edge = BGI_NO_EDGE};
    s->types[0] = bg_vector(BG_FLOAT32, 4);
    s->types[1] = bg_vector(BG_FLOAT32, 4);
    for (int i = 0; i < CALLS; i++)
        s->calls[i] = (bgi_call){.name = "op",
                                 .block = "block",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .operands = s->operands,
                                 .types = s->types,
                                 .kernel = {.name = "kernel", .part_count = 1}};
    s->instruction.action = (bg_action){.kind = BG_ACTION_FORWARD};
    s->instruction.calls = s->calls;
    s->instruction.call_count = CALLS;
    s->device = (bgi_plan_device){
        .arena_bytes = 192, .remote_bytes = REMOTE_BYTES, .instruction_count = 1, .instructions = &s->instruction};
    s->plan.options = (bg_options){.execution.cores = 1,
                                   .execution.wait_limit_s = 20.0,
                                   .reporting.trace = true,
                                   .reporting.trace_events = 64,
                                   .numerics.seed = 99};
    s->plan.device_count = s->plan.replicas = s->plan.micro_batches = s->plan.iterations = 1;
    s->plan.input_group_size = 1;
    s->plan.devices = &s->device;
    s->plan.hyper_variable = UINT32_MAX;
}

static void do_nothing(const bg_kernel_call *call, uint32_t part)
{
    (void)call;
    (void)part;
}

static void calls_make_one_event_and_transfers_their_own(void **state)
{
    static const bgi_transfer transfers[] = {
        {.action = {.kind = BG_ACTION_LOAD}, .arena_offset = 64, .size_bytes = 16},
        {.action = {.kind = BG_ACTION_LOAD}, .arena_offset = 128, .size_bytes = 16},
        {.action = {.kind = BG_ACTION_STORE}, .arena_offset = 64, .size_bytes = 16}};
    static const uint32_t waits[CALLS] = {0, 0, 3 + 1, 3 + 2, 0};
    static const bg_action_kind expected[] = {BG_ACTION_FORWARD, BG_ACTION_LOAD, BG_ACTION_LOAD, BG_ACTION_STORE};
    bg_session *session = NULL;
    single s;

    (void)state;
    init_single(&s);
    s.operands[1].memory = BGI_MEMORY_ARENA;
    s.device.transfers = transfers;
    s.device.transfer_count = 3;
    s.instruction.call_waits = waits;
    for (int i = 0; i < CALLS; i++) {
        s.calls[i].kernel.run = do_nothing;
        s.calls[i].is_transfer = i < 2 || i == 4;
    }
    assert_int_equal(bg_session_create(&s.plan, NULL, &session, NULL), BG_OK);
    assert_int_equal(bg_session_run(session, NULL, NULL, NULL), BG_OK);
    assert_int_equal(bg_session_trace_count(session, 0, 0), 4);
    for (uint32_t i = 0; i < 4; i++) {
        bg_trace_event event;
        assert_int_equal(bg_session_trace_event(session, 0, 0, i, &event, NULL), BG_OK);
        assert_int_equal(event.action.kind, expected[i]);
    }
    assert_int_equal(bg_session_device_bytes(session, 0, 0), 192);
    bg_session_destroy(session);
}

/* What the kernels below observed. */
typedef struct witness {
    bg_kernel_env env[64];
    uint32_t env_count;
    uint32_t parts, prepared, prepared_before, combined, finished_after;
    bool is_sound;
} witness;

static void look(const bg_kernel_call *call, uint32_t part)
{
    witness *w = call->state;

    (void)part;
    w->env[w->env_count++] = *call->env;
    w->parts++;
    w->is_sound = w->is_sound && call->input_count == 1 && call->output_count == 1 &&
                  (uintptr_t)call->operands[0] % 64 == 0 && (uintptr_t)call->operands[1] % 64 == 0 &&
                  *(const uint32_t *)call->scratch == w->prepared && w->parts - w->prepared_before <= 3 &&
                  (uintptr_t)call->scratch % 64 == 0 && (char *)call->scratch - (char *)call->operands[0] == 64;
}

/* Stores a value in scratch, which every part can read. */
static void prepare(const bg_kernel_call *call)
{
    witness *w = call->state;

    w->prepared++;
    w->prepared_before = w->parts;
    *(uint32_t *)call->scratch = w->prepared;
}

/* Runs after the three parts of the call; its own two parts run in any order. */
static void combine(const bg_kernel_call *call, uint32_t part)
{
    witness *w = call->state;

    w->is_sound = w->is_sound && part < 2 && w->parts - w->prepared_before == 3;
    w->combined++;
}

static void finish(const bg_kernel_call *call)
{
    witness *w = call->state;

    w->is_sound = w->is_sound && w->combined == 2 * w->prepared;
    w->finished_after = w->parts;
}

static void kernels_see_operands_scratch_and_the_moment(void **state)
{
    static witness w;
    bgi_instruction instructions[2];
    bg_session *session = NULL;
    single s;

    (void)state;
    init_single(&s);
    s.plan.training = true;
    s.plan.micro_batches = 2;
    s.plan.iterations = 3;
    s.instruction.call_count = 1;
    s.calls[0].kernel = (bg_kernel){.name = "look",
                                    .prepare = prepare,
                                    .run = look,
                                    .combine = combine,
                                    .finish = finish,
                                    .part_count = 3,
                                    .combine_count = 2,
                                    .scratch_bytes = 64,
                                    .state = &w};
    s.calls[0].scratch_offset = 128;
    instructions[0] = instructions[1] = s.instruction;
    instructions[1].action.micro_batch = 1;
    s.device.instructions = instructions;
    s.device.instruction_count = 2;
    w = (witness){.is_sound = true};
    assert_int_equal(bg_session_create(&s.plan, NULL, &session, NULL), BG_OK);
    assert_int_equal(bg_session_set_step(session, 10, NULL), BG_OK);
    assert_int_equal(bg_session_run(session, NULL, NULL, NULL), BG_OK);
    assert_true(w.is_sound);
    assert_int_equal(w.parts, 3 * 2 * 3);
    assert_int_equal(w.prepared, 2 * 3);
    assert_int_equal(w.prepared_before, w.parts - 3);
    assert_int_equal(w.finished_after, w.parts);
    for (uint32_t i = 0; i < w.env_count; i++) {
        assert_int_equal(w.env[i].seed, 99);
        assert_int_equal(w.env[i].step, 10 + i / 6);
        assert_int_equal(w.env[i].micro_batch, i / 3 % 2);
        assert_int_equal(w.env[i].accumulated, i / 3 % 2);
        assert_true(w.env[i].training);
    }
    assert_int_equal(bg_session_device_bytes(session, 0, 0), 192);
    bg_session_destroy(session);
}

/* ---- time ---- */

/* Backward passes of the toy model sleep twice as long as forward passes, and do no other work. */
enum { FORWARD_US = 3000, BACKWARD_US = 6000 };

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void sleep_forward(const bg_kernel_call *call, uint32_t part)
{
    (void)call;
    (void)part;
    sleep_us(FORWARD_US);
}

static void sleep_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)call;
    (void)part;
    sleep_us(BACKWARD_US);
}

static double simulate_ns(const bg_plan *plan, const toy_options *options)
{
    bg_stage_cost costs[TOY_MOST_STAGES];
    bg_schedule_problem problem;
    bg_schedule_edge *edges = NULL;
    bg_schedule_timing timing;
    double makespan;

    problem = bg_schedule_problem_defaults();
    problem.stage_count = options->stage_count;
    problem.device_count = options->device_count;
    problem.stage_devices = plan->stage_devices;
    problem.micro_batch_count = options->micro_batches;
    for (uint32_t i = 0; i < options->stage_count; i++)
        costs[i] = (bg_stage_cost){.forward_ns = FORWARD_US * 1e3, .backward_ns = BACKWARD_US * 1e3};
    problem.costs = costs;
    assert_int_equal(bg_schedule_problem_chain(&problem, 384, &edges, NULL), BG_OK);
    assert_int_equal(bg_schedule_simulate(plan->schedule, &problem, &timing, NULL), BG_OK);
    makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    free(edges);
    return makespan;
}

/* Sleeping kernels overlap on any machine when every device has a worker. The fastest of several runs counts, because
 * others may be disturbed. */
static void a_pipeline_takes_as_long_as_its_schedule(void **state)
{
    static const char *const generators[] = {"interleaved", "grouped", "sharded"};

    (void)state;
    for (size_t g = 0; g < 3; g++) {
        toy_options options = toy_defaults();
        static float values[8 * TOY_WIDTH];
        const void *inputs[] = {values};
        void *outputs[] = {values};
        double best_ns = 1e18, wanted_ns;
        bg_session *session = NULL;
        bg_plan *plan;
        options.generator = generators[g];
        options.cores = 8;
        options.forward = sleep_forward;
        options.backward = sleep_backward;
        plan = toy_plan_create(&options);
        assert_non_null(plan);
        wanted_ns = simulate_ns(plan, &options);
        assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
        for (int run = 0; run < 40 && best_ns > 1.05 * wanted_ns;
             run++) { /* on a busy machine one run of many is undisturbed */
            const uint64_t begin_ns = bgi_clock_ns();
            double took_ns;
            assert_int_equal(bg_session_run(session, inputs, outputs, NULL), BG_OK);
            took_ns = (double)(bgi_clock_ns() - begin_ns);
            best_ns = took_ns < best_ns ? took_ns : best_ns;
        }
        if (best_ns < 0.999 * wanted_ns || best_ns > 1.15 * wanted_ns)
            fail_msg("%s: %.1f ms; the schedule takes %.1f ms", generators[g], best_ns * 1e-6, wanted_ns * 1e-6);
        bg_session_destroy(session);
        toy_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_make_one_event_and_transfers_their_own),
        cmocka_unit_test(kernels_see_operands_scratch_and_the_moment),
        cmocka_unit_test(a_pipeline_takes_as_long_as_its_schedule),
    };

    return cmocka_run_group_tests_name("runner", tests, NULL, NULL);
}
