/*
 * attributes.h: the operands and attributes of the cosine between vectors along an axis. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_COSINE_ATTRIBUTES_H
#define BGI_KERNELS_COSINE_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/axis.h"

/*
 *     COSINE           a, b -> y, inverse lengths of a, of b
 *     COSINE_BACKWARD  dy, a, b, y, inverse lengths of a, of b -> da, db
 *
 * Results have the operands' dims without the axis, and are float32, or float64 for float64 operands. A length shorter
 * than epsilon counts as epsilon; its inverse is stored with a minus sign, because no gradient flows through it.
 */
typedef struct bgi_cosine_attributes {
    double epsilon;
    uint32_t axis;
    uint32_t unused;
} bgi_cosine_attributes;

#endif
