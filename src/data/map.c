/*
 * map.c: makes data sets whose samples are made from those of another one: by a user's function, by the normalization
 * of images, or by caching.
 *
 * If the source has its samples in memory, they are read there. Otherwise a sample is copied into the caller's scratch,
 * of which each data set has a part, so nothing is allocated.
 */
#include "data/dataset.h"
#include "data/levels.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_ALIGNMENT = 64 };

/* Finds addresses in the scratch for the tensors of a sample of the source (none if `scratch` is NULL). Returns the sum
 * of the tensors' rounded sizes. */
static size_t place_inputs(const bg_dataset *source, unsigned char *scratch,
                           unsigned char *places[BG_DATASET_MAX_TENSORS])
{
    size_t at = 0;

    for (uint32_t t = 0; t < source->tensor_count; t++) {
        if (scratch != NULL)
            places[t] = scratch + at;
        at += (source->sample_bytes[t] + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    }
    return at;
}

/* Finds the tensors of one sample of the source, in its memory or in the scratch. */
static bg_status read_inputs(const bg_dataset *source, uint64_t epoch, uint32_t index, unsigned char *scratch,
                             const void *inputs[BG_DATASET_MAX_TENSORS], bg_error *error)
{
    unsigned char *places[BG_DATASET_MAX_TENSORS] = {NULL};
    size_t own_bytes, failed = 0;

    if (source->rows[0] != NULL) {
        for (uint32_t t = 0; t < source->tensor_count; t++)
            inputs[t] = source->rows[t] + index * source->sample_bytes[t];
        return BG_OK;
    }
    own_bytes = place_inputs(source, scratch, places);
    for (uint32_t t = 0; t < source->tensor_count; t++)
        inputs[t] = places[t];
    return bgi_dataset_gather(source, epoch, &index, 1, places, scratch + own_bytes, &failed, error);
}

static bg_status derive_mapped(bg_dataset *source, uint32_t tensor_count, const bg_type *types, size_t state_bytes,
                               bg_dataset **out, bg_error *error)
{
    bg_dataset *dataset = NULL;
    void *state;

    BGI_TRY(bgi_dataset_allocate(source->sample_count, tensor_count, types, &dataset, error));
    state = calloc(1, state_bytes);
    if (state == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a data set", state_bytes);
    }
    atomic_fetch_add(&source->references, 1);
    dataset->source = source;
    dataset->scratch_bytes = place_inputs(source, NULL, NULL) + source->scratch_bytes;
    dataset->state = state;
    dataset->release = free;
    *out = dataset;
    return BG_OK;
}

/* ---- a user's function ---- */

typedef struct mapping {
    bg_status (*map)(void *user, uint64_t epoch, uint64_t sample_index, const void *const inputs[],
                     void *const outputs[], bg_error *error);
    void *user;
} mapping;

static bg_status gather_mapped(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const mapping *m = dataset->state;
    const void *inputs[BG_DATASET_MAX_TENSORS];
    void *outputs[BG_DATASET_MAX_TENSORS];

    for (size_t i = 0; i < count; i++) {
        bg_status status;

        *out_failed = i;
        BGI_TRY(read_inputs(dataset->source, epoch, indices[i], scratch, inputs, error));
        for (uint32_t t = 0; t < dataset->tensor_count; t++)
            outputs[t] = tensors[t] + i * dataset->sample_bytes[t];
        status = m->map(m->user, epoch, indices[i], inputs, outputs, error);
        if (status != BG_OK) {
            bgi_error_unexplained(error, status, "the function");
            return bg_error_context(error, status, "map: sample %" PRIu32, indices[i]);
        }
    }
    return BG_OK;
}

bg_status bg_dataset_map(bg_dataset *source, const bg_dataset_map_options *options, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_dataset_map_options", NULL, error));

    const bool has_types = options->tensor_count > 0;
    bg_dataset *dataset = NULL;

    if (options->map == NULL || (has_types && options->sample_types == NULL))
        return bg_error_set(error, BG_ERROR_INVALID, "data set: map needs %s",
                            options->map == NULL ? "a function" : "the types of its samples");
    BGI_TRY(derive_mapped(source, has_types ? options->tensor_count : source->tensor_count,
                          has_types ? options->sample_types : source->types, sizeof(mapping), &dataset, error));
    *(mapping *)dataset->state = (mapping){options->map, options->user};
    dataset->gather = gather_mapped;
    *out = dataset;
    return BG_OK;
}

/* ---- normalization ---- */

typedef struct normalization {
    uint32_t tensor_index;
    uint32_t channel_count;
    size_t channel_elements;
    bgi_levels channels[]; /* [channel_count] */
} normalization;

static void normalize_sample(const normalization *n, const unsigned char *pixels, float *out)
{
    for (uint32_t c = 0; c < n->channel_count; c++)
        n->channels[c].convert(&n->channels[c], pixels + c * n->channel_elements, n->channel_elements,
                               out + c * n->channel_elements);
}

/* Normalizes samples in memory, tensor by tensor, without copies. */
static void normalize_rows(const bg_dataset *dataset, const uint32_t *indices, size_t count,
                           unsigned char *const tensors[])
{
    enum { AHEAD = 4 };
    const normalization *n = dataset->state;
    const bg_dataset *source = dataset->source;
    const uint32_t which = n->tensor_index;
    const unsigned char *rows = source->rows[which];
    const size_t row_bytes = source->sample_bytes[which], out_bytes = dataset->sample_bytes[which];

    for (uint32_t t = 0; t < dataset->tensor_count; t++)
        if (t != which && tensors[t] != NULL)
            bgi_dataset_gather_rows(source->rows[t], source->sample_bytes[t], indices, count, tensors[t]);
    for (size_t i = 0; tensors[which] != NULL && i < count; i++) {
        if (i + AHEAD < count)
            bgi_dataset_prefetch_row(rows + indices[i + AHEAD] * row_bytes, row_bytes);
        normalize_sample(n, rows + indices[i] * row_bytes, (float *)(void *)(tensors[which] + i * out_bytes));
    }
}

static bg_status gather_normalized(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                   unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const normalization *n = dataset->state;
    const uint32_t which = n->tensor_index;
    const void *inputs[BG_DATASET_MAX_TENSORS];

    if (dataset->source->rows[0] != NULL) {
        normalize_rows(dataset, indices, count, tensors);
        return BG_OK;
    }
    for (size_t i = 0; i < count; i++) {
        *out_failed = i;
        BGI_TRY(read_inputs(dataset->source, epoch, indices[i], scratch, inputs, error));
        for (uint32_t t = 0; t < dataset->tensor_count; t++)
            if (t != which)
                memcpy(tensors[t] + i * dataset->sample_bytes[t], inputs[t], dataset->sample_bytes[t]);
        normalize_sample(n, inputs[which], (float *)(void *)(tensors[which] + i * dataset->sample_bytes[which]));
    }
    return BG_OK;
}

static bg_status check_normalization(const bg_dataset *source, const bg_normalize_options *options, bg_error *error)
{
    const bg_type *type = options->tensor_index < source->tensor_count ? &source->types[options->tensor_index] : NULL;
    char text[BG_TYPE_TEXT_BYTES];

    if (type == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "normalize: tensor_index is %" PRIu32 " but must be below %" PRIu32
                            ", the number of tensors",
                            options->tensor_index, source->tensor_count);
    if (type->dtype != BG_UINT8)
        return bg_error_set(error, BG_ERROR_INVALID, "normalize: tensor %" PRIu32 " is %s but must be uint8",
                            options->tensor_index, bg_type_text(type, text));
    if (options->channel_count == 0 ||
        (options->channel_count > 1 && (type->rank == 0 || type->dims[0] != options->channel_count)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "normalize: %" PRIu32
                            " channels are given for %s; give 1, or one for each element of its first dimension",
                            options->channel_count, bg_type_text(type, text));
    for (uint32_t c = 0; c < options->channel_count; c++)
        if (options->deviations[c] == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "normalize: the deviation of channel %" PRIu32 " is 0; give another number", c);
    return BG_OK;
}

bg_status bg_dataset_normalize(bg_dataset *source, const bg_normalize_options *options, bg_dataset **out,
                               bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_normalize_options", NULL, error));

    bg_type types[BG_DATASET_MAX_TENSORS];
    bg_dataset *dataset = NULL;
    normalization *n;

    BGI_TRY(check_normalization(source, options, error));
    memcpy(types, source->types, sizeof types);
    types[options->tensor_index].dtype = BG_FLOAT32;
    BGI_TRY(derive_mapped(source, source->tensor_count, types,
                          sizeof *n + options->channel_count * sizeof n->channels[0], &dataset, error));
    n = dataset->state;
    n->tensor_index = options->tensor_index;
    n->channel_count = options->channel_count;
    n->channel_elements = source->sample_bytes[options->tensor_index] / options->channel_count;
    for (uint32_t c = 0; c < options->channel_count; c++)
        bgi_levels_init(&n->channels[c], options->means[c], options->deviations[c], bgi_cpu_isa());
    dataset->is_copied = source->is_copied;
    dataset->may_skip = source->rows[0] != NULL;
    dataset->gather = gather_normalized;
    *out = dataset;
    return BG_OK;
}

/* ---- cache ---- */

/* The state of a sample in the cache. The thread that changes EMPTY to BUSY stores the sample. Other threads that need
 * the sample meanwhile make it themselves. */
enum { EMPTY, BUSY, KEPT };

typedef struct cache {
    unsigned char *tensors[BG_DATASET_MAX_TENSORS]; /* all samples */
    _Atomic unsigned char *states;
} cache;

static void release_cache(void *state)
{
    cache *c = state;

    for (uint32_t t = 0; t < BG_DATASET_MAX_TENSORS; t++)
        free(c->tensors[t]);
    free((void *)c->states);
    free(c);
}

static bg_status gather_cached(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                               unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const cache *c = dataset->state;
    unsigned char *places[BG_DATASET_MAX_TENSORS];

    for (size_t i = 0; i < count; i++) {
        _Atomic unsigned char *state = &c->states[indices[i]];
        unsigned char seen = EMPTY;
        size_t failed = 0;

        bgi_dataset_places(dataset, tensors, i, places);
        if (atomic_load_explicit(state, memory_order_acquire) == KEPT) {
            for (uint32_t t = 0; t < dataset->tensor_count; t++)
                memcpy(places[t], c->tensors[t] + indices[i] * dataset->sample_bytes[t], dataset->sample_bytes[t]);
            continue;
        }
        *out_failed = i;
        BGI_TRY(bgi_dataset_gather(dataset->source, epoch, &indices[i], 1, places, scratch, &failed, error));
        if (!atomic_compare_exchange_strong(state, &seen, BUSY))
            continue;
        for (uint32_t t = 0; t < dataset->tensor_count; t++)
            memcpy(c->tensors[t] + indices[i] * dataset->sample_bytes[t], places[t], dataset->sample_bytes[t]);
        atomic_store_explicit(state, KEPT, memory_order_release);
    }
    return BG_OK;
}

bg_status bg_dataset_cache(bg_dataset *source, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_dataset *dataset = NULL;
    cache *c;

    BGI_TRY(bgi_dataset_derive(source, source->sample_count, &dataset, error));
    dataset->state = c = calloc(1, sizeof *c);
    if (c == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a cache", sizeof *c);
    }
    dataset->release = release_cache;
    c->states = calloc(source->sample_count, 1);
    for (uint32_t t = 0; c->states != NULL && t < source->tensor_count; t++) {
        c->tensors[t] = calloc(source->sample_count, source->sample_bytes[t]);
        if (c->tensors[t] == NULL) {
            const size_t size_bytes = source->sample_count * source->sample_bytes[t];

            bg_dataset_destroy(dataset);
            return bgi_error_memory(error, "a cache of all samples", size_bytes);
        }
    }
    if (c->states == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a cache", source->sample_count);
    }
    dataset->gather = gather_cached;
    *out = dataset;
    return BG_OK;
}
