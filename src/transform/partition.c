/*
 * partition.c: cuts a graph into segments (groups of ops that a device runs without communicating) and lists the values
 * that cross from one segment to another.
 *
 * Needs: ops with stages; each variable is written by one stage only. Does: makes segments of these kinds. F holds a
 * stage's forward ops. R holds those that run again, when they are separate from the backward pass. B holds its
 * backward ops. W (when split) holds the backward ops whose results no other stage and no B op needs. U holds its
 * update ops by level: an update op that needs another stage's result is one level after it. Keeps: the order of ops.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/buckets.h"
#include "core/error.h"

#define NOWHERE UINT32_MAX

typedef struct bgi_cutter {
    const bg_graph *graph;
    const bgi_stages *stages;
    bgi_partition *out;
    bgi_segment_kind *kinds; /* by op */
    uint32_t *levels;        /* by op, for ops of the update: the level */
    uint32_t *writer_stage;  /* by value: the stage that writes a variable, or NOWHERE */
    uint32_t *write_level;   /* by value: the level of the last write in the update */
    uint32_t *read_level;    /* by value: the highest level of the update at which the writer's stage reads it */
    uint32_t *needed_level;  /* by value: the lowest level of the update at which an op reads it */
    size_t crossing_capacity;
} bgi_cutter;

void bgi_partition_clear(bgi_partition *partition)
{
    free(partition->crossings);
    bgi_arena_clear(&partition->arena);
    memset(partition, 0, sizeof *partition);
}

uint32_t bgi_partition_find(const bgi_partition *partition, bgi_segment_kind kind, uint32_t stage, uint32_t level)
{
    const uint32_t levels = kind == BGI_SEGMENT_UPDATE ? partition->level_count : 1;

    if (partition->first_segments[kind] == NOWHERE || stage >= partition->stage_count ||
        (kind == BGI_SEGMENT_UPDATE && level >= levels))
        return NOWHERE;
    return partition->first_segments[kind] + stage * levels + (kind == BGI_SEGMENT_UPDATE ? level : 0);
}

static uint32_t at_least(uint32_t level, uint32_t least)
{
    return level > least ? level : least;
}

/* ---- stages, levels, kinds ---- */

static void find_stages(bgi_cutter *c, bool training)
{
    const bg_graph *graph = c->graph;

    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        c->out->op_stages[o] = bgi_op_stage(c->stages, op);
        for (uint32_t i = 0; i < op->input_count; i++)
            if (bgi_op_type_changes(op->type, i, training) &&
                bgi_graph_value(graph, op->inputs[i])->kind == BGI_VALUE_VARIABLE)
                c->writer_stage[op->inputs[i].id] = c->out->op_stages[o];
    }
}

static uint32_t level_of_update(const bgi_cutter *c, size_t op_index)
{
    const bgi_op *op = &c->graph->ops[op_index];
    const uint32_t stage = c->out->op_stages[op_index];
    uint32_t level = 0;

    for (uint32_t i = 0; i < op->input_count; i++) {
        const uint32_t id = op->inputs[i].id;
        const bgi_value *value = &c->graph->values[id];
        if (value->kind == BGI_VALUE_RESULT && c->graph->ops[value->op].phase == BGI_PHASE_UPDATE) {
            level = at_least(level, c->levels[value->op] + (c->out->op_stages[value->op] != stage));
            level = at_least(level, c->write_level[id]); /* loaded state, changed in place since then */
        } else if (value->kind == BGI_VALUE_VARIABLE && c->writer_stage[id] != NOWHERE) {
            level = at_least(level, c->write_level[id] + (c->writer_stage[id] != stage));
            if (bgi_op_type_writes(op->type, i))
                level = at_least(level, c->read_level[id]);
        }
    }
    return level;
}

static void find_levels(bgi_cutter *c)
{
    for (size_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        if (op->phase != BGI_PHASE_UPDATE)
            continue;
        c->levels[o] = level_of_update(c, o);
        for (uint32_t i = 0; i < op->input_count; i++) {
            const uint32_t id = op->inputs[i].id;
            if (bgi_op_type_writes(op->type, i))
                c->write_level[id] = at_least(c->write_level[id], c->levels[o]);
            else if (c->writer_stage[id] == c->out->op_stages[o])
                c->read_level[id] = at_least(c->read_level[id], c->levels[o]);
        }
        c->out->level_count = at_least(c->out->level_count, c->levels[o] + 1);
    }
}

/* Delays a load to the first level that reads the loaded value, because offloaded state is on the device only for its
 * update. */
static void sink_loads(bgi_cutter *c)
{
    for (size_t v = 0; v < c->graph->value_count; v++)
        c->needed_level[v] = NOWHERE;
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++) {
            uint32_t *needed = &c->needed_level[c->graph->ops[o].inputs[i].id];
            *needed = c->levels[o] < *needed ? c->levels[o] : *needed;
        }
    for (size_t o = 0; o < c->graph->op_count; o++)
        if (c->graph->ops[o].type == &bgi_op_load && c->needed_level[c->graph->ops[o].outputs[0].id] != NOWHERE)
            c->levels[o] = c->needed_level[c->graph->ops[o].outputs[0].id];
}

/* Sets the kind of each op's segment. If `split_weights`, backward ops whose results another stage reads, directly or
 * through other ops, are B, and the others are W. Otherwise all are B. */
static void find_kinds(bgi_cutter *c, bool split_weights)
{
    const bg_graph *graph = c->graph;

    for (size_t o = 0; o < graph->op_count; o++) {
        static const bgi_segment_kind of_phase[] = {BGI_SEGMENT_FORWARD, BGI_SEGMENT_RECOMPUTE, BGI_SEGMENT_BACKWARD,
                                                    BGI_SEGMENT_WEIGHTS, BGI_SEGMENT_UPDATE};
        c->kinds[o] = of_phase[graph->ops[o].phase];
        if (split_weights && c->kinds[o] == BGI_SEGMENT_BACKWARD)
            c->kinds[o] = BGI_SEGMENT_WEIGHTS;
    }
    for (size_t o = graph->op_count; split_weights && o-- > 0;) {
        const bgi_op *op = &graph->ops[o];
        if (op->phase != BGI_PHASE_BACKWARD)
            continue;
        for (uint32_t i = 0; i < op->input_count; i++) {
            const bgi_value *value = bgi_graph_value(graph, op->inputs[i]);
            if (value->kind == BGI_VALUE_RESULT && graph->ops[value->op].phase == BGI_PHASE_BACKWARD &&
                (c->out->op_stages[value->op] != c->out->op_stages[o] || c->kinds[o] == BGI_SEGMENT_BACKWARD))
                c->kinds[value->op] = BGI_SEGMENT_BACKWARD;
        }
    }
}

/* ---- segments ---- */

/* Lists segments without their ops, in the order of `first_segments`. */
static void list_segments(bgi_cutter *c, const bool *exists)
{
    bgi_partition *out = c->out;

    for (uint32_t kind = 0; kind <= BGI_SEGMENT_UPDATE; kind++) {
        const uint32_t levels = kind == BGI_SEGMENT_UPDATE ? out->level_count : 1;
        out->first_segments[kind] = exists[kind] ? out->segment_count : NOWHERE;
        for (uint32_t stage = 0; exists[kind] && stage < out->stage_count; stage++)
            for (uint32_t level = 0; level < levels; level++)
                out->segments[out->segment_count++] =
                    (bgi_segment){.kind = (bgi_segment_kind)kind, .stage = stage, .level = level};
    }
}

static bool make_segments(bgi_cutter *c, bool training, bool split_weights)
{
    bgi_partition *out = c->out;
    bool exists[BGI_SEGMENT_UPDATE + 1] = {[BGI_SEGMENT_FORWARD] = true,
                                           [BGI_SEGMENT_BACKWARD] = training,
                                           [BGI_SEGMENT_WEIGHTS] = split_weights,
                                           [BGI_SEGMENT_UPDATE] = true};
    bgi_buckets ops;

    for (size_t o = 0; o < c->graph->op_count; o++)
        exists[BGI_SEGMENT_RECOMPUTE] |= c->kinds[o] == BGI_SEGMENT_RECOMPUTE;
    out->segments = bgi_arena_allocate(&out->arena, (size_t)out->stage_count * (BGI_SEGMENT_UPDATE + out->level_count),
                                       sizeof *out->segments);
    if (out->segments == NULL)
        return false;
    list_segments(c, exists);
    for (size_t o = 0; o < c->graph->op_count; o++)
        out->op_segments[o] = c->kinds[o] == BGI_SEGMENT_UPDATE || c->levels[o] == 0
                                  ? bgi_partition_find(out, c->kinds[o], out->op_stages[o], c->levels[o])
                                  : NOWHERE;
    if (!bgi_buckets_fill(&ops, &out->arena, out->segment_count, c->graph->op_count, out->op_segments))
        return false;
    for (uint32_t s = 0; s < out->segment_count; s++) {
        out->segments[s].ops = &ops.items[ops.begins[s]];
        out->segments[s].op_count = ops.begins[s + 1] - ops.begins[s];
    }
    /* An op without a segment is refused by the verifier. */
    for (size_t o = 0; o < c->graph->op_count; o++)
        out->op_segments[o] = out->op_segments[o] == NOWHERE ? 0 : out->op_segments[o];
    return true;
}

/* ---- owners of bytes ---- */

static void mark_read_elsewhere(const bg_graph *graph, const bgi_stages *stages, bool *is_read_elsewhere)
{
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++) {
            const bg_value input = graph->ops[o].inputs[i];
            const bgi_value *value = bgi_graph_value(graph, input);
            if (value->kind == BGI_VALUE_RESULT &&
                bgi_op_stage(stages, &graph->ops[value->op]) != bgi_op_stage(stages, &graph->ops[o]))
                is_read_elsewhere[input.id] = true;
        }
    for (size_t i = 0; i < graph->output_count; i++)
        is_read_elsewhere[graph->outputs[i].value.id] = true;
}

/* If another stage or the host reads an alias of a leaf, the alias owns separate bytes, because leaves are not sent. */
bool bgi_find_roots(const bg_graph *graph, const bgi_stages *stages, bg_value *roots)
{
    bool *is_read_elsewhere = calloc(graph->value_count, sizeof *is_read_elsewhere);

    if (is_read_elsewhere == NULL)
        return false;
    mark_read_elsewhere(graph, stages, is_read_elsewhere);
    for (uint32_t v = 0; v < graph->value_count; v++)
        roots[v] = (bg_value){v};
    /* Visits op by op, because an alias may read a value with a higher number than its own, which a pass has added. */
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        bg_value root;
        if (op->type->alias_input == BG_NO_OPERAND || op->output_count == 0)
            continue;
        root = roots[op->inputs[op->type->alias_input].id];
        if (graph->values[root.id].kind == BGI_VALUE_RESULT || !is_read_elsewhere[op->outputs[0].id])
            roots[op->outputs[0].id] = root;
    }
    free(is_read_elsewhere);
    return true;
}

/* ---- crossings ---- */

static bg_status add_crossing(bgi_cutter *c, bg_value root, uint32_t from_segment, uint32_t op, bg_error *error)
{
    bgi_partition *out = c->out;
    const bgi_segment_kind kind = c->kinds[op];
    const uint32_t stage = out->op_stages[op], level = kind == BGI_SEGMENT_UPDATE ? c->levels[op] : 0;
    uint32_t newest = 0;

    for (uint32_t i = out->first_crossings[root.id]; i != 0; newest = i, i = out->crossings[i - 1].next) {
        bgi_crossing *known = &out->crossings[i - 1];
        if (known->from_segment != from_segment || known->to_stage != stage || known->to_level != level)
            continue;
        known->to_kind = kind < known->to_kind ? kind : known->to_kind;
        known->last_kind = kind > known->last_kind ? kind : known->last_kind;
        if (kind != BGI_SEGMENT_FORWARD && (known->back_kind == BGI_SEGMENT_FORWARD || kind < known->back_kind))
            known->back_kind = kind;
        return BG_OK;
    }
    if (!bgi_array_reserve((void **)&out->crossings, &c->crossing_capacity, out->crossing_count + 1,
                           sizeof *out->crossings))
        return bgi_error_memory(error, "crossings", out->crossing_count * sizeof *out->crossings);
    out->crossings[out->crossing_count++] = (bgi_crossing){.value = root,
                                                           .from_segment = from_segment,
                                                           .to_stage = stage,
                                                           .to_kind = kind,
                                                           .last_kind = kind,
                                                           .back_kind = kind,
                                                           .to_level = level};
    if (newest == 0)
        out->first_crossings[root.id] = out->crossing_count;
    else
        out->crossings[newest - 1].next = out->crossing_count;
    return BG_OK;
}

/* Adds a crossing when an operand of an op comes from another segment. */
static bg_status cross_operand(bgi_cutter *c, uint32_t op, bg_value operand, bg_error *error)
{
    const bg_value root = c->out->roots[operand.id];
    const bgi_value *value = bgi_graph_value(c->graph, root);
    const uint32_t stage = c->out->op_stages[op];
    uint32_t from = NOWHERE;

    switch (value->kind) {
    case BGI_VALUE_RESULT:
        from = c->out->op_segments[value->op];
        if (c->kinds[op] == BGI_SEGMENT_UPDATE && c->out->segments[from].kind != BGI_SEGMENT_UPDATE)
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "update op `%s` reads `%s`, which each micro-batch computes; an update reads only "
                                "variables and results of the update",
                                c->graph->ops[op].name, value->name);
        break;
    case BGI_VALUE_INPUT: /* the host delivers its data to each stage before the stage's forward pass */
        from = bgi_partition_find(c->out, BGI_SEGMENT_FORWARD, stage, 0);
        break;
    case BGI_VALUE_VARIABLE:
        if (c->writer_stage[root.id] == NOWHERE || c->writer_stage[root.id] == stage)
            return BG_OK;
        if (c->kinds[op] != BGI_SEGMENT_UPDATE)
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "op `%s` reads `%s`, which stage %u writes; only an op of an update may do this",
                                c->graph->ops[op].name, value->name, c->writer_stage[root.id]);
        from = bgi_partition_find(c->out, BGI_SEGMENT_UPDATE, c->writer_stage[root.id], c->write_level[root.id]);
        break;
    default:
        return BG_OK;
    }
    return from == c->out->op_segments[op] ? BG_OK : add_crossing(c, root, from, op, error);
}

bool bgi_partition_is_alias(const bgi_partition *partition, const bgi_op *op)
{
    return op->output_count > 0 && op->outputs[0].id != 0 &&
           partition->roots[op->outputs[0].id].id != op->outputs[0].id;
}

static bg_status find_crossings(bgi_cutter *c, bg_error *error)
{
    for (uint32_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        if (bgi_partition_is_alias(c->out, op))
            continue; /* an alias moves no bytes; its readers have separate crossings */
        for (uint32_t i = 0; i < op->input_count; i++)
            BGI_TRY(cross_operand(c, o, op->inputs[i], error));
    }
    return BG_OK;
}

/* Makes the lists of crossings by from_segment and by to_stage. */
static bg_status sort_crossings(bgi_partition *partition, bgi_arena *scratch, bg_error *error)
{
    const uint32_t count = partition->crossing_count;
    uint32_t *from = bgi_arena_allocate(scratch, count, sizeof *from);
    uint32_t *to = bgi_arena_allocate(scratch, count, sizeof *to);

    for (uint32_t i = 0; from != NULL && to != NULL && i < count; i++) {
        from[i] = partition->crossings[i].from_segment;
        to[i] = partition->crossings[i].to_stage;
    }
    if (from == NULL || to == NULL ||
        !bgi_buckets_fill(&partition->crossings_from, &partition->arena, partition->segment_count, count, from) ||
        !bgi_buckets_fill(&partition->crossings_to, &partition->arena, partition->stage_count, count, to))
        return bgi_error_memory(error, "crossings", count * sizeof *from);
    return BG_OK;
}

bg_status bgi_cut_segments(const bg_graph *graph, const bgi_stages *stages, bool training, bool split_weights,
                           bgi_partition *out, bg_error *error)
{
    bgi_partition partition = {.stage_count = stages->stage_count, .level_count = training ? 1 : 0};
    bgi_cutter c = {.graph = graph, .stages = stages, .out = &partition};
    bgi_arena scratch = {0};
    bg_status status;

    partition.op_segments = bgi_arena_allocate(&partition.arena, graph->op_count, sizeof(uint32_t));
    partition.op_stages = bgi_arena_allocate(&partition.arena, graph->op_count, sizeof(uint32_t));
    partition.roots = bgi_arena_allocate(&partition.arena, graph->value_count, sizeof(bg_value));
    c.kinds = bgi_arena_allocate(&scratch, graph->op_count, sizeof *c.kinds);
    c.levels = bgi_arena_allocate(&scratch, graph->op_count, sizeof *c.levels);
    c.writer_stage = bgi_arena_allocate(&scratch, graph->value_count, sizeof *c.writer_stage);
    c.write_level = bgi_arena_allocate(&scratch, graph->value_count, sizeof *c.write_level);
    c.read_level = bgi_arena_allocate(&scratch, graph->value_count, sizeof *c.read_level);
    c.needed_level = bgi_arena_allocate(&scratch, graph->value_count, sizeof *c.needed_level);
    partition.first_crossings = bgi_arena_allocate(&partition.arena, graph->value_count, sizeof(uint32_t));
    if (partition.op_segments == NULL || partition.op_stages == NULL || partition.roots == NULL || c.kinds == NULL ||
        c.levels == NULL || c.writer_stage == NULL || c.write_level == NULL || c.read_level == NULL ||
        c.needed_level == NULL || partition.first_crossings == NULL ||
        !bgi_find_roots(graph, stages, partition.roots)) {
        status = bgi_error_memory(error, "the partition", graph->op_count);
        goto cleanup;
    }
    for (size_t v = 0; v < graph->value_count; v++)
        c.writer_stage[v] = NOWHERE;
    find_stages(&c, training);
    find_levels(&c);
    sink_loads(&c);
    find_kinds(&c, split_weights);
    if (!make_segments(&c, training, split_weights)) {
        status = bgi_error_memory(error, "segments", 0);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(find_crossings(&c, error));
    BGI_TRY_CLEANUP(sort_crossings(&partition, &scratch, error));
cleanup:
    bgi_arena_clear(&scratch);
    if (status == BG_OK)
        *out = partition;
    else
        bgi_partition_clear(&partition);
    return status;
}
