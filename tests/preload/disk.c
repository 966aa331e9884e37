/*
 * disk.c: a library to be preloaded (LD_PRELOAD) into any program, which simulates disk errors for checkpoint files.
 * These are the files with $BRIGADE_TEST_DISK_FILES in their names ("checkpoint_train_step_" by default).
 *
 *     BRIGADE_TEST_DISK=full:N     from the N-th write on there is no space left
 *     BRIGADE_TEST_DISK=torn:N     the N-th write writes half of it and says that it wrote all
 *     BRIGADE_TEST_DISK=cut:N      the N-th write writes half of it, and the process is killed
 *     BRIGADE_TEST_DISK=flush:N    the N-th fsync fails
 *     BRIGADE_TEST_DISK=rename:N   the N-th rename fails
 *     BRIGADE_TEST_DISK=slow:N     the N-th rename takes 1.6 s
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t counts[3]; /* counts of writes, flushes and renames */

/* Returns the N of "KIND:N" if KIND is the requested kind, otherwise 0. */
static uint64_t asked(const char *kind)
{
    const char *text = getenv("BRIGADE_TEST_DISK");
    const size_t length = strlen(kind);

    return text != NULL && strncmp(text, kind, length) == 0 && text[length] == ':'
               ? strtoull(text + length + 1, NULL, 10)
               : 0;
}

static bool is_meant(const char *path)
{
    const char *files = getenv("BRIGADE_TEST_DISK_FILES");

    return strstr(path, files != NULL ? files : "checkpoint_train_step_") != NULL;
}

static bool is_meant_file(int file)
{
    char link[64], path[4096];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    return is_meant(path);
}

static void *find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

ssize_t write(int file, const void *data, size_t size_bytes)
{
    ssize_t (*real)(int, const void *, size_t);
    void *found = find("write");
    uint64_t number;

    memcpy(&real, &found, sizeof real);
    if (!is_meant_file(file))
        return real(file, data, size_bytes);
    number = atomic_fetch_add(&counts[0], 1) + 1;
    if (asked("full") > 0 && number >= asked("full")) {
        errno = ENOSPC;
        return -1;
    }
    if (number == asked("torn"))
        return real(file, data, size_bytes / 2) < 0 ? -1 : (ssize_t)size_bytes;
    if (number == asked("cut")) {
        real(file, data, size_bytes / 2);
        raise(SIGKILL);
    }
    return real(file, data, size_bytes);
}

int fsync(int file)
{
    int (*real)(int);
    void *found = find("fsync");

    memcpy(&real, &found, sizeof real);
    if (is_meant_file(file) && atomic_fetch_add(&counts[1], 1) + 1 == asked("flush")) {
        errno = EIO;
        return -1;
    }
    return real(file);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *);
    void *found = find("rename");
    uint64_t number;

    memcpy(&real, &found, sizeof real);
    if (!is_meant(to))
        return real(from, to);
    number = atomic_fetch_add(&counts[2], 1) + 1;
    if (number == asked("rename")) {
        errno = EIO;
        return -1;
    }
    if (number == asked("slow")) {
        struct timespec left = {.tv_sec = 1, .tv_nsec = 600000000};
        while (nanosleep(&left, &left) != 0) /* waits, even if a signal arrives */
            continue;
    }
    return real(from, to);
}
