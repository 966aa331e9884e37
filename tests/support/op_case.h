/*
 * op_case.h: compares one op's outputs, its changes in place and the results of its gradient rule, all computed by the
 * reference interpreter, with the oracle. Tensors are found by name: the gradient of operand "x" is "dx", a changed
 * operand "running_mean" is "running_mean_after", and the gradient of output 0 is "dy".
 */
#ifndef BGI_TEST_OP_CASE_H
#define BGI_TEST_OP_CASE_H

#include <brigade/graph.h>

#include "support/oracle.h"

enum { BGI_TEST_OP_INPUTS = 8, BGI_TEST_OP_OUTPUTS = 4 };

typedef struct bgi_test_op_case {
    const char *name; /* the name of the case in the oracle */
    const bg_op_type *op_type;
    const void *attributes;
    const char *inputs[BGI_TEST_OP_INPUTS];   /* the oracle's tensors; NULL ends the list */
    const char *outputs[BGI_TEST_OP_OUTPUTS]; /* NULL: not compared */
    const char *integers;                     /* the input that holds integers, or NULL */
    bg_dtype integer_dtype;
    bool is_inference; /* no gradients */
    bool has_kinks;    /* central differences use random operands, in which no two elements are equal */
} bgi_test_op_case;

/* Compares one case, with float operands of type `dtype`. Gradients are left out if rounding may change them completely
 * (which of two nearly equal elements is the largest). */
void bgi_test_op_case_run(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bg_dtype dtype, double absolute,
                          double relative, bool with_gradients);

/* Tests float32 and float64 with tight bounds, and on request bfloat16 (8 bits) without gradients. */
void bgi_test_op_case_run_all(const bgi_test_oracle *oracle, const bgi_test_op_case *test, bool bfloat16_gradients);

/* Compares the gradient rule with central differences, on the oracle's operands (or random ones) in float64. */
void bgi_test_op_case_check_gradient(const bgi_test_oracle *oracle, const bgi_test_op_case *test);

/* Checks that the shape rule rejects these operands with a message that has all of the given parts (NULL ends the
 * list). */
void bgi_test_op_refuses(const bg_op_type *op_type, const void *attributes, const bg_type *types, uint32_t input_count,
                         bg_status status, const char *const *parts);

#endif
