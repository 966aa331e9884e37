/*
 * test_large_sums.c: gradients that two ranks sum in rounds are bit-identical to those of one process, whether the
 * program waits for the sum or runs concurrently, and with whole or sharded gradients.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "transport/ranks.h"

/* One weight has 2.3 MB, one has 1.5 MB, and the others are small. A round of two ranks has fewer bytes than either
 * large weight. */
enum { WIDTH = 760, HIDDEN = 500, MICRO_BATCH = 2, ACCUMULATION = 2, STEPS = 2, REPLICAS = 2 };

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
    bg_block_start(graph, "B2", 0);
    x = bg_linear_layer(graph, "second", x, HIDDEN, true);
    x = bg_linear_layer(graph, "third", x, 3, false);
    return bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
}

/* Trains, in one process if `uses_ranks` is false. */
static bg_session *train(const bg_options *options, bool uses_ranks, bg_plan **out_plan)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    void *outputs[4] = {0};
    bg_session *session;
    bg_error error = {0};
    bg_stream stream;
    bg_graph *graph;
    bg_value loss;
    float *x;

    require(bg_graph_create(&graph, &error), &error);
    loss = build(graph);
    require(bg_plan_create_training(graph, loss, &optimizer, options, out_plan, &error), &error);
    (*out_plan)->options.execution.transport = uses_ranks ? test_ranks_transport() : NULL;
    require(bg_session_create(*out_plan, NULL, &session, &error), &error);
    require(bg_session_input(session, 0, &stream, &error), &error);
    x = malloc(stream.size_bytes);
    assert_non_null(x);
    for (size_t i = 0; i < stream.size_bytes / sizeof *x; i++)
        x[i] = (float)(i * 7 % 31) * 0.03F - 0.4F;
    for (int step = 0; step < STEPS; step++)
        require(bg_session_run(session, (const void *[]){x}, outputs, &error), &error);
    free(x);
    bg_graph_destroy(graph);
    return session;
}

static void compare(const bg_options *options)
{
    bg_plan *plans[2];
    bg_session *wanted = train(options, false, &plans[0]), *found = train(options, true, &plans[1]);
    const uint32_t count = bg_weights_count(bg_session_weights(wanted));
    bg_error error = {0};

    assert_true(count >= 5);
    assert_int_equal(bg_weights_count(bg_session_weights(found)), count);
    for (uint32_t i = 0; i < count; i++) {
        bg_weight a, b;
        require(bg_weights_at(bg_session_weights(wanted), i, &a, &error), &error);
        require(bg_weights_find(bg_session_weights(found), a.name, &b, &error), &error);
        assert_memory_equal(a.data, b.data, bg_type_size_bytes(&a.type));
    }
    bg_session_destroy(wanted);
    bg_session_destroy(found);
    bg_plan_destroy(plans[0]);
    bg_plan_destroy(plans[1]);
}

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.cores = 1;
    options.replicas.count = REPLICAS;
    return options;
}

static void sums_in_rounds_have_the_same_bits(void **state)
{
    bg_options options = make_options();

    (void)state;
    assert_true((size_t)WIDTH * WIDTH * sizeof(float) > bgi_ranks_round_bytes(REPLICAS));
    compare(&options);
    options.numerics.canonical_reductions = true;
    compare(&options);
}

static void pieces_in_rounds_have_the_same_bits(void **state)
{
    bg_options options = make_options();

    (void)state;
    options.memory.locations[BG_LOCATION_STATE].sharded = true;
    compare(&options);
}

/* A rank has one replica of both stages. The sum of the last stage's gradients runs during the first stage's backward
 * pass. */
static void sums_beside_the_program_too(void **state)
{
    bg_options options = make_options();

    (void)state;
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.stages = "B1|B2";
    compare(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_in_rounds_have_the_same_bits),
                                       cmocka_unit_test(pieces_in_rounds_have_the_same_bits),
                                       cmocka_unit_test(sums_beside_the_program_too)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
