/*
 * fused_norm.c: defines batch norm and the ops that follow it as one op: a sum, a function. Plans for training make the
 * op from the separate ops.
 */
#include <brigade/ops.h>

#include <string.h>

#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_type statistics_type(const bg_type *x)
{
    return bg_matrix(BG_FLOAT64, x->dims[1], 2);
}

/* Shape rule: x, gamma, beta, running_mean!, running_variance!, other? -> y, statistics. */
static bg_status infer_fused(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_fused_norm_attributes *attributes = op->attributes;
    const uint32_t inputs = attributes->adds ? 6 : 5;
    bg_op_signature norm = *op;
    bg_type results[3];

    if (op->input_count != inputs)
        return bg_error_set(error, BG_ERROR_INVALID, "%u operands are given, but the steps of the op need %u",
                            op->input_count, inputs);
    norm.input_count = 5;
    BGI_TRY(bgi_op_batch_norm.infer(&norm, results, error));
    if (attributes->adds)
        BGI_TRY(bgi_shape_equal(&op->types[5], "other", &op->types[0], "x's type", error));
    outputs[0] = op->types[0];
    outputs[1] = statistics_type(&op->types[0]);
    return BG_OK;
}

/* Adds the gradients of the separate ops; only the gradient of a function right after the norm is part of the norm's
 * gradient. After a sum, the gradient of the function is also the gradient of both operands, and a fused kernel that
 * stores it was not faster. */
static bg_status differentiate_fused(bg_op_gradient *gradient, bg_error *error)
{
    const bg_value y = gradient->outputs[0];
    bgi_fused_norm_attributes attributes;
    bg_value inputs[5] = {{0}, gradient->inputs[0], gradient->outputs[1], gradient->inputs[1], gradient->inputs[2]};
    bg_value outputs[3];

    memcpy(&attributes, gradient->op.attributes, sizeof attributes);
    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (attributes.adds && attributes.maps) {
        const bg_value operands[] = {inputs[0], y, y};

        inputs[0] = bg_graph_add(gradient->graph, &bgi_op_unary_backward, NULL, operands, 3, &attributes.unary, NULL);
        attributes.maps = 0;
    }
    bg_graph_add(gradient->graph, &bgi_op_fused_batch_norm_backward, NULL, inputs, 5, &attributes, outputs);
    for (uint32_t i = 0; i < 3; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    if (attributes.adds && gradient->needs[5])
        gradient->input_gradients[5] = inputs[0];
    return bg_graph_check(gradient->graph, error);
}

static double count_steps(const bgi_fused_norm_attributes *attributes)
{
    return attributes->adds + attributes->maps;
}

static bg_cost cost_fused(const bg_op_signature *op)
{
    return bgi_cost_once(op, (8.0 + count_steps(op->attributes)) * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_fused, FUSED_BATCH_NORM)

const bg_op_type bgi_op_fused_batch_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "fused_batch_norm",
    .minimum_inputs = 5,
    .maximum_inputs = 6,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_fused_norm_attributes),
    .written_inputs = 1u << 3 | 1u << 4,
    .training_writes = 1u << 3 | 1u << 4,
    .infer = infer_fused,
    .gradient = differentiate_fused,
    .cost = cost_fused,
    .kernel = select_fused,
};

/* Shape rule: dy, x, statistics, gamma, beta -> dx, dgamma, dbeta. */
static bg_status infer_fused_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[1];
    bg_type vector, statistics;

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 2, "[N,C] or [N,C,H,W]", error));
    vector = bg_vector(x->dtype, x->dims[1]);
    statistics = statistics_type(x);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "statistics", &statistics, "the forward op's", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "gamma", &vector, "C of x", error));
    BGI_TRY(bgi_shape_equal(&op->types[4], "beta", &vector, "C of x", error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = vector;
    return BG_OK;
}

static bg_cost cost_fused_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, (14.0 + count_steps(op->attributes)) * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_fused_backward, FUSED_BATCH_NORM_BACKWARD)

const bg_op_type bgi_op_fused_batch_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "fused_batch_norm_backward",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_fused_norm_attributes),
    .infer = infer_fused_backward,
    .cost = cost_fused_backward,
    .kernel = select_fused_backward,
};
