/*
 * reference.c: connectionist temporal classification, in plain C: one sample after another.
 */
#include "kernels/ctc/sample.h"
#include "kernels/kernels.h"

void bgi_reference_ctc_loss(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for (int64_t sample = 0; sample < call->types[0].dims[0]; sample++)
        bgi_ctc_loss_of(call, sample);
}

void bgi_reference_ctc_loss_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    for (int64_t sample = 0; sample < call->types[1].dims[0]; sample++)
        bgi_ctc_gradient_of(call, sample);
}
