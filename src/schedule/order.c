/*
 * order.c: the few loops that generators are made of. Knows compute actions only: messages are added by complete.c.
 */
#include "schedule/schedule.h"

#include "core/error.h"

bg_status bgi_schedule_emit_compute(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                                    uint32_t stage, uint32_t micro_batch, bg_error *error)
{
    const uint32_t device = problem->stage_devices[stage];
    const bg_action action = {.kind = kind, .stage = stage, .micro_batch = micro_batch};
    const bg_action weights = {.kind = BG_ACTION_WEIGHTS, .stage = stage, .micro_batch = micro_batch};

    BGI_TRY(bg_schedule_emit(schedule, device, action, error));
    if (kind == BG_ACTION_BACKWARD && problem->splits_weights)
        BGI_TRY(bg_schedule_emit(schedule, device, weights, error));
    return BG_OK;
}

bg_status bgi_schedule_emit_at(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                               uint32_t stage, uint64_t step, uint64_t offset, uint64_t stride, bg_error *error)
{
    uint64_t micro_batch;

    if (step < offset || (step - offset) % stride != 0)
        return BG_OK;
    micro_batch = (step - offset) / stride;
    if (micro_batch >= problem->micro_batch_count)
        return BG_OK;
    return bgi_schedule_emit_compute(problem, schedule, kind, stage, (uint32_t)micro_batch, error);
}

bg_status bgi_schedule_emit_updates(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    if (!problem->training)
        return BG_OK;
    for (uint32_t level = 0; level < problem->update_level_count; level++)
        for (uint32_t stage = 0; stage < problem->stage_count; stage++)
            BGI_TRY(bg_schedule_emit(schedule, problem->stage_devices[stage],
                                     (bg_action){.kind = BG_ACTION_UPDATE, .stage = stage, .index = level}, error));
    return BG_OK;
}

bg_status bgi_schedule_emit_one_at_a_time(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t stages = problem->stage_count;

    for (uint32_t micro_batch = 0; micro_batch < problem->micro_batch_count; micro_batch++) {
        for (uint32_t stage = 0; stage < stages; stage++)
            BGI_TRY(bgi_schedule_emit_compute(problem, schedule, BG_ACTION_FORWARD, stage, micro_batch, error));
        for (uint32_t back = 0; problem->training && back < stages; back++)
            BGI_TRY(bgi_schedule_emit_compute(problem, schedule, BG_ACTION_BACKWARD, stages - 1 - back, micro_batch,
                                              error));
    }
    return bgi_schedule_emit_updates(problem, schedule, error);
}

bg_status bgi_schedule_emit_forward_pipeline(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint64_t step_count = (uint64_t)problem->micro_batch_count + problem->stage_count - 1;

    for (uint64_t step = 0; step < step_count; step++)
        for (uint32_t stage = 0; stage < problem->stage_count; stage++)
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_FORWARD, stage, step, stage, 1, error));
    return BG_OK;
}

uint32_t bgi_schedule_minimum_of_one(uint32_t stage_count, bool training)
{
    (void)stage_count;
    (void)training;
    return 1;
}
