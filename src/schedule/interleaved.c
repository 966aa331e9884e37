/*
 * interleaved.c: generates the pipeline in which every device alternates one forward and one backward (1F1B; Harlap et
 * al., "PipeDream", 2018, in the synchronous form of Narayanan et al., 2021). Stage k stores N - k micro-batches.
 *
 * A micro-batch enters every second step; position s of 2N holds micro-batch m at step 2m + s. The forwards of a stage
 * fall on steps of one parity and its backwards on the other, so a device never has two actions in a step. N = 3:
 *
 *     step 0  1  2  3  4  5  6  7  8  9
 *     dev0 F0 .  F1 .  F2 B0 F3 B1 F4 B2
 *     dev1 .  F0 .  F1 B0 F2 B1 F3 B2 ...
 *     dev2 .  .  F0 B0 F1 B1 F2 B2 ...
 *
 * Two stages on one device would collide, which is an error in training.
 */
#include "schedule/schedule.h"

#include "core/error.h"

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint64_t last_position = 2 * (uint64_t)bgi_schedule_position_count(problem) - 1;
    const uint64_t step_count = 2 * (uint64_t)problem->micro_batch_count + last_position;

    if (!problem->training)
        return bgi_schedule_emit_forward_pipeline(problem, schedule, error);
    BGI_TRY(bgi_schedule_require_own_devices(problem, error));
    for (uint64_t step = 0; step < step_count; step++)
        for (uint32_t stage = 0; stage < problem->stage_count; stage++) {
            const uint64_t position = bgi_schedule_position(problem, stage);
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_FORWARD, stage, step, position, 2, error));
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_BACKWARD, stage, step, last_position - position,
                                         2, error));
        }
    return bgi_schedule_emit_updates(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_interleaved = {
    .name = "interleaved",
    .summary = "pipeline; every device alternates one forward and one backward (1F1B)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_stages,
};
