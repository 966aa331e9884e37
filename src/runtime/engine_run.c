/*
 * engine_run.c: starts a run of the engine and waits for it on the caller's thread.
 */
#include "runtime/engine.h"

#include <sched.h>

#include "core/clock.h"
#include "core/error.h"
#include "options/optimizer.h"
#include "runtime/agree.h"

/* The watching thread makes at least this number of checks within the time limit. A worker that is not inside a kernel
 * leaves within microseconds; the longest work outside kernels is copying streams. */
enum { LOOKS_PER_LIMIT = 16 };
static const uint64_t longest_look_ns = 1000000000u;
static const uint64_t leave_ns = 1000000000u;
/* The time between the calling thread's polls when only this thread may receive messages from other ranks. */
static const uint64_t poll_ns = 20000;

static uint64_t count_progress(const bgi_engine *engine)
{
    uint64_t progress = 0;

    for (uint32_t i = 0; i < engine->local_count; i++)
        progress += atomic_load_explicit(&engine->local[i]->progress, memory_order_acquire) +
                    atomic_load_explicit(&engine->local[i]->io_done.value, memory_order_relaxed) +
                    atomic_load_explicit(&engine->local[i]->sums_done.value, memory_order_relaxed);
    return progress;
}

/* Returns the progress of all ranks, as far as this rank has received it. */
static uint64_t count_all_progress(const bgi_engine *engine)
{
    uint64_t progress = count_progress(engine);

    for (uint32_t i = 0; engine->ranks != NULL && i < engine->ranks->carrier->rank_count; i++)
        progress += atomic_load(&engine->rank_progress[i]);
    return progress;
}

/* Sends this rank's progress; other ranks would otherwise conclude that it is stuck. */
static void tell_progress(const bgi_engine *engine)
{
    const bgi_note note = {
        .kind = BGI_NOTE_ALIVE, .from = bgi_host_of(engine->ranks->carrier->rank), .value = count_progress(engine)};

    for (uint32_t i = 0; i < engine->ranks->carrier->rank_count; i++)
        if (i != engine->ranks->carrier->rank)
            engine->transport->type->tell(engine->transport, bgi_host_of(i), &note);
}

/* Moves messages between ranks for `timeout_ns`, or until the run is over; no other thread may move them. */
static void move_while_others_work(bgi_engine *engine, uint64_t timeout_ns)
{
    const uint64_t end_ns = bgi_clock_ns() + timeout_ns;

    while (!bgi_engine_is_over(engine) && bgi_clock_ns() < end_ns)
        if (!engine->transport->type->progress(engine->transport)) {
            pthread_mutex_lock(&engine->mutex);
            if (!bgi_engine_is_over(engine))
                bgi_condition_wait_ns(&engine->changed, &engine->mutex, poll_ns);
            pthread_mutex_unlock(&engine->mutex);
        }
}

/* Sleeps until the run is over, but at most for `timeout_ns`. */
static void sleep_while_others_work(bgi_engine *engine, uint64_t timeout_ns)
{
    pthread_mutex_lock(&engine->mutex);
    if (!bgi_engine_is_over(engine))
        bgi_condition_wait_ns(&engine->changed, &engine->mutex, timeout_ns);
    pthread_mutex_unlock(&engine->mutex);
}

/* Works or sleeps until the run is over. Returns false when no device made progress within the limit. */
static bool watch(bgi_engine *engine, double *out_waited_s)
{
    const double limit_s = engine->plan->options.execution.wait_limit_s;
    const bool needs_caller =
        engine->transport->type->needs_caller != NULL && engine->transport->type->needs_caller(engine->transport);
    uint64_t look_ns = longest_look_ns, progress = count_all_progress(engine), moved_ns = bgi_clock_ns();
    uint64_t told_ns = moved_ns;

    if (limit_s > 0.0 && limit_s * 1e9 / LOOKS_PER_LIMIT < (double)longest_look_ns)
        look_ns = (uint64_t)(limit_s * 1e9 / LOOKS_PER_LIMIT) + 1;
    if (engine->is_driven) /* most runs end here, without another reading of the clock */
        bgi_workers_drive(engine, look_ns);
    while (!bgi_engine_is_over(engine)) {
        const uint64_t seen = count_all_progress(engine), now_ns = bgi_clock_ns();
        if (engine->ranks != NULL && now_ns - told_ns > look_ns) {
            told_ns = now_ns;
            tell_progress(engine);
        }
        if (seen != progress) {
            progress = seen;
            moved_ns = now_ns;
        }
        *out_waited_s = (double)(now_ns - moved_ns) * 1e-9;
        if (limit_s > 0.0 && *out_waited_s > limit_s)
            break;
        if (engine->is_driven)
            bgi_workers_drive(engine, look_ns);
        else if (needs_caller)
            move_while_others_work(engine, look_ns);
        else
            sleep_while_others_work(engine, look_ns);
    }
    return bgi_engine_is_over(engine);
}

/* Reports the failure of the lowest device. Workers have left, or cannot write a failure any more. */
static bg_status report_failure(const bgi_engine *engine, bg_error *error)
{
    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_runner *runner = &engine->runners[i];
        if (runner->failure_status == BG_OK)
            continue;
        if (engine->ranks != NULL)
            return bg_error_set(error, runner->failure_status, "rank %u, replica %u, device %u: %s",
                                engine->ranks->carrier->rank, runner->replica, runner->number, runner->failure);
        return bg_error_set(error, runner->failure_status, "replica %u, device %u: %s", runner->replica, runner->number,
                            runner->failure);
    }
    if (engine->lost[0] != '\0')
        return bg_error_set(error, engine->lost_status, "%s", engine->lost);
    return bg_error_set(error, BG_ERROR_INTERNAL, "a run failed without a reason");
}

/* Withdraws the work that the caller offers to idle workers, so that no worker uses it after the run. */
static void end_spare(bgi_engine *engine)
{
    atomic_store(&engine->has_spare, false);
    while (atomic_load(&engine->spare_count.value) > 0)
        sched_yield();
}

/* Whether a device of this rank has skipped an update, according to the numbers that the loss guard writes. */
static bool has_refused(const bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;
    const bgi_plan_variable *hyper;
    double numbers[BGI_OPTIMIZER_NUMBERS];

    if (!plan->training || !plan->options.numerics.guard_loss || plan->hyper_variable == UINT32_MAX)
        return false;
    hyper = &plan->variables[plan->hyper_variable];
    for (uint32_t replica = 0; replica < plan->replicas; replica++)
        for (uint32_t p = 0; p < hyper->place_count; p++) {
            if (!bgi_engine_has(engine, replica, hyper->places[p].device))
                continue;
            bgi_engine_read(engine, replica, &hyper->places[p], numbers, sizeof numbers);
            if (numbers[BG_UPDATE_SKIP] != 0.0)
                return true;
        }
    return false;
}

/* Finishes the run together with all other ranks, and sends outputs to the ranks that have arrays for them. */
static bg_status share_results(bgi_engine *engine, bg_error *error)
{
    const bgi_run *run = engine->run;
    uint64_t said, wants_end = engine->gate.wants_end;

    /* Stops the infeed's thread before other ranks learn that this rank is done; otherwise they would mistake the
     * thread's later messages for those of the next run. Rank 0 continues to reply, and a rank without devices may
     * still receive a request to stop.
     */
    if (engine->ranks->carrier->rank > 0 && engine->local_count > 0)
        bgi_gate_end(engine);
    engine->has_refused = has_refused(engine);
    said = bgi_ranks_wanted(engine);
    BGI_TRY(engine->transport->type->finish(engine->transport, said, error));
    engine->is_asked_to_stop = bgi_ranks_ask_to_stop(engine, said);
    engine->has_refused = bgi_ranks_have_refused(engine, said);
    /* Ranks without devices have not received the number of iterations of the run. */
    if (engine->ranks->carrier->rank_count > engine->device_count)
        BGI_TRY(bgi_ranks_share(engine->transport, 0, &engine->gate.end, sizeof engine->gate.end, error));
    if (run->infeed != NULL && !run->is_synthetic && engine->gate.end < run->limit) {
        BGI_TRY(bgi_ranks_share(engine->transport, 0, &wants_end, sizeof wants_end, error));
        engine->gate.wants_end = wants_end != 0;
    }
    return bgi_ranks_share_outputs(engine, engine->gate.end, error);
}

bg_status bgi_engine_run(bgi_engine *engine, const bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    bg_status status = BG_OK;
    const uint64_t start_ns = engine->run_spans.spans != NULL ? bgi_clock_ns() : 0;
    bg_error own = {0};
    double waited_s = 0.0;

    if (engine->is_dead)
        return bg_error_set(error, BG_ERROR_INVALID, "an earlier run of this session failed; create a new session");
    engine->given = *run;
    engine->run = &engine->given;
    bgi_gate_begin(engine);
    if (engine->transport->type->begin != NULL)
        engine->transport->type->begin(engine->transport, atomic_load(&engine->runs.value) + 1);
    if (run->infeed != NULL && !run->is_synthetic)
        bgi_infeed_attach(run->infeed, engine);
    atomic_store(&engine->devices_left.value, engine->local_count);
    atomic_store(&engine->has_spare, run->spare != NULL);
    atomic_store(&engine->runs.value, atomic_load(&engine->runs.value) + 1);
    bgi_event_count_notify_all(&engine->events);
    if (!watch(engine, &waited_s))
        status = bgi_report_stuck(engine, waited_s, &own);
    else if (atomic_load(&engine->has_failed))
        status = BG_ERROR_INTERNAL;
    else if (engine->transport->type->finish != NULL)
        status = share_results(engine, &own);
    else
        engine->has_refused = has_refused(engine);
    if (status != BG_OK) {
        engine->is_dead = true;
        /* Workers that are not inside a kernel leave now and stop using the caller's arrays. */
        bgi_workers_stop(engine, leave_ns);
        if (atomic_load(&engine->has_failed))
            status = report_failure(engine, &own);
        if (engine->transport->type->give_up != NULL)
            engine->transport->type->give_up(engine->transport, status, own.message);
        bg_error_set(error, status, "%s", own.message);
    }
    end_spare(engine);
    bgi_gate_end(engine);
    *out_iterations = engine->gate.end;
    if (status == BG_OK && engine->local_count > 0 && bgi_trace_is_on(engine->local[0]))
        bgi_trace_add_run(engine, start_ns, *out_iterations);
    if (run->infeed != NULL && !run->is_synthetic)
        bgi_infeed_detach(run->infeed, status == BG_OK ? *out_iterations * bgi_infeed_elements(engine->plan) : 0);
    return status;
}

bool bgi_engine_leaves_processor(const bgi_engine *engine)
{
    if (atomic_load(&engine->devices_left.value) == 0 || atomic_load(&engine->is_stopping))
        return true;
    return engine->computing_count < engine->processor_count;
}
