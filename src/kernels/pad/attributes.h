/*
 * attributes.h: the operands and attributes of padding. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_PAD_ATTRIBUTES_H
#define BGI_KERNELS_PAD_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     PAD           x -> y
 *     PAD_BACKWARD  dy -> dx   contributions to an element are added in the order of dy
 */
typedef struct bgi_pad_attributes {
    bg_pad_mode mode;
    uint32_t rank; /* of x */
    int64_t before[BG_MAX_RANK], after[BG_MAX_RANK];
    int64_t dims[BG_MAX_RANK]; /* of x */
    double value;
} bgi_pad_attributes;

/* Returns the element of a dimension of `size` that the padded tensor has at position `at`, or -1 for the constant.
 * Position 0 is the first element; the padding begins at -before. */
static inline int64_t bgi_pad_source(bg_pad_mode mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    if (mode == BG_PAD_CONSTANT)
        return -1;
    if (mode == BG_PAD_REPLICATE)
        return at < 0 ? 0 : size - 1;
    if (mode == BG_PAD_CIRCULAR)
        return at < 0 ? at + size : at - size;
    return at < 0 ? -at : 2 * (size - 1) - at;
}

#endif
