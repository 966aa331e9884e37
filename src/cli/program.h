/*
 * program.h: what the programs that train share: interruption, the log, weight files, options of strategies that are
 * texts.
 */
#ifndef BGI_CLI_PROGRAM_H
#define BGI_CLI_PROGRAM_H

#include <brigade/config.h>
#include <brigade/options.h>
#include <brigade/session.h>

#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#include "cli/options.h"

/* ---- interruption (interrupt.c) ---- */

/* The signal that asked the program to end; 0: none. */
extern volatile sig_atomic_t cli_received_signal;
/* SIGINT, SIGTERM and SIGHUP are noted; the second one ends the program in the usual way. */
void cli_catch_signals(void);

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
/* Takes `line` over. Lines are on their way with cli_log_flush. Not without a stream. */
bg_status cli_log_write(cli_log *log, json_t *line, bg_error *error);
bg_status cli_log_flush(cli_log *log, bg_error *error);
/* A failure is kept in log->failure, like those of lines. */
void cli_log_close(cli_log *log);
/* JSON has no infinity and no NaN: null stands for them. */
json_t *cli_json_real(double value);

/* ---- weight files (weights.c) ---- */

/* Every parameter must be in the file with the right shape, and nothing else; all that differs is listed. */
bg_status cli_weights_load(bg_weights *weights, const char *path, bg_error *error);
bg_status cli_weights_save(bg_weights *weights, const char *path, bg_error *error);
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

/* ---- options of strategies (strategy.c) ---- */

/* A list of kinds of tensors, or "none", as bits 1 << class. */
bg_status cli_classes_find(const char *option, const char *list, size_t length, uint32_t *out, bg_error *error);
/* "none", "stage", ... or a share; NULL: as the options are. False when the text is neither. */
bool cli_recompute_find(const char *text, bg_options *options);
/* Whether there is a schedule of that name (NULL: none given), and the strategy has a choice. */
bg_status cli_schedule_check(const char *strategy, const char *schedule, bg_error *error);

/* ---- options for the library (library.c) ---- */

/* What library.def has. */
typedef struct cli_library {
    const char *options_path;
    bg_run_options *run_options; /* what $BRIGADE_OPTIONS and that file say; NULL until they are read */
    cli_reals matmul_proportions;
    bool compile_only, log_cycles;
    const char *log_dir;   /* NULL: none */
    const char *cache_dir; /* NULL: as the environment says */
} cli_library;

/* Reads the options by name: what they say holds over all others. Clear in any case. */
bg_status cli_library_read(cli_library *library, bg_error *error);
void cli_library_clear(cli_library *library);
/* The options of the command line, and those by name over everything that is in `options`. */
void cli_library_set(const cli_library *library, bg_options *options);
void cli_library_override(const cli_library *library, bg_options *options);
/* Which strategy, schedule and stages, where they are given by name; texts are lent by the options. */
void cli_library_strategy(const cli_library *library, const char **strategy, const char **schedule,
                          const char **stages);
/* `given`, where the option has a name there, else `otherwise`. */
/* Whether updates change anything that is kept in 16 bits: weights of that type, or moments as an option by name says.
 */
bool cli_library_keeps_16_bits(const cli_library *library, const char *weight_type);
uint64_t cli_library_count(const cli_library *library, const char *name, uint64_t given, uint64_t otherwise);

/* Whether the options of a training are possible by themselves, whatever the network: what they say wrong is a mistake
 * on the command line. */
bg_status cli_options_check(const bg_options *options, bg_error *error);

/* ---- plans (cmd_plan.c) ---- */

/* What a training's plan is, a few lines; `samples` is what a micro-batch has. */
void cli_plan_report(const bg_plan *plan, const char *samples, bool is_measured);
/* Says on a terminal that a plan is made, until the line is cleared: before an error, or the line with its time. */
void cli_begin_compilation(bool quiet);
/* What is drawn on a terminal's line without an end goes. */
void cli_clear_line(bool quiet);
/* How long it took to make the plan, or to get it. */
void cli_report_compilation(const bg_plan *plan);

#endif
