/*
 * interpret.h: the reference interpreter runs a whole graph op by op with reference kernels and without a plan. Every
 * other way of running a graph is compared with it. Any error fails the test (cmocka).
 */
#ifndef BGI_TEST_INTERPRET_H
#define BGI_TEST_INTERPRET_H

#include <brigade/graph.h>

typedef struct bgi_test_interpreter {
    const bg_graph *graph;
    bg_kernel_env env; /* the caller may change it between runs */
    void **buffers;    /* by value id; zero at first, constants filled */
} bgi_test_interpreter;

/* Allocates buffers for all values. The graph must be complete: values that are added later have no buffers. */
void bgi_test_interpreter_init(bgi_test_interpreter *interpreter, const bg_graph *graph);
void bgi_test_interpreter_clear(bgi_test_interpreter *interpreter);

/* Returns a value's bytes, to read or to fill (inputs and variables). */
void *bgi_test_data(const bgi_test_interpreter *interpreter, bg_value value);
/* Reads and writes the bytes element by element as doubles. */
void bgi_test_set(const bgi_test_interpreter *interpreter, bg_value value, const double *elements);
void bgi_test_get(const bgi_test_interpreter *interpreter, bg_value value, double *elements);
/* Runs all ops in order. */
void bgi_test_interpret(bgi_test_interpreter *interpreter);

#endif
