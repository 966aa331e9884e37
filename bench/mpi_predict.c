/*
 * mpi_predict.c: compares predicted times of updates with measured ones, for ranks with one device and one core each
 * on one machine.
 *
 *     mpirun -n N --bind-to none build/bench/mpi_predict.openmpi [TURNS [NETWORK[/SETUP]]...]
 *
 * In a turn, the ranks train, then the first two ranks measure messages, then rank 0 measures the costs of calls while
 * the others sleep, and the ranks train again. A turn is repeated, at most three times, if other programs took
 * processor time, or if the second runs took longer or shorter than the first. A row's error is the median of the
 * errors of its turns. Ranks bind themselves to cores, so the launcher must not bind them.
 */
#define _GNU_SOURCE
#include <brigade/mpi.h>

#include <sched.h>
#include <time.h>

#include "predict_cases.h"

enum { WAIT_TAG = 1, PING_TAG = 2, PINGS = 200 };

typedef enum split { STAGES, REPLICAS, TENSOR_1, TENSOR_2 } split;

/* How a network is divided over the ranks. */
typedef struct setup {
    const char *name;
    split way;
    const char *schedule; /* of STAGES; NULL: the default */
    uint32_t rank_stages; /* of STAGES: the stages of each rank */
    bg_recompute recompute;
    bool offloads; /* the optimizer's state */
} setup;

static const setup setups[] = {
    {.name = "interleaved", .rank_stages = 1},
    {.name = "gpipe", .schedule = "gpipe", .rank_stages = 1},
    {.name = "zb-h1", .schedule = "zb-h1", .rank_stages = 1},
    {.name = "looped", .schedule = "looped", .rank_stages = 2},
    {.name = "recomputed", .rank_stages = 1, .recompute = BG_RECOMPUTE_STAGE},
    {.name = "replicas", .way = REPLICAS},
    {.name = "replicas, offloaded", .way = REPLICAS, .offloads = true},
    {.name = "tensor axis 1", .way = TENSOR_1},
    {.name = "tensor axis 2", .way = TENSOR_2},
};

enum { SETUPS = sizeof setups / sizeof setups[0], MOST_ATTEMPTS = 4 };
static const double MOST_UNREST = 0.03;

typedef struct bench {
    bg_transport *carrier;
    uint32_t rank, rank_count, processors;
    cpu_set_t all, own; /* processors of all ranks, and of this one */
} bench;

/* Gives each rank its own processor, or all of them if there are fewer processors than ranks: the system shares them
 * out more evenly. */
static void choose_processors(bench *b)
{
    uint32_t at = 0;

    CPU_ZERO(&b->own);
    sched_getaffinity(0, sizeof b->all, &b->all);
    b->processors = (uint32_t)CPU_COUNT(&b->all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &b->all) && (b->processors < b->rank_count || at++ == b->rank))
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

static bool is_tensor(const setup *to)
{
    return to->way == TENSOR_1 || to->way == TENSOR_2;
}

/* Makes the plan of a network. If `carrier` is NULL, the plan has the same devices in one process. */
static bg_plan *make_plan(const bench *b, uint32_t network, const setup *to, bg_transport *carrier)
{
    const bg_optimizer optimizer = bg_adamw(1e-3);
    const uint32_t count = b->rank_count;
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    char stages[32];
    bg_value loss;

    snprintf(stages, sizeof stages, "auto:%u", count * to->rank_stages);
    if (to->way == STAGES) {
        options.execution.strategy = BG_STRATEGY_PIPELINED;
        options.execution.schedule = to->schedule;
        options.execution.stages = stages;
        options.execution.device_count = count;
    } else {
        options.execution.strategy = BG_STRATEGY_SINGLE;
        options.replicas.count = count;
    }
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = UPDATES;
    options.execution.cores = 1;
    options.execution.transport = carrier;
    options.memory.recompute = to->recompute;
    options.memory.offload_optimizer = to->offloads;
    options.reporting.trace = carrier == NULL;
    options.reporting.trace_events = 1024;
    require(bg_graph_create(&graph, &error), &error);
    if (is_tensor(to))
        bg_graph_set_mesh(graph, &(bg_mesh){.data = 1,
                                            .tensor_1 = to->way == TENSOR_1 ? count : 1,
                                            .tensor_2 = to->way == TENSOR_2 ? count : 1});
    loss = networks[network].add(graph);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

/* Returns half the time of a message from rank 0 to rank 1 and back, as the median of several. */
static double ping_ns(const bench *b, char *bytes, int size)
{
    double times[PINGS];

    for (int i = -10; i < PINGS && b->rank < 2; i++) {
        const int other = 1 - (int)b->rank;
        const uint64_t start_ns = bgi_clock_ns();
        if (b->rank == 0)
            MPI_Send(bytes, size, MPI_BYTE, other, PING_TAG, MPI_COMM_WORLD);
        MPI_Recv(bytes, size, MPI_BYTE, other, PING_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (b->rank == 1)
            MPI_Send(bytes, size, MPI_BYTE, other, PING_TAG, MPI_COMM_WORLD);
        if (i >= 0)
            times[i] = 0.5 * (double)(bgi_clock_ns() - start_ns);
    }
    return b->rank < 2 ? bench_median(times, PINGS) : 1.0;
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

/* Returns the time of the slowest rank. */
static double run_ranks(rig *r)
{
    double ns;

    MPI_Barrier(MPI_COMM_WORLD);
    ns = run_ns(r);
    MPI_Allreduce(MPI_IN_PLACE, &ns, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return ns;
}

/* Returns whether the ranks can run the network with this setup. Only the GPT has layers that are divided over a mesh;
 * its heads must divide evenly. */
static bool can_run(const bench *b, uint32_t network, const setup *to)
{
    return !is_tensor(to) || (networks[network].add == add_gpt && HEADS % b->rank_count == 0);
}

/* One prediction, and the runs before and after it. */
typedef struct turn {
    double runs[2 * RUNS];
    double predicted_ns; /* of a run; only of rank 0 */
    double others;       /* share of the processors' time that other programs took meanwhile */
    double drift;        /* change of the runs' time, as a share; other virtual machines may cause it */
} turn;

static turn try_turn(const bench *b, rig *r, const bg_plan *rehearsal)
{
    const processor_time begin = read_processor_time();
    processor_time end;
    bgi_link_model link;
    double own_s;
    turn t = {.predicted_ns = 0.0};

    for (uint32_t i = 0; i < RUNS; i++)
        t.runs[i] = run_ranks(r);
    link = measure_link(b);
    use_processors(&b->all);
    if (b->rank == 0)
        t.predicted_ns = predict_ns(rehearsal, find_cores(b), &link);
    wait_for_first(b);
    use_processors(&b->own);
    for (uint32_t i = RUNS; i < 2 * RUNS; i++)
        t.runs[i] = run_ranks(r);
    end = read_processor_time();
    own_s = end.own_s - begin.own_s;
    MPI_Allreduce(MPI_IN_PLACE, &own_s, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    t.others = find_others_share(&begin, &end, own_s);
    MPI_Bcast(&t.others, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    t.drift = fabs(find_calm_ns(t.runs + RUNS, RUNS) / find_calm_ns(t.runs, RUNS) - 1.0);
    return t;
}

/* Tries a turn until nothing disturbs it. Returns the least disturbed one of all attempts. */
static turn try_calm_turn(const bench *b, rig *r, const bg_plan *rehearsal)
{
    turn best = try_turn(b, r, rehearsal);

    for (uint32_t i = 1; i < MOST_ATTEMPTS && fmax(best.others, best.drift) > MOST_UNREST; i++) {
        const turn next = try_turn(b, r, rehearsal);
        if (fmax(next.others, next.drift) < fmax(best.others, best.drift))
            best = next;
    }
    return best;
}

static double try_row(const bench *b, uint32_t network, const setup *to, uint32_t turns)
{
    double measured[MOST_TURNS], predicted[MOST_TURNS], off[MOST_TURNS], error, others = 0.0;
    char name[64];
    bg_plan *plan, *rehearsal = make_plan(b, network, to, NULL);
    rig r;

    use_processors(&b->own);
    plan = make_plan(b, network, to, b->carrier);
    open_rig(&r, plan);
    run_ranks(&r);
    for (uint32_t i = 0; i < turns; i++) {
        const turn t = try_calm_turn(b, &r, rehearsal);
        measured[i] = find_calm_ns(t.runs, 2 * RUNS);
        predicted[i] = t.predicted_ns;
        off[i] = predicted[i] / measured[i] - 1.0;
        others = fmax(others, t.others);
    }
    close_rig(&r);
    bg_plan_destroy(plan);
    bg_plan_destroy(rehearsal);
    if (b->rank > 0)
        return 0.0;
    error = bench_median(off, turns);
    snprintf(name, sizeof name, "%s, %u ranks", to->name, b->rank_count);
    print_row(networks[network].name, name, find_cores(b), bench_median(measured, turns) / UPDATES,
              bench_median(predicted, turns) / UPDATES, others, error);
    return fabs(error);
}

/* Tries all chosen rows; returns whether the errors reach the goals. */
static bool try_rows(const bench *b, uint32_t turns, int name_count, char **names)
{
    double off[NETWORKS * SETUPS];
    uint32_t count = 0;
    char text[96];

    if (b->rank == 0)
        print_head();
    for (uint32_t network = 0; network < NETWORKS; network++)
        for (uint32_t i = 0; i < SETUPS; i++) {
            snprintf(text, sizeof text, "%s/%s", networks[network].name, setups[i].name);
            if (can_run(b, network, &setups[i]) && is_chosen(text, name_count, names))
                off[count++] = try_row(b, network, &setups[i], turns);
        }
    return b->rank > 0 || count == 0 || print_verdict(off, count);
}

int main(int argc, char **argv)
{
    const uint32_t turns = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    bg_error error = {0};
    bench b = {0};
    bool passes;

    require(bg_transport_mpi_begin(&b.carrier, &error), &error);
    b.rank = b.carrier->rank;
    b.rank_count = b.carrier->rank_count;
    choose_processors(&b);
    if (turns < 1 || turns > MOST_TURNS || b.rank_count < 2) {
        fprintf(stderr,
                "usage: mpirun -n N --bind-to none mpi_predict [TURNS [NETWORK[/SETUP]]...], with 2 ranks or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    passes = try_rows(&b, turns, argc - 2, argv + 2);
    bg_transport_mpi_end(b.carrier, 0);
    return !passes;
}
