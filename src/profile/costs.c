/*
 * costs.c: computes the cost of each stage from a recorded run, for the search for a schedule. It uses medians, because
 * an interrupted worker delays only single actions.
 */
#include <brigade/profile.h>

#include <stdlib.h>

#include "core/error.h"
#include "core/progress.h"
#include "profile/costs.h"
#include "profile/events.h"
#include "runtime/state.h"

typedef struct samples {
    double *values;
    size_t count, capacity;
} samples;

enum { KIND_FORWARD, KIND_RECOMPUTE, KIND_BACKWARD, KIND_WEIGHTS, KIND_UPDATE, KIND_COUNT };

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

/* Returns the median of the samples; 0 if there are none. */
static double find_median(samples *set)
{
    if (set->count == 0)
        return 0.0;
    qsort(set->values, set->count, sizeof *set->values, compare);
    return 0.5 * (set->values[(set->count - 1) / 2] + set->values[set->count / 2]);
}

static double find_mean(samples *set)
{
    double sum = 0.0;

    for (size_t i = 0; i < set->count; i++)
        sum += set->values[i];
    return set->count > 0 ? sum / (double)set->count : 0.0;
}

static bg_status add_sample(samples *set, double ns, bg_error *error)
{
    if (!bgi_array_reserve((void **)&set->values, &set->capacity, set->count + 1, sizeof *set->values))
        return bgi_error_memory(error, "costs", (set->count + 1) * sizeof *set->values);
    set->values[set->count++] = ns;
    return BG_OK;
}

static int find_kind(bg_action_kind kind)
{
    switch (kind) {
    case BG_ACTION_FORWARD:
        return KIND_FORWARD;
    case BG_ACTION_RECOMPUTE:
        return KIND_RECOMPUTE;
    case BG_ACTION_BACKWARD:
        return KIND_BACKWARD;
    case BG_ACTION_WEIGHTS:
        return KIND_WEIGHTS;
    case BG_ACTION_UPDATE:
        return KIND_UPDATE;
    default:
        return KIND_COUNT;
    }
}

static bool is_meeting(bg_action_kind kind)
{
    return kind == BG_ACTION_REDUCE || kind == BG_ACTION_GATHER;
}

/* Collects samples of the times of actions, for each stage, and of sends, for each edge. An action has several events
 * if it contains collective calls of the model, or several instructions because a sum begins in the middle of it. The
 * events of an action count as one sample. The levels of an update run one after another, and a cost covers all of
 * them. The caller sums `level_count` medians, so each level has separate samples: [stage][kind, further levels]. */
static bg_status collect(const bgi_events *events, const bg_plan *plan, samples *sets, uint32_t width, samples *sends,
                         bg_error *error)
{
    const uint32_t stage_count = bg_plan_summarize(plan).stage_count;

    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++) {
        const bg_trace_event *before = NULL; /* the first event of the newest sample */
        uint32_t before_at = BGI_NO_INSTRUCTION;
        bool has_met = false;
        for (uint32_t i = 0; i < events->devices[d].count; i++) {
            const bg_trace_event *event = &events->devices[d].events[i];
            const double ns = (double)(event->end_ns - event->start_ns);
            const int kind = find_kind(event->action.kind);
            const uint32_t at = events->devices[d].instructions[i];
            samples *set;
            if (event->action.kind == BG_ACTION_SEND && at != BGI_NO_INSTRUCTION &&
                bg_plan_instruction_at(plan, d % events->device_count, at).copies)
                BGI_TRY(add_sample(&sends[event->action.index], ns, error));
            has_met = has_met || is_meeting(event->action.kind);
            if (kind == KIND_COUNT || at == BGI_NO_INSTRUCTION || event->action.stage >= stage_count)
                continue;
            set = &sets[event->action.stage * width + (uint32_t)kind + (kind == KIND_UPDATE ? event->action.index : 0)];
            if (before != NULL && (has_met || at != before_at) && bgi_same_action(&event->action, &before->action) &&
                event->step == before->step) {
                set->values[set->count - 1] += ns;
                continue;
            }
            before = event;
            before_at = at;
            has_met = false;
            BGI_TRY(add_sample(set, ns, error));
        }
    }
    return BG_OK;
}

typedef double (*summarize)(samples *set);

static bg_status take_costs(samples *sets, uint32_t width, uint32_t stage_count, summarize of, bg_stage_cost *out,
                            bg_error *error)
{
    for (uint32_t stage = 0; stage < stage_count; stage++) {
        samples *own = &sets[stage * width];
        if (own[KIND_FORWARD].count == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "profile: no forward of stage %u was recorded; raise options.reporting.trace_events",
                                stage);
        out[stage] = (bg_stage_cost){.forward_ns = of(&own[KIND_FORWARD]),
                                     .recompute_ns = of(&own[KIND_RECOMPUTE]),
                                     .backward_ns = of(&own[KIND_BACKWARD]),
                                     .weights_ns = of(&own[KIND_WEIGHTS])};
        for (uint32_t level = KIND_UPDATE; level < width; level++)
            out[stage].update_ns += of(&own[level]);
    }
    return BG_OK;
}

/* Returns the rate of copied messages, or 0 if no message was copied. A send that another thread interrupts can take
 * many times as long as the copy, so each edge counts with the median (or mean) of its sends. */
static double find_rate(const bg_plan *plan, samples *sends, uint32_t edge_count, summarize of)
{
    double ns = 0.0, bytes = 0.0;

    for (uint32_t e = 0; e < edge_count; e++) {
        ns += of(&sends[e]) * (double)sends[e].count;
        bytes += (double)bg_plan_edge_at(plan, e).payload_bytes * (double)sends[e].count;
    }
    return ns > 0.0 ? bytes / ns : 0.0;
}

static bg_status find_costs(const bg_session *session, const bg_plan *plan, summarize of, bg_stage_cost *out_costs,
                            double *out_bytes_per_ns, bg_error *error)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    const uint32_t levels = summary.update_levels > 0 ? summary.update_levels : 1, width = KIND_UPDATE + levels;
    const size_t stage_sets = (size_t)summary.stage_count * width, set_count = stage_sets + summary.edge_count;
    bgi_events events;
    samples *sets;
    bg_status status;

    BGI_TRY(bgi_events_read(session, plan, &events, error));
    sets = calloc(set_count, sizeof *sets);
    status = sets != NULL ? collect(&events, plan, sets, width, sets + stage_sets, error)
                          : bgi_error_memory(error, "costs", set_count * sizeof *sets);
    if (status == BG_OK)
        status = take_costs(sets, width, summary.stage_count, of, out_costs, error);
    *out_bytes_per_ns = sets != NULL ? find_rate(plan, sets + stage_sets, summary.edge_count, of) : 0.0;
    for (size_t i = 0; sets != NULL && i < set_count; i++)
        free(sets[i].values);
    free(sets);
    bgi_events_clear(&events);
    return status;
}

bg_status bg_profile_costs(const bg_session *session, const bg_plan *plan, bg_stage_cost *out_costs,
                           double *out_bytes_per_ns, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_costs, "out_costs", __func__, error));
    BGI_TRY(bgi_require(out_bytes_per_ns, "out_bytes_per_ns", __func__, error));
    return find_costs(session, plan, find_median, out_costs, out_bytes_per_ns, error);
}

bg_status bgi_profile_mean_costs(const bg_session *session, const bg_plan *plan, bg_stage_cost *out_costs,
                                 bg_error *error)
{
    double bytes_per_ns;

    return find_costs(session, plan, find_mean, out_costs, &bytes_per_ns, error);
}

static bg_status run_on_zeros(bg_session *session, uint32_t run_count, bg_error *error)
{
    const bg_reporting_options *reporting = &bg_plan_options(bg_session_plan(session))->reporting;
    bgi_progress progress = {reporting->progress, reporting->progress_user, "the measurement", 0, run_count};
    const uint32_t input_count = bg_session_input_count(session), output_count = bg_session_output_count(session);
    void **streams = calloc((size_t)input_count + output_count + 1, sizeof *streams);
    bg_status status = streams != NULL ? BG_OK : bgi_error_memory(error, "inputs", input_count * sizeof *streams);

    for (uint32_t i = 0; status == BG_OK && i < input_count; i++) {
        bg_stream stream;
        status = bg_session_input(session, i, &stream, error);
        if (status == BG_OK && (streams[i] = calloc(1, stream.size_bytes + 1)) == NULL)
            status = bgi_error_memory(error, stream.name, stream.size_bytes);
    }
    for (uint32_t i = 0; status == BG_OK && i < run_count; i++) {
        status = bgi_progress_begin(&progress, "measure", 1, error);
        if (status == BG_OK)
            status = bg_session_run(session, (const void *const *)streams, streams + input_count, error);
    }
    for (uint32_t i = 0; streams != NULL && i < input_count; i++)
        free(streams[i]);
    free(streams);
    return status;
}

bg_status bg_profile_measure(const bg_plan *plan, uint32_t run_count, bg_stage_cost *out_costs,
                             double *out_bytes_per_ns, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_costs, "out_costs", __func__, error));
    BGI_TRY(bgi_require(out_bytes_per_ns, "out_bytes_per_ns", __func__, error));

    bg_session *session = NULL;
    bg_status status;

    BGI_TRY(bgi_session_create(plan, NULL, true, &session, error));
    status = run_on_zeros(session, run_count, error);
    if (status == BG_OK)
        status = bg_profile_costs(session, plan, out_costs, out_bytes_per_ns, error);
    bg_session_destroy(session);
    return status;
}
