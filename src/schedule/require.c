/*
 * require.c: checks the requirements that some strategies have in addition to those of every problem. Each error gives
 * the reason and the change to make.
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

bg_status bgi_schedule_require_own_devices(const bg_schedule_problem *problem, bg_error *error)
{
    uint32_t *stage_on = calloc(problem->device_count, sizeof *stage_on); /* stage + 1; 0: no stage yet */
    bg_status status = BG_OK;

    if (stage_on == NULL)
        return bgi_error_memory(error, "the stages of devices", problem->device_count * sizeof *stage_on);
    for (uint32_t stage = 0; status == BG_OK && stage < problem->stage_count; stage++) {
        uint32_t *other = &stage_on[problem->stage_devices[stage]];
        if (*other != 0)
            status = bg_error_set(error, BG_ERROR_INVALID,
                                  "stages %" PRIu32 " and %" PRIu32 " share device %" PRIu32
                                  "; in training this strategy needs a device per stage: merge the stages, or use "
                                  "\"looped\", \"grouped\" or \"sequential\"",
                                  *other - 1, stage, problem->stage_devices[stage]);
        *other = stage + 1;
    }
    free(stage_on);
    return status;
}

bg_status bgi_schedule_require_split_weights(const bg_schedule_problem *problem, bg_error *error)
{
    if (problem->splits_weights)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "this schedule fills idle time with the gradients of weights (W), but the problem has them in "
                        "B; set splits_weights, or use \"interleaved\" or \"looped\"");
}

static bg_status reject_fold(const bg_schedule_problem *problem, uint32_t a, uint32_t b, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_INVALID,
                        "stage %" PRIu32 " is on device %" PRIu32 ", stage %" PRIu32 " on device %" PRIu32
                        "; in training this strategy needs a V, with stages k and N - 1 - k together on a separate "
                        "device (0 1 2 2 1 0): place them so, or use \"looped\"",
                        a, problem->stage_devices[a], b, problem->stage_devices[b]);
}

bg_status bgi_schedule_require_fold(const bg_schedule_problem *problem, bg_error *error)
{
    const uint32_t stages = problem->stage_count;
    uint32_t *stage_on; /* the descending half of the V: stage + 1; 0: no stage yet */
    bg_status status = BG_OK;

    if (bgi_schedule_position_count(problem) != stages)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%" PRIu32 " stages are at %" PRIu32
                            " positions; this strategy takes no concurrent stages: put them one after the other, or "
                            "use \"interleaved\" or \"grouped\"",
                            stages, bgi_schedule_position_count(problem));
    if (stages % 2 != 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "there are %" PRIu32
            " stages, but this schedule has two on each device; make one more or one fewer, or use \"interleaved\"",
            stages);
    stage_on = calloc(problem->device_count, sizeof *stage_on);
    if (stage_on == NULL)
        return bgi_error_memory(error, "the stages of devices", problem->device_count * sizeof *stage_on);
    for (uint32_t stage = 0; status == BG_OK && stage < stages / 2; stage++) {
        uint32_t *other = &stage_on[problem->stage_devices[stage]];
        if (*other != 0)
            status = reject_fold(problem, *other - 1, stage, error);
        else if (problem->stage_devices[stages - 1 - stage] != problem->stage_devices[stage])
            status = reject_fold(problem, stage, stages - 1 - stage, error);
        *other = stage + 1;
    }
    free(stage_on);
    return status;
}
