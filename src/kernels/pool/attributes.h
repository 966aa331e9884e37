/*
 * attributes.h: the operands and attributes of poolings. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_POOL_ATTRIBUTES_H
#define BGI_KERNELS_POOL_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     MAX_POOL2D           x -> y, where (int32: index of the largest element in its H x W plane)
 *     MAX_POOL2D_BACKWARD  dy, where -> dx
 *     AVG_POOL2D           x -> y
 *     AVG_POOL2D_BACKWARD  dy -> dx
 */
typedef struct bgi_pool2d_attributes {
    bg_pool2d_options options; /* a `stride` of 0 is already replaced by the kernel's size */
    int64_t sizes[2]; /* sizes of y for adaptive max pools (bgi_pool_window); 0: the options give the windows */
} bgi_pool2d_attributes;

/* Finds window `i` of `count` in a dim of `size` elements: it begins at *begin and ends before *end. Neighboring
 * windows may share an element if `count` does not divide `size`. */
static inline void bgi_pool_window(int64_t size, int64_t count, int64_t i, int64_t *begin, int64_t *end)
{
    *begin = i * size / count;
    *end = ((i + 1) * size + count - 1) / count;
}

typedef struct bgi_pool2d_backward_attributes {
    bgi_pool2d_attributes forward;
    bg_type result; /* type of dx */
} bgi_pool2d_backward_attributes;

#endif
