/*
 * move.c: which moves of elements, poolings and dropouts are taken. The work itself is in move_body.h and pool_body.h.
 */
#include "kernels/cpu/move.h"
#include "kernels/cpu/elementwise.h"

bool bgi_cpu_shape_copy(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_elementwise_parts((int64_t)bg_type_size_bytes(&request->types[0]) / 8 + 1);
    return true;
}

bool bgi_cpu_shape_transpose(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_transpose_attributes *attributes = request->attributes;

    (void)lanes;
    kernel->part_count = bgi_transposition_make(&request->types[0], attributes->permutation).parts;
    return true;
}

bool bgi_cpu_shape_broadcast(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    kernel->part_count = bgi_elementwise_parts(bg_type_element_count(&request->types[1]));
    return bgi_dtype_is_single(request->types[0].dtype) &&
           bgi_broadcast_view_make(&request->types[1], &request->types[0], &view);
}

bool bgi_cpu_shape_add_n(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_elementwise_parts(bg_type_element_count(&request->types[0]));
    return bgi_dtype_is_single(request->types[0].dtype);
}

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

    (void)lanes;
    kernel->part_count = bgi_move_parts(table->dims[0], table);
    return table->dtype == BG_FLOAT32;
}

bool bgi_cpu_shape_dropout(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_move_parts(request->types[0].dims[0], &request->types[0]);
    return bgi_dtype_is_single(request->types[0].dtype);
}

bool bgi_cpu_shape_max_pool2d(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_type *x = &request->types[0];

    (void)lanes;
    kernel->part_count = bgi_move_parts(x->dims[0] * x->dims[1], x);
    return bgi_dtype_is_single(x->dtype);
}

bool bgi_cpu_shape_max_pool2d_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bg_type *dx = &request->types[2];

    (void)lanes;
    kernel->part_count = bgi_move_parts(dx->dims[0] * dx->dims[1], dx);
    return dx->dtype == BG_FLOAT32;
}
