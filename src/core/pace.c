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

/* Waits until the debt is paid or a processor is free. */
static void pay(bgi_pace *pace)
{
    uint64_t now_ns = bgi_clock_ns();

    while (pace->owed_ns > 0 && !pace->is_free(pace->user)) {
        const uint64_t before_ns = now_ns;
        bgi_clock_sleep(pace->owed_ns < LOOK_NS ? pace->owed_ns : LOOK_NS);
        now_ns = bgi_clock_ns();
        pace->owed_ns -= now_ns - before_ns < pace->owed_ns ? now_ns - before_ns : pace->owed_ns;
    }
}

void bgi_pace_wait(bgi_pace *pace)
{
    uint64_t used_ns, part_ns;

    if (pace->is_free == NULL)
        return;
    used_ns = pace->has_begun ? find_used_ns() - pace->used_ns : 0;
    if (pace->has_begun && used_ns < LEAST_NS && pace->owed_ns == 0)
        return;
    part_ns = used_ns * (BGI_PACE_SHARE - 1);
    pace->owed_ns += part_ns;
    pay(pace);
    /* If a debt is left, a processor is free, so this part costs the computation nothing. Earlier work did cost it. */
    pace->owed_ns -= part_ns < pace->owed_ns ? part_ns : pace->owed_ns;
    pace->has_begun = true;
    pace->used_ns = find_used_ns();
}
