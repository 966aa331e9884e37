/*
 * text.c: writes and reads schedules as text.
 *
 *     # comments and empty lines are skipped
 *     device 0: HOST_IN0.0 F0.0 SEND0.0:0 RECEIVE0.0:1 B0.0 U0:0
 *     device 1: RECEIVE1.0:0 F1.0 HOST_OUT1.0 B1.0 SEND1.0:1 U1:0
 *
 * An action is its kind and stage, then .micro-batch, then :index if the kind has one (U: the level; SEND, RECEIVE: the
 * edge). Devices come in order from 0. A text without syntax errors is a list of actions; the verifier checks whether
 * it is a schedule of a problem.
 */
#include "schedule/schedule.h"

#include "core/arena.h"
#include "core/error.h"
#include "core/text.h"
#include "schedule/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bg_status bg_schedule_print(const bg_schedule *schedule, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};
    char action[BGI_ACTION_TEXT_BYTES];

    for (uint32_t device = 0; device < schedule->device_count; device++) {
        const bgi_schedule_list *list = &schedule->lists[device];
        bgi_string_add(&text, "device %" PRIu32 ":", device);
        for (size_t i = 0; i < list->count; i++)
            bgi_string_add(&text, " %s", bgi_action_text(&list->actions[i], action));
        bgi_string_add(&text, "\n");
    }
    return bgi_string_finish(&text, out_text, error);
}

static void skip_blanks(bgi_reader *in)
{
    while (*in->at == ' ' || *in->at == '\t' || *in->at == '\r')
        in->at++;
    if (*in->at == '#')
        in->at += strcspn(in->at, "\n");
}

static void skip_empty_lines(bgi_reader *in)
{
    for (skip_blanks(in); *in->at == '\n'; skip_blanks(in))
        bgi_reader_end_line(in);
}

static bg_status read_kind(bgi_reader *in, bg_action_kind *out)
{
    const size_t length = strspn(in->at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    for (bg_action_kind kind = BG_ACTION_FORWARD; kind < BG_ACTION_KIND_COUNT; kind++) {
        const char *name = bg_action_kind_name(kind);
        if (strlen(name) == length && memcmp(name, in->at, length) == 0) {
            in->at += length;
            *out = kind;
            return BG_OK;
        }
    }
    return bgi_reader_reject(in, in->at, "an action such as F0.1, B0.1, U0:0, SEND0.1:2 or HOST_IN0.1");
}

static bg_status read_action(bgi_reader *in, bg_action *action)
{
    *action = (bg_action){0};
    BGI_TRY(read_kind(in, &action->kind));
    BGI_TRY(bgi_reader_number(in, "a stage number", &action->stage));
    if (*in->at == '.') {
        in->at++;
        BGI_TRY(bgi_reader_number(in, "a micro-batch number", &action->micro_batch));
    } else if (bgi_action_has_micro_batch(action->kind)) {
        return bgi_reader_reject(in, in->at, "'.' and a micro-batch number");
    }
    if (*in->at == ':') {
        in->at++;
        BGI_TRY(bgi_reader_number(in, "a number", &action->index));
    } else if (bgi_action_has_index(action->kind)) {
        return bgi_reader_reject(in, in->at, "':' and a number (U: the level; SEND, RECEIVE: the edge)");
    }
    if (*in->at != '\0' && strchr(" \t\r\n#", *in->at) == NULL)
        return bgi_reader_reject(in, in->at, "a blank after the action");
    return BG_OK;
}

/* Reads one line, from "device" to its end. */
static bg_status read_device(bgi_reader *in, bg_schedule *schedule, uint32_t expected_device)
{
    const char *begin = in->at;
    char expected[48];
    uint32_t device = 0;

    snprintf(expected, sizeof expected, "\"device %" PRIu32 ":\"", expected_device);
    if (strncmp(in->at, "device", 6) != 0)
        return bgi_reader_reject(in, begin, expected);
    in->at += 6;
    skip_blanks(in);
    begin = in->at;
    BGI_TRY(bgi_reader_number(in, "a device number", &device));
    if (device != expected_device)
        return bgi_reader_reject(in, begin, expected);
    if (*in->at != ':')
        return bgi_reader_reject(in, in->at, "':' after the device number");
    in->at++;
    for (skip_blanks(in); *in->at != '\n' && *in->at != '\0'; skip_blanks(in)) {
        bg_action action = {0};
        BGI_TRY(read_action(in, &action));
        BGI_TRY(bg_schedule_emit(schedule, device, action, in->error));
    }
    return BG_OK;
}

bg_status bg_schedule_parse(const char *text, const char *file_name, bg_schedule **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bgi_reader in = bgi_reader_begin(text, file_name, error);
    bg_schedule *schedule = NULL;
    size_t capacity = 0;
    bg_status status;

    if (text == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the text of a schedule is NULL");
    BGI_TRY(bgi_schedule_create(0, &schedule, error));
    skip_empty_lines(&in);
    if (*in.at == '\0')
        BGI_TRY_CLEANUP(bgi_reader_reject(&in, in.at, "\"device 0:\""));
    for (; *in.at != '\0'; skip_empty_lines(&in)) {
        const uint32_t device = schedule->device_count;
        if (!bgi_array_reserve((void **)&schedule->lists, &capacity, (size_t)device + 1, sizeof *schedule->lists))
            BGI_TRY_CLEANUP(bgi_error_memory(error, "a schedule's devices", device * sizeof *schedule->lists));
        schedule->lists[device] = (bgi_schedule_list){0};
        schedule->device_count = device + 1;
        BGI_TRY_CLEANUP(read_device(&in, schedule, device));
    }
    *out = schedule;
    return BG_OK;

cleanup:
    bg_schedule_destroy(schedule);
    return status;
}
