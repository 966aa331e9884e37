/*
 * build_case.h: helpers to test ops through the public builders, including all ops that a builder and its gradient
 * rules add. A case is a function that builds the op over some operands; the comparison with an oracle and the test of
 * error messages call it. (op_case.h compares one op, which is given as data, with the oracle.)
 */
#ifndef BGI_TEST_BUILD_CASE_H
#define BGI_TEST_BUILD_CASE_H

#include <brigade/ops.h>

#include "support/oracle.h"

typedef bg_value (*bgi_test_build)(bg_graph *graph, const bg_value *inputs, const void *argument);

/* Applies plain reverse mode to the whole graph: adds the ops that compute d sum(value * seed) / d wanted[i]. The
 * result is null if no gradient reaches wanted[i]. */
void bgi_test_derive(bg_graph *graph, bg_value value, bg_value seed, const bg_value *wanted, uint32_t count,
                     bg_value *gradients);

/* Builds the op over operands in0, in1, ... of the oracle's case in `dtype`, runs forward and backward with reference
 * kernels, and compares y and, if the oracle has a seed dy, the gradients d0, d1, ... */
void bgi_test_build_case(const bgi_test_oracle *oracle, const char *case_name, bg_dtype dtype, bgi_test_build build,
                         const void *argument, double absolute, double relative);

/* Calls bg_gradient_check with random operands in [low, high). */
void bgi_test_gradient(const bg_op_type *op_type, const void *attributes, const bg_type *types, uint32_t count,
                       double low, double high);

/* Checks that building over operands of these types fails with `status` and a message that contains `expected`. */
void bgi_test_build_fails(bgi_test_build build, const void *argument, const bg_type *types, uint32_t count,
                          bg_status status, const char *expected);

#endif
