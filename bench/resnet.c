/*
 * resnet.c: measures how fast convolutional networks train and infer on images of 32 x 32. It prints images per second
 * of whole steps, the best and the median of several, and with --profile the processor time of each kernel by the shape
 * of its result. The networks have batch norm; training uses SGD with momentum, and the images are in memory.
 *
 *     usage: resnet [--network resnet8|resnet18|mobilenet|FILE.onnx] [--batch N] [--cores N] [--steps N] [--inference]
 *                   [--bfloat16] [--profile] [--roofline FILE.svg] [--times]
 *
 *     resnet8      16, 32 and 64 channels, a block each (the network of MLPerf Tiny)
 *     resnet18     64, 128, 256 and 512 channels, two blocks each
 *     mobilenet    MobileNet's pairs of a depthwise convolution and one of 1 x 1, from 32 to 512 channels
 *     FILE.onnx    has one input of [N, 3, 32, 32] and one output of [N, 10]
 *     --bfloat16   products in bfloat16 (the precision bf16-mixed), otherwise in float32
 *     --times      prints a line `flops N` for a step, and a line `step SECONDS` for each step
 *     --roofline   draws the profile (roofline.h)
 */
#include <brigade.h>

#include "median.h"
#include "roofline.h"

typedef enum network { RESNET_8, RESNET_18, MOBILENET, NETWORKS } network;
static const char *const network_names[NETWORKS] = {"resnet8", "resnet18", "mobilenet"};

typedef struct setting {
    network network;
    const char *path;     /* path of an ONNX model; NULL: this program builds the network */
    const char *roofline; /* the SVG file, or NULL */
    long batch, cores, steps, infers, is_bfloat16, profiles, lists;
} setting;

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "resnet: %s\n", error->message);
    exit(1);
}

static double read_clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- the network ---- */

static bg_value add_grouped_conv(bg_graph *graph, const char *block, const char *name, bg_value x, int64_t channels,
                                 int64_t window, int64_t stride, int64_t groups)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    char full[64];

    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = window / 2;
    options.groups = groups;
    snprintf(full, sizeof full, "%s.%s", block, name);
    x = bg_conv2d_layer(graph, full, x, channels, window, window, false, &options);
    snprintf(full, sizeof full, "%s.%s.norm", block, name);
    return bg_batch_norm_layer(graph, full, x, 0.1, 1e-5);
}

static bg_value add_conv(bg_graph *graph, const char *block, const char *name, bg_value x, int64_t channels,
                         int64_t window, int64_t stride)
{
    return add_grouped_conv(graph, block, name, x, channels, window, stride, 1);
}

static bg_value add_block(bg_graph *graph, int number, bg_value x, int64_t channels, int64_t stride, bool is_wider)
{
    char block[32];
    bg_value y;

    snprintf(block, sizeof block, "block%d", number);
    y = bg_relu(graph, add_conv(graph, block, "conv1", x, channels, 3, stride));
    y = add_conv(graph, block, "conv2", y, channels, 3, 1);
    return bg_relu(graph, bg_add(graph, y, is_wider ? add_conv(graph, block, "shortcut", x, channels, 1, stride) : x));
}

static bg_value add_resnet(bg_graph *graph, bg_value x, bool is_small)
{
    const int64_t first = is_small ? 16 : 64;
    const int blocks = is_small ? 1 : 2, stages = is_small ? 3 : 4;
    int64_t channels = first;

    x = bg_relu(graph, add_conv(graph, "stem", "conv", x, first, 3, 1));
    for (int stage = 0; stage < stages; stage++, channels *= 2)
        for (int block = 0; block < blocks; block++)
            x = add_block(graph, stage * blocks + block + 1, x, channels, stage > 0 && block == 0 ? 2 : 1,
                          stage > 0 && block == 0);
    return x;
}

static bg_value add_mobilenet(bg_graph *graph, bg_value x)
{
    static const int64_t channels[] = {64, 128, 128, 256, 256, 512, 512, 512}, strides[] = {1, 2, 1, 2, 1, 2, 1, 1};
    int64_t from = 32;

    x = bg_relu(graph, add_conv(graph, "stem", "conv", x, from, 3, 1));
    for (size_t i = 0; i < sizeof channels / sizeof *channels; from = channels[i++]) {
        char block[32];

        snprintf(block, sizeof block, "block%zu", i + 1);
        x = bg_relu(graph, add_grouped_conv(graph, block, "depthwise", x, from, 3, strides[i], from));
        x = bg_relu(graph, add_conv(graph, block, "pointwise", x, channels[i], 1, 1));
    }
    return x;
}

/* Builds a network; returns its logits. */
static bg_value add_network(bg_graph *graph, const setting *s)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, s->batch, 3, 32, 32);
    const bg_pool2d_options whole = bg_pool2d_defaults(s->network == RESNET_8 ? 8 : 4);
    bg_value x = bg_graph_input(graph, "images", &image);

    x = s->network == MOBILENET ? add_mobilenet(graph, x) : add_resnet(graph, x, s->network == RESNET_8);
    return bg_linear_layer(graph, "out", bg_flatten(graph, NULL, bg_avg_pool2d(graph, "pool", x, &whole)), 10, true);
}

/* Adds the graph of a file. */
static bg_value add_file(bg_graph *graph, const setting *s, bg_onnx *onnx)
{
    bg_onnx_options options = bg_onnx_defaults();
    bg_error error = {0};

    options.batch_size = s->batch;
    require(bg_onnx_build(onnx, &options, graph, &error), &error);
    bg_block_begin(graph, "loss", BG_DEVICE_NONE);
    return bg_onnx_contents_of(onnx)->outputs[0].value;
}

/* Builds the network, and returns its loss, or its logits for inference. */
static bg_value build(bg_graph *graph, const setting *s, bg_onnx *onnx)
{
    const bg_type label = bg_vector(BG_INT32, s->batch);
    const bg_value x = onnx != NULL ? add_file(graph, s, onnx) : add_network(graph, s);
    bg_value loss;

    if (s->infers) {
        bg_graph_output(graph, "logits", x);
        return x;
    }
    loss = bg_cross_entropy(graph, "loss", x, bg_graph_input(graph, "labels", &label), BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    return loss;
}

/* ---- the run ---- */

/* Returns the number of floating-point operations of a step, summed over its ops. */
static double count_flops(const bg_plan *plan)
{
    double flops = 0.0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++)
                flops += plan->devices[d].instructions[i].calls[c].cost.flops;
    return flops;
}

static bg_plan *make_plan(const setting *s, bg_onnx *onnx)
{
    bg_options options = bg_options_defaults();
    bg_optimizer optimizer = bg_sgd(0.05);
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value loss;

    optimizer.momentum = 0.9;
    optimizer.weight_decay = 5e-4;
    require(bg_graph_create(&graph, &error), &error);
    loss = build(graph, s, onnx);
    require(bg_graph_check(graph, &error), &error);
    options.execution.cores = (uint32_t)s->cores;
    options.numerics.initialize_missing = true;
    options.numerics.precision = s->is_bfloat16 ? BG_PRECISION_BF16_MIXED : BG_PRECISION_32;
    if (s->infers)
        require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    else
        require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static void run(const setting *s)
{
    const size_t pixels = (size_t)s->batch * 3 * 32 * 32;
    float *images = malloc(pixels * sizeof *images), *out = calloc((size_t)s->batch * 10, sizeof *out);
    int32_t *labels = malloc((size_t)s->batch * sizeof *labels);
    double *times = calloc((size_t)s->steps, sizeof *times), median;
    bg_onnx *onnx = NULL;
    bg_weights *weights = NULL;
    bg_plan *plan;
    profile all = {NULL, 0};
    bg_session *session = NULL;
    bg_error error = {0};
    const void *inputs[2] = {0};
    uint32_t at;

    if (images == NULL || out == NULL || labels == NULL || times == NULL)
        exit(1);
    for (size_t i = 0; i < pixels; i++)
        images[i] = (float)(i * 2654435761u % 2003u) / 1001.0f - 1.0f;
    for (long i = 0; i < s->batch; i++)
        labels[i] = (int32_t)(i * 7 % 10);
    if (s->path != NULL)
        require(bg_onnx_open(s->path, &onnx, &error), &error);
    plan = make_plan(s, onnx);
    require(bg_weights_create(&weights, &error), &error);
    if (onnx != NULL)
        require(bg_onnx_set_weights(onnx, weights, &error), &error);
    if (s->profiles)
        all = time_plan(plan);
    require(bg_session_create(plan, weights, &session, &error), &error);
    inputs[bg_session_find_input(session, onnx != NULL ? bg_onnx_contents_of(onnx)->inputs[0].name : "images")] =
        images;
    if ((at = bg_session_find_input(session, "labels")) != UINT32_MAX)
        inputs[at] = labels;
    for (long step = -2; step < s->steps; step++) {
        const double begin_s = read_clock_s();

        require(bg_session_run(session, inputs, (void *[]){out}, &error), &error);
        if (step >= 0)
            times[step] = read_clock_s() - begin_s;
        for (size_t i = 0; step < 0 && i < all.count; i++)
            all.rows[i].ns = 0;
    }
    if (s->lists)
        printf("flops %.0f\n", count_flops(plan));
    for (long step = 0; s->lists && step < s->steps; step++)
        printf("step %.6f\n", times[step]);
    median = bench_median(times, (size_t)s->steps);
    printf("%s %s%s, batch %ld, cores %ld: best %.0f images/s, median %.0f\n",
           s->path != NULL ? s->path : network_names[s->network], s->infers ? "inference" : "training",
           s->is_bfloat16 ? " in bfloat16" : "", s->batch, s->cores, (double)s->batch / times[0],
           (double)s->batch / median);
    if (s->profiles)
        print_profile(&all, s->steps);
    if (s->roofline != NULL) {
        char title[160];

        snprintf(title, sizeof title, "%s %s, batch %ld", s->path != NULL ? s->path : network_names[s->network],
                 s->infers ? "inference" : "training", s->batch);
        draw_roofline(s->roofline, title, &all, s->steps);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_weights_destroy(weights);
    bg_onnx_destroy(onnx);
    free(all.rows), free(images), free(out), free(labels), free(times);
}

static void refuse(const char *option, const char *why)
{
    fprintf(stderr, "resnet: %s %s; the file's head lists the options\n", option, why);
    exit(2);
}

static network find_network(const char *name)
{
    network found = RESNET_8;

    while (found < NETWORKS && strcmp(network_names[found], name) != 0)
        found++;
    return found;
}

int main(int argc, char **argv)
{
    setting s = {.network = RESNET_8, .batch = 64, .cores = 2, .steps = 10};
    const struct {
        const char *name;
        long *value;
        bool is_switch;
    } known[] = {{"--network", NULL, false},   {"--batch", &s.batch, false},     {"--cores", &s.cores, false},
                 {"--steps", &s.steps, false}, {"--inference", &s.infers, true}, {"--profile", &s.profiles, true},
                 {"--times", &s.lists, true},  {"--roofline", NULL, false},      {"--bfloat16", &s.is_bfloat16, true}};

    for (int i = 1; i < argc; i++) {
        size_t k = 0;

        while (k < sizeof known / sizeof known[0] && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof known[0])
            refuse(argv[i], "is not known");
        if (!known[k].is_switch && i + 1 == argc)
            refuse(argv[i], "lacks its value");
        if (known[k].value != NULL)
            *known[k].value = known[k].is_switch ? 1 : atol(argv[++i]);
        else if (strcmp(argv[i], "--roofline") == 0)
            s.roofline = argv[++i], s.profiles = 1;
        else if (strlen(argv[++i]) > 5 && strcmp(argv[i] + strlen(argv[i]) - 5, ".onnx") == 0)
            s.path = argv[i];
        else
            s.network = find_network(argv[i]);
    }
    if (s.network == NETWORKS || s.batch < 1 || s.steps < 1)
        refuse("--network, --batch, --steps", "must be resnet8, resnet18, mobilenet or a file, and at least 1");
    run(&s);
    return 0;
}
