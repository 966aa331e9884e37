/*
 * sharded.c: defines ops over tensors that a mesh cuts along their last dimension: layer norm and cross-entropy, split
 * into ops with collectives between them. Over an axis of size 1 the builders add the plain ops.
 *
 *     x -> sums -all_reduce-> sharded_norm             backward: gradient sums -all_reduce-> sharded_norm_backward
 *     logits -> maximum -all_reduce-> sums, label's logit -all_reduce, all_reduce-> loss       backward: no collective
 *
 * The last op of each chain has the gradient rule of the whole chain; no gradient flows through the ops before the
 * last.
 */
#include <brigade/ops.h>

#include <string.h>

#include "graph/graph.h"
#include "kernels/dropout/attributes.h"
#include "kernels/embedding/attributes.h"
#include "kernels/loss/attributes.h"
#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static uint32_t count_pieces(const bg_graph *graph, bg_mesh_axis axis)
{
    const bg_mesh mesh = bg_graph_mesh(graph);

    return bg_mesh_group_size(&mesh, (uint32_t)axis);
}

/* Returns whether the axis is a tensor axis or BG_MESH_NONE; otherwise records an error in the graph. */
static bool is_axis(bg_graph *graph, const char *op, const char *name, bg_mesh_axis axis)
{
    if (axis == BG_MESH_NONE || axis == BG_MESH_TENSOR_1 || axis == BG_MESH_TENSOR_2)
        return true;
    bgi_graph_fail_op(graph, op, name, BG_ERROR_INVALID,
                      "the axis is %d; it must be BG_MESH_TENSOR_1 or BG_MESH_TENSOR_2", (int)axis);
    return false;
}

/* ---- layer norm ---- */

static bg_type sums_type(const bg_type *x)
{
    bg_type sums = *x;

    sums.dtype = BG_FLOAT64;
    sums.dims[x->rank - 1] = 2;
    return sums;
}

static bg_status check_rows(const bg_type *x, bg_error *error)
{
    BGI_TRY(bgi_shape_float(x, "x", error));
    return bgi_shape_minimum_rank(x, "x", 1, "[..., last]", error);
}

static bg_status infer_norm_sums(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_rows(&op->types[0], error));
    outputs[0] = sums_type(&op->types[0]);
    return BG_OK;
}

static bg_status check_norm(const bg_op_signature *op, const bg_type *x, const bg_type *gamma, const bg_type *sums,
                            bg_error *error)
{
    const bgi_sharded_norm_attributes *attributes = op->attributes;
    bg_type vector, wanted;

    BGI_TRY(check_rows(x, error));
    vector = bg_vector(x->dtype, x->dims[x->rank - 1]);
    wanted = sums_type(x);
    BGI_TRY(bgi_shape_equal(gamma, "gamma", &vector, "x's last dimension", error));
    BGI_TRY(bgi_shape_equal(sums, "sums", &wanted, "two for each row of x", error));
    if (!(attributes->epsilon >= 0.0))
        return bg_error_set(error, BG_ERROR_INVALID, "epsilon is %g; it must be at least 0", attributes->epsilon);
    return BG_OK;
}

static bg_status infer_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[0];

    BGI_TRY(check_norm(op, x, &op->types[1], &op->types[3], error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "beta", &op->types[1], "gamma's type", error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = bgi_type_rows(x, bgi_statistics_dtype(x->dtype));
    return BG_OK;
}

static bg_status derive_norm(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_sharded_norm_attributes *attributes = gradient->op.attributes;
    bg_graph *graph = gradient->graph;
    bg_value inputs[6] = {{0}, gradient->inputs[0], gradient->outputs[1], gradient->outputs[2], gradient->inputs[1]};
    bg_value outputs[3];

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    inputs[5] = bg_graph_add(graph, &bgi_op_norm_gradient_sums, NULL, inputs, 5, attributes, NULL);
    inputs[5] = bg_all_reduce(graph, NULL, inputs[5], BG_REDUCE_SUM, (uint32_t)attributes->axis);
    bg_graph_add(graph, &bgi_op_sharded_norm_backward, NULL, inputs, 6, attributes, outputs);
    for (uint32_t i = 0; i < 3; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(graph, error);
}

/* Shape rule: dy, x, mean, rstd, gamma -> sums. */
static bg_status infer_norm_gradient_sums(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[1];
    bg_type statistics;

    BGI_TRY(check_rows(x, error));
    outputs[0] = sums_type(x);
    BGI_TRY(check_norm(op, x, &op->types[4], &outputs[0], error));
    statistics = bgi_type_rows(x, bgi_statistics_dtype(x->dtype));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "mean", &statistics, "the forward op's", error));
    return bgi_shape_equal(&op->types[3], "rstd", &statistics, "the forward op's", error);
}

static bg_status infer_norm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type sums;

    BGI_TRY(infer_norm_gradient_sums(op, &sums, error));
    BGI_TRY(bgi_shape_equal(&op->types[5], "sums", &sums, "two for each row of x", error));
    outputs[0] = op->types[1];
    outputs[1] = outputs[2] = op->types[4];
    return BG_OK;
}

static bg_cost cost_sums(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[0]));
}

static bg_cost cost_norm(const bg_op_signature *op)
{
    return bgi_cost_once(op, 8.0 * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_norm_sums, NORM_SUMS)
BGI_OP_KERNEL(select_norm, SHARDED_NORM)
BGI_OP_KERNEL(select_norm_gradient_sums, NORM_GRADIENT_SUMS)
BGI_OP_KERNEL(select_norm_backward, SHARDED_NORM_BACKWARD)

const bg_op_type bgi_op_norm_sums = {
    BG_OP_TYPE_DEFAULTS, .name = "norm_sums",      .minimum_inputs = 1, .maximum_inputs = 1,
    .output_count = 1,   .infer = infer_norm_sums, .cost = cost_sums,   .kernel = select_norm_sums,
};

const bg_op_type bgi_op_sharded_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "sharded_norm",
    .minimum_inputs = 4,
    .maximum_inputs = 4,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_sharded_norm_attributes),
    .infer = infer_norm,
    .gradient = derive_norm,
    .cost = cost_norm,
    .kernel = select_norm,
};

const bg_op_type bgi_op_norm_gradient_sums = {
    BG_OP_TYPE_DEFAULTS,
    .name = "norm_gradient_sums",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_sharded_norm_attributes),
    .infer = infer_norm_gradient_sums,
    .cost = cost_sums,
    .kernel = select_norm_gradient_sums,
};

const bg_op_type bgi_op_sharded_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "sharded_norm_backward",
    .minimum_inputs = 6,
    .maximum_inputs = 6,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_sharded_norm_attributes),
    .infer = infer_norm_backward,
    .cost = cost_norm,
    .kernel = select_norm_backward,
};

bg_value bg_sharded_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                               double epsilon, bg_mesh_axis axis)
{
    const bg_type type = bg_graph_type(graph, x);
    bgi_sharded_norm_attributes attributes;
    bg_value inputs[] = {x, gamma, beta, {0}};

    if (!is_axis(graph, "layer_norm", name, axis))
        return (bg_value){0};
    if (count_pieces(graph, axis) == 1 || type.rank == 0) /* the plain op reports an error for operands without rows */
        return bg_layer_norm(graph, name, x, gamma, beta, epsilon);
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.epsilon = epsilon;
    attributes.axis = axis;
    attributes.width = type.dims[type.rank - 1] * count_pieces(graph, axis);
    inputs[3] = bg_graph_add(graph, &bgi_op_norm_sums, NULL, &x, 1, NULL, NULL);
    inputs[3] = bg_all_reduce(graph, NULL, inputs[3], BG_REDUCE_SUM, (uint32_t)axis);
    return bg_graph_add(graph, &bgi_op_sharded_norm, name, inputs, 4, &attributes, NULL);
}

/* ---- cross-entropy ---- */

static bg_status check_classes(const bg_type *logits, const bgi_loss_attributes *attributes, bg_error *error)
{
    BGI_TRY(bgi_shape_float(logits, "logits", error));
    BGI_TRY(bgi_shape_minimum_rank(logits, "logits", 1, "[..., C]", error));
    if (attributes->classes < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "classes is %lld; it must be at least 1",
                            (long long)attributes->classes);
    return BG_OK;
}

static bg_status infer_maximum(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_classes(&op->types[0], op->attributes, error));
    outputs[0] = bgi_type_rows(&op->types[0], BG_FLOAT64);
    return BG_OK;
}

/* Checks logits, labels, and `count` float64 operands with one number for each row. */
static bg_status check_statistics(const bg_op_signature *op, uint32_t count, bg_error *error)
{
    const bg_type rows = bgi_type_rows(&op->types[0], BG_FLOAT64);

    BGI_TRY(check_classes(&op->types[0], op->attributes, error));
    BGI_TRY(bgi_shape_labels(&op->types[0], &op->types[1], error));
    for (uint32_t i = 0; i < count; i++)
        BGI_TRY(bgi_shape_equal(&op->types[2 + i], "a statistic", &rows, "one for each row", error));
    return BG_OK;
}

static bg_status infer_sums(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_statistics(op, 1, error));
    outputs[0] = outputs[1] = bgi_type_rows(&op->types[0], BG_FLOAT64);
    return BG_OK;
}

static bg_status infer_loss(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_statistics(op, 3, error));
    return bgi_op_cross_entropy.infer(op, outputs, error);
}

static bg_cost cost_logits(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[0]));
}

/* Returns the cost, without the logits, which are an operand only because the gradient needs them. */
static bg_cost cost_loss(const bg_op_signature *op)
{
    return (bg_cost){.flops = 10.0 * bgi_type_elements(&op->types[2]),
                     .bytes_read = 28.0 * bgi_type_elements(&op->types[2]),
                     .bytes_written = 8.0 * bgi_type_elements(&op->types[2])};
}

BGI_OP_KERNEL(select_maximum, LOGIT_MAXIMUM)
BGI_OP_KERNEL(select_sums, LOGIT_SUMS)
BGI_OP_KERNEL(select_loss, SHARDED_CROSS_ENTROPY)

const bg_op_type bgi_op_logit_maximum = {
    BG_OP_TYPE_DEFAULTS,    .name = "logit_maximum", .minimum_inputs = 1,
    .maximum_inputs = 1,    .output_count = 1,       .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_maximum, .cost = cost_logits,     .kernel = select_maximum,
};

const bg_op_type bgi_op_logit_sums = {
    BG_OP_TYPE_DEFAULTS, .name = "logit_sums", .minimum_inputs = 3,
    .maximum_inputs = 3, .output_count = 2,    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_sums, .cost = cost_logits,  .kernel = select_sums,
};

static bg_status derive_loss(bg_op_gradient *gradient, bg_error *error)
{
    return bgi_op_cross_entropy.gradient(gradient, error);
}

const bg_op_type bgi_op_sharded_cross_entropy = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = BG_NO_OPERAND,
    .weight_output = 2,
    .name = "sharded_cross_entropy",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_loss_attributes),
    .infer = infer_loss,
    .gradient = derive_loss,
    .cost = cost_loss,
    .kernel = select_loss,
};

bg_value bg_sharded_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels, int64_t classes,
                                  bg_loss_reduction reduction, int64_t ignore_index, bg_mesh_axis axis)
{
    bgi_loss_attributes attributes;
    const bg_type type = bg_graph_type(graph, logits);
    bg_value operands[5] = {logits, labels}, sums[2];

    if (!is_axis(graph, "cross_entropy", name, axis))
        return (bg_value){0};
    if (count_pieces(graph, axis) == 1 && type.rank > 0 && type.dims[type.rank - 1] == classes)
        return bg_cross_entropy(graph, name, logits, labels, reduction, ignore_index);
    memset(&attributes, 0, sizeof attributes);
    attributes.reduction = reduction;
    attributes.ignore_index = ignore_index;
    attributes.axis = axis;
    attributes.classes = classes;
    operands[2] = bg_graph_add(graph, &bgi_op_logit_maximum, NULL, operands, 1, &attributes, NULL);
    operands[2] = bg_all_reduce(graph, NULL, operands[2], BG_REDUCE_MAX, (uint32_t)axis);
    bg_graph_add(graph, &bgi_op_logit_sums, NULL, operands, 3, &attributes, sums);
    for (uint32_t i = 0; i < 2; i++)
        operands[3 + i] = bg_all_reduce(graph, NULL, sums[i], BG_REDUCE_SUM, (uint32_t)axis);
    return bg_graph_add(graph, &bgi_op_sharded_cross_entropy, name, operands, 5, &attributes, NULL);
}

/* ---- ops that only need a replica's coordinate ---- */

bg_value bg_sharded_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids, bg_mesh_axis axis)
{
    const bg_value inputs[] = {table, ids};
    bgi_embedding_attributes attributes;

    if (!is_axis(graph, "embedding", name, axis))
        return (bg_value){0};
    memset(&attributes, 0, sizeof attributes);
    attributes.padding_index = -1;
    attributes.axis = axis;
    return bg_graph_add(graph, &bgi_op_embedding, name, inputs, 2, &attributes, NULL);
}

bg_value bg_sharded_dropout(bg_graph *graph, const char *name, bg_value x, double probability, bg_mesh_axis axis)
{
    bgi_dropout_attributes attributes;

    if (!is_axis(graph, "dropout", name, axis))
        return (bg_value){0};
    memset(&attributes, 0, sizeof attributes);
    attributes.probability = probability;
    attributes.random_id = bg_graph_next_random_id(graph);
    attributes.axis = axis;
    attributes.pieces = count_pieces(graph, axis);
    return bg_graph_add(graph, &bgi_op_dropout, name, &x, 1, &attributes, NULL);
}
