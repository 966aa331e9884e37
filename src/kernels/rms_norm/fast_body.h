/*
 * fast_body.h: norms by the root of the mean square, row by row. Rows are read before they are written, so results may
 * overwrite an operand of their shape. dgamma is summed in parts, which are added in order.
 */
#ifndef BGI_KERNELS_RMS_NORM_FAST_BODY_H
#define BGI_KERNELS_RMS_NORM_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/rms_norm/attributes.h"

/* Normalizes the rows of a part. Scratch of a part: x (or y), gamma. */
static void run_rms_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rms_norm_attributes *attributes = call->attributes;
    const bgi_rows rows = bgi_rows_read(&call->types[0], 2);
    float *buffer = bgi_cpu_part_scratch(call, rows.part_floats);
    float *scales = call->operands[call->input_count + 1];
    void *y = call->operands[call->input_count];
    const float *gamma = NULL;

    if (bgi_cpu_has_input(call, 1))
        gamma = view_floats(rows.dtype, call->operands[1], 0, rows.length, buffer + rows.row_floats);
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;
        const float *x = view_floats(rows.dtype, call->operands[0], at, rows.length, buffer);
        float *out = begin_output(rows.dtype, y, at, buffer);
        vf squares = vset(0.0f), scale;

        FOR_ROW(rows.length, live)
        squares = vfma(vload_n(x + i, live), vload_n(x + i, live), squares);
        scales[row] = (float)(1.0 / sqrt((double)vsum(squares) / (double)rows.length + attributes->epsilon));
        scale = vset(scales[row]);
        FOR_ROW(rows.length, live)
        {
            const vf value = vload_n(x + i, live) * scale;
            vstore_n(out + i, gamma ? value * vload_n(gamma + i, live) : value, live);
        }
        end_output(rows.dtype, y, at, rows.length, buffer);
    }
}

/* Computes dx of one row, and dgamma += dy x s when it is requested. */
static void differentiate_rms_row(const float *dy, const float *x, float s, const float *gamma, float *dgamma,
                                  float *dx, int64_t count)
{
    const vf scale = vset(s);
    vf products = vset(0.0f), mean;

    FOR_ROW(count, live)
    {
        const vf d = vload_n(dy + i, live), normed = vload_n(x + i, live) * scale;

        products = vfma(gamma ? d * vload_n(gamma + i, live) : d, normed, products);
        if (dgamma)
            vstore_n(dgamma + i, vfma(d, normed, vload_n(dgamma + i, live)), live);
    }
    mean = vset(vsum(products) / (float)count);
    FOR_ROW(count, live)
    {
        const vf d = vload_n(dy + i, live), normed = vload_n(x + i, live) * scale;

        vstore_n(dx + i, scale * ((gamma ? d * vload_n(gamma + i, live) : d) - normed * mean), live);
    }
}

/* Computes the gradients of the rows of a part. Scratch of a part: dgamma, gamma, dy, x, dx. */
static void run_rms_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rows rows = bgi_rows_read(&call->types[1], 5);
    float *dgamma = find_rows_scratch(call, &rows, part), *buffer = dgamma + rows.row_floats;
    const float *scales = call->operands[2], *gamma = NULL;
    void *dx = call->operands[call->input_count];

    memset(dgamma, 0, (size_t)rows.row_floats * sizeof *dgamma);
    if (bgi_cpu_has_input(call, 3))
        gamma = view_floats(rows.dtype, call->operands[3], 0, rows.length, buffer);
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;
        float *out = buffer + 3 * rows.row_floats;

        differentiate_rms_row(view_floats(rows.dtype, call->operands[0], at, rows.length, buffer + rows.row_floats),
                              view_floats(rows.dtype, call->operands[1], at, rows.length, buffer + 2 * rows.row_floats),
                              scales[row], gamma, bgi_cpu_has_output(call, 1) ? dgamma : NULL,
                              begin_output(rows.dtype, dx, at, out), rows.length);
        end_output(rows.dtype, dx, at, rows.length, out);
    }
}

static void finish_rms_norm_backward(const bg_kernel_call *call)
{
    const bgi_rows rows = bgi_rows_read(&call->types[1], 5);
    float *sums = find_rows_scratch(call, &rows, 0);

    if (!bgi_cpu_has_output(call, 1))
        return;
    for (uint32_t part = 1; part < rows.parts; part++)
        add_loop(sums, find_rows_scratch(call, &rows, part), sums, rows.length);
    write_floats(rows.dtype, call->operands[call->input_count + 1], 0, rows.length, sums);
}

#endif
