/*
 * looped.c: generates 1F1B with several stages per device ("virtual stages", the interleaved schedule of Narayanan et
 * al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021). With p devices and v
 * stages on each, stage k is on device k mod p. The ramps are v times shorter than with one large stage per device.
 *
 * Micro-batches come in rounds of p. A device runs its first stage for p micro-batches, then its second stage for the
 * same ones, and so on. Backward passes run in the same way, beginning with the device's last stage. The i-th device
 * (from 0) does 2 (p - 1 - i) + (v - 1) p forwards, then alternates forwards and backwards, then does the remaining
 * backwards. 4 stages on 2 devices, 4 micro-batches:
 *
 *     dev0 F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 ...
 *     dev1 .    F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 ...
 *
 * The paper requires a multiple of p micro-batches. For other numbers the order is the one for the next multiple,
 * without the missing micro-batches. If every action of an order finds its inputs, this remains true without some of
 * the micro-batches. With v = 1 this is 1F1B, which begins with half the number of forwards.
 *
 * With W separate (Qi et al., "Zero Bubble Pipeline Parallelism", 2023; PyTorch's interleaved zero bubble), the i-th
 * device begins with (p - 1 - i) + (v - 1) p forwards. Then it repeats a forward, a backward B and the W of the i-th
 * backward before it, and at the end does the remaining actions. Delayed W let the last devices finish their first
 * backwards earlier. With v = 1 this is zb-h1.
 *
 *     dev0 F0.0 F0.1 F2.0 F2.1 .    B2.0 W2.0 F0.2 B2.1 W2.1 F0.3 B0.0 ...
 *     dev1 .    F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 W3.0 F1.2 B1.0 W3.1 F1.3 ...
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct loops {
    uint32_t lane_count;   /* p */
    uint32_t loop_count;   /* v */
    uint32_t *lane_stages; /* by device: its v stages, ascending */
} loops;

static bg_status reject(const bg_schedule_problem *problem, const loops *l, uint32_t stage, bg_error *error)
{
    return bg_error_set(
        error, BG_ERROR_INVALID,
        "stage %" PRIu32 " is on device %" PRIu32 ", which is not allowed; with %" PRIu32 " stages on device %" PRIu32
        " this strategy needs the same number on each device, each %" PRIu32
        " positions after the previous one (stage k on device k mod %" PRIu32 "): place them so, or use \"looped-bfs\"",
        stage, problem->stage_devices[stage], l->loop_count, problem->stage_devices[0], l->lane_count, l->lane_count);
}

/* Checks that each device has v stages, and that its n-th stage is n * p positions after its first. */
static bg_status find_loops(const bg_schedule_problem *problem, loops *l, uint32_t *counts, bg_error *error)
{
    const uint32_t positions = bgi_schedule_position_count(problem);

    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        l->loop_count += problem->stage_devices[stage] == problem->stage_devices[0];
    l->lane_count = positions / l->loop_count;
    if (positions % l->loop_count != 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "device %" PRIu32 " has %" PRIu32 " stages of %" PRIu32
            " positions; this strategy needs the same number of stages on each device: change the number of stages "
            "or devices, or use \"looped-bfs\"",
            problem->stage_devices[0], l->loop_count, positions);
    l->lane_stages = calloc((size_t)problem->device_count * l->loop_count, sizeof *l->lane_stages);
    if (l->lane_stages == NULL)
        return bgi_error_memory(error, "the stages of devices", problem->device_count * sizeof *l->lane_stages);
    for (uint32_t stage = 0; stage < problem->stage_count; stage++) {
        const uint32_t device = problem->stage_devices[stage],
                       loop = bgi_schedule_position(problem, stage) / l->lane_count;
        uint32_t *stages = &l->lane_stages[(size_t)device * l->loop_count];
        if (counts[device] != loop || (loop > 0 && bgi_schedule_position(problem, stages[loop - 1]) + l->lane_count !=
                                                       bgi_schedule_position(problem, stage)))
            return reject(problem, l, stage, error);
        stages[loop] = stage;
        counts[device]++;
    }
    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        if (counts[problem->stage_devices[stage]] != l->loop_count)
            return reject(problem, l, stage, error);
    return BG_OK;
}

typedef bg_status (*emitter)(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                             uint32_t stage, uint32_t micro_batch, bg_error *error);

/* Emits the n-th forward, backward or W of a device, or nothing when its micro-batch does not exist. */
static bg_status emit_nth(const bg_schedule_problem *problem, bg_schedule *schedule, const loops *l,
                          const uint32_t *stages, bg_action_kind kind, emitter emit, uint64_t n, bg_error *error)
{
    const uint64_t round = (uint64_t)l->lane_count * l->loop_count;
    const uint32_t loop = (uint32_t)(n % round / l->lane_count);
    const uint64_t micro_batch = n / round * l->lane_count + n % l->lane_count;

    if (micro_batch >= problem->micro_batch_count)
        return BG_OK;
    return emit(problem, schedule, kind, stages[kind == BG_ACTION_FORWARD ? loop : l->loop_count - 1 - loop],
                (uint32_t)micro_batch, error);
}

static bg_status emit_device(const bg_schedule_problem *problem, bg_schedule *schedule, const loops *l,
                             const uint32_t *stages, bg_error *error)
{
    const uint64_t rounds = ((uint64_t)problem->micro_batch_count + l->lane_count - 1) / l->lane_count;
    const uint64_t total = rounds * l->lane_count * l->loop_count;
    const uint64_t behind = l->lane_count - 1 - bgi_schedule_position(problem, stages[0]);
    const uint64_t wanted = l->loop_count == 1 ? behind : 2 * behind + (uint64_t)(l->loop_count - 1) * l->lane_count;
    const uint64_t warm_up = !problem->training || wanted > total ? total : wanted;

    for (uint64_t n = 0; n < warm_up; n++)
        BGI_TRY(emit_nth(problem, schedule, l, stages, BG_ACTION_FORWARD, bgi_schedule_emit_compute, n, error));
    for (uint64_t n = 0; problem->training && n < total; n++) {
        if (warm_up + n < total)
            BGI_TRY(emit_nth(problem, schedule, l, stages, BG_ACTION_FORWARD, bgi_schedule_emit_compute, warm_up + n,
                             error));
        BGI_TRY(emit_nth(problem, schedule, l, stages, BG_ACTION_BACKWARD, bgi_schedule_emit_compute, n, error));
    }
    return BG_OK;
}

static bg_status emit_device_with_weights_apart(const bg_schedule_problem *problem, bg_schedule *schedule,
                                                const loops *l, const uint32_t *stages, bg_error *error)
{
    const uint64_t rounds = ((uint64_t)problem->micro_batch_count + l->lane_count - 1) / l->lane_count;
    const uint64_t total = rounds * l->lane_count * l->loop_count;
    const uint64_t lane = bgi_schedule_position(problem, stages[0]);
    const uint64_t wanted = l->lane_count - 1 - lane + (uint64_t)(l->loop_count - 1) * l->lane_count;
    const uint64_t warm_up = wanted > total ? total : wanted;

    for (uint64_t n = 0; n < warm_up; n++)
        BGI_TRY(emit_nth(problem, schedule, l, stages, BG_ACTION_FORWARD, bgi_schedule_emit_action, n, error));
    for (uint64_t n = 0; n < total + lane; n++) {
        if (warm_up + n < total)
            BGI_TRY(emit_nth(problem, schedule, l, stages, BG_ACTION_FORWARD, bgi_schedule_emit_action, warm_up + n,
                             error));
        if (n < total)
            BGI_TRY(emit_nth(problem, schedule, l, stages, BG_ACTION_BACKWARD, bgi_schedule_emit_action, n, error));
        if (n >= lane)
            BGI_TRY(
                emit_nth(problem, schedule, l, stages, BG_ACTION_WEIGHTS, bgi_schedule_emit_action, n - lane, error));
    }
    return BG_OK;
}

typedef bg_status (*device_emitter)(const bg_schedule_problem *problem, bg_schedule *schedule, const loops *l,
                                    const uint32_t *stages, bg_error *error);

static bg_status emit_devices(const bg_schedule_problem *problem, bg_schedule *schedule, device_emitter emit,
                              bg_error *error)
{
    loops l = {0};
    uint32_t *counts = calloc(problem->device_count, sizeof *counts); /* by device: the number of stages seen so far */
    bg_status status = BG_OK;

    if (counts == NULL)
        return bgi_error_memory(error, "the stages of devices", problem->device_count * sizeof *counts);
    BGI_TRY_CLEANUP(find_loops(problem, &l, counts, error));
    for (uint32_t device = 0; device < problem->device_count; device++)
        if (counts[device] > 0)
            BGI_TRY_CLEANUP(emit(problem, schedule, &l, &l.lane_stages[(size_t)device * l.loop_count], error));
    BGI_TRY_CLEANUP(bgi_schedule_emit_updates(problem, schedule, error));

cleanup:
    free(l.lane_stages);
    free(counts);
    return status;
}

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    return emit_devices(problem, schedule, emit_device, error);
}

static bg_status generate_zero_bubble(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    if (!problem->training)
        return emit_devices(problem, schedule, emit_device, error);
    BGI_TRY(bgi_schedule_require_split_weights(problem, error));
    return emit_devices(problem, schedule, emit_device_with_weights_apart, error);
}

const bg_schedule_generator bgi_schedule_looped = {
    .name = "looped",
    .summary = "1F1B with several stages on each device, so shorter ramps (Megatron's interleaved)",
    .generate = generate,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .placement = BG_PLACEMENT_LOOP,
};

const bg_schedule_generator bgi_schedule_looped_zb = {
    .name = "looped-zb",
    .summary = "loops with separate W: less idle time, the same memory (interleaved zero bubble)",
    .generate = generate_zero_bubble,
    .minimum_micro_batches = bgi_schedule_minimum_of_one,
    .placement = BG_PLACEMENT_LOOP,
    .splits_weights = true,
};
