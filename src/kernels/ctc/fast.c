/*
 * fast.c: each sample is a part. sample.h computes them.
 */
#include "kernels/cpu/variant.h"
#include "kernels/ctc/attributes.h"

bool bgi_cpu_shape_ctc_loss(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = (uint32_t)request->types[0].dims[0];
    return bgi_dtype_is_single(request->types[0].dtype);
}

bool bgi_cpu_shape_ctc_loss_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = (uint32_t)request->types[1].dims[0];
    return bgi_dtype_is_single(request->types[1].dtype);
}
