/*
 * simd.h: one vector of floats, in the width of the instruction set this file is compiled for.
 *
 * Only variant_*.c include this file, through the ..._body.h files, and each variant_*.c is compiled with its own
 * flags. Every kernel body is written once, with the types and functions of this file. GCC's vector types provide
 * arithmetic and bit operations in every width; this file names the missing operations (fused multiply-add, partial
 * loads, selecting compares). LANES is the width, vf a vector of floats, vi of 32-bit integers, vm the result of a
 * compare.
 */
#ifndef BGI_CPU_SIMD_H
#define BGI_CPU_SIMD_H

#include "core/narrow.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define BGI_VARIANT_NAME "avx512"
#define LANES            16
#elif defined(__AVX2__)
#include <immintrin.h>
#define BGI_VARIANT_NAME "avx2"
#define LANES            8
#elif defined(BGI_NEON)
#include <arm_neon.h>
#define BGI_VARIANT_NAME "neon"
#define LANES            4
#else
#define BGI_VARIANT_NAME "portable"
#define LANES            4
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

/* Hides the origin of a pointer, so that the compiler increments the pointer instead of keeping many sums of it in
 * registers. */
#define FORGET(pointer) __asm__("" : "+r"(pointer))

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef float vf_loose __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t vi_loose __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* A vector of LANES / 2 doubles, for sums that need more digits than float32. */
typedef double vd __attribute__((vector_size(LANES * 4)));
typedef float vf_half __attribute__((vector_size(LANES * 2), aligned(4), may_alias));

ALWAYS_INLINE vf vload(const float *p)
{
    return *(const vf_loose *)p;
}

ALWAYS_INLINE void vstore(float *p, vf v)
{
    *(vf_loose *)p = v;
}

ALWAYS_INLINE vi vload_int(const int32_t *p)
{
    return *(const vi_loose *)p;
}

ALWAYS_INLINE void vstore_int(int32_t *p, vi v)
{
    *(vi_loose *)p = v;
}

#if LANES == 16

typedef __mmask16 vm;

ALWAYS_INLINE vf vset(float x)
{
    return (vf)_mm512_set1_ps(x);
}
ALWAYS_INLINE vi vset_int(int32_t x)
{
    return (vi)_mm512_set1_epi32(x);
}
/* Returns a b + c, rounded once (portable: twice). */
ALWAYS_INLINE vf vfma(vf a, vf b, vf c)
{
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
/* Loads the first n lanes (n up to LANES); the others are zero and their memory is not accessed. */
ALWAYS_INLINE vf vload_n(const float *p, int64_t n)
{
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}
ALWAYS_INLINE void vstore_n(float *p, vf v, int64_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), (__m512)v);
}
ALWAYS_INLINE void vstore_int_n(int32_t *p, vi v, int64_t n)
{
    _mm512_mask_storeu_epi32(p, (__mmask16)((1u << n) - 1u), (__m512i)v);
}
ALWAYS_INLINE void vstore_bytes_n(uint8_t *p, vi v, int64_t n)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, (__mmask16)((1u << n) - 1u), (__m512i)v);
}
ALWAYS_INLINE vm vgreater(vf a, vf b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
ALWAYS_INLINE vm vequal(vf a, vf b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
ALWAYS_INLINE vm vis_nan(vf a)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q);
}
/* Returns where a > b, or a is NaN and b is not: the condition for a new maximum when NaN wins. */
ALWAYS_INLINE vm vwins(vf a, vf b)
{
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_ORD_Q), (__m512)a, (__m512)b,
                                   _CMP_NLE_UQ);
}
ALWAYS_INLINE vm vmask_or(vm a, vm b)
{
    return (vm)(a | b);
}
ALWAYS_INLINE vm vmask_and(vm a, vm b)
{
    return (vm)(a & b);
}
ALWAYS_INLINE bool vany(vm a)
{
    return a != 0;
}
ALWAYS_INLINE bool vany_int(vi a)
{
    return _mm512_test_epi32_mask((__m512i)a, (__m512i)a) != 0;
}
ALWAYS_INLINE vm vis_zero(vf a)
{
    return _mm512_cmp_ps_mask((__m512)a, _mm512_setzero_ps(), _CMP_EQ_OQ);
}
ALWAYS_INLINE vf vselect(vm m, vf yes, vf no)
{
    return (vf)_mm512_mask_blend_ps(m, (__m512)no, (__m512)yes);
}
ALWAYS_INLINE vi vselect_int(vm m, vi yes, vi no)
{
    return (vi)_mm512_mask_blend_epi32(m, (__m512i)no, (__m512i)yes);
}
ALWAYS_INLINE vf vsqrt(vf a)
{
    return (vf)_mm512_sqrt_ps((__m512)a);
}
ALWAYS_INLINE vf vround(vf a)
{
    return (vf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ALWAYS_INLINE vi vto_int(vf a)
{
    return (vi)_mm512_cvtps_epi32((__m512)a);
}
ALWAYS_INLINE vf vto_float(vi a)
{
    return (vf)_mm512_cvtepi32_ps((__m512i)a);
}

#else

typedef vi vm;

/* Lists every lane, because for `(vf){0} + x` compilers would compute `0 + x` and keep the 0 in a register. */
ALWAYS_INLINE vf vset(float x)
{
#if LANES == 8
    return (vf){x, x, x, x, x, x, x, x};
#else
    return (vf){x, x, x, x};
#endif
}
ALWAYS_INLINE vi vset_int(int32_t x)
{
    return (vi){0} + x;
}
ALWAYS_INLINE vm vgreater(vf a, vf b)
{
    return (vm)(a > b);
}
ALWAYS_INLINE vm vequal(vf a, vf b)
{
    return (vm)(a == b);
}
ALWAYS_INLINE vm vis_nan(vf a)
{
    return (vm)(a != a);
}
ALWAYS_INLINE vm vwins(vf a, vf b)
{
    return (vm)(b == b) & ~(vm)(a <= b);
}
ALWAYS_INLINE vm vmask_or(vm a, vm b)
{
    return a | b;
}
ALWAYS_INLINE vm vmask_and(vm a, vm b)
{
    return a & b;
}
ALWAYS_INLINE vm vis_zero(vf a)
{
    return (vm)(a == (vf){0});
}
ALWAYS_INLINE bool vany(vm a)
{
#if LANES == 8
    return _mm256_movemask_epi8((__m256i)a) != 0;
#else
    return (a[0] | a[1] | a[2] | a[3]) != 0;
#endif
}
ALWAYS_INLINE bool vany_int(vi a)
{
    return vany(a);
}
ALWAYS_INLINE vi vselect_int(vm m, vi yes, vi no)
{
    return (yes & m) | (no & ~m);
}
ALWAYS_INLINE vf vselect(vm m, vf yes, vf no)
{
    return (vf)vselect_int(m, (vi)yes, (vi)no);
}
ALWAYS_INLINE void vstore_bytes_n(uint8_t *p, vi v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = (uint8_t)v[i];
}

#if LANES == 8
ALWAYS_INLINE vf vfma(vf a, vf b, vf c)
{
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
ALWAYS_INLINE __m256i lane_mask(int64_t n)
{
    const vi index = {0, 1, 2, 3, 4, 5, 6, 7};

    return (__m256i)(index < vset_int((int32_t)n));
}
/* These functions load and store the first n lanes. Whole vectors are a separate case: on AMD's processors a masked
 * store takes twenty cycles or more. */
ALWAYS_INLINE vf vload_n(const float *p, int64_t n)
{
    return n == LANES ? vload(p) : (vf)_mm256_maskload_ps(p, lane_mask(n));
}
ALWAYS_INLINE void vstore_n(float *p, vf v, int64_t n)
{
    if (n == LANES)
        vstore(p, v);
    else
        _mm256_maskstore_ps(p, lane_mask(n), (__m256)v);
}
ALWAYS_INLINE void vstore_int_n(int32_t *p, vi v, int64_t n)
{
    if (n == LANES)
        vstore_int(p, v);
    else
        _mm256_maskstore_epi32(p, lane_mask(n), (__m256i)v);
}
ALWAYS_INLINE vf vsqrt(vf a)
{
    return (vf)_mm256_sqrt_ps((__m256)a);
}
ALWAYS_INLINE vf vround(vf a)
{
    return (vf)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ALWAYS_INLINE vi vto_int(vf a)
{
    return (vi)_mm256_cvtps_epi32((__m256)a);
}
ALWAYS_INLINE vf vto_float(vi a)
{
    return (vf)_mm256_cvtepi32_ps((__m256i)a);
}
#else
ALWAYS_INLINE vf vload_n(const float *p, int64_t n)
{
    vf v = {0};

    if (n == LANES)
        return vload(p);
    for (int64_t i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
ALWAYS_INLINE void vstore_n(float *p, vf v, int64_t n)
{
    if (n == LANES) {
        vstore(p, v);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        p[i] = v[i];
}
ALWAYS_INLINE void vstore_int_n(int32_t *p, vi v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = v[i];
}
#if defined(BGI_NEON)
ALWAYS_INLINE vf vfma(vf a, vf b, vf c)
{
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
ALWAYS_INLINE vf vsqrt(vf a)
{
    return (vf)vsqrtq_f32((float32x4_t)a);
}
ALWAYS_INLINE vf vround(vf a)
{
    return (vf)vrndnq_f32((float32x4_t)a);
}
ALWAYS_INLINE vi vto_int(vf a)
{
    return (vi)vcvtnq_s32_f32((float32x4_t)a);
}
ALWAYS_INLINE vf vto_float(vi a)
{
    return (vf)vcvtq_f32_s32((int32x4_t)a);
}
#else
ALWAYS_INLINE vf vfma(vf a, vf b, vf c)
{
    return a * b + c;
}
ALWAYS_INLINE vf vsqrt(vf a)
{
    return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}
ALWAYS_INLINE vf vround(vf a)
{
    return (vf){rintf(a[0]), rintf(a[1]), rintf(a[2]), rintf(a[3])};
}
/* Converts to integers; callers must exclude values that do not fit. */
ALWAYS_INLINE vi vto_int(vf a)
{
    return (vi){(int32_t)rintf(a[0]), (int32_t)rintf(a[1]), (int32_t)rintf(a[2]), (int32_t)rintf(a[3])};
}
ALWAYS_INLINE vf vto_float(vi a)
{
    return (vf){(float)a[0], (float)a[1], (float)a[2], (float)a[3]};
}
#endif
#endif
#endif

ALWAYS_INLINE vf vmax(vf a, vf b)
{
    return vselect(vgreater(a, b), a, b);
}
ALWAYS_INLINE vf vmin(vf a, vf b)
{
    return vselect(vgreater(b, a), a, b);
}

/* Rounds to the nearest bfloat16, ties to even; NaN stays NaN. */
ALWAYS_INLINE vf vround_bfloat16(vf a)
{
    const vi bits = (vi)a;
    const vi rounded = bits + vset_int(0x7fff) + ((bits >> 16) & vset_int(1));

    return vselect(vis_nan(a), a, (vf)(rounded & vset_int((int32_t)0xffff0000u)));
}

/* Rounds to the nearest float16, in the same way. */
ALWAYS_INLINE vf vround_float16(vf a)
{
#if LANES == 16
    return (vf)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif LANES == 8
    return (vf)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT));
#elif defined(BGI_NEON)
    return (vf)vcvt_f32_f16(vcvt_f16_f32((float32x4_t)a));
#else
    UNROLL
    for (int i = 0; i < LANES; i++)
        a[i] = bgi_float16_to_float(bgi_float16_from_float(a[i]));
    return a;
#endif
}

ALWAYS_INLINE vf vround_to(const bg_dtype dtype, vf a)
{
    return dtype == BG_FLOAT32 ? a : dtype == BG_BFLOAT16 ? vround_bfloat16(a) : vround_float16(a);
}

/* These functions convert LANES bytes or bfloat16 numbers to integers or floats. They use intrinsics, because compilers
 * convert narrow vectors element by element. */
ALWAYS_INLINE vi vload_int8(const int8_t *p)
{
#if LANES == 16
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)p));
#elif LANES == 8
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)p));
#elif defined(BGI_NEON)
    int32_t bytes;

    memcpy(&bytes, p, sizeof bytes);
    return (vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)))));
#else
    return (vi){p[0], p[1], p[2], p[3]};
#endif
}
ALWAYS_INLINE vi vload_uint8(const uint8_t *p)
{
#if LANES == 16
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)p));
#elif LANES == 8
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)p));
#elif defined(BGI_NEON)
    uint32_t bytes;

    memcpy(&bytes, p, sizeof bytes);
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)))));
#else
    return (vi){p[0], p[1], p[2], p[3]};
#endif
}
ALWAYS_INLINE vf vload_bfloat16(const uint16_t *p)
{
#if LANES == 16
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)p)), 16);
#elif LANES == 8
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)p)), 16);
#elif defined(BGI_NEON)
    return (vf)vshll_n_u16(vld1_u16(p), 16);
#else
    return (vf)(vi){(int32_t)((uint32_t)p[0] << 16), (int32_t)((uint32_t)p[1] << 16), (int32_t)((uint32_t)p[2] << 16),
                    (int32_t)((uint32_t)p[3] << 16)};
#endif
}

/* Copies `count` floats. */
ALWAYS_INLINE void vcopy(const float *from, int64_t count, float *to)
{
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        vstore(to + i, vload(from + i));
    if (i < count)
        vstore_n(to + i, vload_n(from + i, count - i), count - i);
}

/* Adds the lanes pairwise: halves, then quarters, and so on. */
ALWAYS_INLINE float vsum(vf v)
{
#if LANES >= 8
#if LANES == 16
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
    const __m256 half = (__m256)v;
#endif
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));

    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

/* Loads LANES / 2 floats as doubles. */
ALWAYS_INLINE vd vload_doubles(const float *p)
{
#if LANES == 16 /* for __builtin_convertvector, GCC 12 converts quarters and joins them */
    return (vd)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#else
    return __builtin_convertvector(*(const vf_half *)p, vd);
#endif
}

ALWAYS_INLINE vd vset_double(double x)
{
    return (vd){0} + x;
}

ALWAYS_INLINE double vsum_doubles(vd v)
{
    double sum = v[0];

    UNROLL
    for (int i = 1; i < LANES / 2; i++)
        sum += v[i];
    return sum;
}

/* Separates the lanes of a, followed by those of b: *even gets lanes 0, 2, 4, ..., and *odd gets lanes 1, 3, 5, ... */
ALWAYS_INLINE void vdeinterleave(vf a, vf b, vf *even, vf *odd)
{
#if LANES == 16
    *even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif LANES == 8
    *even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    *even = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/* Interleaves the lanes of both vectors: *low gets the first LANES results, and *high the others. */
ALWAYS_INLINE void vinterleave(vf even, vf odd, vf *low, vf *high)
{
#if LANES == 16
    *low = __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *high = __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif LANES == 8
    *low = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
    *high = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    *low = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
    *high = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
#endif
}

/* Reads `live` elements from row[at] on, 1 or 2 apart, of a row that ends at `end`. Elements 2 apart are separated from
 * pairs that begin at even positions, so that the pair of the last odd element does not reach beyond the end. */
ALWAYS_INLINE vf vload_apart(const float *row, int64_t at, int64_t end, const int64_t apart, int64_t live)
{
    const int64_t from = at - at % 2, left = end - from;
    vf even, odd;

    if (apart == 1)
        return live == LANES ? vload(row + at) : vload_n(row + at, live);
    if (left >= 2 * LANES)
        vdeinterleave(vload(row + from), vload(row + from + LANES), &even, &odd);
    else
        vdeinterleave(vload_n(row + from, left < LANES ? left : LANES),
                      left > LANES ? vload_n(row + from + LANES, left - LANES) : vset(0.0f), &even, &odd);
    return at % 2 ? odd : even;
}

#endif
