/*
 * transport.h: lets several processes run one plan together. A transport copies bytes between the processes, from
 * memory to memory and in the background. Everything else is the same for every transport: the layout of devices,
 * messages between stages, sums over replicas, weights.
 *
 * The processes are ranks 0, 1, 2, ... All of them make the same plan and session and call the same functions in the
 * same order. A function that all ranks must call says so in its comment. Each rank has the devices that the layout
 * gives it (bg_execution_options.layout), and memory only for these devices. It gets the values of all weights and
 * outputs that it requests. Results are bit-identical to those of one process that has all devices.
 *
 *     bg_options options = bg_options_defaults();
 *     options.execution.transport = transport;       // MPI's: brigade/mpi.h; your own: this struct
 *
 * A transport of your own is a struct of functions. These functions never wait: `send` and `receive` start an
 * operation, and `poll` reports completed operations.
 *
 * Threads: Brigade calls these functions from the thread that calls Brigade; if takes_any_thread is set, also from
 * other threads.
 */
#ifndef BRIGADE_TRANSPORT_H
#define BRIGADE_TRANSPORT_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's side of a transport. The caller owns it; it must outlive the plans and sessions that use it. */
typedef struct bg_transport {
    size_t struct_bytes; /* sizeof(bg_transport) */
    const char *name;    /* for messages: "Open MPI 4.1.4" */
    uint32_t rank, rank_count;
    const uint32_t *hosts; /* for each rank, a number that is equal for ranks of one host; NULL: all are on one host */
    uint32_t tag_count;    /* tags go from 0 to tag_count - 1; at least 32,768 */
    size_t message_bytes;  /* the longest message; Brigade splits longer ones. At least 4,096 */
    size_t eager_bytes;    /* the longest message that the transport sends without a reply from its receiver: Brigade
                              splits messages of up to eight times this length into such messages. 0: Brigade
                              splits no messages for this reason */
    bool takes_any_thread; /* any thread may call the functions below; false: only the thread that uses the session */
    /* Values that must be equal on all ranks, in addition to the plan's options, such as the number of calls that the
     * program will make: lines "name value\n". Brigade compares these values whenever a session is created; a
     * difference is an error that names the value. NULL: no values. */
    const char *agreed;
    void *user; /* passed to all functions below */

    /* Opens and closes a lane, which is a separate space of tags: its messages do not match messages of other lanes.
     * Creating a session opens a lane, closes it, and opens another one that exists as long as the session, on all
     * ranks in the same order. `close` cancels operations in progress; after it the transport must not access their
     * memory. */
    bg_status (*open)(void *user, void **out_lane, bg_error *error);
    void (*close)(void *user, void *lane);

    /* Start to send to another rank, and to receive from another rank. The transport owns the memory until `poll`
     * returns `operation`. The message of a completed send arrives without further calls. Messages between two ranks
     * with one tag arrive in the order in which they were sent; the n-th receive gets the n-th. A message may be
     * shorter than the receiver's buffer. */
    bg_status (*send)(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                      void *operation, bg_error *error);
    bg_status (*receive)(void *user, void *lane, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                         void *operation, bg_error *error);
    /* Makes progress without waiting, and returns up to `most` completed operations of the lane, in any order. */
    bg_status (*poll)(void *user, void *lane, void **out_operations, uint32_t most, uint32_t *out_count,
                      bg_error *error);
} bg_transport;

#ifdef __cplusplus
}
#endif

#endif
