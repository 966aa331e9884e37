/*
 * offload.c: decides which values of a plan are remote. It does not choose places in arenas (windows.c does) and writes
 * no transfers (transfers.c does).
 *
 *     weights, accumulators   Those of a stage and class that are loaded in the same way are one buffer of the
 *                             schedule. Each replica's store has a piece of sharded weights. A stage that copies
 *                             weights of another stage on the same device has a buffer that is loaded from there and
 *                             never stored.
 *     activations             These are edges on one device that hold more micro-batches than a remote edge has slots.
 *                             If replicas along a tensor axis have the same values, each may keep a piece of a slot. An
 *                             edge that both the forward and the backward pass of a stage read is cut in two edges, and
 *                             its values are stored once:
 *
 *                                 F(k-1) ==x==> F(k) B(k)     =>     F(k-1) ==x==> F(k) ==x==> B(k)
 *
 *                             The values that F(k-1) stored are loaded for F(k) and again for B(k).
 *
 *     optimizer state         It needs no buffer: the update loads and stores it, one variable after another.
 *
 * The edges for which a remote store pays off are known only with a schedule. So the schedule is made first without
 * remote edges, and made again with them until nothing changes.
 */
#include "plan/compile.h"

#include <stdio.h>

#include "core/error.h"
#include "plan/log.h"

/* The producer of a remote edge has two slots, because it writes one while the other is being stored. */
enum { PRODUCER_SLOTS = 2 };

static bool is_preloaded(const bgi_compiler *c, const bg_tensor_location *location)
{
    return !location->on_demand && (c->plan->options.memory.phase_liveness == BG_LIVE_ALWAYS ||
                                    c->plan->options.memory.phase_liveness == BG_LIVE_OFF_CHIP_AFTER_FWD);
}

static bg_residency find_residency(const bg_options *options)
{
    switch (options->memory.phase_liveness) {
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
    case BG_ROLE_BUFFER: /* the graph's own remote buffers are used entry by entry, without a window */
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

static void find_writers(bgi_compiler *c)
{
    for (size_t v = 0; v < c->graph->value_count; v++)
        c->residency->writer_stage[v] = UINT32_MAX;
    for (size_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++)
            if (bgi_op_type_changes(c->graph->ops[o].type, i, c->plan->training))
                c->residency->writer_stage[c->graph->ops[o].inputs[i].id] = c->partition->op_stages[o];
}

/* Finds the stage that may load and store each variable: the stage that writes it or, if no op writes it, the only
 * stage that reads it. A variable that several stages read and no op writes stays on each of their devices (UINT32_MAX
 * - 1). */
static void find_owners(const bgi_compiler *c, uint32_t *owners)
{
    for (uint32_t v = 0; v < c->graph->value_count; v++)
        owners[v] = c->residency->writer_stage[v];
    for (uint32_t o = 0; o < c->graph->op_count; o++)
        for (uint32_t i = 0; i < c->graph->ops[o].input_count; i++) {
            const uint32_t root = c->partition->roots[c->graph->ops[o].inputs[i].id].id;
            if (c->residency->writer_stage[root] != UINT32_MAX)
                continue;
            if (owners[root] == UINT32_MAX)
                owners[root] = c->partition->op_stages[o];
            else if (owners[root] != c->partition->op_stages[o])
                owners[root] = UINT32_MAX - 1;
        }
}

/* Finds or adds the buffer for a stage's variables that are loaded in the same way. `known`: 1 + the buffer, by stage,
 * `is_fresh` and `preload`. */
static uint32_t find_buffer(bgi_compiler *c, uint32_t *known, uint32_t stage, bool is_fresh, bool preload)
{
    uint32_t *of = &known[4 * (size_t)stage + 2 * is_fresh + preload];

    if (*of == 0) {
        c->residency->buffers[c->residency->buffer_count] =
            (bg_schedule_buffer){.stage = stage,
                                 .starts_fresh = is_fresh,
                                 .preload = preload,
                                 .residency = find_residency(&c->plan->options)};
        *of = ++c->residency->buffer_count;
    }
    return *of - 1;
}

/* Adds the buffer of a copy. A copy is loaded from the home of its original, so its buffer holds only the copy and is
 * never written. */
static uint32_t add_copy_buffer(bgi_compiler *c, uint32_t stage, bool preload)
{
    c->residency->buffers[c->residency->buffer_count] =
        (bg_schedule_buffer){.stage = stage, .preload = preload, .residency = find_residency(&c->plan->options)};
    return c->residency->buffer_count++;
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
            const uint32_t root = c->partition->roots[c->graph->ops[o].inputs[i].id].id;
            const bgi_segment *segment = &c->partition->segments[c->partition->op_segments[o]];
            bg_schedule_buffer *buffer;
            if (c->residency->buffer_of[root] == BGI_NO_BUFFER)
                continue;
            buffer = &c->residency->buffers[c->residency->buffer_of[root]];
            if (segment->stage != buffer->stage)
                continue; /* an edge carries the value */
            buffer->reads |= 1u << bgi_action_of_segment(segment->kind);
            if (segment->kind == BGI_SEGMENT_UPDATE)
                add_level(buffer, segment->level);
            if (bgi_op_type_changes(c->graph->ops[o].type, i, c->plan->training))
                buffer->writes |= 1u << bgi_action_of_segment(segment->kind);
        }
    /* Other stages get the value of a variable from the update, at the level that writes it. The sum over replicas,
     * before the update, writes gradients. */
    for (uint32_t i = 0; i < c->partition->crossing_count; i++) {
        const bgi_crossing *crossing = &c->partition->crossings[i];
        if (c->residency->buffer_of[crossing->value.id] == BGI_NO_BUFFER)
            continue;
        c->residency->buffers[c->residency->buffer_of[crossing->value.id]].reads |= 1u << BG_ACTION_UPDATE;
        add_level(&c->residency->buffers[c->residency->buffer_of[crossing->value.id]],
                  c->partition->segments[crossing->from_segment].level);
    }
    for (uint32_t b = 0; b < c->residency->buffer_count; b++)
        if (c->residency->buffers[b].starts_fresh && bgi_plan_data_replicas(c->plan) > 1) {
            c->residency->buffers[b].writes |= 1u << BG_ACTION_REDUCE;
            if (!bgi_reduces_in_backward(c->plan))
                add_level(&c->residency->buffers[b], 0); /* the sum precedes the update */
        }
    /* Replicas exchange their pieces of a gathered variable after the last level of the update. */
    for (uint32_t v = 1; v < c->graph->value_count; v++)
        if (c->residency->buffer_of[v] != BGI_NO_BUFFER && bgi_is_gathered(c, v)) {
            c->residency->buffers[c->residency->buffer_of[v]].writes |= 1u << BG_ACTION_GATHER;
            c->residency->buffers[c->residency->buffer_of[v]].update_levels = 0;
        }
}

/* Returns the number of elements of the piece of a parameter that each replica keeps (all replicas have the same
 * parameters); 0: each keeps the whole. Buffers of the graph have no pieces, because they differ between replicas. */
static int64_t count_piece(const bgi_compiler *c, const bgi_value *value)
{
    const uint32_t replicas = bgi_plan_data_replicas(c->plan);

    return replicas > 1 ? (bg_type_element_count(&value->type) + replicas - 1) / replicas : 0;
}

/* Makes all copies of a parameter whole if one of them is, because the copies are one variable of the plan.
 */
static void keep_copies_alike(bgi_compiler *c)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t v = 1; v < c->graph->value_count; v++) {
            const uint32_t original = c->graph->values[v].copy_of.id;
            if (original == 0)
                continue;
            if (c->residency->home_pieces[v] == 0)
                c->residency->home_pieces[original] = 0;
            if (c->residency->home_pieces[original] == 0)
                c->residency->home_pieces[v] = 0;
        }
}

static size_t count_shared_homes(const bgi_compiler *c)
{
    size_t count = 0;

    for (size_t v = 1; v < c->graph->value_count; v++)
        count += c->graph->values[v].shares_home;
    return count;
}

/* Puts a variable into a buffer, if it is remote. */
static void place_variable(bgi_compiler *c, uint32_t *known, uint32_t v, uint32_t owner)
{
    const bgi_value *value = &c->graph->values[v];
    const bgi_value *named = value->shares_home ? bgi_graph_value(c->graph, value->copy_of) : value;
    const bg_location_class location_class = location_class_of(value);
    bg_tensor_location location;

    if (value->kind != BGI_VALUE_VARIABLE || location_class == BG_LOCATION_COUNT || owner >= c->stages->stage_count)
        return;
    location = location_of(c, location_class, named);
    if (location.place != BG_PLACE_REMOTE)
        return;
    c->residency->buffer_of[v] =
        value->shares_home
            ? add_copy_buffer(c, owner, is_preloaded(c, &location))
            : find_buffer(c, known, owner, location_class == BG_LOCATION_ACCUMULATORS, is_preloaded(c, &location));
    if (value->role == BG_ROLE_PARAMETER && location.sharded)
        c->residency->home_pieces[v] = count_piece(c, value);
}

static void add_bytes(bg_schedule_buffer *buffer, size_t window_bytes, size_t home_bytes)
{
    buffer->size_bytes += bgi_align(window_bytes);
    buffer->store_bytes += bgi_align(home_bytes);
}

/* Finds the tensor axes along which replicas have the same activations, if activations are sharded. Replicas with
 * different samples never have the same ones. */
static bg_status find_equal_activations(bgi_compiler *c, bg_error *error)
{
    if (!bgi_asks_for_pieces(&c->plan->options, 1u << BG_LOCATION_ACTIVATIONS))
        return BG_OK;
    if (c->plan->tensor_1 * c->plan->tensor_2 <= 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "activations are sharded, but the model has no tensor-parallel replicas, the only ones "
                            "with equal activations; shard weights, accumulators or the optimizer's state instead");
    return bgi_find_equal_axes(c->graph, &c->scratch, &c->residency->equal_axes, error);
}

bg_status bgi_find_remote(bgi_compiler *c, bg_error *error)
{
    const size_t values = c->graph->value_count;
    uint32_t *owners = bgi_arena_allocate(&c->scratch, values, sizeof *owners);
    uint32_t *known = bgi_arena_allocate(&c->scratch, 4 * (size_t)c->stages->stage_count, sizeof *known);

    c->residency = bgi_arena_allocate(&c->scratch, 1, sizeof *c->residency);
    if (c->residency == NULL)
        return bgi_error_memory(error, "remote buffers", sizeof *c->residency);
    c->residency->writer_stage = bgi_arena_allocate(&c->scratch, values, sizeof *c->residency->writer_stage);
    c->residency->buffer_of = bgi_arena_allocate(&c->scratch, values, sizeof *c->residency->buffer_of);
    c->residency->home_pieces = bgi_arena_allocate(&c->scratch, values, sizeof *c->residency->home_pieces);
    c->residency->crossing_moves =
        bgi_arena_allocate(&c->scratch, c->partition->crossing_count, sizeof *c->residency->crossing_moves);
    /* A stage has up to four buffers (fresh or not, preloaded or not), a copy has one, and a crossing up to two. */
    c->residency->buffers = bgi_arena_allocate(&c->plan->arena,
                                               4 * (size_t)c->stages->stage_count + count_shared_homes(c) +
                                                   2 * (size_t)c->partition->crossing_count,
                                               sizeof *c->residency->buffers);
    if (owners == NULL || known == NULL || c->residency->writer_stage == NULL || c->residency->buffer_of == NULL ||
        c->residency->home_pieces == NULL || c->residency->crossing_moves == NULL || c->residency->buffers == NULL)
        return bgi_error_memory(error, "remote buffers", values * sizeof *owners);
    BGI_TRY(find_equal_activations(c, error));
    find_writers(c);
    find_owners(c, owners);
    for (uint32_t v = 0; v < values; v++)
        c->residency->buffer_of[v] = BGI_NO_BUFFER;
    /* Buffers of copies follow all others. */
    for (int are_copies = 0; are_copies < 2; are_copies++)
        for (uint32_t v = 1; v < values; v++)
            if (c->graph->values[v].shares_home == (are_copies != 0))
                place_variable(c, known, v, owners[v]);
    keep_copies_alike(c);
    for (uint32_t v = 1; v < values; v++)
        if (c->residency->buffer_of[v] != BGI_NO_BUFFER)
            add_bytes(&c->residency->buffers[c->residency->buffer_of[v]], bgi_window_bytes(c, v),
                      c->graph->values[v].shares_home ? 0 : bgi_home_bytes(c, v));
    c->residency->variable_buffer_count = c->residency->buffer_count;
    if (!bgi_buckets_fill(&c->residency->variables, &c->scratch, c->residency->buffer_count, values,
                          c->residency->buffer_of))
        return bgi_error_memory(error, "remote buffers", values * sizeof *owners);
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

    for (uint32_t i = 0; bgi_log_is_enabled(options) && i < options->memory.location_rule_count; i++) {
        const bg_location_rule *rule = &options->memory.location_rules[i];
        char text[256];
        if ((!c->plan->training && (rule->classes & of_training) != 0) || rule_has_match(c, rule))
            continue;
        snprintf(text, sizeof text,
                 "location_rules[%u] `%s` matches no tensor of its classes and does nothing; compare it with the "
                 "tensors' names",
                 i, rule->pattern);
        bgi_log(options, BG_LOG_WARNING, text);
    }
}

/* ---- gradients ---- */

/* How ops of the update read a variable. */
typedef struct update_readers {
    bool are_of_stage;   /* all readers are ops of the writer's stage */
    uint32_t last_whole; /* 1 + the last level at which an op reads the whole; 0: all read a piece */
} update_readers;

/* Sets found[value] for all values, in one pass over the ops. */
static void find_update_readers(const bgi_compiler *c, update_readers *found)
{
    for (uint32_t v = 0; v < c->graph->value_count; v++)
        found[v] = (update_readers){.are_of_stage = true};
    for (uint32_t o = 0; o < c->graph->op_count; o++) {
        const bgi_op *op = &c->graph->ops[o];
        const bgi_segment *segment = &c->partition->segments[c->partition->op_segments[o]];
        for (uint32_t i = 0; op->phase == BGI_PHASE_UPDATE && i < op->input_count; i++) {
            const uint32_t v = c->partition->roots[op->inputs[i].id].id;
            update_readers *readers = &found[v];
            readers->are_of_stage = readers->are_of_stage && segment->stage == c->residency->writer_stage[v];
            if (!op->is_sharded && segment->level + 1 > readers->last_whole)
                readers->last_whole = segment->level + 1;
        }
    }
}

/* The actions of each stage, as places in the concatenated lists of all devices. */
typedef struct stage_actions {
    bgi_buckets places;
    const bg_action **actions; /* by place */
} stage_actions;

static bg_status find_stage_actions(bgi_compiler *c, stage_actions *out, bg_error *error)
{
    const bg_schedule *schedule = c->plan->schedule;
    size_t total = 0, at = 0;
    uint32_t *stages;

    for (uint32_t d = 0; d < c->stages->device_count; d++)
        total += bg_schedule_action_count(schedule, d);
    stages = bgi_arena_allocate(&c->scratch, total, sizeof *stages);
    out->actions = bgi_arena_allocate(&c->scratch, total, sizeof(const bg_action *));
    if (stages == NULL || out->actions == NULL)
        return bgi_error_memory(error, "remote gradients", total * sizeof(const bg_action *));
    for (uint32_t d = 0; d < c->stages->device_count; d++)
        for (uint32_t i = 0; i < bg_schedule_action_count(schedule, d); i++, at++) {
            out->actions[at] = &bg_schedule_actions(schedule, d)[i];
            stages[at] = out->actions[at]->stage;
        }
    return bgi_buckets_fill(&out->places, &c->scratch, c->stages->stage_count, total, stages)
               ? BG_OK
               : bgi_error_memory(error, "remote gradients", total * sizeof *stages);
}

/* Returns whether the first LOAD of the buffer in a step comes after the REDUCE and after the ops that read the whole,
 * when a replica needs only its piece. */
static bool is_loaded_late(const bgi_compiler *c, const stage_actions *of, uint32_t buffer, uint32_t last_whole)
{
    uint32_t still_open = 1 + (last_whole > 0);

    BGI_FOR_BUCKET(of->places, c->residency->buffers[buffer].stage, at)
    {
        const bg_action *action = of->actions[of->places.items[at]];
        if (action->kind == BG_ACTION_LOAD && action->index == buffer)
            return still_open == 0;
        still_open -= action->kind == BG_ACTION_REDUCE;
        still_open -= action->kind == BG_ACTION_UPDATE && action->index + 1 == last_whole;
    }
    return true;
}

bg_status bgi_decide_gradient_pieces(bgi_compiler *c, bg_error *error)
{
    uint32_t last_buffer = BGI_NO_BUFFER, last_whole = 0; /* is_late is computed again only for another buffer or level;
                                                             the gradients of a buffer follow each other */
    bool is_late = false;
    update_readers *readers;
    stage_actions of_stage;

    if (bgi_plan_data_replicas(c->plan) <= 1 || !bgi_reduces_in_backward(c->plan))
        return BG_OK;
    readers = bgi_arena_allocate(&c->scratch, c->graph->value_count, sizeof *readers);
    if (readers == NULL)
        return bgi_error_memory(error, "remote gradients", c->graph->value_count * sizeof *readers);
    find_update_readers(c, readers);
    BGI_TRY(find_stage_actions(c, &of_stage, error));
    for (uint32_t v = 1; v < c->graph->value_count; v++) {
        const bgi_value *value = &c->graph->values[v];
        const uint32_t buffer = c->residency->buffer_of[v];
        if (buffer == BGI_NO_BUFFER || value->role != BG_ROLE_ACCUMULATOR || value->piece == 0 ||
            !readers[v].are_of_stage)
            continue;
        if (buffer != last_buffer || readers[v].last_whole != last_whole)
            is_late = is_loaded_late(c, &of_stage, buffer, readers[v].last_whole);
        last_buffer = buffer;
        last_whole = readers[v].last_whole;
        if (!is_late)
            continue;
        c->residency->buffers[buffer].store_bytes -= bgi_align(bgi_home_bytes(c, v));
        c->residency->home_pieces[v] = value->piece;
        c->residency->buffers[buffer].store_bytes += bgi_align(bgi_home_bytes(c, v));
    }
    return BG_OK;
}

/* ---- edges ---- */

bool bgi_activations_may_be_remote(const bg_options *options)
{
    for (uint32_t i = 0; i < options->memory.location_rule_count; i++)
        if ((options->memory.location_rules[i].classes >> BG_LOCATION_ACTIVATIONS & 1) != 0)
            return true;
    return bgi_find_location(options, BG_LOCATION_ACTIVATIONS, "", INT64_MAX).place == BG_PLACE_REMOTE;
}

bool bgi_crossing_is_preloaded(const bgi_compiler *c, uint32_t crossing)
{
    const bg_tensor_location location =
        location_of(c, BG_LOCATION_ACTIVATIONS, bgi_graph_value(c->graph, c->partition->crossings[crossing].value));

    return is_preloaded(c, &location);
}

uint8_t bgi_crossing_shard_axes(const bgi_compiler *c, uint32_t crossing)
{
    const bg_mesh mesh = bgi_plan_mesh(c->plan);
    const bg_value value = c->partition->crossings[crossing].value;
    uint32_t axes;

    if (c->residency->equal_axes == NULL ||
        !location_of(c, BG_LOCATION_ACTIVATIONS, bgi_graph_value(c->graph, value)).sharded)
        return 0;
    axes = c->residency->equal_axes[value.id];
    for (uint32_t axis = BG_MESH_TENSOR_1; axis <= BG_MESH_TENSOR_2; axis *= 2)
        axes = bg_mesh_group_size(&mesh, axis) > 1 ? axes : axes & ~axis;
    return (uint8_t)axes;
}

static uint32_t count_ring_slots(const bgi_compiler *c, uint32_t crossing)
{
    return PRODUCER_SLOTS + (bgi_crossing_is_preloaded(c, crossing) ? 2 : 1);
}

/* Whether, on the same device, more micro-batches wait for the stage's forward pass than are between its forward and
 * backward pass and in the slots of a remote edge. With phases this is the last stage, which has the loss. */
static bool waits_before_forward(const bgi_compiler *c, uint32_t i)
{
    const uint32_t edge = c->edges->routes[i].edge;
    const uint32_t kept = bg_schedule_stage_in_flight(c->plan->schedule, c->partition->crossings[i].to_stage);

    return c->plan->edges[edge].from_device == c->plan->edges[edge].to_device &&
           bg_schedule_edge_depth(c->plan->schedule, edge) > kept + count_ring_slots(c, i);
}

/* Decides how a crossing is remote; returns true when that has changed. */
static bool decide_crossing(bgi_compiler *c, uint32_t i)
{
    const bgi_crossing *crossing = &c->partition->crossings[i];
    const bgi_value *value = bgi_graph_value(c->graph, crossing->value);
    const bool is_kept = crossing->to_kind == BGI_SEGMENT_FORWARD && crossing->last_kind != BGI_SEGMENT_FORWARD;
    const uint32_t edge = c->edges->routes[i].edge;
    uint8_t *moves = &c->residency->crossing_moves[i];
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

    for (uint32_t i = 0; i < c->partition->crossing_count; i++)
        has_changed = decide_crossing(c, i) || has_changed;
    return has_changed;
}

void bgi_add_edge_buffers(bgi_compiler *c)
{
    c->residency->buffer_count = c->residency->variable_buffer_count;
    for (uint32_t e = 0; e < c->edges->count; e++)
        if (c->edges->facts[e].is_remote) {
            const uint32_t stored_by = c->edges->facts[e].stored_by; /* if not 0: 1 + an edge before this one */
            c->edges->facts[e].buffer = c->residency->buffer_count;
            c->residency->buffers[c->residency->buffer_count++] =
                (bg_schedule_buffer){.stage = c->edges->list[e].to_stage,
                                     .per_micro_batch = true,
                                     .edge = e,
                                     .slots = PRODUCER_SLOTS,
                                     .shares_store = stored_by != 0,
                                     .store_of = stored_by != 0 ? c->edges->facts[stored_by - 1].buffer : 0,
                                     .preload = c->edges->facts[e].is_preloaded,
                                     .size_bytes = c->edges->list[e].size_bytes};
        }
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

/* Sets places[p] to the op of the segment before which op p moves; it is p unless op p is a load that is hoisted.
 * `readers`: by value, 1 + the place of the op that reads the loaded value. */
static void choose_places(const bgi_compiler *c, const bgi_segment *segment, uint32_t *readers, uint32_t *places)
{
    uint32_t *before = places; /* first pass: 1 + the place of the last reader of any load before op p */
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
    uint32_t *ops = bgi_arena_allocate(&c->partition->arena, count, sizeof *ops);
    uint32_t *places = bgi_arena_allocate(&c->scratch, count, sizeof *places);
    uint32_t at = 0, next = 0; /* the first op that has not been checked for a hoisted load */

    if (ops == NULL || places == NULL)
        return bgi_error_memory(error, "loads of state", count * sizeof *ops);
    choose_places(c, segment, readers, places);
    /* Hoisted loads keep their order, because their new places ascend. */
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
    uint32_t *readers = bgi_arena_allocate(&c->scratch, c->graph->value_count, sizeof *readers);

    if (readers == NULL)
        return bgi_error_memory(error, "loads of state", c->graph->value_count * sizeof *readers);
    for (uint32_t s = 0; s < c->partition->segment_count; s++) {
        bgi_segment *segment = &c->partition->segments[s];
        bool has_loads = false;
        for (uint32_t p = 0; p < segment->op_count; p++)
            has_loads = has_loads || is_load(c, segment->ops[p]);
        if (has_loads)
            BGI_TRY(hoist_segment(c, segment, readers, error));
    }
    return BG_OK;
}
