/*
 * kernels.h: the narrow table between ops and compute. An op family fills a request (a kernel id, operand types and
 * attributes) and gets a bg_kernel. Kernels know no graph. kernels.def lists them: each has a plain C reference that is
 * kept for ever and, where it pays, a fast choice that either fits the request or declines.
 *
 * Reference kernels take every float type through bgi_load/bgi_store and add in double, in index order. Fast kernels
 * are compared with them in tests.
 */
#ifndef BGI_KERNELS_H
#define BGI_KERNELS_H

#include <brigade/graph.h>
#include <brigade/kernel.h>

typedef enum bgi_kernel_id {
#define BGI_KERNEL(id, name, reference, fast) BGI_KERNEL_##id,
#include "kernels/kernels.def"
#undef BGI_KERNEL
    BGI_KERNEL_COUNT
} bgi_kernel_id;

typedef struct bgi_kernel_request {
    bgi_kernel_id id;
    const bg_type *types; /* inputs, then outputs */
    uint32_t input_count;
    uint32_t output_count;
    const void *attributes;
    bg_dtype partials;    /* of matrix products: NONE and float32 are the same */
    size_t scratch_limit; /* of matrix products and convolutions; 0: none */
} bgi_kernel_request;

/* Fills `out` when the request is of this kernel's class on this processor; else leaves it alone and returns false. */
typedef bool (*bgi_kernel_choice)(const bgi_kernel_request *request, bg_kernel *out);

bg_status bgi_kernel_select(const bgi_kernel_request *request, bg_kernel_policy policy, bg_kernel *out,
                            bg_error *error);
/* The same from an op's signature. */
bg_status bgi_kernel_for_op(bgi_kernel_id id, const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out,
                            bg_error *error);
const char *bgi_kernel_name(bgi_kernel_id id);
static inline bool bgi_kernel_is_complete(const bg_kernel *kernel)
{
    return kernel->run != NULL && kernel->part_count > 0 && (kernel->combine == NULL || kernel->combine_count > 0);
}
/* All of a call, part by part. */
void bgi_kernel_run(const bg_kernel *kernel, const bg_kernel_call *call);

/* ---- matrix products whose partial sums are kept in 16 bits ----
 *
 * Sums run over K in order, in blocks. Of operands in bfloat16 or float16, when asked for, what is summed up so far is
 * rounded to their type after each block; inside a block it is float32, in which the products are exact, so that every
 * kernel gives the same bits. */

/* Terms of a block of K, and how many blocks there are: by K alone. */
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
 * They have fewer parts, or smaller ones, one after the other: each element's sum is as it was. At least one part of
 * the smallest kind is needed, whatever the limit. CONV2D_POOL_BACKWARD_WEIGHTS takes no notice: its parts are summed
 * up, so that their number is part of the result. */

typedef struct bgi_product {
    bool rounds;
    uint64_t limit_bytes; /* a power of two at most the limit; UINT64_MAX: none */
} bgi_product;

/* The state of the kernel of a request: a bgi_product where there is something to know, else NULL. */
void *bgi_product_state(const bgi_kernel_request *request);
static inline bool bgi_product_rounds(const bg_kernel_call *call)
{
    return call->state != NULL && ((const bgi_product *)call->state)->rounds;
}
static inline uint64_t bgi_product_limit(const void *state)
{
    return state != NULL ? ((const bgi_product *)state)->limit_bytes : UINT64_MAX;
}

/* Kernels of weights' gradients also have an accumulating form: a call without outputs, whose last inputs, where the
 * outputs would be, are accumulators of their types. They take the gradient at a step's first micro-batch; at later
 * ones the complete gradient is added to them, element by element, as ACCUMULATE would. */
static inline bool bgi_call_adds(const bg_kernel_call *call)
{
    return call->output_count == 0 && call->env->accumulated > 0;
}

/* ---- the product of a FUSED_PRODUCT (attributes.h) ---- */

enum { BGI_FUSED_OPERANDS = 4 }; /* of the product: three inputs at most */

/* The call of the product alone, into `sum` where it is kept, else into y. Points into itself. */
typedef struct bgi_fused_call {
    bg_kernel_call call;
    bg_type types[BGI_FUSED_OPERANDS];
    void *operands[BGI_FUSED_OPERANDS];
} bgi_fused_call;
void bgi_fused_call_make(const bg_kernel_call *fused, bgi_fused_call *out);

#define BGI_KERNEL(id, name, reference, fast)                                                                          \
    void reference(const bg_kernel_call *call, uint32_t part);                                                         \
    bool fast(const bgi_kernel_request *request, bg_kernel *out);
#include "kernels/kernels.def"
#undef BGI_KERNEL

/* For rows of the table without a fast kernel. */
bool bgi_no_fast_kernel(const bgi_kernel_request *request, bg_kernel *out);

#endif
