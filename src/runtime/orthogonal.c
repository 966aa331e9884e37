/*
 * orthogonal.c: runs the Gram-Schmidt process in blocks of vectors that stay in a core's cache.
 *
 *     for each block of vectors:   | done | block | later vectors ...
 *         each vector of the block:  minus its parts along those before it in the block; to length 1
 *         each later vector:         minus its parts along the block's, one after the other; shared out to threads
 *
 * One pass leaves an error of the rounding unit times the condition number of the vectors. A second pass over its
 * result, whose condition number is nearly 1, leaves the rounding unit ("twice is enough").
 */
#include "runtime/orthogonal.h"

#include <math.h>
#include <stdbool.h>

#include "core/threads.h"

enum { BLOCK = 32, LANES = 8, MOST_THREADS = 64, PASSES = 2 };
static const double least_work = 1 << 22; /* the number of multiplications that justifies a thread */

/* Returns the inner product, from LANES independent sums, so that compilers can use vector instructions. */
static double dot(const double *x, const double *y, int64_t length)
{
    double sums[LANES] = {0.0}, sum = 0.0;
    int64_t i = 0;

    for (; i + LANES <= length; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += x[i + lane] * y[i + lane];
    for (; i < length; i++)
        sum += x[i] * y[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

static void remove_part(double *vector, const double *unit, int64_t length)
{
    const double part = dot(vector, unit, length);

    for (int64_t i = 0; i < length; i++)
        vector[i] -= part * unit[i];
}

/* The components along vectors block .. block_end - 1 that are subtracted from vectors first .. end - 1. */
typedef struct removal {
    double *vectors;
    int64_t length, block, block_end, first, end;
} removal;

static void *remove_parts(void *argument)
{
    const removal *r = argument;

    for (int64_t v = r->first; v < r->end; v++)
        for (int64_t u = r->block; u < r->block_end; u++)
            remove_part(r->vectors + v * r->length, r->vectors + u * r->length, r->length);
    return NULL;
}

static void remove_from_later(const removal *all, uint32_t threads)
{
    const double work = (double)(all->end - all->first) * (double)(all->block_end - all->block) * (double)all->length;
    const double most = work / least_work;
    const int64_t wanted = most < threads ? (int64_t)most : threads;
    const int64_t parts = wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : wanted;
    removal removals[MOST_THREADS];
    pthread_t helpers[MOST_THREADS];
    bool is_helped[MOST_THREADS] = {false};

    for (int64_t p = 0; p < parts; p++) {
        removals[p] = *all;
        removals[p].first = all->first + (all->end - all->first) * p / parts;
        removals[p].end = all->first + (all->end - all->first) * (p + 1) / parts;
        is_helped[p] = p > 0 && bgi_thread_create(&helpers[p], remove_parts, &removals[p]) == 0;
    }
    for (int64_t p = 0; p < parts; p++)
        if (!is_helped[p])
            remove_parts(&removals[p]);
    for (int64_t p = 0; p < parts; p++)
        if (is_helped[p])
            pthread_join(helpers[p], NULL);
}

static void normalize(double *vector, int64_t length)
{
    const double square = dot(vector, vector, length);

    for (int64_t i = 0; i < length && square > 0.0; i++)
        vector[i] /= sqrt(square);
}

static void run_pass(double *vectors, int64_t count, int64_t length, uint32_t threads)
{
    for (int64_t block = 0; block < count; block += BLOCK) {
        const int64_t end = count - block < BLOCK ? count : block + BLOCK;
        const removal later = {vectors, length, block, end, end, count};

        for (int64_t v = block; v < end; v++) {
            for (int64_t u = block; u < v; u++)
                remove_part(vectors + v * length, vectors + u * length, length);
            normalize(vectors + v * length, length);
        }
        remove_from_later(&later, threads);
    }
}

void bgi_orthonormalize(double *vectors, int64_t count, int64_t length, uint32_t threads)
{
    for (int pass = 0; pass < PASSES; pass++)
        run_pass(vectors, count, length, threads);
}
