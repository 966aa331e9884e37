/*
 * mnist_log.c: writes the log of a run as JSON lines. The first line contains everything that the run depends on; one
 * line for each weight update follows. The lines of a call are flushed together, so a reader sees whole lines while a
 * run proceeds.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/isa.h"
#include "core/threads.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

/* Writes null, the value, or an array of values. */
static void add_list(bgi_json_writer *line, const cli_option *option, const void *list)
{
    const uint32_t count = *(const uint32_t *)list;
    const bool is_one = count == 1 && option->kind == CLI_SIZE_LIST;

    if (count == 0) {
        bgi_json_null(line, option->name);
        return;
    }
    if (!is_one)
        bgi_json_open(line, option->name, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (option->kind == CLI_REAL_LIST)
            bgi_json_real(line, NULL, ((const cli_reals *)list)->values[i], CLI_LOG_DIGITS);
        else if (option->kind == CLI_SIZE_LIST)
            bgi_json_count(line, is_one ? option->name : NULL, ((const cli_sizes *)list)->values[i]);
        else
            bgi_json_count(line, NULL, ((const cli_counts *)list)->values[i]);
    }
    if (!is_one)
        bgi_json_close(line, ']');
}

/* Writes a string. A path may not be UTF-8, but the log is, so invalid bytes become question marks. */
static void add_text(bgi_json_writer *line, const char *key, const char *text)
{
    char *copy = text != NULL && !bgi_text_is_utf8(text) ? strdup(text) : NULL;

    for (size_t at = 0, left = copy != NULL ? strlen(copy) : 0, step; left > 0; at += step, left -= step) {
        step = bgi_utf8_bytes((const unsigned char *)copy + at, left);
        if (step == 0) {
            copy[at] = '?';
            step = 1;
        }
    }
    bgi_json_text(line, key, copy != NULL ? copy : text);
    free(copy);
}

/* Writes a count. Many readers of JSON have no integers above 2^63 - 1, so a larger value, such as a seed, is written
 * as a string. */
static void add_count(bgi_json_writer *line, const char *name, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%" PRIu64, value);
    if (value > INT64_MAX)
        bgi_json_text(line, name, digits);
    else
        bgi_json_count(line, name, value);
}

static void add_row_list(bgi_json_writer *line, const bgi_option *row, const bg_options *options)
{
    const void *elements = *(const void *const *)(const void *)((const char *)options + row->offset);
    const uint32_t count = *(const uint32_t *)(const void *)((const char *)options + row->count_offset);

    if (elements == NULL || count == 0) {
        bgi_json_null(line, row->flag);
        return;
    }
    bgi_json_open(line, row->flag, '[');
    for (uint32_t i = 0; i < count; i++)
        if (row->kind == BGI_OPTION_REALS)
            bgi_json_real(line, NULL, ((const double *)elements)[i], CLI_LOG_DIGITS);
        else
            bgi_json_count(line, NULL, ((const uint32_t *)elements)[i]);
    bgi_json_close(line, ']');
}

/* Writes a flag of the library's options with the option's value. */
static void add_row(bgi_json_writer *line, const bgi_option *row, const bg_options *options)
{
    const void *value = (const char *)options + row->offset;
    bgi_string text = {0};

    switch (row->kind) {
    case BGI_OPTION_BOOL:
        bgi_json_bool(line, row->flag, *(const bool *)value);
        break;
    case BGI_OPTION_COUNT:
        bgi_json_count(line, row->flag, *(const uint32_t *)value);
        break;
    case BGI_OPTION_SEED:
        add_count(line, row->flag, *(const uint64_t *)value);
        break;
    case BGI_OPTION_INTEGER:
        bgi_json_integer(line, row->flag, *(const int32_t *)value);
        break;
    case BGI_OPTION_REAL:
        bgi_json_real(line, row->flag, *(const double *)value, CLI_LOG_DIGITS);
        break;
    case BGI_OPTION_TEXT:
    case BGI_OPTION_SCHEDULE:
        add_text(line, row->flag, *(const char *const *)value);
        break;
    case BGI_OPTION_COUNTS:
    case BGI_OPTION_REALS:
        add_row_list(line, row, options);
        break;
    default:
        bgi_option_print(row, options, &text);
        bgi_json_text(line, row->flag, text.data);
        bgi_string_clear(&text);
    }
}

static void add_option(bgi_json_writer *line, const cli_option *option, const mnist_config *config)
{
    const void *value = (const char *)config + option->offset;

    if (option->row != NULL) {
        add_row(line, option->row, value);
        return;
    }
    switch (option->kind) {
    case CLI_FLAG:
        bgi_json_bool(line, option->name, *(const bool *)value);
        break;
    case CLI_COUNT:
    case CLI_SIZE:
        add_count(line, option->name, *(const uint64_t *)value);
        break;
    case CLI_REAL:
        bgi_json_real(line, option->name, *(const double *)value, CLI_LOG_DIGITS);
        break;
    case CLI_TEXT:
    case CLI_CHOICE:
        add_text(line, option->name, *(const char *const *)value);
        break;
    case CLI_COUNT_LIST:
    case CLI_SIZE_LIST:
    case CLI_REAL_LIST:
        add_list(line, option, value);
        break;
    default: /* the table has no options of other kinds */
        break;
    }
}

/* Returns the number of running workers, counted in the text that describes them. */
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

/* Whether the number of option `name` means that no value was given. */
static bool is_null(const char *name, const mnist_config *config)
{
    const bg_execution_options *execution = &config->recipe.library.options.execution;

    return (strcmp(name, "devices") == 0 && execution->device_count == 0) ||
           (strcmp(name, "steps") == 0 && config->recipe.steps == 0) ||
           (strcmp(name, "checkpoint-steps") == 0 && config->recipe.checkpoint_steps == 0) ||
           (strcmp(name, "checkpoint-keep") == 0 && config->recipe.checkpoint_keep == 0) ||
           (strcmp(name, "checkpoint-keep-every") == 0 && config->recipe.checkpoint_interval_s == 0) ||
           (strcmp(name, "cores") == 0 && execution->cores == 0) ||
           (strcmp(name, "io-threads") == 0 && execution->io_threads < 0);
}

/* Writes the configuration. Values that were not given are those that the run used, or null. */
static void add_config(bgi_json_writer *line, const mnist_config *given, const char *save_path, const bg_plan *plan,
                       const bg_session *session)
{
    mnist_config used = *given;
    bg_execution_options *execution = &used.recipe.library.options.execution;

    execution->cores = (uint32_t)count_workers(session);
    used.recipe.save_path = save_path;
    if (execution->schedule == NULL && execution->strategy == BG_STRATEGY_PIPELINED)
        execution->schedule = bg_plan_schedule_name(plan);
    if (execution->stages == NULL)
        execution->stages = execution->strategy == BG_STRATEGY_SINGLE ? "B1,B2,B3,B4" : "B1|B2|B3|B4";
    if (!used.recipe.profile)
        used.recipe.profile_dir = NULL;
    else if (used.recipe.profile_dir == NULL)
        used.recipe.profile_dir = CLI_PROFILE_DIR;

    bgi_json_open(line, "config", '{');
    for (const cli_option *option = used.recipe.library.table->options; option->name != NULL || option->help != NULL;
         option++) {
        if (option->kind == CLI_HEADING)
            continue;
        if (is_null(option->name, &used))
            bgi_json_null(line, option->name);
        else
            add_option(line, option, &used);
    }
    bgi_json_close(line, '}');
}

static void add_versions(bgi_json_writer *line)
{
    bgi_json_open(line, "versions", '{');
    bgi_json_text(line, "brigade", bg_version());
    bgi_json_text(line, "compiler", COMPILER);
    bgi_json_text(line, "cpu_isa", bgi_isa_name(bgi_cpu_isa()));
    bgi_json_count(line, "host_cores", bgi_processors_online());
    bgi_json_close(line, '}');
}

static void add_data(bgi_json_writer *line, const mnist_data *data)
{
    bgi_json_open(line, "data", '{');
    add_text(line, "source", data->train.source);
    bgi_json_bool(line, "generated", data->is_generated);
    bgi_json_count(line, "training_images", bg_dataset_sample_count(data->train_set));
    bgi_json_count(line, "test_images", bg_dataset_sample_count(data->test_set));
    bgi_json_close(line, '}');
}

bg_status mnist_log_open(cli_log *log, const mnist_config *config, const char *save_path, const mnist_data *data,
                         const bg_plan *plan, const bg_session *session, bool continues,
                         const volatile sig_atomic_t *stop, bg_error *error)
{
    bgi_json_writer line = {.depth = 0};

    BGI_TRY(cli_log_open(log, config->recipe.log_path, continues, stop, error));
    if (log->stream == NULL)
        return BG_OK;
    bgi_json_open(&line, NULL, '{');
    add_config(&line, config, save_path, plan, session);
    add_versions(&line);
    add_data(&line, data);
    bgi_json_close(&line, '}');
    BGI_TRY(cli_log_write(log, &line, error));
    return cli_log_flush(log, error);
}

/* ---- lines ---- */

static bg_status write_call(cli_log *log, const bg_trainer_call *call, uint64_t epoch, bg_error *error)
{
    const uint64_t count = (uint64_t)call->gradient_accumulation * call->replicas;
    const float *losses = bg_trainer_call_output(call, "loss.all", NULL);
    const int32_t *corrects = bg_trainer_call_output(call, "correct.all", NULL);
    const float *norms = bg_trainer_call_output(call, "gradient_norm.all", NULL); /* NULL: not requested */
    const float *scales = bg_trainer_call_output(call, "loss_scale.all", NULL);
    const double images_per_s = (double)call->valid_count / (1e-9 * (double)call->run_ns);

    for (uint64_t step = 0; step < call->device_iterations; step++) {
        bgi_json_writer line = {.depth = 0};
        double loss = 0.0, correct = 0.0, images = 0.0, counted = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t valid = bg_trainer_call_valid(call, step * count + i);
            /* A micro-batch with padding counts by its share of images, so that a few images do not count like a whole
             * micro-batch. */
            const double share = (double)valid / (double)call->micro_batch;
            images += (double)valid;
            counted += share;
            loss += valid > 0 ? share * (double)losses[step * count + i] : 0.0;
            correct += (double)corrects[step * count + i];
        }
        bgi_json_open(&line, NULL, '{');
        bgi_json_count(&line, "step", call->first_update + 1 + step);
        bgi_json_count(&line, "epoch", epoch);
        bgi_json_real(&line, "loss", loss / counted, CLI_LOG_DIGITS);
        bgi_json_real(&line, "accuracy", 100.0 * correct / images, CLI_LOG_DIGITS);
        /* All replicas have the same norm and scale. */
        if (norms != NULL)
            bgi_json_real(&line, "grad_norm", (double)norms[step * call->replicas], CLI_LOG_DIGITS);
        if (scales != NULL)
            bgi_json_real(&line, "loss_scale", (double)scales[step * call->replicas], CLI_LOG_DIGITS);
        bgi_json_real(&line, "images_per_s", images_per_s, CLI_LOG_DIGITS);
        bgi_json_close(&line, '}');
        BGI_TRY(cli_log_write(log, &line, error));
    }
    return cli_log_flush(log, error);
}

void mnist_log_call(cli_log *log, const bg_trainer_call *call, uint64_t epoch)
{
    if (log->stream != NULL && write_call(log, call, epoch, &log->failure) != BG_OK)
        cli_log_close(log);
}
