/*
 * op_case.h: compares one op with the oracle: its outputs, its changes in place, and the results of its gradient rule,
 * by the reference interpreter. Tensors are found by name: gradients of operand "x" as "dx", a changed operand
 * "running_mean" as "running_mean_after", the gradient of output 0 as "dy".
 */
#ifndef BGI_TEST_OP_CASE_H
#define BGI_TEST_OP_CASE_H

#include <brigade/graph.h>

#include "support/oracle.h"

enum { BGI_TEST_OP_INPUTS = 8, BGI_TEST_OP_OUTPUTS = 4 };

typedef struct bgi_test_op_case {
    const char *name; /* in the oracle */
    const bg_op_type *op_type;
    const void *attributes;
    const char *inputs[BGI_TEST_OP_INPUTS];   /* the oracle's tensors; NULL ends the list */
    const char *outputs[BGI_TEST_OP_OUTPUTS]; /* NULL: not compared */
    const char *integers;                     /* the input that holds integers, or NULL */
    bg_dtype integer_dtype;
    bool is_inference; /* no gradients */
    bool has_kinks;    /* central differences are taken at random operands, where no two elements are equal */
} bgi_test_op_case;

/* Float operands become `dtype`. Gradients are left out where rounding may change them altogether (which of two nearly
 * equal elements is the largest). */
void bgi_test_op_case_run(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bg_dtype dtype, double absolute,
                          double relative, bool with_gradients);

/* Both float types that are exact enough for tight bounds, and bfloat16 (its 8 bits, a few roundings) without gradients
 * if asked so. */
void bgi_test_op_case_run_all(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bool bfloat16_gradients);

/* Compares the gradient rule with central differences, on the oracle's operands (or random ones) in float64. */
void bgi_test_op_case_check_gradient(const bgi_test_oracle *oracle, const bgi_test_op_case *test);

/* The shape rule refuses these operands, with a message that has all of the given parts (NULL ends). */
void bgi_test_op_refuses(const bg_op_type *op_type, const void *attributes, const bg_type *types, uint32_t input_count,
                         bg_status status, const char *const *parts);

#endif
