/*
 * offload.c: what is remote in a plan, and where its windows are. Knows no transfers: they are transfers.c's.
 *
 *     weights, accumulators   of a stage and class: one buffer of the schedule. Its window is a place in the arena that
 *                             the variables have whenever the buffer is loaded; windows (and rings) share memory when
 *                             no two of them are needed at the same time in the order of the device. Of sharded
 *                             weights each replica's store has a piece, and the window all pieces one after the other.
 *     activations             edges on one device that hold more micro-batches than three rings of slots would. Of what
 *                             the replicas along a tensor axis have in common each may keep a piece of a slot. What
 *                             comes in, is read by the forward and kept for the backward is cut in two edges:
 *
 *                                 F(k-1) ==x==> F(k) B(k)     =>     F(k-1) ==x==> F(k) ==x==> B(k)
 *
 *     optimiser state         needs no buffer: it is loaded and stored inside the update, one variable after another.
 *
 * Which edges are worth it is known when the schedule is; so the schedule is made first without remote edges, and again
 * with them until nothing changes.
 */
#include "plan/compile.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "plan/pack.h"
#include "schedule/buffers.h"

/* Slots of a remote edge for its producer: one to write while the other one is stored. */
enum { PRODUCER_SLOTS = 2 };

static bool is_preloaded(const bgi_compiler *c, const bg_tensor_location *location)
{
    return !location->on_demand && (c->plan->options.phase_liveness == BG_LIVE_ALWAYS ||
                                    c->plan->options.phase_liveness == BG_LIVE_OFF_CHIP_AFTER_FWD);
}

static bg_residency find_residency(const bg_options *options)
{
    switch (options->phase_liveness) {
    case BG_LIVE_ALWAYS:
        return BG_RESIDENCY_STEP;
    case BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE:
        return BG_RESIDENCY_VISIT;
    default:
        return BG_RESIDENCY_FORWARD_BACKWARD;
    }
}

/* ---- variables ---- */

static bg_location_class location_class_of(const bgi_value *value)
{
    switch (value->role) {
    case BG_ROLE_PARAMETER:
        return BG_LOCATION_WEIGHTS;
    case BG_ROLE_BUFFER: /* one that is remote already is used entry by entry, without a window */
        return value->is_remote ? BG_LOCATION_COUNT : BG_LOCATION_WEIGHTS;
    case BG_ROLE_ACCUMULATOR:
        return BG_LOCATION_ACCUMULATORS;
    default:
        return BG_LOCATION_COUNT;
    }
}

static bg_tensor_location location_of(const bgi_compiler *c, bg_location_class location_class, const bgi_value *value)
{
    return bgi_find_location(&c->plan->options, location_class, value->name, bg_type_element_count(&value->type));
}

/* A variable that nobody writes and several stages read has a place on each of their devices and stays there. */
static void find_owners(const bgi_compiler *c, uint32_t *owners)
{
    for (uint32_t v = 0; v < c->graph->value_count; v++)
        owners[v] = c->writer_stage[v];
    for (uint32_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++) {
            const uint32_t root = c->partition.roots[c->graph->ops[o].inputs[i].id].id;
            if (c->writer_stage[root] != UINT32_MAX)
                continue;
            if (owners[root] == UINT32_MAX)
                owners[root] = c->partition.op_stages[o];
            else if (owners[root] != c->partition.op_stages[o])
                owners[root] = UINT32_MAX - 1;
        }
}

/* The buffer of a stage's variables of one class that are loaded alike. */
static uint32_t find_buffer(bgi_compiler *c, uint32_t stage, bool is_fresh, bool preload)
{
    bg_schedule_buffer *buffers = c->buffers;
    uint32_t b = 0;

    while (b < c->buffer_count &&
           (buffers[b].stage != stage || buffers[b].starts_fresh != is_fresh || buffers[b].preload != preload))
        b++;
    if (b == c->buffer_count)
        buffers[c->buffer_count++] = (bg_schedule_buffer){.stage = stage,
                                                          .starts_fresh = is_fresh,
                                                          .preload = preload,
                                                          .residency = find_residency(&c->plan->options)};
    return b;
}

static void add_level(bg_schedule_buffer *buffer, uint32_t level)
{
    if (level < 32)
        buffer->update_levels |= 1u << level;
}

static void add_users(bgi_compiler *c)
{
    for (uint32_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++) {
            const uint32_t root = c->partition.roots[c->graph->ops[o].inputs[i].id].id;
            const bgi_segment *segment = &c->partition.segments[c->partition.op_segments[o]];
            bg_schedule_buffer *buffer;
            if (c->buffer_of[root] == BGI_NO_BUFFER)
                continue;
            buffer = &c->buffers[c->buffer_of[root]];
            if (segment->stage != buffer->stage)
                continue; /* by an edge */
            buffer->reads |= 1u << bgi_action_of_segment(segment->kind);
            if (segment->kind == BGI_SEGMENT_UPDATE)
                add_level(buffer, segment->level);
            if (bgi_op_type_writes(c->graph->ops[o].type, i))
                buffer->writes |= 1u << bgi_action_of_segment(segment->kind);
        }
    /* Other stages get them from the update, replicas are summed before it. */
    for (uint32_t i = 0; i < c->partition.crossing_count; i++) {
        const bgi_crossing *crossing = &c->partition.crossings[i];
        if (c->buffer_of[crossing->value.id] == BGI_NO_BUFFER)
            continue;
        c->buffers[c->buffer_of[crossing->value.id]].reads |= 1u << BG_ACTION_UPDATE;
        add_level(&c->buffers[c->buffer_of[crossing->value.id]], c->partition.segments[crossing->from_segment].level);
    }
    for (uint32_t b = 0; b < c->buffer_count; b++)
        if (c->buffers[b].starts_fresh && bgi_plan_data_replicas(c->plan) > 1) {
            c->buffers[b].writes |= 1u << BG_ACTION_REDUCE;
            add_level(&c->buffers[b], 0); /* the sum stands before it */
        }
    /* Replicas get each other's pieces after the last level. */
    for (uint32_t v = 1; v < c->graph->value_count; v++)
        if (c->buffer_of[v] != BGI_NO_BUFFER && bgi_is_gathered(c, v)) {
            c->buffers[c->buffer_of[v]].writes |= 1u << BG_ACTION_GATHER;
            c->buffers[c->buffer_of[v]].update_levels = 0;
        }
}

/* All replicas have the same parameters, so that each may keep a piece: buffers are each replica's own. */
static int64_t count_piece(const bgi_compiler *c, const bgi_value *value)
{
    const uint32_t replicas = bgi_plan_data_replicas(c->plan);

    return replicas > 1 ? (bg_type_element_count(&value->type) + replicas - 1) / replicas : 0;
}

/* What the stages that share a parameter keep of it is one variable of the plan. */
static void keep_copies_alike(bgi_compiler *c)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t v = 1; v < c->graph->value_count; v++) {
            const uint32_t original = c->graph->values[v].copy_of.id;
            if (original == 0)
                continue;
            if (c->home_pieces[v] == 0)
                c->home_pieces[original] = 0;
            if (c->home_pieces[original] == 0)
                c->home_pieces[v] = 0;
        }
}

static void add_bytes(bg_schedule_buffer *buffer, size_t window_bytes, size_t home_bytes)
{
    buffer->size_bytes += bgi_align(window_bytes);
    buffer->store_bytes += bgi_align(home_bytes);
}

/* Replicas along a tensor axis may have the same activations; those of different samples never have. */
static bg_status find_equal_activations(bgi_compiler *c, bg_error *error)
{
    if (!bgi_asks_for_pieces(&c->plan->options, 1u << BG_LOCATION_ACTIVATIONS))
        return BG_OK;
    if (c->plan->tensor_1 * c->plan->tensor_2 <= 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "activations are sharded, and the model is on no mesh of tensor-parallel replicas, which "
                            "alone have some in common; shard weights, accumulators or the optimiser's state");
    return bgi_find_equal_axes(c->graph, &c->scratch, &c->equal_axes, error);
}

bg_status bgi_find_remote(bgi_compiler *c, bg_error *error)
{
    const size_t values = c->graph->value_count;
    uint32_t *owners = bgi_arena_take(&c->scratch, values, sizeof *owners);

    c->writer_stage = bgi_arena_take(&c->scratch, values, sizeof *c->writer_stage);
    c->buffer_of = bgi_arena_take(&c->scratch, values, sizeof *c->buffer_of);
    c->home_pieces = bgi_arena_take(&c->scratch, values, sizeof *c->home_pieces);
    c->crossing_moves = bgi_arena_take(&c->scratch, c->partition.crossing_count, sizeof *c->crossing_moves);
    /* Two classes, two ways to load; an edge or two for each crossing. */
    c->buffers =
        bgi_arena_take(&c->plan->arena, 4 * (size_t)c->stages.stage_count + 2 * (size_t)c->partition.crossing_count,
                       sizeof *c->buffers);
    if (owners == NULL || c->writer_stage == NULL || c->buffer_of == NULL || c->home_pieces == NULL ||
        c->crossing_moves == NULL || c->buffers == NULL)
        return bgi_error_memory(error, "remote buffers", values * sizeof *owners);
    BGI_TRY(find_equal_activations(c, error));
    bgi_find_writers(c);
    find_owners(c, owners);
    for (uint32_t v = 0; v < values; v++) {
        const bgi_value *value = &c->graph->values[v];
        const bg_location_class location_class = location_class_of(value);
        bg_tensor_location location;
        c->buffer_of[v] = BGI_NO_BUFFER;
        if (v == 0 || value->kind != BGI_VALUE_VARIABLE || location_class == BG_LOCATION_COUNT ||
            owners[v] >= c->stages.stage_count)
            continue;
        location = location_of(c, location_class, value);
        if (location.place != BG_PLACE_REMOTE)
            continue;
        c->buffer_of[v] =
            find_buffer(c, owners[v], location_class == BG_LOCATION_ACCUMULATORS, is_preloaded(c, &location));
        if (value->role == BG_ROLE_PARAMETER && location.sharded)
            c->home_pieces[v] = count_piece(c, value);
    }
    keep_copies_alike(c);
    for (uint32_t v = 1; v < values; v++)
        if (c->buffer_of[v] != BGI_NO_BUFFER)
            add_bytes(&c->buffers[c->buffer_of[v]], bgi_window_bytes(c, v), bgi_home_bytes(c, v));
    c->variable_buffer_count = c->buffer_count;
    add_users(c);
    return BG_OK;
}

static bool rule_has_match(const bgi_compiler *c, const bg_location_rule *rule)
{
    for (size_t v = 1; v < c->graph->value_count; v++) {
        const bgi_value *value = &c->graph->values[v];
        const bool is_variable = value->kind == BGI_VALUE_VARIABLE;
        const bg_location_class of = !is_variable                   ? BG_LOCATION_ACTIVATIONS
                                     : value->role == BG_ROLE_STATE ? BG_LOCATION_STATE
                                                                    : location_class_of(value);
        if (of != BG_LOCATION_COUNT && value->name != NULL && bgi_rule_matches(rule, of, value->name))
            return true;
    }
    return false;
}

void bgi_warn_of_idle_rules(const bgi_compiler *c)
{
    const uint32_t of_training = 1u << BG_LOCATION_ACCUMULATORS | 1u << BG_LOCATION_STATE;
    const bg_options *options = &c->plan->options;

    for (uint32_t i = 0; options->log != NULL && i < options->location_rule_count; i++) {
        const bg_location_rule *rule = &options->location_rules[i];
        char text[256];
        if ((!c->plan->training && (rule->classes & of_training) != 0) || rule_has_match(c, rule))
            continue;
        snprintf(text, sizeof text,
                 "location_rules[%u] `%s` matches no tensor of its classes and does nothing; compare it with the "
                 "tensors' names",
                 i, rule->pattern);
        options->log(options->log_user, BG_LOG_WARNING, text);
    }
}

/* ---- edges ---- */

bool bgi_activations_may_be_remote(const bg_options *options)
{
    for (uint32_t i = 0; i < options->location_rule_count; i++)
        if ((options->location_rules[i].classes >> BG_LOCATION_ACTIVATIONS & 1) != 0)
            return true;
    return bgi_find_location(options, BG_LOCATION_ACTIVATIONS, "", INT64_MAX).place == BG_PLACE_REMOTE;
}

bool bgi_crossing_is_preloaded(const bgi_compiler *c, uint32_t crossing)
{
    const bg_tensor_location location =
        location_of(c, BG_LOCATION_ACTIVATIONS, bgi_graph_value(c->graph, c->partition.crossings[crossing].value));

    return is_preloaded(c, &location);
}

uint8_t bgi_crossing_shard_axes(const bgi_compiler *c, uint32_t crossing)
{
    const bg_mesh mesh = bgi_plan_mesh(c->plan);
    const bg_value value = c->partition.crossings[crossing].value;
    uint32_t axes;

    if (c->equal_axes == NULL || !location_of(c, BG_LOCATION_ACTIVATIONS, bgi_graph_value(c->graph, value)).sharded)
        return 0;
    axes = c->equal_axes[value.id];
    for (uint32_t axis = BG_MESH_TENSOR_1; axis <= BG_MESH_TENSOR_2; axis *= 2)
        axes = bg_mesh_group_size(&mesh, axis) > 1 ? axes : axes & ~axis;
    return (uint8_t)axes;
}

static uint32_t count_ring_slots(const bgi_compiler *c, uint32_t crossing)
{
    return PRODUCER_SLOTS + (bgi_crossing_is_preloaded(c, crossing) ? 2 : 1);
}

/* On one device many micro-batches wait for the stage's forward, and its backward follows soon: in phases, the head's.
 */
static bool waits_before_forward(const bgi_compiler *c, uint32_t i)
{
    const uint32_t edge = c->crossing_edges[i];
    const uint32_t kept = bg_schedule_stage_in_flight(c->plan->schedule, c->partition.crossings[i].to_stage);

    return c->plan->edges[edge].from_device == c->plan->edges[edge].to_device &&
           bg_schedule_edge_depth(c->plan->schedule, edge) > kept + count_ring_slots(c, i);
}

/* True when a crossing is moved, or cut, that was not. */
static bool decide_crossing(bgi_compiler *c, uint32_t i)
{
    const bgi_crossing *crossing = &c->partition.crossings[i];
    const bgi_value *value = bgi_graph_value(c->graph, crossing->value);
    const bool is_kept = crossing->to_kind == BGI_SEGMENT_FORWARD && crossing->last_kind != BGI_SEGMENT_FORWARD;
    const uint32_t edge = c->crossing_edges[i];
    uint8_t *moves = &c->crossing_moves[i];
    const bool is_cut = (*moves & (BGI_MOVES_STASH | BGI_KEEPS_STASH)) != 0;

    if (edge == BGI_NO_EDGE || c->plan->edges[edge].per_step || value->kind == BGI_VALUE_VARIABLE ||
        location_of(c, BG_LOCATION_ACTIVATIONS, value).place != BG_PLACE_REMOTE)
        return false;
    if (is_kept && !is_cut &&
        bg_schedule_stage_in_flight(c->plan->schedule, crossing->to_stage) > count_ring_slots(c, i)) {
        *moves |= BGI_MOVES_STASH;
        return true;
    }
    if (is_kept && !is_cut && waits_before_forward(c, i)) {
        *moves |= BGI_KEEPS_STASH;
        return true;
    }
    if (c->plan->edges[edge].from_device != c->plan->edges[edge].to_device || (*moves & BGI_MOVES_MESSAGE) != 0 ||
        (is_kept && !is_cut) || bg_schedule_edge_depth(c->plan->schedule, edge) <= count_ring_slots(c, i))
        return false;
    *moves |= BGI_MOVES_MESSAGE;
    return true;
}

bool bgi_decide_remote_edges(bgi_compiler *c)
{
    bool has_changed = false;

    for (uint32_t i = 0; i < c->partition.crossing_count; i++)
        has_changed = decide_crossing(c, i) || has_changed;
    return has_changed;
}

void bgi_add_edge_buffers(bgi_compiler *c)
{
    c->buffer_count = c->variable_buffer_count;
    for (uint32_t e = 0; e < c->edge_count; e++)
        if (c->edge_facts[e].is_remote) {
            c->edge_facts[e].buffer = c->buffer_count;
            c->buffers[c->buffer_count++] = (bg_schedule_buffer){.stage = c->edges[e].to_stage,
                                                                 .per_micro_batch = true,
                                                                 .edge = e,
                                                                 .slots = PRODUCER_SLOTS,
                                                                 .preload = c->edge_facts[e].is_preloaded,
                                                                 .size_bytes = c->edges[e].size_bytes};
        }
}

/* ---- windows ---- */

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
static void extend_spans(const bgi_compiler *c, window *w, uint32_t position, const bg_action *action, bool *is_here,
                         uint32_t *last_user)
{
    const bg_schedule_buffer *buffer = &c->buffers[w->buffer];
    const bool is_own = (action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) &&
                        action->index == w->buffer && action->stage == buffer->stage;
    const bool is_follower = action->kind == BG_ACTION_SEND || action->kind == BG_ACTION_HOST_OUT;
    const bool is_user = bgi_buffer_used_by(&c->plan->problem, buffer, action) != BGI_USE_NONE;

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
static void extend_ring(const bgi_compiler *c, window *w, uint32_t position, const bg_action *action)
{
    const bg_schedule_problem *problem = &c->plan->problem;
    const bg_schedule_buffer *buffer = &c->buffers[w->buffer];
    const bg_schedule_edge *edge = &c->edges[buffer->edge];
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

static bg_status find_spans(const bgi_compiler *c, bgi_arena *arena, uint32_t device, window *w, bg_error *error)
{
    const uint32_t count = bg_schedule_action_count(c->plan->schedule, device);
    const bg_action *actions = bg_schedule_actions(c->plan->schedule, device);
    uint32_t last_user = UINT32_MAX - 1, loads = 1;
    bool is_here = false;

    for (uint32_t i = 0; w->ring == BGI_NO_EDGE && i < count; i++)
        loads += actions[i].kind == BG_ACTION_LOAD && actions[i].index == w->buffer;
    w->spans = bgi_arena_take(arena, loads, sizeof *w->spans);
    if (w->spans == NULL)
        return bgi_error_memory(error, "windows", loads * sizeof *w->spans);
    for (uint32_t i = 0; i < count; i++)
        if (w->ring == BGI_NO_EDGE)
            extend_spans(c, w, i, &actions[i], &is_here, &last_user);
        else
            extend_ring(c, w, i, &actions[i]);
    return BG_OK;
}

/* The variables of a buffer lie in its window, and at home, in the order of their numbers. */
static void place_in_window(bgi_compiler *c, uint32_t buffer, uint32_t device, size_t offset)
{
    for (uint32_t v = 1; v < c->graph->value_count; v++)
        if (c->buffer_of[v] == buffer) {
            c->windows[v] = (bgi_operand){.device = device, .edge = BGI_NO_EDGE, .offset = offset};
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

/* The edge itself is the ring that the readers read. */
static void add_rings(bgi_compiler *c, uint32_t edge, size_t *remote_offset)
{
    bgi_plan_edge *of = &c->plan->edges[edge];
    bgi_edge_facts *facts = &c->edge_facts[edge];
    const uint32_t depth = bg_schedule_edge_depth(c->plan->schedule, edge);
    const bg_mesh mesh = bgi_plan_mesh(c->plan);
    bgi_plan_edge *remote;

    of->is_ring = true;
    of->depth = bg_schedule_buffer_depth(c->plan->schedule, facts->buffer);
    facts->out_ring = add_ring(c, edge, PRODUCER_SLOTS < depth ? PRODUCER_SLOTS : depth);
    facts->remote_ring = add_ring(c, edge, depth);
    remote = &c->plan->edges[facts->remote_ring];
    remote->is_remote = true;
    remote->slot_bytes /= bg_mesh_group_size(&mesh, facts->shard_axes);
    remote->offset = *remote_offset;
    *remote_offset += remote->slot_bytes * depth;
    c->plan->devices[of->to_device].class_bytes[BG_MEMORY_REMOTE] += remote->slot_bytes * depth;
}

/* The windows of a device and their sizes. */
static uint32_t list_windows(const bgi_compiler *c, uint32_t device, window *windows, bgi_unit *units)
{
    uint32_t count = 0;

    for (uint32_t b = 0; b < c->buffer_count; b++) {
        const bg_schedule_buffer *buffer = &c->buffers[b];
        if (bgi_stage_device(c, buffer->stage) != device)
            continue;
        if (!buffer->per_micro_batch) {
            windows[count] = (window){.buffer = b, .ring = BGI_NO_EDGE};
            units[count] = (bgi_unit){.size = buffer->size_bytes, .first = count};
            count++;
            continue;
        }
        for (int is_out = 0; is_out < 2; is_out++) {
            const uint32_t ring = is_out != 0 ? c->edge_facts[buffer->edge].out_ring : buffer->edge;
            const bgi_plan_edge *slots = &c->plan->edges[ring];
            windows[count] = (window){.buffer = b, .ring = ring, .is_out = is_out != 0};
            units[count] = (bgi_unit){.size = slots->slot_bytes * slots->depth, .first = count};
            count++;
        }
    }
    return count;
}

static bg_status place_windows(bgi_compiler *c, uint32_t device, size_t *offset, bg_error *error)
{
    const size_t most = 2 * (size_t)c->buffer_count;
    bgi_arena arena = {0};
    window *windows = bgi_arena_take(&arena, most, sizeof *windows);
    bgi_unit *units = bgi_arena_take(&arena, most, sizeof *units);
    bgi_unit **order = bgi_arena_take(&arena, most, sizeof *order);
    uint32_t count = 0;
    size_t peak;
    bg_status status = BG_OK;

    if (windows == NULL || units == NULL || order == NULL)
        status = bgi_error_memory(error, "windows", most * sizeof *windows);
    else
        count = list_windows(c, device, windows, units);
    for (uint32_t i = 0; status == BG_OK && i < count; i++)
        status = find_spans(c, &arena, device, &windows[i], error);
    if (status == BG_OK) {
        peak = bgi_pack(units, count, order, windows_meet, windows);
        for (uint32_t i = 0; i < count; i++)
            if (windows[i].ring == BGI_NO_EDGE)
                place_in_window(c, windows[i].buffer, device, *offset + units[i].offset);
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
    for (uint32_t e = 0; e < c->edge_count; e++)
        if (c->edge_facts[e].is_remote)
            add_rings(c, e, &remote_offsets[c->plan->edges[e].to_device]);
    for (uint32_t d = 0; d < c->stages.device_count; d++)
        BGI_TRY(place_windows(c, d, &offsets[d], error));
    return BG_OK;
}

/* ---- state ---- */

static bool is_load(const bgi_compiler *c, uint32_t op)
{
    return c->graph->ops[op].type == &bgi_op_load;
}

static bool is_hoisted(const bgi_compiler *c, uint32_t op)
{
    const bgi_value *state = bgi_graph_value(c->graph, c->graph->ops[op].inputs[0]);

    return !location_of(c, BG_LOCATION_STATE, state).on_demand;
}

/* places[p]: before which op of the segment op p goes; its own place unless it is a load that is hoisted. `readers`: by
 * value, 1 + place of the op that reads a loaded one. */
static void choose_places(const bgi_compiler *c, const bgi_segment *segment, uint32_t *readers, uint32_t *places)
{
    uint32_t *before = places; /* first: the last reader of any load before op p, 1 + its place */
    uint32_t last = 0;

    for (uint32_t p = 0; p < segment->op_count; p++)
        if (is_load(c, segment->ops[p]))
            readers[c->graph->ops[segment->ops[p]].outputs[0].id] = 0;
    for (uint32_t p = 0; p < segment->op_count; p++) {
        const bgi_op *op = &c->graph->ops[segment->ops[p]];
        before[p] = last;
        for (uint32_t i = 0; i < op->input_count && op->type != &bgi_op_store; i++) {
            const bgi_value *value = bgi_graph_value(c->graph, op->inputs[i]);
            if (value->kind == BGI_VALUE_RESULT && is_load(c, value->op)) {
                readers[op->inputs[i].id] = p + 1;
                last = p + 1;
            }
        }
    }
    for (uint32_t p = 0; p < segment->op_count; p++) {
        const uint32_t op = segment->ops[p];
        const uint32_t reader = is_load(c, op) ? readers[c->graph->ops[op].outputs[0].id] : 0;
        const uint32_t one_earlier = reader > 0 ? before[p] : 0;
        places[p] = one_earlier > 0 && is_hoisted(c, op) ? one_earlier - 1 : p;
    }
}

static bg_status hoist_segment(bgi_compiler *c, bgi_segment *segment, uint32_t *readers, bg_error *error)
{
    const uint32_t count = segment->op_count;
    uint32_t *ops = bgi_arena_take(&c->partition.arena, count, sizeof *ops);
    uint32_t *places = bgi_arena_take(&c->scratch, count, sizeof *places);
    uint32_t at = 0, next = 0; /* next: load that may be hoisted */

    if (ops == NULL || places == NULL)
        return bgi_error_memory(error, "loads of state", count * sizeof *ops);
    choose_places(c, segment, readers, places);
    /* Hoisted loads keep their order, and so do their new places. */
    for (uint32_t p = 0; p < count; p++) {
        for (; next < count && (places[next] == next || places[next] == p); next++)
            if (places[next] != next)
                ops[at++] = segment->ops[next];
        if (places[p] == p)
            ops[at++] = segment->ops[p];
    }
    segment->ops = ops;
    return BG_OK;
}

bg_status bgi_hoist_loads(bgi_compiler *c, bg_error *error)
{
    uint32_t *readers = bgi_arena_take(&c->scratch, c->graph->value_count, sizeof *readers);

    if (readers == NULL)
        return bgi_error_memory(error, "loads of state", c->graph->value_count * sizeof *readers);
    for (uint32_t s = 0; s < c->partition.segment_count; s++) {
        bgi_segment *segment = &c->partition.segments[s];
        bool has_loads = false;
        for (uint32_t p = 0; p < segment->op_count; p++)
            has_loads = has_loads || is_load(c, segment->ops[p]);
        if (has_loads)
            BGI_TRY(hoist_segment(c, segment, readers, error));
    }
    return BG_OK;
}
