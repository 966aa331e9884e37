/*
 * fast.c: the shapes of fast kernels of elements by index, and their parts. fast_body.h has the computation.
 */
#include "kernels/index/fast.h"

bool bgi_cpu_shape_gather(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_gather_make(request->types, request->attributes).parts;
    return true;
}

static bool take_scatter(const bgi_kernel_request *request, bool by_element, bg_kernel *kernel)
{
    const bgi_index_attributes *attributes = request->attributes;

    kernel->part_count = bgi_scatter_make(attributes, by_element).parts;
    if (bgi_dtype_is_narrow(attributes->whole.dtype)) /* sums are of float32 */
        kernel->scratch_bytes = (size_t)bg_type_element_count(&attributes->whole) * sizeof(float);
    return bgi_dtype_is_single(attributes->whole.dtype);
}

bool bgi_cpu_shape_scatter(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_scatter(request, false, kernel);
}

bool bgi_cpu_shape_gather_elements(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_elementwise_take(kernel, &request->types[2]);
}

bool bgi_cpu_shape_scatter_elements(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_scatter(request, true, kernel);
}

bool bgi_cpu_shape_one_hot(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_move_parts(bg_type_element_count(&request->types[0]), &request->types[1]);
    return true;
}

bool bgi_cpu_shape_top_k(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_top_k_attributes *attributes = request->attributes;

    (void)lanes;
    kernel->part_count = bgi_top_k_parts(&request->types[0]);
    kernel->scratch_bytes = kernel->part_count * (size_t)attributes->k * (sizeof(float) + sizeof(int32_t));
    return bgi_dtype_is_single(request->types[0].dtype);
}
