/*
 * accumulating.h: defines the accumulating form of an op type that makes gradients: the same op with its outputs added
 * to accumulators. This file does not depend on any particular op.
 *
 *     dw, db = backward_weights(dy, x)
 *     accumulate(w.acc!, dw)               =>   backward_weights_accumulate(dy, x, w.acc!, b.acc!)
 *     accumulate(b.acc!, db)
 *
 * The kernel that computes a gradient also adds it to the accumulator, so the gradient is not written, read again and
 * added by another core.
 */
#ifndef BGI_OPS_ACCUMULATING_H
#define BGI_OPS_ACCUMULATING_H

#include "ops/shape.h"

/* These functions are the shape rule and the cost of an accumulating form, derived from those of `plain`, an op type
 * with a fixed number of inputs. */
bg_status bgi_infer_accumulating(const bg_op_type *plain, const bg_op_signature *op, bg_error *error);
bg_cost bgi_cost_accumulating(const bg_op_type *plain, const bg_op_signature *op);

/* Defines `form`, the accumulating form of `plain`, which has exactly `inputs` inputs and at most `outputs` outputs. */
#define BGI_ACCUMULATING_FORM(form, form_name, plain, inputs, outputs, attributes, select)                             \
    static bg_status infer_##form(const bg_op_signature *op, bg_type *results, bg_error *error)                        \
    {                                                                                                                  \
        (void)results;                                                                                                 \
        return bgi_infer_accumulating(&(plain), op, error);                                                            \
    }                                                                                                                  \
    static bg_cost cost_##form(const bg_op_signature *op)                                                              \
    {                                                                                                                  \
        return bgi_cost_accumulating(&(plain), op);                                                                    \
    }                                                                                                                  \
    const bg_op_type form = {                                                                                          \
        BG_OP_TYPE_DEFAULTS,                                                                                           \
        .name = form_name,                                                                                             \
        .minimum_inputs = (inputs) + 1,                                                                                \
        .maximum_inputs = (inputs) + (outputs),                                                                        \
        .attributes_bytes = sizeof(attributes),                                                                        \
        .written_inputs = ((1u << (outputs)) - 1u) << (inputs),                                                        \
        .infer = infer_##form,                                                                                         \
        .cost = cost_##form,                                                                                           \
        .kernel = select,                                                                                              \
    }

#endif
