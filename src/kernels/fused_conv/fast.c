/*
 * fast.c: supports a fused convolution in float32 if the plain convolution of the same shape is supported. fast_body.h
 * has the computation.
 */
#include "kernels/fused_conv/fast.h"

bool bgi_cpu_shape_fused_conv2d(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_fused_conv2d_attributes *attributes = request->attributes;
    bg_type types[BGI_FUSED_CONV2D_OPERANDS];
    bgi_kernel_request conv = *request;

    conv.id = BGI_KERNEL_CONV2D;
    conv.types = types;
    conv.input_count = bgi_fused_conv2d_types(request->types, request->input_count, attributes, types);
    if (types[0].dtype != BG_FLOAT32 || !bgi_cpu_shape_conv2d(&conv, lanes, kernel))
        return false;
    if (!attributes->norms)
        kernel->prepare = NULL;
    kernel->scratch_bytes += (size_t)bgi_fused_conv2d_floats(&types[1], attributes) * sizeof(float);
    return true;
}
