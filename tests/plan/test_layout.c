/*
 * test_layout.c: memory and programs of plans, by symbolic execution (support/plan_check.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/plan_check.h"
#include "support/random_model.h"
#include "support/zoo.h"

/* For random models under random strategies, every content reaches the places that the graph requires. */
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

/* Models with scratch and with stashes of several slots, whose free places transients use. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_training),
        cmocka_unit_test(test_random_inference),
        cmocka_unit_test(test_zoo),
    };

    return cmocka_run_group_tests_name("plan/layout", tests, NULL, NULL);
}
