/*
 * test_costs.c: costs of stages are measured, stored in a file and read back, and affect the order of a plan but not
 * its results.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/convnet.h>
#include <brigade/gpt.h>

#include "plan/plan.h"
#include "profile/costs.h"
#include "runtime/engine.h"
#include "runtime/session.h"

enum { MICRO_BATCH = 4, ACCUMULATION = 6, STAGES = 4 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_status make_plan(const bg_options *options, bg_plan **out, bg_error *error)
{
    bg_convnet_options network = bg_convnet_defaults();
    bg_optimizer optimizer = bg_adamw(0.001);
    bg_graph *graph = NULL;
    bg_convnet net;
    bg_status status;

    network.micro_batch = MICRO_BATCH;
    require(bg_graph_create(&graph, error), error);
    net = bg_convnet_build(graph, &network);
    status = bg_plan_create_training(graph, net.loss, &optimizer, options, out, error);
    bg_graph_destroy(graph);
    return status;
}

static bg_options make_options(const char *schedule)
{
    bg_options options = bg_options_defaults();

    options.execution.schedule = schedule;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = 2;
    options.numerics.seed = 3;
    return options;
}

static void test_measured(void **state)
{
    bg_options options = make_options("sequential");
    bg_stage_cost costs[STAGES];
    bg_error error = {0};
    bg_plan *plan = NULL;
    double speed = -1.0;

    (void)state;
    options.reporting.trace = true;
    require(make_plan(&options, &plan, &error), &error);
    require(bg_profile_measure(plan, 3, costs, &speed, &error), &error);
    for (int stage = 0; stage < STAGES; stage++) {
        assert_true(costs[stage].forward_ns > 0 && costs[stage].backward_ns > 0 && costs[stage].update_ns > 0);
        assert_true(costs[stage].weights_ns == 0);
    }
    assert_true(speed >= 0);
    bg_plan_destroy(plan);
    options.reporting.trace = false;
    require(make_plan(&options, &plan, &error), &error);
    assert_int_equal(bg_profile_measure(plan, 1, costs, &speed, &error), BG_ERROR_INVALID);
    bg_plan_destroy(plan);
}

/* Returns the weights after a run of two updates on different images. */
static unsigned char *train(const bg_options *options, size_t *out_size)
{
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    void *inputs[4] = {0}, *outputs[4] = {0};
    unsigned char *bytes = NULL;

    require(make_plan(options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_stream stream;
        require(bg_session_input(session, i, &stream, &error), &error);
        inputs[i] = calloc(1, stream.size_bytes);
        assert_non_null(inputs[i]);
        for (size_t k = 0; stream.micro_batch_type.dtype == BG_FLOAT32 && k < stream.size_bytes / sizeof(float); k++)
            ((float *)inputs[i])[k] = (float)(k % 97) / 97.0f;
    }
    require(bg_session_run(session, (const void *const *)inputs, outputs, &error), &error);
    *out_size = 0;
    for (uint32_t i = 0; i < bg_weights_count(bg_session_weights(session)); i++) {
        bg_weight weight;
        size_t size;
        require(bg_weights_at(bg_session_weights(session), i, &weight, &error), &error);
        size = bg_type_size_bytes(&weight.type);
        bytes = realloc(bytes, *out_size + size);
        assert_non_null(bytes);
        memcpy(bytes + *out_size, weight.data, size);
        *out_size += size;
    }
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return bytes;
}

static uint32_t next_random(uint32_t *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

static void test_costs_change_no_bit(void **state)
{
    bg_options options = make_options("interleaved");
    size_t expected_size, size, order_count = 0, split_count = 0;
    unsigned char *expected = train(&options, &expected_size);
    char *orders[8] = {NULL};
    uint32_t random = 1;

    (void)state;
    for (int i = 0; i < 8; i++) {
        bg_stage_cost costs[STAGES];
        bg_error error = {0};
        unsigned char *bytes;
        bg_plan *plan = NULL;
        bool is_new = true;
        for (int stage = 0; stage < STAGES; stage++) {
            costs[stage] = (bg_stage_cost){.forward_ns = 1 + next_random(&random) % 10000};
            costs[stage].backward_ns = 1 + next_random(&random) % 20000;
        }
        options = make_options("auto");
        options.execution.stage_costs = costs;
        options.execution.stage_cost_count = STAGES;
        bytes = train(&options, &size);
        assert_int_equal(size, expected_size);
        assert_memory_equal(bytes, expected, size);
        free(bytes);
        require(make_plan(&options, &plan, &error), &error);
        require(bg_plan_print_timetable(plan, &orders[i], &error), &error);
        for (int k = 0; k < i; k++)
            is_new = is_new && strcmp(orders[k], orders[i]) != 0;
        order_count += is_new;
        split_count += plan->problem.splits_weights;
        bg_plan_destroy(plan);
    }
    assert_true(order_count > 1 && split_count > 0); /* otherwise the test would prove nothing */
    for (int i = 0; i < 8; i++)
        free(orders[i]);
    free(expected);
}

static double find_makespan(const bg_plan *plan)
{
    bg_schedule_timing timing = {0};
    bg_error error = {0};
    double makespan;

    require(bg_schedule_simulate(plan->schedule, &plan->problem, &timing, &error), &error);
    makespan = timing.makespan;
    bg_schedule_timing_clear(&timing);
    return makespan;
}

static bg_plan *plan_with(const char *schedule, bg_stage_cost cost)
{
    bg_options options = make_options(schedule);
    const bg_stage_cost costs[STAGES] = {cost, cost, cost, cost};
    bg_plan *plan = NULL;
    bg_error error = {0};

    options.execution.stage_costs = costs;
    options.execution.stage_cost_count = STAGES;
    require(make_plan(&options, &plan, &error), &error);
    return plan;
}

/* `auto` separates W if this makes the step end earlier. The step is then as fast as with the schedules that always
 * separate W. */
static void test_weights_apart(void **state)
{
    static const char *const others[] = {"interleaved", "grouped", "zb-h1", "zb-h2"};
    const bg_stage_cost even = {.forward_ns = 1000, .backward_ns = 1000, .weights_ns = 1000};
    bg_plan *plan = plan_with("auto", even);
    const double makespan = find_makespan(plan);

    (void)state;
    assert_true(plan->problem.splits_weights);
    bg_plan_destroy(plan);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        plan = plan_with(others[i], even);
        if (makespan > find_makespan(plan))
            fail_msg("%g ns, %s takes %g", makespan, others[i], find_makespan(plan));
        if (!plan->problem.splits_weights)
            assert_true(makespan < find_makespan(plan));
        bg_plan_destroy(plan);
    }
    /* A split would not save time, so B remains whole. */
    plan = plan_with("auto", (bg_stage_cost){.forward_ns = 1000});
    assert_false(plan->problem.splits_weights);
    bg_plan_destroy(plan);
}

/* Costs can be measured with or without a separate W, and used for schedules of both kinds. */
static void test_costs_of_halves(void **state)
{
    const bg_stage_cost whole = {.forward_ns = 500, .backward_ns = 3000};
    const bg_stage_cost halves = {.forward_ns = 500, .backward_ns = 2000, .weights_ns = 1000};
    bg_plan *plan = plan_with("interleaved", halves);

    (void)state;
    for (int stage = 0; stage < STAGES; stage++) {
        assert_true(plan->problem.costs[stage].backward_ns == 3000);
        assert_true(plan->problem.costs[stage].weights_ns == 0);
    }
    bg_plan_destroy(plan);
    plan = plan_with("zb-h1", halves);
    assert_true(plan->problem.costs[1].backward_ns == 2000 && plan->problem.costs[1].weights_ns == 1000);
    /* Gradients of the images are not needed. */
    assert_true(plan->problem.costs[0].backward_ns + plan->problem.costs[0].weights_ns == 3000);
    bg_plan_destroy(plan);
    plan = plan_with("zb-h1", whole);
    for (int stage = 0; stage < STAGES; stage++) {
        const bg_stage_cost *cost = &plan->problem.costs[stage];
        assert_true(cost->forward_ns == 500 && cost->weights_ns > 0);
        assert_true(cost->backward_ns + cost->weights_ns == 3000);
        assert_true(stage == 0 || cost->backward_ns > 0);
    }
    bg_plan_destroy(plan);
}

/* The smallest budget for one micro-batch at a time is enough. With a smaller budget, the error is that of the plan. */
static void test_budget_is_met(void **state)
{
    bg_options options = make_options("sequential");
    bg_error error = {0};
    bg_plan *plan = NULL;
    size_t least = 0;

    (void)state;
    require(make_plan(&options, &plan, &error), &error);
    for (uint32_t device = 0; device < STAGES; device++)
        least = bg_plan_device_bytes(plan, device) > least ? bg_plan_device_bytes(plan, device) : least;
    bg_plan_destroy(plan);
    plan = NULL;
    options = make_options("auto");
    for (size_t more = 0; more < 65536; more += 4096) {
        options.memory.device_memory_bytes = least + more;
        require(make_plan(&options, &plan, &error), &error);
        for (uint32_t device = 0; device < STAGES; device++)
            assert_true(bg_plan_device_bytes(plan, device) <= least + more);
        bg_plan_destroy(plan);
        plan = NULL;
    }
    options.memory.device_memory_bytes = least - 1;
    assert_int_not_equal(make_plan(&options, &plan, &error), BG_OK);
    assert_non_null(strstr(error.message, "device"));
}

static void test_refusals(void **state)
{
    bg_stage_cost costs[3] = {{.forward_ns = 1}, {.forward_ns = 1}, {.forward_ns = 1}};
    bg_options options = make_options("auto");
    bg_error error = {0};
    bg_plan *plan = NULL;

    (void)state;
    options.execution.stage_costs = costs;
    options.execution.stage_cost_count = 3;
    assert_int_equal(make_plan(&options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "costs are given for 3 stages, but the plan has 4"));
    costs[1].update_ns = -2;
    error = (bg_error){0};
    assert_int_equal(make_plan(&options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "stage_costs[1].update_ns is -2; times must be at least 0"));
}

static void test_file_brings_every_bit_back(void **state)
{
    char path[] = "/tmp/brigade-costs-XXXXXX";
    bg_stage_cost stages[2] = {{1.0 / 3.0, 3.5, 2e9, 0.0, 1e-300}, {12345.6789, 0.0, 7.0, 1e15 / 7.0, 0.1}};
    const bg_costs costs = {.stages = stages, .stage_count = 2, .message_bytes_per_ns = 1.0 / 7.0};
    bg_costs read = {0};
    bg_error error = {0};
    int file = mkstemp(path);

    (void)state;
    assert_true(file >= 0);
    close(file);
    require(bg_costs_save(&costs, path, &error), &error);
    require(bg_costs_load(path, &read, &error), &error);
    assert_int_equal(read.stage_count, 2);
    assert_memory_equal(read.stages, stages, sizeof stages);
    assert_true(read.message_bytes_per_ns == costs.message_bytes_per_ns);
    bg_costs_clear(&read);
    unlink(path);
    assert_int_equal(bg_costs_load(path, &read, &error), BG_ERROR_NOT_FOUND);
}

static void test_bad_files(void **state)
{
#define HEAD  "{\"format\":\"brigade costs 1\",\"message_bytes_per_ns\":0,"
#define STAGE "{\"forward_ns\":1,\"backward_ns\":1,\"weights_ns\":0,\"update_ns\":0,\"recompute_ns\":0}"
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "costs:1:1: not JSON: expected a value, found the end"},
        {"[]", "the file is not an object"},
        {"{\"format\":\"brigade costs 2\"}", "its `format` is not \"brigade costs 1\""},
        {"{\"format\":\"brigade costs 1\",\"stages\":[" STAGE "]}", "the file has no number `message_bytes_per_ns`"},
        {HEAD "\"stages\":[]}", "`stages` must be a list of at least one stage"},
        {HEAD "\"stages\":[" STAGE "],\"more\":1}", "the file has 4 keys, but only 3 of them are known"},
        {HEAD "\"stages\":[" STAGE ",{}]}", "stages[1] has no number `forward_ns`"},
        {HEAD "\"stages\":[{\"forward_ns\":-1}]}", "`forward_ns` of stages[0] is -1; it must be at least 0"},
        {HEAD "\"stages\":[7]}", "stages[0] is not an object"},
        {HEAD "\"stages\":[" STAGE "]} x", "costs:1:"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bg_costs costs = {0};
        bg_error error = {0};
        assert_int_equal(bgi_costs_parse("costs", rows[i].text, strlen(rows[i].text), &costs, &error), BG_ERROR_PARSE);
        if (strstr(error.message, rows[i].part) == NULL)
            fail_msg("\"%s\" is not in: %s", rows[i].part, error.message);
        assert_null(costs.stages);
    }
}

/* ---- interrupted sends ---- */

/* Lengthens the longest recorded send of each device by a second, as an interruption does. */
static void interrupt_sends(bg_session *session, uint32_t device_count)
{
    for (uint32_t d = 0; d < device_count; d++) {
        bgi_trace_ring *ring = &session->engine->runners[d].trace;
        bg_trace_event *longest = NULL;
        for (uint64_t i = 0; i < ring->count && i < ring->capacity; i++) {
            bg_trace_event *event = &ring->events[i];
            if (event->action.kind == BG_ACTION_SEND &&
                (longest == NULL || event->end_ns - event->start_ns > longest->end_ns - longest->start_ns))
                longest = event;
        }
        if (longest != NULL)
            longest->end_ns += 1000000000;
    }
}

static void test_an_interrupted_send_does_not_count(void **state)
{
    bg_options options = make_options("interleaved");
    bg_stage_cost costs[STAGES];
    bg_error error = {0};
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    void *inputs[4] = {0}, *outputs[4] = {0};
    double before = 0.0, after = -1.0;

    (void)state;
    options.reporting.trace = true;
    require(make_plan(&options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_stream stream;
        require(bg_session_input(session, i, &stream, &error), &error);
        inputs[i] = calloc(1, stream.size_bytes);
        assert_non_null(inputs[i]);
    }
    require(bg_session_run(session, (const void *const *)inputs, outputs, &error), &error);
    require(bg_profile_costs(session, plan, costs, &before, &error), &error);
    interrupt_sends(session, bg_plan_summarize(plan).device_count);
    require(bg_profile_costs(session, plan, costs, &after, &error), &error);
    assert_true(before > 0.0);
    assert_float_equal(after, before, 0.0);
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* ---- collectives ---- */

/* Collectives of a tensor-parallel model split a forward action into several events; the action's cost is their sum. */
static void test_an_action_in_pieces_has_one_cost(void **state)
{
    bg_gpt_options model = bg_gpt_defaults();
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_sgd(0.1);
    double own[2] = {0.0}, bytes_per_ns;
    bg_stage_cost cost;
    bg_session *session;
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_stream stream;
    void *data[8] = {0};
    uint32_t events = 0, inputs;

    (void)state;
    model.layers = 2, model.hidden = 16, model.heads = 2, model.vocabulary = 32;
    model.sequence_length = model.positions = 8;
    model.dropout = 0.0;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.cores = 1;
    options.replicas.count = 2;
    options.reporting.trace = true;
    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    bg_graph_set_mesh(graph, &(bg_mesh){.data = 1, .tensor_1 = 2, .tensor_2 = 1});
    assert_int_equal(
        bg_plan_create_training(graph, bg_gpt_build(graph, &model).loss, &optimizer, &options, &plan, &error), BG_OK);
    assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_OK);
    inputs = bg_session_input_count(session);
    assert_true(inputs < 8);
    for (uint32_t i = 0; i < inputs; i++) {
        assert_int_equal(bg_session_input(session, i, &stream, &error), BG_OK);
        data[i] = calloc(1, stream.size_bytes);
        assert_non_null(data[i]);
    }
    assert_int_equal(bg_session_run(session, (const void *const *)data, (void *[8]){0}, &error), BG_OK);
    assert_int_equal(bg_profile_costs(session, plan, &cost, &bytes_per_ns, &error), BG_OK);
    for (uint32_t replica = 0; replica < 2; replica++)
        for (uint32_t i = 0; i < bg_session_trace_count(session, replica, 0); i++) {
            bg_trace_event event;
            assert_int_equal(bg_session_trace_event(session, replica, 0, i, &event, &error), BG_OK);
            if (event.action.kind != BG_ACTION_FORWARD)
                continue;
            own[replica] += (double)(event.end_ns - event.start_ns);
            events++;
        }
    assert_true(events > 2);
    assert_float_equal(cost.forward_ns, 0.5 * (own[0] + own[1]), 1.0);
    for (uint32_t i = 0; i < inputs; i++)
        free(data[i]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_action_in_pieces_has_one_cost),
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_an_interrupted_send_does_not_count),
        cmocka_unit_test(test_costs_change_no_bit),
        cmocka_unit_test(test_weights_apart),
        cmocka_unit_test(test_costs_of_halves),
        cmocka_unit_test(test_budget_is_met),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_file_brings_every_bit_back),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
