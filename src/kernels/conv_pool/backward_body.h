/*
 * backward_body.h: gradients of the fused convolution, max pool and relu.
 *
 * At most one position of each pooling window has a gradient, which `where` identifies. For each output channel, a
 * kernel first lists the positions with a gradient (without branches), and then iterates over the list:
 *
 *     dw[o] += gradient x patch    keeps a block of dw[o] in registers
 *     dx patch += gradient x w[o]  keeps a block of w[o] in registers
 *
 * Patches are rows of a channels-last image. fast.h defines the letters and the layout.
 */
#ifndef BGI_KERNELS_CONV_POOL_BACKWARD_BODY_H
#define BGI_KERNELS_CONV_POOL_BACKWARD_BODY_H

#include "kernels/conv_pool/fast.h"
#include "kernels/cpu/convert_body.h"
#include "kernels/cpu/transpose_body.h"

#if LANES == 16
#define BLOCK_ROWS    5 /* rows of a patch that are held in registers, each of BLOCK_VECTORS vectors */
#define BLOCK_VECTORS 5
#else
#define BLOCK_ROWS    3
#define BLOCK_VECTORS 3
#endif

/* Positions with a gradient, of one output channel. */
typedef struct live_list {
    int32_t *offset; /* offset of the patch, in floats */
    float *gradient;
    int64_t count;
} live_list;

/* Appends the positions that have a gradient, of `count` pooled positions. `position` [count] is the patch of each
 * window's first element, `window` [256] the offset of each element of the window; `few`: no window has more than 16
 * elements.
 */
static void list_live(live_list *list, const float *dy, const uint8_t *where, const int32_t *position,
                      const int32_t *window, bool few, int64_t count, int64_t base)
{
    int64_t n = list->count;
    int64_t i = 0;

#if LANES == 16
    const __m512i off = _mm512_set1_epi32(255), image = _mm512_set1_epi32((int32_t)base);
    const __m512i first = _mm512_loadu_si512(window);

    for (; i < count; i += 16) {
        const __mmask16 in = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1u : 0xffffu);
        const __m512i element = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(in, where + i));
        const __mmask16 live = _mm512_mask_cmpneq_epi32_mask(in, element, off);
        const __m512i start = _mm512_add_epi32(_mm512_maskz_loadu_epi32(in, position + i), image);
        const __m512i step = few ? _mm512_permutexvar_epi32(element, first)
                                 : _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), live, element, window, 4);

        _mm512_storeu_si512(list->offset + n, _mm512_maskz_compress_epi32(live, _mm512_add_epi32(start, step)));
        _mm512_storeu_ps(list->gradient + n, _mm512_maskz_compress_ps(live, _mm512_maskz_loadu_ps(in, dy + i)));
        n += __builtin_popcount(live);
    }
#else
    (void)few;
    for (; i < count; i++) {
        list->offset[n] = (int32_t)base + position[i] + window[where[i]];
        list->gradient[n] = dy[i];
        n += where[i] != 255;
    }
#endif
    list->count = n;
}

/* Fills the tables that list_live reads. */
static void fill_positions(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, int32_t *position, int32_t *window)
{
    for (int64_t i = 0; i < s->qh; i++)
        for (int64_t j = 0; j < s->qw; j++)
            position[i * s->qw + j] = (int32_t)((i * s->pool_h * p->xw + j * s->pool_w) * p->cp);
    for (int64_t v = 0; v < 256; v++)
        window[v] = v < s->windows ? (int32_t)((v / s->pool_w * p->xw + v % s->pool_w) * p->cp) : 0;
}

/* ---- blocks of a patch in registers ---- */

typedef struct patch_block {
    const live_list *list;
    float *image;       /* the image at the block's first row and column */
    int64_t row_stride; /* row stride of the image */
    float *filter;      /* dw (read and written) or w (read), at the block */
    int64_t filter_stride;
} patch_block;

/* Computes sum += g x the patch at `row`. */
ALWAYS_INLINE void add_patch(vf g, const float *row, int64_t stride, const int rows, const int vectors,
                             vf sum[BLOCK_ROWS][BLOCK_VECTORS])
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[r][v] = vfma(g, vload(row + v * LANES), sum[r][v]);
        row += stride;
        FORGET(row);
    }
}

ALWAYS_INLINE void sum_patches(const patch_block *b, const int rows, const int vectors)
{
    const live_list list = *b->list;
    const int64_t stride = b->row_stride;
    vf sum[BLOCK_ROWS][BLOCK_VECTORS], odd[BLOCK_ROWS][BLOCK_VECTORS];
    const int pairs = rows * vectors <= 8; /* too few chains to hide a multiply-add's latency, so each sum has two */
    int64_t i = 0;

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = vload(b->filter + r * b->filter_stride + v * LANES);
            odd[r][v] = vset(0.0f);
        }
    }
    for (; pairs && i + 1 < list.count; i += 2) {
        add_patch(vset(list.gradient[i]), b->image + list.offset[i], stride, rows, vectors, sum);
        add_patch(vset(list.gradient[i + 1]), b->image + list.offset[i + 1], stride, rows, vectors, odd);
    }
    for (; i < list.count; i++)
        add_patch(vset(list.gradient[i]), b->image + list.offset[i], stride, rows, vectors, sum);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            vstore(b->filter + r * b->filter_stride + v * LANES, pairs ? sum[r][v] + odd[r][v] : sum[r][v]);
    }
}

#if LANES == 16
ALWAYS_INLINE void add_short_patch(float gradient, const float *row, int64_t stride, const int rows,
                                   __m256 sum[BLOCK_ROWS])
{
    const __m256 g = _mm256_set1_ps(gradient);

    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r] = _mm256_fmadd_ps(g, _mm256_loadu_ps(row), sum[r]);
        row += stride;
        FORGET(row);
    }
}

/* Does the same as sum_patches for rows of up to 8 floats; half vectors cross fewer cache lines. */
ALWAYS_INLINE void sum_short_patches(const patch_block *b, const int rows)
{
    const live_list list = *b->list;
    const int64_t stride = b->row_stride;
    __m256 sum[BLOCK_ROWS], odd[BLOCK_ROWS];
    int64_t i = 0;

    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r] = _mm256_loadu_ps(b->filter + r * b->filter_stride);
        odd[r] = _mm256_setzero_ps();
    }
    for (; i + 1 < list.count; i += 2) {
        add_short_patch(list.gradient[i], b->image + list.offset[i], stride, rows, sum);
        add_short_patch(list.gradient[i + 1], b->image + list.offset[i + 1], stride, rows, odd);
    }
    if (i < list.count)
        add_short_patch(list.gradient[i], b->image + list.offset[i], stride, rows, sum);
    UNROLL
    for (int r = 0; r < rows; r++)
        _mm256_storeu_ps(b->filter + r * b->filter_stride, _mm256_add_ps(sum[r], odd[r]));
}
#endif

ALWAYS_INLINE void spread_filter(const patch_block *b, const int rows, const int vectors)
{
    const live_list list = *b->list;
    const int64_t stride = b->row_stride;
    vf w[BLOCK_ROWS][BLOCK_VECTORS];

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            w[r][v] = vload(b->filter + r * b->filter_stride + v * LANES);
    }
    for (int64_t i = 0; i < list.count; i++) {
        float *row = b->image + list.offset[i];
        const vf g = vset(list.gradient[i]);

        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < vectors; v++)
                vstore(row + v * LANES, vfma(g, w[r][v], vload(row + v * LANES)));
            row += stride;
            FORGET(row);
        }
    }
}

#define PATCH_BLOCK(rows, vectors)                                                                                     \
    static void sum_patches_##rows##_##vectors(const patch_block *b)                                                   \
    {                                                                                                                  \
        sum_patches(b, rows, vectors);                                                                                 \
    }                                                                                                                  \
    static void spread_filter_##rows##_##vectors(const patch_block *b)                                                 \
    {                                                                                                                  \
        spread_filter(b, rows, vectors);                                                                               \
    }
#define PATCH_ROW3(rows) PATCH_BLOCK(rows, 1) PATCH_BLOCK(rows, 2) PATCH_BLOCK(rows, 3)
#if LANES == 16
#define PATCH_ROW(rows) PATCH_ROW3(rows) PATCH_BLOCK(rows, 4) PATCH_BLOCK(rows, 5)
#define PATCH_NAMES(of, rows)                                                                                          \
    {                                                                                                                  \
        of##_##rows##_1, of##_##rows##_2, of##_##rows##_3, of##_##rows##_4, of##_##rows##_5                            \
    }
#define PATCH_TABLE(of)                                                                                                \
    {                                                                                                                  \
        PATCH_NAMES(of, 1), PATCH_NAMES(of, 2), PATCH_NAMES(of, 3), PATCH_NAMES(of, 4), PATCH_NAMES(of, 5)             \
    }
PATCH_ROW(1)
PATCH_ROW(2)
PATCH_ROW(3)
PATCH_ROW(4)
PATCH_ROW(5)
#else
#define PATCH_NAMES(of, rows)                                                                                          \
    {                                                                                                                  \
        of##_##rows##_1, of##_##rows##_2, of##_##rows##_3                                                              \
    }
#define PATCH_TABLE(of)                                                                                                \
    {                                                                                                                  \
        PATCH_NAMES(of, 1), PATCH_NAMES(of, 2), PATCH_NAMES(of, 3)                                                     \
    }
PATCH_ROW3(1)
PATCH_ROW3(2)
PATCH_ROW3(3)
#endif

typedef void (*patch_function)(const patch_block *b);
static const patch_function sum_table[BLOCK_ROWS][BLOCK_VECTORS] = PATCH_TABLE(sum_patches);
static const patch_function spread_table[BLOCK_ROWS][BLOCK_VECTORS] = PATCH_TABLE(spread_filter);

#if LANES == 16
#define SHORT_PATCHES(rows)                                                                                            \
    static void sum_short_patches_##rows(const patch_block *b)                                                         \
    {                                                                                                                  \
        sum_short_patches(b, rows);                                                                                    \
    }
SHORT_PATCHES(1)
SHORT_PATCHES(2)
SHORT_PATCHES(3)
SHORT_PATCHES(4)
SHORT_PATCHES(5)
static const patch_function short_table[BLOCK_ROWS][BLOCK_VECTORS] = {
    {sum_short_patches_1}, {sum_short_patches_2}, {sum_short_patches_3}, {sum_short_patches_4}, {sum_short_patches_5}};
#endif

static const patch_function (*choose_sum_table(const bgi_conv_pool *s, const bgi_conv_pool_patches *p))[BLOCK_VECTORS]
{
#if LANES == 16
    if (s->kw * p->cp <= 8)
        return short_table;
#endif
    (void)s;
    (void)p;
    return sum_table;
}

/* Calls the function in `table` for each block of one output channel's filter. */
static void for_blocks(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, const live_list *list, float *image,
                       float *filter, const patch_function table[BLOCK_ROWS][BLOCK_VECTORS])
{
    patch_block b = {.list = list, .row_stride = p->xw * p->cp, .filter_stride = p->row_floats};

    for (int64_t row = 0; row < s->kh; row += BLOCK_ROWS) {
        const int64_t rows = s->kh - row < BLOCK_ROWS ? s->kh - row : BLOCK_ROWS;

        for (int64_t vector = 0; vector < p->row_vectors; vector += BLOCK_VECTORS) {
            const int64_t vectors = p->row_vectors - vector < BLOCK_VECTORS ? p->row_vectors - vector : BLOCK_VECTORS;

            b.image = image + row * b.row_stride + vector * LANES;
            b.filter = filter + row * p->row_floats + vector * LANES;
            table[rows - 1][vectors - 1](&b);
        }
    }
}

/* ---- layouts ---- */

/* Converts one image [C][H][W] to [XH][XW][CP] with zeros all around. */
static void image_to_patches(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, const float *x, float *image)
{
    float *inner = image + (s->pad_h * p->xw + s->pad_w) * p->cp;

    if (s->pad_h || s->pad_w)
        memset(image, 0, (size_t)p->image_floats * sizeof(float));
    if (s->pad_w == 0) {
        if (p->cp == 1)
            memcpy(inner, x, (size_t)(s->h * s->w) * sizeof(float));
        else
            transpose_matrix(x, s->h * s->w, s->c, s->h * s->w, inner, p->cp, p->cp);
        return;
    }
    for (int64_t y = 0; y < s->h; y++)
        if (p->cp == 1)
            memcpy(inner + y * p->xw, x + y * s->w, (size_t)s->w * sizeof(float));
        else
            transpose_matrix(x + y * s->w, s->h * s->w, s->c, s->w, inner + y * p->xw * p->cp, p->cp, p->cp);
}

/* Converts an image [XH][XW][CP] back to [C][H][W], without the padding. */
static void patches_to_image(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, const float *image, float *x)
{
    const float *inner = image + (s->pad_h * p->xw + s->pad_w) * p->cp;
    const int64_t plane = s->h * s->w;

    for (int64_t y = 0; y < (s->pad_w ? s->h : 1); y++) {
        const int64_t columns = s->pad_w ? s->w : plane;

        for (int64_t at = 0; at < columns; at += 16) {
            const int64_t width = columns - at < 16 ? columns - at : 16;

            transpose_matrix(inner + (y * p->xw + at) * p->cp, p->cp, width, s->c, x + y * s->w + at, plane, width);
        }
    }
}

/* These two functions convert one output channel's filter [C][KH KW] to KH rows of [KW][CP], and back. */
static void filter_to_patch(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, const float *w, float *filter)
{
    const int64_t taps = s->kh * s->kw;

    if (p->row_floats == s->kw * p->cp) {
        transpose_matrix(w, taps, s->c, taps, filter, p->cp, p->cp);
        return;
    }
    memset(filter, 0, (size_t)(s->kh * p->row_floats) * sizeof(float));
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t kx = 0; kx < s->kw; kx++)
                filter[ky * p->row_floats + kx * p->cp + c] = w[c * taps + ky * s->kw + kx];
}

static void patch_to_filter(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, const float *filter, float *w)
{
    const int64_t taps = s->kh * s->kw;

    if (p->row_floats == s->kw * p->cp) {
        for (int64_t tap = 0; tap < taps; tap += 16) {
            const int64_t width = taps - tap < 16 ? taps - tap : 16;

            transpose_matrix(filter + tap * p->cp, p->cp, width, s->c, w + tap, taps, width);
        }
        return;
    }
    for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t kx = 0; kx < s->kw; kx++)
                w[c * taps + ky * s->kw + kx] = filter[ky * p->row_floats + kx * p->cp + c];
}

/* ---- the kernels ---- */

/* The data that `prepare` makes for all parts, at the beginning of the scratch. */
typedef struct patch_shared {
    int32_t *window, *position;
    float *filters; /* filters, for the kernel of dx; parts only read them */
    float *filter;  /* float32 copy of an operand of another type */
} patch_shared;

static patch_shared cut_shared(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, void *scratch)
{
    patch_shared cut = {.window = scratch};

    cut.position = cut.window + 256;
    cut.filters = (float *)scratch + 256 + bgi_cpu_round_up(s->q, 16);
    cut.filter = cut.filters + p->filter_floats;
    return cut;
}

/* One part's scratch, in the order of bgi_conv_pool_patch_plan: sums for each part, the rest for each runner. */
typedef struct patch_scratch {
    float *filters; /* sums of dw */
    float *bias;    /* sums of db */
    float *images;
    live_list list;
    float *x, *dy; /* float32 copies of other types */
} patch_scratch;

static patch_scratch cut_scratch(const bgi_conv_pool *s, const bgi_conv_pool_patches *p, const bg_kernel_call *call,
                                 uint32_t part)
{
    float *at = (float *)call->scratch + p->shared_floats + part * p->part_floats;
    const int64_t list = bgi_cpu_round_up(p->group * s->q, 16) + BGI_CONV_POOL_SLACK;
    patch_scratch cut;

    cut.filters = at;
    cut.bias = at + p->filter_floats;
    at = bgi_cpu_part_scratch(call, p->part_floats) + p->shared_floats + p->sums_floats;
    cut.images = at;
    at += bgi_cpu_round_up(p->group * p->image_floats, 16) + BGI_CONV_POOL_SLACK;
    cut.list = (live_list){.offset = (int32_t *)(void *)at, .gradient = at + list};
    at += 2 * list;
    cut.x = at;
    cut.dy = at + bgi_cpu_round_up(s->c * s->h * s->w, 16);
    return cut;
}

static float sum_gradients(const live_list *list)
{
    vf sum = vset(0.0f);
    int64_t i = 0;

    for (; i + LANES <= list->count; i += LANES)
        sum += vload(list->gradient + i);
    if (i < list->count)
        sum += vload_n(list->gradient + i, list->count - i);
    return vsum(sum);
}

static void prepare_conv2d_pool_backward_weights(const bg_kernel_call *call)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[2], &call->types[3], &call->types[0], call->attributes);
    const bgi_conv_pool_patches p = bgi_conv_pool_patch_plan(&s, LANES, true, bgi_conv_pool_weights_parts(&s));
    const patch_shared shared = cut_shared(&s, &p, call->scratch);

    fill_positions(&s, &p, shared.position, shared.window);
}

/* Computes dw and db of a part's images, `group` images at a time; the sum runs over images in order. */
static void run_conv2d_pool_backward_weights(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[2], &call->types[3], &call->types[0], call->attributes);
    const uint32_t parts = bgi_conv_pool_weights_parts(&s);
    const bgi_conv_pool_patches p = bgi_conv_pool_patch_plan(&s, LANES, true, parts);
    const int64_t end = bgi_cpu_part_start(s.n, part + 1, parts);
    const uint8_t *where = call->operands[1];
    const patch_shared shared = cut_shared(&s, &p, call->scratch);
    patch_scratch scratch = cut_scratch(&s, &p, call, part);

    memset(scratch.filters, 0, (size_t)p.sums_floats * sizeof(float));
    for (int64_t n = bgi_cpu_part_start(s.n, part, parts); n < end; n += p.group) {
        const int64_t group = end - n < p.group ? end - n : p.group;
        const float *dy = view_floats(s.dtype, call->operands[0], n * s.o * s.q, group * s.o * s.q, scratch.dy);

        for (int64_t i = 0; i < group; i++)
            image_to_patches(
                &s, &p, view_floats(s.dtype, call->operands[2], (n + i) * s.c * s.h * s.w, s.c * s.h * s.w, scratch.x),
                scratch.images + i * p.image_floats);
        memset(scratch.images + group * p.image_floats, 0, BGI_CONV_POOL_SLACK * sizeof(float));
        for (int64_t o = 0; o < s.o; o++) {
            scratch.list.count = 0;
            for (int64_t i = 0; i < group; i++)
                list_live(&scratch.list, dy + (i * s.o + o) * s.q, where + ((n + i) * s.o + o) * s.q, shared.position,
                          shared.window, s.windows <= 16, s.q, i * p.image_floats);
            scratch.bias[o] += sum_gradients(&scratch.list);
            for_blocks(&s, &p, &scratch.list, scratch.images, scratch.filters + o * s.kh * p.row_floats,
                       choose_sum_table(&s, &p));
        }
    }
}

/* Adds `count` of the parts' sums, in part order, to those of the first part. */
static void add_parts(const bgi_conv_pool_patches *p, uint32_t parts, float *sums, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES) {
        vf sum = vload(sums + i);

        for (uint32_t part = 1; part < parts; part++)
            sum += vload(sums + part * p->part_floats + i);
        vstore(sums + i, sum);
    }
}

/* Adds up the parts' sums for one piece of the output channels. */
static void combine_conv2d_pool_backward_weights(const bg_kernel_call *call, uint32_t piece)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[2], &call->types[3], &call->types[0], call->attributes);
    const uint32_t parts = bgi_conv_pool_weights_parts(&s);
    const bgi_conv_pool_patches p = bgi_conv_pool_patch_plan(&s, LANES, true, parts);
    const uint32_t pieces = bgi_conv_pool_weights_pieces(&s, &p, parts);
    const int64_t end = bgi_cpu_part_start(s.o, piece + 1, pieces);
    const bool add = bgi_call_adds(call);
    patch_scratch scratch = cut_scratch(&s, &p, call, 0);

    for (int64_t o = bgi_cpu_part_start(s.o, piece, pieces); o < end; o++) {
        float *filter = scratch.filters + o * s.kh * p.row_floats;

        add_parts(&p, parts, filter, s.kh * p.row_floats);
        if (s.dtype == BG_FLOAT32 && !add) {
            patch_to_filter(&s, &p, filter, (float *)call->operands[3] + o * s.k);
        } else { /* the memory of the images is free, and an image is at least as large as a filter */
            patch_to_filter(&s, &p, filter, scratch.images);
            put_floats(add, s.dtype, call->operands[3], o * s.k, s.k, scratch.images);
        }
    }
    if (piece == 0) {
        add_parts(&p, parts, scratch.bias, bgi_cpu_round_up(s.o, LANES));
        put_floats(add, s.dtype, call->operands[4], 0, s.o, scratch.bias);
    }
}

static void prepare_conv2d_pool_backward_input(const bg_kernel_call *call)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[3], &call->types[2], &call->types[0], call->attributes);
    const bgi_conv_pool_patches p = bgi_conv_pool_patch_plan(&s, LANES, false, 1);
    const patch_shared shared = cut_shared(&s, &p, call->scratch);

    fill_positions(&s, &p, shared.position, shared.window);
    for (int64_t o = 0; o < s.o; o++)
        filter_to_patch(&s, &p, view_floats(s.dtype, call->operands[2], o * s.k, s.k, shared.filter),
                        shared.filters + o * s.kh * p.row_floats);
}

/* Computes dx, image by image; the sum runs over output channels, then positions. */
static void run_conv2d_pool_backward_input(const bg_kernel_call *call, uint32_t part)
{
    const bgi_conv_pool s = bgi_conv_pool_read(&call->types[3], &call->types[2], &call->types[0], call->attributes);
    const bgi_conv_pool_patches p = bgi_conv_pool_patch_plan(&s, LANES, false, 1);
    const uint32_t parts = bgi_conv_pool_bound_parts(bgi_conv_pool_image_parts(&s), p.shared_floats, p.part_floats,
                                                     bgi_product_limit(call->state));
    const int64_t image = s.c * s.h * s.w;
    const uint8_t *where = call->operands[1];
    const patch_shared shared = cut_shared(&s, &p, call->scratch);
    patch_scratch scratch = cut_scratch(&s, &p, call, part);

    for (int64_t n = bgi_cpu_part_start(s.n, part, parts); n < bgi_cpu_part_start(s.n, part + 1, parts); n++) {
        const float *dy = view_floats(s.dtype, call->operands[0], n * s.o * s.q, s.o * s.q, scratch.dy);

        memset(scratch.images, 0, (size_t)(p.image_floats + BGI_CONV_POOL_SLACK) * sizeof(float));
        for (int64_t o = 0; o < s.o; o++) {
            scratch.list.count = 0;
            list_live(&scratch.list, dy + o * s.q, where + (n * s.o + o) * s.q, shared.position, shared.window,
                      s.windows <= 16, s.q, 0);
            for_blocks(&s, &p, &scratch.list, scratch.images, shared.filters + o * s.kh * p.row_floats, spread_table);
        }
        if (s.dtype == BG_FLOAT32) {
            patches_to_image(&s, &p, scratch.images, (float *)call->operands[3] + n * image);
        } else {
            patches_to_image(&s, &p, scratch.images, scratch.x);
            write_floats(s.dtype, call->operands[3], n * image, image, scratch.x);
        }
    }
}

#endif
