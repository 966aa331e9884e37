/*
 * views.c: makes data sets with the samples of another one in a different order or number: take, skip, shard, repeat,
 * shuffle. It does not read the content of samples.
 *
 * A view is one function: (epoch, index) -> (epoch, index) of the source. Gathering translates a few hundred indices at
 * a time and passes them to the source, so the tensors are written once, by the data set that has them:
 *
 *     loader asks take(shuffle(rows)) for 7 3 9   ->   shuffle for 7 3 9   ->   rows for 41 0 12
 */
#include "data/dataset.h"
#include "data/order.h"

#include "core/error.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSLATED = 256 };

static bg_status fail_without_memory(bg_dataset *dataset, size_t size_bytes, bg_error *error)
{
    bg_dataset_destroy(dataset);
    return bgi_error_memory(error, "a data set", size_bytes);
}

/* Gathers from the source. The message names the failed sample by its index in the source; *out_failed is its position
 * in the caller's indices. */
static bg_status gather_source(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t start,
                               size_t count, unsigned char *const tensors[], void *scratch, size_t *out_failed,
                               bg_error *error)
{
    unsigned char *places[BG_DATASET_MAX_TENSORS];
    size_t failed = 0;
    bg_status status;

    bgi_dataset_places(dataset, tensors, start, places);
    status = bgi_dataset_gather(dataset->source, epoch, indices, count, places, scratch, &failed, error);
    *out_failed = start + failed;
    return status;
}

/* ---- every n-th sample of a range: take, skip, shard ---- */

typedef struct stretch {
    uint32_t first;
    uint32_t step;
} stretch;

static bg_status gather_stretch(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const stretch *s = dataset->state;
    uint32_t translated[TRANSLATED];

    for (size_t start = 0; start < count; start += TRANSLATED) {
        const size_t some = count - start < TRANSLATED ? count - start : TRANSLATED;

        for (size_t i = 0; i < some; i++)
            translated[i] = s->first + indices[start + i] * s->step;
        BGI_TRY(gather_source(dataset, epoch, translated, start, some, tensors, scratch, out_failed, error));
    }
    return BG_OK;
}

static bg_status create_stretch(bg_dataset *source, uint64_t first, uint64_t step, uint64_t count, bg_dataset **out,
                                bg_error *error)
{
    bg_dataset *dataset = NULL;
    stretch *s;

    BGI_TRY(bgi_dataset_derive(source, count, &dataset, error));
    dataset->state = s = malloc(sizeof *s);
    if (s == NULL)
        return fail_without_memory(dataset, sizeof *s, error);
    *s = (stretch){(uint32_t)first, (uint32_t)step};
    dataset->release = free;
    dataset->gather = gather_stretch;
    dataset->may_skip = source->may_skip;
    *out = dataset;
    return BG_OK;
}

bg_status bg_dataset_take(bg_dataset *source, uint64_t count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: 0 samples are to be taken but there must be at least 1");
    return create_stretch(source, 0, 1, count < source->sample_count ? count : source->sample_count, out, error);
}

bg_status bg_dataset_skip(bg_dataset *source, uint64_t count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (count >= source->sample_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: %" PRIu64 " of %" PRIu64 " samples are to be skipped; at least 1 must remain",
                            count, source->sample_count);
    return create_stretch(source, count, 1, source->sample_count - count, out, error);
}

bg_status bg_dataset_shard(bg_dataset *source, uint32_t shard_index, uint32_t shard_count, bg_dataset **out,
                           bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (shard_count == 0 || shard_index >= shard_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: shard %" PRIu32 " of %" PRIu32
                            " is requested; the index must be below the count",
                            shard_index, shard_count);
    if (shard_index >= source->sample_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "data set: shard %" PRIu32 " of %" PRIu32 " has none of the %" PRIu64
                            " samples; use at most one shard for each sample",
                            shard_index, shard_count, source->sample_count);
    return create_stretch(source, shard_index, shard_count,
                          (source->sample_count - shard_index + shard_count - 1) / shard_count, out, error);
}

/* ---- repeat ---- */

/* Reads consecutive samples of one epoch of the source together. */
static bg_status gather_repeated(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                 unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    const uint64_t each = dataset->source->sample_count, times = dataset->sample_count / each;
    uint32_t translated[TRANSLATED];

    for (size_t start = 0; start < count;) {
        const uint64_t round = indices[start] / each;
        size_t some = 0;

        for (; some < TRANSLATED && start + some < count && indices[start + some] / each == round; some++)
            translated[some] = (uint32_t)(indices[start + some] % each);
        BGI_TRY(gather_source(dataset, epoch * times + round, translated, start, some, tensors, scratch, out_failed,
                              error));
        start += some;
    }
    return BG_OK;
}

bg_status bg_dataset_repeat(bg_dataset *source, uint32_t count, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_dataset *dataset = NULL;

    if (count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "data set: the number of repetitions is 0 but must be at least 1");
    BGI_TRY(bgi_dataset_derive(source, source->sample_count * count, &dataset, error));
    dataset->gather = gather_repeated;
    dataset->may_skip = source->may_skip;
    *out = dataset;
    return BG_OK;
}

/* ---- shuffle ---- */

/* The orders of the most recently used epochs. Two are enough for a loader, whose workers begin the next epoch while
 * some are still in the previous one. */
enum { TABLES = 2 };

typedef struct table {
    bool is_filled;
    uint64_t epoch;
    uint64_t used_at;
    uint32_t *indices;
} table;

typedef struct shuffled {
    bgi_order order;
    pthread_mutex_t mutex; /* guards the following fields */
    uint64_t now;
    table tables[TABLES];
} shuffled;

static void release_shuffled(void *state)
{
    shuffled *s = state;

    for (int i = 0; i < TABLES; i++)
        free(s->tables[i].indices);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static const table *find_table(shuffled *s, uint64_t epoch)
{
    table *oldest = &s->tables[0];

    for (int i = 0; i < TABLES; i++) {
        table *t = &s->tables[i];

        if (t->is_filled && t->epoch == epoch) {
            t->used_at = ++s->now;
            return t;
        }
        if (t->used_at < oldest->used_at)
            oldest = t;
    }
    bgi_order_fill(&s->order, epoch, oldest->indices);
    oldest->is_filled = true;
    oldest->epoch = epoch;
    oldest->used_at = ++s->now;
    return oldest;
}

static bg_status gather_shuffled(const bg_dataset *dataset, uint64_t epoch, const uint32_t *indices, size_t count,
                                 unsigned char *const tensors[], void *scratch, size_t *out_failed, bg_error *error)
{
    shuffled *s = dataset->state;
    uint32_t translated[TRANSLATED];

    for (size_t start = 0; start < count; start += TRANSLATED) {
        const size_t some = count - start < TRANSLATED ? count - start : TRANSLATED;
        const table *order;

        pthread_mutex_lock(&s->mutex);
        order = find_table(s, epoch);
        for (size_t i = 0; i < some; i++)
            translated[i] = order->indices[indices[start + i]];
        pthread_mutex_unlock(&s->mutex);
        BGI_TRY(gather_source(dataset, epoch, translated, start, some, tensors, scratch, out_failed, error));
    }
    return BG_OK;
}

bg_status bg_dataset_shuffle(bg_dataset *source, uint64_t buffer, uint64_t seed, bg_dataset **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(source, "source", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const size_t table_bytes = source->sample_count * sizeof(uint32_t);
    bg_dataset *dataset = NULL;
    shuffled *s;

    BGI_TRY(bgi_dataset_derive(source, source->sample_count, &dataset, error));
    dataset->state = s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail_without_memory(dataset, sizeof *s, error);
    s->order = (bgi_order){.sample_count = source->sample_count,
                           .batch_size = 1,
                           .seed = seed,
                           .process_count = 1,
                           .shuffle = true,
                           .shuffle_buffer = buffer};
    pthread_mutex_init(&s->mutex, NULL);
    dataset->release = release_shuffled;
    for (int i = 0; i < TABLES; i++) {
        s->tables[i].indices = malloc(table_bytes);
        if (s->tables[i].indices == NULL)
            return fail_without_memory(dataset, table_bytes, error);
    }
    dataset->gather = gather_shuffled;
    dataset->may_skip = source->may_skip;
    *out = dataset;
    return BG_OK;
}
