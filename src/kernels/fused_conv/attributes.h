/*
 * attributes.h: the operands and attributes of a convolution with fused following ops. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_FUSED_CONV_ATTRIBUTES_H
#define BGI_KERNELS_FUSED_CONV_ATTRIBUTES_H

#include "kernels/conv/attributes.h"
#include "kernels/elementwise/attributes.h"

/*
 *     FUSED_CONV2D x, w, bias?, (gamma, beta, running_mean, running_variance)?, other? -> y      only float32
 *
 * The convolution, then each step that the attributes name, in this order: batch norm by the running statistics, the
 * sum with `other`, which has y's shape, and a function of one element. Every step does the float operations of its
 * separate kernel.
 */
typedef struct bgi_fused_conv2d_attributes {
    bgi_conv2d_attributes
        conv; /* the first field, so that kernels of convolutions can read these attributes as theirs */
    bgi_unary_attributes unary;
    double epsilon;
    uint8_t has_bias, norms, adds, maps; /* 0: no */
} bgi_fused_conv2d_attributes;

/* These functions return the operand number of gamma, which beta and the running statistics follow, that of `other`,
 * and the number of inputs. */
static inline uint32_t bgi_fused_conv2d_gamma(const bgi_fused_conv2d_attributes *attributes)
{
    return attributes->has_bias ? 3 : 2;
}

static inline uint32_t bgi_fused_conv2d_other(const bgi_fused_conv2d_attributes *attributes)
{
    return bgi_fused_conv2d_gamma(attributes) + (attributes->norms ? 4 : 0);
}

static inline uint32_t bgi_fused_conv2d_inputs(const bgi_fused_conv2d_attributes *attributes)
{
    return bgi_fused_conv2d_other(attributes) + (attributes->adds ? 1 : 0);
}

#endif
