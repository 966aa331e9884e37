/*
 * store.h: a plan's programs, memory and schedule as bytes, and back. What options and the caller's graph say is not in
 * them: a plan is read into one that was begun with the same options for the same graph, and op types and kernels are
 * found anew.
 */
#ifndef BGI_PLAN_STORE_H
#define BGI_PLAN_STORE_H

#include "core/archive.h"
#include "graph/graph.h"
#include "plan/plan.h"

/* Writes or reads, as the archive says. Writing: BG_ERROR_UNSUPPORTED when the plan has ops of types that could not be
 * found again, BG_ERROR_MEMORY. Reading: BG_ERROR_PARSE when the bytes are no plan, or none that passes every check
 * (bgi_plan_check, the proof of its schedule); the plan may then be destroyed and is good for nothing else. */
bg_status bgi_plan_visit(bgi_archive *archive, bg_plan *plan, const bg_graph *graph, bg_error *error);

#endif
