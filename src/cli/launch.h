/*
 * launch.h: handles the processes of a launcher, for `brigade launch` (cmd_launch.c).
 */
#ifndef BGI_CLI_LAUNCH_H
#define BGI_CLI_LAUNCH_H

#include <brigade/base.h>

#include <sys/types.h>

/* ---- launch_process.c ---- */

/* Whether a command, a path or a name that is searched for in PATH, is an executable file. */
bool launch_can_run(const char *command);
/* Starts a command in a separate process group. */
bg_status launch_start(char *const *argv, pid_t *out, bg_error *error);
/* Waits at most `seconds` until the process ends; returns false if it is still running. *out_code is the exit code, or
 * 128 plus the signal's number. */
bool launch_wait(pid_t process, double seconds, int *out_code);
/* Sends a signal to the ranks on this host (descendants of the launcher that run `program`), or to only one of them if
 * `one` is true. Returns the number of processes that got it. */
uint32_t launch_signal_ranks(pid_t launcher, const char *program, int number, bool one);
/* The state of launch_watch_ranks for a launcher; zeroed when the launcher starts. */
typedef struct launch_watch {
    pid_t rank; /* a rank; 0 before one was found */
    bool has_seen;
    uint32_t looks;
} launch_watch;
/* Whether the launcher no longer has a rank on this host. Returns false if the launcher never had a rank here, as with
 * srun, whose ranks are not its descendants. The function must be called regularly. */
bool launch_watch_ranks(launch_watch *watch, pid_t launcher, const char *program);
/* Ends a launcher with SIGTERM to its process group, and kills it like launch_kill if it does not end. */
void launch_end(pid_t launcher);
/* Ends a launcher and all its descendants at once. */
void launch_kill(pid_t launcher);
/* Runs `command` in the shell, with `host` in place of "{}"; returns whether its exit code is 0. */
bool launch_probe(const char *command, const char *host);

#endif
