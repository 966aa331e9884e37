/*
 * loss.c: defines cross-entropy and the count of correct rows.
 *
 * Some labels are ignored, so the number of labels in the mean is known only at run time; cross-entropy returns this
 * number as the output that its type names as weight_output. Losses are float32 (float64 for float64 operands) whatever
 * type the logits have.
 */
#include <brigade/ops.h>

#include "ops/ops.h"

#include <string.h>

#include "graph/graph.h"
#include "kernels/loss/attributes.h"
#include "ops/shape.h"

enum { CROSS_ENTROPY_WEIGHT = 2 /* index of this output */ };

bg_status bgi_shape_labels(const bg_type *logits, const bg_type *labels, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];
    bg_type rows;

    BGI_TRY(bgi_shape_float(logits, "logits", error));
    BGI_TRY(bgi_shape_minimum_rank(logits, "logits", 1, "[..., C]", error));
    if (labels->dtype != BG_INT32 && labels->dtype != BG_UINT8)
        return bg_error_set(error, BG_ERROR_SHAPE, "labels is %s; its elements must be int32 or uint8",
                            bg_type_text(labels, text));
    rows = bgi_type_rows(logits, labels->dtype);
    return bgi_shape_equal(labels, "labels", &rows, "logits' shape without C", error);
}

/* Returns the type of a loss over `elements` after its reduction. */
static bg_type loss_type(const bgi_loss_attributes *attributes, bg_type elements, bg_dtype operand_dtype)
{
    const bg_dtype dtype = bgi_statistics_dtype(operand_dtype);

    if (attributes->reduction != BG_LOSS_NONE)
        return bg_scalar(dtype);
    elements.dtype = dtype;
    return elements;
}

/* ---- cross-entropy: logits, labels, class_weights? -> loss, log_sum_exp, weight? ---- */

static bg_status check_classes(const bgi_loss_attributes *attributes, const bg_type *logits, const bg_type *weights,
                               bg_error *error)
{
    const bg_type wanted = bg_vector(bgi_statistics_dtype(logits->dtype), logits->dims[logits->rank - 1]);

    if (!(attributes->smoothing >= 0.0 && attributes->smoothing <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "label_smoothing is %g; it must be between 0 and 1",
                            attributes->smoothing);
    if (attributes->smoothing > 0.0 && (attributes->are_log_likelihoods || attributes->axis != BG_MESH_NONE))
        return bg_error_set(error, BG_ERROR_INVALID, "label smoothing needs the logits of all classes");
    return weights != NULL ? bgi_shape_equal(weights, "class_weights", &wanted, "one for each class", error) : BG_OK;
}

static bg_status infer_cross_entropy(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_loss_attributes *attributes = op->attributes;

    BGI_TRY(bgi_shape_reduction(attributes->reduction, error));
    BGI_TRY(bgi_shape_labels(&op->types[0], &op->types[1], error));
    if (op->input_count <= 3) /* with more operands the classes are split over replicas */
        BGI_TRY(check_classes(attributes, &op->types[0], op->input_count > 2 ? &op->types[2] : NULL, error));
    outputs[0] = loss_type(attributes, op->types[1], op->types[0].dtype);
    outputs[1] = bgi_type_rows(&op->types[0], BG_FLOAT64);
    if (attributes->reduction == BG_LOSS_MEAN)
        outputs[CROSS_ENTROPY_WEIGHT] = bg_scalar(BG_FLOAT32);
    return BG_OK;
}

static bg_status differentiate_cross_entropy(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_loss_attributes *attributes = gradient->op.attributes;
    bg_value inputs[6] = {{0}, gradient->inputs[0], gradient->inputs[1], gradient->outputs[1]};
    uint32_t input_count = 4;

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (attributes->reduction == BG_LOSS_MEAN)
        inputs[input_count++] = gradient->outputs[CROSS_ENTROPY_WEIGHT];
    if (gradient->op.input_count == 3) /* class weights, through which no gradient flows */
        inputs[input_count++] = gradient->inputs[2];
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_cross_entropy_backward, NULL, inputs, input_count, attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Counts a comparison, a subtraction, an exponential and an addition for each logit. */
static bg_cost cost_cross_entropy(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_cross_entropy, CROSS_ENTROPY)

const bg_op_type bgi_op_cross_entropy = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = BG_NO_OPERAND,
    .weight_output = CROSS_ENTROPY_WEIGHT,
    .name = "cross_entropy",
    .minimum_inputs = 2,
    .maximum_inputs = 3,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_cross_entropy,
    .gradient = differentiate_cross_entropy,
    .cost = cost_cross_entropy,
    .kernel = select_cross_entropy,
};

/* Shape rule: dloss, logits, labels, log_sum_exp, weight?, class_weights? -> dlogits. */
static bg_status infer_cross_entropy_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_loss_attributes *attributes = op->attributes;
    const bool is_mean = attributes->reduction == BG_LOSS_MEAN;
    const uint32_t least = is_mean ? 5 : 4;
    const bg_type weight = bg_scalar(BG_FLOAT32);
    bg_type loss, rows;

    BGI_TRY(bgi_shape_reduction(attributes->reduction, error));
    BGI_TRY(bgi_shape_labels(&op->types[1], &op->types[2], error));
    loss = loss_type(attributes, op->types[2], op->types[1].dtype);
    rows = bgi_type_rows(&op->types[1], BG_FLOAT64);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dloss", &loss, "the loss", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "log_sum_exp", &rows, "the forward op's", error));
    if (op->input_count < least || op->input_count > least + 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the op has %u operands: a mean takes 5 (the last one is the weight), other reductions "
                            "take 4, and class weights may follow",
                            (unsigned)op->input_count);
    BGI_TRY(check_classes(attributes, &op->types[1], op->input_count > least ? &op->types[least] : NULL, error));
    if (is_mean)
        BGI_TRY(bgi_shape_equal(&op->types[4], "weight", &weight, "the forward op's", error));
    outputs[0] = op->types[1];
    return BG_OK;
}

static bg_cost cost_cross_entropy_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 3.0 * bgi_type_elements(&op->types[1]));
}

BGI_OP_KERNEL(select_cross_entropy_backward, CROSS_ENTROPY_BACKWARD)

const bg_op_type bgi_op_cross_entropy_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 1,
    .weight_output = BG_NO_OPERAND,
    .name = "cross_entropy_backward",
    .minimum_inputs = 4,
    .maximum_inputs = 6,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_cross_entropy_backward,
    .cost = cost_cross_entropy_backward,
    .kernel = select_cross_entropy_backward,
};

/* Casts class weights to the loss's type, which may differ from the logits'. */
static bg_value cast_weights(bg_graph *graph, bg_value weights, bg_value logits)
{
    const bg_dtype dtype = bgi_statistics_dtype(bg_graph_type(graph, logits).dtype);

    if (bg_value_is_null(weights) || bg_graph_type(graph, weights).dtype == dtype)
        return weights;
    return bg_cast(graph, NULL, weights, dtype);
}

static void fill_attributes(bg_loss_reduction reduction, int64_t ignore_index, bgi_loss_attributes *attributes)
{
    memset(attributes, 0, sizeof *attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes->reduction = reduction;
    attributes->ignore_index = ignore_index;
}

bg_value bg_weighted_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                   bg_value class_weights, double label_smoothing, bg_loss_reduction reduction,
                                   int64_t ignore_index)
{
    bgi_loss_attributes attributes;
    bg_value inputs[] = {logits, labels, class_weights};

    fill_attributes(reduction, ignore_index, &attributes);
    attributes.smoothing = label_smoothing;
    inputs[2] = cast_weights(graph, class_weights, logits);
    return bg_graph_add(graph, &bgi_op_cross_entropy, name, inputs, 3, &attributes, NULL);
}

bg_value bg_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                          bg_loss_reduction reduction, int64_t ignore_index)
{
    return bg_weighted_cross_entropy(graph, name, logits, labels, (bg_value){0}, 0.0, reduction, ignore_index);
}

bg_value bg_nll_loss(bg_graph *graph, const char *name, bg_value log_probabilities, bg_value labels,
                     bg_value class_weights, bg_loss_reduction reduction, int64_t ignore_index)
{
    bgi_loss_attributes attributes;
    bg_value inputs[] = {log_probabilities, labels, class_weights};

    fill_attributes(reduction, ignore_index, &attributes);
    attributes.are_log_likelihoods = 1;
    inputs[2] = cast_weights(graph, class_weights, log_probabilities);
    return bg_graph_add(graph, &bgi_op_cross_entropy, name, inputs, 3, &attributes, NULL);
}

/* ---- correct rows: logits, labels -> count ---- */

static bg_status infer_correct_count(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_labels(&op->types[0], &op->types[1], error));
    outputs[0] = bg_scalar(BG_INT32);
    return BG_OK;
}

static bg_cost cost_correct_count(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_correct_count, CORRECT_COUNT)

const bg_op_type bgi_op_correct_count = {
    BG_OP_TYPE_DEFAULTS, .name = "correct_count",      .minimum_inputs = 2,        .maximum_inputs = 2,
    .output_count = 1,   .infer = infer_correct_count, .cost = cost_correct_count, .kernel = select_correct_count,
};

bg_value bg_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels)
{
    const bg_value inputs[] = {logits, labels};

    return bg_graph_add(graph, &bgi_op_correct_count, name, inputs, 2, NULL, NULL);
}

bg_value bg_top_k_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels, int64_t k)
{
    const bg_type logits_type = bg_graph_type(graph, logits);
    bg_type type = bg_graph_type(graph, labels);
    bg_value numbers, hits;
    bg_error error = {0};

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (bgi_shape_labels(&logits_type, &type, &error) != BG_OK) {
        bgi_graph_fail_op(graph, "top_k_correct_count", name, error.status, "%s", error.message);
        return (bg_value){0};
    }
    bg_top_k(graph, NULL, logits, k, false, &numbers);
    type.dims[type.rank] = 1;
    labels = bg_reshape(graph, NULL, bg_cast(graph, NULL, labels, BG_INT32), type.rank + 1, type.dims);
    hits = bg_cast(graph, NULL, bg_compare(graph, NULL, BG_EQUAL, numbers, labels), BG_INT32);
    return bg_reduce(graph, name, BG_REDUCE_SUM, hits, NULL, 0, false);
}
