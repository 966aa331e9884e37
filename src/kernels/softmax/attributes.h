/*
 * attributes.h: the operands and attributes of softmaxes. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_SOFTMAX_ATTRIBUTES_H
#define BGI_KERNELS_SOFTMAX_ATTRIBUTES_H

#include "kernels/reshape/attributes.h"

/* SOFTMAX, LOG_SOFTMAX                    x -> y       (bgi_axis_attributes)
 * SOFTMAX_BACKWARD, LOG_SOFTMAX_BACKWARD  dy, y -> dx  (bgi_axis_attributes) */

#endif
