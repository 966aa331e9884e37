/*
 * reference.c: 2-d convolution in plain C: one sum for each element of a result. Sums are kept in double; the bias
 * comes last.
 */
#include "kernels/kernels.h"

#include "kernels/conv/attributes.h"
#include "kernels/conv/reference.h"
#include "kernels/reference/operands.h"

void bgi_reference_conv2d(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bg_type *y = bgi_output_type(call, 0);
    const bgi_conv_geometry g = bgi_conv_geometry_make(bgi_input_type(call, 0), bgi_input_type(call, 1), y->dims[2],
                                                       y->dims[3], &attributes->options);
    const void *bias = call->input_count > 2 ? call->operands[2] : NULL;
    int64_t at = 0;

    (void)part;
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t o = 0; o < g.o; o++)
            for (int64_t oh = 0; oh < g.oh; oh++)
                for (int64_t ow = 0; ow < g.ow; ow++, at++) {
                    double sum = bgi_convolve_at(&g, y->dtype, call->operands[0], call->operands[1], n, o, oh, ow);

                    if (bias != NULL)
                        sum += bgi_load(y->dtype, bias, o);
                    bgi_store(y->dtype, bgi_output(call, 0), at, sum);
                }
}

typedef struct dense_dy {
    bg_dtype dtype;
    const void *data;
} dense_dy;

static double read_dense_dy(const void *source, const bgi_conv_geometry *g, int64_t n, int64_t o, int64_t oh,
                            int64_t ow)
{
    const dense_dy *dy = source;

    return bgi_load(dy->dtype, dy->data, ((n * g->o + o) * g->oh + oh) * g->ow + ow);
}

void bgi_reference_conv2d_backward_input(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bg_type *dy = bgi_input_type(call, 0);
    const bgi_conv_geometry g = bgi_conv_geometry_make(bgi_output_type(call, 0), bgi_input_type(call, 1), dy->dims[2],
                                                       dy->dims[3], &attributes->options);
    const dense_dy source = {dy->dtype, call->operands[0]};

    (void)part;
    bgi_convolve_backward_input(&g, dy->dtype, read_dense_dy, &source, call->operands[1], bgi_output(call, 0));
}

void bgi_reference_conv2d_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_attributes *attributes = call->attributes;
    const bg_type *dy = bgi_input_type(call, 0);
    const bgi_conv_geometry g =
        bgi_conv_geometry_make(&call->types[1], &call->types[2], dy->dims[2], dy->dims[3], &attributes->options);
    const dense_dy source = {dy->dtype, call->operands[0]};

    (void)part;
    bgi_convolve_backward_weights(&g, call, read_dense_dy, &source, call->operands[1], 2);
}
