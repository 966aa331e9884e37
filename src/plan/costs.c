/*
 * costs.c: estimates the cost of ops from a device model with three numbers, or from measured costs of blocks.
 *
 * Each estimate in a measured block is multiplied by measured / estimated time of its block and kind. So the ops keep
 * their proportions, and stages may still begin inside a measured block.
 */
#include "plan/costs.h"

#include <string.h>

#include "core/error.h"
#include "plan/compile.h"

#define KIND_COUNT ((size_t)BGI_SEGMENT_UPDATE) /* F, R, B, W */

typedef struct bgi_estimate {
    const bg_graph *graph;
    const bgi_partition *partition;
    double *sums;    /* by block and kind: the estimated time */
    double *factors; /* by block and kind: measured / estimated */
} bgi_estimate;

static double model_ns(const bg_cost *cost)
{
    const double compute = cost->flops / BGI_MODEL_FLOPS_PER_NS;
    const double memory = (cost->bytes_read + cost->bytes_written) / BGI_MODEL_BYTES_PER_NS;

    return BGI_MODEL_CALL_NS + (compute > memory ? compute : memory);
}

static bg_cost cost_of(const bg_graph *graph, const bgi_op *op)
{
    bg_type types[64];
    const bg_op_signature signature = bgi_lowered_signature(graph, op, types);

    return op->type->cost != NULL ? op->type->cost(&signature) : (bg_cost){0};
}

double bgi_estimate_op_ns(const bg_graph *graph, const bgi_op *op)
{
    const bg_cost cost = cost_of(graph, op);

    return model_ns(&cost);
}

static const bgi_segment *segment_of(const bgi_estimate *e, size_t op)
{
    return &e->partition->segments[e->partition->op_segments[op]];
}

/* Sets *out_index to the index of the op's block and kind. Returns false for ops of updates, which are not measured,
 * and ops without a block. */
static bool is_measurable(const bgi_estimate *e, size_t op, size_t *out_index)
{
    const bgi_segment *segment = segment_of(e, op);

    *out_index = (size_t)e->graph->ops[op].block * KIND_COUNT + segment->kind;
    return segment->kind != BGI_SEGMENT_UPDATE && e->graph->ops[op].block != BGI_BLOCK_NONE;
}

static void sum_blocks(bgi_estimate *e)
{
    for (size_t o = 0; o < e->graph->op_count; o++) {
        const bg_cost cost = cost_of(e->graph, &e->graph->ops[o]);
        size_t index;
        if (!bgi_partition_is_alias(e->partition, &e->graph->ops[o]) && is_measurable(e, o, &index))
            e->sums[index] += model_ns(&cost);
    }
}

/* Assigns measured times to the kinds that the block has. If a block has no separate W, the time of W is added to B; if
 * it has no B, the time of B is added to W. */
static void scale_block(bgi_estimate *e, const bg_block_cost *measured, const bool *is_part)
{
    double times[KIND_COUNT] = {[BGI_SEGMENT_FORWARD] = measured->forward_ns,
                                [BGI_SEGMENT_BACKWARD] = measured->backward_ns,
                                [BGI_SEGMENT_WEIGHTS] = measured->weights_ns};
    double sums[KIND_COUNT] = {0};

    for (size_t b = 1; b < e->graph->block_count; b++)
        for (size_t kind = 0; is_part[b] && kind < KIND_COUNT; kind++)
            sums[kind] += e->sums[b * KIND_COUNT + kind];
    if (sums[BGI_SEGMENT_WEIGHTS] == 0)
        times[BGI_SEGMENT_BACKWARD] += measured->weights_ns;
    else if (sums[BGI_SEGMENT_BACKWARD] == 0)
        times[BGI_SEGMENT_WEIGHTS] += measured->backward_ns;
    for (size_t b = 1; b < e->graph->block_count; b++)
        for (size_t kind = 0; is_part[b] && kind < KIND_COUNT; kind++)
            if (sums[kind] > 0 && kind != BGI_SEGMENT_RECOMPUTE)
                e->factors[b * KIND_COUNT + kind] = times[kind] / sums[kind];
    /* An op that runs again costs as much as it did the first time. */
    for (size_t b = 1; b < e->graph->block_count; b++)
        e->factors[b * KIND_COUNT + BGI_SEGMENT_RECOMPUTE] = e->factors[b * KIND_COUNT + BGI_SEGMENT_FORWARD];
}

/* Scales the estimates of measured blocks. A block that automatic stages have cut was measured as a whole. */
static bg_status scale_measured(bgi_estimate *e, const bg_options *options, bool *is_part, bg_error *error)
{
    for (uint32_t i = 0; i < options->execution.block_cost_count; i++) {
        const bg_block_cost *measured = &options->execution.block_costs[i];
        bool is_known = false;
        for (uint32_t b = 1; b < e->graph->block_count; b++) {
            const bgi_block *block = &e->graph->blocks[b];
            is_part[b] = strcmp(block->origin != NULL ? block->origin : block->name, measured->name) == 0;
            is_known |= is_part[b];
        }
        if (!is_known)
            return bg_error_set(error, BG_ERROR_NOT_FOUND, "block_costs: block `%s` is not in the model",
                                measured->name);
        scale_block(e, measured, is_part);
    }
    return BG_OK;
}

static void add_costs(const bgi_estimate *e, bg_stage_cost *costs, double *flops)
{
    for (size_t o = 0; o < e->graph->op_count; o++) {
        const bgi_op *op = &e->graph->ops[o];
        const bgi_segment *segment = segment_of(e, o);
        bg_stage_cost *stage = &costs[segment->stage];
        double *const sums[] = {&stage->forward_ns, &stage->recompute_ns, &stage->backward_ns, &stage->weights_ns,
                                &stage->update_ns};
        const bg_cost cost = cost_of(e->graph, op);
        size_t index;
        if (bgi_partition_is_alias(e->partition, op))
            continue;
        *sums[segment->kind] += model_ns(&cost) * (is_measurable(e, o, &index) ? e->factors[index] : 1.0);
        if (flops != NULL && segment->kind != BGI_SEGMENT_UPDATE)
            *flops += cost.flops;
    }
}

bg_status bgi_estimate_costs(const bg_graph *graph, const bgi_partition *partition, const bg_options *options,
                             bg_stage_cost *costs, double *flops, bg_error *error)
{
    bgi_arena scratch = {0};
    bgi_estimate e = {.graph = graph, .partition = partition};
    bool *is_part;
    bg_status status = BG_OK;

    e.sums = bgi_arena_allocate(&scratch, graph->block_count * KIND_COUNT, sizeof *e.sums);
    e.factors = bgi_arena_allocate(&scratch, graph->block_count * KIND_COUNT, sizeof *e.factors);
    is_part = bgi_arena_allocate(&scratch, graph->block_count, sizeof *is_part);
    if (e.sums == NULL || e.factors == NULL || is_part == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "costs", graph->block_count * KIND_COUNT * sizeof *e.sums));
    for (size_t i = 0; i < graph->block_count * KIND_COUNT; i++)
        e.factors[i] = 1.0;
    if (options->execution.block_cost_count > 0)
        sum_blocks(&e);
    BGI_TRY_CLEANUP(scale_measured(&e, options, is_part, error));
    add_costs(&e, costs, flops);
cleanup:
    bgi_arena_clear(&scratch);
    return status;
}
