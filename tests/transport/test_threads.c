/*
 * test_threads.c: tests the behavior of any transport: messages in order and within their credits, collectives of
 * random groups with random patterns, shards of other stores, and notes. Here the transport is that of threads which
 * share memory; tests/copied runs the same tests over copies. For threads, the tests also check that no data are
 * copied.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

#ifndef TEST_TRANSPORT
#define TEST_TRANSPORT bgi_transport_threads
#define TEST_DEVICE    bgi_device_cpu
#endif

enum { MOST_DEVICES = 8, DEPTH = 3, SLOT_BYTES = 128, SLOTS_AT = 64, ARENA_BYTES = 4096, MOST_EXCHANGES = 3 };

typedef struct rig {
    bgi_device *devices[MOST_DEVICES];
    bgi_link links[2]; /* from 0 to 1, and back */
    bgi_group group;
    uint32_t members[MOST_DEVICES];
    bgi_transport *transport;
    uint32_t changes, raises[MOST_DEVICES];
    bgi_note told[8];
    uint32_t told_to[8], told_count;
} rig;

static void raise_counter(void *user, bgi_counter *counter, uint64_t value, uint32_t device)
{
    rig *r = user;

    atomic_store(&counter->value, value);
    r->raises[device]++;
}

static void note_change(void *user)
{
    ((rig *)user)->changes++;
}

static void take_note(void *user, uint32_t to, const bgi_note *note)
{
    rig *r = user;

    assert_true(r->told_count < 8);
    r->told_to[r->told_count] = to;
    r->told[r->told_count++] = *note;
}

/* Opens a transport of `count` devices, all in one group. */
static void open_rig(rig *r, uint32_t count)
{
    bgi_transport_setup setup = {
        .device_count = count,
        .link_count = 2,
        .group_count = 1,
        .devices = r->devices,
        .links = r->links,
        .groups = &r->group,
        .events = {.user = r, .raise = raise_counter, .changed = note_change, .told = take_note}};

    memset(r, 0, sizeof *r);
    for (uint32_t d = 0; d < count; d++) {
        assert_int_equal(TEST_DEVICE.create(&(bgi_device_setup){.arena_bytes = ARENA_BYTES, .store_bytes = 256},
                                            &r->devices[d], NULL),
                         BG_OK);
        r->members[d] = d;
    }
    for (uint32_t l = 0; l < 2; l++)
        r->links[l] = (bgi_link){.from = l, .to = 1 - l, .depth = DEPTH, .slot_bytes = SLOT_BYTES, .offset = SLOTS_AT};
    r->group = (bgi_group){count, r->members};
    assert_int_equal(TEST_TRANSPORT.create(&setup, &r->transport, NULL), BG_OK);
    assert_ptr_equal(r->transport->type, &TEST_TRANSPORT);
}

static void close_rig(rig *r)
{
    TEST_TRANSPORT.destroy(r->transport);
    for (uint32_t d = 0; d < MOST_DEVICES; d++)
        TEST_DEVICE.destroy(r->devices[d]);
}

static uint64_t value_of(const bgi_counter *counter)
{
    return atomic_load(&counter->value);
}

/* Calls progress until no message is in transit. */
static void settle(rig *r)
{
    while (TEST_TRANSPORT.progress != NULL && TEST_TRANSPORT.progress(r->transport))
        continue;
}

static void messages_arrive_in_their_slots(void **state)
{
    rig r;

    (void)state;
    open_rig(&r, 2);
    for (uint64_t sequence = 0; sequence < 10; sequence++) {
        char *window = TEST_TRANSPORT.window(r.transport, 0, sequence), seen[SLOT_BYTES];
        char expected[SLOT_BYTES];
        assert_true(sequence + 1 <= value_of(TEST_TRANSPORT.credit(r.transport, 0)) + DEPTH);
        memset(expected, (int)('a' + sequence), sizeof expected);
#ifndef TEST_COPIED
        assert_ptr_equal(window, r.devices[1]->arena + SLOTS_AT + sequence % DEPTH * SLOT_BYTES);
#endif
        memcpy(window, expected, sizeof expected);
        assert_memory_equal(window, expected, sizeof expected); /* the sender owns it until it is posted */
        assert_int_equal(value_of(TEST_TRANSPORT.arrived(r.transport, 0)), sequence);
        assert_int_equal(TEST_TRANSPORT.post(r.transport, 0, sequence), sequence);
        settle(&r);
        assert_int_equal(value_of(TEST_TRANSPORT.arrived(r.transport, 0)), sequence + 1);
        assert_int_equal(r.raises[1], sequence + 1);
        TEST_DEVICE.copy_out(r.devices[1], seen, r.devices[1]->arena + SLOTS_AT + sequence % DEPTH * SLOT_BYTES,
                             sizeof seen);
        assert_memory_equal(seen, expected, sizeof seen);
        if (sequence >= 2) { /* the receiver holds two messages */
            assert_int_equal(TEST_TRANSPORT.release(r.transport, 0, sequence - 2), sequence - 2);
            settle(&r);
            assert_int_equal(value_of(TEST_TRANSPORT.credit(r.transport, 0)), sequence - 1);
            assert_int_equal(r.raises[0], sequence - 1);
        }
    }
    assert_int_equal(value_of(TEST_TRANSPORT.arrived(r.transport, 1)), 0); /* the opposite direction is another link */
    close_rig(&r);
}

static void what_is_not_due_is_refused(void **state)
{
    rig r;

    (void)state;
    open_rig(&r, 2);
    assert_int_equal(TEST_TRANSPORT.post(r.transport, 0, 1), 0);
    assert_int_equal(TEST_TRANSPORT.release(r.transport, 0, 3), 0);
    settle(&r);
    assert_int_equal(value_of(TEST_TRANSPORT.arrived(r.transport, 0)), 0);
    assert_int_equal(value_of(TEST_TRANSPORT.credit(r.transport, 0)), 0);
    assert_int_equal(r.raises[0] + r.raises[1], 0);
    close_rig(&r);
}

/* ---- meetings ---- */

static uint32_t draw(uint32_t *random, uint32_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) % below;
}

static bgi_pattern draw_pattern(uint32_t *random, uint32_t size)
{
    const bgi_pattern_kind kind = (bgi_pattern_kind)draw(random, BGI_PATTERN_GATHER_ROWS + 1);
    const bool has_rows = kind == BGI_PATTERN_SUM_ROWS || kind == BGI_PATTERN_GATHER_ROWS;
    const size_t count = has_rows ? 1 + draw(random, 4) : 1 + draw(random, 60);

    return (bgi_pattern){.kind = kind,
                         .size = size,
                         .count = count,
                         .piece = has_rows ? 1 + draw(random, 5) : (count + size - 1) / size};
}

/* This function and the next one return the number of elements of the source and of the destination. */
static size_t count_from(const bgi_pattern *p)
{
    return p->kind == BGI_PATTERN_SUM_ROWS      ? p->count * p->piece * p->size
           : p->kind == BGI_PATTERN_GATHER_ROWS ? p->count * p->piece
                                                : p->count;
}

static size_t count_to(const bgi_pattern *p)
{
    return p->kind == BGI_PATTERN_GATHER_ROWS ? p->count * p->piece * p->size
           : p->kind == BGI_PATTERN_SUM_ROWS  ? p->count * p->piece
                                              : p->count;
}

/* Returns the sum of an element over members, added as a tree whose left part has the largest power of two of members
 * that is smaller than the number of members. */
static double add_tree(double (*from)[256], uint32_t first, uint32_t end, size_t at)
{
    uint32_t left = 1;

    if (end - first == 1)
        return from[first][at];
    for (uint32_t twice = 2; twice < end - first; twice *= 2)
        left = twice;
    return add_tree(from, first, first + left, at) + add_tree(from, first + left, end, at);
}

/* Computes the values that a reader must receive: sums in the members' order, or in a tree. */
static void compute(const bgi_pattern *p, const bgi_exchange *exchange, double (*from)[256], double *to,
                    uint32_t reader)
{
    const bg_reduction function = exchange->function;

    for (uint32_t maker = 0; maker < p->size; maker++) {
        const bgi_region put = bgi_pattern_put(p, maker, reader);
        const bool sums = bgi_pattern_sums(p);
        const bgi_region taken = sums ? bgi_pattern_take(p, maker, 0) : bgi_pattern_take(p, reader, maker);
        for (size_t row = 0; row < put.rows; row++)
            for (size_t i = 0; i < put.length; i++) {
                const size_t at = taken.first + row * taken.stride + i;
                double value = from[sums ? 0 : maker][at];
                for (uint32_t m = 1; sums && m < p->size; m++)
                    value = function == BG_REDUCE_SUM ? value + from[m][at] : from[m][at] > value ? from[m][at] : value;
                to[put.first + row * put.stride + i] =
                    sums && exchange->is_tree ? add_tree(from, 0, p->size, at) : value;
            }
    }
}

/* Runs the members one after the other, as on one worker: first all offer, then all compute their shares, then all
 * finish. */
static void meet(rig *r, uint32_t size, uint32_t *random)
{
    static double from[MOST_EXCHANGES][MOST_DEVICES][256], wanted[256], seen[256];
    bgi_exchange exchanges[MOST_DEVICES][MOST_EXCHANGES];
    bgi_pattern patterns[MOST_EXCHANGES];
    bgi_wait waits[MOST_DEVICES];
    const uint32_t count = 1 + draw(random, MOST_EXCHANGES);
    const bg_reduction function = draw(random, 2) == 0 ? BG_REDUCE_SUM : BG_REDUCE_MAX;
    const bool is_tree = function == BG_REDUCE_SUM && draw(random, 2) == 0;

    for (uint32_t e = 0; e < count; e++) {
        patterns[e] = draw_pattern(random, size);
        patterns[e].count = count_from(&patterns[e]) > 64 || count_to(&patterns[e]) > 64 ? 1 : patterns[e].count;
    }
    for (uint32_t m = 0; m < size; m++)
        for (uint32_t e = 0; e < count; e++) {
            char *place = r->devices[m]->arena + 1024 + e * 1024; /* 64 doubles each way */
            for (size_t i = 0; i < count_from(&patterns[e]); i++)
                from[e][m][i] = (double)draw(random, 2001) / 7.0 - 100.0;
            TEST_DEVICE.copy_in(r->devices[m], place, from[e][m], count_from(&patterns[e]) * sizeof(double));
            exchanges[m][e] = (bgi_exchange){patterns[e], BG_FLOAT64, function, place, place + 512, is_tree};
        }
    for (uint32_t m = 0; m < size; m++) {
        bgi_device_enter(r->devices[m]);
        waits[m] = TEST_TRANSPORT.offer(r->transport, 0, m, exchanges[m], count);
        bgi_device_leave(r->devices[m]);
        assert_ptr_equal(waits[m].counter, TEST_TRANSPORT.meeting(r->transport, 0, m, false));
        assert_int_equal(m + 1 < size ? value_of(waits[m].counter) < waits[m].target : 1, 1);
    }
    settle(r);
    for (uint32_t m = 0; m < size; m++) {
        assert_int_equal(value_of(waits[m].counter), waits[m].target);
        bgi_device_enter(r->devices[m]);
        bgi_exchange_run(r->transport, 0, m, exchanges[m], count);
        waits[m] = TEST_TRANSPORT.deliver(r->transport, 0, m);
        bgi_device_leave(r->devices[m]);
        assert_ptr_equal(waits[m].counter, TEST_TRANSPORT.meeting(r->transport, 0, m, true));
    }
    settle(r);
    for (uint32_t m = 0; m < size; m++) {
        assert_int_equal(value_of(waits[m].counter), waits[m].target);
        for (uint32_t e = 0; e < count; e++) {
            const size_t bytes = count_to(&patterns[e]) * sizeof(double);
            TEST_DEVICE.copy_out(r->devices[m], seen, exchanges[m][e].to, bytes);
            memcpy(wanted, seen, bytes); /* bytes that are not written */
            compute(&patterns[e], &exchanges[m][e], from[e], wanted, m);
            assert_memory_equal(seen, wanted, bytes);
        }
    }
}

static void members_get_what_the_pattern_says(void **state)
{
    uint32_t random = 7;

    (void)state;
    for (uint32_t size = 2; size <= MOST_DEVICES; size++) {
        rig r;
        open_rig(&r, size);
        for (uint32_t meeting = 0; meeting < 40; meeting++)
            meet(&r, size, &random);
#ifndef TEST_COPIED
        assert_int_equal(r.changes, 2 * 40); /* the last to arrive wakes the others */
#endif
        close_rig(&r);
    }
}

/* ---- stores and notes ---- */

static void pieces_of_stores_are_fetched(void **state)
{
    char seen[64] = "";
    rig r;

    (void)state;
    open_rig(&r, 3);
    TEST_DEVICE.copy_in(r.devices[2], r.devices[2]->store + 32, "piece of two", 13);
    TEST_DEVICE.copy_in(r.devices[1], r.devices[1]->store, "one", 4);
    bgi_device_enter(r.devices[0]);
    TEST_TRANSPORT.fetch(r.transport, 0, 2, 32, r.devices[0]->arena + 512, 13);
    TEST_TRANSPORT.fetch(r.transport, 0, 1, 0, r.devices[0]->arena + 640, 4);
    bgi_device_leave(r.devices[0]);
    while (TEST_TRANSPORT.fetched != NULL && !TEST_TRANSPORT.fetched(r.transport, 0))
        TEST_TRANSPORT.progress(r.transport);
    TEST_DEVICE.copy_out(r.devices[0], seen, r.devices[0]->arena + 512, 13);
    assert_string_equal(seen, "piece of two");
    TEST_DEVICE.copy_out(r.devices[0], seen, r.devices[0]->arena + 640, 4);
    assert_string_equal(seen, "one");
    close_rig(&r);
}

static void notes_are_told_in_order(void **state)
{
    rig r;

    (void)state;
    open_rig(&r, 2);
    for (uint64_t i = 0; i < 4; i++)
        TEST_TRANSPORT.tell(r.transport, BGI_HOST,
                            &(bgi_note){.kind = BGI_NOTE_VOTE, .from = 1, .value = i, .more = 10 + i});
    settle(&r);
    assert_int_equal(r.told_count, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(r.told_to[i], BGI_HOST);
        assert_int_equal(r.told[i].kind, BGI_NOTE_VOTE);
        assert_int_equal(r.told[i].from, 1);
        assert_int_equal(r.told[i].value, i);
        assert_int_equal(r.told[i].more, 10 + i);
    }
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_their_slots),    cmocka_unit_test(what_is_not_due_is_refused),
        cmocka_unit_test(members_get_what_the_pattern_says), cmocka_unit_test(pieces_of_stores_are_fetched),
        cmocka_unit_test(notes_are_told_in_order),
    };

    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
