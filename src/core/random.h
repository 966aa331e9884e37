/*
 * random.h: makes numbers from Philox's words, and streams for code that needs one number after another.
 *
 * A stream is a value: (key, counter) and the unused words of the current block. Streams that differ in the seed or in
 * any part of `place` have no block in common, so each object (sample, tensor, epoch) should have its own stream.
 */
#ifndef BGI_CORE_RANDOM_H
#define BGI_CORE_RANDOM_H

#include <brigade/random.h>

typedef struct bgi_random {
    uint32_t key[2];
    uint32_t counter[4]; /* the next block; words 2 and 3 are the place, 0 and 1 count blocks */
    uint32_t words[4];   /* the current block */
    uint32_t left;       /* number of unused words: words[4 - left] is the next one */
} bgi_random;

/* Returns the stream of `seed` and `place` (sample index, epoch, tensor number ...), at its beginning. */
bgi_random bgi_random_make(uint64_t seed, uint64_t place);

/* Derives a seed for one kind of use, so that users of the same seed (loader, digits, weights, dropout) get independent
 * numbers. `domain` is a number that no other kind of use has; see the BGI_RANDOM_ constants. */
uint64_t bgi_random_domain(uint64_t seed, uint32_t domain);

enum {
    BGI_RANDOM_LOADER = 0x6c6f6164,   /* "load" */
    BGI_RANDOM_DIGITS = 0x64696769,   /* "digi" */
    BGI_RANDOM_GENERATE = 0x67656e65, /* "gene" */
};

uint32_t bgi_random_word(bgi_random *random);

/* Returns a number that is uniform in [0, bound), without bias (Lemire's multiplication with rejection). bound must not
 * be 0. */
uint32_t bgi_random_below(bgi_random *random, uint32_t bound);

/* Returns a number that is uniform in [0, 1), a multiple of 2^-24. */
float bgi_random_uniform(bgi_random *random);

/* Makes two standard normal values from the next two words (Box-Muller in double). */
void bgi_random_normal_pair(bgi_random *random, double out[2]);

/* Shuffles by Fisher-Yates; every order is equally likely. `count` is at most 2^32 - 1. */
void bgi_random_shuffle(bgi_random *random, uint32_t *items, size_t count);

/* ---- words to numbers, for code that keeps its own counters ---- */

/* Returns a number in [0, 1) from the top 24 bits of a word; the number is exact in float. */
static inline float bgi_uniform_from_word(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Makes two standard normal values from two words, as bgi_random_normal_pair does. */
void bgi_normal_from_words(uint32_t a, uint32_t b, double out[2]);

#endif
