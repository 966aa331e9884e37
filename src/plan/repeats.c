/*
 * repeats.c: where what R makes waits for its B (recompute order THEN).
 *
 *     device's list   F0 F1 F2 .. R2 B2 R1 B1 R0 B0        slots of R2 -> B2   [ ]
 *                                                          slots of R1 -> B1       [ ]       one place for all three
 *                                                          slots of R0 -> B0           [ ]
 *
 * These slots are in use from an R to the last reader of what it made, so those of a device's stages share memory where
 * no two are in use at the same time in the order of the device. What a forward keeps is in use until the backward, in
 * slots of its own (layout.c).
 */
#include "plan/compile.h"

#include "core/error.h"
#include "plan/pack.h"

/* From positions `first` to `last` of the device's list. */
typedef struct span {
    uint32_t first, last;
} span;

typedef struct ring {
    uint32_t edge;
    span *spans; /* ascending */
    uint32_t span_count;
} ring;

bool bgi_is_of_repeats(const bgi_compiler *c, uint32_t edge)
{
    return c->edges->list[edge].from_kind == BG_ACTION_RECOMPUTE && c->plan->edges[edge].is_stash &&
           !c->edges->facts[edge].is_remote && c->plan->edges[edge].from_device == c->plan->edges[edge].to_device;
}

static bool rings_meet(const void *context, const bgi_unit *a, const bgi_unit *b)
{
    const ring *rings = context;
    const ring *x = &rings[a->first], *y = &rings[b->first]; /* `first` numbers the ring here */

    for (uint32_t i = 0, k = 0; i < x->span_count && k < y->span_count;) {
        if (x->spans[i].last < y->spans[k].first)
            i++;
        else if (y->spans[k].last < x->spans[i].first)
            k++;
        else
            return true;
    }
    return false;
}

/* From an R with which slots come into use to the reader with which the last one is free. */
static bg_status find_spans(const bgi_compiler *c, bgi_arena *arena, uint32_t device, ring *r, bg_error *error)
{
    const bg_schedule_edge *edge = &c->edges->list[r->edge];
    const uint32_t count = bg_schedule_action_count(c->plan->schedule, device);
    const bg_action *actions = bg_schedule_actions(c->plan->schedule, device);
    uint32_t in_use = 0;

    r->spans = bgi_arena_allocate(arena, c->plan->micro_batches, sizeof *r->spans);
    if (r->spans == NULL)
        return bgi_error_memory(error, "slots", c->plan->micro_batches * sizeof *r->spans);
    for (uint32_t i = 0; i < count; i++) {
        if (actions[i].stage != edge->to_stage)
            continue;
        if (actions[i].kind == edge->from_kind && in_use++ == 0)
            r->spans[r->span_count++].first = i;
        else if (actions[i].kind == edge->last_kind && in_use > 0 && --in_use == 0)
            r->spans[r->span_count - 1].last = i;
    }
    return BG_OK;
}

static bg_status list_rings(bgi_compiler *c, bgi_arena *arena, uint32_t device, ring *rings, bgi_unit *units,
                            uint32_t *out_count, bg_error *error)
{
    uint32_t count = 0;

    for (uint32_t e = 0; e < c->edges->count; e++) {
        bgi_plan_edge *edge = &c->plan->edges[e];
        if (edge->to_device != device || !bgi_is_of_repeats(c, e))
            continue;
        edge->depth = bg_schedule_edge_depth(c->plan->schedule, e);
        rings[count] = (ring){.edge = e};
        units[count] = (bgi_unit){.size = edge->slot_bytes * edge->depth, .first = count};
        BGI_TRY(find_spans(c, arena, device, &rings[count], error));
        count++;
    }
    *out_count = count;
    return BG_OK;
}

bg_status bgi_lay_out_repeats(bgi_compiler *c, uint32_t device, size_t *offset, bg_error *error)
{
    bgi_arena arena = {0};
    ring *rings = bgi_arena_allocate(&arena, c->edges->count, sizeof *rings);
    bgi_unit *units = bgi_arena_allocate(&arena, c->edges->count, sizeof *units);
    bgi_unit **order = bgi_arena_allocate(&arena, c->edges->count, sizeof *order);
    uint32_t count = 0;
    size_t peak;
    bg_status status = BG_OK;

    if (rings == NULL || units == NULL || order == NULL)
        status = bgi_error_memory(error, "slots", c->edges->count * sizeof *rings);
    else
        status = list_rings(c, &arena, device, rings, units, &count, error);
    if (status == BG_OK && count > 0) {
        peak = bgi_pack(units, count, order, rings_meet, rings);
        for (uint32_t i = 0; i < count; i++)
            c->plan->edges[rings[i].edge].offset = *offset + units[i].offset;
        *offset += peak;
        c->plan->devices[device].class_bytes[BG_MEMORY_STASH] += peak;
    }
    bgi_arena_clear(&arena);
    return status;
}
