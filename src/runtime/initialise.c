/*
 * initialise.c: values from (seed, the variable's number, element), whoever computes them and in whichever order.
 *
 * Elements 4 i .. 4 i + 3 come from the four words of one Philox block: uniform from one word each, normal from a pair.
 */
#include "runtime/initialise.h"

#include <string.h>

#include "core/random.h"
#include "kernels/reference/element.h"

enum { WORDS = 4 };
static const uint32_t purpose = 0x74696e69u; /* sets these blocks apart from those of random ops */

/* float32 arithmetic, so that a float64 model made for a check starts from the float32 model's values nearly; in
 * float64 the bounds are not rounded first. */
static double draw_uniform(bg_dtype dtype, const bg_initialiser *initialiser, uint32_t word)
{
    const float u = bgi_uniform_from_word(word);
    const float low = (float)initialiser->a, high = (float)initialiser->b;

    if (dtype == BG_FLOAT64)
        return initialiser->a + (initialiser->b - initialiser->a) * (double)u;
    return low + (high - low) * u;
}

static void draw(bg_dtype dtype, const bg_initialiser *initialiser, const uint32_t words[WORDS], double out[WORDS])
{
    if (initialiser->kind == BG_INITIALISE_UNIFORM) {
        for (int i = 0; i < WORDS; i++)
            out[i] = draw_uniform(dtype, initialiser, words[i]);
        return;
    }
    bgi_normal_from_words(words[0], words[1], &out[0]);
    bgi_normal_from_words(words[2], words[3], &out[2]);
    for (int i = 0; i < WORDS; i++)
        out[i] = initialiser->a + initialiser->b * out[i];
}

void bgi_initialise(const bg_type *type, const bg_initialiser *initialiser, uint64_t seed, uint32_t number, void *data)
{
    const int64_t count = bg_type_element_count(type);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    if (initialiser->kind == BG_INITIALISE_CONSTANT) {
        for (int64_t i = 0; i < count; i++)
            bgi_store(type->dtype, data, i, initialiser->a);
        return;
    }
    for (int64_t i = 0; i < count; i += WORDS) {
        const uint64_t block = (uint64_t)i / WORDS;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), number, purpose};
        uint32_t words[WORDS];
        double values[WORDS];

        bg_philox(counter, key, words);
        draw(type->dtype, initialiser, words, values);
        for (int64_t j = i; j < count && j < i + WORDS; j++)
            bgi_store(type->dtype, data, j, values[j - i]);
    }
}
