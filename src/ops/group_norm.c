/*
 * group_norm.c: defines normalization of each sample's groups of channels. Without gamma and beta, each group is a row
 * of a layer norm.
 */
#include <brigade/ops.h>

#include "graph/graph.h"
#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_group_norm, GROUP_NORM)
BGI_OP_KERNEL(select_group_norm_backward, GROUP_NORM_BACKWARD)

static bg_status check_groups(const bg_type *x, const bgi_group_norm_attributes *attributes, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (!(attributes->epsilon >= 0.0))
        return bg_error_set(error, BG_ERROR_INVALID, "epsilon is %g; it must be at least 0", attributes->epsilon);
    if (x->rank < 2 || attributes->groups < 1 || x->dims[1] % attributes->groups != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "groups is %lld and x is %s; x must be [N,C,...], and groups must divide C",
                            (long long)attributes->groups, bg_type_text(x, text));
    return bgi_shape_float(x, "x", error);
}

static bg_status check_vector(const bg_type *type, const char *operand, const bg_type *x, bg_error *error)
{
    const bg_type wanted = bg_vector(x->dtype, x->dims[1]);

    return bgi_shape_equal(type, operand, &wanted, "C of x", error);
}

static bg_type statistics_of(const bg_type *x, const bgi_group_norm_attributes *attributes)
{
    return bg_matrix(bgi_statistics_dtype(x->dtype), x->dims[0], attributes->groups);
}

/* ---- x, gamma, beta -> y, mean, rstd ---- */

static bg_status infer_group_norm(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_group_norm_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[0];

    BGI_TRY(check_groups(x, attributes, error));
    BGI_TRY(check_vector(&op->types[1], "gamma", x, error));
    BGI_TRY(check_vector(&op->types[2], "beta", x, error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = statistics_of(x, attributes);
    return BG_OK;
}

static bg_status differentiate_group_norm(bg_op_gradient *gradient, bg_error *error)
{
    bg_value inputs[5] = {{0}, gradient->inputs[0], gradient->outputs[1], gradient->outputs[2], gradient->inputs[1]};
    bg_value outputs[3];

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    bg_graph_add(gradient->graph, &bgi_op_group_norm_backward, NULL, inputs, 5, gradient->op.attributes, outputs);
    for (uint32_t i = 0; i < 3; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    return bg_graph_check(gradient->graph, error);
}

/* Counts, as for a layer norm, two passes for the statistics and one for the result. */
static bg_cost cost_group_norm(const bg_op_signature *op)
{
    return bgi_cost_once(op, 8.0 * bgi_type_elements(&op->types[0]));
}

static bg_cost cost_group_norm_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, 14.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_group_norm = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "group_norm",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_group_norm_attributes),
    .infer = infer_group_norm,
    .gradient = differentiate_group_norm,
    .cost = cost_group_norm,
    .kernel = select_group_norm,
};

/* ---- dy, x, mean, rstd, gamma -> dx, dgamma, dbeta ---- */

static bg_status infer_group_norm_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_group_norm_attributes *attributes = op->attributes;
    const bg_type *x = &op->types[1];
    bg_type statistics;

    BGI_TRY(check_groups(x, attributes, error));
    statistics = statistics_of(x, attributes);
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", x, "x's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "mean", &statistics, "the forward op's", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "rstd", &statistics, "the forward op's", error));
    BGI_TRY(check_vector(&op->types[4], "gamma", x, error));
    outputs[0] = *x;
    outputs[1] = outputs[2] = op->types[4];
    return BG_OK;
}

const bg_op_type bgi_op_group_norm_backward = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "group_norm_backward",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_group_norm_attributes),
    .infer = infer_group_norm_backward,
    .cost = cost_group_norm_backward,
    .kernel = select_group_norm_backward,
};

bg_value bg_group_norm(bg_graph *graph, const char *name, bg_value x, int64_t groups, bg_value gamma, bg_value beta,
                       double epsilon)
{
    const bg_type type = bg_graph_type(graph, x);
    const bgi_group_norm_attributes attributes = {.epsilon = epsilon, .groups = groups};
    const bg_value inputs[] = {x, gamma, beta};
    bg_error error = {0};
    bg_value y;

    if (bg_value_is_null(x))
        return x;
    if (bg_value_is_null(gamma) != bg_value_is_null(beta))
        bg_error_set(&error, BG_ERROR_INVALID, "only one of gamma and beta is given: give both or neither");
    else
        check_groups(&type, &attributes, &error);
    if (error.status != BG_OK) {
        bgi_graph_fail_op(graph, "group_norm", name, error.status, "%s", error.message);
        return (bg_value){0};
    }
    if (!bg_value_is_null(gamma))
        return bg_graph_add(graph, &bgi_op_group_norm, name, inputs, 3, &attributes, NULL);
    y = bg_reshape(graph, NULL, x, 2, (const int64_t[]){type.dims[0] * groups, -1});
    y = bg_layer_norm(graph, NULL, y, (bg_value){0}, (bg_value){0}, epsilon);
    return bg_reshape(graph, name, y, type.rank, type.dims);
}
