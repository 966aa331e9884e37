/*
 * quantized.c: defines products with weights in 16, 8 or 4 bits, and embedding rows of such weights. Plans for
 * inference make these ops from products and embeddings (transform/quantize.c), so the ops have no gradients.
 */
#include <brigade/ops.h>

#include "kernels/quantized/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_quantized_linear, QUANTIZED_LINEAR)
BGI_OP_KERNEL(select_quantized_embedding, QUANTIZED_EMBEDDING)

static bg_status check_weights(const bgi_quantized_attributes *a, const bg_type *weights, bg_error *error)
{
    bg_type wanted;

    if (!bgi_quantized_is_valid(a->in, a->out, a->bits))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the weights have %lld inputs and %lld outputs of %u bits; inputs and outputs must be 1 to "
                            "%d, and bits 16, 8 or 4",
                            (long long)a->in, (long long)a->out, a->bits, INT32_MAX);
    wanted = bgi_quantized_type(a->in, a->out, a->bits);
    return bgi_shape_equal(weights, "the weight", &wanted, "panels of quantized weights", error);
}

static bg_status infer_quantized_linear(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_quantized_attributes *a = op->attributes;
    const bg_type *x = &op->types[0];

    BGI_TRY(check_weights(a, &op->types[1], error));
    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., in]", error));
    BGI_TRY(bgi_shape_dim(x, "x", x->rank - 1, a->in, "the number of inputs", error));
    outputs[0] = *x;
    outputs[0].dims[x->rank - 1] = a->out;
    return BG_OK;
}

static bg_cost cost_quantized_linear(const bg_op_signature *op)
{
    const bgi_quantized_attributes *a = op->attributes;

    return bgi_cost_once(op, 2.0 * bgi_type_elements(&op->types[0]) * (double)a->out);
}

const bg_op_type bgi_op_quantized_linear = {
    BG_OP_TYPE_DEFAULTS,
    .name = "quantized_linear",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_quantized_attributes),
    .infer = infer_quantized_linear,
    .cost = cost_quantized_linear,
    .kernel = select_quantized_linear,
};

static bg_status infer_quantized_embedding(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_quantized_attributes *a = op->attributes;
    const bg_type *ids = &op->types[1];
    char text[BG_TYPE_TEXT_BYTES];

    BGI_TRY(check_weights(a, &op->types[0], error));
    BGI_TRY(bgi_shape_dtype(ids, "ids", BG_INT32, "they are row numbers of the table", error));
    if (ids->rank >= BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "ids is %s; it must have at most %d dimensions",
                            bg_type_text(ids, text), BG_MAX_RANK - 1);
    outputs[0] = *ids;
    outputs[0].dtype = BG_FLOAT32;
    outputs[0].dims[outputs[0].rank++] = a->in;
    return BG_OK;
}

/* Counts only the rows that are read. */
static bg_cost cost_quantized_embedding(const bg_op_signature *op)
{
    const bgi_quantized_attributes *a = op->attributes;
    bg_cost cost = bgi_cost_once(op, bgi_type_elements(&op->types[2]));

    cost.bytes_read = cost.bytes_written * a->bits / 32.0 + (double)bg_type_size_bytes(&op->types[1]);
    return cost;
}

const bg_op_type bgi_op_quantized_embedding = {
    BG_OP_TYPE_DEFAULTS,
    .name = "quantized_embedding",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_quantized_attributes),
    .infer = infer_quantized_embedding,
    .cost = cost_quantized_embedding,
    .kernel = select_quantized_embedding,
};
