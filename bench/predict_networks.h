/*
 * predict_networks.h: builds the networks for which predict.c and mpi_predict.c compare predicted and measured times.
 * Their updates take some ten milliseconds, and blocks divide each network into at least four stages.
 */
#ifndef BGI_BENCH_PREDICT_NETWORKS_H
#define BGI_BENCH_PREDICT_NETWORKS_H

#include <stdio.h>

#include <brigade/convnet.h>
#include <brigade/gpt.h>
#include <brigade/nn.h>
#include <brigade/ops.h>

enum { HEADS = 4, LAYERS = 2, WIDTH = 128, LENGTH = 64, WORDS = 512, SEQUENCES = 4 }; /* sizes of the transformers */

static bg_value finish(bg_graph *graph, bg_value loss)
{
    bg_graph_output(graph, "loss", loss);
    return loss;
}

/* ---- convolutions ---- */

static bg_value add_digits(bg_graph *graph)
{
    bg_convnet_options options = bg_convnet_defaults();

    options.micro_batch = 40;
    return bg_convnet_build(graph, &options).loss;
}

static bg_value add_norm_block(bg_graph *graph, const char *name, bg_value x, int64_t channels, int64_t stride)
{
    bg_conv2d_options conv = bg_conv2d_defaults();
    char layer[32];

    conv.padding[0] = conv.padding[1] = 1;
    conv.stride[0] = conv.stride[1] = stride;
    bg_block_begin(graph, name, BG_DEVICE_NONE);
    snprintf(layer, sizeof layer, "%s.conv", name);
    x = bg_conv2d_layer(graph, layer, x, channels, 3, 3, false, &conv);
    snprintf(layer, sizeof layer, "%s.norm", name);
    x = bg_relu(graph, bg_batch_norm_layer(graph, layer, x, 0.1, 1e-5));
    bg_block_end(graph);
    return x;
}

static bg_value add_norms(bg_graph *graph)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, 16, 3, 32, 32), label = bg_vector(BG_INT32, 16);
    const bg_pool2d_options pool = bg_pool2d_defaults(8);
    bg_value x = bg_graph_input(graph, "images", &image), labels = bg_graph_input(graph, "labels", &label);

    x = add_norm_block(graph, "B1", x, 16, 1);
    x = add_norm_block(graph, "B2", x, 32, 2);
    x = add_norm_block(graph, "B3", x, 64, 2);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "out", bg_flatten(graph, NULL, bg_avg_pool2d(graph, "pool", x, &pool)), 10, true);
    x = finish(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100));
    bg_block_end(graph);
    return x;
}

static bg_value add_conv_norm(bg_graph *graph, const char *name, bg_value x, int64_t channels, int64_t window,
                              int64_t stride)
{
    bg_conv2d_options conv = bg_conv2d_defaults();

    conv.padding[0] = conv.padding[1] = window / 2;
    conv.stride[0] = conv.stride[1] = stride;
    bg_scope_begin(graph, "%s", name);
    x = bg_conv2d_layer(graph, "conv", x, channels, window, window, false, &conv);
    x = bg_batch_norm_layer(graph, "norm", x, 0.1, 1e-5);
    bg_scope_end(graph);
    return x;
}

static bg_value add_residual(bg_graph *graph, const char *name, bg_value x, int64_t channels, int64_t stride)
{
    bg_value y;

    bg_block_begin(graph, name, BG_DEVICE_NONE);
    bg_scope_begin(graph, "%s", name);
    y = bg_relu(graph, add_conv_norm(graph, "first", x, channels, 3, stride));
    y = add_conv_norm(graph, "second", y, channels, 3, 1);
    if (stride > 1)
        x = add_conv_norm(graph, "shortcut", x, channels, 1, stride);
    x = bg_relu(graph, bg_add(graph, y, x));
    bg_scope_end(graph);
    bg_block_end(graph);
    return x;
}

/* Adds ResNet-8, as in MLPerf Tiny. */
static bg_value add_resnet(bg_graph *graph)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, 8, 3, 32, 32), label = bg_vector(BG_INT32, 8);
    bg_value x = bg_graph_input(graph, "images", &image), labels = bg_graph_input(graph, "labels", &label);

    bg_block_begin(graph, "stem", BG_DEVICE_NONE);
    x = bg_relu(graph, add_conv_norm(graph, "stem", x, 16, 3, 1));
    bg_block_end(graph);
    x = add_residual(graph, "B1", x, 16, 1);
    x = add_residual(graph, "B2", x, 32, 2);
    x = add_residual(graph, "B3", x, 64, 2);
    bg_block_begin(graph, "head", BG_DEVICE_NONE);
    x = bg_flatten(graph, NULL, bg_adaptive_avg_pool(graph, "pool", x, NULL));
    x = bg_linear_layer(graph, "out", x, 10, true);
    x = finish(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100));
    bg_block_end(graph);
    return x;
}

/* ---- transformers ---- */

static bg_value add_gpt(bg_graph *graph)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = LAYERS;
    options.hidden = WIDTH;
    options.heads = HEADS;
    options.sequence_length = options.positions = LENGTH;
    options.vocabulary = WORDS;
    options.micro_batch = SEQUENCES;
    options.outputs = BG_GPT_LOSS;
    return bg_gpt_build(graph, &options).loss;
}

static bg_value add_bert_layer(bg_graph *graph, const char *name, bg_value x, bg_value mask)
{
    const bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(HEADS);
    bg_value query, key, value, y;

    bg_block_begin(graph, name, BG_DEVICE_NONE);
    bg_scope_begin(graph, "%s", name);
    query = bg_linear_layer(graph, "query", x, WIDTH, true);
    key = bg_linear_layer(graph, "key", x, WIDTH, true);
    value = bg_linear_layer(graph, "value", x, WIDTH, true);
    y = bg_dot_product_attention(graph, "attention", query, key, value, mask, &attention);
    y = bg_add(graph, x, bg_linear_layer(graph, "out", y, WIDTH, true));
    x = bg_layer_norm_layer(graph, "norm1", y, 1e-5);
    y = bg_gelu(graph, bg_linear_layer(graph, "fc1", x, 4 * WIDTH, true));
    y = bg_add(graph, x, bg_linear_layer(graph, "fc2", y, WIDTH, true));
    x = bg_layer_norm_layer(graph, "norm2", y, 1e-5);
    bg_scope_end(graph);
    bg_block_end(graph);
    return x;
}

/* Adds a masked language model whose head has its own matrix. */
static bg_value add_bert(bg_graph *graph)
{
    const bg_type token = bg_matrix(BG_INT32, SEQUENCES, LENGTH), seen = bg_matrix(BG_UINT8, SEQUENCES, LENGTH);
    const bg_type places = bg_matrix(BG_FLOAT32, LENGTH, WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.02};
    const bg_value tokens = bg_graph_input(graph, "tokens", &token), mask = bg_graph_input(graph, "mask", &seen);
    const bg_value labels = bg_graph_input(graph, "labels", &token);
    bg_value x, keys;

    bg_block_begin(graph, "embedding", BG_DEVICE_NONE);
    keys = bg_reshape(graph, "keys", mask, 4, (const int64_t[]){SEQUENCES, 1, 1, LENGTH});
    x = bg_embedding_layer(graph, "words", tokens, WORDS, WIDTH, -1, BG_FLOAT32);
    x = bg_add(graph, x, bg_graph_parameter(graph, "places.weight", &places, &normal));
    x = bg_layer_norm_layer(graph, "norm", x, 1e-5);
    bg_block_end(graph);
    x = add_bert_layer(graph, "layer1", x, keys);
    x = add_bert_layer(graph, "layer2", x, keys);
    bg_block_begin(graph, "head", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "decoder", bg_gelu(graph, bg_linear_layer(graph, "dense", x, WIDTH, true)), WORDS, true);
    x = finish(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100));
    bg_block_end(graph);
    return x;
}

static const struct {
    const char *name;
    bg_value (*add)(bg_graph *graph);
} networks[] = {
    {"digits", add_digits}, {"batch norm", add_norms}, {"resnet", add_resnet}, {"gpt", add_gpt}, {"bert", add_bert}};

enum { NETWORKS = sizeof networks / sizeof networks[0] };

#endif
