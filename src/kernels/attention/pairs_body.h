/*
 * pairs_body.h: the products of attention in bfloat16 by AVX512-BF16's products of pairs (linear/pairs.h), and how
 * their operands are laid out. Blocks, scratch and everything between products are those of fast_body.h, in float32.
 *
 *                  terms           A                              B
 *     q k^T        columns         queries                        keys
 *     dy v^T       columns         dy                             values
 *     (m p) v      keys            weights, rounded               values
 *     ds k         keys            scale ds, rounded              keys
 *     ds^T q       queries         scale ds, rounded              queries
 *     (m p)^T dy   queries         weights, rounded               dy
 *
 * Weights m p and scale ds are rounded to bfloat16 before their products, as flash attention in bfloat16 does. (In the
 * forward pass, weights are those before the division by the sum, at most m.) Sums of weights, and dy . y, are those of
 * the float32 numbers. Sums over columns and over the keys or queries of a block add terms two at a time, from the
 * block's first on, with a zero as the last term when their number is odd. Sums of results continue from block to
 * block: over blocks of keys in y and dq, over blocks of queries in dk and dv. tests/kernels/test_attention_pairs.c
 * computes the same bits term by term.
 */
#ifndef BGI_KERNELS_ATTENTION_PAIRS_BODY_H
#define BGI_KERNELS_ATTENTION_PAIRS_BODY_H

#include "kernels/attention/fast.h"
#include "kernels/linear/pairs_body.h"

/* Returns the address of row `first` of a head (fast_body.h). */
static inline const uint16_t *find_pair_row(const attention_rows *rows, int64_t first)
{
    return (const uint16_t *)rows->data + rows->start + first * rows->stride;
}

/* Copies rows as operand A, with terms along a row: to[count][padded], where zeros follow the head's columns. */
static void copy_pair_rows(const bgi_attention *a, const attention_rows *rows, int64_t first, int64_t count,
                           uint16_t *to)
{
    const uint16_t *from = find_pair_row(rows, first);

    for (int64_t i = 0; i < count; i++, from += rows->stride)
        for (int64_t d = 0; d < a->padded; d += TILE)
            _mm256_storeu_si256((__m256i_u *)(void *)(to + i * a->padded + d),
                                _mm256_maskz_loadu_epi16((__mmask16)pairs_mask(clip(a->depth - d, TILE)), from + d));
}

/* Lays rows out as operand B, with terms along a row: to[pair of columns][KEYS][2], where zeros follow the rows. */
static __attribute__((noinline)) void lay_rows_across(const bgi_attention *a, const attention_rows *rows, int64_t first,
                                                      int64_t count, uint16_t *to)
{
    const uint16_t *from = find_pair_row(rows, first);

    for (int64_t i = 0; i < count; i += TILE)
        for (int64_t d = 0; d < a->depth; d += BGI_PAIRS_TERMS) {
            __m512i r[TILE];

            pairs_load(from + i * rows->stride, 1, rows->stride, count - i, d, a->depth, r);
            pairs_transpose(r);
#pragma GCC unroll 16
            for (int64_t t = 0; t < TILE; t++)
                if (d + 2 * t < a->depth)
                    _mm512_storeu_si512((void *)(to + ((d / 2 + t) * BGI_ATTENTION_KEYS + i) * 2), r[t]);
        }
}

/* Lays rows out as operand B, with terms along a column: to[pair of rows][padded][2], where zeros follow the head's
 * columns and rows. */
static __attribute__((noinline)) void lay_rows_in_pairs(const bgi_attention *a, const attention_rows *rows,
                                                        int64_t first, int64_t count, uint16_t *to)
{
    for (int64_t i = 0; i < count; i += 2) {
        const uint16_t *even = find_pair_row(rows, first + i), *odd = even + rows->stride;

        for (int64_t d = 0; d < a->padded; d += TILE)
            _mm512_storeu_si512((void *)(to + (i * a->padded / 2 + d) * 2),
                                pairs_join(even + d, odd + d, a->depth - d, i + 1 < count));
    }
}

/* Computes scores [.., KEYS] = rows (copy_pair_rows) x across (lay_rows_across). */
static void multiply_pairs_across(const bgi_attention *a, const uint16_t *rows, const uint16_t *across,
                                  const score_block *block, float *scores)
{
    bgi_pairs_multiply_laid_out_avx512bf16(&(bgi_pairs_laid_out){.a = rows,
                                                                 .a_row = a->padded,
                                                                 .a_pair = 2,
                                                                 .b = across,
                                                                 .b_pair = 2 * BGI_ATTENTION_KEYS,
                                                                 .c = scores,
                                                                 .c_row = BGI_ATTENTION_KEYS,
                                                                 .m = block->q_count,
                                                                 .n = bgi_cpu_round_up(block->k_count, TILE),
                                                                 .k = bgi_cpu_round_up(a->depth, 2)});
}

/* Computes results of the queries, in rows at a distance of c_row: rounds a block's numbers [.., KEYS] to `rounded`,
 * and multiplies them by the block's keys or values (lay_rows_in_pairs). With `goes_on` the products are added to the
 * existing results. */
static void multiply_pairs_by_keys(const bgi_attention *a, const float *numbers, uint16_t *rounded, int64_t rounded_row,
                                   const uint16_t *laid_out, const score_block *block, float *c, int64_t c_row,
                                   bool goes_on)
{
    bgi_pairs_round_rows_avx512bf16(&(bgi_pairs_rounding){.from = numbers,
                                                          .from_row = BGI_ATTENTION_KEYS,
                                                          .rows = block->q_count,
                                                          .columns = bgi_cpu_round_up(block->k_count, TILE),
                                                          .to = rounded,
                                                          .to_row = rounded_row});
    bgi_pairs_multiply_laid_out_avx512bf16(&(bgi_pairs_laid_out){.a = rounded,
                                                                 .a_row = rounded_row,
                                                                 .a_pair = 2,
                                                                 .b = laid_out,
                                                                 .b_pair = 2 * a->padded,
                                                                 .c = c,
                                                                 .c_row = c_row,
                                                                 .m = block->q_count,
                                                                 .n = a->padded,
                                                                 .k = bgi_cpu_round_up(block->k_count, 2),
                                                                 .goes_on = goes_on});
}

/* Rounds a block's numbers in place, transposes them, multiplies them by the block's queries or dy (lay_rows_in_pairs),
 * and adds the products to results of the keys. */
static void add_pairs_by_queries(const bgi_attention *a, float *numbers, const uint16_t *laid_out,
                                 const score_block *block, float *c)
{
    uint16_t *rounded = (uint16_t *)numbers;

    bgi_pairs_round_pairs_avx512bf16(&(bgi_pairs_rounding){.from = numbers,
                                                           .from_row = BGI_ATTENTION_KEYS,
                                                           .rows = block->q_count,
                                                           .columns = bgi_cpu_round_up(block->k_count, TILE),
                                                           .to = rounded,
                                                           .to_row = 2 * BGI_ATTENTION_KEYS});
    bgi_pairs_multiply_laid_out_avx512bf16(&(bgi_pairs_laid_out){.a = rounded,
                                                                 .a_row = 2,
                                                                 .a_pair = 2 * BGI_ATTENTION_KEYS,
                                                                 .b = laid_out,
                                                                 .b_pair = 2 * a->padded,
                                                                 .c = c,
                                                                 .c_row = a->padded,
                                                                 .m = block->k_count,
                                                                 .n = a->padded,
                                                                 .k = bgi_cpu_round_up(block->q_count, 2),
                                                                 .goes_on = true});
}

#endif
