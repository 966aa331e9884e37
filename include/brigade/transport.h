/*
 * transport.h: processes that run one plan together. A transport carries bytes between them, from memory to memory and
 * in the background; all else (whose devices are whose, messages between stages, sums over replicas, weights) Brigade
 * does above it, the same way over every transport.
 *
 * The processes are ranks 0, 1, 2, ... All of them make the same plan and session and call the same functions of it in
 * the same order: a function that is *of all ranks* says so. Each rank has the devices that the layout gives it
 * (bg_execution_options.layout), memory for those alone, and the values of all weights and outputs that it asks for.
 * Results have the same bits as those of one process that has all devices.
 *
 *     bg_options options = bg_options_defaults();
 *     options.execution.transport = transport;       // of MPI: brigade/mpi.h; of your own: this struct
 *
 * A transport of your own is a struct of functions. They never wait: `send` and `receive` begin something, `poll` says
 * what is done. Brigade calls them from the thread that calls Brigade, and when `takes_any_thread` is true from
 * others too, several at a time.
 *
 * Threads: Brigade calls these functions from the thread that calls Brigade, and from several threads when
 * takes_any_thread is set.
 */
#ifndef BRIGADE_TRANSPORT_H
#define BRIGADE_TRANSPORT_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's end of a transport. Yours; it has to live as long as plans and sessions that name it. */
typedef struct bg_transport {
    size_t struct_bytes; /* sizeof(bg_transport) */
    const char *name;    /* for messages: "Open MPI 4.1.4" */
    uint32_t rank, rank_count;
    const uint32_t *hosts; /* by rank: a number that is the same for ranks of one host; NULL: all are on one */
    uint32_t tag_count;    /* tags go from 0 to tag_count - 1; at least 32,768 */
    size_t message_bytes;  /* the longest message; Brigade cuts what is longer. At least 4,096 */
    size_t eager_bytes; /* the longest message that leaves without an answer of its receiver: Brigade cuts messages of
                           up to eight times as many bytes into such ones. 0: it cuts none for that reason */
    bool takes_any_thread; /* false: only the thread that uses the session may call what follows */
    /* What else has to be the same on all ranks, beside the plan's options: lines "name value\n", for instance how many
     * calls the program is going to make. Compared whenever a session is created, and like an option of the plan named
     * when it differs. NULL: nothing. */
    const char *agreed;
    void *user; /* given to all that follows */

    /* A lane is a space of tags of its own: its messages meet no others. Each session opens one to begin with, closes
     * it, and opens another for its life, on all ranks in the same order. `close` gives up what is under way; afterward
     * no memory is touched. */
    bg_status (*open)(void *user, void **out_lane, bg_error *error);
    void (*close)(void *user, void *lane);

    /* Begins to send to another rank, to receive from it. The memory is the transport's until `poll` has returned
     * `operation`; what is sent then arrives without a further call here. Messages between two ranks with one tag
     * arrive in the order in which they were sent; the n-th receive gets the n-th. A message may be shorter than the
     * room for it. */
    bg_status (*send)(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                      void *operation, bg_error *error);
    bg_status (*receive)(void *user, void *lane, uint32_t from, uint32_t tag, void *data, size_t size_bytes,
                         void *operation, bg_error *error);
    /* Moves what can be moved and returns at once: up to `most` operations of the lane that are done, in any order. */
    bg_status (*poll)(void *user, void *lane, void **out_operations, uint32_t most, uint32_t *out_count,
                      bg_error *error);
} bg_transport;

#ifdef __cplusplus
}
#endif

#endif
