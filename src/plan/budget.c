/*
 * budget.c: summarizes a finished plan, and checks that each of its devices is within its memory.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "plan/describe.h"

static void summarize(bg_plan *plan)
{
    bg_plan_summary *summary = &plan->summary;

    summary->stage_count = plan->stage_count;
    summary->device_count = plan->device_count;
    summary->replicas = plan->replicas;
    summary->micro_batch = plan->input_count > 0 ? 1 : 0;
    for (uint32_t i = plan->input_count; i-- > 0;)
        if (plan->inputs[i].type.rank > 0)
            summary->micro_batch = (uint32_t)plan->inputs[i].type.dims[0];
    summary->micro_batches_per_step = plan->micro_batches;
    summary->steps_per_run = plan->iterations;
    summary->input_groups = bgi_plan_input_rows(plan);
    summary->samples_per_run =
        (uint64_t)summary->micro_batch * plan->micro_batches * plan->iterations * summary->input_groups;
}

bg_status bgi_check_budget(bgi_compiler *c, bg_error *error)
{
    const bg_plan *plan = c->plan;

    summarize(c->plan);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const size_t budget = bgi_options_budget(&plan->options, d);
        if (budget != 0 && plan->devices[d].arena_bytes > budget)
            return bgi_describe_over_budget(plan, UINT32_MAX, error);
    }
    return BG_OK;
}
