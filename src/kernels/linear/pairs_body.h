/*
 * pairs_body.h: packing for products of pairs (pairs.h), for both instruction sets.
 *
 * A is packed as rows of K, padded with zeros. B is packed in tiles of 16 columns: for each pair of terms, the 16
 * columns' pairs of elements are adjacent and fill a cache line.
 */
#ifndef BGI_KERNELS_LINEAR_PAIRS_BODY_H
#define BGI_KERNELS_LINEAR_PAIRS_BODY_H

#include "kernels/linear/pairs.h"

#include <immintrin.h>
#include <string.h>

enum { TILE = 16 }; /* the number of rows, of columns, and of pairs of terms of a tile */

static inline int64_t pairs_round_up(int64_t count, int64_t to)
{
    return (count + to - 1) / to * to;
}

static inline __mmask32 pairs_mask(int64_t count)
{
    return count >= 32 ? 0xffffffffu : count <= 0 ? 0u : (1u << count) - 1u;
}

/* Transposes 16 x 16 numbers of 32 bits. The loops are unrolled, because only then do the numbers stay in registers. */
static inline void pairs_transpose(__m512i r[TILE])
{
    __m512i t[TILE];

#pragma GCC unroll 16
    for (int i = 0; i < TILE; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* Interleaves two runs of at most 16 elements to `count` pairs. */
static inline __m512i pairs_join(const uint16_t *even, const uint16_t *odd, int64_t count, bool has_odd)
{
    const __mmask16 live = (__mmask16)pairs_mask(count < TILE ? count : TILE);
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(live, even));

    if (!has_odd)
        return low;
    return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(live, odd)), 16));
}

/* Loads a tile of 16 lines (rows of A, columns of B) and 32 terms from k on: r[i] has the pairs of line i. `along` is
 * the stride of terms and `across` that of lines; one of them is 1. If `across` is 1, r[i] has the 16 lines of pair i
 * instead. */
static inline void pairs_load(const uint16_t *from, int64_t along, int64_t across, int64_t lines, int64_t k,
                              int64_t k_count, __m512i r[TILE])
{
    const int64_t terms = k_count - k;

    if (along == 1) {
        const __mmask32 live = pairs_mask(terms);

#pragma GCC unroll 16
        for (int64_t i = 0; i < TILE; i++)
            r[i] = i < lines ? _mm512_maskz_loadu_epi16(live, from + i * across + k) : _mm512_setzero_si512();
    } else {
#pragma GCC unroll 16
        for (int64_t i = 0; i < TILE; i++) {
            const uint16_t *even = from + (k + 2 * i) * along;

            r[i] = 2 * i < terms ? pairs_join(even, even + along, lines, 2 * i + 1 < terms) : _mm512_setzero_si512();
        }
    }
}

/* Packs A into to[rows, padded to 16][terms]. */
static inline void pairs_pack_a(const bgi_pairs *p, int64_t terms, uint16_t *to)
{
    for (int64_t m = 0; m < p->m; m += TILE)
        for (int64_t k = 0; k < terms; k += BGI_PAIRS_TERMS) {
            __m512i r[TILE];

            pairs_load(p->a + m * p->a_row, p->a_column, p->a_row, p->m - m, k, p->k, r);
            if (p->a_column != 1)
                pairs_transpose(r);
#pragma GCC unroll 16
            for (int64_t i = 0; i < TILE; i++)
                _mm512_storeu_si512((void *)(to + (m + i) * terms + k), r[i]);
        }
}

/* Tiles of B, in packed tiles or in a panel, `tile` elements apart: `pair` elements from one pair of terms to the
 * next. */
typedef struct pairs_tiles {
    const uint16_t *at;
    int64_t tile, pair;
} pairs_tiles;

static inline pairs_tiles pairs_view_panel(const bgi_pairs *p)
{
    return (pairs_tiles){p->b, 2 * TILE, 2 * BGI_PAIRS_PANEL};
}

static inline pairs_tiles pairs_view_packed(const uint16_t *b, int64_t terms)
{
    return (pairs_tiles){b, TILE * terms, 2 * TILE};
}

/* Packs a tile of columns of B from n on into to[terms / 2][16][2]. */
static inline void pairs_pack_b(const bgi_pairs *p, int64_t n, int64_t terms, uint16_t *to)
{
    for (int64_t k = 0; k < terms; k += BGI_PAIRS_TERMS) {
        __m512i r[TILE];

        pairs_load(p->b + n * p->b_column, p->b_row, p->b_column, p->n - n, k, p->k, r);
        if (p->b_row == 1)
            pairs_transpose(r);
#pragma GCC unroll 16
        for (int64_t i = 0; i < TILE; i++)
            _mm512_storeu_si512((void *)(to + (k / 2 + i) * 2 * TILE), r[i]);
    }
}

#endif
