/*
 * recipe.h: shared by the programs that train with epochs over samples: the options of the training, the plan's options
 * made from them, the progress line, checkpoints, the profile. A model's settings contain a cli_recipe, the state of
 * its run a cli_run.
 */
#ifndef BGI_CLI_RECIPE_H
#define BGI_CLI_RECIPE_H

#include <brigade/rate.h>
#include <brigade/trainer.h>

#include "cli/model.h"
#include "cli/profile.h"

/* ---- options (recipe.c) ---- */

#define CLI_LIBRARY_MEMBER recipe.library /* of settings with a recipe (library.def) */

typedef struct cli_recipe {
    const char *command;      /* the command in messages: "mnist", "train", or "plan" */
    const char *program;      /* the program that makes its checkpoints: "mnist", "train" */
    const char *sample_word;  /* "image"; in checkpoints and messages */
    const char *sample_words; /* "images" */
    const char *data_hint;    /* how to get the same data again: "give the same --data-dir" */
    uint64_t batch_size, epochs;
    uint64_t steps;                            /* 0: until the epochs are done */
    const char *limits[BG_TRAINER_TASK_COUNT]; /* batches of a pass, or a share of them: "10", "0.25"; NULL: all */
    const char *optimizer;                     /* bg_optimizer_parse's text */
    double learning_rate;
    const char *rate_schedule; /* bg_rate_parse's text; NULL: not given */
    bg_rate_schedule rate;     /* the parsed schedule, for the trainer */
    const char *no_validation; /* why no validation follows an epoch, which a plateau needs; NULL: one does */
    uint64_t plateau_reports;  /* validations that the plateau has used */
    cli_library library;       /* flags of the library's options */
    bool checkpoint_blocks;
    const char *last_batch, *loader_mode;
    uint64_t num_workers, prefetch;
    bool no_shuffle;
    const char *init_path, *save_path, *log_path;
    const char *checkpoint_dir; /* NULL: none */
    uint64_t checkpoint_steps;  /* 0: only at the end */
    bool checkpoint_async;
    uint64_t checkpoint_keep, checkpoint_interval_s; /* 0: one; none by time */
    const char *checkpoint_best;                     /* the metric whose best checkpoint stays; NULL: none */
    bool resume;
    const char *resume_drop, *resume_optimizer; /* bg_checkpoint_load_options; NULL: not given */
    bool profile;
    const char *profile_dir; /* NULL: CLI_PROFILE_DIR */
    bool debug, quiet;
} cli_recipe;

/* The defaults of every program; `program` is its name. */
cli_recipe cli_recipe_defaults(const char *program);
/* With --replay: one update from the start of its data, without writing anything. Called before the following
 * functions. */
void cli_recipe_replay(cli_recipe *recipe);
/* Checks rules between options. */
bg_status cli_recipe_check(const cli_recipe *recipe, bg_error *error);
bg_status cli_recipe_check_optimizer(const cli_recipe *recipe, bg_error *error);
/* Parses --rate-schedule, which was given. */
bg_status cli_recipe_rate(const cli_recipe *recipe, bg_rate_schedule *out, bg_error *error);

/* Called after an epoch's validation: a plateau may lower the rate, and a line is then printed unless the run is
 * quiet. */
void cli_recipe_report(cli_recipe *recipe, double loss);

/* The data that the options of a plan point to. */
enum { CLI_MOST_RULES = 64, CLI_RULES_BYTES = 4096, CLI_MOST_REQUESTS = 16 };
typedef struct cli_plan_room {
    bg_device_model devices[CLI_LIST_LIMIT];
    bg_location_rule rules[CLI_MOST_RULES * BG_LOCATION_COUNT];
    char patterns[CLI_RULES_BYTES];
    bg_output_request requests[CLI_MOST_REQUESTS];
} cli_plan_room;

/* Strategy, stages, memory, gradients and so on. Warnings go to stderr. The options point into `room` and to the
 * recipe, which has been checked. */
bg_options cli_recipe_options(const cli_recipe *recipe, cli_plan_room *room);
/* For a test or validation: no recomputation; on one replica weights are whole, whatever --shard says. */
void cli_recipe_infer(const cli_recipe *recipe, bg_options *options, cli_plan_room *room);
/* Optimizer, limits, rate and checkpoints of a training. `out` points to the recipe. */
bg_status cli_recipe_trainer(cli_recipe *recipe, bg_trainer_options *out, bg_error *error);
/* Order, workers, and the handling of the last batch except for padding, which the model sets. */
bg_loader_options cli_recipe_loading(const cli_recipe *recipe);

uint64_t cli_recipe_samples_per_call(const cli_recipe *recipe);
uint64_t cli_recipe_samples_per_update(const cli_recipe *recipe);

/* Whether the results can be written: weights, log, profile, checkpoints. Locks *folder for this run (-1 without
 * checkpoints) until it is released. */
bg_status cli_recipe_check_places(const cli_recipe *recipe, const char *save_path, int *folder, bg_error *error);
/* Checks that no file is named by two options of which one writes it; `more` are the model's own. */
bg_status cli_recipe_check_distinct(const cli_recipe *recipe, const char *save_path, const cli_file *more,
                                    size_t more_count, bg_error *error);

/* The settings that all ranks must have in common. */
void cli_recipe_agree(const cli_recipe *recipe);

/* ---- progress (progress.c) ---- */

typedef struct cli_progress {
    const char *sample_words; /* "images" */
    bool is_terminal, quiet;
    uint64_t done, total; /* calls; total 0: unknown */
    uint64_t samples;
    double start_s, shown_s;
} cli_progress;

enum { CLI_SCORE_BYTES = 128 };

void cli_progress_begin(cli_progress *progress, const char *sample_words, bool quiet, uint64_t total);
/* Called after each call. `score`: "Loss:0.1 | Accuracy:90.00% "; NULL: unknown. */
void cli_progress_add(cli_progress *progress, uint64_t samples, const char *score);
/* Prints the final line. */
void cli_progress_end(cli_progress *progress, const char *score);

/* The progress of a download: a bar on a terminal; in any case a line with size and time for each received file. */
typedef struct cli_download_progress {
    bool is_terminal, quiet;
    char file_name[64]; /* empty: none yet */
    uint64_t done;
    double start_s, shown_s;
} cli_download_progress;

cli_download_progress cli_download_progress_begin(bool quiet);
/* bg_mnist_download_options.progress; `user` is the above. A signal cancels. */
bool cli_report_download(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes);
/* `is_complete`: the last file is complete too. */
void cli_download_progress_end(cli_download_progress *progress, bool is_complete);

/* ---- a run (recipe_run.c) ---- */

/* What --checkpoint-keep-best compares. */
typedef struct cli_metric {
    const char *name; /* NULL: no value is known */
    double value;
    bool rises; /* a higher one is better */
} cli_metric;

/* The state that every training keeps of its run. */
typedef struct cli_run {
    const char *save_path; /* NULL: nothing to save */
    bool is_saved, is_resumed, has_trained;
    bool is_checkpointed;                /* the newest checkpoint exists */
    cli_metric metric;                   /* metric of the next checkpoint, from the epoch's validation; a name NULL:
                                            none */
    bg_error checkpoint_failure;         /* the first one */
    struct bg_checkpoint_writer *writer; /* writing during the training; NULL: none */
    cli_progress progress;
    uint64_t updates, samples;
    bool has_whole;               /* there was a call of the usual size */
    double bad_loss;              /* the first loss that was not finite, in one of these updates; */
    uint64_t bad_first, bad_last; /* 0: all were finite */
} cli_run;

/* Prints "Epoch 1/3", and begins a new progress line. */
void cli_run_begin_epoch(const cli_recipe *recipe, cli_run *run, const bg_trainer_event *event);
/* Counts a training call. */
void cli_run_add_call(cli_run *run, const bg_trainer_call *call);
/* Makes a checkpoint. A full disk does not end a training, because the next checkpoint may fit again. */
/* Completes a checkpoint written during the training: waits if `waits`, otherwise only when all ranks have written
 * theirs. */
void cli_run_complete_checkpoint(const cli_recipe *recipe, cli_run *run, bool waits);
void cli_run_save_checkpoint(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                             const bg_trainer_event *event);
/* With --checkpoint-keep-best, at BG_ON_EPOCH_END: writes a checkpoint with the metric of the epoch, which is
 * run->metric, or else the mean loss of the epoch's training. An epoch that was stopped has none. */
void cli_run_end_epoch(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                       const bg_trainer_event *event);
/* With --debug: prints stages, memory, workers, timetable. */
bg_status cli_run_print_debug(const bg_trainer *trainer, bg_error *error);
/* An update was refused: writes the folder that repeats it beside the checkpoints. */
void cli_run_note_refused(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                          const bg_trainer_event *event);
/* Prints "Trained N weight updates, ..." */
void cli_run_print_result(const cli_recipe *recipe, const cli_training *training, const cli_run *run);
/* With --debug, prints the last line of a run: whether the loader kept up. */
void cli_run_print_verdict(const cli_recipe *recipe, const cli_training *training, const cli_run *run);
/* After the training: notes failures that are reported at the end, including a loss that was not finite. */
void cli_run_note_failures(cli_training *training, const cli_run *run);
/* Whether there are weights to save: trained ones or, without training, loaded ones. */
bool cli_run_wants_save(const cli_recipe *recipe, const cli_run *run);
/* A cli_model's report_signal. */
int cli_run_report_signal(const cli_recipe *recipe, const cli_run *run);

/* ---- the profile (recipe_profile.c) ---- */

/* Prints malloc'ed text, at most `line_limit` lines of it (0: all). */
void cli_print_text(const char *title, char *text, uint32_t line_limit);

enum { CLI_PROFILE_FILES = 5 };
/* Whether it can be written. */
bg_status cli_profile_check(const cli_recipe *recipe, bg_error *error);
/* The paths of its files, NULL without --profile; the caller frees each. */
void cli_profile_paths(const cli_recipe *recipe, char *paths[CLI_PROFILE_FILES]);
bg_status cli_profile_write(const cli_recipe *recipe, const cli_training *training, const cli_run *run,
                            const char *model, bg_error *error);
/* Writes the test's profile into a folder `test` beside them; does nothing without --profile. */
bg_status cli_profile_write_test(const cli_recipe *recipe, const cli_training *training, const char *model,
                                 bg_error *error);

/* ---- checkpoints (recipe_checkpoint.c) ---- */

/* Makes the folder, which is locked for this run until *folder is released. Without --resume it must have no checkpoint
 * of an earlier training. */
bg_status cli_checkpoint_check(const cli_recipe *recipe, int *folder, bg_error *error);
/* `batch` calls of the epoch are done. */
/* `metric` is recorded when it has a name. With --checkpoint-async the function only starts writing, and *writer must
 * be finished. An earlier writer is finished first, and the call returns its error. */
bg_status cli_checkpoint_save(const cli_recipe *recipe, const cli_training *training, uint64_t epoch, uint64_t batch,
                              const cli_metric *metric, struct bg_checkpoint_writer **writer, bg_error *error);
/* With --checkpoint-async: takes the memory for the copy now. */
bg_status cli_checkpoint_reserve(const cli_recipe *recipe, const cli_training *training, bg_error *error);
/* With --resume: loads the weights and the place of the latest checkpoint, if there is one, and sets *is_resumed.
 * *owes_validation: the checkpoint was made between the end of an epoch and its validation, which a plateau needs; NULL
 * without plateaus. */
bg_status cli_checkpoint_resume(cli_recipe *recipe, cli_training *training, bool *is_resumed, bool *owes_validation,
                                bg_error *error);

#endif
