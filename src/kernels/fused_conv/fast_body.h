/*
 * fast_body.h: convolutions that process their results further while these are in the first-level cache: a tile's rows,
 * when their sums are complete.
 */
#ifndef BGI_KERNELS_FUSED_CONV_FAST_BODY_H
#define BGI_KERNELS_FUSED_CONV_FAST_BODY_H

#include "kernels/conv/fast_body.h"
#include "kernels/cpu/rows_body.h"
#include "kernels/fused_conv/fast.h"
#include "kernels/norm/batch_body.h"

typedef struct fused_conv_steps {
    const float *mean, *scale, *shift; /* by channel; or NULL */
    const float *other;                /* or NULL */
    bool is_relu;
    const bgi_unary_attributes *unary; /* any other function; or NULL */
} fused_conv_steps;

/* Applies the steps to `count` adjacent results of one channel, `index` elements after the first of y. */
static void finish_convolution(const void *source, int64_t channel, int64_t index, int64_t count, float *y)
{
    const fused_conv_steps *s = source;
    const vf zero = vset(0.0f);

    FOR_ROW(count, live)
    {
        vf value = vload_n(y + i, live);

        if (s->mean)
            value = vfma(value - vset(s->mean[channel]), vset(s->scale[channel]), vset(s->shift[channel]));
        if (s->other)
            value += vload_n(s->other + index + i, live);
        if (s->is_relu)
            value = vselect(vgreater(zero, value), zero, value); /* NaN stays */
        vstore_n(y + i, value, live);
    }
    if (s->unary)
        unary_table[s->unary->function].forward(y, y, count, s->unary);
}

static void prepare_fused_conv2d(const bg_kernel_call *call)
{
    const bgi_fused_conv2d_attributes *attributes = call->attributes;
    const uint32_t gamma = bgi_fused_conv2d_gamma(attributes);
    const int64_t channels = call->types[1].dims[0];
    float *const means = call->scratch, *const scales = means + channels, *const shifts = scales + channels;
    bgi_fused_conv2d_call conv;

    for (int64_t c = 0; attributes->norms && c < channels; c++) {
        const float *const *operands = (const float *const *)&call->operands[gamma];
        const double variance = (double)operands[3][c];

        settle_scale((double)operands[2][c], 1.0 / sqrt(variance + attributes->epsilon), (double)operands[0][c],
                     (double)operands[1][c], &means[c], &scales[c], &shifts[c]);
    }
    bgi_fused_conv2d_call_make(call, &conv);
    prepare_conv2d(&conv.call);
}

static void run_fused_conv2d(const bg_kernel_call *call, uint32_t part)
{
    const bgi_fused_conv2d_attributes *attributes = call->attributes;
    const int64_t channels = call->types[1].dims[0];
    const bool is_relu = attributes->maps && attributes->unary.function == BG_RELU;
    fused_conv_steps steps = {.is_relu = is_relu,
                              .unary = attributes->maps && !is_relu ? &attributes->unary : NULL,
                              .other = attributes->adds ? call->operands[bgi_fused_conv2d_other(attributes)] : NULL};
    const conv_finish finish = {finish_convolution, &steps};
    bgi_fused_conv2d_call conv;

    if (attributes->norms) {
        steps.mean = call->scratch;
        steps.scale = steps.mean + channels;
        steps.shift = steps.scale + channels;
    }
    bgi_fused_conv2d_call_make(call, &conv);
    run_convolution(&conv.call, part, &finish);
}

#endif
