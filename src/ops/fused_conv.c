/*
 * fused_conv.c: defines a convolution and the ops that follow it as one op: batch norm with running statistics, a sum,
 * a function. Plans for inference make the op from the separate ops, so it has no gradient.
 */
#include <brigade/ops.h>

#include "kernels/fused_conv/attributes.h"
#include "ops/conv.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* Shape rule: x, w, bias?, (gamma, beta, running_mean, running_variance)?, other? -> y. */
static bg_status infer_fused_conv2d(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const names[] = {"gamma", "beta", "running_mean", "running_variance"};
    const bgi_fused_conv2d_attributes *attributes = op->attributes;
    const uint32_t gamma = bgi_fused_conv2d_gamma(attributes), inputs = bgi_fused_conv2d_inputs(attributes);
    bg_type vector;

    if (op->input_count != inputs)
        return bg_error_set(error, BG_ERROR_INVALID, "%u operands are given, but the steps of the op need %u",
                            op->input_count, inputs);
    if (op->types[0].dtype != BG_FLOAT32)
        return bg_error_set(error, BG_ERROR_INVALID, "x is %s; it must be float32", bg_dtype_name(op->types[0].dtype));
    BGI_TRY(bgi_conv2d_output(&op->types[0], &op->types[1], &attributes->conv.options, &outputs[0], error));
    vector = bg_vector(BG_FLOAT32, outputs[0].dims[1]);
    if (attributes->has_bias)
        BGI_TRY(bgi_conv2d_bias(&op->types[2], &op->types[1], error));
    for (uint32_t i = 0; attributes->norms && i < 4; i++)
        BGI_TRY(bgi_shape_equal(&op->types[gamma + i], names[i], &vector, "one for each channel", error));
    if (attributes->adds)
        BGI_TRY(bgi_shape_equal(&op->types[inputs - 1], "other", &outputs[0], "the convolution's output", error));
    return BG_OK;
}

static bg_cost cost_fused_conv2d(const bg_op_signature *op)
{
    const bgi_fused_conv2d_attributes *attributes = op->attributes;
    const bg_type *y = &op->types[op->input_count];
    const double steps = (attributes->norms ? 3.0 : 0.0) + attributes->adds + attributes->maps;

    return bgi_cost_once(op, bgi_conv2d_flops(y, &op->types[1]) + steps * bgi_type_elements(y));
}

BGI_OP_KERNEL(select_fused_conv2d, FUSED_CONV2D)

const bg_op_type bgi_op_fused_conv2d = {
    BG_OP_TYPE_DEFAULTS,         .name = "fused_conv2d",    .minimum_inputs = 2,
    .maximum_inputs = 8,         .output_count = 1,         .attributes_bytes = sizeof(bgi_fused_conv2d_attributes),
    .infer = infer_fused_conv2d, .cost = cost_fused_conv2d, .kernel = select_fused_conv2d,
};
