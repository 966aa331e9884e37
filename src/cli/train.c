/*
 * train.c: trains a model of the table: it reads the command line, compiles, and trains with the library's trainer. It
 * checks everything before the training begins. The functions in the model's row print the output and write the
 * result files.
 */
#include "cli/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/ranks.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"

void cli_training_note(cli_training *training, const bg_error *late)
{
    if (training->late.status == BG_OK)
        training->late = *late;
}

/* Passes events to the model. A failure of the model ends the training with the model's own error; after it, the model
 * gets no further events. */
static bg_status on_event(void *user, bg_trainer_event *event, bg_error *error)
{
    cli_training *training = user;

    (void)error;
    if (training->library->replay != NULL) {
        cli_bundle_report(event);
        return BG_OK;
    }
    if (training->failure.status == BG_OK)
        training->model->on_event(training, event, &training->failure);
    event->stop = event->stop || training->failure.status != BG_OK;
    return BG_OK;
}

static bg_status compile(cli_training *training, const cli_settings *settings, cli_build *build,
                         const bg_trainer_callback *callback, bg_error *error)
{
    bg_trainer_options *options = &build->trainer;
    bg_status status;

    BGI_TRY(cli_build_make(build, settings, training, error));
    options->strategy.training_options = &build->training;
    options->strategy.inference_options = build->has_inference ? &build->inference : NULL;
    options->callbacks = callback;
    options->callback_count = 1;
    cli_begin_compilation(build->quiet);
    status = bg_trainer_create(options, NULL, &training->trainer, error);
    if (status == BG_OK)
        status = bg_trainer_prepare(training->trainer, BG_TRAINER_FIT, error);
    cli_clear_line(build->quiet);
    return status;
}

/* Trains. After a failure of the model's on_event, the function returns that failure. */
static bg_status fit(cli_training *training, bg_error *error)
{
    const bg_trainer_data data = {.loader = training->loader, .names = training->inputs};
    const bg_trainer_data validation = {
        .dataset = training->validation, .names = training->inputs, .drop_rest = training->validation_drops};
    const double start_s = bgi_clock_s();
    const bg_session *session;
    bg_status status =
        bg_trainer_fit(training->trainer, &data, training->validation != NULL ? &validation : NULL, error);

    training->seconds = bgi_clock_s() - start_s;
    training->loader_statistics = bg_loader_statistics_of(training->loader);
    if (status == BG_OK && training->failure.status != BG_OK)
        status = bg_error_set(error, training->failure.status, "%s", training->failure.message);
    session = bg_trainer_session(training->trainer, BG_TRAINER_FIT);
    if (status == BG_OK)
        cli_ranks_share_signal(session != NULL && bg_session_is_asked_to_stop(session));
    return status;
}

static bg_status train(cli_training *training, const cli_build *build, bg_error *error)
{
    bg_loader_options loading = bg_loader_options_defaults();
    bg_status status = BG_OK;

    if (build->trainer.max_epochs > 0) {
        if (training->model->load != NULL)
            training->model->load(training, &loading);
        loading.batch_size = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);
        BGI_TRY(bg_loader_create(training->data, &loading, &training->loader, error));
        status = fit(training, error);
        bg_loader_destroy(training->loader);
        training->loader = NULL;
    }
    cli_log_close(&training->log);
    cli_training_note(training, &training->log.failure);
    return status;
}

static bg_status run(cli_training *training, const cli_settings *settings, bg_error *error)
{
    const cli_model *model = training->model;
    const bg_trainer_callback callback = {.function = on_event, .user = training};
    cli_build build;
    const bool replays = training->library->replay != NULL;
    bg_status status = model->open(training, error);

    if (status == BG_OK && replays)
        status = cli_bundle_open(training, error);
    if (status == BG_OK)
        status = compile(training, settings, &build, &callback, error);
    if (status == BG_OK && model->begin != NULL)
        status = model->begin(training, error);
    if (status == BG_OK)
        status = train(training, &build, error);
    if (status == BG_OK && model->finish != NULL && !replays)
        status = model->finish(training, error);
    if (status == BG_OK && training->failure.status != BG_OK) /* failure of an event after the training */
        status = bg_error_set(error, training->failure.status, "%s", training->failure.message);
    if (status == BG_OK && training->late.status != BG_OK)
        status = bg_error_set(error, training->late.status, "%s", training->late.message);
    cli_log_close(&training->log);
    bg_trainer_destroy(training->trainer); /* the trainer points into the build, so it is destroyed first */
    model->close(training);
    cli_bundle_close(training);
    bgi_folder_release(&training->folder);
    return status;
}

/* Trains the model or, with --compile-only, prints its plan. Returns the exit code. */
static int run_all(const cli_settings *settings, int argc, char **argv)
{
    const cli_model *model = settings->model;
    cli_training training = {.model = model,
                             .settings = settings->values,
                             .library = cli_settings_library(settings),
                             .code = CLI_FAILED,
                             .folder = -1,
                             .inputs = model->inputs,
                             .arguments = argv,
                             .argument_count = argc,
                             .state = calloc(1, model->state_bytes)};
    const bool compiles_only = training.library->options.execution.compile_only;
    bg_error error = {0};
    bg_status status = training.state != NULL ? BG_OK : bgi_error_memory(&error, "a training", model->state_bytes);
    int code = CLI_FAILED;

    cli_catch_signals();
    if (status == BG_OK && model->print != NULL)
        status = model->print(&training, &error);
    if (status == BG_OK && compiles_only) {
        code = cli_plan_show(settings, model->says, model->compile_only_parts, NULL, &error);
    } else if (status == BG_OK) {
        if (training.library->options.execution.planned_ranks > 0)
            cli_warn(model->says, "--ranks only describes ranks for --compile-only and `brigade plan`; `mpirun -n N "
                                  "brigade ...` starts them");
        if (model->measure != NULL)
            status = model->measure(settings->values, true, &error);
        if (status == BG_OK)
            status = run(&training, settings, &error);
        code = status == BG_OK ? CLI_DONE : training.code;
    }
    if (code != CLI_DONE && !(model->report_signal != NULL && !compiles_only && error.status == BG_ERROR_CANCELED &&
                              cli_received_signal != 0))
        code = cli_fail(model->says, code, &error);
    else if (model->report_signal != NULL && !compiles_only && cli_received_signal != 0)
        code = model->report_signal(&training);
    free(training.state);
    return code;
}

int cli_train(const cli_model *model, int argc, char **argv)
{
    cli_settings settings = {.model = NULL};
    bool is_answered = false;
    bg_error error = {0};
    char usage[1024];
    const cli_help_page page = {.usage = usage, .common = model->common, .examples = model->examples};
    int code = CLI_USAGE;

    snprintf(usage, sizeof usage, "Usage: brigade %s%s%s [OPTION]...\n%s", model->program,
             model->operand != NULL ? " " : "", model->operand != NULL ? model->operand : "", model->purpose);
    if (cli_settings_read(&settings, model, model->says, &page, argc, argv, NULL, &is_answered, &error) == BG_OK)
        code = is_answered ? CLI_DONE : model->resolve(settings.values, &error);
    if (code != CLI_DONE)
        code = cli_fail(model->says, code, &error);
    else if (!is_answered)
        code = run_all(&settings, argc, argv);
    cli_settings_clear(&settings);
    return code;
}
