/*
 * verify.h: what is known about a schedule that passed its checks.
 */
#ifndef BGI_SCHEDULE_VERIFY_H
#define BGI_SCHEDULE_VERIFY_H

#include "schedule/run.h"

typedef struct bgi_schedule_facts {
    bgi_schedule_layout layout;
    uint32_t *positions;          /* by instance: 1 + place in its device's list */
    uint32_t *depths;             /* by edge */
    uint32_t *in_flight;          /* by stage */
    uint32_t *buffer_depths;      /* by buffer */
    bgi_schedule_record *records; /* one step of the schedule in a topological order, without times */
    size_t record_count;
    bgi_arena arena;
} bgi_schedule_facts;

/* Checks a schedule and finds slot depths with which it does not deadlock. On failure nothing needs clearing. */
bg_status bgi_schedule_facts_init(bgi_schedule_facts *facts, const bg_schedule *schedule,
                                  const bg_schedule_problem *problem, bg_error *error);
void bgi_schedule_facts_clear(bgi_schedule_facts *facts);

/* The most instances begun and not ended, with places in one order: instance m begins at begins[m] and ends at ends[m],
 * both ascending. */
uint32_t bgi_schedule_count_overlap(const uint32_t *begins, const uint32_t *ends, uint32_t count);

/* ---- simulate.c ---- */

/* Gives facts->records, of the same schedule, their times. */
bg_status bgi_schedule_time(const bg_schedule *schedule, bgi_schedule_facts *facts, bg_error *error);

/* ---- check.c ---- */

/* What can be seen without executing: every action of the problem once, on its device, in its place among the others of
 * that device. Fills positions. */
bg_status bgi_schedule_check(const bgi_schedule_layout *layout, const bg_schedule *schedule, uint32_t *positions,
                             bg_error *error);

#endif
