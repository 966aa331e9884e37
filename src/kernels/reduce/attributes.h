/*
 * attributes.h: the operands and attributes of reductions. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_REDUCE_ATTRIBUTES_H
#define BGI_KERNELS_REDUCE_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     REDUCE               x -> y      (y keeps reduced dims with size 1 when keep_dims)
 *     REDUCE_MAX_BACKWARD  dy, x, y -> dx  (dy at the first largest element, 0 elsewhere)
 *     BROADCAST            x -> y      (bgi_dims_attributes; kernels look at the types only)
 *     ARGMAX               x -> y int32
 */
typedef struct bgi_reduce_attributes {
    bg_reduction function;
    uint32_t axes; /* bit i: dim i is reduced */
    uint8_t keep_dims;
} bgi_reduce_attributes;

#endif
