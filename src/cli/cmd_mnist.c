/*
 * cmd_mnist.c: `brigade mnist`: the pipelining tutorial's program. Everything that can be wrong is looked at before the
 * training begins: the command line, the places of the results, the data, the plan.
 */
#include "cli/command.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade/profile.h>

#include "cli/mnist.h"
#include "core/error.h"
#include "core/file.h"

static const char default_save_path[] = "brigade-mnist.safetensors";

/* ---- interruption ---- */

static volatile sig_atomic_t received_signal;

/* The second signal ends the program in the usual way: SA_RESETHAND. */
static void note_signal(int number)
{
    received_signal = number;
}

static void catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- places of results ---- */

static bg_status check_save_path(const char *path, const char *option, bg_error *error)
{
    bgi_file_writer writer = {0};
    struct stat info;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return bg_error_set(error, BG_ERROR_IO, "--%s: %s is a folder; name a file", option, path);
    /* The same steps as the real writing, up to its first byte. */
    if (bgi_file_writer_begin(&writer, path, error) != BG_OK)
        return bg_error_context(error, error->status, "--%s", option);
    bgi_file_writer_abandon(&writer);
    return BG_OK;
}

/* Leaves no file behind that was not there. */
static bg_status check_log_path(const char *path, bg_error *error)
{
    char text[BGI_ERRNO_TEXT_BYTES];
    bool is_new = access(path, F_OK) != 0;
    FILE *stream = fopen(path, "a");

    if (stream == NULL)
        return bg_error_set(error, BG_ERROR_IO, "--log: %s: %s", path, bgi_errno_text(errno, text));
    fclose(stream);
    if (is_new)
        remove(path);
    return BG_OK;
}

static bg_status check_profile_folder(const char *folder, bg_error *error)
{
    char *path;
    bg_status status;

    if (bgi_folder_create(folder, error) != BG_OK)
        return bg_error_context(error, error->status, "--profile-dir");
    path = bgi_path_join(folder, "trace.json");
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = check_save_path(path, "profile-dir", error);
    free(path);
    return status;
}

static bg_status check_places(const mnist_config *config, const char *save_path, bg_error *error)
{
    if (save_path != NULL)
        BGI_TRY(check_save_path(save_path, "save", error));
    if (config->log_path != NULL)
        BGI_TRY(check_log_path(config->log_path, error));
    if (config->profile)
        BGI_TRY(check_profile_folder(config->profile_dir, error));
    return BG_OK;
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

static bg_status print_debug(const mnist_runner *runner, bg_error *error)
{
    char *text = NULL;

    BGI_TRY(bg_plan_print_placement(runner->plan, &text, error));
    print_text("Stages", text, 0);
    BGI_TRY(bg_plan_print_memory(runner->plan, &text, error));
    print_text("Memory", text, 0);
    BGI_TRY(bg_session_print_workers(runner->session, &text, error));
    print_text("Workers", text, 0);
    BGI_TRY(bg_plan_print_timetable(runner->plan, &text, error));
    print_text("Timetable", text, 16);
    return BG_OK;
}

static void print_data(const mnist_config *config, const mnist_data *data)
{
    if (config->quiet)
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

static void print_training_result(const mnist_config *config, const mnist_training_result *result)
{
    if (config->quiet || result->updates == 0)
        return;
    printf("Trained %" PRIu64 " weight updates, %" PRIu64 " images in %.2f s: %.0f images/s\n", result->updates,
           result->images, result->seconds, (double)result->images / result->seconds);
    if (config->steps > result->updates && received_signal == 0)
        printf("--steps %" PRIu64 " was not reached: the epochs have %" PRIu64 " weight updates\n", config->steps,
               result->updates);
    if (config->debug)
        printf("Loader: %" PRIu64 " batches, %" PRIu64 " waited for, %.1f ms in all\n", result->loader.batch_count,
               result->loader.miss_count, 1e-6 * (double)result->loader.wait_ns);
}

/* ---- profile ---- */

static bg_status write_profile(const mnist_config *config, const mnist_runner *runner, bg_error *error)
{
    char *trace_path = bgi_path_join(config->profile_dir, "trace.json");
    char *summary_path = bgi_path_join(config->profile_dir, "summary.txt");
    char *summary = NULL;
    bg_status status = BG_OK;

    if (trace_path == NULL || summary_path == NULL) {
        status = bgi_error_memory(error, "path", 0);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(bg_profile_write_trace(runner->session, runner->plan, trace_path, error));
    BGI_TRY_CLEANUP(bg_profile_print_summary(runner->session, runner->plan, &summary, error));
    BGI_TRY_CLEANUP(bgi_file_save(summary_path, summary, strlen(summary), error));
    if (config->quiet) {
        free(summary);
    } else {
        print_text("Profile", summary, 0);
        printf("Trace: %s (open it with https://ui.perfetto.dev)\n", trace_path);
    }
cleanup:
    free(trace_path);
    free(summary_path);
    return status;
}

/* ---- the run ---- */

typedef struct mnist_run {
    const mnist_config *config;
    const char *save_path; /* NULL: nothing to save */
    bool is_saved;
    mnist_data data;
    bg_weights *weights;
    mnist_runner runner;
    mnist_log log;
} mnist_run;

static bg_status compile(mnist_run *run, bg_error *error)
{
    const mnist_config *config = run->config;
    mnist_runner_options options = mnist_training_options(config);

    BGI_TRY(bg_weights_create(&run->weights, error));
    BGI_TRY(mnist_runner_create(config, &options, run->weights, &run->runner, error));
    if (config->init_path != NULL)
        BGI_TRY(mnist_weights_load(run->weights, config->init_path, error));
    if (config->quiet)
        return BG_OK;
    printf("Graph compilation: %.1f ms\n", run->runner.summary.compile_ms);
    return config->debug ? print_debug(&run->runner, error) : BG_OK;
}

/* Saves what was learned also when the training ended early, by a signal or because the log's disk is full. */
static bg_status train(mnist_run *run, bg_error *error)
{
    const mnist_config *config = run->config;
    mnist_training_result result;
    bg_error save_error = {0};
    bg_status status;

    status = mnist_train(config, &run->data, &run->runner, run->weights, &run->log, &received_signal, &result, error);
    if (mnist_log_close(&run->log, error) != BG_OK && status == BG_OK)
        status = error->status;
    if (status != BG_OK && status != BG_ERROR_IO)
        return status;
    print_training_result(config, &result);
    if (run->save_path != NULL && (result.updates > 0 || config->save_path != NULL)) {
        run->is_saved = mnist_weights_save(run->weights, run->save_path, &save_error) == BG_OK;
        if (run->is_saved)
            printf("Weights saved to %s\n", run->save_path);
        else if (status == BG_OK)
            status = bg_error_set(error, save_error.status, "--save: %s", save_error.message);
    }
    fflush(stdout);
    if (status == BG_OK && config->profile && result.updates > 0)
        status = write_profile(config, &run->runner, error);
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
    BGI_TRY(mnist_log_open(&run->log, config, &run->data, error));
    print_coverage(config);
    BGI_TRY(train(run, error));
    if (received_signal != 0)
        return BG_OK;
    return mnist_test(config, &run->data, run->weights, &received_signal, error);
}

static void clear_run(mnist_run *run)
{
    bg_error ignored = {0};

    mnist_log_close(&run->log, &ignored);
    mnist_runner_clear(&run->runner);
    bg_weights_destroy(run->weights);
    mnist_data_close(&run->data);
}

/* The exit code. */
static int run_mnist(const mnist_config *config)
{
    mnist_run run = {.config = config};
    bg_error error = {0};
    int code = CLI_FAILED;

    run.save_path = config->save_path != NULL ? config->save_path : config->epochs > 0 ? default_save_path : NULL;
    if (check_places(config, run.save_path, &error) == BG_OK && mnist_data_open(config, &run.data, &error) == BG_OK) {
        if (mnist_config_check_data(config, bg_dataset_sample_count(run.data.train_set),
                                    bg_dataset_sample_count(run.data.test_set), &error) != BG_OK)
            code = CLI_USAGE;
        else if (run_all(&run, &error) == BG_OK)
            code = CLI_DONE;
    }
    clear_run(&run);
    if (code != CLI_DONE)
        return cli_fail("mnist", code, &error);
    if (received_signal != 0) {
        fflush(stdout);
        fprintf(stderr, "brigade mnist: stopped by signal %d%s\n", (int)received_signal,
                run.is_saved ? "; the weights so far are saved" : "");
        return 128 + (int)received_signal;
    }
    return CLI_DONE;
}

int cli_mnist(int argc, char **argv)
{
    mnist_config config = mnist_config_defaults();
    const mnist_config defaults = config;
    bg_error error = {0};
    bool wants_help;
    uint32_t word_count;

    if (cli_options_read(mnist_options, argc, argv, &config, NULL, 0, &word_count, &wants_help, &error) != BG_OK)
        return cli_fail("mnist", CLI_USAGE, &error);
    if (wants_help) {
        printf("Usage: brigade mnist [OPTION]...\n"
               "Trains the digit network of the pipelining tutorial on four virtual devices, and tests it.\n");
        cli_options_help(mnist_options, &defaults, stdout);
        return CLI_DONE;
    }
    if (mnist_config_check(&config, &error) != BG_OK)
        return cli_fail("mnist", CLI_USAGE, &error);
    catch_signals();
    return run_mnist(&config);
}
