/*
 * recurrent.c: two recurrent networks read the same sequences: a bidirectional LSTM of two layers, and a GRU on its
 * outputs. The loss classifies the whole sequence. lesson.h has the arguments and the loop.
 *     cc recurrent.c $(pkg-config --cflags --libs brigade) -o recurrent && ./recurrent phased
 */
#include "lesson.h"

enum { LENGTH = 12, FEATURES = 4, WIDTH = 12, CLASSES = 4 };

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type sequence = bg_tensor3(BG_FLOAT32, micro_batch, LENGTH, FEATURES);
    const bg_type label = bg_vector(BG_INT32, micro_batch);
    const bg_value none = {0};
    bg_recurrent_options options = bg_recurrent_defaults();
    bg_value x = bg_graph_input(graph, "x", &sequence), last;
    const bg_value labels = bg_graph_input(graph, "labels", &label);

    bg_block_start(graph, "lstm", BG_DEVICE_NONE);
    options.batch_first = true; /* [N, T, features], the layout of micro-batches */
    options.layers = 2;
    options.bidirectional = true;
    x = bg_lstm_layer(graph, "lstm", x, WIDTH, &options, none, none, NULL, NULL);
    bg_block_start(graph, "gru", BG_DEVICE_NONE);
    options.layers = 1;
    options.bidirectional = false;
    bg_gru_layer(graph, "gru", x, WIDTH, &options, none, &last); /* its state after the last step, [1, N, WIDTH] */
    bg_block_start(graph, "out", BG_DEVICE_NONE);
    x = bg_reshape(graph, NULL, last, 2, (const int64_t[]){micro_batch, WIDTH});
    return bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "out", x, CLASSES, true), labels, BG_LOSS_MEAN, -100);
}

/* Draws a sequence of four signals. Its class is the signal with the largest sum over time. */
static void draw(uint32_t number, void *const *data)
{
    float *x = data[0];
    int32_t *label = data[1];
    double sums[CLASSES] = {0};

    for (uint32_t i = 0; i < LENGTH * FEATURES; i++) {
        x[i] = (float)lesson_number(number, i);
        sums[i % FEATURES] += x[i];
    }
    *label = 0;
    for (int32_t c = 1; c < CLASSES; c++)
        *label = sums[c] > sums[*label] ? c : *label;
}

int main(int argc, char **argv)
{
    const lesson recurrent = {.name = "recurrent",
                              .samples = 256,
                              .micro_batch = 8,
                              .micro_batches = 4,
                              .optimizer = bg_adam(0.001),
                              .build = build,
                              .draw = draw};

    return lesson_run(&recurrent, argc, argv);
}
