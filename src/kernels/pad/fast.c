/*
 * fast.c: the shapes of fast paddings, and their parts. fast_body.h computes them.
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

/* Several rows of dy may be added to one row of dx, so there is one part. Padding takes little time compared with the
 * surrounding ops. */
bool bgi_cpu_shape_pad_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    (void)kernel;
    return request->types[0].dtype == BG_FLOAT32;
}
