/*
 * Values that the graph does not mark as outputs are returned on request (anchors). Under every strategy, every value
 * of a model is the same whether it is requested or marked as an output. The request does not change other results.
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

#include "graph/graph.h"
#include "support/models.h"

enum { MICRO_BATCH = 3, ITERATIONS = 2, ACCUMULATION = 2, MOST = 64 };

/* The outputs of a run, and the weights after the run. */
typedef struct result {
    uint32_t count;
    struct {
        char name[64];
        size_t size;
        void *data;
    } outputs[MOST];
    size_t weight_bytes;
    unsigned char weights[1 << 20];
} result;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static void free_result(result *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        free(r->outputs[i].data);
    free(r);
}

static const void *output_of(const result *r, const char *name, size_t *out_size)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (strcmp(r->outputs[i].name, name) == 0) {
            *out_size = r->outputs[i].size;
            return r->outputs[i].data;
        }
    fail_msg("no output `%s`", name);
    return NULL;
}

static void keep_outputs(const bg_session *session, void **outputs, result *r)
{
    r->count = bg_session_output_count(session);
    assert_true(r->count <= MOST);
    for (uint32_t i = 0; i < r->count; i++) {
        bg_stream stream;

        assert_int_equal(bg_session_output(session, i, &stream, NULL), BG_OK);
        snprintf(r->outputs[i].name, sizeof r->outputs[i].name, "%s", stream.name);
        r->outputs[i].size = stream.size_bytes;
        r->outputs[i].data = outputs[i] = malloc(stream.size_bytes);
        assert_non_null(outputs[i]);
    }
}

static void keep_weights(bg_weights *weights, result *r)
{
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        size_t size;

        assert_int_equal(bg_weights_at(weights, i, &weight, NULL), BG_OK);
        size = bg_type_size_bytes(&weight.type);
        assert_true(r->weight_bytes + size <= sizeof r->weights);
        memcpy(r->weights + r->weight_bytes, weight.data, size);
        r->weight_bytes += size;
    }
}

static result *run(const bg_graph *graph, bg_value loss, const bg_options *options)
{
    const bg_optimizer optimizer = bg_sgd(0.05);
    result *r = calloc(1, sizeof *r);
    void *inputs[4] = {NULL}, *outputs[MOST];
    bg_session *session = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_stream stream;

    assert_non_null(r);
    require(bg_plan_create_training(graph, loss, &optimizer, options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_true(bg_session_input_count(session) <= 4);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        require(bg_session_input(session, i, &stream, &error), &error);
        inputs[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count);
    }
    keep_outputs(session, outputs, r);
    require(bg_session_run(session, (const void *const *)inputs, outputs, &error), &error);
    keep_weights(bg_session_weights(session), r);
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return r;
}

/* Finds at most `most` results that are not outputs and whose names no other value has. */
static uint32_t find_hidden(const bg_graph *graph, bg_value *out, uint32_t most)
{
    uint32_t count = 0;

    for (uint32_t v = 1; v < graph->value_count && count < most; v++) {
        bool fits = graph->values[v].kind == BGI_VALUE_RESULT;

        for (uint32_t other = 1; other < graph->value_count; other++)
            fits = fits && (other == v || strcmp(graph->values[other].name, graph->values[v].name) != 0);
        for (size_t o = 0; o < graph->output_count; o++)
            fits =
                fits && graph->outputs[o].value.id != v && strcmp(graph->outputs[o].name, graph->values[v].name) != 0;
        if (fits)
            out[count++] = (bg_value){v};
    }
    return count;
}

static bg_options strategy_options(int strategy)
{
    static const char *const schedules[] = {NULL, "interleaved", "grouped", "sequential", "zb-h1"};
    bg_options options = bg_options_defaults();

    options.execution.strategy = strategy == 0 ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED;
    options.execution.stages = strategy == 0 ? NULL : "B1|B2|B3|B4";
    options.execution.schedule = schedules[strategy];
    options.execution.device_iterations = ITERATIONS;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.cores = 2;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    return options;
}

/* Returns whether fusion removes the value unless the value is marked as an output. */
static bool is_swallowed(const bg_graph *graph, bg_value value)
{
    const char *type = graph->ops[graph->values[value.id].op].type->name;

    return strcmp(type, "conv2d") == 0 || strcmp(type, "max_pool2d") == 0;
}

/* Runs the model on one device, with `count` values marked as outputs. */
static result *run_marked(unsigned number, const bg_value *values, uint32_t count)
{
    const bg_options options = strategy_options(0);
    bg_graph *graph = NULL;
    bg_value loss;
    result *r;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    loss = test_model_at(number)->build(graph, MICRO_BATCH);
    for (uint32_t i = 0; i < count; i++)
        bg_graph_output(graph, bg_graph_name(graph, values[i]), values[i]);
    r = run(graph, loss, &options);
    bg_graph_destroy(graph);
    return r;
}

/* Compares the first `micro_batches` micro-batches of a value. */
static void expect_same(const result *found, const result *wanted, const char *name, uint32_t micro_batches)
{
    const uint32_t all = ITERATIONS * ACCUMULATION;
    size_t size = 0, wanted_size = 0;
    const void *a = output_of(found, name, &size), *b = output_of(wanted, name, &wanted_size);

    assert_int_equal(size, wanted_size);
    if (memcmp(a, b, size / all * micro_batches) != 0)
        fail_msg("`%s` differs", name);
}

static void expect_all(unsigned number, const bg_graph *graph, const bg_value *hidden, uint32_t count,
                       const result *anchored)
{
    bg_value kept[MOST] = {{0}};
    uint32_t kept_count = 0;
    result *expected;

    for (uint32_t i = 0; i < count; i++)
        if (!is_swallowed(graph, hidden[i]))
            kept[kept_count++] = hidden[i];
    expected = run_marked(number, kept, kept_count);
    for (uint32_t i = 0; i < kept_count; i++)
        expect_same(anchored, expected, bg_graph_name(graph, kept[i]), ITERATIONS * ACCUMULATION);
    free_result(expected);
    /* Marking these values prevents fusion, so gradients round differently; the values are equal before the first
     * update. */
    for (uint32_t i = 0; i < count; i++)
        if (is_swallowed(graph, hidden[i])) {
            expected = run_marked(number, &hidden[i], 1);
            expect_same(anchored, expected, bg_graph_name(graph, hidden[i]), ACCUMULATION);
            free_result(expected);
        }
}

static void expect_model(unsigned number, int strategy)
{
    bg_output_request requests[MOST] = {{.output = NULL}};
    bg_options options = strategy_options(strategy);
    bg_graph *graph = NULL;
    result *anchored, *without;
    bg_value hidden[MOST], loss;
    uint32_t count;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    loss = test_model_at(number)->build(graph, MICRO_BATCH);
    count = find_hidden(graph, hidden, MOST - 8);
    assert_true(count >= 4);
    for (uint32_t i = 0; i < count; i++)
        requests[i].output = bg_graph_name(graph, hidden[i]);
    without = run(graph, loss, &options);
    options.reporting.output_requests = requests;
    options.reporting.output_request_count = count;
    anchored = run(graph, loss, &options);
    assert_int_equal(anchored->count, without->count + count);
    expect_all(number, graph, hidden, count, anchored);
    assert_int_equal(anchored->weight_bytes, without->weight_bytes);
    if (memcmp(anchored->weights, without->weights, without->weight_bytes) != 0)
        fail_msg("model %u, strategy %d: asking changed the weights", number, strategy);
    free_result(without);
    free_result(anchored);
    bg_graph_destroy(graph);
}

static void every_hidden_value_can_be_returned(void **state)
{
    const int last = getenv("BRIGADE_TEST_QUICK") != NULL ? 1 : 4;
    (void)state;

    for (unsigned number = 0; test_model_at(number) != NULL; number++)
        for (int strategy = 0; strategy <= last; strategy++)
            expect_model(number, strategy);
}

/* ---- modes and names ---- */

static void anchors_have_modes_and_names(void **state)
{
    static const bg_output_request requests[] = {{"l2", "last", BG_OUTPUT_FINAL, 0},
                                                 {"l2", "sum", BG_OUTPUT_SUM, 0},
                                                 {"l2", "second", BG_OUTPUT_EVERY_N, 2},
                                                 {"l2", NULL, BG_OUTPUT_ALL, 0}};
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 2);
    bg_options options = bg_options_defaults();
    float x[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, last[2], sum[2], second[2][2], all[4][2];
    bg_graph *graph = NULL;
    bg_session *session = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    void *outputs[4] = {NULL};
    bg_value value;
    (void)state;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    value = bg_scale(graph, "l1", bg_graph_input(graph, "x", &type), 2.0, 0.0);
    value = bg_scale(graph, "l2", value, 1.0, 1.0);
    bg_graph_output(graph, "y", bg_scale(graph, "l3", value, 3.0, 0.0));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.device_iterations = 4;
    options.reporting.output_requests = requests;
    options.reporting.output_request_count = 4;
    options.reporting.output_period = 4;    /* must not affect the requests, which have their own modes */
    options.reporting.requests_only = true; /* l3 is left out */
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_int_equal(bg_session_output_count(session), 4);
    outputs[bg_session_find_output(session, "last")] = last;
    outputs[bg_session_find_output(session, "sum")] = sum;
    outputs[bg_session_find_output(session, "second")] = second;
    outputs[bg_session_find_output(session, "l2")] = all;
    require(bg_session_run(session, (const void *[]){x}, outputs, &error), &error);
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 4; i++)
            assert_true(all[i][c] == 2.0F * x[i][c] + 1.0F);
        assert_true(last[c] == all[3][c] && second[0][c] == all[1][c] && second[1][c] == all[3][c]);
        assert_true(sum[c] == all[0][c] + all[1][c] + all[2][c] + all[3][c]);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void expect_refused(const bg_graph *graph, const char *name, bg_status status, const char *part)
{
    const bg_output_request request = {.output = name};
    bg_options options = bg_options_defaults();
    bg_plan *plan = NULL;
    bg_error error = {0};

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.reporting.output_requests = &request;
    options.reporting.output_request_count = 1;
    for (int only = 0; only < 2; only++) {
        options.reporting.requests_only = only == 1;
        assert_int_equal(bg_plan_create_inference(graph, &options, &plan, &error), status);
        if (strstr(error.message, part) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, part);
    }
}

static void what_is_no_value_of_an_op_is_refused(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 2);
    bg_graph *graph = NULL;
    bg_value x;
    (void)state;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    x = bg_scale(graph, "twin", bg_scale(graph, "twin", x, 2.0, 0.0), 2.0, 0.0);
    bg_graph_output(graph, "y", x);
    expect_refused(graph, "none", BG_ERROR_NOT_FOUND, "the graph has no output or op `none`; its outputs are `y`");
    expect_refused(graph, "twin", BG_ERROR_INVALID, "2 values of the graph are named `twin`");
    bg_graph_remote_buffer(graph, "rows", &type, 4);
    expect_refused(graph, "rows", BG_ERROR_INVALID, "output `rows` is a remote buffer");
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hidden_value_can_be_returned),
        cmocka_unit_test(anchors_have_modes_and_names),
        cmocka_unit_test(what_is_no_value_of_an_op_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
