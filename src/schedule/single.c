/*
 * single.c: runs everything on one device, one micro-batch after another. All other schedules must give results that
 * are bit-identical to this one's.
 *
 *     dev0 F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 ...        (cells: stage.micro-batch)
 */
#include "schedule/schedule.h"

#include <inttypes.h>

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    if (problem->device_count > 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the stages are spread over %" PRIu32
                            " devices, but this strategy has one; put every stage on device 0 of 1, or use "
                            "\"sequential\"",
                            problem->device_count);
    return bgi_schedule_emit_one_at_a_time(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_single = {
    .name = "single",
    .summary = "all stages on one device, one micro-batch at a time",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .placement = BG_PLACEMENT_ONE,
    .one_at_a_time = true,
};
