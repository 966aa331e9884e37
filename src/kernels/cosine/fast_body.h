/*
 * fast_body.h: the cosine between vectors. The elements of a vector are adjacent, or interleaved with those of
 * neighboring vectors; in the second case a block of neighbors is summed together.
 */
#ifndef BGI_KERNELS_COSINE_FAST_BODY_H
#define BGI_KERNELS_COSINE_FAST_BODY_H

#include "kernels/cosine/fast.h"
#include "kernels/cpu/rows_body.h"
#include "kernels/elementwise/fast_body.h"

/* Computes the sums of a b, a a and b b over adjacent elements. */
static void sum_cosine_row(bg_dtype dtype, const void *a, const void *b, int64_t at, int64_t count, float sums[3])
{
    float in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK];
    vf products[2] = {vset(0.0f), vset(0.0f)}, a_squares[2] = {vset(0.0f), vset(0.0f)};
    vf b_squares[2] = {vset(0.0f), vset(0.0f)};

    for (int64_t done = 0; done < count; done += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(count - done, BGI_ELEMENTWISE_CHUNK);
        const float *x = view_floats(dtype, a, at + done, chunk, in_a),
                    *y = view_floats(dtype, b, at + done, chunk, in_b);
        int64_t i = 0;

        for (; i + 2 * LANES <= chunk; i += 2 * LANES) {
            UNROLL
            for (int u = 0; u < 2; u++) {
                const vf p = vload(x + i + u * LANES), q = vload(y + i + u * LANES);

                products[u] = vfma(p, q, products[u]);
                a_squares[u] = vfma(p, p, a_squares[u]);
                b_squares[u] = vfma(q, q, b_squares[u]);
            }
        }
        for (; i < chunk; i += LANES) {
            const int64_t live = clip(chunk - i, LANES);
            const vf p = vload_n(x + i, live), q = vload_n(y + i, live);

            products[0] = vfma(p, q, products[0]);
            a_squares[0] = vfma(p, p, a_squares[0]);
            b_squares[0] = vfma(q, q, b_squares[0]);
        }
    }
    sums[0] = vsum(products[0] + products[1]);
    sums[1] = vsum(a_squares[0] + a_squares[1]);
    sums[2] = vsum(b_squares[0] + b_squares[1]);
}

static void store_cosine(const bg_kernel_call *call, int64_t row, float product, float a_square, float b_square)
{
    const double epsilon = ((const bgi_cosine_attributes *)call->attributes)->epsilon;
    const float squares[2] = {a_square, b_square}, least = (float)(epsilon * epsilon);
    float inverse[2];

    for (int i = 0; i < 2; i++) {
        inverse[i] = squares[i] < least ? -1.0f / sqrtf(least) : 1.0f / sqrtf(squares[i]);
        ((float *)call->operands[3 + i])[row] = inverse[i];
    }
    ((float *)call->operands[2])[row] = product * fabsf(inverse[0]) * fabsf(inverse[1]);
}

/* Computes the cosines of a block of `count` interleaved vectors from vector `row` on, whose first element is at
 * `at`. */
static void cosine_block(const bg_kernel_call *call, const bgi_axis_view *view, int64_t row, int64_t at, int64_t count)
{
    const bg_dtype dtype = call->types[0].dtype;
    float in_a[BGI_COSINE_BLOCK], in_b[BGI_COSINE_BLOCK];
    float products[BGI_COSINE_BLOCK] = {0}, a_squares[BGI_COSINE_BLOCK] = {0}, b_squares[BGI_COSINE_BLOCK] = {0};

    for (int64_t k = 0; k < view->size; k++) {
        const float *a = view_floats(dtype, call->operands[0], at + k * view->inner, count, in_a);
        const float *b = view_floats(dtype, call->operands[1], at + k * view->inner, count, in_b);

        FOR_ROW(count, live)
        {
            const vf p = vload_n(a + i, live), q = vload_n(b + i, live);

            vstore(products + i, vfma(p, q, vload(products + i)));
            vstore(a_squares + i, vfma(p, p, vload(a_squares + i)));
            vstore(b_squares + i, vfma(q, q, vload(b_squares + i)));
        }
    }
    for (int64_t i = 0; i < count; i++)
        store_cosine(call, row + i, products[i], a_squares[i], b_squares[i]);
}

static void run_cosine(const bg_kernel_call *call, uint32_t part)
{
    const bgi_cosines c = bgi_cosines_read(&call->types[0], call->attributes);
    const int64_t end = bgi_cpu_part_start(c.units, part + 1, c.parts);

    for (int64_t unit = bgi_cpu_part_start(c.units, part, c.parts); unit < end; unit++) {
        const int64_t outer = unit / c.blocks, column = unit % c.blocks * BGI_COSINE_BLOCK;
        const int64_t at = outer * c.view.size * c.view.inner + column;

        if (c.view.inner == 1) {
            float sums[3];

            sum_cosine_row(call->types[0].dtype, call->operands[0], call->operands[1], at, c.view.size, sums);
            store_cosine(call, outer, sums[0], sums[1], sums[2]);
        } else {
            cosine_block(call, &c.view, outer * c.view.inner + column, at,
                         clip(c.view.inner - column, BGI_COSINE_BLOCK));
        }
    }
}

/* The factors of the gradients da and db: `scale` of the other vector, slopes[0] of a in da, slopes[1] of b in db. */
typedef struct cosine_factors {
    float scale, slopes[2];
} cosine_factors;

static cosine_factors find_factors(const bg_kernel_call *call, int64_t row)
{
    const float dy = ((const float *)call->operands[0])[row], y = ((const float *)call->operands[3])[row];
    cosine_factors f = {.scale = dy};

    for (int i = 0; i < 2; i++) {
        const float inverse = ((const float *)call->operands[4 + i])[row];

        f.scale *= fabsf(inverse);
        f.slopes[i] = inverse < 0.0f ? 0.0f : dy * y * inverse * inverse;
    }
    return f;
}

/* Computes dx = scale other - slope x, for adjacent elements. */
static void spread_cosine(const float *x, const float *other, vf scale, vf slope, float *y, int64_t count)
{
    FOR_VECTORS(vfma(scale, vload(other + i), -(slope * vload(x + i))),
                vfma(scale, vload_n(other + i, count - i), -(slope * vload_n(x + i, count - i))));
}

static void spread_cosine_row(const bg_kernel_call *call, int64_t row, int64_t first, int64_t size)
{
    const bg_dtype dtype = call->types[1].dtype;
    const cosine_factors f = find_factors(call, row);
    float in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t at = first; at < first + size; at += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(first + size - at, BGI_ELEMENTWISE_CHUNK);
        const float *a = view_floats(dtype, call->operands[1], at, chunk, in_a);
        const float *b = view_floats(dtype, call->operands[2], at, chunk, in_b);

        for (int i = 0; i < 2; i++) {
            spread_cosine(i == 0 ? a : b, i == 0 ? b : a, vset(f.scale), vset(f.slopes[i]),
                          begin_output(dtype, call->operands[6 + i], at, out), chunk);
            end_output(dtype, call->operands[6 + i], at, chunk, out);
        }
    }
}

static void spread_cosine_block(const bg_kernel_call *call, const bgi_axis_view *view, int64_t row, int64_t first,
                                int64_t count)
{
    const bg_dtype dtype = call->types[1].dtype;
    float in_a[BGI_COSINE_BLOCK], in_b[BGI_COSINE_BLOCK], out[BGI_COSINE_BLOCK];
    float scales[BGI_COSINE_BLOCK], slopes[2][BGI_COSINE_BLOCK];

    for (int64_t i = 0; i < count; i++) {
        const cosine_factors f = find_factors(call, row + i);

        scales[i] = f.scale;
        slopes[0][i] = f.slopes[0];
        slopes[1][i] = f.slopes[1];
    }
    for (int64_t k = 0; k < view->size; k++) {
        const int64_t at = first + k * view->inner;
        const float *a = view_floats(dtype, call->operands[1], at, count, in_a);
        const float *b = view_floats(dtype, call->operands[2], at, count, in_b);

        for (int which = 0; which < 2; which++) {
            const float *x = which == 0 ? a : b, *other = which == 0 ? b : a;
            float *to = begin_output(dtype, call->operands[6 + which], at, out);

            FOR_ROW(count, live)
            vstore_n(to + i,
                     vfma(vload_n(scales + i, live), vload_n(other + i, live),
                          -(vload_n(slopes[which] + i, live) * vload_n(x + i, live))),
                     live);
            end_output(dtype, call->operands[6 + which], at, count, out);
        }
    }
}

static void run_cosine_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_cosines c = bgi_cosines_read(&call->types[1], call->attributes);
    const int64_t end = bgi_cpu_part_start(c.units, part + 1, c.parts);

    for (int64_t unit = bgi_cpu_part_start(c.units, part, c.parts); unit < end; unit++) {
        const int64_t outer = unit / c.blocks, column = unit % c.blocks * BGI_COSINE_BLOCK;
        const int64_t at = outer * c.view.size * c.view.inner + column;

        if (c.view.inner == 1)
            spread_cosine_row(call, outer, at, c.view.size);
        else
            spread_cosine_block(call, &c.view, outer * c.view.inner + column, at,
                                clip(c.view.inner - column, BGI_COSINE_BLOCK));
    }
}

#endif
