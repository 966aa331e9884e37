/*
 * shape.h: declares the checks that shape rules share. Errors name the wrong operand, its type and what would be right.
 * `operand` is the operand's name in the public interface; `because` is the reason that ends the message. (The ops that
 * change shapes are in reshape.c.)
 */
#ifndef BGI_OPS_SHAPE_H
#define BGI_OPS_SHAPE_H

#include <brigade/graph.h>
#include <brigade/ops.h>

#include "core/error.h"
#include "kernels/kernels.h"

bg_status bgi_shape_float(const bg_type *type, const char *operand, bg_error *error);
/* Checks for a float type, int32 or int64. */
bg_status bgi_shape_number(const bg_type *type, const char *operand, bg_error *error);
bg_status bgi_shape_dtype(const bg_type *type, const char *operand, bg_dtype wanted, const char *because,
                          bg_error *error);
bg_status bgi_shape_same_dtype(const bg_type *a, const char *operand_a, const bg_type *b, const char *operand_b,
                               bg_error *error);
bg_status bgi_shape_rank(const bg_type *type, const char *operand, uint32_t wanted, const char *layout,
                         bg_error *error);
bg_status bgi_shape_minimum_rank(const bg_type *type, const char *operand, uint32_t least, const char *layout,
                                 bg_error *error);
bg_status bgi_shape_dim(const bg_type *type, const char *operand, uint32_t dim, int64_t wanted, const char *because,
                        bg_error *error);
/* Compares element type and shape; the second function compares only the shape. */
bg_status bgi_shape_equal(const bg_type *type, const char *operand, const bg_type *wanted, const char *because,
                          bg_error *error);
bg_status bgi_shape_same_dims(const bg_type *type, const char *operand, const bg_type *wanted, const char *because,
                              bg_error *error);
/* Checks logits [..., C] and integer labels [...] (defined in loss.c). */
bg_status bgi_shape_labels(const bg_type *logits, const bg_type *labels, bg_error *error);
bg_status bgi_shape_reduction(bg_loss_reduction reduction, bg_error *error);
/* Converts an axis that may count from the end to 0 .. rank-1. */
bg_status bgi_shape_axis(const bg_type *type, const char *operand, int32_t axis, uint32_t *out_axis, bg_error *error);
/* Broadcasts by NumPy's rule all dims of both types except the last `kept` ones: *out gets a's dtype and the broadcast
 * dims, followed by `kept` dims for the caller to fill. */
bg_status bgi_shape_broadcast(const bg_type *a, const char *operand_a, const bg_type *b, const char *operand_b,
                              uint32_t kept, bg_type *out, bg_error *error);
bool bgi_type_same_dims(const bg_type *a, const bg_type *b);

/* Returns the element type of statistics and losses over elements of `dtype`: float32, or float64 for float64. */
bg_dtype bgi_statistics_dtype(bg_dtype dtype);
/* Returns `type` without its last dim, with element type `dtype`. */
bg_type bgi_type_rows(const bg_type *type, bg_dtype dtype);
double bgi_type_elements(const bg_type *type); /* 0 for a missing operand */
/* Counts every operand as read or written once. */
bg_cost bgi_cost_once(const bg_op_signature *op, double flops);

/* Converts an axis for builders and records a failure in the graph. A null x passes, because bg_graph_add refuses
 * it. */
bool bgi_graph_axis(bg_graph *graph, const bg_op_type *op_type, const char *name, bg_value x, int32_t axis,
                    uint32_t *out_axis);

/* Finds the gradient of output 0, for ops whose only differentiable output it is; if the gradient is missing, the error
 * explains why. */
bg_status bgi_gradient_of_result(const bg_op_gradient *gradient, bg_value *out, bg_error *error);

/* Defines the `kernel` function of an op type that always uses the same row of the table of kernels. */
#define BGI_OP_KERNEL(function, id)                                                                                    \
    static bg_status function(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)     \
    {                                                                                                                  \
        return bgi_kernel_for_op(BGI_KERNEL_##id, op, policy, out, error);                                             \
    }

#endif
