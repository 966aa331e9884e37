/*
 * attributes.h: the operands and attributes of products with quantized weights. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_QUANTIZED_ATTRIBUTES_H
#define BGI_KERNELS_QUANTIZED_ATTRIBUTES_H

#include "core/quantized.h"

/*
 *     QUANTIZED_LINEAR     x [..., in], w -> y [..., out]     y = x times the weights; of x's type
 *     QUANTIZED_EMBEDDING  table, ids -> y [..., in]          rows of the weights [out, in], as float32
 *
 * w and table are uint8 (core/quantized.h). LINEAR and MATMUL over the rounded matrix give the same bits as
 * QUANTIZED_LINEAR if the matrix has x's type, which is float32, or bfloat16 with weights of 16 bits.
 */
typedef struct bgi_quantized_attributes {
    int64_t in, out;
    uint8_t bits; /* 16, 8 or 4 */
} bgi_quantized_attributes;

#endif
