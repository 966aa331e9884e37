/*
 * clock.c: reads the monotonic clock, and sleeps.
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

void bgi_clock_sleep(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    nanosleep(&time, NULL);
}
