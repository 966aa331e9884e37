/*
 * philox_body.h: computes many blocks of Philox4x32-10 at once. Compilers vectorize the loop; core/random.c has the
 * scalar version.
 */
#ifndef BGI_CPU_PHILOX_BODY_H
#define BGI_CPU_PHILOX_BODY_H

#include "kernels/cpu/simd.h"

enum { PHILOX_GROUP = 64 }; /* the largest number of counters that are advanced together, with 4 words each */

/* Computes words[w][i], word w of the block at counter {first + i, rest...}. */
static void make_words(const uint32_t rest[3], const uint32_t key[2], uint32_t first, int64_t count,
                       uint32_t words[4][PHILOX_GROUP])
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t c0 = first + i, c1 = rest[0], c2 = rest[1], c3 = rest[2];
        uint32_t k0 = key[0], k1 = key[1];

        for (int round = 0; round < 10; round++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;

            c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)b;
            c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)a;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        words[0][i] = c0;
        words[1][i] = c1;
        words[2][i] = c2;
        words[3][i] = c3;
    }
}

#endif
