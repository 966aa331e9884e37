/*
 * predict_cases.h: builds the networks for which predict.c and mpi_predict.c compare predicted and measured times, and
 * runs them in sessions on zeros.
 */
#ifndef BGI_BENCH_PREDICT_CASES_H
#define BGI_BENCH_PREDICT_CASES_H

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/convnet.h>
#include <brigade/gpt.h>
#include <brigade/nn.h>
#include <brigade/ops.h>
#include <brigade/session.h>

#include "core/clock.h"
#include "predict/call_costs.h"
#include "median.h"

enum { GPT_HEADS = 4, MICRO_BATCHES = 8, UPDATES = 2, RUNS = 9, MOST_TURNS = 16, MOST_RUNS = RUNS * (MOST_TURNS + 1) };

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "predict: %s\n", error->message);
    exit(1);
}

/* ---- networks ---- */

static bg_value add_digits(bg_graph *graph)
{
    bg_convnet_options options = bg_convnet_defaults();

    options.micro_batch = 40;
    return bg_convnet_build(graph, &options).loss;
}

static bg_value add_norm_block(bg_graph *graph, const char *name, bg_value x, int64_t channels, int64_t stride)
{
    bg_conv2d_options conv = bg_conv2d_defaults();
    char layer[32];

    conv.padding[0] = conv.padding[1] = 1;
    conv.stride[0] = conv.stride[1] = stride;
    bg_block_begin(graph, name, BG_DEVICE_NONE);
    snprintf(layer, sizeof layer, "%s.conv", name);
    x = bg_conv2d_layer(graph, layer, x, channels, 3, 3, false, &conv);
    snprintf(layer, sizeof layer, "%s.norm", name);
    x = bg_relu(graph, bg_batch_norm_layer(graph, layer, x, 0.1, 1e-5));
    bg_block_end(graph);
    return x;
}

static bg_value add_norms(bg_graph *graph)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, 16, 3, 32, 32), label = bg_vector(BG_INT32, 16);
    const bg_pool2d_options pool = bg_pool2d_defaults(8);
    bg_value x = bg_graph_input(graph, "images", &image), labels = bg_graph_input(graph, "labels", &label), loss;

    x = add_norm_block(graph, "B1", x, 16, 1);
    x = add_norm_block(graph, "B2", x, 32, 2);
    x = add_norm_block(graph, "B3", x, 64, 2);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "out", bg_flatten(graph, NULL, bg_avg_pool2d(graph, "pool", x, &pool)), 10, true);
    loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

static bg_value add_gpt(bg_graph *graph)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = 128;
    options.heads = GPT_HEADS;
    options.sequence_length = options.positions = 64;
    options.vocabulary = 512;
    options.micro_batch = 4;
    options.outputs = BG_GPT_LOSS;
    return bg_gpt_build(graph, &options).loss;
}

static const struct {
    const char *name;
    bg_value (*add)(bg_graph *graph);
} networks[] = {{"digits", add_digits}, {"batch norm", add_norms}, {"gpt", add_gpt}};

enum { NETWORKS = sizeof networks / sizeof networks[0] };

/* ---- sessions ---- */

typedef struct rig {
    bg_session *session;
    void *streams[16];
    uint32_t inputs;
} rig;

static void open_rig(rig *r, const bg_plan *plan)
{
    bg_error error = {0};

    memset(r, 0, sizeof *r);
    require(bg_session_create(plan, NULL, &r->session, &error), &error);
    r->inputs = bg_session_input_count(r->session);
    for (uint32_t i = 0; i < r->inputs; i++) {
        bg_stream stream;
        require(bg_session_input(r->session, i, &stream, &error), &error);
        r->streams[i] = calloc(1, stream.size_bytes + 1);
    }
}

static void close_rig(rig *r)
{
    for (uint32_t i = 0; i < r->inputs; i++)
        free(r->streams[i]);
    bg_session_destroy(r->session);
}

static double run_ns(rig *r)
{
    const uint64_t start_ns = bgi_clock_ns();
    bg_error error = {0};

    require(bg_session_run(r->session, (const void *const *)r->streams, r->streams + r->inputs, &error), &error);
    return (double)(bgi_clock_ns() - start_ns);
}

/* ---- runs that other programs did not disturb ---- */

typedef struct timed_run {
    double ns, delay_ns; /* delay_ns: the time in which the run's threads waited for a processor */
} timed_run;

/* Returns the time in which the threads of this process have waited for a processor so far; 0 if the system does not
 * report it. */
static double read_delay_ns(void)
{
    DIR *folder = opendir("/proc/self/task");
    double sum = 0.0;

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char path[320];
        double ran, waited;
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file != NULL && fscanf(file, "%lf %lf", &ran, &waited) == 2)
            sum += waited;
        if (file != NULL)
            fclose(file);
    }
    if (folder != NULL)
        closedir(folder);
    return sum;
}

static timed_run time_run(rig *r)
{
    const double before_ns = read_delay_ns();
    timed_run run = {.ns = run_ns(r)};

    run.delay_ns = read_delay_ns() - before_ns;
    return run;
}

static int compare_delays(const void *left, const void *right)
{
    const double a = ((const timed_run *)left)->delay_ns, b = ((const timed_run *)right)->delay_ns;

    return a < b ? -1 : a > b;
}

/* Returns the median time over a third of the runs: those with the threads that waited least. */
static double find_calm_ns(const timed_run *runs, uint32_t count)
{
    timed_run sorted[MOST_RUNS];
    double ns[MOST_RUNS];
    const uint32_t calm = (count + 2) / 3;

    memcpy(sorted, runs, count * sizeof *runs);
    qsort(sorted, count, sizeof *sorted, compare_delays);
    for (uint32_t i = 0; i < calm; i++)
        ns[i] = sorted[i].ns;
    return bench_median(ns, calm);
}

/* ---- the table ---- */

static const double MEDIAN_GOAL = 0.03, WORST_GOAL = 0.10;

static void print_head(void)
{
    printf("| Network | Strategy | Cores | Measured, ms an update | Predicted | Off, %% |\n"
           "|---|---|---:|---:|---:|---:|\n");
}

static void print_row(const char *network, const char *strategy, uint32_t cores, double measured_ns,
                      double predicted_ns, double off)
{
    printf("| %s | %s | %u | %.3f | %.3f | %+.1f |\n", network, strategy, cores, 1e-6 * measured_ns,
           1e-6 * predicted_ns, 100.0 * off);
    fflush(stdout);
}

/* Returns whether the errors reach the goals. */
static bool print_verdict(double *off, uint32_t count)
{
    const double median = bench_median(off, count);
    const bool passes = median <= MEDIAN_GOAL && off[count - 1] <= WORST_GOAL;
    printf("\n%u configurations: off by %.1f %% (median), %.1f %% (nine in ten), %.1f %% (worst): %s\n", count,
           100.0 * median, 100.0 * off[count * 9 / 10], 100.0 * off[count - 1], passes ? "pass" : "fail");
    return passes;
}

#endif
