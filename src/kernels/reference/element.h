/*
 * element.h: reads and writes one element of any type as a double, so that each reference kernel is written once.
 */
#ifndef BGI_REFERENCE_ELEMENT_H
#define BGI_REFERENCE_ELEMENT_H

#include <brigade/base.h>

#include "core/narrow.h"
#include "kernels/rounding.h"

#include <math.h>
#include <string.h>

/* Rounds as one operation of float32 arithmetic, or not at all in double. GCC 12 removes conversions to float and back
 * when it vectorizes neighboring ones (-O3 -fno-math-errno), but not those of a volatile. */
static inline double bgi_rounded(bool in_double, double value)
{
    const volatile float narrow = (float)value;

    return in_double ? value : (double)narrow;
}

static inline double bgi_load(bg_dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case BG_FLOAT32:
        return ((const float *)data)[index];
    case BG_BFLOAT16:
    case BG_FLOAT16:
        return bgi_narrow_to_float(dtype, ((const uint16_t *)data)[index]);
    case BG_FLOAT64:
        return ((const double *)data)[index];
    case BG_INT32:
        return ((const int32_t *)data)[index];
    case BG_UINT8:
        return ((const uint8_t *)data)[index];
    case BG_INT64: /* exact up to 2^53; kernels that need all bits use bgi_load_integer */
        return (double)((const int64_t *)data)[index];
    default:
        return NAN;
    }
}

/* Reads an element of int32, int64 or uint8. */
static inline int64_t bgi_load_integer(bg_dtype dtype, const void *data, int64_t index)
{
    return dtype == BG_INT64   ? ((const int64_t *)data)[index]
           : dtype == BG_INT32 ? ((const int32_t *)data)[index]
                               : ((const uint8_t *)data)[index];
}

/* Stores the low bits to int32 or int64, so that sums wrap around. */
static inline void bgi_store_bits(bg_dtype dtype, void *data, int64_t index, uint64_t bits)
{
    if (dtype == BG_INT64)
        ((uint64_t *)data)[index] = bits;
    else
        ((uint32_t *)data)[index] = (uint32_t)bits;
}

/* Stores an element. A value for an integer type is truncated and saturates; NaN becomes 0. 16-bit floats are rounded
 * through float32. */
static inline void bgi_store(bg_dtype dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case BG_FLOAT32:
        ((float *)data)[index] = (float)value;
        break;
    case BG_BFLOAT16:
    case BG_FLOAT16:
        ((uint16_t *)data)[index] = bgi_narrow_from_float(dtype, (float)value);
        break;
    case BG_FLOAT64:
        ((double *)data)[index] = value;
        break;
    case BG_INT32:
        ((int32_t *)data)[index] = value >= 2147483647.0    ? INT32_MAX
                                   : value <= -2147483648.0 ? INT32_MIN
                                   : value != value         ? 0
                                                            : (int32_t)value;
        break;
    case BG_INT64:
        ((int64_t *)data)[index] = value >= 9223372036854775808.0    ? INT64_MAX
                                   : value <= -9223372036854775808.0 ? INT64_MIN
                                   : value != value                  ? 0
                                                                     : (int64_t)value;
        break;
    case BG_UINT8:
        ((uint8_t *)data)[index] = value >= 255.0 ? 255 : value > 0.0 ? (uint8_t)value : 0;
        break;
    default:
        break;
    }
}

/* Stores an element of an operand that an update writes, rounded as `rounding` says. */
static inline void bgi_store_updated(const bg_kernel_call *call, const bgi_rounding *rounding, uint32_t operand,
                                     int64_t index, double value)
{
    const bg_dtype dtype = call->types[operand].dtype;
    bgi_chances chances;
    uint32_t words[4];
    int64_t element;

    if (rounding->elements == 0 || !bgi_dtype_is_narrow(dtype)) {
        bgi_store(dtype, call->operands[operand], index, value);
        return;
    }
    chances = bgi_rounding_chances(rounding, call, operand);
    element = chances.first + index;
    bg_philox((const uint32_t[4]){(uint32_t)(element / BGI_ROUNDING_BLOCK), chances.rest[0], chances.rest[1],
                                  chances.rest[2]},
              chances.key, words);
    ((uint16_t *)call->operands[operand])[index] =
        bgi_narrow_by_chance(dtype, (float)value, bgi_rounding_bits(words, element), &chances, element);
}

#endif
