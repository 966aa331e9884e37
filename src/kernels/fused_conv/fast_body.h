/*
 * fast_body.h: convolutions that apply following steps to a tile's rows once their sums are complete, before they are
 * stored or while they are in the first-level cache.
 */
#ifndef BGI_KERNELS_FUSED_CONV_FAST_BODY_H
#define BGI_KERNELS_FUSED_CONV_FAST_BODY_H

#include "kernels/conv/fast_body.h"
#include "kernels/cpu/rows_body.h"
#include "kernels/fused_conv/fast.h"
#include "kernels/norm/batch_body.h"

static void map_results(const void *source, int64_t count, float *y)
{
    const bgi_unary_attributes *unary = source;

    unary_table[unary->function].forward(y, y, count, unary);
}

static void prepare_fused_conv2d(const bg_kernel_call *call)
{
    const bgi_fused_conv2d_attributes *attributes = call->attributes;
    const uint32_t gamma = bgi_fused_conv2d_gamma(attributes);
    const int64_t channels = call->types[1].dims[0];
    float *const means = call->scratch, *const scales = means + channels, *const shifts = scales + channels;

    for (int64_t c = 0; attributes->norms && c < channels; c++) {
        const float *const *operands = (const float *const *)&call->operands[gamma];
        const double variance = (double)operands[3][c];

        settle_scale((double)operands[2][c], 1.0 / sqrt(variance + attributes->epsilon), (double)operands[0][c],
                     (double)operands[1][c], &means[c], &scales[c], &shifts[c]);
    }
}

/* Calls `convolve_part` with the plain convolution and the steps that follow it. */
static void pass_fused_conv2d(const bg_kernel_call *call, uint32_t part,
                              void (*convolve_part)(const bg_kernel_call *call, uint32_t part,
                                                    const conv_finish *finish))
{
    const bgi_fused_conv2d_attributes *attributes = call->attributes;
    const int64_t channels = call->types[1].dims[0];
    const bool is_relu = attributes->maps && attributes->unary.function == BG_RELU;
    conv_finish finish = {
        .steps = {.other = attributes->adds ? call->operands[bgi_fused_conv2d_other(attributes)] : NULL,
                  .y = call->operands[call->input_count],
                  .is_relu = is_relu},
        .map = attributes->maps && !is_relu ? map_results : NULL,
        .source = &attributes->unary};
    bgi_fused_conv2d_call conv;

    if (attributes->norms) {
        finish.steps.mean = call->scratch;
        finish.steps.scale = finish.steps.mean + channels;
        finish.steps.shift = finish.steps.scale + channels;
    }
    bgi_fused_conv2d_call_make(call, &conv);
    convolve_part(&conv.call, part, &finish);
}

static void run_fused_conv2d(const bg_kernel_call *call, uint32_t part)
{
    pass_fused_conv2d(call, part, run_convolution);
}

static void combine_fused_conv2d(const bg_kernel_call *call, uint32_t part)
{
    pass_fused_conv2d(call, part, combine_convolution);
}

#endif
