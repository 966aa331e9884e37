/*
 * test_trace.c: the trace file is JSON that shows what was recorded, and its memory counters do not exceed the plan's
 * bytes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/convnet.h>
#include <brigade/gpt.h>
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

    options.execution.device_iterations = training ? ITERATIONS : ACCUMULATION;
    options.execution.gradient_accumulation = training ? ACCUMULATION : 1;
    options.reporting.trace = true;
    options.numerics.initialize_missing = true;
    return options;
}

/* Runs the digit network on zeros, RUNS times. */
static traced_run run_network(const bg_options *options, bool training)
{
    traced_run run = {.path = "/tmp/brigade-trace-XXXXXX"};
    bg_convnet_options network = bg_convnet_defaults();
    bg_optimizer optimizer = bg_adamw(0.001);
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
        require(bg_plan_create_training(graph, net.loss, &optimizer, options, &run.plan, &error), &error);
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
    bg_plan_summary summary = bg_plan_summarize(run->plan);
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

/* Checks that each slice begins after time zero and names its device and track. */
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

/* Checks that the counters of a device are never below the constant part or above the plan's bytes, and end at the
 * constant part. Returns the highest. */
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

/* Returns the number of tracks: one for each device, and a second one for the loads and stores of a device that has
 * any. */
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
    bg_plan_summary summary = bg_plan_summarize(run.plan);
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

    options.execution.strategy = BG_STRATEGY_SHARDED;
    check_run(&options, true);
}

static void test_single(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    check_run(&options, true);
}

static void test_replicas_and_offload(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.replicas.count = 2;
    options.memory.offload_optimizer = true;
    options.execution.stages = "B1,B2|B3,B4";
    check_run(&options, true);
}

static void test_recompute(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.memory.recompute = BG_RECOMPUTE_STAGE;
    options.memory.recompute_order = BG_RECOMPUTE_THEN;
    check_run(&options, true);
}

static void test_inference(void **state)
{
    bg_options options = make_options(false);
    (void)state;

    check_run(&options, false);
}

/* The oldest events are missing, and their number differs between devices. */
static void test_short_ring(void **state)
{
    bg_options options = make_options(true);
    (void)state;

    options.reporting.trace_events = 37;
    check_run(&options, true);
}

/* The memory counter of device 0 of a pipeline includes the values stashed for the backward pass: at its highest it is
 * above the bytes of everything else. */
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

/* Checks that an arrow begins at its SEND's slice or ends at its RECEIVE's slice, which both have the edge's name. */
static void assert_at_slice(const json_t *events, const json_t *end)
{
    const bool is_start = strcmp(text_of(end, "ph"), "s") == 0;
    const double at = json_number_value(json_object_get(end, "ts"));
    unsigned replica = 0, edge = 0, step = 0, micro_batch = 0;
    char name[32];
    const json_t *item;
    size_t index;

    assert_int_equal(sscanf(text_of(end, "id"), "%u.%u.%u.%u", &replica, &edge, &step, &micro_batch), 4);
    snprintf(name, sizeof name, "%s %u", is_start ? "SEND" : "RECEIVE", edge);
    json_array_foreach(events, index, item)
    {
        const json_t *args = json_object_get(item, "args");
        const double begin = json_number_value(json_object_get(item, "ts"));
        const double duration = json_number_value(json_object_get(item, "dur"));
        if (strcmp(text_of(item, "ph"), "X") != 0 || strcmp(text_of(item, "name"), name) != 0 ||
            json_integer_value(json_object_get(item, "pid")) != (json_int_t)replica ||
            json_integer_value(json_object_get(args, "step")) != (json_int_t)step ||
            json_integer_value(json_object_get(args, "micro_batch")) != (json_int_t)micro_batch)
            continue;
        assert_true(json_integer_value(json_object_get(item, "tid")) ==
                    json_integer_value(json_object_get(end, "tid")));
        assert_true(fabs(at - (is_start ? begin : begin + duration)) < 0.0005);
        return;
    }
    fail_msg("no slice `%s` of step %u, micro-batch %u", name, step, micro_batch);
}

/* Checks that every arrow has both ends; returns their number. */
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
        if (strcmp(text_of(item, "ph"), "s") != 0)
            continue;
        json_object_set_new(starts, text_of(item, "id"), json_true());
        assert_at_slice(events, item);
    }
    json_array_foreach(events, index, item)
    {
        if (strcmp(text_of(item, "ph"), "f") != 0)
            continue;
        assert_non_null(json_object_get(starts, text_of(item, "id")));
        assert_at_slice(events, item);
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

    /* There are at least three edges forward and three backward. */
    assert_true(check_arrows(&options) >= RUNS * ITERATIONS * ACCUMULATION * 6);
}

static void test_arrows_of_a_short_ring(void **state)
{
    bg_options options = make_options(true);
    size_t count;
    (void)state;

    options.reporting.trace_events = 37;
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
            options.reporting.trace_events = 37;
        run = run_network(&options, true);
        require(bg_profile_print_summary(run.session, run.plan, &text, &error), &error);
        assert_int_equal(strstr(text, "4 of 4 devices kept only their latest 37 actions") != NULL, is_short);
        free(text);
        clear(&run);
    }
}

/* Computes from the recorded events the compute time of each stage, with updates, divided by its number of forward
 * actions. */
static void sum_events(const traced_run *run, double *mean_us)
{
    const bg_plan_summary summary = bg_plan_summarize(run->plan);
    double work_ns[8] = {0}, forwards[8] = {0};

    for (uint32_t device = 0; device < summary.device_count; device++)
        for (uint32_t i = 0; i < bg_session_trace_count(run->session, 0, device); i++) {
            bg_error error = {0};
            bg_trace_event event;
            require(bg_session_trace_event(run->session, 0, device, i, &event, &error), &error);
            switch (event.action.kind) {
            case BG_ACTION_FORWARD:
                forwards[event.action.stage] += 1.0; /* fall through */
            case BG_ACTION_BACKWARD:
            case BG_ACTION_WEIGHTS:
            case BG_ACTION_RECOMPUTE:
            case BG_ACTION_UPDATE:
                work_ns[event.action.stage] += (double)(event.end_ns - event.start_ns);
                break;
            default:
                break;
            }
        }
    for (uint32_t stage = 0; stage < summary.stage_count; stage++)
        mean_us[stage] = 1e-3 * work_ns[stage] / forwards[stage];
}

/* Checks that the summary's stage times are those of the events, and that the balance is the longest time divided by
 * the mean. */
static void check_stages(const traced_run *run, const char *text)
{
    double wanted[8], longest = 0.0, sum = 0.0, found, balance;
    unsigned number, longest_stage = 0;
    const char *line = strstr(text, "stage 0: ");

    sum_events(run, wanted);
    for (unsigned stage = 0; stage < 4; stage++) {
        assert_non_null(line);
        assert_int_equal(sscanf(line, "stage %u: %lf us a micro-batch", &number, &found), 2);
        assert_int_equal(number, stage);
        assert_true(fabs(found - wanted[stage]) < 0.051);
        sum += wanted[stage];
        if (wanted[stage] > longest)
            longest = wanted[stage], longest_stage = stage;
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(sscanf(line, "stage balance: the longest stage (%u) takes %lf times the mean", &number, &balance),
                     2);
    assert_int_equal(number, longest_stage);
    assert_true(fabs(balance - 4.0 * longest / sum) < 0.0051);
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
    check_stages(&run, text);
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

    options.reporting.trace = false;
    run = run_network(&options, true);
    assert_int_equal(bg_profile_write_trace(run.session, run.plan, run.path, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "options.reporting.trace"));
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

/* ---- reductions during backward actions ---- */

enum { LAYERS = 4, LOOKS = 60 };

/* Opens a session of a GPT with two data-parallel replicas. */
static traced_run make_gpt(bg_options options, uint32_t cores)
{
    traced_run run = {.path = ""};
    bg_gpt_options model = bg_gpt_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_gpt gpt;

    model.layers = LAYERS, model.hidden = 128, model.heads = 2;
    model.vocabulary = 64, model.sequence_length = model.positions = 8;
    options.execution.cores = cores;
    options.execution.device_iterations = 1;
    options.execution.gradient_accumulation = 2;
    options.numerics.max_gradient_norm = 1.0;
    options.memory.recompute = BG_RECOMPUTE_STAGE;
    options.replicas.count = 2;
    require(bg_graph_create(&graph, &error), &error);
    gpt = bg_gpt_build(graph, &model);
    require(bg_plan_create_training(graph, gpt.loss, &optimizer, &options, &run.plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(run.plan, NULL, &run.session, &error), &error);
    return run;
}

/* Opens a session of a GPT in phases on one device for each replica, or on two devices that alternate. */
static traced_run make_phased_gpt(bool is_parallel, uint32_t cores)
{
    bg_options options = make_options(true);

    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.phases_parallel = is_parallel;
    if (cores == 1) /* one worker does everything, so the order does not depend on time */
        options.execution.io_threads = 0;
    return make_gpt(options, cores);
}

/* Returns the position of a device's last instruction of the kind for the stage, or UINT32_MAX. */
static uint32_t find_last(const bgi_plan_device *device, bg_action_kind kind, uint32_t stage)
{
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        if (device->instructions[i].action.kind == kind && device->instructions[i].action.stage == stage)
            found = i;
    return found;
}

static bg_trace_event event_at(const traced_run *run, uint32_t replica, uint32_t device, uint32_t index)
{
    bg_trace_event event = {.step = 0};
    bg_error error = {0};

    require(bg_session_trace_event(run->session, replica, device, index, &event, &error), &error);
    return event;
}

/* Returns whether a backward action of the stage ran on this device of the replica during the reduction. */
static bool meets_backward(const traced_run *run, const bg_trace_event *reduction, uint32_t stage, uint32_t device)
{
    for (uint32_t i = 0; i < bg_session_trace_count(run->session, reduction->replica, device); i++) {
        const bg_trace_event event = event_at(run, reduction->replica, device, i);
        if (event.action.kind == BG_ACTION_BACKWARD && event.action.stage == stage && event.step == reduction->step &&
            event.start_ns < reduction->end_ns && reduction->start_ns < event.end_ns)
            return true;
    }
    return false;
}

/* Counts reductions during backward actions: with `apart` those of the other device of two, otherwise those of the same
 * device. */
static uint32_t count_overlaps(const traced_run *run, uint32_t apart)
{
    uint32_t count = 0;

    for (uint32_t replica = 0; replica < 2; replica++)
        for (uint32_t device = 0; device <= apart; device++)
            for (uint32_t i = 0; i < bg_session_trace_count(run->session, replica, device); i++) {
                const bg_trace_event event = event_at(run, replica, device, i);
                count += event.action.kind == BG_ACTION_REDUCE && event.action.stage > 0 &&
                         meets_backward(run, &event, event.action.stage - 1, apart != 0 ? 1 - device : device);
            }
    return count;
}

static void update(traced_run *run)
{
    const void *inputs[2] = {0};
    void *outputs[8] = {0}, *data = calloc(1, 1 << 16);
    bg_error error = {0};

    assert_non_null(data);
    for (uint32_t i = 0; i < bg_session_input_count(run->session); i++)
        inputs[i] = data;
    require(bg_session_run(run->session, inputs, outputs, &error), &error);
    free(data);
}

/* A layer's gradients are reduced after its last backward. At that time the previous layer has all inputs of its
 * backward action, so both run at the same time. */
static void test_reductions_overlap_backwards(void **state)
{
    traced_run run = make_phased_gpt(true, 4);
    uint32_t overlaps = 0;

    (void)state;
    for (uint32_t stage = 1; stage < bg_plan_summarize(run.plan).stage_count; stage++) {
        const bgi_plan_device *device = &run.plan->devices[stage % 2];
        const uint32_t backward = find_last(device, BG_ACTION_BACKWARD, stage),
                       reduced = find_last(device, BG_ACTION_REDUCE, stage);
        assert_int_not_equal(reduced, UINT32_MAX);
        assert_int_equal(device->instructions[backward + 1].action.kind, BG_ACTION_SEND);
        assert_true(backward + 1 < reduced);
    }
    for (int look = 0; look < LOOKS && overlaps == 0; look++) {
        update(&run);
        overlaps = count_overlaps(&run, 1);
    }
    if (overlaps == 0)
        fail_msg("in %d updates of %d layers no reduction ran beside the backward of the layer before", LOOKS, LAYERS);
    clear(&run);
}

/* A device that runs all phases continues with the next phase, of the previous layer, while a layer's gradients are
 * reduced. */
static void test_reductions_overlap_backwards_of_the_device(void **state)
{
    traced_run run = make_phased_gpt(false, 2);
    uint32_t overlaps = 0;

    (void)state;
    for (int look = 0; look < LOOKS && overlaps == 0; look++) {
        update(&run);
        overlaps = count_overlaps(&run, 0);
    }
    if (overlaps == 0)
        fail_msg("in %d updates of %d layers no reduction ran beside the backward of the layer before", LOOKS, LAYERS);
    clear(&run);
}

/* Returns whether any of the stage's sums ran during the stage's last backward action. */
static bool meets_own_backward(const traced_run *run)
{
    for (uint32_t replica = 0; replica < 2; replica++)
        for (uint32_t i = 0; i < bg_session_trace_count(run->session, replica, 0); i++) {
            const bg_trace_event event = event_at(run, replica, 0, i);
            if (event.action.kind == BG_ACTION_REDUCE && event.is_beside && meets_backward(run, &event, 0, 0))
                return true;
        }
    return false;
}

/* A device with a single stage sums the gradients of the last layers while it runs the backward pass of the first
 * layers. */
static void test_reductions_overlap_the_only_backward(void **state)
{
    bg_options options = make_options(true);
    traced_run run;
    bool is_met = false;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.io_threads = 1; /* the thread that runs the sums */
    options.replicas.reduce_bytes = 100000;
    run = make_gpt(options, 2);
    assert_true(bg_plan_summarize(run.plan).sums_beside >= LAYERS);
    for (int look = 0; look < LOOKS && !is_met; look++) {
        update(&run);
        is_met = meets_own_backward(&run);
    }
    if (!is_met)
        fail_msg("in %d updates of %d layers no reduction ran beside the backward", LOOKS, LAYERS);
    clear(&run);
}

/* Finds when the stage's backward actions of an update began and ended. */
static void find_backwards(const traced_run *run, uint32_t replica, uint32_t stage, uint64_t *begin_ns,
                           uint64_t *end_ns)
{
    *begin_ns = UINT64_MAX, *end_ns = 0;
    for (uint32_t i = 0; i < bg_session_trace_count(run->session, replica, 0); i++) {
        const bg_trace_event event = event_at(run, replica, 0, i);
        if (event.action.kind != BG_ACTION_BACKWARD || event.action.stage != stage)
            continue;
        *begin_ns = event.start_ns < *begin_ns ? event.start_ns : *begin_ns;
        *end_ns = event.end_ns > *end_ns ? event.end_ns : *end_ns;
    }
}

/* One worker runs both replicas: the replica that reaches a reduction first runs all backwards of the next phase before
 * the other one reaches it. The events on the track beside the program show each replica's share, after both have
 * arrived. */
static void test_nobody_waits_for_those_who_come_late(void **state)
{
    traced_run run = make_phased_gpt(false, 1);
    const uint32_t last = bg_plan_summarize(run.plan).stage_count - 1;
    uint64_t begin_ns[2], end_ns[2], next_begin_ns[2], next_end_ns[2];
    uint32_t first, shares = 0;

    (void)state;
    update(&run);
    for (uint32_t replica = 0; replica < 2; replica++) {
        find_backwards(&run, replica, last, &begin_ns[replica], &end_ns[replica]);
        find_backwards(&run, replica, last - 1, &next_begin_ns[replica], &next_end_ns[replica]);
    }
    first = end_ns[0] < end_ns[1] ? 0 : 1;
    assert_true(end_ns[first] < next_begin_ns[first] && next_end_ns[first] < end_ns[1 - first]);
    for (uint32_t replica = 0; replica < 2; replica++)
        for (uint32_t i = 0; i < bg_session_trace_count(run.session, replica, 0); i++) {
            const bg_trace_event event = event_at(&run, replica, 0, i);
            if (event.action.kind != BG_ACTION_REDUCE || !event.is_beside)
                continue;
            shares++;
            for (uint32_t other = 0; other < 2; other++) {
                find_backwards(&run, other, event.action.stage, &begin_ns[0], &end_ns[0]);
                assert_true(event.start_ns >= end_ns[0]);
            }
        }
    assert_int_equal(shares, 2 * (last + 1));
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
        cmocka_unit_test(test_reductions_overlap_backwards),
        cmocka_unit_test(test_reductions_overlap_backwards_of_the_device),
        cmocka_unit_test(test_reductions_overlap_the_only_backward),
        cmocka_unit_test(test_nobody_waits_for_those_who_come_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
