/*
 * reference.c: runs a convolution and the following ops one after another, and rounds after each op as separate kernels
 * do.
 */
#include "kernels/kernels.h"

#include "kernels/fused_conv/fast.h"
#include "kernels/reference/operands.h"

void bgi_reference_fused_conv2d(const bg_kernel_call *call, uint32_t part)
{
    const bgi_fused_conv2d_attributes *attributes = call->attributes;
    const bg_type *y = bgi_output_type(call, 0);
    const uint32_t gamma = bgi_fused_conv2d_gamma(attributes), other = bgi_fused_conv2d_other(attributes);
    const int64_t count = bg_type_element_count(y), plane = y->dims[2] * y->dims[3];
    float *const out = bgi_output(call, 0);
    bgi_fused_conv2d_call conv;

    bgi_fused_conv2d_call_make(call, &conv);
    bgi_reference_conv2d(&conv.call, part);
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i / plane % y->dims[1];

        if (attributes->norms) {
            const float *const *operands = (const float *const *)&call->operands[gamma];
            const double rstd = 1.0 / sqrt((double)operands[3][c] + attributes->epsilon);

            out[i] = (float)(((double)out[i] - (double)operands[2][c]) * rstd * (double)operands[0][c] +
                             (double)operands[1][c]);
        }
        if (attributes->adds)
            out[i] += ((const float *)call->operands[other])[i];
    }
    if (attributes->maps) {
        const bg_type types[] = {*y, *y};
        void *const operands[] = {out, out};
        bg_kernel_call unary = *call;

        unary.types = types;
        unary.operands = operands;
        unary.input_count = unary.output_count = 1;
        unary.attributes = &attributes->unary;
        bgi_reference_unary(&unary, part);
    }
}
