/*
 * transfers.c: places LOAD and STORE among a device's compute actions. It knows no strategy and reads only the order.
 *
 * A visit is a maximal run of actions of one stage. The users of a buffer of variables are divided into intervals.
 * Depending on the buffer's residency, an interval has the users of one visit, or those up to the last forward, or
 * those from the first backward on, or all users.
 *
 *     visits         | F0.0 F0.1 | F1.0 F1.1   B1.0 B1.1 U1 | B0.0 B0.1 U0 |
 *     weights of 1   LOAD          <------- used -------> STORE                 (preload: a visit earlier)
 *     weights of 0   LOAD <used>   LOAD                       <--- used --> STORE
 *
 * A LOAD right before its user has no work to overlap with. One visit earlier it overlaps with that visit's work. At
 * one place STOREs go before LOADs, which may need the same memory.
 */
#include "schedule/buffers.h"

#include "core/error.h"

#include <stdlib.h>

typedef struct placer {
    const bgi_schedule_layout *layout;
    const bgi_schedule_list *compute;
    bgi_buckets of_stage; /* places of actions by stage, because only actions of its own stages use a buffer */
    size_t *visits;       /* by action: the first action of its visit */
    size_t *made;         /* by micro-batch: 1 + place of the producer of the current buffer */
    size_t *read;         /* by micro-batch: 1 + place of the first reader */
    bgi_transfer_place *places;
    size_t count, capacity;
    bg_error *error;
} placer;

static bg_status add(placer *p, size_t at, bg_action_kind kind, uint32_t buffer, uint32_t micro_batch)
{
    if (!bgi_array_reserve((void **)&p->places, &p->capacity, p->count + 1, sizeof *p->places))
        return bgi_error_memory(p->error, "loads and stores", (p->count + 1) * sizeof *p->places);
    p->places[p->count] = (bgi_transfer_place){.at = at,
                                               .number = p->count,
                                               .action = {.kind = kind,
                                                          .stage = p->layout->problem->buffers[buffer].stage,
                                                          .micro_batch = micro_batch,
                                                          .index = buffer}};
    p->count++;
    return BG_OK;
}

/* Returns the place of a load for action `user`: before the preceding visit if the buffer is preloaded, otherwise right
 * before the action. */
static size_t load_place(const placer *p, const bg_schedule_buffer *buffer, size_t user)
{
    const size_t visit = p->visits[user];

    if (!buffer->preload)
        return user;
    return visit > 0 ? p->visits[visit - 1] : 0;
}

static size_t later(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- variables ---- */

/* An interval: the users from `first` to `last`. */
typedef struct interval {
    size_t first, last;
    size_t earliest; /* the earliest place of the interval's LOAD: after the preceding interval */
    bool is_changed, is_first;
} interval;

static bg_status place_interval(placer *p, uint32_t b, const interval *at, bool is_last)
{
    const bg_schedule_buffer *buffer = &p->layout->problem->buffers[b];

    if (!(buffer->starts_fresh && at->is_first))
        BGI_TRY(add(p, later(load_place(p, buffer, at->first), at->earliest), BG_ACTION_LOAD, b, 0));
    if (at->is_changed && !(buffer->starts_fresh && is_last))
        BGI_TRY(add(p, at->last + 1, BG_ACTION_STORE, b, 0));
    return BG_OK;
}

/* Whether the action keeps a buffer on the device because the buffer is being summed: the first level of the stage's
 * update, whether or not this level uses the buffer. */
static bool follows_sum(const placer *p, const bg_schedule_buffer *buffer, const bg_action *action)
{
    return p->layout->problem->keeps_for_sums && buffer->starts_fresh && action->kind == BG_ACTION_UPDATE &&
           action->stage == buffer->stage && action->index == 0;
}

/* Whether `user` begins a new interval. `turns`: `user` is the first user that is not a forward. */
static bool begins_interval(const placer *p, const bg_schedule_buffer *buffer, const interval *before, size_t user,
                            bool turns)
{
    if (p->visits[before->last] == p->visits[user] || follows_sum(p, buffer, &p->compute->actions[user]))
        return false;
    return buffer->residency == BG_RESIDENCY_VISIT || (buffer->residency == BG_RESIDENCY_FORWARD_BACKWARD && turns);
}

/* Whether a REDUCE or GATHER that writes the buffer will be placed beside the update's level: REDUCE before the first
 * level, if not after a backward, and GATHER after the last level. */
static bool has_writing_neighbor(const bg_schedule_problem *problem, const bg_schedule_buffer *buffer,
                                 const bg_action *action)
{
    if (action->kind != BG_ACTION_UPDATE)
        return false;
    return ((buffer->writes >> BG_ACTION_REDUCE & 1) != 0 && action->index == 0 && !problem->reduces_in_backward) ||
           ((buffer->writes >> BG_ACTION_GATHER & 1) != 0 && action->index + 1 == problem->update_level_count);
}

static bg_status place_variables(placer *p, uint32_t b)
{
    const bg_schedule_problem *problem = p->layout->problem;
    const bg_schedule_buffer *buffer = &problem->buffers[b];
    interval now = {0};
    bool has_interval = false, has_turned = false;

    BGI_FOR_BUCKET(p->of_stage, buffer->stage, at)
    {
        const size_t i = p->of_stage.items[at];
        const bgi_buffer_use how = bgi_buffer_used_by(problem, buffer, &p->compute->actions[i]);
        const bool turns = !has_turned && p->compute->actions[i].kind != BG_ACTION_FORWARD;
        if (how == BGI_USE_NONE && !follows_sum(p, buffer, &p->compute->actions[i]))
            continue;
        if (has_interval && begins_interval(p, buffer, &now, i, turns)) {
            BGI_TRY(place_interval(p, b, &now, false));
            now = (interval){.first = i, .earliest = now.last + 1};
        } else if (!has_interval) {
            now = (interval){.first = i, .is_first = true};
        }
        has_interval = true;
        has_turned = has_turned || turns;
        now.last = i;
        now.is_changed =
            now.is_changed || how == BGI_USE_WRITE || has_writing_neighbor(problem, buffer, &p->compute->actions[i]);
    }
    return has_interval ? place_interval(p, b, &now, true) : BG_OK;
}

/* ---- edges ---- */

static void find_ends(placer *p, const bg_schedule_edge *edge, uint32_t stage)
{
    BGI_FOR_BUCKET(p->of_stage, stage, at)
    {
        const size_t i = p->of_stage.items[at];
        const bg_action *action = &p->compute->actions[i];
        if (action->micro_batch >= p->layout->problem->micro_batch_count)
            continue; /* the verifier reports the missing producer */
        if (action->kind == edge->from_kind && action->stage == edge->from_stage)
            p->made[action->micro_batch] = i + 1;
        if (action->kind == edge->to_kind && action->stage == edge->to_stage)
            p->read[action->micro_batch] = i + 1;
    }
}

static bg_status place_edge(placer *p, uint32_t b)
{
    const bg_schedule_problem *problem = p->layout->problem;
    const bg_schedule_buffer *buffer = &problem->buffers[b];
    const bg_schedule_edge *edge = &problem->edges[buffer->edge];

    for (uint32_t m = 0; m < problem->micro_batch_count; m++)
        p->made[m] = p->read[m] = 0;
    find_ends(p, edge, edge->from_stage);
    if (edge->to_stage != edge->from_stage)
        find_ends(p, edge, edge->to_stage);
    for (uint32_t m = 0; m < problem->micro_batch_count; m++) {
        size_t at;
        if (p->made[m] == 0 || p->read[m] == 0)
            continue;
        at = m > 0 && buffer->preload && p->read[m - 1] != 0 ? p->read[m - 1] - 1
                                                             : load_place(p, buffer, p->read[m] - 1);
        if (!buffer->shares_store)
            BGI_TRY(add(p, p->made[m], BG_ACTION_STORE, b, m));
        BGI_TRY(add(p, later(at, p->made[m]), BG_ACTION_LOAD, b, m));
    }
    return BG_OK;
}

/* ---- all ---- */

static int compare_places(const void *a, const void *b)
{
    const bgi_transfer_place *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->action.kind != y->action.kind)
        return x->action.kind == BG_ACTION_STORE ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bg_status init_placer(placer *p, bgi_arena *arena)
{
    const size_t micro_batches = p->layout->problem->micro_batch_count;

    p->visits = bgi_arena_allocate(arena, p->compute->count, sizeof *p->visits);
    p->made = bgi_arena_allocate(arena, micro_batches, sizeof *p->made);
    p->read = bgi_arena_allocate(arena, micro_batches, sizeof *p->read);
    if (p->visits == NULL || p->made == NULL || p->read == NULL ||
        !bgi_find_stage_places(p->compute->actions, p->compute->count, p->layout->problem->stage_count, arena,
                               &p->of_stage))
        return bgi_error_memory(p->error, "loads and stores", p->compute->count * sizeof *p->visits);
    for (size_t i = 0; i < p->compute->count; i++)
        p->visits[i] = i > 0 && p->compute->actions[i].stage == p->compute->actions[i - 1].stage ? p->visits[i - 1] : i;
    return BG_OK;
}

bg_status bgi_schedule_place_transfers(const bgi_schedule_layout *layout, uint32_t device,
                                       const bgi_schedule_list *compute, bgi_transfer_place **out, size_t *out_count,
                                       bg_error *error)
{
    placer p = {.layout = layout, .compute = compute, .error = error};
    bgi_arena arena = {0};
    bg_status status = BG_OK;

    if (layout->buffer_begin[device] < layout->buffer_begin[device + 1])
        status = init_placer(&p, &arena);
    for (uint32_t i = layout->buffer_begin[device]; status == BG_OK && i < layout->buffer_begin[device + 1]; i++)
        status = layout->problem->buffers[layout->buffers[i]].per_micro_batch ? place_edge(&p, layout->buffers[i])
                                                                              : place_variables(&p, layout->buffers[i]);
    bgi_arena_clear(&arena);
    if (status != BG_OK) {
        free(p.places);
        return status;
    }
    if (p.count > 0)
        qsort(p.places, p.count, sizeof *p.places, compare_places);
    *out = p.places;
    *out_count = p.count;
    return BG_OK;
}
