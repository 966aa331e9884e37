/*
 * attention.c: which attentions are taken. The work itself is in attention_body.h.
 */
#include "kernels/cpu/attention.h"

static bool take(bg_kernel *kernel, const bgi_attention *a)
{
    kernel->part_count = a->parts;
    kernel->scratch_bytes = a->parts * (size_t)a->part_floats * sizeof(float);
    return bgi_dtype_is_single(a->dtype);
}

bool bgi_cpu_shape_attention(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_plan(&request->types[0], request->attributes);

    (void)lanes;
    return take(kernel, &a);
}

bool bgi_cpu_shape_attention_cached(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_cached_plan(request->types, request->attributes);

    (void)lanes;
    return take(kernel, &a);
}

bool bgi_cpu_shape_attention_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_attention a = bgi_attention_backward_plan(&request->types[1], request->attributes);

    (void)lanes;
    return take(kernel, &a);
}
