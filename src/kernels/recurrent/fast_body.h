/*
 * fast_body.h: recurrences, step by step. A step computes one product of the samples' states and the weight with the
 * tiles of gemm_body.h, and then the cells, row by row. States are rounded to their type at each step, as y and c store
 * them; in the backward pass their gradients stay in float32.
 */
#ifndef BGI_KERNELS_RECURRENT_FAST_BODY_H
#define BGI_KERNELS_RECURRENT_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/linear/gemm_body.h"
#include "kernels/recurrent/fast.h"

/* ---- the weight, in panels that follow each other: [panel][depth][panel_columns] ---- */

/* Lays weight^T out: rows of the weight become columns. */
static void lay_out_across(const bg_kernel_call *call, const bgi_recurrent *r, const void *weight)
{
    float *panels = call->scratch, *buffer = panels + r->panels * r->panel_columns * r->depth;

    for (int64_t column = 0; column < r->panels * r->panel_columns; column++) {
        float *to = panels + column / r->panel_columns * r->panel_columns * r->depth + column % r->panel_columns;
        const float *row =
            column < r->columns ? view_floats(r->dtype, weight, column * r->depth, r->depth, buffer) : NULL;

        for (int64_t k = 0; k < r->depth; k++)
            to[k * r->panel_columns] = row != NULL ? row[k] : 0.0f;
    }
}

static void lay_out(const bg_kernel_call *call, const bgi_recurrent *r, const void *weight)
{
    float *panels = call->scratch, *buffer = panels + r->panels * r->panel_columns * r->depth;

    for (int64_t k = 0; k < r->depth; k++) {
        const float *row = view_floats(r->dtype, weight, k * r->columns, r->columns, buffer);

        for (int64_t p = 0; p < r->panels; p++) {
            float *to = panels + (p * r->depth + k) * r->panel_columns;
            const int64_t count = clip(r->columns - p * r->panel_columns, r->panel_columns);

            memcpy(to, row + p * r->panel_columns, (size_t)count * sizeof *to);
            memset(to + count, 0, (size_t)(r->panel_columns - count) * sizeof *to);
        }
    }
}

/* A range of the product. Its columns are whole panels, which may include a few extra columns; the depth is exact. */
typedef struct panel_range {
    int64_t first_column, end_column, first_depth, end_depth;
} panel_range;

/* Computes c [rows, columns] += a [rows, depth] panels. */
static void multiply_range(const bg_kernel_call *call, const bgi_recurrent *r, panel_range range, const float *a,
                           int64_t a_row, float *c, int64_t c_row, int64_t rows)
{
    for (int64_t p = range.first_column / r->panel_columns; p * r->panel_columns < range.end_column; p++)
        multiply_block(
            &(gemm_block){.a = a + range.first_depth,
                          .a_row = a_row,
                          .a_column = 1,
                          .b = (const float *)call->scratch + (p * r->depth + range.first_depth) * r->panel_columns,
                          .b_row = r->panel_columns,
                          .c = c + p * r->panel_columns,
                          .c_row = c_row,
                          .m = rows,
                          .n = clip(r->columns - p * r->panel_columns, r->panel_columns),
                          .k = range.end_depth - range.first_depth,
                          .add = true});
}

static void multiply_panels_of(const bg_kernel_call *call, const bgi_recurrent *r, const float *a, int64_t a_row,
                               float *c, int64_t c_row, int64_t rows)
{
    multiply_range(call, r, (panel_range){0, r->columns, 0, r->depth}, a, a_row, c, c_row, rows);
}

/* ---- a part ---- */

typedef struct recurrent_part {
    int64_t first, count; /* samples */
    float *h, *c, *gates; /* states and products of all samples; in the backward pass, their gradients */
    float *rows[14];      /* rows for one sample: rows[0] and rows[4] of size 4H, the rows from rows[8] on of size H */
    float *second;        /* the reset states' contribution to the gates, for all samples */
} recurrent_part;

static recurrent_part enter_part(const bg_kernel_call *call, const bgi_recurrent *r, uint32_t part)
{
    recurrent_part p = {.first = part * r->rows, .count = clip(r->shape.samples - part * r->rows, r->rows)};

    p.h = (float *)call->scratch + r->weight_floats + part * r->part_floats;
    p.c = p.h + r->rows * r->width_floats;
    p.gates = p.c + r->rows * r->width_floats;
    for (int i = 0; i < 14; i++)
        p.rows[i] = p.gates + r->rows * r->gates_floats + i * r->width_floats;
    p.second = p.rows[0] + 16 * r->width_floats;
    return p;
}

static void read_states(const bgi_recurrent *r, const recurrent_part *p, const void *data, float *to)
{
    for (int64_t i = 0; i < p->count; i++)
        read_floats(r->dtype, data, (p->first + i) * r->shape.width, r->shape.width, to + i * r->width_floats);
}

static void write_states(const bgi_recurrent *r, const recurrent_part *p, void *data, const float *from)
{
    for (int64_t i = 0; i < p->count; i++)
        write_floats(r->dtype, data, (p->first + i) * r->shape.width, r->shape.width, from + i * r->width_floats);
}

/* Stores a new state in its tensor, and rounds `state` to the tensor's type. */
static void keep_state(const bgi_recurrent *r, void *data, int64_t row, float *state)
{
    write_floats(r->dtype, data, row * r->shape.width, r->shape.width, state);
    if (r->dtype != BG_FLOAT32)
        read_floats(r->dtype, data, row * r->shape.width, r->shape.width, state);
}

/* Computes the products of a step, bias + h weight^T, for at least `columns` columns. */
static void multiply_states(const bg_kernel_call *call, const bgi_recurrent *r, const recurrent_part *p, uint32_t bias,
                            int64_t columns)
{
    const size_t bytes = (size_t)(r->gates * r->shape.width) * sizeof(float);

    for (int64_t i = 0; i < p->count; i++)
        if (bgi_cpu_has_input(call, bias))
            read_floats(r->dtype, call->operands[bias], 0, r->gates * r->shape.width, p->gates + i * r->gates_floats);
        else
            memset(p->gates + i * r->gates_floats, 0, bytes);
    multiply_range(call, r, (panel_range){0, columns, 0, r->depth}, p->h, r->width_floats, p->gates, r->gates_floats,
                   p->count);
}

/* ---- LSTM ---- */

static void step_lstm_row(const float *x, const float *s, float *c, float *h, float *gates, int64_t width)
{
    FOR_ROW(width, live)
    {
        const vf in = vsigmoid(vload_n(x + i, live) + vload_n(s + i, live));
        const vf forget = vsigmoid(vload_n(x + width + i, live) + vload_n(s + width + i, live));
        const vf cell = vtanh(vload_n(x + 2 * width + i, live) + vload_n(s + 2 * width + i, live));
        const vf out = vsigmoid(vload_n(x + 3 * width + i, live) + vload_n(s + 3 * width + i, live));
        const vf now = vfma(forget, vload_n(c + i, live), in * cell);

        vstore_n(gates + i, in, live);
        vstore_n(gates + width + i, forget, live);
        vstore_n(gates + 2 * width + i, cell, live);
        vstore_n(gates + 3 * width + i, out, live);
        vstore_n(c + i, now, live);
        vstore_n(h + i, out, live); /* multiplied by tanh(c) after c was rounded */
    }
}

static void prepare_lstm(const bg_kernel_call *call)
{
    const bgi_recurrent r =
        bgi_recurrent_plan(&call->types[call->input_count], &call->types[1], call->attributes, false, LANES);

    lay_out_across(call, &r, call->operands[1]);
}

static void run_lstm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_recurrent r =
        bgi_recurrent_plan(&call->types[call->input_count], &call->types[1], call->attributes, false, LANES);
    const recurrent_part p = enter_part(call, &r, part);
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r.shape.width;

    read_states(&r, &p, call->operands[2], p.h);
    read_states(&r, &p, call->operands[3], p.c);
    for (int64_t step = 0; step < r.shape.steps; step++) {
        multiply_states(call, &r, &p, 4, r.columns);
        for (int64_t n = 0; n < p.count; n++) {
            const int64_t row = bgi_recurrent_row(&r.shape, step, p.first + n);
            float *h = p.h + n * r.width_floats, *c = p.c + n * r.width_floats;
            float *gates = begin_output(r.dtype, outputs[1], row * 4 * width, p.rows[4]);

            step_lstm_row(view_floats(r.dtype, call->operands[0], row * 4 * width, 4 * width, p.rows[0]),
                          p.gates + n * r.gates_floats, c, h, gates, width);
            end_output(r.dtype, outputs[1], row * 4 * width, 4 * width, gates);
            keep_state(&r, outputs[2], row, c);
            FOR_ROW(width, live)
            vstore_n(h + i, vload_n(h + i, live) * vtanh(vload_n(c + i, live)), live);
            keep_state(&r, outputs[0], row, h);
        }
    }
}

static void prepare_lstm_backward(const bg_kernel_call *call)
{
    const bgi_recurrent r = bgi_recurrent_plan(&call->types[3], &call->types[0], call->attributes, true, LANES);

    lay_out(call, &r, call->operands[0]);
}

/* Differentiates the cells of a row. On input, dh and dc are the gradients of the step's resulting state; on output, dc
 * is that of the state before the step, and d has the gradients of the gates' sums. */
static void differentiate_lstm_row(const float *gates, const float *c, const float *before, const float *dh, float *dc,
                                   float *d, int64_t width)
{
    const vf one = vset(1.0f);

    FOR_ROW(width, live)
    {
        const vf in = vload_n(gates + i, live), forget = vload_n(gates + width + i, live);
        const vf cell = vload_n(gates + 2 * width + i, live), out = vload_n(gates + 3 * width + i, live);
        const vf bent = vtanh(vload_n(c + i, live)), h = vload_n(dh + i, live);
        const vf now = vload_n(dc + i, live) + h * out * (one - bent * bent);

        vstore_n(d + i, now * cell * in * (one - in), live);
        vstore_n(d + width + i, now * vload_n(before + i, live) * forget * (one - forget), live);
        vstore_n(d + 2 * width + i, now * in * (one - cell * cell), live);
        vstore_n(d + 3 * width + i, h * bent * out * (one - out), live);
        vstore_n(dc + i, now * forget, live);
    }
}

/* Adds row `row` of `data` to `to`. */
static void add_row(const bgi_recurrent *r, const void *data, int64_t row, float *buffer, float *to)
{
    const float *from = view_floats(r->dtype, data, row * r->shape.width, r->shape.width, buffer);

    FOR_ROW(r->shape.width, live)
    vstore_n(to + i, vload_n(to + i, live) + vload_n(from + i, live), live);
}

/* Returns the state before a step: the previous state in `states`, or `first` before step 0. */
static const float *view_before(const bgi_recurrent *r, const void *states, const void *first, int64_t step,
                                int64_t sample, float *buffer)
{
    const int64_t width = r->shape.width;

    return step == 0
               ? view_floats(r->dtype, first, sample * width, width, buffer)
               : view_floats(r->dtype, states, bgi_recurrent_row(&r->shape, step - 1, sample) * width, width, buffer);
}

static void run_lstm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_recurrent r = bgi_recurrent_plan(&call->types[3], &call->types[0], call->attributes, true, LANES);
    const recurrent_part p = enter_part(call, &r, part);
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r.shape.width;

    memset(p.h, 0, (size_t)(2 * r.rows * r.width_floats) * sizeof(float)); /* and p.c */
    for (int64_t step = r.shape.steps - 1; step >= 0; step--) {
        for (int64_t n = 0; n < p.count; n++) {
            const int64_t row = bgi_recurrent_row(&r.shape, step, p.first + n);
            float *dh = p.h + n * r.width_floats, *dc = p.c + n * r.width_floats, *d = p.gates + n * r.gates_floats;

            add_row(&r, call->operands[6], row, p.rows[8], dh);
            if (bgi_cpu_has_input(call, 7))
                add_row(&r, call->operands[7], row, p.rows[8], dc);
            differentiate_lstm_row(view_floats(r.dtype, call->operands[4], row * 4 * width, 4 * width, p.rows[0]),
                                   view_floats(r.dtype, call->operands[5], row * width, width, p.rows[9]),
                                   view_before(&r, call->operands[5], call->operands[2], step, p.first + n, p.rows[10]),
                                   dh, dc, d, width);
            write_floats(r.dtype, outputs[0], row * 4 * width, 4 * width, d);
            memset(dh, 0, (size_t)width * sizeof *dh);
        }
        multiply_panels_of(call, &r, p.gates, r.gates_floats, p.h, r.width_floats, p.count);
    }
    write_states(&r, &p, outputs[1], p.h);
    write_states(&r, &p, outputs[2], p.c);
}

/* ---- GRU ---- */

static void step_gru_row(const float *x, const float *s, float *h, float *gates, int64_t width)
{
    FOR_ROW(width, live)
    {
        const vf hidden = vload_n(s + 2 * width + i, live);
        const vf reset = vsigmoid(vload_n(x + i, live) + vload_n(s + i, live));
        const vf update = vsigmoid(vload_n(x + width + i, live) + vload_n(s + width + i, live));
        const vf fresh = vtanh(vfma(reset, hidden, vload_n(x + 2 * width + i, live)));

        vstore_n(gates + i, reset, live);
        vstore_n(gates + width + i, update, live);
        vstore_n(gates + 2 * width + i, fresh, live);
        vstore_n(gates + 3 * width + i, hidden, live);
        vstore_n(h + i, vfma(update, vload_n(h + i, live), (vset(1.0f) - update) * fresh), live);
    }
}

/* Writes r and z in place of their sums, and the reset state r h to `left`. */
static void step_reset_row(const float *x, const float *h, float *gates, float *left, int64_t width)
{
    FOR_ROW(width, live)
    {
        const vf reset = vsigmoid(vload_n(x + i, live) + vload_n(gates + i, live));
        const vf update = vsigmoid(vload_n(x + width + i, live) + vload_n(gates + width + i, live));

        vstore_n(gates + i, reset, live);
        vstore_n(gates + width + i, update, live);
        vstore_n(left + i, reset * vload_n(h + i, live), live);
    }
}

/* Completes the step; `hidden` is the s of n. */
static void step_fresh_row(const float *x, const float *sums, const float *hidden, float *h, float *gates,
                           int64_t width)
{
    FOR_ROW(width, live)
    {
        const vf update = vload_n(sums + width + i, live), given = vload_n(hidden + i, live);
        const vf fresh = vtanh(vload_n(x + 2 * width + i, live) + given);

        vstore_n(gates + i, vload_n(sums + i, live), live);
        vstore_n(gates + width + i, update, live);
        vstore_n(gates + 2 * width + i, fresh, live);
        vstore_n(gates + 3 * width + i, given, live);
        vstore_n(h + i, vfma(update, vload_n(h + i, live), (vset(1.0f) - update) * fresh), live);
    }
}

/* Computes, in p->second, the products of a step with the reset states; only those for n are complete. */
static void multiply_reset(const bg_kernel_call *call, const bgi_recurrent *r, const recurrent_part *p)
{
    const int64_t width = r->shape.width;

    memset(p->second, 0, (size_t)(p->count * r->gates_floats) * sizeof(float));
    if (bgi_cpu_has_input(call, 3))
        for (int64_t n = 0; n < p->count; n++)
            read_floats(r->dtype, call->operands[3], 2 * width, width, p->second + n * r->gates_floats + 2 * width);
    multiply_range(call, r, (panel_range){2 * width, 3 * width, 0, width}, p->c, r->width_floats, p->second,
                   r->gates_floats, p->count);
}

static void run_reset_gru(const bg_kernel_call *call, const bgi_recurrent *r, const recurrent_part *p)
{
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r->shape.width;

    for (int64_t step = 0; step < r->shape.steps; step++) {
        multiply_states(call, r, p, 3, 2 * width);
        for (int64_t n = 0; n < p->count; n++) {
            const int64_t row = bgi_recurrent_row(&r->shape, step, p->first + n);

            step_reset_row(view_floats(r->dtype, call->operands[0], row * 3 * width, 3 * width, p->rows[0]),
                           p->h + n * r->width_floats, p->gates + n * r->gates_floats, p->c + n * r->width_floats,
                           width);
        }
        multiply_reset(call, r, p);
        for (int64_t n = 0; n < p->count; n++) {
            const int64_t row = bgi_recurrent_row(&r->shape, step, p->first + n);
            float *h = p->h + n * r->width_floats;
            float *gates = begin_output(r->dtype, outputs[1], row * 4 * width, p->rows[4]);

            step_fresh_row(view_floats(r->dtype, call->operands[0], row * 3 * width, 3 * width, p->rows[0]),
                           p->gates + n * r->gates_floats, p->second + n * r->gates_floats + 2 * width, h, gates,
                           width);
            end_output(r->dtype, outputs[1], row * 4 * width, 4 * width, gates);
            keep_state(r, outputs[0], row, h);
        }
    }
}

static void prepare_gru(const bg_kernel_call *call)
{
    prepare_lstm(call);
}

static void run_gru(const bg_kernel_call *call, uint32_t part)
{
    const bgi_recurrent r =
        bgi_recurrent_plan(&call->types[call->input_count], &call->types[1], call->attributes, false, LANES);
    const recurrent_part p = enter_part(call, &r, part);
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r.shape.width;

    read_states(&r, &p, call->operands[2], p.h);
    if (((const bgi_recurrent_attributes *)call->attributes)->reset_first) {
        run_reset_gru(call, &r, &p);
        return;
    }
    for (int64_t step = 0; step < r.shape.steps; step++) {
        multiply_states(call, &r, &p, 3, r.columns);
        for (int64_t n = 0; n < p.count; n++) {
            const int64_t row = bgi_recurrent_row(&r.shape, step, p.first + n);
            float *h = p.h + n * r.width_floats;
            float *gates = begin_output(r.dtype, outputs[1], row * 4 * width, p.rows[4]);

            step_gru_row(view_floats(r.dtype, call->operands[0], row * 3 * width, 3 * width, p.rows[0]),
                         p.gates + n * r.gates_floats, h, gates, width);
            end_output(r.dtype, outputs[1], row * 4 * width, 4 * width, gates);
            keep_state(&r, outputs[0], row, h);
        }
    }
}

static void prepare_gru_backward(const bg_kernel_call *call)
{
    const bgi_recurrent r = bgi_recurrent_plan(&call->types[2], &call->types[0], call->attributes, true, LANES);

    lay_out(call, &r, call->operands[0]);
}

/* Differentiates the cells of a row. On input, dh is the gradient of the step's resulting state; on output, it is dh z.
 * d has the gradients of the gates' sums, `hidden` those of s. */
static void differentiate_gru_row(const float *gates, const float *before, float *dh, float *d, float *hidden,
                                  int64_t width)
{
    const vf one = vset(1.0f);

    FOR_ROW(width, live)
    {
        const vf reset = vload_n(gates + i, live), update = vload_n(gates + width + i, live);
        const vf fresh = vload_n(gates + 2 * width + i, live), h = vload_n(dh + i, live);
        const vf dn = h * (one - update) * (one - fresh * fresh);
        const vf dz = h * (vload_n(before + i, live) - fresh) * update * (one - update);
        const vf dr = dn * vload_n(gates + 3 * width + i, live) * reset * (one - reset);

        vstore_n(d + i, dr, live);
        vstore_n(d + width + i, dz, live);
        vstore_n(d + 2 * width + i, dn, live);
        vstore_n(hidden + i, dr, live);
        vstore_n(hidden + width + i, dz, live);
        vstore_n(hidden + 2 * width + i, dn * reset, live);
        vstore_n(dh + i, h * update, live);
    }
}

/* Does the first half of a backward step with reset_first, which comes before the product with n's gradient: computes d
 * of z and n, and dh z in dh. */
static void differentiate_fresh_row(const float *gates, const float *before, float *dh, float *d, int64_t width)
{
    const vf one = vset(1.0f);

    FOR_ROW(width, live)
    {
        const vf update = vload_n(gates + width + i, live), fresh = vload_n(gates + 2 * width + i, live);
        const vf h = vload_n(dh + i, live);

        vstore_n(d + width + i, h * (vload_n(before + i, live) - fresh) * update * (one - update), live);
        vstore_n(d + 2 * width + i, h * (one - update) * (one - fresh * fresh), live);
        vstore_n(dh + i, h * update, live);
    }
}

/* Does the second half, after that product; `left` is the gradient of r h. */
static void differentiate_reset_row(const float *gates, const float *before, const float *left, float *dh, float *d,
                                    int64_t width)
{
    const vf one = vset(1.0f);

    FOR_ROW(width, live)
    {
        const vf reset = vload_n(gates + i, live), given = vload_n(left + i, live);

        vstore_n(d + i, given * vload_n(before + i, live) * reset * (one - reset), live);
        vstore_n(dh + i, vfma(given, reset, vload_n(dh + i, live)), live);
    }
}

static void run_reset_gru_backward(const bg_kernel_call *call, const bgi_recurrent *r, const recurrent_part *p)
{
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r->shape.width;

    for (int64_t step = r->shape.steps - 1; step >= 0; step--) {
        for (int64_t n = 0; n < p->count; n++) {
            const int64_t row = bgi_recurrent_row(&r->shape, step, p->first + n);
            float *dh = p->h + n * r->width_floats;

            add_row(r, call->operands[4], row, p->rows[8], dh);
            differentiate_fresh_row(
                view_floats(r->dtype, call->operands[3], row * 4 * width, 4 * width, p->rows[0]),
                view_before(r, call->operands[2], call->operands[1], step, p->first + n, p->rows[10]), dh,
                p->gates + n * r->gates_floats, width);
        }
        memset(p->c, 0, (size_t)(r->rows * r->width_floats) * sizeof(float));
        multiply_range(call, r, (panel_range){0, width, 2 * width, 3 * width}, p->gates, r->gates_floats, p->c,
                       r->width_floats, p->count);
        for (int64_t n = 0; n < p->count; n++) {
            const int64_t row = bgi_recurrent_row(&r->shape, step, p->first + n);
            float *d = p->gates + n * r->gates_floats;

            differentiate_reset_row(
                view_floats(r->dtype, call->operands[3], row * 4 * width, 4 * width, p->rows[0]),
                view_before(r, call->operands[2], call->operands[1], step, p->first + n, p->rows[10]),
                p->c + n * r->width_floats, p->h + n * r->width_floats, d, width);
            write_floats(r->dtype, outputs[0], row * 3 * width, 3 * width, d);
            write_floats(r->dtype, outputs[1], row * 3 * width, 3 * width, d);
        }
        multiply_range(call, r, (panel_range){0, width, 0, 2 * width}, p->gates, r->gates_floats, p->h, r->width_floats,
                       p->count);
    }
    write_states(r, p, outputs[2], p->h);
}

static void run_gru_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_recurrent r = bgi_recurrent_plan(&call->types[2], &call->types[0], call->attributes, true, LANES);
    const recurrent_part p = enter_part(call, &r, part);
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r.shape.width;

    memset(p.h, 0, (size_t)(r.rows * r.width_floats) * sizeof(float));
    if (((const bgi_recurrent_attributes *)call->attributes)->reset_first) {
        run_reset_gru_backward(call, &r, &p);
        return;
    }
    for (int64_t step = r.shape.steps - 1; step >= 0; step--) {
        for (int64_t n = 0; n < p.count; n++) {
            const int64_t row = bgi_recurrent_row(&r.shape, step, p.first + n);
            float *dh = p.h + n * r.width_floats, *hidden = p.gates + n * r.gates_floats;

            add_row(&r, call->operands[4], row, p.rows[8], dh);
            differentiate_gru_row(view_floats(r.dtype, call->operands[3], row * 4 * width, 4 * width, p.rows[0]),
                                  view_before(&r, call->operands[2], call->operands[1], step, p.first + n, p.rows[10]),
                                  dh, p.rows[4], hidden, width);
            write_floats(r.dtype, outputs[0], row * 3 * width, 3 * width, p.rows[4]);
            write_floats(r.dtype, outputs[1], row * 3 * width, 3 * width, hidden);
        }
        multiply_panels_of(call, &r, p.gates, r.gates_floats, p.h, r.width_floats, p.count);
    }
    write_states(&r, &p, outputs[2], p.h);
}

/* ---- RNN ---- */

/* As in elementwise functions, relu keeps NaN, and passes the gradient of NaN on. */
ALWAYS_INLINE vm is_relu_open(vf x)
{
    return vmask_or(vgreater(x, vset(0.0f)), vis_nan(x));
}

static void step_rnn_row(const float *x, const float *s, float *h, bool relu, int64_t width)
{
    FOR_ROW(width, live)
    {
        const vf sum = vload_n(x + i, live) + vload_n(s + i, live);

        vstore_n(h + i, relu ? vselect(is_relu_open(sum), sum, vset(0.0f)) : vtanh(sum), live);
    }
}

static void prepare_rnn(const bg_kernel_call *call)
{
    prepare_lstm(call);
}

static void run_rnn(const bg_kernel_call *call, uint32_t part)
{
    const bgi_recurrent_attributes *attributes = call->attributes;
    const bgi_recurrent r =
        bgi_recurrent_plan(&call->types[call->input_count], &call->types[1], attributes, false, LANES);
    const recurrent_part p = enter_part(call, &r, part);
    const int64_t width = r.shape.width;

    read_states(&r, &p, call->operands[2], p.h);
    for (int64_t step = 0; step < r.shape.steps; step++) {
        multiply_states(call, &r, &p, 3, r.columns);
        for (int64_t n = 0; n < p.count; n++) {
            const int64_t row = bgi_recurrent_row(&r.shape, step, p.first + n);
            float *h = p.h + n * r.width_floats;

            step_rnn_row(view_floats(r.dtype, call->operands[0], row * width, width, p.rows[0]),
                         p.gates + n * r.gates_floats, h, attributes->relu != 0, width);
            keep_state(&r, call->operands[call->input_count], row, h);
        }
    }
}

static void prepare_rnn_backward(const bg_kernel_call *call)
{
    prepare_gru_backward(call);
}

/* Differentiates the cells of a row; the derivatives of both functions are computed from their results. */
static void differentiate_rnn_row(const float *y, const float *dh, float *d, bool relu, int64_t width)
{
    const vf zero = vset(0.0f), one = vset(1.0f);

    FOR_ROW(width, live)
    {
        const vf value = vload_n(y + i, live), given = vload_n(dh + i, live);

        vstore_n(d + i, relu ? vselect(is_relu_open(value), given, zero) : given * (one - value * value), live);
    }
}

static void run_rnn_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_recurrent_attributes *attributes = call->attributes;
    const bgi_recurrent r = bgi_recurrent_plan(&call->types[2], &call->types[0], attributes, true, LANES);
    const recurrent_part p = enter_part(call, &r, part);
    void *const *outputs = call->operands + call->input_count;
    const int64_t width = r.shape.width;

    memset(p.h, 0, (size_t)(r.rows * r.width_floats) * sizeof(float));
    for (int64_t step = r.shape.steps - 1; step >= 0; step--) {
        for (int64_t n = 0; n < p.count; n++) {
            const int64_t row = bgi_recurrent_row(&r.shape, step, p.first + n);
            float *dh = p.h + n * r.width_floats, *d = p.gates + n * r.gates_floats;

            add_row(&r, call->operands[3], row, p.rows[8], dh);
            differentiate_rnn_row(view_floats(r.dtype, call->operands[2], row * width, width, p.rows[9]), dh, d,
                                  attributes->relu != 0, width);
            write_floats(r.dtype, outputs[0], row * width, width, d);
            memset(dh, 0, (size_t)width * sizeof *dh);
        }
        multiply_panels_of(call, &r, p.gates, r.gates_floats, p.h, r.width_floats, p.count);
    }
    write_states(&r, &p, outputs[1], p.h);
}

#endif
