/*
 * mnist_phases.c: training and test: what the progress line, the log and the results do at the trainer's events.
 *
 * While a call runs, the loader's thread prepares the next ones, so a call never waits for data on a machine that can
 * copy memory.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"

const char *const mnist_inputs[] = {"images", "labels"};

/* The loader pads with zeros, and with labels that are ignored. */
static const uint8_t pad_label = MNIST_PAD_LABEL;
static const void *const pads[] = {NULL, &pad_label};

static bg_loader_options describe_loader(const mnist_config *config, mnist_last_batch last, bool shuffle)
{
    bg_loader_options options = bg_loader_options_defaults();

    options.shuffle = shuffle;
    options.drop_last = last == MNIST_LAST_DROP;
    if (last == MNIST_LAST_PAD) {
        options.pad_multiple = mnist_images_per_update(config);
        options.pad_samples = pads;
    }
    options.seed = config->library.options.numerics.seed;
    options.mode = strcmp(config->loader_mode, "sync") == 0    ? BG_LOADER_SYNC
                   : strcmp(config->loader_mode, "async") == 0 ? BG_LOADER_ASYNC
                                                               : BG_LOADER_ASYNC_REBATCHED;
    options.worker_count = (uint32_t)config->num_workers;
    options.prefetch_depth = (uint32_t)config->prefetch;
    return options;
}

void mnist_load(const cli_training *training, bg_loader_options *out)
{
    const mnist_config *config = training->settings;

    *out = describe_loader(config, mnist_config_last_batch(config), !config->no_shuffle);
}

/* ---- training ---- */

static void begin_epoch(const mnist_config *config, mnist_run *run, const bg_trainer_event *event)
{
    if (!config->quiet) {
        printf("Epoch %" PRIu64 "/%" PRIu64 "\n", event->epoch + 1, config->epochs);
        fflush(stdout);
    }
    run->score = (mnist_score){.image_count = 0};
    mnist_progress_begin(&run->progress, config->quiet, event->batch_count - event->batch);
}

static void note_training_call(cli_training *training, const bg_trainer_event *event)
{
    const mnist_config *config = training->settings;
    const bg_trainer_call *call = event->call;
    const mnist_score score = mnist_call_score(config, call);
    mnist_run *run = training->state;
    mnist_training_result *result = &run->training;

    mnist_log_call(&training->log, call, event->epoch + 1);
    if (result->bad_first == 0)
        result->bad_loss = mnist_call_bad_loss(config, call, &result->bad_first, &result->bad_last);
    result->updates += call->update_count;
    result->images += call->valid_count;
    result->has_whole = result->has_whole || call->is_whole;
    if (score.image_count > 0)
        run->score = score;
}

/* A disk that is full ends no training: the next checkpoint may fit again. */
static void save_checkpoint(cli_training *training, const bg_trainer_event *event)
{
    mnist_run *run = training->state;
    bg_error error = {0};

    run->is_checkpointed = mnist_checkpoint_save(training, event->epoch, event->batch, &error) == BG_OK;
    if (run->is_checkpointed)
        return;
    cli_warn("mnist", error.message);
    if (run->checkpoint_failure.status == BG_OK)
        run->checkpoint_failure = error;
}

static void on_training_event(cli_training *training, const bg_trainer_event *event)
{
    mnist_run *run = training->state;
    mnist_progress *progress = &run->progress;

    if (event->kind == BG_ON_EPOCH_START)
        begin_epoch(training->settings, run, event);
    else if (event->kind == BG_ON_CALL_END)
        note_training_call(training, event);
    else if (event->kind == BG_ON_BATCH_END)
        mnist_progress_add(progress, event->valid_count, &run->score);
    else if (event->kind == BG_ON_SAVE_CHECKPOINT)
        save_checkpoint(training, event);
    else if (event->kind == BG_ON_EPOCH_END)
        mnist_progress_end(progress, progress->done > 0 ? &run->score : NULL);
}

/* ---- test ---- */

static bool is_test_shrunk(const mnist_config *config, uint64_t iterations)
{
    return iterations != mnist_wanted_test_iterations(config);
}

/* A test that is smaller than the training's calls must not keep anybody from training. */
static void print_shrunk(const mnist_config *config, const mnist_data *data, uint64_t iterations)
{
    if (config->quiet || !is_test_shrunk(config, iterations))
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

/* The mean over whole calls, when the last one is done. */
static void end_whole_calls(mnist_run *run)
{
    mnist_progress *progress = &run->progress;

    mnist_progress_end(progress, NULL);
    if (cli_received_signal == 0)
        printf("Accuracy on test set: %0.2f%%\n", run->test.accuracy_sum / (double)progress->done);
}

/* The images after the last whole call come in a call of their own, after the progress line. */
static void on_test_event(mnist_run *run, const bg_trainer_event *event)
{
    mnist_progress *progress = &run->progress;
    mnist_test_result *result = &run->test;

    if (event->kind == BG_ON_CALL_END) {
        const uint64_t correct = mnist_call_correct(event->call);
        result->images += event->call->sample_count;
        result->correct += correct;
        if (event->call->is_whole)
            result->accuracy_sum += 100.0 * (double)correct / (double)event->call->sample_count;
    } else if (event->kind == BG_ON_BATCH_END && event->call->is_whole) {
        mnist_progress_add(progress, event->valid_count, NULL);
        if (progress->done == progress->total)
            end_whole_calls(run);
    } else if (event->kind == BG_ON_TEST_END && progress->done < progress->total) {
        mnist_progress_end(progress, NULL); /* stopped */
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

    cli_begin_compilation(config->quiet);
    status = bg_trainer_prepare(training->trainer, BG_TRAINER_TEST, error);
    cli_clear_line(config->quiet);
    if (status == BG_OK && !config->quiet)
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
    /* In order, so that what is left over is the end of the set. */
    bg_loader_options loading = describe_loader(config, MNIST_LAST_SMALLER, false);
    bg_trainer_data data = {.names = mnist_inputs};
    bg_status status;

    printf("Testing...\n");
    fflush(stdout);
    print_shrunk(config, &run->data, iterations);
    if (iterations > 0)
        BGI_TRY(prepare_test(training, error));
    loading.batch_size = samples;
    BGI_TRY(bg_loader_create(run->data.test_set, &loading, &data.loader, error));
    mnist_progress_begin(&run->progress, config->quiet, count / samples);
    status = bg_trainer_test(training->trainer, &data, error);
    bg_loader_destroy(data.loader);
    if (status != BG_OK || cli_received_signal != 0)
        return status;
    printf("Accuracy on all %" PRIu64 " test images: %0.2f%%\n", run->test.images,
           100.0 * (double)run->test.correct / (double)run->test.images);
    fflush(stdout);
    return BG_OK;
}

/* A call that was made smaller, or made at all, is not the user's: limits on its number of micro-batches are not for
 * it. */
bg_options mnist_test_options(mnist_config *config, const mnist_data *data, uint32_t *out_micro_batch)
{
    mnist_shape shape = mnist_test_shape(config, bg_dataset_sample_count(data->test_set));
    const bool is_own = is_test_shrunk(config, shape.device_iterations);
    bg_options options;

    if (shape.device_iterations == 0)
        shape.device_iterations = 1;
    options = mnist_shape_options(config, &shape, &config->rooms[1]);
    options.execution.ipu_limits = config->library.options.execution.ipu_limits && !is_own;
    *out_micro_batch = (uint32_t)shape.micro_batch;
    return options;
}
