/*
 * command.h: describes a subcommand for main.c, and declares functions that print messages and end a subcommand.
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
    bool uses_ranks;                   /* several processes can run it together */
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

/* Prints an error or a warning, "brigade COMMAND: text", on stderr after the content of stdout. No other function
 * prints them. If `command` is NULL, the line is "brigade: text". Control characters (in names and paths) are printed
 * as \n, \x1b and so on, so that the message is one line. */
void cli_say(const char *command, const char *format, ...) BG_PRINTF(2, 3);

/* Prints "warning: TEXT" like cli_say, but only on the first rank, and each text only once. */
void cli_warn(const char *command, const char *text);

/* Returns the plural ending of a word such as "device" after a count. */
static inline const char *cli_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Returns a * b, or UINT64_MAX if the product is larger. */
static inline uint64_t cli_multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Prints the error on one line, except that a budget error keeps the lines of its table. Returns `code`. After work
 * that a signal canceled, the function reports the signal instead, and returns 128 plus the signal's number. */
int cli_fail(const char *command, int code, const bg_error *error);

/* Flushes stdout and returns `code`. If the output could not be written (a full disk, a closed pipe), the function
 * prints one line, and returns CLI_FAILED instead of CLI_DONE. */
int cli_finish(const char *command, int code);

#endif
