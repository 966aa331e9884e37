/*
 * choose.c: finds the fast kernel of an instruction set for a request.
 */
#include "kernels/cpu/variant.h"
#include "kernels/linear/product.h"

static const bgi_cpu_variant *find_variant(bgi_isa isa)
{
#if defined(__x86_64__)
    if (isa >= BGI_ISA_AVX512)
        return &bgi_cpu_avx512;
    if (isa == BGI_ISA_AVX2)
        return &bgi_cpu_avx2;
#elif defined(__aarch64__)
    if (isa == BGI_ISA_NEON)
        return &bgi_cpu_neon;
#endif
    (void)isa;
    return &bgi_cpu_portable;
}

/* Returns the name of a product of bfloat16, or NULL for other kernels. Several instruction sets share the body
 * (linear/pairs.h), but each set has a name. */
static const char *name_pairs(bgi_kernel_id id, bgi_isa isa)
{
#define NAMES(kernel)                                                                                                  \
    {                                                                                                                  \
        kernel ".avx512-bf16", kernel ".amx"                                                                           \
    }
    static const char *const names[BGI_KERNEL_COUNT][2] = {
        [BGI_KERNEL_LINEAR] = NAMES("linear"),
        [BGI_KERNEL_LINEAR_BACKWARD_INPUT] = NAMES("linear_backward_input"),
        [BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS] = NAMES("linear_backward_weights"),
        [BGI_KERNEL_MATMUL] = NAMES("matmul"),
        [BGI_KERNEL_ATTENTION] = NAMES("attention"),
        [BGI_KERNEL_ATTENTION_BACKWARD] = NAMES("attention_backward"),
        [BGI_KERNEL_ATTENTION_CACHED] = NAMES("attention_cached"),
        [BGI_KERNEL_DOT_PRODUCT_ATTENTION] = NAMES("dot_product_attention"),
        [BGI_KERNEL_DOT_PRODUCT_ATTENTION_BACKWARD] = NAMES("dot_product_attention_backward"),
        [BGI_KERNEL_DOT_PRODUCT_ATTENTION_BIAS_BACKWARD] = NAMES("dot_product_attention_bias_backward"),
        [BGI_KERNEL_DOT_PRODUCT_ATTENTION_CACHED] = NAMES("dot_product_attention_cached"),
        [BGI_KERNEL_CONV2D] = NAMES("conv2d"),
        [BGI_KERNEL_CONV2D_BACKWARD_INPUT] = NAMES("conv2d_backward_input"),
        [BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS] = NAMES("conv2d_backward_weights"),
        [BGI_KERNEL_QUANTIZED_LINEAR] = NAMES("quantized_linear"),
        [BGI_KERNEL_FUSED_PRODUCT] = NAMES("fused_product")};
#undef NAMES

    return names[id][isa == BGI_ISA_AMX];
}

bool bgi_cpu_select(const bgi_kernel_request *request, bgi_isa isa, bg_kernel *out)
{
    const bgi_cpu_variant *variant = find_variant(isa);
    const bgi_cpu_routine *routine = &variant->routines[request->id];
    bg_kernel kernel = {.name = routine->name,
                        .prepare = routine->prepare,
                        .run = routine->run,
                        .combine = routine->combine,
                        .finish = routine->finish,
                        .part_count = 1,
                        .combine_count = 1,
                        .state = bgi_product_state(request, isa)};

    if (bgi_product_pairs(kernel.state) != BGI_ISA_PORTABLE)
        kernel.name = name_pairs(request->id, bgi_product_pairs(kernel.state));
    if (routine->shape == NULL || !routine->shape(request, variant->lanes, &kernel))
        return false;
    *out = kernel;
    return true;
}
