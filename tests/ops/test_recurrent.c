/*
 * test_recurrent.c: the recurrences' gradients against central differences, through both results; what is refused.
 * (Values are held against PyTorch's in tests/nn/test_recurrent.c.)
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/graph.h"
#include "kernels/recurrent/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"

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
        const bg_type x[] = {round & 1 ? bg_tensor3(BG_FLOAT64, 3, 4, 8) : bg_tensor3(BG_FLOAT64, 4, 3, 8),
                             round & 1 ? bg_tensor3(BG_FLOAT64, 3, 4, 6) : bg_tensor3(BG_FLOAT64, 4, 3, 6)};
        const bg_type lstm[] = {x[0], weights[0], first, first, biases[0]};
        const bg_type gru[] = {x[1], weights[1], first, biases[1]};

        /* h alone, c alone, both */
        for (options.outputs = 1; options.outputs <= 5; options.outputs += options.outputs == 1 ? 3 : 1)
            if (bg_gradient_check(&bgi_op_lstm, &attributes, lstm, NULL, 5, &options, &error) != BG_OK)
                fail_msg("lstm, round %d, outputs %u: %s", round, options.outputs, error.message);
        bgi_test_gradient(&bgi_op_lstm, &attributes, lstm, 4, -1, 1);
        bgi_test_gradient(&bgi_op_gru, &attributes, gru, 4, -1, 1);
        bgi_test_gradient(&bgi_op_gru, &attributes, gru, 3, -1, 1);
    }
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
    REFUSES(&is_lstm, "4 gates x the state's width", uneven, weight, h, h, bias);
    REFUSES(&is_gru, "the weight is float32[12,3]: it must be float32[12,4]", x, weight, gru_h, bias);
    REFUSES(&is_lstm, "h0 is float32[4,4]", x, weight, gru_h, h, bias);
    REFUSES(&is_lstm, "c0 is float32[4,4]", x, weight, h, gru_h, bias);
    REFUSES(&is_gru, "the bias is float32[3]", x, gru_weight, gru_h, odd);
#undef REFUSES
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_are_derivatives),
                                       cmocka_unit_test(test_what_is_wrong_is_said)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
