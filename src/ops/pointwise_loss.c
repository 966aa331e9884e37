/*
 * pointwise_loss.c: defines losses that compare each element of a prediction with the same element of a target, as sum,
 * mean or without reduction.
 *
 * The mean is over all elements, so that micro-batches are averaged with equal weights. Losses are float32 (float64 for
 * float64 operands) whatever type the operands have.
 */
#include <brigade/ops.h>

#include <math.h>
#include <string.h>

#include "kernels/pointwise_loss/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_status check_attributes(const bgi_pointwise_loss_attributes *attributes, bg_error *error)
{
    const double a = attributes->parameter;

    if ((unsigned)attributes->function >= BG_LOSS_FUNCTION_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "function %d is not one of bg_pointwise_loss_function (0 to %d)",
                            (int)attributes->function, BG_LOSS_FUNCTION_COUNT - 1);
    BGI_TRY(bgi_shape_reduction(attributes->reduction, error));
    if (attributes->function == BG_LOSS_HUBER && !(a > 0.0 && isfinite(a)))
        return bg_error_set(error, BG_ERROR_INVALID, "delta of the Huber loss is %g; it must be above 0 and finite", a);
    if (!(a >= 0.0 && isfinite(a)))
        return bg_error_set(error, BG_ERROR_INVALID, "the loss's parameter is %g; it must be at least 0 and finite", a);
    return BG_OK;
}

static bg_type loss_type(const bgi_pointwise_loss_attributes *attributes, const bg_type *prediction)
{
    const bg_dtype dtype = bgi_statistics_dtype(prediction->dtype);
    bg_type elements = *prediction;

    elements.dtype = dtype;
    return attributes->reduction == BG_LOSS_NONE ? elements : bg_scalar(dtype);
}

static bg_status infer_loss(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_attributes(op->attributes, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "prediction", error));
    BGI_TRY(bgi_shape_equal(&op->types[1], "target", &op->types[0], "the prediction's type", error));
    outputs[0] = loss_type(op->attributes, &op->types[0]);
    return BG_OK;
}

static bg_status differentiate_loss(bg_op_gradient *gradient, bg_error *error)
{
    bgi_pointwise_loss_attributes attributes = *(const bgi_pointwise_loss_attributes *)gradient->op.attributes;
    bg_value inputs[] = {{0}, gradient->inputs[0], gradient->inputs[1]};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    for (uint32_t i = 0; i < 2; i++) {
        attributes.of_target = i;
        if (gradient->needs[i])
            gradient->input_gradients[i] =
                bg_graph_add(gradient->graph, &bgi_op_pointwise_loss_backward, NULL, inputs, 3, &attributes, NULL);
    }
    return bg_graph_check(gradient->graph, error);
}

/* Counts approximately a difference and its square, or a logarithm and an exponential. */
static bg_cost cost_loss(const bg_op_signature *op)
{
    const bgi_pointwise_loss_attributes *attributes = op->attributes;

    return bgi_cost_once(op, (attributes->function < BG_LOSS_BINARY_LOGITS ? 4.0 : 20.0) *
                                 bgi_type_elements(&op->types[1]));
}

BGI_OP_KERNEL(select_pointwise_loss, POINTWISE_LOSS)
BGI_OP_KERNEL(select_pointwise_loss_backward, POINTWISE_LOSS_BACKWARD)

const bg_op_type bgi_op_pointwise_loss = {
    BG_OP_TYPE_DEFAULTS, .name = "pointwise_loss",
    .minimum_inputs = 2, .maximum_inputs = 2,
    .output_count = 1,   .attributes_bytes = sizeof(bgi_pointwise_loss_attributes),
    .infer = infer_loss, .gradient = differentiate_loss,
    .cost = cost_loss,   .kernel = select_pointwise_loss,
};

/* Shape rule: dloss, prediction, target -> dprediction or dtarget. */
static bg_status infer_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_pointwise_loss_attributes *attributes = op->attributes;
    bg_type loss;

    BGI_TRY(check_attributes(attributes, error));
    if (attributes->of_target > 1)
        return bg_error_set(error, BG_ERROR_INVALID, "of_target is %u; it must be 0 or 1", attributes->of_target);
    BGI_TRY(bgi_shape_float(&op->types[1], "prediction", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "target", &op->types[1], "the prediction's type", error));
    loss = loss_type(attributes, &op->types[1]);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dloss", &loss, "the loss", error));
    outputs[0] = op->types[1];
    return BG_OK;
}

const bg_op_type bgi_op_pointwise_loss_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 1,
    .weight_output = BG_NO_OPERAND,
    .name = "pointwise_loss_backward",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_pointwise_loss_attributes),
    .infer = infer_backward,
    .cost = cost_loss,
    .kernel = select_pointwise_loss_backward,
};

bg_value bg_pointwise_loss(bg_graph *graph, const char *name, bg_pointwise_loss_function function, double parameter,
                           bg_value prediction, bg_value target, bg_loss_reduction reduction)
{
    bgi_pointwise_loss_attributes attributes;
    const bg_value inputs[] = {prediction, target};

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.function = function;
    attributes.reduction = reduction;
    attributes.parameter = parameter;
    return bg_graph_add(graph, &bgi_op_pointwise_loss, name, inputs, 2, &attributes, NULL);
}

bg_value bg_mse_loss(bg_graph *graph, const char *name, bg_value prediction, bg_value target,
                     bg_loss_reduction reduction)
{
    return bg_pointwise_loss(graph, name, BG_LOSS_SQUARED, 0.0, prediction, target, reduction);
}
