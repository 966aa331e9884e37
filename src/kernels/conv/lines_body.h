/*
 * lines_body.h: the gradient of the weights with channels in lanes. lines.h describes the geometry.
 */
#ifndef BGI_KERNELS_CONV_LINES_BODY_H
#define BGI_KERNELS_CONV_LINES_BODY_H

#include "kernels/conv/lines.h"
#include "kernels/linear/gemm_body.h"

/* ---- a tile ---- */

typedef struct lines_tile {
    const float *dy; /* rows of dy, `row` floats apart */
    int64_t row, depth;
    const int32_t *places; /* places of x at each position */
    const float *x[BGI_GEMM_PANEL_VECTORS];
    float *sums; /* one vector for each line; rows are sums_row apart */
    int64_t sums_row;
    bool adds;
} lines_tile;

ALWAYS_INLINE void sum_lines(const lines_tile *t, const int rows, const int lines)
{
    const int64_t row = t->row;
    /* three rows of dy share a pointer: x86 addresses can add one or two strides to it */
    const float *d0 = t->dy, *d3 = d0 + 3 * row, *d6 = d0 + 6 * row;
    const float *x0 = t->x[0], *x1 = lines > 1 ? t->x[1] : x0, *x2 = lines > 2 ? t->x[2] : x0;
    vf sum[TILE_ROWS][BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int l = 0; l < lines; l++)
            sum[r][l] = vset(0.0f);
    }
    for (int64_t p = 0; p < t->depth; p++) {
        const int64_t place = t->places[p];
        vf at[BGI_GEMM_PANEL_VECTORS];

        UNROLL
        for (int l = 0; l < lines; l++)
            at[l] = vload((l == 0 ? x0 : l == 1 ? x1 : x2) + place);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vf d = vset((r < 3 ? d0 : r < 6 ? d3 : d6)[p + r % 3 * row]);

            UNROLL
            for (int l = 0; l < lines; l++)
                sum[r][l] = vfma(d, at[l], sum[r][l]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int l = 0; l < lines; l++) {
            float *to = t->sums + r * t->sums_row + l * LANES;

            vstore(to, t->adds ? vload(to) + sum[r][l] : sum[r][l]);
        }
    }
}

#define LINES_TILE(rows, lines)                                                                                        \
    static void sum_lines_##rows##_##lines(const lines_tile *t)                                                        \
    {                                                                                                                  \
        sum_lines(t, rows, lines);                                                                                     \
    }
#define LINES_TILES(rows) LINES_TILE(rows, 1) LINES_TILE(rows, 2) LINES_TILE(rows, 3)
#define LINES_TILE_NAMES(rows)                                                                                         \
    {                                                                                                                  \
        sum_lines_##rows##_1, sum_lines_##rows##_2, sum_lines_##rows##_3                                               \
    }
LINES_TILES(1)
LINES_TILES(2)
LINES_TILES(3)
LINES_TILES(4)
#if TILE_ROWS == 8
LINES_TILES(5)
LINES_TILES(6)
LINES_TILES(7)
LINES_TILES(8)
#endif

static void (*const lines_table[TILE_ROWS][BGI_GEMM_PANEL_VECTORS])(const lines_tile *t) = {
    LINES_TILE_NAMES(1), LINES_TILE_NAMES(2), LINES_TILE_NAMES(3), LINES_TILE_NAMES(4),
#if TILE_ROWS == 8
    LINES_TILE_NAMES(5), LINES_TILE_NAMES(6), LINES_TILE_NAMES(7), LINES_TILE_NAMES(8),
#endif
};

/* ---- a chain ---- */

/* A runner's memory: places of positions, copies, rows of dy, sums. */
typedef struct lines_scratch {
    int32_t *places;
    float *copies, *rows, *sums;
} lines_scratch;

static lines_scratch cut_lines_scratch(const bgi_lines_plan *plan, float *from)
{
    return (lines_scratch){.places = (int32_t *)(void *)from,
                           .copies = from + plan->place_floats,
                           .rows = from + plan->place_floats + plan->copy_floats,
                           .sums = from + plan->place_floats + plan->copy_floats + plan->row_floats};
}

/* Finds the places of a chain's positions in a copy. A chain with fewer positions uses the first places. */
static void find_line_places(const bgi_conv *s, const bgi_lines_plan *plan, int32_t *places)
{
    for (int64_t image = 0; image < plan->images; image++)
        for (int64_t y = 0; y < plan->rows; y++)
            for (int64_t x = 0; x < s->ow; x++)
                *places++ = (int32_t)(((image * plan->height + y * s->options.stride[0]) * plan->width +
                                       x * s->options.stride[1]) *
                                      LANES);
}

/* Copies the rows that are read for results from row `first` on, of `channels` channels of an image from x on. */
static void copy_lines(const bgi_conv *s, const bgi_lines_plan *plan, const float *x, int64_t channels, int64_t first,
                       float *to)
{
    const int64_t padding = s->options.padding[1], left = padding < plan->width ? padding : plan->width;
    const int64_t count = s->w < plan->width - left ? s->w : plan->width - left, right = plan->width - left - count;

    for (int64_t row = 0; row < plan->height; row++, to += plan->width * LANES) {
        const int64_t y = first * s->options.stride[0] + row - s->options.padding[0];

        if (y < 0 || y >= s->h) {
            memset(to, 0, (size_t)(plan->width * LANES) * sizeof(float));
            continue;
        }
        memset(to, 0, (size_t)(left * LANES) * sizeof(float));
        transpose_matrix(x + y * s->w, s->h * s->w, channels, count, to + left * LANES, LANES, LANES);
        memset(to + (left + count) * LANES, 0, (size_t)(right * LANES) * sizeof(float));
    }
}

/* The content of a unit: rows `row`.. of dw of a group, and its channels from `channel` on. */
typedef struct lines_unit {
    int64_t run, group, row, rows, channel, channels, lines;
} lines_unit;

static lines_unit find_lines_unit(const bgi_conv *s, const bgi_lines_plan *plan, int64_t unit)
{
    const int64_t of_group = plan->row_blocks * plan->blocks, of_run = of_group * s->options.groups;
    const int64_t row_block = unit % of_group / plan->blocks, row = s->og * row_block / plan->row_blocks;
    const int64_t channel = unit % plan->blocks * plan->vectors * LANES, left = s->cg - channel;
    const int64_t channels = left < plan->vectors * LANES ? left : plan->vectors * LANES;

    return (lines_unit){.run = unit / of_run,
                        .group = unit % of_run / of_group,
                        .row = row,
                        .rows = s->og * (row_block + 1) / plan->row_blocks - row,
                        .channel = channel,
                        .channels = channels,
                        .lines = (channels + LANES - 1) / LANES * s->taps};
}

/* Returns the offset in the copies at which line `line` reads for the first position. */
static int64_t find_line(const bgi_conv *s, const bgi_lines_plan *plan, int64_t line)
{
    const int64_t vector = line / s->taps, tap = line % s->taps;
    const int64_t y = tap / s->kw * s->options.dilation[0], x = tap % s->kw * s->options.dilation[1];

    return (vector * plan->images * plan->height * plan->width + y * plan->width + x) * LANES;
}

/* Adds a chain to the sums of a unit; the first chain sets them. dy and x are those of the chain's first image. */
static void sum_chain(const bgi_conv *s, const bgi_lines_plan *plan, const lines_unit *u, const lines_scratch *own,
                      const float *dy, const float *x, int64_t images, int64_t first_row, bool adds)
{
    const int64_t rows = s->oh - first_row < plan->rows ? s->oh - first_row : plan->rows, of_image = rows * s->ow;
    const int64_t image_floats = plan->height * plan->width * LANES;
    const int64_t row_tiles = (u->rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t line_tiles = (u->lines + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;

    for (int64_t c = 0; c < u->channels; c += LANES)
        for (int64_t i = 0; i < images; i++)
            copy_lines(s, plan, x + (i * s->c + c) * s->h * s->w, u->channels - c < LANES ? u->channels - c : LANES,
                       first_row, own->copies + (c / LANES * plan->images + i) * image_floats);
    for (int64_t i = 0; i < row_tiles; i++) {
        const int64_t row = u->rows * i / row_tiles, count = u->rows * (i + 1) / row_tiles - row;
        lines_tile tile = {.dy = own->rows,
                           .row = images * of_image,
                           .depth = images * of_image,
                           .places = own->places,
                           .sums_row = plan->lines * LANES,
                           .adds = adds};

        /* a copy, because rows of dy are often a multiple of 4 KB apart and would evict each other from the cache */
        for (int64_t r = 0; r < count; r++)
            for (int64_t image = 0; image < images; image++)
                vcopy(dy + (image * s->o + row + r) * s->p + first_row * s->ow, of_image,
                      own->rows + r * tile.row + image * of_image);
        for (int64_t j = 0; j < line_tiles; j++) {
            const int64_t line = u->lines * j / line_tiles, lines = u->lines * (j + 1) / line_tiles - line;

            for (int64_t l = 0; l < lines; l++)
                tile.x[l] = own->copies + find_line(s, plan, line + l);
            tile.sums = own->sums + row * tile.sums_row + line * LANES;
            lines_table[count - 1][lines - 1](&tile);
        }
    }
}

/* ---- a unit ---- */

/* Stores a unit's sums in dw, in the order of dw, or adds them to dw. */
static void store_lines(const bgi_conv *s, const bgi_lines_plan *plan, const lines_unit *u, const lines_scratch *own,
                        float *dw, bool adds)
{
    for (int64_t row = 0; row < u->rows; row++)
        for (int64_t c = 0; c < u->channels; c += LANES) {
            const float *sums = own->sums + (row * plan->lines + c / LANES * s->taps) * LANES;
            const int64_t channels = u->channels - c < LANES ? u->channels - c : LANES;
            float *to = dw + (u->row + row) * s->k + (u->channel + c) * s->taps, turned[LANES * BGI_LINES_MOST_TAPS];

            if (s->taps == 1) {
                vcopy(sums, channels, turned);
            } else {
                transpose_matrix(sums, LANES, s->taps, channels, turned, s->taps, s->taps);
            }
            for (int64_t i = 0; i < channels * s->taps; i += LANES) {
                const int64_t left = channels * s->taps - i, live = left < LANES ? left : LANES;
                const vf total = vload_n(turned + i, live);

                vstore_n(to + i, adds ? vload_n(to + i, live) + total : total, live);
            }
        }
}

/* Sums the units of a part. With several runs, their sums are stored in scratch, otherwise in dw. */
static void sum_lines_of_part(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_lines_plan *plan)
{
    float *const all = call->scratch;
    const lines_scratch own =
        cut_lines_scratch(plan, all + plan->runs * plan->sums_floats + call->runner * plan->part_floats);

    find_line_places(s, plan, own.places);
    for (int64_t unit = bgi_cpu_part_start(plan->units, part, plan->parts);
         unit < bgi_cpu_part_start(plan->units, part + 1, plan->parts); unit++) {
        const lines_unit u = find_lines_unit(s, plan, unit);
        const int64_t first = plan->chains * u.run / plan->runs, end = plan->chains * (u.run + 1) / plan->runs;
        float *const dw = plan->runs > 1 ? all + u.run * plan->sums_floats : call->operands[2];

        for (int64_t chain = first; chain < end; chain++) {
            const int64_t image = chain / plan->strips * plan->images, left = s->n - image;

            sum_chain(s, plan, &u, &own,
                      (const float *)call->operands[0] + (image * s->o + u.group * s->og + u.row) * s->p,
                      (const float *)call->operands[1] + (image * s->c + u.group * s->cg + u.channel) * s->h * s->w,
                      left < plan->images ? left : plan->images, chain % plan->strips * plan->rows, chain > first);
        }
        store_lines(s, plan, &u, &own, dw + u.group * s->og * s->k, plan->runs == 1 && bgi_call_adds(call));
    }
}

#endif
