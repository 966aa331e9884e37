/*
 * mpi_surrogate.c: shows an MPI program that trains inside its own ranks. Two rings of ranks solve the heat equation
 * with small explicit steps. One ring learns from its cells to make eight of these steps at once, while the other ring
 * continues to simulate. Then the other ring makes the large step and measures its error.
 *
 *     mpicc mpi_surrogate.c $(pkg-config --cflags --libs brigade) -lbrigade_mpi_openmpi -lm && mpirun -n 4 ./a.out
 */
#include <brigade.h>
#include <brigade/mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank has CELLS cells, and on each side copies of HALO cells of its neighbor, the reach of SMALL_STEPS steps. */
enum { CELLS = 64, SMALL_STEPS = 8, HALO = SMALL_STEPS, WIDTH = CELLS + 2 * HALO, STENCIL = 2 * HALO + 1 };
enum { FIELDS = 16, EPOCHS = 20, OTHER_STEPS = 200, LARGE_STEPS = 5, ROOT = 0 };
static const float conduction = 0.25f; /* k dt / dx^2 */

/* ---- the simulation ---- */

typedef struct ring {
    MPI_Comm comm;
    int rank, size;
} ring;

/* Reports an error and ends the program. MPI calls this function after an error on the program's communicators, so the
 * program need not check the results of MPI calls. */
static void report(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;

    MPI_Error_string(*code, text, &length);
    fprintf(stderr, "mpi_surrogate: %s\n", text);
    MPI_Abort(*comm, 1);
}

static ring make_ring(MPI_Comm comm)
{
    ring r = {.comm = comm};

    MPI_Comm_rank(comm, &r.rank);
    MPI_Comm_size(comm, &r.size);
    return r;
}

/* Sets heat that differs from cell to cell, and is the same for any number of ranks. */
static void begin_field(const ring *r, int number, float field[WIDTH])
{
    for (int i = 0; i < CELLS; i++) {
        uint32_t noise = (uint32_t)(r->rank * CELLS + i) * 2654435761u + (uint32_t)number * 40503u;
        noise = (noise ^ noise >> 15) * 2246822519u;
        noise = (noise ^ noise >> 13) * 3266489917u;
        field[HALO + i] = (float)(noise >> 8) / (1 << 23) - 1;
    }
}

static void exchange(const ring *r, int cells, float field[WIDTH])
{
    const int left = (r->rank + r->size - 1) % r->size, right = (r->rank + 1) % r->size;

    MPI_Sendrecv(field + HALO, cells, MPI_FLOAT, left, 0, field + HALO + CELLS, cells, MPI_FLOAT, right, 0, r->comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(field + HALO + CELLS - cells, cells, MPI_FLOAT, right, 1, field + HALO - cells, cells, MPI_FLOAT, left,
                 1, r->comm, MPI_STATUS_IGNORE);
}

static void small_steps(const ring *r, int steps, float field[WIDTH])
{
    while (steps-- > 0) {
        float left;
        exchange(r, 1, field);
        left = field[HALO - 1];
        for (int i = HALO; i < HALO + CELLS; i++) {
            const float here = field[i];
            field[i] += conduction * (left - 2 * here + field[i + 1]);
            left = here;
        }
    }
}

static void large_step(const ring *r, const float stencil[STENCIL], float field[WIDTH])
{
    float after[CELLS] = {0};

    exchange(r, HALO, field);
    for (int i = 0; i < CELLS; i++)
        for (int j = 0; j < STENCIL; j++)
            after[i] += stencil[j] * field[i + j];
    memcpy(field + HALO, after, sizeof after);
}

static double total_heat(const ring *r, const float field[WIDTH])
{
    double own = 0, sum;

    for (int i = HALO; i < HALO + CELLS; i++)
        own += (double)field[i];
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, r->comm);
    return sum;
}

/* ---- the training ---- */

static bg_error error;
static void check(bg_status status)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "mpi_surrogate: %s\n", error.message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Makes samples of this rank's cells: for each cell the STENCIL cells around it, and its heat after the small steps. A
 * run takes FIELDS micro-batches of each replica, [field][replica]; a rank fills in those of its own replica. */
static void make_samples(const ring *r, float *x, float *y)
{
    for (int number = 0; number < FIELDS; number++) {
        const int sample = (number * r->size + r->rank) * CELLS;
        float field[WIDTH];
        begin_field(r, number, field);
        exchange(r, HALO, field);
        for (int i = 0; i < CELLS; i++)
            memcpy(x + (size_t)(sample + i) * STENCIL, field + i, STENCIL * sizeof *field);
        small_steps(r, SMALL_STEPS, field);
        memcpy(y + sample, field + HALO, CELLS * sizeof *field);
    }
}

/* Trains on the ring, in which each rank has one replica. All ranks of the ring call this function, and each gets the
 * stencil. */
static void train(const ring *r, float stencil[STENCIL])
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, CELLS, STENCIL), y_type = bg_matrix(BG_FLOAT32, CELLS, 1);
    const bg_optimizer adam = bg_adam(0.01);
    const size_t samples = (size_t)FIELDS * (size_t)r->size * CELLS;
    float *x = malloc(samples * STENCIL * sizeof *x), *y = malloc(samples * sizeof *y);
    float *losses = malloc((size_t)r->size * sizeof *losses);
    bg_options options = bg_options_defaults();
    bg_transport *transport = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_weight weight;

    if (x == NULL || y == NULL || losses == NULL)
        check(bg_error_set(&error, BG_ERROR_MEMORY, "out of memory"));
    make_samples(r, x, y);
    check(bg_transport_mpi_create(r->comm, &transport, &error));
    check(bg_graph_create(&graph, &error));
    const bg_value around = bg_graph_input(graph, "x", &x_type), after = bg_graph_input(graph, "y", &y_type);
    const bg_value guess = bg_linear_layer(graph, "step", around, 1, false);
    const bg_value loss = bg_mse_loss(graph, "loss", guess, after, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    options.execution.transport = transport;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.device_iterations = FIELDS;
    options.execution.cores = 1;
    options.replicas.count = (uint32_t)r->size;
    check(bg_plan_create_training(graph, loss, &adam, &options, &plan, &error));
    check(bg_session_create(plan, NULL, &session, &error));
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        check(bg_session_run(session, (const void *[]){x, y}, (void *[]){losses}, &error));
        if (r->rank == ROOT && (epoch == 1 || epoch % 10 == 0))
            printf("epoch %2d: loss %.1e\n", epoch, (double)losses[0]);
    }
    check(bg_weights_find(bg_session_weights(session), "step.weight", &weight, &error));
    memcpy(stencil, weight.data, STENCIL * sizeof *stencil);
    bg_session_destroy(session), bg_plan_destroy(plan), bg_graph_destroy(graph);
    bg_transport_mpi_destroy(transport);
    free(x), free(y), free(losses);
}

/* ---- the program ---- */

/* Starts from a field that was not used for training, and prints the largest difference between large and small steps,
 * relative to the largest heat. */
static void measure(const ring *r, const float stencil[STENCIL])
{
    float exact[WIDTH], guess[WIDTH], own[2] = {0}, largest[2];

    begin_field(r, FIELDS, exact);
    memcpy(guess, exact, sizeof guess);
    small_steps(r, LARGE_STEPS * SMALL_STEPS, exact);
    for (int step = 0; step < LARGE_STEPS; step++)
        large_step(r, stencil, guess);
    for (int i = HALO; i < HALO + CELLS; i++) {
        own[0] = fmaxf(own[0], fabsf(guess[i] - exact[i]));
        own[1] = fmaxf(own[1], fabsf(exact[i]));
    }
    MPI_Reduce(own, largest, 2, MPI_FLOAT, MPI_MAX, ROOT, r->comm);
    if (r->rank == ROOT)
        printf("%d large steps differ from %d small ones by %.0e of the heat\n", LARGE_STEPS, LARGE_STEPS * SMALL_STEPS,
               (double)(largest[0] / largest[1]));
}

static void simulate(const ring *r, const char *when)
{
    float field[WIDTH];
    double before, after;

    begin_field(r, FIELDS + 1, field);
    before = total_heat(r, field);
    small_steps(r, OTHER_STEPS, field);
    after = total_heat(r, field);
    if (r->rank == ROOT)
        printf("%s: %d small steps on %d cells, heat is %s\n", when, OTHER_STEPS, r->size * CELLS,
               fabs(after - before) < 1e-2 ? "conserved" : "lost");
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler, now;
    MPI_Comm half;
    float stencil[STENCIL];
    int level;
    ring world, own;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_create_errhandler(report, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    world = make_ring(MPI_COMM_WORLD);
    if (world.size < 2 || level < MPI_THREAD_FUNNELED) {
        fprintf(stderr, "mpi_surrogate: needs 2 ranks and MPI_THREAD_FUNNELED\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const int trainers = world.size / 2;
    const bool is_trainer = world.rank < trainers;
    MPI_Comm_split(MPI_COMM_WORLD, is_trainer, world.rank, &half);
    MPI_Comm_set_errhandler(half, handler);
    own = make_ring(half);

    if (is_trainer)
        train(&own, stencil);
    else
        simulate(&own, "meanwhile");
    MPI_Bcast(stencil, STENCIL, MPI_FLOAT, ROOT, MPI_COMM_WORLD); /* world's rank 0 is a trainer */
    if (!is_trainer)
        measure(&own, stencil);
    MPI_Comm_get_errhandler(half, &now);
    MPI_Barrier(MPI_COMM_WORLD);
    simulate(&world, "afterward");
    if (world.rank == ROOT)
        printf("our error handler is %s\n", now == handler ? "in its place" : "gone");

    MPI_Errhandler_free(&now);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
