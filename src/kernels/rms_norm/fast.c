/*
 * fast.c: the shapes of fast norms by the root of the mean square. fast_body.h has the computation.
 */
#include "kernels/cpu/rows.h"

bool bgi_cpu_shape_rms_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[request->input_count + 1].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[0], 2);
}

bool bgi_cpu_shape_rms_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[1], 5);
}
