/*
 * random.h: the counter-based generator behind every random number in Brigade.
 *
 * Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
 * bijection of 128-bit counters, which a 64-bit key selects. A random number is a function of (key, counter), never of
 * the numbers drawn before, so it is the same in every thread, process and schedule.
 *
 * Threads: these are pure functions, which any thread may call at any time.
 */
#ifndef BRIGADE_RANDOM_H
#define BRIGADE_RANDOM_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes four random words for a counter under a key. `out` and `counter` may be the same array. */
BG_API void bg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#ifdef __cplusplus
}
#endif

#endif
