/*
 * batch_body.h: batch norm. A part processes blocks of channels: first a block's statistics, then its results, while
 * the operands are in the caches. Sums are in double, in one pass; the remaining error is too small for float32
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

/* Sums of x - shift and of its square over adjacent elements. */
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

                    add_moments(view_floats(dtype, x, (n * all->c + first + c) * all->inner + i, live, buffer), live,
                                shifts[c], &sums[c]);
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

static void scale_row(const float *x, int64_t count, float mean, float scale, float shift, float *y)
{
    FOR_ROW(count, live)
    vstore_n(y + i, vfma(vload_n(x + i, live) - vset(mean), vset(scale), vset(shift)), live);
}

static void scale_across(const float *x, int64_t count, const channel_scales *s, float *y)
{
    FOR_ROW(count, live)
    vstore_n(y + i,
             vfma(vload_n(x + i, live) - vload_n(s->mean + i, live), vload_n(s->scale + i, live),
                  vload_n(s->shift + i, live)),
             live);
}

/* Computes these factors for one channel. */
static void settle_scale(double mean, double rstd, double gamma, double beta, float *out_mean, float *out_scale,
                         float *out_shift)
{
    const double scale = rstd * gamma;

    *out_mean = (float)mean;
    *out_scale = (float)scale;
    *out_shift = (float)(beta - (mean - (double)*out_mean) * scale);
}

/* x, gamma, beta, ... -> y, mean, rstd of channels first..first + count - 1 */
static void normalize_channels(const bg_kernel_call *call, const bgi_channels *all, int64_t first, int64_t count,
                               const double *means, const double *rstds)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t wide = all->inner == 1 ? count : 1; /* channels of a row */
    void *const y = call->operands[call->input_count];
    float buffer[BGI_CHANNELS_CHUNK];
    channel_scales s;

    for (int64_t c = 0; c < count; c++) {
        settle_scale(means[c], rstds[c], bgi_load(dtype, call->operands[1], first + c),
                     bgi_load(dtype, call->operands[2], first + c), &s.mean[c], &s.scale[c], &s.shift[c]);
        ((float *)call->operands[call->input_count + 1])[first + c] = s.mean[c];
        ((float *)call->operands[call->input_count + 2])[first + c] = (float)rstds[c];
    }
    for (int64_t n = 0; n < all->n; n++)
        for (int64_t c = 0; c < count; c += wide)
            for (int64_t i = 0; i < all->inner * wide; i += BGI_CHANNELS_CHUNK) {
                const int64_t live = clip(all->inner * wide - i, BGI_CHANNELS_CHUNK);
                const int64_t at = (n * all->c + first + c) * all->inner + i;
                const float *x = view_floats(dtype, call->operands[0], at, live, buffer);
                float *to = begin_output(dtype, y, at, buffer);

                if (all->inner == 1)
                    scale_across(x, live, &s, to);
                else
                    scale_row(x, live, s.mean[c], s.scale[c], s.shift[c], to);
                end_output(dtype, y, at, live, buffer);
            }
}

/* The blocks of channels of a part. */
#define FOR_BLOCKS(all, part, first, count)                                                                            \
    for (int64_t first = bgi_channels_start(&(all), (part)), end_ = bgi_channels_start(&(all), (part) + 1),            \
                 count = clip(end_ - first, bgi_channels_block(&(all)));                                               \
         first < end_; first += count, count = clip(end_ - first, bgi_channels_block(&(all))))

static void run_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_norm_attributes *attributes = call->attributes;
    const bgi_channels all = bgi_channels_read(&call->types[0]);
    const int64_t elements = all.n * all.inner;
    double means[BGI_CHANNELS_CHUNK], variances[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(all, part, first, count)
    {
        if (call->env->training)
            measure_channels(&all, call->types[0].dtype, call->operands[0], first, count, means, variances);
        for (int64_t c = 0; c < count; c++) {
            if (call->env->training) {
                variances[c] /= (double)elements;
                bgi_update_running(call, attributes->momentum, elements, first + c, means[c], variances[c]);
            } else {
                means[c] = bgi_load(call->types[3].dtype, call->operands[3], first + c);
                variances[c] = bgi_load(call->types[4].dtype, call->operands[4], first + c);
            }
            variances[c] = 1.0 / sqrt(variances[c] + attributes->epsilon);
        }
        normalize_channels(call, &all, first, count, means, variances);
    }
}

/* ---- backward ---- */

/* Sums of dy and of dy (x - mean) over adjacent elements. */
static void add_products(const float *dy, const float *x, int64_t count, float mean, channel_sums *sums)
{
    vd sum[2] = {sums->lanes[0][0], sums->lanes[0][1]}, products[2] = {sums->lanes[1][0], sums->lanes[1][1]};
    const vd from = vset_double((double)mean);
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        UNROLL
        for (int half = 0; half < 2; half++) {
            const vd d = vload_doubles(dy + i + half * (LANES / 2));

            sum[half] += d;
            products[half] += d * (vload_doubles(x + i + half * (LANES / 2)) - from);
        }
    }
    for (; i < count; i++) {
        sums->rest[0] += (double)dy[i];
        sums->rest[1] += (double)dy[i] * ((double)x[i] - (double)mean);
    }
    for (int half = 0; half < 2; half++) {
        sums->lanes[0][half] = sum[half];
        sums->lanes[1][half] = products[half];
    }
}

static void add_products_across(const float *dy, const float *x, int64_t count, const float *means, double *sums,
                                double *products)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)dy[i];
        products[i] += (double)dy[i] * ((double)x[i] - (double)means[i]);
    }
}

/* dy, x, mean, rstd of channels first..first + count - 1: sums of dy, and of dy xhat. */
static void sum_channel_gradients(const bg_kernel_call *call, const bgi_channels *all, int64_t first, int64_t count,
                                  double *sums, double *products)
{
    const bg_dtype dtype = call->types[1].dtype;
    const float *means = (const float *)call->operands[2] + first, *rstds = (const float *)call->operands[3] + first;
    float wide_dy[BGI_CHANNELS_CHUNK], wide_x[BGI_CHANNELS_CHUNK];

    if (all->inner == 1) {
        memset(sums, 0, (size_t)count * sizeof(double));
        memset(products, 0, (size_t)count * sizeof(double));
        for (int64_t n = 0; n < all->n; n++)
            add_products_across(view_floats(dtype, call->operands[0], n * all->c + first, count, wide_dy),
                                view_floats(dtype, call->operands[1], n * all->c + first, count, wide_x), count, means,
                                sums, products);
    } else {
        channel_sums kept[BGI_CHANNELS_TOGETHER];

        memset(kept, 0, (size_t)count * sizeof *kept);
        for (int64_t n = 0; n < all->n; n++)
            for (int64_t c = 0; c < count; c++)
                for (int64_t i = 0; i < all->inner; i += BGI_CHANNELS_CHUNK) {
                    const int64_t live = clip(all->inner - i, BGI_CHANNELS_CHUNK);
                    const int64_t at = (n * all->c + first + c) * all->inner + i;

                    add_products(view_floats(dtype, call->operands[0], at, live, wide_dy),
                                 view_floats(dtype, call->operands[1], at, live, wide_x), live, means[c], &kept[c]);
                }
        for (int64_t c = 0; c < count; c++) {
            sums[c] = total_of(&kept[c], 0);
            products[c] = total_of(&kept[c], 1);
        }
    }
    for (int64_t c = 0; c < count; c++)
        products[c] *= (double)rstds[c];
}

/* dx = (dy - mean(dy)) scale + (x - mean) slope, with scale = rstd gamma and slope = -scale rstd mean(dy xhat) */
typedef struct channel_slopes {
    float average[BGI_CHANNELS_CHUNK], scale[BGI_CHANNELS_CHUNK], slope[BGI_CHANNELS_CHUNK];
} channel_slopes;

static void slope_row(const float *dy, const float *x, int64_t count, float mean, float average, float scale,
                      float slope, float *dx)
{
    FOR_ROW(count, live)
    vstore_n(
        dx + i,
        vfma(vload_n(x + i, live) - vset(mean), vset(slope), (vload_n(dy + i, live) - vset(average)) * vset(scale)),
        live);
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

/* dy, x, mean, rstd, gamma, ... -> dx. `sums`, `products` and `elements` cover all values that the statistics cover. */
static void store_channel_gradients(const bg_kernel_call *call, const bgi_channels *all, int64_t first, int64_t count,
                                    const double *sums, const double *products, double elements)
{
    const bg_dtype dtype = call->types[1].dtype;
    const int64_t wide = all->inner == 1 ? count : 1;
    const float *means = (const float *)call->operands[2] + first, *rstds = (const float *)call->operands[3] + first;
    void *const dx = call->operands[call->input_count];
    float wide_dy[BGI_CHANNELS_CHUNK], wide_x[BGI_CHANNELS_CHUNK];
    channel_slopes s;

    for (int64_t c = 0; c < count; c++) {
        const double scale = (double)rstds[c] * bgi_load(dtype, call->operands[4], first + c);

        s.average[c] = (float)(sums[c] / elements);
        s.scale[c] = (float)scale;
        s.slope[c] = (float)(-scale * (double)rstds[c] * products[c] / elements);
    }
    for (int64_t n = 0; n < all->n; n++)
        for (int64_t c = 0; c < count; c += wide)
            for (int64_t i = 0; i < all->inner * wide; i += BGI_CHANNELS_CHUNK) {
                const int64_t live = clip(all->inner * wide - i, BGI_CHANNELS_CHUNK);
                const int64_t at = (n * all->c + first + c) * all->inner + i;
                const float *dy = view_floats(dtype, call->operands[0], at, live, wide_dy);
                const float *x = view_floats(dtype, call->operands[1], at, live, wide_x);
                float *to = begin_output(dtype, dx, at, wide_x);

                if (all->inner == 1)
                    slope_across(dy, x, live, means, &s, to);
                else
                    slope_row(dy, x, live, means[c], s.average[c], s.scale[c], s.slope[c], to);
                end_output(dtype, dx, at, live, wide_x);
            }
}

/* dgamma and dbeta */
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
    const bgi_channels all = bgi_channels_read(&call->types[1]);
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(all, part, first, count)
    {
        sum_channel_gradients(call, &all, first, count, sums, products);
        store_affine_gradients(call, first, count, sums, products);
        store_channel_gradients(call, &all, first, count, sums, products, (double)(all.n * all.inner));
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
        normalize_channels(call, &all, first, count, means, rstds);
    }
}

static void run_batch_norm_gradient_sums(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(&call->types[1]);
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK], *totals = call->operands[4];

    FOR_BLOCKS(all, part, first, count)
    {
        sum_channel_gradients(call, &all, first, count, sums, products);
        for (int64_t c = 0; c < count; c++) {
            totals[2 * (first + c)] = sums[c];
            totals[2 * (first + c) + 1] = products[c];
        }
    }
}

static void run_sync_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sync_norm_attributes *attributes = call->attributes;
    const bgi_channels all = bgi_channels_read(&call->types[1]);
    const double elements = (double)(all.n * all.inner) * (double)attributes->members;
    const double *own = call->operands[5], *total = call->operands[6];
    double sums[BGI_CHANNELS_CHUNK], products[BGI_CHANNELS_CHUNK];

    FOR_BLOCKS(all, part, first, count)
    {
        for (int64_t c = 0; c < count; c++) {
            sums[c] = own[2 * (first + c)];
            products[c] = own[2 * (first + c) + 1];
        }
        store_affine_gradients(call, first, count, sums, products);
        for (int64_t c = 0; c < count; c++) {
            sums[c] = total[2 * (first + c)];
            products[c] = total[2 * (first + c) + 1];
        }
        store_channel_gradients(call, &all, first, count, sums, products, elements);
    }
}

#endif
