/*
 * zero_bubble.c: generates pipelines that fill idle time with W, which no other action waits for: ZB-H1 and ZB-H2 (Qi
 * et al., "Zero Bubble Pipeline Parallelism", 2023, section 2). A device at position i of p
 *
 *     does w forwards, then in turns: a backward B m, the W of micro-batch m - d, the next forward; then what is left
 *
 *                  w (forwards at first)   d (W behind B)   kept by every device
 *     zb-h1        p - i                   i                p micro-batches, as much as 1F1B's first device
 *     zb-h2        2 (p - i) - 1           2 i              2 p - 1
 *
 * A device keeps a micro-batch's values until its W. Delaying W lets the last devices finish their first backwards, for
 * which all other devices wait, earlier. zb-h1 for p = 3:
 *
 *     dev0 F0 F1 F2 .  .  B0 W0 F3 B1 W1 F4 B2 W2 ...
 *     dev1 .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 F4 ...
 *     dev2 .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 ...
 *
 * With F = B = W each device of zb-h1 is idle for p - 1 of 3 m + p - 1 steps. With at least 2 p - 1 micro-batches,
 * devices of zb-h2 are never idle between their first and last action. With fewer micro-batches the order is the same.
 */
#include "schedule/schedule.h"

#include "core/error.h"

static bg_status emit_stage(const bg_schedule_problem *problem, bg_schedule *schedule, uint32_t stage, uint64_t warm_up,
                            uint64_t delay, bg_error *error)
{
    const uint64_t micro_batches = problem->micro_batch_count;

    for (uint64_t m = 0; m < warm_up && m < micro_batches; m++)
        BGI_TRY(bgi_schedule_emit_action(problem, schedule, BG_ACTION_FORWARD, stage, (uint32_t)m, error));
    for (uint64_t m = 0; m < micro_batches + delay; m++) {
        if (m < micro_batches)
            BGI_TRY(bgi_schedule_emit_action(problem, schedule, BG_ACTION_BACKWARD, stage, (uint32_t)m, error));
        if (m >= delay)
            BGI_TRY(
                bgi_schedule_emit_action(problem, schedule, BG_ACTION_WEIGHTS, stage, (uint32_t)(m - delay), error));
        if (m + warm_up < micro_batches)
            BGI_TRY(
                bgi_schedule_emit_action(problem, schedule, BG_ACTION_FORWARD, stage, (uint32_t)(m + warm_up), error));
    }
    return BG_OK;
}

/* Emits zb-h1 (`depth` 1) or zb-h2 (`depth` 2). */
static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, uint64_t depth, bg_error *error)
{
    const uint64_t positions = bgi_schedule_position_count(problem);

    if (!problem->training)
        return bgi_schedule_emit_forward_pipeline(problem, schedule, error);
    BGI_TRY(bgi_schedule_require_split_weights(problem, error));
    BGI_TRY(bgi_schedule_require_own_devices(problem, error));
    for (uint32_t stage = 0; stage < problem->stage_count; stage++) {
        const uint64_t position = bgi_schedule_position(problem, stage);
        BGI_TRY(emit_stage(problem, schedule, stage, depth * (positions - position) - (depth - 1), depth * position,
                           error));
    }
    return bgi_schedule_emit_updates(problem, schedule, error);
}

static bg_status generate_h1(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return generate(problem, schedule, 1, error);
}

static bg_status generate_h2(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return generate(problem, schedule, 2, error);
}

static uint32_t find_minimum_h2(uint32_t stage_count, bool training)
{
    return training ? 2 * stage_count - 1 : stage_count;
}

const bg_schedule_generator bgi_schedule_zb_h1 = {
    .name = "zb-h1",
    .summary = "1F1B with separate W: a third of its idle time, the same memory (ZB-H1)",
    .generate = generate_h1,
    .minimum_micro_batches = bgi_schedule_minimum_of_stages,
    .splits_weights = true,
};

const bg_schedule_generator bgi_schedule_zb_h2 = {
    .name = "zb-h2",
    .summary = "1F1B with separate W: no idle time, twice the memory (ZB-H2)",
    .generate = generate_h2,
    .minimum_micro_batches = find_minimum_h2,
    .splits_weights = true,
};
