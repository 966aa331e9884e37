/*
 * program.h: declares functions that the training programs share, for interruption, the log, weight files, and flags of
 * the library's options.
 */
#ifndef BGI_CLI_PROGRAM_H
#define BGI_CLI_PROGRAM_H

#include <brigade/config.h>
#include <brigade/options.h>
#include <brigade/session.h>

#include <signal.h>
#include <stdio.h>

#include "checkpoint/weights_source.h"
#include "cli/options.h"
#include "formats/json_write.h"

/* ---- interruption (interrupt.c) ---- */

/* The signal that asked the program to end; 0 before a signal. */
extern volatile sig_atomic_t cli_received_signal;
/* A bg_stop_function that returns whether a signal has arrived. */
bool cli_is_asked_to_stop(void *user);
/* Catches SIGINT, SIGTERM and SIGHUP; a second signal ends the program in the usual way. */
void cli_catch_signals(void);
/* This function must be called before work that leaves no files behind and rarely checks for signals. After the call,
 * an earlier or later signal ends the program at once with "brigade COMMAND: stopped by signal N" and exit code 128 +
 * N. */
void cli_end_at_signals(const char *command);

/* ---- the log (json_log.c): JSON lines ---- */

typedef struct cli_log {
    FILE *stream; /* NULL without a log, or after a failure */
    const char *path;
    uint64_t bytes, good_bytes; /* the number of written bytes, and the end of the last complete line on disk */
    bool is_own;                /* a file without other writers, from which an incomplete line is cut off */
    bool is_continued;          /* lines are appended to existing ones */
    bg_error failure;           /* why lines are missing; the run continues without them */
} cli_log;

/* Checks that the path can be written; a file that this check created is removed again. */
bg_status cli_log_check(const char *path, bg_error *error);
/* Opens the log, or no log if `path` is NULL. If `continues` is true, the existing lines of a file stay. Waits for a
 * pipe's reader; if *stop is set meanwhile, no log is opened. */
bg_status cli_log_open(cli_log *log, const char *path, bool continues, const volatile sig_atomic_t *stop,
                       bg_error *error);
/* Adds `line`, a JSON object, and empties it. cli_log_flush writes the lines to the file. The log must be open. */
bg_status cli_log_write(cli_log *log, bgi_json_writer *line, bg_error *error);
bg_status cli_log_flush(cli_log *log, bg_error *error);
/* Closes the log. A failure is stored in log->failure, like those of lines. */
void cli_log_close(cli_log *log);
/* Nine digits restore a float32 exactly. */
enum { CLI_LOG_DIGITS = 9 };

/* ---- weight files (weights.c) ---- */

/* Opens the file of --init, in any format of bg_weights_load, to find errors early. With a NULL path, *out does not
 * change. */
bg_status cli_weights_open(const char *path, bgi_weights_source **out, bg_error *error);
/* Loads weights from the file of --init, which must have every parameter with the right shape, and nothing else, and
 * closes it. An error lists the first differences. */
bg_status cli_weights_load(bg_weights *weights, bgi_weights_source **source, const char *path, bg_error *error);
/* Saves the weights to a file; with several ranks, the first rank writes it. */
bg_status cli_weights_save(bg_session *session, const char *path, bg_error *error);
/* Whether a file's name requests the whole model. cli_model_save writes such a file: `graph` with the session's
 * weights. */
bool cli_is_onnx(const char *path);
bg_status cli_model_save(bg_session *session, const bg_graph *graph, const char *path, bg_error *error);
/* Checks that the file can be written, with the same steps as a write up to the first byte. */
bg_status cli_save_check(const char *path, const char *option, bg_error *error);

/* ---- files (files.c) ---- */

/* A file that a run reads or writes, and the option that names it. */
typedef struct cli_file {
    const char *option, *path; /* NULL: none */
    bool is_written, is_weights;
} cli_file;

/* Checks that no option writes a file that another option reads or writes, even under a different name. */
bg_status cli_files_check(const cli_file *files, size_t count, bg_error *error);

/* ---- flags of the library's options (library.c) ---- */

/* The values of flags for the library's options. */
typedef struct cli_library {
    cli_table *table; /* the command's options; given[] says which of them were given */
    bool given[CLI_OPTION_LIMIT];
    bg_options options; /* the values of flags that are options; initially the command's defaults */
    /* Flags with a special form (flags.def); NULL or count 0: not given. */
    const char *phases, *recompute, *offload, *offload_rules, *shard, *accumulator_type, *loss_scaling;
    cli_reals device_speeds;
    cli_sizes device_memory; /* one value for all devices, or one for each */
    uint64_t offload_minimum, shard_minimum;
    const char *options_path; /* --options */
    const char *replay;       /* --replay: a folder as bundle.h describes it; NULL: none */
    bg_run_options
        *run_options; /* the content of $BRIGADE_OPTIONS and of the file of --options; NULL until they are read */
} cli_library;

/* --options, for a command's list. */
#define CLI_OPTIONS_FILE(library)                                                                                      \
    {                                                                                                                  \
        CLI_TEXT, "options", AT(library.options_path),                                                                 \
            .value = "FILE", .default_text = "none",                                                                   \
            .help = "the library's options by name (`brigade options` lists them), one on each line or JSON, as in "   \
                    "$BRIGADE_OPTIONS; they override all other options"                                                \
    }

/* --replay, for the list of a command that trains. */
#define CLI_REPLAY(library)                                                                                            \
    {                                                                                                                  \
        CLI_TEXT, "replay", AT(library.replay),                                                                        \
            .value = "DIR", .default_text = "none",                                                                    \
            .help =                                                                                                    \
                "repeat the update whose loss was not finite, from the folder that its run wrote; nothing is written"  \
    }

/* Returns all defaults, for a command that changes none of them. */
cli_library cli_library_defaults(void);
/* Whether the flag is given on the command line; false if the command has no such flag. */
bool cli_library_is_given(const cli_library *library, const char *flag);
/* If --dump-after requests the list of passes, prints the list and returns true; the program must then end. */
bool cli_library_list_passes(const cli_library *library);
/* Reads the options by name; they override all flags. The result must be cleared also after an error. */
bg_status cli_library_read(cli_library *library, bg_error *error);
void cli_library_clear(cli_library *library);
/* Checks for contradicting flags and invalid values. */
bg_status cli_library_check(const cli_library *library, bg_error *error);
/* Returns the options of all flags except --offload, --shard, --device-speeds and related ones, which programs
 * interpret differently. */
bg_options cli_library_options(const cli_library *library);
/* Applies options by name over everything in `options`, and then those of --replay. */
void cli_library_override(const cli_library *library, bg_options *options);
/* Whether updates change 16-bit values: weights of that type, or moments whose type an option by name sets. */
bool cli_library_keeps_16_bits(const cli_library *library, const char *weight_type);

/* Checks that the training options are valid for at least one network. An error means that the command line is
 * wrong. */
bg_status cli_options_check(const bg_options *options, bg_error *error);

/* ---- flags with a special form (strategy.c) ---- */

/* Converts a list of kinds of tensors, or "none", to bits 1 << class. */
bg_status cli_classes_find(const char *option, const char *list, size_t length, uint32_t *out, bg_error *error);
/* Sets recomputation from "none", "stage", ... or a share; NULL leaves the options unchanged. Returns false if the text
 * is neither. */
bool cli_recompute_find(const char *text, bg_options *options);
/* Sets loss scaling from "4096", "auto" or "auto:4096"; NULL leaves the options unchanged. Returns false if the text
 * has none of these forms. */
bool cli_loss_scaling_find(const char *text, bg_options *options);
/* Whether the scale is automatic. */
bool cli_loss_scaling_is_auto(const char *text);
/* Sets the accumulators' type from "same", "float32", ...; NULL and "default" leave the options unchanged. */
void cli_accumulator_type_set(const char *text, bg_options *options);
/* Checks that the schedule exists (NULL: not given), and that the strategy allows a choice. */
bg_status cli_schedule_check(bg_strategy strategy, const char *schedule, bg_error *error);

/* ---- plans (plan_report.c) ---- */

/* Prints a few lines about a training plan; `samples` names the contents of a micro-batch, such as "images".
 * `is_measured` tells whether the costs of the stages were measured. */
void cli_plan_report(const bg_plan *plan, const char *samples, bool is_measured);
/* Prints `before`, then the layout of ranks with the memory and traffic of each; prints nothing for one process. */
bg_status cli_plan_report_ranks(const bg_plan *plan, const char *before, bg_error *error);
/* Prints on a terminal that a plan is being compiled. The line is cleared before an error or the line with the time. */
void cli_begin_compilation(bool quiet);
/* Clears the unfinished status line. */
void cli_clear_line(bool quiet);
/* Prints how long it took to compile or load the plan. */
void cli_report_compilation(const bg_plan *plan);

#endif
