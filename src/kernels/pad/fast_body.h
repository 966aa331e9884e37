/*
 * fast_body.h: padding row by row: the inner part is copied at once, the rest element by element.
 */
#ifndef BGI_KERNELS_PAD_FAST_BODY_H
#define BGI_KERNELS_PAD_FAST_BODY_H

#include "kernels/cpu/move.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/pad/fast.h"

/* The beginning and end of a row's copied middle, in the padded row. */
ALWAYS_INLINE void find_middle(const bgi_pad_rows *r, int64_t *begin, int64_t *end)
{
    *begin = r->before > 0 ? r->before : 0;
    *end = clip(r->before + r->x_width, r->width);
}

static void pad_row(const bgi_pad_attributes *a, const bgi_pad_rows *r, bg_dtype dtype, const char *x, char *y)
{
    const size_t size = bg_dtype_size_bytes(dtype);
    int64_t begin, end;

    find_middle(r, &begin, &end);
    for (int64_t at = 0; at < r->width; at++) {
        const int64_t place = x != NULL ? bgi_pad_source(a->mode, at - r->before, r->x_width) : -1;

        if (x != NULL && at == begin && begin < end) {
            memcpy(y + (size_t)at * size, x + (size_t)place * size, (size_t)(end - begin) * size);
            at = end - 1;
        } else if (place < 0) {
            bgi_store(dtype, y, at, a->value);
        } else {
            memcpy(y + (size_t)at * size, x + (size_t)place * size, size);
        }
    }
}

static void run_pad(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pad_attributes *a = call->attributes;
    const bgi_pad_rows r = bgi_pad_rows_make(a);
    const bg_dtype dtype = call->types[0].dtype;
    const size_t size = bg_dtype_size_bytes(dtype);
    const uint32_t parts = bgi_move_parts(r.rows, &call->types[1]);

    for (int64_t row = bgi_cpu_part_start(r.rows, part, parts); row < bgi_cpu_part_start(r.rows, part + 1, parts);
         row++) {
        const int64_t source = bgi_pad_row_source(a, row);

        pad_row(a, &r, dtype, source < 0 ? NULL : (const char *)call->operands[0] + (size_t)(source * r.x_width) * size,
                (char *)call->operands[1] + (size_t)(row * r.width) * size);
    }
}

static void run_pad_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pad_attributes *a = call->attributes;
    const bgi_pad_rows r = bgi_pad_rows_make(a);
    int64_t begin, end;

    (void)part;
    find_middle(&r, &begin, &end);
    memset(call->operands[1], 0, bg_type_size_bytes(&call->types[1]));
    for (int64_t row = 0; row < r.rows; row++) {
        const int64_t source = bgi_pad_row_source(a, row);
        const float *dy = (const float *)call->operands[0] + row * r.width;
        float *dx = (float *)call->operands[1] + source * r.x_width;

        if (source < 0)
            continue;
        for (int64_t at = 0; at < r.width; at++) {
            const int64_t place = bgi_pad_source(a->mode, at - r.before, r.x_width);

            if (at == begin && begin < end) {
                add_loop(dx + place, dy + at, dx + place, end - begin);
                at = end - 1;
            } else if (place >= 0) {
                dx[place] += dy[at];
            }
        }
    }
}

#endif
