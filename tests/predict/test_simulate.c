/*
 * test_simulate.c: tests laws of simulated plans. With free links the first step takes the time of bg_schedule_simulate
 * for the same costs, under every strategy. On one shared core a step takes the sum of all work; with enough cores it
 * takes the time of separate devices. Latencies, domains and transfers take time. No test reads a clock.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>

#include "predict/prediction.h"
#include "support/train.h"

enum { MICRO_BATCHES = 6, STEPS = 3 };

static const double call_ns = 100.0;

/* Returns the price of a call. Prices of ops differ, so that stages differ. `user` is the plan. If updates have levels,
 * they are free, because a schedule assumes levels of equal length. */
static double price(const void *user, const bgi_call *call)
{
    const bg_plan *plan = user;

    if (plan->problem.update_level_count > 1 && call->traced_as == BG_ACTION_UPDATE)
        return 0.0;
    return call_ns + 10.0 * (double)strlen(call->name);
}

/* Returns a model with links and memories without delay. */
static bgi_device_model free_model(void)
{
    bgi_device_model model;

    bgi_device_model_static(&model);
    model.memory_bytes_per_ns = model.link.bytes_per_ns = model.network.bytes_per_ns = model.remote.bytes_per_ns = 1e30;
    return model;
}

static bg_options base_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = STEPS;
    return options;
}

static bg_plan *make_plan(unsigned model, const bg_options *options, const char *what)
{
    const bg_optimizer optimizer = bg_sgd(0.1);

    return test_train_plan(test_model_at(model), 4, &optimizer, options, what);
}

static bgi_simulation simulate(const bg_plan *plan, const bgi_device_model *model, uint32_t cores, const char *what)
{
    const bgi_simulation_setup setup = {
        .model = model, .call_ns = price, .user = plan, .cores = cores, .steps = STEPS, .wants_events = true};
    bgi_simulation out;
    bg_error error = {0};

    if (bgi_simulate(plan, &setup, &out, &error) != BG_OK)
        fail_msg("%s: %s", what, error.message);
    return out;
}

/* Simulates a process for each device: with one core each (`cores` 0), or with `cores` cores for all processes. */
static bgi_simulation simulate_ranks(const bg_plan *plan, const bgi_device_model *model, uint32_t cores,
                                     const char *what)
{
    const bgi_simulation_setup setup = {
        .model = model, .call_ns = price, .user = plan, .are_ranks = true, .rank_cores = cores, .steps = STEPS};
    bgi_simulation out;
    bg_error error = {0};

    if (bgi_simulate(plan, &setup, &out, &error) != BG_OK)
        fail_msg("%s: %s", what, error.message);
    return out;
}

static void expect_near(double found, double expected, const char *what)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected) + 1e-6))
        fail_msg("%s: %.17g, expected %.17g", what, found, expected);
}

/* Lets messages leave only at the end of their actions, as a schedule assumes. */
static void hold_messages(bg_plan *plan)
{
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            ((bgi_instruction *)(uintptr_t)&plan->devices[d].instructions[i])->after_calls = 0;
}

static double work_of(const bg_plan *plan, const bgi_instruction *instruction)
{
    double ns = 0.0;

    for (uint32_t c = 0; c < instruction->call_count; c++)
        if (!instruction->calls[c].is_transfer && !instruction->calls[c].is_collective)
            ns += price(plan, &instruction->calls[c]);
    return ns;
}

static double work_of_step(const bg_plan *plan)
{
    double ns = 0.0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            ns += work_of(plan, &plan->devices[d].instructions[i]);
    return ns;
}

/* Returns the makespan of the plan's schedule, with the costs of stages computed from the prices. */
static double scheduled_makespan(const bg_plan *plan, const char *what)
{
    bg_stage_cost *costs = calloc(plan->stage_count, sizeof *costs);
    bg_schedule_problem problem = plan->problem;
    bg_schedule_timing timing;
    bg_error error = {0};
    double makespan;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *in = &plan->devices[d].instructions[i];
            bg_stage_cost *cost = &costs[in->action.stage];
            if (in->action.kind == BG_ACTION_FORWARD)
                cost->forward_ns = work_of(plan, in);
            else if (in->action.kind == BG_ACTION_RECOMPUTE)
                cost->recompute_ns = work_of(plan, in);
            else if (in->action.kind == BG_ACTION_BACKWARD)
                cost->backward_ns = work_of(plan, in);
            else if (in->action.kind == BG_ACTION_WEIGHTS)
                cost->weights_ns = work_of(plan, in);
            else if (in->action.kind == BG_ACTION_UPDATE)
                cost->update_ns += work_of(plan, in);
        }
    problem.costs = costs;
    problem.bytes_per_ns = problem.remote_bytes_per_ns = 0.0;
    problem.stop = NULL;
    if (bg_schedule_simulate(plan->schedule, &problem, &timing, &error) != BG_OK)
        fail_msg("%s: %s", what, error.message);
    makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    free(costs);
    return makespan;
}

static const struct strategy_case {
    const char *name, *schedule;
    bg_strategy strategy;
    unsigned model;
} cases[] = {
    {"single", NULL, BG_STRATEGY_SINGLE, 0},
    {"sharded", NULL, BG_STRATEGY_SHARDED, 0},
    {"interleaved", "interleaved", BG_STRATEGY_PIPELINED, 0},
    {"grouped", "grouped", BG_STRATEGY_PIPELINED, 0},
    {"gpipe", "gpipe", BG_STRATEGY_PIPELINED, 0},
    {"zb-h1", "zb-h1", BG_STRATEGY_PIPELINED, 0},
    {"zb-h2", "zb-h2", BG_STRATEGY_PIPELINED, 3},
    {"sequential", "sequential", BG_STRATEGY_PIPELINED, 1},
    {"skips", "interleaved", BG_STRATEGY_PIPELINED, 3},
};

static void free_links_take_what_the_schedule_says(void **state)
{
    const bgi_device_model model = free_model();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_options options = base_options();
        bg_plan *plan;
        bgi_simulation found;
        double early;
        options.execution.strategy = cases[i].strategy;
        options.execution.schedule = cases[i].schedule;
        plan = make_plan(cases[i].model, &options, cases[i].name);
        found = simulate(plan, &model, 0, cases[i].name);
        early = found.first_step_ns;
        bgi_simulation_clear(&found);
        hold_messages(plan);
        found = simulate(plan, &model, 0, cases[i].name);
        expect_near(found.first_step_ns, scheduled_makespan(plan, cases[i].name), cases[i].name);
        assert_true(early <= found.first_step_ns * (1.0 + 1e-9));
        assert_true(found.step_ns <= found.first_step_ns * (1.0 + 1e-9));
        bgi_simulation_clear(&found);
        bg_plan_destroy(plan);
    }
}

static void times_sum_to_the_whole(void **state)
{
    const bgi_device_model model = free_model();
    bg_options options = base_options();
    bg_plan *plan;
    bgi_simulation found;

    (void)state;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    plan = make_plan(1, &options, "times");
    for (uint32_t cores = 0; cores <= 3; cores++) {
        found = simulate(plan, &model, cores, "times");
        for (uint32_t d = 0; d < plan->device_count; d++) {
            double sum = 0.0;
            for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
                sum += found.times[d][k];
            expect_near(sum, found.total_ns, "a device's times");
        }
        bgi_simulation_clear(&found);
    }
    bg_plan_destroy(plan);
}

static void one_core_takes_the_sum_and_many_take_what_devices_do(void **state)
{
    const bgi_device_model model = free_model();

    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        bg_options options = base_options();
        bg_plan *plan;
        bgi_simulation found, own;
        double work;
        options.execution.strategy = BG_STRATEGY_PIPELINED;
        options.replicas.count = replicas;
        plan = make_plan(0, &options, "cores");
        work = work_of_step(plan) * replicas;
        found = simulate(plan, &model, 1, "one core");
        expect_near(found.total_ns, STEPS * work, "one core");
        expect_near(found.core_busy_ns, STEPS * work, "one busy core");
        bgi_simulation_clear(&found);
        own = simulate(plan, &model, 0, "own");
        for (uint32_t cores = 2; cores <= 4; cores++) {
            found = simulate(plan, &model, cores, "cores");
            /* The time is between that of perfectly divided work and the time without help. */
            assert_true(found.total_ns >= STEPS * work / cores * (1.0 - 1e-9));
            assert_true(found.total_ns <= STEPS * work * (1.0 + 1e-9));
            bgi_simulation_clear(&found);
        }
        found = simulate(plan, &model, 64 * replicas, "many");
        assert_true(found.total_ns <= own.total_ns * (1.0 + 1e-9)); /* idle cores help */
        bgi_simulation_clear(&found);
        bgi_simulation_clear(&own);
        bg_plan_destroy(plan);
    }
}

/* A pipeline of one micro-batch crosses each boundary twice, and latencies add up according to the devices' domains. */
static void messages_take_their_links(void **state)
{
    bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation found;
    bg_plan *plan;
    double base;

    (void)state;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.gradient_accumulation = 1;
    plan = make_plan(0, &options, "links");
    hold_messages(plan);
    found = simulate(plan, &model, 0, "links");
    base = found.first_step_ns;
    bgi_simulation_clear(&found);
    model.link.latency_ns = 1000.0;
    model.network.latency_ns = 50000.0;
    found = simulate(plan, &model, 0, "links");
    expect_near(found.first_step_ns, base + 2.0 * 3 * 1000.0, "one domain");
    bgi_simulation_clear(&found);
    model.link_devices = 2; /* devices 0 1 | 2 3 */
    found = simulate(plan, &model, 0, "links");
    expect_near(found.first_step_ns, base + 2.0 * (2 * 1000.0 + 50000.0), "two domains");
    assert_true(found.times[2][BGI_TIME_LINKS] >= 50000.0);
    bgi_simulation_clear(&found);
    model.link.latency_ns = model.network.latency_ns = 0.0;
    model.network.bytes_per_ns = 1e-3;
    found = simulate(plan, &model, 0, "links");
    {
        double bytes = 0.0;
        for (uint32_t e = 0; e < plan->edge_count; e++)
            if (!plan->edges[e].per_step && (plan->edges[e].from_device < 2) != (plan->edges[e].to_device < 2))
                bytes += (double)plan->edges[e].payload_bytes;
        expect_near(found.first_step_ns, base + bytes / 1e-3, "bytes of the slow link");
    }
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
}

/* Phases load their values from streaming memory. If this memory is slow, it alone determines the time. */
static void transfers_take_streaming_memory(void **state)
{
    bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation fast, slow;
    bg_plan *plan;
    double bytes = 0.0;

    (void)state;
    options.execution.strategy = BG_STRATEGY_PHASED;
    plan = make_plan(0, &options, "phased");
    for (uint32_t t = 0; t < plan->devices[0].transfer_count; t++)
        bytes += (double)plan->devices[0].transfers[t].size_bytes;
    assert_true(bytes > 0.0);
    fast = simulate(plan, &model, 0, "fast");
    assert_true(fast.times[0][BGI_TIME_TRANSFERS] <= 1e-6 * fast.total_ns);
    model.remote.bytes_per_ns = 1e-6;
    slow = simulate(plan, &model, 0, "slow");
    expect_near(slow.step_ns / (bytes / 1e-6), 1.0, "a step of transfers");
    assert_true(slow.times[0][BGI_TIME_TRANSFERS] > 0.9 * slow.total_ns);
    bgi_simulation_clear(&fast);
    bgi_simulation_clear(&slow);
    /* On one core copying occupies that core too. */
    model.remote.bytes_per_ns = 1.0;
    slow = simulate(plan, &model, 1, "one core");
    expect_near(slow.core_busy_ns, STEPS * (work_of_step(plan) + bytes), "one core");
    bgi_simulation_clear(&slow);
    bg_plan_destroy(plan);
}

/* With two replicas and S bytes of gradients, each link carries S bytes. */
static void sums_take_their_links(void **state)
{
    bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation found;
    bg_plan *plan;
    double base, bytes = 0.0;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.replicas.count = 2;
    options.replicas.reduce_time = BG_REDUCE_IN_UPDATE;
    plan = make_plan(0, &options, "sums");
    for (uint32_t v = 0; v < plan->variable_count; v++)
        if (plan->variables[v].role == BG_ROLE_ACCUMULATOR)
            bytes += (double)bg_type_size_bytes(&plan->variables[v].type);
    found = simulate(plan, &model, 0, "sums");
    base = found.total_ns;
    bgi_simulation_clear(&found);
    model.link.bytes_per_ns = 1e-3;
    found = simulate(plan, &model, 0, "sums");
    expect_near(found.total_ns - base, STEPS * bytes / 1e-3, "sums");
    expect_near(found.times[0][BGI_TIME_COLLECTIVES], STEPS * bytes / 1e-3, "sums by class");
    bgi_simulation_clear(&found);
    model.link_devices = 1; /* now the replicas are in two domains with a free network */
    found = simulate(plan, &model, 0, "sums");
    expect_near(found.total_ns, base, "a free network");
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
}

static double received_bytes(const bg_plan *plan, uint32_t device)
{
    double bytes = 0.0;

    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from_device != plan->edges[e].to_device && plan->edges[e].to_device == device)
            bytes += (double)plan->edges[e].payload_bytes * (plan->edges[e].per_step ? 1 : plan->micro_batches);
    return bytes;
}

/* The core of a rank copies received data. If stages alternate, the copy takes the same time as the transfer over the
 * link. Otherwise it is additional work of the receiver. */
static void cores_of_ranks_copy_messages(void **state)
{
    bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation found;
    bg_plan *plan;
    double base, bytes = 0.0;

    (void)state;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.gradient_accumulation = 1;
    plan = make_plan(0, &options, "one micro-batch");
    hold_messages(plan);
    found = simulate(plan, &model, 0, "free");
    base = found.first_step_ns;
    bgi_simulation_clear(&found);
    found = simulate_ranks(plan, &model, 0, "free");
    expect_near(found.first_step_ns, base, "free links");
    bgi_simulation_clear(&found);
    model.link = (bgi_link_model){.latency_ns = 1000.0, .bytes_per_ns = 1e-3};
    /* Devices send counts for the update; only the message to device 0, which ends last, adds to the time. */
    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from_device != plan->edges[e].to_device &&
            (!plan->edges[e].per_step || plan->edges[e].to_device == 0))
            bytes += (double)plan->edges[e].payload_bytes;
    found = simulate_ranks(plan, &model, 0, "in turn");
    expect_near(found.first_step_ns, base + 2.0 * 3 * 1000.0 + bytes / 1e-3, "in turn");
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
    options.execution.gradient_accumulation = MICRO_BATCHES;
    plan = make_plan(0, &options, "many");
    found = simulate_ranks(plan, &model, 0, "many");
    for (uint32_t d = 0; d < plan->device_count; d++)
        expect_near(found.times[d][BGI_TIME_COPIES], STEPS * received_bytes(plan, d) / 1e-3, "the receiver's work");
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
}

/* A rank has no second thread for sums that run concurrently with its program. */
static void cores_of_ranks_do_sums(void **state)
{
    bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation own, ranks;
    bg_plan *plan;
    double bytes = 0.0;
    uint32_t beside = 0;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.replicas.count = 2;
    options.replicas.reduce_bytes = 64;
    plan = make_plan(0, &options, "sums");
    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++) {
        const bgi_instruction *instruction = &plan->devices[0].instructions[i];
        beside += instruction->is_beside;
        for (uint32_t k = 0; k < instruction->reduced_count; k++)
            bytes += (double)instruction->reduced[k].element_count *
                     (double)bg_dtype_size_bytes(instruction->reduced[k].dtype);
    }
    assert_true(beside > 0 && bytes > 0.0);
    model.link.bytes_per_ns = 1e-2;
    own = simulate(plan, &model, 0, "beside");
    ranks = simulate_ranks(plan, &model, 0, "in the program");
    assert_true(own.times[0][BGI_TIME_COLLECTIVES] < STEPS * bytes / 1e-2 * (1.0 - 1e-9));
    expect_near(ranks.times[0][BGI_TIME_COLLECTIVES], STEPS * bytes / 1e-2, "sums of a rank");
    bgi_simulation_clear(&own);
    bgi_simulation_clear(&ranks);
    bg_plan_destroy(plan);
}

static double work_in(const bgi_simulation *simulation, uint32_t device)
{
    double ns = 0.0;

    for (int k = BGI_TIME_FORWARD; k <= BGI_TIME_UPDATE; k++)
        ns += simulation->times[device][k];
    return ns;
}

static bgi_simulation simulate_setup(const bg_plan *plan, const bgi_simulation_setup *setup)
{
    bgi_simulation out;
    bg_error error = {0};

    if (bgi_simulate(plan, setup, &out, &error) != BG_OK)
        fail_msg("%s", error.message);
    return out;
}

/* Each device has the core with its number; replicas wait for the slowest core. */
static void ranks_take_the_times_of_their_cores(void **state)
{
    static const double ratios[] = {0.75, 1.5, 1.0, 2.0, 1.25, 1.0, 1.0, 1.0};
    const bgi_device_model model = free_model();

    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        bg_options options = base_options();
        bgi_simulation alike, found;
        bgi_simulation_setup setup;
        bg_plan *plan;
        options.execution.strategy = BG_STRATEGY_PIPELINED;
        options.replicas.count = replicas;
        plan = make_plan(0, &options, "cores");
        assert_true(plan->device_count == 4);
        setup =
            (bgi_simulation_setup){.model = &model, .call_ns = price, .user = plan, .are_ranks = true, .steps = STEPS};
        alike = simulate_setup(plan, &setup);
        setup.core_ratios = ratios;
        setup.core_ratio_count = 4 * replicas;
        found = simulate_setup(plan, &setup);
        for (uint32_t d = 0; d < 4; d++)
            expect_near(work_in(&found, d),
                        work_in(&alike, d) * (replicas == 1 ? ratios[d] : fmax(ratios[d], ratios[4 + d])), "a core");
        setup.are_ranks = false;
        bgi_simulation_clear(&found);
        found = simulate_setup(plan, &setup);
        expect_near(found.total_ns, alike.total_ns, "devices that are no ranks");
        bgi_simulation_clear(&found);
        bgi_simulation_clear(&alike);
        bg_plan_destroy(plan);
    }
}

typedef struct scaled_price {
    const bg_plan *plan;
    double factor;
} scaled_price;

static double price_scaled(const void *user, const bgi_call *call)
{
    const scaled_price *scaled = user;

    return scaled->factor * price(scaled->plan, call);
}

/* Returns the work of a step on a device, if calls that read messages take `factor` times their price. */
static double work_with_messages(const bg_plan *plan, uint32_t device, double factor)
{
    const bgi_plan_device *program = &plan->devices[device];
    double ns = 0.0;

    for (uint32_t i = 0; i < program->instruction_count; i++)
        for (uint32_t c = 0; c < program->instructions[i].call_count; c++) {
            const bgi_call *call = &program->instructions[i].calls[c];
            bool has_message = false;
            for (uint32_t k = 0; k < call->input_count; k++) {
                const uint32_t edge = call->operands[k].edge;
                has_message = has_message || (edge != BGI_NO_EDGE && plan->edges[edge].from_device != device &&
                                              plan->edges[edge].to_device == device);
            }
            ns += price(plan, call) * (has_message ? factor : 1.0);
        }
    return ns;
}

/* In a rank, calls that read messages have prices of their own. */
static void ranks_price_calls_on_messages(void **state)
{
    const bgi_device_model model = free_model();
    bg_options options = base_options();
    scaled_price plain = {.factor = 1.0}, of_messages = {.factor = 0.25};
    bgi_simulation_setup setup = {.model = &model,
                                  .call_ns = price_scaled,
                                  .user = &plain,
                                  .message_user = &of_messages,
                                  .are_ranks = true,
                                  .steps = STEPS};
    bgi_simulation found;
    bg_plan *plan;

    (void)state;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    plain.plan = of_messages.plan = plan = make_plan(0, &options, "messages");
    found = simulate_setup(plan, &setup);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const double expected = STEPS * work_with_messages(plan, d, 0.25);
        assert_true(expected < STEPS * work_with_messages(plan, d, 1.0));
        expect_near(work_in(&found, d), expected, "calls on messages");
    }
    bgi_simulation_clear(&found);
    setup.are_ranks = false;
    found = simulate_setup(plan, &setup);
    expect_near(work_in(&found, 0), STEPS * work_with_messages(plan, 0, 1.0), "devices that are no ranks");
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
}

/* On one core, ranks take the sum of what all of them compute; more cores than ranks change nothing. */
static void ranks_share_cores(void **state)
{
    const bgi_device_model model = free_model();

    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        bg_options options = base_options();
        bg_plan *plan;
        bgi_simulation found, own;
        double work;
        options.execution.strategy = replicas == 1 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE;
        options.replicas.count = replicas;
        plan = make_plan(0, &options, "ranks");
        work = work_of_step(plan) * replicas;
        found = simulate_ranks(plan, &model, 1, "one core");
        expect_near(found.total_ns, STEPS * work, "one core");
        bgi_simulation_clear(&found);
        own = simulate_ranks(plan, &model, 0, "own");
        found = simulate_ranks(plan, &model, plan->device_count * replicas, "a core each");
        expect_near(found.total_ns, own.total_ns, "a core each");
        bgi_simulation_clear(&found);
        found = simulate_ranks(plan, &model, 2, "two cores");
        assert_true(found.total_ns >= own.total_ns * (1.0 - 1e-9) && found.total_ns >= STEPS * work / 2 * (1.0 - 1e-9));
        assert_true(found.total_ns < STEPS * work * 0.9);
        bgi_simulation_clear(&found);
        bgi_simulation_clear(&own);
        bg_plan_destroy(plan);
    }
}

/* Returns the part of each call that the other core takes over. */
static double third_of_price(const void *user, const bgi_call *call)
{
    return price(user, call) / 3.0;
}

/* The given division counts for all calls, also for calls of one part, which are slower while other cores compute. */
static void idle_cores_speed_up_all_calls(void **state)
{
    const bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation_setup setup = {
        .model = &model, .call_ns = price, .divisible_ns = third_of_price, .cores = 2, .steps = STEPS};
    bgi_simulation found;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    setup.user = plan = make_plan(0, &options, "one device");
    if (bgi_simulate(plan, &setup, &found, &error) != BG_OK)
        fail_msg("one device: %s", error.message);
    expect_near(found.total_ns, STEPS * work_of_step(plan) * (1.0 - 1.0 / 3.0 / 2.0), "one device, two cores");
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
}

/* Strict plans run one action at a time, so the step is the sum of all. */
static void strict_plans_take_turns(void **state)
{
    const bgi_device_model model = free_model();
    bg_options options = base_options();
    bgi_simulation found;
    bg_plan *plan;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SHARDED;
    options.execution.strict = true;
    plan = make_plan(3, &options, "strict");
    found = simulate(plan, &model, 0, "strict");
    expect_near(found.total_ns, STEPS * work_of_step(plan), "strict");
    bgi_simulation_clear(&found);
    found = simulate(plan, &model, 3, "strict, cores");
    assert_true(found.total_ns <= STEPS * work_of_step(plan) * (1.0 + 1e-9));
    bgi_simulation_clear(&found);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_links_take_what_the_schedule_says),
        cmocka_unit_test(times_sum_to_the_whole),
        cmocka_unit_test(one_core_takes_the_sum_and_many_take_what_devices_do),
        cmocka_unit_test(messages_take_their_links),
        cmocka_unit_test(transfers_take_streaming_memory),
        cmocka_unit_test(sums_take_their_links),
        cmocka_unit_test(cores_of_ranks_copy_messages),
        cmocka_unit_test(cores_of_ranks_do_sums),
        cmocka_unit_test(ranks_take_the_times_of_their_cores),
        cmocka_unit_test(ranks_price_calls_on_messages),
        cmocka_unit_test(ranks_share_cores),
        cmocka_unit_test(idle_cores_speed_up_all_calls),
        cmocka_unit_test(strict_plans_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
