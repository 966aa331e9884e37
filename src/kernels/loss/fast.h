/*
 * fast.h: how the losses over rows of logits divide their work: parts are runs of rows.
 */
#ifndef BGI_KERNELS_LOSS_FAST_H
#define BGI_KERNELS_LOSS_FAST_H

#include "kernels/cpu/variant.h"

#define BGI_LOSS_PART_ELEMENTS 8192

typedef struct bgi_loss_rows {
    bg_dtype dtype;
    int64_t count, classes;
    uint32_t parts;
} bgi_loss_rows;

static inline bgi_loss_rows bgi_loss_rows_read(const bg_type *logits)
{
    const int64_t classes = logits->dims[logits->rank - 1], count = bg_type_element_count(logits) / classes;

    return (bgi_loss_rows){logits->dtype, count, classes,
                           bgi_cpu_part_count(count, (double)count * (double)classes, BGI_LOSS_PART_ELEMENTS)};
}

/* Returns the bytes of scratch of a part: its sums in a separate cache line, and one row in float32. */
static inline size_t bgi_loss_part_bytes(const bgi_loss_rows *rows)
{
    return 64 + (size_t)bgi_cpu_round_up(rows->classes, 16) * sizeof(float);
}

#endif
