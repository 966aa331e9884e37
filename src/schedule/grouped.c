/*
 * grouped.c: generates the pipeline in which every device runs a forward and then a backward in each step. It stores
 * about twice the activations of "interleaved", but balances a short forward against a long backward.
 *
 * The pipeline has N positions for the forward stages and N for the backward ones, in reverse; position s holds
 * micro-batch t - s at step t. If the loss is merged (PopTorch), the last stage's forward and backward are one
 * position. N = 3, loss merged:
 *
 *     step 0    1    2    3    4    5    6
 *     dev0 F0   F1   F2   F3   F4B0 F5B1 F6B2
 *     dev1 .    F0   F1   F2B0 F3B1 F4B2 ...
 *     dev2 .    .    F0B0 F1B1 F2B2 ...
 *
 * Stages that share a device take turns in the step, first with forwards in ascending order, then with backwards in
 * descending order.
 */
#include "schedule/schedule.h"

#include "core/error.h"

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t stages = problem->stage_count;
    const uint64_t last_position = 2 * (uint64_t)bgi_schedule_position_count(problem) - (problem->merges_loss ? 2 : 1);
    const uint64_t step_count = problem->micro_batch_count + last_position;

    if (!problem->training)
        return bgi_schedule_emit_forward_pipeline(problem, schedule, error);
    for (uint64_t step = 0; step < step_count; step++) {
        for (uint32_t stage = 0; stage < stages; stage++)
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_FORWARD, stage, step,
                                         bgi_schedule_position(problem, stage), 1, error));
        for (uint32_t stage = stages; stage-- > 0;)
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_BACKWARD, stage, step,
                                         last_position - bgi_schedule_position(problem, stage), 1, error));
    }
    return bgi_schedule_emit_updates(problem, schedule, error);
}

static uint32_t find_minimum(uint32_t stage_count, bool training)
{
    return training ? 2 * stage_count - 1 : stage_count;
}

const bg_schedule_generator bgi_schedule_grouped = {
    .name = "grouped",
    .summary = "pipeline; every device runs a forward and a backward in each step",
    .generate = generate,
    .minimum_micro_batches = find_minimum,
};
