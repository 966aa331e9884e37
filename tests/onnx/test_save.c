/*
 * test_save.c: graphs of every op are saved to files and loaded again. Results are the same, with equal bits if an op
 * is one node. This also holds for batch sizes other than that of the saved graph. `test_save --write FOLDER` writes
 * the files to the folder with their inputs and outputs as .npy, for other engines (test_save_engines.sh).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

#include "support/folder.h"

enum { MOST = 8 };

/* A graph under construction for a number of samples. */
typedef struct rig {
    bg_graph *graph;
    bg_weights *weights;
    int64_t batch;
    struct {
        const char *name;
        bg_type type;
        void *data;
    } inputs[MOST];
    uint32_t input_count;
} rig;

static bg_error error;

static void well(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

/* ---- parts of graphs ---- */

/* Returns a value that depends only on the name and the element. */
static double number(const char *name, int64_t index)
{
    uint32_t x = 2166136261u;

    for (; *name != '\0'; name++)
        x = (x ^ (unsigned char)*name) * 16777619u;
    x += (uint32_t)index * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)x / 4294967296.0;
}

static void fill(const char *name, const bg_type *type, double low, double high, void *out)
{
    const int64_t count = bg_type_element_count(type);

    for (int64_t i = 0; i < count; i++) {
        const double value = low + (high - low) * number(name, i);
        const float narrow = (float)value;
        uint32_t bits;

        memcpy(&bits, &narrow, 4);
        if (type->dtype == BG_FLOAT32)
            ((float *)out)[i] = narrow;
        else if (type->dtype == BG_FLOAT64)
            ((double *)out)[i] = value;
        else if (type->dtype == BG_INT32)
            ((int32_t *)out)[i] = (int32_t)floor(value);
        else if (type->dtype == BG_INT64)
            ((int64_t *)out)[i] = (int64_t)floor(value);
        else if (type->dtype == BG_BFLOAT16)
            ((uint16_t *)out)[i] = (uint16_t)(bits >> 16);
        else
            ((uint8_t *)out)[i] = (uint8_t)floor(value);
    }
}

static bg_value give(rig *r, const char *name, bg_dtype dtype, uint32_t rank, const int64_t *dims, double low,
                     double high)
{
    const bg_type type = bg_type_make(dtype, rank, dims);
    void *data = calloc(1, bg_type_size_bytes(&type) + 1);

    fill(name, &type, low, high, data);
    r->inputs[r->input_count].name = name;
    r->inputs[r->input_count].type = type;
    r->inputs[r->input_count++].data = data;
    return bg_graph_input(r->graph, name, &type);
}

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static bg_value x_of(rig *r, uint32_t rank, const int64_t *dims)
{
    return give(r, "x", BG_FLOAT32, rank, dims, -2.0, 2.0);
}

static bg_value weight_as(rig *r, const char *name, bg_dtype dtype, uint32_t rank, const int64_t *dims, double low,
                          double high)
{
    const bg_type type = bg_type_make(dtype, rank, dims);
    const bg_initializer zero = {0};
    void *data = calloc(1, bg_type_size_bytes(&type) + 1);

    fill(name, &type, low, high, data);
    well(bg_weights_set(r->weights, name, &type, data, &error));
    free(data);
    return bg_graph_variable(r->graph, name, &type, BG_ROLE_PARAMETER, &zero);
}

static bg_value weight(rig *r, const char *name, uint32_t rank, const int64_t *dims)
{
    return weight_as(r, name, BG_FLOAT32, rank, dims, -0.5, 0.5);
}

static void out(rig *r, const char *name, bg_value value)
{
    bg_graph_output(r->graph, name, value);
}

/* ---- the cases ---- */

static void linear_2(rig *r)
{
    out(r, "y",
        bg_linear(r->graph, "fc", x_of(r, DIMS(r->batch, 6)), weight(r, "w", DIMS(4, 6)), weight(r, "b", DIMS(4))));
}

static void linear_3(rig *r)
{
    bg_value y = bg_linear(r->graph, "fc", x_of(r, DIMS(r->batch, 3, 6)), weight(r, "w", DIMS(4, 6)), (bg_value){0});

    out(r, "y", bg_linear(r->graph, "fc2", y, weight(r, "w2", DIMS(5, 4)), weight(r, "b2", DIMS(5))));
}

static void matmul(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 3, 4)), w = weight(r, "w", DIMS(4, 5));

    out(r, "y", bg_matmul(r->graph, NULL, x, w, false, false));
    out(r, "scores", bg_matmul(r->graph, NULL, x, x, false, true));
    out(r, "sums", bg_matmul(r->graph, NULL, x, x, true, false));
    out(r, "same", bg_matmul(r->graph, NULL, bg_reshape(r->graph, NULL, x, DIMS(r->batch * 3, 4)), w, false, false));
}

static void einsum(rig *r)
{
    const bg_value operands[2] = {x_of(r, DIMS(r->batch, 3, 4)), weight(r, "w", DIMS(5, 4, 2))};

    out(r, "y", bg_einsum(r->graph, NULL, "bij,kjl->bikl", operands, 2));
}

static void conv(rig *r)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    bg_value x = x_of(r, DIMS(r->batch, 4, 7, 8));

    x = bg_conv2d(r->graph, "plain", x, weight(r, "w", DIMS(6, 4, 3, 3)), weight(r, "b", DIMS(6)), NULL);
    options.stride[0] = 2;
    options.padding[0] = 2;
    options.padding[1] = 1;
    options.dilation[1] = 2;
    options.groups = 2;
    out(r, "y", bg_conv2d(r->graph, "other", x, weight(r, "v", DIMS(4, 3, 2, 3)), (bg_value){0}, &options));
}

static void conv_1_and_3(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 2, 4, 5, 6));
    bg_conv_options options = bg_conv_defaults();

    options.padding[0] = options.padding[1] = 1;
    x = bg_conv(r->graph, "three", x, weight(r, "w", DIMS(3, 2, 2, 3, 3)), weight(r, "b", DIMS(3)), &options);
    x = bg_reshape(r->graph, NULL, x, DIMS(r->batch, 3, -1));
    options.stride[0] = 2;
    out(r, "y", bg_conv(r->graph, "one", x, weight(r, "v", DIMS(2, 3, 3)), weight(r, "c", DIMS(2)), &options));
}

static void conv_transpose(rig *r)
{
    bg_conv_options options = bg_conv_defaults();

    options.stride[0] = options.stride[1] = 2;
    options.padding[0] = 1;
    options.output_padding[1] = 1;
    out(r, "y",
        bg_conv_transpose(r->graph, NULL, x_of(r, DIMS(r->batch, 4, 5, 4)), weight(r, "w", DIMS(4, 3, 3, 2)),
                          weight(r, "b", DIMS(3)), &options));
}

/* Builds a transposed convolution over three dimensions, which is saved with a scatter and therefore needs a fixed
 * batch size. */
static void conv_transpose_3(rig *r)
{
    bg_conv_options options = bg_conv_defaults();

    options.stride[0] = 2;
    options.padding[0] = 1;
    out(r, "y",
        bg_conv_transpose(r->graph, NULL, x_of(r, DIMS(r->batch, 2, 3, 4, 3)), weight(r, "w", DIMS(2, 3, 3, 2, 2)),
                          (bg_value){0}, &options));
}

static void pools(rig *r)
{
    bg_pool2d_options options = bg_pool2d_defaults(3);
    bg_value x = x_of(r, DIMS(r->batch, 3, 8, 9));

    options.stride[0] = 2;
    options.padding[1] = 1;
    out(r, "max", bg_max_pool2d(r->graph, NULL, x, &options));
    out(r, "mean", bg_avg_pool2d(r->graph, NULL, x, &options));
    options.count_include_pad = false;
    out(r, "inside", bg_avg_pool2d(r->graph, NULL, x, &options));
    options.ceil_mode = true;
    options.dilation[0] = 2;
    options.stride[0] = 1;
    out(r, "wide", bg_max_pool2d(r->graph, NULL, x, &options));
    out(r, "all", bg_adaptive_avg_pool(r->graph, NULL, x, NULL));
}

static void resize(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 2, 4, 6));
    bg_interpolate_options options = bg_interpolate_defaults(BG_INTERPOLATE_NEAREST);

    options.scale[0] = options.scale[1] = 2.0;
    out(r, "nearest", bg_interpolate(r->graph, NULL, x, &options));
    options = bg_interpolate_defaults(BG_INTERPOLATE_LINEAR);
    options.size[0] = 7;
    options.size[1] = 12;
    out(r, "linear", bg_interpolate(r->graph, NULL, x, &options));
    options.coordinates = BG_COORDINATES_ALIGN_CORNERS;
    out(r, "corners", bg_interpolate(r->graph, NULL, x, &options));
    options = bg_interpolate_defaults(BG_INTERPOLATE_CUBIC);
    options.scale[0] = options.scale[1] = 2.0;
    out(r, "cubic", bg_interpolate(r->graph, NULL, x, &options));
}

static void resize_by_products(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 2, 4, 6));
    bg_interpolate_options options = bg_interpolate_defaults(BG_INTERPOLATE_LINEAR);

    out(r, "area", bg_adaptive_avg_pool(r->graph, NULL, x, (const int64_t[]){3, 4}));
    options.scale[0] = options.scale[1] = 1.7;
    out(r, "odd", bg_interpolate(r->graph, NULL, x, &options));
}

static void arithmetic(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4)), w = weight_as(r, "w", BG_FLOAT32, DIMS(4), 0.5, 1.5);

    for (int f = 0; f < BG_BINARY_COUNT; f++)
        x = bg_elementwise_binary(r->graph, NULL, (bg_binary)f, x, w);
    out(r, "y", x);
}

static void scales(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4));

    out(r, "y", bg_scale(r->graph, NULL, x, 1.5, 0.0));
    out(r, "z", bg_scale(r->graph, NULL, x, -0.3, 0.7));
    out(r, "n", bg_scale(r->graph, NULL, bg_cast(r->graph, NULL, x, BG_INT32), 3.0, 1.0));
}

static void comparisons(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4)), w = weight(r, "w", DIMS(4));
    bg_value less = bg_compare(r->graph, NULL, BG_LESS, x, w);
    bg_value more = bg_compare(r->graph, NULL, BG_GREATER_EQUAL, bg_scale(r->graph, NULL, x, 2.0, 0.0), w);

    out(r, "y", bg_where(r->graph, NULL, bg_logical(r->graph, NULL, BG_LOGIC_OR, less, more), x, w));
    out(r, "xor", bg_logical(r->graph, NULL, BG_LOGIC_XOR, less, more));
    out(r, "not", bg_logical_not(r->graph, NULL, bg_logical(r->graph, NULL, BG_LOGIC_AND, less, more)));
    out(r, "equal", bg_compare(r->graph, NULL, BG_EQUAL, less, more));
    out(r, "unequal", bg_compare(r->graph, NULL, BG_NOT_EQUAL, x, w));
    out(r, "under", bg_compare(r->graph, NULL, BG_LESS_EQUAL, x, w));
    out(r, "over", bg_compare(r->graph, NULL, BG_GREATER, x, w));
    out(r, "prelu", bg_prelu(r->graph, NULL, x, weight(r, "slope", DIMS(4))));
}

static void shapes(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 2, 3, 4)), parts[2];

    parts[0] = bg_transpose(r->graph, NULL, x, (const uint32_t[]){0, 3, 1, 2});
    parts[1] = bg_reshape(r->graph, NULL, x, DIMS(r->batch, 4, 6));
    parts[0] = bg_reshape(r->graph, NULL, parts[0], DIMS(r->batch, 4, 6));
    out(r, "joined", bg_concat(r->graph, NULL, parts, 2, 1));
    out(r, "slice", bg_slice(r->graph, NULL, x, 3, 1, 4, 2));
    out(r, "wide", bg_broadcast(r->graph, NULL, bg_slice(r->graph, NULL, x, 2, 0, 1, 1), DIMS(r->batch, 2, 5, 4)));
    out(r, "rows", bg_reshape(r->graph, NULL, x, DIMS(r->batch * 2, 12)));
    out(r, "flip", bg_flip(r->graph, NULL, x, 3));
    out(r, "roll", bg_roll(r->graph, NULL, x, 1, 1));
    out(r, "tile", bg_tile(r->graph, NULL, x, (const int64_t[]){1, 2, 1, 3}));
    out(r, "upper", bg_triangle(r->graph, NULL, x, true, 1));
    out(r, "input", x);
}

static void reductions(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 3, 4));

    out(r, "sum", bg_reduce(r->graph, NULL, BG_REDUCE_SUM, x, (const int32_t[]){1}, 1, false));
    out(r, "mean", bg_reduce(r->graph, NULL, BG_REDUCE_MEAN, x, (const int32_t[]){1, 2}, 2, true));
    out(r, "max", bg_reduce(r->graph, NULL, BG_REDUCE_MAX, x, (const int32_t[]){-1}, 1, false));
    out(r, "all", bg_reduce(r->graph, NULL, BG_REDUCE_SUM, x, NULL, 0, false));
    out(r, "place", bg_argmax(r->graph, NULL, x));
    out(r, "running", bg_cumulative_sum(r->graph, NULL, x, 1, true, true));
}

static void padding(rig *r)
{
    static const int64_t before[3] = {0, 1, 2}, after[3] = {0, 0, 1}, less[3] = {0, -1, 1};
    bg_value x = x_of(r, DIMS(r->batch, 3, 4));

    out(r, "constant", bg_pad(r->graph, NULL, x, BG_PAD_CONSTANT, before, less, 0.5));
    out(r, "reflect", bg_pad(r->graph, NULL, x, BG_PAD_REFLECT, before, after, 0.0));
    out(r, "edge", bg_pad(r->graph, NULL, x, BG_PAD_REPLICATE, before, after, 0.0));
    out(r, "circular", bg_pad(r->graph, NULL, x, BG_PAD_CIRCULAR, before, after, 0.0));
}

static void gathers(rig *r)
{
    bg_value ids = give(r, "ids", BG_INT32, DIMS(r->batch, 3), 0.0, 5.0);
    bg_value x = x_of(r, DIMS(r->batch, 3)), numbers;

    out(r, "rows", bg_embedding(r->graph, NULL, weight(r, "table", DIMS(5, 4)), ids, -1));
    out(r, "along", bg_gather(r->graph, NULL, weight(r, "w", DIMS(2, 5, 3)), 1, ids));
    out(r, "each", bg_gather_elements(r->graph, NULL, weight(r, "x2", DIMS(r->batch, 5)), 1, ids));
    out(r, "best", bg_top_k(r->graph, NULL, x, 2, true, &numbers));
    out(r, "places", numbers);
    out(r, "hot", bg_one_hot(r->graph, NULL, ids, 5, BG_FLOAT32));
}

static void scatters(rig *r)
{
    bg_value ids = give(r, "ids", BG_INT64, DIMS(3, 2), 0.0, 5.0), w = weight(r, "w", DIMS(2, 5, 3));

    out(r, "y", bg_scatter_add(r->graph, NULL, w, 1, ids, weight(r, "u", DIMS(2, 3, 2, 3))));
    out(r, "z",
        bg_scatter_elements_add(r->graph, NULL, weight(r, "v", DIMS(3, 5)), 1, ids, weight(r, "t", DIMS(3, 2))));
}

static void softmaxes(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 3, 4));

    out(r, "y", bg_softmax(r->graph, NULL, x, -1));
    out(r, "z", bg_log_softmax(r->graph, NULL, x, 1));
}

static void layer_norm(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 3, 8));

    out(r, "y", bg_layer_norm(r->graph, NULL, x, weight(r, "g", DIMS(8)), weight(r, "b", DIMS(8)), 1e-5));
}

static void norms(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4, 6));

    out(r, "plain", bg_layer_norm(r->graph, NULL, x, (bg_value){0}, (bg_value){0}, 1e-5));
    out(r, "rms", bg_rms_norm(r->graph, NULL, x, weight(r, "g", DIMS(6)), 1e-6));
    out(r, "group", bg_group_norm(r->graph, NULL, x, 2, weight(r, "h", DIMS(4)), weight(r, "b", DIMS(4)), 1e-5));
}

static void batch_norm(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4, 3, 2));
    bg_value mean = weight(r, "mean", DIMS(4)), variance = weight_as(r, "variance", BG_FLOAT32, DIMS(4), 0.5, 2.0);

    x = bg_batch_norm(r->graph, "norm", x, weight(r, "g", DIMS(4)), weight(r, "b", DIMS(4)), mean, variance, 0.1, 1e-5);
    out(r, "y", bg_dropout(r->graph, NULL, x, 0.5));
}

static void attention(rig *r)
{
    bg_attention_options options = bg_attention_defaults(2);
    bg_value qkv = x_of(r, DIMS(r->batch, 5, 24));

    out(r, "causal", bg_attention(r->graph, NULL, qkv, &options));
    options.causal = false;
    options.scale = 0.3;
    out(r, "whole", bg_attention(r->graph, NULL, qkv, &options));
}

static void cross_attention(rig *r)
{
    bg_dot_product_attention_options options = bg_dot_product_attention_defaults(4);
    bg_value q = x_of(r, DIMS(r->batch, 3, 16)), k = give(r, "k", BG_FLOAT32, DIMS(r->batch, 5, 8), -1.0, 1.0);
    bg_value v = give(r, "v", BG_FLOAT32, DIMS(r->batch, 5, 8), -1.0, 1.0);
    bg_value mask = give(r, "mask", BG_UINT8, DIMS(r->batch, 1, 1, 5), 0.0, 2.0);
    bg_value bias = weight(r, "bias", DIMS(4, 3, 5));

    options.key_heads = 2;
    out(r, "masked", bg_dot_product_attention(r->graph, NULL, q, k, v, mask, &options));
    options.causal = true;
    options.offset = 1;
    out(r, "both", bg_dot_product_attention(r->graph, NULL, q, k, v, mask, &options));
    options.window = 2;
    options.alibi = 8.0;
    options.offset = -1;
    out(r, "placed", bg_dot_product_attention(r->graph, NULL, q, k, v, bias, &options));
}

static void rotary(rig *r)
{
    bg_rotary_options options = bg_rotary_defaults(2);
    bg_value x = x_of(r, DIMS(r->batch, 5, 16)), places = give(r, "places", BG_INT32, DIMS(r->batch, 5), 0.0, 900.0);

    out(r, "y", bg_rotary(r->graph, NULL, x, (bg_value){0}, &options));
    options.interleaved = true;
    options.features = 6;
    out(r, "z", bg_rotary(r->graph, NULL, x, places, &options));
}

static void lstm(rig *r)
{
    const int64_t dims[2] = {r->batch, 3};
    const bg_type state = bg_type_make(BG_FLOAT32, 2, dims);
    void *zeros = calloc(1, bg_type_size_bytes(&state));
    bg_value h0 = bg_graph_constant(r->graph, "h0", &state, zeros), x = x_of(r, DIMS(r->batch, 4, 5)), c, y;

    free(zeros);
    y = bg_linear(r->graph, NULL, x, weight(r, "w", DIMS(12, 5)), weight(r, "b", DIMS(12)));
    y = bg_lstm(r->graph, "lstm", y, weight(r, "u", DIMS(12, 3)), weight(r, "d", DIMS(12)), h0, h0, true, true, &c);
    out(r, "y", y);
    out(r, "cell", bg_slice(r->graph, NULL, c, 1, 0, 1, 1));
}

static void gru(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4, 9)), h0 = give(r, "h0", BG_FLOAT32, DIMS(r->batch, 3), -1.0, 1.0);

    out(r, "y", bg_gru(r->graph, "gru", x, weight(r, "u", DIMS(9, 3)), weight(r, "d", DIMS(9)), h0, true, false));
    out(r, "reset",
        bg_gru_reset_first(r->graph, "reset", x, weight(r, "v", DIMS(9, 3)), weight(r, "e", DIMS(9)), h0, true, true));
}

static void rnn(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4, 3)), h0 = give(r, "h0", BG_FLOAT32, DIMS(r->batch, 3), -1.0, 1.0);

    out(r, "y",
        bg_rnn(r->graph, "rnn", x, weight(r, "u", DIMS(3, 3)), weight(r, "d", DIMS(3)), h0, false, true, false));
    out(r, "stopped", bg_stop_gradient(r->graph, NULL, x));
}

static void losses(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4)), t = give(r, "t", BG_FLOAT32, DIMS(r->batch, 4), 0.01, 0.99);
    bg_value labels = give(r, "labels", BG_INT32, DIMS(r->batch), 0.0, 4.0), p = bg_sigmoid(r->graph, x);

    out(r, "ce", bg_cross_entropy(r->graph, NULL, x, labels, BG_LOSS_MEAN, -100));
    out(r, "nll",
        bg_nll_loss(r->graph, NULL, bg_log_softmax(r->graph, NULL, x, -1), labels, weight(r, "w", DIMS(4)),
                    BG_LOSS_NONE, -100));
    for (int f = 0; f < BG_LOSS_FUNCTION_COUNT; f++) {
        static const char *const names[] = {"squared", "absolute", "smooth", "huber",
                                            "logits",  "binary",   "kl",     "kl_log"};

        out(r, names[f],
            bg_pointwise_loss(r->graph, NULL, (bg_pointwise_loss_function)f, 0.7, f == BG_LOSS_BINARY ? p : x, t,
                              f % 2 == 0 ? BG_LOSS_MEAN : BG_LOSS_NONE));
    }
    out(r, "correct", bg_correct_count(r->graph, NULL, x, labels));
}

static void bytes(rig *r)
{
    bg_value x = give(r, "x", BG_UINT8, DIMS(r->batch, 1, 4, 4), 0.0, 256.0);

    x = bg_standardize(r->graph, NULL, x, BG_FLOAT32, 255.0f, 0.1307f, 0.3081f);
    out(r, "y", bg_flatten(r->graph, NULL, x));
}

/* Builds a model whose file must have a fixed batch size. */
static void fixed_batch(rig *r)
{
    bg_value x = x_of(r, DIMS(r->batch, 4));

    out(r, "y", bg_add(r->graph, x, weight(r, "w", DIMS(r->batch, 4))));
}

/* Builds a model of bfloat16 values, with ops that ONNX supports in this type and ops that it does not. */
static void narrow(rig *r)
{
    bg_value x = give(r, "x", BG_BFLOAT16, DIMS(r->batch, 4, 4, 4), -2.0, 2.0);

    x = bg_conv2d(r->graph, NULL, x, weight_as(r, "w", BG_BFLOAT16, DIMS(4, 4, 3, 3), -0.5, 0.5), (bg_value){0}, NULL);
    x = bg_relu(r->graph, x);
    x = bg_gelu(r->graph, bg_flatten(r->graph, NULL, x));
    out(r, "y", bg_cast(r->graph, NULL, bg_softmax(r->graph, NULL, x, 1), BG_FLOAT32));
}

typedef struct saved_case {
    const char *name;
    void (*build)(rig *r);
    double bound;  /* the largest difference after the round trip, relative to the largest number; 0: equal bits */
    bool is_fixed; /* the batch size is fixed */
    int64_t oldest;
} saved_case;

static const saved_case cases[] = {
    {"linear_2", linear_2, 0.0, false, 13},
    {"linear_3", linear_3, 0.0, false, 13},
    {"matmul", matmul, 0.0, false, 13},
    {"einsum", einsum, 1e-6, false, 13},
    {"conv", conv, 0.0, false, 13},
    {"conv_1_and_3", conv_1_and_3, 0.0, false, 13},
    {"conv_transpose", conv_transpose, 1e-6, false, 13},
    {"conv_transpose_3", conv_transpose_3, 1e-6, true, 16},
    {"pools", pools, 0.0, false, 13},
    {"resize", resize, 1e-6, false, 13},
    {"resize_by_products", resize_by_products, 1e-6, false, 13},
    {"arithmetic", arithmetic, 0.0, false, 13},
    {"scales", scales, 1e-6, false, 13},
    {"comparisons", comparisons, 0.0, false, 13},
    {"shapes", shapes, 0.0, false, 13},
    {"reductions", reductions, 0.0, false, 13},
    {"padding", padding, 0.0, false, 13},
    {"gathers", gathers, 0.0, true, 13},
    {"scatters", scatters, 1e-6, true, 16},
    {"softmaxes", softmaxes, 0.0, false, 13},
    {"layer_norm", layer_norm, 1e-6, false, 13},
    {"norms", norms, 2e-6, false, 13},
    {"batch_norm", batch_norm, 0.0, false, 13},
    {"attention", attention, 2e-6, false, 13},
    {"cross_attention", cross_attention, 2e-6, false, 13},
    {"rotary", rotary, 1e-6, false, 13},
    {"lstm", lstm, 2e-6, false, 13},
    {"gru", gru, 2e-6, false, 13},
    {"rnn", rnn, 2e-6, false, 13},
    {"losses", losses, 2e-6, false, 13},
    {"bytes", bytes, 0.0, false, 13},
    {"fixed_batch", fixed_batch, 0.0, true, 13},
    {"narrow", narrow, 1e-2, false, 13},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* ---- running ---- */

static void begin(rig *r, int64_t batch)
{
    *r = (rig){.batch = batch};
    well(bg_graph_create(&r->graph, &error));
    well(bg_weights_create(&r->weights, &error));
    bg_block_begin(r->graph, "B1", BG_DEVICE_NONE);
}

static void end(rig *r)
{
    for (uint32_t i = 0; i < r->input_count; i++)
        free(r->inputs[i].data);
    bg_weights_destroy(r->weights);
    bg_graph_destroy(r->graph);
}

static void build(rig *r, const saved_case *c, int64_t batch)
{
    begin(r, batch);
    c->build(r);
    bg_block_end(r->graph);
    well(bg_graph_check(r->graph, &error));
}

static bg_session *start(const bg_graph *graph, bg_weights *weights)
{
    bg_options options = bg_options_defaults();
    bg_session *session = NULL;

    options.execution.cores = 1;
    well(bg_session_create_inference(graph, &options, weights, &session, &error));
    return session;
}

static bg_stream output_at(const bg_session *session, uint32_t index)
{
    bg_stream stream;

    well(bg_session_output(session, index, &stream, &error));
    return stream;
}

/* Runs the session; `outs` gets all outputs, malloc'ed, in the session's order. */
static void run(bg_session *session, const rig *r, void **outs)
{
    const void *ins[MOST] = {NULL};

    for (uint32_t i = 0; i < r->input_count; i++) {
        const uint32_t place = bg_session_find_input(session, r->inputs[i].name);

        if (place != UINT32_MAX)
            ins[place] = r->inputs[i].data;
    }
    for (uint32_t i = 0; i < bg_session_output_count(session); i++) {
        const bg_type type = output_at(session, i).micro_batch_type;

        outs[i] = calloc(1, bg_type_size_bytes(&type) + 1);
    }
    well(bg_session_run(session, ins, outs, &error));
}

static double element(const bg_type *type, const void *data, int64_t i)
{
    switch (type->dtype) {
    case BG_FLOAT32:
        return ((const float *)data)[i];
    case BG_INT32:
        return ((const int32_t *)data)[i];
    case BG_INT64:
        return (double)((const int64_t *)data)[i];
    case BG_UINT8:
        return ((const uint8_t *)data)[i];
    default:
        fail_msg("no outputs of %s here", bg_dtype_name(type->dtype));
        return 0.0;
    }
}

static void expect_equal(const char *where, const char *name, const bg_type *type, const void *a, const void *b,
                         double bound)
{
    const int64_t count = bg_type_element_count(type);
    double largest = 0.0;

    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(element(type, a, i)));
    for (int64_t i = 0; i < count; i++) {
        const double x = element(type, a, i), y = element(type, b, i);

        if (!(fabs(x - y) <= bound * fmax(largest, 1.0)))
            fail_msg("%s: output %s, element %lld: %.9g and %.9g", where, name, (long long)i, x, y);
    }
    if (bound == 0.0)
        assert_memory_equal(a, b, bg_type_size_bytes(type));
}

/* Loads the model for `batch` samples and compares its results with the case for that number of samples. */
static void compare(const saved_case *c, const char *path, int64_t batch, int64_t opset)
{
    bg_onnx_options options = bg_onnx_defaults();
    bg_graph *graph = NULL;
    bg_weights *weights = NULL;
    bg_onnx *onnx = NULL;
    bg_session *ours, *loaded;
    const bg_onnx_contents *contents;
    void *expected[16], *got[16];
    char where[128];
    rig r;

    snprintf(where, sizeof where, "%s, opset %d, %d samples", c->name, (int)opset, (int)batch);
    build(&r, c, batch);
    options.batch_size = c->is_fixed ? 0 : batch;
    if (bg_onnx_load(path, &options, &graph, &weights, &onnx, &error) != BG_OK)
        fail_msg("%s: %s", where, error.message);
    contents = bg_onnx_contents_of(onnx);
    for (uint32_t i = 0; i < contents->output_count; i++)
        bg_graph_output(graph, contents->outputs[i].name, contents->outputs[i].value);
    ours = start(r.graph, r.weights);
    loaded = start(graph, weights);
    run(ours, &r, expected);
    run(loaded, &r, got);
    assert_int_equal(bg_session_output_count(ours), bg_session_output_count(loaded));
    for (uint32_t i = 0; i < bg_session_output_count(ours); i++) {
        const char *name = output_at(ours, i).name;
        const uint32_t place = bg_session_find_output(loaded, name);
        const bg_type type = output_at(ours, i).micro_batch_type;
        bg_type other;

        assert_int_not_equal(place, UINT32_MAX);
        other = output_at(loaded, place).micro_batch_type;
        if (!bg_type_equal(&type, &other))
            fail_msg("%s: output %s has another type", where, name);
        expect_equal(where, name, &type, expected[i], got[place], c->bound);
    }
    for (uint32_t i = 0; i < bg_session_output_count(ours); i++) {
        free(expected[i]);
        free(got[i]);
    }
    bg_session_destroy(ours);
    bg_session_destroy(loaded);
    bg_onnx_destroy(onnx);
    bg_weights_destroy(weights);
    bg_graph_destroy(graph);
    end(&r);
}

/* Saves the case for three samples. */
static void save(const saved_case *c, const char *path, int64_t opset)
{
    bg_onnx_save_options options = bg_onnx_save_defaults();
    bg_onnx_saved saved;
    rig r;

    options.opset = opset;
    build(&r, c, 3);
    if (bg_onnx_save(r.graph, r.weights, path, &options, &saved, &error) != BG_OK)
        fail_msg("%s: %s", c->name, error.message);
    if (saved.has_batch == c->is_fixed)
        fail_msg("%s: the batch is %s %s", c->name, c->is_fixed ? "open" : "fixed:", saved.fixed);
    end(&r);
}

static void test_ops_come_back(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 64];

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    for (int i = 0; i < CASES; i++)
        for (int64_t opset = cases[i].oldest; opset <= 17; opset++) {
            save(&cases[i], path, opset);
            compare(&cases[i], path, 3, opset);
            if (!cases[i].is_fixed)
                compare(&cases[i], path, 5, opset);
        }
    test_folder_remove(folder);
}

/* ---- functions, one by one ---- */

static bg_unary function_at_work;

static void function_case(rig *r)
{
    const bg_unary f = function_at_work;
    const double low = f == BG_LOG || f == BG_SQRT || f == BG_RSQRT || f == BG_RECIPROCAL || f == BG_POWER ? 0.5
                       : f == BG_ACOSH                                                                     ? 1.1
                       : f == BG_ASIN || f == BG_ACOS || f == BG_ATANH || f == BG_LOG1P                    ? -0.9
                                                                                                           : -3.0;
    const double high = f == BG_ASIN || f == BG_ACOS || f == BG_ATANH ? 0.9 : 3.0;

    out(r, "y", bg_elementwise_unary(r->graph, "f", f, give(r, "x", BG_FLOAT32, DIMS(r->batch, 40), low, high)));
}

static bool is_composed(bg_unary f)
{
    return f == BG_GELU || f == BG_GELU_TANH || f == BG_SILU || f == BG_MISH || f == BG_LOG_SIGMOID || f == BG_RSQRT ||
           f == BG_LOG1P || f == BG_EXPM1 || f == BG_HARD_SWISH || f == BG_HARD_SIGMOID || f == BG_SOFTPLUS;
}

static void test_functions_come_back(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 64];

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    for (int f = 0; f < BG_UNARY_COUNT; f++)
        for (int64_t opset = 13; opset <= 17; opset += 4) {
            char name[32];
            saved_case c = {.name = name, .build = function_case};

            snprintf(name, sizeof name, "function %d", f);
            function_at_work = (bg_unary)f;
            c.bound = is_composed(function_at_work) ? 1e-6 : 0.0;
            save(&c, path, opset);
            compare(&c, path, 5, opset);
        }
    test_folder_remove(folder);
}

/* ---- for other engines ---- */

static void write_npy(const char *folder, const char *name, const char *part, const bg_type *type, const void *data)
{
    static const char *const descriptions[] = {
        [BG_FLOAT32] = "<f4", [BG_INT32] = "<i4", [BG_INT64] = "<i8", [BG_UINT8] = "|u1"};
    char path[512], header[256] = "";
    FILE *file;
    int length;

    snprintf(path, sizeof path, "%s/%s.%s.npy", folder, name, part);
    length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                      descriptions[type->dtype]);
    for (uint32_t i = 0; i < type->rank; i++)
        length += snprintf(header + length, sizeof header - (size_t)length, "%lld,", (long long)type->dims[i]);
    length += snprintf(header + length, sizeof header - (size_t)length, ")}");
    memset(header + length, ' ', (size_t)(117 - length));
    header[117] = '\n';
    file = fopen(path, "wb");
    assert_non_null(file);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fwrite(header, 1, 118, file);
    fwrite(data, 1, bg_type_size_bytes(type), file);
    assert_int_equal(fclose(file), 0);
}

static void write_case(const char *folder, const saved_case *c, const char *name, int64_t opset)
{
    char path[512];
    bg_session *session;
    void *outs[16];
    rig r;

    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    save(c, path, opset);
    build(&r, c, c->is_fixed ? 3 : 5);
    session = start(r.graph, r.weights);
    run(session, &r, outs);
    for (uint32_t i = 0; i < r.input_count; i++) {
        char part[64];

        snprintf(part, sizeof part, "in.%s", r.inputs[i].name);
        if (r.inputs[i].type.dtype != BG_BFLOAT16)
            write_npy(folder, name, part, &r.inputs[i].type, r.inputs[i].data);
    }
    for (uint32_t i = 0; i < bg_session_output_count(session); i++) {
        const bg_type type = output_at(session, i).micro_batch_type;
        char part[64];

        snprintf(part, sizeof part, "out.%s", output_at(session, i).name);
        write_npy(folder, name, part, &type, outs[i]);
        free(outs[i]);
    }
    bg_session_destroy(session);
    end(&r);
}

static const char *folder_to_write;

static void write_all(void **state)
{
    char name[64];

    (void)state;
    for (int i = 0; i < CASES; i++)
        for (int64_t opset = cases[i].oldest; opset <= 17; opset++) {
            snprintf(name, sizeof name, "%s.%d", cases[i].name, (int)opset);
            write_case(folder_to_write, &cases[i], name, opset);
        }
    for (int f = 0; f < BG_UNARY_COUNT; f++) {
        const saved_case c = {.name = "function", .build = function_case};

        function_at_work = (bg_unary)f;
        snprintf(name, sizeof name, "function_%d.17", f);
        write_case(folder_to_write, &c, name, 17);
    }
}

/* ---- errors ---- */

static void refuses(const bg_graph *graph, bg_weights *weights, const bg_onnx_save_options *options, bg_status status,
                    const char *expected)
{
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 64];

    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    assert_int_equal(bg_onnx_save(graph, weights, path, options, NULL, &error), status);
    if (strstr(error.message, expected) == NULL)
        fail_msg("the message is `%s`: expected `%s`", error.message, expected);
    assert_int_equal(test_folder_count(folder), 0);
    test_folder_remove(folder);
}

static void test_refusals(void **state)
{
    bg_onnx_save_options options = bg_onnx_save_defaults();
    const char *missing = "z";
    rig r;

    (void)state;
    build(&r, &cases[0], 3);
    options.opset = 12;
    refuses(r.graph, r.weights, &options, BG_ERROR_INVALID, "options.opset is 12 but must be 13 to 17");
    options.opset = 18;
    refuses(r.graph, r.weights, &options, BG_ERROR_INVALID, "options.opset is 18");
    options = bg_onnx_save_defaults();
    options.outputs = &missing;
    refuses(r.graph, r.weights, &options, BG_ERROR_INVALID, "has no outputs");
    options.output_count = 1;
    refuses(r.graph, r.weights, &options, BG_ERROR_INVALID, "the graph has no output `z`");
    options = bg_onnx_save_defaults();
    options.batch = "";
    refuses(r.graph, r.weights, &options, BG_ERROR_INVALID, "options.batch is \"\"");
    options.struct_bytes = 1;
    refuses(r.graph, r.weights, &options, BG_ERROR_INVALID, "bg_onnx_save_options");
    bg_weights_destroy(r.weights);
    well(bg_weights_create(&r.weights, &error));
    refuses(r.graph, r.weights, NULL, BG_ERROR_NOT_FOUND, "w");
    out(&r, "x", bg_graph_find_variable(r.graph, "w"));
    refuses(r.graph, r.weights, NULL, BG_ERROR_INVALID, "output `x` has the name of an input");
    end(&r);

    begin(&r, 3); /* all at once */
    out(&r, "a",
        bg_scatter_add(r.graph, "first", weight(&r, "w", DIMS(5, 2)), 0, give(&r, "ids", BG_INT32, DIMS(3), 0.0, 4.0),
                       weight(&r, "u", DIMS(3, 2))));
    out(&r, "b",
        bg_weighted_cross_entropy(r.graph, "second", x_of(&r, DIMS(3, 4)),
                                  give(&r, "labels", BG_INT32, DIMS(3), 0.0, 4.0), (bg_value){0}, 0.1, BG_LOSS_MEAN,
                                  -100));
    bg_block_end(r.graph);
    options = bg_onnx_save_defaults();
    options.opset = 13;
    refuses(r.graph, r.weights, &options, BG_ERROR_UNSUPPORTED, "2 ops cannot be written as ONNX: scatter");
    assert_non_null(strstr(error.message, "cross_entropy `second`: ONNX has no smoothing of labels"));
    end(&r);
}

static void test_weights_lie_outside(void **state)
{
    bg_onnx_save_options options = bg_onnx_save_defaults();
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 64];
    bg_onnx_saved saved;
    rig r;

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    build(&r, &cases[0], 3);
    options.external_data = true;
    well(bg_onnx_save(r.graph, r.weights, path, &options, &saved, &error));
    assert_int_equal(saved.weight_count, 2);
    assert_int_equal(saved.weight_bytes, 28 * 4);
    assert_int_equal(test_folder_count(folder), 2);
    end(&r);
    compare(&cases[0], path, 4, 17);
    test_folder_remove(folder);
}

static const saved_case *find_case(const char *name)
{
    int i = 0;

    while (strcmp(cases[i].name, name) != 0)
        assert_true(++i < CASES);
    return &cases[i];
}

/* A saved file has names, blocks, and only the ops that an output needs. */
static void test_names_stay(void **state)
{
    bg_onnx_save_options options = bg_onnx_save_defaults();
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 64];
    const char *wanted = "rows";
    const bg_onnx_contents *contents;
    bg_onnx *onnx;
    rig r;

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    build(&r, find_case("gathers"), 3);
    options.outputs = &wanted;
    options.output_count = 1;
    options.batch = "n";
    well(bg_onnx_save(r.graph, r.weights, path, &options, NULL, &error));
    end(&r);
    well(bg_onnx_open(path, &onnx, &error));
    contents = bg_onnx_contents_of(onnx);
    assert_int_equal(contents->opset, 17);
    assert_int_equal(contents->input_count, 1);
    assert_string_equal(contents->inputs[0].name, "ids");
    assert_string_equal(contents->inputs[0].dims[0].symbol, "n");
    assert_int_equal(contents->output_count, 1);
    assert_string_equal(contents->outputs[0].name, "rows");
    assert_string_equal(contents->outputs[0].dims[0].symbol, "n");
    assert_int_equal(contents->weight_count, 1);
    assert_string_equal(contents->weights[0].name, "table");
    assert_int_equal(contents->node_count, 1);
    assert_string_equal(contents->nodes[0].op, "Gather");
    assert_string_equal(contents->nodes[0].block, "B1");
    bg_onnx_destroy(onnx);
    test_folder_remove(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest writing[] = {cmocka_unit_test(write_all)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_come_back), cmocka_unit_test(test_functions_come_back),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_weights_lie_outside),
        cmocka_unit_test(test_names_stay),
    };

    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        folder_to_write = argv[2];
        return cmocka_run_group_tests(writing, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
