/*
 * steps.h: computes the timetable of a schedule in lockstep: the step of each F, R, B and W if each takes one step and
 * each device keeps its order.
 */
#ifndef BGI_SCHEDULE_STEPS_H
#define BGI_SCHEDULE_STEPS_H

#include "schedule/run.h"

typedef enum bgi_schedule_picture {
    BGI_PICTURE_SINGLE, /* a device runs one action in a step (interleaved, sequential) */
    BGI_PICTURE_PAIRED  /* each stage may run an F and then a B in a step (grouped) */
} bgi_schedule_picture;

/* Fills steps[instance] for the F, R, B and W rows of the layout. `records`: the schedule's actions in a topological
 * order, one step of them. Actions are first placed as early as possible. If `is_late`, each F is then moved as close
 * to its readers as possible. Timetables are usually drawn in this way: a micro-batch enters when it can run through
 * without waiting. */
bg_status bgi_schedule_steps(const bgi_schedule_layout *layout, const bg_schedule *schedule,
                             const bgi_schedule_record *records, size_t record_count, bgi_schedule_picture picture,
                             bool is_late, uint32_t *steps, bg_error *error);

/* Whether no micro-batch waits between two stages, so that each F or B is one step after the last of its inputs from
 * other stages. */
bool bgi_schedule_steps_are_smooth(const bgi_schedule_layout *layout, const uint32_t *steps);

bool bgi_schedule_row_has_steps(const bgi_schedule_row *row);

#endif
