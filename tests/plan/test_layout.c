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

#include "support/plan_check.h"
#include "support/random_model.h"

/* Random models under random strategies: every content arrives where the graph says it must. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_training),
        cmocka_unit_test(test_random_inference),
    };

    return cmocka_run_group_tests_name("plan/layout", tests, NULL, NULL);
}
