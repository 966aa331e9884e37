/*
 * transport.h: declares the communication between devices. It knows devices, and no plans, schedules or workers.
 *
 * No function blocks. A caller that needs data from another device gets a counter on its own side, which only grows,
 * and the number that the counter must reach. The caller calls again when the counter has reached that number. The
 * transport raises counters by calling events.raise.
 *
 *     message    sender     credit >= sequence + 1 - depth --> window: write --> post
 *                receiver   arrived > sequence --> read its own slot --> release
 *     collective offer --> wait --> sum or copy contributions (bgi_exchange_run) --> deliver --> wait
 *     fetch      fetch ... --> fetched               from another device's store, which does not change meanwhile
 *     note       tell --> events.told                a few numbers: turns, votes, what the host knows
 *
 * Messages. A link joins two devices: `depth` slots in the receiver's arena. A window is the memory in which the sender
 * writes a message: the slot itself, or memory on the sender's side. The sender may read the window until it posts the
 * message. Messages of a link arrive in order, in the slot sequence % depth; credits are returned in order, too.
 *
 * Collective operations. Members of a group contribute exchanges, which are equal except for their addresses (pattern.h
 * says which elements belong where), and must not change them until the operation is over. Between the two waits each
 * member does its share, with addresses that the transport gives: contributions to read, results to write. Members sum
 * in the members' order, with code that all transports share, so a sum does not depend on the transport, bit for bit.
 * Large exchanges may be cut into rounds (bgi_exchange_cut), each a separate operation: the data are then summed while
 * they are in a cache, and small buffers suffice.
 *
 * Posts, deliveries and notes of one device reach another device in order; there is no order between different pairs of
 * devices. The owner of the device, or of its queue of loads and stores, calls the functions; any thread may call
 * `tell` and `progress`, several at the same time.
 */
#ifndef BGI_TRANSPORT_TRANSPORT_H
#define BGI_TRANSPORT_TRANSPORT_H

#include <brigade/ops.h>

#include "core/isa.h"
#include "core/threads.h"
#include "device/device.h"
#include "transport/pattern.h"

/* Devices are numbered over all replicas. BGI_HOST is the caller that started the run in this process; with several
 * processes each rank has one. */
#define BGI_HOST UINT32_MAX
static inline uint32_t bgi_host_of(uint32_t rank)
{
    return BGI_HOST - 1 - rank;
}

typedef struct bgi_link {
    uint32_t from, to; /* if equal, there is no link: the slots stay on their device */
    uint32_t depth;
    size_t slot_bytes, offset; /* offset of slot 0 in the receiver's arena */
} bgi_link;

typedef struct bgi_group {
    uint32_t size; /* 0: the group has no collective operations */
    const uint32_t *members;
} bgi_group;

/* A member's contribution to a collective operation, and the destination of its results. */
typedef struct bgi_exchange {
    bgi_pattern pattern;
    bg_dtype dtype;
    bg_reduction function; /* function of a sum: SUM or MAX */
    const void *from;
    void *to;
    bool is_tree; /* a SUM is a tree over the members (exchange.c) instead of one after another */
} bgi_exchange;

/* The memory of a region: its first element, and bytes from row to row. */
typedef struct bgi_strip {
    char *data;
    size_t stride;
} bgi_strip;

typedef struct bgi_wait {
    bgi_counter *counter;
    uint64_t target;
} bgi_wait;

typedef enum bgi_note_kind {
    BGI_NOTE_TURN = 0, /* value: the number of completed instructions of a strict plan's replica */
    BGI_NOTE_MOVED,    /* value: the number of completed loads and stores of the sender */
    BGI_NOTE_ASK,      /* to the host: the sender has reached iteration `more` */
    BGI_NOTE_VOTE,     /* to the host: value: whether to continue after iteration `more` */
    BGI_NOTE_GRANT,    /* value: the number of iterations that may begin; more: the iteration at which the run ends */
    BGI_NOTE_READY,    /* between hosts: value: the number of iterations with all data; more: the iteration at which the
                          data end */
    BGI_NOTE_STOP,     /* between hosts: the run should end early */
    BGI_NOTE_ALIVE,    /* between hosts: value: the progress of the sender */
    BGI_NOTE_FAILED    /* to the host: the sender has failed */
} bgi_note_kind;

typedef struct bgi_note {
    bgi_note_kind kind;
    uint32_t from;        /* a device, BGI_HOST, or the host of a rank */
    uint64_t value, more; /* more: the sender's iteration, counted over all runs, unless stated otherwise */
} bgi_note;

/* The events that a transport reports to the runtime. They may be called from any function below. */
typedef struct bgi_transport_events {
    void *user;
    /* Stores the value in the counter, and wakes a thread for the device if it waits for the counter. */
    void (*raise)(void *user, bgi_counter *counter, uint64_t value, uint32_t device);
    /* Called when counters have changed for which several devices may wait. */
    void (*changed)(void *user);
    void (*told)(void *user, uint32_t to, const bgi_note *note);
    /* Called when another rank has failed, or cannot be reached. */
    void (*lost)(void *user, bg_status status, const char *why);
} bgi_transport_events;

typedef struct bgi_ranks bgi_ranks; /* ranks.h */

typedef struct bgi_transport_setup {
    uint32_t device_count, link_count, group_count;
    const bgi_ranks *ranks;     /* NULL: all devices are in this process. This field and the following ones must outlive
                                   the transport */
    bgi_device *const *devices; /* an entry is NULL: the device is on another rank */
    const bgi_link *links;
    const bgi_group *groups;
    bgi_isa isa; /* the instruction sets that sums may use; they do not change results */
    bgi_transport_events events;
} bgi_transport_setup;

typedef struct bgi_transport_type bgi_transport_type;

/* Transport types begin their own struct with this one. */
typedef struct bgi_transport {
    const bgi_transport_type *type;
    bgi_transport_setup setup;
} bgi_transport;

struct bgi_transport_type {
    const char *name;
    bg_status (*create)(const bgi_transport_setup *setup, bgi_transport **out, bg_error *error);
    void (*destroy)(bgi_transport *transport); /* may be called with NULL */

    /* Messages. `post` and `release` return the number of the next message, and do nothing when it differs from the
     * caller's. */
    void *(*window)(bgi_transport *transport, uint32_t link, uint64_t sequence);
    bgi_counter *(*credit)(bgi_transport *transport, uint32_t link); /* the sender's: the number of released messages */
    bgi_counter *(*arrived)(bgi_transport *transport,
                            uint32_t link); /* the receiver's: the number of arrived messages */
    uint64_t (*post)(bgi_transport *transport, uint32_t link, uint64_t sequence);
    uint64_t (*release)(bgi_transport *transport, uint32_t link, uint64_t sequence);

    /* Collective operations. `member`: the caller's number in the group. */
    bgi_wait (*offer)(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count);
    /* Returns the pattern by which the member does its share of an exchange with pattern `own`: this pattern or an
     * equivalent one. NULL: always `own`. */
    bgi_pattern (*pattern)(bgi_transport *transport, uint32_t group, uint32_t member, bgi_pattern own);
    /* Returns the elements that the caller takes of exchange `index` of member `from`. */
    bgi_strip (*contribution)(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t from, uint32_t index);
    /* Returns the destination for `reader`'s result. If its `data` is NULL, the transport copies the result from the
     * caller's. */
    bgi_strip (*result)(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t reader, uint32_t index);
    bgi_wait (*deliver)(bgi_transport *transport, uint32_t group, uint32_t member);
    /* Returns the bytes of one of the group's rounds; NULL: everything is exchanged in one operation. */
    size_t (*round_bytes)(const bgi_transport *transport, uint32_t group);
    /* Returns one of the two counters for which a member may wait in a collective operation, for reports. */
    bgi_counter *(*meeting)(bgi_transport *transport, uint32_t group, uint32_t member, bool is_delivery);

    /* Begins to copy from the store of device `from` to `to`, which is memory of `device`. Only one thread at a time
     * calls it for a device. */
    void (*fetch)(bgi_transport *transport, uint32_t device, uint32_t from, size_t offset, void *to, size_t size_bytes);
    /* Whether all fetches that have begun are complete. NULL: `fetch` returns when it is complete. */
    bool (*fetched)(bgi_transport *transport, uint32_t device);

    void (*tell)(bgi_transport *transport, uint32_t to, const bgi_note *note);

    /* Moves the data that can be moved; returns whether any data moved. Workers and I/O threads call it before they
     * take a device, and continuously while they have no work. NULL: the transport needs no such calls. */
    bool (*progress)(bgi_transport *transport);

    /* Used between processes; NULL in one process. `begin`: a run begins on this rank. `finish`: the run has ended on
     * this rank, and the caller waits until it has ended on all ranks. `wanted`: flags that all other ranks receive
     * (ranks.h). */
    void (*begin)(bgi_transport *transport, uint64_t run);
    bg_status (*finish)(bgi_transport *transport, uint64_t wanted, bg_error *error);
    /* Notifies all other ranks why this rank fails, and waits briefly until the message is sent. */
    void (*give_up)(bgi_transport *transport, bg_status status, const char *why);
    /* Whether only the thread that calls the engine may move data. */
    bool (*needs_caller)(const bgi_transport *transport);
};

/* ---- exchange.c ---- */

/* The progress of cutting exchanges into rounds; begins as zeros. */
typedef struct bgi_cut {
    uint32_t exchange; /* the next exchange; the number of exchanges when none is left */
    size_t element;    /* the next element of the next exchange */
} bgi_cut;

static inline size_t bgi_exchange_round_bytes(const bgi_transport *transport, uint32_t group)
{
    return transport->type->round_bytes != NULL ? transport->type->round_bytes(transport, group) : SIZE_MAX;
}

/* Writes the exchanges of the next round and returns their number, at most `count`. If there are several exchanges, a
 * BGI_PATTERN_SUM of more than `round_bytes` is cut, and its parts have separate rounds; smaller exchanges share rounds
 * of at most `round_bytes`. This may change which member sums an element, but not the result. */
uint32_t bgi_exchange_cut(size_t round_bytes, const bgi_exchange *exchanges, uint32_t count, bgi_cut *cut,
                          bgi_exchange *out_round);

/* Does a member's share of a collective operation, between the two waits. */
void bgi_exchange_run(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count);

/* ---- threads.c ---- */

/* Connects devices whose memory all threads of this process share: nothing is copied, and no lock is taken. */
extern const bgi_transport_type bgi_transport_threads;

#endif
