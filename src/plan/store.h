/*
 * store.h: converts a plan's programs, memory and schedule to bytes and back. The bytes contain neither options nor the
 * caller's graph. A reader begins a plan with the same options for the same graph, reads the bytes into it, and looks
 * up op types and kernels again.
 */
#ifndef BGI_PLAN_STORE_H
#define BGI_PLAN_STORE_H

#include "core/archive.h"
#include "graph/graph.h"
#include "plan/plan.h"

/* Writes or reads, depending on the archive. Errors of writing: BG_ERROR_UNSUPPORTED when the plan has ops of types
 * that a reader could not find again, BG_ERROR_MEMORY. Errors of reading: BG_ERROR_PARSE when the bytes are not a plan
 * or bgi_plan_check rejects the plan, BG_ERROR_MEMORY. After an error of reading the plan may only be destroyed. */
bg_status bgi_plan_visit(bgi_archive *archive, bg_plan *plan, const bg_graph *graph, bg_error *error);

#endif
