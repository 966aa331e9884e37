/*
 * stream_loader.c: implements the loader of streams. It does not use data sets.
 *
 * One worker at a time reads a shard into a small ring of pieces. A piece has the samples of one call of the stream's
 * `next`:
 *
 *     shard 0  [piece][piece][     ]  \
 *     shard 1  [piece][     ][     ]   >  in the order 0 1 2 0 1 2 ..., ended shards left out: handed out as they are,
 *     shard 2  [piece][piece][piece]  /   or joined and cut into batches again (rebatched)
 *
 * A worker looks for a shard that has space in its ring and that no other worker reads. The order of pieces depends
 * only on shards and positions, and not on the number or speed of workers. A shard with a full ring is not read until
 * the consumer takes a piece. Without workers the consumer reads the shards itself. A new epoch pauses the workers,
 * closes the shards, and empties the rings. A shard is opened for an epoch when the epoch begins, or with
 * load_indefinitely as soon as its previous epoch has ended.
 *
 * `mutex` guards everything except the constant options and stream. While `is_busy` is set, the shard's iterator and
 * the piece being filled belong to a worker. The piece that the consumer has received, and with rebatching the batch
 * being joined, belong to the consumer, which copies samples while the workers continue.
 */
#include "data/loader.h"

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_ALIGNMENT = 64, LARGEST_SHARD_COUNT = 4096 };

typedef struct piece {
    uint64_t epoch;
    uint64_t sample_count;
    bool is_end;           /* the shard has ended in this epoch */
    uint64_t room_samples; /* number of samples for which the tensors have memory */
    unsigned char *tensors[BG_DATASET_MAX_TENSORS];
    bg_error error;
} piece;

typedef struct shard {
    bool is_busy;
    bool has_failed; /* stays set until the next epoch begins */
    void *iterator;
    uint64_t epoch;       /* the epoch of the next piece */
    uint64_t first, next; /* the numbers of pieces that were taken and that were filled */
    bool is_over;         /* the consumer has reached the shard's end in this epoch */
    piece *pieces;
    /* The thread that reads the shard writes this flag without the lock, so it is not next to the flags above, which
     * are in one machine word. */
    bool is_open;
} shard;

struct bgi_stream_loader {
    bg_sample_stream stream;
    bg_type types[BG_DATASET_MAX_TENSORS];
    size_t sample_bytes[BG_DATASET_MAX_TENSORS];
    bg_loader_options options;
    uint64_t piece_samples;
    uint32_t depth; /* pieces in a shard's ring */
    uint32_t shard_count;
    shard *shards;
    unsigned char *pads[BG_DATASET_MAX_TENSORS];

    pthread_mutex_t mutex;
    pthread_cond_t work, progress;
    bgi_thread *threads;
    uint32_t thread_count;
    bool is_begun, is_early, is_paused, is_ending;
    uint32_t busy_count;

    uint64_t epoch;    /* the consumer's */
    uint64_t position; /* position of the next batch */
    uint32_t turn;     /* the shard with the next piece */
    bool is_done;      /* the epoch has ended */
    piece *held;       /* the piece that the consumer has, or has partly copied */
    uint32_t held_shard;
    uint64_t held_at; /* rebatched: the number of samples taken from `held` */
    piece joined;     /* rebatched: the batch */
    const void *views[BG_DATASET_MAX_TENSORS];
    bg_error failure;
    bg_loader_statistics statistics;
};

/* ---- reading a shard, without the lock ---- */

static bg_status open_shard(bgi_stream_loader *loader, uint32_t index, bg_error *error)
{
    shard *s = &loader->shards[index];
    bgi_random seeds = bgi_random_make(bgi_random_domain(loader->options.seed, BGI_RANDOM_LOADER),
                                       s->epoch * loader->shard_count + index);
    const uint64_t low = bgi_random_word(&seeds);
    const bg_stream_shard about = {.epoch = s->epoch,
                                   .index = index,
                                   .count = loader->shard_count,
                                   .seed = (uint64_t)bgi_random_word(&seeds) << 32 | low};

    BGI_TRY(loader->stream.open(loader->stream.user, &about, &s->iterator, error));
    s->is_open = true;
    return BG_OK;
}

static void close_shard(bgi_stream_loader *loader, shard *s)
{
    if (s->is_open && loader->stream.close != NULL)
        loader->stream.close(s->iterator);
    s->is_open = false;
    s->iterator = NULL;
}

static bg_status read_piece(bgi_stream_loader *loader, uint32_t index, piece *p, bg_error *error)
{
    shard *s = &loader->shards[index];

    if (!s->is_open)
        BGI_TRY(open_shard(loader, index, error));
    while (p->sample_count < loader->piece_samples) {
        void *outputs[BG_DATASET_MAX_TENSORS];
        bool has_sample = false;

        for (uint32_t t = 0; t < loader->stream.tensor_count; t++)
            outputs[t] = p->tensors[t] + p->sample_count * loader->sample_bytes[t];
        BGI_TRY(loader->stream.next(s->iterator, outputs, &has_sample, error));
        if (!has_sample) {
            p->is_end = true;
            close_shard(loader, s);
            return BG_OK;
        }
        p->sample_count++;
    }
    return BG_OK;
}

static void fill_piece(bgi_stream_loader *loader, uint32_t index)
{
    shard *s = &loader->shards[index];
    piece *p = &s->pieces[s->next % loader->depth];
    bg_status status;

    p->epoch = s->epoch;
    p->sample_count = 0;
    p->is_end = false;
    bg_error_clear(&p->error);
    status = read_piece(loader, index, p, &p->error);
    if (status == BG_OK)
        return;
    bgi_error_unexplained(&p->error, status, "the stream");
    bg_error_context(&p->error, status, "loader: epoch %" PRIu64 ", shard %" PRIu32 " of %" PRIu32, s->epoch, index,
                     loader->shard_count);
}

/* ---- workers; with the lock held ---- */

static bool may_read(const bgi_stream_loader *loader, const shard *s)
{
    if (s->is_busy || s->has_failed || s->next - s->first >= loader->depth)
        return false;
    return loader->options.load_indefinitely || s->epoch == loader->epoch;
}

static void read_shard(bgi_stream_loader *loader, uint32_t index)
{
    shard *s = &loader->shards[index];
    const piece *p = &s->pieces[s->next % loader->depth];

    s->is_busy = true;
    loader->busy_count++;
    pthread_mutex_unlock(&loader->mutex);
    fill_piece(loader, index);
    pthread_mutex_lock(&loader->mutex);
    loader->busy_count--;
    s->is_busy = false;
    s->next++;
    if (p->error.status != BG_OK)
        s->has_failed = true;
    else if (p->is_end)
        s->epoch++;
    pthread_cond_signal(&loader->progress);
}

/* Chooses the shard whose pieces the consumer needs first: the one with the fewest ready pieces. Among equals it is the
 * first in turn. */
static bool find_work(const bgi_stream_loader *loader, uint32_t *out_index)
{
    uint64_t fewest = UINT64_MAX;

    for (uint32_t i = 0; i < loader->shard_count; i++) {
        const uint32_t index = (loader->turn + i) % loader->shard_count;
        const shard *s = &loader->shards[index];

        if (may_read(loader, s) && s->next - s->first < fewest) {
            fewest = s->next - s->first;
            *out_index = index;
        }
    }
    return fewest != UINT64_MAX;
}

static void run_worker(void *argument)
{
    bgi_stream_loader *loader = argument;
    uint32_t index = 0;

    pthread_mutex_lock(&loader->mutex);
    while (!loader->is_ending)
        if (loader->is_begun && !loader->is_paused && find_work(loader, &index))
            read_shard(loader, index);
        else
            pthread_cond_wait(&loader->work, &loader->mutex);
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- creation ---- */

static bg_status check_stream(const bg_sample_stream *stream, const bg_loader_options *options, bg_error *error)
{
    const char *without = options->shuffle ? "shuffle, because it has no index; shuffle the source of the stream"
                          : options->sampler != NULL ? "a sampler, because it has no index"
                          : options->process_count > 1
                              ? "several processes; the stream itself must read only its process's part"
                              : NULL;

    BGI_TRY(bgi_loader_check(options, error));
    if (without != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: a stream cannot be combined with %s", without);
    if (stream->open == NULL || stream->next == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: the stream has no function to %s it",
                            stream->open == NULL ? "open" : "read");
    if (stream->tensor_count == 0 || stream->tensor_count > BG_DATASET_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: the stream has %" PRIu32 " tensors for each sample but must have 1 to %d",
                            stream->tensor_count, BG_DATASET_MAX_TENSORS);
    for (uint32_t t = 0; t < stream->tensor_count; t++) {
        const bg_status status = bg_type_validate(&stream->sample_types[t], error);
        if (status != BG_OK)
            return bg_error_context(error, status, "loader: tensor %" PRIu32 " of the stream", t);
    }
    if (options->shard_count > LARGEST_SHARD_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: shard_count is %" PRIu32 " but must be at most %d",
                            options->shard_count, LARGEST_SHARD_COUNT);
    if (options->rebatched_size != 0 && options->mode != BG_LOADER_ASYNC_REBATCHED)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: rebatched_size is %" PRIu64
                            ", but only the mode BG_LOADER_ASYNC_REBATCHED uses it; leave it at 0",
                            options->rebatched_size);
    if (options->rebatched_size > options->batch_size)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: rebatched_size is %" PRIu64 " but must be at most the batch size, %" PRIu64,
                            options->rebatched_size, options->batch_size);
    return BG_OK;
}

static bg_status allocate_piece(const bgi_stream_loader *loader, uint64_t samples, piece *p, bg_error *error)
{
    p->room_samples = samples;
    for (uint32_t t = 0; t < loader->stream.tensor_count; t++) {
        const size_t sample_bytes = loader->sample_bytes[t];

        if (sample_bytes <= SIZE_MAX / 2 / samples)
            p->tensors[t] = bgi_memory_take(&loader->options.allocator, TENSOR_ALIGNMENT, samples * sample_bytes);
        if (p->tensors[t] == NULL)
            return bgi_error_memory(error, "a batch", samples * sample_bytes);
    }
    return BG_OK;
}

static void free_piece(const bgi_stream_loader *loader, piece *p)
{
    for (uint32_t t = 0; t < loader->stream.tensor_count; t++)
        bgi_memory_return(&loader->options.allocator, p->tensors[t], p->room_samples * loader->sample_bytes[t]);
}

static bg_status allocate_pads(bgi_stream_loader *loader, bg_error *error)
{
    const void *const *samples = loader->options.pad_samples;

    for (uint32_t t = 0; loader->options.pad_multiple != 0 && t < loader->stream.tensor_count; t++) {
        loader->pads[t] = calloc(1, loader->sample_bytes[t]);
        if (loader->pads[t] == NULL)
            return bgi_error_memory(error, "a sample", loader->sample_bytes[t]);
        if (samples != NULL && samples[t] != NULL)
            memcpy(loader->pads[t], samples[t], loader->sample_bytes[t]);
    }
    return BG_OK;
}

static bg_status allocate(bgi_stream_loader *loader, bg_error *error)
{
    loader->shards = calloc(loader->shard_count, sizeof *loader->shards);
    if (loader->shards == NULL)
        return bgi_error_memory(error, "the loader's shards", loader->shard_count * sizeof *loader->shards);
    for (uint32_t i = 0; i < loader->shard_count; i++) {
        shard *s = &loader->shards[i];

        s->pieces = calloc(loader->depth, sizeof *s->pieces);
        if (s->pieces == NULL)
            return bgi_error_memory(error, "a shard's ring", loader->depth * sizeof *s->pieces);
        for (uint32_t p = 0; p < loader->depth; p++)
            BGI_TRY(allocate_piece(loader, loader->piece_samples, &s->pieces[p], error));
    }
    if (loader->options.mode == BG_LOADER_ASYNC_REBATCHED)
        BGI_TRY(allocate_piece(loader, loader->options.batch_size, &loader->joined, error));
    return allocate_pads(loader, error);
}

static bg_status start_threads(bgi_stream_loader *loader, uint32_t count, bg_error *error)
{
    if (count > loader->shard_count)
        count = loader->shard_count; /* each shard is read by one thread at a time */
    if (count == 0)
        return BG_OK;
    loader->threads = calloc(count, sizeof *loader->threads);
    if (loader->threads == NULL)
        return bgi_error_memory(error, "the loader's threads", count * sizeof *loader->threads);
    for (; loader->thread_count < count; loader->thread_count++)
        BGI_TRY(bgi_loader_thread(&loader->threads[loader->thread_count], &loader->options, run_worker, loader,
                                  loader->thread_count, count, error));
    return BG_OK;
}

bg_status bgi_stream_loader_create(const bg_sample_stream *stream, const bg_loader_options *options,
                                   bgi_stream_loader **out, bg_error *error)
{
    const uint32_t workers = options->mode == BG_LOADER_SYNC ? 0 : options->worker_count;
    const bool is_rebatched = options->mode == BG_LOADER_ASYNC_REBATCHED;
    bgi_stream_loader *loader;
    bg_status status;

    BGI_TRY(check_stream(stream, options, error));
    loader = calloc(1, sizeof *loader);
    if (loader == NULL)
        return bgi_error_memory(error, "a loader", sizeof *loader);
    loader->stream = *stream;
    memcpy(loader->types, stream->sample_types, stream->tensor_count * sizeof loader->types[0]);
    loader->stream.sample_types = loader->types;
    for (uint32_t t = 0; t < stream->tensor_count; t++)
        loader->sample_bytes[t] = bg_type_size_bytes(&loader->types[t]);
    loader->options = *options;
    loader->shard_count = options->shard_count != 0    ? options->shard_count
                          : options->worker_count != 0 ? options->worker_count
                                                       : 1;
    loader->piece_samples =
        is_rebatched && options->rebatched_size != 0 ? options->rebatched_size : options->batch_size;
    /* All rings together hold at least prefetch_depth pieces in addition to the one in use. */
    loader->depth = workers == 0 ? 1 : 1 + (options->prefetch_depth + loader->shard_count - 1) / loader->shard_count;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->progress, NULL);
    loader->is_begun = loader->is_early = options->early_preload; /* set before any thread starts */
    status = allocate(loader, error);
    if (status == BG_OK)
        status = start_threads(loader, workers, error);
    if (status != BG_OK) {
        bgi_stream_loader_destroy(loader);
        return status;
    }
    *out = loader;
    return BG_OK;
}

void bgi_stream_loader_destroy(bgi_stream_loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->is_ending = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    for (uint32_t i = 0; i < loader->thread_count; i++)
        bgi_thread_join(&loader->threads[i]);
    pthread_cond_destroy(&loader->progress);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->mutex);
    for (uint32_t i = 0; loader->shards != NULL && i < loader->shard_count; i++) {
        close_shard(loader, &loader->shards[i]);
        for (uint32_t p = 0; loader->shards[i].pieces != NULL && p < loader->depth; p++)
            free_piece(loader, &loader->shards[i].pieces[p]);
        free(loader->shards[i].pieces);
    }
    for (uint32_t t = 0; t < BG_DATASET_MAX_TENSORS; t++)
        free(loader->pads[t]);
    free_piece(loader, &loader->joined);
    free(loader->shards);
    free(loader->threads);
    free(loader);
}

uint64_t bgi_stream_loader_batch_size(const bgi_stream_loader *loader)
{
    return loader->options.batch_size;
}

const bg_type *bgi_stream_loader_types(const bgi_stream_loader *loader, uint32_t *out_tensor_count)
{
    *out_tensor_count = loader->stream.tensor_count;
    return loader->types;
}

bg_loader_statistics bgi_stream_loader_statistics(const bgi_stream_loader *loader)
{
    return loader->statistics;
}

/* ---- the consumer; with the lock held ---- */

static void release_held(bgi_stream_loader *loader)
{
    if (loader->held == NULL)
        return;
    loader->held = NULL;
    loader->shards[loader->held_shard].first++;
    pthread_cond_signal(&loader->work);
}

static void wait_for(bgi_stream_loader *loader, uint32_t index)
{
    shard *s = &loader->shards[index];
    const uint64_t start_ns = bgi_clock_ns();

    if (s->next > s->first)
        return;
    loader->statistics.miss_count++;
    while (s->next == s->first)
        if (loader->thread_count > 0)
            pthread_cond_wait(&loader->progress, &loader->mutex);
        else
            read_shard(loader, index);
    loader->statistics.wait_ns += bgi_clock_ns() - start_ns;
}

/* Moves to the next shard in turn that has not ended. Returns false if all have ended. */
static bool take_turn(bgi_stream_loader *loader, uint32_t *out_index)
{
    for (uint32_t i = 0; i < loader->shard_count; i++) {
        const uint32_t index = (loader->turn + i) % loader->shard_count;

        if (!loader->shards[index].is_over) {
            *out_index = index;
            loader->turn = (index + 1) % loader->shard_count;
            return true;
        }
    }
    return false;
}

/* Sets `held` to the next piece with samples, or to NULL at the end of the epoch. */
static bg_status take_piece(bgi_stream_loader *loader)
{
    uint32_t index = 0;

    release_held(loader);
    while (take_turn(loader, &index)) {
        shard *s = &loader->shards[index];
        piece *p;

        wait_for(loader, index);
        p = &s->pieces[s->first % loader->depth];
        if (p->error.status != BG_OK) {
            loader->failure = p->error;
            return p->error.status;
        }
        s->is_over = p->is_end;
        loader->held = p;
        loader->held_shard = index;
        loader->held_at = 0;
        if (p->sample_count > 0)
            return BG_OK;
        release_held(loader);
    }
    return BG_OK;
}

/* Takes a batch from one shard; with drop_last the remainders of shards are skipped. */
static bg_status take_whole(bgi_stream_loader *loader, piece **out)
{
    do {
        BGI_TRY(take_piece(loader));
    } while (loader->options.drop_last && loader->held != NULL &&
             loader->held->sample_count < loader->options.batch_size);
    *out = loader->held;
    return BG_OK;
}

/* Joins samples of consecutive pieces until the batch is full. Workers continue meanwhile. */
static bg_status take_joined(bgi_stream_loader *loader, piece **out)
{
    piece *joined = &loader->joined;

    joined->sample_count = 0;
    while (joined->sample_count < loader->options.batch_size) {
        const uint64_t room = loader->options.batch_size - joined->sample_count;
        uint64_t count;

        if (loader->held == NULL || loader->held_at == loader->held->sample_count)
            BGI_TRY(take_piece(loader));
        if (loader->held == NULL)
            break;
        count = loader->held->sample_count - loader->held_at;
        count = count < room ? count : room;
        pthread_mutex_unlock(&loader->mutex);
        for (uint32_t t = 0; t < loader->stream.tensor_count; t++)
            memcpy(joined->tensors[t] + joined->sample_count * loader->sample_bytes[t],
                   loader->held->tensors[t] + loader->held_at * loader->sample_bytes[t],
                   count * loader->sample_bytes[t]);
        pthread_mutex_lock(&loader->mutex);
        joined->sample_count += count;
        loader->held_at += count;
    }
    *out = joined->sample_count == 0 || (loader->options.drop_last && joined->sample_count < loader->options.batch_size)
               ? NULL
               : joined;
    return BG_OK;
}

static uint64_t fill_up(bgi_stream_loader *loader, piece *p)
{
    const uint64_t multiple = loader->options.pad_multiple;
    uint64_t count = p->sample_count;

    if (multiple == 0)
        return count;
    for (; count % multiple != 0; count++)
        for (uint32_t t = 0; t < loader->stream.tensor_count; t++)
            memcpy(p->tensors[t] + count * loader->sample_bytes[t], loader->pads[t], loader->sample_bytes[t]);
    return count;
}

static bg_status take_batch(bgi_stream_loader *loader, bg_batch *out)
{
    piece *p = NULL;

    if (loader->failure.status != BG_OK)
        return loader->failure.status;
    *out = (bg_batch){.epoch = loader->epoch};
    if (!loader->is_done)
        BGI_TRY(loader->options.mode == BG_LOADER_ASYNC_REBATCHED ? take_joined(loader, &p) : take_whole(loader, &p));
    out->position = loader->position;
    if (p == NULL && loader->position == 0 && loader->options.drop_last)
        return bg_error_set(&loader->failure, BG_ERROR_INVALID,
                            "loader: epoch %" PRIu64 " of the stream ended before a whole batch of %" PRIu64,
                            loader->epoch, loader->options.batch_size);
    if (p == NULL && loader->position == 0)
        return bg_error_set(&loader->failure, BG_ERROR_INVALID,
                            "loader: epoch %" PRIu64 " of the stream has no samples", loader->epoch);
    if (p == NULL) {
        loader->is_done = true;
        return BG_OK;
    }
    for (uint32_t t = 0; t < loader->stream.tensor_count; t++)
        loader->views[t] = p->tensors[t];
    out->tensors = loader->views;
    out->valid_count = p->sample_count;
    out->sample_count = fill_up(loader, p);
    loader->position++;
    return BG_OK;
}

bg_status bgi_stream_loader_next(bgi_stream_loader *loader, bg_batch *out, bg_error *error)
{
    bg_status status;

    if (!loader->is_begun || loader->is_early)
        return bg_error_set(error, BG_ERROR_INVALID, "loader: no epoch has begun; call bg_loader_begin_epoch first");
    pthread_mutex_lock(&loader->mutex);
    status = take_batch(loader, out);
    loader->statistics.batch_count += status == BG_OK && out->sample_count > 0;
    pthread_mutex_unlock(&loader->mutex);
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", loader->failure.message);
}

/* Whether the shards are at the beginning of this epoch, or past the end of the previous one. */
static bool is_ahead(const bgi_stream_loader *loader, uint64_t epoch)
{
    if (!loader->is_begun || loader->failure.status != BG_OK)
        return false;
    if (loader->is_early)
        return epoch == 0;
    if (!loader->is_done || epoch != loader->epoch + 1)
        return false;
    for (uint32_t i = 0; i < loader->shard_count; i++)
        if (!loader->shards[i].is_over)
            return false;
    return true;
}

static void start_over(bgi_stream_loader *loader, uint64_t epoch)
{
    loader->is_paused = true;
    while (loader->busy_count > 0)
        pthread_cond_wait(&loader->progress, &loader->mutex);
    loader->is_paused = false;
    for (uint32_t i = 0; i < loader->shard_count; i++) {
        shard *s = &loader->shards[i];

        close_shard(loader, s);
        s->first = s->next = 0;
        s->has_failed = false;
        s->epoch = epoch;
    }
}

bg_status bgi_stream_loader_begin(bgi_stream_loader *loader, uint64_t epoch, uint64_t position, bg_error *error)
{
    bg_status status = BG_OK;
    bg_batch batch = {.sample_count = 1};

    pthread_mutex_lock(&loader->mutex);
    release_held(loader);
    if (!is_ahead(loader, epoch))
        start_over(loader, epoch);
    for (uint32_t i = 0; i < loader->shard_count; i++)
        loader->shards[i].is_over = false;
    bg_error_clear(&loader->failure);
    loader->is_begun = true;
    loader->is_early = loader->is_done = false;
    loader->epoch = epoch;
    loader->position = 0;
    loader->turn = 0;
    pthread_cond_broadcast(&loader->work);
    while (status == BG_OK && loader->position < position && batch.sample_count > 0)
        status = take_batch(loader, &batch);
    pthread_mutex_unlock(&loader->mutex);
    if (status != BG_OK)
        return bg_error_set(error, status, "%s", loader->failure.message);
    if (loader->position < position)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "loader: cannot begin at batch %" PRIu64 " of epoch %" PRIu64 ", which has only %" PRIu64,
                            position, epoch, loader->position);
    return BG_OK;
}
