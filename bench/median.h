/*
 * median.h: computes the median of measurements.
 */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdlib.h>

static inline int bench_compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Sorts at least one value in ascending order, and returns the median: with an even count, the mean of the two values
 * in the middle. */
static inline double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, bench_compare);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

#endif
