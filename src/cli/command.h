/*
 * command.h: the description of a subcommand for main.c, and how every subcommand ends.
 */
#ifndef BGI_CLI_COMMAND_H
#define BGI_CLI_COMMAND_H

#include <brigade/base.h>

/* Exit codes. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name; returns the exit code */
    bool uses_ranks;                   /* several processes run it together */
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

/* The only function that prints errors and warnings: "brigade COMMAND: text" on stderr, after the content of stdout.
 * NULL command: "brigade: text". Control characters (in names and paths) are printed as \n, \x1b and so on, so that the
 * message is one line. */
void cli_say(const char *command, const char *format, ...) BG_PRINTF(2, 3);

/* Like cli_say, but prints each text only once. */
void cli_warn(const char *command, const char *text);

/* The plural ending of "device" and other words for a count. */
static inline const char *cli_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* a * b, or the largest number when the product overflows. */
static inline uint64_t cli_multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Prints the error; the table of a budget error keeps its lines. Returns `code`. */
int cli_fail(const char *command, int code, const bg_error *error);

/* Flushes stdout; CLI_FAILED with one line when the output could not be written (a full disk, a closed pipe). */
int cli_finish(const char *command, int code);

#endif
