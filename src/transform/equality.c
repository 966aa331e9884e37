/*
 * equality.c: finds the tensor axes of a mesh along which a value is bit-identical on all replicas. It reads a graph
 * and its ops, changes nothing, and needs no plan. In a layer over axes 1 and 2, values are equal along these axes:
 *
 *     x                          1      all-reduced along 1 by the layer before
 *     layer norm of x            1      its sums are all-reduced along 2, but x is not equal along 2
 *     matmul, weights cut        -
 *     all_reduce along 2         2      attention, heads of axis 1
 *     matmul, weights cut        -
 *     all_reduce along 1         1      + x: the input of the next layer
 *
 * A result is equal along the axes along which all inputs of its op are equal. Axes along which the op depends on its
 * replica's coordinate are removed. A collective op adds the axes over which it sums or gathers, and removes those over
 * which it scatters. Backward ops follow the same rule.
 */
#include "transform/transform.h"

#include "core/error.h"
#include "kernels/attention/attributes.h"
#include "kernels/collective/attributes.h"
#include "kernels/dropout/attributes.h"
#include "kernels/embedding/attributes.h"
#include "kernels/loss/attributes.h"
#include "ops/ops.h"

enum { TENSOR_AXES = BG_MESH_TENSOR_1 | BG_MESH_TENSOR_2 };

static bool is_library_op(const bg_op_type *type)
{
#define ADDRESS(name) &bgi_op_##name,
    static const bg_op_type *const types[] = {BGI_OP_TYPES(ADDRESS) NULL};
#undef ADDRESS
    uint32_t i = 0;

    while (types[i] != NULL && types[i] != type)
        i++;
    return types[i] != NULL;
}

/* Returns the axes along which the op's result depends on the replica's coordinate. For users' ops these axes are
 * unknown, so all tensor axes are returned. */
static uint32_t find_place_axes(const bgi_op *op)
{
    if (op->type == &bgi_op_embedding)
        return ((const bgi_embedding_attributes *)op->attributes)->axis;
    if (op->type == &bgi_op_embedding_backward)
        return ((const bgi_embedding_backward_attributes *)op->attributes)->forward.axis;
    if (op->type == &bgi_op_dropout)
        return ((const bgi_dropout_attributes *)op->attributes)->axis;
    if (op->type == &bgi_op_attention || op->type == &bgi_op_attention_backward ||
        op->type == &bgi_op_attention_cached || op->type == &bgi_op_dot_product_attention ||
        op->type == &bgi_op_dot_product_attention_cached || op->type == &bgi_op_dot_product_attention_backward ||
        op->type == &bgi_op_dot_product_attention_bias_backward)
        return ((const bgi_attention_attributes *)op->attributes)->axis;
    if (op->type == &bgi_op_cross_entropy_backward || op->type == &bgi_op_logit_maximum ||
        op->type == &bgi_op_logit_sums || op->type == &bgi_op_sharded_cross_entropy)
        return ((const bgi_loss_attributes *)op->attributes)->axis;
    return is_library_op(op->type) ? 0 : TENSOR_AXES;
}

static uint8_t find_result_axes(const bgi_op *op, const uint8_t *axes)
{
    uint32_t equal = TENSOR_AXES;

    for (uint32_t i = 0; i < op->input_count; i++)
        if (!bg_value_is_null(op->inputs[i]))
            equal &= axes[op->inputs[i].id];
    if (op->type->is_collective) {
        const bgi_collective_attributes *attributes = op->attributes;
        return (uint8_t)(attributes->kind == BGI_COLLECTIVE_SCATTER ? equal & ~attributes->axes
                                                                    : equal | (attributes->axes & TENSOR_AXES));
    }
    return (uint8_t)(equal & ~find_place_axes(op));
}

/* Returns the axes along which a value that no op makes is equal. Among variables only parameters are equal, because
 * all replicas of a group update a parameter in the same way. */
static uint8_t find_leaf_axes(const bg_graph *graph, uint32_t id)
{
    const bgi_value *value = &graph->values[id];

    if (value->kind != BGI_VALUE_VARIABLE)
        return TENSOR_AXES;
    return (uint8_t)(value->role == BG_ROLE_PARAMETER ? TENSOR_AXES & ~bgi_graph_cut_axes(graph, (bg_value){id}) : 0);
}

bg_status bgi_find_equal_axes(const bg_graph *graph, bgi_arena *arena, uint8_t **out, bg_error *error)
{
    uint8_t *axes = bgi_arena_allocate(arena, graph->value_count, sizeof *axes);
    bool has_changed = true;

    if (axes == NULL)
        return bgi_error_memory(error, "replicas' values", graph->value_count);
    for (uint32_t v = 1; v < graph->value_count; v++)
        axes[v] = find_leaf_axes(graph, v);
    /* Passes append ops whose results earlier ops read, so one pass over the ops may not be enough. Axes of a result
     * are only added, so the loop ends. */
    while (has_changed) {
        has_changed = false;
        for (uint32_t o = 0; o < graph->op_count; o++) {
            const bgi_op *op = &graph->ops[o];
            const uint8_t equal = find_result_axes(op, axes);
            for (uint32_t i = 0; i < op->output_count; i++)
                if (!bg_value_is_null(op->outputs[i]) && axes[op->outputs[i].id] != equal) {
                    axes[op->outputs[i].id] = equal;
                    has_changed = true;
                }
        }
    }
    *out = axes;
    return BG_OK;
}
