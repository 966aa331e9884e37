/*
 * sharding.c: lets replicas share the weight update: each keeps the optimizer's state of one piece and updates that
 * piece.
 *
 *     n elements over R replicas: R pieces of ceil(n / R), the last ones padded
 *
 *                    sum of gradients          state                   weights
 *     whole          everywhere, all           everywhere, all         everywhere, all
 *     in pieces      replica r: piece r        replica r: piece r      replica r updates piece r, then all are gathered
 *
 * Needs: a complete training graph. Does: marks the ops that run on pieces (the update, its loads, stores and
 * refreshes, sums of accumulators before it), the values that have pieces, and the values of which a replica has only
 * its piece. The plan gives marked ops operands of one piece. Keeps: the graph, the types of whole tensors, and every
 * number, because all marked ops work element by element. LAMB's norms are sums over exactly these pieces, whether an
 * op has one piece or all.
 *
 * An update is shared only when every op of the update that touches its weights and state works element by element. The
 * squares of a gradient's pieces (clipping.c) are summed where the piece is, and values that are not finite are counted
 * there (loss_scaling.c). A gradient that another op reads as a whole is still summed as a whole on all replicas.
 */
#include "transform/transform.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/error.h"
#include "kernels/accumulate/attributes.h"
#include "kernels/loss_scaling/attributes.h"
#include "ops/ops.h"

/* The positions of an update op's operands. */
enum { PARAMETER = 0, GRADIENT, FIRST_STATE = 4 };

/* The uses of a value are the ops that have it as an operand, in order; an op is listed once for each such operand.
 * Checks of an update look only at these uses, so their time does not depend on the size of the graph. */
typedef struct bgi_sharder {
    bg_graph *graph;
    const bg_options *options;
    bgi_arena scratch;
    uint32_t *first_use; /* by value, with one more entry: where its uses begin */
    uint32_t *uses;      /* the uses of all values, as indices of ops */
    uint32_t *returned;  /* by value: how many outputs of the graph it is */
    uint32_t *member_of; /* by value: index + 1 of the last update whose weights or state it was; 0: no update */
    uint32_t *members;   /* values of the current update */
    size_t member_count;
} bgi_sharder;

static bool is_update(const bgi_op *op)
{
    return op->phase == BGI_PHASE_UPDATE &&
           (op->type == &bgi_op_sgd_update || op->type == &bgi_op_adam_update || op->type == &bgi_op_rmsprop_update ||
            op->type == &bgi_op_lamb_moments || op->type->is_elementwise_update);
}

/* Returns whether `op` is the second half of a LAMB update. */
static bool completes(const bgi_op *op, const bgi_op *update)
{
    return op->type == &bgi_op_lamb_update && op->inputs[PARAMETER].id == update->inputs[PARAMETER].id;
}

/* Returns whether the op only copies elements between operands of one shape. */
static bool is_move(const bgi_op *op)
{
    return op->phase == BGI_PHASE_UPDATE &&
           (op->type == &bgi_op_load || op->type == &bgi_op_store || op->type == &bgi_op_refresh);
}

static uint32_t operand_count(const bgi_op *op)
{
    return op->input_count + op->output_count;
}

static bg_value operand_at(const bgi_op *op, uint32_t i)
{
    return i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
}

static int64_t count_elements(const bg_graph *graph, bg_value value)
{
    return bg_type_element_count(&bgi_graph_value(graph, value)->type);
}

/* ---- uses ---- */

static bg_status find_uses(bgi_sharder *s, bg_error *error)
{
    const bg_graph *graph = s->graph;
    size_t operands = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        operands += operand_count(&graph->ops[o]);
    s->first_use = bgi_arena_allocate(&s->scratch, graph->value_count + 2, sizeof *s->first_use);
    s->uses = bgi_arena_allocate(&s->scratch, operands + 1, sizeof *s->uses);
    s->returned = bgi_arena_allocate(&s->scratch, graph->value_count, sizeof *s->returned);
    s->member_of = bgi_arena_allocate(&s->scratch, graph->value_count, sizeof *s->member_of);
    s->members = bgi_arena_allocate(&s->scratch, graph->value_count, sizeof *s->members);
    if (s->first_use == NULL || s->uses == NULL || s->returned == NULL || s->member_of == NULL || s->members == NULL)
        return bgi_error_memory(error, "sharding", (4 * graph->value_count + operands) * sizeof *s->uses);
    /* Counts are stored at index + 2, because filling the lists moves each beginning to the index before it. */
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < operand_count(&graph->ops[o]); i++)
            s->first_use[operand_at(&graph->ops[o], i).id + 2]++;
    for (size_t v = 2; v < graph->value_count + 2; v++)
        s->first_use[v] += s->first_use[v - 1];
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < operand_count(&graph->ops[o]); i++)
            s->uses[s->first_use[operand_at(&graph->ops[o], i).id + 1]++] = (uint32_t)o;
    for (size_t i = 0; i < graph->output_count; i++)
        s->returned[graph->outputs[i].value.id]++;
    return BG_OK;
}

#define FOR_USES(s, value, use)                                                                                        \
    for (uint32_t use = (s)->first_use[(value).id]; use < (s)->first_use[(value).id + 1]; use++)

/* ---- which updates ---- */

static bool has_state(const bgi_op *update)
{
    return update->input_count > FIRST_STATE;
}

/* Refuses sharded accumulators with state that is not sharded: a replica that gets only the sum of a piece can update
 * only the state of that piece. */
static bg_status check_state(const bg_graph *graph, const bg_options *options, bg_error *error)
{
    if (!options->memory.locations[BG_LOCATION_ACCUMULATORS].sharded ||
        options->memory.locations[BG_LOCATION_STATE].sharded)
        return BG_OK;
    for (size_t o = 0; o < graph->op_count; o++)
        if (is_update(&graph->ops[o]) && has_state(&graph->ops[o]))
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "options: accumulators are sharded, but the optimizer's state is not; a replica that gets the "
                "gradients of a piece can keep only the state of that piece: shard the state too");
    return BG_OK;
}

static bool is_wanted(const bgi_sharder *s, const bgi_op *op)
{
    const bgi_value *value = bgi_graph_value(s->graph, op->inputs[has_state(op) ? FIRST_STATE : GRADIENT]);

    /* A loaded value counts as its state, and a sum of accumulators as its first accumulator. */
    while (value->kind == BGI_VALUE_RESULT)
        value = bgi_graph_value(s->graph, s->graph->ops[value->op].inputs[0]);
    return count_elements(s->graph, op->inputs[PARAMETER]) > 1 && /* a piece must be less than the whole */
           bgi_find_location(s->options, has_state(op) ? BG_LOCATION_STATE : BG_LOCATION_ACCUMULATORS, value->name,
                             count_elements(s->graph, op->inputs[PARAMETER]))
               .sharded;
}

static bool is_member(const bgi_sharder *s, uint32_t update, bg_value value)
{
    return s->member_of[value.id] == update + 1;
}

static void add_member(bgi_sharder *s, uint32_t update, bg_value value)
{
    if (bg_value_is_null(value) || is_member(s, update, value))
        return;
    s->member_of[value.id] = update + 1;
    s->members[s->member_count++] = value.id;
}

/* Makes the update's weights and state its members, together with the values that they are copied from and to. */
static void collect_members(bgi_sharder *s, uint32_t update)
{
    const bg_graph *graph = s->graph;
    const bgi_op *op = &graph->ops[update];

    s->member_count = 0;
    add_member(s, update, op->inputs[PARAMETER]);
    for (uint32_t i = FIRST_STATE; i < op->input_count; i++)
        add_member(s, update, op->inputs[i]);
    for (size_t m = 0; m < s->member_count; m++)
        FOR_USES(s, (bg_value){s->members[m]}, use)
        {
            const bgi_op *move = &graph->ops[s->uses[use]];

            for (uint32_t i = 0; is_move(move) && i < operand_count(move); i++)
                add_member(s, update, operand_at(move, i));
        }
}

static bool is_input(const bgi_op *op, bg_value value)
{
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i].id == value.id)
            return true;
    return false;
}

/* Returns whether, in the update phase, only the update itself and copies touch the members, and no op of another phase
 * touches the state. */
static bool has_only_elementwise(const bgi_sharder *s, uint32_t update)
{
    const bg_graph *graph = s->graph;

    for (size_t m = 0; m < s->member_count; m++) {
        const bg_value member = {s->members[m]};
        const bgi_value *value = bgi_graph_value(graph, member);
        const bool is_weights = value->kind == BGI_VALUE_VARIABLE && value->role != BG_ROLE_STATE;

        FOR_USES(s, member, use)
        {
            const bgi_op *op = &graph->ops[s->uses[use]];

            if (s->uses[use] == update || is_move(op) || completes(op, &graph->ops[update]) || !is_input(op, member))
                continue;
            if (op->phase == BGI_PHASE_UPDATE || !is_weights)
                return false;
        }
    }
    return true;
}

/* ---- marks ---- */

static void mark_value(bgi_sharder *s, bg_value value, bool is_piece)
{
    bgi_value *marked = &s->graph->values[value.id];
    const uint32_t replicas = bgi_graph_data_replicas(s->graph, s->options->replicas.count);

    marked->piece = (bg_type_element_count(&marked->type) + replicas - 1) / replicas;
    marked->is_piece |= is_piece;
}

/* Returns whether the op is a sum of squares for each replica's piece, or a count over the piece of a replica. */
static bool sums_pieces(const bgi_sharder *s, const bgi_op *op)
{
    const bgi_square_sum_attributes *squares = op->attributes;
    const bgi_range_count_attributes *counts = op->attributes;
    const uint32_t pieces = op->type == &bgi_op_square_sum    ? squares->pieces
                            : op->type == &bgi_op_range_count ? counts->pieces
                                                              : 0;

    return op->phase == BGI_PHASE_UPDATE && pieces == bgi_graph_data_replicas(s->graph, s->options->replicas.count);
}

/* Returns whether exactly one op other than sums of squares and counts of pieces reads the value. */
static bool is_read_in_pieces(const bgi_sharder *s, bg_value value)
{
    uint32_t reads = s->returned[value.id];

    FOR_USES(s, value, use)
    reads += !sums_pieces(s, &s->graph->ops[s->uses[use]]);
    return reads - (bgi_graph_value(s->graph, value)->kind == BGI_VALUE_RESULT) == 1; /* without the op that makes it */
}

static void mark_sums(bgi_sharder *s, bg_value gradient)
{
    FOR_USES(s, gradient, use)
    {
        bgi_op *op = &s->graph->ops[s->uses[use]];

        if (sums_pieces(s, op) && op->inputs[0].id == gradient.id)
            op->is_sharded = true;
    }
}

/* Marks sums of accumulators as made of pieces when only this update, its norm and its counts read them. */
static void mark_gradient(bgi_sharder *s, bg_value gradient)
{
    const bgi_value *value = bgi_graph_value(s->graph, gradient);
    bgi_op *op = value->kind == BGI_VALUE_RESULT ? &s->graph->ops[value->op] : NULL;
    const bool has_scales = op != NULL && op->type == &bgi_op_scaled_sum;
    const bool is_sum = op != NULL && (op->type == &bgi_op_add_n || has_scales) && op->phase == BGI_PHASE_UPDATE &&
                        is_read_in_pieces(s, gradient);

    mark_value(s, gradient, is_sum);
    if (!is_sum)
        return;
    op->is_sharded = true;
    for (uint32_t i = 0; i < op->input_count; i += has_scales ? 2 : 1)
        mark_gradient(s, op->inputs[i]);
}

static void mark_update(bgi_sharder *s, uint32_t update)
{
    bg_graph *graph = s->graph;

    graph->ops[update].is_sharded = true;
    mark_gradient(s, graph->ops[update].inputs[GRADIENT]);
    mark_sums(s, graph->ops[update].inputs[GRADIENT]);
    for (size_t m = 0; m < s->member_count; m++) {
        const bg_value member = {s->members[m]};
        const bgi_value *value = bgi_graph_value(graph, member);

        mark_value(s, member, value->kind == BGI_VALUE_RESULT || value->role == BG_ROLE_STATE);
        FOR_USES(s, member, use)
        {
            bgi_op *op = &graph->ops[s->uses[use]];

            if (completes(op, &graph->ops[update]) || is_move(op))
                op->is_sharded = true;
        }
    }
}

static void mark_whole_reads(bg_graph *graph)
{
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        for (uint32_t i = 0; op->phase == BGI_PHASE_UPDATE && !op->is_sharded && i < op->input_count; i++)
            if (bgi_graph_value(graph, op->inputs[i])->piece > 0)
                graph->values[op->inputs[i].id].is_read_whole = true;
    }
}

/* ---- the pass ---- */

static void warn(const bg_options *options, const char *text)
{
    if (options->reporting.log != NULL)
        options->reporting.log(options->reporting.log_user, BG_LOG_WARNING, text);
}

static void warn_of_whole(const bgi_sharder *s, uint32_t update)
{
    char text[320];

    snprintf(text, sizeof text,
             "the optimizer's state of `%s` is not sharded: the update reads its whole weights or state",
             bg_graph_name(s->graph, s->graph->ops[update].inputs[PARAMETER]));
    warn(s->options, text);
}

bool bgi_asks_for_pieces(const bg_options *options, uint32_t classes)
{
    bool asks = false;

    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++)
        asks = asks || (options->memory.locations[k].sharded && (classes >> k & 1) != 0);
    for (uint32_t i = 0; i < options->memory.location_rule_count; i++)
        asks = asks || (options->memory.location_rules[i].location.sharded &&
                        (options->memory.location_rules[i].classes & classes) != 0);
    return asks;
}

void bgi_warn_of_one_replica(const bg_graph *graph, const bg_options *options, bool training)
{
    const uint32_t weights = 1u << BG_LOCATION_WEIGHTS, activations = 1u << BG_LOCATION_ACTIVATIONS;

    if (bgi_graph_data_replicas(graph, options->replicas.count) == 1 &&
        bgi_asks_for_pieces(options, training ? UINT32_MAX & ~activations : weights))
        warn(options, "sharding over replicas has no effect: there is 1 data-parallel replica");
}

static bg_status shard(bgi_sharder *s, bg_error *error)
{
    const bg_graph *graph = s->graph;

    BGI_TRY(find_uses(s, error));
    for (uint32_t o = 0; o < graph->op_count; o++) {
        if (!is_update(&graph->ops[o]) || !is_wanted(s, &graph->ops[o]))
            continue;
        collect_members(s, o);
        if (has_only_elementwise(s, o))
            mark_update(s, o);
        else
            warn_of_whole(s, o);
    }
    mark_whole_reads(s->graph);
    return BG_OK;
}

bg_status bgi_shard_updates(bg_graph *graph, const bg_options *options, bg_error *error)
{
    bgi_sharder s = {.graph = graph, .options = options};
    bg_status status;

    if (!bgi_asks_for_pieces(options, 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS))
        return BG_OK;
    BGI_TRY(check_state(graph, options, error));
    if (bgi_graph_data_replicas(graph, options->replicas.count) == 1)
        return BG_OK;
    status = shard(&s, error);
    bgi_arena_clear(&s.scratch);
    return status;
}
