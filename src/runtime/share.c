/*
 * share.c: shares the parts of a kernel call between the worker that owns the device and idle workers. The comment at
 * the top of engine.h says why a claim is safe.
 */
#include "runtime/engine.h"

#include <sched.h>

#include "core/clock.h"

enum { SPINS_BEFORE_YIELD = 2000 };

/* For a call that has run this long and has parts left, waking a sleeper pays off, regardless of the call's estimated
 * cost. */
static const uint64_t long_ns = 10000;

bool bgi_parts_wanted(bgi_runner *runner)
{
    return bgi_ticket_is_open(&runner->ticket);
}

static void run_part(bgi_runner *runner, uint32_t part)
{
    runner->run_part(&runner->kernel_call, part);
}

static void wake_helpers(bgi_engine *engine, uint32_t part_count)
{
    if (part_count > 1)
        bgi_event_count_notify_all(&engine->events);
    else if (part_count == 1)
        bgi_event_count_notify_one(&engine->events);
}

/* Runs all parts, with the help of workers that are or become idle. */
static void share(bgi_runner *runner, bool is_long)
{
    bgi_engine *engine = runner->engine;
    const uint32_t count = runner->part_count;
    const uint64_t begin_ns = is_long || !bgi_event_count_has_sleepers(&engine->events) ? 0 : bgi_clock_ns();
    uint64_t generation;
    uint32_t part, own = 0;

    atomic_store_explicit(&runner->helped, 0, memory_order_relaxed);
    bgi_ticket_publish(&runner->ticket, count);
    if (is_long)
        wake_helpers(engine, count - 1);
    while (bgi_ticket_claim(&runner->ticket, false, &part, &generation)) {
        if (!is_long && own > 0 && bgi_event_count_has_sleepers(&engine->events) &&
            bgi_clock_ns() - begin_ns > long_ns) {
            wake_helpers(engine, count - part - 1);
            is_long = true;
        }
        run_part(runner, part);
        bgi_runner_add_progress(runner);
        own++;
    }
    /* Helpers are running the remaining parts, unless the system has preempted them, so the wait is short. */
    for (uint32_t spins = 0; atomic_load_explicit(&runner->helped, memory_order_acquire) != count - own; spins++) {
        if (spins < SPINS_BEFORE_YIELD)
            bgi_pause();
        else
            sched_yield();
    }
}

void bgi_parts_run(bgi_runner *runner, bool is_long)
{
    const uint32_t count = runner->part_count;

    if (runner->engine->has_helpers && count <= BGI_TICKET_MOST) {
        share(runner, is_long);
        return;
    }
    for (uint32_t part = 0; part < count; part++) {
        run_part(runner, part);
        bgi_runner_add_progress(runner);
    }
}

uint32_t bgi_parts_help(bgi_runner *runner)
{
    bg_kernel_call call;                       /* the device's call, run by this helper */
    uint64_t generation, of_call = UINT64_MAX; /* `of_call`: the generation of `call` */
    uint32_t part, done = 0;

    while (bgi_ticket_claim(&runner->ticket, true, &part, &generation)) {
        if (generation != of_call) {
            call = runner->kernel_call;
            call.runner = part;
            of_call = generation;
        }
        bgi_device_enter(runner->device);
        runner->run_part(&call, part);
        bgi_device_leave(runner->device);
        atomic_fetch_add_explicit(&runner->helped, 1, memory_order_release);
        done++;
        if (atomic_load_explicit(&runner->engine->is_stopping, memory_order_relaxed)) /* the plan may be freed */
            break;
        if (bgi_workers_find_device(runner->engine) != NULL) /* it may be that no other worker is free for the device */
            break;
    }
    return done;
}
