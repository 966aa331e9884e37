/*
 * budget.c: summarizes a finished plan, and checks that each of its devices is within its budget. Before anything is
 * placed, checks that each update op alone is within the budget of its device.
 */
#include "plan/compile.h"

#include <stdio.h>

#include "core/error.h"
#include "plan/automatic.h"
#include "plan/describe.h"

/* ---- updates ---- */

/* The operands of an update op, which are all on the device while it runs. */
typedef struct bgi_update {
    const char *parameter; /* NULL: the op changes no parameter */
    bool is_sharded, has_state;
    uint32_t device;
    size_t bytes, budget;
} bgi_update;

/* Whether an operand has memory of its own: a variable, or a result such as a state that was loaded. */
static bool has_memory(const bg_graph *graph, const bgi_value *value)
{
    return value->kind == BGI_VALUE_RESULT ? graph->ops[value->op].type->alias_input == BG_NO_OPERAND
                                           : value->kind == BGI_VALUE_VARIABLE && !value->is_remote;
}

/* Whether an operand is optimizer state, on the device or loaded from a remote buffer. */
static bool is_state(const bg_graph *graph, const bgi_value *value)
{
    const bgi_op *op = value->kind == BGI_VALUE_RESULT ? &graph->ops[value->op] : NULL;

    for (uint32_t i = 0; op != NULL && i < op->input_count; i++)
        if (bgi_graph_value(graph, op->inputs[i])->role == BG_ROLE_STATE)
            return true;
    return value->role == BG_ROLE_STATE;
}

static bgi_update measure_update(const bgi_compiler *c, const bgi_op *op)
{
    bgi_update update = {.is_sharded = op->is_sharded, .device = bgi_stage_device(c, bgi_op_stage(c->stages, op))};
    bg_type types[64];

    bgi_lowered_signature(c->graph, op, types);
    for (uint32_t i = 0; i < op->input_count; i++) {
        const bgi_value *value = bgi_graph_value(c->graph, op->inputs[i]);
        bool is_first = has_memory(c->graph, value);
        for (uint32_t before = 0; before < i && is_first; before++)
            is_first = op->inputs[before].id != op->inputs[i].id;
        if (!is_first)
            continue;
        update.bytes += bg_type_size_bytes(&types[i]);
        update.has_state |= is_state(c->graph, value);
        if (value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_PARAMETER && bgi_op_type_writes(op->type, i))
            update.parameter = value->name;
    }
    return update;
}

/* Returns the bytes that the device of an update may hold; 0: any number. With automatic stages it is the largest
 * budget, because another cut may move the update to any device. */
static size_t find_budget(const bgi_compiler *c, uint32_t device)
{
    size_t most = bgi_options_budget(&c->plan->options, device);

    for (uint32_t d = 0; c->cuts->first != NULL && most != 0 && d < c->stages->device_count; d++) {
        const size_t budget = bgi_options_budget(&c->plan->options, d);
        most = budget == 0 || budget > most ? budget : most;
    }
    return most;
}

static bg_status refuse_update(const bgi_compiler *c, const bgi_update *update, bg_error *error)
{
    const bool may_shard = bgi_graph_data_replicas(c->graph, c->plan->replicas) > 1 && !update->is_sharded;
    char need[BGI_BYTES_TEXT_BYTES], have[BGI_BYTES_TEXT_BYTES], device[32] = "";

    if (c->cuts->first == NULL)
        snprintf(device, sizeof device, " of device %u", update->device);
    return bg_error_set(
        error, BG_ERROR_BUDGET,
        "the update of `%s` alone needs %s (%zu bytes) at once for the weight%s, but the budget%s "
        "is %s (%zu bytes). Offloading, recomputation and more stages do not make an update smaller: raise "
        "the budget, %s%sor divide the layer over devices (tensor parallelism: docs/strategies.md)",
        update->parameter, bgi_bytes_text(update->bytes, need), update->bytes,
        update->has_state ? ", its gradient and the optimizer's state" : " and its gradient", device,
        bgi_bytes_text(update->budget, have), update->budget,
        update->has_state ? "use an optimizer with less state, " : "",
        may_shard ? "shard the update over the replicas (--shard optimizer), " : "");
}

bg_status bgi_check_updates(bgi_compiler *c, bg_error *error)
{
    bgi_update largest = {.bytes = 0};

    for (size_t o = 0; o < c->graph->op_count; o++) {
        bgi_update update;
        if (c->graph->ops[o].phase != BGI_PHASE_UPDATE)
            continue;
        update = measure_update(c, &c->graph->ops[o]);
        update.budget = find_budget(c, update.device);
        if (update.parameter != NULL && update.budget != 0 && update.bytes > update.budget &&
            update.bytes > largest.bytes)
            largest = update;
    }
    return largest.bytes == 0 ? BG_OK : refuse_update(c, &largest, error);
}

/* ---- devices ---- */

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
            return bgi_describe_over_budget(c, plan, error);
    }
    return BG_OK;
}
