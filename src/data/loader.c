/*
 * loader.c: makes batches ahead of the consumer. It reads samples with bgi_dataset_gather, in the order of order.h or
 * of a sampler, and does not depend on how a batch is used.
 *
 * Batches are numbered through all epochs ("sequence"); batch s is in slot s % slot_count:
 *
 *          handed out | first_sequence ...  claim_sequence ...  next_sequence
 *     free  (1 held)  |  filled, being filled | has chunks to claim | not opened yet
 *
 *     open   one worker writes down the next batch's sample indices (shuffling when an epoch begins, outside the lock)
 *     claim  workers take chunks of opened batches, oldest first, and copy samples outside the lock
 *     next   the consumer gives back the slot it holds and takes the first one when all its chunks are done
 *     help   a thread that is idle elsewhere copies a few samples of the oldest opened batch
 *
 * A copying worker competes with compute threads while it fills a batch, and delays every device that waits for them.
 * If there are helpers, workers therefore leave the filling to them while half of the batches ahead are filled or being
 * filled, and only open the next batches. The first call of a helper shows that there are helpers.
 *
 * Batches are opened in sequence, and each sample has a fixed position in its batch, so the content of a batch does not
 * depend on the number or speed of workers. Workers open batches only up to the last free slot, which limits how far
 * they run ahead. A restart pauses claiming, waits for the chunks in progress, and empties the ring.
 *
 * `mutex` guards everything in bg_loader except the constant options and order, the atomic is_helped, and three kinds
 * of arrays. `order_indices` belongs to the one worker that opens batches. A slot's indices and tensors belong to the
 * worker that opens it, then to the workers that claim its chunks, and then to the consumer.
 */
#include "data/dataset.h"
#include "data/loader.h"
#include "data/order.h"

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    TENSOR_ALIGNMENT = 64,
    /* A copied sample costs less than a claim. A sample from a callback may take milliseconds, and a restart waits for
     * the chunk. */
    LEAST_CHUNK_COPIED = 256,
    HELPED_BYTES = 8192, /* bytes that a helper copies at once: a microsecond or two */
    LARGEST_HELPED_BYTES = 65536,
    LARGEST_CHUNK_CALLED = 16
};

typedef struct slot {
    uint64_t epoch;
    uint64_t position;
    size_t sample_count;
    size_t valid_count;   /* number of samples from the data set; further ones are copies of the pad samples */
    size_t claimed_count; /* number of samples in claimed chunks */
    size_t done_count;    /* number of samples in chunks that were filled or failed */
    uint32_t *indices;
    unsigned char *tensors[BG_DATASET_MAX_TENSORS];
    const void *views[BG_DATASET_MAX_TENSORS];
    size_t failed_at; /* the lowest sample that failed, so that the message does not depend on the order of threads */
    bg_error error;
} slot;

/* A thread and its scratch memory. Without threads the caller uses the scratch of workers[0]. Helpers use that of the
 * last entry. */
typedef struct worker {
    bg_loader *loader;
    bgi_thread thread;
    void *scratch;
} worker;

struct bg_loader {
    bgi_stream_loader *stream; /* if not NULL, it does all the work, and the other fields are unused */
    const bg_dataset *dataset;
    bg_loader_options options;
    bgi_order order;
    uint64_t batch_count;
    size_t largest_batch;
    size_t chunk_samples;
    unsigned char *pads[BG_DATASET_MAX_TENSORS]; /* NULL without padding */
    uint32_t *order_indices;                     /* the order of epoch order_epoch, of all samples */
    uint64_t order_epoch;
    bool order_is_filled;

    pthread_mutex_t mutex;
    pthread_cond_t work;     /* workers wait for a slot that becomes free or open, or for the end */
    pthread_cond_t progress; /* the consumer waits for a complete batch, or for idle workers */
    struct worker *workers;  /* thread_count entries with a thread, and then one without */
    uint32_t thread_count;
    bool is_begun;
    bool is_early; /* early_preload has begun the epoch, and the consumer has not begun it yet */
    bool is_paused;
    bool is_ending;
    bool is_opening;
    uint32_t busy_count;                             /* the number of workers that fill a chunk */
    uint32_t (*wanted)(void *user, uint64_t sample); /* NULL: all; changes only while no chunk is being filled */
    void *wanted_user;
    atomic_bool is_helped; /* a helper has called */
    bool is_helping;       /* a helper uses the only scratch memory for helpers */
    size_t helped_samples;

    slot *slots;
    size_t slot_count;
    uint64_t first_sequence;
    uint64_t claim_sequence;
    uint64_t next_sequence;
    bool is_held;           /* the consumer holds the slot of first_sequence - 1 */
    uint64_t next_epoch;    /* epoch of the batch next_sequence */
    uint64_t next_position; /* less than batch_count */

    uint64_t epoch;    /* the consumer's */
    uint64_t position; /* position of the consumer's next batch; batch_count: the epoch has ended */
    bool has_failed;   /* the failure of the batch first_sequence has been returned to the consumer */
    bg_loader_statistics statistics;
};

static slot *slot_of(bg_loader *loader, uint64_t sequence)
{
    return &loader->slots[sequence % loader->slot_count];
}

/* Returns the number of samples for which a batch of `count` samples needs memory: `count`, rounded up to a multiple of
 * pad_multiple if batches are padded. */
static uint64_t pad_count(const bg_loader_options *options, uint64_t count)
{
    const uint64_t multiple = options->pad_multiple;

    return options->drop_last || multiple == 0 ? count : (count + multiple - 1) / multiple * multiple;
}

/* ---- opening and filling, without the lock ---- */

static bg_status sample_list(const bg_loader *loader, slot *s, uint64_t list, bg_error *error)
{
    const bg_loader_options *options = &loader->options;
    const uint64_t limit = options->batch_size - s->valid_count;
    uint64_t count = 0;
    bg_status status;

    if (limit == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "does not fit: the lists before it fill the batch of %" PRIu64,
                            options->batch_size);
    status = options->sampler(options->sampler_user, s->epoch, list, s->indices + s->valid_count, limit, &count, error);
    if (status != BG_OK)
        return bgi_error_unexplained(error, status, "the sampler");
    if (count == 0 || count > limit)
        return bg_error_set(error, BG_ERROR_INVALID, "has %" PRIu64 " samples but must have 1 to %" PRIu64, count,
                            limit);
    for (uint64_t i = 0; i < count; i++)
        if (s->indices[s->valid_count + i] >= loader->dataset->sample_count)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "names sample %" PRIu32 "; it must be below %" PRIu64 ", the number of samples",
                                s->indices[s->valid_count + i], loader->dataset->sample_count);
    s->valid_count += (size_t)count;
    return BG_OK;
}

/* Opens a batch of the sampler's lists. After an error the batch has no samples and is complete. */
static void open_sampled(bg_loader *loader, slot *s)
{
    const bg_loader_options *options = &loader->options;
    const uint64_t first = s->position * options->sampler_combine;

    for (uint64_t list = first; list < first + options->sampler_combine && list < options->sampler_list_count; list++)
        if (sample_list(loader, s, list, &s->error) != BG_OK) {
            bg_error_context(&s->error, s->error.status, "list %" PRIu64 " of the sampler", list);
            s->valid_count = 0;
            break;
        }
    s->sample_count = (size_t)pad_count(options, s->valid_count);
}

static void open_ordered(bg_loader *loader, slot *s)
{
    const uint64_t epoch = s->epoch;
    const bgi_order_part part = bgi_order_part_of(&loader->order, epoch);
    const uint64_t start = s->position * loader->options.batch_size;
    const uint64_t left = part.count - start;

    /* Without shuffling every epoch has the same order. */
    if (!loader->order_is_filled || (loader->order.shuffle && loader->order_epoch != epoch)) {
        bgi_order_fill(&loader->order, epoch, loader->order_indices);
        loader->order_epoch = epoch;
        loader->order_is_filled = true;
    }
    s->valid_count = left < loader->options.batch_size ? (size_t)left : (size_t)loader->options.batch_size;
    s->sample_count = (size_t)pad_count(&loader->options, s->valid_count);
    memcpy(s->indices, loader->order_indices + part.start + start, s->valid_count * sizeof *s->indices);
}

static void open_slot(bg_loader *loader, slot *s, uint64_t epoch, uint64_t position)
{
    s->epoch = epoch;
    s->position = position;
    s->valid_count = s->claimed_count = s->done_count = 0;
    s->failed_at = SIZE_MAX;
    bg_error_clear(&s->error);
    if (loader->options.sampler != NULL)
        open_sampled(loader, s);
    else
        open_ordered(loader, s);
}

/* Moves to the epoch and position of the next batch. */
static void advance(const bg_loader *loader, uint64_t *epoch, uint64_t *position)
{
    if (++*position == loader->batch_count) {
        ++*epoch;
        *position = 0;
    }
}

static void fill_pads(const bg_loader *loader, const slot *s, size_t start, size_t count)
{
    for (uint32_t t = 0; t < loader->dataset->tensor_count; t++) {
        const size_t size = loader->dataset->sample_bytes[t];

        for (size_t i = start; i < start + count; i++)
            memcpy(s->tensors[t] + i * size, loader->pads[t], size);
    }
}

static uint32_t find_wanted(const bg_loader *loader, const slot *s, size_t sample)
{
    const bool is_whole = s->valid_count == loader->options.batch_size;

    return loader->wanted != NULL && is_whole ? loader->wanted(loader->wanted_user, sample) : UINT32_MAX;
}

/* Fills `count` samples from `start` on, which need the same tensors. After an error *failed is the position of the
 * failed sample, counted from `start`. */
static bg_status fill_run(const bg_loader *loader, const slot *s, size_t start, size_t count, uint32_t wanted,
                          size_t *failed, void *scratch, bg_error *error)
{
    unsigned char *places[BG_DATASET_MAX_TENSORS];

    if (wanted == 0)
        return BG_OK;
    bgi_dataset_places(loader->dataset, s->tensors, start, places);
    for (uint32_t t = 0; loader->dataset->may_skip && t < loader->dataset->tensor_count; t++)
        if ((wanted >> t & 1) == 0)
            places[t] = NULL;
    return bgi_dataset_gather(loader->dataset, s->epoch, s->indices + start, count, places, scratch, failed, error);
}

/* Fills a chunk. After an error *failed_at is the position of the failed sample in the batch. */
static bg_status fill_chunk(const bg_loader *loader, const slot *s, size_t start, size_t count, size_t *failed_at,
                            void *scratch, bg_error *error)
{
    const size_t end = start + count;
    const size_t valid = start >= s->valid_count ? 0 : end > s->valid_count ? s->valid_count - start : count;
    bg_status status = BG_OK;

    fill_pads(loader, s, start + valid, count - valid);
    for (size_t done = 0, run; done < valid && status == BG_OK; done += run) {
        const uint32_t wanted = find_wanted(loader, s, start + done);
        size_t failed = 0;

        run = loader->wanted == NULL ? valid : 1;
        while (done + run < valid && find_wanted(loader, s, start + done + run) == wanted)
            run++;
        status = fill_run(loader, s, start + done, run, wanted, &failed, scratch, error);
        *failed_at = start + done + failed;
    }
    return status;
}

/* ---- workers; all with the lock held ---- */

static bool can_open(const bg_loader *loader)
{
    const uint64_t in_use = loader->next_sequence - loader->first_sequence + loader->is_held;

    if (!loader->options.load_indefinitely && loader->next_epoch != loader->epoch)
        return false;
    return !loader->is_opening && in_use < loader->slot_count;
}

static void open_next(bg_loader *loader)
{
    slot *s = slot_of(loader, loader->next_sequence);
    const uint64_t epoch = loader->next_epoch, position = loader->next_position;

    loader->is_opening = true;
    pthread_mutex_unlock(&loader->mutex);
    open_slot(loader, s, epoch, position);
    pthread_mutex_lock(&loader->mutex);
    loader->is_opening = false;
    loader->next_sequence++;
    advance(loader, &loader->next_epoch, &loader->next_position);
    pthread_cond_broadcast(&loader->work);
    if (loader->is_paused)
        pthread_cond_signal(&loader->progress);
}

static void note_failure(slot *s, size_t failed_at, const bg_error *error)
{
    if (failed_at >= s->failed_at)
        return;
    s->failed_at = failed_at;
    s->error = *error;
}

static void fill_next(bg_loader *loader, size_t most, void *scratch, bg_error *error)
{
    slot *s = slot_of(loader, loader->claim_sequence);
    const size_t start = s->claimed_count, left = s->sample_count - start;
    const size_t count = left < most ? left : most;
    size_t failed_at = 0;
    bg_status status;

    s->claimed_count += count;
    if (s->claimed_count == s->sample_count)
        loader->claim_sequence++;
    loader->busy_count++;
    pthread_mutex_unlock(&loader->mutex);

    bg_error_clear(error);
    status = fill_chunk(loader, s, start, count, &failed_at, scratch, error);

    pthread_mutex_lock(&loader->mutex);
    loader->busy_count--;
    s->done_count += count;
    if (status != BG_OK)
        note_failure(s, failed_at, error);
    if (s->done_count == s->sample_count || loader->is_paused)
        pthread_cond_signal(&loader->progress);
}

static bool is_done(const slot *s)
{
    return s->done_count == s->sample_count;
}

/* Whether there are helpers, and enough batches are ready or being filled that helpers can fill the next one in
 * time. */
static bool may_leave_it(const bg_loader *loader)
{
    const uint64_t enough = (loader->options.prefetch_depth + 1) / 2;

    return atomic_load_explicit(&loader->is_helped, memory_order_relaxed) && loader->options.prefetch_depth > 1 &&
           loader->claim_sequence - loader->first_sequence >= enough;
}

static void run_worker(void *argument)
{
    worker *self = argument;
    bg_loader *loader = self->loader;
    bg_error error = {0};

    pthread_mutex_lock(&loader->mutex);
    while (!loader->is_ending) {
        const bool may_work = loader->is_begun && !loader->is_paused;

        /* Open batches are finished before more are opened, because the consumer may be waiting for them. */
        if (may_work && loader->claim_sequence < loader->next_sequence && !may_leave_it(loader))
            fill_next(loader, loader->chunk_samples, self->scratch, &error);
        else if (may_work && can_open(loader))
            open_next(loader);
        else
            pthread_cond_wait(&loader->work, &loader->mutex);
    }
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- helpers ---- */

bool bg_loader_help(bg_loader *loader)
{
    bg_error error = {0};
    bool has_helped = false;

    if (loader->helped_samples == 0)
        return false;
    /* Set outside the mutex, because a thread that calls while a worker holds the mutex is a helper as well. */
    if (!atomic_load_explicit(&loader->is_helped, memory_order_relaxed))
        atomic_store_explicit(&loader->is_helped, true, memory_order_relaxed);
    if (pthread_mutex_trylock(&loader->mutex) != 0)
        return false;
    if (loader->is_begun && !loader->is_paused && !loader->is_helping &&
        loader->claim_sequence < loader->next_sequence) {
        loader->is_helping = has_helped = true;
        fill_next(loader, loader->helped_samples, loader->workers[loader->thread_count].scratch, &error);
        loader->is_helping = false;
    }
    pthread_mutex_unlock(&loader->mutex);
    return has_helped;
}

/* ---- creation ---- */

void bg_loader_options_init(bg_loader_options *options, size_t struct_bytes)
{
    const bg_loader_options made = {.struct_bytes = struct_bytes,
                                    .batch_size = 1,
                                    .drop_last = true,
                                    .worker_count = 1,
                                    .prefetch_depth = 3,
                                    .process_count = 1,
                                    .sampler_combine = 1,
                                    .load_indefinitely = true};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bg_status check_sampler(const bg_loader_options *options, bg_error *error)
{
    const char *other = options->shuffle ? "shuffle" : options->process_count > 1 ? "several processes" : NULL;

    if (other != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: a sampler cannot be combined with %s, because it chooses the samples itself",
                            other);
    if (options->sampler_combine == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: sampler_combine is 0 but a batch needs at least 1 list");
    if (options->sampler_list_count / (options->drop_last ? options->sampler_combine : 1) == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: %" PRIu64 " lists of the sampler do not make a batch of %" PRIu64
                            " lists; give more lists, or a smaller sampler_combine",
                            options->sampler_list_count, options->sampler_combine);
    return BG_OK;
}

static bg_status check_options(const bg_dataset *dataset, const bg_loader_options *options, bg_error *error)
{
    BGI_TRY(bgi_loader_check(options, error));
    if (options->shard_count != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: shard_count is %" PRIu32 ", but only streams have shards; leave it at 0",
                            options->shard_count);
    if (options->rebatched_size > options->batch_size)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: rebatched_size is %" PRIu64 " but must be at most the batch size, %" PRIu64,
                            options->rebatched_size, options->batch_size);
    if (options->sampler != NULL)
        return check_sampler(options, error);
    if (options->drop_last && dataset->sample_count / options->batch_size < options->process_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: %" PRIu64 " samples do not make one whole batch of %" PRIu64
                            " for each of %" PRIu32
                            " processes; give more samples or a smaller batch, or turn drop_last off",
                            dataset->sample_count, options->batch_size, options->process_count);
    if (!options->drop_last && dataset->sample_count < options->process_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: %" PRIu64 " samples are too few; there must be at least one for each of %" PRIu32
                            " processes",
                            dataset->sample_count, options->process_count);
    return BG_OK;
}

static size_t choose_chunk(const bg_loader *loader)
{
    const size_t batch = loader->largest_batch, workers = loader->options.worker_count;
    size_t chunk;

    if (workers == 0)
        return batch;
    chunk = (batch + 2 * workers - 1) / (2 * workers);
    if (loader->dataset->is_copied && chunk < LEAST_CHUNK_COPIED)
        chunk = LEAST_CHUNK_COPIED;
    if (!loader->dataset->is_copied && chunk > LARGEST_CHUNK_CALLED)
        chunk = LARGEST_CHUNK_CALLED;
    return chunk;
}

/* Returns the number of samples that a helper copies at once. It is 0 if samples cost more than a copy or are large,
 * and if there are no workers to help. */
static size_t choose_help(const bg_loader *loader)
{
    const bg_dataset *dataset = loader->dataset;
    size_t bytes = 0;

    for (uint32_t t = 0; t < dataset->tensor_count; t++)
        bytes += dataset->sample_bytes[t];
    if (!dataset->is_copied || loader->options.worker_count == 0 || bytes > LARGEST_HELPED_BYTES)
        return 0;
    return bytes < HELPED_BYTES ? HELPED_BYTES / bytes : 1;
}

static bg_status allocate_slots(bg_loader *loader, bg_error *error)
{
    const size_t batch = loader->largest_batch;

    loader->slots = calloc(loader->slot_count, sizeof *loader->slots);
    if (loader->slots == NULL)
        return bgi_error_memory(error, "the loader's ring", loader->slot_count * sizeof *loader->slots);
    for (size_t i = 0; i < loader->slot_count; i++) {
        slot *s = &loader->slots[i];

        s->indices = calloc(batch, sizeof *s->indices);
        if (s->indices == NULL)
            return bgi_error_memory(error, "a batch's indices", batch * sizeof *s->indices);
        for (uint32_t t = 0; t < loader->dataset->tensor_count; t++) {
            const size_t sample_bytes = loader->dataset->sample_bytes[t];

            if (sample_bytes <= SIZE_MAX / 2 / batch)
                s->tensors[t] = bgi_memory_take(&loader->options.allocator, TENSOR_ALIGNMENT, batch * sample_bytes);
            if (s->tensors[t] == NULL)
                return bgi_error_memory(error, "a batch", batch * sample_bytes);
            s->views[t] = s->tensors[t];
        }
    }
    for (uint32_t t = 0; loader->options.pad_multiple != 0 && t < loader->dataset->tensor_count; t++) {
        const void *const *samples = loader->options.pad_samples;
        const size_t sample_bytes = loader->dataset->sample_bytes[t];

        loader->pads[t] = calloc(1, sample_bytes);
        if (loader->pads[t] == NULL)
            return bgi_error_memory(error, "a sample", sample_bytes);
        if (samples != NULL && samples[t] != NULL)
            memcpy(loader->pads[t], samples[t], sample_bytes);
    }
    if (loader->options.sampler != NULL)
        return BG_OK;
    loader->order_indices = calloc(loader->order.sample_count, sizeof *loader->order_indices);
    if (loader->order_indices == NULL)
        return bgi_error_memory(error, "the order of samples",
                                loader->order.sample_count * sizeof *loader->order_indices);
    return BG_OK;
}

static bg_status start_workers(bg_loader *loader, bg_error *error)
{
    const uint32_t count = loader->options.worker_count, places = count + 1;

    loader->workers = calloc(places, sizeof *loader->workers);
    if (loader->workers == NULL)
        return bgi_error_memory(error, "the loader's workers", places * sizeof *loader->workers);
    for (uint32_t i = 0; i < places; i++) {
        loader->workers[i].loader = loader;
        loader->workers[i].scratch = bgi_dataset_scratch(loader->dataset);
        if (loader->workers[i].scratch == NULL)
            return bgi_error_memory(error, "a worker's scratch", loader->dataset->scratch_bytes);
    }
    while (loader->thread_count < count) {
        worker *w = &loader->workers[loader->thread_count];

        BGI_TRY(bgi_loader_thread(&w->thread, &loader->options, run_worker, w, loader->thread_count, count, error));
        loader->thread_count++;
    }
    return BG_OK;
}

bg_status bg_loader_create_stream(const bg_sample_stream *stream, const bg_loader_options *options, bg_loader **out,
                                  bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(stream, "stream", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(stream->struct_bytes, sizeof *stream, "bg_sample_stream", NULL, error));

    bg_loader *loader = calloc(1, sizeof *loader);
    bg_status status;

    if (loader == NULL)
        return bgi_error_memory(error, "a loader", sizeof *loader);
    status = bgi_stream_loader_create(stream, options, &loader->stream, error);
    if (status != BG_OK) {
        free(loader);
        return status;
    }
    *out = loader;
    return BG_OK;
}

/* Lets the workers begin the first epoch. The loader has not been returned yet, so only its own workers use it. */
static void begin_early(bg_loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->is_begun = loader->is_early = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
}

static void count_batches(bg_loader *loader)
{
    const bg_loader_options *options = &loader->options;
    const uint64_t part = bgi_order_part_of(&loader->order, 0).count;

    if (options->sampler != NULL) {
        const uint64_t lists = options->sampler_list_count, combine = options->sampler_combine;

        loader->batch_count = lists / combine + (!options->drop_last && lists % combine > 0);
        loader->largest_batch = (size_t)options->batch_size;
        return;
    }
    loader->batch_count = bgi_order_batch_count(&loader->order);
    loader->largest_batch = (size_t)pad_count(options, part < options->batch_size ? part : options->batch_size);
}

bg_status bg_loader_create(const bg_dataset *dataset, const bg_loader_options *options, bg_loader **out,
                           bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(dataset, "dataset", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));

    bg_loader *loader;
    bg_status status;

    BGI_TRY(check_options(dataset, options, error));
    loader = calloc(1, sizeof *loader);
    if (loader == NULL)
        return bgi_error_memory(error, "a loader", sizeof *loader);
    loader->dataset = dataset;
    loader->options = *options;
    if (options->mode == BG_LOADER_SYNC)
        loader->options.worker_count = 0;
    loader->order = (bgi_order){.sample_count = dataset->sample_count,
                                .batch_size = options->batch_size,
                                .seed = options->seed,
                                .process_index = options->process_index,
                                .process_count = options->process_count,
                                .shuffle = options->shuffle,
                                .shuffle_buffer = options->shuffle_buffer,
                                .drop_last = options->drop_last};
    count_batches(loader);
    loader->chunk_samples = choose_chunk(loader);
    loader->helped_samples = choose_help(loader);
    /* The number of slots: one for the consumer's batch, and one for each batch ahead of it. */
    loader->slot_count = loader->options.worker_count == 0 ? 1 : 1 + (size_t)options->prefetch_depth;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->progress, NULL);
    status = allocate_slots(loader, error);
    if (status == BG_OK)
        status = start_workers(loader, error);
    if (status != BG_OK) {
        bg_loader_destroy(loader);
        return status;
    }
    if (options->early_preload)
        begin_early(loader);
    *out = loader;
    return BG_OK;
}

void bg_loader_destroy(bg_loader *loader)
{
    if (loader == NULL)
        return;
    if (loader->stream != NULL) {
        bgi_stream_loader_destroy(loader->stream);
        free(loader);
        return;
    }
    pthread_mutex_lock(&loader->mutex);
    loader->is_ending = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    for (uint32_t i = 0; i < loader->thread_count; i++)
        bgi_thread_join(&loader->workers[i].thread);
    pthread_cond_destroy(&loader->progress);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->mutex);
    for (size_t i = 0; loader->slots != NULL && i < loader->slot_count; i++) {
        free(loader->slots[i].indices);
        for (uint32_t t = 0; t < loader->dataset->tensor_count; t++)
            bgi_memory_return(&loader->options.allocator, loader->slots[i].tensors[t],
                              loader->largest_batch * loader->dataset->sample_bytes[t]);
    }
    for (uint32_t t = 0; t < BG_DATASET_MAX_TENSORS; t++)
        free(loader->pads[t]);
    free(loader->slots);
    free(loader->order_indices);
    for (uint32_t i = 0; loader->workers != NULL && i <= loader->options.worker_count; i++)
        free(loader->workers[i].scratch);
    free(loader->workers);
    free(loader);
}

uint64_t bg_loader_batch_count(const bg_loader *loader)
{
    return loader->batch_count;
}

uint64_t bg_loader_dropped_count(const bg_loader *loader)
{
    const bg_loader_options *options = &loader->options;

    if (loader->stream != NULL || options->sampler != NULL || options->process_count > 1 || !options->drop_last)
        return 0;
    return loader->dataset->sample_count - loader->batch_count * options->batch_size;
}

uint64_t bg_loader_batch_size(const bg_loader *loader)
{
    return loader->stream != NULL ? bgi_stream_loader_batch_size(loader->stream) : loader->options.batch_size;
}

const bg_type *bg_loader_sample_types(const bg_loader *loader, uint32_t *out_tensor_count)
{
    if (loader->stream != NULL)
        return bgi_stream_loader_types(loader->stream, out_tensor_count);
    *out_tensor_count = loader->dataset->tensor_count;
    return loader->dataset->types;
}

bg_loader_statistics bg_loader_statistics_of(const bg_loader *loader)
{
    /* Only the consumer writes the statistics. */
    return loader->stream != NULL ? bgi_stream_loader_statistics(loader->stream) : loader->statistics;
}

/* ---- the consumer ---- */

/* Whether the first batch of the ring, opened or not, is the one at (epoch, position). */
static bool is_ahead(const bg_loader *loader, uint64_t epoch, uint64_t position)
{
    uint64_t first_epoch = loader->epoch, first_position = loader->position;

    if (!loader->is_begun || loader->has_failed)
        return false;
    if (first_position == loader->batch_count) {
        first_epoch++;
        first_position = 0;
    }
    return epoch == first_epoch && position == first_position;
}

static void empty_ring(bg_loader *loader, uint64_t epoch, uint64_t position)
{
    loader->is_paused = true;
    while (loader->busy_count > 0 || loader->is_opening)
        pthread_cond_wait(&loader->progress, &loader->mutex);
    loader->is_paused = false;
    loader->first_sequence = loader->claim_sequence = loader->next_sequence = 0;
    loader->next_epoch = epoch;
    loader->next_position = position;
    loader->is_begun = true;
}

bg_status bg_loader_begin_at(bg_loader *loader, uint64_t epoch, uint64_t position, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(loader, "loader", __func__, error));

    const bool is_at_end = position == loader->batch_count;
    const uint64_t ring_epoch = is_at_end ? epoch + 1 : epoch, ring_position = is_at_end ? 0 : position;

    if (loader->stream != NULL)
        return bgi_stream_loader_begin(loader->stream, epoch, position, error);
    if (position > loader->batch_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: cannot begin at batch %" PRIu64 " of epoch %" PRIu64
                            "; the batch must be 0 to %" PRIu64,
                            position, epoch, loader->batch_count);
    pthread_mutex_lock(&loader->mutex);
    loader->is_held = false;
    if (!is_ahead(loader, ring_epoch, ring_position))
        empty_ring(loader, ring_epoch, ring_position);
    loader->epoch = epoch;
    loader->position = position;
    loader->has_failed = false;
    loader->is_early = false;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    return BG_OK;
}

void bg_loader_want(bg_loader *loader, uint32_t (*wanted)(void *user, uint64_t sample), void *user)
{
    if (loader == NULL || loader->stream != NULL)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->is_held = false;
    empty_ring(loader, 0, 0);
    loader->is_begun = false;
    loader->wanted = wanted;
    loader->wanted_user = user;
    pthread_mutex_unlock(&loader->mutex);
}

bg_status bg_loader_begin_epoch(bg_loader *loader, uint64_t epoch, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(loader, "loader", __func__, error));
    return bg_loader_begin_at(loader, epoch, 0, error);
}

static bool is_ready(const bg_loader *loader)
{
    const slot *s = &loader->slots[loader->first_sequence % loader->slot_count];

    return loader->next_sequence > loader->first_sequence && is_done(s);
}

static void wait_until_ready(bg_loader *loader)
{
    const uint64_t start_ns = bgi_clock_ns();

    loader->statistics.miss_count++;
    pthread_cond_broadcast(&loader->work); /* wakes workers that left the filling to helpers */
    while (!is_ready(loader)) {
        if (loader->thread_count > 0) {
            pthread_cond_wait(&loader->progress, &loader->mutex);
        } else {
            bg_error error = {0};

            if (loader->claim_sequence == loader->next_sequence)
                open_next(loader);
            fill_next(loader, loader->chunk_samples, loader->workers[0].scratch, &error);
        }
    }
    loader->statistics.wait_ns += bgi_clock_ns() - start_ns;
}

static bg_status take_batch(bg_loader *loader, bg_batch *out, bg_error *error)
{
    slot *s;

    if (loader->is_held) {
        loader->is_held = false;
        pthread_cond_signal(&loader->work);
    }
    if (loader->position == loader->batch_count) {
        *out = (bg_batch){.position = loader->position, .epoch = loader->epoch};
        return BG_OK;
    }
    if (!is_ready(loader))
        wait_until_ready(loader);
    s = slot_of(loader, loader->first_sequence);
    if (s->error.status != BG_OK) {
        loader->has_failed = true;
        bg_error_set(error, s->error.status, "%s", s->error.message);
        return bg_error_context(error, s->error.status, "loader: epoch %" PRIu64 ", batch %" PRIu64, s->epoch,
                                s->position);
    }
    *out = (bg_batch){.tensors = s->views,
                      .sample_count = s->sample_count,
                      .valid_count = s->valid_count,
                      .position = s->position,
                      .epoch = s->epoch};
    loader->is_held = true;
    loader->first_sequence++;
    loader->position++;
    loader->statistics.batch_count++;
    return BG_OK;
}

bg_status bg_loader_next(bg_loader *loader, bg_batch *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_status status;

    if (loader->stream != NULL)
        return bgi_stream_loader_next(loader->stream, out, error);
    if (!loader->is_begun || loader->is_early)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: no epoch has begun; call bg_loader_begin_epoch first");
    pthread_mutex_lock(&loader->mutex);
    status = take_batch(loader, out, error);
    pthread_mutex_unlock(&loader->mutex);
    return status;
}
