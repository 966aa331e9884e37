/*
 * move.h: how kernels that move elements cut their work: transposition, copies, embedding, pooling.
 */
#ifndef BGI_CPU_MOVE_H
#define BGI_CPU_MOVE_H

#include "kernels/attributes.h"
#include "kernels/cpu/variant.h"

#define BGI_MOVE_PART_BYTES (256 * 1024)

/* A permutation of dims with those that stay together merged: y's dims, and the stride in x of each. */
typedef struct bgi_transposition {
    uint32_t rank;
    int64_t dims[BG_MAX_RANK], strides[BG_MAX_RANK];
    /* The dim of y that is side by side in x (stride 1). Matrices of it and y's last dim are transposed; when it is
     * y's last, rows are copied. The other dims are walked: `items` of them. */
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

/* Parts of a row-wise move: rows are never cut. */
static inline uint32_t bgi_move_parts(int64_t rows, const bg_type *type)
{
    return bgi_cpu_part_count(rows, (double)bg_type_size_bytes(type), BGI_MOVE_PART_BYTES);
}

#endif
