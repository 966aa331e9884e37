/*
 * ranks.c: creates and destroys a transport between several ranks, and has the functions that devices call. See
 * ranks.h; rank_parts.h has the internals.
 */
#include <stdlib.h>

#include "core/arena.h"
#include "core/error.h"
#include "transport/rank_parts.h"

/* ---- life ---- */

static void free_pieces(piece *first)
{
    for (piece *p = first, *next; p != NULL; p = next) {
        next = p->next;
        free(p);
    }
}

static void destroy(bgi_transport *transport)
{
    ranks *r = bgi_ranks_of(transport);

    if (transport == NULL)
        return;
    if (r->lane != NULL)
        r->carrier->close(r->carrier->user, r->lane);
    for (uint32_t l = 0; r->channels != NULL && l < transport->setup.link_count; l++) {
        free(r->channels[l].windows);
        free(r->channels[l].slots);
    }
    for (uint32_t g = 0; r->parties != NULL && g < transport->setup.group_count; g++) {
        for (uint32_t m = 0; r->parties[g] != NULL && m < transport->setup.groups[g].size; m++)
            bgi_ranks_free_party(r->parties[g][m]);
        free(r->parties[g]);
    }
    for (uint32_t i = 0; r->peers != NULL && i < r->carrier->rank_count; i++) {
        free(r->peers[i].waiting);
        free(r->peers[i].parcels);
    }
    free_pieces(r->free_pieces);
    free_pieces(r->fetches);
    free((void *)r->pending);
    free(r->early);
    free(r->peers);
    free(r->tags);
    free(r->parties);
    free(r->channels);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->moving);
    if (r->threads != NULL)
        r->threads->type->destroy(r->threads);
    free(r);
}

static bool open_channel(ranks *r, uint32_t number)
{
    const bgi_link *link = &r->base.setup.links[number];
    const bool begins_here = bgi_ranks_own(r, link->from), ends_here = bgi_ranks_own(r, link->to);
    channel *c = &r->channels[number];

    if (begins_here == ends_here)
        return true;
    c->item.handle = bgi_ranks_handle_channel;
    c->of = r;
    c->link = number;
    c->is_out = begins_here;
    c->rank = bgi_ranks_owner(r, begins_here ? link->to : link->from);
    r->peers[c->rank].is_near = true;
    c->slots = calloc(link->depth, sizeof *c->slots);
    if (begins_here)
        c->windows = bgi_aligned_reserve(64, bgi_align(link->depth * link->slot_bytes));
    if (c->slots == NULL || (begins_here && c->windows == NULL))
        return false;
    for (uint32_t i = 0; i < link->depth; i++)
        c->slots[i] = (operation){.end = bgi_ranks_end_message, .is_done = true, .owner = c};
    if (!begins_here)
        bgi_ranks_push(r, &c->item);
    return true;
}

static bool open_group(ranks *r, uint32_t number)
{
    const bgi_group *group = &r->base.setup.groups[number];
    uint32_t here = 0;

    for (uint32_t m = 0; m < group->size; m++)
        here += bgi_ranks_own(r, group->members[m]);
    if (here == 0 || here == group->size)
        return true;
    r->parties[number] = calloc(group->size, sizeof(party *));
    if (r->parties[number] == NULL)
        return false;
    for (uint32_t m = 0; m < group->size; m++)
        if (!bgi_ranks_own(r, group->members[m]))
            r->peers[bgi_ranks_owner(r, group->members[m])].is_near = true;
        else if (!bgi_ranks_open_party(r, number, m))
            return false;
    return true;
}

static bool open_peer(ranks *r, uint32_t rank)
{
    peer *p = &r->peers[rank];

    p->rank = rank;
    if (rank == r->carrier->rank ||
        r->base.setup.device_count == 0) /* this rank itself, and ranks without devices, get no notes */
        return true;
    p->out_count = p->is_near ? PARCELS_OUT : 1;
    p->in_count = p->is_near ? PARCELS_IN : 1;
    p->parcels = calloc((size_t)p->out_count + p->in_count, sizeof *p->parcels);
    if (p->parcels == NULL)
        return false;
    for (uint32_t i = 0; i < p->out_count; i++)
        p->out[i] = (operation){.is_done = true, .owner = p};
    for (uint32_t i = 0; i < p->in_count; i++) {
        p->in[i] = (operation){.end = bgi_ranks_open_parcels, .owner = p};
        bgi_ranks_begin(r, &p->in[i], false, rank, NOTE_TAG, &p->parcels[p->out_count + i], sizeof *p->parcels);
    }
    return true;
}

/* Numbers the tags of messages: first those of the host and of notes, which every plan has, then links, pairs of
 * members, and pieces by device. */
static bg_status number_tags(ranks *r, bg_error *error)
{
    const bgi_transport_setup *setup = &r->base.setup;
    uint64_t next = FIRST_LINK_TAG + setup->link_count;

    for (uint32_t g = 0; g < setup->group_count; g++) {
        r->tags[g] = (uint32_t)next;
        next += (uint64_t)setup->groups[g].size * setup->groups[g].size;
        if (next > UINT32_MAX)
            break;
    }
    r->piece_tag = (uint32_t)next;
    next += setup->device_count;
    if (next > r->carrier->tag_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan has %u links and %u groups of devices between ranks, for which it needs %llu "
                            "tags; %s has %u",
                            setup->link_count, setup->group_count, (unsigned long long)next, r->carrier->name,
                            r->carrier->tag_count);
    return BG_OK;
}

static bg_status open_all(ranks *r, bg_error *error)
{
    const bgi_transport_setup *setup = &r->base.setup;
    bool is_open;

    r->channels = bgi_aligned_allocate(BGI_CACHE_LINE_BYTES, (setup->link_count + 1) * sizeof *r->channels);
    r->parties = calloc((size_t)setup->group_count + 1, sizeof(party **));
    r->tags = calloc((size_t)setup->group_count + 1, sizeof *r->tags);
    r->peers = calloc(r->carrier->rank_count, sizeof *r->peers);
    r->pending = calloc((size_t)setup->device_count + 1, sizeof *r->pending);
    is_open = r->channels != NULL && r->parties != NULL && r->tags != NULL && r->peers != NULL && r->pending != NULL;
    if (!is_open)
        return bgi_error_memory(error, "links between ranks", setup->link_count * sizeof *r->channels);
    BGI_TRY(number_tags(r, error));
    BGI_TRY(r->carrier->open(r->carrier->user, &r->lane, error));
    for (uint32_t l = 0; is_open && l < setup->link_count; l++)
        is_open = open_channel(r, l);
    for (uint32_t g = 0; is_open && g < setup->group_count; g++)
        is_open = open_group(r, g);
    for (uint32_t i = 0; is_open && i < r->carrier->rank_count; i++)
        is_open = open_peer(r, i);
    return is_open ? BG_OK : bgi_error_memory(error, "links between ranks", setup->link_count * sizeof *r->channels);
}

static bg_status create(const bgi_transport_setup *setup, bgi_transport **out, bg_error *error)
{
    ranks *r = calloc(1, sizeof *r);
    bg_status status;

    if (r == NULL)
        return bgi_error_memory(error, "a transport", sizeof *r);
    r->base.type = &bgi_transport_ranks;
    r->base.setup = *setup;
    r->carrier = setup->ranks->carrier;
    r->last = &r->fetches;
    r->caller = pthread_self();
    pthread_mutex_init(&r->moving, NULL);
    pthread_mutex_init(&r->mutex, NULL);
    status = bgi_transport_threads.create(setup, &r->threads, error);
    if (status == BG_OK)
        status = open_all(r, error);
    if (status != BG_OK) {
        destroy(&r->base);
        return status;
    }
    *out = &r->base;
    return BG_OK;
}

/* ---- for devices ---- */

static bool crosses(const ranks *r, uint32_t link)
{
    return r->channels[link].of != NULL;
}

static void *window(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    ranks *r = bgi_ranks_of(transport);

    return crosses(r, link) ? bgi_ranks_slot(r, &r->channels[link], sequence)
                            : r->threads->type->window(r->threads, link, sequence);
}

static bgi_counter *credit(bgi_transport *transport, uint32_t link)
{
    ranks *r = bgi_ranks_of(transport);

    return crosses(r, link) && r->channels[link].is_out ? &r->channels[link].counter
                                                        : r->threads->type->credit(r->threads, link);
}

static bgi_counter *arrived(bgi_transport *transport, uint32_t link)
{
    ranks *r = bgi_ranks_of(transport);

    return crosses(r, link) && !r->channels[link].is_out ? &r->channels[link].counter
                                                         : r->threads->type->arrived(r->threads, link);
}

static uint64_t ask(ranks *r, channel *c, uint64_t sequence)
{
    const uint64_t due = atomic_load_explicit(&c->asked, memory_order_relaxed);

    if (due == sequence) {
        atomic_store(&c->asked, due + 1);
        bgi_ranks_kick(r, &c->item);
    }
    return due;
}

static uint64_t post(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    ranks *r = bgi_ranks_of(transport);

    return crosses(r, link) ? ask(r, &r->channels[link], sequence) : r->threads->type->post(r->threads, link, sequence);
}

static uint64_t release(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    ranks *r = bgi_ranks_of(transport);

    return crosses(r, link) ? ask(r, &r->channels[link], sequence)
                            : r->threads->type->release(r->threads, link, sequence);
}

/* Returns the bytes of a round; SIZE_MAX if all members are on this rank, because nothing is copied. */
static size_t round_bytes(const bgi_transport *transport, uint32_t group)
{
    return ((const ranks *)transport)->parties[group] != NULL
               ? bgi_ranks_round_bytes(transport->setup.groups[group].size)
               : SIZE_MAX;
}

static void fetch(bgi_transport *transport, uint32_t device, uint32_t from, size_t offset, void *to, size_t size_bytes)
{
    ranks *r = bgi_ranks_of(transport);
    piece *p;

    if (bgi_ranks_own(r, from)) {
        r->threads->type->fetch(r->threads, device, from, offset, to, size_bytes);
        return;
    }
    p = bgi_ranks_take_piece(r, bgi_ranks_end_piece_in);
    if (p == NULL)
        return;
    p->device = device;
    p->from = from;
    p->offset = offset;
    p->size_bytes = size_bytes;
    p->to = to;
    atomic_fetch_add(&r->pending[device], 1);
    pthread_mutex_lock(&r->mutex);
    *r->last = p;
    r->last = &p->next;
    atomic_fetch_add(&r->fetch_count, 1);
    pthread_mutex_unlock(&r->mutex);
    bgi_ranks_move(r, false);
}

static bool fetched(bgi_transport *transport, uint32_t device)
{
    return atomic_load(&bgi_ranks_of(transport)->pending[device]) == 0;
}

static uint32_t rank_of(const ranks *r, uint32_t to)
{
    if (to == BGI_HOST)
        return r->carrier->rank;
    return to < r->base.setup.device_count ? bgi_ranks_owner(r, to) : BGI_HOST - 1 - to;
}

static void tell(bgi_transport *transport, uint32_t to, const bgi_note *note)
{
    ranks *r = bgi_ranks_of(transport);
    const uint32_t rank = rank_of(r, to);

    if (rank == r->carrier->rank) {
        transport->setup.events.told(transport->setup.events.user, to, note);
        return;
    }
    bgi_ranks_add_note(r, rank,
                       &(wire_note){.kind = note->kind,
                                    .to = to,
                                    .from = note->from,
                                    .run = atomic_load(&r->run),
                                    .value = note->value,
                                    .more = note->more});
    bgi_ranks_move(r, false);
}

static bool progress(bgi_transport *transport)
{
    return bgi_ranks_move(bgi_ranks_of(transport), true);
}

static bool needs_caller(const bgi_transport *transport)
{
    return !((const ranks *)transport)->carrier->takes_any_thread;
}

const bgi_transport_type bgi_transport_ranks = {.name = "ranks",
                                                .create = create,
                                                .destroy = destroy,
                                                .window = window,
                                                .credit = credit,
                                                .arrived = arrived,
                                                .post = post,
                                                .release = release,
                                                .offer = bgi_ranks_offer,
                                                .pattern = bgi_ranks_pattern,
                                                .contribution = bgi_ranks_contribution,
                                                .result = bgi_ranks_result,
                                                .deliver = bgi_ranks_deliver,
                                                .round_bytes = round_bytes,
                                                .meeting = bgi_ranks_meeting,
                                                .fetch = fetch,
                                                .fetched = fetched,
                                                .tell = tell,
                                                .progress = progress,
                                                .begin = bgi_ranks_begin_run,
                                                .finish = bgi_ranks_finish,
                                                .give_up = bgi_ranks_give_up,
                                                .needs_caller = needs_caller};
