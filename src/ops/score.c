/*
 * score.c: builds, from other ops, the sums of a micro-batch from which scores of a pass are computed (score.h). Counts
 * are computed in float32, which is exact up to 2^24 rows, and then converted to integers.
 */
#include <brigade/ops.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* Sums the rows of `right`, `predicted` and `labeled`, which are [R, C] of ones and zeros; the result is int32 [3,
 * C]. */
static bg_value add_counts(bg_graph *graph, const char *name, bg_value right, bg_value predicted, bg_value labeled)
{
    const bg_value all[] = {right, predicted, labeled};
    const int32_t rows[] = {1};

    return bg_cast(graph, name, bg_reduce(graph, NULL, BG_REDUCE_SUM, bg_stack(graph, NULL, all, 3, 0), rows, 1, false),
                   BG_INT32);
}

bg_value bg_class_counts(bg_graph *graph, const char *name, bg_value logits, bg_value labels)
{
    const bg_type type = bg_graph_type(graph, logits), label_type = bg_graph_type(graph, labels);
    const int32_t classes[] = {-1};
    int64_t rows[2];
    bg_value predicted, labeled, is_labeled;
    bg_error error = {0};

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (bgi_shape_labels(&type, &label_type, &error) != BG_OK) {
        bgi_graph_fail_op(graph, "class_counts", name, error.status, "%s", error.message);
        return (bg_value){0};
    }
    rows[1] = type.dims[type.rank - 1];
    rows[0] = bg_type_element_count(&label_type);
    labels = bg_cast(graph, NULL, bg_reshape(graph, NULL, labels, 1, rows), BG_INT32);
    labeled = bg_one_hot(graph, NULL, labels, rows[1], BG_FLOAT32);
    predicted =
        bg_one_hot(graph, NULL, bg_argmax(graph, NULL, bg_reshape(graph, NULL, logits, 2, rows)), rows[1], BG_FLOAT32);
    is_labeled = bg_reduce(graph, NULL, BG_REDUCE_SUM, labeled, classes, 1, true);
    predicted = bg_multiply(graph, predicted, bg_broadcast(graph, NULL, is_labeled, 2, rows));
    return add_counts(graph, name, bg_multiply(graph, predicted, labeled), predicted, labeled);
}

/* Converts [N] to float32 [N, 2]: a 1 in column 1 for an element above the threshold, otherwise in column 0. */
static bg_value add_sides(bg_graph *graph, bg_value x, double threshold)
{
    const bg_dtype dtype = bg_graph_type(graph, x).dtype;
    const bg_type scalar = bg_scalar(BG_FLOAT64);
    const bg_value edge = bg_cast(graph, NULL, bg_graph_constant(graph, "threshold", &scalar, &threshold), dtype);
    const bg_value is_above = bg_compare(graph, NULL, BG_GREATER, x, edge);

    return bg_one_hot(graph, NULL, bg_cast(graph, NULL, is_above, BG_INT32), 2, BG_FLOAT32);
}

bg_value bg_binary_counts(bg_graph *graph, const char *name, bg_value predictions, bg_value targets, double threshold)
{
    const bg_type type = bg_graph_type(graph, predictions), target_type = bg_graph_type(graph, targets);
    const int64_t count = bg_type_element_count(&type);
    bg_value predicted, labeled;
    char text[BG_TYPE_TEXT_BYTES], target_text[BG_TYPE_TEXT_BYTES];

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (!bg_dtype_is_float(type.dtype) || !bg_type_equal(&type, &target_type)) {
        bgi_graph_fail_op(graph, "binary_counts", name, BG_ERROR_SHAPE,
                          "predictions are %s and targets %s; they must be floats of one type and shape",
                          bg_type_text(&type, text), bg_type_text(&target_type, target_text));
        return (bg_value){0};
    }
    predicted = add_sides(graph, bg_reshape(graph, NULL, predictions, 1, &count), threshold);
    labeled = add_sides(graph, bg_reshape(graph, NULL, targets, 1, &count), 0.5);
    return add_counts(graph, name, bg_multiply(graph, predicted, labeled), predicted, labeled);
}

bg_value bg_likelihood_sums(bg_graph *graph, const char *name, bg_value logits, bg_value labels, int64_t ignore_index)
{
    const bg_type scalar = bg_scalar(BG_INT64);
    bg_value sums[2], ignored;

    sums[0] =
        bg_cast(graph, NULL, bg_cross_entropy(graph, NULL, logits, labels, BG_LOSS_SUM, ignore_index), BG_FLOAT32);
    ignored = bg_graph_constant(graph, "ignore_index", &scalar, &ignore_index);
    sums[1] = bg_compare(graph, NULL, BG_NOT_EQUAL, bg_cast(graph, NULL, labels, BG_INT64), ignored);
    sums[1] = bg_reduce(graph, NULL, BG_REDUCE_SUM, bg_cast(graph, NULL, sums[1], BG_FLOAT32), NULL, 0, false);
    return bg_stack(graph, name, sums, 2, 0);
}
