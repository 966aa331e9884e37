/*
 * command.h: what main.c knows of a sub-command, and how every sub-command ends.
 */
#ifndef BGI_CLI_COMMAND_H
#define BGI_CLI_COMMAND_H

#include <brigade/base.h>

/* Exit codes. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the sub-command's name; returns the exit code */
    bool uses_ranks;                   /* several processes do it together */
} cli_command;

int cli_checkpoint(int argc, char **argv);
int cli_gpt(int argc, char **argv);
int cli_infer(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_data(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_data_bench(int argc, char **argv);    /* argv[0] is "bench" */
int cli_data_tokenize(int argc, char **argv); /* argv[0] is "tokenize" */
int cli_plan(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_schedule(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_launch(int argc, char **argv);
int cli_options(int argc, char **argv);

/* The one place where errors and warnings are printed: "brigade COMMAND: text" on stderr, after what stdout holds. NULL
 * command: "brigade: text". Control characters (of names and paths) are shown as \n, \x1b and so on, so that it is one
 * line. */
void cli_say(const char *command, const char *format, ...) BG_PRINTF(2, 3);

/* As cli_say, but a text that was said before is not said again. */
void cli_warn(const char *command, const char *text);

/* What turns "device" into the word for so many. */
static inline const char *cli_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* a * b, or the largest number when that is more. */
static inline uint64_t cli_multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Says the error; the table of a budget error keeps its lines. Returns `code`. */
int cli_fail(const char *command, int code, const bg_error *error);

/* Flushes stdout; CLI_FAILED with one line when what was printed could not be written (a full disk, a closed pipe). */
int cli_finish(const char *command, int code);

#endif
