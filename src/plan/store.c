/*
 * store.c: visits what a plan is made of, for bgi_archive: the same functions write and read.
 *
 *     plan -> schedule problem, schedule -> edges, variables, constants, inputs, outputs, blocks
 *          -> device -> instruction -> calls, copies, lists of edges     (shared by the micro-batches: written once)
 *
 * No address is written. An op type is written once, as a name of the library's or as an op of the caller's graph that
 * has it. What equal layers have in common (type, operand types, attributes, kernel, cost) is a form, written once; its
 * kernel is selected again, as it was when the plan was made, and must be the same to the byte of its scratch memory.
 * Instructions do not repeat their actions: those are the schedule's.
 */
#include "plan/store.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/compile.h"
#include "plan/op_types.h"
#include "schedule/schedule.h"

enum { MOST_OPERANDS = 64 };

/* Element types of arrays that instructions share. */
enum { CALLS = 1, NUMBERS, COPIES, REDUCED };

/* What calls of equal layers have in common. */
typedef struct form {
    const bg_op_type *type; /* NULL: a copy between slots */
    uint32_t input_count, output_count;
    const bg_type *types;
    const void *attributes;
    size_t scratch_limit; /* of the device whose calls they are */
    bg_kernel kernel;
    bg_cost cost;
    uint64_t hash; /* writing */
} form;

/* Arrays are malloc'ed, and in the order in which their elements were met. */
typedef struct store {
    bgi_archive *archive;
    bg_plan *plan;
    const bg_graph *graph;
    const bg_op_type **types;
    size_t type_count, type_capacity;
    form *forms;
    size_t form_count, form_capacity;
    bg_kernel *kernels; /* reading */
    size_t kernel_count, kernel_capacity;
    const char *last_block;
    size_t scratch_limit;      /* of the device that is being visited */
    const bg_op_type *unknown; /* writing: one that could not be found again */
} store;

/* ---- small things ---- */

static void visit_type(bgi_archive *a, bg_type *type)
{
    BGI_ARCHIVE_ENUM(a, type->dtype, BG_DTYPE_COUNT);
    bgi_archive_below(a, &type->rank, BG_MAX_RANK + 1);
    for (uint32_t i = 0; i < type->rank; i++)
        bgi_archive_i64(a, &type->dims[i]);
    if (a->is_reading && (type->dtype == BG_DTYPE_NONE ? type->rank != 0 : bg_type_validate(type, NULL) != BG_OK))
        bgi_archive_fail(a);
}

/* Of something that is there. */
static void visit_present_type(bgi_archive *a, bg_type *type)
{
    visit_type(a, type);
    if (type->dtype == BG_DTYPE_NONE)
        bgi_archive_fail(a);
}

static void visit_name(bgi_archive *a, const char **name)
{
    bgi_archive_text(a, name);
    if (*name == NULL) {
        bgi_archive_fail(a);
        *name = "";
    }
}

static void visit_operand(bgi_archive *a, bgi_operand *operand)
{
    uint32_t edge = operand->edge + 1u; /* none: 0 */

    bgi_archive_u32(a, &operand->device);
    bgi_archive_bool(a, &operand->is_remote);
    bgi_archive_u32(a, &edge);
    bgi_archive_size(a, &operand->offset);
    bgi_archive_size(a, &operand->stride);
    operand->edge = edge - 1u;
}

static void visit_action(bgi_archive *a, bg_action *action)
{
    BGI_ARCHIVE_ENUM(a, action->kind, BG_ACTION_KIND_COUNT);
    bgi_archive_u32(a, &action->stage);
    bgi_archive_u32(a, &action->micro_batch);
    bgi_archive_u32(a, &action->index);
}

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

static void visit_shared_numbers(bgi_archive *a, const uint32_t **numbers, uint32_t *count)
{
    const void *array = *numbers;
    const bool is_new = bgi_archive_shared(a, &array, count, NUMBERS, sizeof **numbers);
    uint32_t *visited = (uint32_t *)array;

    for (uint32_t i = 0; is_new && i < *count; i++)
        bgi_archive_u32(a, &visited[i]);
    *numbers = array;
}

/* ---- op types ---- */

/* The op of the caller's graph that has the type, or one of whose type it is the accumulating form. */
static uint32_t find_user(const bg_graph *graph, const bg_op_type *type, bool *out_accumulates)
{
    for (uint32_t o = 0; o < graph->op_count; o++) {
        *out_accumulates = graph->ops[o].type != type;
        if (graph->ops[o].type == type || graph->ops[o].type->accumulating == type)
            return o;
    }
    return UINT32_MAX;
}

/* Of the caller's graph: the op, and whether it is the accumulating form. */
static void visit_own_type(store *s, const bg_op_type **type)
{
    bgi_archive *a = s->archive;
    bool accumulates = false;
    uint32_t op = a->is_reading ? 0 : find_user(s->graph, *type, &accumulates);

    if (op == UINT32_MAX || (!a->is_reading && !bgi_op_type_is_kept(s->graph->ops[op].type))) {
        s->unknown = *type;
        bgi_archive_fail(a);
        return;
    }
    bgi_archive_below(a, &op, (uint32_t)s->graph->op_count);
    bgi_archive_bool(a, &accumulates);
    if (a->is_reading && !a->has_failed)
        *type = accumulates ? s->graph->ops[op].type->accumulating : s->graph->ops[op].type;
}

static void visit_new_type(store *s, const bg_op_type **type)
{
    bgi_archive *a = s->archive;
    const char *name = a->is_reading ? NULL : (*type)->name;
    bool is_own = !a->is_reading && bgi_op_type_find(name) != *type;

    visit_name(a, &name);
    bgi_archive_bool(a, &is_own);
    if (is_own)
        visit_own_type(s, type);
    else if (a->is_reading)
        *type = bgi_op_type_find(name);
    if (!a->has_failed && (*type == NULL || strcmp((*type)->name, name) != 0))
        bgi_archive_fail(a);
    if (a->has_failed)
        return;
    if (!bgi_array_reserve((void **)&s->types, &s->type_capacity, s->type_count + 1, sizeof *s->types)) {
        a->out_of_memory = true;
        bgi_archive_fail(a);
        return;
    }
    s->types[s->type_count++] = *type;
}

/* 0: none. Then the types that were met, then a new one. */
static void visit_op_type(store *s, const bg_op_type **type)
{
    bgi_archive *a = s->archive;
    uint32_t number = 0;

    if (!a->is_reading && *type != NULL)
        for (number = 1; number <= s->type_count && s->types[number - 1] != *type;)
            number++;
    bgi_archive_u32(a, &number);
    if (a->is_reading)
        *type = NULL;
    if (number == 0 || a->has_failed)
        return;
    if (number > s->type_count + 1)
        bgi_archive_fail(a);
    else if (number == s->type_count + 1)
        visit_new_type(s, type);
    else
        *type = s->types[number - 1];
}

/* ---- forms ---- */

/* Types and attributes as the shape rule has them: then kernels stay inside their operands. */
static bool is_well_typed(const form *f)
{
    bg_type outputs[MOST_OPERANDS];
    const bg_op_signature signature = {
        .name = "", .types = f->types, .input_count = f->input_count, .attributes = f->attributes};

    if (f->type == NULL)
        return f->input_count == 1 && f->output_count == 1 && bg_type_equal(&f->types[0], &f->types[1]);
    if (f->input_count < f->type->minimum_inputs || f->input_count > f->type->maximum_inputs ||
        f->output_count > f->type->output_count || f->type->output_count > MOST_OPERANDS)
        return false;
    for (uint32_t i = 0; i < f->type->minimum_inputs; i++)
        if (f->types[i].dtype == BG_DTYPE_NONE)
            return false;
    memset(outputs, 0, sizeof outputs);
    if (f->type->infer(&signature, outputs, NULL) != BG_OK)
        return false;
    for (uint32_t i = 0; i < f->type->output_count; i++) /* absent ones are not among the operands */
        if (i < f->output_count ? !bg_type_equal(&outputs[i], &f->types[f->input_count + i])
                                : outputs[i].dtype != BG_DTYPE_NONE)
            return false;
    return true;
}

/* As when the plan was made; the plan destroys it. */
static bool select_kernel(store *s, form *f)
{
    const bg_options *options = &s->plan->options;
    const bg_op_signature signature = {.name = f->type != NULL ? f->type->name : "copy",
                                       .types = f->types,
                                       .input_count = f->input_count,
                                       .output_count = f->output_count,
                                       .attributes = f->attributes,
                                       .partials = options->partials,
                                       .scratch_limit = f->scratch_limit};

    if (!is_well_typed(f))
        return false;
    if (f->type == NULL || f->type->is_collective) {
        f->kernel = f->type == NULL ? bgi_slot_copy_kernel() : (bg_kernel){.name = f->type->name};
        return true;
    }
    if (!bgi_array_reserve((void **)&s->kernels, &s->kernel_capacity, s->kernel_count + 1, sizeof *s->kernels) ||
        f->type->kernel == NULL || f->type->kernel(&signature, options->kernels, &f->kernel, NULL) != BG_OK)
        return false;
    s->kernels[s->kernel_count++] = f->kernel;
    return true;
}

/* What the plan relies on. */
static void visit_kernel(store *s, form *f)
{
    bgi_archive *a = s->archive;
    const char *name = f->kernel.name;
    uint32_t part_count = f->kernel.part_count;
    size_t scratch_bytes = f->kernel.scratch_bytes;

    bgi_archive_text(a, &name);
    bgi_archive_u32(a, &part_count);
    bgi_archive_size(a, &scratch_bytes);
    if (!a->is_reading || a->has_failed)
        return;
    if (!select_kernel(s, f) || f->kernel.part_count != part_count || f->kernel.scratch_bytes != scratch_bytes ||
        (name == NULL) != (f->kernel.name == NULL) || (name != NULL && strcmp(name, f->kernel.name) != 0))
        bgi_archive_fail(a);
}

static void visit_new_form(store *s, form *f)
{
    bgi_archive *a = s->archive;
    bg_type *types;
    uint32_t count;

    visit_op_type(s, &f->type);
    bgi_archive_below(a, &f->input_count, MOST_OPERANDS + 1);
    bgi_archive_below(a, &f->output_count, MOST_OPERANDS + 1 - f->input_count);
    count = f->input_count + f->output_count;
    f->types = types = bgi_archive_table(a, f->types, count, sizeof *types);
    if (types == NULL) {
        bgi_archive_fail(a);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        visit_type(a, &types[i]);
    if (f->type != NULL && f->type->attributes_bytes > 0)
        bgi_archive_bytes(a, &f->attributes, f->type->attributes_bytes);
    bgi_archive_double(a, &f->cost.flops);
    bgi_archive_double(a, &f->cost.bytes_read);
    bgi_archive_double(a, &f->cost.bytes_written);
    visit_kernel(s, f);
}

static uint64_t hash_form(const form *f)
{
    uint64_t hash = (uint64_t)(uintptr_t)f->type + f->input_count;

    for (uint32_t i = 0; i < f->input_count + f->output_count; i++)
        for (uint32_t dim = 0; dim < f->types[i].rank; dim++)
            hash = (hash ^ (uint64_t)f->types[i].dims[dim]) * 0x100000001b3u;
    return hash;
}

static bool is_same_form(const form *a, const form *b)
{
    if (a->hash != b->hash || a->type != b->type || a->scratch_limit != b->scratch_limit ||
        a->input_count != b->input_count || a->output_count != b->output_count || a->kernel.run != b->kernel.run ||
        a->kernel.part_count != b->kernel.part_count || a->kernel.scratch_bytes != b->kernel.scratch_bytes ||
        memcmp(&a->cost, &b->cost, sizeof a->cost) != 0)
        return false;
    for (uint32_t i = 0; i < a->input_count + a->output_count; i++)
        if (!bg_type_equal(&a->types[i], &b->types[i]))
            return false;
    return a->type == NULL || a->type->attributes_bytes == 0 ||
           memcmp(a->attributes, b->attributes, a->type->attributes_bytes) == 0;
}

/* The number of the form when it was met before; else one more than all of them. */
static uint32_t find_form(const store *s, const form *wanted)
{
    uint32_t number = 0;

    while (number < s->form_count && !is_same_form(&s->forms[number], wanted))
        number++;
    return number;
}

static void visit_form(store *s, form *f)
{
    bgi_archive *a = s->archive;
    uint32_t number;

    f->hash = a->is_reading ? 0 : hash_form(f);
    number = a->is_reading ? 0 : find_form(s, f);
    bgi_archive_u32(a, &number);
    if (number > s->form_count)
        bgi_archive_fail(a);
    if (a->has_failed)
        return;
    if (number < s->form_count) {
        *f = s->forms[number];
        return;
    }
    visit_new_form(s, f);
    if (a->has_failed)
        return;
    if (bgi_array_reserve((void **)&s->forms, &s->form_capacity, s->form_count + 1, sizeof *s->forms)) {
        s->forms[s->form_count++] = *f;
        return;
    }
    a->out_of_memory = true;
    bgi_archive_fail(a);
}

/* ---- calls ---- */

/* Calls of a block follow one another. */
static void visit_block_name(store *s, const char **block)
{
    bgi_archive *a = s->archive;
    bool is_last = !a->is_reading && s->last_block != NULL && strcmp(s->last_block, *block) == 0;

    bgi_archive_bool(a, &is_last);
    if (!is_last)
        visit_name(a, block);
    else if (a->is_reading)
        *block = s->last_block != NULL ? s->last_block : "";
    s->last_block = *block;
}

static void visit_call(store *s, bgi_call *call)
{
    bgi_archive *a = s->archive;
    form f = {.type = call->type,
              .input_count = call->input_count,
              .output_count = call->output_count,
              .types = call->types,
              .attributes = call->attributes,
              .scratch_limit = s->scratch_limit,
              .kernel = call->kernel,
              .cost = call->cost};
    bgi_operand *operands;
    uint32_t count;

    visit_form(s, &f);
    visit_name(a, &call->name);
    visit_block_name(s, &call->block);
    count = f.input_count + f.output_count;
    call->operands = operands = bgi_archive_table(a, call->operands, count, sizeof *operands);
    if (operands == NULL) {
        bgi_archive_fail(a);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        visit_operand(a, &operands[i]);
    bgi_archive_size(a, &call->scratch_offset);
    BGI_ARCHIVE_ENUM(a, call->traced_as, BG_ACTION_KIND_COUNT);
    if (!a->is_reading)
        return;
    call->type = f.type;
    call->input_count = f.input_count;
    call->output_count = f.output_count;
    call->types = f.types;
    call->attributes = f.attributes;
    call->kernel = f.kernel;
    call->cost = f.cost;
    call->is_transfer = bgi_op_type_is_transfer(f.type);
    call->is_collective = f.type != NULL && f.type->is_collective;
}

static void visit_calls(store *s, const bgi_call **calls, uint32_t *count)
{
    bgi_archive *a = s->archive;
    const void *array = *calls;
    const bool is_new = bgi_archive_shared(a, &array, count, CALLS, sizeof **calls);
    bgi_call *visited = (bgi_call *)array;

    for (uint32_t i = 0; is_new && i < *count && !a->has_failed; i++)
        visit_call(s, &visited[i]);
    *calls = array;
}

/* ---- programs ---- */

static void visit_copies(bgi_archive *a, const bgi_copy **copies, uint32_t *count)
{
    const void *array = *copies;
    const bool is_new = bgi_archive_shared(a, &array, count, COPIES, sizeof **copies);
    bgi_copy *visited = (bgi_copy *)array;

    for (uint32_t i = 0; is_new && i < *count; i++) {
        visit_operand(a, &visited[i].operand);
        visit_operand(a, &visited[i].to);
        bgi_archive_u32(a, &visited[i].stream);
        bgi_archive_size(a, &visited[i].size_bytes);
    }
    *copies = array;
}

static void visit_reduced(bgi_archive *a, const bgi_reduced **reduced, uint32_t *count)
{
    const void *array = *reduced;
    const bool is_new = bgi_archive_shared(a, &array, count, REDUCED, sizeof **reduced);
    bgi_reduced *visited = (bgi_reduced *)array;

    for (uint32_t i = 0; is_new && i < *count; i++) {
        visit_operand(a, &visited[i].operand);
        BGI_ARCHIVE_ENUM(a, visited[i].dtype, BG_DTYPE_COUNT);
        bgi_archive_i64(a, &visited[i].element_count);
        bgi_archive_i64(a, &visited[i].piece_count);
    }
    *reduced = array;
}

static void visit_instruction(store *s, bgi_instruction *instruction)
{
    bgi_archive *a = s->archive;
    bool waits = instruction->call_waits != NULL;
    uint32_t wait_count = instruction->call_count;

    visit_calls(s, &instruction->calls, &instruction->call_count);
    visit_shared_numbers(a, &instruction->acquires, &instruction->acquire_count);
    visit_shared_numbers(a, &instruction->releases, &instruction->release_count);
    visit_copies(a, &instruction->copies, &instruction->copy_count);
    visit_reduced(a, &instruction->reduced, &instruction->reduced_count);
    bgi_archive_size(a, &instruction->transient_bytes);
    bgi_archive_u32(a, &instruction->issues);
    bgi_archive_u32(a, &instruction->io_wait);
    bgi_archive_bool(a, &waits);
    if (!waits)
        return;
    visit_shared_numbers(a, &instruction->call_waits, &wait_count);
    if (wait_count != instruction->call_count)
        bgi_archive_fail(a);
}

static void visit_transfer(bgi_archive *a, bgi_transfer *transfer)
{
    visit_action(a, &transfer->action);
    bgi_archive_size(a, &transfer->arena_offset);
    bgi_archive_size(a, &transfer->remote_offset);
    bgi_archive_size(a, &transfer->size_bytes);
    bgi_archive_size(a, &transfer->piece_bytes);
    bgi_archive_u32(a, &transfer->peer_wait);
}

static void visit_device(store *s, uint32_t number)
{
    bgi_archive *a = s->archive;
    bgi_plan_device *device = &s->plan->devices[number];
    const bg_action *actions = bg_schedule_actions(s->plan->schedule, number);
    bgi_instruction *instructions;
    bgi_transfer *transfers;

    s->scratch_limit = bgi_options_scratch(&s->plan->options, number);
    bgi_archive_size(a, &device->arena_bytes);
    bgi_archive_size(a, &device->remote_bytes);
    for (uint32_t i = 0; i < BG_MEMORY_CLASS_COUNT; i++)
        bgi_archive_size(a, &device->class_bytes[i]);
    bgi_archive_bool(a, &device->has_pieces);
    device->transfers = transfers = bgi_archive_list(a, device->transfers, &device->transfer_count, sizeof *transfers);
    for (uint32_t i = 0; i < device->transfer_count; i++)
        visit_transfer(a, &transfers[i]);
    device->instructions = instructions =
        bgi_archive_list(a, device->instructions, &device->instruction_count, sizeof *instructions);
    if (device->instruction_count != bg_schedule_action_count(s->plan->schedule, number)) {
        bgi_archive_fail(a);
        return;
    }
    for (uint32_t i = 0; i < device->instruction_count && !a->has_failed; i++) {
        instructions[i].action = actions[i];
        visit_instruction(s, &instructions[i]);
    }
}

static void visit_devices(store *s)
{
    bgi_archive *a = s->archive;
    bg_plan *plan = s->plan;

    plan->devices = bgi_archive_table(a, plan->devices, plan->device_count, sizeof *plan->devices);
    if (plan->devices == NULL)
        bgi_archive_fail(a);
    for (uint32_t d = 0; d < plan->device_count && !a->has_failed; d++)
        visit_device(s, d);
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
    bgi_archive_u32(a, &problem->stage_count);
    bgi_archive_u32(a, &problem->device_count);
    problem->stage_devices = visit_numbers(a, problem->stage_devices, problem->stage_count);
    problem->stage_positions = visit_numbers(a, problem->stage_positions, problem->stage_count);
    problem->stage_phases = visit_numbers(a, problem->stage_phases, problem->stage_count);
    bgi_archive_u32(a, &problem->micro_batch_count);
    bgi_archive_bool(a, &problem->training);
    bgi_archive_bool(a, &problem->splits_weights);
    bgi_archive_bool(a, &problem->merges_loss);
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

static void visit_schedule(store *s)
{
    bgi_archive *a = s->archive;
    bg_plan *plan = s->plan;

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
            visit_action(a, &action);
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

/* How the mesh cuts a variable: into pieces of the variable's type. */
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
    visit_present_type(a, &shard->whole);
    for (uint32_t i = 0; i < shard->whole.rank && !a->has_failed; i++) {
        BGI_ARCHIVE_ENUM(a, shard->dims[i].axis, BG_MESH_TENSOR_2 + 1);
        bgi_archive_u32(a, &shard->dims[i].blocks);
        bgi_archive_u32(a, &shard->dims[i].multiple);
    }
    if (a->is_reading && !a->has_failed &&
        (bg_shard_piece(&mesh, shard, &piece, NULL) != BG_OK || !bg_type_equal(&piece, &variable->type)))
        bgi_archive_fail(a);
}

static void visit_variable(bgi_archive *a, const bg_plan *plan, bgi_plan_variable *variable)
{
    bgi_operand *places;

    visit_name(a, &variable->name);
    visit_present_type(a, &variable->type);
    visit_shard(a, plan, variable);
    BGI_ARCHIVE_ENUM(a, variable->role, BG_ROLE_TRAINING + 1);
    BGI_ARCHIVE_ENUM(a, variable->initialiser.kind, BG_INITIALISE_TRUNCATED_NORMAL + 1);
    bgi_archive_double(a, &variable->initialiser.a);
    bgi_archive_double(a, &variable->initialiser.b);
    bgi_archive_u32(a, &variable->number);
    bgi_archive_i64(a, &variable->piece_count);
    bgi_archive_bool(a, &variable->is_written);
    variable->places = places = bgi_archive_list(a, variable->places, &variable->place_count, sizeof *places);
    for (uint32_t i = 0; i < variable->place_count; i++)
        visit_operand(a, &places[i]);
}

static void visit_leaves(bgi_archive *a, bg_plan *plan)
{
    plan->variables = bgi_archive_list(a, plan->variables, &plan->variable_count, sizeof *plan->variables);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        visit_variable(a, plan, &plan->variables[i]);
    bgi_archive_u32(a, &plan->hyper_variable);
    plan->constants = bgi_archive_list(a, plan->constants, &plan->constant_count, sizeof *plan->constants);
    for (uint32_t i = 0; i < plan->constant_count; i++) {
        visit_operand(a, &plan->constants[i].place);
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
        visit_name(a, &plan->inputs[i].name);
        visit_present_type(a, &plan->inputs[i].type);
    }
    plan->outputs = bgi_archive_list(a, plan->outputs, &plan->output_count, sizeof *plan->outputs);
    for (uint32_t i = 0; i < plan->output_count; i++) {
        bgi_plan_output *output = &plan->outputs[i];
        visit_name(a, &output->name);
        visit_present_type(a, &output->type);
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
        visit_name(a, &blocks[i].name);
        bgi_archive_below(a, &blocks[i].stage, plan->stage_count);
    }
    plan->blocks = blocks;
}

/* What the compiler found out, and did not take from the options. */
static void visit_choices(bgi_archive *a, bg_plan *plan)
{
    bgi_archive_text(a, &plan->options.stages);
    bgi_archive_u32(a, &plan->options.replicas);
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

/* ---- the whole ---- */

/* What the file says of the schedule must be the plan's, and the schedule correct. */
static bg_status check_schedule(bg_plan *plan, bg_error *error)
{
    const bg_schedule_problem *problem = &plan->problem;

    if (problem->stage_count != plan->stage_count || problem->device_count != plan->device_count ||
        problem->micro_batch_count != plan->micro_batches || problem->training != plan->training ||
        problem->stage_devices == NULL || problem->edge_count > plan->edge_count || plan->stage_count == 0)
        return bg_error_set(error, BG_ERROR_PARSE, "the schedule is another plan's");
    return bg_schedule_verify(plan->schedule, problem, error);
}

/* Whole copies of the model. */
static bool has_mesh(const bg_plan *plan)
{
    return plan->tensor_1 > 0 && plan->tensor_2 > 0 && plan->tensor_1 <= plan->replicas &&
           plan->tensor_2 <= plan->replicas && plan->replicas % ((uint64_t)plan->tensor_1 * plan->tensor_2) == 0;
}

static bg_status visit_plan(store *s, bg_error *error)
{
    bgi_archive *a = s->archive;
    bg_plan *plan = s->plan;

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
    visit_schedule(s);
    visit_edges(a, plan);
    if (a->is_reading && !a->has_failed)
        BGI_TRY(check_schedule(plan, error));
    visit_streams(a, plan);
    visit_leaves(a, plan);
    visit_blocks(a, plan);
    visit_summary(a, &plan->summary);
    if (!a->has_failed)
        visit_devices(s);
    return BG_OK;
}

static bg_status finish(const store *s, bg_error *error)
{
    const bgi_archive *a = s->archive;
    bg_status status;

    if (s->unknown != NULL)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "ops of type `%s` could not be found again", s->unknown->name);
    if (a->out_of_memory)
        return bgi_error_memory(error, "a cached plan", a->size_bytes);
    if (!a->is_reading)
        return BG_OK;
    if (!bgi_archive_is_read(a))
        return bg_error_set(error, BG_ERROR_PARSE, "not the bytes of a plan");
    status = bgi_plan_check(s->plan, error);
    return status == BG_OK || status == BG_ERROR_MEMORY ? status : BG_ERROR_PARSE;
}

/* The plan destroys the kernels, whatever becomes of it. */
static void hand_over_kernels(store *s)
{
    bg_plan *plan = s->plan;

    if (!s->archive->is_reading)
        return;
    plan->kernels = bgi_arena_copy(&plan->arena, s->kernels, s->kernel_count * sizeof *s->kernels);
    if (plan->kernels != NULL) {
        plan->kernel_count = (uint32_t)s->kernel_count;
        return;
    }
    for (size_t i = 0; i < s->kernel_count; i++)
        if (s->kernels[i].destroy != NULL)
            s->kernels[i].destroy(s->kernels[i].state);
    s->archive->out_of_memory = true;
    bgi_archive_fail(s->archive);
}

bg_status bgi_plan_visit(bgi_archive *archive, bg_plan *plan, const bg_graph *graph, bg_error *error)
{
    store s = {.archive = archive, .plan = plan, .graph = graph};
    bg_status status = visit_plan(&s, error);

    hand_over_kernels(&s);
    if (status == BG_OK)
        status = finish(&s, error);
    free(s.types);
    free(s.forms);
    free(s.kernels);
    return archive->is_reading && status != BG_OK && status != BG_ERROR_MEMORY ? BG_ERROR_PARSE : status;
}
