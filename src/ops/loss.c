/*
 * loss.c: cross-entropy, mean squared error and the count of correct rows.
 *
 * A mean over labels is known at run time only (some are ignored), so cross-entropy says how many counted: its
 * weight_output. Losses are float32 (float64 for float64 operands) whatever the logits are.
 */
#include <brigade/ops.h>

#include "ops/ops.h"

#include <string.h>

#include "ops/shape.h"

enum { CROSS_ENTROPY_WEIGHT = 2 /* the output */ };

static bg_status check_reduction(const bgi_loss_attributes *attributes, bg_error *error)
{
    if ((unsigned)attributes->reduction <= BG_LOSS_NONE)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "reduction is %d: it must be BG_LOSS_MEAN, BG_LOSS_SUM or BG_LOSS_NONE",
                        (int)attributes->reduction);
}

bg_status bgi_shape_labels(const bg_type *logits, const bg_type *labels, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];
    bg_type rows;

    BGI_TRY(bgi_shape_float(logits, "logits", error));
    BGI_TRY(bgi_shape_minimum_rank(logits, "logits", 1, "[..., C]", error));
    if (labels->dtype != BG_INT32 && labels->dtype != BG_UINT8)
        return bg_error_set(error, BG_ERROR_SHAPE, "labels is %s: its elements must be int32 or uint8",
                            bg_type_text(labels, text));
    rows = bgi_type_rows(logits, labels->dtype);
    return bgi_shape_equal(labels, "labels", &rows, "logits' shape without C", error);
}

/* Of one loss for each element of `elements`, reduced. */
static bg_type loss_type(const bgi_loss_attributes *attributes, bg_type elements, bg_dtype operand_dtype)
{
    const bg_dtype dtype = bgi_statistics_dtype(operand_dtype);

    if (attributes->reduction != BG_LOSS_NONE)
        return bg_scalar(dtype);
    elements.dtype = dtype;
    return elements;
}

/* ---- cross-entropy: logits, labels -> loss, log_sum_exp, weight? ---- */

static bg_status infer_cross_entropy(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_loss_attributes *attributes = op->attributes;

    BGI_TRY(check_reduction(attributes, error));
    BGI_TRY(bgi_shape_labels(&op->types[0], &op->types[1], error));
    outputs[0] = loss_type(attributes, op->types[1], op->types[0].dtype);
    outputs[1] = bgi_type_rows(&op->types[0], BG_FLOAT64);
    if (attributes->reduction == BG_LOSS_MEAN)
        outputs[CROSS_ENTROPY_WEIGHT] = bg_scalar(BG_FLOAT32);
    return BG_OK;
}

static bg_status differentiate_cross_entropy(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_loss_attributes *attributes = gradient->op.attributes;
    bg_value inputs[5] = {{0}, gradient->inputs[0], gradient->inputs[1], gradient->outputs[1]};
    uint32_t input_count = 4;

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (attributes->reduction == BG_LOSS_MEAN)
        inputs[input_count++] = gradient->outputs[CROSS_ENTROPY_WEIGHT];
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_cross_entropy_backward, NULL, inputs, input_count, attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Compare, subtract, exponential, add for each logit. */
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
    .maximum_inputs = 2,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_cross_entropy,
    .gradient = differentiate_cross_entropy,
    .cost = cost_cross_entropy,
    .kernel = select_cross_entropy,
};

/* dloss, logits, labels, log_sum_exp, weight? -> dlogits */
static bg_status infer_cross_entropy_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_loss_attributes *attributes = op->attributes;
    const bool has_weight = op->input_count > 4, is_mean = attributes->reduction == BG_LOSS_MEAN;
    const bg_type weight = bg_scalar(BG_FLOAT32);
    bg_type loss, rows;

    BGI_TRY(check_reduction(attributes, error));
    BGI_TRY(bgi_shape_labels(&op->types[1], &op->types[2], error));
    loss = loss_type(attributes, op->types[2], op->types[1].dtype);
    rows = bgi_type_rows(&op->types[1], BG_FLOAT64);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dloss", &loss, "the loss", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "log_sum_exp", &rows, "the forward op's", error));
    if (has_weight != is_mean)
        return bg_error_set(error, BG_ERROR_INVALID, "%u operands given: a mean takes 5 (weight is the last), others 4",
                            (unsigned)op->input_count);
    if (has_weight)
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
    .maximum_inputs = 5,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_cross_entropy_backward,
    .cost = cost_cross_entropy_backward,
    .kernel = select_cross_entropy_backward,
};

static void fill_attributes(bg_loss_reduction reduction, int64_t ignore_index, bgi_loss_attributes *attributes)
{
    memset(attributes, 0, sizeof *attributes); /* padding too: see bg_op_type */
    attributes->reduction = reduction;
    attributes->ignore_index = ignore_index;
}

bg_value bg_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                          bg_loss_reduction reduction, int64_t ignore_index)
{
    bgi_loss_attributes attributes;
    const bg_value inputs[] = {logits, labels};

    fill_attributes(reduction, ignore_index, &attributes);
    return bg_graph_add(graph, &bgi_op_cross_entropy, name, inputs, 2, &attributes, NULL);
}

/* ---- mean squared error: prediction, target -> loss ---- */

static bg_status infer_mse(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_reduction(op->attributes, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "prediction", error));
    BGI_TRY(bgi_shape_equal(&op->types[1], "target", &op->types[0], "the prediction's type", error));
    outputs[0] = loss_type(op->attributes, op->types[0], op->types[0].dtype);
    return BG_OK;
}

/* The loss is symmetric: the target's gradient is the same op with the operands exchanged. */
static bg_status differentiate_mse(bg_op_gradient *gradient, bg_error *error)
{
    bg_value dloss;

    BGI_TRY(bgi_gradient_of_result(gradient, &dloss, error));
    for (uint32_t i = 0; i < 2; i++) {
        const bg_value inputs[] = {dloss, gradient->inputs[i], gradient->inputs[1 - i]};

        if (gradient->needs[i])
            gradient->input_gradients[i] =
                bg_graph_add(gradient->graph, &bgi_op_mse_backward, NULL, inputs, 3, gradient->op.attributes, NULL);
    }
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_mse(const bg_op_signature *op)
{
    return bgi_cost_once(op, 3.0 * bgi_type_elements(&op->types[1]));
}

BGI_OP_KERNEL(select_mse, MSE)

const bg_op_type bgi_op_mse = {
    BG_OP_TYPE_DEFAULTS, .name = "mse",
    .minimum_inputs = 2, .maximum_inputs = 2,
    .output_count = 1,   .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_mse,  .gradient = differentiate_mse,
    .cost = cost_mse,    .kernel = select_mse,
};

/* dloss, prediction, target -> dprediction */
static bg_status infer_mse_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type loss;

    BGI_TRY(check_reduction(op->attributes, error));
    BGI_TRY(bgi_shape_float(&op->types[1], "prediction", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "target", &op->types[1], "the prediction's type", error));
    loss = loss_type(op->attributes, op->types[1], op->types[1].dtype);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dloss", &loss, "the loss", error));
    outputs[0] = op->types[1];
    return BG_OK;
}

BGI_OP_KERNEL(select_mse_backward, MSE_BACKWARD)

const bg_op_type bgi_op_mse_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 1,
    .weight_output = BG_NO_OPERAND,
    .name = "mse_backward",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_mse_backward,
    .cost = cost_mse,
    .kernel = select_mse_backward,
};

bg_value bg_mse_loss(bg_graph *graph, const char *name, bg_value prediction, bg_value target,
                     bg_loss_reduction reduction)
{
    bgi_loss_attributes attributes;
    const bg_value inputs[] = {prediction, target};

    fill_attributes(reduction, 0, &attributes);
    return bg_graph_add(graph, &bgi_op_mse, name, inputs, 2, &attributes, NULL);
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
