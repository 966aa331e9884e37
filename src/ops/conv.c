/*
 * conv.c: defines 2-d convolution and its two gradients. One rule determines a convolution's output. The backward ops
 * have the forward type in their attributes and apply the same rule.
 */
#include <brigade/ops.h>

#include "ops/accumulating.h"

#include <string.h>

#include "kernels/conv/attributes.h"
#include "ops/conv.h"
#include "graph/graph.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* Sizes and options up to this limit cannot overflow the arithmetic below. */
static const int64_t largest_size = INT32_MAX;

static bg_status check_option(const char *option, int dim, int64_t value, int64_t least, bg_error *error)
{
    if (value >= least && value <= largest_size)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "%s[%d] is %lld; it must be at least %lld and at most %lld", option,
                        dim, (long long)value, (long long)least, (long long)largest_size);
}

bg_status bgi_conv2d_check_options(const bg_conv2d_options *options, bg_error *error)
{
    for (int dim = 0; dim < 2; dim++) {
        BGI_TRY(check_option("stride", dim, options->stride[dim], 1, error));
        BGI_TRY(check_option("padding", dim, options->padding[dim], 0, error));
        BGI_TRY(check_option("dilation", dim, options->dilation[dim], 1, error));
    }
    if (options->groups < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "groups is %lld; it must be at least 1",
                            (long long)options->groups);
    return BG_OK;
}

static bg_status check_image(const bg_type *type, const char *operand, const char *layout, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    BGI_TRY(bgi_shape_float(type, operand, error));
    BGI_TRY(bgi_shape_rank(type, operand, 4, layout, error));
    if (type->dims[2] < 0 || type->dims[2] > largest_size || type->dims[3] < 0 || type->dims[3] > largest_size)
        return bg_error_set(error, BG_ERROR_SHAPE, "%s is %s; its height and width must be 0 to %lld", operand,
                            bg_type_text(type, text), (long long)largest_size);
    return BG_OK;
}

static bg_status check_channels(const bg_type *x, const bg_type *weight, int64_t groups, bg_error *error)
{
    char x_text[BG_TYPE_TEXT_BYTES], weight_text[BG_TYPE_TEXT_BYTES];

    if (x->dims[1] % groups != 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s; its dimension 1 must be a multiple of groups = %lld",
                            bg_type_text(x, x_text), (long long)groups);
    if (weight->dims[1] != x->dims[1] / groups)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "weight is %s; its dimension 1 must be C/groups = %lld (x is %s, groups %lld)",
                            bg_type_text(weight, weight_text), (long long)(x->dims[1] / groups),
                            bg_type_text(x, x_text), (long long)groups);
    if (weight->dims[0] % groups != 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "weight is %s; its dimension 0 must be a multiple of groups = %lld",
                            bg_type_text(weight, weight_text), (long long)groups);
    return BG_OK;
}

bg_status bgi_conv2d_output(const bg_type *x, const bg_type *weight, const bg_conv2d_options *options, bg_type *out_y,
                            bg_error *error)
{
    char x_text[BG_TYPE_TEXT_BYTES], weight_text[BG_TYPE_TEXT_BYTES];
    bg_type y = {.dtype = x->dtype, .rank = 4};

    BGI_TRY(bgi_conv2d_check_options(options, error));
    BGI_TRY(check_image(x, "x", "[N,C,H,W]", error));
    BGI_TRY(check_image(weight, "weight", "[O,C/groups,KH,KW]", error));
    BGI_TRY(bgi_shape_same_dtype(x, "x", weight, "weight", error));
    BGI_TRY(check_channels(x, weight, options->groups, error));
    y.dims[0] = x->dims[0];
    y.dims[1] = weight->dims[0];
    for (int dim = 0; dim < 2; dim++) {
        const int64_t span = options->dilation[dim] * (weight->dims[2 + dim] - 1) + 1;
        const int64_t padded = x->dims[2 + dim] + 2 * options->padding[dim];

        if (span > padded)
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "weight is %s: along dimension %d it spans %lld with dilation %lld, but x, %s, has %lld "
                "with its padding; it must span no more",
                bg_type_text(weight, weight_text), 2 + dim, (long long)span, (long long)options->dilation[dim],
                bg_type_text(x, x_text), (long long)padded);
        y.dims[2 + dim] = (padded - span) / options->stride[dim] + 1;
    }
    *out_y = y;
    return BG_OK;
}

bg_status bgi_conv2d_bias(const bg_type *bias, const bg_type *weight, bg_error *error)
{
    const bg_type wanted = bg_vector(weight->dtype, weight->dims[0]);

    return bgi_shape_equal(bias, "bias", &wanted, "[O] of the weight", error);
}

double bgi_conv2d_flops(const bg_type *y, const bg_type *weight)
{
    return 2.0 * bgi_type_elements(y) * (double)weight->dims[1] * (double)weight->dims[2] * (double)weight->dims[3];
}

/* ---- conv2d ---- */

static bg_status infer_conv2d(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_conv2d_attributes *attributes = op->attributes;

    BGI_TRY(bgi_conv2d_output(&op->types[0], &op->types[1], &attributes->options, &outputs[0], error));
    if (op->input_count > 2)
        BGI_TRY(bgi_conv2d_bias(&op->types[2], &op->types[1], error));
    return BG_OK;
}

static bg_status differentiate_conv2d(bg_op_gradient *gradient, bg_error *error)
{
    const bool with_bias = gradient->op.input_count > 2 && gradient->needs[2];
    bgi_conv2d_backward_attributes attributes;
    bg_value dy;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.forward = *(const bgi_conv2d_attributes *)gradient->op.attributes;
    BGI_TRY(bgi_gradient_of_result(gradient, &dy, error));
    if (gradient->needs[0]) {
        const bg_value inputs[] = {dy, gradient->inputs[1]};

        attributes.result = gradient->op.types[0];
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_conv2d_backward_input, NULL, inputs, 2, &attributes, NULL);
    }
    if (gradient->needs[1] || with_bias) {
        const bg_value inputs[] = {dy, gradient->inputs[0]};
        bg_value outputs[2];

        attributes.result = gradient->op.types[1];
        attributes.with_bias = with_bias;
        bg_graph_add(gradient->graph, &bgi_op_conv2d_backward_weights, NULL, inputs, 2, &attributes, outputs);
        if (gradient->needs[1])
            gradient->input_gradients[1] = outputs[0];
        if (with_bias)
            gradient->input_gradients[2] = outputs[1];
    }
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_conv2d(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_conv2d_flops(&op->types[op->input_count], &op->types[1]));
}

BGI_OP_KERNEL(select_conv2d, CONV2D)

const bg_op_type bgi_op_conv2d = {
    BG_OP_TYPE_DEFAULTS,   .name = "conv2d",
    .minimum_inputs = 2,   .maximum_inputs = 3,
    .output_count = 1,     .attributes_bytes = sizeof(bgi_conv2d_attributes),
    .infer = infer_conv2d, .gradient = differentiate_conv2d,
    .cost = cost_conv2d,   .kernel = select_conv2d,
};

void bg_conv2d_options_init(bg_conv2d_options *options, size_t struct_bytes)
{
    const bg_conv2d_options made = {
        .struct_bytes = struct_bytes, .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}, .groups = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

bg_value bg_conv2d(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                   const bg_conv2d_options *options)
{
    const bgi_conv2d_attributes attributes = {options != NULL ? *options : bg_conv2d_defaults()};
    bg_value inputs[] = {x, weight, bias};

    if (options != NULL && !bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_conv2d_options",
                                                   "bg_conv2d_defaults()"))
        return (bg_value){0};
    bgi_promote(graph, inputs, 3);
    return bg_graph_add(graph, &bgi_op_conv2d, name, inputs, bg_value_is_null(bias) ? 2 : 3, &attributes, NULL);
}

/* ---- backward: dy, weight -> dx ---- */

static bg_status infer_backward_input(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_conv2d_backward_attributes *attributes = op->attributes;
    bg_type y;

    BGI_TRY(bgi_conv2d_output(&attributes->result, &op->types[1], &attributes->forward.options, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the convolution's output", error));
    outputs[0] = attributes->result;
    return BG_OK;
}

static bg_cost cost_backward_input(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_conv2d_flops(&op->types[0], &op->types[1]));
}

BGI_OP_KERNEL(select_backward_input, CONV2D_BACKWARD_INPUT)

const bg_op_type bgi_op_conv2d_backward_input = {
    BG_OP_TYPE_DEFAULTS,
    .name = "conv2d_backward_input",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_conv2d_backward_attributes),
    .infer = infer_backward_input,
    .cost = cost_backward_input,
    .kernel = select_backward_input,
};

/* ---- backward: dy, x -> dw, db? ---- */

static bg_status infer_backward_weights(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_conv2d_backward_attributes *attributes = op->attributes;
    bg_type y;

    BGI_TRY(bgi_conv2d_output(&op->types[1], &attributes->result, &attributes->forward.options, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the convolution's output", error));
    outputs[0] = attributes->result;
    if (attributes->with_bias)
        outputs[1] = bg_vector(attributes->result.dtype, attributes->result.dims[0]);
    return BG_OK;
}

static bg_cost cost_backward_weights(const bg_op_signature *op)
{
    const bgi_conv2d_backward_attributes *attributes = op->attributes;

    return bgi_cost_once(op, bgi_conv2d_flops(&op->types[0], &attributes->result));
}

BGI_OP_KERNEL(select_backward_weights, CONV2D_BACKWARD_WEIGHTS)

const bg_op_type bgi_op_conv2d_backward_weights = {
    BG_OP_TYPE_DEFAULTS,
    .name = "conv2d_backward_weights",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_conv2d_backward_attributes),
    .infer = infer_backward_weights,
    .cost = cost_backward_weights,
    .kernel = select_backward_weights,
    .accumulating = &bgi_op_conv2d_backward_weights_accumulate,
};

BGI_ACCUMULATING_FORM(bgi_op_conv2d_backward_weights_accumulate, "conv2d_backward_weights_accumulate",
                      bgi_op_conv2d_backward_weights, 2, 2, bgi_conv2d_backward_attributes, select_backward_weights);
