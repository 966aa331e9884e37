/*
 * predictions.c: collects the outputs of a whole pass in arrays, call after call.
 */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static uint64_t rows_of(const bg_type *type)
{
    return type->rank > 0 ? (uint64_t)type->dims[0] : 1;
}

/* Returns whether the types differ at most in the first dimension, as those of a smaller call may. */
static bool has_same_rows(const bg_type *a, const bg_type *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;

    for (uint32_t d = 1; same && d < a->rank; d++)
        same = a->dims[d] == b->dims[d];
    return same;
}

bg_status bgi_predictions_begin(bgi_predictions *predictions, const bgi_compiled *compiled, bg_array *arrays,
                                bg_error *error)
{
    *predictions = (bgi_predictions){.arrays = arrays, .count = arrays != NULL ? compiled->output_count : 0};
    if (arrays == NULL)
        return BG_OK;
    for (uint32_t i = 0; i < predictions->count; i++)
        arrays[i] = (bg_array){.type = compiled->outputs[i].stream.micro_batch_type};
    predictions->capacities = calloc(predictions->count + 1u, sizeof *predictions->capacities);
    predictions->rows = calloc(predictions->count + 1u, sizeof *predictions->rows);
    return predictions->capacities != NULL && predictions->rows != NULL ? BG_OK
                                                                        : bgi_error_memory(error, "predictions", 0);
}

/* Returns the number of rows of a call's output that are collected: those of one replica of each group, without padding
 * if each sample has a row. */
static uint64_t count_rows(const bgi_compiled *compiled, const bgi_compiled_output *output, const bg_trainer_call *call)
{
    const bg_type *type = &output->stream.micro_batch_type;

    if (output->mode == BG_OUTPUT_ALL && type->rank > 0 && type->dims[0] == (int64_t)call->micro_batch)
        return call->valid_count;
    return rows_of(type) * bgi_output_value_count(compiled, output, call->device_iterations) / call->input_group_size;
}

static void copy_rows(const bgi_compiled_output *output, const bg_trainer_call *call, uint64_t rows, size_t row_bytes,
                      char *to)
{
    const uint64_t per_value = rows_of(&output->stream.micro_batch_type);
    uint64_t done = 0;

    for (uint64_t v = 0; done < rows; v++) {
        const uint64_t left = rows - done, count = left < per_value ? left : per_value;
        if (!bgi_output_is_first(call, v))
            continue;
        memcpy(to + done * row_bytes, (const char *)output->data + v * per_value * row_bytes, count * row_bytes);
        done += count;
    }
}

bg_status bgi_predictions_add(bgi_predictions *predictions, const bgi_compiled *compiled, const bg_trainer_call *call,
                              bg_error *error)
{
    for (uint32_t i = 0; i < predictions->count; i++) {
        const bgi_compiled_output *output = &compiled->outputs[i];
        const bg_type *type = &output->stream.micro_batch_type;
        const size_t row_bytes = bg_type_size_bytes(type) / rows_of(type);
        const uint64_t rows = count_rows(compiled, output, call);
        bg_array *array = &predictions->arrays[i];
        char first[BG_TYPE_TEXT_BYTES], now[BG_TYPE_TEXT_BYTES];

        if (!has_same_rows(type, &array->type))
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "output `%s` is %s for one batch and %s for a smaller one; samples must be its first "
                                "dimension, or drop the last batch",
                                output->stream.name, bg_type_text(&array->type, first), bg_type_text(type, now));
        if (!bgi_array_reserve(&array->data, &predictions->capacities[i], predictions->rows[i] + rows, row_bytes))
            return bgi_error_memory(error, output->stream.name, (predictions->rows[i] + rows) * row_bytes);
        copy_rows(output, call, rows, row_bytes, (char *)array->data + predictions->rows[i] * row_bytes);
        predictions->rows[i] += rows;
    }
    return BG_OK;
}

void bgi_predictions_end(bgi_predictions *predictions, bool is_good)
{
    for (uint32_t i = 0; i < predictions->count; i++) {
        bg_array *array = &predictions->arrays[i];
        if (array->type.rank == 0)
            array->type.rank = 1;
        array->type.dims[0] = predictions->rows != NULL ? (int64_t)predictions->rows[i] : 0;
        if (!is_good)
            bg_array_clear(array);
    }
    free(predictions->capacities);
    free(predictions->rows);
    *predictions = (bgi_predictions){0};
}
