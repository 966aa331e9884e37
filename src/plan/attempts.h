/*
 * attempts.h: a plan from a request by as many attempts as automatic stages take to meet the budgets.
 */
#ifndef BGI_PLAN_ATTEMPTS_H
#define BGI_PLAN_ATTEMPTS_H

#include "plan/cache.h"

/* Compiles the plan, which bgi_plan_begin made, with one cut of automatic stages after the other until one is within
 * the budgets. When none is, error and log messages are those of the first attempt. `*plan` may be replaced; after a
 * failure it is NULL or to be destroyed. */
bg_status bgi_attempt_plans(const bgi_request *request, bgi_cache *cache, bg_plan **plan, bg_error *error);

#endif
