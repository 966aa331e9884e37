/*
 * dataset.c: provides samples by index, from arrays in memory or from a callback. It contains no code for orders or
 * threads.
 */
#include "data/dataset.h"

#include "core/arena.h"
#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bg_status check_counts(uint64_t sample_count, uint32_t tensor_count, bg_error *error)
{
    if (sample_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "data set: it is empty but must have at least 1 sample");
    if (sample_count > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: there are %" PRIu64 " samples but at most %" PRIu32 " are possible",
                            sample_count, UINT32_MAX);
    if (tensor_count == 0 || tensor_count > BG_DATASET_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: there are %" PRIu32 " tensors for each sample but there must be 1 to %d",
                            tensor_count, BG_DATASET_MAX_TENSORS);
    return BG_OK;
}

bg_status bgi_dataset_allocate(uint64_t sample_count, uint32_t tensor_count, const bg_type *types, bg_dataset **out,
                               bg_error *error)
{
    bg_dataset *dataset;

    BGI_TRY(check_counts(sample_count, tensor_count, error));
    for (uint32_t t = 0; t < tensor_count; t++) {
        const bg_status status = bg_type_validate(&types[t], error);
        if (status != BG_OK)
            return bg_error_context(error, status, "data set: tensor %" PRIu32, t);
    }
    dataset = calloc(1, sizeof *dataset);
    if (dataset == NULL)
        return bgi_error_memory(error, "a data set", sizeof *dataset);
    dataset->references = 1;
    dataset->sample_count = sample_count;
    dataset->tensor_count = tensor_count;
    for (uint32_t t = 0; t < tensor_count; t++) {
        dataset->types[t] = types[t];
        dataset->sample_bytes[t] = bg_type_size_bytes(&types[t]);
    }
    *out = dataset;
    return BG_OK;
}

bg_status bgi_dataset_derive(bg_dataset *source, uint64_t sample_count, bg_dataset **out, bg_error *error)
{
    BGI_TRY(bgi_dataset_allocate(sample_count, source->tensor_count, source->types, out, error));
    atomic_fetch_add(&source->references, 1);
    (*out)->source = source;
    (*out)->scratch_bytes = source->scratch_bytes;
    (*out)->is_copied = source->is_copied;
    (*out)->rows_left_out = source->rows_left_out;
    return BG_OK;
}

/* ---- samples from a callback ---- */

typedef struct callback {
    bg_status (*get)(void *user, uint64_t epoch, uint64_t sample_index, void *const outputs[], bg_error *error);
    void *user;
} callback;

static bg_status gather_called(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const callback *c = dataset->state;
    void *outputs[BG_DATASET_MAX_TENSORS];
    (void)scratch;

    for (size_t i = 0; i < count; i++) {
        bg_status status;

        for (uint32_t t = 0; t < dataset->tensor_count; t++)
            outputs[t] = tensors[t] + i * dataset->sample_bytes[t];
        status = c->get(c->user, epoch, indices[i], outputs, error);
        if (status != BG_OK) {
            *out_failed = i;
            bgi_error_unexplained(error, status, "the data set");
            return bg_error_context(error, status, "sample %" PRIu32, indices[i]);
        }
    }
    return BG_OK;
}

bg_status bg_dataset_create(const bg_dataset_options *options, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_dataset_options", NULL, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_dataset *dataset = NULL;
    callback *c;

    BGI_TRY(check_counts(options->sample_count, options->tensor_count, error));
    if (options->get == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: options.get is NULL but must be the function that gives samples");
    BGI_TRY(bgi_dataset_allocate(options->sample_count, options->tensor_count, options->sample_types, &dataset, error));
    dataset->state = c = malloc(sizeof *c);
    if (c == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a data set", sizeof *c);
    }
    *c = (callback){options->get, options->user};
    dataset->release = free;
    dataset->gather = gather_called;
    *out = dataset;
    return BG_OK;
}

/* ---- rows of arrays ---- */

static bg_status check_arrays(const bg_array *arrays, uint32_t array_count, bg_error *error)
{
    for (uint32_t t = 0; t < array_count; t++) {
        const bg_type *type = &arrays[t].type;
        bg_status status = bg_type_validate(type, error);

        if (status == BG_OK && (type->rank == 0 || arrays[t].data == NULL))
            status = bg_error_set(error, BG_ERROR_SHAPE, "needs data, and a first dimension that counts the samples");
        if (status == BG_OK && type->dims[0] != arrays[0].type.dims[0])
            status = bg_error_set(error, BG_ERROR_SHAPE,
                                  "has %" PRId64 " samples, but array 0 has %" PRId64
                                  "; all arrays must have the same number",
                                  type->dims[0], arrays[0].type.dims[0]);
        if (status != BG_OK)
            return bg_error_context(error, status, "data set: array %" PRIu32, t);
    }
    return BG_OK;
}

void bgi_dataset_gather_rows(const unsigned char *rows, size_t row_bytes, const uint32_t *indices, size_t count,
                             unsigned char *out)
{
    enum { AHEAD = 4 };

    if (row_bytes == 1) { /* class labels */
        for (size_t i = 0; i < count; i++)
            out[i] = rows[indices[i]];
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            bgi_dataset_prefetch_row(rows + indices[i + AHEAD] * row_bytes, row_bytes);
        memcpy(out + i * row_bytes, rows + indices[i] * row_bytes, row_bytes);
    }
}

static bg_status gather_copied(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    (void)epoch, (void)scratch, (void)out_failed, (void)error;
    for (uint32_t t = 0; t < dataset->tensor_count; t++)
        if (tensors[t] != NULL)
            bgi_dataset_gather_rows(dataset->rows[t], dataset->sample_bytes[t], indices, count, tensors[t]);
    return BG_OK;
}

bg_status bg_dataset_create_arrays(const bg_array *arrays, uint32_t array_count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(arrays, "arrays", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_type types[BG_DATASET_MAX_TENSORS];
    bg_dataset *dataset = NULL;

    /* The number of samples can be read only after the arrays are checked; 1 is a placeholder until then. */
    BGI_TRY(check_counts(1, array_count, error));
    BGI_TRY(check_arrays(arrays, array_count, error));
    BGI_TRY(check_counts((uint64_t)arrays[0].type.dims[0], array_count, error));
    for (uint32_t t = 0; t < array_count; t++)
        types[t] = bg_type_make(arrays[t].type.dtype, arrays[t].type.rank - 1, arrays[t].type.dims + 1);
    BGI_TRY(bgi_dataset_allocate((uint64_t)arrays[0].type.dims[0], array_count, types, &dataset, error));
    for (uint32_t t = 0; t < array_count; t++)
        dataset->rows[t] = arrays[t].data;
    dataset->gather = gather_copied;
    dataset->is_copied = dataset->may_skip = true;
    *out = dataset;
    return BG_OK;
}

typedef struct owned_arrays {
    uint32_t count;
    bg_array arrays[BG_DATASET_MAX_TENSORS];
} owned_arrays;

static void release_arrays(void *state)
{
    owned_arrays *owned = state;

    for (uint32_t t = 0; t < owned->count; t++)
        bg_array_clear(&owned->arrays[t]);
    free(owned);
}

bg_status bgi_dataset_own_arrays(bg_array *arrays, uint32_t array_count, bg_dataset **out, bg_error *error)
{
    owned_arrays *owned;
    bg_dataset *dataset = NULL;

    BGI_TRY(bg_dataset_create_arrays(arrays, array_count, &dataset, error));
    dataset->state = owned = malloc(sizeof *owned);
    if (owned == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a data set", sizeof *owned);
    }
    owned->count = array_count;
    memcpy(owned->arrays, arrays, array_count * sizeof *arrays);
    memset(arrays, 0, array_count * sizeof *arrays);
    dataset->release = release_arrays;
    *out = dataset;
    return BG_OK;
}

/* ---- every data set ---- */

void bg_dataset_destroy(bg_dataset *dataset)
{
    /* Destroys the data set and then its sources, up to the first one that another reference holds. */
    while (dataset != NULL && atomic_fetch_sub(&dataset->references, 1) == 1) {
        bg_dataset *source = dataset->source;

        if (dataset->release != NULL && dataset->state != NULL)
            dataset->release(dataset->state);
        free(dataset);
        dataset = source;
    }
}

uint64_t bg_dataset_sample_count(const bg_dataset *dataset)
{
    return dataset->sample_count;
}

uint32_t bg_dataset_tensor_count(const bg_dataset *dataset)
{
    return dataset->tensor_count;
}

const bg_type *bg_dataset_sample_type(const bg_dataset *dataset, uint32_t tensor_index)
{
    return &dataset->types[tensor_index];
}

bg_status bgi_dataset_gather(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                             unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    return dataset->gather(dataset, epoch, indices, count, tensors, scratch, out_failed, error);
}

void *bgi_dataset_scratch(const bg_dataset *dataset)
{
    enum { ALIGNMENT = 64 };

    return bgi_aligned_allocate(ALIGNMENT, dataset->scratch_bytes + ALIGNMENT);
}

void bgi_dataset_places(const bg_dataset *dataset, unsigned char *const tensors[], size_t count,
                        unsigned char *places[BG_DATASET_MAX_TENSORS])
{
    for (uint32_t t = 0; t < dataset->tensor_count; t++)
        places[t] = tensors[t] != NULL ? tensors[t] + count * dataset->sample_bytes[t] : NULL;
}
