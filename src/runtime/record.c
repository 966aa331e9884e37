/*
 * record.c: gives read access to a session's records, except the events of devices.
 */
#include "runtime/record.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "runtime/session.h"

/* Returns the ring's totals without its events, which bg_session_trace_event reads. */
static bgi_trace_ring totals_of(const bgi_trace_ring *ring)
{
    bgi_trace_ring totals = *ring;

    totals.events = NULL;
    return totals;
}

bool bgi_session_recorded(const bg_session *session, uint32_t replica, uint32_t device, bgi_recorded *out)
{
    const bg_plan *plan = session->plan;
    const uint32_t index = replica * plan->device_count + device;
    const bgi_runner *runner;
    const bgi_shared_trace *shared;

    if (replica >= plan->replicas || device >= plan->device_count)
        return false;
    runner = &session->engine->runners[index];
    if (bgi_engine_has(session->engine, replica, device)) {
        if (runner->trace.events == NULL)
            return false;
        *out = (bgi_recorded){.program = totals_of(&runner->trace),
                              .beside = totals_of(&runner->io_trace),
                              .times = runner->call_times.times,
                              .first = runner->call_times.first,
                              .time_count = runner->call_times.count};
    } else {
        shared = session->shared_traces != NULL ? &session->shared_traces[index] : NULL;
        if (shared == NULL || shared->call_times.times == NULL)
            return false;
        *out = (bgi_recorded){.program = totals_of(&shared->program),
                              .beside = totals_of(&shared->beside),
                              .times = shared->call_times.times,
                              .first = shared->call_times.first,
                              .time_count = shared->call_times.count};
    }
    out->rank = session->owners != NULL ? session->owners[index] : 0;
    return true;
}

const bgi_run_spans *bgi_session_runs(const bg_session *session)
{
    return session->engine->run_spans.spans != NULL ? &session->engine->run_spans : NULL;
}

uint32_t bgi_session_worker_count(const bg_session *session)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->engine->worker_count; i++)
        count += !session->engine->workers[i].does_io;
    return count;
}

static uint64_t kept(const bgi_trace_ring *ring)
{
    return ring->events == NULL ? 0 : ring->count < ring->capacity ? ring->count : ring->capacity;
}

static bg_status copy_own_helps(bgi_engine *engine, bg_trace_event **out, uint64_t *out_count, bg_error *error)
{
    uint64_t count = 0;
    bg_trace_event *events;

    pthread_mutex_lock(&engine->help_mutex);
    for (uint32_t w = 0; w < engine->worker_count; w++)
        count += kept(&engine->workers[w].helps);
    events = malloc((size_t)(count + 1) * sizeof *events);
    *out_count = count;
    count = 0;
    for (uint32_t w = 0; events != NULL && w < engine->worker_count; w++) {
        const bgi_trace_ring *ring = &engine->workers[w].helps;
        for (uint64_t i = 0; i < kept(ring); i++)
            events[count++] = ring->events[(ring->count - kept(ring) + i) % ring->capacity];
    }
    pthread_mutex_unlock(&engine->help_mutex);
    if (events == NULL)
        return bgi_error_memory(error, "events of workers", (size_t)*out_count * sizeof *events);
    *out = events;
    return BG_OK;
}

bg_status bgi_session_helps(const bg_session *session, uint32_t rank, bg_trace_event **out, uint64_t *out_count,
                            bg_error *error)
{
    const bg_transport *transport = session->plan->options.execution.transport;
    const uint32_t own = session->owners != NULL && transport != NULL ? transport->rank : 0;
    const bgi_shared_trace *helps;

    if (rank == own)
        return copy_own_helps(session->engine, out, out_count, error);
    helps =
        session->shared_helps != NULL && rank < bgi_session_rank_count(session) ? &session->shared_helps[rank] : NULL;
    *out_count = helps != NULL ? helps->count : 0;
    *out = malloc((size_t)(*out_count + 1) * sizeof **out);
    if (*out == NULL)
        return bgi_error_memory(error, "events of workers", (size_t)*out_count * sizeof **out);
    if (*out_count > 0)
        memcpy(*out, helps->events, (size_t)*out_count * sizeof **out);
    return BG_OK;
}
