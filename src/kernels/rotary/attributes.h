/*
 * attributes.h: the operands and attributes of rotary positions. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_ROTARY_ATTRIBUTES_H
#define BGI_KERNELS_ROTARY_ATTRIBUTES_H

#include <brigade/ops.h>

#include <math.h>

/* ROTARY  x [..,S,HD], positions int32 [S] or [..,S]? -> y
 * In each head the first `features` features are pairs, (i, features / 2 + i) or interleaved (2 i, 2 i + 1), of which
 * pair i is turned by the position / scaling x base^(-2 i / features), in radians: backwards when `inverse`. Without
 * positions a row's is its place, 0 .. S - 1. */
typedef struct bgi_rotary_attributes {
    int64_t heads, features;
    double base, scaling;
    uint8_t interleaved, inverse;
} bgi_rotary_attributes;

static inline double bgi_rotary_frequency(const bgi_rotary_attributes *attributes, int64_t pair)
{
    return pow(attributes->base, -2.0 * (double)pair / (double)attributes->features) / attributes->scaling;
}

/* Rows that have positions of their own: S, or all. */
static inline int64_t bgi_rotary_places(const bg_type *x, const bg_type *positions)
{
    return positions != NULL ? bg_type_element_count(positions) : x->dims[x->rank - 2];
}

#endif
