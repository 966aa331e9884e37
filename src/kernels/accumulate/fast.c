/*
 * fast.c: the shapes of fast sums of gradients. fast_body.h has the computation.
 */
#include "kernels/accumulate/attributes.h"
#include "kernels/elementwise/fast.h"

bool bgi_cpu_shape_accumulate(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    return bgi_dtype_is_single(request->types[0].dtype) && bgi_dtype_is_single(request->types[1].dtype) &&
           bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_accumulate_tree(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return bgi_cpu_shape_accumulate(request, lanes, kernel);
}

bool bgi_cpu_shape_scaled_sum(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bool are_single = bgi_dtype_is_single(request->types[request->input_count].dtype);

    (void)lanes;
    for (uint32_t i = 0; i < request->input_count; i += 2)
        are_single = are_single && bgi_dtype_is_single(request->types[i].dtype);
    return are_single && bgi_elementwise_take(kernel, &request->types[0]);
}

bool bgi_cpu_shape_square_sum(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_square_sum_attributes *attributes = request->attributes;
    const bool is_whole = bgi_has_all_pieces(&request->types[0], attributes->elements);

    (void)lanes;
    if (!bgi_dtype_is_single(request->types[0].dtype))
        return false;
    kernel->part_count = bgi_elementwise_parts(bgi_piece_size(attributes->elements, attributes->pieces)) *
                         (is_whole ? attributes->pieces : 1);
    kernel->scratch_bytes = kernel->part_count * sizeof(double);
    return true;
}

bool bgi_cpu_shape_add_n(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    (void)lanes;
    kernel->part_count = bgi_elementwise_parts(bg_type_element_count(&request->types[0]));
    return bgi_dtype_is_single(request->types[0].dtype);
}
