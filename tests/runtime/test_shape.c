/*
 * test_shape.c: compares the shapes of a run's results with values written by hand, for device iterations x
 * accumulation x replicas and every output mode.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade.h>

typedef struct shape_case {
    uint32_t device_iterations, accumulation, replicas; /* accumulation 0: inference */
    int64_t rows, columns;                              /* dims of the output; rows 0: a scalar */
    bg_output_mode mode;
    uint32_t period;
    const char *flat, *split;
} shape_case;

#define F BG_OUTPUT_FINAL
#define A BG_OUTPUT_ALL
#define S BG_OUTPUT_SUM
#define E BG_OUTPUT_EVERY_N
#define D BG_OUTPUT_DEFAULT

static const shape_case cases[] = {
    /* the published examples */
    {10, 0, 1, 5, 20, A, 0, "[50,20]", "[10,5,20]"},
    {10, 0, 1, 5, 20, F, 0, "[5,20]", "[5,20]"},
    {10, 0, 1, 5, 20, S, 0, "[5,20]", "[5,20]"},
    {10, 0, 1, 5, 20, E, 5, "[10,20]", "[2,5,20]"},
    {10, 1, 1, 1, 20, A, 0, "[10,20]", "[10,1,20]"},
    {1000, 1, 1, 0, 0, A, 0, "[1000]", "[1000]"},
    {1000, 1, 1, 0, 0, F, 0, "[]", "[]"},
    {1000, 1, 1, 0, 0, S, 0, "[]", "[]"},
    {1000, 1, 1, 0, 0, E, 20, "[50]", "[50]"},
    {10, 10, 1, 40, 10, A, 0, "[4000,10]", "[100,40,10]"},
    {10, 10, 1, 40, 10, F, 0, "[40,10]", "[40,10]"},
    {10, 10, 1, 40, 10, S, 0, "[40,10]", "[40,10]"},
    {10, 10, 1, 40, 10, E, 5, "[800,10]", "[20,40,10]"},
    {100, 1, 4, 0, 0, A, 0, "[400]", "[100,4]"},
    {100, 1, 4, 0, 0, F, 0, "[4]", "[4]"},
    {100, 1, 4, 0, 0, S, 0, "[4]", "[4]"},
    {100, 1, 4, 0, 0, E, 50, "[8]", "[2,4]"},
    /* the default modes: final in training, all in inference */
    {6, 2, 1, 3, 4, D, 0, "[3,4]", "[3,4]"},
    {6, 2, 2, 3, 4, D, 0, "[6,4]", "[2,3,4]"},
    {6, 0, 1, 3, 4, D, 0, "[18,4]", "[6,3,4]"},
    {6, 0, 2, 3, 4, D, 0, "[36,4]", "[6,2,3,4]"},
    /* all factors are 1, so no dimension is added */
    {1, 1, 1, 3, 4, A, 0, "[3,4]", "[3,4]"},
    {1, 1, 1, 0, 0, A, 0, "[]", "[]"},
    {1, 1, 1, 3, 4, E, 1, "[3,4]", "[3,4]"},
    {1, 0, 1, 3, 4, A, 0, "[3,4]", "[3,4]"},
    /* each factor alone */
    {1, 5, 1, 3, 4, A, 0, "[15,4]", "[5,3,4]"},
    {1, 5, 1, 3, 4, F, 0, "[3,4]", "[3,4]"},
    {1, 5, 1, 3, 4, S, 0, "[3,4]", "[3,4]"},
    {1, 5, 1, 3, 4, E, 1, "[15,4]", "[5,3,4]"},
    {1, 1, 3, 3, 4, A, 0, "[9,4]", "[3,3,4]"},
    {1, 1, 3, 3, 4, F, 0, "[9,4]", "[3,3,4]"},
    {1, 1, 3, 0, 0, S, 0, "[3]", "[3]"},
    {1, 0, 3, 0, 0, A, 0, "[3]", "[3]"},
    /* two and three factors */
    {4, 3, 1, 2, 2, A, 0, "[24,2]", "[12,2,2]"},
    {4, 3, 1, 2, 2, E, 2, "[12,2]", "[6,2,2]"},
    {4, 3, 1, 2, 2, E, 4, "[6,2]", "[3,2,2]"},
    {4, 1, 2, 2, 2, A, 0, "[16,2]", "[4,2,2,2]"},
    {4, 1, 2, 2, 2, E, 2, "[8,2]", "[2,2,2,2]"},
    {4, 1, 2, 2, 2, E, 4, "[4,2]", "[2,2,2]"},
    {1, 3, 2, 2, 2, A, 0, "[12,2]", "[3,2,2,2]"},
    {1, 3, 2, 2, 2, S, 0, "[4,2]", "[2,2,2]"},
    {4, 3, 2, 2, 2, A, 0, "[48,2]", "[12,2,2,2]"},
    {4, 3, 2, 2, 2, F, 0, "[4,2]", "[2,2,2]"},
    {4, 3, 2, 2, 2, S, 0, "[4,2]", "[2,2,2]"},
    {4, 3, 2, 2, 2, E, 2, "[24,2]", "[6,2,2,2]"},
    {4, 3, 2, 0, 0, A, 0, "[24]", "[12,2]"},
    {4, 3, 2, 0, 0, E, 2, "[12]", "[6,2]"},
    {4, 0, 2, 0, 0, A, 0, "[8]", "[4,2]"},
    {4, 0, 2, 0, 0, E, 2, "[4]", "[2,2]"},
    {4, 0, 2, 2, 2, S, 0, "[4,2]", "[2,2,2]"},
};

/* Compiles a linear layer. The output is its result or, if the output is a scalar, the sum of its elements, which is
 * the loss in training. */
static bg_plan *make_plan(const shape_case *wanted)
{
    const int64_t rows = wanted->rows > 0 ? wanted->rows : 1, columns = wanted->columns > 0 ? wanted->columns : 2;
    const bg_type type = bg_matrix(BG_FLOAT32, rows, columns);
    const bg_optimizer optimizer = bg_sgd(0.01);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value x, loss;

    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    x = bg_linear_layer(graph, "l", x, columns, false);
    loss = bg_reduce(graph, "loss", BG_REDUCE_SUM, x, NULL, 0, false);
    bg_graph_output(graph, "y", wanted->rows > 0 ? x : loss);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.initialize_missing = true;
    options.execution.device_iterations = wanted->device_iterations;
    options.execution.gradient_accumulation = wanted->accumulation > 0 ? wanted->accumulation : 1;
    options.replicas.count = wanted->replicas;
    options.execution.cores = 1;
    options.reporting.output_mode = wanted->mode;
    options.reporting.output_period = wanted->period;
    if ((wanted->accumulation > 0 ? bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error)
                                  : bg_plan_create_inference(graph, &options, &plan, &error)) != BG_OK)
        fail_msg("%s", error.message);
    bg_graph_destroy(graph);
    return plan;
}

static void expect_shape(const bg_stream *stream, bg_stream_form form, const char *wanted, size_t number)
{
    char text[BG_TYPE_TEXT_BYTES];
    bg_error error = {0};
    bg_type shape;

    if (bg_stream_shape(stream, form, &shape, &error) != BG_OK)
        fail_msg("%s", error.message);
    bg_type_text(&shape, text);
    if (shape.rank == 0 ? strcmp(wanted, "[]") != 0 : strcmp(text + strlen("float32"), wanted) != 0)
        fail_msg("case %zu: %s instead of %s", number, text, wanted);
    assert_int_equal(bg_type_size_bytes(&shape), stream->size_bytes);
}

static void test_table(void **state)
{
    (void)state;
    assert_true(sizeof cases / sizeof cases[0] >= 40);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_plan *plan = make_plan(&cases[i]);
        bg_session *session = NULL;
        bg_error error = {0};
        bg_stream stream;
        if (bg_session_create(plan, NULL, &session, &error) != BG_OK)
            fail_msg("%s", error.message);
        assert_int_equal(bg_session_output(session, 0, &stream, &error), BG_OK);
        expect_shape(&stream, BG_STREAM_FLAT, cases[i].flat, i);
        expect_shape(&stream, BG_STREAM_SPLIT, cases[i].split, i);
        bg_session_destroy(session);
        bg_plan_destroy(plan);
    }
}

static void test_errors(void **state)
{
    const int64_t dims[] = {1, 1, 1, 1, 1, 1};
    bg_stream stream = {
        .name = "wide", .micro_batch_type = bg_type_make(BG_FLOAT32, 6, dims), .count = 6, .replicas = 2};
    bg_error error = {0};
    bg_type shape;

    (void)state;
    assert_int_equal(bg_stream_shape(&stream, BG_STREAM_SPLIT, &shape, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "8 dimensions"));
    assert_int_equal(bg_stream_shape(&stream, BG_STREAM_FLAT, &shape, NULL), BG_OK);
    assert_int_equal(shape.dims[0], 6);
    stream.count = 0;
    assert_int_equal(bg_stream_shape(&stream, BG_STREAM_FLAT, &shape, NULL), BG_ERROR_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_errors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
