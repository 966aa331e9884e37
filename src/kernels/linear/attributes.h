/*
 * attributes.h: the operands and attributes of matrix products. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_LINEAR_ATTRIBUTES_H
#define BGI_KERNELS_LINEAR_ATTRIBUTES_H

#include <brigade/ops.h>

/*
 *     LINEAR                   x [..., in], w [out, in], b? [out] -> y [..., out]
 *     LINEAR_BACKWARD_INPUT    dy, w -> dx
 *     LINEAR_BACKWARD_WEIGHTS  dy, x -> dw, db?       (bgi_linear_backward_attributes) (+)
 *     MATMUL                   a, b -> y              (bgi_matmul_attributes; leading dims broadcast) (+)
 */
typedef struct bgi_matmul_attributes {
    uint8_t transpose_a, transpose_b;
} bgi_matmul_attributes;

typedef struct bgi_linear_backward_attributes {
    uint8_t bias; /* db is requested */
} bgi_linear_backward_attributes;

/*
 *     FUSED_PRODUCT            the operands of a product, other? -> y, sum?
 *
 * One of the products above, followed by a step on each element of its result. The bits are those of the separate
 * kernels, because every rounding is kept. `sum`, if stored, is the result before the function.
 *
 *     follows NOTHING     y = product + bias             only MATMUL; other = bias [columns]
 *     follows FUNCTION    y = function(sum)              sum = the product, or MATMUL + bias when there is a bias
 *     follows DERIVATIVE  y = UNARY_BACKWARD(product, other, other)
 *
 * LINEAR's own bias is an operand of the product.
 */
typedef enum bgi_product_kind {
    BGI_PRODUCT_LINEAR = 0,
    BGI_PRODUCT_LINEAR_BACKWARD_INPUT,
    BGI_PRODUCT_MATMUL,
    BGI_PRODUCT_COUNT
} bgi_product_kind;

typedef enum bgi_product_follower {
    BGI_FOLLOWS_NOTHING = 0,
    BGI_FOLLOWS_FUNCTION,
    BGI_FOLLOWS_DERIVATIVE,
    BGI_FOLLOWS_COUNT
} bgi_product_follower;

typedef struct bgi_fused_product_attributes {
    bgi_matmul_attributes
        layout;        /* attributes of MATMUL; the first field, so that MATMUL can read these as its attributes */
    uint8_t product;   /* bgi_product_kind */
    uint8_t follows;   /* bgi_product_follower */
    uint8_t keeps_sum; /* FUNCTION: `sum` is stored */
    uint8_t function;  /* bg_unary; 0 for NOTHING */
} bgi_fused_product_attributes;

/* Returns the number of inputs that belong to the product. */
static inline uint32_t bgi_fused_product_inputs(const bgi_fused_product_attributes *attributes, uint32_t input_count)
{
    return attributes->product == BGI_PRODUCT_LINEAR && attributes->follows != BGI_FOLLOWS_DERIVATIVE ? input_count : 2;
}

/* Returns whether a bias is added to the complete product. */
static inline bool bgi_fused_product_adds(const bgi_fused_product_attributes *attributes, uint32_t input_count)
{
    return attributes->follows != BGI_FOLLOWS_DERIVATIVE &&
           input_count > bgi_fused_product_inputs(attributes, input_count);
}

#endif
