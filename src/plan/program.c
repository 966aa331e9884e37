/*
 * program.c: writes each device's instructions from the schedule's actions and the segments' ops.
 */
#include "plan/compile.h"

#include <string.h>

#include "core/error.h"
#include "schedule/schedule.h"

/* ---- operands ---- */

/* Finds the crossing by which a value reaches a stage (or a level of its update); UINT32_MAX if there is none. */
static uint32_t find_crossing(const bgi_compiler *c, bg_value root, uint32_t to_stage, uint32_t level)
{
    for (uint32_t i = c->partition->first_crossings[root.id]; i != 0; i = c->partition->crossings[i - 1].next)
        if (c->partition->crossings[i - 1].to_stage == to_stage && c->partition->crossings[i - 1].to_level == level)
            return i - 1;
    return UINT32_MAX;
}

static bgi_operand leaf_place(const bgi_compiler *c, bg_value leaf, uint32_t stage)
{
    if (c->residency->buffer_of[leaf.id] != BGI_NO_BUFFER)
        return c->placement->windows[leaf.id];
    return bgi_leaf_place(c, leaf.id, bgi_stage_device(c, stage));
}

/* Finds the place of a value for an op, and whether only a piece is there. */
static bgi_operand find_whole(const bgi_compiler *c, uint32_t op, bg_value value, bool *out_is_piece)
{
    const bg_value root = c->partition->roots[value.id];
    const bgi_value *v = bgi_graph_value(c->graph, root);
    const uint32_t stage = c->partition->op_stages[op];
    const bgi_segment *segment = &c->partition->segments[c->partition->op_segments[op]];
    uint32_t crossing;

    *out_is_piece = v->is_piece;
    if (v->kind == BGI_VALUE_INPUT && segment->kind != BGI_SEGMENT_FORWARD)
        return bgi_crossing_slot(c, find_crossing(c, root, stage, 0));
    if (v->kind == BGI_VALUE_INPUT)
        return c->placement->input_places[bgi_input_index(c, root.id, stage)];
    if (v->kind == BGI_VALUE_CONSTANT)
        return leaf_place(c, root, stage);
    if (v->kind == BGI_VALUE_VARIABLE) {
        const uint32_t home = c->residency->writer_stage[root.id];
        if (home == UINT32_MAX || home == stage)
            return leaf_place(c, root, stage);
        crossing = find_crossing(c, root, stage, segment->level);
        if (crossing == UINT32_MAX || c->edges->routes[crossing].edge == BGI_NO_EDGE)
            return leaf_place(c, root, home);
        *out_is_piece = bgi_travels_as_piece(v);
        return bgi_crossing_slot(c, crossing);
    }
    if (c->partition->op_segments[v->op] == c->partition->op_segments[op])
        return c->placement->storage[root.id];
    *out_is_piece = bgi_travels_as_piece(v);
    crossing = find_crossing(c, root, stage, segment->kind == BGI_SEGMENT_UPDATE ? segment->level : 0);
    return segment->kind != BGI_SEGMENT_FORWARD && c->edges->routes[crossing].stash_edge != BGI_NO_EDGE
               ? bgi_stash_slot(c, crossing)
               : bgi_crossing_slot(c, crossing);
}

bgi_operand bgi_find_operand(const bgi_compiler *c, uint32_t op, bg_value value)
{
    bool is_piece = false;
    bgi_operand operand = find_whole(c, op, value, &is_piece);

    if (c->graph->ops[op].is_sharded && !is_piece)
        operand.stride = bgi_piece_bytes(bgi_graph_value(c->graph, value));
    return operand;
}

/* ---- calls ---- */

static bg_action_kind traced_kind(const bgi_op *op, bg_action_kind kind)
{
    if (op->type == &bgi_op_load)
        return BG_ACTION_LOAD;
    return op->type == &bgi_op_store ? BG_ACTION_STORE : kind;
}

static bg_cost cost_of(const bg_op_signature *op, const bg_op_type *type)
{
    bg_cost cost = {0};

    if (type->cost != NULL)
        return type->cost(op);
    for (uint32_t i = 0; i < op->input_count; i++)
        cost.bytes_read += (double)bg_type_size_bytes(&op->types[i]);
    for (uint32_t i = 0; i < op->output_count; i++)
        cost.bytes_written += (double)bg_type_size_bytes(&op->types[op->input_count + i]);
    return cost;
}

bool bgi_op_type_is_transfer(const bg_op_type *type)
{
    return type == &bgi_op_load || type == &bgi_op_store;
}

static bool write_call(bgi_compiler *c, uint32_t op_index, bg_action_kind kind, bgi_call *call)
{
    bgi_arena *arena = &c->plan->arena;
    const bgi_op *op = &c->graph->ops[op_index];
    const uint32_t count = bgi_op_operand_count(op);
    bg_type *types = bgi_arena_allocate(arena, count, sizeof *types);
    bgi_operand *operands = bgi_arena_allocate(arena, count, sizeof *operands);
    bg_op_signature signature;

    if (types == NULL || operands == NULL)
        return false;
    signature = bgi_lowered_signature(c->graph, op, types);
    for (uint32_t i = 0; i < count; i++)
        operands[i] =
            bgi_find_operand(c, op_index, i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count]);
    *call = (bgi_call){.type = op->type,
                       .kernel = c->kernels[op_index],
                       .name = bgi_arena_string(arena, op->name),
                       .block =
                           bgi_arena_string(arena, op->block == BGI_BLOCK_NONE ? "" : c->graph->blocks[op->block].name),
                       .input_count = op->input_count,
                       .output_count = op->output_count,
                       .operands = operands,
                       .types = types,
                       .scratch_offset = c->placement->scratch_offsets[op_index],
                       .cost = cost_of(&signature, op->type),
                       .is_transfer = bgi_op_type_is_transfer(op->type),
                       .is_collective = op->type->is_collective,
                       .traced_as = traced_kind(op, kind)};
    if (op->type->attributes_bytes > 0)
        call->attributes = bgi_arena_copy(arena, op->attributes, op->type->attributes_bytes);
    return call->name != NULL && call->block != NULL && (op->type->attributes_bytes == 0 || call->attributes != NULL);
}

static void run_slot_copy(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    memcpy(call->operands[1], call->operands[0], bg_type_size_bytes(&call->types[0]));
}

bg_kernel bgi_slot_copy_kernel(void)
{
    return (bg_kernel){.name = "copy", .run = run_slot_copy, .part_count = 1};
}

/* Writes a copy of a value that lives in several places of its device; its producer writes only one of them. */
static bool write_copy(bgi_compiler *c, bg_value value, bgi_operand from, bgi_operand to, bg_action_kind kind,
                       bgi_call *call)
{
    bgi_arena *arena = &c->plan->arena;
    const bgi_value *v = bgi_graph_value(c->graph, value);
    bg_type *types = bgi_arena_allocate(arena, 2, sizeof *types);
    bgi_operand *operands = bgi_arena_allocate(arena, 2, sizeof *operands);

    if (types == NULL || operands == NULL)
        return false;
    types[0] = types[1] = bgi_travels_as_piece(v) ? bg_vector(v->type.dtype, v->piece) : v->type;
    operands[0] = from;
    operands[1] = to;
    *call = (bgi_call){.kernel = bgi_slot_copy_kernel(),
                       .name = bgi_arena_string(arena, v->name),
                       .block = "",
                       .input_count = 1,
                       .output_count = 1,
                       .operands = operands,
                       .types = types,
                       .cost = {.bytes_read = (double)bg_type_size_bytes(&types[0]),
                                .bytes_written = (double)bg_type_size_bytes(&types[0])},
                       .traced_as = kind};
    return call->name != NULL;
}

static bool same_operand(const bgi_operand *a, const bgi_operand *b)
{
    return a->memory == b->memory && a->edge == b->edge && a->offset == b->offset && a->stride == b->stride;
}

/* Returns the place from which a crossing's value is copied: where its producer writes it, or where the variable is. */
static bgi_operand source_of(const bgi_compiler *c, const bgi_crossing *crossing)
{
    const bgi_value *value = bgi_graph_value(c->graph, crossing->value);
    bgi_operand source;

    if (value->kind != BGI_VALUE_VARIABLE)
        return c->placement->storage[crossing->value.id];
    source = leaf_place(c, crossing->value, c->partition->segments[crossing->from_segment].stage);
    if (bgi_travels_as_piece(value) && !value->is_piece)
        source.stride = bgi_piece_bytes(value);
    return source;
}

/* Whether the producer itself copies the value for other messages. As soon as it has made the value, it copies from a
 * window, which is empty once its message has left, and from a transient, which is gone after the action. */
static bool is_copied_by_maker(const bgi_compiler *c, const bgi_crossing *crossing)
{
    const bg_value value = crossing->value;

    return bgi_graph_value(c->graph, value)->kind == BGI_VALUE_RESULT &&
           (c->placement->is_transient[value.id] || c->placement->storage[value.id].memory == BGI_MEMORY_WINDOW);
}

/* Whether the producer must copy the crossing's value into a message. */
static bool needs_window_copy(const bgi_compiler *c, uint32_t crossing)
{
    const bgi_crossing *crossed = &c->partition->crossings[crossing];
    bgi_operand from, to;

    if (c->edges->routes[crossing].edge == BGI_NO_EDGE || !is_copied_by_maker(c, crossed))
        return false;
    from = source_of(c, crossed);
    to = bgi_crossing_write_slot(c, crossing);
    return to.memory == BGI_MEMORY_WINDOW && !same_operand(&from, &to);
}

/* Whether the value must be copied to a second slot of the same device, because the producer writes a different one. */
static bool needs_slot_copy(const bgi_compiler *c, uint32_t crossing)
{
    const bgi_crossing *crossed = &c->partition->crossings[crossing];
    const uint32_t from_stage = c->partition->segments[crossed->from_segment].stage;
    bgi_operand from, to;

    if (c->edges->routes[crossing].edge == BGI_NO_EDGE ||
        bgi_graph_value(c->graph, crossed->value)->kind == BGI_VALUE_INPUT ||
        bgi_stage_device(c, crossed->to_stage) != bgi_stage_device(c, from_stage))
        return false;
    from = source_of(c, crossed);
    to = bgi_crossing_write_slot(c, crossing);
    return !same_operand(&from, &to);
}

/* Whether a forward pass copies a value that it reads to another slot, where it is stashed for the backward pass. A
 * value that both edges share in the remote store needs no copy. */
static bool needs_stash_copy(const bgi_compiler *c, uint32_t index, const bgi_segment *reader)
{
    const bgi_crossing *crossing = &c->partition->crossings[index];
    const bgi_route *route = &c->edges->routes[index];

    return route->stash_edge != BGI_NO_EDGE && c->edges->facts[route->stash_edge].stored_by == 0 &&
           reader->kind == BGI_SEGMENT_FORWARD && reader->stage == crossing->to_stage;
}

/* Writes copies of the op's results into further messages. */
static bool write_window_copies(bgi_compiler *c, uint32_t op, uint32_t segment, bg_action_kind kind, bgi_call *calls,
                                uint32_t *count)
{
    for (uint32_t o = 0; o < c->graph->ops[op].output_count; o++) {
        const bg_value value = c->graph->ops[op].outputs[o];
        uint32_t next;
        for (uint32_t i = c->partition->first_crossings[value.id]; i != 0; i = next) {
            const bgi_crossing *crossing = &c->partition->crossings[i - 1];
            next = crossing->next;
            if (crossing->from_segment == segment && needs_window_copy(c, i - 1) &&
                !write_copy(c, value, source_of(c, crossing), bgi_crossing_write_slot(c, i - 1), kind,
                            &calls[(*count)++]))
                return false;
        }
    }
    return true;
}

/* Visits the crossings that begin in a segment and, for a forward segment, those that its stage may stash: each once,
 * in ascending order. */
typedef struct bgi_crossing_walk {
    const bgi_partition *partition;
    uint32_t made, made_end, kept, kept_end;
} bgi_crossing_walk;

static bgi_crossing_walk begin_crossings(const bgi_compiler *c, uint32_t segment)
{
    const bgi_partition *p = c->partition;
    const uint32_t stage = p->segments[segment].stage;
    const bool keeps = p->segments[segment].kind == BGI_SEGMENT_FORWARD;

    return (bgi_crossing_walk){.partition = p,
                               .made = p->crossings_from.begins[segment],
                               .made_end = p->crossings_from.begins[segment + 1],
                               .kept = p->crossings_to.begins[stage],
                               .kept_end = p->crossings_to.begins[keeps ? stage + 1 : stage]};
}

static bool next_crossing(bgi_crossing_walk *walk, uint32_t *out_crossing)
{
    const bgi_partition *p = walk->partition;
    const uint32_t made = walk->made < walk->made_end ? p->crossings_from.items[walk->made] : UINT32_MAX;
    const uint32_t kept = walk->kept < walk->kept_end ? p->crossings_to.items[walk->kept] : UINT32_MAX;

    *out_crossing = made < kept ? made : kept;
    walk->made += made == *out_crossing;
    walk->kept += kept == *out_crossing;
    return *out_crossing != UINT32_MAX;
}

/* Counts the copies after the segment's ops: those of its own values to further places, and those of values that its
 * stage stashes. */
static uint32_t count_copies(const bgi_compiler *c, uint32_t segment)
{
    bgi_crossing_walk walk = begin_crossings(c, segment);
    uint32_t count = 0, i;

    while (next_crossing(&walk, &i)) {
        count += needs_stash_copy(c, i, &c->partition->segments[segment]);
        if (c->partition->crossings[i].from_segment == segment)
            count += needs_slot_copy(c, i) + needs_window_copy(c, i);
    }
    return count;
}

static bool write_copies(bgi_compiler *c, uint32_t segment, bg_action_kind kind, bgi_call *calls, uint32_t *count)
{
    bgi_crossing_walk walk = begin_crossings(c, segment);
    uint32_t i;

    while (next_crossing(&walk, &i)) {
        const bgi_crossing *crossing = &c->partition->crossings[i];
        if (crossing->from_segment == segment && needs_slot_copy(c, i) &&
            !write_copy(c, crossing->value, source_of(c, crossing), bgi_crossing_write_slot(c, i), kind,
                        &calls[(*count)++]))
            return false;
        if (needs_stash_copy(c, i, &c->partition->segments[segment]) &&
            !write_copy(c, crossing->value, bgi_crossing_slot(c, i), bgi_stash_write_slot(c, i), kind,
                        &calls[(*count)++]))
            return false;
    }
    return true;
}

static bool write_calls(bgi_compiler *c, uint32_t segment_index, bg_action_kind kind, bgi_instruction *out)
{
    const bgi_segment *segment = &c->partition->segments[segment_index];
    bgi_call *calls =
        bgi_arena_allocate(&c->plan->arena, segment->op_count + count_copies(c, segment_index), sizeof *calls);
    uint32_t count = 0;

    if (calls == NULL)
        return false;
    for (uint32_t p = 0; p < segment->op_count; p++)
        if (!bgi_partition_is_alias(c->partition, &c->graph->ops[segment->ops[p]]) &&
            (!write_call(c, segment->ops[p], kind, &calls[count++]) ||
             !write_window_copies(c, segment->ops[p], segment_index, kind, calls, &count)))
            return false;
    if (!write_copies(c, segment_index, kind, calls, &count))
        return false;
    out->calls = calls;
    out->call_count = count;
    out->transient_bytes = c->placement->segment_peaks[segment_index];
    return true;
}

/* ---- channels ---- */

static bool crosses_devices(const bgi_compiler *c, uint32_t edge)
{
    return c->plan->edges[edge].from_device != c->plan->edges[edge].to_device;
}

static bool makes(const bg_schedule_edge *edge, const bg_action *action)
{
    return edge->from_kind == action->kind && edge->from_stage == action->stage &&
           (action->kind != BG_ACTION_UPDATE || edge->from_level == action->index);
}

static bool uses_last(const bg_schedule_edge *edge, const bg_action *action)
{
    return edge->last_kind == action->kind && edge->to_stage == action->stage &&
           (action->kind != BG_ACTION_UPDATE || edge->to_level == action->index);
}

/* Lists the edges to other devices that match an action, among those that begin or end at its stage. */
static bool write_edge_list(bgi_compiler *c, const bg_action *action, const bgi_buckets *of_stage,
                            bool (*matches)(const bg_schedule_edge *, const bg_action *), const uint32_t **out_edges,
                            uint32_t *out_count)
{
    uint32_t *edges, count = 0;

    BGI_FOR_BUCKET(*of_stage, action->stage, at)
    count += matches(&c->edges->list[of_stage->items[at]], action);
    edges = bgi_arena_allocate(&c->plan->arena, count, sizeof *edges);
    if (edges == NULL)
        return false;
    count = 0;
    BGI_FOR_BUCKET(*of_stage, action->stage, at)
    if (matches(&c->edges->list[of_stage->items[at]], action))
        edges[count++] = of_stage->items[at];
    *out_edges = edges;
    *out_count = count;
    return true;
}

/* Returns the number of the action's calls after which the message of the edge is complete; 0: all of them, or unknown.
 */
static uint32_t find_last_writer(const bgi_instruction *maker, const bgi_instruction *send)
{
    const uint32_t edge = send->action.index;
    uint32_t count = 0;

    if (send->copy_count > 0 || maker->action.stage != send->action.stage ||
        maker->action.micro_batch != send->action.micro_batch)
        return 0;
    for (uint32_t i = 0; i < maker->call_count; i++)
        for (uint32_t o = 0; o < maker->calls[i].input_count + maker->calls[i].output_count; o++)
            if (maker->calls[i].operands[o].edge == edge)
                count = i + 1;
    return count < maker->call_count ? count : 0;
}

/* Sets after_calls of SENDs, so that messages leave as soon as they are complete. A backward pass may still compute
 * gradients of weights, which no other stage waits for, after the gradient for the previous stage. */
static void send_early(bgi_instruction *instructions, uint32_t count)
{
    const bgi_instruction *maker = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (instructions[i].action.kind != BG_ACTION_SEND)
            maker = instructions[i].call_count > 0 ? &instructions[i] : NULL;
        else if (maker != NULL)
            instructions[i].after_calls = find_last_writer(maker, &instructions[i]);
}

/* ---- copies ---- */

static bool write_send(bgi_compiler *c, const bgi_buckets *crossings, uint32_t edge, bgi_instruction *out)
{
    bgi_copy *copies;
    uint32_t count = crossings->begins[edge + 1] - crossings->begins[edge];

    copies = bgi_arena_allocate(&c->plan->arena, count, sizeof *copies);
    if (copies == NULL)
        return false;
    count = 0;
    BGI_FOR_BUCKET(*crossings, edge, at)
    {
        const uint32_t i = crossings->items[at];
        const bgi_crossing *crossing = &c->partition->crossings[i];
        const bgi_value *value = bgi_graph_value(c->graph, crossing->value);
        bgi_operand from, to;
        from = source_of(c, crossing);
        to = bgi_crossing_write_slot(c, i);
        if (!same_operand(&from, &to) && !is_copied_by_maker(c, crossing))
            copies[count++] = (bgi_copy){.operand = from,
                                         .to = to,
                                         .size_bytes = bgi_travels_as_piece(value) ? bgi_piece_bytes(value)
                                                                                   : bg_type_size_bytes(&value->type)};
    }
    out->copies = copies;
    out->copy_count = count;
    return true;
}

static bool write_host_in(bgi_compiler *c, uint32_t stage, bgi_instruction *out)
{
    bgi_copy *copies = bgi_arena_allocate(&c->plan->arena, c->plan->input_count, sizeof *copies);
    uint32_t count = 0;

    if (copies == NULL)
        return false;
    for (uint32_t stream = 0; stream < c->placement->input_count; stream++) {
        const uint32_t v = c->placement->inputs[stream];
        const size_t index = bgi_input_index(c, v, stage);
        if (c->placement->input_is_used[index])
            copies[count++] = (bgi_copy){.operand = c->placement->input_places[index],
                                         .stream = stream,
                                         .size_bytes = bg_type_size_bytes(&c->graph->values[v].type)};
    }
    out->copies = copies;
    out->copy_count = count;
    return true;
}

/* Lists the outputs that a HOST_OUT copies from its stage's micro-batch, or an update from its own results. */
static bool write_outputs(bgi_compiler *c, const bg_action *action, bgi_instruction *out)
{
    const bool is_update = action->kind == BG_ACTION_UPDATE;
    bgi_copy *copies = bgi_arena_allocate(&c->plan->arena, c->plan->output_count, sizeof *copies);
    uint32_t count = 0;

    if (copies == NULL)
        return false;
    for (uint32_t i = 0; i < c->plan->output_count; i++) {
        const bg_value root = c->partition->roots[c->output_values[i].id];
        const bgi_value *value = bgi_graph_value(c->graph, root);
        const bgi_segment *maker = &c->partition->segments[c->partition->op_segments[value->op]];
        if (maker->stage == action->stage && c->plan->outputs[i].is_per_update == is_update &&
            (!is_update || maker->level == action->index))
            copies[count++] = (bgi_copy){.operand = c->placement->storage[root.id],
                                         .stream = i,
                                         .size_bytes = bg_type_size_bytes(&c->plan->outputs[i].type)};
    }
    out->copies = copies;
    out->copy_count = count;
    return true;
}

/* Variables, edges and crossings by stage or edge, so that writing one instruction does not search all of them. */
typedef struct bgi_program_lists {
    bgi_buckets variables;  /* by the stage that writes them */
    bgi_buckets edges_from; /* edges between devices, by the stage that writes them */
    bgi_buckets edges_to;   /* edges between devices, by the stage that reads them */
    bgi_buckets crossings;  /* by edge */
} bgi_program_lists;

static bg_status list_written_variables(bgi_compiler *c, bgi_program_lists *out, bg_error *error)
{
    const size_t count = c->graph->value_count;
    uint32_t *stages = bgi_arena_allocate(&c->scratch, count, sizeof *stages);

    for (size_t v = 0; stages != NULL && v < count; v++)
        stages[v] = c->graph->values[v].kind == BGI_VALUE_VARIABLE ? c->residency->writer_stage[v] : BGI_NO_BUCKET;
    if (stages == NULL || !bgi_buckets_fill(&out->variables, &c->scratch, c->stages->stage_count, count, stages))
        return bgi_error_memory(error, "a program", count * sizeof *stages);
    return BG_OK;
}

static bg_status list_edges(bgi_compiler *c, bgi_program_lists *out, bg_error *error)
{
    const uint32_t count = c->edges->count, crossings = c->partition->crossing_count;
    uint32_t *from = bgi_arena_allocate(&c->scratch, count, sizeof *from);
    uint32_t *to = bgi_arena_allocate(&c->scratch, count, sizeof *to);
    uint32_t *edges = bgi_arena_allocate(&c->scratch, crossings, sizeof *edges);

    if (from == NULL || to == NULL || edges == NULL)
        return bgi_error_memory(error, "a program", count * sizeof *from);
    for (uint32_t e = 0; e < count; e++) {
        from[e] = crosses_devices(c, e) ? c->edges->list[e].from_stage : BGI_NO_BUCKET;
        to[e] = crosses_devices(c, e) ? c->edges->list[e].to_stage : BGI_NO_BUCKET;
    }
    for (uint32_t i = 0; i < crossings; i++)
        edges[i] = c->edges->routes[i].edge;
    if (!bgi_buckets_fill(&out->edges_from, &c->scratch, c->stages->stage_count, count, from) ||
        !bgi_buckets_fill(&out->edges_to, &c->scratch, c->stages->stage_count, count, to) ||
        !bgi_buckets_fill(&out->crossings, &c->scratch, count, crossings, edges))
        return bgi_error_memory(error, "a program", count * sizeof *from);
    return BG_OK;
}

/* Whether a REDUCE must sum the variable, or a GATHER must collect its pieces. */
static bool is_shared(const bgi_compiler *c, uint32_t v, bg_action_kind kind)
{
    const bgi_value *value = &c->graph->values[v];

    return kind == BG_ACTION_REDUCE ? value->role == BG_ROLE_ACCUMULATOR && !value->is_partial : bgi_is_gathered(c, v);
}

static bool write_collective(bgi_compiler *c, const bgi_program_lists *lists, uint32_t stage, bg_action_kind kind,
                             bgi_instruction *out)
{
    bgi_reduced *reduced;
    uint32_t count = 0;

    BGI_FOR_BUCKET(lists->variables, stage, at)
    count += is_shared(c, lists->variables.items[at], kind);
    reduced = bgi_arena_allocate(&c->plan->arena, count, sizeof *reduced);
    if (reduced == NULL)
        return false;
    count = 0;
    BGI_FOR_BUCKET(lists->variables, stage, at)
    {
        const uint32_t v = lists->variables.items[at];
        const bgi_value *value = &c->graph->values[v];
        if (is_shared(c, v, kind))
            reduced[count++] = (bgi_reduced){.operand = leaf_place(c, (bg_value){v}, stage),
                                             .dtype = value->type.dtype,
                                             .element_count = bg_type_element_count(&value->type),
                                             .piece_count = value->is_read_whole ? 0 : value->piece};
    }
    out->reduced = reduced;
    out->reduced_count = count;
    return true;
}

/* ---- instructions ---- */

/* The calls and lists of one (kind, stage, level) are the same for every micro-batch, so they are written once, and the
 * instructions share them. */
typedef struct bgi_written {
    bg_action action;
    bgi_instruction instruction;
} bgi_written;

static bool is_same_kind_of_action(const bg_action *a, const bg_action *b)
{
    return a->kind == b->kind && a->stage == b->stage && a->index == b->index;
}

static bg_status write_instruction(bgi_compiler *c, const bgi_program_lists *lists, const bg_action *action,
                                   bgi_instruction *out, bg_error *error)
{
    bgi_segment_kind kind = BGI_SEGMENT_FORWARD;
    bool good = true;

    switch (action->kind) {
    case BG_ACTION_SEND:
        good = write_send(c, &lists->crossings, action->index, out);
        break;
    case BG_ACTION_RECEIVE:
    case BG_ACTION_LOAD:
    case BG_ACTION_STORE:
        break;
    case BG_ACTION_HOST_IN:
        good = write_host_in(c, action->stage, out);
        break;
    case BG_ACTION_HOST_OUT:
        good = write_outputs(c, action, out);
        break;
    case BG_ACTION_REDUCE:
    case BG_ACTION_GATHER:
        good = write_collective(c, lists, action->stage, action->kind, out);
        break;
    case BG_ACTION_UPDATE:
    case BG_ACTION_FORWARD:
    case BG_ACTION_RECOMPUTE:
    case BG_ACTION_BACKWARD:
    case BG_ACTION_WEIGHTS:
        kind = action->kind == BG_ACTION_FORWARD     ? BGI_SEGMENT_FORWARD
               : action->kind == BG_ACTION_RECOMPUTE ? BGI_SEGMENT_RECOMPUTE
               : action->kind == BG_ACTION_BACKWARD  ? BGI_SEGMENT_BACKWARD
               : action->kind == BG_ACTION_WEIGHTS   ? BGI_SEGMENT_WEIGHTS
                                                     : BGI_SEGMENT_UPDATE;
        good =
            write_calls(c, bgi_partition_find(c->partition, kind, action->stage, action->index), action->kind, out) &&
            write_edge_list(c, action, &lists->edges_from, makes, &out->acquires, &out->acquire_count) &&
            write_edge_list(c, action, &lists->edges_to, uses_last, &out->releases, &out->release_count) &&
            (kind != BGI_SEGMENT_UPDATE || write_outputs(c, action, out));
        break;
    default:
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "action %s cannot be part of a plan",
                            bg_action_kind_name(action->kind));
    }
    return good ? BG_OK : bgi_error_memory(error, "a program", 0);
}

static size_t hash_action(const bg_action *action)
{
    return ((size_t)action->stage * 31 + (size_t)action->kind) * 2654435761u + (size_t)action->index * 40503u;
}

static bg_status write_device(bgi_compiler *c, const bgi_program_lists *lists, uint32_t device, bg_error *error)
{
    const uint32_t count = bg_schedule_action_count(c->plan->schedule, device);
    const bg_action *actions = bg_schedule_actions(c->plan->schedule, device);
    bgi_instruction *instructions = bgi_arena_allocate(&c->plan->arena, count, sizeof *instructions);
    bgi_written *written = bgi_arena_allocate(&c->scratch, count, sizeof *written);
    uint32_t *table, written_count = 0; /* 1 + index in `written`, by hash, with open addressing; 0: free */
    size_t size = 16;

    while (size < 2 * (size_t)count)
        size *= 2;
    table = bgi_arena_allocate(&c->scratch, size, sizeof *table);
    if (instructions == NULL || written == NULL || table == NULL)
        return bgi_error_memory(error, "a program", count * sizeof *instructions);
    for (uint32_t i = 0; i < count; i++) {
        size_t slot = hash_action(&actions[i]) & (size - 1);
        while (table[slot] != 0 && !is_same_kind_of_action(&written[table[slot] - 1].action, &actions[i]))
            slot = (slot + 1) & (size - 1);
        if (table[slot] == 0) {
            written[written_count].action = actions[i];
            BGI_TRY(write_instruction(c, lists, &actions[i], &written[written_count].instruction, error));
            table[slot] = ++written_count;
        }
        instructions[i] = written[table[slot] - 1].instruction;
        instructions[i].action = actions[i];
    }
    if (!bgi_plan_is_strict(c->plan))
        send_early(instructions, count);
    c->plan->devices[device].instructions = instructions;
    c->plan->devices[device].instruction_count = count;
    return BG_OK;
}

/* Numbers the turns: the schedule lists the device of each turn, and a device's instructions get its turns in order. */
static bg_status number_turns(bgi_compiler *c, bg_error *error)
{
    const bg_schedule *schedule = c->plan->schedule;
    const size_t total = bgi_schedule_total(schedule);
    uint32_t *next = bgi_arena_allocate(&c->scratch, c->stages->device_count, sizeof *next);

    if (next == NULL)
        return bgi_error_memory(error, "turns", c->stages->device_count * sizeof *next);
    for (uint32_t turn = 0; turn < total; turn++) {
        const uint32_t device = schedule->turns[turn];
        bgi_instruction *instructions = (bgi_instruction *)(uintptr_t)c->plan->devices[device].instructions;
        instructions[next[device]++].turn = turn;
    }
    return BG_OK;
}

bg_status bgi_write_programs(bgi_compiler *c, bg_error *error)
{
    bgi_program_lists lists;

    BGI_TRY(list_written_variables(c, &lists, error));
    BGI_TRY(list_edges(c, &lists, error));
    for (uint32_t d = 0; d < c->stages->device_count; d++)
        BGI_TRY(write_device(c, &lists, d, error));
    return bgi_plan_is_strict(c->plan) ? number_turns(c, error) : BG_OK;
}
