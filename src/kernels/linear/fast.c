/*
 * fast.c: the shapes of fast matrix products: their parts and their scratch. gemm_body.h and fast_body.h have the
 * computation.
 */
#include "kernels/linear/attributes.h"
#include "kernels/linear/gemm.h"

static bool take(bg_kernel *kernel, const bgi_gemm *g)
{
    kernel->part_count = g->parts;
    kernel->scratch_bytes = g->parts * (size_t)g->part_floats * sizeof(float);
    return true;
}

bool bgi_cpu_shape_linear(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_type *w = &request->types[1];
    const bgi_linear_dims d = bgi_linear_read(w, &request->types[0], w->dims[1]);
    const bgi_gemm g =
        bgi_gemm_for(bgi_gemm_plan(1, d.rows, d.out, d.in, 1, lanes, w->dtype == BG_FLOAT32), lanes, kernel->state);

    return bgi_dtype_is_single(w->dtype) && take(kernel, &g);
}

bool bgi_cpu_shape_linear_backward_input(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_type *w = &request->types[1];
    const bgi_linear_dims d = bgi_linear_read(w, &request->types[0], w->dims[0]);
    const bgi_gemm g =
        bgi_gemm_for(bgi_gemm_plan(1, d.rows, d.in, d.out, 1, lanes, w->dtype == BG_FLOAT32), lanes, kernel->state);

    return bgi_dtype_is_single(w->dtype) && take(kernel, &g);
}

bool bgi_cpu_shape_linear_backward_weights(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_type *dw = &request->types[2];
    const bgi_linear_dims d = bgi_linear_read(dw, &request->types[0], dw->dims[0]);

    const bgi_gemm g =
        bgi_gemm_for(bgi_linear_weights_plan(&d, lanes, dw->dtype, request->output_count == 0), lanes, kernel->state);

    return bgi_dtype_is_single(dw->dtype) && take(kernel, &g);
}

bool bgi_cpu_shape_matmul(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_matmul_attributes *attributes = request->attributes;
    const bg_type *a = &request->types[0], *y = &request->types[2];
    const int64_t k = a->dims[attributes->transpose_a ? a->rank - 2 : a->rank - 1];
    const bgi_gemm g = bgi_gemm_for(bgi_matmul_plan(y, k, lanes, request->output_count == 0), lanes, kernel->state);

    return bgi_dtype_is_single(y->dtype) && take(kernel, &g);
}

/* Gives the kernel the parts and scratch of the product. The step that follows is supported for every supported
 * product. */
bool bgi_cpu_shape_fused_product(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    static const bgi_cpu_shape shapes[BGI_PRODUCT_COUNT] = {[BGI_PRODUCT_LINEAR] = bgi_cpu_shape_linear,
                                                            [BGI_PRODUCT_LINEAR_BACKWARD_INPUT] =
                                                                bgi_cpu_shape_linear_backward_input,
                                                            [BGI_PRODUCT_MATMUL] = bgi_cpu_shape_matmul};
    const bgi_fused_product_attributes *attributes = request->attributes;
    bg_type types[BGI_FUSED_OPERANDS];
    bgi_kernel_request product = *request;

    product.types = types;
    product.input_count = bgi_fused_product_inputs(attributes, request->input_count);
    product.output_count = 1;
    for (uint32_t i = 0; i < product.input_count; i++)
        types[i] = request->types[i];
    types[product.input_count] = request->types[request->input_count];
    return shapes[attributes->product](&product, lanes, kernel);
}
