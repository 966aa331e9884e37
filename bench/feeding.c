/*
 * feeding.c: measures the cost of feeding data to a session. The digit network trains as in the tutorial, in a pipeline
 * on 4 devices with 4000 images a call. There are three kinds of data: one batch in memory, batches of a loader, and
 * the loader through an infeed. It prints images per second, and each speed relative to that of the first kind. Rounds
 * of the three kinds alternate, and the result is the median call, so that temporary load on the machine has little
 * effect. It also prints shares of processor time, which are the relative speeds when all cores are busy.
 *
 * usage: feeding [cores] [rounds]
 */
#include <brigade.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "median.h"

enum { IMAGES = 60000, MICRO_BATCH = 40, CALLS = 5, MOST_ROUNDS = 100, KINDS = 3 };

typedef enum kind { FIXED, LOADER, INFEED } kind;

typedef struct bench {
    bg_dataset *dataset;
    bg_loader *loader; /* the loader; NULL for the batch in memory */
    bg_plan *plan;
    bg_session *session;
    const void *fixed[2]; /* the images and labels of a batch */
    void *outputs[2];
    uint32_t images, labels; /* inputs */
    double wall_s[MOST_ROUNDS * CALLS], cpu_s;
    uint32_t call_count;
} bench;

static double read_clock_s(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "feeding: %s\n", error->message);
    exit(EXIT_FAILURE);
}

static void open_session(bench *b, uint32_t cores)
{
    bg_convnet_options network = bg_convnet_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_convnet net;

    network.micro_batch = MICRO_BATCH;
    network.outputs = BG_CONVNET_LOSS | BG_CONVNET_CORRECT;
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.device_iterations = 10;
    options.execution.gradient_accumulation = 10;
    options.execution.cores = cores;
    require(bg_graph_create(&graph, &error), &error);
    net = bg_convnet_build(graph, &network);
    require(bg_plan_create_training(graph, net.loss, &optimizer, &options, &b->plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(b->plan, NULL, &b->session, &error), &error);
    b->images = bg_session_find_input(b->session, "images");
    b->labels = bg_session_find_input(b->session, "labels");
    for (uint32_t i = 0; i < bg_session_output_count(b->session); i++) {
        bg_stream stream;

        require(bg_session_output(b->session, i, &stream, &error), &error);
        b->outputs[i] = malloc(stream.size_bytes);
    }
}

static void open_loader(bench *b, const bg_dataset *dataset)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_error error = {0};

    options.batch_size = bg_plan_summarize(b->plan).samples_per_run;
    options.shuffle = true;
    require(bg_loader_create(dataset, &options, &b->loader, &error), &error);
    require(bg_loader_begin_epoch(b->loader, 0, &error), &error);
}

static void call(bench *b, kind k)
{
    const void *inputs[2] = {NULL};
    bg_error error = {0};
    bg_batch batch;

    if (k == INFEED) {
        require(bg_session_run_loader(b->session, b->loader, 0, b->outputs, &error), &error);
        return;
    }
    inputs[b->images] = b->fixed[0];
    inputs[b->labels] = b->fixed[1];
    if (k == LOADER) {
        require(bg_loader_next(b->loader, &batch, &error), &error);
        inputs[b->images] = batch.tensors[0];
        inputs[b->labels] = batch.tensors[1];
    }
    require(bg_session_run(b->session, inputs, b->outputs, &error), &error);
}

static void run_round(bench *b, kind k)
{
    const double cpu_s = read_clock_s(CLOCK_PROCESS_CPUTIME_ID);

    for (int i = 0; i < CALLS; i++) {
        const double start_s = read_clock_s(CLOCK_MONOTONIC);

        call(b, k);
        b->wall_s[b->call_count++] = read_clock_s(CLOCK_MONOTONIC) - start_s;
    }
    b->cpu_s += read_clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_s;
}

static double median_s(bench *b)
{
    return bench_median(b->wall_s, b->call_count);
}

static void report(bench *benches)
{
    static const char *const names[KINDS] = {"one fixed batch", "batches of a loader", "a loader's infeed"};
    const double fixed_s = median_s(&benches[FIXED]);

    printf("%-24s %12s %12s %16s\n", "", "images/s", "speed", "processor time");
    for (int k = 0; k < KINDS; k++) {
        const double images = (double)bg_plan_summarize(benches[k].plan).samples_per_run, s = median_s(&benches[k]);

        printf("%-24s %12.0f %11.1f%% %15.1f%%\n", names[k], images / s, 100.0 * fixed_s / s,
               100.0 * benches[k].cpu_s / benches[FIXED].cpu_s);
    }
}

static void close_bench(bench *b)
{
    for (uint32_t i = 0; i < bg_session_output_count(b->session); i++)
        free(b->outputs[i]);
    bg_session_destroy(b->session);
    bg_loader_destroy(b->loader);
    bg_plan_destroy(b->plan);
}

static uint32_t count_rounds(const char *text)
{
    const long rounds = text != NULL ? strtol(text, NULL, 10) : 2;

    return rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : (uint32_t)rounds;
}

int main(int argc, char **argv)
{
    const uint32_t cores = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    const uint32_t rounds = count_rounds(argc > 2 ? argv[2] : NULL);
    const bg_digits_options digits = {.count = IMAGES};
    const int64_t dims[] = {IMAGES, 1, BG_DIGITS_ROWS, BG_DIGITS_COLUMNS};
    bg_image_set set = {.class_count = 0};
    bg_array arrays[2];
    bench benches[KINDS] = {{.call_count = 0}};
    bg_dataset *plain = NULL, *dataset = NULL;
    bg_error error = {0};

    require(bg_digits_create(&digits, &set, &error), &error);
    arrays[0] =
        (bg_array){bg_type_make(BG_UINT8, 4, dims), set.images.data}; /* with a channel, as the network expects */
    arrays[1] = set.labels;
    require(bg_dataset_create_arrays(arrays, 2, &plain, &error), &error);
    require(bg_dataset_repeat(plain, MOST_ROUNDS, &dataset, &error), &error); /* an epoch longer than the benchmark */
    for (int k = 0; k < KINDS; k++) {
        open_session(&benches[k], cores);
        benches[k].fixed[0] = set.images.data;
        benches[k].fixed[1] = set.labels.data;
        if (k != FIXED)
            open_loader(&benches[k], dataset);
        call(&benches[k], (kind)k); /* warm */
    }
    for (uint32_t round = 0; round < rounds; round++)
        for (int k = 0; k < KINDS; k++)
            run_round(&benches[k], (kind)k);
    report(benches);
    for (int k = 0; k < KINDS; k++)
        close_bench(&benches[k]);
    bg_dataset_destroy(dataset);
    bg_dataset_destroy(plain);
    bg_image_set_clear(&set);
    return EXIT_SUCCESS;
}
