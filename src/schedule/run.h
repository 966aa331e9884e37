/*
 * run.h: abstract execution of a schedule: devices go through their lists in order, messages and slots are counted, no
 * work is done. With times it is the simulator, without it the proof that a schedule does not deadlock.
 *
 * What an action waits for only ever becomes true, never false again. So the outcome, and every time, is the same in
 * whatever order the devices are advanced; each one runs as far as it can, parks, and is woken by the event it waits
 * for. The cost is linear in actions and edges.
 */
#ifndef BGI_SCHEDULE_RUN_H
#define BGI_SCHEDULE_RUN_H

#include "schedule/layout.h"

/* An action that was executed. `start` is when the device turned to it; a RECEIVE that waits ends when the message is
 * there, every other action starts after its wait. */
typedef struct bgi_schedule_record {
    uint32_t device;
    uint32_t position; /* in the device's list */
    double start, end;
} bgi_schedule_record;

typedef struct bgi_schedule_run {
    const bg_schedule *schedule; /* has passed bgi_schedule_check */
    const bgi_schedule_layout *layout;
    uint32_t step_count; /* consecutive executions of the lists */
    uint32_t *depths;    /* slots per edge */
    bool may_deepen;     /* untimed: when all are stuck, an edge without a free slot gets another one, up to one per
                            micro-batch; with those a schedule that is right always goes on */
    bool is_timed;       /* else all times are 0 */
    /* Of a strict problem: the device of each action of a step, as an earlier execution recorded it; every step goes by
     * it. NULL: that execution itself, or no strict problem. */
    const uint32_t *turns;
    bgi_schedule_record *records; /* NULL, or room for all actions: those of the first step in a topological order */
    size_t record_count;
} bgi_schedule_run;

/* Fails when devices wait for each other: names the lowest one, its action and what it waits for. */
bg_status bgi_schedule_execute(bgi_schedule_run *run, bg_error *error);

#endif
