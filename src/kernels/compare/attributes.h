/*
 * attributes.h: the operands and attributes of comparisons and logical functions, and of choosing by their results.
 * Notation: kernels.h.
 */
#ifndef BGI_KERNELS_COMPARE_ATTRIBUTES_H
#define BGI_KERNELS_COMPARE_ATTRIBUTES_H

#include <brigade/ops.h>

/* A comparison is one of bg_comparison, or BGI_COMPARE_LOGIC plus one of bg_logic. For logical functions an element is
 * true if it is not 0 (NaN is true). */
enum { BGI_COMPARE_LOGIC = BG_COMPARISON_COUNT, BGI_COMPARE_COUNT = BGI_COMPARE_LOGIC + BG_LOGIC_COUNT };

/*     COMPARE         a, b -> y uint8                 (broadcasting; any type, a's and b's the same) */
typedef struct bgi_compare_attributes {
    uint32_t function;
} bgi_compare_attributes;

/*
 *     WHERE           condition uint8, a, b -> y      (broadcasting; any type; kernels look at the types only)
 *     WHERE_GRADIENT  dy, condition -> da             (dy's shape: dy where the condition chose the operand, else 0)
 */
typedef struct bgi_where_gradient_attributes {
    uint8_t is_second; /* the gradient is that of b, which `where` chooses if the condition is 0 */
} bgi_where_gradient_attributes;

#endif
