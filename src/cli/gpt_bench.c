/*
 * gpt_bench.c: `brigade gpt bench`: runs the benchmark of PopXL's GPT-3 example, with inputs that are all 1, one
 * untimed call and five timed calls. It is a cli_model like that of gpt pretrain, with other data and output.
 */
#include "cli/gpt.h"

#include <stddef.h>

#include "cli/command.h"
#include "core/error.h"

enum { TIMED_CALLS = 5 };

typedef struct bench {
    bg_dataset *ones;
    uint64_t calls; /* completed calls */
    double seconds; /* the mean of the timed calls */
} bench;

static bg_status build(void *settings, const cli_training *training, cli_build *out, bg_error *error)
{
    BGI_TRY(gpt_build(settings, training, out, error));
    out->trainer.max_epochs = 1 + TIMED_CALLS; /* an epoch is one call */
    out->trainer.max_steps = 0;
    out->trainer.checkpoint_steps = 0;
    out->trainer.interrupt = NULL; /* `on_event` checks for signals */
    return BG_OK;
}

/* ---- data ---- */

static bg_status get_ones(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    const bgi_gpt_config *config = user;

    (void)epoch, (void)index, (void)error;
    for (int t = 0; t < 2; t++)
        for (int64_t i = 0; i < config->sequence_length; i++)
            ((int32_t *)outputs[t])[i] = 1;
    return BG_OK;
}

/* Refuses memmap_dir: weights trained on inputs that are all 1 are useless, so they are not saved. */
static bg_status check_places(const cli_training *training, bg_error *error)
{
    const gpt_settings *settings = training->settings;

    if (settings->config.memmap_dir == NULL)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "checkpoint.memmap_dir %s: the benchmark keeps remote buffers in memory; leave this field null",
                        settings->config.memmap_dir);
}

static bg_status open_bench(cli_training *training, bg_error *error)
{
    bgi_gpt_config *config = &((gpt_settings *)training->settings)->config;
    bench *b = training->state;
    const bg_type row = bg_vector(BG_INT32, config->sequence_length), types[] = {row, row};
    const bg_dataset_options options = {.sample_count = gpt_samples_of_call(config),
                                        .tensor_count = 2,
                                        .sample_types = types,
                                        .get = get_ones,
                                        .user = config};

    BGI_TRY(bg_dataset_create(&options, &b->ones, error));
    training->data = b->ones;
    return BG_OK;
}

/* Chooses a synchronous loader, so that no data are read while a call is timed. */
static void load(const cli_training *training, bg_loader_options *out)
{
    (void)training;
    out->mode = BG_LOADER_SYNC;
}

/* ---- the run ---- */

static bg_status on_event(cli_training *training, bg_trainer_event *event, bg_error *error)
{
    const gpt_settings *settings = training->settings;
    bench *b = training->state;

    if (event->kind != BG_ON_CALL_END || b->calls++ == 0)
        return BG_OK;
    b->seconds += 1e-9 * (double)event->call->run_ns / TIMED_CALLS;
    printf("Step %d. Loss %.2f\n", (int)b->calls - 2,
           gpt_call_loss(&settings->config, event->call, event->call->update_count - 1));
    fflush(stdout);
    if (cli_received_signal != 0)
        return bg_error_set(error, BG_ERROR_CANCELED, "stopped by signal %d", (int)cli_received_signal);
    return BG_OK;
}

static bg_status finish(cli_training *training, bg_error *error)
{
    const bench *b = training->state;
    const uint64_t samples = bg_trainer_samples_per_call(training->trainer, BG_TRAINER_FIT);

    (void)error;
    printf("Duration: %.4f s Throughput: %6.1f samples/s\n", b->seconds, (double)samples / b->seconds);
    return BG_OK;
}

static void close_bench(cli_training *training)
{
    bench *b = training->state;

    bg_dataset_destroy(b->ones);
}

static const cli_model bench_model = {
    GPT_MODEL,
    .program = "gpt bench",
    .purpose = GPT_PURPOSE("Times a GPT language model: one untimed run, then five timed runs"),
    .common = "config set seed precision stages strategy schedule device-memory recompute kernels",
    .examples = "brigade gpt bench --config tiny --layers 2\n",

    .flags = gpt_bench_flags,
    .build = build,

    .load = load,

    .state_bytes = sizeof(bench),
    .print = check_places,
    .open = open_bench,
    .on_event = on_event,
    .finish = finish,
    .close = close_bench,
};

int cli_gpt_bench(int argc, char **argv)
{
    return cli_train(&bench_model, argc, argv);
}
