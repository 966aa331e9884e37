/*
 * fast_body.h: connectionist temporal classification with one part for each sample. Each place of a path needs the
 * previous ones and logarithms of sums in double, so only samples can run in parallel.
 */
#ifndef BGI_KERNELS_CTC_FAST_BODY_H
#define BGI_KERNELS_CTC_FAST_BODY_H

#include "kernels/ctc/sample.h"

static void run_ctc_loss(const bg_kernel_call *call, uint32_t part)
{
    bgi_ctc_loss_of(call, part);
}

static void run_ctc_loss_backward(const bg_kernel_call *call, uint32_t part)
{
    bgi_ctc_gradient_of(call, part);
}

#endif
