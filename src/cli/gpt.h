/*
 * gpt.h: the parts of `brigade gpt pretrain` and `bench`: its options, its data, one compiled model that runs.
 * cmd_gpt.c has the sub-commands.
 */
#ifndef BGI_CLI_GPT_H
#define BGI_CLI_GPT_H

#include <glob.h>

#include <brigade/checkpoint.h>
#include <brigade/data.h>
#include <brigade/gpt.h>

#include "cli/options.h"
#include "cli/program.h"
#include "config/gpt_config.h"

/* ---- options (gpt_options.c) ---- */

typedef struct gpt_options {
    const char *preset, *config_file;
    cli_texts assignments, input_files; /* --set, --input-files */
    uint64_t seed, checkpoint_steps;    /* UINT64_MAX: as the configuration has it */
    uint64_t stop;                      /* --steps: weight updates after which a run ends; 0: all */
    bool no_shuffle;
    const char *strategy, *schedule, *stages, *phases;
    uint64_t devices, cores, io_threads; /* io_threads UINT64_MAX: the library's choice */
    cli_sizes device_memory;
    const char *offload, *shard, *recompute, *recompute_order, *phase_liveness;
    const char *hf_model, *save_hf, *load, *save, *memmap_dir, *weights_path, *log_path, *tensorboard;
    cli_library common;
    bool quiet;
} gpt_options;

extern const cli_option gpt_pretrain_options[], gpt_bench_options[];

/* The options of a plan, without batches. Warnings are said. */
bg_options gpt_plan_options(const gpt_options *options, const bgi_gpt_config *config);

/* ---- data (gpt_data.c) ---- */

typedef struct gpt_data {
    bg_dataset *set; /* samples of int32 [S] tokens and int32 [S] labels */
    char *source;    /* for people */
    uint64_t sample_count;
} gpt_data;

/* The files that the configuration's patterns stand for, in order; globfree in any case. */
bg_status gpt_data_find_files(const bgi_gpt_config *config, glob_t *files, bg_error *error);
/* The files of the configuration (or Brigade's own text) as one data set. */
bg_status gpt_data_open(const bgi_gpt_config *config, gpt_data *out, bg_error *error);
void gpt_data_close(gpt_data *data);

/* Brigade's documents and headers, made by the build (tools/pack_text.sh). */
extern const unsigned char gpt_own_text[];
extern const size_t gpt_own_text_bytes;

/* ---- a compiled model that runs (gpt_runner.c) ---- */

typedef struct gpt_runner {
    bg_plan *plan;
    bg_session *session;
    uint64_t samples_per_run, updates_per_run, losses_per_update;
    uint64_t replicas_per_copy; /* of the model: they have the same losses */
    const void **inputs;        /* in the session's order */
    void **outputs;
    uint32_t tokens, labels;   /* indices of inputs */
    const float *losses;       /* [device iteration][accumulation][replica] */
    const float *norms;        /* [device iteration][replica] */
    const float *scales;       /* the same; NULL: the loss's scale stays */
    double *rates;             /* of learning, of the updates of the last call */
    uint64_t norms_per_update; /* replicas */
} gpt_runner;

bg_gpt_options gpt_describe_model(const bgi_gpt_config *config);
bg_status gpt_plan_create(const gpt_options *options, const bgi_gpt_config *config, bg_plan **out, bg_error *error);
/* --compile-only: prints what the plan is, its stages and its memory. */
bg_status gpt_compile_alone(const gpt_options *options, const bgi_gpt_config *config, bg_error *error);
bg_status gpt_runner_create(const gpt_options *options, const bgi_gpt_config *config, gpt_runner *out, bg_error *error);
void gpt_runner_clear(gpt_runner *runner);
/* One call: device_iterations weight updates, each with the learning rate of its step. Arrays [samples_per_run, S]. */
bg_status gpt_runner_run(gpt_runner *runner, const bgi_gpt_config *config, const void *tokens, const void *labels,
                         bg_error *error);
/* Means over the global batch of update `index` of the last call. */
double gpt_runner_loss(const gpt_runner *runner, uint64_t index);
double gpt_runner_norm(const gpt_runner *runner, uint64_t index);
double gpt_runner_scale(const gpt_runner *runner, uint64_t index); /* with scales */

/* ---- checkpoints (gpt_checkpoint.c) ---- */

/* Where a run stands in its data. */
typedef struct gpt_position {
    uint64_t epoch, sample; /* samples of the epoch that were used */
} gpt_position;

/* Whether checkpoints can be written where the configuration wants them, from update `step` on. The folder is this
 * run's until *folder is released. */
bg_status gpt_checkpoint_check(const bgi_gpt_config *config, uint64_t step, int *folder, bg_error *error);
bg_status gpt_checkpoint_save(bg_session *session, const bgi_gpt_config *config, const gpt_data *data,
                              const gpt_position *position, bg_error *error);
/* Where a session goes on: from the checkpoint of config->load, else from the files of config->memmap_dir if it has
 * found any; otherwise nothing happens. */
bg_status gpt_checkpoint_load(bg_session *session, const bgi_gpt_config *config, const gpt_data *data,
                              gpt_position *out, bg_error *error);
/* With config->memmap_dir: the files are whole, and a later run goes on from them. */
bg_status gpt_files_flush(bg_session *session, const bgi_gpt_config *config, const gpt_data *data,
                          const gpt_position *position, bg_error *error);

/* ---- the programs ---- */

int cli_gpt_pretrain(int argc, char **argv);
int cli_gpt_bench(int argc, char **argv);

/* What both do: reads the command line by `table` (help begins with `summary`), makes the configuration, and runs.
 * Returns the exit code. */
int gpt_command_run(int argc, char **argv, const cli_option *table, const char *summary,
                    int (*run)(const gpt_options *options, const bgi_gpt_config *config));

#endif
