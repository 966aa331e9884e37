/*
 * reference.c: kernels that move elements and compute nothing: whole elements are copied as bytes, so every type passes
 * unchanged (NaN payloads too).
 */
#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/reshape/attributes.h"

static void copy_elements(const bg_kernel_call *call, uint32_t to, int64_t to_index, uint32_t from, int64_t from_index,
                          int64_t count)
{
    const size_t size = bg_dtype_size_bytes(call->types[from].dtype);

    memcpy((unsigned char *)call->operands[to] + (size_t)to_index * size,
           (const unsigned char *)call->operands[from] + (size_t)from_index * size, (size_t)count * size);
}

/* Returns the product of the dims after `axis`. */
static int64_t count_inner(const bg_type *type, uint32_t axis)
{
    int64_t count = 1;

    for (uint32_t i = axis + 1; i < type->rank; i++)
        count *= type->dims[i];
    return count;
}

void bgi_reference_copy(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    if (call->operands[0] != call->operands[1])
        memcpy(call->operands[1], call->operands[0], bg_type_size_bytes(&call->types[0]));
}

void bgi_reference_transpose(const bg_kernel_call *call, uint32_t part)
{
    const bgi_transpose_attributes *attributes = call->attributes;
    const bg_type *x = &call->types[0], *y = &call->types[1];
    const int64_t count = bg_type_element_count(y);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, from = 0;

        for (uint32_t dim = y->rank; dim-- > 0;) {
            const uint32_t source = attributes->permutation[dim];

            from += rest % y->dims[dim] * count_inner(x, source);
            rest /= y->dims[dim];
        }
        copy_elements(call, 1, i, 0, from, 1);
    }
}

void bgi_reference_slice(const bg_kernel_call *call, uint32_t part)
{
    const bgi_slice_attributes *attributes = call->attributes;
    const bg_type *x = &call->types[0], *y = &call->types[1];
    const int64_t inner = count_inner(x, attributes->axis);
    const int64_t x_size = x->dims[attributes->axis], y_size = y->dims[attributes->axis];
    const int64_t outer = bg_type_element_count(y) / (inner * y_size);

    (void)part;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < y_size; i++)
            copy_elements(call, 1, (o * y_size + i) * inner, 0,
                          (o * x_size + attributes->start + i * attributes->step) * inner, inner);
}

void bgi_reference_slice_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_slice_attributes *attributes = call->attributes;
    const bg_type *dy = &call->types[0], *dx = &call->types[1];
    const int64_t inner = count_inner(dx, attributes->axis);
    const int64_t dx_size = dx->dims[attributes->axis], dy_size = dy->dims[attributes->axis];
    const int64_t outer = bg_type_element_count(dy) / (inner * dy_size);

    (void)part;
    memset(call->operands[1], 0, bg_type_size_bytes(dx));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < dy_size; i++)
            copy_elements(call, 1, (o * dx_size + attributes->start + i * attributes->step) * inner, 0,
                          (o * dy_size + i) * inner, inner);
}

void bgi_reference_roll(const bg_kernel_call *call, uint32_t part)
{
    const bgi_roll_attributes *attributes = call->attributes;
    const bg_type *y = &call->types[1];
    const int64_t inner = count_inner(y, attributes->axis), size = y->dims[attributes->axis];
    const int64_t outer = bg_type_element_count(y) / (inner * size);

    (void)part;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < size; i++)
            copy_elements(call, 1, (o * size + i) * inner, 0, (o * size + (attributes->first + i) % size) * inner,
                          inner);
}

void bgi_reference_concat(const bg_kernel_call *call, uint32_t part)
{
    const uint32_t axis = ((const bgi_axis_attributes *)call->attributes)->axis;
    const bg_type *y = &call->types[call->input_count];
    const int64_t inner = count_inner(y, axis), y_size = y->dims[axis];
    const int64_t outer = bg_type_element_count(y) / (inner * y_size);
    int64_t start = 0;

    (void)part;
    for (uint32_t input = 0; input < call->input_count; input++) {
        const int64_t size = call->types[input].dims[axis];

        for (int64_t o = 0; o < outer; o++)
            copy_elements(call, call->input_count, (o * y_size + start) * inner, input, o * size * inner, size * inner);
        start += size;
    }
}
