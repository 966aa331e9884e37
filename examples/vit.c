/*
 * vit.c: trains a vision transformer (Dosovitskiy et al., 2021). A convolution makes a token of each patch of the
 * image, and a learned token is added before these tokens. Transformer layers follow, and the first token gives the
 * class. lesson.h has the arguments and the loop.
 *     cc vit.c $(pkg-config --cflags --libs brigade) -o vit && ./vit pipelined
 */
#include "lesson.h"

enum { SIZE = 12, PATCH = 4, PATCHES = SIZE / PATCH * (SIZE / PATCH), TOKENS = PATCHES + 1 };
enum { WIDTH = 24, HEADS = 3, LAYERS = 2, CLASSES = 10 };

/* Makes tokens: [N, 3, SIZE, SIZE] -> [N, TOKENS, WIDTH]. */
static bg_value add_tokens(bg_graph *graph, bg_value images, int64_t micro_batch)
{
    const bg_type first = bg_tensor3(BG_FLOAT32, 1, 1, WIDTH), places = bg_tensor3(BG_FLOAT32, 1, TOKENS, WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.1};
    bg_conv2d_options patches = bg_conv2d_defaults();
    bg_value token = bg_graph_parameter(graph, "class_token", &first, &normal), x;

    patches.stride[0] = patches.stride[1] = PATCH;
    x = bg_conv2d_layer(graph, "patches", images, WIDTH, PATCH, PATCH, true, &patches);
    x = bg_reshape(graph, NULL, x, 3, (const int64_t[]){micro_batch, WIDTH, PATCHES});
    x = bg_transpose(graph, NULL, x, (const uint32_t[]){0, 2, 1});
    token = bg_broadcast(graph, NULL, token, 3, (const int64_t[]){micro_batch, 1, WIDTH});
    x = bg_concat(graph, NULL, (const bg_value[]){token, x}, 2, 1);
    return bg_add(graph, x, bg_graph_parameter(graph, "places", &places, &normal));
}

/* Adds attention and two linear layers, each of the two parts after a norm (pre-norm). One product computes queries,
 * keys and values. */
static bg_value add_layer(bg_graph *graph, bg_value x)
{
    bg_attention_options attention = bg_attention_defaults(HEADS);
    bg_value y = bg_linear_layer(graph, "qkv", bg_layer_norm_layer(graph, "norm1", x, 1e-5), 3 * WIDTH, true);

    attention.causal = false;
    y = bg_attention(graph, "attention", y, &attention);
    x = bg_add(graph, x, bg_linear_layer(graph, "out", y, WIDTH, true));
    y = bg_linear_layer(graph, "fc1", bg_layer_norm_layer(graph, "norm2", x, 1e-5), 2 * WIDTH, true);
    return bg_add(graph, x, bg_linear_layer(graph, "fc2", bg_gelu(graph, y), WIDTH, true));
}

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, micro_batch, 3, SIZE, SIZE), label = bg_vector(BG_INT32, micro_batch);
    const bg_value images = bg_graph_input(graph, "images", &image);
    const bg_value labels = bg_graph_input(graph, "labels", &label);

    bg_block_start(graph, "tokens", BG_DEVICE_NONE);
    bg_value x = add_tokens(graph, images, micro_batch);
    for (int i = 0; i < LAYERS; i++) {
        char block[16];
        snprintf(block, sizeof block, "layer%d", i);
        bg_block_start(graph, block, BG_DEVICE_NONE);
        bg_scope_begin(graph, "layers.%d", i);
        x = add_layer(graph, x);
        bg_scope_end(graph);
    }
    bg_block_start(graph, "head", BG_DEVICE_NONE);
    x = bg_flatten(graph, NULL, bg_slice(graph, NULL, bg_layer_norm_layer(graph, "norm", x, 1e-5), 1, 0, 1, 1));
    return bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "head", x, CLASSES, true), labels, BG_LOSS_MEAN,
                            -100);
}

/* Draws an image, which is the pattern of its class with noise. */
static void draw(uint32_t number, void *const *data)
{
    float *image = data[0];
    int32_t *label = data[1];

    *label = (int32_t)(number % CLASSES);
    for (uint32_t p = 0; p < 3 * SIZE * SIZE; p++)
        image[p] = (float)(lesson_number(1000 + number % CLASSES, p) / 2 + lesson_number(number, p));
}

int main(int argc, char **argv)
{
    const lesson vit = {.name = "vit",
                        .samples = 320,
                        .micro_batch = 8,
                        .micro_batches = 4,
                        .optimizer = bg_adamw(0.001),
                        .build = build,
                        .draw = draw};

    return lesson_run(&vit, argc, argv);
}
