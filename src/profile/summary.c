/*
 * summary.c: describes a recorded run in a few lines of text: the time of each device by kind, and the balance of the
 * stages.
 *
 * Loads, stores and some reductions overlap with a device's program and are not part of its time.
 */
#include <brigade/profile.h>

#include <stdlib.h>

#include "core/error.h"
#include "core/text.h"
#include "profile/events.h"

/* A device's time by kind. */
typedef struct device_shares {
    double kind_ns[BG_ACTION_KIND_COUNT], beside_ns[BG_ACTION_KIND_COUNT];
    double busy_ns;
} device_shares;

static device_shares sum_device(const bgi_device_events *own)
{
    device_shares shares = {.busy_ns = 0.0};
    uint64_t busy_until = 0;

    for (uint32_t i = 0; i < own->count; i++) {
        const bg_trace_event *event = &own->events[i];
        (event->is_beside ? shares.beside_ns : shares.kind_ns)[event->action.kind] +=
            (double)(event->end_ns - event->start_ns);
    }
    for (uint32_t i = 0; i < own->count; i++) {
        const bg_trace_event *event = &own->events[i];
        if (!event->is_beside && event->end_ns > busy_until) {
            uint64_t from = event->start_ns > busy_until ? event->start_ns : busy_until;
            shares.busy_ns += (double)(event->end_ns - from);
            busy_until = event->end_ns;
        }
    }
    return shares;
}

/* Prints "; concurrently LOAD 1.0 %, STORE 0.5 %", or nothing. */
static void print_beside(bgi_string *text, const device_shares *shares, double window_ns)
{
    const char *separator = "; concurrently ";

    for (uint32_t kind = 0; kind < BG_ACTION_KIND_COUNT; kind++) {
        if (!(shares->beside_ns[kind] > 0.0))
            continue;
        bgi_string_add(text, "%s%s %.1f %%", separator, bg_action_kind_name((bg_action_kind)kind),
                       100.0 * shares->beside_ns[kind] / window_ns);
        separator = ", ";
    }
}

static bool is_work(bg_action_kind kind)
{
    return kind == BG_ACTION_FORWARD || kind == BG_ACTION_BACKWARD || kind == BG_ACTION_WEIGHTS ||
           kind == BG_ACTION_RECOMPUTE || kind == BG_ACTION_UPDATE;
}

static void print_device(bgi_string *text, const bgi_events *events, uint32_t index)
{
    device_shares shares = sum_device(&events->devices[index]);
    double window_ns = (double)(events->end_ns - events->start_ns);
    uint32_t device = index % events->device_count;

    if (window_ns <= 0.0)
        window_ns = 1.0;
    if (events->replica_count > 1)
        bgi_string_add(text, "replica %u ", index / events->device_count);
    bgi_string_add(text, "device %u: busy %5.1f %% (", device, 100.0 * shares.busy_ns / window_ns);
    for (uint32_t kind = 0, printed = 0; kind < BG_ACTION_KIND_COUNT; kind++)
        if (shares.kind_ns[kind] > 0.0)
            bgi_string_add(text, "%s%s %.1f", printed++ > 0 ? ", " : "", bg_action_kind_name((bg_action_kind)kind),
                           100.0 * shares.kind_ns[kind] / window_ns);
    bgi_string_add(text, "), idle %5.1f %%", 100.0 - 100.0 * shares.busy_ns / window_ns);
    print_beside(text, &shares, window_ns);
    bgi_string_add(text, "\n");
}

/* Adds the compute time of each stage to work_ns[stage], and the number of its forwards to counts[stage]. */
static void sum_stages(const bgi_events *events, uint32_t stage_count, double *work_ns, double *counts)
{
    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++) {
        const bgi_device_events *own = &events->devices[d];
        for (uint32_t i = 0; i < own->count; i++) {
            const bg_trace_event *event = &own->events[i];
            if (!is_work(event->action.kind) || event->action.stage >= stage_count)
                continue;
            work_ns[event->action.stage] += (double)(event->end_ns - event->start_ns);
            if (event->action.kind == BG_ACTION_FORWARD)
                counts[event->action.stage] += 1.0;
        }
    }
}

static bg_status print_stages(bgi_string *text, const bgi_events *events, const bg_plan *plan, bg_error *error)
{
    const uint32_t stage_count = bg_plan_summarize(plan).stage_count;
    double *work_ns = calloc(stage_count, sizeof *work_ns);
    double *counts = calloc(stage_count, sizeof *counts);
    double sum = 0.0, longest = 0.0;
    uint32_t longest_stage = 0;

    if (work_ns == NULL || counts == NULL) {
        free(work_ns);
        free(counts);
        return bgi_error_memory(error, "profile summary", stage_count * sizeof *work_ns);
    }
    sum_stages(events, stage_count, work_ns, counts);
    for (uint32_t stage = 0; stage < stage_count; stage++) {
        double mean = counts[stage] > 0.0 ? work_ns[stage] / counts[stage] : 0.0;
        bgi_string_add(text, "stage %u: %.1f us a micro-batch (update included)\n", stage, mean / 1e3);
        sum += mean;
        if (mean > longest) {
            longest = mean;
            longest_stage = stage;
        }
    }
    if (sum > 0.0)
        bgi_string_add(text, "stage balance: the longest stage (%u) takes %.2f times the mean\n", longest_stage,
                       longest * stage_count / sum);
    free(work_ns);
    free(counts);
    return BG_OK;
}

/* Prints how many devices have lost their oldest events, because their ring is full; shares and means cover the
 * remaining events. */
static void print_dropped(bgi_string *text, const bgi_events *events, const bg_plan *plan)
{
    uint32_t full = 0;

    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++)
        full += events->devices[d].count >= bg_plan_options(plan)->reporting.trace_events;
    if (full > 0)
        bgi_string_add(text, "%u of %u devices kept only their latest %u actions; older ones were dropped\n", full,
                       events->replica_count * events->device_count, bg_plan_options(plan)->reporting.trace_events);
}

bg_status bg_profile_print_summary(const bg_session *session, const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};
    bgi_events events;
    bg_status status;

    BGI_TRY(bgi_events_read(session, plan, &events, error));
    for (uint32_t d = 0; d < events.replica_count * events.device_count; d++)
        print_device(&text, &events, d);
    status = print_stages(&text, &events, plan, error);
    print_dropped(&text, &events, plan);
    bgi_events_clear(&events);
    if (status != BG_OK) {
        bgi_string_clear(&text);
        return status;
    }
    return bgi_string_finish(&text, out_text, error);
}
