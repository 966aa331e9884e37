/*
 * fast.c: the shapes of fast losses. fast_body.h has the computation.
 */
#include "kernels/loss/fast.h"

static bool take(bg_kernel *kernel, const bg_type *logits)
{
    const bgi_loss_rows rows = bgi_loss_rows_read(logits);

    if (!bgi_dtype_is_single(logits->dtype))
        return false;
    kernel->part_count = rows.parts;
    kernel->scratch_bytes = rows.parts * bgi_loss_part_bytes(&rows);
    return true;
}

static bool are_labels(const bg_type *labels)
{
    return labels->dtype == BG_UINT8 || labels->dtype == BG_INT32;
}

bool bgi_cpu_shape_cross_entropy(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return are_labels(&request->types[1]) && request->types[request->input_count].dtype == BG_FLOAT32 &&
           take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_cross_entropy_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return are_labels(&request->types[2]) && request->types[0].dtype == BG_FLOAT32 && take(kernel, &request->types[1]);
}

bool bgi_cpu_shape_logit_maximum(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_logit_sums(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return are_labels(&request->types[1]) && take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_sharded_cross_entropy(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return are_labels(&request->types[1]) && request->types[5].dtype == BG_FLOAT32 && take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_correct_count(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return are_labels(&request->types[1]) && take(kernel, &request->types[0]);
}
