/*
 * ops.h: declares the library's op types, forward and backward, and the builders that only transforms use. Passes over
 * graphs (autodiff, fusion, sharding) compare `op->type` with the addresses of these types.
 */
#ifndef BGI_OPS_OPS_H
#define BGI_OPS_OPS_H

#include <brigade/ops.h>

#include "kernels/loss_scaling/attributes.h"
#include "kernels/optimizer/attributes.h"

/* The largest number of operands of a variadic op, which is below the graph's limit. */
enum { BGI_MAXIMUM_VARIADIC = 60 };

/* A list of all op types of src/ops, without their prefix bgi_op_. The plan cache finds the types by name. */
/* clang-format off */
#define BGI_OP_TYPES(OP) \
    /* linear.c */ \
    OP(linear) OP(linear_backward_input) OP(linear_backward_weights) OP(linear_backward_weights_accumulate) \
    OP(matmul) OP(matmul_accumulate) \
    /* fused_product.c: one of the products above and the op that follows it; plans make it from graphs */ \
    OP(fused_product) \
    /* quantized.c: linear, matmul and embedding over weights in fewer bits; plans make them from graphs */ \
    OP(quantized_linear) OP(quantized_embedding) \
    /* elementwise.c */ \
    OP(unary) OP(unary_backward) OP(binary) OP(select_gradient) OP(scale) OP(cast) OP(standardize) \
    /* compare.c */ \
    OP(compare) OP(where) OP(where_gradient) \
    /* reduce.c */ \
    OP(reduce) OP(reduce_max_backward) OP(broadcast) OP(argmax) \
    /* reshape.c */ \
    OP(reshape) OP(transpose) OP(slice) OP(slice_backward) OP(roll) OP(concat) OP(copy) OP(stop_gradient) \
    /* index.c */ \
    OP(gather) OP(scatter) OP(gather_elements) OP(scatter_elements) OP(top_k) OP(one_hot) \
    /* rms_norm.c */ \
    OP(rms_norm) OP(rms_norm_backward) \
    /* pad.c, cumulative.c */ \
    OP(pad) OP(pad_backward) OP(cumulative_sum) \
    /* accumulate.c, optimizer.c, loss_scaling.c */ \
    OP(accumulate) OP(accumulate_tree) OP(add_n) OP(scaled_sum) OP(sgd_update) OP(adam_update) OP(rmsprop_update) OP(lamb_moments) OP(lamb_update) OP(total_scale) OP(running_factors) OP(square_sum) \
    OP(gradient_norm) OP(clip_scale) OP(range_count) OP(loss_scale) OP(loss_guard) \
    /* conv_transpose.c */ \
    OP(conv_transpose2d) \
    /* resample.c */ \
    OP(resample) \
    /* conv.c, conv_pool.c, fused_conv.c, pool.c; fusion makes conv2d_pool and fused_conv2d from several ops */ \
    OP(conv2d) OP(conv2d_backward_input) OP(conv2d_backward_weights) OP(conv2d_backward_weights_accumulate) \
    OP(conv2d_pool) OP(conv2d_pool_backward_input) OP(conv2d_pool_backward_weights) \
    OP(conv2d_pool_backward_weights_accumulate) OP(fused_conv2d) OP(max_pool2d) OP(max_pool2d_backward) OP(avg_pool2d) \
    OP(avg_pool2d_backward) \
    /* softmax.c, norm.c, fused_norm.c (fusion makes its ops), group_norm.c, embedding.c; dropout.c, whose gradient is the same op */ \
    OP(softmax) OP(softmax_backward) OP(log_softmax) OP(log_softmax_backward) OP(layer_norm) \
    OP(layer_norm_backward) OP(group_norm) OP(group_norm_backward) OP(batch_norm) OP(batch_norm_backward) OP(fused_batch_norm) OP(fused_batch_norm_backward) OP(batch_norm_moments) OP(sync_batch_norm) OP(batch_norm_gradient_sums) \
    OP(sync_batch_norm_backward) OP(embedding) OP(embedding_backward) OP(embedding_slots) OP(embedding_rows) \
    OP(embedding_rows_add) \
    OP(dropout) \
    /* attention.c */ \
    OP(attention) OP(attention_backward) OP(attention_cached) \
    /* dot_product_attention.c; rotary.c, whose gradient is the same op */ \
    OP(dot_product_attention) OP(dot_product_attention_backward) OP(dot_product_attention_bias_backward) OP(dot_product_attention_cached) OP(rotary) \
    /* recurrent.c */ \
    OP(lstm) OP(lstm_backward) OP(gru) OP(gru_backward) OP(rnn) OP(rnn_backward) \
    /* loss.c, pointwise_loss.c */ \
    OP(cross_entropy) OP(cross_entropy_backward) OP(pointwise_loss) OP(pointwise_loss_backward) OP(correct_count) \
    /* cosine.c */ \
    OP(cosine) OP(cosine_backward) \
    /* remote.c */ \
    OP(remote_load) OP(remote_store) \
    /* collective.c */ \
    OP(all_reduce) OP(all_gather) OP(reduce_scatter) OP(identical_inputs) \
    /* sharded.c, ctc.c */ \
    OP(norm_sums) OP(sharded_norm) OP(norm_gradient_sums) OP(sharded_norm_backward) \
    OP(ctc_loss) OP(ctc_loss_backward) OP(logit_maximum) OP(logit_sums) OP(sharded_cross_entropy)
/* clang-format on */
#define BGI_DECLARE_OP_TYPE(name) extern const bg_op_type bgi_op_##name;
BGI_OP_TYPES(BGI_DECLARE_OP_TYPE)
#undef BGI_DECLARE_OP_TYPE

/* ---- elementwise.c ---- */

/* Casts operands to float32 when they are a mixture of float32 and 16-bit floats. Other types do not change, and the
 * shape rule checks them. Null operands stay null. */
void bgi_promote(bg_graph *graph, bg_value *operands, uint32_t count);

/* ---- reduce.c ---- */

/* Computes the gradient of an operand of type `type` that was broadcast: sums `value` over the repeated dims, and
 * reshapes the sum to `type`'s shape. Returns `value` itself when the shapes are equal. */
bg_value bgi_reduce_to(bg_graph *graph, bg_value value, const bg_type *type);

/* ---- reshape.c ---- */

/* Reshapes x to the shape of `type` (its dtype does not matter). Returns `x` itself when it has that shape. */
bg_value bgi_reshape_to(bg_graph *graph, bg_value x, const bg_type *type);
/* Adds an op of one operand whose attributes are bgi_dims_attributes. */
bg_value bgi_add_with_dims(bg_graph *graph, const bg_op_type *type, const char *name, bg_value x, uint32_t rank,
                           const int64_t *dims);
/* Copies x to a separate buffer. */
bg_value bgi_copy(bg_graph *graph, const char *name, bg_value x);

/* ---- pool.c ---- */

/* Finds the largest element of each of sizes[0] x sizes[1] windows into which each plane of x is cut
 * (bgi_pool_window). */
bg_value bgi_adaptive_max_pool2d(bg_graph *graph, const char *name, bg_value x, const int64_t sizes[2]);

/* ---- accumulate.c, optimizer.c ---- */

/* Computes values[0] + values[1] + ..., in order; returns a single value unchanged. */
bg_value bgi_add_n(bg_graph *graph, const char *name, const bg_value *values, uint32_t count);
/* Sets the accumulator variable to the gradient at the first micro-batch of a step, and adds the gradient at later
 * micro-batches. With `factors` (may be null): accumulator = accumulator x factors[0] + gradient x factors[1]. */
void bgi_accumulate(bg_graph *graph, const char *name, bg_value accumulator, bg_value gradient, bg_value factors);
/* Adds gradients in a tree over the step's micro-batches (bgi_accumulate_tree_attributes); the accumulator has the sum
 * after the last micro-batch. `partials` is a variable of the type that bgi_tree_partials gives. `partials` is null
 * when bgi_tree_partials returns false, because the tree has no levels between its leaves and its root. */
void bgi_accumulate_tree(bg_graph *graph, const char *name, bg_value accumulator, bg_value gradient, bg_value partials,
                         uint32_t micro_batches);
bool bgi_tree_partials(const bg_type *accumulator, uint32_t micro_batches, bg_type *out);
/* Computes values[0] scales[0] + values[1] scales[1] + ... as `dtype`, with float32 scalars; a value whose scale is 0
 * adds nothing. There are at most BGI_MAXIMUM_VARIADIC / 2 values. */
bg_value bgi_scaled_sum(bg_graph *graph, const char *name, const bg_value *values, const bg_value *scales,
                        uint32_t count, bg_dtype dtype);
/* Maps the scalar total to the float32 scalar factor / total; 0 when total is 0. */
bg_value bgi_total_scale(bg_graph *graph, const char *name, bg_value total, double factor);
/* Computes the factors of a running mean. total is a float32 scalar variable, 0 at the beginning of a step, to which
 * the op adds weight (float32 scalar; null: 1). With `ends_in_sum`, the factors at the last of `micro_batches`
 * micro-batches turn the mean into the sum (the mean times the total). */
bg_value bgi_running_factors(bg_graph *graph, const char *name, bg_value total, bg_value weight, uint32_t micro_batches,
                             bool ends_in_sum);
/* Sums the squares of each of x's pieces, one piece for each replica: float64 [pieces]. */
bg_value bgi_square_sum(bg_graph *graph, const char *name, bg_value x, uint32_t pieces);
/* Computes |scale| sqrt(the sum of the squares, added in order); float32 scalar. */
bg_value bgi_gradient_norm(bg_graph *graph, const char *name, bg_value squares, bg_value scale);
/* Computes scale x maximum / max(norm, maximum), where norm is the gradient norm in float64; float32 scalar. */
bg_value bgi_clip_scale(bg_graph *graph, const char *name, bg_value squares, bg_value scale, double maximum);
/* Adds SGD's update. hyper: float64 [BGI_HYPER_COUNT]; scale: float32 scalar; velocity null: no momentum. */
void bgi_sgd_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                    bg_value scale, bg_value velocity, const bgi_sgd_attributes *attributes);
void bgi_adam_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                     bg_value scale, bg_value m, bg_value v, const bgi_adam_attributes *attributes);
/* Adds the update of RMSProp, AdaGrad or AdaDelta. square: the mean (AdaGrad: sum) of squares; mean: the mean of the
 * centered form, or AdaDelta's mean of the changes' squares; velocity null: no momentum. */
void bgi_rmsprop_update(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                        bg_value scale, bg_value square, bg_value mean, bg_value velocity,
                        const bgi_rmsprop_attributes *attributes);

/* Adds LAMB's first half, which returns the squares of its norms, or its second half, with the same attributes. */
bg_value bgi_lamb_moments(bg_graph *graph, const char *name, bg_value parameter, bg_value gradient, bg_value hyper,
                          bg_value scale, bg_value m, bg_value v, const bgi_lamb_attributes *attributes);
void bgi_lamb_update(bg_graph *graph, const char *name, bg_value parameter, bg_value squares, bg_value hyper,
                     bg_value m, bg_value v, const bgi_lamb_attributes *attributes);
bgi_lamb_attributes bgi_lamb_describe(const bg_type *parameter, uint32_t pieces, bool uncorrected, bool without_decay);

/* ---- collective.c ---- */

/* Reduces x over the `replicas` replicas with different data: `function` is the sum or the maximum. With one replica
 * returns x itself. */
bg_value bgi_all_reduce_data(bg_graph *graph, const char *name, bg_value x, bg_reduction function, uint32_t replicas);
/* Gathers the replicas' x, one after another along the first dimension. */
bg_value bgi_all_gather_data(bg_graph *graph, const char *name, bg_value x, uint32_t replicas);

/* ---- embedding.c ---- */

/* These functions return the types of the accumulator and of the result of embedding_slots
 * (kernels/embedding/attributes.h). */
bg_type bgi_embedding_slots_type(const bg_type *table);
bg_type bgi_embedding_uses_type(const bg_type *ids);
/* Adds what embedding_backward computes from dy to the accumulator `rows`, float32 [S, H], row by row. */
void bgi_embedding_rows(bg_graph *graph, const char *name, bg_value dy, bg_value uses, bg_value rows);
/* Adds all rows to the accumulator `gradient`, float32 [V, H], once in each step; the result is bit-identical to the
 * dense sum. */
void bgi_embedding_rows_add(bg_graph *graph, const char *name, bg_value gradient, bg_value rows, bg_value slots);

/* ---- loss_scaling.c ---- */

/* Counts the elements of x whose magnitude is at most `edge` (as a float), above it, or not finite: float64
 * [BGI_RANGE_COUNTS]. */
bg_value bgi_range_count(bg_graph *graph, const char *name, bg_value x, double edge);
/* Counts only the elements that are not finite; the other counts are zero. With `pieces`, counts the elements of a
 * replica's piece of x when the replica has only that piece. */
bg_value bgi_count_not_finite(bg_graph *graph, const char *name, bg_value x, double edge, uint32_t pieces);
/* Adapts the variables loss_scale (float32 scalar) and statistics (float64 [BGI_STATISTICS_COUNT]) by `counts`; returns
 * scale / loss_scale. *out_hyper is hyper with the flag that skips this update; *out_used is the loss scale of these
 * gradients. */
bg_value bgi_loss_scale(bg_graph *graph, const char *name, bg_value loss_scale, bg_value statistics, bg_value counts,
                        bg_value scale, bg_value hyper, const bgi_loss_scale_attributes *attributes,
                        bg_value *out_hyper, bg_value *out_used);
/* Returns hyper with the flag that skips this update when `counts` shows that a loss was not finite. The variable hyper
 * keeps the flag: all updates are skipped until the host writes the variable again. */
bg_value bgi_loss_guard(bg_graph *graph, const char *name, bg_value hyper, bg_value counts);

#endif
