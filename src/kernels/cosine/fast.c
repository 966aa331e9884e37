/*
 * fast.c: the shapes of fast cosines. fast_body.h has the computation.
 */
#include "kernels/cosine/fast.h"

bool bgi_cpu_shape_cosine(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_cosines_read(&request->types[0], request->attributes).parts;
    return bgi_dtype_is_single(request->types[0].dtype);
}

bool bgi_cpu_shape_cosine_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_cosines_read(&request->types[1], request->attributes).parts;
    return bgi_dtype_is_single(request->types[1].dtype);
}
