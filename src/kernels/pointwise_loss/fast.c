/*
 * fast.c: the shapes of fast elementwise losses. fast_body.h has the computation.
 */
#include "kernels/elementwise/fast.h"
#include "kernels/pointwise_loss/attributes.h"

/* A loss reduced to one number is the sum of the parts' sums. */
bool bgi_cpu_shape_pointwise_loss(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && bgi_elementwise_take_statistic(request, 1, kernel);
}

bool bgi_cpu_shape_pointwise_loss_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[0].dtype == BG_FLOAT32 && bgi_dtype_is_single(request->types[1].dtype) &&
           bgi_elementwise_take(kernel, &request->types[1]);
}
