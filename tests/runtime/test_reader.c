/*
 * test_reader.c: tests sessions that read published weights: which versions readers see, which memory is shared, and
 * that a run never sees a mixture of versions during training. It also runs under the thread sanitizer.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <brigade/ops.h>
#include <brigade/session.h>

#include "runtime/session.h"
#include "runtime/weights.h"

enum { ROWS = 4, WIDE = 96, OUT = 8 };

static bg_value layer(bg_graph *graph, const char *name, bg_value x, int64_t from, int64_t to)
{
    const bg_type type = bg_matrix(BG_FLOAT32, to, from), row = bg_vector(BG_FLOAT32, to);
    char weight[32], bias[32];

    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    return bg_linear(graph, name, x, bg_graph_parameter(graph, weight, &type, NULL),
                     bg_graph_parameter(graph, bias, &row, NULL));
}

/* Makes a perceptron whose output depends on every weight. */
static bg_graph *make_graph(bool has_loss, bg_value *out_loss)
{
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS, WIDE), goal = bg_matrix(BG_FLOAT32, ROWS, OUT);
    bg_graph *graph = NULL;
    bg_value x;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_tanh(graph, layer(graph, "fc1", bg_graph_input(graph, "x", &type), WIDE, WIDE));
    x = bg_tanh(graph, layer(graph, "fc2", x, WIDE, WIDE));
    x = layer(graph, "fc3", x, WIDE, OUT);
    if (has_loss) {
        *out_loss = bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "goal", &goal), BG_LOSS_MEAN);
        bg_graph_output(graph, "loss", *out_loss);
    } else {
        bg_graph_output(graph, "y", x);
    }
    return graph;
}

static float inputs[ROWS * WIDE], goals[ROWS * OUT];

static void fill(void)
{
    for (int i = 0; i < ROWS * WIDE; i++)
        inputs[i] = (float)(i * 7 % 23) / 11.0F - 1.0F;
    for (int i = 0; i < ROWS * OUT; i++)
        goals[i] = (float)(i % 3);
}

static bg_plan *make_inference(const bg_options *options)
{
    bg_graph *graph = make_graph(false, NULL);
    const bg_options defaults = bg_options_defaults();
    bg_plan *plan = NULL;
    bg_error error = {0};

    if (bg_plan_create_inference(graph, options != NULL ? options : &defaults, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return plan;
}

static bg_session *make_training(const bg_options *options)
{
    const bg_optimizer sgd = bg_sgd(0.05);
    bg_session *session = NULL;
    bg_error error = {0};
    bg_value loss;
    bg_graph *graph = make_graph(true, &loss);

    if (bg_session_create_training(graph, loss, &sgd, options, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return session;
}

static void train(bg_session *session)
{
    bg_error error = {0};
    float loss;

    if (bg_session_run(session, (const void *[]){inputs, goals}, (void *[]){&loss}, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void infer(bg_session *session, float y[ROWS * OUT])
{
    bg_error error = {0};

    if (bg_session_run(session, (const void *[]){inputs}, (void *[]){y}, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static bg_session *make_reader(const bg_plan *plan, bg_weights *weights)
{
    bg_session *session = NULL;
    bg_error error = {0};

    if (bg_session_create_reader(plan, weights, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    return session;
}

static uint64_t publish(bg_weights *weights)
{
    uint64_t version = 0;
    bg_error error = {0};

    if (bg_weights_publish(weights, &version, &error) != BG_OK)
        fail_msg("%s", error.message);
    return version;
}

/* ---- visibility of versions ---- */

static void test_versions(void **state)
{
    float first[ROWS * OUT], second[ROWS * OUT], y[ROWS * OUT];
    bg_plan *plan = make_inference(NULL);
    bg_session *training = make_training(NULL), *plain = NULL, *reader;
    bg_weights *weights = bg_session_weights(training);

    (void)state;
    assert_int_equal(bg_session_create(plan, weights, &plain, NULL), BG_OK);
    infer(plain, first);
    reader = make_reader(plan, weights); /* publishes */
    assert_int_equal(bg_session_version(plain), 0);
    assert_int_equal(bg_session_version(reader), 1);
    assert_ptr_equal(bg_session_weights(reader), weights);
    infer(reader, y);
    assert_memory_equal(y, first, sizeof y);
    train(training);
    infer(reader, y); /* not published yet */
    assert_memory_equal(y, first, sizeof y);
    infer(plain, second);
    assert_memory_not_equal(second, first, sizeof y);
    infer(reader, y);
    assert_memory_equal(y, first, sizeof y);
    assert_int_equal(publish(weights), 2);
    infer(reader, y);
    assert_memory_equal(y, second, sizeof y);
    assert_int_equal(bg_session_version(reader), 2);
    train(training);
    bg_session_destroy(training); /* the reader holds the weights */
    bg_session_destroy(plain);
    infer(reader, y);
    assert_memory_equal(y, second, sizeof y);
    assert_int_equal(publish(bg_session_weights(reader)), 3);
    infer(reader, y);
    assert_memory_not_equal(y, second, sizeof y);
    bg_session_destroy(reader);
    bg_plan_destroy(plan);
}

/* A value that the program sets, whole or in part, is published only on request. */
static void test_set(void **state)
{
    const bg_type row = bg_vector(BG_FLOAT32, OUT);
    float first[ROWS * OUT], y[ROWS * OUT], bias[OUT] = {1, 2, 3, 4, 5, 6, 7, 8};
    bg_plan *plan = make_inference(NULL);
    bg_session *training = make_training(NULL), *reader;
    bg_weights *weights = bg_session_weights(training);
    bg_weight before = {0}, after = {0};

    (void)state;
    reader = make_reader(plan, weights);
    infer(reader, first);
    assert_int_equal(bg_weights_find(weights, "fc1.weight", &before, NULL), BG_OK);
    assert_int_equal(bg_weights_set(weights, "fc3.bias", &row, bias, NULL), BG_OK);
    infer(reader, y);
    assert_memory_equal(y, first, sizeof y);
    publish(weights);
    infer(reader, y);
    for (int i = 0; i < ROWS * OUT; i++)
        assert_float_equal(y[i], first[i] + bias[i % OUT], 1e-4);
    assert_int_equal(bg_weights_find(weights, "fc3.bias", &after, NULL), BG_OK);
    assert_memory_equal(after.data, bias, sizeof bias);
    bg_session_destroy(reader);
    bg_session_destroy(training);
    bg_plan_destroy(plan);
}

/* ---- shared memory ---- */

/* Readers of weights that are not being trained read the weights in place. */
static void test_shared(void **state)
{
    enum { READERS = 3 };
    bg_plan *plan = make_inference(NULL);
    bg_session *readers[READERS];
    bg_weights *weights = NULL;
    bg_weight weight = {0};
    bg_session *first = NULL;
    float y[ROWS * OUT], wanted[ROWS * OUT];

    (void)state;
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    {
        bg_options options = bg_options_defaults();
        bg_plan *maker;
        options.numerics.initialize_missing = true;
        maker = make_inference(&options);
        assert_int_equal(bg_session_create(maker, weights, &first, NULL), BG_OK);
        infer(first, wanted);
        bg_session_destroy(first);
        bg_plan_destroy(maker);
    }
    for (int i = 0; i < READERS; i++)
        readers[i] = make_reader(plan, weights);
    for (int i = 0; i < READERS; i++) {
        infer(readers[i], y);
        assert_memory_equal(y, wanted, sizeof y);
    }
    for (uint32_t v = 0; v < plan->variable_count; v++) {
        const bgi_plan_variable *variable = &plan->variables[v];
        if (variable->role != BG_ROLE_PARAMETER)
            continue;
        assert_int_equal(bg_weights_find(weights, bgi_plan_variable_weight(variable), &weight, NULL), BG_OK);
        for (int i = 0; i < READERS; i++) {
            const bgi_engine *engine = readers[i]->engine;
            assert_true(readers[i]->in_place[v]);
            assert_ptr_equal(bgi_in_place_address(&engine->in_place[0], variable->places[0].operand.offset),
                             weight.data);
        }
    }
    assert_int_equal(publish(weights), 2); /* no value has changed, so version 2 has the same blocks */
    infer(readers[0], y);
    assert_memory_equal(y, wanted, sizeof y);
    assert_int_equal(bg_weights_find(weights, "fc1.weight", &weight, NULL), BG_OK);
    assert_ptr_equal(weights->items[bgi_weights_index(weights, "fc1.weight")].block->data, weight.data);
    assert_int_equal(weights->items[bgi_weights_index(weights, "fc1.weight")].block->users,
                     2); /* version 1 was freed */
    for (int i = 0; i < READERS; i++)
        bg_session_destroy(readers[i]);
    bg_weights_destroy(weights);
    bg_plan_destroy(plan);
}

/* With each of these options a reader gives the same bits as an ordinary session. */
static void test_strategies(void **state)
{
    bg_session *training = make_training(NULL);
    bg_weights *weights = bg_session_weights(training);

    (void)state;
    train(training);
    publish(weights);
    for (int i = 0; i < 5; i++) {
        bg_options options = bg_options_defaults();
        float wanted[2 * ROWS * OUT], y[2 * ROWS * OUT];
        bg_session *plain = NULL, *reader;
        bg_plan *plan;
        options.execution.cores = i % 2 == 1 ? 2 : 1;
        options.reporting.trace = i == 2;
        options.execution.strategy = i < 3 ? BG_STRATEGY_SINGLE : i == 3 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SHARDED;
        options.execution.stages = i < 3 ? NULL : "auto-ops:3";
        plan = make_inference(&options);
        assert_int_equal(bg_session_create(plan, weights, &plain, NULL), BG_OK);
        reader = make_reader(plan, weights);
        for (int run = 0; run < 2; run++) {
            infer(plain, wanted);
            infer(reader, y);
            assert_memory_equal(y, wanted, ROWS * OUT * sizeof *y);
        }
        bg_session_destroy(reader);
        bg_session_destroy(plain);
        bg_plan_destroy(plan);
    }
    bg_session_destroy(training);
}

/* ---- serving during training ---- */

enum { SERVERS = 2, STEPS = 240, PERIOD = 2, TOGETHER = 16 };

static float expected[STEPS / PERIOD + 2][ROWS * OUT]; /* for each version; written before it is published */
static atomic_bool is_over;
static _Atomic uint32_t failures;

typedef struct server {
    bg_session *reader;
    _Atomic uint64_t runs;
    uint64_t versions;
} server;

static void *serve(void *argument)
{
    server *s = argument;
    float y[ROWS * OUT];
    uint64_t last = 0;

    while (!atomic_load(&is_over) || atomic_load(&s->runs) == 0) {
        if (bg_session_run(s->reader, (const void *[]){inputs}, (void *[]){y}, NULL) != BG_OK) {
            atomic_fetch_add(&failures, 1);
            return NULL;
        }
        atomic_fetch_add(&s->runs, 1);
        s->versions += bg_session_version(s->reader) != last;
        if (bg_session_version(s->reader) < last || memcmp(y, expected[bg_session_version(s->reader)], sizeof y) != 0)
            atomic_fetch_add(&failures, 1);
        last = bg_session_version(s->reader);
    }
    return NULL;
}

/* Waits until each thread has made one more whole run, so that all threads take part even on a busy machine. */
static void wait_for(server servers[SERVERS])
{
    for (int i = 0; i < SERVERS; i++) {
        const uint64_t runs = atomic_load(&servers[i].runs);
        while (atomic_load(&servers[i].runs) < runs + 2 && atomic_load(&failures) == 0)
            sched_yield();
    }
}

static void test_no_torn_weights(void **state)
{
    bg_options options = bg_options_defaults();
    server servers[SERVERS] = {{0}};
    pthread_t threads[SERVERS];
    bg_plan *plan;
    bg_session *training = make_training(NULL), *plain = NULL;
    bg_weights *weights = bg_session_weights(training);

    (void)state;
    options.execution.cores = 1;
    plan = make_inference(&options);
    assert_int_equal(bg_session_create(plan, weights, &plain, NULL), BG_OK);
    infer(plain, expected[1]);
    for (int i = 0; i < SERVERS; i++)
        servers[i].reader = make_reader(plan, weights);
    for (int i = 0; i < SERVERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &servers[i]), 0);
    for (int step = 1; step <= STEPS; step++) {
        train(training);
        if (step % PERIOD != 0)
            continue;
        infer(plain, expected[1 + step / PERIOD]);
        assert_int_equal(publish(weights), 1 + step / PERIOD);
        if (step % TOGETHER == 0)
            wait_for(servers);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < SERVERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    for (int i = 0; i < SERVERS; i++) {
        assert_true(servers[i].versions >= STEPS / TOGETHER);
        bg_session_destroy(servers[i].reader);
    }
    for (int v = 2; v <= 1 + STEPS / PERIOD; v++) /* so that they differ */
        assert_memory_not_equal(expected[v], expected[v - 1], sizeof expected[v]);
    bg_session_destroy(plain);
    bg_session_destroy(training);
    bg_plan_destroy(plan);
}

/* ---- a call ---- */

/* For a small model, even if there are several processors, the calling thread does all work and never waits. */
static void test_no_hand_over(void **state)
{
    bg_plan *plan = make_inference(NULL);
    bg_session *training = make_training(NULL), *reader = make_reader(plan, bg_session_weights(training));
    struct rusage before, after;
    float y[ROWS * OUT];
    char *workers = NULL;

    (void)state;
    assert_int_equal(bg_session_print_workers(reader, &workers, NULL), BG_OK);
    assert_string_equal(workers, "worker 0 on the calling thread\n");
    free(workers);
    infer(reader, y);
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 2000; i++)
        infer(reader, y);
    getrusage(RUSAGE_THREAD, &after);
    assert_int_equal(after.ru_nvcsw - before.ru_nvcsw, 0);
    bg_session_destroy(reader);
    bg_session_destroy(training);
    bg_plan_destroy(plan);
}

/* ---- errors ---- */

static bg_status publish_within(void *user, bg_error *error)
{
    return bg_weights_publish(user, NULL, error);
}

static void test_errors(void **state)
{
    bg_plan *plan = make_inference(NULL);
    bg_session *training = make_training(NULL), *session = NULL;
    bg_weights *weights = bg_session_weights(training), *empty = NULL;
    bg_error error = {0};

    (void)state;
    assert_int_equal(bg_weights_publish(NULL, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_reader(NULL, weights, &session, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_reader(plan, NULL, &session, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_reader(plan, weights, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_reader(bg_session_plan(training), weights, &session, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "bg_session_create"));
    assert_int_equal(bg_weights_create(&empty, NULL), BG_OK);
    assert_int_equal(bg_session_create_reader(plan, empty, &session, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "`fc1.weight`"));
    bg_weights_destroy(empty);
    assert_null(session);
    /* Another thread is using the weights. */
    assert_int_equal(bgi_weights_enter(weights, NULL, "a test", &error), BG_OK);
    assert_int_equal(publish_within(weights, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_reader(plan, weights, &session, &error), BG_ERROR_INVALID);
    bgi_weights_leave(weights);
    assert_int_equal(publish(weights), 1);
    /* Once a version is published, another thread may use the weights. */
    assert_int_equal(bgi_weights_enter(weights, NULL, "a test", &error), BG_OK);
    assert_int_equal(bg_session_create_reader(plan, weights, &session, &error), BG_OK);
    {
        float y[ROWS * OUT];
        infer(session, y);
    }
    bgi_weights_leave(weights);
    bg_session_destroy(session);
    bg_session_destroy(training);
    bg_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),        cmocka_unit_test(test_set),
        cmocka_unit_test(test_shared),          cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_no_torn_weights), cmocka_unit_test(test_no_hand_over),
        cmocka_unit_test(test_errors),
    };

    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
