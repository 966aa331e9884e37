/*
 * toy_plan.h: small plans, written by hand, for tests of the runtime: a chain of stages that multiply by a weight
 * vector, its backward pass, sums over micro-batches and replicas, and a plain update. Any other order of sums changes
 * the results. Loops without devices, plans or threads compute the same results.
 *
 *     F of stage k:  y = x w_k + (k + 1) / 16 + micro-batch / 64        stash x (the last stage: y too)
 *     B of stage k:  dx = dy w_k,  a_k += dy x                           (the last stage: dy = y)
 *     U of stage k:  w_k -= rate (1 + step / 8) a_k / (M R)
 */
#ifndef TESTS_SUPPORT_TOY_PLAN_H
#define TESTS_SUPPORT_TOY_PLAN_H

#include "plan/plan.h"

enum { TOY_WIDTH = 48, TOY_MOST_STAGES = 8 };

typedef struct toy_options {
    const char *generator; /* default: interleaved */
    uint32_t stage_count, device_count;
    uint32_t micro_batches, iterations, replicas;
    bool inference;
    bool updates_pieces; /* each replica updates a shard of the weights, then all shards are gathered */
    bool reduces_whole;  /* each replica still gets the whole sum */
    bool copies_sends;   /* messages are written to a local buffer and copied by SEND */
    uint32_t part_count; /* the parts of the kernels; a divisor of TOY_WIDTH */
    uint32_t cores;
    bool trace;
    double wait_limit_s;
    bg_output_mode output_mode; /* the output mode of "y", the last stage's result */
    uint32_t output_period;
    bg_kernel_function forward, backward; /* kernels that replace those of the toy model, for tests of time */
    void *state;                          /* of these */
} toy_options;

toy_options toy_defaults(void);
/* Returns NULL if memory is insufficient or the options are invalid. */
bg_plan *toy_plan_create(const toy_options *options);
void toy_plan_destroy(bg_plan *plan);
/* Returns the instructions of a device, which a test may change. */
bgi_instruction *toy_instructions(bg_plan *plan, uint32_t device);

float toy_first_weight(uint32_t stage, uint32_t element);
float toy_input(uint64_t micro_batch, uint32_t element);
/* Computes the same as a plan: changes `weights` [stage][TOY_WIDTH] in place and writes every y to `outputs`
 * [iteration][micro-batch][replica][TOY_WIDTH]. `step` is the step of the first iteration. Inputs are toy_input(0),
 * toy_input(1), ... in the caller's order. */
void toy_compute(const toy_options *options, uint64_t step, float *weights, float *outputs);

#endif
