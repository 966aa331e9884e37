/*
 * plan_check.h: proves that a plan is correct without running a kernel. Memory holds hashes instead of numbers: each
 * call writes a hash of the op and of the values that it reads. Variables and host must receive the same hashes as from
 * evaluating the graph op by op. A call that overwrites a value that is still needed, a slot that is reused too early,
 * or an update that comes too late changes a hash that a later call reads.
 *
 * All values occupy lines of 64 bytes, so memory is a table of lines; reading a value of which a part was overwritten
 * fails at once.
 */
#ifndef BGI_TEST_PLAN_CHECK_H
#define BGI_TEST_PLAN_CHECK_H

#include "plan/plan.h"

typedef enum bgi_test_turns {
    BGI_TEST_TURNS_FIRST = 0, /* runs the first device that can continue, until it must wait */
    BGI_TEST_TURNS_LAST,
    BGI_TEST_TURNS_RANDOM,
    BGI_TEST_TURNS_COUNT
} bgi_test_turns;

/* Runs `steps` steps of the plan with every order of devices and compares with the graph (as the user built it; `loss`
 * is null for inference). Checks memory classes too. Fails the test on any difference. `what` names the case in
 * messages.
 */
void bgi_test_check_plan(const bg_plan *plan, const bg_graph *graph, bg_value loss, uint32_t steps, uint64_t seed,
                         const char *what);

/* Compiles and checks; a failure to compile fails the test. Optimizer: AdamW (two states) for training. */
void bgi_test_check_training(const bg_graph *graph, bg_value loss, const bg_options *options, const char *what);
void bgi_test_check_inference(const bg_graph *graph, const bg_options *options, const char *what);

#endif
