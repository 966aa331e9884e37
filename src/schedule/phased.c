/*
 * phased.c: runs one phase after another, each for all micro-batches (PopTorch's phased execution; the step of PopXL's
 * large language models). Between its phases a device can store weights, optimizer state and activations remotely. 3
 * phases of one stage each on one device, 2 micro-batches, loss merged:
 *
 *     dev0 F0.0 F0.1 F1.0 F1.1 F2.0 B2.0 F2.1 B2.1 U2 B1.0 B1.1 U1 B0.0 B0.1 U0
 *
 * With the loss merged, the last phase runs each micro-batch forward and then immediately backward. If each of its
 * positions has a separate device it runs as 1F1B, otherwise one micro-batch at a time. A stage's weights are updated
 * right after its last backward, while they are on the device. When the update has several levels or messages between
 * stages, all updates come at the end instead. The first of several levels does not read values of other stages (it
 * computes sums of squares of gradients, for example). If gradients are reduced in the backward pass, this first level
 * still runs right after the last backward, while the gradients are on the device too.
 *
 * An update that reads sums which replicas have just begun would have to wait for them. If the gradients stay on the
 * device in any case, such updates come a phase later, and the sums overlap with the next phase's backward:
 *
 *     dev0 ... B1.0 B1.1 REDUCE1 B0.0 B0.1 REDUCE0 U1:0 U0:0 ...
 *
 * Gradients that leave the device whenever it works on another stage would have to stay longer. In this case the
 * updates come immediately, unless the problem asks for the delay (keeps_for_sums).
 */
#include "schedule/schedule.h"

#include "core/error.h"

typedef struct phase {
    uint32_t begin, end; /* stages begin .. end - 1 */
} phase;

/* Returns the stages of the phase whose last stage is `last_stage`. */
static phase find_phase(const bg_schedule_problem *problem, uint32_t last_stage)
{
    phase found = {.begin = last_stage, .end = last_stage + 1};

    while (found.begin > 0 && bgi_schedule_phase(problem, found.begin - 1) == bgi_schedule_phase(problem, last_stage))
        found.begin--;
    return found;
}

/* Returns the number of levels of a stage's update that come right after its last backward. */
static uint32_t count_levels_at_once(const bg_schedule_problem *problem)
{
    bool has_messages = false;

    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        has_messages = has_messages || problem->edges[edge].from_kind == BG_ACTION_UPDATE;
    if (problem->update_level_count == 1)
        return has_messages ? 0 : 1;
    return problem->reduces_in_backward ? 1 : 0;
}

/* Whether updates that follow a backward are delayed until after the next phase's backward. An update that is delayed
 * as a whole keeps weights and optimizer state on the device with the gradients, so it is delayed only if these never
 * leave the device. */
static bool follow_later(const bg_schedule_problem *problem)
{
    bool has_variables = false, leave = false;

    for (uint32_t b = 0; b < problem->buffer_count; b++) {
        const bg_schedule_buffer *buffer = &problem->buffers[b];
        has_variables = has_variables || !buffer->per_micro_batch;
        leave = leave || (!buffer->per_micro_batch && buffer->residency == BG_RESIDENCY_VISIT);
    }
    if (!problem->reduces_gradients || !problem->reduces_in_backward || problem->is_strict)
        return false;
    return problem->update_level_count == 1 ? !has_variables : !leave || problem->keeps_for_sums;
}

static bg_status emit_updates_of(const bg_schedule_problem *problem, bg_schedule *schedule, phase p, bg_error *error)
{
    for (uint32_t stage = p.end; stage-- > p.begin;)
        BGI_TRY(bg_schedule_emit(schedule, problem->stage_devices[stage],
                                 (bg_action){.kind = BG_ACTION_UPDATE, .stage = stage}, error));
    return BG_OK;
}

static bg_status emit_backward_at(const bg_schedule_problem *problem, bg_schedule *schedule, uint32_t stage,
                                  uint64_t step, uint64_t offset, uint64_t stride, bool updates, bg_error *error)
{
    BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_BACKWARD, stage, step, offset, stride, error));
    if (!updates || step != offset + stride * (problem->micro_batch_count - 1))
        return BG_OK;
    return bg_schedule_emit(schedule, problem->stage_devices[stage],
                            (bg_action){.kind = BG_ACTION_UPDATE, .stage = stage}, error);
}

static bool shares_devices(const bg_schedule_problem *problem, phase p)
{
    for (uint32_t a = p.begin; a < p.end; a++)
        for (uint32_t b = a + 1; b < p.end; b++)
            if (problem->stage_devices[a] == problem->stage_devices[b])
                return true;
    return false;
}

/* Emits the pipeline of a phase: n positions forward (if `forward`), then n backward (if `backward`). */
static bg_status emit_phase(const bg_schedule_problem *problem, bg_schedule *schedule, phase p, bool forward,
                            bool backward, bg_error *error)
{
    const uint64_t first = bgi_schedule_position(problem, p.begin);
    const uint64_t positions = bgi_schedule_position(problem, p.end - 1) - first + 1;
    const uint64_t length = forward && backward ? 2 * positions : positions;
    const uint64_t stride = !(forward && backward) ? 1 : shares_devices(problem, p) ? length : 2;
    const bool updates = backward && count_levels_at_once(problem) > 0 && !follow_later(problem);

    for (uint64_t step = 0; step < stride * (problem->micro_batch_count - 1) + length; step++) {
        for (uint32_t stage = p.begin; forward && stage < p.end; stage++)
            BGI_TRY(bgi_schedule_emit_at(problem, schedule, BG_ACTION_FORWARD, stage, step,
                                         bgi_schedule_position(problem, stage) - first, stride, error));
        for (uint32_t stage = p.end; backward && stage-- > p.begin;)
            BGI_TRY(emit_backward_at(problem, schedule, stage, step,
                                     length - 1 - (bgi_schedule_position(problem, stage) - first), stride, updates,
                                     error));
    }
    return BG_OK;
}

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const phase last = find_phase(problem, problem->stage_count - 1);
    const bool is_merged = problem->training && problem->merges_loss;
    const bool lags = count_levels_at_once(problem) > 0 && follow_later(problem);
    phase first = last; /* the phase whose backward was emitted last */

    for (phase p = {0}; p.begin < problem->stage_count; p.begin = p.end) {
        while (p.end < problem->stage_count &&
               bgi_schedule_phase(problem, p.end) == bgi_schedule_phase(problem, p.begin))
            p.end++;
        BGI_TRY(emit_phase(problem, schedule, p, true, is_merged && p.end == last.end, error));
    }
    for (phase p = {.begin = is_merged ? last.begin : problem->stage_count, .end = problem->stage_count};
         problem->training && p.begin > 0;) {
        const phase later = p;
        p = find_phase(problem, p.begin - 1);
        BGI_TRY(emit_phase(problem, schedule, p, false, true, error));
        if (lags)
            BGI_TRY(emit_updates_of(problem, schedule, later, error));
        first = p;
    }
    if (lags && problem->training)
        BGI_TRY(emit_updates_of(problem, schedule, first, error));
    return bgi_schedule_emit_update_levels(problem, schedule, count_levels_at_once(problem), error);
}

const bg_schedule_generator bgi_schedule_phased = {
    .name = "phased",
    .summary = "phase after phase, each for all micro-batches (PopTorch)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .placement = BG_PLACEMENT_LOOP,
};
