/*
 * reuse.c: places transients of a pass in free parts of the slots of its stage's stash.
 *
 *     slot of a micro-batch   | a | b | c | d |    F makes a, b, c, d in this order, B reads d, c, b, a
 *     F, before it makes c            | t |        transients of F are where values are not made yet
 *     B, after it has read c          | t |        transients of B are where values are no longer read
 *
 * A slot belongs to its micro-batch from the pass that writes it to the last one that reads it, so this needs no extra
 * memory for any depth of the stash. Only during the first pass and the last one are some of its bytes known to be
 * free.
 *
 * A device's largest stash of one slot is placed right before the transients, so that its free bytes and the
 * transients' bytes form one range, in which larger tensors fit.
 *
 *     needs  slots with places; lifetimes of the pass's values
 *     does   gives transients places
 *     keeps  all slots and their values
 */
#include "plan/compile.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/reuse.h"

/* The largest number of edges that are tried, because a stage may have many. */
enum { MOST_EDGES = 8 };

/* A value that occupies a part of a slot in which the pass may place transients. */
typedef struct kept_value {
    uint32_t edge;
    size_t offset, size; /* the value's place in the slot */
    bgi_span span;       /* the ops during which other values must not use these bytes */
} kept_value;

typedef struct search {
    bgi_compiler *compiler;
    uint32_t index; /* the segment */
    const bgi_segment *segment;
    const bgi_life_times *times;
    kept_value *kept;
    size_t count, capacity;
    bool is_out_of_memory;
} search;

/* ---- the values of slots ---- */

/* Whether the edge's slots are in the device's arena and serve one micro-batch at a time. */
static bool has_own_slots(const bgi_compiler *c, uint32_t e)
{
    const bgi_plan_edge *edge = &c->plan->edges[e];

    return edge->is_stash && !edge->per_step && edge->from_device == edge->to_device && !c->edges->facts[e].is_remote &&
           !bgi_is_of_repeats(c, e);
}

static bool is_writer(const search *s, const bg_schedule_edge *edge)
{
    return edge->from_kind == bgi_action_of_segment(s->segment->kind) && edge->from_stage == s->segment->stage;
}

static bool is_last_reader(const search *s, const bg_schedule_edge *edge)
{
    return edge->last_kind == bgi_action_of_segment(s->segment->kind) && edge->to_stage == s->segment->stage;
}

/* Returns the range of the pass's ops during which the value may occupy its bytes. */
static bgi_span find_span(const search *s, uint32_t root, uint32_t edge, size_t offset, bool writes)
{
    const bgi_compiler *c = s->compiler;
    const bgi_operand *storage = &c->placement->storage[root];
    const bool is_made_here = c->graph->values[root].kind == BGI_VALUE_RESULT &&
                              c->partition->op_segments[c->graph->values[root].op] == s->index;
    bgi_span span = {0, s->segment->op_count};

    if (bgi_is_plan_output(c, root) || s->times->used_in[root] != s->index + 1)
        return span; /* the host reads the value, or a copy after the last op writes it */
    if (writes && is_made_here && storage->edge == edge && storage->offset == c->plan->edges[edge].offset + offset)
        span.first = s->times->made_at[root];
    else if (!writes && !is_made_here)
        span.last = s->times->last_use[root];
    return span;
}

static void keep(search *s, uint32_t crossing, uint32_t edge, size_t offset, bool writes)
{
    const bgi_compiler *c = s->compiler;
    const uint32_t root = c->partition->crossings[crossing].value.id;
    const bgi_value *value = &c->graph->values[root];

    if (edge == BGI_NO_EDGE || !has_own_slots(c, edge) ||
        !(writes ? is_writer(s, &c->edges->list[edge]) : is_last_reader(s, &c->edges->list[edge])))
        return;
    if (!bgi_array_reserve((void **)&s->kept, &s->capacity, s->count + 1, sizeof *s->kept)) {
        s->is_out_of_memory = true;
        return;
    }
    s->kept[s->count++] = (kept_value){.edge = edge,
                                       .offset = offset,
                                       .size = bgi_slot_part_bytes(c, value),
                                       .span = find_span(s, root, edge, offset, writes)};
}

static void list_kept(search *s)
{
    const bgi_compiler *c = s->compiler;

    BGI_FOR_BUCKET(c->partition->crossings_from, s->index, at)
    {
        const uint32_t i = c->partition->crossings_from.items[at];
        keep(s, i, c->edges->routes[i].edge, c->edges->routes[i].offset, true);
    }
    BGI_FOR_BUCKET(c->partition->crossings_to, s->segment->stage, at)
    {
        const uint32_t i = c->partition->crossings_to.items[at];
        keep(s, i, c->edges->routes[i].edge, c->edges->routes[i].offset, false);
        keep(s, i, c->edges->routes[i].stash_edge, c->edges->routes[i].stash_offset, true);
        keep(s, i, c->edges->routes[i].stash_edge, c->edges->routes[i].stash_offset, false);
    }
}

static int compare_kept(const void *a, const void *b)
{
    const kept_value *x = a, *y = b;

    if (x->edge != y->edge)
        return x->edge < y->edge ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* ---- transients ---- */

/* Places units that have no place yet in slots of one edge, whose values are `kept`. Scratch memory has one address for
 * all micro-batches, so it can only be in an edge with one slot. */
static bool fill_slot(search *s, const kept_value *kept, uint32_t kept_count, const bgi_unit *units,
                      uint32_t value_units, uint32_t count, size_t least_bytes, bgi_operand *places)
{
    const bgi_plan_edge *edge = &s->compiler->plan->edges[kept->edge];
    bgi_unit *all = malloc(((size_t)kept_count + count) * sizeof *all);
    uint32_t *numbers = malloc(((size_t)count + 1) * sizeof *numbers), tried = 0;
    bool good = all != NULL && numbers != NULL;

    for (uint32_t i = 0; good && i < kept_count; i++)
        all[i] = (bgi_unit){.size = kept[i].size, .offset = kept[i].offset, .spans = &kept[i].span, .span_count = 1};
    for (uint32_t i = 0; good && i < count; i++)
        if (places[i].edge == BGI_NO_EDGE && units[i].size >= least_bytes &&
            units[i].spans[0].last < s->segment->op_count && (i < value_units || edge->depth == 1)) {
            all[kept_count + tried] = units[i];
            numbers[tried++] = i;
        }
    good = good && bgi_pack_around(all, kept_count, kept_count + tried, edge->slot_bytes);
    for (uint32_t i = 0; good && i < tried; i++)
        if (all[kept_count + i].offset != BGI_UNIT_HAS_NO_PLACE)
            places[numbers[i]] = (bgi_operand){.edge = kept->edge, .offset = edge->offset + all[kept_count + i].offset};
    free(all);
    free(numbers);
    return good;
}

/* Places the remaining units behind `base` or in free parts of the slot before it, whose values are `kept`. */
static bool fill_rest(search *s, const kept_value *kept, uint32_t kept_count, const bgi_unit *units, uint32_t count,
                      size_t base, bgi_operand *places, size_t *out_peak)
{
    const size_t slot_bytes = kept_count > 0 ? s->compiler->plan->edges[kept->edge].slot_bytes : 0;
    const bgi_span after = {s->segment->op_count,
                            s->segment->op_count}; /* the time at which the host reads; it must not read in the slot */
    const uint32_t fixed = kept_count + 1;
    bgi_unit *all = malloc(((size_t)fixed + count) * sizeof *all);
    uint32_t *numbers = malloc(((size_t)count + 1) * sizeof *numbers), tried = 0;
    bool good = all != NULL && numbers != NULL;
    size_t peak = slot_bytes;

    for (uint32_t i = 0; good && i < kept_count; i++)
        all[i] = (bgi_unit){.size = kept[i].size, .offset = kept[i].offset, .spans = &kept[i].span, .span_count = 1};
    if (good)
        all[kept_count] = (bgi_unit){.size = slot_bytes, .spans = &after, .span_count = 1};
    for (uint32_t i = 0; good && i < count; i++)
        if (places[i].edge == BGI_NO_EDGE) {
            all[fixed + tried] = units[i];
            numbers[tried++] = i;
        }
    good = good && bgi_pack_around(all, fixed, fixed + tried, SIZE_MAX);
    for (uint32_t i = 0; good && i < tried; i++) {
        const bgi_unit *unit = &all[fixed + i];
        places[numbers[i]].offset = base - slot_bytes + unit->offset;
        peak = unit->offset + unit->size > peak ? unit->offset + unit->size : peak;
    }
    *out_peak = peak - slot_bytes;
    free(all);
    free(numbers);
    return good;
}

bool bgi_reuse_slots(bgi_compiler *c, uint32_t segment, const bgi_life_times *times, const bgi_unit *units,
                     uint32_t value_units, uint32_t count, size_t least_bytes, size_t base, bgi_operand *places,
                     size_t *out_peak)
{
    search s = {.compiler = c, .index = segment, .segment = &c->partition->segments[segment], .times = times};
    const uint32_t tail = c->placement->tail_edges[bgi_stage_device(c, s.segment->stage)];
    kept_value *tail_kept = NULL;
    uint32_t edges = 0, tail_count = 0;
    bool good;

    for (uint32_t i = 0; i < count; i++)
        places[i] = (bgi_operand){.edge = BGI_NO_EDGE};
    list_kept(&s);
    good = !s.is_out_of_memory;
    if (good && s.count > 0)
        qsort(s.kept, s.count, sizeof *s.kept, compare_kept);
    for (size_t i = 0, end; good && i < s.count && edges < MOST_EDGES; i = end, edges++) {
        for (end = i + 1; end < s.count && s.kept[end].edge == s.kept[i].edge;)
            end++;
        if (s.kept[i].edge == tail) {
            tail_kept = &s.kept[i];
            tail_count = (uint32_t)(end - i);
        } else {
            good = fill_slot(&s, &s.kept[i], (uint32_t)(end - i), units, value_units, count, least_bytes, places);
        }
    }
    good = good && fill_rest(&s, tail_kept, tail_count, units, count, base, places, out_peak);
    free(s.kept);
    return good;
}

/* ---- the stash before the transients ---- */

/* A value in the slot, and its last reader in the last pass that uses the slot. */
typedef struct member {
    size_t *offset;
    size_t size;
    bool is_input; /* an input, which is in the slot when the first pass begins */
    uint32_t last_use;
} member;

/* Orders inputs first, then values by descending last use; equal ones keep their order. */
static int compare_members(const void *a, const void *b)
{
    const member *x = a, *y = b;

    if (x->is_input != y->is_input)
        return x->is_input ? -1 : 1;
    if (x->last_use != y->last_use)
        return x->last_use > y->last_use ? -1 : 1;
    return *x->offset < *y->offset ? -1 : *x->offset > *y->offset;
}

/* Orders the values of a slot so that those which the last pass frees first are at the end. `last_use` has 1 + a
 * position, or 0, by value. */
static bool order_slot(bgi_compiler *c, uint32_t edge, const uint32_t *last_use)
{
    const bgi_buckets *arriving = &c->partition->crossings_to;
    const uint32_t stage = c->edges->list[edge].to_stage;
    const uint32_t most = arriving->begins[stage + 1] - arriving->begins[stage];
    member *members = malloc(((size_t)most + 1) * sizeof *members);
    size_t count = 0, offset = 0;

    if (members == NULL)
        return false;
    BGI_FOR_BUCKET(*arriving, stage, at)
    {
        bgi_route *route = &c->edges->routes[arriving->items[at]];
        const uint32_t root = c->partition->crossings[arriving->items[at]].value.id;
        if (route->edge == edge || route->stash_edge == edge)
            members[count++] = (member){.offset = route->edge == edge ? &route->offset : &route->stash_offset,
                                        .size = bgi_slot_part_bytes(c, &c->graph->values[root]),
                                        .is_input = c->graph->values[root].kind != BGI_VALUE_RESULT,
                                        .last_use = last_use[root]};
    }
    if (count > 0)
        qsort(members, count, sizeof *members, compare_members);
    for (size_t i = 0; i < count; i++) {
        *members[i].offset = offset;
        offset += members[i].size;
    }
    free(members);
    return true;
}

bool bgi_choose_tail_edges(bgi_compiler *c)
{
    uint32_t *tails = c->placement->tail_edges;
    uint32_t *last_use = bgi_arena_allocate(&c->scratch, c->graph->value_count, sizeof *last_use);

    for (uint32_t d = 0; d < c->stages->device_count; d++)
        tails[d] = BGI_NO_EDGE;
    for (uint32_t e = 0; e < c->edges->count; e++) {
        uint32_t *tail = &tails[c->plan->edges[e].to_device];
        if (has_own_slots(c, e) && bg_schedule_edge_depth(c->plan->schedule, e) == 1 &&
            (*tail == BGI_NO_EDGE || c->plan->edges[e].slot_bytes > c->plan->edges[*tail].slot_bytes))
            *tail = e;
    }
    for (uint32_t i = 0; last_use != NULL && i < c->partition->segment_count; i++) {
        const search s = {.segment = &c->partition->segments[i]};
        const uint32_t tail = tails[bgi_stage_device(c, s.segment->stage)];
        if (tail == BGI_NO_EDGE || !is_last_reader(&s, &c->edges->list[tail]))
            continue;
        for (uint32_t p = 0; p < s.segment->op_count; p++) {
            const bgi_op *op = &c->graph->ops[s.segment->ops[p]];
            for (uint32_t k = 0; k < op->input_count; k++)
                last_use[c->partition->roots[op->inputs[k].id].id] = p + 1;
        }
        if (!order_slot(c, tail, last_use))
            return false;
    }
    return last_use != NULL;
}
