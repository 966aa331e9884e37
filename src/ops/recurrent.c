/*
 * recurrent.c: defines LSTM, GRU and plain recurrences over time, one op for all steps of a layer in one direction. The
 * inputs' contribution to the gates is one product before the op (a linear op). The weight's gradient is one product
 * after the backward op, of the gradients of all steps with the states before the steps.
 */
#include <brigade/ops.h>

#include <string.h>

#include "graph/graph.h"
#include "kernels/linear/attributes.h"
#include "kernels/recurrent/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_lstm, LSTM)
BGI_OP_KERNEL(select_lstm_backward, LSTM_BACKWARD)
BGI_OP_KERNEL(select_gru, GRU)
BGI_OP_KERNEL(select_gru_backward, GRU_BACKWARD)
BGI_OP_KERNEL(select_rnn, RNN)
BGI_OP_KERNEL(select_rnn_backward, RNN_BACKWARD)

static bg_type replace_last(const bg_type *type, int64_t last)
{
    bg_type result = *type;

    result.dims[type->rank - 1] = last;
    return result;
}

/* Checks x [T,N,gates H] or [N,T,gates H], weight [gates H,H], states [N,H] and, if the op has one, a bias [gates
 * H]. */
static bg_status check_operands(const bg_op_signature *op, int64_t gates, uint32_t states, bg_error *error)
{
    const bgi_recurrent_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];
    char text[BG_TYPE_TEXT_BYTES];
    bg_type wanted;
    int64_t width;

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_rank(x, "x", 3, attributes->batch_first ? "[N, T, gates H]" : "[T, N, gates H]", error));
    if (x->dims[2] % gates != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "x is %s; its last dimension must be %lld gates x the width of the state",
                            bg_type_text(x, text), (long long)gates);
    width = x->dims[2] / gates;
    wanted = bg_matrix(x->dtype, gates * width, width);
    BGI_TRY(bgi_shape_equal(&op->types[1], "the weight", &wanted, "[gates H, H] of x's type", error));
    wanted = bg_matrix(x->dtype, x->dims[attributes->batch_first ? 0 : 1], width);
    for (uint32_t i = 0; i < states; i++)
        BGI_TRY(bgi_shape_equal(&op->types[2 + i], i == 0 ? "h0" : "c0", &wanted, "[N, H] of x's type", error));
    wanted = bg_vector(x->dtype, gates * width);
    if (op->input_count > 2 + states)
        BGI_TRY(bgi_shape_equal(&op->types[2 + states], "the bias", &wanted, "one for each row of the weight", error));
    return BG_OK;
}

static bg_status infer_lstm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_operands(op, 4, 2, error));
    outputs[0] = outputs[2] = replace_last(&op->types[0], op->types[0].dims[2] / 4);
    outputs[1] = op->types[0];
    return BG_OK;
}

static bg_status infer_gru(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_operands(op, 3, 1, error));
    outputs[0] = replace_last(&op->types[0], op->types[0].dims[2] / 3);
    outputs[1] = replace_last(&op->types[0], op->types[0].dims[2] / 3 * 4);
    return BG_OK;
}

static bg_status infer_rnn(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    if (((const bgi_recurrent_attributes *)op->attributes)->reset_first)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "reset_first is set, but a plain recurrence has no reset gate; leave it unset");
    BGI_TRY(check_operands(op, 1, 1, error));
    outputs[0] = op->types[0];
    return BG_OK;
}

/* ---- gradients ---- */

/* Returns the state before each step: h0, then y's states shifted by one step. */
static bg_value add_states_before(bg_graph *graph, bg_value y, bg_value h0, const bgi_recurrent_attributes *attributes)
{
    const bg_type type = bg_graph_type(graph, y);
    const int32_t axis = attributes->batch_first ? 1 : 0;
    const int64_t steps = type.dims[axis];
    int64_t dims[3] = {type.dims[0], type.dims[1], type.dims[2]};
    bg_value first, others;

    dims[axis] = 1;
    first = bg_reshape(graph, NULL, h0, 3, dims);
    if (steps == 1)
        return first;
    others = bg_slice(graph, NULL, y, axis, attributes->reverse ? 1 : 0, attributes->reverse ? steps : steps - 1, 1);
    return attributes->reverse ? bg_concat(graph, NULL, (const bg_value[]){others, first}, 2, axis)
                               : bg_concat(graph, NULL, (const bg_value[]){first, others}, 2, axis);
}

/* Adds the weight's gradient of a GRU with reset_first in two parts: r and z multiply the states before each step, but
 * n multiplies those states after the reset gates. */
static void add_reset_gradients(bg_op_gradient *gradient, const bgi_linear_backward_attributes *attributes,
                                bg_value sums, bg_value before, bg_value *out_results)
{
    bg_graph *graph = gradient->graph;
    const int64_t width = bg_graph_type(graph, before).dims[2];
    const bg_value reset = bg_slice(graph, NULL, gradient->outputs[1], 2, 0, width, 1);
    const bg_value first[2] = {bg_slice(graph, NULL, sums, 2, 0, 2 * width, 1), before};
    const bg_value last[2] = {bg_slice(graph, NULL, sums, 2, 2 * width, 3 * width, 1),
                              bg_multiply(graph, reset, before)};
    bg_value made[2][2] = {{{0}}};

    bg_graph_add(graph, &bgi_op_linear_backward_weights, NULL, first, 2, attributes, made[0]);
    bg_graph_add(graph, &bgi_op_linear_backward_weights, NULL, last, 2, attributes, made[1]);
    for (int i = 0; i < (attributes->bias ? 2 : 1); i++)
        out_results[i] = bg_concat(graph, NULL, (const bg_value[]){made[0][i], made[1][i]}, 2, 0);
}

/* Adds the gradients of the weight (input 1) and of the bias (input `bias`) from the gradient of the gates' sums. */
static void add_weight_gradients(bg_op_gradient *gradient, bg_value sums, uint32_t bias)
{
    const bool has_bias = gradient->op.input_count > bias && gradient->needs[bias];
    const bgi_linear_backward_attributes attributes = {.bias = has_bias};
    bg_value results[2] = {{0}}, operands[2] = {sums};

    if (!gradient->needs[1] && !has_bias)
        return;
    operands[1] =
        add_states_before(gradient->graph, gradient->outputs[0], gradient->inputs[2], gradient->op.attributes);
    if (((const bgi_recurrent_attributes *)gradient->op.attributes)->reset_first)
        add_reset_gradients(gradient, &attributes, sums, operands[1], results);
    else
        bg_graph_add(gradient->graph, &bgi_op_linear_backward_weights, NULL, operands, 2, &attributes, results);
    if (gradient->needs[1])
        gradient->input_gradients[1] = results[0];
    if (has_bias)
        gradient->input_gradients[bias] = results[1];
}

/* Sets *out to y's gradient, which is zero if only cell states are used in a loss. The gates, which are outputs only
 * for the backward pass, must have no gradient. */
static bg_status find_result_gradient(bg_op_gradient *gradient, bg_value *out, bg_error *error)
{
    if (!bg_value_is_null(gradient->output_gradients[1]))
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "the gates are used in a loss, but they have no gradient; only the states can be used in a loss");
    *out = gradient->output_gradients[0];
    if (bg_value_is_null(*out))
        *out = bg_clamp(gradient->graph, gradient->output_gradients[2], 0.0, 0.0);
    return BG_OK;
}

static bg_status differentiate_lstm(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value *inputs = gradient->inputs, *outputs = gradient->outputs;
    bg_value operands[8] = {inputs[1],  inputs[2],  inputs[3], outputs[0],
                            outputs[1], outputs[2], {0},       gradient->output_gradients[2]};
    bg_value results[3] = {{0}};

    BGI_TRY(find_result_gradient(gradient, &operands[6], error));
    bg_graph_add(gradient->graph, &bgi_op_lstm_backward, NULL, operands, 8, gradient->op.attributes, results);
    if (gradient->needs[0])
        gradient->input_gradients[0] = results[0];
    for (uint32_t i = 2; i < 4; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = results[i - 1];
    add_weight_gradients(gradient, results[0], 4);
    return bg_graph_check(gradient->graph, error);
}

static bg_status differentiate_gru(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value *inputs = gradient->inputs, *outputs = gradient->outputs;
    bg_value operands[5] = {inputs[1], inputs[2], outputs[0], outputs[1], {0}}, results[3] = {{0}};

    BGI_TRY(find_result_gradient(gradient, &operands[4], error));
    bg_graph_add(gradient->graph, &bgi_op_gru_backward, NULL, operands, 5, gradient->op.attributes, results);
    if (gradient->needs[0])
        gradient->input_gradients[0] = results[0];
    if (gradient->needs[2])
        gradient->input_gradients[2] = results[2];
    add_weight_gradients(gradient, results[1], 3);
    return bg_graph_check(gradient->graph, error);
}

static bg_status differentiate_rnn(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value *inputs = gradient->inputs;
    bg_value operands[4] = {inputs[1], inputs[2], gradient->outputs[0], {0}}, results[2] = {{0}};

    BGI_TRY(bgi_gradient_of_result(gradient, &operands[3], error));
    bg_graph_add(gradient->graph, &bgi_op_rnn_backward, NULL, operands, 4, gradient->op.attributes, results);
    if (gradient->needs[0])
        gradient->input_gradients[0] = results[0];
    if (gradient->needs[2])
        gradient->input_gradients[2] = results[1];
    add_weight_gradients(gradient, results[0], 3);
    return bg_graph_check(gradient->graph, error);
}

/* ---- costs: the product, and about fifty operations for the functions of each unit ---- */

static bg_cost cost_forward(const bg_op_signature *op)
{
    const double units = bgi_type_elements(&op->types[op->input_count]);

    return bgi_cost_once(op, 2.0 * units * (double)op->types[1].dims[0] + 50.0 * units);
}

static bg_cost cost_backward(const bg_op_signature *op)
{
    const double units =
        bgi_type_elements(&op->types[op->input_count]) * (double)op->types[0].dims[1] / (double)op->types[0].dims[0];

    return bgi_cost_once(op, 2.0 * units * (double)op->types[0].dims[0] + 40.0 * units);
}

const bg_op_type bgi_op_lstm = {
    BG_OP_TYPE_DEFAULTS,  .name = "lstm",
    .minimum_inputs = 4,  .maximum_inputs = 5,
    .output_count = 3,    .attributes_bytes = sizeof(bgi_recurrent_attributes),
    .infer = infer_lstm,  .gradient = differentiate_lstm,
    .cost = cost_forward, .kernel = select_lstm,
};

const bg_op_type bgi_op_gru = {
    BG_OP_TYPE_DEFAULTS,  .name = "gru",
    .minimum_inputs = 3,  .maximum_inputs = 4,
    .output_count = 2,    .attributes_bytes = sizeof(bgi_recurrent_attributes),
    .infer = infer_gru,   .gradient = differentiate_gru,
    .cost = cost_forward, .kernel = select_gru,
};

const bg_op_type bgi_op_rnn = {
    BG_OP_TYPE_DEFAULTS,  .name = "rnn",
    .minimum_inputs = 3,  .maximum_inputs = 4,
    .output_count = 1,    .attributes_bytes = sizeof(bgi_recurrent_attributes),
    .infer = infer_rnn,   .gradient = differentiate_rnn,
    .cost = cost_forward, .kernel = select_rnn,
};

/* ---- weight, h0, c0, y, gates, c, dy, dc? -> dx, dh0, dc0 ---- */

static bg_status infer_lstm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *y = &op->types[3], *gates = &op->types[4];

    BGI_TRY(bgi_shape_rank(y, "y", 3, "[T, N, H]", error));
    BGI_TRY(bgi_shape_rank(&op->types[0], "the weight", 2, "[4 H, H]", error));
    BGI_TRY(bgi_shape_equal(&op->types[5], "c", y, "y's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[6], "dy", y, "y's type", error));
    if (op->input_count > 7)
        BGI_TRY(bgi_shape_equal(&op->types[7], "dc", y, "y's type", error));
    outputs[0] = *gates;
    outputs[1] = op->types[1];
    outputs[2] = op->types[2];
    return BG_OK;
}

const bg_op_type bgi_op_lstm_backward = {
    BG_OP_TYPE_DEFAULTS,          .name = "lstm_backward", .minimum_inputs = 7,
    .maximum_inputs = 8,          .output_count = 3,       .attributes_bytes = sizeof(bgi_recurrent_attributes),
    .infer = infer_lstm_backward, .cost = cost_backward,   .kernel = select_lstm_backward,
};

/* ---- weight, h0, y, gates, dy -> dx, dhidden, dh0 ---- */

static bg_status infer_gru_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *y = &op->types[2];

    BGI_TRY(bgi_shape_rank(y, "y", 3, "[T, N, H]", error));
    BGI_TRY(bgi_shape_rank(&op->types[0], "the weight", 2, "[3 H, H]", error));
    BGI_TRY(bgi_shape_equal(&op->types[4], "dy", y, "y's type", error));
    outputs[0] = outputs[1] = replace_last(y, 3 * y->dims[2]);
    outputs[2] = op->types[1];
    return BG_OK;
}

const bg_op_type bgi_op_gru_backward = {
    BG_OP_TYPE_DEFAULTS,         .name = "gru_backward", .minimum_inputs = 5,
    .maximum_inputs = 5,         .output_count = 3,      .attributes_bytes = sizeof(bgi_recurrent_attributes),
    .infer = infer_gru_backward, .cost = cost_backward,  .kernel = select_gru_backward,
};

/* ---- weight, h0, y, dy -> dx, dh0 ---- */

static bg_status infer_rnn_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *y = &op->types[2];

    BGI_TRY(bgi_shape_rank(y, "y", 3, "[T, N, H]", error));
    BGI_TRY(bgi_shape_rank(&op->types[0], "the weight", 2, "[H, H]", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "dy", y, "y's type", error));
    outputs[0] = *y;
    outputs[1] = op->types[1];
    return BG_OK;
}

const bg_op_type bgi_op_rnn_backward = {
    BG_OP_TYPE_DEFAULTS,         .name = "rnn_backward", .minimum_inputs = 4,
    .maximum_inputs = 4,         .output_count = 2,      .attributes_bytes = sizeof(bgi_recurrent_attributes),
    .infer = infer_rnn_backward, .cost = cost_backward,  .kernel = select_rnn_backward,
};

/* ---- builders ---- */

static bgi_recurrent_attributes make_attributes(bool batch_first, bool reverse)
{
    return (bgi_recurrent_attributes){.batch_first = batch_first, .reverse = reverse};
}

bg_value bg_lstm(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                 bg_value c0, bool batch_first, bool reverse, bg_value *out_c)
{
    const bgi_recurrent_attributes attributes = make_attributes(batch_first, reverse);
    bg_value outputs[3] = {{0}};

    bg_graph_add(graph, &bgi_op_lstm, name, (const bg_value[]){x, weight, h0, c0, bias}, 5, &attributes, outputs);
    if (out_c != NULL)
        *out_c = outputs[2];
    return outputs[0];
}

bg_value bg_gru(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                bool batch_first, bool reverse)
{
    const bgi_recurrent_attributes attributes = make_attributes(batch_first, reverse);

    return bg_graph_add(graph, &bgi_op_gru, name, (const bg_value[]){x, weight, h0, bias}, 4, &attributes, NULL);
}

bg_value bg_gru_reset_first(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                            bool batch_first, bool reverse)
{
    bgi_recurrent_attributes attributes = make_attributes(batch_first, reverse);

    attributes.reset_first = true;
    return bg_graph_add(graph, &bgi_op_gru, name, (const bg_value[]){x, weight, h0, bias}, 4, &attributes, NULL);
}

bg_value bg_rnn(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0, bool relu,
                bool batch_first, bool reverse)
{
    bgi_recurrent_attributes attributes = make_attributes(batch_first, reverse);

    attributes.relu = relu;
    return bg_graph_add(graph, &bgi_op_rnn, name, (const bg_value[]){x, weight, h0, bias}, 4, &attributes, NULL);
}
