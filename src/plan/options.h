/*
 * options.h: the check that every option is in its range, before anything is made of them.
 */
#ifndef BGI_PLAN_OPTIONS_H
#define BGI_PLAN_OPTIONS_H

#include <brigade/options.h>

/* BG_ERROR_INVALID with every problem in one message, each with the reason and the remedy. What depends on the graph
 * (names of stages, of outputs) is not looked at. */
bg_status bgi_options_validate(const bg_options *options, bool training, bg_error *error);

#endif
