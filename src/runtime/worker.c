/*
 * worker.c: the threads: looking for work, helping, sleeping; starting and leaving.
 */
#include "runtime/engine.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "runtime/placement.h"

enum {
    MOST_WORKERS = 1024,
    LOOKS_PER_CLOCK = 16,
    SPIN_NS = 40000,       /* a system's wake-up takes about this long */
    SPIN_CROWDED_NS = 2000 /* more workers than processors: somebody else needs this one */
};

static bool is_stopping(const bgi_engine *engine)
{
    return atomic_load(&engine->is_stopping);
}

/* Devices from the end of the pipeline to its beginning; visit 0 is the last device of replica 0. */
static bgi_device *visit_device(const bgi_engine *engine, uint32_t visit)
{
    const uint32_t replicas = engine->plan->replicas;
    const uint32_t number = engine->plan->device_count - 1 - visit / replicas;

    return &engine->devices[visit % replicas * engine->plan->device_count + number];
}

bgi_device *bgi_workers_find_device(const bgi_engine *engine)
{
    bgi_device *found = NULL;
    uint64_t least = UINT64_MAX;

    for (uint32_t visit = 0; visit < engine->device_count; visit++) {
        bgi_device *device = visit_device(engine, visit);
        uint64_t position;
        if (!bgi_device_is_ready(device))
            continue;
        position = atomic_load_explicit(&device->position, memory_order_relaxed);
        if (position < least) {
            least = position;
            found = device;
        }
    }
    return found;
}

static bgi_device *take_device(const bgi_engine *engine)
{
    bgi_device *device;

    do
        device = bgi_workers_find_device(engine);
    while (device != NULL && atomic_exchange(&device->is_owned, true));
    return device;
}

static bool help_somebody(const bgi_engine *engine)
{
    for (uint32_t visit = 0; visit < engine->device_count; visit++)
        if (bgi_parts_help(visit_device(engine, visit)) > 0)
            return true;
    return false;
}

static bool move_something(const bgi_engine *engine, const bgi_worker *worker, uint64_t until)
{
    bool has_moved = false;

    for (uint32_t visit = 0; visit < engine->device_count; visit++)
        has_moved = bgi_io_run(visit_device(engine, visit), worker, until) || has_moved;
    return has_moved;
}

/* What the run's caller has for the idle. The count is up before the look, so that a run that is over waits for it. */
static bool do_spare(bgi_engine *engine)
{
    bool has_done;

    if (!atomic_load_explicit(&engine->has_spare, memory_order_relaxed))
        return false;
    atomic_fetch_add(&engine->spare_count.value, 1);
    has_done = atomic_load(&engine->has_spare) && engine->run->spare(engine->run->spare_user);
    atomic_fetch_sub(&engine->spare_count.value, 1);
    return has_done;
}

static bool has_work(const bgi_engine *engine)
{
    for (uint32_t visit = 0; visit < engine->device_count; visit++) {
        bgi_device *device = visit_device(engine, visit);
        if (bgi_device_is_ready(device) || bgi_parts_wanted(device) || bgi_io_is_wanted(device))
            return true;
    }
    return false;
}

/* Looks for a while, then sleeps; back when there may be something to do. */
static void wait_for_work(bgi_engine *engine)
{
    const uint64_t end_ns = bgi_clock_ns() + engine->spin_ns;

    for (uint32_t look = 1; !is_stopping(engine) && !has_work(engine); look++) {
        bgi_pause();
        if (look % LOOKS_PER_CLOCK == 0 && bgi_clock_ns() > end_ns) {
            const uint64_t key = bgi_event_count_prepare(&engine->events);
            if (is_stopping(engine) || has_work(engine))
                bgi_event_count_cancel(&engine->events);
            else
                bgi_event_count_wait(&engine->events, key);
            break;
        }
    }
}

static bool may_take_again(const bgi_worker *worker, bgi_device *device)
{
    return !is_stopping(worker->engine) && bgi_device_is_ready(device) && !atomic_exchange(&device->is_owned, true);
}

/* What the device waited for may have come between the last look and giving the device up, when nobody else could take
 * it; so one more look. A device that we leave although it can go on is for whoever is idle. */
static void work_on(bgi_device *device, const bgi_worker *worker)
{
    bool has_yielded;

    do {
        has_yielded = bgi_device_advance(device, worker);
        atomic_store(&device->is_owned, false);
    } while (!has_yielded && may_take_again(worker, device));
    if (has_yielded)
        bgi_event_count_notify_one(&worker->engine->events);
}

/* The last orphan turns off the light. */
static void leave(bgi_worker *worker)
{
    bgi_engine *engine = worker->engine;
    bool is_last;

    pthread_mutex_lock(&engine->mutex);
    worker->has_exited = true;
    engine->exited_count++;
    is_last = engine->is_orphaned && --engine->orphan_count == 0;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    if (is_last)
        bgi_engine_free(engine);
}

static void *work(void *argument)
{
    bgi_worker *worker = argument;
    bgi_engine *engine = worker->engine;

    while (!is_stopping(engine)) {
        bgi_device *device = take_device(engine);
        if (device != NULL)
            work_on(device, worker);
        else if (!help_somebody(engine) && !move_something(engine, worker, BGI_IO_WHILE_IDLE) && !do_spare(engine))
            wait_for_work(engine);
    }
    leave(worker);
    return NULL;
}

static bool has_transfers(const bgi_engine *engine)
{
    for (uint32_t i = 0; i < engine->device_count; i++)
        if (bgi_io_is_wanted(&engine->devices[i]))
            return true;
    return false;
}

/* An I/O thread. It sleeps at once: workers that spin find transfers sooner. */
static void *move_all(void *argument)
{
    bgi_worker *worker = argument;
    bgi_engine *engine = worker->engine;

    while (!is_stopping(engine)) {
        uint64_t key;
        if (move_something(engine, worker, BGI_IO_ALL))
            continue;
        key = bgi_event_count_prepare(&engine->io_events);
        if (is_stopping(engine) || has_transfers(engine))
            bgi_event_count_cancel(&engine->io_events);
        else
            bgi_event_count_wait(&engine->io_events, key);
    }
    leave(worker);
    return NULL;
}

/* More workers than devices are of use as long as kernels have parts for them. */
static uint32_t count_workers(const bgi_engine *engine, uint32_t cpu_count)
{
    const uint32_t asked = engine->plan->options.cores;
    uint64_t most_parts = 1, useful;

    if (asked > 0)
        return asked < MOST_WORKERS ? asked : MOST_WORKERS;
    for (uint32_t d = 0; d < engine->plan->device_count; d++) {
        const bgi_plan_device *device = &engine->plan->devices[d];
        for (uint32_t i = 0; i < device->instruction_count; i++)
            for (uint32_t c = 0; c < device->instructions[i].call_count; c++)
                if (device->instructions[i].calls[c].kernel.part_count > most_parts)
                    most_parts = device->instructions[i].calls[c].kernel.part_count;
    }
    useful = most_parts * engine->device_count;
    if (useful > MOST_WORKERS)
        useful = MOST_WORKERS;
    return cpu_count < useful ? cpu_count : (uint32_t)useful;
}

/* One where workers leave a processor free: they do transfers as well, but only when they have nothing else to do. */
static uint32_t count_io_threads(const bgi_engine *engine, uint32_t workers, uint32_t cpu_count)
{
    const int32_t asked = engine->plan->options.io_threads;
    bool has_any = false;

    for (uint32_t d = 0; d < engine->plan->device_count; d++)
        has_any = has_any || engine->plan->devices[d].transfer_count > 0;
    if (!has_any)
        return 0;
    return asked >= 0 ? (uint32_t)asked : workers < cpu_count;
}

static bool start_worker(bgi_engine *engine, uint32_t number, bool does_io, const bgi_placement *placement,
                         bool may_bind)
{
    bgi_worker *worker = &engine->workers[number];

    worker->engine = engine;
    worker->number = number;
    worker->cpu = BGI_NO_CPU;
    worker->does_io = does_io;
    if (pthread_create(&worker->thread, NULL, does_io ? move_all : work, worker) != 0)
        return false;
    engine->worker_count++;
    if (may_bind && !does_io && bgi_placement_bind(placement, worker->thread, number))
        worker->cpu = placement->cpus[number];
    return true;
}

/* Half a micro-batch of a program, and only where devices compete for workers. */
static uint64_t choose_tolerance(const bgi_engine *engine, uint32_t worker_count)
{
    if (worker_count == 1 || worker_count >= engine->device_count)
        return UINT64_MAX;
    return (UINT64_C(1) << 31) / engine->plan->micro_batches;
}

/* Signals are the caller's business: workers start with all of them blocked. */
bg_status bgi_workers_start(bgi_engine *engine, bg_error *error)
{
    bg_status status = BG_OK;
    bgi_placement placement;
    sigset_t all, before;
    uint32_t wanted, total;

    bgi_placement_init(&placement);
    wanted = count_workers(engine, placement.cpu_count);
    total = wanted + count_io_threads(engine, wanted, placement.cpu_count);
    engine->tolerance = choose_tolerance(engine, wanted);
    engine->has_helpers = wanted > 1;
    engine->spin_ns = wanted <= placement.cpu_count ? SPIN_NS : SPIN_CROWDED_NS;
    engine->workers = calloc(total, sizeof *engine->workers);
    if (engine->workers == NULL) {
        status = bgi_error_memory(error, "workers", total * sizeof *engine->workers);
        goto cleanup;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < total && status == BG_OK; i++)
        if (!start_worker(engine, i, i >= wanted, &placement, wanted <= placement.cpu_count))
            status =
                bg_error_set(error, BG_ERROR_IO, "the system refused thread %u of %u; set fewer cores", i + 1, total);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
cleanup:
    bgi_placement_clear(&placement);
    return status;
}

bool bgi_workers_stop(bgi_engine *engine, uint64_t limit_ns)
{
    const uint64_t begin_ns = bgi_clock_ns();
    bool all_left;

    atomic_store(&engine->is_stopping, true);
    bgi_event_count_notify_all(&engine->events);
    bgi_event_count_notify_all(&engine->io_events);
    pthread_mutex_lock(&engine->mutex);
    for (;;) {
        const uint64_t waited_ns = bgi_clock_ns() - begin_ns;
        all_left = engine->exited_count == engine->worker_count;
        if (all_left || waited_ns >= limit_ns)
            break;
        if (limit_ns == UINT64_MAX)
            pthread_cond_wait(&engine->changed, &engine->mutex);
        else
            bgi_condition_wait_ns(&engine->changed, &engine->mutex, limit_ns - waited_ns);
    }
    pthread_mutex_unlock(&engine->mutex);
    return all_left;
}
