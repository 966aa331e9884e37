/*
 * variant_body.h: every fast kernel, for the instruction set of the including file, and their table. The includer
 * defines BGI_VARIANT, the table's name.
 */
#include "kernels/cpu/attention_body.h"
#include "kernels/cpu/conv_body.h"
#include "kernels/cpu/conv_pool_backward_body.h"
#include "kernels/cpu/conv_pool_forward_body.h"
#include "kernels/cpu/linear_body.h"
#include "kernels/cpu/loss_body.h"
#include "kernels/cpu/move_body.h"
#include "kernels/cpu/pool_body.h"
#include "kernels/cpu/rows_body.h"
#include "kernels/cpu/update_body.h"
#include "kernels/cpu/lamb_body.h"

#define COMBINED(id, name, prepare, run, finish, combine)                                                              \
    [BGI_KERNEL_##id] = {name "." BGI_VARIANT_NAME, prepare, run, finish, combine}
#define PREPARED(id, name, prepare, run, finish) COMBINED(id, name, prepare, run, finish, NULL)
#define ROUTINE(id, name, run, finish)           PREPARED(id, name, NULL, run, finish)

const bgi_cpu_variant BGI_VARIANT = {
    .lanes = LANES,
    .routines =
        {
            ROUTINE(ATTENTION, "attention", run_attention, NULL),
            ROUTINE(ATTENTION_CACHED, "attention_cached", run_attention_cached, NULL),
            ROUTINE(ATTENTION_BACKWARD, "attention_backward", run_attention_backward, NULL),
            ROUTINE(CONV2D, "conv2d", run_conv2d, NULL),
            ROUTINE(CONV2D_BACKWARD_INPUT, "conv2d_backward_input", run_conv2d_backward_input, NULL),
            ROUTINE(CONV2D_BACKWARD_WEIGHTS, "conv2d_backward_weights", run_conv2d_backward_weights, NULL),
            PREPARED(CONV2D_POOL, "conv2d_pool", prepare_conv2d_pool, run_conv2d_pool, NULL),
            PREPARED(CONV2D_POOL_BACKWARD_INPUT, "conv2d_pool_backward_input", prepare_conv2d_pool_backward_input,
                     run_conv2d_pool_backward_input, NULL),
            COMBINED(CONV2D_POOL_BACKWARD_WEIGHTS, "conv2d_pool_backward_weights", prepare_conv2d_pool_backward_weights,
                     run_conv2d_pool_backward_weights, NULL, combine_conv2d_pool_backward_weights),
            ROUTINE(LINEAR, "linear", run_linear, NULL),
            ROUTINE(LINEAR_BACKWARD_INPUT, "linear_backward_input", run_linear_backward_input, NULL),
            ROUTINE(LINEAR_BACKWARD_WEIGHTS, "linear_backward_weights", run_linear_backward_weights, NULL),
            ROUTINE(MATMUL, "matmul", run_matmul, NULL),
            ROUTINE(FUSED_PRODUCT, "fused_product", run_fused_product, NULL),
            ROUTINE(UNARY, "unary", run_unary, NULL),
            ROUTINE(UNARY_BACKWARD, "unary_backward", run_unary_backward, NULL),
            ROUTINE(BINARY, "binary", run_binary, NULL),
            ROUTINE(SCALE, "scale", run_scale, NULL),
            ROUTINE(CAST, "cast", run_cast, NULL),
            ROUTINE(STANDARDISE, "standardise", run_standardise, NULL),
            ROUTINE(CROSS_ENTROPY, "cross_entropy", run_cross_entropy, finish_cross_entropy),
            ROUTINE(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", run_cross_entropy_backward, NULL),
            ROUTINE(CORRECT_COUNT, "correct_count", run_correct_count, finish_correct_count),
            ROUTINE(ACCUMULATE, "accumulate", run_accumulate, NULL),
            ROUTINE(SQUARE_SUM, "square_sum", run_square_sum, finish_square_sum),
            ROUTINE(RANGE_COUNT, "range_count", run_range_count, finish_range_count),
            ROUTINE(SGD_UPDATE, "sgd_update", run_sgd_update, NULL),
            ROUTINE(ADAM_UPDATE, "adam_update", run_adam_update, NULL),
            ROUTINE(RMSPROP_UPDATE, "rmsprop_update", run_rmsprop_update, NULL),
            ROUTINE(LAMB_MOMENTS, "lamb_moments", run_lamb_moments, finish_lamb_moments),
            ROUTINE(LAMB_UPDATE, "lamb_update", run_lamb_update, NULL),
            ROUTINE(SOFTMAX, "softmax", run_softmax, NULL),
            ROUTINE(LOG_SOFTMAX, "log_softmax", run_log_softmax, NULL),
            ROUTINE(SOFTMAX_BACKWARD, "softmax_backward", run_softmax_backward, NULL),
            ROUTINE(LOG_SOFTMAX_BACKWARD, "log_softmax_backward", run_log_softmax_backward, NULL),
            ROUTINE(LAYER_NORM, "layer_norm", run_layer_norm, NULL),
            ROUTINE(LAYER_NORM_BACKWARD, "layer_norm_backward", run_layer_norm_backward, finish_layer_norm_backward),
            ROUTINE(NORM_SUMS, "norm_sums", run_norm_sums, NULL),
            ROUTINE(SHARDED_NORM, "sharded_norm", run_sharded_norm, NULL),
            ROUTINE(NORM_GRADIENT_SUMS, "norm_gradient_sums", run_norm_gradient_sums, NULL),
            ROUTINE(SHARDED_NORM_BACKWARD, "sharded_norm_backward", run_sharded_norm_backward,
                    finish_layer_norm_backward),
            ROUTINE(LOGIT_MAXIMUM, "logit_maximum", run_logit_maximum, NULL),
            ROUTINE(LOGIT_SUMS, "logit_sums", run_logit_sums, NULL),
            ROUTINE(SHARDED_CROSS_ENTROPY, "sharded_cross_entropy", run_sharded_cross_entropy, finish_cross_entropy),
            ROUTINE(REDUCE, "reduce", run_reduce, NULL),
            ROUTINE(COPY, "copy", run_copy, NULL),
            ROUTINE(TRANSPOSE, "transpose", run_transpose, NULL),
            ROUTINE(BROADCAST, "broadcast", run_broadcast, NULL),
            ROUTINE(ADD_N, "add_n", run_add_n, NULL),
            ROUTINE(EMBEDDING, "embedding", run_embedding, NULL),
            ROUTINE(EMBEDDING_BACKWARD, "embedding_backward", run_embedding_backward, NULL),
            ROUTINE(DROPOUT, "dropout", run_dropout, NULL),
            ROUTINE(MAX_POOL2D, "max_pool2d", run_max_pool2d, NULL),
            ROUTINE(MAX_POOL2D_BACKWARD, "max_pool2d_backward", run_max_pool2d_backward, NULL),
        },
};
