/*
 * conv_transpose.c: defines transposed 2-d convolution. The op is the gradient of a convolution's input. Its own
 * gradients are that convolution and the gradient of the convolution's weights, so the kernels of conv2d are enough.
 *
 *     conv2d            x [N,O,OH,OW], weight [C,O/G,KH,KW] -> y [N,C,H,W]
 *     conv_transpose2d  dy [N,C,H,W], weight                -> dx [N,O,OH,OW]
 */
#include <brigade/ops.h>

#include <string.h>

#include "kernels/conv/attributes.h"
#include "ops/conv.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_status find_output(const bg_type *x, const bg_type *weight, const bgi_conv_transpose2d_attributes *attributes,
                             bg_type *out, bg_error *error)
{
    const bg_conv2d_options *options = &attributes->forward.options;
    char text[BG_TYPE_TEXT_BYTES];
    bg_type y = *x;

    if (options->groups > INT32_MAX || weight->dims[1] > INT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "groups is %lld; it must be at most %d",
                            (long long)options->groups, INT32_MAX);
    y.dims[1] = weight->dims[1] * options->groups;
    for (int dim = 0; dim < 2; dim++) {
        const int64_t more = attributes->output_padding[dim], taps = weight->dims[2 + dim];

        if (more < 0 || more >= options->stride[dim])
            return bg_error_set(error, BG_ERROR_INVALID,
                                "output_padding[%d] is %lld; it must be at least 0 and less than the stride, %lld", dim,
                                (long long)more, (long long)options->stride[dim]);
        if (x->dims[2 + dim] > INT32_MAX || taps > INT32_MAX)
            return bg_error_set(error, BG_ERROR_SHAPE, "x is %s; heights and widths must be at most %d",
                                bg_type_text(x, text), INT32_MAX);
        y.dims[2 + dim] = (x->dims[2 + dim] - 1) * options->stride[dim] - 2 * options->padding[dim] +
                          options->dilation[dim] * (taps - 1) + more + 1;
        if (y.dims[2 + dim] < 1)
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "x is %s: dimension %d of the result would be empty, because padding %lld is removed from both sides",
                bg_type_text(x, text), 2 + dim, (long long)options->padding[dim]);
    }
    *out = y;
    return bg_type_validate(out, error);
}

static bg_status infer_conv_transpose2d(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_conv_transpose2d_attributes *attributes = op->attributes;
    bg_type back;

    BGI_TRY(bgi_conv2d_check_options(&attributes->forward.options, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    BGI_TRY(bgi_shape_rank(&op->types[0], "x", 4, "[N,C,H,W]", error));
    BGI_TRY(bgi_shape_rank(&op->types[1], "weight", 4, "[C,O/groups,KH,KW]", error));
    BGI_TRY(find_output(&op->types[0], &op->types[1], attributes, &outputs[0], error));
    /* The convolution's rule reports errors in the other options. */
    BGI_TRY(bgi_conv2d_output(&outputs[0], &op->types[1], &attributes->forward.options, &back, error));
    return bgi_shape_equal(&op->types[0], "x", &back, "its dimension 1 is dimension 0 of the weight", error);
}

static bg_status differentiate_conv_transpose2d(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_conv_transpose2d_attributes *own = gradient->op.attributes;
    bg_value dy;

    BGI_TRY(bgi_gradient_of_result(gradient, &dy, error));
    if (gradient->needs[0]) {
        const bg_value inputs[] = {dy, gradient->inputs[1]};

        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_conv2d, NULL, inputs, 2, &own->forward, NULL);
    }
    if (gradient->needs[1]) {
        const bg_value inputs[] = {gradient->inputs[0], dy};
        bgi_conv2d_backward_attributes attributes;
        bg_value outputs[2];

        memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
        attributes.forward = own->forward;
        attributes.result = gradient->op.types[1];
        bg_graph_add(gradient->graph, &bgi_op_conv2d_backward_weights, NULL, inputs, 2, &attributes, outputs);
        gradient->input_gradients[1] = outputs[0];
    }
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_conv_transpose2d(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_conv2d_flops(&op->types[0], &op->types[1]));
}

BGI_OP_KERNEL(select_conv_transpose2d, CONV2D_BACKWARD_INPUT)

const bg_op_type bgi_op_conv_transpose2d = {
    BG_OP_TYPE_DEFAULTS,
    .name = "conv_transpose2d",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_conv_transpose2d_attributes),
    .infer = infer_conv_transpose2d,
    .gradient = differentiate_conv_transpose2d,
    .cost = cost_conv_transpose2d,
    .kernel = select_conv_transpose2d,
};

bg_value bgi_conv_transpose2d(bg_graph *graph, const char *name, bg_value x, bg_value weight,
                              const bg_conv2d_options *options, const int64_t output_padding[2])
{
    const bgi_conv_transpose2d_attributes attributes = {{*options}, {output_padding[0], output_padding[1]}};
    const bg_value inputs[] = {x, weight};

    return bg_graph_add(graph, &bgi_op_conv_transpose2d, name, inputs, 2, &attributes, NULL);
}
