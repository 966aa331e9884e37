/*
 * reference.c: max and average pooling in plain C. Planes are the N x C images of H x W. Gradients are gathered: each
 * element of dx sums, in index order, the gradients from the windows over it.
 */
#include "kernels/kernels.h"

#include "kernels/pool/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

typedef struct pool_geometry {
    int64_t planes;
    int64_t size[2];   /* H, W */
    int64_t pooled[2]; /* OH, OW */
    bg_pool2d_options options;
    bool is_adaptive;
} pool_geometry;

static pool_geometry read_geometry(const bg_type *x, const bg_type *y, const bgi_pool2d_attributes *attributes)
{
    return (pool_geometry){.planes = x->dims[0] * x->dims[1],
                           .size = {x->dims[2], x->dims[3]},
                           .pooled = {y->dims[2], y->dims[3]},
                           .options = attributes->options,
                           .is_adaptive = attributes->sizes[0] > 0};
}

/* Returns the number of a window's elements along `dim`. */
static int64_t window_size(const pool_geometry *g, int dim, int64_t out)
{
    int64_t begin, end;

    if (!g->is_adaptive)
        return g->options.kernel[dim];
    bgi_pool_window(g->size[dim], g->pooled[dim], out, &begin, &end);
    return end - begin;
}

/* Returns the position of window `out`'s k-th element along `dim`, which may be in the padding. */
static int64_t window_position(const pool_geometry *g, int dim, int64_t out, int64_t k)
{
    int64_t begin, end;

    if (g->is_adaptive) {
        bgi_pool_window(g->size[dim], g->pooled[dim], out, &begin, &end);
        return begin + k;
    }
    return out * g->options.stride[dim] - g->options.padding[dim] + k * g->options.dilation[dim];
}

static bool is_inside(const pool_geometry *g, int64_t h, int64_t w)
{
    return h >= 0 && h < g->size[0] && w >= 0 && w < g->size[1];
}

/* Returns the window along `dim` whose k-th element is at `at`, or -1. */
static int64_t window_of(const pool_geometry *g, int dim, int64_t at, int64_t k)
{
    const int64_t scaled = at + g->options.padding[dim] - k * g->options.dilation[dim];

    if (scaled < 0 || scaled % g->options.stride[dim] != 0 || scaled / g->options.stride[dim] >= g->pooled[dim])
        return -1;
    return scaled / g->options.stride[dim];
}

/* ---- max ---- */

/* Returns the index in the plane of the first largest element of a window; NaN wins. The shape rule guarantees that
 * each window has an element. */
static int64_t find_largest(const pool_geometry *g, bg_dtype dtype, const void *x, int64_t plane, int64_t oh,
                            int64_t ow)
{
    int64_t largest_at = -1;
    double largest = 0.0;

    for (int64_t kh = 0; kh < window_size(g, 0, oh); kh++)
        for (int64_t kw = 0; kw < window_size(g, 1, ow); kw++) {
            const int64_t h = window_position(g, 0, oh, kh), w = window_position(g, 1, ow, kw);
            double value;

            if (!is_inside(g, h, w))
                continue;
            value = bgi_load(dtype, x, (plane * g->size[0] + h) * g->size[1] + w);
            if (largest_at < 0 || value > largest || (isnan(value) && !isnan(largest))) {
                largest = value;
                largest_at = h * g->size[1] + w;
            }
        }
    return largest_at;
}

void bgi_reference_max_pool2d(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *x = bgi_input_type(call, 0);
    const pool_geometry g = read_geometry(x, bgi_output_type(call, 0), call->attributes);
    int32_t *where = bgi_output(call, 1);
    int64_t at = 0;

    (void)part;
    for (int64_t plane = 0; plane < g.planes; plane++)
        for (int64_t oh = 0; oh < g.pooled[0]; oh++)
            for (int64_t ow = 0; ow < g.pooled[1]; ow++, at++) {
                const int64_t largest_at = find_largest(&g, x->dtype, call->operands[0], plane, oh, ow);

                where[at] = (int32_t)largest_at;
                bgi_store(x->dtype, bgi_output(call, 0), at,
                          bgi_load(x->dtype, call->operands[0], plane * g.size[0] * g.size[1] + largest_at));
            }
}

/* ---- average ---- */

/* Returns the divisor of a window: the number of its elements, with or without those in the padding. Positions that
 * ceil_mode adds beyond the padding never count. */
static double count_window(const pool_geometry *g, int64_t oh, int64_t ow)
{
    const int64_t out[2] = {oh, ow};
    double count = 1.0;

    for (int dim = 0; dim < 2; dim++) {
        const int64_t margin = g->options.count_include_pad ? g->options.padding[dim] : 0;
        int64_t begin = window_position(g, dim, out[dim], 0), end = begin + g->options.kernel[dim];

        begin = begin < -margin ? -margin : begin;
        end = end > g->size[dim] + margin ? g->size[dim] + margin : end;
        count *= (double)(end - begin);
    }
    return count;
}

void bgi_reference_avg_pool2d(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *x = bgi_input_type(call, 0);
    const pool_geometry g = read_geometry(x, bgi_output_type(call, 0), call->attributes);
    int64_t at = 0;

    (void)part;
    for (int64_t plane = 0; plane < g.planes; plane++)
        for (int64_t oh = 0; oh < g.pooled[0]; oh++)
            for (int64_t ow = 0; ow < g.pooled[1]; ow++, at++) {
                double sum = 0.0;

                for (int64_t kh = 0; kh < g.options.kernel[0]; kh++)
                    for (int64_t kw = 0; kw < g.options.kernel[1]; kw++) {
                        const int64_t h = window_position(&g, 0, oh, kh), w = window_position(&g, 1, ow, kw);

                        if (is_inside(&g, h, w))
                            sum += bgi_load(x->dtype, call->operands[0], (plane * g.size[0] + h) * g.size[1] + w);
                    }
                bgi_store(x->dtype, bgi_output(call, 0), at, sum / count_window(&g, oh, ow));
            }
}

/* ---- gradients ---- */

/* Returns dx[plane,h,w]. If `where` is NULL, the pooling is an average. kh and kw decrease, so that windows come in
 * index order. */
static double gather_gradient(const pool_geometry *g, bg_dtype dtype, const void *dy, const int32_t *where,
                              int64_t plane, int64_t h, int64_t w)
{
    double sum = 0.0;

    for (int64_t kh = g->options.kernel[0] - 1; kh >= 0; kh--)
        for (int64_t kw = g->options.kernel[1] - 1; kw >= 0; kw--) {
            const int64_t oh = window_of(g, 0, h, kh), ow = window_of(g, 1, w, kw);
            int64_t at;

            if (oh < 0 || ow < 0)
                continue;
            at = (plane * g->pooled[0] + oh) * g->pooled[1] + ow;
            if (where == NULL)
                sum += bgi_load(dtype, dy, at) / count_window(g, oh, ow);
            else if (where[at] == h * g->size[1] + w)
                sum += bgi_load(dtype, dy, at);
        }
    return sum;
}

/* Does the same for windows of different sizes, whose largest elements are at `where`. */
static double gather_adaptive(const pool_geometry *g, bg_dtype dtype, const void *dy, const int32_t *where,
                              int64_t plane, int64_t place)
{
    const int64_t windows = g->pooled[0] * g->pooled[1];
    double sum = 0.0;

    for (int64_t at = plane * windows; at < (plane + 1) * windows; at++)
        sum += where[at] == place ? bgi_load(dtype, dy, at) : 0.0;
    return sum;
}

static void spread_gradient(const bg_kernel_call *call, const int32_t *where)
{
    const bg_type *dy = bgi_input_type(call, 0);
    const pool_geometry g = read_geometry(bgi_output_type(call, 0), dy, call->attributes);
    int64_t at = 0;

    for (int64_t plane = 0; plane < g.planes; plane++)
        for (int64_t h = 0; h < g.size[0]; h++)
            for (int64_t w = 0; w < g.size[1]; w++, at++)
                bgi_store(dy->dtype, bgi_output(call, 0), at,
                          g.is_adaptive
                              ? gather_adaptive(&g, dy->dtype, call->operands[0], where, plane, h * g.size[1] + w)
                              : gather_gradient(&g, dy->dtype, call->operands[0], where, plane, h, w));
}

void bgi_reference_max_pool2d_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    spread_gradient(call, call->operands[1]);
}

void bgi_reference_avg_pool2d_backward(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    spread_gradient(call, NULL);
}
