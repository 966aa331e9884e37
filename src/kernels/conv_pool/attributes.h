/*
 * attributes.h: the operands and attributes of convolutions together with a max pool and a relu.
 * Notation: kernels.h.
 */
#ifndef BGI_KERNELS_CONV_POOL_ATTRIBUTES_H
#define BGI_KERNELS_CONV_POOL_ATTRIBUTES_H

#include <brigade/graph.h>

/*
 * Convolution (stride, dilation and groups are 1), bias, max pool (windows do not overlap) and an optional relu in one
 * op:
 *
 *     CONV2D_POOL                   x, w, b -> y, where
 *     CONV2D_POOL_BACKWARD_INPUT    dy, where, w -> dx
 *     CONV2D_POOL_BACKWARD_WEIGHTS  dy, where, x -> dw, db   (+)
 *
 * `where` is uint8: the row-major offset of the largest element in its window; 255 means that relu is on and no element
 * is above 0.
 */
typedef struct bgi_conv2d_pool_attributes {
    int64_t padding[2]; /* padding of the convolution */
    int64_t pool[2];    /* window and stride */
    uint8_t relu;
} bgi_conv2d_pool_attributes;

typedef struct bgi_conv2d_pool_backward_attributes {
    bgi_conv2d_pool_attributes forward;
    bg_type result; /* type of dx or dw */
} bgi_conv2d_pool_backward_attributes;

#endif
