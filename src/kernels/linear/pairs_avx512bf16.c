/*
 * pairs_avx512bf16.c: products of pairs by AVX512-BF16 (pairs.h): up to 8 rows by 48 columns of sums in registers.
 * Without its compiler flags the file is empty.
 */
#include "kernels/linear/pairs.h"

#if defined(__AVX512BF16__)
#include "kernels/linear/pairs_body.h"

enum { MOST_ROWS = 8, MOST_TILES = BGI_PAIRS_COLUMNS / TILE };

typedef struct block {
    const uint16_t *a, *b; /* packed */
    int64_t terms;
    float *c;
    int64_t c_row;
    int64_t columns; /* valid ones */
    bool goes_on;
} block;

static inline __attribute__((always_inline)) void multiply(const block *w, const int rows, const int tiles)
{
    __m512 sum[MOST_ROWS][MOST_TILES];
    __mmask16 live[MOST_TILES];

#pragma GCC unroll 8
    for (int t = 0; t < tiles; t++)
        live[t] = (__mmask16)pairs_mask(w->columns - t * TILE < TILE ? w->columns - t * TILE : TILE);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int t = 0; t < tiles; t++)
            sum[r][t] =
                w->goes_on ? _mm512_maskz_loadu_ps(live[t], w->c + r * w->c_row + t * TILE) : _mm512_setzero_ps();
    for (int64_t k = 0; k < w->terms; k += 2) {
        __m512bh line[MOST_TILES];

#pragma GCC unroll 8
        for (int t = 0; t < tiles; t++)
            line[t] = (__m512bh)_mm512_loadu_si512((const void *)(w->b + (t * w->terms + k) * TILE));
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, w->a + r * w->terms + k, sizeof pair);
#pragma GCC unroll 8
            for (int t = 0; t < tiles; t++)
                sum[r][t] = _mm512_dpbf16_ps(sum[r][t], (__m512bh)_mm512_set1_epi32(pair), line[t]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int t = 0; t < tiles; t++)
            _mm512_mask_storeu_ps(w->c + r * w->c_row + t * TILE, live[t], sum[r][t]);
}

#define BLOCK(rows, tiles)                                                                                             \
    static void multiply_##rows##_##tiles(const block *w)                                                              \
    {                                                                                                                  \
        multiply(w, rows, tiles);                                                                                      \
    }
#define BLOCKS(rows) BLOCK(rows, 1) BLOCK(rows, 2) BLOCK(rows, 3)
#define NAMES(rows)                                                                                                    \
    {                                                                                                                  \
        multiply_##rows##_1, multiply_##rows##_2, multiply_##rows##_3                                                  \
    }
BLOCKS(1)
BLOCKS(2)
BLOCKS(3)
BLOCKS(4)
BLOCKS(5)
BLOCKS(6)
BLOCKS(7)
BLOCKS(8)

static void (*const blocks[MOST_ROWS][MOST_TILES])(const block *) = {NAMES(1), NAMES(2), NAMES(3), NAMES(4),
                                                                     NAMES(5), NAMES(6), NAMES(7), NAMES(8)};

void bgi_pairs_multiply_avx512bf16(const bgi_pairs *p)
{
    const int64_t terms = pairs_round_up(p->k, BGI_PAIRS_TERMS);
    uint16_t *a = p->scratch, *b = a + pairs_round_up(p->m, TILE) * terms;

    pairs_pack_a(p, terms, a);
    for (int64_t n = 0; n < p->n; n += BGI_PAIRS_COLUMNS) {
        const int64_t left = p->n - n, columns = left < BGI_PAIRS_COLUMNS ? left : BGI_PAIRS_COLUMNS;
        const int64_t tiles = (columns + TILE - 1) / TILE;

        for (int64_t t = 0; t < tiles; t++)
            pairs_pack_b(p, n + t * TILE, terms, b + t * TILE * terms);
        for (int64_t m = 0; m < p->m; m += MOST_ROWS) {
            const int64_t rows = p->m - m < MOST_ROWS ? p->m - m : MOST_ROWS;
            const block w = {.a = a + m * terms,
                             .b = b,
                             .terms = terms,
                             .c = p->c + m * p->c_row + n,
                             .c_row = p->c_row,
                             .columns = columns,
                             .goes_on = p->goes_on};

            blocks[rows - 1][tiles - 1](&w);
        }
    }
}
#endif
