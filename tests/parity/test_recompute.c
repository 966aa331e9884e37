/*
 * test_recompute.c: recomputation changes memory but not results. Every way to choose and order recomputation, under
 * every strategy, gives the same bits as the single device that stores all values. The first tests run real kernels on
 * difficult models (batch norm, dropout, tied weights, values that skip stages). The others use symbolic execution on
 * random models.
 *
 * BRIGADE_TEST_ALL runs every cell, the default every third one, and BRIGADE_TEST_QUICK (sanitizer runs) every seventh
 * one and fewer random models.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/ops.h>

#include <stdio.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "support/models.h"
#include "support/plan_check.h"
#include "support/random_model.h"
#include "support/train.h"

enum { RUNS = 3, UPDATES = 2, ACCUMULATION = 5, MICRO_BATCH = 8 };

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

/* Marks the last value of each block, as recompute_checkpoint_every_layer does. */
static void mark_blocks(bg_graph *graph)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (o + 1 == graph->op_count || graph->ops[o + 1].block != graph->ops[o].block)
            bg_graph_checkpoint(graph, graph->ops[o].outputs[0]);
}

static bg_plan *make_plan(const test_model *model, const bg_options *options, bool is_marked, const char *what)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan = NULL;
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error, what);
    loss = model->build(graph, MICRO_BATCH);
    if (is_marked)
        mark_blocks(graph);
    require(bg_plan_create_training(graph, loss, &optimizer, options, &plan, &error), &error, what);
    bg_graph_destroy(graph);
    return plan;
}

static const struct {
    bg_strategy strategy;
    const char *schedule, *stages;
} ways[] = {{BG_STRATEGY_SINGLE, NULL, NULL},
            {BG_STRATEGY_SHARDED, NULL, "B1|B2,B3|B4"},
            {BG_STRATEGY_PIPELINED, "grouped", "B1|B2|B3|B4"},
            {BG_STRATEGY_PIPELINED, "grouped", "B1@0|B2@1|B3@0|B4@1"},
            {BG_STRATEGY_PIPELINED, "interleaved", "B1,B2|B3,B4"},
            {BG_STRATEGY_PIPELINED, "interleaved", "B1|B2|B3|B4"},
            {BG_STRATEGY_PIPELINED, "sequential", "B1|B2|B3|B4"}};

static const struct {
    bg_recompute recompute;
    double fraction;
    bool is_marked;
} choices[] = {{BG_RECOMPUTE_STAGE, 0, false},
               {BG_RECOMPUTE_STAGE, 0, true},
               {BG_RECOMPUTE_CHECKPOINTS, 0, true},
               {BG_RECOMPUTE_FRACTION, 0.5, false},
               {BG_RECOMPUTE_FRACTION, 1.0, false}};

static bg_options options_of(size_t way)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = ways[way].strategy;
    options.execution.schedule = ways[way].schedule;
    options.execution.stages = ways[way].stages;
    options.execution.device_iterations = UPDATES;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 42;
    options.execution.cores = 2;
    options.execution.wait_limit_s = 60;
    return options;
}

/* Compares the cells of a sample with the single device. Returns how many of all cells would recompute something,
 * estimated from the sample. */
static unsigned run_matrix(unsigned model_index)
{
    const test_model *model = test_model_at(model_index);
    const unsigned every = getenv("BRIGADE_TEST_QUICK") != NULL ? 7 : getenv("BRIGADE_TEST_ALL") != NULL ? 1 : 3;
    bg_options options = options_of(0);
    test_result expected =
        test_train_run(make_plan(model, &options, false, model->name), &options, NULL, 0, RUNS * UPDATES, model->name);
    unsigned number = 0, repeating = 0;

    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (size_t k = 0; k < sizeof choices / sizeof choices[0]; k++)
            for (int order = BG_RECOMPUTE_INTERLEAVED; order <= BG_RECOMPUTE_THEN; order++) {
                char what[160];
                bg_plan *plan;
                if (number++ % every != 0)
                    continue;
                options = options_of(w);
                options.memory.recompute = choices[k].recompute;
                options.memory.recompute_fraction = choices[k].fraction;
                options.memory.recompute_order = (bg_recompute_order)order;
                snprintf(what, sizeof what, "%s, way %zu, %s %g%s, %s", model->name, w,
                         bg_option_value_name("recompute", choices[k].recompute), choices[k].fraction,
                         choices[k].is_marked ? " marked" : "",
                         bg_option_value_name("recompute_order", options.memory.recompute_order));
                plan = make_plan(model, &options, choices[k].is_marked, what);
                repeating += bg_plan_summarize(plan).recomputed_op_count > 0;
                test_train_expect(test_train_run(plan, &options, NULL, 0, RUNS * UPDATES, what), &expected, what);
            }
    free(expected.bytes);
    return repeating * every;
}

static void test_digits(void **state)
{
    (void)state;
    assert_true(run_matrix(0) > 35);
}

static void test_residual_with_batch_norm(void **state)
{
    (void)state;
    assert_true(run_matrix(1) > 35);
}

static void test_tied_with_dropout(void **state)
{
    (void)state;
    assert_true(run_matrix(2) > 35);
}

/* ---- random models, by symbolic execution ---- */

static void test_random_models(void **state)
{
    const uint64_t count = getenv("BRIGADE_TEST_ALL") != NULL ? 2000 : getenv("BRIGADE_TEST_QUICK") != NULL ? 30 : 60;

    (void)state;
    for (uint64_t seed = 0; seed < count; seed++) {
        bgi_test_model model = bgi_test_random_model(seed);
        uint64_t random = seed + 99;
        char stages[256], what[96];
        bg_options options = bgi_test_random_options(&model, seed, true, stages);

        for (size_t v = 1; v < model.graph->value_count; v++)
            if (bgi_test_random_below(&random, 5) == 0)
                bg_graph_checkpoint(model.graph, (bg_value){(uint32_t)v});
        for (int recompute = BG_RECOMPUTE_STAGE; recompute <= BG_RECOMPUTE_FRACTION; recompute++) {
            options.memory.recompute = (bg_recompute)recompute;
            options.memory.recompute_order = (bg_recompute_order)bgi_test_random_below(&random, 2);
            options.memory.recompute_fraction = bgi_test_random_below(&random, 11) / 10.0;
            snprintf(what, sizeof what, "random model %llu, %s %g, %s", (unsigned long long)seed,
                     bg_option_value_name("recompute", options.memory.recompute), options.memory.recompute_fraction,
                     bg_option_value_name("recompute_order", options.memory.recompute_order));
            bgi_test_check_training(model.graph, model.loss, &options, what);
        }
        bg_graph_destroy(model.graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_residual_with_batch_norm),
        cmocka_unit_test(test_tied_with_dropout),
        cmocka_unit_test(test_random_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
