/*
 * batch_body.h: batch norm. A part processes blocks of channels: first a block's statistics, then its results, while
 * the operands are in the caches. Sums are in double, in one pass; the remaining error is too small to affect float32
 * results.
 *
 * Differences are taken from a channel's first element, so that squares of a large mean do not cancel.
 */
#ifndef BGI_KERNELS_NORM_BATCH_BODY_H
#define BGI_KERNELS_NORM_BATCH_BODY_H

#include "kernels/cpu/rows_body.h"
#include "kernels/norm/fast.h"

/* Two sums over a channel, each with lanes for whole vectors and a scalar for the remaining elements. */
typedef struct channel_sums {
    vd lanes[2][2];
    double rest[2];
} channel_sums;

static inline double total_of(const channel_sums *sums, int which)
{
    return vsum_doubles(sums->lanes[which][0] + sums->lanes[which][1]) + sums->rest[which];
}

/* ---- statistics ---- */

/* Adds x - shift and its square, for adjacent elements, to the two sums. */
static void add_moments(const float *x, int64_t count, double shift, channel_sums *sums)
{
    vd sum[2] = {sums->lanes[0][0], sums->lanes[0][1]}, squares[2] = {sums->lanes[1][0], sums->lanes[1][1]};
    const vd from = vset_double(shift);
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        UNROLL
        for (int half = 0; half < 2; half++) {
            const vd d = vload_doubles(x + i + half * (LANES / 2)) - from;

            sum[half] += d;
            squares[half] += d * d;
        }
    }
    for (; i < count; i++) {
        const double d = (double)x[i] - shift;

        sums->rest[0] += d;
        sums->rest[1] += d * d;
    }
    for (int half = 0; half < 2; half++) {
        sums->lanes[0][half] = sum[half];
        sums->lanes[1][half] = squares[half];
    }
}

/* Does the same for adjacent channels of one element each, which have separate sums. */
static void add_moments_across(const float *x, int64_t count, const double *shifts, double *sums, double *squares)
{
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)x[i] - shifts[i];

        sums[i] += d;
        squares[i] += d * d;
    }
}

static double first_of(bg_dtype dtype, const void *x, int64_t at)
{
    const double first = bgi_load(dtype, x, at);

    return isfinite(first) ? first : 0.0; /* infinity minus infinity would make everything NaN */
}

/* Computes the mean and the sum of squared differences from the mean, from sums of differences from `shift` and of
 * their squares. */
static void settle_moments(double shift, double sum, double squares, double count, double *mean, double *differences)
{
    const double all = squares - sum * sum / count;

    *mean = shift + sum / count;
    *differences = all < 0.0 ? 0.0 : all; /* NaN stays */
}

/* Computes for channels first..first + count - 1 the mean and the sum of squared differences from the mean. */
static void measure_channels(const bgi_channels *all, bg_dtype dtype, const void *x, int64_t first, int64_t count,
                             double *means, double *differences)
{
    const double elements = (double)(all->n * all->inner);
    double shifts[BGI_CHANNELS_CHUNK];
    float buffer[BGI_CHANNELS_CHUNK];

    for (int64_t c = 0; c < count; c++)
        shifts[c] = first_of(dtype, x, (first + c) * all->inner);
    if (all->inner == 1) {
        memset(means, 0, (size_t)count * sizeof(double));
        memset(differences, 0, (size_t)count * sizeof(double));
        for (int64_t n = 0; n < all->n; n++)
            add_moments_across(view_floats(dtype, x, n * all->c + first, count, buffer), count, shifts, means,
                               differences);
        for (int64_t c = 0; c < count; c++)
            settle_moments(shifts[c], means[c], differences[c], elements, &means[c], &differences[c]);
    } else {
        channel_sums sums[BGI_CHANNELS_TOGETHER];

        memset(sums, 0, (size_t)count * sizeof *sums);
        for (int64_t n = 0; n < all->n; n++)
            for (int64_t c = 0; c < count; c++)
                for (int64_t i = 0; i < all->inner; i += BGI_CHANNELS_CHUNK) {
                    const int64_t live = clip(all->inner - i, BGI_CHANNELS_CHUNK);
                    const int64_t at = (n * all->c + first + c) * all->inner + i;

                    add_moments(view_floats(dtype, x, at, live, buffer), live, shifts[c], &sums[c]);
                }
        for (int64_t c = 0; c < count; c++)
            settle_moments(shifts[c], total_of(&sums[c], 0), total_of(&sums[c], 1), elements, &means[c],
                           &differences[c]);
    }
}

/* ---- forward ---- */

/* y = (x - mean) scale + shift. The mean is split into two floats; `shift` includes the second one. */
typedef struct channel_scales {
    float mean[BGI_CHANNELS_CHUNK], scale[BGI_CHANNELS_CHUNK], shift[BGI_CHANNELS_CHUNK];
} channel_scales;

ALWAYS_INLINE vf scale_vector(vf x, float mean, float scale, float shift)
{
    return vfma(x - vset(mean), vset(scale), vset(shift));
}

static void scale_row(const float *x, int64_t count, float mean, float scale, float shift, float *y)
{
    FOR_VECTORS(scale_vector(vload(x + i), mean, scale, shift),
                scale_vector(vload_n(x + i, count - i), mean, scale, shift));
}

static void scale_relu_row(const float *x, int64_t count, float mean, float scale, float shift, float *y)
{
    FOR_VECTORS(compute_unary(BG_RELU, scale_vector(vload(x + i), mean, scale, shift), NULL),
                compute_unary(BG_RELU, scale_vector(vload_n(x + i, count - i), mean, scale, shift), NULL));
}

static void scale_across(const float *x, int64_t count, const channel_scales *s, float *y)
{
    FOR_ROW(count, live)
    vstore_n(y + i,
             vfma(vload_n(x + i, live) - vload_n(s->mean + i, live), vload_n(s->scale + i, live),
                  vload_n(s->shift + i, live)),
             live);
}

/* Computes the fields of channel_scales for one channel. */
static void settle_scale(double mean, double rstd, double gamma, double beta, float *out_mean, float *out_scale,
                         float *out_shift)
{
    const double scale = rstd * gamma;

    *out_mean = (float)mean;
    *out_scale = (float)scale;
    *out_shift = (float)(beta - (mean - (double)*out_mean) * scale);
}

/* Returns whether the function that follows is a relu of float32, and each channel has several elements; separate loops
 * compute this case. */
static bool is_fast_relu(const bgi_fused_norm_attributes *steps, bg_dtype dtype, const bgi_channels *all)
{
    return steps->maps && steps->unary.function == BG_RELU && dtype == BG_FLOAT32 && all->inner > 1;
}

/* Scales a run of adjacent elements, which are elements of one channel or whole channels of `inner` elements. */
static void scale_run(const float *x, int64_t count, int64_t inner, const channel_scales *s, bool is_relu, float *y)
{
    const int64_t row = clip(inner, count);

    if (inner == 1)
        scale_across(x, count, s, y);
    else
        for (int64_t i = 0, c = 0; i < count; i += row, c++)
            (is_relu ? scale_relu_row : scale_row)(x + i, row, s->mean[c], s->scale[c], s->shift[c], y + i);
}

/* Rounds floats as if they were stored as `dtype` and read again. */
static void round_result(bg_dtype dtype, float *x, int64_t count)
{
    uint16_t stored[BGI_CHANNELS_CHUNK];

    if (dtype == BG_FLOAT32)
        return;
    end_output(dtype, stored, 0, count, x);
    view_floats(dtype, stored, 0, count, x);
}

/* Applies the steps that follow a batch norm, in place, to its result. */
static void follow_norm(const bgi_fused_norm_attributes *steps, bg_dtype dtype, const void *other, int64_t at,
                        int64_t count, float *y)
{
    float buffer[BGI_CHANNELS_CHUNK];

    round_result(dtype, y, count);
    if (steps->adds)
        add_loop(y, view_floats(dtype, other, at, count, buffer), y, count);
    if (steps->adds && steps->maps)
        round_result(dtype, y, count);
    if (steps->maps)
        unary_table[steps->unary.function].forward(y, y, count, &steps->unary);
}

/* Computes y of channels first..first + count - 1; the operands are x, gamma, beta, ..., other?. `steps` may be
 * NULL. */
static void normalize_channels(const bg_kernel_call *call, const bgi_channels *all, int64_t first, int64_t count,
                               const double *means, const double *rstds, const bgi_fused_norm_attributes *steps)
{
    const bg_dtype dtype = call->types[0].dtype;
    void *const y = call->operands[call->input_count];
    const bool is_relu = steps && !steps->adds && is_fast_relu(steps, dtype, all);
    float buffer[BGI_CHANNELS_CHUNK];
    channel_scales s;

    for (int64_t c = 0; c < count; c++)
        settle_scale(means[c], rstds[c], bgi_load(dtype, call->operands[1], first + c),
                     bgi_load(dtype, call->operands[2], first + c), &s.mean[c], &s.scale[c], &s.shift[c]);
    for (int64_t n = 0; n < all->n; n++)
        for (int64_t i = 0; i < all->inner * count; i += BGI_CHANNELS_CHUNK) {
            const int64_t live = clip(all->inner * count - i, BGI_CHANNELS_CHUNK);
            const int64_t at = (n * all->c + first) * all->inner + i;
            float *to = begin_output(dtype, y, at, buffer);

            scale_run(view_floats(dtype, call->operands[0], at, live, buffer), live, all->inner, &s, is_relu, to);
            if (steps && !is_relu)
                follow_norm(steps, dtype, call->operands[5], at, live, to);
            end_output(dtype, y, at, live, buffer);
        }
}

/* Stores mean and rstd. */
static void store_statistics(const bg_kernel_call *call, int64_t first, int64_t count, const double *means,
                             const double *rstds)
{
    for (int64_t c = 0; c < count; c++) {
        ((float *)call->operands[call->input_count + 1])[first + c] = (float)means[c];
        ((float *)call->operands[call->input_count + 2])[first + c] = (float)rstds[c];
    }
}

/* Iterates over the blocks of channels of a part. */
#define FOR_BLOCKS(all, part, first, count)                                                                            \
    for (int64_t first = bgi_channels_start(&(all), (part)), end_ = bgi_channels_start(&(all), (part) + 1),            \
                 count = clip(end_ - first, bgi_channels_block(&(all)));                                               \
         first < end_; first += count, count = clip(end_ - first, bgi_channels_block(&(all))))

/* Finds the statistics that normalize channels first..first + count - 1: the batch's own statistics in training,
 * otherwise the running ones. */
static void find_statistics(const bg_kernel_call *call, const bgi_channels *all, int64_t first, int64_t count,
                            double *means, double *rstds)
{
    const bgi_norm_attributes *attributes = call->attributes;
    const int64_t elements = all->n * all->inner;

    if (call->env->training)
        measure_channels(all, call->types[0].dtype, call->operands[0], first, count, means, rstds);
    for (int64_t c = 0; c < count; c++) {
        if (call->env->training) {
            rstds[c] /= (double)elements;
            bgi_update_running(call, attributes->momentum, elements, first + c, means[c], rstds[c]);
        } else {
            means[c] = bgi_load(call->types[3].dtype, call->operands[3], first + c);
            rstds[c] = bgi_load(call->types[4].dtype, call->operands[4], first + c);
        }
        rstds[c] = 1.0 / sqrt(rstds[c] + attributes->epsilon);
    }
}

static void run_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(&call->types[0]);
    double means[BGI_CHANNELS_CHUNK], rstds[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(all, part, first, count)
    {
        find_statistics(call, &all, first, count, means, rstds);
        store_statistics(call, first, count, means, rstds);
        normalize_channels(call, &all, first, count, means, rstds, NULL);
    }
}

static void run_fused_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(&call->types[0]);
    double means[BGI_CHANNELS_CHUNK], rstds[BGI_CHANNELS_CHUNK];
    double *statistics = call->operands[call->input_count + 1];

    FOR_BLOCKS(all, part, first, count)
    {
        find_statistics(call, &all, first, count, means, rstds);
        for (int64_t c = 0; c < count; c++) {
            statistics[2 * (first + c)] = means[c];
            statistics[2 * (first + c) + 1] = rstds[c];
        }
        normalize_channels(call, &all, first, count, means, rstds, call->attributes);
    }
}

/* ---- backward ---- */

/* Returns dy where the norm's result is positive or NaN, so that its relu is not constant, and 0 elsewhere. */
ALWAYS_INLINE vf relu_gradient(vf dy, vf x, float mean, float scale, float shift)
{
    return compute_unary_backward(BG_RELU, dy, scale_vector(x, mean, scale, shift), NULL);
}

/* Adds the sums of dy and of dy (x - mean) over adjacent elements; with `relu`, dy is the gradient of the relu's
 * result. */
ALWAYS_INLINE void add_products_of(const float *dy, const float *x, int64_t count, float mean, const bool relu,
                                   float scale, float shift, channel_sums *sums)
{
    vd sum[2] = {sums->lanes[0][0], sums->lanes[0][1]}, products[2] = {sums->lanes[1][0], sums->lanes[1][1]};
    const vd from = vset_double((double)mean);
    float behind[LANES];
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        const float *d = dy + i;

        if (relu) {
            vstore(behind, relu_gradient(vload(dy + i), vload(x + i), mean, scale, shift));
            d = behind;
        }
        UNROLL
        for (int half = 0; half < 2; half++) {
            const vd wide = vload_doubles(d + half * (LANES / 2));

            sum[half] += wide;
            products[half] += wide * (vload_doubles(x + i + half * (LANES / 2)) - from);
        }
    }
    if (relu && i < count)
        vstore_n(behind, relu_gradient(vload_n(dy + i, count - i), vload_n(x + i, count - i), mean, scale, shift),
                 count - i);
    for (int64_t e = 0; i < count; i++, e++) {
        const double d = (double)(relu ? behind[e] : dy[i]);

        sums->rest[0] += d;
        sums->rest[1] += d * ((double)x[i] - (double)mean);
    }
    for (int half = 0; half < 2; half++) {
        sums->lanes[0][half] = sum[half];
        sums->lanes[1][half] = products[half];
    }
}

static void add_products(const float *dy, const float *x, int64_t count, float mean, channel_sums *sums)
{
    add_products_of(dy, x, count, mean, false, 0.0f, 0.0f, sums);
}

static void add_relu_products(const float *dy, const float *x, int64_t count, float mean, float scale, float shift,
                              channel_sums *sums)
{
    add_products_of(dy, x, count, mean, true, scale, shift, sums);
}

static void add_products_across(const float *dy, const float *x, int64_t count, const float *means, double *sums,
                                double *products)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)dy[i];
        products[i] += (double)dy[i] * ((double)x[i] - (double)means[i]);
    }
}

/* The gradient of a function that follows a norm. The function's operand is computed again from x. */
typedef struct function_gradient {
    const bgi_unary_attributes *unary;
    void *kept;            /* dx: between the two passes it has the gradient of the norm's result */
    channel_scales scales; /* of the current channels */
} function_gradient;

/* The operands that both passes over a channel read. */
typedef struct norm_gradient {
    bgi_channels all;
    bg_dtype dtype;
    const void *dy, *x;
    const float *means, *rstds;  /* of the current channels */
    function_gradient *function; /* NULL: dy is the gradient of the norm's result */
    bool is_relu;                /* is_fast_relu: both passes compute the gradient from `scales`, without `kept` */
} norm_gradient;

/* Returns the gradient of elements of the norm's result; `x` has the same elements of the norm's operand. */
static const float *view_gradient(const norm_gradient *g, bool is_first, int64_t at, int64_t count, const float *x,
                                  float *buffer)
{
    const function_gradient *f = g->function;
    float again[BGI_CHANNELS_CHUNK], *to;

    if (f == NULL || g->is_relu || !is_first)
        return view_floats(g->dtype, f && !g->is_relu ? f->kept : g->dy, at, count, buffer);
    scale_run(x, count, g->all.inner, &f->scales, false, again);
    round_result(g->dtype, again, count);
    if (bgi_unary_derives_from_output(f->unary->function)) {
        unary_table[f->unary->function].forward(again, again, count, f->unary);
        round_result(g->dtype, again, count);
    }
    to = begin_output(g->dtype, f->kept, at, buffer);
    unary_table[f->unary->function].backward(view_floats(g->dtype, g->dy, at, count, buffer), again, to, count,
                                             f->unary);
    end_output(g->dtype, f->kept, at, count, buffer);
    return view_floats(g->dtype, f->kept, at, count, buffer);
}

/* Computes the sums of the gradient, and of the gradient times xhat, for channels first..first + count - 1. */
static void sum_channel_gradients(const norm_gradient *g, int64_t first, int64_t count, double *sums, double *products)
{
    const bgi_channels *all = &g->all;
    float wide_dy[BGI_CHANNELS_CHUNK], wide_x[BGI_CHANNELS_CHUNK];
    channel_sums kept[BGI_CHANNELS_TOGETHER];

    if (all->inner == 1) {
        memset(sums, 0, (size_t)count * sizeof(double));
        memset(products, 0, (size_t)count * sizeof(double));
    } else {
        memset(kept, 0, (size_t)count * sizeof *kept);
    }
    for (int64_t n = 0; n < all->n; n++)
        for (int64_t i = 0; i < all->inner * count; i += BGI_CHANNELS_CHUNK) {
            const int64_t live = clip(all->inner * count - i, BGI_CHANNELS_CHUNK), row = clip(all->inner, live);
            const int64_t at = (n * all->c + first) * all->inner + i;
            const float *x = view_floats(g->dtype, g->x, at, live, wide_x);
            const float *dy = view_gradient(g, true, at, live, x, wide_dy);

            if (all->inner == 1)
                add_products_across(dy, x, live, g->means, sums, products);
            else
                for (int64_t e = 0, c = 0; e < live; e += row, c++)
                    if (g->is_relu)
                        add_relu_products(dy + e, x + e, row, g->means[c], g->function->scales.scale[c],
                                          g->function->scales.shift[c], &kept[c]);
                    else
                        add_products(dy + e, x + e, row, g->means[c], &kept[c]);
        }
    for (int64_t c = 0; c < count; c++) {
        if (all->inner > 1) {
            sums[c] = total_of(&kept[c], 0);
            products[c] = total_of(&kept[c], 1);
        }
        products[c] *= (double)g->rstds[c];
    }
}

/* dx = (dy - mean(dy)) scale + (x - mean) slope, with scale = rstd gamma and slope = -scale rstd mean(dy xhat) */
typedef struct channel_slopes {
    float average[BGI_CHANNELS_CHUNK], scale[BGI_CHANNELS_CHUNK], slope[BGI_CHANNELS_CHUNK];
} channel_slopes;

ALWAYS_INLINE vf slope_vector(vf dy, vf x, float mean, float average, float scale, float slope)
{
    return vfma(x - vset(mean), vset(slope), (dy - vset(average)) * vset(scale));
}

static void slope_row(const float *dy, const float *x, int64_t count, float mean, float average, float scale,
                      float slope, float *y)
{
    FOR_VECTORS(slope_vector(vload(dy + i), vload(x + i), mean, average, scale, slope),
                slope_vector(vload_n(dy + i, count - i), vload_n(x + i, count - i), mean, average, scale, slope));
}

/* Does the same as slope_row with the gradient of relu; `s` has the factors of channel `c`. */
static void slope_relu_row(const float *dy, const float *x, int64_t count, const channel_scales *s, int64_t c,
                           float average, float scale, float slope, float *y)
{
    const float mean = s->mean[c], by = s->scale[c], shift = s->shift[c];

    FOR_VECTORS(slope_vector(relu_gradient(vload(dy + i), vload(x + i), mean, by, shift), vload(x + i), mean, average,
                             scale, slope),
                slope_vector(relu_gradient(vload_n(dy + i, count - i), vload_n(x + i, count - i), mean, by, shift),
                             vload_n(x + i, count - i), mean, average, scale, slope));
}

static void slope_across(const float *dy, const float *x, int64_t count, const float *means, const channel_slopes *s,
                         float *dx)
{
    FOR_ROW(count, live)
    vstore_n(dx + i,
             vfma(vload_n(x + i, live) - vload_n(means + i, live), vload_n(s->slope + i, live),
                  (vload_n(dy + i, live) - vload_n(s->average + i, live)) * vload_n(s->scale + i, live)),
             live);
}

/* Stores dx. `sums`, `products` and `elements` cover all values that the statistics cover. */
static void store_channel_gradients(const norm_gradient *g, const void *gamma, int64_t first, int64_t count,
                                    const double *sums, const double *products, double elements, void *dx)
{
    const bgi_channels *all = &g->all;
    float wide_dy[BGI_CHANNELS_CHUNK], wide_x[BGI_CHANNELS_CHUNK];
    channel_slopes s;

    for (int64_t c = 0; c < count; c++) {
        const double scale = (double)g->rstds[c] * bgi_load(g->dtype, gamma, first + c);

        s.average[c] = (float)(sums[c] / elements);
        s.scale[c] = (float)scale;
        s.slope[c] = (float)(-scale * (double)g->rstds[c] * products[c] / elements);
    }
    for (int64_t n = 0; n < all->n; n++)
        for (int64_t i = 0; i < all->inner * count; i += BGI_CHANNELS_CHUNK) {
            const int64_t live = clip(all->inner * count - i, BGI_CHANNELS_CHUNK), row = clip(all->inner, live);
            const int64_t at = (n * all->c + first) * all->inner + i;
            const float *x = view_floats(g->dtype, g->x, at, live, wide_x);
            const float *dy = view_gradient(g, false, at, live, x, wide_dy);
            float *to = begin_output(g->dtype, dx, at, wide_x);

            if (all->inner == 1)
                slope_across(dy, x, live, g->means, &s, to);
            else
                for (int64_t e = 0, c = 0; e < live; e += row, c++)
                    if (g->is_relu)
                        slope_relu_row(dy + e, x + e, row, &g->function->scales, c, s.average[c], s.scale[c],
                                       s.slope[c], to + e);
                    else
                        slope_row(dy + e, x + e, row, g->means[c], s.average[c], s.scale[c], s.slope[c], to + e);
            end_output(g->dtype, dx, at, live, wide_x);
        }
}

/* Reads the operands dy and x of a call, which are followed by mean, rstd and others. */
static norm_gradient read_norm_gradient(const bg_kernel_call *call)
{
    return (norm_gradient){.all = bgi_channels_read(&call->types[1]),
                           .dtype = call->types[1].dtype,
                           .dy = call->operands[0],
                           .x = call->operands[1]};
}

/* Selects the statistics of the channels from `first` on. */
static void move_to(norm_gradient *g, const bg_kernel_call *call, int64_t first)
{
    g->means = (const float *)call->operands[2] + first;
    g->rstds = (const float *)call->operands[3] + first;
}

/* Stores dgamma and dbeta. */
static void store_affine_gradients(const bg_kernel_call *call, int64_t first, int64_t count, const double *sums,
                                   const double *products)
{
    for (int64_t c = 0; c < count; c++) {
        bgi_store(call->types[1].dtype, call->operands[call->input_count + 1], first + c, products[c]);
        bgi_store(call->types[1].dtype, call->operands[call->input_count + 2], first + c, sums[c]);
    }
}

static void run_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    norm_gradient g = read_norm_gradient(call);
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(g.all, part, first, count)
    {
        move_to(&g, call, first);
        sum_channel_gradients(&g, first, count, sums, products);
        store_affine_gradients(call, first, count, sums, products);
        store_channel_gradients(&g, call->operands[4], first, count, sums, products, (double)(g.all.n * g.all.inner),
                                call->operands[call->input_count]);
    }
}

static void run_fused_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_fused_norm_attributes *attributes = call->attributes;
    const double *statistics = call->operands[2];
    void *const dx = call->operands[call->input_count];
    norm_gradient g = read_norm_gradient(call);
    function_gradient f = {.unary = &attributes->unary, .kept = dx};
    float means[BGI_CHANNELS_CHUNK], rstds[BGI_CHANNELS_CHUNK];
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK];

    g.is_relu = is_fast_relu(attributes, g.dtype, &g.all);
    g.function = attributes->maps ? &f : NULL;
    g.means = means;
    g.rstds = rstds;
    FOR_BLOCKS(g.all, part, first, count)
    {
        for (int64_t c = 0; c < count; c++) {
            const double *own = statistics + 2 * (first + c);

            means[c] = (float)own[0];
            rstds[c] = (float)own[1];
            settle_scale(own[0], own[1], bgi_load(g.dtype, call->operands[3], first + c),
                         bgi_load(g.dtype, call->operands[4], first + c), &f.scales.mean[c], &f.scales.scale[c],
                         &f.scales.shift[c]);
        }
        sum_channel_gradients(&g, first, count, sums, products);
        store_affine_gradients(call, first, count, sums, products);
        store_channel_gradients(&g, call->operands[3], first, count, sums, products, (double)(g.all.n * g.all.inner),
                                dx);
    }
}

/* ---- over replicas ---- */

static void run_batch_norm_moments(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(&call->types[0]);
    double means[BGI_CHANNELS_CHUNK], differences[BGI_CHANNELS_CHUNK], *moments = call->operands[1];

    FOR_BLOCKS(all, part, first, count)
    {
        measure_channels(&all, call->types[0].dtype, call->operands[0], first, count, means, differences);
        for (int64_t c = 0; c < count; c++) {
            moments[2 * (first + c)] = means[c];
            moments[2 * (first + c) + 1] = differences[c];
        }
    }
}

static void run_sync_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sync_norm_attributes *attributes = call->attributes;
    const bgi_channels all = bgi_channels_read(&call->types[0]);
    const int64_t members = (int64_t)attributes->members;
    double means[BGI_CHANNELS_CHUNK], rstds[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(all, part, first, count)
    {
        for (int64_t c = 0; c < count; c++) {
            double variance;

            bgi_combine_moments(call->operands[5], &all, members, first + c, &means[c], &variance);
            bgi_update_running(call, attributes->momentum, all.n * all.inner * members, first + c, means[c], variance);
            rstds[c] = 1.0 / sqrt(variance + attributes->epsilon);
        }
        store_statistics(call, first, count, means, rstds);
        normalize_channels(call, &all, first, count, means, rstds, NULL);
    }
}

static void run_batch_norm_gradient_sums(const bg_kernel_call *call, uint32_t part)
{
    norm_gradient g = read_norm_gradient(call);
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK], *totals = call->operands[4];

    FOR_BLOCKS(g.all, part, first, count)
    {
        move_to(&g, call, first);
        sum_channel_gradients(&g, first, count, sums, products);
        for (int64_t c = 0; c < count; c++) {
            totals[2 * (first + c)] = sums[c];
            totals[2 * (first + c) + 1] = products[c];
        }
    }
}

static void run_sync_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sync_norm_attributes *attributes = call->attributes;
    norm_gradient g = read_norm_gradient(call);
    const double elements = (double)(g.all.n * g.all.inner) * (double)attributes->members;
    const double *own = call->operands[5], *total = call->operands[6];
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(g.all, part, first, count)
    {
        move_to(&g, call, first);
        for (int64_t c = 0; c < count; c++) {
            sums[c] = own[2 * (first + c)];
            products[c] = own[2 * (first + c) + 1];
        }
        store_affine_gradients(call, first, count, sums, products);
        for (int64_t c = 0; c < count; c++) {
            sums[c] = total[2 * (first + c)];
            products[c] = total[2 * (first + c) + 1];
        }
        store_channel_gradients(&g, call->operands[4], first, count, sums, products, elements,
                                call->operands[call->input_count]);
    }
}

#endif
