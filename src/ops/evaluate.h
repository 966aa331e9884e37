/*
 * evaluate.h: runs ops of a graph one after another with reference kernels, without a plan or threads; every value has
 * a buffer. The gradient checker and the tests' interpreter use these functions.
 */
#ifndef BGI_OPS_EVALUATE_H
#define BGI_OPS_EVALUATE_H

#include "graph/graph.h"

/* Runs ops first_op..end_op - 1. buffers[id] holds value `id` (64-byte aligned, of its type's size); the operands of
 * those ops must have buffers. */
bg_status bgi_evaluate(const bg_graph *graph, uint32_t first_op, uint32_t end_op, const bg_kernel_env *env,
                       void *const *buffers, bg_error *error);

/* Allocates a zeroed buffer for every current value of the graph and fills in constants. */
bg_status bgi_evaluate_create_buffers(const bg_graph *graph, void ***out, bg_error *error);
void bgi_evaluate_destroy_buffers(const bg_graph *graph, void **buffers);

#endif
