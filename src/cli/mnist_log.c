/*
 * mnist_log.c: the log of a run as JSON lines: the first says everything that the run depends on, then one line for
 * each weight update. Every call's lines are flushed, so a reader sees a run as it goes, and whole lines only.
 */
#include "cli/mnist.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/isa.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

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
    case CLI_TEXT_LIST: /* there is none */
    case CLI_HEADING:
        break;
    }
    return NULL;
}

/* The number of workers that run, by the lines that describe them. */
static uint64_t count_workers(const bg_session *session)
{
    bg_error ignored = {0};
    char *text = NULL;
    uint64_t count = 0;

    if (bg_session_print_workers(session, &text, &ignored) != BG_OK)
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
static json_t *describe_config(const mnist_config *given, const char *save_path, const bg_session *session)
{
    mnist_config used = *given;
    const mnist_config *config = &used;
    json_t *object = json_object();
    bool is_single = strcmp(given->strategy, "single") == 0;

    used.cores = count_workers(session);
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
    set_null(object, "checkpoint-steps", used.checkpoint_steps == 0);
    set_null(object, "cores", used.cores == 0);
    set_null(object, "io-threads", used.io_threads == UINT64_MAX);
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

bg_status mnist_log_open(cli_log *log, const mnist_config *config, const char *save_path, const mnist_data *data,
                         const bg_session *session, bool continues, const volatile sig_atomic_t *stop, bg_error *error)
{
    BGI_TRY(cli_log_open(log, config->log_path, continues, stop, error));
    if (log->stream == NULL)
        return BG_OK;
    BGI_TRY(cli_log_write(log,
                          json_pack("{s:o, s:o, s:o}", "config", describe_config(config, save_path, session),
                                    "versions", describe_versions(), "data", describe_data(data)),
                          error));
    return cli_log_flush(log, error);
}

/* ---- lines ---- */

static bg_status write_call(cli_log *log, const bg_trainer_call *call, uint64_t epoch, bg_error *error)
{
    const uint64_t count = (uint64_t)call->gradient_accumulation * call->replicas;
    const float *losses = bg_trainer_call_output(call, "loss.all", NULL);
    const int32_t *corrects = bg_trainer_call_output(call, "correct.all", NULL);
    const float *norms = bg_trainer_call_output(call, "gradient_norm.all", NULL); /* NULL: not asked for */
    const float *scales = bg_trainer_call_output(call, "loss_scale.all", NULL);
    const double images_per_s = (double)call->valid_count / (1e-9 * (double)call->run_ns);

    for (uint64_t step = 0; step < call->device_iterations; step++) {
        json_t *line;
        double loss = 0.0, correct = 0.0, images = 0.0, counted = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t valid = bg_trainer_call_valid(call, step * count + i);
            /* A mean over as good as no images: what padding left of a micro-batch counts by its share. */
            const double share = (double)valid / (double)call->micro_batch;
            images += (double)valid;
            counted += share;
            loss += valid > 0 ? share * (double)losses[step * count + i] : 0.0;
            correct += (double)corrects[step * count + i];
        }
        line =
            json_pack("{s:I, s:I, s:o, s:f}", "step", (json_int_t)(call->first_update + 1 + step), "epoch",
                      (json_int_t)epoch, "loss", cli_json_real(loss / counted), "accuracy", 100.0 * correct / images);
        /* All replicas have the same norm and scale. */
        if (norms != NULL)
            json_object_set_new(line, "grad_norm", cli_json_real((double)norms[step * call->replicas]));
        if (scales != NULL)
            json_object_set_new(line, "loss_scale", json_real((double)scales[step * call->replicas]));
        json_object_set_new(line, "images_per_s", json_real(images_per_s));
        BGI_TRY(cli_log_write(log, line, error));
    }
    return cli_log_flush(log, error);
}

void mnist_log_call(cli_log *log, const bg_trainer_call *call, uint64_t epoch)
{
    if (log->stream != NULL && write_call(log, call, epoch, &log->failure) != BG_OK)
        cli_log_close(log);
}
