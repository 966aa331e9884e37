/*
 * fast_body.h: interpolation by tables: rows are sums of rows, columns are sums of gathered elements. All sums are in
 * float32.
 */
#ifndef BGI_KERNELS_RESAMPLE_FAST_BODY_H
#define BGI_KERNELS_RESAMPLE_FAST_BODY_H

#include "kernels/cpu/convert_body.h"
#include "kernels/resample/fast.h"

typedef struct resample_table {
    const int32_t *first;
    const float *weights; /* weights[k count + o] */
    int64_t count, taps;
} resample_table;

static resample_table find_resample_table(const bg_kernel_call *call, const bgi_resample *s, int axis)
{
    const bgi_resample_head *head = call->scratch;
    const float *table =
        (const float *)call->scratch + BGI_RESAMPLE_HEAD_FLOATS + (axis == 0 ? 0 : head->table_floats[0]);

    return (resample_table){(const int32_t *)(const void *)table, table + s->out[axis], s->out[axis], head->taps[axis]};
}

/* Moves the first neighbor so that all taps are inside. */
static int64_t fit_resample_taps(int64_t first, int64_t taps, int64_t size)
{
    return first + taps <= size ? first : size - taps;
}

static void fill_resample_table(const bgi_resample_attributes *a, int axis, int64_t taps, float *table)
{
    const bgi_resample_axis *of = &a->axes[axis];
    const int64_t count = a->is_backward ? of->in : of->out;
    int32_t *first = (int32_t *)(void *)table;
    float *weights = table + count;
    int64_t next = 0; /* for dx: the first element whose beginning is not set yet */

    memset(weights, 0, (size_t)(count * taps) * sizeof(float));
    for (int64_t o = 0; o < of->out; o++) {
        const bgi_resample_taps own = bgi_resample_taps_of(a, of, o);

        if (!a->is_backward)
            first[o] = (int32_t)fit_resample_taps(own.first, taps, of->in);
        for (; a->is_backward && next < own.first + own.count; next++)
            first[next] = (int32_t)fit_resample_taps(o, taps, of->out);
        for (int64_t k = 0; k < own.count; k++) {
            const int64_t to = a->is_backward ? own.first + k : o, from = a->is_backward ? o : own.first + k;

            weights[(from - first[to]) * count + to] = (float)bgi_resample_weight(&own, k);
        }
    }
    for (; a->is_backward && next < count; next++)
        first[next] = (int32_t)(of->out - taps);
}

static void prepare_resample(const bg_kernel_call *call)
{
    const bgi_resample_attributes *a = call->attributes;
    const bgi_resample_head head = bgi_resample_head_make(a);
    float *tables = (float *)call->scratch + BGI_RESAMPLE_HEAD_FLOATS;

    memcpy(call->scratch, &head, sizeof head);
    fill_resample_table(a, 0, head.taps[0], tables);
    fill_resample_table(a, 1, head.taps[1], tables + head.table_floats[0]);
}

ALWAYS_INLINE vf vgather(const float *x, const int32_t *numbers, int64_t live)
{
#if LANES == 16
    const __mmask16 mask = (__mmask16)(live < 16 ? (1u << live) - 1u : 0xffffu);

    return (vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, _mm512_maskz_loadu_epi32(mask, numbers), x, 4);
#elif LANES == 8
    const __m256i mask = lane_mask(live);

    return (vf)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, _mm256_maskload_epi32(numbers, mask),
                                        _mm256_castsi256_ps(mask), 4);
#else
    float lane[LANES] = {0};

    for (int64_t l = 0; l < live; l++)
        lane[l] = x[numbers[l]];
    return vload(lane);
#endif
}

/* Computes y[o], the weighted sum of x's elements from first[o] on. */
static void resample_columns(const resample_table *t, const float *x, float *y)
{
    for (int64_t o = 0; o < t->count; o += LANES) {
        const int64_t live = t->count - o < LANES ? t->count - o : LANES;
        vf sum = vset(0.0f);

        for (int64_t k = 0; k < t->taps; k++)
            sum = vfma(vload_n(t->weights + k * t->count + o, live), vgather(x + k, t->first + o, live), sum);
        vstore_n(y + o, sum, live);
    }
}

/* Computes sum + weight x, or weight x for the first row, in `sum`. */
static void add_weighted_row(const float *x, float weight, bool is_first, int64_t count, float *sum)
{
    const vf none = vset(0.0f), factor = vset(weight);
    int64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        vstore(sum + i, vfma(factor, vload(x + i), is_first ? none : vload(sum + i)));
    if (i < count)
        vstore_n(sum + i, vfma(factor, vload_n(x + i, count - i), is_first ? none : vload_n(sum + i, count - i)),
                 count - i);
}

/* Computes row o of the result from rows of `width` elements; row r begins at element begin + r width of `data`, which
 * has type `dtype`. */
static void resample_rows(const resample_table *t, int64_t o, bg_dtype dtype, const void *data, int64_t begin,
                          int64_t width, float *buffer, float *sum)
{
    for (int64_t k = 0; k < t->taps; k++) {
        const float weight = t->weights[k * t->count + o];
        const int64_t at = begin + (t->first[o] + k) * width;

        if (k == 0 || weight != 0.0f)
            add_weighted_row(view_floats(dtype, data, at, width, buffer), weight, k == 0, width, sum);
    }
}

static void run_resample(const bg_kernel_call *call, uint32_t part)
{
    const bgi_resample_attributes *a = call->attributes;
    const bgi_resample s = bgi_resample_read(&call->types[0], &call->types[1], a);
    const bgi_resample_head *head = call->scratch;
    const resample_table rows = find_resample_table(call, &s, 0), columns = find_resample_table(call, &s, 1);
    float *buffer = bgi_cpu_part_scratch(call, s.part_floats) + head->shared_floats;
    float *middle = buffer + s.row_floats, *last = middle + s.middle_floats;
    const void *x = call->operands[0];

    for (int64_t unit = bgi_cpu_part_start(s.units, part, s.parts);
         unit < bgi_cpu_part_start(s.units, part + 1, s.parts); unit++) {
        const int64_t plane = s.columns_first ? unit : unit / s.out[0], begin = plane * s.in[0] * s.in[1];
        const int64_t from = s.columns_first ? 0 : unit % s.out[0], to = s.columns_first ? s.out[0] : from + 1;

        for (int64_t r = 0; s.columns_first && r < s.in[0]; r++)
            resample_columns(&columns, view_floats(s.dtype, x, begin + r * s.in[1], s.in[1], buffer),
                             middle + r * s.out[1]);
        for (int64_t r = from; r < to; r++) {
            const int64_t at = (plane * s.out[0] + r) * s.out[1];
            float *y = s.dtype == BG_FLOAT32 ? (float *)call->operands[1] + at : last;

            if (s.columns_first) {
                resample_rows(&rows, r, BG_FLOAT32, middle, 0, s.out[1], buffer, y);
            } else if (a->axes[0].is_same) {
                resample_columns(&columns, view_floats(s.dtype, x, begin + r * s.in[1], s.in[1], buffer), y);
            } else if (a->axes[1].is_same) {
                resample_rows(&rows, r, s.dtype, x, begin, s.in[1], buffer, y);
            } else {
                resample_rows(&rows, r, s.dtype, x, begin, s.in[1], buffer, middle);
                resample_columns(&columns, middle, y);
            }
            if (s.dtype != BG_FLOAT32)
                narrow(s.dtype, last, s.out[1], (uint16_t *)call->operands[1] + at);
        }
    }
}

#endif
