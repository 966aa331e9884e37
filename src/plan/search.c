/*
 * search.c: tries the choices of the schedule `auto` one after another.
 *
 *     the training graph --+-- W in B  --recompute, lower--> order, bytes --+--> the better: its W, its order
 *                          +-- W apart --recompute, lower--> order, bytes --+
 *
 * If devices have budgets, the search first tries a copy of the plan without them. A copy that does not fit shows how
 * much memory is left for slots, because the other memory of a device does not depend on the order. The search then
 * tries a second copy within that limit. Recomputation that must meet the budgets is chosen for the order that is best
 * without budgets. Remote activations, which have slots for a few micro-batches in any order, are also chosen for that
 * order.
 */
#include "plan/compile.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "plan/log.h"
#include "schedule/schedule.h"

/* A choice of whether W is a separate action, with its schedule and makespan. */
typedef struct bgi_candidate {
    bool splits_weights;
    bool is_made, fits;
    const size_t *room; /* in the plan's memory; NULL: no limit */
    bg_schedule *schedule;
    double makespan_ns;
} bgi_candidate;

static bool is_limited(const bgi_compiler *c)
{
    bool is = false;

    for (uint32_t d = 0; d < c->stages->device_count; d++)
        is = is || bgi_options_budget(&c->plan->options, d) != 0;
    return is;
}

/* Finds the memory that the budgets leave for slots on each device. */
static bg_status find_slot_bytes(const bgi_compiler *c, const bg_plan *plan, const size_t **out, bg_error *error)
{
    size_t *room = bgi_arena_allocate(&c->plan->arena, plan->device_count, sizeof *room);

    if (room == NULL)
        return bgi_error_memory(error, "budgets", plan->device_count * sizeof *room);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const size_t budget = bgi_options_budget(&plan->options, d);
        size_t fixed = plan->devices[d].arena_bytes;
        for (uint32_t edge = 0; edge < plan->edge_count; edge++)
            if (plan->edges[edge].to_device == d)
                fixed -= plan->edges[edge].depth * plan->edges[edge].slot_bytes;
        room[d] = budget == 0 ? SIZE_MAX : budget > fixed ? budget - fixed : 0;
    }
    *out = room;
    return BG_OK;
}

/* Evaluates a lowered copy, and moves its schedule to the candidate. */
static bg_status evaluate_candidate(bgi_compiler *trial, bgi_candidate *candidate, bg_error *error)
{
    bg_plan *plan = trial->plan;
    double *bytes = bgi_arena_allocate(&trial->scratch, plan->device_count, sizeof *bytes);

    if (bytes == NULL)
        return bgi_error_memory(error, "a schedule", plan->device_count * sizeof *bytes);
    BGI_TRY(bgi_schedule_judge(plan->schedule, &plan->problem, bytes, &candidate->makespan_ns, error));
    candidate->is_made = candidate->fits = true;
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const size_t budget = bgi_options_budget(&plan->options, d);
        candidate->fits = candidate->fits && (budget == 0 || plan->devices[d].arena_bytes <= budget);
    }
    bg_schedule_destroy(candidate->schedule);
    candidate->schedule = plan->schedule;
    plan->schedule = NULL;
    return BG_OK;
}

/* Compiles a copy with the candidate's choice of W and its memory for slots. *out_room (may be NULL) is set to the
 * memory that the budgets leave for slots. */
static bg_status try_once(const bgi_compiler *c, bgi_candidate *candidate, const size_t **out_room, bg_error *error)
{
    bgi_compiler trial;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_trial_begin(c, &trial, error));
    trial.scheduling->splits_weights = candidate->splits_weights;
    trial.scheduling->device_slot_bytes = candidate->room;
    BGI_TRY_CLEANUP(bgi_recompute_plan(&trial, error));
    BGI_TRY_CLEANUP(trial.lower(&trial, error));
    if (out_room != NULL)
        BGI_TRY_CLEANUP(find_slot_bytes(c, trial.plan, out_room, error));
    BGI_TRY_CLEANUP(evaluate_candidate(&trial, candidate, error));
cleanup:
    bgi_trial_end(&trial);
    return status;
}

/* Compiles a candidate, and compiles it again within the budgets if it exceeds them. A candidate that fails to compile
 * is skipped; the reason is reported when the plan itself fails to compile. */
static bg_status try_candidate(const bgi_compiler *c, bgi_candidate *candidate, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const bool asks_for_room =
        is_limited(c) && options->memory.recompute != BG_RECOMPUTE_AUTO && !bgi_activations_may_be_remote(options);
    const size_t *room = NULL;
    bg_status status = try_once(c, candidate, asks_for_room ? &room : NULL, NULL);

    if (status == BG_OK && room != NULL && !candidate->fits) {
        candidate->room = room;
        candidate->is_made = false;
        status = try_once(c, candidate, NULL, NULL);
    }
    if (status == BG_ERROR_CANCELED)
        return bg_error_set(error, status, "the search for a schedule was stopped at the caller's request");
    return status == BG_ERROR_MEMORY ? bgi_error_memory(error, "searching a schedule", 0) : BG_OK;
}

static bool is_better(const bgi_candidate *a, const bgi_candidate *b)
{
    if (!a->is_made || !b->is_made)
        return a->is_made;
    return a->fits != b->fits ? a->fits : a->makespan_ns < b->makespan_ns;
}

static void report(const bgi_compiler *c, const bgi_candidate *chosen, const bgi_candidate *other)
{
    const bg_options *options = &c->plan->options;
    char text[160];

    if (!bgi_log_is_enabled(options) || !chosen->is_made || !chosen->fits)
        return;
    if (other->is_made && other->fits)
        snprintf(text, sizeof text, "schedule `auto`: %.1f us an update with weight gradients %s, %.1f us %s",
                 1e-3 * chosen->makespan_ns, chosen->splits_weights ? "separate from B" : "in B",
                 1e-3 * other->makespan_ns, other->splits_weights ? "separate from B" : "in B");
    else
        snprintf(text, sizeof text,
                 "schedule `auto`: %.1f us an update with weight gradients %s; with them %s, no plan fits",
                 1e-3 * chosen->makespan_ns, chosen->splits_weights ? "separate from B" : "in B",
                 chosen->splits_weights ? "in B" : "separate from B");
    bgi_log(options, BG_LOG_INFO, text);
}

bg_status bgi_search_schedule(bgi_compiler *c, bg_error *error)
{
    bgi_candidate candidates[2] = {{.splits_weights = false}, {.splits_weights = true}}, *chosen = &candidates[0];
    bg_status status = BG_OK;

    if (strcmp(c->scheduling->generator->name, "auto") != 0 || (!c->plan->training && !is_limited(c)))
        return BG_OK;
    BGI_TRY_CLEANUP(try_candidate(c, &candidates[0], error));
    if (c->plan->training) {
        BGI_TRY_CLEANUP(try_candidate(c, &candidates[1], error));
        if (is_better(&candidates[1], &candidates[0]))
            chosen = &candidates[1];
        report(c, chosen, chosen == candidates ? &candidates[1] : &candidates[0]);
    }
    c->scheduling->splits_weights = chosen->splits_weights;
    c->scheduling->device_slot_bytes = chosen->room;
    if (chosen->is_made && !bgi_activations_may_be_remote(&c->plan->options)) {
        c->scheduling->found = chosen->schedule;
        chosen->schedule = NULL;
    }
cleanup:
    bg_schedule_destroy(candidates[0].schedule);
    bg_schedule_destroy(candidates[1].schedule);
    return status;
}
