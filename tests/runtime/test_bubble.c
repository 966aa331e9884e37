/*
 * test_bubble.c: measured idle time equals simulated idle time. Kernels sleep for a known time and need no processor,
 * so a pipeline of 8 or 16 devices takes the same time on any machine.
 *
 *     y = x + w, then sleep     dx: sleep, dx = dy     dw: sleep, dw = sum of dy
 *
 * dx is B and dw is W; they are one action, or two with the strategies that fill idle time with W. The simulator models
 * actions, not their calls: for B and W as one action it assumes that the message waits for the end of both. The real
 * message leaves earlier, so less time is idle than simulated.
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
#include <time.h>

#include <brigade/ops.h>
#include <brigade/session.h>

#include "core/clock.h"
#include "plan/plan.h"

enum { WIDTH = 4, MOST_STAGES = 16 };

/*
 * The nanoseconds that a nap of nominally 1 ms takes. Under the thread sanitizer the engine's work between two naps
 * takes several times as long and would count as idle time, so naps are longer too.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLOWED_BY_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(SLOWED_BY_SANITIZER)
#define MS 4e6
#else
#define MS 1e6
#endif

typedef struct nap_attributes {
    double forward_ns, backward_ns, weights_ns;
} nap_attributes;

/* ---- an op that sleeps ---- */

/* Sleeps until `ns` nanoseconds after `start_ns`, so that the kernel's other work does not lengthen the nap. */
static void sleep_from(uint64_t start_ns, double ns)
{
    const uint64_t end_ns = start_ns + (uint64_t)ns;
    uint64_t now_ns;

    while ((now_ns = bgi_clock_ns()) < end_ns) {
        const uint64_t left_ns = end_ns - now_ns;

        nanosleep(&(struct timespec){.tv_sec = (time_t)(left_ns / 1000000000), .tv_nsec = (long)(left_ns % 1000000000)},
                  NULL);
    }
}

static void run_nap(const bg_kernel_call *call, uint32_t part)
{
    const nap_attributes *nap = call->attributes;
    const uint64_t start_ns = bgi_clock_ns();
    const float *x = call->operands[0], *w = call->operands[1];
    float *y = call->operands[2];

    (void)part;
    for (int i = 0; i < WIDTH; i++)
        y[i] = x[i] + w[i];
    sleep_from(start_ns, nap->forward_ns);
}

static void run_nap_input(const bg_kernel_call *call, uint32_t part)
{
    const nap_attributes *nap = call->attributes;
    const uint64_t start_ns = bgi_clock_ns();

    (void)part;
    memcpy(call->operands[1], call->operands[0], WIDTH * sizeof(float));
    sleep_from(start_ns, nap->backward_ns);
}

static void run_nap_weights(const bg_kernel_call *call, uint32_t part)
{
    const nap_attributes *nap = call->attributes;
    const uint64_t start_ns = bgi_clock_ns();

    (void)part;
    memcpy(call->operands[1], call->operands[0], WIDTH * sizeof(float));
    sleep_from(start_ns, nap->weights_ns);
}

static bg_status infer_same(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

/* Returns the type of the parameter's gradient, which has the shape of a row. */
static bg_status infer_row(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)op, (void)error;
    outputs[0] = bg_vector(BG_FLOAT32, WIDTH);
    return BG_OK;
}

#define DEFINE_CHOICE(label)                                                                                           \
    static bg_status choose_##label(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out,                \
                                    bg_error *error)                                                                   \
    {                                                                                                                  \
        (void)op, (void)policy, (void)error;                                                                           \
        *out = (bg_kernel){.name = #label, .run = run_##label, .part_count = 1};                                       \
        return BG_OK;                                                                                                  \
    }

DEFINE_CHOICE(nap)
DEFINE_CHOICE(nap_input)
DEFINE_CHOICE(nap_weights)

static const bg_op_type nap_input = {BG_OP_TYPE_DEFAULTS, .name = "nap_input",
                                     .minimum_inputs = 1, .maximum_inputs = 1,
                                     .output_count = 1,   .attributes_bytes = sizeof(nap_attributes),
                                     .infer = infer_same, .kernel = choose_nap_input};

static const bg_op_type nap_weights = {BG_OP_TYPE_DEFAULTS, .name = "nap_weights",
                                       .minimum_inputs = 1, .maximum_inputs = 1,
                                       .output_count = 1,   .attributes_bytes = sizeof(nap_attributes),
                                       .infer = infer_row,  .kernel = choose_nap_weights};

static bg_status differentiate_nap(bg_op_gradient *g, bg_error *error)
{
    (void)error;
    if (g->needs[0])
        g->input_gradients[0] =
            bg_graph_add(g->graph, &nap_input, NULL, &g->output_gradients[0], 1, g->op.attributes, NULL);
    if (g->needs[1])
        g->input_gradients[1] =
            bg_graph_add(g->graph, &nap_weights, NULL, &g->output_gradients[0], 1, g->op.attributes, NULL);
    return BG_OK;
}

static const bg_op_type nap = {BG_OP_TYPE_DEFAULTS, .name = "nap",
                               .minimum_inputs = 2, .maximum_inputs = 2,
                               .output_count = 1,   .attributes_bytes = sizeof(nap_attributes),
                               .infer = infer_same, .gradient = differentiate_nap,
                               .kernel = choose_nap};

/* ---- a pipeline of sleeping ops ---- */

typedef struct pipeline {
    const char *schedule;
    uint32_t stages, devices, micro_batches;
    nap_attributes nap;
} pipeline;

/* Returns the cost of a stage. Every stage except the first has an input gradient, so the first stage's backward is
 * shorter by dx. */
static bg_stage_cost cost_of_stage(const pipeline *p, uint32_t stage, bool splits_weights)
{
    const double backward_ns = stage > 0 ? p->nap.backward_ns : 0.0;

    return (bg_stage_cost){.forward_ns = p->nap.forward_ns,
                           .backward_ns = backward_ns + (splits_weights ? 0.0 : p->nap.weights_ns),
                           .weights_ns = splits_weights ? p->nap.weights_ns : 0.0};
}

static bg_plan *make_plan(const pipeline *p)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, WIDTH), row = bg_vector(BG_FLOAT32, WIDTH);
    const int32_t axes[] = {0, 1};
    bg_options options = bg_options_defaults();
    bg_optimizer optimizer = bg_sgd(0.0);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value x, loss;
    char name[16];

    options.execution.schedule = p->schedule;
    options.execution.gradient_accumulation = p->micro_batches;
    options.execution.cores = p->devices;
    options.reporting.trace = true;
    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    for (uint32_t s = 0; s < p->stages; s++) {
        bg_value operands[] = {x, {0}};

        snprintf(name, sizeof name, "B%u", s);
        bg_block_begin(graph, name, BG_DEVICE_NONE);
        snprintf(name, sizeof name, "w%u", s);
        operands[1] = bg_graph_parameter(graph, name, &row, NULL);
        x = bg_graph_add(graph, &nap, NULL, operands, 2, &p->nap, NULL);
        if (s + 1 == p->stages) {
            loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, axes, 2, false);
            bg_graph_output(graph, "loss", loss);
        }
        bg_block_end(graph);
    }
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    assert_int_equal(plan->device_count, p->devices);
    return plan;
}

static double simulate(const pipeline *p, const bg_plan *plan)
{
    bg_stage_cost costs[MOST_STAGES];
    bg_schedule_problem problem = plan->problem;
    bg_schedule_timing timing = {0};
    bg_error error = {0};
    double bubble;

    for (uint32_t s = 0; s < p->stages; s++)
        costs[s] = cost_of_stage(p, s, problem.splits_weights);
    problem.costs = costs;
    problem.bytes_per_ns = 0.0;
    if (bg_schedule_simulate(plan->schedule, &problem, &timing, &error) != BG_OK)
        fail_msg("%s", error.message);
    bubble = timing.bubble;
    bg_schedule_timing_clear(&timing);
    return bubble;
}

static bool is_compute(bg_action_kind kind)
{
    return kind == BG_ACTION_FORWARD || kind == BG_ACTION_BACKWARD || kind == BG_ACTION_WEIGHTS;
}

/* Returns the share of time that devices are idle between the first and the last compute action of the session's last
 * step. */
static double measure_step(const bg_session *session, uint32_t devices)
{
    uint64_t first = UINT64_MAX, last = 0, step = 0;
    double busy = 0.0;
    bg_trace_event event;
    bg_error error = {0};

    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t i = 0; i < bg_session_trace_count(session, 0, d); i++) {
            assert_int_equal(bg_session_trace_event(session, 0, d, i, &event, &error), BG_OK);
            step = event.step > step ? event.step : step;
        }
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t i = 0; i < bg_session_trace_count(session, 0, d); i++) {
            assert_int_equal(bg_session_trace_event(session, 0, d, i, &event, &error), BG_OK);
            if (event.step != step || !is_compute(event.action.kind))
                continue;
            first = event.start_ns < first ? event.start_ns : first;
            last = event.end_ns > last ? event.end_ns : last;
            busy += (double)(event.end_ns - event.start_ns);
        }
    assert_true(last > first);
    return 1.0 - busy / ((double)devices * (double)(last - first));
}

static void send_in_turn(bg_plan *plan)
{
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            ((bgi_instruction *)(uintptr_t)&plan->devices[d].instructions[i])->after_calls = 0;
}

/* Checks that the measured idle share is the simulated one. The machine may be busy with other work, so the best of
 * many steps counts. */
static void expect_simulated(const pipeline *p)
{
    float input[WIDTH * 64] = {0}, loss;
    const void *inputs[] = {input};
    void *outputs[] = {&loss};
    bg_plan *plan = make_plan(p);
    const double simulated = simulate(p, plan);
    double nearest = INFINITY;
    bg_session *session = NULL;
    bg_error error = {0};

    assert_true(p->micro_batches <= 64);
    send_in_turn(plan);
    assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_OK);
    for (int attempt = 0; attempt < 100 && nearest > 0.03; attempt++) {
        double measured;

        if (bg_session_run(session, inputs, outputs, &error) != BG_OK)
            fail_msg("%s", error.message);
        measured = measure_step(session, p->devices);
        nearest = fmin(nearest, fabs(measured - simulated));
    }
    if (nearest > 0.03)
        fail_msg("%s, %u stages, %u micro-batches: idle share simulated %.3f, measured at least %.3f off", p->schedule,
                 p->stages, p->micro_batches, simulated, nearest);
    printf("%-12s %2u stages %2u micro-batches: simulated %.3f, measured within %.3f\n", p->schedule, p->stages,
           p->micro_batches, simulated, nearest);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static void test_measured_bubble_is_the_simulated_one(void **state)
{
    static const pipeline pipelines[] = {
        {"interleaved", 8, 8, 8, {3 * MS, 1.5 * MS, 1.5 * MS}},
        {"interleaved", 16, 16, 16, {2 * MS, 2 * MS, 2 * MS}},
        {"grouped", 8, 8, 12, {2 * MS, 2 * MS, 2 * MS}},
        {"sequential", 8, 8, 2, {2 * MS, 2 * MS, 2 * MS}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pipelines / sizeof pipelines[0]; i++)
        expect_simulated(&pipelines[i]);
}

/* If messages leave before W, each stage in the ramp at the end waits only for dx of the next stage. The simulation
 * assumes that messages leave after W, so its ramp is longer by (p - 1) W. */
static void test_messages_do_not_wait_for_w(void **state)
{
    static const pipeline p = {"interleaved", 16, 16, 16, {2 * MS, 2 * MS, 2 * MS}};
    float input[WIDTH * 64] = {0}, loss;
    const void *inputs[] = {input};
    void *outputs[] = {&loss};
    bg_plan *plan = make_plan(&p);
    const double simulated = simulate(&p, plan);
    double least = INFINITY;
    bg_session *session = NULL;

    (void)state;
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    for (int attempt = 0; attempt < 100 && least > simulated - 0.05; attempt++) {
        assert_int_equal(bg_session_run(session, inputs, outputs, NULL), BG_OK);
        least = fmin(least, measure_step(session, p.devices));
    }
    if (least > simulated - 0.05)
        fail_msg("idle share with W in the way %.3f, without %.3f", simulated, least);
    printf("interleaved, messages ahead of W: idle share %.3f instead of %.3f\n", least, simulated);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* Tests schedules in which B and W are separate actions; those with 16 stages place two on each of 8 devices, in the
 * shape of a V. Times are F = B = W, as in the papers, and others. */
static void test_measured_bubble_with_w_apart(void **state)
{
    static const pipeline pipelines[] = {
        {"zb-h1", 8, 8, 16, {2 * MS, 2 * MS, 2 * MS}},   {"zb-h2", 8, 8, 16, {2 * MS, 2 * MS, 2 * MS}},
        {"zb-v", 16, 8, 16, {2 * MS, 2 * MS, 2 * MS}},   {"v-half", 16, 8, 16, {2 * MS, 2 * MS, 2 * MS}},
        {"v-min", 16, 8, 16, {2 * MS, 2 * MS, 2 * MS}},  {"dualpipev", 16, 8, 16, {2 * MS, 2 * MS, 2 * MS}},
        {"zb-h1", 8, 8, 10, {2 * MS, 3 * MS, 1.5 * MS}}, {"v-min", 16, 8, 10, {2 * MS, 3 * MS, 1.5 * MS}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pipelines / sizeof pipelines[0]; i++)
        expect_simulated(&pipelines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_bubble_is_the_simulated_one),
        cmocka_unit_test(test_messages_do_not_wait_for_w),
        cmocka_unit_test(test_measured_bubble_with_w_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
