/*
 * zoo.c: the models. Their layers are those of the examples of the same names, which have more comments.
 */
#include "support/zoo.h"

#include <stddef.h>
#include <stdio.h>

#include <brigade/convnet.h>
#include <brigade/gpt.h>
#include <brigade/nn.h>
#include <brigade/ops.h>

static bg_value finish(bg_graph *graph, bg_value loss)
{
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static bg_value classify(bg_graph *graph, bg_value x, int64_t classes, int64_t micro_batch)
{
    const bg_type label = bg_vector(BG_INT32, micro_batch);
    const bg_value labels = bg_graph_input(graph, "labels", &label);

    return finish(graph, bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "out", x, classes, true), labels,
                                          BG_LOSS_MEAN, -100));
}

/* ---- convolutions ---- */

static bg_value build_digits(bg_graph *graph, int64_t micro_batch)
{
    bg_convnet_options options = bg_convnet_defaults();

    options.micro_batch = micro_batch;
    return bg_convnet_build(graph, &options).loss;
}

enum { RESNET_SIZE = 32, RESNET_CHANNELS = 16 };

static bg_value add_convolution(bg_graph *graph, const char *conv, const char *norm, bg_value x, int64_t channels,
                                int64_t window, int64_t stride)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = window / 2;
    return bg_batch_norm_layer(graph, norm, bg_conv2d_layer(graph, conv, x, channels, window, window, false, &options),
                               0.1, 1e-5);
}

static bg_value add_residual(bg_graph *graph, bg_value x, int64_t channels, int64_t stride)
{
    bg_value y = bg_relu(graph, add_convolution(graph, "conv1", "bn1", x, channels, 3, stride));

    y = add_convolution(graph, "conv2", "bn2", y, channels, 3, 1);
    if (bg_graph_type(graph, x).dims[1] != channels)
        x = add_convolution(graph, "downsample.0", "downsample.1", x, channels, 1, stride);
    return bg_relu(graph, bg_add(graph, y, x));
}

static bg_value build_resnet(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, micro_batch, 3, RESNET_SIZE, RESNET_SIZE);
    bg_value x = bg_graph_input(graph, "images", &image);

    x = bg_relu(graph, add_convolution(graph, "conv1", "bn1", x, RESNET_CHANNELS, 3, 1));
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < 2; block++) {
            bg_scope_begin(graph, "layer%d.%d", stage + 1, block);
            x = add_residual(graph, x, RESNET_CHANNELS << stage, stage > 0 && block == 0 ? 2 : 1);
            bg_scope_end(graph);
        }
    return classify(graph, bg_flatten(graph, NULL, bg_adaptive_avg_pool(graph, "pool", x, NULL)), 10, micro_batch);
}

enum { UNET_SIZE = 32, UNET_CHANNELS = 16 };

static bg_value add_pair(bg_graph *graph, const char *scope, bg_value x, int64_t channels)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    options.padding[0] = options.padding[1] = 1;
    bg_scope_begin(graph, "%s", scope);
    for (int i = 1; i <= 2; i++) {
        x = bg_conv2d_layer(graph, i == 1 ? "conv1" : "conv2", x, channels, 3, 3, true, &options);
        x = bg_silu(graph, bg_group_norm_layer(graph, i == 1 ? "norm1" : "norm2", x, channels / 4, 1e-5));
    }
    bg_scope_end(graph);
    return x;
}

static bg_value add_way_up(bg_graph *graph, const char *name, bg_value x, bg_value left)
{
    const int64_t channels = bg_graph_type(graph, left).dims[1];
    bg_conv_options options = bg_conv_defaults();

    options.stride[0] = options.stride[1] = 2;
    x = bg_conv_transpose_layer(graph, name, x, channels, (const int64_t[]){2, 2}, true, &options);
    return bg_concat(graph, NULL, (const bg_value[]){left, x}, 2, 1);
}

static bg_value build_unet(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, micro_batch, 1, UNET_SIZE, UNET_SIZE);
    const bg_pool2d_options half = bg_pool2d_defaults(2);
    const bg_value images = bg_graph_input(graph, "images", &image), wanted = bg_graph_input(graph, "wanted", &image);
    const bg_value first = add_pair(graph, "down1", images, UNET_CHANNELS);
    const bg_value second = add_pair(graph, "down2", bg_max_pool2d(graph, NULL, first, &half), 2 * UNET_CHANNELS);
    bg_value x = add_pair(graph, "bottom", bg_max_pool2d(graph, NULL, second, &half), 4 * UNET_CHANNELS);

    x = add_pair(graph, "up2", add_way_up(graph, "wider2", x, second), 2 * UNET_CHANNELS);
    x = add_pair(graph, "up1", add_way_up(graph, "wider1", x, first), UNET_CHANNELS);
    x = bg_conv2d_layer(graph, "out", x, 1, 1, 1, true, NULL);
    return finish(graph, bg_pointwise_loss(graph, "loss", BG_LOSS_BINARY_LOGITS, 1.0, x, wanted, BG_LOSS_MEAN));
}

/* ---- transformers ---- */

enum { WIDTH = 256, HEADS = 4, LAYERS = 3, LENGTH = 64, WORDS = 4096 };

static bg_value build_gpt(bg_graph *graph, int64_t micro_batch)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = LAYERS;
    options.hidden = WIDTH;
    options.heads = HEADS;
    options.sequence_length = options.positions = LENGTH;
    options.vocabulary = WORDS;
    options.micro_batch = micro_batch;
    options.outputs = BG_GPT_LOSS;
    return bg_gpt_build(graph, &options).loss;
}

static bg_value add_bert_layer(bg_graph *graph, bg_value x, bg_value mask)
{
    const bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(HEADS);
    const bg_value query = bg_linear_layer(graph, "query", x, WIDTH, true);
    const bg_value key = bg_linear_layer(graph, "key", x, WIDTH, true);
    const bg_value value = bg_linear_layer(graph, "value", x, WIDTH, true);
    bg_value y = bg_dot_product_attention(graph, "attention", query, key, value, mask, &attention);

    y = bg_add(graph, x, bg_linear_layer(graph, "out", y, WIDTH, true));
    x = bg_layer_norm_layer(graph, "norm1", y, 1e-5);
    y = bg_gelu(graph, bg_linear_layer(graph, "fc1", x, 4 * WIDTH, true));
    y = bg_add(graph, x, bg_linear_layer(graph, "fc2", y, WIDTH, true));
    return bg_layer_norm_layer(graph, "norm2", y, 1e-5);
}

static bg_value build_bert(bg_graph *graph, int64_t micro_batch)
{
    const bg_type token = bg_matrix(BG_INT32, micro_batch, LENGTH), seen = bg_matrix(BG_UINT8, micro_batch, LENGTH);
    const bg_type words = bg_matrix(BG_FLOAT32, WORDS, WIDTH), places = bg_matrix(BG_FLOAT32, LENGTH, WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.02};
    const bg_value tokens = bg_graph_input(graph, "tokens", &token), mask = bg_graph_input(graph, "mask", &seen);
    const bg_value labels = bg_graph_input(graph, "labels", &token);
    const bg_value table = bg_graph_parameter(graph, "words.weight", &words, &normal);
    const bg_value keys = bg_reshape(graph, "keys", mask, 4, (const int64_t[]){micro_batch, 1, 1, LENGTH});
    bg_value x = bg_add(graph, bg_embedding(graph, "words", table, tokens, -1),
                        bg_graph_parameter(graph, "places.weight", &places, &normal));

    x = bg_layer_norm_layer(graph, "norm", x, 1e-5);
    for (int i = 0; i < LAYERS; i++) {
        bg_scope_begin(graph, "layers.%d", i);
        x = add_bert_layer(graph, x, keys);
        bg_scope_end(graph);
    }
    x = bg_linear(graph, "logits", bg_gelu(graph, bg_linear_layer(graph, "head", x, WIDTH, true)), table,
                  (bg_value){0});
    return finish(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100));
}

static bg_value add_llama_layer(bg_graph *graph, bg_value x)
{
    const bg_rotary_options turn = bg_rotary_defaults(HEADS);
    bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(HEADS);
    bg_value y = bg_rms_norm_layer(graph, "attention_norm", x, 1e-5), query, key, gate;

    attention.causal = true;
    query = bg_rotary(graph, NULL, bg_linear_layer(graph, "wq", y, WIDTH, false), (bg_value){0}, &turn);
    key = bg_rotary(graph, NULL, bg_linear_layer(graph, "wk", y, WIDTH, false), (bg_value){0}, &turn);
    y = bg_dot_product_attention(graph, "attention", query, key, bg_linear_layer(graph, "wv", y, WIDTH, false),
                                 (bg_value){0}, &attention);
    x = bg_add(graph, x, bg_linear_layer(graph, "wo", y, WIDTH, false));
    y = bg_rms_norm_layer(graph, "ffn_norm", x, 1e-5);
    gate = bg_silu(graph, bg_linear_layer(graph, "w1", y, 3 * WIDTH, false));
    y = bg_multiply(graph, gate, bg_linear_layer(graph, "w3", y, 3 * WIDTH, false));
    return bg_add(graph, x, bg_linear_layer(graph, "w2", y, WIDTH, false));
}

static bg_value build_llama(bg_graph *graph, int64_t micro_batch)
{
    const bg_type token = bg_matrix(BG_INT32, micro_batch, LENGTH);
    const bg_value tokens = bg_graph_input(graph, "tokens", &token), next = bg_graph_input(graph, "next", &token);
    bg_value x = bg_embedding_layer(graph, "tok_embeddings", tokens, WORDS, WIDTH, -1, BG_FLOAT32);

    for (int i = 0; i < LAYERS; i++) {
        bg_scope_begin(graph, "layers.%d", i);
        x = add_llama_layer(graph, x);
        bg_scope_end(graph);
    }
    x = bg_linear_layer(graph, "output", bg_rms_norm_layer(graph, "norm", x, 1e-5), WORDS, false);
    return finish(graph, bg_cross_entropy(graph, "loss", x, next, BG_LOSS_MEAN, -100));
}

enum { VIT_SIZE = 32, VIT_PATCH = 4, VIT_PATCHES = VIT_SIZE / VIT_PATCH * (VIT_SIZE / VIT_PATCH), VIT_WIDTH = 128 };

static bg_value add_vit_layer(bg_graph *graph, bg_value x)
{
    bg_attention_options attention = bg_attention_defaults(HEADS);
    bg_value y = bg_linear_layer(graph, "qkv", bg_layer_norm_layer(graph, "norm1", x, 1e-5), 3 * VIT_WIDTH, true);

    attention.causal = false;
    y = bg_attention(graph, "attention", y, &attention);
    x = bg_add(graph, x, bg_linear_layer(graph, "out", y, VIT_WIDTH, true));
    y = bg_linear_layer(graph, "fc1", bg_layer_norm_layer(graph, "norm2", x, 1e-5), 4 * VIT_WIDTH, true);
    return bg_add(graph, x, bg_linear_layer(graph, "fc2", bg_gelu(graph, y), VIT_WIDTH, true));
}

static bg_value build_vit(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, micro_batch, 3, VIT_SIZE, VIT_SIZE);
    const bg_type first = bg_tensor3(BG_FLOAT32, 1, 1, VIT_WIDTH),
                  places = bg_tensor3(BG_FLOAT32, 1, VIT_PATCHES + 1, VIT_WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.1};
    bg_conv2d_options patches = bg_conv2d_defaults();
    bg_value x = bg_graph_input(graph, "images", &image), token;

    patches.stride[0] = patches.stride[1] = VIT_PATCH;
    token = bg_graph_parameter(graph, "class_token", &first, &normal);
    x = bg_conv2d_layer(graph, "patches", x, VIT_WIDTH, VIT_PATCH, VIT_PATCH, true, &patches);
    x = bg_reshape(graph, NULL, x, 3, (const int64_t[]){micro_batch, VIT_WIDTH, VIT_PATCHES});
    x = bg_transpose(graph, NULL, x, (const uint32_t[]){0, 2, 1});
    token = bg_broadcast(graph, NULL, token, 3, (const int64_t[]){micro_batch, 1, VIT_WIDTH});
    x = bg_concat(graph, NULL, (const bg_value[]){token, x}, 2, 1);
    x = bg_add(graph, x, bg_graph_parameter(graph, "places", &places, &normal));
    for (int i = 0; i < LAYERS; i++) {
        bg_scope_begin(graph, "layers.%d", i);
        x = add_vit_layer(graph, x);
        bg_scope_end(graph);
    }
    x = bg_flatten(graph, NULL, bg_slice(graph, NULL, bg_layer_norm_layer(graph, "norm", x, 1e-5), 1, 0, 1, 1));
    return classify(graph, x, 10, micro_batch);
}

/* ---- recurrent ---- */

enum { STEPS = 48, FEATURES = 32, UNITS = 192 };

static bg_value build_recurrent(bg_graph *graph, int64_t micro_batch)
{
    const bg_type sequence = bg_tensor3(BG_FLOAT32, micro_batch, STEPS, FEATURES);
    const bg_value none = {0};
    bg_recurrent_options options = bg_recurrent_defaults();
    bg_value x = bg_graph_input(graph, "x", &sequence);

    options.batch_first = true;
    options.layers = 2;
    x = bg_lstm_layer(graph, "lstm", x, UNITS, &options, none, none, NULL, NULL);
    x = bg_reshape(graph, NULL, bg_slice(graph, NULL, x, 1, STEPS - 1, STEPS, 1), 2,
                   (const int64_t[]){micro_batch, UNITS});
    return classify(graph, x, 10, micro_batch);
}

static const test_zoo_model zoo[] = {
    {"digits", 128, build_digits}, {"resnet", 16, build_resnet},
    {"unet", 8, build_unet},       {"gpt", 4, build_gpt},
    {"bert", 4, build_bert},       {"llama", 4, build_llama},
    {"vit", 8, build_vit},         {"recurrent", 32, build_recurrent},
};

const test_zoo_model *test_zoo_at(unsigned index)
{
    return index < sizeof zoo / sizeof zoo[0] ? &zoo[index] : NULL;
}
