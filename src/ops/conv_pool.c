/*
 * conv_pool.c: defines convolution, bias, max pool and optional relu as one op, and its gradients. Fusion makes the op
 * from the separate ops where windows do not overlap. For the backward pass the op keeps one byte for each pooled
 * element instead of the convolution's output.
 */
#include <brigade/ops.h>

#include "kernels/conv_pool/attributes.h"
#include "ops/accumulating.h"
#include "ops/conv.h"
#include "ops/ops.h"
#include "ops/shape.h"

enum { LARGEST_WINDOW = 254 /* its offsets are uint8, and 255 has a special meaning */ };

/* Derives the type of the convolution's output before pooling, and that of the pooled output. */
static bg_status infer_pooled(const bgi_conv2d_pool_attributes *attributes, const bg_type *x, const bg_type *weight,
                              bg_type *out_convolved, bg_type *out_pooled, bg_error *error)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    const int64_t *pool = attributes->pool;
    char text[BG_TYPE_TEXT_BYTES];

    options.padding[0] = attributes->padding[0];
    options.padding[1] = attributes->padding[1];
    BGI_TRY(bgi_conv2d_output(x, weight, &options, out_convolved, error));
    if (pool[0] < 1 || pool[1] < 1 || pool[0] > LARGEST_WINDOW || pool[1] > LARGEST_WINDOW ||
        pool[0] * pool[1] > LARGEST_WINDOW)
        return bg_error_set(error, BG_ERROR_INVALID, "pool is %lld x %lld; it must have 1 to %d elements",
                            (long long)pool[0], (long long)pool[1], LARGEST_WINDOW);
    *out_pooled = *out_convolved;
    for (int dim = 0; dim < 2; dim++) {
        out_pooled->dims[2 + dim] = out_convolved->dims[2 + dim] / pool[dim];
        if (out_pooled->dims[2 + dim] == 0)
            return bg_error_set(
                error, BG_ERROR_SHAPE, "pool[%d] is %lld; it must be at most %lld (the convolution's output is %s)",
                dim, (long long)pool[dim], (long long)out_convolved->dims[2 + dim], bg_type_text(out_convolved, text));
    }
    return BG_OK;
}

static bg_type where_type(bg_type pooled)
{
    pooled.dtype = BG_UINT8;
    return pooled;
}

/* ---- x, weight, bias -> y, where ---- */

static bg_status infer_conv2d_pool(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type convolved;

    BGI_TRY(infer_pooled(op->attributes, &op->types[0], &op->types[1], &convolved, &outputs[0], error));
    BGI_TRY(bgi_conv2d_bias(&op->types[2], &op->types[1], error));
    outputs[1] = where_type(outputs[0]);
    return BG_OK;
}

static bg_status differentiate_conv2d_pool(bg_op_gradient *gradient, bg_error *error)
{
    bgi_conv2d_pool_backward_attributes attributes = {.forward =
                                                          *(const bgi_conv2d_pool_attributes *)gradient->op.attributes};
    bg_value dy;

    BGI_TRY(bgi_gradient_of_result(gradient, &dy, error));
    if (gradient->needs[0]) {
        const bg_value inputs[] = {dy, gradient->outputs[1], gradient->inputs[1]};

        attributes.result = gradient->op.types[0];
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_conv2d_pool_backward_input, NULL, inputs, 3, &attributes, NULL);
    }
    if (gradient->needs[1] || gradient->needs[2]) {
        const bg_value inputs[] = {dy, gradient->outputs[1], gradient->inputs[0]};
        bg_value outputs[2];

        attributes.result = gradient->op.types[1];
        bg_graph_add(gradient->graph, &bgi_op_conv2d_pool_backward_weights, NULL, inputs, 3, &attributes, outputs);
        for (uint32_t i = 0; i < 2; i++)
            if (gradient->needs[1 + i])
                gradient->input_gradients[1 + i] = outputs[i];
    }
    return bg_graph_check(gradient->graph, error);
}

/* Returns the cost of the convolution; comparisons are negligible. */
static bg_cost cost_conv2d_pool(const bg_op_signature *op)
{
    bg_type convolved, pooled;

    if (infer_pooled(op->attributes, &op->types[0], &op->types[1], &convolved, &pooled, NULL) != BG_OK)
        return bgi_cost_once(op, 0.0);
    return bgi_cost_once(op, bgi_conv2d_flops(&convolved, &op->types[1]));
}

BGI_OP_KERNEL(select_conv2d_pool, CONV2D_POOL)

const bg_op_type bgi_op_conv2d_pool = {
    BG_OP_TYPE_DEFAULTS,        .name = "conv2d_pool",
    .minimum_inputs = 3,        .maximum_inputs = 3,
    .output_count = 2,          .attributes_bytes = sizeof(bgi_conv2d_pool_attributes),
    .infer = infer_conv2d_pool, .gradient = differentiate_conv2d_pool,
    .cost = cost_conv2d_pool,   .kernel = select_conv2d_pool,
};

/* ---- backward ---- */

static bg_status check_gradients(const bg_op_signature *op, const bg_type *pooled, bg_error *error)
{
    const bg_type where = where_type(*pooled);

    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", pooled, "the pooled output", error));
    return bgi_shape_equal(&op->types[1], "where", &where, "the offsets of the forward op", error);
}

/* Counts one product for each pair of a pooled element and an element of a filter, because only the largest element of
 * each window has a gradient. */
static bg_cost cost_backward(const bg_op_signature *op, const bg_type *weight)
{
    return bgi_cost_once(op, bgi_conv2d_flops(&op->types[0], weight));
}

/* Shape rule: dy, where, weight -> dx. */
static bg_status infer_backward_input(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_conv2d_pool_backward_attributes *attributes = op->attributes;
    bg_type convolved, pooled;

    BGI_TRY(infer_pooled(&attributes->forward, &attributes->result, &op->types[2], &convolved, &pooled, error));
    BGI_TRY(check_gradients(op, &pooled, error));
    outputs[0] = attributes->result;
    return BG_OK;
}

static bg_cost cost_backward_input(const bg_op_signature *op)
{
    return cost_backward(op, &op->types[2]);
}

BGI_OP_KERNEL(select_backward_input, CONV2D_POOL_BACKWARD_INPUT)

const bg_op_type bgi_op_conv2d_pool_backward_input = {
    BG_OP_TYPE_DEFAULTS,
    .name = "conv2d_pool_backward_input",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_conv2d_pool_backward_attributes),
    .infer = infer_backward_input,
    .cost = cost_backward_input,
    .kernel = select_backward_input,
};

/* Shape rule: dy, where, x -> dw, db. */
static bg_status infer_backward_weights(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_conv2d_pool_backward_attributes *attributes = op->attributes;
    bg_type convolved, pooled;

    BGI_TRY(infer_pooled(&attributes->forward, &op->types[2], &attributes->result, &convolved, &pooled, error));
    BGI_TRY(check_gradients(op, &pooled, error));
    outputs[0] = attributes->result;
    outputs[1] = bg_vector(attributes->result.dtype, attributes->result.dims[0]);
    return BG_OK;
}

static bg_cost cost_backward_weights(const bg_op_signature *op)
{
    const bgi_conv2d_pool_backward_attributes *attributes = op->attributes;

    return cost_backward(op, &attributes->result);
}

BGI_OP_KERNEL(select_backward_weights, CONV2D_POOL_BACKWARD_WEIGHTS)

const bg_op_type bgi_op_conv2d_pool_backward_weights = {
    BG_OP_TYPE_DEFAULTS,
    .name = "conv2d_pool_backward_weights",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_conv2d_pool_backward_attributes),
    .infer = infer_backward_weights,
    .cost = cost_backward_weights,
    .kernel = select_backward_weights,
    .accumulating = &bgi_op_conv2d_pool_backward_weights_accumulate,
};

BGI_ACCUMULATING_FORM(bgi_op_conv2d_pool_backward_weights_accumulate, "conv2d_pool_backward_weights_accumulate",
                      bgi_op_conv2d_pool_backward_weights, 3, 2, bgi_conv2d_pool_backward_attributes,
                      select_backward_weights);
