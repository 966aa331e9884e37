/*
 * reference.c: functions of one element, or of two that broadcast. Floats are computed in double and rounded once,
 * except in STANDARDIZE of a type other than float64, which rounds every operation to float32, as torchvision does.
 * BINARY uses integer arithmetic for integers.
 */
#include "kernels/elementwise/attributes.h"
#include "kernels/elementwise/fast.h"
#include "kernels/kernels.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/element.h"

static const double one_over_root_two = 0.70710678118654752440;
static const double root_of_two_over_pi = 0.79788456080286535588;
static const double one_over_root_two_pi = 0.39894228040143267794;
static const double two_over_root_pi = 1.12837916709551257390;
static const double gelu_cubic = 0.044715;

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Returns log(1 + e^x). */
static double softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

/* Limits x to lowest..highest; NaN stays NaN. */
static double clamp(double x, double lowest, double highest)
{
    return x < lowest ? lowest : x > highest ? highest : x;
}

double bgi_unary_value(const bgi_unary_attributes *attributes, double x)
{
    const double a = attributes->a, b = attributes->b;

    switch (attributes->function) {
    case BG_RELU:
        return x <= 0.0 ? 0.0 : x; /* NaN stays */
    case BG_GELU:
        return 0.5 * x * (1.0 + erf(x * one_over_root_two));
    case BG_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(root_of_two_over_pi * (x + gelu_cubic * x * x * x)));
    case BG_TANH:
        return tanh(x);
    case BG_SIGMOID:
        return sigmoid(x);
    case BG_EXP:
        return exp(x);
    case BG_LOG:
        return log(x);
    case BG_SQRT:
        return sqrt(x);
    case BG_SQUARE:
        return x * x;
    case BG_NEGATE:
        return -x;
    case BG_ABS:
        return fabs(x);
    case BG_RECIPROCAL:
        return 1.0 / x;
    case BG_SILU:
        return x * sigmoid(x);
    case BG_MISH:
        return x * tanh(softplus(x));
    case BG_SOFTSIGN:
        return x / (1.0 + fabs(x));
    case BG_LOG_SIGMOID:
        return -softplus(-x);
    case BG_HARD_SWISH:
        return x * clamp(x / 6.0 + 0.5, 0.0, 1.0);
    case BG_RSQRT:
        return 1.0 / sqrt(x);
    case BG_LOG1P:
        return log1p(x);
    case BG_EXPM1:
        return expm1(x);
    case BG_ERF:
        return erf(x);
    case BG_SIGN:
        return (x > 0.0) - (x < 0.0);
    case BG_ROUND:
        return rint(x);
    case BG_FLOOR:
        return floor(x);
    case BG_CEIL:
        return ceil(x);
    case BG_TRUNC:
        return trunc(x);
    case BG_SIN:
        return sin(x);
    case BG_COS:
        return cos(x);
    case BG_TAN:
        return tan(x);
    case BG_ASIN:
        return asin(x);
    case BG_ACOS:
        return acos(x);
    case BG_ATAN:
        return atan(x);
    case BG_SINH:
        return sinh(x);
    case BG_COSH:
        return cosh(x);
    case BG_ASINH:
        return asinh(x);
    case BG_ACOSH:
        return acosh(x);
    case BG_ATANH:
        return atanh(x);
    case BG_SOFTPLUS:
        return a * x > b ? x : softplus(a * x) / a;
    case BG_ELU:
        return x > 0.0 ? x : a * expm1(x);
    case BG_LEAKY_RELU:
        return x > 0.0 ? x : a * x;
    case BG_HARD_SIGMOID:
        return clamp(a * x + b, 0.0, 1.0);
    case BG_CLAMP:
        return clamp(x, a, b);
    case BG_POWER:
        return pow(x, a);
    default:
        return NAN;
    }
}

static double derive_gelu_tanh(double x)
{
    const double inner = root_of_two_over_pi * (x + gelu_cubic * x * x * x);
    const double t = tanh(inner);

    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root_of_two_over_pi * (1.0 + 3.0 * gelu_cubic * x * x);
}

static double derive_mish(double x)
{
    const double t = tanh(softplus(x));

    return t + x * sigmoid(x) * (1.0 - t * t);
}

/* Returns the derivative at x or y; bgi_unary_derives_from_output determines which of them is used. */
static double derive_unary(const bgi_unary_attributes *attributes, double x, double y)
{
    const double a = attributes->a, b = attributes->b;

    switch (attributes->function) {
    case BG_RELU:
        return y <= 0.0 ? 0.0 : 1.0;
    case BG_GELU:
        return 0.5 * (1.0 + erf(x * one_over_root_two)) + x * one_over_root_two_pi * exp(-0.5 * x * x);
    case BG_GELU_TANH:
        return derive_gelu_tanh(x);
    case BG_TANH:
        return 1.0 - y * y;
    case BG_SIGMOID:
        return y * (1.0 - y);
    case BG_EXP:
        return y;
    case BG_LOG:
        return 1.0 / x;
    case BG_SQRT:
        return 0.5 / y;
    case BG_SQUARE:
        return 2.0 * x;
    case BG_NEGATE:
        return -1.0;
    case BG_ABS:
        return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0;
    case BG_RECIPROCAL:
        return -y * y;
    case BG_SILU:
        return sigmoid(x) * (1.0 + x * sigmoid(-x));
    case BG_MISH:
        return derive_mish(x);
    case BG_SOFTSIGN:
        return 1.0 / ((1.0 + fabs(x)) * (1.0 + fabs(x)));
    case BG_LOG_SIGMOID:
        return sigmoid(-x);
    case BG_HARD_SWISH:
        return x < -3.0 ? 0.0 : x < 3.0 ? x / 3.0 + 0.5 : 1.0;
    case BG_RSQRT:
        return -0.5 * y * y * y;
    case BG_LOG1P:
        return 1.0 / (1.0 + x);
    case BG_EXPM1:
        return exp(x);
    case BG_ERF:
        return two_over_root_pi * exp(-x * x);
    case BG_SIGN:
    case BG_ROUND:
    case BG_FLOOR:
    case BG_CEIL:
    case BG_TRUNC:
        return 0.0;
    case BG_SIN:
        return cos(x);
    case BG_COS:
        return -sin(x);
    case BG_TAN:
        return 1.0 + y * y;
    case BG_ASIN:
        return 1.0 / sqrt(1.0 - x * x);
    case BG_ACOS:
        return -1.0 / sqrt(1.0 - x * x);
    case BG_ATAN:
        return 1.0 / (1.0 + x * x);
    case BG_SINH:
        return cosh(x);
    case BG_COSH:
        return sinh(x);
    case BG_ASINH:
        return 1.0 / sqrt(x * x + 1.0);
    case BG_ACOSH:
        return 1.0 / sqrt(x * x - 1.0);
    case BG_ATANH:
        return 1.0 / (1.0 - x * x);
    case BG_SOFTPLUS:
        return a * x > b ? 1.0 : sigmoid(a * x);
    case BG_ELU:
        return x > 0.0 ? 1.0 : a * exp(x);
    case BG_LEAKY_RELU:
        return x > 0.0 ? 1.0 : a;
    case BG_HARD_SIGMOID:
        return a * x + b > 0.0 && a * x + b < 1.0 ? a : 0.0;
    case BG_CLAMP:
        return x >= a && x <= b ? 1.0 : 0.0;
    case BG_POWER:
        return a == 0.0 ? 0.0 : a * pow(x, a - 1.0);
    default:
        return NAN;
    }
}

double bgi_unary_gradient(const bgi_unary_attributes *attributes, double dy, double x, double y)
{
    const double derivative = derive_unary(attributes, x, y);

    /* Where a function is constant by definition, and not by underflow, the gradient is zero for any dy, as in
     * PyTorch. */
    switch (attributes->function) {
    case BG_RELU:
    case BG_HARD_SWISH:
    case BG_SIGN:
    case BG_ROUND:
    case BG_FLOOR:
    case BG_CEIL:
    case BG_TRUNC:
    case BG_HARD_SIGMOID:
    case BG_CLAMP:
    case BG_POWER:
        return derivative == 0.0 ? 0.0 : dy * derivative;
    default:
        return dy * derivative;
    }
}

void bgi_reference_unary(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bg_dtype dtype = call->types[0].dtype;

    (void)part;
    for (int64_t i = 0; i < count; i++)
        bgi_store(dtype, call->operands[1], i,
                  bgi_unary_value(call->attributes, bgi_load(dtype, call->operands[0], i)));
}

void bgi_reference_unary_backward(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bg_dtype dtype = call->types[0].dtype;

    (void)part;
    for (int64_t i = 0; i < count; i++)
        bgi_store(dtype, call->operands[3], i,
                  bgi_unary_gradient(call->attributes, bgi_load(dtype, call->operands[0], i),
                                     bgi_load(dtype, call->operands[1], i), bgi_load(dtype, call->operands[2], i)));
}

/* Computes a function of two elements; for maximum and minimum, NaN in either operand gives NaN, as in PyTorch. */
static double compute_binary(bg_binary function, double a, double b)
{
    switch (function) {
    case BG_ADD:
        return a + b;
    case BG_SUBTRACT:
        return a - b;
    case BG_MULTIPLY:
        return a * b;
    case BG_DIVIDE:
        return a / b;
    case BG_MAXIMUM:
        return a != a || a > b ? a : b;
    case BG_MINIMUM:
        return a != a || a < b ? a : b;
    default:
        return NAN;
    }
}

/* Computes in unsigned integers, so that overflow wraps around. The low 32 bits are the result of int32. */
static uint64_t compute_integers(bg_binary function, int64_t a, int64_t b)
{
    switch (function) {
    case BG_ADD:
        return (uint64_t)a + (uint64_t)b;
    case BG_SUBTRACT:
        return (uint64_t)a - (uint64_t)b;
    case BG_MULTIPLY:
        return (uint64_t)a * (uint64_t)b;
    case BG_DIVIDE: /* C does not define division by 0, nor division of the smallest number by -1 */
        return b == 0 ? 0 : b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b);
    case BG_MAXIMUM:
        return (uint64_t)(a > b ? a : b);
    default:
        return (uint64_t)(a < b ? a : b);
    }
}

void bgi_reference_binary(const bg_kernel_call *call, uint32_t part)
{
    const bg_binary function = ((const bgi_binary_attributes *)call->attributes)->function;
    const bg_type *a = &call->types[0], *b = &call->types[1], *y = &call->types[2];
    const int64_t count = bg_type_element_count(y);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at_a = bgi_broadcast_index(y, a, i), at_b = bgi_broadcast_index(y, b, i);

        if (bg_dtype_is_float(y->dtype))
            bgi_store(y->dtype, call->operands[2], i,
                      compute_binary(function, bgi_load(a->dtype, call->operands[0], at_a),
                                     bgi_load(b->dtype, call->operands[1], at_b)));
        else
            bgi_store_bits(y->dtype, call->operands[2], i,
                           compute_integers(function, bgi_load_integer(a->dtype, call->operands[0], at_a),
                                            bgi_load_integer(b->dtype, call->operands[1], at_b)));
    }
}

void bgi_reference_select_gradient(const bg_kernel_call *call, uint32_t part)
{
    const bg_binary function = ((const bgi_binary_attributes *)call->attributes)->function;
    const bg_type *dy = &call->types[0], *a = &call->types[1], *b = &call->types[2];
    const int64_t count = bg_type_element_count(dy);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const double at_a = bgi_load(a->dtype, call->operands[1], bgi_broadcast_index(dy, a, i));
        const double at_b = bgi_load(b->dtype, call->operands[2], bgi_broadcast_index(dy, b, i));
        const double gradient = bgi_load(dy->dtype, call->operands[0], i);
        const bool loses = function == BG_MAXIMUM ? at_a < at_b : at_a > at_b;

        bgi_store(dy->dtype, call->operands[3], i, loses ? 0.0 : at_a == at_b ? 0.5 * gradient : gradient);
    }
}

void bgi_reference_scale(const bg_kernel_call *call, uint32_t part)
{
    const bgi_scale_attributes *attributes = call->attributes;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bg_dtype dtype = call->types[0].dtype;

    (void)part;
    for (int64_t i = 0; i < count; i++)
        bgi_store(dtype, call->operands[1], i,
                  attributes->alpha * bgi_load(dtype, call->operands[0], i) + attributes->beta);
}

void bgi_reference_cast(const bg_kernel_call *call, uint32_t part)
{
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bg_dtype from = call->types[0].dtype, to = call->types[1].dtype;

    (void)part;
    for (int64_t i = 0; i < count; i++)
        if (from == BG_INT64 && to == BG_FLOAT32) /* a conversion through double would round twice */
            ((float *)call->operands[1])[i] = (float)((const int64_t *)call->operands[0])[i];
        else
            bgi_store(to, call->operands[1], i, bgi_load(from, call->operands[0], i));
}

void bgi_reference_standardize(const bg_kernel_call *call, uint32_t part)
{
    const bgi_standardize_attributes *attributes = call->attributes;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bool in_double = call->types[0].dtype == BG_FLOAT64;

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const double x = bgi_load(call->types[0].dtype, call->operands[0], i);
        const float scaled = (float)x / attributes->divisor;
        const float centered = scaled - attributes->mean;
        const float result = centered / attributes->deviation;
        const double in_full =
            (x / (double)attributes->divisor - (double)attributes->mean) / (double)attributes->deviation;

        bgi_store(call->types[1].dtype, call->operands[1], i, in_double ? in_full : (double)result);
    }
}
