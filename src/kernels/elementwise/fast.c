/*
 * fast.c: the shapes of fast functions of one or two elements. fast_body.h has the computation.
 */
#include "kernels/elementwise/attributes.h"
#include "kernels/elementwise/fast.h"

bool bgi_cpu_shape_unary(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_unary_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_binary(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && request->types[0].dtype == request->types[1].dtype &&
           request->types[0].dtype == request->types[2].dtype &&
           bgi_broadcast_view_make(&request->types[2], &request->types[0], &view) &&
           bgi_broadcast_view_make(&request->types[2], &request->types[1], &view) &&
           bgi_elementwise_take(kernel, &request->types[2]);
}

bool bgi_cpu_shape_select_gradient(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && request->types[1].dtype == request->types[0].dtype &&
           request->types[2].dtype == request->types[0].dtype &&
           bgi_broadcast_view_make(&request->types[0], &request->types[1], &view) &&
           bgi_broadcast_view_make(&request->types[0], &request->types[2], &view) &&
           bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_scale(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_cast(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_dtype from = request->types[0].dtype, to = request->types[1].dtype;
    const bool is_whole = !bg_dtype_is_float(from) && !bg_dtype_is_float(to);

    (void)lanes;
    return (is_whole || (bgi_dtype_is_single(to) && (bgi_dtype_is_single(from) || from == BG_UINT8 ||
                                                     from == BG_INT32 || (from == BG_INT64 && to == BG_FLOAT32)))) &&
           bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_standardize(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return (request->types[0].dtype == BG_UINT8 || bgi_dtype_is_single(request->types[0].dtype)) &&
           bgi_dtype_is_single(request->types[1].dtype) && bgi_elementwise_take(kernel, &request->types[0]);
}
