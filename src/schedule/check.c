/*
 * check.c: implements the static part of the verifier, with rules for the list of a single device. verify.c checks
 * waiting between devices.
 *
 * The rules, for each micro-batch m and each stage or edge:
 *
 *     every action of the problem exactly once, on the device of its stage, and no other action
 *     instances of a row in ascending micro-batch order (gradients then accumulate alike in every strategy, slots form
 *         a ring and messages a queue)
 *     HOST_IN < F < HOST_OUT     F < R < B < W     last B, last W < REDUCE < U:0 < U:1 < ... < GATHER
 *     from < to                  for an edge on one device
 *     from < SEND, RECEIVE < to  for an edge between devices
 */
#include "schedule/verify.h"

#include "core/error.h"

#include <inttypes.h>

typedef struct checker {
    const bgi_schedule_layout *layout;
    const bg_schedule *schedule;
    uint32_t *positions;
    bg_error *error;
} checker;

static bg_status reject_unknown(const checker *check, uint32_t device, uint32_t position, const bg_action *action)
{
    const bg_schedule_problem *problem = check->layout->problem;
    char text[BGI_ACTION_TEXT_BYTES];

    return bg_error_set(check->error, BG_ERROR_INVALID,
                        "device %" PRIu32 ", action %" PRIu32 " (%s) is not part of the problem, which has %" PRIu32
                        " stages, %" PRIu32 " micro-batches, %" PRIu32 " edges and is %s",
                        device, position, bgi_action_text(action, text), problem->stage_count,
                        problem->micro_batch_count, problem->edge_count,
                        !problem->training        ? "inference"
                        : problem->splits_weights ? "training with separate weights"
                                                  : "training");
}

static bg_status place_actions(const checker *check, uint32_t device)
{
    const bgi_schedule_list *list = &check->schedule->lists[device];
    char text[BGI_ACTION_TEXT_BYTES];

    for (uint32_t position = 0; position < list->count; position++) {
        const bg_action *action = &list->actions[position];
        uint32_t row, *place;

        if ((action->kind == BG_ACTION_LOAD || action->kind == BG_ACTION_STORE) &&
            action->index < check->layout->problem->buffer_count)
            continue; /* buffers.c */
        if (!bgi_schedule_layout_find(check->layout, action, &row))
            return reject_unknown(check, device, position, action);
        if (check->layout->rows[row].device != device)
            return bg_error_set(check->error, BG_ERROR_INVALID,
                                "device %" PRIu32 ", action %" PRIu32 " (%s): stage %" PRIu32 " is on device %" PRIu32,
                                device, position, bgi_action_text(action, text), action->stage,
                                check->layout->rows[row].device);
        place = &check->positions[check->layout->rows[row].first + action->micro_batch];
        if (*place != 0)
            return bg_error_set(check->error, BG_ERROR_INVALID,
                                "device %" PRIu32 ", action %" PRIu32 " (%s) also occurs as action %" PRIu32
                                "; each action runs once a step",
                                device, position, bgi_action_text(action, text), *place - 1);
        *place = position + 1;
    }
    return BG_OK;
}

static bg_status check_row(const checker *check, uint32_t row)
{
    const bgi_schedule_row *info = &check->layout->rows[row];
    const uint32_t *places = &check->positions[info->first];
    char text[BGI_ACTION_TEXT_BYTES], before_text[BGI_ACTION_TEXT_BYTES];

    for (uint32_t micro_batch = 0; micro_batch < info->count; micro_batch++) {
        const bg_action action = bgi_schedule_layout_action(check->layout, row, micro_batch);
        if (places[micro_batch] == 0)
            return bg_error_set(check->error, BG_ERROR_INVALID,
                                "device %" PRIu32 " lacks %s; each action of the problem must occur once", info->device,
                                bgi_action_text(&action, text));
        if (micro_batch > 0 && places[micro_batch] < places[micro_batch - 1]) {
            const bg_action before = bgi_schedule_layout_action(check->layout, row, micro_batch - 1);
            return bg_error_set(check->error, BG_ERROR_INVALID,
                                "device %" PRIu32 ", action %" PRIu32 " (%s) comes before %s; the actions of a stage "
                                "or edge must go through the micro-batches in ascending order",
                                info->device, places[micro_batch] - 1, bgi_action_text(&action, text),
                                bgi_action_text(&before, before_text));
        }
    }
    return BG_OK;
}

/* Requires that each instance of `first` comes before that of `second`, which is on the same device; all instances of
 * `first` come before a `second` that runs once a step. Rows without instances impose no order. */
static bg_status require_order(const checker *check, uint32_t first, uint32_t second, const char *why)
{
    const bgi_schedule_row *a = &check->layout->rows[first], *b = &check->layout->rows[second];
    char first_text[BGI_ACTION_TEXT_BYTES], second_text[BGI_ACTION_TEXT_BYTES];

    for (uint32_t micro_batch = 0; a->count > 0 && micro_batch < b->count; micro_batch++) {
        const uint32_t first_batch = b->count == 1 ? a->count - 1 : micro_batch;
        const uint32_t first_place = check->positions[a->first + first_batch];
        const uint32_t second_place = check->positions[b->first + micro_batch];
        const bg_action first_action = bgi_schedule_layout_action(check->layout, first, first_batch);
        const bg_action second_action = bgi_schedule_layout_action(check->layout, second, micro_batch);

        if (first_place < second_place)
            continue;
        return bg_error_set(check->error, BG_ERROR_INVALID,
                            "device %" PRIu32 ", action %" PRIu32 " (%s) must come after %s, action %" PRIu32 ": %s",
                            b->device, second_place - 1, bgi_action_text(&second_action, second_text),
                            bgi_action_text(&first_action, first_text), first_place - 1, why);
    }
    return BG_OK;
}

static bg_status check_stage(const checker *check, uint32_t stage)
{
    const bgi_schedule_layout *layout = check->layout;
    const uint32_t forward = bgi_schedule_layout_row(layout, BG_ACTION_FORWARD, stage, 0);
    const uint32_t recompute = bgi_schedule_layout_row(layout, BG_ACTION_RECOMPUTE, stage, 0);
    const uint32_t backward = bgi_schedule_layout_row(layout, BG_ACTION_BACKWARD, stage, 0);
    const uint32_t weights = bgi_schedule_layout_row(layout, BG_ACTION_WEIGHTS, stage, 0);
    const uint32_t host_in = bgi_schedule_layout_row(layout, BG_ACTION_HOST_IN, stage, 0);
    const uint32_t host_out = bgi_schedule_layout_row(layout, BG_ACTION_HOST_OUT, stage, 0);
    const uint32_t reduce = bgi_schedule_layout_row(layout, BG_ACTION_REDUCE, stage, 0);
    const uint32_t gather = bgi_schedule_layout_row(layout, BG_ACTION_GATHER, stage, 0);

    BGI_TRY(require_order(check, host_in, forward, "the forward reads inputs from the host"));
    BGI_TRY(require_order(check, forward, host_out, "the forward makes outputs for the host"));
    BGI_TRY(require_order(check, forward, backward, "a backward needs its forward"));
    BGI_TRY(require_order(check, forward, recompute, "a stage runs again from the values that its forward stored"));
    BGI_TRY(require_order(check, recompute, backward, "a backward needs the values that its stage recomputes"));
    BGI_TRY(require_order(check, backward, weights, "W needs the gradients that B made"));
    BGI_TRY(require_order(check, backward, reduce, "replicas share the gradients of all micro-batches"));
    BGI_TRY(require_order(check, weights, reduce, "replicas share the gradients of all micro-batches"));
    for (uint32_t level = 0; layout->problem->training && level < layout->problem->update_level_count; level++) {
        const uint32_t update = bgi_schedule_layout_row(layout, BG_ACTION_UPDATE, stage, level);
        BGI_TRY(require_order(check, backward, update, "an update needs the gradients of all micro-batches"));
        BGI_TRY(require_order(check, weights, update, "an update needs the gradients of all micro-batches"));
        BGI_TRY(require_order(check, reduce, update, "an update needs the gradients of all replicas"));
        BGI_TRY(require_order(check, update, gather, "replicas share weights that are updated"));
        if (level > 0)
            BGI_TRY(require_order(check, bgi_schedule_layout_row(layout, BG_ACTION_UPDATE, stage, level - 1), update,
                                  "levels of the update run in order"));
    }
    return BG_OK;
}

static bg_status check_edge(const checker *check, uint32_t index)
{
    const bgi_schedule_edge_rows *edge = &check->layout->edges[index];
    bg_status status;

    if (edge->crosses) {
        status = require_order(check, edge->from, edge->send, "a value must be made before it is sent");
        if (status == BG_OK)
            status = require_order(check, edge->receive, edge->to, "a value must be received before it is read");
    } else {
        status = require_order(check, edge->from, edge->to, "a value must be made before it is read");
    }
    return status != BG_OK ? bg_error_context(check->error, status, "edge %" PRIu32, index) : BG_OK;
}

bg_status bgi_schedule_check(const bgi_schedule_layout *layout, const bg_schedule *schedule, uint32_t *positions,
                             bg_error *error)
{
    const checker check = {.layout = layout, .schedule = schedule, .positions = positions, .error = error};
    const bg_schedule_problem *problem = layout->problem;

    if (schedule->device_count != problem->device_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the schedule has %" PRIu32 " devices, but the problem has %" PRIu32,
                            schedule->device_count, problem->device_count);
    for (uint32_t device = 0; device < schedule->device_count; device++) {
        BGI_TRY(bgi_schedule_check_stop(problem, error));
        BGI_TRY(place_actions(&check, device));
    }
    for (uint32_t row = 0; row < layout->row_count; row++)
        BGI_TRY(check_row(&check, row));
    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        BGI_TRY(check_stage(&check, stage));
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        BGI_TRY(check_edge(&check, edge));
    return BG_OK;
}
