/*
 * mnist.c: defines `brigade mnist`, the program of PopTorch's pipelining tutorial, as a row of the models' table.
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

static const char default_save_path[] = "brigade-mnist.safetensors", model_name[] = "digit network";

/* ---- options ---- */

static void set_defaults(void *settings, const char *command)
{
    mnist_config *config = settings;

    *config = mnist_config_defaults();
    config->recipe.command = command;
}

static int resolve(void *settings, bg_error *error)
{
    mnist_config *config = settings;
    const int code = mnist_ipu_resolve(config, error);

    config->recipe.log_path = cli_ranks_log(config->recipe.log_path);
    if (code == CLI_DONE &&
        (mnist_config_read_options(config, error) != BG_OK || mnist_config_check(config, error) != BG_OK))
        return CLI_USAGE;
    if (code == CLI_DONE && cli_weights_open(config->recipe.init_path, &config->recipe.init, error) != BG_OK)
        return CLI_FAILED;
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
    if (config->recipe.debug)
        out->plan_parts |= CLI_PLAN_PROGRAM;
    out->quiet = config->recipe.quiet;
    options->model = mnist_model_add;
    options->model_user = config;
    if (training != NULL) {
        const mnist_run *run = training->state;
        out->inference = mnist_test_options(config, &run->data, &options->micro_batch[BG_TRAINER_TEST]);
        out->has_inference = true;
    }
    return cli_recipe_trainer(&config->recipe, options, error);
}

/* ---- files of results, data ---- */

/* Prints the source of the images. Generated images are noted even with --quiet, so that results are not taken for
 * those of MNIST. */
static void print_data(const mnist_config *config, const mnist_data *data)
{
    if (config->recipe.quiet && !data->is_generated)
        return;
    printf("Data: %s%s (%" PRIu64 " training, %" PRIu64 " test images)%s\n", data->is_generated ? "" : "MNIST from ",
           data->is_generated ? "generated digits" : data->train.source, bg_dataset_sample_count(data->train_set),
           bg_dataset_sample_count(data->test_set),
           data->is_generated ? "; MNIST was not found (--data-dir names its folder, --download fetches it)" : "");
}

/* Prints which images the numbers of the progress line cover. */
static void print_coverage(const mnist_config *config)
{
    if (config->recipe.quiet || mnist_training_shape(config).output_mode != BG_OUTPUT_FINAL)
        return;
    printf("The progress line shows only the last micro-batch of each call: %" PRIu64 " of %" PRIu64
           " images (--output-mode all or sum covers all)\n",
           config->recipe.batch_size * config->recipe.library.options.replicas.count,
           cli_recipe_samples_per_call(&config->recipe));
}

/* ---- the run ---- */

static bg_status print(const cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;

    (void)error;
    if (config->recipe.profile_dir != NULL && !config->recipe.profile)
        cli_warn("mnist", "--profile-dir is given without --profile, so nothing is recorded; add --profile");
    return BG_OK;
}

/* Reports mistakes on the command line that only the data reveal. */
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
    const cli_file ipu = {.option = "--config", .path = config->ipu_name};
    mnist_run *run = training->state;

    cli_recipe_agree(&config->recipe);
    run->common.save_path = config->recipe.save_path != NULL ? config->recipe.save_path
                            : config->recipe.epochs > 0      ? default_save_path
                                                             : NULL;
    BGI_TRY(cli_recipe_check_places(&config->recipe, run->common.save_path, &training->folder, error));
    if (cli_recipe_check_distinct(&config->recipe, run->common.save_path, &ipu, 1, error) != BG_OK) {
        training->code = CLI_USAGE;
        return error->status;
    }
    BGI_TRY(mnist_data_open(config, &run->data, error));
    training->data = run->data.train_set;
    BGI_TRY(check_options(training, error));
    if (config->recipe.profile)
        printf("Profiling is enabled.\n");
    print_data(config, &run->data);
    fflush(stdout);
    return BG_OK;
}

static bg_status begin(cli_training *training, bg_error *error)
{
    mnist_config *config = training->settings;
    const bg_plan *plan = bg_session_plan(bg_trainer_session(training->trainer, BG_TRAINER_FIT));
    mnist_run *run = training->state;

    if (config->recipe.init_path != NULL)
        BGI_TRY(cli_weights_load(bg_trainer_weights(training->trainer), &config->recipe.init, config->recipe.init_path,
                                 error));
    printf("Training...\n");
    fflush(stdout);
    BGI_TRY(cli_checkpoint_resume(&config->recipe, training, &run->common.is_resumed, NULL, error));
    BGI_TRY(cli_checkpoint_reserve(&config->recipe, training, error));
    BGI_TRY(mnist_test_check(config, &run->data, error));
    if (!config->recipe.quiet)
        cli_report_compilation(plan);
    if (!config->recipe.quiet && config->recipe.debug)
        BGI_TRY(cli_run_print_debug(training->trainer, error));
    BGI_TRY(mnist_log_open(&training->log, config, run->common.save_path, &run->data, plan,
                           bg_trainer_session(training->trainer, BG_TRAINER_FIT), run->common.is_resumed,
                           &cli_received_signal, error));
    print_coverage(config);
    return BG_OK;
}

/* Saves the weights, also when a signal ended the training early. */
static bg_status save(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    mnist_run *run = training->state;
    bg_error save_error = {0};

    if (!cli_run_wants_save(&config->recipe, &run->common))
        return BG_OK;
    run->common.is_saved = mnist_model_save(config, bg_trainer_session(training->trainer, BG_TRAINER_FIT),
                                            run->common.save_path, &save_error) == BG_OK;
    if (!run->common.is_saved)
        return bg_error_set(error, save_error.status, "--save: %s", save_error.message);
    printf("Weights saved to %s\n", run->common.save_path);
    return BG_OK;
}

static bg_status finish(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    mnist_run *run = training->state;
    bg_status status;

    run->common.has_trained = run->common.updates > 0;
    cli_run_complete_checkpoint(&config->recipe, &run->common, true);
    cli_run_note_failures(training, &run->common);
    cli_run_print_result(&config->recipe, training, &run->common);
    status = save(training, error);
    fflush(stdout);
    if (status == BG_OK && config->recipe.profile && run->common.has_trained)
        status = cli_profile_write(&config->recipe, training, &run->common, model_name, error);
    if (status == BG_OK && cli_received_signal == 0)
        status = mnist_test(training, error);
    if (status == BG_OK && cli_received_signal == 0)
        status = cli_profile_write_test(&config->recipe, training, model_name, error);
    if (status == BG_OK)
        cli_run_print_verdict(&config->recipe, training, &run->common);
    return status;
}

static void close_run(cli_training *training)
{
    mnist_run *run = training->state;

    mnist_data_close(&run->data);
}

static int report_signal(const cli_training *training)
{
    const mnist_config *config = training->settings;
    const mnist_run *run = training->state;

    return cli_run_report_signal(&config->recipe, &run->common);
}

const cli_model cli_model_mnist = {
    .name = "mnist",
    .program = "mnist",
    .says = "mnist",
    .summary = "train and test the digit network of PopTorch's tutorial",
    .purpose = "Trains the digit network of PopTorch's pipelining tutorial on four virtual devices, and tests it.\n",
    .plan =
        "Shows stages, memory and timetable of `brigade mnist` with the same options. --debug shows the program too.\n",
    .common = "epochs batch-size gradient-accumulation stages learning-rate strategy schedule save checkpoint resume",
    .examples = "brigade mnist --epochs 1 --save digits.onnx\n"
                "brigade mnist --epochs 1 --stages \"B1,B2|B3|B4\" --schedule zb-h1 --profile\n"
                "brigade mnist --epochs 1 --checkpoint runs\n"
                "brigade mnist --epochs 2 --checkpoint runs --resume\n",
    .plan_examples = "brigade plan mnist --stages auto:3 --schedule zb-h1\n"
                     "brigade plan mnist --recompute auto --device-memory 2M\n",
    .samples = "images",

    .flags = mnist_flags,
    .library_flags = BGI_COMMAND_MNIST,
    .settings_bytes = sizeof(mnist_config),
    .library = offsetof(mnist_config, recipe.library),
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
