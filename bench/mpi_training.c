/*
 * mpi_training.c: measures how fast ranks of one core each train on one machine.
 *
 *     mpirun -n 2 --bind-to none build/bench/mpi_training.openmpi [--layers N] [--vocabulary N] [--turns N]
 *            [--only TEXT]
 *
 * Compares replicas, one on each rank, with one process that has the same replicas and uses one core for each rank. The
 * two take turns: while the process trains, the other ranks sleep. Each turn gives the ratio of its two times, and the
 * result is the median of these ratios. Both train with the same numbers, and their losses must be bit-identical.
 *
 * Pipelines and tensor parallelism are compared with a bound: the simulated time of a step if each device has a core.
 * All ranks measure all stages at the same time, each on its own core, and a stage costs the mean time on the core that
 * runs it in the pipeline. With tensor parallelism the slowest core counts. Messages have measured costs too. The cost
 * of a message is half the time of a ping-pong of MPI with the same number of bytes, in which the receiver waits. The
 * receiver's core copies the bytes, so the cost belongs to the receiving stage. A sum of a tensor-parallel layer costs
 * twice the time in which MPI by itself exchanges shares. Measurements take turns with training.
 *
 * Ranks bind themselves to cores, so the launcher must not bind them. The defaults of --layers and --vocabulary are the
 * numbers of GPT-2, 12 and 50257.
 */
#define _GNU_SOURCE
#include <brigade.h>
#include <brigade/mpi.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "plan/plan.h"
#include "profile/costs.h"
#include "runtime/record.h"
#include "median.h"

enum {
    MOST_RANKS = 64,
    MOST_TURNS = 64,
    IMAGES = 40,
    IMAGE_BYTES = 28 * 28,
    SEQUENCES = 4,
    LENGTH = 256,
    DIGITS_STEPS = 5,
    WAIT_TAG = 1,
    TRANSFER_TAG = 2,
    TRANSFERS = 15
};
static const double LEAST_S = 0.5, GOAL = 0.95; /* the least duration of a turn */

typedef enum split { REPLICAS, PIPELINED, TENSOR } split;

typedef struct row {
    const char *name;
    bool is_gpt;
    split way;
} row;

static const row rows[] = {
    {"digit network, a replica a rank", false, REPLICAS},
    {"digit network, a stage a rank", false, PIPELINED},
    {"GPT-2, a replica a rank", true, REPLICAS},
    {"GPT-2, a stage a rank", true, PIPELINED},
    {"GPT-2, tensor-parallel", true, TENSOR},
};

typedef struct bench {
    bg_transport *carrier;
    uint32_t rank, rank_count;
    long layers, vocabulary, turns;
    cpu_set_t all, own; /* processors of all ranks, and of this one */
} bench;

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "mpi_training: %s\n", error->message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);

    if (memory == NULL) {
        fprintf(stderr, "mpi_training: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* ---- processors ---- */

static void choose_processors(bench *b)
{
    cpu_set_t found;
    uint32_t taken = 0;

    CPU_ZERO(&b->all);
    CPU_ZERO(&b->own);
    CPU_ZERO(&found);
    sched_getaffinity(0, sizeof found, &found);
    for (int cpu = 0; cpu < CPU_SETSIZE && taken < b->rank_count; cpu++) {
        if (!CPU_ISSET(cpu, &found))
            continue;
        CPU_SET(cpu, &b->all);
        if (taken++ == b->rank)
            CPU_SET(cpu, &b->own);
    }
    if (taken == b->rank_count)
        return;
    if (b->rank == 0)
        fprintf(stderr, "mpi_training: %u ranks, and %u processors that a rank may use: start with --bind-to none\n",
                b->rank_count, taken);
    MPI_Abort(MPI_COMM_WORLD, 1);
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

/* ---- models ---- */

static bg_value build_digits(bg_graph *graph)
{
    bg_convnet_options options = bg_convnet_defaults();

    options.micro_batch = IMAGES;
    options.outputs = BG_CONVNET_LOSS;
    return bg_convnet_build(graph, &options).loss;
}

static uint32_t count_micro_batches(const row *of)
{
    return !of->is_gpt ? 10 : of->way == PIPELINED ? SEQUENCES : 1;
}

static bg_value build_gpt(const bench *b, bg_graph *graph, split way)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = b->layers;
    options.hidden = 768;
    options.heads = 12;
    options.sequence_length = LENGTH;
    options.vocabulary = b->vocabulary;
    options.micro_batch = way == PIPELINED ? 1 : way == REPLICAS ? SEQUENCES / 2 : SEQUENCES;
    options.dropout = 0.0;
    if (way == TENSOR)
        bg_graph_set_mesh(graph, &(bg_mesh){.data = 1, .tensor_1 = b->rank_count, .tensor_2 = 1});
    return bg_gpt_build(graph, &options).loss;
}

/* Makes the plan of a row. If `carrier` is NULL, the plan is for one process with `cores` cores. */
static bg_plan *make_plan(const bench *b, const row *of, bg_transport *carrier, uint32_t cores, bool traces)
{
    const bg_optimizer optimizer = bg_adamw(1e-4);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    char stages[32];
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error);
    loss = of->is_gpt ? build_gpt(b, graph, of->way) : build_digits(graph);
    require(bg_graph_check(graph, &error), &error);
    snprintf(stages, sizeof stages, "auto:%u", b->rank_count);
    options.execution.strategy = of->way == PIPELINED ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE;
    options.execution.stages = of->way == PIPELINED ? stages : NULL;
    options.execution.gradient_accumulation = count_micro_batches(of);
    options.execution.device_iterations = of->is_gpt ? 1 : DIGITS_STEPS;
    options.execution.transport = carrier;
    options.execution.cores = cores;
    options.replicas.count = of->way == PIPELINED ? 1 : b->rank_count;
    options.reporting.trace = traces;
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

/* ---- sessions ---- */

typedef struct side {
    bg_plan *plan;
    bg_session *session; /* NULL: this rank has no session */
    const void **inputs;
    void **outputs;
    size_t loss_bytes;
    int runs; /* the runs of a turn */
} side;

/* Makes data for an input. The numbers are arbitrary, but labels must be in range. */
static const void *make_input(const bench *b, const bg_stream *stream, bool is_gpt)
{
    const bool is_images = strcmp(stream->name, "images") == 0;
    uint8_t *data = allocate(stream->size_bytes + sizeof(int32_t));

    for (size_t i = 0; is_gpt && i < stream->size_bytes / sizeof(int32_t); i++)
        ((int32_t *)data)[i] = (int32_t)((i * 2654435761u + 17) % 1000003u % (size_t)b->vocabulary);
    for (size_t i = 0; !is_gpt && i < stream->size_bytes; i++)
        data[i] = is_images ? (uint8_t)(i * 2654435761u >> 13) : (uint8_t)(i * 7 % 10);
    return data;
}

static void open_side(const bench *b, const row *of, bg_plan *plan, side *s)
{
    bg_error error = {0};
    bg_stream stream;

    s->plan = plan;
    require(bg_session_create(plan, NULL, &s->session, &error), &error);
    s->inputs = allocate((bg_session_input_count(s->session) + 1) * sizeof *s->inputs);
    s->outputs = allocate((bg_session_output_count(s->session) + 1) * sizeof *s->outputs);
    for (uint32_t i = 0; i < bg_session_input_count(s->session); i++) {
        require(bg_session_input(s->session, i, &stream, &error), &error);
        s->inputs[i] = make_input(b, &stream, of->is_gpt);
    }
    require(bg_session_output(s->session, bg_session_find_output(s->session, "loss"), &stream, &error), &error);
    s->loss_bytes = stream.size_bytes;
    s->outputs[bg_session_find_output(s->session, "loss")] = allocate(stream.size_bytes);
}

static void close_side(side *s)
{
    for (uint32_t i = 0; s->session != NULL && i < bg_session_input_count(s->session); i++)
        free((void *)(uintptr_t)s->inputs[i]);
    for (uint32_t i = 0; s->session != NULL && i < bg_session_output_count(s->session); i++)
        free(s->outputs[i]);
    free(s->inputs);
    free(s->outputs);
    bg_session_destroy(s->session);
    bg_plan_destroy(s->plan);
}

static const void *find_losses(const side *s)
{
    return s->outputs[bg_session_find_output(s->session, "loss")];
}

/* Returns the seconds of a run on this rank. */
static double run(const side *s)
{
    const uint64_t begin_ns = bgi_clock_ns();
    bg_error error = {0};

    for (int i = 0; i < s->runs; i++)
        require(bg_session_run(s->session, s->inputs, s->outputs, &error), &error);
    return (double)(bgi_clock_ns() - begin_ns) * 1e-9 / s->runs;
}

/* ---- turns ---- */

static double find_slowest(double seconds)
{
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static double time_ranks(const bench *b, const side *s)
{
    use_processors(&b->own);
    MPI_Barrier(MPI_COMM_WORLD);
    return find_slowest(run(s));
}

static double time_process(const bench *b, const side *s)
{
    double seconds = 0.0;

    use_processors(&b->all);
    if (b->rank == 0)
        seconds = run(s);
    wait_for_first(b);
    return find_slowest(seconds);
}

/* ---- the least cost of messages ---- */

/* Returns the nanoseconds of an exchange of this number of bytes in a ring, or of a message between ranks 0 and 1. The
 * result is the median of several, with buffers that have been written before. */
static double time_transfer(const bench *b, size_t size_bytes, bool is_exchange)
{
    char *out = allocate(size_bytes), *in = allocate(size_bytes);
    const int next = (int)((b->rank + 1) % b->rank_count), last = (int)((b->rank + b->rank_count - 1) % b->rank_count);
    double ns[TRANSFERS];

    memset(out, 1, size_bytes);
    memset(in, 1, size_bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -2; i < TRANSFERS; i++) {
        const uint64_t begin_ns = bgi_clock_ns();
        if (is_exchange)
            MPI_Sendrecv(out, (int)size_bytes, MPI_BYTE, next, TRANSFER_TAG, in, (int)size_bytes, MPI_BYTE, last,
                         TRANSFER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!is_exchange && b->rank < 2) {
            const int other = 1 - (int)b->rank;
            if (b->rank == 0)
                MPI_Send(out, (int)size_bytes, MPI_BYTE, other, TRANSFER_TAG, MPI_COMM_WORLD);
            MPI_Recv(in, (int)size_bytes, MPI_BYTE, other, TRANSFER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (b->rank == 1)
                MPI_Send(out, (int)size_bytes, MPI_BYTE, other, TRANSFER_TAG, MPI_COMM_WORLD);
        }
        if (i >= 0)
            ns[i] = (double)(bgi_clock_ns() - begin_ns) / (is_exchange ? 1 : 2);
    }
    free(out);
    free(in);
    ns[0] = bench_median(ns, TRANSFERS);
    MPI_Bcast(ns, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return ns[0];
}

static void add_messages(const bench *b, const bg_schedule_problem *problem, bg_stage_cost *costs)
{
    for (uint32_t e = 0; e < problem->edge_count; e++) {
        const bg_schedule_edge *edge = &problem->edges[e];
        if (problem->stage_devices[edge->from_stage] == problem->stage_devices[edge->to_stage] || edge->size_bytes == 0)
            continue;
        *(edge->to_kind == BG_ACTION_FORWARD ? &costs[edge->to_stage].forward_ns
                                             : &costs[edge->to_stage].backward_ns) +=
            time_transfer(b, edge->size_bytes, false);
    }
}

/* Returns the time of the collectives of a step, on one device. In groups of n ranks each rank sends 2 (n - 1) shares;
 * a few bytes are sent whole in one turn. */
static double find_collectives_ns(const bench *b, const bg_plan *plan)
{
    double total_ns = 0.0;

    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++)
        for (uint32_t c = 0; c < plan->devices[0].instructions[i].call_count; c++) {
            const bgi_call *call = &plan->devices[0].instructions[i].calls[c];
            const size_t bytes = bg_type_size_bytes(&call->types[0]);
            double shares_ns, whole_ns;
            if (!call->is_collective || b->rank_count == 1)
                continue;
            shares_ns = 2 * (b->rank_count - 1) * time_transfer(b, bytes / b->rank_count + 1, true);
            whole_ns = (b->rank_count - 1) * time_transfer(b, bytes, true);
            total_ns += shares_ns < whole_ns ? shares_ns : whole_ns;
        }
    return total_ns;
}

/* Replaces this rank's costs by those of the cores that run the stages: the core of the stage's device, or the slowest
 * core if all ranks compute a part of each layer, because every layer waits for all of them. */
static void choose_costs(const bench *b, const row *of, const bg_schedule_problem *problem, bg_stage_cost *costs)
{
    for (uint32_t i = 0; i < problem->stage_count; i++) {
        if (of->way == TENSOR)
            MPI_Allreduce(MPI_IN_PLACE, &costs[i], sizeof costs[i] / sizeof(double), MPI_DOUBLE, MPI_MAX,
                          MPI_COMM_WORLD);
        else
            MPI_Bcast(&costs[i], sizeof costs[i], MPI_BYTE, (int)(problem->stage_devices[i] % b->rank_count),
                      MPI_COMM_WORLD);
    }
}

/* Returns the simulated time of a run with the current costs of its stages, on the same inputs. All ranks measure them
 * at the same time, because cores differ in speed. */
static double find_bound(const bench *b, const row *of, const side *traced)
{
    bg_stage_cost *costs = allocate(traced->plan->problem.stage_count * sizeof *costs);
    bg_schedule_problem problem = traced->plan->problem;
    bg_schedule_timing timing = {0};
    double seconds;
    bg_error error = {0};

    use_processors(&b->own);
    MPI_Barrier(MPI_COMM_WORLD);
    bgi_session_record(traced->session, true);
    run(traced);
    require(bgi_profile_mean_costs(traced->session, traced->plan, costs, &error), &error);
    choose_costs(b, of, &problem, costs);
    add_messages(b, &problem, costs);
    problem.costs = costs;
    problem.bytes_per_ns = 0.0;
    require(bg_schedule_simulate(traced->plan->schedule, &problem, &timing, &error), &error);
    seconds = (timing.makespan + find_collectives_ns(b, traced->plan)) * 1e-9 * traced->plan->iterations;
    bg_schedule_timing_clear(&timing);
    free(costs);
    return find_slowest(seconds);
}

/* Returns whether losses are bit-identical after the same number of runs. */
static bool have_equal_losses(const side *ranks, const side *process)
{
    return memcmp(find_losses(ranks), find_losses(process), ranks->loss_bytes) == 0;
}

static int choose_runs(const bench *b, side *ranks)
{
    double seconds;

    ranks->runs = 1;
    time_ranks(b, ranks); /* writes all memory */
    seconds = time_ranks(b, ranks);
    return seconds < LEAST_S ? (int)(LEAST_S / seconds) + 1 : 1;
}

/* Returns whether a row reaches the goal. */
static bool compare(const bench *b, const row *of)
{
    double ours[MOST_TURNS], theirs[MOST_TURNS], ratios[MOST_TURNS], ratio;
    side ranks = {0}, process = {0}, traced = {0};
    bool is_equal = true;

    use_processors(&b->own);
    open_side(b, of, make_plan(b, of, b->carrier, 1, false), &ranks);
    ranks.runs = choose_runs(b, &ranks);
    if (of->way == REPLICAS) {
        use_processors(&b->all);
        if (b->rank == 0) {
            open_side(b, of, make_plan(b, of, NULL, b->rank_count, false), &process);
            process.runs = 2;
            run(&process); /* as many updates as the ranks ran, so that the losses can be compared */
            process.runs = ranks.runs;
        }
        wait_for_first(b);
    } else {
        use_processors(&b->own);
        open_side(b, of, make_plan(b, of, NULL, 1, true), &traced);
        traced.runs = 2;
        run(&traced); /* as many updates as the ranks ran, because the time of kernels may depend on how many gradients
                         are zero */
        traced.runs = ranks.runs;
    }
    for (long turn = 0; turn < b->turns; turn++) {
        ours[turn] = time_ranks(b, &ranks);
        theirs[turn] = of->way == REPLICAS ? time_process(b, &process) : find_bound(b, of, &traced);
        ratios[turn] = theirs[turn] / ours[turn];
    }
    if (process.session != NULL)
        is_equal = have_equal_losses(&ranks, &process);
    ratio = bench_median(ratios, (size_t)b->turns);
    if (b->rank == 0)
        printf("| %s | %.1f ms | %s, %.1f ms | %.3f | %s%s |\n", of->name, bench_median(ours, (size_t)b->turns) * 1e3,
               of->way == REPLICAS ? "one process" : "simulated", bench_median(theirs, (size_t)b->turns) * 1e3, ratio,
               ratio >= GOAL ? "pass" : "fail", is_equal ? "" : ", other losses");
    fflush(stdout);
    close_side(&ranks);
    close_side(&process);
    close_side(&traced);
    MPI_Bcast(&ratio, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return ratio >= GOAL && is_equal;
}

/* ---- options ---- */

static void refuse(const char *option)
{
    fprintf(stderr,
            "mpi_training: %s: not known, or its value is missing or wrong; the file's head lists the options\n",
            option);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static const char *read_options(int argc, char **argv, bench *b)
{
    const char *only = "";

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const long number = strtol(value, NULL, 10);
        if (strcmp(argv[i], "--only") == 0)
            only = value;
        else if (strcmp(argv[i], "--layers") == 0 && number > 0)
            b->layers = number;
        else if (strcmp(argv[i], "--vocabulary") == 0 && number > 0)
            b->vocabulary = number;
        else if (strcmp(argv[i], "--turns") == 0 && number > 0 && number <= MOST_TURNS)
            b->turns = number;
        else
            refuse(argv[i]);
    }
    return only;
}

int main(int argc, char **argv)
{
    bench b = {.layers = 12, .vocabulary = 50257, .turns = 5};
    bg_error error = {0};
    bool passes = true;
    const char *only;

    require(bg_transport_mpi_begin(&b.carrier, &error), &error);
    only = read_options(argc, argv, &b);
    b.rank = b.carrier->rank;
    b.rank_count = b.carrier->rank_count;
    if (b.rank_count > MOST_RANKS)
        refuse("-n");
    choose_processors(&b);
    if (b.rank == 0)
        printf("| %s, %u ranks of a core | time | beside | ratio | goal %.2f |\n|---|---|---|---|---|\n",
               b.carrier->name, b.rank_count, GOAL);
    fflush(stdout);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(rows[i].name, only) != NULL)
            passes = compare(&b, &rows[i]) && passes;
    bg_transport_mpi_end(b.carrier, 0);
    return b.rank == 0 && !passes;
}
