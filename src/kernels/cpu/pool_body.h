/*
 * pool_body.h: max pooling of any window, and its gradient. A part is a run of planes.
 */
#ifndef BGI_CPU_POOL_BODY_H
#define BGI_CPU_POOL_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/move.h"

typedef struct pool_shape {
    bg_dtype dtype;
    int64_t planes, h, w, oh, ow;
    const bg_pool2d_options *options;
} pool_shape;

static pool_shape read_pool_shape(const bg_type *x, const bg_type *y, const bgi_pool2d_attributes *attributes)
{
    return (pool_shape){x->dtype,   x->dims[0] * x->dims[1], x->dims[2], x->dims[3], y->dims[2],
                        y->dims[3], &attributes->options};
}

/* Where the window that begins at `start` first and last reads inside 0..size - 1. */
static void clip_window(int64_t start, int64_t dilation, int64_t kernel, int64_t size, int64_t *first, int64_t *end)
{
    const int64_t skip = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t fit = size > start ? (size - start - 1) / dilation + 1 : 0;

    *first = start + skip * dilation;
    *end = start + (fit < kernel ? fit : kernel) * dilation;
}

ALWAYS_INLINE float load_element(bg_dtype dtype, const void *x, int64_t at)
{
    return dtype == BG_FLOAT32 ? ((const float *)x)[at] : bgi_narrow_to_float(dtype, ((const uint16_t *)x)[at]);
}

/* Index in the plane of the first largest element; NaN wins. */
ALWAYS_INLINE int64_t find_largest(const pool_shape *s, const bg_dtype dtype, const void *x, int64_t plane, int64_t oh,
                                   int64_t ow)
{
    const bg_pool2d_options *o = s->options;
    int64_t h0, h1, w0, w1, at = -1;
    float largest = 0.0f;

    clip_window(oh * o->stride[0] - o->padding[0], o->dilation[0], o->kernel[0], s->h, &h0, &h1);
    clip_window(ow * o->stride[1] - o->padding[1], o->dilation[1], o->kernel[1], s->w, &w0, &w1);
    for (int64_t h = h0; h < h1; h += o->dilation[0])
        for (int64_t w = w0; w < w1; w += o->dilation[1]) {
            const float value = load_element(dtype, x, (plane * s->h + h) * s->w + w);

            if (at < 0 || (largest == largest && !(value <= largest))) {
                largest = value;
                at = h * s->w + w;
            }
        }
    return at;
}

ALWAYS_INLINE void pool_plane(const pool_shape *s, const bg_dtype dtype, const bg_kernel_call *call, int64_t plane)
{
    int32_t *where = call->operands[2];
    int64_t to = plane * s->oh * s->ow;

    for (int64_t oh = 0; oh < s->oh; oh++)
        for (int64_t ow = 0; ow < s->ow; ow++, to++) {
            const int64_t at = find_largest(s, dtype, call->operands[0], plane, oh, ow);

            where[to] = (int32_t)at;
            if (dtype == BG_FLOAT32)
                ((float *)call->operands[1])[to] = ((const float *)call->operands[0])[plane * s->h * s->w + at];
            else
                ((uint16_t *)call->operands[1])[to] = ((const uint16_t *)call->operands[0])[plane * s->h * s->w + at];
        }
}

static void run_max_pool2d(const bg_kernel_call *call, uint32_t part)
{
    const pool_shape s = read_pool_shape(&call->types[0], &call->types[1], call->attributes);
    const uint32_t parts = bgi_move_parts(s.planes, &call->types[0]);

    for (int64_t plane = bgi_cpu_part_start(s.planes, part, parts);
         plane < bgi_cpu_part_start(s.planes, part + 1, parts); plane++)
        if (s.dtype == BG_FLOAT32)
            pool_plane(&s, BG_FLOAT32, call, plane);
        else if (s.dtype == BG_BFLOAT16)
            pool_plane(&s, BG_BFLOAT16, call, plane);
        else
            pool_plane(&s, BG_FLOAT16, call, plane);
}

/* Windows in index order. */
static void run_max_pool2d_backward(const bg_kernel_call *call, uint32_t part)
{
    const pool_shape s = read_pool_shape(&call->types[2], &call->types[0], call->attributes);
    const uint32_t parts = bgi_move_parts(s.planes, &call->types[2]);
    const float *dy = call->operands[0];
    const int32_t *where = call->operands[1];

    for (int64_t plane = bgi_cpu_part_start(s.planes, part, parts);
         plane < bgi_cpu_part_start(s.planes, part + 1, parts); plane++) {
        float *dx = (float *)call->operands[2] + plane * s.h * s.w;

        memset(dx, 0, (size_t)(s.h * s.w) * sizeof(float));
        for (int64_t i = plane * s.oh * s.ow; i < (plane + 1) * s.oh * s.ow; i++)
            dx[where[i]] += dy[i];
    }
}

#endif
