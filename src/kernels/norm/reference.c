/*
 * reference.c: layer and batch normalization in plain C. Statistics are computed in two passes (mean, then squared
 * differences from it), which avoids cancellation. The elementwise pass reads before it writes, so y may overwrite x.
 *
 * With xhat = (x - mean) rstd and g = dy gamma, the gradients of both norms are
 *     dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma = sum(dy xhat),  dbeta = sum(dy).
 * Means are over the elements that were normalized together.
 */
#include "kernels/kernels.h"

#include "kernels/elementwise/fast.h"
#include "kernels/norm/attributes.h"
#include "kernels/norm/channels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

/* ---- layer norm: rows of the last dim ---- */

typedef struct rows {
    int64_t count, length;
} rows;

static rows read_rows(const bg_type *x)
{
    const int64_t length = x->dims[x->rank - 1];

    return (rows){bg_type_element_count(x) / length, length};
}

/* Stores y = xhat, or xhat gamma + beta, and the statistics. */
static void normalize_row(const bg_kernel_call *call, rows all, int64_t row, double mean, double rstd)
{
    const bg_type *type = bgi_input_type(call, 0), *statistics = bgi_output_type(call, 1);
    const int64_t first = row * all.length;
    const bool is_affine = call->input_count > 1;

    for (int64_t i = 0; i < all.length; i++) {
        double value = (bgi_load(type->dtype, call->operands[0], first + i) - mean) * rstd;

        if (is_affine)
            value = value * bgi_load(type->dtype, call->operands[1], i) + bgi_load(type->dtype, call->operands[2], i);
        bgi_store(type->dtype, bgi_output(call, 0), first + i, value);
    }
    bgi_store(statistics->dtype, bgi_output(call, 1), row, mean);
    bgi_store(statistics->dtype, bgi_output(call, 2), row, rstd);
}

void bgi_reference_layer_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_norm_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 0);
    const rows all = read_rows(type);
    const void *x = call->operands[0];

    (void)part;
    for (int64_t row = 0; row < all.count; row++) {
        const int64_t first = row * all.length;
        double mean = 0.0, variance = 0.0;

        for (int64_t i = 0; i < all.length; i++)
            mean += bgi_load(type->dtype, x, first + i);
        mean /= (double)all.length;
        for (int64_t i = 0; i < all.length; i++) {
            const double difference = bgi_load(type->dtype, x, first + i) - mean;

            variance += difference * difference;
        }
        normalize_row(call, all, row, mean, 1.0 / sqrt(variance / (double)all.length + attributes->epsilon));
    }
}

/* One row of the operands of the backward pass: dy, x, mean, rstd, gamma?. */
typedef struct layer_norm_row {
    const bg_kernel_call *call;
    bg_dtype dtype;
    int64_t first;
    double mean, rstd;
} layer_norm_row;

static layer_norm_row read_layer_norm_row(const bg_kernel_call *call, rows all, int64_t row)
{
    const bg_dtype statistics = bgi_input_type(call, 2)->dtype;

    return (layer_norm_row){call, bgi_input_type(call, 1)->dtype, row * all.length,
                            bgi_load(statistics, call->operands[2], row), bgi_load(statistics, call->operands[3], row)};
}

static double xhat_of(const layer_norm_row *row, int64_t i)
{
    return (bgi_load(row->dtype, row->call->operands[1], row->first + i) - row->mean) * row->rstd;
}

static double dy_of(const layer_norm_row *row, int64_t i)
{
    return bgi_load(row->dtype, row->call->operands[0], row->first + i);
}

static double g_of(const layer_norm_row *row, int64_t i)
{
    return row->call->input_count > 4 ? dy_of(row, i) * bgi_load(row->dtype, row->call->operands[4], i) : dy_of(row, i);
}

static void store_layer_norm_affine_gradients(const bg_kernel_call *call, bg_dtype dtype, rows all)
{
    for (int64_t i = 0; i < all.length; i++) {
        double dgamma = 0.0, dbeta = 0.0;

        for (int64_t r = 0; r < all.count; r++) {
            const layer_norm_row row = read_layer_norm_row(call, all, r);

            dgamma += dy_of(&row, i) * xhat_of(&row, i);
            dbeta += dy_of(&row, i);
        }
        bgi_store(dtype, bgi_output(call, 1), i, dgamma);
        bgi_store(dtype, bgi_output(call, 2), i, dbeta);
    }
}

/* Computes the sums of g and of g xhat. */
static void sum_row_gradient(const layer_norm_row *row, int64_t length, double out[2])
{
    out[0] = out[1] = 0.0;
    for (int64_t i = 0; i < length; i++) {
        out[0] += g_of(row, i);
        out[1] += g_of(row, i) * xhat_of(row, i);
    }
}

static void store_row_gradient(const layer_norm_row *row, int64_t length, double mean_g, double mean_g_xhat)
{
    for (int64_t i = 0; i < length; i++)
        bgi_store(row->dtype, bgi_output(row->call, 0), row->first + i,
                  row->rstd * (g_of(row, i) - mean_g - xhat_of(row, i) * mean_g_xhat));
}

void bgi_reference_layer_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *x = bgi_input_type(call, 1);
    const rows all = read_rows(x);

    (void)part;
    /* dgamma and dbeta are computed before dx, which may overwrite dy. */
    if (bgi_has_output(call, 1))
        store_layer_norm_affine_gradients(call, x->dtype, all);
    for (int64_t r = 0; r < all.count; r++) {
        const layer_norm_row row = read_layer_norm_row(call, all, r);
        double sums[2];

        sum_row_gradient(&row, all.length, sums);
        store_row_gradient(&row, all.length, sums[0] / (double)all.length, sums[1] / (double)all.length);
    }
}

/* ---- sharded layer norm: between these kernels, the statistics are added up over replicas ---- */

/* Sums x and x^2 in double, which represents squares of float32 exactly, so that cancellation in the variance does not
 * affect float32 results. */
void bgi_reference_norm_sums(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *type = bgi_input_type(call, 0);
    const rows all = read_rows(type);

    (void)part;
    for (int64_t row = 0; row < all.count; row++) {
        double sum = 0.0, squares = 0.0;

        for (int64_t i = 0; i < all.length; i++) {
            const double x = bgi_load(type->dtype, call->operands[0], row * all.length + i);

            sum += x;
            squares += x * x;
        }
        bgi_store(BG_FLOAT64, bgi_output(call, 0), 2 * row, sum);
        bgi_store(BG_FLOAT64, bgi_output(call, 0), 2 * row + 1, squares);
    }
}

void bgi_reference_sharded_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sharded_norm_attributes *attributes = call->attributes;
    const rows all = read_rows(bgi_input_type(call, 0));
    const double width = (double)attributes->width;

    (void)part;
    for (int64_t row = 0; row < all.count; row++) {
        const double mean = bgi_load(BG_FLOAT64, call->operands[3], 2 * row) / width;
        const double variance = bgi_load(BG_FLOAT64, call->operands[3], 2 * row + 1) / width - mean * mean;

        normalize_row(call, all, row, mean, 1.0 / sqrt(fmax(variance, 0.0) + attributes->epsilon));
    }
}

void bgi_reference_norm_gradient_sums(const bg_kernel_call *call, uint32_t part)
{
    const rows all = read_rows(bgi_input_type(call, 1));

    (void)part;
    for (int64_t r = 0; r < all.count; r++) {
        const layer_norm_row row = read_layer_norm_row(call, all, r);
        double sums[2];

        sum_row_gradient(&row, all.length, sums);
        for (int64_t i = 0; i < 2; i++)
            bgi_store(BG_FLOAT64, bgi_output(call, 0), 2 * r + i, sums[i]);
    }
}

void bgi_reference_sharded_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sharded_norm_attributes *attributes = call->attributes;
    const bg_type *x = bgi_input_type(call, 1);
    const rows all = read_rows(x);
    const double width = (double)attributes->width;

    (void)part;
    store_layer_norm_affine_gradients(call, x->dtype, all);
    for (int64_t r = 0; r < all.count; r++) {
        const layer_norm_row row = read_layer_norm_row(call, all, r);

        store_row_gradient(&row, all.length, bgi_load(BG_FLOAT64, call->operands[5], 2 * r) / width,
                           bgi_load(BG_FLOAT64, call->operands[5], 2 * r + 1) / width);
    }
}

/* ---- batch norm: channels, dim 1 ---- */

/* Returns the index in x of element i of the n * inner elements of a channel. */
static int64_t index_of(const bgi_channels *all, int64_t channel, int64_t i)
{
    return (i / all->inner * all->c + channel) * all->inner + i % all->inner;
}

static void measure_channel(const bgi_channels *all, bg_dtype dtype, const void *x, int64_t channel, double *out_mean,
                            double *out_variance)
{
    const int64_t count = all->n * all->inner;
    double mean = 0.0, variance = 0.0;

    for (int64_t i = 0; i < count; i++)
        mean += bgi_load(dtype, x, index_of(all, channel, i));
    mean /= (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double difference = bgi_load(dtype, x, index_of(all, channel, i)) - mean;

        variance += difference * difference;
    }
    *out_mean = mean;
    *out_variance = variance / (double)count;
}

/* Returns an element of the norm's result, not rounded. */
static double normalize(bg_dtype dtype, const void *x, int64_t at, double mean, double rstd, double gamma, double beta)
{
    return (bgi_load(dtype, x, at) - mean) * rstd * gamma + beta;
}

/* Computes y of a channel; the first operands are x, gamma and beta. */
static void normalize_channel(const bg_kernel_call *call, const bgi_channels *all, int64_t channel, double mean,
                              double rstd)
{
    const bg_dtype dtype = bgi_input_type(call, 0)->dtype;
    const double gamma = bgi_load(dtype, call->operands[1], channel);
    const double beta = bgi_load(dtype, call->operands[2], channel);

    for (int64_t i = 0; i < all->n * all->inner; i++) {
        const int64_t at = index_of(all, channel, i);

        bgi_store(dtype, bgi_output(call, 0), at, normalize(dtype, call->operands[0], at, mean, rstd, gamma, beta));
    }
}

/* Stores mean and rstd. */
static void store_statistics(const bg_kernel_call *call, int64_t channel, double mean, double rstd)
{
    const bg_dtype statistics = bgi_output_type(call, 1)->dtype;

    bgi_store(statistics, bgi_output(call, 1), channel, mean);
    bgi_store(statistics, bgi_output(call, 2), channel, rstd);
}

/* Finds the statistics that normalize a channel: the batch's own statistics in training, otherwise the running ones. */
static void find_statistics(const bg_kernel_call *call, const bgi_channels *all, int64_t channel, double *mean,
                            double *rstd)
{
    const bgi_norm_attributes *attributes = call->attributes;
    double variance;

    if (call->env->training) {
        measure_channel(all, bgi_input_type(call, 0)->dtype, call->operands[0], channel, mean, &variance);
        bgi_update_running(call, attributes->momentum, all->n * all->inner, channel, *mean, variance);
    } else {
        *mean = bgi_load(bgi_input_type(call, 3)->dtype, call->operands[3], channel);
        variance = bgi_load(bgi_input_type(call, 4)->dtype, call->operands[4], channel);
    }
    *rstd = 1.0 / sqrt(variance + attributes->epsilon);
}

void bgi_reference_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(bgi_input_type(call, 0));

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        double mean, rstd;

        find_statistics(call, &all, c, &mean, &rstd);
        normalize_channel(call, &all, c, mean, rstd);
        store_statistics(call, c, mean, rstd);
    }
}

void bgi_reference_fused_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_fused_norm_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 0);
    const bgi_channels all = bgi_channels_read(type);
    void *const y = bgi_output(call, 0);

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        double mean, rstd;

        find_statistics(call, &all, c, &mean, &rstd);
        normalize_channel(call, &all, c, mean, rstd);
        bgi_store(BG_FLOAT64, bgi_output(call, 1), 2 * c, mean);
        bgi_store(BG_FLOAT64, bgi_output(call, 1), 2 * c + 1, rstd);
    }
    for (int64_t i = 0; i < bg_type_element_count(type); i++) {
        if (attributes->adds)
            bgi_store(type->dtype, y, i, bgi_load(type->dtype, y, i) + bgi_load(type->dtype, call->operands[5], i));
        if (attributes->maps)
            bgi_store(type->dtype, y, i, bgi_unary_value(&attributes->unary, bgi_load(type->dtype, y, i)));
    }
}

/* A channel's statistics from the forward op, and the operands of its gradient. */
typedef struct channel_gradient {
    bg_dtype dtype;
    const void *dy, *x;
    double mean, rstd;
} channel_gradient;

/* Reads the operands and statistics of a channel; the operands are dy, x, mean, rstd. */
static channel_gradient read_channel_gradient(const bg_kernel_call *call, int64_t channel)
{
    const bg_dtype statistics = bgi_input_type(call, 2)->dtype;

    return (channel_gradient){.dtype = bgi_input_type(call, 1)->dtype,
                              .dy = call->operands[0],
                              .x = call->operands[1],
                              .mean = bgi_load(statistics, call->operands[2], channel),
                              .rstd = bgi_load(statistics, call->operands[3], channel)};
}

/* Computes the sums of dy, and of dy xhat. */
static void sum_channel_gradient(const channel_gradient *g, const bgi_channels *all, int64_t channel, double *sums)
{
    sums[0] = sums[1] = 0.0;
    for (int64_t i = 0; i < all->n * all->inner; i++) {
        const int64_t at = index_of(all, channel, i);

        sums[0] += bgi_load(g->dtype, g->dy, at);
        sums[1] += bgi_load(g->dtype, g->dy, at) * (bgi_load(g->dtype, g->x, at) - g->mean) * g->rstd;
    }
}

/* Stores dx of a channel; `sums` and `count` cover all values that the statistics cover. */
static void store_channel_gradient(const bg_kernel_call *call, const channel_gradient *g, const bgi_channels *all,
                                   int64_t channel, double gamma, const double *sums, double count)
{
    for (int64_t i = 0; i < all->n * all->inner; i++) {
        const int64_t at = index_of(all, channel, i);
        const double xhat = (bgi_load(g->dtype, g->x, at) - g->mean) * g->rstd;

        bgi_store(g->dtype, bgi_output(call, 0), at,
                  g->rstd * gamma * (bgi_load(g->dtype, g->dy, at) - sums[0] / count - xhat * sums[1] / count));
    }
}

void bgi_reference_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(bgi_input_type(call, 1));

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        const channel_gradient g = read_channel_gradient(call, c);
        double sums[2];

        sum_channel_gradient(&g, &all, c, sums);
        store_channel_gradient(call, &g, &all, c, bgi_load(g.dtype, call->operands[4], c), sums,
                               (double)(all.n * all.inner));
        bgi_store(g.dtype, bgi_output(call, 1), c, sums[1]);
        bgi_store(g.dtype, bgi_output(call, 2), c, sums[0]);
    }
}

/* Stores the gradient of a channel of the norm's result, computed from dy, the gradient of the function's result. */
static void store_function_gradient(const bg_kernel_call *call, const channel_gradient *g, const bgi_channels *all,
                                    int64_t channel, void *out)
{
    const bgi_fused_norm_attributes *attributes = call->attributes;
    const double mean = bgi_load(BG_FLOAT64, call->operands[2], 2 * channel);
    const double rstd = bgi_load(BG_FLOAT64, call->operands[2], 2 * channel + 1);
    const double gamma = bgi_load(g->dtype, call->operands[3], channel);
    const double beta = bgi_load(g->dtype, call->operands[4], channel);

    for (int64_t i = 0; i < all->n * all->inner; i++) {
        const int64_t at = index_of(all, channel, i);
        double result, y; /* rounded */

        bgi_store(g->dtype, &result, 0, normalize(g->dtype, g->x, at, mean, rstd, gamma, beta));
        result = bgi_load(g->dtype, &result, 0);
        bgi_store(g->dtype, &y, 0, bgi_unary_value(&attributes->unary, result));
        y = bgi_load(g->dtype, &y, 0);
        bgi_store(g->dtype, out, at, bgi_unary_gradient(&attributes->unary, bgi_load(g->dtype, g->dy, at), result, y));
    }
}

void bgi_reference_fused_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_fused_norm_attributes *attributes = call->attributes;
    const bg_type *x = bgi_input_type(call, 1);
    const bgi_channels all = bgi_channels_read(x);
    const bg_dtype statistics = x->dtype == BG_FLOAT64 ? BG_FLOAT64 : BG_FLOAT32;

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        channel_gradient g = {.dtype = x->dtype, .dy = call->operands[0], .x = call->operands[1]};
        double rounded, sums[2];

        bgi_store(statistics, &rounded, 0, bgi_load(BG_FLOAT64, call->operands[2], 2 * c));
        g.mean = bgi_load(statistics, &rounded, 0);
        bgi_store(statistics, &rounded, 0, bgi_load(BG_FLOAT64, call->operands[2], 2 * c + 1));
        g.rstd = bgi_load(statistics, &rounded, 0);
        if (attributes->maps) {
            store_function_gradient(call, &g, &all, c, bgi_output(call, 0));
            g.dy = bgi_output(call, 0);
        }
        sum_channel_gradient(&g, &all, c, sums);
        store_channel_gradient(call, &g, &all, c, bgi_load(x->dtype, call->operands[3], c), sums,
                               (double)(all.n * all.inner));
        bgi_store(g.dtype, bgi_output(call, 1), c, sums[1]);
        bgi_store(g.dtype, bgi_output(call, 2), c, sums[0]);
    }
}

/* ---- batch norm over replicas: between these kernels, moments are gathered and sums of gradients added up ---- */

void bgi_reference_batch_norm_moments(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *x = bgi_input_type(call, 0);
    const bgi_channels all = bgi_channels_read(x);

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        double mean, variance;

        measure_channel(&all, x->dtype, call->operands[0], c, &mean, &variance);
        bgi_store(BG_FLOAT64, bgi_output(call, 0), 2 * c, mean);
        bgi_store(BG_FLOAT64, bgi_output(call, 0), 2 * c + 1, variance * (double)(all.n * all.inner));
    }
}

void bgi_reference_sync_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sync_norm_attributes *attributes = call->attributes;
    const bgi_channels all = bgi_channels_read(bgi_input_type(call, 0));
    const int64_t members = (int64_t)attributes->members;

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        double mean, variance;

        bgi_combine_moments(call->operands[5], &all, members, c, &mean, &variance);
        bgi_update_running(call, attributes->momentum, all.n * all.inner * members, c, mean, variance);
        normalize_channel(call, &all, c, mean, 1.0 / sqrt(variance + attributes->epsilon));
        store_statistics(call, c, mean, 1.0 / sqrt(variance + attributes->epsilon));
    }
}

void bgi_reference_batch_norm_gradient_sums(const bg_kernel_call *call, uint32_t part)
{
    const bgi_channels all = bgi_channels_read(bgi_input_type(call, 1));

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        const channel_gradient g = read_channel_gradient(call, c);
        double sums[2];

        sum_channel_gradient(&g, &all, c, sums);
        for (int64_t i = 0; i < 2; i++)
            bgi_store(BG_FLOAT64, bgi_output(call, 0), 2 * c + i, sums[i]);
    }
}

void bgi_reference_sync_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sync_norm_attributes *attributes = call->attributes;
    const bgi_channels all = bgi_channels_read(bgi_input_type(call, 1));
    const double count = (double)(all.n * all.inner) * (double)attributes->members;

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        const channel_gradient g = read_channel_gradient(call, c);
        const double sums[2] = {bgi_load(BG_FLOAT64, call->operands[6], 2 * c),
                                bgi_load(BG_FLOAT64, call->operands[6], 2 * c + 1)};

        store_channel_gradient(call, &g, &all, c, bgi_load(g.dtype, call->operands[4], c), sums, count);
        bgi_store(g.dtype, bgi_output(call, 1), c, bgi_load(BG_FLOAT64, call->operands[5], 2 * c + 1));
        bgi_store(g.dtype, bgi_output(call, 2), c, bgi_load(BG_FLOAT64, call->operands[5], 2 * c));
    }
}
