/*
 * automatic.h: declares the parts of the search for the order that ends first. automatic.c combines these parts:
 *
 *     search.c      tries, times and keeps orders; has the best one so far
 *     greedy.c      an order from a rule: every device takes the most urgent action that can begin
 *     improve.c     a better order from a good one: small changes along the critical path
 *     exhaustive.c  the best order of a small problem, by trying all orders
 *
 * An order is an array of instance numbers (layout.h): the F, R, B and W of device 0, then its U, then those of device
 * 1 ... It has no messages, because complete.c adds them. The updates come last on each device, always in the same
 * order.
 */
#ifndef BGI_SCHEDULE_AUTOMATIC_H
#define BGI_SCHEDULE_AUTOMATIC_H

#include "schedule/layout.h"

typedef struct bgi_search {
    const bg_schedule_problem *problem;
    bgi_schedule_layout layout;
    bgi_arena arena;
    uint32_t action_count; /* F, R, B, W and U of all devices */
    uint32_t *begins;   /* by device, with one more entry for the end: the beginning of the device's part of an order */
    uint32_t *ends;     /* by device: the beginning of its updates in an order */
    uint32_t *rows;     /* by instance */
    double *costs;      /* by row */
    double *delays;     /* by edge: ns from the end of the producer until the message arrives */
    bool *is_merged;    /* by stage: F and B of a micro-batch run back to back */
    double *heads;      /* by row of F, R, B, W: the earliest start in an empty pipeline */
    double *tails;      /* by row of F, R, B, W: the time from its start to the end of the step in an empty pipeline */
    double period_ns;   /* the busiest device's time for a micro-batch */
    double bound_ns;    /* a time before which no order ends */
    bool is_stopped;    /* the caller requested a stop, which also sets work_left to 0 */
    uint64_t work_left; /* the number of actions that may still be examined, over all orders */

    /* The best order so far; best_ns is infinite before there is one. */
    uint32_t *best;
    double best_ns;
    double best_bytes; /* bytes of slots on all devices together */
    /* The fewest slot bytes of any tried order, by device, for the message when no order fits. */
    double *fewest_bytes;

    /* Scratch of bgi_search_time. */
    double *finish;         /* by instance: when it ends; below 0: unknown */
    double *device_times;   /* by device */
    uint32_t *places;       /* by device: the place of its next action in the order */
    uint32_t *ready;        /* a stack of devices that may continue */
    uint32_t *first_waiter; /* by instance: 1 + a device that waits for it */
    uint32_t *next_waiter;  /* by device: the next device that waits for the same instance */
    double *bytes;          /* by device */
} bgi_search;

/* ---- search.c ---- */

/* Prepares a search. The problem must have passed bgi_schedule_problem_check. On failure nothing needs clearing. */
bg_status bgi_search_init(bgi_search *search, const bg_schedule_problem *problem, bg_error *error);
void bgi_search_clear(bgi_search *search);

/* Returns the time at which the order ends if no action waits for a slot. This time is never later than the end that
 * bg_schedule_simulate finds. Returns infinity when the devices wait for each other. Writes the ends of all actions to
 * search->finish. */
double bgi_search_time(bgi_search *search, const uint32_t *order);

/* Return the previous and the next row of the same stage, in the order F, R, B, W, that has instances; UINT32_MAX:
 * none. */
uint32_t bgi_search_previous_row(const bgi_search *search, uint32_t row);
uint32_t bgi_search_next_row(const bgi_search *search, uint32_t row);

/* Returns the bytes of the slots that the device's own list requires, which are never more than those by
 * bg_schedule_edge_depth. */
double bgi_search_device_bytes(bgi_search *search, const uint32_t *order, uint32_t device);

/* Whether the slots of each device may fit its limit, according to bgi_search_device_bytes. */
bool bgi_search_may_fit(bgi_search *search, const uint32_t *order);

/* Keeps the order if it passes verification, meets the limits and ends earlier than the best, or at the same time with
 * fewer bytes. Fails only when memory is out. */
bg_status bgi_search_consider(bgi_search *search, const uint32_t *order, bool *out_is_kept, bg_error *error);
/* Does the same for the order of a generator, if it supports the problem. `scratch`: memory for an order. */
bg_status bgi_search_consider_generator(bgi_search *search, const bg_schedule_generator *generator, uint32_t *scratch,
                                        bg_error *error);

/* Appends the actions of an order to an empty schedule. */
bg_status bgi_search_emit(const bgi_search *search, const uint32_t *order, bg_schedule *schedule, bg_error *error);

/* Whether no better order can be found, or the work is used up. */
bool bgi_search_is_done(const bgi_search *search);

/* Subtracts the number of an order's actions from work_left; called before the order is examined. */
void bgi_search_spend(bgi_search *search);

static inline bg_action_kind bgi_search_kind(const bgi_search *search, uint32_t instance)
{
    return search->layout.rows[search->rows[instance]].kind;
}

static inline uint32_t bgi_search_stage(const bgi_search *search, uint32_t instance)
{
    return search->layout.rows[search->rows[instance]].stage;
}

static inline uint32_t bgi_search_micro_batch(const bgi_search *search, uint32_t instance)
{
    return instance - search->layout.rows[search->rows[instance]].first;
}

/* Whether the search orders actions of this kind: F, R, B and W. U comes after them. */
static inline bool bgi_search_is_ordered(bg_action_kind kind)
{
    return kind == BG_ACTION_FORWARD || kind == BG_ACTION_RECOMPUTE || kind == BG_ACTION_BACKWARD ||
           kind == BG_ACTION_WEIGHTS;
}

/* Whether the stage's next action must follow an action of this row immediately: in a merged loss, after F and R. */
static inline bool bgi_search_is_bound(const bgi_search *search, uint32_t row)
{
    const bgi_schedule_row *info = &search->layout.rows[row];

    return search->is_merged[info->stage] && (info->kind == BG_ACTION_FORWARD || info->kind == BG_ACTION_RECOMPUTE);
}

/* ---- greedy.c ---- */

typedef enum bgi_greedy_tie {
    BGI_TIE_OLDEST, /* the lowest micro-batch, then the last stage */
    BGI_TIE_LONGEST /* the action with the longest way to the end of the step */
} bgi_greedy_tie;

typedef struct bgi_greedy_rule {
    uint32_t ranks[BG_ACTION_KIND_COUNT]; /* ranks of F, B and W; the lowest is first. R has the rank of B, but comes
                                             last while B waits for other inputs */
    bool alternates;                      /* F after B and B after F, regardless of ranks */
    bgi_greedy_tie tie;
    /* A device waits for a more urgent action if that action's inputs are known to arrive within this fraction of the
     * time of the action that the device could run now. */
    double patience;
} bgi_greedy_rule;

typedef struct bgi_greedy bgi_greedy;

bg_status bgi_greedy_init(bgi_search *search, bgi_greedy **out, bg_error *error); /* in the search's arena */
/* Makes an order. `caps`, at least 1, is by stage the largest number of micro-batches whose forward has begun and whose
 * last backward action is not done. Returns false when devices wait for each other, which only happens with a problem
 * that cannot be scheduled. */
bool bgi_greedy_run(bgi_greedy *greedy, const bgi_greedy_rule *rule, const uint32_t *caps, uint32_t *order);

/* ---- improve.c ---- */

/* Changes the best order while changes make it end earlier. */
bg_status bgi_search_improve(bgi_search *search, bg_error *error);

/* ---- exhaustive.c ---- */

/* Tries all orders if there are few; sets *out_is_complete to whether it did. `any_order`: one of these orders. */
bg_status bgi_search_exhaust(bgi_search *search, const uint32_t *any_order, bool *out_is_complete, bg_error *error);

#endif
