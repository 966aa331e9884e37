/*
 * windows.c: where remote buffers and edges are while they are on their device.
 *
 *     a buffer of variables   has a window, a place in the arena that the variables have whenever the buffer is loaded;
 *                             of sharded weights it holds all replicas' pieces one after the other
 *     a remote edge           has three rings of slots: its producer's, its readers', and the remote one behind them;
 *                             one that another has stored has its readers' only
 *
 * Windows and rings share memory when no two of them are needed at the same time in the order of the device.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "plan/pack.h"
#include "schedule/buffers.h"

/* When a buffer is on its device: from LOAD (or the first user, when it starts fresh) to the last user or STORE. */
typedef struct span {
    uint32_t first, last;
} span;

/* The variables of a buffer, or the slots of a ring. */
typedef struct window {
    uint32_t buffer;
    uint32_t ring; /* plan edge; BGI_NO_EDGE: variables */
    bool is_out;   /* the ring of the producer */
    span *spans;
    uint32_t span_count;
} window;

static bool windows_meet(const void *context, const bgi_unit *a, const bgi_unit *b)
{
    const window *windows = context;
    const window *x = &windows[a->first], *y = &windows[b->first]; /* `first` numbers the window here */

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

/* One action of the device's list. Messages and results of an action go out behind it. */
static void extend_spans(const bg_schedule_problem *problem, window *w, uint32_t position, const bg_action *action,
                         bool *is_here, uint32_t *last_user)
{
    const bg_schedule_buffer *buffer = &problem->buffers[w->buffer];
    const bool is_own = (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) &&
                        action->index == w->buffer && action->stage == buffer->stage;
    const bool is_follower = action->kind == BG_ACTION_SEND || action->kind == BG_ACTION_HOST_OUT;
    const bool is_user = bgi_buffer_used_by(problem, buffer, action) != BGI_USE_NONE;

    if ((is_own && action->kind == BG_ACTION_LOAD) || (is_user && !*is_here)) {
        w->spans[w->span_count++] = (span){position, position};
        *is_here = true;
    }
    if (is_own || is_user || (is_follower && *is_here && *last_user + 1 == position)) {
        w->spans[w->span_count - 1].last = position;
        *last_user = position;
    }
    if (is_own && action->kind == BG_ACTION_STORE)
        *is_here = false;
}

/* Rings are in use from their first slot's first to their last slot's last: of the producer from what the host or the
 * producer writes to the last STORE, of the readers from the first LOAD to the last reader. */
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
        w->spans[w->span_count++].first = position;
    w->spans[0].last = position;
}

static bg_status find_spans(const bg_plan *plan, bgi_arena *arena, uint32_t device, window *w, bg_error *error)
{
    const uint32_t count = bg_schedule_action_count(plan->schedule, device);
    const bg_action *actions = bg_schedule_actions(plan->schedule, device);
    uint32_t last_user = UINT32_MAX - 1, loads = 1;
    bool is_here = false;

    for (uint32_t i = 0; w->ring == BGI_NO_EDGE && i < count; i++)
        loads += actions[i].kind == BG_ACTION_LOAD && actions[i].index == w->buffer;
    w->spans = bgi_arena_allocate(arena, loads, sizeof *w->spans);
    if (w->spans == NULL)
        return bgi_error_memory(error, "windows", loads * sizeof *w->spans);
    for (uint32_t i = 0; i < count; i++)
        if (w->ring == BGI_NO_EDGE)
            extend_spans(&plan->problem, w, i, &actions[i], &is_here, &last_user);
        else
            extend_ring(&plan->problem, w, i, &actions[i]);
    return BG_OK;
}

/* The variables of a buffer lie in its window, and at home, in the order of their numbers. */
static void place_in_window(bgi_compiler *c, uint32_t buffer, size_t offset)
{
    for (uint32_t v = 1; v < c->graph->value_count; v++)
        if (c->residency->buffer_of[v] == buffer) {
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

/* How many micro-batches the remote ring holds. Those that are kept behind the edge come and go in order like its own,
 * so that together they are a row. */
static uint32_t count_remote_slots(const bgi_compiler *c, uint32_t edge)
{
    uint64_t depth = bg_schedule_edge_depth(c->plan->schedule, edge);

    for (uint32_t e = 0; e < c->edges->count; e++)
        if (c->edges->facts[e].stored_by == edge + 1)
            depth += bg_schedule_edge_depth(c->plan->schedule, e);
    return depth < c->plan->micro_batches ? (uint32_t)depth : c->plan->micro_batches;
}

/* The edge itself is the ring that the readers read. */
static void add_rings(bgi_compiler *c, uint32_t edge, size_t *remote_offset)
{
    bgi_plan_edge *of = &c->plan->edges[edge];
    bgi_edge_facts *facts = &c->edges->facts[edge];
    const uint32_t depth = count_remote_slots(c, edge);
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

/* The windows of a device and their sizes. */
static uint32_t list_windows(const bgi_compiler *c, uint32_t device, window *windows, bgi_unit *units)
{
    uint32_t count = 0;

    for (uint32_t b = 0; b < c->residency->buffer_count; b++) {
        const bg_schedule_buffer *buffer = &c->residency->buffers[b];
        if (bgi_stage_device(c, buffer->stage) != device)
            continue;
        if (!buffer->per_micro_batch) {
            windows[count] = (window){.buffer = b, .ring = BGI_NO_EDGE};
            units[count] = (bgi_unit){.size = buffer->size_bytes, .first = count};
            count++;
            continue;
        }
        for (int is_out = 0; is_out < 2; is_out++) {
            const uint32_t ring = is_out != 0 ? c->edges->facts[buffer->edge].out_ring : buffer->edge;
            const bgi_plan_edge *slots = &c->plan->edges[ring];
            if (ring == BGI_NO_EDGE)
                continue;
            windows[count] = (window){.buffer = b, .ring = ring, .is_out = is_out != 0};
            units[count] = (bgi_unit){.size = slots->slot_bytes * slots->depth, .first = count};
            count++;
        }
    }
    return count;
}

static bg_status place_windows(bgi_compiler *c, uint32_t device, size_t *offset, bg_error *error)
{
    const size_t most = 2 * (size_t)c->residency->buffer_count;
    bgi_arena arena = {0};
    window *windows = bgi_arena_allocate(&arena, most, sizeof *windows);
    bgi_unit *units = bgi_arena_allocate(&arena, most, sizeof *units);
    bgi_unit **order = bgi_arena_allocate(&arena, most, sizeof *order);
    uint32_t count = 0;
    size_t peak;
    bg_status status = BG_OK;

    if (windows == NULL || units == NULL || order == NULL)
        status = bgi_error_memory(error, "windows", most * sizeof *windows);
    else
        count = list_windows(c, device, windows, units);
    for (uint32_t i = 0; status == BG_OK && i < count; i++)
        status = find_spans(c->plan, &arena, device, &windows[i], error);
    if (status == BG_OK) {
        peak = bgi_pack(units, count, order, windows_meet, windows);
        for (uint32_t i = 0; i < count; i++)
            if (windows[i].ring == BGI_NO_EDGE)
                place_in_window(c, windows[i].buffer, *offset + units[i].offset);
            else
                c->plan->edges[windows[i].ring].offset = *offset + units[i].offset;
        *offset += peak;
        c->plan->devices[device].class_bytes[BG_MEMORY_WINDOW] += peak;
    }
    bgi_arena_clear(&arena);
    return status;
}

bg_status bgi_lay_out_remote(bgi_compiler *c, size_t *offsets, size_t *remote_offsets, bg_error *error)
{
    for (uint32_t e = 0; e < c->edges->count; e++)
        if (c->edges->facts[e].is_remote)
            add_rings(c, e, &remote_offsets[c->plan->edges[e].to_device]);
    for (uint32_t d = 0; d < c->stages->device_count; d++)
        BGI_TRY(place_windows(c, d, &offsets[d], error));
    return BG_OK;
}
