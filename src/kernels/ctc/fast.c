/*
 * fast.c: each sample is a part. fast_body.h has the computation.
 */
#include "kernels/ctc/fast.h"

/* Makes each sample a part; `x` is the number of that operand, and the targets follow it. */
static bool take_samples(const bgi_kernel_request *request, uint32_t x, bg_kernel *kernel)
{
    kernel->part_count = (uint32_t)request->types[x].dims[0];
    kernel->scratch_bytes = kernel->part_count * (size_t)bgi_ctc_part_floats(&request->types[x + 1]) * sizeof(float);
    return bgi_dtype_is_single(request->types[x].dtype);
}

bool bgi_cpu_shape_ctc_loss(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_samples(request, 0, kernel);
}

bool bgi_cpu_shape_ctc_loss_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_samples(request, 1, kernel);
}
