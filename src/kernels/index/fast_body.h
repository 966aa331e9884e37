/*
 * fast_body.h: elements by index. Rows are copied whole. One part adds all contributions to an element, so that their
 * order is that of the ids for any number of parts. The largest elements of a row are kept in a heap.
 */
#ifndef BGI_KERNELS_INDEX_FAST_BODY_H
#define BGI_KERNELS_INDEX_FAST_BODY_H

#include "kernels/elementwise/fast_body.h"
#include "kernels/index/fast.h"

/* Does the same as bgi_index_resolve for the id at `at`, for a type of ids that the compiler knows. */
ALWAYS_INLINE int64_t place_of(const bg_dtype dtype, const void *ids, int64_t at, int64_t size)
{
    const int64_t id = bgi_load_integer(dtype, ids, at), place = id + (id < 0 ? size : 0);

    return (uint64_t)place < (uint64_t)size ? place : -1;
}

/* Calls an inline function that gets the type of ids as a constant. */
#define WITH_IDS(dtype, function, ...)                                                                                 \
    do {                                                                                                               \
        if ((dtype) == BG_INT32)                                                                                       \
            function(BG_INT32, __VA_ARGS__);                                                                           \
        else if ((dtype) == BG_INT64)                                                                                  \
            function(BG_INT64, __VA_ARGS__);                                                                           \
        else                                                                                                           \
            function(BG_UINT8, __VA_ARGS__);                                                                           \
    } while (0)

/* Does the same as find_index_places for ids of int32. */
static bool find_int32_places(const int32_t *ids, int64_t count, int64_t size, int32_t *places)
{
    const vi axis = vset_int((int32_t)size), last = vset_int((int32_t)size - 1);
    vi outside = vset_int(0);
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        const vi id = vload_int(ids + i), place = id + ((id >> 31) & axis);    /* a negative id counts from the end */
        const vi bad = (place | (last - (place & vset_int(INT32_MAX)))) >> 31; /* -1 below 0 and above the last */

        vstore_int(places + i, place | bad);
        outside |= bad;
    }
    for (; i < count; i++) {
        places[i] = (int32_t)place_of(BG_INT32, ids, i, size);
        outside |= vset_int(places[i] >> 31);
    }
    return !vany_int(outside);
}

ALWAYS_INLINE bool find_places_of(const bg_dtype dtype, const void *ids, int64_t at, int64_t count, int64_t size,
                                  int32_t *places)
{
    int32_t outside = 0;

    for (int64_t i = 0; i < count; i++) {
        places[i] = (int32_t)place_of(dtype, ids, at + i, size);
        outside |= places[i];
    }
    return outside >= 0;
}

/* Finds the positions that ids at..at + count - 1 select, or -1 for those out of range. Returns whether all are in
 * range, so that loops over the positions need no branch. `size` fits int32. */
static bool find_index_places(bg_dtype dtype, const void *ids, int64_t at, int64_t count, int64_t size, int32_t *places)
{
    return dtype == BG_INT32   ? find_int32_places((const int32_t *)ids + at, count, size, places)
           : dtype == BG_INT64 ? find_places_of(BG_INT64, ids, at, count, size, places)
                               : find_places_of(BG_UINT8, ids, at, count, size, places);
}

/* ---- rows ---- */

/* Gathers rows first..first + count - 1 of one outer index. */
ALWAYS_INLINE void copy_rows(const bg_dtype dtype, const void *ids, int64_t first, int64_t count, int64_t size,
                             const char *x, size_t bytes, char *to)
{
    for (int64_t i = first; i < first + count; i++, to += bytes) {
        const int64_t place = place_of(dtype, ids, i, size);

        if (place < 0)
            memset(to, 0, bytes);
        else if (bytes == sizeof(float))
            memcpy(to, x + (size_t)place * sizeof(float), sizeof(float));
        else
            memcpy(to, x + (size_t)place * bytes, bytes);
    }
}

static void run_gather(const bg_kernel_call *call, uint32_t part)
{
    const bgi_gather g = bgi_gather_make(call->types, call->attributes);
    const size_t bytes = (size_t)g.view.inner * bg_dtype_size_bytes(call->types[0].dtype);
    const int64_t end = bgi_cpu_part_start(g.rows, part + 1, g.parts);

    for (int64_t row = bgi_cpu_part_start(g.rows, part, g.parts), count; row < end; row += count) {
        const int64_t outer = row / g.ids, first = row % g.ids;

        count = clip(end - row, g.ids - first);
        WITH_IDS(call->types[1].dtype, copy_rows, call->operands[1], first, count, g.view.size,
                 (const char *)call->operands[0] + (size_t)(outer * g.view.size) * bytes, bytes,
                 (char *)call->operands[2] + (size_t)row * bytes);
    }
}

/* Computes dx's rows low..high - 1 of an outer index: zeros, plus each row of dy whose id is in this range. */
ALWAYS_INLINE void add_rows_between(const bg_dtype dtype, const bg_kernel_call *call, const bgi_scatter *s,
                                    int64_t outer, int64_t low, int64_t high, int64_t count, float *dx)
{
    const int64_t inner = s->view.inner;
    float buffer[BGI_ELEMENTWISE_CHUNK];

    memset(dx + low * inner, 0, (size_t)((high - low) * inner) * sizeof *dx);
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = place_of(dtype, call->operands[1], i, s->view.size);

        if (place < low || place >= high)
            continue;
        for (int64_t c = 0; c < inner; c += BGI_ELEMENTWISE_CHUNK) {
            const int64_t chunk = clip(inner - c, BGI_ELEMENTWISE_CHUNK);
            float *to = dx + place * inner + c;

            add_loop(
                to,
                view_floats(call->types[0].dtype, call->operands[0], (outer * count + i) * inner + c, chunk, buffer),
                to, chunk);
        }
    }
}

/* Sums are float32: sums of 16-bit values are kept in scratch, laid out like dx, until they are complete. */
static float *scatter_sums(const bg_kernel_call *call)
{
    return (float *)(call->types[0].dtype == BG_FLOAT32 ? call->operands[2] : call->scratch);
}

static void scatter_rows(const bg_kernel_call *call, const bgi_scatter *s, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[1]), rows = s->view.outer * s->view.size;
    const int64_t end = bgi_cpu_part_start(rows, part + 1, s->parts);

    for (int64_t row = bgi_cpu_part_start(rows, part, s->parts), run; row < end; row += run) {
        const int64_t outer = row / s->view.size, low = row % s->view.size;
        float *dx = scatter_sums(call) + outer * s->view.size * s->view.inner;

        run = clip(end - row, s->view.size - low);
        WITH_IDS(call->types[1].dtype, add_rows_between, call, s, outer, low, low + run, count, dx);
        if (call->types[0].dtype != BG_FLOAT32)
            write_floats(call->types[0].dtype, call->operands[2], row * s->view.inner, run * s->view.inner,
                         dx + low * s->view.inner);
    }
}

/* ---- columns ---- */

/* Adds row i of dy, or its elements by their own ids, to a block of columns of dx. */
ALWAYS_INLINE void add_columns(const bg_dtype dtype, const void *ids, bool by_element, int64_t i, int64_t at,
                               const float *dy, int64_t columns, int64_t size, int64_t inner, float *dx)
{
    if (by_element) {
        for (int64_t c = 0; c < columns; c++) {
            const int64_t place = place_of(dtype, ids, at + c, size);
            if (place >= 0)
                dx[place * inner + c] += dy[c];
        }
    } else {
        const int64_t place = place_of(dtype, ids, i, size);
        for (int64_t c = 0; place >= 0 && c < columns; c++)
            dx[place * inner + c] += dy[c];
    }
}

/* Computes one block of columns of dx: zeros, plus the contribution of each row of dy. Each row of dy has an id, or
 * with `by_element` each element. */
static void scatter_block(const bg_kernel_call *call, const bgi_scatter *s, int64_t outer, int64_t column,
                          int64_t columns, int64_t count, bool by_element)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t first = outer * s->view.size * s->view.inner + column;
    float *dx = scatter_sums(call) + first;
    float buffer[BGI_SCATTER_BLOCK];

    for (int64_t i = 0; i < s->view.size; i++)
        memset(dx + i * s->view.inner, 0, (size_t)columns * sizeof *dx);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (outer * count + i) * s->view.inner + column;

        WITH_IDS(call->types[1].dtype, add_columns, call->operands[1], by_element, i, at,
                 view_floats(dtype, call->operands[0], at, columns, buffer), columns, s->view.size, s->view.inner, dx);
    }
    for (int64_t i = 0; dtype != BG_FLOAT32 && i < s->view.size; i++)
        write_floats(dtype, call->operands[2], first + i * s->view.inner, columns, dx + i * s->view.inner);
}

/* Adds `count` elements of dy to those of a row of dx. */
ALWAYS_INLINE void add_at_places(const int32_t *places, bool are_inside, const float *dy, int64_t count, float *dx)
{
    if (are_inside)
        for (int64_t e = 0; e < count; e++)
            dx[places[e]] += dy[e];
    else
        for (int64_t e = 0; e < count; e++)
            if (places[e] >= 0)
                dx[places[e]] += dy[e];
}

/* Computes rows first..end - 1 of dx, whose elements are adjacent: zeros, plus each element of dy. `dx` is row `first`.
 * A chunk of ids may cover many short rows. */
static void add_elements(const bg_kernel_call *call, int64_t first, int64_t end, int64_t count, int64_t size, float *dx)
{
    const bg_dtype dtype = call->types[0].dtype;
    float buffer[BGI_ELEMENTWISE_CHUNK];
    int32_t places[BGI_ELEMENTWISE_CHUNK];
    int64_t left = count; /* remaining ids of dx's row */

    memset(dx, 0, (size_t)((end - first) * size) * sizeof *dx);
    for (int64_t at = first * count, chunk; at < end * count; at += chunk) {
        chunk = clip(end * count - at, BGI_ELEMENTWISE_CHUNK);
        const float *dy = view_floats(dtype, call->operands[0], at, chunk, buffer);
        const bool are_inside = find_index_places(call->types[1].dtype, call->operands[1], at, chunk, size, places);

        for (int64_t i = 0, run; i < chunk; i += run) {
            run = clip(chunk - i, left);
            add_at_places(places + i, are_inside, dy + i, run, dx);
            left -= run;
            if (left == 0) {
                left = count;
                dx += size;
            }
        }
    }
}

/* Does the same as scatter_block for rows first..end - 1 of dx, whose elements are adjacent. */
static void scatter_adjacent(const bg_kernel_call *call, const bgi_scatter *s, int64_t first, int64_t end,
                             int64_t count)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t size = s->view.size;

    add_elements(call, first, end, count, size, scatter_sums(call) + first * size);
    if (dtype != BG_FLOAT32)
        write_floats(dtype, call->operands[2], first * size, (end - first) * size, scatter_sums(call) + first * size);
}

static void scatter_part(const bg_kernel_call *call, uint32_t part, bool by_element)
{
    const bgi_scatter s = bgi_scatter_make(call->attributes, by_element);
    const int64_t ids = bg_type_element_count(&call->types[1]);
    const int64_t count = by_element ? ids / (s.view.outer * s.view.inner) : ids;
    const int64_t first = bgi_cpu_part_start(s.view.outer * s.blocks, part, s.parts);
    const int64_t end = bgi_cpu_part_start(s.view.outer * s.blocks, part + 1, s.parts);

    if (s.view.inner == 1 && s.view.size <= INT32_MAX && (by_element || s.view.outer == 1)) {
        scatter_adjacent(call, &s, first, end, count);
        return;
    }
    for (int64_t block = first; block < end; block++) {
        const int64_t column = block % s.blocks * BGI_SCATTER_BLOCK;

        scatter_block(call, &s, block / s.blocks, column, clip(s.view.inner - column, BGI_SCATTER_BLOCK), count,
                      by_element);
    }
}

static void run_scatter(const bg_kernel_call *call, uint32_t part)
{
    const bgi_scatter s = bgi_scatter_make(call->attributes, false);

    if (s.is_by_rows)
        scatter_rows(call, &s, part);
    else
        scatter_part(call, part, false);
}

static void run_scatter_elements(const bg_kernel_call *call, uint32_t part)
{
    scatter_part(call, part, true);
}

/* ---- elements ---- */

/* Copies `count` elements of `size` bytes from a row of x; those out of range are zeros. */
ALWAYS_INLINE void copy_from_places(const int32_t *places, bool are_inside, const char *x, int64_t count,
                                    const size_t size, char *y)
{
    if (are_inside)
        for (int64_t i = 0; i < count; i++)
            memcpy(y + (size_t)i * size, x + (size_t)places[i] * size, size);
    else
        for (int64_t i = 0; i < count; i++)
            if (places[i] >= 0)
                memcpy(y + (size_t)i * size, x + (size_t)places[i] * size, size);
            else
                memset(y + (size_t)i * size, 0, size);
}

/* Computes elements first..end - 1 of y, each of `size` bytes, from rows of x whose elements are adjacent. A chunk of
 * ids may cover many short rows. */
ALWAYS_INLINE void gather_adjacent_elements(const bg_kernel_call *call, int64_t first, int64_t end, const size_t size)
{
    const bgi_index_attributes *attributes = call->attributes;
    const int64_t axis = call->types[0].dims[attributes->axis], count = call->types[1].dims[attributes->axis];
    const char *x = (const char *)call->operands[0] + (size_t)(first / count * axis) * size;
    char *y = (char *)call->operands[2] + (size_t)first * size;
    int32_t places[BGI_ELEMENTWISE_CHUNK];
    int64_t left = count - first % count; /* remaining ids of x's row */

    for (int64_t at = first, chunk; at < end; at += chunk) {
        chunk = clip(end - at, BGI_ELEMENTWISE_CHUNK);
        const bool are_inside = find_index_places(call->types[1].dtype, call->operands[1], at, chunk, axis, places);

        for (int64_t i = 0, run; i < chunk; i += run, y += (size_t)run * size) {
            run = clip(chunk - i, left);
            copy_from_places(places + i, are_inside, x, run, size, y);
            left -= run;
            if (left == 0) {
                left = count;
                x += (size_t)axis * size;
            }
        }
    }
}

/* Does the same for columns of x: one run of ids along the inner dimensions at a time. */
ALWAYS_INLINE void gather_inner_elements(const bg_dtype ids, const bg_kernel_call *call, int64_t first, int64_t end,
                                         const size_t size)
{
    const bgi_index_attributes *attributes = call->attributes;
    const bgi_axis_view view = bgi_axis_view_make(&call->types[0], attributes->axis);
    const int64_t rows = call->types[1].dims[attributes->axis];
    int64_t inner = first % view.inner, row = first / view.inner % rows;
    const char *from =
        (const char *)call->operands[0] + (size_t)(first / view.inner / rows * view.size * view.inner) * size;
    char *y = call->operands[2];

    for (int64_t e = first; e < end; inner = 0) {
        const int64_t stop = clip(end, e + view.inner - inner);

        for (int64_t column = inner; e < stop; e++, column++) {
            const int64_t place = place_of(ids, call->operands[1], e, view.size);

            if (place < 0)
                memset(y + (size_t)e * size, 0, size);
            else
                memcpy(y + (size_t)e * size, from + (size_t)(place * view.inner + column) * size, size);
        }
        if (++row == rows) {
            row = 0;
            from += (size_t)(view.size * view.inner) * size;
        }
    }
}

ALWAYS_INLINE void gather_sized(const bg_kernel_call *call, int64_t first, int64_t end, const size_t size)
{
    const bgi_index_attributes *attributes = call->attributes;
    const bgi_axis_view view = bgi_axis_view_make(&call->types[0], attributes->axis);

    if (view.inner == 1 && view.size <= INT32_MAX)
        gather_adjacent_elements(call, first, end, size);
    else
        WITH_IDS(call->types[1].dtype, gather_inner_elements, call, first, end, size);
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

static void run_one_hot(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *y = &call->types[1];
    const int64_t classes = y->dims[y->rank - 1], rows = bg_type_element_count(&call->types[0]);
    const uint32_t parts = bgi_move_parts(rows, y);
    const int64_t first = bgi_cpu_part_start(rows, part, parts), end = bgi_cpu_part_start(rows, part + 1, parts);
    const size_t size = bg_dtype_size_bytes(y->dtype);
    unsigned char one[8];

    bgi_store(y->dtype, one, 0, 1.0);
    memset((char *)call->operands[1] + (size_t)(first * classes) * size, 0, (size_t)((end - first) * classes) * size);
    for (int64_t row = first; row < end; row++) {
        const int64_t id = bgi_load_integer(call->types[0].dtype, call->operands[0], row);

        if (id >= 0 && id < classes)
            memcpy((char *)call->operands[1] + (size_t)(row * classes + id) * size, one, size);
    }
}

/* ---- the largest ---- */

typedef struct ranked {
    float key; /* the element; negated when the smallest are wanted */
    int32_t number;
} ranked;

/* Returns whether `a` precedes `b`. NaN is larger than all numbers, and the first of equal elements comes first. Among
 * negated elements NaN comes last. */
ALWAYS_INLINE bool ranks_above(ranked a, ranked b, bool nan_is_last)
{
    const bool a_is_nan = a.key != a.key, b_is_nan = b.key != b.key;

    if (a_is_nan != b_is_nan)
        return a_is_nan != nan_is_last;
    if (!a_is_nan && a.key != b.key)
        return a.key > b.key;
    return a.number < b.number;
}

/* Replaces heap[at] by `item` and restores the order of the heap, whose first element is the lowest. */
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

/* Inserts the elements among `first`..`first` + count - 1 of a row that rank above the lowest of the heap. Most
 * elements rank below it, so whole vectors are skipped. */
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

/* Finds the largest elements of the rows of a part; each part has a heap in scratch. */
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
