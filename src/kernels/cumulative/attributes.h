/*
 * attributes.h: the operands and attributes of cumulative sums along an axis. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_CUMULATIVE_ATTRIBUTES_H
#define BGI_KERNELS_CUMULATIVE_ATTRIBUTES_H

#include <brigade/ops.h>

/*     CUMULATIVE_SUM  x -> y  (floats in double; int32 and int64 exactly, wrapping around) */
typedef struct bgi_cumulative_attributes {
    uint32_t axis;
    uint32_t is_exclusive, is_reverse; /* 0 or 1 */
} bgi_cumulative_attributes;

#endif
