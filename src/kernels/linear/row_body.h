/*
 * row_body.h: one row times a float32 matrix, c [n] = a [k] b [k, n], as in the steps of generation: the matrix is read
 * once, so memory bandwidth limits the speed. A matrix with adjacent columns is read in strips of many vectors, so that
 * each of its rows is a long run of memory. A matrix with adjacent rows (b_row is 1, as for weights [n, k]) is
 * transposed a few columns at a time, in memory that stays in the first-level cache. Sums have the order of
 * gemm_body.h.
 */
#ifndef BGI_KERNELS_LINEAR_ROW_BODY_H
#define BGI_KERNELS_LINEAR_ROW_BODY_H

#include "kernels/cpu/transpose_body.h"

enum {
    ROW_STRIP = LANES == 16 ? 16 : 8, /* vectors of a strip */
    ROW_AHEAD = 6,                    /* rows of b that are fetched ahead */
    ROW_OUTPUTS = 32,                 /* outputs that are transposed together */
    ROW_TERMS = 16,                   /* terms of these outputs: a cache line of each */
    ROW_TERMS_AHEAD = 8 * ROW_TERMS
};

typedef struct gemm_row {
    const float *a, *b;
    int64_t b_row, b_column; /* one of them is 1 */
    int64_t k, depth;        /* terms, and those of a block */
    float *c;
    const float *bias; /* biases of the outputs, or NULL */
    bool biases_last;  /* the bias is added to the complete sums, otherwise to those of the first block */
} gemm_row;

/* Adds a block's sums of `live` outputs from `n` on to those of the blocks before. */
ALWAYS_INLINE void put_row(const gemm_row *r, int64_t k, int64_t depth, int64_t n, vf sum, int64_t live)
{
    if (k > 0)
        sum += vload_n(r->c + n, live);
    if (r->bias && (r->biases_last ? k + depth == r->k : k == 0))
        sum += vload_n(r->bias + n, live);
    vstore_n(r->c + n, sum, live);
}

ALWAYS_INLINE void multiply_strip(const gemm_row *r, int64_t n, const int vectors, int64_t live)
{
    for (int64_t k = 0, depth; k < r->k; k += depth) {
        const float *b = r->b + k * r->b_row + n;
        vf sum[ROW_STRIP];

        depth = r->k - k < r->depth ? r->k - k : r->depth;
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[v] = vset(0.0f);
        for (int64_t i = k; i < k + depth; i++, b += r->b_row) {
            const vf x = vset(r->a[i]);

            UNROLL
            for (int v = 0; v < vectors; v++) {
                if (v % (64 / (LANES * 4)) == 0)
                    __builtin_prefetch(b + ROW_AHEAD * r->b_row + v * LANES, 0, 3);
                sum[v] = vfma(x, vectors > 1 ? vload(b + v * LANES) : vload_n(b, live), sum[v]);
            }
        }
        UNROLL
        for (int v = 0; v < vectors; v++)
            put_row(r, k, depth, n + v * LANES, sum[v], vectors > 1 ? LANES : live);
    }
}

/* Computes up to ROW_OUTPUTS outputs, whose weights are adjacent in memory. */
static void multiply_transposed(const gemm_row *r, int64_t n, int64_t count)
{
    for (int64_t k = 0, depth; k < r->k; k += depth) {
        float weights[ROW_TERMS * ROW_OUTPUTS];
        vf sum[ROW_OUTPUTS / LANES];

        depth = r->k - k < r->depth ? r->k - k : r->depth;
        UNROLL
        for (int v = 0; v < ROW_OUTPUTS / LANES; v++)
            sum[v] = vset(0.0f);
        for (int64_t i = k; i < k + depth; i += ROW_TERMS) {
            const int64_t terms = k + depth - i < ROW_TERMS ? k + depth - i : ROW_TERMS;
            const float *b = r->b + n * r->b_column + i;

            for (int64_t o = 0; o < count; o++)
                __builtin_prefetch(b + o * r->b_column + ROW_TERMS_AHEAD, 0, 3);
            if (count == ROW_OUTPUTS &&
                terms == ROW_TERMS) { /* with constants the compiler unrolls the transposition */
                transpose_block(b, r->b_column, 16, 16, weights, ROW_OUTPUTS, 16);
                transpose_block(b + 16 * r->b_column, r->b_column, 16, 16, weights + 16, ROW_OUTPUTS, 16);
            } else {
                transpose_matrix(b, r->b_column, count, terms, weights, ROW_OUTPUTS, ROW_OUTPUTS);
            }
            for (int64_t t = 0; t < terms; t++) {
                UNROLL
                for (int v = 0; v < ROW_OUTPUTS / LANES; v++)
                    sum[v] = vfma(vset(r->a[i + t]), vload(weights + t * ROW_OUTPUTS + v * LANES), sum[v]);
            }
        }
        for (int v = 0; v < ROW_OUTPUTS / LANES && v * LANES < count; v++)
            put_row(r, k, depth, n + v * LANES, sum[v], count - v * LANES < LANES ? count - v * LANES : LANES);
    }
}

/* Computes outputs first .. end - 1. */
static void multiply_row(const gemm_row *r, int64_t first, int64_t end)
{
    int64_t n = first;

    if (r->b_column != 1) {
        for (; n < end; n += ROW_OUTPUTS)
            multiply_transposed(r, n, end - n < ROW_OUTPUTS ? end - n : ROW_OUTPUTS);
        return;
    }
    for (; n + ROW_STRIP * LANES <= end; n += ROW_STRIP * LANES)
        multiply_strip(r, n, ROW_STRIP, LANES);
    for (; n + ROW_STRIP / 2 * LANES <= end; n += ROW_STRIP / 2 * LANES)
        multiply_strip(r, n, ROW_STRIP / 2, LANES);
    for (; n + 2 * LANES <= end; n += 2 * LANES)
        multiply_strip(r, n, 2, LANES);
    for (; n < end; n += LANES)
        multiply_strip(r, n, 1, end - n < LANES ? end - n : LANES);
}

#endif
