/*
 * trainer.c: trains without a loop in the program. The trainer trains on digits, validates after each epoch, then
 * tests. The strategy has two replicas of a model in two stages, and four weight updates in each call. A callback
 * prints.
 *
 *     cc trainer.c $(pkg-config --cflags --libs brigade) -o trainer && ./trainer
 */
#include <brigade.h>
#include <stdio.h>
#include <stdlib.h>

static bg_error error;
static void check(bg_status status)
{
    if (status != BG_OK) {
        fprintf(stderr, "trainer: %s\n", error.message);
        exit(1);
    }
}

static bg_value build(void *user, bg_graph *g, bg_trainer_task stage, int64_t micro_batch)
{
    const bg_type image = bg_tensor3(BG_UINT8, micro_batch, 28, 28), label = bg_vector(BG_UINT8, micro_batch);
    bg_value x = bg_graph_input(g, "images", &image), labels = bg_graph_input(g, "labels", &label);
    (void)user;
    bg_block_start(g, "B1", 0);
    x = bg_standardize(g, NULL, bg_flatten(g, NULL, x), BG_FLOAT32, 255, 0.1307f, 0.3081f);
    x = bg_relu(g, bg_linear_layer(g, "hidden", x, 64, true));
    bg_block_start(g, "B2", 1);
    x = bg_linear_layer(g, "out", x, 10, true);
    const bg_value loss = bg_cross_entropy(g, "loss", x, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(g, "loss", loss);
    if (stage != BG_TRAINER_FIT)
        bg_graph_output(g, "correct", bg_correct_count(g, "correct", x, labels));
    return loss;
}

static bg_status print(void *user, bg_trainer_event *event, bg_error *e)
{
    (void)user;
    bg_trainer_metric loss, correct;
    if (event->kind != BG_ON_VALIDATION_END && event->kind != BG_ON_TEST_END)
        return BG_OK;
    check(bg_trainer_metric_find(event->trainer, event->task, "loss", &loss, e));
    check(bg_trainer_metric_find(event->trainer, event->task, "correct", &correct, e));
    printf("%s after %llu updates: loss %.3f, %.1f%% of %llu right\n", bg_trainer_task_name(event->task),
           (unsigned long long)bg_trainer_step(event->trainer), loss.mean, 100 * correct.sum / (double)correct.samples,
           (unsigned long long)loss.samples);
    return BG_OK;
}

int main(void)
{
    const bg_digits_options digits = {.seed = 1, .count = 4000};
    bg_trainer_options options = bg_trainer_options_defaults();
    const bg_trainer_callback callback = {print, NULL};
    bg_trainer_data training = {0}, rest = {0};
    bg_image_set images;
    bg_dataset *data, *train, *test;
    bg_trainer *trainer;

    check(bg_digits_create(&digits, &images, &error));
    check(bg_dataset_create_arrays((bg_array[]){images.images, images.labels}, 2, &data, &error));
    check(bg_dataset_take(data, 3200, &train, &error));
    check(bg_dataset_skip(data, 3200, &test, &error));
    training.dataset = train, rest.dataset = test;

    options.model = build;
    options.strategy.devices = 2, options.strategy.device_iterations = 4;
    options.micro_batch[BG_TRAINER_FIT] = 20, options.accumulate_grad_batches = 2;
    options.optimizer = bg_adam(0.002);
    options.max_epochs = 3;
    options.callbacks = &callback, options.callback_count = 1;
    check(bg_trainer_create(&options, NULL, &trainer, &error));
    check(bg_trainer_fit(trainer, &training, &rest, &error));
    check(bg_trainer_test(trainer, &rest, &error));

    bg_trainer_destroy(trainer);
    bg_dataset_destroy(test), bg_dataset_destroy(train), bg_dataset_destroy(data), bg_image_set_clear(&images);
    return 0;
}
