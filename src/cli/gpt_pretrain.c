/*
 * gpt_pretrain.c: `brigade gpt pretrain`: batches of the data go through the compiled model, call by call; each call is
 * reported, and now and then a checkpoint is made. Everything that can be wrong is looked at before the training
 * begins.
 */
#include "cli/gpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <brigade/huggingface.h>

#include "cli/command.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "profile/scalars.h"

typedef struct run {
    const gpt_options *options;
    const bgi_gpt_config *config;
    gpt_data data;
    gpt_runner runner;
    bg_loader *loader;
    cli_log log;
    bgi_event_file events;
    bg_error events_failure; /* why events are missing; the run goes on without them */
    gpt_position position;
    int folder;                /* of --save, held; -1: none */
    uint64_t stop, saved_step; /* step of the last checkpoint, UINT64_MAX: none */
    uint64_t updates;          /* of this process */
    double seconds;            /* that they took, without checkpoints */
} run;

/* ---- what is printed ---- */

static void begin_section(const run *r, const char *name, double *start_s)
{
    *start_s = bgi_clock_s();
    if (!r->options->quiet)
        printf("Starting %s\n", name);
    fflush(stdout);
}

static void end_section(const run *r, const char *name, double start_s)
{
    if (!r->options->quiet)
        printf("%c%s duration: %.2f mins\n", name[0] - 'a' + 'A', name + 1, (bgi_clock_s() - start_s) / 60.0);
    fflush(stdout);
}

static bg_status print_start(const run *r, bg_error *error)
{
    char *text = NULL;

    if (r->options->quiet)
        return BG_OK;
    BGI_TRY(bgi_gpt_config_print(r->config, &text, error));
    printf("Process id: %ld\nConfiguration:\n%sGradient accumulation steps: %" PRIu64 "\n", (long)getpid(), text,
           bgi_gpt_config_accumulation(r->config));
    if (r->config->test_mode)
        printf("Test mode: nothing is written\n");
    free(text);
    return BG_OK;
}

/* What a call of the model was like. */
typedef struct call {
    uint64_t first;                                           /* updates that were done before */
    double loss, norm, learning_rate, seconds, samples_per_s; /* norm and rate: of the last update */
} call;

static void print_call(const run *r, const call *c)
{
    if (r->options->quiet)
        return;
    printf("Step: %" PRIu64 "/%" PRId64
           " Loss: %5.3f Duration: %6.4f s Throughput: %6.1f samples/s Tokens: %.1f tokens/s Gradient norm: %.4g "
           "Learning rate: %.4g\n",
           c->first + r->runner.updates_per_run, r->config->steps, c->loss, c->seconds, c->samples_per_s,
           c->samples_per_s * (double)r->config->sequence_length, c->norm, c->learning_rate);
    fflush(stdout);
}

/* ---- the log ---- */

static bg_status log_updates(run *r, const call *c, bg_error *error)
{
    for (uint64_t i = 0; i < r->runner.updates_per_run; i++) {
        json_t *line = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "step", (json_int_t)(c->first + i + 1), "loss",
                                 cli_json_real(gpt_runner_loss(&r->runner, i)), "grad_norm",
                                 cli_json_real(gpt_runner_norm(&r->runner, i)), "lr", cli_json_real(r->runner.rates[i]),
                                 "samples_per_s", cli_json_real(c->samples_per_s), "tokens_per_s",
                                 cli_json_real(c->samples_per_s * (double)r->config->sequence_length));

        if (r->runner.scales != NULL)
            json_object_set_new(line, "loss_scale", cli_json_real(gpt_runner_scale(&r->runner, i)));
        BGI_TRY(cli_log_write(&r->log, line, error));
    }
    return cli_log_flush(&r->log, error);
}

/* A log that cannot be written any more does not end the training. */
static void log_call(run *r, const call *c)
{
    if (r->log.stream != NULL && log_updates(r, c, &r->log.failure) != BG_OK)
        cli_log_close(&r->log);
}

/* Seconds since 1970. */
static double wall_time_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void add_events(run *r, const call *c)
{
    for (uint64_t i = 0; i < r->runner.updates_per_run && r->events.stream != NULL; i++) {
        const bgi_scalar scalars[] = {{"loss", gpt_runner_loss(&r->runner, i)},
                                      {"grad_norm", gpt_runner_norm(&r->runner, i)},
                                      {"lr", r->runner.rates[i]},
                                      {"throughput", c->samples_per_s}};

        if (bgi_event_file_add(&r->events, c->first + i + 1, wall_time_s(), scalars, 4, &r->events_failure) != BG_OK)
            bgi_event_file_close(&r->events, NULL);
    }
}

/* ---- steps ---- */

/* The next batch; at the end of an epoch, the first of the next one. */
static bg_status next_batch(run *r, bg_batch *out, bg_error *error)
{
    BGI_TRY(bg_loader_next(r->loader, out, error));
    if (out->sample_count > 0)
        return BG_OK;
    r->position = (gpt_position){.epoch = r->position.epoch + 1};
    BGI_TRY(bg_loader_begin_epoch(r->loader, r->position.epoch, error));
    return bg_loader_next(r->loader, out, error);
}

/* Of the last call: the mean loss, and the norm and rate of its last update. */
static void fill_call(const run *r, call *c)
{
    const uint64_t updates = r->runner.updates_per_run;

    c->loss = 0.0;
    for (uint64_t i = 0; i < updates; i++)
        c->loss += gpt_runner_loss(&r->runner, i) / (double)updates;
    c->norm = gpt_runner_norm(&r->runner, updates - 1);
    c->learning_rate = r->runner.rates[updates - 1];
    c->samples_per_s = (double)r->runner.samples_per_run / c->seconds;
}

static bg_status run_call(run *r, bg_error *error)
{
    const double start_s = bgi_clock_s();
    call c = {.first = bg_session_step(r->runner.session)};
    bg_batch batch;

    BGI_TRY(next_batch(r, &batch, error));
    BGI_TRY(gpt_runner_run(&r->runner, r->config, batch.tensors[0], batch.tensors[1], error));
    r->position.sample += batch.sample_count;
    c.seconds = bgi_clock_s() - start_s;
    fill_call(r, &c);
    r->updates += r->runner.updates_per_run;
    r->seconds += c.seconds;
    print_call(r, &c);
    log_call(r, &c);
    add_events(r, &c);
    /* Weights of a run that went wrong are not worth a checkpoint: the last good one stays. With a scale that adapts
     * itself an update whose gradients overflow is none. */
    if (!isfinite(c.loss) || (!isfinite(c.norm) && r->runner.scales == NULL))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the %s became %s in update %" PRIu64
                            ": lower training.optimizer.learning_rate.maximum; no checkpoint was made of it",
                            isfinite(c.loss) ? "gradient norm" : "loss",
                            isnan(isfinite(c.loss) ? c.norm : c.loss) ? "NaN" : "infinite",
                            c.first + r->runner.updates_per_run);
    return BG_OK;
}

static bg_status save_checkpoint(run *r, bg_error *error)
{
    const uint64_t step = bg_session_step(r->runner.session);

    if (r->config->save == NULL || r->config->test_mode || step == r->saved_step)
        return BG_OK;
    BGI_TRY(gpt_checkpoint_save(r->runner.session, r->config, &r->data, &r->position, error));
    r->saved_step = step;
    return BG_OK;
}

static bg_status run_steps(run *r, bg_error *error)
{
    const uint64_t every = (uint64_t)r->config->checkpoint_steps;

    while (bg_session_step(r->runner.session) < r->stop && cli_received_signal == 0) {
        BGI_TRY(run_call(r, error));
        if (every > 0 && bg_session_step(r->runner.session) % every == 0)
            BGI_TRY(save_checkpoint(r, error));
    }
    return BG_OK;
}

/* ---- the whole run ---- */

static bg_status check_places(const run *r, bg_error *error)
{
    if (r->config->test_mode)
        return BG_OK;
    if (r->options->weights_path != NULL)
        BGI_TRY(cli_save_check(r->options->weights_path, "save-weights", error));
    if (r->options->save_hf != NULL) {
        const bg_status status = bgi_folder_create(r->options->save_hf, error);

        if (status != BG_OK)
            return bg_error_context(error, status, "--save-hf");
    }
    return r->options->log_path != NULL ? cli_log_check(r->options->log_path, error) : BG_OK;
}

/* The weights of a Hugging Face model instead of random ones. */
static bg_status load_model(run *r, bg_error *error)
{
    const bg_gpt_options model = gpt_describe_model(r->config);
    bg_status status;

    if (r->options->hf_model == NULL)
        return BG_OK;
    if (bg_session_is_continued(r->runner.session))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--hf-model %s: the files in %s are of step %" PRIu64
                            "; go on from them without --hf-model, or remove them to begin with the model",
                            r->options->hf_model, r->config->memmap_dir, bg_session_step(r->runner.session));
    if (strcmp(r->options->hf_model, "test") == 0 || strcmp(r->options->hf_model, "Test") == 0) {
        if (!r->options->quiet)
            printf("Model: a random one of the configured size\n");
        return BG_OK;
    }
    status = bg_gpt_directory_load(r->options->hf_model, &model, bg_session_weights(r->runner.session), error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--hf-model");
}

static bg_status save_model(run *r, bg_error *error)
{
    const bg_gpt_options model = gpt_describe_model(r->config);
    bg_weights *weights = bg_session_weights(r->runner.session);
    bg_status status = BG_OK;

    if (r->config->test_mode)
        return BG_OK;
    if (r->options->weights_path != NULL)
        status = cli_weights_save(weights, r->options->weights_path, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "--save-weights");
    if (r->options->save_hf != NULL)
        status = bg_gpt_directory_save(r->options->save_hf, &model, weights, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--save-hf");
}

static bg_status create_loader(run *r, bg_error *error)
{
    bg_loader_options options = bg_loader_options_default();

    options.batch_size = r->runner.samples_per_run;
    options.shuffle = !r->options->no_shuffle;
    options.seed = (uint64_t)r->config->seed;
    BGI_TRY(bg_loader_create(r->data.set, &options, &r->loader, error));
    return bg_loader_begin_at(r->loader, r->position.epoch, r->position.sample / r->runner.samples_per_run, error);
}

/* From a checkpoint or from files. */
static bool goes_on(const run *r)
{
    return r->config->load != NULL || bg_session_is_continued(r->runner.session);
}

/* Calls that begin elsewhere would meet neither the checkpoints nor the end. */
static bg_status check_step(const run *r, bg_error *error)
{
    const uint64_t step = bg_session_step(r->runner.session), updates = r->runner.updates_per_run;

    if (step >= r->stop || step % updates == 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "step %" PRIu64 ", where the run would go on, is not divisible by execution.device_iterations "
                        "%" PRIu64 ": go on with --set device_iterations=1",
                        step, updates);
}

static bg_status prepare(run *r, bg_error *error)
{
    double start_s;

    BGI_TRY(check_places(r, error));
    begin_section(r, "data preparation", &start_s);
    BGI_TRY(gpt_data_open(r->config, &r->data, error));
    if (!r->options->quiet)
        printf("Data: %s; %" PRIu64 " sample%s of %" PRId64 " tokens\n", r->data.source, r->data.sample_count,
               cli_s(r->data.sample_count), r->config->sequence_length);
    end_section(r, "data preparation", start_s);
    begin_section(r, "compilation", &start_s);
    BGI_TRY(gpt_runner_create(r->options, r->config, &r->runner, error));
    if (!r->options->quiet)
        cli_report_compilation(r->runner.plan);
    end_section(r, "compilation", start_s);
    BGI_TRY(load_model(r, error));
    BGI_TRY(gpt_checkpoint_load(r->runner.session, r->config, &r->data, &r->position, error));
    BGI_TRY(check_step(r, error));
    if (goes_on(r) && !r->options->quiet)
        printf("Going on from step %" PRIu64 "\n", bg_session_step(r->runner.session));
    r->saved_step = UINT64_MAX;
    if (r->config->test_mode)
        return create_loader(r, error);
    BGI_TRY(gpt_checkpoint_check(r->config, bg_session_step(r->runner.session), &r->folder, error));
    BGI_TRY(cli_log_open(&r->log, r->options->log_path, goes_on(r), &cli_received_signal, error));
    if (r->options->tensorboard != NULL &&
        bgi_event_file_open(&r->events, r->options->tensorboard, wall_time_s(), (uint64_t)getpid(), error) != BG_OK)
        return bg_error_context(error, error->status, "--tensorboard");
    return create_loader(r, error);
}

static void print_end(const run *r)
{
    const uint64_t step = bg_session_step(r->runner.session);
    const double samples = (double)r->updates * (double)r->config->global_batch_size;

    if (r->updates > 0)
        printf("Trained %" PRIu64 " weight updates in %.2f s: %.1f samples/s, %.1f tokens/s\n", r->updates, r->seconds,
               samples / r->seconds, samples * (double)r->config->sequence_length / r->seconds);
    else if (cli_received_signal == 0)
        printf("Nothing was trained: %s of step %" PRIu64 ", the run ends at %" PRIu64 "\n",
               r->config->load != NULL ? "the checkpoint is" : "the files are", step, r->stop);
    if (cli_received_signal != 0)
        printf("Stopped by signal %d after step %" PRIu64 "%s\n", (int)cli_received_signal, step,
               r->saved_step == step || (r->config->memmap_dir != NULL && !r->config->test_mode) ? "; it is saved"
                                                                                                 : "");
    else
        printf("Finished pre-training.\n");
}

static bg_status train(run *r, bg_error *error)
{
    double start_s;

    begin_section(r, "training", &start_s);
    BGI_TRY(run_steps(r, error));
    end_section(r, "training", start_s);
    if (r->updates > 0)
        BGI_TRY(save_checkpoint(r, error));
    BGI_TRY(gpt_files_flush(r->runner.session, r->config, &r->data, &r->position, error));
    BGI_TRY(save_model(r, error));
    print_end(r);
    cli_log_close(&r->log);
    if (r->events_failure.status == BG_OK)
        bgi_event_file_close(&r->events, &r->events_failure);
    if (r->log.failure.status != BG_OK)
        return bg_error_set(error, r->log.failure.status, "%s", r->log.failure.message);
    if (r->events_failure.status != BG_OK)
        return bg_error_set(error, r->events_failure.status, "--tensorboard: %s", r->events_failure.message);
    return BG_OK;
}

static int run_all(const gpt_options *options, const bgi_gpt_config *config)
{
    run r = {.options = options,
             .config = config,
             .folder = -1,
             .stop = options->stop > 0 ? options->stop : (uint64_t)config->steps};
    bg_error error = {0};
    bg_status status = print_start(&r, &error);

    if (status == BG_OK && options->common.compile_only)
        status = gpt_compile_alone(options, config, &error);
    else if (status == BG_OK)
        status = prepare(&r, &error);
    if (status == BG_OK && !options->common.compile_only)
        status = train(&r, &error);
    cli_log_close(&r.log);
    bgi_event_file_close(&r.events, NULL);
    bg_loader_destroy(r.loader);
    gpt_runner_clear(&r.runner);
    gpt_data_close(&r.data);
    bgi_folder_release(&r.folder);
    return status == BG_OK ? CLI_DONE : cli_fail("gpt", CLI_FAILED, &error);
}

int cli_gpt_pretrain(int argc, char **argv)
{
    return gpt_command_run(argc, argv, gpt_pretrain_options, "Trains a GPT language model", run_all);
}
