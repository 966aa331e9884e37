/*
 * rounding.h: stochastic rounding to 16 bits. A value between two 16-bit numbers is rounded up with a probability equal
 * to its fraction of the distance from the lower to the upper number, so that the mean of many roundings is the value.
 * With rounding to nearest, an update below half a unit in the last place would never change the weight.
 *
 * The random number is a function of (seed, step, parameter, operand, tensor-parallel shard, element of this shard). An
 * element is therefore rounded in the same way in any data-parallel piece of the tensor, under any strategy with the
 * same tensor axes, and on replicas with the same values. Below, the "whole tensor" is the tensor-parallel shard.
 */
#ifndef BGI_KERNELS_ROUNDING_H
#define BGI_KERNELS_ROUNDING_H

#include <brigade/kernel.h>
#include <brigade/random.h>

#include "core/narrow.h"

/* The struct is part of an update's attributes. All zero: rounds to nearest. */
typedef struct bgi_rounding {
    int64_t elements; /* elements of the parameter; 0: rounds to nearest */
    int64_t piece;    /* elements of a piece, if each data-parallel replica updates a piece */
    uint32_t random_id;
    uint32_t axes; /* tensor axes along which the parameter is sharded; shards have different random numbers */
} bgi_rounding;

/* A block of Philox is used for this many elements, 16 bits each. */
enum { BGI_ROUNDING_BLOCK = 8 };

/* The key and the counter of the random numbers of an operand's elements. The counter's first word, which is not in
 * `rest`, is the number of the block. */
typedef struct bgi_chances {
    uint32_t rest[3], key[2];
    int64_t first; /* the index in the whole tensor of the operand's first element */
} bgi_chances;

static inline bgi_chances bgi_rounding_chances(const bgi_rounding *rounding, const bg_kernel_call *call,
                                               uint32_t operand)
{
    const bg_kernel_env *env = call->env;
    const uint32_t one = (rounding->axes & BG_MESH_TENSOR_1) != 0 ? env->place.tensor_1 : 0;
    const uint32_t two = (rounding->axes & BG_MESH_TENSOR_2) != 0 ? env->place.tensor_2 : 0;
    const bool is_piece = bg_type_element_count(&call->types[0]) != rounding->elements;

    return (bgi_chances){
        {operand | one << 8 | two << 20, rounding->random_id, (uint32_t)env->step},
        {(uint32_t)env->seed ^ 0x726f756eu, /* "roun", so that the numbers differ from those of dropout */
         (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)},
        is_piece ? (int64_t)env->place.data * rounding->piece : 0};
}

/* Returns the 16 random bits of an element of the whole tensor, from the words of its block. */
static inline uint32_t bgi_rounding_bits(const uint32_t words[4], int64_t element)
{
    const uint32_t word = words[element / 2 % 4];

    return element % 2 == 0 ? word & 0xffffu : word >> 16;
}

/* Rounds to bfloat16 by 16 random bits. Infinity and NaN stay infinity and NaN; a value above the largest finite number
 * may become infinity. */
static inline uint16_t bgi_bfloat16_by_chance(float value, uint32_t chance)
{
    const uint32_t bits = bgi_float_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + chance) >> 16);
}

/* ---- float16 ----
 *
 * From 2^-14 on, a float has 13 bits more than a float16, and 13 random bits decide exactly. Below 2^-14, float16
 * numbers are multiples of 2^-24. A float is a number of these steps and a fraction, which may have more bits than the
 * 16 random bits:
 *
 *     steps  .  16 bits, to which the 16    | further bits: they matter only if that sum has 16 ones after the point,
 *               random bits are added       | once in 65536 times; `is_open` is set then
 *
 * In this case an extra block of Philox, 128 bits, decides exactly. Above 65504 the next number would be 65536, which
 * is infinity, so the random number decides between 65504 and infinity. From 65536 on, the result is infinity. */

/* Returns an absolute value below 2^-14 in units of 2^-40, and 0 for larger ones. */
static inline float bgi_float16_steps(uint32_t size_bits)
{
    return bgi_float_from_bits(size_bits < 0x38800000u ? size_bits : 0) * 0x1p40f;
}

/* Rounds to float16 by 16 random bits, without branches. Sets *is_open to 1 if the random bits do not decide, otherwise
 * leaves it unchanged. */
static inline uint16_t bgi_float16_by_chance(float value, uint32_t chance, uint32_t *is_open)
{
    const uint32_t bits = bgi_float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    const uint32_t normal = (rest - (112u << 23) + (chance >> 3)) >> 13;
    const float steps = bgi_float16_steps(rest);
    const uint32_t sum = (uint32_t)(int32_t)steps + chance;
    const uint32_t large = rest > 0x7f800000u ? 0x7e00u | (rest >> 13 & 0x3ffu) : 0x7c00u;

    *is_open |= (uint32_t)((sum & 0xffffu) == 0xffffu) & (uint32_t)(steps != (float)(int32_t)steps);
    return (uint16_t)(sign | (rest < 0x38800000u ? sum >> 16 : rest < 0x47800000u ? normal : large));
}

/* Returns whether a random 128-bit number (the first word is the highest), divided by 2^128, is below the fraction of
 * `value` in units of 2^-40, which 16 random bits cannot decide. */
static inline bool bgi_float16_goes_up(float value, const uint32_t words[4])
{
    const float steps = bgi_float16_steps(bgi_float_bits(value) & 0x7fffffffu);
    const uint32_t left = bgi_float_bits(steps - (float)(int32_t)steps);
    const uint32_t zeros = 126 - (left >> 23), word = zeros / 32, shift = zeros % 32;
    const uint64_t pair = (uint64_t)words[word] << 32 | (word < 3 ? words[word + 1] : 0);

    for (uint32_t i = 0; i < word; i++)
        if (words[i] != 0)
            return false;
    return pair >> 32 >> (31 - shift) >> 1 == 0 && pair << shift >> 40 < ((left & 0x7fffffu) | 0x800000u);
}

/* ---- both types ---- */

static inline uint16_t bgi_narrow_by_more_chance(float value, uint16_t down, const bgi_chances *chances,
                                                 int64_t element)
{
    const uint32_t counter[4] = {(uint32_t)element, chances->rest[0], chances->rest[1], chances->rest[2]};
    const uint32_t key[2] = {chances->key[0] ^ 0x6d6f7265u, /* "more" */
                             chances->key[1] ^ (uint32_t)(element >> 32)};
    uint32_t words[4];

    bg_philox(counter, key, words);
    return (uint16_t)(down + bgi_float16_goes_up(value, words));
}

/* Rounds `value`, which is element `element` of the whole tensor, with its 16 random bits `chance`. */
static inline uint16_t bgi_narrow_by_chance(bg_dtype dtype, float value, uint32_t chance, const bgi_chances *chances,
                                            int64_t element)
{
    uint32_t is_open = 0;
    uint16_t half;

    if (dtype == BG_BFLOAT16)
        return bgi_bfloat16_by_chance(value, chance);
    half = bgi_float16_by_chance(value, chance, &is_open);
    return is_open ? bgi_narrow_by_more_chance(value, half, chances, element) : half;
}

#endif
