/*
 * choose.c: from a request to the fast kernel of an instruction set.
 */
#include "kernels/cpu/variant.h"
#include "kernels/linear/product.h"

static const bgi_cpu_variant *find_variant(bgi_isa isa)
{
#if defined(__x86_64__)
    if (isa == BGI_ISA_AVX512)
        return &bgi_cpu_avx512;
    if (isa == BGI_ISA_AVX2)
        return &bgi_cpu_avx2;
#endif
    (void)isa;
    return &bgi_cpu_portable;
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
                        .state = bgi_product_state(request)};

    if (routine->shape == NULL || !routine->shape(request, variant->lanes, &kernel))
        return false;
    *out = kernel;
    return true;
}
