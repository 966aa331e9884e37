/*
 * conv.h: the shape rule of convolution, for conv2d and the fused conv2d_pool.
 */
#ifndef BGI_OPS_CONV_H
#define BGI_OPS_CONV_H

#include <brigade/ops.h>

/* Checks x, weight and options and types the output. */
bg_status bgi_conv2d_output(const bg_type *x, const bg_type *weight, const bg_conv2d_options *options, bg_type *out_y,
                            bg_error *error);
bg_status bgi_conv2d_bias(const bg_type *bias, const bg_type *weight, bg_error *error);
/* A multiplication and an addition for each element of y and of a filter. The same for the gradients. */
double bgi_conv2d_flops(const bg_type *y, const bg_type *weight);

#endif
