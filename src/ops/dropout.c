/*
 * dropout.c: defines dropout. The mask is never stored: it is a function of the op's random number, the step and the
 * sample, so the gradient is the same op with the same attributes applied to dy.
 */
#include <brigade/ops.h>

#include "ops/ops.h"

#include <string.h>

#include "kernels/dropout/attributes.h"
#include "ops/shape.h"

static bg_status infer_dropout(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_dropout_attributes *attributes = op->attributes;

    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    BGI_TRY(bgi_shape_minimum_rank(&op->types[0], "x", 1, "[N, ...] with samples first", error));
    if (!(attributes->probability >= 0.0 && attributes->probability <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "probability is %g; it must be between 0 and 1",
                            attributes->probability);
    if (attributes->pieces > 1)
        BGI_TRY(bgi_shape_minimum_rank(&op->types[0], "x", 2,
                                       "[N, ..., last] with samples first and the last dimension split", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status differentiate_dropout(bg_op_gradient *gradient, bg_error *error)
{
    bg_value dy;

    BGI_TRY(bgi_gradient_of_result(gradient, &dy, error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_dropout, NULL, &dy, 1, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Counts ten rounds of about ten integer operations for four random numbers. */
static bg_cost cost_dropout(const bg_op_signature *op)
{
    return bgi_cost_once(op, 25.0 * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_dropout, DROPOUT)

const bg_op_type bgi_op_dropout = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "dropout",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_dropout_attributes),
    .infer = infer_dropout,
    .gradient = differentiate_dropout,
    .cost = cost_dropout,
    .kernel = select_dropout,
};

bg_value bg_dropout(bg_graph *graph, const char *name, bg_value x, double probability)
{
    bgi_dropout_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.probability = probability;
    attributes.random_id = bg_graph_next_random_id(graph);
    return bg_graph_add(graph, &bgi_op_dropout, name, &x, 1, &attributes, NULL);
}
