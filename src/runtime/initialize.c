/*
 * initialize.c: values from (seed, the variable's number, element), whoever computes them and in whichever order.
 *
 * Elements 4 i .. 4 i + 3 come from the four words of one Philox block: uniform from one word each, normal from a pair.
 */
#include "runtime/initialize.h"

#include <pthread.h>
#include <string.h>

#include "core/random.h"
#include "kernels/reference/element.h"

enum { WORDS = 4 };
static const uint32_t purpose = 0x74696e69u; /* sets these blocks apart from those of random ops */

/* At a block of truncated values. What is outside after all of them is put on the bound: each attempt misses with a
 * chance of one in 22, so nobody will see that. */
enum { ATTEMPTS = 32 };

/* Of threads that fill one tensor: how many at most, and what is worth one. */
enum { MOST_THREADS = 64, LEAST_ELEMENTS = 1 << 16 };

/* float32 arithmetic, so that a float64 model made for a check starts from the float32 model's values nearly; in
 * float64 the bounds are not rounded first. */
static double draw_uniform(bg_dtype dtype, const bg_initializer *initializer, uint32_t word)
{
    const float u = bgi_uniform_from_word(word);
    const float low = (float)initializer->a, high = (float)initializer->b;

    if (dtype == BG_FLOAT64)
        return initializer->a + (initializer->b - initializer->a) * (double)u;
    return low + (high - low) * u;
}

static void draw(bg_dtype dtype, const bg_initializer *initializer, const uint32_t words[WORDS], double out[WORDS])
{
    if (initializer->kind == BG_INITIALIZE_UNIFORM) {
        for (int i = 0; i < WORDS; i++)
            out[i] = draw_uniform(dtype, initializer, words[i]);
        return;
    }
    bgi_normal_from_words(words[0], words[1], &out[0]);
    bgi_normal_from_words(words[2], words[3], &out[2]);
    for (int i = 0; i < WORDS; i++)
        out[i] = initializer->a + initializer->b * out[i];
}

/* Values of which any is beyond two deviations are drawn again, by themselves, from the words of the next attempt. */
static void draw_truncated(bg_dtype dtype, const bg_initializer *initializer, const uint32_t first_counter[4],
                           const uint32_t key[2], double out[WORDS])
{
    const double low = initializer->a - 2.0 * initializer->b, high = initializer->a + 2.0 * initializer->b;
    uint32_t counter[4] = {first_counter[0], first_counter[1], first_counter[2], first_counter[3]};
    bool is_inside[WORDS] = {false};

    for (uint32_t attempt = 0, inside = 0; attempt < ATTEMPTS && inside < WORDS; attempt++) {
        uint32_t words[WORDS];
        double values[WORDS];

        counter[3] = first_counter[3] + attempt;
        bg_philox(counter, key, words);
        draw(dtype, initializer, words, values);
        for (int i = 0; i < WORDS; i++) {
            if (is_inside[i])
                continue;
            is_inside[i] = values[i] >= low && values[i] <= high;
            inside += is_inside[i];
            out[i] = values[i] < low ? low : values[i] > high ? high : values[i];
        }
    }
}

/* Elements first .. end - 1; data[0] is element `origin`. */
typedef struct range {
    bg_dtype dtype;
    const bg_initializer *initializer;
    uint64_t seed;
    uint32_t number;
    void *data;
    int64_t origin, first, end;
} range;

static void fill_range(const range *r)
{
    const bg_dtype dtype = r->dtype;
    const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};

    if (r->initializer->kind == BG_INITIALIZE_CONSTANT) {
        for (int64_t i = r->first; i < r->end; i++)
            bgi_store(dtype, r->data, i - r->origin, r->initializer->a);
        return;
    }
    for (int64_t i = r->first / WORDS * WORDS; i < r->end; i += WORDS) {
        const uint64_t block = (uint64_t)i / WORDS;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), r->number, purpose};
        uint32_t words[WORDS];
        double values[WORDS];

        if (r->initializer->kind == BG_INITIALIZE_TRUNCATED_NORMAL) {
            draw_truncated(dtype, r->initializer, counter, key, values);
        } else {
            bg_philox(counter, key, words);
            draw(dtype, r->initializer, words, values);
        }
        for (int64_t j = i > r->first ? i : r->first; j < r->end && j < i + WORDS; j++)
            bgi_store(dtype, r->data, j - r->origin, values[j - i]);
    }
}

static void *run_range(void *argument)
{
    fill_range(argument);
    return NULL;
}

void bgi_initialize_range(bg_dtype dtype, const bg_initializer *initializer, uint64_t seed, uint32_t number,
                          int64_t first, int64_t count, uint32_t threads, void *data)
{
    const int64_t most = count / LEAST_ELEMENTS, wanted = threads < most ? threads : most;
    const int64_t parts = wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : wanted;
    range ranges[MOST_THREADS];
    pthread_t helpers[MOST_THREADS];
    bool is_helped[MOST_THREADS] = {false};

    for (int64_t p = 0; p < parts; p++) {
        ranges[p] = (range){.dtype = dtype, .initializer = initializer, .seed = seed, .number = number, .data = data};
        ranges[p].origin = first;
        ranges[p].first = first + count / WORDS * p / parts * WORDS;
        ranges[p].end = first + (p + 1 < parts ? count / WORDS * (p + 1) / parts * WORDS : count);
        is_helped[p] = p > 0 && pthread_create(&helpers[p], NULL, run_range, &ranges[p]) == 0;
    }
    for (int64_t p = 0; p < parts; p++)
        if (!is_helped[p])
            fill_range(&ranges[p]);
    for (int64_t p = 0; p < parts; p++)
        if (is_helped[p])
            pthread_join(helpers[p], NULL);
}

void bgi_initialize(const bg_type *type, const bg_initializer *initializer, uint64_t seed, uint32_t number,
                    uint32_t threads, void *data)
{
    bgi_initialize_range(type->dtype, initializer, seed, number, 0, bg_type_element_count(type), threads, data);
}
