/*
 * summary.c: a recorded run in a few lines of text: where each device's time went, and how even the stages are.
 *
 * Loads and stores run beside a device's program: they are no part of its time.
 */
#include <brigade/profile.h>

#include <stdlib.h>

#include "core/error.h"
#include "core/text.h"
#include "profile/events.h"

/* Busy time by kind. */
typedef struct device_shares {
    double kind_ns[BG_ACTION_KIND_COUNT];
    double busy_ns;
} device_shares;

static device_shares sum_device(const bgi_device_events *own)
{
    device_shares shares = {.busy_ns = 0.0};
    uint64_t busy_until = 0;

    for (uint32_t i = 0; i < own->count; i++) {
        const bg_trace_event *event = &own->events[i];
        shares.kind_ns[event->action.kind] += (double)(event->end_ns - event->start_ns);
    }
    for (uint32_t i = 0; i < own->count; i++) {
        const bg_trace_event *event = &own->events[i];
        if (!bgi_event_is_transfer(event) && event->end_ns > busy_until) {
            uint64_t from = event->start_ns > busy_until ? event->start_ns : busy_until;
            shares.busy_ns += (double)(event->end_ns - from);
            busy_until = event->end_ns;
        }
    }
    return shares;
}

static bool is_work(bg_action_kind kind)
{
    return kind == BG_ACTION_FORWARD || kind == BG_ACTION_BACKWARD || kind == BG_ACTION_WEIGHTS ||
           kind == BG_ACTION_RECOMPUTE || kind == BG_ACTION_UPDATE;
}

static void print_device(bgi_text *text, const bgi_events *events, uint32_t index)
{
    device_shares shares = sum_device(&events->devices[index]);
    double window_ns = (double)(events->end_ns - events->start_ns);
    uint32_t device = index % events->device_count;

    if (window_ns <= 0.0)
        window_ns = 1.0;
    if (events->replica_count > 1)
        bgi_text_add(text, "replica %u ", index / events->device_count);
    bgi_text_add(text, "device %u: busy %5.1f %% (", device, 100.0 * shares.busy_ns / window_ns);
    for (uint32_t kind = 0, printed = 0; kind < BG_ACTION_KIND_COUNT; kind++)
        if (shares.kind_ns[kind] > 0.0 && kind != BG_ACTION_LOAD && kind != BG_ACTION_STORE)
            bgi_text_add(text, "%s%s %.1f", printed++ > 0 ? ", " : "", bg_action_kind_name((bg_action_kind)kind),
                         100.0 * shares.kind_ns[kind] / window_ns);
    bgi_text_add(text, "), idle %5.1f %%", 100.0 - 100.0 * shares.busy_ns / window_ns);
    if (shares.kind_ns[BG_ACTION_LOAD] + shares.kind_ns[BG_ACTION_STORE] > 0.0)
        bgi_text_add(text, "; beside it LOAD %.1f %%, STORE %.1f %%",
                     100.0 * shares.kind_ns[BG_ACTION_LOAD] / window_ns,
                     100.0 * shares.kind_ns[BG_ACTION_STORE] / window_ns);
    bgi_text_add(text, "\n");
}

/* Adds to work_ns[stage] the time of every stage's compute, and to counts[stage] its forwards. */
static void sum_stages(const bgi_events *events, const bg_plan *plan, double *work_ns, double *counts)
{
    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++) {
        const bgi_device_events *own = &events->devices[d];
        for (uint32_t i = 0; i < own->count; i++) {
            const bg_trace_event *event = &own->events[i];
            if (!is_work(event->action.kind) || event->action.stage >= plan->stage_count)
                continue;
            work_ns[event->action.stage] += (double)(event->end_ns - event->start_ns);
            if (event->action.kind == BG_ACTION_FORWARD)
                counts[event->action.stage] += 1.0;
        }
    }
}

static bg_status print_stages(bgi_text *text, const bgi_events *events, const bg_plan *plan, bg_error *error)
{
    double *work_ns = calloc(plan->stage_count, sizeof *work_ns);
    double *counts = calloc(plan->stage_count, sizeof *counts);
    double sum = 0.0, longest = 0.0;
    uint32_t longest_stage = 0;

    if (work_ns == NULL || counts == NULL) {
        free(work_ns);
        free(counts);
        return bgi_error_memory(error, "profile summary", plan->stage_count * sizeof *work_ns);
    }
    sum_stages(events, plan, work_ns, counts);
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        double mean = counts[stage] > 0.0 ? work_ns[stage] / counts[stage] : 0.0;
        bgi_text_add(text, "stage %u: %.1f us a micro-batch (update included)\n", stage, mean / 1e3);
        sum += mean;
        if (mean > longest) {
            longest = mean;
            longest_stage = stage;
        }
    }
    if (sum > 0.0)
        bgi_text_add(text, "stage balance: the longest stage (%u) takes %.2f times the mean\n", longest_stage,
                     longest * plan->stage_count / sum);
    free(work_ns);
    free(counts);
    return BG_OK;
}

/* A full ring has lost its oldest events: shares and means are of what is left. */
static void print_dropped(bgi_text *text, const bgi_events *events, const bg_plan *plan)
{
    uint32_t full = 0;

    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++)
        full += events->devices[d].count >= plan->options.trace_events;
    if (full > 0)
        bgi_text_add(text, "%u of %u devices kept their latest %u actions only; older ones were dropped\n", full,
                     events->replica_count * events->device_count, plan->options.trace_events);
}

bg_status bg_profile_print_summary(const bg_session *session, const bg_plan *plan, char **out_text, bg_error *error)
{
    bgi_text text = {0};
    bgi_events events;
    bg_status status;

    BGI_TRY(bgi_events_read(session, plan, &events, error));
    for (uint32_t d = 0; d < events.replica_count * events.device_count; d++)
        print_device(&text, &events, d);
    status = print_stages(&text, &events, plan, error);
    print_dropped(&text, &events, plan);
    bgi_events_clear(&events);
    if (status != BG_OK) {
        bgi_text_clear(&text);
        return status;
    }
    return bgi_text_finish(&text, out_text, error);
}
