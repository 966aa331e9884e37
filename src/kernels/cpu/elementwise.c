/*
 * elementwise.c: which element-by-element requests are taken. The work itself is in elementwise_body.h and
 * update_body.h.
 */
#include "kernels/cpu/elementwise.h"

static bool take(bg_kernel *kernel, const bg_type *type)
{
    kernel->part_count = bgi_elementwise_parts(bg_type_element_count(type));
    return true;
}

bool bgi_cpu_shape_unary(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_unary_attributes *attributes = request->attributes;

    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && attributes->function != BG_LOG &&
           take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_unary_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_binary(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && request->types[0].dtype == request->types[1].dtype &&
           request->types[0].dtype == request->types[2].dtype &&
           bgi_broadcast_view_make(&request->types[2], &request->types[0], &view) &&
           bgi_broadcast_view_make(&request->types[2], &request->types[1], &view) && take(kernel, &request->types[2]);
}

bool bgi_cpu_shape_scale(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_cast(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_dtype from = request->types[0].dtype;

    (void)lanes;
    return (bgi_dtype_is_single(from) || from == BG_UINT8 || from == BG_INT32) &&
           bgi_dtype_is_single(request->types[1].dtype) && take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_standardise(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[0].dtype == BG_UINT8 && bgi_dtype_is_single(request->types[1].dtype) &&
           take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_accumulate(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && bgi_dtype_is_single(request->types[1].dtype) &&
           take(kernel, &request->types[0]);
}

/* Kernels whose parts leave `numbers` doubles each. */
static bool shape_statistic(const bgi_kernel_request *request, size_t numbers, bg_kernel *kernel)
{
    if (!bgi_dtype_is_single(request->types[0].dtype) || !take(kernel, &request->types[0]))
        return false;
    kernel->scratch_bytes = kernel->part_count * numbers * sizeof(double);
    return true;
}

bool bgi_cpu_shape_square_sum(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return shape_statistic(request, 1, kernel);
}

bool bgi_cpu_shape_range_count(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return shape_statistic(request, BGI_RANGE_COUNTS, kernel);
}

static bool shape_update(const bgi_kernel_request *request, bg_kernel *kernel)
{
    for (uint32_t i = 0; i < request->input_count; i++)
        if (i != 2 && !bgi_dtype_is_single(request->types[i].dtype))
            return false;
    return take(kernel, &request->types[0]);
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
           bgi_dtype_is_single(request->types[4].dtype) && take(kernel, &request->types[0]);
}
