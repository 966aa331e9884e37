/*
 * rows.h: how kernels over rows (the last dim) divide their work.
 */
#ifndef BGI_CPU_ROWS_H
#define BGI_CPU_ROWS_H

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

/* Sets the parts and the scratch of a kernel over rows of `type`; returns false if the element type is not
 * supported. */
static inline bool bgi_rows_take(bg_kernel *kernel, const bg_type *type, int64_t buffers)
{
    const bgi_rows rows = bgi_rows_read(type, buffers);

    kernel->part_count = rows.parts;
    kernel->scratch_bytes = rows.parts * (size_t)rows.part_floats * sizeof(float);
    return bgi_dtype_is_single(type->dtype);
}

#endif
