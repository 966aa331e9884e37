/*
 * mpi_memory.c: measures how much memory a rank needs to start, and whether a long training makes it grow.
 *
 *     mpirun -n 8 build/bench/mpi_memory.openmpi start     a pipeline of 64 stages of 1 MiB: memory of a rank
 *     mpirun -n 2 build/bench/mpi_memory.openmpi growth    10,000 updates of a small network: memory early and late
 *
 * Each measurement prints one row of a table in markdown, and bench/mpi_memory.sh combines the rows. Numbers are those
 * of the rank with the most memory. Resident memory has three parts: anonymous memory (the heap, arenas, stacks),
 * memory that ranks share (messages inside a host), and mapped files (programs and libraries), which are not counted
 * here. Blocks are the memory that Brigade and MPI have allocated with malloc.
 *
 * `growth` also runs the same number of messages with only MPI, without Brigade, to separate the memory that MPI itself
 * keeps for each message from Brigade's. The exit code is 1 when Brigade's growth is above the limit.
 */
#define _GNU_SOURCE
#include <brigade.h>
#include <brigade/mpi.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STAGES = 64,
    WIDTH = 512, /* a layer has 1 MiB each of weights, gradients and velocities */
    SMALL_STAGES = 2,
    SMALL_REPLICAS = 2,
    SMALL_WIDTH = 64,
    CLASSES = 10,
    MICRO_BATCHES = 4,
    UPDATES_A_RUN = 20,
    EARLY = 1000,
    LATE = 10000,
    MOST_GROWTH_KB = 512
};

typedef struct memory {
    long anonymous_kb, shared_kb, blocks_kb;
} memory;

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "mpi_memory: %s\n", error->message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- memory ---- */

static memory look(void)
{
    const struct mallinfo2 heap = mallinfo2();
    FILE *file = fopen("/proc/self/status", "r");
    memory found = {.blocks_kb = (long)((heap.uordblks + heap.hblkhd) >> 10)};
    char line[256];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "RssAnon:", 8) == 0)
            found.anonymous_kb = strtol(line + 8, NULL, 10);
        if (strncmp(line, "RssShmem:", 9) == 0)
            found.shared_kb = strtol(line + 9, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static memory since(memory before)
{
    const memory now = look();

    return (memory){now.anonymous_kb - before.anonymous_kb, now.shared_kb - before.shared_kb,
                    now.blocks_kb - before.blocks_kb};
}

static memory find_most(memory own)
{
    long values[3] = {own.anonymous_kb, own.shared_kb, own.blocks_kb};

    MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    return (memory){values[0], values[1], values[2]};
}

/* ---- a network: linear layers, one for each stage, and a loss ---- */

typedef struct shape {
    uint32_t stages, replicas, width, updates;
} shape;

static bg_value build(const shape *of, bg_graph *graph)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 1, of->width), label_type = bg_vector(BG_UINT8, 1);
    bg_value x = bg_graph_input(graph, "x", &x_type), labels = bg_graph_input(graph, "labels", &label_type);
    bg_value loss = x;

    for (uint32_t i = 0; i < of->stages; i++) {
        const bool is_last = i + 1 == of->stages;
        char name[16], layer[16];
        snprintf(name, sizeof name, "B%u", i + 1);
        snprintf(layer, sizeof layer, "fc%u", i + 1);
        bg_block_begin(graph, name, BG_DEVICE_NONE);
        x = bg_linear_layer(graph, layer, x, of->width, true);
        if (is_last)
            loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -1);
        bg_block_end(graph);
    }
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static bg_plan *make_plan(const shape *of, bg_transport *carrier)
{
    bg_optimizer optimizer = bg_sgd(1e-3);
    bg_options options = bg_options_defaults();
    char stages[STAGES * 6] = "";
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value loss;

    for (uint32_t i = 0; i < of->stages; i++)
        snprintf(stages + strlen(stages), sizeof stages - strlen(stages), "%sB%u", i > 0 ? "|" : "", i + 1);
    optimizer.momentum = 0.9;
    options.execution.stages = stages;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = of->updates;
    options.execution.transport = carrier;
    options.execution.cores = 1;
    options.execution.wait_limit_s = 600.0; /* many ranks on few processors */
    options.replicas.count = of->replicas;
    require(bg_graph_create(&graph, &error), &error);
    loss = build(of, graph);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

/* ---- runs ---- */

typedef struct training {
    bg_session *session;
    const void **inputs;
    void **outputs;
} training;

static void *allocate(size_t size_bytes)
{
    void *data = calloc(1, size_bytes);

    if (data == NULL) {
        fprintf(stderr, "mpi_memory: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return data;
}

static void open_training(bg_session *session, training *out)
{
    bg_error error = {0};
    bg_stream stream;

    *out = (training){session, allocate((bg_session_input_count(session) + 1) * sizeof *out->inputs),
                      allocate((bg_session_output_count(session) + 1) * sizeof *out->outputs)};
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        uint8_t *data;
        require(bg_session_input(session, i, &stream, &error), &error);
        data = allocate(stream.size_bytes);
        for (size_t b = 0; strcmp(stream.name, "labels") == 0 && b < stream.size_bytes; b++)
            data[b] = (uint8_t)(b % CLASSES);
        for (size_t b = 0; strcmp(stream.name, "x") == 0 && b < stream.size_bytes / sizeof(float); b++)
            ((float *)data)[b] = (float)(b % 17) * 0.05F;
        out->inputs[i] = data;
    }
    for (uint32_t i = 0; i < bg_session_output_count(session); i++) {
        require(bg_session_output(session, i, &stream, &error), &error);
        out->outputs[i] = allocate(stream.size_bytes);
    }
}

static void close_training(training *t)
{
    for (uint32_t i = 0; i < bg_session_input_count(t->session); i++)
        free((void *)(uintptr_t)t->inputs[i]);
    for (uint32_t i = 0; i < bg_session_output_count(t->session); i++)
        free(t->outputs[i]);
    free(t->inputs);
    free(t->outputs);
}

static void train(const training *t, uint64_t until)
{
    bg_error error = {0};

    while (bg_session_step(t->session) < until)
        require(bg_session_run(t->session, t->inputs, t->outputs, &error), &error);
}

/* ---- the start ---- */

static void measure_start(bg_transport *carrier)
{
    static const shape large = {.stages = STAGES, .replicas = 1, .width = WIDTH, .updates = 1};
    const memory begun = look();
    memory mpi, planned, started, trained;
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;
    training t;

    mpi = find_most(begun);
    plan = make_plan(&large, carrier->rank_count > 1 ? carrier : NULL);
    planned = find_most(since(begun));
    require(bg_session_create(plan, NULL, &session, &error), &error);
    started = find_most(since(begun));
    open_training(session, &t);
    train(&t, 1);
    trained = find_most(since(begun));
    if (carrier->rank == 0)
        printf("| %s | %u | %.3g | %.1f | %.1f | %.1f | %.1f | %.1f |\n", carrier->name, carrier->rank_count,
               (double)STAGES / carrier->rank_count, (double)(mpi.anonymous_kb + mpi.shared_kb) / 1024.0,
               (double)planned.anonymous_kb / 1024.0, (double)(started.anonymous_kb - planned.anonymous_kb) / 1024.0,
               (double)(trained.anonymous_kb - started.anonymous_kb) / 1024.0,
               (double)(trained.shared_kb - planned.shared_kb) / 1024.0);
    close_training(&t);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

/* ---- growth ---- */

/* Sends the same number of messages as the updates, of about the same size, from each rank to the next one. Ranks that
 * share a processor sleep while they wait. */
static void exchange_alone(int updates)
{
    float out[SMALL_WIDTH] = {0}, in[SMALL_WIDTH];
    const struct timespec pause = {.tv_nsec = 10000};
    int rank, count, is_done = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    for (int i = 0; i < updates * MICRO_BATCHES * 2; i++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(in, SMALL_WIDTH, MPI_FLOAT, (rank + count - 1) % count, i % 8, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, SMALL_WIDTH, MPI_FLOAT, (rank + 1) % count, i % 8, MPI_COMM_WORLD, &requests[1]);
        while (MPI_Testall(2, requests, &is_done, statuses) == MPI_SUCCESS && !is_done)
            nanosleep(&pause, NULL);
    }
}

static bool measure_growth(bg_transport *carrier)
{
    static const shape small = {
        .stages = SMALL_STAGES, .replicas = SMALL_REPLICAS, .width = SMALL_WIDTH, .updates = UPDATES_A_RUN};
    bg_plan *plan = make_plan(&small, carrier->rank_count > 1 ? carrier : NULL);
    bg_session *session = NULL;
    memory early, late, alone;
    bg_error error = {0};
    training t;

    require(bg_session_create(plan, NULL, &session, &error), &error);
    open_training(session, &t);
    train(&t, EARLY);
    early = look();
    train(&t, LATE);
    late = find_most(since(early));
    close_training(&t);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    exchange_alone(EARLY);
    alone = look();
    exchange_alone(LATE - EARLY);
    alone = find_most(since(alone));
    early = find_most(early);
    if (carrier->rank == 0)
        printf("| %s | %u | %ld kB | %+ld kB | %+ld kB | %+ld kB | %+ld kB | %s |\n", carrier->name,
               carrier->rank_count, early.anonymous_kb, late.anonymous_kb, late.shared_kb, late.blocks_kb,
               alone.anonymous_kb, late.anonymous_kb - alone.anonymous_kb <= MOST_GROWTH_KB ? "pass" : "fail");
    return late.anonymous_kb - alone.anonymous_kb <= MOST_GROWTH_KB;
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    bg_transport *carrier = NULL;
    bg_error error = {0};
    bool passes = true, is_first;

    require(bg_transport_mpi_begin(&carrier, &error), &error);
    is_first = carrier->rank == 0;
    if (strcmp(what, "start") == 0) {
        measure_start(carrier);
    } else if (strcmp(what, "growth") == 0) {
        passes = measure_growth(carrier);
    } else {
        fprintf(stderr, "mpi_memory: `%s`: expected start or growth\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fflush(stdout);
    bg_transport_mpi_end(carrier, 0);
    return is_first && !passes;
}
