/*
 * forward_body.h: convolution, bias, max pool and relu in one pass; the convolution's output stays in registers.
 *
 * A vector covers pooled positions. For a tile of output channels, separate accumulators hold several elements of the
 * pooling window, so that the pool is a maximum of registers. fast.h defines the letters and the layout.
 */
#ifndef BGI_KERNELS_CONV_POOL_FORWARD_BODY_H
#define BGI_KERNELS_CONV_POOL_FORWARD_BODY_H

#include "kernels/conv_pool/fast.h"
#include "kernels/cpu/convert_body.h"

#if LANES == 16
#define POOL_CHANNELS 6
#else
#define POOL_CHANNELS 2 /* eight accumulators, four inputs and a weight fit sixteen registers */
#endif
#define POOL_WINDOWS 4

/* The data that all tiles of one band of one image share. */
typedef struct pool_band {
    const bgi_conv_pool *shape;
    const float *planes;
    const int64_t *offset; /* [KH][windows]: the position of a window element at a filter row */
    int64_t shift_stride, channel_stride, count;
    const float *weights, *bias; /* weights and bias of the tile's first channel */
    void *y;                     /* results of the tile's first channel, at the band's first position */
    uint8_t *where;
} pool_band;

/* Computes the convolution at window elements `window`..`window + windows - 1` of the positions from `q` on, and
 * updates the running maximum of each channel (the first NaN wins). Elements are rounded to the element type before
 * they are compared, so that the result is that of the separate ops. Sums run over channels, filter rows, filter
 * columns, from the bias on. */
ALWAYS_INLINE void fold_windows(const pool_band *b, const bg_dtype dtype, int64_t q, int64_t window, const int channels,
                                const int windows, vf *best, vi *index)
{
    const bgi_conv_pool *s = b->shape;
    const float *channel = b->planes + q, *w = b->weights;
    vf sum[POOL_CHANNELS][POOL_WINDOWS];

    UNROLL
    for (int t = 0; t < channels; t++) {
        UNROLL
        for (int v = 0; v < windows; v++)
            sum[t][v] = vset(b->bias[t]);
    }
    for (int64_t c = 0; c < s->c; c++, channel += b->channel_stride)
        for (int64_t ky = 0; ky < s->kh; ky++) {
            const float *at[POOL_WINDOWS];

            UNROLL
            for (int v = 0; v < windows; v++)
                at[v] = channel + b->offset[ky * s->windows + window + v];
            for (int64_t kx = 0; kx < s->kw; kx++, w++) {
                vf x[POOL_WINDOWS];

                UNROLL
                for (int v = 0; v < windows; v++) {
                    x[v] = vload(at[v]);
                    at[v] += b->shift_stride;
                }
                UNROLL
                for (int t = 0; t < channels; t++) {
                    const vf weight = vset(w[t * s->k]);

                    UNROLL
                    for (int v = 0; v < windows; v++)
                        sum[t][v] = vfma(weight, x[v], sum[t][v]);
                }
            }
        }
    UNROLL
    for (int v = 0; v < windows; v++) {
        UNROLL
        for (int t = 0; t < channels; t++) {
            const vf value = vround_to(dtype, sum[t][v]);
            const vm wins = vwins(value, best[t]);

            best[t] = vselect(wins, value, best[t]);
            index[t] = vselect_int(wins, vset_int((int32_t)window + v), index[t]);
        }
    }
}

ALWAYS_INLINE void store_outputs(const bg_dtype dtype, void *y, int64_t at, vf v, int64_t count)
{
    if (dtype == BG_FLOAT32) {
        vstore_n((float *)y + at, v, count);
    } else {
        float lane[LANES];

        vstore(lane, v);
        narrow(dtype, lane, count, (uint16_t *)y + at);
    }
}

/* Computes the pooled results of a tile. Without relu the maximum starts from minus infinity at the first element,
 * which is right even where all elements are minus infinity. With relu it starts from zero and 255, which mean that no
 * element is above zero. */
ALWAYS_INLINE void pool_positions(const pool_band *b, const bg_dtype dtype, const int channels)
{
    const bgi_conv_pool *s = b->shape;

    for (int64_t q = 0; q < b->count; q += LANES) {
        const int64_t live = b->count - q < LANES ? b->count - q : LANES;
        int64_t window = 0;
        vf best[POOL_CHANNELS];
        vi index[POOL_CHANNELS];

        UNROLL
        for (int t = 0; t < channels; t++) {
            best[t] = vset(s->relu ? 0.0f : -INFINITY);
            index[t] = vset_int(s->relu ? 255 : 0);
        }
        for (; window + POOL_WINDOWS <= s->windows; window += POOL_WINDOWS)
            fold_windows(b, dtype, q, window, channels, POOL_WINDOWS, best, index);
        for (; window < s->windows; window++)
            fold_windows(b, dtype, q, window, channels, 1, best, index);
        UNROLL
        for (int t = 0; t < channels; t++) {
            store_outputs(dtype, b->y, t * s->q + q, best[t], live);
            vstore_bytes_n(b->where + t * s->q + q, index[t], live);
        }
    }
}

ALWAYS_INLINE void pool_tile(const pool_band *b, const int channels)
{
    if (b->shape->dtype == BG_FLOAT32)
        pool_positions(b, BG_FLOAT32, channels);
    else if (b->shape->dtype == BG_BFLOAT16)
        pool_positions(b, BG_BFLOAT16, channels);
    else
        pool_positions(b, BG_FLOAT16, channels);
}

static void pool_tile_1(const pool_band *b)
{
    pool_tile(b, 1);
}
static void pool_tile_2(const pool_band *b)
{
    pool_tile(b, 2);
}
#if POOL_CHANNELS >= 6
static void pool_tile_3(const pool_band *b)
{
    pool_tile(b, 3);
}
static void pool_tile_4(const pool_band *b)
{
    pool_tile(b, 4);
}
static void pool_tile_5(const pool_band *b)
{
    pool_tile(b, 5);
}
static void pool_tile_6(const pool_band *b)
{
    pool_tile(b, 6);
}
#endif

static void (*const pool_tiles[POOL_CHANNELS + 1])(const pool_band *b) = {
    NULL,        pool_tile_1, pool_tile_2,
#if POOL_CHANNELS >= 6
    pool_tile_3, pool_tile_4, pool_tile_5, pool_tile_6,
#endif
};

ALWAYS_INLINE int64_t clip_lanes(int64_t left)
{
    return left < 0 ? 0 : left < LANES ? left : LANES;
}

/* Splits one padded row of `width` columns (followed by zeros) into PW rows: part p holds columns p, p + PW, ... */
static void split_row(const float *row, int64_t width, int64_t columns, int64_t pool_w, int64_t part_stride,
                      float *parts)
{
    if (pool_w == 2) {
        for (int64_t j = 0; j < columns; j += LANES) {
            const int64_t left = width - 2 * j;
            vf even, odd;

            vdeinterleave(vload_n(row + 2 * j, clip_lanes(left)),
                          vload_n(row + 2 * j + LANES, clip_lanes(left - LANES)), &even, &odd);
            vstore(parts + j, even);
            vstore(parts + part_stride + j, odd);
        }
        return;
    }
    for (int64_t part = 0; part < pool_w; part++)
        for (int64_t j = 0; j < columns; j++)
            parts[part * part_stride + j] = j * pool_w + part < width ? row[j * pool_w + part] : 0.0f;
}

#if LANES == 16
/* Stores `count` lanes, with narrow stores for few lanes, because these cross fewer cache lines. */
ALWAYS_INLINE void store_short(float *to, __m512 v, int64_t count)
{
    const __mmask8 live = (__mmask8)((1u << (count & 7)) - 1u);

    if (count > 8)
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1u), v);
    else if (count == 8)
        _mm256_storeu_ps(to, _mm512_castps512_ps256(v));
    else if (count == 4)
        _mm_storeu_ps(to, _mm512_castps512_ps128(v));
    else
        _mm256_mask_storeu_ps(to, live, _mm512_castps512_ps256(v));
}

/* Does the same as shift_row for windows of two columns if a part of a row fits one vector: shifts are permutations of
 * registers. */
ALWAYS_INLINE void shift_short_row(const bgi_conv_pool *s, const bgi_conv_pool_planes *p, const float *row,
                                   int64_t width, float *to)
{
    const __m512i next = _mm512_set1_epi32(1);
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t stride = p->shift_stride, count = s->qw;
    vf even, odd;

    vdeinterleave(vload_n(row, clip_lanes(width)), vload_n(row + LANES, clip_lanes(width - LANES)), &even, &odd);
    for (int64_t shift = p->shifts; shift > 1; shift -= 2, to += 2 * stride) {
        store_short(to, _mm512_permutexvar_ps(lanes, (__m512)even), count);
        store_short(to + stride, _mm512_permutexvar_ps(lanes, (__m512)odd), count);
        lanes = _mm512_add_epi32(lanes, next);
    }
    if (p->shifts % 2)
        store_short(to, _mm512_permutexvar_ps(lanes, (__m512)even), count);
}
#endif

/* Makes the shifts of one row; `to` is the row's location in shift 0. `row` has `width` columns, including padding. */
ALWAYS_INLINE void shift_row(const bgi_conv_pool *s, const bgi_conv_pool_planes *p, const float *row, int64_t width,
                             float *parts, float *to)
{
#if LANES == 16
    if (s->pool_w == 2 && width <= 2 * LANES) {
        shift_short_row(s, p, row, width, to);
        return;
    }
#endif
    split_row(row, width, p->line_floats - BGI_CONV_POOL_SLACK + 1, s->pool_w, p->line_floats, parts);
    for (int64_t part = 0; part < s->pool_w; part++) {
        const float *from = parts + part * p->line_floats;

        for (int64_t shift = part; shift < p->shifts; shift += s->pool_w)
            vcopy(from++, s->qw, to + shift * p->shift_stride);
    }
}

/* Fills the shifted planes for the band of pooled rows that begins at `first`. `lines` is scratch for one row and its
 * interleaved parts. */
static void shift_planes(const bgi_conv_pool *s, const bgi_conv_pool_planes *p, const void *x, int64_t image,
                         int64_t first, int64_t band, float *planes, float *lines)
{
    const int64_t rows = band * s->pool_h + s->kh - 1, width = s->w + 2 * s->pad_w;
    const bool in_place = s->dtype == BG_FLOAT32 && s->pad_w == 0;
    float *parts = lines + p->line_floats * s->pool_w;

    if (!in_place)
        memset(lines, 0, (size_t)width * sizeof(float));
    for (int64_t c = 0; c < s->c; c++) {
        int64_t at = ((image * s->c + c) * s->h + first * s->pool_h - s->pad_h) * s->w;
        float *line = planes + c * p->channel_stride, *to = line;

        for (int64_t r = 0, residue = 0; r < rows; r++, at += s->w) {
            const int64_t y = first * s->pool_h + r - s->pad_h;

            if (y < 0 || y >= s->h) {
                for (int64_t shift = 0; shift < p->shifts; shift++)
                    memset(to + shift * p->shift_stride, 0, (size_t)s->qw * sizeof(float));
            } else if (in_place) {
                shift_row(s, p, (const float *)x + at, width, parts, to);
            } else {
                read_floats(s->dtype, x, at, s->w, lines + s->pad_w);
                shift_row(s, p, lines, width, parts, to);
            }
            to += p->residue_stride;
            if (++residue == s->pool_h) {
                residue = 0;
                line += s->qw;
                to = line;
            }
        }
    }
}

/* Pools all output channels, in tiles that are as equal as possible: with tiles of at most 6 channels, 10 channels are
 * two tiles of 5. */
static void pool_channels(pool_band band, const float *w, const float *bias, void *y, uint8_t *where)
{
    const bgi_conv_pool *s = band.shape;
    const int64_t tiles = (s->o + POOL_CHANNELS - 1) / POOL_CHANNELS;

    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t from = s->o * tile / tiles, to = s->o * (tile + 1) / tiles;

        band.weights = w + from * s->k;
        band.bias = bias + from;
        band.y = s->dtype == BG_FLOAT32 ? (void *)((float *)y + from * s->q) : (void *)((uint16_t *)y + from * s->q);
        band.where = where + from * s->q;
        pool_tiles[to - from](&band);
    }
}

/* Converts weights and bias of other types to float32 for all parts. */
static void prepare_conv2d_pool(const bg_kernel_call *call)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[0], &call->types[1], &call->types[3], call->attributes);
    float *copies = call->scratch;

    if (s.dtype == BG_FLOAT32)
        return;
    read_floats(s.dtype, call->operands[1], 0, s.o * s.k, copies);
    read_floats(s.dtype, call->operands[2], 0, s.o, copies + s.o * s.k);
}

static void run_conv2d_pool(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[0], &call->types[1], &call->types[3], call->attributes);
    const bgi_conv_pool_planes p = bgi_conv_pool_plan(&s);
    const uint32_t parts = bgi_conv_pool_bound_parts(bgi_conv_pool_image_parts(&s), p.shared_floats, p.part_floats,
                                                     bgi_product_limit(call->state));
    const bool is_float32 = s.dtype == BG_FLOAT32;
    const float *copies = call->scratch;
    float *planes = bgi_cpu_part_scratch(call, p.part_floats) + p.shared_floats, *lines = planes + p.planes_floats;
    const float *w = is_float32 ? call->operands[1] : copies;
    const float *bias = is_float32 ? call->operands[2] : copies + s.o * s.k;
    const size_t element = is_float32 ? 4 : 2;
    int64_t offset[BGI_CONV_POOL_MAX_OFFSETS];

    for (int64_t ky = 0; ky < s.kh; ky++)
        for (int64_t v = 0; v < s.windows; v++) {
            const int64_t row = v / s.pool_w + ky;

            offset[ky * s.windows + v] =
                v % s.pool_w * p.shift_stride + row % s.pool_h * p.residue_stride + row / s.pool_h * s.qw;
        }
    for (int64_t n = bgi_cpu_part_start(s.n, part, parts); n < bgi_cpu_part_start(s.n, part + 1, parts); n++)
        for (int64_t first = 0; first < s.qh; first += p.band) {
            const int64_t rows = s.qh - first < p.band ? s.qh - first : p.band;
            const int64_t at = n * s.o * s.q + first * s.qw;
            const pool_band band = {.shape = &s,
                                    .planes = planes,
                                    .offset = offset,
                                    .shift_stride = p.shift_stride,
                                    .channel_stride = p.channel_stride,
                                    .count = rows * s.qw};

            shift_planes(&s, &p, call->operands[0], n, first, rows, planes, lines);
            pool_channels(band, w, bias, (uint8_t *)call->operands[3] + (size_t)at * element,
                          (uint8_t *)call->operands[4] + at);
        }
}

#endif
