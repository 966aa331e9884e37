/*
 * transport.h: how devices reach each other. Knows devices; knows no plans, no schedule and no workers.
 *
 * No function blocks. A caller that needs something from another device gets a counter that only grows, on its own
 * side, and the number that it must reach, and calls again when it has. The transport reports each counter that it
 * raises (events.raise).
 *
 *     message    sender     credit >= sequence + 1 - depth --> window: write --> post
 *                receiver   arrived > sequence --> read its own slot --> release
 *     meeting    offer --> wait --> sum or copy what the others brought (bgi_exchange_run) --> deliver --> wait
 *     fetch      fetch ... --> fetched               from another device's store; nobody changes that meanwhile
 *     note       tell --> events.told                a few numbers: turns, votes, what the host knows
 *
 * Messages. A link joins two devices: `depth` slots in the receiver's arena. A window is where the sender writes a
 * message: the slot itself, or memory of its own side; the sender may read it back until it posts it. Messages of a
 * link arrive in order, in the slot sequence % depth; so do the credits that go back.
 *
 * Meetings. Members of a group bring exchanges, all the same ones but for their addresses (pattern.h says what belongs
 * where), and keep them as they are until the meeting is over. Between the two waits each member does its share, with
 * addresses that the transport gives: contributions to read, results to write. Members sum in the members' order, with
 * code that all transports share, so a sum's bits do not depend on the transport. Of much they may meet in rounds
 * (bgi_exchange_cut), each a meeting: then what is exchanged is summed while it is in a cache, and needs little room.
 *
 * Posts, deliveries and notes of one device reach another in order; different pairs of devices have no order. The owner
 * of the device, or of its queue of loads and stores, calls the functions; any thread may call `tell` and `progress`,
 * several at the same time.
 */
#ifndef BGI_TRANSPORT_TRANSPORT_H
#define BGI_TRANSPORT_TRANSPORT_H

#include <brigade/ops.h>

#include "core/isa.h"
#include "core/threads.h"
#include "device/device.h"
#include "transport/pattern.h"

/* Devices are numbered over all replicas. BGI_HOST is who started the run in this process; between processes each rank
 * has one. */
#define BGI_HOST UINT32_MAX
static inline uint32_t bgi_host_of(uint32_t rank)
{
    return BGI_HOST - 1 - rank;
}

typedef struct bgi_link {
    uint32_t from, to; /* equal: no link, the slots stay with their device */
    uint32_t depth;
    size_t slot_bytes, offset; /* offset: of slot 0 in the receiver's arena */
} bgi_link;

typedef struct bgi_group {
    uint32_t size; /* 0: never meets */
    const uint32_t *members;
} bgi_group;

/* What a member brings to a meeting, and where it wants its results. */
typedef struct bgi_exchange {
    bgi_pattern pattern;
    bg_dtype dtype;
    bg_reduction function; /* of sums: SUM or MAX */
    const void *from;
    void *to;
    bool is_tree; /* of sums: SUM as a tree over the members (exchange.c), instead of one after the other */
} bgi_exchange;

/* Where a region lies: its first element, and bytes from row to row. */
typedef struct bgi_strip {
    char *data;
    size_t stride;
} bgi_strip;

typedef struct bgi_wait {
    bgi_counter *counter;
    uint64_t target;
} bgi_wait;

typedef enum bgi_note_kind {
    BGI_NOTE_TURN = 0, /* value: instructions of a strict plan's replica that are done */
    BGI_NOTE_MOVED,    /* value: loads and stores of the sender that are done */
    BGI_NOTE_ASK,      /* to the host: the sender has come to iteration `more` */
    BGI_NOTE_VOTE,     /* to the host: value: whether to go on after iteration `more` */
    BGI_NOTE_GRANT,    /* value: iterations that may begin; more: at which one the run ends */
    BGI_NOTE_READY,    /* between hosts: value: iterations that have their data; more: where data end */
    BGI_NOTE_STOP,     /* between hosts: the run is to end early */
    BGI_NOTE_ALIVE,    /* between hosts: value: how much has been done there */
    BGI_NOTE_FAILED    /* to the host: the sender has given up */
} bgi_note_kind;

typedef struct bgi_note {
    bgi_note_kind kind;
    uint32_t from;        /* device, BGI_HOST or the host of a rank */
    uint64_t value, more; /* more: unless it says otherwise the sender's iteration, counted over all runs */
} bgi_note;

/* What a transport tells the runtime. May be called from any function below. */
typedef struct bgi_transport_events {
    void *user;
    /* Stores the value and wakes who waits for it with that device. */
    void (*raise)(void *user, bgi_counter *counter, uint64_t value, uint32_t device);
    /* Counters have changed that several devices may wait for. */
    void (*changed)(void *user);
    void (*told)(void *user, uint32_t to, const bgi_note *note);
    /* Another rank has given up, or cannot be reached. */
    void (*lost)(void *user, bg_status status, const char *why);
} bgi_transport_events;

typedef struct bgi_ranks bgi_ranks; /* ranks.h */

typedef struct bgi_transport_setup {
    uint32_t device_count, link_count, group_count;
    const bgi_ranks *ranks;     /* NULL: all devices are of this process. This and what follows lives as long as the
                                   transport */
    bgi_device *const *devices; /* NULL: another rank's */
    const bgi_link *links;
    const bgi_group *groups;
    bgi_isa isa; /* what sums may use; it does not change their bits */
    bgi_transport_events events;
} bgi_transport_setup;

typedef struct bgi_transport_type bgi_transport_type;

/* Types put this first into a struct of their own. */
typedef struct bgi_transport {
    const bgi_transport_type *type;
    bgi_transport_setup setup;
} bgi_transport;

struct bgi_transport_type {
    const char *name;
    bg_status (*create)(const bgi_transport_setup *setup, bgi_transport **out, bg_error *error);
    void (*destroy)(bgi_transport *transport); /* NULL is fine */

    /* Messages. `post` and `release` return the number of the message that is due, and do nothing when that is another.
     */
    void *(*window)(bgi_transport *transport, uint32_t link, uint64_t sequence);
    bgi_counter *(*credit)(bgi_transport *transport, uint32_t link);  /* the sender's: messages that were released */
    bgi_counter *(*arrived)(bgi_transport *transport, uint32_t link); /* the receiver's: messages that are there */
    uint64_t (*post)(bgi_transport *transport, uint32_t link, uint64_t sequence);
    uint64_t (*release)(bgi_transport *transport, uint32_t link, uint64_t sequence);

    /* Meetings. `member`: the caller's place in the group. */
    bgi_wait (*offer)(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count);
    /* The pattern by which the member does its share of an exchange with pattern `own`: that, or another one that comes
     * to the same. NULL: always that. */
    bgi_pattern (*pattern)(bgi_transport *transport, uint32_t group, uint32_t member, bgi_pattern own);
    /* What the caller takes of exchange `index` of `from`. */
    bgi_strip (*contribution)(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t from, uint32_t index);
    /* Where the caller writes what `reader` gets of it. `data` NULL: the transport takes it from the caller's own
     * result. */
    bgi_strip (*result)(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t reader, uint32_t index);
    bgi_wait (*deliver)(bgi_transport *transport, uint32_t group, uint32_t member);
    /* Bytes of a round of the group's; NULL: they bring all they have to one meeting. */
    size_t (*round_bytes)(const bgi_transport *transport, uint32_t group);
    /* The two counters a member may wait for in a meeting, for reports. */
    bgi_counter *(*meeting)(bgi_transport *transport, uint32_t group, uint32_t member, bool is_delivery);

    /* Begins to copy from the store of device `from` to `to`, memory of `device`. One queue of loads at a time. */
    void (*fetch)(bgi_transport *transport, uint32_t device, uint32_t from, size_t offset, void *to, size_t size_bytes);
    /* Whether all that was begun is there. NULL: `fetch` returns when it is. */
    bool (*fetched)(bgi_transport *transport, uint32_t device);

    void (*tell)(bgi_transport *transport, uint32_t to, const bgi_note *note);

    /* Moves what can be moved; whether that was anything. Workers call it before they take a device, and all the time
     * without work, as I/O threads do. NULL: there is never anything to move. */
    bool (*progress)(bgi_transport *transport);

    /* Between processes; NULL in one. A run begins on this rank; it has ended here, and the caller waits until it has
     * on all. `wanted`: a word that all others get (ranks.h). */
    void (*begin)(bgi_transport *transport, uint64_t run);
    bg_status (*finish)(bgi_transport *transport, uint64_t wanted, bg_error *error);
    /* Tells all other ranks why this one gives up, and waits a moment for that to leave. */
    void (*give_up)(bgi_transport *transport, bg_status status, const char *why);
    /* Only the thread that calls the engine moves anything. */
    bool (*needs_caller)(const bgi_transport *transport);
};

/* ---- exchange.c ---- */

/* How far exchanges have been cut into rounds; begins as zeros. */
typedef struct bgi_cut {
    uint32_t exchange; /* the next one; their count when none is left */
    size_t element;    /* of it, to begin with */
} bgi_cut;

static inline size_t bgi_exchange_round_bytes(const bgi_transport *transport, uint32_t group)
{
    return transport->type->round_bytes != NULL ? transport->type->round_bytes(transport, group) : SIZE_MAX;
}

/* The exchanges of the next round, and how many they are, at most `count`. One alone stays whole. Of several a sum of
 * more than `round_bytes` is cut, and its parts have rounds of their own; others come together as long as they have no
 * more. Which member sums an element may change by that, its bits do not. */
uint32_t bgi_exchange_cut(size_t round_bytes, const bgi_exchange *exchanges, uint32_t count, bgi_cut *cut,
                          bgi_exchange *out_round);

/* A member's share of a meeting, between the two waits. */
void bgi_exchange_run(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count);

/* ---- threads.c ---- */

/* Devices whose memory all threads of this process share: nothing is copied, no lock is taken. */
extern const bgi_transport_type bgi_transport_threads;

#endif
