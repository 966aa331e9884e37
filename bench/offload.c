/*
 * offload.c: what it costs to train a network that needs eight times the device's memory. A perceptron of equal layers,
 * a stage each, all on one device, phase after phase: once with unlimited memory, once with weights, accumulators,
 * optimizer state and activations in remote buffers and an eighth of the bytes. Prints times (best of several runs),
 * bytes, and the ratio of speeds. The results are compared to the last bit.
 *
 * usage: offload [width] [layers] [micro-batches] [samples] [cores] [I/O threads]
 */
#include <brigade.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct setting {
    int64_t width, samples;
    uint32_t layers, micro_batches, cores;
    int32_t io_threads;
} setting;

typedef struct outcome {
    double best_s;
    size_t device_bytes, remote_bytes;
    float *loss; /* of the last run */
} outcome;

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

static outcome train(const setting *s, bool is_remote, size_t budget)
{
    bg_options options = bg_options_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    outcome out = {.best_s = 1e30, .loss = malloc(sizeof(float))};
    size_t room = 24 * (size_t)s->layers;
    char *stages = calloc(room, 1);
    const size_t count = (size_t)s->micro_batches * (size_t)s->samples;
    float *x = malloc(count * (size_t)s->width * sizeof *x);
    int32_t *labels = malloc(count * sizeof *labels);
    const void *inputs[2];
    bg_value loss;

    if (stages == NULL || x == NULL || labels == NULL || out.loss == NULL)
        exit(1);
    for (size_t i = 0; i < count * (size_t)s->width; i++)
        x[i] = (float)((i * 2654435761u) % 2001) / 1000.0f - 1.0f;
    for (size_t i = 0; i < count; i++)
        labels[i] = (int32_t)(i * 7 % (size_t)s->width);
    require(bg_graph_create(&graph, &error), &error);
    loss = build(graph, s, stages, room);
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.execution.stages = stages;
    options.execution.gradient_accumulation = s->micro_batches;
    options.execution.cores = s->cores;
    options.execution.io_threads = s->io_threads;
    options.memory.device_memory_bytes = budget;
    /* Each stage is updated right after its backward: no total that all wait for. */
    options.numerics.accumulation = BG_ACCUMULATE_SUM;
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = is_remote ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    inputs[bg_session_find_input(session, "x")] = x;
    inputs[bg_session_find_input(session, "labels")] = labels;
    for (int run = 0; run < 3; run++) {
        void *outputs[] = {out.loss};
        const double begin_s = read_clock_s();
        require(bg_session_run(session, inputs, outputs, &error), &error);
        if (read_clock_s() - begin_s < out.best_s)
            out.best_s = read_clock_s() - begin_s;
    }
    out.device_bytes = bg_plan_device_bytes(plan, 0);
    out.remote_bytes = bg_plan_memory_bytes(plan, 0, BG_MEMORY_REMOTE);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    free(x), free(labels), free(stages);
    return out;
}

static void print(const char *name, const outcome *o)
{
    printf("%-10s %10.2f ms a step %12zu bytes on the device %12zu remote\n", name, o->best_s * 1e3, o->device_bytes,
           o->remote_bytes);
}

int main(int argc, char **argv)
{
    const long given[] = {argc > 1 ? atol(argv[1]) : 1024, argc > 2 ? atol(argv[2]) : 16,
                          argc > 3 ? atol(argv[3]) : 16,   argc > 4 ? atol(argv[4]) : 64,
                          argc > 5 ? atol(argv[5]) : 0,    argc > 6 ? atol(argv[6]) : -1};
    const setting s = {.width = given[0],
                       .layers = (uint32_t)given[1],
                       .micro_batches = (uint32_t)given[2],
                       .samples = given[3],
                       .cores = (uint32_t)given[4],
                       .io_threads = (int32_t)given[5]};
    const outcome whole = train(&s, false, 0);
    const outcome eighth = train(&s, true, whole.device_bytes / 8);

    print("unlimited", &whole);
    print("an eighth", &eighth);
    printf("speed: %.1f %% of unlimited; bits %s\n", 100.0 * whole.best_s / eighth.best_s,
           memcmp(whole.loss, eighth.loss, sizeof(float)) == 0 ? "the same" : "DIFFERENT");
    return memcmp(whole.loss, eighth.loss, sizeof(float)) != 0;
}
