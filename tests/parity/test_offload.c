/*
 * test_offload.c: the location of tensors changes memory but not results. Every class of tensors is moved off the
 * devices, alone and with other classes, under every strategy, with every liveness and any number of I/O threads, in
 * memory and in files. The touched bytes are those of the plan. A network eight times as large as a device's memory
 * trains on that device.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/folder.h"
#include "support/models.h"
#include "support/plan_check.h"
#include "support/train.h"

enum { UPDATES = 3, ACCUMULATION = 7, MICRO_BATCH = 4, ALL_CLASSES = (1 << BG_LOCATION_COUNT) - 1 };

/* The results of a run: the bytes of every weight and of every loss. */
typedef struct result {
    size_t size;
    unsigned char *bytes;
    size_t device_bytes, remote_bytes, window_bytes; /* memory of the device that needs most */
} result;

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static void append(result *r, const void *bytes, size_t size)
{
    r->bytes = realloc(r->bytes, r->size + size);
    assert_non_null(r->bytes);
    memcpy(r->bytes + r->size, bytes, size);
    r->size += size;
}

static void collect(const bg_plan *plan, bg_session *session, result *out, const char *what)
{
    bg_weights *weights = bg_session_weights(session);
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bg_error error = {0};

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        require(bg_weights_at(weights, i, &weight, &error), &error, what);
        append(out, weight.data, bg_type_size_bytes(&weight.type));
    }
    for (uint32_t d = 0; d < summary.device_count; d++) {
        const size_t bytes = bg_plan_device_bytes(plan, d);
        if (bg_session_has_device(session, 0, d) && bg_session_device_bytes(session, 0, d) != bytes)
            fail_msg("%s: device %u touched %zu bytes, the plan says %zu", what, d,
                     bg_session_device_bytes(session, 0, d), bytes);
        if (bytes > out->device_bytes)
            out->device_bytes = bytes;
        out->remote_bytes += bg_plan_memory_bytes(plan, d, BG_MEMORY_REMOTE);
        out->window_bytes += bg_plan_memory_bytes(plan, d, BG_MEMORY_WINDOW);
    }
}

static result run_plan(const bg_plan *plan, const char *what)
{
    result r = {0};
    bg_error error = {0};
    bg_session *session = NULL;
    void *inputs[8] = {0}, *outputs[8] = {0};
    bg_stream stream;

    require(bg_session_create(plan, NULL, &session, &error), &error, what);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        require(bg_session_input(session, i, &stream, &error), &error, what);
        inputs[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count);
    }
    for (uint32_t i = 0; i < bg_session_output_count(session); i++) {
        require(bg_session_output(session, i, &stream, &error), &error, what);
        outputs[i] = malloc(stream.size_bytes);
    }
    for (uint32_t run = 0; run < 2; run++) {
        require(bg_session_run(session, (const void *const *)inputs, outputs, &error), &error, what);
        for (uint32_t i = 0; i < bg_session_output_count(session); i++) {
            require(bg_session_output(session, i, &stream, &error), &error, what);
            append(&r, outputs[i], stream.size_bytes);
        }
    }
    collect(plan, session, &r, what);
    for (uint32_t i = 0; i < 8; i++)
        free(inputs[i]), free(outputs[i]);
    bg_session_destroy(session);
    return r;
}

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.device_iterations = UPDATES;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 42;
    options.execution.wait_limit_s = 60;
    options.reporting.trace = true;
    options.reporting.trace_events = 16;
    options.execution.cores = 2;
    return options;
}

static void move_off(bg_options *options, unsigned classes, bool on_demand)
{
    for (unsigned k = 0; k < BG_LOCATION_COUNT; k++) {
        options->memory.locations[k].place = (classes >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        options->memory.locations[k].on_demand = on_demand;
    }
}

static result train(const test_model *model, const bg_options *options, const char *what)
{
    bg_optimizer optimizer = bg_adamw(0.003);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan = NULL;
    bg_value loss;
    result r;

    require(bg_graph_create(&graph, &error), &error, what);
    loss = model->build(graph, MICRO_BATCH);
    require(bg_plan_create_training(graph, loss, &optimizer, options, &plan, &error), &error, what);
    bg_graph_destroy(graph);
    r = run_plan(plan, what);
    bg_plan_destroy(plan);
    return r;
}

static void assert_same(const result *r, const result *expected, const char *what)
{
    if (r->size != expected->size || memcmp(r->bytes, expected->bytes, r->size) != 0)
        fail_msg("%s: differs from the single device", what);
}

static const struct {
    bg_strategy strategy;
    const char *schedule, *stages;
} ways[] = {
    {BG_STRATEGY_SINGLE, NULL, NULL},
    {BG_STRATEGY_SHARDED, NULL, "B1|B2,B3|B4"},
    {BG_STRATEGY_PIPELINED, "interleaved", "B1|B2|B3|B4"},
    {BG_STRATEGY_PIPELINED, "grouped", "B1|B2,B3|B4"},
    {BG_STRATEGY_PIPELINED, "sequential", "B1,B2|B3|B4"},
    {BG_STRATEGY_PHASED, NULL, "B1@0|B2@0|B3@0|B4@0"},
    {BG_STRATEGY_PHASED, NULL, "B1@0|B2@1|B3@0|B4@1"},
};

/* Moves each class alone, and all classes; the full matrix also has all classes except one, and some pairs. Other
 * options change from case to case. */
static void run_matrix(unsigned model_index)
{
    static const unsigned classes[] = {1, 2, 4, 8, 15, 14, 13, 11, 7, 3, 10, 12};
    const test_model *model = test_model_at(model_index);
    const bool is_quick = getenv("BRIGADE_TEST_QUICK") != NULL, is_long = getenv("BRIGADE_TEST_ALL") != NULL;
    bg_options options = make_options();
    char folder[TEST_FOLDER_BYTES];
    result expected;
    unsigned number = model_index;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    expected = train(model, &options, model->name);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (size_t k = 0; k < (is_long ? sizeof classes / sizeof classes[0] : 5); k++) {
            char what[256];
            result r;
            if (number++ % (is_quick ? 7 : 1) != 0)
                continue;
            options = make_options();
            options.execution.strategy = ways[w].strategy;
            options.execution.schedule = ways[w].schedule;
            options.execution.stages = ways[w].stages;
            options.memory.phase_liveness = (bg_phase_liveness)(number % 4);
            options.execution.io_threads = (int32_t)(number / 2 % 4) - 1;
            options.execution.cores = 1 + number % 3;
            move_off(&options, classes[k], number / 3 % 2 == 0);
            test_folder_create(folder);
            options.files.memmap_dir = number % 3 == 0 ? NULL : folder;
            snprintf(what, sizeof what, "%s: %s %s %s, classes %u, %s, %s, %d I/O threads, %u cores, %s", model->name,
                     bg_option_value_name("strategy", options.execution.strategy),
                     options.execution.schedule != NULL ? options.execution.schedule : "-",
                     options.execution.stages != NULL ? options.execution.stages : "-", classes[k],
                     bg_option_value_name("phase_liveness", options.memory.phase_liveness),
                     options.memory.locations[0].on_demand ? "on demand" : "preload", options.execution.io_threads,
                     options.execution.cores, options.files.memmap_dir != NULL ? "files" : "memory");
            r = train(model, &options, what);
            test_folder_remove(folder);
            assert_same(&r, &expected, what);
            if ((classes[k] & ~1u) != 0 && r.remote_bytes == 0)
                fail_msg("%s: nothing is remote", what);
            free(r.bytes);
        }
    free(expected.bytes);
}

static void digits_are_the_same(void **state)
{
    (void)state;
    run_matrix(0);
}

static void batch_norm_is_the_same(void **state)
{
    (void)state;
    run_matrix(1);
}

static void tied_embeddings_are_the_same(void **state)
{
    (void)state;
    run_matrix(2);
}

static void values_for_every_stage_are_the_same(void **state)
{
    (void)state;
    run_matrix(3);
}

/* Gradients are summed over replicas in windows, even if a device has several stages and updates of several levels. */
static void replicas_are_the_same(void **state)
{
    static const struct {
        bg_strategy strategy;
        const char *stages;
    } cases[] = {{BG_STRATEGY_PIPELINED, "B1|B2|B3,B4"}, {BG_STRATEGY_PHASED, "B1@0|B2@0|B3@0|B4@0"}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        bg_options options = make_options();
        result expected, r;
        options.replicas.count = 3;
        options.execution.strategy = cases[k].strategy;
        options.execution.stages = cases[k].stages;
        move_off(&options, 0, false);
        expected = train(test_model_at(0), &options, "replicas");
        move_off(&options, ALL_CLASSES, false);
        for (int liveness = 0; liveness < 4; liveness++) {
            options.memory.phase_liveness = (bg_phase_liveness)liveness;
            r = train(test_model_at(0), &options, "replicas, offloaded");
            assert_same(&r, &expected, "replicas, offloaded");
            free(r.bytes);
        }
        free(expected.bytes);
    }
}

/* Checks the plan itself, for any timing of its transfers (tests/support/plan_check.h). */
static void plans_hold_with_any_timing(void **state)
{
    (void)state;
    for (unsigned model = 0; test_model_at(model) != NULL; model++)
        for (unsigned way = 0; way < 8; way++) {
            bg_options options = make_options();
            bg_error error = {0};
            bg_graph *graph = NULL;
            bg_value loss;
            char what[64];
            snprintf(what, sizeof what, "model %u, way %u", model, way);
            options.execution.strategy = BG_STRATEGY_PHASED;
            options.execution.stages = way % 2 == 0 ? "B1@0|B2@0|B3@0|B4@0" : "B1@0|B2@1|B3@0|B4@1";
            options.memory.phase_liveness = (bg_phase_liveness)(way / 2);
            options.execution.device_iterations = 1;
            move_off(&options, ALL_CLASSES, false);
            require(bg_graph_create(&graph, &error), &error, what);
            loss = test_model_at(model)->build(graph, MICRO_BATCH);
            bgi_test_check_training(graph, loss, &options, what);
            bg_graph_destroy(graph);
        }
}

/* ---- memory ---- */

enum { LAYERS = 16, WIDTH = 64, SAMPLES = 8, DEEP_ACCUMULATION = 8 };

/* Compiles layers of WIDTH x WIDTH, one in each stage, with all stages on one device. */
static bg_plan *make_deep(const bg_options *base, bg_error *error)
{
    static char stages[LAYERS * 24];
    bg_options options = *base;
    bg_optimizer optimizer = bg_adamw(0.01);
    const bg_type x_type = {.dtype = BG_FLOAT32, .rank = 2, .dims = {SAMPLES, WIDTH}};
    const bg_type label_type = {.dtype = BG_INT32, .rank = 1, .dims = {SAMPLES}};
    bg_graph *graph;
    bg_plan *plan = NULL;
    bg_value x, labels, loss = {0};

    stages[0] = '\0';
    require(bg_graph_create(&graph, error), error, "graph");
    x = bg_graph_input(graph, "x", &x_type);
    labels = bg_graph_input(graph, "labels", &label_type);
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "L%d", i);
        snprintf(stages + strlen(stages), sizeof stages - strlen(stages), "%s%s@0", i > 0 ? "|" : "", name);
        bg_block_begin(graph, name, 0);
        x = bg_linear_layer(graph, name, x, WIDTH, true);
        if (i + 1 < LAYERS)
            x = bg_relu(graph, x);
        else
            loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
        bg_block_end(graph);
    }
    bg_graph_output(graph, "loss", loss);
    if (options.execution.strategy == BG_STRATEGY_SINGLE)
        stages[0] = '\0';
    else
        options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.stages = stages;
    options.execution.gradient_accumulation = DEEP_ACCUMULATION;
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, error) != BG_OK)
        plan = NULL;
    bg_graph_destroy(graph);
    return plan;
}

static result run_deep(const bg_options *options, const char *what)
{
    bg_error error = {0};
    bg_plan *plan = make_deep(options, &error);
    result r;

    if (plan == NULL)
        fail_msg("%s: %s", what, error.message);
    r = run_plan(plan, what);
    bg_plan_destroy(plan);
    return r;
}

/* A network that needs more than eight times the device's memory is an error; with its tensors remote it trains there
 * and gives the same bits. */
static void eight_times_the_memory_trains(void **state)
{
    bg_options options = make_options();
    bg_error error = {0};
    result whole, r;

    (void)state;
    move_off(&options, 0, false);
    whole = run_deep(&options, "unlimited");
    options.memory.device_memory_bytes = whole.device_bytes / 8;
    assert_null(make_deep(&options, &error));
    assert_int_equal(error.status, BG_ERROR_BUDGET);
    move_off(&options, ALL_CLASSES, true);
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    r = run_deep(&options, "an eighth of the memory");
    assert_same(&r, &whole, "an eighth of the memory");
    assert_true(8 * r.device_bytes <= whole.device_bytes);
    free(r.bytes);
    free(whole.bytes);
}

/* Phases that are never on the device at the same time share a window. Without preload or overlap one phase is on the
 * device at a time, and with preload two. */
static void windows_are_shared(void **state)
{
    const size_t layer_bytes = (WIDTH * WIDTH + WIDTH) * sizeof(float);
    bg_options options = make_options();
    result all, preload, one_by_one, on_demand;

    (void)state;
    /* With sums, no update waits for a total count, so each stage is updated right after its backward pass. */
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    move_off(&options, 1u << BG_LOCATION_WEIGHTS, false);
    options.memory.phase_liveness = BG_LIVE_ALWAYS;
    all = run_deep(&options, "always live");
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_FWD;
    preload = run_deep(&options, "preload");
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP;
    one_by_one = run_deep(&options, "no overlap");
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_FWD;
    move_off(&options, 1u << BG_LOCATION_WEIGHTS, true);
    on_demand = run_deep(&options, "on demand");
    assert_int_equal(on_demand.window_bytes, layer_bytes);
    assert_int_equal(preload.window_bytes, 2 * layer_bytes);
    assert_int_equal(one_by_one.window_bytes, layer_bytes);
    assert_int_equal(all.window_bytes, LAYERS * layer_bytes);
    assert_same(&preload, &all, "preload");
    assert_same(&one_by_one, &all, "no overlap");
    assert_same(&on_demand, &all, "on demand");
    free(all.bytes);
    free(preload.bytes);
    free(one_by_one.bytes);
    free(on_demand.bytes);
}

/* The device has the state of one variable at a time, or of two when the next one is loaded ahead. */
static void state_comes_one_variable_at_a_time(void **state)
{
    const size_t state_bytes = 2 * WIDTH * WIDTH * sizeof(float); /* the two moments of a matrix */
    bg_options options = make_options();
    result on_device, on_demand, preload;

    (void)state;
    move_off(&options, 0, false);
    on_device = run_deep(&options, "on the device");
    move_off(&options, 1u << BG_LOCATION_STATE, true);
    on_demand = run_deep(&options, "on demand");
    move_off(&options, 1u << BG_LOCATION_STATE, false);
    preload = run_deep(&options, "preload");
    assert_same(&on_demand, &on_device, "on demand");
    assert_same(&preload, &on_device, "preload");
    assert_true(on_demand.device_bytes + (LAYERS - 1) * state_bytes <= on_device.device_bytes);
    assert_true(on_demand.device_bytes <= preload.device_bytes);
    free(on_demand.bytes);
    free(preload.bytes);
    /* Also in one update of many variables, a load runs at most one variable ahead. */
    options.execution.strategy = BG_STRATEGY_SINGLE;
    move_off(&options, 1u << BG_LOCATION_STATE, true);
    on_demand = run_deep(&options, "on demand, single");
    move_off(&options, 1u << BG_LOCATION_STATE, false);
    preload = run_deep(&options, "preload, single");
    assert_true(on_demand.device_bytes < preload.device_bytes);
    assert_true(preload.device_bytes <= on_demand.device_bytes + 2 * state_bytes);
    assert_same(&on_demand, &on_device, "on demand, single");
    assert_same(&preload, &on_device, "preload, single");
    free(on_device.bytes);
    free(on_demand.bytes);
    free(preload.bytes);
}

/* Offloaded state also leaves every device of a pipeline; run_plan compares the touched bytes with the plan. On three
 * devices, transient memory exceeds what an update of one variable needs, so the peak drops by exactly the state's
 * bytes. Device 2 has nearly all parameters in one matrix, so its memory includes that matrix's state while it is
 * loaded. */
static void state_leaves_the_devices_to_the_byte(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = make_options();
    bg_plan *on, *off;
    result r, expected;

    (void)state;
    options.execution.stages = "B1|B2|B3|B4";
    on = test_train_plan(test_model_at(0), MICRO_BATCH, &optimizer, &options, "on");
    options.memory.offload_optimizer = true;
    off = test_train_plan(test_model_at(0), MICRO_BATCH, &optimizer, &options, "off");
    assert_int_equal(bg_plan_summarize(on).device_count, 4);
    for (uint32_t d = 0; d < 4; d++) {
        const size_t bytes = bg_plan_memory_bytes(on, d, BG_MEMORY_STATE);
        const size_t place =
            bg_plan_memory_bytes(off, d, BG_MEMORY_TRANSIENT) - bg_plan_memory_bytes(on, d, BG_MEMORY_TRANSIENT);

        assert_true(bytes > 0);
        assert_int_equal(bg_plan_memory_bytes(off, d, BG_MEMORY_STATE), 0);
        assert_int_equal(bg_plan_memory_bytes(off, d, BG_MEMORY_REMOTE), bytes);
        assert_int_equal(bg_plan_device_bytes(on, d) - bg_plan_device_bytes(off, d), bytes - place);
        assert_true(d == 2 ? place < bytes : place == 0);
    }
    expected = run_plan(on, "state on the devices");
    r = run_plan(off, "state off the devices");
    assert_same(&r, &expected, "state off the devices");
    free(r.bytes);
    free(expected.bytes);
    bg_plan_destroy(on);
    bg_plan_destroy(off);
}

/* With phases, variables without a location are remote; with the other strategies they are not. */
static void phases_keep_nothing_by_default(void **state)
{
    const size_t matrix = WIDTH * WIDTH * sizeof(float), bias = WIDTH * sizeof(float);
    bg_options options = make_options();
    result all, given, none;

    (void)state;
    all = run_deep(&options, "default");
    for (unsigned k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = BG_PLACE_REMOTE;
    given = run_deep(&options, "remote");
    assert_int_equal(all.device_bytes, given.device_bytes);
    assert_int_equal(all.remote_bytes, given.remote_bytes);
    /* The weights, accumulators, two moments and activations are remote. */
    assert_true(all.remote_bytes > 4 * LAYERS * (matrix + bias));
    move_off(&options, 0, false);
    none = run_deep(&options, "device");
    assert_int_equal(none.remote_bytes, 0);
    assert_same(&all, &none, "default");
    assert_same(&given, &none, "remote");
    free(all.bytes);
    free(given.bytes);
    free(none.bytes);
    /* If no sum over all gradients delays the updates, the device holds weights and gradients of two layers at a time,
     * one of them the current one, and activations. */
    options = make_options();
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    all = run_deep(&options, "default, sum");
    assert_in_range(all.window_bytes, 4 * (matrix + bias), 5 * (matrix + bias));
    free(all.bytes);
    options = make_options();
    options.execution.strategy = BG_STRATEGY_SINGLE;
    none = train(test_model_at(0), &options, "single");
    assert_int_equal(none.remote_bytes, 0);
    free(none.bytes);
}

/* Recomputes with remote activations: between the ops of B, in a separate action R, and as much as a memory budget
 * requires. */
static void recomputation_is_the_same(void **state)
{
    bg_options options = make_options();
    result expected, plain, r;

    (void)state;
    move_off(&options, 0, false);
    expected = run_deep(&options, "kept on the device");
    move_off(&options, ALL_CLASSES, false);
    plain = run_deep(&options, "remote");
    for (int way = 0; way < 3; way++) {
        options.memory.recompute = way == 2 ? BG_RECOMPUTE_AUTO : BG_RECOMPUTE_STAGE;
        options.memory.recompute_order = way == 1 ? BG_RECOMPUTE_THEN : BG_RECOMPUTE_INTERLEAVED;
        options.memory.device_memory_bytes = way == 2 ? plain.device_bytes : 0;
        r = run_deep(&options, "recomputed");
        assert_same(&r, &expected, "recomputed");
        assert_true(way != 2 || r.device_bytes <= plain.device_bytes);
        free(r.bytes);
    }
    free(expected.bytes);
    free(plain.bytes);
}

/* Clipping reads every accumulator in one level of the update and again in a later one; running means start again from
 * zero. */
static void clipped_running_means_are_the_same(void **state)
{
    bg_options options = make_options();
    result expected, r;

    (void)state;
    options.numerics.max_gradient_norm = 0.1;
    options.numerics.accumulation = BG_ACCUMULATE_MEAN_RUNNING;
    move_off(&options, 0, false);
    expected = run_deep(&options, "clipped");
    move_off(&options, ALL_CLASSES, true);
    for (int liveness = 0; liveness < 4; liveness++) {
        options.memory.phase_liveness = (bg_phase_liveness)liveness;
        r = run_deep(&options, "clipped, offloaded");
        assert_same(&r, &expected, "clipped, offloaded");
        free(r.bytes);
    }
    free(expected.bytes);
}

/* ---- time ---- */

/* Counts the pairs of a transfer of this kind and a compute action of the same device that overlap in time. */
static uint32_t count_overlaps(const bg_session *session, bg_action_kind kind, uint32_t *out_transfers)
{
    const uint32_t count = bg_session_trace_count(session, 0, 0);
    bg_trace_event a, b;
    uint32_t overlaps = 0;

    *out_transfers = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(bg_session_trace_event(session, 0, 0, i, &a, NULL), BG_OK);
        if (a.action.kind != kind)
            continue;
        (*out_transfers)++;
        for (uint32_t k = 0; k < count; k++) {
            assert_int_equal(bg_session_trace_event(session, 0, 0, k, &b, NULL), BG_OK);
            overlaps += (b.action.kind == BG_ACTION_FORWARD || b.action.kind == BG_ACTION_BACKWARD ||
                         b.action.kind == BG_ACTION_UPDATE) &&
                        a.start_ns < b.end_ns && b.start_ns < a.end_ns;
        }
    }
    return overlaps;
}

/* Four stages with weights of 4 MB each on one device: while one stage computes, the next one's weights are loaded and
 * the previous one's stored. */
static void measured_transfers_overlap_work(void **state)
{
    enum { WIDE = 1024, STAGES = 4 };
    const bg_type type = {.dtype = BG_FLOAT32, .rank = 2, .dims = {32, WIDE}};
    bg_options options = make_options();
    bg_optimizer optimizer = bg_sgd(0.01);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    void *zeros = NULL;
    const void *inputs[2] = {NULL, NULL};
    void *outputs[] = {NULL};
    uint32_t loads = 0, stores = 0;
    bool has_both = false;
    bg_value x, target;

    (void)state;
#ifdef TEST_COPIED
    skip(); /* one worker, no I/O threads */
#endif
    zeros = calloc(32 * WIDE * 4, sizeof(float));
    assert_non_null(zeros);
    inputs[0] = inputs[1] = zeros;
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.stages = "L0@0|L1@0|L2@0|L3@0";
    options.execution.gradient_accumulation = 4;
    options.execution.device_iterations = 1;
    options.reporting.output_mode = BG_OUTPUT_DEFAULT;
    options.reporting.trace_events = 4096;
    options.execution.cores = 1;
    options.execution.io_threads = 1;
    require(bg_graph_create(&graph, &error), &error, "graph");
    x = bg_graph_input(graph, "x", &type);
    target = bg_graph_input(graph, "target", &type);
    for (int i = 0; i < STAGES; i++) {
        char name[16];
        snprintf(name, sizeof name, "L%d", i);
        bg_block_begin(graph, name, 0);
        x = bg_linear_layer(graph, name, x, WIDE, true);
        if (i + 1 == STAGES)
            x = bg_mse_loss(graph, "loss", x, target, BG_LOSS_MEAN);
        bg_block_end(graph);
    }
    require(bg_plan_create_training(graph, x, &optimizer, &options, &plan, &error), &error, "plan");
    require(bg_session_create(plan, NULL, &session, &error), &error, "session");
    /* On a busy machine the copying thread may be late, but not in every run. */
    for (int run = 0; run < 40 && (run < 4 || !has_both); run++) {
        require(bg_session_run(session, inputs, outputs, &error), &error, "run");
        has_both = count_overlaps(session, BG_ACTION_LOAD, &loads) > 0 &&
                   count_overlaps(session, BG_ACTION_STORE, &stores) > 0;
    }
    assert_true(has_both);
    assert_true(loads >= 4 * 2 * (STAGES - 1) && stores >= 4 * (STAGES - 1));
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    free(zeros);
}

/* ---- rows ---- */

static int compare_rows(const void *a, const void *b)
{
    const size_t x = (*(const bgi_plan_edge *const *)a)->offset, y = (*(const bgi_plan_edge *const *)b)->offset;

    return x < y ? -1 : x > y;
}

/* Each value that a layer sends or stashes has a row of the remote store, with a slot for each micro-batch. The rows
 * are adjacent. Micro-batch m is in slot m of its row, where it is stored once and loaded at least once. */
static void micro_batches_are_steps_of_rows(void **state)
{
    enum { MOST_ROWS = 4 * LAYERS };
    bg_options options = make_options();
    const bgi_plan_edge *rows[MOST_ROWS];
    uint32_t stored[MOST_ROWS][DEEP_ACCUMULATION] = {{0}}, loaded[MOST_ROWS][DEEP_ACCUMULATION] = {{0}}, count = 0;
    bg_error error = {0};
    const bgi_plan_device *device;
    bg_plan *plan;

    (void)state;
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    move_off(&options, ALL_CLASSES, false);
    plan = make_deep(&options, &error);
    if (plan == NULL)
        fail_msg("%s", error.message);
    device = &plan->devices[0];
    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].is_remote) {
            assert_true(count < MOST_ROWS);
            assert_int_equal(plan->edges[e].depth, DEEP_ACCUMULATION);
            rows[count++] = &plan->edges[e];
        }
    /* The rows are the values that layers send forward and backward, and those that each layer except the first
     * stashes. */
    assert_int_equal(count, 3 * (LAYERS - 1));
    qsort(rows, count, sizeof rows[0], compare_rows);
    for (uint32_t r = 0; r + 1 < count; r++)
        assert_int_equal(rows[r + 1]->offset, rows[r]->offset + DEEP_ACCUMULATION * rows[r]->slot_bytes);
    for (uint32_t t = 0; t < device->transfer_count; t++) {
        const bgi_transfer *transfer = &device->transfers[t];
        const uint32_t m = transfer->action.micro_batch;
        uint32_t r = 0;
        while (r < count && transfer->remote_offset >= rows[r]->offset + DEEP_ACCUMULATION * rows[r]->slot_bytes)
            r++;
        if (r == count || transfer->remote_offset < rows[r]->offset)
            continue; /* of a variable */
        assert_int_equal(transfer->remote_offset, rows[r]->offset + m * rows[r]->slot_bytes);
        if (transfer->action.kind == BG_ACTION_STORE)
            stored[r][m]++;
        else
            loaded[r][m]++;
    }
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t m = 0; m < DEEP_ACCUMULATION; m++)
            if (stored[r][m] != 1 || loaded[r][m] == 0)
                fail_msg("row %u, step %u: stored %u times, loaded %u times", r, m, stored[r][m], loaded[r][m]);
    bg_plan_destroy(plan);
}

/* ---- rules ---- */

static size_t count_remote(const bg_options *options)
{
    bg_error error = {0};
    bg_plan *plan = make_deep(options, &error);
    size_t bytes;

    if (plan == NULL)
        fail_msg("%s", error.message);
    bytes = bg_plan_memory_bytes(plan, 0, BG_MEMORY_REMOTE);
    bg_plan_destroy(plan);
    return bytes;
}

static void rules_and_minima_choose_tensors(void **state)
{
    const bg_tensor_location far = {.place = BG_PLACE_REMOTE, .minimum_elements_remote = 2};
    const bg_tensor_location near = {.place = BG_PLACE_DEVICE};
    const size_t matrix = WIDTH * WIDTH * sizeof(float), bias = WIDTH * sizeof(float);
    bg_location_rule rules[2] = {{1u << BG_LOCATION_WEIGHTS, "L1?.weight", far},
                                 {1u << BG_LOCATION_WEIGHTS, "*2.weight", near}};
    bg_options options = make_options();

    (void)state;
    move_off(&options, 0, false);
    assert_int_equal(count_remote(&options), 0);
    options.memory.location_rules = rules;
    options.memory.location_rule_count = 1;
    assert_int_equal(count_remote(&options), 6 * matrix); /* L10 to L15 */
    options.memory.location_rule_count = 2;
    assert_int_equal(count_remote(&options), 5 * matrix); /* the last rule that matches is used */
    options.memory.location_rule_count = 0;
    options.memory.locations[BG_LOCATION_WEIGHTS].place = BG_PLACE_REMOTE;
    assert_int_equal(count_remote(&options), LAYERS * (matrix + bias));
    options.memory.locations[BG_LOCATION_WEIGHTS].minimum_elements_remote = WIDTH + 1;
    assert_int_equal(count_remote(&options), LAYERS * matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_are_the_same),
        cmocka_unit_test(batch_norm_is_the_same),
        cmocka_unit_test(tied_embeddings_are_the_same),
        cmocka_unit_test(values_for_every_stage_are_the_same),
        cmocka_unit_test(replicas_are_the_same),
        cmocka_unit_test(plans_hold_with_any_timing),
        cmocka_unit_test(eight_times_the_memory_trains),
        cmocka_unit_test(windows_are_shared),
        cmocka_unit_test(state_comes_one_variable_at_a_time),
        cmocka_unit_test(state_leaves_the_devices_to_the_byte),
        cmocka_unit_test(phases_keep_nothing_by_default),
        cmocka_unit_test(recomputation_is_the_same),
        cmocka_unit_test(clipped_running_means_are_the_same),
        cmocka_unit_test(measured_transfers_overlap_work),
        cmocka_unit_test(micro_batches_are_steps_of_rows),
        cmocka_unit_test(rules_and_minima_choose_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
