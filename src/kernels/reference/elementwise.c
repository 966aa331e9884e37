/*
 * elementwise.c: functions of one element, or of two that broadcast. Computed in double and rounded once, except
 * STANDARDISE, whose every operation rounds to float32 as torchvision's do.
 */
#include "kernels/attributes.h"
#include "kernels/kernels.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/element.h"

static const double one_over_root_two = 0.70710678118654752440;
static const double root_of_two_over_pi = 0.79788456080286535588;
static const double one_over_root_two_pi = 0.39894228040143267794;
static const double gelu_cubic = 0.044715;

static double compute_unary(bg_unary function, double x)
{
    switch (function) {
    case BG_RELU:
        return x <= 0.0 ? 0.0 : x; /* NaN stays */
    case BG_GELU:
        return 0.5 * x * (1.0 + erf(x * one_over_root_two));
    case BG_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(root_of_two_over_pi * (x + gelu_cubic * x * x * x)));
    case BG_TANH:
        return tanh(x);
    case BG_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
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

/* The derivative, from whichever of x and y is given (attributes.h says which). */
static double derive_unary(bg_unary function, double x, double y)
{
    switch (function) {
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
    default:
        return NAN;
    }
}

void bgi_reference_unary(const bg_kernel_call *call, uint32_t part)
{
    const bg_unary function = ((const bgi_unary_attributes *)call->attributes)->function;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bg_dtype dtype = call->types[0].dtype;

    (void)part;
    for (int64_t i = 0; i < count; i++)
        bgi_store(dtype, call->operands[1], i, compute_unary(function, bgi_load(dtype, call->operands[0], i)));
}

void bgi_reference_unary_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_unary function = ((const bgi_unary_attributes *)call->attributes)->function;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bg_dtype dtype = call->types[0].dtype;

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const double derivative =
            derive_unary(function, bgi_load(dtype, call->operands[1], i), bgi_load(dtype, call->operands[2], i));
        const double dy = bgi_load(dtype, call->operands[0], i);

        /* Where relu is off the gradient is zero whatever dy is, as in PyTorch. */
        bgi_store(dtype, call->operands[3], i, function == BG_RELU && derivative == 0.0 ? 0.0 : dy * derivative);
    }
}

/* NaN in either operand wins, as in PyTorch. */
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

void bgi_reference_binary(const bg_kernel_call *call, uint32_t part)
{
    const bg_binary function = ((const bgi_binary_attributes *)call->attributes)->function;
    const bg_type *a = &call->types[0], *b = &call->types[1], *y = &call->types[2];
    const int64_t count = bg_type_element_count(y);

    (void)part;
    for (int64_t i = 0; i < count; i++)
        bgi_store(y->dtype, call->operands[2], i,
                  compute_binary(function, bgi_load(a->dtype, call->operands[0], bgi_broadcast_index(y, a, i)),
                                 bgi_load(b->dtype, call->operands[1], bgi_broadcast_index(y, b, i))));
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

    (void)part;
    for (int64_t i = 0; i < count; i++)
        bgi_store(call->types[1].dtype, call->operands[1], i, bgi_load(call->types[0].dtype, call->operands[0], i));
}

void bgi_reference_standardise(const bg_kernel_call *call, uint32_t part)
{
    const bgi_standardise_attributes *attributes = call->attributes;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bool in_double = call->types[0].dtype == BG_FLOAT64;

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const double x = bgi_load(call->types[0].dtype, call->operands[0], i);
        const float scaled = (float)x / attributes->divisor;
        const float centred = scaled - attributes->mean;
        const float result = centred / attributes->deviation;
        const double in_full =
            (x / (double)attributes->divisor - (double)attributes->mean) / (double)attributes->deviation;

        bgi_store(call->types[1].dtype, call->operands[1], i, in_double ? in_full : (double)result);
    }
}
