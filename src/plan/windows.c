/*
 * windows.c: places remote buffers and edges on their devices.
 *
 *     a buffer of variables   has a window, a place in the arena that the variables have whenever the buffer is loaded;
 *                             a window of sharded weights holds all replicas' pieces one after the other
 *     a remote edge           has three rings of slots: its producer's, its readers', and the one in the remote store;
 *                             an edge whose values another edge stores has only its readers' ring
 *
 * Windows and rings share memory when no two of them are needed at the same time in the device's order.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "plan/pack.h"
#include "schedule/buffers.h"

/* A window holds the variables of a buffer, or the slots of a ring. Each of the window's spans begins with the LOAD (or
 * the first user, when the buffer needs no load) and ends with the last user or the STORE. */
typedef struct window {
    uint32_t buffer;
    uint32_t ring; /* plan edge; BGI_NO_EDGE: a window of variables */
    bool is_out;   /* the ring of the producer */
    bgi_span *spans;
    uint32_t span_count;
} window;

/* The state during the placement of a device's windows. */
typedef struct placer {
    bgi_compiler *compiler;
    uint32_t action_count;
    const bg_action *actions;
    bgi_buckets of_stage; /* the actions of each stage, as places in the device's order */
    bgi_arena arena;
} placer;

/* Returns the position of the last SEND or HOST_OUT of an action; these directly follow the action. */
static uint32_t find_last_follower(const placer *p, uint32_t position)
{
    while (position + 1 < p->action_count &&
           (p->actions[position + 1].kind == BG_ACTION_SEND || p->actions[position + 1].kind == BG_ACTION_HOST_OUT))
        position++;
    return position;
}

/* Extends the window's spans by one action of the buffer's stage. */
static void extend_spans(const placer *p, window *w, uint32_t position, bool *is_here)
{
    const bg_schedule_problem *problem = &p->compiler->plan->problem;
    const bg_schedule_buffer *buffer = &problem->buffers[w->buffer];
    const bg_action *action = &p->actions[position];
    const bool is_own =
        (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) && action->index == w->buffer;
    const bool is_user = bgi_buffer_used_by(problem, buffer, action) != BGI_USE_NONE;

    if ((is_own && action->kind == BG_ACTION_LOAD) || (is_user && !*is_here)) {
        w->spans[w->span_count++] = (bgi_span){position, position};
        *is_here = true;
    }
    if (is_own && action->kind == BG_ACTION_STORE)
        *is_here = false;
    if (is_own || is_user)
        w->spans[w->span_count - 1].last = *is_here ? find_last_follower(p, position) : position;
}

/* Extends the span of a ring, which is in use from the first use of any slot to the last use. For the producer's ring
 * this is from the first write to the last STORE, and for the readers' ring from the first LOAD to the last reader. */
static void extend_ring(const bg_schedule_problem *problem, window *w, uint32_t position, const bg_action *action)
{
    const bg_schedule_buffer *buffer = &problem->buffers[w->buffer];
    const bg_schedule_edge *edge = &problem->edges[buffer->edge];
    const bgi_buffer_use how = bgi_buffer_used_by(problem, buffer, action);
    const bool is_own = (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) &&
                        action->index == w->buffer && action->stage == buffer->stage;
    const bool is_in_use = w->is_out ? (is_own && action->kind == BG_ACTION_STORE) || how == BGI_USE_WRITE ||
                                           (action->kind == BG_ACTION_HOST_IN && action->stage == edge->from_stage)
                                     : (is_own && action->kind == BG_ACTION_LOAD) || how == BGI_USE_READ;

    if (!is_in_use)
        return;
    if (w->span_count == 0)
        w->spans[w->span_count++] = (bgi_span){position, position};
    w->spans[0].first = position < w->spans[0].first ? position : w->spans[0].first;
    w->spans[0].last = position > w->spans[0].last ? position : w->spans[0].last;
}

static bg_status find_ring_span(placer *p, window *w, bg_error *error)
{
    const bg_schedule_problem *problem = &p->compiler->plan->problem;
    const bg_schedule_edge *edge = &problem->edges[problem->buffers[w->buffer].edge];

    w->spans = bgi_arena_allocate(&p->arena, 1, sizeof *w->spans);
    if (w->spans == NULL)
        return bgi_error_memory(error, "windows", sizeof *w->spans);
    BGI_FOR_BUCKET(p->of_stage, edge->from_stage, at)
    extend_ring(problem, w, p->of_stage.items[at], &p->actions[p->of_stage.items[at]]);
    BGI_FOR_BUCKET(p->of_stage, edge->to_stage, at)
    extend_ring(problem, w, p->of_stage.items[at], &p->actions[p->of_stage.items[at]]);
    return BG_OK;
}

static bg_status find_variable_spans(placer *p, window *w, bg_error *error)
{
    const uint32_t stage = p->compiler->plan->problem.buffers[w->buffer].stage;
    uint32_t loads = 1;
    bool is_here = false;

    BGI_FOR_BUCKET(p->of_stage, stage, at)
    {
        const bg_action *action = &p->actions[p->of_stage.items[at]];
        loads += action->kind == BG_ACTION_LOAD && action->index == w->buffer;
    }
    w->spans = bgi_arena_allocate(&p->arena, loads, sizeof *w->spans);
    if (w->spans == NULL)
        return bgi_error_memory(error, "windows", loads * sizeof *w->spans);
    BGI_FOR_BUCKET(p->of_stage, stage, at)
    extend_spans(p, w, p->of_stage.items[at], &is_here);
    return BG_OK;
}

/* Gives the variables of a buffer their places in its window, in the order of their numbers, as in the store. */
static void place_in_window(bgi_compiler *c, uint32_t buffer, size_t offset)
{
    BGI_FOR_BUCKET(c->residency->variables, buffer, at)
    {
        const uint32_t v = c->residency->variables.items[at];
        c->placement->windows[v] = (bgi_operand){.edge = BGI_NO_EDGE, .offset = offset};
        offset += bgi_align(bgi_window_bytes(c, v));
    }
}

static uint32_t add_ring(bgi_compiler *c, uint32_t edge, uint32_t depth)
{
    bgi_plan_edge *ring = &c->plan->edges[c->plan->edge_count];

    *ring = c->plan->edges[edge];
    ring->depth = depth;
    return c->plan->edge_count++;
}

/* Finds the largest number of micro-batches that the remote ring of each edge holds at once. Values that a second edge
 * stashes enter and leave in the same order, so both edges use one ring. */
static void count_remote_slots(const bgi_compiler *c, uint64_t *slots)
{
    for (uint32_t e = 0; e < c->edges->count; e++)
        slots[e] = bg_schedule_edge_depth(c->plan->schedule, e);
    for (uint32_t e = 0; e < c->edges->count; e++)
        if (c->edges->facts[e].stored_by != 0)
            slots[c->edges->facts[e].stored_by - 1] += bg_schedule_edge_depth(c->plan->schedule, e);
}

/* Adds the rings of a remote edge; the edge itself becomes the readers' ring. */
static void add_rings(bgi_compiler *c, uint32_t edge, uint64_t slots, size_t *remote_offset)
{
    bgi_plan_edge *of = &c->plan->edges[edge];
    bgi_edge_facts *facts = &c->edges->facts[edge];
    const uint32_t depth = slots < c->plan->micro_batches ? (uint32_t)slots : c->plan->micro_batches;
    const uint32_t producer_slots = c->residency->buffers[facts->buffer].slots;
    const bg_mesh mesh = bgi_plan_mesh(c->plan);
    bgi_plan_edge *remote;

    of->is_ring = true;
    of->depth = bg_schedule_buffer_depth(c->plan->schedule, facts->buffer);
    if (facts->stored_by != 0) {
        facts->out_ring = BGI_NO_EDGE;
        facts->remote_ring = c->edges->facts[facts->stored_by - 1].remote_ring;
        return;
    }
    facts->out_ring = add_ring(c, edge, producer_slots < depth ? producer_slots : depth);
    facts->remote_ring = add_ring(c, edge, depth);
    remote = &c->plan->edges[facts->remote_ring];
    remote->is_remote = true;
    remote->slot_bytes /= bg_mesh_group_size(&mesh, facts->shard_axes);
    remote->offset = *remote_offset;
    *remote_offset += remote->slot_bytes * depth;
    c->plan->devices[of->to_device].class_bytes[BG_MEMORY_REMOTE] += remote->slot_bytes * depth;
    c->plan->devices[of->to_device].remote_class_bytes[BG_LOCATION_ACTIVATIONS] += remote->slot_bytes * depth;
}

/* Lists the windows of a device and their sizes. */
static uint32_t list_windows(const bgi_compiler *c, const bgi_buckets *of_device, uint32_t device, window *windows,
                             bgi_unit *units)
{
    uint32_t count = 0;

    BGI_FOR_BUCKET(*of_device, device, at)
    {
        const uint32_t b = of_device->items[at];
        const bg_schedule_buffer *buffer = &c->residency->buffers[b];
        if (!buffer->per_micro_batch) {
            windows[count] = (window){.buffer = b, .ring = BGI_NO_EDGE};
            units[count++].size = buffer->size_bytes;
            continue;
        }
        for (int is_out = 0; is_out < 2; is_out++) {
            const uint32_t ring = is_out != 0 ? c->edges->facts[buffer->edge].out_ring : buffer->edge;
            if (ring == BGI_NO_EDGE)
                continue;
            windows[count] = (window){.buffer = b, .ring = ring, .is_out = is_out != 0};
            units[count++].size = c->plan->edges[ring].slot_bytes * c->plan->edges[ring].depth;
        }
    }
    return count;
}

static bg_status place_windows(placer *p, const bgi_buckets *of_device, uint32_t device, size_t *offset,
                               bg_error *error)
{
    bgi_compiler *c = p->compiler;
    const size_t most = 2 * (size_t)(of_device->begins[device + 1] - of_device->begins[device]);
    window *windows = bgi_arena_allocate(&p->arena, most, sizeof *windows);
    bgi_unit *units = bgi_arena_allocate(&p->arena, most, sizeof *units);
    uint32_t count;
    size_t peak;

    p->action_count = bg_schedule_action_count(c->plan->schedule, device);
    p->actions = bg_schedule_actions(c->plan->schedule, device);
    if (windows == NULL || units == NULL ||
        !bgi_find_stage_places(p->actions, p->action_count, c->stages->stage_count, &p->arena, &p->of_stage))
        return bgi_error_memory(error, "windows", most * sizeof *windows);
    count = list_windows(c, of_device, device, windows, units);
    for (uint32_t i = 0; i < count; i++) {
        BGI_TRY(windows[i].ring == BGI_NO_EDGE ? find_variable_spans(p, &windows[i], error)
                                               : find_ring_span(p, &windows[i], error));
        units[i].spans = windows[i].spans;
        units[i].span_count = windows[i].span_count;
    }
    if (!bgi_pack(units, count, &peak))
        return bgi_error_memory(error, "windows", count * sizeof *units);
    for (uint32_t i = 0; i < count; i++)
        if (windows[i].ring == BGI_NO_EDGE)
            place_in_window(c, windows[i].buffer, *offset + units[i].offset);
        else
            c->plan->edges[windows[i].ring].offset = *offset + units[i].offset;
    *offset += peak;
    c->plan->devices[device].class_bytes[BG_MEMORY_WINDOW] += peak;
    return BG_OK;
}

static bg_status list_buffers(bgi_compiler *c, bgi_buckets *out_of_device, bg_error *error)
{
    const uint32_t count = c->residency->buffer_count;
    uint32_t *devices = bgi_arena_allocate(&c->scratch, count, sizeof *devices);

    for (uint32_t b = 0; devices != NULL && b < count; b++)
        devices[b] = bgi_stage_device(c, c->residency->buffers[b].stage);
    if (devices == NULL || !bgi_buckets_fill(out_of_device, &c->scratch, c->stages->device_count, count, devices))
        return bgi_error_memory(error, "windows", count * sizeof *devices);
    return BG_OK;
}

bg_status bgi_lay_out_remote(bgi_compiler *c, size_t *offsets, size_t *remote_offsets, bg_error *error)
{
    uint64_t *slots = bgi_arena_allocate(&c->scratch, c->edges->count, sizeof *slots);
    bgi_buckets of_device;
    bg_status status = BG_OK;

    if (slots == NULL)
        return bgi_error_memory(error, "windows", c->edges->count * sizeof *slots);
    count_remote_slots(c, slots);
    for (uint32_t e = 0; e < c->edges->count; e++)
        if (c->edges->facts[e].is_remote)
            add_rings(c, e, slots[e], &remote_offsets[c->plan->edges[e].to_device]);
    BGI_TRY(list_buffers(c, &of_device, error));
    for (uint32_t d = 0; status == BG_OK && d < c->stages->device_count; d++) {
        placer p = {.compiler = c};
        if (of_device.begins[d] < of_device.begins[d + 1])
            status = place_windows(&p, &of_device, d, &offsets[d], error);
        bgi_arena_clear(&p.arena);
    }
    return status;
}
