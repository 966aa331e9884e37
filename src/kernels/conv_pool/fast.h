/*
 * fast.h: the geometry of the fused convolution, max pool and relu, and of its backward kernels.
 *
 * Letters: N images, C channels in, O channels out, H x W the input plane, KH x KW the filter, K = C KH KW; PH x PW the
 * pooling window, Q = QH QW pooled outputs of a plane.
 */
#ifndef BGI_KERNELS_CONV_POOL_FAST_H
#define BGI_KERNELS_CONV_POOL_FAST_H

#include "kernels/conv_pool/attributes.h"
#include "kernels/cpu/variant.h"
#include "kernels/linear/product.h"

typedef struct bgi_conv_pool {
    bg_dtype dtype;
    int64_t n, c, h, w, o, kh, kw, k, pool_h, pool_w, windows, pad_h, pad_w, qh, qw, q;
    bool relu;
} bgi_conv_pool;

enum {
    BGI_CONV_POOL_MAX_OFFSETS = 512, /* the most entries of the forward kernel's table: elements of a window x KH */
    BGI_CONV_POOL_SLACK = 64,        /* floats that a vector may reach past the end of a buffer */
    BGI_CONV_POOL_BAND_FLOATS = 48 * 1024, /* floats of shifted planes: half of a usual second-level cache */
    BGI_CONV_POOL_GROUP_FLOATS =
        8 * 1024 /* floats of images that are processed together: the size of a first-level cache */
};

static inline bgi_conv_pool bgi_conv_pool_read(const bg_type *x, const bg_type *w, const bg_type *y,
                                               const bgi_conv2d_pool_attributes *attributes)
{
    bgi_conv_pool s = {.dtype = x->dtype,
                       .n = x->dims[0],
                       .c = x->dims[1],
                       .h = x->dims[2],
                       .w = x->dims[3],
                       .o = w->dims[0],
                       .kh = w->dims[2],
                       .kw = w->dims[3],
                       .pool_h = attributes->pool[0],
                       .pool_w = attributes->pool[1],
                       .pad_h = attributes->padding[0],
                       .pad_w = attributes->padding[1],
                       .qh = y->dims[2],
                       .qw = y->dims[3],
                       .relu = attributes->relu};

    s.k = s.c * s.kh * s.kw;
    s.windows = s.pool_h * s.pool_w;
    s.q = s.qh * s.qw;
    return s;
}

/* The forward kernel reads an image as planes shifted by every column offset: shift s, row r, pooled column j holds
 * x[r][j PW + s]. Rows r, r + PH, r + 2 PH, ... of one shift follow each other. For any filter tap and window element,
 * the pooled positions of a band are therefore contiguous in memory. */
typedef struct bgi_conv_pool_planes {
    int64_t shifts;         /* KW + PW - 1 */
    int64_t band;           /* pooled rows that are processed together */
    int64_t line_rows;      /* rows with one residue r mod PH */
    int64_t residue_stride; /* line_rows QW */
    int64_t shift_stride;   /* PH residues */
    int64_t channel_stride; /* shifts */
    int64_t planes_floats;
    int64_t line_floats;   /* floats of one of PW interleaved parts of a row */
    int64_t shared_floats; /* scratch that all parts read; it precedes their own */
    int64_t part_floats;   /* scratch of one part */
} bgi_conv_pool_planes;

static inline bgi_conv_pool_planes bgi_conv_pool_plan(const bgi_conv_pool *s)
{
    bgi_conv_pool_planes p = {.shifts = s->kw + s->pool_w - 1};

    for (p.band = s->qh;; p.band = (p.band + 1) / 2) {
        p.line_rows = (p.band * s->pool_h + s->kh - 1 + s->pool_h - 1) / s->pool_h;
        p.residue_stride = p.line_rows * s->qw;
        p.shift_stride = p.residue_stride * s->pool_h;
        p.channel_stride = p.shift_stride * p.shifts;
        p.planes_floats = p.channel_stride * s->c + BGI_CONV_POOL_SLACK;
        if (p.band == 1 || p.planes_floats <= BGI_CONV_POOL_BAND_FLOATS)
            break;
    }
    p.line_floats = (s->w + 2 * s->pad_w) / s->pool_w + BGI_CONV_POOL_SLACK;
    p.part_floats = bgi_cpu_round_up(p.planes_floats + 2 * p.line_floats * s->pool_w, 16);
    if (s->dtype != BG_FLOAT32)
        p.shared_floats = bgi_cpu_round_up(s->o * s->k + s->o, 16);
    return p;
}

/* The backward kernels store images channels last, zero padded: [XH][XW][CP], so that a filter row of a patch is one
 * run of KW CP floats, `row_vectors` vectors. CP is C, or C rounded up to whole vectors where aligned loads are faster.
 */
typedef struct bgi_conv_pool_patches {
    int64_t cp, xh, xw;
    int64_t row_vectors;
    int64_t row_floats;    /* row_vectors in floats */
    int64_t image_floats;  /* XH XW CP */
    int64_t group;         /* images that the weights' kernel processes together */
    int64_t filter_floats; /* floats of all filters */
    int64_t sums_floats;   /* floats of dw and db, per part */
    int64_t shared_floats; /* scratch that all parts read; it precedes their own */
    int64_t part_floats;   /* scratch of one part */
} bgi_conv_pool_patches;

static inline bgi_conv_pool_patches bgi_conv_pool_patch_plan(const bgi_conv_pool *s, int64_t lanes, bool weights,
                                                             uint32_t parts)
{
    const int64_t loose = (s->kw * s->c + lanes - 1) / lanes, aligned = s->kw * ((s->c + lanes - 1) / lanes);
    const bool is_float32 = s->dtype == BG_FLOAT32;
    bgi_conv_pool_patches p = {.cp = 2 * loose <= aligned ? s->c : bgi_cpu_round_up(s->c, lanes),
                               .xh = s->h + 2 * s->pad_h,
                               .xw = s->w + 2 * s->pad_w};
    const int64_t part_images = (s->n + parts - 1) / parts;

    p.row_vectors = (s->kw * p.cp + lanes - 1) / lanes;
    p.row_floats = p.row_vectors * lanes;
    p.image_floats = p.xh * p.xw * p.cp;
    p.group = weights ? BGI_CONV_POOL_GROUP_FLOATS / p.image_floats : 1;
    p.group = p.group < 1 ? 1 : p.group > part_images ? part_images : p.group;
    p.filter_floats = bgi_cpu_round_up(s->o * s->kh * p.row_floats, 16);
    p.shared_floats = 256 + bgi_cpu_round_up(s->q, 16); /* position tables */
    if (weights)
        p.sums_floats = p.filter_floats + bgi_cpu_round_up(s->o, 16);
    else
        p.shared_floats += p.filter_floats + (is_float32 ? 0 : bgi_cpu_round_up(s->k, 16));
    p.part_floats = p.sums_floats;
    p.part_floats += bgi_cpu_round_up(p.group * p.image_floats, 16) + BGI_CONV_POOL_SLACK; /* images */
    p.part_floats += 2 * (bgi_cpu_round_up(p.group * s->q, 16) + BGI_CONV_POOL_SLACK); /* positions with a gradient */
    if (!is_float32)
        p.part_floats += bgi_cpu_round_up(s->c * s->h * s->w, 16) + bgi_cpu_round_up(p.group * s->o * s->q, 16);
    return p;
}

/* Returns the bytes of scratch of `parts` parts, with the scratch that they share. */
static inline size_t bgi_conv_pool_scratch(int64_t shared_floats, int64_t part_floats, uint32_t parts)
{
    return (size_t)(shared_floats + part_floats * parts) * sizeof(float);
}

static inline uint32_t bgi_conv_pool_parts(const bgi_conv_pool *s, double flops_per_part)
{
    return bgi_cpu_part_count(s->n, 2.0 * (double)(s->n * s->o * s->q * s->windows) * (double)s->k, flops_per_part);
}

/* Returns the number of parts of the forward kernel and of the kernel of dx; parts are runs of images. A part takes
 * about ten microseconds, so that two workers that share a call end at about the same time. Parts get the same number
 * of images if that does not exceed the limit of parts: 40 images in 9 parts become 10 parts. */
static inline uint32_t bgi_conv_pool_image_parts(const bgi_conv_pool *s)
{
    const int64_t parts = bgi_conv_pool_parts(s, 1.3e6), images = s->n / parts;
    const int64_t even = (s->n + images - 1) / images;

    return (uint32_t)(even <= BGI_CPU_MOST_PARTS ? even : parts);
}

/* Returns `parts`, or fewer parts if the limit of scratch requires that (bgi_product_limit), but at least one. Results
 * do not depend on which part computes an image. */
static inline uint32_t bgi_conv_pool_bound_parts(uint32_t parts, int64_t shared_floats, int64_t part_floats,
                                                 uint64_t limit_bytes)
{
    while (parts > 1 && bgi_conv_pool_scratch(shared_floats, part_floats, parts) > limit_bytes)
        parts--;
    return parts;
}

/* Returns the number of parts of the weights' kernel. For the usual 2 x 2 windows, a backward kernel does a quarter of
 * the forward kernel's work, and each part of the weights' kernel has sums to clear and to combine. The number of parts
 * determines the order of these sums. */

static inline uint32_t bgi_conv_pool_weights_parts(const bgi_conv_pool *s)
{
    const double sums = 800.0 * (double)(s->o * s->k);

    return bgi_conv_pool_parts(s, sums > 2.6e6 ? sums : 2.6e6);
}

/* Returns the number of pieces into which output channels are divided to add up the sums of `parts` parts. A piece
 * takes about a microsecond. */
static inline uint32_t bgi_conv_pool_weights_pieces(const bgi_conv_pool *s, const bgi_conv_pool_patches *p,
                                                    uint32_t parts)
{
    const uint32_t pieces = bgi_cpu_part_count(s->o, (double)p->sums_floats * (double)parts, 1.2e4);

    return pieces < parts ? pieces : parts;
}

#endif
