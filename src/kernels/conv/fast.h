/*
 * fast.h: the geometry of convolutions of any stride, padding, dilation and groups, as products of matrices.
 *
 * Letters: N images, C channels in and O out, G groups of CG and OG channels, H x W in, OH x OW out, P = OH OW,
 * KH x KW the filter, T = KH KW its taps, K = CG T.
 */
#ifndef BGI_KERNELS_CONV_FAST_H
#define BGI_KERNELS_CONV_FAST_H

#include "kernels/linear/gemm.h"
#include "kernels/linear/product.h"

typedef struct bgi_conv {
    bg_dtype dtype;
    int64_t n, c, h, w, o, kh, kw, oh, ow, cg, og, k, taps, p;
    bg_conv2d_options options;
} bgi_conv;

static inline bgi_conv bgi_conv_read(const bg_type *x, const bg_type *w, const bg_type *y,
                                     const bg_conv2d_options *options)
{
    return (bgi_conv){.dtype = x->dtype,
                      .n = x->dims[0],
                      .c = x->dims[1],
                      .h = x->dims[2],
                      .w = x->dims[3],
                      .o = w->dims[0],
                      .kh = w->dims[2],
                      .kw = w->dims[3],
                      .oh = y->dims[2],
                      .ow = y->dims[3],
                      .cg = w->dims[1],
                      .og = w->dims[0] / options->groups,
                      .k = w->dims[1] * w->dims[2] * w->dims[3],
                      .taps = w->dims[2] * w->dims[3],
                      .p = y->dims[2] * y->dims[3],
                      .options = *options};
}

/* Returns the plan of the forward product: y of an image and group [OG,P] = w [OG,K] patches [K,P]. */
static inline bgi_gemm bgi_conv_forward_plan(const bgi_conv *s, int64_t lanes)
{
    return bgi_gemm_plan(s->n * s->options.groups, s->og, s->p, s->k, 1, lanes, s->dtype == BG_FLOAT32);
}

enum {
    BGI_CONV_SUMS = 1 << 20,  /* the largest number of floats in the partial sums of dw, which are added at the end */
    BGI_CONV_SUM_PART = 16384 /* approximate number of sums that a part adds */
};

/* dw of a group [OG,K] = the sum over images of dy [OG,P] patches^T [P,K], or this sum added to an accumulator.
 *
 * A dw of few panels gives few units of work, so images are divided into runs, whose sums are added in order. The
 * number of runs affects the result, so it depends only on the shape; limits of scratch are applied only to parts. */
typedef struct bgi_conv_weights_plan {
    bgi_gemm gemm;       /* the product of a run of images */
    int64_t runs;        /* 1: dw has the sums */
    int64_t sums_floats; /* floats of a run's sums; 0 when there is only one run */
    uint32_t parts, combines;
} bgi_conv_weights_plan;

static inline int64_t bgi_conv_weights_runs(const bgi_conv *s, int64_t units, double flops)
{
    const int64_t most = BGI_CONV_SUMS / bgi_cpu_round_up(s->o * s->k, 16);
    int64_t runs = bgi_cpu_part_count(BGI_GEMM_FEWEST_UNITS, flops, BGI_GEMM_UNIT_FLOPS) / units;

    runs = runs < most ? runs : most;
    runs = runs < s->n ? runs : s->n;
    return runs < 1 ? 1 : runs;
}

static inline bgi_conv_weights_plan bgi_conv_weights_plan_make(const bgi_conv *s, int64_t lanes, bool accumulates,
                                                               uint64_t limit_bytes)
{
    const double flops = 2.0 * (double)s->n * (double)s->o * (double)s->k * (double)s->p;
    bgi_gemm g = bgi_gemm_plan(s->options.groups, s->og, s->k, s->p, s->n, lanes, s->dtype == BG_FLOAT32);
    bgi_conv_weights_plan plan = {.runs = bgi_conv_weights_runs(s, g.units, flops), .combines = 1};
    uint64_t fixed;

    if (plan.runs == 1 && accumulates && bgi_gemm_adds_apart(&g, s->n))
        bgi_gemm_keep_sums(&g, lanes);
    if (plan.runs > 1) {
        plan.sums_floats = bgi_cpu_round_up(s->o * s->k, 16);
        plan.combines = bgi_cpu_part_count(s->o, (double)(s->o * s->k * plan.runs), BGI_CONV_SUM_PART);
    }
    g.parts = bgi_cpu_part_count(g.units * plan.runs, flops, BGI_GEMM_UNIT_FLOPS);
    fixed = (uint64_t)(plan.runs * plan.sums_floats) * sizeof(float);
    plan.gemm = bgi_gemm_bound(g, lanes, limit_bytes > fixed ? limit_bytes - fixed : 0);
    plan.parts = plan.gemm.parts;
    return plan;
}

/* Returns the bytes of scratch: the sums of all runs, then the scratch of each part. */
static inline size_t bgi_conv_weights_scratch_bytes(const bgi_conv_weights_plan *plan)
{
    return (size_t)(plan->runs * plan->sums_floats + plan->parts * plan->gemm.part_floats) * sizeof(float);
}

/* The plan of dx: a product computes the patches of dx of a block of channels, [channels T, P] = w^T [channels T, OG]
 * dy [OG,P], and each element of a patch is added to its element of dx. */
typedef struct bgi_conv_input_plan {
    bgi_gemm gemm;
    int64_t channels;     /* of a block */
    int64_t blocks;       /* of a group */
    int64_t items;        /* blocks of all images */
    int64_t patch_floats; /* a block's patches */
    int64_t plane_floats; /* a block's dx in float32; 0 if dx itself is float32 */
    int64_t part_floats;
    uint32_t parts;
} bgi_conv_input_plan;

#define BGI_CONV_PATCH_FLOATS (64 * 1024)

/* Returns the plan with blocks of `channels` channels, and a product that stays within `limit_bytes` of scratch if
 * possible. */
static inline bgi_conv_input_plan bgi_conv_input_plan_of(const bgi_conv *s, int64_t channels, int64_t lanes,
                                                         uint64_t limit_bytes)
{
    bgi_conv_input_plan plan = {.channels = channels};

    plan.blocks = (s->cg + plan.channels - 1) / plan.channels;
    plan.items = s->n * s->options.groups * plan.blocks;
    plan.parts = bgi_cpu_part_count(plan.items, 2.0 * (double)s->n * (double)s->o * (double)s->k * (double)s->p,
                                    BGI_GEMM_UNIT_FLOPS);
    plan.gemm = bgi_gemm_plan(1, plan.channels * s->taps, s->p, s->og, 1, lanes, s->dtype == BG_FLOAT32);
    plan.patch_floats = bgi_cpu_round_up(plan.channels * s->taps * s->p, 16);
    plan.plane_floats = s->dtype == BG_FLOAT32 ? 0 : bgi_cpu_round_up(plan.channels * s->h * s->w, 16);
    plan.gemm = bgi_gemm_bound(plan.gemm, lanes, limit_bytes);
    plan.part_floats = plan.gemm.part_floats + plan.patch_floats + plan.plane_floats;
    return plan;
}

/* Returns a plan that stays within a limit of scratch (bgi_product_limit) if possible, first by blocks of fewer
 * channels, then by fewer parts. */
static inline bgi_conv_input_plan bgi_conv_input_plan_make(const bgi_conv *s, int64_t lanes, uint64_t limit_bytes)
{
    const int64_t fit = BGI_CONV_PATCH_FLOATS / (s->taps * s->p);
    int64_t channels = fit < 1 ? 1 : fit > s->cg ? s->cg : fit;
    bgi_conv_input_plan plan = bgi_conv_input_plan_of(s, channels, lanes, limit_bytes);

    for (; (uint64_t)plan.part_floats * sizeof(float) > limit_bytes && channels > 1; channels = plan.channels)
        plan = bgi_conv_input_plan_of(s, channels / 2, lanes, limit_bytes);
    plan.parts = bgi_gemm_fit_parts(plan.parts, plan.part_floats, limit_bytes);
    return plan;
}

#endif
