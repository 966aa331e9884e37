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

#include <string.h>

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
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + chance) >> 16);
}

#endif
