/*
 * group_body.h: group norm. A group's elements are adjacent, and so are those of each of its channels, so a channel is
 * scaled and shifted as a whole. Channels of one element are the elements of a row, as in layer norm. Sums run in four
 * vectors. Only fast_body.h includes this file, which uses the functions of fast_body.h.
 */
#ifndef BGI_KERNELS_NORM_GROUP_BODY_H
#define BGI_KERNELS_NORM_GROUP_BODY_H

#include "kernels/norm/fast.h"
#include "kernels/norm/fast_body.h"

enum { GROUP_CHAINS = 4 };

ALWAYS_INLINE float sum_chains(const vf *chains)
{
    return vsum((chains[0] + chains[1]) + (chains[2] + chains[3]));
}

/* Computes mean and rstd of a group: first the mean, then squared differences from it. */
static void measure_group(const float *x, int64_t count, double epsilon, float *out_mean, float *out_rstd)
{
    vf sums[GROUP_CHAINS] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)};
    vf squares[GROUP_CHAINS] = {vset(0.0f), vset(0.0f), vset(0.0f), vset(0.0f)}, mean;
    int64_t i = 0;

    for (; i + GROUP_CHAINS * LANES <= count; i += GROUP_CHAINS * LANES) {
        UNROLL
        for (int u = 0; u < GROUP_CHAINS; u++)
            sums[u] += vload(x + i + u * LANES);
    }
    for (; i < count; i += LANES)
        sums[0] += vload_n(x + i, clip(count - i, LANES));
    *out_mean = sum_chains(sums) / (float)count;
    mean = vset(*out_mean);
    for (i = 0; i + GROUP_CHAINS * LANES <= count; i += GROUP_CHAINS * LANES) {
        UNROLL
        for (int u = 0; u < GROUP_CHAINS; u++) {
            const vf difference = vload(x + i + u * LANES) - mean;

            squares[u] = vfma(difference, difference, squares[u]);
        }
    }
    for (; i < count; i += LANES) {
        float lane[LANES] = {0};
        const int64_t live = clip(count - i, LANES);

        vstore_n(lane, vload_n(x + i, live) - mean, live);
        squares[0] = vfma(vload(lane), vload(lane), squares[0]);
    }
    *out_rstd = (float)(1.0 / sqrt((double)sum_chains(squares) / (double)count + epsilon));
}

/* Computes y = (x - mean) scale + shift. */
static void normalize_channel(const float *x, float mean, float scale, float shift, float *y, int64_t count)
{
    const vf middle = vset(mean), factor = vset(scale), more = vset(shift);

    FOR_VECTORS(vfma(vload(x + i) - middle, factor, more), vfma(vload_n(x + i, count - i) - middle, factor, more));
}

static void run_group_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_group_norm_attributes *attributes = call->attributes;
    const bgi_group_work w = bgi_group_work_read(&call->types[0], attributes, false);
    const bgi_groups *all = &w.all;
    const int64_t items = all->n * all->groups, end = bgi_cpu_part_start(items, part + 1, w.parts);
    float *means = call->operands[4], *rstds = call->operands[5];
    float *buffer = bgi_cpu_part_scratch(call, w.part_floats); /* NULL: float32 is read in place */
    float *wide_gammas = buffer != NULL ? buffer + 3 * w.group_floats : NULL;
    float *wide_betas = buffer != NULL ? wide_gammas + w.vector_floats : NULL;
    const float *gammas = view_floats(w.dtype, call->operands[1], 0, w.c, wide_gammas);
    const float *betas = view_floats(w.dtype, call->operands[2], 0, w.c, wide_betas);

    for (int64_t group = bgi_cpu_part_start(items, part, w.parts); group < end; group++) {
        const int64_t at = group * all->length, channel = group % all->groups * all->channels;
        const float *x = view_floats(w.dtype, call->operands[0], at, all->length, buffer);
        float *y = begin_output(w.dtype, call->operands[3], at, buffer);

        measure_group(x, all->length, attributes->epsilon, &means[group], &rstds[group]);
        if (all->inner == 1)
            normalize_row(x, means[group], rstds[group], gammas + channel, betas + channel, y, all->length);
        else
            for (int64_t c = 0; c < all->channels; c++)
                normalize_channel(x + c * all->inner, means[group], rstds[group] * gammas[channel + c],
                                  betas[channel + c], y + c * all->inner, all->inner);
        end_output(w.dtype, call->operands[3], at, all->length, buffer);
    }
}

/* Computes the sums of dy and of dy (x - mean) over a channel. */
static void sum_channel_gradient(const float *dy, const float *x, float mean, int64_t count, float out_sums[2])
{
    vf sums[2] = {vset(0.0f), vset(0.0f)}, products[2] = {vset(0.0f), vset(0.0f)};
    const vf middle = vset(mean);
    int64_t i = 0;

    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        UNROLL
        for (int u = 0; u < 2; u++) {
            const vf d = vload(dy + i + u * LANES);

            sums[u] += d;
            products[u] = vfma(d, vload(x + i + u * LANES) - middle, products[u]);
        }
    }
    for (; i < count; i += LANES) {
        const int64_t live = clip(count - i, LANES);
        const vf d = vload_n(dy + i, live);

        sums[0] += d;
        products[0] = vfma(d, vload_n(x + i, live) - middle, products[0]);
    }
    out_sums[0] = vsum(sums[0] + sums[1]);
    out_sums[1] = vsum(products[0] + products[1]);
}

/* Computes dx = dy scale - (x - mean) slope - shift. */
static void denormalize_channel(const float *dy, const float *x, float mean, float scale, float slope, float shift,
                                float *y, int64_t count)
{
    const vf middle = vset(mean), factor = vset(scale), fall = vset(-slope), less = vset(-shift);

    FOR_VECTORS(vfma(vload(dy + i), factor, vfma(vload(x + i) - middle, fall, less)),
                vfma(vload_n(dy + i, count - i), factor, vfma(vload_n(x + i, count - i) - middle, fall, less)));
}

/* Computes dx of one group, and the sums for dgamma and dbeta of its channels; these and `gamma` begin with the group's
 * first channel. */
static void denormalize_group(const bgi_groups *all, const float *dy, const float *x, float mean, float rstd,
                              const float *gamma, float *dgamma, float *dbeta, float *dx)
{
    float means[2] = {0.0f, 0.0f};

    if (all->inner == 1) {
        memset(dgamma, 0, (size_t)all->channels * sizeof(float));
        memset(dbeta, 0, (size_t)all->channels * sizeof(float));
        sum_gradient_row(dy, x, mean, rstd, gamma, dgamma, dbeta, all->length, means);
        for (int i = 0; i < 2; i++)
            means[i] /= (float)all->length;
        denormalize_row(dy, x, mean, rstd, gamma, means, dx, all->length);
        return;
    }
    for (int64_t c = 0; c < all->channels; c++) {
        float sums[2];

        sum_channel_gradient(dy + c * all->inner, x + c * all->inner, mean, all->inner, sums);
        dbeta[c] = sums[0];
        dgamma[c] = sums[1] * rstd;
        means[0] += gamma[c] * dbeta[c];
        means[1] += gamma[c] * dgamma[c];
    }
    for (int i = 0; i < 2; i++)
        means[i] /= (float)all->length;
    for (int64_t c = 0; c < all->channels; c++)
        denormalize_channel(dy + c * all->inner, x + c * all->inner, mean, rstd * gamma[c], rstd * rstd * means[1],
                            rstd * means[0], dx + c * all->inner, all->inner);
}

static void run_group_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_group_work w = bgi_group_work_read(&call->types[1], call->attributes, true);
    const bgi_groups *all = &w.all;
    const int64_t items = all->n * all->groups, end = bgi_cpu_part_start(items, part + 1, w.parts);
    const float *means = call->operands[2], *rstds = call->operands[3];
    float *sums = call->scratch, *buffer = sums + w.shared_floats + call->runner * w.part_floats;
    const float *gammas = view_floats(w.dtype, call->operands[4], 0, w.c, buffer + 3 * w.group_floats);

    for (int64_t group = bgi_cpu_part_start(items, part, w.parts); group < end; group++) {
        const int64_t at = group * all->length, channel = group % all->groups * all->channels;
        float *dgamma = sums + group / all->groups * 2 * w.c + channel;
        float *out = buffer + 2 * w.group_floats;

        denormalize_group(all, view_floats(w.dtype, call->operands[0], at, all->length, buffer),
                          view_floats(w.dtype, call->operands[1], at, all->length, buffer + w.group_floats),
                          means[group], rstds[group], gammas + channel, dgamma, dgamma + w.c,
                          begin_output(w.dtype, call->operands[5], at, out));
        end_output(w.dtype, call->operands[5], at, all->length, out);
    }
}

/* Computes dgamma and dbeta; samples are added in order. */
static void finish_group_norm_backward(const bg_kernel_call *call)
{
    const bgi_group_work w = bgi_group_work_read(&call->types[1], call->attributes, true);
    float *sums = call->scratch;

    for (int64_t n = 1; n < w.all.n; n++)
        add_loop(sums, sums + n * 2 * w.c, sums, 2 * w.c);
    write_floats(w.dtype, call->operands[6], 0, w.c, sums);
    write_floats(w.dtype, call->operands[7], 0, w.c, sums + w.c);
}

#endif
