/*
 * rank_hosts.c: lets the calling threads of ranks communicate: runs begin and end together, values are sent from rank
 * to rank, and a rank that fails reports its failure.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "transport/rank_parts.h"

enum {
    SPINS = 2000, /* polls of a waiting host before it sleeps */
    SLEEP_NS = 20000,
    NOTES_A_LIMIT = 8 /* notes of a rank that waits, within the limit */
};

static const uint64_t leave_ns = 500000000u; /* time for sending the message of a rank that fails */

void bgi_ranks_begin_run(bgi_transport *transport, uint64_t run)
{
    ranks *r = bgi_ranks_of(transport);
    size_t kept = 0;

    pthread_mutex_lock(&r->moving);
    atomic_store(&r->caller, pthread_self());
    atomic_store(&r->run, run);
    for (size_t i = 0; i < r->early_count; i++) {
        const wire_note early = r->early[i];
        if (early.run > run)
            r->early[kept++] = early;
        else
            bgi_ranks_take_note(r, NULL, &early); /* the note is of a kind whose sender is not needed */
    }
    r->early_count = kept;
    pthread_mutex_unlock(&r->moving);
    bgi_ranks_move(r, true);
}

/* ---- waiting ---- */

/* The state of a wait, which fails when no other rank has made progress within the limit. If `says_so`, this rank
 * tells the others several times within the limit that it is alive. */
typedef struct patience {
    uint64_t begun_ns, heard, said_ns;
    uint32_t looks;
    bool says_so;
} patience;

uint32_t bgi_ranks_print_silent(bgi_transport *transport, double waited_s, bool is_in_run, char *text,
                                size_t text_bytes)
{
    enum { NAMED = 3 };
    ranks *r = bgi_ranks_of(transport);
    const uint64_t now_ns = bgi_clock_ns();
    uint64_t alive_ns[NAMED];
    uint32_t named[NAMED], count = 0, shown;
    char name[BGI_RANK_TEXT_BYTES];
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < r->carrier->rank_count; i++) {
        const uint64_t alive = atomic_load(&r->peers[i].alive_ns);
        uint32_t place;

        if (i == r->carrier->rank || (double)(now_ns - alive) * 1e-9 < 0.5 * waited_s ||
            (is_in_run && bgi_ranks_has_ended(transport, i)))
            continue;
        for (place = count < NAMED ? count : NAMED; place > 0 && alive < alive_ns[place - 1]; place--) {
            if (place < NAMED) {
                alive_ns[place] = alive_ns[place - 1];
                named[place] = named[place - 1];
            }
        }
        if (place < NAMED) {
            alive_ns[place] = alive;
            named[place] = i;
        }
        count++;
    }
    shown = count < NAMED ? count : NAMED;
    for (uint32_t i = 0; i < shown && length < text_bytes; i++)
        length += (size_t)snprintf(text + length, text_bytes - length, "%s%s",
                                   i == 0           ? ""
                                   : i + 1 == count ? " and "
                                                    : ", ",
                                   bgi_ranks_name(r->base.setup.ranks, named[i], name));
    if (count > shown && length < text_bytes)
        snprintf(text + length, text_bytes - length, " and %u more", count - shown);
    return count;
}

/* Reports a wait for `rank` that has taken too long. A rank that is alive waits for another one itself, so the report
 * also names the silent ranks. */
static bg_status report_wait(ranks *r, const char *what, uint32_t rank, bg_error *error)
{
    const double limit_s = r->base.setup.ranks->wait_limit_s;
    char name[BGI_RANK_TEXT_BYTES], silent[WHY_BYTES / 2];
    const uint32_t silent_count = bgi_ranks_print_silent(&r->base, limit_s, false, silent, sizeof silent);

    bgi_ranks_name(r->base.setup.ranks, rank, name);
    if ((double)(bgi_clock_ns() - atomic_load(&r->peers[rank].alive_ns)) * 1e-9 < 0.5 * limit_s)
        return bg_error_set(error, BG_ERROR_TIMEOUT,
                            "%s: nothing from %s for %.3g s (wait_limit_s), which waits too%s%s", what, name, limit_s,
                            silent_count > 0 ? "; no sign of " : "", silent);
    return bg_error_set(error, BG_ERROR_TIMEOUT, "%s: no sign of %s for %.3g s (wait_limit_s)", what,
                        silent_count > 0 ? silent : name, limit_s);
}

/* Tells all other ranks that this rank waits, when its last such note, or the beginning of the wait, is long ago. */
static void say_so(ranks *r, patience *p, uint64_t now_ns)
{
    const double pause_s = r->base.setup.ranks->wait_limit_s / NOTES_A_LIMIT;

    if (p->said_ns == 0) /* a short wait needs no note */
        p->said_ns = now_ns;
    if ((double)(now_ns - p->said_ns) * 1e-9 < pause_s)
        return;
    p->said_ns = now_ns;
    for (uint32_t i = 0; i < r->carrier->rank_count; i++)
        if (i != r->carrier->rank)
            bgi_ranks_add_note(r, i, &(wire_note){.kind = NOTE_WAITING});
}

static bg_status wait_a_little(ranks *r, patience *p, const char *what, uint32_t rank, bg_error *error)
{
    uint64_t now_ns;

    if (atomic_load(&r->is_lost))
        return bg_error_set(error, r->lost_status, "%s: %s", what, r->lost_why);
    if (bgi_ranks_move(r, true))
        return BG_OK;
    now_ns = bgi_clock_ns();
    if (atomic_load(&r->heard) != p->heard || p->begun_ns == 0) {
        p->heard = atomic_load(&r->heard);
        p->begun_ns = now_ns;
    }
    if ((double)(now_ns - p->begun_ns) * 1e-9 > r->base.setup.ranks->wait_limit_s)
        return report_wait(r, what, rank, error);
    if (p->says_so)
        say_so(r, p, now_ns);
    if (++p->looks < SPINS) /* on a busy machine these take longer than a short limit */
        sched_yield();
    else
        bgi_clock_sleep(SLEEP_NS);
    return BG_OK;
}

/* ---- runs ---- */

/* Returns the lowest rank that has not reached the end of the run; this rank when all have. */
static uint32_t find_late(ranks *r, uint64_t run)
{
    uint32_t rank = 0;

    pthread_mutex_lock(&r->moving); /* workers may be receiving notes */
    while (rank < r->carrier->rank_count && (rank == r->carrier->rank || r->peers[rank].ended >= run))
        rank++;
    pthread_mutex_unlock(&r->moving);
    return rank < r->carrier->rank_count ? rank : r->carrier->rank;
}

/* Whether all notes have been sent. */
static bool has_said_all(ranks *r)
{
    bool is_quiet;

    if (pthread_mutex_trylock(&r->moving) != 0)
        return false;
    is_quiet = atomic_load(&r->note_count) == 0;
    for (uint32_t i = 0; i < r->carrier->rank_count; i++)
        for (uint32_t o = 0; o < r->peers[i].out_count; o++)
            is_quiet = is_quiet && r->peers[i].out[o].is_done;
    pthread_mutex_unlock(&r->moving);
    return is_quiet;
}

bg_status bgi_ranks_finish(bgi_transport *transport, uint64_t wanted, bg_error *error)
{
    ranks *r = bgi_ranks_of(transport);
    const uint64_t run = atomic_load(&r->run);
    patience p = {0};

    for (uint32_t i = 0; i < r->carrier->rank_count; i++)
        if (i != r->carrier->rank)
            bgi_ranks_add_note(r, i, &(wire_note){.kind = NOTE_ENDED, .value = run, .more = wanted});
    while (find_late(r, run) != r->carrier->rank || !has_said_all(r))
        BGI_TRY(wait_a_little(r, &p, "the end of a run", find_late(r, run), error));
    return BG_OK;
}

void bgi_ranks_give_up(bgi_transport *transport, bg_status status, const char *why)
{
    ranks *r = bgi_ranks_of(transport);
    const uint64_t begun_ns = bgi_clock_ns();
    const size_t length = strlen(why) < WHY_BYTES - TEXT_BYTES ? strlen(why) : WHY_BYTES - TEXT_BYTES - 1;

    if (atomic_load(&r->is_lost))
        return;
    for (uint32_t i = 0; i < r->carrier->rank_count; i++)
        for (size_t at = 0; i != r->carrier->rank && at <= length; at += TEXT_BYTES) {
            wire_note note = {.kind = NOTE_TEXT, .place = at + TEXT_BYTES > length ? (uint32_t)status : 0};
            uint64_t words[3] = {0};
            memcpy(words, why + at, length - at < TEXT_BYTES ? length - at : TEXT_BYTES);
            note.run = words[0], note.value = words[1], note.more = words[2];
            bgi_ranks_add_note(r, i, &note);
        }
    while (!has_said_all(r) && bgi_clock_ns() - begun_ns < leave_ns)
        if (!bgi_ranks_move(r, true))
            sched_yield();
    bgi_ranks_note_lost(r, status, why);
}

bool bgi_ranks_has_ended(bgi_transport *transport, uint32_t rank)
{
    ranks *r = bgi_ranks_of(transport);
    bool has_ended;

    pthread_mutex_lock(&r->moving);
    has_ended = r->peers[rank].ended >= atomic_load(&r->run);
    pthread_mutex_unlock(&r->moving);
    return has_ended;
}

uint64_t bgi_ranks_wanted_by(bgi_transport *transport, uint32_t rank)
{
    ranks *r = bgi_ranks_of(transport);
    uint64_t wanted;

    pthread_mutex_lock(&r->moving);
    wanted = r->peers[rank].wanted;
    pthread_mutex_unlock(&r->moving);
    return wanted;
}

/* Called by the mover, which may be a worker, when the operation is over: gives its memory back to the calling thread.
 */
static void end_hand(ranks *r, operation *what)
{
    atomic_bool *is_over = what->owner;

    (void)r;
    atomic_store(is_over, true);
}

bg_status bgi_ranks_hand(bgi_transport *transport, uint32_t from, uint32_t to, void *data, size_t size_bytes,
                         bg_error *error)
{
    ranks *r = bgi_ranks_of(transport);
    const uint32_t own = r->carrier->rank;
    atomic_bool is_over = false;
    operation what = {.end = end_hand, .owner = &is_over};
    patience p = {.says_so = true};
    bg_status status = BG_OK;
    bg_error why = {0};

    atomic_store(&r->caller, pthread_self());
    if (from != to && (own == from || own == to) && atomic_load(&r->is_lost))
        return bg_error_set(error, r->lost_status, "values of another rank: %s", r->lost_why);
    if (from == to || (own != from && own != to) || size_bytes == 0)
        return BG_OK;
    pthread_mutex_lock(&r->moving);
    bgi_ranks_begin(r, &what, own == from, own == from ? to : from, HOST_TAG, data, size_bytes);
    pthread_mutex_unlock(&r->moving);
    while (!atomic_load(&is_over) && status == BG_OK)
        status = wait_a_little(r, &p, "values of another rank", own == from ? to : from, &why);
    if (status != BG_OK) {
        /* Closes the lane, because operations in progress use memory that is about to be freed. A later run fails at
         * once, with the same reason. */
        bgi_ranks_lose(r, status, why.message);
        pthread_mutex_lock(&r->moving);
        r->carrier->close(r->carrier->user, r->lane);
        r->lane = NULL;
        pthread_mutex_unlock(&r->moving);
        bg_error_set(error, status, "%s", why.message);
    }
    return status;
}

bg_status bgi_ranks_share(bgi_transport *transport, uint32_t root, void *data, size_t size_bytes, bg_error *error)
{
    for (uint32_t i = 0; i < bgi_ranks_of(transport)->carrier->rank_count; i++)
        BGI_TRY(bgi_ranks_hand(transport, root, i, data, size_bytes, error));
    return BG_OK;
}
