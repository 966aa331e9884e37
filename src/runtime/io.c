/*
 * io.c: runs transfers between arenas and remote stores. It knows queues and memory, but not why data is moved.
 *
 * A device's queue is its plan's list of transfers, repeated for each step. The owner of the device counts the
 * transfers that are issued. The holder of the queue does the next transfers in order and counts completed ones. A
 * queue stores nothing, so it cannot be full.
 *
 * Any number of threads can copy a transfer of more than PIECE_BYTES in pieces without holding the queue. The holder
 * begins it, and counts it as done when no piece is left.
 *
 *     hold: publish the pieces -- release -- copy pieces, here and elsewhere -- hold: count it, begin the next
 *
 * A device has one transfer in progress at a time, so when a transfer is done, all earlier ones are done. A piece takes
 * about ten microseconds; after each piece an idle worker looks for a ready device.
 *
 * A thread that finds a queue held leaves it; no thread waits for one. So the holder checks once more after releasing
 * it, because no other thread would do a transfer that was issued in between.
 *
 * Values in pieces are loaded from all replicas. Such a transfer also waits for counters of the other replicas' queues.
 * While it waits, its queue counts as empty, and a thread that raises such a counter checks whether the transfer can
 * begin.
 *
 * The holder also continues a sum over replicas that overlaps with the program (collective.c).
 */
#include "runtime/engine.h"

#include <string.h>

#include "core/clock.h"

enum {
    PIECE_BYTES = 64 << 10,
    WAKING_PIECES = 8 /* copying this number of pieces takes longer than waking a thread */
};

/* ---- other replicas ---- */

static uint64_t find_done(const bgi_runner *runner, uint32_t replica)
{
    return replica == runner->replica ? atomic_load(&runner->io_done.value) : atomic_load(&runner->peer_done[replica]);
}

static uint32_t count_members(const bgi_runner *runner, uint32_t axes)
{
    const bg_mesh mesh = bgi_plan_mesh(runner->plan);

    return bg_mesh_group_size(&mesh, axes);
}

/* Returns a replica that has not completed the transfers that transfer `number` waits for, or BGI_NO_REPLICA (plan.h
 * says how transfers are counted). */
static uint32_t find_late_replica(const bgi_runner *runner, uint64_t number)
{
    const uint64_t count = runner->program->transfer_count;
    const bgi_transfer *transfer = &runner->program->transfers[number % count];
    const uint64_t target = number / count * count + transfer->peer_wait;

    if (transfer->peer_wait == 0 || target <= count)
        return BGI_NO_REPLICA;
    for (uint32_t member = 0; member < count_members(runner, transfer->piece_axes); member++) {
        const uint32_t replica = bgi_group_replica(runner, transfer->piece_axes, member);
        if (find_done(runner, replica) < target - count)
            return replica;
    }
    return BGI_NO_REPLICA;
}

static bool peers_are_done(const bgi_runner *runner, uint64_t number)
{
    return find_late_replica(runner, number) == BGI_NO_REPLICA;
}

uint32_t bgi_io_late_replica(const bgi_runner *runner)
{
    const uint64_t done = atomic_load(&runner->io_done.value);

    return atomic_load(&runner->io_issued.value) > done ? find_late_replica(runner, done) : BGI_NO_REPLICA;
}

static bool has_fetched(const bgi_runner *runner)
{
    const bgi_transport_type *type = runner->transport->type;

    return type->fetched == NULL || type->fetched(runner->transport, runner->index);
}

/* Whether the next transfer is one of the first `until` and can begin, or can be counted as done. */
static bool wants_holder(const bgi_runner *runner, uint64_t until)
{
    const uint64_t done = atomic_load(&runner->io_done.value);

    return done < until && atomic_load(&runner->io_issued.value) > done && peers_are_done(runner, done) &&
           (!atomic_load(&runner->is_fetching) || has_fetched(runner)) &&
           (!atomic_load(&runner->is_copying) || atomic_load(&runner->pieces_left) == 0);
}

bool bgi_io_is_wanted(bgi_runner *runner)
{
    return bgi_ticket_is_open(&runner->io_ticket) ||
           (!atomic_load(&runner->io_is_held) && (wants_holder(runner, UINT64_MAX) || bgi_sum_is_wanted(runner)));
}

void bgi_io_wake(bgi_engine *engine)
{
    if (bgi_event_count_has_sleepers(&engine->io_events))
        bgi_event_count_notify_one(&engine->io_events);
    else
        bgi_event_count_notify_one(&engine->events);
}

static void note(bgi_runner *runner, const bgi_worker *worker, const bgi_transfer *transfer, uint64_t number)
{
    const bg_plan *plan = runner->plan;
    const uint64_t iteration = number / runner->program->transfer_count;
    const size_t end = transfer->arena_offset + transfer->size_bytes;
    bg_trace_event event = {.start_ns = runner->io_start_ns - runner->engine->created_ns,
                            .action = transfer->action,
                            .replica = runner->replica,
                            .device = runner->number,
                            .worker = worker->number,
                            .step = runner->engine->run->step,
                            .is_beside = true};

    if (bgi_plan_counts_steps(plan))
        event.step += iteration - runner->run_begin;
    event.end_ns = bgi_clock_ns() - runner->engine->created_ns;
    bgi_trace_put(&runner->io_trace, &event);
    if (end > runner->io_touched_bytes)
        runner->io_touched_bytes = end;
}

/* Returns the address of a transfer's bytes in the remote store. */
static char *find_far(const bgi_runner *runner, const bgi_transfer *transfer)
{
    return runner->device->store + transfer->remote_offset;
}

/* Begins to fetch the pieces of a value; piece m is at member m of the group. */
static void begin_gather(bgi_runner *runner, const bgi_transfer *transfer, char *near)
{
    for (uint32_t member = 0; member < count_members(runner, transfer->piece_axes); member++) {
        const uint32_t peer = bgi_group_device(runner, transfer->piece_axes, member);
        char *to = near + member * transfer->piece_bytes;
        if (peer == runner->index)
            runner->device->type->copy(runner->device, to, find_far(runner, transfer), transfer->piece_bytes);
        else
            runner->transport->type->fetch(runner->transport, runner->index, peer, transfer->remote_offset, to,
                                           transfer->piece_bytes);
    }
    atomic_store(&runner->is_fetching, true);
}

/* Fetches the pieces of a value; returns false until all have arrived. */
static bool gather(bgi_runner *runner, const bgi_transfer *transfer, char *near)
{
    if (!atomic_load_explicit(&runner->is_fetching, memory_order_relaxed))
        begin_gather(runner, transfer, near);
    if (!has_fetched(runner))
        return false;
    atomic_store(&runner->is_fetching, false);
    return true;
}

/* ---- pieces ---- */

static bgi_copying find_copying(const bgi_runner *runner, const bgi_transfer *transfer, char *near)
{
    const bg_mesh mesh = bgi_plan_mesh(runner->plan);
    const bool is_piece = transfer->piece_bytes > 0, is_store = transfer->action.kind == BG_ACTION_STORE;
    char *far = find_far(runner, transfer);
    bgi_copying copying = {.size_bytes = is_piece ? transfer->piece_bytes : transfer->size_bytes,
                           .piece_bytes = PIECE_BYTES};

    if (is_piece)
        near += bg_mesh_group_member(&mesh, transfer->piece_axes, runner->replica) * copying.size_bytes;
    copying.to = is_store ? far : near;
    copying.from = is_store ? near : far;
    while ((copying.size_bytes - 1) / copying.piece_bytes >= BGI_TICKET_MOST)
        copying.piece_bytes *= 2;
    return copying;
}

static void copy_piece(bgi_runner *runner, const bgi_copying *copying, uint32_t piece)
{
    const size_t begin = piece * copying->piece_bytes, left = copying->size_bytes - begin;
    const size_t size_bytes = left < copying->piece_bytes ? left : copying->piece_bytes;
    bgi_device *device = runner->device;

    bgi_device_enter(device);
    device->type->copy(device, copying->to + begin, copying->from + begin, size_bytes);
    bgi_device_leave(device);
}

/* Called by the holder: copies a small transfer, or publishes the pieces of a larger one. Returns false while pieces
 * are left. */
static bool store_or_load(bgi_runner *runner, const bgi_transfer *transfer, char *near, uint64_t until)
{
    const bgi_copying copying = find_copying(runner, transfer, near);
    const uint32_t count = (uint32_t)((copying.size_bytes + copying.piece_bytes - 1) / copying.piece_bytes);

    if (atomic_load_explicit(&runner->is_copying, memory_order_relaxed)) {
        if (atomic_load_explicit(&runner->pieces_left, memory_order_acquire) > 0)
            return false;
        atomic_store(&runner->is_copying, false);
        return true;
    }
    if (count <= 1) {
        if (count == 1)
            copy_piece(runner, &copying, 0);
        return true;
    }
    runner->copying = copying;
    atomic_store_explicit(&runner->pieces_left, count, memory_order_relaxed);
    atomic_store(&runner->is_copying, true);
    bgi_ticket_publish(&runner->io_ticket, count);
    if (until < BGI_IO_ALL && count >= WAKING_PIECES)
        bgi_io_wake(runner->engine);
    return false;
}

static bool is_stopping(const bgi_runner *runner)
{
    return atomic_load_explicit(&runner->engine->is_stopping, memory_order_relaxed);
}

/* Whether the thread may continue with transfers: an idle worker stops when a device can continue or a call has parts
 * left. */
static bool may_go_on(const bgi_runner *runner, uint64_t until)
{
    return until != BGI_IO_WHILE_IDLE || !bgi_workers_are_wanted(runner->engine);
}

/* Copies pieces of the current transfer; returns true when it copied any. runner->copying does not change until the
 * claimed piece is counted. */
static bool copy_pieces(bgi_runner *runner, uint64_t until)
{
    uint64_t generation;
    uint32_t piece;
    bool has_copied = false;

    while (atomic_load_explicit(&runner->io_done.value, memory_order_relaxed) < until && !is_stopping(runner) &&
           (!has_copied || may_go_on(runner, until)) &&
           bgi_ticket_claim(&runner->io_ticket, false, &piece, &generation)) {
        copy_piece(runner, &runner->copying, piece);
        atomic_fetch_sub(&runner->pieces_left, 1);
        has_copied = true;
    }
    return has_copied;
}

/* ---- the queue ---- */

/* Begins or continues transfer `number`; returns true when it is done. */
static bool move(bgi_runner *runner, const bgi_worker *worker, uint64_t number, uint64_t until)
{
    const bgi_transfer *transfer = &runner->program->transfers[number % runner->program->transfer_count];
    char *near = runner->device->arena + transfer->arena_offset;
    const bool is_begun = atomic_load_explicit(&runner->is_fetching, memory_order_relaxed) ||
                          atomic_load_explicit(&runner->is_copying, memory_order_relaxed);
    bool is_done = true;

    if (bgi_trace_is_on(runner) && !is_begun)
        runner->io_start_ns = bgi_clock_ns();
    bgi_device_enter(runner->device);
    if (transfer->action.kind == BG_ACTION_LOAD && transfer->piece_bytes > 0 && !transfer->is_own)
        is_done = gather(runner, transfer, near);
    else
        is_done = store_or_load(runner, transfer, near, until);
    bgi_device_leave(runner->device);
    if (is_done && bgi_trace_is_on(runner))
        note(runner, worker, transfer, number);
    return is_done;
}

/* Notifies replicas whose next transfer may wait for this device's last transfer. */
static void tell_peers(bgi_runner *runner, uint64_t done)
{
    const uint32_t axes = runner->program->piece_axes;

    for (uint32_t member = 0; axes != 0 && member < count_members(runner, axes); member++) {
        const uint32_t peer = bgi_group_device(runner, axes, member);
        if (peer != runner->index)
            bgi_runner_tell(runner, peer, BGI_NOTE_MOVED, done);
    }
}

void bgi_io_peer_moved(bgi_runner *runner, uint32_t replica, uint64_t done)
{
    atomic_store(&runner->peer_done[replica], done);
    if (bgi_io_is_wanted(runner))
        bgi_io_wake(runner->engine);
}

/* Called by the holder: does issued transfers. It counts a transfer whose pieces are all copied even when it must not
 * begin another one. */
static bool move_issued(bgi_runner *runner, const bgi_worker *worker, uint64_t until, bool has_moved)
{
    uint64_t done = atomic_load_explicit(&runner->io_done.value, memory_order_relaxed);

    while (
        done < until && done < atomic_load_explicit(&runner->io_issued.value, memory_order_acquire) &&
        peers_are_done(runner, done) && !is_stopping(runner) &&
        (!has_moved || atomic_load_explicit(&runner->is_copying, memory_order_relaxed) || may_go_on(runner, until))) {
        if (!move(runner, worker, done, until))
            break;
        bgi_counter_raise(&runner->io_done, ++done, runner);
        tell_peers(runner, done);
        has_moved = true;
    }
    return has_moved;
}

bool bgi_io_run(bgi_runner *runner, const bgi_worker *worker, uint64_t until)
{
    bool has_moved = false, looks_again;

    do {
        looks_again = copy_pieces(runner, until);
        has_moved = has_moved || looks_again;
        if ((wants_holder(runner, until) || bgi_sum_is_wanted(runner)) && !atomic_exchange(&runner->io_is_held, true)) {
            has_moved = move_issued(runner, worker, until, has_moved);
            if (!is_stopping(runner))
                has_moved = bgi_sum_advance(runner, worker) || has_moved;
            atomic_store(&runner->io_is_held, false);
            looks_again = true;
        }
    } while (looks_again && !is_stopping(runner) && may_go_on(runner, until));
    if (bgi_io_is_wanted(runner)) /* the check includes transfers that were issued while the queue was held */
        bgi_io_wake(runner->engine);
    return has_moved;
}

void bgi_io_issue(bgi_runner *runner, uint32_t count)
{
    if (count == 0)
        return;
    atomic_store(&runner->io_issued.value,
                 atomic_load_explicit(&runner->io_issued.value, memory_order_relaxed) + count);
    bgi_io_wake(runner->engine);
}

bool bgi_io_reached(bgi_runner *runner, const bgi_worker *worker, uint64_t target)
{
    if (atomic_load_explicit(&runner->io_done.value, memory_order_acquire) >= target)
        return true;
    bgi_io_run(runner, worker, target);
    return bgi_runner_reached(runner, &runner->io_done, target);
}
