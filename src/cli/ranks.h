/*
 * ranks.h: runs the program as one of several processes of a launcher (mpirun, srun): loads MPI, opens its transport,
 * and selects the rank that prints.
 */
#ifndef BGI_CLI_RANKS_H
#define BGI_CLI_RANKS_H

#include <brigade/transport.h>

/* Whether a launcher has started several processes and this is not the first one, for commands that run in one
 * process. */
bool cli_ranks_is_spare(void);
/* Returns the name of the launcher: "srun", "Open MPI's mpirun"; "none" when this process was started alone. */
const char *cli_ranks_launcher(void);
/* Under a launcher, loads its MPI and initializes it; only rank 0 then has standard output. Without a launcher, does
 * nothing. */
bg_status cli_ranks_begin(bg_error *error);
/* Returns the transport between the ranks; NULL for a single process. */
const bg_transport *cli_ranks(void);
/* Whether this process writes files and prints. */
bool cli_ranks_is_first(void);
/* Adds lines "name value\n" that must be equal on all ranks; a difference is an error of the first session. */
void cli_ranks_agree(const char *format, ...) BG_PRINTF(1, 2);
/* Returns the path of this rank's log: `path` with the rank's number in place of "%r". With "%r" each rank writes a
 * log; otherwise only the first rank does. */
const char *cli_ranks_log(const char *path);
bool cli_ranks_keeps_log(void);
/* Whether standard output is the user's terminal, and not one that a launcher has created in place of a pipe. */
bool cli_writes_to_terminal(void);
/* Waits on ranks other than the first, longer on higher ranks, because the rank that prints an error ends all others.
 * So only the lowest rank with an error prints it. Returns false if another rank has printed it. */
bool cli_ranks_says_error(void);
/* Acts as if this rank had got the signal too. The function must be called after all ranks know that one of them got a
 * signal. */
void cli_ranks_share_signal(bool is_asked);
/* Ends MPI; returns `code`. */
int cli_ranks_end(int code);
/* For --version: "Open MPI, MPICH" or "none". */
const char *cli_ranks_built(void);

#endif
