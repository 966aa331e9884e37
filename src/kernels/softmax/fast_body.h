/*
 * fast_body.h: softmax and its logarithm along rows, and their gradients. Rows are read before they are written, so
 * results may overwrite an operand of their shape.
 */
#ifndef BGI_KERNELS_SOFTMAX_FAST_BODY_H
#define BGI_KERNELS_SOFTMAX_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/loss/fast_body.h"

/* Computes y = e^(x - maximum); returns the sum. */
static float exponentiate_row(const float *x, float maximum, float *y, int64_t count)
{
    vf sum = vset(0.0f);

    FOR_ROW(count, live)
    {
        vstore_n(y + i, vexp(vload_n(x + i, live) - vset(maximum)), live);
        sum += vload_n(y + i, live);
    }
    return vsum(sum);
}

static void softmax_row(const float *x, float *y, int64_t count)
{
    const float sum = exponentiate_row(x, find_row_maximum(x, count), y, count);

    FOR_ROW(count, live)
    vstore_n(y + i, vload_n(y + i, live) / vset(sum), live);
}

static void log_softmax_row(const float *x, float *y, int64_t count)
{
    const float maximum = find_row_maximum(x, count);
    vf sum = vset(0.0f), shift;

    FOR_ROW(count, live)
    {
        float lane[LANES] = {0};

        vstore_n(lane, vexp(vload_n(x + i, live) - vset(maximum)), live);
        sum += vload(lane);
    }
    shift = vset((float)log((double)vsum(sum)));
    FOR_ROW(count, live)
    vstore_n(y + i, vload_n(x + i, live) - vset(maximum) - shift, live);
}

static void softmax_backward_row(const float *dy, const float *y, float *dx, int64_t count)
{
    vf sum = vset(0.0f);

    FOR_ROW(count, live)
    sum = vfma(vload_n(dy + i, live), vload_n(y + i, live), sum);
    sum = vset(vsum(sum));
    FOR_ROW(count, live)
    vstore_n(dx + i, vload_n(y + i, live) * (vload_n(dy + i, live) - sum), live);
}

static void log_softmax_backward_row(const float *dy, const float *y, float *dx, int64_t count)
{
    vf sum = vset(0.0f);

    FOR_ROW(count, live)
    sum += vload_n(dy + i, live);
    sum = vset(vsum(sum));
    FOR_ROW(count, live)
    vstore_n(dx + i, vload_n(dy + i, live) - vexp(vload_n(y + i, live)) * sum, live);
}

ALWAYS_INLINE void run_softmax_rows(const bg_kernel_call *call, uint32_t part,
                                    void (*row_function)(const float *x, float *y, int64_t count))
{
    const bgi_rows rows = bgi_rows_read(&call->types[0], 2);
    float *in = bgi_cpu_part_scratch(call, rows.part_floats), *out = in + rows.row_floats;

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;

        row_function(view_floats(rows.dtype, call->operands[0], at, rows.length, in),
                     begin_output(rows.dtype, call->operands[1], at, out), rows.length);
        end_output(rows.dtype, call->operands[1], at, rows.length, out);
    }
}

ALWAYS_INLINE void run_softmax_rows_backward(const bg_kernel_call *call, uint32_t part,
                                             void (*row_function)(const float *dy, const float *y, float *dx,
                                                                  int64_t count))
{
    const bgi_rows rows = bgi_rows_read(&call->types[0], 2);
    float *dy = bgi_cpu_part_scratch(call, rows.part_floats), *y = dy + rows.row_floats;

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;

        row_function(view_floats(rows.dtype, call->operands[0], at, rows.length, dy),
                     view_floats(rows.dtype, call->operands[1], at, rows.length, y),
                     begin_output(rows.dtype, call->operands[2], at, dy), rows.length);
        end_output(rows.dtype, call->operands[2], at, rows.length, dy);
    }
}

static void run_softmax(const bg_kernel_call *call, uint32_t part)
{
    run_softmax_rows(call, part, softmax_row);
}

static void run_log_softmax(const bg_kernel_call *call, uint32_t part)
{
    run_softmax_rows(call, part, log_softmax_row);
}

static void run_softmax_backward(const bg_kernel_call *call, uint32_t part)
{
    run_softmax_rows_backward(call, part, softmax_backward_row);
}

static void run_log_softmax_backward(const bg_kernel_call *call, uint32_t part)
{
    run_softmax_rows_backward(call, part, log_softmax_backward_row);
}

#endif
