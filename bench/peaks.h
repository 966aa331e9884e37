/*
 * peaks.h: the peak arithmetic rate of a core, with which other measurements are compared.
 */
#ifndef BENCH_PEAKS_H
#define BENCH_PEAKS_H

#include "core/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { PEAK_STEPS = 200000, PEAK_CHAINS = 12 };

#if defined(__x86_64__)
/* Twelve chains of fused multiply-adds in registers. */
#define PEAK(name, isa, vector, set, fma)                                                                              \
    __attribute__((target(isa))) static inline float name(void)                                                        \
    {                                                                                                                  \
        vector chains[PEAK_CHAINS], a = set(0.999f), b = set(0.001f);                                                  \
                                                                                                                       \
        for (int i = 0; i < PEAK_CHAINS; i++)                                                                          \
            chains[i] = set((float)i);                                                                                 \
        for (int step = 0; step < PEAK_STEPS; step++)                                                                  \
            _Pragma("GCC unroll 12") for (int i = 0; i < PEAK_CHAINS; i++) chains[i] = fma(chains[i], a, b);           \
        for (int i = 1; i < PEAK_CHAINS; i++)                                                                          \
            chains[0] += chains[i];                                                                                    \
        return ((const float *)(const void *)&chains[0])[0];                                                           \
    }
PEAK(peak_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
PEAK(peak_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)

/* Twelve chains of products of bfloat16 pairs. */
__attribute__((target("avx512f,avx512bf16"))) static inline float peak_avx512bf16(void)
{
    const __m512i pairs = _mm512_set1_epi32(0x3c003c00);
    __m512 chains[PEAK_CHAINS];

    for (int i = 0; i < PEAK_CHAINS; i++)
        chains[i] = _mm512_set1_ps((float)i);
    for (int step = 0; step < PEAK_STEPS; step++) {
        _Pragma("GCC unroll 12") for (int i = 0; i < PEAK_CHAINS; i++) chains[i] =
            _mm512_dpbf16_ps(chains[i], (__m512bh)pairs, (__m512bh)pairs);
        __asm__ volatile("" ::: "memory");
    }
    for (int i = 1; i < PEAK_CHAINS; i++)
        chains[0] += chains[i];
    return ((const float *)(const void *)&chains[0])[0];
}
#endif

/* Executes peak_flops() operations. */
static inline void peak_run(volatile float *sink)
{
#if defined(__x86_64__)
    if (bgi_cpu_isa() >= BGI_ISA_AVX512)
        *sink = peak_avx512();
    else if (bgi_cpu_isa() == BGI_ISA_AVX2)
        *sink = peak_avx2();
#else
    *sink = 0.0f;
#endif
}

/* Executes peak_pairs_flops() operations on pairs of bfloat16 numbers. */
static inline void peak_pairs_run(volatile float *sink)
{
#if defined(__x86_64__)
    if (bgi_cpu_isa() >= BGI_ISA_AVX512_BF16)
        *sink = peak_avx512bf16();
#else
    *sink = 0.0f;
#endif
}

/* Returns 0 for processors without such instructions, and with AMX, whose peak is another one. */
static inline double peak_pairs_flops(void)
{
    return bgi_cpu_isa() == BGI_ISA_AVX512_BF16 ? 4.0 * 16.0 * PEAK_CHAINS * PEAK_STEPS : 0.0;
}

/* Returns 0 if the peak of this processor is unknown. */
static inline double peak_flops(void)
{
    const double lanes = bgi_cpu_isa() >= BGI_ISA_AVX512 ? 16.0 : bgi_cpu_isa() == BGI_ISA_AVX2 ? 8.0 : 0.0;

    return 2.0 * lanes * PEAK_CHAINS * PEAK_STEPS;
}

#endif
