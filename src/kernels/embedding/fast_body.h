/*
 * fast_body.h: rows of a table by id, and the gradient of the table.
 */
#ifndef BGI_KERNELS_EMBEDDING_FAST_BODY_H
#define BGI_KERNELS_EMBEDDING_FAST_BODY_H

#include "kernels/cpu/move.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/embedding/attributes.h"
#include "kernels/embedding/fast.h"

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

static void prepare_embedding_backward(const bg_kernel_call *call)
{
    const bgi_embedding_attributes *attributes = call->attributes;
    const int32_t *ids = call->operands[1];
    const bgi_embedding_uses uses = bgi_embedding_uses_view(call->scratch, &call->types[1], &call->types[2]);

    memset(uses.first, 0, (size_t)uses.rows * sizeof *uses.first);
    for (int64_t i = uses.count; i-- > 0;) {
        const int64_t row = bgi_embedding_row(call, attributes, ids[i], uses.rows);

        if (row < 0 || ids[i] == attributes->padding_index)
            continue;
        uses.next[i] = uses.first[row];
        uses.first[row] = (int32_t)(i + 1);
    }
}

enum { EMBEDDING_COLUMNS = 512 };

/* Sums the rows of dy in the list that begins at use `first` - 1, in the list's order, for `columns` columns from
 * `begin` on. */
ALWAYS_INLINE void sum_uses(const bg_kernel_call *call, const int32_t *next, int64_t first, int64_t width,
                            int64_t begin, int64_t columns, float *sums)
{
    const bg_dtype dtype = call->types[0].dtype;
    float buffer[EMBEDDING_COLUMNS];

    memset(sums, 0, (size_t)columns * sizeof *sums);
    for (int64_t use = first; use != 0; use = next[use - 1])
        add_loop(sums, view_floats(dtype, call->operands[0], (use - 1) * width + begin, columns, buffer), sums,
                 columns);
}

/* Computes the gradient of a run of the table's rows, which the part owns. */
static void run_embedding_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *table = &call->types[2];
    const uint32_t parts = bgi_move_parts(table->dims[0], table);
    const int64_t width = table->dims[1], end = bgi_cpu_part_start(table->dims[0], part + 1, parts);
    const size_t size = bg_dtype_size_bytes(table->dtype);
    const bgi_embedding_uses uses = bgi_embedding_uses_view(call->scratch, &call->types[1], table);
    float buffer[EMBEDDING_COLUMNS];

    for (int64_t row = bgi_cpu_part_start(table->dims[0], part, parts); row < end; row++) {
        if (uses.first[row] == 0) {
            memset((char *)call->operands[2] + (size_t)(row * width) * size, 0, (size_t)width * size);
            continue;
        }
        for (int64_t begin = 0; begin < width; begin += EMBEDDING_COLUMNS) {
            const int64_t columns = clip(width - begin, EMBEDDING_COLUMNS);
            float *sums = begin_output(table->dtype, call->operands[2], row * width + begin, buffer);

            sum_uses(call, uses.next, uses.first[row], width, begin, columns, sums);
            end_output(table->dtype, call->operands[2], row * width + begin, columns, sums);
        }
    }
}

/* Adds the uses of the rows whose first use is in the part's run of uses. The sum over the micro-batch is complete, and
 * rounded to dy's type, before it is added to a row, as with EMBEDDING_BACKWARD and ACCUMULATE. */
static void run_embedding_rows(const bg_kernel_call *call, uint32_t part)
{
    const int64_t width = call->types[2].dims[1], count = bg_type_element_count(&call->types[1]) / 2;
    const uint32_t parts = bgi_move_parts(count, &call->types[0]);
    const bg_dtype dtype = call->types[0].dtype;
    const int32_t *first = call->operands[1], *next = first + count;
    float *rows = call->operands[2], sums[EMBEDDING_COLUMNS];

    for (int64_t i = bgi_cpu_part_start(count, part, parts); i < bgi_cpu_part_start(count, part + 1, parts); i++) {
        const int64_t slot = first[i] < 0 ? -(int64_t)first[i] : first[i];

        for (int64_t begin = 0; slot != 0 && begin < width; begin += EMBEDDING_COLUMNS) {
            const int64_t columns = clip(width - begin, EMBEDDING_COLUMNS);
            float *to = rows + (slot - 1) * width + begin;

            sum_uses(call, next, i + 1, width, begin, columns, sums);
            if (dtype != BG_FLOAT32) {
                uint16_t rounded[EMBEDDING_COLUMNS];

                narrow(dtype, sums, columns, rounded);
                widen(dtype, rounded, columns, sums);
            }
            if (first[i] < 0)
                memcpy(to, sums, (size_t)columns * sizeof(float));
            else
                add_loop(to, sums, to, columns);
        }
    }
}

/* Adds `rows` to a run of the table's rows, which the part owns. It adds +0 to unused rows, so that -0 also gives the
 * same bits as in a dense sum. */
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
