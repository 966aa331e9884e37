/*
 * describe.h: declares functions of describe.c for other files of src/plan.
 */
#ifndef BGI_PLAN_DESCRIBE_H
#define BGI_PLAN_DESCRIBE_H

#include "plan/compile.h"

/* Returns BG_ERROR_BUDGET. Its message names the device that is furthest over its budget, the bytes that it needs and
 * has, its largest values and a remedy, and ends with the table of all devices. `plan` is that of `compiler` or of one
 * of its trials. */
bg_status bgi_describe_over_budget(const bgi_compiler *compiler, const bg_plan *plan, bg_error *error);

#endif
