/*
 * save_convolution.c: saves convolutions, pools and interpolation. Ops over one and three dimensions need no rows,
 * because graphs build them from two-dimensional ops.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/conv/attributes.h"
#include "kernels/pool/attributes.h"
#include "kernels/resample/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static void save_window(bgi_saver *s, const int64_t padding[2], const int64_t stride[2])
{
    bgi_save_ints(s, "pads", (const int64_t[]){padding[0], padding[1], padding[0], padding[1]}, 4);
    bgi_save_ints(s, "strides", stride, 2);
}

static const char *save_product(bgi_saver *s, const char *op, const bg_conv2d_options *o, const char *bias)
{
    const bg_type w = bgi_save_type(s, 1);
    const char *x = bgi_save_in(s, 0), *y;

    y = bgi_save_3(s, op, x, bgi_save_in(s, 1), bias);
    bgi_save_ints(s, "kernel_shape", w.dims + 2, 2);
    save_window(s, o->padding, o->stride);
    bgi_save_ints(s, "dilations", o->dilation, 2);
    bgi_save_int(s, "group", o->groups);
    return y;
}

static void save_conv(bgi_saver *s)
{
    const bgi_conv2d_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch_first(s, 0);
    const char *bias = bgi_save_in(s, 2);

    bgi_save_out(s, 0, save_product(s, "Conv", &f->options, bias), batch);
}

static void save_conv_transpose(bgi_saver *s)
{
    const bgi_conv_transpose2d_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch_first(s, 0);
    const char *y = save_product(s, "ConvTranspose", &f->forward.options, NULL);

    bgi_save_ints(s, "output_padding", f->output_padding, 2);
    bgi_save_out(s, 0, y, batch);
}

/* ---- pools ---- */

/* Copies windows of different sizes along a dim into adjacent windows of the largest size, where the last element of a
 * shorter window is repeated. */
static const char *save_even_windows(bgi_saver *s, const char *x, uint32_t dim, int64_t count, int64_t *out_size)
{
    const int64_t size = bgi_save_type(s, 0).dims[dim];
    int64_t begin, end, *places;

    *out_size = 1;
    for (int64_t i = 0; i < count; i++) {
        bgi_pool_window(size, count, i, &begin, &end);
        *out_size = end - begin > *out_size ? end - begin : *out_size;
    }
    if (*out_size > INT32_MAX / count) {
        bgi_save_refuse(s, "%lld windows of up to %lld elements need too many numbers", (long long)count,
                        (long long)*out_size);
        return NULL;
    }
    places = calloc((size_t)count * (size_t)*out_size, sizeof *places);
    if (places == NULL) {
        s->is_out_of_memory = true;
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        bgi_pool_window(size, count, i, &begin, &end);
        for (int64_t k = 0; k < *out_size; k++)
            places[i * *out_size + k] = begin + k < end ? begin + k : end - 1;
    }
    x = bgi_save_2(s, "Gather", x, bgi_save_list(s, places, (uint32_t)(count * *out_size)));
    bgi_save_int(s, "axis", dim);
    free(places);
    return x;
}

static void save_adaptive_pool(bgi_saver *s, const bgi_pool2d_attributes *f)
{
    const int32_t batch = bgi_save_batch_first(s, 0);
    const char *x = bgi_save_in(s, 0);
    int64_t window[2];

    for (uint32_t dim = 0; dim < 2; dim++)
        x = save_even_windows(s, x, 2 + dim, f->sizes[dim], &window[dim]);
    x = bgi_save_1(s, "MaxPool", x);
    bgi_save_ints(s, "kernel_shape", window, 2);
    bgi_save_ints(s, "strides", window, 2);
    bgi_save_out(s, 0, x, batch);
}

static void save_max_pool(bgi_saver *s)
{
    const bgi_pool2d_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch_first(s, 0);
    const char *y;

    if (f->sizes[0] > 0) {
        save_adaptive_pool(s, f);
        return;
    }
    y = bgi_save_1(s, "MaxPool", bgi_save_in(s, 0));

    bgi_save_ints(s, "kernel_shape", f->options.kernel, 2);
    save_window(s, f->options.padding, f->options.stride);
    bgi_save_ints(s, "dilations", f->options.dilation, 2);
    bgi_save_int(s, "ceil_mode", f->options.ceil_mode);
    bgi_save_out(s, 0, y, batch);
}

static void save_avg_pool(bgi_saver *s)
{
    const bgi_pool2d_attributes *f = s->op->attributes;
    const int32_t batch = bgi_save_batch_first(s, 0);
    const char *y = bgi_save_1(s, "AveragePool", bgi_save_in(s, 0));

    bgi_save_ints(s, "kernel_shape", f->options.kernel, 2);
    save_window(s, f->options.padding, f->options.stride);
    bgi_save_int(s, "ceil_mode", f->options.ceil_mode);
    bgi_save_int(s, "count_include_pad", f->options.count_include_pad);
    bgi_save_out(s, 0, y, batch);
}

/* ---- interpolation ---- */

/* Saves the weights along an axis as a matrix: [out, in], or [in, out] for products from the right. */
static const char *save_taps(bgi_saver *s, const bgi_resample_attributes *f, int which, bg_dtype dtype)
{
    const bgi_resample_axis *axis = &f->axes[which];
    const bool is_right = which == 1;
    const int64_t dims[2] = {is_right ? axis->in : axis->out, is_right ? axis->out : axis->in};
    double *weights;
    const char *name;

    if (axis->out > (INT64_C(1) << 28) / axis->in) {
        bgi_save_refuse(s, "the matrix of averages from %lld to %lld elements would be too large", (long long)axis->in,
                        (long long)axis->out);
        return NULL;
    }
    weights = calloc((size_t)(axis->in * axis->out), sizeof *weights);
    if (weights == NULL) {
        s->is_out_of_memory = true;
        return NULL;
    }
    for (int64_t o = 0; o < axis->out; o++) {
        const bgi_resample_taps taps = bgi_resample_taps_of(f, axis, o);

        for (int64_t k = 0; k < taps.count; k++)
            weights[is_right ? (taps.first + k) * axis->out + o : o * axis->in + taps.first + k] +=
                bgi_resample_weight(&taps, k);
    }
    name = bgi_save_reals(s, dtype, 2, dims, weights);
    free(weights);
    return name;
}

/* Saves any interpolation as two products: a matrix times x for the height, and the result times a matrix for the
 * width. */
static const char *save_as_products(bgi_saver *s, const bgi_resample_attributes *f)
{
    const char *y;

    bgi_save_widen(s);
    y = bgi_save_in(s, 0);
    if (!f->axes[0].is_same)
        y = bgi_save_2(s, "MatMul", save_taps(s, f, 0, bgi_save_dtype(s, 0)), y);
    if (!f->axes[1].is_same)
        y = bgi_save_2(s, "MatMul", y, save_taps(s, f, 1, bgi_save_dtype(s, 0)));
    return y;
}

/* Returns the scale for Resize; 0 when no float gives both the size and the positions. */
static double scale_of(const bgi_resample_axis *axis)
{
    const double exact = (double)axis->out / (double)axis->in;
    const double wanted = axis->is_same ? 1.0 : axis->scale > 0.0 ? axis->scale : exact;

    if ((double)(float)wanted != wanted || floor((double)axis->in * wanted) != (double)axis->out)
        return 0.0;
    return axis->scale > 0.0 || axis->is_same || wanted * (double)axis->in == (double)axis->out ? wanted : 0.0;
}

/* Saves the sizes of the result; when the batch is open, all but the last two are read from the operand. */
static const char *save_sizes(bgi_saver *s, const char *x, const bg_type *y, int32_t batch)
{
    const char *leading;

    if (batch == BGI_SAVE_NO_BATCH || s->batch == 0)
        return bgi_save_list(s, y->dims, y->rank);
    leading = bgi_save_node(s, "Slice", 4,
                            (const char *const[]){bgi_save_1(s, "Shape", x), bgi_save_list(s, (const int64_t[]){0}, 1),
                                                  bgi_save_list(s, (const int64_t[]){y->rank - 2}, 1),
                                                  bgi_save_list(s, (const int64_t[]){0}, 1)});
    leading = bgi_save_2(s, "Concat", leading, bgi_save_list(s, y->dims + y->rank - 2, 2));
    bgi_save_int(s, "axis", 0);
    return leading;
}

static const char *save_resize(bgi_saver *s, const bgi_resample_attributes *f, int32_t batch)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[BG_COORDINATES_COUNT] = {"half_pixel", "align_corners", "asymmetric",
                                                                  "pytorch_half_pixel"};
    static const char *const nearest[BG_NEAREST_COUNT] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
    const bg_type y_type = bgi_save_result(s, 0);
    const double scales[2] = {scale_of(&f->axes[0]), scale_of(&f->axes[1])};
    double all[BG_MAX_RANK] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
    const int64_t rank = y_type.rank;
    const char *operands[4] = {bgi_save_in(s, 0), NULL, NULL, NULL}, *y;

    if (scales[0] > 0.0 && scales[1] > 0.0) {
        all[rank - 2] = scales[0];
        all[rank - 1] = scales[1];
        operands[2] = bgi_save_reals(s, BG_FLOAT32, 1, &rank, all);
    } else {
        operands[3] = save_sizes(s, operands[0], &y_type, batch);
    }
    y = bgi_save_node(s, "Resize", 4, operands);
    bgi_save_text(s, "mode", modes[f->mode]);
    bgi_save_text(s, "coordinate_transformation_mode", coordinates[f->coordinates]);
    if (f->mode == BG_INTERPOLATE_NEAREST)
        bgi_save_text(s, "nearest_mode", nearest[f->nearest]);
    if (f->mode == BG_INTERPOLATE_CUBIC)
        bgi_save_real(s, "cubic_coeff_a", f->cubic);
    return y;
}

/* Whether a Resize with sizes gives the positions of an axis, because its scale is the ratio of sizes. */
static bool is_by_sizes(const bgi_resample_axis *axis)
{
    return axis->is_same || axis->scale == 0.0;
}

static void save_resample(bgi_saver *s)
{
    const bgi_resample_attributes *f = s->op->attributes;
    const bg_type x = bgi_save_type(s, 0);
    const int32_t batch = bgi_save_batch_before(s, 0, x.rank - 2);
    const bool has_scales = scale_of(&f->axes[0]) > 0.0 && scale_of(&f->axes[1]) > 0.0;

    if (f->is_backward)
        bgi_save_refuse(s, "files cannot contain a backward pass");
    else if (f->mode != BG_INTERPOLATE_AREA && x.rank == 4 &&
             (has_scales || (is_by_sizes(&f->axes[0]) && is_by_sizes(&f->axes[1]))))
        bgi_save_out(s, 0, save_resize(s, f, batch), batch);
    else
        bgi_save_out(s, 0, save_as_products(s, f), batch);
}

const bgi_save_row bgi_save_convolution[] = {
    {&bgi_op_conv2d, save_conv, 99, NULL},         {&bgi_op_conv_transpose2d, save_conv_transpose, 99, NULL},
    {&bgi_op_max_pool2d, save_max_pool, 99, NULL}, {&bgi_op_avg_pool2d, save_avg_pool, 99, NULL},
    {&bgi_op_resample, save_resample, 0, NULL},    {0},
};
