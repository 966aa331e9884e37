/*
 * reference.c: rows of a table by id, in plain C. An id outside the table reads as zeros and gets no gradient.
 */
#include "kernels/kernels.h"

#include <stdlib.h>

#include "kernels/embedding/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

void bgi_reference_embedding(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *table = bgi_input_type(call, 0);
    const int64_t id_count = bg_type_element_count(bgi_input_type(call, 1));
    const int64_t height = table->dims[0], width = table->dims[1];
    const int32_t *ids = call->operands[1];

    (void)part;
    for (int64_t i = 0; i < id_count; i++) {
        const int64_t row = bgi_embedding_row(call, call->attributes, ids[i], height);

        for (int64_t j = 0; j < width; j++)
            bgi_store(table->dtype, bgi_output(call, 0), i * width + j,
                      row < 0 ? 0.0 : bgi_load(table->dtype, call->operands[0], row * width + j));
    }
}

static bool is_first_use(const int32_t *ids, int64_t i)
{
    for (int64_t earlier = 0; earlier < i; earlier++)
        if (ids[earlier] == ids[i])
            return false;
    return true;
}

/* Computes the gradient of one row: the sum of the contributions of all uses of the id, in order, in double, for a few
 * columns at a time. */
static void sum_row(const bg_kernel_call *call, const int32_t *ids, int64_t id_count, int64_t first_use, int64_t row)
{
    enum { COLUMNS = 64 };
    const bg_type *table = bgi_output_type(call, 0);
    const int64_t width = table->dims[1];

    for (int64_t begin = 0; begin < width; begin += COLUMNS) {
        const int64_t columns = width - begin < COLUMNS ? width - begin : COLUMNS;
        double sums[COLUMNS] = {0};

        for (int64_t i = first_use; i < id_count; i++)
            for (int64_t j = 0; ids[i] == ids[first_use] && j < columns; j++)
                sums[j] += bgi_load(table->dtype, call->operands[0], i * width + begin + j);
        for (int64_t j = 0; j < columns; j++)
            bgi_store(table->dtype, bgi_output(call, 0), row * width + begin + j, sums[j]);
    }
}

void bgi_reference_embedding_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_embedding_attributes *attributes = call->attributes;
    const bg_type *table = bgi_output_type(call, 0);
    const int64_t id_count = bg_type_element_count(bgi_input_type(call, 1));
    const int32_t *ids = call->operands[1];

    (void)part;
    memset(bgi_output(call, 0), 0, bg_type_size_bytes(table));
    for (int64_t i = 0; i < id_count; i++) {
        const int64_t row = bgi_embedding_row(call, attributes, ids[i], table->dims[0]);

        if (row >= 0 && ids[i] != attributes->padding_index && is_first_use(ids, i))
            sum_row(call, ids, id_count, i, row);
    }
}

void bgi_reference_embedding_slots(const bg_kernel_call *call, uint32_t part)
{
    const bgi_embedding_attributes *attributes = call->attributes;
    const int64_t height = (bgi_input_type(call, 1)->dims[0] - 1) / 2;
    const int32_t id_count = (int32_t)bg_type_element_count(bgi_input_type(call, 0));
    const bgi_embedding_slots slots = bgi_embedding_view_slots(call->operands[1], height);
    const int32_t *ids = call->operands[0];
    int32_t *first = bgi_output(call, 0), *next = first + id_count;

    (void)part;
    if (call->env->accumulated == 0)
        memset(call->operands[1], 0, bg_type_size_bytes(bgi_input_type(call, 1)));
    for (int32_t i = 0; i < id_count; i++) {
        const int64_t row = bgi_embedding_row(call, attributes, ids[i], height);

        first[i] = next[i] = 0;
        if (row < 0 || ids[i] == attributes->padding_index)
            continue;
        if (slots.last_use[row] != 0) {
            next[slots.last_use[row] - 1] = i + 1;
        } else if (slots.of_row[row] != 0) {
            first[i] = slots.of_row[row];
        } else {
            slots.of_row[row] = ++*slots.used;
            first[i] = -slots.of_row[row];
        }
        slots.last_use[row] = i + 1;
    }
    for (int32_t i = 0; i < id_count; i++) {
        const int64_t row = bgi_embedding_row(call, attributes, ids[i], height);

        if (row >= 0)
            slots.last_use[row] = 0;
    }
}

/* Rounds the sum over a micro-batch to dy's type before the sum is accumulated, as EMBEDDING_BACKWARD does. */
static double round_to(bg_dtype dtype, double value)
{
    double room;

    bgi_store(dtype, &room, 0, value);
    return bgi_load(dtype, &room, 0);
}

void bgi_reference_embedding_rows(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *dy = bgi_input_type(call, 0);
    const int64_t width = dy->dims[dy->rank - 1], use_count = bg_type_element_count(bgi_input_type(call, 1)) / 2;
    const int32_t *first = call->operands[1], *next = first + use_count;
    float *rows = call->operands[2];

    (void)part;
    for (int64_t i = 0; i < use_count; i++)
        for (int64_t j = 0; first[i] != 0 && j < width; j++) {
            float *to = rows + (llabs(first[i]) - 1) * width + j;
            double sum = 0.0;

            for (int64_t use = i + 1; use != 0; use = next[use - 1])
                sum += bgi_load(dy->dtype, call->operands[0], (use - 1) * width + j);
            sum = round_to(dy->dtype, sum);
            *to = (float)(first[i] < 0 ? sum : *to + sum);
        }
}

void bgi_reference_embedding_rows_add(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *table = bgi_input_type(call, 0);
    const int32_t *slots = call->operands[2];
    const int64_t width = table->dims[1];
    const float *rows = call->operands[1];
    float *gradient = call->operands[0];

    (void)part;
    for (int64_t row = 0; row < table->dims[0]; row++)
        for (int64_t j = 0; j < width; j++)
            gradient[row * width + j] += slots[row] == 0 ? 0.0f : rows[(slots[row] - 1) * width + j];
}
