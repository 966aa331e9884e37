/*
 * narrow.h: conversions between float32 and the 16-bit floats: bfloat16, the upper half of a float32, and float16, IEEE
 * 754's binary16.
 *
 *     float32    s eeeeeeee fffffffffffffffffffffff
 *     bfloat16   s eeeeeeee fffffff
 *     float16    s    eeeee ffffffffff                 65504 is the largest, 2^-24 the smallest step
 *
 * The results are bit-identical to those of processors' float16 conversions: to nearest, ties to even, and infinity
 * from 65520 on. NaN becomes quiet and keeps the upper bits of its fraction.
 */
#ifndef BGI_CORE_NARROW_H
#define BGI_CORE_NARROW_H

#include <brigade/base.h>

#include <stdint.h>
#include <string.h>

static inline uint32_t bgi_float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bgi_float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float bgi_bfloat16_to_float(uint16_t bits)
{
    return bgi_float_from_bits((uint32_t)bits << 16);
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t bgi_bfloat16_from_float(float value)
{
    uint32_t bits = bgi_float_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(bits >> 16);
}

/* Converts exactly. It has no branches, so that compilers can vectorize it. */
static inline float bgi_float16_to_float(uint16_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    const uint32_t normal = (rest << 13) + (112u << 23), tiny = bgi_float_bits((float)(int32_t)rest * 0x1p-24f);
    const uint32_t special = 0x7f800000u | rest << 13 | (rest > 0x7c00u ? 0x400000u : 0u);

    return bgi_float_from_bits(sign | (rest < 0x400u ? tiny : rest < 0x7c00u ? normal : special));
}

/* Rounds to nearest, also without branches. Below 2^-14, adding 0.5 rounds, because its last place is 2^-24. */
static inline uint16_t bgi_float16_from_float(float value)
{
    const uint32_t bits = bgi_float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    const uint32_t normal = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
    const uint32_t tiny = bgi_float_bits(bgi_float_from_bits(rest) + 0.5f) - bgi_float_bits(0.5f);
    const uint32_t nan = 0x7e00u | (rest >> 13 & 0x3ffu);
    const uint32_t large = rest > 0x7f800000u ? nan : 0x7c00u;

    return (uint16_t)(sign | (rest < 0x38800000u ? tiny : rest < 0x47800000u ? normal : large));
}

static inline bool bgi_dtype_is_narrow(bg_dtype dtype)
{
    return dtype == BG_BFLOAT16 || dtype == BG_FLOAT16;
}

/* Whether the type is float32, or a 16-bit float whose operations are computed in float32. */
static inline bool bgi_dtype_is_single(bg_dtype dtype)
{
    return dtype == BG_FLOAT32 || bgi_dtype_is_narrow(dtype);
}

static inline float bgi_narrow_to_float(bg_dtype dtype, uint16_t bits)
{
    return dtype == BG_FLOAT16 ? bgi_float16_to_float(bits) : bgi_bfloat16_to_float(bits);
}

static inline uint16_t bgi_narrow_from_float(bg_dtype dtype, float value)
{
    return dtype == BG_FLOAT16 ? bgi_float16_from_float(value) : bgi_bfloat16_from_float(value);
}

#endif
