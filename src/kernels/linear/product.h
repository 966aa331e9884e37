/*
 * product.h: the settings, other than shapes, of matrix products and of convolutions built from them, and the product
 * in a FUSED_PRODUCT.
 */
#ifndef BGI_KERNELS_LINEAR_PRODUCT_H
#define BGI_KERNELS_LINEAR_PRODUCT_H

#include "core/isa.h"
#include "kernels/kernels.h"

/* ---- matrix products whose partial sums are kept in 16 bits ----
 *
 * Sums run over K in order, in blocks. On request, with operands in bfloat16 or float16, the sum so far is rounded to
 * their type after each block. Inside a block it is float32, in which products are exact, so every kernel gives the
 * same bits. Without rounding, instruction sets for bfloat16 have a different order (pairs.h). */

/* The terms of a block of K, and the number of blocks, which depends only on K. */
enum { BGI_PRODUCT_BLOCK = 256 };
static inline int64_t bgi_product_blocks(int64_t k)
{
    return (k + BGI_PRODUCT_BLOCK - 1) / BGI_PRODUCT_BLOCK;
}
static inline int64_t bgi_product_block(int64_t k)
{
    return (k + bgi_product_blocks(k) - 1) / bgi_product_blocks(k);
}

/* ---- matrix products whose scratch is bounded ----
 *
 * With limited scratch, fewer or smaller parts run one after another; each element's sum is unchanged. At least one
 * part of the smallest size is needed, whatever the limit. Weights' gradients of convolutions may be sums over runs of
 * images. The number of runs affects the result, so the limit does not change it. */

typedef struct bgi_product {
    uint64_t limit_bytes; /* the largest power of two within the limit; UINT64_MAX: no limit */
    bool rounds;
    bgi_isa pairs; /* AVX512_BF16 or AMX for bfloat16 (pairs.h); PORTABLE: bfloat16 is widened to float32, as always
                      when sums are rounded */
} bgi_product;

/* Returns the state of the kernel of a request: a bgi_product when settings differ from the defaults, otherwise
 * NULL. */
void *bgi_product_state(const bgi_kernel_request *request, bgi_isa isa);
static inline bool bgi_product_rounds(const bg_kernel_call *call)
{
    return call->state != NULL && ((const bgi_product *)call->state)->rounds;
}
static inline uint64_t bgi_product_limit(const void *state)
{
    return state != NULL ? ((const bgi_product *)state)->limit_bytes : UINT64_MAX;
}
static inline bgi_isa bgi_product_pairs(const void *state)
{
    return state != NULL ? ((const bgi_product *)state)->pairs : BGI_ISA_PORTABLE;
}

/* ---- the product of a FUSED_PRODUCT (attributes.h) ---- */

enum { BGI_FUSED_OPERANDS = 4 }; /* operands of the product: at most three inputs and one output */

/* The call that computes only the product, into `sum` if the sum is stored, otherwise into y. The struct contains
 * pointers into itself. */
typedef struct bgi_fused_call {
    bg_kernel_call call;
    bg_type types[BGI_FUSED_OPERANDS];
    void *operands[BGI_FUSED_OPERANDS];
} bgi_fused_call;
void bgi_fused_call_make(const bg_kernel_call *fused, bgi_fused_call *out);

#endif
