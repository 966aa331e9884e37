/*
 * test_in_place.c: a session for inference reads whole weights in the memory of bg_weights. It uses them even after
 * they move to other memory, to another session's files and back, and keeps them alive as long as a kernel reads them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <brigade/ops.h>
#include <brigade/session.h>

#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/folder.h"

enum { ROWS = 2, SIZE = 16 };

static float x[ROWS * SIZE], y[ROWS * SIZE];

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_graph *make_graph(bg_value *out_loss)
{
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS, SIZE), weight = bg_matrix(BG_FLOAT32, SIZE, SIZE);
    bg_graph *graph = NULL;
    bg_value out;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    out = bg_linear(graph, "fc", bg_graph_input(graph, "x", &type), bg_graph_parameter(graph, "w", &weight, NULL),
                    (bg_value){0});
    *out_loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, out, NULL, 0, false);
    bg_graph_output(graph, "y", out);
    return graph;
}

static bg_session *make_inference(bg_weights *weights)
{
    bg_session *session = NULL;
    bg_error error = {0};
    bg_value loss;
    bg_graph *graph = make_graph(&loss);

    require(bg_session_create_inference(graph, NULL, weights, &session, &error), &error);
    bg_graph_destroy(graph);
    return session;
}

static void set_weight(bg_weights *weights, float first)
{
    const bg_type type = bg_matrix(BG_FLOAT32, SIZE, SIZE);
    float values[SIZE * SIZE];
    bg_error error = {0};

    for (int i = 0; i < SIZE * SIZE; i++)
        values[i] = first + (float)(i % 7);
    require(bg_weights_set(weights, "w", &type, values, &error), &error);
}

/* Returns the memory in which the session reads the weight, or NULL if this is the session's arena. */
static const void *find_place(const bg_session *session)
{
    const bgi_plan_variable *variable = &session->plan->variables[0];

    assert_string_equal(bgi_plan_variable_weight(variable), "w");
    return bgi_in_place_address(&session->engine->in_place[0], variable->places[0].operand.offset);
}

/* Checks that the session computes with the newest value of the weight, which has small whole numbers or halves. */
static void check(bg_session *session, bg_weights *weights)
{
    float wanted[ROWS * SIZE];
    bg_weight weight;
    bg_error error = {0};

    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = (float)(i % 5);
    require(bg_weights_find(weights, "w", &weight, &error), &error);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < SIZE; o++) {
            wanted[r * SIZE + o] = 0.0F;
            for (int i = 0; i < SIZE; i++)
                wanted[r * SIZE + o] += x[r * SIZE + i] * ((const float *)weight.data)[o * SIZE + i];
        }
    require(bg_session_run(session, (const void *[]){x}, (void *[]){y}, &error), &error);
    for (int i = 0; i < ROWS * SIZE; i++)
        assert_float_equal(y[i], wanted[i], 1e-3);
}

/* ---- the memory of the weights ---- */

static void test_memory(void **state)
{
    bg_weights *weights = NULL;
    bg_session *first, *second;
    const void *before;
    bg_error error = {0};
    (void)state;

    require(bg_weights_create(&weights, &error), &error);
    set_weight(weights, 1);
    first = make_inference(weights);
    second = make_inference(weights);
    check(first, weights);
    check(second, weights);
    assert_ptr_equal(find_place(first), weights->items[0].data);
    assert_ptr_equal(find_place(second), weights->items[0].data);
    set_weight(weights, 2);
    check(first, weights);

    /* A published value stays in its memory, and a later value gets other memory. */
    before = weights->items[0].data;
    require(bg_weights_publish(weights, NULL, &error), &error);
    set_weight(weights, 3);
    assert_ptr_not_equal(weights->items[0].data, before);
    check(second, weights);
    check(first, weights);
    assert_ptr_equal(find_place(first), weights->items[0].data);
    bg_session_destroy(first);
    bg_session_destroy(second);
    bg_weights_destroy(weights);
}

/* ---- during a training ---- */

static bg_session *make_training(bg_weights *weights, const char *folder)
{
    const bg_optimizer sgd = bg_sgd(0.5);
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_error error = {0};
    bg_value loss;
    bg_graph *graph = make_graph(&loss);

    options.execution.strategy = BG_STRATEGY_PHASED;
    options.files.memmap_dir = folder;
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = folder != NULL ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    require(bg_session_create_training(graph, loss, &sgd, &options, weights, &session, &error), &error);
    bg_graph_destroy(graph);
    return session;
}

static void try_training(const char *folder)
{
    bg_weights *weights = NULL;
    bg_session *inference, *training;
    bg_error error = {0};

    require(bg_weights_create(&weights, &error), &error);
    set_weight(weights, 1);
    inference = make_inference(weights);
    check(inference, weights);
    training = make_training(weights, folder);
    if (folder != NULL) {
        assert_null(weights->items[0].data);
        check(inference, weights); /* the same value is in the file of the training session */
        assert_null(find_place(inference));
    }
    for (int i = 0; i < 2; i++) {
        require(bg_session_run(training, (const void *[]){x}, (void *[]){y}, &error), &error);
        check(inference, weights);
    }
    assert_ptr_equal(find_place(inference), weights->items[0].data);
    bg_session_destroy(training);
    assert_non_null(weights->items[0].data);
    check(inference, weights);
    assert_ptr_equal(find_place(inference), weights->items[0].data);
    set_weight(weights, 4);
    check(inference, weights);
    bg_session_destroy(inference);
    bg_weights_destroy(weights);
}

static void test_training(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    (void)state;

    try_training(NULL);
    test_folder_create(folder);
    try_training(folder);
    test_folder_remove(folder);
}

/* ---- a kernel that outlives its session ---- */

static atomic_bool may_return, has_returned;
static float last;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bg_status infer_same(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    (void)error;
    outputs[0] = op->types[0];
    return BG_OK;
}

static void run_late(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    while (!atomic_load(&may_return))
        nap();
    last = ((const float *)call->operands[0])[SIZE * SIZE - 1];
    atomic_store(&has_returned, true);
}

static bg_status choose_late(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op, (void)policy, (void)error;
    *out = (bg_kernel){.name = "late", .run = run_late, .part_count = 1};
    return BG_OK;
}

static const bg_op_type late = {BG_OP_TYPE_DEFAULTS, .name = "late",      .minimum_inputs = 1,  .maximum_inputs = 1,
                                .output_count = 1,   .infer = infer_same, .kernel = choose_late};

/* The program destroys the session and the weights while the kernel runs. */
static void test_late_kernel(void **state)
{
    const bg_type weight = bg_matrix(BG_FLOAT32, SIZE, SIZE);
    static float out[SIZE * SIZE];
    bg_options options = bg_options_defaults();
    bg_weights *weights = NULL;
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value w;
    (void)state;

    options.execution.wait_limit_s = 0.1;
    require(bg_weights_create(&weights, &error), &error);
    set_weight(weights, 1);
    require(bg_graph_create(&graph, &error), &error);
    w = bg_graph_parameter(graph, "w", &weight, NULL);
    bg_graph_output(graph, "y", bg_graph_add(graph, &late, "late", &w, 1, NULL, NULL));
    require(bg_session_create_inference(graph, &options, weights, &session, &error), &error);
    bg_graph_destroy(graph);
    assert_ptr_equal(find_place(session), weights->items[0].data);
    assert_int_equal(bg_session_run(session, NULL, (void *[]){out}, &error), BG_ERROR_TIMEOUT);
    bg_session_destroy(session);
    bg_weights_destroy(weights);
    assert_false(atomic_load(&has_returned));
    atomic_store(&may_return, true);
    while (!atomic_load(&has_returned))
        nap();
    assert_float_equal(last, 1 + (SIZE * SIZE - 1) % 7, 0);
    for (int i = 0; i < 100; i++) /* time for the worker to return and free its memory */
        nap();
}

/* ---- bg_weights_fill ---- */

typedef struct written {
    bg_weights *weights;
    const void *data;
    float value;
    bg_status status;
} written;

static bg_status write_value(void *user, void *data, bg_error *error)
{
    written *w = user;
    bg_weight weight;
    (void)error;

    w->data = data;
    for (int i = 0; i < SIZE; i++)
        ((float *)data)[i] = w->value;
    assert_int_equal(bg_weights_at(w->weights, 0, &weight, NULL), BG_ERROR_INVALID);
    return w->status;
}

static void test_fill(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, SIZE), other = bg_vector(BG_FLOAT32, 2);
    written w = {.value = 3, .status = BG_ERROR_IO};
    bg_weights *weights = NULL;
    bg_weight weight;
    bg_error error = {0};
    (void)state;

    require(bg_weights_create(&weights, &error), &error);
    w.weights = weights;
    assert_int_equal(bg_weights_fill(weights, "b", &type, write_value, &w, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "without a message"));
    assert_int_equal(bg_weights_count(weights), 0);
    w.status = BG_OK;
    require(bg_weights_fill(weights, "b", &type, write_value, &w, &error), &error);
    require(bg_weights_find(weights, "b", &weight, &error), &error);
    assert_ptr_equal(weight.data, w.data);
    assert_true(weights->items[0].is_given);

    /* An existing weight keeps its value until the new one is complete. */
    w.value = 5;
    w.status = BG_ERROR_IO;
    assert_int_equal(bg_weights_fill(weights, "b", &type, write_value, &w, &error), BG_ERROR_IO);
    require(bg_weights_find(weights, "b", &weight, &error), &error);
    assert_float_equal(((const float *)weight.data)[SIZE - 1], 3, 0);
    w.status = BG_OK;
    require(bg_weights_fill(weights, "b", &type, write_value, &w, &error), &error);
    require(bg_weights_find(weights, "b", &weight, &error), &error);
    assert_float_equal(((const float *)weight.data)[SIZE - 1], 5, 0);
    assert_int_equal(bg_weights_fill(weights, "b", &other, write_value, &w, &error), BG_ERROR_SHAPE);
    assert_int_equal(bg_weights_fill(weights, "b", &type, NULL, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_weights_count(weights), 1);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_late_kernel),
        cmocka_unit_test(test_fill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
