/*
 * mnist_phases.c: training and test: a trainer does them, and its callback leads the progress line, the log and what is
 * known at the end.
 *
 * While a call runs, the loader's thread prepares the next ones, so a call never waits for data on a machine that can
 * copy memory.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <string.h>

#include "cli/command.h"
#include "core/clock.h"
#include "core/error.h"

/* What the tensors of a batch are for. */
static const char *const input_names[] = {"images", "labels"};

static bg_status create_loader(const mnist_config *config, const bg_dataset *set, uint64_t batch_size,
                               mnist_last_batch last, bool shuffle, bg_loader **out, bg_error *error)
{
    const uint8_t pad_label = MNIST_PAD_LABEL;
    const void *const pads[] = {NULL, &pad_label};
    bg_loader_options options = bg_loader_options_default();

    options.batch_size = batch_size;
    options.shuffle = shuffle;
    options.drop_last = last == MNIST_LAST_DROP;
    if (last == MNIST_LAST_PAD) {
        options.pad_multiple = mnist_images_per_update(config);
        options.pad_samples = pads;
    }
    options.seed = config->seed;
    options.mode = strcmp(config->loader_mode, "sync") == 0    ? BG_LOADER_SYNC
                   : strcmp(config->loader_mode, "async") == 0 ? BG_LOADER_ASYNC
                                                               : BG_LOADER_ASYNC_REBATCHED;
    options.worker_count = (uint32_t)config->num_workers;
    options.prefetch_depth = (uint32_t)config->prefetch;
    return bg_loader_create(set, &options, out, error);
}

/* ---- training ---- */

static void begin_epoch(mnist_phases *phases, const bg_trainer_event *event)
{
    const mnist_config *config = phases->config;

    if (!config->quiet) {
        printf("Epoch %" PRIu64 "/%" PRIu64 "\n", event->epoch + 1, config->epochs);
        fflush(stdout);
    }
    phases->score = (mnist_score){.image_count = 0};
    mnist_progress_begin(&phases->progress, config->quiet, event->batch_count - event->batch);
}

static void note_training_call(mnist_phases *phases, const bg_trainer_event *event)
{
    const bg_trainer_call *call = event->call;
    const mnist_score score = mnist_call_score(phases->config, call);
    mnist_training_result *result = &phases->training;

    mnist_log_call(phases->log, call, event->epoch + 1);
    if (result->bad_first == 0)
        result->bad_loss = mnist_call_bad_loss(phases->config, call, &result->bad_first, &result->bad_last);
    result->updates += call->update_count;
    result->images += call->valid_count;
    result->has_whole = result->has_whole || call->is_whole;
    if (score.image_count > 0)
        phases->score = score;
}

/* A disk that is full ends no training: the next checkpoint may fit again. */
static void save_checkpoint(mnist_phases *phases, const bg_trainer_event *event)
{
    bg_error error = {0};

    phases->is_checkpointed = mnist_checkpoint_save(phases, event->epoch, event->batch, &error) == BG_OK;
    if (phases->is_checkpointed)
        return;
    cli_warn(phases->config->command, error.message);
    if (phases->checkpoint_failure.status == BG_OK)
        phases->checkpoint_failure = error;
}

static void hear_training(mnist_phases *phases, const bg_trainer_event *event)
{
    mnist_progress *progress = &phases->progress;

    if (event->kind == BG_ON_EPOCH_START)
        begin_epoch(phases, event);
    else if (event->kind == BG_ON_CALL_END)
        note_training_call(phases, event);
    else if (event->kind == BG_ON_BATCH_END)
        mnist_progress_add(progress, event->valid_count, &phases->score);
    else if (event->kind == BG_ON_SAVE_CHECKPOINT)
        save_checkpoint(phases, event);
    else if (event->kind == BG_ON_EPOCH_END)
        mnist_progress_end(progress, progress->done > 0 ? &phases->score : NULL);
}

bg_status mnist_train(mnist_phases *phases, bg_error *error)
{
    const mnist_config *config = phases->config;
    const uint64_t samples = bg_trainer_samples_per_call(phases->trainer, BG_TRAINER_FIT);
    bg_trainer_data data = {.names = input_names};
    double start_s = bgi_clock_s();
    bg_status status;

    if (config->epochs == 0)
        return BG_OK;
    BGI_TRY(create_loader(config, phases->data->train_set, samples, mnist_config_last_batch(config),
                          !config->no_shuffle, &data.loader, error));
    phases->loader = data.loader;
    status = bg_trainer_fit(phases->trainer, &data, NULL, error);
    phases->loader = NULL;
    phases->training.seconds = bgi_clock_s() - start_s;
    phases->training.loader = bg_loader_statistics_of(data.loader);
    bg_loader_destroy(data.loader);
    return status;
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
static void end_whole_calls(mnist_phases *phases)
{
    mnist_progress *progress = &phases->progress;

    mnist_progress_end(progress, NULL);
    if (!*phases->stop)
        printf("Accuracy on test set: %0.2f%%\n", phases->test.accuracy_sum / (double)progress->done);
}

/* The images after the last whole call come in a call of their own, after the progress line. */
static void hear_test(mnist_phases *phases, const bg_trainer_event *event)
{
    mnist_progress *progress = &phases->progress;
    mnist_test_result *result = &phases->test;

    if (event->kind == BG_ON_CALL_END) {
        const uint64_t correct = mnist_call_correct(event->call);
        result->images += event->call->sample_count;
        result->correct += correct;
        if (event->call->is_whole)
            result->accuracy_sum += 100.0 * (double)correct / (double)event->call->sample_count;
    } else if (event->kind == BG_ON_BATCH_END && event->call->is_whole) {
        mnist_progress_add(progress, event->valid_count, NULL);
        if (progress->done == progress->total)
            end_whole_calls(phases);
    } else if (event->kind == BG_ON_TEST_END && progress->done < progress->total) {
        mnist_progress_end(progress, NULL); /* stopped */
    }
}

bg_status mnist_test(mnist_phases *phases, bg_error *error)
{
    const mnist_config *config = phases->config;
    const uint64_t count = bg_dataset_sample_count(phases->data->test_set);
    const uint64_t iterations = mnist_test_iterations(config, count);
    const uint64_t samples = bg_trainer_samples_per_call(phases->trainer, BG_TRAINER_TEST);
    const mnist_test_result *result = &phases->test;
    bg_trainer_data data = {.names = input_names};
    bg_status status;

    printf("Testing...\n");
    fflush(stdout);
    print_shrunk(config, phases->data, iterations);
    if (iterations > 0) {
        cli_begin_compilation(config->quiet);
        status = bg_trainer_prepare(phases->trainer, BG_TRAINER_TEST, error);
        cli_clear_line(config->quiet);
        if (status != BG_OK)
            return status;
        if (!config->quiet)
            cli_report_compilation(bg_trainer_plan(phases->trainer, BG_TRAINER_TEST));
    }
    /* In order, so that what is left over is the end of the set. */
    BGI_TRY(create_loader(config, phases->data->test_set, samples, MNIST_LAST_SMALLER, false, &data.loader, error));
    mnist_progress_begin(&phases->progress, config->quiet, count / samples);
    status = bg_trainer_test(phases->trainer, &data, error);
    bg_loader_destroy(data.loader);
    if (status != BG_OK || *phases->stop)
        return status;
    printf("Accuracy on all %" PRIu64 " test images: %0.2f%%\n", result->images,
           100.0 * (double)result->correct / (double)result->images);
    fflush(stdout);
    return BG_OK;
}

/* ---- the trainer ---- */

static bg_status hear(void *user, bg_trainer_event *event, bg_error *error)
{
    (void)error;
    if (event->stage == BG_TRAINER_FIT)
        hear_training(user, event);
    else
        hear_test(user, event);
    return BG_OK;
}

/* A call that was made smaller, or made at all, is not the user's: limits on its number of micro-batches are not for
 * it. */
static bg_options make_test_options(const mnist_config *config, mnist_shape *shape, mnist_plan_room *room)
{
    const bool is_own = is_test_shrunk(config, shape->device_iterations);
    bg_options options;

    if (shape->device_iterations == 0)
        shape->device_iterations = 1;
    options = mnist_shape_options(config, shape, room);
    options.ipu_limits = config->ipu_limits && !is_own;
    return options;
}

bg_status mnist_phases_create(const mnist_config *config, const mnist_data *data, bg_weights *weights, cli_log *log,
                              const volatile sig_atomic_t *stop, mnist_phases *out, bg_error *error)
{
    const mnist_shape training = mnist_training_shape(config);
    mnist_shape test = mnist_test_shape(config, bg_dataset_sample_count(data->test_set));
    bg_trainer_options options = bg_trainer_options_defaults();

    *out = (mnist_phases){
        .config = config, .data = data, .log = log, .stop = stop, .callback = {.function = hear, .user = out}};
    out->options[0] = mnist_shape_options(config, &training, &out->rooms[0]);
    out->options[1] = make_test_options(config, &test, &out->rooms[1]);
    options.strategy.training_options = &out->options[0];
    options.strategy.inference_options = &out->options[1];
    options.model = mnist_model_add;
    options.model_user = (void *)(uintptr_t)config;
    BGI_TRY(bg_optimiser_parse(config->optimiser, config->learning_rate, &options.optimiser, error));
    options.micro_batch[BG_TRAINER_FIT] = (uint32_t)training.micro_batch;
    options.micro_batch[BG_TRAINER_TEST] = (uint32_t)test.micro_batch;
    options.max_epochs = config->epochs;
    options.max_steps = config->steps;
    if (config->checkpoint_dir != NULL) {
        options.checkpoint_steps = config->checkpoint_steps;
        options.checkpoint_end = true;
    }
    options.callbacks = &out->callback;
    options.callback_count = 1;
    options.interrupt = stop;
    BGI_TRY(bg_trainer_create(&options, weights, &out->trainer, error));
    return bg_trainer_prepare(out->trainer, BG_TRAINER_FIT, error);
}

void mnist_phases_clear(mnist_phases *phases)
{
    bg_trainer_destroy(phases->trainer);
    phases->trainer = NULL;
}
