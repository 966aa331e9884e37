/*
 * fused_reference.c: runs a product and then the following step with their separate kernels.
 */
#include "kernels/elementwise/attributes.h"
#include "kernels/kernels.h"
#include "kernels/linear/attributes.h"
#include "kernels/linear/product.h"
#include "kernels/reference/operands.h"

void bgi_fused_call_make(const bg_kernel_call *fused, bgi_fused_call *out)
{
    const uint32_t inputs = bgi_fused_product_inputs(fused->attributes, fused->input_count);
    const bool keeps_sum = bgi_has_output(fused, 1);

    out->call = *fused;
    out->call.types = out->types;
    out->call.operands = out->operands;
    out->call.input_count = inputs;
    out->call.output_count = 1;
    for (uint32_t i = 0; i < inputs; i++) {
        out->types[i] = fused->types[i];
        out->operands[i] = fused->operands[i];
    }
    out->types[inputs] = *bgi_output_type(fused, 0);
    out->operands[inputs] = bgi_output(fused, keeps_sum ? 1 : 0);
}

/* Runs a kernel of the step that follows. `second` is the type of its second operand, or NULL for y's type, which all
 * other operands have. */
static void run_next(const bg_kernel_call *fused, bg_kernel_function kernel, void *const *operands,
                     const bg_type *second, uint32_t input_count, const void *attributes)
{
    const bg_type *y = bgi_output_type(fused, 0);
    const bg_type types[BGI_FUSED_OPERANDS] = {*y, second != NULL ? *second : *y, *y, *y};
    bg_kernel_call call = *fused;

    call.types = types;
    call.operands = operands;
    call.input_count = input_count;
    call.output_count = 1;
    call.attributes = attributes;
    kernel(&call, 0);
}

void bgi_reference_fused_product(const bg_kernel_call *call, uint32_t part)
{
    static const bg_kernel_function products[BGI_PRODUCT_COUNT] = {[BGI_PRODUCT_LINEAR] = bgi_reference_linear,
                                                                   [BGI_PRODUCT_LINEAR_BACKWARD_INPUT] =
                                                                       bgi_reference_linear_backward_input,
                                                                   [BGI_PRODUCT_MATMUL] = bgi_reference_matmul};
    static const bgi_binary_attributes add = {.function = BG_ADD};
    const bgi_fused_product_attributes *attributes = call->attributes;
    const bgi_unary_attributes unary = {.function = (bg_unary)attributes->function};
    const uint32_t last = call->input_count - 1;
    void *const other = call->operands[last], *const y = bgi_output(call, 0);
    bgi_fused_call product;
    void *sum;

    bgi_fused_call_make(call, &product);
    sum = product.operands[product.call.input_count];
    products[attributes->product](&product.call, part);
    if (bgi_fused_product_adds(attributes, call->input_count))
        run_next(call, bgi_reference_binary, (void *const[]){sum, other, sum}, &call->types[last], 2, &add);
    if (attributes->follows == BGI_FOLLOWS_FUNCTION)
        run_next(call, bgi_reference_unary, (void *const[]){sum, y}, NULL, 1, &unary);
    else if (attributes->follows == BGI_FOLLOWS_DERIVATIVE)
        run_next(call, bgi_reference_unary_backward, (void *const[]){sum, other, other, y}, NULL, 3, &unary);
}
