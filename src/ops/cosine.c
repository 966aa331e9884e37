/*
 * cosine.c: defines the cosine of two vectors, and the loss of pairs of vectors, which is built from the cosine.
 * Results are float32 or better, because squares of float16 overflow early.
 */
#include <brigade/ops.h>

#include <math.h>

#include "graph/graph.h"
#include "kernels/cosine/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_cosine, COSINE)
BGI_OP_KERNEL(select_cosine_backward, COSINE_BACKWARD)

static bg_type drop_axis(const bg_type *x, uint32_t axis)
{
    bg_type y = {.dtype = bgi_statistics_dtype(x->dtype)};

    for (uint32_t i = 0; i < x->rank; i++)
        if (i != axis)
            y.dims[y.rank++] = x->dims[i];
    return y;
}

static bg_status check_operands(const bg_type *a, const bg_type *b, const bgi_cosine_attributes *attributes,
                                bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES], other_text[BG_TYPE_TEXT_BYTES];

    if (!bg_dtype_is_float(a->dtype) || !bg_type_equal(a, b) || attributes->axis >= a->rank)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "a is %s and b is %s, axis %d; they must be floats of one type and shape, with this axis",
                            bg_type_text(a, text), bg_type_text(b, other_text), (int)attributes->axis);
    if (!(attributes->epsilon > 0.0 && isfinite(attributes->epsilon)))
        return bg_error_set(error, BG_ERROR_INVALID, "epsilon is %g; it must be above 0 and finite",
                            attributes->epsilon);
    return BG_OK;
}

/* Shape rule: a, b -> y, inverse lengths. */
static bg_status infer_cosine(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_cosine_attributes *attributes = op->attributes;

    BGI_TRY(check_operands(&op->types[0], &op->types[1], attributes, error));
    outputs[0] = outputs[1] = outputs[2] = drop_axis(&op->types[0], attributes->axis);
    return BG_OK;
}

static bg_status differentiate_cosine(bg_op_gradient *gradient, bg_error *error)
{
    bg_value inputs[6] = {{0},
                          gradient->inputs[0],
                          gradient->inputs[1],
                          gradient->outputs[0],
                          gradient->outputs[1],
                          gradient->outputs[2]};
    bg_value outputs[2];

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    bg_graph_add(gradient->graph, &bgi_op_cosine_backward, NULL, inputs, 6, gradient->op.attributes, outputs);
    for (uint32_t i = 0; i < 2; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_cosine(const bg_op_signature *op)
{
    return bgi_cost_once(op, 6.0 * bgi_type_elements(&op->types[op->input_count == 2 ? 0 : 1]));
}

const bg_op_type bgi_op_cosine = {
    BG_OP_TYPE_DEFAULTS,   .name = "cosine",
    .minimum_inputs = 2,   .maximum_inputs = 2,
    .output_count = 3,     .attributes_bytes = sizeof(bgi_cosine_attributes),
    .infer = infer_cosine, .gradient = differentiate_cosine,
    .cost = cost_cosine,   .kernel = select_cosine,
};

/* Shape rule: dy, a, b, y, inverse lengths -> da, db. */
static bg_status infer_cosine_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const names[] = {[0] = "dy", [3] = "y", [4] = "the inverse length of a", [5] = "that of b"};
    const bgi_cosine_attributes *attributes = op->attributes;
    bg_type wanted;

    BGI_TRY(check_operands(&op->types[1], &op->types[2], attributes, error));
    wanted = drop_axis(&op->types[1], attributes->axis);
    for (uint32_t i = 0; i < 6; i += i == 0 ? 3 : 1)
        BGI_TRY(bgi_shape_equal(&op->types[i], names[i], &wanted, "the forward op's result", error));
    outputs[0] = outputs[1] = op->types[1];
    return BG_OK;
}

const bg_op_type bgi_op_cosine_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "cosine_backward",
    .minimum_inputs = 6,
    .maximum_inputs = 6,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_cosine_attributes),
    .infer = infer_cosine_backward,
    .cost = cost_cosine,
    .kernel = select_cosine_backward,
};

/* Returns the cosine in the type of the computation. */
static bg_value add_cosine(bg_graph *graph, const char *op, const char *name, bg_value a, bg_value b, int32_t axis,
                           double epsilon)
{
    const bg_type type = bg_graph_type(graph, a), other = bg_graph_type(graph, b);
    const bgi_cosine_attributes attributes = {.epsilon = epsilon,
                                              .axis = (uint32_t)(axis < 0 ? axis + (int32_t)type.rank : axis)};
    const bg_value inputs[] = {a, b};
    bg_value outputs[3] = {{0}};
    bg_error error = {0};

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (check_operands(&type, &other, &attributes, &error) != BG_OK) {
        bgi_graph_fail_op(graph, op, name, error.status, "%s", error.message);
        return (bg_value){0};
    }
    bg_graph_add(graph, &bgi_op_cosine, bgi_statistics_dtype(type.dtype) == type.dtype ? name : NULL, inputs, 2,
                 &attributes, outputs);
    return outputs[0];
}

bg_value bg_cosine_similarity(bg_graph *graph, const char *name, bg_value a, bg_value b, int32_t axis, double epsilon)
{
    const bg_dtype dtype = bg_graph_type(graph, a).dtype;
    const bg_value cosine = add_cosine(graph, "cosine_similarity", name, a, b, axis, epsilon);

    return bg_graph_type(graph, cosine).dtype == dtype ? cosine : bg_cast(graph, name, cosine, dtype);
}

bg_value bg_cosine_embedding_loss(bg_graph *graph, const char *name, bg_value a, bg_value b, bg_value targets,
                                  double margin, bg_loss_reduction reduction)
{
    static const double nothing = 0.0; /* these bytes are 0 in every element type */
    const bg_type zero = bg_scalar(bg_graph_type(graph, targets).dtype);
    bg_value cosine, alike, apart, loss;
    bg_error error = {0};

    if (bgi_shape_reduction(reduction, &error) != BG_OK) {
        bgi_graph_fail_op(graph, "cosine_embedding_loss", name, error.status, "%s", error.message);
        return (bg_value){0};
    }
    if (!isfinite(margin)) {
        bgi_graph_fail_op(graph, "cosine_embedding_loss", name, BG_ERROR_INVALID, "margin is %g; it must be finite",
                          margin);
        return (bg_value){0};
    }
    cosine = add_cosine(graph, "cosine_embedding_loss", name, a, b, -1, 1e-6);
    if (bg_value_is_null(cosine))
        return cosine;
    alike = bg_compare(graph, NULL, BG_GREATER, targets, bg_graph_constant(graph, "zero", &zero, &nothing));
    apart = bg_clamp(graph, bg_scale(graph, NULL, cosine, 1.0, -margin), 0.0, INFINITY);
    loss = bg_where(graph, reduction == BG_LOSS_NONE ? name : NULL, alike, bg_scale(graph, NULL, cosine, -1.0, 1.0),
                    apart);
    if (reduction == BG_LOSS_NONE)
        return loss;
    return bg_reduce(graph, name, reduction == BG_LOSS_MEAN ? BG_REDUCE_MEAN : BG_REDUCE_SUM, loss, NULL, 0, false);
}
