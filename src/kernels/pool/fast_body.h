/*
 * fast_body.h: max and average pooling of any window, and their gradients. A part is a run of planes; 16-bit planes are
 * widened one by one.
 *
 * Windows are computed one row of outputs at a time, and LANES of them together if their columns are at a distance of 1
 * or 2. Windows that reach into the padding are computed one by one. For larger distances, and for windows of different
 * sizes, a max pool first finds the largest element of each column, LANES columns together.
 */
#ifndef BGI_KERNELS_POOL_FAST_BODY_H
#define BGI_KERNELS_POOL_FAST_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/pool/attributes.h"
#include "kernels/pool/fast.h"

/* Finds the positions of the window from `start` on that are inside 0..size - 1: *first, *first + dilation, ... before
 * *end. */
static void clip_window(int64_t start, int64_t dilation, int64_t kernel, int64_t size, int64_t *first, int64_t *end)
{
    const int64_t skip = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t fit = size > start ? (size - start - 1) / dilation + 1 : 0;

    *first = start + skip * dilation;
    *end = start + (fit < kernel ? fit : kernel) * dilation;
}

/* Finds the output columns whose windows do not reach into the padding: *first..*end - 1. */
static void find_inner_columns(const bgi_pool *s, int64_t *first, int64_t *end)
{
    const bg_pool2d_options *o = s->options;
    const int64_t reach = s->w + o->padding[1] - o->dilation[1] * (o->kernel[1] - 1) - 1; /* last start + padding */

    *first = (o->padding[1] + o->stride[1] - 1) / o->stride[1];
    *end = reach < 0 ? 0 : reach / o->stride[1] + 1;
    *end = clip(*end, s->ow);
    *first = clip(*first, *end);
}

/* ---- max ---- */

/* Finds the positions of window `out` along a dim that are not padding: *first, *first + dilation, ... before *end. */
static void find_window(const bgi_pool *s, int dim, int64_t out, int64_t *first, int64_t *end)
{
    const bg_pool2d_options *o = s->options;
    const int64_t size = dim == 0 ? s->h : s->w;

    if (s->is_adaptive)
        bgi_pool_window(size, dim == 0 ? s->oh : s->ow, out, first, end);
    else
        clip_window(out * o->stride[dim] - o->padding[dim], o->dilation[dim], o->kernel[dim], size, first, end);
}

/* Finds the first largest element of each column in rows h0, h0 + apart, ... before h1, and its index in the plane; NaN
 * wins. */
static void find_column_largest(const bgi_pool *s, const float *x, int64_t h0, int64_t h1, int64_t apart,
                                float *largest, int32_t *at)
{
    vi columns;

    for (int32_t i = 0; i < LANES; i++)
        columns[i] = i;
    FOR_ROW(s->w, live)
    {
        vf best = vload_n(x + h0 * s->w + i, live);
        vi place = columns + vset_int((int32_t)(h0 * s->w + i));

        for (int64_t h = h0 + apart; h < h1; h += apart) {
            const vf value = vload_n(x + h * s->w + i, live);
            const vm wins = vwins(value, best);

            best = vselect(wins, value, best);
            place = vselect_int(wins, columns + vset_int((int32_t)(h * s->w + i)), place);
        }
        vstore_n(largest + i, best, live);
        vstore_int_n(at + i, place, live);
    }
}

/* Pools a plane with windows of any kind. `rows` is memory for two rows. */
static void max_pool_columns(const bgi_pool *s, const float *x, float *rows, float *y, int32_t *where)
{
    float *largest = rows;
    int32_t *at = (int32_t *)(void *)(rows + s->row_floats);

    for (int64_t oh = 0; oh < s->oh; oh++, y += s->ow, where += s->ow) {
        int64_t h0, h1;

        find_window(s, 0, oh, &h0, &h1);
        find_column_largest(s, x, h0, h1, s->options->dilation[0], largest, at);
        for (int64_t ow = 0; ow < s->ow; ow++) {
            int64_t w, w1, best;

            find_window(s, 1, ow, &w, &w1);
            for (best = w; w < w1; w += s->options->dilation[1]) {
                const float value = largest[w], so_far = largest[best];
                const bool is_nan = so_far != so_far;

                if (is_nan ? value != value && at[w] < at[best]
                           : !(value <= so_far) || (value == so_far && at[w] < at[best]))
                    best = w;
            }
            y[ow] = x[at[best]];
            where[ow] = at[best];
        }
    }
}

/* Returns the index in the plane of the first largest element of a window; NaN wins. */
static int64_t find_largest(const bgi_pool *s, const float *x, int64_t oh, int64_t ow)
{
    const bg_pool2d_options *o = s->options;
    int64_t h0, h1, w0, w1, at = -1;
    float largest = 0.0f;

    clip_window(oh * o->stride[0] - o->padding[0], o->dilation[0], o->kernel[0], s->h, &h0, &h1);
    clip_window(ow * o->stride[1] - o->padding[1], o->dilation[1], o->kernel[1], s->w, &w0, &w1);
    for (int64_t h = h0; h < h1; h += o->dilation[0])
        for (int64_t w = w0; w < w1; w += o->dilation[1]) {
            const float value = x[h * s->w + w];

            if (at < 0 || (largest == largest && !(value <= largest))) {
                largest = value;
                at = h * s->w + w;
            }
        }
    return at;
}

static void pick_largest(const bgi_pool *s, const float *x, int64_t oh, int64_t from, int64_t end, float *y,
                         int32_t *where)
{
    for (int64_t ow = from; ow < end; ow++) {
        const int64_t at = find_largest(s, x, oh, ow);

        where[oh * s->ow + ow] = (int32_t)at;
        y[oh * s->ow + ow] = x[at];
    }
}

/* Pools `live` adjacent windows from column `ow` on, whose columns are all inside the row, over the rows h0, h0 +
 * dilation, ... before h1. */
ALWAYS_INLINE void pick_largest_side_by_side(const bgi_pool *s, const float *x, int64_t h0, int64_t h1, int64_t oh,
                                             int64_t ow, int64_t live, const int64_t apart, float *y, int32_t *where)
{
    const bg_pool2d_options *o = s->options;
    const int64_t start = ow * apart - o->padding[1];
    vf largest = vset(0.0f);
    vi at = vset_int(0), columns;

    for (int32_t i = 0; i < LANES; i++)
        columns[i] = i * (int32_t)apart;
    for (int64_t h = h0; h < h1; h += o->dilation[0])
        for (int64_t k = 0; k < o->kernel[1]; k++) {
            const int64_t w = start + k * o->dilation[1];
            const vf value = vload_apart(x + h * s->w, w, s->w, apart, live);
            const vi place = columns + vset_int((int32_t)(h * s->w + w));

            if (h == h0 && k == 0) {
                largest = value;
                at = place;
            } else {
                const vm wins = vwins(value, largest);

                largest = vselect(wins, value, largest);
                at = vselect_int(wins, place, at);
            }
        }
    vstore_n(y + oh * s->ow + ow, largest, live);
    vstore_int_n(where + oh * s->ow + ow, at, live);
}

static void max_pool_plane(const bgi_pool *s, const float *x, float *y, int32_t *where)
{
    const bg_pool2d_options *o = s->options;
    int64_t first, end;

    find_inner_columns(s, &first, &end);
    for (int64_t oh = 0; oh < s->oh; oh++) {
        int64_t h0, h1;

        clip_window(oh * o->stride[0] - o->padding[0], o->dilation[0], o->kernel[0], s->h, &h0, &h1);
        pick_largest(s, x, oh, 0, first, y, where);
        for (int64_t ow = first; ow < end; ow += LANES)
            if (o->stride[1] == 1)
                pick_largest_side_by_side(s, x, h0, h1, oh, ow, clip(end - ow, LANES), 1, y, where);
            else
                pick_largest_side_by_side(s, x, h0, h1, oh, ow, clip(end - ow, LANES), 2, y, where);
        pick_largest(s, x, oh, end, s->ow, y, where);
    }
}

static void run_max_pool2d(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pool s = bgi_pool_read(&call->types[0], &call->types[1], call->attributes);
    const int64_t in = s.h * s.w, out = s.oh * s.ow;
    float *wide_x = bgi_cpu_part_scratch(call, s.part_floats), *wide_y = wide_x + s.in_floats;
    const bool is_by_columns = s.is_adaptive || s.options->stride[1] > 2;

    for (int64_t plane = bgi_cpu_part_start(s.planes, part, s.parts);
         plane < bgi_cpu_part_start(s.planes, part + 1, s.parts); plane++) {
        const float *x = view_floats(s.dtype, call->operands[0], plane * in, in, wide_x);
        float *y = begin_output(s.dtype, call->operands[1], plane * out, wide_y);
        int32_t *where = (int32_t *)call->operands[2] + plane * out;

        if (is_by_columns)
            max_pool_columns(&s, x, wide_y + s.out_floats, y, where);
        else
            max_pool_plane(&s, x, y, where);
        end_output(s.dtype, call->operands[1], plane * out, out, wide_y);
    }
}

/* Adds each element of dy to its window's largest element, in the order of the windows. */
static void run_max_pool2d_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pool s = bgi_pool_read(&call->types[2], &call->types[0], call->attributes);
    const int64_t in = s.h * s.w, out = s.oh * s.ow;
    float *wide_dx = bgi_cpu_part_scratch(call, s.part_floats), *wide_dy = wide_dx + s.in_floats;

    for (int64_t plane = bgi_cpu_part_start(s.planes, part, s.parts);
         plane < bgi_cpu_part_start(s.planes, part + 1, s.parts); plane++) {
        const float *dy = view_floats(s.dtype, call->operands[0], plane * out, out, wide_dy);
        const int32_t *where = (const int32_t *)call->operands[1] + plane * out;
        float *dx = begin_output(s.dtype, call->operands[2], plane * in, wide_dx);

        memset(dx, 0, (size_t)in * sizeof(float));
        for (int64_t i = 0; i < out; i++)
            dx[where[i]] += dy[i];
        end_output(s.dtype, call->operands[2], plane * in, in, wide_dx);
    }
}

/* ---- average ---- */

/* Returns the number of elements of window `out` along a dim, with or without those in the padding, as a factor of the
 * divisor. */
static int64_t count_along(const bgi_pool *s, int dim, int64_t out)
{
    const bg_pool2d_options *o = s->options;
    const int64_t size = dim == 0 ? s->h : s->w, margin = o->count_include_pad ? o->padding[dim] : 0;
    const int64_t begin = out * o->stride[dim] - o->padding[dim], end = begin + o->kernel[dim];

    return (end > size + margin ? size + margin : end) - (begin < -margin ? -margin : begin);
}

/* Computes the width of the windows in each output column. */
static void count_columns(const bgi_pool *s, float *widths)
{
    for (int64_t ow = 0; ow < s->ow; ow++)
        widths[ow] = (float)count_along(s, 1, ow);
}

/* Returns, for each column, the sum of the rows that the windows in row `oh` of the results cover. */
static const float *add_rows(const bgi_pool *s, const float *x, int64_t oh, float *sums)
{
    const bg_pool2d_options *o = s->options;
    int64_t h0, h1;

    clip_window(oh * o->stride[0] - o->padding[0], 1, o->kernel[0], s->h, &h0, &h1);
    if (h0 + 1 == h1)
        return x + h0 * s->w;
    FOR_ROW(s->w, live)
    {
        vf sum = vload_n(x + h0 * s->w + i, live);

        for (int64_t h = h0 + 1; h < h1; h++)
            sum += vload_n(x + h * s->w + i, live);
        vstore_n(sums + i, sum, live);
    }
    return sums;
}

static void average_windows(const bgi_pool *s, const float *row, int64_t from, int64_t end, float height,
                            const float *widths, float *y)
{
    const bg_pool2d_options *o = s->options;

    for (int64_t ow = from; ow < end; ow++) {
        float sum = 0.0f;
        int64_t w0, w1;

        clip_window(ow * o->stride[1] - o->padding[1], 1, o->kernel[1], s->w, &w0, &w1);
        for (int64_t w = w0; w < w1; w++)
            sum += row[w];
        y[ow] = sum / (height * widths[ow]);
    }
}

ALWAYS_INLINE void average_side_by_side(const bgi_pool *s, const float *row, int64_t ow, int64_t live,
                                        const int64_t apart, float height, const float *widths, float *y)
{
    const int64_t start = ow * apart - s->options->padding[1];
    vf sum = vload_apart(row, start, s->w, apart, live);

    for (int64_t k = 1; k < s->options->kernel[1]; k++)
        sum += vload_apart(row, start + k, s->w, apart, live);
    vstore_n(y + ow, sum / (vset(height) * vload_n(widths + ow, live)), live);
}

static void average_plane(const bgi_pool *s, const float *x, const float *widths, float *sums, float *y)
{
    const bg_pool2d_options *o = s->options;
    int64_t first, end;

    if (s->is_whole) {
        vf sum = vset(0.0f);

        FOR_ROW(s->h * s->w, live)
        sum += vload_n(x + i, live);
        y[0] = vsum(sum) / (float)(s->h * s->w);
        return;
    }
    find_inner_columns(s, &first, &end);
    if (o->stride[1] > 2)
        end = first;
    for (int64_t oh = 0; oh < s->oh; oh++, y += s->ow) {
        const float height = (float)count_along(s, 0, oh), *row = add_rows(s, x, oh, sums);

        average_windows(s, row, 0, first, height, widths, y);
        for (int64_t ow = first; ow < end; ow += LANES)
            if (o->stride[1] == 1)
                average_side_by_side(s, row, ow, clip(end - ow, LANES), 1, height, widths, y);
            else
                average_side_by_side(s, row, ow, clip(end - ow, LANES), 2, height, widths, y);
        average_windows(s, row, end, s->ow, height, widths, y);
    }
}

static void run_avg_pool2d(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pool s = bgi_pool_read(&call->types[0], &call->types[1], call->attributes);
    const int64_t in = s.h * s.w, out = s.oh * s.ow;
    float *widths = bgi_cpu_part_scratch(call, s.part_floats) + s.in_floats + s.out_floats,
          *sums = widths + s.row_floats;
    float *wide_x = bgi_cpu_part_scratch(call, s.part_floats), *wide_y = wide_x + s.in_floats;

    count_columns(&s, widths);
    for (int64_t plane = bgi_cpu_part_start(s.planes, part, s.parts);
         plane < bgi_cpu_part_start(s.planes, part + 1, s.parts); plane++) {
        average_plane(&s, view_floats(s.dtype, call->operands[0], plane * in, in, wide_x), widths, sums,
                      begin_output(s.dtype, call->operands[1], plane * out, wide_y));
        end_output(s.dtype, call->operands[1], plane * out, out, wide_y);
    }
}

/* Computes what a row of windows adds to the gradient of each row that it covers. `shares` is memory for a row. */
static void spread_row(const bgi_pool *s, const float *dy, float height, const float *widths, float *shares, float *row)
{
    const bg_pool2d_options *o = s->options;
    int64_t first, end;

    FOR_ROW(s->ow, live)
    vstore_n(shares + i, vload_n(dy + i, live) / (vset(height) * vload_n(widths + i, live)), live);
    memset(row, 0, (size_t)s->w * sizeof(float));
    find_inner_columns(s, &first, &end);
    for (int64_t ow = first; ow < end && o->stride[1] > 1; ow++) {
        float *to = row + ow * o->stride[1] - o->padding[1];

        for (int64_t k = 0; k < o->kernel[1]; k++)
            to[k] += shares[ow];
    }
    for (int64_t k = 0; k < o->kernel[1] && o->stride[1] == 1; k++) {
        float *to = row + first - o->padding[1] + k;

        FOR_ROW(end - first, live)
        vstore_n(to + i, vload_n(to + i, live) + vload_n(shares + first + i, live), live);
    }
    for (int64_t ow = 0; ow < s->ow; ow++) {
        int64_t w0, w1;

        if (ow == first)
            ow = end; /* these columns are done */
        if (ow == s->ow)
            break;
        clip_window(ow * o->stride[1] - o->padding[1], 1, o->kernel[1], s->w, &w0, &w1);
        for (int64_t w = w0; w < w1; w++)
            row[w] += shares[ow];
    }
}

/* Computes dx of a plane. `rows` is memory for two rows. */
static void spread_plane(const bgi_pool *s, const float *dy, const float *widths, float *rows, float *dx)
{
    const bg_pool2d_options *o = s->options;
    float *shares = rows, *row = rows + s->row_floats;
    int64_t done = 0; /* rows of dx that have received gradients */

    if (s->is_whole) {
        FOR_ROW(s->h * s->w, live)
        vstore_n(dx + i, vset(dy[0] / (float)(s->h * s->w)), live);
        return;
    }
    for (int64_t oh = 0; oh < s->oh; oh++) {
        int64_t h0, h1;

        clip_window(oh * o->stride[0] - o->padding[0], 1, o->kernel[0], s->h, &h0, &h1);
        spread_row(s, dy + oh * s->ow, (float)count_along(s, 0, oh), widths, shares, row);
        for (; done < h0; done++) /* between windows */
            memset(dx + done * s->w, 0, (size_t)s->w * sizeof(float));
        for (int64_t h = h0; h < h1; h++) {
            float *to = dx + h * s->w;

            if (h < done)
                FOR_ROW(s->w, live)
            vstore_n(to + i, vload_n(to + i, live) + vload_n(row + i, live), live);
            else vcopy(row, s->w, to);
        }
        done = h1 > done ? h1 : done;
    }
    memset(dx + done * s->w, 0, (size_t)((s->h - done) * s->w) * sizeof(float));
}

static void run_avg_pool2d_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pool s = bgi_pool_read(&call->types[1], &call->types[0], call->attributes);
    const int64_t in = s.h * s.w, out = s.oh * s.ow;
    float *wide_dx = bgi_cpu_part_scratch(call, s.part_floats), *wide_dy = wide_dx + s.in_floats;
    float *widths = wide_dy + s.out_floats, *rows = widths + s.row_floats;

    count_columns(&s, widths);
    for (int64_t plane = bgi_cpu_part_start(s.planes, part, s.parts);
         plane < bgi_cpu_part_start(s.planes, part + 1, s.parts); plane++) {
        spread_plane(&s, view_floats(s.dtype, call->operands[0], plane * out, out, wide_dy), widths, rows,
                     begin_output(s.dtype, call->operands[1], plane * in, wide_dx));
        end_output(s.dtype, call->operands[1], plane * in, in, wide_dx);
    }
}

#endif
