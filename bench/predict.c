/*
 * predict.c: compares predicted times of updates with measured ones, for three networks under six strategies on one
 * core and on two. Each turn of a network consists of runs, new measurements of the costs of calls, a prediction, and
 * more runs. `bench/plan.sh` runs it.
 *
 *     predict [TURNS [CORES [NETWORK[/STRATEGY[/CORES]]...]]]
 */
#include "predict_cases.h"

enum { MOST_CASES = 64 };

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

enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

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

/* Prints the row of a case, and returns the absolute value of its error: the median over the turns, each compared with
 * the runs before and after its prediction. */
static double try_case(uint32_t network, uint32_t strategy, uint32_t cores, uint32_t turns)
{
    bg_plan *plan = make_plan(network, strategy, cores, false), *rehearsal = make_plan(network, strategy, 1, true);
    double predicted[MOST_TURNS], offs[MOST_TURNS], off;
    timed_run measured[MOST_RUNS];
    uint32_t count = 0;
    rig r;

    open_rig(&r, plan);
    run_ns(&r);
    for (uint32_t turn = 0; turn <= turns; turn++) {
        for (uint32_t i = 0; i < RUNS; i++)
            measured[count++] = time_run(&r);
        if (turn > 0)
            offs[turn - 1] = predicted[turn - 1] / find_calm_ns(measured + count - 2 * RUNS, 2 * RUNS) - 1.0;
        if (turn < turns)
            predicted[turn] = predict_ns(plan, rehearsal, cores);
    }
    close_rig(&r);
    bg_plan_destroy(rehearsal);
    bg_plan_destroy(plan);
    off = bench_median(offs, turns);
    print_row(networks[network].name, strategies[strategy].name, cores, find_calm_ns(measured, count) / UPDATES,
              bench_median(predicted, turns) / UPDATES, off);
    return fabs(off);
}

/* Returns whether the case's name, such as "digits/gpipe/2", begins with one of `names`, or there are no `names`. */
static bool is_chosen(uint32_t network, uint32_t strategy, uint32_t cores, int name_count, char **names)
{
    char text[96];

    snprintf(text, sizeof text, "%s/%s/%u", networks[network].name, strategies[strategy].name, cores);
    for (int i = 0; i < name_count; i++)
        if (strncmp(text, names[i], strlen(names[i])) == 0)
            return true;
    return name_count <= 0;
}

/* predict [TURNS [CORES [NAME...]]] */
int main(int argc, char **argv)
{
    const uint32_t turns = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1,
                   most_cores = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    double off[MOST_CASES];
    uint32_t count = 0;

    if (turns < 1 || turns > MOST_TURNS || most_cores < 1 || NETWORKS * STRATEGIES * most_cores > MOST_CASES) {
        fprintf(stderr, "usage: predict [TURNS [CORES [NETWORK[/STRATEGY[/CORES]]...]]]\n");
        return 2;
    }
    print_head();
    for (uint32_t network = 0; network < NETWORKS; network++)
        for (uint32_t strategy = 0; strategy < STRATEGIES; strategy++)
            for (uint32_t cores = 1; cores <= most_cores; cores++)
                if (is_chosen(network, strategy, cores, argc - 3, argv + 3))
                    off[count++] = try_case(network, strategy, cores, turns);
    return count == 0 || !print_verdict(off, count);
}
