/*
 * elementwise_body.h: functions of one element, or of two that broadcast. Every kernel walks its part in chunks that
 * fit the first-level cache: what is kept in 16 bits is widened into a buffer and narrowed out of one; float32 is read
 * and written in place. A chunk is read before it is written, so a result may overwrite an operand of its own shape.
 */
#ifndef BGI_CPU_ELEMENTWISE_BODY_H
#define BGI_CPU_ELEMENTWISE_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/math_body.h"

/* The chunk's result goes straight into a float32 output, or into `buffer`, to be narrowed by end_output. */
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

ALWAYS_INLINE vf compute_unary(const bg_unary function, vf x)
{
    vf density;

    switch (function) {
    case BG_RELU:
        return vselect(vgreater(vset(0.0f), x), vset(0.0f), x); /* NaN stays */
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
    case BG_SQRT:
        return vsqrt(x);
    case BG_SQUARE:
        return x * x;
    case BG_NEGATE:
        return -x;
    case BG_ABS:
        return vabs(x);
    default:
        return vset(1.0f) / x;
    }
}

/* dx; `s` is what the function keeps, x or y (attributes.h). */
ALWAYS_INLINE vf compute_unary_backward(const bg_unary function, vf dy, vf s)
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
    default:
        return dy * -(s * s);
    }
}

#define FOR_VECTORS(expression_full, expression_tail)                                                                  \
    int64_t i = 0;                                                                                                     \
    for (; i + LANES <= count; i += LANES)                                                                             \
        vstore(y + i, expression_full);                                                                                \
    if (i < count)                                                                                                     \
    vstore_n(y + i, expression_tail, count - i)

#define UNARY_LOOPS(name, function)                                                                                    \
    static void name##_loop(const float *x, float *y, int64_t count)                                                   \
    {                                                                                                                  \
        FOR_VECTORS(compute_unary(function, vload(x + i)), compute_unary(function, vload_n(x + i, count - i)));        \
    }                                                                                                                  \
    static void name##_backward_loop(const float *dy, const float *s, float *y, int64_t count)                         \
    {                                                                                                                  \
        FOR_VECTORS(compute_unary_backward(function, vload(dy + i), vload(s + i)),                                     \
                    compute_unary_backward(function, vload_n(dy + i, count - i), vload_n(s + i, count - i)));          \
    }

UNARY_LOOPS(relu, BG_RELU)
UNARY_LOOPS(gelu, BG_GELU)
UNARY_LOOPS(gelu_tanh, BG_GELU_TANH)
UNARY_LOOPS(tanh, BG_TANH)
UNARY_LOOPS(sigmoid, BG_SIGMOID)
UNARY_LOOPS(exp, BG_EXP)
UNARY_LOOPS(sqrt, BG_SQRT)
UNARY_LOOPS(square, BG_SQUARE)
UNARY_LOOPS(negate, BG_NEGATE)
UNARY_LOOPS(abs, BG_ABS)
UNARY_LOOPS(reciprocal, BG_RECIPROCAL)

static void log_backward_loop(const float *dy, const float *s, float *y, int64_t count)
{
    FOR_VECTORS(compute_unary_backward(BG_LOG, vload(dy + i), vload(s + i)),
                compute_unary_backward(BG_LOG, vload_n(dy + i, count - i), vload_n(s + i, count - i)));
}

/* Whether the derivative is computed from y (else from x). */
static const struct {
    void (*forward)(const float *x, float *y, int64_t count);
    void (*backward)(const float *dy, const float *s, float *dx, int64_t count);
    bool from_y;
} unary_table[BG_UNARY_COUNT] = {
    [BG_RELU] = {relu_loop, relu_backward_loop, true},
    [BG_GELU] = {gelu_loop, gelu_backward_loop, false},
    [BG_GELU_TANH] = {gelu_tanh_loop, gelu_tanh_backward_loop, false},
    [BG_TANH] = {tanh_loop, tanh_backward_loop, true},
    [BG_SIGMOID] = {sigmoid_loop, sigmoid_backward_loop, true},
    [BG_EXP] = {exp_loop, exp_backward_loop, true},
    [BG_LOG] = {NULL, log_backward_loop, false},
    [BG_SQRT] = {sqrt_loop, sqrt_backward_loop, true},
    [BG_SQUARE] = {square_loop, square_backward_loop, false},
    [BG_NEGATE] = {negate_loop, negate_backward_loop, false},
    [BG_ABS] = {abs_loop, abs_backward_loop, false},
    [BG_RECIPROCAL] = {reciprocal_loop, reciprocal_backward_loop, true},
};

static void run_unary(const bg_kernel_call *call, uint32_t part)
{
    const bg_unary function = ((const bgi_unary_attributes *)call->attributes)->function;
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float in[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        unary_table[function].forward(view_floats(dtype, call->operands[0], i, chunk, in),
                                      begin_output(dtype, call->operands[1], i, out), chunk);
        end_output(dtype, call->operands[1], i, chunk, out);
    }
}

static void run_unary_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_unary function = ((const bgi_unary_attributes *)call->attributes)->function;
    const bg_dtype dtype = call->types[0].dtype;
    const void *source = call->operands[unary_table[function].from_y ? 2 : 1];
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float dy[BGI_ELEMENTWISE_CHUNK], s[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        unary_table[function].backward(view_floats(dtype, call->operands[0], i, chunk, dy),
                                       view_floats(dtype, source, i, chunk, s),
                                       begin_output(dtype, call->operands[3], i, out), chunk);
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
    case BG_MAXIMUM: /* NaN in either operand wins */
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

/* The operand's elements for outputs index..index + count - 1: in place where they lie side by side, else gathered. */
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

/* ---- scale, cast, standardise ---- */

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

static void run_cast(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype from = call->types[0].dtype, to = call->types[1].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float buffer[BGI_ELEMENTWISE_CHUNK];

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

/* A byte has 256 values: each is standardised once, by just the operations the op names. */
static void run_standardise(const bg_kernel_call *call, uint32_t part)
{
    const bgi_standardise_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[1].dtype;
    const uint8_t *x = call->operands[0];
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    float table[256], buffer[BGI_ELEMENTWISE_CHUNK];

    for (int value = 0; value < 256; value++)
        table[value] = ((float)value / attributes->divisor - attributes->mean) / attributes->deviation;
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        float *to = begin_output(dtype, call->operands[1], i, buffer);

        look_up(table, x + i, to, chunk);
        end_output(dtype, call->operands[1], i, chunk, buffer);
    }
}

#endif
