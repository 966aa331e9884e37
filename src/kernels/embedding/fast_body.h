/*
 * fast_body.h: rows of a table by id, and the gradient of the table.
 */
#ifndef BGI_KERNELS_EMBEDDING_FAST_BODY_H
#define BGI_KERNELS_EMBEDDING_FAST_BODY_H

#include "kernels/cpu/move.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/embedding/attributes.h"

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

/* A part owns a run of the table's rows, and adds their gradients in the order of the ids. */
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

enum { EMBEDDING_COLUMNS = 512 };

/* A part owns a run of the uses, and the rows of those that are the first of their id. The sum over the micro-batch is
 * complete before it is added to a row, as with EMBEDDING_BACKWARD and ACCUMULATE. */
static void run_embedding_rows(const bg_kernel_call *call, uint32_t part)
{
    const int64_t width = call->types[2].dims[1], count = bg_type_element_count(&call->types[1]) / 2;
    const uint32_t parts = bgi_move_parts(count, &call->types[0]);
    const float *dy = call->operands[0];
    const int32_t *first = call->operands[1], *next = first + count;
    float *rows = call->operands[2], sums[EMBEDDING_COLUMNS];

    for (int64_t i = bgi_cpu_part_start(count, part, parts); i < bgi_cpu_part_start(count, part + 1, parts); i++) {
        const int64_t slot = first[i] < 0 ? -(int64_t)first[i] : first[i];

        for (int64_t begin = 0; slot != 0 && begin < width; begin += EMBEDDING_COLUMNS) {
            const int64_t columns = width - begin < EMBEDDING_COLUMNS ? width - begin : EMBEDDING_COLUMNS;
            float *to = rows + (slot - 1) * width + begin;

            memset(sums, 0, sizeof sums);
            for (int64_t use = i + 1; use != 0; use = next[use - 1])
                add_loop(sums, dy + (use - 1) * width + begin, sums, columns);
            if (first[i] < 0)
                memcpy(to, sums, (size_t)columns * sizeof(float));
            else
                add_loop(to, sums, to, columns);
        }
    }
}

/* A part owns a run of the table's rows. Unused rows get +0 added, which gives the bits of a dense sum for -0 too. */
static void run_embedding_rows_add(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *table = &call->types[0];
    const int64_t width = table->dims[1];
    const uint32_t parts = bgi_move_parts(table->dims[0], table);
    const int32_t *slots = call->operands[2];
    const float *rows = call->operands[1], zeros[EMBEDDING_COLUMNS] = {0};
    float *gradient = call->operands[0];

    for (int64_t row = bgi_cpu_part_start(table->dims[0], part, parts);
         row < bgi_cpu_part_start(table->dims[0], part + 1, parts); row++)
        for (int64_t begin = 0; begin < width; begin += EMBEDDING_COLUMNS) {
            const int64_t columns = width - begin < EMBEDDING_COLUMNS ? width - begin : EMBEDDING_COLUMNS;
            float *to = gradient + row * width + begin;

            add_loop(to, slots[row] == 0 ? zeros : rows + (slots[row] - 1) * width + begin, to, columns);
        }
}

#endif
