/*
 * cmd_data_bench.c: `brigade data bench [PATH]`: measures how fast a data set is read, sample by sample or through a
 * loader. It prints one line of JSON, and whether the data would limit a run. The kind of data follows from the ending
 * of a file's name or from the content of a folder.
 */
#include "cli/command.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <brigade/readers.h>

#include "cli/options.h"
#include "core/error.h"
#include "core/text.h"
#include "formats/json_tree.h"

enum { DIGITS = 10000 };

typedef struct bench_config {
    uint64_t epochs, elements, batch_size, workers, prefetch, shuffle_buffer, seed, sequence_length, stride, channels,
        shards, rebatched_size;
    bool shuffle, normalize, cache, no_memcpy, keep_last, stream;
    double device_rate; /* 0: not given */
    const char *mode, *label;
} bench_config;

#define AT(field) .offset = offsetof(bench_config, field)

static const cli_option bench_options[] = {
    {CLI_HEADING, .help = "The measurement"},
    {CLI_COUNT, "epochs", AT(epochs), .value = "N", .minimum = 1, .maximum = 1000000,
     .help = "passes over the data, each measured separately"},
    {CLI_COUNT, "elements", AT(elements), .value = "N", .maximum = 1000000000, .default_text = "all of the data",
     .help = "elements to read in each epoch"},
    {CLI_FLAG, "no-memcpy", AT(no_memcpy),
     .help = "leave out the copy of each element, which represents the transfer to a device"},
    {CLI_REAL, "device-rate", AT(device_rate), .value = "IMAGES_PER_S", .default_text = "none",
     .help = "speed of a device, to find out whether the device or the data limit a run"},
    {CLI_HEADING, .help = "The loader"},
    {CLI_COUNT, "batch-size", AT(batch_size), .value = "N", .maximum = 1000000, .default_text = "samples, no loader",
     .help = "read batches of a loader"},
    {CLI_CHOICE, "mode", AT(mode), .choices = "sync|async|async-rebatched",
     .help = "make batches when they are needed, or ahead; rebatched: join the remainders of a stream's shards"},
    {CLI_COUNT, "workers", AT(workers), .value = "N", .maximum = 256, .help = "threads of the loader"},
    {CLI_COUNT, "prefetch", AT(prefetch), .value = "N", .minimum = 1, .maximum = 1024,
     .help = "number of batches that are prepared ahead"},
    {CLI_FLAG, "keep-last", AT(keep_last), .help = "include the smaller last batch"},
    {CLI_FLAG, "stream", AT(stream), .help = "read the data in sequence, without an index"},
    {CLI_COUNT, "shards", AT(shards), .value = "N", .maximum = 65536, .default_text = "one for each worker",
     .help = "with --stream: number of shards to read concurrently"},
    {CLI_COUNT, "rebatched-size", AT(rebatched_size), .value = "N", .maximum = 1000000,
     .default_text = "the batch size",
     .help = "with async-rebatched: consecutive samples of a shard before those of the next shard"},
    {CLI_HEADING, .help = "The data"},
    {CLI_FLAG, "shuffle", AT(shuffle), .help = "a new order for each epoch"},
    {CLI_COUNT, "shuffle-buffer", AT(shuffle_buffer), .value = "N", .maximum = UINT32_MAX,
     .default_text = "all samples", .help = "with --shuffle: size of the shuffle buffer"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX, .help = "seed of the order"},
    {CLI_FLAG, "cache", AT(cache), .help = "keep samples in memory after they are read"},
    {CLI_FLAG, "normalize", AT(normalize), .help = "images as float32, normalized like MNIST"},
    {CLI_COUNT, "sequence-length", AT(sequence_length), .value = "N", .minimum = 1, .maximum = 1000000,
     .help = "for .u16 and .u32 files: number of tokens in a sequence"},
    {CLI_COUNT, "stride", AT(stride), .value = "N", .maximum = 1000000, .default_text = "the length",
     .help = "number of tokens from the start of a sequence to the start of the next one"},
    {CLI_COUNT, "channels", AT(channels), .value = "N", .maximum = 4, .default_text = "the first image's",
     .help = "channels of PNG images: 1, 3 or 4"},
    {CLI_TEXT, "label", AT(label), .value = "COLUMN", .default_text = "none",
     .help = "name or number of the label column of CSV files"},
    CLI_OPTIONS_END,
};

enum { OPTION_COUNT = sizeof bench_options / sizeof bench_options[0] };

/* The data being measured; `dataset` may borrow `images`. */
typedef struct bench {
    bg_image_set images;
    bg_dataset *dataset;
} bench;

static bool is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bg_status use_images(bench *b, bg_error *error)
{
    const bg_array arrays[] = {b->images.images, b->images.labels};

    return bg_dataset_create_arrays(arrays, 2, &b->dataset, error);
}

/* Opens the folder's MNIST files if they exist, otherwise its PNG images, which are in one folder for each class. */
static bg_status open_folder(const bench_config *config, const char *path, bench *b, bg_error *error)
{
    bg_error missing = {0};
    const bg_status status = bg_mnist_load(&path, 1, true, &b->images, &missing);

    if (status == BG_OK)
        return use_images(b, error);
    if (status != BG_ERROR_NOT_FOUND)
        return bg_error_set(error, status, "%s", missing.message);
    return bg_dataset_open_images(path, (uint32_t)config->channels, &b->dataset, error);
}

static bg_status open_data(const bench_config *config, const char *path, bench *b, bg_error *error)
{
    const bg_digits_options digits = {.seed = config->seed, .count = DIGITS};
    const bg_tokens_options tokens = {.sequence_length = (uint32_t)config->sequence_length,
                                      .stride = (uint32_t)config->stride};
    const bg_csv_options table = {.label = config->label};

    if (path == NULL) {
        BGI_TRY(bg_digits_create(&digits, &b->images, error));
        return use_images(b, error);
    }
    if (is_folder(path))
        return open_folder(config, path, b, error);
    if (bgi_text_ends_with(path, ".npy"))
        return bg_dataset_open_npy(&path, 1, &b->dataset, error);
    if (bgi_text_ends_with(path, ".npz"))
        return bg_dataset_open_npz(path, NULL, 0, &b->dataset, error);
    if (bgi_text_ends_with(path, ".csv"))
        return bg_dataset_open_csv(path, &table, &b->dataset, error);
    if (bgi_text_ends_with(path, ".u16") || bgi_text_ends_with(path, ".u32"))
        return bg_dataset_open_tokens(path, &tokens, &b->dataset, error);
    return bg_error_set(error, BG_ERROR_INVALID,
                        "%s: the kind of data is unknown; it must be a folder (MNIST's files, or one folder of PNG "
                        "images for each class), or its name must end in .npy, .npz, .csv, .u16 or .u32",
                        path);
}

/* If `status` is BG_OK, replaces the data set with *made, which wraps it. Returns `status`. */
static bg_status replace(bench *b, bg_status status, bg_dataset *const *made)
{
    if (status != BG_OK)
        return status;
    bg_dataset_destroy(b->dataset);
    b->dataset = *made;
    return BG_OK;
}

static bg_status compose(const bench_config *config, bench *b, bg_error *error)
{
    const float mean = 0.1307F, deviation = 0.3081F;
    const bg_normalize_options normalize = {.channel_count = 1, .means = &mean, .deviations = &deviation};
    bg_dataset *made = NULL;

    if (config->cache)
        BGI_TRY(replace(b, bg_dataset_cache(b->dataset, &made, error), &made));
    if (config->normalize)
        BGI_TRY(replace(b, bg_dataset_normalize(b->dataset, &normalize, &made, error), &made));
    if (config->shuffle && (config->batch_size == 0 || config->stream))
        return replace(b, bg_dataset_shuffle(b->dataset, config->shuffle_buffer, config->seed, &made, error), &made);
    return BG_OK;
}

/* Returns the number of batches in an epoch, at least 1. For a stream this is the number with one shard, because the
 * number with several shards is unknown. */
static uint64_t count_batches(const bench_config *config, const bench *b, const bg_loader *loader)
{
    const uint64_t count =
        config->stream ? bg_dataset_sample_count(b->dataset) / config->batch_size : bg_loader_batch_count(loader);

    return count > 0 ? count : 1;
}

static bg_status bench_loader(const bench_config *config, const bench *b, bg_benchmark_options *options, char **out,
                              bg_error *error)
{
    bg_loader_options loading = bg_loader_options_defaults();
    bg_loader *loader = NULL;
    bg_status status;

    loading.mode = strcmp(config->mode, "sync") == 0    ? BG_LOADER_SYNC
                   : strcmp(config->mode, "async") == 0 ? BG_LOADER_ASYNC
                                                        : BG_LOADER_ASYNC_REBATCHED;
    loading.batch_size = config->batch_size;
    loading.shuffle = config->shuffle && !config->stream;
    loading.shuffle_buffer = config->stream ? 0 : config->shuffle_buffer;
    loading.seed = config->seed;
    loading.drop_last = !config->keep_last;
    loading.worker_count = (uint32_t)config->workers;
    loading.prefetch_depth = (uint32_t)config->prefetch;
    loading.shard_count = (uint32_t)config->shards;
    loading.rebatched_size = config->rebatched_size;
    if (config->stream) {
        const bg_sample_stream stream = bg_dataset_stream(b->dataset);

        BGI_TRY(bg_loader_create_stream(&stream, &loading, &loader, error));
    } else {
        BGI_TRY(bg_loader_create(b->dataset, &loading, &loader, error));
    }
    if (options->elements_per_epoch == 0)
        options->elements_per_epoch = count_batches(config, b, loader);
    status = bg_infeed_benchmark(loader, options, out, error);
    bg_loader_destroy(loader);
    return status;
}

/* Finds the samples per second over the epochs. The first epoch fills the caches, so it counts only if it is the only
 * one. */
static bg_status find_rate(const bench *b, const char *json, double *out, bg_error *error)
{
    json_t *root = NULL;
    const bg_status status = bgi_json_parse("benchmark", json, strlen(json), &root, error);
    const json_t *epochs = json_object_get(root, "epochs");
    const size_t count = json_array_size(epochs);
    double sample_bytes = 0, bytes = 0, seconds = 0;

    for (uint32_t t = 0; t < bg_dataset_tensor_count(b->dataset); t++)
        sample_bytes += (double)bg_type_size_bytes(bg_dataset_sample_type(b->dataset, t));
    for (size_t i = count > 1 ? 1 : 0; i < count; i++) {
        const json_t *epoch = json_array_get(epochs, i);
        bytes += json_number_value(json_object_get(epoch, "total_bytes_processed"));
        seconds += json_number_value(json_object_get(epoch, "time_elapsed"));
    }
    json_decref(root);
    *out = seconds > 0 && sample_bytes > 0 ? bytes / sample_bytes / seconds : 0;
    return status;
}

/* Prints the JSON to stdout and the verdict to stderr, so that a pipe receives only the JSON. */
static bg_status print_results(const bench_config *config, const bench *b, const char *json, bg_error *error)
{
    static const char *const limits[] = {
        [BG_LIMIT_UNKNOWN] = "unknown", [BG_LIMIT_DEVICE] = "device", [BG_LIMIT_DATASET] = "dataset"};
    const bool is_ahead = config->batch_size == 0 || strcmp(config->mode, "sync") != 0;
    char verdict[BG_RUN_LIMIT_TEXT_BYTES];
    bg_run_limit limit;
    double rate = 0;

    BGI_TRY(find_rate(b, json, &rate, error));
    if (config->device_rate == 0) {
        printf("%s\n", json);
        fflush(stdout);
        fprintf(stderr,
                "Verdict: the data set gives %.0f samples/s; a faster device would wait for data (--device-rate "
                "IMAGES_PER_S compares the two speeds; `brigade mnist` prints its images/s)\n",
                rate);
        return BG_OK;
    }
    limit = bg_rates_judge(rate, config->device_rate, is_ahead, verdict);
    printf("%.*s,\"limit\":\"%s\"}\n", (int)strlen(json) - 1, json, limits[limit]);
    fflush(stdout);
    fprintf(stderr, "Verdict: %s\n", verdict);
    return BG_OK;
}

static bg_status run_bench(const bench_config *config, const char *path, bg_error *error)
{
    bg_benchmark_options options = {
        .epoch_count = config->epochs, .elements_per_epoch = config->elements, .do_memcpy = !config->no_memcpy};
    bench b = {.dataset = NULL};
    char *json = NULL;
    bg_status status;

    BGI_TRY_CLEANUP(open_data(config, path, &b, error));
    BGI_TRY_CLEANUP(compose(config, &b, error));
    if (config->batch_size > 0) {
        BGI_TRY_CLEANUP(bench_loader(config, &b, &options, &json, error));
    } else {
        if (options.elements_per_epoch == 0)
            options.elements_per_epoch = bg_dataset_sample_count(b.dataset);
        BGI_TRY_CLEANUP(bg_dataset_benchmark(b.dataset, &options, &json, error));
    }
    status = print_results(config, &b, json, error);
cleanup:
    free(json);
    bg_dataset_destroy(b.dataset);
    bg_image_set_clear(&b.images);
    return status;
}

/* Checks options that require other options, and options that must not be 0. `given` is indexed by row of the table. */
static bg_status check_config(const bench_config *config, const bool *given, bg_error *error)
{
    static const char *const of_loader[] = {"stream", "mode", "workers", "prefetch", "keep-last"};
    const bool has_loader = config->batch_size > 0;

    if (config->shuffle_buffer > 0 && !config->shuffle)
        return bg_error_set(error, BG_ERROR_INVALID, "--shuffle-buffer applies only with --shuffle; add --shuffle");
    for (size_t line = 0; line < OPTION_COUNT && !has_loader; line++)
        for (size_t i = 0; given[line] && i < sizeof of_loader / sizeof of_loader[0]; i++)
            if (strcmp(bench_options[line].name, of_loader[i]) == 0)
                return bg_error_set(error, BG_ERROR_INVALID, "--%s applies only to batches; add --batch-size N",
                                    of_loader[i]);
    for (size_t line = 0; line < OPTION_COUNT; line++)
        if (given[line] && strcmp(bench_options[line].name, "device-rate") == 0 && config->device_rate == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--device-rate is 0 but must be above 0, in samples per second");
    for (size_t line = 0; line < OPTION_COUNT; line++)
        if (given[line] && strcmp(bench_options[line].name, "elements") == 0 && config->elements == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--elements is 0, which measures nothing; give at least 1, or leave the option out to "
                                "read all of the data");
    if (config->shards > 0 && !config->stream)
        return bg_error_set(error, BG_ERROR_INVALID, "--shards applies only with --stream; add --stream");
    if (config->rebatched_size > 0 && strcmp(config->mode, "async-rebatched") != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--rebatched-size applies only with --mode async-rebatched; add this mode");
    return BG_OK;
}

static const cli_help_page page = {
    .usage = "Usage: brigade data bench [PATH] [OPTION]...\n"
             "Reads a data set without any device and prints its speed as one line of JSON. On standard error it says "
             "whether the data would limit a run. PATH is a folder with MNIST's files or with a folder of PNG images "
             "for each class, "
             "or a .npy, .npz, .csv, .u16 or .u32 file; without it digits are generated.\n",
    .common = "epochs batch-size device-rate workers prefetch mode shuffle cache normalize sequence-length",
    .examples = "brigade data bench digits --epochs 2 --batch-size 40\n"
                "brigade data bench digits --epochs 2 --batch-size 40 --shuffle --device-rate 10000\n",
};

int cli_data_bench(int argc, char **argv)
{
    bench_config config = {.epochs = 10, .workers = 1, .prefetch = 3, .sequence_length = 1024, .mode = "async"};
    const bench_config defaults = config;
    const char *path = NULL;
    uint32_t word_count;
    cli_help help;
    bool given[OPTION_COUNT] = {false};
    bg_error error = {0};
    bg_status status =
        cli_options_read(bench_options, argc, argv, &config, &path, 1, &word_count, &help, given, &error);

    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &page, bench_options, &defaults);
        return CLI_DONE;
    }
    if (status == BG_OK)
        status = check_config(&config, given, &error);
    if (status != BG_OK)
        return cli_fail("data", CLI_USAGE, &error);
    return run_bench(&config, word_count > 0 ? path : NULL, &error) == BG_OK ? CLI_DONE
                                                                             : cli_fail("data", CLI_FAILED, &error);
}
