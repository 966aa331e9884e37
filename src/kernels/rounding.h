/*
 * rounding.h: rounding to 16 bits by chance: up with the probability that is the share of the way, so that the mean of
 * many roundings is the value. An update that adds less than half a last place would otherwise add nothing, for ever.
 *
 * The chance is a function of (seed, step, parameter, operand, element of the whole): whoever rounds an element, in
 * whatever piece and under whatever strategy, rounds it the same way, and so do replicas that keep the same thing.
 */
#ifndef BGI_KERNELS_ROUNDING_H
#define BGI_KERNELS_ROUNDING_H

#include <brigade/kernel.h>
#include <brigade/random.h>

#include "core/narrow.h"

/* Part of an update's attributes. All zero: to nearest. */
typedef struct bgi_rounding {
    int64_t elements; /* of the parameter; 0: to nearest */
    int64_t piece;    /* elements of a piece, where replicas update a piece each */
    uint32_t random_id;
    uint32_t axes; /* along which a mesh cuts the parameter: other pieces, other chances */
} bgi_rounding;

/* A block of Philox serves so many elements: 16 bits each. */
enum { BGI_ROUNDING_BLOCK = 8 };

/* The chances of an operand's elements: the counter behind its first word, which counts blocks, and the key. */
typedef struct bgi_chances {
    uint32_t rest[3], key[2];
    int64_t first; /* the operand's first element, in the whole */
} bgi_chances;

static inline bgi_chances bgi_rounding_chances(const bgi_rounding *rounding, const bg_kernel_call *call,
                                               uint32_t operand)
{
    const bg_kernel_env *env = call->env;
    const uint32_t one = (rounding->axes & BG_MESH_TENSOR_1) != 0 ? env->place.tensor_1 : 0;
    const uint32_t two = (rounding->axes & BG_MESH_TENSOR_2) != 0 ? env->place.tensor_2 : 0;
    const bool is_piece = bg_type_element_count(&call->types[0]) != rounding->elements;

    return (bgi_chances){{operand | one << 8 | two << 20, rounding->random_id, (uint32_t)env->step},
                         {(uint32_t)env->seed ^ 0x726f756eu, /* "roun": not dropout's numbers */
                          (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)},
                         is_piece ? (int64_t)env->place.data * rounding->piece : 0};
}

/* The 16 bits of an element of the whole, out of the words of its block. */
static inline uint32_t bgi_rounding_bits(const uint32_t words[4], int64_t element)
{
    const uint32_t word = words[element / 2 % 4];

    return element % 2 == 0 ? word & 0xffffu : word >> 16;
}

/* What is not finite stays what it is; beyond the largest number may be infinity. */
static inline uint16_t bgi_bfloat16_by_chance(float value, uint32_t chance)
{
    const uint32_t bits = bgi_float_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + chance) >> 16);
}

/* ---- float16 ----
 *
 * Above 2^-14 a float has 13 bits too many, and as many bits of chance decide exactly. Below, it is so many steps of
 * 2^-24, and its way to the next step may have more bits than the 16 of chance:
 *
 *     steps  .  16 bits, which chance decides  | what is left: counts where the 16 bits of chance were as close as
 *                                              | can be to carrying, once in 65536 times; `is_open` says so then
 *
 * and then an extra block of Philox, 128 bits, decides exactly. Above 65504 the next number would be 65536, which is
 * infinity: the chance decides between these two. From 65536 on all are infinity. */

/* A size below 2^-14 in steps of 2^-40. */
static inline float bgi_float16_steps(uint32_t size_bits)
{
    return bgi_float_from_bits(size_bits < 0x38800000u ? size_bits : 0) * 0x1p40f;
}

/* Without branches: sets *is_open to 1 where the chance does not suffice, else leaves it. */
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

/* Whether a number of 128 bits, the first word the highest, is below what 16 bits of chance left of `value`'s way. */
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

/* ---- either ---- */

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

/* Element `element` of the whole, with its bits of chance. */
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
