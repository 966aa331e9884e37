/*
 * rank_moves.c: implements all communication between ranks except collective operations: sends and receives of the
 * carrier, notes, messages of links, and pieces of stores. It has the mover, which begins and ends the sends and
 * receives.
 */
#include "transport/rank_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/clock.h"

enum { DONE_AT_ONCE = 32, MOST_EAGER = 8 /* the largest number of eager messages of an operation */ };

void bgi_ranks_lose(ranks *r, bg_status status, const char *why)
{
    if (bgi_ranks_note_lost(r, status, why))
        r->base.setup.events.lost(r->base.setup.events.user, status, why);
}

bool bgi_ranks_note_lost(ranks *r, bg_status status, const char *why)
{
    if (atomic_exchange(&r->is_losing, true))
        return false;
    r->lost_status = status;
    snprintf(r->lost_why, sizeof r->lost_why, "%s", why);
    atomic_store(&r->is_lost, true);
    return true;
}

/* ---- operations ---- */

/* Returns the size of the messages into which an operation is cut. A message that its receiver must request takes
 * longer than several messages that are sent at once. A parcel of notes may be shorter than its buffer, so it is never
 * cut. */
static size_t choose_message_bytes(const bg_transport *carrier, uint32_t tag, size_t size_bytes)
{
    const bool is_worth_it = size_bytes > carrier->eager_bytes && (size_bytes - 1) / MOST_EAGER < carrier->eager_bytes;

    return carrier->eager_bytes > 0 && is_worth_it && tag != NOTE_TAG ? carrier->eager_bytes : carrier->message_bytes;
}

/* Begins all messages of an operation. */
void bgi_ranks_begin(ranks *r, operation *what, bool is_send, uint32_t rank, uint32_t tag, void *data,
                     size_t size_bytes)
{
    const bg_transport *carrier = r->carrier;
    const size_t most = choose_message_bytes(carrier, tag, size_bytes);
    bg_status status = BG_OK;
    bg_error error; /* the struct is large, so it is not zeroed for each operation */
    size_t at = 0;

    bg_error_clear(&error);
    what->is_done = false;
    what->messages_left = (uint32_t)((size_bytes + most - 1) / most);
    while (at < size_bytes && status == BG_OK) {
        const size_t bytes = size_bytes - at < most ? size_bytes - at : most;
        status = is_send ? carrier->send(carrier->user, r->lane, rank, tag, (char *)data + at, bytes, what, &error)
                         : carrier->receive(carrier->user, r->lane, rank, tag, (char *)data + at, bytes, what, &error);
        at += bytes;
    }
    if (status != BG_OK) {
        char why[WHY_BYTES];
        snprintf(why, sizeof why, "rank %u: %.400s", rank, error.message);
        bgi_ranks_lose(r, status, why);
    }
}

void bgi_ranks_push(ranks *r, queued *item)
{
    queued *head;

    if (atomic_exchange(&item->is_queued, true))
        return;
    head = atomic_load(&r->queue);
    do
        item->next = head;
    while (!atomic_compare_exchange_weak(&r->queue, &head, item));
}

/* ---- notes ---- */

void bgi_ranks_add_note(ranks *r, uint32_t rank, const wire_note *note)
{
    peer *to = &r->peers[rank];

    pthread_mutex_lock(&r->mutex);
    if (bgi_array_reserve((void **)&to->waiting, &to->waiting_capacity, to->waiting_count + 1, sizeof *note)) {
        to->waiting[to->waiting_count++] = *note;
        atomic_fetch_add(&r->note_count, 1);
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    pthread_mutex_unlock(&r->mutex);
    bgi_ranks_lose(r, BG_ERROR_MEMORY, "out of memory for notes to other ranks");
}

static void flush(ranks *r, peer *to)
{
    for (uint32_t i = 0; i < to->out_count && to->waiting_count > 0; i++) {
        parcel *p = &to->parcels[i];
        if (!to->out[i].is_done)
            continue;
        p->count = to->waiting_count < NOTES_IN_ALL ? to->waiting_count : NOTES_IN_ALL;
        memcpy(p->notes, to->waiting, p->count * sizeof *p->notes);
        to->waiting_count -= p->count;
        memmove(to->waiting, to->waiting + p->count, to->waiting_count * sizeof *p->notes);
        atomic_fetch_sub(&r->note_count, (uint32_t)p->count);
        bgi_ranks_begin(r, &to->out[i], true, to->rank, NOTE_TAG, p,
                        offsetof(parcel, notes) + p->count * sizeof *p->notes);
    }
}

static void flush_all(ranks *r)
{
    if (atomic_load(&r->note_count) == 0)
        return;
    pthread_mutex_lock(&r->mutex);
    for (uint32_t i = 0; i < r->carrier->rank_count; i++)
        flush(r, &r->peers[i]);
    pthread_mutex_unlock(&r->mutex);
}

/* Whether the note must wait until its run has begun on this rank: before that, the gate is reset and stores are
 * filled. */
static bool is_early(const ranks *r, const wire_note *note)
{
    const bool is_of_run = note->kind == BGI_NOTE_ASK || note->kind == BGI_NOTE_VOTE || note->kind == BGI_NOTE_GRANT ||
                           note->kind == BGI_NOTE_READY || note->kind == BGI_NOTE_STOP || note->kind == NOTE_FETCH;

    return is_of_run && note->run > atomic_load(&r->run);
}

static void keep_early(ranks *r, const wire_note *note)
{
    if (bgi_array_reserve((void **)&r->early, &r->early_capacity, r->early_count + 1, sizeof *r->early))
        r->early[r->early_count++] = *note;
    else
        bgi_ranks_lose(r, BG_ERROR_MEMORY, "out of memory for notes of other ranks");
}

static void pass_on(ranks *r, const wire_note *note)
{
    const bgi_note passed = {.kind = note->kind, .from = note->from, .value = note->value, .more = note->more};

    r->base.setup.events.told(r->base.setup.events.user, note->to, &passed);
}

static void raise_counter(ranks *r, bgi_counter *counter, uint64_t value, uint32_t device)
{
    if (atomic_load(&counter->value) != value)
        r->base.setup.events.raise(r->base.setup.events.user, counter, value, device);
}

static void raise_credit(ranks *r, channel *c)
{
    raise_counter(r, &c->counter, c->released < c->done ? c->released : c->done, r->base.setup.links[c->link].from);
}

/* ---- messages ---- */

void *bgi_ranks_slot(const ranks *r, const channel *c, uint64_t sequence)
{
    const bgi_link *link = &r->base.setup.links[c->link];
    const size_t offset = (size_t)(sequence % link->depth) * link->slot_bytes;

    return c->is_out ? c->windows + offset : r->base.setup.devices[link->to]->arena + link->offset + offset;
}

/* Sends posted messages, and offers released slots to the sender. */
void bgi_ranks_handle_channel(queued *item)
{
    channel *c = (channel *)item;
    ranks *r = c->of;
    const bgi_link *link = &r->base.setup.links[c->link];
    const uint64_t asked = atomic_load(&c->asked), end = c->is_out ? asked : asked + link->depth;

    for (; c->begun < end; c->begun++)
        bgi_ranks_begin(r, &c->slots[c->begun % link->depth], c->is_out, c->rank, FIRST_LINK_TAG + c->link,
                        bgi_ranks_slot(r, c, c->begun), link->slot_bytes);
    if (!c->is_out && asked > c->released) {
        c->released = asked;
        bgi_ranks_add_note(r, c->rank, &(wire_note){.kind = NOTE_CREDIT, .place = c->link, .value = asked});
    }
}

void bgi_ranks_end_message(ranks *r, operation *last)
{
    channel *c = last->owner;
    const bgi_link *link = &r->base.setup.links[c->link];

    while (c->done < c->begun && c->slots[c->done % link->depth].is_done)
        c->done++;
    if (c->is_out)
        raise_credit(r, c);
    else
        raise_counter(r, &c->counter, c->done, link->to);
}

/* ---- pieces of stores ---- */

static void keep_piece(ranks *r, piece *p)
{
    pthread_mutex_lock(&r->mutex);
    p->next = r->free_pieces;
    r->free_pieces = p;
    pthread_mutex_unlock(&r->mutex);
}

static void end_piece_out(ranks *r, operation *what)
{
    keep_piece(r, what->owner);
}

void bgi_ranks_end_piece_in(ranks *r, operation *what)
{
    piece *p = what->owner;

    atomic_fetch_sub(&r->pending[p->device], 1);
    r->base.setup.events.changed(r->base.setup.events.user);
    keep_piece(r, p);
}

/* Returns an unused piece; NULL when memory is out, and all ranks then fail. */
piece *bgi_ranks_take_piece(ranks *r, void (*end)(ranks *r, operation *what))
{
    piece *p;

    pthread_mutex_lock(&r->mutex);
    p = r->free_pieces;
    if (p != NULL)
        r->free_pieces = p->next;
    pthread_mutex_unlock(&r->mutex);
    if (p == NULL)
        p = calloc(1, sizeof *p);
    if (p == NULL)
        bgi_ranks_lose(r, BG_ERROR_MEMORY, "out of memory for pieces of remote stores");
    else
        *p = (piece){.operation = {.end = end, .owner = p}};
    return p;
}

static void send_piece(ranks *r, const wire_note *note)
{
    piece *p = bgi_ranks_take_piece(r, end_piece_out);

    if (p != NULL)
        bgi_ranks_begin(r, &p->operation, true, bgi_ranks_owner(r, note->from), r->piece_tag + note->from,
                        r->base.setup.devices[note->to]->store + note->value, (size_t)note->more);
}

/* Begins fetches in the order of their requests, which is the order of the replies. */
static void begin_fetches(ranks *r)
{
    piece *first;

    if (atomic_load(&r->fetch_count) == 0 || atomic_exchange(&r->fetch_count, 0) == 0)
        return;
    pthread_mutex_lock(&r->mutex);
    first = r->fetches;
    r->fetches = NULL;
    r->last = &r->fetches;
    pthread_mutex_unlock(&r->mutex);
    for (piece *p = first, *next; p != NULL; p = next) {
        next = p->next;
        bgi_ranks_begin(r, &p->operation, false, bgi_ranks_owner(r, p->from), r->piece_tag + p->device, p->to,
                        p->size_bytes);
        bgi_ranks_add_note(r, bgi_ranks_owner(r, p->from),
                           &(wire_note){.kind = NOTE_FETCH,
                                        .to = p->from,
                                        .from = p->device,
                                        .run = atomic_load(&r->run),
                                        .value = p->offset,
                                        .more = p->size_bytes});
    }
}

/* ---- notes that arrived ---- */

static void take_text(ranks *r, peer *from, const wire_note *note)
{
    const uint64_t words[] = {note->run, note->value, note->more};

    if (from->why_length + sizeof words < sizeof from->why) {
        memcpy(from->why + from->why_length, words, sizeof words);
        from->why_length += sizeof words;
    }
    if (note->place == 0)
        return;
    from->why[from->why_length] = '\0';
    bgi_ranks_lose(r, (bg_status)note->place, from->why);
}

void bgi_ranks_take_note(ranks *r, peer *from, const wire_note *note)
{
    if (is_early(r, note)) {
        keep_early(r, note);
        return;
    }
    switch (note->kind) {
    case NOTE_CREDIT:
        r->channels[note->place].released = note->value;
        raise_credit(r, &r->channels[note->place]);
        break;
    case NOTE_FETCH:
        send_piece(r, note);
        break;
    case NOTE_ENDED:
        from->ended = note->value;
        from->wanted = note->more;
        break;
    case NOTE_TEXT:
        take_text(r, from, note);
        break;
    case NOTE_WAITING:
        atomic_store(&from->alive_ns, bgi_clock_ns());
        break;
    case BGI_NOTE_ALIVE:
        atomic_store(&from->alive_ns, bgi_clock_ns());
        pass_on(r, note);
        break;
    default:
        pass_on(r, note);
    }
}

static void add_heard(ranks *r, uint64_t count)
{
    if (count > 0)
        atomic_store_explicit(&r->heard, atomic_load_explicit(&r->heard, memory_order_relaxed) + count,
                              memory_order_release);
}

/* Opens parcels in the order in which they were sent. */
void bgi_ranks_open_parcels(ranks *r, operation *last)
{
    peer *from = last->owner;
    uint64_t heard = 0;

    while (from->in[from->next_in].is_done) {
        operation *what = &from->in[from->next_in];
        parcel *p = &from->parcels[from->out_count + from->next_in];
        for (uint64_t i = 0; i < p->count && i < NOTES_IN_ALL; i++) {
            bgi_ranks_take_note(r, from, &p->notes[i]);
            heard += p->notes[i].kind != NOTE_WAITING;
        }
        from->next_in = (from->next_in + 1) % from->in_count;
        bgi_ranks_begin(r, what, false, from->rank, NOTE_TAG, p, sizeof *p);
    }
    add_heard(r, heard);
}

/* ---- moving ---- */

/* Whether the end of one of the operation's messages counts as progress. The notes of a parcel count when it is opened,
 * and parcels that were sent do not count: a rank may send them while nothing else proceeds. */
static bool is_progress(const operation *what)
{
    return what->end != NULL && what->end != bgi_ranks_open_parcels;
}

static void end_operation(ranks *r, operation *what)
{
    if (--what->messages_left > 0)
        return;
    what->is_done = true;
    if (what->end != NULL)
        what->end(r, what);
}

static void take_queue(ranks *r)
{
    queued *item = atomic_load(&r->queue) != NULL ? atomic_exchange(&r->queue, NULL) : NULL;

    while (item != NULL) {
        queued *next = item->next;
        atomic_store(&item->is_queued, false); /* later changes queue the object again */
        item->handle(item);
        item = next;
    }
}

static bool poll_all(ranks *r)
{
    const bg_transport *carrier = r->carrier;
    void *operations[DONE_AT_ONCE];
    uint32_t count = 0;
    uint64_t heard = 0;
    bool has_moved = false;
    bg_error error;

    bg_error_clear(&error);
    do {
        const bg_status status = carrier->poll(carrier->user, r->lane, operations, DONE_AT_ONCE, &count, &error);
        if (status != BG_OK) {
            bgi_ranks_lose(r, status, error.message);
            return true;
        }
        for (uint32_t i = 0; i < count; i++) {
            heard += is_progress(operations[i]);
            end_operation(r, operations[i]);
        }
        has_moved |= count > 0;
    } while (count == DONE_AT_ONCE);
    add_heard(r, heard);
    return has_moved;
}

static bool may_move(const ranks *r)
{
    return !atomic_load(&r->is_lost) &&
           (r->carrier->takes_any_thread || pthread_equal(pthread_self(), atomic_load(&r->caller)));
}

/* Moves data, unless another thread does: this mover checks the queue once more when it is done. */
bool bgi_ranks_move(ranks *r, bool polls)
{
    bool has_moved = false;

    do {
        if (!may_move(r) || pthread_mutex_trylock(&r->moving) != 0)
            return has_moved;
        take_queue(r);
        begin_fetches(r);
        flush_all(r);
        if (polls && poll_all(r)) {
            has_moved = true;
            take_queue(r);
            flush_all(r);
        }
        pthread_mutex_unlock(&r->moving);
    } while (atomic_load(&r->queue) != NULL);
    return has_moved;
}

/* Handles a changed object, or leaves it to the thread that moves data. */
void bgi_ranks_kick(ranks *r, queued *item)
{
    if (!may_move(r) || pthread_mutex_trylock(&r->moving) != 0) {
        bgi_ranks_push(r, item);
        bgi_ranks_move(r, false);
        return;
    }
    item->handle(item);
    begin_fetches(r);
    flush_all(r);
    pthread_mutex_unlock(&r->moving);
    if (atomic_load(&r->queue) != NULL)
        bgi_ranks_move(r, false);
}
