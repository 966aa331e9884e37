/*
 * fast.h: how padding iterates: over rows along the last dimension, each with the row of x that it copies.
 */
#ifndef BGI_KERNELS_PAD_FAST_H
#define BGI_KERNELS_PAD_FAST_H

#include "kernels/cpu/variant.h"
#include "kernels/pad/attributes.h"

/* The padded tensor: [rows, width]; x: [x_rows, x_width]. */
typedef struct bgi_pad_rows {
    int64_t rows, width, x_rows, x_width;
    int64_t before; /* padding before the last dimension */
} bgi_pad_rows;

static inline bgi_pad_rows bgi_pad_rows_make(const bgi_pad_attributes *a)
{
    bgi_pad_rows r = {.rows = 1, .width = 1, .x_rows = 1, .x_width = 1};

    for (uint32_t i = 0; i + 1 < a->rank; i++) {
        r.rows *= a->before[i] + a->dims[i] + a->after[i];
        r.x_rows *= a->dims[i];
    }
    if (a->rank > 0) {
        r.x_width = a->dims[a->rank - 1];
        r.before = a->before[a->rank - 1];
        r.width = r.before + r.x_width + a->after[a->rank - 1];
    }
    return r;
}

/* Returns the floats of a runner's buffer: a row of dx and one of dy. */
static inline int64_t bgi_pad_buffer(const bgi_pad_rows *r)
{
    return bgi_cpu_round_up(r->x_width, 16) + bgi_cpu_round_up(r->width, 16);
}

/* Returns the row of x that padded row `row` copies, or -1 if the row has only constants. */
static inline int64_t bgi_pad_row_source(const bgi_pad_attributes *a, int64_t row)
{
    int64_t source = 0, stride = 1;

    for (uint32_t i = a->rank > 0 ? a->rank - 1 : 0; i-- > 0;) {
        const int64_t size = a->before[i] + a->dims[i] + a->after[i];
        const int64_t place = bgi_pad_source(a->mode, row % size - a->before[i], a->dims[i]);

        if (place < 0)
            return -1;
        source += place * stride;
        stride *= a->dims[i];
        row /= size;
    }
    return source;
}

#endif
