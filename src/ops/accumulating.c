/*
 * accumulating.c: implements the shape rule and the cost of an accumulating form, derived from those of the plain op.
 */
#include "ops/accumulating.h"

#include <stdio.h>

enum { MOST_OUTPUTS = 8 };

bg_status bgi_infer_accumulating(const bg_op_type *plain, const bg_op_signature *op, bg_error *error)
{
    const uint32_t inputs = plain->maximum_inputs;
    bg_op_signature signature = *op;
    bg_type outputs[MOST_OUTPUTS] = {{0}};
    uint32_t count = 0;

    signature.input_count = inputs;
    signature.output_count = 0;
    BGI_TRY(plain->infer(&signature, outputs, error));
    while (count < plain->output_count && outputs[count].dtype != BG_DTYPE_NONE)
        count++;
    if (op->input_count != inputs + count)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the op has %u accumulators and %u gradients; each gradient needs one accumulator",
                            (unsigned)(op->input_count - inputs), (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        char operand[32];

        snprintf(operand, sizeof operand, "accumulator %u", (unsigned)i);
        BGI_TRY(bgi_shape_equal(&op->types[inputs + i], operand, &outputs[i], "the gradient's type", error));
    }
    return BG_OK;
}

/* Returns the cost of the plain op, plus an addition and a read for each element of the accumulators. */
bg_cost bgi_cost_accumulating(const bg_op_type *plain, const bg_op_signature *op)
{
    bg_op_signature signature = *op;
    bg_cost cost;

    signature.input_count = plain->maximum_inputs;
    signature.output_count = op->input_count - plain->maximum_inputs;
    cost = plain->cost(&signature);
    for (uint32_t i = signature.input_count; i < op->input_count; i++) {
        cost.flops += bgi_type_elements(&op->types[i]);
        cost.bytes_read += (double)bg_type_size_bytes(&op->types[i]);
    }
    return cost;
}
