/*
 * test_batches.c: batches of every size give the same rows as the largest batch, and compute only their samples. All
 * sizes share one set of weights and use new weights immediately.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/batches.h>
#include <brigade/nn.h>

#include <string.h>

enum { MOST = 8, WIDTH = 12 };

typedef struct counter {
    int calls;
} counter;

static void build(void *user, bg_graph *graph, int64_t samples)
{
    const bg_type type = bg_matrix(BG_FLOAT32, samples, WIDTH);
    const bg_value x = bg_graph_input(graph, "x", &type);

    ((counter *)user)->calls++;
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    const bg_value hidden = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 40, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    bg_graph_output(graph, "y", bg_linear_layer(graph, "fc2", hidden, 3, true));
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_weights *make_weights(void)
{
    bg_options options = bg_options_defaults();
    counter counted = {0};
    bg_weights *weights;
    bg_session *session;
    bg_graph *graph;
    bg_error error;

    options.numerics.initialize_missing = true;
    require(bg_weights_create(&weights, &error), &error);
    require(bg_graph_create(&graph, &error), &error);
    build(&counted, graph, 1);
    require(bg_session_create_inference(graph, &options, weights, &session, &error), &error);
    bg_session_destroy(session);
    bg_graph_destroy(graph);
    return weights;
}

static void run(bg_batches *batches, int64_t samples, const float *x, float *y)
{
    bg_error error;

    require(bg_batches_run(batches, samples, (const void *[]){x}, (void *[]){y}, &error), &error);
}

static void test_sizes(void **state)
{
    bg_weights *weights = make_weights();
    float x[MOST * WIDTH], all[MOST * 3], y[MOST * 3];
    counter counted = {0};
    bg_batches *batches;
    bg_error error;
    (void)state;

    for (int i = 0; i < MOST * WIDTH; i++)
        x[i] = (float)(i * 7 % 23) / 23.0F - 0.4F;
    require(bg_batches_create(build, &counted, MOST, NULL, weights, &batches, &error), &error);
    assert_int_equal(counted.calls, 1);
    run(batches, MOST, x, all);
    for (int round = 0; round < 2; round++)
        for (int64_t n = 1; n <= MOST; n++) {
            memset(y, 0x7f, sizeof y);
            run(batches, n, x, y);
            assert_memory_equal(y, all, (size_t)n * 3 * sizeof *y);
        }
    assert_int_equal(counted.calls, MOST); /* the session of each size is made once */
    bg_batches_destroy(batches);
    bg_weights_destroy(weights);
}

/* The plan of a smaller size has work only for the samples of that size. */
static void test_cost(void **state)
{
    bg_weights *weights = make_weights();
    counter counted = {0};
    bg_batches *batches;
    bg_error error;
    double whole;
    (void)state;

    require(bg_batches_create(build, &counted, MOST, NULL, weights, &batches, &error), &error);
    whole = bg_plan_summarize(bg_session_plan(bg_batches_session(batches, MOST))).flops_per_micro_batch;
    assert_null(bg_batches_session(batches, 2));
    require(bg_batches_prepare(batches, 2, &error), &error);
    assert_true(bg_plan_summarize(bg_session_plan(bg_batches_session(batches, 2))).flops_per_micro_batch * 4 <= whole);
    assert_true(whole > 0);
    assert_null(bg_batches_session(batches, 0));
    assert_null(bg_batches_session(batches, MOST + 1));
    bg_batches_destroy(batches);
    bg_batches_destroy(NULL);
    bg_weights_destroy(weights);
}

static void test_new_weights(void **state)
{
    bg_weights *weights = make_weights();
    const bg_type type = bg_vector(BG_FLOAT32, 3);
    const float bias[3] = {100, 200, 300};
    float x[MOST * WIDTH] = {0}, one[3], two[6];
    counter counted = {0};
    bg_batches *batches;
    bg_error error;
    (void)state;

    require(bg_batches_create(build, &counted, MOST, NULL, weights, &batches, &error), &error);
    run(batches, 1, x, one);
    assert_true(one[0] < 50);
    require(bg_weights_set(weights, "fc2.bias", &type, bias, &error), &error);
    run(batches, 1, x, one);
    assert_true(one[0] < 50); /* not published */
    require(bg_weights_publish(weights, NULL, &error), &error);
    run(batches, 1, x, one);
    run(batches, 2, x, two);
    assert_true(one[0] > 50 && two[3] > 50 && two[5] > 250);
    bg_batches_destroy(batches);
    bg_weights_destroy(weights);
}

static void build_wrong(void *user, bg_graph *graph, int64_t samples)
{
    (void)user, (void)samples;
    bg_graph_fail(graph, BG_ERROR_SHAPE, "wrong on purpose");
}

static void test_messages(void **state)
{
    bg_weights *weights = make_weights();
    float x[MOST * WIDTH] = {0}, y[MOST * 3];
    counter counted = {0};
    bg_batches *batches;
    bg_error error;
    (void)state;

    assert_int_equal(bg_batches_create(build, &counted, 0, NULL, weights, &batches, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "most_samples is 0"));
    assert_int_equal(bg_batches_create(build_wrong, NULL, 4, NULL, weights, &batches, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "batches of 4: "));
    assert_int_equal(bg_batches_create(NULL, NULL, 4, NULL, weights, &batches, &error), BG_ERROR_INVALID);
    require(bg_batches_create(build, &counted, MOST, NULL, weights, &batches, &error), &error);
    assert_int_equal(bg_batches_run(batches, 9, (const void *[]){x}, (void *[]){y}, &error), BG_ERROR_RANGE);
    assert_non_null(strstr(error.message, "the batch has 9 samples; it must have 1 to 8"));
    assert_int_equal(bg_batches_run(batches, 0, (const void *[]){x}, (void *[]){y}, &error), BG_ERROR_RANGE);
    bg_batches_destroy(batches);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_new_weights),
        cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
