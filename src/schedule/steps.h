/*
 * steps.h: the lockstep picture of a schedule: in which step of a timetable does each F, R, B and W fall, when every
 * one of them takes one step and the order on each device is given?
 */
#ifndef BGI_SCHEDULE_STEPS_H
#define BGI_SCHEDULE_STEPS_H

#include "schedule/run.h"

typedef enum bgi_schedule_picture {
    BGI_PICTURE_SINGLE, /* a device does one thing in a step (interleaved, sequential) */
    BGI_PICTURE_PAIRED  /* in a step each stage may run an F and then a B (grouped) */
} bgi_schedule_picture;

/* Fills steps[instance] for the F, R, B and W rows of the layout. `records`: the schedule's actions in a topological
 * order, one step of them. As soon as possible first; when `is_late`, each F is then moved as close to its readers as
 * they allow, which is how timetables are drawn: a micro-batch enters when it can go through. */
bg_status bgi_schedule_steps(const bgi_schedule_layout *layout, const bg_schedule *schedule,
                             const bgi_schedule_record *records, size_t record_count, bgi_schedule_picture picture,
                             bool is_late, uint32_t *steps, bg_error *error);

/* True when no micro-batch waits between two stages: each F or B falls one step after the last of its inputs from other
 * stages. */
bool bgi_schedule_steps_are_smooth(const bgi_schedule_layout *layout, const uint32_t *steps);

bool bgi_schedule_row_has_steps(const bgi_schedule_row *row);

#endif
