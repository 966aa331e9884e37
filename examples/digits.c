/*
 * digits.c: a convolutional network learns handwritten digits as a pipeline of four stages.
 *
 *     B1 conv, pool, relu --> B2 conv, pool, relu --> B3 linear, relu --> B4 linear, loss
 *
 * The program describes the network, plans how to train and test it, makes data, and runs. The digits are generated, so
 * no download is needed.
 *
 *     cc digits.c $(pkg-config --cflags --libs brigade) -o digits
 *     ./digits
 */
#include <brigade.h>
#include <stdio.h>
#include <stdlib.h>

enum { MICRO_BATCH = 20, EPOCHS = 3 };

/* A library function that fails returns a status and writes a message to the error. */
static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "digits: %s\n", error.message);
    exit(1);
}

/* ---- 1. the network ---- */

static bg_value conv_pool_relu(bg_graph *graph, const char *name, bg_value x, int64_t channels)
{
    const bg_pool2d_options pool = bg_pool2d_defaults(2);

    x = bg_conv2d_layer(graph, name, x, channels, 5, 5, true, NULL);
    x = bg_max_pool2d(graph, NULL, x, &pool);
    return bg_relu(graph, x);
}

/*
 * Adds the network to the graph and returns its loss. Each block becomes a stage. The graph stores errors, and the plan
 * reports the first one.
 */
static bg_value build(bg_graph *graph)
{
    const bg_type image_type = bg_tensor4(BG_UINT8, MICRO_BATCH, 1, 28, 28);
    const bg_type label_type = bg_vector(BG_UINT8, MICRO_BATCH);
    bg_value x = bg_graph_input(graph, "images", &image_type);
    bg_value labels = bg_graph_input(graph, "labels", &label_type);
    bg_value loss;

    bg_block_start(graph, "B1", BG_DEVICE_NONE);
    x = bg_standardize(graph, NULL, x, BG_FLOAT32, 255, 0.1307f, 0.3081f);
    x = conv_pool_relu(graph, "layer1.conv", x, 10);

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

/* ---- 2. the plans ---- */

/* Plans the training: a run makes 5 weight updates, each from 8 micro-batches of 20 digits. */
static bg_plan *plan_training(const bg_graph *graph, bg_value loss)
{
    const bg_optimizer optimizer = bg_adamw(0.002);
    bg_options options = bg_options_defaults();
    bg_plan *plan;

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.device_iterations = 5;
    options.execution.gradient_accumulation = 8;
    options.reporting.output_mode = BG_OUTPUT_SUM; /* the sums over all micro-batches of a run */
    check(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error));
    return plan;
}

/* Plans the test: it has the same four stages, and a run takes 40 micro-batches. */
static bg_plan *plan_testing(const bg_graph *graph)
{
    bg_options options = bg_options_defaults();
    bg_plan *plan;

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.device_iterations = 40;
    options.reporting.output_mode = BG_OUTPUT_SUM;
    check(bg_plan_create_inference(graph, &options, &plan, &error));
    return plan;
}

/* ---- 3. the data ---- */

/* Generated digits, and a loader whose batches have the size of one run of the plan. */
typedef struct digits {
    bg_image_set images;
    bg_dataset *dataset;
    bg_loader *loader;
} digits;

static void digits_init(digits *set, uint64_t seed, uint32_t count, const bg_plan *plan, bool shuffle)
{
    const bg_digits_options generated = {.seed = seed, .count = count};
    bg_loader_options options = bg_loader_options_defaults();

    check(bg_digits_create(&generated, &set->images, &error));
    const bg_array arrays[] = {set->images.images, set->images.labels};
    check(bg_dataset_create_arrays(arrays, 2, &set->dataset, &error));
    options.batch_size = bg_plan_summarize(plan).samples_per_run;
    options.shuffle = shuffle;
    check(bg_loader_create(set->dataset, &options, &set->loader, &error));
}

static void digits_clear(digits *set)
{
    bg_loader_destroy(set->loader);
    bg_dataset_destroy(set->dataset);
    bg_image_set_clear(&set->images);
}

/* ---- 4. the runs ---- */

/* Passes all digits through the session once, and trains if its plan trains. */
static void run_epoch(bg_session *session, const digits *set, uint64_t epoch, const char *what)
{
    double losses = 0.0, samples = 0.0;
    int64_t right = 0;
    bg_batch batch;

    check(bg_loader_begin_epoch(set->loader, epoch, &error));
    for (;;) {
        float loss;
        int32_t correct;
        void *outputs[] = {&loss, &correct};

        check(bg_loader_next(set->loader, &batch, &error));
        if (batch.sample_count == 0)
            break;
        check(bg_session_run(session, batch.tensors, outputs, &error));
        losses += loss * MICRO_BATCH; /* the loss of a micro-batch is a mean over its samples */
        right += correct;
        samples += (double)batch.sample_count;
    }
    printf("%s: loss %.4f, accuracy %.2f %%\n", what, losses / samples, 100.0 * (double)right / samples);
}

int main(void)
{
    bg_graph *graph;
    bg_plan *training, *testing;
    bg_session *trainer, *tester;
    digits train_set, test_set;
    bg_value loss;

    check(bg_graph_create(&graph, &error));
    loss = build(graph);
    training = plan_training(graph, loss);
    testing = plan_testing(graph);
    digits_init(&train_set, 1, 8000, training, true);
    digits_init(&test_set, 2, 2000, testing, false);

    check(bg_session_create(training, NULL, &trainer, &error));
    check(bg_session_create(testing, bg_session_weights(trainer), &tester, &error)); /* shares the weights */
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        run_epoch(trainer, &train_set, epoch, "train");
    run_epoch(tester, &test_set, 0, "test");

    digits_clear(&test_set);
    digits_clear(&train_set);
    bg_session_destroy(tester);
    bg_session_destroy(trainer);
    bg_plan_destroy(testing);
    bg_plan_destroy(training);
    bg_graph_destroy(graph);
    return 0;
}
