/*
 * test_io.c: transfers in pieces, on a device that the test builds. Each byte is copied once, by any number of threads,
 * in the order of the queue. An idle worker returns to other work after a piece. A transfer is counted when any thread
 * has copied its last piece.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/engine.h"

enum { PIECE = 64 << 10, THREADS = 4, ROUNDS = 20, ARENA = 12 << 20 };

/* The bytes of each transfer in the queue: close to one piece or several pieces, and 0 for the fourth transfer. */
static const size_t sizes[] = {1, PIECE - 1, PIECE, 0, PIECE + 1, 3 * PIECE, 5 << 20, 8 * PIECE - 7, 2 * PIECE};
enum { TRANSFERS = sizeof sizes / sizeof *sizes };

typedef struct counted_device counted_device;

typedef struct queue {
    bg_plan plan;
    bgi_plan_device program;
    bgi_transfer transfers[TRANSFERS];
    bgi_transport_type transport_type;
    bgi_transport transport;
    bgi_runner runner;
    bgi_runner *local[1];
    bgi_engine engine;
    bgi_worker worker;
    counted_device *device;
} queue;

/* Counts the copied bytes, and the calls that copy them. */
struct counted_device {
    bgi_device base;
    queue *q;
    bool is_hollow; /* does not copy, because addresses are only numbers */
    void (*after)(queue *q, uint32_t copies);
    _Atomic uint64_t copied[TRANSFERS], all_bytes;
    _Atomic uint32_t copies, mistakes;
};

static uint64_t load_done(queue *q)
{
    return atomic_load(&q->runner.io_done.value);
}

/* Copies a piece of the first transfer that is not complete, and counts the copy; a piece outside this transfer, or a
 * piece that is too large, is a mistake. */
static void copy(bgi_device *base, void *to, const void *from, size_t size_bytes)
{
    counted_device *device = (counted_device *)base;
    const uint64_t number = load_done(device->q) % TRANSFERS;
    uint32_t copies;

    if (!device->is_hollow) {
        const bgi_transfer *transfer = &device->q->transfers[number];
        const char *near = transfer->action.kind == BG_ACTION_LOAD ? to : from;
        if (near < base->arena + transfer->arena_offset ||
            near + size_bytes > base->arena + transfer->arena_offset + transfer->size_bytes || size_bytes > PIECE)
            atomic_fetch_add(&device->mistakes, 1);
        memcpy(to, from, size_bytes);
    }
    atomic_fetch_add(&device->copied[number], size_bytes);
    atomic_fetch_add(&device->all_bytes, size_bytes);
    copies = atomic_fetch_add(&device->copies, 1) + 1;
    if (device->after != NULL)
        device->after(device->q, copies);
}

static const bgi_device_type counted_type = {.name = "counted", .copy = copy};

static void create(queue *q, counted_device *device)
{
    size_t offset = 0;

    memset(q, 0, sizeof *q);
    memset(device, 0, sizeof *device);
    device->base.type = &counted_type;
    device->q = q;
    q->device = device;
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        q->transfers[i] = (bgi_transfer){.action = {.kind = i % 2 == 0 ? BG_ACTION_LOAD : BG_ACTION_STORE},
                                         .arena_offset = offset,
                                         .remote_offset = offset,
                                         .size_bytes = sizes[i]};
        offset += sizes[i];
    }
    assert_true(offset <= ARENA);
    q->plan.replicas = q->plan.device_count = 1;
    q->program.transfers = q->transfers;
    q->program.transfer_count = TRANSFERS;
    q->transport.type = &q->transport_type;
    q->local[0] = &q->runner;
    q->engine.plan = &q->plan;
    q->engine.runners = &q->runner;
    q->engine.device_count = q->engine.local_count = 1;
    q->engine.local = q->local;
    assert_true(bgi_event_count_init(&q->engine.events));
    assert_true(bgi_event_count_init(&q->engine.io_events));
    q->worker.engine = &q->engine;
    q->runner.engine = &q->engine;
    q->runner.plan = &q->plan;
    q->runner.program = &q->program;
    q->runner.device = &device->base;
    q->runner.transport = &q->transport;
    atomic_store(&q->runner.is_owned, true);
}

static void destroy(queue *q)
{
    bgi_event_count_clear(&q->engine.events);
    bgi_event_count_clear(&q->engine.io_events);
}

static void *move_all(void *argument)
{
    queue *q = argument;

    while (load_done(q) < (uint64_t)ROUNDS * TRANSFERS)
        bgi_io_run(&q->runner, &q->worker, BGI_IO_ALL);
    return NULL;
}

static void many_threads_copy_each_byte_once(void **state)
{
    static queue q;
    static counted_device device;
    char *arena = malloc(ARENA), *store = malloc(ARENA);
    pthread_t threads[THREADS];

    (void)state;
    assert_non_null(arena);
    assert_non_null(store);
    for (size_t i = 0; i < ARENA; i++) {
        arena[i] = (char)(i * 31 >> 3);
        store[i] = (char)(i * 17 >> 5);
    }
    create(&q, &device);
    device.base.arena = arena;
    device.base.store = store;
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, move_all, &q), 0);
    for (uint32_t round = 0; round < ROUNDS; round++)
        bgi_io_issue(&q.runner, TRANSFERS);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&device.mistakes), 0);
    assert_int_equal(load_done(&q), ROUNDS * TRANSFERS);
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        const bgi_transfer *t = &q.transfers[i];
        const bool is_load = t->action.kind == BG_ACTION_LOAD;
        assert_int_equal(atomic_load(&device.copied[i]), ROUNDS * sizes[i]);
        for (size_t at = t->arena_offset; at < t->arena_offset + sizes[i]; at++)
            if (arena[at] != store[at] || arena[at] != (is_load ? (char)(at * 17 >> 5) : (char)(at * 31 >> 3)))
                fail_msg("transfer %u, byte %zu of %zu", i, at - t->arena_offset, sizes[i]);
    }
    assert_false(bgi_io_is_wanted(&q.runner));
    destroy(&q);
    free(arena);
    free(store);
}

/* At the second copy, gives the device a call whose only part no worker has started. */
static void offer_parts(queue *q, uint32_t copies)
{
    if (copies == 2)
        bgi_ticket_publish(&q->runner.ticket, 1);
}

/* Creates a transfer of nine pieces, followed by a short transfer. */
static void create_two(queue *q, counted_device *device)
{
    static char untouched[9 * PIECE + 8]; /* memory, so that addresses are within an object */

    create(q, device);
    device->is_hollow = true;
    device->base.arena = device->base.store = untouched;
    q->transfers[0].size_bytes = 9 * PIECE;
    q->transfers[1].size_bytes = 7;
    q->program.transfer_count = 2;
}

static void an_idle_worker_leaves_after_a_piece(void **state)
{
    static queue q;
    static counted_device device;
    uint32_t part;
    uint64_t generation;

    (void)state;
    create_two(&q, &device);
    device.after = offer_parts;
    bgi_io_issue(&q.runner, 2);
    assert_true(bgi_io_run(&q.runner, &q.worker, BGI_IO_WHILE_IDLE));
    assert_int_equal(atomic_load(&device.copies), 2);
    assert_int_equal(load_done(&q), 0);
    assert_true(bgi_io_is_wanted(&q.runner));
    /* A worker copies one piece at a time while there is other work, and the remaining pieces when there is not. */
    assert_true(bgi_io_run(&q.runner, &q.worker, BGI_IO_WHILE_IDLE));
    assert_int_equal(atomic_load(&device.copies), 3);
    assert_true(bgi_ticket_claim(&q.runner.ticket, false, &part, &generation));
    assert_true(bgi_io_run(&q.runner, &q.worker, BGI_IO_WHILE_IDLE));
    assert_int_equal(atomic_load(&device.copies), 10);
    assert_int_equal(atomic_load(&device.all_bytes), 9 * PIECE + 7);
    assert_int_equal(load_done(&q), 2);
    assert_false(bgi_io_is_wanted(&q.runner));
    destroy(&q);
}

/* A device that waits for the first transfer copies its remaining pieces, and does not begin the next transfer. */
static void who_waits_does_as_far_as_it_needs(void **state)
{
    static queue q;
    static counted_device device;

    (void)state;
    create_two(&q, &device);
    device.after = offer_parts;
    bgi_io_issue(&q.runner, 2);
    bgi_io_run(&q.runner, &q.worker, BGI_IO_WHILE_IDLE);
    assert_int_equal(atomic_load(&device.copies), 2);
    assert_true(bgi_io_reached(&q.runner, &q.worker, 1));
    assert_int_equal(atomic_load(&device.copies), 9);
    assert_int_equal(load_done(&q), 1);
    assert_true(bgi_io_reached(&q.runner, &q.worker, 2));
    assert_int_equal(atomic_load(&device.copies), 10);
    destroy(&q);
}

/* Another thread holds a piece of the transfer: all other pieces are copied, but the transfer is not counted and the
 * next one does not begin. */
static void a_transfer_is_done_when_its_last_piece_is(void **state)
{
    static queue q;
    static counted_device device;
    uint32_t piece;
    uint64_t generation;

    (void)state;
    create_two(&q, &device);
    device.after = offer_parts;
    bgi_io_issue(&q.runner, 2);
    bgi_io_run(&q.runner, &q.worker, BGI_IO_WHILE_IDLE);
    assert_true(bgi_ticket_claim(&q.runner.io_ticket, true, &piece, &generation));
    assert_int_equal(piece, 8);
    assert_false(bgi_io_reached(&q.runner, &q.worker, 2));
    assert_int_equal(atomic_load(&device.copies), 8);
    assert_int_equal(load_done(&q), 0);
    assert_false(bgi_io_is_wanted(&q.runner));
    assert_ptr_equal(atomic_load(&q.runner.wait_counter), &q.runner.io_done);
    /* The other thread has copied its piece and returns, so there is work again. */
    atomic_fetch_sub(&q.runner.pieces_left, 1);
    assert_true(bgi_io_is_wanted(&q.runner));
    assert_true(bgi_io_reached(&q.runner, &q.worker, 2));
    assert_int_equal(load_done(&q), 2);
    destroy(&q);
}

/* If a ticket could not count a transfer's pieces of the usual size, the pieces are larger. */
static void pieces_of_a_huge_transfer_are_larger(void **state)
{
    static queue q;
    static counted_device device;
    const size_t huge = ((size_t)BGI_TICKET_MOST + 1) * PIECE + 5;

    (void)state;
    if (sizeof(size_t) < 8)
        skip();
    create_two(&q, &device);
    q.transfers[0].size_bytes = huge;
    bgi_io_issue(&q.runner, 1);
    assert_true(bgi_io_reached(&q.runner, &q.worker, 1));
    assert_int_equal(atomic_load(&device.all_bytes), huge);
    assert_int_equal(atomic_load(&device.copies), (BGI_TICKET_MOST + 1) / 2 + 1);
    destroy(&q);
}

/* Stops the engine at the third copy; a canceled transfer copies no further piece. */
static void stop_engine(queue *q, uint32_t copies)
{
    atomic_store(&q->engine.is_stopping, copies >= 3);
}

static void a_stopped_engine_copies_no_further_piece(void **state)
{
    static queue q;
    static counted_device device;

    (void)state;
    create_two(&q, &device);
    device.after = stop_engine;
    bgi_io_issue(&q.runner, 2);
    assert_true(bgi_io_run(&q.runner, &q.worker, BGI_IO_ALL));
    assert_int_equal(atomic_load(&device.copies), 3);
    assert_int_equal(load_done(&q), 0);
    destroy(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_copy_each_byte_once),
        cmocka_unit_test(an_idle_worker_leaves_after_a_piece),
        cmocka_unit_test(who_waits_does_as_far_as_it_needs),
        cmocka_unit_test(a_transfer_is_done_when_its_last_piece_is),
        cmocka_unit_test(pieces_of_a_huge_transfer_are_larger),
        cmocka_unit_test(a_stopped_engine_copies_no_further_piece),
    };

    return cmocka_run_group_tests_name("runtime/io", tests, NULL, NULL);
}
