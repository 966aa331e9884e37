/*
 * pad.c: defines the op that adds elements around a tensor, or removes elements from its sides.
 */
#include <brigade/ops.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/pad/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_pad, PAD)
BGI_OP_KERNEL(select_pad_backward, PAD_BACKWARD)

/* Returns the largest number of elements that a mode can add to either side of a dimension. */
static int64_t find_limit(bg_pad_mode mode, int64_t size)
{
    return mode == BG_PAD_REFLECT ? size - 1 : mode == BG_PAD_CIRCULAR ? size : INT64_MAX / 4;
}

static bg_status check_attributes(const bgi_pad_attributes *attributes, bg_error *error)
{
    if ((unsigned)attributes->mode >= BG_PAD_MODE_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "mode %d is not one of bg_pad_mode (0 to %d)",
                            (int)attributes->mode, BG_PAD_MODE_COUNT - 1);
    if (attributes->rank > BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "rank %u is above the limit of %d", attributes->rank, BG_MAX_RANK);
    for (uint32_t i = 0; i < attributes->rank; i++) {
        const int64_t size = attributes->dims[i], limit = find_limit(attributes->mode, size);
        const int64_t least = attributes->mode == BG_PAD_CONSTANT ? -size : 0;
        const int64_t sides[] = {attributes->before[i], attributes->after[i]};
        if (size < 0 || size > INT64_MAX / 4)
            return bg_error_set(error, BG_ERROR_SHAPE, "dimension %u has %lld elements; it must have 0 to %lld", i,
                                (long long)size, (long long)(INT64_MAX / 4));
        for (int side = 0; side < 2; side++)
            if (sides[side] < least || sides[side] > limit)
                return bg_error_set(error, BG_ERROR_SHAPE,
                                    "the padding of %lld elements %s dimension %u, which has %lld elements, is not "
                                    "possible: this mode allows %lld to %lld",
                                    (long long)sides[side], side == 0 ? "before" : "after", i, (long long)size,
                                    (long long)least, (long long)limit);
        if (sides[0] + size + sides[1] < 1)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "dimension %u of the result would be empty: x has %lld elements there, and the padding "
                                "is %lld before and %lld after",
                                i, (long long)size, (long long)sides[0], (long long)sides[1]);
    }
    return BG_OK;
}

static bg_type padded_type(const bgi_pad_attributes *attributes, const bg_type *x)
{
    bg_type y = *x;

    for (uint32_t i = 0; i < x->rank; i++)
        y.dims[i] = attributes->before[i] + x->dims[i] + attributes->after[i];
    return y;
}

static bg_status infer_pad(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_pad_attributes *attributes = op->attributes;
    char x[BG_TYPE_TEXT_BYTES];

    BGI_TRY(check_attributes(attributes, error));
    if (attributes->rank != op->types[0].rank ||
        memcmp(attributes->dims, op->types[0].dims, attributes->rank * sizeof attributes->dims[0]) != 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s, but the padding was made for another shape",
                            bg_type_text(&op->types[0], x));
    outputs[0] = padded_type(op->attributes, &op->types[0]);
    return bg_type_validate(&outputs[0], error);
}

static bg_status differentiate_pad(bg_op_gradient *gradient, bg_error *error)
{
    if (gradient->needs[0])
        gradient->input_gradients[0] = bg_graph_add(gradient->graph, &bgi_op_pad_backward, NULL,
                                                    gradient->output_gradients, 1, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_pad = {
    BG_OP_TYPE_DEFAULTS,  .name = "pad",
    .minimum_inputs = 1,  .maximum_inputs = 1,
    .output_count = 1,    .attributes_bytes = sizeof(bgi_pad_attributes),
    .infer = infer_pad,   .gradient = differentiate_pad,
    .kernel = select_pad,
};

static bg_status infer_pad_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_pad_attributes *attributes = op->attributes;
    bg_type x, y;

    BGI_TRY(check_attributes(attributes, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "dy", error));
    x = bg_type_make(op->types[0].dtype, attributes->rank, attributes->dims);
    y = padded_type(attributes, &x);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the padded tensor", error));
    outputs[0] = x;
    return bg_type_validate(&outputs[0], error);
}

static bg_cost cost_pad_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_pad_backward = {
    BG_OP_TYPE_DEFAULTS,         .name = "pad_backward",    .minimum_inputs = 1,
    .maximum_inputs = 1,         .output_count = 1,         .attributes_bytes = sizeof(bgi_pad_attributes),
    .infer = infer_pad_backward, .cost = cost_pad_backward, .kernel = select_pad_backward,
};

bg_value bg_pad(bg_graph *graph, const char *name, bg_value x, bg_pad_mode mode, const int64_t *before,
                const int64_t *after, double value)
{
    const bg_type type = bg_graph_type(graph, x);
    bgi_pad_attributes attributes;

    if (type.rank > 0 && (before == NULL || after == NULL)) {
        bgi_graph_fail_op(graph, bgi_op_pad.name, name, BG_ERROR_INVALID,
                          "before or after is NULL; each must have a number of elements for each of the %u dimensions",
                          type.rank);
        return (bg_value){0};
    }
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.mode = mode;
    attributes.rank = type.rank;
    attributes.value = mode == BG_PAD_CONSTANT ? value : 0.0;
    for (uint32_t i = 0; i < type.rank; i++) {
        attributes.before[i] = before[i];
        attributes.after[i] = after[i];
        attributes.dims[i] = type.dims[i];
    }
    return bg_graph_add(graph, &bgi_op_pad, name, &x, 1, &attributes, NULL);
}
