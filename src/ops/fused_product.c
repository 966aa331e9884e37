/*
 * fused_product.c: defines a matrix product and the bias, function or derivative that follows it as one op. Plans make
 * the op from the separate ops after all gradients exist (transform/fuse_products.c), so it needs no gradient rule. Its
 * kernel and rules apply the kernels and rules of the separate ops one after another.
 */
#include <string.h>

#include "kernels/elementwise/attributes.h"
#include "kernels/linear/attributes.h"
#include "kernels/linear/product.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_fused_product, FUSED_PRODUCT)

static const bg_op_type *const products[BGI_PRODUCT_COUNT] = {
    [BGI_PRODUCT_LINEAR] = &bgi_op_linear,
    [BGI_PRODUCT_LINEAR_BACKWARD_INPUT] = &bgi_op_linear_backward_input,
    [BGI_PRODUCT_MATMUL] = &bgi_op_matmul,
};

/* Returns the signature of only the product; `types` receives the types of its inputs and its output. */
static bg_op_signature view_product(const bg_op_signature *op, bg_type *types)
{
    const bgi_fused_product_attributes *attributes = op->attributes;
    bg_op_signature product = *op;

    product.types = types;
    product.input_count = bgi_fused_product_inputs(attributes, op->input_count);
    product.output_count = op->output_count > 0 ? 1 : 0;
    for (uint32_t i = 0; i < product.input_count; i++)
        types[i] = op->types[i];
    if (op->output_count > 0)
        types[product.input_count] = op->types[op->input_count];
    return product;
}

static bg_status check_attributes(const bg_op_signature *op, bg_error *error)
{
    const bgi_fused_product_attributes *attributes = op->attributes;

    if (attributes->product >= BGI_PRODUCT_COUNT || attributes->follows >= BGI_FOLLOWS_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "product is %d and follows is %d; product must be 0 to %d and follows 0 to %d",
                            attributes->product, attributes->follows, BGI_PRODUCT_COUNT - 1, BGI_FOLLOWS_COUNT - 1);
    if (!bgi_unary_fuses((bg_unary)attributes->function))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "function %d is not one of bg_unary that follow products (0 to %d)", attributes->function,
                            BG_TAN - 1);
    if (attributes->keeps_sum && attributes->follows != BGI_FOLLOWS_FUNCTION)
        return bg_error_set(error, BG_ERROR_INVALID, "keeps_sum is set, but no function follows the sum");
    if (attributes->follows == BGI_FOLLOWS_DERIVATIVE && op->input_count != 3)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the op has %u inputs; a derivative needs the two of the product and a third one",
                            op->input_count);
    return BG_OK;
}

static bg_status infer_fused_product(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_fused_product_attributes *attributes = op->attributes;
    bg_type types[BGI_FUSED_OPERANDS];
    bg_op_signature product;

    BGI_TRY(check_attributes(op, error));
    product = view_product(op, types);
    BGI_TRY(products[attributes->product]->infer(&product, outputs, error));
    if (attributes->follows == BGI_FOLLOWS_DERIVATIVE) {
        BGI_TRY(bgi_shape_equal(&op->types[2], "the value that the function's forward stored", &outputs[0],
                                "the product's type", error));
    } else if (bgi_fused_product_adds(attributes, op->input_count)) {
        const bg_type bias = bg_vector(outputs[0].dtype, outputs[0].dims[outputs[0].rank - 1]);

        BGI_TRY(bgi_shape_equal(&op->types[2], "the bias", &bias, "one for each column of the product", error));
    }
    if (attributes->keeps_sum)
        outputs[1] = outputs[0];
    return BG_OK;
}

static bg_cost cost_fused_product(const bg_op_signature *op)
{
    const bgi_fused_product_attributes *attributes = op->attributes;
    const bg_type *y = &op->types[op->input_count];
    const bgi_unary_attributes unary = {.function = (bg_unary)attributes->function};
    const bg_op_signature next = {
        .types = (const bg_type[]){*y, *y}, .input_count = 1, .output_count = 1, .attributes = &unary};
    bg_type types[BGI_FUSED_OPERANDS];
    const bg_op_signature product = view_product(op, types);
    double flops = products[attributes->product]->cost(&product).flops;

    if (bgi_fused_product_adds(attributes, op->input_count))
        flops += bgi_type_elements(y);
    if (attributes->follows != BGI_FOLLOWS_NOTHING)
        flops += bgi_op_unary.cost(&next).flops;
    return bgi_cost_once(op, flops);
}

const bg_op_type bgi_op_fused_product = {
    .name = "fused_product",
    .minimum_inputs = 2,
    .maximum_inputs = 3,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_fused_product_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_fused_product,
    .cost = cost_fused_product,
    .kernel = select_fused_product,
};
