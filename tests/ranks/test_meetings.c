/*
 * test_meetings.c: tests collectives (meetings) of members on different ranks. Short ones need one message in each
 * direction, larger ones two with half the bytes each, and large data are sent in rounds. The bits are those of a plain
 * loop over the members, even in place. A report of a wait names the rank that is silent, and not one that waits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks/wrap.h"
#include "transport/ranks.h"

enum {
    MOST_RANKS = 4,
    MOST_EXCHANGES = 3,
    MOST_ELEMENTS = 20000,
    FIRST_LINK_TAG = 2 /* tags 0 and 1 are for hosts and notes */
};

/* Runs before wrap.c reads the variable. */
__attribute__((constructor)) static void ask_for_three(void)
{
    setenv("BRIGADE_TEST_RANKS", "3", 0);
}

/* ---- the test's transport, with counted messages ---- */

static uint32_t messages, rounds;
static size_t bytes;

static bg_status begin_send(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                            void *operation, bg_error *error)
{
    if (tag >= FIRST_LINK_TAG) {
        messages++;
        bytes += size_bytes;
    }
    return test_ranks_transport()->send(user, lane, to, tag, data, size_bytes, operation, error);
}

static void raise_counter(void *user, bgi_counter *counter, uint64_t value, uint32_t device)
{
    (void)user, (void)device;
    atomic_store(&counter->value, value);
}

static void changed(void *user)
{
    (void)user;
}

static void told(void *user, uint32_t to, const bgi_note *note)
{
    (void)user, (void)to, (void)note;
}

static bool may_be_lost;

static void lost(void *user, bg_status status, const char *why)
{
    (void)user, (void)status;
    if (!may_be_lost)
        fail_msg("%s", why);
}

/* ---- a group whose members are the devices; `owners` has the rank of each device ---- */

typedef struct rig {
    bg_transport counting;
    bgi_ranks ranks;
    uint32_t owners[MOST_RANKS + 1], members[MOST_RANKS + 1];
    bgi_device *devices[MOST_RANKS + 1];
    bgi_group group;
    bgi_transport *transport;
} rig;

static uint32_t rank_count(void)
{
    return test_ranks_transport()->rank_count;
}

/* Opens a rig; with `extra`, rank 0 has one more device. */
static void open_rig(rig *r, bool extra)
{
    bg_error error = {0};
    bgi_transport_setup setup = {.group_count = 1,
                                 .ranks = &r->ranks,
                                 .devices = r->devices,
                                 .groups = &r->group,
                                 .events = {.raise = raise_counter, .changed = changed, .told = told, .lost = lost}};

    memset(r, 0, sizeof *r);
    r->counting = *test_ranks_transport();
    r->counting.send = begin_send;
    r->ranks = (bgi_ranks){.carrier = &r->counting, .owners = r->owners, .wait_limit_s = 60.0};
    r->group = (bgi_group){.size = rank_count() + extra, .members = r->members};
    for (uint32_t i = 0; i < r->group.size; i++) {
        r->members[i] = i;
        r->owners[i] = i % rank_count();
    }
    setup.device_count = r->group.size;
    assert_int_equal(bgi_transport_ranks.create(&setup, &r->transport, &error), BG_OK);
}

static void close_rig(rig *r)
{
    r->transport->type->destroy(r->transport);
}

static void wait_for(const rig *r, bgi_wait wait)
{
    while (atomic_load(&wait.counter->value) < wait.target)
        if (!r->transport->type->progress(r->transport))
            sched_yield();
}

/* ---- sums ---- */

/* Returns numbers whose sums depend on the order of addition. */
static float element(uint32_t member, uint32_t exchange, size_t i)
{
    const uint32_t mixed = (member * 7919u + exchange * 104729u + (uint32_t)i) * 2654435761u;

    return (float)(mixed >> 8) * (member % 2 == 0 ? 1e-3f : -0.999e-3f) + 1.0f;
}

static float expect(uint32_t first, uint32_t members, uint32_t exchange, size_t i, bool is_tree)
{
    float sum = element(first, exchange, i);
    uint32_t left = 1;

    if (members == 1)
        return sum;
    while (is_tree && left < members - left)
        left *= 2;
    if (is_tree)
        return expect(first, left, exchange, i, true) + expect(first + left, members - left, exchange, i, true);
    for (uint32_t m = 1; m < members; m++)
        sum += element(first + m, exchange, i);
    return sum;
}

/* Runs the exchanges in rounds of `round_bytes` bytes. */
static void meet_in_rounds(const rig *r, size_t round_bytes, bgi_exchange (*exchanges)[MOST_EXCHANGES], uint32_t count,
                           const uint32_t *here, uint32_t here_count)
{
    bgi_exchange round[2][MOST_EXCHANGES];
    bgi_cut cuts[2] = {{0}, {0}};
    uint32_t some[2] = {0};
    bgi_wait waits[2];

    while (cuts[0].exchange < count) {
        rounds++;
        for (uint32_t h = 0; h < here_count; h++) {
            some[h] = bgi_exchange_cut(round_bytes, exchanges[h], count, &cuts[h], round[h]);
            waits[h] = r->transport->type->offer(r->transport, 0, here[h], round[h], some[h]);
        }
        for (uint32_t h = 0; h < here_count; h++)
            wait_for(r, waits[h]);
        for (uint32_t h = 0; h < here_count; h++) {
            bgi_exchange_run(r->transport, 0, here[h], round[h], some[h]);
            waits[h] = r->transport->type->deliver(r->transport, 0, here[h]);
        }
        for (uint32_t h = 0; h < here_count; h++)
            wait_for(r, waits[h]);
    }
}

/* Runs the collective with the contributions of this rank's members. */
static void meet(const rig *r, size_t round_bytes, const size_t *sizes, uint32_t count, bool is_tree, bool in_place)
{
    static float data[2][MOST_EXCHANGES][MOST_ELEMENTS], results[2][MOST_EXCHANGES][MOST_ELEMENTS];
    bgi_exchange exchanges[2][MOST_EXCHANGES];
    const uint32_t own = test_ranks_transport()->rank;
    uint32_t here[2], here_count = 0;

    for (uint32_t m = 0; m < r->group.size; m++)
        if (r->owners[m] == own)
            here[here_count++] = m;
    for (uint32_t h = 0; h < here_count; h++) {
        for (uint32_t e = 0; e < count; e++) {
            for (size_t i = 0; i < sizes[e]; i++)
                data[h][e][i] = element(here[h], e, i);
            exchanges[h][e] =
                (bgi_exchange){.pattern = {.kind = BGI_PATTERN_SUM, .size = r->group.size, .count = sizes[e]},
                               .dtype = BG_FLOAT32,
                               .function = BG_REDUCE_SUM,
                               .from = data[h][e],
                               .to = in_place ? data[h][e] : results[h][e],
                               .is_tree = is_tree};
        }
    }
    meet_in_rounds(r, round_bytes, exchanges, count, here, here_count);
    for (uint32_t h = 0; h < here_count; h++)
        for (uint32_t e = 0; e < count; e++)
            for (size_t i = 0; i < sizes[e]; i++) {
                const float wanted = expect(0, r->group.size, e, i, is_tree), got = ((float *)exchanges[h][e].to)[i];
                if (memcmp(&got, &wanted, sizeof got) != 0)
                    fail_msg("element %zu of %zu: %g is not %g", i, sizes[e], (double)got, (double)wanted);
            }
}

/* Runs collectives of all kinds one after the other and counts the messages that this rank sends for each. */
static void meet_often(rig *r, uint32_t short_messages, uint32_t long_messages)
{
    const size_t longest = rank_count() == 2 ? 8192 : 4096 / (rank_count() - 2); /* elements of a short collective */
    const struct {
        size_t sizes[MOST_EXCHANGES];
        uint32_t count;
        bool is_short;
    } cases[] = {{{1}, 1, true},
                 {{longest}, 1, true},
                 {{longest + 1}, 1, false},
                 {{5, 1, 300}, 3, true},
                 {{longest - 500, 600}, 2, false},
                 {{MOST_ELEMENTS}, 1, false},
                 {{MOST_ELEMENTS, 7}, 2, false}};

    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            for (uint32_t way = 0; way < 4; way++) {
                messages = 0;
                meet(r, SIZE_MAX, cases[i].sizes, cases[i].count, way % 2 == 1, way > 1);
                assert_int_equal(messages, cases[i].is_short ? short_messages : long_messages);
            }
}

static void one_member_a_rank(void **state)
{
    const uint32_t others = rank_count() - 1;
    rig r;

    (void)state;
    open_rig(&r, false);
    meet_often(&r, others, 2 * others);
    close_rig(&r);
}

/* Messages of up to eight times the length that a transport sends without a handshake are sent in parts of this
 * length. */
static void messages_are_cut_for_a_carrier_that_asks(void **state)
{
    enum { EAGER = 512 };
    static const struct {
        size_t bytes;
        uint32_t pieces;
    } cases[] = {{4, 1}, {EAGER, 1}, {EAGER + 4, 2}, {8 * EAGER - 4, 8}, {8 * EAGER, 8}, {8 * EAGER + 4, 1}};
    rig r;

    (void)state;
    open_rig(&r, false);
    r.counting.eager_bytes = EAGER;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t size = cases[i].bytes / sizeof(float);
        messages = 0;
        bytes = 0;
        meet(&r, SIZE_MAX, &size, 1, false, i % 2 == 1);
        assert_int_equal(messages, (rank_count() - 1) * cases[i].pieces);
        assert_int_equal(bytes, (rank_count() - 1) * cases[i].bytes);
    }
    close_rig(&r);
}

/* Computes the same sums in rounds; small tensors share a round. */
static void much_comes_in_rounds(void **state)
{
    static const struct {
        size_t sizes[MOST_EXCHANGES], round_bytes;
        uint32_t rounds;
    } cases[] = {{{20000, 5, 7}, 80000, 2},  {{20000, 5, 7}, 79996, 3},   {{20000, 20000, 7}, 40000, 5},
                 {{5, 20000, 7}, 30000, 5},  {{5, 7, 20000}, 30000, 4},   {{300, 400, 500}, 2800, 2},
                 {{300, 400, 500}, 4, 1200}, {{20000, 5, 7}, SIZE_MAX, 1}};
    rig r;

    (void)state;
    open_rig(&r, false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t way = 0; way < 4; way++) {
            rounds = 0;
            meet(&r, cases[i].round_bytes, cases[i].sizes, MOST_EXCHANGES, way % 2 == 1, way > 1);
            assert_int_equal(rounds, cases[i].rounds);
        }
    close_rig(&r);
    open_rig(&r, true);
    for (uint32_t way = 0; way < 4; way++)
        meet(&r, 3000, (const size_t[]){20000, 5, 2000}, MOST_EXCHANGES, way % 2 == 1, way > 1);
    close_rig(&r);
}

/* Members on one rank read each other's memory, so short collectives are not special there. */
static void two_members_on_a_rank(void **state)
{
    rig r;

    (void)state;
    open_rig(&r, true);
    for (uint32_t way = 0; way < 4; way++)
        for (size_t size = 1; size < MOST_ELEMENTS; size = size * 5 + 1)
            meet(&r, SIZE_MAX, &size, 1, way % 2 == 1, way > 1);
    close_rig(&r);
}

/* A collective sends the bytes that bgi_ranks_meeting_bytes predicts. */
static void bytes_are_as_foretold(void **state)
{
    const uint32_t own = test_ranks_transport()->rank;
    rig r;

    (void)state;
    open_rig(&r, false);
    for (size_t size = 100; size < MOST_ELEMENTS; size *= 3) {
        const bgi_exchange exchange = {.pattern = {.kind = BGI_PATTERN_SUM, .size = r.group.size, .count = size},
                                       .dtype = BG_FLOAT32};
        size_t foretold = 0;
        for (uint32_t other = 0; other < r.group.size; other++)
            foretold += other != own ? bgi_ranks_meeting_bytes(&exchange, 1, own, other, true).sent : 0;
        bytes = 0;
        meet(&r, SIZE_MAX, &size, 1, false, false);
        assert_int_equal(bytes, foretold);
    }
    close_rig(&r);
}

/* Rank 0 waits for rank 2, which waits for rank 1, which does nothing: ranks 0 and 2 report rank 1. */
static void report_names_the_silent_rank(void **state)
{
    const uint32_t own = test_ranks_transport()->rank, from = own == 0 ? 2 : 1;
    const struct timespec pause = {.tv_sec = 6}; /* rank 1 stays silent until both reports are there */
    bg_error error = {0};
    int32_t value = 0;
    rig r;

    (void)state;
    if (rank_count() < 3)
        skip();
    open_rig(&r, false);
    r.ranks.wait_limit_s = 2.0; /* half of the limit is longer than a busy machine stops a rank */
    may_be_lost = true;
    if (own == 0 || own == 2)
        assert_int_equal(bgi_ranks_hand(r.transport, from, own, &value, sizeof value, &error), BG_ERROR_TIMEOUT);
    else
        nanosleep(&pause, NULL);
    if (own == 0 &&
        strstr(error.message, "nothing from rank 2 for 2 s (wait_limit_s), which waits too; no sign of rank 1") == NULL)
        fail_msg("%s", error.message);
    if (own == 2 && strstr(error.message, "no sign of rank 1") == NULL)
        fail_msg("%s", error.message);
    may_be_lost = false;
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_member_a_rank),
                                       cmocka_unit_test(two_members_on_a_rank),
                                       cmocka_unit_test(messages_are_cut_for_a_carrier_that_asks),
                                       cmocka_unit_test(much_comes_in_rounds),
                                       cmocka_unit_test(bytes_are_as_foretold),
                                       cmocka_unit_test(report_names_the_silent_rank)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
