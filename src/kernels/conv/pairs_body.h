/*
 * pairs_body.h: convolutions by products of pairs. pairs.h describes the geometry and the order of sums.
 */
#ifndef BGI_KERNELS_CONV_PAIRS_BODY_H
#define BGI_KERNELS_CONV_PAIRS_BODY_H

#include "kernels/conv/pairs.h"
#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/transpose_body.h"
#include "kernels/linear/pairs_body.h"

enum { PAIRS_TAPS = 16 /* taps that are laid out together */ };

/* A unit, and the rows of taps for which the source is now copied. */
typedef struct pairs_unit {
    int64_t group, image, images, row, rows, panel, panels; /* first and number of each */
    int64_t tap, taps;                                      /* rows of taps */
    int64_t low[2], size[2];                                /* the copied places of each dim of the source */
    uint16_t *copy;
    float *sums, *transposed;
    int32_t *from, *places; /* offsets of rows of A, places of rows of C */
} pairs_unit;

/* Lays out a part of the filter: for each tap and pair of terms, the pairs of all lanes of a panel. */
static void lay_pairs_out(const bgi_conv_pairs *v, const uint16_t *filter, uint32_t part, uint16_t *to)
{
    const int64_t pairs = v->even_terms / 2, taps = v->axis[0].taps * v->axis[1].taps;
    const int64_t items = v->groups * v->panels * pairs;

    for (int64_t item = bgi_cpu_part_start(items, part, v->lays); item < bgi_cpu_part_start(items, part + 1, v->lays);
         item++) {
        const int64_t group = item / (v->panels * pairs), panel = item / pairs % v->panels, pair = item % pairs;
        const bool has_odd = 2 * pair + 1 < v->terms;
        uint16_t *out = to + ((item - pair) * taps + pair) * 2 * v->width;

        for (int64_t lane = panel * v->width, i = 0; lane < v->lanes && i < v->width; lane += TILE, i += TILE) {
            const int64_t lanes = v->lanes - lane;
            const uint16_t *from = filter + group * v->filter_group + lane * v->filter_lane + 2 * pair * v->filter_term;

            for (int64_t tap = 0; tap < taps; tap += PAIRS_TAPS) {
                __m512i r[TILE];

#pragma GCC unroll 16
                for (int64_t l = 0; l < TILE; l++) {
                    const uint16_t *even = from + l * v->filter_lane + tap;

                    r[l] = l < lanes ? pairs_join(even, even + v->filter_term, taps - tap, has_odd)
                                     : _mm512_setzero_si512();
                }
                pairs_transpose(r);
#pragma GCC unroll 16
                for (int64_t t = 0; t < PAIRS_TAPS; t++)
                    if (t < taps - tap)
                        _mm512_storeu_si512((void *)(out + ((tap + t) * pairs * v->width + i) * 2), r[t]);
            }
        }
    }
}

/* Copies the window of the source, with its padding: to[image][row][column][terms]. */
static void copy_pairs_source(const bgi_conv_pairs *v, const pairs_unit *u, const uint16_t *source)
{
    const int64_t width = v->axis[1].from, end = u->low[0] + u->size[0];
    const int64_t first = u->low[0] > 0 ? u->low[0] : 0, last = end < v->axis[0].from ? end : v->axis[0].from;
    const int64_t image_elements = u->size[0] * u->size[1] * v->even_terms;

    memset(u->copy, 0, (size_t)(u->images * image_elements) * sizeof *u->copy);
    for (int64_t i = 0; i < u->images; i++) {
        const uint16_t *from = source + u->group * v->group_stride + (u->image + i) * v->image_stride;
        uint16_t *to = u->copy + i * image_elements;

        for (int64_t p = first * width; p < last * width; p += TILE) {
            const int64_t places = last * width - p < TILE ? last * width - p : TILE;
            int64_t at[TILE], y = p / width - u->low[0], x = p % width;

            for (int64_t l = 0; l < TILE; l++) {
                const int64_t column = x - u->low[1];

                at[l] =
                    l < places && column >= 0 && column < u->size[1] ? (y * u->size[1] + column) * v->even_terms : -1;
                if (++x == width)
                    x = 0, y++;
            }
            for (int64_t k = 0; k < v->even_terms; k += BGI_PAIRS_TERMS) {
                const __mmask32 live = pairs_mask(v->even_terms - k);
                __m512i r[TILE];

                pairs_load(from + p, v->term_stride, 1, places, k, v->terms, r);
                if (v->term_stride != 1)
                    pairs_transpose(r);
#pragma GCC unroll 16
                for (int64_t l = 0; l < TILE; l++)
                    if (at[l] >= 0)
                        _mm512_mask_storeu_epi16(to + at[l] + k, live, r[l]);
            }
        }
    }
}

/* Lists the results of a phase: where their rows begin in the copy, without the taps' offsets, and in the sums. Returns
 * the number of rows, rounded up to whole blocks. */
static int64_t list_pairs_rows(const bgi_conv_pairs *v, const pairs_unit *u, const int64_t phase[2])
{
    const bgi_pairs_axis *rows = &v->axis[0], *columns = &v->axis[1];
    int64_t count = 0;

    for (int64_t i = 0; i < u->images; i++)
        for (int64_t y = 0; y < u->rows; y++) {
            const int64_t at = u->row + y, line = at / rows->phases * rows->step - u->low[0];

            if (at % rows->phases != phase[0])
                continue;
            for (int64_t x = phase[1]; x < columns->to; x += columns->phases, count++) {
                const int64_t column = x / columns->phases * columns->step - u->low[1];

                u->from[count] = (int32_t)(((i * u->size[0] + line) * u->size[1] + column) * v->even_terms);
                u->places[count] = (int32_t)(((i * u->rows + y) * columns->to + x) * v->width);
            }
        }
    for (int64_t i = count; i % BGI_PAIRS_GATHERED != 0;
         i++) { /* the last block's unused rows are stored after all results */
        u->from[i] = u->from[0];
        u->places[i] = (int32_t)(u->images * u->rows * columns->to * v->width);
    }
    return bgi_cpu_round_up(count, BGI_PAIRS_GATHERED);
}

/* Adds the products of segments, one block of terms after another. */
static void add_pairs_segments(const bgi_conv_pairs *v, bgi_pairs_gathered *g)
{
    const uint16_t *a = g->a, *b = g->b;

    for (int64_t k = 0; k < v->even_terms && g->segment_count > 0; k += g->terms) {
        g->terms = v->even_terms - k;
        if (g->segment_count == 1 && g->terms > BGI_CONV_PAIRS_DEPTH)
            g->terms = BGI_CONV_PAIRS_DEPTH;
        g->a = a + k;
        g->b = b + k * v->width;
        bgi_pairs_add_gathered_avx512bf16(g);
    }
    g->a = a;
    g->b = b;
    g->segment_count = 0;
}

/* Adds the products of the unit's taps, for the results of a phase, to the sums of a panel. */
static void add_pairs_taps(const bgi_conv_pairs *v, const pairs_unit *u, const int64_t phase[2], int64_t count,
                           const uint16_t *panel, int64_t lanes, float *sums)
{
    const int64_t most = BGI_CONV_PAIRS_DEPTH / v->even_terms, tap_elements = v->even_terms * v->width;
    bgi_pairs_segment segments[BGI_CONV_PAIRS_SEGMENTS];
    bgi_pairs_gathered g = {.a = u->copy,
                            .rows = u->from,
                            .segments = segments,
                            .b_width = v->width,
                            .c = sums,
                            .places = u->places,
                            .m = count,
                            .tiles = lanes > 2 * TILE ? 4
                                     : lanes > TILE   ? 2
                                                      : 1};

    for (int64_t ky = u->tap, row; ky < u->tap + u->taps; ky++) {
        if (!bgi_pairs_find_offset(&v->axis[0], phase[0], ky, &row))
            continue;
        for (int64_t kx = 0, column; kx < v->axis[1].taps; kx++) {
            const uint16_t *b = panel + (ky * v->axis[1].taps + kx) * tap_elements;

            if (!bgi_pairs_find_offset(&v->axis[1], phase[1], kx, &column))
                continue;
            if (g.segment_count == 0)
                g.b = b;
            segments[g.segment_count++] =
                (bgi_pairs_segment){(int32_t)((row * u->size[1] + column) * v->even_terms), (int32_t)(b - g.b)};
            if (g.segment_count >= most)
                add_pairs_segments(v, &g);
        }
    }
    add_pairs_segments(v, &g);
}

/* Writes the complete sums of a panel of lanes as `dtype` to `to`, or adds them. */
static void put_pairs(const bgi_conv_pairs *v, const pairs_unit *u, int64_t panel, const float *sums, bool add,
                      bg_dtype dtype, void *to)
{
    const int64_t run = u->rows * v->axis[1].to, positions = u->images * run, row = bgi_cpu_round_up(positions, 16);
    const int64_t lanes = v->lanes - panel * v->width < v->width ? v->lanes - panel * v->width : v->width;
    const bool is_one = u->images == 1 || run == v->to_image;

    transpose_matrix(sums, v->width, positions, lanes, u->transposed, row, row);
    for (int64_t lane = 0; lane < lanes; lane++)
        for (int64_t i = 0; i < (is_one ? 1 : u->images); i++)
            put_floats(add, dtype, to,
                       u->group * v->to_group + (u->image + i) * v->to_image + (panel * v->width + lane) * v->to_lane +
                           u->row * v->axis[1].to,
                       is_one ? positions : run, u->transposed + lane * row + i * run);
}

/* Sets the sums of a panel to the bias of its lanes, or to 0 without a bias. */
static void begin_pairs(const bgi_conv_pairs *v, const pairs_unit *u, int64_t panel, const uint16_t *bias, float *sums)
{
    const int64_t positions = u->images * u->rows * v->axis[1].to, left = v->lanes - panel * v->width;
    float first[BGI_PAIRS_PANEL] = {0};

    if (bias)
        widen(BG_BFLOAT16, bias + u->group * v->lanes + panel * v->width, left < v->width ? left : v->width, first);
    for (int64_t i = 0; i < positions; i++)
        memcpy(sums + i * v->width, first, (size_t)v->width * sizeof *sums);
}

/* Adds the products of the unit's rows of taps to the sums of panels first..end - 1, counted in the group. */
static void add_pairs_panels(const bgi_conv_pairs *v, const pairs_unit *u, const uint16_t *filter, int64_t first,
                             int64_t end, float *sums)
{
    const int64_t panel_elements = v->axis[0].taps * v->axis[1].taps * v->even_terms * v->width;
    int64_t phase[2];

    for (phase[0] = 0; phase[0] < v->axis[0].phases; phase[0]++)
        for (phase[1] = 0; phase[1] < v->axis[1].phases; phase[1]++) {
            const int64_t count = list_pairs_rows(v, u, phase);

            for (int64_t panel = first; panel < end && count > 0; panel++)
                add_pairs_taps(v, u, phase, count, filter + (u->group * v->panels + panel) * panel_elements,
                               v->lanes - panel * v->width, sums + (panel - first) * v->position_floats);
        }
}

static void copy_pairs_taps(const bgi_conv_pairs *v, pairs_unit *u, const uint16_t *source, int64_t tap, int64_t taps)
{
    int64_t end[2];

    u->tap = tap;
    u->taps = taps;
    bgi_pairs_find_window(&v->axis[0], u->row, u->row + u->rows, tap, tap + taps, &u->low[0], &end[0]);
    bgi_pairs_find_window(&v->axis[1], 0, v->axis[1].to, 0, v->axis[1].taps, &u->low[1], &end[1]);
    for (int dim = 0; dim < 2; dim++)
        u->size[dim] = end[dim] - u->low[dim];
    copy_pairs_source(v, u, source);
}

/* Finds the unit's images, rows and panels; returns its run. */
static int64_t find_pairs_unit(const bgi_conv_pairs *v, int64_t unit, float *scratch, pairs_unit *u)
{
    const int64_t panels = unit % v->panel_blocks, strip = unit / v->panel_blocks % v->strips;
    const int64_t images = unit / (v->panel_blocks * v->strips) % v->image_blocks;
    const int64_t group = unit / (v->panel_blocks * v->strips * v->image_blocks) % v->groups;

    *u = (pairs_unit){.group = group,
                      .image = images * v->together,
                      .row = strip * v->strip_rows,
                      .panel = panels * v->unit_panels,
                      .copy = (uint16_t *)scratch};
    u->images = v->images - u->image < v->together ? v->images - u->image : v->together;
    u->rows = v->axis[0].to - u->row < v->strip_rows ? v->axis[0].to - u->row : v->strip_rows;
    u->panels = v->panels - u->panel < v->unit_panels ? v->panels - u->panel : v->unit_panels;
    u->transposed = scratch + v->copy_floats;
    u->from = (int32_t *)(u->transposed + v->position_floats);
    u->places = u->from + v->position_floats / v->width;
    u->sums = (float *)(u->places + v->position_floats / v->width);
    return unit / (v->units / v->runs);
}

/* Computes units of the forward pass or of dx. */
static void convolve_pairs(const bg_kernel_call *call, uint32_t part, const bgi_conv_pairs *v, const uint16_t *source,
                           const uint16_t *bias, uint16_t *to)
{
    const uint16_t *filter = call->scratch;
    float *own = (float *)call->scratch + v->filter_floats + call->runner * v->part_floats;

    for (int64_t unit = bgi_cpu_part_start(v->units, part, v->parts);
         unit < bgi_cpu_part_start(v->units, part + 1, v->parts); unit++) {
        pairs_unit u;

        find_pairs_unit(v, unit, own, &u);
        copy_pairs_taps(v, &u, source, 0, v->axis[0].taps);
        for (int64_t panel = u.panel; panel < u.panel + u.panels; panel++) {
            begin_pairs(v, &u, panel, bias, u.sums);
            add_pairs_panels(v, &u, filter, panel, panel + 1, u.sums);
            put_pairs(v, &u, panel, u.sums, false, BG_BFLOAT16, to);
        }
    }
}

/* Computes units of dw or, with several runs, of the runs' sums, which add up to dw. */
static void convolve_pairs_weights(const bg_kernel_call *call, uint32_t part, const bgi_conv_pairs *v)
{
    const uint16_t *filter = call->scratch;
    float *runs = (float *)call->scratch + v->filter_floats;
    float *own = runs + v->runs * v->run_floats + call->runner * v->part_floats;

    for (int64_t unit = bgi_cpu_part_start(v->units, part, v->parts);
         unit < bgi_cpu_part_start(v->units, part + 1, v->parts); unit++) {
        pairs_unit u;
        const int64_t run = find_pairs_unit(v, unit, own, &u), rows = v->axis[0].taps;
        const int64_t end = rows * (run + 1) / v->runs;

        for (int64_t panel = 0; panel < u.panels; panel++)
            begin_pairs(v, &u, panel, NULL, u.sums + panel * v->position_floats);
        for (int64_t tap = rows * run / v->runs; tap < end; tap += v->depth_rows) {
            copy_pairs_taps(v, &u, call->operands[1], tap, end - tap < v->depth_rows ? end - tap : v->depth_rows);
            add_pairs_panels(v, &u, filter, u.panel, u.panel + u.panels, u.sums);
        }
        for (int64_t panel = 0; panel < u.panels; panel++) {
            const float *sums = u.sums + panel * v->position_floats;

            if (v->runs > 1)
                put_pairs(v, &u, u.panel + panel, sums, false, BG_FLOAT32, runs + run * v->run_floats);
            else
                put_pairs(v, &u, u.panel + panel, sums, bgi_call_adds(call), BG_BFLOAT16, call->operands[2]);
        }
    }
}

#endif
