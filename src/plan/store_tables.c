/*
 * store_tables.c: visits the parts of a plan that are only numbers and names: its sizes, the schedule with its problem,
 * edges, leaves, streams and blocks. The same functions write and read. A reader checks that these parts are consistent
 * before it reads programs.
 */
#include "plan/store_tables.h"

#include "core/error.h"
#include "core/section.h"
#include "plan/compile.h"
#include "schedule/schedule.h"

/* ---- types, names, operands and actions ---- */

void bgi_store_type(bgi_archive *a, bg_type *type)
{
    BGI_ARCHIVE_ENUM(a, type->dtype, BG_DTYPE_COUNT);
    bgi_archive_below(a, &type->rank, BG_MAX_RANK + 1);
    for (uint32_t i = 0; i < type->rank; i++)
        bgi_archive_i64(a, &type->dims[i]);
    if (a->is_reading && (type->dtype == BG_DTYPE_NONE ? type->rank != 0 : bg_type_validate(type, NULL) != BG_OK))
        bgi_archive_fail(a);
}

/* Visits a type that must be present. */
void bgi_store_present_type(bgi_archive *a, bg_type *type)
{
    bgi_store_type(a, type);
    if (type->dtype == BG_DTYPE_NONE)
        bgi_archive_fail(a);
}

void bgi_store_name(bgi_archive *a, const char **name)
{
    bgi_archive_text(a, name);
    if (*name == NULL) {
        bgi_archive_fail(a);
        *name = "";
    }
}

void bgi_store_operand(bgi_archive *a, bgi_operand *operand)
{
    uint32_t edge = operand->edge + 1u; /* none: 0 */

    BGI_ARCHIVE_ENUM(a, operand->memory, BGI_MEMORY_COUNT);
    bgi_archive_u32(a, &edge);
    bgi_archive_size(a, &operand->offset);
    bgi_archive_size(a, &operand->stride);
    operand->edge = edge - 1u;
}

static void visit_place(bgi_archive *a, bgi_place *place)
{
    bgi_archive_u32(a, &place->device);
    bgi_store_operand(a, &place->operand);
}

void bgi_store_action(bgi_archive *a, bg_action *action)
{
    BGI_ARCHIVE_ENUM(a, action->kind, BG_ACTION_KIND_COUNT);
    bgi_archive_u32(a, &action->stage);
    bgi_archive_u32(a, &action->micro_batch);
    bgi_archive_u32(a, &action->index);
}

/* ---- lists ---- */

static const uint32_t *visit_numbers(bgi_archive *a, const uint32_t *numbers, uint32_t count)
{
    uint32_t *visited = bgi_archive_table(a, numbers, count, sizeof *visited);

    for (uint32_t i = 0; visited != NULL && i < count; i++)
        bgi_archive_u32(a, &visited[i]);
    return visited;
}

static const bool *visit_flags(bgi_archive *a, const bool *flags, uint32_t count)
{
    bool *visited = bgi_archive_table(a, flags, count, sizeof *visited);

    for (uint32_t i = 0; visited != NULL && i < count; i++)
        bgi_archive_bool(a, &visited[i]);
    return visited;
}

/* ---- the schedule ---- */

static void visit_schedule_edge(bgi_archive *a, bg_schedule_edge *edge)
{
    BGI_ARCHIVE_ENUM(a, edge->from_kind, BG_ACTION_KIND_COUNT);
    bgi_archive_u32(a, &edge->from_stage);
    bgi_archive_u32(a, &edge->from_level);
    BGI_ARCHIVE_ENUM(a, edge->to_kind, BG_ACTION_KIND_COUNT);
    BGI_ARCHIVE_ENUM(a, edge->last_kind, BG_ACTION_KIND_COUNT);
    bgi_archive_u32(a, &edge->to_stage);
    bgi_archive_u32(a, &edge->to_level);
    bgi_archive_size(a, &edge->size_bytes);
    bgi_archive_size(a, &edge->slot_bytes);
}

static void visit_schedule_buffer(bgi_archive *a, bg_schedule_buffer *buffer)
{
    bgi_archive_u32(a, &buffer->stage);
    bgi_archive_u32(a, &buffer->reads);
    bgi_archive_u32(a, &buffer->writes);
    bgi_archive_u32(a, &buffer->update_levels);
    bgi_archive_bool(a, &buffer->starts_fresh);
    BGI_ARCHIVE_ENUM(a, buffer->residency, BG_RESIDENCY_VISIT + 1);
    bgi_archive_bool(a, &buffer->preload);
    bgi_archive_bool(a, &buffer->per_micro_batch);
    bgi_archive_bool(a, &buffer->shares_store);
    bgi_archive_u32(a, &buffer->store_of);
    bgi_archive_u32(a, &buffer->edge);
    bgi_archive_u32(a, &buffer->slots);
    bgi_archive_size(a, &buffer->size_bytes);
    bgi_archive_size(a, &buffer->store_bytes);
}

static void visit_stage_cost(bgi_archive *a, bg_stage_cost *cost)
{
    bgi_archive_double(a, &cost->forward_ns);
    bgi_archive_double(a, &cost->backward_ns);
    bgi_archive_double(a, &cost->weights_ns);
    bgi_archive_double(a, &cost->update_ns);
    bgi_archive_double(a, &cost->recompute_ns);
}

static void visit_problem_lists(bgi_archive *a, bg_schedule_problem *problem)
{
    bg_schedule_edge *edges = bgi_archive_list(a, problem->edges, &problem->edge_count, sizeof *edges);
    bg_schedule_buffer *buffers;
    bg_stage_cost *costs;
    size_t *room;

    for (uint32_t i = 0; i < problem->edge_count; i++)
        visit_schedule_edge(a, &edges[i]);
    buffers = bgi_archive_list(a, problem->buffers, &problem->buffer_count, sizeof *buffers);
    for (uint32_t i = 0; i < problem->buffer_count; i++)
        visit_schedule_buffer(a, &buffers[i]);
    costs = bgi_archive_table(a, problem->costs, problem->stage_count, sizeof *costs);
    for (uint32_t i = 0; costs != NULL && i < problem->stage_count; i++)
        visit_stage_cost(a, &costs[i]);
    room = bgi_archive_table(a, problem->device_slot_bytes, problem->device_count, sizeof *room);
    for (uint32_t i = 0; room != NULL && i < problem->device_count; i++)
        bgi_archive_size(a, &room[i]);
    problem->edges = edges;
    problem->buffers = buffers;
    problem->costs = costs;
    problem->device_slot_bytes = room;
}

static void visit_problem(bgi_archive *a, bg_schedule_problem *problem)
{
    problem->struct_bytes = sizeof *problem; /* the number is not in the file, so it is set here */
    bgi_archive_u32(a, &problem->stage_count);
    bgi_archive_u32(a, &problem->device_count);
    problem->stage_devices = visit_numbers(a, problem->stage_devices, problem->stage_count);
    problem->stage_positions = visit_numbers(a, problem->stage_positions, problem->stage_count);
    problem->stage_phases = visit_numbers(a, problem->stage_phases, problem->stage_count);
    bgi_archive_u32(a, &problem->micro_batch_count);
    bgi_archive_bool(a, &problem->training);
    bgi_archive_bool(a, &problem->splits_weights);
    bgi_archive_bool(a, &problem->merges_loss);
    bgi_archive_bool(a, &problem->is_strict);
    bgi_archive_bool(a, &problem->reduces_in_backward);
    bgi_archive_bool(a, &problem->keeps_for_sums);
    bgi_archive_u32(a, &problem->update_level_count);
    bgi_archive_bool(a, &problem->reduces_gradients);
    problem->stage_gathers = visit_flags(a, problem->stage_gathers, problem->stage_count);
    problem->stage_host_in = visit_flags(a, problem->stage_host_in, problem->stage_count);
    problem->stage_host_out = visit_flags(a, problem->stage_host_out, problem->stage_count);
    problem->stage_recomputes = visit_flags(a, problem->stage_recomputes, problem->stage_count);
    bgi_archive_double(a, &problem->remote_bytes_per_ns);
    bgi_archive_double(a, &problem->bytes_per_ns);
    bgi_archive_u32(a, &problem->send_ahead);
    visit_problem_lists(a, problem);
}

static void visit_schedule(bgi_archive *a, bg_plan *plan)
{
    if (a->is_reading && (a->has_failed || bgi_schedule_create(plan->device_count, &plan->schedule, NULL) != BG_OK)) {
        bgi_archive_fail(a);
        return;
    }
    for (uint32_t d = 0; d < plan->device_count; d++) {
        uint32_t count = bg_schedule_action_count(plan->schedule, d);
        const bg_action *actions = bg_schedule_actions(plan->schedule, d);
        bgi_archive_u32(a, &count);
        for (uint32_t i = 0; i < count && !a->has_failed; i++) {
            bg_action action = a->is_reading ? (bg_action){0} : actions[i];
            bgi_store_action(a, &action);
            if (a->is_reading && bg_schedule_emit(plan->schedule, d, action, NULL) != BG_OK)
                bgi_archive_fail(a);
        }
    }
}

/* ---- tables ---- */

static void visit_edges(bgi_archive *a, bg_plan *plan)
{
    plan->edges = bgi_archive_list(a, plan->edges, &plan->edge_count, sizeof *plan->edges);
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        bgi_plan_edge *edge = &plan->edges[i];
        bgi_archive_u32(a, &edge->from_device);
        bgi_archive_u32(a, &edge->to_device);
        bgi_archive_bool(a, &edge->per_step);
        bgi_archive_u32(a, &edge->depth);
        bgi_archive_size(a, &edge->slot_bytes);
        bgi_archive_size(a, &edge->offset);
        bgi_archive_bool(a, &edge->is_stash);
        bgi_archive_bool(a, &edge->is_ring);
        bgi_archive_bool(a, &edge->is_remote);
        bgi_archive_size(a, &edge->payload_bytes);
    }
}

/* Visits how the mesh cuts a variable into pieces of the variable's type. */
static void visit_shard(bgi_archive *a, const bg_plan *plan, bgi_plan_variable *variable)
{
    const bg_mesh mesh = bgi_plan_mesh(plan);
    bool is_cut = variable->shard != NULL;
    bg_shard *shard;
    bg_type piece;

    bgi_archive_bool(a, &is_cut);
    if (!is_cut || a->has_failed)
        return;
    variable->shard = shard = bgi_archive_table(a, variable->shard, 1, sizeof *shard);
    if (shard == NULL) {
        bgi_archive_fail(a);
        return;
    }
    bgi_store_present_type(a, &shard->whole);
    for (uint32_t i = 0; i < shard->whole.rank && !a->has_failed; i++) {
        BGI_ARCHIVE_ENUM(a, shard->dims[i].axis, BG_MESH_TENSOR_2 + 1);
        bgi_archive_u32(a, &shard->dims[i].blocks);
        bgi_archive_u32(a, &shard->dims[i].multiple);
    }
    if (a->is_reading && !a->has_failed &&
        (bg_shard_piece(&mesh, shard, &piece, NULL) != BG_OK || !bg_type_equal(&piece, &variable->type)))
        bgi_archive_fail(a);
}

/* Visits the range of a whole weight that the variable holds; the range has the variable's type. */
static void visit_section(bgi_archive *a, bgi_plan_variable *variable)
{
    bool is_section = variable->section != NULL;
    bg_section *section;
    bg_type type;

    bgi_archive_bool(a, &is_section);
    if (!is_section || a->has_failed)
        return;
    variable->section = section = bgi_archive_table(a, variable->section, 1, sizeof *section);
    if (section == NULL) {
        bgi_archive_fail(a);
        return;
    }
    bgi_store_name(a, &section->name);
    bgi_store_present_type(a, &section->whole);
    bgi_archive_u32(a, &section->axis);
    bgi_archive_i64(a, &section->first);
    bgi_archive_i64(a, &section->count);
    if (!a->is_reading || a->has_failed)
        return;
    if (variable->shard != NULL || bgi_section_validate(section, NULL) != BG_OK) {
        bgi_archive_fail(a);
        return;
    }
    type = bgi_section_type(section);
    if (!bg_type_equal(&type, &variable->type))
        bgi_archive_fail(a);
}

/* Visits how a quantized variable stores a parameter's values. */
static void visit_quantized(bgi_archive *a, bgi_plan_variable *variable)
{
    bgi_quantized *q = &variable->quantized;
    uint32_t bits = q->bits;
    bool in_out = q->in_out != 0;
    bg_type type;

    bgi_archive_u32(a, &bits);
    if (bits == 0 || a->has_failed)
        return;
    bgi_archive_i64(a, &q->in);
    bgi_archive_i64(a, &q->out);
    bgi_archive_bool(a, &in_out);
    if (!a->is_reading || a->has_failed)
        return;
    q->bits = (uint8_t)bits;
    q->in_out = in_out;
    if (!bgi_quantized_is_valid(q->in, q->out, bits) || variable->shard != NULL || variable->section != NULL ||
        bgi_quantized_source_length(variable->name) == 0) {
        bgi_archive_fail(a);
        return;
    }
    type = bgi_quantized_type(q->in, q->out, bits);
    if (!bg_type_equal(&type, &variable->type))
        bgi_archive_fail(a);
}

static void visit_variable(bgi_archive *a, const bg_plan *plan, bgi_plan_variable *variable)
{
    bgi_place *places;

    bgi_store_name(a, &variable->name);
    bgi_store_present_type(a, &variable->type);
    visit_shard(a, plan, variable);
    visit_section(a, variable);
    visit_quantized(a, variable);
    BGI_ARCHIVE_ENUM(a, variable->role, BG_ROLE_TRAINING + 1);
    BGI_ARCHIVE_ENUM(a, variable->initializer.kind, BG_INITIALIZE_SPARSE + 1);
    bgi_archive_double(a, &variable->initializer.a);
    bgi_archive_double(a, &variable->initializer.b);
    bgi_archive_u32(a, &variable->number);
    bgi_archive_i64(a, &variable->piece_count);
    bgi_archive_bool(a, &variable->is_written);
    variable->places = places = bgi_archive_list(a, variable->places, &variable->place_count, sizeof *places);
    for (uint32_t i = 0; i < variable->place_count; i++)
        visit_place(a, &places[i]);
}

static void visit_leaves(bgi_archive *a, bg_plan *plan)
{
    plan->variables = bgi_archive_list(a, plan->variables, &plan->variable_count, sizeof *plan->variables);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        visit_variable(a, plan, &plan->variables[i]);
    bgi_archive_u32(a, &plan->hyper_variable);
    plan->constants = bgi_archive_list(a, plan->constants, &plan->constant_count, sizeof *plan->constants);
    for (uint32_t i = 0; i < plan->constant_count; i++) {
        visit_place(a, &plan->constants[i].place);
        bgi_archive_size(a, &plan->constants[i].size_bytes);
        bgi_archive_bytes(a, &plan->constants[i].data, plan->constants[i].size_bytes);
    }
    plan->carried = bgi_archive_list(a, plan->carried, &plan->carried_count, sizeof *plan->carried);
    for (uint32_t i = 0; i < plan->carried_count; i++)
        bgi_archive_u32(a, &plan->carried[i]);
}

static void visit_streams(bgi_archive *a, bg_plan *plan)
{
    plan->inputs = bgi_archive_list(a, plan->inputs, &plan->input_count, sizeof *plan->inputs);
    for (uint32_t i = 0; i < plan->input_count; i++) {
        bgi_store_name(a, &plan->inputs[i].name);
        bgi_store_present_type(a, &plan->inputs[i].type);
    }
    plan->outputs = bgi_archive_list(a, plan->outputs, &plan->output_count, sizeof *plan->outputs);
    for (uint32_t i = 0; i < plan->output_count; i++) {
        bgi_plan_output *output = &plan->outputs[i];
        bgi_store_name(a, &output->name);
        bgi_store_present_type(a, &output->type);
        BGI_ARCHIVE_ENUM(a, output->mode, BG_OUTPUT_EVERY_N + 1);
        bgi_archive_u32(a, &output->period);
        bgi_archive_bool(a, &output->is_per_update);
    }
    bgi_archive_text(a, &plan->loss_output);
    bgi_archive_u32(a, &plan->condition_output);
}

static void visit_blocks(bgi_archive *a, bg_plan *plan)
{
    struct bgi_plan_block *blocks = bgi_archive_list(a, plan->blocks, &plan->block_count, sizeof *blocks);

    for (uint32_t i = 0; i < plan->block_count; i++) {
        bgi_store_name(a, &blocks[i].name);
        bgi_archive_below(a, &blocks[i].stage, plan->stage_count);
    }
    plan->blocks = blocks;
}

static void visit_phases(bgi_archive *a, bg_plan *plan)
{
    bgi_plan_phase *phases = bgi_archive_list(a, plan->phases, &plan->phase_count, sizeof *phases);

    for (uint32_t i = 0; i < plan->phase_count; i++) {
        bgi_archive_below(a, &phases[i].stage, plan->stage_count);
        bgi_archive_below(a, &phases[i].device, plan->device_count);
        BGI_ARCHIVE_ENUM(a, phases[i].kind, BG_ACTION_KIND_COUNT);
        for (int k = 0; k < BG_MEMORY_CLASS_COUNT; k++)
            bgi_archive_size(a, &phases[i].class_bytes[k]);
    }
    plan->phases = phases;
}

/* Visits the choices that the compiler made beyond the options. */
static void visit_choices(bgi_archive *a, bg_plan *plan)
{
    bgi_archive_text(a, &plan->options.execution.stages);
    bgi_archive_u32(a, &plan->options.replicas.count);
    bgi_archive_u32(a, &plan->replicas);
    bgi_archive_u32(a, &plan->tensor_1);
    bgi_archive_u32(a, &plan->tensor_2);
    bgi_archive_u32(a, &plan->input_group_size);
    BGI_ARCHIVE_ENUM(a, plan->input_grouping, BG_GROUPING_NONE + 1);
    bgi_archive_u32(a, &plan->stage_count);
    bgi_archive_u32(a, &plan->device_count);
}

static void visit_summary(bgi_archive *a, bg_plan_summary *summary)
{
    bgi_archive_u32(a, &summary->stage_count);
    bgi_archive_u32(a, &summary->device_count);
    bgi_archive_u32(a, &summary->replicas);
    bgi_archive_u32(a, &summary->micro_batch);
    bgi_archive_u32(a, &summary->micro_batches_per_step);
    bgi_archive_u32(a, &summary->steps_per_run);
    bgi_archive_u32(a, &summary->input_groups);
    bgi_archive_u64(a, &summary->samples_per_run);
    bgi_archive_double(a, &summary->idle_share);
    bgi_archive_double(a, &summary->flops_per_micro_batch);
    bgi_archive_u32(a, &summary->recomputed_op_count);
    bgi_archive_double(a, &summary->recompute_share);
}

/* ---- all tables ---- */

/* Checks that the file's schedule is correct and belongs to the plan. */
static bg_status check_schedule(bg_plan *plan, bg_error *error)
{
    const bg_schedule_problem *problem = &plan->problem;

    if (problem->stage_count != plan->stage_count || problem->device_count != plan->device_count ||
        problem->micro_batch_count != plan->micro_batches || problem->training != plan->training ||
        problem->stage_devices == NULL || problem->edge_count > plan->edge_count || plan->stage_count == 0)
        return bg_error_set(error, BG_ERROR_PARSE, "the schedule belongs to another plan");
    return bg_schedule_verify(plan->schedule, problem, error);
}

/* Whether the tensor axes divide the number of replicas. */
static bool has_mesh(const bg_plan *plan)
{
    return plan->tensor_1 > 0 && plan->tensor_2 > 0 && plan->tensor_1 <= plan->replicas &&
           plan->tensor_2 <= plan->replicas && plan->replicas % ((uint64_t)plan->tensor_1 * plan->tensor_2) == 0;
}

bg_status bgi_store_tables(bgi_archive *a, bg_plan *plan, bg_error *error)
{
    visit_choices(a, plan);
    visit_problem(a, &plan->problem);
    if (a->is_reading) {
        plan->stage_devices = plan->problem.stage_devices;
        if (plan->device_count == 0 || plan->device_count > BGI_MOST_DEVICES || plan->replicas == 0 ||
            plan->replicas > BGI_MOST_DEVICES / plan->device_count || !has_mesh(plan))
            bgi_archive_fail(a);
        if (a->has_failed)
            return BG_OK;
    }
    visit_schedule(a, plan);
    visit_edges(a, plan);
    if (a->is_reading && !a->has_failed)
        BGI_TRY(check_schedule(plan, error));
    visit_streams(a, plan);
    visit_leaves(a, plan);
    visit_blocks(a, plan);
    visit_phases(a, plan);
    visit_summary(a, &plan->summary);
    return BG_OK;
}
