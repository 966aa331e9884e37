/*
 * fast_body.h: elements by index. Rows are copied whole. Sums go column by column, so that their order is that of the
 * ids for any number of parts. The largest elements of a row are kept in a heap.
 */
#ifndef BGI_KERNELS_INDEX_FAST_BODY_H
#define BGI_KERNELS_INDEX_FAST_BODY_H

#include "kernels/elementwise/fast_body.h"
#include "kernels/index/fast.h"

static void run_gather(const bg_kernel_call *call, uint32_t part)
{
    const bgi_gather g = bgi_gather_make(call->types, call->attributes);
    const size_t bytes = (size_t)g.view.inner * bg_dtype_size_bytes(call->types[0].dtype);
    const char *x = call->operands[0];

    for (int64_t row = bgi_cpu_part_start(g.rows, part, g.parts); row < bgi_cpu_part_start(g.rows, part + 1, g.parts);
         row++) {
        const int64_t place = bgi_index_resolve(call->types[1].dtype, call->operands[1], row % g.ids, g.view.size);
        char *to = (char *)call->operands[2] + (size_t)row * bytes;

        if (place < 0)
            memset(to, 0, bytes);
        else if (bytes == sizeof(float))
            memcpy(to, x + (size_t)(row / g.ids * g.view.size + place) * bytes, sizeof(float));
        else
            memcpy(to, x + (size_t)(row / g.ids * g.view.size + place) * bytes, bytes);
    }
}

/* Computes one block of columns of dx: zeros, plus the contribution of each row of dy. There is an id for each row, or
 * for each element. Sums are float32: sums of 16-bit values are kept in scratch, laid out like dx, until they are
 * complete. */
static void scatter_block(const bg_kernel_call *call, const bgi_scatter *s, int64_t outer, int64_t column,
                          int64_t columns, int64_t count, bool by_element)
{
    const bg_dtype dtype = call->types[0].dtype, ids = call->types[1].dtype;
    const int64_t first = outer * s->view.size * s->view.inner + column;
    float *dx = (float *)(dtype == BG_FLOAT32 ? call->operands[2] : call->scratch) + first;
    float buffer[BGI_SCATTER_BLOCK];

    for (int64_t i = 0; i < s->view.size; i++)
        memset(dx + i * s->view.inner, 0, (size_t)columns * sizeof *dx);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (outer * count + i) * s->view.inner + column;
        const float *dy = view_floats(dtype, call->operands[0], at, columns, buffer);

        if (by_element) {
            for (int64_t c = 0; c < columns; c++) {
                const int64_t place = bgi_index_resolve(ids, call->operands[1], at + c, s->view.size);
                if (place >= 0)
                    dx[place * s->view.inner + c] += dy[c];
            }
        } else {
            const int64_t place = bgi_index_resolve(ids, call->operands[1], i, s->view.size);
            if (place >= 0)
                add_loop(dx + place * s->view.inner, dy, dx + place * s->view.inner, columns);
        }
    }
    for (int64_t i = 0; dtype != BG_FLOAT32 && i < s->view.size; i++)
        write_floats(dtype, call->operands[2], first + i * s->view.inner, columns, dx + i * s->view.inner);
}

/* The same for elements of a row that are adjacent. */
static void scatter_row(const bg_kernel_call *call, const bgi_scatter *s, int64_t outer, int64_t count)
{
    const bg_dtype dtype = call->types[0].dtype, ids = call->types[1].dtype;
    const int64_t size = s->view.size;
    float *dx = (float *)(dtype == BG_FLOAT32 ? call->operands[2] : call->scratch) + outer * size;
    float buffer[BGI_ELEMENTWISE_CHUNK];

    memset(dx, 0, (size_t)size * sizeof *dx);
    for (int64_t i = 0; i < count; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t at = outer * count + i, chunk = clip(count - i, BGI_ELEMENTWISE_CHUNK);
        const float *dy = view_floats(dtype, call->operands[0], at, chunk, buffer);

        for (int64_t e = 0; e < chunk; e++) {
            const int64_t place = bgi_index_resolve(ids, call->operands[1], at + e, size);

            if (place >= 0)
                dx[place] += dy[e];
        }
    }
    if (dtype != BG_FLOAT32)
        write_floats(dtype, call->operands[2], outer * size, size, dx);
}

static void scatter_part(const bg_kernel_call *call, uint32_t part, bool by_element)
{
    const bgi_scatter s = bgi_scatter_make(call->attributes);
    const int64_t ids = bg_type_element_count(&call->types[1]);
    const int64_t count = by_element ? ids / (s.view.outer * s.view.inner) : ids;
    const int64_t end = bgi_cpu_part_start(s.view.outer * s.blocks, part + 1, s.parts);

    for (int64_t block = bgi_cpu_part_start(s.view.outer * s.blocks, part, s.parts); block < end; block++) {
        const int64_t column = block % s.blocks * BGI_SCATTER_BLOCK;

        if (by_element && s.view.inner == 1)
            scatter_row(call, &s, block, count);
        else
            scatter_block(call, &s, block / s.blocks, column, clip(s.view.inner - column, BGI_SCATTER_BLOCK), count,
                          by_element);
    }
}

static void run_scatter(const bg_kernel_call *call, uint32_t part)
{
    scatter_part(call, part, false);
}

static void run_scatter_elements(const bg_kernel_call *call, uint32_t part)
{
    scatter_part(call, part, true);
}

/* The elements of y from `first` to `end`, each of `size` bytes. */
ALWAYS_INLINE void gather_sized(const bg_kernel_call *call, int64_t first, int64_t end, const size_t size)
{
    const bgi_index_attributes *attributes = call->attributes;
    const bgi_axis_view view = bgi_axis_view_make(&call->types[0], attributes->axis);
    const int64_t count = call->types[1].dims[attributes->axis];
    const bg_dtype ids = call->types[1].dtype;
    const char *x = call->operands[0];
    char *y = call->operands[2];

    for (int64_t e = first; e < end;) {
        /* one run along the inner dimensions, or a whole row of ids where there are none */
        const int64_t run = view.inner > 1 ? view.inner : count, stop = clip(end, e - e % run + run);
        const char *from = x + (size_t)(e / view.inner / count * view.size * view.inner) * size;

        for (; e < stop; e++) {
            const int64_t place = bgi_index_resolve(ids, call->operands[1], e, view.size);
            const int64_t at = view.inner > 1 ? place * view.inner + e % view.inner : place;

            if (place < 0)
                memset(y + (size_t)e * size, 0, size);
            else
                memcpy(y + (size_t)e * size, from + (size_t)at * size, size);
        }
    }
}

static void run_gather_elements(const bg_kernel_call *call, uint32_t part)
{
    const int64_t all = bg_type_element_count(&call->types[2]);
    const int64_t first = bgi_elementwise_start(all, part), end = bgi_elementwise_start(all, part + 1);

    switch (bg_dtype_size_bytes(call->types[0].dtype)) {
    case 1:
        gather_sized(call, first, end, 1);
        break;
    case 2:
        gather_sized(call, first, end, 2);
        break;
    case 4:
        gather_sized(call, first, end, 4);
        break;
    default:
        gather_sized(call, first, end, 8);
    }
}

/* ---- the largest ---- */

typedef struct ranked {
    float key; /* the element; negated when the smallest are wanted */
    int32_t number;
} ranked;

/* NaN is larger than all numbers; among equal elements the first one comes first. Among negated elements NaN is the
 * last. */
ALWAYS_INLINE bool ranks_above(ranked a, ranked b, bool nan_is_last)
{
    const bool a_is_nan = a.key != a.key, b_is_nan = b.key != b.key;

    if (a_is_nan != b_is_nan)
        return a_is_nan != nan_is_last;
    if (!a_is_nan && a.key != b.key)
        return a.key > b.key;
    return a.number < b.number;
}

/* A heap with the lowest element in front: replaces heap[at] by `item` and restores the order. */
static void sink(ranked *heap, int64_t count, int64_t at, ranked item, bool nan_is_last)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && ranks_above(heap[child], heap[child + 1], nan_is_last))
            child++;
        if (!ranks_above(item, heap[child], nan_is_last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

/* Sinks the elements of a row, `first` .. `first` + count - 1, that rank above the lowest of the heap. Most do not, so
 * whole vectors of them are skipped. */
static void sink_chunk(const float *x, int64_t first, int64_t count, ranked *heap, int64_t k, bool is_negated)
{
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t end = clip(count, i + LANES);

        if (end - i == LANES) {
            const vf keys = is_negated ? -vload(x + i) : vload(x + i), lowest = vset(heap[0].key);

            if (!vany(vmask_or(vgreater(keys, lowest), vmask_or(vis_nan(keys), vis_nan(lowest)))))
                continue;
        }
        for (int64_t e = i; e < end; e++) {
            const ranked item = {is_negated ? -x[e] : x[e], (int32_t)(first + e)};

            if (ranks_above(item, heap[0], is_negated))
                sink(heap, k, 0, item, is_negated);
        }
    }
}

/* Fills the heap with the k largest elements of a row. */
static void rank_row(const bg_kernel_call *call, int64_t row, int64_t columns, ranked *heap, int64_t k, bool is_negated)
{
    const bg_dtype dtype = call->types[0].dtype;
    float buffer[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = 0; i < k; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(k - i, BGI_ELEMENTWISE_CHUNK);
        const float *x = view_floats(dtype, call->operands[0], row * columns + i, chunk, buffer);

        for (int64_t e = 0; e < chunk; e++)
            heap[i + e] = (ranked){is_negated ? -x[e] : x[e], (int32_t)(i + e)};
    }
    for (int64_t i = k / 2; i-- > 0;)
        sink(heap, k, i, heap[i], is_negated);
    for (int64_t i = k; i < columns; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(columns - i, BGI_ELEMENTWISE_CHUNK);
        const float *x = view_floats(dtype, call->operands[0], row * columns + i, chunk, buffer);

        sink_chunk(x, i, chunk, heap, k, is_negated);
    }
}

/* Each part has a heap in scratch. */
static void run_top_k(const bg_kernel_call *call, uint32_t part)
{
    const bgi_top_k_attributes *attributes = call->attributes;
    const bg_type *type = &call->types[0];
    const int64_t columns = type->dims[type->rank - 1], rows = bg_type_element_count(type) / columns;
    const int64_t k = attributes->k;
    const size_t size = bg_dtype_size_bytes(type->dtype);
    const uint32_t parts = bgi_top_k_parts(type);
    const bool is_negated = attributes->smallest != 0;
    ranked *heap = (ranked *)call->scratch + (int64_t)part * k;

    for (int64_t row = bgi_cpu_part_start(rows, part, parts); row < bgi_cpu_part_start(rows, part + 1, parts); row++) {
        const char *x = (const char *)call->operands[0] + (size_t)(row * columns) * size;
        char *values = (char *)call->operands[1] + (size_t)(row * k) * size;
        int32_t *numbers = (int32_t *)call->operands[2] + row * k;

        rank_row(call, row, columns, heap, k, is_negated);
        for (int64_t left = k; left-- > 0;) {
            const ranked last = heap[left];

            memcpy(values + (size_t)left * size, x + (size_t)heap[0].number * size, size);
            numbers[left] = heap[0].number;
            sink(heap, left, 0, last, is_negated);
        }
    }
}

#endif
