/*
 * test_gate.c: runs follow each other closely on two ranks, one of which has slow data. No iteration of a run begins
 * because of that rank's reports about data in the previous run.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"

enum { REPLICAS = 2, ITERATIONS = 8, RUNS = 1000, PREFETCH = 1 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* Makes the next element, a number from 1 on. On rank 1 each element arrives after a different pause. */
static bg_status count_up(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    uint32_t *count = user;

    (void)out_has_ended, (void)error;
    ++*count;
    if (tensors[0] != NULL)
        *(float *)tensors[0] = (float)*count;
    if (test_ranks_transport()->rank > 0)
        nanosleep(&(struct timespec){.tv_nsec = *count * 2654435761U >> 16}, NULL);
    return BG_OK;
}

static void a_run_hears_nothing_of_the_one_before(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 1);
    bg_options options = bg_options_defaults();
    bg_infeed_options feeding = bg_infeed_options_defaults();
    float rows[ITERATIONS][REPLICAS];
    void *outputs[] = {rows};
    bg_error error = {0};
    bg_infeed *infeed;
    bg_session *session;
    bg_graph *graph;
    bg_plan *plan;
    uint32_t count = 0;

    (void)state;
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_output(graph, "y", bg_scale(graph, "y", bg_graph_input(graph, "x", &type), -1.0, 0.0));
    options.execution.device_iterations = ITERATIONS;
    options.execution.cores = 1;
    options.replicas.count = REPLICAS;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    feeding.prefetch_depth = PREFETCH;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_infeed_create(&type, 1, count_up, &count, &feeding, &infeed, &error), &error);
    require(bg_infeed_start(infeed, session, &error), &error);
    for (uint32_t run = 0; run < RUNS; run++) {
        require(bg_session_run_infeed(session, infeed, outputs, &error), &error);
        for (uint32_t i = 0; i < ITERATIONS * REPLICAS; i++)
            assert_int_equal((int)rows[i / REPLICAS][i % REPLICAS], -(int)(run * ITERATIONS * REPLICAS + i + 1));
    }
    bg_infeed_destroy(infeed);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_hears_nothing_of_the_one_before)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
