/*
 * edges.c: groups crossings with the same ends into edges, and finds the slots in which the values of an edge are
 * written and read.
 *
 *     crossings of the partition --group--> edges --schedule, layout--> slots: where they are read and written
 *
 * A crossing may become two edges (offload.c decides): one to its receiver, and one for the value that the receiver
 * keeps for its backward pass. When both edges are remote, they share one copy in the store, which is loaded twice.
 * The only arena offsets that this file knows are those that layout.c and windows.c gave the edges.
 */
#include "plan/compile.h"

#include <string.h>

#include "core/error.h"

/* ---- crossings with the same ends ---- */

/* Returns the edge from the producer to its readers, except readers that have a separate edge. */
static bg_schedule_edge edge_of(const bgi_compiler *c, uint32_t index)
{
    const bgi_crossing *crossing = &c->partition->crossings[index];
    const bgi_segment *from = &c->partition->segments[crossing->from_segment];
    const bool is_cut = (c->residency->crossing_moves[index] & (BGI_MOVES_STASH | BGI_KEEPS_STASH)) != 0;

    return (bg_schedule_edge){.from_kind = bgi_action_of_segment(from->kind),
                              .from_stage = from->stage,
                              .from_level = from->level,
                              .to_kind = bgi_action_of_segment(crossing->to_kind),
                              .last_kind = bgi_action_of_segment(is_cut ? crossing->to_kind : crossing->last_kind),
                              .to_stage = crossing->to_stage,
                              .to_level = crossing->to_level};
}

/* Returns the edge from the forward pass of the receiving stage to its own backward pass. */
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

/* Whether the readers find the value without an edge: it is a variable on their device that is not remote. A remote
 * variable may not be loaded when a reader in another stage needs it. */
static bool needs_no_edge(const bgi_compiler *c, const bgi_crossing *crossing)
{
    const bgi_segment *from = &c->partition->segments[crossing->from_segment];

    return bgi_graph_value(c->graph, crossing->value)->kind == BGI_VALUE_VARIABLE &&
           c->residency->buffer_of[crossing->value.id] == BGI_NO_BUFFER &&
           bgi_stage_device(c, from->stage) == bgi_stage_device(c, crossing->to_stage);
}

static bool same_facts(const bgi_edge_facts *a, const bgi_edge_facts *b)
{
    return a->is_remote == b->is_remote && a->is_preloaded == b->is_preloaded && a->shard_axes == b->shard_axes &&
           a->kept_as == b->kept_as && a->stored_by == b->stored_by;
}

/* Returns the table's entry for the edge with these ends and facts, or the free entry where it belongs. */
static uint32_t *find_edge(const bgi_compiler *c, const bg_schedule_edge *edge, const bgi_edge_facts *facts)
{
    const size_t mask = c->edges->table_size - 1;
    size_t slot = ((size_t)edge->from_stage * 2654435761u + (size_t)edge->to_stage * 40503u +
                   (size_t)edge->from_kind * 31 + (size_t)edge->last_kind) &
                  mask;

    while (c->edges->table[slot] != 0 && !(same_ends(&c->edges->list[c->edges->table[slot] - 1], edge) &&
                                           same_facts(&c->edges->facts[c->edges->table[slot] - 1], facts)))
        slot = (slot + 1) & mask;
    return &c->edges->table[slot];
}

/* Adds a value to the edge with these ends. */
static void join_edge(bgi_compiler *c, const bg_schedule_edge *edge, const bgi_edge_facts *facts,
                      const bgi_value *value, uint32_t *out_edge, size_t *out_offset)
{
    const bool is_piece = bgi_travels_as_piece(value);
    const size_t size = is_piece ? bgi_piece_bytes(value) : bg_type_size_bytes(&value->type);
    uint32_t *known = find_edge(c, edge, facts);
    const uint32_t e = *known != 0 ? *known - 1 : c->edges->count;

    if (*known == 0) {
        *known = e + 1;
        c->edges->list[e] = *edge;
        c->edges->facts[e] = *facts;
        c->plan->edges[e] =
            (bgi_plan_edge){.from_device = bgi_stage_device(c, edge->from_stage),
                            .to_device = bgi_stage_device(c, edge->to_stage),
                            .per_step = edge->from_kind == BG_ACTION_UPDATE,
                            .is_stash = edge->from_kind != BG_ACTION_UPDATE && edge->last_kind != edge->from_kind};
        c->edges->count++;
    }
    *out_edge = e;
    *out_offset = c->plan->edges[e].slot_bytes;
    c->plan->edges[e].slot_bytes += bgi_slot_part_bytes(c, value);
    c->plan->edges[e].payload_bytes += size;
    c->edges->list[e].size_bytes += size;
}

static bg_status allocate_edges(bgi_compiler *c, bg_error *error)
{
    const uint32_t count = c->partition->crossing_count;

    c->edges = bgi_arena_allocate(&c->scratch, 1, sizeof *c->edges);
    if (c->edges == NULL)
        return bgi_error_memory(error, "edges", sizeof *c->edges);
    for (c->edges->table_size = 16; c->edges->table_size < 4 * (size_t)count;)
        c->edges->table_size *= 2;
    c->edges->table = bgi_arena_allocate(&c->scratch, c->edges->table_size, sizeof *c->edges->table);
    /* A crossing may become two edges with up to three rings each. */
    c->edges->list = bgi_arena_allocate(&c->plan->arena, 2 * (size_t)count, sizeof *c->edges->list);
    c->edges->facts = bgi_arena_allocate(&c->scratch, 2 * (size_t)count, sizeof *c->edges->facts);
    c->edges->routes = bgi_arena_allocate(&c->scratch, count, sizeof *c->edges->routes);
    c->plan->edges = bgi_arena_allocate(&c->plan->arena, 6 * (size_t)count, sizeof *c->plan->edges);
    if (c->edges->table == NULL || c->edges->list == NULL || c->edges->facts == NULL || c->edges->routes == NULL ||
        c->plan->edges == NULL)
        return bgi_error_memory(error, "edges", count * sizeof *c->edges->list);
    return BG_OK;
}

/* Pads slots so that their pieces have one size, because each piece is a separate slot in the remote store. */
static void pad_sharded_slots(bgi_compiler *c)
{
    const bg_mesh mesh = bgi_plan_mesh(c->plan);

    for (uint32_t e = 0; e < c->edges->count; e++) {
        const uint32_t members = bg_mesh_group_size(&mesh, c->edges->facts[e].shard_axes);
        size_t *slot_bytes = &c->plan->edges[e].slot_bytes;
        *slot_bytes = bgi_align((*slot_bytes + members - 1) / members) * members;
    }
}

/* Finds or adds the edges of one crossing. Two edges that are both remote share one store, which works because their
 * slots hold the same values in the same order. */
static void route_crossing(bgi_compiler *c, uint32_t i)
{
    const bgi_crossing *crossing = &c->partition->crossings[i];
    const bg_schedule_edge edge = edge_of(c, i), stash = stash_of(crossing);
    const bgi_value *value = bgi_graph_value(c->graph, crossing->value);
    const uint8_t moves = c->residency->crossing_moves[i];
    const bgi_edge_facts local = {0};
    bgi_edge_facts remote = {.is_remote = true,
                             .is_preloaded = bgi_crossing_is_preloaded(c, i),
                             .shard_axes = bgi_crossing_shard_axes(c, i)};
    bgi_route *route = &c->edges->routes[i];

    if ((moves & BGI_MOVES_MESSAGE) != 0 && (moves & BGI_MOVES_STASH) != 0)
        remote.kept_as = 1 + (uint32_t)stash.to_kind * BG_ACTION_KIND_COUNT + (uint32_t)stash.last_kind;
    join_edge(c, &edge, (moves & BGI_MOVES_MESSAGE) != 0 ? &remote : &local, value, &route->edge, &route->offset);
    if (remote.kept_as != 0)
        remote.stored_by = 1 + route->edge;
    remote.kept_as = 0;
    if ((moves & (BGI_MOVES_STASH | BGI_KEEPS_STASH)) != 0)
        join_edge(c, &stash, (moves & BGI_MOVES_STASH) != 0 ? &remote : &local, value, &route->stash_edge,
                  &route->stash_offset);
}

bg_status bgi_group_edges(bgi_compiler *c, bg_error *error)
{
    if (c->edges == NULL)
        BGI_TRY(allocate_edges(c, error));
    for (uint32_t e = 0; e < c->edges->count; e++)
        c->edges->list[e] = (bg_schedule_edge){.size_bytes = 0};
    c->edges->count = 0;
    memset(c->edges->table, 0, c->edges->table_size * sizeof *c->edges->table);
    for (uint32_t i = 0; i < c->partition->crossing_count; i++) {
        c->edges->routes[i].edge = c->edges->routes[i].stash_edge = BGI_NO_EDGE;
        if (!needs_no_edge(c, &c->partition->crossings[i]))
            route_crossing(c, i);
    }
    pad_sharded_slots(c);
    c->plan->edge_count = c->edges->count;
    return BG_OK;
}

/* ---- slots ---- */

/* Returns the place of a value in an edge's slots, for the device that has the slots. */
static bgi_operand slot_of(const bgi_compiler *c, uint32_t edge, size_t offset)
{
    const bgi_plan_edge *slots = &c->plan->edges[edge];

    return (bgi_operand){.memory = slots->is_remote ? BGI_MEMORY_REMOTE : BGI_MEMORY_ARENA,
                         .edge = edge,
                         .offset = slots->offset + offset};
}

/* Returns the place for the writer, which is a window when the slots belong to another device. */
static bgi_operand write_slot_of(const bgi_compiler *c, uint32_t edge, size_t offset)
{
    const bgi_plan_edge *slots = &c->plan->edges[edge];

    if (slots->from_device == slots->to_device)
        return slot_of(c, edge, offset);
    return (bgi_operand){.memory = BGI_MEMORY_WINDOW, .edge = edge, .offset = offset};
}

static uint32_t write_ring(const bgi_compiler *c, uint32_t edge)
{
    return c->edges->facts[edge].is_remote ? c->edges->facts[edge].out_ring : edge;
}

bgi_operand bgi_crossing_slot(const bgi_compiler *c, uint32_t crossing)
{
    return slot_of(c, c->edges->routes[crossing].edge, c->edges->routes[crossing].offset);
}

bgi_operand bgi_crossing_write_slot(const bgi_compiler *c, uint32_t crossing)
{
    return write_slot_of(c, write_ring(c, c->edges->routes[crossing].edge), c->edges->routes[crossing].offset);
}

bgi_operand bgi_stash_slot(const bgi_compiler *c, uint32_t crossing)
{
    return slot_of(c, c->edges->routes[crossing].stash_edge, c->edges->routes[crossing].stash_offset);
}

bgi_operand bgi_stash_write_slot(const bgi_compiler *c, uint32_t crossing)
{
    return write_slot_of(c, write_ring(c, c->edges->routes[crossing].stash_edge),
                         c->edges->routes[crossing].stash_offset);
}
