/*
 * automatic.h: chooses stages by cost and memory, for "auto:4" and "auto-ops:4".
 */
#ifndef BGI_PLAN_AUTOMATIC_H
#define BGI_PLAN_AUTOMATIC_H

#include "plan/balance.h"
#include "plan/compile.h"

/* The cuts of one request, which are tried until one is within the budgets. A cut is chosen without counting transients
 * and messages; a plan that is made from the cut counts them. The struct begins zeroed. */
typedef struct bgi_cuts {
    bgi_arena arena;
    bg_error bound_error; /* no cut can fit, because of bytes that stay on the devices under every cut */
    bg_error first_error; /* why the plan of the first cut does not fit */
    uint32_t tries, most_tries;
    bool cuts_blocks; /* stages may begin inside blocks */
    /* the newest cut: stages, and their first items */
    uint32_t stage_count;
    uint32_t *first; /* items, then the number of items; NULL: no cut yet */
    uint32_t *stage_devices;
    size_t *counted_bytes;
    /* learned from plans that exceeded a budget */
    size_t *missed_bytes; /* by stage: bytes that were not counted for it */
    bgi_refused_stage *refused;
    uint32_t refused_count;
} bgi_cuts;

/* Learns from a plan that exceeds its budgets; returns true when another cut may be tried. */
bool bgi_cuts_record_overrun(bgi_cuts *cuts, const bg_plan *plan);
void bgi_cuts_clear(bgi_cuts *cuts);

/* Whether the text asks for automatic stages. */
bool bgi_stages_are_automatic(const char *text);

/* Replaces compiler->plan->options.execution.stages by a string of the stages ("B1|B2,B3|B4"). Splits blocks of
 * compiler->graph (a forward graph) where stages begin inside them. `loss` is the loss that bgi_make_training gets.
 * Does not choose a cut that `cuts` records as too large. */
bg_status bgi_choose_stages(bgi_compiler *compiler, bg_value loss, bgi_cuts *cuts, bg_error *error);

#endif
