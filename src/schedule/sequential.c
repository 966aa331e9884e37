/*
 * sequential.c: runs one micro-batch at a time over the devices (TensorFlow for IPU: PipelineSchedule.Sequential). It
 * stores one set of activations per stage. It is for debugging, and for models that need the least memory.
 *
 *     dev0 F0 .  .  B0 F1 .  .  B1
 *     dev1 .  F0 B0 .  .  F1 B1 .
 */
#include "schedule/schedule.h"

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bgi_schedule_emit_one_at_a_time(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_sequential = {
    .name = "sequential",
    .summary = "one micro-batch at a time over the devices (TensorFlow for IPU)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .one_at_a_time = true,
};
