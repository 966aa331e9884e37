/*
 * fast.h: how kernels of elements by index divide their work.
 */
#ifndef BGI_KERNELS_INDEX_FAST_H
#define BGI_KERNELS_INDEX_FAST_H

#include "kernels/cpu/move.h"
#include "kernels/elementwise/fast.h"
#include "kernels/index/attributes.h"

/* Parts are runs of rows of y. */
typedef struct bgi_gather {
    bgi_axis_view view; /* of x */
    int64_t ids, rows;
    uint32_t parts;
} bgi_gather;

static inline bgi_gather bgi_gather_make(const bg_type *types, const bgi_index_attributes *attributes)
{
    bgi_gather g = {.view = bgi_axis_view_make(&types[0], attributes->axis), .ids = bg_type_element_count(&types[1])};

    g.rows = g.view.outer * g.ids;
    g.parts = bgi_move_parts(g.rows, &types[2]);
    return g;
}

/* In a scatter of whole rows, parts are runs of dx's rows: each part reads all ids, and adds the contributions to its
 * rows. If rows are short, or each element has a separate id, parts are runs of columns. An outer index has one column
 * for each inner index, in blocks. In either case one part adds all contributions to an element, in the order of
 * ids. */
enum { BGI_SCATTER_BLOCK = 64, BGI_SCATTER_ROW = 16 };
typedef struct bgi_scatter {
    bgi_axis_view view; /* of dx */
    bool is_by_rows;
    int64_t blocks; /* blocks of columns for each outer index */
    uint32_t parts;
} bgi_scatter;

static inline bgi_scatter bgi_scatter_make(const bgi_index_attributes *attributes, bool by_element)
{
    bgi_scatter s = {.view = bgi_axis_view_make(&attributes->whole, attributes->axis)};

    s.is_by_rows = !by_element && s.view.inner >= BGI_SCATTER_ROW;
    s.blocks = (s.view.inner + BGI_SCATTER_BLOCK - 1) / BGI_SCATTER_BLOCK;
    s.parts = bgi_move_parts(s.view.outer * (s.is_by_rows ? s.view.size : s.blocks), &attributes->whole);
    return s;
}

static inline uint32_t bgi_top_k_parts(const bg_type *x)
{
    const int64_t columns = x->dims[x->rank - 1], rows = bg_type_element_count(x) / columns;

    return bgi_cpu_part_count(rows, (double)rows * (double)columns, 4096);
}

#endif
