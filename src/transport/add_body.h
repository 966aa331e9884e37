/*
 * add_body.h: implements the sums of add.h once; each add*.c compiles it with different flags.
 */
#include "transport/add.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#elif defined(__GNUC__)
#define VECTOR_BYTES 16
#endif

#if defined(VECTOR_BYTES)
/* A vector with the alignment of a float. */
typedef float lanes __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

/* Adds all whole vectors; returns the number of elements done. Most sums have two terms. */
static size_t add_vectors(float *to, const float *const *terms, uint32_t term_count, size_t count)
{
    enum { WIDTH = VECTOR_BYTES / sizeof(float) };
    size_t i = 0;

    if (term_count == 2)
        for (; i + WIDTH <= count; i += WIDTH)
            *(lanes *)(to + i) = *(const lanes *)(terms[0] + i) + *(const lanes *)(terms[1] + i);
    for (; i + WIDTH <= count; i += WIDTH) {
        lanes sum = *(const lanes *)(terms[0] + i);
        for (uint32_t term = 1; term < term_count; term++)
            sum += *(const lanes *)(terms[term] + i);
        *(lanes *)(to + i) = sum;
    }
    return i;
}
#else
static size_t add_vectors(float *to, const float *const *terms, uint32_t term_count, size_t count)
{
    (void)to, (void)terms, (void)term_count, (void)count;
    return 0;
}
#endif

static void add(float *to, const float *const *terms, uint32_t term_count, size_t count)
{
    for (size_t i = add_vectors(to, terms, term_count, count); i < count; i++) {
        float sum = terms[0][i];
        for (uint32_t term = 1; term < term_count; term++)
            sum += terms[term][i];
        to[i] = sum;
    }
}
