/*
 * run.h: executes a schedule abstractly: devices run through their lists in order, and messages and slots are counted,
 * without computing. A timed execution is the simulator; an untimed one proves that a schedule does not deadlock.
 *
 * A condition that an action waits for never becomes false again. So the result and every time are independent of the
 * order in which devices are advanced. Each device runs as far as it can, parks, and is woken by the event that it
 * waits for. The cost is linear in actions and edges.
 */
#ifndef BGI_SCHEDULE_RUN_H
#define BGI_SCHEDULE_RUN_H

#include "schedule/layout.h"

/* A record of an executed action. A RECEIVE starts when the device reaches it and ends when its message has arrived;
 * other actions start after their wait. */
typedef struct bgi_schedule_record {
    uint32_t device;
    uint32_t position; /* position in the device's list */
    double start, end;
} bgi_schedule_record;

typedef struct bgi_schedule_run {
    const bg_schedule *schedule; /* the schedule has passed bgi_schedule_check */
    const bgi_schedule_layout *layout;
    uint32_t step_count; /* the number of consecutive executions of the lists */
    uint32_t *depths;    /* by edge: its number of slots */
    /* If untimed: when all devices are stuck, an edge without a free slot gets another slot. With one slot per
     * micro-batch, the largest number, a correct schedule never deadlocks. */
    bool may_deepen;
    bool is_timed; /* computes times; otherwise all times are 0 */
    /* For a strict problem: the device of each action of a step, as an earlier execution recorded it; every step
     * follows this order. NULL in that earlier execution, and when the problem is not strict. */
    const uint32_t *turns;
    bgi_schedule_record *records; /* NULL, or memory for the records of the first step, in a topological order */
    size_t record_count;
} bgi_schedule_run;

/* Executes the schedule. Fails when devices wait for each other; the error names the lowest device, its action and the
 * action that it waits for. */
bg_status bgi_schedule_execute(bgi_schedule_run *run, bg_error *error);

#endif
