/*
 * offload.c: measures the cost of training a network that needs eight times the device's memory. A perceptron of equal
 * layers, each a stage, trains on one device in phases. One session has unlimited memory; the other has an eighth of
 * the memory, and weights, accumulators, optimizer state and activations in remote buffers. The two take turns, step by
 * step, so that any other load on the machine slows both. It prints times (best and median), bytes, and the ratio of
 * speeds, and checks that the losses are bit-identical.
 *
 * usage: offload [width] [layers] [micro-batches] [samples] [cores] [I/O threads] [steps]
 */
#include <brigade.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "median.h"

typedef struct setting {
    int64_t width, samples;
    uint32_t layers, micro_batches, cores;
    int32_t io_threads;
    uint32_t steps;
} setting;

typedef struct trainee {
    bg_plan *plan;
    bg_session *session;
    double *step_s;
    float loss; /* loss of the last step */
} trainee;

typedef struct samples {
    float *x;
    int32_t *labels;
} samples;

static double read_clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "offload: %s\n", error->message);
    exit(1);
}

static bg_value build(bg_graph *graph, const setting *s, char *stages, size_t room)
{
    const bg_type x_type = {.dtype = BG_FLOAT32, .rank = 2, .dims = {s->samples, s->width}};
    const bg_type label_type = {.dtype = BG_INT32, .rank = 1, .dims = {s->samples}};
    bg_value x = bg_graph_input(graph, "x", &x_type);
    const bg_value labels = bg_graph_input(graph, "labels", &label_type);
    bg_value loss = {0};

    for (uint32_t i = 0; i < s->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "L%u", i);
        snprintf(stages + strlen(stages), room - strlen(stages), "%s%s@0", i > 0 ? "|" : "", name);
        bg_block_begin(graph, name, 0);
        x = bg_linear_layer(graph, name, x, s->width, true);
        if (i + 1 < s->layers)
            x = bg_relu(graph, x);
        else
            loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
        bg_block_end(graph);
    }
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static void *allocate(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);

    if (memory == NULL) {
        fprintf(stderr, "offload: out of memory\n");
        exit(1);
    }
    return memory;
}

static samples make_samples(const setting *s)
{
    const size_t count = (size_t)s->micro_batches * (size_t)s->samples;
    const samples made = {allocate(count * (size_t)s->width * sizeof(float)), allocate(count * sizeof(int32_t))};

    for (size_t i = 0; i < count * (size_t)s->width; i++)
        made.x[i] = (float)((i * 2654435761u) % 2001) / 1000.0f - 1.0f;
    for (size_t i = 0; i < count; i++)
        made.labels[i] = (int32_t)(i * 7 % (size_t)s->width);
    return made;
}

/* Makes a session; a budget of 0 means no limit. */
static trainee prepare(const setting *s, bool is_remote, size_t budget)
{
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    const size_t room = 24 * (size_t)s->layers;
    char *stages = allocate(room);
    trainee out = {.step_s = allocate(s->steps * sizeof(double))};
    bg_graph *graph = NULL;
    bg_error error = {0};
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error);
    loss = build(graph, s, stages, room);
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.stages = stages;
    options.execution.gradient_accumulation = s->micro_batches;
    options.execution.cores = s->cores;
    options.execution.io_threads = s->io_threads;
    options.memory.device_memory_bytes = budget;
    /* Each stage is updated directly after its backward, because no update needs a sum over all stages. */
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = is_remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &out.plan, &error), &error);
    bg_graph_destroy(graph);
    free(stages);
    require(bg_session_create(out.plan, NULL, &out.session, &error), &error);
    return out;
}

/* Runs a step; with UINT32_MAX as `step` it is not timed. */
static void run_step(trainee *t, const samples *given, uint32_t step)
{
    const double begin_s = read_clock_s();
    const void *inputs[2];
    void *outputs[] = {&t->loss};
    bg_error error = {0};

    inputs[bg_session_find_input(t->session, "x")] = given->x;
    inputs[bg_session_find_input(t->session, "labels")] = given->labels;
    require(bg_session_run(t->session, inputs, outputs, &error), &error);
    if (step != UINT32_MAX)
        t->step_s[step] = read_clock_s() - begin_s;
}

static void release(trainee *t)
{
    bg_session_destroy(t->session);
    bg_plan_destroy(t->plan);
    free(t->step_s);
}

/* Sorts the times and returns their median. */
static double sort_and_print(const char *name, trainee *t, uint32_t steps)
{
    const double median_s = bench_median(t->step_s, steps);

    printf("%-10s %10.2f ms a step at best, %10.2f by the median %12zu bytes on the device %12zu remote\n", name,
           t->step_s[0] * 1e3, median_s * 1e3, bg_plan_device_bytes(t->plan, 0),
           bg_plan_memory_bytes(t->plan, 0, BG_MEMORY_REMOTE));
    return median_s;
}

int main(int argc, char **argv)
{
    const long given[] = {argc > 1 ? atol(argv[1]) : 1024, argc > 2 ? atol(argv[2]) : 16, argc > 3 ? atol(argv[3]) : 16,
                          argc > 4 ? atol(argv[4]) : 64,   argc > 5 ? atol(argv[5]) : 0,  argc > 6 ? atol(argv[6]) : -1,
                          argc > 7 ? atol(argv[7]) : 9};
    const setting s = {.width = given[0],
                       .layers = (uint32_t)given[1],
                       .micro_batches = (uint32_t)given[2],
                       .samples = given[3],
                       .cores = (uint32_t)given[4],
                       .io_threads = (int32_t)given[5],
                       .steps = given[6] > 0 ? (uint32_t)given[6] : 1};
    const samples all = make_samples(&s);
    trainee whole = prepare(&s, false, 0);
    trainee eighth = prepare(&s, true, bg_plan_device_bytes(whole.plan, 0) / 8);
    double whole_s, eighth_s;
    bool is_same = true;

    run_step(&whole, &all, UINT32_MAX);
    run_step(&eighth, &all, UINT32_MAX);
    for (uint32_t step = 0; step < s.steps; step++) {
        run_step(&whole, &all, step);
        run_step(&eighth, &all, step);
        is_same = is_same && memcmp(&whole.loss, &eighth.loss, sizeof whole.loss) == 0;
    }
    whole_s = sort_and_print("unlimited", &whole, s.steps);
    eighth_s = sort_and_print("an eighth", &eighth, s.steps);
    printf("speed: %.1f %% of unlimited at best, %.1f %% by the medians; bits %s\n",
           100.0 * whole.step_s[0] / eighth.step_s[0], 100.0 * whole_s / eighth_s, is_same ? "the same" : "DIFFERENT");
    release(&eighth);
    release(&whole);
    free(all.x);
    free(all.labels);
    return !is_same;
}
