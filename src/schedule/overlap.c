/*
 * overlap.c: finds the largest number of ranges that overlap.
 */
#include "schedule/verify.h"

uint32_t bgi_schedule_count_overlap(const uint32_t *begins, const uint32_t *ends, uint32_t count)
{
    uint32_t most = 0, ended = 0;

    for (uint32_t begun = 0; begun < count; begun++) {
        while (ends[ended] < begins[begun])
            ended++;
        if (begun + 1 - ended > most)
            most = begun + 1 - ended;
    }
    return most;
}
