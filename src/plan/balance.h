/*
 * balance.h: cuts a line of items into stages of similar duration. This file knows no graph.
 */
#ifndef BGI_PLAN_BALANCE_H
#define BGI_PLAN_BALANCE_H

#include <brigade/base.h>

/* A value that an item keeps for its backward pass. The items of one stage keep it only once. */
typedef struct bgi_kept {
    size_t bytes;
    uint32_t next_item; /* the next item that keeps the same value; UINT32_MAX: none */
} bgi_kept;

typedef struct bgi_balance_item {
    double ns;         /* time on a device of speed 1; 0 or more */
    size_t held_bytes; /* held under every cut: weights, gradients, state */
    const bgi_kept *kept;
    uint32_t kept_count;
} bgi_balance_item;

/* Items first .. end - 1 are known not to fit as stage `stage`, whatever the estimate says. */
typedef struct bgi_refused_stage {
    uint32_t stage, first, end;
} bgi_refused_stage;

typedef struct bgi_balance {
    const bgi_balance_item *items;
    uint32_t item_count;
    uint32_t stage_count;        /* from 1 to item_count */
    const double *stage_speeds;  /* by stage; NULL: all are 1 */
    const size_t *stage_budgets; /* by stage: the bytes that it may hold; NULL or 0: unlimited */
    const uint32_t
        *stage_depths; /* by stage: the number of micro-batches for which the stage keeps values; NULL: one */
    const bgi_refused_stage *refused;
    uint32_t refused_count;
} bgi_balance;

/* Returns the bytes of stage `stage` with items first .. end - 1. */
size_t bgi_balance_bytes(const bgi_balance *balance, uint32_t stage, uint32_t first, uint32_t end);

/* Finds the cut whose longest stage is the shortest: out_first[stage] is the first item of each stage, and *out_longest
 * the time of the longest. Among equally good cuts it chooses the one whose later stages begin latest. When no cut
 * fits, the message of BG_ERROR_BUDGET names the smallest budget that, given to every stage, would be enough. */
bg_status bgi_balance_cut(const bgi_balance *balance, uint32_t *out_first, double *out_longest, bg_error *error);

/* When no cut fits, finds the cut (without refused stages) that exceeds the budgets least. */
bg_status bgi_balance_cut_tightly(const bgi_balance *balance, uint32_t *out_first, double *out_longest,
                                  bg_error *error);

/* Finds the smallest budget per stage for which some cut fits. */
bg_status bgi_balance_least_budget(const bgi_balance *balance, size_t *out_bytes, bg_error *error);

#endif
