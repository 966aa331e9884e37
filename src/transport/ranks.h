/*
 * ranks.h: connects devices of several processes over a carrier of bytes (brigade/transport.h). It knows devices, links
 * and groups, and no plans.
 *
 * Devices of one rank communicate like threads (threads.c). Between ranks:
 *
 *     message      is sent from a window on the sender's side and received in the receiver's slot; slots are offered
 *                  ahead, and credits are returned as notes
 *     collective   each member sends every other member the elements that the other takes, sums its share in the
 *                  members' order, and sends the sum to its readers: of n members, each sends and receives
 *                  2 (n - 1) / n of the whole
 *     short form   for few bytes, if each member is on a separate rank: each sends the whole to all others and sums all
 *                  of it, in the same order; one round instead of two
 *     rounds       large data are summed in rounds, one after the other, so that received data are in a cache when they
 *                  are summed; large tensors are sent without a copy
 *     fetch        is a note to the rank that has the store, which sends the bytes
 *     notes        between the same two ranks are sent together, in parcels
 *
 * A run involves all ranks: `begin` delivers notes of the run that arrived early, and `finish` waits until all ranks
 * have reached the run's end. Functions that post, release, offer or tell only add to a queue; one thread at a time
 * moves the data.
 */
#ifndef BGI_TRANSPORT_RANKS_H
#define BGI_TRANSPORT_RANKS_H

#include <stdio.h>

#include <brigade/transport.h>

#include "transport/transport.h"

enum { BGI_HOST_BYTES = 64 };

/* The ranks that take part, and the owner of each device (of all replicas). */
struct bgi_ranks {
    const bg_transport *carrier;
    const uint32_t *owners;              /* by device */
    double wait_limit_s;                 /* the limit of waits for other ranks without progress; INFINITY: no limit */
    const char (*hosts)[BGI_HOST_BYTES]; /* by rank: the host's name; NULL: no host is known; "": this one is unknown */
};

/* Writes "rank 3 on host node2", or "rank 3", to `text` and returns `text`. */
enum { BGI_RANK_TEXT_BYTES = BGI_HOST_BYTES + 32 };
static inline const char *bgi_ranks_name(const bgi_ranks *ranks, uint32_t rank, char text[BGI_RANK_TEXT_BYTES])
{
    const bool has_host = ranks->hosts != NULL && ranks->hosts[rank][0] != '\0';

    snprintf(text, BGI_RANK_TEXT_BYTES, "rank %u%s%s", rank, has_host ? " on host " : "",
             has_host ? ranks->hosts[rank] : "");
    return text;
}

static inline bool bgi_ranks_has(const bgi_ranks *ranks, uint32_t device)
{
    return ranks == NULL || ranks->owners[device] == ranks->carrier->rank;
}

extern const bgi_transport_type bgi_transport_ranks;

/* Whether a rank has reached the end of the current run. */
bool bgi_ranks_has_ended(bgi_transport *transport, uint32_t rank);
/* Returns the argument `wanted` of a rank's last call of `finish`. */
uint64_t bgi_ranks_wanted_by(bgi_transport *transport, uint32_t rank);
/* Writes the ranks that have shown no sign of life in the second half of `waited_s` seconds, like "rank 1 on host
 * node2, rank 3 on host node4, rank 4 on host node4 and 2 more", and returns their number. Ranks that have been silent
 * for the longest time come first, because a rank that waits for the cause may become silent later. In a run, ranks
 * that have reached its end do not count. */
uint32_t bgi_ranks_print_silent(bgi_transport *transport, double waited_s, bool is_in_run, char *text,
                                size_t text_bytes);
/* Sends data from rank `root` to all ranks, between runs or after `finish`. Fails when no message of another rank
 * arrives within wait_limit_s. */
bg_status bgi_ranks_share(bgi_transport *transport, uint32_t root, void *data, size_t size_bytes, bg_error *error);
/* Sends data from rank `from` to rank `to`; other ranks do nothing. */
bg_status bgi_ranks_hand(bgi_transport *transport, uint32_t from, uint32_t to, void *data, size_t size_bytes,
                         bg_error *error);

/* Byte counts of a collective operation: what a member sends to a member on another rank, the buffers for the
 * communication between the two, and, once for all members, the buffers for the member's own sums. `are_apart`: each
 * member is on a separate rank. */
typedef struct bgi_meeting_bytes {
    size_t sent, room, sums;
} bgi_meeting_bytes;
bgi_meeting_bytes bgi_ranks_meeting_bytes(const bgi_exchange *exchanges, uint32_t count, uint32_t member,
                                          uint32_t other, bool are_apart);
/* Returns the bytes of a round of a group of `size` members. */
size_t bgi_ranks_round_bytes(uint32_t size);

#endif
