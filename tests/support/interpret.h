/*
 * interpret.h: the reference interpreter: runs a whole graph op by op with reference kernels, no plan. The reference
 * for every other way of running a graph. Fails the test (cmocka) on any error.
 */
#ifndef BGI_TEST_INTERPRET_H
#define BGI_TEST_INTERPRET_H

#include <brigade/graph.h>

typedef struct bgi_test_interpreter {
    const bg_graph *graph;
    bg_kernel_env env; /* the caller's to change between runs */
    void **buffers;    /* by value id; zero at first, constants filled */
} bgi_test_interpreter;

/* The graph must be complete: values that are added later have no buffers. */
void bgi_test_interpreter_init(bgi_test_interpreter *interpreter, const bg_graph *graph);
void bgi_test_interpreter_clear(bgi_test_interpreter *interpreter);

/* A value's bytes, to read or to fill (inputs and variables). */
void *bgi_test_data(const bgi_test_interpreter *interpreter, bg_value value);
/* The same element by element through double. */
void bgi_test_set(const bgi_test_interpreter *interpreter, bg_value value, const double *elements);
void bgi_test_get(const bgi_test_interpreter *interpreter, bg_value value, double *elements);
/* All ops, in order. */
void bgi_test_interpret(bgi_test_interpreter *interpreter);

#endif
