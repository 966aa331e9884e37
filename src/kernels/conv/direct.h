/*
 * direct.h: the geometry of convolutions without a matrix of patches, only for float32.
 *
 * A channel is copied once for each column of the filter, shifted by that column, with its padding written out. Rows of
 * a copy are as wide as rows of results, so neighboring rows are adjacent in the copy as they are in the result. A
 * vector of results therefore covers any run of positions, even in narrow rows. A tap in row ky of the filter reads the
 * copy of its column, ky rows (times the dilation) further on.
 *
 *     a b c      copies for columns 0, 1, 2      0 a b      a b c      b c 0
 *     d e f      of a filter 3 wide              0 d e      d e f      e f 0
 *
 * Rows of whole vectors are copied only once, with a margin of a vector of zeros between rows, into which taps in other
 * columns reach.
 *
 * A stride of s divides an image into s x s phases, which are images of every s-th row and column. Phases are copied,
 * so neighbors in the result are neighbors in the copies too. The gradient of the input is such a convolution of dy for
 * each phase of dx, with the taps that reach the phase.
 *
 * Separate parts lay out the weights once a call, in the order in which tiles read them. Sums run over channels, then
 * taps, in blocks (product.h), so the forward pass is bit-identical to the matrix product. Only the channels that a
 * block reads are copied at a time, for as many images as fill a second-level cache.
 */
#ifndef BGI_KERNELS_CONV_DIRECT_H
#define BGI_KERNELS_CONV_DIRECT_H

#include "kernels/conv/fast.h"

enum {
    BGI_DIRECT_COPY_FLOATS = 64 * 1024,  /* floats of copied channels: they stay in a second-level cache */
    BGI_DIRECT_RUN_VECTORS = 24,         /* approximate number of vectors of a unit's results in each of its channels */
    BGI_DIRECT_CHUNK_FLOATS = 32 * 1024, /* packed weights that are used with all vectors before the next are read */
    BGI_DIRECT_SMALL_FLOATS = 64 * 1024, /* up to this size, all laid-out weights stay in a second-level cache */
    BGI_DIRECT_LEAST_VECTORS = 6,        /* and then a unit with at least this many vectors reads all of them */
    BGI_DIRECT_SPREAD_CHANNELS = 64,     /* channels of results that wait for the other phases of their row */
    BGI_DIRECT_SUM_CHANNELS = 127,       /* the most result channels for dw: with more the matrix product is faster */
    BGI_DIRECT_SUM_POSITIONS = 1024,     /* approximate number of positions in a sum of dw */
    BGI_DIRECT_LEAST_POSITIONS = 512,    /* with fewer positions, adding up lanes would take too long */
    BGI_DIRECT_FORWARD_MATRIX = 32,      /* up to this many positions, one product of several images is faster */
    BGI_DIRECT_INPUT_MATRIX = 64,        /* the same, for dx */
    BGI_DIRECT_LAID_CHANNELS = 8,        /* channels of dy whose weights are laid out for one tile after another */
    BGI_DIRECT_MASKED_VECTORS = 8,       /* the largest copies, in vectors, that have a mask for each place */
    BGI_DIRECT_MOST_STRIDE = 4,
    BGI_DIRECT_MOST_COLUMNS = 16 /* columns of a filter */
};

/* One convolution: `channels` planes in, results in `rows` x `columns`. */
typedef struct bgi_direct {
    int64_t channels, h, w; /* in */
    int64_t step[2];        /* distances of rows and of columns between neighboring places of a copy */
    int64_t padding;        /* place r of phase f is row r step + f - padding */
    uint32_t phases;        /* phases of rows; bit f: some tap reads phase f */
    int64_t phase_count;    /* the number of these phases */
    int64_t taps[2];        /* the numbers of taps that reach the results, in rows and columns */
    int64_t offsets[BGI_DIRECT_MOST_COLUMNS]; /* place x of copy j is column x step + offsets[j] */
    int64_t reach;         /* distance in rows of a copy between the first and the last row of taps */
    int64_t rows, columns; /* out */
    int64_t margin; /* zeros before each row of the only copy, which all columns read; 0: each column has a copy */
} bgi_direct;

static inline int64_t bgi_direct_terms(const bgi_direct *d)
{
    return d->channels * d->taps[0] * d->taps[1];
}

/* Returns the distance between rows of a copy, in floats. */
static inline int64_t bgi_direct_pitch(const bgi_direct *d)
{
    return d->columns + d->margin;
}

/* Returns the floats of a copied channel for results in `rows` rows. A margin follows the last row as well. */
static inline int64_t bgi_direct_plane(const bgi_direct *d, int64_t rows)
{
    if (d->margin > 0)
        return (rows + d->reach) * bgi_direct_pitch(d) + d->margin;
    return d->taps[1] * d->phase_count * (rows + d->reach) * d->columns;
}

static inline int64_t bgi_direct_vectors(const bgi_direct *d, int64_t rows, int64_t lanes)
{
    return (rows * d->columns + lanes - 1) / lanes;
}

/* Returns whether copies are shifted phases of the image, whose rows are as wide as those of results. A single tap
 * reads one phase, which is copied without the others. */
static inline bool bgi_direct_shifts(const bgi_direct *d)
{
    const bool is_single = d->taps[0] * d->taps[1] == 1 && d->step[0] * d->step[1] > 1;

    return !is_single && (d->w + d->step[1] - 1) / d->step[1] == d->columns;
}

/* Sets a margin of one vector of zeros between rows if rows consist of whole vectors, steps are 1, and taps reach at
 * most one vector beyond a row's ends. One copy is then enough for all columns of the filter. */
static inline void bgi_direct_take_margin(bgi_direct *d, int64_t lanes)
{
    bool fits = d->step[0] * d->step[1] == 1 && d->taps[1] > 1 && d->w == d->columns && d->columns % lanes == 0;

    for (int64_t j = 0; j < d->taps[1]; j++)
        fits = fits && d->offsets[j] >= -lanes && d->offsets[j] <= lanes;
    d->margin = fits ? lanes : 0;
}

/* These two functions return whether an image is divided into step[0] x step[1] phases before it is copied, and the
 * floats of each phase. */
static inline bool bgi_direct_parts(const bgi_direct *d)
{
    return bgi_direct_shifts(d) && d->step[0] * d->step[1] > 1;
}

static inline int64_t bgi_direct_phase_floats(const bgi_direct *d)
{
    return (d->h + d->step[0] - 1) / d->step[0] * d->columns;
}

/* Returns the floats of the mask of a whole copy (each column of the filter has one), or 0 if copies have no masks.
 * Only small images have masks: there, finding the first and last places inside the image would take longer than
 * copying. */
static inline int64_t bgi_direct_mask_floats(const bgi_direct *d, int64_t lanes)
{
    const int64_t size = (d->rows + d->reach) * d->columns, floats = bgi_cpu_round_up(size, lanes);
    const bool is_whole = d->margin == 0 && bgi_direct_shifts(d) && !bgi_direct_parts(d);

    return is_whole && size >= lanes && floats <= BGI_DIRECT_MASKED_VECTORS * lanes ? floats : 0;
}

static inline bgi_direct bgi_direct_forward(const bgi_conv *s)
{
    bgi_direct d = {.channels = s->cg,
                    .h = s->h,
                    .w = s->w,
                    .step = {s->options.stride[0], s->options.stride[1]},
                    .padding = s->options.padding[0],
                    .taps = {s->kh, s->kw},
                    .rows = s->oh,
                    .columns = s->ow};

    for (int64_t k = 0; k < s->kh; k++)
        d.phases |= 1u << (k * s->options.dilation[0] % d.step[0]);
    d.phase_count = __builtin_popcount(d.phases);
    d.reach = (s->kh - 1) * s->options.dilation[0] / d.step[0];
    for (int64_t k = 0; k < s->kw; k++)
        d.offsets[k] = k * s->options.dilation[1] - s->options.padding[1];
    return d;
}

/* These functions return, along a dim, the first place of dx in phase q, the number of the phase's places, whether tap
 * k reaches the phase (k dilation = q, modulo the stride), and the place of dy that the first place reads through tap
 * k. */
static inline int64_t bgi_direct_first(const bgi_conv *s, int dim, int64_t q)
{
    const int64_t stride = s->options.stride[dim], before = s->options.padding[dim] % stride;

    return (q - before + stride) % stride;
}

static inline int64_t bgi_direct_count(const bgi_conv *s, int dim, int64_t q)
{
    const int64_t size = dim == 0 ? s->h : s->w, first = bgi_direct_first(s, dim, q), stride = s->options.stride[dim];

    return first < size ? (size - first - 1) / stride + 1 : 0;
}

static inline bool bgi_direct_has(const bgi_conv *s, int dim, int64_t q, int64_t k)
{
    return k * s->options.dilation[dim] % s->options.stride[dim] == q;
}

/* The result may be negative; the division is exact. */
static inline int64_t bgi_direct_place(const bgi_conv *s, int dim, int64_t q, int64_t k)
{
    return (bgi_direct_first(s, dim, q) + s->options.padding[dim] - k * s->options.dilation[dim]) /
           s->options.stride[dim];
}

/* Finds the convolution that computes phase q = (row, column) of dx; returns false if no tap reaches the phase, or if
 * the phase is empty. */
static inline bool bgi_direct_backward(const bgi_conv *s, const int64_t q[2], bgi_direct *out)
{
    bgi_direct d = {.channels = s->og,
                    .h = s->oh,
                    .w = s->ow,
                    .step = {1, 1},
                    .phases = 1,
                    .phase_count = 1,
                    .rows = bgi_direct_count(s, 0, q[0]),
                    .columns = bgi_direct_count(s, 1, q[1])};
    int64_t least = INT64_MAX, most = INT64_MIN;

    for (int64_t k = 0; k < s->kh; k++)
        if (bgi_direct_has(s, 0, q[0], k)) {
            const int64_t place = bgi_direct_place(s, 0, q[0], k);

            least = place < least ? place : least;
            most = place > most ? place : most;
            d.taps[0]++;
        }
    for (int64_t k = 0; k < s->kw; k++)
        if (bgi_direct_has(s, 1, q[1], k))
            d.offsets[d.taps[1]++] = bgi_direct_place(s, 1, q[1], k);
    if (d.taps[0] * d.taps[1] * d.rows * d.columns == 0)
        return false;
    d.padding = -least;
    d.reach = most - least;
    *out = d;
    return true;
}

/* ---- which convolutions are supported ---- */

static inline double bgi_direct_flops(const bgi_conv *s)
{
    return 2.0 * (double)s->n * (double)s->o * (double)s->k * (double)s->p;
}

/* Returns whether the convolution is a matrix product of each image: a 1 x 1 filter without stride and padding. */
static inline bool bgi_conv_is_matrix(const bgi_conv *s)
{
    const bg_conv2d_options *o = &s->options;

    return s->taps == 1 && o->stride[0] == 1 && o->stride[1] == 1 && o->padding[0] == 0 && o->padding[1] == 0;
}

static inline bool bgi_direct_may(const bgi_conv *s)
{
    return s->dtype == BG_FLOAT32 && s->options.stride[0] <= BGI_DIRECT_MOST_STRIDE &&
           s->options.stride[1] <= BGI_DIRECT_MOST_STRIDE && s->kw <= BGI_DIRECT_MOST_COLUMNS;
}

/* Returns whether vectors are filled well enough, and whether there are enough of them to make the time for packing
 * weights negligible. */
static inline bool bgi_direct_fills(const bgi_direct *d, int64_t images, int64_t lanes)
{
    const int64_t vectors = bgi_direct_vectors(d, d->rows, lanes);

    return 4 * d->rows * d->columns >= 3 * vectors * lanes && images * vectors >= 4;
}

/* ---- division of the work of forward and dx ---- */

/* A unit is some images (or a strip of rows of one), a group, and some of its channels of results. Scratch: laid-out
 * weights; then for each runner tables, copies, and results of phases of dx that are not stored yet. */
typedef struct bgi_direct_plan {
    int64_t together;           /* images of a unit */
    int64_t strips, strip_rows; /* strips of results, and their rows; one strip when a unit has several images */
    int64_t chunks;             /* runs of tiles of channels */
    int64_t units;
    int64_t weights_floats, table_floats, copy_floats, spread_floats, part_floats;
    uint32_t parts;
} bgi_direct_plan;

static inline int64_t bgi_direct_tiles(int64_t channels, int64_t lanes)
{
    const int64_t rows = BGI_GEMM_TILE_ROWS_OF(lanes);

    return (channels + rows - 1) / rows;
}

/* Returns the largest number of channels that a block of terms reads. */
static inline int64_t bgi_direct_block_channels(const bgi_direct *d)
{
    const int64_t taps = d->taps[0] * d->taps[1], depth = bgi_product_block(bgi_direct_terms(d));
    const int64_t most = (depth + taps - 2) / taps + 1;

    return most < d->channels ? most : d->channels;
}

/* Returns the largest number of tiles of channels of dx or y in a unit of `plan`. */
static inline int64_t bgi_direct_chunk_tiles(int64_t tiles, const bgi_direct_plan *plan)
{
    return (tiles + plan->chunks - 1) / plan->chunks;
}

static inline int64_t bgi_direct_copy_floats(const bgi_direct *d, int64_t rows)
{
    return bgi_direct_block_channels(d) * bgi_direct_plane(d, rows);
}

/* Divides the work of convolutions like `d` with `channels` results; `may_strip`: images may be divided into strips. */
static inline void bgi_direct_cut(const bgi_conv *s, const bgi_direct *d, int64_t channels, bool may_strip,
                                  int64_t lanes, bgi_direct_plan *plan)
{
    const int64_t vectors = bgi_direct_vectors(d, d->rows, lanes), tiles = bgi_direct_tiles(channels, lanes);
    const uint32_t some = bgi_cpu_part_count(INT32_MAX, bgi_direct_flops(s), BGI_GEMM_UNIT_FLOPS);
    const int64_t wanted = some < BGI_GEMM_FEWEST_UNITS ? some : BGI_GEMM_FEWEST_UNITS;
    int64_t fit = BGI_DIRECT_COPY_FLOATS / bgi_direct_copy_floats(d, d->rows), groups;

    plan->together = (BGI_DIRECT_RUN_VECTORS + vectors - 1) / vectors;
    plan->together = plan->together < fit ? plan->together : fit < 1 ? 1 : fit;
    plan->together = plan->together < s->n ? plan->together : s->n;
    /* prefers fewer images in a unit to fewer channels, for which images would be copied several times */
    while (tiles * BGI_GEMM_TILE_ROWS_OF(lanes) * bgi_direct_terms(d) <= BGI_DIRECT_SMALL_FLOATS &&
           plan->together > 1 && (plan->together - 1) * vectors >= BGI_DIRECT_LEAST_VECTORS &&
           (s->n + plan->together - 1) / plan->together * s->options.groups < wanted)
        plan->together--;
    plan->strips = 1;
    if (fit < 1 && may_strip) { /* as many rows as fit, but not strips of only a few rows */
        int64_t rows = BGI_DIRECT_COPY_FLOATS / bgi_direct_copy_floats(d, 1 - d->reach) - d->reach;

        rows = rows < 4 ? 4 : rows;
        plan->strips = (d->rows + rows - 1) / rows;
    }
    groups = (s->n + plan->together - 1) / plan->together * s->options.groups;
    if (may_strip && plan->together == 1 && groups * plan->strips < wanted)
        plan->strips = (wanted + groups - 1) / groups;
    plan->strips = plan->strips < d->rows ? plan->strips : d->rows;
    while (plan->strips > 1 && (d->rows / plan->strips) * d->columns < 6 * lanes)
        plan->strips--;
    plan->strip_rows = (d->rows + plan->strips - 1) / plan->strips;
    plan->strips = (d->rows + plan->strip_rows - 1) / plan->strip_rows;
    plan->chunks = 1;
    while (groups * plan->strips * plan->chunks < wanted && bgi_direct_chunk_tiles(tiles, plan) > 2)
        plan->chunks++;
    plan->units = groups * plan->strips * plan->chunks;
}

static inline void bgi_direct_plan_parts(const bgi_conv *s, bgi_direct_plan *plan, uint64_t limit_bytes)
{
    const uint64_t fixed = (uint64_t)plan->weights_floats * sizeof(float);

    plan->part_floats = plan->table_floats + plan->copy_floats + plan->spread_floats;
    plan->parts = bgi_gemm_fit_parts(bgi_cpu_part_count(plan->units, bgi_direct_flops(s), BGI_GEMM_UNIT_FLOPS),
                                     plan->part_floats, limit_bytes > fixed ? limit_bytes - fixed : 0);
}

static inline int64_t bgi_direct_scratch_floats(const bgi_direct_plan *plan)
{
    return plan->weights_floats + (int64_t)plan->parts * plan->part_floats;
}

/* Returns the floats of the tables: places of taps; places of the `terms` of a block; for each column of the filter,
 * masks of a row of shifted copies, extended by a vector, and masks of whole copies. The phases of a channel follow. */
static inline int64_t bgi_direct_table_floats(const bgi_direct *d, int64_t terms, int64_t lanes)
{
    const int64_t masks =
        bgi_direct_shifts(d) ? d->taps[1] * (d->columns + lanes + bgi_direct_mask_floats(d, lanes)) : 0;
    const int64_t phases = bgi_direct_parts(d) ? d->step[0] * d->step[1] * bgi_direct_phase_floats(d) : 0;

    return bgi_cpu_round_up(d->taps[0] * d->taps[1] + terms + masks, 16) + bgi_cpu_round_up(phases, 16);
}

/* Returns the floats of one group's laid-out weights. */
static inline int64_t bgi_direct_weights_floats(const bgi_direct *d, int64_t channels, int64_t lanes)
{
    return bgi_direct_tiles(channels, lanes) * BGI_GEMM_TILE_ROWS_OF(lanes) * bgi_direct_terms(d);
}

/* Plans the forward pass; returns false if a matrix product computes the convolution. */
static inline bool bgi_direct_forward_plan(const bgi_conv *s, int64_t lanes, uint64_t limit_bytes, bgi_direct *direct,
                                           bgi_direct_plan *out)
{
    bgi_direct_plan plan = {0};

    if (!bgi_direct_may(s) || (bgi_conv_is_matrix(s) && s->p > BGI_DIRECT_FORWARD_MATRIX))
        return false;
    *direct = bgi_direct_forward(s);
    if (!bgi_direct_fills(direct, s->n, lanes))
        return false;
    bgi_direct_take_margin(direct, lanes);
    bgi_direct_cut(s, direct, s->og, true, lanes, &plan);
    plan.weights_floats = bgi_cpu_round_up(s->options.groups * bgi_direct_weights_floats(direct, s->og, lanes), 16);
    plan.table_floats = bgi_direct_table_floats(direct, BGI_PRODUCT_BLOCK, lanes);
    plan.copy_floats = bgi_cpu_round_up(plan.together * bgi_direct_copy_floats(direct, plan.strip_rows) + lanes, 16);
    bgi_direct_plan_parts(s, &plan, limit_bytes);
    *out = plan;
    return true;
}

/* Returns whether dx has several phases, each of which a separate convolution computes. */
static inline bool bgi_direct_spreads(const bgi_conv *s)
{
    return s->options.stride[0] * s->options.stride[1] > 1;
}

/* Plans the gradient of the input; the phase of dx with the largest copies determines how the work is divided. Returns
 * false if a matrix product computes dx. */
static inline bool bgi_direct_input_plan(const bgi_conv *s, int64_t lanes, uint64_t limit_bytes, bgi_direct_plan *out)
{
    bgi_direct_plan plan = {0};
    const int64_t tiles = bgi_direct_tiles(s->cg, lanes);
    int64_t q[2], copy = 0, positions = 0, channels;
    bgi_direct d, largest = {0};

    if (!bgi_direct_may(s) || (bgi_conv_is_matrix(s) && s->p > BGI_DIRECT_INPUT_MATRIX))
        return false;
    for (q[0] = 0; q[0] < s->options.stride[0]; q[0]++)
        for (q[1] = 0; q[1] < s->options.stride[1]; q[1]++) {
            if (!bgi_direct_backward(s, q, &d))
                continue;
            if (!bgi_direct_fills(&d, s->n, lanes))
                return false;
            bgi_direct_take_margin(&d, lanes);
            plan.weights_floats += bgi_direct_weights_floats(&d, s->cg, lanes);
            if (bgi_direct_table_floats(&d, BGI_PRODUCT_BLOCK, lanes) > plan.table_floats)
                plan.table_floats = bgi_direct_table_floats(&d, BGI_PRODUCT_BLOCK, lanes);
            if (d.rows * d.columns > positions)
                positions = d.rows * d.columns;
            if (bgi_direct_copy_floats(&d, d.rows) > copy) {
                copy = bgi_direct_copy_floats(&d, d.rows);
                largest = d;
            }
        }
    if (copy == 0)
        return false;
    bgi_direct_cut(s, &largest, s->cg, !bgi_direct_spreads(s), lanes, &plan);
    if (bgi_direct_spreads(s)) {
        const int64_t most = BGI_DIRECT_SPREAD_CHANNELS / BGI_GEMM_TILE_ROWS_OF(lanes);

        while (bgi_direct_chunk_tiles(tiles, &plan) > most)
            plan.chunks++;
        plan.units = (s->n + plan.together - 1) / plan.together * s->options.groups * plan.chunks;
        channels = bgi_direct_chunk_tiles(tiles, &plan) * BGI_GEMM_TILE_ROWS_OF(lanes);
        plan.spread_floats = bgi_cpu_round_up(s->options.stride[1] * plan.together * channels * positions + lanes, 16);
    } else {
        copy = bgi_direct_copy_floats(&largest, plan.strip_rows);
    }
    plan.weights_floats = bgi_cpu_round_up(s->options.groups * plan.weights_floats, 16);
    plan.copy_floats = bgi_cpu_round_up(plan.together * copy + lanes, 16);
    bgi_direct_plan_parts(s, &plan, limit_bytes);
    *out = plan;
    return true;
}

/* ---- division of the work of dw ---- */

/* Strips of images follow each other. Each part sums over a run of strips, for some channels, into separate sums, which
 * are added in order, or directly into dw (`is_whole`), which requires only one run. The number of runs affects the
 * result, so limits of scratch are not applied to it. Scratch: the runs' sums; then for each runner tables, copies and
 * a tile's rows of dy, which are copied if a sum covers several images, because rows of one image are too short. */
typedef struct bgi_direct_weights_plan {
    int64_t strips, strip_rows;
    int64_t together;    /* strips of one sum */
    int64_t channels;    /* channels copied at a time */
    uint32_t runs, cuts; /* runs of strips, and cuts of channels: a part is one of each */
    bool is_whole;       /* dw has the sums */
    int64_t sums_floats, table_floats, copy_floats, row_floats, runner_floats;
    uint32_t parts, combines;
} bgi_direct_weights_plan;

static inline bool bgi_direct_may_sum(const bgi_conv *s)
{
    return bgi_direct_may(s) && !bgi_conv_is_matrix(s) && s->og <= BGI_DIRECT_SUM_CHANNELS;
}

static inline bool bgi_direct_weights(const bgi_conv *s, int64_t lanes, bool accumulates, bgi_direct *direct,
                                      bgi_direct_weights_plan *out)
{
    const double flops = bgi_direct_flops(s);
    bgi_direct_weights_plan plan = {0};
    int64_t plane, rows, strips, most, full, wanted, run, of_cut, rounds;

    if (!bgi_direct_may_sum(s))
        return false;
    *direct = bgi_direct_forward(s);
    if (!bgi_direct_fills(direct, s->n, lanes))
        return false;
    rows = BGI_DIRECT_SUM_POSITIONS / direct->columns;
    rows = rows < 1 ? 1 : rows < direct->rows ? rows : direct->rows;
    plan.strips = (direct->rows + rows - 1) / rows;
    plan.strip_rows = (direct->rows + plan.strips - 1) / plan.strips;
    plan.strips = (direct->rows + plan.strip_rows - 1) / plan.strip_rows;
    strips = s->n * plan.strips;
    plan.sums_floats = bgi_cpu_round_up(s->o * s->k, 16);
    most = BGI_CONV_SUMS / plan.sums_floats;
    most = most < 1 ? 1 : most < BGI_GEMM_FEWEST_UNITS ? most : BGI_GEMM_FEWEST_UNITS;
    wanted = bgi_cpu_part_count(BGI_GEMM_FEWEST_UNITS, flops, BGI_GEMM_UNIT_FLOPS);
    plan.runs = (uint32_t)(wanted < most ? wanted : most);
    plan.runs = (int64_t)plan.runs < strips ? plan.runs : (uint32_t)strips;
    full = s->n * s->p / BGI_DIRECT_LEAST_POSITIONS;
    plan.runs = (int64_t)plan.runs < full ? plan.runs : full < 1 ? 1 : (uint32_t)full;
    plan.cuts = (uint32_t)((wanted + plan.runs - 1) / plan.runs);
    plan.cuts = (int64_t)plan.cuts < s->cg ? plan.cuts : (uint32_t)s->cg;
    plan.parts = plan.runs * plan.cuts;
    plan.together = BGI_DIRECT_SUM_POSITIONS / (plan.strip_rows * direct->columns);
    run = (strips + plan.runs - 1) / plan.runs;
    plan.together = plan.together < 1 ? 1 : plan.together < run ? plan.together : run;
    plan.is_whole = plan.runs == 1 && (!accumulates || run <= plan.together);
    if (plan.is_whole)
        plan.sums_floats = 0;
    plane = bgi_direct_plane(direct, plan.strip_rows);
    plan.channels = BGI_DIRECT_COPY_FLOATS / (plan.together * plane);
    plan.channels = plan.channels < 1 ? 1 : plan.channels;
    of_cut = (s->cg + plan.cuts - 1) / plan.cuts;
    rounds = (of_cut + plan.channels - 1) / plan.channels;
    plan.channels = (of_cut + rounds - 1) / rounds;
    plan.table_floats = bgi_direct_table_floats(direct, plan.channels * s->taps, lanes);
    plan.copy_floats = bgi_cpu_round_up(plan.together * plan.channels * plane + lanes, 16);
    if (plan.together > 1)
        plan.row_floats =
            BGI_GEMM_TILE_ROWS_OF(lanes) * bgi_cpu_round_up(plan.together * plan.strip_rows * direct->columns, 16);
    plan.runner_floats = plan.table_floats + plan.copy_floats + plan.row_floats;
    plan.combines = bgi_cpu_part_count(s->o, (double)s->o * (double)s->k * plan.runs, BGI_CONV_SUM_PART);
    *out = plan;
    return true;
}

static inline int64_t bgi_direct_weights_scratch(const bgi_direct_weights_plan *plan)
{
    return plan->runs * plan->sums_floats + plan->parts * plan->runner_floats;
}

#endif
