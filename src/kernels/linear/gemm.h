/*
 * gemm.h: the geometry of matrix products: C [M,N] = A [M,K] B [K,N], for every layout, in batches.
 *
 * B is read in panels: a few vectors of columns over a block of K. A block of rows of A times a run of panels is one
 * unit of work, and parts are runs of units. Every element's sum runs over K in order, in blocks (product.h): partial
 * sums of a block are added to C.
 */
#ifndef BGI_KERNELS_LINEAR_GEMM_H
#define BGI_KERNELS_LINEAR_GEMM_H

#include "kernels/cpu/variant.h"
#include "kernels/linear/pairs.h"
#include "kernels/linear/product.h"

enum {
    BGI_GEMM_PANEL_VECTORS = 3,
    BGI_GEMM_ROWS = 256,             /* rows of A in a unit: with a block's columns they fit a second-level cache */
    BGI_GEMM_UNIT_ELEMENTS = 131072, /* elements of C in a unit: enough that laying out A and the panels pays */
    BGI_GEMM_FEWEST_UNITS = 16,      /* at least this many units, so that workers share the work evenly */
    BGI_GEMM_FEW_ROWS = 64,       /* with at most this many rows, packing A or a row-major B costs more than it saves */
    BGI_GEMM_PACKED_COLUMNS = 32, /* columns of A packed at a time */
    BGI_GEMM_TILE_ROWS = 8,       /* the most rows of a tile, for any instruction set */
    BGI_GEMM_PAIRS_DEPTH =
        512 /* terms of a block of products of pairs: whole tiles; a strip of B fits a first-level cache */
};
#define BGI_GEMM_UNIT_FLOPS 1.3e6
#define BGI_GEMM_ROW_FLOPS  0.65e6 /* flops of a part with one row, whose time is that of reading the matrix */
/* Rows of a tile, whose sums are in registers: AVX-512 and aarch64 have 32 registers, the others 16. */
#if defined(__aarch64__)
#define BGI_GEMM_IS_AARCH64 1
#else
#define BGI_GEMM_IS_AARCH64 0
#endif
#define BGI_GEMM_TILE_ROWS_OF(lanes) ((lanes) == 16 || BGI_GEMM_IS_AARCH64 ? 8 : 4)

typedef struct bgi_gemm {
    int64_t batch, m, n, k;
    int64_t panels, row_blocks, column_blocks; /* column_blocks: runs of panels */
    int64_t depth_blocks, depth;
    int64_t units;
    uint32_t parts;
    int64_t panel_floats; /* a packed panel, and a spare one */
    int64_t a_floats;     /* a packed block of A, and a widened one unless A is float32 */
    int64_t c_floats;     /* a block of C in float32, 0 if sums are kept in C itself */
    int64_t part_floats;
    bool widens, keeps_sums; /* A is widened to float32; the sums of a unit are stored separately from C */
    bgi_isa pairs;           /* the instructions for bfloat16 (bgi_product_pairs) */
} bgi_gemm;

/* Computes the scratch of a part, which computes one unit after another. */
static inline void bgi_gemm_size(bgi_gemm *g, int64_t lanes)
{
    const int64_t rows = (g->m + g->row_blocks - 1) / g->row_blocks;
    const int64_t panels = (g->panels + g->column_blocks - 1) / g->column_blocks;
    const int64_t a = bgi_cpu_round_up(bgi_cpu_round_up(rows, BGI_GEMM_TILE_ROWS) * g->depth, 16);

    g->c_floats = g->keeps_sums ? bgi_cpu_round_up(rows * panels * BGI_GEMM_PANEL_VECTORS * lanes, 16) : 0;
    if (g->pairs != BGI_ISA_PORTABLE) {
        g->panel_floats = 0;
        g->a_floats = bgi_pairs_floats(rows, g->depth);
        g->part_floats = g->a_floats + g->c_floats;
        return;
    }
    g->panel_floats = 2 * bgi_cpu_round_up(BGI_GEMM_PANEL_VECTORS * lanes * g->depth, 16);
    g->a_floats = rows > BGI_GEMM_FEW_ROWS || g->widens ? 2 * a : 0;
    g->part_floats = g->panel_floats + g->a_floats + g->c_floats;
}

static inline void bgi_gemm_keep_sums(bgi_gemm *g, int64_t lanes)
{
    g->keeps_sums = true;
    bgi_gemm_size(g, lanes);
}

/* Returns how many parts of `part_floats` floats fit a limit: at least one, at most `parts`. */
static inline uint32_t bgi_gemm_fit_parts(uint32_t parts, int64_t part_floats, uint64_t limit_bytes)
{
    const uint64_t fit = limit_bytes / ((uint64_t)part_floats * sizeof(float));

    return fit >= parts ? parts : fit < 1 ? 1 : (uint32_t)fit;
}

/* Limits the scratch of a product (bgi_product_limit) as far as possible: by fewer parts, and by fewer rows in a unit
 * when one part is too large. Neither changes an element's sum. */
static inline bgi_gemm bgi_gemm_bound(bgi_gemm g, int64_t lanes, uint64_t limit_bytes)
{
    while ((uint64_t)g.part_floats * sizeof(float) > limit_bytes && g.part_floats > g.panel_floats &&
           g.m > g.row_blocks * BGI_GEMM_TILE_ROWS) {
        g.row_blocks *= 2;
        g.units = g.batch * g.row_blocks * g.column_blocks;
        bgi_gemm_size(&g, lanes);
    }
    g.parts = bgi_gemm_fit_parts(g.parts, g.part_floats, limit_bytes);
    return g;
}

/* Returns `g` with the limits and instructions of the kernel's state (bgi_product). */
static inline bgi_gemm bgi_gemm_for(bgi_gemm g, int64_t lanes, const void *state)
{
    g.pairs = bgi_product_pairs(state);
    if (g.pairs != BGI_ISA_PORTABLE) {
        g.depth = g.k < BGI_GEMM_PAIRS_DEPTH ? g.k : BGI_GEMM_PAIRS_DEPTH; /* the sums do not depend on this */
        g.depth_blocks = (g.k + g.depth - 1) / g.depth;
    }
    bgi_gemm_size(&g, lanes);
    return bgi_gemm_bound(g, lanes, bgi_product_limit(state));
}

/* Returns the number of units beyond which columns are not cut further. */
static inline int64_t bgi_gemm_enough_units(int64_t batch, int64_t m, int64_t n)
{
    const int64_t units = batch * m * n / BGI_GEMM_UNIT_ELEMENTS;

    return units < BGI_GEMM_FEWEST_UNITS ? BGI_GEMM_FEWEST_UNITS
           : units < BGI_CPU_MOST_PARTS  ? units
                                         : BGI_CPU_MOST_PARTS;
}

static inline bgi_gemm bgi_gemm_plan(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t repeats, int64_t lanes,
                                     bool is_float32)
{
    const double flops = 2.0 * (double)m * (double)n * (double)k * (double)repeats;
    const double unit_flops = m == 1 ? BGI_GEMM_ROW_FLOPS : BGI_GEMM_UNIT_FLOPS;
    const int64_t vectors = (n + lanes - 1) / lanes;
    bgi_gemm g = {.batch = batch, .m = m, .n = n, .k = k, .widens = !is_float32, .keeps_sums = !is_float32};
    int64_t columns;

    g.panels = (vectors + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;
    g.row_blocks = (m + BGI_GEMM_ROWS - 1) / BGI_GEMM_ROWS;
    g.column_blocks = bgi_cpu_part_count(g.panels, flops / (double)g.row_blocks, unit_flops);
    columns = (bgi_gemm_enough_units(batch, m, n) + batch * g.row_blocks - 1) / (batch * g.row_blocks);
    g.column_blocks = g.column_blocks < columns ? g.column_blocks : columns;
    g.depth_blocks = bgi_product_blocks(k);
    g.depth = bgi_product_block(k);
    g.units = batch * g.row_blocks * g.column_blocks;
    g.parts = bgi_cpu_part_count(g.units, flops * (double)batch, unit_flops);
    bgi_gemm_size(&g, lanes);
    return g;
}

/* Returns whether the sums of a product that is added to C need a separate block, so that only complete sums are added
 * to C. */
static inline bool bgi_gemm_adds_apart(const bgi_gemm *g, int64_t repeats)
{
    return g->depth_blocks * repeats > 1;
}

/* Dims of the linear layer's three products. */
typedef struct bgi_linear_dims {
    int64_t rows, in, out;
} bgi_linear_dims;

static inline bgi_linear_dims bgi_linear_read(const bg_type *w, const bg_type *with_rows, int64_t last)
{
    return (bgi_linear_dims){bg_type_element_count(with_rows) / last, w->dims[1], w->dims[0]};
}

/* Returns `g`; if the product is added to accumulators, and its sums need a separate block, the result has that
 * block. */
static inline bgi_gemm bgi_gemm_accumulating(bgi_gemm g, int64_t lanes, bool accumulates)
{
    if (accumulates && bgi_gemm_adds_apart(&g, 1))
        bgi_gemm_keep_sums(&g, lanes);
    return g;
}

/* Returns the plan of dw [out, in] = dy^T [out, rows] x [rows, in], which may be added to an accumulator. */
static inline bgi_gemm bgi_linear_weights_plan(const bgi_linear_dims *d, int64_t lanes, bg_dtype dtype,
                                               bool accumulates)
{
    return bgi_gemm_accumulating(bgi_gemm_plan(1, d->out, d->in, d->rows, 1, lanes, dtype == BG_FLOAT32), lanes,
                                 accumulates);
}

/* Returns the plan of y [..., m, n], or of accumulators of that type, with sums over k. */
static inline bgi_gemm bgi_matmul_plan(const bg_type *y, int64_t k, int64_t lanes, bool accumulates)
{
    const int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1];

    return bgi_gemm_accumulating(
        bgi_gemm_plan(bg_type_element_count(y) / (m * n), m, n, k, 1, lanes, y->dtype == BG_FLOAT32), lanes,
        accumulates);
}

#endif
