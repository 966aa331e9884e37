/*
 * conv_pool.c: which requests the fused convolution kernels take, their parts and their scratch. The work itself is in
 * conv_pool_body.h.
 */
#include "kernels/cpu/conv_pool.h"

static bool is_fast_float(bg_dtype dtype)
{
    return dtype == BG_FLOAT32 || dtype == BG_BFLOAT16;
}

/* Window offsets are bytes with 255 taken, and lists of positions are 32-bit. */
static bool fits(const bgi_conv_pool *s)
{
    return is_fast_float(s->dtype) && s->windows < 255 && s->windows * s->kh <= BGI_CONV_POOL_MAX_OFFSETS &&
           (double)(s->h + 2 * s->pad_h) * (double)(s->w + 2 * s->pad_w) * (double)(s->c + 16) * (double)s->n < 1e9 &&
           (double)s->o * (double)(s->k + 64 * s->kh) < 1e9;
}

bool bgi_cpu_shape_conv2d_pool(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv_pool s =
        bgi_conv_pool_read(&request->types[0], &request->types[1], &request->types[3], request->attributes);

    (void)lanes;
    if (!fits(&s))
        return false;
    kernel->part_count = bgi_conv_pool_forward_parts(&s);
    kernel->scratch_bytes = kernel->part_count * (size_t)bgi_conv_pool_plan(&s).part_floats * sizeof(float);
    return true;
}

bool bgi_cpu_shape_conv2d_pool_backward_input(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv_pool s =
        bgi_conv_pool_read(&request->types[3], &request->types[2], &request->types[0], request->attributes);

    if (!fits(&s))
        return false;
    kernel->part_count = bgi_conv_pool_input_parts(&s);
    kernel->scratch_bytes = kernel->part_count * sizeof(float) *
                            (size_t)bgi_conv_pool_patch_plan(&s, lanes, false, kernel->part_count).part_floats;
    return true;
}

bool bgi_cpu_shape_conv2d_pool_backward_weights(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv_pool s =
        bgi_conv_pool_read(&request->types[2], &request->types[3], &request->types[0], request->attributes);

    if (!fits(&s))
        return false;
    kernel->part_count = bgi_conv_pool_weights_parts(&s);
    kernel->scratch_bytes = kernel->part_count * sizeof(float) *
                            (size_t)bgi_conv_pool_patch_plan(&s, lanes, true, kernel->part_count).part_floats;
    return true;
}
