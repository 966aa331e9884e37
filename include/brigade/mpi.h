/*
 * mpi.h: MPI as a transport (brigade/transport.h). The functions are in a separate library for each MPI,
 * brigade_mpi_openmpi or brigade_mpi_mpich, because the binary interfaces of the two MPIs differ. libbrigade itself
 * links no MPI.
 *
 * In a program that already uses MPI:
 *
 *     bg_transport *transport = NULL;
 *     bg_transport_mpi_create(comm, &transport, &error);      // any communicator of yours, by all of its ranks
 *     options.execution.transport = transport;
 *     ... plans and sessions ...
 *     bg_transport_mpi_destroy(transport);                    // before MPI_Finalize, by all ranks
 *
 * Brigade then calls neither MPI_Init nor MPI_Finalize. It works on a duplicate of the communicator, and sets
 * MPI_ERRORS_RETURN only on this duplicate. With MPI_THREAD_FUNNELED only the thread that calls Brigade calls MPI. With
 * MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, Brigade's threads also call MPI, one thread at a time, while a function
 * of a session runs. The transport's name includes the thread level of MPI: "Open MPI v4.1.4, MPI_THREAD_FUNNELED".
 *
 * Threads: one thread at a time calls these functions; MPI's rules for the thread level of the process decide which
 * one.
 *
 * Errors: BG_ERROR_INVALID before MPI_Init and after MPI_Finalize, BG_ERROR_IO if an MPI function fails,
 * BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_MPI_H
#define BRIGADE_MPI_H

#include <mpi.h>

#include <brigade/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the calling process's transport for the ranks of `comm`; all ranks call the function. Errors:
 * BG_ERROR_INVALID before MPI_Init or after MPI_Finalize; BG_ERROR_IO, with MPI's message, if an MPI function fails.
 * Owner: *out is the caller's, to be released with bg_transport_mpi_destroy. */
BG_API bg_status bg_transport_mpi_create(MPI_Comm comm, bg_transport **out, bg_error *error);
/* Creates the transport like bg_transport_mpi_create, for a communicator from Fortran (its integer, or comm%MPI_VAL of
 * mpi_f08). Owner: *out is the caller's, to be released with bg_transport_mpi_destroy. */
BG_API bg_status bg_transport_mpi_create_fortran(MPI_Fint comm, bg_transport **out, bg_error *error);
/* Destroys a transport; all ranks call the function. `transport` may be NULL. First destroy all sessions that use the
 * transport.
 *
 * MPI cannot cancel a receive whose message has begun to arrive. If the sending rank is lost at this time,
 * bg_session_destroy waits one second for the rest of the message and then abandons the receive. After this, creating a
 * session with the transport fails (BG_ERROR_IO), and the process should call MPI_Abort, because MPI may still write a
 * late message into freed memory. */
BG_API void bg_transport_mpi_destroy(bg_transport *transport);

/* Initializes MPI and creates the transport of all processes, for a program that does not use MPI itself. Owner: *out
 * is the caller's, to be released with bg_transport_mpi_end. */
BG_API bg_status bg_transport_mpi_begin(bg_transport **out, bg_error *error);
/* Destroys the transport, waits for all processes and finalizes MPI. `code` is the exit code. A code of 1 to 128 means
 * a failure, and then the function ends all other processes too. If MPI_Finalize does not return within 3 seconds, the
 * process exits with the code, so flush streams first. */
BG_API void bg_transport_mpi_end(bg_transport *transport, int code);

#ifdef __cplusplus
}
#endif

#endif
