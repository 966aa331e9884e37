/*
 * fast.c: the shapes of fast attention kernels. fast_body.h has the computation.
 */
#include "kernels/attention/fast.h"

static bool take(bg_kernel *kernel, const bgi_attention *a)
{
    kernel->part_count = a->parts;
    kernel->scratch_bytes = a->parts * (size_t)a->part_floats * sizeof(float);
    return bgi_dtype_is_single(a->dtype);
}

bool bgi_cpu_shape_attention(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_plan(&request->types[0], request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a);
}

bool bgi_cpu_shape_attention_cached(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_cached_plan(request->types, request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a);
}

bool bgi_cpu_shape_attention_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_backward_plan(&request->types[1], request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a);
}

/* Returns whether the type of the bias, which is input `number` if it exists, is supported. */
static bool takes_bias(const bgi_kernel_request *request, uint32_t number)
{
    return request->input_count <= number || request->types[number].dtype == BG_DTYPE_NONE ||
           request->types[number].dtype == BG_UINT8 || bgi_dtype_is_single(request->types[number].dtype);
}

bool bgi_cpu_shape_dot_product_attention(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a =
        bgi_attention_apart_plan(&request->types[0], &request->types[1], request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a) && takes_bias(request, 3);
}

bool bgi_cpu_shape_dot_product_attention_cached(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_apart_cached_plan(request->types, request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a);
}

bool bgi_cpu_shape_dot_product_attention_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a =
        bgi_attention_apart_backward_plan(&request->types[1], &request->types[2], request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a) && takes_bias(request, 6);
}

bool bgi_cpu_shape_dot_product_attention_bias_backward(const bgi_kernel_request *request, int64_t lanes,
                                                       bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_bias_plan(&request->types[1], &request->types[2], &request->types[6],
                                                    request->attributes, kernel->state);

    (void)lanes;
    return take(kernel, &a) && takes_bias(request, 6);
}
