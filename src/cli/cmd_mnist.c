/*
 * cmd_mnist.c: `brigade mnist`: the pipelining tutorial's program. Everything that can be wrong is looked at before the
 * training begins: the command line, the places of the results, the data, the plan.
 */
#include "cli/command.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/profile.h>

#include "cli/mnist.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

static const char default_save_path[] = "brigade-mnist.safetensors";

enum { PROFILE_TRACE, PROFILE_TRACE_LAST, PROFILE_SUMMARY };
static const char *const profile_files[] = {"trace.json", "trace-last.json", "summary.txt"};

static const char *profile_folder(const mnist_config *config)
{
    return config->profile_dir != NULL ? config->profile_dir : MNIST_PROFILE_DIR;
}

/* ---- places of results ---- */

static bg_status check_profile_folder(const char *folder, bg_error *error)
{
    char *path;
    bg_status status;

    if (bgi_folder_create(folder, error) != BG_OK)
        return bg_error_context(error, error->status, "--profile-dir");
    path = bgi_path_join(folder, "trace.json");
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = cli_save_check(path, "profile-dir", error);
    free(path);
    return status;
}

static bg_status check_places(const mnist_config *config, const char *save_path, int *folder, bg_error *error)
{
    if (save_path != NULL)
        BGI_TRY(cli_save_check(save_path, "save", error));
    if (config->log_path != NULL)
        BGI_TRY(cli_log_check(config->log_path, error));
    if (config->profile)
        BGI_TRY(check_profile_folder(profile_folder(config), error));
    return mnist_checkpoint_check(config, folder, error);
}

static bg_status check_distinct(const mnist_config *config, const char *save_path, bg_error *error)
{
    enum { PROFILE = 4, PATH_COUNT = PROFILE + 3 };
    char *profile[PATH_COUNT - PROFILE] = {NULL};
    cli_file files[PATH_COUNT] = {{.option = "--init", .path = config->init_path, .is_weights = true},
                                  {.option = "--save", .path = save_path, .is_written = true, .is_weights = true},
                                  {.option = "--log", .path = config->log_path, .is_written = true},
                                  {.option = "--config", .path = config->ipu_name}};
    bg_status status;

    for (int i = 0; config->profile && i < PATH_COUNT - PROFILE; i++) {
        profile[i] = bgi_path_join(profile_folder(config), profile_files[i]);
        files[PROFILE + i] = (cli_file){.option = "--profile", .path = profile[i], .is_written = true};
    }
    status = cli_files_check(files, PATH_COUNT, error);
    for (int i = 0; i < PATH_COUNT - PROFILE; i++)
        free(profile[i]);
    return status;
}

/* ---- what is printed around the training ---- */

/* Prints malloc'ed text, at most `line_limit` lines of it (0: all). */
static void print_text(const char *title, char *text, uint32_t line_limit)
{
    const char *line = text;

    printf("%s:\n", title);
    for (uint32_t i = 0; *line != '\0' && (line_limit == 0 || i < line_limit); i++) {
        size_t length = strcspn(line, "\n");
        printf("  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    if (*line != '\0')
        printf("  ...\n");
    free(text);
}

static bg_status print_debug(const bg_trainer *trainer, bg_error *error)
{
    const bg_plan *plan = bg_trainer_plan(trainer, BG_TRAINER_FIT);
    char *text = NULL;

    BGI_TRY(bg_plan_print_placement(plan, &text, error));
    print_text("Stages", text, 0);
    BGI_TRY(bg_plan_print_memory(plan, &text, error));
    print_text("Memory", text, 0);
    BGI_TRY(bg_session_print_workers(bg_trainer_session(trainer, BG_TRAINER_FIT), &text, error));
    print_text("Workers", text, 0);
    BGI_TRY(bg_plan_print_timetable(plan, &text, error));
    print_text("Timetable", text, 16);
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
    if (config->quiet || strcmp(config->output_mode, "final") != 0)
        return;
    printf("Loss and accuracy of the progress line are of the last micro-batch of a call: %" PRIu64 " of %" PRIu64
           " images (--output-mode all or sum: of all)\n",
           config->batch_size * config->replicas, mnist_images_per_training_call(config));
}

static void print_training_result(const mnist_config *config, const mnist_training_result *result, uint64_t step)
{
    if (config->quiet)
        return;
    if (result->updates > 0)
        printf("Trained %" PRIu64 " weight updates, %" PRIu64 " images in %.2f s: %.0f images/s\n", result->updates,
               result->images, result->seconds, (double)result->images / result->seconds);
    if (config->steps > step && cli_received_signal == 0)
        printf("--steps %" PRIu64 " was not reached: the epochs have %" PRIu64 " weight updates\n", config->steps,
               step);
    if (config->debug && result->updates > 0)
        printf("Loader: %" PRIu64 " batches, %" PRIu64 " waited for, %.1f ms in all\n", result->loader.batch_count,
               result->loader.miss_count, 1e-6 * (double)result->loader.wait_ns);
}

/* The last line of a run, where it is looked for. */
static void print_verdict(const mnist_config *config, const mnist_training_result *result)
{
    char verdict[BG_RUN_LIMIT_TEXT_BYTES];

    if (config->quiet || !config->debug || result->updates == 0)
        return;
    bg_loader_judge(&result->loader, (uint64_t)(1e9 * result->seconds), verdict);
    printf("Verdict: %s\n", verdict);
}

/* ---- profile ---- */

/* The trace of one compiled model; its summary is added to `text`. */
static bg_status write_trace(const mnist_config *config, const bg_session *session, const bg_plan *plan, int file,
                             bgi_text *text, bg_error *error)
{
    char *path = bgi_path_join(profile_folder(config), profile_files[file]);
    char *summary = NULL;
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    BGI_TRY_CLEANUP(bg_profile_write_trace(session, plan, path, error));
    BGI_TRY_CLEANUP(bg_profile_print_summary(session, plan, &summary, error));
    if (file == PROFILE_TRACE_LAST)
        bgi_text_add(text, "the last call, of %u weight updates only:\n", bg_plan_summarise(plan).steps_per_run);
    bgi_text_add(text, "%s", summary);
    if (!config->quiet)
        printf("Trace%s: %s (open it with https://ui.perfetto.dev)\n",
               file == PROFILE_TRACE_LAST ? " of the shorter last call" : "", path);
cleanup:
    free(summary);
    free(path);
    return status;
}

/* The shorter last call is compiled for itself and so has a trace of its own; it may be the only call there was. */
static bg_status write_profile(const mnist_config *config, const mnist_phases *phases, bg_error *error)
{
    const bg_trainer *trainer = phases->trainer;
    const bg_plan *plan = bg_trainer_plan(trainer, BG_TRAINER_FIT);
    const bg_plan *rest = bg_trainer_rest_plan(trainer, BG_TRAINER_FIT);
    const bg_session *session = bg_trainer_session(trainer, BG_TRAINER_FIT);
    const bg_session *rest_session = bg_trainer_rest_session(trainer, BG_TRAINER_FIT);
    const bool is_only = rest != NULL && !phases->training.has_whole;
    char *summary_path = bgi_path_join(profile_folder(config), profile_files[PROFILE_SUMMARY]);
    char *last_path = bgi_path_join(profile_folder(config), profile_files[PROFILE_TRACE_LAST]);
    char *summary = NULL;
    bgi_text text = {0};
    bg_status status = BG_OK;

    if (summary_path == NULL || last_path == NULL) {
        status = bgi_error_memory(error, "path", 0);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(
        write_trace(config, is_only ? rest_session : session, is_only ? rest : plan, PROFILE_TRACE, &text, error));
    if (rest != NULL && !is_only)
        BGI_TRY_CLEANUP(write_trace(config, rest_session, rest, PROFILE_TRACE_LAST, &text, error));
    else
        remove(last_path); /* an earlier run's does not belong to this trace */
    BGI_TRY_CLEANUP(bgi_text_finish(&text, &summary, error));
    BGI_TRY_CLEANUP(bgi_file_save(summary_path, summary, strlen(summary), error));
    if (!config->quiet) {
        print_text("Profile", summary, 0);
        summary = NULL;
    }
cleanup:
    bgi_text_clear(&text);
    free(summary);
    free(summary_path);
    free(last_path);
    return status;
}

/* ---- the run ---- */

typedef struct mnist_run {
    const mnist_config *config;
    const char *save_path; /* NULL: nothing to save */
    bool is_saved;
    mnist_data data;
    bg_weights *weights;
    mnist_phases phases;
    cli_log log;
    bool has_trained;
    int folder;    /* of --checkpoint, held; -1: none */
    bg_error late; /* what is reported when all is done: an unfinished log, a loss that is not finite */
} mnist_run;

static bg_status compile(mnist_run *run, bg_error *error)
{
    const mnist_config *config = run->config;
    bg_status status;

    BGI_TRY(bg_weights_create(&run->weights, error));
    cli_begin_compilation(config->quiet);
    status =
        mnist_phases_create(config, &run->data, run->weights, &run->log, &cli_received_signal, &run->phases, error);
    cli_clear_line(config->quiet);
    if (status != BG_OK)
        return status;
    if (config->init_path != NULL)
        BGI_TRY(cli_weights_load(run->weights, config->init_path, error));
    BGI_TRY(mnist_checkpoint_resume(&run->phases, error));
    BGI_TRY(mnist_test_check(config, &run->data, error));
    if (config->quiet)
        return BG_OK;
    cli_report_compilation(bg_trainer_plan(run->phases.trainer, BG_TRAINER_FIT));
    return config->debug ? print_debug(run->phases.trainer, error) : BG_OK;
}

/* Whether there is something to put into the file: what was learned, or, without training, what was loaded. */
static bool wants_save(const mnist_run *run, const mnist_training_result *result)
{
    if (run->save_path == NULL)
        return false;
    return result->updates > 0 || (run->config->save_path != NULL && cli_received_signal == 0);
}

/* A diverged training is a failed one, but only after everything else is done. */
static void note_bad_loss(mnist_run *run, const mnist_training_result *result)
{
    char updates[64];

    if (result->bad_first == 0)
        return;
    if (result->bad_first == result->bad_last)
        snprintf(updates, sizeof updates, "at update %" PRIu64, result->bad_first);
    else
        snprintf(updates, sizeof updates, "in updates %" PRIu64 " to %" PRIu64, result->bad_first, result->bad_last);
    bg_error_set(&run->late, BG_ERROR_INVALID, "the loss became %s %s: lower --learning-rate",
                 isnan(result->bad_loss) ? "NaN" : "infinite", updates);
}

/* Saves what was learned also when the training ended early by a signal. */
static bg_status train(mnist_run *run, bg_error *error)
{
    const mnist_config *config = run->config;
    const mnist_training_result *result = &run->phases.training;
    bg_error save_error = {0};
    bg_status status = mnist_train(&run->phases, error);

    cli_log_close(&run->log);
    if (status != BG_OK)
        return status;
    run->has_trained = result->updates > 0;
    run->late = run->log.failure;
    if (run->late.status == BG_OK)
        run->late = run->phases.checkpoint_failure;
    if (run->late.status == BG_OK)
        note_bad_loss(run, result);
    print_training_result(config, result, bg_trainer_step(run->phases.trainer));
    if (wants_save(run, result)) {
        run->is_saved = cli_weights_save(run->weights, run->save_path, &save_error) == BG_OK;
        if (run->is_saved)
            printf("Weights saved to %s\n", run->save_path);
        else
            status = bg_error_set(error, save_error.status, "--save: %s", save_error.message);
    }
    fflush(stdout);
    if (status == BG_OK && config->profile && result->updates > 0)
        status = write_profile(config, &run->phases, error);
    return status;
}

static bg_status run_all(mnist_run *run, bg_error *error)
{
    const mnist_config *config = run->config;

    if (config->profile)
        printf("Profiling is enabled.\n");
    print_data(config, &run->data);
    printf("Training...\n");
    fflush(stdout);
    BGI_TRY(compile(run, error));
    BGI_TRY(mnist_log_open(&run->log, config, run->save_path, &run->data,
                           bg_trainer_session(run->phases.trainer, BG_TRAINER_FIT), run->phases.is_resumed,
                           &cli_received_signal, error));
    print_coverage(config);
    BGI_TRY(train(run, error));
    if (cli_received_signal == 0)
        BGI_TRY(mnist_test(&run->phases, error));
    print_verdict(config, &run->phases.training);
    if (run->late.status != BG_OK)
        return bg_error_set(error, run->late.status, "%s", run->late.message);
    return BG_OK;
}

static void clear_run(mnist_run *run)
{
    cli_log_close(&run->log);
    mnist_phases_clear(&run->phases);
    bg_weights_destroy(run->weights);
    mnist_data_close(&run->data);
    bgi_folder_release(&run->folder);
}

static int report_signal(const mnist_run *run)
{
    cli_say("mnist", "stopped by signal %d%s%s", (int)cli_received_signal,
            run->is_saved      ? "; the weights so far are saved"
            : run->has_trained ? ""
                               : "; nothing was trained, nothing is saved",
            run->has_trained && run->phases.is_checkpointed ? "; --resume goes on from here" : "");
    return 128 + (int)cli_received_signal;
}

/* The exit code. */
static int run_mnist(const mnist_config *config)
{
    mnist_run run = {.config = config, .folder = -1};
    bg_error error = {0};
    int code = CLI_FAILED;

    run.save_path = config->save_path != NULL ? config->save_path : config->epochs > 0 ? default_save_path : NULL;
    if (check_places(config, run.save_path, &run.folder, &error) == BG_OK) {
        if (check_distinct(config, run.save_path, &error) != BG_OK)
            code = CLI_USAGE;
        else if (mnist_data_open(config, &run.data, &error) == BG_OK) {
            if (mnist_config_check_data(config, bg_dataset_sample_count(run.data.train_set), &error) != BG_OK ||
                mnist_plan_check(config, &error) != BG_OK)
                code = CLI_USAGE;
            else if (run_all(&run, &error) == BG_OK)
                code = CLI_DONE;
        }
    }
    clear_run(&run);
    if (code != CLI_DONE && !(error.status == BG_ERROR_CANCELLED && cli_received_signal != 0))
        return cli_fail("mnist", code, &error);
    return cli_received_signal != 0 ? report_signal(&run) : CLI_DONE;
}

/* --compile-only: no data, no session, no files. */
static int compile_alone(const mnist_config *config)
{
    const mnist_shape shape = mnist_training_shape(config);
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_status status;

    if (mnist_plan_check(config, &error) != BG_OK)
        return cli_fail("mnist", CLI_USAGE, &error);
    cli_begin_compilation(config->quiet);
    status = mnist_plan_create(config, &shape, &plan, &error);
    cli_clear_line(config->quiet);
    if (status != BG_OK)
        return cli_fail("mnist", CLI_FAILED, &error);
    mnist_plan_report(config, plan);
    bg_plan_destroy(plan);
    return CLI_DONE;
}

static int run(mnist_config *config)
{
    bg_error error = {0};

    if (config->profile_dir != NULL && !config->profile)
        cli_warn("mnist", "--profile-dir without --profile: nothing is recorded");
    cli_catch_signals();
    if (mnist_costs_find(config, !config->common.compile_only, &error) != BG_OK)
        return cli_fail("mnist", CLI_FAILED, &error);
    return config->common.compile_only ? compile_alone(config) : run_mnist(config);
}

int cli_mnist(int argc, char **argv)
{
    mnist_config config = mnist_config_defaults();
    const mnist_config defaults = config;
    bg_error error = {0};
    bool wants_help, given[CLI_OPTION_LIMIT] = {false};
    uint32_t word_count;
    int code;

    if (cli_options_read(mnist_options, argc, argv, &config, NULL, 0, &word_count, &wants_help, given, &error) != BG_OK)
        return cli_fail("mnist", CLI_USAGE, &error);
    if (wants_help) {
        printf("Usage: brigade mnist [OPTION]...\n"
               "Trains the digit network of the pipelining tutorial on four virtual devices, and tests it.\n");
        cli_options_help(mnist_options, &defaults, stdout);
        return CLI_DONE;
    }
    code = mnist_ipu_resolve(&config, given, &error);
    if (code == CLI_DONE && mnist_config_read_options(&config, &error) != BG_OK)
        code = CLI_USAGE;
    if (code == CLI_DONE && mnist_config_check(&config, &error) != BG_OK)
        code = CLI_USAGE;
    if (code != CLI_DONE)
        code = cli_fail("mnist", code, &error);
    else
        code = run(&config);
    mnist_config_clear(&config);
    return code;
}
