/*
 * mnist_phases.c: training and test: loaders feed a compiled model, call by call.
 *
 * While a call runs, the loader's thread prepares the next ones, so a call never waits for data on a machine that can
 * copy memory.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

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

typedef struct trainer {
    const mnist_config *config;
    mnist_runner *runner;
    bg_weights *weights;
    cli_log *log;
    const volatile sig_atomic_t *stop;
    bg_loader *loader;
    uint64_t update_limit; /* 0: none */
    mnist_training_result *result;
} trainer;

static uint64_t updates_left(const trainer *t)
{
    return t->update_limit == 0 ? UINT64_MAX : t->update_limit - t->result->updates;
}

/* Keeps the first loss that is not finite. Modes that return less than every loss tell it for a part of the call. */
static void watch_loss(mnist_training_result *result, const mnist_runner *runner)
{
    const mnist_runner_options *options = &runner->options;
    uint64_t per_update = options->gradient_accumulation * options->replicas;
    uint64_t all_count = per_update * options->device_iterations;
    const float *all = runner->loss_all != NULL                ? runner->loss_all
                       : options->output_mode == BG_OUTPUT_ALL ? runner->loss
                                                               : NULL;

    if (result->bad_first != 0)
        return;
    for (uint64_t i = 0; i < (all != NULL ? all_count : runner->loss_count); i++) {
        double loss = (double)(all != NULL ? all : runner->loss)[i];
        if (isfinite(loss))
            continue;
        result->bad_loss = loss;
        result->bad_first = result->updates + 1 + (all != NULL ? i / per_update : 0);
        result->bad_last = all != NULL ? result->bad_first : result->updates + options->device_iterations;
        return;
    }
}

/* One call on the batch's images from `first` on with the given model, and its lines of the log. */
static bg_status run_call(trainer *t, mnist_runner *runner, const bg_batch *batch, uint64_t first, bg_error *error)
{
    double start_s = mnist_now_s();
    uint64_t images = batch->valid_count - first;

    if (images > runner->summary.samples_per_run)
        images = runner->summary.samples_per_run;
    BGI_TRY(mnist_runner_run(runner, (const uint8_t *)batch->tensors[0] + first * 28 * 28,
                             (const uint8_t *)batch->tensors[1] + first, images, error));
    mnist_log_run(t->log, runner, t->result->updates + 1, batch->epoch + 1, (double)images / (mnist_now_s() - start_s));
    watch_loss(t->result, runner);
    t->result->updates += runner->options.device_iterations;
    t->result->images += images;
    return BG_OK;
}

/* A call of another size: the same network, compiled for it, on the same weights. */
static bg_status run_other(trainer *t, const mnist_runner_options *usual, const bg_batch *batch, uint64_t first,
                           mnist_score *score, bg_error *error)
{
    mnist_runner_options options = *usual;
    mnist_config lenient = *t->config;
    mnist_runner other;
    bg_status status;

    /* Not the user's choice of numbers: limits on the number of micro-batches do not apply. */
    lenient.ipu_limits = false;
    if (options.output_mode == BG_OUTPUT_EVERY_N) /* whose period need not divide this number of updates */
        options.output_mode = BG_OUTPUT_FINAL;
    BGI_TRY(mnist_runner_create(&lenient, &options, t->weights, &other, error));
    status = run_call(t, &other, batch, first, error);
    if (status == BG_OK && mnist_runner_score(&other).image_count > 0)
        *score = mnist_runner_score(&other);
    if (t->config->profile) {
        mnist_runner_clear(&t->result->rest);
        t->result->rest = other;
    } else {
        mnist_runner_clear(&other);
    }
    return status;
}

/* One update of what is left: over the replicas when it divides, in micro-batches as large as divide it. */
static mnist_runner_options shape_last_update(const mnist_runner_options *usual, uint64_t images)
{
    mnist_runner_options options = *usual;
    uint64_t share;

    if (images % options.replicas != 0)
        options.replicas = 1;
    share = images / options.replicas;
    options.device_iterations = 1;
    options.micro_batch = share < usual->micro_batch ? share : usual->micro_batch;
    while (share % options.micro_batch != 0)
        options.micro_batch--;
    options.gradient_accumulation = share / options.micro_batch;
    return options;
}

/* Fewer updates than a call has: because no more are wanted, or because the images of the epoch end. */
static bg_status run_rest(trainer *t, const bg_batch *batch, mnist_score *score, bg_error *error)
{
    mnist_runner_options options = t->runner->options;
    uint64_t per_update = mnist_images_per_update(t->config), first = 0;
    uint64_t whole = batch->sample_count / per_update;

    options.device_iterations = whole < updates_left(t) ? whole : updates_left(t);
    if (options.device_iterations > 0)
        BGI_TRY(run_other(t, &options, batch, first, score, error));
    first = whole * per_update;
    if (first == batch->sample_count || updates_left(t) == 0)
        return BG_OK;
    options = shape_last_update(&t->runner->options, batch->sample_count - first);
    return run_other(t, &options, batch, first, score, error);
}

static bg_status run_epoch(trainer *t, uint64_t epoch, bg_error *error)
{
    uint64_t per_call = t->runner->options.device_iterations;
    uint64_t whole = t->runner->summary.samples_per_run;
    uint64_t calls = bg_loader_batch_count(t->loader);
    mnist_progress progress;
    mnist_score score = {0};
    bg_batch batch;

    if (updates_left(t) / per_call < calls)
        calls = (updates_left(t) + per_call - 1) / per_call;
    if (!t->config->quiet) {
        printf("Epoch %" PRIu64 "/%" PRIu64 "\n", epoch + 1, t->config->epochs);
        fflush(stdout);
    }
    mnist_progress_begin(&progress, t->config->quiet, calls);
    BGI_TRY(bg_loader_begin_epoch(t->loader, epoch, error));
    while (progress.done < calls && !*t->stop) {
        uint64_t images_before = t->result->images;
        BGI_TRY(bg_loader_next(t->loader, &batch, error));
        if (updates_left(t) >= per_call && batch.sample_count == whole) {
            BGI_TRY(run_call(t, t->runner, &batch, 0, error));
            if (mnist_runner_score(t->runner).image_count > 0)
                score = mnist_runner_score(t->runner);
        } else {
            BGI_TRY(run_rest(t, &batch, &score, error));
        }
        mnist_progress_add(&progress, t->result->images - images_before, &score);
    }
    mnist_progress_end(&progress, progress.done > 0 ? &score : NULL);
    return BG_OK;
}

bg_status mnist_train(const mnist_config *config, const mnist_data *data, mnist_runner *runner, bg_weights *weights,
                      cli_log *log, const volatile sig_atomic_t *stop, mnist_training_result *out, bg_error *error)
{
    trainer t = {.config = config,
                 .runner = runner,
                 .weights = weights,
                 .log = log,
                 .stop = stop,
                 .update_limit = config->steps,
                 .result = out};
    double start_s = mnist_now_s();
    bg_status status = BG_OK;

    *out = (mnist_training_result){.updates = 0};
    if (config->epochs == 0)
        return BG_OK;
    BGI_TRY(create_loader(config, data->train_set, runner->summary.samples_per_run, mnist_config_last_batch(config),
                          !config->no_shuffle, &t.loader, error));
    for (uint64_t epoch = 0; status == BG_OK && epoch < config->epochs && updates_left(&t) > 0 && !*stop; epoch++)
        status = run_epoch(&t, epoch, error);
    out->seconds = mnist_now_s() - start_s;
    out->loader = bg_loader_statistics_of(t.loader);
    bg_loader_destroy(t.loader);
    return status;
}

/* ---- test ---- */

typedef struct test_result {
    uint64_t calls, images, correct;
    double accuracy_sum; /* of the calls, in per cent */
} test_result;

static bg_status test_calls(const mnist_config *config, const mnist_data *data, mnist_runner *runner,
                            const volatile sig_atomic_t *stop, test_result *result, bg_error *error)
{
    uint64_t images = runner->summary.samples_per_run;
    mnist_progress progress;
    bg_loader *loader = NULL;
    bg_batch batch;
    bg_status status;

    /* In order, so that what is left over is the end of the set. */
    BGI_TRY(create_loader(config, data->test_set, images, MNIST_LAST_DROP, false, &loader, error));
    mnist_progress_begin(&progress, config->quiet, bg_loader_batch_count(loader));
    BGI_TRY_CLEANUP(bg_loader_begin_epoch(loader, 0, error));
    while (progress.done < progress.total && !*stop) {
        mnist_score score;
        BGI_TRY_CLEANUP(bg_loader_next(loader, &batch, error));
        BGI_TRY_CLEANUP(mnist_runner_run(runner, batch.tensors[0], batch.tensors[1], images, error));
        score = mnist_runner_score(runner);
        result->accuracy_sum += score.accuracy;
        for (uint64_t i = 0; i < runner->correct_count; i++)
            result->correct += (uint64_t)runner->correct[i];
        result->images += images;
        result->calls++;
        mnist_progress_add(&progress, images, NULL);
    }
    mnist_progress_end(&progress, NULL);
cleanup:
    bg_loader_destroy(loader);
    return status;
}

/* The images after the last whole call, in micro-batches of the largest size up to the usual that divides them. */
static bg_status test_rest(const mnist_config *config, const mnist_data *data, bg_weights *weights, test_result *result,
                           bg_error *error)
{
    uint64_t count = bg_dataset_sample_count(data->test_set) - result->images;
    mnist_runner_options options = {.training = false,
                                    .micro_batch = config->test_batch_size,
                                    .gradient_accumulation = 1,
                                    .replicas = 1,
                                    .output_mode = BG_OUTPUT_SUM};
    mnist_config lenient = *config;
    mnist_runner runner;
    bg_status status;

    if (count == 0)
        return BG_OK;
    if (options.micro_batch > count)
        options.micro_batch = count;
    while (count % options.micro_batch != 0)
        options.micro_batch--;
    options.device_iterations = count / options.micro_batch;
    /* This run is not the user's: limits on the number of micro-batches do not apply to it. */
    lenient.ipu_limits = false;
    BGI_TRY(mnist_runner_create(&lenient, &options, weights, &runner, error));
    status = mnist_runner_run(&runner, (const uint8_t *)data->test.images.data + result->images * 28 * 28,
                              (const uint8_t *)data->test.labels.data + result->images, count, error);
    for (uint64_t i = 0; status == BG_OK && i < runner.correct_count; i++)
        result->correct += (uint64_t)runner.correct[i];
    if (status == BG_OK)
        result->images += count;
    mnist_runner_clear(&runner);
    return status;
}

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

static mnist_runner_options shape_test(const mnist_config *config, uint64_t iterations)
{
    return (mnist_runner_options){.training = false,
                                  .micro_batch = config->test_batch_size,
                                  .device_iterations = iterations,
                                  .gradient_accumulation = 1,
                                  .replicas = mnist_test_replicas(config),
                                  .output_mode = config->ipu.test.stages != NULL ? config->ipu.test.options.output_mode
                                                                                 : BG_OUTPUT_SUM};
}

bg_status mnist_test_check(const mnist_config *config, const mnist_data *data, bg_error *error)
{
    const uint64_t iterations = mnist_test_iterations(config, bg_dataset_sample_count(data->test_set));
    const mnist_runner_options options = shape_test(config, iterations);
    bg_plan *plan = NULL;

    if (config->ipu.test.stages == NULL || iterations == 0)
        return BG_OK;
    BGI_TRY(mnist_plan_create(config, &options, &plan, error));
    bg_plan_destroy(plan);
    return BG_OK;
}

bg_status mnist_test(const mnist_config *config, const mnist_data *data, bg_weights *weights,
                     const volatile sig_atomic_t *stop, bg_error *error)
{
    uint64_t iterations = mnist_test_iterations(config, bg_dataset_sample_count(data->test_set));
    mnist_runner_options options = shape_test(config, iterations);
    test_result result = {.calls = 0};
    mnist_config lenient = *config;
    mnist_runner runner;
    bg_status status;

    printf("Testing...\n");
    fflush(stdout);
    print_shrunk(config, data, iterations);
    if (iterations > 0) {
        /* A call that was made smaller is not the user's: limits on the number of micro-batches do not apply to it. */
        lenient.ipu_limits = config->ipu_limits && !is_test_shrunk(config, iterations);
        BGI_TRY(mnist_runner_create(&lenient, &options, weights, &runner, error));
        if (!config->quiet)
            printf("Graph compilation: %.1f ms\n", runner.summary.compile_ms);
        status = test_calls(config, data, &runner, stop, &result, error);
        mnist_runner_clear(&runner);
        if (status != BG_OK || *stop)
            return status;
        printf("Accuracy on test set: %0.2f%%\n", result.accuracy_sum / (double)result.calls);
    }
    BGI_TRY(test_rest(config, data, weights, &result, error));
    printf("Accuracy on all %" PRIu64 " test images: %0.2f%%\n", result.images,
           100.0 * (double)result.correct / (double)result.images);
    fflush(stdout);
    return BG_OK;
}
