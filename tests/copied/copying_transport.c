/*
 * copying_transport.c: parcels in transit, and the effects of their arrival.
 */
#include "copied/copying_transport.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { MOST_DELAY = 40, GONE = 0xfb };

typedef enum parcel_kind { MESSAGE, CREDIT, OFFER, RESULT, PIECE, NOTE } parcel_kind;

/* An item in transit. Parcels of one kind between the same two ends arrive in order. */
typedef struct parcel {
    parcel_kind kind;
    uint32_t of, from, to; /* of: the link, the group, or 0; from, to: members of the group, otherwise devices */
    uint32_t delay;        /* remaining calls of progress */
    uint64_t number;       /* of a message */
    void **buffers;        /* OFFER, RESULT: for each exchange; NULL if the receiver gets no data in it */
    uint32_t buffer_count;
    void *content; /* MESSAGE */
    size_t offset, size_bytes;
    void *target; /* PIECE */
    bgi_note note;
    struct parcel *next;
} parcel;

typedef struct channel {
    bgi_counter credit, arrived;
    uint64_t posted, released;
    char *windows; /* the sender's messages: as many slots as the link has */
} channel;

/* A member's side of a group. */
typedef struct party {
    bgi_counter offered, delivered;
    uint64_t meetings;
    const bgi_exchange *exchanges;
    uint32_t count;
    void ***contributions; /* [from][exchange] */
    uint32_t *contribution_counts;
    void ***results; /* [reader][exchange] */
} party;

typedef struct copying {
    bgi_transport base;
    channel *channels;
    party **parties;           /* for each group and member */
    _Atomic uint32_t *pending; /* for each device: pieces in transit */
    pthread_mutex_t moving;    /* one thread at a time delivers parcels */
    pthread_mutex_t mutex;
    parcel *first; /* guarded by the mutex, because any thread may send a note */
    uint64_t random;
} copying;

static uint64_t next_seed = 1;
static _Atomic uint64_t total_bytes;

void test_transport_seed(uint64_t seed)
{
    next_seed = seed;
}

uint64_t test_transport_bytes(void)
{
    return atomic_load(&total_bytes);
}

static copying *of(bgi_transport *transport)
{
    return (copying *)transport;
}

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

static void free_buffers(void **buffers, uint32_t count)
{
    for (uint32_t i = 0; buffers != NULL && i < count; i++)
        free(buffers[i]);
    free(buffers);
}

static void free_parcel(parcel *p)
{
    free_buffers(p->buffers, p->buffer_count);
    free(p->content);
    free(p);
}

/* ---- parcels ---- */

static void send(copying *c, parcel what)
{
    parcel *p = take(1, sizeof *p), **last = &c->first;

    *p = what;
    p->next = NULL;
    pthread_mutex_lock(&c->mutex);
    c->random = c->random * 6364136223846793005u + 1442695040888963407u;
    p->delay = (uint32_t)(c->random >> 33) % MOST_DELAY;
    while (*last != NULL)
        last = &(*last)->next;
    *last = p;
    pthread_mutex_unlock(&c->mutex);
}

static bool is_behind(const copying *c, const parcel *p)
{
    for (const parcel *before = c->first; before != p; before = before->next)
        if (before->kind == p->kind && before->of == p->of && before->from == p->from && before->to == p->to)
            return true;
    return false;
}

/* Removes the next parcel that has arrived. With `moves`, first brings every parcel's arrival nearer by one call. */
static parcel *take_arrived(copying *c, bool moves)
{
    parcel *found = NULL;

    pthread_mutex_lock(&c->mutex);
    for (parcel *p = c->first; moves && p != NULL; p = p->next)
        p->delay -= p->delay > 0;
    for (parcel **link = &c->first; *link != NULL && found == NULL; link = &(*link)->next)
        if ((*link)->delay == 0 && !is_behind(c, *link)) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

static void raise_by_one(copying *c, bgi_counter *counter, uint32_t device)
{
    c->base.setup.events.raise(c->base.setup.events.user, counter, atomic_load(&counter->value) + 1, device);
}

/* ---- creation and destruction ---- */

static void destroy(bgi_transport *transport)
{
    copying *c = of(transport);

    if (transport == NULL)
        return;
    for (parcel *p = c->first, *next; p != NULL; p = next) {
        next = p->next;
        free_parcel(p);
    }
    for (uint32_t l = 0; l < transport->setup.link_count; l++)
        free(c->channels[l].windows);
    for (uint32_t g = 0; g < transport->setup.group_count; g++) {
        const uint32_t size = transport->setup.groups[g].size;
        for (uint32_t m = 0; m < size; m++) {
            party *own = &c->parties[g][m];
            for (uint32_t other = 0; other < size; other++) {
                free_buffers(own->contributions[other], own->contribution_counts[other]);
                free_buffers(own->results[other], own->count);
            }
            free(own->contribution_counts);
            free(own->contributions);
            free(own->results);
        }
        free(c->parties[g]);
    }
    pthread_mutex_destroy(&c->mutex);
    pthread_mutex_destroy(&c->moving);
    free((void *)c->pending);
    free(c->parties);
    free(c->channels);
    free(c);
}

static bg_status create(const bgi_transport_setup *setup, bgi_transport **out, bg_error *error)
{
    copying *c = take(1, sizeof *c);

    (void)error;
    c->base.type = &test_transport_copying;
    c->base.setup = *setup;
    c->random = next_seed++ * 0x9e3779b97f4a7c15u;
    c->channels = take(setup->link_count, sizeof *c->channels);
    c->parties = take(setup->group_count, sizeof(party *));
    c->pending = take(setup->device_count, sizeof *c->pending);
    if (pthread_mutex_init(&c->mutex, NULL) != 0 || pthread_mutex_init(&c->moving, NULL) != 0)
        abort();
    for (uint32_t l = 0; l < setup->link_count; l++)
        if (setup->links[l].from != setup->links[l].to)
            c->channels[l].windows = take(setup->links[l].depth, setup->links[l].slot_bytes);
    for (uint32_t g = 0; g < setup->group_count; g++) {
        const uint32_t size = setup->groups[g].size;
        c->parties[g] = take(size, sizeof **c->parties);
        for (uint32_t m = 0; m < size; m++) {
            c->parties[g][m].contributions = take(size, sizeof(void **));
            c->parties[g][m].contribution_counts = take(size, sizeof(uint32_t));
            c->parties[g][m].results = take(size, sizeof(void **));
        }
    }
    *out = &c->base;
    return BG_OK;
}

/* ---- messages ---- */

static void *window(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    const bgi_link *l = &transport->setup.links[link];

    return of(transport)->channels[link].windows + sequence % l->depth * l->slot_bytes;
}

static bgi_counter *credit(bgi_transport *transport, uint32_t link)
{
    return &of(transport)->channels[link].credit;
}

static bgi_counter *arrived(bgi_transport *transport, uint32_t link)
{
    return &of(transport)->channels[link].arrived;
}

static uint64_t post(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    channel *own = &of(transport)->channels[link];
    const bgi_link *l = &transport->setup.links[link];
    const uint64_t due = own->posted;
    void *from = window(transport, link, sequence);
    parcel p = {.kind = MESSAGE, .of = link, .number = sequence, .size_bytes = l->slot_bytes};

    if (due != sequence)
        return due;
    own->posted++;
    p.content = take(1, l->slot_bytes);
    memcpy(p.content, from, l->slot_bytes);
    memset(from, GONE, l->slot_bytes);
    send(of(transport), p);
    return due;
}

static uint64_t release(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    channel *own = &of(transport)->channels[link];
    const uint64_t due = own->released;

    if (due != sequence)
        return due;
    own->released++;
    send(of(transport), (parcel){.kind = CREDIT, .of = link});
    return due;
}

static void receive(copying *c, const parcel *p)
{
    const bgi_link *l = &c->base.setup.links[p->of];
    bgi_device *device = c->base.setup.devices[l->to];

    bgi_device_enter(device);
    memcpy(device->arena + l->offset + p->number % l->depth * l->slot_bytes, p->content, p->size_bytes);
    bgi_device_leave(device);
    atomic_fetch_add(&total_bytes, p->size_bytes);
    raise_by_one(c, &c->channels[p->of].arrived, l->to);
}

/* ---- meetings ---- */

static size_t bytes_of(const bgi_exchange *exchange, const bgi_region *region)
{
    return region->rows * region->length * bg_dtype_size_bytes(exchange->dtype);
}

/* Copies between a region in a tensor and a buffer without gaps. */
static void copy_region(const bgi_exchange *exchange, const bgi_region *region, char *tensor, char *buffer,
                        bool is_packed)
{
    const size_t element_bytes = bg_dtype_size_bytes(exchange->dtype), row_bytes = region->length * element_bytes;

    for (size_t row = 0; row < region->rows; row++) {
        char *place = tensor + (region->first + row * region->stride) * element_bytes;
        if (is_packed)
            memcpy(buffer + row * row_bytes, place, row_bytes);
        else
            memcpy(place, buffer + row * row_bytes, row_bytes);
    }
}

static bgi_wait offer(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count)
{
    const uint32_t size = transport->setup.groups[group].size;
    party *own = &of(transport)->parties[group][member];

    for (uint32_t other = 0; other < size; other++) {
        free_buffers(own->results[other], own->count);
        own->results[other] = take(count, sizeof(void *));
    }
    own->exchanges = exchanges;
    own->count = count;
    own->meetings++;
    for (uint32_t to = 0; to < size; to++) {
        parcel p = {.kind = OFFER, .of = group, .from = member, .to = to, .buffer_count = count};
        p.buffers = take(count, sizeof(void *));
        for (uint32_t i = 0; i < count; i++) {
            const bgi_region region = bgi_pattern_take(&exchanges[i].pattern, to, member);
            if (bytes_of(&exchanges[i], &region) == 0)
                continue;
            p.buffers[i] = take(1, bytes_of(&exchanges[i], &region));
            copy_region(&exchanges[i], &region, (char *)(uintptr_t)exchanges[i].from, p.buffers[i], true);
        }
        send(of(transport), p);
    }
    return (bgi_wait){&own->offered, own->meetings * size};
}

static bgi_strip contribution(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t from, uint32_t index)
{
    const party *own = &of(transport)->parties[group][member];
    const bgi_exchange *exchange = &own->exchanges[index];
    const bgi_region region = bgi_pattern_take(&exchange->pattern, member, from);

    return (bgi_strip){own->contributions[from][index], region.length * bg_dtype_size_bytes(exchange->dtype)};
}

static bgi_strip result(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t reader, uint32_t index)
{
    const party *own = &of(transport)->parties[group][member];
    const bgi_exchange *exchange = &own->exchanges[index];
    const bgi_region region = bgi_pattern_put(&exchange->pattern, member, reader);

    if (own->results[reader][index] == NULL)
        own->results[reader][index] = take(1, bytes_of(exchange, &region));
    return (bgi_strip){own->results[reader][index], region.length * bg_dtype_size_bytes(exchange->dtype)};
}

static bgi_wait deliver(bgi_transport *transport, uint32_t group, uint32_t member)
{
    const uint32_t size = transport->setup.groups[group].size;
    party *own = &of(transport)->parties[group][member];

    for (uint32_t to = 0; to < size; to++) {
        send(of(transport), (parcel){.kind = RESULT,
                                     .of = group,
                                     .from = member,
                                     .to = to,
                                     .buffers = own->results[to],
                                     .buffer_count = own->count});
        own->results[to] = NULL;
    }
    return (bgi_wait){&own->delivered, own->meetings * size};
}

static bgi_counter *meeting(bgi_transport *transport, uint32_t group, uint32_t member, bool is_delivery)
{
    party *own = &of(transport)->parties[group][member];

    return is_delivery ? &own->delivered : &own->offered;
}

static void take_offer(copying *c, parcel *p)
{
    party *own = &c->parties[p->of][p->to];

    free_buffers(own->contributions[p->from], own->contribution_counts[p->from]);
    own->contributions[p->from] = p->buffers;
    own->contribution_counts[p->from] = p->buffer_count;
    p->buffers = NULL;
    raise_by_one(c, &own->offered, c->base.setup.groups[p->of].members[p->to]);
}

static void take_result(copying *c, const parcel *p)
{
    party *own = &c->parties[p->of][p->to];
    const uint32_t number = c->base.setup.groups[p->of].members[p->to];
    bgi_device *device = c->base.setup.devices[number];

    bgi_device_enter(device);
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const bgi_exchange *exchange = &own->exchanges[i];
        const bgi_region region = bgi_pattern_put(&exchange->pattern, p->from, p->to);
        if (p->buffers[i] == NULL)
            continue;
        copy_region(exchange, &region, exchange->to, p->buffers[i], false);
        atomic_fetch_add(&total_bytes, bytes_of(exchange, &region));
    }
    bgi_device_leave(device);
    raise_by_one(c, &own->delivered, number);
}

/* ---- stores and notes ---- */

static void fetch(bgi_transport *transport, uint32_t device, uint32_t from, size_t offset, void *to, size_t size_bytes)
{
    of(transport)->pending[device]++;
    send(of(transport),
         (parcel){.kind = PIECE, .from = from, .to = device, .offset = offset, .size_bytes = size_bytes, .target = to});
}

static bool fetched(bgi_transport *transport, uint32_t device)
{
    return of(transport)->pending[device] == 0;
}

static void take_piece(copying *c, const parcel *p)
{
    bgi_device *from = c->base.setup.devices[p->from], *to = c->base.setup.devices[p->to];
    void *content = take(1, p->size_bytes);

    bgi_device_enter(from);
    memcpy(content, from->store + p->offset, p->size_bytes);
    bgi_device_leave(from);
    bgi_device_enter(to);
    memcpy(p->target, content, p->size_bytes);
    bgi_device_leave(to);
    free(content);
    atomic_fetch_add(&total_bytes, p->size_bytes);
    c->pending[p->to]--;
}

static void tell(bgi_transport *transport, uint32_t to, const bgi_note *note)
{
    send(of(transport), (parcel){.kind = NOTE, .from = note->from, .to = to, .note = *note});
}

/* ---- progress ---- */

static void arrive(copying *c, parcel *p)
{
    switch (p->kind) {
    case MESSAGE:
        receive(c, p);
        break;
    case CREDIT:
        raise_by_one(c, &c->channels[p->of].credit, c->base.setup.links[p->of].from);
        break;
    case OFFER:
        take_offer(c, p);
        break;
    case RESULT:
        take_result(c, p);
        break;
    case PIECE:
        take_piece(c, p);
        break;
    default:
        c->base.setup.events.told(c->base.setup.events.user, p->to, &p->note);
    }
    free_parcel(p);
}

static bool progress(bgi_transport *transport)
{
    copying *c = of(transport);
    bool has_moved = false, is_empty;

    if (pthread_mutex_trylock(&c->moving) != 0)
        return false;
    for (parcel *p = take_arrived(c, true); p != NULL; p = take_arrived(c, false)) {
        arrive(c, p);
        has_moved = true;
    }
    pthread_mutex_unlock(&c->moving);
    pthread_mutex_lock(&c->mutex);
    is_empty = c->first == NULL;
    pthread_mutex_unlock(&c->mutex);
    return has_moved || !is_empty;
}

const bgi_transport_type test_transport_copying = {.name = "copying",
                                                   .create = create,
                                                   .destroy = destroy,
                                                   .window = window,
                                                   .credit = credit,
                                                   .arrived = arrived,
                                                   .post = post,
                                                   .release = release,
                                                   .offer = offer,
                                                   .contribution = contribution,
                                                   .result = result,
                                                   .deliver = deliver,
                                                   .meeting = meeting,
                                                   .fetch = fetch,
                                                   .fetched = fetched,
                                                   .tell = tell,
                                                   .progress = progress};
