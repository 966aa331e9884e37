/*
 * fast_body.h: losses element by element over vectors, in chunks that fit the first-level cache. Sums are doubles: each
 * part stores its sum in scratch, and these sums are added in order.
 */
#ifndef BGI_KERNELS_POINTWISE_LOSS_FAST_BODY_H
#define BGI_KERNELS_POINTWISE_LOSS_FAST_BODY_H

#include "kernels/elementwise/fast_body.h"
#include "kernels/pointwise_loss/attributes.h"

/* PyTorch's lower bound for logarithms of probabilities. */
#define LOWEST_LOGARITHM (-100.0f)
#define LEAST_VARIANCE   1e-12f

ALWAYS_INLINE vf vbounded(vf logarithm)
{
    return vselect(vgreater(vset(LOWEST_LOGARITHM), logarithm), vset(LOWEST_LOGARITHM), logarithm); /* NaN stays */
}

/* Returns 1 or -1 by x's sign; zero and NaN are unchanged. */
ALWAYS_INLINE vf vsign(vf x)
{
    const vf zero = vset(0.0f), one = vset(1.0f);

    return vselect(vgreater(x, zero), one, vselect(vgreater(zero, x), -one, x));
}

/* Gives `value` where t is above 0, 0 where t is 0, and NaN elsewhere. */
ALWAYS_INLINE vf vwhere_probable(vf t, vf value)
{
    return vselect(vgreater(t, vset(0.0f)), value, vselect(vis_zero(t), vset(0.0f), vset(NAN)));
}

ALWAYS_INLINE vf pointwise_value(const bg_pointwise_loss_function function, vf a, vf p, vf t)
{
    const vf d = p - t, size = vabs(d), one = vset(1.0f), half = vset(0.5f);

    switch (function) {
    case BG_LOSS_SQUARED:
        return d * d;
    case BG_LOSS_ABSOLUTE:
        return size;
    case BG_LOSS_SMOOTH_L1:
        return vselect(vgreater(a, size), half * d * d / a, size - half * a);
    case BG_LOSS_HUBER:
        return vselect(vgreater(size, a), a * (size - half * a), half * d * d);
    case BG_LOSS_BINARY_LOGITS:
        return vfma(one - t, p, vfma(a - one, t, one) * vsoftplus(-p));
    case BG_LOSS_BINARY:
        return -vfma(t, vbounded(vlog(p)), (one - t) * vbounded(vlog1p(-p)));
    case BG_LOSS_KL:
        return vwhere_probable(t, t * (vlog(t) - p));
    default: /* BG_LOSS_KL_LOG */
        return vexp(t) * (t - p);
    }
}

ALWAYS_INLINE vf pointwise_slope(const bg_pointwise_loss_function function, const bool of_target, vf a, vf p, vf t)
{
    const vf d = of_target ? t - p : p - t, size = vabs(d), one = vset(1.0f);

    switch (function) {
    case BG_LOSS_SQUARED:
        return d + d;
    case BG_LOSS_ABSOLUTE:
        return vsign(d);
    case BG_LOSS_SMOOTH_L1:
        return vselect(vgreater(a, size), d / a, vsign(d));
    case BG_LOSS_HUBER:
        return vselect(vgreater(size, a), a * vsign(d), d);
    case BG_LOSS_BINARY_LOGITS:
        if (of_target)
            return vfma(a - one, vsoftplus(-p), -p);
        return (one - t) - vfma(a - one, t, one) * vsigmoid(-p);
    case BG_LOSS_BINARY:
        if (of_target)
            return vbounded(vlog1p(-p)) - vbounded(vlog(p));
        return (p - t) / vclamp((one - p) * p, vset(LEAST_VARIANCE), vset(INFINITY));
    case BG_LOSS_KL:
        return vwhere_probable(t, of_target ? vlog(t) + one - p : -t);
    default: /* BG_LOSS_KL_LOG */
        return of_target ? vexp(t) * (t - p + one) : -vexp(t);
    }
}

#define POINTWISE_LOOPS(name, function)                                                                                \
    static void name##_value_loop(const float *p, const float *t, float a, float *y, int64_t count)                    \
    {                                                                                                                  \
        FOR_VECTORS(pointwise_value(function, vset(a), vload(p + i), vload(t + i)),                                    \
                    pointwise_value(function, vset(a), vload_n(p + i, count - i), vload_n(t + i, count - i)));         \
    }                                                                                                                  \
    static void name##_slope_loop(const float *p, const float *t, float a, float *y, int64_t count)                    \
    {                                                                                                                  \
        FOR_VECTORS(pointwise_slope(function, false, vset(a), vload(p + i), vload(t + i)),                             \
                    pointwise_slope(function, false, vset(a), vload_n(p + i, count - i), vload_n(t + i, count - i)));  \
    }                                                                                                                  \
    static void name##_target_loop(const float *p, const float *t, float a, float *y, int64_t count)                   \
    {                                                                                                                  \
        FOR_VECTORS(pointwise_slope(function, true, vset(a), vload(p + i), vload(t + i)),                              \
                    pointwise_slope(function, true, vset(a), vload_n(p + i, count - i), vload_n(t + i, count - i)));   \
    }

POINTWISE_LOOPS(squared, BG_LOSS_SQUARED)
POINTWISE_LOOPS(absolute, BG_LOSS_ABSOLUTE)
POINTWISE_LOOPS(smooth_l1, BG_LOSS_SMOOTH_L1)
POINTWISE_LOOPS(huber, BG_LOSS_HUBER)
POINTWISE_LOOPS(binary_logits, BG_LOSS_BINARY_LOGITS)
POINTWISE_LOOPS(binary, BG_LOSS_BINARY)
POINTWISE_LOOPS(kl, BG_LOSS_KL)
POINTWISE_LOOPS(kl_log, BG_LOSS_KL_LOG)

typedef void (*pointwise_loop)(const float *p, const float *t, float a, float *y, int64_t count);
static const struct {
    pointwise_loop value, slopes[2]; /* slopes: along the prediction and along the target */
} pointwise_table[BG_LOSS_FUNCTION_COUNT] = {
    [BG_LOSS_SQUARED] = {squared_value_loop, {squared_slope_loop, squared_target_loop}},
    [BG_LOSS_ABSOLUTE] = {absolute_value_loop, {absolute_slope_loop, absolute_target_loop}},
    [BG_LOSS_SMOOTH_L1] = {smooth_l1_value_loop, {smooth_l1_slope_loop, smooth_l1_target_loop}},
    [BG_LOSS_HUBER] = {huber_value_loop, {huber_slope_loop, huber_target_loop}},
    [BG_LOSS_BINARY_LOGITS] = {binary_logits_value_loop, {binary_logits_slope_loop, binary_logits_target_loop}},
    [BG_LOSS_BINARY] = {binary_value_loop, {binary_slope_loop, binary_target_loop}},
    [BG_LOSS_KL] = {kl_value_loop, {kl_slope_loop, kl_target_loop}},
    [BG_LOSS_KL_LOG] = {kl_log_value_loop, {kl_log_slope_loop, kl_log_target_loop}},
};

static void run_pointwise_loss(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pointwise_loss_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    enum { SUMS = 8 }; /* several sums, because a single one would wait for each addition */
    double sums[SUMS] = {0.0};
    float in_p[BGI_ELEMENTWISE_CHUNK], in_t[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        float *y = attributes->reduction == BG_LOSS_NONE ? (float *)call->operands[2] + i : out;

        pointwise_table[attributes->function].value(view_floats(dtype, call->operands[0], i, chunk, in_p),
                                                    view_floats(dtype, call->operands[1], i, chunk, in_t),
                                                    (float)attributes->parameter, y, chunk);
        for (int64_t e = 0; attributes->reduction != BG_LOSS_NONE && e < chunk; e += SUMS)
            for (int64_t s = 0; s < clip(chunk - e, SUMS); s++)
                sums[s] += (double)y[e + s];
    }
    ((double *)call->scratch)[part] =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

static void finish_pointwise_loss(const bg_kernel_call *call)
{
    const bgi_pointwise_loss_attributes *attributes = call->attributes;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const double *sums = call->scratch;
    double sum = 0.0;

    if (attributes->reduction == BG_LOSS_NONE)
        return;
    for (uint32_t part = 0; part < bgi_elementwise_parts(count); part++)
        sum += sums[part];
    *(float *)call->operands[2] = (float)(attributes->reduction == BG_LOSS_MEAN ? sum / (double)count : sum);
}

static void run_pointwise_loss_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pointwise_loss_attributes *attributes = call->attributes;
    const bg_dtype dtype = call->types[1].dtype;
    const float *dloss = call->operands[0];
    const int64_t count = bg_type_element_count(&call->types[1]), end = bgi_elementwise_start(count, part + 1);
    const double divisor = attributes->reduction == BG_LOSS_MEAN ? (double)count : 1.0;
    const bool is_single = attributes->reduction != BG_LOSS_NONE;
    const float scale = is_single ? (float)((double)dloss[0] / divisor) : 1.0f;
    float in_p[BGI_ELEMENTWISE_CHUNK], in_t[BGI_ELEMENTWISE_CHUNK], out[BGI_ELEMENTWISE_CHUNK];

    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        float *y = begin_output(dtype, call->operands[3], i, out);

        pointwise_table[attributes->function].slopes[attributes->of_target](
            view_floats(dtype, call->operands[1], i, chunk, in_p),
            view_floats(dtype, call->operands[2], i, chunk, in_t), (float)attributes->parameter, y, chunk);
        for (int64_t e = 0; e < chunk; e++)
            y[e] *= is_single ? scale : dloss[i + e];
        end_output(dtype, call->operands[3], i, chunk, out);
    }
}

#endif
