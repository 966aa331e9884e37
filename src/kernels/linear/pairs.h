/*
 * pairs.h: products of bfloat16 matrices by instructions without widening: AVX512-BF16's, which add two products to
 * each sum, and AMX's, which multiply tiles of 16 rows by 16 columns and 32 terms. Both treat subnormal numbers as
 * zero, round sums to nearest, and add in an order that depends only on K:
 *
 *     AVX512-BF16   for each pair of terms 2i, 2i + 1: sum += a[2i+1] b[2i+1], then sum += a[2i] b[2i]
 *     AMX           for each 32 terms from the first on: even = the sum of the 16 products of even terms, odd = of odd
 *                   ones, each from 0 on in order; sum += even + odd
 *
 * Every product is exact in float32, so each `+=` is one rounding. Missing terms at the end are zeros. Intel's
 * Architectures Software Developer's Manual, volume 2: VDPBF16PS, TDPBF16PS. Tests compare both with these formulas
 * (tests/kernels/test_pairs.c).
 */
#ifndef BGI_KERNELS_LINEAR_PAIRS_H
#define BGI_KERNELS_LINEAR_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BGI_PAIRS_TERMS = 32,   /* K is padded with zeros to a multiple of this */
    BGI_PAIRS_ROWS = 16,    /* rows of a tile, to which M is padded */
    BGI_PAIRS_COLUMNS = 48, /* columns of B that are packed at a time: three tiles */
    BGI_PAIRS_PANEL = 64,   /* columns of a panel: four tiles */
    BGI_PAIRS_GATHERED = 6  /* gathered rows of a block */
};

/* C [m, n] = A [m, k] B [k, n]; with `goes_on` the sums start from the values in C. Strides in elements. */
typedef struct bgi_pairs {
    const uint16_t *a; /* one of a_row, a_column is 1 */
    int64_t a_row, a_column;
    const uint16_t *b; /* one of b_row, b_column is 1; both 0: a panel, with zeros for missing terms and columns: for
                          each pair of terms the pairs of BGI_PAIRS_PANEL columns, of which n are used */
    int64_t b_row, b_column;
    float *c; /* rows c_row apart */
    int64_t c_row;
    int64_t m, n, k;
    bool goes_on;
    void *scratch; /* bgi_pairs_floats(m, k) floats, aligned to a cache line */
} bgi_pairs;

/* Returns the number of floats for packed A and a packed strip of B. */
static inline int64_t bgi_pairs_floats(int64_t m, int64_t k)
{
    const int64_t terms = (k + BGI_PAIRS_TERMS - 1) / BGI_PAIRS_TERMS * BGI_PAIRS_TERMS;
    const int64_t rows = (m + BGI_PAIRS_ROWS - 1) / BGI_PAIRS_ROWS * BGI_PAIRS_ROWS;

    return (rows + BGI_PAIRS_COLUMNS) * terms / 2;
}

static inline bool bgi_pairs_has_panel(const bgi_pairs *p)
{
    return p->b_row == 0 && p->b_column == 0;
}

/* A product A [m, segments x terms] B that is added to C. A's rows are gathered, as in a convolution: the terms of a
 * segment of row r are adjacent, from a + rows[r] + segment.a on. Terms are added two at a time, as above, segment by
 * segment. */
typedef struct bgi_pairs_segment {
    int32_t a, b;
} bgi_pairs_segment;

typedef struct bgi_pairs_gathered {
    const uint16_t *a;
    const int32_t *rows;
    const bgi_pairs_segment *segments;
    int64_t segment_count, terms; /* terms is even */
    const uint16_t *b;            /* b + segment.b: for each pair of terms the pairs of b_width columns */
    int64_t b_width;
    float *c; /* row r begins at c + places[r] */
    const int32_t *places;
    int64_t m, tiles; /* m: whole blocks of rows; tiles of columns: 1, 2 or 4 */
} bgi_pairs_gathered;

/* C [m, n] = A [m, k] B [k, n], both laid out by the caller; with `goes_on` the sums start from the values in C. The
 * terms 2p and 2p + 1 of A's row r are at a + r a_row + p a_pair; the same terms of B's columns are pairs from b + p
 * b_pair on. Only these k terms are added, two at a time, as above. */
typedef struct bgi_pairs_laid_out {
    const uint16_t *a;
    int64_t a_row, a_pair;
    const uint16_t *b;
    int64_t b_pair;
    float *c; /* rows c_row apart */
    int64_t c_row;
    int64_t m, n, k; /* n is a multiple of 16, k of 2 */
    bool goes_on;
} bgi_pairs_laid_out;

/* Rows of floats that are rounded to the nearest bfloat16; ties go to even, and subnormal numbers become zero. They are
 * stored as rows, to_row apart, or as pairs of rows 2p and 2p + 1, to_row apart, where a missing last row is zeros. The
 * result may replace the floats: each vector is read before it is overwritten. */
typedef struct bgi_pairs_rounding {
    const float *from;
    int64_t from_row, rows, columns; /* columns: a multiple of 16 */
    uint16_t *to;
    int64_t to_row;
} bgi_pairs_rounding;

/* These functions may be called only on processors that have the instructions (core/isa.h). */
void bgi_pairs_multiply_avx512bf16(const bgi_pairs *p);
void bgi_pairs_multiply_amx(const bgi_pairs *p);
void bgi_pairs_add_gathered_avx512bf16(const bgi_pairs_gathered *p);
void bgi_pairs_multiply_laid_out_avx512bf16(const bgi_pairs_laid_out *p);
void bgi_pairs_round_rows_avx512bf16(const bgi_pairs_rounding *p);
void bgi_pairs_round_pairs_avx512bf16(const bgi_pairs_rounding *p);

#endif
