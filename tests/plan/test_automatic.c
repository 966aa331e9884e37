/*
 * test_automatic.c: tests "auto:N" and "auto-ops:N": where they split models, which ops stay together, measured costs,
 * fast and slow devices, budgets, errors. tests/parity shows that the split does not change results.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <brigade/convnet.h>

#include "plan/automatic.h"
#include "plan/plan.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/plan_check.h"

typedef struct model {
    bg_graph *graph;
    bg_value loss;
} model;

/* Makes four blocks A to D of two equal linear layers each (weights of 16 x 16 floats), and a loss; if `blocks` is
 * false the same ops are in no block. */
static model make_model(bool blocks, bool repeats_weight)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 64, 16), weight_type = bg_matrix(BG_FLOAT32, 16, 16);
    model m = {0};
    bg_value x;
    char name[8];

    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    x = bg_graph_input(m.graph, "x", &x_type);
    for (int b = 0; b < 4; b++) {
        bg_value weights[2];
        snprintf(name, sizeof name, "%c", 'A' + b);
        if (blocks)
            bg_block_start(m.graph, name, BG_DEVICE_NONE);
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%c%d", 'A' + b, i);
            weights[i] = repeats_weight && i == 1 ? weights[0] : bg_graph_parameter(m.graph, name, &weight_type, NULL);
            x = bg_linear(m.graph, NULL, x, weights[i], (bg_value){0});
        }
    }
    m.loss = bg_reduce(m.graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    bg_graph_output(m.graph, "loss", m.loss);
    assert_int_equal(bg_graph_check(m.graph, NULL), BG_OK);
    return m;
}

static bg_status make_plan(const model *m, const bg_options *options, bg_plan **out, bg_error *error)
{
    const bg_optimizer optimizer = bg_adamw(0.01);

    return bg_plan_create_training(m->graph, m->loss, &optimizer, options, out, error);
}

static void expect_stages(const model *m, const bg_options *options, const char *expected)
{
    bg_plan *plan = NULL;
    bg_error error = {0};

    if (make_plan(m, options, &plan, &error) != BG_OK)
        fail_msg("%s: %s", options->execution.stages, error.message);
    if (strcmp(plan->options.execution.stages, expected) != 0)
        fail_msg("%s: `%s` instead of `%s`", options->execution.stages, plan->options.execution.stages, expected);
    bg_plan_destroy(plan);
}

static bg_options make_options(const char *stages)
{
    bg_options options = bg_options_defaults();

    options.execution.stages = stages;
    options.execution.gradient_accumulation = 8;
    return options;
}

static void expect_of(bool blocks, bool repeats_weight, const char *stages, const char *expected)
{
    const model m = make_model(blocks, repeats_weight);
    const bg_options options = make_options(stages);

    expect_stages(&m, &options, expected);
    bg_graph_destroy(m.graph);
}

static void test_cuts(void **state)
{
    (void)state;
    expect_of(true, false, "auto:1", "A,B,C,D");
    expect_of(true, false, "auto:2", "A,B|C,D");
    expect_of(true, false, "auto:4", "A|B|C|D");
    expect_of(true, false, "auto-ops:2", "A,B|C,D");
    expect_of(true, false, "auto-ops:8", "A.0|A.1|B.0|B.1|C.0|C.1|D.0|D.1");
    expect_of(false, false, "auto:2", "ops.0|ops.1");
    expect_of(false, false, "auto:8", "ops.0|ops.1|ops.2|ops.3|ops.4|ops.5|ops.6|ops.7");
}

/* Both uses of a block's weight stay in one stage, because in two they would be summed in another order. */
static void test_uses_of_a_parameter_stay_together(void **state)
{
    const model m = make_model(true, true);
    const bg_options options = make_options("auto-ops:6");
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    expect_of(true, true, "auto-ops:4", "A|B|C|D");
    assert_int_equal(make_plan(&m, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "stages `auto-ops:6`: the model can be cut into at most 5 stages; ask for "));
    bg_graph_destroy(m.graph);
}

/* A block that a user named "B.0" keeps this name. */
static void test_names_of_parts(void **state)
{
    model m = make_model(true, false);
    const bg_options options = make_options("auto-ops:9");
    bg_plan *plan = NULL;

    (void)state;
    bg_block_start(m.graph, "D.0", BG_DEVICE_NONE);
    bg_graph_output(m.graph, "more", bg_scale(m.graph, NULL, m.loss, 2, 0));
    assert_int_equal(make_plan(&m, &options, &plan, NULL), BG_OK);
    assert_string_equal(plan->options.execution.stages, "A.0|A.1|B.0|B.1|C.0|C.1|D.1|D.2|D.3,D.0");
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

static void test_measured_costs(void **state)
{
    static const bg_block_cost costs[] = {{"A", 1e6, 1e6, 1e6}, {"B", 1e3, 1e3, 1e3}};
    static const bg_block_cost wrong[] = {{"Z", 1, 1, 1}};
    const model m = make_model(true, false);
    bg_options options = make_options("auto:2");
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    options.execution.block_costs = costs;
    options.execution.block_cost_count = 2;
    expect_stages(&m, &options, "A|B,C,D");
    options.execution.stages = "auto-ops:2"; /* each part has its share of the whole block's time */
    expect_stages(&m, &options, "A.0|A.1,B,C,D");
    options.execution.stages = "A|B|C|D";
    assert_int_equal(make_plan(&m, &options, &plan, NULL), BG_OK);
    assert_true(plan->problem.costs[0].forward_ns > 0.999e6 && plan->problem.costs[0].forward_ns < 1.001e6);
    assert_true(plan->problem.costs[1].backward_ns > 1.999e3 && plan->problem.costs[1].backward_ns < 2.001e3);
    bg_plan_destroy(plan);
    options.execution.schedule = "zb-h1"; /* W is a separate action */
    assert_int_equal(make_plan(&m, &options, &plan, NULL), BG_OK);
    assert_true(plan->problem.costs[1].backward_ns > 0.999e3 && plan->problem.costs[1].backward_ns < 1.001e3);
    assert_true(plan->problem.costs[1].weights_ns > 0.999e3 && plan->problem.costs[1].weights_ns < 1.001e3);
    bg_plan_destroy(plan);
    options.execution.block_costs = wrong;
    options.execution.block_cost_count = 1;
    assert_int_equal(make_plan(&m, &options, &plan, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "block_costs: block `Z` is not in the model"));
    bg_graph_destroy(m.graph);
}

static void test_speeds(void **state)
{
    static const bg_device_model devices[] = {{1, 0}, {3, 0}};
    const model m = make_model(true, false);
    bg_options options = make_options("auto:2");
    bg_plan *plan = NULL;

    (void)state;
    options.execution.devices = devices;
    options.execution.device_model_count = 2;
    expect_stages(&m, &options, "A|B,C,D");
    options.execution.stages = "A,B|C,D";
    assert_int_equal(make_plan(&m, &options, &plan, NULL), BG_OK);
    assert_true(plan->problem.costs[0].forward_ns > 2.5 * plan->problem.costs[1].forward_ns);
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

/* Returns the plan's memory of the classes that the cut counts: weights, gradients, state, and the stash at the depth
 * of 1F1B. */
static size_t counted_bytes(const bg_plan *plan, uint32_t device)
{
    return bg_plan_memory_bytes(plan, device, BG_MEMORY_WEIGHTS) +
           bg_plan_memory_bytes(plan, device, BG_MEMORY_GRADIENTS) +
           bg_plan_memory_bytes(plan, device, BG_MEMORY_STATE) + bg_plan_memory_bytes(plan, device, BG_MEMORY_STASH);
}

/* The smallest budget in the error is the memory of the best plan, except that small values which two items of one
 * stage read (the optimizer's settings) count twice. */
static void test_budgets(void **state)
{
    static const char *const cuts[] = {"A|B,C,D", "A,B|C,D", "A,B,C|D"};
    bg_device_model devices[2] = {{1, 0}, {1, 0}};
    const model m = make_model(true, false);
    bg_options options = make_options(NULL);
    size_t least = SIZE_MAX;
    bg_plan *plan = NULL;
    bg_error error = {0};
    const char *at;
    unsigned long long named = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        size_t most;
        options.execution.stages = cuts[i];
        assert_int_equal(make_plan(&m, &options, &plan, NULL), BG_OK);
        most = counted_bytes(plan, 0) > counted_bytes(plan, 1) ? counted_bytes(plan, 0) : counted_bytes(plan, 1);
        least = most < least ? most : least;
        bg_plan_destroy(plan);
    }
    /* the budgets are large enough for the update of each weight */
    devices[0].memory_bytes = devices[1].memory_bytes = least - 1;
    options.execution.stages = "auto:2";
    options.execution.devices = devices;
    options.execution.device_model_count = 2;
    assert_int_equal(make_plan(&m, &options, &plan, &error), BG_ERROR_BUDGET);
    at = strstr(error.message, "one of the stages needs a budget of at least ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "one of the stages needs a budget of at least %llu bytes", &named), 1);
    if (named < least || named > least + 512)
        fail_msg("%llu bytes would do, says `%s`; the best plan takes %zu", named, error.message, least);
    devices[0].memory_bytes = devices[1].memory_bytes = (size_t)named;
    bg_error_clear(&error);
    /* A cut fits, but no plan does, because plans also have transients and messages. The error is that of the first
     * plan. */
    assert_int_equal(make_plan(&m, &options, &plan, &error), BG_ERROR_BUDGET);
    if (strstr(error.message, "its budget is") == NULL)
        fail_msg("%s", error.message);
    bg_graph_destroy(m.graph);
}

/* Counts the messages of each kind, which are recognized by their first words. */
typedef struct heard {
    unsigned cuts, repeats, count;
    char starts[8][17];
} heard;

static void hear(void *user, bg_log_level level, const char *text)
{
    heard *h = user;

    (void)level;
    h->cuts += strncmp(text, "automatic stages: ", 18) == 0;
    for (unsigned i = 0; i < h->count; i++)
        h->repeats += strncmp(h->starts[i], text, 16) == 0;
    if (h->count < 8)
        snprintf(h->starts[h->count++], sizeof h->starts[0], "%.16s", text);
}

typedef struct need {
    const char *stages;
    size_t bytes[3];
} need;

static bool fits(const need *of, const bg_device_model *devices, uint32_t count)
{
    for (uint32_t d = 0; d < count; d++)
        if (of->bytes[d] > devices[d].memory_bytes)
            return false;
    return true;
}

/* Checks that `auto` finds a cut exactly if one exists. */
static void check_pair(const model *m, const need *needs, uint32_t stage_count, const bg_device_model *devices,
                       bg_options options)
{
    bg_plan *plan = NULL;
    bg_error error = {0};
    heard h = {0};
    bool any = false;
    bg_status status;

    options.execution.stages = stage_count == 2 ? "auto:2" : "auto:3";
    options.execution.devices = devices;
    options.execution.device_model_count = stage_count;
    options.reporting.log = hear;
    options.reporting.log_user = &h;
    for (int i = 0; i < 3; i++)
        any |= fits(&needs[i], devices, stage_count);
    status = make_plan(m, &options, &plan, &error);
    if (status != (any ? BG_OK : BG_ERROR_BUDGET))
        fail_msg("%zu, %zu, %zu bytes: %s: %s", devices[0].memory_bytes, devices[1].memory_bytes,
                 stage_count == 3 ? devices[2].memory_bytes : 0, bg_status_name(status), error.message);
    if (any)
        assert_int_equal(h.cuts, 1);
    if (h.repeats > 0)
        fail_msg("%s: %u messages are logged again, after `%s`", options.execution.schedule, h.repeats, h.starts[0]);
    bg_plan_destroy(plan);
}

/* Sets budgets to each cut's needs and to one byte less, in all combinations, and compares with all cuts of the digit
 * network. */
static void check_all_budgets(const model *m, need *needs, uint32_t stage_count, bg_options options)
{
    bg_device_model devices[3] = {{1, 0}, {1, 0}, {1, 0}};
    uint32_t combinations = 1;

    for (int i = 0; i < 3; i++) {
        bg_plan *plan = NULL;
        options.execution.stages = needs[i].stages;
        assert_int_equal(make_plan(m, &options, &plan, NULL), BG_OK);
        for (uint32_t d = 0; d < stage_count; d++)
            needs[i].bytes[d] = bg_plan_device_bytes(plan, d);
        bg_plan_destroy(plan);
    }
    for (uint32_t d = 0; d < stage_count; d++)
        combinations *= 6;
    for (uint32_t k = 0; k < combinations; k++) {
        for (uint32_t d = 0, rest = k; d < stage_count; d++, rest /= 6)
            devices[d].memory_bytes = needs[rest % 3].bytes[d] - (rest % 6) / 3;
        check_pair(m, needs, stage_count, devices, options);
    }
}

static void test_budgets_are_met_when_a_cut_meets_them(void **state)
{
    static const char *const schedules[] = {"interleaved", "grouped", "sequential"};
    need twos[] = {{"B1|B2,B3,B4", {0}}, {"B1,B2|B3,B4", {0}}, {"B1,B2,B3|B4", {0}}};
    need threes[] = {{"B1|B2|B3,B4", {0}}, {"B1|B2,B3|B4", {0}}, {"B1,B2|B3|B4", {0}}};
    bg_convnet_options network = bg_convnet_defaults();
    bg_options options = make_options(NULL);
    model m = {0};

    (void)state;
    network.micro_batch = 4;
    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    m.loss = bg_convnet_build(m.graph, &network).loss;
    options.execution.gradient_accumulation = 2;
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        options.execution.schedule = schedules[i];
        options.execution.gradient_accumulation = i == 2 ? 1 : 2;
        check_all_budgets(&m, twos, 2, options);
        check_all_budgets(&m, threes, 3, options);
    }
    bg_graph_destroy(m.graph);
}

/* The cache has the plan that fits, and the messages of that plan. */
static void test_the_cache_keeps_the_cut_that_fits(void **state)
{
    static const bg_device_model devices[] = {{1, 1100000}, {1, 2700000}};
    bg_convnet_options network = bg_convnet_defaults();
    bg_options options = make_options("auto:2");
    char folder[TEST_FOLDER_BYTES];
    model m = {0};

    (void)state;
    test_folder_create(folder);
    network.micro_batch = 40;
    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    m.loss = bg_convnet_build(m.graph, &network).loss;
    options.files.cache_dir = folder;
    options.execution.devices = devices;
    options.execution.device_model_count = 2;
    options.reporting.log = hear;
    for (int i = 0; i < 2; i++) {
        heard h = {0};
        bg_plan *plan = NULL;
        options.reporting.log_user = &h;
        assert_int_equal(make_plan(&m, &options, &plan, NULL), BG_OK);
        assert_string_equal(plan->options.execution.stages, "B1|B2,B3,B4");
        assert_int_equal(bg_plan_summarize(plan).is_cached, i == 1);
        assert_int_equal(h.cuts, 1);
        assert_int_equal(h.repeats, 0);
        bg_plan_destroy(plan);
    }
    assert_int_equal(test_folder_count(folder), 1);
    bg_graph_destroy(m.graph);
    test_folder_remove(folder);
}

static void test_refusals(void **state)
{
    static const char *const texts[] = {"auto:", "auto:0", "auto:x", "auto:-2", "auto:2x", "auto-ops:", "auto:99999"};
    const model m = make_model(true, false);
    bg_plan *plan = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const bg_options options = make_options(texts[i]);
        bg_error error = {0};
        assert_int_equal(make_plan(&m, &options, &plan, &error), BG_ERROR_INVALID);
        if (strstr(error.message, "automatic stages are written \"auto:4\" or \"auto-ops:4\"") == NULL)
            fail_msg("%s: %s", texts[i], error.message);
    }
    assert_false(bgi_stages_are_automatic("A|auto"));
    assert_false(bgi_stages_are_automatic(NULL));
    bg_graph_destroy(m.graph);
}

static void test_plans_are_right(void **state)
{
    const model m = make_model(true, false);
    bg_options options = make_options("auto:3");

    (void)state;
    bgi_test_check_training(m.graph, m.loss, &options, "auto:3");
    options.execution.gradient_accumulation = 1;
    options.execution.device_iterations = 4;
    bgi_test_check_inference(m.graph, &options, "auto:3");
    bg_graph_destroy(m.graph);
}

static void expect_clean_failures(const model *m, const bg_options *options)
{
    for (uint64_t n = 1;; n++) {
        bg_plan *plan = NULL;
        bg_error error = {0};
        const int64_t before = test_allocations_live();
        test_allocations_fail(n);
        const bg_status status = make_plan(m, options, &plan, &error);
        const bool have_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        if (have_failed && status != BG_ERROR_MEMORY && status != BG_OK &&
            (status != BG_ERROR_BUDGET ||
             options->memory.device_memory_bytes == 0)) /* the failure may only have lost a held message */
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, bg_status_name(status), error.message);
        bg_plan_destroy(plan);
        assert_int_equal(test_allocations_live(), before);
        if (!have_failed)
            break;
    }
}

static void test_failed_allocations(void **state)
{
    static const uint32_t mapping[] = {0, 1, 1};
    static const bg_block_cost costs[] = {{"A", 1e3, 1e3, 1e3}};
    static const bg_device_model devices[] = {{1, 0}, {2, 0}};
    bg_options options = make_options("auto-ops:3");
    heard h = {0};
    model m;

    (void)state;
    if (!test_allocations_available())
        skip();
    m = make_model(true, false);
    options.execution.schedule = "grouped";
    options.execution.device_mapping = mapping;
    options.execution.device_mapping_count = 3;
    options.execution.block_costs = costs;
    options.execution.block_cost_count = 1;
    options.execution.devices = devices;
    options.execution.device_model_count = 2;
    expect_clean_failures(&m, &options);
    options = make_options("auto:2"); /* cuts that do not fit the budget, and the messages about them */
    options.execution.gradient_accumulation = 2;
    options.memory.device_memory_bytes = 1;
    options.reporting.log = hear;
    options.reporting.log_user = &h;
    expect_clean_failures(&m, &options);
    options = make_options("A,B|C,D");
    options.execution.schedule = "auto"; /* tries copies of the plan */
    options.execution.gradient_accumulation = 2;
    expect_clean_failures(&m, &options);
    bg_graph_destroy(m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_uses_of_a_parameter_stay_together),
        cmocka_unit_test(test_names_of_parts),
        cmocka_unit_test(test_measured_costs),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_budgets_are_met_when_a_cut_meets_them),
        cmocka_unit_test(test_the_cache_keeps_the_cut_that_fits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_plans_are_right),
        cmocka_unit_test(test_failed_allocations),
    };

    return cmocka_run_group_tests_name("plan/automatic", tests, NULL, NULL);
}
