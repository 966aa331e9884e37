/*
 * Data sets made from data sets. Single and randomly composed views and maps are compared with their definitions.
 * Results do not depend on the number of workers or on where reading resumes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/random.h"
#include "support/allocations.h"

#include <brigade/data.h>

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 101 };

/* Writes a sample, which contains (epoch, index). */
static bg_status get_place(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    if (user != NULL && atomic_fetch_add((_Atomic uint64_t *)user, 1) == UINT64_MAX)
        return bg_error_set(error, BG_ERROR_INTERNAL, "too many calls");
    ((int32_t *)outputs[0])[0] = (int32_t)epoch;
    ((int32_t *)outputs[0])[1] = (int32_t)index;
    return BG_OK;
}

static bg_dataset *make_places(uint64_t count, _Atomic uint64_t *calls)
{
    const bg_type type = bg_vector(BG_INT32, 2);
    bg_dataset *dataset = NULL;

    assert_int_equal(
        bg_dataset_create(
            &(bg_dataset_options){
                .sample_count = count, .tensor_count = 1, .sample_types = &type, .get = get_place, .user = calls},
            &dataset, NULL),
        BG_OK);
    return dataset;
}

/* Reads one epoch in order into `pairs`: the epoch of sample i at 2 * i, its index at 2 * i + 1. Returns the number of
 * samples. */
static uint64_t read_epoch(bg_dataset *dataset, uint64_t epoch, uint32_t workers, int32_t *pairs)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_error error = {0};
    bg_batch batch;
    uint64_t count = 0;

    options.batch_size = 7;
    options.drop_last = false;
    options.worker_count = workers;
    if (bg_loader_create(dataset, &options, &loader, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_loader_begin_epoch(loader, epoch, &error), BG_OK);
    while (bg_loader_next(loader, &batch, &error) == BG_OK && batch.sample_count > 0) {
        memcpy(pairs + 2 * count, batch.tensors[0], batch.sample_count * 2 * sizeof *pairs);
        count += batch.sample_count;
    }
    assert_string_equal(error.message, "");
    bg_loader_destroy(loader);
    return count;
}

static void test_stretches(void **state)
{
    static const struct {
        int kind;
        uint32_t a, b;
        uint64_t count;
        int32_t first, second;
    } cases[] = {{0, 5, 0, 5, 0, 1},  {0, 500, 0, 101, 0, 1}, {1, 100, 0, 1, 100, -1}, {1, 3, 0, 98, 3, 4},
                 {2, 0, 7, 15, 0, 7}, {2, 6, 7, 14, 6, 13},   {2, 0, 1, 101, 0, 1},    {2, 100, 101, 1, 100, -1}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t pairs[2 * SAMPLES];
        bg_dataset *source = make_places(SAMPLES, NULL), *view = NULL;
        bg_status status = cases[i].kind == 0   ? bg_dataset_take(source, cases[i].a, &view, NULL)
                           : cases[i].kind == 1 ? bg_dataset_skip(source, cases[i].a, &view, NULL)
                                                : bg_dataset_shard(source, cases[i].a, cases[i].b, &view, NULL);

        assert_int_equal(status, BG_OK);
        bg_dataset_destroy(source); /* the view holds it */
        assert_int_equal(bg_dataset_sample_count(view), cases[i].count);
        assert_int_equal(read_epoch(view, 3, 0, pairs), cases[i].count);
        assert_int_equal(pairs[0], 3);
        assert_int_equal(pairs[1], cases[i].first);
        if (cases[i].second >= 0)
            assert_int_equal(pairs[3], cases[i].second);
        bg_dataset_destroy(view);
    }
}

static void test_shards_are_disjoint_and_whole(void **state)
{
    bg_dataset *source = make_places(SAMPLES, NULL);
    int seen[SAMPLES] = {0};
    (void)state;

    for (uint32_t s = 0; s < 8; s++) {
        int32_t pairs[2 * SAMPLES];
        bg_dataset *shard = NULL;
        uint64_t count;

        assert_int_equal(bg_dataset_shard(source, s, 8, &shard, NULL), BG_OK);
        count = read_epoch(shard, 0, 0, pairs);
        for (uint64_t i = 0; i < count; i++)
            seen[pairs[2 * i + 1]]++;
        bg_dataset_destroy(shard);
    }
    for (int i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[i], 1);
    bg_dataset_destroy(source);
}

/* Each repetition is a separate epoch of the source, so a shuffle of the source differs in each repetition. */
static void test_repeat(void **state)
{
    int32_t pairs[2 * 3 * SAMPLES];
    bg_dataset *source = make_places(SAMPLES, NULL), *shuffled = NULL, *repeated = NULL;
    (void)state;

    assert_int_equal(bg_dataset_shuffle(source, 0, 5, &shuffled, NULL), BG_OK);
    assert_int_equal(bg_dataset_repeat(shuffled, 3, &repeated, NULL), BG_OK);
    assert_int_equal(read_epoch(repeated, 2, 2, pairs), 3 * SAMPLES);
    for (int round = 0; round < 3; round++) {
        int32_t alone[2 * SAMPLES];

        assert_int_equal(read_epoch(shuffled, 6 + (uint64_t)round, 0, alone), SAMPLES);
        assert_memory_equal(pairs + 2 * SAMPLES * round, alone, sizeof alone);
    }
    assert_memory_not_equal(pairs + 1, pairs + 2 * SAMPLES + 1, 40);
    bg_dataset_destroy(repeated);
    bg_dataset_destroy(shuffled);
    bg_dataset_destroy(source);
}

static void test_shuffle_by_buffer(void **state)
{
    static const uint64_t buffers[] = {1, 2, 10, SAMPLES - 1, SAMPLES, 0};
    (void)state;

    for (size_t b = 0; b < sizeof buffers / sizeof buffers[0]; b++) {
        bg_dataset *source = make_places(SAMPLES, NULL), *shuffled = NULL;
        int32_t pairs[2 * SAMPLES], again[2 * SAMPLES], next[2 * SAMPLES];
        int seen[SAMPLES] = {0}, moved = 0;

        assert_int_equal(bg_dataset_shuffle(source, buffers[b], 11, &shuffled, NULL), BG_OK);
        assert_int_equal(read_epoch(shuffled, 4, 0, pairs), SAMPLES);
        assert_int_equal(read_epoch(shuffled, 5, 8, next), SAMPLES);
        assert_int_equal(read_epoch(shuffled, 4, 8, again), SAMPLES);
        assert_memory_equal(pairs, again, sizeof pairs);
        for (int i = 0; i < SAMPLES; i++) {
            const int32_t index = pairs[2 * i + 1];

            assert_int_equal(seen[index]++, 0);
            moved += index != i;
            if (buffers[b] > 0) /* a sample cannot be drawn before it is in the buffer */
                assert_true(index < i + (int)buffers[b]);
        }
        if (buffers[b] == 1)
            assert_int_equal(moved, 0);
        else
            assert_true(moved > SAMPLES / 4);
        if (buffers[b] > 1 && buffers[b] < SAMPLES) {
            int furthest = 0; /* the largest number of positions that a sample moved forward; samples are drawn from the
                                 whole buffer */
            for (int i = 0; i < SAMPLES; i++)
                furthest = pairs[2 * i + 1] - i > furthest ? pairs[2 * i + 1] - i : furthest;
            if (buffers[b] <= 10)
                assert_int_equal(furthest, buffers[b] - 1);
        }
        if (buffers[b] != 1)
            for (int i = 0, same = 0; i < SAMPLES; i++) {
                same += pairs[2 * i + 1] == next[2 * i + 1];
                assert_true(same < 3 * SAMPLES / 4);
            }
        bg_dataset_destroy(shuffled);
        bg_dataset_destroy(source);
    }
}

static bg_status get_pair_again(void *user, uint64_t epoch, uint64_t index, const void *const inputs[],
                                void *const outputs[], bg_error *error)
{
    const int32_t *in = inputs[0];
    (void)user, (void)error;

    ((int32_t *)outputs[0])[0] = in[0] * 31 + (int32_t)epoch;
    ((int32_t *)outputs[0])[1] = in[1] * 7 + (int32_t)index;
    return BG_OK;
}

static bg_status add_up(void *user, uint64_t epoch, uint64_t index, const void *const inputs[], void *const outputs[],
                        bg_error *error)
{
    const int32_t *in = inputs[0];
    const int64_t *fail_at = user;

    if (fail_at != NULL && (int64_t)index == *fail_at)
        return bg_error_set(error, BG_ERROR_IO, "cannot");
    ((int32_t *)outputs[0])[0] = in[0] + 1000 * (int32_t)epoch;
    ((int32_t *)outputs[0])[1] = in[1] * 2;
    *(double *)outputs[1] = (double)in[1] / 2;
    return BG_OK;
}

static void test_map_changes_types(void **state)
{
    const bg_type types[] = {bg_vector(BG_INT32, 2), bg_scalar(BG_FLOAT64)};
    int64_t fail_at = -1;
    const bg_dataset_map_options options = {.tensor_count = 2, .sample_types = types, .map = add_up, .user = &fail_at};
    bg_dataset *source = make_places(SAMPLES, NULL), *skipped = NULL, *mapped = NULL, *view = NULL;
    int32_t pairs[2 * SAMPLES];
    (void)state;

    assert_int_equal(bg_dataset_skip(source, 1, &skipped, NULL), BG_OK);
    assert_int_equal(bg_dataset_map(skipped, &options, &mapped, NULL), BG_OK);
    assert_int_equal(bg_dataset_take(mapped, 50, &view, NULL), BG_OK);
    bg_dataset_destroy(source);
    bg_dataset_destroy(skipped);
    assert_int_equal(bg_dataset_tensor_count(mapped), 2);
    assert_int_equal(bg_dataset_sample_type(view, 1)->dtype, BG_FLOAT64);
    for (uint32_t workers = 0; workers < 3; workers++) {
        assert_int_equal(read_epoch(view, 2, workers, pairs), 50);
        for (int i = 0; i < 50; i++) {
            assert_int_equal(pairs[2 * i], 2002);
            assert_int_equal(pairs[2 * i + 1], 2 * (i + 1));
        }
    }
    bg_loader *loader = NULL;
    bg_loader_options lazy = bg_loader_options_defaults();
    bg_batch batch;
    bg_error error = {0};
    fail_at = 13;
    lazy.batch_size = 50;
    assert_int_equal(bg_loader_create(view, &lazy, &loader, &error), BG_OK);
    assert_int_equal(bg_loader_begin_epoch(loader, 0, &error), BG_OK);
    assert_int_equal(bg_loader_next(loader, &batch, &error), BG_ERROR_IO);
    assert_string_equal(error.message, "loader: epoch 0, batch 0: map: sample 13: cannot");
    bg_loader_destroy(loader);
    bg_dataset_destroy(view);
    bg_dataset_destroy(mapped);
}

static void test_cache_asks_once(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 9; workers += 4) {
        _Atomic uint64_t calls = 0;
        bg_dataset *source = make_places(SAMPLES, &calls), *cached = NULL;
        int32_t first[2 * SAMPLES], later[2 * SAMPLES];

        assert_int_equal(bg_dataset_cache(source, &cached, NULL), BG_OK);
        bg_dataset_destroy(source);
        assert_int_equal(read_epoch(cached, 0, 0, first), SAMPLES);
        assert_int_equal(calls, SAMPLES);
        for (uint64_t epoch = 1; epoch < 4; epoch++) {
            assert_int_equal(read_epoch(cached, epoch, workers, later), SAMPLES);
            assert_memory_equal(first, later, sizeof first);
        }
        assert_int_equal(calls, SAMPLES);
        bg_dataset_destroy(cached);
    }
}

static void test_normalize_has_torchvision_bits(void **state)
{
    uint8_t pixels[4 * 2 * 3];
    bg_array array = {.type = bg_tensor3(BG_UINT8, 4, 2, 3), .data = pixels};
    const float means[] = {0.1307F, 0.5F}, deviations[] = {0.3081F, 0.25F};
    bg_dataset *source = NULL, *view = NULL, *flat = NULL, *planes = NULL;
    bg_loader_options options = bg_loader_options_defaults();
    (void)state;

    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 11);
    assert_int_equal(bg_dataset_create_arrays(&array, 1, &source, NULL), BG_OK);
    assert_int_equal(bg_dataset_skip(source, 1, &view, NULL), BG_OK);
    options.batch_size = 3;
    for (uint32_t channels = 1; channels <= 2; channels++) {
        const bg_normalize_options normalize = {.channel_count = channels, .means = means, .deviations = deviations};
        bg_loader *loader = NULL;
        bg_batch batch;

        assert_int_equal(bg_dataset_normalize(view, &normalize, channels == 1 ? &flat : &planes, NULL), BG_OK);
        assert_int_equal(bg_loader_create(channels == 1 ? flat : planes, &options, &loader, NULL), BG_OK);
        assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
        assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
        for (size_t i = 0; i < 18; i++) {
            const size_t c = channels == 1 ? 0 : i / 3 % 2;
            const float scaled = (float)pixels[6 + i] / 255.0F, centered = scaled - means[c];
            const float expected = centered / deviations[c];

            assert_memory_equal((const float *)batch.tensors[0] + i, &expected, sizeof expected);
        }
        bg_loader_destroy(loader);
    }
    bg_dataset_destroy(planes);
    bg_dataset_destroy(flat);
    bg_dataset_destroy(view);
    bg_dataset_destroy(source);
}

/* Random chains are read completely without workers, then from random points on with workers. */
static void test_random_chains_resume_anywhere(void **state)
{
    const int chains = getenv("BRIGADE_TEST_ALL") != NULL ? 500 : getenv("BRIGADE_TEST_QUICK") != NULL ? 15 : 60;
    static const uint32_t workers[] = {0, 1, 2, 8};
    (void)state;

    for (int chain = 0; chain < chains; chain++) {
        bgi_random random = bgi_random_make(4242, (uint64_t)chain);
        bg_dataset *dataset = make_places(SAMPLES, NULL);
        bg_loader_options options = bg_loader_options_defaults();
        const uint64_t epoch = bgi_random_below(&random, 5);
        static int32_t whole[2 * SAMPLES * 64];
        uint64_t count;

        for (int step = 0; step < 4; step++) {
            bg_dataset *made = NULL;
            const uint32_t kind = bgi_random_below(&random, 6), n = 1 + bgi_random_below(&random, 30);
            const uint64_t samples = bg_dataset_sample_count(dataset);
            bg_status status;

            if (kind == 0)
                status = bg_dataset_take(dataset, samples - samples / (n + 1), &made, NULL);
            else if (kind == 1)
                status = bg_dataset_skip(dataset, samples / (n + 3), &made, NULL);
            else if (kind == 2)
                status = bg_dataset_shard(dataset, 0, 1 + n % 2, &made, NULL);
            else if (kind == 3)
                status = bg_dataset_repeat(dataset, 1 + n % 2, &made, NULL);
            else if (kind == 4)
                status = bg_dataset_shuffle(dataset, n, n, &made, NULL);
            else
                status = bg_dataset_map(dataset, &(bg_dataset_map_options){.map = get_pair_again}, &made, NULL);
            assert_int_equal(status, BG_OK);
            bg_dataset_destroy(dataset);
            dataset = made;
        }
        count = read_epoch(dataset, epoch, 0, whole);
        assert_int_equal(count, bg_dataset_sample_count(dataset));
        options.batch_size = 1 + bgi_random_below(&random, 9);
        options.drop_last = false;
        for (int w = 0; w < 4; w++) {
            bg_loader *loader = NULL;
            bg_batch batch;

            options.worker_count = workers[w];
            assert_int_equal(bg_loader_create(dataset, &options, &loader, NULL), BG_OK);
            for (int point = 0; point < 3; point++) {
                uint64_t at = bgi_random_below(&random, (uint32_t)bg_loader_batch_count(loader));

                assert_int_equal(bg_loader_begin_at(loader, epoch, at, NULL), BG_OK);
                for (at *= options.batch_size; at < count; at += batch.sample_count) {
                    assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
                    assert_memory_equal(batch.tensors[0], whole + 2 * at, batch.sample_count * 2 * sizeof *whole);
                }
            }
            bg_loader_destroy(loader);
        }
        bg_dataset_destroy(dataset);
    }
}

/* Batches may have more samples than a view maps in one pass. */
static void test_large_batches(void **state)
{
    enum { COUNT = 2000 };
    static int32_t small[2 * 3 * COUNT];
    (void)state;

    for (int kind = 0; kind < 5; kind++) {
        bg_dataset *source = make_places(COUNT, NULL), *view = NULL;
        bg_loader_options options = bg_loader_options_defaults();
        bg_loader *loader = NULL;
        bg_batch batch;
        uint64_t count;
        bg_status status = kind == 0   ? bg_dataset_take(source, COUNT - 3, &view, NULL)
                           : kind == 1 ? bg_dataset_skip(source, 3, &view, NULL)
                           : kind == 2 ? bg_dataset_shard(source, 1, 2, &view, NULL)
                           : kind == 3 ? bg_dataset_repeat(source, 3, &view, NULL)
                                       : bg_dataset_shuffle(source, 0, 5, &view, NULL);

        assert_int_equal(status, BG_OK);
        count = read_epoch(view, 2, 0, small);
        options.batch_size = count;
        options.worker_count = 0; /* one thread copies the whole batch */
        assert_int_equal(bg_loader_create(view, &options, &loader, NULL), BG_OK);
        assert_int_equal(bg_loader_begin_epoch(loader, 2, NULL), BG_OK);
        assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
        assert_int_equal(batch.sample_count, count);
        assert_memory_equal(batch.tensors[0], small, count * 2 * sizeof *small);
        bg_loader_destroy(loader);
        bg_dataset_destroy(view);
        bg_dataset_destroy(source);
    }
}

static void test_refusals(void **state)
{
    const float zero = 0;
    const bg_normalize_options normalize = {.channel_count = 1, .means = &zero, .deviations = &zero};
    bg_dataset *source = make_places(SAMPLES, NULL), *made = NULL;
    bg_error error = {0};
    (void)state;

    assert_int_equal(bg_dataset_take(source, 0, &made, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_skip(source, SAMPLES, &made, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "data set: 101 of 101 samples are to be skipped; at least 1 must remain");
    assert_int_equal(bg_dataset_shard(source, 1, 1, &made, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_shard(source, 101, 102, &made, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_repeat(source, 0, &made, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_repeat(source, UINT32_MAX, &made, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_map(source, &(bg_dataset_map_options){.tensor_count = 0}, &made, NULL),
                     BG_ERROR_INVALID);
    assert_int_equal(bg_dataset_normalize(source, &normalize, &made, NULL), BG_ERROR_INVALID);
    assert_null(made);
    bg_dataset_destroy(source);
}

/* Chains of views allocate only when they are created, never while they are read, and a failed allocation does not
 * leak. */
static void test_memory(void **state)
{
    bg_status status = BG_ERROR_MEMORY;
    (void)state;

    if (!test_allocations_available())
        skip();
    const int64_t live = test_allocations_live();
    for (uint64_t n = 1; status != BG_OK; n++) {
        bg_dataset *source = make_places(SAMPLES, NULL), *shuffled = NULL, *mapped = NULL, *cached = NULL;

        test_allocations_fail(n);
        status = bg_dataset_shuffle(source, 0, 1, &shuffled, NULL);
        if (status == BG_OK)
            status = bg_dataset_map(shuffled, &(bg_dataset_map_options){.map = get_pair_again}, &mapped, NULL);
        if (status == BG_OK)
            status = bg_dataset_cache(mapped, &cached, NULL);
        test_allocations_fail(0);
        bg_dataset_destroy(source);
        bg_dataset_destroy(shuffled);
        bg_dataset_destroy(mapped);
        if (status == BG_OK) {
            bg_loader_options options = bg_loader_options_defaults();
            bg_loader *loader = NULL;
            bg_batch batch;

            options.worker_count = 2;
            assert_int_equal(bg_loader_create(cached, &options, &loader, NULL), BG_OK);
            assert_int_equal(bg_loader_begin_epoch(loader, 0, NULL), BG_OK);
            assert_int_equal(bg_loader_next(loader, &batch, NULL), BG_OK);
            const uint64_t before = test_allocations_count();
            while (bg_loader_next(loader, &batch, NULL) == BG_OK && batch.sample_count > 0)
                ;
            assert_int_equal(test_allocations_count(), before);
            bg_loader_destroy(loader);
        }
        bg_dataset_destroy(cached);
        assert_int_equal(test_allocations_live(), live);
    }
}

static void test_concatenate(void **state)
{
    static const uint64_t counts[] = {3, 300, 1, 41};
    const bg_type other_type = bg_vector(BG_INT32, 3);
    bg_dataset *sources[4], *chain = NULL, *shuffled = NULL, *other = NULL;
    int32_t pairs[2 * 345];
    uint8_t seen[345] = {0};
    bg_error error = {0};
    (void)state;

    for (int i = 0; i < 4; i++)
        sources[i] = make_places(counts[i], NULL);
    assert_int_equal(bg_dataset_concatenate(sources, 4, &chain, NULL), BG_OK);
    assert_int_equal(bg_dataset_shuffle(chain, 0, 5, &shuffled, NULL), BG_OK);
    for (uint32_t workers = 0; workers < 3; workers++) {
        assert_int_equal(read_epoch(chain, 4, workers, pairs), 345);
        for (uint64_t i = 0, k = 0, at = 0; k < 345; k++, at++) {
            while (at == counts[i])
                i++, at = 0;
            assert_int_equal(pairs[2 * k], 4);
            assert_int_equal(pairs[2 * k + 1], at);
        }
        assert_int_equal(read_epoch(shuffled, 0, workers, pairs), 345);
        for (uint64_t k = 0; k < 345; k++)
            seen[pairs[2 * k + 1]]++;
    }
    /* Samples 0 to 2 are in three or four of the data sets, 3 to 40 in two, and 41 to 299 in one. */
    assert_int_equal(seen[0], 3 * 4);
    assert_int_equal(seen[2], 3 * 3);
    assert_int_equal(seen[40], 3 * 2);
    assert_int_equal(seen[41], 3);
    assert_int_equal(seen[299], 3);
    assert_int_equal(seen[300], 0);
    assert_int_equal(bg_dataset_concatenate(sources, 0, &other, &error), BG_ERROR_INVALID);
    bg_error_clear(&error);
    bg_dataset_destroy(sources[1]);
    assert_int_equal(
        bg_dataset_create(
            &(bg_dataset_options){.sample_count = 2, .tensor_count = 1, .sample_types = &other_type, .get = get_place},
            &sources[1], NULL),
        BG_OK);
    assert_int_equal(bg_dataset_concatenate(sources, 4, &other, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "data set 1 to concatenate has int32[3] as tensor 0, but the first has "
                                          "int32[2]; all must have the same tensors"));
    for (int i = 0; i < 4; i++)
        bg_dataset_destroy(sources[i]);
    bg_dataset_destroy(shuffled);
    bg_dataset_destroy(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stretches),
        cmocka_unit_test(test_shards_are_disjoint_and_whole),
        cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_shuffle_by_buffer),
        cmocka_unit_test(test_map_changes_types),
        cmocka_unit_test(test_concatenate),
        cmocka_unit_test(test_cache_asks_once),
        cmocka_unit_test(test_normalize_has_torchvision_bits),
        cmocka_unit_test(test_random_chains_resume_anywhere),
        cmocka_unit_test(test_large_batches),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests_name("data/views", tests, NULL, NULL);
}
