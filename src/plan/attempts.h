/*
 * attempts.h: makes a plan from a request, trying other automatic stages until the budgets are met.
 */
#ifndef BGI_PLAN_ATTEMPTS_H
#define BGI_PLAN_ATTEMPTS_H

#include "plan/cache.h"

/* Compiles the plan that bgi_plan_begin made. It tries one cut into automatic stages after another until the plan is
 * within the budgets. When no cut fits, the log messages are those of the first attempt, and the error is that of the
 * first attempt or, if the choice of stages shows that no cut can fit, its error. `*plan` may be replaced; after a
 * failure it is NULL, or the caller must destroy it. */
bg_status bgi_attempt_plans(const bgi_request *request, bgi_cache *cache, bg_plan **plan, bg_error *error);

#endif
