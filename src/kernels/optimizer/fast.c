/*
 * fast.c: the shapes of fast updates. update_body.h and lamb_body.h have the computation.
 */
#include "kernels/elementwise/fast.h"
#include "kernels/optimizer/attributes.h"

static bool shape_update(const bgi_kernel_request *request, bg_kernel *kernel)
{
    for (uint32_t i = 0; i < request->input_count; i++)
        if (i != 2 && !bgi_dtype_is_single(request->types[i].dtype))
            return false;
    return bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_sgd_update(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return shape_update(request, kernel);
}

bool bgi_cpu_shape_adam_update(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return shape_update(request, kernel);
}

bool bgi_cpu_shape_rmsprop_update(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return shape_update(request, kernel);
}

bool bgi_cpu_shape_lamb_moments(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_lamb_attributes *attributes = request->attributes;
    const bool is_whole = bg_type_element_count(&request->types[0]) == attributes->elements;

    (void)lanes;
    if (!shape_update(request, kernel))
        return false;
    kernel->part_count = bgi_elementwise_parts(bgi_lamb_piece(attributes)) * (is_whole ? attributes->pieces : 1);
    kernel->scratch_bytes = kernel->part_count * 2 * sizeof(double);
    return true;
}

bool bgi_cpu_shape_lamb_update(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && bgi_dtype_is_single(request->types[3].dtype) &&
           bgi_dtype_is_single(request->types[4].dtype) && bgi_elementwise_take(kernel, &request->types[0]);
}
