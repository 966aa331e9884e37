/*
 * fast_body.h: padding row by row. The inner part is copied as a whole, and the padding element by element.
 */
#ifndef BGI_KERNELS_PAD_FAST_BODY_H
#define BGI_KERNELS_PAD_FAST_BODY_H

#include "kernels/cpu/move.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/pad/fast.h"

/* Finds the columns *begin..*end - 1 of a padded row that are copied from x as a whole. */
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

/* Adds a row of dy to the row of dx whose values the forward pass copied to this row. */
static void add_padded_row(const bgi_pad_attributes *a, const bgi_pad_rows *r, const float *dy, float *dx)
{
    int64_t begin, end;

    find_middle(r, &begin, &end);
    for (int64_t at = 0; at < r->width; at++) {
        const int64_t place = bgi_pad_source(a->mode, at - r->before, r->x_width);

        if (at == begin && begin < end) {
            add_loop(dx + place, dy + at, dx + place, end - begin);
            at = end - 1;
        } else if (place >= 0) {
            dx[place] += dy[at];
        }
    }
}

/* A row of dx: the sum of the rows of dy to which the forward pass copied the row's values. */
typedef struct padded_sum {
    const bg_kernel_call *call;
    bgi_pad_rows rows;
    int64_t row; /* of dx */
    float *sums, *buffer;
} padded_sum;

/* Recurses for each position of padded dimension `dim` that copies the row's position in that dimension, in order: in
 * the padding before, the position itself, in the padding after. `stride` is the dimension's stride in rows of dx,
 * `prefix` the padded row so far. */
static void add_padded_rows(const padded_sum *s, uint32_t dim, int64_t stride, int64_t prefix)
{
    const bgi_pad_attributes *a = s->call->attributes;
    int64_t place, size;

    if (dim + 1 >= a->rank) {
        add_padded_row(a, &s->rows,
                       view_floats(s->call->types[0].dtype, s->call->operands[0], prefix * s->rows.width, s->rows.width,
                                   s->buffer),
                       s->sums);
        return;
    }
    stride /= a->dims[dim];
    place = s->row / stride % a->dims[dim];
    size = a->before[dim] + a->dims[dim] + a->after[dim];
    for (int64_t at = -a->before[dim]; at < size - a->before[dim]; at++) {
        if (at >= 0 && at < place)
            at = place;
        else if (at > place && at < a->dims[dim])
            at = a->dims[dim];
        if (at < size - a->before[dim] && bgi_pad_source(a->mode, at, a->dims[dim]) == place)
            add_padded_rows(s, dim + 1, stride, prefix * size + at + a->before[dim]);
    }
}

static void run_pad_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pad_rows r = bgi_pad_rows_make(call->attributes);
    const bg_dtype dtype = call->types[0].dtype;
    const uint32_t parts = bgi_move_parts(r.x_rows, &call->types[0]);
    padded_sum s = {.call = call, .rows = r};
    float *sums = NULL;

    if (dtype != BG_FLOAT32) {
        sums = bgi_cpu_part_scratch(call, bgi_pad_buffer(&r));
        s.buffer = sums + bgi_cpu_round_up(r.x_width, 16);
    }
    for (s.row = bgi_cpu_part_start(r.x_rows, part, parts); s.row < bgi_cpu_part_start(r.x_rows, part + 1, parts);
         s.row++) {
        s.sums = begin_output(dtype, call->operands[1], s.row * r.x_width, sums);
        memset(s.sums, 0, (size_t)r.x_width * sizeof(float));
        add_padded_rows(&s, 0, r.x_rows, 0);
        end_output(dtype, call->operands[1], s.row * r.x_width, r.x_width, sums);
    }
}

#endif
