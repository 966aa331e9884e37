/*
 * fast.h: how cosines divide their work. Parts are runs of vectors; interleaved vectors are processed in blocks.
 */
#ifndef BGI_KERNELS_COSINE_FAST_H
#define BGI_KERNELS_COSINE_FAST_H

#include "kernels/cosine/attributes.h"
#include "kernels/cpu/rows.h"

enum { BGI_COSINE_BLOCK = 64 };

typedef struct bgi_cosines {
    bgi_axis_view view;
    int64_t blocks; /* blocks of vectors for each outer index */
    int64_t units;  /* outer x blocks */
    uint32_t parts;
} bgi_cosines;

static inline bgi_cosines bgi_cosines_read(const bg_type *a, const bgi_cosine_attributes *attributes)
{
    bgi_cosines c = {.view = bgi_axis_view_make(a, attributes->axis)};

    c.blocks = (c.view.inner + BGI_COSINE_BLOCK - 1) / BGI_COSINE_BLOCK;
    c.units = c.view.outer * c.blocks;
    c.parts = bgi_cpu_part_count(c.units, (double)bg_type_element_count(a), BGI_ROWS_PART_ELEMENTS);
    return c;
}

#endif
