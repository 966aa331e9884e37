/*
 * threads.c: connects devices of one process. A message is written directly into the receiver's slot, and two counters
 * record the progress of both sides: flow control by credits, without locks and copies. In a collective operation each
 * member gives the others the addresses of its memory. A note is a function call.
 *
 * No wake-up is lost: raising a counter and announcing a sleeper are sequentially consistent (core/threads.h).
 */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "transport/transport.h"

typedef struct channel {
    bgi_counter produced, consumed; /* messages over the life of the transport; counters are not reset between runs */
} channel;

typedef struct assembly {
    bgi_counter arrived, finished;
    const bgi_exchange **brought; /* by member: its exchanges; written before `arrived` is raised */
} assembly;

typedef struct threads {
    bgi_transport base;
    channel *channels;
    assembly *assemblies;
    const bgi_exchange **brought; /* of all */
} threads;

static threads *of(bgi_transport *transport)
{
    return (threads *)transport;
}

static void destroy(bgi_transport *transport)
{
    threads *t = of(transport);

    if (transport == NULL)
        return;
    free(t->brought);
    free(t->assemblies);
    free(t->channels);
    free(t);
}

static bg_status create(const bgi_transport_setup *setup, bgi_transport **out, bg_error *error)
{
    threads *t = bgi_take_pages(1, sizeof *t);
    size_t member_count = 0;

    if (t == NULL)
        return bgi_error_memory(error, "a transport", sizeof *t);
    t->base.type = &bgi_transport_threads;
    t->base.setup = *setup;
    for (uint32_t g = 0; g < setup->group_count; g++)
        member_count += setup->groups[g].size;
    t->channels = bgi_take_pages(setup->link_count, sizeof *t->channels);
    t->assemblies = bgi_take_pages(setup->group_count, sizeof *t->assemblies);
    t->brought = calloc(member_count + 1, sizeof *t->brought);
    if (t->channels == NULL || t->assemblies == NULL || t->brought == NULL) {
        destroy(&t->base);
        return bgi_error_memory(error, "channels", setup->link_count * sizeof *t->channels);
    }
    member_count = 0;
    for (uint32_t g = 0; g < setup->group_count; g++) {
        t->assemblies[g].brought = t->brought + member_count;
        member_count += setup->groups[g].size;
    }
    *out = &t->base;
    return BG_OK;
}

/* ---- messages ---- */

static void *window(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    const bgi_link *of_link = &transport->setup.links[link];
    const size_t slot = of_link->depth > 1 ? (size_t)(sequence % of_link->depth) : 0;

    return transport->setup.devices[of_link->to]->arena + of_link->offset + slot * of_link->slot_bytes;
}

static bgi_counter *credit(bgi_transport *transport, uint32_t link)
{
    return &of(transport)->channels[link].consumed;
}

static bgi_counter *arrived(bgi_transport *transport, uint32_t link)
{
    return &of(transport)->channels[link].produced;
}

/* Raises a counter if `sequence` is the next number, and returns the next number; only one thread at a time raises a
 * counter. */
static uint64_t raise_next(bgi_transport *transport, bgi_counter *counter, uint64_t sequence, uint32_t waiting)
{
    const uint64_t due = atomic_load_explicit(&counter->value, memory_order_relaxed);

    if (due == sequence)
        transport->setup.events.raise(transport->setup.events.user, counter, sequence + 1, waiting);
    return due;
}

static uint64_t post(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    return raise_next(transport, arrived(transport, link), sequence, transport->setup.links[link].to);
}

static uint64_t release(bgi_transport *transport, uint32_t link, uint64_t sequence)
{
    return raise_next(transport, credit(transport, link), sequence, transport->setup.links[link].from);
}

/* ---- meetings ---- */

/* Counts a member's arrival, and returns what it must wait for. The number of arrivals determines the current
 * collective operation, because no member enters the next one before all have arrived. The last member to arrive wakes
 * workers for the others. */
static bgi_wait come(bgi_transport *transport, bgi_counter *counter, uint32_t size)
{
    const uint64_t before = atomic_fetch_add(&counter->value, 1);
    const uint64_t target = (before / size + 1) * size;

    if (before + 1 == target)
        transport->setup.events.changed(transport->setup.events.user);
    return (bgi_wait){counter, target};
}

static bgi_wait offer(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count)
{
    assembly *a = &of(transport)->assemblies[group];

    (void)count;
    a->brought[member] = exchanges;
    return come(transport, &a->arrived, transport->setup.groups[group].size);
}

static bgi_strip contribution(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t from, uint32_t index)
{
    const bgi_exchange *exchange = &of(transport)->assemblies[group].brought[from][index];
    const size_t element_bytes = bg_dtype_size_bytes(exchange->dtype);
    const bgi_region region = bgi_pattern_take(&exchange->pattern, member, from);

    /* The memory is only read. */
    return (bgi_strip){(char *)(uintptr_t)exchange->from + region.first * element_bytes, region.stride * element_bytes};
}

static bgi_strip result(bgi_transport *transport, uint32_t group, uint32_t member, uint32_t reader, uint32_t index)
{
    const bgi_exchange *exchange = &of(transport)->assemblies[group].brought[reader][index];
    const size_t element_bytes = bg_dtype_size_bytes(exchange->dtype);
    const bgi_region region = bgi_pattern_put(&exchange->pattern, member, reader);

    return (bgi_strip){(char *)exchange->to + region.first * element_bytes, region.stride * element_bytes};
}

static bgi_wait deliver(bgi_transport *transport, uint32_t group, uint32_t member)
{
    (void)member;
    return come(transport, &of(transport)->assemblies[group].finished, transport->setup.groups[group].size);
}

static bgi_counter *meeting(bgi_transport *transport, uint32_t group, uint32_t member, bool is_delivery)
{
    assembly *a = &of(transport)->assemblies[group];

    (void)member;
    return is_delivery ? &a->finished : &a->arrived;
}

/* ---- stores and notes ---- */

static void fetch(bgi_transport *transport, uint32_t device, uint32_t from, size_t offset, void *to, size_t size_bytes)
{
    (void)device;
    memcpy(to, transport->setup.devices[from]->store + offset, size_bytes);
}

static void tell(bgi_transport *transport, uint32_t to, const bgi_note *note)
{
    transport->setup.events.told(transport->setup.events.user, to, note);
}

const bgi_transport_type bgi_transport_threads = {.name = "threads",
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
                                                  .tell = tell};
