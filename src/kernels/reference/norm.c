/*
 * norm.c: layer and batch normalisation in plain C. Statistics come in two passes (mean, then squared differences from
 * it), which is safe against cancellation. The element-by-element pass reads before it writes: y may overwrite x.
 *
 * With xhat = (x - mean) rstd and g = dy gamma, both gradients are
 *     dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma = sum(dy xhat),  dbeta = sum(dy),
 * with means over what was normalised together.
 */
#include "kernels/kernels.h"

#include "kernels/attributes.h"
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

/* y = xhat, or xhat gamma + beta; and the statistics. */
static void normalise_row(const bg_kernel_call *call, rows all, int64_t row, double mean, double rstd)
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
        normalise_row(call, all, row, mean, 1.0 / sqrt(variance / (double)all.length + attributes->epsilon));
    }
}

/* One row of the backward's operands: dy, x, mean, rstd, gamma?. */
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

/* Sums of g and of g xhat. */
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
    /* Before dx, which may overwrite dy. */
    if (bgi_has_output(call, 1))
        store_layer_norm_affine_gradients(call, x->dtype, all);
    for (int64_t r = 0; r < all.count; r++) {
        const layer_norm_row row = read_layer_norm_row(call, all, r);
        double sums[2];

        sum_row_gradient(&row, all.length, sums);
        store_row_gradient(&row, all.length, sums[0] / (double)all.length, sums[1] / (double)all.length);
    }
}

/* ---- layer norm in pieces: the statistics are added up over replicas between these ---- */

/* Sums of x and of x^2 in double, in which the squares of float32 are exact: what cancels in the variance is nothing
 * that float32 would show. */
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

        normalise_row(call, all, row, mean, 1.0 / sqrt(fmax(variance, 0.0) + attributes->epsilon));
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

/* x as [N, C, inner]; a channel's element i of n * inner is at index(i). */
typedef struct channels {
    int64_t n, c, inner;
} channels;

static channels read_channels(const bg_type *x)
{
    channels all = {x->dims[0], x->dims[1], 1};

    for (uint32_t i = 2; i < x->rank; i++)
        all.inner *= x->dims[i];
    return all;
}

static int64_t index_of(const channels *all, int64_t channel, int64_t i)
{
    return (i / all->inner * all->c + channel) * all->inner + i % all->inner;
}

static void measure_channel(const channels *all, bg_dtype dtype, const void *x, int64_t channel, double *out_mean,
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

/* Running statistics take the unbiased variance; of a single value there is none, and 0 stands for it. */
static void update_running(const bg_kernel_call *call, double momentum, int64_t count, int64_t channel, double mean,
                           double variance)
{
    const double unbiased = count > 1 ? variance * (double)count / (double)(count - 1) : 0.0;
    const double batch[2] = {mean, unbiased};

    for (uint32_t i = 0; i < 2; i++) {
        const bg_dtype dtype = bgi_input_type(call, 3 + i)->dtype;
        const double running = bgi_load(dtype, call->operands[3 + i], channel);

        bgi_store(dtype, call->operands[3 + i], channel, (1.0 - momentum) * running + momentum * batch[i]);
    }
}

void bgi_reference_batch_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_norm_attributes *attributes = call->attributes;
    const bg_dtype dtype = bgi_input_type(call, 0)->dtype;
    const bg_dtype statistics = bgi_output_type(call, 1)->dtype;
    const channels all = read_channels(bgi_input_type(call, 0));
    const int64_t count = all.n * all.inner;

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        const double gamma = bgi_load(dtype, call->operands[1], c), beta = bgi_load(dtype, call->operands[2], c);
        double mean, variance, rstd;

        if (call->env->training) {
            measure_channel(&all, dtype, call->operands[0], c, &mean, &variance);
            update_running(call, attributes->momentum, count, c, mean, variance);
        } else {
            mean = bgi_load(bgi_input_type(call, 3)->dtype, call->operands[3], c);
            variance = bgi_load(bgi_input_type(call, 4)->dtype, call->operands[4], c);
        }
        rstd = 1.0 / sqrt(variance + attributes->epsilon);
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = index_of(&all, c, i);

            bgi_store(dtype, bgi_output(call, 0), at,
                      (bgi_load(dtype, call->operands[0], at) - mean) * rstd * gamma + beta);
        }
        bgi_store(statistics, bgi_output(call, 1), c, mean);
        bgi_store(statistics, bgi_output(call, 2), c, rstd);
    }
}

void bgi_reference_batch_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = bgi_input_type(call, 1)->dtype, statistics = bgi_input_type(call, 2)->dtype;
    const channels all = read_channels(bgi_input_type(call, 1));
    const int64_t count = all.n * all.inner;
    const void *dy = call->operands[0], *x = call->operands[1];

    (void)part;
    for (int64_t c = 0; c < all.c; c++) {
        const double mean = bgi_load(statistics, call->operands[2], c);
        const double rstd = bgi_load(statistics, call->operands[3], c);
        const double gamma = bgi_load(dtype, call->operands[4], c);
        double dbeta = 0.0, dgamma = 0.0;

        for (int64_t i = 0; i < count; i++) {
            const int64_t at = index_of(&all, c, i);

            dbeta += bgi_load(dtype, dy, at);
            dgamma += bgi_load(dtype, dy, at) * (bgi_load(dtype, x, at) - mean) * rstd;
        }
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = index_of(&all, c, i);
            const double xhat = (bgi_load(dtype, x, at) - mean) * rstd;

            bgi_store(dtype, bgi_output(call, 0), at,
                      rstd * gamma * (bgi_load(dtype, dy, at) - dbeta / (double)count - xhat * dgamma / (double)count));
        }
        bgi_store(dtype, bgi_output(call, 1), c, dgamma);
        bgi_store(dtype, bgi_output(call, 2), c, dbeta);
    }
}
