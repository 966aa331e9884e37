/*
 * data.c: trains a regression on a CSV file, as a pipeline of two stages. The model predicts the prices of houses from
 * rooms, area and age. docs/tutorial/05-data.md explains the program.
 */
#include <brigade.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOUSES = 1200, TRAINING = 1000, MICRO_BATCH = 25, MICRO_BATCHES = 4, FEATURES = 3, EPOCHS = 20 };

static bg_error error;

static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "data: %s\n", error.message);
    exit(1);
}

/* ---- a file ---- */

/* Writes a table of invented houses. */
static void write_houses(const char *path)
{
    FILE *file = fopen(path, "w");
    uint32_t state = 1;

    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fprintf(file, "rooms,area,age,price\n");
    for (int i = 0; i < HOUSES; i++) {
        uint32_t draw[4];
        for (int k = 0; k < 4; k++) {
            state = state * 1664525u + 1013904223u;
            draw[k] = state >> 16;
        }
        const unsigned rooms = 1 + draw[0] % 6, area = 20 + rooms * 15 + draw[1] % 30, age = draw[2] % 100;
        fprintf(file, "%u,%u,%u,%u\n", rooms, area, age, area * 3 + rooms * 20 - age + draw[3] % 20);
    }
    fclose(file);
}

/* ---- samples ---- */

/* Scales a sample's numbers to about -1 .. 1. Several workers can call this function at the same time. */
static bg_status scale(void *user, uint64_t epoch, uint64_t index, const void *const inputs[], void *const outputs[],
                       bg_error *failure)
{
    const float *house = inputs[0], *price = inputs[1];
    float *x = outputs[0], *y = outputs[1];

    (void)user, (void)epoch, (void)index, (void)failure;
    x[0] = (house[0] - 3.5f) / 2.5f;
    x[1] = (house[1] - 85) / 50;
    x[2] = (house[2] - 50) / 50;
    y[0] = (price[0] - 300) / 200;
    return BG_OK;
}

/* Makes samples of two tensors, x [3] and y [1], from columns of the file. Samples are computed only when a loader
 * requests them. */
static bg_dataset *open_houses(const char *path)
{
    const bg_type types[] = {bg_vector(BG_FLOAT32, FEATURES), bg_vector(BG_FLOAT32, 1)};
    const bg_dataset_map_options map = {.tensor_count = 2, .sample_types = types, .map = scale};
    bg_dataset *columns[2], *pairs, *scaled;
    char name[100];

    snprintf(name, sizeof name, "%s:rooms,area,age", path);
    check(bg_dataset_open(name, &columns[0], &error));
    snprintf(name, sizeof name, "%s:price", path);
    check(bg_dataset_open(name, &columns[1], &error));
    check(bg_dataset_zip(columns, 2, &pairs, &error));
    check(bg_dataset_map(pairs, &map, &scaled, &error));
    bg_dataset_destroy(columns[0]), bg_dataset_destroy(columns[1]), bg_dataset_destroy(pairs);
    return scaled;
}

/* ---- the model ---- */

/* Adds the network without the loss, for `houses` houses at a time. */
static bg_value add_network(bg_graph *graph, uint32_t houses)
{
    const bg_type type = bg_matrix(BG_FLOAT32, houses, FEATURES);
    bg_value x = bg_graph_input(graph, "x", &type);

    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_relu(graph, bg_linear_layer(graph, "fc1", x, 16, true));
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    return bg_linear_layer(graph, "fc2", x, 1, true);
}

static bg_value add_model(bg_graph *graph)
{
    const bg_type prices = bg_matrix(BG_FLOAT32, MICRO_BATCH, 1);
    const bg_value x = add_network(graph, MICRO_BATCH);

    return bg_mse_loss(graph, "loss", x, bg_graph_input(graph, "y", &prices), BG_LOSS_MEAN);
}

/* ---- the loop ---- */

/* Runs one epoch of the loader through the session. Returns the root of the mean loss, in the unit of the prices. */
static double run_epoch(bg_session *session, bg_loader *loader, uint64_t epoch)
{
    double sum = 0;
    uint64_t calls = 0;
    bg_batch batch;
    float loss;

    check(bg_loader_begin_epoch(loader, epoch, &error));
    for (;;) {
        check(bg_loader_next(loader, &batch, &error));
        if (batch.sample_count == 0)
            return 200 * sqrt(sum / (double)calls);
        check(bg_session_run(session, batch.tensors, (void *[]){&loss}, &error));
        sum += loss / MICRO_BATCHES;
        calls++;
    }
}

/* ---- new houses ---- */

/* Predicts with the weights of a file, as another program would: nothing is left of the training. */
static void predict(const char *path)
{
    const float houses[2][FEATURES] = {{3, 90, 20}, {6, 120, 70}};
    float x[2][FEATURES], y[2];
    bg_graph *graph;
    bg_weights *weights;
    bg_session *session;

    for (int i = 0; i < 2; i++)
        scale(NULL, 0, 0, (const void *[]){houses[i], &(float){0}}, (void *[]){x[i], &y[i]}, NULL);
    check(bg_graph_create(&graph, &error));
    bg_graph_output(graph, "y", add_network(graph, 2));
    const bg_options options = bg_options_defaults();
    check(bg_weights_create(&weights, &error));
    check(bg_weights_load(weights, path, NULL, NULL, &error));
    check(bg_session_create_inference(graph, &options, weights, &session, &error));
    check(bg_session_run(session, (const void *[]){x}, (void *[]){y}, &error));
    for (int i = 0; i < 2; i++)
        printf("%.0f rooms, area %.0f, age %.0f: price %.0f\n", (double)houses[i][0], (double)houses[i][1],
               (double)houses[i][2], (double)(y[i] * 200 + 300));
    bg_session_destroy(session), bg_weights_destroy(weights), bg_graph_destroy(graph);
}

int main(void)
{
    const bg_optimizer adam = bg_adam(0.01);
    bg_dataset *houses, *training_set, *test_set;
    bg_loader *training_loader, *test_loader;
    bg_session *training, *testing;
    bg_graph *graph;

    write_houses("houses.csv");
    houses = open_houses("houses.csv");
    check(bg_dataset_take(houses, TRAINING, &training_set, &error));
    check(bg_dataset_skip(houses, TRAINING, &test_set, &error));
    bg_dataset_destroy(houses);

    check(bg_graph_create(&graph, &error));
    const bg_value loss = add_model(graph);
    bg_graph_output(graph, "loss", loss);
    bg_options options = bg_options_defaults();
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.reporting.output_mode = BG_OUTPUT_SUM; /* sum of the losses of all micro-batches of a call */
    options.execution.gradient_accumulation = MICRO_BATCHES;
    check(bg_session_create_training(graph, loss, &adam, &options, NULL, &training, &error));
    options.execution.gradient_accumulation = 1;
    options.execution.device_iterations = MICRO_BATCHES;
    check(bg_session_create_inference(graph, &options, bg_session_weights(training), &testing, &error));

    bg_loader_options loading = bg_loader_options_defaults();
    loading.batch_size = MICRO_BATCH * MICRO_BATCHES;
    check(bg_loader_create(test_set, &loading, &test_loader, &error));
    loading.shuffle = true;
    loading.worker_count = 2;
    check(bg_loader_create(training_set, &loading, &training_loader, &error));

    printf("before: wrong by %.1f in the root mean square\n", run_epoch(testing, test_loader, 0));
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const double training_error = run_epoch(training, training_loader, epoch);
        if ((epoch + 1) % 5 == 0)
            printf("epoch %2d: training %.1f, test %.1f\n", (int)epoch + 1, training_error,
                   run_epoch(testing, test_loader, 0));
    }

    check(bg_weights_save(bg_session_weights(training), "houses.safetensors", NULL, &error));
    predict("houses.safetensors");

    bg_loader_destroy(training_loader), bg_loader_destroy(test_loader);
    bg_session_destroy(testing), bg_session_destroy(training);
    bg_dataset_destroy(test_set), bg_dataset_destroy(training_set);
    bg_graph_destroy(graph);
    return 0;
}
