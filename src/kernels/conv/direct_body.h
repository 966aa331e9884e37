/*
 * direct_body.h: convolutions without a matrix of patches. Geometry, and how an image is copied: direct.h.
 *
 * Forward, a tile is a few output channels by up to three vectors of results; for each term of their sums one weight of
 * each channel meets the vectors that lie at the term's place. For dw a tile is a few output channels by three terms:
 * sums run over all positions in lanes, which are added up at the end.
 */
#ifndef BGI_KERNELS_CONV_DIRECT_BODY_H
#define BGI_KERNELS_CONV_DIRECT_BODY_H

#include "kernels/conv/direct.h"
#include "kernels/linear/gemm_body.h"

/* ---- the copy ---- */

/* `count` places, `apart` floats from each other, of a row of `w` elements (NULL: zeros): place j is element
 * j step + first. */
static void copy_row(const float *row, int64_t w, int64_t first, int64_t step, int64_t count, int64_t apart, float *to)
{
    const int64_t begin = first < 0 ? (-first + step - 1) / step : 0;
    int64_t end = row == NULL || w - first <= 0 ? 0 : (w - first - 1) / step + 1, from = begin;

    end = end < count ? end : count;
    if (from >= end)
        from = end = 0;
    if (apart > 1) {
        for (int64_t j = 0; j < count; j++)
            to[j * apart] = j >= from && j < end ? row[j * step + first] : 0.0f;
        return;
    }
    for (int64_t j = 0; j < from; j++)
        to[j] = 0.0f;
    if (step == 1 && from < end)
        vcopy(row + from + first, end - from, to + from);
    else if (step == 2)
        for (int64_t j = from; j < end; j += LANES) {
            const int64_t live = end - j < LANES ? end - j : LANES;

            vstore_n(to + j, vload_apart(row, 2 * j + first, w, 2, live), live);
        }
    else
        for (int64_t j = from; j < end; j++)
            to[j] = row[j * step + first];
    for (int64_t j = end; j < count; j++)
        to[j] = 0.0f;
}

/* The channels from `x` on, for results from row `first` on. */
static void copy_image(const bgi_direct *d, const float *x, int64_t first, float *to)
{
    const int64_t side_rows = d->rows / d->side, places = d->width / d->side;

    for (int64_t c = 0; c < d->channels; c++, x += d->h * d->w)
        for (int64_t phase = 0; phase < d->step[0] * d->step[1]; phase++, to += d->height * d->width) {
            const int64_t fy = phase / d->step[1], fx = phase % d->step[1];

            if (!(d->phases[0] >> fy & 1u) || !(d->phases[1] >> fx & 1u))
                continue;
            for (int64_t i = 0; i < d->height; i++)
                for (int64_t side = 0; side < d->side; side++) {
                    const int64_t y = (first + side * side_rows + i) * d->step[0] + fy - d->padding[0];

                    copy_row(y < 0 || y >= d->h ? NULL : x + y * d->w, d->w, fx - d->padding[1], d->step[1], places,
                             d->side, to + i * d->width + side);
                }
        }
}

/* Where the taps of channel 0 are, and those of the others behind them. */
static void find_places(const bgi_conv *s, const bgi_direct *d, int32_t *places)
{
    for (int64_t k = 0; k < s->k; k++) {
        const int64_t y = k % s->taps / s->kw * s->options.dilation[0], x = k % s->kw * s->options.dilation[1];
        const int64_t phase = y % d->step[0] * d->step[1] + x % d->step[1];

        places[k] = (int32_t)(k / s->taps * d->plane + (phase * d->height + y / d->step[0]) * d->width +
                              x / d->step[1] * d->side);
    }
}

/* ---- forward ---- */

/* Where results go: rows and columns of a plane, and its sides. */
typedef struct direct_target {
    float *c;
    int64_t plane, row, column, side; /* strides */
} direct_target;

typedef struct direct_tile {
    const float *a;
    int64_t a_row;
    const int32_t *weights, *places; /* of the terms: from a row of A, and from a vector's first element, on */
    int64_t depth;
    const float *b[BGI_GEMM_PANEL_VECTORS];
    float *c[BGI_GEMM_PANEL_VECTORS]; /* of the first channel; element 0 of the row where results are scattered */
    int64_t live[BGI_GEMM_PANEL_VECTORS], first[BGI_GEMM_PANEL_VECTORS]; /* results; which of the row */
    int64_t c_row;
    const bgi_direct *direct;
    const direct_target *target; /* NULL: results lie side by side */
    const float *bias;           /* or NULL */
    bool add;
} direct_tile;

/* Results that do not lie side by side, or on several sides. */
static void scatter_results(const direct_tile *t, vf sum, int v, float *c)
{
    const int64_t side = t->direct->side;
    const int64_t column = t->target->column;
    float lanes[LANES];

    vstore(lanes, sum);
    if (side == 1) { /* mostly; divisions would take longer than all else here */
        c += t->first[v] * column;
        for (int64_t i = 0; i < t->live[v]; i++)
            c[i * column] = t->add ? c[i * column] + lanes[i] : lanes[i];
        return;
    }
    for (int64_t i = 0; i < t->live[v]; i++) {
        const int64_t place = t->first[v] + i;
        float *to = c + place / side * column + place % side * t->target->side;

        *to = t->add ? *to + lanes[i] : lanes[i];
    }
}

ALWAYS_INLINE void convolve_tile(const direct_tile *t, const int rows, const int vectors)
{
    const int64_t a_row = t->a_row;
    const float *a0 = t->a, *a3 = a0 + 3 * a_row, *a6 = a0 + 6 * a_row;
    const float *b0 = t->b[0], *b1 = vectors > 1 ? t->b[1] : b0, *b2 = vectors > 2 ? t->b[2] : b0;
    vf sum[TILE_ROWS][BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[r][v] = vset(0.0f);
    }
    for (int64_t k = 0; k < t->depth; k++) {
        const int64_t place = t->places[k], weight = t->weights[k];
        vf line[BGI_GEMM_PANEL_VECTORS];

        UNROLL
        for (int v = 0; v < vectors; v++)
            line[v] = vload((v == 0 ? b0 : v == 1 ? b1 : b2) + place);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vf x = vset((r < 3 ? a0 : r < 6 ? a3 : a6)[weight + r % 3 * a_row]);

            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vfma(x, line[v], sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *at = t->c[v] + r * t->c_row;

            if (t->target) {
                scatter_results(t, t->bias ? sum[r][v] + vset(t->bias[r]) : sum[r][v], v, at);
                continue;
            }
            if (t->add)
                sum[r][v] += vload_n(at, t->live[v]);
            if (t->bias)
                sum[r][v] += vset(t->bias[r]);
            vstore_n(at, sum[r][v], t->live[v]);
        }
    }
}

#define DIRECT_TILE(rows, vectors)                                                                                     \
    static void convolve_tile_##rows##_##vectors(const direct_tile *t)                                                 \
    {                                                                                                                  \
        convolve_tile(t, rows, vectors);                                                                               \
    }
#define DIRECT_TILES(rows) DIRECT_TILE(rows, 1) DIRECT_TILE(rows, 2) DIRECT_TILE(rows, 3)
#define DIRECT_TILE_NAMES(rows)                                                                                        \
    {                                                                                                                  \
        convolve_tile_##rows##_1, convolve_tile_##rows##_2, convolve_tile_##rows##_3                                   \
    }
DIRECT_TILES(1)
DIRECT_TILES(2)
DIRECT_TILES(3)
DIRECT_TILES(4)
#if TILE_ROWS == 8
DIRECT_TILES(5)
DIRECT_TILES(6)
DIRECT_TILES(7)
DIRECT_TILES(8)
#endif

static void (*const direct_table[TILE_ROWS][BGI_GEMM_PANEL_VECTORS])(const direct_tile *t) = {
    DIRECT_TILE_NAMES(1), DIRECT_TILE_NAMES(2), DIRECT_TILE_NAMES(3), DIRECT_TILE_NAMES(4),
#if TILE_ROWS == 8
    DIRECT_TILE_NAMES(5), DIRECT_TILE_NAMES(6), DIRECT_TILE_NAMES(7), DIRECT_TILE_NAMES(8),
#endif
};

/* `channels` planes of results, of `rows` rows of a side each, from the copy `image` with sums of k terms. */
typedef struct direct_job {
    const bgi_direct *direct;
    const direct_target *target;
    const float *image, *a, *bias;
    int64_t a_row, channels, rows, k;
    const int32_t *weights, *places;
} direct_job;

static void convolve_vectors(const direct_job *job, direct_tile tile, int64_t count)
{
    const int64_t tiles = (job->channels + TILE_ROWS - 1) / TILE_ROWS;
    const direct_tile first = tile;

    for (int64_t i = 0; i < tiles; i++) {
        const int64_t from = job->channels * i / tiles, to = job->channels * (i + 1) / tiles;

        tile.a = first.a + from * job->a_row;
        tile.bias = first.bias ? first.bias + from : NULL;
        for (int64_t v = 0; v < count; v++)
            tile.c[v] = first.c[v] + from * tile.c_row;
        direct_table[to - from - 1][count - 1](&tile);
    }
}

static void convolve(const direct_job *job)
{
    const bgi_direct *d = job->direct;
    const bool scatters = d->side > 1 || job->target->column > 1;
    const int64_t vectors = job->rows * d->vectors, depth = bgi_product_block(job->k);
    const int64_t runs = (vectors + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;

    for (int64_t k0 = 0; k0 < job->k; k0 += depth)
        for (int64_t run = 0; run < runs; run++) {
            const int64_t from = vectors * run / runs, to = vectors * (run + 1) / runs;
            direct_tile tile = {.a = job->a,
                                .a_row = job->a_row,
                                .weights = job->weights + k0,
                                .places = job->places + k0,
                                .depth = job->k - k0 < depth ? job->k - k0 : depth,
                                .c_row = job->target->plane,
                                .direct = d,
                                .target = scatters ? job->target : NULL,
                                .bias = k0 == 0 ? job->bias : NULL,
                                .add = k0 > 0};

            for (int64_t j = from; j < to; j++) {
                const int64_t row = j / d->vectors, first = j % d->vectors * LANES, left = d->columns * d->side - first;

                tile.b[j - from] = job->image + row * d->width + first;
                tile.first[j - from] = first;
                tile.live[j - from] = left < LANES ? left : LANES;
                tile.c[j - from] = job->target->c + row * job->target->row + (scatters ? 0 : first);
            }
            convolve_vectors(job, tile, to - from);
        }
}

static void convolve_forward(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct *d,
                             const bgi_direct_plan *plan)
{
    float *scratch = bgi_cpu_part_scratch(call, plan->part_floats), *image = scratch + plan->table_floats;
    int32_t *places = (int32_t *)(void *)scratch, *weights = places + s->k;
    const int64_t side_rows = d->rows / d->side;

    find_places(s, d, places);
    for (int64_t k = 0; k < s->k; k++)
        weights[k] = (int32_t)k;
    for (int64_t unit = bgi_cpu_part_start(plan->units, part, plan->parts);
         unit < bgi_cpu_part_start(plan->units, part + 1, plan->parts); unit++) {
        const int64_t batch = unit / plan->strips, group = batch % s->options.groups;
        const int64_t first = unit % plan->strips * plan->strip_rows, left = side_rows - first;
        const direct_target target = {.c = (float *)call->operands[call->input_count] + batch * s->og * s->p +
                                           first * s->ow,
                                      .plane = s->p,
                                      .row = s->ow,
                                      .column = 1,
                                      .side = side_rows * s->ow};
        const direct_job job = {.direct = d,
                                .target = &target,
                                .image = image,
                                .a = (const float *)call->operands[1] + group * s->og * s->k,
                                .bias = bgi_cpu_has_input(call, 2) ? (const float *)call->operands[2] + group * s->og
                                                                   : NULL,
                                .a_row = s->k,
                                .channels = s->og,
                                .rows = left < plan->strip_rows ? left : plan->strip_rows,
                                .k = s->k,
                                .weights = weights,
                                .places = places};

        if (left <= 0)
            continue;
        copy_image(d, (const float *)call->operands[0] + batch * s->cg * s->h * s->w, first, image);
        convolve(&job);
    }
}

/* ---- the gradient of the input ---- */

/* The terms of phase q of dx: weights of each output channel's taps, and where dy lies for them. */
static int64_t find_terms(const bgi_conv *s, const bgi_direct *d, const int64_t q[2], int32_t *weights, int32_t *places)
{
    int64_t count = 0;

    for (int64_t o = 0; o < s->og; o++)
        for (int64_t ky = 0; ky < s->kh; ky++)
            for (int64_t kx = 0; kx < s->kw; kx++) {
                if (!bgi_direct_has(s, 0, q[0], ky) || !bgi_direct_has(s, 1, q[1], kx))
                    continue;
                weights[count] = (int32_t)(o * s->k + ky * s->kw + kx);
                places[count++] =
                    (int32_t)(o * d->plane + (bgi_direct_place(s, 0, q[0], ky) + d->padding[0]) * d->width +
                              (bgi_direct_place(s, 1, q[1], kx) + d->padding[1]) * d->side);
            }
    return count;
}

static void convolve_backward(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct_plan *plan)
{
    float *scratch = bgi_cpu_part_scratch(call, plan->part_floats), *image = scratch + plan->table_floats;
    int32_t *places = (int32_t *)(void *)scratch, *weights = places + s->og * s->taps;

    for (int64_t unit = bgi_cpu_part_start(plan->units, part, plan->parts);
         unit < bgi_cpu_part_start(plan->units, part + 1, plan->parts); unit++) {
        const int64_t group = unit % s->options.groups;
        const float *dy = (const float *)call->operands[0] + unit * s->og * s->p;
        float *dx = (float *)call->operands[2] + unit * s->cg * s->h * s->w;
        int64_t q[2];

        if (s->options.stride[0] * s->options.stride[1] > 1) /* not every phase is reached */
            memset(dx, 0, (size_t)(s->cg * s->h * s->w) * sizeof(float));
        for (q[0] = 0; q[0] < s->options.stride[0]; q[0]++)
            for (q[1] = 0; q[1] < s->options.stride[1]; q[1]++) {
                const int64_t y = bgi_direct_first(s, 0, q[0]), x = bgi_direct_first(s, 1, q[1]);
                bgi_direct d;

                if (!bgi_direct_backward(s, q, LANES, &d))
                    continue;
                const direct_target target = {.c = dx + y * s->w + x,
                                              .plane = s->h * s->w,
                                              .row = s->options.stride[0] * s->w,
                                              .column = s->options.stride[1],
                                              .side = d.rows / d.side * s->options.stride[0] * s->w};
                const direct_job job = {.direct = &d,
                                        .target = &target,
                                        .image = image,
                                        .a = (const float *)call->operands[1] + group * s->og * s->k,
                                        .a_row = s->taps,
                                        .channels = s->cg,
                                        .rows = d.rows / d.side,
                                        .k = find_terms(s, &d, q, weights, places),
                                        .weights = weights,
                                        .places = places};

                copy_image(&d, dy, 0, image);
                convolve(&job);
            }
    }
}

/* ---- the gradient of the weights ---- */

typedef struct direct_sums {
    const float *dy, *x;
    int64_t dy_channel, dy_image, dy_line, x_image, x_line; /* strides */
    int64_t images, lines, columns;
    const int32_t *places;
    float *sums;
    int64_t sums_row;
} direct_sums;

ALWAYS_INLINE void sum_tile(const direct_sums *t, const int rows, const int terms)
{
    const int64_t channel = t->dy_channel;
    const int64_t place0 = t->places[0], place1 = terms > 1 ? t->places[1] : 0, place2 = terms > 2 ? t->places[2] : 0;
    vf sum[TILE_ROWS][BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int k = 0; k < terms; k++)
            sum[r][k] = vset(0.0f);
    }
    for (int64_t image = 0; image < t->images; image++) {
        const float *dy = t->dy + image * t->dy_image, *x = t->x + image * t->x_image;

        for (int64_t line = 0; line < t->lines; line++, dy += t->dy_line, x += t->x_line) {
            const float *d0 = dy, *d3 = dy + 3 * channel, *d6 = dy + 6 * channel;
            int64_t i = 0;

            for (; i + LANES <= t->columns; i += LANES) {
                vf at[BGI_GEMM_PANEL_VECTORS];

                UNROLL
                for (int k = 0; k < terms; k++)
                    at[k] = vload(x + i + (k == 0 ? place0 : k == 1 ? place1 : place2));
                UNROLL
                for (int r = 0; r < rows; r++) {
                    const vf d = vload((r < 3 ? d0 : r < 6 ? d3 : d6) + i + r % 3 * channel);

                    UNROLL
                    for (int k = 0; k < terms; k++)
                        sum[r][k] = vfma(d, at[k], sum[r][k]);
                }
            }
            if (i < t->columns) { /* what is behind them may be no number */
                vf at[BGI_GEMM_PANEL_VECTORS];

                UNROLL
                for (int k = 0; k < terms; k++)
                    at[k] = vload_n(x + i + (k == 0 ? place0 : k == 1 ? place1 : place2), t->columns - i);
                UNROLL
                for (int r = 0; r < rows; r++) {
                    const vf d = vload_n((r < 3 ? d0 : r < 6 ? d3 : d6) + i + r % 3 * channel, t->columns - i);

                    UNROLL
                    for (int k = 0; k < terms; k++)
                        sum[r][k] = vfma(d, at[k], sum[r][k]);
                }
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int k = 0; k < terms; k++)
            t->sums[r * t->sums_row + k] += vsum(sum[r][k]);
    }
}

#define SUM_TILE(rows, terms)                                                                                          \
    static void sum_tile_##rows##_##terms(const direct_sums *t)                                                        \
    {                                                                                                                  \
        sum_tile(t, rows, terms);                                                                                      \
    }
#define SUM_TILES(rows) SUM_TILE(rows, 1) SUM_TILE(rows, 2) SUM_TILE(rows, 3)
#define SUM_TILE_NAMES(rows)                                                                                           \
    {                                                                                                                  \
        sum_tile_##rows##_1, sum_tile_##rows##_2, sum_tile_##rows##_3                                                  \
    }
SUM_TILES(1)
SUM_TILES(2)
SUM_TILES(3)
SUM_TILES(4)
#if TILE_ROWS == 8
SUM_TILES(5)
SUM_TILES(6)
SUM_TILES(7)
SUM_TILES(8)
#endif

static void (*const weights_table[TILE_ROWS][BGI_GEMM_PANEL_VECTORS])(const direct_sums *t) = {
    SUM_TILE_NAMES(1), SUM_TILE_NAMES(2), SUM_TILE_NAMES(3), SUM_TILE_NAMES(4),
#if TILE_ROWS == 8
    SUM_TILE_NAMES(5), SUM_TILE_NAMES(6), SUM_TILE_NAMES(7), SUM_TILE_NAMES(8),
#endif
};

/* All of dw of one group, over some images. */
static void sum_images(const bgi_conv *s, direct_sums whole, const int32_t *places)
{
    const int64_t row_tiles = (s->og + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t term_tiles = (s->k + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;

    for (int64_t i = 0; i < row_tiles; i++)
        for (int64_t j = 0; j < term_tiles; j++) {
            const int64_t row = s->og * i / row_tiles, rows = s->og * (i + 1) / row_tiles - row;
            const int64_t term = s->k * j / term_tiles, terms = s->k * (j + 1) / term_tiles - term;
            direct_sums tile = whole;

            tile.dy += row * whole.dy_channel;
            tile.places = places + term;
            tile.sums += row * whole.sums_row + term;
            weights_table[rows - 1][terms - 1](&tile);
        }
}

/* dy of a group with its sides side by side, in lines of whole vectors. */
static void copy_sides(const bgi_conv *s, const bgi_direct *d, const float *dy, float *to)
{
    const int64_t lines = d->rows / d->side, line = d->vectors * LANES;

    for (int64_t o = 0; o < s->og; o++, dy += s->p, to += lines * line)
        for (int64_t i = 0; i < lines; i++)
            for (int64_t side = 0; side < d->side; side++)
                for (int64_t x = 0; x < s->ow; x++)
                    to[i * line + x * d->side + side] = dy[(side * lines + i) * s->ow + x];
}

static void sum_weights(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct *d,
                        const bgi_direct_weights_plan *plan)
{
    float *scratch = call->scratch, *sums = scratch + part * plan->sums_floats;
    float *own = scratch + plan->parts * plan->sums_floats + call->runner * plan->runner_floats;
    float *images = own + plan->table_floats, *sides = images + plan->image_floats;
    int32_t *places = (int32_t *)(void *)own;
    const int64_t end = bgi_cpu_part_start(s->n, part + 1, plan->parts), lines = d->rows / d->side;

    find_places(s, d, places);
    memset(sums, 0, (size_t)plan->sums_floats * sizeof(float));
    for (int64_t n = bgi_cpu_part_start(s->n, part, plan->parts); n < end; n += plan->together)
        for (int64_t group = 0; group < s->options.groups; group++) {
            const int64_t count = end - n < plan->together ? end - n : plan->together;
            const int64_t image = bgi_cpu_round_up(d->channels * d->plane, 16), channel = lines * d->vectors * LANES;
            const float *dy = (const float *)call->operands[0] + (n * s->o + group * s->og) * s->p;
            const bool copies = d->side > 1;

            for (int64_t i = 0; i < count; i++) {
                copy_image(d, (const float *)call->operands[1] + ((n + i) * s->c + group * s->cg) * s->h * s->w, 0,
                           images + i * image);
                if (copies)
                    copy_sides(s, d, dy + i * s->o * s->p, sides + i * s->og * channel);
            }
            sum_images(s,
                       (direct_sums){.dy = copies ? sides : dy,
                                     .x = images,
                                     .dy_channel = copies ? channel : s->p,
                                     .dy_image = copies ? s->og * channel : s->o * s->p,
                                     .dy_line = copies ? d->vectors * LANES : s->ow,
                                     .x_image = image,
                                     .x_line = d->width,
                                     .images = count,
                                     .lines = lines,
                                     .columns = d->columns * d->side,
                                     .sums = sums + group * s->og * s->k,
                                     .sums_row = s->k},
                       places);
        }
}

/* Rows from..end - 1 of dw: parts in order. */
static void add_part_sums(const bg_kernel_call *call, const bgi_conv *s, const bgi_direct_weights_plan *plan,
                          int64_t from, int64_t end)
{
    const float *sums = call->scratch;
    float *dw = call->operands[2];

    for (int64_t i = from * s->k; i < end * s->k; i += LANES) {
        const int64_t live = end * s->k - i < LANES ? end * s->k - i : LANES;
        vf total = vload_n(sums + i, live);

        for (uint32_t part = 1; part < plan->parts; part++)
            total += vload_n(sums + part * plan->sums_floats + i, live);
        vstore_n(dw + i, bgi_call_adds(call) ? vload_n(dw + i, live) + total : total, live);
    }
}

#endif
