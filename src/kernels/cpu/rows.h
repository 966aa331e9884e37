/*
 * rows.h: how kernels over rows (the last dim) and over reduced dims cut their work.
 */
#ifndef BGI_CPU_ROWS_H
#define BGI_CPU_ROWS_H

#include "kernels/attributes.h"
#include "kernels/cpu/variant.h"

#define BGI_ROWS_PART_ELEMENTS 16384

/* Scratch of a part: `buffers` rows in float32. */
typedef struct bgi_rows {
    bg_dtype dtype;
    int64_t count, length;
    uint32_t parts;
    int64_t row_floats, part_floats;
} bgi_rows;

static inline bgi_rows bgi_rows_read(const bg_type *type, int64_t buffers)
{
    const int64_t length = type->rank ? type->dims[type->rank - 1] : 1;
    const int64_t count = bg_type_element_count(type) / length;
    bgi_rows rows = {.dtype = type->dtype, .count = count, .length = length};

    rows.parts = bgi_cpu_part_count(count, (double)count * (double)length, BGI_ROWS_PART_ELEMENTS);
    rows.row_floats = bgi_cpu_round_up(length, 16);
    rows.part_floats = buffers * rows.row_floats;
    return rows;
}

/* x as [outer, reduced, inner]: what is reduced lies side by side. Work is cut along outer, or for few of those along
 * inner, in runs of `run` elements. */
typedef struct bgi_reduction {
    int64_t outer, reduced, inner;
    int64_t run, runs; /* of inner */
    uint32_t parts;
} bgi_reduction;

enum { BGI_REDUCE_RUN = 256 };

/* False: the reduced dims do not lie side by side. */
static inline bool bgi_reduction_make(const bg_type *x, uint32_t axes, bgi_reduction *out)
{
    bgi_reduction r = {.outer = 1, .reduced = 1, .inner = 1};
    int phase = 0;

    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t size = x->dims[i];

        if (size == 1)
            continue;
        if ((axes >> i & 1u) != 0) {
            if (phase == 2)
                return false;
            phase = 1;
            r.reduced *= size;
        } else if (phase == 0) {
            r.outer *= size;
        } else {
            phase = 2;
            r.inner *= size;
        }
    }
    r.run = r.inner < BGI_REDUCE_RUN ? r.inner : BGI_REDUCE_RUN;
    r.runs = (r.inner + r.run - 1) / r.run;
    r.parts = bgi_cpu_part_count(r.outer * r.runs, (double)r.outer * (double)r.reduced * (double)r.inner,
                                 BGI_ROWS_PART_ELEMENTS);
    *out = r;
    return true;
}

#endif
