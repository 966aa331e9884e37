/*
 * trial.c: copies of a plan that are compiled to see what comes of a choice, and the choices of the schedule `auto`.
 *
 *     the training graph --+-- W in B  --recompute, lower--> order, bytes --+--> the better: its W, its order
 *                          +-- W apart --recompute, lower--> order, bytes --+
 *
 * A copy has the graph's clone and a plan of its own, and is lowered as far as its memory layout: its bytes and its
 * time are those of the finished plan. Where budgets bound the orders, the first copy is made without them. When it
 * does not fit, it tells what is left for slots, for the rest of a device does not depend on the order, and a second
 * copy is searched within that. Recomputation that is to meet the budgets does so with the order that would be best
 * without them, and so do remote activations, which have slots for a few micro-batches in any order.
 */
#include "plan/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/log.h"
#include "schedule/schedule.h"

/* ---- copies ---- */

bg_status bgi_trial_begin(const bgi_compiler *c, bgi_compiler *out, bg_error *error)
{
    const bg_plan *from = c->plan;
    bg_plan *plan = calloc(1, sizeof *plan);

    *out = (bgi_compiler){.plan = plan,
                          .loop = c->loop,
                          .is_anchor = c->is_anchor,
                          .generator = c->generator,
                          .splits_weights = c->splits_weights,
                          .device_slot_bytes = c->device_slot_bytes,
                          .stages = c->stages};
    if (plan == NULL)
        return bgi_error_memory(error, "a plan", sizeof *plan);
    plan->options = from->options;
    bgi_silence(&plan->options);
    plan->training = from->training;
    plan->replicas = from->replicas;
    plan->tensor_1 = from->tensor_1;
    plan->tensor_2 = from->tensor_2;
    plan->input_group_size = from->input_group_size;
    plan->input_grouping = from->input_grouping;
    plan->micro_batches = from->micro_batches;
    plan->iterations = from->iterations;
    plan->optimiser = from->optimiser;
    plan->is_loop = from->is_loop;
    plan->is_endless = from->is_endless;
    plan->loop_iterations = from->loop_iterations;
    plan->condition = from->condition;
    return bgi_graph_clone(c->graph, &out->graph, error);
}

void bgi_trial_end(bgi_compiler *trial)
{
    bg_graph_destroy(trial->graph);
    bgi_partition_clear(&trial->partition);
    bgi_arena_clear(&trial->scratch);
    if (trial->plan != NULL)
        trial->plan->condition = NULL; /* that of the plan it is a copy of */
    bg_plan_destroy(trial->plan);
    *trial = (bgi_compiler){.plan = NULL};
}

/* ---- what `auto` searches with ---- */

/* One way to have W, tried. */
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

    for (uint32_t d = 0; d < c->stages.device_count; d++)
        is = is || bgi_options_budget(&c->plan->options, d) != 0;
    return is;
}

/* What the budgets leave for slots on each device. */
static bg_status find_room(const bgi_compiler *c, const bg_plan *plan, const size_t **out, bg_error *error)
{
    size_t *room = bgi_arena_take(&c->plan->arena, plan->device_count, sizeof *room);

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

/* What a lowered copy is worth; takes its schedule. */
static bg_status judge(bgi_compiler *trial, bgi_candidate *candidate, bg_error *error)
{
    bg_plan *plan = trial->plan;
    double *bytes = bgi_arena_take(&trial->scratch, plan->device_count, sizeof *bytes);

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

/* A copy with the candidate's W and room. *out_room, when asked for: what its budgets leave. */
static bg_status try_once(const bgi_compiler *c, bgi_candidate *candidate, const size_t **out_room, bg_error *error)
{
    bgi_compiler trial;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_trial_begin(c, &trial, error));
    trial.splits_weights = candidate->splits_weights;
    trial.device_slot_bytes = candidate->room;
    BGI_TRY_CLEANUP(bgi_recompute_plan(&trial, error));
    BGI_TRY_CLEANUP(bgi_lower(&trial, error));
    if (out_room != NULL)
        BGI_TRY_CLEANUP(find_room(c, trial.plan, out_room, error));
    BGI_TRY_CLEANUP(judge(&trial, candidate, error));
cleanup:
    bgi_trial_end(&trial);
    return status;
}

/* A candidate that cannot be made is not taken; why is said when the plan itself cannot be made. */
static bg_status try_candidate(const bgi_compiler *c, bgi_candidate *candidate, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const bool asks_for_room =
        is_limited(c) && options->recompute != BG_RECOMPUTE_AUTO && !bgi_activations_may_be_remote(options);
    const size_t *room = NULL;
    bg_status status = try_once(c, candidate, asks_for_room ? &room : NULL, NULL);

    if (status == BG_OK && room != NULL && !candidate->fits) {
        candidate->room = room;
        candidate->is_made = false;
        status = try_once(c, candidate, NULL, NULL);
    }
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

    if (!bgi_is_heard(options) || !chosen->is_made || !chosen->fits)
        return;
    if (other->is_made && other->fits)
        snprintf(text, sizeof text, "schedule `auto`: weight gradients %s: %.1f us an update, else %.1f us",
                 chosen->splits_weights ? "apart" : "with B", 1e-3 * chosen->makespan_ns, 1e-3 * other->makespan_ns);
    else
        snprintf(text, sizeof text, "schedule `auto`: weight gradients %s: %.1f us an update; else it does not fit",
                 chosen->splits_weights ? "apart" : "with B", 1e-3 * chosen->makespan_ns);
    bgi_say(options, BG_LOG_INFO, text);
}

bg_status bgi_prepare_search(bgi_compiler *c, bg_error *error)
{
    bgi_candidate candidates[2] = {{.splits_weights = false}, {.splits_weights = true}}, *chosen = &candidates[0];
    bg_status status = BG_OK;

    if (strcmp(c->generator->name, "auto") != 0 || (!c->plan->training && !is_limited(c)))
        return BG_OK;
    BGI_TRY_CLEANUP(try_candidate(c, &candidates[0], error));
    if (c->plan->training) {
        BGI_TRY_CLEANUP(try_candidate(c, &candidates[1], error));
        if (is_better(&candidates[1], &candidates[0]))
            chosen = &candidates[1];
        report(c, chosen, chosen == candidates ? &candidates[1] : &candidates[0]);
    }
    c->splits_weights = chosen->splits_weights;
    c->device_slot_bytes = chosen->room;
    if (chosen->is_made && !bgi_activations_may_be_remote(&c->plan->options)) {
        c->found = chosen->schedule;
        chosen->schedule = NULL;
    }
cleanup:
    bg_schedule_destroy(candidates[0].schedule);
    bg_schedule_destroy(candidates[1].schedule);
    return status;
}
