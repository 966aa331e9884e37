/*
 * attributes.h: the operands and attributes of convolutions. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_CONV_ATTRIBUTES_H
#define BGI_KERNELS_CONV_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     CONV2D                   x [N,C,H,W], w [O,C/G,KH,KW], b? [O] -> y
 *     CONV2D_BACKWARD_INPUT    dy, w -> dx            (the output type has dx's shape)
 *     CONV2D_BACKWARD_WEIGHTS  dy, x -> dw, db?   (+)
 */
typedef struct bgi_conv2d_attributes {
    bg_conv2d_options options;
} bgi_conv2d_attributes;

/* Attributes of backward ops contain what shape rules cannot derive from the operands. The forward op's attributes come
 * first, so that kernels may read backward attributes as forward attributes. */
typedef struct bgi_conv2d_backward_attributes {
    bgi_conv2d_attributes forward;
    bg_type result;    /* type of dx or dw */
    uint8_t with_bias; /* BACKWARD_WEIGHTS: computes db too */
} bgi_conv2d_backward_attributes;

/* CONV2D_BACKWARD_INPUT computes a transposed convolution: x is its dy. */
typedef struct bgi_conv_transpose2d_attributes {
    bgi_conv2d_attributes forward;
    int64_t output_padding[2]; /* smaller than the stride */
} bgi_conv_transpose2d_attributes;

#endif
