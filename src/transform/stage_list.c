/*
 * stage_list.c: implements the list of stages that stages.c and stage_text.c fill.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

void bgi_stages_clear(bgi_stages *stages)
{
    free(stages->stage_devices);
    free(stages->stage_positions);
    free(stages->stage_phases);
    free(stages->block_stages);
    memset(stages, 0, sizeof *stages);
}

static bool append(uint32_t **array, uint32_t count, uint32_t value)
{
    uint32_t *grown = realloc(*array, (count + 1) * sizeof *grown);

    if (grown == NULL)
        return false;
    *array = grown;
    grown[count] = value;
    return true;
}

bool bgi_stages_add(bgi_stages *stages, uint32_t device, uint32_t position, uint32_t phase)
{
    if (!append(&stages->stage_devices, stages->stage_count, device) ||
        !append(&stages->stage_positions, stages->stage_count, position) ||
        !append(&stages->stage_phases, stages->stage_count, phase))
        return false;
    stages->stage_count++;
    return true;
}
