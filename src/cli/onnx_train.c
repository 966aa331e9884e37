/*
 * onnx_train.c: defines `brigade train MODEL.onnx` as a row of the models' table. It trains any model that another
 * framework has exported, on arrays from files.
 */
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/weights.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/narrow.h"
#include "core/text.h"

/* The state of a training run. */
typedef struct onnx_run {
    cli_run common;
    char score[CLI_SCORE_BYTES]; /* score of the newest call of the epoch; "" before the first call */
    double *sums; /* sums over the measured updates, for a metric that is a score; NULL for other metrics */
    uint64_t sum_count;
    bool is_catching_up; /* the current validation is that of the epoch before the checkpoint; only a plateau uses it */
} onnx_run;

/* ---- build ---- */

/* Requests loss and metric of every micro-batch in any output mode. */
static void add_requests(const onnx_settings *settings, cli_plan_room *room, bg_options *options)
{
    const char *metric = onnx_metric_name(settings);
    uint32_t count = 0;

    room->requests[count++] = (bg_output_request){.output = "loss", .name = "loss.all", .mode = BG_OUTPUT_ALL};
    if (metric != NULL)
        room->requests[count++] = (bg_output_request){.output = metric, .name = "metric.all", .mode = BG_OUTPUT_ALL};
    if (options->reporting.output_gradient_norm)
        room->requests[count++] =
            (bg_output_request){.output = "gradient_norm", .name = "norm.all", .mode = BG_OUTPUT_ALL};
    options->reporting.output_requests = room->requests;
    options->reporting.output_request_count = count;
}

static bg_status build(void *settings, const cli_training *training, cli_build *out, bg_error *error)
{
    onnx_settings *own = settings;
    cli_recipe *recipe = &own->recipe;
    bg_options *options = &out->training;

    *options = cli_recipe_options(recipe, &own->rooms[0]);
    options->reporting.trace = recipe->profile || options->reporting.trace;
    if (!bg_run_options_is_given(recipe->library.run_options, "trace_events"))
        options->reporting.trace_events = CLI_PROFILE_EVENTS;
    add_requests(own, &own->rooms[0], options);
    if (training != NULL) {
        out->inference = cli_recipe_options(recipe, &own->rooms[1]);
        out->inference.reporting.output_mode = BG_OUTPUT_ALL;
        out->inference.reporting.output_period = 0;
        out->inference.reporting.output_gradient_norm = false;
        out->inference.execution.device_iterations *= options->execution.gradient_accumulation;
        out->inference.execution.gradient_accumulation = 1;
        if (own->is_fixed_batch) /* leaves out samples that do not fill a call, which are few because calls are small */
            out->inference.execution.device_iterations = 1;
        cli_recipe_infer(recipe, &out->inference, &own->rooms[1]);
        out->has_inference = true;
    }
    out->plan_parts = CLI_PLAN_STAGES | CLI_PLAN_MEMORY | CLI_PLAN_TIMETABLE;
    if (recipe->debug)
        out->plan_parts |= CLI_PLAN_PROGRAM;
    out->quiet = recipe->quiet;
    out->trainer.model = onnx_model_add;
    out->trainer.model_user = own;
    out->trainer.cast_batches = true;
    if (onnx_metric_of(own) != NULL && onnx_metric_of(own)->kind == ONNX_METRIC_SCORE) {
        out->trainer.scores = &own->score;
        out->trainer.score_count = 1;
    }
    return cli_recipe_trainer(recipe, &out->trainer, error);
}

/* ---- the run ---- */

static void load(const cli_training *training, bg_loader_options *out)
{
    *out = cli_recipe_loading(&((const onnx_settings *)training->settings)->recipe);
}

static bg_status check_places(cli_training *training, onnx_run *run, bg_error *error)
{
    const onnx_settings *settings = training->settings;
    const cli_file model = {.option = "the model", .path = settings->path, .is_weights = true};

    BGI_TRY(cli_recipe_check_places(&settings->recipe, run->common.save_path, &training->folder, error));
    if (cli_recipe_check_distinct(&settings->recipe, run->common.save_path, &model, 1, error) == BG_OK)
        return BG_OK;
    training->code = CLI_USAGE;
    return error->status;
}

static void print_start(const onnx_settings *settings)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(settings->onnx);
    const char *metric = onnx_metric_name(settings);
    uint64_t parameters = 0;
    uint32_t tensors = 0;

    for (uint32_t i = 0; i < contents->weight_count; i++)
        if (contents->weights[i].use == BG_ONNX_PARAMETER) {
            parameters += (uint64_t)bg_type_element_count(&contents->weights[i].type);
            tensors++;
        }
    printf("Model: %s (%s, opset %" PRId64 "), %" PRIu64 " parameters in %u tensor%s\n", settings->path,
           contents->producer[0] != '\0' ? contents->producer : "unknown producer", contents->opset, parameters,
           tensors, cli_s(tensors));
    printf("Data: %" PRIu64 " samples", bg_dataset_sample_count(settings->data.set));
    onnx_print_skipped(settings, &settings->data);
    if (settings->test.set != NULL) {
        printf(", %" PRIu64 " for validation", bg_dataset_sample_count(settings->test.set));
        onnx_print_skipped(settings, &settings->test);
    }
    printf("; loss: %s%s%s", settings->loss_name != NULL ? settings->loss_name : settings->loss->name,
           metric != NULL ? "; metric: " : "", metric != NULL ? metric : "");
    printf("; micro-batches of %" PRIu64 "\n", settings->recipe.batch_size);
    onnx_print_normalizations(settings);
}

/* Records the normalization for checkpoints, and for the comparison with other ranks, whose files may differ. */
static bg_status record_normalization(onnx_settings *settings, bg_error *error)
{
    const char *text;

    BGI_TRY(onnx_describe_normalizations(settings, error));
    settings->recipe.normalization = text = settings->normalization_text;
    if (text != NULL)
        cli_ranks_agree("normalization %.100s, checksum %08" PRIx32 "\n", text, bgi_crc32c(text, strlen(text)));
    return BG_OK;
}

static bg_status open_run(cli_training *training, bg_error *error)
{
    onnx_settings *settings = training->settings;
    onnx_run *run = training->state;

    if (settings->data.set == NULL) {
        training->code = CLI_USAGE;
        return bg_error_set(error, BG_ERROR_INVALID,
                            "no data are given; give --input NAME=FILE for each input of the model, and --target FILE");
    }
    cli_recipe_agree(&settings->recipe);
    cli_ranks_agree("samples %" PRIu64 "\nloss %s\nvalidation %d\n", bg_dataset_sample_count(settings->data.set),
                    settings->loss_name != NULL ? settings->loss_name : settings->loss->name,
                    settings->test.set != NULL);
    BGI_TRY(record_normalization(settings, error));
    run->common.save_path = settings->recipe.save_path;
    BGI_TRY(check_places(training, run, error));
    training->data = settings->data.set;
    training->inputs = settings->data.names;
    training->validation = settings->test.set;
    training->validation_drops = settings->is_fixed_batch;
    if (settings->recipe.profile)
        printf("Profiling is enabled.\n");
    if (!settings->recipe.quiet)
        print_start(settings);
    fflush(stdout);
    return BG_OK;
}

/* Allocates memory for the sums of a score. */
static bg_status make_sums(const cli_training *training, onnx_run *run, bg_error *error)
{
    const onnx_metric *metric = onnx_metric_of(training->settings);
    const bg_session *session = bg_trainer_session(training->trainer, BG_TRAINER_FIT);
    bg_stream stream;

    if (metric == NULL || metric->kind != ONNX_METRIC_SCORE)
        return BG_OK;
    BGI_TRY(bg_session_output(session, bg_session_find_output(session, "metric.all"), &stream, error));
    run->sum_count = (uint64_t)bg_type_element_count(&stream.micro_batch_type);
    run->sums = calloc((size_t)run->sum_count, sizeof *run->sums);
    return run->sums != NULL ? BG_OK : bgi_error_memory(error, "a metric", (size_t)run->sum_count * sizeof *run->sums);
}

/* Runs the validation that a checkpoint lacks. A checkpoint at the end of an epoch is written before the epoch's
 * validation, which the plateau still needs. */
static bg_status catch_up(cli_training *training, bg_error *error)
{
    const bg_trainer_data data = {
        .dataset = training->validation, .names = training->inputs, .drop_rest = training->validation_drops};
    onnx_run *run = training->state;
    bg_status status;

    run->is_catching_up = true;
    status = bg_trainer_validate(training->trainer, &data, error);
    run->is_catching_up = false;
    return status;
}

static bg_status begin(cli_training *training, bg_error *error)
{
    onnx_settings *settings = training->settings;
    cli_recipe *recipe = &settings->recipe;
    bg_weights *weights = bg_trainer_weights(training->trainer);
    onnx_run *run = training->state;
    bool owes_validation = false;

    BGI_TRY(bg_onnx_set_weights(settings->onnx, weights, error));
    if (recipe->init_path != NULL)
        BGI_TRY(cli_weights_load(weights, &recipe->init, recipe->init_path, error));
    printf("Training...\n");
    fflush(stdout);
    BGI_TRY(cli_checkpoint_resume(recipe, training, &run->common.is_resumed, &owes_validation, error));
    BGI_TRY(cli_checkpoint_reserve(recipe, training, error));
    if (training->validation != NULL)
        BGI_TRY(bg_trainer_prepare(training->trainer, BG_TRAINER_VALIDATE, error));
    if (owes_validation && training->validation != NULL)
        BGI_TRY(catch_up(training, error));
    BGI_TRY(make_sums(training, run, error));
    if (!recipe->quiet)
        cli_report_compilation(bg_session_plan(bg_trainer_session(training->trainer, BG_TRAINER_FIT)));
    if (!recipe->quiet && recipe->debug)
        BGI_TRY(cli_run_print_debug(training->trainer, error));
    return cli_log_open(&training->log, recipe->log_path, run->common.is_resumed, &cli_received_signal, error);
}

/* ---- calls ---- */

/* The results of one or several updates. */
typedef struct outcome {
    double loss, metric;
    double counted; /* number of micro-batches; a partly filled one counts by its share */
} outcome;

/* Returns values[at] as double. A loss has the type of the model (float32, double or a 16-bit float), and counts are
 * integers. */
static double read_number(bg_dtype dtype, const void *values, uint64_t at)
{
    switch (dtype) {
    case BG_INT32:
        return (double)((const int32_t *)values)[at];
    case BG_FLOAT64:
        return ((const double *)values)[at];
    case BG_FLOAT16:
    case BG_BFLOAT16:
        return (double)bgi_narrow_to_float(dtype, ((const uint16_t *)values)[at]);
    default:
        return (double)((const float *)values)[at];
    }
}

/* Returns the score over the micro-batches `first` .. `end` - 1. */
static double measure_score(const onnx_settings *settings, const onnx_run *run, const bg_trainer_call *call,
                            const void *sums, bg_dtype dtype, uint64_t first, uint64_t end)
{
    double score = NAN;

    memset(run->sums, 0, (size_t)run->sum_count * sizeof *run->sums);
    for (uint64_t i = first; i < end; i++)
        for (uint64_t e = 0; bg_trainer_call_valid(call, i) > 0 && e < run->sum_count; e++)
            run->sums[e] += read_number(dtype, sums, i * run->sum_count + e);
    bg_score_compute(&settings->score, run->sums, run->sum_count, &score, NULL);
    return score;
}

/* Measures updates `first` .. `end` - 1 of the call. A count becomes a percentage of all predictions, and a score is
 * computed from sums. The loss and other metrics are means over micro-batches. */
static outcome measure(const cli_training *training, const bg_trainer_call *call, uint64_t first, uint64_t end)
{
    const onnx_settings *settings = training->settings;
    const onnx_run *run = training->state;
    const uint64_t each = (uint64_t)call->gradient_accumulation * call->replicas;
    bg_stream loss_stream = {0}, stream = {0};
    const void *losses = bg_trainer_call_output(call, "loss.all", &loss_stream);
    const void *metrics = bg_trainer_call_output(call, "metric.all", &stream);
    const bool is_score = run->sums != NULL;
    const bool is_count = metrics != NULL && stream.micro_batch_type.dtype == BG_INT32;
    outcome o = {.loss = 0.0};
    double samples = 0.0;

    for (uint64_t i = first * each; i < end * each; i++) {
        const uint64_t valid = bg_trainer_call_valid(call, i);
        const double share = (double)valid / (double)call->micro_batch;

        o.counted += share;
        samples += (double)valid;
        o.loss += valid > 0 ? share * read_number(loss_stream.micro_batch_type.dtype, losses, i) : 0.0;
        if (metrics != NULL && !is_score)
            o.metric += (is_count ? 1.0 : share) * read_number(stream.micro_batch_type.dtype, metrics, i);
    }
    o.loss /= o.counted;
    if (is_score && metrics != NULL)
        o.metric = measure_score(settings, run, call, metrics, stream.micro_batch_type.dtype, first * each, end * each);
    else
        o.metric *= is_count ? 100.0 / (samples * onnx_rows_per_sample(settings)) : 1.0 / o.counted;
    return o;
}

static double rate_of(const cli_recipe *recipe, uint64_t update)
{
    return recipe->rate_schedule != NULL ? bg_rate_at((void *)(uintptr_t)&recipe->rate, update) : recipe->learning_rate;
}

static bg_status log_updates(cli_training *training, const bg_trainer_call *call, uint64_t epoch, bg_error *error)
{
    const onnx_settings *settings = training->settings;
    const char *metric = onnx_metric_name(settings);
    const float *norms = bg_trainer_call_output(call, "norm.all", NULL);

    for (uint64_t i = 0; i < call->update_count; i++) {
        const outcome o = measure(training, call, i, i + 1);
        bgi_json_writer line = {.depth = 0};

        bgi_json_open(&line, NULL, '{');
        bgi_json_count(&line, "step", call->first_update + i + 1);
        bgi_json_count(&line, "epoch", epoch);
        bgi_json_real(&line, "loss", o.loss, CLI_LOG_DIGITS);
        if (metric != NULL)
            bgi_json_real(&line, metric, o.metric, CLI_LOG_DIGITS);
        bgi_json_real(&line, "lr", rate_of(&settings->recipe, call->first_update + i), CLI_LOG_DIGITS);
        if (norms != NULL)
            bgi_json_real(&line, "grad_norm", (double)norms[i * call->replicas], CLI_LOG_DIGITS);
        bgi_json_real(&line, "samples_per_s", (double)call->valid_count / (1e-9 * (double)call->run_ns),
                      CLI_LOG_DIGITS);
        bgi_json_close(&line, '}');
        BGI_TRY(cli_log_write(&training->log, &line, error));
    }
    return cli_log_flush(&training->log, error);
}

static void print_score(const onnx_settings *settings, double loss, double value, char *text, size_t size)
{
    const onnx_metric *metric = onnx_metric_of(settings);
    int length = snprintf(text, size, "Loss:%0.4f", loss);

    if (metric != NULL)
        snprintf(text + length, size - (size_t)length,
                 metric->kind == ONNX_METRIC_SHARE ? " | %s:%0.2f%%" : " | %s:%0.4g", metric->label, value);
}

static void end_call(cli_training *training, const bg_trainer_event *event)
{
    const onnx_settings *settings = training->settings;
    const bg_trainer_call *call = event->call;
    const outcome o = measure(training, call, 0, call->update_count);
    onnx_run *run = training->state;

    if (training->log.stream != NULL && log_updates(training, call, event->epoch + 1, &training->log.failure) != BG_OK)
        cli_log_close(&training->log); /* the training continues */
    for (uint64_t i = 0; i < call->update_count && run->common.bad_first == 0; i++) {
        const double loss = measure(training, call, i, i + 1).loss;
        if (!isfinite(loss)) {
            run->common.bad_loss = loss;
            run->common.bad_first = run->common.bad_last = call->first_update + i + 1;
        }
    }
    cli_run_add_call(&run->common, call);
    print_score(settings, o.loss, o.metric, run->score, sizeof run->score);
}

/* ---- validation ---- */

static bg_status log_validation(cli_training *training, uint64_t epoch, double loss, double metric, bg_error *error)
{
    const char *name = onnx_metric_name(training->settings);
    bgi_json_writer line = {.depth = 0};

    bgi_json_open(&line, NULL, '{');
    bgi_json_count(&line, "step", bg_trainer_step(training->trainer));
    bgi_json_count(&line, "epoch", epoch);
    bgi_json_open(&line, "validation", '{');
    bgi_json_real(&line, "loss", loss, CLI_LOG_DIGITS);
    if (name != NULL)
        bgi_json_real(&line, name, metric, CLI_LOG_DIGITS);
    bgi_json_close(&line, '}');
    bgi_json_close(&line, '}');
    BGI_TRY(cli_log_write(&training->log, &line, error));
    return cli_log_flush(&training->log, error);
}

/* Stores the metric for the checkpoint at the end of the epoch. */
static void note_metric(const onnx_settings *settings, onnx_run *run, double loss, double value)
{
    const char *best = settings->recipe.checkpoint_best;

    if (best == NULL)
        return;
    if (strcmp(best, "loss") == 0)
        run->common.metric = (cli_metric){"loss", loss, false};
    else
        run->common.metric = (cli_metric){best, value, onnx_metric_rises(onnx_metric_of(settings))};
}

/* Ends the epoch's progress line, and prints and logs the result of a validation. The function is called before the end
 * of the epoch. */
static bg_status end_validation(cli_training *training, const bg_trainer_event *event, bg_error *error)
{
    onnx_settings *settings = training->settings;
    const char *name = onnx_metric_name(settings);
    bg_trainer_metric loss, metric = {.mean = 0.0};
    onnx_run *run = training->state;
    char text[CLI_SCORE_BYTES];
    double value = 0.0;

    if (bg_trainer_was_stopped(event->trainer) || cli_received_signal != 0)
        return BG_OK;
    BGI_TRY(bg_trainer_metric_find(event->trainer, BG_TRAINER_VALIDATE, "loss", &loss, error));
    if (run->is_catching_up) {
        cli_recipe_report(&settings->recipe, loss.mean);
        return BG_OK;
    }
    if (name != NULL) {
        BGI_TRY(bg_trainer_metric_find(event->trainer, BG_TRAINER_VALIDATE, name, &metric, error));
        value = metric.is_count ? 100.0 * metric.sum / ((double)metric.samples * onnx_rows_per_sample(settings))
                                : metric.mean;
    }
    if (training->log.stream != NULL &&
        log_validation(training, event->epoch + 1, loss.mean, value, &training->log.failure) != BG_OK)
        cli_log_close(&training->log);
    if (run->common.progress.total > 0) {
        cli_progress_end(&run->common.progress, run->score[0] != '\0' ? run->score : NULL);
        run->common.progress.total = 0; /* the end of the epoch must not end the line again */
    }
    print_score(settings, loss.mean, value, text, sizeof text);
    printf("Validation: %s\n", text);
    note_metric(settings, run, loss.mean, value);
    cli_recipe_report(&settings->recipe, loss.mean);
    fflush(stdout);
    return BG_OK;
}

static bg_status on_event(cli_training *training, bg_trainer_event *event, bg_error *error)
{
    const onnx_settings *settings = training->settings;
    onnx_run *run = training->state;
    cli_progress *progress = &run->common.progress;
    const char *score = run->score[0] != '\0' ? run->score : NULL;

    if (event->kind == BG_ON_VALIDATION_END)
        return end_validation(training, event, error);
    if (event->task != BG_TRAINER_FIT)
        return BG_OK;
    if (event->kind == BG_ON_EPOCH_START) {
        run->score[0] = '\0';
        cli_run_begin_epoch(&settings->recipe, &run->common, event);
    } else if (event->kind == BG_ON_CALL_END) {
        end_call(training, event);
        cli_run_complete_checkpoint(&settings->recipe, &run->common, false);
    } else if (event->kind == BG_ON_BATCH_END) {
        cli_progress_add(progress, event->valid_count, score);
    } else if (event->kind == BG_ON_REFUSED_UPDATE) {
        cli_run_note_refused(&settings->recipe, training, &run->common, event);
    } else if (event->kind == BG_ON_SAVE_CHECKPOINT) {
        cli_run_save_checkpoint(&settings->recipe, training, &run->common, event);
    } else if (event->kind == BG_ON_EPOCH_END) {
        if (progress->total > 0)
            cli_progress_end(progress, score);
        cli_run_end_epoch(&settings->recipe, training, &run->common, event);
    }
    return BG_OK;
}

/* ---- the end ---- */

static bool is_model(const char *path)
{
    return bgi_text_ends_with(path, ".onnx");
}

static bg_status write_weights(void *user, bg_error *error)
{
    const cli_training *training = user;
    const onnx_settings *settings = training->settings;
    const onnx_run *run = training->state;
    const char *path = run->common.save_path;
    bg_weights *weights = bg_trainer_weights(training->trainer);

    if (is_model(path))
        return bg_onnx_save_weights(settings->onnx, weights, path, error);
    return bg_weights_save(weights, path, NULL, error);
}

/* Saves the weights, also when a signal ended the training early. */
static bg_status save(cli_training *training, bg_error *error)
{
    onnx_settings *settings = training->settings;
    onnx_run *run = training->state;
    bg_session *session = bg_trainer_session(training->trainer, BG_TRAINER_FIT);

    if (!cli_run_wants_save(&settings->recipe, &run->common)) {
        if (run->common.updates > 0 && !settings->recipe.quiet)
            printf("Nothing is saved; --save OUT.onnx keeps the trained weights\n");
        return BG_OK;
    }
    run->common.is_saved = onnx_write_normalizations(settings, error) == BG_OK &&
                           bg_session_read_weights(session, 0, write_weights, training, error) == BG_OK;
    if (!run->common.is_saved)
        return bg_error_context(error, error->status, "--save");
    printf("Weights saved to %s\n", run->common.save_path);
    if (!settings->recipe.quiet)
        onnx_print_advice(settings, is_model(run->common.save_path));
    return BG_OK;
}

static bg_status finish(cli_training *training, bg_error *error)
{
    const onnx_settings *settings = training->settings;
    const cli_recipe *recipe = &settings->recipe;
    onnx_run *run = training->state;
    bg_status status;

    run->common.has_trained = run->common.updates > 0;
    cli_run_complete_checkpoint(recipe, &run->common, true);
    cli_run_note_failures(training, &run->common);
    cli_run_print_result(recipe, training, &run->common);
    status = save(training, error);
    fflush(stdout);
    if (status == BG_OK && recipe->profile && run->common.has_trained)
        status = cli_profile_write(recipe, training, &run->common, settings->path, error);
    if (status == BG_OK)
        cli_run_print_verdict(recipe, training, &run->common);
    return status;
}

/* Frees the state of the run. Data and model belong to the settings. */
static void close_run(cli_training *training)
{
    free(((onnx_run *)training->state)->sums);
    training->data = training->validation = NULL;
}

static int report_signal(const cli_training *training)
{
    const onnx_run *run = training->state;

    return cli_run_report_signal(&((const onnx_settings *)training->settings)->recipe, &run->common);
}

const cli_model cli_model_train = {
    .name = "train",
    .program = "train",
    .says = "train",
    .summary = "train a model that another framework has exported (ONNX)",
    .purpose = "Trains a model that another framework has exported as ONNX, on data from files.\n",
    .plan = "Shows stages, memory and timetable of `brigade train` with the same options. Data are not needed: "
            "--size gives symbolic dimensions, --loss the loss.\n",
    .common = "input target loss epochs batch-size optimizer learning-rate save checkpoint resume",
    .examples = "brigade train digits.onnx --input images=digits/train-images-idx3-ubyte.gz --target "
                "digits/train-labels-idx1-ubyte.gz\n"
                "brigade train digits.onnx --input images=digits/train-images-idx3-ubyte.gz --target "
                "digits/train-labels-idx1-ubyte.gz --stages auto:2 --steps 20 --save trained.onnx\n",
    .plan_examples = "brigade plan train digits.onnx --stages auto:2 --loss cross-entropy\n",
    .samples = "samples",
    .operand = "MODEL.onnx",
    .operand_at = offsetof(onnx_settings, path),

    .flags = onnx_train_flags,
    .library_flags = BGI_COMMAND_MNIST,
    .settings_bytes = sizeof(onnx_settings),
    .library = offsetof(onnx_settings, recipe.library),
    .set_defaults = onnx_set_defaults,
    .resolve = onnx_resolve,
    .clear_settings = onnx_clear_settings,

    .build = build,

    .load = load,

    .state_bytes = sizeof(onnx_run),
    .open = open_run,
    .begin = begin,
    .on_event = on_event,
    .finish = finish,
    .close = close_run,
    .report_signal = report_signal,
};
