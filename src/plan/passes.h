/*
 * passes.h: declares the driver of the compiler's passes (passes.def).
 */
#ifndef BGI_PLAN_PASSES_H
#define BGI_PLAN_PASSES_H

#include "plan/compile.h"

typedef enum bgi_pass_group { BGI_PASSES_FRONT = 0, BGI_PASSES_LOWER, BGI_PASSES_FINISH } bgi_pass_group;

/* Runs the passes of a group that apply to the compiler's plan. If passes are verified (BGI_VERIFY_PASSES, as in
 * sanitizer builds), the results of a pass are checked before the next one begins. Passes the text of
 * options.reporting.dump_after to options.reporting.dump, except in trials. */
bg_status bgi_passes_run(bgi_compiler *compiler, bgi_pass_group group, bg_error *error);

/* Returns BG_ERROR_NOT_FOUND, with the names of all passes, when options.reporting.dump_after names no pass. */
bg_status bgi_passes_check_dump(const bg_options *options, bg_error *error);

#endif
