/*
 * fast_body.h: layer norm, also of sharded rows. batch_body.h has batch norm, and group_body.h group norm. Rows are
 * read before they are written, so results may overwrite an operand of their shape.
 */
#ifndef BGI_KERNELS_NORM_FAST_BODY_H
#define BGI_KERNELS_NORM_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/norm/attributes.h"
#include "kernels/norm/batch_body.h"

/* Computes mean and rstd of a row: first the mean, then squared differences from it, which avoids cancellation. */
static void measure_row(const float *x, int64_t count, double epsilon, float *out_mean, float *out_rstd)
{
    vf sum = vset(0.0f), squares = vset(0.0f), mean;

    FOR_ROW(count, live)
    sum += vload_n(x + i, live);
    *out_mean = vsum(sum) / (float)count;
    mean = vset(*out_mean);
    FOR_ROW(count, live)
    {
        float lane[LANES] = {0};

        vstore_n(lane, vload_n(x + i, live) - mean, live);
        squares = vfma(vload(lane), vload(lane), squares);
    }
    *out_rstd = (float)(1.0 / sqrt((double)vsum(squares) / (double)count + epsilon));
}

static void normalize_row(const float *x, float mean, float rstd, const float *gamma, const float *beta, float *y,
                          int64_t count)
{
    FOR_ROW(count, live)
    {
        vf value = (vload_n(x + i, live) - vset(mean)) * vset(rstd);

        if (gamma)
            value = vfma(value, vload_n(gamma + i, live), vload_n(beta + i, live));
        vstore_n(y + i, value, live);
    }
}

static void run_layer_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_norm_attributes *attributes = call->attributes;
    const bgi_rows rows = bgi_rows_read(&call->types[0], 3);
    const bool is_affine = bgi_cpu_has_input(call, 1);
    void *y = call->operands[call->input_count];
    float *means = call->operands[call->input_count + 1], *rstds = call->operands[call->input_count + 2];
    float *buffer = bgi_cpu_part_scratch(call, rows.part_floats);
    const float *gamma = NULL, *beta = NULL;

    if (is_affine) {
        gamma = view_floats(rows.dtype, call->operands[1], 0, rows.length, buffer + rows.row_floats);
        beta = view_floats(rows.dtype, call->operands[2], 0, rows.length, buffer + 2 * rows.row_floats);
    }
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;
        const float *x = view_floats(rows.dtype, call->operands[0], at, rows.length, buffer);

        measure_row(x, rows.length, attributes->epsilon, &means[row], &rstds[row]);
        normalize_row(x, means[row], rstds[row], gamma, beta, begin_output(rows.dtype, y, at, buffer), rows.length);
        end_output(rows.dtype, y, at, rows.length, buffer);
    }
}

/* Computes the sums of g and g xhat over a row, with xhat = (x - mean) rstd and g = dy gamma; also computes dgamma +=
 * dy xhat and dbeta += dy when they are requested. */
static void sum_gradient_row(const float *dy, const float *x, float mean, float rstd, const float *gamma, float *dgamma,
                             float *dbeta, int64_t count, float sums[2])
{
    vf sum = vset(0.0f), products = vset(0.0f);

    FOR_ROW(count, live)
    {
        const vf d = vload_n(dy + i, live), xhat = (vload_n(x + i, live) - vset(mean)) * vset(rstd);
        const vf g = gamma ? d * vload_n(gamma + i, live) : d;

        sum += g;
        products = vfma(g, xhat, products);
        if (dgamma) {
            vstore_n(dgamma + i, vfma(d, xhat, vload_n(dgamma + i, live)), live);
            vstore_n(dbeta + i, d + vload_n(dbeta + i, live), live);
        }
    }
    sums[0] = vsum(sum);
    sums[1] = vsum(products);
}

/* Computes dx = rstd (g - mean(g) - xhat mean(g xhat)). */
static void denormalize_row(const float *dy, const float *x, float mean, float rstd, const float *gamma,
                            const float means[2], float *dx, int64_t count)
{
    FOR_ROW(count, live)
    {
        const vf d = vload_n(dy + i, live), xhat = (vload_n(x + i, live) - vset(mean)) * vset(rstd);
        const vf g = gamma ? d * vload_n(gamma + i, live) : d;

        vstore_n(dx + i, vset(rstd) * (g - vset(means[0]) - xhat * vset(means[1])), live);
    }
}

/* Computes the gradients of the rows of a part. Scratch of a part: dgamma, dbeta, gamma, dy, x, dx. `totals` has sums
 * of g and g xhat over whole rows of `width`, if these rows are sharded; NULL: the rows are whole. */
ALWAYS_INLINE void run_norm_backward(const bg_kernel_call *call, uint32_t part, const double *totals, int64_t width)
{
    const bgi_rows rows = bgi_rows_read(&call->types[1], 6);
    const bool wants_affine = bgi_cpu_has_output(call, 1);
    const float *means = call->operands[2], *rstds = call->operands[3];
    float *sums = find_rows_scratch(call, &rows, part), *buffer = sums + 2 * rows.row_floats;
    void *dx = call->operands[call->input_count];
    const float *gamma = NULL;

    memset(sums, 0, (size_t)(2 * rows.row_floats) * sizeof(float));
    if (bgi_cpu_has_input(call, 4))
        gamma = view_floats(rows.dtype, call->operands[4], 0, rows.length, buffer);
    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;
        const float *dy = view_floats(rows.dtype, call->operands[0], at, rows.length, buffer + rows.row_floats);
        const float *x = view_floats(rows.dtype, call->operands[1], at, rows.length, buffer + 2 * rows.row_floats);
        float *out = buffer + 3 * rows.row_floats, average[2];

        sum_gradient_row(dy, x, means[row], rstds[row], gamma, wants_affine ? sums : NULL, sums + rows.row_floats,
                         rows.length, average);
        for (int64_t i = 0; i < 2; i++)
            average[i] = totals ? (float)(totals[2 * row + i] / (double)width) : average[i] / (float)rows.length;
        denormalize_row(dy, x, means[row], rstds[row], gamma, average, begin_output(rows.dtype, dx, at, out),
                        rows.length);
        end_output(rows.dtype, dx, at, rows.length, out);
    }
}

static void run_layer_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    run_norm_backward(call, part, NULL, 0);
}

/* Computes dgamma and dbeta; parts are added in order. SHARDED_NORM_BACKWARD uses this function too. */
static void finish_layer_norm_backward(const bg_kernel_call *call)
{
    const bgi_rows rows = bgi_rows_read(&call->types[1], 6);
    float *sums = find_rows_scratch(call, &rows, 0);

    if (!bgi_cpu_has_output(call, 1))
        return;
    for (uint32_t part = 1; part < rows.parts; part++)
        add_loop(sums, find_rows_scratch(call, &rows, part), sums, 2 * rows.row_floats);
    write_floats(rows.dtype, call->operands[call->input_count + 1], 0, rows.length, sums);
    write_floats(rows.dtype, call->operands[call->input_count + 2], 0, rows.length, sums + rows.row_floats);
}

/* ---- layer norm of sharded rows ---- */

enum { NORM_CHAINS = 8 }; /* sums of doubles; each covers every eighth element */

/* Sums x and x^2 in double as in the reference, because the variance is the difference of two such sums. */
static void run_norm_sums(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rows rows = bgi_rows_read(&call->types[0], 1);
    float *buffer = bgi_cpu_part_scratch(call, rows.part_floats);
    double *sums = call->operands[1];

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const float *x = view_floats(rows.dtype, call->operands[0], row * rows.length, rows.length, buffer);
        double sum[NORM_CHAINS] = {0.0}, squares[NORM_CHAINS] = {0.0};
        int64_t i = 0;

        for (; i + NORM_CHAINS <= rows.length; i += NORM_CHAINS)
            for (int c = 0; c < NORM_CHAINS; c++) {
                sum[c] += (double)x[i + c];
                squares[c] += (double)x[i + c] * (double)x[i + c];
            }
        for (; i < rows.length; i++) {
            sum[i % NORM_CHAINS] += (double)x[i];
            squares[i % NORM_CHAINS] += (double)x[i] * (double)x[i];
        }
        for (int c = 1; c < NORM_CHAINS; c++) {
            sum[0] += sum[c];
            squares[0] += squares[c];
        }
        sums[2 * row] = sum[0];
        sums[2 * row + 1] = squares[0];
    }
}

static void run_sharded_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sharded_norm_attributes *attributes = call->attributes;
    const bgi_rows rows = bgi_rows_read(&call->types[0], 3);
    const double *sums = call->operands[3], width = (double)attributes->width;
    float *buffer = bgi_cpu_part_scratch(call, rows.part_floats);
    const float *gamma = view_floats(rows.dtype, call->operands[1], 0, rows.length, buffer + rows.row_floats);
    const float *beta = view_floats(rows.dtype, call->operands[2], 0, rows.length, buffer + 2 * rows.row_floats);
    float *means = call->operands[5], *rstds = call->operands[6];

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;
        const double mean = sums[2 * row] / width, variance = sums[2 * row + 1] / width - mean * mean;

        means[row] = (float)mean;
        rstds[row] = (float)(1.0 / sqrt(fmax(variance, 0.0) + attributes->epsilon));
        normalize_row(view_floats(rows.dtype, call->operands[0], at, rows.length, buffer), means[row], rstds[row],
                      gamma, beta, begin_output(rows.dtype, call->operands[4], at, buffer), rows.length);
        end_output(rows.dtype, call->operands[4], at, rows.length, buffer);
    }
}

static void run_norm_gradient_sums(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rows rows = bgi_rows_read(&call->types[1], 3);
    const float *means = call->operands[2], *rstds = call->operands[3];
    float *buffer = bgi_cpu_part_scratch(call, rows.part_floats);
    const float *gamma = view_floats(rows.dtype, call->operands[4], 0, rows.length, buffer + 2 * rows.row_floats);
    double *totals = call->operands[5];

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const int64_t at = row * rows.length;
        const float *dy = view_floats(rows.dtype, call->operands[0], at, rows.length, buffer);
        const float *x = view_floats(rows.dtype, call->operands[1], at, rows.length, buffer + rows.row_floats);
        float sums[2];

        sum_gradient_row(dy, x, means[row], rstds[row], gamma, NULL, NULL, rows.length, sums);
        totals[2 * row] = (double)sums[0];
        totals[2 * row + 1] = (double)sums[1];
    }
}

static void run_sharded_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sharded_norm_attributes *attributes = call->attributes;

    run_norm_backward(call, part, call->operands[5], attributes->width);
}

#include "kernels/norm/group_body.h"

#endif
