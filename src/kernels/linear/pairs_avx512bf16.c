/*
 * pairs_avx512bf16.c: products of pairs by AVX512-BF16 (pairs.h): up to 8 rows by 48 columns of sums in registers, or 6
 * rows by the 64 columns of a panel. One row, as in the steps of generation, reads B in place, because memory bandwidth
 * limits the speed. Without its compiler flags the file is empty.
 */
#include "kernels/linear/pairs.h"

#if defined(__AVX512BF16__)
#include "kernels/linear/pairs_body.h"

enum { MOST_ROWS = 8, MOST_TILES = 4, PANEL_ROWS = 6, FEW_ROWS = 4, AHEAD = 32 /* pairs of terms, for prefetching */ };

typedef struct block {
    const uint16_t *a;
    int64_t a_row, a_pair;
    pairs_tiles b;
    int64_t terms;
    float *c;
    int64_t c_row;
    int64_t columns; /* columns that exist */
    bool goes_on;
} block;

/* Multiplies `rows` rows by `tiles` tiles of columns. For few rows, memory bandwidth limits the speed, so panels are
 * prefetched. */
static inline __attribute__((always_inline)) void multiply(const block *w, const int rows, const int tiles)
{
    const int64_t tile = tiles == MOST_TILES ? 2 * TILE : w->b.tile, pair = w->b.pair;
    const uint16_t *a = w->a, *b = w->b.at;
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
    for (int64_t k = 0; k < w->terms; k += 2, a += w->a_pair, b += pair) {
        __m512bh line[MOST_TILES];

#pragma GCC unroll 8
        for (int t = 0; t < tiles; t++) {
            line[t] = (__m512bh)_mm512_loadu_si512((const void *)(b + t * tile));
            if (rows <= FEW_ROWS && tiles == MOST_TILES)
                _mm_prefetch((const char *)(b + AHEAD * pair + t * tile), _MM_HINT_T0);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t terms;
            memcpy(&terms, a + r * w->a_row, sizeof terms);
#pragma GCC unroll 8
            for (int t = 0; t < tiles; t++)
                sum[r][t] = _mm512_dpbf16_ps(sum[r][t], (__m512bh)_mm512_set1_epi32(terms), line[t]);
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
#define NAMES(rows)  multiply_##rows##_1, multiply_##rows##_2, multiply_##rows##_3
BLOCKS(1)
BLOCKS(2)
BLOCKS(3)
BLOCKS(4)
BLOCKS(5)
BLOCKS(6)
BLOCKS(7)
BLOCKS(8)
BLOCK(1, 4)
BLOCK(2, 4)
BLOCK(3, 4)
BLOCK(4, 4)
BLOCK(5, 4)
BLOCK(6, 4)

/* The functions for each number of rows and of tiles. Four tiles by PANEL_ROWS rows are the most sums that registers
 * hold. */
static void (*const blocks[MOST_ROWS][MOST_TILES])(const block *) = {{NAMES(1), multiply_1_4},
                                                                     {NAMES(2), multiply_2_4},
                                                                     {NAMES(3), multiply_3_4},
                                                                     {NAMES(4), multiply_4_4},
                                                                     {NAMES(5), multiply_5_4},
                                                                     {NAMES(6), multiply_6_4},
                                                                     {NAMES(7)},
                                                                     {NAMES(8)}};

/* Multiplies all m_count rows, in blocks whose numbers of rows are as equal as possible. */
static void multiply_rows(block w, int64_t m_count, int64_t most)
{
    const int64_t count = (m_count + most - 1) / most, tiles = (w.columns + TILE - 1) / TILE;
    const uint16_t *a = w.a;
    float *c = w.c;

    for (int64_t i = 0; i < count; i++) {
        const int64_t m = m_count * i / count, rows = m_count * (i + 1) / count - m;

        w.a = a + m * w.a_row;
        w.c = c + m * w.c_row;
        blocks[rows - 1][tiles - 1](&w);
    }
}

void bgi_pairs_multiply_laid_out_avx512bf16(const bgi_pairs_laid_out *p)
{
    block w = {.a = p->a,
               .a_row = p->a_row,
               .a_pair = p->a_pair,
               .b = {p->b, 2 * TILE, p->b_pair},
               .terms = p->k,
               .c = p->c,
               .c_row = p->c_row,
               .goes_on = p->goes_on};

    for (int64_t left = p->n / TILE, tiles; left > 0; left -= tiles) {
        tiles = left % MOST_TILES == 0 ? MOST_TILES : left < MOST_TILES ? left : MOST_TILES - 1;
        w.columns = tiles * TILE;
        multiply_rows(w, p->m, tiles == MOST_TILES ? PANEL_ROWS : MOST_ROWS);
        w.b.at += tiles * 2 * TILE;
        w.c += tiles * TILE;
    }
}

/* ---- rounding ---- */

void bgi_pairs_round_rows_avx512bf16(const bgi_pairs_rounding *p)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const float *from = p->from + r * p->from_row;
        uint16_t *to = p->to + r * p->to_row;

        for (int64_t i = 0; i < p->columns; i += TILE)
            _mm256_storeu_si256((__m256i_u *)(void *)(to + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
    }
}

void bgi_pairs_round_pairs_avx512bf16(const bgi_pairs_rounding *p)
{
    for (int64_t r = 0; r < p->rows; r += 2) {
        const float *even = p->from + r * p->from_row, *odd = even + p->from_row;
        uint16_t *to = p->to + r / 2 * p->to_row;
        const __mmask16 live = r + 1 < p->rows ? 0xffff : 0;

        for (int64_t i = 0; i < p->columns; i += TILE) {
            const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(even + i)));
            const __m512i high =
                _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(live, odd + i)));

            _mm512_storeu_si512((void *)(to + 2 * i), _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
    }
}

/* ---- gathered rows ---- */

static inline __attribute__((always_inline)) void add_gathered(const bgi_pairs_gathered *p, int64_t first,
                                                               const int tiles)
{
    const uint16_t *a[BGI_PAIRS_GATHERED];
    const int64_t pair = 2 * p->b_width;
    __m512 sum[BGI_PAIRS_GATHERED][MOST_TILES];

#pragma GCC unroll 8
    for (int r = 0; r < BGI_PAIRS_GATHERED; r++) {
        a[r] = p->a + p->rows[first + r];
#pragma GCC unroll 8
        for (int t = 0; t < tiles; t++)
            sum[r][t] = _mm512_loadu_ps(p->c + p->places[first + r] + t * TILE);
    }
    for (int64_t s = 0; s < p->segment_count; s++) {
        const uint16_t *b = p->b + p->segments[s].b;

        for (int64_t k = p->segments[s].a, end = k + p->terms; k < end; k += 2, b += pair) {
            __m512bh line[MOST_TILES];

#pragma GCC unroll 8
            for (int t = 0; t < tiles; t++)
                line[t] = (__m512bh)_mm512_loadu_si512((const void *)(b + t * 2 * TILE));
#pragma GCC unroll 8
            for (int r = 0; r < BGI_PAIRS_GATHERED; r++) {
                int32_t terms;
                memcpy(&terms, a[r] + k, sizeof terms);
#pragma GCC unroll 8
                for (int t = 0; t < tiles; t++)
                    sum[r][t] = _mm512_dpbf16_ps(sum[r][t], (__m512bh)_mm512_set1_epi32(terms), line[t]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < BGI_PAIRS_GATHERED; r++)
#pragma GCC unroll 8
        for (int t = 0; t < tiles; t++)
            _mm512_storeu_ps(p->c + p->places[first + r] + t * TILE, sum[r][t]);
}

void bgi_pairs_add_gathered_avx512bf16(const bgi_pairs_gathered *p)
{
    for (int64_t first = 0; first < p->m; first += BGI_PAIRS_GATHERED)
        if (p->tiles == 1)
            add_gathered(p, first, 1);
        else if (p->tiles == 2)
            add_gathered(p, first, 2);
        else
            add_gathered(p, first, 4);
}

/* ---- one row ---- */

enum { STRIP = 8, COLUMNS = 2 * TILE, ROWS_AHEAD = 8, TERMS_AHEAD = 4 * BGI_PAIRS_TERMS };

/* Sums of 32 columns in the order that interleaving two rows gives: four columns of each eight, and then the other
 * four. */
typedef struct strip_sums {
    __m512 low, high;
} strip_sums;

static inline strip_sums begin_sums(const float *c, __mmask32 live, bool goes_on)
{
    const __m512 first = _mm512_maskz_loadu_ps((__mmask16)live, c),
                 second = _mm512_maskz_loadu_ps((__mmask16)(live >> TILE), c + TILE);

    return goes_on ? (strip_sums){_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xdd)}
                   : (strip_sums){_mm512_setzero_ps(), _mm512_setzero_ps()};
}

static inline void end_sums(strip_sums sums, float *c, __mmask32 live)
{
    const __m512 first = _mm512_shuffle_f32x4(sums.low, sums.high, 0x44),
                 second = _mm512_shuffle_f32x4(sums.low, sums.high, 0xee);

    _mm512_mask_storeu_ps(c, (__mmask16)live, _mm512_shuffle_f32x4(first, first, 0xd8));
    _mm512_mask_storeu_ps(c + TILE, (__mmask16)(live >> TILE), _mm512_shuffle_f32x4(second, second, 0xd8));
}

static inline __m512bh broadcast_pair(const uint16_t *a)
{
    int32_t pair;

    memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

static inline __attribute__((always_inline)) void add_rows(strip_sums *sums, __m512bh pair, __m512i even, __m512i odd)
{
    sums->low = _mm512_dpbf16_ps(sums->low, pair, (__m512bh)_mm512_unpacklo_epi16(even, odd));
    sums->high = _mm512_dpbf16_ps(sums->high, pair, (__m512bh)_mm512_unpackhi_epi16(even, odd));
}

/* Multiplies one row by columns of a B with adjacent columns, from n on, in `vectors` vectors of 32; the mask `live`
 * selects the columns of a vector that exist. */
static inline __attribute__((always_inline)) void multiply_strip(const bgi_pairs *p, const uint16_t *a, int64_t n,
                                                                 const int vectors, __mmask32 live)
{
    const uint16_t *b = p->b + n;
    strip_sums sums[STRIP];

#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        sums[v] = begin_sums(p->c + n + v * COLUMNS, live, p->goes_on);
    for (int64_t k = 0; k < p->k; k += 2, b += 2 * p->b_row) {
        const __m512bh pair = broadcast_pair(a + k);
        const __mmask32 live_odd = k + 1 < p->k ? live : 0;

#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            _mm_prefetch((const char *)(b + ROWS_AHEAD * p->b_row + v * COLUMNS), _MM_HINT_T0);
            _mm_prefetch((const char *)(b + (ROWS_AHEAD + 1) * p->b_row + v * COLUMNS), _MM_HINT_T0);
            add_rows(&sums[v], pair, _mm512_maskz_loadu_epi16(live, b + v * COLUMNS),
                     _mm512_maskz_loadu_epi16(live_odd, b + p->b_row + v * COLUMNS));
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
        if (p->k % BGI_PAIRS_TERMS != 0) /* zeros for missing terms, which change -0 to 0 */
            add_rows(&sums[v], (__m512bh)_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512());
        end_sums(sums[v], p->c + n + v * COLUMNS, live);
    }
}

/* Multiplies one row by up to 32 columns, from n on, of a B with adjacent terms. */
static void multiply_columns(const bgi_pairs *p, const uint16_t *a, int64_t n)
{
    const uint16_t *b = p->b + n * p->b_column;
    const __mmask32 live = pairs_mask(p->n - n);
    float *c = p->c + n;
    __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};

    if (p->goes_on) {
        sums[0] = _mm512_maskz_loadu_ps((__mmask16)live, c);
        sums[1] = _mm512_maskz_loadu_ps((__mmask16)(live >> TILE), c + TILE);
    }
    for (int64_t k = 0; k < p->k; k += BGI_PAIRS_TERMS) {
        __m512i r[2][TILE];

        for (int64_t i = 0; i < COLUMNS && n + i < p->n; i++)
            _mm_prefetch((const char *)(b + i * p->b_column + k + TERMS_AHEAD), _MM_HINT_T0);
#pragma GCC unroll 2
        for (int t = 0; t < 2; t++) {
            pairs_load(b + t * TILE * p->b_column, 1, p->b_column, p->n - n - t * TILE, k, p->k, r[t]);
            pairs_transpose(r[t]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < TILE; i++) {
            const __m512bh pair = broadcast_pair(a + k + 2 * i);

            sums[0] = _mm512_dpbf16_ps(sums[0], pair, (__m512bh)r[0][i]);
            sums[1] = _mm512_dpbf16_ps(sums[1], pair, (__m512bh)r[1][i]);
        }
    }
    _mm512_mask_storeu_ps(c, (__mmask16)live, sums[0]);
    _mm512_mask_storeu_ps(c + TILE, (__mmask16)(live >> TILE), sums[1]);
}

/* Multiplies the only row, `a`, which is padded with zeros. */
static void multiply_one_row(const bgi_pairs *p, const uint16_t *a)
{
    int64_t n = 0;

    if (p->b_column != 1) {
        for (; n < p->n; n += COLUMNS)
            multiply_columns(p, a, n);
        return;
    }
    for (; n + STRIP * COLUMNS <= p->n; n += STRIP * COLUMNS)
        multiply_strip(p, a, n, STRIP, 0xffffffffu);
    for (; n + 2 * COLUMNS <= p->n; n += 2 * COLUMNS)
        multiply_strip(p, a, n, 2, 0xffffffffu);
    for (; n < p->n; n += COLUMNS)
        multiply_strip(p, a, n, 1, pairs_mask(p->n - n));
}

void bgi_pairs_multiply_avx512bf16(const bgi_pairs *p)
{
    const int64_t terms = pairs_round_up(p->k, BGI_PAIRS_TERMS);
    const bool is_in_place = p->a_column == 1 && p->k == terms;
    uint16_t *a = p->scratch, *b = a + pairs_round_up(p->m, TILE) * terms;
    block w = {.a = is_in_place ? p->a : a,
               .a_row = is_in_place ? p->a_row : terms,
               .a_pair = 2,
               .b = pairs_view_packed(b, terms),
               .terms = terms,
               .c = p->c,
               .c_row = p->c_row,
               .goes_on = p->goes_on};

    if (p->m == 1 && p->a_column == 1 && !is_in_place) {
        memcpy(a, p->a, (size_t)p->k * sizeof *a);
        memset(a + p->k, 0, (size_t)(terms - p->k) * sizeof *a);
    } else if (!is_in_place) {
        pairs_pack_a(p, terms, a);
    }
    if (p->m == 1 && !bgi_pairs_has_panel(p)) {
        multiply_one_row(p, w.a);
        return;
    }
    if (bgi_pairs_has_panel(p)) {
        w.b = pairs_view_panel(p);
        w.columns = p->n;
        multiply_rows(w, p->m, PANEL_ROWS);
        return;
    }
    for (int64_t n = 0; n < p->n; n += BGI_PAIRS_COLUMNS) {
        w.columns = p->n - n < BGI_PAIRS_COLUMNS ? p->n - n : BGI_PAIRS_COLUMNS;
        for (int64_t t = 0; t * TILE < w.columns; t++)
            pairs_pack_b(p, n + t * TILE, terms, b + t * TILE * terms);
        w.c = p->c + n;
        multiply_rows(w, p->m, MOST_ROWS);
    }
}
#endif
