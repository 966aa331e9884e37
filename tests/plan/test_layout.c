/*
 * test_layout.c: checks memory and programs of plans by symbolic execution (support/plan_check.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/plan_check.h"
#include "support/random_model.h"
#include "support/zoo.h"

/* For random models under random strategies, every value reaches all its readers in the graph. */
static void test_random_training(void **state)
{
    const uint64_t count = getenv("BRIGADE_TEST_ALL") != NULL ? 20000 : 600;

    (void)state;
    for (uint64_t seed = 0; seed < count; seed++) {
        bgi_test_model model = bgi_test_random_model(seed);
        char stages[256], what[400];
        bg_options options = bgi_test_random_options(&model, seed, true, stages);
        snprintf(what, sizeof what, "seed %llu, %s %s, %s, %u micro-batches", (unsigned long long)seed,
                 bg_option_value_name("strategy", options.execution.strategy),
                 options.execution.schedule != NULL ? options.execution.schedule : "", stages,
                 options.execution.gradient_accumulation);
        bgi_test_check_training(model.graph, model.loss, &options, what);
        bg_graph_destroy(model.graph);
    }
}

static void test_random_inference(void **state)
{
    const uint64_t count = getenv("BRIGADE_TEST_ALL") != NULL ? 20000 : 600;

    (void)state;
    for (uint64_t seed = 0; seed < count; seed++) {
        bgi_test_model model = bgi_test_random_model(seed);
        char stages[256], what[400];
        bg_options options = bgi_test_random_options(&model, seed, false, stages);
        snprintf(what, sizeof what, "seed %llu, %s %s, %s, %u micro-batches", (unsigned long long)seed,
                 bg_option_value_name("strategy", options.execution.strategy),
                 options.execution.schedule != NULL ? options.execution.schedule : "", stages,
                 options.execution.device_iterations);
        bgi_test_check_inference(model.graph, &options, what);
        bg_graph_destroy(model.graph);
    }
}

/* The models have scratch, and stashes of several slots whose free slots are used by transients. */
static void test_zoo(void **state)
{
    static const struct {
        const char *model, *schedule; /* NULL: a single device */
    } cases[] = {{"digits", NULL}, {"digits", "gpipe"}, {"digits", "zb-h1"}, {"gpt", NULL},
                 {"gpt", "gpipe"}, {"gpt", "zb-h1"},    {"unet", NULL},      {"bert", NULL},
                 {"llama", NULL},  {"vit", NULL},       {"recurrent", NULL}};
    char what[64];

    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const bool is_single = cases[n].schedule == NULL;
        bg_options options = bg_options_defaults();
        const test_zoo_model *model;
        bg_graph *graph = NULL;
        unsigned i = 0;

        while ((model = test_zoo_at(i)) != NULL && strcmp(model->name, cases[n].model) != 0)
            i++;
        assert_non_null(model);
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        options.execution.strategy = is_single ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED;
        options.execution.schedule = cases[n].schedule;
        options.execution.stages = is_single ? NULL : "auto:2";
        options.execution.gradient_accumulation = 3;
        snprintf(what, sizeof what, "%s, %s", model->name, is_single ? "single" : cases[n].schedule);
        bgi_test_check_training(graph, model->build(graph, 2), &options, what);
        bg_graph_destroy(graph);
    }
}

/* Compiles two stages of three layers each for one device. The sizes of their one-slot stashes follow from widths and
 * batch. */
static bg_plan *make_stashes(bg_graph *graph, const int64_t *widths)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    static const uint32_t devices[] = {0, 0};
    const bg_type type = bg_matrix(BG_FLOAT32, 64, widths[0]);
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    bg_value x = bg_graph_input(graph, "x", &type);
    bg_error error = {0};
    bg_plan *plan = NULL;

    for (int i = 0; i < 6; i++) {
        bg_block_start(graph, names[i], BG_DEVICE_NONE);
        x = bg_elementwise_unary(graph, NULL, BG_TANH, bg_linear_layer(graph, names[i], x, widths[1 + i], false));
    }
    x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.execution.strategy = BG_STRATEGY_SHARDED;
    options.execution.stages = "a,b,c|d,e,f";
    options.execution.device_mapping = devices;
    options.execution.device_mapping_count = 2;
    if (bg_plan_create_training(graph, x, &optimizer, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    return plan;
}

/* The largest one-slot stash of a device is placed last, right before the transients. If several are equal, the first
 * of them is placed last. */
static void test_the_stash_before_the_transients(void **state)
{
    static const int64_t cases[][7] = {
        {256, 256, 256, 16, 16, 16, 16}, {16, 16, 16, 256, 256, 256, 256}, {32, 32, 64, 64, 64, 64, 64}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bg_graph *graph = NULL;
        const bgi_plan_edge *last = NULL, *wanted = NULL;
        uint32_t equal = 0;
        bg_plan *plan;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        plan = make_stashes(graph, cases[c]);
        for (uint32_t e = 0; e < plan->edge_count; e++) {
            const bgi_plan_edge *edge = &plan->edges[e];
            if (!edge->is_stash || edge->depth != 1)
                continue;
            if (last == NULL || edge->offset > last->offset)
                last = edge;
            equal += wanted != NULL && edge->slot_bytes == wanted->slot_bytes;
            if (wanted == NULL || edge->slot_bytes > wanted->slot_bytes)
                wanted = edge;
        }
        if (last == NULL || last != wanted)
            fail_msg("case %zu: the last stash is that of edge %td, not of edge %td", c, last - plan->edges,
                     wanted - plan->edges);
        assert_int_equal(equal > 0, c == 2);
        bg_plan_destroy(plan);
        bg_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_training),
        cmocka_unit_test(test_random_inference),
        cmocka_unit_test(test_zoo),
        cmocka_unit_test(test_the_stash_before_the_transients),
    };

    return cmocka_run_group_tests_name("plan/layout", tests, NULL, NULL);
}
