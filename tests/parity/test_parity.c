/*
 * test_parity.c: a strategy never changes results. Every strategy, schedule and number of stages, with and without
 * offload, on one core or several, gives bit-identical weights to the single device.
 *
 * test_matrix.c has the product of schedules, recomputation, devices and cores; this file has replicas, mappings,
 * phases, accumulations and stages of all kinds. A cell that fails prints its options. BRIGADE_TEST_QUICK keeps every
 * eleventh cell (sanitizer runs) and trains less.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/train.h"

enum { UPDATES = 20, QUICK_UPDATES = 4, ACCUMULATION = 5, MICRO_BATCH = 8 };

typedef struct cell {
    bg_strategy strategy;
    const char *schedule;
    const char *stages;
    bool offload;
    uint32_t cores;
    uint32_t device_iterations;
    uint32_t replicas;
    const uint32_t *mapping; /* the devices of 4 stages, or NULL */
    bool parallel;           /* phases */
    bool no_fusion;
    bg_accumulation accumulation;
    bg_dtype accumulator; /* NONE: the default */
    double clip;
} cell;

static void describe(const char *model, const cell *c, char *text, size_t size)
{
    snprintf(text, size,
             "%s: strategy %s schedule %s stages %s offload %d cores %u device-iterations %u replicas %u%s%s "
             "accumulation %s "
             "accumulator %s clip %g",
             model, bg_option_value_name("strategy", c->strategy), c->schedule != NULL ? c->schedule : "-",
             c->stages != NULL ? c->stages : "-", c->offload, c->cores, c->device_iterations, c->replicas,
             c->mapping != NULL ? " mapped" : "", c->parallel ? " parallel phases" : "",
             bg_option_value_name("accumulation", c->accumulation), bg_dtype_name(c->accumulator), c->clip);
}

static bool is_quick(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL;
}

/* Trains the cell; every cell makes the same number of updates on the same data. */
static test_result train(const test_model *model, const cell *c)
{
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.003);
    const uint32_t updates = is_quick() ? QUICK_UPDATES : UPDATES;
    char what[256];

    describe(model->name, c, what, sizeof what);
    options.execution.strategy = c->strategy;
    options.execution.schedule = c->schedule;
    options.execution.stages = c->stages;
    options.memory.offload_optimizer = c->offload;
    options.execution.cores = c->cores;
    options.execution.device_mapping = c->mapping;
    options.execution.device_mapping_count = c->mapping != NULL ? 4 : 0;
    options.execution.phases_parallel = c->parallel;
    options.replicas.count = c->replicas;
    options.execution.device_iterations =
        is_quick() && c->device_iterations > 1 ? QUICK_UPDATES / 2 : c->device_iterations;
    if (c->device_iterations > 1) /* compares backward passes in parts with whole ones */
        options.replicas.reduce_bytes = 1;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 42;
    options.execution.wait_limit_s = 60;
    options.numerics.no_fusion = c->no_fusion;
    options.numerics.accumulation = c->accumulation;
    options.numerics.max_gradient_norm = c->clip;
    if (c->accumulator != BG_DTYPE_NONE) {
        options.numerics.accumulator_type = BG_ACCUMULATOR_GIVEN;
        options.numerics.accumulator_dtype = c->accumulator;
    }
    return test_train(model, MICRO_BATCH, &optimizer, &options, NULL, 0, updates, what);
}

static void assert_same(const test_model *model, const cell *c, const test_result *expected)
{
    char what[256];

    describe(model->name, c, what, sizeof what);
    test_train_expect(train(model, c), expected, what);
}

static unsigned every_nth(void)
{
    return is_quick() ? 11 : 1;
}

/* Returns the first model to test: sanitizer runs leave out the digit network, which takes most of the time, except in
 * its own matrix. */
static unsigned first_if_quick(void)
{
    return is_quick() ? 1 : 0;
}

static void run_matrix(unsigned model_index, uint32_t replicas)
{
    static const char *const stages[] = {"B1,B2|B3,B4", "B1|B2,B3|B4", "B1|B2|B3|B4"};
    static const struct {
        bg_strategy strategy;
        const char *schedule;
    } ways[] = {{BG_STRATEGY_SHARDED, NULL},
                {BG_STRATEGY_PIPELINED, "interleaved"},
                {BG_STRATEGY_PIPELINED, "grouped"},
                {BG_STRATEGY_PIPELINED, "sequential"},
                {BG_STRATEGY_PIPELINED, "auto"}};
    const test_model *model = test_model_at(model_index);
    const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = replicas};
    test_result expected = train(model, &single);
    unsigned number = 0;

    for (uint32_t cores = 1; cores <= 2; cores++)
        for (int offload = 0; offload < 2; offload++) {
            cell c = single;
            c.cores = cores, c.offload = offload, c.device_iterations = 5;
            assert_same(model, &c, &expected);
            for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
                for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++) {
                    if (number++ % every_nth() != 0)
                        continue;
                    c.strategy = ways[w].strategy;
                    c.schedule = ways[w].schedule;
                    c.stages = stages[s];
                    c.device_iterations = number % 2 == 0 ? 10 : 4;
                    assert_same(model, &c, &expected);
                }
        }
    free(expected.bytes);
}

static void test_digits(void **state)
{
    (void)state;
    run_matrix(0, 1);
}

static void test_residual(void **state)
{
    (void)state;
    run_matrix(1, 1);
}

static void test_tied(void **state)
{
    (void)state;
    run_matrix(2, 1);
}

/* The model has a tied embedding whose gradient is kept in rows. */
static void test_rows(void **state)
{
    (void)state;
    run_matrix(5, 1);
}

/* This model has kernels that also compute gradients of other ops, and a mean that is divided by weights. */
static void test_u_shape(void **state)
{
    (void)state;
    run_matrix(6, 1);
}

static void test_fan(void **state)
{
    (void)state;
    run_matrix(3, 1);
}

static void test_replicas_of_the_digits(void **state)
{
    (void)state;
    run_matrix(0, 3);
}

static void test_replicas_of_the_tied_model(void **state)
{
    (void)state;
    run_matrix(2, 2);
}

/* Devices have several stages, or their order differs from that of the stages. */
static void test_device_mappings(void **state)
{
    static const char *const mappings[] = {"B1@1|B2@0|B3@2|B4@3", "B1@0|B2@1|B3@0|B4@1", "B1@0|B2@0|B3@0|B4@0",
                                           "B1@3|B2@2|B3@1|B4@0"};

    (void)state;
    for (unsigned m = first_if_quick(); test_model_at(m) != NULL; m++) {
        const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 1};
        test_result expected = train(test_model_at(m), &single);
        for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++) {
            cell c = {.strategy = BG_STRATEGY_PIPELINED,
                      .schedule = "grouped",
                      .stages = mappings[i],
                      .cores = 2,
                      .device_iterations = 4,
                      .replicas = 1};
            assert_same(test_model_at(m), &c, &expected);
            c.schedule = "sequential";
            c.offload = true;
            assert_same(test_model_at(m), &c, &expected);
        }
        free(expected.bytes);
    }
}

/* For each way to accumulate, store and clip gradients, all strategies have the same result, which differs from that of
 * the defaults. */
static void test_accumulations_and_clipping(void **state)
{
    static const struct {
        bg_accumulation accumulation;
        bg_dtype accumulator;
        double clip;
    } kinds[] = {{BG_ACCUMULATE_MEAN, BG_DTYPE_NONE, 0.02},
                 {BG_ACCUMULATE_MEAN_RUNNING, BG_DTYPE_NONE, 0.0},
                 {BG_ACCUMULATE_MEAN_RUNNING, BG_BFLOAT16, 0.02},
                 {BG_ACCUMULATE_MEAN_RUNNING, BG_FLOAT16, 0.02},
                 {BG_ACCUMULATE_SUM, BG_BFLOAT16, 0.0}};
    static const char *const stages[] = {"B1,B2|B3,B4", "B1|B2|B3|B4", "B1@1|B2@0|B3@1|B4@0"};
    static const char *const schedules[] = {"interleaved", "grouped", "sequential"};
    unsigned number = 0;

    (void)state;
    for (unsigned m = first_if_quick(); test_model_at(m) != NULL; m++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            for (uint32_t replicas = 1; replicas < 3; replicas++) {
                cell c = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = replicas};
                test_result plain, expected;

                if (number++ % every_nth() != 0 || ((m + k) % 2 + 1 != replicas && getenv("BRIGADE_TEST_ALL") == NULL))
                    continue;
                plain = train(test_model_at(m), &c);
                c.accumulation = kinds[k].accumulation;
                c.accumulator = kinds[k].accumulator;
                c.clip = kinds[k].clip;
                expected = train(test_model_at(m), &c);
                assert_memory_not_equal(expected.bytes, plain.bytes, expected.size);
                for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++) {
                    c.strategy = s == 1 && replicas == 2 ? BG_STRATEGY_SHARDED : BG_STRATEGY_PIPELINED;
                    c.schedule = c.strategy == BG_STRATEGY_SHARDED
                                     ? NULL
                                     : schedules[s == 2 ? 1 + (k + m) % 2 : (s + k + m) % 3];
                    c.stages = stages[s];
                    c.cores = 2;
                    c.offload = s == 0;
                    assert_same(test_model_at(m), &c, &expected);
                }
                free(plain.bytes);
                free(expected.bytes);
            }
}

/* Gradients that are added to their accumulators where they are made have the same bits as gradients that separate ops
 * add (in models in which nothing else is fused). */
static void test_fused_accumulation(void **state)
{
    (void)state;
    for (unsigned m = 1; test_model_at(m) != NULL; m++) {
        cell c = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 2};
        test_result expected = train(test_model_at(m), &c);

        c.no_fusion = true;
        assert_same(test_model_at(m), &c, &expected);
        c.strategy = BG_STRATEGY_PIPELINED;
        c.stages = "B1|B2,B3|B4";
        assert_same(test_model_at(m), &c, &expected);
        free(expected.bytes);
    }
}

/* Returns the strategy that accepts the schedule of this name. */
static bg_strategy strategy_of(const char *schedule)
{
    int strategy = BG_STRATEGY_PIPELINED;

    bg_option_value_find("strategy", schedule, &strategy);
    return (bg_strategy)strategy;
}

/* Runs every schedule with the placement that the schedule chooses (a line, loops, a fold). Some schedules have a
 * separate W. */
static void run_schedules(unsigned model_index, uint32_t replicas)
{
    const test_model *model = test_model_at(model_index);
    const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = replicas};
    test_result expected = train(model, &single);

    for (uint32_t g = 1; bg_schedule_generator_at(g) != NULL; g += is_quick() ? 3 : 1) {
        cell c = single;
        c.schedule = bg_schedule_generator_at(g)->name;
        c.strategy = strategy_of(c.schedule);
        c.stages = "B1|B2|B3|B4";
        c.cores = 1 + g % 2;
        c.offload = g % 3 == 0;
        c.device_iterations = g % 2 == 0 ? 4 : 10;
        assert_same(model, &c, &expected);
    }
    free(expected.bytes);
}

/* Returns the first model to test. The digit network takes most of the time and is in other tests, so it runs here only
 * with BRIGADE_TEST_ALL. */
static unsigned first_model(void)
{
    return getenv("BRIGADE_TEST_ALL") != NULL ? 0 : 1;
}

static void test_every_schedule_with_replicas(void **state)
{
    (void)state;
    run_schedules(1, 2);
    run_schedules(2, 3);
}

/* B2 and B3 run at the same time, each on its own device. */
static void test_concurrent_stages(void **state)
{
    static const char *const stages[] = {"B1|B2&B3|B4", "B1|B3&B2|B4", "B1@1|B2@0&B3@2|B4@1"};
    const test_model *model = test_model_at(4);
    const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 1};
    test_result expected = train(model, &single);

    (void)state;
    for (uint32_t g = 1; bg_schedule_generator_at(g) != NULL; g++)
        for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++) {
            const bg_schedule_generator *generator = bg_schedule_generator_at(g);
            cell c = single;
            c.schedule = generator->name;
            c.strategy = strategy_of(c.schedule);
            c.stages = stages[s];
            c.cores = 2;
            c.device_iterations = 4;
            /* Loops and folds choose their own devices; interleaved and similar schedules need a device for each stage.
             */
            if (generator->placement != BG_PLACEMENT_LINE ||
                (s == 2 && strcmp(c.schedule, "grouped") != 0 && strcmp(c.schedule, "gpipe") != 0 &&
                 c.strategy == BG_STRATEGY_PIPELINED))
                continue;
            assert_same(model, &c, &expected);
        }
    free(expected.bytes);
}

static void test_phases(void **state)
{
    static const struct {
        const char *stages;
        bool parallel;
    } cases[] = {{NULL, false},         {"B1|B2;B3|B4", false},        {"B1;B2,B3;B4", false}, {NULL, true},
                 {"B1|B2;B3|B4", true}, {"B1@2|B2@0;B3@1|B4@3", true}, {"B1|B2|B3;B4", false}};

    (void)state;
    for (unsigned m = first_model(); test_model_at(m) != NULL; m++) {
        const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 1};
        test_result expected = train(test_model_at(m), &single);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            cell c = {.strategy = BG_STRATEGY_PHASED,
                      .stages = cases[i].stages,
                      .parallel = cases[i].parallel,
                      .cores = 2,
                      .device_iterations = 4,
                      .replicas = 1,
                      .offload = i % 2 == 0};
            assert_same(test_model_at(m), &c, &expected);
        }
        free(expected.bytes);
    }
}

/* Models are cut at block borders and inside blocks, with a parameter that one block uses twice or that several blocks
 * use. */
static void test_automatic_stages(void **state)
{
    static const char *const stages[] = {"auto:1", "auto:2", "auto:3", "auto:4", "auto-ops:2", "auto-ops:4"};

    (void)state;
    for (unsigned m = first_model(); test_model_at(m) != NULL; m++) {
        const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 1};
        test_result expected = train(test_model_at(m), &single);
        for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
            cell c = {.strategy = BG_STRATEGY_PIPELINED,
                      .stages = stages[i],
                      .cores = 2,
                      .device_iterations = 4,
                      .replicas = 1};
            assert_same(test_model_at(m), &c, &expected);
        }
        free(expected.bytes);
    }
}

static void test_mapped_devices(void **state)
{
    static const uint32_t mappings[][4] = {{0, 1, 1, 0}, {3, 1, 0, 2}, {0, 0, 1, 1},
                                           {0, 0, 0, 0}, {3, 1, 1, 5}, {2, 2, 2, 2}};

    (void)state;
    for (unsigned m = first_model(); test_model_at(m) != NULL; m++) {
        const cell single = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 1};
        test_result expected = train(test_model_at(m), &single);
        for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++) {
            cell c = {.strategy = BG_STRATEGY_PIPELINED,
                      .schedule = "grouped",
                      .mapping = mappings[i],
                      .cores = 2,
                      .device_iterations = 4,
                      .replicas = 1};
            assert_same(test_model_at(m), &c, &expected);
        }
        free(expected.bytes);
    }
}

/* Checks that the comparison can fail: another number of replicas gives different bits. */
static void test_the_comparison_sees_a_difference(void **state)
{
    const cell a = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 1};
    const cell b = {.strategy = BG_STRATEGY_SINGLE, .cores = 1, .device_iterations = 1, .replicas = 2};
    test_result first, second;

    (void)state;
    first = train(test_model_at(3), &a);
    second = train(test_model_at(3), &b);
    assert_true(first.size != second.size || memcmp(first.bytes, second.bytes, first.size) != 0);
    free(first.bytes);
    free(second.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_residual),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_fan),
        cmocka_unit_test(test_u_shape),
        cmocka_unit_test(test_replicas_of_the_digits),
        cmocka_unit_test(test_replicas_of_the_tied_model),
        cmocka_unit_test(test_device_mappings),
        cmocka_unit_test(test_fused_accumulation),
        cmocka_unit_test(test_every_schedule_with_replicas),
        cmocka_unit_test(test_concurrent_stages),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_automatic_stages),
        cmocka_unit_test(test_mapped_devices),
        cmocka_unit_test(test_accumulations_and_clipping),
        cmocka_unit_test(test_the_comparison_sees_a_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
