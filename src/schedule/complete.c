/*
 * complete.c: adds communication to the compute actions that a generator emitted.
 *
 *     F1.4   -->   HOST_IN1.4 RECEIVE1.4:e F1.4 SEND1.4:f HOST_OUT1.4
 *     B1.4   -->   R1.4 RECEIVE1.4:g B1.4 SEND1.4:h
 *
 *     needs  compute actions only
 *     adds   HOST_IN before F where the stage reads inputs, and HOST_OUT after F where it makes outputs;
 *            RECEIVE right before the first reader of an edge between devices, and SEND right after its producer;
 *            REDUCE where replicas sum gradients, after the stage's last B or W, or before its first U;
 *            GATHER after the last U of a stage where replicas share new weights;
 *            R before the messages that its B waits for, on stages that recompute, unless the generator emitted R;
 *            LOAD and STORE of remote buffers as transfers.c determines, between the groups of actions above
 *     keeps  the order of compute actions, and actions that do not belong to the problem, which the verifier reports
 *
 * RECEIVE is placed as late as possible, when the device has nothing to do until the message arrives. Sending never
 * waits, because the producer wrote into a slot of the receiver that was free when the producer started.
 */
#include "schedule/buffers.h"

#include "core/error.h"

#include <stdlib.h>

/* Returns, by stage, whether it recomputes although the generator has emitted no R for it; NULL when memory is out. */
static bool *find_silent_recomputes(const bg_schedule *schedule, const bg_schedule_problem *problem)
{
    bool *silent = calloc(problem->stage_count, sizeof *silent);

    for (uint32_t stage = 0; silent != NULL && stage < problem->stage_count; stage++)
        silent[stage] = bgi_schedule_stage_recomputes(problem, stage);
    for (uint32_t device = 0; silent != NULL && device < schedule->device_count; device++)
        for (size_t i = 0; i < schedule->lists[device].count; i++) {
            const bg_action *action = &schedule->lists[device].actions[i];
            if (action->kind == BG_ACTION_RECOMPUTE && action->stage < problem->stage_count)
                silent[action->stage] = false;
        }
    return silent;
}

static bg_status emit_messages(const bgi_schedule_layout *layout, bg_schedule *schedule, uint32_t device,
                               const bgi_schedule_incidence *incidence, uint32_t row, uint32_t micro_batch,
                               bg_error *error)
{
    const bool is_receive = incidence == &layout->to;

    for (uint32_t i = incidence->begin[row]; i < incidence->begin[row + 1]; i++) {
        const bgi_schedule_edge_rows *edge = &layout->edges[incidence->edges[i]];
        if (edge->crosses)
            BGI_TRY(bg_schedule_emit(
                schedule, device,
                bgi_schedule_layout_action(layout, is_receive ? edge->receive : edge->send, micro_batch), error));
    }
    return BG_OK;
}

static bool adds_gradients(const bg_action *action)
{
    return action->kind == BG_ACTION_BACKWARD || action->kind == BG_ACTION_WEIGHTS;
}

/* Sets last[stage] to the place of the stage's last B or W in a device's list, after which its gradients are final. */
static void find_last_backwards(const bg_schedule_problem *problem, const bgi_schedule_list *compute, size_t *last)
{
    for (size_t i = 0; i < compute->count; i++)
        if (adds_gradients(&compute->actions[i]) && compute->actions[i].stage < problem->stage_count)
            last[compute->actions[i].stage] = i;
}

static bool reduces_before(const bg_schedule_problem *problem, const bg_action *action)
{
    return problem->reduces_gradients && !problem->reduces_in_backward && action->kind == BG_ACTION_UPDATE &&
           action->index == 0;
}

static bg_status emit_surrounded(const bgi_schedule_layout *layout, bg_schedule *schedule, uint32_t device,
                                 const bgi_schedule_list *compute, const size_t *last_backwards, size_t at,
                                 bg_error *error)
{
    const bg_action *action = &compute->actions[at];
    const bool is_forward = action->kind == BG_ACTION_FORWARD;
    bg_action added = {.stage = action->stage, .micro_batch = action->micro_batch};
    uint32_t row;

    if (!bgi_schedule_layout_find(layout, action, &row))
        return bg_schedule_emit(schedule, device, *action, error);
    added.kind = BG_ACTION_HOST_IN;
    if (is_forward && bgi_schedule_stage_has_host_in(layout->problem, action->stage))
        BGI_TRY(bg_schedule_emit(schedule, device, added, error));
    added.kind = BG_ACTION_REDUCE;
    if (reduces_before(layout->problem, action))
        BGI_TRY(bg_schedule_emit(schedule, device, added, error));
    BGI_TRY(emit_messages(layout, schedule, device, &layout->to, row, action->micro_batch, error));
    BGI_TRY(bg_schedule_emit(schedule, device, *action, error));
    BGI_TRY(emit_messages(layout, schedule, device, &layout->from, row, action->micro_batch, error));
    if (layout->problem->reduces_gradients && layout->problem->reduces_in_backward && adds_gradients(action) &&
        last_backwards[action->stage] == at) {
        const bg_action reduce = {.kind = BG_ACTION_REDUCE, .stage = action->stage};
        BGI_TRY(bg_schedule_emit(schedule, device, reduce, error));
    }
    added.kind = BG_ACTION_GATHER;
    if (action->kind == BG_ACTION_UPDATE && action->index + 1 == layout->problem->update_level_count &&
        bgi_schedule_stage_gathers(layout->problem, action->stage))
        BGI_TRY(bg_schedule_emit(schedule, device, added, error));
    added.kind = BG_ACTION_HOST_OUT;
    if (is_forward && bgi_schedule_stage_has_host_out(layout->problem, action->stage))
        BGI_TRY(bg_schedule_emit(schedule, device, added, error));
    return BG_OK;
}

/* Lists a device's compute actions, with an R before each B of the stages whose R the generator did not emit. */
static bg_status add_recomputes(const bg_schedule_problem *problem, const bgi_schedule_list *compute,
                                const bool *silent, bgi_schedule_list *out, bg_error *error)
{
    if (!bgi_array_reserve((void **)&out->actions, &out->capacity, 2 * compute->count, sizeof *out->actions))
        return bgi_error_memory(error, "a schedule's actions", 2 * compute->count * sizeof *out->actions);
    for (size_t i = 0; i < compute->count; i++) {
        bg_action action = compute->actions[i];
        if (action.kind == BG_ACTION_BACKWARD && action.stage < problem->stage_count && silent[action.stage]) {
            action.kind = BG_ACTION_RECOMPUTE;
            out->actions[out->count++] = action;
        }
        out->actions[out->count++] = compute->actions[i];
    }
    return BG_OK;
}

static bg_status complete_device(const bgi_schedule_layout *layout, bg_schedule *schedule, uint32_t device,
                                 const bgi_schedule_list *compute, size_t *last_backwards, bg_error *error)
{
    bgi_transfer_place *places = NULL;
    size_t count = 0, next = 0;
    bg_status status;

    BGI_TRY(bgi_schedule_place_transfers(layout, device, compute, &places, &count, error));
    find_last_backwards(layout->problem, compute, last_backwards);
    status = BG_OK;
    for (size_t i = 0; status == BG_OK && i <= compute->count; i++) {
        for (; status == BG_OK && next < count && places[next].at <= i; next++)
            status = bg_schedule_emit(schedule, device, places[next].action, error);
        if (status == BG_OK && i < compute->count)
            status = emit_surrounded(layout, schedule, device, compute, last_backwards, i, error);
    }
    free(places);
    return status;
}

bg_status bgi_schedule_complete(bg_schedule *schedule, const bg_schedule_problem *problem, bg_error *error)
{
    bgi_schedule_layout layout;
    bool *silent = NULL;
    size_t *last_backwards = NULL;
    bg_status status = BG_OK;

    BGI_TRY(bgi_schedule_layout_init(&layout, problem, error));
    silent = find_silent_recomputes(schedule, problem);
    last_backwards = calloc((size_t)problem->stage_count + 1, sizeof *last_backwards);
    if (silent == NULL || last_backwards == NULL)
        status = bgi_error_memory(error, "the stages of a schedule", problem->stage_count * sizeof *silent);
    for (uint32_t device = 0; status == BG_OK && device < schedule->device_count; device++) {
        const bgi_schedule_list compute = schedule->lists[device];
        bgi_schedule_list all = {0};
        schedule->lists[device] = (bgi_schedule_list){0};
        status = add_recomputes(problem, &compute, silent, &all, error);
        if (status == BG_OK)
            status = complete_device(&layout, schedule, device, &all, last_backwards, error);
        free(all.actions);
        free(compute.actions);
    }
    free(silent);
    free(last_backwards);
    bgi_schedule_layout_clear(&layout);
    return status;
}
