/*
 * rank_trace.c: converts the traces of other ranks' devices to this rank's clock. Ranks on one host have the same
 * clock. Another host's clock is read several times, and the reading with the shortest round trip is used. The other
 * rank is assumed to read its clock in the middle of the round trip:
 *
 *     this rank     asked ----------------------- answered      (asked + answered) / 2 - its clock
 *     the other              looks at its clock
 */
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "runtime/agree.h"
#include "runtime/record.h"

enum { QUESTIONS = 16, EVENTS_AT_ONCE = 4096 };

/* The numbers of events of a device. */
typedef struct counts {
    uint64_t program, transfers;
} counts;

static bool is_one_host(const bg_transport *transport, uint32_t a, uint32_t b)
{
    return transport->hosts == NULL || transport->hosts[a] == transport->hosts[b];
}

/* Sets *out, on rank `to`, to the offset that converts a time on `from`'s clock to `to`'s clock; 0 on other ranks. */
static bg_status find_offset(const bg_session *session, uint32_t from, uint32_t to, int64_t *out, bg_error *error)
{
    const bg_transport *carrier = session->plan->options.execution.transport;
    bgi_transport *transport = session->engine->transport;
    uint64_t least = UINT64_MAX;

    *out = 0;
    for (int i = 0; i < QUESTIONS && !is_one_host(carrier, from, to); i++) {
        const uint64_t asked = bgi_clock_ns();
        uint64_t question = 0, seen, answered;
        BGI_TRY(bgi_ranks_hand(transport, to, from, &question, sizeof question, error));
        seen = bgi_clock_ns();
        BGI_TRY(bgi_ranks_hand(transport, from, to, &seen, sizeof seen, error));
        answered = bgi_clock_ns();
        if (carrier->rank != to || answered - asked >= least)
            continue;
        least = answered - asked;
        *out = (int64_t)(asked + least / 2) - (int64_t)seen;
    }
    return BG_OK;
}

/* Returns the number of events in the ring. */
static uint64_t count_of(const bgi_trace_ring *ring)
{
    return ring->count < ring->capacity ? ring->count : ring->capacity;
}

static bg_trace_event event_of(const bgi_trace_ring *ring, uint64_t index)
{
    return ring->events[(ring->count - count_of(ring) + index) % ring->capacity];
}

static bg_status hand_events(const bg_session *session, uint32_t from, uint32_t to, const bgi_runner *runner,
                             const counts *of, bg_trace_event *room, bgi_shared_trace *trace, bg_error *error)
{
    const uint32_t own = session->plan->options.execution.transport->rank;
    const uint64_t all = of->program + of->transfers;

    for (uint64_t at = 0, some; at < all; at += some) {
        some = all - at < EVENTS_AT_ONCE ? all - at : EVENTS_AT_ONCE;
        for (uint64_t i = at; own == from && i < at + some; i++)
            room[i - at] = i < of->program ? event_of(&runner->trace, i) : event_of(&runner->io_trace, i - of->program);
        BGI_TRY(bgi_ranks_hand(session->engine->transport, from, to, own == to ? trace->events + at : room,
                               (size_t)some * sizeof *room, error));
    }
    return BG_OK;
}

/* Shifts times to this rank's clock and the beginning of its session. */
static void shift(bgi_shared_trace *trace, int64_t offset_ns)
{
    for (uint64_t i = 0; i < trace->count; i++) {
        bg_trace_event *event = &trace->events[i];
        const int64_t start = (int64_t)event->start_ns + offset_ns;
        const uint64_t length = event->end_ns - event->start_ns;
        event->start_ns = start > 0 ? (uint64_t)start : 0;
        event->end_ns = event->start_ns + length;
    }
}

/* Sends totals by kind, and the times of calls. All ranks have the same plan, so they have the same number of calls. */
static bg_status hand_times(const bg_session *session, uint32_t from, uint32_t to, uint32_t device, bg_error *error)
{
    const bgi_runner *runner = &session->engine->runners[device];
    bgi_shared_trace *trace = &session->shared_traces[device];
    const uint32_t own = session->plan->options.execution.transport->rank;
    bgi_transport *transport = session->engine->transport;
    bgi_trace_ring totals[2] = {{.events = NULL}, {.events = NULL}};
    bgi_call_times *times = &trace->call_times;

    if (own == from) {
        totals[0] = runner->trace;
        totals[1] = runner->io_trace;
    }
    if (own == to)
        BGI_TRY(bgi_call_times_init(times, &session->plan->devices[device % session->plan->device_count], error));
    BGI_TRY(bgi_ranks_hand(transport, from, to, totals, sizeof totals, error));
    if (own == to) {
        trace->program = totals[0];
        trace->beside = totals[1];
        trace->program.events = trace->beside.events = NULL;
    } else {
        times = (bgi_call_times *)&runner->call_times;
    }
    return times->count == 0
               ? BG_OK
               : bgi_ranks_hand(transport, from, to, times->times, (size_t)times->count * sizeof *times->times, error);
}

static bg_status share_device(bg_session *session, uint32_t device, uint32_t to, int64_t offset_ns,
                              bg_trace_event *room, bg_error *error)
{
    const bgi_runner *runner = &session->engine->runners[device];
    const uint32_t own = session->plan->options.execution.transport->rank, from = session->owners[device];
    bgi_shared_trace *trace = &session->shared_traces[device];
    counts of = {0};

    if (own == from)
        of = (counts){count_of(&runner->trace), count_of(&runner->io_trace)};
    BGI_TRY(bgi_ranks_hand(session->engine->transport, from, to, &of, sizeof of, error));
    if (own == to) {
        trace->events = calloc((size_t)(of.program + of.transfers) + 1, sizeof *trace->events);
        if (trace->events == NULL)
            return bgi_error_memory(error, "a trace", (size_t)(of.program + of.transfers) * sizeof *trace->events);
        trace->count = of.program + of.transfers;
    }
    BGI_TRY(hand_events(session, from, to, runner, &of, room, trace, error));
    if (own == to)
        shift(trace, offset_ns);
    return hand_times(session, from, to, device, error);
}

/* Sends the times when the workers of a rank helped devices that they did not own. */
static bg_status share_helps(bg_session *session, uint32_t from, uint32_t to, int64_t offset_ns, bg_error *error)
{
    const uint32_t own = session->plan->options.execution.transport->rank;
    bgi_transport *transport = session->engine->transport;
    bgi_shared_trace *helps = &session->shared_helps[from];
    bg_trace_event *events = NULL;
    uint64_t count = 0;
    bg_status status = BG_OK;

    if (own == from)
        BGI_TRY(bgi_session_helps(session, from, &events, &count, error));
    BGI_TRY_CLEANUP(bgi_ranks_hand(transport, from, to, &count, sizeof count, error));
    if (own == to) {
        helps->events = calloc((size_t)count + 1, sizeof *helps->events);
        if (helps->events == NULL)
            BGI_TRY_CLEANUP(bgi_error_memory(error, "a trace", (size_t)count * sizeof *helps->events));
        helps->count = count;
    }
    for (uint64_t at = 0, some; at < count; at += some) {
        some = count - at < EVENTS_AT_ONCE ? count - at : EVENTS_AT_ONCE;
        BGI_TRY_CLEANUP(bgi_ranks_hand(transport, from, to, (own == to ? helps->events : events) + at,
                                       (size_t)some * sizeof *events, error));
    }
    if (own == to)
        shift(helps, offset_ns);
cleanup:
    free(events);
    return status;
}

static bg_status share_rank(bg_session *session, uint32_t from, uint32_t to, bg_trace_event *room, bg_error *error)
{
    const uint32_t own = session->plan->options.execution.transport->rank;
    uint64_t created_ns = session->engine->created_ns;
    int64_t offset_ns;

    if (own != from && own != to)
        return BG_OK;
    BGI_TRY(find_offset(session, from, to, &offset_ns, error));
    BGI_TRY(bgi_ranks_hand(session->engine->transport, from, to, &created_ns, sizeof created_ns, error));
    offset_ns += (int64_t)created_ns - (int64_t)session->engine->created_ns;
    for (uint32_t i = 0; i < session->engine->device_count; i++)
        if (session->owners[i] == from)
            BGI_TRY(share_device(session, i, to, offset_ns, room, error));
    return share_helps(session, from, to, offset_ns, error);
}

void bgi_session_drop_traces(bg_session *session)
{
    for (uint32_t i = 0; session->shared_traces != NULL && i < session->engine->device_count; i++) {
        free(session->shared_traces[i].events);
        bgi_call_times_clear(&session->shared_traces[i].call_times);
    }
    for (uint32_t i = 0; session->shared_helps != NULL && i < bgi_session_rank_count(session); i++)
        free(session->shared_helps[i].events);
    free(session->shared_traces);
    free(session->shared_helps);
    session->shared_traces = session->shared_helps = NULL;
}

static bg_status share_all(bg_session *session, uint32_t to, bg_error *error)
{
    const bg_transport *carrier = session->plan->options.execution.transport;
    bg_trace_event *room = malloc(EVENTS_AT_ONCE * sizeof *room);
    bg_status status = BG_OK;

    bgi_session_drop_traces(session);
    session->shared_traces = calloc(session->engine->device_count, sizeof *session->shared_traces);
    session->shared_helps = calloc(carrier->rank_count, sizeof *session->shared_helps);
    if (room == NULL || session->shared_traces == NULL || session->shared_helps == NULL)
        status = bgi_error_memory(error, "a trace", EVENTS_AT_ONCE * sizeof *room);
    for (uint32_t from = 0; from < carrier->rank_count && status == BG_OK; from++)
        if (from != to)
            status = share_rank(session, from, to, room, error);
    free(room);
    if (status != BG_OK || carrier->rank != to)
        bgi_session_drop_traces(session);
    return status;
}

bg_status bg_session_share_trace(bg_session *session, uint32_t rank, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));

    const bg_transport *transport = session->plan->options.execution.transport;
    bg_status status;

    if (rank > 0 && (transport == NULL || rank >= transport->rank_count))
        return bg_error_set(error, BG_ERROR_INVALID, "bg_session_share_trace: rank is %u but must be below %u", rank,
                            transport != NULL ? transport->rank_count : 1);
    if (!session->plan->options.reporting.trace)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan's options do not ask for a trace; set options.reporting.trace");
    if (session->owners == NULL)
        return BG_OK;
    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_share_trace", error));
    status = share_all(session, rank, error);
    bgi_weights_leave(session->weights);
    return status;
}

/* Clears this rank's records and the traces received from other ranks, and starts or stops recording. */
void bgi_session_record(bg_session *session, bool on)
{
    bgi_session_drop_traces(session);
    bgi_trace_switch(session->engine, on);
}
