/* training_loop.c: trains in loops on the device: each call runs 25 weight updates without the host, which then sums
 * the losses from the outfeed. With "thread" another thread reads the outfeed while training runs.
 *     cc training_loop.c $(pkg-config --cflags --libs brigade) -pthread -o training_loop && ./training_loop [thread] */
#include <brigade.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCH = 20, STEPS = 100, STEPS_PER_EXECUTION = 25 };

static _Thread_local bg_error error; /* each thread has its own */
static void check(bg_status status)
{
    if (status != BG_OK) {
        fprintf(stderr, "training_loop: %s\n", error.message);
        exit(1);
    }
}

static bg_value build(bg_graph *g)
{
    const bg_type image = bg_tensor3(BG_UINT8, MICRO_BATCH, 28, 28), label = bg_vector(BG_UINT8, MICRO_BATCH);
    bg_value x = bg_graph_input(g, "images", &image), labels = bg_graph_input(g, "labels", &label);
    bg_block_start(g, "B1", BG_DEVICE_NONE);
    x = bg_standardize(g, NULL, bg_flatten(g, NULL, x), BG_FLOAT32, 255, 0.1307f, 0.3081f);
    x = bg_relu(g, bg_linear_layer(g, "hidden", x, 64, true));
    bg_block_start(g, "B2", BG_DEVICE_NONE);
    const bg_value loss =
        bg_cross_entropy(g, "loss", bg_linear_layer(g, "out", x, 10, true), labels, BG_LOSS_MEAN, -100);
    bg_graph_output(g, "loss", loss);
    return loss;
}

/* Reads `STEPS` losses from the outfeed, and prints whether the last ones are less than half of the first ones. */
static void *consume(void *argument)
{
    bg_outfeed *outfeed = argument;
    static double first, last;
    int count = 0;
    float loss;
    bool has = true;
    while (count < STEPS) {
        check(bg_outfeed_wait(outfeed, 1.0, &has, &error));
        for (check(bg_outfeed_next(outfeed, (void *[]){&loss}, &has, &error)); has;
             check(bg_outfeed_next(outfeed, (void *[]){&loss}, &has, &error))) {
            first = count < 10 ? first + loss / 10 : first, last = count >= STEPS - 10 ? last + loss / 10 : last;
            count++;
        }
    }
    printf("%d losses, the last ones are %s\n", count, last < first / 2 ? "less than half" : "too large");
    return NULL;
}

int main(int argc, char **argv)
{
    const bool with_thread = argc > 1 && strcmp(argv[1], "thread") == 0;
    const bg_optimizer optimizer = bg_sgd(0.1);
    const bg_digits_options digits = {.seed = 1, .count = 4000};
    bg_options options = bg_options_defaults();
    bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_outfeed_options outfeed_options = bg_outfeed_options_defaults();
    bg_image_set images;
    bg_dataset *data;
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_infeed *infeed;
    bg_outfeed *outfeed;
    pthread_t consumer;

    check(bg_graph_create(&graph, &error));
    const bg_value loss = build(graph);
    options.execution.strategy = BG_STRATEGY_PIPELINED, options.execution.stages = "B1|B2";
    options.execution.device_iterations = STEPS_PER_EXECUTION, options.execution.gradient_accumulation = 4;
    check(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error));
    check(bg_session_create(plan, NULL, &session, &error));
    check(bg_digits_create(&digits, &images, &error));
    check(bg_dataset_create_arrays((bg_array[]){images.images, images.labels}, 2, &data, &error));
    infeed_options.repeat = true, infeed_options.prefetch_depth = 4;
    check(bg_infeed_create_dataset(data, &infeed_options, &infeed, &error));
    check(bg_infeed_start(infeed, session, &error));
    outfeed_options.loss = true, outfeed_options.accumulate = true, outfeed_options.bounded = with_thread;
    check(bg_outfeed_create(&outfeed_options, &outfeed, &error));
    check(bg_outfeed_attach(outfeed, session, &error));
    if (with_thread && pthread_create(&consumer, NULL, consume, outfeed) != 0)
        return 1;

    for (int begin = 0; begin < STEPS; begin += STEPS_PER_EXECUTION) {
        double total = 0;
        float row;
        bool has;
        int rows = 0;
        check(bg_session_run_infeed(session, infeed, NULL, &error));
        if (with_thread)
            continue;
        for (check(bg_outfeed_next(outfeed, (void *[]){&row}, &has, &error)); has;
             check(bg_outfeed_next(outfeed, (void *[]){&row}, &has, &error)), rows++)
            total += row / 4; /* a row is the sum of 4 micro-batches */
        printf("steps %d to %d: mean loss %.4f of %d\n", begin, begin + STEPS_PER_EXECUTION - 1,
               total / STEPS_PER_EXECUTION, rows);
    }
    if (with_thread)
        pthread_join(consumer, NULL);
    bg_outfeed_destroy(outfeed), bg_session_destroy(session), bg_infeed_destroy(infeed);
    bg_dataset_destroy(data), bg_image_set_clear(&images), bg_plan_destroy(plan), bg_graph_destroy(graph);
    return 0;
}
