/*
 * rank_meetings.c: runs collective operations of groups with members on several ranks. Each member sends every other
 * member the elements that the other member takes. It sums its share in the members' order, and then sends the sum to
 * its readers. For small exchanges the second round costs more than it saves. If, for such an exchange, each member is
 * on a separate rank, each member sends its whole contribution to all others and sums everything (the short form). The
 * terms of a sum, and their order, are the same.
 */
#include "transport/rank_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"

/* Limits of the short form. Two ranks send the same bytes in both forms; n ranks send n / 2 times as many bytes in the
 * short form. Above these sizes a second round costs less than computing all sums on each member. */
enum { SHORT_BYTES = 32 << 10, MORE_BYTES = 16 << 10, SHORT_MEMBERS = 64 };

/* The bytes of a member's share of a round. A message from another member is still in a near cache when it is summed,
 * and sending a message of this size takes long compared with the two messages that begin it. */
enum { ROUND_SHARE_BYTES = 512 << 10 };

/* Counts a member's arrival. As with threads, the last member to arrive wakes workers for the others. */
static void come(ranks *r, bgi_counter *counter, uint32_t size)
{
    const uint64_t after = atomic_fetch_add(&counter->value, 1) + 1;

    if (after % size == 0)
        r->base.setup.events.changed(r->base.setup.events.user);
}

static uint32_t size_of(const party *p)
{
    return p->of->base.setup.groups[p->group].size;
}

static void come_to_all(party *p, bool is_delivery)
{
    for (uint32_t m = 0; m < size_of(p); m++) {
        party *other = p->of->parties[p->group][m];
        if (other != NULL)
            come(p->of, is_delivery ? &other->delivered : &other->offered, size_of(p));
    }
}

static size_t bytes_of(const bgi_exchange *exchange, const bgi_region *region)
{
    return region->rows * region->length * bg_dtype_size_bytes(exchange->dtype);
}

/* Returns the address of a region in a tensor. */
static char *place_of(const bgi_exchange *exchange, const void *tensor, const bgi_region *region)
{
    return (char *)(uintptr_t)tensor + region->first * bg_dtype_size_bytes(exchange->dtype);
}

/* Copies values between a region in a tensor and a buffer without gaps. */
static void copy_region(const bgi_exchange *exchange, const bgi_region *region, const void *tensor, char *buffer,
                        bool is_packed)
{
    const size_t element_bytes = bg_dtype_size_bytes(exchange->dtype), row_bytes = region->length * element_bytes;
    char *place = place_of(exchange, tensor, region);

    for (size_t row = 0; row < region->rows; row++, place += region->stride * element_bytes) {
        if (is_packed)
            memcpy(buffer + row * row_bytes, place, row_bytes);
        else
            memcpy(place, buffer + row * row_bytes, row_bytes);
    }
}

/* Whether the exchanges have the short form; all ranks compute the same answer. */
static bool is_short(const bgi_exchange *exchanges, uint32_t count, bool are_apart)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < count && are_apart; i++) {
        const bgi_pattern *pattern = &exchanges[i].pattern;
        if (pattern->kind != BGI_PATTERN_SUM || pattern->count > SHORT_BYTES || pattern->size > SHORT_MEMBERS)
            return false;
        bytes += pattern->count * bg_dtype_size_bytes(exchanges[i].dtype);
        if (bytes > SHORT_BYTES || bytes * (pattern->size - 2) > MORE_BYTES)
            return false;
    }
    return are_apart;
}

static bgi_pattern choose_pattern(const party *p, bgi_pattern own)
{
    if (p->is_short)
        own.kind = BGI_PATTERN_SUM_ALONE;
    return own;
}

/* Return the region that `member` takes of `from`, and the destination of a maker's result (pattern.h). */
static bgi_region find_taken(const party *p, uint32_t index, uint32_t member, uint32_t from)
{
    const bgi_pattern pattern = choose_pattern(p, p->exchanges[index].pattern);

    return bgi_pattern_take(&pattern, member, from);
}

static bgi_region find_put(const party *p, uint32_t index, uint32_t maker, uint32_t reader)
{
    const bgi_pattern pattern = choose_pattern(p, p->exchanges[index].pattern);

    return bgi_pattern_put(&pattern, maker, reader);
}

/* Whether no buffer is needed: there is a single tensor, and its region is contiguous. */
static bool is_plain(const party *p, const bgi_region *region)
{
    return p->count == 1 && region->rows == 1;
}

static bool reserve(ranks *r, char **room, size_t *capacity, size_t size_bytes)
{
    char *larger;

    if (size_bytes <= *capacity)
        return true;
    larger = bgi_aligned_reserve(64, bgi_align(size_bytes));
    if (larger == NULL) {
        bgi_ranks_lose(r, BG_ERROR_MEMORY, "out of memory for sums over ranks");
        return false;
    }
    free(*room);
    *room = larger;
    *capacity = size_bytes;
    return true;
}

/* Returns the offset of the next tensor's part in a buffer. Elements are summed in the buffer in which they arrive, so
 * parts are aligned for the largest type. */
static size_t begin_part(size_t end)
{
    const size_t mask = sizeof(double) - 1;

    return (end + mask) & ~mask;
}

/* Prepares the data that the share's member takes of this member: copies them without gaps, or sends them in place. In
 * the short form all members receive the same data, so one copy is enough. */
static bool pack_share(party *p, share *s)
{
    size_t at = 0;

    if (p->is_short && s != p->shares) {
        s->out_bytes = p->shares->out_bytes;
        s->out_data = p->shares->out_data;
        return true;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const bgi_region region = find_taken(p, i, s->member, p->member);
        at = begin_part(at) + bytes_of(&p->exchanges[i], &region);
        if (is_plain(p, &region))
            s->out_data = place_of(&p->exchanges[i], p->exchanges[i].from, &region);
        else
            s->out_data = NULL;
    }
    s->out_bytes = at;
    if (s->out_data != NULL || at == 0)
        return true;
    if (!reserve(p->of, &s->out_room, &s->out_capacity, at))
        return false;
    at = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const bgi_region region = find_taken(p, i, s->member, p->member);
        const size_t begin = begin_part(at);
        memset(s->out_room + at, 0, begin - at);
        copy_region(&p->exchanges[i], &region, p->exchanges[i].from, s->out_room + begin, true);
        at = begin + bytes_of(&p->exchanges[i], &region);
    }
    s->out_data = s->out_room;
    return true;
}

/* Allocates memory for what this member takes of the share's member. */
static bool make_room(party *p, share *s)
{
    size_t at = 0;

    if (!bgi_array_reserve((void **)&s->offsets, &s->offset_capacity, p->count, sizeof *s->offsets)) {
        bgi_ranks_lose(p->of, BG_ERROR_MEMORY, "out of memory for sums over ranks");
        return false;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const bgi_region region = find_taken(p, i, p->member, s->member);
        s->offsets[i] = begin_part(at);
        at = s->offsets[i] + bytes_of(&p->exchanges[i], &region);
    }
    s->in_bytes = at;
    return reserve(p->of, &s->in_room, &s->in_capacity, at);
}

/* Returns the bytes of the sums of `maker` that `reader` receives. */
static size_t count_sums(const party *p, uint32_t maker, uint32_t reader)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        const bgi_region region = find_put(p, i, maker, reader);
        if (bgi_pattern_sums(&p->exchanges[i].pattern))
            bytes += bytes_of(&p->exchanges[i], &region);
    }
    return bytes;
}

/* Copies a maker's sums between this member's tensors and a buffer. */
static void copy_sums(const party *p, uint32_t maker, uint32_t reader, char *buffer, bool is_packed)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const bgi_exchange *exchange = &p->exchanges[i];
        const bgi_region region = find_put(p, i, maker, reader);
        if (!bgi_pattern_sums(&exchange->pattern) || region.rows == 0)
            continue;
        copy_region(exchange, &region, exchange->to, buffer, is_packed);
        buffer += bytes_of(exchange, &region);
    }
}

/* Prepares this member's sums for their readers, and memory for the sums that it receives. All readers get the same
 * elements, so these are packed once. */
static bool pack_sum(party *p)
{
    const uint32_t reader = p->shares[0].member;
    bgi_region region;
    size_t most = 0;

    for (uint32_t i = 0; i < p->share_count; i++) {
        share *s = &p->shares[i];
        s->sum_out_bytes = count_sums(p, p->member, s->member);
        s->sum_in_bytes = count_sums(p, s->member, p->member);
        most = s->sum_out_bytes > most ? s->sum_out_bytes : most;
        s->sum_data = NULL;
        if (s->sum_in_bytes > 0 && p->count == 1) {
            const bgi_region put = find_put(p, 0, s->member, p->member);
            if (put.rows == 1)
                s->sum_data = place_of(&p->exchanges[0], p->exchanges[0].to, &put);
        }
        if (s->sum_in_bytes > 0 && s->sum_data == NULL &&
            !reserve(p->of, &s->sum_room, &s->sum_capacity, s->sum_in_bytes))
            return false;
    }
    if (most == 0)
        return true;
    region = find_put(p, 0, p->member, reader);
    if (is_plain(p, &region)) {
        p->sum_data = place_of(&p->exchanges[0], p->exchanges[0].to, &region);
        return true;
    }
    if (!reserve(p->of, &p->sum, &p->sum_capacity, most))
        return false;
    copy_sums(p, p->member, reader, p->sum, true);
    p->sum_data = p->sum;
    return true;
}

/* Counts the end of the exchange with a member, when no send or receive of the share is in progress. */
static void end_share(share *s)
{
    party *p = s->of;

    if (!s->is_delivered || s->pending > 0)
        return;
    s->is_delivered = false;
    come(p->of, &p->delivered, size_of(p));
}

static void begin_sum_in(share *s)
{
    if (!s->wants_sum || !s->out.is_done)
        return;
    s->wants_sum = false;
    bgi_ranks_begin(s->of->of, &s->sum_in, false, s->rank, s->tag_in, s->sum_data != NULL ? s->sum_data : s->sum_room,
                    s->sum_in_bytes);
}

/* Records the end of an operation for which this member waits before it sums. In the short form only this member uses
 * the counter, which then rises once, when all shares have ended. */
static void end_offer(share *s)
{
    party *p = s->of;

    if (--s->offering > 0)
        return;
    if (!p->is_short) {
        come(p->of, &p->offered, size_of(p));
    } else if (--p->offering == 0) {
        atomic_store(&p->offered.value, p->begun_offers * size_of(p)); /* sequentially consistent for `changed` */
        p->of->base.setup.events.changed(p->of->base.setup.events.user);
    }
}

/* Begins to send and receive the contributions. In the short form a member may write its sum to the memory from which
 * it sends, so it waits until the data have been sent. Short data are usually sent at once, and a copy would take
 * longer. All sends begin before the first receive, because the other members wait for them. */
static void begin_offer(party *p)
{
    p->offering = p->share_count;
    for (uint32_t i = 0; i < p->share_count; i++) {
        share *s = &p->shares[i];
        s->offering = 1 + (s->in_bytes > 0) + (p->is_short && s->out_bytes > 0);
        s->out.is_done = s->out_bytes == 0;
        if (s->out_bytes == 0)
            continue;
        s->pending++;
        bgi_ranks_begin(p->of, &s->out, true, s->rank, s->tag_out, (char *)(uintptr_t)s->out_data, s->out_bytes);
    }
    for (uint32_t i = 0; i < p->share_count; i++) {
        share *s = &p->shares[i];
        if (s->in_bytes > 0)
            bgi_ranks_begin(p->of, &s->in, false, s->rank, s->tag_in, s->in_room, s->in_bytes);
        end_offer(s);
    }
}

static void begin_delivery(party *p)
{
    for (uint32_t i = 0; i < p->share_count; i++) {
        share *s = &p->shares[i];
        s->is_delivered = true;
        if (s->sum_out_bytes > 0) {
            s->pending++;
            bgi_ranks_begin(p->of, &s->sum_out, true, s->rank, s->tag_out, (char *)(uintptr_t)p->sum_data,
                            s->sum_out_bytes);
        }
        if (s->sum_in_bytes > 0) {
            s->pending++;
            s->wants_sum = true;
            begin_sum_in(s);
        }
        end_share(s);
    }
}

static void handle_party(queued *item)
{
    party *p = (party *)item;

    if (p->begun_offers < atomic_load(&p->offers)) {
        p->begun_offers++;
        begin_offer(p);
    }
    if (p->begun_deliveries < atomic_load(&p->deliveries)) {
        p->begun_deliveries++;
        begin_delivery(p);
    }
}

static void end_share_in(ranks *r, operation *what)
{
    (void)r;
    end_offer(what->owner);
}

static void end_share_out(ranks *r, operation *what)
{
    share *s = what->owner;

    (void)r;
    s->pending--;
    if (s->of->is_short)
        end_offer(s);
    begin_sum_in(s);
    end_share(s);
}

static void end_sum_out(ranks *r, operation *what)
{
    share *s = what->owner;

    (void)r;
    s->pending--;
    end_share(s);
}

static void end_sum_in(ranks *r, operation *what)
{
    share *s = what->owner;

    (void)r;
    s->pending--;
    if (s->sum_data == NULL)
        copy_sums(s->of, s->member, s->of->member, s->sum_room, false);
    end_share(s);
}

size_t bgi_ranks_round_bytes(uint32_t size)
{
    return (size_t)size * ROUND_SHARE_BYTES;
}

bgi_meeting_bytes bgi_ranks_meeting_bytes(const bgi_exchange *exchanges, uint32_t count, uint32_t member,
                                          uint32_t other, bool are_apart)
{
    const party p = {
        .member = member, .exchanges = exchanges, .count = count, .is_short = is_short(exchanges, count, are_apart)};
    const size_t sum_out = count_sums(&p, member, other), sum_in = count_sums(&p, other, member);
    bool is_out_plain = true, is_sum_plain = true;
    size_t out = 0, in = 0;

    for (uint32_t i = 0; i < count; i++) {
        const bgi_region given = find_taken(&p, i, other, member), taken = find_taken(&p, i, member, other);
        const bgi_region put = find_put(&p, i, other, member);
        out = begin_part(out) + bytes_of(&exchanges[i], &given);
        in = begin_part(in) + bytes_of(&exchanges[i], &taken);
        is_out_plain = is_out_plain && is_plain(&p, &given);
        is_sum_plain = is_sum_plain && is_plain(&p, &put);
    }
    if (p.is_short)
        return (bgi_meeting_bytes){.sent = out, .room = in, .sums = is_out_plain ? 0 : out};
    return (bgi_meeting_bytes){.sent = out + sum_out,
                               .room = (is_out_plain ? 0 : out) + in + (is_sum_plain ? 0 : sum_in),
                               .sums = is_sum_plain ? 0 : sum_out};
}

/* ---- life ---- */

void bgi_ranks_free_party(party *p)
{
    for (uint32_t i = 0; p != NULL && i < p->share_count; i++) {
        free(p->shares[i].out_room);
        free(p->shares[i].in_room);
        free(p->shares[i].sum_room);
        free(p->shares[i].offsets);
    }
    if (p == NULL)
        return;
    free(p->shares);
    free(p->by_member);
    free(p->sum);
    free(p);
}

static bool open_share(ranks *r, party *p, uint32_t member)
{
    const bgi_group *group = &r->base.setup.groups[p->group];
    share *s = &p->shares[p->share_count++];

    *s = (share){.of = p,
                 .member = member,
                 .rank = bgi_ranks_owner(r, group->members[member]),
                 .tag_out = r->tags[p->group] + p->member * group->size + member,
                 .tag_in = r->tags[p->group] + member * group->size + p->member,
                 .out = {.end = end_share_out, .is_done = true},
                 .in = {.end = end_share_in},
                 .sum_out = {.end = end_sum_out},
                 .sum_in = {.end = end_sum_in}};
    s->out.owner = s->in.owner = s->sum_out.owner = s->sum_in.owner = s;
    p->by_member[member] = s;
    return true;
}

/* Whether each member is on a separate rank; false for groups with so many members that they never use the short
 * form. */
static bool are_apart(const ranks *r, const bgi_group *group)
{
    if (group->size > SHORT_MEMBERS)
        return false;
    for (uint32_t a = 0; a < group->size; a++)
        for (uint32_t b = 0; b < a; b++)
            if (bgi_ranks_owner(r, group->members[a]) == bgi_ranks_owner(r, group->members[b]))
                return false;
    return true;
}

bool bgi_ranks_open_party(ranks *r, uint32_t number, uint32_t member)
{
    const bgi_group *group = &r->base.setup.groups[number];
    party *p = bgi_aligned_allocate(BGI_CACHE_LINE_BYTES, sizeof *p);

    if (p == NULL)
        return false;
    r->parties[number][member] = p;
    p->item.handle = handle_party;
    p->of = r;
    p->group = number;
    p->member = member;
    p->device = group->members[member];
    p->are_apart = are_apart(r, group);
    p->shares = calloc(group->size, sizeof *p->shares);
    p->by_member = calloc(group->size, sizeof(share *));
    if (p->shares == NULL || p->by_member == NULL)
        return false;
    for (uint32_t m = 0; m < group->size; m++)
        if (!bgi_ranks_own(r, group->members[m]) && !open_share(r, p, m))
            return false;
    return true;
}

/* ---- for devices ---- */

bgi_wait bgi_ranks_offer(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                         uint32_t count)
{
    ranks *r = bgi_ranks_of(transport);
    const uint32_t size = transport->setup.groups[group].size;
    bool is_ready = true;
    uint64_t number;
    party *p;

    if (r->parties[group] == NULL)
        return r->threads->type->offer(r->threads, group, member, exchanges, count);
    p = r->parties[group][member];
    number = atomic_load_explicit(&p->offers, memory_order_relaxed) + 1;
    p->exchanges = exchanges;
    p->count = count;
    p->is_short = is_short(exchanges, count, p->are_apart);
    for (uint32_t i = 0; i < p->share_count && is_ready; i++)
        is_ready = pack_share(p, &p->shares[i]) && make_room(p, &p->shares[i]);
    if (is_ready) {
        if (!p->is_short)
            come_to_all(p, false);
        atomic_store_explicit(&p->offers, number,
                              memory_order_release); /* the queue orders this store before the mover's load */
        bgi_ranks_kick(r, &p->item);
    }
    return (bgi_wait){&p->offered, number * size};
}

bgi_pattern bgi_ranks_pattern(bgi_transport *transport, uint32_t group, uint32_t member, bgi_pattern own)
{
    ranks *r = bgi_ranks_of(transport);

    return r->parties[group] == NULL ? own : choose_pattern(r->parties[group][member], own);
}

bgi_strip bgi_ranks_contribution(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t from,
                                 uint32_t index)
{
    ranks *r = bgi_ranks_of(transport);
    const party *p, *other;
    const bgi_exchange *exchange;
    bgi_region region;

    if (r->parties[group] == NULL)
        return r->threads->type->contribution(r->threads, group, member, from, index);
    p = r->parties[group][member];
    other = r->parties[group][from];
    exchange = other != NULL ? &other->exchanges[index] : &p->exchanges[index];
    region = find_taken(p, index, member, from);
    if (other != NULL)
        return (bgi_strip){place_of(exchange, exchange->from, &region),
                           region.stride * bg_dtype_size_bytes(exchange->dtype)};
    return (bgi_strip){p->by_member[from]->in_room + p->by_member[from]->offsets[index],
                       region.length * bg_dtype_size_bytes(exchange->dtype)};
}

bgi_strip bgi_ranks_result(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t reader, uint32_t index)
{
    ranks *r = bgi_ranks_of(transport);
    const party *other;
    const bgi_exchange *exchange;
    bgi_region region;

    if (r->parties[group] == NULL)
        return r->threads->type->result(r->threads, group, member, reader, index);
    other = r->parties[group][reader];
    if (other == NULL)
        return (bgi_strip){NULL, 0};
    exchange = &other->exchanges[index];
    region = find_put(other, index, member, reader);
    return (bgi_strip){place_of(exchange, exchange->to, &region), region.stride * bg_dtype_size_bytes(exchange->dtype)};
}

/* Ends a collective operation of the short form: all messages were sent before the sums, and none follows. Only this
 * member uses the counter. */
static void deliver_short(party *p, uint64_t number)
{
    p->begun_deliveries = number;
    atomic_store_explicit(&p->deliveries, number, memory_order_relaxed);
    atomic_store_explicit(&p->delivered.value, number * size_of(p), memory_order_release);
}

bgi_wait bgi_ranks_deliver(bgi_transport *transport, uint32_t group, uint32_t member)
{
    ranks *r = bgi_ranks_of(transport);
    uint64_t number;
    party *p;

    if (r->parties[group] == NULL)
        return r->threads->type->deliver(r->threads, group, member);
    p = r->parties[group][member];
    number = atomic_load_explicit(&p->deliveries, memory_order_relaxed) + 1;
    if (p->is_short) {
        deliver_short(p, number);
    } else if (pack_sum(p)) {
        come_to_all(p, true);
        atomic_store(&p->deliveries, number);
        bgi_ranks_kick(r, &p->item);
    }
    return (bgi_wait){&p->delivered, number * transport->setup.groups[group].size};
}

bgi_counter *bgi_ranks_meeting(bgi_transport *transport, uint32_t group, uint32_t member, bool is_delivery)
{
    ranks *r = bgi_ranks_of(transport);
    party *p;

    if (r->parties[group] == NULL)
        return r->threads->type->meeting(r->threads, group, member, is_delivery);
    p = r->parties[group][member];
    if (p == NULL)
        return NULL;
    return is_delivery ? &p->delivered : &p->offered;
}
