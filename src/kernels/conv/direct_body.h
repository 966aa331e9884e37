/*
 * direct_body.h: convolutions without a matrix of patches. direct.h describes the geometry and the copies of channels.
 *
 * In the forward pass a tile is a few output channels by up to three vectors of results. For each term of the sums, one
 * weight of each channel multiplies the vectors at the term's place. For dw a tile is a few output channels by three
 * terms: sums run over all positions in lanes, which are added at the end.
 */
#ifndef BGI_KERNELS_CONV_DIRECT_BODY_H
#define BGI_KERNELS_CONV_DIRECT_BODY_H

#include "kernels/conv/direct.h"
#include "kernels/linear/gemm_body.h"

/* ---- tables ---- */

/* A runner's tables of a convolution: the places of a channel's taps and of a block's terms, and masks of the places of
 * copies that are inside the image; also memory for the phases of a channel. */
typedef struct direct_tables {
    int32_t *taps, *places, *masks, *whole_masks;
    float *phases;
} direct_tables;

static inline int64_t floor_of(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Assigns memory of `scratch` to the tables, for blocks of at most `terms` terms, and makes the masks of rows. */
static direct_tables make_tables(const bgi_direct *d, int64_t terms, float *scratch)
{
    const int64_t count = d->taps[0] * d->taps[1], masks = d->taps[1] * (d->columns + LANES);
    const int64_t whole = d->taps[1] * bgi_direct_mask_floats(d, LANES);
    int32_t *const taps = (int32_t *)(void *)scratch;
    const direct_tables tables = {taps, taps + count, taps + count + terms, taps + count + terms + masks,
                                  scratch + bgi_cpu_round_up(count + terms + masks + whole, 16)};

    if (bgi_direct_shifts(d))
        for (int64_t j = 0; j < d->taps[1]; j++)
            for (int64_t i = 0; i < d->columns + LANES; i++) {
                const int64_t column = i % d->columns + floor_of(d->offsets[j], d->step[1]);

                tables.masks[j * (d->columns + LANES) + i] = column >= 0 && column < d->columns ? -1 : 0;
            }
    return tables;
}

/* Returns the number of used phases before phase f. */
static inline int64_t phase_index(const bgi_direct *d, int64_t f)
{
    return __builtin_popcount(d->phases & ((1u << f) - 1u));
}

/* Returns where column j of the filter reads: an offset in the only copy, or the beginning of that column's copy, which
 * has `height` rows. */
static inline int64_t find_column(const bgi_direct *d, int64_t j, int64_t height)
{
    return d->margin > 0 ? d->margin + d->offsets[j] : j * height * d->columns;
}

/* Finds the places of the taps of a forward convolution, in the order of its weights. */
static void find_taps(const bgi_conv *s, const bgi_direct *d, int64_t rows, int32_t *taps)
{
    const int64_t height = rows + d->reach;

    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx++) {
            const int64_t y = ky * s->options.dilation[0], phase = phase_index(d, y % d->step[0]);

            *taps++ = (int32_t)(find_column(d, kx, d->phase_count * height) +
                                (phase * height + y / d->step[0]) * bgi_direct_pitch(d));
        }
}

/* Finds the places of the taps that reach phase q of dx, in the order of the weights. */
static void find_taps_backward(const bgi_conv *s, const bgi_direct *d, const int64_t q[2], int64_t rows, int32_t *taps)
{
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0, j = 0; kx < s->kw && bgi_direct_has(s, 0, q[0], ky); kx++)
            if (bgi_direct_has(s, 1, q[1], kx))
                *taps++ = (int32_t)(find_column(d, j++, rows + d->reach) +
                                    (bgi_direct_place(s, 0, q[0], ky) + d->padding) * bgi_direct_pitch(d));
}

/* Finds the places of terms from..from + count - 1, in copies that begin with channel from / taps. */
static void find_places(const bgi_direct *d, int64_t plane, int64_t from, int64_t count, const direct_tables *tables)
{
    const int64_t taps = d->taps[0] * d->taps[1];
    int64_t tap = from % taps, channel = 0;

    for (int64_t i = 0; i < count; i++) {
        tables->places[i] = (int32_t)(channel + tables->taps[tap]);
        if (++tap == taps) {
            tap = 0;
            channel += plane;
        }
    }
}

/* ---- copies ---- */

/* The places of a row of a copy for one column of the filter: for begin <= i < end, place i is element i step + first
 * of a row of `w` elements. Other places are outside the image. */
typedef struct direct_row {
    int64_t first, step, w, begin, end, count;
} direct_row;

static direct_row find_row(const bgi_direct *d, int64_t j)
{
    direct_row row = {.first = d->offsets[j], .step = d->step[1], .w = d->w, .count = d->columns};

    row.begin = row.first < 0 ? (-row.first + row.step - 1) / row.step : 0;
    row.end = row.w - row.first <= 0 ? 0 : (row.w - row.first - 1) / row.step + 1;
    row.end = row.end < row.count ? row.end : row.count;
    if (row.begin >= row.end)
        row.begin = row.end = 0;
    return row;
}

/* Copies a row from x, or zeros when x is NULL. */
static void copy_row(const direct_row *row, const float *x, float *to)
{
    const int64_t begin = x == NULL ? 0 : row->begin, end = x == NULL ? 0 : row->end;

    for (int64_t j = 0; j < begin; j++)
        to[j] = 0.0f;
    if (row->step == 1 && begin < end)
        vcopy(x + begin + row->first, end - begin, to + begin);
    else if (row->step == 2)
        for (int64_t j = begin; j < end; j += LANES) {
            const int64_t live = end - j < LANES ? end - j : LANES;

            vstore_n(to + j, vload_apart(x, 2 * j + row->first, row->w, 2, live), live);
        }
    else
        for (int64_t j = begin; j < end; j++)
            to[j] = x[j * row->step + row->first];
    for (int64_t j = end; j < row->count; j++)
        to[j] = 0.0f;
}

/* A copy of a phase, of `size` floats: begin..end - 1 are the phase's floats from begin + shift on, masked; the others
 * are zero. `head` is the place of the first whole vector of the copy. masks[column] is the mask of place `head`, and
 * head_masks[0] that of place `begin`. */
typedef struct direct_shift {
    int64_t phase, shift, size, begin, head, end;
    int64_t column, turn, columns; /* the column of `head`; and the distance of vectors, modulo the columns */
    const int32_t *masks, *head_masks;
    bool is_whole; /* no column is masked */
} direct_shift;

/* Describes copies of column j of the filter and phase f of rows, in rows first..first + height - 1. */
static direct_shift find_shift(const bgi_direct *d, int64_t j, int64_t f, int64_t first, int64_t height,
                               const int32_t *masks)
{
    const int64_t x = floor_of(d->offsets[j], d->step[1]), y = floor_of(f - d->padding, d->step[0]), w = d->columns;
    const int64_t qx = d->offsets[j] - x * d->step[1], qy = f - d->padding - y * d->step[0];
    direct_shift s = {.phase = (qy * d->step[1] + qx) * bgi_direct_phase_floats(d),
                      .shift = (first + y) * w + x,
                      .size = height * w,
                      .turn = LANES % w,
                      .columns = w,
                      .masks = masks + j * (w + LANES),
                      .is_whole = x == 0};
    const int64_t left = (d->h - qy + d->step[0] - 1) / d->step[0] * w - s.shift;

    s.begin = s.shift < 0 ? (-s.shift < s.size ? -s.shift : s.size) : 0;
    s.end = left < s.begin ? s.begin : left < s.size ? left : s.size;
    s.head = bgi_cpu_round_up(s.begin, LANES);
    s.head = s.head < s.end ? s.head : s.end;
    s.head_masks = s.masks + s.begin % w;
    s.column = s.head % w;
    return s;
}

static inline void copy_masked(const float *x, int64_t count, const int32_t *masks, float *to)
{
    vstore_n(to, (vf)((vi)vload_n(x, count) & vload_int(masks)), count);
}

/* Makes a shifted copy. Zeros before and after the phase's floats are stored as whole vectors, of which the last one
 * may reach beyond the copy: there the next copy, or other writable memory, follows. Stores are aligned to cache lines
 * if `to` is. */
static void copy_shifted(const direct_shift *shift, const float *x, float *to)
{
    const direct_shift s = *shift; /* a local copy, so that fields are not read again after each store */
    int64_t p, column = s.column;

    for (p = 0; p < s.begin; p += LANES)
        vstore(to + p, vset(0.0f));
    x += s.shift;
    if (s.begin < s.head)
        copy_masked(x + s.begin, s.head - s.begin, s.head_masks, to + s.begin);
    p = s.head;
    if (s.is_whole) {
        for (; p + LANES <= s.end; p += LANES)
            vstore(to + p, vload(x + p));
        column = 0;
    } else if (s.turn == 0) {
        const vi mask = vload_int(s.masks + column);

        for (; p + LANES <= s.end; p += LANES)
            vstore(to + p, (vf)((vi)vload(x + p) & mask));
    }
    for (; p + LANES <= s.end; p += LANES) {
        vstore(to + p, (vf)((vi)vload(x + p) & vload_int(s.masks + column)));
        column += s.turn;
        column -= column >= s.columns ? s.columns : 0;
    }
    if (p < s.end)
        copy_masked(x + p, s.end - p, s.masks + column, to + p);
    for (p = s.end; p < s.size; p += LANES)
        vstore(to + p, vset(0.0f));
}

/* Copies that have a mask for each place: one shift for each column of the filter. Their vectors begin every LANES
 * places, but the last one ends where a copy does, so that stores stay inside. */
typedef struct direct_masked {
    direct_shift shifts[BGI_DIRECT_MOST_COLUMNS];
    int32_t *masks;        /* masks of the vectors of a copy, one copy after another */
    int64_t size, vectors; /* of a copy */
} direct_masked;

static int64_t find_masked_vector(const direct_masked *masked, int64_t vector)
{
    const int64_t last = masked->size - LANES, place = vector * LANES;

    return place < last ? place : last;
}

/* Describes the copies for results in rows first..first + rows - 1, and makes their masks. */
static void find_masked(const bgi_direct *d, int64_t first, int64_t rows, const direct_tables *tables,
                        direct_masked *out)
{
    int32_t *mask = tables->whole_masks;

    out->masks = mask;
    out->size = (rows + d->reach) * d->columns;
    out->vectors = (out->size + LANES - 1) / LANES;
    for (int64_t j = 0; j < d->taps[1]; j++) {
        direct_shift *const s = &out->shifts[j];

        *s = find_shift(d, j, 0, first, rows + d->reach, tables->masks);
        for (int64_t v = 0; v < out->vectors; v++)
            for (int64_t p = find_masked_vector(out, v), end = p + LANES; p < end; p++)
                *mask++ = p >= s->begin && p < s->end ? s->masks[p % s->columns] : 0;
    }
}

/* Copies channels first..end - 1 for column j of the filter; places outside the image read other channels. */
static void copy_masked_vectors(const direct_masked *masked, int64_t j, const float *x, int64_t floats, int64_t first,
                                int64_t end, int64_t plane, float *to)
{
    for (int64_t v = 0; v < masked->vectors; v++) {
        const int64_t place = find_masked_vector(masked, v);
        const vi mask = vload_int(masked->masks + (j * masked->vectors + v) * LANES);

        for (int64_t c = first; c < end; c++)
            vstore(to + c * plane + place, (vf)((vi)vload(x + (c * floats + masked->shifts[j].shift + place)) & mask));
    }
}

/* Copies channels first..end - 1 with copy_shifted, which may store zeros beyond the last copy. */
static void copy_unmasked(const bgi_direct *d, const direct_masked *masked, const float *x, int64_t first, int64_t end,
                          float *to)
{
    for (int64_t c = first; c < end; c++)
        for (int64_t j = 0; j < d->taps[1]; j++)
            copy_shifted(&masked->shifts[j], x + c * d->h * d->w, to + (c * d->taps[1] + j) * masked->size);
}

/* Copies `channels` channels from `x` on. The first and the last channels are copied with copy_shifted, because memory
 * before and after all channels may not be readable. */
static void copy_masked_channels(const bgi_direct *d, const direct_masked *masked, const float *x, int64_t channels,
                                 float *to)
{
    const int64_t floats = d->h * d->w;
    int64_t first = 0, end = channels;

    for (int64_t j = 0; j < d->taps[1]; j++) {
        const int64_t shift = masked->shifts[j].shift, before = shift < 0 ? (-shift + floats - 1) / floats : 0;
        const int64_t left = channels * floats - shift - masked->size, until = left < 0 ? 0 : left / floats + 1;

        first = before > first ? before : first;
        end = until < end ? until : end;
    }
    if (first >= end) {
        copy_unmasked(d, masked, x, 0, channels, to);
        return;
    }
    copy_unmasked(d, masked, x, 0, first, to);
    copy_unmasked(d, masked, x, end, channels, to);
    for (int64_t j = 0; j < d->taps[1]; j++)
        copy_masked_vectors(masked, j, x, floats, first, end, d->taps[1] * masked->size, to + j * masked->size);
}

/* Splits a row by columns: column x becomes column x / step of row x % step; these rows are `apart` floats apart. */
static void part_row(const float *row, int64_t w, int64_t step, int64_t columns, int64_t apart, float *to)
{
    for (int64_t i = 0; step == 2 && i < columns; i += LANES) {
        const int64_t left = w - 2 * i, live = columns - i < LANES ? columns - i : LANES;
        vf even, odd;

        if (left >= 2 * LANES)
            vdeinterleave(vload(row + 2 * i), vload(row + 2 * i + LANES), &even, &odd);
        else
            vdeinterleave(vload_n(row + 2 * i, left < LANES ? left : LANES),
                          left > LANES ? vload_n(row + 2 * i + LANES, left - LANES) : vset(0.0f), &even, &odd);
        vstore_n(to + i, even, live);
        vstore_n(to + apart + i, odd, live);
    }
    for (int64_t q = 0; step != 2 && q < step; q++)
        for (int64_t i = 0; i < columns; i++)
            to[q * apart + i] = i * step + q < w ? row[i * step + q] : 0.0f;
}

/* Copies those rows of a channel's phases that rows first..first + height - 1 of copies need. */
static void part_channel(const bgi_direct *d, const float *x, int64_t first, int64_t height, float *phases)
{
    const int64_t floats = bgi_direct_phase_floats(d), top = first * d->step[0] - d->padding;
    const int64_t from = top < 0 ? 0 : top, bottom = top + (height + 1) * d->step[0];
    int64_t q = from % d->step[0], row = from / d->step[0];

    for (int64_t y = from; y < bottom && y < d->h; y++) {
        part_row(x + y * d->w, d->w, d->step[1], d->columns, floats,
                 phases + q * d->step[1] * floats + row * d->columns);
        if (++q == d->step[0]) {
            q = 0;
            row++;
        }
    }
}

/* Copies `channels` channels from `x` on, for results in rows first..first + rows - 1; their phases are as wide as rows
 * of results. */
static void copy_phases(const bgi_direct *d, const float *x, int64_t channels, int64_t first, int64_t rows,
                        const direct_tables *tables, float *to)
{
    const int64_t height = rows + d->reach;
    const bool parts = bgi_direct_parts(d);
    direct_shift shifts[BGI_DIRECT_MOST_COLUMNS * BGI_DIRECT_MOST_STRIDE];
    int64_t count = 0;

    for (int64_t j = 0; j < d->taps[1]; j++)
        for (int64_t f = 0; f < d->step[0]; f++)
            if (d->phases >> f & 1u)
                shifts[count++] = find_shift(d, j, f, first, height, tables->masks);
    for (int64_t c = 0; c < channels; c++, x += d->h * d->w) {
        if (parts)
            part_channel(d, x, first, height, tables->phases);
        for (int64_t i = 0; i < count; i++, to += height * d->columns)
            copy_shifted(&shifts[i], parts ? tables->phases + shifts[i].phase : x, to);
    }
}

/* Copies `channels` channels from `x` on, for results in rows first..first + rows - 1. */
static void copy_channels(const bgi_direct *d, const float *x, int64_t channels, int64_t first, int64_t rows,
                          const direct_tables *tables, float *to)
{
    const int64_t height = rows + d->reach;
    direct_row places[BGI_DIRECT_MOST_COLUMNS];

    if (bgi_direct_shifts(d)) {
        copy_phases(d, x, channels, first, rows, tables, to);
        return;
    }
    for (int64_t j = 0; j < d->taps[1]; j++)
        places[j] = find_row(d, j);
    for (int64_t c = 0; c < channels; c++, x += d->h * d->w)
        for (int64_t j = 0; j < d->taps[1]; j++)
            for (int64_t f = 0; f < d->step[0]; f++)
                for (int64_t i = 0; i < height && (d->phases >> f & 1u); i++, to += d->columns) {
                    const int64_t y = (first + i) * d->step[0] + f - d->padding;

                    copy_row(&places[j], y < 0 || y >= d->h ? NULL : x + y * d->w, to);
                }
}

/* ---- laying weights out ---- */

/* Lays out the weights of tiles first..end - 1 of a group, in tiles of [terms][TILE_ROWS]. */
static void lay_weights_out(const bgi_conv *s, const float *w, int64_t first, int64_t end, float *to)
{
    const int64_t tiles = bgi_direct_tiles(s->og, LANES);

    for (int64_t i = first; i < end; i++) {
        const int64_t from = s->og * i / tiles, count = s->og * (i + 1) / tiles - from;

        transpose_matrix(w + from * s->k, s->k, count, s->k, to + i * TILE_ROWS * s->k, TILE_ROWS, TILE_ROWS);
    }
}

/* The rows and columns of the filter whose taps reach phase q of dx: every step-th from `first` on. */
typedef struct phase_taps {
    int64_t first[2], step[2];
} phase_taps;

static phase_taps find_phase_taps(const bgi_conv *s, const int64_t q[2])
{
    phase_taps taps;

    for (int dim = 0; dim < 2; dim++) {
        int64_t first = 0, next;

        while (!bgi_direct_has(s, dim, q[dim], first))
            first++;
        for (next = first + 1; !bgi_direct_has(s, dim, q[dim], next);)
            next++;
        taps.first[dim] = first;
        taps.step[dim] = next - first;
    }
    return taps;
}

/* Lays out `count` channels of the weights of one channel of dy: the taps that reach a phase of dx. */
ALWAYS_INLINE void lay_taps_out(const bgi_conv *s, const phase_taps *taps, const float *w, const int64_t count,
                                float *to)
{
    for (int64_t ky = taps->first[0]; ky < s->kh; ky += taps->step[0])
        for (int64_t kx = taps->first[1]; kx < s->kw; kx += taps->step[1], to += TILE_ROWS) {
            const float *at = w + ky * s->kw + kx;

            for (int64_t r = 0; r < count; r++, at += s->taps)
                to[r] = *at;
        }
}

/* Lays out tiles first..end - 1 of the weights of a group for a phase q of dx that some taps reach. Terms are output
 * channels, then the `of_channel` taps of each. All tiles are laid out for a few output channels at a time, because
 * weights of an output channel are adjacent. */
static void lay_phase_out(const bgi_conv *s, const int64_t q[2], int64_t of_channel, const float *w, int64_t first,
                          int64_t end, float *to)
{
    const int64_t tiles = bgi_direct_tiles(s->cg, LANES);
    const phase_taps taps = find_phase_taps(s, q);

    for (int64_t some = 0; some < s->og; some += BGI_DIRECT_LAID_CHANNELS)
        for (int64_t i = first; i < end; i++) {
            const int64_t from = s->cg * i / tiles, count = s->cg * (i + 1) / tiles - from;
            const int64_t until = s->og - some < BGI_DIRECT_LAID_CHANNELS ? s->og : some + BGI_DIRECT_LAID_CHANNELS;

            for (int64_t o = some; o < until; o++) {
                const float *at = w + o * s->k + from * s->taps;
                float *laid = to + (i * s->og + o) * of_channel * TILE_ROWS;

                if (s->taps == 1 && count == TILE_ROWS)
                    memcpy(laid, at, TILE_ROWS * sizeof(float));
                else if (count == TILE_ROWS)
                    lay_taps_out(s, &taps, at, TILE_ROWS, laid);
                else
                    lay_taps_out(s, &taps, at, count, laid);
            }
        }
}

/* Finds the tiles *first..*end - 1 of group `group` that a part lays out; each group has `tiles` tiles. */
static void find_laid_tiles(int64_t groups, int64_t group, int64_t tiles, uint32_t part, uint32_t parts, int64_t *first,
                            int64_t *end)
{
    *first = bgi_cpu_part_start(groups * tiles, part, parts) - group * tiles;
    *end = bgi_cpu_part_start(groups * tiles, part + 1, parts) - group * tiles;
    *first = *first < 0 ? 0 : *first;
    *end = *end < tiles ? *end : tiles;
}

/* ---- forward ---- */

/* Steps on complete results: batch norm for each channel, then a sum, then a relu. */
typedef struct conv_steps {
    const float *mean, *scale, *shift; /* one for each channel; or NULL */
    const float *other, *y;            /* the operand that is added, of y's shape, or NULL; and all results */
    bool is_relu;
} conv_steps;

/* The operations after a convolution: steps, which are applied in registers if possible, and a function of one element,
 * which is applied to `count` adjacent results while they are in the cache. */
typedef struct conv_finish {
    conv_steps steps;
    void (*map)(const void *source, int64_t count, float *y); /* or NULL */
    const void *source;
} conv_finish;

/* A channel's mean, scale and shift for the steps. */
typedef struct channel_steps {
    vf mean, scale, shift;
} channel_steps;

ALWAYS_INLINE channel_steps find_channel_steps(const conv_steps *s, int64_t channel)
{
    const bool norms = s->mean != NULL;

    return (channel_steps){vset(norms ? s->mean[channel] : 0.0f), vset(norms ? s->scale[channel] : 0.0f),
                           vset(norms ? s->shift[channel] : 0.0f)};
}

/* Applies the steps to the first `live` lanes, which are the results at y. */
ALWAYS_INLINE vf take_steps(const conv_steps *s, const channel_steps *c, const float *y, int64_t live, vf value)
{
    if (s->mean)
        value = vfma(value - c->mean, c->scale, c->shift);
    if (s->other)
        value += vload_n(s->other + (y - s->y), live);
    return s->is_relu ? vselect(vgreater(vset(0.0f), value), vset(0.0f), value) : value; /* NaN stays */
}

/* Applies all following operations to `count` adjacent stored results of one channel. */
static void finish_stored(const conv_finish *finish, int64_t channel, int64_t count, float *y)
{
    const channel_steps c = find_channel_steps(&finish->steps, channel);

    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t live = count - i < LANES ? count - i : LANES;

        vstore_n(y + i, take_steps(&finish->steps, &c, y + i, live, vload_n(y + i, live)), live);
    }
    if (finish->map)
        finish->map(finish->source, count, y);
}

typedef struct direct_tile {
    const float *a; /* laid out */
    const int32_t *places;
    int64_t depth;
    const float *b[BGI_GEMM_PANEL_VECTORS];
    float *c[BGI_GEMM_PANEL_VECTORS]; /* results of the first channel */
    int64_t live[BGI_GEMM_PANEL_VECTORS];
    int64_t c_row;
    const float *bias; /* or NULL */
    bool add;
    const conv_steps *steps; /* steps on complete results, or NULL; and the results' first channel */
    int64_t channel;
} direct_tile;

ALWAYS_INLINE void convolve_tile(const direct_tile *t, const int rows, const int vectors)
{
    const float *a = t->a;
    const float *b0 = t->b[0], *b1 = vectors > 1 ? t->b[1] : b0, *b2 = vectors > 2 ? t->b[2] : b0;
    vf sum[TILE_ROWS][BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = vset(0.0f);
            __builtin_prefetch(t->c[v] + r * t->c_row, 1, 3); /* the line arrives before the sums are complete */
        }
    }
    for (int64_t k = 0; k < t->depth; k++, a += TILE_ROWS) {
        const int64_t place = t->places[k];
        vf line[BGI_GEMM_PANEL_VECTORS];

        UNROLL
        for (int v = 0; v < vectors; v++)
            line[v] = vload((v == 0 ? b0 : v == 1 ? b1 : b2) + place);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vf x = vset(a[r]);

            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vfma(x, line[v], sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        channel_steps steps = {0};

        if (t->steps)
            steps = find_channel_steps(t->steps, t->channel + r);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *at = t->c[v] + r * t->c_row;

            if (t->add)
                sum[r][v] += vload_n(at, t->live[v]);
            if (t->bias)
                sum[r][v] += vset(t->bias[r]);
            if (t->steps)
                sum[r][v] = take_steps(t->steps, &steps, at, t->live[v], sum[r][v]);
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

/* Tiles first..end - 1 of the results of some images, in some rows. */
typedef struct direct_job {
    const bgi_direct *direct;
    const float *x;
    int64_t x_image, images; /* strides between images are in floats */
    int64_t first_row, rows;
    const float *a; /* weights of all tiles, laid out */
    int64_t results, first, end;
    float *y; /* results of the first tile */
    int64_t y_image, y_plane;
    const float *bias;         /* bias of all results, or NULL */
    const conv_finish *finish; /* or NULL */
    int64_t channel;           /* channel of the first of all tiles */
    direct_tables tables;
    float *copies;
} direct_job;

/* Convolves one block of terms for a run of at most three vectors and tiles first..end - 1. */
static void convolve_run(const direct_job *job, direct_tile tile, int64_t k0, int64_t first, int64_t end, int64_t count)
{
    const int64_t terms = bgi_direct_terms(job->direct), tiles = bgi_direct_tiles(job->results, LANES);
    const int64_t begin = job->results * job->first / tiles;
    const direct_tile all = tile;

    for (int64_t i = first; i < end; i++) {
        const int64_t from = job->results * i / tiles, to = job->results * (i + 1) / tiles;

        tile.a = job->a + (i * terms + k0) * TILE_ROWS;
        tile.bias = job->bias && k0 == 0 ? job->bias + from : NULL;
        for (int64_t v = 0; v < count; v++)
            tile.c[v] = all.c[v] + (from - begin) * tile.c_row;
        tile.steps = job->finish && k0 + tile.depth == terms ? &job->finish->steps : NULL;
        tile.channel = job->channel + from;
        direct_table[to - from - 1][count - 1](&tile);
        for (int64_t r = 0; tile.steps && job->finish->map && r < to - from; r++)
            for (int64_t v = 0; v < count; v++)
                job->finish->map(job->finish->source, tile.live[v], tile.c[v] + r * tile.c_row);
    }
}

/* Copies `channels` channels from `x` on, for results in rows first..first + rows - 1, with margins. */
static void copy_with_margins(const bgi_direct *d, const float *x, int64_t channels, int64_t first, int64_t rows,
                              float *to)
{
    for (int64_t c = 0; c < channels; c++, x += d->h * d->w) {
        for (int64_t i = 0; i < rows + d->reach; i++, to += bgi_direct_pitch(d)) {
            const int64_t y = first + i - d->padding;

            vstore(to, vset(0.0f));
            if (y >= 0 && y < d->h)
                vcopy(x + y * d->w, d->w, to + d->margin);
            else
                for (int64_t p = 0; p < d->w; p += LANES)
                    vstore(to + d->margin + p, vset(0.0f));
        }
        vstore(to, vset(0.0f));
        to += d->margin;
    }
}

/* Convolves one block of `depth` terms from term k0 on; `masked` may be NULL. */
static void convolve_block(const direct_job *job, const direct_masked *masked, int64_t k0, int64_t depth)
{
    const bgi_direct *d = job->direct;
    const int64_t taps = d->taps[0] * d->taps[1], plane = bgi_direct_plane(d, job->rows);
    const int64_t channel = k0 / taps, channels = (k0 + depth - 1) / taps + 1 - channel;
    const int64_t of_image = bgi_direct_vectors(d, job->rows, LANES), vectors = job->images * of_image;
    const int64_t runs = (vectors + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;
    const int64_t most = BGI_DIRECT_CHUNK_FLOATS / (depth * TILE_ROWS), chunk = most < 1 ? 1 : most;

    for (int64_t i = 0; i < job->images; i++) {
        const float *x = job->x + i * job->x_image + channel * d->h * d->w;
        float *copies = job->copies + i * channels * plane;

        if (d->margin > 0)
            copy_with_margins(d, x, channels, job->first_row, job->rows, copies);
        else if (masked)
            copy_masked_channels(d, masked, x, channels, copies);
        else
            copy_channels(d, x, channels, job->first_row, job->rows, &job->tables, copies);
    }
    find_places(d, plane, k0, depth, &job->tables);
    for (int64_t tile0 = job->first; tile0 < job->end; tile0 += chunk)
        for (int64_t run = 0; run < runs; run++) {
            const int64_t from = vectors * run / runs, to = vectors * (run + 1) / runs;
            direct_tile tile = {.places = job->tables.places, .depth = depth, .c_row = job->y_plane, .add = k0 > 0};

            for (int64_t j = from; j < to; j++) {
                const int64_t image = j / of_image, p = j % of_image * LANES, left = job->rows * d->columns - p;

                tile.b[j - from] = job->copies + image * channels * plane + p + p / d->columns * d->margin;
                tile.c[j - from] = job->y + image * job->y_image + p;
                tile.live[j - from] = left < LANES ? left : LANES;
            }
            convolve_run(job, tile, k0, tile0, job->end < tile0 + chunk ? job->end : tile0 + chunk, to - from);
        }
}

static void convolve(const direct_job *job)
{
    const int64_t terms = bgi_direct_terms(job->direct), depth = bgi_product_block(terms);
    const bool has_masks = bgi_direct_mask_floats(job->direct, LANES) > 0;
    direct_masked masked;

    if (has_masks)
        find_masked(job->direct, job->first_row, job->rows, &job->tables, &masked);
    for (int64_t k0 = 0; k0 < terms; k0 += depth)
        convolve_block(job, has_masks ? &masked : NULL, k0, terms - k0 < depth ? terms - k0 : depth);
}

/* The images, rows and tiles of a unit of a plan. */
typedef struct direct_unit {
    int64_t image, images, group, first_row, rows, first, end; /* tiles first..end - 1 */
} direct_unit;

static direct_unit find_unit(const bgi_conv *s, const bgi_direct_plan *plan, int64_t all_rows, int64_t channels,
                             int64_t unit)
{
    const int64_t tiles = bgi_direct_tiles(channels, LANES), chunk = unit % plan->chunks;
    const int64_t strip = unit / plan->chunks % plan->strips, batch = unit / (plan->chunks * plan->strips);
    direct_unit found = {.image = batch / s->options.groups * plan->together,
                         .group = batch % s->options.groups,
                         .first_row = strip * plan->strip_rows,
                         .first = tiles * chunk / plan->chunks,
                         .end = tiles * (chunk + 1) / plan->chunks};

    found.images = s->n - found.image < plan->together ? s->n - found.image : plan->together;
    found.rows = all_rows - found.first_row < plan->strip_rows ? all_rows - found.first_row : plan->strip_rows;
    return found;
}

static void lay_forward_out(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct *d,
                            uint32_t parts)
{
    const int64_t floats = bgi_direct_weights_floats(d, s->og, LANES);

    for (int64_t group = 0; group < s->options.groups; group++) {
        int64_t first, end;

        find_laid_tiles(s->options.groups, group, bgi_direct_tiles(s->og, LANES), part, parts, &first, &end);
        lay_weights_out(s, (const float *)call->operands[1] + group * s->og * s->k, first, end,
                        (float *)call->scratch + group * floats);
    }
}

static void convolve_forward(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct *d,
                             const bgi_direct_plan *plan, const conv_finish *finish)
{
    const float *weights = call->scratch;
    float *own = (float *)call->scratch + plan->weights_floats + call->runner * plan->part_floats;
    const int64_t tiles = bgi_direct_tiles(s->og, LANES), floats = bgi_direct_weights_floats(d, s->og, LANES);
    const direct_tables tables = make_tables(d, BGI_PRODUCT_BLOCK, own);

    for (int64_t unit = bgi_cpu_part_start(plan->units, part, plan->parts);
         unit < bgi_cpu_part_start(plan->units, part + 1, plan->parts); unit++) {
        const direct_unit u = find_unit(s, plan, d->rows, s->og, unit);
        const int64_t batch = u.image * s->options.groups + u.group;

        find_taps(s, d, u.rows, tables.taps);
        convolve(&(direct_job){.direct = d,
                               .x = (const float *)call->operands[0] + batch * s->cg * s->h * s->w,
                               .x_image = s->c * s->h * s->w,
                               .images = u.images,
                               .first_row = u.first_row,
                               .rows = u.rows,
                               .a = weights + u.group * floats,
                               .results = s->og,
                               .first = u.first,
                               .end = u.end,
                               .y = (float *)call->operands[call->input_count] +
                                    (batch * s->og + s->og * u.first / tiles) * s->p + u.first_row * s->ow,
                               .y_image = s->o * s->p,
                               .y_plane = s->p,
                               .bias = bgi_cpu_has_input(call, 2) ? (const float *)call->operands[2] + u.group * s->og
                                                                  : NULL,
                               .finish = finish,
                               .channel = u.group * s->og,
                               .tables = tables,
                               .copies = own + plan->table_floats});
    }
}

/* ---- the gradient of the input ---- */

/* Phase (qy, qx) of dx: whether taps reach it, its convolution, and the place of its weights. */
typedef struct direct_phase {
    int64_t q[2];
    bgi_direct direct;
    bool is_reached;
    int64_t weights, group_weights; /* floats before the first group's weights, and from one group's to the next */
} direct_phase;

/* Returns phase (qy, qx) of dx. The weights of phases are stored row by row of phases; *weights is the offset of this
 * phase's weights, and is advanced to the next phase's. */
static direct_phase find_phase(const bgi_conv *s, int64_t qy, int64_t qx, int64_t *weights)
{
    direct_phase phase = {.q = {qy, qx}, .weights = *weights};

    phase.is_reached = bgi_direct_backward(s, phase.q, &phase.direct);
    if (phase.is_reached)
        phase.group_weights = bgi_direct_weights_floats(&phase.direct, s->cg, LANES);
    *weights += phase.group_weights * s->options.groups;
    return phase;
}

static void lay_backward_out(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, uint32_t parts)
{
    int64_t weights = 0;

    for (int64_t qy = 0; qy < s->options.stride[0]; qy++)
        for (int64_t qx = 0; qx < s->options.stride[1]; qx++) {
            const direct_phase phase = find_phase(s, qy, qx, &weights);

            for (int64_t group = 0; group < s->options.groups && phase.is_reached; group++) {
                int64_t first, end;

                find_laid_tiles(s->options.groups, group, bgi_direct_tiles(s->cg, LANES), part, parts, &first, &end);
                lay_phase_out(s, phase.q, phase.direct.taps[0] * phase.direct.taps[1],
                              (const float *)call->operands[1] + group * s->og * s->k, first, end,
                              (float *)call->scratch + phase.weights + group * phase.group_weights);
            }
        }
}

/* Interleaves the rows of phases to a row of dx; a phase that is NULL gives zeros. */
static void join_row(const bgi_conv *s, const float *const *phases, float *row)
{
    const int64_t stride = s->options.stride[1];

    if (stride == 1) {
        vcopy(phases[0], s->w, row);
    } else if (stride == 2) {
        const int64_t even = bgi_direct_first(s, 1, 0) == 0 ? 0 : 1, counts[2] = {(s->w + 1) / 2, s->w / 2};
        const float *from[2] = {phases[even], phases[1 - even]};

        for (int64_t i = 0; i < counts[0]; i += LANES) {
            vf part[2], low, high;

            for (int which = 0; which < 2; which++) {
                const int64_t left = counts[which] - i;

                part[which] =
                    from[which] && left > 0 ? vload_n(from[which] + i, left < LANES ? left : LANES) : vset(0.0f);
            }
            vinterleave(part[0], part[1], &low, &high);
            vstore_n(row + 2 * i, low, s->w - 2 * i < LANES ? s->w - 2 * i : LANES);
            if (s->w - 2 * i > LANES)
                vstore_n(row + 2 * i + LANES, high, s->w - 2 * i < 2 * LANES ? s->w - 2 * i - LANES : LANES);
        }
    } else {
        for (int64_t q = 0; q < stride; q++)
            for (int64_t x = bgi_direct_first(s, 1, q), i = 0; x < s->w; x += stride, i++)
                row[x] = phases[q] ? phases[q][i] : 0.0f;
    }
}

/* Stores the rows of phases (qy, ...) in dx, from `spread`, or zeros for phases that no tap reaches, for `images`
 * images and `channels` channels from dx on. */
static void join_rows(const bgi_conv *s, int64_t qy, const float *const *spread, int64_t images, int64_t channels,
                      float *dx)
{
    const int64_t first = bgi_direct_first(s, 0, qy), rows = bgi_direct_count(s, 0, qy);

    for (int64_t image = 0; image < images; image++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < rows; i++) {
                const float *from[BGI_DIRECT_MOST_STRIDE] = {NULL};

                for (int64_t q = 0; q < s->options.stride[1]; q++)
                    if (spread[q])
                        from[q] = spread[q] + ((image * channels + c) * rows + i) * bgi_direct_count(s, 1, q);
                if (bgi_direct_spreads(s) && s->options.stride[1] == 1 && from[0] == NULL)
                    memset(dx + ((image * s->c + c) * s->h + first + i * s->options.stride[0]) * s->w, 0,
                           (size_t)s->w * sizeof(float));
                else
                    join_row(s, from, dx + ((image * s->c + c) * s->h + first + i * s->options.stride[0]) * s->w);
            }
}

/* Computes one phase for a unit, into dx if the phase is the only one, otherwise into `spread`. */
static void convolve_phase(const bg_kernel_call *call, const bgi_conv *s, const direct_phase *phase,
                           const direct_unit *u, float *own, int64_t table_floats, float *spread)
{
    const int64_t tiles = bgi_direct_tiles(s->cg, LANES), batch = u->image * s->options.groups + u->group;
    const int64_t channel = s->cg * u->first / tiles, channels = s->cg * u->end / tiles - channel;
    const int64_t positions = phase->direct.rows * phase->direct.columns;
    const int64_t rows = bgi_direct_spreads(s) ? phase->direct.rows : u->rows;
    const direct_tables tables = make_tables(&phase->direct, BGI_PRODUCT_BLOCK, own);
    direct_job job = {.direct = &phase->direct,
                      .x = (const float *)call->operands[0] + batch * s->og * s->p,
                      .x_image = s->o * s->p,
                      .images = u->images,
                      .first_row = u->first_row,
                      .rows = rows,
                      .a = (const float *)call->scratch + phase->weights + u->group * phase->group_weights,
                      .results = s->cg,
                      .first = u->first,
                      .end = u->end,
                      .y = spread,
                      .y_image = channels * positions,
                      .y_plane = positions,
                      .tables = tables,
                      .copies = own + table_floats};

    if (!bgi_direct_spreads(s)) {
        job.y = (float *)call->operands[2] + (batch * s->cg + channel) * s->h * s->w + u->first_row * s->w;
        job.y_image = s->c * s->h * s->w;
        job.y_plane = s->h * s->w;
    }
    find_taps_backward(s, &phase->direct, phase->q, rows, tables.taps);
    convolve(&job);
}

static void convolve_backward(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct_plan *plan)
{
    float *own = (float *)call->scratch + plan->weights_floats + call->runner * plan->part_floats;
    float *spread = own + plan->table_floats + plan->copy_floats;
    const int64_t stride = s->options.stride[1], tiles = bgi_direct_tiles(s->cg, LANES);

    for (int64_t unit = bgi_cpu_part_start(plan->units, part, plan->parts);
         unit < bgi_cpu_part_start(plan->units, part + 1, plan->parts); unit++) {
        const direct_unit u = find_unit(s, plan, s->h, s->cg, unit);
        const int64_t channel = s->cg * u.first / tiles, channels = s->cg * u.end / tiles - channel;
        int64_t weights = 0;

        for (int64_t qy = 0; qy < s->options.stride[0]; qy++) {
            const float *reached[BGI_DIRECT_MOST_STRIDE] = {NULL};

            for (int64_t qx = 0; qx < stride; qx++) {
                direct_phase phase = find_phase(s, qy, qx, &weights);
                float *to = spread + qx * (plan->spread_floats / stride);

                if (!phase.is_reached)
                    continue;
                bgi_direct_take_margin(&phase.direct, LANES);
                convolve_phase(call, s, &phase, &u, own, plan->table_floats, to);
                reached[qx] = to;
            }
            if (bgi_direct_spreads(s))
                join_rows(s, qy, reached, u.images, channels,
                          (float *)call->operands[2] +
                              ((u.image * s->options.groups + u.group) * s->cg + channel) * s->h * s->w);
        }
    }
}

/* ---- the gradient of the weights ---- */

/* Sums over some strips, each of `positions` adjacent positions, of products of dy and x at each term's place. */
typedef struct direct_sums {
    const float *dy, *x;
    int64_t dy_channel, dy_strip, x_strip; /* strides */
    int64_t strips, positions;
    const int32_t *places;
    float *sums;
    int64_t sums_row;
    bool adds;   /* to the values in `sums` */
    float *rows; /* memory for a copy of a tile's rows of dy; or NULL */
} direct_sums;

/* Computes totals[i] = vsum(v[i]) for up to LANES vectors: it does the additions of vsum, in the same order, for
 * several vectors at once. */
ALWAYS_INLINE void sum_lanes(const vf *v, const int count, float *totals)
{
#if LANES == 16
    __m512 halves[8], quarters[4], pairs[2];
    float lane[LANES];

    UNROLL
    for (int i = 0; i < 8; i++) {
        const __m512 a = 2 * i < count ? (__m512)v[2 * i] : _mm512_setzero_ps();
        const __m512 b = 2 * i + 1 < count ? (__m512)v[2 * i + 1] : _mm512_setzero_ps();

        halves[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        quarters[i] = _mm512_add_ps(_mm512_shuffle_f32x4(halves[2 * i], halves[2 * i + 1], 0x88),
                                    _mm512_shuffle_f32x4(halves[2 * i], halves[2 * i + 1], 0xdd));
    UNROLL
    for (int i = 0; i < 2; i++)
        pairs[i] = _mm512_add_ps(_mm512_shuffle_ps(quarters[2 * i], quarters[2 * i + 1], 0x44),
                                 _mm512_shuffle_ps(quarters[2 * i], quarters[2 * i + 1], 0xee));
    vstore(lane,
           (vf)_mm512_add_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88), _mm512_shuffle_ps(pairs[0], pairs[1], 0xdd)));
    UNROLL
    for (int i = 0; i < count; i++)
        totals[i] = lane[i % 4 * 4 + i / 4];
#else
    UNROLL
    for (int i = 0; i < count; i++)
        totals[i] = vsum(v[i]);
#endif
}

/* Stores vsum(v[r][k]) of a tile, whose rows have BGI_GEMM_PANEL_VECTORS vectors, or adds it to the sums. */
ALWAYS_INLINE void store_lanes(const direct_sums *t, const vf *v, const int rows, const int terms)
{
    vf some[LANES];
    float totals[TILE_ROWS * BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int first = 0; first < rows * terms; first += LANES) {
        const int count = rows * terms - first < LANES ? rows * terms - first : LANES;

        UNROLL
        for (int i = 0; i < count; i++)
            some[i] = v[(first + i) / terms * BGI_GEMM_PANEL_VECTORS + (first + i) % terms];
        sum_lanes(some, count, totals + first);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int k = 0; k < terms; k++) {
            float *sum = t->sums + r * t->sums_row + k;

            *sum = (t->adds ? *sum : 0.0f) + totals[r * terms + k];
        }
    }
}

ALWAYS_INLINE void sum_tile(const direct_sums *t, const int rows, const int terms)
{
    const int64_t channel = t->dy_channel, whole = t->positions - t->positions % LANES, left = t->positions - whole;
    const int64_t place0 = t->places[0], place1 = terms > 1 ? t->places[1] : 0, place2 = terms > 2 ? t->places[2] : 0;
    vf sum[TILE_ROWS][BGI_GEMM_PANEL_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int k = 0; k < terms; k++)
            sum[r][k] = vset(0.0f);
    }
    for (int64_t strip = 0; strip < t->strips; strip++) {
        const float *d0 = t->dy + strip * t->dy_strip, *d3 = d0 + 3 * channel, *d6 = d0 + 6 * channel;
        const float *x = t->x + strip * t->x_strip, *x0 = x + place0, *x1 = x + place1, *x2 = x + place2;

        for (int64_t i = 0; i < whole; i += LANES) {
            vf at[BGI_GEMM_PANEL_VECTORS];

            UNROLL
            for (int k = 0; k < terms; k++)
                at[k] = vload((k == 0 ? x0 : k == 1 ? x1 : x2) + i);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const vf d = vload((r < 3 ? d0 : r < 6 ? d3 : d6) + i + r % 3 * channel);

                UNROLL
                for (int k = 0; k < terms; k++)
                    sum[r][k] = vfma(d, at[k], sum[r][k]);
            }
        }
        if (left > 0) { /* elements after the last position may be NaN */
            vf at[BGI_GEMM_PANEL_VECTORS];

            UNROLL
            for (int k = 0; k < terms; k++)
                at[k] = vload_n((k == 0 ? x0 : k == 1 ? x1 : x2) + whole, left);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const vf d = vload_n((r < 3 ? d0 : r < 6 ? d3 : d6) + whole + r % 3 * channel, left);

                UNROLL
                for (int k = 0; k < terms; k++)
                    sum[r][k] = vfma(d, at[k], sum[r][k]);
            }
        }
    }
    store_lanes(t, &sum[0][0], rows, terms);
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

/* Copies `rows` rows of dy of all strips, one strip after another, and makes the tile read the copy. */
static void copy_rows_of_dy(direct_sums *tile, int64_t rows)
{
    float *to = tile->rows;

    for (int64_t strip = 0; strip < tile->strips; strip++)
        for (int64_t r = 0; r < rows; r++, to += tile->positions)
            vcopy(tile->dy + strip * tile->dy_strip + r * tile->dy_channel, tile->positions, to);
    tile->dy = tile->rows;
    tile->dy_channel = tile->positions;
    tile->dy_strip = rows * tile->positions;
}

/* Sums `terms` terms of dw of all output channels of a group, over some strips. */
static void sum_strips(const bgi_conv *s, const direct_sums *all, int64_t terms)
{
    const int64_t row_tiles = (s->og + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t term_tiles = (terms + BGI_GEMM_PANEL_VECTORS - 1) / BGI_GEMM_PANEL_VECTORS;

    for (int64_t i = 0; i < row_tiles; i++) {
        const int64_t row = s->og * i / row_tiles, rows = s->og * (i + 1) / row_tiles - row;
        direct_sums tile = *all;

        tile.dy += row * all->dy_channel;
        if (all->rows)
            copy_rows_of_dy(&tile, rows);
        for (int64_t j = 0; j < term_tiles; j++) {
            const int64_t term = terms * j / term_tiles, count = terms * (j + 1) / term_tiles - term;

            tile.places = all->places + term;
            tile.sums = all->sums + row * all->sums_row + term;
            weights_table[rows - 1][count - 1](&tile);
        }
    }
}

/* Sums dw over strips first..end - 1, for channels from..until - 1 of every group; `adds`: to the values in `sums`. */
static void sum_weights(const bg_kernel_call *call, const bgi_conv *s, const bgi_direct *d,
                        const bgi_direct_weights_plan *plan, int64_t first, int64_t end, int64_t from, int64_t until,
                        float *sums, bool adds)
{
    float *own = (float *)call->scratch + plan->runs * plan->sums_floats + call->runner * plan->runner_floats;
    float *copies = own + plan->table_floats;
    const direct_tables tables = make_tables(d, plan->channels * s->taps, own);

    for (int64_t strip = first; strip < end; strip += plan->together) {
        const int64_t count = end - strip < plan->together ? end - strip : plan->together;
        const int64_t image = strip / plan->strips, first_row = strip % plan->strips * plan->strip_rows;
        const int64_t rows = d->rows - first_row < plan->strip_rows ? d->rows - first_row : plan->strip_rows;
        const int64_t plane = bgi_direct_plane(d, rows);

        find_taps(s, d, rows, tables.taps);
        for (int64_t group = 0; group < s->options.groups; group++)
            for (int64_t c = from; c < until; c += plan->channels) {
                const int64_t channels = until - c < plan->channels ? until - c : plan->channels;
                const float *x = (const float *)call->operands[1] + (image * s->c + group * s->cg + c) * s->h * s->w;
                const float *dy =
                    (const float *)call->operands[0] + (image * s->o + group * s->og) * s->p + first_row * s->ow;

                for (int64_t i = 0; i < count; i++)
                    copy_channels(d, x + i * s->c * s->h * s->w, channels, first_row, rows, &tables,
                                  copies + i * channels * plane);
                find_places(d, plane, 0, channels * s->taps, &tables);
                sum_strips(s,
                           &(direct_sums){.dy = dy,
                                          .x = copies,
                                          .dy_channel = s->p,
                                          .dy_strip = s->o * s->p,
                                          .x_strip = channels * plane,
                                          .strips = count,
                                          .positions = rows * d->columns,
                                          .places = tables.places,
                                          .sums = sums + group * s->og * s->k + c * s->taps,
                                          .sums_row = s->k,
                                          .adds = adds || strip > first,
                                          .rows = plan->row_floats > 0 ? copies + plan->copy_floats : NULL},
                           channels * s->taps);
            }
    }
}

static void run_direct_weights(const bg_kernel_call *call, uint32_t part, const bgi_conv *s, const bgi_direct *d,
                               const bgi_direct_weights_plan *plan)
{
    const uint32_t run = part / plan->cuts, cut = part % plan->cuts;
    const int64_t strips = s->n * plan->strips, from = bgi_cpu_part_start(s->cg, cut, plan->cuts);
    const int64_t until = bgi_cpu_part_start(s->cg, cut + 1, plan->cuts);
    float *sums = (float *)call->scratch + run * plan->sums_floats;

    sum_weights(call, s, d, plan, bgi_cpu_part_start(strips, run, plan->runs),
                bgi_cpu_part_start(strips, run + 1, plan->runs), from, until, plan->is_whole ? call->operands[2] : sums,
                plan->is_whole && bgi_call_adds(call));
}

/* Computes db of output channels from..from + count - 1, which sums over images, then positions. */
static void sum_bias_gradient(const bgi_conv *s, const void *dy, int64_t from, int64_t count, bool add, void *db)
{
    for (int64_t o = from; o < from + count; o++) {
        vf sum = vset(0.0f);
        float total;

        for (int64_t n = 0; n < s->n; n++)
            for (int64_t p = 0; p < s->p; p += LANES) {
                const int64_t at = (n * s->o + o) * s->p + p, live = s->p - p < LANES ? s->p - p : LANES;
                float lane[LANES];

                sum += vload_n(view_floats(s->dtype, dy, at, live, lane), live);
            }
        total = vsum(sum);
        put_floats(add, s->dtype, db, o, 1, &total);
    }
}

/* Sums of dw in the scratch, `floats` for each run of strips or of images. If `floats` is 0, dw itself holds the
 * sums. */
typedef struct conv_runs {
    int64_t count, floats;
} conv_runs;

/* Adds up the runs' sums of rows from..end - 1 of dw, in order. */
static void add_run_sums(const bg_kernel_call *call, const bgi_conv *s, const float *sums, const conv_runs *runs,
                         int64_t from, int64_t end)
{
    const bool adds = bgi_call_adds(call);

    for (int64_t i = from * s->k; i < end * s->k; i += LANES) {
        const int64_t live = end * s->k - i < LANES ? end * s->k - i : LANES;
        vf total = vload_n(sums + i, live);

        for (int64_t run = 1; run < runs->count; run++)
            total += vload_n(sums + run * runs->floats + i, live);
        if (s->dtype == BG_FLOAT32) {
            float *dw = (float *)call->operands[2] + i;

            vstore_n(dw, adds ? vload_n(dw, live) + total : total, live);
        } else {
            float lane[LANES];

            vstore(lane, total);
            put_floats(adds, s->dtype, call->operands[2], i, live, lane);
        }
    }
}

#endif
