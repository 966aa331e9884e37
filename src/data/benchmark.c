/*
 * benchmark.c: measures the speed of data without a device, and decides whether the data limit a run. It times each
 * element, so the clock's cost (about 20 ns) affects very short elements.
 */
#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "data/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what limits a run ---- */

/* Returns what limits a run, given the fraction of the time in which the run waits for data. */
static bg_run_limit judge_share(double share)
{
    return share > 0.05 ? BG_LIMIT_DATASET : BG_LIMIT_DEVICE;
}

static const char *name_limit(bg_run_limit limit)
{
    return limit == BG_LIMIT_DEVICE ? "the device limits the run"
                                    : "the data set limits the run (more workers may help)";
}

bg_run_limit bg_loader_judge(const bg_loader_statistics *statistics, uint64_t run_ns, char *text)
{
    const double share = run_ns > 0 ? (double)statistics->wait_ns / (double)run_ns : 0;
    const bg_run_limit limit = run_ns == 0 || statistics->batch_count == 0 ? BG_LIMIT_UNKNOWN : judge_share(share);

    if (text == NULL)
        return limit;
    if (limit == BG_LIMIT_UNKNOWN)
        snprintf(text, BG_RUN_LIMIT_TEXT_BYTES,
                 "no data were loaded, or the run took no time, so it is not known what limits the run");
    else
        snprintf(text, BG_RUN_LIMIT_TEXT_BYTES,
                 "%s: the run waited for data during %.1f%% of %.3f s, for %" PRIu64 " of %" PRIu64 " batches",
                 name_limit(limit), 100 * share, 1e-9 * (double)run_ns, statistics->miss_count,
                 statistics->batch_count);
    return limit;
}

bg_run_limit bg_rates_judge(double data_rate, double device_rate, bool is_ahead, char *text)
{
    const bool is_known = data_rate > 0 && device_rate > 0 && isfinite(data_rate) && isfinite(device_rate);
    const double load_s = is_known ? 1 / data_rate : 0, work_s = is_known ? 1 / device_rate : 0; /* of a sample */
    const double wait_s = !is_ahead ? load_s : load_s > work_s ? load_s - work_s : 0;
    const double share = is_known ? wait_s / (work_s + wait_s) : 0;
    const bg_run_limit limit = is_known ? judge_share(share) : BG_LIMIT_UNKNOWN;

    if (text == NULL)
        return limit;
    if (limit == BG_LIMIT_UNKNOWN)
        snprintf(text, BG_RUN_LIMIT_TEXT_BYTES, "a rate is not above 0, so it is not known what limits the run");
    else
        snprintf(text, BG_RUN_LIMIT_TEXT_BYTES,
                 "%s: the data set gives %.0f samples/s and the device takes %.0f, so the run waits for data %.1f%% of "
                 "the time",
                 name_limit(limit), data_rate, device_rate, 100 * share);
    return limit;
}

/* ---- benchmarks ---- */

/* A source of elements. Each call of `next` makes one element, whose `tensors` are valid until the next call. */
typedef struct feed {
    bg_status (*next)(struct feed *feed, bg_error *error);
    uint32_t tensor_count;
    const bg_type *types;                        /* of a sample */
    const void *tensors[BG_DATASET_MAX_TENSORS]; /* the current element's */
    uint64_t sample_count;                       /* the current element's */
    void *copies[BG_DATASET_MAX_TENSORS];
    uint64_t largest_samples;
    bg_loader *loader;
    const bg_dataset *dataset;
    void *scratch;
    unsigned char *places[BG_DATASET_MAX_TENSORS];
    uint64_t epoch, at;
    bg_infeed_source source;
    void *user;
    bg_error said; /* errors of `source`; cleared only once, because clearing 4 KiB would add to each element's time */
} feed;

static bg_status next_sample(feed *f, bg_error *error)
{
    const uint32_t index = (uint32_t)f->at;
    size_t failed = 0;

    BGI_TRY(bgi_dataset_gather(f->dataset, f->epoch, &index, 1, f->places, f->scratch, &failed, error));
    if (++f->at == f->dataset->sample_count) {
        f->at = 0;
        f->epoch++;
    }
    return BG_OK;
}

static bg_status next_batch(feed *f, bg_error *error)
{
    bg_batch batch;

    BGI_TRY(bg_loader_next(f->loader, &batch, error));
    if (batch.sample_count == 0) {
        BGI_TRY(bg_loader_begin_epoch(f->loader, ++f->epoch, error));
        BGI_TRY(bg_loader_next(f->loader, &batch, error));
    }
    for (uint32_t t = 0; t < f->tensor_count; t++)
        f->tensors[t] = batch.tensors[t];
    f->sample_count = batch.sample_count;
    return BG_OK;
}

static bg_status next_of_source(feed *f, bg_error *error)
{
    void *places[BG_DATASET_MAX_TENSORS] = {NULL};
    bool has_ended = false;
    bg_status status;

    memcpy(places, f->places, sizeof places);
    status = f->source(f->user, places, &has_ended, &f->said);
    if (status != BG_OK) {
        bgi_error_unexplained(&f->said, status, "the source");
        return bg_error_set(error, status, "element %" PRIu64 ": %s", f->at, f->said.message);
    }
    if (has_ended)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "benchmark: the source ended after %" PRIu64
                            " elements; make the source start again, or measure fewer epochs or elements",
                            f->at);
    f->at++;
    return BG_OK;
}

typedef struct epoch_result {
    uint64_t bytes, elapsed_ns;
    bg_loader_statistics before, after;
} epoch_result;

static bg_status run_epoch(feed *f, const bg_benchmark_options *options, uint64_t *latencies, epoch_result *out,
                           bg_error *error)
{
    const uint64_t start_ns = bgi_clock_ns();
    uint64_t last_ns = start_ns;

    *out = (epoch_result){.bytes = 0};
    for (uint64_t i = 0; i < options->elements_per_epoch; i++) {
        uint64_t now_ns;

        BGI_TRY(f->next(f, error));
        for (uint32_t t = 0; t < f->tensor_count; t++) {
            const size_t size = bg_type_size_bytes(&f->types[t]) * f->sample_count;

            if (options->do_memcpy)
                memcpy(f->copies[t], f->tensors[t], size);
            out->bytes += size;
        }
        now_ns = bgi_clock_ns();
        latencies[i] = now_ns - last_ns;
        last_ns = now_ns;
    }
    out->elapsed_ns = last_ns > start_ns ? last_ns - start_ns : 1;
    return BG_OK;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Returns the smallest time that at least `per_cent` % of the elements did not exceed. */
static double percentile_s(const uint64_t *sorted, uint64_t count, uint64_t per_cent)
{
    const uint64_t rank = (count * per_cent + 99) / 100;
    const uint64_t ns = sorted[rank > 0 ? rank - 1 : 0];

    return 1e-9 * (double)(ns > 0 ? ns : 1);
}

static void add_real(bgi_string *text, const char *key, double value)
{
    bgi_string_add(text, ",\"%s\":", key);
    bgi_string_add_real(text, value);
}

static void print_epoch(bgi_string *text, const feed *f, uint64_t count, uint64_t *latencies,
                        const epoch_result *result)
{
    const double elapsed_s = 1e-9 * (double)result->elapsed_ns;

    qsort(latencies, count, sizeof *latencies, compare_times);
    bgi_string_add(text, "{\"elements_processed\":%" PRIu64 ",\"total_bytes_processed\":%" PRIu64, count,
                   result->bytes);
    add_real(text, "time_elapsed", elapsed_s);
    add_real(text, "elements_per_second", (double)count / elapsed_s);
    add_real(text, "bandwidth", 1e-9 * (double)result->bytes / elapsed_s);
    add_real(text, "latency_mean", elapsed_s / (double)count);
    add_real(text, "latency_p50", percentile_s(latencies, count, 50));
    add_real(text, "latency_p90", percentile_s(latencies, count, 90));
    add_real(text, "latency_p99", percentile_s(latencies, count, 99));
    add_real(text, "latency_max", percentile_s(latencies, count, 100));
    if (f->loader != NULL) {
        bgi_string_add(text, ",\"misses\":%" PRIu64, result->after.miss_count - result->before.miss_count);
        add_real(text, "wait_time", 1e-9 * (double)(result->after.wait_ns - result->before.wait_ns));
    }
    bgi_string_add(text, "}");
}

static bg_status run_epochs(feed *f, const bg_benchmark_options *options, uint64_t *latencies, bgi_string *text,
                            bg_error *error)
{
    bgi_string_add(text, "{\"epochs\":[");
    for (uint64_t epoch = 0; epoch < options->epoch_count; epoch++) {
        const bg_loader_statistics before =
            f->loader != NULL ? bg_loader_statistics_of(f->loader) : (bg_loader_statistics){0};
        epoch_result result;

        BGI_TRY(run_epoch(f, options, latencies, &result, error));
        result.before = before;
        result.after = f->loader != NULL ? bg_loader_statistics_of(f->loader) : before;
        bgi_string_add(text, epoch > 0 ? "," : "");
        print_epoch(text, f, options->elements_per_epoch, latencies, &result);
    }
    bgi_string_add(text, "]}");
    return BG_OK;
}

static bg_status check_benchmark(const bg_benchmark_options *options, bg_error *error)
{
    BGI_TRY(bgi_require(options, "options", "benchmark", error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_benchmark_options", NULL, error));
    if (options->epoch_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "benchmark: epoch_count is 0 but must be at least 1");
    if (options->elements_per_epoch == 0 || options->elements_per_epoch > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "benchmark: elements_per_epoch is %" PRIu64 " but must be 1 to %" PRIu32,
                            options->elements_per_epoch, UINT32_MAX);
    return BG_OK;
}

static bg_status run_benchmark(feed *f, const bg_benchmark_options *options, char **out_json, bg_error *error)
{
    uint64_t *latencies = malloc(options->elements_per_epoch * sizeof *latencies);
    bgi_string text = {.data = NULL};
    bg_status status = BG_OK;

    if (latencies == NULL)
        status = bgi_error_memory(error, "the times of elements", options->elements_per_epoch * sizeof *latencies);
    for (uint32_t t = 0; status == BG_OK && options->do_memcpy && t < f->tensor_count; t++) {
        f->copies[t] = malloc(bg_type_size_bytes(&f->types[t]) * f->largest_samples);
        if (f->copies[t] == NULL)
            status = bgi_error_memory(error, "an element", bg_type_size_bytes(&f->types[t]) * f->largest_samples);
    }
    if (status == BG_OK)
        status = run_epochs(f, options, latencies, &text, error);
    if (status == BG_OK)
        status = bgi_string_finish(&text, out_json, error);
    bgi_string_clear(&text);
    for (uint32_t t = 0; t < BG_DATASET_MAX_TENSORS; t++)
        free(f->copies[t]);
    free(latencies);
    return status;
}

/* Allocates memory for each tensor of one sample, and runs the benchmark of single samples with it. */
static bg_status run_with_places(feed *f, const bg_benchmark_options *options, char **out_json, bg_error *error)
{
    bg_status status = BG_OK;

    f->sample_count = f->largest_samples = 1;
    for (uint32_t t = 0; status == BG_OK && t < f->tensor_count; t++) {
        const size_t size = bg_type_size_bytes(&f->types[t]);

        f->tensors[t] = f->places[t] = malloc(size > 0 ? size : 1);
        if (f->places[t] == NULL)
            status = bgi_error_memory(error, "an element", size);
    }
    if (status == BG_OK)
        status = run_benchmark(f, options, out_json, error);
    for (uint32_t t = 0; t < BG_DATASET_MAX_TENSORS; t++)
        free(f->places[t]);
    return status;
}

bg_status bg_dataset_benchmark(const bg_dataset *dataset, const bg_benchmark_options *options, char **out_json,
                               bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(dataset, "dataset", __func__, error));
    BGI_TRY(bgi_require(out_json, "out_json", __func__, error));

    feed f = {.next = next_sample, .tensor_count = dataset->tensor_count, .types = dataset->types, .dataset = dataset};
    bg_status status;

    BGI_TRY(check_benchmark(options, error));
    f.scratch = bgi_dataset_scratch(dataset);
    if (f.scratch == NULL)
        return bgi_error_memory(error, "a scratch", dataset->scratch_bytes);
    status = run_with_places(&f, options, out_json, error);
    free(f.scratch);
    return status;
}

bg_status bg_infeed_benchmark_source(const bg_type *types, uint32_t tensor_count, bg_infeed_source source, void *user,
                                     const bg_benchmark_options *options, char **out_json, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(types, "types", __func__, error));
    BGI_TRY(bgi_require(out_json, "out_json", __func__, error));

    feed f = {.next = next_of_source, .tensor_count = tensor_count, .types = types, .source = source, .user = user};

    if (source == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "benchmark: source is NULL but must be the function that makes elements");
    if (tensor_count < 1 || tensor_count > BG_DATASET_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "benchmark: elements have %" PRIu32 " tensors but must have 1 to %d", tensor_count,
                            BG_DATASET_MAX_TENSORS);
    for (uint32_t t = 0; t < tensor_count; t++)
        BGI_TRY(bg_type_validate(&types[t], error));
    BGI_TRY(check_benchmark(options, error));
    return run_with_places(&f, options, out_json, error);
}

bg_status bg_infeed_benchmark(bg_loader *loader, const bg_benchmark_options *options, char **out_json, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(loader, "loader", __func__, error));
    BGI_TRY(bgi_require(out_json, "out_json", __func__, error));

    feed f = {.next = next_batch, .largest_samples = bg_loader_batch_size(loader), .loader = loader};

    BGI_TRY(check_benchmark(options, error));
    f.types = bg_loader_sample_types(loader, &f.tensor_count);
    BGI_TRY(bg_loader_begin_epoch(loader, 0, error));
    return run_benchmark(&f, options, out_json, error);
}
