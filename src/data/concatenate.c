/*
 * concatenate.c: appends data sets to each other. Successive requested indices that belong to the same data set are
 * read together.
 *
 *     a: 0 1 2   b: 0 1   ->   0 1 2 3 4
 *     indices 1 2 4 3 0   ->   a: 1 2, b: 1 0, a: 0
 */
#include "data/dataset.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSLATED = 256 };

typedef struct chain {
    uint32_t count;
    bg_dataset **sources;
    uint64_t *starts; /* index of the first sample of each source, and the end of the last source */
} chain;

static void release_chain(void *state)
{
    chain *c = state;

    for (uint32_t i = 0; i < c->count; i++)
        bg_dataset_destroy(c->sources[i]);
    free(c->sources);
    free(c->starts);
    free(c);
}

/* Finds the source of a sample. */
static uint32_t find_source(const chain *c, uint64_t index)
{
    uint32_t low = 0, high = c->count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;

        if (c->starts[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bg_status gather_chain(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                              unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const chain *c = dataset->state;
    unsigned char *places[BG_DATASET_MAX_TENSORS];
    uint32_t translated[TRANSLATED];

    for (size_t start = 0; start < count;) {
        const uint32_t source = find_source(c, indices[start]);
        size_t some = 0, failed = 0;
        bg_status status;

        for (; some < TRANSLATED && start + some < count && indices[start + some] >= c->starts[source] &&
               indices[start + some] < c->starts[source + 1];
             some++)
            translated[some] = (uint32_t)(indices[start + some] - c->starts[source]);
        bgi_dataset_places(dataset, tensors, start, places);
        status = bgi_dataset_gather(c->sources[source], epoch, translated, some, places, scratch, &failed, error);
        if (status != BG_OK) {
            *out_failed = start + failed;
            return status;
        }
        start += some;
    }
    return BG_OK;
}

static bg_status check_sources(bg_dataset *const *sources, uint32_t count, uint64_t *out_samples, bg_error *error)
{
    *out_samples = 0;
    if (count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "data set: source_count is 0 but must be at least 1");
    for (uint32_t i = 0; i < count; i++) {
        if (sources[i]->tensor_count != sources[0]->tensor_count)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "data set %" PRIu32 " to concatenate has %" PRIu32
                                " tensors, but the first has %" PRIu32 "; all must have the same tensors",
                                i, sources[i]->tensor_count, sources[0]->tensor_count);
        for (uint32_t t = 0; t < sources[0]->tensor_count; t++) {
            char have[BG_TYPE_TEXT_BYTES], first[BG_TYPE_TEXT_BYTES];

            if (!bg_type_equal(&sources[i]->types[t], &sources[0]->types[t]))
                return bg_error_set(error, BG_ERROR_SHAPE,
                                    "data set %" PRIu32 " to concatenate has %s as tensor %" PRIu32
                                    ", but the first has %s; all must have the same tensors",
                                    i, bg_type_text(&sources[i]->types[t], have), t,
                                    bg_type_text(&sources[0]->types[t], first));
        }
        *out_samples += sources[i]->sample_count;
    }
    return BG_OK;
}

/* Combines the scratch sizes and other properties of the sources, and adds a reference to each. */
static void join(bg_dataset *dataset, chain *c, bg_dataset *const *sources, uint32_t count)
{
    dataset->is_copied = true;
    for (uint32_t i = 0; i < count; i++) {
        atomic_fetch_add(&sources[i]->references, 1);
        c->sources[i] = sources[i];
        c->starts[i + 1] = c->starts[i] + sources[i]->sample_count;
        if (sources[i]->scratch_bytes > dataset->scratch_bytes)
            dataset->scratch_bytes = sources[i]->scratch_bytes;
        dataset->is_copied = dataset->is_copied && sources[i]->is_copied;
    }
    c->count = count;
}

bg_status bg_dataset_concatenate(bg_dataset *const *sources, uint32_t source_count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_dataset *dataset = NULL;
    uint64_t samples;
    chain *c;

    BGI_TRY(check_sources(sources, source_count, &samples, error));
    BGI_TRY(bgi_dataset_allocate(samples, sources[0]->tensor_count, sources[0]->types, &dataset, error));
    dataset->state = c = calloc(1, sizeof *c);
    if (c != NULL) {
        dataset->release = release_chain;
        c->sources = calloc(source_count, sizeof *c->sources);
        c->starts = calloc((size_t)source_count + 1, sizeof *c->starts);
    }
    if (c == NULL || c->sources == NULL || c->starts == NULL) {
        bg_dataset_destroy(dataset);
        return bgi_error_memory(error, "a data set", source_count * sizeof *c->sources);
    }
    join(dataset, c, sources, source_count);
    dataset->gather = gather_chain;
    *out = dataset;
    return BG_OK;
}
