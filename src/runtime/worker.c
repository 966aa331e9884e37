/*
 * worker.c: implements worker threads, which start, look for work, help others, sleep and leave.
 */
#include "runtime/engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "runtime/placement.h"

enum {
    MOST_WORKERS = 1024,
    LOOKS_PER_CLOCK = 16,
    SPIN_NS = 40000,        /* about the time that a system needs to wake a thread */
    SPIN_CROWDED_NS = 2000, /* with more workers than processors, another worker needs this processor */
    YIELD_NS =
        2000000,    /* after SPIN_NS, a worker that must poll a transport and has a processor to itself yields between
                       polls for this time, because a timed sleep takes several times as long as a message */
    POLL_NS = 20000 /* longest sleep of a worker that must poll a transport */
};

/* The work that one core does in about a tenth of a millisecond. */
static const double short_run_flops = 4e6, short_run_bytes = 1e6;

static bool is_stopping(const bgi_engine *engine)
{
    return atomic_load(&engine->is_stopping);
}

bgi_runner *bgi_workers_find_device(const bgi_engine *engine)
{
    bgi_runner *found = NULL;
    uint64_t least = UINT64_MAX;

    for (uint32_t visit = 0; visit < engine->local_count; visit++) {
        bgi_runner *runner = engine->local[visit];
        uint64_t position;
        if (!bgi_runner_is_ready(runner))
            continue;
        position = atomic_load_explicit(&runner->position, memory_order_relaxed);
        if (position < least) {
            least = position;
            found = runner;
        }
    }
    return found;
}

bool bgi_workers_are_wanted(const bgi_engine *engine)
{
    for (uint32_t visit = 0; visit < engine->local_count; visit++)
        if (bgi_runner_is_ready(engine->local[visit]) || bgi_parts_wanted(engine->local[visit]))
            return true;
    return false;
}

/* Returns a device that is ready and that this worker alone runs. */
static bgi_runner *find_own_device(const bgi_engine *engine, uint32_t worker, uint32_t shift)
{
    for (uint32_t i = 0; i < engine->local_count; i++)
        if ((i + shift) % engine->computing_count == worker && bgi_runner_is_ready(engine->local[i]))
            return engine->local[i];
    return NULL;
}

static bgi_runner *take_device(const bgi_engine *engine, uint32_t worker)
{
    const uint32_t shift = atomic_load_explicit(&engine->plan->fixed_owners, memory_order_relaxed);
    bgi_runner *runner;

    if (engine->plan->has_one_owner && worker > 0)
        return NULL;
    if (shift > 0) {
        runner = find_own_device(engine, worker, shift);
        return runner == NULL || atomic_exchange(&runner->is_owned, true) ? NULL : runner;
    }
    do
        runner = bgi_workers_find_device(engine);
    while (runner != NULL && atomic_exchange(&runner->is_owned, true));
    return runner;
}

static bool help_somebody(const bgi_engine *engine, bgi_worker *worker)
{
    for (uint32_t visit = 0; visit < engine->local_count; visit++) {
        bgi_runner *runner = engine->local[visit];
        const bool is_traced = bgi_trace_is_on(runner) && bgi_parts_wanted(runner);
        const uint64_t start_ns = is_traced ? bgi_clock_ns() : 0;
        if (bgi_parts_help(runner) == 0)
            continue;
        if (is_traced && !is_stopping(engine)) /* when the engine stops, the plan may be destroyed */
            bgi_trace_add_help(worker, runner, start_ns);
        return true;
    }
    return false;
}

static bool move_something(const bgi_engine *engine, const bgi_worker *worker, uint64_t until)
{
    bool has_moved = false;

    for (uint32_t visit = 0; visit < engine->local_count; visit++)
        has_moved = bgi_io_run(engine->local[visit], worker, until) || has_moved;
    return has_moved;
}

/* Runs the caller's function for idle workers. The count of users is raised before the check, so that the end of the
 * run waits for the function. */
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
    if (bgi_workers_are_wanted(engine))
        return true;
    for (uint32_t visit = 0; visit < engine->local_count; visit++)
        if (bgi_io_is_wanted(engine->local[visit]))
            return true;
    return false;
}

/* Moves messages between ranks; returns whether any moved. */
static bool make_progress(const bgi_engine *engine)
{
    bgi_transport *transport = engine->transport;

    /* Between runs the caller moves all messages itself. */
    return transport->type->progress != NULL && atomic_load(&engine->devices_left.value) > 0 &&
           transport->type->progress(transport);
}

/* Returns the longest sleep of a worker. It is short if messages from other ranks may arrive, because no thread would
 * wake the worker. */
static uint64_t longest_sleep_ns(const bgi_engine *engine)
{
    return engine->transport->type->progress != NULL && atomic_load(&engine->devices_left.value) > 0 ? POLL_NS
                                                                                                     : UINT64_MAX;
}

static void sleep_on(bgi_event_count *events, uint64_t key, uint64_t timeout_ns)
{
    if (timeout_ns == UINT64_MAX)
        bgi_event_count_wait(events, key);
    else
        bgi_event_count_wait_ns(events, key, timeout_ns);
}

/* Polls for work for a while, then yields the processor between polls, then sleeps for at most `timeout_ns`
 * (UINT64_MAX: no limit). Returns when there may be work. */
static void wait_for_work(bgi_engine *engine, uint64_t timeout_ns)
{
    const uint64_t end_ns = bgi_clock_ns() + engine->spin_ns, late_ns = end_ns + engine->yield_ns;

    if (timeout_ns > longest_sleep_ns(engine))
        timeout_ns = longest_sleep_ns(engine);
    for (uint32_t look = 1; !is_stopping(engine) && !has_work(engine) && !make_progress(engine); look++) {
        uint64_t now_ns;
        bgi_pause();
        if (look % LOOKS_PER_CLOCK != 0)
            continue;
        now_ns = bgi_clock_ns();
        if (now_ns > end_ns && now_ns <= late_ns)
            sched_yield();
        if (now_ns > late_ns) {
            const uint64_t key = bgi_event_count_prepare(&engine->events);
            if (is_stopping(engine) || has_work(engine))
                bgi_event_count_cancel(&engine->events);
            else
                sleep_on(&engine->events, key, timeout_ns);
            break;
        }
    }
}

static bool may_take_again(const bgi_worker *worker, bgi_runner *runner)
{
    return !is_stopping(worker->engine) && bgi_runner_is_ready(runner) && !atomic_exchange(&runner->is_owned, true);
}

/* Advances a device and gives it up. The event that the device waits for may have happened after the last check, while
 * no other worker could take the device, so the function checks once more. When it leaves a device that is still ready,
 * it wakes an idle worker. */
static void work_on(bgi_runner *runner, const bgi_worker *worker)
{
    bool has_yielded;

    do {
        bgi_device_enter(runner->device);
        has_yielded = bgi_runner_advance(runner, worker);
        bgi_device_leave(runner->device);
        atomic_store(&runner->is_owned, false);
    } while (!has_yielded && may_take_again(worker, runner));
    if (has_yielded)
        bgi_event_count_notify_one(&worker->engine->events);
}

/* Ends a worker; the last worker of an abandoned engine frees the engine. */
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

/* Does some work, if there is any; returns false when there was none. */
static bool do_something(bgi_engine *engine, bgi_worker *worker)
{
    const bool has_moved = make_progress(engine); /* messages must move even while some device is always ready */
    bgi_runner *runner = take_device(engine, worker->number);

    if (runner != NULL)
        work_on(runner, worker);
    return runner != NULL || help_somebody(engine, worker) || move_something(engine, worker, BGI_IO_WHILE_IDLE) ||
           has_moved || do_spare(engine);
}

static void *work(void *argument)
{
    bgi_worker *worker = argument;
    bgi_engine *engine = worker->engine;

    while (!is_stopping(engine))
        if (!do_something(engine, worker))
            wait_for_work(engine, UINT64_MAX);
    leave(worker);
    return NULL;
}

void bgi_workers_drive(bgi_engine *engine, uint64_t timeout_ns)
{
    while (!bgi_engine_is_over(engine))
        if (!do_something(engine, &engine->workers[0])) {
            wait_for_work(engine, timeout_ns);
            break;
        }
}

static bool has_transfers(const bgi_engine *engine)
{
    for (uint32_t i = 0; i < engine->local_count; i++)
        if (bgi_io_is_wanted(engine->local[i]))
            return true;
    return false;
}

/* Runs an I/O thread. When it finds no transfer it sleeps immediately, because workers that spin find transfers sooner.
 */
static void *move_all(void *argument)
{
    bgi_worker *worker = argument;
    bgi_engine *engine = worker->engine;

    while (!is_stopping(engine)) {
        uint64_t key;
        if (move_something(engine, worker, BGI_IO_ALL) || make_progress(engine))
            continue;
        key = bgi_event_count_prepare(&engine->io_events);
        if (is_stopping(engine) || has_transfers(engine))
            bgi_event_count_cancel(&engine->io_events);
        else
            sleep_on(&engine->io_events, key, longest_sleep_ns(engine));
    }
    leave(worker);
    return NULL;
}

/* Whether a run ends in less time than it takes to wake a second worker. A cost of 0 is unknown, so the run does not
 * count as short. */
static bool is_short_run(const bg_plan *plan)
{
    double flops = 0.0, bytes = 0.0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++) {
                const bg_cost *cost = &plan->devices[d].instructions[i].calls[c].cost;
                const double call_bytes = cost->bytes_read + cost->bytes_written;
                if (!(cost->flops + call_bytes > 0.0))
                    return false;
                flops += cost->flops;
                bytes += call_bytes;
            }
    return flops * plan->iterations * plan->replicas < short_run_flops &&
           bytes * plan->iterations * plan->replicas < short_run_bytes;
}

/* Returns the number of workers, without I/O threads. More workers than devices help as long as kernels can be divided
 * among them. */
static uint32_t count_workers(const bgi_engine *engine, uint32_t cpu_count)
{
    const uint32_t asked = engine->plan->options.execution.cores;
    uint64_t most_parts = 1, useful;

    if (asked > 0)
        return asked < MOST_WORKERS ? asked : MOST_WORKERS;
    if (is_short_run(engine->plan))
        return 1;
    for (uint32_t d = 0; d < engine->plan->device_count; d++) {
        const bgi_plan_device *device = &engine->plan->devices[d];
        for (uint32_t i = 0; i < device->instruction_count; i++)
            for (uint32_t c = 0; c < device->instructions[i].call_count; c++)
                if (device->instructions[i].calls[c].kernel.part_count > most_parts)
                    most_parts = device->instructions[i].calls[c].kernel.part_count;
    }
    useful = most_parts * (engine->local_count > 0 ? engine->local_count : 1);
    if (useful > MOST_WORKERS)
        useful = MOST_WORKERS;
    return cpu_count < useful ? cpu_count : (uint32_t)useful;
}

/* Returns the number of I/O threads: as options.execution.io_threads says or, by default, one if workers leave a
 * processor free. Workers also do transfers when they have no other work. */
static uint32_t count_io_threads(const bgi_engine *engine, uint32_t workers, uint32_t cpu_count)
{
    const int32_t asked = engine->plan->options.execution.io_threads;
    bool has_any = false;

    for (uint32_t d = 0; d < engine->plan->device_count; d++)
        has_any =
            has_any || engine->plan->devices[d].transfer_count > 0 || bgi_has_sums_beside(&engine->plan->devices[d]);
    if (!has_any)
        return 0;
    return asked >= 0 ? (uint32_t)asked : workers < cpu_count;
}

/* Whether the caller works itself, which saves waking a separate worker for each run. But the library must not bind the
 * caller to a processor, and the caller must return when a kernel of a custom op hangs. */
static bool may_drive(const bgi_engine *engine, uint32_t wanted)
{
    return wanted == 1 && engine->plan->options.execution.pinning == BG_PINNING_NONE &&
           engine->plan->has_library_ops_only;
}

/* Makes the caller a worker, which needs no thread and no join at the end. */
static void add_caller(bgi_engine *engine)
{
    engine->workers[0] = (bgi_worker){.engine = engine, .cpu = BGI_NO_CPU, .is_caller = true, .has_exited = true};
    engine->worker_count = engine->exited_count = 1;
    engine->is_driven = true;
}

/* Runs a worker on a thread of the calling program. */
static void work_there(void *worker)
{
    work(worker);
}

static void move_there(void *worker)
{
    move_all(worker);
}

static bool start_thread(bgi_engine *engine, bgi_worker *worker)
{
    const bg_execution_options *execution = &engine->plan->options.execution;

    if (execution->start_thread == NULL)
        return bgi_thread_create(&worker->thread, worker->does_io ? move_all : work, worker) == 0;
    worker->is_on_loan = true;
    return execution->start_thread(execution->start_thread_user, worker->does_io ? move_there : work_there, worker);
}

static bool start_worker(bgi_engine *engine, uint32_t number, bool does_io, const bgi_placement *placement,
                         uint32_t bind_count)
{
    bgi_worker *worker = &engine->workers[number];

    worker->engine = engine;
    worker->number = number;
    worker->cpu = BGI_NO_CPU;
    worker->does_io = does_io;
    if (!start_thread(engine, worker))
        return false;
    engine->worker_count++;
    if (!does_io && number < bind_count && placement->cpus != NULL) {
        const uint32_t cpu = bgi_placement_cpu(placement, number, bind_count);
        if (bgi_placement_bind(worker->thread, cpu))
            worker->cpu = cpu;
    }
    return true;
}

/* Returns half a micro-batch, as a share of the program x 2^32; UINT64_MAX (no limit) if devices do not compete for
 * workers. */
static uint64_t choose_tolerance(const bgi_engine *engine, uint32_t worker_count)
{
    if (worker_count == 1 || worker_count >= engine->local_count)
        return UINT64_MAX;
    return (UINT64_C(1) << 31) / engine->plan->micro_batches;
}

/* Returns the number of processors for this process: all that it may use, unless other ranks of the host may use them
 * too. Launchers that bind ranks give each rank its own processors. */
static uint32_t find_share(const bgi_engine *engine, uint32_t cpu_count, bool *out_is_crowded)
{
    const bg_transport *carrier = engine->ranks != NULL ? engine->ranks->carrier : NULL;
    const uint32_t online = bgi_processors_online();
    uint32_t here = 0;

    *out_is_crowded = false;
    for (uint32_t i = 0; carrier != NULL && i < carrier->rank_count; i++)
        here += carrier->hosts == NULL || carrier->hosts[i] == carrier->hosts[carrier->rank];
    if (here <= 1 || (online > 0 && (uint64_t)cpu_count * here <= online))
        return cpu_count;
    *out_is_crowded = here > cpu_count;
    return cpu_count > here ? cpu_count / here : 1;
}

static uint32_t count_helps(const bg_plan *plan)
{
    enum { MOST_HELPS = 1 << 16 };

    return plan->options.reporting.trace_events < MOST_HELPS ? plan->options.reporting.trace_events : MOST_HELPS;
}

/* Starts the workers, which inherit the processor affinity of the caller. */
bg_status bgi_workers_start(bgi_engine *engine, bg_error *error)
{
    const bg_execution_options *execution = &engine->plan->options.execution;
    bg_status status = BG_OK;
    bgi_placement placement;
    uint32_t wanted, total, bind_count, share;
    bool is_crowded;
    int lock = -1;

    bgi_placement_init(&placement, execution->pinning, execution->processor_order, execution->processor_order_user);
    memcpy(engine->cpus, placement.text, sizeof engine->cpus);
    share = find_share(engine, placement.cpu_count, &is_crowded);
    wanted = count_workers(engine, share);
    total = wanted + count_io_threads(engine, wanted, share);
    engine->tolerance = choose_tolerance(engine, wanted);
    engine->has_helpers = wanted > 1 && !engine->plan->has_no_helpers;
    engine->computing_count = wanted;
    engine->processor_count = is_crowded ? 0 : share;
    engine->sees_to_sums = engine->ranks != NULL && total == wanted && wanted <= engine->local_count;
    engine->spin_ns = wanted <= share && !is_crowded ? SPIN_NS : SPIN_CROWDED_NS;
    engine->yield_ns = wanted <= share && !is_crowded && engine->ranks != NULL ? YIELD_NS : 0;
    engine->process = getpid();
    engine->workers = bgi_take_pages(total, sizeof *engine->workers);
    if (engine->workers == NULL) {
        status = bgi_error_memory(error, "workers", total * sizeof *engine->workers);
        goto cleanup;
    }
    engine->worker_room = total;
    if (may_drive(engine, wanted))
        add_caller(engine);
    for (uint32_t i = 0; engine->has_helpers && engine->plan->options.reporting.trace && i < wanted; i++)
        BGI_TRY_CLEANUP(bgi_trace_init(&engine->workers[i].helps, count_helps(engine->plan), error));
    bind_count = placement.pinning != BG_PINNING_NONE && wanted <= placement.cpu_count ? wanted : 0;
    if (bind_count > 0 && bind_count < placement.cpu_count) {
        lock = bgi_placement_lock();
        bgi_placement_avoid(&placement);
    }
    for (uint32_t i = engine->worker_count; i < total && status == BG_OK; i++)
        if (!start_worker(engine, i, i >= wanted, &placement, bind_count))
            status = bg_error_set(error, BG_ERROR_IO, "%s failed to start thread %u of %u; set fewer cores",
                                  execution->start_thread != NULL ? "start_thread" : "the system", i + 1, total);
    bgi_placement_unlock(lock);
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
