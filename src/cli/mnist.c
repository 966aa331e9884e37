/*
 * mnist.c: `brigade mnist`, the pipelining tutorial's program, as a row of the models' table.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"

static const char default_save_path[] = "brigade-mnist.safetensors";

/* ---- options ---- */

static void set_defaults(void *settings, const char *command)
{
    mnist_config *config = settings;

    *config = mnist_config_defaults();
    config->command = command;
}

static int resolve(void *settings, bg_error *error)
{
    mnist_config *config = settings;
    const int code = mnist_ipu_resolve(config, error);

    config->log_path = cli_ranks_log(config->log_path);
    if (code == CLI_DONE &&
        (mnist_config_read_options(config, error) != BG_OK || mnist_config_check(config, error) != BG_OK))
        return CLI_USAGE;
    return code;
}

static void clear_settings(void *settings)
{
    mnist_config_clear(settings);
}

/* ---- build ---- */

static bg_status measure(void *settings, bool may_run, bg_error *error)
{
    return mnist_costs_find(settings, may_run, error);
}

static bg_status build(void *settings, const cli_training *training, cli_build *out, bg_error *error)
{
    mnist_config *config = settings;
    const mnist_shape shape = mnist_training_shape(config);
    bg_trainer_options *options = &out->trainer;

    out->training = mnist_shape_options(config, &shape, &config->rooms[0]);
    out->is_measured = config->costs.stage_count > 0;
    out->plan_parts = CLI_PLAN_STAGES | CLI_PLAN_MEMORY | CLI_PLAN_TIMETABLE;
    if (config->debug)
        out->plan_parts |= CLI_PLAN_PROGRAM;
    out->quiet = config->quiet;
    options->model = mnist_model_add;
    options->model_user = config;
    options->micro_batch[BG_TRAINER_FIT] = (uint32_t)shape.micro_batch;
    options->max_epochs = config->epochs;
    options->max_steps = config->steps;
    options->interrupt = &cli_received_signal;
    if (config->checkpoint_dir != NULL) {
        options->checkpoint_steps = config->checkpoint_steps;
        options->checkpoint_end = true;
    }
    if (training != NULL) {
        const mnist_run *run = training->state;
        out->inference = mnist_test_options(config, &run->data, &options->micro_batch[BG_TRAINER_TEST]);
        out->has_inference = true;
    }
    if (config->rate_schedule != NULL) {
        BGI_TRY(mnist_config_rate(config, &config->rate, error));
        options->learning_rate = bg_rate_at;
        options->learning_rate_user = &config->rate;
        options->learning_rate_updates = true;
    }
    return bg_optimizer_parse(config->optimizer, config->learning_rate, &options->optimizer, error);
}

/* ---- places of results, data ---- */

static bg_status check_places(const mnist_config *config, const char *save_path, int *folder, bg_error *error)
{
    if (!cli_ranks_is_first()) /* which writes nothing */
        return BG_OK;
    if (save_path != NULL)
        BGI_TRY(cli_save_check(save_path, "save", error));
    if (config->log_path != NULL)
        BGI_TRY(cli_log_check(config->log_path, error));
    if (config->profile)
        BGI_TRY(mnist_profile_check(config, error));
    return mnist_checkpoint_check(config, folder, error);
}

static bg_status check_distinct(const mnist_config *config, const char *save_path, bg_error *error)
{
    enum { PROFILE = 4, PATH_COUNT = PROFILE + MNIST_PROFILE_FILES };
    char *profile[MNIST_PROFILE_FILES];
    cli_file files[PATH_COUNT] = {{.option = "--init", .path = config->init_path, .is_weights = true},
                                  {.option = "--save", .path = save_path, .is_written = true, .is_weights = true},
                                  {.option = "--log", .path = config->log_path, .is_written = true},
                                  {.option = "--config", .path = config->ipu_name}};
    bg_status status;

    mnist_profile_paths(config, profile);
    for (int i = 0; i < MNIST_PROFILE_FILES; i++)
        files[PROFILE + i] = (cli_file){.option = "--profile", .path = profile[i], .is_written = true};
    status = cli_files_check(files, PATH_COUNT, error);
    for (int i = 0; i < MNIST_PROFILE_FILES; i++)
        free(profile[i]);
    return status;
}

/* ---- what is printed around the training ---- */

static bg_status print_debug(const bg_trainer *trainer, bg_error *error)
{
    const bg_plan *plan = bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_FIT));
    char *text = NULL;

    BGI_TRY(bg_plan_print_placement(plan, &text, error));
    mnist_print_text("Stages", text, 0);
    BGI_TRY(bg_plan_print_memory(plan, &text, error));
    mnist_print_text("Memory", text, 0);
    BGI_TRY(cli_plan_report_ranks(plan, "", error));
    BGI_TRY(bg_session_print_workers(bg_trainer_session(trainer, BG_TRAINER_FIT), &text, error));
    mnist_print_text("Workers", text, 0);
    BGI_TRY(bg_plan_print_timetable(plan, &text, error));
    mnist_print_text("Timetable", text, 16);
    return BG_OK;
}

/* That digits are generated is part of every result. */
static void print_data(const mnist_config *config, const mnist_data *data)
{
    if (config->quiet && !data->is_generated)
        return;
    printf("Data: %s%s (%" PRIu64 " training, %" PRIu64 " test images)%s\n", data->is_generated ? "" : "MNIST from ",
           data->is_generated ? "generated digits" : data->train.source, bg_dataset_sample_count(data->train_set),
           bg_dataset_sample_count(data->test_set),
           data->is_generated ? "; MNIST was not found (--data-dir names its folder, --download fetches it)" : "");
}

/* What the numbers of the progress line are of. */
static void print_coverage(const mnist_config *config)
{
    if (config->quiet || mnist_training_shape(config).output_mode != BG_OUTPUT_FINAL)
        return;
    printf("The progress line shows only the last micro-batch of each call: %" PRIu64 " of %" PRIu64
           " images (--output-mode all or sum: all)\n",
           config->batch_size * config->library.options.replicas.count, mnist_images_per_training_call(config));
}

static void print_training_result(const cli_training *training)
{
    const mnist_config *config = training->settings;
    const mnist_run *run = training->state;
    const mnist_training_result *result = &run->training;
    const bg_loader_statistics *loader = &training->loader_statistics;
    const uint64_t step = bg_trainer_step(training->trainer);

    if (config->quiet)
        return;
    if (result->updates > 0)
        printf("Trained %" PRIu64 " weight updates, %" PRIu64 " images in %.2f s: %.0f images/s\n", result->updates,
               result->images, training->seconds, (double)result->images / training->seconds);
    if (config->steps > step && cli_received_signal == 0)
        printf("--steps %" PRIu64 " was not reached: the epochs have %" PRIu64 " weight updates\n", config->steps,
               step);
    if (config->debug && result->updates > 0)
        printf("Loader: %" PRIu64 " batches, %" PRIu64 " waited for, %.1f ms in all\n", loader->batch_count,
               loader->miss_count, 1e-6 * (double)loader->wait_ns);
}

/* The last line of a run, where it is looked for. */
static void print_verdict(const cli_training *training)
{
    const mnist_config *config = training->settings;
    const mnist_run *run = training->state;
    char verdict[BG_RUN_LIMIT_TEXT_BYTES];

    if (config->quiet || !config->debug || run->training.updates == 0)
        return;
    bg_loader_judge(&training->loader_statistics, (uint64_t)(1e9 * training->seconds), verdict);
    printf("Verdict: %s\n", verdict);
}

/* ---- the run ---- */

static bg_status print(const cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;

    (void)error;
    if (config->profile_dir != NULL && !config->profile)
        cli_warn("mnist", "--profile-dir without --profile: nothing is recorded");
    return BG_OK;
}

/* What the data show to be a mistake on the command line. */
static bg_status check_options(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;

    training->code = CLI_USAGE;
    BGI_TRY(mnist_config_check_data(config, bg_dataset_sample_count(training->data), error));
    BGI_TRY(mnist_plan_check(config, error));
    training->code = CLI_FAILED;
    return BG_OK;
}

static bg_status open_run(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    mnist_run *run = training->state;

    cli_ranks_agree("steps %" PRIu64 "\nepochs %" PRIu64 "\nno-shuffle %d\nlast-batch %s\ncheckpoint-steps %" PRIu64
                    "\ncheckpoint %d\nresume %d\nsave %d\n",
                    config->steps, config->epochs, config->no_shuffle, config->last_batch, config->checkpoint_steps,
                    config->checkpoint_dir != NULL, config->resume, config->save_path != NULL);
    run->save_path = config->save_path != NULL ? config->save_path : config->epochs > 0 ? default_save_path : NULL;
    BGI_TRY(check_places(config, run->save_path, &training->folder, error));
    if (check_distinct(config, run->save_path, error) != BG_OK) {
        training->code = CLI_USAGE;
        return error->status;
    }
    BGI_TRY(mnist_data_open(config, &run->data, error));
    training->data = run->data.train_set;
    BGI_TRY(check_options(training, error));
    if (config->profile)
        printf("Profiling is enabled.\n");
    print_data(config, &run->data);
    printf("Training...\n");
    fflush(stdout);
    return BG_OK;
}

static bg_status begin(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    const bg_plan *plan = bg_session_plan(bg_trainer_session(training->trainer, BG_TRAINER_FIT));
    mnist_run *run = training->state;

    if (config->init_path != NULL)
        BGI_TRY(cli_weights_load(bg_trainer_weights(training->trainer), config->init_path, error));
    BGI_TRY(mnist_checkpoint_resume(training, error));
    BGI_TRY(mnist_test_check(config, &run->data, error));
    if (!config->quiet)
        cli_report_compilation(plan);
    if (!config->quiet && config->debug)
        BGI_TRY(print_debug(training->trainer, error));
    BGI_TRY(mnist_log_open(&training->log, config, run->save_path, &run->data, plan,
                           bg_trainer_session(training->trainer, BG_TRAINER_FIT), run->is_resumed, &cli_received_signal,
                           error));
    print_coverage(config);
    return BG_OK;
}

/* Whether there is something to put into the file: what was learned, or, without training, what was loaded. */
static bool wants_save(const mnist_config *config, const mnist_run *run)
{
    if (run->save_path == NULL)
        return false;
    return run->training.updates > 0 || (config->save_path != NULL && cli_received_signal == 0);
}

/* A diverged training is a failed one, but only after everything else is done. */
static void note_bad_loss(cli_training *training, const mnist_training_result *result)
{
    bg_error late = {0};
    char updates[64];

    if (result->bad_first == 0)
        return;
    if (result->bad_first == result->bad_last)
        snprintf(updates, sizeof updates, "at update %" PRIu64, result->bad_first);
    else
        snprintf(updates, sizeof updates, "in updates %" PRIu64 " to %" PRIu64, result->bad_first, result->bad_last);
    bg_error_set(&late, BG_ERROR_INVALID, "the loss became %s %s: lower --learning-rate",
                 isnan(result->bad_loss) ? "NaN" : "infinite", updates);
    cli_training_note(training, &late);
}

/* Saves what was learned also when the training ended early by a signal. */
static bg_status save(cli_training *training, bg_error *error)
{
    mnist_run *run = training->state;
    bg_error save_error = {0};

    if (!wants_save(training->settings, run))
        return BG_OK;
    run->is_saved =
        cli_weights_save(bg_trainer_session(training->trainer, BG_TRAINER_FIT), run->save_path, &save_error) == BG_OK;
    if (!run->is_saved)
        return bg_error_set(error, save_error.status, "--save: %s", save_error.message);
    printf("Weights saved to %s\n", run->save_path);
    return BG_OK;
}

static bg_status finish(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    mnist_run *run = training->state;
    bg_status status;

    run->has_trained = run->training.updates > 0;
    cli_training_note(training, &run->checkpoint_failure);
    note_bad_loss(training, &run->training);
    print_training_result(training);
    status = save(training, error);
    fflush(stdout);
    if (status == BG_OK && config->profile && run->has_trained)
        status = mnist_profile_write(training, error);
    if (status == BG_OK && cli_received_signal == 0)
        status = mnist_test(training, error);
    if (status == BG_OK)
        print_verdict(training);
    return status;
}

static void close_run(cli_training *training)
{
    mnist_run *run = training->state;

    mnist_data_close(&run->data);
}

static int report_signal(const cli_training *training)
{
    const mnist_run *run = training->state;

    cli_say("mnist", "stopped by signal %d%s%s", (int)cli_received_signal,
            run->is_saved      ? "; the weights so far are saved"
            : run->has_trained ? ""
                               : "; nothing was trained, nothing is saved",
            run->has_trained && run->is_checkpointed ? "; --resume goes on from here" : "");
    return 128 + (int)cli_received_signal;
}

const cli_model cli_model_mnist = {
    .name = "mnist",
    .program = "mnist",
    .says = "mnist",
    .summary = "train the digit network of the pipelining tutorial and test it",
    .purpose = "Trains the digit network of the pipelining tutorial on four virtual devices, and\ntests it.\n",
    .plan = "Shows stages, memory and timetable of `brigade mnist` with the same options.\n--debug: the program too.\n",
    .samples = "images",

    .flags = mnist_flags,
    .library_flags = BGI_COMMAND_MNIST,
    .settings_bytes = sizeof(mnist_config),
    .library = offsetof(mnist_config, library),
    .set_defaults = set_defaults,
    .resolve = resolve,
    .clear_settings = clear_settings,

    .measure = measure,
    .build = build,

    .inputs = mnist_inputs,
    .load = mnist_load,

    .state_bytes = sizeof(mnist_run),
    .print = print,
    .open = open_run,
    .begin = begin,
    .on_event = mnist_on_event,
    .finish = finish,
    .close = close_run,
    .report_signal = report_signal,
};
