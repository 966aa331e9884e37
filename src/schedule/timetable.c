/*
 * timetable.c: draws a schedule the way papers do: devices as rows, steps as columns. Compute only; costs and messages
 * play no part.
 *
 *     step 0    1    2    3         step 0  1  2  3  4  5
 *     dev0 F0   F1B0 F2B1 B2        dev0 F0 .  .  B0 F1 ...
 *     dev1 F0B0 F1B1 ...            dev1 .  F0 B0 .  .  F1
 *
 * A schedule is a set of orders; which picture shows it? One thing in a cell, if then no micro-batch waits between two
 * stages (interleaved, sequential, inference). Else, where each device has one stage and no W, or each right behind its
 * B, cells that hold a forward and a backward, if then none waits (grouped). Else one thing in a cell, as soon as
 * possible (strategies that fill gaps with W, or with other stages). So the picture depends on the orders alone, and a
 * schedule read from a file is drawn like the generated one. Where two strategies give the same orders (few
 * micro-batches) they have the same picture.
 */
#include "schedule/steps.h"
#include "schedule/verify.h"

#include "core/error.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct drawing {
    const bg_schedule *schedule;
    const bgi_schedule_facts *facts;
    const uint32_t *steps;
    uint32_t step_count;
    bool names_stages; /* a device has several */
    size_t cell_width;
    bgi_text text;
} drawing;

static bool weights_follow_backwards(const bg_schedule *schedule)
{
    for (uint32_t device = 0; device < schedule->device_count; device++) {
        const bgi_schedule_list *list = &schedule->lists[device];
        const bg_action *before = NULL; /* the F, B or W before */
        for (size_t i = 0; i < list->count; i++) {
            const bg_action *action = &list->actions[i];
            if (action->kind == BG_ACTION_WEIGHTS &&
                (before == NULL || before->kind != BG_ACTION_BACKWARD || before->stage != action->stage ||
                 before->micro_batch != action->micro_batch))
                return false;
            before = action->kind <= BG_ACTION_WEIGHTS ? action : before;
        }
    }
    return true;
}

static bg_status choose_picture(const bg_schedule *schedule, const bgi_schedule_facts *facts, bool shares_devices,
                                uint32_t *steps, bg_error *error)
{
    static const bgi_schedule_picture pictures[] = {BGI_PICTURE_SINGLE, BGI_PICTURE_PAIRED};
    const size_t picture_count = shares_devices || !weights_follow_backwards(schedule) ? 1 : 2;

    for (size_t i = 0; i < picture_count; i++) {
        BGI_TRY(bgi_schedule_steps(&facts->layout, schedule, facts->records, facts->record_count, pictures[i], true,
                                   steps, error));
        if (bgi_schedule_steps_are_smooth(&facts->layout, steps))
            return BG_OK;
    }
    return bgi_schedule_steps(&facts->layout, schedule, facts->records, facts->record_count, BGI_PICTURE_SINGLE, false,
                              steps, error);
}

static bool stages_share_devices(const bgi_schedule_facts *facts, bool *device_has_stage)
{
    const bg_schedule_problem *problem = facts->layout.problem;

    for (uint32_t stage = 0; stage < problem->stage_count; stage++) {
        bool *has_stage = &device_has_stage[problem->stage_devices[stage]];
        if (*has_stage)
            return true;
        *has_stage = true;
    }
    return false;
}

static const char *format_action(const drawing *draw, const bg_action *action, char *text)
{
    if (draw->names_stages)
        return bgi_action_text(action, text);
    snprintf(text, BGI_ACTION_TEXT_BYTES, "%s%" PRIu32, bg_action_kind_name(action->kind), action->micro_batch);
    return text;
}

/* The next action of a list, from *position on, that has a step; false at the end. */
static bool next_drawn(const drawing *draw, const bgi_schedule_list *list, size_t *position, uint32_t *out_step)
{
    const bgi_schedule_layout *layout = &draw->facts->layout;
    uint32_t row;

    for (; *position < list->count; ++*position) {
        const bg_action *action = &list->actions[*position];
        if (bgi_schedule_layout_find(layout, action, &row) && bgi_schedule_row_has_steps(&layout->rows[row])) {
            *out_step = draw->steps[layout->rows[row].first + action->micro_batch];
            return true;
        }
    }
    return false;
}

static void measure(drawing *draw)
{
    char text[BGI_ACTION_TEXT_BYTES];
    uint32_t step = 0;

    draw->cell_width = 1;
    for (uint32_t device = 0; device < draw->schedule->device_count; device++) {
        const bgi_schedule_list *list = &draw->schedule->lists[device];
        uint32_t cell_step = 0;
        size_t width = 0;
        for (size_t i = 0; next_drawn(draw, list, &i, &step); i++) {
            width = (step == cell_step ? width : 0) + strlen(format_action(draw, &list->actions[i], text));
            cell_step = step;
            draw->cell_width = width > draw->cell_width ? width : draw->cell_width;
            draw->step_count = step + 1 > draw->step_count ? step + 1 : draw->step_count;
        }
    }
    /* Step numbers must fit as well. */
    snprintf(text, sizeof text, "%" PRIu32, draw->step_count > 0 ? draw->step_count - 1 : 0);
    draw->cell_width = strlen(text) > draw->cell_width ? strlen(text) : draw->cell_width;
}

/* Fills up the cell that began at `begin`; the last one of a line stays as it is. */
static void end_cell(drawing *draw, size_t begin, uint32_t step)
{
    const size_t used = draw->text.length - begin;

    if (step + 1 < draw->step_count)
        bgi_text_add(&draw->text, "%*s", (int)(draw->cell_width > used ? draw->cell_width + 1 - used : 1), "");
    else
        bgi_text_add(&draw->text, "\n");
}

static void draw_device(drawing *draw, uint32_t device)
{
    const bgi_schedule_list *list = &draw->schedule->lists[device];
    char text[BGI_ACTION_TEXT_BYTES];
    size_t position = 0;
    uint32_t next_step = 0;

    for (uint32_t step = 0; step < draw->step_count && !draw->text.failed; step++) {
        const size_t begin = draw->text.length;
        while (next_drawn(draw, list, &position, &next_step) && next_step == step)
            bgi_text_add(&draw->text, "%s", format_action(draw, &list->actions[position++], text));
        if (draw->text.length == begin)
            bgi_text_add(&draw->text, ".");
        end_cell(draw, begin, step);
    }
}

static void draw_all(drawing *draw)
{
    char label[BGI_ACTION_TEXT_BYTES];
    int label_width;

    measure(draw);
    label_width = snprintf(label, sizeof label, "dev%" PRIu32, draw->schedule->device_count - 1);
    bgi_text_add(&draw->text, "%-*s ", label_width, "step");
    for (uint32_t step = 0; step < draw->step_count && !draw->text.failed; step++) {
        const size_t begin = draw->text.length;
        bgi_text_add(&draw->text, "%" PRIu32, step);
        end_cell(draw, begin, step);
    }
    for (uint32_t device = 0; device < draw->schedule->device_count; device++) {
        snprintf(label, sizeof label, "dev%" PRIu32, device);
        bgi_text_add(&draw->text, "%-*s ", label_width, label);
        draw_device(draw, device);
    }
}

bg_status bg_schedule_timetable(const bg_schedule *schedule, const bg_schedule_problem *problem, char **out_text,
                                bg_error *error)
{
    bgi_schedule_facts facts;
    drawing draw = {.schedule = schedule, .facts = &facts};
    bgi_arena scratch = {0};
    uint32_t *steps;
    bool *device_has_stage;
    bg_status status;

    BGI_TRY(bgi_schedule_facts_init(&facts, schedule, problem, error));
    steps = bgi_arena_take(&scratch, facts.layout.instance_count, sizeof *steps);
    device_has_stage = bgi_arena_take(&scratch, problem->device_count, sizeof *device_has_stage);
    if (steps == NULL || device_has_stage == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a timetable", facts.layout.instance_count * sizeof *steps));
    draw.steps = steps;
    draw.names_stages = stages_share_devices(&facts, device_has_stage);
    BGI_TRY_CLEANUP(choose_picture(schedule, &facts, draw.names_stages, steps, error));
    draw_all(&draw);
    status = bgi_text_finish(&draw.text, out_text, error);

cleanup:
    bgi_arena_clear(&scratch);
    bgi_schedule_facts_clear(&facts);
    return status;
}
