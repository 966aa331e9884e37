/*
 * table.c: the table of kernels, and the choice of a kernel from it.
 */
#include "kernels/kernels.h"

#include "kernels/cpu/variant.h"
#include "kernels/linear/product.h"

#define BGI_FAMILY_FILE(family) <kernels/family/attributes.h>
#include "kernels/kernels.def"

static const struct {
    const char *name;
    bg_kernel_function reference;
    size_t attributes_bytes;
} rows[BGI_KERNEL_COUNT] = {
#define BGI_KERNEL(ID, kernel, bytes)                                                                                  \
    [BGI_KERNEL_##ID] = {.name = #kernel, .reference = bgi_reference_##kernel, .attributes_bytes = bytes},
#include "kernels/kernels.def"
};

const char *bgi_kernel_name(bgi_kernel_id id)
{
    return (unsigned)id < BGI_KERNEL_COUNT ? rows[id].name : "unknown";
}

size_t bgi_kernel_attributes_bytes(bgi_kernel_id id)
{
    return (unsigned)id < BGI_KERNEL_COUNT ? rows[id].attributes_bytes : 0;
}

void bgi_kernel_run(const bg_kernel *kernel, const bg_kernel_call *call)
{
    if (kernel->prepare != NULL)
        kernel->prepare(call);
    for (uint32_t part = 0; part < kernel->part_count; part++)
        kernel->run(call, part);
    for (uint32_t part = 0; kernel->combine != NULL && part < kernel->combine_count; part++)
        kernel->combine(call, part);
    if (kernel->finish != NULL)
        kernel->finish(call);
}

bgi_isa bgi_kernel_isa(bg_kernel_policy policy)
{
    static const bgi_isa most[] = {
        [BG_KERNELS_FAST] = BGI_ISA_COUNT,        [BG_KERNELS_REFERENCE] = BGI_ISA_PORTABLE,
        [BG_KERNELS_PORTABLE] = BGI_ISA_PORTABLE, [BG_KERNELS_AVX2] = BGI_ISA_AVX2,
        [BG_KERNELS_AVX512] = BGI_ISA_AVX512,     [BG_KERNELS_AVX512_BF16] = BGI_ISA_AVX512_BF16,
        [BG_KERNELS_NEON] = BGI_ISA_NEON};
    const bgi_isa has = bgi_cpu_isa();

    if ((size_t)policy >= sizeof most / sizeof most[0] || most[policy] == BGI_ISA_COUNT)
        return has;
    return bgi_isa_common(most[policy], has);
}

bg_status bgi_kernel_select(const bgi_kernel_request *request, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    if ((unsigned)request->id >= BGI_KERNEL_COUNT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "kernel %d is not in the table of kernels", (int)request->id);
    if (request->attributes == NULL && rows[request->id].attributes_bytes > 0)
        return bg_error_set(error, BG_ERROR_INTERNAL, "kernel `%s` reads %zu bytes of attributes but got none",
                            rows[request->id].name, rows[request->id].attributes_bytes);
    if (policy != BG_KERNELS_REFERENCE && bgi_cpu_select(request, bgi_kernel_isa(policy), out))
        return BG_OK;
    *out = (bg_kernel){.name = rows[request->id].name,
                       .run = rows[request->id].reference,
                       .part_count = 1,
                       .state = bgi_product_state(request, BGI_ISA_PORTABLE)};
    return BG_OK;
}

bg_status bgi_kernel_for_op(bgi_kernel_id id, const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out,
                            bg_error *error)
{
    const bgi_kernel_request request = {.id = id,
                                        .types = op->types,
                                        .input_count = op->input_count,
                                        .output_count = op->output_count,
                                        .attributes = op->attributes,
                                        .partials = op->partials,
                                        .scratch_limit = op->scratch_limit};

    return bgi_kernel_select(&request, policy, out, error);
}
