/*
 * main.c: the program `brigade`: finds the sub-command and runs it. Sub-commands are rows of a table.
 */
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "core/file.h"
#include "core/text.h"

static const cli_command commands[] = {
    {"mnist", "train the digit network of the pipelining tutorial and test it", cli_mnist},
    {"gpt", "train and use GPT language models", cli_gpt},
    {"plan", "show the plan of a training run without running it", cli_plan},
    {"schedule", "show, compare, verify, simulate and convert schedules", cli_schedule},
    {"config", "show, check, change and explain IPU configurations", cli_config},
    {"data", "make data sets", cli_data},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* ---- errors and warnings ---- */

enum { TEXT_BYTES = BG_ERROR_MESSAGE_BYTES + 256, WARNING_LIMIT = 64 };

static void say(const char *command, const char *text, bool keeps_lines)
{
    char line[TEXT_BYTES];

    snprintf(line, sizeof line, "%s", text);
    bgi_text_escape(line, sizeof line, keeps_lines);
    fflush(stdout);
    fprintf(stderr, "brigade%s%s: %s\n", command != NULL ? " " : "", command != NULL ? command : "", line);
}

void cli_say(const char *command, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say(command, text, false);
}

void cli_warn(const char *command, const char *text)
{
    /* Of the whole run: training and test say much the same of a plan. */
    static char *said[WARNING_LIMIT];
    int i = 0;

    while (i < WARNING_LIMIT && said[i] != NULL && strcmp(said[i], text) != 0)
        i++;
    if (i < WARNING_LIMIT && said[i] != NULL)
        return;
    if (i < WARNING_LIMIT)
        said[i] = strdup(text);
    cli_say(command, "warning: %s", text);
}

int cli_fail(const char *command, int code, const bg_error *error)
{
    say(command, error->message, error->status == BG_ERROR_BUDGET);
    return code;
}

int cli_finish(const char *command, int code)
{
    char text[BGI_ERRNO_TEXT_BYTES];
    bool failed = ferror(stdout) != 0;

    errno = 0;
    failed = fflush(stdout) != 0 || failed;
    if (!failed)
        return code;
    /* A signal that ended the run may have interrupted a write as well. */
    if (code > 128)
        return code;
    cli_say(command, "standard output: %s", errno != 0 ? bgi_errno_text(errno, text) : "writing failed");
    return code == CLI_DONE ? CLI_FAILED : code;
}

static void print_help(FILE *stream)
{
    fputs("Usage: brigade COMMAND [OPTION]...\n"
          "Trains and runs neural networks that are split over several devices.\n\nCommands:\n",
          stream);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(stream, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`brigade COMMAND --help` lists a command's options; `brigade --version` says the version.\n", stream);
}

static int report_unknown(const char *name)
{
    const char *names[COMMAND_COUNT];
    const char *nearest;

    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    nearest = bgi_text_nearest(name, names, COMMAND_COUNT);
    if (nearest != NULL)
        cli_say(NULL, "unknown command `%s`; did you mean `%s`?", name, nearest);
    else
        cli_say(NULL, "unknown command `%s`; `brigade --help` lists the commands", name);
    return CLI_USAGE;
}

/* A reader that went away and a file-size limit become errors of the write, which can be reported. */
static void ignore_write_signals(void)
{
    struct sigaction ignore;

    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, NULL);
#ifdef SIGXFSZ
    sigaction(SIGXFSZ, &ignore, NULL);
#endif
}

int main(int argc, char **argv)
{
    ignore_write_signals();
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return cli_finish("help", CLI_DONE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("brigade %s\n", BGI_VERSION);
        return cli_finish("--version", CLI_DONE);
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return cli_finish(commands[i].name, commands[i].run(argc - 1, argv + 1));
    return report_unknown(argv[1]);
}
