/*
 * message.c: prints messages on standard error, and handles the unfinished line on standard output.
 */
#include "cli/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "cli/ranks.h"
#include "core/file.h"
#include "core/text.h"

enum { TEXT_BYTES = BG_ERROR_MESSAGE_BYTES + 256, WARNING_LIMIT = 64 };

static void say(const char *command, const char *text, bool keeps_lines)
{
    char line[TEXT_BYTES];

    snprintf(line, sizeof line, "%s", text);
    bgi_string_escape(line, sizeof line, keeps_lines);
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
    /* Remembers warnings over the whole run, because training and test give the same ones. */
    static char *said[WARNING_LIMIT];
    int i = 0;

    while (i < WARNING_LIMIT && said[i] != NULL && strcmp(text, said[i]) != 0)
        i++;
    if ((i < WARNING_LIMIT && said[i] != NULL) || !cli_ranks_is_first())
        return;
    if (i < WARNING_LIMIT)
        said[i] = strdup(text);
    cli_say(command, "warning: %s", text);
}

int cli_fail(const char *command, int code, const bg_error *error)
{
    if (error->status == BG_ERROR_CANCELED && cli_received_signal != 0) {
        cli_say(command, "stopped by signal %d", (int)cli_received_signal);
        return 128 + (int)cli_received_signal;
    }
    if (cli_ranks_says_error())
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

void cli_clear_line(bool quiet)
{
    if (quiet || !cli_writes_to_terminal())
        return;
    fputs("\r\033[K", stdout);
    fflush(stdout);
}
