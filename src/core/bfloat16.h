/*
 * bfloat16.h: one bfloat16, the upper half of a float, from and to it.
 */
#ifndef BGI_CORE_BFLOAT16_H
#define BGI_CORE_BFLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float bgi_bfloat16_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t bgi_bfloat16_from_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(bits >> 16);
}

#endif
