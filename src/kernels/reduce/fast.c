/*
 * fast.c: the shapes of fast reductions and broadcasts. fast_body.h has the computation.
 */
#include "kernels/reduce/fast.h"

#include "kernels/elementwise/fast.h"
#include "kernels/reduce/attributes.h"

bool bgi_cpu_shape_reduce(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_reduce_attributes *attributes = request->attributes;
    bgi_reduction reduction;

    (void)lanes;
    if (!bgi_dtype_is_single(request->types[0].dtype) || request->types[1].dtype != request->types[0].dtype ||
        !bgi_reduction_make(&request->types[0], attributes->axes, &reduction))
        return false;
    kernel->part_count = reduction.parts;
    if (reduction.pieces > 1)
        kernel->scratch_bytes =
            (size_t)(reduction.results * reduction.runs * reduction.pieces * reduction.run) * sizeof(float);
    else
        kernel->finish = NULL;
    return true;
}

bool bgi_cpu_shape_reduce_max_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_reduce_attributes *attributes = request->attributes;
    bgi_reduction reduction;

    (void)lanes;
    if (!bgi_dtype_is_single(request->types[1].dtype) ||
        !bgi_reduction_make(&request->types[1], attributes->axes, &reduction) || reduction.again > 1)
        return false;
    kernel->part_count = bgi_reduction_whole_parts(&reduction);
    return true;
}

bool bgi_cpu_shape_broadcast(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_elementwise_parts(bg_type_element_count(&request->types[1]));
    return bgi_dtype_is_single(request->types[0].dtype);
}

bool bgi_cpu_shape_argmax(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_rows_take(kernel, &request->types[0], 1);
}
