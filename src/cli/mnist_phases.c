/*
 * mnist_phases.c: handles training and test: updates the progress line, the log and the results at the trainer's
 * events.
 *
 * While a call runs, the loader's thread prepares the data of the next calls, so that calls do not wait for data.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"

const char *const mnist_inputs[] = {"images", "labels"};

/* The loader pads with zeros, and with labels that are ignored. */
static const uint8_t pad_label = MNIST_PAD_LABEL;
static const void *const pads[] = {NULL, &pad_label};

static bg_loader_options describe_loader(const mnist_config *config, mnist_last_batch last, bool shuffle)
{
    bg_loader_options options = cli_recipe_loading(&config->recipe);

    options.shuffle = shuffle;
    options.drop_last = last == MNIST_LAST_DROP;
    if (last == MNIST_LAST_PAD) {
        options.pad_multiple = cli_recipe_samples_per_update(&config->recipe);
        options.pad_samples = pads;
    }
    return options;
}

void mnist_load(const cli_training *training, bg_loader_options *out)
{
    const mnist_config *config = training->settings;

    *out = describe_loader(config, mnist_config_last_batch(config), !config->recipe.no_shuffle);
}

/* ---- training ---- */

static void note_training_call(cli_training *training, const bg_trainer_event *event)
{
    const mnist_config *config = training->settings;
    const bg_trainer_call *call = event->call;
    const mnist_score score = mnist_call_score(config, call);
    mnist_run *run = training->state;
    cli_run *common = &run->common;

    mnist_log_call(&training->log, call, event->epoch + 1);
    if (common->bad_first == 0)
        common->bad_loss = mnist_call_bad_loss(config, call, &common->bad_first, &common->bad_last);
    cli_run_add_call(common, call);
    if (score.image_count > 0)
        run->score = score;
}

static const char *print_score(const mnist_score *score, char text[CLI_SCORE_BYTES])
{
    snprintf(text, CLI_SCORE_BYTES, "Loss:%0.4f | Accuracy:%0.2f%%", score->loss, score->accuracy);
    return text;
}

static void on_training_event(cli_training *training, const bg_trainer_event *event)
{
    const mnist_config *config = training->settings;
    mnist_run *run = training->state;
    cli_progress *progress = &run->common.progress;
    char text[CLI_SCORE_BYTES];

    if (event->kind == BG_ON_EPOCH_START) {
        run->score = (mnist_score){.image_count = 0};
        cli_run_begin_epoch(&config->recipe, &run->common, event);
    } else if (event->kind == BG_ON_CALL_END) {
        note_training_call(training, event);
        cli_run_complete_checkpoint(&config->recipe, &run->common, false);
    } else if (event->kind == BG_ON_BATCH_END) {
        cli_progress_add(progress, event->valid_count, print_score(&run->score, text));
    } else if (event->kind == BG_ON_REFUSED_UPDATE) {
        cli_run_note_refused(&config->recipe, training, &run->common, event);
    } else if (event->kind == BG_ON_SAVE_CHECKPOINT) {
        cli_run_save_checkpoint(&config->recipe, training, &run->common, event);
    } else if (event->kind == BG_ON_EPOCH_END) {
        cli_progress_end(progress, progress->done > 0 ? print_score(&run->score, text) : NULL);
        cli_run_end_epoch(&config->recipe, training, &run->common, event);
    }
}

/* ---- test ---- */

static bool is_test_shrunk(const mnist_config *config, uint64_t iterations)
{
    return iterations != mnist_wanted_test_iterations(config);
}

/* Prints how a test call is reduced to the number of test images. A small test set must not prevent training. */
static void print_shrunk(const mnist_config *config, const mnist_data *data, uint64_t iterations)
{
    if (config->recipe.quiet || !is_test_shrunk(config, iterations))
        return;
    if (iterations > 0)
        printf("A test call has %" PRIu64 " micro-batches of %" PRIu64 " images: there are %" PRIu64 " test images\n",
               iterations, config->test_batch_size, bg_dataset_sample_count(data->test_set));
    else
        printf("The %" PRIu64 " test images are fewer than --test-batch-size %" PRIu64 " x --replicas %" PRIu64
               ": they are tested at once, on one replica\n",
               bg_dataset_sample_count(data->test_set), config->test_batch_size, mnist_test_replicas(config));
}

bg_status mnist_test_check(const mnist_config *config, const mnist_data *data, bg_error *error)
{
    const mnist_shape shape = mnist_test_shape(config, bg_dataset_sample_count(data->test_set));
    bg_plan *plan = NULL;

    if (config->ipu.test.stages == NULL || shape.device_iterations == 0)
        return BG_OK;
    BGI_TRY(mnist_plan_create(config, &shape, &plan, error));
    bg_plan_destroy(plan);
    return BG_OK;
}

/* After the last whole call, ends the progress line and prints the mean accuracy over the whole calls. */
static void end_whole_calls(mnist_run *run)
{
    cli_progress *progress = &run->common.progress;

    cli_progress_end(progress, NULL);
    if (cli_received_signal == 0)
        printf("Accuracy on test set: %0.2f%%\n", run->test.accuracy_sum / (double)progress->done);
}

/* Counts the results of a test call, and updates the progress line. The images after the last whole call are tested in
 * a separate call, after the progress line ends. */
static void on_test_event(mnist_run *run, const bg_trainer_event *event)
{
    cli_progress *progress = &run->common.progress;
    mnist_test_result *result = &run->test;

    if (event->kind == BG_ON_TEST_START && event->batch_count > 0 && event->batch_count < progress->total)
        progress->total = event->batch_count;
    if (event->kind == BG_ON_CALL_END) {
        const uint64_t correct = mnist_call_correct(event->call);
        result->images += event->call->sample_count;
        result->correct += correct;
        if (event->call->is_whole)
            result->accuracy_sum += 100.0 * (double)correct / (double)event->call->sample_count;
    } else if (event->kind == BG_ON_BATCH_END && event->call->is_whole) {
        cli_progress_add(progress, event->valid_count, NULL);
        if (progress->done == progress->total)
            end_whole_calls(run);
    } else if (event->kind == BG_ON_TEST_END && progress->done < progress->total) {
        cli_progress_end(progress, NULL); /* the test was stopped */
    }
}

bg_status mnist_on_event(cli_training *training, bg_trainer_event *event, bg_error *error)
{
    (void)error;
    if (event->task == BG_TRAINER_FIT)
        on_training_event(training, event);
    else
        on_test_event(training->state, event);
    return BG_OK;
}

static bg_status prepare_test(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    bg_status status;

    cli_begin_compilation(config->recipe.quiet);
    status = bg_trainer_prepare(training->trainer, BG_TRAINER_TEST, error);
    cli_clear_line(config->recipe.quiet);
    if (status == BG_OK && !config->recipe.quiet)
        cli_report_compilation(bg_session_plan(bg_trainer_session(training->trainer, BG_TRAINER_TEST)));
    return status;
}

bg_status mnist_test(cli_training *training, bg_error *error)
{
    const mnist_config *config = training->settings;
    mnist_run *run = training->state;
    const uint64_t count = bg_dataset_sample_count(run->data.test_set);
    const uint64_t iterations = mnist_test_iterations(config, count);
    const uint64_t samples = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_TEST);
    const char *limit = config->recipe.limits[BG_TRAINER_TEST];
    /* Images are read in order, so that a smaller last call has the end of the set. */
    bg_loader_options loading = describe_loader(config, MNIST_LAST_SMALLER, false);
    bg_trainer_data data = {.names = mnist_inputs};
    bg_status status;

    if (limit != NULL && strtod(limit, NULL) == 0.0) /* --limit-test-batches 0 */
        return BG_OK;
    printf("Testing...\n");
    fflush(stdout);
    print_shrunk(config, &run->data, iterations);
    if (iterations > 0)
        BGI_TRY(prepare_test(training, error));
    loading.batch_size = samples;
    BGI_TRY(bg_loader_create(run->data.test_set, &loading, &data.loader, error));
    cli_progress_begin(&run->common.progress, "images", config->recipe.quiet, count / samples);
    status = bg_trainer_test(training->trainer, &data, error);
    bg_loader_destroy(data.loader);
    if (status != BG_OK || cli_received_signal != 0)
        return status;
    if (run->test.images == count)
        printf("Accuracy on all %" PRIu64 " test images: %0.2f%%\n", count,
               100.0 * (double)run->test.correct / (double)count);
    else if (run->test.images > 0)
        printf("Accuracy on %" PRIu64 " of %" PRIu64 " test images: %0.2f%%\n", run->test.images, count,
               100.0 * (double)run->test.correct / (double)run->test.images);
    fflush(stdout);
    return BG_OK;
}

/* Returns the options of the test's plan. IPU limits do not apply to a smaller or additional call, because the user did
 * not choose its number of micro-batches. */
bg_options mnist_test_options(mnist_config *config, const mnist_data *data, uint32_t *out_micro_batch)
{
    mnist_shape shape = mnist_test_shape(config, bg_dataset_sample_count(data->test_set));
    const bool is_own = is_test_shrunk(config, shape.device_iterations);
    bg_options options;

    if (shape.device_iterations == 0)
        shape.device_iterations = 1;
    options = mnist_shape_options(config, &shape, &config->rooms[1]);
    options.execution.ipu_limits = config->recipe.library.options.execution.ipu_limits && !is_own;
    *out_micro_batch = (uint32_t)shape.micro_batch;
    return options;
}
