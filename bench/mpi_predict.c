/*
 * mpi_predict.c: compares predicted times of updates with measured ones, for ranks with one device and one core each
 * on one machine.
 *
 *     mpirun -n N --bind-to none build/bench/mpi_predict.openmpi [TURNS [NETWORK]]
 *
 * In a turn, the ranks train, then rank 0 measures the costs of calls while the others sleep, then the first two ranks
 * measure messages, and the ranks train again. A row's error is the median of the errors of its turns. Ranks bind
 * themselves, so the launcher must not.
 */
#define _GNU_SOURCE
#include <brigade/mpi.h>

#include <sched.h>
#include <time.h>

#include "predict_cases.h"

enum { WAIT_TAG = 1, PING_TAG = 2, PINGS = 200 };

typedef enum split { STAGES, REPLICAS, TENSOR } split;

static const char *const ways[] = {"a stage a rank", "a replica a rank", "tensor-parallel"};

static const struct {
    uint32_t network;
    split way;
} rows[] = {{0, STAGES}, {0, REPLICAS}, {1, STAGES}, {1, REPLICAS}, {2, STAGES}, {2, REPLICAS}, {2, TENSOR}};

enum { ROWS = sizeof rows / sizeof rows[0] };

typedef struct bench {
    bg_transport *carrier;
    uint32_t rank, rank_count, processors;
    cpu_set_t all, own; /* processors of all ranks, and of this one */
} bench;

static void choose_processors(bench *b)
{
    uint32_t at = 0;

    CPU_ZERO(&b->own);
    sched_getaffinity(0, sizeof b->all, &b->all);
    b->processors = (uint32_t)CPU_COUNT(&b->all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &b->all) && at++ == b->rank % b->processors)
            CPU_SET(cpu, &b->own);
}

static uint32_t find_cores(const bench *b)
{
    return b->processors < b->rank_count ? b->processors : b->rank_count;
}

/* Threads that a session starts inherit this binding. */
static void use_processors(const cpu_set_t *set)
{
    sched_setaffinity(0, sizeof *set, set);
}

/* Makes all other ranks sleep until rank 0 reaches this point, because a barrier of MPI would poll all the time. */
static void wait_for_first(const bench *b)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int has_come = 0;

    for (uint32_t i = 1; b->rank == 0 && i < b->rank_count; i++)
        MPI_Send(NULL, 0, MPI_BYTE, (int)i, WAIT_TAG, MPI_COMM_WORLD);
    while (b->rank > 0 && !has_come) {
        MPI_Iprobe(0, WAIT_TAG, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE);
        if (!has_come)
            nanosleep(&pause, NULL);
    }
    if (b->rank > 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 0, WAIT_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Makes the plan of a row. If `carrier` is NULL, the plan has the same devices in one process. */
static bg_plan *make_plan(const bench *b, size_t row, bg_transport *carrier)
{
    const bg_optimizer optimizer = bg_adamw(1e-3);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    char stages[32];
    bg_value loss;

    snprintf(stages, sizeof stages, "auto:%u", b->rank_count);
    options.execution.strategy = rows[row].way == STAGES ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE;
    options.execution.stages = rows[row].way == STAGES ? stages : NULL;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = UPDATES;
    options.execution.cores = 1;
    options.execution.transport = carrier;
    options.replicas.count = rows[row].way == STAGES ? 1 : b->rank_count;
    options.reporting.trace = carrier == NULL;
    options.reporting.trace_events = 1024;
    require(bg_graph_create(&graph, &error), &error);
    if (rows[row].way == TENSOR)
        bg_graph_set_mesh(graph, &(bg_mesh){.data = 1, .tensor_1 = b->rank_count, .tensor_2 = 1});
    loss = networks[rows[row].network].add(graph);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

/* Returns half the time of a message from rank 0 to rank 1 and back. */
static double ping_ns(const bench *b, char *bytes, int size)
{
    uint64_t start_ns = 0;

    for (int i = -10; i < PINGS && b->rank < 2; i++) {
        const int other = 1 - (int)b->rank;
        if (i == 0)
            start_ns = bgi_clock_ns();
        if (b->rank == 0)
            MPI_Send(bytes, size, MPI_BYTE, other, PING_TAG, MPI_COMM_WORLD);
        MPI_Recv(bytes, size, MPI_BYTE, other, PING_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (b->rank == 1)
            MPI_Send(bytes, size, MPI_BYTE, other, PING_TAG, MPI_COMM_WORLD);
    }
    return (double)(bgi_clock_ns() - start_ns) / PINGS / 2;
}

static bgi_link_model measure_link(const bench *b)
{
    enum { LARGE = 1 << 18 };
    char *bytes = calloc(1, LARGE);
    bgi_link_model link = {.latency_ns = ping_ns(b, bytes, 1)};

    link.bytes_per_ns = LARGE / ping_ns(b, bytes, LARGE);
    free(bytes);
    return link;
}

static double predict_ns(const bg_plan *plan, uint32_t cores, const bgi_link_model *link)
{
    bgi_call_costs costs = {.costs = NULL};
    bgi_machine_prices machine;
    bgi_prediction made;
    uint32_t counted, known;
    bg_error error = {0};
    double ns;

    require(bgi_call_costs_measure(&costs, plan, cores, true, &error), &error);
    require(bgi_call_costs_count(&costs, plan, &counted, &known, &error), &error);
    bgi_prices_of_machine(&costs, counted, known, &machine);
    require(bgi_prediction_make(plan, &machine.prices, cores, false, &made, &error), &error);
    require(bgi_prediction_add_ranks(&made, link, cores, &error), &error);
    ns = made.ranks_run_ns;
    bgi_prediction_clear(&made);
    bgi_call_costs_clear(&costs);
    return ns;
}

/* Returns the time of the slowest rank, and the longest delay. */
static timed_run run_ranks(rig *r)
{
    double most[2];
    timed_run run;

    MPI_Barrier(MPI_COMM_WORLD);
    run = time_run(r);
    most[0] = run.ns;
    most[1] = run.delay_ns;
    MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return (timed_run){.ns = most[0], .delay_ns = most[1]};
}

/* Returns the median time of calm runs; of all runs, if ranks share processors and so always wait for each other. */
static double find_time(const bench *b, const timed_run *runs, uint32_t count)
{
    double ns[MOST_RUNS];

    for (uint32_t i = 0; i < count; i++)
        ns[i] = runs[i].ns;
    return b->processors < b->rank_count ? bench_median(ns, count) : find_calm_ns(runs, count);
}

/* Returns whether the ranks can run the row: the heads of the GPT must divide evenly among tensor-parallel ranks. */
static bool can_run(const bench *b, size_t row)
{
    return rows[row].way != TENSOR || GPT_HEADS % b->rank_count == 0;
}

static double try_row(const bench *b, size_t row, uint32_t turns)
{
    double predicted[MOST_TURNS], off[MOST_TURNS], error;
    timed_run measured[MOST_RUNS];
    char name[64];
    bg_plan *plan, *rehearsal = make_plan(b, row, NULL);
    rig r;

    use_processors(&b->own);
    plan = make_plan(b, row, b->carrier);
    open_rig(&r, plan);
    run_ranks(&r);
    for (uint32_t i = 0; i < RUNS; i++)
        measured[i] = run_ranks(&r);
    for (uint32_t turn = 0; turn < turns; turn++) {
        const bgi_link_model link = measure_link(b);
        use_processors(&b->all);
        if (b->rank == 0)
            predicted[turn] = predict_ns(rehearsal, find_cores(b), &link);
        wait_for_first(b);
        use_processors(&b->own);
        for (uint32_t i = 0; i < RUNS; i++)
            measured[RUNS * (turn + 1) + i] = run_ranks(&r);
        if (b->rank == 0)
            off[turn] = predicted[turn] / find_time(b, measured + RUNS * turn, 2 * RUNS) - 1.0;
    }
    close_rig(&r);
    bg_plan_destroy(plan);
    bg_plan_destroy(rehearsal);
    if (b->rank > 0)
        return 0.0;
    error = bench_median(off, turns);
    snprintf(name, sizeof name, "%s, %u ranks", ways[rows[row].way], b->rank_count);
    print_row(networks[rows[row].network].name, name, find_cores(b),
              find_time(b, measured, RUNS * (turns + 1)) / UPDATES, bench_median(predicted, turns) / UPDATES, error);
    return fabs(error);
}

int main(int argc, char **argv)
{
    const uint32_t turns = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    const char *name = argc > 2 ? argv[2] : "";
    bg_error error = {0};
    double off[ROWS];
    uint32_t count = 0;
    bench b = {0};
    bool passes;

    require(bg_transport_mpi_begin(&b.carrier, &error), &error);
    b.rank = b.carrier->rank;
    b.rank_count = b.carrier->rank_count;
    choose_processors(&b);
    if (turns < 1 || turns > MOST_TURNS || b.rank_count < 2) {
        fprintf(stderr, "usage: mpirun -n N --bind-to none mpi_predict [TURNS [NETWORK]], with 2 ranks or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (b.rank == 0)
        print_head();
    for (size_t i = 0; i < ROWS; i++)
        if (strncmp(networks[rows[i].network].name, name, strlen(name)) == 0 && can_run(&b, i))
            off[count++] = try_row(&b, i, turns);
    passes = b.rank > 0 || count == 0 || print_verdict(off, count);
    bg_transport_mpi_end(b.carrier, 0);
    return !passes;
}
