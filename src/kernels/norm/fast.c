/*
 * fast.c: the shapes of fast norms. fast_body.h and batch_body.h have the computation.
 */
#include "kernels/norm/fast.h"

bool bgi_cpu_shape_layer_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[request->input_count + 1].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[0], 3);
}

bool bgi_cpu_shape_layer_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[1], 6);
}

bool bgi_cpu_shape_norm_sums(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_rows_take(kernel, &request->types[0], 1);
}

bool bgi_cpu_shape_sharded_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[5].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[0], 3);
}

bool bgi_cpu_shape_norm_gradient_sums(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[1], 3);
}

bool bgi_cpu_shape_sharded_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return request->types[2].dtype == BG_FLOAT32 && bgi_rows_take(kernel, &request->types[1], 6);
}

/* ---- group norm ---- */

/* Fills in a kernel over groups, if it is supported; `x` and `statistics` are the numbers of the operands x and
 * mean. */
static bool take_groups(const bgi_kernel_request *request, uint32_t x, uint32_t statistics, bg_kernel *kernel)
{
    const bgi_group_work w = bgi_group_work_read(&request->types[x], request->attributes, x == 1);

    kernel->part_count = w.parts;
    kernel->scratch_bytes = (size_t)(w.shared_floats + w.parts * w.part_floats) * sizeof(float);
    return bgi_dtype_is_single(w.dtype) && request->types[statistics].dtype == BG_FLOAT32;
}

bool bgi_cpu_shape_group_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_groups(request, 0, 4, kernel);
}

bool bgi_cpu_shape_group_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_groups(request, 1, 2, kernel);
}

/* ---- batch norm ---- */

/* Fills in a kernel over channels, if it is supported; `x` is the number of the operand x. */
static bool take_channels(const bgi_kernel_request *request, uint32_t x, bg_kernel *kernel)
{
    const bgi_channels all = bgi_channels_read(&request->types[x]);

    kernel->part_count = bgi_channels_parts(&all);
    return bgi_dtype_is_single(request->types[x].dtype);
}

bool bgi_cpu_shape_batch_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 0, kernel);
}

bool bgi_cpu_shape_batch_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 1, kernel);
}

bool bgi_cpu_shape_fused_batch_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 0, kernel);
}

bool bgi_cpu_shape_fused_batch_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 1, kernel);
}

bool bgi_cpu_shape_batch_norm_moments(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 0, kernel);
}

bool bgi_cpu_shape_sync_batch_norm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 0, kernel);
}

bool bgi_cpu_shape_batch_norm_gradient_sums(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 1, kernel);
}

bool bgi_cpu_shape_sync_batch_norm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take_channels(request, 1, kernel);
}
