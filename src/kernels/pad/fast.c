/*
 * fast.c: which paddings are taken, and in how many parts. The work itself is in fast_body.h.
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

/* Rows of dy meet in rows of dx: one part. Padding is a small share of what surrounds it. */
bool bgi_cpu_shape_pad_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    (void)kernel;
    return request->types[0].dtype == BG_FLOAT32;
}
