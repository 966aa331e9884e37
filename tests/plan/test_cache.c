/*
 * test_cache.c: plans from a cache print and train exactly like the compiled ones. Only complete files of the same
 * request are used, and loading is many times faster than compiling.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <brigade/gpt.h>
#include <brigade/loop.h>
#include <brigade/nn.h>
#include <brigade/transport.h>

#include "core/clock.h"
#include "core/file.h"
#include "graph/graph.h"
#include "plan/cache.h"
#include "plan/op_types.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/models.h"
#include "support/train.h"

enum { MICRO_BATCH = 3, OPTIONS_BYTES = 808, MOST_REQUESTS = 48 };

/* The printed forms of a plan. */
typedef struct description {
    char *texts[5];
    bg_plan_summary summary;
} description;

/* The logged notes, one on each line. */
typedef struct notes {
    char text[8192];
} notes;

static void keep_note(void *user, bg_log_level level, const char *text)
{
    notes *kept = user;
    const size_t length = strlen(kept->text);

    (void)level;
    snprintf(kept->text + length, sizeof kept->text - length, "%s\n", text);
}

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static description describe(const bg_plan *plan)
{
    description d = {.summary = bg_plan_summarize(plan)};

    assert_int_equal(bg_plan_print_memory(plan, &d.texts[0], NULL), BG_OK);
    assert_int_equal(bg_plan_print_placement(plan, &d.texts[1], NULL), BG_OK);
    assert_int_equal(bg_plan_print_timetable(plan, &d.texts[2], NULL), BG_OK);
    assert_int_equal(bg_plan_print_program(plan, &d.texts[3], NULL), BG_OK);
    assert_int_equal(bg_schedule_print(bg_plan_schedule(plan), &d.texts[4], NULL), BG_OK);
    return d;
}

static void expect_same(description *a, description *b, const char *what)
{
    for (int i = 0; i < 5; i++) {
        if (strcmp(a->texts[i], b->texts[i]) != 0)
            fail_msg("%s: text %d differs:\n%s\n%s", what, i, a->texts[i], b->texts[i]);
        free(a->texts[i]);
        free(b->texts[i]);
    }
    assert_true(a->summary.idle_share == b->summary.idle_share);
    assert_true(a->summary.flops_per_micro_batch == b->summary.flops_per_micro_batch);
    assert_true(a->summary.recompute_share == b->summary.recompute_share);
    assert_int_equal(a->summary.recomputed_op_count, b->summary.recomputed_op_count);
    assert_int_equal(a->summary.samples_per_run, b->summary.samples_per_run);
    assert_int_equal(a->summary.micro_batch, b->summary.micro_batch);
}

/* Finds the path of the only file of a folder. */
static void find_file(const char *folder, char path[512])
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;

    assert_non_null(directory);
    assert_int_equal(test_folder_count(folder), 1);
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            snprintf(path, 512, "%s/%.200s", folder, entry->d_name);
    closedir(directory);
}

/* ---- plans from the cache are the same ---- */

static void set_nothing(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_SINGLE;
}

static void set_pipelined(bg_options *options)
{
    options->execution.gradient_accumulation = 7;
    options->execution.device_iterations = 2;
    options->numerics.max_gradient_norm = 1.0;
}

static void set_zb_h1(bg_options *options)
{
    options->execution.gradient_accumulation = 7;
    options->execution.schedule = "zb-h1";
}

static void set_searched(bg_options *options)
{
    options->execution.gradient_accumulation = 5;
    options->execution.schedule = "auto";
    options->execution.stages = "auto:3";
}

static void set_phased(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_PHASED;
    options->execution.gradient_accumulation = 4;
}

static void set_offloaded(bg_options *options)
{
    options->execution.gradient_accumulation = 4;
    for (int i = 0; i < BG_LOCATION_COUNT; i++)
        options->memory.locations[i].place = BG_PLACE_REMOTE;
    options->memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    options->execution.strategy = BG_STRATEGY_SHARDED;
}

static void set_replicas(bg_options *options)
{
    options->replicas.count = 2;
    options->replicas.reduce_bytes = 1; /* with backward passes in parts */
    options->execution.gradient_accumulation = 4;
    for (int i = 0; i < BG_LOCATION_COUNT; i++) {
        options->memory.locations[i].sharded = i == BG_LOCATION_STATE || i == BG_LOCATION_ACCUMULATORS;
        options->memory.locations[i].minimum_elements_sharded = 2;
    }
}

static void set_recompute(bg_options *options)
{
    options->execution.gradient_accumulation = 7;
    options->memory.recompute = BG_RECOMPUTE_STAGE;
    options->memory.recompute_order = BG_RECOMPUTE_THEN;
}

static void set_auto_scale(bg_options *options)
{
    options->execution.gradient_accumulation = 7;
    options->numerics.auto_loss_scaling.enabled = options->numerics.auto_loss_scaling.output = true;
    options->numerics.loss_scaling = 512.0;
}

/* Gives different limits of scratch to the kernels of equal layers. */
static void set_proportions(bg_options *options)
{
    static const double shares[] = {1e-6, 0.0, 4e-6, 1.0};

    options->execution.gradient_accumulation = 7;
    options->memory.matmul_proportions = shares;
    options->memory.matmul_proportion_count = 4;
}

/* Splits the backward action into parts for the sums of gradients, so that no instruction has all of its calls. */
static void set_parts(bg_options *options)
{
    options->execution.strategy = BG_STRATEGY_SINGLE;
    options->replicas.count = 2;
    options->replicas.reduce_bytes = 1;
}

static const struct {
    const char *name;
    void (*set)(bg_options *options);
} strategies[] = {{"single", set_nothing},
                  {"pipelined", set_pipelined},
                  {"zb-h1", set_zb_h1},
                  {"auto scale", set_auto_scale},
                  {"proportions", set_proportions},
                  {"auto", set_searched},
                  {"phased", set_phased},
                  {"offloaded", set_offloaded},
                  {"replicas", set_replicas},
                  {"recompute", set_recompute},
                  {"parts", set_parts}};

/* Makes a plan with the folder's cache, and checks whether it came from there. */
static bg_plan *make_plan(const test_model *model, const bg_options *options, bool is_cached, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_plan *plan = test_train_plan(model, MICRO_BATCH, &optimizer, options, what);

    if (bg_plan_summarize(plan).is_cached != is_cached)
        fail_msg("%s: the plan %s from the cache", what, is_cached ? "does not come" : "comes");
    return plan;
}

static void compare_plans(const test_model *model, const bg_options *options, const char *what)
{
    bg_options cached = *options;
    char folder[TEST_FOLDER_BYTES];
    bg_plan *plans[3];
    description texts[3];
    test_result results[3];

    test_folder_create(folder);
    cached.files.cache_dir = folder;
    plans[0] = make_plan(model, options, false, what);
    plans[1] = make_plan(model, &cached, false, what);
    plans[2] = make_plan(model, &cached, true, what);
    for (int i = 0; i < 3; i++) {
        bg_weights *weights = NULL;
        assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
        texts[i] = describe(plans[i]);
        results[i] = test_train_run(plans[i], i == 0 ? options : &cached, weights, 0, 2, what);
        bg_weights_destroy(weights);
    }
    test_train_expect(results[1], &results[0], what);
    test_train_expect(results[2], &results[0], what);
    free(results[0].bytes);
    description again = texts[0];
    for (int i = 0; i < 5; i++)
        again.texts[i] = strdup(texts[0].texts[i]);
    expect_same(&again, &texts[1], what);
    expect_same(&texts[0], &texts[2], what);
    test_folder_remove(folder);
}

static void test_same_plan(void **state)
{
    const unsigned step = getenv("BRIGADE_TEST_QUICK") != NULL ? 2 : 1;

    (void)state;
    for (unsigned m = 0; test_model_at(m) != NULL; m += step)
        for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
            bg_options options = bg_options_defaults();
            char what[64];
            options.reporting.output_mode = BG_OUTPUT_ALL;
            options.execution.cores = 2;
            strategies[i].set(&options);
            snprintf(what, sizeof what, "%s, %s", test_model_at(m)->name, strategies[i].name);
            compare_plans(test_model_at(m), &options, what);
        }
}

/* A plan from the cache repeats the compiler's messages. */
static void test_notes_are_said_again(void **state)
{
    const bg_location_rule rule = {1u << BG_LOCATION_WEIGHTS, "no such *", {.place = BG_PLACE_REMOTE}};
    bg_options options = bg_options_defaults();
    char folder[TEST_FOLDER_BYTES];
    char log_folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 16], *text = NULL;
    size_t size = 0, warnings = 0, of_passes = 0, of_rules = 0;
    notes said[2] = {{{0}}, {{0}}};

    (void)state;
    test_folder_create(folder);
    options.files.cache_dir = folder;
    options.execution.gradient_accumulation = 2; /* too few micro-batches for the pipeline, which is a warning */
    options.numerics.stochastic_rounding = true; /* float32 weights, for which a pass over the graph warns */
    options.memory.location_rules = &rule;       /* it matches nothing */
    options.memory.location_rule_count = 1;
    options.reporting.log = keep_note;
    test_folder_create(log_folder);
    options.files.log_dir = log_folder;
    for (int i = 0; i < 2; i++) {
        options.reporting.log_user = &said[i];
        bg_plan_destroy(make_plan(test_model_at(0), &options, i == 1, "notes"));
        assert_non_null(strstr(said[i].text, "gradient accumulation is 2, below the"));
        assert_non_null(strstr(said[i].text, "stochastic rounding has no effect"));
        assert_non_null(strstr(said[i].text, "location_rules[0] `no such *` matches no tensor"));
    }
    assert_non_null(strstr(said[0].text, "cache: the plan is stored in"));
    assert_non_null(strstr(said[0].text, "plan: compiled in"));
    assert_non_null(strstr(said[1].text, "plan: loaded from cache in"));
    assert_null(strstr(said[1].text, "plan: compiled in"));
    /* The log file has each warning twice, once for each plan. */
    snprintf(path, sizeof path, "%s/brigade.log", log_folder);
    assert_int_equal(bgi_file_load(path, (size_t)1 << 20, &text, &size, NULL), BG_OK);
    for (const char *at = text; (at = strstr(at, " warning: gradient accumulation is 2, below the")) != NULL; at++)
        warnings++;
    for (const char *at = text; (at = strstr(at, " warning: stochastic rounding has no effect")) != NULL; at++)
        of_passes++;
    for (const char *at = text; (at = strstr(at, " warning: location_rules[0] `no such *` matches no")) != NULL; at++)
        of_rules++;
    assert_int_equal(warnings, 2);
    assert_int_equal(of_passes, 2);
    assert_int_equal(of_rules, 2);
    assert_non_null(strstr(text, " info: plan: loaded from cache in"));
    free(text);

    /* Without a callback and without a cache, the log file has the messages too. */
    assert_int_equal(remove(path), 0);
    options.reporting.log = NULL;
    options.files.cache_dir = NULL;
    bg_plan_destroy(make_plan(test_model_at(0), &options, false, "notes in a file alone"));
    assert_int_equal(bgi_file_load(path, (size_t)1 << 20, &text, &size, NULL), BG_OK);
    assert_non_null(strstr(text, " warning: gradient accumulation is 2, below the"));
    assert_non_null(strstr(text, " warning: stochastic rounding has no effect"));
    free(text);
    test_folder_remove(log_folder);
    test_folder_remove(folder);
}

/* ---- requests that differ ---- */

/* Each change makes a new request, whose plan is found when it is repeated. */
static void test_every_option_counts(void **state)
{
    static const uint32_t mapping[] = {0, 1, 2, 0};
    static const double shares[] = {0.5, 0.25, 0.125, 0.0625}, other_share = 0.25;
    static const bg_output_request output = {.output = "loss", .name = "again", .mode = BG_OUTPUT_SUM};
    static const bg_location_rule rule = {.classes = 2, .pattern = "*", .location = {.place = BG_PLACE_REMOTE}};
    char folder[TEST_FOLDER_BYTES];
    bg_options options[MOST_REQUESTS];
    int count = 0;

    (void)state;
    for (int i = 0; i < MOST_REQUESTS; i++) {
        options[i] = bg_options_defaults();
        options[i].execution.gradient_accumulation = 8;
    }
    count++;
    options[count++].execution.schedule = "gpipe";
    options[count++].execution.gradient_accumulation = 9;
    options[count++].execution.strategy = BG_STRATEGY_SHARDED;
    options[count++].execution.stages = "B1,B2|B3|B4";
    options[count++].execution.stages = "B1,B2|B3,B4";
    options[count++].execution.device_iterations = 2;
    options[count++].replicas.count = 2;
    options[count].replicas.count = 2;
    options[count++].replicas.reduce_bytes = 1;
    options[count++].numerics.accumulation = BG_ACCUMULATE_SUM;
    options[count++].numerics.max_gradient_norm = 0.5;
    options[count++].numerics.max_gradient_norm = 0.25;
    options[count++].numerics.max_gradient_value = 0.25;
    options[count++].numerics.loss_scaling = 2.0;
    for (int first = count; count < first + 7; count++)
        options[count].numerics.auto_loss_scaling.enabled = true;
    options[count - 6].numerics.auto_loss_scaling.output = true;
    options[count - 5].numerics.auto_loss_scaling.bin_edge = 0.25;
    options[count - 4].numerics.auto_loss_scaling.threshold = 1e-6;
    options[count - 3].numerics.auto_loss_scaling.period = 2;
    options[count - 2].numerics.auto_loss_scaling.increase = 4.0;
    options[count - 1].numerics.auto_loss_scaling.maximum = 1024.0;
    options[count].memory.matmul_proportions = shares;
    options[count++].memory.matmul_proportion_count = 1;
    options[count].memory.matmul_proportions = &other_share;
    options[count++].memory.matmul_proportion_count = 1;
    options[count].memory.matmul_proportions = shares;
    options[count++].memory.matmul_proportion_count = 4;
    options[count++].memory.offload_optimizer = true;
    options[count++].memory.recompute = BG_RECOMPUTE_STAGE;
    options[count++].numerics.kernels = BG_KERNELS_REFERENCE;
    options[count++].numerics.partials = BG_BFLOAT16;
    options[count++].numerics.precision = BG_PRECISION_BF16_MIXED;
    options[count++].numerics.precision = BG_PRECISION_BF16_TRUE;
    options[count++].numerics.stochastic_rounding = true;
    options[count++].numerics.no_fusion = true;
    options[count++].execution.separate_loss = true;
    options[count].execution.strategy = BG_STRATEGY_SHARDED;
    options[count++].execution.strict = true;
    options[count++].memory.device_memory_bytes = (size_t)1 << 40;
    options[count].reporting.output_requests = &output;
    options[count++].reporting.output_request_count = 1;
    options[count].memory.location_rules = &rule;
    options[count++].memory.location_rule_count = 1;
    options[count].execution.strategy = BG_STRATEGY_SHARDED;
    options[count].execution.device_mapping = mapping;
    options[count++].execution.device_mapping_count = 4;
    test_folder_create(folder);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < count; i++) {
            char what[32];
            snprintf(what, sizeof what, "request %d", i);
            options[i].files.cache_dir = folder;
            bg_plan_destroy(make_plan(test_model_at(0), &options[i], round == 1, what));
        }
    assert_int_equal(test_folder_count(folder), count);
    test_folder_remove(folder);
}

/* A change of any field of an optimizer makes another plan, and each of these plans is found again. */
static void test_every_field_of_an_optimizer_counts(void **state)
{
    enum { MOST = 32 };
    bg_optimizer optimizers[MOST];
    bg_options options = bg_options_defaults();
    char folder[TEST_FOLDER_BYTES];
    int count = 0;

    (void)state;
    for (int i = 0; i < 9; i++) {
        optimizers[count] = bg_sgd(0.01);
        optimizers[count++].momentum = 0.5;
    }
    optimizers[1].learning_rate = 0.02;
    optimizers[2].weight_decay = 0.1;
    optimizers[3].momentum = 0.25;
    optimizers[4].dampening = 0.5;
    optimizers[5].nesterov = true;
    optimizers[6].combined = true;
    optimizers[7].combined = true;
    optimizers[7].velocity_scaling = 4.0;
    optimizers[8].weight_decay = 0.1;
    optimizers[8].decay_matrices_only = true;
    optimizers[count++] = bg_adam(0.01);
    optimizers[count++] = bg_adamax(0.01);
    for (int i = 0; i < 5; i++)
        optimizers[count++] = bg_adamw(0.01);
    optimizers[count - 4].beta1 = 0.5;
    optimizers[count - 3].beta2 = 0.5;
    optimizers[count - 2].epsilon = 1e-3;
    optimizers[count - 1].uncorrected = true;
    for (int i = 0; i < 4; i++)
        optimizers[count++] = bg_rmsprop(0.01);
    optimizers[count - 3].alpha = 0.5;
    optimizers[count - 2].centered = true;
    optimizers[count - 1].tf_variant = true;
    for (int i = 0; i < 2; i++)
        optimizers[count++] = bg_lamb(0.01);
    optimizers[count - 1].max_weight_norm = 2.0;
    test_folder_create(folder);
    options.files.cache_dir = folder;
    options.execution.gradient_accumulation = 8;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < count; i++) {
            bg_plan *plan = test_train_plan(test_model_at(0), MICRO_BATCH, &optimizers[i], &options, "optimizer");
            if (bg_plan_summarize(plan).is_cached != (round == 1))
                fail_msg("optimizer %d: the plan %s from the cache", i, round == 1 ? "does not come" : "comes");
            bg_plan_destroy(plan);
        }
    assert_int_equal(test_folder_count(folder), count);
    test_folder_remove(folder);
}

static bg_dtype choose_type(void *user, const char *name, const bg_type *type)
{
    (void)name;
    (void)type;
    return *(const bg_dtype *)user;
}

static bool never_stop(void *user)
{
    (void)user;
    return false;
}

static uint32_t order_nothing(void *user, bg_pinning pinning, uint32_t *cpus, uint32_t cpu_count)
{
    (void)user, (void)pinning, (void)cpus, (void)cpu_count;
    return 0;
}

static void *lend_memory(void *user, size_t alignment, size_t size_bytes)
{
    void *memory = NULL;

    (void)user;
    return posix_memalign(&memory, alignment, size_bytes) == 0 ? memory : NULL;
}

static void take_memory(void *user, void *memory, size_t size_bytes)
{
    (void)user, (void)size_bytes;
    free(memory);
}

static bool never_cancel(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static bool start_nothing(void *user, void (*function)(void *argument), void *argument)
{
    (void)user, (void)function, (void)argument;
    return false;
}

/* Options that do not affect the plan do not change the request. A new option changes the struct's size and must be
 * added to cache_key.c or to this test. */
static void test_what_does_not_count(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    const bg_transport transport = {.struct_bytes = sizeof transport, .rank_count = 2};
    bg_options options = bg_options_defaults();
    bg_dtype answer = BG_FLOAT32;

    (void)state;
#if UINTPTR_MAX == UINT64_MAX
    assert_int_equal(sizeof(bg_options), OPTIONS_BYTES);
#endif
    test_folder_create(folder);
    options.files.cache_dir = folder;
    options.execution.gradient_accumulation = 8;
    bg_plan_destroy(make_plan(test_model_at(0), &options, false, "plain"));
    options.numerics.seed = 17;
    options.execution.cores = 3;
    options.execution.pinning = BG_PINNING_SPREAD;
    options.execution.processor_order = order_nothing;
    options.execution.processor_order_user = folder;
    options.execution.io_threads = 1;
    options.execution.transport = &transport;
    options.execution.layout = "data,stage,tensor";
    options.execution.planned_ranks = 3;
    options.reporting.trace = true;
    options.reporting.trace_events = 77;
    options.execution.wait_limit_s = 3.0;
    options.execution.compile_only = true;
    options.reporting.log_cycles = true;
    options.numerics.initialize_missing = true;
    options.files.log_dir = folder;
    options.files.memmap_dir = folder;
    options.files.memmap_mode = BG_MEMMAP_READ_ONLY;
    options.memory.no_memory_check = true;
    options.execution.stop = never_stop;
    options.execution.stop_user = folder;
    options.memory.allocate = lend_memory;
    options.memory.release = take_memory;
    options.memory.allocator_user = folder;
    options.reporting.progress = never_cancel;
    options.reporting.progress_user = folder;
    bg_plan_destroy(make_plan(test_model_at(0), &options, true, "neutral"));
    options.execution.pinning = BG_PINNING_NONE; /* with threads that the program starts */
    options.execution.start_thread = start_nothing;
    options.execution.start_thread_user = folder;
    bg_plan_destroy(make_plan(test_model_at(0), &options, true, "threads"));
    options.numerics.accumulator_type = BG_ACCUMULATOR_CALLBACK;
    options.numerics.choose_accumulator = choose_type;
    options.numerics.choose_accumulator_user = &answer;
    bg_plan_destroy(make_plan(test_model_at(0), &options, false, "a callback"));
    bg_plan_destroy(make_plan(test_model_at(0), &options, true, "the same answers"));
    answer = BG_BFLOAT16;
    bg_plan_destroy(make_plan(test_model_at(0), &options, false, "other answers"));
    test_folder_remove(folder);
}

/* ---- graphs ---- */

static bg_status make_inference(const bg_graph *graph, const char *folder, notes *said, bool *out_cached)
{
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    bg_status status;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.files.cache_dir = folder;
    options.reporting.log = keep_note;
    options.reporting.log_user = said;
    status = bg_plan_create_inference(graph, &options, &plan, NULL);
    *out_cached = status == BG_OK && bg_plan_summarize(plan).is_cached;
    bg_plan_destroy(plan);
    return status;
}

/* Makes a graph that scales its input with the caller's op type. */
static bg_graph *make_own(const bg_op_type *type, double factor)
{
    const bg_type vector = bg_vector(BG_FLOAT32, 8);
    bg_graph *graph = NULL;
    bg_value x, y;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &vector);
    y = bg_scale(graph, "scaled", x, factor, 0.0);
    if (type != NULL)
        y = bg_graph_add(graph, type, "own", &y, 1, NULL, NULL);
    bg_graph_output(graph, "y", y);
    return graph;
}

static bg_status infer_own(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static void run_own(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    memcpy(call->operands[1], call->operands[0], bg_type_size_bytes(&call->types[0]));
}

static bg_status select_own(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)error;
    *out = (bg_kernel){.name = "own", .run = run_own, .part_count = 1};
    return BG_OK;
}

/* Plans with a user's op types are found if the types have a revision; another revision is another request. */
static void test_own_ops(void **state)
{
    bg_op_type type = {BG_OP_TYPE_DEFAULTS, .name = "own",      .minimum_inputs = 1, .maximum_inputs = 1,
                       .output_count = 1,   .infer = infer_own, .kernel = select_own};
    static const struct {
        uint32_t revision;
        double factor;
        bool is_cached;
    } cases[] = {{0, 2, false}, {0, 2, false}, {1, 2, false}, {1, 2, true}, {2, 2, false}, {2, 2, true}, {2, 3, false}};
    char folder[TEST_FOLDER_BYTES];

    (void)state;
    test_folder_create(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        notes said = {{0}};
        bg_graph *graph;
        bool is_cached;
        type.revision = cases[i].revision;
        graph = make_own(&type, cases[i].factor);
        assert_int_equal(make_inference(graph, folder, &said, &is_cached), BG_OK);
        if (is_cached != cases[i].is_cached)
            fail_msg("case %zu: %s", i, said.text);
        assert_int_equal(strstr(said.text, "without a revision") != NULL, type.revision == 0);
        bg_graph_destroy(graph);
    }
    assert_int_equal(test_folder_count(folder), 3);
    test_folder_remove(folder);
}

/* The table has every op type that a graph's ops can have, under its own name. */
static void test_op_types(void **state)
{
    (void)state;
    assert_non_null(bgi_op_type_find("linear"));
    assert_null(bgi_op_type_find("loop"));
    for (unsigned m = 0; test_model_at(m) != NULL; m++) {
        bg_graph *graph = NULL;
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        test_model_at(m)->build(graph, MICRO_BATCH);
        for (size_t o = 0; o < graph->op_count; o++)
            assert_ptr_equal(bgi_op_type_find(graph->ops[o].type->name), graph->ops[o].type);
        bg_graph_destroy(graph);
    }
}

/* ---- bad files ---- */

static void load_file(const char *path, unsigned char **data, size_t *size)
{
    assert_int_equal(bgi_file_load(path, SIZE_MAX / 2, (char **)data, size, NULL), BG_OK);
}

/* Checks that a changed file is not used but reported, and that it is written again. */
static void expect_refused(const bg_graph *graph, const char *folder, const char *path, const void *data, size_t size,
                           const char *reason)
{
    notes said = {{0}};
    bool is_cached;

    assert_int_equal(bgi_file_save(path, data, size, NULL), BG_OK);
    assert_int_equal(make_inference(graph, folder, &said, &is_cached), BG_OK);
    assert_false(is_cached);
    if (strstr(said.text, "is not used, so the plan is compiled again: ") == NULL || strstr(said.text, reason) == NULL)
        fail_msg("not `%s`: %s", reason, said.text);
    assert_int_equal(make_inference(graph, folder, &said, &is_cached), BG_OK);
    assert_true(is_cached);
}

static void test_bad_files(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[512];
    bg_graph *graph = make_own(NULL, 2.0), *other = make_own(NULL, 3.0);
    unsigned char *data, *changed;
    notes said = {{0}};
    size_t size;
    bool is_cached;

    (void)state;
    test_folder_create(folder);
    assert_int_equal(make_inference(graph, folder, &said, &is_cached), BG_OK);
    find_file(folder, path);
    load_file(path, &data, &size);
    changed = malloc(size + 1);
    assert_non_null(changed);
    for (size_t at = 0; at < size; at += size / 40 + 1) {
        memcpy(changed, data, size);
        changed[at] ^= 4;
        expect_refused(graph, folder, path, changed, size, at < 8 ? "not a plan file" : "");
    }
    memcpy(changed, data, size);
    changed[size] = 0;
    expect_refused(graph, folder, path, changed, size + 1, "after its header");
    expect_refused(graph, folder, path, data, size - 1, "after its header");
    expect_refused(graph, folder, path, data, 11, "not a plan file");
    expect_refused(graph, folder, path, "", 0, "not a plan file");
    changed[size - 1] ^= 1;
    expect_refused(graph, folder, path, changed, size, "checksum");
    /* A complete file of another request has the name of this request's file. */
    test_folder_remove(folder);
    assert_int_equal(bgi_folder_create(folder, NULL), BG_OK);
    assert_int_equal(make_inference(other, folder, &said, &is_cached), BG_OK);
    {
        char wrong[512];
        find_file(folder, wrong);
        free(data);
        load_file(wrong, &data, &size);
        assert_int_equal(remove(wrong), 0);
    }
    expect_refused(graph, folder, path, data, size, "another plan");
    free(data);
    free(changed);
    bg_graph_destroy(graph);
    bg_graph_destroy(other);
    test_folder_remove(folder);
}

/* A folder that cannot be created causes a note. */
static void test_bad_folder(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[128];
    bg_graph *graph = make_own(NULL, 2.0);
    notes said = {{0}};
    bool is_cached;

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(bgi_file_save(path, "x", 1, NULL), BG_OK);
    assert_int_equal(make_inference(graph, path, &said, &is_cached), BG_OK);
    assert_false(is_cached);
    assert_non_null(strstr(said.text, "cache: the plan is not stored: "));
    bg_graph_destroy(graph);
    test_folder_remove(folder);
}

/* ---- together ---- */

static void *make_often(void *argument)
{
    const char *folder = argument;
    bg_graph *graph = make_own(NULL, 2.0);

    for (int i = 0; i < 20; i++) {
        notes said = {{0}};
        bool is_cached;
        assert_int_equal(make_inference(graph, folder, &said, &is_cached), BG_OK);
        if (strstr(said.text, "not") != NULL)
            fail_msg("%s", said.text);
        if (i % 5 == 4) { /* another process clears the folder */
            DIR *directory = opendir(folder);
            const struct dirent *entry;
            while ((entry = readdir(directory)) != NULL)
                if (strstr(entry->d_name, ".plan") == entry->d_name + 16 && entry->d_name[21] == '\0') {
                    char path[512];
                    snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
                    (void)remove(path);
                }
            closedir(directory);
        }
    }
    bg_graph_destroy(graph);
    return NULL;
}

/* Several threads write, read and delete one plan at the same time, and no thread ever sees an incomplete file. */
static void test_shared_folder(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    pthread_t threads[3];

    (void)state;
    test_folder_create(folder);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_often, folder), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    test_folder_remove(folder);
}

/* Each allocation fails once, without a leak or crash; if only the cache is affected, the plan is still made. */
static void test_memory(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_graph *graph;

    (void)state;
    if (!test_allocations_available())
        skip();
    graph = make_own(NULL, 2.0);
    test_folder_create(folder);
    for (int round = 0; round < 2; round++) {
        for (uint64_t n = 1;; n++) {
            notes said = {{0}};
            bool is_cached, have_failed;
            const int64_t live = test_allocations_live();
            test_allocations_fail(n);
            (void)make_inference(graph, folder, &said, &is_cached);
            have_failed = test_allocations_have_failed();
            test_allocations_fail(0);
            assert_int_equal(test_allocations_live(), live);
            if (!have_failed)
                break;
            if (round == 0 && test_folder_count(folder) > 0) {
                test_folder_remove(folder);
                assert_int_equal(bgi_folder_create(folder, NULL), BG_OK);
            }
        }
    }
    bg_graph_destroy(graph);
    test_folder_remove(folder);
}

/* ---- loops ---- */

static void test_loop(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    const bg_type vector = bg_vector(BG_FLOAT32, 4);
    bg_options options = bg_options_defaults();
    description texts[2];
    bg_graph *body = NULL;
    bg_value x, y;
    bg_error error = {0};

    (void)state;
    test_folder_create(folder);
    assert_int_equal(bg_graph_create(&body, NULL), BG_OK);
    x = bg_graph_input(body, "x", &vector);
    y = bg_scale(body, "y", x, 0.5, 1.0);
    bg_graph_output(body, "result", y);
    options.files.cache_dir = folder;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    for (int i = 0; i < 2; i++) {
        const bg_loop loop = bg_repeat(5, &x, &y, 1);
        bg_plan *plan = NULL;
        require(bg_plan_create_loop(body, &loop, &options, &plan, &error), &error, "a loop");
        assert_int_equal(bg_plan_summarize(plan).is_cached, i == 1);
        texts[i] = describe(plan);
        bg_plan_destroy(plan);
    }
    expect_same(&texts[0], &texts[1], "a loop");
    bg_graph_destroy(body);
    test_folder_remove(folder);
}

/* A plan that is compiled again because of a damaged file still has its condition. */
static void test_condition_after_a_bad_file(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[512];
    const bg_type scalar = {.dtype = BG_FLOAT32};
    bg_options options = bg_options_defaults();
    bg_graph *body = NULL, *condition = NULL;
    bg_value n, next;
    bg_error error = {0};

    (void)state;
    test_folder_create(folder);
    assert_int_equal(bg_graph_create(&condition, NULL), BG_OK);
    bg_graph_output(condition, "goes_on", bg_scale(condition, NULL, bg_graph_input(condition, "n", &scalar), -1, 7));
    assert_int_equal(bg_graph_create(&body, NULL), BG_OK);
    n = bg_graph_input(body, "n", &scalar);
    next = bg_scale(body, NULL, n, 1, 1);
    options.files.cache_dir = folder;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    for (int i = 0; i < 3; i++) {
        const bg_loop loop = bg_while(condition, 5, &n, &next, 1);
        bg_plan *plan = NULL;
        require(bg_plan_create_loop(body, &loop, &options, &plan, &error), &error, "a while loop");
        assert_int_equal(bg_plan_summarize(plan).is_cached, i == 1);
        assert_non_null(plan->condition);
        bg_plan_destroy(plan);
        if (i == 1) {
            FILE *file;
            find_file(folder, path);
            file = fopen(path, "wb");
            assert_non_null(file);
            fputs("broken", file);
            fclose(file);
        }
    }
    bg_graph_destroy(body);
    bg_graph_destroy(condition);
    test_folder_remove(folder);
}

/* ---- the transformer ---- */

static double make_transformer(const char *folder, bool is_cached)
{
    bg_gpt_options model = bg_gpt_defaults();
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    double ms;

    model.layers = 96;
    model.hidden = 32;
    model.heads = 2;
    model.sequence_length = model.positions = 16;
    model.vocabulary = 64;
    options.execution.stages = "auto:8";
    options.execution.gradient_accumulation = 16;
    options.files.cache_dir = folder;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    const bg_gpt net = bg_gpt_build(graph, &model);
    require(bg_plan_create_training(graph, net.loss, &optimizer, &options, &plan, &error), &error, "96 layers");
    assert_int_equal(bg_plan_summarize(plan).is_cached, is_cached);
    ms = bg_plan_summarize(plan).compile_ms;
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return ms;
}

/* A second start, with the plan in the cache, is faster. The fastest of several tries counts, so that other load does
 * not matter; the factor is about 10 in practice. */
static void test_second_start_is_faster(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    double first_ms = 1e9, second_ms = 1e9;

    (void)state;
    if (getenv("BRIGADE_TEST_QUICK") != NULL)
        skip();
    for (int i = 0; i < 5 && (i < 3 || first_ms < 5 * second_ms); i++) {
        double ms;
        test_folder_create(folder);
        ms = make_transformer(folder, false);
        first_ms = ms < first_ms ? ms : first_ms;
        for (int again = 0; again < 3; again++) {
            ms = make_transformer(folder, true);
            second_ms = ms < second_ms ? ms : second_ms;
        }
        test_folder_remove(folder);
    }
    if (first_ms < 5 * second_ms)
        fail_msg("first start %.1f ms, second %.1f ms", first_ms, second_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_plan),
        cmocka_unit_test(test_notes_are_said_again),
        cmocka_unit_test(test_every_option_counts),
        cmocka_unit_test(test_every_field_of_an_optimizer_counts),
        cmocka_unit_test(test_what_does_not_count),
        cmocka_unit_test(test_own_ops),
        cmocka_unit_test(test_op_types),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_bad_folder),
        cmocka_unit_test(test_shared_folder),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_condition_after_a_bad_file),
        cmocka_unit_test(test_second_start_is_faster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
