/*
 * fast.c: the shapes of the fused convolution kernels: supported requests, parts and scratch. forward_body.h and
 * backward_body.h have the computation.
 */
#include "kernels/conv_pool/fast.h"

/* Returns whether the kernels support the sizes: window offsets are bytes, of which 255 is reserved, and lists of
 * positions are 32-bit. */
static bool fits(const bgi_conv_pool *s)
{
    return bgi_dtype_is_single(s->dtype) && s->windows < 255 && s->windows * s->kh <= BGI_CONV_POOL_MAX_OFFSETS &&
           (double)(s->h + 2 * s->pad_h) * (double)(s->w + 2 * s->pad_w) * (double)(s->c + 16) * (double)s->n < 1e9 &&
           (double)s->o * (double)(s->k + 64 * s->kh) < 1e9;
}

bool bgi_cpu_shape_conv2d_pool(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv_pool s =
        bgi_conv_pool_read(&request->types[0], &request->types[1], &request->types[3], request->attributes);
    bgi_conv_pool_planes planes;

    (void)lanes;
    if (!fits(&s))
        return false;
    planes = bgi_conv_pool_plan(&s);
    kernel->part_count = bgi_conv_pool_bound_parts(bgi_conv_pool_image_parts(&s), planes.shared_floats,
                                                   planes.part_floats, bgi_product_limit(kernel->state));
    kernel->scratch_bytes = bgi_conv_pool_scratch(planes.shared_floats, planes.part_floats, kernel->part_count);
    return true;
}

bool bgi_cpu_shape_conv2d_pool_backward_input(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv_pool s =
        bgi_conv_pool_read(&request->types[3], &request->types[2], &request->types[0], request->attributes);
    bgi_conv_pool_patches patches;

    if (!fits(&s))
        return false;
    patches = bgi_conv_pool_patch_plan(&s, lanes, false, 1);
    kernel->part_count = bgi_conv_pool_bound_parts(bgi_conv_pool_image_parts(&s), patches.shared_floats,
                                                   patches.part_floats, bgi_product_limit(kernel->state));
    kernel->scratch_bytes = bgi_conv_pool_scratch(patches.shared_floats, patches.part_floats, kernel->part_count);
    return true;
}

bool bgi_cpu_shape_conv2d_pool_backward_weights(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv_pool s =
        bgi_conv_pool_read(&request->types[2], &request->types[3], &request->types[0], request->attributes);
    bgi_conv_pool_patches patches;

    if (!fits(&s))
        return false;
    kernel->part_count = bgi_conv_pool_weights_parts(&s);
    patches = bgi_conv_pool_patch_plan(&s, lanes, true, kernel->part_count);
    kernel->combine_count = bgi_conv_pool_weights_pieces(&s, &patches, kernel->part_count);
    kernel->scratch_bytes = bgi_conv_pool_scratch(patches.shared_floats, patches.part_floats, kernel->part_count);
    return true;
}
