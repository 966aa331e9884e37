/*
 * problem.c: makes the schedule problem from the partition, chooses the generator that solves it, and checks the number
 * of micro-batches against the limits of IPU software.
 */
#include "plan/compile.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "options/choices.h"
#include "plan/log.h"
#include "plan/costs.h"
#include "schedule/verify.h"

/* ---- the choice ---- */

/* Returns the name of the schedule. `stage_devices` is NULL while devices are not known; no schedule that this function
 * chooses changes the stages' devices. */
static const char *name_generator(const bg_options *options, bool training, const uint32_t *stage_devices,
                                  uint32_t stage_count)
{
    bool shares = false, has_one = stage_devices != NULL;

    if (options->execution.strategy != BG_STRATEGY_PIPELINED)
        return bgi_strategy_name(options->execution.strategy);
    for (uint32_t s = 0; stage_devices != NULL && s < stage_count; s++) {
        has_one = has_one && stage_devices[s] == stage_devices[0];
        for (uint32_t t = 0; t < s && !shares; t++)
            shares = stage_devices[t] == stage_devices[s];
    }
    if (has_one)
        return "sequential";
    return options->execution.schedule != NULL ? options->execution.schedule
           : training && shares                ? "grouped"
                                               : "interleaved";
}

bg_status bgi_choose_generator(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const char *name = name_generator(options, c->plan->training, NULL, 0);
    char names[320];

    c->scheduling = bgi_arena_allocate(&c->scratch, 1, sizeof *c->scheduling);
    if (c->scheduling == NULL)
        return bgi_error_memory(error, "a schedule", sizeof *c->scheduling);
    c->scheduling->generator = bg_schedule_generator_find(name);
    if (c->scheduling->generator == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "there is no schedule `%s`; the schedules are %s", name,
                            bgi_options_schedules(names, sizeof names));
    c->scheduling->splits_weights = c->plan->training && c->scheduling->generator->splits_weights;
    return BG_OK;
}

bg_status bgi_adapt_generator(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const char *name = name_generator(options, c->plan->training, c->stages->stage_devices, c->stages->stage_count);
    bool has_one = true;

    (void)error;
    if (options->execution.strategy != BG_STRATEGY_PIPELINED)
        return BG_OK;
    for (uint32_t s = 1; s < c->stages->stage_count; s++)
        has_one = has_one && c->stages->stage_devices[s] == c->stages->stage_devices[0];
    if (has_one)
        bgi_log(options, BG_LOG_WARNING,
                "all stages are on one device, so one micro-batch runs at a time, without a pipeline");
    else if (strcmp(name, c->scheduling->generator->name) != 0)
        bgi_log(options, BG_LOG_INFO,
                "stages share devices, which `interleaved` does not support in training, so the schedule is `grouped`");
    c->scheduling->generator = bg_schedule_generator_find(name);
    c->scheduling->splits_weights = c->scheduling->splits_weights && !has_one;
    return BG_OK;
}

const char *bg_plan_schedule_name(const bg_plan *plan)
{
    return name_generator(&plan->options, plan->training, plan->stage_devices, plan->stage_count);
}

/* ---- the problem ---- */

static bg_status price_stages(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    bg_stage_cost *costs = bgi_arena_allocate(&plan->arena, c->stages->stage_count, sizeof *costs);

    if (costs == NULL)
        return bgi_error_memory(error, "costs", c->stages->stage_count * sizeof *costs);
    BGI_TRY(
        bgi_estimate_costs(c->graph, c->partition, &plan->options, costs, &plan->summary.flops_per_micro_batch, error));
    for (uint32_t s = 0; s < c->stages->stage_count; s++) {
        const double speed = bgi_options_speed(&plan->options, c->stages->stage_devices[s]);
        costs[s].forward_ns /= speed, costs[s].backward_ns /= speed;
        costs[s].weights_ns /= speed, costs[s].update_ns /= speed, costs[s].recompute_ns /= speed;
    }
    plan->problem.costs = costs;
    return BG_OK;
}

/* Divides the measured cost of B and W into the two. Costs are measured either with W separate or with W in B. A plan
 * with W in B adds the two; for a plan with W separate, a combined measurement is divided in the model's proportions.
 */
static void split_backward_cost(const bg_stage_cost *model, bg_stage_cost *cost)
{
    const double whole = cost->backward_ns + cost->weights_ns, model_whole = model->backward_ns + model->weights_ns;

    if (model->backward_ns > 0 && model->weights_ns > 0 && cost->weights_ns > 0)
        return;
    cost->weights_ns = model_whole > 0 ? whole * (model->weights_ns / model_whole) : 0.0;
    cost->backward_ns = whole - cost->weights_ns;
}

/* Replaces the model's costs by measured ones. */
static bg_status use_measured_costs(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    bg_stage_cost *costs;

    if (options->execution.stage_costs == NULL)
        return BG_OK;
    if (options->execution.stage_cost_count != c->stages->stage_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "costs are given for %u stages, but the plan has %u; measure them again with these stages",
                            options->execution.stage_cost_count, c->stages->stage_count);
    costs = bgi_arena_copy(&c->plan->arena, options->execution.stage_costs,
                           options->execution.stage_cost_count * sizeof *costs);
    if (costs == NULL)
        return bgi_error_memory(error, "costs", options->execution.stage_cost_count * sizeof *costs);
    for (uint32_t s = 0; s < c->stages->stage_count; s++)
        split_backward_cost(&c->plan->problem.costs[s], &costs[s]);
    c->plan->problem.costs = costs;
    c->plan->problem.bytes_per_ns = options->execution.message_bytes_per_ns;
    return BG_OK;
}

static bg_status mark_host_stages(bgi_compiler *c, bg_error *error)
{
    const uint32_t stages = c->stages->stage_count;
    bool *in = bgi_arena_allocate(&c->plan->arena, stages, sizeof *in);
    bool *out = bgi_arena_allocate(&c->plan->arena, stages, sizeof *out);

    if (in == NULL || out == NULL)
        return bgi_error_memory(error, "host streams", 0);
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++)
            if (bgi_graph_value(c->graph, c->partition->roots[c->graph->ops[o].inputs[i].id])->kind == BGI_VALUE_INPUT)
                in[c->partition->op_stages[o]] = true;
    for (uint32_t i = 0; i < c->plan->output_count; i++) {
        const bg_value root = c->partition->roots[c->output_values[i].id];
        if (!c->plan->outputs[i].is_per_update)
            out[c->partition->op_stages[bgi_graph_value(c->graph, root)->op]] = true;
    }
    c->plan->problem.stage_host_in = in;
    c->plan->problem.stage_host_out = out;
    return BG_OK;
}

/* Marks stages with parameters that replicas update in pieces. */
static bg_status mark_gathers(bgi_compiler *c, bg_error *error)
{
    bool *gathers = bgi_arena_allocate(&c->plan->arena, c->stages->stage_count, sizeof *gathers);

    if (gathers == NULL)
        return bgi_error_memory(error, "stages", 0);
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; c->graph->ops[o].is_sharded && i < c->graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(c->graph->ops[o].type, i) && bgi_is_gathered(c, c->graph->ops[o].inputs[i].id))
                gathers[c->partition->op_stages[o]] = true;
    c->plan->problem.stage_gathers = gathers;
    return BG_OK;
}

/* Copies devices, positions and phases of the stages to the plan's own memory. */
static bg_status copy_stages(bgi_compiler *c, bg_error *error)
{
    const size_t size_bytes = c->stages->stage_count * sizeof(uint32_t);
    bg_plan *plan = c->plan;
    bg_schedule_problem *problem = &plan->problem;

    problem->stage_count = c->stages->stage_count;
    problem->device_count = c->stages->device_count;
    problem->stage_devices = plan->stage_devices = bgi_arena_copy(&plan->arena, c->stages->stage_devices, size_bytes);
    problem->stage_positions = bgi_arena_copy(&plan->arena, c->stages->stage_positions, size_bytes);
    problem->stage_phases = bgi_arena_copy(&plan->arena, c->stages->stage_phases, size_bytes);
    if (problem->stage_devices == NULL || problem->stage_positions == NULL || problem->stage_phases == NULL)
        return bgi_error_memory(error, "stages", size_bytes);
    return BG_OK;
}

static bg_status make_problem(bgi_compiler *c, bg_error *error)
{
    bg_schedule_problem *problem = &c->plan->problem;

    *problem = bg_schedule_problem_defaults();
    c->plan->summary.flops_per_micro_batch = 0.0;
    BGI_TRY(copy_stages(c, error));
    problem->micro_batch_count = c->plan->micro_batches;
    problem->training = c->plan->training;
    problem->splits_weights = c->scheduling->splits_weights;
    problem->merges_loss = c->plan->training && !c->plan->options.execution.separate_loss;
    problem->is_strict = c->plan->options.execution.strict;
    problem->update_level_count = c->partition->level_count;
    problem->reduces_gradients = c->plan->training && bgi_plan_data_replicas(c->plan) > 1;
    problem->reduces_in_backward = c->plan->training && bgi_reduces_in_backward(c->plan);
    problem->keeps_for_sums = c->plan->training && c->plan->options.replicas.reduce_time == BG_REDUCE_BESIDE &&
                              c->plan->options.execution.strategy == BG_STRATEGY_PHASED;
    problem->stage_recomputes = c->scheduling->stage_recomputes;
    problem->edges = c->edges->list;
    problem->edge_count = c->edges->count;
    bgi_add_edge_buffers(c);
    problem->buffers = c->residency->buffers;
    problem->buffer_count = c->residency->buffer_count;
    problem->remote_bytes_per_ns = BGI_MODEL_REMOTE_BYTES_PER_NS;
    problem->bytes_per_ns = BGI_MODEL_BYTES_PER_NS;
    problem->device_slot_bytes = c->scheduling->device_slot_bytes;
    problem->stop = c->plan->options.execution.stop;
    problem->stop_user = c->plan->options.execution.stop_user;
    for (uint32_t edge = 0; edge < c->edges->count; edge++)
        c->edges->list[edge].slot_bytes = c->plan->edges[edge].slot_bytes;
    BGI_TRY(mark_gathers(c, error));
    BGI_TRY(mark_host_stages(c, error));
    BGI_TRY(price_stages(c, error));
    return use_measured_costs(c, error);
}

/* ---- limits ---- */

/* Returns the smallest number of micro-batches that IPU software accepts. In training, PopTorch's pipeline, which
 * corresponds to Brigade's default `interleaved`, needs at least 2 N - 1. TensorFlow for IPU ran `interleaved` with N,
 * but the stricter limit applies, whether or not the caller names the schedule. `grouped` with a separate loss step, as
 * in TensorFlow, needs 2 N. The other schedules have different limits. N is the number of positions: concurrent stages
 * count once. */
static uint32_t find_minimum(const bg_plan *plan, const bg_schedule_generator *generator, uint32_t positions)
{
    if (positions < 2)
        return 1;
    if (strcmp(generator->name, "interleaved") == 0 && plan->training && plan->device_count > 1)
        return 2 * positions - 1;
    if (strcmp(generator->name, "grouped") == 0 && plan->training && plan->options.execution.separate_loss)
        return 2 * positions;
    return generator->minimum_micro_batches(positions, plan->training);
}

/* Rejects pipelines with too few micro-batches, as IPU software did. Without ipu_limits, warns and reports the idle
 * time. */
static bg_status check_minimum(const bgi_compiler *c, bg_error *error)
{
    const bg_plan *plan = c->plan;
    const bg_schedule_generator *generator = c->scheduling->generator;
    const uint32_t positions = c->stages->stage_positions[c->stages->stage_count - 1] + 1;
    const uint32_t minimum = find_minimum(plan, generator, positions);
    const char *option = plan->training ? "gradient accumulation" : "device iterations";
    char text[320];

    if (plan->micro_batches >= minimum)
        return BG_OK;
    if (plan->options.execution.ipu_limits)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "%s is %u: a pipeline of N = %u stages with schedule `%s` needs at least %u%s on IPUs; raise "
            "it, or use fewer stages",
            option, plan->micro_batches, positions, generator->name, minimum,
            minimum == 2 * positions - 1 ? " (2 N - 1)"
            : minimum == 2 * positions   ? " (2 N)"
                                         : "");
    snprintf(
        text, sizeof text,
        "%s is %u, below the %u that fill a pipeline of %u stages with schedule `%s`: devices are idle for %.0f%% of "
        "the time",
        option, plan->micro_batches, minimum, positions, generator->name, 100.0 * plan->summary.idle_share);
    bgi_log(&plan->options, BG_LOG_WARNING, text);
    return BG_OK;
}

/* Creates the generator's schedule, or uses the one that a trial has made. */
static bg_status create_schedule(bgi_compiler *c, bgi_schedule_facts *out_facts, bg_error *error)
{
    bg_plan *plan = c->plan;

    if (c->scheduling->found == NULL)
        return bgi_schedule_create_proven(&plan->problem, c->scheduling->generator, &plan->schedule, out_facts, error);
    plan->schedule = c->scheduling->found;
    c->scheduling->found = NULL;
    return bgi_schedule_prove(plan->schedule, &plan->problem, out_facts, error);
}

bg_status bgi_create_schedule(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    bg_schedule_timing timing = {0};
    bgi_schedule_facts facts;
    bg_status status;

    BGI_TRY(make_problem(c, error));
    BGI_TRY(create_schedule(c, &facts, error));
    /* The edges for which a remote store pays off are known only with a schedule, so the schedule is made again until
     * nothing changes. */
    while (bgi_decide_remote_edges(c)) {
        bgi_schedule_facts_clear(&facts);
        bg_schedule_destroy(plan->schedule);
        plan->schedule = NULL;
        BGI_TRY(bgi_group_edges(c, error));
        BGI_TRY(make_problem(c, error));
        BGI_TRY(bgi_schedule_create_proven(&plan->problem, c->scheduling->generator, &plan->schedule, &facts, error));
    }
    status = bgi_decide_gradient_pieces(c, error);
    if (status == BG_OK)
        status = bgi_schedule_simulate(plan->schedule, &facts, false, &timing, error);
    bgi_schedule_facts_clear(&facts);
    if (status != BG_OK)
        return status;
    plan->summary.idle_share = timing.bubble;
    bg_schedule_timing_clear(&timing);
    return check_minimum(c, error);
}
