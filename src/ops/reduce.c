/*
 * reduce.c: defines sums, means and largest elements over any set of dims; broadcasting, which is the gradient of sums;
 * and argmax.
 */
#include "ops/ops.h"

#include <string.h>

#include "graph/graph.h"
#include "kernels/reduce/attributes.h"
#include "kernels/reshape/attributes.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_reduce, REDUCE)
BGI_OP_KERNEL(select_reduce_max_backward, REDUCE_MAX_BACKWARD)
BGI_OP_KERNEL(select_broadcast, BROADCAST)
BGI_OP_KERNEL(select_argmax, ARGMAX)

static bool is_reduced(uint32_t axes, uint32_t dim)
{
    return (axes >> dim & 1u) != 0;
}

/* Returns x's shape without the reduced dims, or with size 1 in them. */
static bg_type reduce_type(const bg_type *x, uint32_t axes, bool keep_dims)
{
    bg_type result = {.dtype = x->dtype};

    for (uint32_t i = 0; i < x->rank; i++)
        if (!is_reduced(axes, i))
            result.dims[result.rank++] = x->dims[i];
        else if (keep_dims)
            result.dims[result.rank++] = 1;
    return result;
}

static bg_status check_reduce(const bg_op_signature *op, const bg_type *x, bg_error *error)
{
    const bgi_reduce_attributes *attributes = op->attributes;

    if ((unsigned)attributes->function >= BG_REDUCTION_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "function %d is not one of bg_reduction (0 to %d)",
                            (int)attributes->function, BG_REDUCTION_COUNT - 1);
    if ((x->dtype != BG_INT32 && x->dtype != BG_INT64) || attributes->function == BG_REDUCE_MEAN)
        BGI_TRY(bgi_shape_float(x, "x", error));
    if (attributes->axes >> x->rank != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the set of axes %#x names dimensions that x does not have (it has %u)",
                            (unsigned)attributes->axes, (unsigned)x->rank);
    return BG_OK;
}

static bg_status infer_reduce(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_reduce_attributes *attributes = op->attributes;

    BGI_TRY(check_reduce(op, &op->types[0], error));
    outputs[0] = reduce_type(&op->types[0], attributes->axes, attributes->keep_dims);
    return BG_OK;
}

static bg_status derive_reduce(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_reduce_attributes *attributes = gradient->op.attributes;
    const bg_type *x = &gradient->op.types[0], *y = &gradient->op.types[1];
    const bg_type kept = reduce_type(x, attributes->axes, true);
    bg_value dy = gradient->output_gradients[0];
    bg_graph *graph = gradient->graph;

    if (!gradient->needs[0])
        return BG_OK;
    if (attributes->function == BG_REDUCE_MAX) {
        const bg_value operands[] = {dy, gradient->inputs[0], gradient->outputs[0]};

        gradient->input_gradients[0] =
            bg_graph_add(graph, &bgi_op_reduce_max_backward, NULL, operands, 3, attributes, NULL);
        return bg_graph_check(graph, error);
    }
    if (attributes->function == BG_REDUCE_MEAN)
        dy = bg_scale(graph, NULL, dy, bgi_type_elements(y) / bgi_type_elements(x), 0.0);
    dy = bgi_reshape_to(graph, dy, &kept);
    gradient->input_gradients[0] = bgi_type_same_dims(x, &kept) ? dy : bg_broadcast(graph, NULL, dy, x->rank, x->dims);
    return bg_graph_check(graph, error);
}

static bg_cost cost_reduce(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_reduce = {
    .name = "reduce",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_reduce_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_reduce,
    .gradient = derive_reduce,
    .cost = cost_reduce,
    .kernel = select_reduce,
};

bg_value bg_reduce(bg_graph *graph, const char *name, bg_reduction function, bg_value x, const int32_t *axes,
                   uint32_t axis_count, bool keep_dims)
{
    bgi_reduce_attributes attributes;

    if (axis_count > 0 && axes == NULL) {
        bgi_graph_fail_op(graph, bgi_op_reduce.name, name, BG_ERROR_INVALID, "axes is NULL, but axis_count is %u",
                          axis_count);
        return (bg_value){0};
    }
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.function = function;
    attributes.keep_dims = keep_dims;
    if (axis_count == 0)
        attributes.axes = (1u << bg_graph_type(graph, x).rank) - 1u;
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t axis;

        if (!bgi_graph_axis(graph, &bgi_op_reduce, name, x, axes[i], &axis))
            return (bg_value){0};
        if ((attributes.axes >> axis & 1u) != 0) {
            bgi_graph_fail_op(graph, bgi_op_reduce.name, name, BG_ERROR_INVALID, "axis %u is named twice", axis);
            return (bg_value){0};
        }
        attributes.axes |= 1u << axis;
    }
    return bg_graph_add(graph, &bgi_op_reduce, name, &x, 1, &attributes, NULL);
}

bg_value bgi_reduce_to(bg_graph *graph, bg_value value, const bg_type *type)
{
    const bg_type from = bg_graph_type(graph, value);
    bgi_reduce_attributes attributes;

    memset(&attributes, 0, sizeof attributes);
    attributes.function = BG_REDUCE_SUM;
    if (bg_value_is_null(value) || bgi_type_same_dims(&from, type))
        return value;
    for (uint32_t i = 1; i <= from.rank; i++)
        if (i > type->rank || (type->dims[type->rank - i] == 1 && from.dims[from.rank - i] != 1))
            attributes.axes |= 1u << (from.rank - i);
    value = bg_graph_add(graph, &bgi_op_reduce, NULL, &value, 1, &attributes, NULL);
    return bgi_reshape_to(graph, value, type);
}

/* ---- the gradient of the largest ---- */

static bg_status infer_reduce_max_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_reduce_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[1];
    bg_type y;

    BGI_TRY(check_reduce(op, x, error));
    y = reduce_type(x, attributes->axes, attributes->keep_dims);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "x reduced", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "y", &y, "x reduced", error));
    outputs[0] = *x;
    return BG_OK;
}

const bg_op_type bgi_op_reduce_max_backward = {
    .name = "reduce_max_backward",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_reduce_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_reduce_max_backward,
    .kernel = select_reduce_max_backward,
};

/* ---- broadcast ---- */

static bg_status infer_broadcast(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_dims_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];
    char text[BG_TYPE_TEXT_BYTES], wanted_text[BG_TYPE_TEXT_BYTES];
    bg_type wanted, both;

    if (attributes->rank > BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "rank %u is above the limit of %d", (unsigned)attributes->rank,
                            BG_MAX_RANK);
    wanted = bg_type_make(x->dtype, attributes->rank, attributes->dims);
    BGI_TRY(bg_type_validate(&wanted, error));
    BGI_TRY(bgi_shape_broadcast(x, "x", &wanted, "the wanted shape", 0, &both, error));
    if (!bgi_type_same_dims(&both, &wanted))
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "x is %s: broadcasting only repeats, so it cannot become %s; reduce it instead",
                            bg_type_text(x, text), bg_type_text(&wanted, wanted_text));
    outputs[0] = wanted;
    return BG_OK;
}

static bg_status derive_broadcast(bg_op_gradient *gradient, bg_error *error)
{
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bgi_reduce_to(gradient->graph, gradient->output_gradients[0], &gradient->op.types[0]);
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_broadcast = {
    .name = "broadcast",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_dims_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_broadcast,
    .gradient = derive_broadcast,
    .kernel = select_broadcast,
};

bg_value bg_broadcast(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims)
{
    return bgi_add_with_dims(graph, &bgi_op_broadcast, name, x, rank, dims);
}

/* ---- argmax ---- */

static bg_status infer_argmax(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_minimum_rank(&op->types[0], "x", 1, "[..., C]", error));
    outputs[0] = bgi_type_rows(&op->types[0], BG_INT32);
    return BG_OK;
}

const bg_op_type bgi_op_argmax = {
    .name = "argmax",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_argmax,
    .cost = cost_reduce,
    .kernel = select_argmax,
};

bg_value bg_argmax(bg_graph *graph, const char *name, bg_value x)
{
    return bg_graph_add(graph, &bgi_op_argmax, name, &x, 1, NULL, NULL);
}
