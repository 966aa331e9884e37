/*
 * sharded.c: runs stages on several devices, one micro-batch at a time (PopTorch's ShardedExecution). The order is that
 * of "sequential", which is TensorFlow's name for it. This order allows overlaps between devices (messages that leave
 * early, updates, all of inference); a strict problem has no overlaps.
 *
 *     dev0 F0 .  .  B0 F1 .  .  B1
 *     dev1 .  F0 B0 .  .  F1 B1 .
 */
#include "schedule/schedule.h"

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bgi_schedule_emit_one_at_a_time(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_sharded = {
    .name = "sharded",
    .summary = "stages on several devices, one micro-batch at a time (PopTorch)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .one_at_a_time = true,
};
