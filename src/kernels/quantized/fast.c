/*
 * fast.c: the shapes of fast products with quantized weights. fast_body.h has the computation.
 */
#include "kernels/quantized/fast.h"

bool bgi_cpu_shape_quantized_linear(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_quantized_attributes *a = request->attributes;
    const bg_type *x = &request->types[0];
    const bgi_quantized_plan plan = bgi_quantized_cut(a, x);

    if (bgi_product_pairs(kernel->state) != BGI_ISA_PORTABLE) {
        const bgi_quantized_pairs_plan pairs = bgi_quantized_pairs_cut(a, x);

        kernel->part_count = pairs.parts;
        kernel->scratch_bytes = pairs.parts * (size_t)(pairs.c_floats + pairs.a_floats) * sizeof(float);
    } else if (bgi_quantized_is_few(plan.rows)) {
        kernel->part_count = plan.parts;
        kernel->scratch_bytes = plan.parts * (size_t)plan.x_floats * sizeof(float);
    } else {
        const bgi_gemm g = bgi_quantized_gemm(a, x, lanes);

        kernel->part_count = g.parts;
        kernel->scratch_bytes = g.parts * (size_t)g.part_floats * sizeof(float);
    }
    return bgi_dtype_is_single(x->dtype);
}
