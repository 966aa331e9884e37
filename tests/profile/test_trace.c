/*
 * test_trace.c: the trace file is JSON that says what was recorded, and its memory counters stay within the plan's
 * bytes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/nn.h>
#include <brigade/profile.h>

#include "plan/plan.h"

enum { MICRO_BATCH = 4, ACCUMULATION = 8, ITERATIONS = 3, RUNS = 2 };

typedef struct traced_run {
    bg_plan *plan;
    bg_session *session;
    char path[64];
} traced_run;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_options make_options(bool training)
{
    bg_options options = bg_options_defaults();

    options.device_iterations = training ? ITERATIONS : ACCUMULATION;
    options.gradient_accumulation = training ? ACCUMULATION : 1;
    options.trace = true;
    return options;
}

/* Runs the digit network on zeros, RUNS times. */
static traced_run run_network(const bg_options *options, bool training)
{
    traced_run run = {.path = "/tmp/brigade-trace-XXXXXX"};
    bg_convnet_options network = bg_convnet_defaults();
    bg_optimiser optimiser = bg_adamw(0.001);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_convnet net;
    void *inputs[4] = {0}, *outputs[4] = {0};
    int file = mkstemp(run.path);

    assert_true(file >= 0);
    close(file);
    network.micro_batch = MICRO_BATCH;
    require(bg_graph_create(&graph, &error), &error);
    net = bg_convnet_build(graph, &network);
    if (training)
        require(bg_plan_create_training(graph, net.loss, &optimiser, options, &run.plan, &error), &error);
    else
        require(bg_plan_create_inference(graph, options, &run.plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(run.plan, NULL, &run.session, &error), &error);
    for (uint32_t i = 0; i < bg_session_input_count(run.session); i++) {
        bg_stream stream;
        require(bg_session_input(run.session, i, &stream, &error), &error);
        inputs[i] = calloc(1, stream.size_bytes);
        assert_non_null(inputs[i]);
    }
    for (int i = 0; i < RUNS; i++)
        require(bg_session_run(run.session, (const void *const *)inputs, outputs, &error), &error);
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
    return run;
}

static void clear(traced_run *run)
{
    bg_session_destroy(run->session);
    bg_plan_destroy(run->plan);
    unlink(run->path);
}

static json_t *write_and_read(const traced_run *run)
{
    bg_error error = {0};
    json_error_t json_error;
    json_t *root;

    require(bg_profile_write_trace(run->session, run->plan, run->path, &error), &error);
    root = json_load_file(run->path, JSON_REJECT_DUPLICATES, &json_error);
    if (root == NULL)
        fail_msg("%s:%d: %s", run->path, json_error.line, json_error.text);
    return root;
}

static uint32_t count_recorded(const traced_run *run)
{
    bg_plan_summary summary = bg_plan_summarise(run->plan);
    uint32_t count = 0;

    for (uint32_t replica = 0; replica < summary.replicas; replica++)
        for (uint32_t device = 0; device < summary.device_count; device++)
            count += bg_session_trace_count(run->session, replica, device);
    return count;
}

static const char *text_of(const json_t *item, const char *key)
{
    const char *text = json_string_value(json_object_get(item, key));

    assert_non_null(text);
    return text;
}

static size_t count_phase(const json_t *events, const char *phase)
{
    const json_t *item;
    size_t index, count = 0;

    json_array_foreach(events, index, item) count += strcmp(text_of(item, "ph"), phase) == 0;
    return count;
}

/* Each slice lies after zero and says where it belongs. */
static void assert_slices_good(const json_t *events, const bg_plan_summary *summary)
{
    const json_t *item;
    size_t index;

    json_array_foreach(events, index, item)
    {
        const json_t *args = json_object_get(item, "args");
        if (strcmp(text_of(item, "ph"), "X") != 0)
            continue;
        assert_true(json_number_value(json_object_get(item, "ts")) >= 0.0);
        assert_true(json_number_value(json_object_get(item, "dur")) >= 0.0);
        assert_true(json_integer_value(json_object_get(item, "tid")) < 2 * (json_int_t)summary->device_count);
        assert_true((json_integer_value(json_object_get(item, "tid")) >= (json_int_t)summary->device_count) ==
                    (strcmp(text_of(item, "cat"), "LOAD") == 0 || strcmp(text_of(item, "cat"), "STORE") == 0));
        assert_true(json_integer_value(json_object_get(item, "pid")) < (json_int_t)summary->replicas);
        assert_true(json_is_integer(json_object_get(args, "step")));
        assert_true(json_is_integer(json_object_get(args, "micro_batch")));
        assert_true(json_integer_value(json_object_get(args, "stage")) < (json_int_t)summary->stage_count);
        assert_true(json_is_integer(json_object_get(args, "worker")));
    }
}

/* The counters of a device: never below what is always there, never above the plan's bytes, back at the constant in the
 * end. Returns the highest. */
static double check_memory(const json_t *events, const traced_run *run, uint32_t device)
{
    double highest = 0.0, last = 0.0, last_ts = -1.0;
    double constant = (double)bg_plan_memory_bytes(run->plan, device, BG_MEMORY_WEIGHTS);
    const json_t *item;
    size_t index, count = 0;
    char name[48];

    snprintf(name, sizeof name, "memory of device %u", device);
    json_array_foreach(events, index, item)
    {
        double bytes, ts;
        if (strcmp(text_of(item, "ph"), "C") != 0 || strcmp(text_of(item, "name"), name) != 0 ||
            json_integer_value(json_object_get(item, "pid")) != 0)
            continue;
        bytes = json_number_value(json_object_get(json_object_get(item, "args"), "bytes"));
        ts = json_number_value(json_object_get(item, "ts"));
        assert_true(ts > last_ts);
        assert_true(bytes >= constant);
        assert_true(bytes <= (double)bg_plan_device_bytes(run->plan, device));
        highest = bytes > highest ? bytes : highest;
        last = bytes;
        last_ts = ts;
        count++;
    }
    assert_true(count > 0);
    assert_true(last < highest);
    return highest;
}

/* Devices, and once more those that load and store. */
static uint32_t count_tracks(const traced_run *run)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < run->plan->device_count; d++)
        count += 1 + (run->plan->devices[d].transfer_count > 0);
    return count;
}

static void check_run(const bg_options *options, bool training)
{
    traced_run run = run_network(options, training);
    bg_plan_summary summary = bg_plan_summarise(run.plan);
    json_t *root = write_and_read(&run);
    const json_t *events = json_object_get(root, "traceEvents");

    assert_true(json_is_array(events));
    assert_true(count_recorded(&run) > 0);
    assert_int_equal(count_phase(events, "X"), count_recorded(&run));
    assert_int_equal(count_phase(events, "M"), summary.replicas * (1 + count_tracks(&run)));
    assert_slices_good(events, &summary);
    for (uint32_t device = 0; device < summary.device_count; device++)
        check_memory(events, &run, device);
    json_decref(root);
    clear(&run);
}

static void test_pipelined(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    check_run(&options, true);
}

static void test_sharded(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.strategy = BG_STRATEGY_SHARDED;
    check_run(&options, true);
}

static void test_single(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.strategy = BG_STRATEGY_SINGLE;
    check_run(&options, true);
}

static void test_replicas_and_offload(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.replicas = 2;
    options.offload_optimiser = true;
    options.stages = "B1,B2|B3,B4";
    check_run(&options, true);
}

static void test_recompute(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.recompute = BG_RECOMPUTE_STAGE;
    options.recompute_order = BG_RECOMPUTE_THEN;
    check_run(&options, true);
}

static void test_inference(void **state)
{
    bg_options options = make_options(false);
    (void)state;

    check_run(&options, false);
}

/* The oldest events are gone, on each device others. */
static void test_short_ring(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.trace_events = 37;
    check_run(&options, true);
}

/* What device 0 of a pipeline keeps for the backward pass is a good part of its memory, and is seen. */
static void test_stash_is_in_the_counters(void **state)
{
    bg_options options = make_options(true);
    traced_run run = run_network(&options, true);
    json_t *root = write_and_read(&run);
    double highest = check_memory(json_object_get(root, "traceEvents"), &run, 0);
    double others =
        (double)bg_plan_device_bytes(run.plan, 0) - (double)bg_plan_memory_bytes(run.plan, 0, BG_MEMORY_STASH);
    (void)state;

    assert_true(bg_plan_memory_bytes(run.plan, 0, BG_MEMORY_STASH) > 0);
    assert_true(highest > others);
    json_decref(root);
    clear(&run);
}

/* Every arrow has both ends; returns how many there are. */
static size_t check_arrows(const bg_options *options)
{
    traced_run run = run_network(options, true);
    json_t *root = write_and_read(&run);
    const json_t *events = json_object_get(root, "traceEvents");
    json_t *starts = json_object();
    const json_t *item;
    size_t index, ends = 0;

    json_array_foreach(events, index, item)
    {
        if (strcmp(text_of(item, "ph"), "s") == 0)
            json_object_set_new(starts, text_of(item, "id"), json_true());
    }
    json_array_foreach(events, index, item)
    {
        if (strcmp(text_of(item, "ph"), "f") != 0)
            continue;
        assert_non_null(json_object_get(starts, text_of(item, "id")));
        ends++;
    }
    assert_int_equal(json_object_size(starts), ends);
    json_decref(starts);
    json_decref(root);
    clear(&run);
    return ends;
}

static void test_arrows(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    /* At least three edges forwards and three backwards. */
    assert_true(check_arrows(&options) >= RUNS * ITERATIONS * ACCUMULATION * 6);
}

static void test_arrows_of_a_short_ring(void **state)
{
    bg_options options = make_options(true);
    size_t count;
    (void)state;

    options.trace_events = 37;
    count = check_arrows(&options);
    assert_true(count > 0 && count < 4 * 37);
}

static void test_summary_says_what_was_dropped(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    for (int is_short = 0; is_short < 2; is_short++) {
        bg_error error = {0};
        char *text = NULL;
        traced_run run;

        if (is_short)
            options.trace_events = 37;
        run = run_network(&options, true);
        require(bg_profile_print_summary(run.session, run.plan, &text, &error), &error);
        assert_int_equal(strstr(text, "4 of 4 devices kept their latest 37 actions only") != NULL, is_short);
        free(text);
        clear(&run);
    }
}

static void test_summary(void **state)
{
    bg_options options = make_options(true);
    traced_run run = run_network(&options, true);
    bg_error error = {0};
    char *text = NULL;
    const char *line;
    (void)state;

    require(bg_profile_print_summary(run.session, run.plan, &text, &error), &error);
    line = text;
    for (uint32_t device = 0; device < 4; device++) {
        double busy, idle;
        unsigned number;
        assert_int_equal(sscanf(line, "device %u: busy %lf %%", &number, &busy), 2);
        assert_int_equal(number, device);
        assert_int_equal(sscanf(strstr(line, "idle"), "idle %lf %%", &idle), 1);
        assert_true(busy > 0.0 && idle >= -0.05);
        assert_true(busy + idle > 99.85 && busy + idle < 100.15);
        line = strchr(line, '\n') + 1;
    }
    assert_non_null(strstr(text, "stage 3: "));
    assert_non_null(strstr(text, "stage balance: the longest stage"));
    free(text);
    clear(&run);
}

static void test_refuses_without_trace(void **state)
{
    bg_options options = make_options(true);
    bg_error error = {0};
    traced_run run;
    char *text = NULL;
    (void)state;

    options.trace = false;
    run = run_network(&options, true);
    assert_int_equal(bg_profile_write_trace(run.session, run.plan, run.path, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "options.trace"));
    assert_int_equal(bg_profile_print_summary(run.session, run.plan, &text, NULL), BG_ERROR_INVALID);
    assert_null(text);
    clear(&run);
}

static void test_refuses_bad_path(void **state)
{
    bg_options options = make_options(true);
    traced_run run = run_network(&options, true);
    bg_error error = {0};
    (void)state;

    assert_int_not_equal(bg_profile_write_trace(run.session, run.plan, "/proc/no-such-folder/t.json", &error), BG_OK);
    assert_non_null(strstr(error.message, "/proc/no-such-folder"));
    clear(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_sharded),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_replicas_and_offload),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_short_ring),
        cmocka_unit_test(test_stash_is_in_the_counters),
        cmocka_unit_test(test_arrows),
        cmocka_unit_test(test_arrows_of_a_short_ring),
        cmocka_unit_test(test_summary_says_what_was_dropped),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_refuses_without_trace),
        cmocka_unit_test(test_refuses_bad_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
