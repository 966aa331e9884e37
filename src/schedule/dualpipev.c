/*
 * dualpipev.c: generates DualPipe cut in half: two stages on each device, placed as a V. Its steady state pairs a
 * forward of one stage with a backward of the other. So one of them computes while the other communicates (DeepSeek-AI,
 * "DeepSeek-V3 Technical Report", 2024, and its published code: DualPipeV). Device r of p, with stages D (down) and U
 * (up):
 *
 *     times              what (W right after its B unless said otherwise)
 *     2 (p - 1 - r)      F of D
 *     r + 1              F of D, F of U
 *     p - 1 - r          B of U, F of U
 *     m - 2 p + r + 1    F of D, B of U, F of U, B of D        the steady state
 *     p - 1 - r          B of U, F of U, B of D
 *     r + 1              B of U, B of D                        W put off from the middle on
 *     p - 1 - r          the oldest W that was put off, B of D without its own
 *     r + 1              the oldest W that was put off
 *
 * A device keeps the values of at most 2 p + 1 pairs of stage and micro-batch. The pattern needs at least 2 p
 * micro-batches. With fewer, the order is that of 2 p micro-batches without the missing ones.
 */
#include "schedule/schedule.h"

#include "core/error.h"

typedef struct emitter {
    const bg_schedule_problem *problem;
    bg_schedule *schedule;
    uint32_t stages[2];   /* D, U */
    uint32_t forwards[2]; /* the numbers emitted, including missing micro-batches */
    uint32_t backwards[2];
    size_t weights_begin;
    bg_error *error;
} emitter;

enum { DOWN, UP };

static bg_status emit_forward(emitter *e, int side)
{
    const uint32_t micro_batch = e->forwards[side]++;

    if (micro_batch >= e->problem->micro_batch_count)
        return BG_OK;
    return bgi_schedule_emit_action(e->problem, e->schedule, BG_ACTION_FORWARD, e->stages[side], micro_batch, e->error);
}

static bg_status emit_backward(emitter *e, int side, bool puts_weights_off)
{
    const uint32_t micro_batch = e->backwards[side]++;

    if (micro_batch >= e->problem->micro_batch_count)
        return BG_OK;
    if (puts_weights_off)
        return bgi_schedule_emit_action(e->problem, e->schedule, BG_ACTION_BACKWARD, e->stages[side], micro_batch,
                                        e->error);
    return bgi_schedule_emit_compute(e->problem, e->schedule, BG_ACTION_BACKWARD, e->stages[side], micro_batch,
                                     e->error);
}

static bg_status emit_weights(emitter *e)
{
    return bgi_schedule_emit_oldest_weights(e->schedule, e->problem->stage_devices[e->stages[DOWN]], &e->weights_begin,
                                            e->error);
}

static bg_status emit_ramp_up(emitter *e, uint32_t behind, uint32_t rank)
{
    for (uint32_t i = 0; i < 2 * behind; i++)
        BGI_TRY(emit_forward(e, DOWN));
    for (uint32_t i = 0; i <= rank; i++) {
        BGI_TRY(emit_forward(e, DOWN));
        BGI_TRY(emit_forward(e, UP));
    }
    for (uint32_t i = 0; i < behind; i++) {
        BGI_TRY(emit_backward(e, UP, false));
        BGI_TRY(emit_forward(e, UP));
    }
    return BG_OK;
}

static bg_status emit_steady_state(emitter *e, uint32_t behind, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        BGI_TRY(emit_forward(e, DOWN));
        BGI_TRY(emit_backward(e, UP, false));
        BGI_TRY(emit_forward(e, UP));
        BGI_TRY(emit_backward(e, DOWN, false));
    }
    for (uint32_t i = 0; i < behind; i++) {
        BGI_TRY(emit_backward(e, UP, false));
        BGI_TRY(emit_forward(e, UP));
        BGI_TRY(emit_backward(e, DOWN, false));
    }
    return BG_OK;
}

static bg_status emit_ramp_down(emitter *e, uint32_t behind, uint32_t rank)
{
    const uint32_t middle = (rank + 1) / 2;
    const bool is_odd = rank % 2 == 1;

    for (uint32_t i = 0; i <= rank; i++) {
        BGI_TRY(emit_backward(e, UP, is_odd ? i >= middle : i > middle));
        BGI_TRY(emit_backward(e, DOWN, i >= middle));
    }
    for (uint32_t i = 0; i < behind; i++) {
        BGI_TRY(emit_weights(e));
        BGI_TRY(emit_backward(e, DOWN, true));
    }
    for (uint32_t i = 0; i <= rank; i++)
        BGI_TRY(emit_weights(e));
    return BG_OK;
}

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t devices = problem->stage_count / 2;
    const uint32_t micro_batches = problem->micro_batch_count < 2 * devices ? 2 * devices : problem->micro_batch_count;

    if (!problem->training)
        return bgi_schedule_emit_forward_pipeline(problem, schedule, error);
    BGI_TRY(bgi_schedule_require_split_weights(problem, error));
    BGI_TRY(bgi_schedule_require_fold(problem, error));
    for (uint32_t rank = 0; rank < devices; rank++) {
        const uint32_t behind = devices - 1 - rank;
        emitter e = {.problem = problem,
                     .schedule = schedule,
                     .stages = {rank, problem->stage_count - 1 - rank},
                     .error = error};
        BGI_TRY(emit_ramp_up(&e, behind, rank));
        BGI_TRY(emit_steady_state(&e, behind, micro_batches - 2 * devices + rank + 1));
        BGI_TRY(emit_ramp_down(&e, behind, rank));
    }
    return bgi_schedule_emit_updates(problem, schedule, error);
}

const bg_schedule_generator bgi_schedule_dualpipev = {
    .name = "dualpipev",
    .summary = "a V of two stages a device, forwards of one paired with backwards of the other (DualPipeV)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_stages,
    .placement = BG_PLACEMENT_FOLD,
    .splits_weights = true,
};
