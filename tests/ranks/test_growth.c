/*
 * test_growth.c: 10,000 updates of two ranks need no more memory than the first 1,000.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "support/allocations.h"
#include "support/trainer_rig.h"

enum { MICRO_BATCH = 2, ACCUMULATION = 2, ITERATIONS = 20, FIRST = 1000, ALL = 10000, MOST_KB = 512 };

static long find_resident_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long found = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            found = strtol(line + 6, NULL, 10);
    if (file != NULL)
        fclose(file);
    return found;
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Trains until step `end`; both ranks get the losses of each run. */
static void train(bg_session *session, bg_infeed *infeed, uint64_t end)
{
    float losses[ITERATIONS * ACCUMULATION * 2];
    void *outputs[8] = {0};
    bg_error error = {0};

    outputs[bg_session_find_output(session, "loss")] = losses;
    while (bg_session_step(session) < end)
        require(bg_session_run_infeed(session, infeed, outputs, &error), &error);
}

static void memory_does_not_grow(void **state)
{
    const test_net net = {.device_count = 2};
    const bg_optimizer optimizer = bg_sgd(0.001);
    bg_options options = bg_options_defaults();
    bg_infeed_options feeding = bg_infeed_options_defaults();
    bg_infeed *infeed = NULL;
    test_net_samples samples;
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_value loss;
    bg_error error = {0};
    long first_kb, kb;
    int64_t first_bytes, bytes;

    (void)state;
    test_net_samples_make(&samples, TEST_NET_MOST_SAMPLES);
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = ITERATIONS;
    options.execution.cores = 1;
    options.replicas.count = 2;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_graph_create(&graph, &error), &error);
    loss = test_net_model((void *)&net, graph, BG_TRAINER_FIT, MICRO_BATCH);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    plan->options.execution.transport = test_ranks_transport();
    require(bg_session_create(plan, NULL, &session, &error), &error);
    feeding.repeat = true;
    require(bg_infeed_create_dataset(samples.dataset, &feeding, &infeed, &error), &error);
    require(bg_infeed_start(infeed, session, &error), &error);
    train(session, infeed, FIRST);
    first_kb = find_resident_kb();
    first_bytes = test_allocations_live();
    train(session, infeed, ALL);
    kb = find_resident_kb();
    bytes = test_allocations_live();
    printf("after %d updates %ld kB, after %d %ld kB; %lld bytes more in blocks\n", FIRST, first_kb, ALL, kb,
           (long long)(bytes - first_bytes));
    if (test_allocations_available() && kb - first_kb > MOST_KB)
        fail_msg("%ld kB after %d updates, %ld kB after %d", first_kb, FIRST, kb, ALL);
    if (test_allocations_available() && bytes - first_bytes > MOST_KB << 10)
        fail_msg("%lld bytes more in blocks", (long long)(bytes - first_bytes));
    bg_infeed_destroy(infeed);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    test_net_samples_clear(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_does_not_grow)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
