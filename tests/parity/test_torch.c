/*
 * test_torch.c: the digit network trains as in PyTorch. The test compares the losses of 30 updates, which start from
 * the same weights and use the same micro-batches in the same order (tests/oracle/convnet.py made the values).
 * BRIGADE_TEST_QUICK (sanitizer runs) compares only the first 4.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/data.h>
#include <brigade/convnet.h>
#include <brigade/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/oracle.h"

enum { UPDATES = 30, ACCUMULATION = 10, MICRO_BATCH = 40, SAMPLES = UPDATES * ACCUMULATION * MICRO_BATCH };

static int count_updates(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL ? 4 : UPDATES;
}

static const double tolerance = 2e-5;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Trains, and stores the losses of all micro-batches of the updates. */
static void train(bg_strategy strategy, const uint8_t *images, const uint8_t *labels, float *losses)
{
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_convnet net;
    const void *inputs[2];
    void *outputs[8] = {0};

    options.execution.strategy = strategy;
    options.execution.device_iterations = (uint32_t)count_updates();
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_graph_create(&graph, &error), &error);
    net = bg_convnet_build(graph, NULL);
    require(bg_plan_create_training(graph, net.loss, &optimizer, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    inputs[bg_session_find_input(session, "images")] = images;
    inputs[bg_session_find_input(session, "labels")] = labels;
    outputs[bg_session_find_output(session, "loss")] = losses;
    require(bg_session_run(session, inputs, outputs, &error), &error);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void compare(const char *case_name, const uint8_t *images, const uint8_t *labels)
{
    static const bg_strategy strategies[] = {BG_STRATEGY_SINGLE, BG_STRATEGY_PIPELINED};
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/convnet.txt");
    const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, case_name, "loss");
    float losses[UPDATES * ACCUMULATION];

    assert_int_equal(wanted->count, UPDATES);
    for (size_t s = 0; s < 2; s++) {
        train(strategies[s], images, labels, losses);
        for (int u = 0; u < count_updates(); u++) {
            double mean = 0.0;
            for (int m = 0; m < ACCUMULATION; m++)
                mean += (double)losses[u * ACCUMULATION + m] / ACCUMULATION;
            if (!(fabs(mean - wanted->values[u]) <= tolerance))
                fail_msg("%s, update %d: loss %.9g, PyTorch's is %.9g", case_name, u, mean, wanted->values[u]);
        }
    }
    bgi_test_oracle_close(oracle);
}

static void test_generated_digits(void **state)
{
    const bg_digits_options options = {.seed = 5, .count = SAMPLES};
    bg_image_set set;
    bg_error error = {0};

    (void)state;
    require(bg_digits_create(&options, &set, &error), &error);
    compare("digits", set.images.data, set.labels.data);
    bg_image_set_clear(&set);
}

static void test_mnist(void **state)
{
    const char *const folders[] = {getenv("BRIGADE_TEST_DATA"), getenv("BRIGADE_DATA"), "data"};
    bg_image_set set;
    bg_error error = {0};

    (void)state;
    if (bg_mnist_load(folders, 3, true, &set, &error) != BG_OK) {
        print_message("skipped: no MNIST in $BRIGADE_TEST_DATA, $BRIGADE_DATA or data: %s\n", error.message);
        skip();
    }
    compare("mnist", set.images.data, set.labels.data);
    bg_image_set_clear(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generated_digits),
        cmocka_unit_test(test_mnist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
