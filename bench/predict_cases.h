/*
 * predict_cases.h: runs the networks of predict.c and mpi_predict.c in sessions on zeros, and prints their times.
 */
#ifndef BGI_BENCH_PREDICT_CASES_H
#define BGI_BENCH_PREDICT_CASES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <brigade/session.h>

#include "core/clock.h"
#include "predict/call_costs.h"
#include "median.h"
#include "predict_networks.h"

enum { MICRO_BATCHES = 8, UPDATES = 2, RUNS = 9, MOST_TURNS = 16, MOST_RUNS = 2 * RUNS * MOST_TURNS };

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "predict: %s\n", error->message);
    exit(1);
}

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

/* ---- disturbances ---- */

/* Returns the median of the faster half of the runs, which other programs disturbed least. The rehearsal of a
 * prediction uses the faster half of its runs, too. */
static double find_calm_ns(const double *runs, uint32_t count)
{
    double sorted[MOST_RUNS];

    memcpy(sorted, runs, count * sizeof *runs);
    qsort(sorted, count, sizeof *sorted, bench_compare);
    return bench_median(sorted, (count + 1) / 2);
}

/* Processor time in seconds, since some time in the past. */
typedef struct processor_time {
    double at_s, all_s, own_s; /* the clock; of all programs; of this process */
} processor_time;

static processor_time read_processor_time(void)
{
    processor_time now = {.at_s = 1e-9 * (double)bgi_clock_ns()};
    double user = 0.0, nice = 0.0, kernel = 0.0;
    FILE *file = fopen("/proc/stat", "r");
    struct rusage own;

    if (file != NULL && fscanf(file, "cpu %lf %lf %lf", &user, &nice, &kernel) == 3)
        now.all_s = (user + nice + kernel) / (double)sysconf(_SC_CLK_TCK);
    if (file != NULL)
        fclose(file);
    getrusage(RUSAGE_SELF, &own);
    now.own_s = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
    return now;
}

/* Returns the share of the time of all processors that other programs took since `begin`. `own_s` is the time that the
 * processes of the benchmark took since then. */
static double find_others_share(const processor_time *begin, const processor_time *end, double own_s)
{
    const double whole_s = (end->at_s - begin->at_s) * (double)sysconf(_SC_NPROCESSORS_ONLN);

    return fmax(0.0, end->all_s - begin->all_s - own_s) / whole_s;
}

/* ---- the table ---- */

/* Returns whether the name of a case, such as "digits/gpipe/2", begins with one of `names`, or there are no `names`. */
static bool is_chosen(const char *name, int name_count, char **names)
{
    for (int i = 0; i < name_count; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return name_count <= 0;
}

static const double MEDIAN_GOAL = 0.03, WORST_GOAL = 0.10;

static void print_head(void)
{
    printf("| Network | Strategy | Cores | Measured, ms an update | Predicted | Others, %% | Off, %% |\n"
           "|---|---|---:|---:|---:|---:|---:|\n");
}

/* Prints the row of a case; `others` is the share of the processors' time that other programs took. */
static void print_row(const char *network, const char *strategy, uint32_t cores, double measured_ns,
                      double predicted_ns, double others, double off)
{
    printf("| %s | %s | %u | %.3f | %.3f | %.1f | %+.1f |\n", network, strategy, cores, 1e-6 * measured_ns,
           1e-6 * predicted_ns, 100.0 * others, 100.0 * off);
    fflush(stdout);
}

/* Prints the median and the worst of the errors, and returns whether they reach the goals. */
static bool print_verdict(double *off, uint32_t count)
{
    const double middle = bench_median(off, count); /* sorts */
    const bool passes = middle <= MEDIAN_GOAL && off[count - 1] <= WORST_GOAL;

    printf("\n%u configurations: off by %.1f %% (median), %.1f %% (nine in ten), %.1f %% (worst): %s\n", count,
           100.0 * middle, 100.0 * off[count * 9 / 10], 100.0 * off[count - 1], passes ? "pass" : "fail");
    return passes;
}

#endif
