/*
 * launch_process.c: starts a launcher, waits for it, and finds its processes in the kernel's list, because launchers
 * put ranks into separate process groups.
 */
#define _DEFAULT_SOURCE
#include "cli/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

enum {
    MOST_PROCESSES = 4096,
    PATH_BYTES = 4096,
    LOOK_NS = 20000000,
    NO_COMMAND = 127,
    OFTEN_LOOKS = 300,
    SELDOM_LOOKS = 50,
    TERM_S = 2,
};

static bool is_executable(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

bool launch_can_run(const char *command)
{
    const char *folders = getenv("PATH") != NULL ? getenv("PATH") : "/bin:/usr/bin";
    bool found = false;

    if (strchr(command, '/') != NULL)
        return is_executable(command);
    for (bool is_last = false; !found && !is_last;) {
        const size_t length = strcspn(folders, ":");
        bgi_string path = {0};

        bgi_string_append(&path, folders, length);
        bgi_string_add(&path, "%s%s", length > 0 ? "/" : "./", command); /* an empty folder is the current one */
        found = path.failed || is_executable(path.data);
        bgi_string_clear(&path);
        is_last = folders[length] == '\0';
        folders += length + 1;
    }
    return found;
}

/* Runs the command in the new process. If exec fails, its error number is written to the pipe, which closes on
 * success. */
static void run_child(char *const *argv, int pipe_end)
{
    int number;

    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], argv);
    number = errno;
    if (write(pipe_end, &number, sizeof number) < 0)
        _exit(NO_COMMAND);
    _exit(NO_COMMAND);
}

bg_status launch_start(char *const *argv, pid_t *out, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    int ends[2], number = 0;
    pid_t child;

    if (pipe(ends) != 0)
        return bg_error_set(error, BG_ERROR_IO, "a pipe cannot be created: %s", bgi_errno_text(errno, reason));
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    child = fork();
    if (child == 0)
        run_child(argv, ends[1]);
    close(ends[1]);
    if (child > 0 && read(ends[0], &number, sizeof number) == (ssize_t)sizeof number)
        waitpid(child, NULL, 0);
    close(ends[0]);
    if (child < 0)
        return bg_error_set(error, BG_ERROR_IO, "%s: cannot be started: %s", argv[0], bgi_errno_text(errno, reason));
    if (number != 0)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "%s: cannot be started: %s", argv[0],
                            bgi_errno_text(number, reason));
    *out = child;
    return BG_OK;
}

bool launch_wait(pid_t process, double seconds, int *out_code)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};

    for (double waited = 0.0;; waited += 1e-9 * LOOK_NS) {
        int status = 0;
        const pid_t ended = waitpid(process, &status, WNOHANG);
        if (ended == process || (ended < 0 && errno == ECHILD)) {
            *out_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            return true;
        }
        if (waited >= seconds || nanosleep(&look, NULL) != 0)
            return false;
    }
}

/* ---- descendants ---- */

/* Returns the parent of a process; 0 if the process does not exist. */
static pid_t parent_of(pid_t process)
{
    char path[64], line[512];
    const char *behind;
    FILE *stream;
    int parent = 0;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    stream = fopen(path, "r");
    if (stream == NULL)
        return 0;
    line[0] = '\0';
    if (fgets(line, sizeof line, stream) != NULL) {
        behind = strrchr(line, ')'); /* the name before it may contain any character */
        if (behind == NULL || sscanf(behind + 1, " %*c %d", &parent) != 1)
            parent = 0;
    }
    fclose(stream);
    return (pid_t)parent;
}

static bool descends(pid_t process, pid_t from)
{
    for (int depth = 0; depth < 32 && process > 1; depth++) {
        process = parent_of(process);
        if (process == from)
            return true;
    }
    return false;
}

static uint32_t find_descendants(pid_t from, pid_t found[MOST_PROCESSES])
{
    DIR *folder = opendir("/proc");
    uint32_t count = 0;

    for (struct dirent *entry; folder != NULL && count < MOST_PROCESSES && (entry = readdir(folder)) != NULL;) {
        const pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        if (process > 1 && descends(process, from))
            found[count++] = process;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* Whether a process runs the program; compares the first word of its command line without the folder. */
static bool runs(pid_t process, const char *program)
{
    const char *name = strrchr(program, '/') != NULL ? strrchr(program, '/') + 1 : program;
    char path[64], words[PATH_BYTES] = "";
    const char *own;
    FILE *stream;
    size_t length;

    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)process);
    stream = fopen(path, "r");
    if (stream == NULL)
        return false;
    length = fread(words, 1, sizeof words - 1, stream);
    words[length] = '\0';
    fclose(stream);
    own = strrchr(words, '/') != NULL ? strrchr(words, '/') + 1 : words;
    return strcmp(own, name) == 0;
}

uint32_t launch_signal_ranks(pid_t launcher, const char *program, int number, bool one)
{
    pid_t *found = malloc(MOST_PROCESSES * sizeof *found);
    const uint32_t count = found != NULL ? find_descendants(launcher, found) : 0;
    uint32_t sent = 0;

    for (uint32_t i = 0; i < count && !(one && sent > 0); i++)
        sent += runs(found[i], program) && kill(found[i], number) == 0;
    free(found);
    return sent;
}

bool launch_watch_ranks(launch_watch *watch, pid_t launcher, const char *program)
{
    pid_t *found;
    uint32_t count;

    if (watch->rank > 0 && runs(watch->rank, program))
        return false;
    watch->rank = 0;
    /* While no rank is found on this host, each search reads the whole list of processes, so searches become less
     * frequent. */
    watch->looks++;
    if (!watch->has_seen && watch->looks > OFTEN_LOOKS && watch->looks % SELDOM_LOOKS != 0)
        return false;
    found = malloc(MOST_PROCESSES * sizeof *found);
    count = found != NULL ? find_descendants(launcher, found) : 0;
    for (uint32_t i = 0; i < count && watch->rank == 0; i++)
        if (runs(found[i], program))
            watch->rank = found[i];
    watch->has_seen = watch->has_seen || watch->rank > 0;
    free(found);
    return found != NULL && watch->has_seen && watch->rank == 0;
}

void launch_end(pid_t launcher)
{
    int code;

    kill(-launcher, SIGTERM);
    if (!launch_wait(launcher, TERM_S, &code))
        launch_kill(launcher);
}

void launch_kill(pid_t launcher)
{
    pid_t *found = malloc(MOST_PROCESSES * sizeof *found);
    const uint32_t count = found != NULL ? find_descendants(launcher, found) : 0;
    int code;

    for (uint32_t i = 0; i < count; i++)
        kill(found[i], SIGKILL);
    kill(-launcher, SIGKILL);
    kill(launcher, SIGKILL);
    free(found);
    launch_wait(launcher, 10.0, &code);
}

bool launch_probe(const char *command, const char *host)
{
    bgi_string text = {0};
    char *argv[] = {"sh", "-c", NULL, NULL};
    pid_t process = 0;
    int code = 1;

    for (const char *at = command; *at != '\0';) {
        const char *place = strstr(at, "{}");
        const size_t length = place != NULL ? (size_t)(place - at) : strlen(at);
        bgi_string_append(&text, at, length);
        at += length;
        if (place != NULL) {
            bgi_string_add(&text, "%s", host);
            at += 2;
        }
    }
    argv[2] = text.data;
    if (!text.failed && text.data != NULL && launch_start(argv, &process, NULL) == BG_OK &&
        !launch_wait(process, 30.0, &code)) {
        launch_kill(process);
        code = 1;
    }
    bgi_string_clear(&text);
    return code == 0;
}
