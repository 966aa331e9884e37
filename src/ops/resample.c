/*
 * resample.c: defines interpolation. One op covers two axes; its gradient is the same op in the other direction.
 */
#include <brigade/ops.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/resample/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

enum { MOST_DIMS = 3 };

BGI_OP_KERNEL(select_resample, RESAMPLE)

static bg_status check_attributes(const bgi_resample_attributes *a, bg_error *error)
{
    if ((unsigned)a->mode >= BG_INTERPOLATION_COUNT || (unsigned)a->coordinates >= BG_COORDINATES_COUNT ||
        (unsigned)a->nearest >= BG_NEAREST_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "mode is %d, coordinates is %d and nearest is %d; they must be less than %d, %d and %d",
                            (int)a->mode, (int)a->coordinates, (int)a->nearest, BG_INTERPOLATION_COUNT,
                            BG_COORDINATES_COUNT, BG_NEAREST_COUNT);
    if (!isfinite(a->cubic))
        return bg_error_set(error, BG_ERROR_INVALID, "cubic is %g; it must be finite", a->cubic);
    for (int i = 0; i < 2; i++) {
        const bgi_resample_axis *axis = &a->axes[i];

        if (!isfinite(axis->scale) || axis->scale < 0.0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "a scale is %g; it must be finite and above 0, or 0 for the ratio of the sizes",
                                axis->scale);
        if (axis->in < 1 || axis->out < 1 || axis->in > INT32_MAX || axis->out > INT32_MAX)
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "an axis is resampled from %lld to %lld elements; both numbers must be at least 1 and at most %d",
                (long long)axis->in, (long long)axis->out, INT32_MAX);
        if (axis->is_same && axis->in != axis->out)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "an axis marked as unchanged is resampled from %lld to %lld elements; both numbers must be equal",
                (long long)axis->in, (long long)axis->out);
    }
    return BG_OK;
}

static bg_status infer_resample(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_resample_attributes *a = op->attributes;
    const bg_type *x = &op->types[0];

    BGI_TRY(check_attributes(a, error));
    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 2, "[..,H,W]", error));
    outputs[0] = *x;
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t from = a->is_backward ? a->axes[i].out : a->axes[i].in;

        BGI_TRY(bgi_shape_dim(x, "x", x->rank - 2 + i, from, "the size in the op's attributes", error));
        outputs[0].dims[x->rank - 2 + i] = a->is_backward ? a->axes[i].in : a->axes[i].out;
    }
    return bg_type_validate(&outputs[0], error);
}

static bg_status differentiate_resample(bg_op_gradient *gradient, bg_error *error)
{
    bgi_resample_attributes attributes = *(const bgi_resample_attributes *)gradient->op.attributes;

    attributes.is_backward = !attributes.is_backward;
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_resample, NULL, gradient->output_gradients, 1, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_resample(const bg_op_signature *op)
{
    const bgi_resample_attributes *a = op->attributes;
    const double taps = a->mode == BG_INTERPOLATE_CUBIC ? 8.0 : a->mode == BG_INTERPOLATE_LINEAR ? 4.0 : 1.0;

    return bgi_cost_once(op, 2.0 * taps * bgi_type_elements(&op->types[a->is_backward ? 0 : 1]));
}

const bg_op_type bgi_op_resample = {
    BG_OP_TYPE_DEFAULTS,     .name = "resample",
    .minimum_inputs = 1,     .maximum_inputs = 1,
    .output_count = 1,       .attributes_bytes = sizeof(bgi_resample_attributes),
    .infer = infer_resample, .gradient = differentiate_resample,
    .cost = cost_resample,   .kernel = select_resample,
};

/* ---- the builder ---- */

void bg_interpolate_options_init(bg_interpolate_options *options, size_t struct_bytes, bg_interpolation mode)
{
    const bg_interpolate_options made = {.struct_bytes = struct_bytes,
                                         .mode = mode,
                                         .coordinates = mode == BG_INTERPOLATE_NEAREST ? BG_COORDINATES_ASYMMETRIC
                                                                                       : BG_COORDINATES_HALF_PIXEL,
                                         .nearest = BG_NEAREST_FLOOR,
                                         .cubic = -0.75};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Reads the options of dimension `dim` after the channels, which has `in` elements. Returns false on failure, with the
 * error in the graph. */
static bool read_axis(bg_graph *graph, const char *name, const bg_interpolate_options *options, uint32_t dim,
                      int64_t in, bgi_resample_axis *out)
{
    const double scale = options->scale[dim], wanted = floor((double)in * scale);
    const int64_t size = options->size[dim];

    if (!isfinite(scale) || scale < 0.0 || size < 0 ||
        (size == 0 && scale > 0.0 && !(wanted >= 1.0 && wanted <= INT32_MAX))) {
        bgi_graph_fail_op(graph, "interpolate", name, BG_ERROR_INVALID,
                          "size[%u] is %lld and scale[%u] is %g; neither can be negative, and one of them must make 1 "
                          "to %d elements of %lld",
                          (unsigned)dim, (long long)size, (unsigned)dim, scale, INT32_MAX, (long long)in);
        return false;
    }
    out->in = in;
    out->scale = options->mode == BG_INTERPOLATE_AREA ? 0.0 : scale;
    out->out = size > 0 ? size : scale > 0.0 ? (int64_t)wanted : in;
    out->is_same = out->out == in && (scale == 0.0 || scale == 1.0);
    return true;
}

static bg_value add_resample(bg_graph *graph, const char *name, bg_value x, bgi_resample_attributes *attributes,
                             const bgi_resample_axis *rows, const bgi_resample_axis *columns)
{
    const bgi_resample_axis *const axes[] = {rows, columns};

    for (int i = 0; i < 2; i++) {
        attributes->axes[i].in = axes[i]->in;
        attributes->axes[i].out = axes[i]->out;
        attributes->axes[i].scale = axes[i]->scale;
        attributes->axes[i].is_same = axes[i]->is_same;
    }
    return bg_graph_add(graph, &bgi_op_resample, name, &x, 1, attributes, NULL);
}

bg_value bg_interpolate(bg_graph *graph, const char *name, bg_value x, const bg_interpolate_options *options)
{
    const bg_type type = bg_graph_type(graph, x);
    bgi_resample_axis axes[MOST_DIMS] = {{1, 1, 0.0, 1}, {1, 1, 0.0, 1}, {1, 1, 0.0, 1}}, plane = {1, 1, 0.0, 1};
    bgi_resample_attributes attributes;
    int64_t dims[BG_MAX_RANK] = {0};
    char text[BG_TYPE_TEXT_BYTES];
    uint32_t first;

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (options == NULL) {
        bgi_graph_fail_op(graph, "interpolate", name, BG_ERROR_INVALID,
                          "options is NULL; start from bg_interpolate_defaults(mode)");
        return (bg_value){0};
    }
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_interpolate_options",
                                "bg_interpolate_defaults(mode)"))
        return (bg_value){0};
    if (type.rank < 3 || type.rank > 2 + MOST_DIMS || !bg_dtype_is_float(type.dtype)) {
        bgi_graph_fail_op(graph, "interpolate", name, BG_ERROR_SHAPE,
                          "x is %s; it must be float [N,C,L], [N,C,H,W] or [N,C,D,H,W]", bg_type_text(&type, text));
        return (bg_value){0};
    }
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.mode = options->mode;
    attributes.coordinates = options->coordinates;
    attributes.nearest = options->nearest;
    attributes.cubic = options->mode == BG_INTERPOLATE_CUBIC ? options->cubic : 0.0;
    first = 2 + MOST_DIMS - type.rank; /* axes end with the width, so this is the first one that x has */
    dims[0] = type.dims[0];
    dims[1] = type.dims[1];
    for (uint32_t i = 2; i < type.rank; i++) {
        if (!read_axis(graph, name, options, i - 2, type.dims[i], &axes[first + i - 2]))
            return (bg_value){0};
        dims[i] = axes[first + i - 2].out;
    }
    if (type.rank < 2 + MOST_DIMS && type.rank > 3)
        return add_resample(graph, name, x, &attributes, &axes[1], &axes[2]);
    if (type.rank == 3) {
        x = bg_reshape(graph, NULL, x, 4, (const int64_t[]){dims[0], dims[1], 1, type.dims[2]});
        x = add_resample(graph, NULL, x, &attributes, &axes[1], &axes[2]);
        return bg_reshape(graph, name, x, 3, dims);
    }
    x = add_resample(graph, NULL, x, &attributes, &axes[1], &axes[2]);
    plane.in = plane.out = dims[3] * dims[4];
    x = bg_reshape(graph, NULL, x, 4, (const int64_t[]){dims[0], dims[1], type.dims[2], plane.in});
    x = add_resample(graph, NULL, x, &attributes, &axes[0], &plane);
    return bg_reshape(graph, name, x, 5, dims);
}
