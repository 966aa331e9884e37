/*
 * outputs.c: lists the inputs of a plan and its outputs (requested or marked), and finds the output that is the loss.
 */
#include "plan/compile.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"

/* ---- outputs ---- */

static bg_output_mode resolve_mode(const bg_plan *plan, bg_output_mode mode)
{
    if (mode == BG_OUTPUT_DEFAULT)
        mode = plan->options.reporting.output_mode;
    if (mode == BG_OUTPUT_DEFAULT)
        mode = bgi_plan_counts_steps(plan) ? BG_OUTPUT_FINAL : BG_OUTPUT_ALL;
    return mode;
}

static bg_status add_output(bgi_compiler *c, const char *name, const char *output, bg_output_mode mode, uint32_t period,
                            bg_error *error)
{
    bg_plan *plan = c->plan;
    const bg_value value = bgi_find_output(c->graph, output);
    const bg_value root = bg_value_is_null(value) ? value : c->partition->roots[value.id];
    bgi_plan_output *added = &plan->outputs[plan->output_count];

    if (bg_value_is_null(value))
        return bgi_unknown_output(c->graph, output, error);
    for (uint32_t i = 0; i < plan->output_count; i++)
        if (strcmp(plan->outputs[i].name, name) == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "two outputs of the session are named `%s`; give the request another name", name);
    if (bgi_graph_value(c->graph, root)->kind != BGI_VALUE_RESULT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "output `%s` is not the result of an op", output);
    added->mode = resolve_mode(plan, mode);
    added->period = period != 0 ? period : plan->options.reporting.output_period;
    if (added->mode == BG_OUTPUT_EVERY_N &&
        (added->period == 0 || plan->options.execution.device_iterations % added->period != 0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "output `%s`: period %u must be at least 1 and divide the %u device iterations", name,
                            added->period, plan->options.execution.device_iterations);
    added->type = bg_graph_type(c->graph, value);
    added->is_per_update = c->graph->ops[bgi_graph_value(c->graph, root)->op].phase == BGI_PHASE_UPDATE;
    added->name = bgi_arena_string(&plan->arena, name);
    if (added->name == NULL)
        return bgi_error_memory(error, "outputs", 0);
    c->output_values[plan->output_count++] = value;
    return BG_OK;
}

static bg_status list_outputs(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const bg_options *options = &plan->options;
    const size_t most = c->graph->output_count + options->reporting.output_request_count;

    plan->outputs = bgi_arena_allocate(&plan->arena, most, sizeof *plan->outputs);
    c->output_values = bgi_arena_allocate(&c->scratch, most, sizeof *c->output_values);
    if (plan->outputs == NULL || c->output_values == NULL)
        return bgi_error_memory(error, "outputs", most * sizeof *plan->outputs);
    for (size_t i = 0; !options->reporting.requests_only && i < c->graph->output_count; i++)
        if (!bgi_is_anchor(c, c->graph->outputs[i].name))
            BGI_TRY(add_output(c, c->graph->outputs[i].name, c->graph->outputs[i].name, BG_OUTPUT_DEFAULT, 0, error));
    for (uint32_t i = 0; i < options->reporting.output_request_count; i++) {
        const bg_output_request *request = &options->reporting.output_requests[i];
        BGI_TRY(add_output(c, request->name != NULL ? request->name : request->output, request->output, request->mode,
                           request->period, error));
    }
    if (options->reporting.requests_only && plan->condition != NULL)
        return add_output(c, BGI_CONDITION, BGI_CONDITION, BG_OUTPUT_FINAL, 0, error);
    return BG_OK;
}

static bg_status list_inputs(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;

    plan->inputs = bgi_arena_allocate(&plan->arena, c->graph->value_count, sizeof *plan->inputs);
    if (plan->inputs == NULL)
        return bgi_error_memory(error, "inputs", 0);
    for (size_t v = 1; v < c->graph->value_count; v++)
        if (c->graph->values[v].kind == BGI_VALUE_INPUT) {
            bgi_plan_input *input = &plan->inputs[plan->input_count++];
            input->name = bgi_arena_string(&plan->arena, c->graph->values[v].name);
            input->type = c->graph->values[v].type;
            if (input->name == NULL)
                return bgi_error_memory(error, "inputs", 0);
        }
    return BG_OK;
}

/* Checks that all inputs except scalars have the same first dimension, the number of samples in a micro-batch. */
static bg_status check_micro_batch(const bgi_compiler *c, bg_error *error)
{
    const bgi_plan_input *first = NULL;

    for (uint32_t i = 0; i < c->plan->input_count; i++) {
        const bgi_plan_input *input = &c->plan->inputs[i];
        if (input->type.rank == 0)
            continue; /* a scalar: one number for each micro-batch */
        if (first == NULL)
            first = input;
        if (input->type.dims[0] != first->type.dims[0])
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "inputs `%s` and `%s` have different micro-batches: %" PRId64 " and %" PRId64
                                " samples",
                                first->name, input->name, first->type.dims[0], input->type.dims[0]);
    }
    return BG_OK;
}

bg_status bgi_list_streams(bgi_compiler *c, bg_error *error)
{
    BGI_TRY(list_outputs(c, error));
    BGI_TRY(list_inputs(c, error));
    return check_micro_batch(c, error);
}

bg_status bgi_name_loss(bgi_compiler *c, bg_error *error)
{
    for (size_t i = 0; c->plan->training && i < c->graph->output_count; i++)
        if (c->graph->outputs[i].value.id == c->loss.id) {
            c->plan->loss_output = bgi_arena_string(&c->plan->arena, c->graph->outputs[i].name);
            return c->plan->loss_output != NULL ? BG_OK : bgi_error_memory(error, "a name", 0);
        }
    return BG_OK;
}

bool bgi_is_plan_output(const bgi_compiler *c, uint32_t root)
{
    for (uint32_t i = 0; i < c->plan->output_count; i++)
        if (c->partition->roots[c->output_values[i].id].id == root)
            return true;
    return false;
}
