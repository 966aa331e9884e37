/*
 * cosine.c: the cosine of two vectors and the loss of pairs, built from products and sums. Computed in float32 or
 * better, because squares of float16 overflow early.
 */
#include <brigade/ops.h>

#include <math.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_value add_sum(bg_graph *graph, const char *name, bg_value a, bg_value b, int32_t axis)
{
    return bg_reduce(graph, name, BG_REDUCE_SUM, bg_multiply(graph, a, b), &axis, 1, false);
}

/* 1 / max(|x|, epsilon); the length is compared as its square, so that no gradient is infinite where the length is
 * 0. */
static bg_value add_inverse_length(bg_graph *graph, bg_value x, int32_t axis, double epsilon)
{
    const bg_value square = bg_clamp(graph, add_sum(graph, NULL, x, x, axis), epsilon * epsilon, INFINITY);

    return bg_elementwise_unary(graph, NULL, BG_RSQRT, square);
}

/* Returns it in the type of the computation. */
static bg_value add_cosine(bg_graph *graph, const char *op, const char *name, bg_value a, bg_value b, int32_t axis,
                           double epsilon)
{
    const bg_type type = bg_graph_type(graph, a), other = bg_graph_type(graph, b);
    const bg_dtype dtype = bgi_statistics_dtype(type.dtype);
    char text[BG_TYPE_TEXT_BYTES], other_text[BG_TYPE_TEXT_BYTES];

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (!bg_dtype_is_float(type.dtype) || !bg_type_equal(&type, &other) || axis < -(int32_t)type.rank ||
        axis >= (int32_t)type.rank) {
        bgi_graph_fail_op(graph, op, name, BG_ERROR_SHAPE,
                          "a is %s and b is %s, axis %d: they must be floats of one type and shape, with this axis",
                          bg_type_text(&type, text), bg_type_text(&other, other_text), (int)axis);
        return (bg_value){0};
    }
    if (!(epsilon > 0.0 && isfinite(epsilon))) {
        bgi_graph_fail_op(graph, op, name, BG_ERROR_INVALID, "epsilon is %g: it must be above 0 and finite", epsilon);
        return (bg_value){0};
    }
    if (dtype != type.dtype) {
        a = bg_cast(graph, NULL, a, dtype);
        b = bg_cast(graph, NULL, b, dtype);
    }
    a = bg_multiply(graph, add_sum(graph, NULL, a, b, axis), add_inverse_length(graph, a, axis, epsilon));
    return bg_elementwise_binary(graph, dtype == type.dtype ? name : NULL, BG_MULTIPLY, a,
                                 add_inverse_length(graph, b, axis, epsilon));
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
    static const double nothing = 0.0; /* of any element type */
    const bg_type zero = bg_scalar(bg_graph_type(graph, targets).dtype);
    bg_value cosine, alike, apart, loss;
    bg_error error = {0};

    if (bgi_shape_reduction(reduction, &error) != BG_OK) {
        bgi_graph_fail_op(graph, "cosine_embedding_loss", name, error.status, "%s", error.message);
        return (bg_value){0};
    }
    if (!isfinite(margin)) {
        bgi_graph_fail_op(graph, "cosine_embedding_loss", name, BG_ERROR_INVALID, "margin is %g: it must be finite",
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
