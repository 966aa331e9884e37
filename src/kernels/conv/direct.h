/*
 * direct.h: the geometry of convolutions without a matrix of patches, float32 alone.
 *
 * An image is copied once, with its padding written out; then every tap of the filter is the same image from another
 * place on. A stride of s parts the copy into s x s phases, images of every s-th row and column, so that neighbors in
 * the result are neighbors there too. Narrow results take m runs of rows side by side, column by column, so that they
 * fill a vector:
 *
 *     padded row, stride 1   0 a b c d e f 0        tap kx reads from place kx on
 *     stride 2               0 b d f | a c e 0      kx = 0 and 2 read the first from 0 and 1 on, kx = 1 the second
 *     m = 2                  0 0 a A b B c C 0 0    small letters: the upper half's row; tap kx reads from 2 kx on
 *
 * The gradient of the input is such a convolution of dy, one for each phase of dx, with those taps that reach it.
 * Sums run over channels, then taps, in blocks (product.h): forward they have the bits of the matrix product's.
 */
#ifndef BGI_KERNELS_CONV_DIRECT_H
#define BGI_KERNELS_CONV_DIRECT_H

#include "kernels/conv/fast.h"

enum {
    BGI_DIRECT_IMAGE_FLOATS = 40 * 1024,   /* of a copied strip: it stays in a second-level cache */
    BGI_DIRECT_WEIGHTS_FLOATS = 48 * 1024, /* of the images that a sum of dw runs over, copied */
    BGI_DIRECT_RUN = 1024,                 /* positions that a sum of dw runs over, about */
    BGI_DIRECT_SUMS = 1 << 20,             /* floats of all parts' sums of dw */
    BGI_DIRECT_SUM_PART = 16384,           /* of them that a part adds up, about */
    BGI_DIRECT_MOST_STRIDE = 4,
    BGI_DIRECT_MOST_K = 4608
};

/* One convolution: `channels` planes in, results in `rows` x `columns`. */
typedef struct bgi_direct {
    int64_t channels, h, w;      /* in */
    int64_t step[2], padding[2]; /* place r of phase f is row r step + f - padding */
    uint32_t phases[2];          /* bit f: some tap reads phase f */
    int64_t rows, columns;       /* out */
    int64_t side;                /* m above */
    int64_t reach[2];            /* how far taps go, in places */
    int64_t height, width;       /* of a phase, copied: all rows of a side, and columns in whole vectors */
    int64_t plane;               /* of a channel: all phases */
    int64_t vectors;             /* of a row of results */
} bgi_direct;

/* Sizes that follow from the others. */
static inline void bgi_direct_size(bgi_direct *d, int64_t lanes)
{
    d->side = 1;
    while (2 * d->side * d->columns <= lanes && d->rows % (2 * d->side) == 0)
        d->side *= 2;
    d->vectors = (d->columns * d->side + lanes - 1) / lanes;
    d->height = d->rows / d->side + d->reach[0];
    d->width = d->vectors * lanes + d->reach[1] * d->side;
    d->plane = d->step[0] * d->step[1] * d->height * d->width;
}

/* Whether vectors are filled well enough. */
static inline bool bgi_direct_fills(const bgi_direct *d, int64_t lanes)
{
    return 4 * d->columns * d->side >= 3 * d->vectors * lanes;
}

static inline bgi_direct bgi_direct_forward(const bgi_conv *s, int64_t lanes)
{
    bgi_direct d = {.channels = s->cg, .h = s->h, .w = s->w, .rows = s->oh, .columns = s->ow};

    for (int dim = 0; dim < 2; dim++) {
        const int64_t taps = dim == 0 ? s->kh : s->kw, dilation = s->options.dilation[dim];

        d.step[dim] = s->options.stride[dim];
        d.padding[dim] = s->options.padding[dim];
        d.reach[dim] = (taps - 1) * dilation / d.step[dim];
        for (int64_t k = 0; k < taps; k++)
            d.phases[dim] |= 1u << (k * dilation % d.step[dim]);
    }
    bgi_direct_size(&d, lanes);
    return d;
}

/* Along a dim: the first place of dx in phase q, how many there are, and where dy is read for the first through tap k;
 * taps of the phase are those with k dilation = q, modulo the stride. */
static inline int64_t bgi_direct_first(const bgi_conv *s, int dim, int64_t q)
{
    const int64_t stride = s->options.stride[dim], before = s->options.padding[dim] % stride;

    return (q - before + stride) % stride;
}

static inline int64_t bgi_direct_count(const bgi_conv *s, int dim, int64_t q)
{
    const int64_t size = dim == 0 ? s->h : s->w, first = bgi_direct_first(s, dim, q), stride = s->options.stride[dim];

    return first < size ? (size - first - 1) / stride + 1 : 0;
}

static inline bool bgi_direct_has(const bgi_conv *s, int dim, int64_t q, int64_t k)
{
    return k * s->options.dilation[dim] % s->options.stride[dim] == q;
}

/* May be negative; the division is exact. */
static inline int64_t bgi_direct_place(const bgi_conv *s, int dim, int64_t q, int64_t k)
{
    return (bgi_direct_first(s, dim, q) + s->options.padding[dim] - k * s->options.dilation[dim]) /
           s->options.stride[dim];
}

/* The convolution that makes phase (qy, qx) of dx; false: no tap reaches it, or it is empty. */
static inline bool bgi_direct_backward(const bgi_conv *s, const int64_t q[2], int64_t lanes, bgi_direct *out)
{
    bgi_direct d = {.channels = s->og, .h = s->oh, .w = s->ow, .step = {1, 1}, .phases = {1, 1}};

    for (int dim = 0; dim < 2; dim++) {
        int64_t least = INT64_MAX, most = INT64_MIN;

        for (int64_t k = 0; k < (dim == 0 ? s->kh : s->kw); k++)
            if (bgi_direct_has(s, dim, q[dim], k)) {
                const int64_t place = bgi_direct_place(s, dim, q[dim], k);

                least = place < least ? place : least;
                most = place > most ? place : most;
            }
        if (least > most || bgi_direct_count(s, dim, q[dim]) == 0)
            return false;
        d.padding[dim] = -least;
        d.reach[dim] = most - least;
        *(dim == 0 ? &d.rows : &d.columns) = bgi_direct_count(s, dim, q[dim]);
    }
    bgi_direct_size(&d, lanes);
    *out = d;
    return true;
}

/* ---- how the work is cut ---- */

/* Units are strips of rows of an image and group. Scratch of a part: tables of places, then a strip's copy. */
typedef struct bgi_direct_plan {
    int64_t strips, strip_rows; /* of results; one strip where sides are several */
    int64_t units;
    int64_t table_floats, image_floats, part_floats;
    uint32_t parts;
} bgi_direct_plan;

static inline void bgi_direct_plan_parts(bgi_direct_plan *plan, double flops, uint64_t limit_bytes)
{
    plan->part_floats = plan->table_floats + plan->image_floats;
    plan->parts =
        bgi_gemm_fit_parts(bgi_cpu_part_count(plan->units, flops, BGI_GEMM_UNIT_FLOPS), plan->part_floats, limit_bytes);
}

static inline double bgi_direct_flops(const bgi_conv *s)
{
    return 2.0 * (double)s->n * (double)s->o * (double)s->k * (double)s->p;
}

/* 1 x 1 without stride and padding is a matrix product as it stands. */
static inline bool bgi_conv_is_matrix(const bgi_conv *s)
{
    const bg_conv2d_options *o = &s->options;

    return s->taps == 1 && o->stride[0] == 1 && o->stride[1] == 1 && o->padding[0] == 0 && o->padding[1] == 0;
}

static inline bool bgi_direct_is_small(const bgi_conv *s)
{
    const int64_t k = s->k > s->og * s->taps ? s->k : s->og * s->taps;

    return s->dtype == BG_FLOAT32 && k <= BGI_DIRECT_MOST_K && s->options.stride[0] <= BGI_DIRECT_MOST_STRIDE &&
           s->options.stride[1] <= BGI_DIRECT_MOST_STRIDE && !bgi_conv_is_matrix(s);
}

/* False: the convolution is left to the matrix product, which is better where results are narrow, or filters so many
 * that laying patches out is nothing beside them. */
static inline bool bgi_direct_forward_plan(const bgi_conv *s, int64_t lanes, uint64_t limit_bytes, bgi_direct *direct,
                                           bgi_direct_plan *out)
{
    const double flops = bgi_direct_flops(s);
    const int64_t images = s->n * s->options.groups;
    const int64_t wanted = bgi_cpu_part_count(INT32_MAX, flops, BGI_GEMM_UNIT_FLOPS);
    bgi_direct_plan plan = {.table_floats = bgi_cpu_round_up(2 * s->k, 16)};
    int64_t fit;

    if (!bgi_direct_is_small(s))
        return false;
    *direct = bgi_direct_forward(s, lanes);
    if (!bgi_direct_fills(direct, lanes))
        return false;
    fit = BGI_DIRECT_IMAGE_FLOATS / (direct->channels * direct->step[0] * direct->step[1] * direct->width);
    fit = fit > direct->reach[0] + 4 ? fit - direct->reach[0] : 4;
    plan.strips = (direct->rows + fit - 1) / fit;
    if (plan.strips * images < (wanted < BGI_GEMM_FEWEST_UNITS ? wanted : BGI_GEMM_FEWEST_UNITS))
        plan.strips = ((wanted < BGI_GEMM_FEWEST_UNITS ? wanted : BGI_GEMM_FEWEST_UNITS) + images - 1) / images;
    if (direct->side > 1 || plan.strips < 1)
        plan.strips = 1;
    plan.strips = plan.strips < direct->rows ? plan.strips : direct->rows;
    plan.strip_rows = (direct->rows / direct->side + plan.strips - 1) / plan.strips;
    plan.units = images * plan.strips;
    direct->height = plan.strip_rows + direct->reach[0];
    direct->plane = direct->step[0] * direct->step[1] * direct->height * direct->width;
    plan.image_floats = bgi_cpu_round_up(direct->channels * direct->plane, 16);
    bgi_direct_plan_parts(&plan, flops, limit_bytes);
    *out = plan;
    return true;
}

/* Units are images and groups: all phases of dx. */
static inline bool bgi_direct_input_plan(const bgi_conv *s, int64_t lanes, uint64_t limit_bytes, bgi_direct_plan *out)
{
    bgi_direct_plan plan = {.strips = 1, .units = s->n * s->options.groups};
    int64_t q[2];

    if (!bgi_direct_is_small(s))
        return false;
    plan.table_floats = bgi_cpu_round_up(2 * s->og * s->taps, 16);
    for (q[0] = 0; q[0] < s->options.stride[0]; q[0]++)
        for (q[1] = 0; q[1] < s->options.stride[1]; q[1]++) {
            bgi_direct d;
            int64_t floats;

            if (!bgi_direct_backward(s, q, lanes, &d))
                continue;
            floats = bgi_cpu_round_up(d.channels * d.plane, 16);
            if (!bgi_direct_fills(&d, lanes) || floats > 8 * BGI_DIRECT_IMAGE_FLOATS)
                return false;
            plan.image_floats = floats > plan.image_floats ? floats : plan.image_floats;
        }
    bgi_direct_plan_parts(&plan, bgi_direct_flops(s), limit_bytes);
    *out = plan;
    return true;
}

/* Parts sum over runs of images, each into sums of its own, which are added up in order: their number is part of the
 * result, so that limits of scratch are not looked at. Scratch: every part's sums, then for each runner a table of
 * places and copies of some images and, where sides are several, of their dy. */
typedef struct bgi_direct_weights_plan {
    int64_t together; /* images that one sum runs over */
    int64_t sums_floats, table_floats, image_floats, dy_floats, runner_floats;
    uint32_t parts, combines;
} bgi_direct_weights_plan;

static inline bool bgi_direct_weights(const bgi_conv *s, int64_t lanes, bgi_direct *direct,
                                      bgi_direct_weights_plan *out)
{
    const double flops = bgi_direct_flops(s);
    bgi_direct_weights_plan plan = {.table_floats = bgi_cpu_round_up(s->k, 16)};
    int64_t most, floats;

    if (!bgi_direct_is_small(s))
        return false;
    *direct = bgi_direct_forward(s, lanes);
    plan.sums_floats = bgi_cpu_round_up(s->o * s->k, 16);
    most = BGI_DIRECT_SUMS / plan.sums_floats;
    most = most < BGI_GEMM_FEWEST_UNITS ? most : BGI_GEMM_FEWEST_UNITS;
    floats = bgi_cpu_round_up(direct->channels * direct->plane, 16);
    if (!bgi_direct_fills(direct, lanes) || most < 4 || floats > 8 * BGI_DIRECT_IMAGE_FLOATS)
        return false;
    plan.parts = bgi_cpu_part_count(s->n < most ? s->n : most, flops, BGI_GEMM_UNIT_FLOPS);
    plan.together = BGI_DIRECT_RUN / s->p;
    if (plan.together > BGI_DIRECT_WEIGHTS_FLOATS / floats)
        plan.together = BGI_DIRECT_WEIGHTS_FLOATS / floats;
    if (plan.together > (s->n + plan.parts - 1) / plan.parts)
        plan.together = (s->n + plan.parts - 1) / plan.parts;
    if (plan.together < 1)
        plan.together = 1;
    plan.image_floats = plan.together * floats;
    if (direct->side > 1)
        plan.dy_floats =
            bgi_cpu_round_up(plan.together * s->og * (direct->rows / direct->side) * direct->vectors * lanes, 16);
    plan.runner_floats = plan.table_floats + plan.image_floats + plan.dy_floats;
    plan.combines = bgi_cpu_part_count(s->o, (double)s->o * (double)s->k * plan.parts, BGI_DIRECT_SUM_PART);
    *out = plan;
    return true;
}

#endif
