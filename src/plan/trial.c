/*
 * trial.c: makes copies of a plan that are compiled to try a choice. A copy has a separate clone of the graph and a
 * separate plan. It is lowered up to its memory layout, so its bytes and its time are those of the finished plan.
 */
#include "plan/compile.h"

#include <stdlib.h>

#include "core/error.h"
#include "plan/log.h"

bg_status bgi_trial_begin(const bgi_compiler *c, bgi_compiler *out, bg_error *error)
{
    const bg_plan *from = c->plan;
    bg_plan *plan = calloc(1, sizeof *plan);

    *out = (bgi_compiler){.plan = plan,
                          .loop = c->loop,
                          .is_trial = true,
                          .lower = c->lower,
                          .made = c->made,
                          .is_anchor = c->is_anchor,
                          .stages = c->stages};
    if (plan == NULL)
        return bgi_error_memory(error, "a plan", sizeof *plan);
    plan->options = from->options;
    bgi_disable_log(&plan->options);
    plan->training = from->training;
    plan->replicas = from->replicas;
    plan->tensor_1 = from->tensor_1;
    plan->tensor_2 = from->tensor_2;
    plan->input_group_size = from->input_group_size;
    plan->input_grouping = from->input_grouping;
    plan->micro_batches = from->micro_batches;
    plan->iterations = from->iterations;
    plan->optimizer = from->optimizer;
    plan->is_loop = from->is_loop;
    plan->is_endless = from->is_endless;
    plan->loop_iterations = from->loop_iterations;
    plan->condition = from->condition;
    out->scheduling = bgi_arena_allocate(&out->scratch, 1, sizeof *out->scheduling);
    if (out->scheduling == NULL)
        return bgi_error_memory(error, "a schedule", sizeof *out->scheduling);
    *out->scheduling = (bgi_scheduling){.generator = c->scheduling->generator,
                                        .splits_weights = c->scheduling->splits_weights,
                                        .device_slot_bytes = c->scheduling->device_slot_bytes};
    return bgi_graph_clone(c->graph, &out->graph, error);
}

void bgi_trial_end(bgi_compiler *trial)
{
    bg_graph_destroy(trial->graph);
    if (trial->partition != NULL)
        bgi_partition_clear(trial->partition);
    bgi_arena_clear(&trial->scratch);
    if (trial->plan != NULL)
        trial->plan->condition = NULL; /* the condition belongs to the plan that was copied */
    bg_plan_destroy(trial->plan);
    *trial = (bgi_compiler){.plan = NULL};
}
