/*
 * fast.c: the shapes of fast interpolations. fast_body.h has the computation.
 */
#include "kernels/resample/fast.h"

/* Only scales that combine nearly all of a long axis into one element need larger tables. */
static const int64_t most_shared_floats = 1 << 22;

bool bgi_cpu_shape_resample(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_resample_head head;
    bgi_resample s;

    (void)lanes;
    if (!bgi_dtype_is_single(request->types[0].dtype) || request->types[0].dims[request->types[0].rank - 1] > INT32_MAX)
        return false;
    head = bgi_resample_head_make(request->attributes);
    s = bgi_resample_read(&request->types[0], &request->types[1], request->attributes);
    kernel->part_count = s.parts;
    kernel->scratch_bytes = (size_t)(head.shared_floats + (int64_t)s.parts * s.part_floats) * sizeof(float);
    return head.shared_floats <= most_shared_floats;
}
