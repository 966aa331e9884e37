/*
 * The loader of streams: PopTorch's documented counts for each mode, any number of workers, resuming, and every way to
 * stop. Also tests loader options: samplers, early preload and single epochs.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/allocations.h"

#include <brigade/data.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bg_status get_index(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    const _Atomic int64_t *fail_at = user;

    if (fail_at != NULL && atomic_load(fail_at) == (int64_t)index)
        return bg_error_set(error, BG_ERROR_IO, "gone");
    *(int32_t *)outputs[0] = (int32_t)(index + 10000 * epoch);
    return BG_OK;
}

static bg_dataset *make_indices(uint64_t count, _Atomic int64_t *fail_at)
{
    const bg_type type = bg_scalar(BG_INT32);
    bg_dataset *dataset = NULL;

    assert_int_equal(
        bg_dataset_create(
            &(bg_dataset_options){
                .sample_count = count, .tensor_count = 1, .sample_types = &type, .get = get_index, .user = fail_at},
            &dataset, NULL),
        BG_OK);
    return dataset;
}

static bg_loader *make_loader(const bg_sample_stream *stream, const bg_loader_options *options)
{
    bg_loader *loader = NULL;
    bg_error error = {0};

    if (bg_loader_create_stream(stream, options, &loader, &error) != BG_OK)
        fail_msg("%s", error.message);
    return loader;
}

/* Stores the sizes of the batches and all values of an epoch; returns the number of batches. */
static uint64_t read_on(bg_loader *loader, uint64_t *sizes, int32_t *values, uint64_t *value_count)
{
    bg_error error = {0};
    bg_batch batch;
    uint64_t count = 0;

    *value_count = 0;
    while (true) {
        if (bg_loader_next(loader, &batch, &error) != BG_OK)
            fail_msg("%s", error.message);
        if (batch.sample_count == 0)
            return count;
        memcpy(values + *value_count, batch.tensors[0], batch.sample_count * sizeof *values);
        *value_count += batch.sample_count;
        sizes[count++] = batch.sample_count;
    }
}

static const bg_loader_mode modes[] = {BG_LOADER_SYNC, BG_LOADER_ASYNC, BG_LOADER_ASYNC_REBATCHED};

/* Each row has the number of elements, the batch size and drop_last. The numbers of batches and of elements follow,
 * first in Sync and Async mode, then rebatched. There are 7 shards. */
static void test_published_numbers(void **state)
{
    static const struct {
        uint64_t samples, batch;
        bool drop_last;
        uint64_t batches[2], kept[2];
    } cases[] = {{101, 4, true, {20, 25}, {80, 100}},
                 {100, 4, true, {20, 25}, {80, 100}},
                 {101, 6, false, {20, 17}, {101, 101}},
                 {105, 5, true, {21, 21}, {105, 105}}};
    static const uint64_t leftovers[] = {5, 3, 3, 3, 3, 3, 3};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int m = 0; m < 3; m++)
            for (uint32_t workers = 0; workers < 9; workers += workers == 2 ? 5 : 1) {
                bg_dataset *dataset = make_indices(cases[i].samples, NULL);
                const bg_sample_stream stream = bg_dataset_stream(dataset);
                bg_loader_options options = bg_loader_options_defaults();
                uint64_t sizes[128], count;
                int32_t values[256];
                bg_loader *loader;

                options.mode = modes[m];
                options.batch_size = cases[i].batch;
                options.drop_last = cases[i].drop_last;
                options.worker_count = workers;
                options.shard_count = 7;
                loader = make_loader(&stream, &options);
                for (uint64_t epoch = 0; epoch < 3; epoch++) {
                    assert_int_equal(bg_loader_begin_epoch(loader, epoch, NULL), BG_OK);
                    assert_int_equal(read_on(loader, sizes, values, &count), cases[i].batches[m == 2]);
                    assert_int_equal(count, cases[i].kept[m == 2]);
                    assert_int_equal(values[0], 10000 * (int)epoch);
                    if (i == 2 && m < 2) {
                        for (int b = 0; b < 13; b++)
                            assert_int_equal(sizes[b], 6);
                        assert_memory_equal(sizes + 13, leftovers, sizeof leftovers);
                    }
                    if (i == 2 && m == 2)
                        assert_int_equal(sizes[16], 5);
                }
                bg_loader_destroy(loader);
                bg_dataset_destroy(dataset);
            }
}

/* With any number of workers, and resumed at any point, samples are those of one reader that starts at the
 * beginning. */
static void test_same_for_any_workers_and_resumption(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++) {
        bg_dataset *dataset = make_indices(101, NULL);
        const bg_sample_stream stream = bg_dataset_stream(dataset);
        bg_loader_options options = bg_loader_options_defaults();
        int32_t whole[128], values[128];
        uint64_t sizes[64], whole_sizes[64], count, batches;
        bg_loader *plain;

        options.mode = modes[m];
        options.batch_size = 4;
        options.drop_last = false;
        options.shard_count = 5;
        options.rebatched_size = m == 2 ? 3 : 0;
        options.worker_count = 0;
        plain = make_loader(&stream, &options);
        assert_int_equal(bg_loader_begin_epoch(plain, 1, NULL), BG_OK);
        batches = read_on(plain, whole_sizes, whole, &count);
        assert_int_equal(count, 101);
        bg_loader_destroy(plain);
        for (uint32_t workers = 0; workers <= 8; workers = workers == 2 ? 8 : workers + 1) {
            uint64_t start = 0;
            bg_loader *loader;

            options.worker_count = workers;
            loader = make_loader(&stream, &options);
            for (uint64_t position = 0; position <= batches; position++) {
                assert_int_equal(bg_loader_begin_at(loader, 1, position, NULL), BG_OK);
                assert_int_equal(read_on(loader, sizes, values, &count), batches - position);
                assert_int_equal(count, 101 - start);
                assert_memory_equal(values, whole + start, count * sizeof *values);
                start += position < batches ? whole_sizes[position] : 0;
            }
            assert_int_equal(bg_loader_begin_at(loader, 1, batches + 1, NULL), BG_ERROR_INVALID);
            bg_loader_destroy(loader);
        }
        bg_dataset_destroy(dataset);
    }
}

static void test_remainders_are_filled_up(void **state)
{
    const int32_t label = -100;
    const void *const pads[] = {&label};
    (void)state;

    for (int m = 0; m < 3; m++) {
        bg_dataset *dataset = make_indices(10, NULL);
        const bg_sample_stream stream = bg_dataset_stream(dataset);
        bg_loader_options options = bg_loader_options_defaults();
        bg_batch batch;
        bg_loader *loader;

        options.mode = modes[m];
        options.batch_size = 8;
        options.drop_last = false;
        options.pad_multiple = 4;
        options.pad_samples = pads;
        loader = make_loader(&stream, &options);
        assert_int_equal(bg_loader_begin_at(loader, 0, 1, NULL), BG_OK);
        assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
        assert_int_equal(batch.valid_count, 2);
        assert_int_equal(batch.sample_count, 4);
        assert_int_equal(((const int32_t *)batch.tensors[0])[1], 9);
        assert_int_equal(((const int32_t *)batch.tensors[0])[2], -100);
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
    }
}

/* ---- a stream that records its use ---- */

typedef struct watched {
    _Atomic int open_count, most_open;
    _Atomic uint64_t read_count;
    _Atomic uint64_t seeds[64];
    int32_t end; /* below 0: never */
    bool fails_to_open;
    long sleep_ns;
} watched;

typedef struct watched_shard {
    watched *all;
    int32_t at;
} watched_shard;

static bg_status open_watched(void *user, const bg_stream_shard *shard, void **out, bg_error *error)
{
    watched *w = user;
    watched_shard *s;

    if (w->fails_to_open && shard->index == 1)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "no such shard");
    s = malloc(sizeof *s);
    *s = (watched_shard){.all = w};
    atomic_store(&w->seeds[(shard->epoch % 8) * 8 + shard->index % 8], shard->seed);
    if (atomic_fetch_add(&w->open_count, 1) + 1 > atomic_load(&w->most_open))
        atomic_store(&w->most_open, atomic_load(&w->open_count));
    *out = s;
    return BG_OK;
}

static bg_status next_watched(void *iterator, void *const outputs[], bool *out_has_sample, bg_error *error)
{
    watched_shard *s = iterator;
    (void)error;

    if (s->all->sleep_ns > 0)
        nanosleep(&(struct timespec){.tv_nsec = s->all->sleep_ns}, NULL);
    *out_has_sample = s->all->end < 0 || s->at < s->all->end;
    if (*out_has_sample) {
        *(int32_t *)outputs[0] = s->at++;
        atomic_fetch_add(&s->all->read_count, 1);
    }
    return BG_OK;
}

static void close_watched(void *iterator)
{
    watched_shard *s = iterator;

    atomic_fetch_sub(&s->all->open_count, 1);
    free(s);
}

static bg_sample_stream watch(watched *w, const bg_type *type)
{
    return (bg_sample_stream){.tensor_count = 1,
                              .sample_types = type,
                              .user = w,
                              .open = open_watched,
                              .next = next_watched,
                              .close = close_watched};
}

static int count_threads(void)
{
    DIR *directory = opendir("/proc/self/task");
    int count = 0;

    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* Ends after `taken` batches of an endless stream and checks that shards are closed, threads have ended and readers
 * were bounded. */
static void test_early_destroy_leaves_nothing(void **state)
{
    const bg_type type = bg_scalar(BG_INT32);
    const int threads = count_threads();
    (void)state;

    for (int m = 0; m < 3; m++)
        for (int taken = -1; taken < 4; taken++) {
            watched w = {.end = -1, .sleep_ns = 20000};
            const bg_sample_stream stream = watch(&w, &type);
            bg_loader_options options = bg_loader_options_defaults();
            bg_loader *loader;
            bg_batch batch;

            options.mode = modes[m];
            options.batch_size = 5;
            options.worker_count = 3;
            loader = make_loader(&stream, &options);
            if (taken >= 0)
                assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
            for (int i = 0; i < taken; i++)
                assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
            bg_loader_destroy(loader);
            assert_int_equal(w.open_count, 0);
            if (taken < 0)
                assert_int_equal(w.read_count, 0);
        }
    for (int i = 0; i < 1000 && count_threads() > threads; i++) /* the system may update its count slightly later */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(count_threads(), threads);
}

static void test_back_pressure(void **state)
{
    const bg_type type = bg_scalar(BG_INT32);
    watched w = {.end = -1};
    const bg_sample_stream stream = watch(&w, &type);
    bg_loader_options options = bg_loader_options_defaults();
    bg_batch batch;
    bg_loader *loader;
    (void)state;

    options.batch_size = 10;
    options.worker_count = 2;
    options.prefetch_depth = 4; /* two shards: a ring of 1 + 2 pieces each */
    loader = make_loader(&stream, &options);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
    assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
    for (int i = 0; i < 10000 && atomic_load(&w.read_count) < 60; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(w.read_count, 60);
    bg_loader_destroy(loader);
}

static void test_failures_reach_the_consumer(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++)
        for (uint32_t workers = 0; workers < 3; workers++) {
            _Atomic int64_t fail_at = 13;
            bg_dataset *dataset = make_indices(40, &fail_at);
            const bg_sample_stream stream = bg_dataset_stream(dataset);
            bg_loader_options options = bg_loader_options_defaults();
            uint64_t sizes[64], count;
            int32_t values[64];
            bg_loader *loader;
            bg_batch batch;

            options.mode = modes[m];
            options.batch_size = 5;
            options.worker_count = workers;
            options.shard_count = 2;
            loader = make_loader(&stream, &options);
            assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
            for (int i = 0; i < 4; i++)
                assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
            for (int i = 0; i < 2; i++) {
                bg_error error = {0};

                assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_IO);
                assert_string_equal(error.message, "loader: epoch 0, shard 0 of 2: sample 13: gone");
            }
            atomic_store(&fail_at, -1);
            assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
            assert_int_equal(read_on(loader, sizes, values, &count), 8);
            bg_loader_destroy(loader);
            bg_dataset_destroy(dataset);
        }
}

static void test_seeds_belong_to_shards(void **state)
{
    const bg_type type = bg_scalar(BG_INT32);
    uint64_t seen[2][16];
    (void)state;

    for (int run = 0; run < 2; run++) {
        watched w = {.end = 4};
        const bg_sample_stream stream = watch(&w, &type);
        bg_loader_options options = bg_loader_options_defaults();
        uint64_t sizes[64], count;
        int32_t values[64];
        bg_loader *loader;

        options.worker_count = run == 0 ? 0 : 3;
        options.shard_count = 8;
        options.seed = 9;
        loader = make_loader(&stream, &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            assert_int_equal(bg_loader_begin_epoch(loader, epoch, NULL), BG_OK);
            assert_int_equal(read_on(loader, sizes, values, &count), 32);
        }
        for (int i = 0; i < 16; i++)
            seen[run][i] = atomic_load(&w.seeds[i]);
        bg_loader_destroy(loader);
    }
    assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++)
            assert_true(seen[0][i] != seen[0][j]);
}

static void test_stream_refusals(void **state)
{
    const bg_type type = bg_scalar(BG_INT32);
    watched w = {.end = 3, .fails_to_open = true};
    bg_sample_stream stream = watch(&w, &type);
    const bg_loader_options good = bg_loader_options_defaults();
    bg_loader_options options = good;
    bg_loader *loader = NULL;
    bg_batch batch;
    bg_error error = {0};
    (void)state;

    options.shuffle = true;
    assert_int_equal(bg_loader_create_stream(&stream, &options, &loader, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "cannot be combined with shuffle"));
    options = good;
    options.process_count = 2;
    assert_int_equal(bg_loader_create_stream(&stream, &options, &loader, NULL), BG_ERROR_INVALID);
    options = good;
    options.mode = BG_LOADER_ASYNC_REBATCHED;
    options.rebatched_size = 2;
    bg_error_clear(&error);
    assert_int_equal(bg_loader_create_stream(&stream, &options, &loader, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "loader: rebatched_size is 2 but must be at most the batch size, 1");
    assert_null(loader);
    options = good;
    options.shard_count = 2;
    loader = make_loader(&stream, &options);
    assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
    bg_error_clear(&error);
    assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_NOT_FOUND);
    assert_string_equal(error.message, "loader: epoch 0, shard 1 of 2: no such shard");
    bg_loader_destroy(loader);
    w = (watched){.end = 0};
    loader = make_loader(&stream, &good);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
    bg_error_clear(&error);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "loader: epoch 0 of the stream ended before a whole batch of 1");
    bg_loader_destroy(loader);
    options = good;
    options.drop_last = false;
    loader = make_loader(&stream, &options);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
    bg_error_clear(&error);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "loader: epoch 0 of the stream has no samples");
    bg_loader_destroy(loader);
    assert_int_equal(w.open_count, 0);
}

/* ---- samplers, and work that workers begin by themselves ---- */

/* Chooses list l, which has l % 3 + 1 samples. */
static bg_status choose_list(void *user, uint64_t epoch, uint64_t list, uint32_t *indices, uint64_t limit,
                             uint64_t *out_count, bg_error *error)
{
    const int64_t *bad = user;

    if (bad != NULL && *bad == (int64_t)list)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "no list");
    *out_count = list % 3 + 1;
    for (uint64_t i = 0; i < *out_count && i < limit; i++)
        indices[i] = (uint32_t)((epoch * 17 + list * 5 + i * 3) % 40);
    return BG_OK;
}

static void test_sampler(void **state)
{
    (void)state;
    for (int drop_last = 0; drop_last < 2; drop_last++)
        for (uint32_t workers = 0; workers < 3; workers++) {
            bg_dataset *dataset = make_indices(40, NULL);
            bg_loader_options options = bg_loader_options_defaults();
            int64_t bad = -1;
            bg_loader *loader = NULL;
            bg_error error = {0};
            bg_batch batch;

            options.batch_size = 6;
            options.drop_last = drop_last;
            options.worker_count = workers;
            options.sampler = choose_list;
            options.sampler_user = &bad;
            options.sampler_list_count = 10;
            options.sampler_combine = 3;
            assert_int_equal(bg_loader_create(dataset, &options, &loader, &error), BG_OK);
            assert_int_equal(bg_loader_batch_count(loader), drop_last ? 3 : 4);
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                assert_int_equal(bg_loader_begin_at(loader, epoch, 1, NULL), BG_OK);
                for (uint64_t b = 1; b < bg_loader_batch_count(loader); b++) {
                    uint64_t at = 0;

                    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
                    assert_int_equal(batch.sample_count, b < 3 ? 6 : 1);
                    for (uint64_t list = 3 * b; list < 3 * b + 3 && list < 10; list++)
                        for (uint64_t i = 0; i < list % 3 + 1; i++)
                            assert_int_equal(((const int32_t *)batch.tensors[0])[at++],
                                             10000 * epoch + (epoch * 17 + list * 5 + i * 3) % 40);
                }
            }
            bg_loader_destroy(loader);
            bad = 4;
            assert_int_equal(bg_loader_create(dataset, &options, &loader, &error), BG_OK);
            assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
            assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
            assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_NOT_FOUND);
            assert_string_equal(error.message, "loader: epoch 0, batch 1: list 4 of the sampler: no list");
            bg_loader_destroy(loader);
            /* There are only two lists, but a batch takes three. */
            options.sampler_list_count = 2;
            bg_error_clear(&error);
            assert_int_equal(bg_loader_create(dataset, &options, &loader, &error),
                             drop_last ? BG_ERROR_INVALID : BG_OK);
            if (drop_last)
                assert_non_null(strstr(error.message, "2 lists of the sampler do not make a batch of 3 lists"));
            else
                bg_loader_destroy(loader);
            options.sampler_list_count = 10;
            options.batch_size = 5; /* 3 samples of the third list do not fit */
            bad = -1;
            bg_error_clear(&error);
            assert_int_equal(bg_loader_create(dataset, &options, &loader, &error), BG_OK);
            assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
            assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_INVALID);
            assert_non_null(strstr(error.message, "list 2 of the sampler: has 3 samples but must have 1 to 2"));
            bg_loader_destroy(loader);
            options.shuffle = true;
            assert_int_equal(bg_loader_create(dataset, &options, &loader, NULL), BG_ERROR_INVALID);
            bg_dataset_destroy(dataset);
        }
}

/* Waits until reading has stopped, and returns the number of samples that were read. */
static uint64_t settle(_Atomic uint64_t *count, uint64_t expected)
{
    for (int i = 0; i < 10000 && atomic_load(count) < expected; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return atomic_load(count);
}

static void test_early_preload_and_single_epochs(void **state)
{
    const bg_type type = bg_scalar(BG_INT32);
    (void)state;

    for (int early = 0; early < 2; early++)
        for (int on = 0; on < 2; on++) {
            watched w = {.end = 2};
            const bg_sample_stream stream = watch(&w, &type);
            bg_loader_options options = bg_loader_options_defaults();
            uint64_t sizes[8], count;
            int32_t values[8];
            bg_loader *loader;

            options.prefetch_depth = 9;
            options.early_preload = early;
            options.load_indefinitely = on;
            loader = make_loader(&stream, &options);
            if (early)
                assert_true(settle(&w.read_count, 2) >= 2);
            else
                assert_int_equal(w.read_count, 0);
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                assert_int_equal(bg_loader_begin_epoch(loader, epoch, NULL), BG_OK);
                assert_int_equal(read_on(loader, sizes, values, &count), 2);
                if (on)
                    assert_true(settle(&w.read_count, 2 * epoch + 4) >= 2 * epoch + 4);
                else
                    assert_int_equal(settle(&w.read_count, 2 * epoch + 2), 2 * epoch + 2);
            }
            bg_loader_destroy(loader);
            assert_int_equal(w.open_count, 0);
        }
}

static void test_no_allocation_while_streaming(void **state)
{
    const bg_type type = bg_scalar(BG_INT32);
    watched w = {.end = -1};
    const bg_sample_stream stream = watch(&w, &type);
    (void)state;

    if (!test_allocations_available())
        skip();
    for (int m = 0; m < 3; m++) {
        bg_loader_options options = bg_loader_options_defaults();
        bg_loader *loader;
        bg_batch batch;

        options.mode = modes[m];
        options.batch_size = 10;
        loader = make_loader(&stream, &options);
        assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
        assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
        const uint64_t before = test_allocations_count();
        for (int i = 0; i < 100; i++)
            assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
        assert_int_equal(test_allocations_count(), before);
        bg_loader_destroy(loader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_numbers),
        cmocka_unit_test(test_same_for_any_workers_and_resumption),
        cmocka_unit_test(test_remainders_are_filled_up),
        cmocka_unit_test(test_early_destroy_leaves_nothing),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_failures_reach_the_consumer),
        cmocka_unit_test(test_seeds_belong_to_shards),
        cmocka_unit_test(test_stream_refusals),
        cmocka_unit_test(test_sampler),
        cmocka_unit_test(test_early_preload_and_single_epochs),
        cmocka_unit_test(test_no_allocation_while_streaming),
    };
    return cmocka_run_group_tests_name("data/stream_loader", tests, NULL, NULL);
}
