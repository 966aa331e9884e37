/*
 * half.h: float16 numbers in files, of which Brigade makes float32.
 */
#ifndef BGI_DATA_HALF_H
#define BGI_DATA_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bgi_float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exact: every float16 is a float32. */
static inline float bgi_float_from_half(uint32_t half)
{
    const uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;

    if (exponent == 0) {
        const float value = (float)fraction * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    return bgi_float_from_bits(sign | fraction << 13 | (exponent == 31 ? 255U << 23 : (exponent + 112) << 23));
}

#endif
