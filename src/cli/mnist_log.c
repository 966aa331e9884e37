/*
 * mnist_log.c: the log of a run as JSON lines: the first says everything that the run depends on, then one line for
 * each weight update. Every call's lines are flushed, so a reader sees a run as it goes, and whole lines only.
 *
 * The log may be a file, a terminal, a pipe, or what standard output is: then lines go through that descriptor, so that
 * text and lines follow each other. A log that cannot be written any more does not end the training.
 */
#include "cli/mnist.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/isa.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

/* Nine digits bring a float32 back exactly. */
enum { LINE_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

static bg_status report(const mnist_log *log, int error_number, bg_error *error)
{
    char text[BGI_ERRNO_TEXT_BYTES];

    return bg_error_set(error, BG_ERROR_IO, "--log: %s: %s", log->path, bgi_errno_text(error_number, text));
}

/* Takes `line` over. */
static bg_status write_line(mnist_log *log, json_t *line, bg_error *error)
{
    char *text = line != NULL ? json_dumps(line, LINE_FLAGS) : NULL;
    bool is_written;

    json_decref(line);
    if (text == NULL)
        return bgi_error_memory(error, "log line", 0);
    errno = 0;
    is_written = fputs(text, log->stream) >= 0 && fputc('\n', log->stream) != EOF;
    log->bytes += strlen(text) + 1;
    free(text);
    return is_written ? BG_OK : report(log, errno, error);
}

static bg_status flush_lines(mnist_log *log, bg_error *error)
{
    fflush(stdout); /* maybe the same place */
    errno = 0;
    if (fflush(log->stream) != 0)
        return report(log, errno, error);
    log->good_bytes = log->bytes;
    return BG_OK;
}

/* JSON has no infinity and no NaN: null stands for them. */
static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* null, the value, or an array of them. */
static json_t *list_value(const cli_option *option, const void *list)
{
    const uint32_t count = *(const uint32_t *)list;
    json_t *array = count == 0 ? json_null() : json_array();

    for (uint32_t i = 0; i < count; i++) {
        json_t *value = option->kind == CLI_REAL_LIST   ? json_real(((const cli_reals *)list)->values[i])
                        : option->kind == CLI_SIZE_LIST ? json_integer((json_int_t)((const cli_sizes *)list)->values[i])
                                                        : json_integer(((const cli_counts *)list)->values[i]);
        if (count == 1 && option->kind == CLI_SIZE_LIST) {
            json_decref(array);
            return value;
        }
        json_array_append_new(array, value);
    }
    return array;
}

static json_t *option_value(const cli_option *option, const mnist_config *config)
{
    const void *value = (const char *)config + option->offset;

    switch (option->kind) {
    case CLI_FLAG:
        return json_boolean(*(const bool *)value);
    case CLI_COUNT:
    case CLI_SIZE:
        /* Above 2^63 - 1 (a seed) jansson has no integer. */
        if (*(const uint64_t *)value > INT64_MAX)
            return json_sprintf("%llu", (unsigned long long)*(const uint64_t *)value);
        return json_integer((json_int_t) * (const uint64_t *)value);
    case CLI_REAL:
        return json_real(*(const double *)value);
    case CLI_TEXT:
    case CLI_CHOICE:
        return *(const char *const *)value != NULL ? json_string(*(const char *const *)value) : json_null();
    case CLI_COUNT_LIST:
    case CLI_SIZE_LIST:
    case CLI_REAL_LIST:
        return list_value(option, value);
    case CLI_HEADING:
        break;
    }
    return NULL;
}

/* The number of workers that run, by the lines that describe them. */
static uint64_t count_workers(const mnist_runner *runner)
{
    bg_error ignored = {0};
    char *text = NULL;
    uint64_t count = 0;

    if (bg_session_print_workers(runner->session, &text, &ignored) != BG_OK)
        return 0;
    for (const char *line = text; *line != '\0'; count++)
        line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n');
    free(text);
    return count;
}

static void set_null(json_t *object, const char *key, bool is_null)
{
    if (is_null)
        json_object_set_new(object, key, json_null());
}

/* What was not given is replaced by what the run used, or null where it used nothing. */
static json_t *describe_config(const mnist_config *given, const char *save_path, const mnist_runner *runner)
{
    mnist_config used = *given;
    const mnist_config *config = &used;
    json_t *object = json_object();
    bool is_single = strcmp(given->strategy, "single") == 0;

    used.cores = count_workers(runner);
    used.save_path = save_path;
    if (used.schedule == NULL && strcmp(given->strategy, "pipelined") == 0)
        used.schedule = "interleaved";
    if (used.stages == NULL)
        used.stages = is_single ? "B1,B2,B3,B4" : "B1|B2|B3|B4";
    if (!used.profile)
        used.profile_dir = NULL;
    else if (used.profile_dir == NULL)
        used.profile_dir = MNIST_PROFILE_DIR;

    for (const cli_option *option = mnist_options; option->name != NULL || option->help != NULL; option++)
        if (option->kind != CLI_HEADING)
            json_object_set_new(object, option->name, option_value(option, config));
    set_null(object, "devices", used.devices == 0);
    set_null(object, "steps", used.steps == 0);
    set_null(object, "cores", used.cores == 0);
    return object;
}

static json_t *describe_versions(void)
{
    static const char *const isa_names[] = {
        [BGI_ISA_PORTABLE] = "portable", [BGI_ISA_AVX2] = "avx2", [BGI_ISA_AVX512] = "avx512"};

    return json_pack("{s:s, s:s, s:s, s:I}", "brigade", BGI_VERSION, "compiler", COMPILER, "cpu_isa",
                     isa_names[bgi_cpu_isa()], "host_cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *describe_data(const mnist_data *data)
{
    return json_pack("{s:s?, s:b, s:I, s:I}", "source", data->train.source, "generated", data->is_generated ? 1 : 0,
                     "training_images", (json_int_t)bg_dataset_sample_count(data->train_set), "test_images",
                     (json_int_t)bg_dataset_sample_count(data->test_set));
}

/* ---- places ---- */

bg_status mnist_log_check(const char *path, bg_error *error)
{
    const mnist_log log = {.path = path};
    struct stat about;
    bool is_new = stat(path, &about) != 0;
    FILE *stream;

    /* Opening a pipe waits for a reader: that comes later. */
    if (!is_new && S_ISFIFO(about.st_mode))
        return access(path, W_OK) == 0 ? BG_OK : report(&log, errno, error);
    stream = fopen(path, "a");
    if (stream == NULL)
        return report(&log, errno, error);
    fclose(stream);
    if (is_new)
        remove(path);
    return BG_OK;
}

/* Without blocking, so that a signal that comes at any moment ends the wait. -1 with errno 0: stopped. */
static int open_pipe(const char *path, const volatile sig_atomic_t *stop)
{
    static const struct timespec pause = {.tv_nsec = 20000000};

    while (!*stop) {
        int descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (descriptor >= 0) {
            fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
            return descriptor;
        }
        if (errno != ENXIO)
            return -1;
        nanosleep(&pause, NULL);
    }
    errno = 0;
    return -1;
}

static bool is_descriptor(const struct stat *about, int descriptor)
{
    struct stat other;

    return fstat(descriptor, &other) == 0 && other.st_dev == about->st_dev && other.st_ino == about->st_ino;
}

static int open_place(mnist_log *log, const volatile sig_atomic_t *stop)
{
    struct stat about;

    if (stat(log->path, &about) == 0) {
        if (is_descriptor(&about, STDOUT_FILENO))
            return dup(STDOUT_FILENO);
        if (is_descriptor(&about, STDERR_FILENO))
            return dup(STDERR_FILENO);
        if (S_ISFIFO(about.st_mode))
            return open_pipe(log->path, stop);
    }
    log->is_own = true;
    return open(log->path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
}

bg_status mnist_log_open(mnist_log *log, const mnist_config *config, const char *save_path, const mnist_data *data,
                         const mnist_runner *runner, const volatile sig_atomic_t *stop, bg_error *error)
{
    json_t *head;
    int descriptor;

    *log = (mnist_log){.path = config->log_path};
    if (log->path == NULL)
        return BG_OK;
    descriptor = open_place(log, stop);
    if (descriptor < 0)
        return *stop ? BG_OK : report(log, errno, error);
    log->stream = fdopen(descriptor, "a");
    if (log->stream == NULL) {
        close(descriptor);
        return report(log, errno, error);
    }
    head = json_pack("{s:o, s:o, s:o}", "config", describe_config(config, save_path, runner), "versions",
                     describe_versions(), "data", describe_data(data));
    BGI_TRY(write_line(log, head, error));
    return flush_lines(log, error);
}

/* ---- lines ---- */

static bg_status write_run(mnist_log *log, const mnist_runner *runner, uint64_t first_step, uint64_t epoch,
                           double images_per_s, bg_error *error)
{
    uint64_t count = runner->options.gradient_accumulation * runner->options.replicas;

    for (uint64_t step = 0; step < runner->options.device_iterations; step++) {
        json_t *line;
        double loss = 0.0, correct = 0.0, images = 0.0, counted = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t valid = mnist_runner_valid(runner, step * count + i);
            /* A mean over as good as no images: what padding left of a micro-batch counts by its share. */
            const double share = (double)valid / (double)runner->options.micro_batch;
            images += (double)valid;
            counted += share;
            loss += valid > 0 ? share * (double)runner->loss_all[step * count + i] : 0.0;
            correct += (double)runner->correct_all[step * count + i];
        }
        line = json_pack("{s:I, s:I, s:o, s:f}", "step", (json_int_t)(first_step + step), "epoch", (json_int_t)epoch,
                         "loss", real_or_null(loss / counted), "accuracy", 100.0 * correct / images);
        /* All replicas have the same norm. */
        if (runner->norm_all != NULL)
            json_object_set_new(line, "grad_norm",
                                real_or_null((double)runner->norm_all[step * runner->options.replicas]));
        json_object_set_new(line, "images_per_s", json_real(images_per_s));
        BGI_TRY(write_line(log, line, error));
    }
    return flush_lines(log, error);
}

void mnist_log_run(mnist_log *log, const mnist_runner *runner, uint64_t first_step, uint64_t epoch, double images_per_s)
{
    if (log->stream != NULL && write_run(log, runner, first_step, epoch, images_per_s, &log->failure) != BG_OK)
        mnist_log_close(log);
}

void mnist_log_close(mnist_log *log)
{
    bg_error *failure = log->failure.status == BG_OK ? &log->failure : NULL;
    int descriptor;

    if (log->stream == NULL)
        return;
    descriptor = log->is_own ? dup(fileno(log->stream)) : -1;
    errno = 0;
    if (fclose(log->stream) != 0 && failure != NULL)
        report(log, errno, failure);
    log->stream = NULL;
    if (descriptor < 0)
        return;
    /* A disk that filled up left half a line behind; what is no file cannot be cut, and need not be. */
    if (lseek(descriptor, 0, SEEK_END) > (off_t)log->good_bytes && ftruncate(descriptor, (off_t)log->good_bytes) != 0 &&
        errno != EINVAL && failure != NULL)
        report(log, errno, failure);
    close(descriptor);
}
