/*
 * plan.c: creates and destroys plans.
 */
#include "plan/request.h"

#include <stdlib.h>

#include "core/error.h"
#include "graph/graph.h"
#include "options/table.h"
#include "plan/options.h"

/* Copies the loop's settings to the plan. */
static void begin_loop(bg_plan *plan, const bg_loop *loop)
{
    plan->is_loop = true;
    plan->is_endless = loop->iterations == UINT64_MAX;
    plan->loop_iterations = loop->iterations;
    plan->iterations = plan->options.execution.device_iterations;
    plan->micro_batches = 1;
}

/* Replaces the schedule's name by the library's own string, because later passes compare names by address. An unknown
 * name is reported with the other problems of the options. */
static void use_own_schedule_name(bg_options *options)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(options->execution.schedule);

    if (generator != NULL)
        options->execution.schedule = generator->name;
}

bg_status bgi_plan_begin(const bgi_request *request, bg_plan **out, bg_error *error)
{
    const bg_options *options = request->options;
    bg_plan *plan = calloc(1, sizeof *plan);
    bg_status status;

    if (plan == NULL)
        return bgi_error_memory(error, "a plan", sizeof *plan);
    plan->arena.allocator = bgi_options_allocator(options);
    plan->training = request->training;
    plan->replicas = options->replicas.count; /* the option's value, until bgi_count_replicas sets the final one */
    plan->tensor_1 = request->graph->mesh.tensor_1;
    plan->tensor_2 = request->graph->mesh.tensor_2;
    plan->input_group_size = options->replicas.input_group_size;
    plan->micro_batches =
        request->training ? options->execution.gradient_accumulation : options->execution.device_iterations;
    plan->iterations = request->training ? options->execution.device_iterations : 1;
    if (request->optimizer != NULL)
        plan->optimizer = *request->optimizer;
    status = bgi_options_copy(&plan->arena, options, &plan->options, error);
    if (status == BG_OK)
        use_own_schedule_name(&plan->options);
    if (status == BG_OK && request->loop != NULL)
        begin_loop(plan, request->loop);
    if (status == BG_OK)
        *out = plan;
    else
        bg_plan_destroy(plan);
    return status;
}

bg_status bgi_plan_restart(const bgi_request *request, bg_plan **plan, bg_error *error)
{
    bg_plan *condition = (*plan)->condition;
    bg_status status;

    (*plan)->condition = NULL;
    bg_plan_destroy(*plan);
    *plan = NULL;
    status = bgi_plan_begin(request, plan, error);
    if (status == BG_OK)
        (*plan)->condition = condition;
    else
        bg_plan_destroy(condition);
    return status;
}

void bgi_plan_keep(bg_plan *plan)
{
    atomic_fetch_add(&plan->keepers, 1);
}

void bg_plan_destroy(bg_plan *plan)
{
    if (plan == NULL || atomic_fetch_sub(&plan->keepers, 1) > 0)
        return;
    for (uint32_t i = 0; i < plan->kernel_count; i++)
        if (plan->kernels[i].destroy != NULL)
            plan->kernels[i].destroy(plan->kernels[i].state);
    bg_schedule_destroy(plan->schedule);
    bg_plan_destroy(plan->condition);
    bgi_arena_clear(&plan->arena);
    free(plan);
}
