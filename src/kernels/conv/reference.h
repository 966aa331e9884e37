/*
 * reference.h: the arithmetic of 2-d convolution for one element of a result, shared by conv2d and the fused
 * conv2d_pool. Letters: N batch, C channels in, O channels out, G groups, KH x KW kernel, OH x OW the convolution's
 * output.
 */
#ifndef BGI_KERNELS_CONV_REFERENCE_H
#define BGI_KERNELS_CONV_REFERENCE_H

#include "kernels/conv/attributes.h"
#include "kernels/reference/operands.h"

typedef struct bgi_conv_geometry {
    int64_t n, c, h, w;
    int64_t o, kh, kw;
    int64_t oh, ow;
    int64_t c_of_group, o_of_group;
    bg_conv2d_options options;
} bgi_conv_geometry;

/* Returns the geometry of a convolution; `x` and `weight` are the types of the forward op's operands (or of their
 * gradients). */
static inline bgi_conv_geometry bgi_conv_geometry_make(const bg_type *x, const bg_type *weight, int64_t oh, int64_t ow,
                                                       const bg_conv2d_options *options)
{
    return (bgi_conv_geometry){.n = x->dims[0],
                               .c = x->dims[1],
                               .h = x->dims[2],
                               .w = x->dims[3],
                               .o = weight->dims[0],
                               .kh = weight->dims[2],
                               .kw = weight->dims[3],
                               .oh = oh,
                               .ow = ow,
                               .c_of_group = weight->dims[1],
                               .o_of_group = weight->dims[0] / options->groups,
                               .options = *options};
}

/* Returns y[n,o,oh,ow] without bias: the sum over (c, kh, kw) in this order. */
static inline double bgi_convolve_at(const bgi_conv_geometry *g, bg_dtype dtype, const void *x, const void *weight,
                                     int64_t n, int64_t o, int64_t oh, int64_t ow)
{
    const int64_t first_c = o / g->o_of_group * g->c_of_group;
    double sum = 0.0;

    for (int64_t c = 0; c < g->c_of_group; c++)
        for (int64_t kh = 0; kh < g->kh; kh++)
            for (int64_t kw = 0; kw < g->kw; kw++) {
                const int64_t h = oh * g->options.stride[0] - g->options.padding[0] + kh * g->options.dilation[0];
                const int64_t w = ow * g->options.stride[1] - g->options.padding[1] + kw * g->options.dilation[1];

                if (h >= 0 && h < g->h && w >= 0 && w < g->w)
                    sum += bgi_load(dtype, x, ((n * g->c + first_c + c) * g->h + h) * g->w + w) *
                           bgi_load(dtype, weight, ((o * g->c_of_group + c) * g->kh + kh) * g->kw + kw);
            }
    return sum;
}

/* Reads one element of the gradient of the convolution's output. The gradient of a pooled convolution is mostly zero
 * and not stored as a tensor. */
typedef double (*bgi_read_dy)(const void *source, const bgi_conv_geometry *g, int64_t n, int64_t o, int64_t oh,
                              int64_t ow);

/* Returns the output position that reads input position `at` through kernel position `k`, or -1. */
static inline int64_t bgi_conv_output_position(const bgi_conv_geometry *g, int dim, int64_t at, int64_t k)
{
    const int64_t scaled = at + g->options.padding[dim] - k * g->options.dilation[dim];
    const int64_t count = dim == 0 ? g->oh : g->ow;

    if (scaled < 0 || scaled % g->options.stride[dim] != 0 || scaled / g->options.stride[dim] >= count)
        return -1;
    return scaled / g->options.stride[dim];
}

/* Returns dx[n,c,h,w]: the sum over (o, kh, kw) in this order. */
static inline double bgi_convolve_backward_input_at(const bgi_conv_geometry *g, bg_dtype dtype, bgi_read_dy read_dy,
                                                    const void *dy, const void *weight, int64_t n, int64_t c, int64_t h,
                                                    int64_t w)
{
    const int64_t group = c / g->c_of_group;
    double sum = 0.0;

    for (int64_t o = group * g->o_of_group; o < (group + 1) * g->o_of_group; o++)
        for (int64_t kh = 0; kh < g->kh; kh++)
            for (int64_t kw = 0; kw < g->kw; kw++) {
                const int64_t oh = bgi_conv_output_position(g, 0, h, kh), ow = bgi_conv_output_position(g, 1, w, kw);

                if (oh >= 0 && ow >= 0)
                    sum += read_dy(dy, g, n, o, oh, ow) *
                           bgi_load(dtype, weight, ((o * g->c_of_group + c % g->c_of_group) * g->kh + kh) * g->kw + kw);
            }
    return sum;
}

/* Returns dw[o,c,kh,kw], with c counted within the group: the sum over (n, oh, ow) in this order. */
static inline double bgi_convolve_backward_weight_at(const bgi_conv_geometry *g, bg_dtype dtype, bgi_read_dy read_dy,
                                                     const void *dy, const void *x, int64_t o, int64_t c, int64_t kh,
                                                     int64_t kw)
{
    const int64_t x_channel = o / g->o_of_group * g->c_of_group + c;
    double sum = 0.0;

    for (int64_t n = 0; n < g->n; n++)
        for (int64_t oh = 0; oh < g->oh; oh++)
            for (int64_t ow = 0; ow < g->ow; ow++) {
                const int64_t h = oh * g->options.stride[0] - g->options.padding[0] + kh * g->options.dilation[0];
                const int64_t w = ow * g->options.stride[1] - g->options.padding[1] + kw * g->options.dilation[1];

                if (h >= 0 && h < g->h && w >= 0 && w < g->w)
                    sum += read_dy(dy, g, n, o, oh, ow) *
                           bgi_load(dtype, x, ((n * g->c + x_channel) * g->h + h) * g->w + w);
            }
    return sum;
}

/* These two functions compute dx, and dw and db, which are operands `dw` and `dw` + 1 (if present) of a call; the call
 * may have the accumulating form. Every element of dx and dw is one of the sums above. */
static inline void bgi_convolve_backward_input(const bgi_conv_geometry *g, bg_dtype dtype, bgi_read_dy read_dy,
                                               const void *dy, const void *weight, void *dx)
{
    int64_t at = 0;

    for (int64_t n = 0; n < g->n; n++)
        for (int64_t c = 0; c < g->c; c++)
            for (int64_t h = 0; h < g->h; h++)
                for (int64_t w = 0; w < g->w; w++, at++)
                    bgi_store(dtype, dx, at, bgi_convolve_backward_input_at(g, dtype, read_dy, dy, weight, n, c, h, w));
}

static inline void bgi_convolve_backward_weights(const bgi_conv_geometry *g, const bg_kernel_call *call,
                                                 bgi_read_dy read_dy, const void *dy, const void *x, uint32_t dw)
{
    const bg_dtype dtype = call->types[dw].dtype;
    int64_t at = 0;

    for (int64_t o = 0; o < g->o; o++)
        for (int64_t c = 0; c < g->c_of_group; c++)
            for (int64_t kh = 0; kh < g->kh; kh++)
                for (int64_t kw = 0; kw < g->kw; kw++, at++)
                    bgi_store_gradient(call, dw, at,
                                       bgi_convolve_backward_weight_at(g, dtype, read_dy, dy, x, o, c, kh, kw));
    for (int64_t o = 0; bgi_has_operand(call, dw + 1) && o < g->o; o++) {
        double sum = 0.0;

        for (int64_t n = 0; n < g->n; n++)
            for (int64_t oh = 0; oh < g->oh; oh++)
                for (int64_t ow = 0; ow < g->ow; ow++)
                    sum += read_dy(dy, g, n, o, oh, ow);
        bgi_store_gradient(call, dw + 1, o, sum);
    }
}

#endif
