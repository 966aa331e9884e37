/*
 * softmax.c: defines softmax and log-softmax along one axis, and their gradients.
 */
#include <brigade/ops.h>

#include "graph/graph.h"
#include "kernels/softmax/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_status infer_forward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_axis_attributes *attributes = op->attributes;
    char text[BG_TYPE_TEXT_BYTES];

    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    if (attributes->axis >= op->types[0].rank)
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s: it has no axis %u", bg_type_text(&op->types[0], text),
                            (unsigned)attributes->axis);
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status infer_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(infer_forward(op, outputs, error));
    return bgi_shape_equal(&op->types[1], "y", &op->types[0], "dy's type", error);
}

static bg_status differentiate(bg_op_gradient *gradient, const bg_op_type *backward, bg_error *error)
{
    bg_value inputs[2] = {{0}, gradient->outputs[0]};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, backward, NULL, inputs, 2, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_status differentiate_softmax(bg_op_gradient *gradient, bg_error *error)
{
    return differentiate(gradient, &bgi_op_softmax_backward, error);
}

static bg_status differentiate_log_softmax(bg_op_gradient *gradient, bg_error *error)
{
    return differentiate(gradient, &bgi_op_log_softmax_backward, error);
}

/* Counts five operations for each element (a comparison, a subtraction, an exponential, an addition and a division),
 * and in the backward pass two products and two sums. */
static bg_cost cost_forward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 5.0 * bgi_type_elements(&op->types[0]));
}

static bg_cost cost_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_softmax, SOFTMAX)
BGI_OP_KERNEL(select_softmax_backward, SOFTMAX_BACKWARD)
BGI_OP_KERNEL(select_log_softmax, LOG_SOFTMAX)
BGI_OP_KERNEL(select_log_softmax_backward, LOG_SOFTMAX_BACKWARD)

const bg_op_type bgi_op_softmax = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "softmax",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_axis_attributes),
    .infer = infer_forward,
    .gradient = differentiate_softmax,
    .cost = cost_forward,
    .kernel = select_softmax,
};

const bg_op_type bgi_op_softmax_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "softmax_backward",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_axis_attributes),
    .infer = infer_backward,
    .cost = cost_backward,
    .kernel = select_softmax_backward,
};

const bg_op_type bgi_op_log_softmax = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "log_softmax",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_axis_attributes),
    .infer = infer_forward,
    .gradient = differentiate_log_softmax,
    .cost = cost_forward,
    .kernel = select_log_softmax,
};

const bg_op_type bgi_op_log_softmax_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "log_softmax_backward",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_axis_attributes),
    .infer = infer_backward,
    .cost = cost_backward,
    .kernel = select_log_softmax_backward,
};

static bg_value add_forward(bg_graph *graph, const bg_op_type *op_type, const char *name, bg_value x, int32_t axis)
{
    const bg_type type = bg_graph_type(graph, x);
    bgi_axis_attributes attributes = {0};
    bg_error error = {0};

    /* After an earlier error x is null, which bg_graph_add handles. */
    if (!bg_value_is_null(x) && bgi_shape_axis(&type, "x", axis, &attributes.axis, &error) != BG_OK)
        bgi_graph_fail_op(graph, op_type->name, name, error.status, "%s", error.message);
    return bg_graph_add(graph, op_type, name, &x, 1, &attributes, NULL);
}

bg_value bg_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis)
{
    return add_forward(graph, &bgi_op_softmax, name, x, axis);
}

bg_value bg_log_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis)
{
    return add_forward(graph, &bgi_op_log_softmax, name, x, axis);
}
