/*
 * items.c: finds the items of a graph: ops or blocks that must stay together in one stage.
 *
 *     ops          a b c | d e | f g        blocks, or single ops
 *     items        [a b c] [d e] [f] [g]    ops that must stay together form one item
 *
 * Ops stay together if data would flow back between them, or if they use a variable that changes in each micro-batch.
 * Users of a parameter in one block also stay together, because a cut between them would change a sum (split_blocks.c).
 */
#include "plan/items.h"

#include "core/error.h"
#include "plan/automatic.h"

#define NO_ITEM UINT32_MAX

/* Items while they are found. */
typedef struct line {
    const bg_graph *graph;
    bgi_arena *arena;
    bool training, are_ops;
    uint32_t *op_items; /* by op: its rank until make_items, then its item; NO_ITEM: the op is not a forward op */
    uint32_t count;
    uint32_t
        *joins; /* by rank: +1 where a group of ranks that stay together begins, -1 (wrapping) where the group ends */
} line;

/* Gives each forward op its rank, and the other ops none. A rank is an op or a block. Blocks are ranked in the order in
 * which ops name them, and ops before the first block belong to that block. */
static bg_status rank_ops(line *c, bg_error *error)
{
    const bg_graph *graph = c->graph;
    uint32_t *ranks = bgi_arena_allocate(c->arena, graph->block_count, sizeof *ranks);
    bool has_blocks = false;

    c->op_items = bgi_arena_allocate(c->arena, graph->op_count, sizeof *c->op_items);
    if (ranks == NULL || c->op_items == NULL)
        return bgi_error_memory(error, "parts of stages", graph->op_count * sizeof *c->op_items);
    for (size_t o = 0; o < graph->op_count; o++) {
        if (graph->ops[o].phase != BGI_PHASE_FORWARD)
            continue;
        BGI_TRY(bgi_check_op_block(graph, &graph->ops[o], error));
        has_blocks |= graph->ops[o].block != 0;
    }
    c->are_ops |= !has_blocks;
    for (size_t b = 0; b < graph->block_count; b++)
        ranks[b] = b == 0 ? 0 : NO_ITEM;
    for (size_t o = 0; o < graph->op_count; o++) {
        uint32_t *rank;
        c->op_items[o] = NO_ITEM;
        if (graph->ops[o].phase != BGI_PHASE_FORWARD)
            continue;
        rank = &ranks[graph->ops[o].block];
        if (*rank == NO_ITEM)
            *rank = c->count++;
        c->op_items[o] = c->are_ops ? (uint32_t)o : *rank;
    }
    if (c->are_ops)
        c->count = (uint32_t)graph->op_count;
    return BG_OK;
}

/* Joins ranks a to b into one item. */
static void join(line *c, uint32_t a, uint32_t b)
{
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;

    c->joins[low]++;
    c->joins[high]--;
}

/* A use of a variable by an op. */
typedef struct bgi_use {
    uint32_t op, previous; /* index + 1 of the variable's previous use; 0: there is none */
} bgi_use;

/* Joins the newest use of the variable with the use before it, and so with all earlier ones, if the variable changes in
 * a micro-batch; otherwise with the previous use in the same block. */
static void join_uses(line *c, const bgi_use *uses, uint32_t newest, bool changes)
{
    const bgi_op *ops = c->graph->ops;
    const uint32_t op = uses[newest].op;

    for (uint32_t u = uses[newest].previous; u != 0; u = uses[u - 1].previous)
        if (changes || ops[uses[u - 1].op].block == ops[op].block) {
            join(c, c->op_items[uses[u - 1].op], c->op_items[op]);
            return;
        }
}

static bg_status join_variables(line *c, bg_error *error)
{
    const bg_graph *graph = c->graph;
    bool *changes = bgi_arena_allocate(c->arena, graph->value_count, sizeof *changes);
    uint32_t *newest = bgi_arena_allocate(c->arena, graph->value_count, sizeof *newest);
    uint32_t use_count = 0;
    bgi_use *uses;

    for (size_t o = 0; o < graph->op_count; o++)
        use_count += graph->ops[o].input_count;
    uses = bgi_arena_allocate(c->arena, use_count, sizeof *uses);
    if (changes == NULL || newest == NULL || uses == NULL)
        return bgi_error_memory(error, "parts of stages", use_count * sizeof *uses);
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count && c->op_items[o] != NO_ITEM; i++)
            changes[graph->ops[o].inputs[i].id] |= bgi_op_type_changes(graph->ops[o].type, i, c->training);
    use_count = 0;
    for (uint32_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count && c->op_items[o] != NO_ITEM; i++) {
            const uint32_t v = graph->ops[o].inputs[i].id;
            if (graph->values[v].kind != BGI_VALUE_VARIABLE)
                continue;
            uses[use_count] = (bgi_use){.op = o, .previous = newest[v]};
            newest[v] = use_count + 1;
            join_uses(c, uses, use_count++, changes[v]);
        }
    return BG_OK;
}

/* Joins ranks so that no value flows from a later item to an earlier one. */
static void join_cycles(line *c)
{
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++) {
            const bgi_value *value = bgi_graph_value(c->graph, c->graph->ops[o].inputs[i]);
            if (value->kind == BGI_VALUE_RESULT && c->op_items[o] != NO_ITEM && c->op_items[value->op] != NO_ITEM &&
                c->op_items[value->op] > c->op_items[o])
                join(c, c->op_items[value->op], c->op_items[o]);
        }
}

/* Turns ranks into items: joined ranks share one item. */
static bg_status make_items(line *c, bg_error *error)
{
    const uint32_t rank_count = c->count;
    uint32_t *items, open = 0;

    c->joins = bgi_arena_allocate(c->arena, rank_count + 1, sizeof *c->joins);
    items = bgi_arena_allocate(c->arena, rank_count, sizeof *items);
    if (c->joins == NULL || items == NULL)
        return bgi_error_memory(error, "parts of stages", rank_count * sizeof *items);
    join_cycles(c);
    BGI_TRY(join_variables(c, error));
    c->count = 0;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        c->count += open == 0;
        open += c->joins[rank]; /* an unsigned number, which may wrap below zero and back */
        items[rank] = c->count - 1;
    }
    for (size_t o = 0; o < c->graph->op_count; o++)
        if (c->op_items[o] != NO_ITEM)
            c->op_items[o] = items[c->op_items[o]];
    return BG_OK;
}

bg_status bgi_items_find(const bg_graph *graph, bool training, bgi_arena *arena, bgi_items *out, bg_error *error)
{
    line found = {.graph = graph, .arena = arena, .training = training, .are_ops = out->are_ops};

    BGI_TRY(rank_ops(&found, error));
    BGI_TRY(make_items(&found, error));
    *out = (bgi_items){.are_ops = found.are_ops, .op_items = found.op_items, .count = found.count};
    return BG_OK;
}

/* ---- borders inside stages ---- */

/* Whether one of the device's stages has two items. */
static bool has_border(const bgi_compiler *c, const bgi_items *items, uint32_t device, uint32_t *stage_items)
{
    for (uint32_t s = 0; s < c->stages->stage_count; s++)
        stage_items[s] = NO_ITEM;
    for (size_t o = 0; o < c->graph->op_count; o++) {
        const uint32_t item = items->op_items[o];
        uint32_t stage;
        if (item == NO_ITEM)
            continue;
        stage = bgi_op_stage(c->stages, &c->graph->ops[o]);
        if (bgi_stage_device(c, stage) != device)
            continue;
        if (stage_items[stage] != NO_ITEM && stage_items[stage] != item)
            return true;
        stage_items[stage] = item;
    }
    return false;
}

bool bgi_device_divides(const bgi_compiler *compiler, uint32_t device)
{
    bgi_items items = {.are_ops = compiler->cuts != NULL && compiler->cuts->cuts_blocks};
    bgi_arena arena = {0};
    uint32_t *stage_items = bgi_arena_allocate(&arena, compiler->stages->stage_count, sizeof *stage_items);
    const bool divides = stage_items != NULL &&
                         bgi_items_find(compiler->graph, compiler->plan->training, &arena, &items, NULL) == BG_OK &&
                         has_border(compiler, &items, device, stage_items);

    bgi_arena_clear(&arena);
    return divides;
}
