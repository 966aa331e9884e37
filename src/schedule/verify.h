/*
 * verify.h: declares the facts about a schedule that passed its checks.
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
    uint32_t *turns;              /* for a strict problem: the device of each record; otherwise NULL */
    bgi_schedule_record *records; /* one step of the schedule in a topological order, with times */
    size_t record_count;
    bgi_arena arena;
} bgi_schedule_facts;

/* Checks a schedule and finds slot depths with which it does not deadlock. On failure nothing needs clearing. */
bg_status bgi_schedule_facts_init(bgi_schedule_facts *facts, const bg_schedule *schedule,
                                  const bg_schedule_problem *problem, bg_error *error);
void bgi_schedule_facts_clear(bgi_schedule_facts *facts);

/* Like bg_schedule_verify, and returns the facts for later use. */
bg_status bgi_schedule_prove(bg_schedule *schedule, const bg_schedule_problem *problem, bgi_schedule_facts *facts,
                             bg_error *error);
/* Like bg_schedule_create, and returns the facts. The problem must outlive the facts. */
bg_status bgi_schedule_create_proven(const bg_schedule_problem *problem, const bg_schedule_generator *generator,
                                     bg_schedule **out, bgi_schedule_facts *out_facts, bg_error *error);

/* Returns the largest number of instances that are in progress at once. Instance m is in progress from place begins[m]
 * to ends[m] of one order; both arrays ascend. */
uint32_t bgi_schedule_count_overlap(const uint32_t *begins, const uint32_t *ends, uint32_t count);

/* ---- simulate.c ---- */

/* Simulates a schedule with its facts. Without events the function takes far less time and memory. */
bg_status bgi_schedule_simulate(const bg_schedule *schedule, const bgi_schedule_facts *facts, bool wants_events,
                                bg_schedule_timing *out, bg_error *error);

/* ---- timetable.c ---- */

bg_status bgi_schedule_timetable(const bg_schedule *schedule, const bgi_schedule_facts *facts, char **out_text,
                                 bg_error *error);

/* ---- check.c ---- */

/* Checks a schedule without executing it: every action of the problem occurs once, on its device, in a valid place
 * among the device's other actions. Fills `positions`. */
bg_status bgi_schedule_check(const bgi_schedule_layout *layout, const bg_schedule *schedule, uint32_t *positions,
                             bg_error *error);

#endif
