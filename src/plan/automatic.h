/*
 * automatic.h: "auto:4" and "auto-ops:4": stages that nobody lists, cut by cost and memory.
 */
#ifndef BGI_PLAN_AUTOMATIC_H
#define BGI_PLAN_AUTOMATIC_H

#include "plan/balance.h"
#include "plan/compile.h"

/* Cuts of one request until one is within the budgets. The cut counts no transients, messages and the like; a plan that
 * was made does. All zero at first. */
typedef struct bgi_cuts {
    bgi_arena arena;
    bg_error first_error; /* why the first one does not fit */
    uint32_t tries, most_tries;
    /* the newest cut, by stage */
    uint32_t stage_count;
    uint32_t *first; /* items; one more, the end. NULL: there is no cut yet */
    uint32_t *stage_devices;
    size_t *counted_bytes;
    /* what plans have shown */
    size_t *missed_bytes; /* by stage: what was not counted for it */
    bgi_refused_stage *refused;
    uint32_t refused_count;
} bgi_cuts;

/* From a plan that is over its budgets: true when another cut may be tried. */
bool bgi_cuts_record_overrun(bgi_cuts *cuts, const bg_plan *plan);
void bgi_cuts_clear(bgi_cuts *cuts);

/* Whether the text asks for automatic stages. */
bool bgi_stages_are_automatic(const char *text);

/* Replaces compiler->plan->options.execution.stages by the stages as a text ("B1|B2,B3|B4"); splits blocks of
 * compiler->graph (a forward graph) where stages begin inside them. `loss` as for bgi_make_training. A cut that `cuts`
 * knows not to fit is not chosen again. */
bg_status bgi_choose_stages(bgi_compiler *compiler, bg_value loss, bgi_cuts *cuts, bg_error *error);

#endif
