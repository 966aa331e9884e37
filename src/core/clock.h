/*
 * clock.h: declares the monotonic clock, which measures all durations, and a sleep.
 */
#ifndef BGI_CORE_CLOCK_H
#define BGI_CORE_CLOCK_H

#include <stdint.h>

/* Returns the nanoseconds of CLOCK_MONOTONIC; only differences have a meaning. */
uint64_t bgi_clock_ns(void);
double bgi_clock_s(void); /* returns the same time in seconds */
/* Sleeps for `ns` nanoseconds, or until the thread has handled a signal. */
void bgi_clock_sleep(uint64_t ns);

#endif
