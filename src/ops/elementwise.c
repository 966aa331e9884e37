/*
 * elementwise.c: defines functions of one element, functions of two that broadcast, scale, cast and standardize.
 *
 * The gradient of a function of one element depends on x or on y, not on both. The backward op has operands for both,
 * but gets the needed value twice, so only that value is kept for the backward pass. A broadcast operand's gradient is
 * summed over the dims in which it was repeated.
 */
#include <math.h>
#include <string.h>

#include "core/narrow.h"
#include "kernels/elementwise/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_unary, UNARY)
BGI_OP_KERNEL(select_unary_backward, UNARY_BACKWARD)
BGI_OP_KERNEL(select_binary, BINARY)
BGI_OP_KERNEL(select_select_gradient, SELECT_GRADIENT)
BGI_OP_KERNEL(select_scale, SCALE)
BGI_OP_KERNEL(select_cast, CAST)
BGI_OP_KERNEL(select_standardize, STANDARDIZE)

/* ---- unary ---- */

/* A function's approximate cost for each element, and its default parameters. */
static const struct {
    double flops, a, b;
} unary_functions[BG_UNARY_COUNT] = {
    [BG_RELU] = {.flops = 1},
    [BG_GELU] = {.flops = 10},
    [BG_GELU_TANH] = {.flops = 15},
    [BG_TANH] = {.flops = 8},
    [BG_SIGMOID] = {.flops = 8},
    [BG_EXP] = {.flops = 6},
    [BG_LOG] = {.flops = 6},
    [BG_SQRT] = {.flops = 1},
    [BG_SQUARE] = {.flops = 1},
    [BG_NEGATE] = {.flops = 1},
    [BG_ABS] = {.flops = 1},
    [BG_RECIPROCAL] = {.flops = 1},
    [BG_SILU] = {.flops = 9},
    [BG_MISH] = {.flops = 15},
    [BG_SOFTSIGN] = {.flops = 3},
    [BG_LOG_SIGMOID] = {.flops = 14},
    [BG_HARD_SWISH] = {.flops = 5},
    [BG_RSQRT] = {.flops = 2},
    [BG_LOG1P] = {.flops = 8},
    [BG_EXPM1] = {.flops = 8},
    [BG_ERF] = {.flops = 10},
    [BG_SIGN] = {.flops = 2},
    [BG_ROUND] = {.flops = 1},
    [BG_FLOOR] = {.flops = 2},
    [BG_CEIL] = {.flops = 2},
    [BG_TRUNC] = {.flops = 2},
    [BG_SIN] = {.flops = 12},
    [BG_COS] = {.flops = 12},
    [BG_TAN] = {.flops = 40},
    [BG_ASIN] = {.flops = 40},
    [BG_ACOS] = {.flops = 40},
    [BG_ATAN] = {.flops = 40},
    [BG_SINH] = {.flops = 40},
    [BG_COSH] = {.flops = 40},
    [BG_ASINH] = {.flops = 40},
    [BG_ACOSH] = {.flops = 40},
    [BG_ATANH] = {.flops = 40},
    [BG_SOFTPLUS] = {.flops = 16, .a = 1, .b = 20},
    [BG_ELU] = {.flops = 10, .a = 1},
    [BG_LEAKY_RELU] = {.flops = 2, .a = 0.01},
    [BG_HARD_SIGMOID] = {.flops = 4, .a = 1.0 / 6, .b = 0.5},
    [BG_CLAMP] = {.flops = 2, .a = 0, .b = 6},
    [BG_POWER] = {.flops = 40, .a = 2},
};

static bg_status check_unary_function(const bg_op_signature *op, bg_error *error)
{
    const bgi_unary_attributes *attributes = op->attributes;
    const bg_unary function = attributes->function;
    const double a = attributes->a, b = attributes->b;

    if ((unsigned)function >= BG_UNARY_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "function %d is not one of bg_unary (0 to %d)", (int)function,
                            BG_UNARY_COUNT - 1);
    if (function == BG_CLAMP && !(a <= b))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "clamp has the bounds %g and %g; the lower bound must come first, and neither may be NaN",
                            a, b);
    if (function == BG_SOFTPLUS && !(a > 0.0))
        return bg_error_set(error, BG_ERROR_INVALID, "parameter a of softplus is %g; it must be finite and above 0", a);
    if (bgi_unary_has_parameters(function) && function != BG_CLAMP && !(isfinite(a) && isfinite(b)))
        return bg_error_set(error, BG_ERROR_INVALID, "the parameters are %g and %g; both must be finite", a, b);
    return BG_OK;
}

static bg_status infer_unary(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_unary_function(op, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status derive_unary(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_unary_attributes *attributes = gradient->op.attributes;
    const bg_value dy = gradient->output_gradients[0];
    const bg_value kept =
        bgi_unary_derives_from_output(attributes->function) ? gradient->outputs[0] : gradient->inputs[0];
    const bg_value operands[] = {dy, kept, kept};

    if (!gradient->needs[0])
        return BG_OK;
    if (attributes->function == BG_NEGATE)
        gradient->input_gradients[0] = bg_scale(gradient->graph, NULL, dy, -1.0, 0.0);
    else
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_unary_backward, NULL, operands, 3, attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_unary(const bg_op_signature *op)
{
    const bg_unary function = ((const bgi_unary_attributes *)op->attributes)->function;

    return bgi_cost_once(op, unary_functions[function].flops * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_unary = {
    .name = "unary",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_unary_attributes),
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_unary,
    .gradient = derive_unary,
    .cost = cost_unary,
    .kernel = select_unary,
};

static bg_status infer_unary_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_unary_function(op, error));
    BGI_TRY(bgi_shape_float(&op->types[0], "dy", error));
    BGI_TRY(bgi_shape_equal(&op->types[1], "x", &op->types[0], "dy's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "y", &op->types[0], "dy's type", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_cost cost_unary_backward(const bg_op_signature *op)
{
    bg_cost cost = cost_unary(op);

    /* the gradient rule passes one buffer as x and as y */
    cost.bytes_read -= (double)bg_type_size_bytes(&op->types[1]);
    return cost;
}

const bg_op_type bgi_op_unary_backward = {
    .name = "unary_backward",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_unary_attributes),
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_unary_backward,
    .cost = cost_unary_backward,
    .kernel = select_unary_backward,
};

bg_value bg_elementwise_function(bg_graph *graph, const char *name, bg_unary function, double a, double b, bg_value x)
{
    bgi_unary_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.function = function;
    if ((unsigned)function < BG_UNARY_COUNT && bgi_unary_has_parameters(function)) {
        attributes.a = a;
        attributes.b = b;
    }
    return bg_graph_add(graph, &bgi_op_unary, name, &x, 1, &attributes, NULL);
}

bg_value bg_elementwise_unary(bg_graph *graph, const char *name, bg_unary function, bg_value x)
{
    const bool is_known = (unsigned)function < BG_UNARY_COUNT;

    return bg_elementwise_function(graph, name, function, is_known ? unary_functions[function].a : 0.0,
                                   is_known ? unary_functions[function].b : 0.0, x);
}

bg_value bg_relu(bg_graph *graph, bg_value x)
{
    return bg_elementwise_unary(graph, NULL, BG_RELU, x);
}

bg_value bg_gelu(bg_graph *graph, bg_value x)
{
    return bg_elementwise_unary(graph, NULL, BG_GELU, x);
}

bg_value bg_gelu_tanh(bg_graph *graph, bg_value x)
{
    return bg_elementwise_unary(graph, NULL, BG_GELU_TANH, x);
}

bg_value bg_tanh(bg_graph *graph, bg_value x)
{
    return bg_elementwise_unary(graph, NULL, BG_TANH, x);
}

bg_value bg_sigmoid(bg_graph *graph, bg_value x)
{
    return bg_elementwise_unary(graph, NULL, BG_SIGMOID, x);
}

bg_value bg_silu(bg_graph *graph, bg_value x)
{
    return bg_elementwise_unary(graph, NULL, BG_SILU, x);
}

bg_value bg_clamp(bg_graph *graph, bg_value x, double lowest, double highest)
{
    return bg_elementwise_function(graph, NULL, BG_CLAMP, lowest, highest, x);
}

bg_value bg_power(bg_graph *graph, bg_value x, double exponent)
{
    return bg_elementwise_function(graph, NULL, BG_POWER, exponent, 0.0, x);
}

/* ---- binary ---- */

static bg_status infer_binary(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_binary function = ((const bgi_binary_attributes *)op->attributes)->function;

    if ((unsigned)function >= BG_BINARY_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "function %d is not one of bg_binary (0 to %d)", (int)function,
                            BG_BINARY_COUNT - 1);
    BGI_TRY(bgi_shape_number(&op->types[0], "a", error));
    BGI_TRY(bgi_shape_same_dtype(&op->types[0], "a", &op->types[1], "b", error));
    return bgi_shape_broadcast(&op->types[0], "a", &op->types[1], "b", 0, &outputs[0], error);
}

/* Returns dy where `winner` is greater than `other`, half of dy where both are equal, and 0 elsewhere. */
static bg_value add_select_gradient(bg_op_gradient *gradient, bg_value winner, bg_value other)
{
    const bg_value operands[] = {gradient->output_gradients[0], winner, other};

    return bg_graph_add(gradient->graph, &bgi_op_select_gradient, NULL, operands, 3, gradient->op.attributes, NULL);
}

/* Returns the gradient of operand 0, before it is summed over repeated dims. */
static bg_value derive_first(bg_op_gradient *gradient, bg_binary function)
{
    const bg_value a = gradient->inputs[0], b = gradient->inputs[1], dy = gradient->output_gradients[0];

    switch (function) {
    case BG_MULTIPLY:
        return bg_multiply(gradient->graph, dy, b);
    case BG_DIVIDE:
        return bg_divide(gradient->graph, dy, b);
    case BG_MAXIMUM:
    case BG_MINIMUM:
        return add_select_gradient(gradient, a, b);
    default:
        return dy;
    }
}

static bg_value derive_second(bg_op_gradient *gradient, bg_binary function)
{
    const bg_value a = gradient->inputs[0], b = gradient->inputs[1], dy = gradient->output_gradients[0];
    bg_graph *graph = gradient->graph;

    switch (function) {
    case BG_SUBTRACT:
        return bg_scale(graph, NULL, dy, -1.0, 0.0);
    case BG_MULTIPLY:
        return bg_multiply(graph, dy, a);
    case BG_DIVIDE: /* d(a/b)/db = -(a/b)/b */
        return bg_scale(graph, NULL, bg_multiply(graph, dy, bg_divide(graph, gradient->outputs[0], b)), -1.0, 0.0);
    case BG_MAXIMUM:
    case BG_MINIMUM:
        return add_select_gradient(gradient, b, a);
    default:
        return dy;
    }
}

static bg_status derive_binary(bg_op_gradient *gradient, bg_error *error)
{
    const bg_binary function = ((const bgi_binary_attributes *)gradient->op.attributes)->function;

    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bgi_reduce_to(gradient->graph, derive_first(gradient, function), &gradient->op.types[0]);
    if (gradient->needs[1])
        gradient->input_gradients[1] =
            bgi_reduce_to(gradient->graph, derive_second(gradient, function), &gradient->op.types[1]);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_one_flop(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[op->input_count]));
}

const bg_op_type bgi_op_binary = {
    .name = "binary",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_binary_attributes),
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_binary,
    .gradient = derive_binary,
    .cost = cost_one_flop,
    .kernel = select_binary,
};

static bg_status infer_select_gradient(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type y;

    BGI_TRY(bgi_shape_float(&op->types[0], "dy", error));
    BGI_TRY(bgi_shape_same_dtype(&op->types[0], "dy", &op->types[1], "a", error));
    BGI_TRY(bgi_shape_same_dtype(&op->types[0], "dy", &op->types[2], "b", error));
    BGI_TRY(bgi_shape_broadcast(&op->types[1], "a", &op->types[2], "b", 0, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the broadcast shape of a and b", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

const bg_op_type bgi_op_select_gradient = {
    .name = "select_gradient",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_binary_attributes),
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_select_gradient,
    .cost = cost_one_flop,
    .kernel = select_select_gradient,
};

bg_value bg_elementwise_binary(bg_graph *graph, const char *name, bg_binary function, bg_value a, bg_value b)
{
    const bgi_binary_attributes attributes = {.function = function};
    bg_value inputs[] = {a, b};

    bgi_promote(graph, inputs, 2);
    return bg_graph_add(graph, &bgi_op_binary, name, inputs, 2, &attributes, NULL);
}

bg_value bg_add(bg_graph *graph, bg_value a, bg_value b)
{
    return bg_elementwise_binary(graph, NULL, BG_ADD, a, b);
}

bg_value bg_subtract(bg_graph *graph, bg_value a, bg_value b)
{
    return bg_elementwise_binary(graph, NULL, BG_SUBTRACT, a, b);
}

bg_value bg_multiply(bg_graph *graph, bg_value a, bg_value b)
{
    return bg_elementwise_binary(graph, NULL, BG_MULTIPLY, a, b);
}

bg_value bg_divide(bg_graph *graph, bg_value a, bg_value b)
{
    return bg_elementwise_binary(graph, NULL, BG_DIVIDE, a, b);
}

/* ---- scale ---- */

static bg_status infer_scale(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_number(&op->types[0], "x", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status derive_scale(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_scale_attributes *attributes = gradient->op.attributes;
    const bg_value dy = gradient->output_gradients[0];

    if (gradient->needs[0])
        gradient->input_gradients[0] =
            attributes->alpha == 1.0 ? dy : bg_scale(gradient->graph, NULL, dy, attributes->alpha, 0.0);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_scale(const bg_op_signature *op)
{
    return bgi_cost_once(op, 2.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_scale = {
    .name = "scale",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_scale_attributes),
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .infer = infer_scale,
    .gradient = derive_scale,
    .cost = cost_scale,
    .kernel = select_scale,
};

bg_value bg_scale(bg_graph *graph, const char *name, bg_value x, double alpha, double beta)
{
    const bgi_scale_attributes attributes = {.alpha = alpha, .beta = beta};

    return bg_graph_add(graph, &bgi_op_scale, name, &x, 1, &attributes, NULL);
}

/* ---- cast ---- */

static bg_status infer_cast(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_dtype dtype = ((const bgi_cast_attributes *)op->attributes)->dtype;

    if (bg_dtype_size_bytes(dtype) == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "element type %d is not one of float32, bfloat16, float16, float64, int32, int64, uint8",
                            (int)dtype);
    outputs[0] = op->types[0];
    outputs[0].dtype = dtype;
    return BG_OK;
}

static bg_status derive_cast(bg_op_gradient *gradient, bg_error *error)
{
    const bg_dtype dtype = ((const bgi_cast_attributes *)gradient->op.attributes)->dtype;

    if (gradient->needs[0] && bg_dtype_is_float(dtype) && bg_dtype_is_float(gradient->op.types[0].dtype))
        gradient->input_gradients[0] =
            bg_cast(gradient->graph, NULL, gradient->output_gradients[0], gradient->op.types[0].dtype);
    return bg_graph_check(gradient->graph, error);
}

const bg_op_type bgi_op_cast = {
    .name = "cast",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_cast_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_cast,
    .gradient = derive_cast,
    .kernel = select_cast,
};

bg_value bg_cast(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype)
{
    const bgi_cast_attributes attributes = {.dtype = dtype};

    if (!bg_value_is_null(x) && bg_graph_type(graph, x).dtype == dtype)
        return x;
    return bg_graph_add(graph, &bgi_op_cast, name, &x, 1, &attributes, NULL);
}

void bgi_promote(bg_graph *graph, bg_value *operands, uint32_t count)
{
    bg_dtype first = BG_DTYPE_NONE;
    bool is_mixed = false;

    for (uint32_t i = 0; i < count; i++) {
        const bg_dtype dtype = bg_value_is_null(operands[i]) ? first : bg_graph_type(graph, operands[i]).dtype;

        first = i == 0 ? dtype : first;
        is_mixed |= dtype != first;
        if (!bgi_dtype_is_single(dtype))
            return;
    }
    for (uint32_t i = 0; is_mixed && i < count; i++)
        if (!bg_value_is_null(operands[i]))
            operands[i] = bg_cast(graph, NULL, operands[i], BG_FLOAT32);
}

/* ---- standardize ---- */

static bg_status infer_standardize(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_standardize_attributes *attributes = op->attributes;

    if (!bg_dtype_is_float(attributes->dtype))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the result is %s; it must be float32, bfloat16, float16 or float64",
                            bg_dtype_name(attributes->dtype));
    if (attributes->divisor == 0.0f || attributes->deviation == 0.0f)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "divisor is %g and deviation is %g: values are divided by both, so neither may be zero",
                            (double)attributes->divisor, (double)attributes->deviation);
    outputs[0] = op->types[0];
    outputs[0].dtype = attributes->dtype;
    return BG_OK;
}

static bg_status derive_standardize(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_standardize_attributes *attributes = gradient->op.attributes;
    const double slope = 1.0 / ((double)attributes->divisor * (double)attributes->deviation);
    const bg_dtype dtype = gradient->op.types[0].dtype;

    if (gradient->needs[0] && bg_dtype_is_float(dtype))
        gradient->input_gradients[0] = bg_scale(
            gradient->graph, NULL, bg_cast(gradient->graph, NULL, gradient->output_gradients[0], dtype), slope, 0.0);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_standardize(const bg_op_signature *op)
{
    return bgi_cost_once(op, 3.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_standardize = {
    .name = "standardize",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_standardize_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_standardize,
    .gradient = derive_standardize,
    .cost = cost_standardize,
    .kernel = select_standardize,
};

bg_value bg_standardize(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype, float divisor, float mean,
                        float deviation)
{
    const bgi_standardize_attributes attributes = {
        .divisor = divisor, .mean = mean, .deviation = deviation, .dtype = dtype};

    return bg_graph_add(graph, &bgi_op_standardize, name, &x, 1, &attributes, NULL);
}
