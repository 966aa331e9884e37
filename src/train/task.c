/*
 * task.c: implements functions on tasks and calls that do not need the trainer.
 */
#include "train/trainer.h"

const char *bg_trainer_task_name(bg_trainer_task task)
{
    static const char *const names[BG_TRAINER_TASK_COUNT] = {"fit", "validate", "test", "predict"};

    return (uint32_t)task < BG_TRAINER_TASK_COUNT ? names[task] : "none";
}

uint64_t bg_trainer_call_valid(const bg_trainer_call *call, uint64_t index)
{
    const uint64_t replica = index % call->replicas, groups = call->replicas / call->input_group_size;
    const uint64_t group =
        call->input_grouping == BG_GROUPING_ORTHOGONAL ? replica % groups : replica / call->input_group_size;
    const uint64_t first = (index / call->replicas * groups + group) * call->micro_batch;
    const uint64_t left = first < call->valid_count ? call->valid_count - first : 0;

    return left < call->micro_batch ? left : call->micro_batch;
}
