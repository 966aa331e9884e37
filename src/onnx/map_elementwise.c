/*
 * map_elementwise.c: maps functions of single elements, arithmetic, comparisons, logic and casts. Integers narrower
 * than the graph's types are computed in a graph's type and wrapped around to their own range. Unsigned 64-bit
 * integers, which graphs do not have, are compared and divided, but not added.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <math.h>

static bool is_float(bgi_mapper *m, bg_value x)
{
    return bg_dtype_is_float(bgi_map_type(m, x).dtype);
}

static bool needs_float(bgi_mapper *m, bg_value x)
{
    if (bg_value_is_null(x) || is_float(m, x))
        return !bg_value_is_null(x);
    return bgi_map_refuse(m, "its elements are %s but only floats are supported",
                          bgi_onnx_element_name(bgi_map_element(m, 0)));
}

/* ---- functions of one element ---- */

static bool map_unary(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) &&
           bgi_map_out(m, 0, bg_elementwise_unary(m->graph, m->name, (bg_unary)bgi_map_parameter(m), x));
}

static bg_value apply(bgi_mapper *m, bg_unary function, double a, double b, bg_value x)
{
    return bg_elementwise_function(m->graph, m->name, function, a, b, x);
}

static bool map_elu(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) && bgi_map_out(m, 0, apply(m, BG_ELU, bgi_map_real(m, "alpha", 1.0), 0.0, x));
}

static bool map_leaky(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) && bgi_map_out(m, 0, apply(m, BG_LEAKY_RELU, bgi_map_real(m, "alpha", 0.01), 0.0, x));
}

static bool map_hard_sigmoid(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) &&
           bgi_map_out(m, 0,
                       apply(m, BG_HARD_SIGMOID, bgi_map_real(m, "alpha", 0.2f), bgi_map_real(m, "beta", 0.5), x));
}

static bool map_softplus(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) && bgi_map_out(m, 0, apply(m, BG_SOFTPLUS, 1.0, 20.0, x));
}

static bool map_selu(bgi_mapper *m)
{
    const double alpha = bgi_map_real(m, "alpha", 1.67326319217681884765625f);
    const double gamma = bgi_map_real(m, "gamma", 1.05070102214813232421875f);
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) &&
           bgi_map_out(m, 0, bg_scale(m->graph, NULL, apply(m, BG_ELU, alpha, 0.0, x), gamma, 0.0));
}

static bool map_celu(bgi_mapper *m)
{
    const double alpha = bgi_map_real(m, "alpha", 1.0);
    const bg_value x = bgi_map_in(m, 0);

    if (!needs_float(m, x))
        return false;
    if (alpha == 0.0)
        return bgi_map_refuse(m, "attribute `alpha` is 0 but must be another number");
    return bgi_map_out(m, 0,
                       bg_scale(m->graph, NULL,
                                apply(m, BG_ELU, 1.0, 0.0, bg_scale(m->graph, NULL, x, 1.0 / alpha, 0.0)), alpha, 0.0));
}

static bool map_gelu(bgi_mapper *m)
{
    const bool is_tanh = bgi_map_text_is(m, "approximate", "tanh", false);
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) &&
           bgi_map_out(m, 0, bg_elementwise_unary(m->graph, m->name, is_tanh ? BG_GELU_TANH : BG_GELU, x));
}

static bg_value compare_with(bgi_mapper *m, bg_comparison comparison, bg_value x, double value)
{
    return bg_compare(m->graph, NULL, comparison, x, bgi_map_number(m, bgi_map_type(m, x).dtype, value));
}

static bool map_thresholded(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    const bg_dtype dtype = bgi_map_type(m, x).dtype;

    if (!needs_float(m, x))
        return false;
    return bgi_map_out(m, 0,
                       bg_where(m->graph, m->name, compare_with(m, BG_GREATER, x, bgi_map_real(m, "alpha", 1.0)), x,
                                bgi_map_number(m, dtype, 0.0)));
}

static bool map_shrink(bgi_mapper *m)
{
    const double edge = bgi_map_real(m, "lambd", 0.5), bias = bgi_map_real(m, "bias", 0.0);
    const bg_value x = bgi_map_in(m, 0);
    const bg_dtype dtype = bgi_map_type(m, x).dtype;
    bg_value low;

    if (!needs_float(m, x))
        return false;
    low = bg_where(m->graph, NULL, compare_with(m, BG_LESS, x, -edge), bg_scale(m->graph, NULL, x, 1.0, bias),
                   bgi_map_number(m, dtype, 0.0));
    return bgi_map_out(m, 0,
                       bg_where(m->graph, m->name, compare_with(m, BG_GREATER, x, edge),
                                bg_scale(m->graph, NULL, x, 1.0, -bias), low));
}

/* Aligns an operand for broadcasting: before opset 7 its dimensions correspond to those of the other operand from
 * `axis` on. */
static bg_value at_axis(bgi_mapper *m, bg_value a, bg_value b, int64_t axis)
{
    const bg_type type = bgi_map_type(m, a), small = bgi_map_type(m, b);
    int64_t dims[BG_MAX_RANK];
    uint32_t rank;

    if (m->opset > 6 || axis < 0 || axis + small.rank > type.rank || small.rank >= type.rank)
        return b;
    rank = type.rank - (uint32_t)axis;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i < small.rank ? small.dims[i] : 1;
    return bgi_map_reshape(m, b, rank, dims);
}

static bool map_prelu(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    bg_value slope = bgi_map_in(m, 1);

    if (!needs_float(m, x) || bg_value_is_null(slope))
        return false;
    if (bgi_map_type(m, slope).rank == 1 && bgi_map_type(m, slope).dims[0] > 1)
        slope = at_axis(m, x, slope, 1); /* one number for each channel */
    return bgi_map_out(
        m, 0, bg_where(m->graph, m->name, compare_with(m, BG_GREATER, x, 0.0), x, bg_multiply(m->graph, slope, x)));
}

static bool map_is_nan(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return needs_float(m, x) && bgi_map_out_as(m, 0, bg_compare(m->graph, m->name, BG_NOT_EQUAL, x, x), BGI_ONNX_BOOL);
}

static bool map_is_inf(bgi_mapper *m)
{
    const bool above = bgi_map_int(m, "detect_positive", 1) != 0, below = bgi_map_int(m, "detect_negative", 1) != 0;
    const bg_value x = bgi_map_in(m, 0);
    bg_value size;

    if (!needs_float(m, x))
        return false;
    if (!above && !below)
        return bgi_map_refuse(m, "attributes `detect_positive` and `detect_negative` are both 0 but one must be 1");
    size = above && below ? bg_elementwise_unary(m->graph, NULL, BG_ABS, x) : x;
    return bgi_map_out_as(m, 0, compare_with(m, BG_EQUAL, size, above ? (double)INFINITY : -(double)INFINITY),
                          BGI_ONNX_BOOL);
}

/* ---- integers ---- */

/* Returns the number of bits of an element type that is narrower than its type in the graph, otherwise 0. */
static unsigned narrow_bits(int32_t element)
{
    switch (element) {
    case BGI_ONNX_UINT8:
    case BGI_ONNX_INT8:
        return 8;
    case BGI_ONNX_UINT16:
    case BGI_ONNX_INT16:
        return 16;
    case BGI_ONNX_UINT32:
        return 32;
    default:
        return 0;
    }
}

/* Converts to an integer type that supports arithmetic. */
static bg_value widen(bgi_mapper *m, bg_value x)
{
    return bgi_map_type(m, x).dtype == BG_UINT8 ? bg_cast(m->graph, NULL, x, BG_INT32) : x;
}

/* Wraps x around to the range of the element type, and converts it to the type that holds these elements in a graph. */
static bg_value wrap(bgi_mapper *m, bg_value x, int32_t element)
{
    const unsigned bits = narrow_bits(element);
    const bool is_signed = element == BGI_ONNX_INT8 || element == BGI_ONNX_INT16;
    const bg_dtype dtype = bgi_map_type(m, x).dtype;
    const double size = ldexp(1.0, (int)bits);
    bg_value modulus, rest;

    if (bits == 0 || bg_value_is_null(x))
        return x;
    modulus = bgi_map_number(m, dtype, size);
    if (is_signed)
        x = bg_add(m->graph, x, bgi_map_number(m, dtype, size / 2));
    rest = bg_subtract(m->graph, x, bg_multiply(m->graph, bg_divide(m->graph, x, modulus), modulus));
    rest = bg_where(m->graph, NULL, compare_with(m, BG_LESS, rest, 0.0), bg_add(m->graph, rest, modulus), rest);
    if (is_signed)
        rest = bg_subtract(m->graph, rest, bgi_map_number(m, dtype, size / 2));
    return bgi_map_cast(m, rest, bgi_onnx_element_dtype(element));
}

static bg_value zero_of(bgi_mapper *m, bg_value x)
{
    return bgi_map_number(m, bgi_map_type(m, x).dtype, 0.0);
}

/* Maps Neg, Abs, Sign and Relu, which also support integers. */
static bool map_unary_of_any(bgi_mapper *m)
{
    const bg_unary function = (bg_unary)bgi_map_parameter(m);
    bg_value x = bgi_map_in(m, 0), zero, y;

    if (bg_value_is_null(x) || is_float(m, x))
        return map_unary(m);
    x = widen(m, x);
    zero = zero_of(m, x);
    if (function == BG_NEGATE)
        y = bg_subtract(m->graph, zero, x);
    else if (function == BG_ABS)
        y = bg_elementwise_binary(m->graph, m->name, BG_MAXIMUM, x, bg_subtract(m->graph, zero, x));
    else if (function == BG_RELU)
        y = bg_elementwise_binary(m->graph, m->name, BG_MAXIMUM, x, zero);
    else
        y = bg_subtract(m->graph, bgi_map_cast(m, compare_with(m, BG_GREATER, x, 0.0), bgi_map_type(m, x).dtype),
                        bgi_map_cast(m, compare_with(m, BG_LESS, x, 0.0), bgi_map_type(m, x).dtype));
    return bgi_map_out_as(m, 0, wrap(m, y, bgi_map_element(m, 0)), bgi_map_element(m, 0));
}

/* ---- arithmetic ---- */

static bool is_power_of_two(double x)
{
    int exponent;

    return isfinite(x) && fabs(frexp(x, &exponent)) == 0.5;
}

/* Combines x with a known number in one op without a second operand; returns false if there is no such op. */
static bool with_number(bgi_mapper *m, bg_binary function, bg_value *out)
{
    for (uint32_t side = 0; side < 2; side++) {
        const bgi_tensor *known = bgi_map_if_known(m, side), *other = bgi_map_if_known(m, 1 - side);
        bg_value x;
        double c;

        if (known == NULL || known->count != 1 || other != NULL)
            continue;
        x = bgi_map_in(m, 1 - side);
        c = bgi_tensor_real(known, 0);
        if (bg_value_is_null(x) || known->rank > bgi_map_type(m, x).rank || !isfinite(c))
            continue;
        if (function == BG_ADD)
            *out = bg_scale(m->graph, m->name, x, 1.0, c);
        else if (function == BG_MULTIPLY)
            *out = bg_scale(m->graph, m->name, x, c, 0.0);
        else if (function == BG_SUBTRACT)
            *out = bg_scale(m->graph, m->name, x, side == 1 ? 1.0 : -1.0, side == 1 ? -c : c);
        else if (function == BG_DIVIDE && side == 1 && is_power_of_two(c))
            *out = bg_scale(m->graph, m->name, x, 1.0 / c, 0.0);
        else
            continue;
        return true;
    }
    return false;
}

static bool map_binary(bgi_mapper *m)
{
    const bg_binary function = (bg_binary)bgi_map_parameter(m);
    const int32_t element = bgi_map_element(m, 0);
    bg_value a, b, y;

    if (bgi_onnx_element_is_float(element) && with_number(m, function, &y))
        return bgi_map_out(m, 0, y);
    a = bgi_map_in(m, 0);
    b = bgi_map_in(m, 1);
    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes two operands");
    b = at_axis(m, a, b, bgi_map_int(m, "axis", -1));
    if (element == BGI_ONNX_UINT64 && function != BG_DIVIDE)
        return bgi_map_refuse(m, "its uint64 arithmetic may leave the range of int64");
    if (element == BGI_ONNX_BOOL)
        return bgi_map_refuse(m, "arithmetic of bool is not supported");
    if (is_float(m, a))
        return bgi_map_out(m, 0, bg_elementwise_binary(m->graph, m->name, function, a, b));
    y = bg_elementwise_binary(m->graph, m->name, function, widen(m, a), widen(m, b));
    return bgi_map_out_as(m, 0, wrap(m, y, element), element);
}

/* Sum, Mean, Max and Min take any number of operands. */
enum { VARIADIC_MEAN = BG_BINARY_COUNT };

static bool map_variadic(bgi_mapper *m)
{
    const int kind = bgi_map_parameter(m);
    const bg_binary function = kind == VARIADIC_MEAN ? BG_ADD : (bg_binary)kind;
    bg_value y = bgi_map_in(m, 0);

    if (m->input_count == 1)
        return bgi_map_pass(m);
    if (bgi_map_element(m, 0) == BGI_ONNX_UINT64 && function == BG_ADD)
        return bgi_map_refuse(m, "sums of uint64 are not supported");
    y = widen(m, y);
    for (uint32_t i = 1; i < m->input_count; i++) {
        const bg_value x = bgi_map_in(m, i);

        if (bg_value_is_null(x))
            return bgi_map_refuse(m, "input %u is missing", i);
        y = bg_elementwise_binary(m->graph, i + 1 == m->input_count ? m->name : NULL, function, y, widen(m, x));
    }
    if (kind == VARIADIC_MEAN)
        y = bg_scale(m->graph, NULL, y, 1.0 / m->input_count, 0.0);
    return bgi_map_out_as(m, 0, bgi_map_cast(m, y, bgi_onnx_element_dtype(bgi_map_element(m, 0))),
                          bgi_map_element(m, 0));
}

/* Computes x^y in floats for any x, by the logarithm of |x|, with the sign of x for odd y. */
static bg_value general_power(bgi_mapper *m, bg_value x, bg_value y)
{
    const bg_dtype dtype = bgi_map_type(m, x).dtype;
    bg_graph *g = m->graph;
    const bg_value size = bg_elementwise_unary(
        g, m->name, BG_EXP,
        bg_multiply(g, y, bg_elementwise_unary(g, NULL, BG_LOG, bg_elementwise_unary(g, NULL, BG_ABS, x))));
    const bg_value half = bg_scale(g, NULL, y, 0.5, 0.0);
    /* 0 for even y, 1/2 for odd y, otherwise another fraction */
    const bg_value odd = bg_subtract(g, half, bg_elementwise_unary(g, NULL, BG_FLOOR, half));
    const bg_value is_whole = bg_compare(g, NULL, BG_EQUAL, y, bg_elementwise_unary(g, NULL, BG_FLOOR, y));
    const bg_value sign =
        bg_where(g, NULL, is_whole, bg_scale(g, NULL, odd, -4.0, 1.0), bgi_map_number(m, dtype, (double)NAN));
    const bg_value of_negative = bg_multiply(g, size, sign);
    const bg_value result = bg_where(g, NULL, compare_with(m, BG_LESS, x, 0.0), of_negative, size);

    return bg_where(g, NULL, compare_with(m, BG_EQUAL, y, 0.0), bgi_map_number(m, dtype, 1.0), result);
}

static bool map_pow(bgi_mapper *m)
{
    const bgi_tensor *exponent = bgi_map_if_known(m, 1);
    const int32_t element = bgi_map_element(m, 0);
    bg_value x = bgi_map_in(m, 0), y;
    bg_dtype dtype;

    if (bg_value_is_null(x) || !bgi_map_given(m, 1))
        return bgi_map_refuse(m, "it takes two operands");
    dtype = bgi_map_type(m, x).dtype;
    if (bg_dtype_is_float(dtype) && exponent != NULL && exponent->count == 1 &&
        exponent->rank <= bgi_map_type(m, x).rank) {
        const double e = bgi_tensor_real(exponent, 0);

        if (e == 2.0)
            return bgi_map_out(m, 0, bg_elementwise_unary(m->graph, m->name, BG_SQUARE, x));
        if (e == 0.5)
            return bgi_map_out(m, 0, bg_elementwise_unary(m->graph, m->name, BG_SQRT, x));
        if (isfinite(e))
            return bgi_map_out(m, 0, apply(m, BG_POWER, e, 0.0, x));
    }
    y = bgi_map_in(m, 1);
    if (bg_value_is_null(y))
        return false;
    if (!bg_dtype_is_float(dtype)) {
        x = general_power(m, bg_cast(m->graph, NULL, x, BG_FLOAT64), bgi_map_cast(m, y, BG_FLOAT64));
        x = bg_elementwise_unary(m->graph, NULL, is_float(m, y) ? BG_TRUNC : BG_ROUND, x);
        return bgi_map_out_as(m, 0, bg_cast(m->graph, NULL, x, dtype), element);
    }
    return bgi_map_out(m, 0, general_power(m, x, bgi_map_cast(m, y, dtype)));
}

/* Computes the remainder with the sign of the dividend. */
static bg_value remainder_of(bgi_mapper *m, bg_value a, bg_value b)
{
    bg_value quotient = bg_divide(m->graph, a, b);

    if (is_float(m, a))
        quotient = bg_elementwise_unary(m->graph, NULL, BG_TRUNC, quotient);
    return bg_subtract(m->graph, a, bg_multiply(m->graph, quotient, b));
}

static bool map_mod(bgi_mapper *m)
{
    const bool is_c = bgi_map_int(m, "fmod", 0) != 0;
    const int32_t element = bgi_map_element(m, 0);
    bg_value a = bgi_map_in(m, 0), b = bgi_map_in(m, 1), rest, is_off;
    bg_dtype dtype;

    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes two operands");
    dtype = bgi_map_type(m, a).dtype;
    if (dtype == BG_FLOAT64 || (bg_dtype_is_float(dtype) && !is_c))
        return bgi_map_refuse(m, "remainders of %s with fmod %d are not supported", bgi_onnx_element_name(element),
                              is_c);
    if (bg_dtype_is_float(dtype)) { /* exact in the wider type, except for quotients beyond 2^29 */
        rest = remainder_of(m, bg_cast(m->graph, NULL, a, BG_FLOAT64), bg_cast(m->graph, NULL, b, BG_FLOAT64));
        return bgi_map_out(m, 0, bg_cast(m->graph, m->name, rest, dtype));
    }
    a = widen(m, a);
    b = widen(m, b);
    rest = remainder_of(m, a, b);
    if (!is_c) { /* with the sign of the divisor */
        is_off = bg_where(m->graph, NULL, compare_with(m, BG_EQUAL, rest, 0.0), bgi_map_number(m, BG_UINT8, 0.0),
                          bg_compare(m->graph, NULL, BG_NOT_EQUAL, compare_with(m, BG_LESS, rest, 0.0),
                                     compare_with(m, BG_LESS, b, 0.0)));
        rest = bg_where(m->graph, m->name, is_off, bg_add(m->graph, rest, b), rest);
    }
    return bgi_map_out_as(m, 0, bgi_map_cast(m, rest, dtype), element);
}

static bool map_shift(bgi_mapper *m)
{
    const bool is_left = bgi_map_text_is(m, "direction", "LEFT", false);
    const int32_t element = bgi_map_element(m, 0);
    int64_t powers[63];
    bg_value x = bgi_map_in(m, 0), y = bgi_map_in(m, 1), factor;

    if (bg_value_is_null(x) || bg_value_is_null(y))
        return bgi_map_refuse(m, "it takes two operands");
    if (element == BGI_ONNX_UINT64 && is_left)
        return bgi_map_refuse(m, "uint64 shifted to the left may leave the range of int64");
    for (int i = 0; i < 63; i++)
        powers[i] = INT64_C(1) << i;
    factor = bg_gather(m->graph, NULL, bgi_map_ints_constant(m, powers, 63), 0, bgi_map_cast(m, y, BG_INT64));
    if (is_left) {
        /* Bits shifted out of the type are lost; shifts beyond 63 bits are limited first. */
        x = bg_multiply(m->graph, bgi_map_cast(m, x, BG_INT64), factor);
    } else {
        x = bg_divide(m->graph, bgi_map_cast(m, x, BG_INT64), factor);
    }
    x = wrap(m, x, element);
    return bgi_map_out_as(m, 0, bgi_map_cast(m, x, bgi_onnx_element_dtype(element)), element);
}

/* ---- comparisons and logic ---- */

static bool map_compare(bgi_mapper *m)
{
    const bg_value a = bgi_map_in(m, 0);
    bg_value b = bgi_map_in(m, 1);

    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes two operands");
    b = at_axis(m, a, b, bgi_map_int(m, "axis", -1));
    return bgi_map_out_as(m, 0, bg_compare(m->graph, m->name, (bg_comparison)bgi_map_parameter(m), a, b),
                          BGI_ONNX_BOOL);
}

enum { LOGIC_AND, LOGIC_OR, LOGIC_XOR };

static bool map_logic(bgi_mapper *m)
{
    const int function = bgi_map_parameter(m);
    const bg_value a = bgi_map_in(m, 0), b = bgi_map_in(m, 1);
    bg_value y;

    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes two operands");
    if (function == LOGIC_XOR)
        y = bg_compare(m->graph, m->name, BG_NOT_EQUAL, a, b);
    else
        y = bg_where(m->graph, m->name, a, function == LOGIC_AND ? b : a, function == LOGIC_AND ? a : b);
    return bgi_map_out_as(m, 0, y, BGI_ONNX_BOOL);
}

static bool map_not(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);

    return !bg_value_is_null(x) && bgi_map_out_as(m, 0, compare_with(m, BG_EQUAL, x, 0.0), BGI_ONNX_BOOL);
}

static bool map_where(bgi_mapper *m)
{
    const bg_value condition = bgi_map_in(m, 0), a = bgi_map_in(m, 1), b = bgi_map_in(m, 2);

    if (bg_value_is_null(condition) || bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes three operands");
    return bgi_map_out_as(m, 0, bg_where(m->graph, m->name, condition, a, b), bgi_map_element(m, 1));
}

/* ---- bounds ---- */

static bool map_clip(bgi_mapper *m)
{
    const int32_t element = bgi_map_element(m, 0);
    const bgi_tensor *low = bgi_map_if_known(m, 1), *high = bgi_map_if_known(m, 2);
    double bounds[2] = {-(double)INFINITY, (double)INFINITY};
    bg_value x = bgi_map_in(m, 0);
    bool is_known = true;

    if (bg_value_is_null(x))
        return false;
    if (m->opset < 11) {
        bounds[0] = bgi_map_real(m, "min", bounds[0]);
        bounds[1] = bgi_map_real(m, "max", bounds[1]);
    } else {
        is_known = (low != NULL || !bgi_map_given(m, 1)) && (high != NULL || !bgi_map_given(m, 2));
        if ((low != NULL && low->count != 1) || (high != NULL && high->count != 1))
            return bgi_map_refuse(m, "a bound has several elements; it must have one");
        bounds[0] = low != NULL ? bgi_tensor_real(low, 0) : bounds[0];
        bounds[1] = high != NULL ? bgi_tensor_real(high, 0) : bounds[1];
    }
    if (is_float(m, x) && is_known && bounds[0] <= bounds[1])
        return bgi_map_out(m, 0, bg_clamp(m->graph, x, bounds[0], bounds[1]));
    if (m->opset < 11)
        return bgi_map_refuse(
            m, "attributes `min` and `max` are %g and %g; the first must be at most the second, and x must have floats",
            bounds[0], bounds[1]);
    x = widen(m, x);
    for (uint32_t i = 1; i <= 2; i++)
        if (bgi_map_given(m, i))
            x = bg_elementwise_binary(m->graph, m->name, i == 1 ? BG_MAXIMUM : BG_MINIMUM, x,
                                      widen(m, bgi_map_in(m, i)));
    return bgi_map_out_as(m, 0, bgi_map_cast(m, x, bgi_onnx_element_dtype(element)), element);
}

/* ---- casts ---- */

static bool cast_to(bgi_mapper *m, int32_t element)
{
    const bg_dtype dtype = bgi_onnx_element_dtype(element);
    const int32_t from = bgi_map_element(m, 0);
    bg_value x;

    if (dtype == BG_DTYPE_NONE)
        return bgi_map_refuse(m, "a cast to %s is not supported", bgi_onnx_element_name(element));
    if (bgi_map_if_known(m, 0) != NULL && bgi_map_if_known(m, 0)->count == 0) {
        const bgi_tensor *known = bgi_map_if_known(m, 0);

        return bgi_map_out_known(m, 0, bgi_map_make(m, element, known->rank, known->dims));
    }
    x = bgi_map_in(m, 0);
    if (bg_value_is_null(x))
        return false;
    if (element == from)
        return bgi_map_pass(m);
    if (element == BGI_ONNX_BOOL)
        return bgi_map_out_as(m, 0, compare_with(m, BG_NOT_EQUAL, x, 0.0), element);
    if (bgi_onnx_element_is_float(from) &&
        narrow_bits(element) != 0) { /* converts through int64, because the result wraps around */
        x = bg_cast(m->graph, NULL, x, BG_INT64);
        return bgi_map_out_as(m, 0, bgi_map_cast(m, bgi_map_cast(m, wrap(m, x, element), dtype), dtype), element);
    }
    if (!bg_dtype_is_float(dtype) && narrow_bits(element) != 0)
        x = wrap(m, widen(m, x), element);
    return bgi_map_out_as(m, 0, bgi_map_cast(m, x, dtype), element);
}

static bool map_cast(bgi_mapper *m)
{
    return cast_to(m, (int32_t)bgi_map_int(m, "to", 0));
}

static bool map_cast_like(bgi_mapper *m)
{
    return bgi_map_given(m, 1) ? cast_to(m, bgi_map_element(m, 1)) : bgi_map_refuse(m, "it takes two operands");
}

/* ---- ops without effect, or with an effect only in training ---- */

static bool map_identity(bgi_mapper *m)
{
    return bgi_map_pass(m);
}

static bool map_dropout(bgi_mapper *m)
{
    const bg_onnx_mode mode = m->build->options->mode;
    double ratio = bgi_map_real(m, "ratio", 0.5), is_on = 0.0;
    bg_value x, y;

    if (m->opset >= 12) {
        ratio = 0.5;
        if (bgi_map_given(m, 1) && !bgi_map_known_real(m, 1, &ratio))
            return false;
        if (bgi_map_given(m, 2) && !bgi_map_known_real(m, 2, &is_on))
            return false;
    }
    if (mode == BG_ONNX_AS_WRITTEN && is_on != 0.0 && ratio > 0.0)
        return bgi_map_refuse(m, "it drops elements at random in inference");
    x = bgi_map_in(m, 0);
    if (bg_value_is_null(x))
        return false;
    if (bgi_map_wants(m, 1)) {
        const bg_type type = bgi_map_type(m, x);
        bgi_tensor *mask;

        if (mode == BG_ONNX_TRAIN && ratio > 0.0)
            return bgi_map_refuse(m, "output 1, the mask, is used but not supported in training");
        mask = bgi_map_make(m, BGI_ONNX_BOOL, type.rank, type.dims);
        for (int64_t i = 0; mask != NULL && i < mask->count; i++)
            bgi_tensor_set(mask, i, 1.0);
        if (!bgi_map_out_known(m, 1, mask))
            return false;
    }
    if (mode != BG_ONNX_TRAIN || ratio <= 0.0 || m->is_folding)
        return bgi_map_pass(m);
    y = bg_dropout(m->graph, m->name, x, ratio);
    return bgi_map_out(m, 0, y);
}

const bgi_mapping bgi_onnx_elementwise[] = {
    {"Abs", map_unary_of_any, BG_ABS},
    {"Acos", map_unary, BG_ACOS},
    {"Acosh", map_unary, BG_ACOSH},
    {"Add", map_binary, BG_ADD},
    {"And", map_logic, LOGIC_AND},
    {"Asin", map_unary, BG_ASIN},
    {"Asinh", map_unary, BG_ASINH},
    {"Atan", map_unary, BG_ATAN},
    {"Atanh", map_unary, BG_ATANH},
    {"BitShift", map_shift, 0},
    {"Cast", map_cast, 0},
    {"CastLike", map_cast_like, 0},
    {"Ceil", map_unary, BG_CEIL},
    {"Celu", map_celu, 0},
    {"Clip", map_clip, 0},
    {"Cos", map_unary, BG_COS},
    {"Cosh", map_unary, BG_COSH},
    {"Div", map_binary, BG_DIVIDE},
    {"Dropout", map_dropout, 0},
    {"Elu", map_elu, 0},
    {"Equal", map_compare, BG_EQUAL},
    {"Erf", map_unary, BG_ERF},
    {"Exp", map_unary, BG_EXP},
    {"Floor", map_unary, BG_FLOOR},
    {"Gelu", map_gelu, 0},
    {"Greater", map_compare, BG_GREATER},
    {"GreaterOrEqual", map_compare, BG_GREATER_EQUAL},
    {"HardSigmoid", map_hard_sigmoid, 0},
    {"HardSwish", map_unary, BG_HARD_SWISH},
    {"Identity", map_identity, 0},
    {"IsInf", map_is_inf, 0},
    {"IsNaN", map_is_nan, 0},
    {"LeakyRelu", map_leaky, 0},
    {"Less", map_compare, BG_LESS},
    {"LessOrEqual", map_compare, BG_LESS_EQUAL},
    {"Log", map_unary, BG_LOG},
    {"Max", map_variadic, BG_MAXIMUM},
    {"Mean", map_variadic, VARIADIC_MEAN},
    {"Min", map_variadic, BG_MINIMUM},
    {"Mish", map_unary, BG_MISH},
    {"Mod", map_mod, 0},
    {"Mul", map_binary, BG_MULTIPLY},
    {"Neg", map_unary_of_any, BG_NEGATE},
    {"Not", map_not, 0},
    {"Or", map_logic, LOGIC_OR},
    {"PRelu", map_prelu, 0},
    {"Pow", map_pow, 0},
    {"Reciprocal", map_unary, BG_RECIPROCAL},
    {"Relu", map_unary_of_any, BG_RELU},
    {"Round", map_unary, BG_ROUND},
    {"Selu", map_selu, 0},
    {"Shrink", map_shrink, 0},
    {"Sigmoid", map_unary, BG_SIGMOID},
    {"Sign", map_unary_of_any, BG_SIGN},
    {"Sin", map_unary, BG_SIN},
    {"Sinh", map_unary, BG_SINH},
    {"Softplus", map_softplus, 0},
    {"Softsign", map_unary, BG_SOFTSIGN},
    {"Sqrt", map_unary, BG_SQRT},
    {"Sub", map_binary, BG_SUBTRACT},
    {"Sum", map_variadic, BG_ADD},
    {"Tan", map_unary, BG_TAN},
    {"Tanh", map_unary, BG_TANH},
    {"ThresholdedRelu", map_thresholded, 0},
    {"Where", map_where, 0},
    {"Xor", map_logic, LOGIC_XOR},
    {0},
};
