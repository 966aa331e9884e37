/*
 * fast.h: how transpositions and slices divide their work.
 */
#ifndef BGI_KERNELS_RESHAPE_FAST_H
#define BGI_KERNELS_RESHAPE_FAST_H

#include "kernels/axis.h"
#include "kernels/cpu/move.h"

/* A permutation of dims, in which dims that stay adjacent are merged: y's dims, and the stride in x of each. */
typedef struct bgi_transposition {
    uint32_t rank;
    int64_t dims[BG_MAX_RANK], strides[BG_MAX_RANK];
    /* The dim of y that is contiguous in x (stride 1). Matrices of this dim and y's last dim are transposed; if it is
     * y's last dim, rows are copied. `items` is the product of the other dims, over which the kernel iterates. */
    uint32_t source;
    int64_t items;
    uint32_t parts;
} bgi_transposition;

static inline bgi_transposition bgi_transposition_make(const bg_type *x, const uint32_t *permutation)
{
    bgi_transposition t = {.items = 1};
    int64_t strides[BG_MAX_RANK], stride = 1;

    for (uint32_t i = x->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= x->dims[i];
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t size = x->dims[permutation[i]], step = strides[permutation[i]];

        if (size == 1)
            continue;
        if (t.rank > 0 && t.strides[t.rank - 1] == size * step) {
            t.dims[t.rank - 1] *= size;
            t.strides[t.rank - 1] = step;
        } else {
            t.dims[t.rank] = size;
            t.strides[t.rank++] = step;
        }
    }
    if (t.rank == 0)
        t = (bgi_transposition){.rank = 1, .dims = {1}, .strides = {1}};
    for (uint32_t i = 0; i < t.rank; i++)
        if (t.strides[i] == 1)
            t.source = i;
    t.items = 1;
    for (uint32_t i = 0; i + 1 < t.rank; i++)
        t.items *= i == t.source ? 1 : t.dims[i];
    t.parts = bgi_cpu_part_count(t.items, (double)bg_type_size_bytes(x), BGI_MOVE_PART_BYTES);
    return t;
}

/* A tensor that is divided along an axis: `outer` times `size` rows of `bytes` each. Parts are runs of rows. */
typedef struct bgi_axis_rows {
    int64_t outer, size;
    size_t bytes;
    uint32_t parts;
} bgi_axis_rows;

static inline bgi_axis_rows bgi_axis_rows_read(const bg_type *type, uint32_t axis)
{
    const bgi_axis_view view = bgi_axis_view_make(type, axis);
    bgi_axis_rows rows = {
        .outer = view.outer, .size = view.size, .bytes = (size_t)view.inner * bg_dtype_size_bytes(type->dtype)};

    rows.parts = bgi_move_parts(rows.outer * rows.size, type);
    return rows;
}

#endif
