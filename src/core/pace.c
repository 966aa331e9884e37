/*
 * pace.c: sleeps between parts of the work, and checks every few milliseconds whether a processor is free.
 */
#include "core/pace.h"

#include <time.h>

#include "core/clock.h"

/* Each check interrupts the computation: with two checks a millisecond, steps took a tenth longer. If a part takes less
 * processor time than LEAST_NS, there is no sleep, and the time is added to that of the next part. */
enum { LOOK_NS = 8000000, LEAST_NS = 200000 };

/* Returns the processor time of the calling thread; 0 if the system does not count it. */
static uint64_t find_used_ns(void)
{
    struct timespec used;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void sleep_until_free(const bgi_pace *pace, uint64_t end_ns)
{
    for (uint64_t now_ns = bgi_clock_ns(); now_ns < end_ns && !pace->is_free(pace->user); now_ns = bgi_clock_ns()) {
        const uint64_t left_ns = end_ns - now_ns;
        bgi_clock_sleep(left_ns < LOOK_NS ? left_ns : LOOK_NS);
    }
}

void bgi_pace_wait(bgi_pace *pace)
{
    uint64_t used_ns;

    if (pace->is_free == NULL)
        return;
    used_ns = pace->has_begun ? find_used_ns() - pace->used_ns : 0;
    if (pace->has_begun && used_ns < LEAST_NS)
        return;
    if (used_ns > 0)
        sleep_until_free(pace, bgi_clock_ns() + used_ns * (BGI_PACE_SHARE - 1));
    pace->has_begun = true;
    pace->used_ns = find_used_ns();
}
