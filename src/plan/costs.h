/*
 * costs.h: estimates how long ops take before anything is measured.
 */
#ifndef BGI_PLAN_COSTS_H
#define BGI_PLAN_COSTS_H

#include <brigade/schedule.h>

#include "transform/transform.h"

/* The FLOPs per nanosecond that one core of a current server achieves with small kernels, and the overhead of a kernel
 * call in nanoseconds. */
#define BGI_MODEL_FLOPS_PER_NS 80.0
#define BGI_MODEL_CALL_NS      300.0
/* Bytes per nanosecond between devices in the device model. */
#define BGI_MODEL_BYTES_PER_NS 20.0
/* Bytes per nanosecond between a device and its remote store. */
#define BGI_MODEL_REMOTE_BYTES_PER_NS 8.0

/* Adds the costs of one micro-batch (and of the update) to costs[stage of the partition], and its floating-point
 * operations to *flops (may be NULL). Blocks that the option block_costs names have their measured costs; a name that
 * is not in the graph is an error. */
bg_status bgi_estimate_costs(const bg_graph *graph, const bgi_partition *partition, const bg_options *options,
                             bg_stage_cost *costs, double *flops, bg_error *error);
/* Returns the time of one op by the device model. */
double bgi_estimate_op_ns(const bg_graph *graph, const bgi_op *op);

#endif
