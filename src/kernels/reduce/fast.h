/*
 * fast.h: how reductions divide their work.
 */
#ifndef BGI_KERNELS_REDUCE_FAST_H
#define BGI_KERNELS_REDUCE_FAST_H

#include "kernels/cpu/rows.h"

/* x as [outer, again, middle, reduced, inner]. The reduced dims are `reduced` and, if they form two separate groups,
 * `again`, as in a channel's gradient ([N, C, places]); otherwise `again` and `middle` are 1. A result combines, in
 * order, the results over `reduced` for each index of `again`.
 *
 * Work is divided along outer, middle and inner, the last in runs of `run` elements. If that gives few units, work is
 * also divided along `reduced`: pieces store separate results in scratch, `run` floats each, which are combined in
 * order. */
typedef struct bgi_reduction {
    int64_t outer, again, middle, reduced, inner;
    int64_t results;   /* outer x middle */
    int64_t run, runs; /* of inner */
    int64_t pieces;    /* of reduced */
    uint32_t parts;
} bgi_reduction;

enum { BGI_REDUCE_RUN = 256, BGI_REDUCE_FEW = 8 };

/* Describes the reduction in *out; returns false if the reduced dims are in more than two groups. */
static inline bool bgi_reduction_make(const bg_type *x, uint32_t axes, bgi_reduction *out)
{
    bgi_reduction r = {.outer = 1, .again = 1, .middle = 1, .reduced = 1, .inner = 1};
    int64_t *const groups[] = {&r.inner, &r.reduced, &r.middle, &r.again, &r.outer};
    int group = 0; /* groups with odd numbers are reduced */

    for (uint32_t i = x->rank; i-- > 0;) {
        if (x->dims[i] == 1)
            continue;
        if ((axes >> i & 1u) != (uint32_t)(group % 2))
            group++;
        if (group == 5)
            return false;
        *groups[group] *= x->dims[i];
    }
    if (group == 2) { /* only one group is reduced, and dims precede it */
        r.outer = r.middle;
        r.middle = 1;
    }
    r.results = r.outer * r.middle;
    r.run = r.inner < BGI_REDUCE_RUN ? r.inner : BGI_REDUCE_RUN;
    r.runs = (r.inner + r.run - 1) / r.run;
    r.pieces = 1;
    if (r.results * r.runs < BGI_REDUCE_FEW)
        r.pieces = bgi_cpu_part_count(r.reduced, (double)r.reduced * (double)r.run, BGI_ROWS_PART_ELEMENTS);
    r.parts = bgi_cpu_part_count(r.results * r.runs * r.pieces,
                                 (double)r.results * (double)r.again * (double)r.reduced * (double)r.inner,
                                 BGI_ROWS_PART_ELEMENTS);
    *out = r;
    return true;
}

/* Returns the number of parts of work that is not divided along the reduced dims. */
static inline uint32_t bgi_reduction_whole_parts(const bgi_reduction *r)
{
    return bgi_cpu_part_count(r->results * r->runs, (double)r->results * (double)r->reduced * (double)r->inner,
                              BGI_ROWS_PART_ELEMENTS);
}

/* Returns the offset in x at which the elements of a result begin, for one index of `again`. */
static inline int64_t bgi_reduction_start(const bgi_reduction *r, int64_t result, int64_t again)
{
    return ((result / r->middle * r->again + again) * r->middle + result % r->middle) * r->reduced * r->inner;
}

/* Any broadcast as rows of `inner` elements, which repeat one element of x (is_filled) or are adjacent in x. Row r is
 * at the sum of (r / every[i]) % dims[i] * strides[i] in x. */
typedef struct bgi_broadcast_rows {
    int64_t rows, inner;
    bool is_filled;
    uint32_t rank;
    int64_t dims[BG_MAX_RANK], every[BG_MAX_RANK], strides[BG_MAX_RANK];
} bgi_broadcast_rows;

static inline bgi_broadcast_rows bgi_broadcast_rows_make(const bg_type *y, const bg_type *x)
{
    bgi_broadcast_rows b = {.rows = 1, .inner = 1};
    int64_t stride = 1;
    bool is_inner = true, has_inner = false;

    for (uint32_t back = 1; back <= y->rank; back++) {
        const int64_t size = y->dims[y->rank - back], own = back <= x->rank ? x->dims[x->rank - back] : 1;

        if (size == 1)
            continue;
        if (!has_inner)
            b.is_filled = own == 1;
        is_inner = is_inner && (own == 1) == b.is_filled;
        has_inner = true;
        if (is_inner) {
            b.inner *= size;
        } else {
            if (own > 1) {
                b.dims[b.rank] = size;
                b.every[b.rank] = b.rows;
                b.strides[b.rank++] = stride;
            }
            b.rows *= size;
        }
        stride *= own;
    }
    return b;
}

#endif
