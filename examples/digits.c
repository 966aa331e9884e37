/*
 * digits.c: the digit network in four pipeline stages, through Brigade's public interface: build a graph in blocks,
 * compile it for training and for testing, let both share weights, feed it with a loader.
 *
 *     cc digits.c $(pkg-config --cflags --libs brigade) -o digits && ./digits
 */
#include <brigade.h>

#include <stdio.h>
#include <stdlib.h>

enum { MICRO_BATCH = 20, ACCUMULATION = 8, UPDATES_PER_RUN = 5, TRAIN_COUNT = 8000, TEST_COUNT = 2000, EPOCHS = 3 };

static bg_error error;

static void check(bg_status status)
{
    if (status != BG_OK) {
        fprintf(stderr, "digits: %s\n", error.message);
        exit(1);
    }
}

/* Four blocks; each becomes a stage on a device of its own. Returns the loss. */
static bg_value build(bg_graph *graph)
{
    const bg_type images = bg_tensor4(BG_UINT8, MICRO_BATCH, 1, 28, 28), labels = bg_vector(BG_UINT8, MICRO_BATCH);
    const bg_pool2d_options pool = bg_pool2d_defaults(2);
    bg_value x = bg_graph_input(graph, "images", &images), loss;

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_standardise(graph, "standardise", x, BG_FLOAT32, 255.0f, 0.1307f, 0.3081f);
    x = bg_relu(graph, bg_max_pool2d(graph, NULL, bg_conv2d_layer(graph, "conv1", x, 10, 5, 5, true, NULL), &pool));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    x = bg_relu(graph, bg_max_pool2d(graph, NULL, bg_conv2d_layer(graph, "conv2", x, 20, 5, 5, true, NULL), &pool));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_relu(graph, bg_linear_layer(graph, "fc1", bg_flatten(graph, NULL, x), 256, true));
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc2", x, 10, true);
    bg_value target = bg_graph_input(graph, "labels", &labels);
    loss = bg_cross_entropy(graph, "loss", x, target, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    bg_graph_output(graph, "correct", bg_correct_count(graph, NULL, x, target));
    bg_block_end(graph);
    return loss;
}

/* A loader over generated digits: each batch is what one run of the session takes. */
static bg_loader *open_digits(uint64_t first, uint64_t count, const bg_plan *plan, bg_image_set *set, bg_dataset **data)
{
    const bg_digits_options digits = {.seed = 1, .first_index = first, .count = count};
    bg_loader_options options = bg_loader_options_default();
    bg_loader *loader;

    check(bg_digits_create(&digits, set, &error));
    check(bg_dataset_create_arrays((const bg_array[]){set->images, set->labels}, 2, data, &error));
    options.batch_size = bg_plan_summarise(plan).samples_per_run;
    options.shuffle = true;
    check(bg_loader_create(*data, &options, &loader, &error));
    return loader;
}

/* Runs one epoch; the outputs of a run are sums over its micro-batches. */
static void run_epoch(bg_session *session, bg_loader *loader, uint64_t epoch, const char *what)
{
    const uint32_t images = bg_session_find_input(session, "images"), labels = bg_session_find_input(session, "labels");
    const uint32_t at_loss = bg_session_find_output(session, "loss"),
                   at_correct = bg_session_find_output(session, "correct");
    double loss_sum = 0.0, correct_sum = 0.0, samples = 0.0;
    bg_batch batch;

    check(bg_loader_begin_epoch(loader, epoch, &error));
    for (check(bg_loader_next(loader, &batch, &error)); batch.sample_count > 0;
         check(bg_loader_next(loader, &batch, &error))) {
        const void *inputs[2];
        void *outputs[2];
        float loss;
        int32_t correct;
        inputs[images] = batch.tensors[0];
        inputs[labels] = batch.tensors[1];
        outputs[at_loss] = &loss;
        outputs[at_correct] = &correct;
        check(bg_session_run(session, inputs, outputs, &error));
        loss_sum += loss;
        correct_sum += correct;
        samples += (double)batch.sample_count;
    }
    printf("%s: loss %.4f, accuracy %.2f %%\n", what, loss_sum * MICRO_BATCH / samples, 100.0 * correct_sum / samples);
}

int main(void)
{
    const bg_optimiser optimiser = bg_adamw(0.002);
    bg_options options = bg_options_defaults();
    bg_graph *graph;
    bg_plan *train_plan, *test_plan;
    bg_session *train, *test;
    bg_image_set train_images, test_images;
    bg_dataset *train_data, *test_data;
    bg_value loss;

    check(bg_graph_create(&graph, &error));
    loss = build(graph);

    options.strategy = BG_STRATEGY_PIPELINED;
    options.stages = "B1|B2|B3|B4";
    options.output_mode = BG_OUTPUT_SUM;
    options.device_iterations = UPDATES_PER_RUN;
    options.gradient_accumulation = ACCUMULATION;
    check(bg_plan_create_training(graph, loss, &optimiser, &options, &train_plan, &error));
    check(bg_session_create(train_plan, NULL, &train, &error));

    options.device_iterations = UPDATES_PER_RUN * ACCUMULATION;
    options.gradient_accumulation = 1;
    check(bg_plan_create_inference(graph, &options, &test_plan, &error));
    check(bg_session_create(test_plan, bg_session_weights(train), &test, &error));

    bg_loader *train_loader = open_digits(0, TRAIN_COUNT, train_plan, &train_images, &train_data);
    bg_loader *test_loader = open_digits(TRAIN_COUNT, TEST_COUNT, test_plan, &test_images, &test_data);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        run_epoch(train, train_loader, epoch, "train");
    run_epoch(test, test_loader, 0, "test");

    bg_loader_destroy(test_loader);
    bg_loader_destroy(train_loader);
    bg_dataset_destroy(test_data);
    bg_dataset_destroy(train_data);
    bg_image_set_clear(&test_images);
    bg_image_set_clear(&train_images);
    bg_session_destroy(test);
    bg_session_destroy(train);
    bg_plan_destroy(test_plan);
    bg_plan_destroy(train_plan);
    bg_graph_destroy(graph);
    return 0;
}
