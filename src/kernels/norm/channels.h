/*
 * channels.h: the channels of a batch norm, the groups of a group norm, and the computations done once per channel,
 * which plain and fast bodies share.
 */
#ifndef BGI_KERNELS_NORM_CHANNELS_H
#define BGI_KERNELS_NORM_CHANNELS_H

#include "kernels/norm/attributes.h"
#include "kernels/reference/operands.h"

/* x as [N, C, inner]. */
typedef struct bgi_channels {
    int64_t n, c, inner;
} bgi_channels;

static inline bgi_channels bgi_channels_read(const bg_type *x)
{
    bgi_channels all = {x->dims[0], x->dims[1], 1};

    for (uint32_t i = 2; i < x->rank; i++)
        all.inner *= x->dims[i];
    return all;
}

/* x as [N, groups, channels, inner]: the channels of a group. */
typedef struct bgi_groups {
    int64_t n, groups, channels, inner;
    int64_t length; /* elements of a group */
} bgi_groups;

static inline bgi_groups bgi_groups_read(const bg_type *x, const bgi_group_norm_attributes *attributes)
{
    const bgi_channels all = bgi_channels_read(x);
    const int64_t channels = all.c / attributes->groups;

    return (bgi_groups){all.n, attributes->groups, channels, all.inner, channels * all.inner};
}

/* Updates the running statistics of a channel, with the unbiased variance, or 0 for a single value. */
static inline void bgi_update_running(const bg_kernel_call *call, double momentum, int64_t count, int64_t channel,
                                      double mean, double variance)
{
    const double unbiased = count > 1 ? variance * (double)count / (double)(count - 1) : 0.0;
    const double batch[2] = {mean, unbiased};

    for (uint32_t i = 0; i < 2; i++) {
        const bg_dtype dtype = bgi_input_type(call, 3 + i)->dtype;
        const double running = bgi_load(dtype, call->operands[3 + i], channel);

        bgi_store(dtype, call->operands[3 + i], channel, (1.0 - momentum) * running + momentum * batch[i]);
    }
}

/* Computes the statistics of all replicas' values of a channel, from the moments of each replica's values (Chan et al.,
 * 1983). */
static inline void bgi_combine_moments(const void *moments, const bgi_channels *all, int64_t members, int64_t channel,
                                       double *out_mean, double *out_variance)
{
    const double count = (double)(all->n * all->inner);
    double mean = 0.0, squares = 0.0;

    for (int64_t m = 0; m < members; m++)
        mean += bgi_load(BG_FLOAT64, moments, 2 * (m * all->c + channel));
    mean /= (double)members;
    for (int64_t m = 0; m < members; m++) {
        const double difference = bgi_load(BG_FLOAT64, moments, 2 * (m * all->c + channel)) - mean;

        squares += bgi_load(BG_FLOAT64, moments, 2 * (m * all->c + channel) + 1) + count * difference * difference;
    }
    *out_mean = mean;
    *out_variance = squares / (count * (double)members);
}

#endif
