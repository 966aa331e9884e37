/*
 * automatic.h: "auto:4" and "auto-ops:4": stages that nobody lists, cut by cost and memory.
 */
#ifndef BGI_PLAN_AUTOMATIC_H
#define BGI_PLAN_AUTOMATIC_H

#include "plan/compile.h"

/* Whether the text asks for automatic stages. */
bool bgi_stages_are_automatic(const char *text);

/* Replaces compiler->plan->options.stages by the stages as a text ("B1|B2,B3|B4"); splits blocks of compiler->graph (a
 * forward graph) where stages begin inside them. `loss` as for bgi_make_training. */
bg_status bgi_choose_stages(bgi_compiler *compiler, bg_value loss, bg_error *error);

#endif
