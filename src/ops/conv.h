/*
 * conv.h: declares the shape rule of convolution, for conv2d, the fused conv2d_pool and the transposed convolution.
 */
#ifndef BGI_OPS_CONV_H
#define BGI_OPS_CONV_H

#include <brigade/ops.h>

bg_status bgi_conv2d_check_options(const bg_conv2d_options *options, bg_error *error);
/* Checks x, weight and options, and determines the output's type. */
bg_status bgi_conv2d_output(const bg_type *x, const bg_type *weight, const bg_conv2d_options *options, bg_type *out_y,
                            bg_error *error);
bg_status bgi_conv2d_bias(const bg_type *bias, const bg_type *weight, bg_error *error);
/* Counts a multiplication and an addition for each element of y and of a filter; the gradients cost the same. */
double bgi_conv2d_flops(const bg_type *y, const bg_type *weight);

/* Adds the gradient of a convolution's input as a separate op: x [N,C,H,W], weight [C,O/groups,KH,KW] -> [N,O,OH,OW]. A
 * convolution of the result with these options has x's shape. output_padding selects one of the shapes for which this
 * is true; 0 selects the smallest. See bg_conv_transpose. */
bg_value bgi_conv_transpose2d(bg_graph *graph, const char *name, bg_value x, bg_value weight,
                              const bg_conv2d_options *options, const int64_t output_padding[2]);

#endif
