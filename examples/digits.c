/* digits.c: the digit network in four pipeline stages, trained and tested through Brigade's public interface.
 *     cc digits.c $(pkg-config --cflags --libs brigade) -o digits && ./digits */
#include <brigade.h>
#include <stdio.h>
#include <stdlib.h>

static bg_error error;
static void check(bg_status status)
{
    if (status != BG_OK)
        exit((fprintf(stderr, "digits: %s\n", error.message), 1));
}

/* Each block becomes a pipeline stage on a device of its own. */
static bg_value build(bg_graph *g, int64_t micro_batch)
{
    const bg_type image = bg_tensor4(BG_UINT8, micro_batch, 1, 28, 28), label = bg_vector(BG_UINT8, micro_batch);
    const bg_pool2d_options pool = bg_pool2d_defaults(2);
    bg_value x = bg_graph_input(g, "images", &image), labels = bg_graph_input(g, "labels", &label);
    bg_block_start(g, "B1", BG_DEVICE_NONE);
    x = bg_standardise(g, NULL, x, BG_FLOAT32, 255, 0.1307f, 0.3081f);
    x = bg_relu(g, bg_max_pool2d(g, NULL, bg_conv2d_layer(g, "layer1.conv", x, 10, 5, 5, true, NULL), &pool));
    bg_block_start(g, "B2", BG_DEVICE_NONE);
    x = bg_relu(g, bg_max_pool2d(g, NULL, bg_conv2d_layer(g, "layer2.conv", x, 20, 5, 5, true, NULL), &pool));
    bg_block_start(g, "B3", BG_DEVICE_NONE);
    x = bg_relu(g, bg_linear_layer(g, "layer3", bg_flatten(g, NULL, x), 256, true));
    bg_block_start(g, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(g, "layer4", x, 10, true);
    bg_value loss = bg_cross_entropy(g, "loss", x, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(g, "loss", loss);
    bg_graph_output(g, "correct", bg_correct_count(g, NULL, x, labels));
    return loss;
}

/* One epoch: a batch of the loader is what one run takes; the outputs of a run are sums over its micro-batches. */
static void run_epoch(bg_session *session, bg_loader *loader, uint64_t epoch, const char *what)
{
    double losses = 0, right = 0, count = 0;
    float loss;
    int32_t correct;
    void *outputs[] = {&loss, &correct};
    bg_batch batch;
    check(bg_loader_begin_epoch(loader, epoch, &error));
    for (check(bg_loader_next(loader, &batch, &error)); batch.sample_count > 0;
         check(bg_loader_next(loader, &batch, &error))) {
        check(bg_session_run(session, batch.tensors, outputs, &error));
        losses += loss * 20, right += correct, count += (double)batch.sample_count;
    }
    printf("%s: loss %.4f, accuracy %.2f %%\n", what, losses / count, 100 * right / count);
}

int main(void)
{
    const bg_optimiser optimiser = bg_adamw(0.002);
    const bg_digits_options train_digits = {.seed = 1, .count = 8000}, test_digits = {.seed = 2, .count = 2000};
    bg_options options = bg_options_defaults();
    bg_loader_options loading = bg_loader_options_default();
    bg_image_set images[2];
    bg_dataset *data[2];
    bg_loader *loader[2];
    bg_graph *graph;
    bg_plan *plan[2];
    bg_session *session[2]; /* 0 trains, 1 tests with the same weights */

    check(bg_graph_create(&graph, &error));
    const bg_value loss = build(graph, 20);
    options.strategy = BG_STRATEGY_PIPELINED, options.stages = "B1|B2|B3|B4", options.output_mode = BG_OUTPUT_SUM;
    options.device_iterations = 5, options.gradient_accumulation = 8; /* a run: 5 weight updates of 8 micro-batches */
    check(bg_plan_create_training(graph, loss, &optimiser, &options, &plan[0], &error));
    options.device_iterations = 40, options.gradient_accumulation = 1;
    check(bg_plan_create_inference(graph, &options, &plan[1], &error));
    check(bg_digits_create(&train_digits, &images[0], &error));
    check(bg_digits_create(&test_digits, &images[1], &error));
    for (int i = 0; i < 2; i++) {
        check(bg_session_create(plan[i], i == 0 ? NULL : bg_session_weights(session[0]), &session[i], &error));
        check(bg_dataset_create_arrays((bg_array[]){images[i].images, images[i].labels}, 2, &data[i], &error));
        loading.batch_size = bg_plan_summarise(plan[i]).samples_per_run, loading.shuffle = i == 0;
        check(bg_loader_create(data[i], &loading, &loader[i], &error));
    }
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        run_epoch(session[0], loader[0], epoch, "train");
    run_epoch(session[1], loader[1], 0, "test");
    for (int i = 1; i >= 0; i--) {
        bg_loader_destroy(loader[i]), bg_dataset_destroy(data[i]), bg_image_set_clear(&images[i]);
        bg_session_destroy(session[i]), bg_plan_destroy(plan[i]);
    }
    bg_graph_destroy(graph);
    return 0;
}
