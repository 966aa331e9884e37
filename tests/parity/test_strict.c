/*
 * test_strict.c: with options.strict, no two devices of a replica have actions, loads or stores at the same time in the
 * trace, and results are bit-identical to those of the single device. Schedules that overlap devices are rejected.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/convnet.h>
#include <brigade/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 8, BATCHES = 4, RUNS = 3, MOST_REPLICAS = 2, PIXELS = 28 * 28 };

typedef struct way {
    const char *name;
    bg_strategy strategy;
    const char *schedule, *stages;
    bool strict, training;
    uint32_t replicas;
    bool is_offloaded, recomputes, is_sharded;
} way;

typedef struct result {
    float logits[MOST_REPLICAS * BATCHES * IMAGES * 10];
    float weights[10 * 256];
} result;

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static bg_options options_of(const way *w)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.schedule = w->schedule;
    options.execution.stages = w->stages;
    options.execution.strict = w->strict;
    options.replicas.count = w->replicas;
    options.execution.cores = 2;
    options.numerics.seed = 11;
    options.reporting.trace = true;
    options.execution.wait_limit_s = 60;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.initialize_missing = true;
    options.execution.device_iterations = w->training ? 2 : BATCHES;
    options.execution.gradient_accumulation = w->training ? BATCHES : 1;
    if (w->recomputes) {
        options.memory.recompute = BG_RECOMPUTE_STAGE;
        options.memory.recompute_order = BG_RECOMPUTE_THEN;
    }
    for (uint32_t k = 0; w->is_offloaded && k < BG_LOCATION_COUNT; k++) {
        if (k == BG_LOCATION_ACTIVATIONS || w->training)
            options.memory.locations[k].place = BG_PLACE_REMOTE;
        options.memory.locations[k].sharded = w->is_sharded && k != BG_LOCATION_ACTIVATIONS;
        options.memory.locations[k].minimum_elements_sharded = 1;
    }
    return options;
}

static bg_plan *make_plan(const way *w, bg_error *error)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    const bg_options options = options_of(w);
    bg_convnet_options shape = bg_convnet_defaults();
    bg_convnet net;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;

    shape.micro_batch = IMAGES;
    require(bg_graph_create(&graph, error), error, w->name);
    net = bg_convnet_build(graph, &shape);
    if (w->training)
        bg_plan_create_training(graph, net.loss, &optimizer, &options, &plan, error);
    else
        bg_plan_create_inference(graph, &options, &plan, error);
    bg_graph_destroy(graph);
    return plan;
}

/* ---- the trace ---- */

typedef struct event_list {
    bg_trace_event *events;
    size_t count;
} event_list;

static int compare_starts(const void *left, const void *right)
{
    const bg_trace_event *a = left, *b = right;

    return a->start_ns != b->start_ns ? (a->start_ns < b->start_ns ? -1 : 1) : a->end_ns < b->end_ns ? -1 : 1;
}

static event_list list_events(const bg_session *session, uint32_t replica, uint32_t device_count)
{
    event_list list = {.count = 0};
    size_t next = 0;

    for (uint32_t d = 0; d < device_count; d++)
        list.count += bg_session_trace_count(session, replica, d);
    list.events = calloc(list.count + 1, sizeof *list.events);
    assert_non_null(list.events);
    for (uint32_t d = 0; d < device_count; d++)
        for (uint32_t i = 0, count = bg_session_trace_count(session, replica, d); i < count; i++)
            assert_int_equal(bg_session_trace_event(session, replica, d, i, &list.events[next++], NULL), BG_OK);
    qsort(list.events, list.count, sizeof *list.events, compare_starts);
    return list;
}

/* Returns the number of pairs of events of two devices that overlap in time; events of both queues of a device count.
 */
static size_t count_overlaps(const event_list *list)
{
    size_t overlaps = 0;

    for (size_t i = 0; i < list->count; i++)
        for (size_t j = i + 1; j < list->count && list->events[j].start_ns < list->events[i].end_ns; j++)
            overlaps += list->events[i].device != list->events[j].device;
    return overlaps;
}

static void check_trace(const bg_session *session, const bg_plan *plan, const way *w)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);

    for (uint32_t replica = 0; replica < w->replicas; replica++) {
        event_list list = list_events(session, replica, summary.device_count);
        size_t transfers = 0;
        const size_t overlaps = count_overlaps(&list);
        for (size_t i = 0; i < list.count; i++)
            transfers += list.events[i].action.kind == BG_ACTION_LOAD || list.events[i].action.kind == BG_ACTION_STORE;
        if (overlaps != 0)
            fail_msg("%s, replica %u: %zu of %zu events overlap", w->name, replica, overlaps, list.count);
        assert_true(list.count > 4u * BATCHES * RUNS);
        assert_true((transfers > 0) == w->is_offloaded);
        free(list.events);
    }
}

/* ---- runs ---- */

static void run(const way *w, result *out)
{
    static uint8_t images[2 * MOST_REPLICAS * BATCHES * IMAGES * PIXELS], labels[2 * MOST_REPLICAS * BATCHES * IMAGES];
    static float scratch[3][2 * MOST_REPLICAS * BATCHES * IMAGES * 10];
    void *outputs[3] = {scratch[0], scratch[1], scratch[2]};
    const void *inputs[2] = {images, labels};
    bg_session *session = NULL;
    bg_error error = {0};
    bg_weight weight;
    bg_plan *plan = make_plan(w, &error);

    if (plan == NULL)
        fail_msg("%s: %s", w->name, error.message);
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * 37 % 253);
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (uint8_t)(i * 7 % 10);
    memset(scratch, 0, sizeof scratch);
    require(bg_session_create(plan, NULL, &session, &error), &error, w->name);
    assert_int_equal(bg_session_output_count(session), 3);
    for (int i = 0; i < RUNS; i++)
        require(bg_session_run(session, inputs, outputs, &error), &error, w->name);
    memcpy(out->logits, scratch[bg_session_find_output(session, "logits")], sizeof out->logits);
    require(bg_weights_find(bg_session_weights(session), "layer4.weight", &weight, &error), &error, w->name);
    assert_true(bg_type_size_bytes(&weight.type) == sizeof out->weights);
    memcpy(out->weights, weight.data, sizeof out->weights);
    if (w->strict)
        check_trace(session, plan, w);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static void one_device_at_a_time_with_the_same_bits(void **state)
{
    static const char *const stages = "B1|B2|B3|B4", *const back = "B1@0|B2@1|B3@0|B4@1";
    const way ways[] = {
        {"sharded", BG_STRATEGY_SHARDED, NULL, stages, .replicas = 1},
        {"sequential", BG_STRATEGY_PIPELINED, "sequential", stages, .replicas = 1},
        {"sharded back and forth", BG_STRATEGY_SHARDED, NULL, back, .replicas = 1},
        {"sharded, 2 replicas", BG_STRATEGY_SHARDED, NULL, stages, .replicas = 2},
        {"sharded, R", BG_STRATEGY_SHARDED, NULL, stages, .replicas = 1, .recomputes = true},
        {"sharded, remote", BG_STRATEGY_SHARDED, NULL, stages, .replicas = 1, .is_offloaded = true},
        {"sequential, remote in pieces", BG_STRATEGY_PIPELINED, "sequential", back, .replicas = 2, .is_offloaded = true,
         .is_sharded = true},
    };
    static result expected, found;

    (void)state;
    for (int training = 0; training < 2; training++)
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            way w = ways[i], single = {.name = "single", .strategy = BG_STRATEGY_SINGLE, .replicas = w.replicas};
            w.training = single.training = training != 0;
            if (!w.training && (w.is_offloaded || w.recomputes))
                continue;
            memset(&expected, 0, sizeof expected);
            memset(&found, 0, sizeof found);
            run(&single, &expected);
            w.strict = true;
            run(&w, &found);
            if (memcmp(&expected, &found, sizeof expected) != 0)
                fail_msg("%s, %s: other bits than the single device's", w.name, training ? "training" : "inference");
        }
}

/* If a schedule's devices work at the same time, the error names schedules that are allowed; a plan for one device is
 * always strict. */
static void other_schedules_refuse(void **state)
{
    static const char *const stages = "B1,B2|B3,B4";
    const way pipeline = {
        .strategy = BG_STRATEGY_PIPELINED, .stages = stages, .strict = true, .training = true, .replicas = 1};
    way ways[] = {pipeline, pipeline, pipeline}, phased = pipeline;
    static const char *const names[] = {"interleaved", "gpipe", "auto"};
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        ways[i].name = ways[i].schedule = names[i];
        bg_error_clear(&error);
        assert_null(make_plan(&ways[i], &error));
        assert_int_equal(error.status, BG_ERROR_INVALID);
        if (strstr(error.message, "strict") == NULL ||
            strstr(error.message, "choose \"sharded\" or \"sequential\"") == NULL)
            fail_msg("%s: %s", ways[i].name, error.message);
    }
    bg_error_clear(&error);
    phased.name = "phased";
    phased.strategy = BG_STRATEGY_PHASED;
    plan = make_plan(&phased, &error);
    require(error.status, &error, "phased on one device");
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_at_a_time_with_the_same_bits),
        cmocka_unit_test(other_schedules_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
