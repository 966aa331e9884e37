/*
 * predict.c: compares predicted times of updates with measured ones, for three networks under six strategies on one
 * core and on two. Each turn of a network consists of runs, new measurements of the costs of calls, a prediction, and
 * more runs. `bench/plan.sh` runs it.
 */
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

enum { MICRO_BATCHES = 8, UPDATES = 4, RUNS = 5, MOST_TURNS = 16, MOST_CASES = 64 };

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
    options.heads = 4;
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

static const struct {
    const char *name, *schedule, *stages;
    bg_strategy strategy;
} strategies[] = {
    {"single", NULL, NULL, BG_STRATEGY_SINGLE},
    {"sharded", NULL, "auto:4", BG_STRATEGY_SHARDED},
    {"interleaved", "interleaved", "auto:4", BG_STRATEGY_PIPELINED},
    {"gpipe", "gpipe", "auto:3", BG_STRATEGY_PIPELINED},
    {"zb-h1", "zb-h1", "auto:4", BG_STRATEGY_PIPELINED},
    {"phased", NULL, NULL, BG_STRATEGY_PHASED},
};

enum { NETWORKS = sizeof networks / sizeof networks[0], STRATEGIES = sizeof strategies / sizeof strategies[0] };

static bg_plan *make_plan(uint32_t network, uint32_t strategy, uint32_t cores, bool traces)
{
    const bg_optimizer optimizer = bg_adamw(1e-3);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value loss;

    options.execution.strategy = strategies[strategy].strategy;
    options.execution.schedule = strategies[strategy].schedule;
    options.execution.stages = strategies[strategy].stages;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = UPDATES;
    options.execution.cores = cores;
    options.reporting.trace = traces;
    options.reporting.trace_events = 1024;
    require(bg_graph_create(&graph, &error), &error);
    loss = networks[network].add(graph);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

/* ---- one case ---- */

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

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static double predict_ns(const bg_plan *plan, const bg_plan *rehearsal, uint32_t cores)
{
    bgi_call_costs costs = {.costs = NULL};
    bgi_machine_prices machine;
    bgi_prediction made;
    uint32_t counted, known;
    bg_error error = {0};
    double ns;

    require(bgi_call_costs_measure(&costs, rehearsal, cores, true, &error), &error);
    require(bgi_call_costs_count(&costs, plan, &counted, &known, &error), &error);
    bgi_prices_of_machine(&costs, counted, known, &machine);
    require(bgi_prediction_make(plan, &machine.prices, cores, false, &made, &error), &error);
    ns = made.shared_run_ns;
    bgi_prediction_clear(&made);
    bgi_call_costs_clear(&costs);
    return ns;
}

static double try_case(uint32_t network, uint32_t strategy, uint32_t cores, uint32_t turns)
{
    bg_plan *plan = make_plan(network, strategy, cores, false), *rehearsal = make_plan(network, strategy, 1, true);
    double measured[RUNS * (MOST_TURNS + 1)], predicted[MOST_TURNS], run, said;
    uint32_t count = 0;
    rig r;

    open_rig(&r, plan);
    run_ns(&r);
    for (uint32_t turn = 0; turn <= turns; turn++) {
        for (uint32_t i = 0; i < RUNS; i++)
            measured[count++] = run_ns(&r);
        if (turn < turns)
            predicted[turn] = predict_ns(plan, rehearsal, cores);
    }
    close_rig(&r);
    bg_plan_destroy(rehearsal);
    bg_plan_destroy(plan);
    run = median(measured, count);
    said = median(predicted, turns);
    printf("| %s | %s | %u | %.3f | %.3f | %+.1f |\n", networks[network].name, strategies[strategy].name, cores,
           1e-6 * run / UPDATES, 1e-6 * said / UPDATES, 100.0 * (said / run - 1.0));
    fflush(stdout);
    return fabs(said / run - 1.0);
}

/* predict [TURNS [CORES]] */
int main(int argc, char **argv)
{
    const uint32_t turns = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1,
                   most_cores = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    double off[MOST_CASES];
    uint32_t count = 0;

    if (turns < 1 || turns > MOST_TURNS || most_cores < 1 || NETWORKS * STRATEGIES * most_cores > MOST_CASES) {
        fprintf(stderr, "usage: predict [TURNS [CORES]]\n");
        return 2;
    }
    printf("| Network | Strategy | Cores | Measured, ms an update | Predicted | Off, %% "
           "|\n|---|---|---:|---:|---:|---:|\n");
    for (uint32_t network = 0; network < NETWORKS; network++)
        for (uint32_t strategy = 0; strategy < STRATEGIES; strategy++)
            for (uint32_t cores = 1; cores <= most_cores; cores++)
                off[count++] = try_case(network, strategy, cores, turns);
    qsort(off, count, sizeof *off, compare);
    printf("\n%u configurations: off by %.1f %% (median), %.1f %% (nine in ten), %.1f %% (worst)\n", count,
           100.0 * off[count / 2], 100.0 * off[count * 9 / 10], 100.0 * off[count - 1]);
    return 0;
}
