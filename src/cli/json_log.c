/*
 * json_log.c: writes a log of JSON lines. Lines are flushed together, so a reader sees whole lines while a run
 * proceeds.
 *
 * The log may be a file, a terminal, a pipe, or the target of standard output or standard error. In the last case lines
 * are written through that descriptor, so that they are interleaved with its other text. A log that can no longer be
 * written does not end the run.
 */
#include "cli/program.h"
#include "cli/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"

static bg_status report(const cli_log *log, int error_number, bg_error *error)
{
    char text[BGI_ERRNO_TEXT_BYTES];

    if (error_number == ENOMEM)
        return bg_error_set(error, BG_ERROR_MEMORY, "--log: %s: out of memory", log->path);
    return bg_error_set(error, BG_ERROR_IO, "--log: %s: %s", log->path, bgi_errno_text(error_number, text));
}

bg_status cli_log_write(cli_log *log, bgi_json_writer *line, bg_error *error)
{
    char *text = NULL;
    size_t length = 0;
    bool is_written;

    BGI_TRY(bgi_json_finish(line, &text, &length, error));
    errno = 0;
    is_written = fwrite(text, 1, length, log->stream) == length && fputc('\n', log->stream) != EOF;
    log->bytes += length + 1;
    free(text);
    return is_written ? BG_OK : report(log, errno != 0 ? errno : EIO, error);
}

bg_status cli_log_flush(cli_log *log, bg_error *error)
{
    fflush(stdout); /* standard output may be the same target */
    errno = 0;
    if (fflush(log->stream) != 0)
        return report(log, errno, error);
    log->good_bytes = log->bytes;
    return BG_OK;
}

/* ---- places ---- */

bg_status cli_log_check(const char *path, bg_error *error)
{
    const cli_log log = {.path = path};
    struct stat about;
    bool is_new = stat(path, &about) != 0;
    FILE *stream;

    /* Opening a pipe would wait for a reader, so it is opened later. */
    if (!is_new && S_ISFIFO(about.st_mode))
        return access(path, W_OK) == 0 ? BG_OK : report(&log, errno, error);
    stream = fopen(path, "a");
    if (stream == NULL)
        return report(&log, errno, error);
    fclose(stream);
    /* Removes the file that the check has created; if the removal fails, an empty log remains, which the run fills. */
    if (is_new)
        (void)remove(path);
    return BG_OK;
}

enum { RETRY_NS = 20000000 };

/* Waits for a pipe's reader, and opens the pipe without blocking, so that a signal at any moment ends the wait. Returns
 * -1 with errno 0 if *stop was set. */
static int open_pipe(const char *path, const volatile sig_atomic_t *stop)
{
    while (!*stop) {
        int descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (descriptor >= 0) {
            fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
            return descriptor;
        }
        if (errno != ENXIO)
            return -1;
        bgi_clock_sleep(RETRY_NS);
    }
    errno = 0;
    return -1;
}

static bool is_descriptor(const struct stat *about, int descriptor)
{
    struct stat other;

    return fstat(descriptor, &other) == 0 && other.st_dev == about->st_dev && other.st_ino == about->st_ino;
}

static int open_place(cli_log *log, const volatile sig_atomic_t *stop)
{
    struct stat about;

    if (stat(log->path, &about) == 0) {
        if (is_descriptor(&about, STDOUT_FILENO))
            return dup(STDOUT_FILENO);
        if (is_descriptor(&about, STDERR_FILENO))
            return dup(STDERR_FILENO);
        if (S_ISFIFO(about.st_mode))
            return open_pipe(log->path, stop);
    }
    log->is_own = true;
    return open(log->path, O_WRONLY | O_CREAT | (log->is_continued ? 0 : O_TRUNC) | O_APPEND | O_CLOEXEC, 0666);
}

bg_status cli_log_open(cli_log *log, const char *path, bool continues, const volatile sig_atomic_t *stop,
                       bg_error *error)
{
    int descriptor;

    *log = (cli_log){.path = path, .is_continued = continues};
    if (path == NULL || !cli_ranks_keeps_log())
        return BG_OK;
    descriptor = open_place(log, stop);
    if (descriptor < 0)
        return *stop ? BG_OK : report(log, errno, error);
    log->stream = fdopen(descriptor, "a");
    if (log->stream == NULL) {
        close(descriptor);
        return report(log, errno, error);
    }
    if (log->is_own) /* existing content stays */
        log->bytes = log->good_bytes = (uint64_t)lseek(descriptor, 0, SEEK_END);
    return BG_OK;
}

void cli_log_close(cli_log *log)
{
    bg_error *failure = log->failure.status == BG_OK ? &log->failure : NULL;
    int descriptor;

    if (log->stream == NULL)
        return;
    descriptor = log->is_own ? dup(fileno(log->stream)) : -1;
    errno = 0;
    if (fclose(log->stream) != 0 && failure != NULL)
        report(log, errno, failure);
    log->stream = NULL;
    if (descriptor < 0)
        return;
    if (log->failure.status == BG_OK) {
        close(descriptor); /* nothing to cut off; other writers may have added text */
        return;
    }
    /* A full disk may have left an incomplete line; only a file can be truncated. */
    if (lseek(descriptor, 0, SEEK_END) > (off_t)log->good_bytes && ftruncate(descriptor, (off_t)log->good_bytes) != 0 &&
        errno != EINVAL && failure != NULL)
        report(log, errno, failure);
    close(descriptor);
}
