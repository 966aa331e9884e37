/*
 * choose.c: from a request to a fast kernel: the table of shapes, and the choices that kernels.def names.
 */
#include "kernels/cpu/variant.h"

static const bgi_cpu_shape shapes[BGI_KERNEL_COUNT] = {
    [BGI_KERNEL_SOFTMAX] = bgi_cpu_shape_softmax,
    [BGI_KERNEL_LOG_SOFTMAX] = bgi_cpu_shape_log_softmax,
    [BGI_KERNEL_SOFTMAX_BACKWARD] = bgi_cpu_shape_softmax_backward,
    [BGI_KERNEL_LOG_SOFTMAX_BACKWARD] = bgi_cpu_shape_log_softmax_backward,
    [BGI_KERNEL_LAYER_NORM] = bgi_cpu_shape_layer_norm,
    [BGI_KERNEL_LAYER_NORM_BACKWARD] = bgi_cpu_shape_layer_norm_backward,
    [BGI_KERNEL_NORM_SUMS] = bgi_cpu_shape_norm_sums,
    [BGI_KERNEL_SHARDED_NORM] = bgi_cpu_shape_sharded_norm,
    [BGI_KERNEL_NORM_GRADIENT_SUMS] = bgi_cpu_shape_norm_gradient_sums,
    [BGI_KERNEL_SHARDED_NORM_BACKWARD] = bgi_cpu_shape_sharded_norm_backward,
    [BGI_KERNEL_LOGIT_MAXIMUM] = bgi_cpu_shape_logit_maximum,
    [BGI_KERNEL_LOGIT_SUMS] = bgi_cpu_shape_logit_sums,
    [BGI_KERNEL_SHARDED_CROSS_ENTROPY] = bgi_cpu_shape_sharded_cross_entropy,
    [BGI_KERNEL_REDUCE] = bgi_cpu_shape_reduce,
    [BGI_KERNEL_COPY] = bgi_cpu_shape_copy,
    [BGI_KERNEL_TRANSPOSE] = bgi_cpu_shape_transpose,
    [BGI_KERNEL_BROADCAST] = bgi_cpu_shape_broadcast,
    [BGI_KERNEL_ADD_N] = bgi_cpu_shape_add_n,
    [BGI_KERNEL_EMBEDDING] = bgi_cpu_shape_embedding,
    [BGI_KERNEL_EMBEDDING_BACKWARD] = bgi_cpu_shape_embedding_backward,
    [BGI_KERNEL_DROPOUT] = bgi_cpu_shape_dropout,
    [BGI_KERNEL_ATTENTION] = bgi_cpu_shape_attention,
    [BGI_KERNEL_ATTENTION_CACHED] = bgi_cpu_shape_attention_cached,
    [BGI_KERNEL_ATTENTION_BACKWARD] = bgi_cpu_shape_attention_backward,
    [BGI_KERNEL_MAX_POOL2D] = bgi_cpu_shape_max_pool2d,
    [BGI_KERNEL_MAX_POOL2D_BACKWARD] = bgi_cpu_shape_max_pool2d_backward,
    [BGI_KERNEL_CONV2D] = bgi_cpu_shape_conv2d,
    [BGI_KERNEL_CONV2D_BACKWARD_INPUT] = bgi_cpu_shape_conv2d_backward_input,
    [BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS] = bgi_cpu_shape_conv2d_backward_weights,
    [BGI_KERNEL_CONV2D_POOL] = bgi_cpu_shape_conv2d_pool,
    [BGI_KERNEL_CONV2D_POOL_BACKWARD_INPUT] = bgi_cpu_shape_conv2d_pool_backward_input,
    [BGI_KERNEL_CONV2D_POOL_BACKWARD_WEIGHTS] = bgi_cpu_shape_conv2d_pool_backward_weights,
    [BGI_KERNEL_LINEAR] = bgi_cpu_shape_linear,
    [BGI_KERNEL_LINEAR_BACKWARD_INPUT] = bgi_cpu_shape_linear_backward_input,
    [BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS] = bgi_cpu_shape_linear_backward_weights,
    [BGI_KERNEL_MATMUL] = bgi_cpu_shape_matmul,
    [BGI_KERNEL_FUSED_PRODUCT] = bgi_cpu_shape_fused_product,
    [BGI_KERNEL_UNARY] = bgi_cpu_shape_unary,
    [BGI_KERNEL_UNARY_BACKWARD] = bgi_cpu_shape_unary_backward,
    [BGI_KERNEL_BINARY] = bgi_cpu_shape_binary,
    [BGI_KERNEL_SCALE] = bgi_cpu_shape_scale,
    [BGI_KERNEL_CAST] = bgi_cpu_shape_cast,
    [BGI_KERNEL_STANDARDISE] = bgi_cpu_shape_standardise,
    [BGI_KERNEL_CROSS_ENTROPY] = bgi_cpu_shape_cross_entropy,
    [BGI_KERNEL_CROSS_ENTROPY_BACKWARD] = bgi_cpu_shape_cross_entropy_backward,
    [BGI_KERNEL_CORRECT_COUNT] = bgi_cpu_shape_correct_count,
    [BGI_KERNEL_ACCUMULATE] = bgi_cpu_shape_accumulate,
    [BGI_KERNEL_SQUARE_SUM] = bgi_cpu_shape_square_sum,
    [BGI_KERNEL_RANGE_COUNT] = bgi_cpu_shape_range_count,
    [BGI_KERNEL_SGD_UPDATE] = bgi_cpu_shape_sgd_update,
    [BGI_KERNEL_ADAM_UPDATE] = bgi_cpu_shape_adam_update,
    [BGI_KERNEL_RMSPROP_UPDATE] = bgi_cpu_shape_rmsprop_update,
    [BGI_KERNEL_LAMB_MOMENTS] = bgi_cpu_shape_lamb_moments,
    [BGI_KERNEL_LAMB_UPDATE] = bgi_cpu_shape_lamb_update,
};

static const bgi_cpu_variant *find_variant(bgi_isa isa)
{
#if defined(__x86_64__)
    if (isa == BGI_ISA_AVX512)
        return &bgi_cpu_avx512;
    if (isa == BGI_ISA_AVX2)
        return &bgi_cpu_avx2;
#endif
    (void)isa;
    return &bgi_cpu_portable;
}

bool bgi_cpu_select(const bgi_kernel_request *request, bgi_isa isa, bg_kernel *out)
{
    const bgi_cpu_variant *variant = find_variant(isa);
    const bgi_cpu_routine *routine = &variant->routines[request->id];
    bg_kernel kernel = {.name = routine->name,
                        .prepare = routine->prepare,
                        .run = routine->run,
                        .combine = routine->combine,
                        .finish = routine->finish,
                        .part_count = 1,
                        .combine_count = 1,
                        .state = bgi_product_state(request)};

    if (!shapes[request->id] || !routine->run || !shapes[request->id](request, variant->lanes, &kernel))
        return false;
    *out = kernel;
    return true;
}

#define CHOICE(name)                                                                                                   \
    bool name(const bgi_kernel_request *request, bg_kernel *out)                                                       \
    {                                                                                                                  \
        return bgi_cpu_select(request, bgi_cpu_isa(), out);                                                            \
    }

CHOICE(bgi_cpu_conv2d)
CHOICE(bgi_cpu_conv2d_backward_input)
CHOICE(bgi_cpu_conv2d_backward_weights)
CHOICE(bgi_cpu_conv2d_pool)
CHOICE(bgi_cpu_conv2d_pool_backward_input)
CHOICE(bgi_cpu_conv2d_pool_backward_weights)
CHOICE(bgi_cpu_linear)
CHOICE(bgi_cpu_linear_backward_input)
CHOICE(bgi_cpu_linear_backward_weights)
CHOICE(bgi_cpu_matmul)
CHOICE(bgi_cpu_fused_product)
CHOICE(bgi_cpu_unary)
CHOICE(bgi_cpu_unary_backward)
CHOICE(bgi_cpu_binary)
CHOICE(bgi_cpu_scale)
CHOICE(bgi_cpu_cast)
CHOICE(bgi_cpu_standardise)
CHOICE(bgi_cpu_accumulate)
CHOICE(bgi_cpu_square_sum)
CHOICE(bgi_cpu_range_count)
CHOICE(bgi_cpu_sgd_update)
CHOICE(bgi_cpu_adam_update)
CHOICE(bgi_cpu_rmsprop_update)
CHOICE(bgi_cpu_lamb_moments)
CHOICE(bgi_cpu_lamb_update)
CHOICE(bgi_cpu_cross_entropy)
CHOICE(bgi_cpu_cross_entropy_backward)
CHOICE(bgi_cpu_correct_count)
CHOICE(bgi_cpu_softmax)
CHOICE(bgi_cpu_log_softmax)
CHOICE(bgi_cpu_softmax_backward)
CHOICE(bgi_cpu_log_softmax_backward)
CHOICE(bgi_cpu_layer_norm)
CHOICE(bgi_cpu_layer_norm_backward)
CHOICE(bgi_cpu_norm_sums)
CHOICE(bgi_cpu_sharded_norm)
CHOICE(bgi_cpu_norm_gradient_sums)
CHOICE(bgi_cpu_sharded_norm_backward)
CHOICE(bgi_cpu_logit_maximum)
CHOICE(bgi_cpu_logit_sums)
CHOICE(bgi_cpu_sharded_cross_entropy)
CHOICE(bgi_cpu_reduce)
CHOICE(bgi_cpu_copy)
CHOICE(bgi_cpu_transpose)
CHOICE(bgi_cpu_broadcast)
CHOICE(bgi_cpu_add_n)
CHOICE(bgi_cpu_embedding)
CHOICE(bgi_cpu_embedding_backward)
CHOICE(bgi_cpu_dropout)
CHOICE(bgi_cpu_attention)
CHOICE(bgi_cpu_attention_cached)
CHOICE(bgi_cpu_attention_backward)
CHOICE(bgi_cpu_max_pool2d)
CHOICE(bgi_cpu_max_pool2d_backward)
