/*
 * fast.c: the shapes of fast dropouts. fast_body.h has the computation.
 */
#include "kernels/cpu/move.h"

bool bgi_cpu_shape_dropout(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_move_parts(request->types[0].dims[0], &request->types[0]);
    return bgi_dtype_is_single(request->types[0].dtype);
}
