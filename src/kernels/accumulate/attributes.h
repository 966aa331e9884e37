/*
 * attributes.h: the operands and attributes of sums of gradients. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_ACCUMULATE_ATTRIBUTES_H
#define BGI_KERNELS_ACCUMULATE_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/pieces.h"

/*
 * Kernels:
 *
 *     ACCUMULATE       accumulator!, gradient, factors?      no outputs: the first micro-batch of a step sets the
 *                      accumulator, later ones add to it. With factors [2]: accumulator factors[0] + gradient
 *                      factors[1], each operation rounded; a gradient whose factor is 0 is ignored, because the mean
 *                      over nothing may be NaN
 *     ACCUMULATE_TREE  accumulator!, gradient, partials?!    bgi_accumulate_tree_attributes; no outputs: the
 *                      accumulator has the sum after the last micro-batch of a step
 *     ADD_N            x0, x1, ... -> y                      in order
 *     SCALED_SUM       x0, scale0, x1, scale1, ... -> y      (x0 scale0) + (x1 scale1) + ..., in order, each operation
 *                      rounded to float32 except for a float64 y; scales are float32 scalars; an x whose scale is 0 is
 *                      ignored
 *     TOTAL_SCALE      total -> y                            scalars; y = factor / total, 0 when total is 0
 *     RUNNING_FACTORS  total!, weight? -> factors [2]        n / (n + c), c / (n + c), or 0, 0 when n + c is 0; c is
 *                      `weight`, or 1 without it; n is `total`, or 0 at the first micro-batch of a step. With
 *                      ends_in_sum the factors at the last micro-batch are n, c. `total` becomes n + c
 *     SQUARE_SUM       x -> y float64 [pieces]               bgi_square_sum_attributes; one sum for each piece
 *                      (kernels/pieces.h), in double; its order depends only on the piece's size
 *     GRADIENT_NORM    squares float64 [pieces], scale -> y  a scalar: |scale| sqrt(sum of squares, in their order)
 *     CLIP_SCALE       squares, scale -> y                   as GRADIENT_NORM;
 *                      y = scale maximum / max(|scale| sqrt(sum), maximum)
 */

/*
 * A tree whose leaves are the micro-batches of a step, in their order. n leaves are split at p, the largest power of
 * two below n:
 *
 *     sum(n) = sum(first p) + sum(other n - p)                  5: ((g0 + g1) + (g2 + g3)) + g4
 *
 * A gradient is rounded to the accumulator's type, and so is each sum. Micro-batches arrive one by one; for each set
 * bit of their number so far, one partial sum is stored until its sibling in the tree is complete. As in a binary
 * counter, a gradient is added to the stored sums of 1, 2, 4, ... micro-batches, and the result is stored in the first
 * empty slot (`place`). The last place is the accumulator, and the others are rows of `partials` [places - 1,
 * elements].
 */
typedef struct bgi_accumulate_tree_attributes {
    uint32_t micro_batches; /* of a step */
} bgi_accumulate_tree_attributes;

/* Returns the number of places for partial sums: the number of bits of micro_batches - 1, at least 1. */
static inline uint32_t bgi_tree_places(uint32_t micro_batches)
{
    uint32_t places = 1;

    while (places < 32 && (micro_batches - 1) >> places != 0)
        places++;
    return places;
}

/* Returns whether the sum at a place is added to the gradient of a micro-batch, after the sums at all lower places. */
static inline bool bgi_tree_joins(uint32_t micro_batches, uint32_t micro_batch, uint32_t place)
{
    const bool is_last = micro_batch + 1 == micro_batches, has_all = ((micro_batch + 1) & ((2u << place) - 1)) == 0;

    return is_last ? (micro_batch >> place & 1) != 0 : has_all;
}

/* Returns the place where the result of a micro-batch is stored. */
static inline uint32_t bgi_tree_target(uint32_t micro_batches, uint32_t micro_batch)
{
    uint32_t place = 0;

    if (micro_batch + 1 == micro_batches)
        return bgi_tree_places(micro_batches) - 1;
    while ((micro_batch >> place & 1) != 0)
        place++;
    return place;
}

typedef struct bgi_scaled_sum_attributes {
    bg_dtype dtype; /* of y */
} bgi_scaled_sum_attributes;

typedef struct bgi_total_scale_attributes {
    double factor;
} bgi_total_scale_attributes;

typedef struct bgi_running_factors_attributes {
    uint32_t micro_batches; /* of a step */
    uint8_t ends_in_sum;
} bgi_running_factors_attributes;

typedef struct bgi_square_sum_attributes {
    int64_t elements; /* elements of the whole x */
    uint32_t pieces;
    uint8_t unused[4]; /* fills the padding: see bg_op_type */
} bgi_square_sum_attributes;

typedef struct bgi_clip_scale_attributes {
    double maximum;
} bgi_clip_scale_attributes;

#endif
