/*
 * compare.c: defines comparisons and logical functions of two operands that broadcast, and the choice between two
 * operands by a condition.
 *
 * A result is uint8, so no gradient flows through a comparison or into a condition. The gradient of a choice passes to
 * the chosen operand: an op writes it for elements where the operand was chosen, and zeros elsewhere. It is then summed
 * over the dims in which the operand was repeated.
 */
#include "graph/graph.h"
#include "kernels/compare/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_compare, COMPARE)
BGI_OP_KERNEL(select_where, WHERE)
BGI_OP_KERNEL(select_where_gradient, WHERE_GRADIENT)

/* ---- compare ---- */

static bg_status infer_compare(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const uint32_t function = ((const bgi_compare_attributes *)op->attributes)->function;

    if (function >= BGI_COMPARE_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "function %u is not a comparison or logical function (0 to %d)",
                            (unsigned)function, BGI_COMPARE_COUNT - 1);
    BGI_TRY(bgi_shape_same_dtype(&op->types[0], "a", &op->types[1], "b", error));
    BGI_TRY(bgi_shape_broadcast(&op->types[0], "a", &op->types[1], "b", 0, &outputs[0], error));
    outputs[0].dtype = BG_UINT8;
    return BG_OK;
}

static bg_cost cost_compare(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[2]));
}

const bg_op_type bgi_op_compare = {
    .name = "compare",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_compare_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_compare,
    .cost = cost_compare,
    .kernel = select_compare,
};

bg_value bg_compare(bg_graph *graph, const char *name, bg_comparison comparison, bg_value a, bg_value b)
{
    const bgi_compare_attributes attributes = {.function = (uint32_t)comparison};
    bg_value inputs[] = {a, b};

    if ((unsigned)comparison >= BG_COMPARISON_COUNT) {
        bgi_graph_fail_op(graph, "compare", name, BG_ERROR_INVALID,
                          "comparison %d is not one of bg_comparison (0 to %d)", (int)comparison,
                          BG_COMPARISON_COUNT - 1);
        return (bg_value){0};
    }
    bgi_promote(graph, inputs, 2);
    return bg_graph_add(graph, &bgi_op_compare, name, inputs, 2, &attributes, NULL);
}

/* ---- where ---- */

static bg_status check_condition(const bg_type *condition, bg_error *error)
{
    return bgi_shape_dtype(condition, "condition", BG_UINT8, "bg_compare makes it", error);
}

static bg_status infer_where(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type y;

    BGI_TRY(check_condition(&op->types[0], error));
    BGI_TRY(bgi_shape_same_dtype(&op->types[1], "a", &op->types[2], "b", error));
    BGI_TRY(bgi_shape_broadcast(&op->types[1], "a", &op->types[2], "b", 0, &y, error));
    return bgi_shape_broadcast(&y, "the broadcast of a and b,", &op->types[0], "condition", 0, &outputs[0], error);
}

static bg_value add_where_gradient(bg_op_gradient *gradient, uint32_t operand)
{
    const bgi_where_gradient_attributes attributes = {.is_second = operand == 2};
    const bg_value operands[] = {gradient->output_gradients[0], gradient->inputs[0]};

    return bgi_reduce_to(gradient->graph,
                         bg_graph_add(gradient->graph, &bgi_op_where_gradient, NULL, operands, 2, &attributes, NULL),
                         &gradient->op.types[operand]);
}

static bg_status derive_where(bg_op_gradient *gradient, bg_error *error)
{
    for (uint32_t operand = 1; operand <= 2; operand++)
        if (gradient->needs[operand])
            gradient->input_gradients[operand] = add_where_gradient(gradient, operand);
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_where = {
    .name = "where",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 1,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_where,
    .gradient = derive_where,
    .kernel = select_where,
};

static bg_status infer_where_gradient(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type y;

    BGI_TRY(bgi_shape_float(&op->types[0], "dy", error));
    BGI_TRY(check_condition(&op->types[1], error));
    BGI_TRY(bgi_shape_broadcast(&op->types[0], "dy", &op->types[1], "condition", 0, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the broadcast shape of the condition, a and b", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

const bg_op_type bgi_op_where_gradient = {
    .name = "where_gradient",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_where_gradient_attributes),
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_where_gradient,
    .kernel = select_where_gradient,
};

bg_value bg_where(bg_graph *graph, const char *name, bg_value condition, bg_value a, bg_value b)
{
    bg_value inputs[] = {condition, a, b};

    bgi_promote(graph, inputs + 1, 2);
    return bg_graph_add(graph, &bgi_op_where, name, inputs, 3, NULL, NULL);
}
