/*
 * recipe.h: declares the common code of programs that train in epochs over samples: options of training and of its
 * plan, the progress line, checkpoints, the profile. A model's settings contain a cli_recipe, and the state of its run
 * contains a cli_run.
 */
#ifndef BGI_CLI_RECIPE_H
#define BGI_CLI_RECIPE_H

#include <brigade/rate.h>
#include <brigade/trainer.h>

#include "cli/model.h"
#include "cli/profile.h"

/* ---- options (recipe.c) ---- */

#define CLI_LIBRARY_MEMBER recipe.library /* the library's flags in settings with a recipe (library.def) */

typedef struct cli_recipe {
    const char *command;      /* the command in messages: "mnist", "train", or "plan" */
    const char *program;      /* the program that makes its checkpoints: "mnist", "train" */
    const char *sample_word;  /* the name of a sample in checkpoints and messages: "image" */
    const char *sample_words; /* "images" */
    const char *data_hint;    /* advice on how to get the same data: "give the same --data-dir" */
    /* The normalization of each input, a JSON object that checkpoints record; NULL: they record none. */
    const char *normalization;
    uint64_t batch_size, epochs;
    uint64_t steps;                            /* 0: no limit besides the epochs */
    const char *limits[BG_TRAINER_TASK_COUNT]; /* number or share of a pass's batches: "10", "0.25"; NULL: all */
    const char *optimizer;                     /* text for bg_optimizer_parse */
    double learning_rate;
    const char *rate_schedule; /* text for bg_rate_parse; NULL: not given */
    bg_rate_schedule rate;     /* the parsed schedule, for the trainer */
    const char *no_validation; /* why no validation follows an epoch, which a plateau needs; NULL if one does */
    uint64_t plateau_reports;  /* number of validations that the plateau has used */
    cli_library library;       /* flags of the library's options */
    bool checkpoint_blocks;
    const char *last_batch, *loader_mode;
    uint64_t num_workers, prefetch;
    bool no_shuffle;
    const char *init_path, *save_path, *log_path;
    bgi_weights_source *init;   /* the file of init_path, from the check of the options to the load of the weights */
    const char *checkpoint_dir; /* NULL: none */
    uint64_t checkpoint_steps;  /* 0: only at the end */
    bool checkpoint_async;
    uint64_t checkpoint_keep, checkpoint_interval_s; /* keep 0: one; interval 0: none by time */
    const char *checkpoint_best;                     /* the metric whose best checkpoint is kept; NULL: none */
    bool resume;
    const char *resume_drop, *resume_optimizer; /* texts for bg_checkpoint_load_options; NULL: not given */
    bool profile;
    const char *profile_dir; /* NULL: CLI_PROFILE_DIR */
    bool debug, quiet;
} cli_recipe;

/* Returns the defaults of every program; `program` is its name. */
cli_recipe cli_recipe_defaults(const char *program);
/* Changes the recipe for --replay: one update from the start of its data, which writes nothing. The function must be
 * called before the following functions. */
void cli_recipe_replay(cli_recipe *recipe);
/* Checks rules between options. */
bg_status cli_recipe_check(const cli_recipe *recipe, bg_error *error);
bg_status cli_recipe_check_optimizer(const cli_recipe *recipe, bg_error *error);
/* Parses --rate-schedule, which must have been given. */
bg_status cli_recipe_rate(const cli_recipe *recipe, bg_rate_schedule *out, bg_error *error);

/* Reports the loss of an epoch's validation to a plateau, which may lower the rate. A change is printed unless the run
 * is quiet. */
void cli_recipe_report(cli_recipe *recipe, double loss);

/* The data that the options of a plan point to. */
enum { CLI_MOST_RULES = 64, CLI_RULES_BYTES = 4096, CLI_MOST_REQUESTS = 16 };
typedef struct cli_plan_room {
    bg_device_model devices[CLI_LIST_LIMIT];
    bg_location_rule rules[CLI_MOST_RULES * BG_LOCATION_COUNT];
    char patterns[CLI_RULES_BYTES];
    bg_output_request requests[CLI_MOST_REQUESTS];
} cli_plan_room;

/* Returns the options of the training plan: strategy, stages, memory, gradients and so on. Warnings go to stderr. The
 * options point into `room` and to the recipe, which has been checked. */
bg_options cli_recipe_options(const cli_recipe *recipe, cli_plan_room *room);
/* Adapts the options for a test or validation: nothing is recomputed, settings of updates are off, and with one replica
 * nothing is sharded despite --shard. */
void cli_recipe_infer(const cli_recipe *recipe, bg_options *options, cli_plan_room *room);
/* Sets the optimizer, limits, rate and checkpoints of a training run. `out` then points to members of the recipe. */
bg_status cli_recipe_trainer(cli_recipe *recipe, bg_trainer_options *out, bg_error *error);
/* Returns loader options: order, workers, and the handling of the last batch, except padding, which the model sets. */
bg_loader_options cli_recipe_loading(const cli_recipe *recipe);

uint64_t cli_recipe_samples_per_call(const cli_recipe *recipe);
uint64_t cli_recipe_samples_per_update(const cli_recipe *recipe);

/* Checks that weights, log, profile and checkpoints can be written. Locks the checkpoints' folder for this run until
 * *folder is released; *folder is -1 without checkpoints. */
bg_status cli_recipe_check_places(const cli_recipe *recipe, const char *save_path, int *folder, bg_error *error);
/* Checks that no option writes a file that another option names; `more` are the model's own files. */
bg_status cli_recipe_check_distinct(const cli_recipe *recipe, const char *save_path, const cli_file *more,
                                    size_t more_count, bg_error *error);

/* Records the settings that must be equal on all ranks. */
void cli_recipe_agree(const cli_recipe *recipe);

/* ---- progress (progress.c) ---- */

typedef struct cli_progress {
    const char *sample_words; /* "images" */
    bool is_terminal, quiet;
    uint64_t done, total; /* numbers of calls; total 0: unknown */
    uint64_t samples;
    double start_s, shown_s;
} cli_progress;

enum { CLI_SCORE_BYTES = 128 };

void cli_progress_begin(cli_progress *progress, const char *sample_words, bool quiet, uint64_t total);
/* Counts a call, and redraws the line. `score` is text such as "Loss:0.1 | Accuracy:90.00% "; NULL if unknown. */
void cli_progress_add(cli_progress *progress, uint64_t samples, const char *score);
/* Prints the final line. */
void cli_progress_end(cli_progress *progress, const char *score);

/* The progress of a download: a line with size and time for each received file and, on a terminal, a bar. */
typedef struct cli_download_progress {
    bool is_terminal, quiet;
    char file_name[64]; /* empty before the first file */
    uint64_t done;
    double start_s, shown_s;
} cli_download_progress;

cli_download_progress cli_download_progress_begin(bool quiet);
/* Implements bg_mnist_download_options.progress; `user` is a cli_download_progress. A signal cancels. */
bool cli_report_download(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes);
/* Prints the final line of the last file, or clears the line if `is_complete` is false. */
void cli_download_progress_end(cli_download_progress *progress, bool is_complete);

/* ---- a run (recipe_run.c) ---- */

/* The value that --checkpoint-keep-best compares. */
typedef struct cli_metric {
    const char *name; /* NULL if no value is known */
    double value;
    bool rises; /* whether a higher value is better */
} cli_metric;

/* The state of a run, for every model. */
typedef struct cli_run {
    const char *save_path; /* NULL if nothing is saved */
    bool is_saved, is_resumed, has_trained;
    bool is_checkpointed; /* whether the last attempt to write a checkpoint succeeded */
    cli_metric
        metric; /* metric of the next checkpoint, from the epoch's validation; if its name is NULL, there is none */
    bg_error checkpoint_failure;         /* the first failure */
    struct bg_checkpoint_writer *writer; /* writes a checkpoint during training; NULL if no write is running */
    cli_progress progress;
    uint64_t updates, samples;
    bool has_whole;               /* whether there was a call of the usual size */
    double bad_loss;              /* the first loss that was not finite, in one of the updates bad_first to bad_last; */
    uint64_t bad_first, bad_last; /* 0: all were finite */
} cli_run;

/* Prints "Epoch 1/3", and begins a new progress line. */
void cli_run_begin_epoch(const cli_recipe *recipe, cli_run *run, const bg_trainer_event *event);
/* Counts a training call. */
void cli_run_add_call(cli_run *run, const bg_trainer_call *call);
/* Completes a checkpoint that is written during training. If `waits` is true, the function waits for all ranks;
 * otherwise it does nothing while a rank is still writing. */
void cli_run_complete_checkpoint(const cli_recipe *recipe, cli_run *run, bool waits);
/* Writes a checkpoint. A full disk does not end the run, because the next checkpoint may fit. */
void cli_run_save_checkpoint(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                             const bg_trainer_event *event);
/* With --checkpoint-keep-best, at BG_ON_EPOCH_END: writes a checkpoint with the metric of the epoch. The metric is
 * run->metric or, if that has no name and the run has no validation data, the mean loss of the epoch's training.
 * Without a metric, and for an epoch that was stopped, no checkpoint is written. */
void cli_run_end_epoch(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                       const bg_trainer_event *event);
/* With --debug, prints stages, memory, workers and timetable. */
bg_status cli_run_print_debug(const bg_trainer *trainer, bg_error *error);
/* After a refused update, writes a folder from which the update can be repeated. The new folder is in the folder of
 * --checkpoint, if that is given, otherwise in the current folder. */
void cli_run_note_refused(const cli_recipe *recipe, const cli_training *training, cli_run *run,
                          const bg_trainer_event *event);
/* Prints "Trained N weight updates, ..." */
void cli_run_print_result(const cli_recipe *recipe, const cli_training *training, const cli_run *run);
/* With --debug, prints the last line of a run: whether the loader kept up. */
void cli_run_print_verdict(const cli_recipe *recipe, const cli_training *training, const cli_run *run);
/* Records failures that are reported at the end, including a loss that was not finite. The function must be called
 * after the training. */
void cli_run_note_failures(cli_training *training, const cli_run *run);
/* Whether there are weights to save: trained ones or, without training, loaded ones. */
bool cli_run_wants_save(const cli_recipe *recipe, const cli_run *run);
/* Implements report_signal of a cli_model. */
int cli_run_report_signal(const cli_recipe *recipe, const cli_run *run);

/* ---- the profile (recipe_profile.c) ---- */

/* Prints `text`, at most `line_limit` lines of it (0: all), and frees it. */
void cli_print_text(const char *title, char *text, uint32_t line_limit);

enum { CLI_PROFILE_FILES = 5 };
/* Checks that the profile can be written. */
bg_status cli_profile_check(const cli_recipe *recipe, bg_error *error);
/* Makes the paths of the profile's files, which are NULL without --profile; the caller frees each. */
void cli_profile_paths(const cli_recipe *recipe, char *paths[CLI_PROFILE_FILES]);
bg_status cli_profile_write(const cli_recipe *recipe, const cli_training *training, const cli_run *run,
                            const char *model, bg_error *error);
/* Writes the test's profile to the subfolder `test` of the profile's folder; does nothing without --profile. */
bg_status cli_profile_write_test(const cli_recipe *recipe, const cli_training *training, const char *model,
                                 bg_error *error);

/* ---- checkpoints (recipe_checkpoint.c) ---- */

/* Creates the checkpoints' folder, which is locked for this run until *folder is released. Without --resume it must not
 * contain a checkpoint of an earlier run. */
bg_status cli_checkpoint_check(const cli_recipe *recipe, int *folder, bg_error *error);
/* Writes a checkpoint after `batch` calls of the epoch. `metric` is recorded if it has a name. With --checkpoint-async
 * the function only starts writing, and the caller must finish *writer before the next call. */
bg_status cli_checkpoint_save(const cli_recipe *recipe, const cli_training *training, uint64_t epoch, uint64_t batch,
                              const cli_metric *metric, struct bg_checkpoint_writer **writer, bg_error *error);
/* With --checkpoint-async, allocates the memory for the copy. */
bg_status cli_checkpoint_reserve(const cli_recipe *recipe, const cli_training *training, bg_error *error);
/* With --resume, loads the weights and the position of the latest checkpoint, if there is one, and sets *is_resumed.
 * Sets *owes_validation if the checkpoint was made after an epoch but before its validation, which a plateau needs.
 * `owes_validation` is NULL without plateaus. */
bg_status cli_checkpoint_resume(cli_recipe *recipe, cli_training *training, bool *is_resumed, bool *owes_validation,
                                bg_error *error);

#endif
