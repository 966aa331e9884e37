/*
 * attributes.h: the operands and attributes of norms by the root of the mean square. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_RMS_NORM_ATTRIBUTES_H
#define BGI_KERNELS_RMS_NORM_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     RMS_NORM           x, gamma? -> y, scale
 *     RMS_NORM_BACKWARD  dy, x, scale, gamma? -> dx, dgamma?
 *
 * scale = 1 / sqrt(mean(x^2) + epsilon) has x's shape without the last dim, and is float32, or float64 for float64 x.
 */
typedef struct bgi_rms_norm_attributes {
    double epsilon;
} bgi_rms_norm_attributes;

#endif
