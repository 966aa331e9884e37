/*
 * fast.c: the shapes of fast copies, transpositions and slices. fast_body.h has the computation.
 */
#include "kernels/reshape/fast.h"

#include "kernels/elementwise/fast.h"
#include "kernels/reshape/attributes.h"

bool bgi_cpu_shape_copy(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_elementwise_parts((int64_t)bg_type_size_bytes(&request->types[0]) / 8 + 1);
    return true;
}

bool bgi_cpu_shape_transpose(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_transpose_attributes *attributes = request->attributes;

    (void)lanes;
    kernel->part_count = bgi_transposition_make(&request->types[0], attributes->permutation).parts;
    return true;
}

bool bgi_cpu_shape_slice(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count =
        bgi_axis_rows_read(&request->types[1], ((const bgi_slice_attributes *)request->attributes)->axis).parts;
    return true;
}

bool bgi_cpu_shape_slice_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return bgi_cpu_shape_slice(request, lanes, kernel);
}

bool bgi_cpu_shape_roll(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count =
        bgi_axis_rows_read(&request->types[1], ((const bgi_roll_attributes *)request->attributes)->axis).parts;
    return true;
}

bool bgi_cpu_shape_concat(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_axis_rows_read(&request->types[request->input_count],
                                            ((const bgi_axis_attributes *)request->attributes)->axis)
                             .parts;
    return true;
}
