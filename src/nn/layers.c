/*
 * layers.c: builds layers, which are ops with their parameters. Other folders have models and optimizers. Initial
 * values are those of PyTorch's modules: kaiming_uniform with a = sqrt(5) gives +-sqrt(6 / ((1 + 5) fan_in)) =
 * +-1/sqrt(fan_in), also for biases.
 */
#include "nn/layers.h"

#include <math.h>
#include <stdio.h>

enum { NAME_BYTES = 256 };

static bool graph_failed(const bg_graph *graph)
{
    return bg_graph_check(graph, NULL) != BG_OK;
}

bool bgi_layer_check(bg_graph *graph, const char *layer, const char *name, bg_value x)
{
    if (graph_failed(graph))
        return false;
    if (name == NULL || name[0] == '\0') {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "%s layer: it has no name; give a name, with which the names of its parameters begin", layer);
        return false;
    }
    if (bg_value_is_null(x)) {
        bg_graph_fail(
            graph, BG_ERROR_INVALID,
            "%s layer `%s`: the input is the null value, which the op before it returns when it has no output", layer,
            name);
        return false;
    }
    return true;
}

static bool check_positive(bg_graph *graph, const char *layer, const char *name, const char *what, int64_t value)
{
    if (value >= 1)
        return true;
    bg_graph_fail(graph, BG_ERROR_INVALID, "%s layer `%s`: %s is %lld; it must be at least 1", layer, name, what,
                  (long long)value);
    return false;
}

bg_value bgi_layer_variable(bg_graph *graph, const char *layer, const char *suffix, const bg_shard *shard,
                            bg_variable_role role, const bg_initializer *initializer)
{
    char name[NAME_BYTES];
    int length = snprintf(name, sizeof name, "%s.%s", layer, suffix);

    if (length < 0 || length >= NAME_BYTES) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "layer name `%.60s...` is too long: parameter names have at most %d bytes", layer,
                      NAME_BYTES - 1);
        return (bg_value){0};
    }
    return bg_graph_sharded_variable(graph, name, shard, role, initializer);
}

static bg_value add_variable(bg_graph *graph, const char *layer, const char *suffix, bg_type type,
                             bg_variable_role role, bg_initializer initializer)
{
    const bg_shard whole = {.whole = type};

    return bgi_layer_variable(graph, layer, suffix, &whole, role, &initializer);
}

static bg_value add_uniform(bg_graph *graph, const char *layer, const char *suffix, bg_type type, double fan_in)
{
    double bound = 1.0 / sqrt(fan_in);

    return add_variable(graph, layer, suffix, type, BG_ROLE_PARAMETER,
                        (bg_initializer){.kind = BG_INITIALIZE_UNIFORM, .a = -bound, .b = bound});
}

static bg_value add_constant(bg_graph *graph, const char *layer, const char *suffix, int64_t count,
                             bg_variable_role role, double value)
{
    return add_variable(graph, layer, suffix, bg_vector(BG_FLOAT32, count), role,
                        (bg_initializer){.kind = BG_INITIALIZE_CONSTANT, .a = value});
}

bg_value bgi_layer_cast(bg_graph *graph, bg_value value, bg_dtype dtype)
{
    if (bg_value_is_null(value) || bg_graph_type(graph, value).dtype == dtype)
        return value;
    return bg_cast(graph, NULL, value, dtype);
}

bg_value bg_linear_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features, bool bias)
{
    bg_value weight, offset = {0};
    bg_type type;
    int64_t in_features;

    if (!bgi_layer_check(graph, "linear", name, x) ||
        !check_positive(graph, "linear", name, "the number of output features", out_features))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    if (type.rank < 1 || !bg_dtype_is_float(type.dtype)) {
        char text[BG_TYPE_TEXT_BYTES];
        bg_graph_fail(graph, BG_ERROR_SHAPE, "linear layer `%s`: the input is %s; it must be float [..., in]", name,
                      bg_type_text(&type, text));
        return (bg_value){0};
    }
    in_features = type.dims[type.rank - 1];
    weight = add_uniform(graph, name, "weight", bg_matrix(BG_FLOAT32, out_features, in_features), (double)in_features);
    if (bias)
        offset = add_uniform(graph, name, "bias", bg_vector(BG_FLOAT32, out_features), (double)in_features);
    return bg_linear(graph, name, x, bgi_layer_cast(graph, weight, type.dtype),
                     bgi_layer_cast(graph, offset, type.dtype));
}

/* Returns the number of channels that each filter reads, or 0, with an error in the graph, if the input or `groups` is
 * invalid. */
static int64_t find_filter_channels(bg_graph *graph, const char *name, const bg_type *type, int64_t out_channels,
                                    int64_t groups)
{
    char text[BG_TYPE_TEXT_BYTES];

    if (type->rank != 4 || !bg_dtype_is_float(type->dtype)) {
        bg_graph_fail(graph, BG_ERROR_SHAPE, "conv2d layer `%s`: the input is %s; it must be float [N, C, H, W]", name,
                      bg_type_text(type, text));
        return 0;
    }
    if (groups < 1 || type->dims[1] % groups != 0 || out_channels % groups != 0) {
        bg_graph_fail(graph, BG_ERROR_SHAPE,
                      "conv2d layer `%s`: groups is %lld; it must divide the %lld input and %lld output channels", name,
                      (long long)groups, (long long)type->dims[1], (long long)out_channels);
        return 0;
    }
    return type->dims[1] / groups;
}

bg_value bg_conv2d_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels, int64_t kernel_height,
                         int64_t kernel_width, bool bias, const bg_conv2d_options *options)
{
    bg_conv2d_options used = options != NULL ? *options : bg_conv2d_defaults();
    bg_value weight, offset = {0};
    bg_type type;
    int64_t channels;
    double fan_in;

    if (!bgi_layer_check(graph, "conv2d", name, x) ||
        !check_positive(graph, "conv2d", name, "the number of output channels", out_channels) ||
        !check_positive(graph, "conv2d", name, "the kernel's height", kernel_height) ||
        !check_positive(graph, "conv2d", name, "the kernel's width", kernel_width))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    channels = find_filter_channels(graph, name, &type, out_channels, used.groups);
    if (channels == 0)
        return (bg_value){0};
    fan_in = (double)channels * (double)kernel_height * (double)kernel_width;
    weight = add_uniform(graph, name, "weight",
                         bg_tensor4(BG_FLOAT32, out_channels, channels, kernel_height, kernel_width), fan_in);
    if (bias)
        offset = add_uniform(graph, name, "bias", bg_vector(BG_FLOAT32, out_channels), fan_in);
    return bg_conv2d(graph, name, x, bgi_layer_cast(graph, weight, type.dtype),
                     bgi_layer_cast(graph, offset, type.dtype), &used);
}

static bg_value add_conv_layer(bg_graph *graph, const char *layer, const char *name, bg_value x, int64_t out_channels,
                               const int64_t *kernel, bool bias, const bg_conv_options *options, bool is_transposed)
{
    const int64_t groups = options != NULL ? options->groups : 1;
    bg_value weight, offset = {0};
    bg_type type, weight_type = {.dtype = BG_FLOAT32};
    double fan_in;

    if (!bgi_layer_check(graph, layer, name, x) ||
        !check_positive(graph, layer, name, "the number of output channels", out_channels) ||
        !check_positive(graph, layer, name, "the number of groups", groups))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    if (kernel == NULL || type.rank < 3 || type.rank > 5 || !bg_dtype_is_float(type.dtype) ||
        type.dims[1] % groups != 0 || out_channels % groups != 0) {
        char text[BG_TYPE_TEXT_BYTES];
        bg_graph_fail(graph, BG_ERROR_SHAPE,
                      "%s layer `%s`: the input is %s, with %lld groups; it must be float [N, C, L], [N, C, H, W] or "
                      "[N, C, D, H, W], the kernel must have a size for each of the last dimensions, and groups must "
                      "divide the input's channels and the %lld output channels",
                      layer, name, bg_type_text(&type, text), (long long)groups, (long long)out_channels);
        return (bg_value){0};
    }
    weight_type.rank = type.rank;
    weight_type.dims[0] = is_transposed ? type.dims[1] : out_channels;
    weight_type.dims[1] = (is_transposed ? out_channels : type.dims[1]) / groups;
    fan_in = (double)weight_type.dims[1];
    for (uint32_t i = 0; i + 2 < type.rank; i++) {
        if (!check_positive(graph, layer, name, "a size of the kernel", kernel[i]))
            return (bg_value){0};
        weight_type.dims[2 + i] = kernel[i];
        fan_in *= (double)kernel[i];
    }
    weight = bgi_layer_cast(graph, add_uniform(graph, name, "weight", weight_type, fan_in), type.dtype);
    if (bias)
        offset = bgi_layer_cast(graph, add_uniform(graph, name, "bias", bg_vector(BG_FLOAT32, out_channels), fan_in),
                                type.dtype);
    return is_transposed ? bg_conv_transpose(graph, name, x, weight, offset, options)
                         : bg_conv(graph, name, x, weight, offset, options);
}

bg_value bg_conv_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels, const int64_t *kernel,
                       bool bias, const bg_conv_options *options)
{
    return add_conv_layer(graph, "conv", name, x, out_channels, kernel, bias, options, false);
}

bg_value bg_conv_transpose_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels,
                                 const int64_t *kernel, bool bias, const bg_conv_options *options)
{
    return add_conv_layer(graph, "conv_transpose", name, x, out_channels, kernel, bias, options, true);
}

bg_value bg_layer_norm_layer(bg_graph *graph, const char *name, bg_value x, double epsilon)
{
    bg_value gamma, beta;
    bg_type type;

    if (!bgi_layer_check(graph, "layer norm", name, x))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    if (type.rank < 1) {
        bg_graph_fail(graph, BG_ERROR_SHAPE, "layer norm layer `%s`: the input is a scalar; it must be [..., width]",
                      name);
        return (bg_value){0};
    }
    gamma = add_constant(graph, name, "weight", type.dims[type.rank - 1], BG_ROLE_PARAMETER, 1.0);
    beta = add_constant(graph, name, "bias", type.dims[type.rank - 1], BG_ROLE_PARAMETER, 0.0);
    return bg_layer_norm(graph, name, x, bgi_layer_cast(graph, gamma, type.dtype),
                         bgi_layer_cast(graph, beta, type.dtype), epsilon);
}

bg_value bg_rms_norm_layer(bg_graph *graph, const char *name, bg_value x, double epsilon)
{
    bg_value gamma;
    bg_type type;

    if (!bgi_layer_check(graph, "RMS norm", name, x))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    if (type.rank < 1) {
        bg_graph_fail(graph, BG_ERROR_SHAPE, "RMS norm layer `%s`: the input is a scalar; it must be [..., width]",
                      name);
        return (bg_value){0};
    }
    gamma = add_constant(graph, name, "weight", type.dims[type.rank - 1], BG_ROLE_PARAMETER, 1.0);
    return bg_rms_norm(graph, name, x, bgi_layer_cast(graph, gamma, type.dtype), epsilon);
}

bg_value bg_group_norm_layer(bg_graph *graph, const char *name, bg_value x, int64_t groups, double epsilon)
{
    bg_value gamma, beta;
    bg_type type;

    if (!bgi_layer_check(graph, "group norm", name, x))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    if (type.rank < 2) {
        bg_graph_fail(graph, BG_ERROR_SHAPE,
                      "group norm layer `%s`: the input has %u dimensions; it must be [N, C, ...]", name, type.rank);
        return (bg_value){0};
    }
    gamma = add_constant(graph, name, "weight", type.dims[1], BG_ROLE_PARAMETER, 1.0);
    beta = add_constant(graph, name, "bias", type.dims[1], BG_ROLE_PARAMETER, 0.0);
    return bg_group_norm(graph, name, x, groups, bgi_layer_cast(graph, gamma, type.dtype),
                         bgi_layer_cast(graph, beta, type.dtype), epsilon);
}

static bg_value add_batch_norm(bg_graph *graph, const char *name, bg_value x, double momentum, double epsilon,
                               bool is_synchronized)
{
    bg_value gamma, beta, mean, variance, y;
    bg_type type;
    bg_dtype dtype;

    if (!bgi_layer_check(graph, "batch norm", name, x))
        return (bg_value){0};
    type = bg_graph_type(graph, x);
    if (type.rank < 2) {
        char text[BG_TYPE_TEXT_BYTES];
        bg_graph_fail(graph, BG_ERROR_SHAPE, "batch norm layer `%s`: the input is %s; it must be [N, C] or [N, C, ...]",
                      name, bg_type_text(&type, text));
        return (bg_value){0};
    }
    dtype = type.dtype;
    gamma = add_constant(graph, name, "weight", type.dims[1], BG_ROLE_PARAMETER, 1.0);
    beta = add_constant(graph, name, "bias", type.dims[1], BG_ROLE_PARAMETER, 0.0);
    mean = add_constant(graph, name, "running_mean", type.dims[1], BG_ROLE_BUFFER, 0.0);
    variance = add_constant(graph, name, "running_var", type.dims[1], BG_ROLE_BUFFER, 1.0);
    /* Running statistics are changed in place and cannot be cast, so the input is cast instead. */
    x = bgi_layer_cast(graph, x, BG_FLOAT32);
    gamma = bgi_layer_cast(graph, gamma, BG_FLOAT32);
    beta = bgi_layer_cast(graph, beta, BG_FLOAT32);
    y = is_synchronized ? bg_sync_batch_norm(graph, name, x, gamma, beta, mean, variance, momentum, epsilon)
                        : bg_batch_norm(graph, name, x, gamma, beta, mean, variance, momentum, epsilon);
    return bgi_layer_cast(graph, y, dtype);
}

bg_value bg_batch_norm_layer(bg_graph *graph, const char *name, bg_value x, double momentum, double epsilon)
{
    return add_batch_norm(graph, name, x, momentum, epsilon, false);
}

bg_value bg_sync_batch_norm_layer(bg_graph *graph, const char *name, bg_value x, double momentum, double epsilon)
{
    return add_batch_norm(graph, name, x, momentum, epsilon, true);
}

bg_value bg_embedding_layer(bg_graph *graph, const char *name, bg_value ids, int64_t row_count, int64_t width,
                            int64_t padding_index, bg_dtype dtype)
{
    bg_value table, y;

    if (!bgi_layer_check(graph, "embedding", name, ids) ||
        !check_positive(graph, "embedding", name, "the number of rows", row_count) ||
        !check_positive(graph, "embedding", name, "the width", width))
        return (bg_value){0};
    table = add_variable(graph, name, "weight", bg_matrix(BG_FLOAT32, row_count, width), BG_ROLE_PARAMETER,
                         (bg_initializer){.kind = BG_INITIALIZE_NORMAL, .a = 0.0, .b = 1.0});
    y = bg_embedding(graph, name, table, ids, padding_index);
    /* Casting the rows that were read costs less than casting the table. */
    return bgi_layer_cast(graph, y, dtype);
}
