/*
 * timetable.c: draws a schedule as papers do: devices as rows, steps as columns. It shows only compute actions, and no
 * costs or messages.
 *
 *     step 0    1    2    3         step 0  1  2  3  4  5
 *     dev0 F0   F1B0 F2B1 B2        dev0 F0 .  .  B0 F1 ...
 *     dev1 F0B0 F1B1 ...            dev1 .  F0 B0 .  .  F1
 *
 * The timetable has the first of three layouts that fits the schedule. In the first, cells hold one action, and no
 * micro-batch may wait between two stages (interleaved, sequential, inference). In the second, cells hold a forward and
 * a backward; no micro-batch may wait, each device must have one stage, and each W must come right after its B
 * (grouped). In the third, cells hold one action, as early as possible (strategies that fill gaps with W, or with other
 * stages). So the timetable depends only on the orders, and a schedule from a file is drawn like a generated one.
 * Strategies with the same orders (for few micro-batches) have the same timetable.
 */
#include "schedule/steps.h"
#include "schedule/verify.h"

#include "core/error.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 32 << 20, LEAST_STEPS = 64, MOST_IN_CELL = 8 };

typedef struct drawing {
    const bg_schedule *schedule;
    const bgi_schedule_facts *facts;
    const uint32_t *steps;
    uint32_t step_count;
    uint32_t gap_begin, gap_end; /* omitted steps */
    bool names_stages;           /* a device has several stages */
    size_t cell_width;
    bgi_string text;
} drawing;

static bool weights_follow_backwards(const bg_schedule *schedule)
{
    for (uint32_t device = 0; device < schedule->device_count; device++) {
        const bgi_schedule_list *list = &schedule->lists[device];
        const bg_action *before = NULL; /* the previous F, B or W */
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

/* Finds the next action of a list, from *position on, that has a step; returns false at the end of the list. */
static bool next_drawn(const drawing *draw, const bgi_schedule_list *list, size_t *position, uint32_t *out_step)
{
    const bgi_schedule_layout *layout = &draw->facts->layout;

    for (; *position < list->count; ++*position) {
        const bg_action *action = &list->actions[*position];
        if (action->kind < BG_ACTION_UPDATE) {
            const uint32_t row = bgi_schedule_layout_row(layout, action->kind, action->stage, 0);
            *out_step = draw->steps[layout->rows[row].first + action->micro_batch];
            return true;
        }
    }
    return false;
}

static size_t count_digits(uint32_t number)
{
    size_t count = 1;

    for (; number >= 10; number /= 10)
        count++;
    return count;
}

/* Returns the length of format_action's text. */
static size_t measure_action(const drawing *draw, const bg_action *action)
{
    const size_t stage = draw->names_stages ? count_digits(action->stage) + 1 : 0;

    return 1 + stage + count_digits(action->micro_batch);
}

static void measure(drawing *draw)
{
    uint32_t step = 0;
    size_t digits;

    draw->cell_width = 1;
    for (uint32_t device = 0; device < draw->schedule->device_count; device++) {
        const bgi_schedule_list *list = &draw->schedule->lists[device];
        uint32_t cell_step = 0;
        size_t width = 0;
        for (size_t i = 0; next_drawn(draw, list, &i, &step); i++) {
            width = (step == cell_step ? width : 0) + measure_action(draw, &list->actions[i]);
            cell_step = step;
            draw->cell_width = width > draw->cell_width ? width : draw->cell_width;
            draw->step_count = step + 1 > draw->step_count ? step + 1 : draw->step_count;
        }
    }
    /* Step numbers must also fit into a cell. */
    digits = count_digits(draw->step_count > 0 ? draw->step_count - 1 : 0);
    draw->cell_width = digits > draw->cell_width ? digits : draw->cell_width;
}

/* Chooses the steps in the middle that are omitted, if the timetable would be too large. */
static void leave_out(drawing *draw)
{
    const size_t column_bytes = ((size_t)draw->schedule->device_count + 1) * (draw->cell_width + 1);
    const size_t most = MOST_BYTES / column_bytes > LEAST_STEPS ? MOST_BYTES / column_bytes : LEAST_STEPS;

    draw->gap_begin = draw->gap_end = draw->step_count;
    if (draw->step_count <= most)
        return;
    draw->gap_begin = (uint32_t)(most / 2);
    draw->gap_end = draw->step_count - (uint32_t)(most - most / 2);
}

/* Draws a cell with `content`, padded except at the end of a line. */
static void draw_cell(drawing *draw, const char *content, uint32_t step)
{
    if (step + 1 < draw->step_count)
        bgi_string_add(&draw->text, "%-*s ", (int)draw->cell_width, content);
    else
        bgi_string_add(&draw->text, "%s\n", content);
}

/* If omitted steps begin at *step, draws a gap, sets *step to the last omitted step, and returns true. */
static bool draw_gap(drawing *draw, uint32_t *step)
{
    if (*step != draw->gap_begin || draw->gap_begin == draw->gap_end)
        return false;
    bgi_string_add(&draw->text, "... ");
    *step = draw->gap_end - 1;
    return true;
}

static void draw_device(drawing *draw, uint32_t device)
{
    const bgi_schedule_list *list = &draw->schedule->lists[device];
    char cell[MOST_IN_CELL * BGI_ACTION_TEXT_BYTES];
    size_t position = 0;
    uint32_t next_step = 0;
    bool is_there = next_drawn(draw, list, &position, &next_step);

    for (uint32_t step = 0; step < draw->step_count && !draw->text.failed; step++) {
        const bool is_gap = draw_gap(draw, &step);
        size_t length = 0;
        for (uint32_t number = 0; is_there && next_step <= step; number++) {
            if (!is_gap && number < MOST_IN_CELL)
                length += strlen(format_action(draw, &list->actions[position], cell + length));
            position++;
            is_there = next_drawn(draw, list, &position, &next_step);
        }
        if (!is_gap)
            draw_cell(draw, length > 0 ? cell : ".", step);
    }
}

static void draw_all(drawing *draw)
{
    char label[BGI_ACTION_TEXT_BYTES];
    int label_width;

    measure(draw);
    leave_out(draw);
    label_width = snprintf(label, sizeof label, "dev%" PRIu32, draw->schedule->device_count - 1);
    bgi_string_add(&draw->text, "%-*s ", label_width, "step");
    for (uint32_t step = 0; step < draw->step_count && !draw->text.failed; step++) {
        snprintf(label, sizeof label, "%" PRIu32, step);
        if (!draw_gap(draw, &step))
            draw_cell(draw, label, step);
    }
    for (uint32_t device = 0; device < draw->schedule->device_count; device++) {
        snprintf(label, sizeof label, "dev%" PRIu32, device);
        bgi_string_add(&draw->text, "%-*s ", label_width, label);
        draw_device(draw, device);
    }
    if (draw->gap_begin < draw->gap_end)
        bgi_string_add(&draw->text,
                       "Steps %" PRIu32 " to %" PRIu32 " are omitted because the timetable would be too large.\n",
                       draw->gap_begin, draw->gap_end - 1);
}

bg_status bgi_schedule_timetable(const bg_schedule *schedule, const bgi_schedule_facts *facts, char **out_text,
                                 bg_error *error)
{
    const bg_schedule_problem *problem = facts->layout.problem;
    drawing draw = {.schedule = schedule, .facts = facts};
    bgi_arena scratch = {0};
    uint32_t *steps = bgi_arena_allocate(&scratch, facts->layout.instance_count, sizeof *steps);
    bool *device_has_stage = bgi_arena_allocate(&scratch, problem->device_count, sizeof *device_has_stage);
    bg_status status = BG_OK;

    if (steps == NULL || device_has_stage == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a timetable", facts->layout.instance_count * sizeof *steps));
    draw.steps = steps;
    draw.names_stages = stages_share_devices(facts, device_has_stage);
    BGI_TRY_CLEANUP(choose_picture(schedule, facts, draw.names_stages, steps, error));
    BGI_TRY_CLEANUP(bgi_schedule_check_stop(problem, error));
    draw_all(&draw);
    status = bgi_string_finish(&draw.text, out_text, error);

cleanup:
    bgi_arena_clear(&scratch);
    return status;
}

bg_status bg_schedule_timetable(const bg_schedule *schedule, const bg_schedule_problem *problem, char **out_text,
                                bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(schedule, "schedule", __func__, error));
    BGI_TRY(bgi_require(problem, "problem", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_schedule_facts facts;
    bg_status status;

    BGI_TRY(bgi_schedule_facts_init(&facts, schedule, problem, error));
    status = bgi_schedule_timetable(schedule, &facts, out_text, error);
    bgi_schedule_facts_clear(&facts);
    return status;
}
