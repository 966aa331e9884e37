/*
 * reference.c: products with quantized weights, and rows of them, in plain C.
 */
#include "kernels/kernels.h"
#include "kernels/quantized/attributes.h"
#include "kernels/reference/operands.h"

void bgi_reference_quantized_linear(const bg_kernel_call *call, uint32_t part)
{
    const bgi_quantized_attributes *a = call->attributes;
    const bg_type *x = &call->types[0];
    const int64_t rows = bg_type_element_count(x) / a->in;

    (void)part;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < a->out; o++) {
            double sum = 0.0;

            for (int64_t i = 0; i < a->in; i++)
                sum += bgi_load(x->dtype, call->operands[0], r * a->in + i) *
                       (double)bgi_quantized_value(call->operands[1], a->in, a->bits, o, i);
            bgi_store(x->dtype, call->operands[2], r * a->out + o, sum);
        }
}

/* Copies rows of the table as float32; an id outside the table reads as zeros. */
void bgi_reference_quantized_embedding(const bg_kernel_call *call, uint32_t part)
{
    const bgi_quantized_attributes *a = call->attributes;
    const int64_t count = bg_type_element_count(&call->types[1]);
    const int32_t *ids = call->operands[1];
    float *y = call->operands[2];

    (void)part;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < a->in; j++)
            y[i * a->in + j] = ids[i] < 0 || ids[i] >= a->out
                                   ? 0.0F
                                   : bgi_quantized_value(call->operands[0], a->in, a->bits, ids[i], j);
}
