/*
 * request.h: what a plan is made from, and the plan that holds nothing else yet (plan.c).
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

/* A plan that holds what the request alone says. */
bg_status bgi_plan_begin(const bgi_request *request, bg_plan **out, bg_error *error);
/* Replaces the plan by one that begins anew, but keeps its condition. After a failure *plan is NULL. */
bg_status bgi_plan_restart(const bgi_request *request, bg_plan **plan, bg_error *error);

#endif
