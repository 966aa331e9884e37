/*
 * fast.c: the shapes of fast poolings. fast_body.h has the computation.
 */
#include "kernels/pool/fast.h"

static bool take_planes(const bgi_kernel_request *request, uint32_t x, uint32_t y, bg_kernel *kernel)
{
    const bgi_pool s = bgi_pool_read(&request->types[x], &request->types[y], request->attributes);

    kernel->part_count = s.parts;
    kernel->scratch_bytes = s.parts * (size_t)s.part_floats * sizeof(float);
    return bgi_dtype_is_single(s.dtype);
}

bool bgi_cpu_shape_max_pool2d(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_planes(request, 0, 1, kernel);
}

bool bgi_cpu_shape_max_pool2d_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_planes(request, 2, 0, kernel);
}

bool bgi_cpu_shape_avg_pool2d(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_planes(request, 0, 1, kernel);
}

bool bgi_cpu_shape_avg_pool2d_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_planes(request, 1, 0, kernel);
}
