/*
 * rms_norm.c: defines normalization by the root of the mean square (Zhang and Sennrich, Root Mean Square Layer
 * Normalization, 2019). The forward op keeps each row's scale for the backward pass, in float32 (float64 for float64
 * operands).
 */
#include <brigade/ops.h>

#include "graph/graph.h"
#include "kernels/rms_norm/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_rms_norm, RMS_NORM)
BGI_OP_KERNEL(select_rms_norm_backward, RMS_NORM_BACKWARD)

static bg_status check_gamma(const bg_type *gamma, const bg_type *x, bg_error *error)
{
    const bg_type wanted = bg_vector(x->dtype, x->dims[x->rank - 1]);

    return bgi_shape_equal(gamma, "gamma", &wanted, "x's last dimension", error);
}

static bg_status infer_rms_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_rms_norm_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];

    if (!(attributes->epsilon >= 0.0))
        return bg_error_set(error, BG_ERROR_INVALID, "epsilon is %g; it must be at least 0", attributes->epsilon);
    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., last]", error));
    if (op->input_count > 1)
        BGI_TRY(check_gamma(&op->types[1], x, error));
    outputs[0] = *x;
    outputs[1] = bgi_type_rows(x, bgi_statistics_dtype(x->dtype));
    return BG_OK;
}

static bg_status differentiate_rms_norm(bg_op_gradient *gradient, bg_error *error)
{
    const uint32_t count = gradient->op.input_count;
    bg_value inputs[4] = {{0}, gradient->inputs[0], gradient->outputs[1]}, outputs[2] = {{0}};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (count > 1)
        inputs[3] = gradient->inputs[1];
    bg_graph_add(gradient->graph, &bgi_op_rms_norm_backward, NULL, inputs, 2 + count, gradient->op.attributes, outputs);
    for (uint32_t i = 0; i < count; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_forward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[0]));
}

static bg_cost cost_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 10.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_rms_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "rms_norm",
    .minimum_inputs = 1,
    .maximum_inputs = 2,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_rms_norm_attributes),
    .infer = infer_rms_norm,
    .gradient = differentiate_rms_norm,
    .cost = cost_forward,
    .kernel = select_rms_norm,
};

/* Shape rule: dy, x, scale, gamma? -> dx, dgamma?. */
static bg_status infer_rms_norm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[1];
    bg_type statistics;

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., last]", error));
    statistics = bgi_type_rows(x, bgi_statistics_dtype(x->dtype));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "scale", &statistics, "the forward op's", error));
    outputs[0] = *x;
    if (op->input_count > 3) {
        BGI_TRY(check_gamma(&op->types[3], x, error));
        outputs[1] = op->types[3];
    }
    return BG_OK;
}

const bg_op_type bgi_op_rms_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "rms_norm_backward",
    .minimum_inputs = 3,
    .maximum_inputs = 4,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_rms_norm_attributes),
    .infer = infer_rms_norm_backward,
    .cost = cost_backward,
    .kernel = select_rms_norm_backward,
};

bg_value bg_rms_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, double epsilon)
{
    const bgi_rms_norm_attributes attributes = {.epsilon = epsilon};
    const bg_value inputs[] = {x, gamma};

    return bg_graph_add(graph, &bgi_op_rms_norm, name, inputs, 2, &attributes, NULL);
}
