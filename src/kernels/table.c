/*
 * table.c: the kernels table, and choosing from it.
 */
#include "kernels/kernels.h"

static const struct {
    const char *name;
    bg_kernel_function reference;
    bgi_kernel_choice fast;
} rows[BGI_KERNEL_COUNT] = {
#define BGI_KERNEL(id, name, reference, fast) [BGI_KERNEL_##id] = {name, reference, fast},
#include "kernels/kernels.def"
#undef BGI_KERNEL
};

const char *bgi_kernel_name(bgi_kernel_id id)
{
    return (unsigned)id < BGI_KERNEL_COUNT ? rows[id].name : "unknown";
}

bool bgi_no_fast_kernel(const bgi_kernel_request *request, bg_kernel *out)
{
    (void)request;
    (void)out;
    return false;
}

void *bgi_product_state(const bgi_kernel_request *request)
{
    static const bool rounds = true;
    const bool is_product = request->id == BGI_KERNEL_LINEAR || request->id == BGI_KERNEL_LINEAR_BACKWARD_INPUT ||
                            request->id == BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS || request->id == BGI_KERNEL_MATMUL;

    if (!is_product || request->partials != BG_BFLOAT16 || request->types[0].dtype != BG_BFLOAT16)
        return NULL;
    return (void *)(uintptr_t)&rounds;
}

bg_status bgi_kernel_select(const bgi_kernel_request *request, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    if ((unsigned)request->id >= BGI_KERNEL_COUNT)
        return bg_error_set(error, BG_ERROR_INTERNAL, "kernel %d is not in the table", (int)request->id);
    if (policy == BG_KERNELS_FAST && rows[request->id].fast(request, out))
        return BG_OK;
    *out = (bg_kernel){.name = rows[request->id].name,
                       .run = rows[request->id].reference,
                       .part_count = 1,
                       .state = bgi_product_state(request)};
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
                                        .partials = op->partials};

    return bgi_kernel_select(&request, policy, out, error);
}
