/*
 * ops.h: the library's op types, forward and backward, and the builders that only transforms use. The types are data
 * for whoever walks graphs (autodiff, fusion, sharding compare `op->type` with these addresses).
 */
#ifndef BGI_OPS_OPS_H
#define BGI_OPS_OPS_H

#include <brigade/ops.h>

#include "kernels/attributes.h"

/* The most operands of an op that takes any number: within the graph's limit. */
enum { BGI_MAXIMUM_VARIADIC = 60 };

/* ---- linear.c ---- */

extern const bg_op_type bgi_op_linear, bgi_op_linear_backward_input, bgi_op_linear_backward_weights;
extern const bg_op_type bgi_op_linear_backward_weights_accumulate;
extern const bg_op_type bgi_op_matmul;

/* ---- elementwise.c ---- */

extern const bg_op_type bgi_op_unary, bgi_op_unary_backward, bgi_op_binary, bgi_op_select_gradient;
extern const bg_op_type bgi_op_scale, bgi_op_cast, bgi_op_standardise;

/* ---- reduce.c ---- */

extern const bg_op_type bgi_op_reduce, bgi_op_reduce_max_backward, bgi_op_broadcast, bgi_op_argmax;

/* Sums `value` over the dims in which `type` was broadcast to it, and gives it `type`'s shape: how the gradient of a
 * broadcast operand comes back. `value` itself when the shapes are equal. */
bg_value bgi_reduce_to(bg_graph *graph, bg_value value, const bg_type *type);

/* ---- reshape.c ---- */

extern const bg_op_type bgi_op_reshape, bgi_op_transpose, bgi_op_slice, bgi_op_slice_backward, bgi_op_concat;
extern const bg_op_type bgi_op_copy;

/* x under the shape of `type` (its dtype does not matter). `x` itself when it has that shape. */
bg_value bgi_reshape_to(bg_graph *graph, bg_value x, const bg_type *type);
/* The same bytes in a buffer of their own. */
bg_value bgi_copy(bg_graph *graph, const char *name, bg_value x);

/* ---- accumulate.c, optimiser.c ---- */

extern const bg_op_type bgi_op_accumulate, bgi_op_add_n, bgi_op_sgd_update, bgi_op_adam_update;
extern const bg_op_type bgi_op_total_scale, bgi_op_running_factors, bgi_op_square_sum, bgi_op_gradient_norm,
    bgi_op_clip_scale;

/* values[0] + values[1] + ..., in order; one value is returned as it is. */
bg_value bgi_add_n(bg_graph *graph, const char *name, const bg_value *values, uint32_t count);
/* The accumulator variable takes the gradient at the first micro-batch of a step, and adds it at later ones. With
 * `factors` (else null): accumulator = accumulator x factors[0] + gradient x factors[1]. */
void bgi_accumulate(bg_graph *graph, const char *name, bg_value accumulator, bg_value gradient, bg_value factors);
/* A scalar -> float32 scalar factor / total; 0 when total is 0. */
bg_value bgi_total_scale(bg_graph *graph, const char *name, bg_value total, double factor);
/* The factors of a running mean: total is a float32 scalar variable to which weight (float32 scalar; null: 1) is added,
 * from 0 at a step's first micro-batch. At its last, of `micro_batches`, with `ends_in_sum`, they make the mean so far
 * times the total. */
bg_value bgi_running_factors(bg_graph *graph, const char *name, bg_value total, bg_value weight, uint32_t micro_batches,
                             bool ends_in_sum);
/* The sum of x's squares: a float64 scalar. */
bg_value bgi_square_sum(bg_graph *graph, const char *name, bg_value x);
/* |scale| sqrt(squares); float32 scalar. */
bg_value bgi_gradient_norm(bg_graph *graph, const char *name, bg_value squares, bg_value scale);
/* scale x maximum / max(norm, maximum), with that norm in float64; float32 scalar. */
bg_value bgi_clip_scale(bg_graph *graph, const char *name, bg_value squares, bg_value scale, double maximum);
/* hyper: float64 [BGI_HYPER_COUNT]; scale: float32 scalar; velocity null: no momentum. */
void bgi_sgd_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                    bg_value scale, bg_value velocity, const bgi_sgd_attributes *attributes);
void bgi_adam_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                     bg_value scale, bg_value m, bg_value v, const bgi_adam_attributes *attributes);

/* ---- conv.c, conv_pool.c, pool.c ---- */

extern const bg_op_type bgi_op_conv2d;
extern const bg_op_type bgi_op_conv2d_backward_input, bgi_op_conv2d_backward_weights;
extern const bg_op_type bgi_op_conv2d_backward_weights_accumulate;
/* conv2d, max_pool2d and relu as one. Fusion makes it; it has no public builder. */
extern const bg_op_type bgi_op_conv2d_pool;
extern const bg_op_type bgi_op_conv2d_pool_backward_input, bgi_op_conv2d_pool_backward_weights;
extern const bg_op_type bgi_op_conv2d_pool_backward_weights_accumulate;
extern const bg_op_type bgi_op_max_pool2d, bgi_op_max_pool2d_backward;
extern const bg_op_type bgi_op_avg_pool2d, bgi_op_avg_pool2d_backward;

/* ---- softmax.c, norm.c, embedding.c, dropout.c ---- */

extern const bg_op_type bgi_op_softmax, bgi_op_softmax_backward;
extern const bg_op_type bgi_op_log_softmax, bgi_op_log_softmax_backward;
extern const bg_op_type bgi_op_layer_norm, bgi_op_layer_norm_backward;
extern const bg_op_type bgi_op_batch_norm, bgi_op_batch_norm_backward;
extern const bg_op_type bgi_op_embedding, bgi_op_embedding_backward;
extern const bg_op_type bgi_op_dropout; /* its gradient is itself */

/* ---- attention.c ---- */

extern const bg_op_type bgi_op_attention, bgi_op_attention_backward;

/* ---- loss.c ---- */

extern const bg_op_type bgi_op_cross_entropy, bgi_op_cross_entropy_backward;
extern const bg_op_type bgi_op_mse, bgi_op_mse_backward;
extern const bg_op_type bgi_op_correct_count;

#endif
