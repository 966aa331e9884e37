/*
 * test_own_plan.c: sessions that make their own plan give the same results and errors as with an explicitly compiled
 * plan. The plan lives as long as a session or kernel reads it.
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

enum { STEPS = 3, SIZE = 8 };

static bg_graph *make_graph(bg_value *out_loss)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, SIZE), weight = bg_matrix(BG_FLOAT32, SIZE, SIZE);
    bg_graph *graph = NULL;
    bg_value x;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    x = bg_linear(graph, "fc", x, bg_graph_parameter(graph, "w", &weight, NULL), (bg_value){0});
    *out_loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    bg_graph_output(graph, "loss", *out_loss);
    return graph;
}

static void train(bg_session *session, float losses[STEPS])
{
    float x[2][SIZE];
    bg_error error = {0};

    for (int i = 0; i < 2 * SIZE; i++)
        x[i / SIZE][i % SIZE] = (float)(i % 5) - 2.0F;
    for (int step = 0; step < STEPS; step++)
        if (bg_session_run(session, (const void *[]){x}, (void *[]){&losses[step]}, &error) != BG_OK)
            fail_msg("%s", error.message);
}

static void test_training(void **state)
{
    const bg_optimizer sgd = bg_sgd(0.1);
    const bg_options options = bg_options_defaults();
    float by_hand[STEPS], own[STEPS];
    bg_session *session = NULL;
    bg_plan *plan = NULL;
    bg_value loss;
    bg_graph *graph = make_graph(&loss);

    (void)state;
    assert_int_equal(bg_plan_create_training(graph, loss, &sgd, &options, &plan, NULL), BG_OK);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    train(session, by_hand);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    assert_int_equal(bg_session_create_training(graph, loss, &sgd, NULL, NULL, &session, NULL), BG_OK);
    bg_graph_destroy(graph);
    train(session, own);
    assert_non_null(bg_session_plan(session));
    assert_int_equal(bg_plan_summarize(bg_session_plan(session)).stage_count, 1);
    bg_session_destroy(session);
    assert_memory_equal(own, by_hand, sizeof own);
    assert_true(own[STEPS - 1] < own[0]);
}

/* A session for inference uses weights that another session trained. */
static void test_inference(void **state)
{
    const bg_optimizer sgd = bg_sgd(0.0);
    float trained[STEPS], found[STEPS];
    bg_session *training = NULL, *inference = NULL;
    bg_error error = {0};
    bg_value loss;
    bg_graph *graph = make_graph(&loss);

    (void)state;
    assert_int_equal(bg_session_create_inference(graph, NULL, NULL, &inference, &error), BG_ERROR_NOT_FOUND);
    assert_null(inference);
    assert_non_null(strstr(error.message, "w"));
    assert_int_equal(bg_session_create_training(graph, loss, &sgd, NULL, NULL, &training, NULL), BG_OK);
    train(training, trained);
    assert_int_equal(bg_session_create_inference(graph, NULL, bg_session_weights(training), &inference, NULL), BG_OK);
    train(inference, found);
    assert_memory_equal(found, trained, sizeof found);
    bg_session_destroy(training);
    bg_session_destroy(inference);
    bg_graph_destroy(graph);
}

static void test_errors(void **state)
{
    const bg_optimizer sgd = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    bg_session *session = (bg_session *)&options;
    bg_error error = {0};
    bg_value loss;
    bg_graph *graph = make_graph(&loss);

    (void)state;
    assert_int_equal(bg_session_create_training(NULL, loss, &sgd, NULL, NULL, &session, &error), BG_ERROR_INVALID);
    assert_null(session);
    assert_int_equal(bg_session_create_training(graph, loss, NULL, NULL, NULL, &session, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_training(graph, loss, &sgd, NULL, NULL, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_session_create_inference(graph, NULL, NULL, NULL, &error), BG_ERROR_INVALID);
    options.execution.compile_only = true; /* the plan is made, the session is not */
    assert_int_equal(bg_session_create_training(graph, loss, &sgd, &options, NULL, &session, &error), BG_ERROR_INVALID);
    assert_null(session);
    bg_graph_destroy(graph);
}

/* ---- a kernel that outlives its session ---- */

static atomic_bool may_return, has_returned;

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

/* Waits, then reads the plan's description of the call. */
static void run_late(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    while (!atomic_load(&may_return))
        nap();
    memcpy(call->operands[1], call->operands[0], bg_type_size_bytes(&call->types[0]));
    atomic_store(&has_returned, true);
}

static bg_status choose_late(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)error;
    *out = (bg_kernel){.name = "late", .run = run_late, .part_count = 1};
    return BG_OK;
}

static const bg_op_type late = {BG_OP_TYPE_DEFAULTS, .name = "late",      .minimum_inputs = 1,  .maximum_inputs = 1,
                                .output_count = 1,   .infer = infer_same, .kernel = choose_late};

/* The session is destroyed when the kernel reads the types of its call, which belong to the plan. */
static void test_late_kernel(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, SIZE);
    const float x[SIZE] = {0};
    float y[SIZE];
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value value;

    (void)state;
    options.execution.wait_limit_s = 0.1;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    value = bg_graph_input(graph, "x", &type);
    bg_graph_output(graph, "y", bg_graph_add(graph, &late, "late", &value, 1, NULL, NULL));
    if (bg_session_create_inference(graph, &options, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    assert_int_equal(bg_session_run(session, (const void *[]){x}, (void *[]){y}, &error), BG_ERROR_TIMEOUT);
    bg_session_destroy(session);
    assert_false(atomic_load(&has_returned));
    atomic_store(&may_return, true);
    while (!atomic_load(&has_returned))
        nap();
    for (int i = 0; i < 100; i++) /* time for the worker to return and free its memory */
        nap();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_late_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
