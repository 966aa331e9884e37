/*
 * sharding.c: replicas share the weight update out: each keeps the optimiser's state of one piece and updates that.
 *
 *     n elements over R replicas: R pieces of ceil(n / R), the last ones padded
 *
 *                    sum of gradients          state                   weights
 *     whole          everywhere, all           everywhere, all         everywhere, all
 *     in pieces      replica r: piece r        replica r: piece r      replica r updates piece r, then all are gathered
 *
 * needs: a training graph that nothing is added to any more. does: marks the ops that run on pieces (the update, what
 * loads, stores and refreshes around it, sums of accumulators before it), the values that have pieces, and those of
 * which a replica has its piece only. The plan gives marked ops operands of one piece. keeps: the graph and its types,
 * which are those of the whole; every number, because all marked ops work element by element (LAMB's norms are sums
 * over just these pieces, however many of them an op has).
 *
 * An update is shared out only when every op of the update that touches its weights and state works element by element.
 * A gradient that another op reads as a whole (a norm, say) is still summed for all: that op's business alone.
 */
#include "transform/transform.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/error.h"
#include "ops/ops.h"

/* Operands of all updates. */
enum { PARAMETER = 0, GRADIENT, FIRST_STATE = 4 };

typedef struct bgi_sharder {
    bg_graph *graph;
    const bg_options *options;
    bgi_arena scratch;
    uint32_t *member_of; /* by value: index + 1 of the update whose weights or state it is; 0: none */
} bgi_sharder;

static bool is_update(const bgi_op *op)
{
    return op->phase == BGI_PHASE_UPDATE && (op->type == &bgi_op_sgd_update || op->type == &bgi_op_adam_update ||
                                             op->type == &bgi_op_rmsprop_update || op->type == &bgi_op_lamb_moments);
}

/* LAMB's second half. */
static bool completes(const bgi_op *op, const bgi_op *update)
{
    return op->type == &bgi_op_lamb_update && op->inputs[PARAMETER].id == update->inputs[PARAMETER].id;
}

/* All operands have one shape, and elements go straight through. */
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

/* ---- which updates ---- */

static bool has_state(const bgi_op *update)
{
    return update->input_count > FIRST_STATE;
}

/* Who gets the sum of a piece only can update that piece only, so the state that goes with it is in pieces too. */
static bg_status check_state(const bg_graph *graph, const bg_options *options, bg_error *error)
{
    if (!options->locations[BG_LOCATION_ACCUMULATORS].sharded || options->locations[BG_LOCATION_STATE].sharded)
        return BG_OK;
    for (size_t o = 0; o < graph->op_count; o++)
        if (is_update(&graph->ops[o]) && has_state(&graph->ops[o]))
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "options: accumulators are sharded and the optimiser's state is not; a replica that gets "
                "the gradients of a piece can keep the state of that piece only: shard the state too");
    return BG_OK;
}

static bool is_wanted(const bgi_sharder *s, const bgi_op *op)
{
    const bgi_value *value = bgi_graph_value(s->graph, op->inputs[has_state(op) ? FIRST_STATE : GRADIENT]);

    if (has_state(op) && value->kind == BGI_VALUE_RESULT) /* what was loaded has the state's name */
        value = bgi_graph_value(s->graph, s->graph->ops[value->op].inputs[0]);
    return count_elements(s->graph, op->inputs[PARAMETER]) > 1 && /* a piece is less than all */
           bgi_find_location(s->options, has_state(op) ? BG_LOCATION_STATE : BG_LOCATION_ACCUMULATORS, value->name,
                             count_elements(s->graph, op->inputs[PARAMETER]))
               .sharded;
}

/* Makes the update's weights and state its members, and whatever they are moved from and to. */
static void collect_members(bgi_sharder *s, uint32_t update)
{
    const bg_graph *graph = s->graph;
    const bgi_op *op = &graph->ops[update];
    bool has_grown = true;

    s->member_of[op->inputs[PARAMETER].id] = update + 1;
    for (uint32_t i = FIRST_STATE; i < op->input_count; i++)
        s->member_of[op->inputs[i].id] = update + 1;
    while (has_grown) {
        has_grown = false;
        for (size_t o = 0; o < graph->op_count; o++) {
            const bgi_op *move = &graph->ops[o];
            uint32_t touched = 0;
            for (uint32_t i = 0; is_move(move) && i < operand_count(move); i++)
                touched += s->member_of[operand_at(move, i).id] == update + 1;
            if (touched == 0 || touched == operand_count(move))
                continue;
            for (uint32_t i = 0; i < operand_count(move); i++)
                s->member_of[operand_at(move, i).id] = update + 1;
            has_grown = true;
        }
    }
}

/* Nothing but the update itself and moves touches the members in the update; state is touched nowhere else at all. */
static bool has_only_elementwise(const bgi_sharder *s, uint32_t update)
{
    const bg_graph *graph = s->graph;

    for (uint32_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        if (o == update || is_move(op) || completes(op, &graph->ops[update]))
            continue;
        for (uint32_t i = 0; i < op->input_count; i++) {
            const bgi_value *value = bgi_graph_value(graph, op->inputs[i]);
            const bool is_weights = value->kind == BGI_VALUE_VARIABLE && value->role != BG_ROLE_STATE;
            if (s->member_of[op->inputs[i].id] == update + 1 && (op->phase == BGI_PHASE_UPDATE || !is_weights))
                return false;
        }
    }
    return true;
}

/* ---- marks ---- */

static void mark_value(bgi_sharder *s, bg_value value, bool is_piece)
{
    bgi_value *marked = &s->graph->values[value.id];
    const uint32_t replicas = bgi_graph_data_replicas(s->graph, s->options->replicas);

    marked->piece = (bg_type_element_count(&marked->type) + replicas - 1) / replicas;
    marked->is_piece |= is_piece;
}

static bool is_read_once(const bg_graph *graph, bg_value value)
{
    uint32_t reads = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            reads += graph->ops[o].inputs[i].id == value.id;
    for (size_t i = 0; i < graph->output_count; i++)
        reads += graph->outputs[i].value.id == value.id;
    return reads == 1;
}

/* Sums of accumulators that serve this update alone are made of pieces too. */
static void mark_gradient(bgi_sharder *s, bg_value gradient)
{
    const bgi_value *value = bgi_graph_value(s->graph, gradient);
    bgi_op *op = value->kind == BGI_VALUE_RESULT ? &s->graph->ops[value->op] : NULL;
    const bool is_sum =
        op != NULL && op->type == &bgi_op_add_n && op->phase == BGI_PHASE_UPDATE && is_read_once(s->graph, gradient);

    mark_value(s, gradient, is_sum);
    if (!is_sum)
        return;
    op->is_sharded = true;
    for (uint32_t i = 0; i < op->input_count; i++)
        mark_gradient(s, op->inputs[i]);
}

static void mark_update(bgi_sharder *s, uint32_t update)
{
    bg_graph *graph = s->graph;

    graph->ops[update].is_sharded = true;
    mark_gradient(s, graph->ops[update].inputs[GRADIENT]);
    for (uint32_t v = 1; v < graph->value_count; v++)
        if (s->member_of[v] == update + 1)
            mark_value(s, (bg_value){v},
                       graph->values[v].kind == BGI_VALUE_RESULT || graph->values[v].role == BG_ROLE_STATE);
    for (size_t o = 0; o < graph->op_count; o++)
        if (completes(&graph->ops[o], &graph->ops[update]) ||
            (is_move(&graph->ops[o]) && s->member_of[graph->ops[o].inputs[0].id] == update + 1))
            graph->ops[o].is_sharded = true;
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
    if (options->log != NULL)
        options->log(options->log_user, BG_LOG_WARNING, text);
}

static void warn_of_whole(const bgi_sharder *s, uint32_t update)
{
    char text[320];

    snprintf(text, sizeof text,
             "the optimiser's state of `%s` is not sharded: the update reads the whole of its weights or state",
             bg_graph_name(s->graph, s->graph->ops[update].inputs[PARAMETER]));
    warn(s->options, text);
}

bool bgi_asks_for_pieces(const bg_options *options, uint32_t classes)
{
    bool asks = false;

    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++)
        asks = asks || (options->locations[k].sharded && (classes >> k & 1) != 0);
    for (uint32_t i = 0; i < options->location_rule_count; i++)
        asks = asks ||
               (options->location_rules[i].location.sharded && (options->location_rules[i].classes & classes) != 0);
    return asks;
}

void bgi_warn_of_one_replica(const bg_graph *graph, const bg_options *options, bool training)
{
    const uint32_t weights = 1u << BG_LOCATION_WEIGHTS, activations = 1u << BG_LOCATION_ACTIVATIONS;

    if (bgi_graph_data_replicas(graph, options->replicas) == 1 &&
        bgi_asks_for_pieces(options, training ? UINT32_MAX & ~activations : weights))
        warn(options, "sharding over replicas has no effect: there is 1 replica");
}

bg_status bgi_shard_updates(bg_graph *graph, const bg_options *options, bg_error *error)
{
    bgi_sharder s = {.graph = graph, .options = options};

    if (!bgi_asks_for_pieces(options, 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS))
        return BG_OK;
    BGI_TRY(check_state(graph, options, error));
    if (bgi_graph_data_replicas(graph, options->replicas) == 1)
        return BG_OK;
    s.member_of = bgi_arena_take(&s.scratch, graph->value_count, sizeof *s.member_of);
    if (s.member_of == NULL)
        return bgi_error_memory(error, "sharding", graph->value_count * sizeof *s.member_of);
    for (uint32_t o = 0; o < graph->op_count; o++) {
        if (!is_update(&graph->ops[o]) || !is_wanted(&s, &graph->ops[o]))
            continue;
        collect_members(&s, o);
        if (has_only_elementwise(&s, o))
            mark_update(&s, o);
        else
            warn_of_whole(&s, o);
    }
    mark_whole_reads(graph);
    bgi_arena_clear(&s.scratch);
    return BG_OK;
}
