/*
 * fast.c: the shapes of fast cumulative sums. fast_body.h has the computation.
 */
#include "kernels/cumulative/fast.h"

bool bgi_cpu_shape_cumulative_sum(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_cumulative_attributes *attributes = request->attributes;

    (void)lanes;
    kernel->part_count = bgi_cumulation_make(&request->types[0], attributes->axis).parts;
    return bgi_dtype_is_single(request->types[0].dtype);
}
