/*
 * gpt.h: declares options, data and builds of `brigade gpt pretrain` and `bench`, each of which is a cli_model
 * (gpt_pretrain.c, gpt_bench.c). cmd_gpt.c has the subcommands.
 */
#ifndef BGI_CLI_GPT_H
#define BGI_CLI_GPT_H

#include <glob.h>

#include <brigade/checkpoint.h>
#include <brigade/data.h>
#include <brigade/gpt.h>

#include "cli/model.h"
#include "cli/profile.h"
#include "config/gpt_config.h"

/* ---- options (gpt_options.c) ---- */

/* A command line in the style of PopXL's GPT-3 example, translated to Brigade's style (gpt_arguments.c). */
typedef struct gpt_arguments {
    int count, made_count;
    char **values; /* `count` arguments and NULL; each points to the command line or is one of made[] */
    char **made;
} gpt_arguments;

/* Translates a command line. After an error `out` need not be cleared. Errors are usage errors and BG_ERROR_MEMORY. */
bg_status gpt_arguments_read(const cli_option *table, int argc, char **argv, gpt_arguments *out, bg_error *error);
void gpt_arguments_clear(gpt_arguments *arguments);
/* Returns the option that the user wrote for an assignment of --set, without dashes: "set", or "layers". */
const char *gpt_arguments_spelling(const gpt_arguments *arguments, const char *assignment);

typedef struct gpt_options {
    const char *command; /* the command that messages name: "gpt" or "plan" */
    gpt_arguments arguments;
    const char *preset, *config_file;
    cli_texts assignments, input_files; /* --set, --input-files */
    uint64_t checkpoint_steps;          /* UINT64_MAX: the configuration's value */
    uint64_t checkpoint_keep,
        checkpoint_interval_s;   /* keep 0: the configuration's value; interval 0: no checkpoints by time */
    const char *checkpoint_best; /* the metric whose best checkpoint is kept; NULL: none */
    bool checkpoint_async;
    uint64_t stop; /* --steps: the run ends after this number of weight updates; 0: no limit */
    bool no_shuffle;
    const char *resume_drop, *resume_optimizer; /* names for bg_checkpoint_load_options; NULL if not given */
    const char *hf_model, *save_hf, *load, *save, *weights_path, *log_path, *tensorboard, *trace;
    cli_library library; /* flags of the library's options */
    bool overwrite_hf, quiet;
    cli_profile profile;
} gpt_options;

typedef struct gpt_settings {
    gpt_options options;
    bgi_gpt_config config; /* the resulting configuration */
} gpt_settings;

/* The commands' options, for cli_table_make. */
extern const cli_option gpt_pretrain_flags[], gpt_bench_flags[];

/* Returns the options of the training plan. Prints warnings. */
bg_options gpt_plan_options(const gpt_options *options, const bgi_gpt_config *config);

/* The text at the beginning of --help: a sentence without its period, and a sentence that all commands share. */
#define GPT_PURPOSE(what)                                                                                              \
    what ".\n"                                                                                                         \
         "A field of the configuration (docs/gpt.md) is an option too, as in the PopXL GPT-3 example: --layers 3, "    \
         "--training.steps 100.\n"

/* The functions for the members of a cli_model that have these names. */
void gpt_set_defaults(void *settings, const char *command);
bg_status gpt_rewrite(void *settings, const cli_option *table, int *argc, char ***argv, bg_error *error);
int gpt_resolve(void *settings, bg_error *error);
void gpt_clear_settings(void *settings);

/* The members that have the same value in the cli_models of all language models. */
#define GPT_MODEL                                                                                                      \
    .name = "gpt", .says = "gpt", .samples = "samples", .library_flags = BGI_COMMAND_GPT,                              \
    .settings_bytes = sizeof(gpt_settings), .library = offsetof(gpt_settings, options.library),                        \
    .set_defaults = gpt_set_defaults, .rewrite = gpt_rewrite, .resolve = gpt_resolve,                                  \
    .clear_settings = gpt_clear_settings, .inputs = gpt_inputs,                                                        \
    .compile_only_parts = CLI_PLAN_STAGES | CLI_PLAN_MEMORY | CLI_PLAN_PHASES | CLI_PLAN_REMOTE

/* ---- data (gpt_data.c) ---- */

typedef struct gpt_data {
    bg_dataset *set; /* samples of int32 [S] tokens and int32 [S] labels */
    char *source;    /* describes the data in messages */
    uint64_t sample_count;
} gpt_data;

/* Finds the files that match the configuration's patterns, in order. globfree must be called also after an error. */
bg_status gpt_data_find_files(const bgi_gpt_config *config, glob_t *files, bg_error *error);
/* Opens the files of the configuration (or Brigade's own text) as one data set. */
bg_status gpt_data_open(const bgi_gpt_config *config, gpt_data *out, bg_error *error);
/* Makes a data set for a replay that has only the types of samples, because the samples are in the replay's folder. */
bg_status gpt_data_describe(const bgi_gpt_config *config, gpt_data *out, bg_error *error);
void gpt_data_close(gpt_data *data);

/* Returns the number of samples in a training call. */
uint64_t gpt_samples_of_call(const bgi_gpt_config *config);

/* Brigade's documents and headers, which the build packs (tools/pack_text.sh). */
extern const unsigned char gpt_own_text[];
extern const size_t gpt_own_text_bytes;

/* ---- the model (gpt_build.c) ---- */

bg_gpt_options gpt_describe_model(const bgi_gpt_config *config);
extern const char *const gpt_inputs[];
/* The `build` function of a cli_model. */
bg_status gpt_build(void *settings, const cli_training *training, cli_build *out, bg_error *error);

/* Return results of update `index` (from 0) of a call. The loss is the mean over the global batch. */
double gpt_call_loss(const bgi_gpt_config *config, const bg_trainer_call *call, uint64_t index);
double gpt_call_norm(const bg_trainer_call *call, uint64_t index);
bool gpt_call_has_scale(const bg_trainer_call *call); /* whether the loss scale is automatic */
double gpt_call_scale(const bg_trainer_call *call, uint64_t index);
double gpt_call_rate(const bgi_gpt_config *config, const bg_trainer_call *call, uint64_t index); /* the learning rate */

/* ---- checkpoints (gpt_checkpoint.c) ---- */

/* The position of a run in its data. */
typedef struct gpt_position {
    uint64_t epoch, sample; /* number of samples of the epoch that were used */
} gpt_position;

/* Checks that checkpoints can be written to the configuration's folder, from update `step` on. The folder is locked for
 * this run until *folder is released. */
bg_status gpt_checkpoint_check(const bgi_gpt_config *config, uint64_t step, int *folder, bg_error *error);
/* Writes a checkpoint. `loss` is the metric of --checkpoint-keep-best; if it is not finite, there is no metric. With
 * --checkpoint-async the function only starts writing, and the caller must finish *writer. */
bg_status gpt_checkpoint_save(bg_session *session, const gpt_options *own, const bgi_gpt_config *config,
                              const gpt_data *data, const gpt_position *position, double loss,
                              bg_checkpoint_writer **writer, bg_error *error);
/* Resumes a session from the checkpoint of config->load, otherwise from existing files of config->memmap_dir. Without
 * either, the session does not change. */
bg_status gpt_checkpoint_load(bg_session *session, const gpt_options *options, const bgi_gpt_config *config,
                              const gpt_data *data, gpt_position *out, bg_error *error);
/* Completes the files of config->memmap_dir, if it is set, so that a later run can resume from them. */
bg_status gpt_files_flush(bg_session *session, const bgi_gpt_config *config, const gpt_data *data,
                          const gpt_position *position, bg_error *error);

/* ---- the benchmark (gpt_bench.c) ---- */

int cli_gpt_bench(int argc, char **argv); /* argv[0] is "bench" */

#endif
