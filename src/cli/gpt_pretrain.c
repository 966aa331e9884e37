/*
 * gpt_pretrain.c: `brigade gpt pretrain` as a row of the models' table: it reports each call of the trainer and writes
 * checkpoints.
 */
#include "cli/gpt.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <brigade/huggingface.h>
#include <brigade/profile.h>

#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/ranks.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "profile/scalars.h"

/* The state of a training run. */
typedef struct run {
    gpt_data data;
    bgi_event_file events;
    bg_error events_failure; /* why events are missing; the run continues without them */
    gpt_position position;
    uint64_t saved_step;          /* step of the last checkpoint; UINT64_MAX before the first one */
    bg_checkpoint_writer *writer; /* writes a checkpoint during training; NULL if no write is running */
    uint64_t updates;             /* number of updates that this process has made */
    double loss_sum;              /* sum over the updates since the last checkpoint */
    uint64_t loss_count;
    double seconds; /* duration of the updates of this process, without checkpoints */
    double call_start_s, section_start_s;
} run;

static const gpt_options *options_of(const cli_training *training)
{
    return &((const gpt_settings *)training->settings)->options;
}

static const bgi_gpt_config *config_of(const cli_training *training)
{
    return &((const gpt_settings *)training->settings)->config;
}

static bg_session *session_of(const cli_training *training)
{
    return bg_trainer_session(training->trainer, BG_TRAINER_FIT);
}

/* Returns the number of updates after which the run ends. */
static uint64_t last_step(const cli_training *training)
{
    const uint64_t stop = options_of(training)->stop;

    return stop > 0 ? stop : (uint64_t)config_of(training)->steps;
}

/* ---- output ---- */

static void begin_section(const cli_training *training, const char *name)
{
    run *r = training->state;

    r->section_start_s = bgi_clock_s();
    if (!options_of(training)->quiet)
        printf("Starting %s\n", name);
    fflush(stdout);
}

static void end_section(const cli_training *training, const char *name)
{
    const run *r = training->state;

    if (!options_of(training)->quiet)
        printf("%c%s duration: %.2f mins\n", name[0] - 'a' + 'A', name + 1,
               (bgi_clock_s() - r->section_start_s) / 60.0);
    fflush(stdout);
}

/* Prints the first lines. The configuration is printed later, after all checks, so that an error does not follow a long
 * listing. */
static bg_status print_start(const cli_training *training, bg_error *error)
{
    (void)error;
    if (options_of(training)->quiet)
        return BG_OK;
    printf("Process id: %ld\n", (long)getpid());
    if (config_of(training)->test_mode)
        printf("Test mode: nothing is written\n");
    return BG_OK;
}

static bg_status print_configuration(const cli_training *training, bg_error *error)
{
    const bgi_gpt_config *config = config_of(training);
    char *text = NULL;

    BGI_TRY(bgi_gpt_config_print(config, &text, error));
    printf("Configuration:\n%sGradient accumulation steps: %" PRIu64 "\n", text, bgi_gpt_config_accumulation(config));
    fflush(stdout);
    free(text);
    return BG_OK;
}

/* The results of a call of the model. */
typedef struct call {
    const bg_trainer_call *of;
    uint64_t updates;
    double loss, norm, learning_rate, seconds, samples_per_s; /* norm and rate are those of the last update */
} call;

static void print_call(const cli_training *training, const call *c)
{
    const bgi_gpt_config *config = config_of(training);

    if (options_of(training)->quiet)
        return;
    printf("Step: %" PRIu64 "/%" PRId64
           " Loss: %5.3f Duration: %6.4f s Throughput: %6.1f samples/s Tokens: %.1f tokens/s Gradient norm: %.4g "
           "Learning rate: %.4g\n",
           c->of->first_update + c->updates, config->steps, c->loss, c->seconds, c->samples_per_s,
           c->samples_per_s * (double)config->sequence_length, c->norm, c->learning_rate);
    fflush(stdout);
}

/* ---- the log ---- */

static bg_status log_updates(cli_training *training, const call *c, bg_error *error)
{
    const bgi_gpt_config *config = config_of(training);

    for (uint64_t i = 0; i < c->updates; i++) {
        bgi_json_writer line = {.depth = 0};

        bgi_json_open(&line, NULL, '{');
        bgi_json_count(&line, "step", c->of->first_update + i + 1);
        bgi_json_real(&line, "loss", gpt_call_loss(config, c->of, i), CLI_LOG_DIGITS);
        bgi_json_real(&line, "grad_norm", gpt_call_norm(c->of, i), CLI_LOG_DIGITS);
        bgi_json_real(&line, "lr", gpt_call_rate(config, c->of, i), CLI_LOG_DIGITS);
        bgi_json_real(&line, "samples_per_s", c->samples_per_s, CLI_LOG_DIGITS);
        bgi_json_real(&line, "tokens_per_s", c->samples_per_s * (double)config->sequence_length, CLI_LOG_DIGITS);
        if (gpt_call_has_scale(c->of))
            bgi_json_real(&line, "loss_scale", gpt_call_scale(c->of, i), CLI_LOG_DIGITS);
        bgi_json_close(&line, '}');
        BGI_TRY(cli_log_write(&training->log, &line, error));
    }
    return cli_log_flush(&training->log, error);
}

/* Logs the updates of a call. A log that can no longer be written is closed, and does not end the run. */
static void log_call(cli_training *training, const call *c)
{
    if (training->log.stream != NULL && log_updates(training, c, &training->log.failure) != BG_OK)
        cli_log_close(&training->log);
}

/* Returns the seconds since 1970. */
static double wall_time_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void add_events(const cli_training *training, const call *c)
{
    const bgi_gpt_config *config = config_of(training);
    run *r = training->state;

    for (uint64_t i = 0; i < c->updates && r->events.stream != NULL; i++) {
        const bgi_scalar scalars[] = {{"loss", gpt_call_loss(config, c->of, i)},
                                      {"grad_norm", gpt_call_norm(c->of, i)},
                                      {"lr", gpt_call_rate(config, c->of, i)},
                                      {"throughput", c->samples_per_s}};

        if (bgi_event_file_add(&r->events, c->of->first_update + i + 1, wall_time_s(), scalars, 4,
                               &r->events_failure) != BG_OK)
            bgi_event_file_close(&r->events, NULL);
    }
}

/* ---- events ---- */

/* Returns the mean loss of a call, and the norm and rate of its last update. */
static call describe_call(const cli_training *training, const bg_trainer_call *of)
{
    const bgi_gpt_config *config = config_of(training);
    const run *r = training->state;
    call c = {.of = of, .updates = of->update_count, .seconds = bgi_clock_s() - r->call_start_s};

    for (uint64_t i = 0; i < c.updates; i++)
        c.loss += gpt_call_loss(config, of, i) / (double)c.updates;
    c.norm = gpt_call_norm(of, c.updates - 1);
    c.learning_rate = gpt_call_rate(config, of, c.updates - 1);
    c.samples_per_s = (double)of->sample_count / c.seconds;
    return c;
}

static bg_status end_call(cli_training *training, const bg_trainer_call *of, bg_error *error)
{
    const call c = describe_call(training, of);
    run *r = training->state;

    r->position.sample += of->sample_count;
    r->updates += c.updates;
    r->loss_sum += c.loss * (double)c.updates;
    r->loss_count += c.updates;
    r->seconds += c.seconds;
    print_call(training, &c);
    log_call(training, &c);
    add_events(training, &c);
    /* Weights of a diverged run are not saved, so the last good checkpoint stays. Under automatic loss scaling an
     * overflowing update is skipped; it is not an error. */
    if (!isfinite(c.loss) || (!isfinite(c.norm) && !gpt_call_has_scale(of)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the %s became %s in update %" PRIu64
                            ": lower training.optimizer.learning_rate.maximum; no checkpoint of it was written",
                            isfinite(c.loss) ? "gradient norm" : "loss",
                            isnan(isfinite(c.loss) ? c.norm : c.loss) ? "NaN" : "infinite",
                            of->first_update + c.updates);
    return BG_OK;
}

/* Completes a checkpoint that is written during training. If `waits` is true, the function waits for all ranks;
 * otherwise it does nothing while a rank is still writing. */
static bg_status complete_checkpoint(run *r, bool waits, bg_error *error)
{
    bg_checkpoint_writer *writer = r->writer;
    bool is_written = waits;

    if (writer == NULL)
        return BG_OK;
    if (!waits)
        BGI_TRY(bg_checkpoint_is_written(writer, &is_written, error));
    if (!is_written)
        return BG_OK;
    r->writer = NULL;
    return bg_checkpoint_finish(writer, error);
}

/* Allocates the memory of --checkpoint-async before the first call. */
static bg_status reserve_memory(const cli_training *training, bg_error *error)
{
    const bgi_gpt_config *config = config_of(training);
    bg_status status;

    if (config->save == NULL || config->test_mode || !options_of(training)->checkpoint_async)
        return BG_OK;
    status = bg_checkpoint_reserve_memory(session_of(training), error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--checkpoint-async");
}

static bg_status save_checkpoint(cli_training *training, bg_error *error)
{
    const bgi_gpt_config *config = config_of(training);
    const uint64_t step = bg_trainer_step(training->trainer);
    run *r = training->state;

    if (config->save == NULL || config->test_mode || step == r->saved_step)
        return BG_OK;
    BGI_TRY(complete_checkpoint(r, true, error));
    BGI_TRY(gpt_checkpoint_save(session_of(training), options_of(training), config, &r->data, &r->position,
                                r->loss_count > 0 ? r->loss_sum / (double)r->loss_count : NAN, &r->writer, error));
    r->saved_step = step;
    r->loss_sum = 0.0;
    r->loss_count = 0;
    return BG_OK;
}

/* After a refused update, writes a folder from which the update can be repeated. The new folder is in the folder of
 * --save, if that is given, otherwise in the current folder. */
static bg_status note_refused(cli_training *training, const bg_trainer_event *event, bg_error *error)
{
    const bgi_gpt_config *config = config_of(training);
    char blob[160];

    BGI_TRY(complete_checkpoint(training->state, true, error));
    snprintf(blob, sizeof blob,
             "{\"epoch\": 0, \"sample\": 0, \"samples\": %" PRIu64 ", \"sequence_length\": %" PRId64 "}",
             cli_bundle_samples(event), config->sequence_length);
    if (!config->test_mode)
        cli_bundle_write(training, event, config->save, blob);
    return BG_OK;
}

static bg_status on_event(cli_training *training, bg_trainer_event *event, bg_error *error)
{
    run *r = training->state;
    bg_status status = BG_OK;

    if (event->kind == BG_ON_FIT_START) {
        status = reserve_memory(training, error);
        begin_section(training, "training");
    } else if (event->kind == BG_ON_EPOCH_START && event->batch == 0)
        r->position = (gpt_position){.epoch = event->epoch};
    else if (event->kind == BG_ON_CALL_END)
        status = end_call(training, event->call, error);
    else if (event->kind == BG_ON_SAVE_CHECKPOINT)
        status = save_checkpoint(training, error);
    else if (event->kind == BG_ON_REFUSED_UPDATE)
        status = note_refused(training, event, error);
    else if (event->kind == BG_ON_FIT_END)
        end_section(training, "training");
    if (status == BG_OK && event->kind == BG_ON_CALL_END)
        status = complete_checkpoint(r, false, error);
    /* The time of a call begins after printing and saving. */
    if (event->kind == BG_ON_FIT_START || event->kind == BG_ON_CALL_END || event->kind == BG_ON_SAVE_CHECKPOINT)
        r->call_start_s = bgi_clock_s();
    return status;
}

/* ---- the whole run ---- */

/* Before a training that may take hours, checks that the folder of --save-hf is empty or that --overwrite-hf is
 * given. */
static bg_status check_model_folder(const gpt_options *options, bg_error *error)
{
    bool is_empty = true;
    bg_status status = bgi_folder_create(options->save_hf, error);

    if (status == BG_OK && !options->overwrite_hf)
        status = bgi_folder_is_empty(options->save_hf, &is_empty, error);
    if (status == BG_OK && !is_empty)
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "%s is not empty; name another folder, or replace the model in it with --overwrite-hf",
                              options->save_hf);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--save-hf");
}

static bg_status check_places(const cli_training *training, bg_error *error)
{
    const gpt_options *options = options_of(training);

    if (config_of(training)->test_mode || !cli_ranks_is_first())
        return BG_OK;
    if (options->weights_path != NULL)
        BGI_TRY(cli_save_check(options->weights_path, "save-weights", error));
    if (options->save_hf != NULL)
        BGI_TRY(check_model_folder(options, error));
    if (options->trace != NULL)
        BGI_TRY(cli_save_check(options->trace, "trace", error));
    BGI_TRY(cli_profile_check_dir(&options->profile, error));
    return options->log_path != NULL ? cli_log_check(options->log_path, error) : BG_OK;
}

/* Loads the weights of a Hugging Face model instead of random ones. */
static bg_status load_model(const cli_training *training, bg_error *error)
{
    const gpt_options *options = options_of(training);
    const bgi_gpt_config *config = config_of(training);
    const bg_gpt_options model = gpt_describe_model(config);
    bg_session *session = session_of(training);
    bg_status status;

    if (options->hf_model == NULL)
        return BG_OK;
    if (bg_session_note(session) != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--hf-model %s: the files in %s are from step %" PRIu64
                            "; omit --hf-model to resume from them, or remove them to start from that model",
                            options->hf_model, config->memmap_dir, bg_session_step(session));
    if (strcmp(options->hf_model, "test") == 0 || strcmp(options->hf_model, "Test") == 0) {
        if (!options->quiet)
            printf("Model: a random one of the configured size\n");
        return BG_OK;
    }
    status = bg_gpt_directory_load(options->hf_model, &model, bg_trainer_weights(training->trainer), error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--hf-model");
}

static bg_status save_hf(void *user, bg_error *error)
{
    const cli_training *training = user;
    const bg_gpt_options model = gpt_describe_model(config_of(training));

    return bg_gpt_directory_save(options_of(training)->save_hf, &model, bg_trainer_weights(training->trainer), error);
}

/* Saves the weights as safetensors, or the model that gives logits as ONNX, depending on the ending of the file's name.
 * The ONNX model is built for two samples, so that its batch dimensions differ from dimensions of size 1. */
static bg_status save_weights(const cli_training *training, const char *path, bg_error *error)
{
    bg_gpt_options model = gpt_describe_model(config_of(training));
    bg_graph *graph;
    bg_status status;

    if (!cli_is_onnx(path))
        return cli_weights_save(session_of(training), path, error);
    BGI_TRY(bg_graph_create(&graph, error));
    model.micro_batch = 2;
    model.outputs = BG_GPT_LOGITS;
    bg_gpt_build(graph, &model);
    status = cli_model_save(session_of(training), graph, path, error);
    bg_graph_destroy(graph);
    return status;
}

static bg_status save_model(cli_training *training, bg_error *error)
{
    const gpt_options *options = options_of(training);
    bg_status status = BG_OK;

    if (config_of(training)->test_mode)
        return BG_OK;
    if (options->weights_path != NULL)
        status = save_weights(training, options->weights_path, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "--save-weights");
    if (options->save_hf != NULL)
        status = bg_session_read_weights(session_of(training), 0, save_hf, training, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--save-hf");
}

static bg_status write_trace(const cli_training *training, bg_error *error)
{
    const gpt_options *options = options_of(training);
    bg_session *session = session_of(training);
    const run *r = training->state;
    bg_status status;

    if (options->trace == NULL || config_of(training)->test_mode || r->updates == 0)
        return BG_OK;
    status = bg_session_share_trace(session, 0, error);
    if (status == BG_OK && cli_ranks_is_first())
        status = bg_profile_write_trace(session, bg_session_plan(session), options->trace, error);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--trace");
}

static bg_status write_profile(const cli_training *training, bg_error *error)
{
    const gpt_options *options = options_of(training);
    const bg_loader_statistics *loader = &training->loader_statistics;
    const bg_profile_notes notes = {.program = "brigade gpt pretrain",
                                    .model = "GPT",
                                    .samples = "samples",
                                    .loader_wait_ns = loader->wait_ns,
                                    .loader_batches = loader->batch_count,
                                    .loader_misses = loader->miss_count};
    const run *r = training->state;

    return config_of(training)->test_mode || r->updates == 0
               ? BG_OK
               : cli_profile_finish(&options->profile, NULL, session_of(training), &notes, options->quiet, error);
}

static void load(const cli_training *training, bg_loader_options *out)
{
    out->shuffle = !options_of(training)->no_shuffle && options_of(training)->library.replay == NULL;
    out->seed = (uint64_t)config_of(training)->seed;
}

/* Whether the run resumes from a checkpoint or from files. */
static bool is_resumed(const cli_training *training)
{
    return config_of(training)->load != NULL || bg_session_note(session_of(training)) != NULL;
}

/* Checks that the step is a multiple of the updates of a call. Otherwise no call would end at the steps of checkpoints
 * and at the last step. */
static bg_status check_step(const cli_training *training, bg_error *error)
{
    const uint64_t step = bg_session_step(session_of(training));
    const uint64_t updates = (uint64_t)config_of(training)->device_iterations;

    if (step >= last_step(training) || step % updates == 0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "step %" PRIu64 ", where the run would resume, is not divisible by execution.device_iterations "
                        "%" PRIu64 ": resume with --set device_iterations=1",
                        step, updates);
}

static bg_status open_run(cli_training *training, bg_error *error)
{
    const bgi_gpt_config *config = config_of(training);
    const gpt_options *options = options_of(training);
    run *r = training->state;

    cli_ranks_agree("training.steps %" PRIu64 "\nno-shuffle %d\ncheckpoint.steps %" PRId64
                    "\ncheckpoint.save %d\ncheckpoint-async %d\ncheckpoint-keep-best %d\ncheckpoint.load %d"
                    "\nsave-weights %d\nsave-hf %d\ntrace %d\nprofile %d\n",
                    last_step(training), options->no_shuffle, config->checkpoint_steps, config->save != NULL,
                    options->checkpoint_async, options->checkpoint_best != NULL, config->load != NULL,
                    options->weights_path != NULL, options->save_hf != NULL, options->trace != NULL,
                    options->profile.is_on);
    BGI_TRY(check_places(training, error));
    begin_section(training, "data preparation");
    BGI_TRY(options->library.replay != NULL ? gpt_data_describe(config, &r->data, error)
                                            : gpt_data_open(config, &r->data, error));
    training->data = r->data.set;
    if (!options_of(training)->quiet && options->library.replay == NULL)
        printf("Data: %s; %" PRIu64 " sample%s of %" PRId64 " tokens\n", r->data.source, r->data.sample_count,
               cli_s(r->data.sample_count), config->sequence_length);
    end_section(training, "data preparation");
    begin_section(training, "compilation");
    return BG_OK;
}

/* Loads the weights and the position in the data. */
static bg_status resume(cli_training *training, bg_error *error)
{
    const uint64_t samples = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);
    bg_session *session = session_of(training);
    run *r = training->state;

    if (options_of(training)->library.replay != NULL)
        r->data.sample_count = bg_dataset_sample_count(training->data);
    else
        BGI_TRY(load_model(training, error));
    BGI_TRY(gpt_checkpoint_load(session, options_of(training), config_of(training), &r->data, &r->position, error));
    BGI_TRY(check_step(training, error));
    bg_trainer_resume(training->trainer, r->position.epoch, r->position.sample / samples, bg_session_step(session));
    return BG_OK;
}

static bg_status open_files(cli_training *training, bg_error *error)
{
    const gpt_options *options = options_of(training);
    const bgi_gpt_config *config = config_of(training);
    run *r = training->state;

    r->saved_step = UINT64_MAX;
    if (config->test_mode)
        return BG_OK;
    BGI_TRY(gpt_checkpoint_check(config, bg_session_step(session_of(training)), &training->folder, error));
    BGI_TRY(cli_log_open(&training->log, options->log_path, is_resumed(training), &cli_received_signal, error));
    if (options->tensorboard != NULL &&
        bgi_event_file_open(&r->events, options->tensorboard, wall_time_s(), (uint64_t)getpid(), error) != BG_OK)
        return bg_error_context(error, error->status, "--tensorboard");
    return BG_OK;
}

static bg_status begin(cli_training *training, bg_error *error)
{
    const bool quiet = options_of(training)->quiet;

    if (!quiet)
        cli_report_compilation(bg_session_plan(bg_trainer_session(training->trainer, BG_TRAINER_FIT)));
    end_section(training, "compilation");
    BGI_TRY(resume(training, error));
    BGI_TRY(open_files(training, error));
    if (quiet)
        return BG_OK;
    if (is_resumed(training))
        printf("Continuing from step %" PRIu64 "\n", bg_session_step(session_of(training)));
    return print_configuration(training, error);
}

static void print_end(const cli_training *training)
{
    const bgi_gpt_config *config = config_of(training);
    const run *r = training->state;
    const uint64_t step = bg_trainer_step(training->trainer);
    const double samples = (double)r->updates * (double)config->global_batch_size;

    if (r->updates > 0)
        printf("Trained %" PRIu64 " weight updates in %.2f s: %.1f samples/s, %.1f tokens/s\n", r->updates, r->seconds,
               samples / r->seconds, samples * (double)config->sequence_length / r->seconds);
    else if (cli_received_signal == 0)
        printf("Nothing was trained: %s at step %" PRIu64 ", and the run ends at step %" PRIu64 "\n",
               config->load != NULL ? "the checkpoint is" : "the files are", step, last_step(training));
    if (cli_received_signal != 0)
        printf("Stopped by signal %d after step %" PRIu64 "%s\n", (int)cli_received_signal, step,
               r->saved_step == step || (config->memmap_dir != NULL && !config->test_mode) ? "; it is saved" : "");
    else
        printf("Finished pre-training.\n");
}

static bg_status finish(cli_training *training, bg_error *error)
{
    run *r = training->state;

    if (r->updates > 0)
        BGI_TRY(save_checkpoint(training, error));
    BGI_TRY(complete_checkpoint(r, true, error));
    BGI_TRY(gpt_files_flush(session_of(training), config_of(training), &r->data, &r->position, error));
    BGI_TRY(save_model(training, error));
    BGI_TRY(write_trace(training, error));
    BGI_TRY(write_profile(training, error));
    print_end(training);
    if (r->events_failure.status == BG_OK)
        bgi_event_file_close(&r->events, &r->events_failure);
    if (r->events_failure.status != BG_OK)
        bg_error_context(&r->events_failure, r->events_failure.status, "--tensorboard");
    cli_training_note(training, &r->events_failure);
    return BG_OK;
}

static void close_run(cli_training *training)
{
    run *r = training->state;

    bgi_event_file_close(&r->events, NULL);
    gpt_data_close(&r->data);
}

const cli_model cli_model_gpt = {
    GPT_MODEL,
    .program = "gpt pretrain",
    .purpose = GPT_PURPOSE("Trains a GPT language model"),
    .plan = "Shows stages, memory and timetable of `brigade gpt pretrain` with the same options.\n",
    .common = "config set input-files steps save load stages strategy precision profile",
    .examples = "brigade gpt pretrain --config tiny --steps 20\n"
                "brigade gpt pretrain --config tiny --set sequence_length=64 max_positional_length=64 --steps 20 "
                "--save-hf small-gpt\n"
                "brigade gpt pretrain --config tiny --strategy pipelined --steps 20 --save gpt-runs\n",
    .plan_examples = "brigade plan gpt --config tiny --layers 4\n",

    .flags = gpt_pretrain_flags,
    .build = gpt_build,

    .load = load,

    .state_bytes = sizeof(run),
    .print = print_start,
    .open = open_run,
    .begin = begin,
    .on_event = on_event,
    .finish = finish,
    .close = close_run,
};
