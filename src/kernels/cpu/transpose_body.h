/*
 * transpose_body.h: matrix transposition in blocks of LANES x LANES, in registers where the width makes that faster.
 */
#ifndef BGI_CPU_TRANSPOSE_BODY_H
#define BGI_CPU_TRANSPOSE_BODY_H

#include "kernels/cpu/simd.h"

#if LANES == 16
/* Exchanges, within each quarter, lane j of r[i] and lane i of r[j]. Quarter q of r[i], i < 4, comes from row 4 q + i:
 * loading already exchanged the rows' quarters, so two steps within quarters remain. */
ALWAYS_INLINE void transpose_quarters(const __m512 r[4], __m512 out[4])
{
    const __m512 t0 = _mm512_unpacklo_ps(r[0], r[1]), t1 = _mm512_unpackhi_ps(r[0], r[1]);
    const __m512 t2 = _mm512_unpacklo_ps(r[2], r[3]), t3 = _mm512_unpackhi_ps(r[2], r[3]);

    out[0] = _mm512_shuffle_ps(t0, t2, 0x44);
    out[1] = _mm512_shuffle_ps(t0, t2, 0xee);
    out[2] = _mm512_shuffle_ps(t1, t3, 0x44);
    out[3] = _mm512_shuffle_ps(t1, t3, 0xee);
}

/* Loads up to four columns of rows 0, 4, 8 and 12, counted from `from`, into one vector; rows from `rows` on are
 * zero. */
ALWAYS_INLINE __m512 load_quarters(const float *from, int64_t stride, int64_t rows, __mmask8 in)
{
    __m512 v = _mm512_castps128_ps512(_mm_maskz_loadu_ps(in, from));

    v = _mm512_maskz_mov_ps(0x000f, v);
    if (rows > 4)
        v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_maskz_loadu_ps(in, from + 4 * stride));
    if (rows > 8)
        v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_maskz_loadu_ps(in, from + 8 * stride));
    if (rows > 12)
        v = _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_maskz_loadu_ps(in, from + 12 * stride));
    return v;
}

ALWAYS_INLINE void transpose_columns(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float *to,
                                     int64_t to_stride, __mmask16 out)
{
    const __mmask8 in = (__mmask8)((1u << cols) - 1u);
    __m512 r[4], t[4];

    UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = rows > i ? load_quarters(from + i * from_stride, from_stride, rows - i, in) : _mm512_setzero_ps();
    transpose_quarters(r, t);
    UNROLL
    for (int j = 0; j < 4; j++)
        if (j < cols)
            _mm512_mask_storeu_ps(to + j * to_stride, out, t[j]);
}

/* Sets to[j][i] = from[i][j] for i < rows, j < cols, both up to 16; lanes rows..width-1 of each row of `to` get
 * zeros. */
ALWAYS_INLINE void transpose_block(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float *to,
                                   int64_t to_stride, int64_t width)
{
    const __mmask16 out = (__mmask16)((1u << width) - 1u);
    int64_t j = 0;

    for (; j + 4 <= cols; j += 4)
        transpose_columns(from + j, from_stride, rows, 4, to + j * to_stride, to_stride, out);
    if (j < cols)
        transpose_columns(from + j, from_stride, rows, cols - j, to + j * to_stride, to_stride, out);
}
#elif LANES == 8
/* Sets to[j][i] = from[i][j] for i < rows, j < cols, both up to 8; lanes rows..width-1 of each row of `to` get
 * zeros. */
ALWAYS_INLINE void transpose_eighths(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float *to,
                                     int64_t to_stride, int64_t width)
{
    __m256 r[8], t[8];

    UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = i < rows ? (__m256)(cols == 8 ? vload(from + i * from_stride) : vload_n(from + i * from_stride, cols))
                        : _mm256_setzero_ps();
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(r[j], r[j + 4], 0x20);
        t[j + 4] = _mm256_permute2f128_ps(r[j], r[j + 4], 0x31);
    }
    UNROLL
    for (int j = 0; j < 8; j++) {
        if (j < cols && width == 8)
            vstore(to + j * to_stride, (vf)t[j]);
        else if (j < cols)
            vstore_n(to + j * to_stride, (vf)t[j], width);
    }
}

/* Does the same as transpose_eighths for rows and cols up to 16. */
static void transpose_block(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float *to,
                            int64_t to_stride, int64_t width)
{
    for (int64_t i = 0; i < width; i += 8) {
        const int64_t left = rows - i < 0 ? 0 : rows - i < 8 ? rows - i : 8, wide = width - i < 8 ? width - i : 8;

        for (int64_t j = 0; j < cols; j += 8)
            if (left == 8 && cols - j >= 8)
                transpose_eighths(from + i * from_stride + j, from_stride, 8, 8, to + j * to_stride + i, to_stride, 8);
            else
                transpose_eighths(from + i * from_stride + j, from_stride, left, cols - j < 8 ? cols - j : 8,
                                  to + j * to_stride + i, to_stride, wide);
    }
}
#else
ALWAYS_INLINE void transpose_block(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float *to,
                                   int64_t to_stride, int64_t width)
{
    for (int64_t j = 0; j < cols; j++) {
        float *line = to + j * to_stride;
        int64_t i = 0;

        for (; i < rows; i++)
            line[i] = from[i * from_stride + j];
        for (; i < width; i++)
            line[i] = 0.0f;
    }
}
#endif

/* Sets to[j][i] = from[i][j]; each row of `to` is filled with zeros up to `width` >= rows. */
static void transpose_matrix(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float *to,
                             int64_t to_stride, int64_t width)
{
    for (int64_t i = 0; i < width; i += 16) {
        const int64_t block_rows = rows - i < 0 ? 0 : rows - i < 16 ? rows - i : 16;
        const int64_t block_width = width - i < 16 ? width - i : 16;

        for (int64_t j = 0; j < cols; j += 16)
            transpose_block(from + i * from_stride + j, from_stride, block_rows, cols - j < 16 ? cols - j : 16,
                            to + j * to_stride + i, to_stride, block_width);
    }
}

#endif
