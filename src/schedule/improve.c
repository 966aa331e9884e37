/*
 * improve.c: improves a good order by small changes. The critical path ends with the last action of the step; each of
 * its actions began when the one before it ended. It consists of blocks: actions that follow each other on one device
 * without a pause. Exchanges inside a block do not help, but those at its ends may (Nowicki and Smutnicki, "A fast
 * taboo search algorithm for the job shop problem", 1996). Three changes are tried for each block:
 *
 *     exchange its first two, or its last two, actions
 *     put a W of the block right behind the block, or at the end of the list
 *     fill the pause before it with a later action of the device
 *
 * Only changes that make the order end earlier are kept, so the search terminates.
 */
#include "schedule/automatic.h"

#include "core/error.h"

#include <math.h>
#include <string.h>

enum { MOST_BLOCKS = 4096 };

typedef struct block {
    uint32_t device;
    uint32_t first, last; /* places in the order */
} block;

typedef struct improver {
    bgi_search *search;
    uint32_t *order;
    uint32_t *places; /* by instance: place in the order */
    block *blocks;
    uint32_t block_count;
    double now_ns; /* the end of the order, by bgi_search_time */
} improver;

/* Returns the action on another device whose result arrives last among an action's inputs, or UINT32_MAX if all inputs
 * are from this device. Sets *out_there to the arrival time.
 */
static uint32_t find_cause(const improver *improve, uint32_t instance, double *out_there)
{
    const bgi_search *search = improve->search;
    const bgi_schedule_layout *layout = &search->layout;
    const uint32_t row = search->rows[instance], micro_batch = bgi_search_micro_batch(search, instance);
    uint32_t cause = UINT32_MAX;

    *out_there = 0.0;
    for (uint32_t i = layout->to.begin[row]; i < layout->to.begin[row + 1]; i++) {
        const uint32_t edge = layout->to.edges[i];
        const uint32_t from = layout->rows[layout->edges[edge].from].first + micro_batch;
        const double there = search->finish[from] + search->delays[edge];
        if (layout->edges[edge].crosses && (cause == UINT32_MAX || there > *out_there)) {
            cause = from;
            *out_there = there;
        }
    }
    return cause;
}

static uint32_t find_device(const improver *improve, uint32_t instance)
{
    return improve->search->layout.rows[improve->search->rows[instance]].device;
}

/* Finds the blocks of the critical path, beginning at its end. */
static void find_blocks(improver *improve)
{
    const bgi_search *search = improve->search;
    uint32_t at = UINT32_MAX;

    improve->block_count = 0;
    for (uint32_t device = 0; device < search->problem->device_count; device++) {
        const uint32_t end = search->begins[device + 1];
        for (uint32_t i = search->begins[device]; i < end; i++)
            improve->places[improve->order[i]] = i;
        if (end > search->begins[device] &&
            (at == UINT32_MAX || search->finish[improve->order[end - 1]] > search->finish[improve->order[at]]))
            at = end - 1;
    }
    while (at != UINT32_MAX && improve->block_count < MOST_BLOCKS) {
        const uint32_t device = find_device(improve, improve->order[at]);
        const uint32_t last = at;
        uint32_t cause;
        double there;
        for (;; at--) {
            cause = find_cause(improve, improve->order[at], &there);
            if (at == search->begins[device] || (cause != UINT32_MAX && there > search->finish[improve->order[at - 1]]))
                break;
        }
        improve->blocks[improve->block_count++] = (block){.device = device, .first = at, .last = last};
        at = cause != UINT32_MAX && there > 0.0 ? improve->places[cause] : UINT32_MAX;
    }
}

/* Whether the rules that are not edges of the layout allow the exchange of two actions of a device. */
static bool may_swap(const bgi_search *search, uint32_t a, uint32_t b)
{
    const bg_action_kind kind = bgi_search_kind(search, a), other = bgi_search_kind(search, b);
    const uint32_t stage = bgi_search_stage(search, a), other_stage = bgi_search_stage(search, b);

    if (kind == BG_ACTION_UPDATE || other == BG_ACTION_UPDATE)
        return false;
    if ((search->is_merged[stage] && kind != BG_ACTION_WEIGHTS) ||
        (search->is_merged[other_stage] && other != BG_ACTION_WEIGHTS))
        return false;
    return stage != other_stage ||
           (kind != other && bgi_search_micro_batch(search, a) != bgi_search_micro_batch(search, b));
}

/* Whether an action at `place` would come between the actions of a merged loss, which must follow each other. */
static bool splits_loss(const bgi_search *search, const uint32_t *order, uint32_t place, uint32_t begin)
{
    return place > begin && bgi_search_is_bound(search, search->rows[order[place - 1]]);
}

static void move(uint32_t *order, uint32_t from, uint32_t to)
{
    const uint32_t moved = order[from];

    if (from < to)
        memmove(order + from, order + from + 1, (to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = moved;
}

/* Moves an action if the rules allow it, and moves it back when the move does not help. */
static bg_status try_move(improver *improve, uint32_t device, uint32_t from, uint32_t to, bool *out_helps,
                          bg_error *error)
{
    bgi_search *search = improve->search;
    uint32_t *order = improve->order;
    const int64_t step = from < to ? 1 : -1;

    *out_helps = false;
    for (int64_t i = (int64_t)from; i != (int64_t)to; i += step)
        if (!may_swap(search, order[from], order[i + step]))
            return BG_OK;
    move(order, from, to);
    if (!splits_loss(search, order, to, search->begins[device]) &&
        bgi_search_time(search, order) < improve->now_ns * (1.0 - 1e-12))
        BGI_TRY(bgi_search_consider(search, order, out_helps, error));
    if (!*out_helps)
        move(order, to, from);
    return BG_OK;
}

static bg_status try_weights(improver *improve, const block *b, bool *out_helps, bg_error *error)
{
    const bgi_search *search = improve->search;
    const uint32_t end = search->ends[b->device];

    for (uint32_t at = b->first; at <= b->last && at < end && !*out_helps && search->work_left > 0; at++) {
        if (bgi_search_kind(search, improve->order[at]) != BG_ACTION_WEIGHTS)
            continue;
        if (b->last < end && at < b->last)
            BGI_TRY(try_move(improve, b->device, at, b->last, out_helps, error));
        for (uint32_t to = b->last + 1; to < end && !*out_helps && search->work_left > 0; to += 1 + (to - b->last))
            BGI_TRY(try_move(improve, b->device, at, to, out_helps, error));
    }
    return BG_OK;
}

/* Tries to move to the block's beginning each later action that is the next of its row, up to eight of them. */
static bg_status try_filling(improver *improve, const block *b, bool *out_helps, bg_error *error)
{
    const bgi_search *search = improve->search;
    const uint32_t end = search->ends[b->device];
    uint32_t tried = 0;

    for (uint32_t at = b->first + 1; at < end && tried < 8 && !*out_helps && search->work_left > 0; at++) {
        const uint32_t instance = improve->order[at], micro_batch = bgi_search_micro_batch(search, instance);
        if (micro_batch > 0 && improve->places[instance - 1] >= b->first)
            continue;
        tried++;
        BGI_TRY(try_move(improve, b->device, at, b->first, out_helps, error));
    }
    return BG_OK;
}

static bg_status try_block(improver *improve, const block *b, bool *out_helps, bg_error *error)
{
    if (b->first < b->last) {
        BGI_TRY(try_move(improve, b->device, b->last - 1, b->last, out_helps, error));
        if (!*out_helps)
            BGI_TRY(try_move(improve, b->device, b->first, b->first + 1, out_helps, error));
    }
    if (!*out_helps)
        BGI_TRY(try_weights(improve, b, out_helps, error));
    if (!*out_helps)
        BGI_TRY(try_filling(improve, b, out_helps, error));
    return BG_OK;
}

bg_status bgi_search_improve(bgi_search *search, bg_error *error)
{
    improver improve = {.search = search};
    bool helps = isfinite(search->best_ns);

    improve.order = bgi_arena_allocate(&search->arena, search->layout.instance_count, sizeof *improve.order);
    improve.places = bgi_arena_allocate(&search->arena, search->layout.instance_count, sizeof *improve.places);
    improve.blocks = bgi_arena_allocate(&search->arena, MOST_BLOCKS, sizeof *improve.blocks);
    if (improve.order == NULL || improve.places == NULL || improve.blocks == NULL)
        return bgi_error_memory(error, "searching a schedule", MOST_BLOCKS * sizeof *improve.blocks);
    while (helps && !bgi_search_is_done(search)) {
        helps = false;
        memcpy(improve.order, search->best, search->action_count * sizeof *improve.order);
        improve.now_ns = bgi_search_time(search, improve.order);
        find_blocks(&improve);
        for (uint32_t i = 0; i < improve.block_count && !helps && !bgi_search_is_done(search); i++)
            BGI_TRY(try_block(&improve, &improve.blocks[i], &helps, error));
    }
    return BG_OK;
}
