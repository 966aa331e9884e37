/*
 * product.c: the settings of products other than shapes. The settings are constants, because plans keep pointers to
 * them.
 */
#include "kernels/linear/product.h"

#include "core/narrow.h"
#include "kernels/conv/attributes.h"
#include "kernels/quantized/attributes.h"

/* A setting says whether each block's sums are rounded, which instructions multiply pairs, and the limit of scratch, a
 * power of two. */
#define PRODUCTS(...)                                                                                                  \
    {                                                                                                                  \
        {UINT64_MAX, __VA_ARGS__}, OF(10, __VA_ARGS__), OF(11, __VA_ARGS__), OF(12, __VA_ARGS__), OF(13, __VA_ARGS__), \
            OF(14, __VA_ARGS__), OF(15, __VA_ARGS__), OF(16, __VA_ARGS__), OF(17, __VA_ARGS__), OF(18, __VA_ARGS__),   \
            OF(19, __VA_ARGS__), OF(20, __VA_ARGS__), OF(21, __VA_ARGS__), OF(22, __VA_ARGS__), OF(23, __VA_ARGS__),   \
            OF(24, __VA_ARGS__), OF(25, __VA_ARGS__), OF(26, __VA_ARGS__), OF(27, __VA_ARGS__), OF(28, __VA_ARGS__),   \
            OF(29, __VA_ARGS__), OF(30, __VA_ARGS__), OF(31, __VA_ARGS__), OF(32, __VA_ARGS__)                         \
    }
#define OF(exponent, ...)                                                                                              \
    {                                                                                                                  \
        (uint64_t)1 << (exponent), __VA_ARGS__                                                                         \
    }
enum { LIMITS = 24, PLAIN = 0, ROUNDED, BY_TWO, BY_TILES, WAYS };
static const bgi_product products[WAYS][LIMITS] = {[PLAIN] = PRODUCTS(false, BGI_ISA_PORTABLE),
                                                   [ROUNDED] = PRODUCTS(true, BGI_ISA_PORTABLE),
                                                   [BY_TWO] = PRODUCTS(false, BGI_ISA_AVX512_BF16),
                                                   [BY_TILES] = PRODUCTS(false, BGI_ISA_AMX)};

/* Returns the index in a row of `products` of the largest limit within limit_bytes, or of the smallest limit if all are
 * larger. The index is 0, which means no limit, if limit_bytes is 0 or at least twice the largest limit. */
static uint32_t find_limit(size_t limit_bytes)
{
    uint32_t found = limit_bytes == 0 || limit_bytes / 2 >= products[PLAIN][LIMITS - 1].limit_bytes ? 0 : 1;

    while (found > 0 && found + 1 < LIMITS && products[PLAIN][found + 1].limit_bytes <= limit_bytes)
        found++;
    return found;
}

/* Returns whether conv/pairs.h computes the convolution. Convolutions with one filter for each channel are excluded,
 * because they would use only part of a panel. */
static bool convolves_by_pairs(const bgi_kernel_request *request)
{
    const bool is_weights = request->id == BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS;
    const bg_type *w = &request->types[is_weights ? 2 : 1];

    if (!is_weights && request->id != BGI_KERNEL_CONV2D && request->id != BGI_KERNEL_CONV2D_BACKWARD_INPUT)
        return false;
    return request->types[0].dtype == BG_BFLOAT16 &&
           (w->dims[1] > 1 || w->dims[0] > ((const bgi_conv2d_attributes *)request->attributes)->options.groups);
}

/* Returns whether attention/pairs_body.h computes the attention. */
static bool attends_by_pairs(const bgi_kernel_request *request)
{
    const bool is_attention = request->id == BGI_KERNEL_ATTENTION || request->id == BGI_KERNEL_ATTENTION_BACKWARD ||
                              request->id == BGI_KERNEL_ATTENTION_CACHED ||
                              request->id == BGI_KERNEL_DOT_PRODUCT_ATTENTION ||
                              request->id == BGI_KERNEL_DOT_PRODUCT_ATTENTION_BACKWARD ||
                              request->id == BGI_KERNEL_DOT_PRODUCT_ATTENTION_BIAS_BACKWARD ||
                              request->id == BGI_KERNEL_DOT_PRODUCT_ATTENTION_CACHED;

    return is_attention && request->types[0].dtype == BG_BFLOAT16;
}

void *bgi_product_state(const bgi_kernel_request *request, bgi_isa isa)
{
    const bool is_matrix = request->id == BGI_KERNEL_LINEAR || request->id == BGI_KERNEL_LINEAR_BACKWARD_INPUT ||
                           request->id == BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS || request->id == BGI_KERNEL_MATMUL ||
                           request->id == BGI_KERNEL_FUSED_PRODUCT;
    const bool is_convolution = request->id == BGI_KERNEL_CONV2D || request->id == BGI_KERNEL_CONV2D_BACKWARD_INPUT ||
                                request->id == BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS ||
                                request->id == BGI_KERNEL_FUSED_CONV2D || request->id == BGI_KERNEL_CONV2D_POOL ||
                                request->id == BGI_KERNEL_CONV2D_POOL_BACKWARD_INPUT;
    /* products with weights of 16 bits, which pairs.h reads in their panels */
    const bool has_panels = request->id == BGI_KERNEL_QUANTIZED_LINEAR &&
                            ((const bgi_quantized_attributes *)request->attributes)->bits == 16;
    const bool rounds =
        is_matrix && bgi_dtype_is_narrow(request->partials) && bgi_dtype_is_narrow(request->types[0].dtype);
    const uint32_t limit = is_matrix || is_convolution ? find_limit(request->scratch_limit) : 0;
    const bool has_pairs = (is_matrix || has_panels) && request->types[0].dtype == BG_BFLOAT16;
    /* These convolutions and attentions use AVX512-BF16, even if the processor also has AMX. */
    const bool has_pairs_only =
        isa >= BGI_ISA_AVX512_BF16 && (convolves_by_pairs(request) || attends_by_pairs(request));
    const int way = rounds                       ? ROUNDED
                    : has_pairs_only             ? BY_TWO
                    : !has_pairs                 ? PLAIN
                    : isa == BGI_ISA_AMX         ? BY_TILES
                    : isa == BGI_ISA_AVX512_BF16 ? BY_TWO
                                                 : PLAIN;

    return way != PLAIN || limit != 0 ? (void *)(uintptr_t)&products[way][limit] : NULL;
}
