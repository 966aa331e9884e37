/*
 * conv_ranks.c: builds convolutions and transposed convolutions over one, two or three dimensions from those over two.
 *
 * A signal of one dimension is an image of one row. With three dimensions the first one, depth, is handled separately:
 * each depth of the result is a 2-d convolution of the planes that its taps read, all of them as channels of one image.
 *
 *     x [N,C,D,H,W]  --gather-->  windows [N OD, KD C, H, W]  --conv2d-->  [N OD, O, OH, OW]
 *
 * A transposed convolution does the reverse: it computes the planes of all taps at once and adds each plane at its
 * depth.
 */
#include <brigade/ops.h>

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/index/attributes.h"
#include "ops/conv.h"
#include "ops/ops.h"
#include "ops/shape.h"

enum { MOST_DIMS = 3 };

/* A convolution, extended to three dimensions: arrays end with the width, at index 2, and missing dimensions have size
 * 1. */
typedef struct conv_spec {
    const char *op, *name;
    uint32_t dims;
    int64_t n, c, o;
    int64_t in[MOST_DIMS], taps[MOST_DIMS], out[MOST_DIMS];
    bg_conv_options options;
} conv_spec;

void bg_conv_options_init(bg_conv_options *options, size_t struct_bytes)
{
    const bg_conv_options made = {
        .struct_bytes = struct_bytes, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* ---- the shape rule ---- */

static bool check_option(bg_graph *graph, const conv_spec *s, const char *option, uint32_t dim, int64_t value,
                         int64_t least, int64_t most)
{
    if (value >= least && value <= most)
        return true;
    bgi_graph_fail_op(graph, s->op, s->name, BG_ERROR_INVALID,
                      "%s[%u] is %lld; it must be at least %lld and at most %lld", option, (unsigned)dim,
                      (long long)value, (long long)least, (long long)most);
    return false;
}

static bool read_options(bg_graph *graph, const bg_conv_options *options, bool is_transposed, conv_spec *s)
{
    const uint32_t first = MOST_DIMS - s->dims;

    s->options = bg_conv_defaults();
    if (options == NULL)
        return true;
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_conv_options", "bg_conv_defaults()"))
        return false;
    s->options.groups = options->groups;
    for (uint32_t dim = 0; dim < s->dims; dim++) {
        const int64_t stride = options->stride[dim];

        if (!check_option(graph, s, "stride", dim, stride, 1, INT32_MAX) ||
            !check_option(graph, s, "padding", dim, options->padding[dim], 0, INT32_MAX) ||
            !check_option(graph, s, "dilation", dim, options->dilation[dim], 1, INT32_MAX) ||
            !check_option(graph, s, "output_padding", dim, options->output_padding[dim], 0,
                          is_transposed ? stride - 1 : 0))
            return false;
        s->options.stride[first + dim] = stride;
        s->options.padding[first + dim] = options->padding[dim];
        s->options.dilation[first + dim] = options->dilation[dim];
        s->options.output_padding[first + dim] = options->output_padding[dim];
    }
    return true;
}

/* Reads the channels. One dimension of the weight is the number of x's channels and another the number of filters; one
 * of the two numbers covers only a single group. */
static bool read_channels(bg_graph *graph, const bg_type *x, const bg_type *weight, bool is_transposed, conv_spec *s)
{
    const int64_t groups = s->options.groups, first = weight->dims[0], second = weight->dims[1];
    char x_text[BG_TYPE_TEXT_BYTES], weight_text[BG_TYPE_TEXT_BYTES];

    s->n = x->dims[0];
    s->c = x->dims[1];
    s->o = is_transposed ? second * groups : first;
    if (groups >= 1 && first % groups == 0 && s->c % groups == 0 && s->c == (is_transposed ? first : second * groups))
        return true;
    bgi_graph_fail_op(graph, s->op, s->name, groups < 1 ? BG_ERROR_INVALID : BG_ERROR_SHAPE,
                      "x is %s and weight is %s with %lld groups; the number of groups must be at least 1 and divide "
                      "dimension 0 of the weight, and dimension 1 of x must be %s",
                      bg_type_text(x, x_text), bg_type_text(weight, weight_text), (long long)groups,
                      is_transposed ? "dimension 0 of the weight" : "dimension 1 of the weight times the groups");
    return false;
}

static bool read_sizes(bg_graph *graph, const bg_type *x, const bg_type *weight, bool is_transposed, conv_spec *s)
{
    const bg_conv_options *o = &s->options;
    char x_text[BG_TYPE_TEXT_BYTES], weight_text[BG_TYPE_TEXT_BYTES];

    for (uint32_t i = 0; i < MOST_DIMS; i++) {
        const uint32_t dim = 2 + i - (MOST_DIMS - s->dims); /* the dimension of x and of the weight */
        const bool has = i >= MOST_DIMS - s->dims;
        int64_t span;

        s->in[i] = has ? x->dims[dim] : 1;
        s->taps[i] = has ? weight->dims[dim] : 1;
        if (s->in[i] > INT32_MAX || s->taps[i] > INT32_MAX) {
            bgi_graph_fail_op(graph, s->op, s->name, BG_ERROR_SHAPE,
                              "x is %s and weight is %s; dimension %u must be at most %d", bg_type_text(x, x_text),
                              bg_type_text(weight, weight_text), (unsigned)dim, INT32_MAX);
            return false;
        }
        span = o->dilation[i] * (s->taps[i] - 1) + 1;
        s->out[i] =
            is_transposed
                ? (s->in[i] - 1) * o->stride[i] - 2 * o->padding[i] + span + o->output_padding[i]
                : (s->in[i] + 2 * o->padding[i] < span ? 0 : (s->in[i] + 2 * o->padding[i] - span) / o->stride[i] + 1);
        if (s->out[i] < 1 || s->out[i] > INT32_MAX) {
            bgi_graph_fail_op(graph, s->op, s->name, BG_ERROR_SHAPE,
                              "x is %s and weight is %s: dimension %u of the result would have %lld elements (filters "
                              "span %lld with dilation %lld, and padding is %lld)",
                              bg_type_text(x, x_text), bg_type_text(weight, weight_text), (unsigned)dim,
                              (long long)s->out[i], (long long)span, (long long)o->dilation[i],
                              (long long)o->padding[i]);
            return false;
        }
    }
    return true;
}

/* Reads and checks the operands, which are x, weight and bias (or null), and the options; returns false on failure,
 * with the error in the graph. */
static bool read_spec(bg_graph *graph, const bg_value *operands, const bg_conv_options *options, bool is_transposed,
                      conv_spec *s)
{
    const bg_type x = bg_graph_type(graph, operands[0]), weight = bg_graph_type(graph, operands[1]);
    const bg_type bias = bg_graph_type(graph, operands[2]);
    char text[BG_TYPE_TEXT_BYTES], weight_text[BG_TYPE_TEXT_BYTES];

    if (bg_graph_check(graph, NULL) != BG_OK)
        return false;
    if (x.rank < 3 || x.rank > 2 + MOST_DIMS || weight.rank != x.rank || !bg_dtype_is_float(x.dtype) ||
        weight.dtype != x.dtype) {
        bgi_graph_fail_op(graph, s->op, s->name, BG_ERROR_SHAPE,
                          "x is %s and weight is %s; both must be floats of one type with 3, 4 or 5 dimensions. x is "
                          "[N,C,L], [N,C,H,W] or [N,C,D,H,W]; the first two dimensions of the weight are channels",
                          bg_type_text(&x, text), bg_type_text(&weight, weight_text));
        return false;
    }
    s->dims = x.rank - 2;
    if (!read_options(graph, options, is_transposed, s) || !read_channels(graph, &x, &weight, is_transposed, s) ||
        !read_sizes(graph, &x, &weight, is_transposed, s))
        return false;
    if (bg_value_is_null(operands[2]) || (bias.rank == 1 && bias.dims[0] == s->o && bias.dtype == x.dtype))
        return true;
    bgi_graph_fail_op(graph, s->op, s->name, BG_ERROR_SHAPE,
                      "bias is %s; it must be %s[%lld] (one number for each filter)", bg_type_text(&bias, text),
                      bg_dtype_name(x.dtype), (long long)s->o);
    return false;
}

/* ---- parts that both directions share ---- */

static bg_conv2d_options plane_options(const conv_spec *s)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    for (int dim = 0; dim < 2; dim++) {
        options.stride[dim] = s->options.stride[1 + dim];
        options.padding[dim] = s->options.padding[1 + dim];
        options.dilation[dim] = s->options.dilation[1 + dim];
    }
    options.groups = s->options.groups;
    return options;
}

/* Adds a constant with the depth that each tap of each of `windows` windows reads; `limit` stands for padding. */
static bg_value add_depths(bg_graph *graph, const conv_spec *s, int64_t windows, int64_t limit)
{
    const bg_type type = bg_matrix(BG_INT32, windows, s->taps[0]);
    int32_t *numbers = malloc(bg_type_size_bytes(&type));
    bg_value value;

    if (numbers == NULL) {
        bgi_graph_fail_op(graph, s->op, s->name, BG_ERROR_MEMORY, "out of memory for %lld numbers",
                          (long long)(windows * s->taps[0]));
        return (bg_value){0};
    }
    for (int64_t i = 0; i < windows; i++)
        for (int64_t k = 0; k < s->taps[0]; k++) {
            const int64_t at = i * s->options.stride[0] + k * s->options.dilation[0] - s->options.padding[0];

            numbers[i * s->taps[0] + k] = (int32_t)(at >= 0 && at < limit ? at : limit);
        }
    value = bg_graph_constant(graph, "depths", &type, numbers);
    free(numbers);
    return value;
}

/* Exchanges dimensions `dim` and `dim` + 1. */
static bg_value exchange(bg_graph *graph, const char *name, bg_value x, uint32_t dim)
{
    uint32_t permutation[BG_MAX_RANK];

    for (uint32_t i = 0; i < BG_MAX_RANK; i++)
        permutation[i] = i == dim ? dim + 1 : i == dim + 1 ? dim : i;
    return bg_transpose(graph, name, x, permutation);
}

/* Merges the taps along depth into the channels of a group: before the channels or, with several groups, after each
 * channel, which moves no data. */
static bg_value flatten_weight(bg_graph *graph, const conv_spec *s, bg_value weight)
{
    const bg_type type = bg_graph_type(graph, weight);
    const int64_t dims[] = {type.dims[0], type.dims[1] * s->taps[0], s->taps[1], s->taps[2]};

    if (s->dims == MOST_DIMS && s->options.groups == 1)
        weight = exchange(graph, NULL, weight, 1);
    return bg_reshape(graph, NULL, weight, 4, dims);
}

/* ---- convolution ---- */

static bg_value add_conv3d(bg_graph *graph, const conv_spec *s, bg_value x, bg_value weight, bg_value bias)
{
    const int64_t flat[] = {s->n * s->out[0], s->c * s->taps[0], s->in[1], s->in[2]};
    const int64_t planes[] = {s->n, s->out[0], s->o, s->out[1], s->out[2]};
    const bg_conv2d_options options = plane_options(s);
    const bg_value depths = add_depths(graph, s, s->out[0], s->in[0]);

    x = bg_gather(graph, NULL, exchange(graph, NULL, x, 1), 1, depths); /* [N,OD,KD,C,H,W] */
    if (s->options.groups > 1)
        x = exchange(graph, NULL, x, 2);
    x = bg_conv2d(graph, NULL, bg_reshape(graph, NULL, x, 4, flat), flatten_weight(graph, s, weight), bias, &options);
    return exchange(graph, s->name, bg_reshape(graph, NULL, x, 5, planes), 1);
}

bg_value bg_conv(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                 const bg_conv_options *options)
{
    bg_value operands[] = {x, weight, bias};
    conv_spec s = {.op = "conv", .name = name};
    bg_conv2d_options of_planes;

    bgi_promote(graph, operands, 3);
    if (!read_spec(graph, operands, options, false, &s))
        return (bg_value){0};
    of_planes = plane_options(&s);
    if (s.dims == 3)
        return add_conv3d(graph, &s, operands[0], operands[1], operands[2]);
    if (s.dims == 2)
        return bg_conv2d(graph, name, operands[0], operands[1], operands[2], &of_planes);
    x = bg_reshape(graph, NULL, operands[0], 4, (const int64_t[]){s.n, s.c, 1, s.in[2]});
    x = bg_conv2d(graph, NULL, x, flatten_weight(graph, &s, operands[1]), operands[2], &of_planes);
    return bg_reshape(graph, name, x, 3, (const int64_t[]){s.n, s.o, s.out[2]});
}

/* ---- transposed ---- */

static bg_value add_conv_transpose3d(bg_graph *graph, const conv_spec *s, const char *name, bg_value x, bg_value weight)
{
    const int64_t flat[] = {s->n * s->in[0], s->c, s->in[1], s->in[2]};
    const bool is_grouped = s->options.groups > 1;
    const int64_t taps[] = {s->n,      s->in[0], is_grouped ? s->o : s->taps[0], is_grouped ? s->taps[0] : s->o,
                            s->out[1], s->out[2]};
    const int64_t planes[] = {s->n, s->out[0], s->o, s->out[1], s->out[2]};
    const bg_conv2d_options options = plane_options(s);
    bgi_index_attributes attributes;
    bg_value inputs[2];

    x = bg_reshape(graph, NULL, exchange(graph, NULL, x, 1), 4, flat);
    x = bgi_conv_transpose2d(graph, NULL, x, flatten_weight(graph, s, weight), &options, &s->options.output_padding[1]);
    x = bg_reshape(graph, NULL, x, 6, taps);
    inputs[0] = is_grouped ? exchange(graph, NULL, x, 2) : x; /* [N,D,KD,O,OH,OW] */
    inputs[1] = add_depths(graph, s, s->in[0], s->out[0]);
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.axis = 1;
    attributes.whole = bg_type_make(bg_graph_type(graph, x).dtype, 5, planes);
    x = bg_graph_add(graph, &bgi_op_scatter, NULL, inputs, 2, &attributes, NULL);
    return exchange(graph, name, x, 1);
}

bg_value bg_conv_transpose(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                           const bg_conv_options *options)
{
    bg_value operands[] = {x, weight, bias};
    conv_spec s = {.op = "conv_transpose", .name = name};
    const char *last = bg_value_is_null(bias) ? name : NULL;
    bg_conv2d_options of_planes;
    int64_t ones[] = {0, 1, 1, 1};

    bgi_promote(graph, operands, 3);
    if (!read_spec(graph, operands, options, true, &s))
        return (bg_value){0};
    of_planes = plane_options(&s);
    if (s.dims == 3) {
        x = add_conv_transpose3d(graph, &s, last, operands[0], operands[1]);
    } else if (s.dims == 2) {
        x = bgi_conv_transpose2d(graph, last, operands[0], operands[1], &of_planes, &s.options.output_padding[1]);
    } else {
        x = bg_reshape(graph, NULL, operands[0], 4, (const int64_t[]){s.n, s.c, 1, s.in[2]});
        x = bgi_conv_transpose2d(graph, NULL, x, flatten_weight(graph, &s, operands[1]), &of_planes,
                                 &s.options.output_padding[1]);
        x = bg_reshape(graph, last, x, 3, (const int64_t[]){s.n, s.o, s.out[2]});
    }
    if (bg_value_is_null(bias))
        return x;
    ones[0] = s.o;
    return bg_elementwise_binary(graph, name, BG_ADD, x, bg_reshape(graph, NULL, operands[2], 1 + s.dims, ones));
}
