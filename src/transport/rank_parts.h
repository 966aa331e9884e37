/*
 * rank_parts.h: declares the internals of a transport of ranks, for ranks.c, rank_moves.c, rank_meetings.c and
 * rank_hosts.c.
 *
 *     owner of a device    post, release, offer, deliver: raises a count, queues the object, and moves data if no other
 *                          thread does
 *     mover                takes the queue: begins sends and receives; flushes notes; polls: counters rise
 *
 * Data that threads other than the mover change are atomic or under the mutex of the notes; all other data belong to
 * the mover, which holds `moving`. Each object is queued once, however often it changes, in an intrusive stack, so
 * nothing is allocated during a run.
 */
#ifndef BGI_TRANSPORT_RANK_PARTS_H
#define BGI_TRANSPORT_RANK_PARTS_H

#include "transport/ranks.h"

enum {
    NOTES_IN_ALL = 64, /* the largest number of notes in a parcel */
    PARCELS_OUT =
        2, /* between ranks with a link or a group in common; other pairs of ranks have one parcel in each direction */
    PARCELS_IN = 4,
    TEXT_BYTES = 24, /* of a note */
    WHY_BYTES = 512,
    HOST_TAG = 0,
    NOTE_TAG,
    FIRST_LINK_TAG
};

/* ---- messages ---- */

/* Kinds of notes between ranks, in addition to those of the runtime. */
enum { NOTE_CREDIT = 100, NOTE_FETCH, NOTE_ENDED, NOTE_TEXT, NOTE_WAITING };

/* A note as it is sent between ranks; all ranks run the same program, so its bytes are sent unchanged. */
typedef struct wire_note {
    uint32_t kind, to, from,
        place; /* `place`: the link of a credit; for a text its status, or 0 when more text follows */
    uint64_t run, value, more;
} wire_note;

typedef struct parcel {
    uint64_t count;
    wire_note notes[NOTES_IN_ALL];
} parcel;

typedef struct ranks ranks;

/* A send or receive, in as many messages as the carrier needs. */
typedef struct operation {
    void (*end)(ranks *r, struct operation *what); /* called when all messages are done; may be NULL */
    uint32_t messages_left;
    bool is_done;
    void *owner;
} operation;

/* An object with work for the mover. */
typedef struct queued {
    struct queued *next;
    atomic_bool is_queued;
    void (*handle)(struct queued *item);
} queued;

/* A link that begins on this rank and ends on another one, or the reverse. */
typedef struct channel {
    queued item;
    ranks *of;
    uint32_t link, rank;
    bool is_out;
    bgi_counter counter;    /* credit, or the number of arrived messages */
    _Atomic uint64_t asked; /* the number of messages that the device has posted or released */
    uint64_t begun, done;   /* the number of operations begun, and of those that are done with all before them */
    uint64_t released; /* the number of released slots: of an outgoing channel, as the other side reported it; of an
                          incoming channel, as this side reported it */
    char *windows;     /* memory for the windows of an outgoing channel */
    operation *slots;
} channel;

/* The communication between a member of this rank and one of another rank. */
typedef struct share {
    struct party *of;
    uint32_t member, rank, tag_out, tag_in;
    operation out, in, sum_out, sum_in;
    char *out_room, *in_room, *sum_room;
    size_t out_capacity, in_capacity, sum_capacity;
    size_t *offsets; /* by exchange: the offset of its data in in_room */
    size_t offset_capacity;
    const char *out_data;
    char *sum_data;
    size_t out_bytes, in_bytes, sum_out_bytes, sum_in_bytes;
    uint32_t offering; /* operations that sums wait for */
    uint32_t pending;  /* operations that the end of the collective operation waits for */
    bool wants_sum;    /* the sum must be received, after the data were sent, because both may use the same memory */
    bool is_delivered; /* the delivery of the current collective operation has begun */
} share;

/* A member of this rank in a group with members on other ranks. */
typedef struct party {
    queued item;
    ranks *of;
    uint32_t group, member, device;
    bgi_counter offered, delivered;
    const bgi_exchange *exchanges;
    uint32_t count;
    bool are_apart; /* each member is on a separate rank */
    bool
        is_short; /* the current collective operation has the short form: each member computes all sums, in one round */
    _Atomic uint64_t offers, deliveries; /* the number of collective operations that the member has reached, and of
                                            those in which it has done its share */
    uint64_t begun_offers, begun_deliveries;
    uint32_t offering; /* the shares with operations that sums of the short form wait for */
    uint32_t share_count;
    share *shares;
    share **by_member; /* NULL: the member is on this rank */
    char *sum;         /* the member's sums, without gaps */
    const char *sum_data;
    size_t sum_bytes, sum_capacity;
} party;

typedef struct peer {
    uint32_t rank;
    uint64_t ended; /* the peer's last completed run */
    uint64_t wanted;
    _Atomic uint64_t alive_ns; /* when the peer's last sign of life arrived; 0: none has arrived */
    /* Under the mutex of the notes. */
    wire_note *waiting;
    size_t waiting_count, waiting_capacity;
    bool is_near; /* the peer has a link or a group in common with this rank */
    uint32_t out_count, in_count;
    operation out[PARCELS_OUT], in[PARCELS_IN];
    parcel *parcels; /* outgoing, then incoming */
    uint32_t next_in;
    char why[WHY_BYTES];
    size_t why_length;
} peer;

/* A piece of a store that is fetched or sent. */
typedef struct piece {
    operation operation;
    uint32_t device, from; /* the requesting device, and the owner of the store */
    size_t offset, size_bytes;
    void *to;
    struct piece *next;
} piece;

struct ranks {
    bgi_transport base;
    const bg_transport *carrier;
    bgi_transport *threads; /* for communication between devices of this rank */
    void *lane;
    channel *channels; /* by link; only of links between ranks */
    party ***parties;  /* by group, by member; NULL: the member is on another rank, or all members are on this rank */
    uint32_t *tags;    /* by group: the tag of its first pair of members */
    uint32_t piece_tag;
    peer *peers;               /* by rank; this rank's entry is empty */
    _Atomic uint32_t *pending; /* by device: pieces in flight */
    _Atomic(queued *) queue;
    pthread_mutex_t moving;
    _Atomic pthread_t caller;
    _Atomic uint64_t heard; /* counts messages that ended and notes that arrived, but no notes of waiting ranks; only
                               the mover writes it */
    piece *free_pieces;
    wire_note *early; /* notes of runs that have not begun on this rank */
    size_t early_count, early_capacity;
    _Atomic uint64_t run;
    atomic_bool is_losing; /* a thread is writing the reason, or has written it */
    bg_status lost_status; /* valid once is_lost is true */
    char lost_why[WHY_BYTES];
    atomic_bool is_lost;

    pthread_mutex_t mutex;                    /* guards the notes and the fetches that have not begun */
    piece *fetches, **last;                   /* in order */
    _Atomic uint32_t note_count, fetch_count; /* the numbers of waiting notes and of `fetches` */
};

static inline ranks *bgi_ranks_of(bgi_transport *transport)
{
    return (ranks *)transport;
}

static inline bool bgi_ranks_own(const ranks *r, uint32_t device)
{
    return bgi_ranks_has(r->base.setup.ranks, device);
}

static inline uint32_t bgi_ranks_owner(const ranks *r, uint32_t device)
{
    return r->base.setup.ranks->owners[device];
}

/* ---- rank_moves.c ---- */

/* Notifies all ranks, and the engine of this rank, that this rank has failed. */
void bgi_ranks_lose(ranks *r, bg_status status, const char *why);
/* Records that this rank has failed without notifying the engine; returns false when an earlier cause is recorded. */
bool bgi_ranks_note_lost(ranks *r, bg_status status, const char *why);
/* Begins all messages of an operation. Called by the mover. */
void bgi_ranks_begin(ranks *r, operation *what, bool is_send, uint32_t rank, uint32_t tag, void *data,
                     size_t size_bytes);
void bgi_ranks_push(ranks *r, queued *item);
/* Queues the object, and moves data unless another thread does. */
void bgi_ranks_kick(ranks *r, queued *item);
/* Moves the data that can be moved, unless another thread does; if `polls`, also checks for arrivals. Returns whether
 * any data moved. */
bool bgi_ranks_move(ranks *r, bool polls);
void bgi_ranks_add_note(ranks *r, uint32_t rank, const wire_note *note);
void bgi_ranks_take_note(ranks *r, peer *from, const wire_note *note);
/* Handle the end of operations, and a channel that was queued. */
void bgi_ranks_open_parcels(ranks *r, operation *last);
void bgi_ranks_end_message(ranks *r, operation *last);
void bgi_ranks_end_piece_in(ranks *r, operation *what);
void bgi_ranks_handle_channel(queued *item);
void *bgi_ranks_slot(const ranks *r, const channel *c, uint64_t sequence);
/* Returns an unused piece; NULL when memory is out, and all ranks then fail. */
piece *bgi_ranks_take_piece(ranks *r, void (*end)(ranks *r, operation *what));

/* ---- rank_meetings.c ---- */

/* Creates a member; returns false when memory is out. */
bool bgi_ranks_open_party(ranks *r, uint32_t group, uint32_t member);
void bgi_ranks_free_party(party *p); /* `p` may be NULL */
bgi_wait bgi_ranks_offer(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                         uint32_t count);
bgi_pattern bgi_ranks_pattern(bgi_transport *transport, uint32_t group, uint32_t member, bgi_pattern own);
bgi_strip bgi_ranks_contribution(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t from,
                                 uint32_t index);
bgi_strip bgi_ranks_result(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t reader, uint32_t index);
bgi_wait bgi_ranks_deliver(bgi_transport *transport, uint32_t group, uint32_t member);
bgi_counter *bgi_ranks_meeting(bgi_transport *transport, uint32_t group, uint32_t member, bool is_delivery);

/* ---- rank_hosts.c ---- */

void bgi_ranks_begin_run(bgi_transport *transport, uint64_t run);
bg_status bgi_ranks_finish(bgi_transport *transport, uint64_t wanted, bg_error *error);
void bgi_ranks_give_up(bgi_transport *transport, bg_status status, const char *why);

#endif
