/*
 * problem.c: what the partition means for a schedule: the problem, which generator solves it, and the limits that IPU
 * software had for the numbers of micro-batches.
 */
#include "plan/compile.h"

#include <stdio.h>

#include "core/error.h"
#include "plan/log.h"
#include "plan/costs.h"

/* ---- the choice ---- */

bg_status bgi_choose_generator(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const char *name = options->strategy != BG_STRATEGY_PIPELINED ? bg_strategy_name(options->strategy)
                       : options->schedule != NULL                ? options->schedule
                                                                  : "interleaved";
    char names[320];

    c->generator = bg_schedule_generator_find(name);
    if (c->generator == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "there is no schedule `%s`; there are %s", name,
                            bgi_options_schedules(names, sizeof names));
    c->splits_weights = c->plan->training && c->generator->splits_weights;
    return BG_OK;
}

void bgi_give_up_pipeline(bgi_compiler *c)
{
    if (c->plan->options.strategy != BG_STRATEGY_PIPELINED)
        return;
    for (uint32_t s = 1; s < c->stages.stage_count; s++)
        if (c->stages.stage_devices[s] != c->stages.stage_devices[0])
            return;
    bgi_say(&c->plan->options, BG_LOG_WARNING,
            "all stages are on one device: one micro-batch runs at a time, without a pipeline");
    c->generator = bg_schedule_generator_find("sequential");
    c->splits_weights = false;
}

/* ---- the problem ---- */

static bg_status price_stages(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    bg_stage_cost *costs = bgi_arena_take(&plan->arena, c->stages.stage_count, sizeof *costs);

    if (costs == NULL)
        return bgi_error_memory(error, "costs", c->stages.stage_count * sizeof *costs);
    BGI_TRY(bgi_estimate_costs(c->graph, &c->partition, &plan->options, costs, &plan->summary.flops_per_micro_batch,
                               error));
    for (uint32_t s = 0; s < c->stages.stage_count; s++) {
        const double speed = bgi_options_speed(&plan->options, c->stages.stage_devices[s]);
        costs[s].forward_ns /= speed, costs[s].backward_ns /= speed;
        costs[s].weights_ns /= speed, costs[s].update_ns /= speed, costs[s].recompute_ns /= speed;
    }
    plan->problem.costs = costs;
    return BG_OK;
}

/* Costs are measured with W apart or with W in B: what is one action here is a sum, and what was measured as one is
 * divided as the model divides it. */
static void fit_backward(const bg_stage_cost *model, bg_stage_cost *cost)
{
    const double whole = cost->backward_ns + cost->weights_ns, model_whole = model->backward_ns + model->weights_ns;

    if (model->backward_ns > 0 && model->weights_ns > 0 && cost->weights_ns > 0)
        return;
    cost->weights_ns = model_whole > 0 ? whole * (model->weights_ns / model_whole) : 0.0;
    cost->backward_ns = whole - cost->weights_ns;
}

/* Costs that were measured take the place of the model's. */
static bg_status take_costs(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    bg_stage_cost *costs;

    if (options->stage_costs == NULL)
        return BG_OK;
    if (options->stage_cost_count != c->stages.stage_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "costs are given for %u stages, but there are %u; measure them again with these stages",
                            options->stage_cost_count, c->stages.stage_count);
    costs = bgi_arena_copy(&c->plan->arena, options->stage_costs, options->stage_cost_count * sizeof *costs);
    if (costs == NULL)
        return bgi_error_memory(error, "costs", options->stage_cost_count * sizeof *costs);
    for (uint32_t s = 0; s < c->stages.stage_count; s++)
        fit_backward(&c->plan->problem.costs[s], &costs[s]);
    c->plan->problem.costs = costs;
    c->plan->problem.bytes_per_ns = options->message_bytes_per_ns;
    return BG_OK;
}

static bg_status mark_host_stages(bgi_compiler *c, bg_error *error)
{
    const uint32_t stages = c->stages.stage_count;
    bool *in = bgi_arena_take(&c->plan->arena, stages, sizeof *in);
    bool *out = bgi_arena_take(&c->plan->arena, stages, sizeof *out);

    if (in == NULL || out == NULL)
        return bgi_error_memory(error, "host streams", 0);
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++)
            if (bgi_graph_value(c->graph, c->partition.roots[c->graph->ops[o].inputs[i].id])->kind == BGI_VALUE_INPUT)
                in[c->partition.op_stages[o]] = true;
    for (uint32_t i = 0; i < c->plan->output_count; i++) {
        const bg_value root = c->partition.roots[c->output_values[i].id];
        if (!c->plan->outputs[i].is_per_update)
            out[c->partition.op_stages[bgi_graph_value(c->graph, root)->op]] = true;
    }
    c->plan->problem.stage_host_in = in;
    c->plan->problem.stage_host_out = out;
    return BG_OK;
}

/* Stages with parameters that replicas update in pieces. */
static bg_status mark_gathers(bgi_compiler *c, bg_error *error)
{
    bool *gathers = bgi_arena_take(&c->plan->arena, c->stages.stage_count, sizeof *gathers);

    if (gathers == NULL)
        return bgi_error_memory(error, "stages", 0);
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; c->graph->ops[o].is_sharded && i < c->graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(c->graph->ops[o].type, i) && bgi_is_gathered(c, c->graph->ops[o].inputs[i].id))
                gathers[c->partition.op_stages[o]] = true;
    c->plan->problem.stage_gathers = gathers;
    return BG_OK;
}

/* Devices, positions and phases of the stages, in the plan's own memory. */
static bg_status copy_stages(bgi_compiler *c, bg_error *error)
{
    const size_t size_bytes = c->stages.stage_count * sizeof(uint32_t);
    bg_plan *plan = c->plan;
    bg_schedule_problem *problem = &plan->problem;

    problem->stage_count = c->stages.stage_count;
    problem->device_count = c->stages.device_count;
    problem->stage_devices = plan->stage_devices = bgi_arena_copy(&plan->arena, c->stages.stage_devices, size_bytes);
    problem->stage_positions = bgi_arena_copy(&plan->arena, c->stages.stage_positions, size_bytes);
    problem->stage_phases = bgi_arena_copy(&plan->arena, c->stages.stage_phases, size_bytes);
    if (problem->stage_devices == NULL || problem->stage_positions == NULL || problem->stage_phases == NULL)
        return bgi_error_memory(error, "stages", size_bytes);
    return BG_OK;
}

static bg_status make_problem(bgi_compiler *c, bg_error *error)
{
    bg_schedule_problem *problem = &c->plan->problem;

    bg_schedule_problem_init(problem);
    c->plan->summary.flops_per_micro_batch = 0.0;
    BGI_TRY(copy_stages(c, error));
    problem->micro_batch_count = c->plan->micro_batches;
    problem->training = c->plan->training;
    problem->splits_weights = c->splits_weights;
    problem->merges_loss = c->plan->training;
    problem->update_level_count = c->partition.level_count;
    problem->reduces_gradients = c->plan->training && bgi_plan_data_replicas(c->plan) > 1;
    problem->stage_recomputes = c->stage_recomputes;
    problem->edges = c->edges;
    problem->edge_count = c->edge_count;
    bgi_add_edge_buffers(c);
    problem->buffers = c->buffers;
    problem->buffer_count = c->buffer_count;
    problem->remote_bytes_per_ns = BGI_MODEL_REMOTE_BYTES_PER_NS;
    problem->bytes_per_ns = BGI_MODEL_BYTES_PER_NS;
    problem->device_slot_bytes = c->device_slot_bytes;
    for (uint32_t edge = 0; edge < c->edge_count; edge++)
        c->edges[edge].slot_bytes = c->plan->edges[edge].slot_bytes;
    BGI_TRY(mark_gathers(c, error));
    BGI_TRY(mark_host_stages(c, error));
    BGI_TRY(price_stages(c, error));
    return take_costs(c, error);
}

/* ---- limits ---- */

/* What IPU software accepted: PopTorch's pipeline, which has one order only, wants 2 N - 1 micro-batches in training;
 * the named schedules have limits of their own. N counts positions: concurrent stages are one. */
static uint32_t find_minimum(const bg_plan *plan, const bg_schedule_generator *generator, uint32_t positions)
{
    if (positions < 2)
        return 1;
    if (plan->options.strategy == BG_STRATEGY_PIPELINED && plan->options.schedule == NULL && plan->training &&
        plan->device_count > 1)
        return 2 * positions - 1;
    return generator->minimum_micro_batches(positions, plan->training);
}

/* IPU software refused pipelines with too few micro-batches; here that is a warning with the idle time it means. */
static bg_status check_minimum(const bgi_compiler *c, bg_error *error)
{
    const bg_plan *plan = c->plan;
    const bg_schedule_generator *generator = c->generator;
    const uint32_t positions = c->stages.stage_positions[c->stages.stage_count - 1] + 1;
    const uint32_t minimum = find_minimum(plan, generator, positions);
    const char *option = plan->training ? "gradient accumulation" : "device iterations";
    char text[320];

    if (plan->micro_batches >= minimum)
        return BG_OK;
    if (plan->options.ipu_limits)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%s is %u: a pipeline of N = %u stages with schedule `%s` needs at least %u%s on IPUs; raise "
            "it, or use fewer stages",
            option, plan->micro_batches, positions, generator->name, minimum,
            minimum == 2 * positions - 1 ? " (2 N - 1)" : "");
    snprintf(
        text, sizeof text,
        "%s is %u, below the %u that fill a pipeline of %u stages with schedule `%s`: devices are idle for %.0f%% of "
        "the time",
        option, plan->micro_batches, minimum, positions, generator->name, 100.0 * plan->summary.idle_share);
    bgi_say(&plan->options, BG_LOG_WARNING, text);
    return BG_OK;
}

/* The generator's schedule, or what it gave in a trial. */
static bg_status take_schedule(bgi_compiler *c, bg_error *error)
{
    if (c->found == NULL)
        return bg_schedule_create(&c->plan->problem, c->generator, &c->plan->schedule, error);
    c->plan->schedule = c->found;
    c->found = NULL;
    return bg_schedule_verify(c->plan->schedule, &c->plan->problem, error);
}

bg_status bgi_make_schedule(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    bg_schedule_timing timing = {0};

    BGI_TRY(make_problem(c, error));
    BGI_TRY(take_schedule(c, error));
    /* Which edges are worth a remote store is known when the schedule is: made again with them until nothing changes.
     */
    while (bgi_decide_remote_edges(c)) {
        bg_schedule_destroy(plan->schedule);
        plan->schedule = NULL;
        BGI_TRY(bgi_group_edges(c, error));
        BGI_TRY(make_problem(c, error));
        BGI_TRY(bg_schedule_create(&plan->problem, c->generator, &plan->schedule, error));
    }
    BGI_TRY(bg_schedule_simulate(plan->schedule, &plan->problem, &timing, error));
    plan->summary.idle_share = timing.bubble;
    bg_schedule_timing_clear(&timing);
    return check_minimum(c, error);
}
