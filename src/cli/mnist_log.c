/*
 * mnist_log.c: the log of a run as JSON lines: the first says everything that the run depends on, then one line for
 * each weight update. Every call's lines are flushed, so a reader sees a run as it goes, and whole lines only.
 */
#include "cli/mnist.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "kernels/kernels.h"

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

    return bg_error_set(error, BG_ERROR_IO, "%s: %s", log->path, bgi_errno_text(error_number, text));
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
    free(text);
    return is_written ? BG_OK : report(log, errno, error);
}

static bg_status flush_lines(mnist_log *log, bg_error *error)
{
    errno = 0;
    if (fflush(log->stream) != 0)
        return report(log, errno, error);
    log->good_bytes = ftell(log->stream);
    return BG_OK;
}

/* JSON has no infinity and no NaN: null stands for them. */
static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
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
    case CLI_HEADING:
        break;
    }
    return NULL;
}

static json_t *describe_config(const mnist_config *config)
{
    json_t *object = json_object();

    for (const cli_option *option = mnist_options; option->name != NULL || option->help != NULL; option++)
        if (option->kind != CLI_HEADING)
            json_object_set_new(object, option->name, option_value(option, config));
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

bg_status mnist_log_open(mnist_log *log, const mnist_config *config, const mnist_data *data, bg_error *error)
{
    json_t *head;

    *log = (mnist_log){.path = config->log_path};
    if (log->path == NULL)
        return BG_OK;
    log->stream = fopen(log->path, "w");
    if (log->stream == NULL)
        return report(log, errno, error);
    head = json_pack("{s:o, s:o, s:o}", "config", describe_config(config), "versions", describe_versions(), "data",
                     describe_data(data));
    BGI_TRY(write_line(log, head, error));
    return flush_lines(log, error);
}

bg_status mnist_log_run(mnist_log *log, const mnist_runner *runner, uint64_t first_step, uint64_t epoch,
                        double images_per_s, bg_error *error)
{
    uint64_t count = runner->options.gradient_accumulation * runner->options.replicas;
    double images = (double)(count * runner->options.micro_batch);

    if (log->stream == NULL)
        return BG_OK;
    for (uint64_t step = 0; step < runner->options.device_iterations; step++) {
        double loss = 0.0, correct = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            loss += (double)runner->loss_all[step * count + i];
            correct += (double)runner->correct_all[step * count + i];
        }
        BGI_TRY(write_line(log,
                           json_pack("{s:I, s:I, s:o, s:f, s:f}", "step", (json_int_t)(first_step + step), "epoch",
                                     (json_int_t)epoch, "loss", real_or_null(loss / (double)count), "accuracy",
                                     100.0 * correct / images, "images_per_s", images_per_s),
                           error));
    }
    return flush_lines(log, error);
}

bg_status mnist_log_close(mnist_log *log, bg_error *error)
{
    bg_status status = BG_OK;
    int descriptor;

    if (log->stream == NULL)
        return BG_OK;
    descriptor = dup(fileno(log->stream));
    errno = 0;
    if (fclose(log->stream) != 0)
        status = report(log, errno, error);
    log->stream = NULL;
    if (descriptor < 0)
        return status;
    /* A disk that filled up left half a line behind; what is no file cannot be cut, and need not be. */
    if (lseek(descriptor, 0, SEEK_END) > log->good_bytes && ftruncate(descriptor, log->good_bytes) != 0 &&
        errno != EINVAL && status == BG_OK)
        status = report(log, errno, error);
    close(descriptor);
    return status;
}
