/*
 * test_recurrent.c: compares the gradients of recurrences with central differences (of the LSTM for losses of h, of c
 * and of both), checks a GRU step by its formulas, and checks errors. (tests/nn/test_recurrent.c compares values with
 * PyTorch's.)
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "graph/graph.h"
#include "kernels/recurrent/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

static void test_gradients_are_derivatives(void **state)
{
    const bg_type weights[] = {bg_matrix(BG_FLOAT64, 8, 2), bg_matrix(BG_FLOAT64, 6, 2)};
    const bg_type biases[] = {bg_vector(BG_FLOAT64, 8), bg_vector(BG_FLOAT64, 6)};
    const bg_type first = bg_matrix(BG_FLOAT64, 3, 2);
    bg_gradient_check_options options = bg_gradient_check_defaults();
    bg_error error = {0};

    (void)state;
    for (int round = 0; round < 4; round++) {
        const bgi_recurrent_attributes attributes = {.batch_first = round & 1, .reverse = round >> 1};
        bgi_recurrent_attributes reset = attributes;
        const bg_type rnn[] = {round & 1 ? bg_tensor3(BG_FLOAT64, 3, 4, 2) : bg_tensor3(BG_FLOAT64, 4, 3, 2),
                               bg_matrix(BG_FLOAT64, 2, 2), first, bg_vector(BG_FLOAT64, 2)};
        const bg_type x[] = {round & 1 ? bg_tensor3(BG_FLOAT64, 3, 4, 8) : bg_tensor3(BG_FLOAT64, 4, 3, 8),
                             round & 1 ? bg_tensor3(BG_FLOAT64, 3, 4, 6) : bg_tensor3(BG_FLOAT64, 4, 3, 6)};
        const bg_type lstm[] = {x[0], weights[0], first, first, biases[0]};
        const bg_type gru[] = {x[1], weights[1], first, biases[1]};

        /* a loss of h, of c, and of both */
        for (options.outputs = 1; options.outputs <= 5; options.outputs += options.outputs == 1 ? 3 : 1)
            if (bg_gradient_check(&bgi_op_lstm, &attributes, lstm, NULL, 5, &options, &error) != BG_OK)
                fail_msg("lstm, round %d, outputs %u: %s", round, options.outputs, error.message);
        bgi_test_gradient(&bgi_op_lstm, &attributes, lstm, 4, -1, 1);
        bgi_test_gradient(&bgi_op_gru, &attributes, gru, 4, -1, 1);
        bgi_test_gradient(&bgi_op_gru, &attributes, gru, 3, -1, 1);
        reset.reset_first = true;
        bgi_test_gradient(&bgi_op_gru, &reset, gru, 4, -1, 1);
        bgi_test_gradient(&bgi_op_gru, &reset, gru, 3, -1, 1);
        bgi_test_gradient(&bgi_op_rnn, &attributes, rnn, 4, -1, 1);
        reset = attributes;
        reset.relu = true;
        bgi_test_gradient(&bgi_op_rnn, &reset, rnn, 3, -1, 1);
    }
}

/* A step of a single unit gives the values of the formulas. */
static void test_formulas(void **state)
{
    const bg_type three = bg_tensor3(BG_FLOAT64, 1, 1, 3), column = bg_matrix(BG_FLOAT64, 3, 1);
    const bg_type cell = bg_matrix(BG_FLOAT64, 1, 1), bias_type = bg_vector(BG_FLOAT64, 3);
    const double x[] = {0.3, -0.4, 0.8}, w[] = {0.5, -1.5, 2.0}, b[] = {0.1, 0.2, -0.3}, h = 0.6;
    const double r = 1.0 / (1.0 + exp(-(0.3 + 0.5 * h + 0.1))), z = 1.0 / (1.0 + exp(-(-0.4 - 1.5 * h + 0.2)));
    const double wanted[] = {(1.0 - z) * tanh(0.8 + 2.0 * (r * h) - 0.3) + z * h,
                             (1.0 - z) * tanh(0.8 + r * (2.0 * h - 0.3)) + z * h};

    (void)state;
    for (int is_behind = 0; is_behind < 2; is_behind++) {
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value operands[4], y;
        double got;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        operands[0] = bg_graph_input(graph, "x", &three);
        operands[1] = bg_graph_input(graph, "w", &column);
        operands[2] = bg_graph_input(graph, "b", &bias_type);
        operands[3] = bg_graph_input(graph, "h", &cell);
        y = (is_behind ? bg_gru : bg_gru_reset_first)(graph, NULL, operands[0], operands[1], operands[2], operands[3],
                                                      false, false);
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, operands[0], x);
        bgi_test_set(&interpreter, operands[1], w);
        bgi_test_set(&interpreter, operands[2], b);
        bgi_test_set(&interpreter, operands[3], &h);
        bgi_test_interpret(&interpreter);
        bgi_test_get(&interpreter, y, &got);
        assert_true(fabs(got - wanted[is_behind]) < 1e-12);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

static bg_value build_rnn(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bg_rnn(graph, "rnn", inputs[0], inputs[1], inputs[3], inputs[2], *(const bool *)argument, false, false);
}

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return *(const bool *)argument
               ? bg_lstm(graph, "rnn", inputs[0], inputs[1], inputs[4], inputs[2], inputs[3], true, false, NULL)
               : bg_gru(graph, "rnn", inputs[0], inputs[1], inputs[3], inputs[2], false, false);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT32, 3, 4, 12), weight = bg_matrix(BG_FLOAT32, 12, 3);
    const bg_type gru_weight = bg_matrix(BG_FLOAT32, 12, 4), h = bg_matrix(BG_FLOAT32, 3, 3);
    const bg_type gru_h = bg_matrix(BG_FLOAT32, 4, 4), bias = bg_vector(BG_FLOAT32, 12), odd = bg_vector(BG_FLOAT32, 3);
    const bg_type flat = bg_matrix(BG_FLOAT32, 3, 12), uneven = bg_tensor3(BG_FLOAT32, 3, 4, 10);
    const bool is_lstm = true, is_gru = false;

#define REFUSES(which, text, ...)                                                                                      \
    do {                                                                                                               \
        const bg_type types[] = {__VA_ARGS__};                                                                         \
        bgi_test_build_fails(build, which, types, sizeof types / sizeof *types, BG_ERROR_SHAPE, text);                 \
    } while (0)
    (void)state;
    REFUSES(&is_lstm, "[N, T, gates H]", flat, weight, h, h, bias);
    REFUSES(&is_gru, "[T, N, gates H]", flat, gru_weight, gru_h, bias);
    REFUSES(&is_lstm, "4 gates x the width of the state", uneven, weight, h, h, bias);
    REFUSES(&is_gru, "the weight is float32[12,3]; it must be float32[12,4]", x, weight, gru_h, bias);
    REFUSES(&is_lstm, "h0 is float32[4,4]", x, weight, gru_h, h, bias);
    REFUSES(&is_lstm, "c0 is float32[4,4]", x, weight, h, gru_h, bias);
    REFUSES(&is_gru, "the bias is float32[3]", x, gru_weight, gru_h, odd);
    bgi_test_build_fails(build_rnn, &is_gru, (const bg_type[]){x, weight, h, bias}, 4, BG_ERROR_SHAPE,
                         "the weight is float32[12,3]; it must be float32[12,12]");
#undef REFUSES
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_are_derivatives),
                                       cmocka_unit_test(test_formulas), cmocka_unit_test(test_what_is_wrong_is_said)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
