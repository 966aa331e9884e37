/*
 * optimizer.c: defines the weight updates as ops. Transforms add these ops; no gradient flows through updates. The ops
 * change variables in place, so they have no outputs, except lamb_moments, which returns sums of squares.
 */
#include "ops/ops.h"

#include "core/narrow.h"
#include "kernels/optimizer/attributes.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_sgd_update, SGD_UPDATE)
BGI_OP_KERNEL(select_adam_update, ADAM_UPDATE)
BGI_OP_KERNEL(select_rmsprop_update, RMSPROP_UPDATE)

enum { PARAMETER = 0, GRADIENT, HYPER, SCALE, STATE };

/* Checks attributes, which may come from files. Operands are a whole parameter or a replica's piece of it. */
static bg_status check_rounding(const bg_op_signature *op, bg_error *error)
{
    const bgi_rounding *rounding = op->attributes;
    const int64_t elements = bg_type_element_count(&op->types[PARAMETER]);

    if (rounding->elements == 0 ||
        (rounding->piece > 0 && rounding->piece <= rounding->elements && rounding->elements <= INT64_MAX / 2 &&
         (rounding->elements == elements || rounding->piece == elements)))
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_INTERNAL,
        "stochastic rounding of %lld elements in pieces of %lld does not fit a parameter of %lld elements",
        (long long)rounding->elements, (long long)rounding->piece, (long long)elements);
}

/* Checks the four operands with which all updates except lamb_update begin, and each state. */
static bg_status check_update(const bg_op_signature *op, const char *const *state_names, bg_error *error)
{
    const bg_type *parameter = &op->types[PARAMETER];
    const bg_type hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), scale = bg_scalar(BG_FLOAT32);

    BGI_TRY(check_rounding(op, error));
    BGI_TRY(bgi_shape_float(parameter, "the parameter", error));
    BGI_TRY(bgi_shape_float(&op->types[GRADIENT], "the gradient", error));
    BGI_TRY(bgi_shape_same_dims(&op->types[GRADIENT], "the gradient", parameter, "the parameter's shape", error));
    BGI_TRY(bgi_shape_equal(&op->types[HYPER], "hyper", &hyper, "the numbers of the optimizer", error));
    BGI_TRY(bgi_shape_equal(&op->types[SCALE], "the scale", &scale, "a factor of the gradient", error));
    for (uint32_t i = STATE; i < op->input_count; i++) {
        bg_type wanted = *parameter;

        wanted.dtype = bgi_statistics_dtype(parameter->dtype);
        if (wanted.dtype == BG_FLOAT32 && bgi_dtype_is_narrow(op->types[i].dtype))
            wanted.dtype = op->types[i].dtype;
        BGI_TRY(bgi_shape_equal(&op->types[i], state_names[i - STATE], &wanted,
                                "the parameter's shape, in float32, bfloat16 or float16, or float64 for float64",
                                error));
    }
    return BG_OK;
}

/* Counts `flops` for each element; operands that are written are also read. */
static bg_cost cost_update(const bg_op_signature *op, double flops)
{
    bg_cost cost = bgi_cost_once(op, flops * bgi_type_elements(&op->types[PARAMETER]));

    cost.bytes_written = (double)bg_type_size_bytes(&op->types[PARAMETER]);
    for (uint32_t i = STATE; i < op->input_count; i++)
        cost.bytes_written += (double)bg_type_size_bytes(&op->types[i]);
    return cost;
}

static bg_status infer_sgd_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const states[] = {"the velocity"};

    (void)outputs;
    return check_update(op, states, error);
}

static bg_cost cost_sgd_update(const bg_op_signature *op)
{
    return cost_update(op, op->input_count > STATE ? 10.0 : 5.0);
}

const bg_op_type bgi_op_sgd_update = {
    .name = "sgd_update",
    .minimum_inputs = STATE,
    .maximum_inputs = STATE + 1,
    .attributes_bytes = sizeof(bgi_sgd_attributes),
    .written_inputs = 1u << PARAMETER | 1u << STATE,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_sgd_update,
    .cost = cost_sgd_update,
    .kernel = select_sgd_update,
};

void bgi_sgd_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                    bg_value scale, bg_value velocity, const bgi_sgd_attributes *attributes)
{
    const bg_value inputs[] = {parameter, gradient, hyper, scale, velocity};

    bg_graph_add(graph, &bgi_op_sgd_update, name, inputs, 5, attributes, NULL);
}

static bg_status infer_adam_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const states[] = {"m", "v"};

    (void)outputs;
    return check_update(op, states, error);
}

static bg_cost cost_adam_update(const bg_op_signature *op)
{
    return cost_update(op, 16.0);
}

const bg_op_type bgi_op_adam_update = {
    .name = "adam_update",
    .minimum_inputs = STATE + 2,
    .maximum_inputs = STATE + 2,
    .attributes_bytes = sizeof(bgi_adam_attributes),
    .written_inputs = 1u << PARAMETER | 1u << STATE | 1u << (STATE + 1),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_adam_update,
    .cost = cost_adam_update,
    .kernel = select_adam_update,
};

void bgi_adam_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                     bg_value scale, bg_value m, bg_value v, const bgi_adam_attributes *attributes)
{
    const bg_value inputs[] = {parameter, gradient, hyper, scale, m, v};

    bg_graph_add(graph, &bgi_op_adam_update, name, inputs, 6, attributes, NULL);
}

/* Checks the states: the mean of squares; the mean if centered; the velocity if there is momentum. AdaGrad has only the
 * mean of squares; AdaDelta also has the mean of the changes' squares. */
static bg_status infer_rmsprop_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const centered[] = {"the mean of squares", "the mean", "the velocity"};
    static const char *const plain[] = {"the mean of squares", "the velocity"};
    static const char *const adadelta[] = {"the mean of squares", "the mean of the changes' squares"};
    const bgi_rmsprop_attributes *attributes = op->attributes;
    const bool is_adadelta = attributes->rule == BGI_RULE_ADADELTA;
    const uint32_t states = op->input_count - STATE, least = attributes->centered || is_adadelta ? 2 : 1;

    (void)outputs;
    if (attributes->rule > BGI_RULE_ADADELTA || attributes->centered > 1 ||
        (attributes->rule != BGI_RULE_RMSPROP && (attributes->centered || states != least)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "rule is %u, centered is %u, and there are %u states: AdaGrad (rule %d) needs 1 state and "
                            "AdaDelta (rule %d) needs 2, and neither can be centered",
                            attributes->rule, attributes->centered, states, BGI_RULE_ADAGRAD, BGI_RULE_ADADELTA);
    if (states < least || states > least + 1)
        return bg_error_set(error, BG_ERROR_INVALID, "the op has %u states; it must have %u, or %u with momentum",
                            states, least, least + 1);
    if (is_adadelta)
        return check_update(op, adadelta, error);
    return check_update(op, attributes->centered ? centered : plain, error);
}

static bg_cost cost_rmsprop_update(const bg_op_signature *op)
{
    return cost_update(op, 10.0 + 3.0 * (op->input_count - STATE));
}

const bg_op_type bgi_op_rmsprop_update = {
    .name = "rmsprop_update",
    .minimum_inputs = STATE + 1,
    .maximum_inputs = STATE + 3,
    .attributes_bytes = sizeof(bgi_rmsprop_attributes),
    .written_inputs = 1u << PARAMETER | 7u << STATE,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_rmsprop_update,
    .cost = cost_rmsprop_update,
    .kernel = select_rmsprop_update,
};

void bgi_rmsprop_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                        bg_value scale, bg_value square, bg_value mean, bg_value velocity,
                        const bgi_rmsprop_attributes *attributes)
{
    bg_value inputs[STATE + 3] = {parameter, gradient, hyper, scale, square};
    uint32_t count = STATE + 1;

    if (attributes->centered || attributes->rule == BGI_RULE_ADADELTA)
        inputs[count++] = mean;
    if (!bg_value_is_null(velocity))
        inputs[count++] = velocity;
    bg_graph_add(graph, &bgi_op_rmsprop_update, name, inputs, count, attributes, NULL);
}

/* ---- LAMB: two ops, between which norms are summed ---- */

BGI_OP_KERNEL(select_lamb_moments, LAMB_MOMENTS)
BGI_OP_KERNEL(select_lamb_update, LAMB_UPDATE)

/* Checks the pieces as check_rounding does; in an update the operands may be a replica's piece. */
static bg_status check_lamb(const bg_op_signature *op, bg_error *error)
{
    const bgi_lamb_attributes *attributes = op->attributes;
    const int64_t elements = bg_type_element_count(&op->types[PARAMETER]);

    BGI_TRY(check_rounding(op, error));
    if (attributes->elements > 0 && attributes->elements <= INT64_MAX / 2 && attributes->pieces > 0 &&
        attributes->pieces <= INT32_MAX / 2 &&
        (attributes->elements == elements || bgi_lamb_piece(attributes) == elements))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INTERNAL,
                        "%u pieces of a tensor of %lld elements do not fit a parameter of %lld elements",
                        attributes->pieces, (long long)attributes->elements, (long long)elements);
}

static bg_type describe_squares(const bg_op_signature *op)
{
    return bg_matrix(BG_FLOAT64, ((const bgi_lamb_attributes *)op->attributes)->pieces, 2);
}

static bg_status infer_lamb_moments(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    static const char *const states[] = {"m", "v"};

    BGI_TRY(check_update(op, states, error));
    BGI_TRY(check_lamb(op, error));
    outputs[0] = describe_squares(op);
    return BG_OK;
}

static bg_cost cost_lamb_moments(const bg_op_signature *op)
{
    return cost_update(op, 20.0);
}

const bg_op_type bgi_op_lamb_moments = {
    .name = "lamb_moments",
    .minimum_inputs = STATE + 2,
    .maximum_inputs = STATE + 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_lamb_attributes),
    .written_inputs = 3u << STATE,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_lamb_moments,
    .cost = cost_lamb_moments,
    .kernel = select_lamb_moments,
};

bg_value bgi_lamb_moments(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                          bg_value scale, bg_value m, bg_value v, const bgi_lamb_attributes *attributes)
{
    const bg_value inputs[] = {parameter, gradient, hyper, scale, m, v};

    return bg_graph_add(graph, &bgi_op_lamb_moments, name, inputs, 6, attributes, NULL);
}

static bg_status infer_lamb_update(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    enum { SQUARES = 1, M = 3, V };
    const bg_type squares = describe_squares(op), hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    const bg_type *parameter = &op->types[PARAMETER];

    (void)outputs;
    BGI_TRY(check_lamb(op, error));
    BGI_TRY(bgi_shape_float(parameter, "the parameter", error));
    BGI_TRY(bgi_shape_equal(&op->types[SQUARES], "the squares", &squares, "two sums for each piece", error));
    BGI_TRY(bgi_shape_equal(&op->types[HYPER], "hyper", &hyper, "the numbers of the optimizer", error));
    BGI_TRY(bgi_shape_same_dims(&op->types[M], "m", parameter, "the parameter's shape", error));
    return bgi_shape_same_dims(&op->types[V], "v", parameter, "the parameter's shape", error);
}

static bg_cost cost_lamb_update(const bg_op_signature *op)
{
    bg_cost cost = bgi_cost_once(op, 10.0 * bgi_type_elements(&op->types[PARAMETER]));

    cost.bytes_written = (double)bg_type_size_bytes(&op->types[PARAMETER]);
    return cost;
}

const bg_op_type bgi_op_lamb_update = {
    .name = "lamb_update",
    .minimum_inputs = 5,
    .maximum_inputs = 5,
    .attributes_bytes = sizeof(bgi_lamb_attributes),
    .written_inputs = 1u << PARAMETER,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_lamb_update,
    .cost = cost_lamb_update,
    .kernel = select_lamb_update,
};

void bgi_lamb_update(bg_graph *graph, const char *name, bg_value parameter, bg_value squares, bg_value hyper,
                     bg_value m, bg_value v, const bgi_lamb_attributes *attributes)
{
    const bg_value inputs[] = {parameter, squares, hyper, m, v};

    bg_graph_add(graph, &bgi_op_lamb_update, name, inputs, 5, attributes, NULL);
}

bgi_lamb_attributes bgi_lamb_describe(const bg_type *parameter, uint32_t pieces, bool uncorrected, bool without_decay)
{
    return (bgi_lamb_attributes){.elements = bg_type_element_count(parameter),
                                 .pieces = pieces,
                                 .uncorrected = uncorrected,
                                 .without_decay = without_decay};
}
