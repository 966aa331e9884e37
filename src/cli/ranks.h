/*
 * ranks.h: the program as one of several processes that a launcher has started (mpirun, srun): the MPI, its transport,
 * and the rank that prints.
 */
#ifndef BGI_CLI_RANKS_H
#define BGI_CLI_RANKS_H

#include <brigade/transport.h>

/* Whether a launcher has started several processes, of which this is not the first: for commands that do nothing
 * together, and so are done once. */
bool cli_ranks_is_spare(void);
/* Under a launcher loads its MPI and begins it; standard output is that of rank 0. Else nothing happens. */
bg_status cli_ranks_begin(bg_error *error);
/* NULL: one process. */
const bg_transport *cli_ranks(void);
/* Whether this process writes files and prints. */
bool cli_ranks_is_first(void);
/* Lines "name value\n" that all ranks must have in common: a difference is an error of the first session. */
void cli_ranks_agree(const char *format, ...) BG_PRINTF(1, 2);
/* The place of this rank's log: `path` with the rank's number for "%r". With that each rank keeps one, else the first.
 */
const char *cli_ranks_log(const char *path);
bool cli_ranks_keeps_log(void);
/* Whether standard output is a terminal of the user's: launchers put one of their own in the place of a pipe. */
bool cli_writes_to_terminal(void);
/* An error on another rank than the first is said later, the higher the rank the later: whoever says it ends all. So
 * the lowest rank that has it says it, and nobody else: false when that has happened. */
bool cli_ranks_says_error(void);
/* All ranks have heard that one of them got a signal: as if it had come to this one too. */
void cli_ranks_share_signal(bool is_asked);
/* Ends MPI; returns `code`. */
int cli_ranks_end(int code);
/* For --version: "Open MPI, MPICH" or "none". */
const char *cli_ranks_built(void);

#endif
