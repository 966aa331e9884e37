/*
 * compile.c: from a user's graph to an executable plan.
 *
 *   graph --prune, fuse--> --stages--> --training--> --shared copies--> --recompute--> --fuse products--> --cut-->
 *         segments, crossings
 *         --> schedule problem --generator--> schedule --> layout --> programs, transfers --> budget
 *
 * Nothing here depends on a particular model or op. Fusion happens before stages are known, so that the decomposition
 * of the arithmetic, and with it every bit of the result, is the same under every strategy; that of products, which
 * changes no bit, when memory is about to be laid out, for every trial too.
 */
#include "plan/compile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "plan/log.h"
#include "core/text.h"
#include "plan/automatic.h"
#include "plan/cache.h"
#include "plan/describe.h"
#include "plan/devices.h"

/* ---- outputs ---- */

static bg_output_mode resolve_mode(const bg_plan *plan, bg_output_mode mode)
{
    if (mode == BG_OUTPUT_DEFAULT)
        mode = plan->options.output_mode;
    if (mode == BG_OUTPUT_DEFAULT)
        mode = bgi_plan_counts_steps(plan) ? BG_OUTPUT_FINAL : BG_OUTPUT_ALL;
    return mode;
}

static bg_status add_output(bgi_compiler *c, const char *name, const char *output, bg_output_mode mode, uint32_t period,
                            bg_error *error)
{
    bg_plan *plan = c->plan;
    const bg_value value = bgi_find_output(c->graph, output);
    const bg_value root = bg_value_is_null(value) ? value : c->partition.roots[value.id];
    bgi_plan_output *added = &plan->outputs[plan->output_count];

    if (bg_value_is_null(value))
        return bgi_unknown_output(c->graph, output, error);
    for (uint32_t i = 0; i < plan->output_count; i++)
        if (strcmp(plan->outputs[i].name, name) == 0)
            return bg_error_set(error, BG_ERROR_INVALID, "two outputs of the session are named `%s`; name the request",
                                name);
    if (bgi_graph_value(c->graph, root)->kind != BGI_VALUE_RESULT)
        return bg_error_set(error, BG_ERROR_INVALID, "output `%s` is no result of an op but an input or a variable",
                            output);
    added->mode = resolve_mode(plan, mode);
    added->period = period != 0 ? period : plan->options.output_period;
    if (added->mode == BG_OUTPUT_EVERY_N &&
        (added->period == 0 || plan->options.device_iterations % added->period != 0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "output `%s`: period %u must be at least 1 and divide the %u device iterations", name,
                            added->period, plan->options.device_iterations);
    added->type = bg_graph_type(c->graph, value);
    added->is_per_update = c->graph->ops[bgi_graph_value(c->graph, root)->op].phase == BGI_PHASE_UPDATE;
    added->name = bgi_arena_text(&plan->arena, name);
    if (added->name == NULL)
        return bgi_error_memory(error, "outputs", 0);
    c->output_values[plan->output_count++] = value;
    return BG_OK;
}

static bg_status resolve_outputs(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const bg_options *options = &plan->options;
    const size_t most = c->graph->output_count + options->output_request_count;

    plan->outputs = bgi_arena_take(&plan->arena, most, sizeof *plan->outputs);
    c->output_values = bgi_arena_take(&c->scratch, most, sizeof *c->output_values);
    if (plan->outputs == NULL || c->output_values == NULL)
        return bgi_error_memory(error, "outputs", most * sizeof *plan->outputs);
    for (size_t i = 0; !options->requests_only && i < c->graph->output_count; i++)
        if (!bgi_is_anchor(c, c->graph->outputs[i].name))
            BGI_TRY(add_output(c, c->graph->outputs[i].name, c->graph->outputs[i].name, BG_OUTPUT_DEFAULT, 0, error));
    for (uint32_t i = 0; i < options->output_request_count; i++) {
        const bg_output_request *request = &options->output_requests[i];
        BGI_TRY(add_output(c, request->name != NULL ? request->name : request->output, request->output, request->mode,
                           request->period, error));
    }
    if (options->requests_only && plan->condition != NULL)
        return add_output(c, BGI_CONDITION, BGI_CONDITION, BG_OUTPUT_FINAL, 0, error);
    return BG_OK;
}

static bg_status list_inputs(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;

    plan->inputs = bgi_arena_take(&plan->arena, c->graph->value_count, sizeof *plan->inputs);
    if (plan->inputs == NULL)
        return bgi_error_memory(error, "inputs", 0);
    for (size_t v = 1; v < c->graph->value_count; v++)
        if (c->graph->values[v].kind == BGI_VALUE_INPUT) {
            bgi_plan_input *input = &plan->inputs[plan->input_count++];
            input->name = bgi_arena_text(&plan->arena, c->graph->values[v].name);
            input->type = c->graph->values[v].type;
            if (input->name == NULL)
                return bgi_error_memory(error, "inputs", 0);
        }
    return BG_OK;
}

/* ---- graph passes ---- */

static bg_status fuse(bgi_compiler *c, const bg_graph *graph, bg_value *loss, bg_error *error)
{
    bool *is_apart = bgi_arena_take(&c->scratch, graph->value_count, sizeof *is_apart);

    if (is_apart == NULL)
        return bgi_error_memory(error, "anchors", graph->value_count);
    for (size_t i = 0; i < graph->output_count; i++)
        is_apart[graph->outputs[i].value.id] = true;
    for (size_t i = 0; i < graph->output_count; i++)
        if (!bgi_is_anchor(c, graph->outputs[i].name))
            is_apart[graph->outputs[i].value.id] = false; /* an output that is marked is not fused over */
    return bgi_fuse(graph, is_apart, loss, &c->graph, error);
}

static bg_status take_marked(bgi_compiler *c, const bg_graph *graph, bg_value *loss, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    bg_graph *pruned = NULL;
    bg_status status;

    if (c->loop != NULL) {
        BGI_TRY(bgi_graph_clone(graph, &pruned, error));
        status = bgi_make_loop(pruned, c->loop, error);
        if (status != BG_OK) {
            bg_graph_destroy(pruned);
            return status;
        }
        graph = pruned;
    } else if (!c->plan->training) {
        const char **wanted = NULL;
        if (options->requests_only) {
            wanted = bgi_arena_take(&c->scratch, options->output_request_count, sizeof *wanted);
            if (wanted == NULL)
                return bgi_error_memory(error, "outputs", 0);
            for (uint32_t i = 0; i < options->output_request_count; i++) {
                wanted[i] = options->output_requests[i].output;
                if (bg_value_is_null(bgi_find_output(graph, wanted[i])))
                    return bgi_unknown_output(graph, wanted[i], error);
            }
        }
        BGI_TRY(bgi_prune(graph, wanted, options->output_request_count, &pruned, error));
        graph = pruned;
    }
    status = options->no_fusion ? bgi_graph_clone(graph, &c->graph, error) : fuse(c, graph, loss, error);
    bg_graph_destroy(pruned);
    BGI_TRY(status);
    if (c->graph->op_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "the graph computes nothing: it has no ops%s",
                            c->plan->training ? "" : " that its outputs need");
    if (options->strategy == BG_STRATEGY_SINGLE)
        for (size_t o = 0; o < c->graph->op_count; o++)
            if (c->graph->ops[o].block == BGI_BLOCK_NONE)
                c->graph->ops[o].block = 0;
    return BG_OK;
}

static bg_status take_forward(bgi_compiler *c, const bg_graph *graph, bg_value *loss, bg_error *error)
{
    bg_graph *marked = NULL;
    bg_status status;

    BGI_TRY(bg_graph_check(graph, error));
    BGI_TRY(bgi_mark_anchors(c, graph, &marked, error));
    status = take_marked(c, marked != NULL ? marked : graph, loss, error);
    bg_graph_destroy(marked);
    return status;
}

/* The first sample dimension is what the host calls the micro-batch; all inputs must agree on it. */
static bg_status check_micro_batch(const bgi_compiler *c, bg_error *error)
{
    const bgi_plan_input *first = NULL;

    for (uint32_t i = 0; i < c->plan->input_count; i++) {
        const bgi_plan_input *input = &c->plan->inputs[i];
        if (input->type.rank == 0)
            continue; /* one number a micro-batch */
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

/* ---- variables and constants of the plan ---- */

static void list_places(const bgi_compiler *c, size_t v, bgi_operand *places, uint32_t *count)
{
    const uint32_t devices = c->stages.device_count;

    for (uint32_t d = 0; d < devices; d++)
        if (c->is_placed[v * devices + d])
            places[(*count)++] = c->places[v * devices + d];
}

static uint32_t count_places(const bgi_compiler *c, size_t v)
{
    const uint32_t devices = c->stages.device_count;
    uint32_t count = 0;

    for (uint32_t d = 0; d < devices; d++)
        count += c->is_placed[v * devices + d];
    return count;
}

/* How the mesh cuts a variable: state is cut as the parameter that it serves. NULL without an error: not at all. */
static bg_status copy_shard(bgi_compiler *c, const bgi_value *value, const bg_shard **out, bg_error *error)
{
    const bgi_value *cut = bg_value_is_null(value->owner) ? value : bgi_graph_value(c->graph, value->owner);
    bg_shard *copy;

    *out = NULL;
    if (cut->shard == NULL)
        return BG_OK;
    copy = bgi_arena_copy(&c->plan->arena, cut->shard, sizeof *copy);
    if (copy == NULL)
        return bgi_error_memory(error, "a shard", sizeof *copy);
    copy->whole.dtype = value->type.dtype;
    *out = copy;
    return BG_OK;
}

/* `next_copy`: by value, the next copy of the same variable. */
static bg_status list_variable(bgi_compiler *c, const uint32_t *next_copy, const bool *is_written, uint32_t v,
                               bg_error *error)
{
    bg_plan *plan = c->plan;
    const bgi_value *value = &c->graph->values[v];
    bgi_plan_variable *variable = &plan->variables[plan->variable_count];
    bgi_operand *places;
    uint32_t count = 0;

    if (value->kind != BGI_VALUE_VARIABLE || !bg_value_is_null(value->copy_of) || count_places(c, v) == 0)
        return BG_OK; /* no op reads it */
    for (uint32_t copy = v; copy != 0; copy = next_copy[copy])
        count += count_places(c, copy);
    places = bgi_arena_take(&plan->arena, count, sizeof *places);
    variable->name = bgi_arena_text(&plan->arena, value->name);
    if (places == NULL || variable->name == NULL)
        return bgi_error_memory(error, "variables", 0);
    count = 0;
    for (uint32_t copy = v; copy != 0; copy = next_copy[copy])
        list_places(c, copy, places, &count);
    variable->type = value->type;
    BGI_TRY(copy_shard(c, value, &variable->shard, error));
    variable->role = value->role;
    variable->initialiser = value->initialiser;
    variable->number = value->variable;
    variable->piece_count = value->is_piece ? value->piece : c->home_pieces[v];
    variable->places = places;
    variable->place_count = count;
    variable->is_written = is_written[v];
    if (value->role == BG_ROLE_HYPER)
        plan->hyper_variable = plan->variable_count;
    plan->variable_count++;
    return BG_OK;
}

static bg_status list_constants(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const uint32_t devices = c->stages.device_count;
    uint32_t count = 0;

    for (size_t v = 1; v < c->graph->value_count; v++)
        if (c->graph->values[v].kind == BGI_VALUE_CONSTANT)
            count += count_places(c, v);
    plan->constants = bgi_arena_take(&plan->arena, count, sizeof *plan->constants);
    if (plan->constants == NULL)
        return bgi_error_memory(error, "constants", 0);
    for (size_t v = 1; v < c->graph->value_count; v++)
        for (uint32_t d = 0; c->graph->values[v].kind == BGI_VALUE_CONSTANT && d < devices; d++)
            if (c->is_placed[v * devices + d]) {
                bgi_plan_constant *constant = &plan->constants[plan->constant_count++];
                constant->place = c->places[v * devices + d];
                constant->size_bytes = bg_type_size_bytes(&c->graph->values[v].type);
                constant->data = bgi_arena_copy(&plan->arena, c->graph->values[v].data, constant->size_bytes);
                if (constant->data == NULL)
                    return bgi_error_memory(error, "constants", constant->size_bytes);
            }
    return BG_OK;
}

/* By value: whether an op changes it. NULL: no memory. */
static bool *find_written(bgi_compiler *c)
{
    const bg_graph *graph = c->graph;
    bool *is_written = bgi_arena_take(&c->scratch, graph->value_count, sizeof *is_written);

    for (size_t o = 0; is_written != NULL && o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++) {
            const uint32_t v = graph->ops[o].inputs[i].id, original = graph->values[v].copy_of.id;
            is_written[original != 0 ? original : v] |= bgi_op_type_writes(graph->ops[o].type, i);
        }
    return is_written;
}

static bg_status list_leaves(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    uint32_t *next_copy;
    bool *is_written;

    plan->hyper_variable = UINT32_MAX;
    plan->variables = bgi_arena_take(&plan->arena, c->graph->variable_count + 1, sizeof *plan->variables);
    if (plan->variables == NULL)
        return bgi_error_memory(error, "variables", 0);
    next_copy = bgi_arena_take(&c->scratch, c->graph->value_count, sizeof *next_copy);
    is_written = find_written(c);
    if (next_copy == NULL || is_written == NULL)
        return bgi_error_memory(error, "variables", 0);
    for (uint32_t v = (uint32_t)c->graph->value_count; v-- > 1;) {
        const uint32_t original = c->graph->values[v].copy_of.id;
        if (original != 0) {
            next_copy[v] = next_copy[original];
            next_copy[original] = v;
        }
    }
    for (uint32_t v = 1; v < c->graph->value_count; v++)
        BGI_TRY(list_variable(c, next_copy, is_written, v, error));
    return list_constants(c, error);
}

static bg_status list_blocks(bgi_compiler *c, bg_error *error)
{
    struct bgi_plan_block *blocks = bgi_arena_take(&c->plan->arena, c->graph->block_count, sizeof *blocks);
    uint32_t count = 0;

    if (blocks == NULL)
        return bgi_error_memory(error, "blocks", 0);
    for (size_t b = 0; b < c->graph->block_count; b++) {
        if (c->stages.block_stages[b] == UINT32_MAX || (b == 0 && c->graph->block_count > 1))
            continue;
        blocks[count].name = bgi_arena_text(&c->plan->arena, c->graph->blocks[b].name);
        blocks[count].stage = c->stages.block_stages[b];
        if (blocks[count++].name == NULL)
            return bgi_error_memory(error, "blocks", 0);
    }
    c->plan->blocks = blocks;
    c->plan->block_count = count;
    return BG_OK;
}

/* ---- loops, losses ---- */

/* Carried values are the variables with the highest numbers, in their order. */
static bg_status list_carried(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const uint32_t count = c->loop != NULL ? c->loop->carried_count : 0;
    const uint32_t first = c->graph->variable_count - count;

    plan->carried = bgi_arena_take(&plan->arena, count, sizeof *plan->carried);
    if (plan->carried == NULL)
        return bgi_error_memory(error, "carried values", count * sizeof *plan->carried);
    for (uint32_t v = 0; v < plan->variable_count; v++)
        if (plan->variables[v].role == BG_ROLE_CARRIED)
            plan->carried[plan->variables[v].number - first] = v;
    plan->carried_count = count;
    for (uint32_t i = 0; plan->condition != NULL && i < plan->output_count; i++)
        if (strcmp(plan->outputs[i].name, BGI_CONDITION) == 0)
            plan->condition_output = i;
    return BG_OK;
}

static bg_status name_loss(bgi_compiler *c, bg_value loss, bg_error *error)
{
    for (size_t i = 0; c->plan->training && i < c->graph->output_count; i++)
        if (c->graph->outputs[i].value.id == loss.id) {
            c->plan->loss_output = bgi_arena_text(&c->plan->arena, c->graph->outputs[i].name);
            return c->plan->loss_output != NULL ? BG_OK : bgi_error_memory(error, "a name", 0);
        }
    return BG_OK;
}

/* ---- the driver ---- */

static void summarise(bg_plan *plan)
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

static bg_status check_budget(const bg_plan *plan, bg_error *error)
{
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const size_t budget = bgi_options_budget(&plan->options, d);
        if (budget != 0 && plan->devices[d].arena_bytes > budget)
            return bgi_describe_over_budget(plan, error);
    }
    return BG_OK;
}

/* Stages and their devices. Stages that are given are those of the whole model: what pruning left out of them does not
 * count. Blocks keep their numbers. */
static bg_status divide(bgi_compiler *c, const bg_graph *graph, bg_value loss, bgi_cuts *cuts, bg_error *error)
{
    bg_options *options = &c->plan->options;

    BGI_TRY(bgi_choose_generator(c, error));
    if (options->strategy == BG_STRATEGY_SINGLE || options->stages == NULL) {
        graph = c->graph;
    } else if (bgi_stages_are_automatic(options->stages)) {
        BGI_TRY(bgi_choose_stages(c, loss, cuts, error));
        graph = c->graph;
    }
    BGI_TRY(bgi_assign_stages(graph, options, bgi_merges_neighbours(options, c->generator), &c->stages, error));
    BGI_TRY(bgi_place_stages(options, c->generator, &c->stages, error));
    BGI_TRY(bgi_find_replicas(c, error));
    BGI_TRY(bgi_check_ipu_limits(c->graph, options, &c->stages, error));
    bgi_give_up_pipeline(c);
    return BG_OK;
}

bg_status bgi_lower(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;

    plan->stage_count = c->stages.stage_count;
    plan->device_count = c->stages.device_count;
    if (!plan->options.no_fusion)
        BGI_TRY(bgi_fuse_products(c->graph, &c->stages, error));
    BGI_TRY(bgi_cut_segments(c->graph, &c->stages, plan->training, c->splits_weights, &c->partition, error));
    BGI_TRY(resolve_outputs(c, error));
    BGI_TRY(list_inputs(c, error));
    BGI_TRY(check_micro_batch(c, error));
    BGI_TRY(bgi_find_remote(c, error));
    BGI_TRY(bgi_hoist_loads(c, error));
    BGI_TRY(bgi_group_edges(c, error));
    BGI_TRY(bgi_make_schedule(c, error));
    BGI_TRY(bgi_select_kernels(c, error));
    return bgi_lay_out(c, error);
}

static bg_status compile(bgi_compiler *c, const bg_graph *graph, bg_value loss, bgi_cuts *cuts, bg_error *error)
{
    bg_plan *plan = c->plan;

    BGI_TRY(take_forward(c, graph, &loss, error));
    BGI_TRY(name_loss(c, loss, error));
    BGI_TRY(divide(c, graph, loss, cuts, error));
    if (plan->training) {
        BGI_TRY(bgi_make_training(c->graph, loss, &plan->optimiser, &plan->options, error));
        if (!plan->options.no_fusion)
            BGI_TRY(bgi_fuse_accumulation(&c->graph, error));
    }
    BGI_TRY(bgi_copy_shared_variables(c->graph, &c->stages, error));
    bgi_warn_of_one_replica(c->graph, &plan->options, plan->training);
    if (plan->training)
        BGI_TRY(bgi_shard_updates(c->graph, &plan->options, error));
    bgi_warn_of_idle_rules(c);
    BGI_TRY(bgi_prepare_search(c, error));
    BGI_TRY(bgi_recompute_plan(c, error));
    BGI_TRY(bgi_lower(c, error));
    BGI_TRY(bgi_write_programs(c, error));
    BGI_TRY(bgi_write_transfers(c, error));
    BGI_TRY(list_leaves(c, error));
    BGI_TRY(list_carried(c, error));
    BGI_TRY(list_blocks(c, error));
    BGI_TRY(bgi_list_phases(c, error));
    summarise(plan);
    return check_budget(plan, error);
}

/* What a loop says about the plan. The condition is a body that runs once, so that it keeps all its inputs. */
static bg_status begin_loop(bg_plan *plan, const bg_loop *loop, bg_error *error)
{
    const bg_loop once = {.iterations = 1};
    bg_options options = bg_options_defaults();

    if (loop == NULL)
        return BG_OK;
    plan->is_loop = true;
    plan->is_endless = loop->iterations == UINT64_MAX;
    plan->loop_iterations = loop->iterations;
    plan->iterations = plan->options.device_iterations;
    plan->micro_batches = 1;
    options.strategy = BG_STRATEGY_SINGLE;
    options.kernels = plan->options.kernels;
    options.seed = plan->options.seed;
    return loop->condition == NULL ? BG_OK
                                   : bg_plan_create_loop(loop->condition, &once, &options, &plan->condition, error);
}

/* A plan with what the request alone says. */
static bg_status begin_plan(const bgi_request *request, bg_plan **out, bg_error *error)
{
    const bg_options *options = request->options;
    bg_plan *plan = calloc(1, sizeof *plan);
    bg_status status;

    if (plan == NULL)
        return bgi_error_memory(error, "a plan", sizeof *plan);
    plan->training = request->training;
    plan->replicas = options->replicas; /* until bgi_find_replicas */
    plan->tensor_1 = request->graph->mesh.tensor_1;
    plan->tensor_2 = request->graph->mesh.tensor_2;
    plan->input_group_size = options->input_group_size;
    plan->micro_batches = request->training ? options->gradient_accumulation : options->device_iterations;
    plan->iterations = request->training ? options->device_iterations : 1;
    if (request->optimiser != NULL)
        plan->optimiser = *request->optimiser;
    status = bgi_options_copy(&plan->arena, options, &plan->options, error);
    if (status == BG_OK)
        status = begin_loop(plan, request->loop, error);
    if (status == BG_OK)
        *out = plan;
    else
        bg_plan_destroy(plan);
    return status;
}

static bg_status compile_plan(const bgi_request *request, bg_plan *plan, bgi_cuts *cuts, bg_error *error)
{
    bgi_compiler compiler = {.plan = plan, .loop = request->loop};
    const bg_status status = compile(&compiler, request->graph, request->loss, cuts, error);

    bg_graph_destroy(compiler.graph);
    bg_schedule_destroy(compiler.found);
    bgi_stages_clear(&compiler.stages);
    bgi_partition_clear(&compiler.partition);
    bgi_arena_clear(&compiler.scratch);
    return status;
}

/* What attempts say, until it is known which one counts. */
typedef struct held_log {
    bgi_arena arena;
    struct held_text {
        bg_log_level level;
        const char *text;
        struct held_text *next;
    } * texts, **end;
    bg_log_function log; /* whom it is for */
    void *user;
} held_log;

static void hold(void *user, bg_log_level level, const char *text)
{
    held_log *held = user;
    struct held_text *added = bgi_arena_take(&held->arena, 1, sizeof *added);

    if (added == NULL)
        return;
    added->level = level;
    added->text = bgi_arena_text(&held->arena, text);
    *held->end = added;
    held->end = &added->next;
}

static void begin_holding(held_log *held, bg_plan *plan)
{
    bgi_arena_clear(&held->arena);
    *held = (held_log){.log = plan->options.log, .user = plan->options.log_user};
    held->end = &held->texts;
    if (held->log == NULL)
        return;
    plan->options.log = hold;
    plan->options.log_user = held;
}

static void let_go(held_log *held, bg_plan *plan)
{
    plan->options.log = held->log;
    plan->options.log_user = held->user;
    for (const struct held_text *text = held->texts; text != NULL; text = text->next)
        if (text->text != NULL)
            held->log(held->user, text->level, text->text);
    bgi_arena_clear(&held->arena);
}

static bg_status begin_again(const bgi_request *request, bg_plan **plan, bg_error *error)
{
    bg_plan_destroy(*plan);
    *plan = NULL;
    return begin_plan(request, plan, error);
}

/* With cut after cut until one is within the budgets. When none is, error and log are those of the first. */
static bg_status compile_cuts(const bgi_request *request, bgi_cache *cache, bg_plan **plan, bg_error *error)
{
    held_log logs[2] = {{.texts = NULL}}, *held = &logs[0]; /* of the first, of the newest */
    bgi_cuts cuts = {.first = NULL};
    bg_error reason = {0};
    bg_status status;

    for (;; held = &logs[1]) {
        bgi_cache_listen(cache, *plan);
        begin_holding(held, *plan);
        bg_error_clear(&reason);
        status = compile_plan(request, *plan, &cuts, &reason);
        if (status == BG_ERROR_BUDGET && cuts.first_error.status == BG_OK)
            cuts.first_error = reason;
        if (status != BG_ERROR_BUDGET || !bgi_cuts_learn(&cuts, *plan))
            break;
        BGI_TRY_CLEANUP(begin_again(request, plan, &reason));
    }
    let_go(status == BG_OK ? held : &logs[0], *plan);
cleanup:
    if (status != BG_OK && error != NULL && error->status == BG_OK)
        *error = status == BG_ERROR_BUDGET ? cuts.first_error : reason;
    bgi_arena_clear(&logs[0].arena);
    bgi_arena_clear(&logs[1].arena);
    bgi_cuts_clear(&cuts);
    return status;
}

/* From the cache, or compiled and into the cache. *plan is as begin_plan left it, and NULL when it fails. */
static bg_status complete_plan(const bgi_request *request, bgi_cache *cache, bg_plan **plan, bg_error *error)
{
    bg_status status;

    (*plan)->summary.is_cached = bgi_cache_load(cache, *plan);
    if ((*plan)->summary.is_cached)
        return BG_OK;
    if (cache->path != NULL) /* what was read of a bad file is in it */
        BGI_TRY(begin_again(request, plan, error));
    status = compile_cuts(request, cache, plan, error);
    if (status == BG_OK) {
        bgi_cache_store(cache, *plan);
        return BG_OK;
    }
    bg_plan_destroy(*plan);
    *plan = NULL;
    return status;
}

static void say_made(const bg_plan *plan)
{
    char text[64];

    snprintf(text, sizeof text, "plan: %s in %.1f ms", plan->summary.is_cached ? "loaded from cache" : "compiled",
             plan->summary.compile_ms);
    bgi_say(&plan->options, BG_LOG_INFO, text);
}

static bg_status create_plan(const bgi_request *request, bg_plan **out, bg_error *error)
{
    const uint64_t start_ns = bgi_clock_ns();
    bg_plan *plan = NULL;
    bgi_cache cache;
    bg_status status;

    BGI_TRY(bgi_options_validate(request->options, request->training, error));
    if (request->optimiser != NULL)
        BGI_TRY(bg_optimiser_validate(request->optimiser, error));
    BGI_TRY(bgi_log_begin(request->options, error));
    BGI_TRY(bgi_cache_begin(&cache, request, error));
    status = begin_plan(request, &plan, error);
    if (status == BG_OK)
        status = complete_plan(request, &cache, &plan, error);
    bgi_cache_end(&cache);
    if (status != BG_OK)
        return status;
    plan->summary.compile_ms = (double)(bgi_clock_ns() - start_ns) / 1e6;
    say_made(plan);
    status = bgi_log_plan(plan, error);
    if (status != BG_OK) {
        bg_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return BG_OK;
}

bg_status bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimiser *optimiser,
                                  const bg_options *options, bg_plan **out, bg_error *error)
{
    if (graph == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "a plan without a graph");
    if (bg_graph_check(graph, error) != BG_OK)
        return bg_graph_check(graph, NULL);
    if (bg_value_is_null(loss) || loss.id >= graph->value_count)
        return bg_error_set(error, BG_ERROR_INVALID, "the loss is not a value of the graph");
    if (optimiser == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "training needs an optimiser: bg_sgd(0.01), bg_adamw(0.001), ...");
    return create_plan(
        &(bgi_request){.graph = graph, .training = true, .loss = loss, .optimiser = optimiser, .options = options}, out,
        error);
}

bg_status bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out, bg_error *error)
{
    if (graph == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "a plan without a graph");
    return create_plan(&(bgi_request){.graph = graph, .options = options}, out, error);
}

bg_status bg_plan_create_loop(const bg_graph *body, const bg_loop *loop, const bg_options *options, bg_plan **out,
                              bg_error *error)
{
    bg_options own;

    if (body == NULL || loop == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "a loop without %s",
                            body == NULL   ? "a body"
                            : loop == NULL ? "a description"
                                           : "options");
    if (loop->carried_count > BG_LOOP_MOST_CARRIED)
        return bg_error_set(error, BG_ERROR_INVALID, "%u carried values; there are at most %d", loop->carried_count,
                            BG_LOOP_MOST_CARRIED);
    if (loop->iterations >= UINT32_MAX && loop->iterations != UINT64_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "a loop of %llu iterations; it has fewer than 2^32, or no end",
                            (unsigned long long)loop->iterations);
    if (options->device_iterations != 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "device_iterations is %u; it must be 1, for the loop says how often its body runs",
                            options->device_iterations);
    own = *options;
    if (loop->iterations > 1 && loop->iterations != UINT64_MAX)
        own.device_iterations = (uint32_t)loop->iterations;
    return create_plan(&(bgi_request){.graph = body, .loop = loop, .options = &own}, out, error);
}

void bg_plan_destroy(bg_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t i = 0; i < plan->kernel_count; i++)
        if (plan->kernels[i].destroy != NULL)
            plan->kernels[i].destroy(plan->kernels[i].state);
    bg_schedule_destroy(plan->schedule);
    bg_plan_destroy(plan->condition);
    bgi_arena_clear(&plan->arena);
    free(plan);
}
