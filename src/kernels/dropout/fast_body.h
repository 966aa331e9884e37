/*
 * fast_body.h: dropout, which mostly computes random numbers. Attention's dropout uses the same numbers.
 */
#ifndef BGI_KERNELS_DROPOUT_FAST_BODY_H
#define BGI_KERNELS_DROPOUT_FAST_BODY_H

#include "kernels/cpu/move.h"
#include "kernels/cpu/philox_body.h"
#include "kernels/dropout/attributes.h"
#include "kernels/elementwise/fast_body.h"

/* The random numbers of one sample, and the threshold and factor that apply to them. */
typedef struct dropout_mask {
    uint32_t rest[3], key[2]; /* words of the counter after the first; the key */
    double bound;             /* elements whose word is at or above it are kept; with 2^32 all are dropped */
    float scale;              /* factor of kept elements */
} dropout_mask;

static dropout_mask find_mask(const bg_kernel_env *env, double probability, uint32_t random_id, uint32_t sample)
{
    return (dropout_mask){{sample, random_id, (uint32_t)env->step},
                          {(uint32_t)env->seed, (uint32_t)(env->seed >> 32) ^ (uint32_t)(env->step >> 32)},
                          ceil(probability * 0x1p32),
                          (float)(1.0 / (1.0 - probability))};
}

/* Writes the factors of `count` elements, at most 4 PHILOX_GROUP, and of up to three more. The first element belongs to
 * word 0 of counter `first`. */
static void make_factors(const dropout_mask *mask, uint32_t first, int64_t count, float *factors)
{
    const int64_t counters = (count + 3) / 4;
    uint32_t words[4][PHILOX_GROUP], threshold;

    if (mask->bound >= 0x1p32) {
        memset(factors, 0, (size_t)(4 * counters) * sizeof(float));
        return;
    }
    threshold = (uint32_t)mask->bound;
    make_words(mask->rest, mask->key, first, counters, words);
    for (int64_t i = 0; i < counters; i++)
        for (int64_t w = 0; w < 4; w++)
            factors[4 * i + w] = words[w][i] >= threshold ? mask->scale : 0.0f;
}

/* Multiplies elements by their factors; dropped elements become zero, even when they are NaN. */
static void drop_elements(const float *x, const float *factors, float *y, int64_t count)
{
    for (int64_t e = 0; e < count; e++)
        y[e] = factors[e] == 0.0f ? 0.0f : x[e] * factors[e];
}

/* Applies dropout to `length` elements from `at` on; the first of them is element `first` of the whole sample. */
static void drop_run(const bg_kernel_call *call, const dropout_mask *mask, int64_t at, int64_t first, int64_t length)
{
    const bg_dtype dtype = call->types[0].dtype;
    float in[4 * PHILOX_GROUP], out[4 * PHILOX_GROUP], factors[4 * PHILOX_GROUP];

    for (int64_t e = 0, count; e < length; e += count) {
        const int64_t skipped = (first + e) % 4; /* words of the first counter that belong to another shard */

        count = clip(length - e, 4 * PHILOX_GROUP - skipped);
        read_floats(dtype, call->operands[0], at + e, count, in);
        if (call->env->training) {
            make_factors(mask, (uint32_t)((first + e) / 4), skipped + count, factors);
            drop_elements(in, factors + skipped, out, count);
        }
        write_floats(dtype, call->operands[1], at + e, count, call->env->training ? out : in);
    }
}

static void run_dropout(const bg_kernel_call *call, uint32_t part)
{
    const bgi_dropout_attributes *attributes = call->attributes;
    const bg_type *type = &call->types[0];
    const int64_t samples = type->dims[0], elements = bg_type_element_count(type) / samples;
    const uint32_t parts = bgi_move_parts(samples, type), base = call->env->micro_batch * (uint32_t)samples;
    const bgi_dropout_runs runs = bgi_dropout_find_runs(call, elements);

    for (int64_t n = bgi_cpu_part_start(samples, part, parts); n < bgi_cpu_part_start(samples, part + 1, parts); n++) {
        const dropout_mask mask =
            find_mask(call->env, attributes->probability, attributes->random_id, base + (uint32_t)n);

        for (int64_t r = 0; r < runs.count; r++)
            drop_run(call, &mask, n * elements + r * runs.length, runs.first + r * runs.stride, runs.length);
    }
}

#endif
