/*
 * model.h: a model of the program as one row: how a command line becomes its settings, what it is built of, its data,
 * and what it prints and writes. train.c trains a row, build.c shows its plan, main.c finds it by name; none of them
 * knows a model. A new model is a file with a row, and its name in models.def.
 */
#ifndef BGI_CLI_MODEL_H
#define BGI_CLI_MODEL_H

#include <brigade/safetensors.h>
#include <brigade/trainer.h>

#include "cli/options.h"
#include "cli/program.h"

/* What is printed of a plan, in this order. */
typedef enum cli_plan_part {
    CLI_PLAN_STAGES = 1,
    CLI_PLAN_MEMORY = 2,
    CLI_PLAN_PHASES = 4, /* memory by phase */
    CLI_PLAN_REMOTE = 8, /* remote stores and traffic */
    CLI_PLAN_TIMETABLE = 16,
    CLI_PLAN_PROGRAM = 32,
    CLI_PLAN_USUAL = 64 /* cli_plan_show: what the model says */
} cli_plan_part;

/* What a model is built of: for its plan alone, or for a training. It must not move: options point into it. */
typedef struct cli_build {
    bg_trainer_options trainer; /* its strategy has no options: they are the next two */
    bg_options training, inference;
    bool has_inference;  /* without: the trainer's own for what it does beside fit */
    bool is_measured;    /* the costs of the plan's stages */
    uint32_t plan_parts; /* what `brigade plan` prints */
    bool quiet;
} cli_build;

typedef struct cli_training cli_training;
typedef struct cli_prediction cli_prediction;

/* A row. Functions that may be NULL say so; the others are needed. Settings are a struct of the model's; the program
 * clears them in any case. */
typedef struct cli_model {
    const char *name;    /* of `brigade plan NAME`; and of `brigade NAME`, which trains it, if there is a summary */
    const char *program; /* what trains it: "mnist", "gpt pretrain" */
    const char *says;    /* begins its messages */
    const char *summary; /* for `brigade --help`; NULL: another command runs the program */
    const char *purpose; /* what --help begins with, after the usage */
    const char *plan;    /* the same for `brigade plan NAME` */
    const char *common;  /* options that most people want: cli_help_page; NULL: the help shows all */
    const char *examples, *plan_examples; /* command lines of both, which the helps end with; NULL: none */
    const char *samples;                  /* what a micro-batch has: "images" */
    const char *operand; /* what the help calls the word that the program takes beside options; NULL: none */
    size_t operand_at;   /* where it goes in the settings, a const char * */

    /* Options. */
    const cli_option *flags;
    bgi_command library_flags;
    size_t settings_bytes, library; /* the settings' size; where their cli_library is */
    /* The defaults, for a command that says so in messages: `says`, or "plan". */
    void (*set_defaults)(void *settings, const char *command);
    /* The command line in other words, borrowed from the settings; NULL: as it is. */
    bg_status (*rewrite)(void *settings, const cli_option *table, int *argc, char ***argv, bg_error *error);
    /* After reading: what the flags come to, and whether they go together. Returns the exit code. */
    int (*resolve)(void *settings, bg_error *error);
    void (*clear_settings)(void *settings);

    /* Build. */
    uint32_t compile_only_parts; /* what --compile-only prints of the plan */
    /* What a plan needs to be known before, such as costs; without `may_run` nothing is run for it. NULL: nothing. */
    bg_status (*measure)(void *settings, bool may_run, bg_error *error);
    /* `training` NULL: for the plan of a training alone. `out` has defaults. */
    bg_status (*build)(void *settings, const cli_training *training, cli_build *out, bg_error *error);

    /* Data. */
    const char *const *inputs; /* of the graph, for the tensors of a sample; NULL: `open` sets training->inputs */
    /* Of a loader of the training's calls: everything but the size of batches. NULL: the defaults. */
    void (*load)(const cli_training *training, bg_loader_options *out);

    /* A training, in the order of a run. Each function may fail; training->code is the exit code then. */
    size_t state_bytes;                                                /* of training->state, all-zero at first */
    bg_status (*print)(const cli_training *training, bg_error *error); /* the configuration; NULL: not */
    /* Places of results, data: sets training->data. */
    bg_status (*open)(cli_training *training, bg_error *error);
    /* The training is compiled: weights, the place in the data, the log. NULL: nothing. */
    bg_status (*begin)(cli_training *training, bg_error *error);
    /* Each event of the trainer. A failure ends the training, with this error. */
    bg_status (*on_event)(cli_training *training, bg_trainer_event *event, bg_error *error);
    /* The training is done: results. NULL: nothing. */
    bg_status (*finish)(cli_training *training, bg_error *error);
    void (*close)(cli_training *training); /* also when `open` has failed */
    /* Says that a signal ended the run; returns the exit code. NULL: a run that was stopped is done. */
    int (*report_signal)(const cli_training *training);
} cli_model;

/* The rows of models.def, in its order; NULL behind the last. */
const cli_model *cli_model_at(uint32_t index);
/* NULL: there is none of that name. */
const cli_model *cli_model_find(const char *name);

/* ---- settings (settings.c) ---- */

typedef struct cli_settings {
    const cli_model *model;
    void *values; /* the model's struct */
    cli_table table;
} cli_settings;

/* Reads a command line for `command`, which is model->says or "plan". At most one word that is no option goes to *word,
 * the next one to the model's operand; NULL: only the latter may be there. Help, which is `page`, and the list of
 * passes are printed when they are asked for; then *is_answered is set. Clear the settings in any case; they must
 * not move. */
bg_status cli_settings_read(cli_settings *settings, const cli_model *model, const char *command,
                            const cli_help_page *page, int argc, char **argv, const char **word, bool *is_answered,
                            bg_error *error);
void cli_settings_clear(cli_settings *settings);
cli_library *cli_settings_library(const cli_settings *settings);

/* ---- build and plan (build.c, plan_show.c) ---- */

/* The plan of a training; `options`: NULL for those of the build. */
bg_status cli_build_plan(const cli_build *build, const bg_options *options, bg_plan **out, bg_error *error);

/* Defaults, and what the model makes of them. */
bg_status cli_build_make(cli_build *build, const cli_settings *settings, const cli_training *training, bg_error *error);
/* Prints the plan of a training: what it is, with `prediction` (may be NULL) what it will do, then `parts`, or
 * CLI_PLAN_USUAL for those that the model has for `brigade plan`. `command` is who says that a signal came. Returns the
 * exit code: CLI_USAGE when the options are not possible by themselves. */
int cli_plan_show(const cli_settings *settings, const char *command, uint32_t parts, cli_prediction *prediction,
                  bg_error *error);

/* ---- what a plan will do (plan_predict.c) ---- */

/* The options of `brigade plan` itself. */
struct cli_prediction {
    const char *device, *svg_path, *html_path;
    const char *calibrate;          /* missing, always or never */
    uint64_t search;                /* devices to search the best plan for; 0: not */
    bool is_quiet;                  /* no progress of a search */
    const char *title;              /* of pictures; the command line */
    struct bgi_device_model *model; /* of --device; NULL: this machine */
};

/* Takes the options of `brigade plan` itself out of a command line; *out_argv, malloc'ed, has what is left. Clear the
 * prediction in any case. */
bg_status cli_prediction_read(cli_prediction *prediction, int argc, char **argv, int *out_argc, char ***out_argv,
                              bg_error *error);
/* Adds those options to a help page. */
void cli_prediction_add_help(cli_help_page *page);
void cli_prediction_clear(cli_prediction *prediction);
/* A described device's memory is the budget where no other one is given. */
void cli_prediction_set_budget(const cli_prediction *prediction, bg_options *options);
/* Prints the prediction of a plan, which was made of the build, and writes its pictures. */
bg_status cli_prediction_show(const cli_prediction *prediction, const cli_build *build, const bg_plan *plan,
                              const char *samples, bg_error *error);

/* ---- the best of many plans (plan_search.c) ---- */

/* A command line as settings; clear them in any case. */
typedef bg_status (*cli_read_function)(cli_settings *settings, int argc, char **argv, bool *is_answered,
                                       bg_error *error);
/* Tries meshes, strategies, schedules, recomputation and offload for prediction->search devices, with the options of
 * the command line where those say nothing of them, and prints what came of it. Returns the exit code. */
int cli_plan_search(cli_prediction *prediction, int argc, char **argv, cli_read_function read, bg_error *error);

/* What a plan is worth. */
typedef struct cli_trial {
    double update_ns, samples_per_s, idle_share;
    double lost_ns[16]; /* a device's mean time an update, by class (predict/simulate.h) */
    size_t device_bytes, remote_bytes;
    bool fits;
} cli_trial;
typedef struct cli_pricing cli_pricing;
/* The prices of --device, or what is known of this machine. */
bg_status cli_pricing_open(const cli_prediction *prediction, cli_pricing **out, bg_error *error);
void cli_pricing_close(cli_pricing *pricing);
bg_status cli_pricing_try(const cli_pricing *pricing, const bg_plan *plan, cli_trial *out, bg_error *error);

/* ---- the program (train.c) ---- */

struct cli_training {
    const cli_model *model;
    void *settings, *state; /* the model's */
    const cli_library *library;
    int code;    /* of an error: CLI_FAILED */
    int folder;  /* of checkpoints, held; -1: none */
    cli_log log; /* closed by the program after the training */
    bg_dataset *data;
    const char *const *inputs; /* of the graph, for the tensors of a sample; at first the model's */
    bg_dataset *validation;    /* with the same tensors, after each epoch; NULL: none */
    bool validation_drops;     /* leave out what is less than a call */
    bg_trainer *trainer;
    bg_loader *loader; /* of the training that runs */
    /* Of the training that was. */
    bg_loader_statistics loader_statistics; /* zero when nothing was to be trained */
    double seconds;                         /* everything included */
    bg_error failure;                       /* of `on_event` */
    /* The command line behind "brigade", but for the words of the program's name before the last. */
    char **arguments;
    int argument_count;
    /* With --replay (bundle.h). */
    bg_safetensors *replayed;
    bg_dataset *replayed_data; /* is `data` */
    bg_error late;             /* what is reported when all is done: an unfinished log, ... */
};

/* `brigade NAME`: argv[0] is the last word of model->program. Returns the exit code. */
int cli_train(const cli_model *model, int argc, char **argv);
/* Keeps the first of the errors that are reported when all is done; one that is BG_OK is none. */
void cli_training_note(cli_training *training, const bg_error *late);

#endif
