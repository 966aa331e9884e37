/*
 * test_recurrent.c: compares LSTM, GRU and RNN layers with PyTorch's modules: results, last states and all gradients,
 * also with truncated time. It checks errors too.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>

#include "graph/graph.h"
#include "support/build_case.h"
#include "support/interpret.h"
#include "support/oracle.h"

typedef enum kind { LSTM, GRU, RNN } kind;

typedef struct recurrent_case {
    const char *name;
    kind kind;
    bool given;
    int64_t layers;
    bool bidirectional, batch_first, bias, relu;
    int64_t checkpoint;
    bool has_lengths;
} recurrent_case;

enum { MOST = 24 };

/* A value with a gradient (x, an initial state or a parameter), and its name in the oracle's file. */
typedef struct rig {
    bg_graph *graph;
    bg_value operands[MOST], results[3], seeds[3];
    char names[MOST][48];
    uint32_t count;
} rig;

static bg_value add_operand(rig *r, const bgi_test_oracle *oracle, const char *case_name, const char *name,
                            bg_dtype dtype)
{
    const bg_type type = bgi_test_tensor_type(bgi_test_oracle_find(oracle, case_name, name), dtype);

    snprintf(r->names[r->count], sizeof r->names[0], "%s", name);
    return r->operands[r->count++] = bg_graph_variable(r->graph, name, &type, BG_ROLE_PARAMETER, NULL);
}

/* Finds the layer's parameters, which have the module's names. */
static void find_parameters(rig *r, const recurrent_case *test)
{
    static const char *const kinds[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};

    for (int64_t layer = 0; layer < test->layers; layer++)
        for (int reverse = 0; reverse < (test->bidirectional ? 2 : 1); reverse++)
            for (int k = 0; k < (test->bias ? 4 : 2); k++) {
                char name[64];

                snprintf(r->names[r->count], sizeof r->names[0], "%s_l%d%s", kinds[k], (int)layer,
                         reverse ? "_reverse" : "");
                snprintf(name, sizeof name, "rnn.%s", r->names[r->count]);
                r->operands[r->count] = bg_graph_find_variable(r->graph, name);
                assert_false(bg_value_is_null(r->operands[r->count]));
                r->count++;
            }
}

static bg_value add_lengths(rig *r, const bgi_test_oracle *oracle, const char *case_name)
{
    const bgi_test_tensor *lengths = bgi_test_oracle_find(oracle, case_name, "lengths");
    const bg_type type = bg_vector(BG_INT64, lengths->count);
    int64_t data[8] = {0};

    for (int64_t i = 0; i < lengths->count; i++)
        data[i] = (int64_t)lengths->values[i];
    return bg_graph_constant(r->graph, "lengths", &type, data);
}

static void build(rig *r, const bgi_test_oracle *oracle, const recurrent_case *test, bg_dtype dtype)
{
    static const char *const seeds[] = {"dy", "dh", "dc"};
    bg_recurrent_options options = bg_recurrent_defaults();
    bg_value x, h0 = {0}, c0 = {0};
    bg_error error = {0};
    int64_t width;

    *r = (rig){0};
    assert_int_equal(bg_graph_create(&r->graph, NULL), BG_OK);
    x = add_operand(r, oracle, test->name, "x", dtype);
    if (test->given)
        h0 = add_operand(r, oracle, test->name, "h0", dtype);
    if (test->given && test->kind == LSTM)
        c0 = add_operand(r, oracle, test->name, "c0", dtype);
    width = bgi_test_oracle_find(oracle, test->name, "h")->dims[2];
    options.layers = test->layers;
    options.bidirectional = test->bidirectional;
    options.batch_first = test->batch_first;
    options.bias = test->bias;
    options.relu = test->relu;
    options.checkpoint = test->checkpoint;
    if (test->has_lengths)
        options.lengths = add_lengths(r, oracle, test->name);
    r->results[0] = test->kind == LSTM
                        ? bg_lstm_layer(r->graph, "rnn", x, width, &options, h0, c0, &r->results[1], &r->results[2])
                    : test->kind == GRU ? bg_gru_layer(r->graph, "rnn", x, width, &options, h0, &r->results[1])
                                        : bg_rnn_layer(r->graph, "rnn", x, width, &options, h0, &r->results[1]);
    if (bg_graph_check(r->graph, &error) != BG_OK)
        fail_msg("%s: %s", test->name, error.message);
    find_parameters(r, test);
    for (int i = 0; i < (test->kind == LSTM ? 3 : 2); i++) {
        const bg_type type = bg_graph_type(r->graph, r->results[i]);
        r->seeds[i] = bg_graph_variable(r->graph, seeds[i], &type, BG_ROLE_BUFFER, NULL);
    }
}

static void compare(const bgi_test_interpreter *interpreter, const bgi_test_oracle *oracle, const char *case_name,
                    const char *name, bg_value value, double tolerance)
{
    const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, case_name, name);
    const bg_type type = bg_graph_type(interpreter->graph, value),
                  wanted_type = bgi_test_tensor_type(wanted, type.dtype);
    double *found = calloc((size_t)wanted->count, sizeof *found);

    assert_non_null(found);
    if (!bg_type_equal(&type, &wanted_type))
        fail_msg("%s %s has another shape", case_name, name);
    bgi_test_get(interpreter, value, found);
    bgi_test_compare(wanted, found, tolerance, tolerance);
    free(found);
}

/* Adds the sum of all results times their seeds, which is a scalar that can be differentiated. */
static bg_value add_loss(rig *r, int results)
{
    bg_value sum = {0};

    for (int i = 0; i < results; i++) {
        const bg_value part =
            bg_reduce(r->graph, NULL, BG_REDUCE_SUM, bg_multiply(r->graph, r->results[i], r->seeds[i]), NULL, 0, false);
        sum = i == 0 ? part : bg_add(r->graph, sum, part);
    }
    return sum;
}

static void check_case(const bgi_test_oracle *oracle, const recurrent_case *test, bg_dtype dtype, double tolerance)
{
    static const char *const names[] = {"y", "h", "c", "dy", "dh", "dc"};
    const int results = test->kind == LSTM ? 3 : 2;
    const bg_type scalar = bg_scalar(dtype);
    bg_value gradients[MOST], one, loss;
    bgi_test_interpreter interpreter;
    double unit = 1.0;
    rig r;

    build(&r, oracle, test, dtype);
    loss = add_loss(&r, results);
    one = bg_graph_variable(r.graph, "one", &scalar, BG_ROLE_BUFFER, NULL);
    bgi_test_derive(r.graph, loss, one, r.operands, r.count, gradients);
    bgi_test_interpreter_init(&interpreter, r.graph);
    bgi_test_set(&interpreter, one, &unit);
    for (uint32_t i = 0; i < r.count; i++)
        bgi_test_set(&interpreter, r.operands[i], bgi_test_oracle_find(oracle, test->name, r.names[i])->values);
    for (int i = 0; i < results; i++)
        bgi_test_set(&interpreter, r.seeds[i], bgi_test_oracle_find(oracle, test->name, names[3 + i])->values);
    bgi_test_interpret(&interpreter);
    for (int i = 0; i < results; i++)
        compare(&interpreter, oracle, test->name, names[i], r.results[i], tolerance);
    for (uint32_t i = 0; i < r.count; i++) {
        char name[64];

        snprintf(name, sizeof name, "d%s", r.names[i]);
        compare(&interpreter, oracle, test->name, name, gradients[i], tolerance);
    }
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(r.graph);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const recurrent_case cases[] = {
        {"lstm_plain", LSTM, true, 1, .bias = true},
        {"lstm_zeros", LSTM, false, 1, .bias = false},
        {"lstm_one_step", LSTM, true, 1, .batch_first = true, .bias = true},
        {"lstm_deep", LSTM, true, 2, .bidirectional = true, .bias = true},
        {"lstm_batch", LSTM, true, 2, .bidirectional = true, .batch_first = true, .bias = true},
        {"gru_plain", GRU, true, 1, .bias = true},
        {"gru_zeros", GRU, false, 1, .bias = false},
        {"gru_one_step", GRU, true, 1, .batch_first = true, .bias = true},
        {"gru_deep", GRU, true, 2, .bidirectional = true, .bias = true},
        {"gru_batch", GRU, true, 2, .bidirectional = true, .batch_first = true, .bias = true},
        {"rnn_plain", RNN, true, 1, .bias = true},
        {"rnn_zeros", RNN, false, 1, .relu = true},
        {"rnn_deep", RNN, true, 2, .bidirectional = true, .bias = true},
        {"rnn_batch", RNN, true, 2, .bidirectional = true, .batch_first = true, .bias = true, .relu = true},
        {"lstm_lengths", LSTM, true, 2, .bidirectional = true, .bias = true, .has_lengths = true},
        {"lstm_lengths_batch", LSTM, true, 1, true, .batch_first = true, .bias = true, .has_lengths = true},
        {"gru_lengths", GRU, false, 2, .bidirectional = true, .bias = true, .has_lengths = true},
        {"rnn_lengths", RNN, true, 1, true, .batch_first = true, .bias = true, .has_lengths = true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t checkpoint = 0; checkpoint <= 2; checkpoint++) {
            recurrent_case test = cases[i];

            test.checkpoint = checkpoint;
            check_case(*state, &test, BG_FLOAT32, 1e-5);
            if (test.given) /* parameters are float32, and cast */
                check_case(*state, &test, BG_FLOAT64, 3e-7);
        }
}

/* Computes d sum(y at the last step) / dx of a layer of this kind with `truncate`, by sample, step and feature. */
static void differentiate_last(kind which, int64_t truncate, bool reverse_time, double *dx)
{
    enum { STEPS = 7, IN = 3, WIDTH = 4 };
    const bg_type type = bg_tensor3(BG_FLOAT64, 1, STEPS, IN), one_type = bg_scalar(BG_FLOAT64);
    bg_recurrent_options options = bg_recurrent_defaults();
    bgi_test_interpreter interpreter;
    bg_error error = {0};
    bg_graph *graph;
    bg_value x, y, one, gradient;
    double values[64];

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    options.batch_first = true;
    options.truncate = truncate;
    options.bidirectional = reverse_time;
    x = bg_graph_variable(graph, "x", &type, BG_ROLE_PARAMETER, NULL);
    y = which == LSTM  ? bg_lstm_layer(graph, "rnn", x, WIDTH, &options, (bg_value){0}, (bg_value){0}, NULL, NULL)
        : which == GRU ? bg_gru_layer(graph, "rnn", x, WIDTH, &options, (bg_value){0}, NULL)
                       : bg_rnn_layer(graph, "rnn", x, WIDTH, &options, (bg_value){0}, NULL);
    y = reverse_time ? bg_slice(graph, NULL, bg_slice(graph, NULL, y, 2, WIDTH, 2 * WIDTH, 1), 1, 0, 1, 1)
                     : bg_slice(graph, NULL, y, 1, STEPS - 1, STEPS, 1);
    y = bg_reduce(graph, NULL, BG_REDUCE_SUM, y, NULL, 0, false);
    one = bg_graph_variable(graph, "one", &one_type, BG_ROLE_BUFFER, NULL);
    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    bgi_test_derive(graph, y, one, &x, 1, &gradient);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, one, (const double[]){1.0});
    for (uint32_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].kind == BGI_VALUE_VARIABLE && v != one.id) {
            for (int i = 0; i < 64; i++)
                values[i] = sin((double)(i + 5 * (int)graph->values[v].variable)) * 0.7;
            bgi_test_set(&interpreter, (bg_value){v}, values);
        }
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, gradient, dx);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* With truncation after 3 of 7 steps, the last step is a separate part, and earlier steps get no gradient. With
 * truncation after 4, the last three steps get the same gradient as without truncation. The reverse direction behaves
 * in the same way. */
static void test_gradients_are_truncated(void **state)
{
    (void)state;
    for (kind which = LSTM; which <= RNN; which++)
        for (int reverse = 0; reverse < 2; reverse++)
            for (int64_t truncate = 3; truncate <= 4; truncate++) {
                const int kept = truncate == 3 ? 1 : 3;
                double whole[21], cut[21];

                differentiate_last(which, 0, reverse, whole);
                differentiate_last(which, truncate, reverse, cut);
                for (int step = 0; step < 7; step++)
                    for (int i = 0; i < 3; i++) {
                        const int at = step * 3 + i;
                        const bool is_kept = reverse ? step < kept : step >= 7 - kept;

                        assert_true(whole[at] != 0.0);
                        assert_true(is_kept ? fabs(cut[at] - whole[at]) < 1e-12 : cut[at] == 0.0);
                    }
            }
}

/* Values in padding have no effect, lengths above T mean T, and a sample of length 0 keeps its initial state. */
static void test_padding_is_not_read(void **state)
{
    enum { STEPS = 3, SAMPLES = 3, IN = 2, WIDTH = 2 };
    const bg_type type = bg_tensor3(BG_FLOAT32, STEPS, SAMPLES, IN), first = bg_tensor3(BG_FLOAT32, 1, SAMPLES, WIDTH);
    const bg_type counts = bg_vector(BG_INT32, SAMPLES);
    const int32_t lengths[SAMPLES] = {9, 0, 2};
    const double h0[SAMPLES * WIDTH] = {0.5, -0.5, 0.25, -0.25, 0.125, -0.125};
    bg_recurrent_options options = bg_recurrent_defaults();
    double values[STEPS * SAMPLES * IN], y[2][STEPS * SAMPLES * WIDTH], h[SAMPLES * WIDTH], dx[STEPS * SAMPLES * IN];

    (void)state;
    for (int round = 0; round < 2; round++) {
        bgi_test_interpreter interpreter;
        bg_graph *graph;
        bg_value x, initial, result, last, one, gradient;
        const bg_type scalar = bg_scalar(BG_FLOAT32);

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_variable(graph, "x", &type, BG_ROLE_PARAMETER, NULL);
        initial = bg_graph_variable(graph, "h0", &first, BG_ROLE_BUFFER, NULL);
        options.lengths = bg_graph_constant(graph, "lengths", &counts, lengths);
        result = bg_gru_layer(graph, "rnn", x, WIDTH, &options, initial, &last);
        one = bg_graph_variable(graph, "one", &scalar, BG_ROLE_BUFFER, NULL);
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        bgi_test_derive(graph, bg_reduce(graph, NULL, BG_REDUCE_SUM, result, NULL, 0, false), one, &x, 1, &gradient);
        bgi_test_interpreter_init(&interpreter, graph);
        for (uint32_t v = 1; v < graph->value_count; v++)
            if (graph->values[v].kind == BGI_VALUE_VARIABLE && v != one.id && v != initial.id)
                for (int64_t i = 0; i < bg_type_element_count(&graph->values[v].type); i++)
                    ((float *)bgi_test_data(&interpreter, (bg_value){v}))[i] = 0.3f * sinf((float)(i + 1));
        for (int i = 0; i < STEPS * SAMPLES * IN; i++) {
            const int step = i / IN / SAMPLES, sample = i / IN % SAMPLES;

            values[i] = step < lengths[sample] ? 0.1 * i : round == 0 ? 0.0 : NAN;
        }
        bgi_test_set(&interpreter, x, values);
        bgi_test_set(&interpreter, initial, h0);
        bgi_test_set(&interpreter, one, (const double[]){1.0});
        bgi_test_interpret(&interpreter);
        bgi_test_get(&interpreter, result, y[round]);
        bgi_test_get(&interpreter, last, h);
        bgi_test_get(&interpreter, gradient, dx);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
        for (int i = 0; i < STEPS * SAMPLES * WIDTH; i++) {
            const bool is_inside = i / WIDTH / SAMPLES < lengths[i / WIDTH % SAMPLES];

            assert_true((y[round][i] != 0.0) == is_inside);
            assert_true((dx[i] != 0.0) == is_inside);
        }
        assert_memory_equal(h + WIDTH, h0 + WIDTH, WIDTH * sizeof *h);
        assert_memory_equal(h, y[round] + (ptrdiff_t)(STEPS - 1) * SAMPLES * WIDTH, WIDTH * sizeof *h);
        assert_memory_equal(h + 2 * WIDTH, y[round] + SAMPLES * WIDTH + 2 * WIDTH, WIDTH * sizeof *h);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

typedef struct wrong_case {
    bool is_lstm;
    int64_t width;
    bg_recurrent_options options;
    bool has_state, has_lengths;
} wrong_case;

static bg_value build_wrong(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const wrong_case *test = argument;
    const bg_value state = test->has_state ? inputs[1] : (bg_value){0};
    bg_recurrent_options options = test->options;

    if (test->has_lengths) {
        options.lengths = inputs[1];
        return bg_rnn_layer(graph, "rnn", inputs[0], test->width, &options, state, NULL);
    }
    return test->is_lstm ? bg_lstm_layer(graph, "rnn", inputs[0], test->width, &test->options, state, state, NULL, NULL)
                         : bg_gru_layer(graph, "rnn", inputs[0], test->width, &test->options, state, NULL);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT32, 4, 2, 3), flat = bg_matrix(BG_FLOAT32, 4, 3);
    const bg_type h0 = bg_tensor3(BG_FLOAT32, 1, 4, 5);
    wrong_case test = {.width = 5, .options = bg_recurrent_defaults()};

    (void)state;
    bgi_test_build_fails(build_wrong, &test, &flat, 1, BG_ERROR_SHAPE,
                         "GRU layer `rnn`: the input is float32[4,3]; it must be float [T, N, in]");
    test.is_lstm = true;
    test.has_state = true;
    bgi_test_build_fails(build_wrong, &test, (bg_type[]){x, h0}, 2, BG_ERROR_SHAPE,
                         "LSTM layer `rnn`: the first state is float32[1,4,5]; it must be float32[1,2,5]");
    test.has_state = false;
    test.width = 0;
    bgi_test_build_fails(build_wrong, &test, &x, 1, BG_ERROR_INVALID, "1 layers of width 0");
    test.width = 5;
    test.options.layers = 31;
    test.options.bidirectional = true;
    bgi_test_build_fails(build_wrong, &test, &x, 1, BG_ERROR_INVALID, "31 layers of width 5");
    test.options = bg_recurrent_defaults();
    test.options.truncate = 3;
    test.options.checkpoint = 2;
    bgi_test_build_fails(build_wrong, &test, &x, 1, BG_ERROR_INVALID, "truncate is 3 and checkpoint is 2");
    test.options.truncate = -1;
    bgi_test_build_fails(build_wrong, &test, &x, 1, BG_ERROR_INVALID, "truncate is -1");
    test.options = bg_recurrent_defaults();
    test.has_lengths = true;
    bgi_test_build_fails(build_wrong, &test, (bg_type[]){x, bg_vector(BG_INT32, 4)}, 2, BG_ERROR_SHAPE,
                         "RNN layer `rnn`: lengths are int32[4]; they must be int32 or int64 [2]");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/recurrent.txt");
    return 0;
}

static int close_oracle(void **state)
{
    bgi_test_oracle_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_numbers),
        cmocka_unit_test(test_gradients_are_truncated),
        cmocka_unit_test(test_padding_is_not_read),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
