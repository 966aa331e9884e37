/*
 * loss_weight.c: over how many elements a loss is a mean.
 *
 *     logits, labels -> cross_entropy (mean) -> scale 0.5 -> + regulariser -> loss        weight: the counted labels
 *
 * needs: a forward graph. does: walks back from the loss through what keeps a mean a mean (scaling, reshaping, casts,
 * sums with something that is no such mean, products with leaves). changes nothing. Two means over different elements,
 * or a mean inside another function, have no one weight: micro-batches then count the same, and the caller may say so.
 */
#include "ops/ops.h"
#include "transform/transform.h"

static bool is_cross_entropy(const bgi_op *op)
{
    return op->type == &bgi_op_cross_entropy || op->type == &bgi_op_sharded_cross_entropy;
}

/* Losses over the same labels count the same elements. */
static bool counts_the_same(const bg_graph *graph, bg_value a, bg_value b)
{
    const bgi_op *op_a = &graph->ops[bgi_graph_value(graph, a)->op], *op_b = &graph->ops[bgi_graph_value(graph, b)->op];
    const bgi_loss_attributes *of_a = op_a->attributes, *of_b = op_b->attributes;

    if (a.id == b.id)
        return true;
    return is_cross_entropy(op_a) && is_cross_entropy(op_b) && op_a->inputs[1].id == op_b->inputs[1].id &&
           of_a->ignore_index == of_b->ignore_index;
}

static bg_value find_through_sum(const bg_graph *graph, const bgi_op *op, bool *out_is_mixed)
{
    const bg_value a = bgi_find_loss_weight(graph, op->inputs[0], out_is_mixed);
    const bg_value b = bgi_find_loss_weight(graph, op->inputs[1], out_is_mixed);

    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bg_value_is_null(a) ? b : a;
    *out_is_mixed |= !counts_the_same(graph, a, b);
    return a;
}

/* Times or divided by something that is the same in every micro-batch. */
static bg_value find_through_product(const bg_graph *graph, const bgi_op *op, bool is_division, bool *out_is_mixed)
{
    for (uint32_t i = 0; i < 2; i++) {
        const bg_value weight = bgi_find_loss_weight(graph, op->inputs[i], out_is_mixed);
        if (bg_value_is_null(weight))
            continue;
        *out_is_mixed |= bgi_graph_value(graph, op->inputs[1 - i])->kind == BGI_VALUE_RESULT || (is_division && i == 1);
        return weight;
    }
    return (bg_value){0};
}

static bg_value find_through_other(const bg_graph *graph, const bgi_op *op, bool *out_is_mixed)
{
    bg_value found = {0};

    for (uint32_t i = 0; i < op->input_count && bg_value_is_null(found); i++)
        found = bgi_find_loss_weight(graph, op->inputs[i], out_is_mixed);
    *out_is_mixed |= !bg_value_is_null(found);
    return found;
}

static bg_value find_through_binary(const bg_graph *graph, const bgi_op *op, bool *out_is_mixed)
{
    switch (((const bgi_binary_attributes *)op->attributes)->function) {
    case BG_ADD:
    case BG_SUBTRACT:
        return find_through_sum(graph, op, out_is_mixed);
    case BG_MULTIPLY:
        return find_through_product(graph, op, false, out_is_mixed);
    case BG_DIVIDE:
        return find_through_product(graph, op, true, out_is_mixed);
    default:
        return find_through_other(graph, op, out_is_mixed);
    }
}

static bool keeps_means(const bgi_op *op)
{
    if (op->type == &bgi_op_unary)
        return ((const bgi_unary_attributes *)op->attributes)->function == BG_NEGATE;
    return op->type == &bgi_op_scale || op->type == &bgi_op_reshape || op->type == &bgi_op_cast ||
           op->type == &bgi_op_copy;
}

bg_value bgi_find_loss_weight(const bg_graph *graph, bg_value loss, bool *out_is_mixed)
{
    const bgi_value *value = bgi_graph_value(graph, loss);
    const bgi_op *op;

    /* Means are single numbers: nothing else is followed. */
    if (value->kind != BGI_VALUE_RESULT || bg_type_element_count(&value->type) != 1)
        return (bg_value){0};
    op = &graph->ops[value->op];
    if (op->type->weight_output != BG_NO_OPERAND && op->type->weight_output < op->output_count &&
        value->output != op->type->weight_output)
        return op->outputs[op->type->weight_output];
    if (keeps_means(op))
        return bgi_find_loss_weight(graph, op->inputs[0], out_is_mixed);
    if (op->type == &bgi_op_binary)
        return find_through_binary(graph, op, out_is_mixed);
    return find_through_other(graph, op, out_is_mixed);
}
