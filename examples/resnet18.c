/*
 * resnet18.c: trains a residual network of 18 layers (He et al., 2016) for small images. It has a convolution, four
 * stages of two blocks each, and a linear layer; each block adds its input to its result. Parameters have torchvision's
 * names. lesson.h has the arguments and the loop.
 *     cc resnet18.c $(pkg-config --cflags --libs brigade) -o resnet18 && ./resnet18 pipelined
 */
#include "lesson.h"

enum { SIZE = 16, CLASSES = 10, CHANNELS = 4 }; /* 64 channels and images of 32 x 32 are usual */

static bg_value add_convolution(bg_graph *graph, const char *conv, const char *norm, bg_value x, int64_t channels,
                                int64_t window, int64_t stride)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = window / 2;
    x = bg_conv2d_layer(graph, conv, x, channels, window, window, false, &options);
    return bg_batch_norm_layer(graph, norm, x, 0.1, 1e-5);
}

/* Adds a block of two convolutions. If the block makes more channels or halves the image, its shortcut is a convolution
 * too. */
static bg_value add_block(bg_graph *graph, bg_value x, int64_t channels, int64_t stride)
{
    bg_value y = bg_relu(graph, add_convolution(graph, "conv1", "bn1", x, channels, 3, stride));

    y = add_convolution(graph, "conv2", "bn2", y, channels, 3, 1);
    if (bg_graph_type(graph, x).dims[1] != channels)
        x = add_convolution(graph, "downsample.0", "downsample.1", x, channels, 1, stride);
    return bg_relu(graph, bg_add(graph, y, x));
}

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, micro_batch, 3, SIZE, SIZE), label = bg_vector(BG_INT32, micro_batch);
    bg_value x = bg_graph_input(graph, "images", &image);
    const bg_value labels = bg_graph_input(graph, "labels", &label);
    static const char *const stages[] = {"layer1", "layer2", "layer3", "layer4"};

    bg_block_start(graph, "stem", BG_DEVICE_NONE);
    x = bg_relu(graph, add_convolution(graph, "conv1", "bn1", x, CHANNELS, 3, 1));
    for (int stage = 0; stage < 4; stage++) {
        bg_block_start(graph, stages[stage], BG_DEVICE_NONE);
        for (int block = 0; block < 2; block++) {
            bg_scope_begin(graph, "%s.%d", stages[stage], block); /* layer1.0.conv1.weight and so on */
            x = add_block(graph, x, CHANNELS << stage, stage > 0 && block == 0 ? 2 : 1);
            bg_scope_end(graph);
        }
    }
    /* Each block begins as the identity of its shortcut, because the weight of its last norm starts at 0 (Goyal et al.,
     * 2017). */
    bg_graph_initialize(graph, "layer*.bn2.weight", "constant", 0, 0);
    x = bg_flatten(graph, NULL, bg_adaptive_avg_pool(graph, "pool", x, NULL));
    return bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "fc", x, CLASSES, true), labels, BG_LOSS_MEAN, -100);
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

/* Each replica computes batch statistics of its own micro-batches, like each process of PyTorch's
 * DistributedDataParallel. */
int main(int argc, char **argv)
{
    const lesson resnet = {.name = "resnet18",
                           .samples = 160,
                           .micro_batch = 8,
                           .micro_batches = 2,
                           .has_statistics = true,
                           .optimizer = bg_adamw(0.0005),
                           .build = build,
                           .draw = draw};

    return lesson_run(&resnet, argc, argv);
}
