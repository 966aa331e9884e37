/*
 * fast.c: the shapes of fast rotary positions. fast_body.h has the computation.
 */
#include "kernels/rotary/fast.h"

bool bgi_cpu_shape_rotary(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_rotary r = bgi_rotary_plan(request->types, request->input_count, request->attributes);

    (void)lanes;
    kernel->part_count = r.parts;
    kernel->scratch_bytes = r.parts * (size_t)r.part_floats * sizeof(float);
    return bgi_dtype_is_single(r.dtype);
}
