/*
 * save_recurrent.c: saves LSTM, GRU and plain recurrences. In the library the inputs' product is a linear op before the
 * recurrence; in ONNX the product is part of the node. The linear op becomes the node's W when it has no other reader
 * (bgi_save_absorbs); otherwise W is the identity. Weights keep their layout; preceding nodes reorder the gates, and
 * engines fold these nodes once.
 *
 *     PyTorch's gates   i f g o    r z n
 *     ONNX's gates      i o f c    z r h
 */
#include <stdlib.h>

#include "kernels/recurrent/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static bool is_recurrent(const bgi_op *op)
{
    return op->type == &bgi_op_lstm || op->type == &bgi_op_gru || op->type == &bgi_op_rnn;
}

const bgi_op *bgi_save_absorbs(const bgi_saver *s, const bgi_op *op)
{
    const bgi_value *x;

    if (!is_recurrent(op))
        return NULL;
    x = bgi_graph_value(s->graph, op->inputs[0]);
    if (x->kind != BGI_VALUE_RESULT || s->values[op->inputs[0].id].uses != 1 ||
        s->graph->ops[x->op].type != &bgi_op_linear)
        return NULL;
    return &s->graph->ops[x->op];
}

/* Saves the slice only if it takes the last step in the direction of time, whose cell state an LSTM node returns. */
void bgi_save_last_cell(bgi_saver *s, uint32_t axis, int64_t start, int64_t stop)
{
    const bgi_value *v = bgi_graph_value(s->graph, s->op->inputs[0]);
    const bgi_recurrent_attributes *f = s->graph->ops[v->op].attributes;
    const bg_type y = bgi_save_result(s, 0);
    const uint32_t time = f->batch_first ? 1 : 0;
    const int64_t last = f->reverse ? 0 : v->type.dims[time] - 1;

    if (axis != time || start != last || stop != last + 1) {
        bgi_save_refuse(
            s, "it takes the cell state of an LSTM at a step other than the last but ONNX returns only the last");
        return;
    }
    bgi_save_out(s, 0, bgi_save_reshape(s, s->values[s->op->inputs[0].id].cell, y.rank, y.dims, bgi_save_batch(s, 0)),
                 bgi_save_batch(s, 0));
}

/* Reorders rows of gates to ONNX's order; returns NULL if x is NULL. */
static const char *exchange_gates(bgi_saver *s, const char *x, int gates)
{
    const char *parts[4], *ordered[4];

    if (x == NULL || gates == 1)
        return x;
    parts[0] = bgi_save_1(s, "Split", x);
    for (int i = 1; i < gates; i++)
        parts[i] = bgi_save_more(s);
    bgi_save_int(s, "axis", 0);
    ordered[0] = parts[gates == 4 ? 0 : 1];
    ordered[1] = parts[gates == 4 ? 3 : 0];
    ordered[2] = parts[gates == 4 ? 1 : 2];
    ordered[3] = parts[gates == 4 ? 2 : 0];
    x = bgi_save_node(s, "Concat", (uint32_t)gates, ordered);
    bgi_save_int(s, "axis", 0);
    return x;
}

static const char *unsqueeze(bgi_saver *s, const char *x, int64_t axis)
{
    return x != NULL ? bgi_save_2(s, "Unsqueeze", x, bgi_save_list(s, &axis, 1)) : NULL;
}

static const char *save_zeros(bgi_saver *s, int64_t count)
{
    const double nothing[1] = {0.0};
    const char *zero = bgi_save_reals(s, bgi_save_dtype(s, 0), 1, (const int64_t[]){1}, nothing);

    return bgi_save_2(s, "Expand", zero, bgi_save_list(s, &count, 1));
}

static const char *save_identity(bgi_saver *s, int64_t size)
{
    double *values = calloc((size_t)(size * size), sizeof *values);
    const char *name;

    if (values == NULL) {
        s->is_out_of_memory = true;
        return NULL;
    }
    for (int64_t i = 0; i < size; i++)
        values[i * size + i] = 1.0;
    name = bgi_save_reals(s, bgi_save_dtype(s, 0), 2, (const int64_t[]){size, size}, values);
    free(values);
    return name;
}

/* Saves both biases, concatenated as [1, 2 gates H]; returns NULL without biases. */
static const char *save_biases(bgi_saver *s, const char *of_x, const char *of_state, int gates, int64_t width)
{
    const char *both[2], *y;

    if (of_x == NULL && of_state == NULL)
        return NULL;
    both[0] = of_x != NULL ? exchange_gates(s, of_x, gates) : save_zeros(s, gates * width);
    both[1] = of_state != NULL ? exchange_gates(s, of_state, gates) : save_zeros(s, gates * width);
    y = bgi_save_node(s, "Concat", 2, both);
    bgi_save_int(s, "axis", 0);
    return unsqueeze(s, y, 0);
}

static bool is_zero(const bgi_saver *s, bg_value value)
{
    const bgi_value *v = bgi_graph_value(s->graph, value);
    const unsigned char *bytes = v->data;

    if (v->kind != BGI_VALUE_CONSTANT)
        return false;
    for (size_t i = 0; i < bg_type_size_bytes(&v->type); i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Saves a first state [N, H] as [1, N, H]; returns NULL for zeros, which are the default. */
static const char *save_state(bgi_saver *s, uint32_t input, int32_t batch)
{
    if (is_zero(s, s->op->inputs[input]))
        return NULL;
    if (batch != BGI_SAVE_NO_BATCH && bgi_save_batch(s, input) != 0)
        bgi_save_fix(s, "a first state does not come from an input");
    return unsqueeze(s, bgi_save_in(s, input), 0);
}

static void save_recurrent(bgi_saver *s)
{
    const bool is_lstm = s->op->type == &bgi_op_lstm, is_plain = s->op->type == &bgi_op_rnn;
    const bgi_recurrent_attributes *f = s->op->attributes;
    const bgi_op *linear = bgi_save_absorbs(s, s->op);
    const int gates = is_lstm ? 4 : is_plain ? 1 : 3;
    const uint32_t states = is_lstm ? 2 : 1;
    const bg_value x_value = linear != NULL ? linear->inputs[0] : s->op->inputs[0];
    const int64_t width = bgi_save_result(s, 0).dims[2];
    const int32_t batch = s->values[x_value.id].batch;
    const char *operands[7] = {NULL}, *w, *bias_x = NULL, *y, *last_c = NULL;

    if (batch != BGI_SAVE_NO_BATCH && batch != (f->batch_first ? 0 : 1))
        bgi_save_fix(s, "the samples are in dimension %d", batch);
    operands[0] = bgi_save_value(s, x_value);
    if (f->batch_first)
        operands[0] = bgi_save_transpose(s, operands[0], 3, (const int64_t[]){1, 0, 2});
    w = linear != NULL ? bgi_save_value(s, linear->inputs[1]) : save_identity(s, gates * width);
    if (linear != NULL && linear->input_count > 2 && linear->inputs[2].id != 0)
        bias_x = bgi_save_value(s, linear->inputs[2]);
    operands[1] = unsqueeze(s, exchange_gates(s, w, gates), 0);
    operands[2] = unsqueeze(s, exchange_gates(s, bgi_save_in(s, 1), gates), 0);
    operands[3] = save_biases(s, bias_x, bgi_save_in(s, 2 + states), gates, width);
    operands[5] = save_state(s, 2, batch);
    operands[6] = is_lstm ? save_state(s, 3, batch) : NULL;
    if (is_plain && f->relu) {
        bgi_save_refuse(s, "its function is max(0, x) but a plain recurrence can be written only with tanh");
        return;
    }
    y = bgi_save_node(s, is_lstm ? "LSTM" : is_plain ? "RNN" : "GRU", is_lstm ? 7 : 6, operands);
    if (is_lstm && bgi_save_wants(s, 2)) {
        bgi_save_skip(s);
        last_c = bgi_save_more(s);
    }
    bgi_save_int(s, "hidden_size", width);
    bgi_save_text(s, "direction", f->reverse ? "reverse" : "forward");
    if (!is_lstm && !is_plain)
        bgi_save_int(s, "linear_before_reset", !f->reset_first);
    y = bgi_save_2(s, "Squeeze", y, bgi_save_list(s, (const int64_t[]){1}, 1));
    if (f->batch_first)
        y = bgi_save_transpose(s, y, 3, (const int64_t[]){1, 0, 2});
    bgi_save_out(s, 0, y, batch);
    if (last_c == NULL)
        return;
    if (s->is_wide)
        last_c = bgi_save_cast(s, last_c, bgi_onnx_dtype_element(bgi_save_result(s, 2).dtype));
    s->values[s->op->outputs[2].id].cell = last_c;
    s->values[s->op->outputs[2].id].batch = batch;
}

const bgi_save_row bgi_save_recurrent[] = {
    {&bgi_op_lstm, save_recurrent, 99, NULL},
    {&bgi_op_gru, save_recurrent, 99, NULL},
    {&bgi_op_rnn, save_recurrent, 99, NULL},
    {0},
};
