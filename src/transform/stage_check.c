/*
 * stage_check.c: checks that stages fit the model: each op is in one, none is empty, data flow from lower to higher
 * positions, and concurrent stages share nothing. It does not check devices.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

bg_status bgi_check_op_block(const bg_graph *graph, const bgi_op *op, bg_error *error)
{
    (void)graph;
    if (op->block != BGI_BLOCK_NONE)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "there was no active block at %s `%s`: all ops must belong to a block, but this op was added "
                        "after a block scope had ended",
                        op->type->name, op->name);
}

static bg_status refuse_shared_data(const bg_graph *graph, const bgi_stages *stages, const bgi_op *reader,
                                    const bgi_op *source, const bgi_value *value, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_INVALID,
                        "concurrent stages %u and %u share data: %s `%s` (block `%s`) needs `%s` of block `%s`; "
                        "separate them with | instead of &",
                        stages->block_stages[source->block], stages->block_stages[reader->block], reader->type->name,
                        reader->name, graph->blocks[reader->block].name, value->name,
                        graph->blocks[source->block].name);
}

bool bgi_block_has_ops(const bg_graph *graph, uint32_t block)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].block == block)
            return true;
    return false;
}

/* Reports all blocks with ops that are in no stage, `first` first. */
static bg_status refuse_missing_blocks(const bg_graph *graph, const bgi_stages *stages, uint32_t first, bg_error *error)
{
    bgi_string others = {0};
    uint32_t count = 0;
    bg_status status;

    for (uint32_t b = 0; b < graph->block_count; b++)
        if (b != first && stages->block_stages[b] == UINT32_MAX && bgi_block_has_ops(graph, b))
            bgi_string_add(&others, "%s`%s`", count++ == 0 ? "" : ", ", graph->blocks[b].name);
    status = bg_error_set(error, BG_ERROR_INVALID, "block `%s` is in no stage%s%s; each block with ops must be in one",
                          graph->blocks[first].name,
                          count == 0   ? ""
                          : count == 1 ? ", and neither is "
                                       : ", and neither are ",
                          others.data != NULL ? others.data : "");
    bgi_string_clear(&others);
    return status;
}

static bg_status check_op(const bg_graph *graph, const bgi_stages *stages, const bgi_op *op, bg_error *error)
{
    uint32_t stage;

    BGI_TRY(bgi_check_op_block(graph, op, error));
    stage = stages->block_stages[op->block];
    if (stage == UINT32_MAX)
        return refuse_missing_blocks(graph, stages, op->block, error);
    for (uint32_t i = 0; i < op->input_count; i++) {
        const bgi_value *value = bgi_graph_value(graph, op->inputs[i]);
        const bgi_op *source;
        uint32_t from;
        if (value->kind != BGI_VALUE_RESULT)
            continue;
        source = &graph->ops[value->op];
        from = stages->block_stages[source->block];
        if (from != stage && stages->stage_positions[from] == stages->stage_positions[stage])
            return refuse_shared_data(graph, stages, op, source, value, error);
        if (from > stage)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "the stages form a cycle: %s `%s` (block `%s`, stage %u) needs `%s` from block `%s` of the "
                "later stage %u; order the stages along the data flow",
                op->type->name, op->name, graph->blocks[op->block].name, stage, value->name,
                graph->blocks[source->block].name, from);
    }
    return BG_OK;
}

/* Stages must hold ops: a stage of empty blocks would be a device with nothing to do. */
static bg_status check_filled(const bg_graph *graph, const bgi_stages *stages, bg_error *error)
{
    for (uint32_t s = 0; s < stages->stage_count; s++) {
        bool has_op = false;
        for (size_t o = 0; o < graph->op_count && !has_op; o++)
            has_op = graph->ops[o].block != BGI_BLOCK_NONE && stages->block_stages[graph->ops[o].block] == s;
        if (!has_op)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stage %u has no ops: its blocks are empty; merge it with another stage", s);
    }
    return BG_OK;
}

/* Checks the variables that the op reads. `users` has, by variable and position, the stage that uses the variable;
 * UINT32_MAX: no stage yet. */
static bg_status check_op_variables(const bg_graph *graph, const bgi_stages *stages, const bgi_op *op, uint32_t *users,
                                    uint32_t position_count, bg_error *error)
{
    const uint32_t stage = stages->block_stages[op->block];

    for (uint32_t i = 0; i < op->input_count; i++) {
        const uint32_t v = op->inputs[i].id;
        uint32_t *user = &users[(size_t)v * position_count + stages->stage_positions[stage]];
        if (graph->values[v].kind != BGI_VALUE_VARIABLE)
            continue;
        if (*user != UINT32_MAX && *user != stage)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "concurrent stages %u and %u share the variable `%s`; separate them with | instead of &, "
                "or give each a separate variable",
                *user, stage, graph->values[v].name);
        *user = stage;
    }
    return BG_OK;
}

static bg_status check_shared_variables(const bg_graph *graph, const bgi_stages *stages, bg_error *error)
{
    const uint32_t position_count = stages->stage_positions[stages->stage_count - 1] + 1;
    const size_t size_bytes = graph->value_count * position_count * sizeof(uint32_t);
    uint32_t *users;
    bg_status status = BG_OK;

    if (position_count == stages->stage_count)
        return BG_OK; /* no stages are concurrent */
    users = malloc(size_bytes);
    if (users == NULL)
        return bgi_error_memory(error, "stages", size_bytes);
    memset(users, 0xff, size_bytes);
    for (size_t o = 0; status == BG_OK && o < graph->op_count; o++)
        status = check_op_variables(graph, stages, &graph->ops[o], users, position_count, error);
    free(users);
    return status;
}

bg_status bgi_check_stages(const bg_graph *graph, const bgi_stages *stages, bg_error *error)
{
    for (size_t o = 0; o < graph->op_count; o++)
        BGI_TRY(check_op(graph, stages, &graph->ops[o], error));
    BGI_TRY(check_filled(graph, stages, error));
    return check_shared_variables(graph, stages, error);
}
