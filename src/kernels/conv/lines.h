/*
 * lines.h: the geometry of sums of dw whose lanes are channels, only for float32.
 *
 * Channels of a copy of x are adjacent, a vector of them at each place, and the padding is written out. A *line* is one
 * tap of the filter of one vector of channels: the vector at the tap's place multiplies one element of dy, for each
 * position of the results. So one copy is enough for all taps, any stride and any dilation.
 *
 * A tile is a few rows of dw (channels of results) by up to three lines. Its sums run over the positions of a *chain*,
 * which is some rows of results of an image, or some small images. A chain's sums are added to those of the chains
 * before it. Letters: fast.h.
 */
#ifndef BGI_KERNELS_CONV_LINES_H
#define BGI_KERNELS_CONV_LINES_H

#include "kernels/conv/direct.h"

enum {
    BGI_LINES_POSITIONS = 256,         /* approximate length of a chain */
    BGI_LINES_ROWS = 256,              /* the most rows of dw in a unit */
    BGI_LINES_SUM_FLOATS = 64 * 1024,  /* the most sums of a unit: they stay in a second-level cache */
    BGI_LINES_COPY_FLOATS = 64 * 1024, /* the most floats of a unit's copies */
    BGI_LINES_LEAST_CHANNELS = 12,     /* with fewer channels, copies and rows of dy are not reused enough */
    BGI_LINES_MATRIX = 32,             /* the most positions for which the matrix product of a 1 x 1 filter is slower */
    BGI_LINES_MOST_PARTS = 32,         /* each part has scratch for a whole unit */
    BGI_LINES_MOST_TAPS = 64
};

/* A unit is a run of chains, some rows of dw of a group, and some vectors of its channels. The number of runs and the
 * length of chains affect the result, so they depend only on the shape; limits of scratch are applied only to parts.
 * Scratch: the runs' sums, when there are several; then for each runner places, copies of x and dy, and sums. */
typedef struct bgi_lines_plan {
    int64_t images, rows;      /* size of a chain; all rows when it has several images */
    int64_t strips;            /* chains in an image; 1 when a chain has several images */
    int64_t chains;            /* chains of all images */
    int64_t height, width;     /* size of a copied image */
    int64_t vectors, lines;    /* vectors and lines of a unit */
    int64_t blocks;            /* runs of vectors of a group */
    int64_t row_blocks;        /* blocks of rows of a group */
    int64_t runs, sums_floats; /* sums_floats: size of a run's dw; 0 when there is only one run */
    int64_t units;
    int64_t place_floats, copy_floats, row_floats, part_floats;
    uint32_t parts, combines;
} bgi_lines_plan;

/* Chooses the rows and images of a chain and the size of its copies; returns false when even one row of results needs
 * too many floats. */
static inline bool bgi_lines_cut_chains(const bgi_conv *s, int64_t lanes, bgi_lines_plan *plan)
{
    const bg_conv2d_options *o = &s->options;
    const int64_t below = (s->kh - 1) * o->dilation[0] + 1, beside = (s->kw - 1) * o->dilation[1] + 1;
    int64_t most;

    plan->width = (s->ow - 1) * o->stride[1] + beside;
    most = (BGI_LINES_COPY_FLOATS / (plan->vectors * plan->width * lanes) - below) / o->stride[0] + 1;
    if (most < 1 || below * plan->width * plan->vectors * lanes > BGI_LINES_COPY_FLOATS)
        return false;
    plan->rows = BGI_LINES_POSITIONS / s->ow;
    plan->rows = plan->rows < 1 ? 1 : plan->rows;
    plan->rows = plan->rows < most ? plan->rows : most;
    plan->rows = plan->rows < s->oh ? plan->rows : s->oh;
    plan->strips = (s->oh + plan->rows - 1) / plan->rows;
    plan->rows = (s->oh + plan->strips - 1) / plan->strips;
    plan->strips = (s->oh + plan->rows - 1) / plan->rows;
    plan->height = (plan->rows - 1) * o->stride[0] + below;
    plan->images = 1;
    if (plan->strips == 1) {
        const int64_t fit = BGI_LINES_COPY_FLOATS / (plan->vectors * plan->height * plan->width * lanes);

        plan->images = BGI_LINES_POSITIONS / s->p;
        plan->images = plan->images < fit ? plan->images : fit;
        plan->images = plan->images < s->n ? plan->images : s->n;
        plan->images = plan->images < 1 ? 1 : plan->images;
    }
    plan->chains = (s->n + plan->images - 1) / plan->images * plan->strips;
    return true;
}

/* Cuts dw into units, and chains into runs where there are too few units. */
static inline void bgi_lines_cut_units(const bgi_conv *s, int64_t lanes, bgi_lines_plan *plan)
{
    const int64_t tile = BGI_GEMM_TILE_ROWS_OF(lanes), dw = bgi_cpu_round_up(s->o * s->k, 16);
    const int64_t wanted = bgi_cpu_part_count(BGI_GEMM_FEWEST_UNITS, bgi_direct_flops(s), BGI_GEMM_UNIT_FLOPS);
    const int64_t most_runs = BGI_CONV_SUMS / dw;
    int64_t most_rows = BGI_LINES_SUM_FLOATS / (plan->lines * lanes), columns;

    most_rows = most_rows < BGI_LINES_ROWS ? most_rows : BGI_LINES_ROWS;
    plan->blocks = (s->cg + plan->vectors * lanes - 1) / (plan->vectors * lanes);
    plan->row_blocks = (s->og + most_rows - 1) / most_rows;
    columns = s->options.groups * plan->blocks;
    plan->runs = wanted / (columns * plan->row_blocks);
    plan->runs = plan->runs < most_runs ? plan->runs : most_runs;
    plan->runs = plan->runs < plan->chains ? plan->runs : plan->chains;
    plan->runs = plan->runs < 1 ? 1 : plan->runs;
    while (columns * plan->row_blocks * plan->runs < wanted && s->og / (plan->row_blocks + 1) >= 2 * tile)
        plan->row_blocks++;
    plan->units = columns * plan->row_blocks * plan->runs;
    plan->sums_floats = plan->runs > 1 ? dw : 0;
}

/* Returns the largest number of rows of dw in a unit. */
static inline int64_t bgi_lines_unit_rows(const bgi_conv *s, const bgi_lines_plan *plan)
{
    return (s->og + plan->row_blocks - 1) / plan->row_blocks;
}

/* Plans the sums of dw; returns false if dw is computed in another way. */
static inline bool bgi_lines_weights(const bgi_conv *s, int64_t lanes, uint64_t limit_bytes, bgi_lines_plan *out)
{
    const int64_t tile = BGI_GEMM_TILE_ROWS_OF(lanes), all = (s->cg + lanes - 1) / lanes;
    bgi_lines_plan plan = {0};
    int64_t positions, sums;
    uint64_t fixed;

    if (s->cg < BGI_LINES_LEAST_CHANNELS || (bgi_conv_is_matrix(s) && s->p > BGI_LINES_MATRIX))
        return false;
    if (s->dtype != BG_FLOAT32 || s->og < tile || 4 * s->cg < 3 * all * lanes || s->taps > BGI_LINES_MOST_TAPS)
        return false;
    plan.vectors = (BGI_GEMM_PANEL_VECTORS + s->taps - 1) / s->taps; /* enough vectors for the lines of a whole tile */
    plan.vectors = plan.vectors < all ? plan.vectors : all;
    plan.lines = plan.vectors * s->taps;
    if (!bgi_lines_cut_chains(s, lanes, &plan))
        return false;
    bgi_lines_cut_units(s, lanes, &plan);
    positions = bgi_cpu_round_up(plan.images * plan.rows * s->ow, 16);
    sums = bgi_lines_unit_rows(s, &plan) * plan.lines * lanes;
    plan.place_floats = positions;
    plan.copy_floats = bgi_cpu_round_up(plan.vectors * plan.images * plan.height * plan.width * lanes, 16);
    plan.row_floats = tile * positions;
    plan.part_floats = plan.place_floats + plan.copy_floats + plan.row_floats + bgi_cpu_round_up(sums, 16);
    plan.combines = bgi_cpu_part_count(s->o, (double)(s->o * s->k * plan.runs), BGI_CONV_SUM_PART);
    fixed = (uint64_t)(plan.runs * plan.sums_floats) * sizeof(float);
    plan.parts = bgi_cpu_part_count(plan.units < BGI_LINES_MOST_PARTS ? plan.units : BGI_LINES_MOST_PARTS,
                                    bgi_direct_flops(s), BGI_GEMM_UNIT_FLOPS);
    plan.parts = bgi_gemm_fit_parts(plan.parts, plan.part_floats, limit_bytes > fixed ? limit_bytes - fixed : 0);
    *out = plan;
    return true;
}

static inline int64_t bgi_lines_scratch_floats(const bgi_lines_plan *plan)
{
    return plan->runs * plan->sums_floats + plan->parts * plan->part_floats;
}

#endif
