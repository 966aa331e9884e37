/*
 * cumulative.c: defines cumulative sums along an axis.
 */
#include <brigade/ops.h>

#include <string.h>

#include "graph/graph.h"
#include "kernels/cumulative/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_cumulative_sum, CUMULATIVE_SUM)

static bg_status infer_cumulative_sum(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_cumulative_attributes *attributes = op->attributes;

    BGI_TRY(bgi_shape_number(&op->types[0], "x", error));
    BGI_TRY(bgi_shape_minimum_rank(&op->types[0], "x", attributes->axis + 1, "as axis says", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

/* Adds the gradient, a cumulative sum from the other end: each element is part of all later sums, so its gradient is
 * the sum of their gradients. */
static bg_status differentiate_cumulative_sum(bg_op_gradient *gradient, bg_error *error)
{
    bgi_cumulative_attributes attributes = *(const bgi_cumulative_attributes *)gradient->op.attributes;

    attributes.is_reverse = !attributes.is_reverse;
    if (gradient->needs[0])
        gradient->input_gradients[0] = bg_graph_add(gradient->graph, &bgi_op_cumulative_sum, NULL,
                                                    gradient->output_gradients, 1, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_cumulative_sum(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_cumulative_sum = {
    BG_OP_TYPE_DEFAULTS,
    .name = "cumulative_sum",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_cumulative_attributes),
    .infer = infer_cumulative_sum,
    .gradient = differentiate_cumulative_sum,
    .cost = cost_cumulative_sum,
    .kernel = select_cumulative_sum,
};

bg_value bg_cumulative_sum(bg_graph *graph, const char *name, bg_value x, int32_t axis, bool exclusive, bool reverse)
{
    bgi_cumulative_attributes attributes = {.is_exclusive = exclusive, .is_reverse = reverse};

    if (!bgi_graph_axis(graph, &bgi_op_cumulative_sum, name, x, axis, &attributes.axis))
        return (bg_value){0};
    return bg_graph_add(graph, &bgi_op_cumulative_sum, name, &x, 1, &attributes, NULL);
}
