/*
 * random.c: implements Philox 4x32-10, and makes numbers from its words.
 */
#include "core/random.h"

#include <math.h>

static void multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
    const uint64_t product = (uint64_t)a * b;

    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

void bg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    /* The multipliers and the key increments (golden ratio, sqrt(3) - 1) are those of the paper. */
    const uint32_t multiplier_0 = 0xD2511F53u, multiplier_1 = 0xCD9E8D57u;
    const uint32_t step_0 = 0x9E3779B9u, step_1 = 0xBB67AE85u;
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint32_t high_0, low_0, high_1, low_1;

        multiply(multiplier_0, c0, &high_0, &low_0);
        multiply(multiplier_1, c2, &high_1, &low_1);
        c0 = high_1 ^ c1 ^ k0;
        c1 = low_1;
        c2 = high_0 ^ c3 ^ k1;
        c3 = low_0;
        k0 += step_0;
        k1 += step_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

bgi_random bgi_random_make(uint64_t seed, uint64_t place)
{
    return (bgi_random){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                        .counter = {0, 0, (uint32_t)place, (uint32_t)(place >> 32)}};
}

uint64_t bgi_random_domain(uint64_t seed, uint32_t domain)
{
    /* The last counter word is all ones, which no stream reaches, because `place` would have to be at least 2^64 -
     * 2^32. */
    const uint32_t counter[4] = {domain, 0, 0, 0xffffffffu};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];

    bg_philox(counter, key, words);
    return (uint64_t)words[1] << 32 | words[0];
}

uint32_t bgi_random_word(bgi_random *random)
{
    if (random->left == 0) {
        bg_philox(random->counter, random->key, random->words);
        if (++random->counter[0] == 0)
            random->counter[1]++;
        random->left = 4;
    }
    return random->words[4 - random->left--];
}

uint32_t bgi_random_below(bgi_random *random, uint32_t bound)
{
    uint64_t product = (uint64_t)bgi_random_word(random) * bound;

    /* Each result gets the same number of words if words whose product has a low half below 2^32 mod bound are drawn
     * again. */
    if ((uint32_t)product < bound) {
        const uint32_t surplus = (0u - bound) % bound;
        while ((uint32_t)product < surplus)
            product = (uint64_t)bgi_random_word(random) * bound;
    }
    return (uint32_t)(product >> 32);
}

float bgi_random_uniform(bgi_random *random)
{
    return bgi_uniform_from_word(bgi_random_word(random));
}

void bgi_normal_from_words(uint32_t a, uint32_t b, double out[2])
{
    /* (a + 1) / 2^32 is in (0, 1], so the logarithm is finite. */
    const double radius = sqrt(-2.0 * log(((double)a + 1.0) * 0x1p-32));
    const double angle = 6.283185307179586476925286766559 * ((double)b * 0x1p-32);

    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

void bgi_random_normal_pair(bgi_random *random, double out[2])
{
    const uint32_t a = bgi_random_word(random), b = bgi_random_word(random);

    bgi_normal_from_words(a, b, out);
}

void bgi_random_shuffle(bgi_random *random, uint32_t *items, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const uint32_t other = bgi_random_below(random, (uint32_t)i);
        const uint32_t kept = items[i - 1];

        items[i - 1] = items[other];
        items[other] = kept;
    }
}
