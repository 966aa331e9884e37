/*
 * fast.c: the shapes of fast paddings, and their parts. fast_body.h has the computation.
 */
#include "kernels/pad/fast.h"

#include "kernels/cpu/move.h"

bool bgi_cpu_shape_pad(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_pad_rows rows = bgi_pad_rows_make(request->attributes);

    (void)lanes;
    kernel->part_count = bgi_move_parts(rows.rows, &request->types[1]);
    return true;
}

/* Parts are runs of rows of dx. Contributions to a row of 16-bit values are summed in a buffer of the runner. */
bool bgi_cpu_shape_pad_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_dtype dtype = request->types[0].dtype;
    const bgi_pad_rows rows = bgi_pad_rows_make(request->attributes);

    (void)lanes;
    kernel->part_count = bgi_move_parts(rows.x_rows, &request->types[0]);
    if (bgi_dtype_is_narrow(dtype))
        kernel->scratch_bytes = kernel->part_count * (size_t)bgi_pad_buffer(&rows) * sizeof(float);
    return bgi_dtype_is_single(dtype);
}
