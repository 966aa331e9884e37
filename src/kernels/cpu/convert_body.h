/*
 * convert_body.h: converts float32 from and to the other float types of fast kernels, bfloat16 and float16. Kernels
 * compute in float32 and convert when reading and writing.
 */
#ifndef BGI_CPU_CONVERT_BODY_H
#define BGI_CPU_CONVERT_BODY_H

#include "kernels/cpu/simd.h"
#include "kernels/reference/element.h"

/* ---- float16: the processor's conversion instructions, if it has them ---- */

#if LANES == 16

static inline void widen_float16(const uint16_t *from, int64_t count, float *to)
{
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)(from + i))));
    if (i < count) {
        const __mmask16 live = (__mmask16)((1u << (count - i)) - 1u);

        _mm512_mask_storeu_ps(to + i, live, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(live, from + i)));
    }
}

static inline void narrow_float16(const float *from, int64_t count, uint16_t *to)
{
    enum { nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_si256((__m256i_u *)(void *)(to + i), _mm512_cvtps_ph(_mm512_loadu_ps(from + i), nearest));
    if (i < count)
        _mm256_mask_storeu_epi16(to + i, (__mmask16)((1u << (count - i)) - 1u),
                                 _mm512_cvtps_ph((__m512)vload_n(from + i, count - i), nearest));
}

#elif LANES == 8

static inline void widen_float16(const uint16_t *from, int64_t count, float *to)
{
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)(from + i))));
    for (; i < count; i++)
        to[i] = bgi_float16_to_float(from[i]);
}

static inline void narrow_float16(const float *from, int64_t count, uint16_t *to)
{
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        _mm_storeu_si128((__m128i_u *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; i++)
        to[i] = bgi_float16_from_float(from[i]);
}

#elif defined(BGI_NEON)

static inline void widen_float16(const uint16_t *from, int64_t count, float *to)
{
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
    for (; i < count; i++)
        to[i] = bgi_float16_to_float(from[i]);
}

static inline void narrow_float16(const float *from, int64_t count, uint16_t *to)
{
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + i))));
    for (; i < count; i++)
        to[i] = bgi_float16_from_float(from[i]);
}

#else

static inline void widen_float16(const uint16_t *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bgi_float16_to_float(from[i]);
}

static inline void narrow_float16(const float *from, int64_t count, uint16_t *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bgi_float16_from_float(from[i]);
}

#endif

/* ---- both 16-bit types ----
 *
 * widen and narrow are not inlined: the code of their loops is long, most calls convert many elements, and almost every
 * kernel calls them. */

static __attribute__((noinline)) void widen(bg_dtype dtype, const uint16_t *from, int64_t count, float *to)
{
    if (dtype == BG_FLOAT16)
        widen_float16(from, count, to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = bgi_bfloat16_to_float(from[i]);
}

static __attribute__((noinline)) void narrow(bg_dtype dtype, const float *from, int64_t count, uint16_t *to)
{
    if (dtype == BG_FLOAT16)
        narrow_float16(from, count, to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = bgi_bfloat16_from_float(from[i]);
}

/* Converts `count` elements of `data` from `index` on to float32 in `to`. */
static inline void read_floats(bg_dtype dtype, const void *data, int64_t index, int64_t count, float *to)
{
    if (dtype == BG_FLOAT32)
        memcpy(to, (const float *)data + index, (size_t)count * sizeof(float));
    else
        widen(dtype, (const uint16_t *)data + index, count, to);
}

static inline void write_floats(bg_dtype dtype, void *data, int64_t index, int64_t count, const float *from)
{
    if (dtype == BG_FLOAT32)
        memcpy((float *)data + index, from, (size_t)count * sizeof(float));
    else
        narrow(dtype, from, count, (uint16_t *)data + index);
}

/* Converts `count` floats and writes them; with `add`, adds them to the existing values (only float32 accumulators). */
static inline void put_floats(bool add, bg_dtype dtype, void *data, int64_t index, int64_t count, const float *from)
{
    if (add)
        for (int64_t i = 0; i < count; i++)
            ((float *)data)[index + i] += from[i];
    else
        write_floats(dtype, data, index, count, from);
}

/* Does the same as read_floats, but copies only if a conversion is needed; returns floats in `data` itself or in
 * `buffer`. */
static inline const float *view_floats(bg_dtype dtype, const void *data, int64_t index, int64_t count, float *buffer)
{
    if (dtype == BG_FLOAT32)
        return (const float *)data + index;
    widen(dtype, (const uint16_t *)data + index, count, buffer);
    return buffer;
}

#endif
