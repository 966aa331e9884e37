/*
 * order.c: has the few loops that generators consist of. It knows only compute actions; complete.c adds messages.
 *
 * Loops over stages also cover positions: stages are numbered along the data flow, and concurrent ones are on different
 * devices, whose lists are separate.
 */
#include "schedule/schedule.h"

#include "core/error.h"

bg_status bgi_schedule_emit_action(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                                   uint32_t stage, uint32_t micro_batch, bg_error *error)
{
    return bg_schedule_emit(schedule, problem->stage_devices[stage],
                            (bg_action){.kind = kind, .stage = stage, .micro_batch = micro_batch}, error);
}

bg_status bgi_schedule_emit_compute(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                                    uint32_t stage, uint32_t micro_batch, bg_error *error)
{
    BGI_TRY(bgi_schedule_emit_action(problem, schedule, kind, stage, micro_batch, error));
    if (kind == BG_ACTION_BACKWARD && problem->splits_weights)
        BGI_TRY(bgi_schedule_emit_action(problem, schedule, BG_ACTION_WEIGHTS, stage, micro_batch, error));
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

bg_status bgi_schedule_emit_oldest_weights(bg_schedule *schedule, uint32_t device, size_t *begin, bg_error *error)
{
    const bgi_schedule_list *list = &schedule->lists[device];

    for (; *begin < list->count; ++*begin) {
        const bg_action *action = &list->actions[*begin], *next = action + 1;
        if (action->kind != BG_ACTION_BACKWARD)
            continue;
        if (*begin + 1 < list->count && next->kind == BG_ACTION_WEIGHTS && next->stage == action->stage &&
            next->micro_batch == action->micro_batch)
            continue;
        ++*begin;
        return bg_schedule_emit(
            schedule, device,
            (bg_action){.kind = BG_ACTION_WEIGHTS, .stage = action->stage, .micro_batch = action->micro_batch}, error);
    }
    return BG_OK;
}

bg_status bgi_schedule_emit_updates(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return bgi_schedule_emit_update_levels(problem, schedule, 0, error);
}

bg_status bgi_schedule_emit_update_levels(const bg_schedule_problem *problem, bg_schedule *schedule, uint32_t first,
                                          bg_error *error)
{
    if (!problem->training)
        return BG_OK;
    for (uint32_t level = first; level < problem->update_level_count; level++)
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

bg_status bgi_schedule_emit_breadth_first(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t stages = problem->stage_count, micro_batches = problem->micro_batch_count;

    for (uint32_t stage = 0; stage < stages; stage++)
        for (uint32_t m = 0; m < micro_batches; m++)
            BGI_TRY(bgi_schedule_emit_compute(problem, schedule, BG_ACTION_FORWARD, stage, m, error));
    for (uint32_t back = 0; problem->training && back < stages; back++)
        for (uint32_t m = 0; m < micro_batches; m++)
            BGI_TRY(bgi_schedule_emit_compute(problem, schedule, BG_ACTION_BACKWARD, stages - 1 - back, m, error));
    return bgi_schedule_emit_updates(problem, schedule, error);
}

bg_status bgi_schedule_emit_forward_pipeline(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint64_t step_count = (uint64_t)problem->micro_batch_count + bgi_schedule_position_count(problem) - 1;

    for (uint64_t step = 0; step < step_count; step++)
        for (uint32_t stage = 0; stage < problem->stage_count; stage++)
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_FORWARD, stage, step,
                                         bgi_schedule_position(problem, stage), 1, error));
    return BG_OK;
}

uint32_t bgi_schedule_minimum_of_one(uint32_t stage_count, bool training)
{
    (void)stage_count;
    (void)training;
    return 1;
}

uint32_t bgi_schedule_minimum_of_stages(uint32_t stage_count, bool training)
{
    (void)training;
    return stage_count;
}
