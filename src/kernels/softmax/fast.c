/*
 * fast.c: the shapes of fast softmaxes. fast_body.h has the computation.
 */
#include "kernels/cpu/rows.h"
#include "kernels/softmax/attributes.h"

static bool take_last_axis(const bgi_kernel_request *request, bg_kernel *kernel)
{
    const bgi_axis_attributes *attributes = request->attributes;

    return attributes->axis + 1 == request->types[0].rank && bgi_rows_take(kernel, &request->types[0], 2);
}

bool bgi_cpu_shape_softmax(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_log_softmax(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_softmax_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_log_softmax_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}
