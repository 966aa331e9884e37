/*
 * loop.h: loops on the devices: a body that runs repeatedly without the host.
 *
 *     carried values --> body --> new carried values --> body --> ... --> last carried values
 *                         ^ infeed  | outfeed
 *
 * The body is a graph. Some of its inputs are carried: the body computes their next values in one iteration and reads
 * them in the next iteration. Its other inputs come from the infeed in each iteration, or stay the same
 * (bg_run.constants). bg_plan_create_loop makes a plan of a loop; run the plan with bg_session_execute (feed.h).
 * Training loops need no carried values: use bg_plan_create_training with device iterations.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors of bg_graph_loop stay in the graph, and bg_graph_check returns the first: BG_ERROR_INVALID for a number of
 * operands or carried values that does not fit the body, a body with a variable, or a loop without an end;
 * BG_ERROR_SHAPE for an operand whose type differs from that of the body's input; BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_LOOP_H
#define BRIGADE_LOOP_H

#include <brigade/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BG_LOOP_MOST_CARRIED = 16 };

typedef struct bg_loop {
    size_t struct_bytes; /* 0, or sizeof(bg_loop): see base.h */
    uint32_t carried_count;
    bg_value carried[BG_LOOP_MOST_CARRIED]; /* inputs of the body */
    bg_value results[BG_LOOP_MOST_CARRIED]; /* their next values; types equal those of the inputs */
    uint64_t iterations;                    /* UINT64_MAX (BG_ENDLESS): no limit */
    /* For a while loop: a graph whose inputs have the types of the carried values, in their order, and whose one output
     * is a scalar. The loop continues while the scalar is above 0, for at most `iterations` iterations. NULL: the loop
     * runs `iterations` times. */
    const bg_graph *condition;
} bg_loop;

/* Make a loop that runs `iterations` times, and a while loop. `carried` and `results` have `count` elements. If count
 * is above BG_LOOP_MOST_CARRIED, making the plan fails. */
BG_API bg_loop bg_repeat(uint64_t iterations, const bg_value *carried, const bg_value *results, uint32_t count);
BG_API bg_loop bg_while(const bg_graph *condition, uint64_t most_iterations, const bg_value *carried,
                        const bg_value *results, uint32_t count);

/*
 * Makes the plan of a loop. Graphs are copied. options->execution.device_iterations and gradient_accumulation must be
 * 1, because the loop sets the number of iterations. A run returns outputs of the body by their output modes (default:
 * final). The stage that reads a carried value must also compute its next value. Errors: BG_ERROR_INVALID for a carried
 * value that is not an input of the body or is listed twice, for more than BG_LOOP_MOST_CARRIED carried values, for a
 * condition with a variable or with another output than one scalar, for device_iterations other than 1, and for 2^32 or
 * more iterations that are not BG_ENDLESS; BG_ERROR_SHAPE for a next value, or an input of the condition, whose type
 * differs from that of the carried value; otherwise as bg_plan_create_inference.
 */
BG_API bg_status bg_plan_create_loop(const bg_graph *body, const bg_loop *loop, const bg_options *options,
                                     bg_plan **out, bg_error *error);

/*
 * Adds a loop as an op to a graph, which may be the body of another loop. `inputs` are the values for the body's
 * inputs, in the body's order. Inputs of the body that are not carried have the same value in all iterations.
 * outputs[i] receives carried value i after the last iteration. The body has no variables, marks no outputs for the
 * host, and is borrowed until all plans of the graph are made, as is the condition. A loop op runs on one core. The op
 * has no gradient: training fails if one is needed.
 */
BG_API void bg_graph_loop(bg_graph *graph, const char *name, const bg_graph *body, const bg_loop *loop,
                          const bg_value *inputs, uint32_t input_count, bg_value *outputs);

#ifdef __cplusplus
}
#endif

#endif
