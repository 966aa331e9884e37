/*
 * reference.c: padding element by element, in plain C.
 */
#include "kernels/kernels.h"
#include "kernels/pad/attributes.h"
#include "kernels/pad/fast.h"
#include "kernels/reference/element.h"

#include <string.h>

void bgi_reference_pad(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pad_attributes *attributes = call->attributes;
    const bgi_pad_rows r = bgi_pad_rows_make(attributes);
    const bg_dtype dtype = call->types[0].dtype;
    const size_t size = bg_dtype_size_bytes(dtype);

    (void)part;
    for (int64_t e = 0; e < r.rows * r.width; e++) {
        const int64_t row = bgi_pad_row_source(attributes, e / r.width);
        const int64_t place = bgi_pad_source(attributes->mode, e % r.width - r.before, r.x_width);

        if (row < 0 || place < 0)
            bgi_store(dtype, call->operands[1], e, attributes->value);
        else
            memcpy((char *)call->operands[1] + (size_t)e * size,
                   (const char *)call->operands[0] + (size_t)(row * r.x_width + place) * size, size);
    }
}

/* Adds contributions to dx in the order of dy; each sum is rounded to dx's type. */
void bgi_reference_pad_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pad_attributes *attributes = call->attributes;
    const bgi_pad_rows r = bgi_pad_rows_make(attributes);
    const bg_dtype dtype = call->types[0].dtype;
    void *dx = call->operands[1];

    (void)part;
    memset(dx, 0, bg_type_size_bytes(&call->types[1]));
    for (int64_t e = 0; e < r.rows * r.width; e++) {
        const int64_t row = bgi_pad_row_source(attributes, e / r.width);
        const int64_t place = bgi_pad_source(attributes->mode, e % r.width - r.before, r.x_width);
        const int64_t at = row * r.x_width + place;

        if (row >= 0 && place >= 0)
            bgi_store(dtype, dx, at, bgi_load(dtype, dx, at) + bgi_load(dtype, call->operands[0], e));
    }
}
