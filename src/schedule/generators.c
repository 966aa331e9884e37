/*
 * generators.c: the table of strategies. A new one is a file like single.c and a line here.
 */
#include "schedule/schedule.h"

#include <string.h>

static const bg_schedule_generator *const generators[] = {
    &bgi_schedule_single,      &bgi_schedule_sharded,   &bgi_schedule_sequential, &bgi_schedule_grouped,
    &bgi_schedule_interleaved, &bgi_schedule_gpipe,     &bgi_schedule_looped,     &bgi_schedule_looped_bfs,
    &bgi_schedule_zb_h1,       &bgi_schedule_zb_h2,     &bgi_schedule_zb_v,       &bgi_schedule_v_half,
    &bgi_schedule_v_min,       &bgi_schedule_dualpipev, &bgi_schedule_phased,     &bgi_schedule_automatic,
};

enum { GENERATOR_COUNT = sizeof generators / sizeof generators[0] };

const bg_schedule_generator *bg_schedule_generator_at(uint32_t index)
{
    return index < GENERATOR_COUNT ? generators[index] : NULL;
}

const bg_schedule_generator *bg_schedule_generator_find(const char *name)
{
    for (uint32_t i = 0; name != NULL && i < GENERATOR_COUNT; i++)
        if (strcmp(generators[i]->name, name) == 0)
            return generators[i];
    return NULL;
}
