/*
 * launch.h: `brigade launch`: processes of a launcher, for cmd_launch.c.
 */
#ifndef BGI_CLI_LAUNCH_H
#define BGI_CLI_LAUNCH_H

#include <brigade/base.h>

#include <sys/types.h>

/* ---- launch_process.c ---- */

/* Starts a command in a separate process group. */
bg_status launch_start(char *const *argv, pid_t *out, bg_error *error);
/* Waits at most `seconds` for its end; false when it is still running. *out_code: the exit code, or 128 plus the
 * signal's number. */
bool launch_wait(pid_t process, double seconds, int *out_code);
/* Sends a signal to the ranks on this host, which are descendants of the launcher and run `program`, or to one of them
 * when `one`. Returns the number of processes that got it. */
uint32_t launch_signal_ranks(pid_t launcher, const char *program, int number, bool one);
/* The facts about the ranks of a launcher on this host; zeroed at its start. */
typedef struct launch_watch {
    pid_t rank; /* one of them; 0: none was found */
    bool has_seen;
    uint32_t looks;
} launch_watch;
/* Whether a launcher has no rank on this host any more. Returns false if it never had one, as with srun, whose ranks
 * are not its descendants. Called regularly. */
bool launch_watch_ranks(launch_watch *watch, pid_t launcher, const char *program);
/* Ends a launcher with SIGTERM to its process group, and as launch_kill when it does not end. */
void launch_end(pid_t launcher);
/* Ends a launcher and all its descendants at once. */
void launch_kill(pid_t launcher);
/* Runs `command` in the shell, with `host` for "{}"; returns whether it ended with 0. */
bool launch_probe(const char *command, const char *host);

#endif
