/*
 * buffers.c: proves that remote buffers are on the device when they are used. It does not require the places that
 * transfers.c would choose for LOAD and STORE. Any place is correct that obeys these rules in each device's list:
 *
 *     variables   out --LOAD--> clean --a writer--> changed --STORE--> out
 *                 users need clean or changed; a LOAD of a changed buffer would lose changes; no step ends with changes
 *                 (buffers that start fresh: the first writer needs no LOAD, and the last changes may be lost)
 *     edges       producer(m) < STORE(m) < LOAD(m) < first reader(m), each once, in ascending order of m; STORE(m) <
 *                 producer(m + slots), which would otherwise wait for this STORE forever
 *
 * An edge that shares a store has only LOADs, each after the STORE whose data it reads.
 *
 * A LOAD of an unchanged buffer on the device is allowed, and loads it again, because the device may have reused its
 * memory.
 */
#include "schedule/buffers.h"

#include "core/error.h"
#include "schedule/verify.h"

#include <inttypes.h>
#include <stdlib.h>

typedef enum buffer_state { IS_OUT = 0, IS_CLEAN, IS_CHANGED } buffer_state;

typedef struct buffer_walk {
    const bgi_schedule_layout *layout;
    const uint32_t *positions;
    buffer_state *states; /* by buffer */
    bool *was_here;       /* by buffer: whether an action of this step has used or loaded it */
    uint32_t *stored;     /* by buffer of an edge: the number of micro-batches stored so far */
    uint32_t **loads;     /* by buffer of an edge, by micro-batch: 1 + place of the LOAD in the list */
    uint32_t *loaded;     /* by buffer of an edge: the number of micro-batches loaded so far */
    bg_error *error;
} buffer_walk;

static bool is_between(bg_action_kind kind, bg_action_kind first, bg_action_kind last)
{
    return kind >= first && kind <= last;
}

bgi_buffer_use bgi_buffer_used_by(const bg_schedule_problem *problem, const bg_schedule_buffer *buffer,
                                  const bg_action *action)
{
    if (buffer->per_micro_batch) {
        const bg_schedule_edge *edge = &problem->edges[buffer->edge];
        if (action->stage == edge->from_stage && action->kind == edge->from_kind)
            return buffer->shares_store ? BGI_USE_NONE : BGI_USE_WRITE;
        return action->stage == edge->to_stage && is_between(action->kind, edge->to_kind, edge->last_kind)
                   ? BGI_USE_READ
                   : BGI_USE_NONE;
    }
    if (action->stage != buffer->stage || action->kind > BG_ACTION_REDUCE ||
        (action->kind == BG_ACTION_UPDATE && buffer->update_levels != 0 && action->index < 32 &&
         (buffer->update_levels >> action->index & 1) == 0))
        return BGI_USE_NONE;
    if ((buffer->writes >> action->kind & 1) != 0)
        return BGI_USE_WRITE;
    return (buffer->reads >> action->kind & 1) != 0 ? BGI_USE_READ : BGI_USE_NONE;
}

bool bgi_find_stage_places(const bg_action *actions, size_t count, uint32_t stage_count, bgi_arena *arena,
                           bgi_buckets *out)
{
    uint32_t *stages = malloc((count + 1) * sizeof *stages);
    bool good = stages != NULL;

    for (size_t i = 0; good && i < count; i++)
        stages[i] = actions[i].stage;
    good = good && bgi_buckets_fill(out, arena, stage_count, count, stages);
    free(stages);
    return good;
}

static bg_status reject(const buffer_walk *walk, uint32_t device, uint32_t position, const bg_action *action,
                        const char *why)
{
    char text[BGI_ACTION_TEXT_BYTES];

    return bg_error_set(walk->error, BG_ERROR_INVALID, "device %" PRIu32 ", action %" PRIu32 " (%s): %s", device,
                        position, bgi_action_text(action, text), why);
}

static bg_status move_variables(buffer_walk *walk, uint32_t device, uint32_t position, const bg_action *action)
{
    buffer_state *state = &walk->states[action->index];

    if (action->micro_batch != 0)
        return reject(walk, device, position, action,
                      "a buffer of variables has no micro-batches; the micro-batch must be 0");
    if (action->kind == BG_ACTION_LOAD) {
        if (*state == IS_CHANGED)
            return reject(walk, device, position, action, "the buffer was changed on the device; STORE it first");
        *state = IS_CLEAN;
    } else {
        if (*state != IS_CHANGED)
            return reject(walk, device, position, action, "nothing changed the buffer since it was loaded or stored");
        *state = IS_OUT;
    }
    walk->was_here[action->index] = true;
    return BG_OK;
}

static bg_status move_edge(buffer_walk *walk, uint32_t device, uint32_t position, const bg_action *action)
{
    const uint32_t buffer = action->index, micro_batch = action->micro_batch;
    const bg_schedule_problem *problem = walk->layout->problem;
    const bgi_schedule_edge_rows *edge = &walk->layout->edges[problem->buffers[buffer].edge];
    const bool is_load = action->kind == BG_ACTION_LOAD, shares = problem->buffers[buffer].shares_store;
    const uint32_t stored = walk->stored[shares ? problem->buffers[buffer].store_of : buffer];
    uint32_t *next = is_load ? &walk->loaded[buffer] : &walk->stored[buffer];

    if (!is_load && shares)
        return reject(walk, device, position, action,
                      "the buffer loads values that another one stores, so it cannot have a STORE");

    if (micro_batch != *next || micro_batch >= problem->micro_batch_count)
        return reject(
            walk, device, position, action,
            "this micro-batch is out of order; the buffer's micro-batches must be moved once each, in ascending order");
    if (!is_load && walk->positions[walk->layout->rows[edge->from].first + micro_batch] > position)
        return reject(walk, device, position, action, "the values must be computed before this STORE");
    if (is_load && stored <= micro_batch)
        return reject(walk, device, position, action, "the values must be stored before this LOAD");
    if (is_load && walk->positions[walk->layout->rows[edge->to].first + micro_batch] <= position)
        return reject(walk, device, position, action, "this LOAD must come before the first reader");
    if (is_load)
        walk->loads[buffer][micro_batch] = position + 1;
    (*next)++;
    return BG_OK;
}

static bg_status move(buffer_walk *walk, uint32_t device, uint32_t position, const bg_action *action)
{
    const bg_schedule_problem *problem = walk->layout->problem;

    if (action->index >= problem->buffer_count || problem->buffers[action->index].stage != action->stage ||
        problem->stage_devices[action->stage] != device)
        return reject(walk, device, position, action, "there is no such remote buffer on the device");
    return problem->buffers[action->index].per_micro_batch ? move_edge(walk, device, position, action)
                                                           : move_variables(walk, device, position, action);
}

/* Checks that the micro-batch whose slot a producer writes has been stored. */
static bg_status use_slot(buffer_walk *walk, uint32_t device, uint32_t position, const bg_action *action, uint32_t b)
{
    const uint32_t slots = walk->layout->problem->buffers[b].slots;
    char text[BGI_ACTION_TEXT_BYTES];

    if (action->micro_batch < slots || walk->stored[b] > action->micro_batch - slots)
        return BG_OK;
    return bg_error_set(walk->error, BG_ERROR_INVALID,
                        "device %" PRIu32 ", action %" PRIu32 " (%s): its slot of buffer %" PRIu32
                        " holds micro-batch %" PRIu32 ", which must be stored first",
                        device, position, bgi_action_text(action, text), b, action->micro_batch - slots);
}

static bg_status use(buffer_walk *walk, uint32_t device, uint32_t position, const bg_action *action)
{
    const bgi_schedule_layout *layout = walk->layout;

    for (uint32_t i = layout->stage_buffer_begin[action->stage]; i < layout->stage_buffer_begin[action->stage + 1];
         i++) {
        const uint32_t b = layout->stage_buffers[i];
        const bg_schedule_buffer *buffer = &layout->problem->buffers[b];
        const bgi_buffer_use how = bgi_buffer_used_by(layout->problem, buffer, action);
        char text[BGI_ACTION_TEXT_BYTES];
        if (buffer->per_micro_batch && how == BGI_USE_WRITE)
            BGI_TRY(use_slot(walk, device, position, action, b));
        if (how == BGI_USE_NONE || buffer->per_micro_batch)
            continue;
        if (walk->states[b] == IS_OUT && !(buffer->starts_fresh && !walk->was_here[b] && how == BGI_USE_WRITE))
            return bg_error_set(walk->error, BG_ERROR_INVALID,
                                "device %" PRIu32 ", action %" PRIu32 " (%s) uses buffer %" PRIu32
                                ", which is not on the device; a LOAD must come before",
                                device, position, bgi_action_text(action, text), b);
        walk->was_here[b] = true;
        if (how == BGI_USE_WRITE)
            walk->states[b] = IS_CHANGED;
        else if (walk->states[b] == IS_OUT)
            walk->states[b] = IS_CLEAN;
    }
    return BG_OK;
}

/* Checks the state of the device's buffers at the end of its list. */
static bg_status finish(buffer_walk *walk, uint32_t device, uint32_t *depths)
{
    const bgi_schedule_layout *layout = walk->layout;
    const bg_schedule_problem *problem = layout->problem;

    for (uint32_t i = layout->buffer_begin[device]; i < layout->buffer_begin[device + 1]; i++) {
        const uint32_t b = layout->buffers[i];
        const bg_schedule_buffer *buffer = &problem->buffers[b];
        depths[b] = 1;
        if (!buffer->per_micro_batch) {
            if (walk->states[b] == IS_CHANGED && !buffer->starts_fresh)
                return bg_error_set(walk->error, BG_ERROR_INVALID,
                                    "device %" PRIu32 ": the step ends with changes in buffer %" PRIu32
                                    " that were not stored; a STORE must follow its last writer",
                                    device, b);
            continue;
        }
        if ((!buffer->shares_store && walk->stored[b] != problem->micro_batch_count) ||
            walk->loaded[b] != problem->micro_batch_count)
            return bg_error_set(walk->error, BG_ERROR_INVALID,
                                "device %" PRIu32 ": buffer %" PRIu32 " is stored %" PRIu32 " and loaded %" PRIu32
                                " times; it must be once for each of the %" PRIu32 " micro-batches",
                                device, b, walk->stored[b], walk->loaded[b], problem->micro_batch_count);
        depths[b] = bgi_schedule_count_overlap(walk->loads[b],
                                               &walk->positions[layout->rows[layout->edges[buffer->edge].last].first],
                                               problem->micro_batch_count);
    }
    return BG_OK;
}

static bg_status init_walk(buffer_walk *walk, bgi_arena *arena, bg_error *error)
{
    const bg_schedule_problem *problem = walk->layout->problem;
    const uint32_t count = problem->buffer_count;

    walk->states = bgi_arena_allocate(arena, count, sizeof *walk->states);
    walk->was_here = bgi_arena_allocate(arena, count, sizeof *walk->was_here);
    walk->stored = bgi_arena_allocate(arena, count, sizeof *walk->stored);
    walk->loaded = bgi_arena_allocate(arena, count, sizeof *walk->loaded);
    walk->loads = bgi_arena_allocate(arena, count, sizeof *walk->loads);
    if (walk->states == NULL || walk->was_here == NULL || walk->stored == NULL || walk->loaded == NULL ||
        walk->loads == NULL)
        return bgi_error_memory(error, "remote buffers", count * sizeof *walk->loads);
    for (uint32_t b = 0; b < count; b++) {
        if (!problem->buffers[b].per_micro_batch)
            continue;
        walk->loads[b] = bgi_arena_allocate(arena, problem->micro_batch_count, sizeof *walk->loads[b]);
        if (walk->loads[b] == NULL)
            return bgi_error_memory(error, "remote buffers", problem->micro_batch_count * sizeof *walk->loads[b]);
    }
    return BG_OK;
}

bg_status bgi_schedule_check_buffers(const bgi_schedule_layout *layout, const bg_schedule *schedule,
                                     const uint32_t *positions, uint32_t *depths, bg_error *error)
{
    buffer_walk walk = {.layout = layout, .positions = positions, .error = error};
    bgi_arena arena = {0};
    bg_status status = init_walk(&walk, &arena, error);

    for (uint32_t device = 0; status == BG_OK && device < schedule->device_count; device++) {
        const bgi_schedule_list *list = &schedule->lists[device];
        for (uint32_t position = 0; status == BG_OK && position < list->count; position++) {
            const bg_action *action = &list->actions[position];
            status = action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE
                         ? move(&walk, device, position, action)
                         : use(&walk, device, position, action);
        }
        if (status == BG_OK)
            status = finish(&walk, device, depths);
    }
    bgi_arena_clear(&arena);
    return status;
}
