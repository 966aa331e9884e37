/*
 * attributes.h: the operands and attributes of kernels that move elements. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_RESHAPE_ATTRIBUTES_H
#define BGI_KERNELS_RESHAPE_ATTRIBUTES_H

#include <brigade/ops.h>

/* The shape of a result that the operands do not determine: for BROADCAST and reshape. */
typedef struct bgi_dims_attributes {
    uint32_t rank;
    int64_t dims[BG_MAX_RANK];
} bgi_dims_attributes;

/*
 *     COPY       x -> y  (reshape if y cannot share x's memory; loads and stores of remote buffers)
 *     TRANSPOSE  x -> y
 */
typedef struct bgi_transpose_attributes {
    uint32_t permutation[BG_MAX_RANK];
} bgi_transpose_attributes;

/*
 *     SLICE           x -> y
 *     SLICE_BACKWARD  dy -> dx  (zero elsewhere; bgi_slice_backward_attributes)
 */
typedef struct bgi_slice_attributes {
    uint32_t axis;
    int64_t start, stop, step; /* resolved: 0 <= start < stop <= dim */
} bgi_slice_attributes;

typedef struct bgi_slice_backward_attributes {
    bgi_slice_attributes slice;
    int64_t size; /* size of dx along the axis */
} bgi_slice_backward_attributes;

/* ROLL x -> y (row `first` of x becomes row 0 of y; rows wrap around) */
typedef struct bgi_roll_attributes {
    uint32_t axis;
    uint32_t unused;
    int64_t first; /* 0 <= first < dim */
} bgi_roll_attributes;

/* CONCAT  x0, x1, ... -> y */
typedef struct bgi_axis_attributes {
    uint32_t axis;
} bgi_axis_attributes;

#endif
