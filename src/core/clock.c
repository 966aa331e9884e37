/*
 * clock.c: reads the monotonic clock.
 */
#include "core/clock.h"

#include <time.h>

uint64_t bgi_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double bgi_clock_s(void)
{
    return 1e-9 * (double)bgi_clock_ns();
}
