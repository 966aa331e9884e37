/*
 * The JSON of benchmarks has the documented fields, all above 0. The tests also cover errors, and the verdict on
 * whether data or devices limit a run.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/data.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fields[] = {
    "elements_processed", "total_bytes_processed", "time_elapsed", "elements_per_second", "bandwidth",
    "latency_mean",       "latency_p50",           "latency_p90",  "latency_p99",         "latency_max"};

static double number(const json_t *epoch, const char *field)
{
    return json_number_value(json_object_get(epoch, field));
}

/* Compares numbers within a relative 1e-7; the printed numbers have nine digits. */
static void expect_close(double found, double wanted)
{
    assert_true(found > wanted * (1 - 1e-7) && found < wanted * (1 + 1e-7));
}

/* Checks that GB/s and elements per second agree with the measured times, and that latencies are in order. */
static void check_figures(const json_t *epoch)
{
    const double elapsed_s = number(epoch, "time_elapsed"), elements = number(epoch, "elements_processed");

    expect_close(number(epoch, "elements_per_second"), elements / elapsed_s);
    expect_close(number(epoch, "bandwidth"), 1e-9 * number(epoch, "total_bytes_processed") / elapsed_s);
    expect_close(number(epoch, "latency_mean"), elapsed_s / elements);
    assert_true(number(epoch, "latency_p50") <= number(epoch, "latency_p90"));
    assert_true(number(epoch, "latency_p90") <= number(epoch, "latency_p99"));
    assert_true(number(epoch, "latency_p99") <= number(epoch, "latency_max"));
    assert_true(number(epoch, "latency_max") <= elapsed_s);
}

static void check_json(char *text, uint64_t epochs, uint64_t elements, uint64_t element_bytes)
{
    json_t *root = json_loads(text, 0, NULL), *list = json_object_get(root, "epochs");

    assert_non_null(root);
    assert_int_equal(json_array_size(list), epochs);
    for (size_t e = 0; e < epochs; e++) {
        const json_t *epoch = json_array_get(list, e);

        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            assert_true(number(epoch, fields[i]) > 0);
        assert_int_equal(json_integer_value(json_object_get(epoch, "elements_processed")), elements);
        assert_int_equal(json_integer_value(json_object_get(epoch, "total_bytes_processed")), elements * element_bytes);
        check_figures(epoch);
    }
    json_decref(root);
    free(text);
}

static void test_fields(void **state)
{
    const bg_digits_options digits = {.count = 50};
    bg_benchmark_options options = {.epoch_count = 10, .elements_per_epoch = 512};
    bg_image_set set = {0};
    bg_dataset *dataset = NULL;
    bg_error error = {0};
    char *text = NULL;
    (void)state;

    assert_int_equal(bg_digits_create(&digits, &set, NULL), BG_OK);
    assert_int_equal(bg_dataset_create_arrays((bg_array[]){set.images, set.labels}, 2, &dataset, NULL), BG_OK);
    for (int copies = 0; copies < 2; copies++) {
        options.do_memcpy = copies;
        assert_int_equal(bg_dataset_benchmark(dataset, &options, &text, NULL), BG_OK);
        check_json(text, 10, 512, 785);
        for (uint32_t workers = 0; workers < 2; workers++) {
            bg_loader_options loading = bg_loader_options_defaults();
            bg_loader *loader = NULL;

            loading.batch_size = 10;
            loading.worker_count = workers;
            assert_int_equal(bg_loader_create(dataset, &loading, &loader, NULL), BG_OK);
            assert_int_equal(bg_infeed_benchmark(loader, &options, &text, NULL), BG_OK);
            check_json(text, 10, 512, 7850);
            bg_loader_destroy(loader);
        }
    }
    options.epoch_count = 0;
    assert_int_equal(bg_dataset_benchmark(dataset, &options, &text, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message, "benchmark: epoch_count is 0 but must be at least 1");
    options = (bg_benchmark_options){.epoch_count = 1};
    assert_int_equal(bg_dataset_benchmark(dataset, &options, &text, NULL), BG_ERROR_INVALID);
    bg_dataset_destroy(dataset);
    bg_image_set_clear(&set);
}

/* ---- callbacks ---- */

/* A stream that counts down until it ends or fails. */
typedef struct counter {
    uint64_t calls, ends_at, fails_at;
    bool with_message;
} counter;

static bg_status count_up(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    counter *c = user;

    if (c->calls == c->fails_at)
        return c->with_message ? bg_error_set(error, BG_ERROR_IO, "the sensor is off") : BG_ERROR_IO;
    *out_has_ended = c->calls == c->ends_at;
    memset(tensors[0], (int)c->calls, 16 * sizeof(float));
    *(int32_t *)tensors[1] = (int32_t)c->calls++;
    return BG_OK;
}

static void test_a_callback(void **state)
{
    const bg_type types[2] = {bg_matrix(BG_FLOAT32, 4, 4), bg_scalar(BG_INT32)};
    bg_benchmark_options options = {.epoch_count = 3, .elements_per_epoch = 20};
    counter c = {.ends_at = UINT64_MAX, .fails_at = UINT64_MAX};
    bg_error error = {0};
    char *text = NULL;
    (void)state;

    for (int copies = 0; copies < 2; copies++) {
        options.do_memcpy = copies;
        c.calls = 0;
        assert_int_equal(bg_infeed_benchmark_source(types, 2, count_up, &c, &options, &text, &error), BG_OK);
        assert_null(strstr(text, "misses"));
        check_json(text, 3, 20, 68);
        assert_int_equal(c.calls, 60);
    }
    c = (counter){.ends_at = 37, .fails_at = UINT64_MAX};
    assert_int_equal(bg_infeed_benchmark_source(types, 2, count_up, &c, &options, &text, &error), BG_ERROR_INVALID);
    assert_string_equal(error.message,
                        "benchmark: the source ended after 37 elements; make the source start again, or measure "
                        "fewer epochs or elements");
    c = (counter){.ends_at = UINT64_MAX, .fails_at = 21, .with_message = true};
    assert_int_equal(bg_infeed_benchmark_source(types, 2, count_up, &c, &options, &text, &error), BG_ERROR_IO);
    assert_string_equal(error.message, "element 21: the sensor is off");
    c = (counter){.ends_at = UINT64_MAX, .fails_at = 0};
    assert_int_equal(bg_infeed_benchmark_source(types, 2, count_up, &c, &options, &text, &error), BG_ERROR_IO);
    assert_string_equal(error.message, "element 0: the source reported 'io' without a message");
    assert_int_equal(bg_infeed_benchmark_source(types, 2, NULL, &c, &options, &text, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_infeed_benchmark_source(types, 0, count_up, &c, &options, &text, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_infeed_benchmark_source(types, 17, count_up, &c, &options, &text, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_infeed_benchmark_source(types, 2, count_up, &c, NULL, &text, &error), BG_ERROR_INVALID);
}

/* Returns the process's highest resident memory so far, in kB. */
static long find_peak_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long peak = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &peak) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return peak;
}

/* The copy of an element raises the peak by the element's size. Memory that the allocator keeps raises the peak by the
 * same amount in each run, so the growth of the previous run is subtracted. */
static void test_memcpy_touches_memory(void **state)
{
    enum { ELEMENT_KB = 32 * 1024 };
    const bg_type type = bg_matrix(BG_UINT8, 2, (int64_t)ELEMENT_KB * 1024);
    bg_benchmark_options options = {.epoch_count = 1, .elements_per_epoch = 2};
    bg_dataset *dataset = NULL;
    bg_array array = {0};
    long peaks[3];
    (void)state;

    assert_int_equal(bg_array_init(&array, &type, NULL), BG_OK);
    memset(array.data, 1, bg_type_size_bytes(&type));
    assert_int_equal(bg_dataset_create_arrays(&array, 1, &dataset, NULL), BG_OK);
    for (int run = 0; run < 3; run++) {
        char *text = NULL;
        options.do_memcpy = run == 2;
        assert_int_equal(bg_dataset_benchmark(dataset, &options, &text, NULL), BG_OK);
        free(text);
        peaks[run] = find_peak_kb();
    }
    if (peaks[0] == 0)
        skip();
    assert_true(peaks[2] - peaks[1] - (peaks[1] - peaks[0]) > ELEMENT_KB - 4096); /* sanitizers add their own */
    bg_dataset_destroy(dataset);
    bg_array_clear(&array);
}

static void test_verdict(void **state)
{
    const bg_loader_statistics waits = {100, 40, 500}, runs = {100, 3, 20}, none = {0};
    char text[BG_RUN_LIMIT_TEXT_BYTES];
    (void)state;

    assert_int_equal(bg_loader_judge(&waits, 1000, text), BG_LIMIT_DATASET);
    assert_non_null(strstr(text, "the data set limits the run"));
    assert_non_null(strstr(text, "50.0%"));
    assert_int_equal(bg_loader_judge(&runs, 1000, text), BG_LIMIT_DEVICE);
    assert_non_null(strstr(text, "the device limits the run: the run waited for data during 2.0%"));
    assert_int_equal(bg_loader_judge(&none, 1000, text), BG_LIMIT_UNKNOWN);
    assert_int_equal(bg_loader_judge(&waits, 0, NULL), BG_LIMIT_UNKNOWN);
}

static void test_rates(void **state)
{
    char text[BG_RUN_LIMIT_TEXT_BYTES];
    (void)state;

    /* The device processes 200 samples in the time in which 100 arrive, so it waits for half of the time. */
    assert_int_equal(bg_rates_judge(100, 200, true, text), BG_LIMIT_DATASET);
    assert_string_equal(text,
                        "the data set limits the run (more workers may help): the data set gives 100 samples/s and the "
                        "device takes 200, so the run waits for data 50.0% of the time");
    assert_int_equal(bg_rates_judge(200, 100, true, text), BG_LIMIT_DEVICE);
    assert_non_null(strstr(text, "the device limits the run: the data set gives 200 samples/s"));
    assert_int_equal(bg_rates_judge(96, 100, true, NULL), BG_LIMIT_DEVICE);
    assert_int_equal(bg_rates_judge(94, 100, true, NULL), BG_LIMIT_DATASET);
    /* If loading and processing do not overlap, the device waits for a third of the time. */
    assert_int_equal(bg_rates_judge(200, 100, false, text), BG_LIMIT_DATASET);
    assert_non_null(strstr(text, "33.3%"));
    assert_int_equal(bg_rates_judge(2000, 100, false, text), BG_LIMIT_DEVICE);
    assert_int_equal(bg_rates_judge(0, 100, true, text), BG_LIMIT_UNKNOWN);
    assert_int_equal(bg_rates_judge(100, -1, true, NULL), BG_LIMIT_UNKNOWN);
    assert_int_equal(bg_rates_judge(INFINITY, 100, true, NULL), BG_LIMIT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields), cmocka_unit_test(test_a_callback),
                                       cmocka_unit_test(test_memcpy_touches_memory), cmocka_unit_test(test_verdict),
                                       cmocka_unit_test(test_rates)};
    return cmocka_run_group_tests_name("data/benchmark", tests, NULL, NULL);
}
