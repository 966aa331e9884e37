/*
 * looped_bfs.c: generates a pipeline with several stages per device, each of which runs all its micro-batches before
 * the device continues with its next stage (Lamy-Poirier, "Breadth-First Pipeline Parallelism", 2023). It has the
 * bubble of "looped" and the memory of "gpipe"; the weights and gradients of a stage are needed once for all
 * micro-batches together. 4 stages on 2 devices, 2 micro-batches:
 *
 *     dev0 F0.0 F0.1 F2.0 F2.1 .    .    B2.0 B2.1 B0.0 B0.1
 *     dev1 .    F1.0 F1.1 F3.0 F3.1 B3.0 B3.1 B1.0 B1.1 .
 */
#include "schedule/schedule.h"

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bgi_schedule_emit_breadth_first(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_looped_bfs = {
    .name = "looped-bfs",
    .summary = "several stages a device, each with all its micro-batches at once (breadth first)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .placement = BG_PLACEMENT_LOOP,
};
