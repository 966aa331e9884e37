/*
 * ctc.c: defines the loss of connectionist temporal classification, over all alignments of a sequence of predictions
 * with a shorter sequence of targets.
 */
#include <brigade/ops.h>

#include <stdlib.h>

#include "core/error.h"
#include "graph/graph.h"
#include "kernels/ctc/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* Checks x, targets, lengths and target_lengths, which begin at operand `first`. */
static bg_status check_operands(const bg_op_signature *op, uint32_t first, bg_error *error)
{
    const bgi_ctc_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[first], *targets = &op->types[first + 1];
    bg_type lengths;

    BGI_TRY(bgi_shape_float(x, "log_probabilities", error));
    BGI_TRY(bgi_shape_rank(x, "log_probabilities", 3, "[N, T, C]", error));
    BGI_TRY(bgi_shape_dtype(targets, "targets", BG_INT32, "they are indices of classes", error));
    BGI_TRY(bgi_shape_rank(targets, "targets", 2, "[N, S]", error));
    BGI_TRY(bgi_shape_dim(targets, "targets", 0, x->dims[0], "the number of samples of log_probabilities", error));
    lengths = bg_vector(BG_INT32, x->dims[0]);
    BGI_TRY(bgi_shape_equal(&op->types[first + 2], "lengths", &lengths, "one for each sample", error));
    BGI_TRY(bgi_shape_equal(&op->types[first + 3], "target_lengths", &lengths, "one for each sample", error));
    if (attributes->blank >= 0 && attributes->blank < x->dims[2] && attributes->zeroes_infinity <= 1)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "blank is %d; it must be one of the %lld classes",
                        (int)attributes->blank, (long long)x->dims[2]);
}

static bg_type describe_alpha(const bg_type *x, const bg_type *targets)
{
    return bg_tensor3(BG_FLOAT64, x->dims[0], x->dims[1], 2 * targets->dims[1] + 1);
}

static bg_status infer_ctc_loss(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_operands(op, 0, error));
    outputs[0] = bg_vector(bgi_statistics_dtype(op->types[0].dtype), op->types[0].dims[0]);
    outputs[1] = describe_alpha(&op->types[0], &op->types[1]);
    return BG_OK;
}

static bg_status differentiate_ctc_loss(bg_op_gradient *gradient, bg_error *error)
{
    bg_value inputs[6] = {
        {0}, gradient->inputs[0], gradient->inputs[1], gradient->inputs[2], gradient->inputs[3], gradient->outputs[1]};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_ctc_loss_backward, NULL, inputs, 6, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Counts three exponentials, a logarithm and some sums for each state of an alignment after each step. */
static bg_cost cost_ctc_loss(const bg_op_signature *op)
{
    const bg_type alpha = describe_alpha(&op->types[0], &op->types[1]);

    return bgi_cost_once(op, 60.0 * bgi_type_elements(&alpha));
}

BGI_OP_KERNEL(select_ctc_loss, CTC_LOSS)

const bg_op_type bgi_op_ctc_loss = {
    BG_OP_TYPE_DEFAULTS,     .name = "ctc_loss",
    .minimum_inputs = 4,     .maximum_inputs = 4,
    .output_count = 2,       .attributes_bytes = sizeof(bgi_ctc_attributes),
    .infer = infer_ctc_loss, .gradient = differentiate_ctc_loss,
    .cost = cost_ctc_loss,   .kernel = select_ctc_loss,
};

/* Shape rule: dloss, x, targets, lengths, target_lengths, alpha -> dx, scratch. */
static bg_status infer_ctc_loss_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type loss, alpha;

    BGI_TRY(check_operands(op, 1, error));
    loss = bg_vector(bgi_statistics_dtype(op->types[1].dtype), op->types[1].dims[0]);
    alpha = describe_alpha(&op->types[1], &op->types[2]);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dloss", &loss, "the loss", error));
    BGI_TRY(bgi_shape_equal(&op->types[5], "alpha", &alpha, "the forward op's", error));
    outputs[0] = op->types[1];
    outputs[1] = bg_matrix(BG_FLOAT64, op->types[1].dims[0], alpha.dims[2] + op->types[1].dims[2]);
    return BG_OK;
}

static bg_cost cost_ctc_loss_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 80.0 * bgi_type_elements(&op->types[5]));
}

BGI_OP_KERNEL(select_ctc_loss_backward, CTC_LOSS_BACKWARD)

const bg_op_type bgi_op_ctc_loss_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "ctc_loss_backward",
    .minimum_inputs = 6,
    .maximum_inputs = 6,
    .output_count = 2,
    .attributes_bytes = sizeof(bgi_ctc_attributes),
    .infer = infer_ctc_loss_backward,
    .cost = cost_ctc_loss_backward,
    .kernel = select_ctc_loss_backward,
};

/* Adds a constant with the same length for each sample. */
static bg_value add_lengths(bg_graph *graph, const char *name, int64_t samples, int64_t length)
{
    const bg_type type = bg_vector(BG_INT32, samples);
    int32_t *lengths = malloc((size_t)samples * sizeof *lengths);
    bg_value value = {0};

    if (lengths == NULL) {
        bgi_error_memory(&graph->error, "lengths", (size_t)samples * sizeof *lengths);
        return value;
    }
    for (int64_t i = 0; i < samples; i++)
        lengths[i] = (int32_t)length;
    value = bg_graph_constant(graph, name, &type, lengths);
    free(lengths);
    return value;
}

/* Adds the mean. As in PyTorch, each loss is divided by the length of its targets, and the quotients are averaged over
 * samples. */
static bg_value add_mean(bg_graph *graph, const char *name, bg_value losses, bg_value target_lengths)
{
    const bg_type type = bg_graph_type(graph, losses), scalar = bg_scalar(type.dtype);
    const double one_double = 1.0;
    const float one_float = 1.0f;
    const void *one = type.dtype == BG_FLOAT64 ? (const void *)&one_double : &one_float;
    bg_value lengths = bg_cast(graph, NULL, target_lengths, type.dtype);

    lengths =
        bg_elementwise_binary(graph, NULL, BG_MAXIMUM, lengths, bg_graph_constant(graph, "ctc.one", &scalar, one));
    return bg_reduce(graph, name, BG_REDUCE_MEAN, bg_divide(graph, losses, lengths), NULL, 0, false);
}

bg_value bg_ctc_loss(bg_graph *graph, const char *name, bg_value log_probabilities, bg_value targets, bg_value lengths,
                     bg_value target_lengths, int32_t blank, bool zero_infinity, bg_loss_reduction reduction)
{
    const bgi_ctc_attributes attributes = {.blank = blank, .zeroes_infinity = zero_infinity};
    const bg_type x = bg_graph_type(graph, log_probabilities), of = bg_graph_type(graph, targets);
    bg_value losses;

    if (graph->error.status == BG_OK && bgi_shape_reduction(reduction, &graph->error) != BG_OK)
        bg_error_context(&graph->error, graph->error.status, "ctc_loss `%s`", name != NULL ? name : "");
    if (graph->error.status != BG_OK)
        return (bg_value){0};
    if (bg_value_is_null(lengths) && x.rank == 3)
        lengths = add_lengths(graph, "ctc.lengths", x.dims[0], x.dims[1]);
    if (bg_value_is_null(target_lengths) && of.rank == 2)
        target_lengths = add_lengths(graph, "ctc.target_lengths", of.dims[0], of.dims[1]);
    losses = bg_graph_add(graph, &bgi_op_ctc_loss, reduction == BG_LOSS_NONE ? name : NULL,
                          (bg_value[]){log_probabilities, targets, lengths, target_lengths}, 4, &attributes, NULL);
    if (reduction == BG_LOSS_NONE || graph->error.status != BG_OK)
        return losses;
    if (reduction == BG_LOSS_MEAN)
        return add_mean(graph, name, losses, target_lengths);
    return bg_reduce(graph, name, BG_REDUCE_SUM, losses, NULL, 0, false);
}
