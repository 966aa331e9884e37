/*
 * gemm_body.h: one unit of a matrix product: a block of rows of A against a run of panels of B. Geometry: gemm.h.
 *
 * A tile of C is TILE_ROWS rows by up to three vectors, held in registers. B is read from packed panels, or in place if
 * A has few rows. A is read in place, widened or packed, one element broadcast at a time. A caller may pack B itself
 * (`pack`), so convolutions can be products without a matrix of their patches in memory.
 */
#ifndef BGI_KERNELS_LINEAR_GEMM_BODY_H
#define BGI_KERNELS_LINEAR_GEMM_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/linear/gemm.h"
#include "kernels/linear/row_body.h"
#include "kernels/cpu/transpose_body.h"

#define TILE_ROWS BGI_GEMM_TILE_ROWS_OF(LANES)

/* Memory to prefetch: `rows` runs of `bytes`, `stride` bytes apart. */
typedef struct gemm_ahead {
    const char *from;
    int64_t rows, stride, bytes;
} gemm_ahead;

typedef struct gemm_job gemm_job;
struct gemm_job {
    const bgi_gemm *gemm;
    bg_dtype dtype, c_dtype;
    int64_t repeats; /* the number of products that are summed (0 means 1): their matrices A are a_repeat elements
                        apart, and `pack` gets the product's number */
    int64_t a_repeat;
    const void *a; /* a_row, a_column: strides in elements */
    int64_t a_start, a_row, a_column;
    const void *b; /* one of b_row, b_column is 1, unless `pack` is set */
    int64_t b_start, b_row, b_column;
    void *c; /* rows c_row apart, with adjacent columns */
    int64_t c_start, c_row;
    bool rounds;             /* sums are rounded to C's 16-bit type after each block */
    bool add;                /* the complete product is added to C, which is float32; then there are no biases */
    const void *column_bias; /* or NULL */
    bool biases_last;     /* column_bias is added to the complete float32 sums, otherwise to those of the first block */
    const void *row_bias; /* or NULL */
    /* Packs rows k0.. of B's columns n0.. into to[k][width]; columns from `count` on are zero. `spare` has the same
     * size. If `pack` is NULL, B is a matrix in memory. */
    void (*pack)(const gemm_job *job, int64_t repeat, int64_t k0, int64_t k_count, int64_t n0, int64_t count,
                 int64_t width, float *to, float *spare);
    /* Returns the memory that `pack` reads next: for rows k0.. and columns n0... NULL: nothing is prefetched. */
    gemm_ahead (*find_ahead)(const gemm_job *job, int64_t k0, int64_t k_count, int64_t n0, int64_t count);
    bool from_end; /* the thread takes units from the last to the first, as helping threads do (runtime/ticket.h) */
    const void *source; /* for `pack` */
    int64_t batch;      /* for `pack` */
    /* Applies the next step to `count` complete elements of C from `index` on, in column `column` and the following
     * ones, while they are in the cache. NULL: no step follows. */
    void (*finish)(const gemm_job *job, int64_t index, int64_t column, int64_t count);
    const void *next;   /* for `finish` */
    const void *beside; /* another operand of C's shape and type that `finish` reads or writes; or NULL */
};

/* ---- prefetching memory that is packed next ---- */

/* A walk over some of a gemm_ahead's rows, which prefetches `each` of their cache lines in each group of steps. The
 * lines are fetched into the second-level cache, because rows are in different pages, where the processor does not
 * prefetch automatically. Only a few lines are requested at a time, because the processor waits when there are too many
 * requests. */
typedef struct gemm_walk {
    const char *row;
    int64_t rows, stride, bytes, at, each;
} gemm_walk;

enum { WALK_GROUP = 8 }; /* steps of a tile's depth */

/* Returns a walk over share i of n of the rows, spread over `depth` steps. */
static gemm_walk walk_share(const gemm_ahead *ahead, int64_t i, int64_t n, int64_t depth)
{
    const int64_t from = ahead->rows * i / n, rows = ahead->rows * (i + 1) / n - from;
    const int64_t groups = depth / WALK_GROUP, lines = rows * ((ahead->bytes + 63) / 64);

    if (rows == 0 || groups == 0)
        return (gemm_walk){0};
    return (gemm_walk){.row = ahead->from + from * ahead->stride,
                       .rows = rows,
                       .stride = ahead->stride,
                       .bytes = ahead->bytes,
                       .each = (lines + groups - 1) / groups};
}

ALWAYS_INLINE void walk_on(gemm_walk *walk)
{
    for (int64_t line = 0; line < walk->each && walk->rows > 0; line++) {
        __builtin_prefetch(walk->row + walk->at, 0, 2);
        walk->at += 64;
        if (walk->at >= walk->bytes) {
            walk->at = 0;
            walk->row += walk->stride;
            walk->rows--;
        }
    }
}

/* ---- a tile ---- */

typedef struct gemm_tile {
    const float *a;
    int64_t a_row, a_column;
    int64_t a_tile; /* the distance between tiles of packed A; 0: A is not packed */
    const float *b;
    int64_t b_row;
    int64_t depth;
    float *c;
    int64_t c_row;
    const float *beside;      /* memory that is needed next for C's elements; or NULL */
    int64_t columns;          /* columns that exist */
    bool add;                 /* adds to C */
    bool is_first, is_last;   /* whether this block of depth is the first, and whether it is the last */
    const float *column_bias; /* or NULL */
    const float *row_bias;    /* or NULL */
    gemm_walk walks[2];
    const gemm_job *finishing; /* the job whose `finish` follows; or NULL */
    int64_t column;            /* the column of C where the tile begins */
} gemm_tile;

ALWAYS_INLINE void multiply_tile(const gemm_tile *t, const int rows, const int vectors)
{
    const int64_t a_row = t->a_row, a_column = t->a_column, b_row = t->b_row;
    const int64_t last = t->columns - (vectors - 1) * LANES;
    /* three rows of A share a pointer: x86 addresses can add one or two strides to it */
    const float *a0 = t->a, *a3 = a0 + 3 * a_row, *a6 = a0 + 6 * a_row, *b = t->b;
    gemm_walk walks[2] = {t->walks[0], t->walks[1]};
    vf sum[TILE_ROWS][BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = vset(0.0f);
            __builtin_prefetch(t->c + r * t->c_row + v * LANES, 1,
                               3); /* the line arrives before the sums are complete */
            if (t->beside)
                __builtin_prefetch(t->beside + r * t->c_row + v * LANES, 1, 2);
        }
    }
    for (int64_t k = 0; k < t->depth;) {
        const int64_t end = t->depth - k < WALK_GROUP ? t->depth : k + WALK_GROUP;

        walk_on(&walks[0]);
        walk_on(&walks[1]);
        for (; k < end; k++) {
            vf line[BGI_GEMM_PANEL_VECTORS];

            UNROLL
            for (int v = 0; v < vectors; v++)
                line[v] = vload(b + v * LANES);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const vf x = vset((r < 3 ? a0 : r < 6 ? a3 : a6)[r % 3 * a_row]);

                UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = vfma(x, line[v], sum[r][v]);
            }
            a0 += a_column;
            a3 += a_column;
            a6 += a_column;
            b += b_row;
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const int64_t live = v == vectors - 1 ? last : LANES;
            float *at = t->c + r * t->c_row + v * LANES;

            if (t->add)
                sum[r][v] += vload_n(at, live);
            if (t->column_bias)
                sum[r][v] += vload_n(t->column_bias + v * LANES, live);
            else if (t->row_bias)
                sum[r][v] += vset(t->row_bias[r]);
            vstore_n(at, sum[r][v], live);
        }
    }
}

#define TILE(rows, vectors)                                                                                            \
    static void multiply_tile_##rows##_##vectors(const gemm_tile *t)                                                   \
    {                                                                                                                  \
        multiply_tile(t, rows, vectors);                                                                               \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 3)
#define TILE_NAMES(rows)                                                                                               \
    {                                                                                                                  \
        multiply_tile_##rows##_1, multiply_tile_##rows##_2, multiply_tile_##rows##_3                                   \
    }
TILES(1)
TILES(2)
TILES(3)
TILES(4)
#if TILE_ROWS == 8
TILES(5)
TILES(6)
TILES(7)
TILES(8)
#endif

static void (*const tile_table[TILE_ROWS][BGI_GEMM_PANEL_VECTORS])(const gemm_tile *t) = {
    TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4),
#if TILE_ROWS == 8
    TILE_NAMES(5), TILE_NAMES(6), TILE_NAMES(7), TILE_NAMES(8),
#endif
};

/* ---- packing ---- */

/* Packs a panel of a matrix: rows are copied, or blocks transposed; `spare` holds widened elements. */
static void pack_matrix(const gemm_job *job, int64_t repeat, int64_t k0, int64_t k_count, int64_t n0, int64_t count,
                        int64_t width, float *to, float *spare)
{
    const int64_t start = job->b_start + k0 * job->b_row + n0 * job->b_column;

    (void)repeat;
    if (job->b_column == 1 && job->dtype == BG_FLOAT32 && count == width) {
        const float *from = (const float *)job->b + start;

        for (int64_t k = 0; k < k_count; k++)
            vcopy(from + k * job->b_row, width, to + k * width);
    } else if (job->b_column == 1) {
        for (int64_t k = 0; k < k_count; k++) {
            if (count < width)
                memset(to + k * width, 0, (size_t)width * sizeof(float));
            read_floats(job->dtype, job->b, start + k * job->b_row, count, to + k * width);
        }
    } else if (job->dtype == BG_FLOAT32) {
        transpose_matrix((const float *)job->b + start, job->b_column, count, k_count, to, width, width);
    } else {
        for (int64_t n = 0; n < count; n++)
            widen(job->dtype, (const uint16_t *)job->b + start + n * job->b_column, k_count, spare + n * k_count);
        transpose_matrix(spare, k_count, count, k_count, to, width, width);
    }
}

/* ---- a unit ---- */

/* Returns A's rows m0.. and columns k0.. as float32, in place or widened in `buffer`, and sets their strides. */
static const float *view_rows(const gemm_job *job, int64_t repeat, int64_t m0, int64_t m_count, int64_t k0,
                              int64_t k_count, float *buffer, int64_t *row, int64_t *column)
{
    const int64_t start = job->a_start + repeat * job->a_repeat + m0 * job->a_row + k0 * job->a_column;

    *row = job->a_row;
    *column = job->a_column;
    if (job->dtype == BG_FLOAT32)
        return (const float *)job->a + start;
    if (job->a_column == 1) {
        for (int64_t m = 0; m < m_count; m++)
            widen(job->dtype, (const uint16_t *)job->a + start + m * job->a_row, k_count, buffer + m * k_count);
        *row = k_count;
        return buffer;
    }
    for (int64_t k = 0; k < k_count; k++)
        widen(job->dtype, (const uint16_t *)job->a + start + k * job->a_column, m_count, buffer + k * m_count);
    *column = m_count;
    return buffer;
}

/* Lays out a block of a transposed A tile by tile, [k][rows of the tile], in the order in which tiles read. Its columns
 * are far apart in memory and would be evicted between two tiles, so a few are copied at a time. */
static void pack_rows(gemm_tile *tile, int64_t m_count, float *to)
{
    const int64_t tiles = (m_count + TILE_ROWS - 1) / TILE_ROWS;

    for (int64_t k0 = 0; k0 < tile->depth; k0 += BGI_GEMM_PACKED_COLUMNS)
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t from = m_count * i / tiles, rows = m_count * (i + 1) / tiles - from;
            const int64_t left = tile->depth - k0,
                          count = left < BGI_GEMM_PACKED_COLUMNS ? left : BGI_GEMM_PACKED_COLUMNS;
            const float *a = tile->a + from + k0 * tile->a_column;
            float *strip = to + (i * tile->depth + k0) * TILE_ROWS;

            for (int64_t k = 0; k < count; k++, a += tile->a_column, strip += TILE_ROWS)
                if (rows == TILE_ROWS)
                    memcpy(strip, a, TILE_ROWS * sizeof(float));
                else
                    for (int64_t r = 0; r < rows; r++)
                        strip[r] = a[r];
        }
    tile->a = to;
    tile->a_column = TILE_ROWS;
    tile->a_tile = TILE_ROWS * tile->depth;
}

/* Returns part `part` of `parts` of the memory to prefetch. */
static gemm_ahead cut_ahead(const gemm_ahead *whole, int64_t part, int64_t parts)
{
    gemm_ahead cut = *whole;

    cut.rows = whole->rows * (part + 1) / parts - whole->rows * part / parts;
    if (whole->from != NULL) /* NULL: nothing to prefetch */
        cut.from += whole->rows * part / parts * whole->stride;
    return cut;
}

/* Applies the following step to complete sums while they are in the first-level cache: rows of C are so far apart that
 * many of them would evict each other. */
static void finish_tile(const gemm_tile *tile, int64_t rows)
{
    const gemm_job *job = tile->finishing;

    for (int64_t r = 0; r < rows; r++)
        job->finish(job, tile->c - (float *)job->c + r * tile->c_row, tile->column, tile->columns);
}

/* Multiplies one panel for all rows of the unit, in tiles of sizes as even as possible. */
static void multiply_panel(gemm_tile tile, int64_t m_count, int64_t vectors, const gemm_ahead ahead[2])
{
    const int64_t tiles = (m_count + TILE_ROWS - 1) / TILE_ROWS;
    const gemm_tile whole = tile;

    for (int64_t i = 0; i < tiles; i++) {
        const int64_t from = m_count * i / tiles, to = m_count * (i + 1) / tiles;

        tile.walks[0] = walk_share(&ahead[0], i, tiles, tile.depth);
        tile.walks[1] = walk_share(&ahead[1], i, tiles, tile.depth);
        tile.a = whole.a + (whole.a_tile ? i * whole.a_tile : from * whole.a_row);
        tile.c = whole.c + from * whole.c_row;
        tile.beside = whole.beside ? whole.beside + from * whole.c_row : NULL;
        tile.row_bias = whole.row_bias ? whole.row_bias + from : NULL;
        tile_table[to - from - 1][vectors - 1](&tile);
        if (tile.finishing)
            finish_tile(&tile, to - from);
    }
}

/* A product of float32 blocks in caches: c = a b, or c += a b. B's rows are readable in whole vectors. */
typedef struct gemm_block {
    const float *a, *b;
    float *c;
    int64_t a_row, a_column, b_row, c_row;
    int64_t m, n, k;
    bool add;
} gemm_block;

static void multiply_block(const gemm_block *g)
{
    const int64_t vectors = (g->n + LANES - 1) / LANES;
    const int64_t panels = (vectors + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;
    const gemm_ahead nothing[2] = {{0}};

    for (int64_t p = 0; p < panels; p++) {
        const int64_t from = vectors * p / panels, to = vectors * (p + 1) / panels, left = g->n - from * LANES;
        const gemm_tile tile = {.a = g->a,
                                .a_row = g->a_row,
                                .a_column = g->a_column,
                                .b = g->b + from * LANES,
                                .b_row = g->b_row,
                                .depth = g->k,
                                .c = g->c + from * LANES,
                                .c_row = g->c_row,
                                .columns = left < (to - from) * LANES ? left : (to - from) * LANES,
                                .add = g->add};

        multiply_panel(tile, g->m, to - from, nothing);
    }
}

/* A unit's scratch: a panel, a spare panel, A widened and packed, and C in float32. */
typedef struct gemm_scratch {
    float *packed, *spare, *a, *c;
} gemm_scratch;

/* Returns the first panel of the run that this thread probably multiplies after the run p0..p1 - 1, or -1. */
static int64_t find_next_run(const gemm_job *job, int64_t p0, int64_t p1)
{
    const bgi_gemm *g = job->gemm;
    const int64_t column = (p0 * g->column_blocks + g->panels - 1) / g->panels; /* the number of the run */

    if (job->from_end)
        return column > 0 ? g->panels * (column - 1) / g->column_blocks : -1;
    return p1 < g->panels ? p1 : -1;
}

/* Returns the memory of B that is needed after panel p of the run p0..p1 - 1: that of the run's next panel, of its
 * first panel in the next block of depth or, after the last block, of the first panel of another run. */
static gemm_ahead find_next_panel(const gemm_job *job, int64_t k0, int64_t p0, int64_t p1, int64_t p)
{
    const bgi_gemm *g = job->gemm;
    const bool ends_run = p + 1 == p1, ends_unit = ends_run && k0 + g->depth >= g->k;
    const int64_t next = !ends_run ? p + 1 : ends_unit ? find_next_run(job, p0, p1) : p0;
    const int64_t first = !ends_run ? k0 : ends_unit ? 0 : k0 + g->depth, vectors = (g->n + LANES - 1) / LANES;
    const int64_t n0 = vectors * next / g->panels * LANES, n1 = vectors * (next + 1) / g->panels * LANES;
    const int64_t columns = (n1 < g->n ? n1 : g->n) - n0, depth = g->k - first < g->depth ? g->k - first : g->depth;
    const int64_t size = job->dtype == BG_FLOAT32 ? 4 : 2;
    gemm_ahead ahead;

    if (next < 0 || (job->pack && !job->find_ahead))
        return (gemm_ahead){0};
    if (job->pack)
        return job->find_ahead(job, first, depth, n0, columns);
    ahead = (gemm_ahead){.from = (const char *)job->b + (job->b_start + first * job->b_row + n0 * job->b_column) * size,
                         .rows = depth,
                         .stride = job->b_row * size,
                         .bytes = columns * size};
    if (job->b_column != 1)
        ahead = (gemm_ahead){ahead.from, columns, job->b_column * size, depth * size};
    return ahead;
}

/* Returns the memory of A that is needed next: rows m0.. in the next block of depth. */
static gemm_ahead find_next_rows(const gemm_job *job, int64_t repeat, int64_t m0, int64_t m_count, int64_t k0)
{
    const bgi_gemm *g = job->gemm;
    const int64_t first = k0 + g->depth, depth = g->k - first < g->depth ? g->k - first : g->depth;
    const int64_t size = job->dtype == BG_FLOAT32 ? 4 : 2;
    const char *from =
        (const char *)job->a + (job->a_start + repeat * job->a_repeat + m0 * job->a_row + first * job->a_column) * size;

    if (depth <= 0)
        return (gemm_ahead){0};
    return job->a_column == 1 ? (gemm_ahead){from, m_count, job->a_row * size, depth * size}
                              : (gemm_ahead){from, depth, job->a_column * size, m_count * size};
}

/* Multiplies the run of panels p0..p1 - 1 for one block of depth; the tile has A, C and depth; `rows` is memory to
 * prefetch meanwhile. */
static void multiply_panels(const gemm_job *job, gemm_tile tile, int64_t repeat, int64_t k0, int64_t m_count,
                            int64_t p0, int64_t p1, const gemm_ahead *rows, const gemm_scratch *scratch)
{
    const bgi_gemm *g = job->gemm;
    const int64_t vectors = (g->n + LANES - 1) / LANES, first = vectors * p0 / g->panels * LANES;
    const bool finishes = job->finish && tile.is_last && job->c_dtype == BG_FLOAT32;
    const bool may_read_in_place = !job->pack && job->dtype == BG_FLOAT32 && job->b_column == 1;
    float *c = tile.c;
    float bias[BGI_GEMM_PANEL_VECTORS * LANES];

    for (int64_t p = p0; p < p1; p++) {
        const int64_t from = vectors * p / g->panels, to = vectors * (p + 1) / g->panels;
        const int64_t n0 = from * LANES, width = (to - from) * LANES;
        gemm_ahead ahead[2];

        tile.columns = g->n - n0 < width ? g->n - n0 : width;
        tile.c = c + (n0 - first);
        tile.finishing = finishes ? job : NULL;
        tile.column = n0;
        tile.beside = finishes && job->beside ? (const float *)job->beside + (tile.c - (float *)job->c) : NULL;
        if (job->column_bias && (job->biases_last ? tile.is_last : tile.is_first))
            tile.column_bias = view_floats(job->dtype, job->column_bias, n0, tile.columns, bias);
        if (may_read_in_place && tile.columns == width && m_count <= BGI_GEMM_FEW_ROWS) {
            tile.b = (const float *)job->b + job->b_start + k0 * job->b_row + n0;
            tile.b_row = job->b_row;
        } else {
            (job->pack ? job->pack : pack_matrix)(job, repeat, k0, tile.depth, n0, tile.columns, width, scratch->packed,
                                                  scratch->spare);
            tile.b = scratch->packed;
            tile.b_row = width;
        }
        ahead[0] = find_next_panel(job, k0, p0, p1, p);
        ahead[1] = cut_ahead(rows, p - p0, p1 - p0);
        multiply_panel(tile, m_count, to - from, ahead);
    }
}

/* Rounds floats to a 16-bit type in place. */
static void round_floats(bg_dtype dtype, float *data, int64_t count)
{
    uint16_t narrowed[BGI_GEMM_PANEL_VECTORS * LANES];

    for (int64_t i = 0; i < count; i += BGI_GEMM_PANEL_VECTORS * LANES) {
        const int64_t left = count - i,
                      run = left < BGI_GEMM_PANEL_VECTORS * LANES ? left : BGI_GEMM_PANEL_VECTORS * LANES;

        narrow(dtype, data + i, run, narrowed);
        widen(dtype, narrowed, run, data + i);
    }
}

#if LANES == 16
/* Multiplies rows m0.. and columns n0.. of bfloat16 with instructions for pairs (pairs.h), for one block of depth. Sums
 * are stored separately from C, which is bfloat16, and begin with the biases. */
static void multiply_pairs(const gemm_job *job, const gemm_tile *tile, int64_t repeat, int64_t m0, int64_t m_count,
                           int64_t k0, int64_t n0, int64_t n_count, float *scratch)
{
    const bool has_bias = tile->is_first && (tile->row_bias || job->column_bias);
    const bgi_pairs pairs = {.a = (const uint16_t *)job->a + job->a_start + repeat * job->a_repeat + m0 * job->a_row +
                                  k0 * job->a_column,
                             .a_row = job->a_row,
                             .a_column = job->a_column,
                             .b = (const uint16_t *)job->b + job->b_start + k0 * job->b_row + n0 * job->b_column,
                             .b_row = job->b_row,
                             .b_column = job->b_column,
                             .c = tile->c,
                             .c_row = tile->c_row,
                             .m = m_count,
                             .n = n_count,
                             .k = tile->depth,
                             .goes_on = has_bias || tile->add,
                             .scratch = scratch};

    if (has_bias)
        for (int64_t m = 0; m < m_count; m++) {
            float *sums = tile->c + m * tile->c_row;

            if (job->column_bias)
                read_floats(job->dtype, job->column_bias, n0, n_count, sums);
            for (int64_t n = 0; tile->row_bias && n < n_count; n++)
                sums[n] = tile->row_bias[m] + (job->column_bias ? sums[n] : 0.0f);
        }
    if (job->gemm->pairs == BGI_ISA_AMX)
        bgi_pairs_multiply_amx(&pairs);
    else
        bgi_pairs_multiply_avx512bf16(&pairs);
}
#endif

static bool is_one_row(const gemm_job *job)
{
    return job->gemm->m == 1 && job->dtype == BG_FLOAT32 && job->c_dtype == BG_FLOAT32 && !job->pack && !job->add &&
           job->repeats <= 1 && !job->row_bias && job->a_column == 1;
}

/* Computes columns first .. end - 1 of the only row. */
static void multiply_one_row(const gemm_job *job, int64_t first, int64_t end)
{
    const gemm_row row = {.a = (const float *)job->a + job->a_start,
                          .b = (const float *)job->b + job->b_start,
                          .b_row = job->b_row,
                          .b_column = job->b_column,
                          .k = job->gemm->k,
                          .depth = job->gemm->depth,
                          .c = (float *)job->c + job->c_start,
                          .bias = job->column_bias,
                          .biases_last = job->biases_last};

    multiply_row(&row, first, end);
    if (job->finish)
        job->finish(job, job->c_start + first, first, end - first);
}

/* Multiplies rows m0..m1 - 1 by panels p0..p1 - 1. */
static void multiply_unit(const gemm_job *job, int64_t m0, int64_t m1, int64_t p0, int64_t p1, float *scratch)
{
    const bgi_gemm *g = job->gemm;
    const int64_t vectors = (g->n + LANES - 1) / LANES;
    const int64_t first = vectors * p0 / g->panels * LANES, m_count = m1 - m0;
    const int64_t end = vectors * p1 / g->panels * LANES < g->n ? vectors * p1 / g->panels * LANES : g->n;
    const int64_t repeats = job->repeats ? job->repeats : 1;
    const bool is_apart = job->c_dtype != BG_FLOAT32 || (job->add && bgi_gemm_adds_apart(g, repeats));
    const gemm_scratch cut = {scratch, scratch + g->panel_floats / 2, scratch + g->panel_floats,
                              scratch + g->panel_floats + g->a_floats};
    gemm_tile tile = {.c = is_apart ? cut.c : (float *)job->c + job->c_start + m0 * job->c_row + first,
                      .c_row = is_apart ? end - first : job->c_row};
    float bias[BGI_GEMM_ROWS];
    const float *row_bias = job->row_bias ? view_floats(job->dtype, job->row_bias, m0, m_count, bias) : NULL;
    gemm_ahead rows;

    if (is_one_row(job)) {
        multiply_one_row(job, first, end);
        return;
    }
    for (int64_t repeat = 0; repeat < repeats; repeat++)
        for (int64_t k0 = 0; k0 < g->k; k0 += g->depth) {
            tile.depth = g->k - k0 < g->depth ? g->k - k0 : g->depth;
            tile.is_first = repeat == 0 && k0 == 0;
            tile.is_last = repeat + 1 == repeats && k0 + tile.depth == g->k;
            tile.add = !tile.is_first || (job->add && !is_apart);
            tile.row_bias = tile.is_first ? row_bias : NULL;
#if LANES == 16
            if (g->pairs != BGI_ISA_PORTABLE) {
                multiply_pairs(job, &tile, repeat, m0, m_count, k0, first, end - first, cut.a);
                continue;
            }
#endif
            tile.a = view_rows(job, repeat, m0, m_count, k0, tile.depth, cut.a, &tile.a_row, &tile.a_column);
            tile.a_tile = 0;
            if (m_count > BGI_GEMM_FEW_ROWS && tile.a_row == 1 && tile.a_column > 1)
                pack_rows(&tile, m_count, cut.a + g->a_floats / 2);
            rows = find_next_rows(job, repeat, m0, m_count, k0);
            multiply_panels(job, tile, repeat, k0, m_count, p0, p1, &rows, &cut);
            if (job->rounds)
                round_floats(job->c_dtype, cut.c, m_count * tile.c_row);
        }
    for (int64_t m = 0; is_apart && m < m_count; m++)
        put_floats(job->add, job->c_dtype, job->c, job->c_start + (m0 + m) * job->c_row + first, end - first,
                   cut.c + m * tile.c_row);
    for (int64_t m = m0; job->finish && is_apart && m < m1; m++)
        job->finish(job, job->c_start + m * job->c_row + first, first, end - first);
}

/* Computes unit `unit` of one matrix of the batch. */
static void multiply_matrix_unit(const gemm_job *job, int64_t unit, float *scratch)
{
    const bgi_gemm *g = job->gemm;
    const int64_t row = unit / g->column_blocks, column = unit % g->column_blocks;

    multiply_unit(job, g->m * row / g->row_blocks, g->m * (row + 1) / g->row_blocks,
                  g->panels * column / g->column_blocks, g->panels * (column + 1) / g->column_blocks, scratch);
}

#endif
