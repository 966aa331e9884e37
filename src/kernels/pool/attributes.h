/*
 * attributes.h: the operands and attributes of poolings. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_POOL_ATTRIBUTES_H
#define BGI_KERNELS_POOL_ATTRIBUTES_H

#include <brigade/ops.h>

/* MAX_POOL2D           x -> y, where (int32: index of the largest in its H x W plane)
 * MAX_POOL2D_BACKWARD  dy, where -> dx
 * AVG_POOL2D           x -> y
 * AVG_POOL2D_BACKWARD  dy -> dx */
typedef struct bgi_pool2d_attributes {
    bg_pool2d_options options; /* stride resolved */
} bgi_pool2d_attributes;

typedef struct bgi_pool2d_backward_attributes {
    bgi_pool2d_attributes forward;
    bg_type result; /* of dx */
} bgi_pool2d_backward_attributes;

#endif
