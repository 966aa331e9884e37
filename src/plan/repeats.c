/*
 * repeats.c: places the results of R, which live until their B reads them (recompute order THEN).
 *
 *     device's list   F0 F1 F2 .. R2 B2 R1 B1 R0 B0        slots of R2 -> B2   [ ]
 *                                                          slots of R1 -> B1       [ ]       one place for all three
 *                                                          slots of R0 -> B0           [ ]
 *
 * The slots of these results are in use from an R to the last reader of its results. Slots of a device's stages share
 * memory when no two of them are in use at the same time in the device's order. Values that a forward pass keeps are in
 * use until the backward pass, in separate slots (layout.c).
 */
#include "plan/compile.h"

#include "core/error.h"
#include "plan/pack.h"
#include "schedule/buffers.h"

bool bgi_is_of_repeats(const bgi_compiler *c, uint32_t edge)
{
    return c->edges->list[edge].from_kind == BG_ACTION_RECOMPUTE && c->plan->edges[edge].is_stash &&
           !c->edges->facts[edge].is_remote && c->plan->edges[edge].from_device == c->plan->edges[edge].to_device;
}

/* Finds the spans of an edge's slots. Each span begins with the R that writes the first slot in use, and ends with the
 * reader that frees the last one. */
static bg_status find_spans(const bgi_compiler *c, const bgi_buckets *of_stage, bgi_arena *arena, uint32_t device,
                            uint32_t e, bgi_unit *unit, bg_error *error)
{
    const bg_schedule_edge *edge = &c->edges->list[e];
    const bg_action *actions = bg_schedule_actions(c->plan->schedule, device);
    bgi_span *spans = bgi_arena_allocate(arena, c->plan->micro_batches, sizeof *spans);
    uint32_t in_use = 0;

    if (spans == NULL)
        return bgi_error_memory(error, "slots", c->plan->micro_batches * sizeof *spans);
    BGI_FOR_BUCKET(*of_stage, edge->to_stage, at)
    {
        const uint32_t i = of_stage->items[at];
        if (actions[i].kind == edge->from_kind && in_use++ == 0)
            spans[unit->span_count++].first = i;
        else if (actions[i].kind == edge->last_kind && in_use > 0 && --in_use == 0)
            spans[unit->span_count - 1].last = i;
    }
    unit->spans = spans;
    return BG_OK;
}

static bg_status pack_rings(bgi_compiler *c, bgi_arena *arena, uint32_t device, const uint32_t *edges, uint32_t count,
                            size_t *offset, bg_error *error)
{
    bgi_unit *units = bgi_arena_allocate(arena, count, sizeof *units);
    bgi_buckets of_stage;
    size_t peak;

    if (units == NULL || !bgi_find_stage_places(bg_schedule_actions(c->plan->schedule, device),
                                                bg_schedule_action_count(c->plan->schedule, device),
                                                c->stages->stage_count, arena, &of_stage))
        return bgi_error_memory(error, "slots", count * sizeof *units);
    for (uint32_t i = 0; i < count; i++) {
        bgi_plan_edge *edge = &c->plan->edges[edges[i]];
        edge->depth = bg_schedule_edge_depth(c->plan->schedule, edges[i]);
        units[i].size = edge->slot_bytes * edge->depth;
        BGI_TRY(find_spans(c, &of_stage, arena, device, edges[i], &units[i], error));
    }
    if (!bgi_pack(units, count, &peak))
        return bgi_error_memory(error, "slots", count * sizeof *units);
    for (uint32_t i = 0; i < count; i++)
        c->plan->edges[edges[i]].offset = *offset + units[i].offset;
    *offset += peak;
    c->plan->devices[device].class_bytes[BG_MEMORY_STASH] += peak;
    return BG_OK;
}

bg_status bgi_lay_out_repeats(bgi_compiler *c, size_t *offsets, bg_error *error)
{
    uint32_t *devices = bgi_arena_allocate(&c->scratch, c->edges->count, sizeof *devices);
    bgi_buckets of_device; /* edges */
    bg_status status = BG_OK;

    for (uint32_t e = 0; devices != NULL && e < c->edges->count; e++)
        devices[e] = bgi_is_of_repeats(c, e) ? c->plan->edges[e].to_device : BGI_NO_BUCKET;
    if (devices == NULL ||
        !bgi_buckets_fill(&of_device, &c->scratch, c->stages->device_count, c->edges->count, devices))
        return bgi_error_memory(error, "slots", c->edges->count * sizeof *devices);
    for (uint32_t d = 0; status == BG_OK && d < c->stages->device_count; d++) {
        const uint32_t count = of_device.begins[d + 1] - of_device.begins[d];
        bgi_arena arena = {0};
        if (count > 0)
            status = pack_rings(c, &arena, d, &of_device.items[of_device.begins[d]], count, &offsets[d], error);
        bgi_arena_clear(&arena);
    }
    return status;
}
