/*
 * reference.c: convolution, bias, max pool and optional relu in one kernel, in plain C. The result is that of the
 * separate ops, bit for bit: the convolution's elements are rounded to the element type before they are compared.
 * Letters: see conv/reference.h; PH x PW is the pooled output. Rows and columns of the convolution outside all windows
 * are skipped.
 */
#include "kernels/kernels.h"

#include "kernels/conv/reference.h"
#include "kernels/conv_pool/attributes.h"
#include "kernels/reference/operands.h"

enum { NOTHING_ABOVE_ZERO = 255 };

static bgi_conv_geometry read_geometry(const bgi_conv2d_pool_attributes *attributes, const bg_type *x,
                                       const bg_type *weight)
{
    const bg_conv2d_options options = {
        .stride = {1, 1}, .padding = {attributes->padding[0], attributes->padding[1]}, .dilation = {1, 1}, .groups = 1};

    return bgi_conv_geometry_make(x, weight, x->dims[2] + 2 * options.padding[0] - weight->dims[2] + 1,
                                  x->dims[3] + 2 * options.padding[1] - weight->dims[3] + 1, &options);
}

static double round_to(bg_dtype dtype, double value)
{
    switch (dtype) {
    case BG_FLOAT32:
        return (float)value;
    case BG_BFLOAT16:
    case BG_FLOAT16:
        return bgi_narrow_to_float(dtype, bgi_narrow_from_float(dtype, (float)value));
    default:
        return value;
    }
}

/* Finds the first largest element of one window (NaN wins) and its offset. */
static double find_largest(const bgi_conv_geometry *g, const bg_kernel_call *call, const int64_t pool[2], int64_t n,
                           int64_t o, int64_t ph, int64_t pw, int64_t *out_offset)
{
    const bg_dtype dtype = call->types[0].dtype;
    double largest = 0.0;

    *out_offset = -1;
    for (int64_t i = 0; i < pool[0] * pool[1]; i++) {
        const int64_t oh = ph * pool[0] + i / pool[1], ow = pw * pool[1] + i % pool[1];
        const double sum = bgi_convolve_at(g, dtype, call->operands[0], call->operands[1], n, o, oh, ow);
        const double value = round_to(dtype, sum + bgi_load(dtype, call->operands[2], o));

        if (*out_offset < 0 || value > largest || (isnan(value) && !isnan(largest))) {
            largest = value;
            *out_offset = i;
        }
    }
    return largest;
}

void bgi_reference_conv2d_pool(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv2d_pool_attributes *attributes = call->attributes;
    const bgi_conv_geometry g = read_geometry(attributes, bgi_input_type(call, 0), bgi_input_type(call, 1));
    const bg_type *y = bgi_output_type(call, 0);
    uint8_t *where = bgi_output(call, 1);
    int64_t at = 0;

    (void)part;
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t o = 0; o < g.o; o++)
            for (int64_t ph = 0; ph < y->dims[2]; ph++)
                for (int64_t pw = 0; pw < y->dims[3]; pw++, at++) {
                    int64_t offset;
                    double value = find_largest(&g, call, attributes->pool, n, o, ph, pw, &offset);

                    if (attributes->relu && value <= 0.0) {
                        value = 0.0;
                        offset = NOTHING_ABOVE_ZERO;
                    }
                    bgi_store(y->dtype, bgi_output(call, 0), at, value);
                    where[at] = (uint8_t)offset;
                }
}

/* dy of the pooled output, from which read_pooled_dy makes the gradient of the convolution's output: zero except at the
 * largest element of each window. */
typedef struct pooled_dy {
    const bg_type *type;
    const void *data;
    const uint8_t *where;
    const int64_t *pool;
} pooled_dy;

static double read_pooled_dy(const void *source, const bgi_conv_geometry *g, int64_t n, int64_t o, int64_t oh,
                             int64_t ow)
{
    const pooled_dy *dy = source;
    const int64_t ph = oh / dy->pool[0], pw = ow / dy->pool[1];
    const int64_t offset = oh % dy->pool[0] * dy->pool[1] + ow % dy->pool[1];
    int64_t at;

    if (ph >= dy->type->dims[2] || pw >= dy->type->dims[3])
        return 0.0;
    at = ((n * g->o + o) * dy->type->dims[2] + ph) * dy->type->dims[3] + pw;
    return dy->where[at] == offset ? bgi_load(dy->type->dtype, dy->data, at) : 0.0;
}

static pooled_dy read_operands(const bg_kernel_call *call)
{
    const bgi_conv2d_pool_attributes *attributes = call->attributes;

    return (pooled_dy){bgi_input_type(call, 0), call->operands[0], call->operands[1], attributes->pool};
}

void bgi_reference_conv2d_pool_backward_input(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv_geometry g = read_geometry(call->attributes, bgi_output_type(call, 0), bgi_input_type(call, 2));
    const pooled_dy dy = read_operands(call);

    (void)part;
    bgi_convolve_backward_input(&g, dy.type->dtype, read_pooled_dy, &dy, call->operands[2], bgi_output(call, 0));
}

void bgi_reference_conv2d_pool_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv_geometry g = read_geometry(call->attributes, &call->types[2], &call->types[3]);
    const pooled_dy dy = read_operands(call);

    (void)part;
    bgi_convolve_backward_weights(&g, call, read_pooled_dy, &dy, call->operands[2], 3);
}
