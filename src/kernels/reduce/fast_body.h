/*
 * fast_body.h: reductions over one or two groups of adjacent dims, and broadcasts.
 */
#ifndef BGI_KERNELS_REDUCE_FAST_BODY_H
#define BGI_KERNELS_REDUCE_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/reduce/attributes.h"
#include "kernels/reduce/fast.h"

static float larger_of(float a, float b)
{
    return a == a && !(b <= a) ? b : a; /* NaN wins */
}

/* Sums a few rows in registers, in the order of reduce_run. */
static void add_few_rows(const float *x, int64_t rows, int64_t stride, int64_t count, float *y)
{
    int64_t i = 0;

    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        vf a = vload(x + i), b = vload(x + i + LANES);

        for (int64_t row = 1; row < rows; row++) {
            a += vload(x + row * stride + i);
            b += vload(x + row * stride + i + LANES);
        }
        vstore(y + i, a);
        vstore(y + i + LANES, b);
    }
    for (; i < count; i += LANES) {
        const int64_t live = clip(count - i, LANES);
        vf sum = vload_n(x + i, live);

        for (int64_t row = 1; row < rows; row++)
            sum += vload_n(x + row * stride + i, live);
        vstore_n(y + i, sum, live);
    }
}

/* Computes one run of inner elements: the sum, or the maximum, over `rows` rows at a distance of `stride`. */
static void reduce_run(bool is_max, bg_dtype dtype, const void *x, int64_t at, int64_t rows, int64_t stride,
                       int64_t count, float *y)
{
    float buffer[BGI_REDUCE_RUN];

    if (dtype == BG_FLOAT32 && rows <= BGI_REDUCE_FEW && !is_max) {
        add_few_rows((const float *)x + at, rows, stride, count, y);
        return;
    }
    read_floats(dtype, x, at, count, y);
    for (int64_t row = 1; row < rows; row++) {
        const float *from = view_floats(dtype, x, at + row * stride, count, buffer);

        FOR_ROW(count, live)
        {
            const vf a = vload_n(y + i, live), b = vload_n(from + i, live);

            vstore_n(y + i, is_max ? vselect(vwins(b, a), b, a) : a + b, live);
        }
    }
}

/* Computes the sum, in four vectors, or the maximum of adjacent elements. */
static float reduce_row(bool is_max, bg_dtype dtype, const void *x, int64_t at, int64_t count)
{
    float buffer[BGI_ELEMENTWISE_CHUNK], maximum = -INFINITY;
    vf sum[4] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)};

    for (int64_t done = 0; done < count; done += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(count - done, BGI_ELEMENTWISE_CHUNK);
        const float *from = view_floats(dtype, x, at + done, chunk, buffer);
        int64_t i = 0;

        if (is_max) {
            maximum = larger_of(maximum, find_row_maximum(from, chunk));
            continue;
        }
        for (; i + 4 * LANES <= chunk; i += 4 * LANES) {
            UNROLL
            for (int v = 0; v < 4; v++)
                sum[v] += vload(from + i + v * LANES);
        }
        for (; i < chunk; i += LANES)
            sum[0] += vload_n(from + i, clip(chunk - i, LANES));
    }
    return is_max ? maximum : vsum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Computes the results of run `run` from the rows of a piece, and combines those for each index of `again` in order;
 * returns the number of results. */
static int64_t reduce_piece(const bg_kernel_call *call, const bgi_reduction *r, bool is_max, int64_t result,
                            int64_t run, int64_t piece, float *y)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t row = r->reduced * piece / r->pieces, rows = r->reduced * (piece + 1) / r->pieces - row;
    const int64_t first = run * r->run, count = clip(r->inner - first, r->run);
    float more[BGI_REDUCE_RUN];

    for (int64_t again = 0; again < r->again; again++) {
        const int64_t at = bgi_reduction_start(r, result, again) + row * r->inner + first;
        float *to = again == 0 ? y : more;

        if (r->inner == 1)
            to[0] = reduce_row(is_max, dtype, call->operands[0], at, rows);
        else
            reduce_run(is_max, dtype, call->operands[0], at, rows, r->inner, count, to);
        for (int64_t i = 0; again > 0 && i < count; i++)
            y[i] = is_max ? larger_of(y[i], more[i]) : y[i] + more[i];
    }
    return count;
}

static void write_results(const bg_kernel_call *call, const bgi_reduction *r, int64_t result, int64_t run,
                          int64_t count, float *y)
{
    const bgi_reduce_attributes *attributes = call->attributes;

    for (int64_t i = 0; attributes->function == BG_REDUCE_MEAN && i < count; i++)
        y[i] /= (float)(r->reduced * r->again);
    write_floats(call->types[0].dtype, call->operands[1], result * r->inner + run * r->run, count, y);
}

static void run_reduce(const bg_kernel_call *call, uint32_t part)
{
    const bgi_reduce_attributes *attributes = call->attributes;
    const bool is_max = attributes->function == BG_REDUCE_MAX;
    bgi_reduction r = {0};
    float y[BGI_REDUCE_RUN];

    bgi_reduction_make(&call->types[0], attributes->axes, &r);
    for (int64_t item = bgi_cpu_part_start(r.results * r.runs * r.pieces, part, r.parts);
         item < bgi_cpu_part_start(r.results * r.runs * r.pieces, part + 1, r.parts); item++) {
        const int64_t whole = item / r.pieces, result = whole / r.runs, run = whole % r.runs;

        if (r.pieces > 1)
            reduce_piece(call, &r, is_max, result, run, item % r.pieces, (float *)call->scratch + item * r.run);
        else if (call->types[0].dtype == BG_FLOAT32 && attributes->function == BG_REDUCE_SUM)
            reduce_piece(call, &r, is_max, result, run, 0, (float *)call->operands[1] + result * r.inner + run * r.run);
        else
            write_results(call, &r, result, run, reduce_piece(call, &r, is_max, result, run, 0, y), y);
    }
}

/* Combines the results of the pieces; does nothing if there is only one piece. */
static void finish_reduce(const bg_kernel_call *call)
{
    const bgi_reduce_attributes *attributes = call->attributes;
    const bool is_max = attributes->function == BG_REDUCE_MAX;
    bgi_reduction r = {0};

    bgi_reduction_make(&call->types[0], attributes->axes, &r);
    for (int64_t whole = 0; r.pieces > 1 && whole < r.results * r.runs; whole++) {
        float *y = (float *)call->scratch + whole * r.pieces * r.run;
        const int64_t run = whole % r.runs, count = clip(r.inner - run * r.run, r.run);

        for (int64_t piece = 1; piece < r.pieces; piece++)
            for (int64_t i = 0; i < count; i++)
                y[i] = is_max ? larger_of(y[i], y[piece * r.run + i]) : y[i] + y[piece * r.run + i];
        write_results(call, &r, whole / r.runs, run, count, y);
    }
}

/* Computes dx of one run: dy at the first row whose element equals y (or is NaN if y is NaN), 0 elsewhere. */
static void spread_largest(const bg_kernel_call *call, const bgi_reduction *r, int64_t outer, int64_t first,
                           int64_t count)
{
    const bg_dtype dtype = call->types[1].dtype;
    float in_dy[BGI_REDUCE_RUN], in_x[BGI_REDUCE_RUN], out[BGI_REDUCE_RUN];
    const float *dy = view_floats(dtype, call->operands[0], outer * r->inner + first, count, in_dy);
    float largest[BGI_REDUCE_RUN];
    int32_t is_open[BGI_REDUCE_RUN];

    read_floats(dtype, call->operands[2], outer * r->inner + first, count, largest);
    for (int64_t i = 0; i < count; i++)
        is_open[i] = 1;
    for (int64_t row = 0; row < r->reduced; row++) {
        const int64_t at = (outer * r->reduced + row) * r->inner + first;
        const float *x = view_floats(dtype, call->operands[1], at, count, in_x);
        float *to = begin_output(dtype, call->operands[3], at, out);

        for (int64_t i = 0; i < count; i++) {
            const int32_t found = is_open[i] & ((x[i] == largest[i]) | ((x[i] != x[i]) & (largest[i] != largest[i])));

            is_open[i] &= ~found;
            to[i] = found ? dy[i] : 0.0f;
        }
        end_output(dtype, call->operands[3], at, count, out);
    }
}

/* Does the same for adjacent elements, with a search for the first position. */
static void spread_largest_along(const bg_kernel_call *call, const bgi_reduction *r, int64_t outer)
{
    const bg_dtype dtype = call->types[1].dtype;
    const int64_t start = outer * r->reduced;
    const float largest = (float)bgi_load(dtype, call->operands[2], outer);
    float buffer[BGI_ELEMENTWISE_CHUNK];
    int64_t found = r->reduced;

    for (int64_t done = 0; done < r->reduced && found == r->reduced; done += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(r->reduced - done, BGI_ELEMENTWISE_CHUNK);
        const float *x = view_floats(dtype, call->operands[1], start + done, chunk, buffer);

        for (int64_t i = 0; i < chunk && found == r->reduced; i++)
            if (x[i] == largest || (x[i] != x[i] && largest != largest))
                found = done + i;
    }
    memset((char *)call->operands[3] + (size_t)start * bg_dtype_size_bytes(dtype), 0,
           (size_t)r->reduced * bg_dtype_size_bytes(dtype));
    if (found < r->reduced)
        bgi_store(dtype, call->operands[3], start + found, bgi_load(dtype, call->operands[0], outer));
}

static void run_reduce_max_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_reduce_attributes *attributes = call->attributes;
    bgi_reduction r = {0};
    uint32_t parts;

    bgi_reduction_make(&call->types[1], attributes->axes, &r);
    parts = bgi_reduction_whole_parts(&r);
    for (int64_t item = bgi_cpu_part_start(r.outer * r.runs, part, parts);
         item < bgi_cpu_part_start(r.outer * r.runs, part + 1, parts); item++) {
        const int64_t outer = item / r.runs, first = item % r.runs * r.run;

        if (r.inner == 1)
            spread_largest_along(call, &r, outer);
        else
            spread_largest(call, &r, outer, first, clip(r.inner - first, r.run));
    }
}

static void fill_row(bg_dtype dtype, const void *x, int64_t at, void *y, int64_t to, int64_t count)
{
    if (dtype == BG_FLOAT32) {
        const vf value = vset(((const float *)x)[at]);

        FOR_ROW(count, live)
        vstore_n((float *)y + to + i, value, live);
    } else {
        const uint16_t value = ((const uint16_t *)x)[at];

        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)y)[to + i] = value;
    }
}

static void run_broadcast(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const size_t size = bg_dtype_size_bytes(dtype);
    const bgi_broadcast_rows b = bgi_broadcast_rows_make(&call->types[1], &call->types[0]);
    const int64_t elements = b.rows * b.inner, end = bgi_elementwise_start(elements, part + 1);

    for (int64_t to = bgi_elementwise_start(elements, part), count; to < end; to += count) {
        const int64_t row = to / b.inner, first = to % b.inner;
        int64_t at = 0;

        count = clip(end - to, b.inner - first);
        for (uint32_t i = 0; i < b.rank; i++)
            at += row / b.every[i] % b.dims[i] * b.strides[i];
        if (b.is_filled)
            fill_row(dtype, call->operands[0], at, call->operands[1], to, count);
        else
            memcpy((char *)call->operands[1] + (size_t)to * size,
                   (const char *)call->operands[0] + (size_t)(at + first) * size, (size_t)count * size);
    }
}

/* Returns the index of the first element that equals `value`, or is NaN if `value` is NaN; the row has such an element.
 * Vectors without it are skipped. */
static int64_t find_element(const float *x, int64_t count, float value)
{
    const vf wanted = vset(value);
    int64_t i = 0;

    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        const vf a = vload(x + i), b = vload(x + i + LANES);

        if (value == value ? vany(vmask_or(vequal(a, wanted), vequal(b, wanted)))
                           : vany(vmask_or(vis_nan(a), vis_nan(b))))
            break;
    }
    while (x[i] != value && (x[i] == x[i] || value == value))
        i++;
    return i;
}

enum { ARGMAX_SHORT = 32 };

/* Returns the index of the first largest element of a short row. Elements are mapped to integers of the same order,
 * whose low half is larger for an earlier index. */
static int64_t find_largest_place(const float *x, int64_t count)
{
    int64_t best = INT64_MIN;

    for (int64_t i = 0; i < count; i++) {
        const float value = x[i] + 0.0f; /* -0 equals 0 */
        int32_t bits;
        int64_t key;

        memcpy(&bits, &value, sizeof bits);
        bits ^= bits < 0 ? INT32_MAX : 0;
        key = (int64_t)(value == value ? bits : INT32_MAX) * (INT64_C(1) << 32) + (UINT32_MAX - (uint32_t)i);
        best = key > best ? key : best;
    }
    return UINT32_MAX - (uint32_t)best;
}

/* Finds the index of the first largest element of each row; NaN is larger than every number. */
static void run_argmax(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rows rows = bgi_rows_read(&call->types[0], 1);
    float *buffer = bgi_cpu_part_scratch(call, rows.part_floats);

    for (int64_t row = bgi_cpu_part_start(rows.count, part, rows.parts);
         row < bgi_cpu_part_start(rows.count, part + 1, rows.parts); row++) {
        const float *x = view_floats(rows.dtype, call->operands[0], row * rows.length, rows.length, buffer);

        ((int32_t *)call->operands[1])[row] =
            (int32_t)(rows.length <= ARGMAX_SHORT ? find_largest_place(x, rows.length)
                                                  : find_element(x, rows.length, find_row_maximum(x, rows.length)));
    }
}

#endif
