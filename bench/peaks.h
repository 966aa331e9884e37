/*
 * peaks.h: measures the peak arithmetic rate of a core, with which other measurements are compared.
 */
#ifndef BENCH_PEAKS_H
#define BENCH_PEAKS_H

#include "core/isa.h"
#include "profile/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { PEAK_ROUNDS = 120, PAIR_STEPS = 50000, PAIR_CHAINS = 16 };

#if defined(__x86_64__)
/* Computes chains of products of bfloat16 pairs: enough of them for two products in each cycle. The chains must stay in
 * registers, so the loop has no barrier for memory. */
__attribute__((target("avx512f,avx512bf16"))) static inline float peak_multiply_pairs(void)
{
    const __m512i pairs = _mm512_set1_epi32(0x3c003c00);
    __m512 chains[PAIR_CHAINS];

    for (int i = 0; i < PAIR_CHAINS; i++)
        chains[i] = _mm512_set1_ps((float)i);
    for (int step = 0; step < PAIR_STEPS; step++) {
        _Pragma("GCC unroll 16") for (int i = 0; i < PAIR_CHAINS; i++) chains[i] =
            _mm512_dpbf16_ps(chains[i], (__m512bh)pairs, (__m512bh)pairs);
    }
    for (int i = 1; i < PAIR_CHAINS; i++)
        chains[0] += chains[i];
    return ((const float *)(const void *)&chains[0])[0];
}
#endif

/* Executes peak_flops() operations. */
static inline void peak_run(volatile float *sink)
{
    for (int i = 0; i < PEAK_ROUNDS; i++)
        bgi_machine_multiply(sink);
}

/* Returns the number of operations of peak_run(); 0 if the peak of this processor is unknown. */
static inline double peak_flops(void)
{
    volatile float sink;

    return bgi_cpu_isa() != BGI_ISA_PORTABLE ? PEAK_ROUNDS * bgi_machine_multiply(&sink) : 0.0;
}

/* Executes peak_pairs_flops() operations on pairs of bfloat16 numbers. */
static inline void peak_pairs_run(volatile float *sink)
{
#if defined(__x86_64__)
    if (bgi_cpu_isa() >= BGI_ISA_AVX512_BF16)
        *sink = peak_multiply_pairs();
#else
    *sink = 0.0f;
#endif
}

/* Returns the number of operations of peak_pairs_run(); 0 for processors without such instructions, and for those with
 * AMX, which have a higher peak. */
static inline double peak_pairs_flops(void)
{
    return bgi_cpu_isa() == BGI_ISA_AVX512_BF16 ? 4.0 * 16.0 * PAIR_CHAINS * PAIR_STEPS : 0.0;
}

#endif
