/*
 * test_rounds.c: values of any size that one rank reads from others, for example for a checkpoint, are sent in messages
 * of at most 1 MiB. So are outputs.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"

enum { WIDTH = 1100, MICRO_BATCH = 1, MOST_BYTES = 1 << 20 }; /* a weight: 4.8 MB */

/* ---- the test's transport, with checked messages ---- */

static _Atomic size_t largest, all;

static void look(size_t size_bytes)
{
    if (size_bytes > atomic_load(&largest))
        atomic_store(&largest, size_bytes);
    atomic_fetch_add(&all, size_bytes);
}

static bg_status begin_send(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                            void *operation, bg_error *error)
{
    const bg_transport *t = test_ranks_transport();

    look(size_bytes);
    return t->send(user, lane, to, tag, data, size_bytes, operation, error);
}

static bg_status begin_receive(void *user, void *lane, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                               void *operation, bg_error *error)
{
    const bg_transport *t = test_ranks_transport();

    look(size_bytes);
    return t->receive(user, lane, from, tag, data, size_bytes, operation, error);
}

/* Observes the transport's messages. The transport accepts messages of any length, so the library itself must split
 * long ones. */
static void watch(bg_transport *transport)
{
    transport->send = begin_send;
    transport->receive = begin_receive;
    transport->message_bytes = SIZE_MAX / 2;
}

static void expect_rounds(size_t at_least)
{
    if (atomic_load(&all) < at_least)
        fail_msg("%zu bytes of messages, expected at least %zu", atomic_load(&all), at_least);
    if (atomic_load(&largest) > MOST_BYTES)
        fail_msg("a message of %zu bytes", atomic_load(&largest));
}

/* ---- weights ---- */

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_plan *make_plan(bg_transport *transport)
{
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_value x;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    bg_block_start(graph, "B1", 0);
    x = bg_linear_layer(graph, "one", x, WIDTH, false);
    bg_block_start(graph, "B2", 1);
    x = bg_linear_layer(graph, "two", x, WIDTH, false);
    x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.numerics.seed = 5;
    require(bg_plan_create_training(graph, x, &optimizer, &options, &plan, &error), &error);
    plan->options.execution.transport = transport;
    bg_graph_destroy(graph);
    return plan;
}

/* Reads the values of a rank, and compares them with those of a session in one process. */
static bg_status read_all(void *user, bg_error *error)
{
    bg_weights *const *both = user;

    for (uint32_t i = 0; i < bg_weights_count(both[0]); i++) {
        bg_weight found, wanted;
        const bg_status status = bg_weights_at(both[0], i, &found, error);

        if (status != BG_OK)
            return status;
        require(bg_weights_at(both[1], i, &wanted, error), error);
        assert_string_equal(found.name, wanted.name);
        assert_memory_equal(found.data, wanted.data, bg_type_size_bytes(&wanted.type));
    }
    return BG_OK;
}

static void weights_come_in_rounds(void **state)
{
    bg_transport watched = *test_ranks_transport();
    bg_plan *plan, *alone;
    bg_session *session, *whole;
    bg_weights *both[2];
    bg_error error = {0};

    (void)state;
    watch(&watched);
    plan = make_plan(&watched);
    alone = make_plan(NULL);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_session_create(alone, NULL, &whole, &error), &error);
    both[0] = bg_session_weights(session);
    both[1] = bg_session_weights(whole);
    for (uint32_t rank = 0; rank < watched.rank_count; rank++) {
        atomic_store(&largest, 0);
        atomic_store(&all, 0);
        require(bg_session_read_weights(session, rank, read_all, both, &error), &error);
        expect_rounds((size_t)WIDTH * WIDTH * sizeof(float)); /* the other rank's weight */
    }
    bg_session_destroy(whole);
    bg_session_destroy(session);
    bg_plan_destroy(alone);
    bg_plan_destroy(plan);
}

/* ---- outputs ---- */

/* The number of elements of a value, and the number of values in a run; each replica has two stages. */
typedef struct shape {
    int64_t elements;
    uint32_t count, replicas;
    const char *layout;
} shape;

static bg_session *open_outputs(const shape *s, bg_transport *transport, bg_plan **out_plan)
{
    const bg_type type = bg_vector(BG_FLOAT32, s->elements);
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_error error = {0};
    bg_graph *graph;
    bg_value x;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    bg_block_start(graph, "B1", 0);
    x = bg_scale(graph, "first", x, 1.0, 0.5);
    bg_block_start(graph, "B2", 1);
    x = bg_scale(graph, "second", x, 2.0, 0.0);
    bg_graph_output(graph, "y", x);
    options.execution.device_iterations = s->count;
    options.execution.layout = s->layout;
    options.replicas.count = s->replicas;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_plan_create_inference(graph, &options, out_plan, &error), &error);
    (*out_plan)->options.execution.transport = transport;
    require(bg_session_create(*out_plan, NULL, &session, &error), &error);
    bg_graph_destroy(graph);
    return session;
}

static void expect_outputs(const shape *s)
{
    bg_transport watched = *test_ranks_transport();
    const size_t count = (size_t)s->elements * s->count * s->replicas;
    float *x = malloc(count * sizeof *x), *y = calloc(count, sizeof *y);
    const void *inputs[1] = {x};
    void *outputs[1] = {y};
    bg_session *session;
    bg_error error = {0};
    bg_stream stream;
    bg_plan *plan;

    assert_true(x != NULL && y != NULL);
    watch(&watched);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(i % 65536);
    session = open_outputs(s, &watched, &plan);
    require(bg_session_output(session, 0, &stream, &error), &error);
    assert_int_equal(stream.size_bytes, count * sizeof *y);
    atomic_store(&largest, 0);
    atomic_store(&all, 0);
    require(bg_session_run(session, inputs, outputs, &error), &error);
    for (size_t i = 0; i < count; i++)
        if (y[i] != 2.0F * (float)(i % 65536) + 1.0F)
            fail_msg("value %zu is %g", i, (double)y[i]);
    expect_rounds(count / 2 * sizeof *y);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    free(x);
    free(y);
}

/* Values are longer than a round (and not sent between stages), or so short that many fill a round. One rank sends
 * them, or both ranks alternate. */
static void outputs_come_in_rounds(void **state)
{
    static const shape shapes[] = {
        {300001, 3, 2, NULL}, {1001, 700, 1, NULL}, {77, 9000, 2, NULL}, {1001, 700, 2, "0,1,1,0"}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        expect_outputs(&shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_come_in_rounds),
                                       cmocka_unit_test(outputs_come_in_rounds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
