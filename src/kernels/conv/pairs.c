/*
 * pairs.c: how convolutions by products of pairs are divided into units and parts (pairs.h).
 */
#include "kernels/conv/pairs.h"

void bgi_pairs_find_window(const bgi_pairs_axis *a, int64_t from, int64_t end, int64_t first, int64_t last,
                           int64_t *low, int64_t *high)
{
    *low = INT64_MAX;
    *high = INT64_MIN;
    for (int64_t q = 0; q < a->phases; q++) {
        const int64_t begin = from <= q ? 0 : (from - q + a->phases - 1) / a->phases;
        const int64_t until = end <= q ? 0 : (end - 1 - q) / a->phases + 1;

        for (int64_t tap = first, offset; begin < until && tap < last; tap++) {
            if (!bgi_pairs_find_offset(a, q, tap, &offset))
                continue;
            if (begin * a->step + offset < *low)
                *low = begin * a->step + offset;
            if ((until - 1) * a->step + offset + 1 > *high)
                *high = (until - 1) * a->step + offset + 1;
        }
    }
    if (*low > *high)
        *low = *high = 0;
}

/* Returns the largest number of elements of a copy for `rows` rows of results and `depth_rows` rows of taps. */
static int64_t bgi_pairs_copy_elements(const bgi_conv_pairs *v, int64_t rows, int64_t depth_rows)
{
    const bgi_pairs_axis *a = v->axis;
    int64_t low, high, wide, end, most = 0;

    bgi_pairs_find_window(&a[1], 0, a[1].to, 0, a[1].taps, &wide, &end);
    for (int64_t from = 0; from < a[0].to; from += rows)
        for (int64_t tap = 0; tap < a[0].taps; tap += depth_rows) {
            const int64_t until = from + rows < a[0].to ? from + rows : a[0].to;
            const int64_t last = tap + depth_rows < a[0].taps ? tap + depth_rows : a[0].taps;

            bgi_pairs_find_window(&a[0], from, until, tap, last, &low, &high);
            most = high - low > most ? high - low : most;
        }
    return v->together * most * (end - wide) * v->even_terms;
}

static int64_t bgi_pairs_even_out(int64_t count, int64_t most)
{
    const int64_t blocks = (count + most - 1) / most;

    return (count + blocks - 1) / blocks;
}

/* Cuts the results into units. Of all sizes chosen here, only the number of runs affects the order of sums. */
static void bgi_conv_pairs_cut(bgi_conv_pairs *v, bool sums_positions, double flops)
{
    const int64_t columns = v->axis[1].to, plane = v->axis[0].to * columns, rows = v->axis[0].to;
    int64_t fit = BGI_CONV_PAIRS_POSITIONS / plane, wanted;

    v->depth_rows = sums_positions ? 1 : v->axis[0].taps;
    v->strip_rows = rows;
    v->together = fit < 1 ? 1 : fit < v->images ? fit : v->images;
    if (fit < 1) {
        fit = BGI_CONV_PAIRS_POSITIONS / columns;
        v->strip_rows = bgi_pairs_even_out(rows, fit < 1 ? 1 : fit < rows ? fit : rows);
    }
    while (v->together > 1 && bgi_pairs_copy_elements(v, v->strip_rows, v->depth_rows) > BGI_CONV_PAIRS_COPY)
        v->together = (v->together + 1) / 2;
    while (v->strip_rows > 1 && bgi_pairs_copy_elements(v, v->strip_rows, v->depth_rows) > BGI_CONV_PAIRS_COPY)
        v->strip_rows = (v->strip_rows + 1) / 2;
    v->together = bgi_pairs_even_out(v->images, v->together);
    while (sums_positions && 2 * v->depth_rows <= v->axis[0].taps &&
           bgi_pairs_copy_elements(v, v->strip_rows, 2 * v->depth_rows) <= BGI_CONV_PAIRS_COPY)
        v->depth_rows *= 2;
    v->strips = (rows + v->strip_rows - 1) / v->strip_rows;
    v->image_blocks = (v->images + v->together - 1) / v->together;
    v->units = v->groups * v->image_blocks * v->strips;
    wanted = bgi_cpu_part_count(BGI_GEMM_FEWEST_UNITS, flops, 2.0 * BGI_GEMM_UNIT_FLOPS);
    v->panel_blocks = (wanted + v->units - 1) / v->units;
    v->panel_blocks = v->panel_blocks < v->panels ? v->panel_blocks : v->panels;
    v->unit_panels = (v->panels + v->panel_blocks - 1) / v->panel_blocks;
    if (sums_positions && v->unit_panels > BGI_CONV_PAIRS_PANELS)
        v->unit_panels = BGI_CONV_PAIRS_PANELS;
    v->panel_blocks = (v->panels + v->unit_panels - 1) / v->unit_panels;
    v->units *= v->panel_blocks;
    v->runs = 1;
    if (sums_positions && v->units < wanted) {
        const int64_t floats = bgi_cpu_round_up(v->groups * v->to_group, 16);
        const int64_t most = BGI_CONV_SUMS / floats;

        v->runs = wanted / v->units;
        v->runs = v->runs < most ? v->runs : most;
        v->runs = v->runs < v->axis[0].taps ? v->runs : v->axis[0].taps;
        v->runs = v->runs < 1 ? 1 : v->runs;
        v->run_floats = v->runs > 1 ? floats : 0;
        v->units *= v->runs;
    }
}

static void bgi_conv_pairs_plan(bgi_conv_pairs *v, bool sums_positions, double flops, uint64_t limit_bytes)
{
    const int64_t taps = v->axis[0].taps * v->axis[1].taps;
    int64_t positions;
    uint64_t fixed;

    v->even_terms = bgi_cpu_round_up(v->terms, 2);
    v->width = v->lanes <= 16 ? 16 : v->lanes <= 32 ? 32 : BGI_PAIRS_PANEL;
    v->panels = (v->lanes + v->width - 1) / v->width;
    bgi_conv_pairs_cut(v, sums_positions, flops);
    /* after the results, there is memory for the unused rows of the last block */
    positions = bgi_cpu_round_up(v->together * v->strip_rows * v->axis[1].to + BGI_PAIRS_GATHERED, 16);
    v->filter_floats = bgi_cpu_round_up(v->groups * v->panels * taps * v->even_terms * v->width / 2, 16);
    v->copy_floats = bgi_cpu_round_up(bgi_pairs_copy_elements(v, v->strip_rows, v->depth_rows), 32) / 2;
    v->position_floats = positions * v->width;
    /* sums of all panels of a unit of dw, otherwise of one panel at a time; a panel's sums transposed; rows of A and
     * places of C */
    v->part_floats = v->copy_floats + (sums_positions ? v->unit_panels : 1) * v->position_floats + v->position_floats +
                     2 * positions;
    v->lays = bgi_cpu_part_count(v->groups * v->panels * v->even_terms / 2, 2.0 * (double)v->filter_floats,
                                 BGI_CONV_PAIRS_LAID_OUT);
    v->parts = bgi_cpu_part_count(v->units, flops, 2.0 * BGI_GEMM_UNIT_FLOPS);
    fixed = (uint64_t)(v->filter_floats + v->runs * v->run_floats) * sizeof(float);
    v->parts = bgi_gemm_fit_parts(v->parts, v->part_floats, limit_bytes > fixed ? limit_bytes - fixed : 0);
}

static double bgi_conv_pairs_flops(const bgi_conv *s)
{
    return 2.0 * (double)s->n * (double)s->o * (double)s->k * (double)s->p;
}

bgi_conv_pairs bgi_conv_pairs_forward(const bgi_conv *s, uint64_t limit_bytes)
{
    const bg_conv2d_options *o = &s->options;
    const int64_t plane = s->h * s->w;
    bgi_conv_pairs v = {.axis = {{s->oh, s->h, s->kh, o->dilation[0], o->padding[0], 1, o->stride[0], false},
                                 {s->ow, s->w, s->kw, o->dilation[1], o->padding[1], 1, o->stride[1], false}},
                        .groups = o->groups,
                        .images = s->n,
                        .terms = s->cg,
                        .lanes = s->og,
                        .image_stride = s->c * plane,
                        .term_stride = plane,
                        .group_stride = s->cg * plane,
                        .filter_lane = s->k,
                        .filter_term = s->taps,
                        .filter_group = s->og * s->k,
                        .to_image = s->o * s->p,
                        .to_lane = s->p,
                        .to_group = s->og * s->p};

    bgi_conv_pairs_plan(&v, false, bgi_conv_pairs_flops(s), limit_bytes);
    return v;
}

bgi_conv_pairs bgi_conv_pairs_input(const bgi_conv *s, uint64_t limit_bytes)
{
    const bg_conv2d_options *o = &s->options;
    const int64_t plane = s->h * s->w;
    bgi_conv_pairs v = {.axis = {{s->h, s->oh, s->kh, o->dilation[0], o->padding[0], o->stride[0], 1, true},
                                 {s->w, s->ow, s->kw, o->dilation[1], o->padding[1], o->stride[1], 1, true}},
                        .groups = o->groups,
                        .images = s->n,
                        .terms = s->og,
                        .lanes = s->cg,
                        .image_stride = s->o * s->p,
                        .term_stride = s->p,
                        .group_stride = s->og * s->p,
                        .filter_lane = s->taps,
                        .filter_term = s->k,
                        .filter_group = s->og * s->k,
                        .to_image = s->c * plane,
                        .to_lane = plane,
                        .to_group = s->cg * plane};

    bgi_conv_pairs_plan(&v, false, bgi_conv_pairs_flops(s), limit_bytes);
    return v;
}

bgi_conv_pairs bgi_conv_pairs_weights(const bgi_conv *s, uint64_t limit_bytes)
{
    const bg_conv2d_options *o = &s->options;
    const int64_t plane = s->h * s->w;
    bgi_conv_pairs v = {.axis = {{s->kh, s->h, s->oh, o->stride[0], o->padding[0], 1, o->dilation[0], false},
                                 {s->kw, s->w, s->ow, o->stride[1], o->padding[1], 1, o->dilation[1], false}},
                        .groups = o->groups,
                        .images = s->cg,
                        .terms = s->n,
                        .lanes = s->og,
                        .image_stride = plane,
                        .term_stride = s->c * plane,
                        .group_stride = s->cg * plane,
                        .filter_lane = s->p,
                        .filter_term = s->o * s->p,
                        .filter_group = s->og * s->p,
                        .to_image = s->taps,
                        .to_lane = s->k,
                        .to_group = s->og * s->k};

    bgi_conv_pairs_plan(&v, true, bgi_conv_pairs_flops(s), limit_bytes);
    return v;
}
