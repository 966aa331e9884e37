/*
 * io.c: transfers between arenas and remote stores. Knows queues and memory; not why something is moved.
 *
 * A device's queue is its plan's list of transfers, over and over: the owner of the device counts those that are
 * issued, whoever holds the queue does the next ones in order and counts those that are done. Nothing is ever copied
 * into a queue, so it cannot be full.
 *
 * Nobody waits for a queue that somebody holds: who finds it held leaves. So the holder looks once more when it has let
 * go: a transfer that was issued in between would have no one else.
 *
 * What replicas keep in pieces is loaded from all of them. Such a transfer waits for counters too, those of the other
 * replicas' queues; while it does, nobody wants its queue, and whoever raises such a counter looks whether it is wanted
 * now.
 */
#include "runtime/engine.h"

#include <string.h>

#include "core/clock.h"

/* ---- other replicas ---- */

static uint32_t count_members(const bgi_device *device, uint32_t axes)
{
    const bg_mesh mesh = bgi_plan_mesh(device->plan);

    return bg_mesh_group_size(&mesh, axes);
}

/* A replica that is not done with what transfer `number` waits for (plan.h says how it is counted), or NULL. */
static const bgi_device *find_late_peer(const bgi_device *device, uint64_t number)
{
    const uint64_t count = device->program->transfer_count;
    const bgi_transfer *transfer = &device->program->transfers[number % count];
    const uint64_t target = number / count * count + transfer->peer_wait;

    if (transfer->peer_wait == 0 || target <= count)
        return NULL;
    for (uint32_t member = 0; member < count_members(device, transfer->piece_axes); member++) {
        const bgi_device *peer = bgi_group_member(device, transfer->piece_axes, member);
        if (atomic_load(&peer->io_done.value) < target - count)
            return peer;
    }
    return NULL;
}

static bool peers_are_done(const bgi_device *device, uint64_t number)
{
    return find_late_peer(device, number) == NULL;
}

const bgi_device *bgi_io_late_peer(const bgi_device *device)
{
    const uint64_t done = atomic_load(&device->io_done.value);

    return atomic_load(&device->io_issued.value) > done ? find_late_peer(device, done) : NULL;
}

bool bgi_io_is_wanted(bgi_device *device)
{
    const uint64_t done = atomic_load(&device->io_done.value);

    return atomic_load(&device->io_issued.value) > done && !atomic_load(&device->io_is_held) &&
           peers_are_done(device, done);
}

/* Somebody who sleeps may do transfers. */
static void wake(bgi_engine *engine)
{
    if (bgi_event_count_has_sleepers(&engine->io_events))
        bgi_event_count_notify_one(&engine->io_events);
    else
        bgi_event_count_notify_one(&engine->events);
}

static void note(bgi_device *device, const bgi_worker *worker, const bgi_transfer *transfer, uint64_t number,
                 uint64_t start_ns)
{
    const bg_plan *plan = device->plan;
    const uint64_t iteration = number / device->program->transfer_count;
    const size_t end = transfer->arena_offset + transfer->size_bytes;
    bg_trace_event event = {.start_ns = start_ns - device->engine->created_ns,
                            .action = transfer->action,
                            .replica = device->replica,
                            .device = device->number,
                            .worker = worker->number,
                            .step = device->engine->run->step};

    if (bgi_plan_counts_steps(plan))
        event.step += iteration - device->run_begin;
    event.end_ns = bgi_clock_ns() - device->engine->created_ns;
    device->io_trace.events[device->io_trace.count++ % device->io_trace.capacity] = event;
    if (end > device->io_touched_bytes)
        device->io_touched_bytes = end;
}

/* Where a transfer finds its bytes in the remote store. */
static char *find_far(const bgi_device *device, const bgi_transfer *transfer)
{
    return (char *)device->remotes[device->number] + transfer->remote_offset;
}

/* All that replicas know of each other's remote stores: the m-th piece is the m-th member's. */
static void gather(const bgi_device *device, const bgi_transfer *transfer, char *near)
{
    for (uint32_t member = 0; member < count_members(device, transfer->piece_axes); member++)
        memcpy(near + member * transfer->piece_bytes,
               find_far(bgi_group_member(device, transfer->piece_axes, member), transfer), transfer->piece_bytes);
}

static void move(bgi_device *device, const bgi_worker *worker, uint64_t number)
{
    const bgi_transfer *transfer = &device->program->transfers[number % device->program->transfer_count];
    char *near = (char *)device->arenas[device->number] + transfer->arena_offset;
    const bg_mesh mesh = bgi_plan_mesh(device->plan);
    const uint64_t start_ns = bgi_trace_is_on(device) ? bgi_clock_ns() : 0;

    if (transfer->action.kind == BG_ACTION_LOAD && transfer->piece_bytes > 0)
        gather(device, transfer, near);
    else if (transfer->action.kind == BG_ACTION_LOAD)
        memcpy(near, find_far(device, transfer), transfer->size_bytes);
    else if (transfer->piece_bytes > 0)
        memcpy(find_far(device, transfer),
               near + bg_mesh_group_member(&mesh, transfer->piece_axes, device->replica) * transfer->piece_bytes,
               transfer->piece_bytes);
    else
        memcpy(find_far(device, transfer), near, transfer->size_bytes);
    if (bgi_trace_is_on(device))
        note(device, worker, transfer, number, start_ns);
}

/* Replicas whose next transfer may have waited for this device's last one. */
static void wake_peers(const bgi_device *device)
{
    const uint32_t axes = device->program->piece_axes;

    for (uint32_t member = 0; member < count_members(device, axes); member++) {
        bgi_device *peer = bgi_group_member(device, axes, member);
        if (peer != device && bgi_io_is_wanted(peer))
            wake(device->engine);
    }
}

static bool is_stopping(const bgi_device *device)
{
    return atomic_load_explicit(&device->engine->is_stopping, memory_order_relaxed);
}

/* An idle worker leaves transfers for a device that can go on. */
static bool may_go_on(const bgi_device *device, uint64_t until)
{
    return until != BGI_IO_WHILE_IDLE || bgi_workers_find_device(device->engine) == NULL;
}

bool bgi_io_run(bgi_device *device, const bgi_worker *worker, uint64_t until)
{
    bool has_moved = false;
    uint64_t done;

    do {
        if (atomic_load(&device->io_done.value) >= until || !bgi_io_is_wanted(device) ||
            atomic_exchange(&device->io_is_held, true))
            break;
        done = atomic_load_explicit(&device->io_done.value, memory_order_relaxed);
        while (done < until && done < atomic_load_explicit(&device->io_issued.value, memory_order_acquire) &&
               peers_are_done(device, done) && !is_stopping(device) && (!has_moved || may_go_on(device, until))) {
            move(device, worker, done);
            bgi_counter_raise(&device->io_done, ++done, device);
            if (device->program->piece_axes != 0)
                wake_peers(device);
            has_moved = true;
        }
        atomic_store(&device->io_is_held, false);
    } while (!is_stopping(device) && may_go_on(device, until));
    if (has_moved && bgi_io_is_wanted(device))
        wake(device->engine);
    return has_moved;
}

void bgi_io_issue(bgi_device *device, uint32_t count)
{
    if (count == 0)
        return;
    atomic_store(&device->io_issued.value,
                 atomic_load_explicit(&device->io_issued.value, memory_order_relaxed) + count);
    wake(device->engine);
}

bool bgi_io_reached(bgi_device *device, const bgi_worker *worker, uint64_t target)
{
    if (atomic_load_explicit(&device->io_done.value, memory_order_acquire) >= target)
        return true;
    bgi_io_run(device, worker, target);
    return bgi_device_reached(device, &device->io_done, target);
}
