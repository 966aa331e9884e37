/*
 * fast_body.h: copies, transposition, slices.
 */
#ifndef BGI_KERNELS_RESHAPE_FAST_BODY_H
#define BGI_KERNELS_RESHAPE_FAST_BODY_H

#include "kernels/cpu/transpose_body.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/reshape/attributes.h"
#include "kernels/reshape/fast.h"

static void run_copy(const bg_kernel_call *call, uint32_t part)
{
    const int64_t bytes = (int64_t)bg_type_size_bytes(&call->types[0]), words = bytes / 8 + 1;
    const int64_t from = clip(bgi_elementwise_start(words, part) * 8, bytes);
    const int64_t to = clip(bgi_elementwise_start(words, part + 1) * 8, bytes);

    if (call->operands[0] != call->operands[1])
        memcpy((char *)call->operands[1] + from, (const char *)call->operands[0] + from, (size_t)(to - from));
}

/* ---- transposition ---- */

/* Sets to[j][i] = from[i][j] for elements of `size` bytes; strides are in elements. Blocks of 16 fit the cache. */
static void transpose_elements(const char *from, int64_t from_stride, int64_t rows, int64_t cols, char *to,
                               int64_t to_stride, size_t size)
{
    if (size == sizeof(float)) {
        for (int64_t i = 0; i < rows; i += 16) {
            const int64_t count = clip(rows - i, 16);

            transpose_matrix((const float *)(const void *)from + i * from_stride, from_stride, count, cols,
                             (float *)(void *)to + i, to_stride, count);
        }
        return;
    }
    for (int64_t block = 0; block < cols; block += 16)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = block; j < cols && j < block + 16; j++) {
                const char *source = from + (size_t)(i * from_stride + j) * size;
                char *target = to + (size_t)(j * to_stride + i) * size;

                if (size == 2)
                    memcpy(target, source, 2);
                else
                    memcpy(target, source, size);
            }
}

static void run_transpose(const bg_kernel_call *call, uint32_t part)
{
    const bgi_transpose_attributes *attributes = call->attributes;
    const bgi_transposition t = bgi_transposition_make(&call->types[0], attributes->permutation);
    const size_t size = bg_dtype_size_bytes(call->types[0].dtype);
    const uint32_t last = t.rank - 1;
    int64_t steps[BG_MAX_RANK], step = 1; /* strides in y */

    for (uint32_t i = t.rank; i-- > 0;) {
        steps[i] = step;
        step *= t.dims[i];
    }
    for (int64_t item = bgi_cpu_part_start(t.items, part, t.parts);
         item < bgi_cpu_part_start(t.items, part + 1, t.parts); item++) {
        int64_t rest = item, from = 0, to = 0;
        const char *x;
        char *y;

        for (uint32_t i = last; i-- > 0;)
            if (i != t.source) {
                from += rest % t.dims[i] * t.strides[i];
                to += rest % t.dims[i] * steps[i];
                rest /= t.dims[i];
            }
        x = (const char *)call->operands[0] + (size_t)from * size;
        y = (char *)call->operands[1] + (size_t)to * size;
        if (t.source == last)
            memcpy(y, x, (size_t)t.dims[last] * size);
        else
            transpose_elements(x, t.strides[last], t.dims[last], t.dims[t.source], y, steps[t.source], size);
    }
}

/* ---- slices: rows of an axis ---- */

/* Iterates over the runs of rows in part `part` of `rows`. Each run is `count` rows, from row `first` on, of outer
 * element `outer`. */
#define FOR_AXIS_RUNS(rows, part, outer, first, count)                                                                 \
    for (int64_t row_ = bgi_cpu_part_start((rows).outer * (rows).size, part, (rows).parts),                            \
                 end_ = bgi_cpu_part_start((rows).outer * (rows).size, part + 1, (rows).parts),                        \
                 outer = row_ / (rows).size, first = row_ % (rows).size,                                               \
                 count = clip(end_ - row_, (rows).size - first);                                                       \
         row_ < end_; row_ += count, outer = row_ / (rows).size, first = row_ % (rows).size,                           \
                 count = clip(end_ - row_, (rows).size - first))

static void run_slice(const bg_kernel_call *call, uint32_t part)
{
    const bgi_slice_attributes *attributes = call->attributes;
    const bgi_axis_rows y = bgi_axis_rows_read(&call->types[1], attributes->axis);
    const int64_t size = call->types[0].dims[attributes->axis];

    FOR_AXIS_RUNS(y, part, outer, first, count)
    {
        const char *from = (const char *)call->operands[0] +
                           (size_t)(outer * size + attributes->start + first * attributes->step) * y.bytes;
        char *to = (char *)call->operands[1] + (size_t)(outer * y.size + first) * y.bytes;

        if (attributes->step == 1)
            memcpy(to, from, (size_t)count * y.bytes);
        else
            for (int64_t i = 0; i < count; i++)
                memcpy(to + (size_t)i * y.bytes, from + (size_t)(i * attributes->step) * y.bytes, y.bytes);
    }
}

static void run_slice_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_slice_attributes *attributes = call->attributes;
    const bgi_axis_rows dx = bgi_axis_rows_read(&call->types[1], attributes->axis);
    const int64_t size = call->types[0].dims[attributes->axis], step = attributes->step, start = attributes->start;

    FOR_AXIS_RUNS(dx, part, outer, first, count)
    {
        /* rows of dy whose positions in dx are in the run */
        const int64_t from = first <= start ? 0 : (first - start + step - 1) / step;
        const int64_t behind = first + count <= start ? 0 : (first + count - start + step - 1) / step;
        const int64_t end = clip(behind, size);
        const char *dy = (const char *)call->operands[0] + (size_t)(outer * size) * dx.bytes;
        char *to = (char *)call->operands[1] + (size_t)(outer * dx.size) * dx.bytes;

        if (step == 1 && from < end) {
            memset(to + (size_t)first * dx.bytes, 0, (size_t)(start + from - first) * dx.bytes);
            memcpy(to + (size_t)(start + from) * dx.bytes, dy + (size_t)from * dx.bytes,
                   (size_t)(end - from) * dx.bytes);
            memset(to + (size_t)(start + end) * dx.bytes, 0, (size_t)(first + count - start - end) * dx.bytes);
            continue;
        }
        memset(to + (size_t)first * dx.bytes, 0, (size_t)count * dx.bytes);
        for (int64_t i = from; i < end; i++)
            memcpy(to + (size_t)(start + i * step) * dx.bytes, dy + (size_t)i * dx.bytes, dx.bytes);
    }
}

static void run_roll(const bg_kernel_call *call, uint32_t part)
{
    const bgi_roll_attributes *attributes = call->attributes;
    const bgi_axis_rows y = bgi_axis_rows_read(&call->types[1], attributes->axis);
    const int64_t end = y.size - attributes->first; /* the first row of y that comes from x's beginning */

    FOR_AXIS_RUNS(y, part, outer, first, count)
    {
        const char *x = (const char *)call->operands[0] + (size_t)(outer * y.size) * y.bytes;
        char *to = (char *)call->operands[1] + (size_t)(outer * y.size + first) * y.bytes;
        const int64_t before = first < end ? clip(count, end - first) : 0;

        if (before > 0)
            memcpy(to, x + (size_t)(first + attributes->first) * y.bytes, (size_t)before * y.bytes);
        if (before < count)
            memcpy(to + (size_t)before * y.bytes, x + (size_t)(first + before - end) * y.bytes,
                   (size_t)(count - before) * y.bytes);
    }
}

static void run_concat(const bg_kernel_call *call, uint32_t part)
{
    const uint32_t axis = ((const bgi_axis_attributes *)call->attributes)->axis;
    const bgi_axis_rows y = bgi_axis_rows_read(&call->types[call->input_count], axis);

    FOR_AXIS_RUNS(y, part, outer, first, count)
    {
        char *to = (char *)call->operands[call->input_count] + (size_t)(outer * y.size) * y.bytes;
        int64_t begin = 0;

        for (uint32_t input = 0; input < call->input_count && begin < first + count; input++) {
            const int64_t size = call->types[input].dims[axis], end = begin + size;
            const int64_t low = begin > first ? begin : first, high = clip(end, first + count);

            if (low < high)
                memcpy(to + (size_t)low * y.bytes,
                       (const char *)call->operands[input] + (size_t)(outer * size + low - begin) * y.bytes,
                       (size_t)(high - low) * y.bytes);
            begin = end;
        }
    }
}

#endif
