/*
 * attributes.h: the operands and attributes of recurrences over time. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_RECURRENT_ATTRIBUTES_H
#define BGI_KERNELS_RECURRENT_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     LSTM           x [T,N,4H], weight [4H,H], h0 [N,H], c0 [N,H], bias [4H]? -> y [T,N,H], gates [T,N,4H], c [T,N,H]
 *     LSTM_BACKWARD  weight, h0, c0, y, gates, c, dy, dc? -> dx [T,N,4H], dh0, dc0
 *     GRU            x [T,N,3H], weight [3H,H], h0 [N,H], bias [3H]? -> y [T,N,H], gates [T,N,4H]
 *     GRU_BACKWARD   weight, h0, y, gates, dy -> dx [T,N,3H], dhidden [T,N,3H], dh0
 *     RNN            x [T,N,H], weight [H,H], h0 [N,H], bias [H]? -> y [T,N,H]
 *     RNN_BACKWARD   weight, h0, y, dy -> dx [T,N,H], dh0
 *
 * With batch_first T and N are exchanged, except in h0 and c0. x is the inputs' contribution to the gates; the sums s =
 * weight h + bias are the previous state's contribution. Products of gates and states are elementwise:
 *
 *     LSTM  i, f, g, o in x and s:  i, f, o = sigmoid(x + s), g = tanh(x + s);  c' = f c + i g,  h' = o tanh(c')
 *     GRU   r, z, n in x and s:     r, z = sigmoid(x + s), n = tanh(x + r s);  h' = (1 - z) n + z h
 *     RNN   h' = tanh(x + s), or max(0, x + s) with `relu`, which keeps NaN
 *
 * With `reset_first` the s of a GRU's n is weight (r h) + bias, and n = tanh(x + s).
 *
 * `gates` holds i, f, g, o, or r, z, n and the s of n. dx is also the gradient of s in an LSTM and an RNN; dhidden is
 * the gradient of a GRU's s (with reset_first too). With `reverse`, the recurrence begins with the last step. Later
 * steps read the rounded states from y and c.
 */
typedef struct bgi_recurrent_attributes {
    uint8_t batch_first, reverse;
    uint8_t relu;        /* only RNN */
    uint8_t reset_first; /* only GRU */
} bgi_recurrent_attributes;

/* The shape of a tensor with a time dim, such as y. */
typedef struct bgi_recurrent_shape {
    int64_t steps, samples, width;      /* T, N, H */
    int64_t step_stride, sample_stride; /* strides in rows */
    int64_t first_row,
        row_stride; /* sample 0's row at the first step in the direction of time, and the distance to its next row */
} bgi_recurrent_shape;

static inline bgi_recurrent_shape bgi_recurrent_read(const bg_type *y, const bgi_recurrent_attributes *attributes)
{
    const bool batch_first = attributes->batch_first;
    bgi_recurrent_shape s = {
        .steps = y->dims[batch_first ? 1 : 0], .samples = y->dims[batch_first ? 0 : 1], .width = y->dims[2]};

    s.step_stride = batch_first ? 1 : s.samples;
    s.sample_stride = batch_first ? s.steps : 1;
    s.first_row = attributes->reverse ? (s.steps - 1) * s.step_stride : 0;
    s.row_stride = attributes->reverse ? -s.step_stride : s.step_stride;
    return s;
}

/* Returns the row of a sample at step `step`, counted in the direction of the recurrence. */
static inline int64_t bgi_recurrent_row(const bgi_recurrent_shape *s, int64_t step, int64_t sample)
{
    return s->first_row + step * s->row_stride + sample * s->sample_stride;
}

#endif
