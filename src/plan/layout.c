/*
 * layout.c: where every value lives.
 *
 *   a device's arena:  | weights | gradients | state | windows | stash slots | stream slots, host buffers | transients
 * |
 *
 * A value that stays inside its segment is transient: it gets an offset by its life time there, and all segments of a
 * device share that space, for they run one at a time. A value that crosses to another segment lives in the slots of an
 * edge. Its producer writes straight into a slot: of a local edge when there is one, else of the first receiver's;
 * further edges are copied to. Sizes are multiples of 64 bytes.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "kernels/kernels.h"
#include "plan/pack.h"

bg_action_kind bgi_action_of_segment(bgi_segment_kind kind)
{
    static const bg_action_kind action_of[] = {BG_ACTION_FORWARD, BG_ACTION_RECOMPUTE, BG_ACTION_BACKWARD,
                                               BG_ACTION_WEIGHTS, BG_ACTION_UPDATE};

    return action_of[kind];
}

/* ---- edges: crossings with the same ends ---- */

/* From the producer to its readers, without those that have an edge of their own. */
static bg_schedule_edge edge_of(const bgi_compiler *c, uint32_t index)
{
    const bgi_crossing *crossing = &c->partition.crossings[index];
    const bgi_segment *from = &c->partition.segments[crossing->from_segment];
    const bool is_cut = (c->crossing_moves[index] & (BGI_MOVES_STASH | BGI_KEEPS_STASH)) != 0;

    return (bg_schedule_edge){.from_kind = bgi_action_of_segment(from->kind),
                              .from_stage = from->stage,
                              .from_level = from->level,
                              .to_kind = bgi_action_of_segment(crossing->to_kind),
                              .last_kind = bgi_action_of_segment(is_cut ? crossing->to_kind : crossing->last_kind),
                              .to_stage = crossing->to_stage,
                              .to_level = crossing->to_level};
}

/* From the forward of the receiving stage to its own backward. */
static bg_schedule_edge stash_of(const bgi_crossing *crossing)
{
    return (bg_schedule_edge){.from_kind = BG_ACTION_FORWARD,
                              .from_stage = crossing->to_stage,
                              .to_kind = bgi_action_of_segment(crossing->back_kind),
                              .last_kind = bgi_action_of_segment(crossing->last_kind),
                              .to_stage = crossing->to_stage};
}

static bool same_ends(const bg_schedule_edge *a, const bg_schedule_edge *b)
{
    return a->from_kind == b->from_kind && a->from_stage == b->from_stage && a->from_level == b->from_level &&
           a->to_kind == b->to_kind && a->last_kind == b->last_kind && a->to_stage == b->to_stage &&
           a->to_level == b->to_level;
}

/* A remote variable may be off the device when a reader in another stage wants it. */
static bool needs_no_edge(const bgi_compiler *c, const bgi_crossing *crossing)
{
    const bgi_segment *from = &c->partition.segments[crossing->from_segment];

    return bgi_graph_value(c->graph, crossing->value)->kind == BGI_VALUE_VARIABLE &&
           c->buffer_of[crossing->value.id] == BGI_NO_BUFFER &&
           bgi_stage_device(c, from->stage) == bgi_stage_device(c, crossing->to_stage);
}

/* Adds a value to the edge with these ends. */
static void join_edge(bgi_compiler *c, const bg_schedule_edge *edge, const bgi_edge_facts *facts,
                      const bgi_value *value, uint32_t *out_edge, size_t *out_offset)
{
    const bool is_piece = bgi_travels_as_piece(value);
    const size_t size = is_piece ? bgi_piece_bytes(value) : bg_type_size_bytes(&value->type);
    uint32_t e = 0;

    while (e < c->edge_count &&
           !(same_ends(&c->edges[e], edge) && c->edge_facts[e].is_remote == facts->is_remote &&
             c->edge_facts[e].is_preloaded == facts->is_preloaded && c->edge_facts[e].shard_axes == facts->shard_axes))
        e++;
    if (e == c->edge_count) {
        c->edges[e] = *edge;
        c->edge_facts[e] = *facts;
        c->plan->edges[e] =
            (bgi_plan_edge){.from_device = bgi_stage_device(c, edge->from_stage),
                            .to_device = bgi_stage_device(c, edge->to_stage),
                            .per_step = edge->from_kind == BG_ACTION_UPDATE,
                            .is_stash = edge->from_kind != BG_ACTION_UPDATE && edge->last_kind != edge->from_kind};
        c->edge_count++;
    }
    *out_edge = e;
    *out_offset = c->plan->edges[e].slot_bytes;
    c->plan->edges[e].slot_bytes += bgi_align(is_piece ? size : bgi_stored_bytes(c, value));
    c->plan->edges[e].payload_bytes += size;
    c->edges[e].size_bytes += size;
}

static bg_status take_edges(bgi_compiler *c, bg_error *error)
{
    const uint32_t count = c->partition.crossing_count;

    /* A crossing may become two edges, each of three rings. */
    c->edges = bgi_arena_take(&c->plan->arena, 2 * (size_t)count, sizeof *c->edges);
    c->edge_facts = bgi_arena_take(&c->scratch, 2 * (size_t)count, sizeof *c->edge_facts);
    c->crossing_edges = bgi_arena_take(&c->scratch, count, sizeof *c->crossing_edges);
    c->crossing_offsets = bgi_arena_take(&c->scratch, count, sizeof *c->crossing_offsets);
    c->stash_edges = bgi_arena_take(&c->scratch, count, sizeof *c->stash_edges);
    c->stash_offsets = bgi_arena_take(&c->scratch, count, sizeof *c->stash_offsets);
    c->plan->edges = bgi_arena_take(&c->plan->arena, 6 * (size_t)count, sizeof *c->plan->edges);
    if (c->edges == NULL || c->edge_facts == NULL || c->crossing_edges == NULL || c->crossing_offsets == NULL ||
        c->stash_edges == NULL || c->stash_offsets == NULL || c->plan->edges == NULL)
        return bgi_error_memory(error, "edges", count * sizeof *c->edges);
    return BG_OK;
}

/* Pieces of one size, each a slot of its own in the remote store. */
static void pad_sharded_slots(bgi_compiler *c)
{
    const bg_mesh mesh = bgi_plan_mesh(c->plan);

    for (uint32_t e = 0; e < c->edge_count; e++) {
        const uint32_t members = bg_mesh_group_size(&mesh, c->edge_facts[e].shard_axes);
        size_t *slot_bytes = &c->plan->edges[e].slot_bytes;
        *slot_bytes = bgi_align((*slot_bytes + members - 1) / members) * members;
    }
}

bg_status bgi_group_edges(bgi_compiler *c, bg_error *error)
{
    if (c->edges == NULL)
        BGI_TRY(take_edges(c, error));
    for (uint32_t e = 0; e < c->edge_count; e++)
        c->edges[e] = (bg_schedule_edge){.size_bytes = 0};
    c->edge_count = 0;
    for (uint32_t i = 0; i < c->partition.crossing_count; i++) {
        const bgi_crossing *crossing = &c->partition.crossings[i];
        const bg_schedule_edge edge = edge_of(c, i), stash = stash_of(crossing);
        const bgi_value *value = bgi_graph_value(c->graph, crossing->value);
        const bgi_edge_facts remote = {.is_remote = true,
                                       .is_preloaded = bgi_crossing_is_preloaded(c, i),
                                       .shard_axes = bgi_crossing_shard_axes(c, i)},
                             local = {0};
        c->crossing_edges[i] = c->stash_edges[i] = BGI_NO_EDGE;
        if (needs_no_edge(c, crossing))
            continue;
        join_edge(c, &edge, (c->crossing_moves[i] & BGI_MOVES_MESSAGE) != 0 ? &remote : &local, value,
                  &c->crossing_edges[i], &c->crossing_offsets[i]);
        if ((c->crossing_moves[i] & (BGI_MOVES_STASH | BGI_KEEPS_STASH)) != 0)
            join_edge(c, &stash, (c->crossing_moves[i] & BGI_MOVES_STASH) != 0 ? &remote : &local, value,
                      &c->stash_edges[i], &c->stash_offsets[i]);
    }
    pad_sharded_slots(c);
    c->plan->edge_count = c->edge_count;
    return BG_OK;
}

/* ---- kernels ---- */

bool bgi_op_is_alias(const bgi_compiler *c, const bgi_op *op)
{
    return bgi_partition_is_alias(&c->partition, op);
}

bg_op_signature bgi_lowered_signature(const bg_graph *graph, const bgi_op *op, bg_type *types)
{
    const bg_op_signature signature = bgi_op_signature(graph, op, types);

    for (uint32_t i = 0; op->is_sharded && i < bgi_op_operand_count(op); i++) {
        const bg_value operand = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        const bgi_value *value = bgi_graph_value(graph, operand);
        if (value->piece > 0)
            types[i] = bg_vector(value->type.dtype, value->piece);
    }
    return signature;
}

bg_status bgi_select_kernels(bgi_compiler *c, bg_error *error)
{
    bg_type types[64];

    c->kernels = bgi_arena_take(&c->plan->arena, c->graph->op_count, sizeof *c->kernels);
    if (c->kernels == NULL)
        return bgi_error_memory(error, "kernels", c->graph->op_count * sizeof *c->kernels);
    c->plan->kernels = c->kernels;
    c->plan->kernel_count = (uint32_t)c->graph->op_count;
    for (size_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        bg_op_signature signature = bgi_lowered_signature(c->graph, op, types);
        bg_status status;
        signature.partials = c->plan->options.partials;
        signature.scratch_limit =
            bgi_options_scratch(&c->plan->options, c->stages.stage_devices[c->partition.op_stages[o]]);
        if (bgi_op_is_alias(c, op))
            continue;
        if (op->type->is_collective) {
            c->kernels[o] = (bg_kernel){.name = op->type->name};
            continue;
        }
        if (op->type->kernel == NULL)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED, "op type `%s` has no kernel", op->type->name);
        status = op->type->kernel(&signature, c->plan->options.kernels, &c->kernels[o], error);
        if (status != BG_OK)
            return bg_error_context(error, status, "kernel of %s `%s`", op->type->name, op->name);
        if (!bgi_kernel_is_complete(&c->kernels[o]))
            return bg_error_set(error, BG_ERROR_INVALID, "the kernel of %s `%s` has no function or no parts",
                                op->type->name, op->name);
    }
    return BG_OK;
}

/* ---- variables and constants ---- */

void bgi_find_writers(bgi_compiler *c)
{
    for (size_t v = 0; v < c->graph->value_count; v++)
        c->writer_stage[v] = UINT32_MAX;
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(c->graph->ops[o].type, i))
                c->writer_stage[c->graph->ops[o].inputs[i].id] = c->partition.op_stages[o];
}

bg_memory_class bgi_leaf_class(const bgi_value *value)
{
    if (value->kind == BGI_VALUE_CONSTANT)
        return BG_MEMORY_WEIGHTS;
    switch (value->role) {
    case BG_ROLE_ACCUMULATOR:
        return BG_MEMORY_GRADIENTS;
    case BG_ROLE_STATE:
    case BG_ROLE_TRAINING:
        return BG_MEMORY_STATE;
    default:
        return BG_MEMORY_WEIGHTS;
    }
}

/* Where it lies between its uses. */
static bg_memory_class class_of(const bgi_compiler *c, size_t v)
{
    const bgi_value *value = &c->graph->values[v];
    const bg_memory_class leaf_class = bgi_leaf_class(value);

    if (value->kind == BGI_VALUE_CONSTANT)
        return leaf_class;
    if (c->buffer_of[v] != BGI_NO_BUFFER)
        return BG_MEMORY_REMOTE;
    return value->is_remote && (leaf_class == BG_MEMORY_STATE || value->role == BG_ROLE_BUFFER) ? BG_MEMORY_REMOTE
                                                                                                : leaf_class;
}

/* Marks the devices on which leaves are needed: a written variable at home only, others wherever they are read. */
static void mark_places(bgi_compiler *c)
{
    const uint32_t devices = c->stages.device_count;

    for (size_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        for (uint32_t i = 0; i < op->input_count; i++) {
            const uint32_t root = c->partition.roots[op->inputs[i].id].id;
            const bgi_value *value = &c->graph->values[root];
            uint32_t stage = c->partition.op_stages[o];
            if (value->kind == BGI_VALUE_INPUT)
                c->input_is_used[(size_t)root * c->stages.stage_count + stage] = true;
            if (value->kind != BGI_VALUE_VARIABLE && value->kind != BGI_VALUE_CONSTANT)
                continue;
            if (value->kind == BGI_VALUE_VARIABLE && c->writer_stage[root] != UINT32_MAX)
                stage = c->writer_stage[root];
            c->is_placed[(size_t)root * devices + bgi_stage_device(c, stage)] = true;
        }
    }
}

/* Gives all leaves of one class their offsets, device by device. */
static void place_class(bgi_compiler *c, bg_memory_class memory_class, size_t *offsets)
{
    const uint32_t devices = c->stages.device_count;

    for (size_t v = 0; v < c->graph->value_count; v++) {
        const bgi_value *value = &c->graph->values[v];
        if ((value->kind != BGI_VALUE_VARIABLE && value->kind != BGI_VALUE_CONSTANT) || class_of(c, v) != memory_class)
            continue;
        for (uint32_t d = 0; d < devices; d++)
            if (c->is_placed[v * devices + d]) {
                const size_t size = bgi_align(bgi_home_bytes(c, (uint32_t)v));
                c->places[v * devices + d] = (bgi_operand){.device = d,
                                                           .is_remote = memory_class == BG_MEMORY_REMOTE,
                                                           .edge = BGI_NO_EDGE,
                                                           .offset = offsets[d]};
                offsets[d] += size;
                c->plan->devices[d].class_bytes[memory_class] += size;
            }
    }
}

/* ---- slots ---- */

static void place_edges(bgi_compiler *c, bool stash, size_t *offsets)
{
    for (uint32_t e = 0; e < c->edge_count; e++) {
        bgi_plan_edge *edge = &c->plan->edges[e];
        const bg_memory_class memory_class = edge->is_stash ? BG_MEMORY_STASH : BG_MEMORY_STREAM;
        if (edge->is_stash != stash || c->edge_facts[e].is_remote)
            continue;
        edge->depth = bg_schedule_edge_depth(c->plan->schedule, e);
        edge->offset = offsets[edge->to_device];
        offsets[edge->to_device] += edge->slot_bytes * edge->depth;
        c->plan->devices[edge->to_device].class_bytes[memory_class] += edge->slot_bytes * edge->depth;
    }
}

/* A place in the slots of an edge. */
static bgi_operand slot_of(const bgi_compiler *c, uint32_t edge, size_t offset)
{
    const bgi_plan_edge *slots = &c->plan->edges[edge];

    return (bgi_operand){
        .device = slots->to_device, .is_remote = slots->is_remote, .edge = edge, .offset = slots->offset + offset};
}

static uint32_t write_ring(const bgi_compiler *c, uint32_t edge)
{
    return c->edge_facts[edge].is_remote ? c->edge_facts[edge].out_ring : edge;
}

bgi_operand bgi_crossing_slot(const bgi_compiler *c, uint32_t crossing)
{
    return slot_of(c, c->crossing_edges[crossing], c->crossing_offsets[crossing]);
}

bgi_operand bgi_crossing_write_slot(const bgi_compiler *c, uint32_t crossing)
{
    return slot_of(c, write_ring(c, c->crossing_edges[crossing]), c->crossing_offsets[crossing]);
}

bgi_operand bgi_stash_slot(const bgi_compiler *c, uint32_t crossing)
{
    return slot_of(c, c->stash_edges[crossing], c->stash_offsets[crossing]);
}

bgi_operand bgi_stash_write_slot(const bgi_compiler *c, uint32_t crossing)
{
    return slot_of(c, write_ring(c, c->stash_edges[crossing]), c->stash_offsets[crossing]);
}

/* The crossing whose slot the producer of a value writes: a local one if there is one, else the first; UINT32_MAX:
 * none. */
static uint32_t home_crossing(const bgi_compiler *c, bg_value root, uint32_t stage)
{
    uint32_t first = UINT32_MAX, next;

    for (uint32_t i = c->partition.first_crossings[root.id]; i != 0; i = next) {
        const bgi_crossing *crossing = &c->partition.crossings[i - 1];
        next = crossing->next;
        if (c->crossing_edges[i - 1] == BGI_NO_EDGE || c->partition.segments[crossing->from_segment].stage != stage)
            continue;
        if (bgi_stage_device(c, crossing->to_stage) == bgi_stage_device(c, stage))
            return i - 1;
        if (first == UINT32_MAX)
            first = i - 1;
    }
    return first;
}

static void place_results(bgi_compiler *c)
{
    for (uint32_t v = 1; v < c->graph->value_count; v++) {
        const bgi_value *value = &c->graph->values[v];
        uint32_t crossing;
        if (value->kind != BGI_VALUE_RESULT || c->partition.roots[v].id != v)
            continue;
        crossing = home_crossing(c, (bg_value){v}, c->partition.op_stages[value->op]);
        if (crossing == UINT32_MAX)
            c->is_transient[v] = true;
        else
            c->storage[v] = bgi_crossing_write_slot(c, crossing);
    }
}

/* Inputs: the slot of the stage's own stash when the backward pass reads them, else a buffer for one micro-batch. */
static void place_inputs(bgi_compiler *c, size_t *offsets)
{
    const uint32_t stages = c->stages.stage_count;

    for (uint32_t v = 1; v < c->graph->value_count; v++)
        for (uint32_t s = 0; s < stages; s++) {
            const size_t size = bgi_align(bg_type_size_bytes(&c->graph->values[v].type));
            const uint32_t device = bgi_stage_device(c, s);
            uint32_t crossing;
            if (!c->input_is_used[(size_t)v * stages + s])
                continue;
            crossing = home_crossing(c, (bg_value){v}, s);
            if (crossing != UINT32_MAX) {
                c->input_places[(size_t)v * stages + s] = bgi_crossing_write_slot(c, crossing);
                continue;
            }
            c->input_places[(size_t)v * stages + s] =
                (bgi_operand){.device = device, .edge = BGI_NO_EDGE, .offset = offsets[device]};
            offsets[device] += size;
            c->plan->devices[device].class_bytes[BG_MEMORY_STREAM] += size;
        }
}

/* ---- transients ---- */

typedef struct bgi_packer {
    bgi_unit *units;
    uint32_t unit_count;
    uint32_t *unit_of; /* by value */
    bgi_unit **order;  /* the placed units by offset; at first all by size */
} bgi_packer;

/* A result may take over the bytes of an input that dies with this op. */
static uint32_t reusable_unit(const bgi_compiler *c, const bgi_packer *packer, const bgi_op *op, uint32_t position,
                              const uint32_t *last_use)
{
    bg_value root;

    if (op->type->reuse_input == BG_NO_OPERAND || op->type->reuse_input >= op->input_count)
        return UINT32_MAX;
    root = c->partition.roots[op->inputs[op->type->reuse_input].id];
    if (!c->is_transient[root.id] || packer->unit_of[root.id] == UINT32_MAX || last_use[root.id] != position ||
        bgi_stored_bytes(c, bgi_graph_value(c->graph, root)) !=
            bgi_stored_bytes(c, bgi_graph_value(c->graph, op->outputs[0])))
        return UINT32_MAX;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (i != op->type->reuse_input && c->partition.roots[op->inputs[i].id].id == root.id)
            return UINT32_MAX;
    return packer->unit_of[root.id];
}

static void add_unit(bgi_packer *packer, size_t size, uint32_t first, uint32_t last)
{
    packer->units[packer->unit_count++] = (bgi_unit){.size = bgi_align(size), .first = first, .last = last};
}

/* Life times of the transients of one segment. */
static void collect_units(bgi_compiler *c, const bgi_segment *segment, bgi_packer *packer, uint32_t *last_use)
{
    for (uint32_t p = 0; p < segment->op_count; p++) {
        const bgi_op *op = &c->graph->ops[segment->ops[p]];
        for (uint32_t i = 0; i < op->input_count; i++)
            last_use[c->partition.roots[op->inputs[i].id].id] = p;
        for (uint32_t i = 0; i < op->output_count; i++)
            last_use[c->partition.roots[op->outputs[i].id].id] = p;
    }
    for (uint32_t i = 0; i < c->plan->output_count; i++)
        last_use[c->partition.roots[c->output_values[i].id].id] = segment->op_count; /* the host reads it afterwards */
    for (uint32_t p = 0; p < segment->op_count; p++) {
        const bgi_op *op = &c->graph->ops[segment->ops[p]];
        if (bgi_op_is_alias(c, op))
            continue;
        for (uint32_t i = 0; i < op->output_count; i++) {
            const uint32_t v = op->outputs[i].id;
            uint32_t reused;
            if (v == 0 || !c->is_transient[v])
                continue;
            reused = i == 0 ? reusable_unit(c, packer, op, p, last_use) : UINT32_MAX;
            if (reused != UINT32_MAX) {
                packer->unit_of[v] = reused;
                packer->units[reused].last = last_use[v];
                continue;
            }
            packer->unit_of[v] = packer->unit_count;
            add_unit(packer, bgi_stored_bytes(c, &c->graph->values[v]), p, last_use[v]);
        }
    }
}

static bg_status lay_out_segment(bgi_compiler *c, uint32_t index, size_t base, uint32_t *last_use, bg_error *error)
{
    const bgi_segment *segment = &c->partition.segments[index];
    const uint32_t device = bgi_stage_device(c, segment->stage);
    bgi_arena arena = {0};
    bgi_packer packer = {0};
    uint32_t most = 0, scratch;

    for (uint32_t p = 0; p < segment->op_count; p++)
        most += c->graph->ops[segment->ops[p]].output_count + 1;
    packer.units = bgi_arena_take(&arena, most, sizeof *packer.units);
    packer.order = bgi_arena_take(&arena, most, sizeof *packer.order);
    packer.unit_of = bgi_arena_take(&arena, c->graph->value_count, sizeof *packer.unit_of);
    if (packer.units == NULL || packer.order == NULL || packer.unit_of == NULL) {
        bgi_arena_clear(&arena);
        return bgi_error_memory(error, "life times", most * sizeof *packer.units);
    }
    for (size_t v = 0; v < c->graph->value_count; v++)
        packer.unit_of[v] = UINT32_MAX;
    collect_units(c, segment, &packer, last_use);
    scratch = packer.unit_count;
    for (uint32_t p = 0; p < segment->op_count; p++)
        if (c->kernels[segment->ops[p]].scratch_bytes > 0)
            add_unit(&packer, c->kernels[segment->ops[p]].scratch_bytes, p, p);
    c->segment_peaks[index] = bgi_pack(packer.units, packer.unit_count, packer.order, bgi_units_meet_in_time, NULL);
    for (uint32_t v = 0; v < c->graph->value_count; v++)
        if (packer.unit_of[v] != UINT32_MAX)
            c->storage[v] = (bgi_operand){
                .device = device, .edge = BGI_NO_EDGE, .offset = base + packer.units[packer.unit_of[v]].offset};
    for (uint32_t p = 0; p < segment->op_count; p++)
        if (c->kernels[segment->ops[p]].scratch_bytes > 0)
            c->scratch_offsets[segment->ops[p]] = base + packer.units[scratch++].offset;
    bgi_arena_clear(&arena);
    return BG_OK;
}

static bg_status lay_out_transients(bgi_compiler *c, const size_t *offsets, bg_error *error)
{
    uint32_t *last_use = bgi_arena_take(&c->scratch, c->graph->value_count, sizeof *last_use);

    if (last_use == NULL)
        return bgi_error_memory(error, "life times", c->graph->value_count * sizeof *last_use);
    for (uint32_t s = 0; s < c->partition.segment_count; s++) {
        const uint32_t device = bgi_stage_device(c, c->partition.segments[s].stage);
        size_t *transient = &c->plan->devices[device].class_bytes[BG_MEMORY_TRANSIENT];
        BGI_TRY(lay_out_segment(c, s, offsets[device], last_use, error));
        if (c->segment_peaks[s] > *transient)
            *transient = c->segment_peaks[s];
    }
    return BG_OK;
}

static bg_status take_tables(bgi_compiler *c, bg_error *error)
{
    const size_t values = c->graph->value_count, devices = c->stages.device_count, stages = c->stages.stage_count;

    c->storage = bgi_arena_take(&c->scratch, values, sizeof *c->storage);
    c->is_transient = bgi_arena_take(&c->scratch, values, sizeof *c->is_transient);
    c->windows = bgi_arena_take(&c->scratch, values, sizeof *c->windows);
    c->places = bgi_arena_take(&c->scratch, values * devices, sizeof *c->places);
    c->is_placed = bgi_arena_take(&c->scratch, values * devices, sizeof *c->is_placed);
    c->input_places = bgi_arena_take(&c->scratch, values * stages, sizeof *c->input_places);
    c->input_is_used = bgi_arena_take(&c->scratch, values * stages, sizeof *c->input_is_used);
    c->segment_peaks = bgi_arena_take(&c->scratch, c->partition.segment_count, sizeof *c->segment_peaks);
    c->scratch_offsets = bgi_arena_take(&c->scratch, c->graph->op_count, sizeof *c->scratch_offsets);
    c->plan->devices = bgi_arena_take(&c->plan->arena, devices, sizeof *c->plan->devices);
    if (c->storage == NULL || c->is_transient == NULL || c->windows == NULL || c->places == NULL ||
        c->is_placed == NULL || c->input_places == NULL || c->input_is_used == NULL || c->segment_peaks == NULL ||
        c->scratch_offsets == NULL || c->plan->devices == NULL)
        return bgi_error_memory(error, "the layout", values * devices);
    return BG_OK;
}

bg_status bgi_lay_out(bgi_compiler *c, bg_error *error)
{
    const uint32_t devices = c->stages.device_count;
    size_t *offsets, *remote_offsets;

    BGI_TRY(take_tables(c, error));
    offsets = bgi_arena_take(&c->scratch, devices, sizeof *offsets);
    remote_offsets = bgi_arena_take(&c->scratch, devices, sizeof *remote_offsets);
    if (offsets == NULL || remote_offsets == NULL)
        return bgi_error_memory(error, "the layout", devices * sizeof *offsets);
    mark_places(c);
    place_class(c, BG_MEMORY_WEIGHTS, offsets);
    place_class(c, BG_MEMORY_GRADIENTS, offsets);
    place_class(c, BG_MEMORY_STATE, offsets);
    place_class(c, BG_MEMORY_REMOTE, remote_offsets);
    BGI_TRY(bgi_lay_out_remote(c, offsets, remote_offsets, error));
    place_edges(c, true, offsets);
    place_edges(c, false, offsets);
    place_results(c);
    place_inputs(c, offsets);
    BGI_TRY(lay_out_transients(c, offsets, error));
    for (uint32_t d = 0; d < devices; d++) {
        c->plan->devices[d].arena_bytes = offsets[d] + c->plan->devices[d].class_bytes[BG_MEMORY_TRANSIENT];
        c->plan->devices[d].remote_bytes = remote_offsets[d];
    }
    return BG_OK;
}
