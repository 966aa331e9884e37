/*
 * test_matrix.c: runs all combinations of schedules, recomputation, tensor locations, 1 to 4 devices and 1 or 2 cores,
 * on four models that are difficult in different ways. Each combination gives the same bits as one device that stores
 * all values, and touches exactly the bytes of memory that its plan states.
 *
 *     models       digits; residual with batch norm and skips; tied embeddings with dropout; concurrent stages
 *     schedules    bg_schedule_generator_at, each with stages that it can place on that many devices
 *     repeats      what is computed again instead of kept, and when
 *     memories     where tensors live: a line there is a further part of the product
 *
 * BRIGADE_TEST_ALL runs every combination (cell). The default is a fixed sample that has every schedule on every model.
 * BRIGADE_TEST_QUICK (sanitizer runs) runs a seventh of that, with half the updates.
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

enum { MOST_UPDATES = 4, ACCUMULATION = 6, MICRO_BATCH = 4, MOST_DEVICES = 4 };

static const struct {
    bg_recompute recompute;
    double fraction;
    bg_recompute_order order;
} repeats[] = {{BG_RECOMPUTE_NONE, 0.0, BG_RECOMPUTE_INTERLEAVED},
               {BG_RECOMPUTE_STAGE, 0.0, BG_RECOMPUTE_INTERLEAVED},
               {BG_RECOMPUTE_STAGE, 0.0, BG_RECOMPUTE_THEN},
               {BG_RECOMPUTE_FRACTION, 0.5, BG_RECOMPUTE_INTERLEAVED},
               {BG_RECOMPUTE_FRACTION, 0.5, BG_RECOMPUTE_THEN}};

static void keep_all(bg_options *options)
{
    for (int i = 0; i < BG_LOCATION_COUNT; i++)
        options->memory.locations[i].place = BG_PLACE_DEVICE;
}

static void offload_optimizer(bg_options *options)
{
    options->memory.offload_optimizer = true;
}

static void offload_activations(bg_options *options)
{
    options->memory.locations[BG_LOCATION_ACTIVATIONS].place = BG_PLACE_REMOTE;
}

static void offload_all(bg_options *options)
{
    for (int i = 0; i < BG_LOCATION_COUNT; i++)
        options->memory.locations[i].place = BG_PLACE_REMOTE;
    options->execution.io_threads = 1;
}

static const struct {
    const char *name;
    void (*set)(bg_options *options);
} memories[] = {{"all on the device", keep_all},
                {"optimizer's state remote", offload_optimizer},
                {"activations remote", offload_activations},
                {"all remote", offload_all}};

static uint32_t count_updates(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL ? MOST_UPDATES / 2 : MOST_UPDATES;
}

enum { REPEATS = sizeof repeats / sizeof repeats[0], MEMORIES = sizeof memories / sizeof memories[0] };

typedef struct cell {
    uint32_t model, generator, repeat, memory, devices, cores;
} cell;

/* ---- stages that a schedule can place ---- */

static const char *phases_of(uint32_t devices, bool *out_parallel)
{
    static const char *const stages[] = {"B1;B2,B3;B4", "B1|B2;B3|B4", "B1|B2|B3;B4", "B1|B2;B3|B4"};

    *out_parallel = devices == 4;
    return stages[devices - 1];
}

/* Returns stages that place B2 and B3 on different devices, so that they run at the same time, if the schedule and the
 * number of devices allow it. */
static const char *branches_of(const char *schedule, uint32_t devices)
{
    static const char *const shared[] = {"B1@0|B2@0|B3@0|B4@0", "B1@0|B2@0&B3@1|B4@1", "B1@0|B2@1&B3@2|B4@0",
                                         "B1@0|B2@1&B3@2|B4@3"};
    static const char *const own[] = {"B1,B2,B3,B4", "B1,B2|B3,B4", "B1|B2,B3|B4", "B1|B2&B3|B4"};
    const bool shares = strcmp(schedule, "grouped") == 0 || strcmp(schedule, "gpipe") == 0 ||
                        strcmp(schedule, "sequential") == 0 || strcmp(schedule, "sharded") == 0;

    return shares ? shared[devices - 1] : own[devices - 1];
}

static void choose_stages(const cell *c, const bg_schedule_generator *generator, bg_options *options, char *text,
                          size_t size)
{
    static const char *const line[] = {"B1,B2,B3,B4", "B1,B2|B3,B4", "B1|B2,B3|B4", "B1|B2|B3|B4"};

    options->execution.stages = text;
    if (options->execution.strategy == BG_STRATEGY_SINGLE)
        options->execution.stages = NULL;
    else if (options->execution.strategy == BG_STRATEGY_PHASED)
        options->execution.stages = phases_of(c->devices, &options->execution.phases_parallel);
    else if (generator->placement == BG_PLACEMENT_LINE)
        options->execution.stages = c->model == 4 ? branches_of(generator->name, c->devices) : line[c->devices - 1];
    else { /* two stages a device, as the schedule places them */
        snprintf(text, size, "auto-ops:%u", 2 * c->devices);
        options->execution.device_count = c->devices;
    }
}

/* Returns a different optimizer for each model, because the memory of updates depends on the optimizer, not on the
 * model. */
static bg_optimizer choose_optimizer(uint32_t model)
{
    bg_optimizer optimizers[] = {bg_adamw(0.003), bg_lamb(0.01), bg_adamw(0.003), bg_rmsprop(0.002), bg_adamax(0.003)};

    optimizers[3].centered = true, optimizers[3].momentum = 0.9;
    return optimizers[model % (sizeof optimizers / sizeof optimizers[0])];
}

/* ---- a cell ---- */

static void run_cell(const cell *c, const test_result *expected)
{
    const bg_schedule_generator *generator = bg_schedule_generator_at(c->generator);
    const bg_optimizer optimizer = choose_optimizer(c->model);
    const test_model *model = test_model_at(c->model);
    bg_options options = bg_options_defaults();
    char what[256], stages[32] = "";
    int strategy = BG_STRATEGY_PIPELINED;

    bg_option_value_find("strategy", generator->name, &strategy);
    options.execution.strategy = (bg_strategy)strategy;
    options.execution.schedule = generator->name;
    options.execution.separate_loss = (c->repeat + c->memory + c->devices) % 2 != 0;
    choose_stages(c, generator, &options, stages, sizeof stages);
    options.memory.recompute = repeats[c->repeat].recompute;
    options.memory.recompute_fraction = repeats[c->repeat].fraction;
    options.memory.recompute_order = repeats[c->repeat].order;
    memories[c->memory].set(&options);
    options.execution.cores = c->cores;
    options.execution.device_iterations = c->cores == 1 ? count_updates() : count_updates() / 2;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 42;
    options.execution.wait_limit_s = 60;
    options.reporting.trace = true; /* counts the bytes that are touched */
    snprintf(what, sizeof what, "%s: %s%s, stages %s, %u devices, recompute %s %g %s, %s, %u cores", model->name,
             generator->name, options.execution.separate_loss ? ", loss apart" : "",
             options.execution.stages != NULL ? options.execution.stages : "-", c->devices,
             bg_option_value_name("recompute", options.memory.recompute), options.memory.recompute_fraction,
             bg_option_value_name("recompute_order", options.memory.recompute_order), memories[c->memory].name,
             c->cores);
    test_train_expect(test_train(model, MICRO_BATCH, &optimizer, &options, NULL, 0, count_updates(), what), expected,
                      what);
}

static test_result train_single(uint32_t model)
{
    const bg_optimizer optimizer = choose_optimizer(model);
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.cores = 1;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = count_updates();
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 42;
    return test_train(test_model_at(model), MICRO_BATCH, &optimizer, &options, NULL, 0, count_updates(), "single");
}

/* ---- the product ---- */

/* Returns whether the sample has the cell. A hash decides, so that the sample does not correlate with any of the loops.
 */
static bool is_wanted(const cell *c)
{
    const uint32_t every = getenv("BRIGADE_TEST_ALL") != NULL ? 1 : getenv("BRIGADE_TEST_QUICK") != NULL ? 35 : 5;
    uint32_t hash = c->model;

    hash = hash * 31 + c->generator;
    hash = hash * 31 + c->repeat;
    hash = hash * 31 + c->memory;
    hash = hash * 31 + c->devices;
    hash = hash * 31 + c->cores;
    return (hash * 2654435761u >> 16) % every == 0;
}

static void run_model(uint32_t model)
{
    test_result expected = train_single(model);
    cell c = {.model = model};

    for (c.generator = 0; bg_schedule_generator_at(c.generator) != NULL; c.generator++) {
        uint32_t ran = 0;
        for (c.devices = 1; c.devices <= (c.generator == 0 ? 1 : MOST_DEVICES); c.devices++)
            for (c.repeat = 0; c.repeat < REPEATS; c.repeat++)
                for (c.memory = 0; c.memory < MEMORIES; c.memory++)
                    for (c.cores = 1; c.cores <= 2; c.cores++)
                        if (is_wanted(&c)) {
                            run_cell(&c, &expected);
                            ran++;
                        }
        /* The sample may have no cell of "single", which has few cells. */
        if (c.generator > 0 && getenv("BRIGADE_TEST_QUICK") == NULL)
            assert_true(ran > 0);
    }
    free(expected.bytes);
}

static void test_digits(void **state)
{
    (void)state;
    run_model(0);
}

static void test_residual(void **state)
{
    (void)state;
    run_model(1);
}

static void test_tied(void **state)
{
    (void)state;
    run_model(2);
}

static void test_branches(void **state)
{
    (void)state;
    run_model(4);
}

/* ---- peaks ---- */

static size_t stash_and_all(const char *schedule, uint32_t micro_batches, uint32_t device, size_t *out_all)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = bg_options_defaults();
    bg_plan *plan;
    size_t stash;

    options.execution.schedule = schedule;
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.gradient_accumulation = micro_batches;
    plan = test_train_plan(test_model_at(1), MICRO_BATCH, &optimizer, &options, schedule);
    stash = bg_plan_memory_bytes(plan, device, BG_MEMORY_STASH);
    *out_all = bg_plan_device_bytes(plan, device);
    bg_plan_destroy(plan);
    return stash;
}

/* In 1F1B, a stage has at most as many micro-batches in flight as there are stages from it to the last one. GPipe has
 * all micro-batches in flight, which shows that the number can grow. */
static void test_the_peak_of_1f1b_does_not_grow(void **state)
{
    (void)state;
    for (uint32_t device = 0; device < 4; device++) {
        size_t few_all, many_all, gpipe_few_all, gpipe_many_all;
        const size_t few = stash_and_all("interleaved", 8, device, &few_all);
        const size_t many = stash_and_all("interleaved", 64, device, &many_all);
        const size_t gpipe_few = stash_and_all("gpipe", 8, device, &gpipe_few_all);
        const size_t gpipe_many = stash_and_all("gpipe", 64, device, &gpipe_many_all);

        assert_int_equal(few, many);
        assert_int_equal(few_all, many_all);
        assert_true(few > 0 || device == 3);
        if (device < 3) {
            assert_int_equal(gpipe_many, 8 * gpipe_few);
            assert_true(gpipe_many_all > gpipe_few_all);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_residual),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_the_peak_of_1f1b_does_not_grow),
    };

    return cmocka_run_group_tests_name("parity/matrix", tests, NULL, NULL);
}
