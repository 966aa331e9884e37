/*
 * test_recompute.c: tests how recomputation changes plans. It compares bytes with numbers computed by hand, and AUTO
 * with brute force, and tests budgets and errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>
#include <brigade/plan.h>

#include "graph/graph.h"
#include "support/random_model.h"
#include "support/train.h"

enum { ROWS = 8, WIDTH = 16, VALUE = ROWS * WIDTH * 4 };

typedef struct model {
    bg_graph *graph;
    bg_value loss;
    bg_value marks[16]; /* results that may be marked as checkpoints */
    uint32_t mark_count;
} model;

/* Makes blocks "0", "1", ... of a linear layer and `length` squares of different widths; then "loss". */
static model make_model(uint32_t blocks, uint32_t length, bool is_even)
{
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS, WIDTH);
    model m = {0};
    char name[32];
    bg_value x;

    assert_int_equal(bg_graph_create(&m.graph, NULL), BG_OK);
    x = bg_graph_input(m.graph, "x", &type);
    for (uint32_t b = 0; b < blocks; b++) {
        snprintf(name, sizeof name, "%u", b);
        bg_block_start(m.graph, name, BG_DEVICE_NONE);
        x = bg_linear_layer(m.graph, name, x, is_even ? WIDTH : 24, true);
        for (uint32_t i = 0; i < length; i++) {
            if (m.mark_count < 16)
                m.marks[m.mark_count++] = x;
            snprintf(name, sizeof name, "%u.%u", b, i);
            if (i == 1 && !is_even)
                x = bg_linear_layer(m.graph, name, x, 40 + 8 * b, true);
            else
                x = bg_multiply(m.graph, x, x);
        }
    }
    bg_block_start(m.graph, "loss", BG_DEVICE_NONE);
    m.loss = bg_reduce(m.graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    bg_graph_output(m.graph, "loss", m.loss);
    assert_int_equal(bg_graph_check(m.graph, NULL), BG_OK);
    return m;
}

static bg_options make_options(const char *schedule, uint32_t micro_batches)
{
    bg_options options = bg_options_defaults();

    options.execution.schedule = schedule;
    options.execution.gradient_accumulation = micro_batches;
    options.numerics.kernels = BG_KERNELS_REFERENCE;
    return options;
}

static bg_status compile(const model *m, const bg_options *options, bg_plan **out, bg_error *error)
{
    const bg_optimizer optimizer = bg_sgd(0.1);

    *error = (bg_error){0};
    *out = NULL;
    return bg_plan_create_training(m->graph, m->loss, &optimizer, options, out, error);
}

static bg_plan *must_compile(const model *m, const bg_options *options)
{
    bg_plan *plan;
    bg_error error;

    if (compile(m, options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    return plan;
}

static size_t stash(const model *m, const bg_options *options, uint32_t device)
{
    bg_plan *plan = must_compile(m, options);
    const size_t bytes = bg_plan_memory_bytes(plan, device, BG_MEMORY_STASH);

    bg_plan_destroy(plan);
    return bytes;
}

/* Three stages have a linear layer and three squares each, and a fourth stage has the loss; stage k has 2 (3 - k) + 1
 * micro-batches in flight. */
static void test_stash_bytes(void **state)
{
    const model m = make_model(3, 3, true);
    bg_options options = make_options("grouped", 9);

    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        const size_t in_flight = 2 * (3 - k) + 1;
        size_t all, kept;
        options.memory.recompute = BG_RECOMPUTE_NONE;
        all = stash(&m, &options, k);
        /* The stage stashes its input, the linear layer's result, and two squares. A message has more slots, for values
         * that are sent ahead of time. */
        assert_in_range(all, in_flight * 4 * VALUE, in_flight * 4 * VALUE + (k == 0 ? 0 : 2 * VALUE));
        options.memory.recompute = BG_RECOMPUTE_STAGE;
        options.memory.recompute_order = BG_RECOMPUTE_INTERLEAVED;
        kept = stash(&m, &options, k);
        assert_int_equal(all - kept, in_flight * 3 * VALUE);
        options.memory.recompute_order = BG_RECOMPUTE_THEN; /* also, once, the values that R writes and B reads */
        assert_int_equal(stash(&m, &options, k), kept + 3 * VALUE);
        options.memory.recompute_order = BG_RECOMPUTE_INTERLEAVED;
        options.memory.recompute = BG_RECOMPUTE_FRACTION; /* half of four values is two */
        options.memory.recompute_fraction = 0.5;
        assert_int_equal(all - stash(&m, &options, k), in_flight * 2 * VALUE);
        options.memory.recompute_fraction = 0.0;
        assert_int_equal(stash(&m, &options, k), all);
    }
    bg_graph_destroy(m.graph);
}

static size_t total_bytes(const model *m, const bg_options *options, uint32_t device, uint32_t *out_repeated)
{
    bg_plan *plan = must_compile(m, options);
    const size_t bytes = bg_plan_device_bytes(plan, device);

    if (out_repeated != NULL)
        *out_repeated = bg_plan_summarize(plan).recomputed_op_count;
    bg_plan_destroy(plan);
    return bytes;
}

/* A value that R makes stays until B has read it. On one device the stages use the same memory in turn. A device with
 * one stage and one micro-batch would save nothing, so it stashes all values. The order never increases memory. */
static void test_then_costs_no_memory(void **state)
{
    static const uint32_t one_device[5] = {0}, two_devices[] = {0, 1, 1, 0, 0};
    static const char *const schedules[] = {"sequential", "grouped", "gpipe", "interleaved"};
    const model m = make_model(4, 3, true);
    bg_options options = make_options("sequential", 5);
    size_t all, then;
    uint32_t repeated;

    (void)state;
    for (int devices = 1; devices <= 2; devices++) {
        options.execution.device_mapping = devices == 1 ? one_device : two_devices;
        options.execution.device_mapping_count = 5;
        for (uint32_t d = 0; d < (uint32_t)devices; d++) {
            options.memory.recompute = BG_RECOMPUTE_NONE;
            options.memory.recompute_order = BG_RECOMPUTE_INTERLEAVED;
            all = total_bytes(&m, &options, d, NULL);
            options.memory.recompute = BG_RECOMPUTE_STAGE;
            options.memory.recompute_order = BG_RECOMPUTE_THEN;
            then = total_bytes(&m, &options, d, &repeated);
            /* Each stage stashes three values fewer, and memory is needed only for the values that one stage
             * recomputes. */
            assert_int_equal(all - then, (devices == 1 ? 3 : 1) * 3 * VALUE);
            assert_int_equal(repeated, 4 * 3);
        }
    }
    options.execution.device_mapping = NULL;
    options.execution.device_mapping_count = 0;
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
        for (uint32_t d = 0; d < 5; d++) {
            options.execution.schedule = schedules[i];
            options.memory.recompute = BG_RECOMPUTE_NONE;
            options.memory.recompute_order = BG_RECOMPUTE_INTERLEAVED;
            all = total_bytes(&m, &options, d, NULL);
            options.memory.recompute = BG_RECOMPUTE_STAGE;
            options.memory.recompute_order = BG_RECOMPUTE_THEN;
            then = total_bytes(&m, &options, d, &repeated);
            if (i == 0 ? then != all || repeated != 0 : then > all || (d < 3 && then == all) || repeated == 0)
                fail_msg("%s, device %u: %zu bytes, without recomputation %zu; %u ops run again", schedules[i],
                         (unsigned)d, then, all, (unsigned)repeated);
        }
    bg_graph_destroy(m.graph);
}

/* Compiles the digit network of four layers as a pipeline. */
static bg_plan *plan_digits(bg_recompute recompute, const char *schedule, const char *stages, bool separate_loss)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = make_options(schedule, 3);

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.stages = stages;
    options.execution.separate_loss = separate_loss;
    options.replicas.count = 2;
    options.numerics.kernels = BG_KERNELS_FAST;
    options.memory.recompute = recompute;
    options.memory.recompute_order = recompute == BG_RECOMPUTE_NONE ? BG_RECOMPUTE_INTERLEAVED : BG_RECOMPUTE_THEN;
    return test_train_plan(test_model_at(0), 4, &optimizer, &options, schedule);
}

/* The number of slots that a device needs depends on whether another device stashes all values. The second pass finds a
 * device on which recomputation no longer saves memory. */
static void test_then_looks_again(void **state)
{
    bg_plan *none = plan_digits(BG_RECOMPUTE_NONE, "interleaved", "B1|B2,B3|B4", true);
    bg_plan *then = plan_digits(BG_RECOMPUTE_STAGE, "interleaved", "B1|B2,B3|B4", true);

    (void)state;
    assert_string_equal(test_model_at(0)->name, "digits");
    for (uint32_t d = 0; d < 3; d++)
        if (bg_plan_device_bytes(then, d) > bg_plan_device_bytes(none, d))
            fail_msg("device %u: %zu bytes, without recomputation %zu", (unsigned)d, bg_plan_device_bytes(then, d),
                     bg_plan_device_bytes(none, d));
    assert_int_equal(bg_plan_summarize(then).recomputed_op_count, 5);
    bg_plan_destroy(then);
    bg_plan_destroy(none);
}

/* If the backward pass of the loss stage directly follows its forward pass, the stage stashes all values; otherwise it
 * recomputes them. */
static void test_separate_losses_run_again(void **state)
{
    static const char stages[] = "B1@0|B2@1|B3@0|B4@1";
    bg_plan *merged = plan_digits(BG_RECOMPUTE_STAGE, "grouped", stages, false);
    bg_plan *separate = plan_digits(BG_RECOMPUTE_STAGE, "grouped", stages, true);

    (void)state;
    assert_int_equal(bg_plan_summarize(merged).recomputed_op_count, 5);
    assert_int_equal(bg_plan_summarize(separate).recomputed_op_count, 7);
    bg_plan_destroy(separate);
    bg_plan_destroy(merged);
}

/* On one device, only one part between marks is live at a time, so the device needs less memory. */
static void test_marks_lower_the_peak(void **state)
{
    model m = make_model(1, 12, true);
    bg_options options = make_options(NULL, 2);
    bg_plan *plan;
    size_t all, marked;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    plan = must_compile(&m, &options);
    all = bg_plan_device_bytes(plan, 0);
    bg_plan_destroy(plan);
    options.memory.recompute = BG_RECOMPUTE_STAGE; /* the loss's stage would save no memory */
    plan = must_compile(&m, &options);
    assert_int_equal(bg_plan_device_bytes(plan, 0), all);
    assert_int_equal(bg_plan_summarize(plan).recomputed_op_count, 0);
    bg_plan_destroy(plan);
    bg_graph_checkpoint(m.graph, m.marks[4]);
    bg_graph_checkpoint(m.graph, m.marks[8]);
    options.memory.recompute = BG_RECOMPUTE_CHECKPOINTS;
    plan = must_compile(&m, &options);
    marked = bg_plan_device_bytes(plan, 0);
    assert_int_equal(bg_plan_summarize(plan).recomputed_op_count, 10);
    assert_true(marked + 4 * VALUE <= all);
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

/* Under CHECKPOINTS a stage without marks stashes every value; STAGE recomputes them. A stage with marks stashes the
 * same values under both. */
static void test_checkpoints_leave_unmarked_stages(void **state)
{
    model m = make_model(3, 3, true);
    bg_options options = make_options("grouped", 9);

    (void)state;
    bg_graph_checkpoint(m.graph, m.marks[4]);
    for (uint32_t k = 0; k < 3; k++) {
        size_t none, stage, checkpoints;
        options.memory.recompute = BG_RECOMPUTE_NONE;
        none = stash(&m, &options, k);
        options.memory.recompute = BG_RECOMPUTE_STAGE;
        stage = stash(&m, &options, k);
        options.memory.recompute = BG_RECOMPUTE_CHECKPOINTS;
        checkpoints = stash(&m, &options, k);
        assert_true(stage < none);
        assert_int_equal(checkpoints, k == 1 ? stage : none);
    }
    bg_graph_destroy(m.graph);
}

typedef struct outcome {
    size_t bytes[4];
    double share;
} outcome;

static outcome measure(bg_plan *plan)
{
    outcome o = {.share = bg_plan_summarize(plan).recompute_share};

    for (uint32_t d = 0; d < 3; d++)
        o.bytes[d] = bg_plan_device_bytes(plan, d);
    bg_plan_destroy(plan);
    return o;
}

/* Tries every set of marks. A stage with marks stashes the marked values. The marks of the loss stage have no
 * effect. */
static uint32_t list_outcomes(const model *m, bg_options options, outcome *outcomes)
{
    uint32_t count = 0;

    options.memory.recompute = BG_RECOMPUTE_STAGE;
    options.memory.device_memory_bytes = 0;
    for (uint32_t set = 0; set < 1u << m->mark_count; set++) {
        for (uint32_t i = 0; i < m->mark_count; i++)
            m->graph->values[m->marks[i].id].is_checkpoint = (set >> i & 1u) != 0;
        outcomes[count++] = measure(must_compile(m, &options));
    }
    for (uint32_t i = 0; i < m->mark_count; i++)
        m->graph->values[m->marks[i].id].is_checkpoint = false;
    return count;
}

static void check_auto(const char *schedule, bg_recompute_order order, bg_place activations)
{
    model m = make_model(2, 3, false);
    bg_options options = make_options(schedule, activations == BG_PLACE_REMOTE ? 24 : 6);
    static outcome outcomes[64];
    uint32_t count, solved = 0, refused = 0;
    size_t least = SIZE_MAX, most = 0;

    options.memory.recompute_order = order;
    options.memory.locations[BG_LOCATION_ACTIVATIONS].place = activations;
    assert_int_equal(m.mark_count, 6);
    count = list_outcomes(&m, options, outcomes);
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = outcomes[i].bytes[0] > outcomes[i].bytes[1] ? outcomes[i].bytes[0] : outcomes[i].bytes[1];
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    options.memory.recompute = BG_RECOMPUTE_AUTO;
    for (size_t budget = least - 512; budget <= most + 512; budget += (most - least) / 24 + 1) {
        double best = 2.0;
        bg_plan *plan;
        bg_error error;
        bg_status status;
        for (uint32_t i = 0; i < count; i++)
            if (outcomes[i].bytes[0] <= budget && outcomes[i].bytes[1] <= budget && outcomes[i].bytes[2] <= budget &&
                outcomes[i].share < best)
                best = outcomes[i].share;
        options.memory.device_memory_bytes = budget;
        status = compile(&m, &options, &plan, &error);
        if (best > 1.0) {
            assert_int_equal(status, BG_ERROR_BUDGET);
            assert_non_null(strstr(error.message, "no choice of recomputation"));
            refused++;
            continue;
        }
        if (status != BG_OK)
            fail_msg("budget %zu: a share of %g would do, but %s", budget, best, error.message);
        if (bg_plan_summarize(plan).recompute_share > best * (1 + 1e-12))
            fail_msg("budget %zu: %g of the time, %g would do", budget, bg_plan_summarize(plan).recompute_share, best);
        for (uint32_t d = 0; d < 3; d++)
            assert_true(bg_plan_device_bytes(plan, d) <= budget);
        assert_true(bg_plan_summarize(plan).recompute_share >= best * (1 - 1e-12));
        solved++;
        bg_plan_destroy(plan);
    }
    assert_true(refused >= 1 && solved >= 10);
    bg_graph_destroy(m.graph);
}

static void test_auto_equals_brute_force(void **state)
{
    (void)state;
    check_auto("grouped", BG_RECOMPUTE_INTERLEAVED, BG_PLACE_DEVICE);
    check_auto("interleaved", BG_RECOMPUTE_INTERLEAVED, BG_PLACE_DEVICE);
    check_auto("grouped", BG_RECOMPUTE_THEN, BG_PLACE_DEVICE);
    check_auto("gpipe", BG_RECOMPUTE_INTERLEAVED, BG_PLACE_REMOTE);
}

/* If a model has too many ops to try every choice, a bounded search stays within the budget and recomputes at most as
 * many ops as the model has.
 */
static void test_auto_of_a_long_chain(void **state)
{
    model m = make_model(1, 40, true);
    bg_options options = make_options(NULL, 2);
    bg_plan *plan;
    size_t all;

    (void)state;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    plan = must_compile(&m, &options);
    all = bg_plan_device_bytes(plan, 0);
    bg_plan_destroy(plan);
    options.memory.recompute = BG_RECOMPUTE_AUTO;
    for (int tenth = 5; tenth <= 10; tenth++) {
        options.memory.device_memory_bytes = all * (size_t)tenth / 10;
        plan = must_compile(&m, &options);
        assert_true(bg_plan_device_bytes(plan, 0) <= options.memory.device_memory_bytes);
        assert_int_equal(bg_plan_summarize(plan).recomputed_op_count == 0, tenth == 10);
        assert_true(bg_plan_summarize(plan).recomputed_op_count <= 41);
        bg_plan_destroy(plan);
    }
    bg_graph_destroy(m.graph);
}

/* AUTO meets every limit that a simple rule meets, on models whose devices affect each other's number of slots (R is a
 * separate action). */
static void test_auto_meets_what_the_rules_meet(void **state)
{
    const uint64_t first = getenv("BRIGADE_TEST_ALL") != NULL ? 500 : 885;

    (void)state;
    for (uint64_t seed = first; seed < 900; seed++) {
        bgi_test_model m = bgi_test_random_model(seed);
        const bg_optimizer optimizer = bg_adamw(0.01);
        char stages[256];
        bg_options options = bgi_test_random_options(&m, seed - 500, true, stages);
        size_t least = 0;
        bg_plan *plan;
        bg_error error;

        options.execution.gradient_accumulation += 2;
        options.memory.recompute_order = BG_RECOMPUTE_THEN;
        options.memory.recompute = BG_RECOMPUTE_FRACTION;
        options.memory.recompute_fraction = 1.0;
        assert_int_equal(bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error), BG_OK);
        for (uint32_t d = 0; d < bg_plan_summarize(plan).device_count; d++)
            if (bg_plan_device_bytes(plan, d) > least)
                least = bg_plan_device_bytes(plan, d);
        bg_plan_destroy(plan);
        options.memory.recompute = BG_RECOMPUTE_AUTO;
        options.memory.device_memory_bytes = least;
        if (bg_plan_create_training(m.graph, m.loss, &optimizer, &options, &plan, &error) != BG_OK)
            fail_msg("seed %llu: all again takes %zu bytes, but %s", (unsigned long long)seed, least, error.message);
        for (uint32_t d = 0; d < bg_plan_summarize(plan).device_count; d++)
            assert_true(bg_plan_device_bytes(plan, d) <= least);
        bg_plan_destroy(plan);
        bg_graph_destroy(m.graph);
    }
}

typedef struct heard {
    bg_log_level level;
    char text[256];
} heard;

static void hear(void *user, bg_log_level level, const char *text)
{
    heard *h = user;

    if (strncmp(text, "plan: compiled in ", 18) == 0) /* the last message of every plan */
        return;
    h->level = level;
    snprintf(h->text, sizeof h->text, "%s", text);
}

static void test_rules(void **state)
{
    model m = make_model(2, 2, true);
    bg_options options = make_options("interleaved", 8);
    bg_plan *plan;
    bg_error error;
    heard last = {.text = ""};

    (void)state;
    options.memory.recompute = BG_RECOMPUTE_STAGE;
    options.execution.ipu_limits = true;
    options.execution.auto_round_devices = true;
    bg_plan_destroy(must_compile(
        &m, &options)); /* interleaved stages may recompute even with ipu_limits, if the graph has no checkpoints */
    bg_graph_checkpoint(m.graph, m.marks[1]);
    assert_int_equal(compile(&m, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "is a recomputation checkpoint, but the schedule is `interleaved`"));
    options.execution.schedule = "Interleaved";
    assert_int_equal(compile(&m, &options, &plan, &error), BG_ERROR_INVALID);
    options.execution.schedule = "grouped";
    bg_plan_destroy(must_compile(&m, &options));
    options.execution.schedule = "interleaved";
    options.execution.ipu_limits = options.execution.auto_round_devices = false;
    bg_plan_destroy(must_compile(&m, &options));
    options.execution.gradient_accumulation = 1;
    options.reporting.log = hear;
    options.reporting.log_user = &last;
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_OK);
    assert_int_equal(bg_plan_summarize(plan).recomputed_op_count, 0);
    bg_plan_destroy(plan);
    options.execution.device_iterations = 8;
    assert_int_equal(bg_plan_create_inference(m.graph, &options, &plan, &error), BG_OK);
    assert_int_equal(last.level, BG_LOG_INFO);
    assert_non_null(strstr(last.text, "no effect in inference"));
    bg_plan_destroy(plan);
    bg_graph_destroy(m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stash_bytes),
        cmocka_unit_test(test_then_costs_no_memory),
        cmocka_unit_test(test_then_looks_again),
        cmocka_unit_test(test_separate_losses_run_again),
        cmocka_unit_test(test_marks_lower_the_peak),
        cmocka_unit_test(test_checkpoints_leave_unmarked_stages),
        cmocka_unit_test(test_auto_equals_brute_force),
        cmocka_unit_test(test_auto_of_a_long_chain),
        cmocka_unit_test(test_auto_meets_what_the_rules_meet),
        cmocka_unit_test(test_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
