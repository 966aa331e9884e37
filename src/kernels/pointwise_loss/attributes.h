/*
 * attributes.h: the operands and attributes of losses that compare each element with one target. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_POINTWISE_LOSS_ATTRIBUTES_H
#define BGI_KERNELS_POINTWISE_LOSS_ATTRIBUTES_H

#include <brigade/ops.h>

#include <stdbool.h>

/*
 *     POINTWISE_LOSS           prediction, target -> loss          (of_target is false)
 *     POINTWISE_LOSS_BACKWARD  dloss, prediction, target -> the gradient of the prediction, or of the target
 */
typedef struct bgi_pointwise_loss_attributes {
    bg_pointwise_loss_function function;
    bg_loss_reduction reduction;
    double parameter;
    uint32_t of_target; /* 0 or 1; 32 bits wide, so that `unused` fills all padding */
    uint32_t unused;
} bgi_pointwise_loss_attributes;

/* These two functions compute the loss and the gradient of one element in double. */
double bgi_pointwise_loss_value(const bgi_pointwise_loss_attributes *attributes, double p, double t);
double bgi_pointwise_loss_slope(const bgi_pointwise_loss_attributes *attributes, double p, double t);

#endif
