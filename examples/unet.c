/*
 * unet.c: a U-Net (Ronneberger et al., 2015) finds the disc in a noisy image. Pools reduce the size and transposed
 * convolutions restore it. Values of the first half are concatenated with those of the second half. In a pipeline they
 * are messages from the first stages to the last ones. lesson.h has the arguments and the loop.
 *     cc unet.c $(pkg-config --cflags --libs brigade) -o unet && ./unet pipelined
 */
#include "lesson.h"

enum { SIZE = 16, CHANNELS = 8 };

/* Adds two convolutions of 3 x 3, each with a group norm of four channels in a group. */
static bg_value add_pair(bg_graph *graph, const char *scope, bg_value x, int64_t channels)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    options.padding[0] = options.padding[1] = 1;
    bg_scope_begin(graph, "%s", scope);
    x = bg_conv2d_layer(graph, "conv1", x, channels, 3, 3, true, &options);
    x = bg_silu(graph, bg_group_norm_layer(graph, "norm1", x, channels / 4, 1e-5));
    x = bg_conv2d_layer(graph, "conv2", x, channels, 3, 3, true, &options);
    x = bg_silu(graph, bg_group_norm_layer(graph, "norm2", x, channels / 4, 1e-5));
    bg_scope_end(graph);
    return x;
}

/* Doubles the size, halves the channels, and concatenates with `left`. */
static bg_value add_way_up(bg_graph *graph, const char *name, bg_value x, bg_value left)
{
    const int64_t channels = bg_graph_type(graph, left).dims[1];
    bg_conv_options options = bg_conv_defaults();

    options.stride[0] = options.stride[1] = 2;
    x = bg_conv_transpose_layer(graph, name, x, channels, (const int64_t[]){2, 2}, true, &options);
    return bg_concat(graph, NULL, (const bg_value[]){left, x}, 2, 1);
}

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, micro_batch, 1, SIZE, SIZE);
    const bg_pool2d_options half = bg_pool2d_defaults(2);
    const bg_value images = bg_graph_input(graph, "images", &image);
    const bg_value wanted = bg_graph_input(graph, "wanted", &image);

    bg_block_start(graph, "down", BG_DEVICE_NONE);
    const bg_value first = add_pair(graph, "down1", images, CHANNELS);
    const bg_value second = add_pair(graph, "down2", bg_max_pool2d(graph, NULL, first, &half), 2 * CHANNELS);
    bg_block_start(graph, "bottom", BG_DEVICE_NONE);
    bg_value x = add_pair(graph, "bottom", bg_max_pool2d(graph, NULL, second, &half), 4 * CHANNELS);
    bg_block_start(graph, "up", BG_DEVICE_NONE);
    x = add_pair(graph, "up2", add_way_up(graph, "wider2", x, second), 2 * CHANNELS);
    x = add_pair(graph, "up1", add_way_up(graph, "wider1", x, first), CHANNELS);
    x = bg_conv2d_layer(graph, "out", x, 1, 1, 1, true, NULL);
    /* The target of each pixel is whether it belongs to the disc; pixels of the disc have a weight of 1. */
    return bg_pointwise_loss(graph, "loss", BG_LOSS_BINARY_LOGITS, 1.0, x, wanted, BG_LOSS_MEAN);
}

static void draw(uint32_t number, void *const *data)
{
    float *image = data[0], *wanted = data[1];
    const int32_t row = 4 + (int32_t)(lesson_hash(number, 1001) % 8),
                  column = 4 + (int32_t)(lesson_hash(number, 1002) % 8);
    const int32_t radius = 2 + (int32_t)(lesson_hash(number, 1003) % 3);

    for (int32_t p = 0; p < SIZE * SIZE; p++) {
        const int32_t dy = p / SIZE - row, dx = p % SIZE - column;

        wanted[p] = dy * dy + dx * dx <= radius * radius;
        image[p] = (float)(wanted[p] + lesson_number(number, (uint32_t)p));
    }
}

int main(int argc, char **argv)
{
    const lesson unet = {.name = "unet",
                         .samples = 128,
                         .micro_batch = 2,
                         .micro_batches = 4,
                         .optimizer = bg_adam(0.001),
                         .build = build,
                         .draw = draw};

    return lesson_run(&unet, argc, argv);
}
