/*
 * attributes.h: the operands and attributes of functions of one or two elements. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_ELEMENTWISE_ATTRIBUTES_H
#define BGI_KERNELS_ELEMENTWISE_ATTRIBUTES_H

#include <brigade/ops.h>

#include <stdbool.h>

/*
 *     UNARY           x -> y
 *     UNARY_BACKWARD  dy, x, y -> dx
 *
 * The backward pass needs only one of x and y; the same value may be given for both operands. Kernels use y for
 * functions of bgi_unary_derives_from_output (x may be y), and x for the others (y may be x).
 */
typedef struct bgi_unary_attributes {
    bg_unary function;
    double a, b; /* the function's parameters; 0 for functions without parameters */
} bgi_unary_attributes;

static inline bool bgi_unary_derives_from_output(bg_unary function)
{
    return function == BG_RELU || function == BG_TANH || function == BG_SIGMOID || function == BG_EXP ||
           function == BG_SQRT || function == BG_RECIPROCAL || function == BG_RSQRT || function == BG_TAN;
}

/* Returns whether the function can follow a product in the same kernel, which requires that it has no parameters and
 * has a vector form. */
static inline bool bgi_unary_fuses(bg_unary function)
{
    return function < BG_TAN;
}

static inline bool bgi_unary_has_parameters(bg_unary function)
{
    return function >= BG_SOFTPLUS;
}

/*
 *     BINARY           a, b -> y                      (broadcasting; floats, int32, int64)
 *     SELECT_GRADIENT  dy, a, b -> da                 (for MAXIMUM, MINIMUM, in dy's shape: dy where a wins, dy / 2
 *                                                      where a and b are equal, otherwise 0)
 */
typedef struct bgi_binary_attributes {
    bg_binary function;
} bgi_binary_attributes;

/* SCALE        x -> y = alpha x + beta */
typedef struct bgi_scale_attributes {
    double alpha, beta;
} bgi_scale_attributes;

/*
 *     CAST         x -> y                             (kernels look at the types only)
 *     STANDARDIZE  x -> y = (x / divisor - mean) / deviation
 */
typedef struct bgi_standardize_attributes {
    float divisor, mean, deviation;
    bg_dtype dtype; /* of y */
} bgi_standardize_attributes;

typedef struct bgi_cast_attributes {
    bg_dtype dtype;
} bgi_cast_attributes;

#endif
