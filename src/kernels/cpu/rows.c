/*
 * rows.c: which softmaxes, norms and reductions are taken. The work itself is in rows_body.h.
 */
#include "kernels/cpu/rows.h"

static bool take(bg_kernel *kernel, const bg_type *type, int64_t buffers)
{
    const bgi_rows rows = bgi_rows_read(type, buffers);

    kernel->part_count = rows.parts;
    kernel->scratch_bytes = rows.parts * (size_t)rows.part_floats * sizeof(float);
    return bgi_dtype_is_single(type->dtype);
}

static bool take_last_axis(const bgi_kernel_request *request, bg_kernel *kernel)
{
    const bgi_axis_attributes *attributes = request->attributes;

    return attributes->axis + 1 == request->types[0].rank && take(kernel, &request->types[0], 2);
}

bool bgi_cpu_shape_softmax(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_log_softmax(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_softmax_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_log_softmax_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_last_axis(request, kernel);
}

bool bgi_cpu_shape_layer_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[request->input_count + 1].dtype == BG_FLOAT32 && take(kernel, &request->types[0], 3);
}

bool bgi_cpu_shape_layer_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && take(kernel, &request->types[1], 6);
}

bool bgi_cpu_shape_norm_sums(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take(kernel, &request->types[0], 1);
}

bool bgi_cpu_shape_sharded_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[5].dtype == BG_FLOAT32 && take(kernel, &request->types[0], 3);
}

bool bgi_cpu_shape_norm_gradient_sums(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && take(kernel, &request->types[1], 3);
}

bool bgi_cpu_shape_sharded_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && take(kernel, &request->types[1], 6);
}

bool bgi_cpu_shape_reduce(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_reduce_attributes *attributes = request->attributes;
    bgi_reduction reduction;

    (void)lanes;
    if (!bgi_dtype_is_single(request->types[0].dtype) || request->types[1].dtype != request->types[0].dtype ||
        !bgi_reduction_make(&request->types[0], attributes->axes, &reduction))
        return false;
    kernel->part_count = reduction.parts;
    return true;
}
