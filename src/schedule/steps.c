/*
 * steps.c: finds longest paths over a schedule's compute actions. It knows no costs, slots or messages: an input from
 * another stage arrives one step after it was made.
 *
 * Each bound is stored as the first step that it allows, so that 0 means no bound. The late pass applies the same rules
 * backward, and moves only F actions.
 */
#include "schedule/steps.h"

#include "core/error.h"

#define NEVER UINT32_MAX

typedef struct device_bound {
    uint32_t any;          /* forward pass: the step after its last action; late pass: the step of its next action */
    uint32_t after_others; /* forward pass: the step after its last R, B or W */
} device_bound;

typedef struct pass {
    const bgi_schedule_layout *layout;
    bgi_schedule_picture picture;
    uint32_t *steps;
    device_bound *devices;
    uint32_t
        *rows; /* by row; forward pass: the step after its last instance; late pass: the step of its next instance */
    uint32_t taken; /* in a strict problem: the number of steps that have an action */
} pass;

bool bgi_schedule_row_has_steps(const bgi_schedule_row *row)
{
    return row->kind < BG_ACTION_UPDATE;
}

static uint32_t instance_step(const pass *p, uint32_t row, uint32_t micro_batch)
{
    return p->steps[p->layout->rows[row].first + micro_batch];
}

/* Returns how many steps after `from` the reader `to` may run at the earliest. In a pair, a stage's B may read the
 * result of its F in the same step. */
static uint32_t edge_lag(const pass *p, const bgi_schedule_edge_rows *edge)
{
    const bool is_own = p->layout->rows[edge->from].stage == p->layout->rows[edge->to].stage;
    return is_own && p->picture == BGI_PICTURE_PAIRED ? 0 : 1;
}

static void place_early(pass *p, uint32_t row, uint32_t micro_batch)
{
    const bgi_schedule_row *info = &p->layout->rows[row];
    device_bound *device = &p->devices[info->device];
    const bool is_forward = info->kind == BG_ACTION_FORWARD;
    uint32_t step = device->any;

    if (p->layout->problem->is_strict) {
        p->steps[info->first + micro_batch] = p->taken++;
        return;
    }
    if (p->picture == BGI_PICTURE_PAIRED) {
        step = step > 0 ? step - 1 : 0;
        step = is_forward && device->after_others > step ? device->after_others : step;
        step = p->rows[row] > step ? p->rows[row] : step;
    }
    for (uint32_t i = p->layout->to.begin[row]; i < p->layout->to.begin[row + 1]; i++) {
        const bgi_schedule_edge_rows *edge = &p->layout->edges[p->layout->to.edges[i]];
        const uint32_t bound = instance_step(p, edge->from, micro_batch) + edge_lag(p, edge);
        step = bound > step ? bound : step;
    }
    p->steps[info->first + micro_batch] = step;
    device->any = step + 1;
    if (!is_forward)
        device->after_others = step + 1;
    p->rows[row] = step + 1;
}

static void place_late(pass *p, uint32_t row, uint32_t micro_batch)
{
    const bgi_schedule_row *info = &p->layout->rows[row];
    device_bound *device = &p->devices[info->device];
    uint32_t *step = &p->steps[info->first + micro_batch];
    uint32_t bound = device->any;

    if (info->kind == BG_ACTION_FORWARD) {
        if (p->picture == BGI_PICTURE_SINGLE && bound != NEVER)
            bound--;
        if (p->picture == BGI_PICTURE_PAIRED && p->rows[row] != NEVER)
            bound = p->rows[row] - 1 < bound ? p->rows[row] - 1 : bound;
        for (uint32_t i = p->layout->from.begin[row]; i < p->layout->from.begin[row + 1]; i++) {
            const bgi_schedule_edge_rows *edge = &p->layout->edges[p->layout->from.edges[i]];
            const uint32_t limit = instance_step(p, edge->to, micro_batch) - edge_lag(p, edge);
            bound = limit < bound ? limit : bound;
        }
        if (bound != NEVER)
            *step = bound;
    }
    device->any = *step;
    p->rows[row] = *step;
}

static void run_pass(pass *p, const bg_schedule *schedule, const bgi_schedule_record *records, size_t record_count,
                     bool is_late)
{
    for (uint32_t device = 0; device < schedule->device_count; device++)
        p->devices[device] = (device_bound){.any = is_late ? NEVER : 0};
    for (uint32_t row = 0; row < p->layout->row_count; row++)
        p->rows[row] = is_late ? NEVER : 0;
    for (size_t i = 0; i < record_count; i++) {
        const bgi_schedule_record *record = &records[is_late ? record_count - 1 - i : i];
        const bg_action *action = &schedule->lists[record->device].actions[record->position];
        uint32_t row;

        if (action->kind >= BG_ACTION_UPDATE)
            continue;
        row = bgi_schedule_layout_row(p->layout, action->kind, action->stage, 0);
        if (is_late)
            place_late(p, row, action->micro_batch);
        else
            place_early(p, row, action->micro_batch);
    }
}

bg_status bgi_schedule_steps(const bgi_schedule_layout *layout, const bg_schedule *schedule,
                             const bgi_schedule_record *records, size_t record_count, bgi_schedule_picture picture,
                             bool is_late, uint32_t *steps, bg_error *error)
{
    bgi_arena scratch = {0};
    pass p = {.layout = layout, .picture = picture, .steps = steps};
    bg_status status = BG_OK;

    p.devices = bgi_arena_allocate(&scratch, schedule->device_count, sizeof *p.devices);
    p.rows = bgi_arena_allocate(&scratch, layout->row_count, sizeof *p.rows);
    if (p.devices == NULL || p.rows == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a timetable", layout->row_count * sizeof *p.rows));
    BGI_TRY_CLEANUP(bgi_schedule_check_stop(layout->problem, error));
    run_pass(&p, schedule, records, record_count, false);
    BGI_TRY_CLEANUP(bgi_schedule_check_stop(layout->problem, error));
    if (is_late && !layout->problem->is_strict)
        run_pass(&p, schedule, records, record_count, true);

cleanup:
    bgi_arena_clear(&scratch);
    return status;
}

/* Returns the step after the last input that comes from another stage; 0 if there is no such input. */
static uint32_t inputs_ready(const bgi_schedule_layout *layout, const uint32_t *steps, uint32_t row,
                             uint32_t micro_batch)
{
    uint32_t ready = 0;

    for (uint32_t i = layout->to.begin[row]; i < layout->to.begin[row + 1]; i++) {
        const bgi_schedule_row *from = &layout->rows[layout->edges[layout->to.edges[i]].from];
        const uint32_t step = steps[from->first + micro_batch] + 1;
        if (from->stage != layout->rows[row].stage && step > ready)
            ready = step;
    }
    return ready;
}

bool bgi_schedule_steps_are_smooth(const bgi_schedule_layout *layout, const uint32_t *steps)
{
    for (uint32_t row = 0; row < layout->row_count; row++) {
        const bgi_schedule_row *info = &layout->rows[row];
        if (!bgi_schedule_row_has_steps(info))
            continue;
        for (uint32_t micro_batch = 0; micro_batch < info->count; micro_batch++) {
            const uint32_t ready = inputs_ready(layout, steps, row, micro_batch);
            if (ready != 0 && steps[info->first + micro_batch] != ready)
                return false;
        }
    }
    return true;
}
