/*
 * schedule.c: implements the schedule object, which has a list of actions per device. It knows no strategy.
 */
#include "schedule/schedule.h"

#include "core/arena.h"
#include "core/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    bool has_micro_batch;
    bool has_index;
} kinds[BG_ACTION_KIND_COUNT] = {
    [BG_ACTION_FORWARD] = {"F", true, false},         [BG_ACTION_BACKWARD] = {"B", true, false},
    [BG_ACTION_WEIGHTS] = {"W", true, false},         [BG_ACTION_RECOMPUTE] = {"R", true, false},
    [BG_ACTION_UPDATE] = {"U", false, true},          [BG_ACTION_SEND] = {"SEND", true, true},
    [BG_ACTION_RECEIVE] = {"RECEIVE", true, true},    [BG_ACTION_LOAD] = {"LOAD", true, true},
    [BG_ACTION_STORE] = {"STORE", true, true},        [BG_ACTION_GATHER] = {"GATHER", true, true},
    [BG_ACTION_REDUCE] = {"REDUCE", true, true},      [BG_ACTION_HOST_IN] = {"HOST_IN", true, false},
    [BG_ACTION_HOST_OUT] = {"HOST_OUT", true, false},
};

static bool kind_is_known(bg_action_kind kind)
{
    return (unsigned)kind < BG_ACTION_KIND_COUNT;
}

const char *bg_action_kind_name(bg_action_kind kind)
{
    return kind_is_known(kind) ? kinds[kind].name : "?";
}

bool bgi_action_has_micro_batch(bg_action_kind kind)
{
    return kind_is_known(kind) && kinds[kind].has_micro_batch;
}

bool bgi_action_has_index(bg_action_kind kind)
{
    return kind_is_known(kind) && kinds[kind].has_index;
}

const char *bgi_action_text(const bg_action *action, char *text)
{
    const bg_action_kind kind = action->kind;
    size_t at = (size_t)snprintf(text, BGI_ACTION_TEXT_BYTES, "%s%" PRIu32, bg_action_kind_name(kind), action->stage);

    /* A field that the kind does not use is printed when it is not 0, so that the text is complete. */
    if (bgi_action_has_micro_batch(kind) || action->micro_batch != 0)
        at += (size_t)snprintf(text + at, BGI_ACTION_TEXT_BYTES - at, ".%" PRIu32, action->micro_batch);
    if (bgi_action_has_index(kind) || action->index != 0)
        snprintf(text + at, BGI_ACTION_TEXT_BYTES - at, ":%" PRIu32, action->index);
    return text;
}

bg_status bgi_schedule_create(uint32_t device_count, bg_schedule **out, bg_error *error)
{
    bg_schedule *schedule = calloc(1, sizeof *schedule);

    if (schedule != NULL)
        schedule->lists = calloc(device_count == 0 ? 1 : device_count, sizeof *schedule->lists);
    if (schedule == NULL || schedule->lists == NULL) {
        free(schedule);
        return bgi_error_memory(error, "a schedule", device_count * sizeof *schedule->lists);
    }
    schedule->device_count = device_count;
    *out = schedule;
    return BG_OK;
}

void bg_schedule_destroy(bg_schedule *schedule)
{
    if (schedule == NULL)
        return;
    free(schedule->turns);
    free(schedule->buffer_depths);
    free(schedule->stage_in_flight);
    free(schedule->edge_depths);
    for (uint32_t device = 0; device < schedule->device_count; device++)
        free(schedule->lists[device].actions);
    free(schedule->lists);
    free(schedule);
}

static bg_status report_stop(bg_error *error)
{
    return bg_error_set(error, BG_ERROR_CANCELED, "the work on a schedule was stopped at the caller's request");
}

bg_status bgi_schedule_check_stop(const bg_schedule_problem *problem, bg_error *error)
{
    return problem->stop != NULL && problem->stop(problem->stop_user) ? report_stop(error) : BG_OK;
}

bg_status bg_schedule_emit(bg_schedule *schedule, uint32_t device, bg_action action, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));

    bgi_schedule_list *list;

    if (schedule->stop != NULL && ++schedule->emit_count % BGI_STOP_ACTIONS == 0 && schedule->stop(schedule->stop_user))
        return report_stop(error);
    if (device >= schedule->device_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "an action is for device %" PRIu32 ", but there are %" PRIu32 " devices", device,
                            schedule->device_count);
    if (!kind_is_known(action.kind))
        return bg_error_set(error, BG_ERROR_INVALID, "device %" PRIu32 ": %d is not an action kind", device,
                            (int)action.kind);
    list = &schedule->lists[device];
    if (list->count >= UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "device %" PRIu32 ": there are more than %" PRIu32 " actions",
                            device, UINT32_MAX);
    if (!bgi_array_reserve((void **)&list->actions, &list->capacity, list->count + 1, sizeof *list->actions))
        return bgi_error_memory(error, "a schedule's actions", (list->count + 1) * sizeof *list->actions);
    list->actions[list->count++] = action;
    return BG_OK;
}

uint32_t bg_schedule_device_count(const bg_schedule *schedule)
{
    return schedule->device_count;
}

uint32_t bg_schedule_action_count(const bg_schedule *schedule, uint32_t device)
{
    return device < schedule->device_count ? (uint32_t)schedule->lists[device].count : 0;
}

const bg_action *bg_schedule_actions(const bg_schedule *schedule, uint32_t device)
{
    return device < schedule->device_count ? schedule->lists[device].actions : NULL;
}

size_t bgi_schedule_total(const bg_schedule *schedule)
{
    size_t total = 0;

    for (uint32_t device = 0; device < schedule->device_count; device++)
        total += schedule->lists[device].count;
    return total;
}

uint32_t bg_schedule_edge_depth(const bg_schedule *schedule, uint32_t edge)
{
    return edge < schedule->edge_count ? schedule->edge_depths[edge] : 0;
}

uint32_t bg_schedule_stage_in_flight(const bg_schedule *schedule, uint32_t stage)
{
    return stage < schedule->stage_count ? schedule->stage_in_flight[stage] : 0;
}

uint32_t bg_schedule_buffer_depth(const bg_schedule *schedule, uint32_t buffer)
{
    return buffer < schedule->buffer_count ? schedule->buffer_depths[buffer] : 0;
}
