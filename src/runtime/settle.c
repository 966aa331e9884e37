/*
 * settle.c: combines the results of work that each rank does separately. Rank 0 receives the other ranks' results and
 * sends the combined one.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "core/error.h"
#include "runtime/agree.h"

enum { WHY_BYTES = 1024 };

typedef struct word {
    uint32_t status, any;
    char why[WHY_BYTES];
} word;

/* ---- before engines exist ---- */

static void raise_counter(void *user, bgi_counter *counter, uint64_t value, uint32_t device)
{
    (void)user, (void)counter, (void)value, (void)device;
}

static void changed(void *user)
{
    (void)user;
}

static void told(void *user, uint32_t to, const bgi_note *note)
{
    (void)user, (void)to, (void)note;
}

/* Does nothing, because a waiting thread notices by itself that a rank is lost. */
static void lost(void *user, bg_status status, const char *why)
{
    (void)user, (void)status, (void)why;
}

bg_status bgi_ranks_talk(const bgi_ranks *ranks, bgi_transport **out, bg_error *error)
{
    const bgi_transport_setup setup = {
        .ranks = ranks, .events = {.raise = raise_counter, .changed = changed, .told = told, .lost = lost}};

    return bgi_transport_ranks.create(&setup, out, error);
}

bg_status bgi_ranks_share_hosts(bgi_transport *transport, char (*hosts)[BGI_HOST_BYTES], bg_error *error)
{
    const bg_transport *carrier = transport->setup.ranks->carrier;

    if (gethostname(hosts[carrier->rank], BGI_HOST_BYTES - 1) != 0)
        snprintf(hosts[carrier->rank], BGI_HOST_BYTES, "unknown");
    for (uint32_t i = 1; i < carrier->rank_count; i++)
        BGI_TRY(bgi_ranks_hand(transport, i, 0, hosts[i], BGI_HOST_BYTES, error));
    return bgi_ranks_share(transport, 0, hosts, carrier->rank_count * sizeof *hosts, error);
}

/* ---- one status for all ranks ---- */

static void hear(word *all, const word *other, uint32_t rank)
{
    all->any |= other->any;
    if (all->status != BG_OK || other->status == BG_OK)
        return;
    all->status = other->status;
    snprintf(all->why, sizeof all->why, "rank %u: %.980s", rank, other->why);
}

bg_status bgi_ranks_settle(bgi_transport *transport, bg_status status, bool *any, bg_error *error)
{
    const bg_transport *carrier = transport != NULL ? transport->setup.ranks->carrier : NULL;
    word all = {.status = (uint32_t)status, .any = any != NULL && *any};

    if (transport == NULL)
        return status;
    if (status != BG_OK && error != NULL)
        snprintf(all.why, sizeof all.why, "%.980s", error->message);
    for (uint32_t i = 1; i < carrier->rank_count; i++) {
        word other = all;
        BGI_TRY(bgi_ranks_hand(transport, i, 0, &other, sizeof other, error));
        if (carrier->rank == 0)
            hear(&all, &other, i);
    }
    BGI_TRY(bgi_ranks_share(transport, 0, &all, sizeof all, error));
    all.why[WHY_BYTES - 1] = '\0';
    if (any != NULL)
        *any = all.any != 0;
    if (all.status == BG_OK)
        return BG_OK;
    bg_error_clear(error); /* this rank's error may differ from the error that all ranks return */
    return bg_error_set(error, (bg_status)all.status, "%s", all.why);
}
