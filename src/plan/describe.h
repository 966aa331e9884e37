/*
 * describe.h: what the room itself needs of describe.c.
 */
#ifndef BGI_PLAN_DESCRIBE_H
#define BGI_PLAN_DESCRIBE_H

#include "plan/plan.h"

/* BG_ERROR_BUDGET names the device, what it needs and has, its largest values and the remedy, followed by the whole
 * table. `device` UINT32_MAX: the one that is furthest over its budget. */
bg_status bgi_describe_over_budget(const bg_plan *plan, uint32_t device, bg_error *error);

#endif
