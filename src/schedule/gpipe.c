/*
 * gpipe.c: runs all forwards, then all backwards (Huang et al., "GPipe: Efficient Training of Giant Neural Networks
 * using Pipeline Parallelism", 2019). The simplest pipeline: each stage keeps the activations of all micro-batches.
 * With N = 3 devices:
 *
 *     dev0 F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3
 *     dev1 .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .
 *     dev2 .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .
 *
 * The paper's figure runs backward from the last micro-batch to the first. Here every strategy sums gradients in
 * ascending order, which takes the same time.
 */
#include "schedule/schedule.h"

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bgi_schedule_emit_breadth_first(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_gpipe = {
    .name = "gpipe",
    .summary = "pipeline; all forwards, then all backwards (GPipe)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
};
