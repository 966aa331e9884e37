/*
 * schedule_measure.c: counts the messages of a schedule and the values that it stores for the backward pass.
 */
#include "cli/schedule.h"

#include <stdlib.h>

#include "core/error.h"

bg_status schedule_measure(const bg_schedule *schedule, const bg_schedule_problem *problem,
                           const bg_schedule_timing *timing, schedule_measures *out, bg_error *error)
{
    schedule_measures measures = {.makespan = timing->makespan, .bubble = timing->bubble};
    uint64_t *kept_bytes = calloc(problem->device_count, sizeof *kept_bytes);

    measures.kept = calloc(problem->device_count, sizeof *measures.kept);
    if (measures.kept == NULL || kept_bytes == NULL) {
        free(measures.kept);
        free(kept_bytes);
        return bgi_error_memory(error, "the stash of devices", problem->device_count * sizeof *kept_bytes);
    }
    for (uint32_t index = 0; index < problem->edge_count; index++) {
        const bg_schedule_edge *edge = &problem->edges[index];
        const uint32_t device = problem->stage_devices[edge->to_stage];
        const uint64_t depth = bg_schedule_edge_depth(schedule, index);
        if (device != problem->stage_devices[edge->from_stage]) {
            measures.messages += problem->micro_batch_count;
            measures.message_bytes += (uint64_t)problem->micro_batch_count * edge->size_bytes;
        } else if (edge->from_stage == edge->to_stage) {
            measures.kept[device] += depth;
            kept_bytes[device] += depth * edge->size_bytes;
        }
    }
    for (uint32_t device = 0; device < problem->device_count; device++) {
        if (measures.kept[device] > measures.most_kept)
            measures.most_kept = measures.kept[device];
        if (kept_bytes[device] > measures.most_kept_bytes)
            measures.most_kept_bytes = kept_bytes[device];
    }
    free(kept_bytes);
    *out = measures;
    return BG_OK;
}

void schedule_measures_clear(schedule_measures *measures)
{
    free(measures->kept);
    *measures = (schedule_measures){.kept = NULL};
}
