/*
 * interleaved.c: the pipeline in which every device alternates one forward and one backward (1F1B; Harlap et al.,
 * "PipeDream", 2018, in the synchronous form of Narayanan et al., 2021). Stage k stores N - k micro-batches.
 *
 * A micro-batch enters every second step; position s of 2N holds micro-batch m at step 2m + s. Forward positions of a
 * stage fall on steps of one parity and backward ones on the other, so a device never has two things to do. N = 3:
 *
 *     step 0  1  2  3  4  5  6  7  8  9
 *     dev0 F0 .  F1 .  F2 B0 F3 B1 F4 B2
 *     dev1 .  F0 .  F1 B0 F2 B1 F3 B2 ...
 *     dev2 .  .  F0 B0 F1 B1 F2 B2 ...
 *
 * Two stages on one device would collide: an error in training.
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

static bg_status reject_shared_devices(const bg_schedule_problem *problem, bg_error *error)
{
    uint32_t *stage_on = calloc(problem->device_count, sizeof *stage_on); /* stage + 1; 0: none yet */
    bg_status status = BG_OK;

    if (stage_on == NULL)
        return bgi_error_memory(error, "the stages of devices", problem->device_count * sizeof *stage_on);
    for (uint32_t stage = 0; status == BG_OK && stage < problem->stage_count; stage++) {
        uint32_t *other = &stage_on[problem->stage_devices[stage]];
        if (*other != 0)
            status = bg_error_set(error, BG_ERROR_INVALID,
                                  "stages %" PRIu32 " and %" PRIu32 " share device %" PRIu32
                                  "; in training this strategy needs a device per stage: merge the stages, or use "
                                  "\"grouped\" or \"sequential\"",
                                  *other - 1, stage, problem->stage_devices[stage]);
        *other = stage + 1;
    }
    free(stage_on);
    return status;
}

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t stages = problem->stage_count;
    const uint64_t last_position = 2 * (uint64_t)stages - 1;
    const uint64_t step_count = 2 * (uint64_t)problem->micro_batch_count + last_position;

    if (!problem->training)
        return bgi_schedule_emit_forward_pipeline(problem, schedule, error);
    BGI_TRY(reject_shared_devices(problem, error));
    for (uint64_t step = 0; step < step_count; step++)
        for (uint32_t stage = 0; stage < stages; stage++) {
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_FORWARD, stage, step, stage, 2, error));
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_BACKWARD, stage, step, last_position - stage, 2,
                                         error));
        }
    return bgi_schedule_emit_updates(problem, schedule, error);
}

static uint32_t find_minimum(uint32_t stage_count, bool training)
{
    (void)training;
    return stage_count;
}

const bg_schedule_generator bgi_schedule_interleaved = {
    .name = "interleaved",
    .summary = "pipeline; every device alternates one forward and one backward (1F1B)",
    .generate = generate,
    .minimum_micro_batches = find_minimum,
};
