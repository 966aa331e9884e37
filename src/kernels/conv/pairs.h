/*
 * pairs.h: convolutions of bfloat16 by AVX512-BF16's products of pairs (linear/pairs.h), and the geometry that forward
 * pass, dx and dw share. A result is a sum over taps, and for each tap over terms:
 *
 *                  results          terms             taps, in order
 *     forward      y [n, o, p]      channels of x     the filter's
 *     dx           dx [n, c, p]     channels of dy    those that reach the position
 *     dw           dw [o, c, tap]   images            dy's positions
 *
 * The order is that of AVX512-BF16 in linear/pairs.h: tap by tap, terms two at a time, with a zero as the last term
 * when their number is odd. Elements of the padding are zeros. Sums begin with the bias or 0, are float32 and are
 * rounded to bfloat16 once. A small dw may be the sum of several *runs* of rows of dy, whose number depends only on the
 * shape (`runs`).
 *
 * Lanes are channels of the results (for dw: of dy). The filter (for dw: dy) is laid out first, as panels of B. Then
 * each unit copies its part of the source with the padding, with adjacent terms at each place, so that the product
 * reads the rows of A directly from the copy. Letters: fast.h.
 */
#ifndef BGI_KERNELS_CONV_PAIRS_H
#define BGI_KERNELS_CONV_PAIRS_H

#include "kernels/conv/attributes.h"
#include "kernels/conv/fast.h"
#include "kernels/linear/pairs.h"

enum {
    BGI_CONV_PAIRS_POSITIONS = 256,   /* approximate number of results of a lane in a unit */
    BGI_CONV_PAIRS_DEPTH = 256,       /* terms of a block: its part of a panel fits a first-level cache */
    BGI_CONV_PAIRS_COPY = 160 * 1024, /* the most elements of a copy, if a smaller unit is possible */
    BGI_CONV_PAIRS_PANELS = 4,        /* the most panels of a unit of dw */
    BGI_CONV_PAIRS_SEGMENTS = BGI_CONV_PAIRS_DEPTH / 2,
    BGI_CONV_PAIRS_LAID_OUT = 64 * 1024 /* approximate number of elements that a part lays out */
};

/* One dim: result i of phase q (at i phases + q) reads the source at i step + offset(q, tap). */
typedef struct bgi_pairs_axis {
    int64_t to, from, taps, tap_step, padding, phases, step;
    bool is_backward;
} bgi_pairs_axis;

typedef struct bgi_conv_pairs {
    bgi_pairs_axis axis[2];
    int64_t groups, images, terms, lanes;            /* terms, lanes: of a group */
    int64_t image_stride, term_stride, group_stride; /* of the source, in elements */
    int64_t filter_lane, filter_term, filter_group;  /* of the filter, whose taps are adjacent */
    int64_t to_image, to_lane, to_group;             /* of the results */
    int64_t even_terms, width, panels; /* terms rounded up to pairs; lanes of a panel; panels of a group */
    int64_t together, image_blocks, strip_rows, strips; /* images of a unit, and their blocks; rows, and their strips */
    int64_t panel_blocks, unit_panels;
    int64_t runs, depth_rows; /* runs of rows of taps; and rows of taps for which the source is copied at a time */
    int64_t filter_floats, run_floats, copy_floats, position_floats, part_floats;
    int64_t units;
    uint32_t lays, parts;
} bgi_conv_pairs;

/* Finds offset(phase, tap); returns false if results of the phase do not use the tap. */
static inline bool bgi_pairs_find_offset(const bgi_pairs_axis *a, int64_t phase, int64_t tap, int64_t *offset)
{
    const int64_t at = phase + a->padding - tap * a->tap_step;

    *offset = a->is_backward ? at / a->phases : tap * a->tap_step - a->padding;
    return !a->is_backward || at % a->phases == 0;
}

/* Finds the places *low..*high - 1 of the source that results from..end - 1 read through taps first..last - 1. */
void bgi_pairs_find_window(const bgi_pairs_axis *a, int64_t from, int64_t end, int64_t first, int64_t last,
                           int64_t *low, int64_t *high);

static inline size_t bgi_conv_pairs_scratch_bytes(const bgi_conv_pairs *v)
{
    return (size_t)(v->filter_floats + v->runs * v->run_floats + v->parts * v->part_floats) * sizeof(float);
}

/* These functions return the plans of the forward pass, dx and dw, with a limit of scratch (bgi_product_limit). */
bgi_conv_pairs bgi_conv_pairs_forward(const bgi_conv *s, uint64_t limit_bytes);
bgi_conv_pairs bgi_conv_pairs_input(const bgi_conv *s, uint64_t limit_bytes);
bgi_conv_pairs bgi_conv_pairs_weights(const bgi_conv *s, uint64_t limit_bytes);

#endif
