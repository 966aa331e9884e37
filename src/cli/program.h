/*
 * program.h: shared code of the programs that train: interruption, the log, weight files, flags of the library's
 * options.
 */
#ifndef BGI_CLI_PROGRAM_H
#define BGI_CLI_PROGRAM_H

#include <brigade/config.h>
#include <brigade/options.h>
#include <brigade/session.h>

#include <signal.h>
#include <stdio.h>

#include "cli/options.h"
#include "formats/json_write.h"

/* ---- interruption (interrupt.c) ---- */

/* The signal that asked the program to end; 0: none. */
extern volatile sig_atomic_t cli_received_signal;
/* A bg_stop_function: whether there was one. */
bool cli_is_asked_to_stop(void *user);
/* SIGINT, SIGTERM and SIGHUP are noted; the second one ends the program in the usual way. */
void cli_catch_signals(void);
/* For work that leaves nothing behind and looks up seldom: from here on a signal, or one that was noted, ends the
 * program at once with "brigade COMMAND: stopped by signal N" and 128 + N. */
void cli_end_at_signals(const char *command);

/* ---- the log (json_log.c): JSON lines ---- */

typedef struct cli_log {
    FILE *stream; /* NULL: no log, or none any more */
    const char *path;
    uint64_t bytes, good_bytes; /* written; up to the end of the last whole line on disk */
    bool is_own;                /* a file that nobody else writes into: half a line is cut off */
    bool is_continued;          /* lines go behind those that are there */
    bg_error failure;           /* why lines are missing; the run goes on without them */
} cli_log;

/* Whether the path can be written; a file that was not there is gone again. */
bg_status cli_log_check(const char *path, bg_error *error);
/* A NULL path: no log. `continues`: a file's lines are kept. A pipe is waited for until *stop: then there is no log. */
bg_status cli_log_open(cli_log *log, const char *path, bool continues, const volatile sig_atomic_t *stop,
                       bg_error *error);
/* Takes `line`, an object, and empties it. Lines are on their way with cli_log_flush. Not without a stream. */
bg_status cli_log_write(cli_log *log, bgi_json_writer *line, bg_error *error);
bg_status cli_log_flush(cli_log *log, bg_error *error);
/* A failure is kept in log->failure, like those of lines. */
void cli_log_close(cli_log *log);
/* Nine digits bring a float32 back exactly. */
enum { CLI_LOG_DIGITS = 9 };

/* ---- weight files (weights.c) ---- */

/* Every parameter must be in the file with the right shape, and nothing else; all that differs is listed. */
bg_status cli_weights_load(bg_weights *weights, const char *path, bg_error *error);
/* Of several ranks the first writes. */
bg_status cli_weights_save(bg_session *session, const char *path, bg_error *error);
/* Whether a file's name asks for the whole model, which cli_model_save writes: what `graph` returns, with the session's
 * weights. */
bool cli_is_onnx(const char *path);
bg_status cli_model_save(bg_session *session, const bg_graph *graph, const char *path, bg_error *error);
/* Whether a file can be written there, by the same steps as the real writing up to its first byte. */
bg_status cli_save_check(const char *path, const char *option, bg_error *error);

/* ---- files (files.c) ---- */

/* A file that a run reads or writes, and the option that names it. */
typedef struct cli_file {
    const char *option, *path; /* NULL: none */
    bool is_written, is_weights;
} cli_file;

/* Whether what one option writes is what another reads or writes, by whatever name. */
bg_status cli_files_check(const cli_file *files, size_t count, bg_error *error);

/* ---- flags of the library's options (library.c) ---- */

/* What flags of the library's options say. */
typedef struct cli_library {
    cli_table *table; /* the command's options, and which of them were given */
    bool given[CLI_OPTION_LIMIT];
    bg_options options; /* of flags that are options; before reading, the command's defaults */
    /* Of flags with a form of their own (flags.def); NULL or count 0: not given. */
    const char *phases, *recompute, *offload, *offload_rules, *shard, *accumulator_type, *loss_scaling;
    cli_reals device_speeds;
    cli_sizes device_memory; /* one for all, or one for each */
    uint64_t offload_minimum, shard_minimum;
    const char *options_path;    /* --options */
    const char *replay;          /* --replay: a folder that bundle.h is about; NULL: none */
    bg_run_options *run_options; /* what $BRIGADE_OPTIONS and that file say; NULL until they are read */
} cli_library;

/* --options, for a command's list. */
#define CLI_OPTIONS_FILE(library)                                                                                      \
    {                                                                                                                  \
        CLI_TEXT, "options", AT(library.options_path),                                                                 \
            .value = "FILE", .default_text = "none",                                                                   \
            .help = "the library's options by name, a line each or JSON, as in $BRIGADE_OPTIONS; they hold over all "  \
                    "others (`brigade options` lists them)"                                                            \
    }

/* --replay, for the list of a command that trains. */
#define CLI_REPLAY(library)                                                                                            \
    {                                                                                                                  \
        CLI_TEXT, "replay", AT(library.replay),                                                                        \
            .value = "DIR", .default_text = "none",                                                                    \
            .help = "repeat the update whose loss was not finite, from the folder that it left; nothing is written"    \
    }

/* All defaults, for flags that no command has others for. */
cli_library cli_library_defaults(void);
/* Whether the command line has the flag; false for one that the command does not have. */
bool cli_library_is_given(const cli_library *library, const char *flag);
/* Whether --dump-after asks for the list of passes, which is then printed: the program is done. */
bool cli_library_list_passes(const cli_library *library);
/* Reads the options by name into the flags' place: what they say holds over all others. Clear in any case. */
bg_status cli_library_read(cli_library *library, bg_error *error);
void cli_library_clear(cli_library *library);
/* Flags that contradict each other, or have no such value. */
bg_status cli_library_check(const cli_library *library, bg_error *error);
/* The options of all flags but --offload, --shard, --device-speeds and theirs, which programs understand differently.
 */
bg_options cli_library_options(const cli_library *library);
/* Options by name over everything that is in `options`. */
void cli_library_override(const cli_library *library, bg_options *options);
/* Whether updates change anything that is kept in 16 bits: weights of that type, or moments as an option by name says.
 */
bool cli_library_keeps_16_bits(const cli_library *library, const char *weight_type);

/* Whether the options of a training are possible by themselves, whatever the network: what they say wrong is a mistake
 * on the command line. */
bg_status cli_options_check(const bg_options *options, bg_error *error);

/* ---- flags with a form of their own (strategy.c) ---- */

/* A list of kinds of tensors, or "none", as bits 1 << class. */
bg_status cli_classes_find(const char *option, const char *list, size_t length, uint32_t *out, bg_error *error);
/* "none", "stage", ... or a share; NULL: as the options are. False when the text is neither. */
bool cli_recompute_find(const char *text, bg_options *options);
/* "4096", "auto" or "auto:4096"; NULL: as the options are. False when it is none of them. */
bool cli_loss_scaling_find(const char *text, bg_options *options);
/* Whether the scale adapts itself. */
bool cli_loss_scaling_is_auto(const char *text);
/* "same", "float32", ...; NULL or "default": as the options are. */
void cli_accumulator_type_set(const char *text, bg_options *options);
/* Whether there is a schedule of that name (NULL: none given), and the strategy has a choice. */
bg_status cli_schedule_check(bg_strategy strategy, const char *schedule, bg_error *error);

/* ---- plans (cmd_plan.c) ---- */

/* What a training's plan is, a few lines; `samples` is what a micro-batch has. */
void cli_plan_report(const bg_plan *plan, const char *samples, bool is_measured);
/* The layout of ranks, with memory and traffic of each, behind `before`; nothing for one process. */
bg_status cli_plan_report_ranks(const bg_plan *plan, const char *before, bg_error *error);
/* Says on a terminal that a plan is made, until the line is cleared: before an error, or the line with its time. */
void cli_begin_compilation(bool quiet);
/* Clears the unfinished status line. */
void cli_clear_line(bool quiet);
/* How long it took to make the plan, or to get it. */
void cli_report_compilation(const bg_plan *plan);

#endif
