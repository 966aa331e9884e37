/*
 * log.c: delivers the library's messages to the caller's function (options.reporting.log) and to a file
 * (options.files.log_dir). The file is opened for each message and appended to. So the log keeps no state between
 * messages, several processes may share the file, and a run allocates nothing.
 */
#include "plan/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

enum { PATH_BYTES = 4096, LINE_BYTES = BG_ERROR_MESSAGE_BYTES + 64 };

static bool has_folder(const bg_options *options)
{
    return options->files.log_dir != NULL && options->files.log_dir[0] != '\0';
}

/* Returns -1 when the file cannot be opened; see errno. */
static int open_file(const bg_options *options)
{
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s/%s", options->files.log_dir, BGI_LOG_NAME);

    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

static void append(const bg_options *options, const char *text, size_t size_bytes)
{
    const int file = open_file(options);

    while (file >= 0 && size_bytes > 0) {
        const ssize_t written = write(file, text, size_bytes);
        if (written <= 0)
            break; /* a full disk must not stop a run */
        text += written;
        size_bytes -= (size_t)written;
    }
    if (file >= 0)
        close(file);
}

void bgi_log(const bg_options *options, bg_log_level level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const time_t now = time(NULL);
    char line[LINE_BYTES], when[32] = "";
    struct tm parts;
    int length;

    if (options->reporting.log != NULL)
        options->reporting.log(options->reporting.log_user, level, text);
    if (!has_folder(options))
        return;
    if (gmtime_r(&now, &parts) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    length = snprintf(line, sizeof line - 1, "%s %s: %s", when, names[level], text);
    if (length < 0)
        return;
    if ((size_t)length > sizeof line - 2)
        length = sizeof line - 2;
    line[length] = '\n';
    append(options, line, (size_t)length + 1);
}

bool bgi_log_is_enabled(const bg_options *options)
{
    return options->reporting.log != NULL || has_folder(options);
}

void bgi_disable_log(bg_options *options)
{
    options->reporting.log = NULL;
    options->files.log_dir = NULL;
}

bg_status bgi_log_begin(const bg_options *options, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    bg_status status;
    int file;

    if (!has_folder(options))
        return BG_OK;
    status = bgi_folder_create(options->files.log_dir, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "log_dir");
    file = open_file(options);
    if (file < 0)
        return bg_error_set(error, BG_ERROR_IO, "log_dir: %s/%s cannot be written: %s", options->files.log_dir,
                            BGI_LOG_NAME, bgi_errno_text(errno, reason));
    close(file);
    return BG_OK;
}

bg_status bgi_log_plan(const bg_plan *plan, bg_error *error)
{
    static bg_status (*const prints[])(const bg_plan *, char **, bg_error *) = {
        bg_plan_print_placement, bg_plan_print_memory, bg_plan_print_timetable};
    static const char *const titles[] = {"Stages", "Memory", "Timetable"};
    bgi_string text = {0};
    char *whole = NULL;
    bg_status status;

    if (!has_folder(&plan->options))
        return BG_OK;
    for (size_t i = 0; i < sizeof prints / sizeof prints[0]; i++) {
        char *part = NULL;
        BGI_TRY_CLEANUP(prints[i](plan, &part, error));
        bgi_string_add(&text, "%s:\n%s%s", titles[i], part, i + 1 < sizeof prints / sizeof prints[0] ? "\n" : "");
        free(part);
    }
    BGI_TRY_CLEANUP(bgi_string_finish(&text, &whole, error));
    append(&plan->options, whole, strlen(whole));
cleanup:
    bgi_string_clear(&text);
    free(whole);
    return status;
}
