/*
 * mpi_allreduce.c: compares the time of a sum over ranks with MPI_Allreduce of the same bytes, with one device per rank
 * and float32; the two take turns at each size. Brigade sums in the order of the ranks, so that results do not depend
 * on timing; MPI may sum in any order.
 *
 *     mpirun -n 2 build/bench/mpi_allreduce.openmpi [LARGEST_KB]
 */
#include <brigade/mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "transport/ranks.h"
#include "median.h"

enum { MOST_RANKS = 4096, MOST_TURNS = 101, LEAST_TURNS = 9, LARGEST_KB = 256 << 10 };
static const double TURN_SECONDS = 0.005,
                    SIZE_SECONDS = 2.0; /* the least time of a turn, and the approximate time of all turns of a size */
static const double GOAL = 0.9;

typedef struct bench {
    bgi_transport *transport;
    uint32_t rank, rank_count;
    float *data;
    size_t count;
} bench;

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "%s\n", error->message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- a transport between devices that only sum ---- */

static void raise_counter(void *user, bgi_counter *counter, uint64_t value, uint32_t device)
{
    (void)user, (void)device;
    atomic_store(&counter->value, value);
}

static void changed(void *user)
{
    (void)user;
}

static void told(void *user, uint32_t to, const bgi_note *note)
{
    (void)user, (void)to, (void)note;
}

static void lost(void *user, bg_status status, const char *why)
{
    (void)user, (void)status;
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static bgi_transport *open_transport(const bgi_ranks *ranks)
{
    static uint32_t members[MOST_RANKS];
    static bgi_device *devices[MOST_RANKS];
    static bgi_group group;
    bgi_transport_setup setup = {.device_count = ranks->carrier->rank_count,
                                 .group_count = 1,
                                 .ranks = ranks,
                                 .devices = devices,
                                 .groups = &group,
                                 .isa = bgi_cpu_isa(),
                                 .events = {.raise = raise_counter, .changed = changed, .told = told, .lost = lost}};
    bgi_transport *transport = NULL;
    bg_error error = {0};

    for (uint32_t i = 0; i < setup.device_count; i++)
        members[i] = i;
    group = (bgi_group){.size = setup.device_count, .members = members};
    require(bgi_transport_ranks.create(&setup, &transport, &error), &error);
    return transport;
}

/* ---- sums ---- */

static void wait_for(const bench *b, bgi_wait wait)
{
    while (atomic_load(&wait.counter->value) < wait.target)
        b->transport->type->progress(b->transport);
}

static void sum_ours(const bench *b)
{
    const bgi_exchange exchange = {.pattern = {.kind = BGI_PATTERN_SUM, .size = b->rank_count, .count = b->count},
                                   .dtype = BG_FLOAT32,
                                   .function = BG_REDUCE_SUM,
                                   .from = b->data,
                                   .to = b->data};

    bgi_exchange round;
    bgi_cut cut = {0};

    while (cut.exchange < 1) {
        bgi_exchange_cut(bgi_exchange_round_bytes(b->transport, 0), &exchange, 1, &cut, &round);
        wait_for(b, b->transport->type->offer(b->transport, 0, b->rank, &round, 1));
        bgi_exchange_run(b->transport, 0, b->rank, &round, 1);
        wait_for(b, b->transport->type->deliver(b->transport, 0, b->rank));
    }
}

static void sum_theirs(const bench *b)
{
    MPI_Allreduce(MPI_IN_PLACE, b->data, (int)b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Checks that a sum is right, before it is timed. */
static void check(const bench *b, void (*sum)(const bench *b), const char *who)
{
    const float expected = (float)b->rank_count * (float)(b->rank_count + 1) / 2.0F;

    for (size_t i = 0; i < b->count; i++)
        b->data[i] = (float)(b->rank + 1) * (float)(i % 7 + 1);
    sum(b);
    for (size_t i = 0; i < b->count; i++)
        if (b->data[i] != expected * (float)(i % 7 + 1)) {
            fprintf(stderr, "%s: element %zu of %zu is %g\n", who, i, b->count, (double)b->data[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    memset(b->data, 0, b->count * sizeof *b->data); /* sums of zeros do not grow */
}

/* Returns the seconds of one sum on the slowest rank. */
static double time_turn(const bench *b, void (*sum)(const bench *b), int times)
{
    double seconds;
    uint64_t start_ns;

    MPI_Barrier(MPI_COMM_WORLD);
    start_ns = bgi_clock_ns();
    for (int i = 0; i < times; i++)
        sum(b);
    seconds = (double)(bgi_clock_ns() - start_ns) * 1e-9 / times;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

/* Measures both sums in turns. Other load on the machine slows both measurements of a turn, so the result is the median
 * of the turns' ratios. Returns whether it reaches the goal. */
static bool compare(const bench *b)
{
    double ours[MOST_TURNS], theirs[MOST_TURNS], ratios[MOST_TURNS], once, ratio;
    int times, turns;

    check(b, sum_ours, "Brigade");
    check(b, sum_theirs, "MPI_Allreduce");
    once = time_turn(b, sum_ours, 3);
    times = once * 2 < TURN_SECONDS ? (int)(TURN_SECONDS / once) : 2;
    turns = (int)(SIZE_SECONDS / (2 * times * once));
    turns = turns > MOST_TURNS ? MOST_TURNS : turns < LEAST_TURNS ? LEAST_TURNS : turns;
    for (int turn = 0; turn < turns; turn++) {
        ours[turn] = time_turn(b, sum_ours, times);
        theirs[turn] = time_turn(b, sum_theirs, times);
        ratios[turn] = theirs[turn] / ours[turn];
    }
    ratio = bench_median(ratios, (size_t)turns);
    if (b->rank == 0)
        printf("| %zu kB | %.1f us | %.1f us | %.2f | %s |\n", b->count * sizeof *b->data >> 10,
               bench_median(ours, (size_t)turns) * 1e6, bench_median(theirs, (size_t)turns) * 1e6, ratio,
               ratio >= GOAL ? "pass" : "fail");
    fflush(stdout);
    return ratio >= GOAL;
}

int main(int argc, char **argv)
{
    const size_t largest = (argc > 1 ? strtoull(argv[1], NULL, 10) : LARGEST_KB) << 10;
    bg_transport *carrier = NULL;
    static uint32_t owners[MOST_RANKS];
    bgi_ranks ranks = {.owners = owners, .wait_limit_s = 60.0};
    bench b = {0};
    bg_error error = {0};
    bool passes = true;

    require(bg_transport_mpi_begin(&carrier, &error), &error);
    if (carrier->rank_count > MOST_RANKS || largest < 1024)
        return 2;
    for (uint32_t i = 0; i < carrier->rank_count; i++)
        owners[i] = i;
    ranks.carrier = carrier;
    b = (bench){open_transport(&ranks), carrier->rank, carrier->rank_count, malloc(largest), 0};
    if (b.data == NULL)
        return 1;
    if (b.rank == 0)
        printf("| %s, %u ranks | Brigade | MPI_Allreduce | ratio | goal %.2f |\n|---:|---:|---:|---:|---|\n",
               carrier->name, b.rank_count, GOAL);
    for (size_t bytes = 1024; bytes <= largest; bytes *= 2) {
        b.count = bytes / sizeof *b.data;
        passes = compare(&b) && passes;
    }
    free(b.data);
    b.transport->type->destroy(b.transport);
    bg_transport_mpi_end(carrier, 0);
    return b.rank == 0 && !passes;
}
