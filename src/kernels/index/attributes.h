/*
 * attributes.h: the operands and attributes of kernels that read and write elements by index along an axis. Notation:
 * kernels.h.
 */
#ifndef BGI_KERNELS_INDEX_ATTRIBUTES_H
#define BGI_KERNELS_INDEX_ATTRIBUTES_H

#include <brigade/ops.h>

#include "kernels/axis.h"
#include "kernels/reference/element.h"

/*
 *     GATHER              x, ids -> y     y[.., ids.., ..] = x[.., id, ..]
 *     SCATTER             dy, ids -> dx   zeros, plus the contribution of each id, in the order of ids
 *     GATHER_ELEMENTS     x, ids -> y     ids in y's shape
 *     SCATTER_ELEMENTS    dy, ids -> dx
 *     TOP_K               x -> values, numbers      along the last axis
 *     ONE_HOT             ids -> y                  y[.., id] = 1, other elements 0, of any type; kernels look at the
 *                                                   types only
 *
 * Ids are int32, int64 or uint8.
 */
typedef struct bgi_index_attributes {
    uint32_t axis; /* of x */
    uint32_t unused;
    bg_type whole; /* type of x; only scatters read it */
} bgi_index_attributes;

typedef struct bgi_top_k_attributes {
    int64_t k;
    uint32_t smallest; /* 0 or 1 */
    uint32_t unused;
} bgi_top_k_attributes;

/* Only the op uses these attributes. */
typedef struct bgi_one_hot_attributes {
    int64_t classes;
    bg_dtype dtype;
    uint32_t unused;
} bgi_one_hot_attributes;

/* Resolves an index along an axis of `size`; a negative one counts from the end. Returns -1 if it is out of range. */
static inline int64_t bgi_index_resolve(bg_dtype dtype, const void *ids, int64_t at, int64_t size)
{
    const int64_t id = bgi_load_integer(dtype, ids, at), place = id < 0 ? id + size : id;

    return place >= 0 && place < size ? place : -1;
}

#endif
