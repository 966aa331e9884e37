/*
 * Every number of workers of the loader gives the same batches, and each sample occurs once per epoch. Restarts,
 * failures and early ends never hang. Builds with the thread sanitizer check the locking.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/random.h"
#include "data/order.h"
#include "support/allocations.h"

#include <brigade/data.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const uint32_t worker_counts[] = {0, 1, 2, 8};
enum { WORKER_COUNT_CASES = 4 };

/* ---- a data set whose samples contain their index ---- */

enum { SAMPLES = 103, PIXELS = 6 };

typedef struct samples {
    bg_array images, labels;
    bg_dataset *dataset;
} samples;

static void make_samples(samples *s, int64_t count)
{
    const bg_type images = bg_tensor3(BG_UINT8, count, 2, 3), labels = bg_vector(BG_INT32, count);
    bg_error error = {0};

    assert_int_equal(bg_array_init(&s->images, &images, &error), BG_OK);
    assert_int_equal(bg_array_init(&s->labels, &labels, &error), BG_OK);
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)s->labels.data)[i] = (int32_t)i;
        for (int64_t j = 0; j < PIXELS; j++)
            ((uint8_t *)s->images.data)[i * PIXELS + j] = (uint8_t)(i * 7 + j);
    }
    assert_int_equal(bg_dataset_create_arrays((bg_array[]){s->images, s->labels}, 2, &s->dataset, &error), BG_OK);
}

static void clear_samples(samples *s)
{
    bg_dataset_destroy(s->dataset);
    bg_array_clear(&s->images);
    bg_array_clear(&s->labels);
}

/* A data set of the same samples from a callback that counts its calls and can fail from a given sample on. */
typedef struct called {
    int64_t fail_at; /* below 0: no failure */
    pthread_mutex_t mutex;
    uint64_t calls;
    long sleep_ns;
} called;

static bg_status get_sample(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    called *c = user;
    int64_t fail_at;
    (void)epoch;

    pthread_mutex_lock(&c->mutex);
    c->calls++;
    fail_at = c->fail_at;
    pthread_mutex_unlock(&c->mutex);
    if (c->sleep_ns > 0)
        nanosleep(&(struct timespec){.tv_nsec = c->sleep_ns}, NULL);
    if (fail_at >= 0 && (int64_t)index >= fail_at)
        return bg_error_set(error, BG_ERROR_IO, "the disk is gone");
    for (int j = 0; j < PIXELS; j++)
        ((uint8_t *)outputs[0])[j] = (uint8_t)((int)index * 7 + j);
    *(int32_t *)outputs[1] = (int32_t)index;
    return BG_OK;
}

static bg_dataset *make_called(called *c, uint64_t count)
{
    const bg_type types[] = {bg_matrix(BG_UINT8, 2, 3), bg_scalar(BG_INT32)};
    const bg_dataset_options options = {
        .sample_count = count, .tensor_count = 2, .sample_types = types, .get = get_sample, .user = c};
    bg_dataset *dataset = NULL;
    bg_error error = {0};

    *c = (called){.fail_at = -1};
    pthread_mutex_init(&c->mutex, NULL);
    assert_int_equal(bg_dataset_create(&options, &dataset, &error), BG_OK);
    return dataset;
}

static bg_loader *make_loader(const bg_dataset *dataset, const bg_loader_options *options)
{
    bg_loader *loader = NULL;
    bg_error error = {0};

    if (bg_loader_create(dataset, options, &loader, &error) != BG_OK)
        fail_msg("%s", error.message);
    return loader;
}

static void begin(bg_loader *loader, uint64_t epoch)
{
    bg_error error = {0};
    assert_int_equal(bg_loader_begin_epoch(loader, epoch, &error), BG_OK);
}

static bg_batch next(bg_loader *loader)
{
    bg_batch batch = {0};
    bg_error error = {0};

    if (bg_loader_next(loader, &batch, &error) != BG_OK)
        fail_msg("%s", error.message);
    return batch;
}

/* Checks that a batch's images match its labels, appends the labels, and returns their number. */
static size_t append_labels(const bg_batch *batch, int32_t *labels)
{
    const uint8_t *images = batch->sample_count > 0 ? batch->tensors[0] : NULL;

    for (uint64_t i = 0; i < batch->sample_count; i++) {
        labels[i] = ((const int32_t *)batch->tensors[1])[i];
        for (int j = 0; j < PIXELS; j++)
            assert_int_equal(images[i * PIXELS + (uint64_t)j], (uint8_t)(labels[i] * 7 + j));
    }
    return batch->sample_count;
}

static size_t read_epoch(bg_loader *loader, uint64_t epoch, int32_t *labels)
{
    size_t count = 0;
    uint64_t position = 0;

    for (bg_batch batch = next(loader); batch.sample_count > 0; batch = next(loader)) {
        assert_int_equal(batch.position, position++);
        assert_int_equal(batch.epoch, epoch);
        count += append_labels(&batch, labels + count);
    }
    assert_int_equal(position, bg_loader_batch_count(loader));
    return count;
}

static void assert_permutation(const int32_t *labels, size_t count)
{
    char *seen = calloc(count, 1);

    for (size_t i = 0; i < count; i++) {
        assert_in_range(labels[i], 0, count - 1);
        assert_int_equal(seen[labels[i]]++, 0);
    }
    free(seen);
}

/* ---- order ---- */

static void test_order_is_the_same_for_any_worker_count(void **state)
{
    int32_t expected[4][SAMPLES], found[SAMPLES];
    bg_loader_options options = bg_loader_options_defaults();
    samples s;
    called c;
    (void)state;

    make_samples(&s, SAMPLES);
    options.batch_size = 10;
    options.shuffle = true;
    options.drop_last = false;
    options.seed = 42;
    for (int source = 0; source < 2; source++) {
        bg_dataset *dataset = source == 0 ? s.dataset : make_called(&c, SAMPLES);

        for (int i = 0; i < WORKER_COUNT_CASES; i++) {
            options.worker_count = worker_counts[i];
            bg_loader *loader = make_loader(dataset, &options);

            for (uint64_t epoch = 0; epoch < 4; epoch++) {
                begin(loader, epoch);
                assert_int_equal(read_epoch(loader, epoch, found), SAMPLES);
                assert_permutation(found, SAMPLES);
                if (source == 0 && i == 0)
                    memcpy(expected[epoch], found, sizeof found);
                assert_memory_equal(found, expected[epoch], sizeof found);
            }
            bg_loader_destroy(loader);
        }
        if (source == 1)
            bg_dataset_destroy(dataset);
    }
    for (int epoch = 1; epoch < 4; epoch++)
        assert_memory_not_equal(expected[0], expected[epoch], sizeof found);
    clear_samples(&s);
}

/* ---- parts of batches ---- */

/* Requests both tensors of even samples, and only the labels of odd samples that are multiples of 3. */
static uint32_t want_some(void *user, uint64_t sample)
{
    ++*(uint64_t *)user;
    return sample % 2 == 0 ? 3 : sample % 3 == 0 ? 2 : 0;
}

static uint32_t want_labels(void *user, uint64_t sample)
{
    (void)user, (void)sample;
    return 2;
}

/* Tensors that are not requested are not read; the order, and a smaller last batch, do not change. */
static void test_parts_of_batches(void **state)
{
    enum { BATCH = 20, PAGE_BYTES = 1 << 16 };
    samples s;
    uint64_t asked = 0;
    bg_loader_options options = bg_loader_options_defaults();
    const bg_type images = bg_tensor3(BG_UINT8, SAMPLES, 2, 3);
    bg_array hidden[2] = {{.type = images}};
    bg_dataset *dataset, *shuffled;
    bg_loader *loader, *whole;
    bg_batch batch, other;
    bg_error error = {0};

    (void)state;
    make_samples(&s, SAMPLES);
    options.batch_size = BATCH;
    options.worker_count = 0;
    options.drop_last = false;
    options.shuffle = true;
    assert_int_equal(bg_loader_create(s.dataset, &options, &loader, &error), BG_OK);
    assert_int_equal(bg_loader_create(s.dataset, &options, &whole, &error), BG_OK);
    bg_loader_want(loader, want_some, &asked);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, &error), BG_OK);
    assert_int_equal(bg_loader_begin_epoch(whole, 0, &error), BG_OK);
    for (int b = 0; b < SAMPLES / BATCH + 1; b++) {
        assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
        assert_int_equal(bg_loader_next(whole, &other, &error), BG_OK);
        assert_int_equal(batch.sample_count, other.sample_count);
        for (uint64_t i = 0; i < batch.sample_count; i++) {
            const uint32_t wanted = batch.sample_count == BATCH ? want_some(&asked, i) : 3;
            if ((wanted & 1) != 0)
                assert_memory_equal((const uint8_t *)batch.tensors[0] + i * PIXELS,
                                    (const uint8_t *)other.tensors[0] + i * PIXELS, PIXELS);
            if ((wanted & 2) != 0)
                assert_int_equal(((const int32_t *)batch.tensors[1])[i], ((const int32_t *)other.tensors[1])[i]);
        }
    }
    assert_true(asked > 0);
    bg_loader_want(loader, NULL, NULL);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, &error), BG_OK);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
    assert_int_equal(bg_loader_begin_epoch(whole, 0, &error), BG_OK);
    assert_int_equal(bg_loader_next(whole, &other, &error), BG_OK);
    assert_memory_equal(batch.tensors[0], other.tensors[0], BATCH * PIXELS);
    bg_loader_destroy(whole);
    bg_loader_destroy(loader);

    /* The images have no read permission. */
    hidden[0].data = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(hidden[0].data != MAP_FAILED);
    hidden[1] = s.labels;
    assert_int_equal(bg_dataset_create_arrays(hidden, 2, &dataset, &error), BG_OK);
    assert_int_equal(bg_dataset_shuffle(dataset, 10, 3, &shuffled, &error), BG_OK);
    assert_int_equal(bg_loader_create(shuffled, &options, &loader, &error), BG_OK);
    bg_loader_want(loader, want_labels, NULL);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, &error), BG_OK);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
    assert_int_equal(batch.sample_count, BATCH);
    bg_loader_destroy(loader);
    bg_dataset_destroy(shuffled);
    bg_dataset_destroy(dataset);
    munmap(hidden[0].data, PAGE_BYTES);
    clear_samples(&s);
}

static void test_seed_changes_the_order(void **state)
{
    int32_t a[SAMPLES], b[SAMPLES];
    bg_loader_options options = bg_loader_options_defaults();
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    options.shuffle = true;
    for (uint64_t seed = 0; seed < 2; seed++) {
        options.seed = seed;
        bg_loader *loader = make_loader(s.dataset, &options);
        begin(loader, 0);
        read_epoch(loader, 0, seed == 0 ? a : b);
        bg_loader_destroy(loader);
    }
    assert_memory_not_equal(a, b, sizeof a);
    clear_samples(&s);
}

static void test_without_shuffle_ascending(void **state)
{
    int32_t labels[SAMPLES];
    bg_loader_options options = bg_loader_options_defaults();
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    options.batch_size = 10;
    bg_loader *loader = make_loader(s.dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        begin(loader, epoch);
        assert_int_equal(read_epoch(loader, epoch, labels), 100);
        for (int i = 0; i < 100; i++)
            assert_int_equal(labels[i], i);
    }
    bg_loader_destroy(loader);
    clear_samples(&s);
}

/* ---- numbers of samples and batches ---- */

static void test_batch_counts(void **state)
{
    static const struct {
        uint64_t samples, batch;
        bool drop_last;
        uint64_t batches;
    } cases[] = {{60000, 4000, true, 15}, {10000, 800, true, 12}, {10000, 800, false, 13}, {100, 10, false, 10},
                 {101, 6, false, 17},     {100, 9, false, 12},    {5, 10, false, 1},       {10, 10, true, 1}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_loader_options options = bg_loader_options_defaults();
        called c;
        bg_dataset *dataset = make_called(&c, cases[i].samples);

        options.batch_size = cases[i].batch;
        options.drop_last = cases[i].drop_last;
        options.worker_count = 0;
        bg_loader *loader = make_loader(dataset, &options);
        assert_int_equal(bg_loader_batch_count(loader), cases[i].batches);
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
    }
}

static void test_last_batch_reports_its_size(void **state)
{
    bg_loader_options options = bg_loader_options_defaults();
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    options.batch_size = 40;
    options.drop_last = false;
    bg_loader *loader = make_loader(s.dataset, &options);
    begin(loader, 0);
    assert_int_equal(next(loader).sample_count, 40);
    assert_int_equal(next(loader).sample_count, 40);
    assert_int_equal(next(loader).sample_count, 23);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next(loader).sample_count, 0);
        assert_null(next(loader).tensors);
    }
    bg_loader_destroy(loader);
    clear_samples(&s);
}

/* ---- processes ---- */

/* The last batch of 103 samples in batches of 20 has 3 samples and is padded to 5, 10 or 20. */
static void test_last_batch_is_filled_up(void **state)
{
    const int32_t label = -100;
    const void *const pads[] = {NULL, &label};
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    for (int c = 0; c < WORKER_COUNT_CASES; c++)
        for (uint64_t multiple = 5; multiple <= 20; multiple *= 2) {
            bg_loader_options options = bg_loader_options_defaults();
            bg_loader *loader;
            bg_batch batch;
            bg_error error = {0};

            options.batch_size = 20;
            options.shuffle = true;
            options.drop_last = false;
            options.pad_multiple = multiple;
            options.pad_samples = pads;
            options.worker_count = worker_counts[c];
            loader = make_loader(s.dataset, &options);
            begin(loader, 1);
            for (uint64_t b = 0; b < 6; b++) {
                assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
                assert_int_equal(batch.valid_count, b < 5 ? 20 : 3);
                assert_int_equal(batch.sample_count, b < 5 ? 20 : multiple);
            }
            for (uint64_t i = 0; i < batch.sample_count; i++) {
                const int32_t got = ((const int32_t *)batch.tensors[1])[i];
                const uint8_t *image = (const uint8_t *)batch.tensors[0] + i * PIXELS;

                assert_true(i < 3 ? got >= 0 && got < SAMPLES : got == label);
                for (int j = 0; j < PIXELS; j++)
                    assert_int_equal(image[j], i < 3 ? (uint8_t)(got * 7 + j) : 0);
            }
            assert_int_equal(bg_loader_next(loader, &batch, &error), BG_OK);
            assert_int_equal(batch.sample_count, 0);
            bg_loader_destroy(loader);
        }
    clear_samples(&s);
}

static void test_processes_take_disjoint_parts(void **state)
{
    enum { PROCESSES = 3 };
    int32_t labels[SAMPLES];
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    for (int drop_last = 0; drop_last < 2; drop_last++) {
        size_t count = 0;

        for (uint32_t process = 0; process < PROCESSES; process++) {
            bg_loader_options options = bg_loader_options_defaults();
            options.batch_size = 4;
            options.shuffle = true;
            options.drop_last = drop_last;
            options.process_index = process;
            options.process_count = PROCESSES;
            bg_loader *loader = make_loader(s.dataset, &options);
            begin(loader, 5);
            count += read_epoch(loader, 5, labels + count);
            bg_loader_destroy(loader);
        }
        assert_int_equal(count, drop_last ? 96 : SAMPLES); /* 3 * 4 * floor(103 / 12) */
        char seen[SAMPLES] = {0};
        for (size_t i = 0; i < count; i++)
            assert_int_equal(seen[labels[i]]++, 0);
    }
    clear_samples(&s);
}

static void test_left_over_window_alternates(void **state)
{
    bgi_order order = {.sample_count = 103, .batch_size = 4, .process_count = 3, .drop_last = true};
    (void)state;

    assert_int_equal(bgi_order_part_of(&order, 0).start, 0);
    assert_int_equal(bgi_order_part_of(&order, 0).count, 32);
    assert_int_equal(bgi_order_part_of(&order, 1).start, 7);
    order.process_index = 2;
    assert_int_equal(bgi_order_part_of(&order, 0).start, 64);
    assert_int_equal(bgi_order_part_of(&order, 1).start + bgi_order_part_of(&order, 1).count, 103);
    assert_int_equal(bgi_order_part_of(&order, 2).start, 64);
    order.drop_last = false;
    assert_int_equal(bgi_order_part_of(&order, 1).start, 69);
    assert_int_equal(bgi_order_part_of(&order, 1).count, 34);
}

/* ---- restarts ---- */

static void test_restart_and_resume(void **state)
{
    int32_t whole[2][SAMPLES], found[SAMPLES];
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    for (int i = 0; i < WORKER_COUNT_CASES; i++) {
        bg_loader_options options = bg_loader_options_defaults();
        bg_error error = {0};
        bg_batch batch;

        options.batch_size = 10;
        options.shuffle = true;
        options.worker_count = worker_counts[i];
        bg_loader *loader = make_loader(s.dataset, &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            begin(loader, epoch);
            assert_int_equal(read_epoch(loader, epoch, whole[epoch]), 100);
        }
        /* Seeks back from the middle to the beginning, and continues. */
        begin(loader, 0);
        for (int n = 0; n < 3; n++)
            next(loader);
        begin(loader, 0);
        assert_int_equal(read_epoch(loader, 0, found), 100);
        assert_memory_equal(found, whole[0], 100 * sizeof found[0]);
        begin(loader, 1);
        assert_int_equal(read_epoch(loader, 1, found), 100);
        assert_memory_equal(found, whole[1], 100 * sizeof found[0]);
        /* Seeks to the middle, to the end, and beyond it. */
        assert_int_equal(bg_loader_begin_at(loader, 1, 7, &error), BG_OK);
        batch = next(loader);
        assert_int_equal(batch.position, 7);
        append_labels(&batch, found);
        assert_memory_equal(found, whole[1] + 70, 10 * sizeof found[0]);
        assert_int_equal(bg_loader_begin_at(loader, 0, 10, &error), BG_OK);
        assert_int_equal(next(loader).sample_count, 0);
        begin(loader, 1);
        assert_int_equal(read_epoch(loader, 1, found), 100);
        assert_memory_equal(found, whole[1], 100 * sizeof found[0]);
        assert_int_equal(bg_loader_begin_at(loader, 0, 11, &error), BG_ERROR_INVALID);
        bg_loader_destroy(loader);
    }
    clear_samples(&s);
}

/* With one batch per epoch the ring spans several epochs. */
static void test_prefetch_crosses_epochs(void **state)
{
    called c;
    bg_dataset *dataset = make_called(&c, 5);
    bg_loader_options options = bg_loader_options_defaults();
    int32_t labels[5];
    (void)state;

    options.batch_size = 5;
    options.shuffle = true;
    options.prefetch_depth = 3;
    bg_loader *loader = make_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        begin(loader, epoch);
        assert_int_equal(read_epoch(loader, epoch, labels), 5);
        assert_permutation(labels, 5);
    }
    bg_loader_destroy(loader);
    /* begin_epoch kept prepared batches: no batch was made twice, and at most one ring of batches was made beyond those
     * used. */
    assert_in_range(c.calls, 100, 100 + 4 * 5);
    bg_dataset_destroy(dataset);
}

static uint64_t count_calls(called *c)
{
    uint64_t calls;

    pthread_mutex_lock(&c->mutex);
    calls = c->calls;
    pthread_mutex_unlock(&c->mutex);
    return calls;
}

static void test_back_pressure(void **state)
{
    called c;
    bg_dataset *dataset = make_called(&c, 1000);
    bg_loader_options options = bg_loader_options_defaults();
    (void)state;

    options.batch_size = 10;
    options.worker_count = 2;
    bg_loader *loader = make_loader(dataset, &options);
    begin(loader, 0);
    next(loader);
    /* The loader makes the batch in use and three ahead; this may take a while on a busy machine, but no more batches
     * must be made. */
    for (int i = 0; i < 10000 && count_calls(&c) < 40; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(count_calls(&c), 40);
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
}

static void test_batch_stays_until_the_next_call(void **state)
{
    samples s;
    bg_loader_options options = bg_loader_options_defaults();
    int32_t labels[10], again[10];
    (void)state;

    make_samples(&s, SAMPLES);
    options.batch_size = 10;
    options.shuffle = true;
    options.worker_count = 2;
    bg_loader *loader = make_loader(s.dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        begin(loader, epoch);
        for (bg_batch batch = next(loader); batch.sample_count > 0; batch = next(loader)) {
            append_labels(&batch, labels);
            nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
            append_labels(&batch, again);
            assert_memory_equal(labels, again, sizeof labels);
        }
    }
    bg_loader_destroy(loader);
    clear_samples(&s);
}

/* ---- ends and failures ---- */

static void test_early_destroy(void **state)
{
    called c;
    (void)state;

    for (int i = 0; i < WORKER_COUNT_CASES; i++)
        for (int used = -1; used < 4; used++) {
            bg_dataset *dataset = make_called(&c, SAMPLES);
            bg_loader_options options = bg_loader_options_defaults();

            c.sleep_ns = 50000;
            options.batch_size = 10;
            options.worker_count = worker_counts[i];
            bg_loader *loader = make_loader(dataset, &options);
            if (used >= 0)
                begin(loader, 0);
            for (int n = 0; n < used; n++)
                next(loader);
            bg_loader_destroy(loader);
            if (used < 0)
                assert_int_equal(c.calls, 0); /* a loader that never began has no threads */
            bg_dataset_destroy(dataset);
        }
    bg_loader_destroy(NULL);
    bg_dataset_destroy(NULL);
}

static void test_callback_failure_reaches_the_consumer(void **state)
{
    called c;
    (void)state;

    for (int i = 0; i < WORKER_COUNT_CASES; i++) {
        bg_dataset *dataset = make_called(&c, SAMPLES);
        bg_loader_options options = bg_loader_options_defaults();
        bg_error error = {0};
        bg_batch batch;
        int32_t labels[SAMPLES];

        c.fail_at = 25;
        options.batch_size = 10;
        options.worker_count = worker_counts[i];
        bg_loader *loader = make_loader(dataset, &options);
        begin(loader, 0);
        next(loader);
        next(loader);
        for (int n = 0; n < 2; n++) { /* the next request fails too */
            bg_error_clear(&error);
            assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_IO);
            assert_string_equal(error.message, "loader: epoch 0, batch 2: sample 25: the disk is gone");
        }
        /* After the failure is repaired the same epoch can be begun again; the mutex makes the change visible to the
         * workers. */
        pthread_mutex_lock(&c.mutex);
        c.fail_at = -1;
        pthread_mutex_unlock(&c.mutex);
        begin(loader, 0);
        assert_int_equal(read_epoch(loader, 0, labels), 100);
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
    }
}

static void test_lowest_failing_sample_is_reported(void **state)
{
    (void)state;

    for (int i = 0; i < WORKER_COUNT_CASES; i++) {
        called c;
        bg_dataset *dataset = make_called(&c, 100);
        bg_loader_options options = bg_loader_options_defaults();
        bg_error error = {0};
        bg_batch batch;

        c.fail_at = 3;
        options.batch_size = 100;
        options.worker_count = worker_counts[i];
        bg_loader *loader = make_loader(dataset, &options);
        begin(loader, 0);
        assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_IO);
        assert_non_null(strstr(error.message, "sample 3:"));
        assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_ERROR_IO);
        bg_loader_destroy(loader);
        bg_dataset_destroy(dataset);
    }
}

static void assert_refused(const bg_dataset *dataset, const bg_loader_options *options, const char *text)
{
    bg_loader *loader = NULL;
    bg_error error = {0};

    assert_int_equal(bg_loader_create(dataset, options, &loader, &error), BG_ERROR_INVALID);
    assert_null(loader);
    if (strstr(error.message, text) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error.message, text);
}

static void test_bad_options(void **state)
{
    const bg_loader_options good = bg_loader_options_defaults();
    bg_loader_options options;
    bg_error error = {0};
    bg_batch batch;
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    options = good;
    options.batch_size = 0;
    assert_refused(s.dataset, &options, "the batch size is 0");
    options = good;
    options.batch_size = SAMPLES + 1;
    assert_refused(s.dataset, &options, "103 samples do not make one whole batch of 104");
    options = good;
    options.prefetch_depth = 0;
    assert_refused(s.dataset, &options, "the prefetch depth is 0");
    options = good;
    options.worker_count = 100000;
    assert_refused(s.dataset, &options, "worker_count is 100000");
    options = good;
    options.process_index = 1;
    assert_refused(s.dataset, &options, "process_index is 1 of 1");
    options = good;
    options.drop_last = false;
    options.process_count = SAMPLES + 1;
    assert_refused(s.dataset, &options, "too few");
    options = good;
    options.pad_multiple = 1;
    assert_refused(s.dataset, &options, "set only one of them");
    options.drop_last = false;
    options.batch_size = 20;
    options.pad_multiple = 8;
    assert_refused(s.dataset, &options, "pad_multiple is 8 but must divide the batch size, 20");
    bg_loader *loader = make_loader(s.dataset, &good);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "no epoch has begun; call bg_loader_begin_epoch"));
    bg_loader_destroy(loader);
    clear_samples(&s);
}

static void test_bad_datasets(void **state)
{
    uint8_t byte = 0;
    bg_array scalar = {.type = bg_scalar(BG_UINT8), .data = &byte};
    bg_array one = {.type = bg_vector(BG_UINT8, 1), .data = &byte}, two = one, empty = {0};
    bg_dataset *dataset = NULL;
    bg_dataset_options options = {.sample_count = 0};
    bg_error error = {0};
    (void)state;

    two.type.dims[0] = 2;
    assert_int_equal(bg_dataset_create_arrays(&scalar, 1, &dataset, &error), BG_ERROR_SHAPE);
    bg_error_clear(&error);
    assert_int_equal(bg_dataset_create_arrays((bg_array[]){one, two}, 2, &dataset, &error), BG_ERROR_SHAPE);
    assert_string_equal(error.message,
                        "data set: array 1: has 2 samples, but array 0 has 1; all arrays must have the same number");
    bg_error_clear(&error);
    assert_int_equal(bg_dataset_create_arrays(&empty, 1, &dataset, &error), BG_ERROR_SHAPE);
    assert_int_equal(bg_dataset_create_arrays(NULL, 0, &dataset, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_create(&options, &dataset, NULL), BG_ERROR_INVALID);
    options.sample_count = (uint64_t)1 << 32;
    options.tensor_count = 1;
    assert_int_equal(bg_dataset_create(&options, &dataset, NULL), BG_ERROR_INVALID);
    options.sample_count = 1;
    assert_int_equal(bg_dataset_create(&options, &dataset, NULL), BG_ERROR_INVALID); /* no callback */
    assert_null(dataset);
}

static void test_statistics(void **state)
{
    samples s;
    bg_loader_options options = bg_loader_options_defaults();
    int32_t labels[SAMPLES];
    (void)state;

    make_samples(&s, SAMPLES);
    options.worker_count = 0;
    bg_loader *loader = make_loader(s.dataset, &options);
    begin(loader, 0);
    read_epoch(loader, 0, labels);
    assert_int_equal(bg_loader_statistics_of(loader).batch_count, SAMPLES);
    assert_int_equal(bg_loader_statistics_of(loader).miss_count, SAMPLES); /* each batch was made on request */
    bg_loader_destroy(loader);
    clear_samples(&s);
}

static void test_no_allocation_after_creation(void **state)
{
    samples s;
    int32_t labels[SAMPLES];
    (void)state;

    if (!test_allocations_available())
        skip();
    make_samples(&s, SAMPLES);
    for (int i = 0; i < WORKER_COUNT_CASES; i++) {
        bg_loader_options options = bg_loader_options_defaults();
        options.batch_size = 10;
        options.shuffle = true;
        options.worker_count = worker_counts[i];
        bg_loader *loader = make_loader(s.dataset, &options);
        begin(loader, 0);
        next(loader); /* the workers have started */
        const uint64_t before = test_allocations_count();
        for (uint64_t epoch = 1; epoch < 5; epoch++) {
            begin(loader, epoch);
            read_epoch(loader, epoch, labels);
        }
        assert_int_equal(test_allocations_count(), before);
        bg_loader_destroy(loader);
    }
    clear_samples(&s);
}

static void test_creation_without_memory(void **state)
{
    samples s;
    bg_loader_options options = bg_loader_options_defaults();
    bg_status status = BG_ERROR_MEMORY;
    (void)state;

    if (!test_allocations_available())
        skip();
    make_samples(&s, SAMPLES);
    options.batch_size = 10;
    options.worker_count = 0; /* starting a thread takes memory too, but glibc keeps it for the next one */
    const int64_t live = test_allocations_live();
    for (uint64_t n = 1; status != BG_OK; n++) {
        bg_loader *loader = NULL;
        bg_error error = {0};

        test_allocations_fail(n);
        status = bg_loader_create(s.dataset, &options, &loader, &error);
        if (status == BG_OK) {
            assert_false(test_allocations_have_failed());
            assert_true(n > 5);
        } else {
            assert_int_equal(status, BG_ERROR_MEMORY);
            assert_null(loader);
        }
        test_allocations_fail(0);
        bg_loader_destroy(loader);
        assert_int_equal(test_allocations_live(), live);
    }
    clear_samples(&s);
}

/* ---- helpers ---- */

/* Helps the loader until this thread has copied something; returns false if that takes too long. */
static bool help_once(bg_loader *loader)
{
    for (int try = 0; try < 20000; try++) {
        if (bg_loader_help(loader))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return false;
}

static void test_workers_leave_copying_to_helpers(void **state)
{
    bg_loader_options options = bg_loader_options_defaults();
    int32_t labels[SAMPLES];
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    options.batch_size = 10;
    options.prefetch_depth = 4;
    for (uint32_t workers = 1; workers < 3; workers++) {
        options.worker_count = workers;
        bg_loader *loader = make_loader(s.dataset, &options);

        assert_false(bg_loader_help(loader)); /* no epoch has begun, but from now on there are helpers */
        begin(loader, 0);
        for (uint64_t batch = 0; batch < 8; batch++) {
            assert_int_equal(next(loader).position, batch);
            assert_true(help_once(loader)); /* two batches are ready, and no other thread copies the third */
        }
        begin(loader, 1);
        assert_int_equal(read_epoch(loader, 1, labels), SAMPLES / 10 * 10);
        bg_loader_destroy(loader);
    }
    clear_samples(&s);
}

static void test_nothing_to_help_with(void **state)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_dataset *dataset;
    bg_loader *loader;
    samples s;
    called c;
    (void)state;

    make_samples(&s, SAMPLES);
    options.worker_count = 0;
    loader = make_loader(s.dataset, &options);
    begin(loader, 0);
    next(loader);
    assert_false(bg_loader_help(loader));
    bg_loader_destroy(loader);
    options.worker_count = 1;
    dataset = make_called(&c, SAMPLES);
    loader = make_loader(dataset, &options);
    begin(loader, 0);
    for (int batch = 0; batch < 50; batch++) {
        next(loader);
        assert_false(bg_loader_help(loader)); /* only the loader's threads call the callback */
    }
    bg_loader_destroy(loader);
    bg_dataset_destroy(dataset);
    clear_samples(&s);
}

typedef struct helper {
    pthread_t thread;
    bg_loader *loader;
    atomic_bool is_ending;
} helper;

static void *help_all_the_time(void *argument)
{
    helper *h = argument;

    while (!atomic_load(&h->is_ending))
        bg_loader_help(h->loader);
    return NULL;
}

static void start_helper(helper *h, bg_loader *loader)
{
    h->loader = loader;
    atomic_init(&h->is_ending, false);
    assert_int_equal(pthread_create(&h->thread, NULL, help_all_the_time, h), 0);
}

static void end_helper(helper *h)
{
    atomic_store(&h->is_ending, true);
    pthread_join(h->thread, NULL);
}

/* ---- threads and memory of the caller ---- */

typedef struct loan {
    void (*function)(void *argument);
    void *argument;
} loan;

typedef struct loans {
    pthread_t threads[4];
    loan work[4];
    uint32_t begun, limit;
    size_t taken, returned, taken_bytes, returned_bytes;
} loans;

static void *run_loan(void *user)
{
    const loan *l = user;

    l->function(l->argument);
    return NULL;
}

static bool lend_thread(void *user, void (*function)(void *argument), void *argument)
{
    loans *l = user;

    if (l->begun == l->limit)
        return false;
    l->work[l->begun] = (loan){function, argument};
    if (pthread_create(&l->threads[l->begun], NULL, run_loan, &l->work[l->begun]) != 0)
        return false;
    l->begun++;
    return true;
}

static void *lend_memory(void *user, size_t alignment, size_t size_bytes)
{
    loans *l = user;
    void *memory = NULL;

    if (posix_memalign(&memory, alignment, size_bytes) != 0)
        return NULL;
    memset(memory, 0x5a, size_bytes);
    l->taken++;
    l->taken_bytes += size_bytes;
    return memory;
}

static void take_memory(void *user, void *memory, size_t size_bytes)
{
    loans *l = user;

    l->returned++;
    l->returned_bytes += size_bytes;
    free(memory);
}

static void expect_all_back(const loans *l)
{
    assert_true(l->taken > 0);
    assert_int_equal(l->returned, l->taken);
    assert_int_equal(l->returned_bytes, l->taken_bytes);
}

/* Tests a data set and, with `streamed`, a stream. */
static void borrow_all(bool streamed)
{
    loans l = {.limit = 2};
    bg_loader_options options = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_sample_stream stream;
    bg_error error = {0};
    samples s;
    uint64_t count = 0;

    make_samples(&s, SAMPLES);
    stream = bg_dataset_stream(s.dataset);
    options.batch_size = 10;
    options.drop_last = false;
    options.worker_count = 2;
    options.start_thread = lend_thread;
    options.start_thread_user = &l;
    options.allocator = (bg_allocator){lend_memory, take_memory, &l};
    assert_int_equal(streamed ? bg_loader_create_stream(&stream, &options, &loader, &error)
                              : bg_loader_create(s.dataset, &options, &loader, &error),
                     BG_OK);
    assert_int_equal(l.begun, 2);
    begin(loader, 0);
    for (bg_batch batch = next(loader); batch.sample_count > 0; batch = next(loader))
        count += batch.sample_count;
    assert_int_equal(count, SAMPLES);
    bg_loader_destroy(loader); /* waits for the functions on the lent threads */
    for (int i = 0; i < 2; i++)
        pthread_join(l.threads[i], NULL);
    expect_all_back(&l);

    l = (loans){.limit = 1};
    assert_int_equal(streamed ? bg_loader_create_stream(&stream, &options, &loader, &error)
                              : bg_loader_create(s.dataset, &options, &loader, &error),
                     BG_ERROR_IO);
    assert_non_null(strstr(error.message, "cannot start worker 1 of 2: start_thread refused it"));
    pthread_join(l.threads[0], NULL);
    expect_all_back(&l);
    options.allocator.release = NULL;
    assert_int_equal(bg_loader_create(s.dataset, &options, &loader, &error), BG_ERROR_INVALID);
    clear_samples(&s);
}

static void test_threads_and_memory_of_the_caller(void **state)
{
    (void)state;
    borrow_all(false);
    borrow_all(true);
}

/* Runs random sequences of all operations of a consumer, some with helpers, and compares each with a loader without
 * threads. */
static void test_random_walks(void **state)
{
    const int walks = getenv("BRIGADE_TEST_ALL") != NULL ? 400 : 40;
    samples s;
    (void)state;

    make_samples(&s, SAMPLES);
    for (int walk = 0; walk < walks; walk++) {
        bgi_random random = bgi_random_make(99, (uint64_t)walk);
        bg_loader_options options = bg_loader_options_defaults();
        const uint32_t helper_count = (uint32_t)walk % 3;
        int32_t a[SAMPLES], b[SAMPLES];
        helper helpers[2];

        options.batch_size = 1 + bgi_random_below(&random, 50);
        options.shuffle = bgi_random_below(&random, 2);
        options.drop_last = bgi_random_below(&random, 2);
        options.prefetch_depth = 1 + bgi_random_below(&random, 4);
        options.worker_count = 1 + bgi_random_below(&random, 4);
        bg_loader *fast = make_loader(s.dataset, &options);
        options.worker_count = 0;
        bg_loader *plain = make_loader(s.dataset, &options);
        for (uint32_t i = 0; i < helper_count; i++)
            start_helper(&helpers[i], fast);
        begin(fast, 0);
        begin(plain, 0);
        for (int step = 0; step < 60; step++) {
            if (bgi_random_below(&random, 8) == 0) {
                const uint64_t epoch = bgi_random_below(&random, 4);
                begin(fast, epoch);
                begin(plain, epoch);
            }
            const bg_batch x = next(fast), y = next(plain);
            assert_int_equal(x.sample_count, y.sample_count);
            assert_int_equal(x.position, y.position);
            assert_int_equal(x.epoch, y.epoch);
            append_labels(&x, a);
            append_labels(&y, b);
            assert_memory_equal(a, b, x.sample_count * sizeof a[0]);
        }
        for (uint32_t i = 0; i < helper_count; i++)
            end_helper(&helpers[i]);
        bg_loader_destroy(fast);
        bg_loader_destroy(plain);
    }
    clear_samples(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_the_same_for_any_worker_count),
        cmocka_unit_test(test_seed_changes_the_order),
        cmocka_unit_test(test_parts_of_batches),
        cmocka_unit_test(test_without_shuffle_ascending),
        cmocka_unit_test(test_batch_counts),
        cmocka_unit_test(test_last_batch_reports_its_size),
        cmocka_unit_test(test_last_batch_is_filled_up),
        cmocka_unit_test(test_processes_take_disjoint_parts),
        cmocka_unit_test(test_left_over_window_alternates),
        cmocka_unit_test(test_restart_and_resume),
        cmocka_unit_test(test_prefetch_crosses_epochs),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_batch_stays_until_the_next_call),
        cmocka_unit_test(test_early_destroy),
        cmocka_unit_test(test_callback_failure_reaches_the_consumer),
        cmocka_unit_test(test_lowest_failing_sample_is_reported),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_bad_datasets),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_no_allocation_after_creation),
        cmocka_unit_test(test_creation_without_memory),
        cmocka_unit_test(test_workers_leave_copying_to_helpers),
        cmocka_unit_test(test_nothing_to_help_with),
        cmocka_unit_test(test_threads_and_memory_of_the_caller),
        cmocka_unit_test(test_random_walks),
    };
    return cmocka_run_group_tests_name("data/loader", tests, NULL, NULL);
}
