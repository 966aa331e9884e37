/*
 * test_outfeeds.c: tests the outfeeds of two ranks. Each has the rows that its rank's devices compute, with the same
 * bits as the run's arrays, and zeros for replicas of other ranks. A rank whose devices do not compute any value of a
 * row does not get the row.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"

enum { WIDTH = 6, MICRO_BATCH = 3, ACCUMULATION = 2, ITERATIONS = 4, MOST_REPLICAS = 2 };
enum { ROWS = ACCUMULATION * ITERATIONS };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_value build(bg_graph *graph)
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    bg_value x = bg_graph_input(graph, "x", &type);

    bg_block_start(graph, "B1", 0);
    x = bg_linear_layer(graph, "first", x, WIDTH, true);
    bg_block_start(graph, "B2", 1);
    x = bg_linear_layer(graph, "second", x, WIDTH, true);
    x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    bg_graph_output(graph, "loss", x);
    return x;
}

/* Stores the rows of the outfeed and the array of the same run, both [row][replica]. `out_owners` has the rank of each
 * replica's loss. */
static uint64_t run(uint32_t replicas, float *out_rows, float *out_array, uint32_t out_owners[MOST_REPLICAS])
{
    static float x[MOST_REPLICAS * ROWS * MICRO_BATCH * WIDTH];
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_outfeed_options feeding = bg_outfeed_options_defaults();
    void *outputs[] = {out_array};
    bg_error error = {0};
    bg_outfeed *outfeed;
    bg_session *session;
    bg_array rows = {0};
    uint64_t count = 0;
    bg_graph *graph;
    bg_value loss;
    bg_plan *plan;

    require(bg_graph_create(&graph, &error), &error);
    loss = build(graph);
    options.execution.strategy = replicas > 1 ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = ITERATIONS;
    options.execution.cores = 1;
    options.replicas.count = replicas;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    feeding.structure = "loss";
    require(bg_outfeed_create(&feeding, &outfeed, &error), &error);
    require(bg_outfeed_attach(outfeed, session, &error), &error);
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)(i * 7 % 31) * 0.03F - 0.4F;
    require(bg_session_run(session, (const void *[]){x}, outputs, &error), &error);
    require(bg_outfeed_dequeue(outfeed, true, &rows, &count, &error), &error);
    assert_true(count <= ROWS);
    if (count > 0)
        memcpy(out_rows, rows.data, count * replicas * sizeof *out_rows);
    for (uint32_t replica = 0; replica < replicas; replica++)
        out_owners[replica] = bg_session_has_device(session, replica, plan->device_count - 1)
                                  ? test_ranks_transport()->rank
                                  : 1 - test_ranks_transport()->rank;
    bg_array_clear(&rows);
    bg_outfeed_destroy(outfeed);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return count;
}

static void a_row_has_the_values_of_its_ranks_replicas(void **state)
{
    float rows[ROWS][MOST_REPLICAS], array[ROWS][MOST_REPLICAS];
    uint32_t owners[MOST_REPLICAS], own = 0;

    (void)state;
    assert_int_equal(run(MOST_REPLICAS, rows[0], array[0], owners), ROWS);
    for (uint32_t replica = 0; replica < MOST_REPLICAS; replica++) {
        const bool is_own = owners[replica] == test_ranks_transport()->rank;
        own += is_own;
        for (uint32_t row = 0; row < ROWS; row++) {
            const float wanted = is_own ? array[row][replica] : 0.0F;
            assert_true(array[row][replica] != 0.0F);
            assert_memory_equal(&rows[row][replica], &wanted, sizeof wanted);
        }
    }
    assert_int_equal(own, 1);
}

static void the_rank_with_the_loss_has_the_rows(void **state)
{
    float rows[ROWS], array[ROWS];
    uint32_t owners[MOST_REPLICAS];
    const uint64_t count = run(1, rows, array, owners);

    (void)state;
    if (owners[0] != test_ranks_transport()->rank) {
        assert_int_equal(count, 0);
        return;
    }
    assert_int_equal(count, ROWS);
    assert_memory_equal(rows, array, sizeof rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_has_the_values_of_its_ranks_replicas),
                                       cmocka_unit_test(the_rank_with_the_loss_has_the_rows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
