/*
 * leaf_outputs.c: copies outputs that no op computes.
 *
 *     x -> a -> logits*               x -> a -> logits*
 *     x*                     =>       x -> copy*
 *
 * A model may return its input, a constant or a variable. The host then receives a copy, because an output's memory
 * must belong to the result of an op. (A reshaped leaf is the result of an op; the plan copies it.)
 *
 * Needs: a forward graph. Does: appends a copy for each such output, in the block of the first op that reads the leaf,
 * whose stage has the leaf anyway. Keeps: the existing ops and values.
 */
#include "transform/transform.h"

#include <string.h>

#include "core/error.h"
#include "ops/ops.h"

static bool is_leaf(const bg_graph *graph, bg_value value)
{
    return bgi_graph_value(graph, value)->kind != BGI_VALUE_RESULT;
}

bool bgi_has_leaf_outputs(const bg_graph *graph)
{
    for (size_t i = 0; i < graph->output_count; i++)
        if (is_leaf(graph, graph->outputs[i].value))
            return true;
    return false;
}

static bool is_in_a_block(const bgi_op *op)
{
    return op->block != BGI_BLOCK_NONE;
}

/* Returns the block of the first op that reads the leaf; if no op reads it, the first block with an op. */
static uint32_t find_block(const bg_graph *graph, bg_value leaf)
{
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            if (is_in_a_block(&graph->ops[o]) && graph->ops[o].inputs[i].id == leaf.id)
                return graph->ops[o].block;
    for (size_t o = 0; o < graph->op_count; o++)
        if (is_in_a_block(&graph->ops[o]))
            return graph->ops[o].block;
    return 0;
}

bg_status bgi_copy_leaf_outputs(bg_graph *graph, bg_error *error)
{
    for (size_t i = 0; i < graph->output_count; i++) {
        bgi_output *output = &graph->outputs[i];
        if (!is_leaf(graph, output->value))
            continue;
        if (bgi_graph_value(graph, output->value)->is_remote)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "output `%s` is a remote buffer; an output can be an entry of it (bg_remote_load)",
                                output->name);
        graph->current_block = find_block(graph, output->value);
        output->value = bgi_copy(graph, output->name, output->value);
        BGI_TRY(bg_graph_check(graph, error));
    }
    return bgi_graph_verify(graph, error);
}
