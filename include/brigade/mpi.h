/*
 * mpi.h: MPI as a transport (brigade/transport.h). The functions are in a library of their own for each MPI that there
 * is, brigade_mpi_openmpi or brigade_mpi_mpich, because their binary interfaces differ; libbrigade itself links no MPI.
 *
 * In a program that uses MPI already:
 *
 *     bg_transport *transport = NULL;
 *     bg_transport_mpi_create(comm, &transport, &error);      // any communicator of yours, by all of its ranks
 *     options.execution.transport = transport;
 *     ... plans and sessions ...
 *     bg_transport_mpi_destroy(transport);                    // before MPI_Finalize, by all ranks
 *
 * Brigade then calls neither MPI_Init nor MPI_Finalize. It works on a duplicate of the communicator, with
 * MPI_ERRORS_RETURN there and nowhere else. With MPI_THREAD_FUNNELED only the thread that calls Brigade calls MPI; with
 * MPI_THREAD_SERIALIZED and more, threads of Brigade do too while a function of a session runs, one at a time. The
 * transport's name says which level it found: "Open MPI v4.1.4, MPI_THREAD_FUNNELED".
 *
 * Threads: one thread at a time calls these functions, by MPI's rules for the level of threads that it was started
 * with.
 *
 * Errors: BG_ERROR_INVALID before MPI_Init and after MPI_Finalize, BG_ERROR_IO when MPI refuses, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_MPI_H
#define BRIGADE_MPI_H

#include <mpi.h>

#include <brigade/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calling process's end, for all ranks of `comm`. Errors: INVALID before MPI_Init or after MPI_Finalize; IO, with
 * MPI's words, when MPI refuses. Owner: *out is the caller's, to be released with bg_transport_mpi_destroy. */
BG_API bg_status bg_transport_mpi_create(MPI_Comm comm, bg_transport **out, bg_error *error);
/* The same for a communicator of Fortran (its integer, or comm%MPI_VAL of mpi_f08). Owner: *out is the caller's, to be
 * released with bg_transport_mpi_destroy. */
BG_API bg_status bg_transport_mpi_create_fortran(MPI_Fint comm, bg_transport **out, bg_error *error);
/* NULL is fine. Sessions that use it are destroyed before.
 *
 * MPI cannot take a receive back whose message has begun to arrive. When a rank is lost at that moment, the end of the
 * session waits a second for the message and then leaves the receive to MPI; the transport opens no session after that
 * (IO), and the process should call MPI_Abort: were the message to come after all, MPI would write it into memory that
 * is freed. */
BG_API void bg_transport_mpi_destroy(bg_transport *transport);

/* For a program that is nothing but Brigade: initializes MPI, and makes the transport of all its processes. Owner: *out
 * is the caller's, to be released with bg_transport_mpi_end. */
BG_API bg_status bg_transport_mpi_begin(bg_transport **out, bg_error *error);
/* Destroys it, waits for all processes and finalizes MPI. `code`: the exit code. One of 1 to 128 is an error's and ends
 * all other processes too. An MPI that does not come back from its own end within 3 seconds ends the process with the
 * code; flush streams before. */
BG_API void bg_transport_mpi_end(bg_transport *transport, int code);

#ifdef __cplusplus
}
#endif

#endif
