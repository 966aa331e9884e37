/*
 * fast.h: how cumulative sums divide their work: a part has blocks of columns over the whole axis.
 */
#ifndef BGI_KERNELS_CUMULATIVE_FAST_H
#define BGI_KERNELS_CUMULATIVE_FAST_H

#include "kernels/axis.h"
#include "kernels/cpu/variant.h"
#include "kernels/cumulative/attributes.h"

enum { BGI_CUMULATIVE_BLOCK = 64 };

typedef struct bgi_cumulation {
    bgi_axis_view view;
    int64_t blocks; /* blocks of columns for each outer index */
    uint32_t parts;
} bgi_cumulation;

static inline bgi_cumulation bgi_cumulation_make(const bg_type *type, uint32_t axis)
{
    bgi_cumulation c = {.view = bgi_axis_view_make(type, axis)};

    c.blocks = (c.view.inner + BGI_CUMULATIVE_BLOCK - 1) / BGI_CUMULATIVE_BLOCK;
    c.parts = bgi_cpu_part_count(c.view.outer * c.blocks, (double)bg_type_element_count(type), 8192);
    return c;
}

#endif
