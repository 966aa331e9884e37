/*
 * recipe.h: what the programs that train with epochs over samples have in common, whatever the model: the options that
 * say how to train, the plan's options made of them, the progress line, checkpoints, the profile. A model's settings
 * have a cli_recipe in them, the state of its run a cli_run.
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
    const char *command;      /* who speaks: "mnist", "train", or "plan" */
    const char *program;      /* which makes its checkpoints: "mnist", "train" */
    const char *sample_word;  /* "image"; of checkpoints and messages */
    const char *sample_words; /* "images" */
    const char *data_hint;    /* how to have the same data again: "give the same --data-dir" */
    uint64_t batch_size, epochs;
    uint64_t steps;        /* 0: until the epochs are done */
    const char *optimizer; /* bg_optimizer_parse's text */
    double learning_rate;
    const char *rate_schedule; /* bg_rate_parse's text; NULL: not given */
    bg_rate_schedule rate;     /* made of it for the trainer */
    const char *no_validation; /* why no validation follows an epoch, which a plateau needs; NULL: one does */
    uint64_t plateau_reports;  /* validations that the plateau has seen */
    cli_library library;       /* flags of the library's options */
    bool checkpoint_blocks;
    const char *last_batch, *loader_mode;
    uint64_t num_workers, prefetch;
    bool no_shuffle;
    const char *init_path, *save_path, *log_path;
    const char *checkpoint_dir; /* NULL: none */
    uint64_t checkpoint_steps;  /* 0: at the end only */
    bool checkpoint_async;
    uint64_t checkpoint_keep, checkpoint_interval_s; /* 0: one; none by time */
    const char *checkpoint_best;                     /* the metric whose best checkpoint stays; NULL: none */
    bool resume;
    const char *resume_drop, *resume_optimizer; /* bg_checkpoint_load_options; NULL: not given */
    bool profile;
    const char *profile_dir; /* NULL: CLI_PROFILE_DIR */
    bool debug, quiet;
} cli_recipe;

/* The defaults of every program; `program` says whose. */
cli_recipe cli_recipe_defaults(const char *program);
/* With --replay: one update from the start of its data, and nothing written. Before what follows. */
void cli_recipe_replay(cli_recipe *recipe);
/* What one option's range cannot say: options that do not go together. */
bg_status cli_recipe_check(const cli_recipe *recipe, bg_error *error);
/* The schedule that --rate-schedule, which was given, says. */
bg_status cli_recipe_rate(const cli_recipe *recipe, bg_rate_schedule *out, bg_error *error);

/* An epoch's validation is done: a plateau may lower the rate, of which a line is printed unless the run is quiet. */
void cli_recipe_report(cli_recipe *recipe, double loss);

/* What the options of a plan point to. */
enum { CLI_MOST_RULES = 64, CLI_RULES_BYTES = 4096, CLI_MOST_REQUESTS = 16 };
typedef struct cli_plan_room {
    bg_device_model devices[CLI_LIST_LIMIT];
    bg_location_rule rules[CLI_MOST_RULES * BG_LOCATION_COUNT];
    char patterns[CLI_RULES_BYTES];
    bg_output_request requests[CLI_MOST_REQUESTS];
} cli_plan_room;

/* Strategy, stages, memory, gradients and the like. Warnings go to stderr. The options point into `room` and to the
 * recipe, which has been checked. */
bg_options cli_recipe_options(const cli_recipe *recipe, cli_plan_room *room);
/* For a test or validation: no recomputation; on one replica weights are whole, whatever --shard says. */
void cli_recipe_infer(const cli_recipe *recipe, bg_options *options, cli_plan_room *room);
/* Optimizer, limits, rate and checkpoints of a training. `out` points to the recipe. */
bg_status cli_recipe_trainer(cli_recipe *recipe, bg_trainer_options *out, bg_error *error);
/* Order, workers, and what becomes of the last batch but for padding, which is the model's. */
bg_loader_options cli_recipe_loading(const cli_recipe *recipe);

uint64_t cli_recipe_samples_per_call(const cli_recipe *recipe);
uint64_t cli_recipe_samples_per_update(const cli_recipe *recipe);

/* Whether the results can be written: weights, log, profile, checkpoints. Makes *folder this run's (-1 without
 * checkpoints) until it is released. */
bg_status cli_recipe_check_places(const cli_recipe *recipe, const char *save_path, int *folder, bg_error *error);
/* Whether no two options name one file, of which one is written; `more` are the model's own. */
bg_status cli_recipe_check_distinct(const cli_recipe *recipe, const char *save_path, const cli_file *more,
                                    size_t more_count, bg_error *error);

/* What all ranks must have in common of it. */
void cli_recipe_agree(const cli_recipe *recipe);

/* ---- progress (progress.c) ---- */

typedef struct cli_progress {
    const char *sample_words; /* "images" */
    bool is_terminal, quiet;
    uint64_t done, total; /* calls; total 0: not known */
    uint64_t samples;
    double start_s, shown_s;
} cli_progress;

enum { CLI_SCORE_BYTES = 128 };

void cli_progress_begin(cli_progress *progress, const char *sample_words, bool quiet, uint64_t total);
/* After each call. `score`: "Loss:0.1 | Accuracy:90.00% "; NULL: nothing is known. */
void cli_progress_add(cli_progress *progress, uint64_t samples, const char *score);
/* Writes the last line for good. */
void cli_progress_end(cli_progress *progress, const char *score);

/* Of a download: a bar on a terminal; in any case a line with size and time for each file that came. */
typedef struct cli_download_progress {
    bool is_terminal, quiet;
    char file_name[64]; /* empty: none yet */
    uint64_t done;
    double start_s, shown_s;
} cli_download_progress;

cli_download_progress cli_download_progress_begin(bool quiet);
/* bg_mnist_download_options.progress; `user` is the above. A signal cancels. */
bool cli_report_download(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes);
/* `is_complete`: the last file came too. */
void cli_download_progress_end(cli_download_progress *progress, bool is_complete);

/* ---- a run (recipe_run.c) ---- */

/* What --checkpoint-keep-best compares. */
typedef struct cli_metric {
    const char *name; /* NULL: no value is known */
    double value;
    bool rises; /* a higher one is better */
} cli_metric;

/* What every training keeps of its run. */
typedef struct cli_run {
    const char *save_path; /* NULL: nothing to save */
    bool is_saved, is_resumed, has_trained;
    bool is_checkpointed;                /* the newest checkpoint is there */
    cli_metric metric;                   /* of the next checkpoint, with the epoch's validation; a name NULL: none */
    bg_error checkpoint_failure;         /* the first one */
    struct bg_checkpoint_writer *writer; /* at work beside the training; NULL: none */
    cli_progress progress;
    uint64_t updates, samples;
    bool has_whole;               /* a call of the usual size was among them */
    double bad_loss;              /* the first loss that was not finite, of one of these updates; */
    uint64_t bad_first, bad_last; /* 0: all were finite */
} cli_run;

/* "Epoch 1/3", and a new progress line. */
void cli_run_begin_epoch(const cli_recipe *recipe, cli_run *run, const bg_trainer_event *event);
/* Counts a training call. */
void cli_run_add_call(cli_run *run, const bg_trainer_call *call);
/* Makes a checkpoint. A disk that is full ends no training: the next checkpoint may fit again. */
/* Completes what is written beside the training: `waits`, or when all ranks have written theirs. */
void cli_run_complete_checkpoint(const cli_recipe *recipe, cli_run *run, bool waits);
void cli_run_save_checkpoint(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                             const bg_trainer_event *event);
/* With --checkpoint-keep-best, at BG_ON_EPOCH_END: a checkpoint with the metric of the epoch, which is run->metric, or
 * the mean loss of the epoch's training. An epoch that was stopped has none. */
void cli_run_end_epoch(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                       const bg_trainer_event *event);
/* With --debug: stages, memory, workers, timetable. */
bg_status cli_run_print_debug(const bg_trainer *trainer, bg_error *error);
/* An update was refused: what repeats it is written beside the checkpoints. */
void cli_run_note_refused(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                          const bg_trainer_event *event);
/* "Trained N weight updates, ..." */
void cli_run_print_result(const cli_recipe *recipe, const cli_training *training, const cli_run *run);
/* With --debug, the last line of a run: whether the loader kept up. */
void cli_run_print_verdict(const cli_recipe *recipe, const cli_training *training, const cli_run *run);
/* The training is done: failures that are said at the end, also of a loss that was not finite. */
void cli_run_note_failures(cli_training *training, const cli_run *run);
/* Whether there is something to put into the file: what was learned, or, without training, what was loaded. */
bool cli_run_wants_save(const cli_recipe *recipe, const cli_run *run);
/* A cli_model's report_signal. */
int cli_run_report_signal(const cli_recipe *recipe, const cli_run *run);

/* ---- the profile (recipe_profile.c) ---- */

/* Prints malloc'ed text, at most `line_limit` lines of it (0: all). */
void cli_print_text(const char *title, char *text, uint32_t line_limit);

enum { CLI_PROFILE_FILES = 5 };
/* Whether it can be written. */
bg_status cli_profile_check(const cli_recipe *recipe, bg_error *error);
/* The paths of its files, NULL without --profile; each is yours to free. */
void cli_profile_paths(const cli_recipe *recipe, char *paths[CLI_PROFILE_FILES]);
bg_status cli_profile_write(const cli_recipe *recipe, const cli_training *training, const cli_run *run,
                            const char *model, bg_error *error);
/* Of the test, into a folder `test` beside them; nothing without --profile. */
bg_status cli_profile_write_test(const cli_recipe *recipe, const cli_training *training, const char *model,
                                 bg_error *error);

/* ---- checkpoints (recipe_checkpoint.c) ---- */

/* Makes the folder, which is this run's until *folder is released. Without --resume it must have no checkpoint of an
 * earlier training. */
bg_status cli_checkpoint_check(const cli_recipe *recipe, int *folder, bg_error *error);
/* `batch` calls of the epoch are done. */
/* `metric` is recorded when it has a name.
 * With --checkpoint-async it is begun, and *writer is to be finished; one that was there before is finished first, and
 * its error is the call's. */
bg_status cli_checkpoint_save(const cli_recipe *recipe, const cli_training *training, uint64_t epoch, uint64_t batch,
                              const cli_metric *metric, struct bg_checkpoint_writer **writer, bg_error *error);
/* With --resume: the weights and the place of the latest checkpoint, if there is one; then *is_resumed is set.
 * *owes_validation: the checkpoint was made between the end of an epoch and its validation, which a plateau waits for;
 * NULL where there are no plateaus. */
bg_status cli_checkpoint_resume(cli_recipe *recipe, cli_training *training, bool *is_resumed, bool *owes_validation,
                                bg_error *error);

#endif
