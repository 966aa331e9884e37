/*
 * fast.c: the shapes of fast embeddings. fast_body.h has the computation.
 */
#include "kernels/embedding/fast.h"

#include "kernels/cpu/move.h"

bool bgi_cpu_shape_embedding(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count =
        bgi_move_parts(bg_type_element_count(&request->types[1]), &request->types[request->input_count]);
    return true;
}

bool bgi_cpu_shape_embedding_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_type *table = &request->types[request->input_count];
    const bgi_embedding_uses uses = bgi_embedding_uses_view(NULL, &request->types[1], table);

    (void)lanes;
    kernel->part_count = bgi_move_parts(table->dims[0], table);
    kernel->scratch_bytes = (size_t)(uses.rows + uses.count) * sizeof(int32_t);
    return bgi_dtype_is_single(table->dtype);
}

bool bgi_cpu_shape_embedding_rows(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_move_parts(bg_type_element_count(&request->types[1]) / 2, &request->types[0]);
    return bgi_dtype_is_single(request->types[0].dtype);
}

bool bgi_cpu_shape_embedding_rows_add(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_move_parts(request->types[0].dims[0], &request->types[0]);
    return true;
}
