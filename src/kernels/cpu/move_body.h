/*
 * move_body.h: kernels that move elements: copies, transposition, broadcasting, embedding; and dropout, whose work is
 * its random numbers.
 */
#ifndef BGI_CPU_MOVE_BODY_H
#define BGI_CPU_MOVE_BODY_H

#include "kernels/cpu/elementwise_body.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/philox_body.h"
#include "kernels/cpu/transpose_body.h"

static void run_copy(const bg_kernel_call *call, uint32_t part)
{
    const int64_t bytes = (int64_t)bg_type_size_bytes(&call->types[0]), words = bytes / 8 + 1;
    const int64_t from = clip(bgi_elementwise_start(words, part) * 8, bytes);
    const int64_t to = clip(bgi_elementwise_start(words, part + 1) * 8, bytes);

    if (call->operands[0] != call->operands[1])
        memcpy((char *)call->operands[1] + from, (const char *)call->operands[0] + from, (size_t)(to - from));
}

/* ---- transposition ---- */

/* to[j][i] = from[i][j] for elements of `size` bytes; strides in elements. Blocks of 16 stay in the cache. */
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

static void run_broadcast(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *type = &call->types[1];
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view view = {1, 1};
    float buffer[BGI_ELEMENTWISE_CHUNK];

    bgi_broadcast_view_make(type, &call->types[0], &view);
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        write_floats(type->dtype, call->operands[1], i, chunk,
                     view_broadcast(type->dtype, call->operands[0], view, i, chunk, buffer));
    }
}

/* The operands added in order, in float32. */
static void run_add_n(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float sum[BGI_ELEMENTWISE_CHUNK], in[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        read_floats(dtype, call->operands[0], i, chunk, sum);
        for (uint32_t input = 1; input < call->input_count; input++)
            add_loop(sum, view_floats(dtype, call->operands[input], i, chunk, in), sum, chunk);
        write_floats(dtype, call->operands[call->input_count], i, chunk, sum);
    }
}

/* ---- embedding ---- */

static void run_embedding(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *table = &call->types[0];
    const int64_t count = bg_type_element_count(&call->types[1]);
    const size_t row = (size_t)table->dims[1] * bg_dtype_size_bytes(table->dtype);
    const uint32_t parts = bgi_move_parts(count, &call->types[call->input_count]);
    const int32_t *ids = call->operands[1];

    for (int64_t i = bgi_cpu_part_start(count, part, parts); i < bgi_cpu_part_start(count, part + 1, parts); i++) {
        const int64_t found = bgi_embedding_row(call, call->attributes, ids[i], table->dims[0]);
        char *to = (char *)call->operands[2] + (size_t)i * row;

        if (found < 0)
            memset(to, 0, row);
        else
            memcpy(to, (const char *)call->operands[0] + (size_t)found * row, row);
    }
}

/* A part owns a run of the table's rows, and adds what belongs to them in the order of the ids. */
static void run_embedding_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_embedding_attributes *attributes = call->attributes;
    const bg_type *table = &call->types[call->input_count];
    const uint32_t parts = bgi_move_parts(table->dims[0], table);
    const int64_t first = bgi_cpu_part_start(table->dims[0], part, parts), width = table->dims[1];
    const int64_t end = bgi_cpu_part_start(table->dims[0], part + 1, parts);
    const int64_t count = bg_type_element_count(&call->types[1]);
    const float *dy = call->operands[0];
    const int32_t *ids = call->operands[1];
    float *dtable = call->operands[call->input_count];

    memset(dtable + first * width, 0, (size_t)((end - first) * width) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = bgi_embedding_row(call, attributes, ids[i], table->dims[0]);

        if (row >= first && row < end && ids[i] != attributes->padding_index)
            add_loop(dtable + row * width, dy + i * width, dtable + row * width, width);
    }
}

/* ---- dropout ---- */

/* The random numbers of one sample, and what they decide. */
typedef struct dropout_mask {
    uint32_t rest[3], key[2]; /* the counter behind its first word */
    double bound;             /* words from it on are kept: 2^32 keeps none */
    float scale;              /* of what is kept */
} dropout_mask;

static dropout_mask find_mask(const bg_kernel_env *env, double probability, uint32_t random_id, uint32_t sample)
{
    return (dropout_mask){{sample, random_id, (uint32_t)env->step},
                          {(uint32_t)env->seed, (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)},
                          ceil(probability * 0x1p32),
                          (float)(1.0 / (1.0 - probability))};
}

/* What to multiply `count` elements with, up to 4 PHILOX_GROUP, the first of which is word 0 of counter `first`;
 * up to three more are written. */
static void make_factors(const dropout_mask *mask, uint32_t first, int64_t count, float *factors)
{
    const int64_t counters = (count + 3) / 4;
    uint32_t words[4][PHILOX_GROUP], threshold;

    if (mask->bound >= 0x1p32) {
        memset(factors, 0, (size_t)(4 * counters) * sizeof(float));
        return;
    }
    threshold = (uint32_t)mask->bound;
    make_words(mask->rest, mask->key, first, counters, words);
    for (int64_t i = 0; i < counters; i++)
        for (int64_t w = 0; w < 4; w++)
            factors[4 * i + w] = words[w][i] >= threshold ? mask->scale : 0.0f;
}

/* What is dropped is zero, whatever it was. */
static void drop_elements(const float *x, const float *factors, float *y, int64_t count)
{
    for (int64_t e = 0; e < count; e++)
        y[e] = factors[e] == 0.0f ? 0.0f : x[e] * factors[e];
}

/* `length` elements from `at` on, which are elements `first` and so on of the whole sample. */
static void drop_run(const bg_kernel_call *call, const dropout_mask *mask, int64_t at, int64_t first, int64_t length)
{
    const bg_dtype dtype = call->types[0].dtype;
    float in[4 * PHILOX_GROUP], out[4 * PHILOX_GROUP], factors[4 * PHILOX_GROUP];

    for (int64_t e = 0, count; e < length; e += count) {
        const int64_t skipped = (first + e) % 4; /* words of the first counter that belong to another piece */

        count = clip(length - e, 4 * PHILOX_GROUP - skipped);
        read_floats(dtype, call->operands[0], at + e, count, in);
        if (call->env->training) {
            make_factors(mask, (uint32_t)((first + e) / 4), skipped + count, factors);
            drop_elements(in, factors + skipped, out, count);
        }
        write_floats(dtype, call->operands[1], at + e, count, call->env->training ? out : in);
    }
}

static void run_dropout(const bg_kernel_call *call, uint32_t part)
{
    const bgi_dropout_attributes *attributes = call->attributes;
    const bg_type *type = &call->types[0];
    const int64_t samples = type->dims[0], elements = bg_type_element_count(type) / samples;
    const uint32_t parts = bgi_move_parts(samples, type), base = call->env->micro_batch * (uint32_t)samples;
    const bgi_dropout_runs runs = bgi_dropout_find_runs(call, elements);

    for (int64_t n = bgi_cpu_part_start(samples, part, parts); n < bgi_cpu_part_start(samples, part + 1, parts); n++) {
        const dropout_mask mask =
            find_mask(call->env, attributes->probability, attributes->random_id, base + (uint32_t)n);

        for (int64_t r = 0; r < runs.count; r++)
            drop_run(call, &mask, n * elements + r * runs.length, runs.first + r * runs.stride, runs.length);
    }
}

#endif
