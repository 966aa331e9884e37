/*
 * core_digits.c: trains the digit network with only the core of the library, which needs no libraries except libc, libm
 * and threads. There is no loader, no file and no companion library. The program draws its digits and passes them as
 * arrays.
 *
 *     make MINIMAL=1 && build-minimal/examples/core_digits
 */
#include <brigade/core.h>
#include <stdio.h>
#include <stdlib.h>

enum { MICRO_BATCH = 20, MICRO_BATCHES = 8, UPDATES = 5, ROUNDS = 16, SIDE = 28 };
enum { SAMPLES = MICRO_BATCH * MICRO_BATCHES * UPDATES, PIXELS = SIDE * SIDE };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "core_digits: %s\n", error.message);
    exit(1);
}

/* ---- digits ---- */

/* Seven rows of five pixels each; the highest bit is the leftmost pixel. */
static const uint8_t shapes[10][7] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},    {14, 17, 1, 2, 4, 8, 31},   {31, 2, 4, 2, 1, 17, 14},
    {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14}, {6, 8, 16, 30, 17, 17, 14}, {31, 1, 2, 4, 8, 8, 8},
    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12},
};

/* Draws a digit three times as large as its shape, somewhere on the image, over noise. The result depends only on
 * `number`. */
static void draw(uint32_t number, uint8_t *image, uint8_t *label)
{
    const uint32_t key[2] = {28, 28};
    uint32_t place[4], noise[4];

    bg_philox((uint32_t[]){number, 0, 0, 0}, key, place);
    *label = (uint8_t)(place[0] % 10);
    for (uint32_t i = 0; i < PIXELS; i++) {
        const uint32_t row = i / SIDE - place[1] % 7, column = i % SIDE - place[2] % 13; /* a negative number wraps
                                                                                            around to a large one */
        const bool is_drawn = row / 3 < 7 && column / 3 < 5 && (shapes[*label][row / 3] >> (4 - column / 3) & 1) != 0;

        if (i % 4 == 0)
            bg_philox((uint32_t[]){number, 1, i, 0}, key, noise);
        image[i] = (uint8_t)((is_drawn ? 160 : 0) + noise[i % 4] % 96);
    }
}

/* ---- the network ---- */

static bg_value conv_pool_relu(bg_graph *graph, const char *name, bg_value x, int64_t channels)
{
    const bg_pool2d_options pool = bg_pool2d_defaults(2);

    return bg_relu(graph,
                   bg_max_pool2d(graph, NULL, bg_conv2d_layer(graph, name, x, channels, 5, 5, true, NULL), &pool));
}

static bg_value build(bg_graph *graph)
{
    const bg_type image_type = bg_tensor4(BG_UINT8, MICRO_BATCH, 1, SIDE, SIDE);
    const bg_type label_type = bg_vector(BG_UINT8, MICRO_BATCH);
    bg_value x = bg_graph_input(graph, "images", &image_type);
    bg_value labels = bg_graph_input(graph, "labels", &label_type);
    bg_value loss;

    bg_block_start(graph, "B1", BG_DEVICE_NONE);
    x = conv_pool_relu(graph, "layer1.conv", bg_standardize(graph, NULL, x, BG_FLOAT32, 255, 0.1307f, 0.3081f), 10);
    bg_block_start(graph, "B2", BG_DEVICE_NONE);
    x = conv_pool_relu(graph, "layer2.conv", x, 20);
    bg_block_start(graph, "B3", BG_DEVICE_NONE);
    x = bg_relu(graph, bg_linear_layer(graph, "layer3", bg_flatten(graph, NULL, x), 256, true));
    bg_block_start(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "layer4", x, 10, true);
    loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    bg_graph_output(graph, "correct", bg_correct_count(graph, NULL, x, labels));
    return loss;
}

/* ---- training ---- */

int main(void)
{
    const bg_optimizer optimizer = bg_adamw(0.002);
    bg_options options = bg_options_defaults();
    uint8_t *images = malloc((size_t)SAMPLES * PIXELS), labels[SAMPLES];
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_value loss;

    if (images == NULL)
        return 1;
    check(bg_graph_create(&graph, &error));
    loss = build(graph);
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.device_iterations = UPDATES;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.reporting.output_mode = BG_OUTPUT_SUM;
    check(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error));
    check(bg_session_create(plan, NULL, &session, &error));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        float total;
        int32_t correct;

        for (uint32_t i = 0; i < SAMPLES; i++)
            draw(round * SAMPLES + i, &images[(size_t)i * PIXELS], &labels[i]);
        check(bg_session_run(session, (const void *[]){images, labels}, (void *[]){&total, &correct}, &error));
        if (round % 5 == 0)
            printf("%3u updates: loss %.4f, %.1f %% right\n", (round + 1) * UPDATES, total / (MICRO_BATCHES * UPDATES),
                   100.0 * correct / SAMPLES);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    free(images);
    return 0;
}
