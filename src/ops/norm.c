/*
 * norm.c: defines layer and batch normalization and their gradients. The forward ops keep mean and 1 / standard
 * deviation for the backward pass, in float32 (float64 for float64 operands).
 */
#include <brigade/ops.h>

#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_status check_epsilon(const bgi_norm_attributes *attributes, bg_error *error)
{
    if (attributes->epsilon >= 0.0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "epsilon is %g; it must be at least 0", attributes->epsilon);
}

/* Checks that an operand, such as gamma or beta, is a vector of `count` elements. */
static bg_status check_vector(const bg_type *type, const char *operand, bg_dtype dtype, int64_t count,
                              const char *because, bg_error *error)
{
    const bg_type wanted = bg_vector(dtype, count);

    return bgi_shape_equal(type, operand, &wanted, because, error);
}

/* Counts two passes for the statistics and one for the result; the backward pass costs about twice as much. */
static bg_cost cost_forward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 8.0 * bgi_type_elements(&op->types[0]));
}

static bg_cost cost_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 14.0 * bgi_type_elements(&op->types[0]));
}

/* ---- layer norm: x, gamma?, beta? -> y, mean, rstd ---- */

static bg_status infer_layer_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[0];

    BGI_TRY(check_epsilon(op->attributes, error));
    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., last]", error));
    if (op->input_count == 2)
        return bg_error_set(error, BG_ERROR_INVALID, "gamma is given without beta: give both or neither");
    if (op->input_count == 3) {
        BGI_TRY(check_vector(&op->types[1], "gamma", x->dtype, x->dims[x->rank - 1], "x's last dimension", error));
        BGI_TRY(check_vector(&op->types[2], "beta", x->dtype, x->dims[x->rank - 1], "x's last dimension", error));
    }
    outputs[0] = *x;
    outputs[1] = outputs[2] = bgi_type_rows(x, bgi_statistics_dtype(x->dtype));
    return BG_OK;
}

static bg_status differentiate_layer_norm(bg_op_gradient *gradient, bg_error *error)
{
    const bool is_affine = gradient->op.input_count > 1;
    bg_value inputs[5] = {{0}, gradient->inputs[0], gradient->outputs[1], gradient->outputs[2]};
    bg_value outputs[3];

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (is_affine)
        inputs[4] = gradient->inputs[1];
    bg_graph_add(gradient->graph, &bgi_op_layer_norm_backward, NULL, inputs, is_affine ? 5 : 4, gradient->op.attributes,
                 outputs);
    for (uint32_t i = 0; i < gradient->op.input_count; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(gradient->graph, error);
}

BGI_OP_KERNEL(select_layer_norm, LAYER_NORM)

const bg_op_type bgi_op_layer_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "layer_norm",
    .minimum_inputs = 1,
    .maximum_inputs = 3,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_norm_attributes),
    .infer = infer_layer_norm,
    .gradient = differentiate_layer_norm,
    .cost = cost_forward,
    .kernel = select_layer_norm,
};

/* Shape rule: dy, x, mean, rstd, gamma? -> dx, dgamma?, dbeta?. */
static bg_status infer_layer_norm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[1];
    bg_type statistics;

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 1, "[..., last]", error));
    statistics = bgi_type_rows(x, bgi_statistics_dtype(x->dtype));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "mean", &statistics, "the forward op's", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "rstd", &statistics, "the forward op's", error));
    outputs[0] = *x;
    if (op->input_count > 4) {
        BGI_TRY(check_vector(&op->types[4], "gamma", x->dtype, x->dims[x->rank - 1], "x's last dimension", error));
        outputs[1] = outputs[2] = op->types[4];
    }
    return BG_OK;
}

BGI_OP_KERNEL(select_layer_norm_backward, LAYER_NORM_BACKWARD)

const bg_op_type bgi_op_layer_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "layer_norm_backward",
    .minimum_inputs = 4,
    .maximum_inputs = 5,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_norm_attributes),
    .infer = infer_layer_norm_backward,
    .cost = cost_backward,
    .kernel = select_layer_norm_backward,
};

bg_value bg_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta, double epsilon)
{
    const bgi_norm_attributes attributes = {.epsilon = epsilon};
    const bg_value inputs[] = {x, gamma, beta};

    /* After an earlier error both are null, and this call adds nothing. */
    return bg_graph_add(graph, &bgi_op_layer_norm, name, inputs, 3, &attributes, NULL);
}

/* ---- batch norm: x, gamma, beta, running_mean!, running_variance! -> y, mean, rstd ---- */

static bg_status check_running(const bg_type *type, const char *operand, const bg_type *x, bg_error *error)
{
    const bg_dtype dtype = type->dtype == x->dtype ? x->dtype : bgi_statistics_dtype(x->dtype);

    return check_vector(type, operand, dtype, x->dims[1], "C of x; x's element type or float32", error);
}

static bg_status infer_batch_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_norm_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];

    BGI_TRY(check_epsilon(attributes, error));
    if (!(attributes->momentum >= 0.0 && attributes->momentum <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "momentum is %g; it must be between 0 and 1",
                            attributes->momentum);
    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 2, "[N,C] or [N,C,H,W]", error));
    BGI_TRY(check_vector(&op->types[1], "gamma", x->dtype, x->dims[1], "C of x", error));
    BGI_TRY(check_vector(&op->types[2], "beta", x->dtype, x->dims[1], "C of x", error));
    BGI_TRY(check_running(&op->types[3], "running_mean", x, error));
    BGI_TRY(check_running(&op->types[4], "running_variance", x, error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = bg_vector(bgi_statistics_dtype(x->dtype), x->dims[1]);
    return BG_OK;
}

/* Adds the gradients, which in training mode flow through the micro-batch's statistics too. */
static bg_status differentiate_batch_norm(bg_op_gradient *gradient, bg_error *error)
{
    const bg_type *x = &gradient->op.types[0];
    const bg_value *values = gradient->inputs;
    bg_value inputs[5] = {{0}, values[0], gradient->outputs[1], gradient->outputs[2], values[1]};
    char text[BG_TYPE_TEXT_BYTES];
    bg_value outputs[3];

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (bg_type_element_count(x) == x->dims[1])
        return bg_error_set(
            error, BG_ERROR_SHAPE,
            "x is %s: training needs more than 1 value in each channel (a micro-batch of 2 or more samples)",
            bg_type_text(x, text));
    bg_graph_add(gradient->graph, &bgi_op_batch_norm_backward, NULL, inputs, 5, gradient->op.attributes, outputs);
    for (uint32_t i = 0; i < 3; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(gradient->graph, error);
}

BGI_OP_KERNEL(select_batch_norm, BATCH_NORM)

const bg_op_type bgi_op_batch_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "batch_norm",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_norm_attributes),
    .written_inputs = 1u << 3 | 1u << 4,
    .training_writes = 1u << 3 | 1u << 4,
    .infer = infer_batch_norm,
    .gradient = differentiate_batch_norm,
    .cost = cost_forward,
    .kernel = select_batch_norm,
};

/* Shape rule: dy, x, mean, rstd, gamma -> dx, dgamma, dbeta. */
static bg_status infer_batch_norm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[1];
    const bg_dtype statistics = bgi_statistics_dtype(x->dtype);

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 2, "[N,C] or [N,C,H,W]", error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(check_vector(&op->types[2], "mean", statistics, x->dims[1], "the forward op's", error));
    BGI_TRY(check_vector(&op->types[3], "rstd", statistics, x->dims[1], "the forward op's", error));
    BGI_TRY(check_vector(&op->types[4], "gamma", x->dtype, x->dims[1], "C of x", error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = op->types[4];
    return BG_OK;
}

BGI_OP_KERNEL(select_batch_norm_backward, BATCH_NORM_BACKWARD)

const bg_op_type bgi_op_batch_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "batch_norm_backward",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_norm_attributes),
    .infer = infer_batch_norm_backward,
    .cost = cost_backward,
    .kernel = select_batch_norm_backward,
};

/* ---- batch norm over replicas ---- */

/* Returns the type of two numbers for each channel of each of `members` replicas, one replica after another. */
static bg_type pairs_type(const bg_type *x, uint64_t members)
{
    return bg_matrix(BG_FLOAT64, (int64_t)members * x->dims[1], 2);
}

static bg_status check_channels(const bg_type *x, bg_error *error)
{
    BGI_TRY(bgi_shape_float(x, "x", error));
    return bgi_shape_minimum_rank(x, "x", 2, "[N,C] or [N,C,H,W]", error);
}

static bg_status infer_moments(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_channels(&op->types[0], error));
    outputs[0] = pairs_type(&op->types[0], 1);
    return BG_OK;
}

static bg_status infer_sync_batch_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_sync_norm_attributes *attributes = op->attributes;
    const bgi_norm_attributes plain = {.epsilon = attributes->epsilon, .momentum = attributes->momentum};
    bg_op_signature signature = *op;
    bg_type moments;

    if (attributes->members == 0 || attributes->members > INT32_MAX)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "members is %llu; it must be a number of replicas from 1 to 2147483647",
                            (unsigned long long)attributes->members);
    signature.attributes = &plain;
    BGI_TRY(infer_batch_norm(&signature, outputs, error));
    moments = pairs_type(&op->types[0], attributes->members);
    return bgi_shape_equal(&op->types[5], "moments", &moments, "two for each channel and replica", error);
}

/* Checks the operands dy, x, mean and rstd. */
static bg_status check_sums_operands(const bg_op_signature *op, bg_error *error)
{
    const bg_type *x = &op->types[1];
    const bg_dtype statistics = bgi_statistics_dtype(x->dtype);

    BGI_TRY(check_channels(x, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(check_vector(&op->types[2], "mean", statistics, x->dims[1], "the forward op's", error));
    return check_vector(&op->types[3], "rstd", statistics, x->dims[1], "the forward op's", error);
}

static bg_status infer_gradient_sums(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_sums_operands(op, error));
    outputs[0] = pairs_type(&op->types[1], 1);
    return BG_OK;
}

static bg_status infer_sync_batch_norm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[1];
    bg_type sums;

    BGI_TRY(check_sums_operands(op, error));
    sums = pairs_type(x, 1);
    BGI_TRY(check_vector(&op->types[4], "gamma", x->dtype, x->dims[1], "C of x", error));
    BGI_TRY(bgi_shape_equal(&op->types[5], "sums", &sums, "two for each channel", error));
    BGI_TRY(bgi_shape_equal(&op->types[6], "sums of all", &sums, "two for each channel", error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = op->types[4];
    return BG_OK;
}

/* Differentiates the whole chain, from the result to x; no gradient flows through the moments. */
static bg_status differentiate_sync_batch_norm(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_sync_norm_attributes *attributes = gradient->op.attributes;
    const bg_value *values = gradient->inputs;
    bg_value inputs[7] = {{0}, values[0], gradient->outputs[1], gradient->outputs[2], values[1]};
    bg_value outputs[3];

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    inputs[5] = bg_graph_add(gradient->graph, &bgi_op_batch_norm_gradient_sums, NULL, inputs, 4, NULL, NULL);
    inputs[6] = bgi_all_reduce_data(gradient->graph, NULL, inputs[5], BG_REDUCE_SUM, (uint32_t)attributes->members);
    bg_graph_add(gradient->graph, &bgi_op_sync_batch_norm_backward, NULL, inputs, 7, attributes, outputs);
    for (uint32_t i = 0; i < 3; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_moments(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_moments, BATCH_NORM_MOMENTS)
BGI_OP_KERNEL(select_sync_batch_norm, SYNC_BATCH_NORM)
BGI_OP_KERNEL(select_gradient_sums, BATCH_NORM_GRADIENT_SUMS)
BGI_OP_KERNEL(select_sync_batch_norm_backward, SYNC_BATCH_NORM_BACKWARD)

const bg_op_type bgi_op_batch_norm_moments = {
    BG_OP_TYPE_DEFAULTS, .name = "batch_norm_moments", .minimum_inputs = 1,  .maximum_inputs = 1,
    .output_count = 1,   .infer = infer_moments,       .cost = cost_moments, .kernel = select_moments,
};

const bg_op_type bgi_op_sync_batch_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "sync_batch_norm",
    .minimum_inputs = 6,
    .maximum_inputs = 6,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_sync_norm_attributes),
    .written_inputs = 1u << 3 | 1u << 4,
    .infer = infer_sync_batch_norm,
    .gradient = differentiate_sync_batch_norm,
    .cost = cost_forward,
    .kernel = select_sync_batch_norm,
};

const bg_op_type bgi_op_batch_norm_gradient_sums = {
    BG_OP_TYPE_DEFAULTS, .name = "batch_norm_gradient_sums", .minimum_inputs = 4,  .maximum_inputs = 4,
    .output_count = 1,   .infer = infer_gradient_sums,       .cost = cost_moments, .kernel = select_gradient_sums,
};

const bg_op_type bgi_op_sync_batch_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "sync_batch_norm_backward",
    .minimum_inputs = 7,
    .maximum_inputs = 7,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_sync_norm_attributes),
    .infer = infer_sync_batch_norm_backward,
    .cost = cost_backward,
    .kernel = select_sync_batch_norm_backward,
};

bg_value bg_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                       bg_value running_mean, bg_value running_variance, double momentum, double epsilon)
{
    const bgi_norm_attributes attributes = {.epsilon = epsilon, .momentum = momentum};
    const bg_value inputs[] = {x, gamma, beta, running_mean, running_variance};

    return bg_graph_add(graph, &bgi_op_batch_norm, name, inputs, 5, &attributes, NULL);
}

bg_value bg_sync_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                            bg_value running_mean, bg_value running_variance, double momentum, double epsilon)
{
    const bgi_norm_attributes attributes = {.epsilon = epsilon, .momentum = momentum, .is_synchronized = 1};
    const bg_value inputs[] = {x, gamma, beta, running_mean, running_variance};

    return bg_graph_add(graph, &bgi_op_batch_norm, name, inputs, 5, &attributes, NULL);
}
