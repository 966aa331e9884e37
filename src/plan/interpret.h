/*
 * interpret.h: runs a plan of one device in the thread that asks, op by op: loops inside graphs, and conditions before
 * a first iteration. For plans of bgi_interpretable_options without slots: forward only, one micro-batch.
 */
#ifndef BGI_PLAN_INTERPRET_H
#define BGI_PLAN_INTERPRET_H

#include "plan/plan.h"

/* The memory of such a plan, malloc'ed, with its constants; NULL when memory is out. */
void *bgi_interpret_memory(const bg_plan *plan);
/* Puts the constants into memory that somebody else has taken: devices[0].arena_bytes, 64-byte aligned. */
void bgi_interpret_begin(const bg_plan *plan, void *memory);
/* One iteration. `inputs`: by input of the plan. *out_value: output `output` as a number; left alone when there is no
 * such output. */
void bgi_interpret_step(const bg_plan *plan, void *memory, const void *const *inputs, const bg_kernel_env *env,
                        uint32_t output, double *out_value);
/* The condition of a while loop for carried values. */
void bgi_interpret_condition(const bg_plan *condition, void *memory, const void *const *values, double *out_value);

#endif
