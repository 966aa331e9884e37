/*
 * request.h: declares the request from which a plan is compiled, and functions that create a plan with only the request
 * (plan.c).
 */
#ifndef BGI_PLAN_REQUEST_H
#define BGI_PLAN_REQUEST_H

#include <brigade/loop.h>

#include "plan/plan.h"

typedef struct bgi_request {
    const bg_graph *graph;
    bool training;
    bg_value loss;
    const bg_optimizer *optimizer; /* NULL: none */
    const bg_loop *loop;           /* NULL: none */
    const bg_options *options;
} bgi_request;

/* Creates a plan that contains only the request. */
bg_status bgi_plan_begin(const bgi_request *request, bg_plan **out, bg_error *error);
/* Replaces the plan with a new one from the request, but keeps its condition. After a failure *plan is NULL. */
bg_status bgi_plan_restart(const bgi_request *request, bg_plan **plan, bg_error *error);

#endif
