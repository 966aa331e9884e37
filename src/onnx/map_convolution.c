/*
 * map_convolution.c: maps convolutions and pools of one to three dimensions to the library's two-dimensional ones. A
 * window over one dimension is treated as a window over two dimensions, the first of size 1. A convolution of three
 * dimensions is the sum of two-dimensional convolutions of the frames, over the kernel's depth. A pool of three
 * dimensions is a pool over height and width, followed by one over the depth. Padding that differs between sides is
 * added first.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3 };

/* The parameters of a window along each spatial axis. */
typedef struct window {
    uint32_t axes; /* the number of spatial axes */
    int64_t in[MOST], kernel[MOST], stride[MOST], dilation[MOST], before[MOST], after[MOST], out[MOST];
    bool is_ceil;
} window;

static bool read_list(bgi_mapper *m, const char *attribute, uint32_t axes, int64_t least, int64_t *out)
{
    int64_t values[MOST];
    const uint32_t count = bgi_map_ints(m, attribute, values, MOST);

    for (uint32_t i = 0; i < axes; i++)
        out[i] = 1;
    if (count == 0)
        return m->reason[0] == '\0';
    if (count != axes)
        return bgi_map_refuse(m, "attribute `%s` has %u numbers but must have %u", attribute, count, axes);
    for (uint32_t i = 0; i < axes; i++) {
        if (values[i] < least || values[i] > INT32_MAX)
            return bgi_map_refuse(m, "attribute `%s` is %" PRId64 " but must be at least %" PRId64, attribute,
                                  values[i], least);
        out[i] = values[i];
    }
    return true;
}

static int64_t extent(const window *w, uint32_t axis)
{
    return (w->kernel[axis] - 1) * w->dilation[axis] + 1;
}

static bool read_pads(bgi_mapper *m, window *w)
{
    int64_t pads[2 * MOST];
    const uint32_t count = bgi_map_ints(m, "pads", pads, 2 * MOST);
    const bool is_upper = bgi_map_text_is(m, "auto_pad", "SAME_UPPER", false);
    const bool is_lower = bgi_map_text_is(m, "auto_pad", "SAME_LOWER", false);
    const bool is_explicit = bgi_map_text_is(m, "auto_pad", "NOTSET", true);

    if (m->reason[0] != '\0' || (count != 0 && count != 2 * w->axes))
        return bgi_map_refuse(m, "attribute `pads` has %u numbers but must have %u", count, 2 * w->axes);
    for (uint32_t i = 0; i < w->axes; i++) {
        w->before[i] = w->after[i] = 0;
        if (is_upper || is_lower) {
            const int64_t out = (w->in[i] + w->stride[i] - 1) / w->stride[i];
            const int64_t all = (out - 1) * w->stride[i] + extent(w, i) - w->in[i];
            const int64_t half = all > 0 ? all / 2 : 0;

            w->before[i] = is_upper ? half : (all > 0 ? all : 0) - half;
            w->after[i] = (all > 0 ? all : 0) - w->before[i];
        } else if (count != 0 && is_explicit) {
            if (pads[i] < 0 || pads[i] > INT32_MAX || pads[i + w->axes] < 0 || pads[i + w->axes] > INT32_MAX)
                return bgi_map_refuse(
                    m, "attribute `pads` has %" PRId64 " and %" PRId64 " but must have numbers of at least 0", pads[i],
                    pads[i + w->axes]);
            w->before[i] = pads[i];
            w->after[i] = pads[i + w->axes];
        }
    }
    return true;
}

/* Reads strides, dilations and padding over the spatial axes of x. If `kernel` is NULL, its sizes are read from an
 * attribute. */
static bool read_window(bgi_mapper *m, const bg_type *x, const int64_t *kernel, window *w)
{
    *w = (window){.axes = x->rank - 2};
    for (uint32_t i = 0; i < w->axes; i++)
        w->in[i] = x->dims[i + 2];
    if (kernel == NULL && !bgi_map_has(m, "kernel_shape"))
        return bgi_map_refuse(m, "attribute `kernel_shape` is missing");
    if (!read_list(m, "kernel_shape", w->axes, 1, w->kernel) || !read_list(m, "strides", w->axes, 1, w->stride) ||
        !read_list(m, "dilations", w->axes, 1, w->dilation))
        return false;
    for (uint32_t i = 0; kernel != NULL && i < w->axes; i++) {
        if (bgi_map_has(m, "kernel_shape") && w->kernel[i] != kernel[i])
            return bgi_map_refuse(m,
                                  "attribute `kernel_shape` has %" PRId64 " but the kernel of the weight has %" PRId64,
                                  w->kernel[i], kernel[i]);
        w->kernel[i] = kernel[i];
    }
    w->is_ceil = bgi_map_int(m, "ceil_mode", 0) != 0;
    if (!read_pads(m, w))
        return false;
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t room = w->in[i] + w->before[i] + w->after[i] - extent(w, i);

        if (room < 0)
            return bgi_map_refuse(m,
                                  "a window of %" PRId64 " elements does not fit dimension %u, which has %" PRId64
                                  " with its "
                                  "padding",
                                  extent(w, i), i + 2, room + extent(w, i));
        w->out[i] = (room + (w->is_ceil ? w->stride[i] - 1 : 0)) / w->stride[i] + 1;
        if (w->is_ceil && (w->out[i] - 1) * w->stride[i] >= w->in[i] + w->before[i])
            w->out[i]--; /* a window must begin in the data or in the padding before them */
    }
    return true;
}

static bool check_spatial(bgi_mapper *m, bg_value x, bg_type *type)
{
    *type = bgi_map_type(m, x);
    if (bg_value_is_null(x))
        return false;
    if (type->rank < 3 || type->rank > 2 + MOST)
        return bgi_map_refuse(m, "x has %u dimensions but must have 3 to 5", type->rank);
    return true;
}

static bool needs_floats(bgi_mapper *m, const bg_type *type)
{
    return bg_dtype_is_float(type->dtype) || bgi_map_refuse(m, "its elements are %s but only floats are supported",
                                                            bgi_onnx_element_name(bgi_map_element(m, 0)));
}

/* Pads the dimensions of x from the third on. */
static bg_value pad(bgi_mapper *m, bg_value x, const int64_t *before, const int64_t *after, uint32_t axes, double value)
{
    int64_t all[2][BG_MAX_RANK] = {{0}};
    bool is_any = false;

    for (uint32_t i = 0; i < axes; i++) {
        all[0][i + 2] = before[i];
        all[1][i + 2] = after[i];
        is_any = is_any || before[i] != 0 || after[i] != 0;
    }
    return is_any ? bg_pad(m->graph, NULL, x, BG_PAD_CONSTANT, all[0], all[1], value) : x;
}

/* ---- convolution ---- */

static bg_value convolve_2d(bgi_mapper *m, bg_value x, bg_value weight, bg_value bias, const window *w, uint32_t first,
                            int64_t groups)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    int64_t before[2], after[2];

    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t axis = first + i;
        const bool is_even = w->before[axis] == w->after[axis];

        options.stride[i] = w->stride[axis];
        options.dilation[i] = w->dilation[axis];
        options.padding[i] = is_even ? w->before[axis] : 0;
        before[i] = is_even ? 0 : w->before[axis];
        after[i] = is_even ? 0 : w->after[axis];
    }
    options.groups = groups;
    return bg_conv2d(m->graph, m->name, pad(m, x, before, after, 2, 0.0), weight, bias, &options);
}

/* Turns a window over one axis into a window over two axes, the first of size 1. */
static window with_height(const window *w)
{
    window two = {.axes = 2, .is_ceil = w->is_ceil};

    two.in[0] = two.kernel[0] = two.stride[0] = two.dilation[0] = two.out[0] = 1;
    two.in[1] = w->in[0];
    two.kernel[1] = w->kernel[0];
    two.stride[1] = w->stride[0];
    two.dilation[1] = w->dilation[0];
    two.before[1] = w->before[0];
    two.after[1] = w->after[0];
    two.out[1] = w->out[0];
    return two;
}

static bg_value add_height(bgi_mapper *m, bg_value x)
{
    const bg_type type = bgi_map_type(m, x);

    return bgi_map_reshape(m, x, 4, (const int64_t[]){type.dims[0], type.dims[1], 1, type.dims[2]});
}

static bg_value drop_height(bgi_mapper *m, bg_value x)
{
    const bg_type type = bgi_map_type(m, x);

    return bgi_map_reshape(m, x, 3, (const int64_t[]){type.dims[0], type.dims[1], type.dims[3]});
}

static bg_value frames_of(bgi_mapper *m, bg_value x)
{
    const uint32_t permutation[] = {0, 2, 1, 3, 4};
    bg_type type;

    x = bg_transpose(m->graph, NULL, x, permutation);
    type = bgi_map_type(m, x);
    return bgi_map_reshape(m, x, 4,
                           (const int64_t[]){type.dims[0] * type.dims[1], type.dims[2], type.dims[3], type.dims[4]});
}

static bg_value convolve_3d(bgi_mapper *m, bg_value x, bg_value weight, bg_value bias, const window *w, int64_t groups)
{
    const bg_type filter = bgi_map_type(m, weight), type = bgi_map_type(m, x);
    const uint32_t permutation[] = {0, 2, 1, 3, 4};
    bg_value sum = {0};
    bg_type made;

    x = pad(m, x, w->before, w->after, 1, 0.0);
    for (int64_t depth = 0; depth < w->kernel[0]; depth++) {
        const int64_t first = depth * w->dilation[0];
        bg_value part = x, slice = weight, y;

        part = bg_slice(m->graph, NULL, x, 2, first, first + (w->out[0] - 1) * w->stride[0] + 1, w->stride[0]);
        slice = bg_slice(m->graph, NULL, weight, 2, depth, depth + 1, 1);
        slice = bgi_map_reshape(m, slice, 4,
                                (const int64_t[]){filter.dims[0], filter.dims[1], filter.dims[3], filter.dims[4]});
        y = convolve_2d(m, frames_of(m, part), slice, depth == 0 ? bias : (bg_value){0}, w, 1, groups);
        sum = depth == 0 ? y : bg_add(m->graph, sum, y);
    }
    made = bgi_map_type(m, sum);
    sum = bgi_map_reshape(m, sum, 5,
                          (const int64_t[]){type.dims[0], w->out[0], made.dims[1], made.dims[2], made.dims[3]});
    return bg_transpose(m->graph, NULL, sum, permutation);
}

static bg_value convolve(bgi_mapper *m, bg_value x, bg_value weight, bg_value bias, const window *w, int64_t groups)
{
    if (w->axes == 1) {
        const window two = with_height(w);

        return drop_height(m, convolve_2d(m, add_height(m, x), add_height(m, weight), bias, &two, 0, groups));
    }
    return w->axes == 2 ? convolve_2d(m, x, weight, bias, w, 0, groups) : convolve_3d(m, x, weight, bias, w, groups);
}

static bool check_weight(bgi_mapper *m, const bg_type *x, bg_value weight, bg_type *filter)
{
    *filter = bgi_map_type(m, weight);
    if (bg_value_is_null(weight))
        return bgi_map_refuse(m, "input 1, the weight, is missing");
    if (filter->rank != x->rank)
        return bgi_map_refuse(m, "the weight has %u dimensions but x has %u", filter->rank, x->rank);
    return true;
}

static bool map_conv(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0), weight = bgi_map_in(m, 1), bias = bgi_map_in(m, 2);
    bg_type type, filter;
    window w;

    if (!check_spatial(m, x, &type) || !needs_floats(m, &type) || !check_weight(m, &type, weight, &filter) ||
        !read_window(m, &type, filter.dims + 2, &w))
        return false;
    return bgi_map_out(m, 0, convolve(m, x, weight, bias, &w, bgi_map_int(m, "group", 1)));
}

/* Maps a convolution of 8-bit operands minus zero points, in float64, which is exact. */
static bool map_conv_integer(bgi_mapper *m)
{
    bg_value x = bgi_map_cast(m, bgi_map_in(m, 0), BG_FLOAT64), weight = bgi_map_cast(m, bgi_map_in(m, 1), BG_FLOAT64);
    const bg_value x_zero = bgi_map_cast(m, bgi_map_in(m, 2), BG_FLOAT64);
    bg_value weight_zero = bgi_map_cast(m, bgi_map_in(m, 3), BG_FLOAT64);
    bg_type type, filter;
    window w;

    if (!check_spatial(m, x, &type) || !check_weight(m, &type, weight, &filter) ||
        !read_window(m, &type, filter.dims + 2, &w))
        return false;
    if (!bg_value_is_null(x_zero))
        x = bg_subtract(m->graph, x, x_zero);
    if (!bg_value_is_null(weight_zero)) {
        if (bgi_map_type(m, weight_zero).rank == 1) {
            int64_t dims[BG_MAX_RANK] = {bgi_map_type(m, weight_zero).dims[0], 1, 1, 1, 1};

            weight_zero = bgi_map_reshape(m, weight_zero, filter.rank, dims);
        }
        weight = bg_subtract(m->graph, weight, weight_zero);
    }
    x = convolve(m, x, weight, (bg_value){0}, &w, bgi_map_int(m, "group", 1));
    return bgi_map_out_as(m, 0, bgi_map_cast(m, x, BG_INT32), BGI_ONNX_INT32);
}

/* ---- transposed convolution: over x with zeros between its elements ---- */

/* Adds stride - 1 zeros after each element of one axis except the last. */
static bg_value spread(bgi_mapper *m, bg_value x, uint32_t axis, int64_t stride)
{
    const bg_type type = bgi_map_type(m, x);
    int64_t dims[4] = {1, type.dims[axis], 1, 1}, after[4] = {0, 0, stride - 1, 0}, none[4] = {0};
    int64_t made[BG_MAX_RANK], cut[BG_MAX_RANK] = {0}, zeros[BG_MAX_RANK] = {0};

    if (stride == 1)
        return x;
    for (uint32_t i = 0; i < axis; i++)
        dims[0] *= type.dims[i];
    for (uint32_t i = axis + 1; i < type.rank; i++)
        dims[3] *= type.dims[i];
    x = bgi_map_reshape(m, x, 4, dims);
    x = bg_pad(m->graph, NULL, x, BG_PAD_CONSTANT, none, after, 0.0);
    memcpy(made, type.dims, sizeof made);
    made[axis] *= stride;
    x = bgi_map_reshape(m, x, type.rank, made);
    cut[axis] = 1 - stride;
    return bg_pad(m->graph, NULL, x, BG_PAD_CONSTANT, zeros, cut, 0.0);
}

/* Converts a weight [C, O / groups, k...] to [O, C / groups, k...], reversed along each spatial axis. */
static bg_value turn_weight(bgi_mapper *m, bg_value weight, int64_t groups)
{
    const bg_type type = bgi_map_type(m, weight);
    const uint32_t permutation[] = {0, 2, 1, 3};
    int64_t rest = 1, dims[BG_MAX_RANK];

    for (uint32_t i = 2; i < type.rank; i++)
        rest *= type.dims[i];
    weight = bgi_map_reshape(m, weight, 4, (const int64_t[]){groups, type.dims[0] / groups, type.dims[1], rest});
    weight = bg_transpose(m->graph, NULL, weight, permutation);
    memcpy(dims, type.dims, sizeof dims);
    dims[0] = groups * type.dims[1];
    dims[1] = type.dims[0] / groups;
    weight = bgi_map_reshape(m, weight, type.rank, dims);
    for (uint32_t i = 2; i < type.rank; i++)
        if (type.dims[i] > 1)
            weight = bg_flip(m->graph, NULL, weight, (int32_t)i);
    return weight;
}

static bool map_conv_transpose(bgi_mapper *m)
{
    const bg_value weight = bgi_map_in(m, 1), bias = bgi_map_in(m, 2);
    const int64_t groups = bgi_map_int(m, "group", 1);
    const bool is_upper = bgi_map_text_is(m, "auto_pad", "SAME_UPPER", false);
    const bool is_same = is_upper || bgi_map_text_is(m, "auto_pad", "SAME_LOWER", false);
    int64_t extra[MOST] = {0}, shape[MOST] = {0};
    bg_value x = bgi_map_in(m, 0);
    bg_type type, filter;
    window w = {0}, plain;

    if (!check_spatial(m, x, &type) || !needs_floats(m, &type) || !check_weight(m, &type, weight, &filter))
        return false;
    w.axes = type.rank - 2;
    if (!read_list(m, "strides", w.axes, 1, w.stride) || !read_list(m, "dilations", w.axes, 1, w.dilation))
        return false;
    if (groups < 1 || filter.dims[0] % groups != 0)
        return bgi_map_refuse(m, "attribute `group` is %" PRId64 " but must divide the %" PRId64 " channels", groups,
                              filter.dims[0]);
    for (uint32_t i = 0; i < w.axes; i++) {
        w.in[i] = type.dims[i + 2];
        w.kernel[i] = filter.dims[i + 2];
    }
    if (bgi_map_has(m, "output_padding") && !read_list(m, "output_padding", w.axes, 0, extra))
        return false;
    if (bgi_map_has(m, "output_shape") && !read_list(m, "output_shape", w.axes, 1, shape))
        return false;
    if (!is_same && !read_pads(m, &w))
        return false;
    plain = w;
    for (uint32_t i = 0; i < w.axes; i++) {
        const int64_t full = w.stride[i] * (w.in[i] - 1) + extra[i] + extent(&w, i);

        if (is_same && shape[i] == 0)
            shape[i] = w.in[i] * w.stride[i];
        if (shape[i] > 0) {
            const int64_t all = full - shape[i];

            w.before[i] = all < 0    ? 0
                          : is_upper ? all / 2
                                     : all - all / 2; /* a negative number adds elements at the end */
            w.after[i] = all - w.before[i];
        }
        if (full - w.before[i] - w.after[i] < 1)
            return bgi_map_refuse(m, "padding leaves nothing of dimension %u", i + 2);
        x = spread(m, x, i + 2, w.stride[i]);
        plain.stride[i] = 1;
        plain.before[i] = extent(&w, i) - 1 - w.before[i];
        plain.after[i] = extent(&w, i) - 1 - w.after[i] + extra[i];
        plain.out[i] = full - w.before[i] - w.after[i];
    }
    x = pad(m, x, plain.before, plain.after, w.axes, 0.0); /* padding may be negative */
    memset(plain.before, 0, sizeof plain.before);
    memset(plain.after, 0, sizeof plain.after);
    return bgi_map_out(m, 0, convolve(m, x, turn_weight(m, weight, groups), bias, &plain, groups));
}

/* ---- pools ---- */

/* Pools x [N, C, H, W] over height and width. The result has exactly the window's output sizes. */
static bg_value pool_2d(bgi_mapper *m, bg_value x, const window *w, uint32_t first, bool is_max, bool counts_padding)
{
    bg_pool2d_options options = bg_pool2d_defaults(1);
    int64_t before[2], after[2];
    bool is_direct = true;
    const bg_type type = bgi_map_type(m, x);
    bg_value y, shares;
    double *values;

    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t a = first + i;
        const int64_t last = (w->out[a] - 1) * w->stride[a] + extent(w, a);

        options.kernel[i] = w->kernel[a];
        options.stride[i] = w->stride[a];
        options.dilation[i] = w->dilation[a];
        options.padding[i] = w->before[a];
        before[i] = w->before[a];
        after[i] = last - w->in[a] - w->before[a]; /* up to the end of the last window; below 0: the window ends before
                                                      the data */
        is_direct = is_direct && w->before[a] == w->after[a] && 2 * w->before[a] <= w->kernel[a] && !w->is_ceil;
    }
    options.count_include_pad = counts_padding;
    if (is_direct)
        return is_max ? bg_max_pool2d(m->graph, m->name, x, &options) : bg_avg_pool2d(m->graph, m->name, x, &options);
    options.padding[0] = options.padding[1] = 0;
    x = pad(m, x, before, after, 2, is_max ? -(double)INFINITY : 0.0);
    if (is_max)
        return bg_max_pool2d(m->graph, m->name, x, &options);
    /* The average over whole windows must be multiplied by the kernel's size divided by the number of elements that
     * count. */
    y = bg_avg_pool2d(m->graph, m->name, x, &options);
    values = malloc((size_t)(w->out[first] * w->out[first + 1] + 1) * sizeof *values);
    if (values == NULL) {
        m->is_out_of_memory = true;
        return (bg_value){0};
    }
    for (int64_t r = 0; r < w->out[first]; r++)
        for (int64_t c = 0; c < w->out[first + 1]; c++) {
            const int64_t at[2] = {r, c};
            double share = 1.0;

            for (uint32_t i = 0; i < 2; i++) {
                const uint32_t a = first + i;
                const int64_t low = counts_padding ? -w->before[a] : 0;
                const int64_t high = w->in[a] + (counts_padding ? w->after[a] : 0);
                int64_t begin = at[i] * w->stride[a] - w->before[a], end = begin + w->kernel[a];

                begin = begin < low ? low : begin;
                end = end > high ? high : end;
                share *= (double)w->kernel[a] / (double)(end > begin ? end - begin : 1);
            }
            values[r * w->out[first + 1] + c] = share;
        }
    shares = bgi_map_reals(m, type.dtype, 2, (const int64_t[]){w->out[first], w->out[first + 1]}, values);
    free(values);
    return bg_multiply(m->graph, y, shares);
}

static bg_value pool(bgi_mapper *m, bg_value x, const window *w, bool is_max, bool counts_padding)
{
    const bg_type type = bgi_map_type(m, x);
    window depth;

    if (w->axes == 1) {
        const window two = with_height(w);

        return drop_height(m, pool_2d(m, add_height(m, x), &two, 0, is_max, counts_padding));
    }
    if (w->axes == 2)
        return pool_2d(m, x, w, 0, is_max, counts_padding);
    x = bgi_map_reshape(m, x, 4,
                        (const int64_t[]){type.dims[0], type.dims[1] * type.dims[2], type.dims[3], type.dims[4]});
    x = pool_2d(m, x, w, 1, is_max, counts_padding);
    x = bgi_map_reshape(m, x, 4, (const int64_t[]){type.dims[0], type.dims[1], type.dims[2], w->out[1] * w->out[2]});
    depth = *w;
    depth.axes = 2;
    depth.in[1] = depth.out[1] = w->out[1] * w->out[2];
    depth.kernel[1] = depth.stride[1] = depth.dilation[1] = 1;
    depth.before[1] = depth.after[1] = 0;
    x = pool_2d(m, x, &depth, 0, is_max, counts_padding);
    return bgi_map_reshape(m, x, 5, (const int64_t[]){type.dims[0], type.dims[1], w->out[0], w->out[1], w->out[2]});
}

static bool map_max_pool(bgi_mapper *m)
{
    const int32_t element = bgi_map_element(m, 0);
    bg_value x = bgi_map_in(m, 0);
    bg_type type;
    window w;

    if (!check_spatial(m, x, &type) || !read_window(m, &type, NULL, &w))
        return false;
    if (bgi_map_wants(m, 1))
        return bgi_map_refuse(m, "output 1, the places of the largest elements, is used but not supported");
    if (!bg_dtype_is_float(type.dtype)) { /* 8 bits are exact in floats */
        x = pool(m, bg_cast(m->graph, NULL, x, BG_FLOAT32), &w, true, false);
        return bgi_map_out_as(m, 0, bg_cast(m->graph, NULL, x, type.dtype), element);
    }
    return bgi_map_out(m, 0, pool(m, x, &w, true, false));
}

static bool map_average_pool(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    bg_type type;
    window w;

    if (!check_spatial(m, x, &type) || !needs_floats(m, &type) || !read_window(m, &type, NULL, &w))
        return false;
    for (uint32_t i = 0; i < w.axes; i++)
        if (w.dilation[i] != 1)
            return bgi_map_refuse(m, "attribute `dilations` has %" PRId64 " but only 1 is supported", w.dilation[i]);
    return bgi_map_out(m, 0, pool(m, x, &w, false, bgi_map_int(m, "count_include_pad", 0) != 0));
}

static bool map_global_pool(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    int32_t axes[BG_MAX_RANK];

    if (bg_value_is_null(x) || !needs_floats(m, &type))
        return false;
    if (type.rank < 3)
        return bgi_map_refuse(m, "x has %u dimensions but must have at least 3", type.rank);
    for (uint32_t i = 2; i < type.rank; i++)
        axes[i - 2] = (int32_t)i;
    return bgi_map_out(m, 0,
                       bg_reduce(m->graph, m->name, (bg_reduction)bgi_map_parameter(m), x, axes, type.rank - 2, true));
}

const bgi_mapping bgi_onnx_convolution[] = {
    {"AveragePool", map_average_pool, 0},
    {"Conv", map_conv, 0},
    {"ConvInteger", map_conv_integer, 0},
    {"ConvTranspose", map_conv_transpose, 0},
    {"GlobalAveragePool", map_global_pool, BG_REDUCE_MEAN},
    {"GlobalMaxPool", map_global_pool, BG_REDUCE_MAX},
    {"MaxPool", map_max_pool, 0},
    {0},
};
