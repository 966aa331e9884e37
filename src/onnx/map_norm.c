/*
 * map_norm.c: maps softmax and normalization. Batch norms follow bg_onnx_mode: as in PyTorch's training and evaluation,
 * always with running statistics, or by the node's attributes.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool takes_float(bgi_mapper *m, bg_value x)
{
    if (bg_value_is_null(x))
        return false;
    return bg_dtype_is_float(bgi_map_type(m, x).dtype) ||
           bgi_map_refuse(m, "its elements are %s but only floats are supported",
                          bgi_onnx_element_name(bgi_map_element(m, 0)));
}

/* ---- softmax ---- */

enum { SOFTMAX, LOG_SOFTMAX };

static bool map_softmax(bgi_mapper *m)
{
    const bool is_log = bgi_map_parameter(m) == LOG_SOFTMAX, is_flat = m->opset < 13;
    bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    int64_t dims[2] = {1, 1};
    int32_t axis;

    if (!takes_float(m, x) || !bgi_map_axis(m, bgi_map_int(m, "axis", is_flat ? 1 : -1), type.rank, is_flat, &axis))
        return false;
    /* Earlier opsets treat all dimensions from the axis on as one. */
    if (is_flat && (uint32_t)axis + 1 != type.rank) {
        for (uint32_t i = 0; i < type.rank; i++)
            dims[(int32_t)i >= axis] *= type.dims[i];
        x = bgi_map_reshape(m, x, 2, dims);
        axis = 1;
    }
    x = is_log ? bg_log_softmax(m->graph, m->name, x, axis) : bg_softmax(m->graph, m->name, x, axis);
    return bgi_map_out(m, 0, bgi_map_reshape(m, x, type.rank, type.dims));
}

/* ---- batch norm ---- */

/* Reshapes a vector of channels for x [N, C, ...]. */
static bg_value along_channels(bgi_mapper *m, bg_value vector, const bg_type *x)
{
    int64_t dims[BG_MAX_RANK] = {1, 1, 1, 1, 1, 1};

    dims[1] = x->dims[1];
    return bgi_map_reshape(m, vector, x->rank, dims);
}

static bg_value normalize(bgi_mapper *m, bg_value x, bg_value mean, bg_value variance, bg_value gamma, bg_value beta,
                          double epsilon)
{
    const bg_value scale =
        bg_multiply(m->graph, gamma,
                    bg_elementwise_unary(m->graph, NULL, BG_RSQRT, bg_scale(m->graph, NULL, variance, 1.0, epsilon)));

    return bg_add(m->graph, bg_multiply(m->graph, bg_subtract(m->graph, x, mean), scale), beta);
}

/* Maps a batch norm that uses the statistics of the batch, also in inference, and updates the running ones. */
static bool map_batch_statistics(bgi_mapper *m, bg_value x, const bg_value *vectors, double epsilon, double keep)
{
    const bg_type type = bgi_map_type(m, x);
    int32_t axes[BG_MAX_RANK] = {0};
    bg_value statistics[2], centered, y;

    for (uint32_t i = 2; i < type.rank; i++)
        axes[i - 1] = (int32_t)i;
    statistics[0] = bg_reduce(m->graph, NULL, BG_REDUCE_MEAN, x, axes, type.rank - 1, true);
    centered = bg_elementwise_unary(m->graph, NULL, BG_SQUARE, bg_subtract(m->graph, x, statistics[0]));
    statistics[1] = bg_reduce(m->graph, NULL, BG_REDUCE_MEAN, centered, axes, type.rank - 1, true);
    y = normalize(m, x, statistics[0], statistics[1], along_channels(m, vectors[0], &type),
                  along_channels(m, vectors[1], &type), epsilon);
    if (!bgi_map_out(m, 0, y))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const bg_value of_batch = bgi_map_reshape(m, statistics[i], 1, &type.dims[1]);

        if (bgi_map_wants(m, i + 1) &&
            !bgi_map_out(m, i + 1,
                         bg_add(m->graph, bg_scale(m->graph, NULL, vectors[i + 2], keep, 0.0),
                                bg_scale(m->graph, NULL, of_batch, 1.0 - keep, 0.0))))
            return false;
    }
    return true;
}

static int64_t attribute_of(const BgiOnnx__Node *node, const char *name, int64_t otherwise)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i]->has_i ? node->attribute[i]->i : 0;
    return otherwise;
}

bool bgi_onnx_is_training_norm(const BgiOnnx__Node *node, int64_t opset)
{
    return bgi_onnx_is_standard(node, "BatchNormalization") &&
           (opset < 7    ? attribute_of(node, "is_test", 0) == 0
            : opset < 14 ? node->n_output > 1
                         : attribute_of(node, "training_mode", 0) != 0);
}

static bool map_batch_norm(bgi_mapper *m)
{
    const double epsilon = bgi_map_real(m, "epsilon", 1e-5f), keep = bgi_map_real(m, "momentum", 0.9f);
    const bg_onnx_mode mode = m->build->options->mode;
    const bool is_training = bgi_onnx_is_training_norm(m->node, m->opset);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    bg_value vectors[4];

    if (!takes_float(m, x))
        return false;
    if (type.rank < 2)
        return bgi_map_refuse(m, "x has %u dimensions but must have at least 2", type.rank);
    for (uint32_t i = 0; i < 4; i++) {
        vectors[i] = bgi_map_in(m, i + 1);
        if (bg_value_is_null(vectors[i]))
            return bgi_map_refuse(m, "input %u is missing", i + 1);
        if (bgi_map_type(m, vectors[i]).rank != 1 || bgi_map_type(m, vectors[i]).dims[0] != type.dims[1])
            return bgi_map_refuse(m, "input %u must be a vector of the %" PRId64 " channels", i + 1, type.dims[1]);
    }
    if (mode == BG_ONNX_AS_WRITTEN && is_training)
        return map_batch_statistics(m, x, vectors, epsilon, keep);
    if (bgi_map_wants(m, 1) || bgi_map_wants(m, 2) || bgi_map_wants(m, 3) || bgi_map_wants(m, 4))
        return bgi_map_refuse(m, "its statistics are used as values, which is supported only in training form and with "
                                 "bg_onnx_mode AS_WRITTEN");
    if (mode == BG_ONNX_TRAIN && (is_training || !m->build->has_training_norms) && !m->is_folding &&
        bgi_map_is_variable(m, vectors[2]) && bgi_map_is_variable(m, vectors[3]))
        return bgi_map_out(
            m, 0,
            bg_batch_norm(m->graph, m->name, x, vectors[0], vectors[1], vectors[2], vectors[3], 1.0 - keep, epsilon));
    for (uint32_t i = 0; i < 4; i++)
        vectors[i] = bgi_map_cast(m, along_channels(m, vectors[i], &type), type.dtype);
    return bgi_map_out(m, 0, normalize(m, x, vectors[2], vectors[3], vectors[0], vectors[1], epsilon));
}

/* ---- others ---- */

static bool map_instance_norm(bgi_mapper *m)
{
    const bg_value x = bgi_map_in(m, 0), gamma = bgi_map_in(m, 1), beta = bgi_map_in(m, 2);
    const bg_dtype dtype = bgi_map_type(m, x).dtype;

    if (!takes_float(m, x) || bg_value_is_null(gamma) || bg_value_is_null(beta))
        return bgi_map_refuse(m, "it takes three float operands");
    return bgi_map_out(m, 0,
                       bg_group_norm(m->graph, m->name, x, bgi_map_type(m, x).dims[1], bgi_map_cast(m, gamma, dtype),
                                     bgi_map_cast(m, beta, dtype), bgi_map_real(m, "epsilon", 1e-5f)));
}

static bool map_group_norm(bgi_mapper *m)
{
    const int64_t groups = bgi_map_int(m, "num_groups", 0);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    bg_value vectors[2] = {bgi_map_in(m, 1), bgi_map_in(m, 2)};

    if (!takes_float(m, x) || bg_value_is_null(vectors[0]) || bg_value_is_null(vectors[1]))
        return bgi_map_refuse(m, "it takes three float operands");
    if (type.rank < 2 || groups < 1 || type.dims[1] % groups != 0)
        return bgi_map_refuse(m, "attribute `num_groups` is %" PRId64 " but must divide the channels", groups);
    for (uint32_t i = 0; i < 2 && m->opset < 21; i++) { /* one number for each group */
        vectors[i] = bgi_map_reshape(m, vectors[i], 2, (const int64_t[]){groups, 1});
        vectors[i] = bg_broadcast(m->graph, NULL, vectors[i], 2, (const int64_t[]){groups, type.dims[1] / groups});
        vectors[i] = bgi_map_reshape(m, vectors[i], 1, &type.dims[1]);
    }
    for (uint32_t i = 0; i < 2; i++)
        vectors[i] = bgi_map_cast(m, vectors[i], type.dtype);
    return bgi_map_out(
        m, 0, bg_group_norm(m->graph, m->name, x, groups, vectors[0], vectors[1], bgi_map_real(m, "epsilon", 1e-5f)));
}

static bool out_layer_statistics(bgi_mapper *m, bg_value x, const bg_type *type, int32_t axis, double epsilon)
{
    int32_t axes[BG_MAX_RANK];
    uint32_t count = 0;
    bg_value mean, variance;

    if (!bgi_map_wants(m, 1) && !bgi_map_wants(m, 2))
        return true;
    for (uint32_t i = (uint32_t)axis; i < type->rank; i++)
        axes[count++] = (int32_t)i;
    mean = bg_reduce(m->graph, NULL, BG_REDUCE_MEAN, x, axes, count, true);
    variance = bg_elementwise_unary(m->graph, NULL, BG_SQUARE, bg_subtract(m->graph, x, mean));
    variance = bg_reduce(m->graph, NULL, BG_REDUCE_MEAN, variance, axes, count, true);
    variance = bg_elementwise_unary(m->graph, NULL, BG_RSQRT, bg_scale(m->graph, NULL, variance, 1.0, epsilon));
    return (!bgi_map_wants(m, 1) || bgi_map_out(m, 1, mean)) && (!bgi_map_wants(m, 2) || bgi_map_out(m, 2, variance));
}

static bool map_layer_norm(bgi_mapper *m)
{
    const double epsilon = bgi_map_real(m, "epsilon", 1e-5f);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    bg_value gamma = bgi_map_in(m, 1), beta = bgi_map_in(m, 2), y;
    int64_t dims[2] = {1, 1};
    int32_t axis;
    bool is_whole;
    bg_type gamma_type, beta_type;

    if (!takes_float(m, x) || bg_value_is_null(gamma))
        return bgi_map_refuse(m, "it takes at least two float operands");
    if (!bgi_map_axis(m, bgi_map_int(m, "axis", -1), type.rank, false, &axis))
        return false;
    for (uint32_t i = 0; i < type.rank; i++)
        dims[(int32_t)i >= axis] *= type.dims[i];
    gamma_type = bgi_map_type(m, gamma);
    beta_type = bgi_map_type(m, beta);
    is_whole = bg_type_element_count(&gamma_type) == dims[1] &&
               (bg_value_is_null(beta) || bg_type_element_count(&beta_type) == dims[1]);
    y = (uint32_t)axis + 1 == type.rank ? x : bgi_map_reshape(m, x, 2, dims);
    if (is_whole) {
        gamma = bgi_map_reshape(m, gamma, 1, &dims[1]);
        beta = bg_value_is_null(beta) ? bg_broadcast(m->graph, NULL, bgi_map_number(m, type.dtype, 0.0), 1, &dims[1])
                                      : bgi_map_reshape(m, beta, 1, &dims[1]);
        y = bg_layer_norm(m->graph, m->name, y, gamma, beta, epsilon);
    } else {
        y = bg_layer_norm(m->graph, m->name, y, (bg_value){0}, (bg_value){0}, epsilon);
    }
    y = bgi_map_reshape(m, y, type.rank, type.dims);
    if (!is_whole) {
        y = bg_multiply(m->graph, y, gamma);
        y = bg_value_is_null(beta) ? y : bg_add(m->graph, y, beta);
    }
    return bgi_map_out(m, 0, y) && out_layer_statistics(m, x, &type, axis, epsilon);
}

/* Computes x / (bias + alpha / size * sum of x^2 over neighboring channels)^beta. */
static bool map_local_response(bgi_mapper *m)
{
    const int64_t size = bgi_map_int(m, "size", 0);
    const bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    bg_pool2d_options options = bg_pool2d_defaults(1);
    int64_t before[4] = {0}, after[4] = {0}, dims[4];
    bg_value y;

    if (!takes_float(m, x))
        return false;
    if (type.rank < 3 || size < 1 || size > INT32_MAX)
        return bgi_map_refuse(
            m, "attribute `size` is %" PRId64 " but must be at least 1, with an x of at least 3 dimensions", size);
    dims[0] = type.dims[0];
    dims[1] = 1;
    dims[2] = type.dims[1];
    dims[3] = bg_type_element_count(&type) / type.dims[0] / type.dims[1];
    before[2] = (size - 1) / 2;
    after[2] = size - 1 - before[2];
    options.kernel[0] = size;
    options.stride[0] = options.stride[1] = 1;
    y = bg_elementwise_unary(m->graph, NULL, BG_SQUARE, bgi_map_reshape(m, x, 4, dims));
    y = bg_pad(m->graph, NULL, y, BG_PAD_CONSTANT, before, after, 0.0);
    y = bg_avg_pool2d(m->graph, m->name, y, &options);
    y = bg_scale(m->graph, NULL, y, bgi_map_real(m, "alpha", 1e-4f), bgi_map_real(m, "bias", 1.0));
    y = bg_power(m->graph, y, -bgi_map_real(m, "beta", 0.75));
    return bgi_map_out(m, 0, bg_multiply(m->graph, x, bgi_map_reshape(m, y, type.rank, type.dims)));
}

static bool map_lp_norm(bgi_mapper *m)
{
    const int64_t p = bgi_map_int(m, "p", 2);
    const bg_value x = bgi_map_in(m, 0);
    bg_value size;
    int32_t axis;

    if (!takes_float(m, x) || !bgi_map_axis(m, bgi_map_int(m, "axis", -1), bgi_map_type(m, x).rank, false, &axis))
        return false;
    if (p != 1 && p != 2)
        return bgi_map_refuse(m, "attribute `p` is %" PRId64 " but must be 1 or 2", p);
    size = bg_elementwise_unary(m->graph, NULL, p == 1 ? BG_ABS : BG_SQUARE, x);
    size = bg_reduce(m->graph, m->name, BG_REDUCE_SUM, size, &axis, 1, true);
    if (p == 2)
        size = bg_elementwise_unary(m->graph, NULL, BG_SQRT, size);
    return bgi_map_out(m, 0, bg_divide(m->graph, x, size));
}

static bool map_mean_variance(bgi_mapper *m)
{
    int64_t given[BG_MAX_RANK] = {0, 2, 3};
    uint32_t count = bgi_map_has(m, "axes") ? bgi_map_ints(m, "axes", given, BG_MAX_RANK) : 3;
    int32_t axes[BG_MAX_RANK];
    bg_value x = bgi_map_in(m, 0), deviation;

    if (!takes_float(m, x) || m->reason[0] != '\0')
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!bgi_map_axis(m, given[i], bgi_map_type(m, x).rank, false, &axes[i]))
            return false;
    x = bg_subtract(m->graph, x, bg_reduce(m->graph, NULL, BG_REDUCE_MEAN, x, axes, count, true));
    deviation = bg_elementwise_unary(m->graph, NULL, BG_SQUARE, x);
    deviation = bg_reduce(m->graph, NULL, BG_REDUCE_MEAN, deviation, axes, count, true);
    deviation = bg_scale(m->graph, NULL, bg_elementwise_unary(m->graph, NULL, BG_SQRT, deviation), 1.0, 1e-9);
    return bgi_map_out(m, 0, bg_divide(m->graph, x, deviation));
}

const bgi_mapping bgi_onnx_norm[] = {
    {"BatchNormalization", map_batch_norm, 0},
    {"GroupNormalization", map_group_norm, 0},
    {"InstanceNormalization", map_instance_norm, 0},
    {"LRN", map_local_response, 0},
    {"LayerNormalization", map_layer_norm, 0},
    {"LogSoftmax", map_softmax, LOG_SOFTMAX},
    {"LpNormalization", map_lp_norm, 0},
    {"MeanVarianceNormalization", map_mean_variance, 0},
    {"Softmax", map_softmax, SOFTMAX},
    {0},
};
