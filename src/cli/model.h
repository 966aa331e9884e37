/*
 * model.h: describes a model of the program as one row of a table. The row says how a command line becomes settings,
 * how the model is built, what its data are, and what it prints and writes. These files have no code for a particular
 * model: main.c finds a row by name, build.c makes the plan, and train.c trains. A new model is a file with a row, and
 * its name in models.def.
 */
#ifndef BGI_CLI_MODEL_H
#define BGI_CLI_MODEL_H

#include <brigade/safetensors.h>
#include <brigade/trainer.h>

#include "cli/options.h"
#include "cli/program.h"

/* The parts of a plan's description, in the order of printing. */
typedef enum cli_plan_part {
    CLI_PLAN_STAGES = 1,
    CLI_PLAN_MEMORY = 2,
    CLI_PLAN_PHASES = 4, /* memory by phase */
    CLI_PLAN_REMOTE = 8, /* remote stores and traffic */
    CLI_PLAN_TIMETABLE = 16,
    CLI_PLAN_PROGRAM = 32,
    CLI_PLAN_USUAL = 64 /* for cli_plan_show: the parts that the model chooses */
} cli_plan_part;

/* What a model provides for a training run, or only for its plan. The struct must not move, because options point into
 * it. */
typedef struct cli_build {
    bg_trainer_options trainer; /* its options are not set; the next two fields have them */
    bg_options training, inference;
    bool has_inference;  /* if false, the trainer's own options are used for everything except fit */
    bool is_measured;    /* whether the costs of the plan's stages are measured */
    uint32_t plan_parts; /* the parts that `brigade plan` prints */
    bool quiet;
} cli_build;

typedef struct cli_training cli_training;
typedef struct cli_prediction cli_prediction;

/* A row. A function may be NULL only if its comment says so. Settings are a struct of the model; the program clears
 * them also after an error. */
typedef struct cli_model {
    const char
        *name; /* the NAME of `brigade plan NAME` and, for models with a summary, of `brigade NAME`, which trains */
    const char *program; /* the command that trains it: "mnist", "gpt pretrain" */
    const char *says;    /* the command that its messages name: "mnist", "gpt" */
    const char *summary; /* the text of `brigade --help`; NULL if another command runs the program */
    const char *purpose; /* the text of --help after the usage */
    const char *plan;    /* the text of --help of `brigade plan NAME` */
    const char *common;  /* names of the most used options (cli_help_page); NULL: the help shows all options */
    const char *examples, *plan_examples; /* command lines at the end of the two helps; NULL: none */
    const char *samples;                  /* what a micro-batch contains: "images" */
    const char *operand;                  /* name of the program's operand in the help; NULL: no operand */
    size_t operand_at;                    /* offset of the operand in the settings, a const char * */

    /* Options. */
    const cli_option *flags;
    bgi_command library_flags;
    size_t settings_bytes, library; /* the size of the settings, and the offset of their cli_library */
    /* Sets the defaults. Messages name `command`, which is `says` or "plan". */
    void (*set_defaults)(void *settings, const char *command);
    /* Rewrites the command line; the result is borrowed from the settings. May be NULL. */
    bg_status (*rewrite)(void *settings, const cli_option *table, int *argc, char ***argv, bg_error *error);
    /* Called after the command line is read; evaluates the flags and checks rules between them. Returns the exit
     * code. */
    int (*resolve)(void *settings, bg_error *error);
    void (*clear_settings)(void *settings);

    /* Build. */
    uint32_t compile_only_parts; /* the parts of the plan that --compile-only prints */
    /* Measures values that a plan needs, such as costs; without `may_run`, nothing is run. NULL: nothing. */
    bg_status (*measure)(void *settings, bool may_run, bg_error *error);
    /* `training` is NULL if only a training plan is made. `out` has defaults. */
    bg_status (*build)(void *settings, const cli_training *training, cli_build *out, bg_error *error);

    /* Data. */
    const char *const
        *inputs; /* names of the graph's inputs for the tensors of a sample; NULL if `open` sets training->inputs */
    /* Sets the options of a loader for training calls, except the size of batches. If `load` is NULL, the defaults are
     * used. */
    void (*load)(const cli_training *training, bg_loader_options *out);

    /* The functions of a training run, in the order of their calls. If a function fails, training->code is the exit
     * code. */
    size_t state_bytes;                                                /* size of training->state, which is zeroed */
    bg_status (*print)(const cli_training *training, bg_error *error); /* prints the configuration; may be NULL */
    /* Opens the files for results and the data, and sets training->data. */
    bg_status (*open)(cli_training *training, bg_error *error);
    /* Called after the training plan is compiled; sets the weights and the position in the data, and opens the log.
     * NULL: nothing. */
    bg_status (*begin)(cli_training *training, bg_error *error);
    /* Called at each event of the trainer. A failure ends the training with this error. */
    bg_status (*on_event)(cli_training *training, bg_trainer_event *event, bg_error *error);
    /* Called after the training; reports and saves results. NULL: nothing. */
    bg_status (*finish)(cli_training *training, bg_error *error);
    void (*close)(cli_training *training); /* also called when `open` has failed */
    /* Reports that a signal ended the run, and returns the exit code. If `report_signal` is NULL, a stopped run counts
     * as finished. */
    int (*report_signal)(const cli_training *training);
} cli_model;

/* Returns the rows of models.def in order, and NULL after the last. */
const cli_model *cli_model_at(uint32_t index);
/* Returns the row of the model `name`; NULL if there is none. */
const cli_model *cli_model_find(const char *name);

/* ---- settings (settings.c) ---- */

typedef struct cli_settings {
    const cli_model *model;
    void *values; /* the struct of the model */
    cli_table table;
} cli_settings;

/* Reads a command line for `command`, which is model->says or "plan". The first argument that is not an option is
 * stored in `word`, and the next one in the model's operand. If `word` is NULL, only an operand is allowed. If the
 * command line requests help or the list of passes, prints `page` or the list, and sets *is_answered. The settings must
 * be cleared also after an error, and must not move. */
bg_status cli_settings_read(cli_settings *settings, const cli_model *model, const char *command,
                            const cli_help_page *page, int argc, char **argv, const char **word, bool *is_answered,
                            bg_error *error);
void cli_settings_clear(cli_settings *settings);
cli_library *cli_settings_library(const cli_settings *settings);

/* ---- build and plan (build.c, plan_show.c) ---- */

/* Makes a training plan; if `options` is NULL, with the options of the build. */
bg_status cli_build_plan(const cli_build *build, const bg_options *options, bg_plan **out, bg_error *error);

/* Makes a build from the defaults and the model's settings. */
bg_status cli_build_make(cli_build *build, const cli_settings *settings, const cli_training *training, bg_error *error);
/* Prints a training plan: a summary, the `prediction` (may be NULL), then `parts`. CLI_PLAN_USUAL selects the parts
 * that the model chooses for `brigade plan`. `command` is the name that the message about a signal uses. Returns the
 * exit code: CLI_USAGE if the options are invalid whatever the model is. */
int cli_plan_show(const cli_settings *settings, const char *command, uint32_t parts, cli_prediction *prediction,
                  bg_error *error);

/* ---- predictions of a plan (plan_predict.c) ---- */

/* The options of `brigade plan` itself. */
struct cli_prediction {
    const char *device, *svg_path, *html_path;
    const char *calibrate; /* "missing", "always" or "never" */
    const char *rank_link; /* "US,GB/S" of messages between ranks; NULL: the link that doctor measured, if any */
    uint64_t search;       /* the number of devices to search the best plan for; 0: no search */
    bool is_quiet;         /* whether the progress of a search is not printed */
    const char *title;     /* the command line, which is the title of diagrams */
    struct bgi_device_model *model; /* the device of --device; NULL: this machine */
};

/* Removes the options of `brigade plan` itself from a command line; *out_argv, which is malloc'ed, has the other
 * arguments. The prediction must be cleared also after an error. */
bg_status cli_prediction_read(cli_prediction *prediction, int argc, char **argv, int *out_argc, char ***out_argv,
                              bg_error *error);
/* Adds the options of `brigade plan` itself to a help page. */
void cli_prediction_add_help(cli_help_page *page);
void cli_prediction_clear(cli_prediction *prediction);
/* Makes the memory of a described device the budget when no other budget is given. */
void cli_prediction_set_budget(const cli_prediction *prediction, bg_options *options);
/* Prints the prediction for a plan that was made from the build, and writes its diagrams. */
bg_status cli_prediction_show(const cli_prediction *prediction, const cli_build *build, const bg_plan *plan,
                              const char *samples, bg_error *error);

/* ---- the best of many plans (plan_search.c) ---- */

/* Reads a command line as settings, which must be cleared also after an error. */
typedef bg_status (*cli_read_function)(cli_settings *settings, int argc, char **argv, bool *is_answered,
                                       bg_error *error);
/* Tries meshes, strategies, schedules, recomputation and offload for prediction->search devices, unless the command
 * line's options set them, and prints the results. Returns the exit code. */
int cli_plan_search(cli_prediction *prediction, int argc, char **argv, cli_read_function read, bg_error *error);

/* The evaluation of a plan. */
typedef struct cli_trial {
    double update_ns, samples_per_s, idle_share;
    double lost_ns[16]; /* a device's mean lost time per update, by class (predict/simulate.h) */
    size_t device_bytes, remote_bytes;
    bool fits;
} cli_trial;
typedef struct cli_pricing cli_pricing;
/* Opens the costs of the device of --device, or the known costs of this machine. */
bg_status cli_pricing_open(const cli_prediction *prediction, cli_pricing **out, bg_error *error);
void cli_pricing_close(cli_pricing *pricing);
bg_status cli_pricing_try(const cli_pricing *pricing, const bg_plan *plan, cli_trial *out, bg_error *error);

/* ---- the program (train.c) ---- */

struct cli_training {
    const cli_model *model;
    void *settings, *state; /* structs of the model */
    const cli_library *library;
    int code;    /* the exit code after an error; initially CLI_FAILED */
    int folder;  /* the descriptor of the locked folder of checkpoints; -1: none */
    cli_log log; /* the program closes it after the training */
    bg_dataset *data;
    const char *const *inputs; /* names of the graph's inputs for the tensors of a sample; initially the model's */
    bg_dataset *validation;    /* validation data with the same tensors, used after each epoch; NULL: none */
    bool validation_drops;     /* validation leaves out samples that do not fill a call */
    bg_trainer *trainer;
    bg_loader *loader; /* loader of the current training run */
    /* Results of the completed training. */
    bg_loader_statistics loader_statistics; /* all zero when there was nothing to train */
    double seconds;                         /* duration of bg_trainer_fit */
    bg_error failure;                       /* failure of `on_event` */
    /* The command line after "brigade"; only the last word of the program's name is included. */
    char **arguments;
    int argument_count;
    /* Used only by --replay (bundle.h). */
    bg_safetensors *replayed;
    bg_dataset *replayed_data; /* the samples of the replay; `data` points to it */
    bg_error late;             /* an error that is reported at the end, such as that of an unfinished log */
};

/* Runs `brigade NAME`; argv[0] is the last word of model->program. Returns the exit code. */
int cli_train(const cli_model *model, int argc, char **argv);
/* Keeps the first of the errors that are reported at the end; BG_OK is ignored. */
void cli_training_note(cli_training *training, const bg_error *late);

#endif
