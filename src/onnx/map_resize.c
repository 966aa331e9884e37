/*
 * map_resize.c: maps Resize and Upsample, one axis after another. The nearest element is a gather of known positions;
 * linear and cubic interpolation are products with a known matrix of [new size, old size], so autodiff differentiates
 * them as products.
 *
 *     original = f(place)     by the coordinate transformation
 *     y[place] = sum over neighbors of weight x[neighbor]
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum transformation {
    HALF_PIXEL,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_CROP,
    TF_HALF_PIXEL
} transformation;
typedef enum interpolation { NEAREST, LINEAR, CUBIC } interpolation;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } rounding;

typedef struct resize {
    interpolation mode;
    transformation transform;
    rounding round;
    double cubic, extrapolation;
    bool excludes_outside;
} resize;

typedef struct axis_plan {
    int64_t in, out;
    double scale, start, end;
} axis_plan;

static double original_of(const resize *r, const axis_plan *a, int64_t place)
{
    const double p = (double)place;
    double size;

    switch (r->transform) {
    case ASYMMETRIC:
        return p / a->scale;
    case ALIGN_CORNERS:
        size = (double)a->in * a->scale; /* not rounded when the scale is given */
        return size > 1.0 ? p * (double)(a->in - 1) / (size - 1.0) : 0.0;
    case PYTORCH_HALF_PIXEL:
        return a->out > 1 ? (p + 0.5) / a->scale - 0.5 : 0.0;
    case TF_CROP:
        return a->out > 1 ? a->start * (double)(a->in - 1) +
                                p * (a->end - a->start) * (double)(a->in - 1) / (double)(a->out - 1)
                          : 0.5 * (a->start + a->end) * (double)(a->in - 1);
    case TF_HALF_PIXEL:
        return (p + 0.5) / a->scale;
    default:
        return (p + 0.5) / a->scale - 0.5;
    }
}

static int64_t clamp(int64_t value, int64_t high)
{
    return value < 0 ? 0 : value > high ? high : value;
}

static int64_t nearest(const resize *r, double x)
{
    switch (r->round) {
    case PREFER_FLOOR:
        return (int64_t)ceil(x - 0.5);
    case PREFER_CEIL:
        return (int64_t)floor(x + 0.5);
    case FLOOR:
        return (int64_t)floor(x);
    default:
        return (int64_t)ceil(x);
    }
}

/* Computes a neighbor's weight from its distance. */
static double weight_of(const resize *r, double distance)
{
    const double a = r->cubic, d = fabs(distance);

    if (r->mode == LINEAR)
        return d < 1.0 ? 1.0 - d : 0.0;
    if (d <= 1.0)
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
    return d < 2.0 ? (((d - 5.0) * d + 8.0) * d - 4.0) * a : 0.0;
}

/* Fills one row of the matrix. */
static void fill_row(const resize *r, const axis_plan *a, double x, double *row)
{
    const int64_t first = (int64_t)floor(x) - (r->mode == CUBIC ? 1 : 0), count = r->mode == CUBIC ? 4 : 2;
    double sum = 0.0;

    for (int64_t i = 0; i < count; i++) {
        const int64_t neighbor = first + i;
        const double weight = weight_of(r, x - (double)neighbor);

        if (r->excludes_outside && (neighbor < 0 || neighbor >= a->in))
            continue;
        row[clamp(neighbor, a->in - 1)] += weight;
        sum += weight;
    }
    for (int64_t i = 0; r->excludes_outside && sum != 0.0 && i < a->in; i++)
        row[i] /= sum;
}

/* The limit on the weights of an axis, which allows 4096 elements to become 8192, so that a small file cannot request
 * gigabytes. */
enum { MOST_CELLS = 1 << 25 };

/* Resizes x [.., in, ..] to [.., out, ..] along `axis`. */
static bg_value resize_axis(bgi_mapper *m, const resize *r, const axis_plan *a, bg_value x, int32_t axis)
{
    const bg_type type = bgi_map_type(m, x);
    const size_t cells = (size_t)a->out * (r->mode == NEAREST ? 1 : (size_t)a->in);
    double *matrix;
    int64_t *ids, dims[3] = {1, a->in, 1}, made[BG_MAX_RANK];
    bg_value y = {0};

    if (cells > MOST_CELLS) {
        bgi_map_refuse(m, "%" PRId64 " elements become %" PRId64 ", which needs more than %d weights", a->in, a->out,
                       MOST_CELLS);
        return y;
    }
    matrix = calloc(cells + 1, sizeof *matrix);
    ids = calloc((size_t)a->out + 1, sizeof *ids);
    if (matrix == NULL || ids == NULL) {
        m->is_out_of_memory = true;
    } else if (r->mode == NEAREST) {
        for (int64_t i = 0; i < a->out; i++)
            ids[i] = clamp(nearest(r, original_of(r, a, i)), a->in - 1);
        y = bg_gather(m->graph, m->name, x, axis, bgi_map_ints_constant(m, ids, a->out));
    } else {
        for (int64_t i = 0; i < a->out; i++)
            fill_row(r, a, original_of(r, a, i), matrix + i * a->in);
        for (int32_t i = 0; i < axis; i++)
            dims[0] *= type.dims[i];
        for (uint32_t i = (uint32_t)axis + 1; i < type.rank; i++)
            dims[2] *= type.dims[i];
        y = bgi_map_reals(m, type.dtype, 2, (const int64_t[]){a->out, a->in}, matrix);
        if (dims[2] == 1)
            y = bg_matmul(m->graph, m->name, bgi_map_reshape(m, x, 2, dims), y, false, true);
        else
            y = bg_matmul(m->graph, m->name, y, bgi_map_reshape(m, x, 3, dims), false, false);
        memcpy(made, type.dims, sizeof made);
        made[axis] = a->out;
        y = bgi_map_reshape(m, y, type.rank, made);
    }
    free(matrix);
    free(ids);
    return y;
}

/* Sets the elements of y whose position is outside the crop to the extrapolation value. */
static bg_value extrapolate(bgi_mapper *m, const resize *r, const axis_plan *a, bg_value y, int32_t axis)
{
    const uint32_t rank = bgi_map_type(m, y).rank;
    int64_t dims[BG_MAX_RANK];
    bgi_tensor *mask;
    bool is_any = false;
    bg_type type;

    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == (uint32_t)axis ? a->out : 1;
    mask = bgi_map_make(m, BGI_ONNX_BOOL, rank, dims);
    if (mask == NULL || !bgi_tensor_type(mask, &type))
        return y;
    for (int64_t i = 0; i < a->out; i++) {
        const double x = original_of(r, a, i);
        const bool is_outside = x < 0.0 || x > (double)(a->in - 1);

        bgi_tensor_set(mask, i, is_outside);
        is_any = is_any || is_outside;
    }
    if (!is_any)
        return y;
    return bg_where(m->graph, NULL, bgi_map_constant(m, &type, mask->data),
                    bgi_map_number(m, bgi_map_type(m, y).dtype, r->extrapolation), y);
}

/* Reads `per_axis` known numbers for each of `rank` axes; returns false if the node has no such numbers. */
static bool read_numbers(bgi_mapper *m, uint32_t input, uint32_t rank, double *out, uint32_t per_axis)
{
    const bgi_tensor *known = bgi_map_if_known(m, input);

    if (known == NULL || known->count == 0)
        return false;
    if (known->count != (int64_t)rank * per_axis)
        return bgi_map_refuse(m, "input %u has %" PRId64 " numbers but must have %u", input, known->count,
                              rank * per_axis);
    for (uint32_t i = 0; i < rank * per_axis; i++)
        out[i] = bgi_tensor_real(known, i);
    return true;
}

static bool read_attributes(bgi_mapper *m, resize *r)
{
    static const char *const transforms[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                             "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"};
    static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    bool is_known = !bgi_map_has(m, "coordinate_transformation_mode");

    *r = (resize){.cubic = bgi_map_real(m, "cubic_coeff_a", -0.75),
                  .extrapolation = bgi_map_real(m, "extrapolation_value", 0.0),
                  .excludes_outside = bgi_map_int(m, "exclude_outside", 0) != 0};
    if (bgi_map_text_is(m, "mode", "linear", false) || bgi_map_text_is(m, "mode", "bilinear", false))
        r->mode = LINEAR;
    else if (bgi_map_text_is(m, "mode", "cubic", false))
        r->mode = CUBIC;
    else if (!bgi_map_text_is(m, "mode", "nearest", true))
        return bgi_map_refuse(m, "attribute `mode` must be nearest, linear or cubic");
    if (m->opset < 11) { /* older opsets have no choice */
        r->transform = ASYMMETRIC;
        r->round = FLOOR;
        return true;
    }
    for (int i = 0; i < 6; i++)
        if (bgi_map_text_is(m, "coordinate_transformation_mode", transforms[i], false)) {
            r->transform = (transformation)i;
            is_known = true;
        }
    for (int i = 0; i < 4; i++)
        if (bgi_map_text_is(m, "nearest_mode", rounds[i], false))
            r->round = (rounding)i;
    if (bgi_map_int(m, "antialias", 0) != 0)
        return bgi_map_refuse(m, "attribute `antialias` is set but not supported");
    if (bgi_map_has(m, "keep_aspect_ratio_policy") && !bgi_map_text_is(m, "keep_aspect_ratio_policy", "stretch", true))
        return bgi_map_refuse(m, "attribute `keep_aspect_ratio_policy` must be stretch");
    return is_known || bgi_map_refuse(m, "attribute `coordinate_transformation_mode` has an unknown value");
}

static bool plan_axes(bgi_mapper *m, const resize *r, const bg_type *x, axis_plan *plans)
{
    const bool is_old = m->opset < 11;
    const uint32_t scales_at = is_old ? 1 : 2;
    int64_t named[BG_MAX_RANK];
    uint32_t count = bgi_map_ints(m, "axes", named, BG_MAX_RANK);
    double scales[BG_MAX_RANK], sizes[BG_MAX_RANK], roi[2 * BG_MAX_RANK];
    bool has_scales, has_sizes, has_roi;

    if (count == 0)
        for (count = 0; count < x->rank; count++)
            named[count] = count;
    for (uint32_t i = scales_at; i < m->input_count && i <= 3; i++)
        if (bgi_map_given(m, i) && bgi_map_known(m, i) == NULL)
            return false;
    if (bgi_map_has(m, "scales") && is_old) {
        const BgiOnnx__Attribute *given = bgi_map_attribute(m, "scales");

        has_scales = given->n_floats == count;
        for (uint32_t i = 0; has_scales && i < count; i++)
            scales[i] = given->floats[i];
    } else {
        has_scales = read_numbers(m, scales_at, count, scales, 1);
    }
    has_sizes = !is_old && read_numbers(m, 3, count, sizes, 1);
    has_roi = r->transform == TF_CROP && read_numbers(m, 1, count, roi, 2);
    if (m->reason[0] != '\0')
        return false;
    if (has_scales == has_sizes || (r->transform == TF_CROP && !has_roi))
        return bgi_map_refuse(m, "it must have either scales or sizes, and a region for tf_crop_and_resize");
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        axis_plan *plan;

        if (!bgi_map_axis(m, named[i], x->rank, false, &axis))
            return false;
        plan = &plans[axis];
        plan->start = has_roi ? roi[i] : 0.0;
        plan->end = has_roi ? roi[i + count] : 1.0;
        plan->scale = has_sizes ? sizes[i] / (double)plan->in : scales[i];
        if (!(plan->scale > 0.0 && plan->scale < 1e6))
            return bgi_map_refuse(m, "axis %d is scaled by %g; the scale must be above 0 and below 1e6", axis,
                                  plan->scale);
        plan->out =
            has_sizes ? (int64_t)sizes[i] : (int64_t)floor((double)plan->in * (plan->end - plan->start) * plan->scale);
        if (plan->out < 1 || plan->out > INT32_MAX)
            return bgi_map_refuse(m, "axis %d would have %" PRId64 " elements but must have 1 to 2^31 - 1", axis,
                                  plan->out);
    }
    return true;
}

static bool map_resize(bgi_mapper *m)
{
    const int32_t element = bgi_map_element(m, 0);
    bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    axis_plan plans[BG_MAX_RANK] = {{0}};
    resize r;

    if (bg_value_is_null(x) || !read_attributes(m, &r))
        return false;
    if (!bg_dtype_is_float(type.dtype) && r.mode != NEAREST)
        return bgi_map_refuse(m, "elements of type %s cannot be interpolated", bgi_onnx_element_name(element));
    for (uint32_t i = 0; i < type.rank; i++)
        plans[i] = (axis_plan){.in = type.dims[i], .out = type.dims[i], .scale = 1.0, .end = 1.0};
    if (!plan_axes(m, &r, &type, plans))
        return false;
    for (uint32_t i = 0; i < type.rank && bgi_map_is_well(m); i++)
        if (plans[i].out != plans[i].in || plans[i].scale != 1.0 || plans[i].start != 0.0 || plans[i].end != 1.0)
            x = resize_axis(m, &r, &plans[i], x, (int32_t)i);
    for (uint32_t i = 0; i < type.rank && r.transform == TF_CROP && bgi_map_is_well(m); i++)
        x = extrapolate(m, &r, &plans[i], x, (int32_t)i);
    return bgi_map_out_as(m, 0, x, element);
}

const bgi_mapping bgi_onnx_resize[] = {
    {"Resize", map_resize, 0},
    {"Upsample", map_resize, 0},
    {0},
};
