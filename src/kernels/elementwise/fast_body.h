/*
 * fast_body.h: functions of one element, or of two with broadcasting. Every kernel iterates over its part in chunks
 * that fit the first-level cache. 16-bit values are widened to a buffer and narrowed from one; float32 is read and
 * written in place. A chunk is read before it is written, so a result may overwrite an operand of the same shape.
 */
#ifndef BGI_KERNELS_ELEMENTWISE_FAST_BODY_H
#define BGI_KERNELS_ELEMENTWISE_FAST_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/math_body.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/elementwise/fast.h"

/* Returns where to write the chunk's result: in a float32 output itself, otherwise in `buffer`, which end_output
 * narrows. */
static inline float *begin_output(bg_dtype dtype, void *data, int64_t index, float *buffer)
{
    return dtype == BG_FLOAT32 ? (float *)data + index : buffer;
}

static inline void end_output(bg_dtype dtype, void *data, int64_t index, int64_t count, const float *buffer)
{
    if (dtype != BG_FLOAT32)
        narrow(dtype, buffer, count, (uint16_t *)data + index);
}

static inline int64_t clip(int64_t count, int64_t limit)
{
    return count < limit ? count : limit;
}

/* ---- one operand ---- */

/* Limits x to lowest..highest; NaN stays NaN. */
ALWAYS_INLINE vf vclamp(vf x, vf lowest, vf highest)
{
    return vselect(vgreater(lowest, x), lowest, vselect(vgreater(x, highest), highest, x));
}

/* Computes a function of one element; `p` has its parameters, if any. */
ALWAYS_INLINE vf compute_unary(const bg_unary function, vf x, const bgi_unary_attributes *p)
{
    const vf one = vset(1.0f), zero = vset(0.0f);
    vf density;

    switch (function) {
    case BG_RELU:
        return vselect(vgreater(zero, x), zero, x); /* NaN stays */
    case BG_GELU:
        return x * vnormal(x, &density);
    case BG_GELU_TANH: {
        /* (1 + tanh(u)) / 2 is sigmoid(2 u) */
        const vf twice = vset(1.595769122f) * vfma(vset(0.044715f) * x * x, x, x);

        return x * vsigmoid(twice);
    }
    case BG_TANH:
        return vtanh(x);
    case BG_SIGMOID:
        return vsigmoid(x);
    case BG_EXP:
        return vexp(x);
    case BG_LOG:
        return vlog(x);
    case BG_SQRT:
        return vsqrt(x);
    case BG_SQUARE:
        return x * x;
    case BG_NEGATE:
        return -x;
    case BG_ABS:
        return vabs(x);
    case BG_RECIPROCAL:
        return one / x;
    case BG_SILU:
        return x * vsigmoid(x);
    case BG_MISH: {
        /* tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2), which rounds to 1 for large e */
        const vf e = vexp(vmin(x, vset(20.0f))), n = vfma(e, e, e + e);

        return x * (n / (n + vset(2.0f)));
    }
    case BG_SOFTSIGN:
        return x / (one + vabs(x));
    case BG_LOG_SIGMOID:
        return -vsoftplus(-x);
    case BG_HARD_SWISH:
        return x * vclamp(x + vset(3.0f), zero, vset(6.0f)) / vset(6.0f);
    case BG_RSQRT:
        return one / vsqrt(x);
    case BG_LOG1P:
        return vlog1p(x);
    case BG_EXPM1:
        return vexpm1(x);
    case BG_ERF:
        return verf(x);
    case BG_SIGN:
        return vselect(vgreater(x, zero), one, vselect(vgreater(zero, x), -one, zero));
    case BG_ROUND:
        return vround(x);
    case BG_FLOOR:
        return vfloor(x);
    case BG_CEIL:
        return -vfloor(-x);
    case BG_TRUNC:
        return vtrunc(x);
    case BG_SIN:
        return vsin(x, 0);
    case BG_COS:
        return vsin(x, 1);
    case BG_SOFTPLUS: {
        const vf inner = x * vset((float)p->a);

        return vselect(vgreater(inner, vset((float)p->b)), x, vsoftplus(inner) / vset((float)p->a));
    }
    case BG_ELU:
        return vselect(vgreater(x, zero), x, vset((float)p->a) * vexpm1(x));
    case BG_LEAKY_RELU:
        return vselect(vgreater(x, zero), x, vset((float)p->a) * x);
    case BG_HARD_SIGMOID:
        return vclamp(vfma(vset((float)p->a), x, vset((float)p->b)), zero, one);
    default: /* BG_CLAMP */
        return vclamp(x, vset((float)p->a), vset((float)p->b));
    }
}

/* Computes dx; `s` is the operand that the function saves, x or y (attributes.h). */
ALWAYS_INLINE vf compute_unary_backward(const bg_unary function, vf dy, vf s, const bgi_unary_attributes *p)
{
    const vf one = vset(1.0f), zero = vset(0.0f);

    switch (function) {
    case BG_RELU:
        return vselect(vmask_or(vgreater(s, zero), vis_nan(s)), dy, zero);
    case BG_GELU: {
        vf density;
        const vf below = vnormal(s, &density);

        return dy * vfma(s * vset(0.398942280f), density, below);
    }
    case BG_GELU_TANH: {
        const vf square = s * s;
        const vf below = vsigmoid(vset(1.595769122f) * vfma(vset(0.044715f) * square, s, s));
        const vf slope = vset(1.595769122f) * vfma(vset(3.0f * 0.044715f), square, one);

        return dy * vfma(s * slope, below * (one - below), below);
    }
    case BG_TANH:
        return dy * (one - s * s);
    case BG_SIGMOID:
        return dy * (s * (one - s));
    case BG_EXP:
        return dy * s;
    case BG_LOG:
        return dy * (one / s);
    case BG_SQRT:
        return dy * (vset(0.5f) / s);
    case BG_SQUARE:
        return dy * (s + s);
    case BG_NEGATE:
        return -dy;
    case BG_ABS:
        return dy * vselect(vgreater(s, zero), one, vselect(vgreater(zero, s), -one, zero));
    case BG_RECIPROCAL:
        return dy * -(s * s);
    case BG_SILU: {
        const vf below = vsigmoid(s);

        return dy * (below * vfma(s, vsigmoid(-s), one));
    }
    case BG_MISH: {
        /* with n as above, t = n / (n + 2), and 1 - t^2 = 4 (n + 1) / (n + 2)^2 */
        const vf e = vexp(vmin(s, vset(20.0f))), n = vfma(e, e, e + e), under = one / (n + vset(2.0f));
        const vf fall = vset(4.0f) * (n + one) * (under * under);

        return dy * vfma(s * vsigmoid(s), fall, n * under);
    }
    case BG_SOFTSIGN: {
        const vf under = one / (one + vabs(s));

        return dy * (under * under);
    }
    case BG_LOG_SIGMOID:
        return dy * vsigmoid(-s);
    case BG_HARD_SWISH: {
        const vf inside = dy * ((s + vset(1.5f)) / vset(3.0f));

        return vselect(vgreater(vset(-3.0f), s), zero,
                       vselect(vgreater(vset(3.0f), s), inside, vselect(vis_nan(s), s, dy)));
    }
    case BG_RSQRT:
        return dy * (vset(-0.5f) * (s * s * s));
    case BG_LOG1P:
        return dy * (one / (one + s));
    case BG_EXPM1:
        return dy * vexp(s);
    case BG_ERF:
        return dy * (vset(1.12837917f) * vexp(-(s * s)));
    case BG_SIGN:
        return zero;
    case BG_SIN:
        return dy * vsin(s, 1);
    case BG_COS:
        return -dy * vsin(s, 0);
    case BG_SOFTPLUS: {
        const vf inner = s * vset((float)p->a);

        return vselect(vgreater(inner, vset((float)p->b)), dy, dy * vsigmoid(inner));
    }
    case BG_ELU:
        return dy * vselect(vgreater(s, zero), one, vset((float)p->a) * vexp(s));
    case BG_LEAKY_RELU:
        return dy * vselect(vgreater(s, zero), one, vset((float)p->a));
    case BG_HARD_SIGMOID: {
        const vf line = vfma(vset((float)p->a), s, vset((float)p->b));

        return vselect(vmask_and(vgreater(line, zero), vgreater(one, line)), dy * vset((float)p->a), zero);
    }
    default: /* BG_CLAMP; NaN is not inside */
        return vselect(vmask_or(vmask_or(vgreater(vset((float)p->a), s), vgreater(s, vset((float)p->b))), vis_nan(s)),
                       zero, dy);
    }
}

#define FOR_VECTORS(expression_full, expression_tail)                                                                  \
    int64_t i = 0;                                                                                                     \
    for (; i + LANES <= count; i += LANES)                                                                             \
        vstore(y + i, expression_full);                                                                                \
    if (i < count)                                                                                                     \
    vstore_n(y + i, expression_tail, count - i)

#define UNARY_LOOP(name, function)                                                                                     \
    static void name##_loop(const float *x, float *y, int64_t count, const bgi_unary_attributes *p)                    \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        FOR_VECTORS(compute_unary(function, vload(x + i), p), compute_unary(function, vload_n(x + i, count - i), p));  \
    }
#define UNARY_LOOPS(name, function)                                                                                    \
    UNARY_LOOP(name, function)                                                                                         \
    static void name##_backward_loop(const float *dy, const float *s, float *y, int64_t count,                         \
                                     const bgi_unary_attributes *p)                                                    \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        FOR_VECTORS(compute_unary_backward(function, vload(dy + i), vload(s + i), p),                                  \
                    compute_unary_backward(function, vload_n(dy + i, count - i), vload_n(s + i, count - i), p));       \
    }

UNARY_LOOPS(relu, BG_RELU)
UNARY_LOOPS(gelu, BG_GELU)
UNARY_LOOPS(gelu_tanh, BG_GELU_TANH)
UNARY_LOOPS(tanh, BG_TANH)
UNARY_LOOPS(sigmoid, BG_SIGMOID)
UNARY_LOOPS(exp, BG_EXP)
UNARY_LOOPS(log, BG_LOG)
UNARY_LOOPS(sqrt, BG_SQRT)
UNARY_LOOPS(square, BG_SQUARE)
UNARY_LOOPS(negate, BG_NEGATE)
UNARY_LOOPS(abs, BG_ABS)
UNARY_LOOPS(reciprocal, BG_RECIPROCAL)
UNARY_LOOPS(silu, BG_SILU)
UNARY_LOOPS(mish, BG_MISH)
UNARY_LOOPS(softsign, BG_SOFTSIGN)
UNARY_LOOPS(log_sigmoid, BG_LOG_SIGMOID)
UNARY_LOOPS(hard_swish, BG_HARD_SWISH)
UNARY_LOOPS(rsqrt, BG_RSQRT)
UNARY_LOOPS(log1p, BG_LOG1P)
UNARY_LOOPS(expm1, BG_EXPM1)
UNARY_LOOPS(erf, BG_ERF)
UNARY_LOOPS(sign, BG_SIGN)
UNARY_LOOP(round, BG_ROUND)
UNARY_LOOP(floor, BG_FLOOR)
UNARY_LOOP(ceil, BG_CEIL)
UNARY_LOOP(trunc, BG_TRUNC)
UNARY_LOOPS(sin, BG_SIN)
UNARY_LOOPS(cos, BG_COS)
UNARY_LOOPS(softplus, BG_SOFTPLUS)
UNARY_LOOPS(elu, BG_ELU)
UNARY_LOOPS(leaky_relu, BG_LEAKY_RELU)
UNARY_LOOPS(hard_sigmoid, BG_HARD_SIGMOID)
UNARY_LOOPS(clamp, BG_CLAMP)

/* Computes rare functions element by element in double, as in the plain kernel. */
static void scalar_loop(const float *x, float *y, int64_t count, const bgi_unary_attributes *p)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = (float)bgi_unary_value(p, (double)x[i]);
}

static void scalar_backward_loop(const float *dy, const float *s, float *y, int64_t count,
                                 const bgi_unary_attributes *p)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = (float)bgi_unary_gradient(p, (double)dy[i], (double)s[i], (double)s[i]);
}

/* Computes x^e for exponents that have a short form; returns false for others. */
ALWAYS_INLINE bool raise_vector(vf x, double e, vf *out)
{
    if (e == 0.0)
        *out = vset(1.0f);
    else if (e == 1.0)
        *out = x;
    else if (e == 2.0)
        *out = x * x;
    else if (e == 3.0)
        *out = x * x * x;
    else if (e == -1.0)
        *out = vset(1.0f) / x;
    else if (e == -2.0)
        *out = vset(1.0f) / (x * x);
    else
        return false;
    return true;
}

static void power_loop(const float *x, float *y, int64_t count, const bgi_unary_attributes *p)
{
    vf value;

    if (!raise_vector(vset(1.0f), p->a, &value)) {
        scalar_loop(x, y, count, p);
        return;
    }
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t here = clip(count - i, LANES);

        raise_vector(vload_n(x + i, here), p->a, &value);
        vstore_n(y + i, value, here);
    }
}

static void power_backward_loop(const float *dy, const float *s, float *y, int64_t count, const bgi_unary_attributes *p)
{
    vf value;

    if (p->a == 0.0 || !raise_vector(vset(1.0f), p->a - 1.0, &value)) {
        scalar_backward_loop(dy, s, y, count, p);
        return;
    }
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t here = clip(count - i, LANES);
        const vf gradient = vload_n(dy + i, here);

        raise_vector(vload_n(s + i, here), p->a - 1.0, &value);
        value = vset((float)p->a) * value;
        /* where the derivative is 0, so is the gradient, whatever dy is */
        vstore_n(y + i, vselect(vis_zero(value), vset(0.0f), gradient * value), here);
    }
}

/* Functions and their derivatives; bgi_unary_derives_from_output determines whether a derivative is computed from y or
 * from x. */
static const struct {
    void (*forward)(const float *x, float *y, int64_t count, const bgi_unary_attributes *p);
    void (*backward)(const float *dy, const float *s, float *dx, int64_t count, const bgi_unary_attributes *p);
} unary_table[BG_UNARY_COUNT] = {
    [BG_RELU] = {relu_loop, relu_backward_loop},
    [BG_GELU] = {gelu_loop, gelu_backward_loop},
    [BG_GELU_TANH] = {gelu_tanh_loop, gelu_tanh_backward_loop},
    [BG_TANH] = {tanh_loop, tanh_backward_loop},
    [BG_SIGMOID] = {sigmoid_loop, sigmoid_backward_loop},
    [BG_EXP] = {exp_loop, exp_backward_loop},
    [BG_LOG] = {log_loop, log_backward_loop},
    [BG_SQRT] = {sqrt_loop, sqrt_backward_loop},
    [BG_SQUARE] = {square_loop, square_backward_loop},
    [BG_NEGATE] = {negate_loop, negate_backward_loop},
    [BG_ABS] = {abs_loop, abs_backward_loop},
    [BG_RECIPROCAL] = {reciprocal_loop, reciprocal_backward_loop},
    [BG_SILU] = {silu_loop, silu_backward_loop},
    [BG_MISH] = {mish_loop, mish_backward_loop},
    [BG_SOFTSIGN] = {softsign_loop, softsign_backward_loop},
    [BG_LOG_SIGMOID] = {log_sigmoid_loop, log_sigmoid_backward_loop},
    [BG_HARD_SWISH] = {hard_swish_loop, hard_swish_backward_loop},
    [BG_RSQRT] = {rsqrt_loop, rsqrt_backward_loop},
    [BG_LOG1P] = {log1p_loop, log1p_backward_loop},
    [BG_EXPM1] = {expm1_loop, expm1_backward_loop},
    [BG_ERF] = {erf_loop, erf_backward_loop},
    [BG_SIGN] = {sign_loop, sign_backward_loop},
    [BG_ROUND] = {round_loop, sign_backward_loop},
    [BG_FLOOR] = {floor_loop, sign_backward_loop},
    [BG_CEIL] = {ceil_loop, sign_backward_loop},
    [BG_TRUNC] = {trunc_loop, sign_backward_loop},
    [BG_SIN] = {sin_loop, sin_backward_loop},
    [BG_COS] = {cos_loop, cos_backward_loop},
    [BG_SOFTPLUS] = {softplus_loop, softplus_backward_loop},
    [BG_ELU] = {elu_loop, elu_backward_loop},
    [BG_LEAKY_RELU] = {leaky_relu_loop, leaky_relu_backward_loop},
    [BG_HARD_SIGMOID] = {hard_sigmoid_loop, hard_sigmoid_backward_loop},
    [BG_CLAMP] = {clamp_loop, clamp_backward_loop},
    [BG_TAN] = {scalar_loop, scalar_backward_loop},
    [BG_ASIN] = {scalar_loop, scalar_backward_loop},
    [BG_ACOS] = {scalar_loop, scalar_backward_loop},
    [BG_ATAN] = {scalar_loop, scalar_backward_loop},
    [BG_SINH] = {scalar_loop, scalar_backward_loop},
    [BG_COSH] = {scalar_loop, scalar_backward_loop},
    [BG_ASINH] = {scalar_loop, scalar_backward_loop},
    [BG_ACOSH] = {scalar_loop, scalar_backward_loop},
    [BG_ATANH] = {scalar_loop, scalar_backward_loop},
    [BG_POWER] = {power_loop, power_backward_loop},
};

static void run_unary(const bg_kernel_call *call, uint32_t part)
{
    const bgi_unary_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float in[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        unary_table[attributes->function].forward(view_floats(dtype, call->operands[0], i, chunk, in),
                                                  begin_output(dtype, call->operands[1], i, out), chunk, attributes);
        end_output(dtype, call->operands[1], i, chunk, out);
    }
}

static void run_unary_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_unary_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[0].dtype;
    const void *source = call->operands[bgi_unary_derives_from_output(attributes->function) ? 2 : 1];
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float dy[BGI_ELEMENTWISE_CHUNK], s[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        unary_table[attributes->function].backward(view_floats(dtype, call->operands[0], i, chunk, dy),
                                                   view_floats(dtype, source, i, chunk, s),
                                                   begin_output(dtype, call->operands[3], i, out), chunk, attributes);
        end_output(dtype, call->operands[3], i, chunk, out);
    }
}

/* ---- two operands ---- */

ALWAYS_INLINE vf compute_binary(const bg_binary function, vf a, vf b)
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
    case BG_MAXIMUM: /* NaN in either operand gives NaN */
        return vselect(vmask_or(vgreater(a, b), vis_nan(a)), a, b);
    default:
        return vselect(vmask_or(vgreater(b, a), vis_nan(a)), a, b);
    }
}

#define BINARY_LOOP(name, function)                                                                                    \
    static void name##_loop(const float *a, const float *b, float *y, int64_t count)                                   \
    {                                                                                                                  \
        FOR_VECTORS(compute_binary(function, vload(a + i), vload(b + i)),                                              \
                    compute_binary(function, vload_n(a + i, count - i), vload_n(b + i, count - i)));                   \
    }

BINARY_LOOP(add, BG_ADD)
BINARY_LOOP(subtract, BG_SUBTRACT)
BINARY_LOOP(multiply, BG_MULTIPLY)
BINARY_LOOP(divide, BG_DIVIDE)
BINARY_LOOP(maximum, BG_MAXIMUM)
BINARY_LOOP(minimum, BG_MINIMUM)

static void (*const binary_table[BG_BINARY_COUNT])(const float *a, const float *b, float *y, int64_t count) = {
    [BG_ADD] = add_loop,       [BG_SUBTRACT] = subtract_loop, [BG_MULTIPLY] = multiply_loop,
    [BG_DIVIDE] = divide_loop, [BG_MAXIMUM] = maximum_loop,   [BG_MINIMUM] = minimum_loop};

/* Returns the operand's elements for outputs index..index + count - 1: in place if they are adjacent, otherwise
 * gathered in a buffer. */
static const float *view_broadcast(bg_dtype dtype, const void *data, bgi_broadcast_view view, int64_t index,
                                   int64_t count, float *buffer)
{
    int64_t at = index / view.run % view.count, left = view.run - index % view.run;

    if (view.run == 1 && at + count <= view.count)
        return view_floats(dtype, data, at, count, buffer);
    for (int64_t i = 0; i < count;) {
        if (view.run == 1) {
            const int64_t run = clip(count - i, view.count - at);

            read_floats(dtype, data, at, run, buffer + i);
            i += run;
            at = 0;
        } else {
            const int64_t run = clip(count - i, left);
            float value;

            read_floats(dtype, data, at, 1, &value);
            for (int64_t e = 0; e < run; e++)
                buffer[i + e] = value;
            i += run;
            left = view.run;
            at = at + 1 == view.count ? 0 : at + 1;
        }
    }
    return buffer;
}

static void run_binary(const bg_kernel_call *call, uint32_t part)
{
    const bg_binary function = ((const bgi_binary_attributes *)call->attributes)->function;
    const bg_type *type = &call->types[2];
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view a = {1, 1}, b = {1, 1};
    float in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    bgi_broadcast_view_make(type, &call->types[0], &a);
    bgi_broadcast_view_make(type, &call->types[1], &b);
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        binary_table[function](view_broadcast(type->dtype, call->operands[0], a, i, chunk, in_a),
                               view_broadcast(type->dtype, call->operands[1], b, i, chunk, in_b),
                               begin_output(type->dtype, call->operands[2], i, out), chunk);
        end_output(type->dtype, call->operands[2], i, chunk, out);
    }
}

/* Gives dy where a wins over b or an operand is NaN, half of dy where a and b are equal, and otherwise 0. With `sign`
 * -1 the smaller one wins. */
static void select_loop(const float *dy, const float *a, const float *b, float sign, float *da, int64_t count)
{
    const vf zero = vset(0.0f), half = vset(0.5f), which = vset(sign);

    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t live = clip(count - i, LANES);
        const vf gradient = vload_n(dy + i, live), left = vload_n(a + i, live) * which,
                 right = vload_n(b + i, live) * which;
        const vf tied = vselect(vmask_or(vgreater(left, right), vmask_or(vis_nan(left), vis_nan(right))), gradient,
                                half * gradient);

        vstore_n(da + i, vselect(vgreater(right, left), zero, tied), live);
    }
}

static void run_select_gradient(const bg_kernel_call *call, uint32_t part)
{
    const bg_binary function = ((const bgi_binary_attributes *)call->attributes)->function;
    const bg_type *type = &call->types[0];
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view a = {1, 1}, b = {1, 1};
    float in_dy[BGI_ELEMENTWISE_CHUNK], in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK];

    bgi_broadcast_view_make(type, &call->types[1], &a);
    bgi_broadcast_view_make(type, &call->types[2], &b);
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        select_loop(view_floats(type->dtype, call->operands[0], i, chunk, in_dy),
                    view_broadcast(type->dtype, call->operands[1], a, i, chunk, in_a),
                    view_broadcast(type->dtype, call->operands[2], b, i, chunk, in_b),
                    function == BG_MAXIMUM ? 1.0f : -1.0f, begin_output(type->dtype, call->operands[3], i, in_dy),
                    chunk);
        end_output(type->dtype, call->operands[3], i, chunk, in_dy);
    }
}

/* ---- scale, cast, standardize ---- */

static void scale_loop(const float *x, vf alpha, vf beta, float *y, int64_t count)
{
    FOR_VECTORS(vfma(alpha, vload(x + i), beta), vfma(alpha, vload_n(x + i, count - i), beta));
}

static void run_scale(const bg_kernel_call *call, uint32_t part)
{
    const bgi_scale_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float in[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        scale_loop(view_floats(dtype, call->operands[0], i, chunk, in), vset((float)attributes->alpha),
                   vset((float)attributes->beta), begin_output(dtype, call->operands[1], i, out), chunk);
        end_output(dtype, call->operands[1], i, chunk, out);
    }
}

/* Casts integers to integers; a value that does not fit saturates. */
#define CAST_INTEGERS(name, source, target, lowest, highest)                                                           \
    static void name(const void *x, int64_t first, int64_t end, void *y)                                               \
    {                                                                                                                  \
        const source *from = x;                                                                                        \
        target *to = y;                                                                                                \
                                                                                                                       \
        for (int64_t i = first; i < end; i++)                                                                          \
            to[i] = from[i] < (lowest) ? (target)(lowest) : from[i] > (highest) ? (target)(highest) : (target)from[i]; \
    }

CAST_INTEGERS(cast_int32_uint8, int32_t, uint8_t, 0, 255)
CAST_INTEGERS(cast_int64_uint8, int64_t, uint8_t, 0, 255)
CAST_INTEGERS(cast_int64_int32, int64_t, int32_t, INT32_MIN, INT32_MAX)

#define WIDEN_INTEGERS(name, source, target)                                                                           \
    static void name(const void *x, int64_t first, int64_t end, void *y)                                               \
    {                                                                                                                  \
        const source *from = x;                                                                                        \
        target *to = y;                                                                                                \
                                                                                                                       \
        for (int64_t i = first; i < end; i++)                                                                          \
            to[i] = (target)from[i];                                                                                   \
    }

WIDEN_INTEGERS(cast_uint8, uint8_t, uint8_t)
WIDEN_INTEGERS(cast_int32, int32_t, int32_t)
WIDEN_INTEGERS(cast_int64, int64_t, int64_t)
WIDEN_INTEGERS(cast_uint8_int32, uint8_t, int32_t)
WIDEN_INTEGERS(cast_uint8_int64, uint8_t, int64_t)
WIDEN_INTEGERS(cast_int32_int64, int32_t, int64_t)
WIDEN_INTEGERS(cast_int64_float32, int64_t, float)

/* Casts between integers, and from int64 to float32; returns false for other casts, which go through floats. */
static bool cast_integers(bg_dtype from, bg_dtype to, const void *x, int64_t first, int64_t end, void *y)
{
    static const struct {
        bg_dtype from, to;
        void (*cast)(const void *x, int64_t first, int64_t end, void *y);
    } casts[] = {{BG_UINT8, BG_UINT8, cast_uint8},       {BG_UINT8, BG_INT32, cast_uint8_int32},
                 {BG_UINT8, BG_INT64, cast_uint8_int64}, {BG_INT32, BG_UINT8, cast_int32_uint8},
                 {BG_INT32, BG_INT32, cast_int32},       {BG_INT32, BG_INT64, cast_int32_int64},
                 {BG_INT64, BG_UINT8, cast_int64_uint8}, {BG_INT64, BG_INT32, cast_int64_int32},
                 {BG_INT64, BG_INT64, cast_int64},       {BG_INT64, BG_FLOAT32, cast_int64_float32}};

    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        if (casts[i].from == from && casts[i].to == to) {
            casts[i].cast(x, first, end, y);
            return true;
        }
    return false;
}

static void run_cast(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype from = call->types[0].dtype, to = call->types[1].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float buffer[BGI_ELEMENTWISE_CHUNK];

    if (cast_integers(from, to, call->operands[0], bgi_elementwise_start(count, part), end, call->operands[1]))
        return;

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        if (from == BG_UINT8)
            for (int64_t e = 0; e < chunk; e++)
                buffer[e] = (float)((const uint8_t *)call->operands[0])[i + e];
        else if (from == BG_INT32)
            for (int64_t e = 0; e < chunk; e++)
                buffer[e] = (float)((const int32_t *)call->operands[0])[i + e];
        else
            read_floats(from, call->operands[0], i, chunk, buffer);
        write_floats(to, call->operands[1], i, chunk, buffer);
    }
}

static void look_up(const float *table, const uint8_t *x, float *y, int64_t count)
{
    int64_t i = 0;

#if LANES == 16
    for (; i + LANES <= count; i += LANES) {
        const __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)(x + i)));

        _mm512_storeu_ps(y + i, _mm512_i32gather_ps(index, table, 4));
    }
#endif
    for (; i < count; i++)
        y[i] = table[x[i]];
}

static void standardize_loop(const float *x, const bgi_standardize_attributes *a, float *y, int64_t count)
{
    const vf divisor = vset(a->divisor), mean = vset(a->mean), deviation = vset(a->deviation);

    FOR_VECTORS((vload(x + i) / divisor - mean) / deviation, (vload_n(x + i, count - i) / divisor - mean) / deviation);
}

/* Standardizes a part. For bytes, each of the 256 values is standardized once, by exactly the op's operations, and
 * elements are looked up. */
static void run_standardize(const bg_kernel_call *call, uint32_t part)
{
    const bgi_standardize_attributes *attributes = call->attributes;
    const bg_dtype from = call->types[0].dtype, dtype = call->types[1].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float table[256], in[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int value = 0; from == BG_UINT8 && value < 256; value++)
        table[value] = ((float)value / attributes->divisor - attributes->mean) / attributes->deviation;
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        float *to = begin_output(dtype, call->operands[1], i, out);

        if (from == BG_UINT8)
            look_up(table, (const uint8_t *)call->operands[0] + i, to, chunk);
        else
            standardize_loop(view_floats(from, call->operands[0], i, chunk, in), attributes, to, chunk);
        end_output(dtype, call->operands[1], i, chunk, out);
    }
}

#endif
