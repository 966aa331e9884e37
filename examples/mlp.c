/*
 * mlp.c: trains a multi-layer perceptron for regression: three linear layers and tanh learn a function of eight
 * numbers. lesson.h has the arguments and the loop.
 *     cc mlp.c $(pkg-config --cflags --libs brigade) -o mlp && ./mlp pipelined --losses
 */
#include "lesson.h"

enum { FEATURES = 8, WIDTH = 32 };

/* Adds the network. Each layer is a block, which a strategy turns into a stage of a pipeline or a phase. */
static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type features = bg_matrix(BG_FLOAT32, micro_batch, FEATURES),
                  number = bg_matrix(BG_FLOAT32, micro_batch, 1);
    bg_value x = bg_graph_input(graph, "x", &features);
    const bg_value y = bg_graph_input(graph, "y", &number);

    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, WIDTH, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    x = bg_tanh(graph, bg_linear_layer(graph, "fc2", x, WIDTH, true));
    bg_block_start(graph, "third", BG_DEVICE_NONE);
    return bg_mse_loss(graph, "mse", bg_linear_layer(graph, "fc3", x, 1, true), y, BG_LOSS_MEAN);
}

/* Draws a sample: y = x0 x1 + (x2 - x3) / 2 */
static void draw(uint32_t number, void *const *data)
{
    float *x = data[0], *y = data[1];

    for (uint32_t i = 0; i < FEATURES; i++)
        x[i] = (float)lesson_number(number, i);
    *y = (float)((double)x[0] * x[1] + ((double)x[2] - x[3]) / 2);
}

int main(int argc, char **argv)
{
    lesson mlp = {.name = "mlp", .samples = 256, .micro_batch = 16, .micro_batches = 4, .build = build, .draw = draw};

    mlp.optimizer = bg_sgd(0.1);
    mlp.optimizer.momentum = 0.9;
    return lesson_run(&mlp, argc, argv);
}
