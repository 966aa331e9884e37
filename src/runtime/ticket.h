/*
 * ticket.h: lets several threads claim numbered parts of some work from one 64-bit number, generation << 40 | end << 20
 * | beginning of the remaining parts. It does not know what the parts are.
 *
 * A part is claimed by a compare-and-swap, from the beginning or from the end. If a thread has read the number of
 * earlier work, its claim fails, because the generation has changed. After a successful claim the work cannot end
 * without that part. So data written before the ticket was published may be read after a claim, until the part is
 * counted as done.
 */
#ifndef BGI_RUNTIME_TICKET_H
#define BGI_RUNTIME_TICKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BGI_TICKET_BITS = 20, BGI_TICKET_MOST = (1 << BGI_TICKET_BITS) - 1 };

typedef _Atomic uint64_t bgi_ticket;

static inline uint64_t bgi_ticket_begin(uint64_t word)
{
    return word & BGI_TICKET_MOST;
}

static inline uint64_t bgi_ticket_end(uint64_t word)
{
    return word >> BGI_TICKET_BITS & BGI_TICKET_MOST;
}

static inline uint64_t bgi_ticket_generation(uint64_t word)
{
    return word >> 2 * BGI_TICKET_BITS;
}

/* Publishes parts 0 .. count - 1 of new work, where count <= BGI_TICKET_MOST. Only one thread may call it at a time,
 * when no part is left. */
static inline void bgi_ticket_publish(bgi_ticket *ticket, uint32_t count)
{
    const uint64_t generation = bgi_ticket_generation(atomic_load_explicit(ticket, memory_order_relaxed)) + 1;

    atomic_store(ticket, generation << 2 * BGI_TICKET_BITS | (uint64_t)count << BGI_TICKET_BITS);
}

/* Whether parts are left; a hint. */
static inline bool bgi_ticket_is_open(const bgi_ticket *ticket)
{
    const uint64_t word = atomic_load(ticket);

    return bgi_ticket_begin(word) < bgi_ticket_end(word);
}

/* Claims a part, from the end or from the beginning; returns false when no part is left. */
static inline bool bgi_ticket_claim(bgi_ticket *ticket, bool from_end, uint32_t *out_part, uint64_t *out_generation)
{
    uint64_t word = atomic_load_explicit(ticket, memory_order_acquire);

    while (bgi_ticket_begin(word) < bgi_ticket_end(word)) {
        const uint64_t taken = from_end ? word - (UINT64_C(1) << BGI_TICKET_BITS) : word + 1;
        if (atomic_compare_exchange_weak_explicit(ticket, &word, taken, memory_order_acq_rel, memory_order_acquire)) {
            *out_part = (uint32_t)(from_end ? bgi_ticket_end(taken) : bgi_ticket_begin(word));
            *out_generation = bgi_ticket_generation(word);
            return true;
        }
    }
    return false;
}

#endif
